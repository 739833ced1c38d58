//! The labels of one run.

use std::ops::ControlFlow;

use iotide_analysis::{CategoryConfig, IssueConfig, Observed, categorize, issues};
use iotide_formats::{OpenOptions, ReadError, Reader};
use iotide_report::{LabelledRun, Source, Untrusted};
use iotide_trace::{AccessFacts, Activity, Event, EventSink, JobInfo, Loss, TimeSpent, Timestamp};

use crate::settings::{categories_toml, issues_toml};
use crate::{Error, Input};

/// Settings of labels and I/O issues.
#[derive(Clone, Debug, Default)]
pub struct Labelling {
    /// How labels are found.
    pub categories: CategoryConfig,
    /// How I/O issues are found; `None` does not look, which is cheaper.
    pub issues: Option<IssueConfig>,
}

impl Labelling {
    /// Returns it as text, by which results that were found in the same way are known.
    pub fn to_toml(&self) -> String {
        let rules = self.issues.as_ref().map(|rules| issues_toml(rules, false)).unwrap_or_default();
        categories_toml(&self.categories, false) + &rules
    }
}

/// How a run is read, and what is looked for in it.
#[derive(Clone, Debug, Default)]
pub struct LabelOptions {
    /// How the input is opened.
    pub open: OpenOptions,
    /// Settings of labels and I/O issues.
    pub labelling: Labelling,
}

/// Labels a run: when it reads and writes, whether periodically, and what it asks of metadata servers.
///
/// The answer has [`LabelledRun::rejected`] if the labels should not be counted.
pub fn label(input: &Input, options: &LabelOptions) -> Result<LabelledRun, Error> {
    let reader = input.open(&options.open)?;
    Ok(label_while(reader, input.name(), &options.labelling, || ControlFlow::Continue(()))?)
}

/// The same of a trace that is open, as long as `go_on` says so, which is asked every few thousand events.
///
/// If `go_on` breaks, the result has the labels of the part that was read, not those of the run.
pub fn label_while(
    reader: Reader,
    name: impl Into<Untrusted>,
    labelling: &Labelling,
    go_on: impl FnMut() -> ControlFlow<()>,
) -> Result<LabelledRun, ReadError> {
    let mut sink = Sink {
        observed: Observed::new(),
        activity: labelling.issues.is_some().then(Activity::new),
        losses: Vec::new(),
        n_more_losses: 0,
        n_events: 0,
        go_on,
    };
    let format = reader.format();
    let info = reader.read(&mut sink)?;
    let source = Source::new(name, format.name(), sink.observed.tally(), &info.job);
    let run = label_observed(sink.observed, source, &info.job, &sink.losses, &labelling.categories);
    Ok(match (sink.activity, &labelling.issues) {
        (Some(activity), Some(rules)) => {
            run.with_issues(&issues(&activity.finish(&info), &info.job, &sink.losses, rules))
        }
        _ => run,
    })
}

/// Labels a run that was read already.
pub fn label_observed(
    observed: Observed,
    source: Source,
    job: &JobInfo,
    losses: &[Loss],
    config: &CategoryConfig,
) -> LabelledRun {
    let found = categorize(observed, job, config);
    let application = job.exe.as_deref().and_then(application);
    LabelledRun::new(source, application, config.method, &found, losses)
}

/// Returns the program of a command line, by which runs are put together: the name of the executable without its folder
/// and arguments, and behind an interpreter the name of the script.
///
/// ```
/// use iotide_api::application;
///
/// assert_eq!(application("/sw/lammps/bin/lmp -in in.melt").as_deref(), Some("lmp"));
/// assert_eq!(application("/usr/bin/python3.11 -u /home/me/train.py --epochs 3").as_deref(), Some("python3.11 train.py"));
/// assert_eq!(application(" "), None);
/// ```
pub fn application(exe: &str) -> Option<String> {
    const INTERPRETERS: [&str; 7] = ["python", "perl", "Rscript", "julia", "ruby", "bash", "sh"];
    let name = |word: &str| word.rsplit('/').find(|part| !part.is_empty()).unwrap_or(word).to_owned();
    let mut words = exe.split_ascii_whitespace();
    let program = name(words.next()?);
    let is_interpreter = INTERPRETERS.iter().any(|known| {
        let version = program.strip_prefix(known);
        version.is_some_and(|version| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
    });
    let script = words.find(|word| !word.starts_with('-')).filter(|_| is_interpreter);
    Some(script.map_or(program.clone(), |script| format!("{program} {}", name(script))))
}

/// Sees the events of one run.
struct Sink<G> {
    observed: Observed,
    /// Only where issues are wanted.
    activity: Option<Activity>,
    losses: Vec<Loss>,
    n_more_losses: u64,
    n_events: u64,
    go_on: G,
}

/// How many losses are kept in words.
const MOST_LOSSES: usize = 20;

impl<G: FnMut() -> ControlFlow<()>> Sink<G> {
    /// Asks every now and then.
    fn asked(&mut self) -> ControlFlow<()> {
        self.n_events += 1;
        if self.n_events & 0xfff == 0 { (self.go_on)() } else { ControlFlow::Continue(()) }
    }
}

impl<G: FnMut() -> ControlFlow<()>> EventSink for Sink<G> {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        let _ = self.observed.event(event);
        if let Some(activity) = &mut self.activity {
            let _ = activity.event(event);
        }
        self.asked()
    }

    fn async_event(&mut self, event: Event, waited: Timestamp) -> ControlFlow<()> {
        let _ = self.observed.async_event(event, waited);
        if let Some(activity) = &mut self.activity {
            let _ = activity.async_event(event, waited);
        }
        self.asked()
    }

    fn time_spent(&mut self, spent: TimeSpent) {
        if let Some(activity) = &mut self.activity {
            activity.time_spent(spent);
        }
    }

    fn access_facts(&mut self, facts: &AccessFacts) {
        if let Some(activity) = &mut self.activity {
            activity.access_facts(facts);
        }
    }

    fn loss(&mut self, loss: Loss) {
        self.observed.loss(loss.clone());
        if self.losses.len() < MOST_LOSSES {
            self.losses.push(loss);
            return;
        }
        self.n_more_losses += 1;
        let more = Loss::of_unknown_size(format!("and {} more losses", self.n_more_losses));
        self.losses.truncate(MOST_LOSSES);
        self.losses.push(more);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issues_are_looked_for_where_they_are_wanted() {
        let mut table = String::from("# nprocs=1\nrank,op,start,end,bytes\n");
        for i in 0..2000 {
            table += &format!("0,write,{i},{i}.5,1000\n");
        }
        let log = Input::bytes("small.csv", table);
        let plain = label(&log, &LabelOptions::default()).unwrap();
        assert!(plain.issues.is_none() && !plain.to_line().contains("issues"));
        let mut wanted = LabelOptions::default();
        wanted.labelling.issues = Some(IssueConfig::default());
        let run = label(&log, &wanted).unwrap();
        let found = run.issues.as_ref().unwrap();
        assert_eq!(found.issues[0].id, "small_writes");
        // 2000 calls of half a second in 2000 s.
        assert!((found.io_share.unwrap() - 0.5).abs() < 1e-3);
        assert_eq!(run.categories, plain.categories);
    }

    #[test]
    fn a_run_is_known_by_its_program() {
        let known = |exe: &str| application(exe).unwrap();
        assert_eq!(known("./a.out"), "a.out");
        assert_eq!(known("/a/b/"), "b");
        assert_eq!(known("python3 -m pip"), "python3 pip");
        assert_eq!(known("pythonista x"), "pythonista");
        assert_eq!(known("bash"), "bash");
    }
}
