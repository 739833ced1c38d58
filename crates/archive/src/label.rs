//! From one log to its labels, with a limit on everything.

use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, UNIX_EPOCH};

use iotide_api::{Labelling, label_while};
use iotide_formats::OpenOptions;
use iotide_report::{LabelledRun, LogIdentity};

/// Limits on the cost of a single log, beyond which it is given up.
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

/// Outcome of a log of an archive.
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
    let (until, mut given_up) = (Instant::now() + limits.time, None);
    let go_on = || {
        if stop.load(Ordering::Relaxed) {
            given_up = Some(GivenUp::Stopped);
        } else if Instant::now() > until {
            given_up = Some(GivenUp::TimeIsOver);
        }
        if given_up.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let run = options.open(file).and_then(|reader| label_while(reader, path, labelling, go_on));
    let labelled = match (run, given_up) {
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

#[derive(Clone, Copy)]
enum GivenUp {
    TimeIsOver,
    Stopped,
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
}
