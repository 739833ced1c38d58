//! Which runs of an archive were slow, and why.

use std::collections::BTreeMap;

use iotide_analysis::{ArchivedRun, caused, judge};
use iotide_formats::OpenOptions;
use iotide_report::{WhyArchive, WhyArchiveRun};
use iotide_trace::Loss;

use super::load::{self, Begun};
use super::{ComparedRun, Reading, StorageLoad};
use crate::{Error, Input, Progress};

/// A run of an archive, with the name of its application.
#[derive(Clone, Debug)]
pub struct ArchiveRun {
    /// Its trace.
    pub input: Input,
    /// Its application.
    pub application: String,
    /// Whether it is asked about; others are only compared with.
    pub is_asked: bool,
}

/// Runs beyond this many are left out: each keeps its phases and when it moved bytes.
const MOST_RUNS: usize = 5_000;

/// Tells of each run of an archive whether it was slow beside the others of its application, and why; and who loaded the storage then.
///
/// Runs without requests of their own times are left out and counted.
pub fn why_archive(
    runs: &[ArchiveRun],
    storage: Option<&StorageLoad>,
    open: &OpenOptions,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<WhyArchive, Error> {
    let mut losses = Vec::new();
    if runs.len() > MOST_RUNS {
        losses.push(Loss::of_unknown_size(format!(
            "the first {MOST_RUNS} of {} runs are looked at",
            runs.len()
        )));
    }
    let looked_at: Vec<&ArchiveRun> = runs.iter().take(MOST_RUNS).collect();
    let of = looked_at.len();
    let traces: Vec<ComparedRun> = looked_at.iter().map(|run| run.input.clone().into()).collect();
    let reading = Reading::new(open, storage, 1.0);
    let facts = reading.read_all(&traces.iter().collect::<Vec<_>>(), |nth, run| {
        progress(Progress::Reading { name: &run.name(), nth, of });
    });
    let Begun { load: mut server, losses: lost, .. } = reading.into_log()?;
    losses.extend(lost);
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut read, mut sources, mut n_left_out) = (Vec::new(), Vec::new(), 0);
    for (run, facts) in looked_at.into_iter().zip(facts) {
        match facts {
            Ok(one) => {
                let n_known = numbers.len();
                let application = *numbers.entry(&run.application).or_insert(n_known);
                read.push(ArchivedRun { application, facts: one.facts });
                sources.push((run, one.file_system));
            }
            Err(why) => {
                n_left_out += usize::from(run.is_asked);
                progress(Progress::LeftOut { name: &run.input.name(), why });
            }
        }
    }
    if let Some(StorageLoad::Asked(source)) = storage {
        let mut facts: Vec<&mut _> = read.iter_mut().map(|run| &mut run.facts).collect();
        let (asked, lost) = load::asked(source.as_ref(), &mut facts, progress)?;
        losses.extend(lost);
        server = asked;
    }
    let judged = judge(&read, server.as_ref());
    let caused = caused(&read, &judged);
    let mut applications = vec![String::new(); numbers.len()];
    numbers.into_iter().for_each(|(name, number)| applications[number] = name.to_owned());
    let all = read.iter().zip(&judged).zip(&sources);
    let asked = all.filter(|(_, (run, _))| run.is_asked);
    let entries = asked.map(|((read, judged), (run, file_system))| {
        let name = run.input.name();
        WhyArchiveRun::new(name, &run.application, file_system.as_deref(), &read.facts, judged)
    });
    Ok(WhyArchive::new(entries.collect(), &applications, &caused, n_left_out, &losses))
}
