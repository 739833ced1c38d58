//! Where periods come from: the jobs' own requests, and a file that someone keeps.
//!
//! One thread, which looks now and then: an evaluation may take milliseconds, and no request shall wait for it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, SystemTime};

use iotide_analysis::online::{Predictor, PredictorConfig};
use iotide_trace::{Event, Op, Rank, Timestamp};

use crate::caller::JobName;
use crate::schedule::{Direction, PeriodSource, Scheduler, Served};

/// How often periods are looked at.
const EVERY: Duration = Duration::from_millis(250);

/// A job that has done nothing for this long is over.
const FORGET_AFTER_S: f64 = 24.0 * 3600.0;

/// Below this a prediction is a guess: the job stays where it is.
const LEAST_CONFIDENCE: f64 = 0.3;

/// Ends the thread when dropped.
#[derive(Debug)]
pub(crate) struct Rhythm {
    _running: Sender<()>,
}

impl Rhythm {
    /// Begins to keep the scheduler's periods up to date.
    pub(crate) fn start(scheduler: Scheduler, predict: bool, file: Option<PathBuf>) -> std::io::Result<Self> {
        let (running, until_dropped) = channel();
        let watch = Watch {
            scheduler,
            predictors: predict.then(HashMap::new),
            file: file.map(|path| PeriodFile { path, read: None, periods: Vec::new() }),
        };
        thread::Builder::new().name("iotide-rhythm".to_owned()).spawn(move || watch.run(&until_dropped))?;
        Ok(Self { _running: running })
    }
}

struct Watch {
    scheduler: Scheduler,
    predictors: Option<HashMap<JobName, Predictor>>,
    file: Option<PeriodFile>,
}

impl Watch {
    fn run(mut self, until_dropped: &Receiver<()>) {
        while until_dropped.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
            if let Some(file) = &mut self.file {
                for (job, period_s) in file.current() {
                    self.scheduler.set_period(job, Some(*period_s), PeriodSource::Given);
                }
            }
            let served = self.scheduler.take_served();
            if let Some(predictors) = &mut self.predictors {
                let now_s = self.scheduler.now_s();
                predict(predictors, served, now_s, |job, period_s| {
                    self.scheduler.set_period(job, Some(period_s), PeriodSource::Predicted);
                });
            }
            for gone in self.scheduler.forget_idle(FORGET_AFTER_S) {
                if let Some(predictors) = &mut self.predictors {
                    predictors.remove(&gone);
                }
            }
        }
    }
}

/// Shows each job's requests to its predictor, and says which periods are new.
fn predict(
    predictors: &mut HashMap<JobName, Predictor>,
    served: Vec<(JobName, Vec<Served>)>,
    now_s: f64,
    mut found: impl FnMut(&str, f64),
) {
    for (job, served) in served {
        let predictor = predictors.entry(job).or_insert_with(|| Predictor::new(PredictorConfig::default()));
        for served in served {
            if let Some(event) = event(&served) {
                // What this gives rise to is taken below, with all that came since.
                let _ = predictor.push_event(&event);
            }
        }
    }
    let Some(now) = Timestamp::from_secs_since_start(now_s) else { return };
    for (job, predictor) in predictors {
        // Without a period the last one holds: a job that computes for longer than before has not changed its ways.
        if let Some(prediction) = predictor.advance_to(now)
            && let Some(period_s) = prediction.period_s.filter(|_| prediction.confidence >= LEAST_CONFIDENCE)
        {
            found(job, period_s);
        }
    }
}

fn event(served: &Served) -> Option<Event> {
    let op = match served.direction {
        Direction::Read => Op::Read,
        Direction::Write => Op::Write,
    };
    let at = Timestamp::from_secs_since_start;
    Some(Event::data(op, Rank(0), at(served.arrival_s)?, at(served.end_s)?, served.bytes as f64))
}

/// A table of jobs and periods that may change.
struct PeriodFile {
    path: PathBuf,
    /// As of when it was read.
    read: Option<(SystemTime, u64)>,
    periods: Vec<(String, f64)>,
}

/// A table of periods is small.
const MAX_FILE: u64 = 16 << 20;

impl PeriodFile {
    /// Returns the table, read anew if the file has changed. A file that is missing or being written changes nothing.
    fn current(&mut self) -> &[(String, f64)] {
        let seen =
            std::fs::metadata(&self.path).ok().and_then(|file| Some((file.modified().ok()?, file.len())));
        if seen.is_some() && seen != self.read {
            let text = seen
                .filter(|(_, size)| *size <= MAX_FILE)
                .and_then(|_| std::fs::read_to_string(&self.path).ok());
            if let Some(Ok(periods)) = text.map(|text| parse_periods(&text)) {
                self.periods = periods;
            }
            self.read = seen;
        }
        &self.periods
    }
}

/// Checks that a table of periods can be read, before anything is mounted.
pub(crate) fn check_periods(path: &Path) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    parse_periods(&text).map(|_| ())
}

/// Reads periods: lines `job,seconds` (`#` and a header are passed over), or a JSON object `{"job": seconds, …}`.
fn parse_periods(text: &str) -> Result<Vec<(String, f64)>, String> {
    let text = text.trim();
    let is_json = text.starts_with('{');
    let body = if is_json {
        text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).ok_or("the object does not end")?
    } else {
        text
    };
    // Neither form has commas or colons inside a name: jobs are numbers or `uid:1000`, split at the last colon.
    let (between, inside) = if is_json { (',', ':') } else { ('\n', ',') };
    let mut periods = Vec::new();
    for (index, entry) in body.split(between).map(str::trim).enumerate() {
        if entry.is_empty() || entry.starts_with('#') || (index == 0 && entry.starts_with("job")) {
            continue;
        }
        let (job, seconds) =
            entry.rsplit_once(inside).ok_or_else(|| format!("'{entry}' is no job and its period"))?;
        let job = job.trim().trim_matches('"').to_owned();
        let seconds: f64 =
            seconds.trim().parse().map_err(|_| format!("'{entry}' has no number of seconds"))?;
        if job.is_empty() || !seconds.is_finite() || seconds <= 0.0 {
            return Err(format!("'{entry}' has no job, or no time above zero"));
        }
        periods.push((job, seconds));
    }
    Ok(periods)
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;

    #[test]
    fn periods_are_read_as_a_table_or_as_an_object() {
        let expected = [("7".to_owned(), 19.2), ("uid:1000".to_owned(), 384.0)];
        assert_eq!(parse_periods("# mine\n7,19.2\nuid:1000,384\n").unwrap(), expected);
        assert_eq!(parse_periods("job,period_s\n7, 19.2\n uid:1000 , 384").unwrap(), expected);
        assert_eq!(parse_periods("{\"7\": 19.2,\n \"uid:1000\": 384}").unwrap(), expected);
        assert_eq!(parse_periods("").unwrap(), []);
    }

    #[test]
    fn what_is_no_period_is_named() {
        for (text, named) in [("7", "'7'"), ("7,soon", "'7,soon'"), ("7,-1", "'7,-1'"), ("{\"7\": 1", "end")]
        {
            let error = parse_periods(text).unwrap_err();
            assert!(error.contains(named), "{text}: {error}");
        }
    }

    #[test]
    fn a_file_is_read_again_when_it_changes_and_kept_when_it_is_broken() {
        let dir = FreshDir::new("periods");
        let path = dir.write("periods.csv", "7,1\n");
        let mut file = PeriodFile { path, read: None, periods: Vec::new() };
        assert_eq!(file.current(), [("7".to_owned(), 1.0)]);
        dir.write("periods.csv", "7,20\n");
        assert_eq!(file.current(), [("7".to_owned(), 20.0)]);
        dir.write("periods.csv", "7 is slow\n");
        assert_eq!(file.current(), [("7".to_owned(), 20.0)]);
        std::fs::remove_file(&file.path).unwrap();
        assert_eq!(file.current(), [("7".to_owned(), 20.0)]);
    }

    #[test]
    fn a_job_that_writes_every_second_is_found_to() {
        let mut predictors = HashMap::new();
        let mut last = None;
        for tick in 0..160_u32 {
            let now_s = f64::from(tick) * 0.25;
            // 64 MiB in 64 requests at the start of every fourth tick.
            let requests = (0..64_u32).map(|index| {
                let arrival_s = now_s - 0.25 + f64::from(index) * 1e-3;
                Served { direction: Direction::Write, arrival_s, end_s: arrival_s + 1e-3, bytes: 1 << 20 }
            });
            let served = if tick % 4 == 1 { vec![("7".into(), requests.collect())] } else { Vec::new() };
            predict(&mut predictors, served, now_s, |job, period_s| {
                assert_eq!(job, "7");
                last = Some(period_s);
            });
        }
        assert!((last.unwrap() - 1.0).abs() < 0.05, "{last:?}");
    }
}
