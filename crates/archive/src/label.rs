//! From one log to its labels, with a limit on everything.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use iotide_analysis::{CategoryConfig, InsightConfig, Observed, categorize, insights};
use iotide_formats::{OpenOptions, ReadError, Reader};
use iotide_report::{LabelledRun, LogIdentity, Source, Untrusted};
use iotide_trace::{AccessFacts, Activity, Event, EventSink, JobInfo, Loss, TimeSpent, Timestamp};

/// What a single log may cost before it is given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest file that is opened.
    pub bytes: u64,
    /// The longest time spent on one log. A reader is asked to stop when it is over; one that does not listen is left
    /// behind a little later.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 4 << 30, time: Duration::from_secs(300) }
    }
}

/// What is looked for in a run.
#[derive(Clone, Debug, Default)]
pub struct Labelling {
    /// How labels are found.
    pub categories: CategoryConfig,
    /// By which rules to say what storage does not like; `None` does not look, which is cheaper.
    pub insights: Option<InsightConfig>,
}

/// Reads a trace called `name` and labels it.
///
/// The answer bears [`LabelledRun::rejected`] if the labels should not be counted.
pub fn label(
    reader: Reader,
    name: impl Into<Untrusted>,
    labelling: &Labelling,
) -> Result<LabelledRun, ReadError> {
    let mut sink = Sink::new(labelling, None);
    label_with(reader, name, labelling, &mut sink)
}

fn label_with(
    reader: Reader,
    name: impl Into<Untrusted>,
    labelling: &Labelling,
    sink: &mut Sink<'_>,
) -> Result<LabelledRun, ReadError> {
    let format = reader.format();
    let info = reader.read(sink)?;
    let source = Source::new(name, format.name(), sink.observed.tally(), &info.job);
    let observed = std::mem::take(&mut sink.observed);
    let run = label_observed(observed, source, &info.job, &sink.losses, &labelling.categories);
    Ok(match (sink.activity.take(), &labelling.insights) {
        (Some(activity), Some(rules)) => {
            run.with_insights(&insights(&activity.finish(&info), &info.job, rules))
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

/// What came of a log of an archive.
pub(crate) enum Labelled {
    Run(Box<LabelledRun>),
    Rejected {
        why: String,
    },
    /// It is as it was when it was read before.
    Known,
    /// The work was stopped before it was done.
    Stopped,
}

/// Labels the log at `path`, which is at `real` if its name is not text, unless it is still the one that was `known` before. `begin` is
/// called before it is opened.
#[allow(clippy::too_many_arguments)] // what a log is, how it is read, and who is told
pub(crate) fn label_log(
    path: &str,
    real: Option<&Path>,
    known: Option<LogIdentity>,
    options: &OpenOptions,
    labelling: &Labelling,
    limits: &Limits,
    stop: &AtomicBool,
    begin: &dyn Fn(),
) -> (Option<LogIdentity>, Labelled) {
    let rejected = |why: String| Labelled::Rejected { why: without_path(&why, path) };
    let file = real.unwrap_or(Path::new(path));
    let metadata = match fs::metadata(file) {
        Ok(metadata) => metadata,
        Err(error) => return (None, rejected(error.to_string())),
    };
    let identity = Some(identity(&metadata));
    if known.is_some() && known == identity {
        return (identity, Labelled::Known);
    }
    let why_not = if metadata.is_dir() {
        let link = !path.ends_with('/') && fs::symlink_metadata(file).is_ok_and(|link| link.is_symlink());
        let trace = !link && iotide_formats::is_one_trace(file);
        (!trace).then(|| if link { "a link to a folder".to_owned() } else { "a folder".to_owned() })
    } else if !metadata.is_file() {
        Some("neither a file nor a folder".to_owned())
    } else {
        (metadata.len() > limits.bytes).then(|| {
            format!("it is larger ({} bytes) than the limit ({} bytes)", metadata.len(), limits.bytes)
        })
    };
    if let Some(why) = why_not {
        return (identity, rejected(why));
    }
    begin();
    let patience = Patience { until: Instant::now() + limits.time, stop, given_up: None };
    let mut sink = Sink::new(labelling, Some(patience));
    let run = options.open(file).and_then(|reader| label_with(reader, path, labelling, &mut sink));
    let labelled = match (run, sink.patience.and_then(|patience| patience.given_up)) {
        (_, Some(GivenUp::Stopped)) => Labelled::Stopped,
        (_, Some(GivenUp::TimeIsOver)) => {
            rejected(format!("it took longer than the limit of {} s", limits.time.as_secs()))
        }
        (Err(error), None) => rejected(error.to_string()),
        (Ok(run), None) => match &run.rejected {
            Some(why) => rejected(why.as_said().to_owned()),
            None if !run.has_finite_sums() => rejected("its sums are not finite".to_owned()),
            None => Labelled::Run(Box::new(LabelledRun { log: identity, ..run })),
        },
    };
    (identity, labelled)
}

/// Messages of readers begin with the path, which stands beside the reason already.
fn without_path(why: &str, path: &str) -> String {
    let rest = why.strip_prefix(path).map(|rest| rest.trim_start_matches([',', ':', ' ']));
    rest.filter(|rest| !rest.is_empty()).unwrap_or(why).to_owned()
}

/// Returns what a log is like now, if it is there.
pub(crate) fn identity_at(file: &Path) -> Option<LogIdentity> {
    fs::metadata(file).ok().map(|metadata| identity(&metadata))
}

fn identity(metadata: &fs::Metadata) -> LogIdentity {
    let mtime_ns = metadata.modified().map_or(0, |time| match time.duration_since(UNIX_EPOCH) {
        Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
        Err(before) => -i64::try_from(before.duration().as_nanos()).unwrap_or(i64::MAX),
    });
    LogIdentity { bytes: metadata.len(), mtime_ns }
}

/// Returns the program of a command line, by which runs are put together: the name of the executable without its folder
/// and arguments, and behind an interpreter the name of the script.
///
/// ```
/// use iotide_archive::application;
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
struct Sink<'a> {
    observed: Observed,
    /// Only where insights are wanted.
    activity: Option<Activity>,
    losses: Vec<Loss>,
    n_more_losses: u64,
    n_events: u64,
    patience: Option<Patience<'a>>,
}

/// How long someone waits.
struct Patience<'a> {
    until: Instant,
    stop: &'a AtomicBool,
    given_up: Option<GivenUp>,
}

#[derive(Clone, Copy)]
enum GivenUp {
    TimeIsOver,
    Stopped,
}

impl<'a> Sink<'a> {
    /// How many losses are kept in words.
    const MOST_LOSSES: usize = 20;

    fn new(labelling: &Labelling, patience: Option<Patience<'a>>) -> Self {
        let activity = labelling.insights.is_some().then(Activity::new);
        Self {
            observed: Observed::new(),
            activity,
            losses: Vec::new(),
            n_more_losses: 0,
            n_events: 0,
            patience,
        }
    }

    /// Looks at the clock every now and then.
    fn go_on(&mut self) -> ControlFlow<()> {
        self.n_events += 1;
        if self.n_events & 0xfff != 0 {
            return ControlFlow::Continue(());
        }
        let Some(patience) = &mut self.patience else { return ControlFlow::Continue(()) };
        if patience.stop.load(Ordering::Relaxed) {
            patience.given_up = Some(GivenUp::Stopped);
        } else if Instant::now() > patience.until {
            patience.given_up = Some(GivenUp::TimeIsOver);
        }
        if patience.given_up.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

impl EventSink for Sink<'_> {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        let _ = self.observed.event(event);
        if let Some(activity) = &mut self.activity {
            let _ = activity.event(event);
        }
        self.go_on()
    }

    fn async_event(&mut self, event: Event, waited: Timestamp) -> ControlFlow<()> {
        let _ = self.observed.async_event(event, waited);
        if let Some(activity) = &mut self.activity {
            let _ = activity.async_event(event, waited);
        }
        self.go_on()
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
        if self.losses.len() < Self::MOST_LOSSES {
            self.losses.push(loss);
            return;
        }
        self.n_more_losses += 1;
        let more = Loss::of_unknown_size(format!("and {} more losses", self.n_more_losses));
        self.losses.truncate(Self::MOST_LOSSES);
        self.losses.push(more);
    }
}

#[cfg(test)]
#[allow(dead_code)]
#[path = "../../formats/tests/it/darshan/writer.rs"]
mod darshan_log;

#[cfg(test)]
mod tests {
    use super::darshan_log::LogWriter;
    use super::*;
    use iotide_formats::darshan::{Compression, Endian};
    use iotide_testkit::FreshDir;

    fn labelled(path: &Path, limits: Limits) -> (Option<LogIdentity>, Labelled) {
        let path = path.to_str().unwrap();
        label_log(
            path,
            None,
            None,
            &OpenOptions::default(),
            &Labelling::default(),
            &limits,
            &AtomicBool::new(false),
            &|| (),
        )
    }

    #[track_caller]
    fn why(path: &Path, limits: Limits) -> String {
        match labelled(path, limits).1 {
            Labelled::Rejected { why } => why,
            _ => panic!("it was not rejected"),
        }
    }

    #[test]
    fn a_log_has_labels_and_an_identity() {
        let dir = FreshDir::new("label");
        let log = dir.write(
            "a.csv",
            "# runtime_s=100\n# exe=/bin/app -x\nrank,op,start,end,bytes\n0,write,90,99,200000000\n",
        );
        let (identity, Labelled::Run(run)) = labelled(&log, Limits::default()) else { panic!("rejected") };
        assert!(run.categories.contains(&"write_on_end"), "{:?}", run.categories);
        assert_eq!(
            (run.application.as_ref().map(iotide_report::Untrusted::as_said), run.log),
            (Some("app"), identity)
        );
        let stop = AtomicBool::new(false);
        let again = label_log(
            log.to_str().unwrap(),
            None,
            identity,
            &OpenOptions::default(),
            &Labelling::default(),
            &Limits::default(),
            &stop,
            &|| (),
        );
        assert!(matches!(again.1, Labelled::Known));
    }

    #[test]
    fn what_is_no_log_is_rejected_with_a_reason() {
        let dir = FreshDir::new("label-rejected");
        let limits = Limits::default();
        assert_eq!(why(&dir.write("empty", ""), limits), "is empty");
        assert!(why(&dir.write("text", "hello"), limits).starts_with("is not a trace in any known format"));
        assert!(why(&dir.join("missing"), limits).starts_with("No such file"));
        assert_eq!(why(dir.path(), limits), "a folder");
        let small = Limits { bytes: 10, ..limits };
        let log = dir.write("large.csv", "rank,op,start,end,bytes\n");
        assert_eq!(why(&log, small), "it is larger (24 bytes) than the limit (10 bytes)");
    }

    #[test]
    fn a_darshan_log_that_is_cut_anywhere_is_rejected() {
        let dir = FreshDir::new("label-cut");
        for (compression, step) in [(Compression::Zlib, 1), (Compression::Bzip2, 7), (Compression::None, 13)]
        {
            let whole = LogWriter::rich(41, Endian::Little, compression).write();
            assert!(matches!(labelled(&dir.write("whole", &whole), Limits::default()).1, Labelled::Run(_)));
            for length in (0..whole.len()).step_by(step) {
                let reason = why(&dir.write("cut", &whole[..length]), Limits::default());
                let known = [
                    "is empty",
                    "is not a trace",
                    "ends within its header",
                    "holds no record",
                    "not whole: ",
                ];
                assert!(known.iter().any(|known| reason.contains(known)), "{length}: {reason}");
            }
        }
    }

    #[test]
    fn insights_are_looked_for_where_they_are_wanted() {
        let dir = FreshDir::new("label-wanted");
        let mut table = String::from("# nprocs=1\nrank,op,start,end,bytes\n");
        for i in 0..2000 {
            table += &format!("0,write,{i},{i}.5,1000\n");
        }
        let log = dir.write("small.csv", table);
        let (_, Labelled::Run(plain)) = labelled(&log, Limits::default()) else { panic!("rejected") };
        assert!(plain.insights.is_none() && !plain.to_line().contains("insights"));
        let wanted = Labelling { insights: Some(InsightConfig::default()), ..Labelling::default() };
        let reader = iotide_formats::open(&log).unwrap();
        let run = label(reader, "small.csv", &wanted).unwrap();
        let rules: Vec<_> = run.insights.iter().flatten().map(|insight| insight.rule).collect();
        assert_eq!(rules, ["small_writes"]);
        assert_eq!(run.categories, plain.categories);
    }

    #[test]
    fn a_log_that_takes_too_long_is_given_up() {
        let dir = FreshDir::new("label-slow");
        let mut table = String::from("rank,op,start,end,bytes\n");
        for i in 0..5000 {
            table += &format!("0,write,{i},{i}.5,1000\n");
        }
        let log = dir.write("slow.csv", table);
        let no_time = Limits { time: Duration::ZERO, ..Limits::default() };
        assert_eq!(why(&log, no_time), "it took longer than the limit of 0 s");
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
