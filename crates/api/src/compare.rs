//! Runs side by side.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;

use iotide_analysis::{CategoryConfig, IssueConfig, RunConfig, StatedRun, analyse_run, issues};
use iotide_formats::OpenOptions;
use iotide_report::{CompareDocument, CompareSettings, FileRhythm, MeasuredRun, Untrusted};
use iotide_trace::{
    AccessFacts, Activity, ActivitySums, Direction, Event, EventSink, FileActivity, Loss, Op, Overlap,
    StepSignal, TimeSpent, Timestamp, TraceInfo,
};

use crate::detect::analyse;
use crate::label::label_observed;
use crate::{Error, Input, observe};

/// How runs are read and compared.
#[derive(Clone, Debug, Default)]
pub struct CompareOptions {
    /// How inputs are opened.
    pub open: OpenOptions,
    /// How the period of a run is found.
    pub run: RunConfig,
    /// How its labels are found.
    pub categories: CategoryConfig,
    /// How its I/O issues are found.
    pub issues: IssueConfig,
    /// How sides are compared.
    pub settings: CompareSettings,
}

/// Compares sides, of one run or several each, with the first side: what differs and by how much.
///
/// An input that cannot be read is an error; so are fewer than two sides, and a side without a run.
pub fn compare(sides: &[Vec<Input>], options: &CompareOptions) -> Result<CompareDocument, Error> {
    let mut measured = Vec::new();
    for side in sides {
        measured.push(side.iter().map(|input| measure(input, options)).collect::<Result<Vec<_>, _>>()?);
    }
    compare_measured(measured, options)
}

/// The same of runs that were measured one by one.
pub fn compare_measured(
    sides: Vec<Vec<MeasuredRun>>,
    options: &CompareOptions,
) -> Result<CompareDocument, Error> {
    if sides.len() < 2 || sides.iter().any(Vec::is_empty) {
        return Err(Error::OneSide);
    }
    Ok(CompareDocument::new(sides, &options.settings))
}

/// Puts runs of the same application on one side, in the order in which applications first come; runs of which the program is not known are
/// one side together.
pub fn by_application(runs: Vec<MeasuredRun>) -> Vec<Vec<MeasuredRun>> {
    let mut sides: Vec<Vec<MeasuredRun>> = Vec::new();
    let mut places: BTreeMap<Option<Untrusted>, usize> = BTreeMap::new();
    for run in runs {
        let place = *places.entry(run.application().cloned()).or_insert(sides.len());
        if place == sides.len() {
            sides.push(Vec::new());
        }
        sides[place].push(run);
    }
    sides
}

/// Reads a run and takes the numbers by which it is compared.
pub fn measure(input: &Input, options: &CompareOptions) -> Result<MeasuredRun, Error> {
    let mut observed = observe::<(Activity, iotide_analysis::Observed)>(input, &options.open)?;
    let (activity, seen) = std::mem::take(&mut observed.beside);
    let (run, _) = analyse(&observed, &options.run)?;
    let sums: ActivitySums = activity.finish(&observed.info);
    let job = &observed.info.job;
    let labels = label_observed(seen, observed.source.clone(), job, &observed.losses, &options.categories);
    let found = issues(&sums, job, &observed.losses, &options.issues);
    let run = run.with_activity(&sums).with_issues(&found).with_labels(labels.clone());
    let rhythms = if input.is_stdin() {
        None
    } else {
        Some(file_rhythms(input, options, &sums, &observed.info, observed.stated)?)
    };
    Ok(MeasuredRun::new(run, &labels, &sums, rhythms, (&observed.reads, &observed.writes)))
}

/// How many files are looked at one by one, the heaviest: each takes up to 12 MB while it is added up.
const MOST_FILES: usize = 12;

/// Finds how often the heaviest files are used, in a second reading: which files those are is known after the first.
fn file_rhythms(
    input: &Input,
    options: &CompareOptions,
    sums: &ActivitySums,
    info: &TraceInfo,
    stated: StatedRun,
) -> Result<Vec<FileRhythm>, Error> {
    let heaviest: Vec<&FileActivity> =
        sums.files.iter().filter(|file| file.sums.bytes() > 0.0).take(MOST_FILES).collect();
    if heaviest.is_empty() {
        return Ok(Vec::new());
    }
    let places: HashMap<&str, usize> =
        heaviest.iter().enumerate().map(|(i, file)| (file.path.as_str(), i)).collect();
    let mut sink = FileSignals {
        place_of: (info.files.iter().enumerate())
            .filter_map(|(id, path)| Some((id as u32, *places.get(path.as_str())?)))
            .collect(),
        signals: heaviest
            .iter()
            .map(|file| {
                let op = if file.sums.bytes_read > file.sums.bytes_written { Op::Read } else { Op::Write };
                FileSignal { op, overlap: Overlap::new(), n_requests: 0 }
            })
            .collect(),
    };
    let again = input.open(&options.open)?.read(&mut sink)?;
    // A file that changed meanwhile, or a reader that counts files in another order, must not give one file the rhythm of another.
    if again.files != info.files {
        return Ok(Vec::new());
    }
    let silence = StepSignal::default();
    let rhythms = sink.signals.into_iter().zip(heaviest).filter_map(
        |(FileSignal { op, overlap, n_requests }, file)| {
            let signal = overlap.finish();
            let direction = if op == Op::Read { Direction::Read } else { Direction::Write };
            let stated = StatedRun { n_requests, ..stated };
            let config = RunConfig { direction: Some(direction), stated, ..options.run.clone() };
            let (reads, writes) = if op == Op::Read { (&signal, &silence) } else { (&silence, &signal) };
            let analysis = analyse_run(reads, writes, &config).ok()?;
            // A beat of which a thousand fit into the use of the file is that of requests.
            let shortest_s = analysis.window.duration_s() / 1000.0;
            Some(FileRhythm {
                path: Untrusted::from(&file.path),
                period_s: analysis.estimate.period_s.filter(|period_s| *period_s >= shortest_s)?,
                direction: op.name(),
                n_phases: analysis.estimate.phases.len() as u64,
            })
        },
    );
    Ok(rhythms.collect())
}

/// The bandwidth of a few files, each in the direction that moves more.
struct FileSignals {
    /// By the number of the file.
    place_of: HashMap<u32, usize>,
    signals: Vec<FileSignal>,
}

struct FileSignal {
    op: Op,
    overlap: Overlap,
    n_requests: u64,
}

impl EventSink for FileSignals {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        if event.op.moves_data()
            && let Some(&place) = self.place_of.get(&event.file.0)
            && let Some(signal) = self.signals.get_mut(place)
            && signal.op == event.op
        {
            signal.overlap.add(event.start, event.end, event.bytes);
            signal.n_requests += 1;
        }
        ControlFlow::Continue(())
    }

    fn async_event(&mut self, event: Event, _: Timestamp) -> ControlFlow<()> {
        self.event(event)
    }

    fn time_spent(&mut self, _: TimeSpent) {}

    fn access_facts(&mut self, _: &AccessFacts) {}

    fn loss(&mut self, _: Loss) {}
}
