//! When each job's next I/O phase begins.
//!
//! A thread of its own: an evaluation takes milliseconds, and pages are to be read meanwhile. It is told the bytes of each job ten times a second. What
//! it has no time for it is not told; the bytes are cumulative, so the next time has them.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::{io, mem};

use iotide_analysis::online::{NextPhase, Prediction, Predictor, PredictorConfig};
use iotide_ledger::{Cell, JobKey};
use iotide_trace::{Span, Timestamp};

use crate::events::Events;
use crate::leaf::JobView;
use crate::store::Figure;

use late::{Late, Stretch};

mod late;

/// Jobs that are predicted at once: those that came first among the busy. One takes less than half a mebibyte.
const MOST_JOBS: usize = 256;
/// A job is busy enough to be predicted once it has moved so much.
const LEAST_BYTES: u64 = 1 << 20;
/// Evaluations of a job are so far apart.
const APART_S: f64 = 2.0;

/// What the load that is expected is a mean over.
const LOAD_SPAN_S: f64 = 60.0;

/// What is expected of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Expected {
    /// How far apart its phases are.
    pub(crate) period_s: Option<f64>,
    /// When the next one begins, in seconds since 1970.
    pub(crate) next_phase_unix_s: Option<f64>,
    /// With which confidence.
    pub(crate) confidence: f64,
    /// What one phase moves.
    pub(crate) bytes_per_phase: Option<f64>,
    /// When that was found.
    pub(crate) at_unix_s: f64,
    /// More of the next phase.
    pub(crate) next_phase: Option<NextPhase>,
    /// How probable it is that a gap between two phases is idle.
    pub(crate) idle_probability: f64,
}

impl Expected {
    /// From a prediction on a clock that began in 1970.
    fn of(prediction: &Prediction) -> Self {
        let gap = prediction.idle_gaps.first();
        Self {
            period_s: prediction.period_s,
            next_phase_unix_s: prediction.next_phase.map(|next| next.start_s),
            confidence: prediction.confidence,
            bytes_per_phase: prediction.rhythms.first().map(|rhythm| rhythm.bytes_per_phase),
            at_unix_s: prediction.at_s,
            next_phase: prediction.next_phase,
            idle_probability: gap.map_or(prediction.confidence, |gap| gap.probability),
        }
    }

    /// Whether whoever knew the one before wants to know: another period, or another phase that comes next.
    fn is_news_after(&self, before: Option<&Self>) -> bool {
        let Some(period_s) = self.period_s else { return before.is_some_and(|it| it.period_s.is_some()) };
        let differs = |a: Option<f64>, b: Option<f64>, by_s: f64| match (a, b) {
            (Some(a), Some(b)) => (a - b).abs() > by_s,
            (a, b) => a.is_some() != b.is_some(),
        };
        before.is_none_or(|before| {
            differs(before.period_s, self.period_s, 0.01 * period_s)
                || differs(before.next_phase_unix_s, self.next_phase_unix_s, 0.1 * period_s)
        })
    }

    /// Bytes per second in the minute from now on; `None` without a period.
    pub(crate) fn load_bps(&self, now_unix_s: f64) -> Option<f64> {
        let (period_s, next_s, bytes) = (self.period_s?, self.next_phase_unix_s?, self.bytes_per_phase?);
        if !(period_s > 0.0 && bytes.is_finite() && next_s.is_finite()) {
            return None;
        }
        // A phase that should have begun is late by less than a period, or there are others behind it.
        let missed = ((now_unix_s - next_s) / period_s).ceil().max(0.0);
        let first_s = next_s + missed * period_s;
        let n_phases = ((now_unix_s + LOAD_SPAN_S - first_s) / period_s).ceil().max(0.0);
        Some(bytes * n_phases / LOAD_SPAN_S)
    }

    /// What of it is a measurement of the run.
    pub(crate) fn figures(&self) -> Vec<Figure> {
        let figure =
            |metric: &str, value: f64| Figure { callpath: "io".to_owned(), metric: metric.to_owned(), value };
        let Some(period_s) = self.period_s else { return Vec::new() };
        let bytes = self.bytes_per_phase.map(|bytes| figure(BYTES, bytes));
        std::iter::once(figure(PERIOD, period_s)).chain(bytes).collect()
    }

    /// The period of a run that has ended, and what a phase of it moved, out of its measurements.
    pub(crate) fn measured(figures: &[Figure]) -> (Option<f64>, Option<f64>) {
        let of = |metric: &str| {
            let found = figures.iter().find(|it| it.callpath == "io" && it.metric == metric);
            found.map(|figure| figure.value)
        };
        (of(PERIOD), of(BYTES))
    }
}

/// What measurements of a run are called.
const PERIOD: &str = "period";
const BYTES: &str = "bytes_per_period";

/// What is expected of all jobs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expectations(Arc<RwLock<HashMap<JobKey, Expected>>>);

impl Expectations {
    pub(crate) fn of(&self, key: &JobKey) -> Option<Expected> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(key).copied()
    }

    /// Bytes per second that a job is expected to move in the next minute: in the phases that begin in it, or as fast as now if it has no period.
    pub(crate) fn load_bps(&self, job: &JobView, now_ns: u64) -> f64 {
        let load = self.of(&job.key).and_then(|expected| expected.load_bps(now_ns as f64 / 1e9));
        load.unwrap_or(job.read_bps + job.write_bps)
    }
}

/// The jobs at one time, with what they have read and written so far.
type Reading = (u64, Vec<(JobKey, Cell)>);

/// The thread. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Predicting {
    readings: Option<SyncSender<Reading>>,
    thread: Option<JoinHandle<()>>,
}

impl Predicting {
    pub(crate) fn start(expectations: Expectations, events: Events) -> io::Result<Self> {
        let (readings, told) = sync_channel(4);
        let work = move || Predictors { jobs: HashMap::new(), expectations, events }.run(&told);
        let thread = thread::Builder::new().name("iotide-predict".to_owned()).spawn(work)?;
        Ok(Self { readings: Some(readings), thread: Some(thread) })
    }

    /// Tells what jobs have moved until now; nobody waits.
    pub(crate) fn tell(&self, now_ns: u64, jobs: Vec<(JobKey, Cell)>) {
        if let Some(readings) = &self.readings {
            let _ = readings.try_send((now_ns, jobs));
        }
    }
}

impl Drop for Predicting {
    fn drop(&mut self) {
        drop(self.readings.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Predictors {
    jobs: HashMap<JobKey, Job>,
    expectations: Expectations,
    events: Events,
}

struct Job {
    /// Begun when the job has moved enough.
    predictor: Option<Box<Predictor>>,
    until_ns: u64,
    moved: Cell,
    late: Late,
}

impl Predictors {
    fn run(mut self, told: &Receiver<Reading>) {
        while let Ok((now_ns, jobs)) = told.recv() {
            self.hear(now_ns, jobs);
        }
    }

    fn hear(&mut self, now_ns: u64, jobs: Vec<(JobKey, Cell)>) {
        let mut n_predicted = self.jobs.values().filter(|job| job.predictor.is_some()).count();
        let mut before = mem::take(&mut self.jobs);
        for (key, moved) in jobs {
            let new = || Job { predictor: None, until_ns: now_ns, moved, late: Late::default() };
            let mut job = before.remove(&key).unwrap_or_else(new);
            if job.predictor.is_none() && moved.bytes >= LEAST_BYTES && n_predicted < MOST_JOBS {
                n_predicted += 1;
                let config =
                    PredictorConfig { apart_s: APART_S, resolution_s: 0.05, ..PredictorConfig::default() };
                job.predictor = Some(Box::new(Predictor::new(config)));
            }
            if now_ns > job.until_ns {
                let ended = Cell {
                    calls: moved.calls.saturating_sub(job.moved.calls),
                    bytes: moved.bytes.saturating_sub(job.moved.bytes),
                    ns: moved.ns.saturating_sub(job.moved.ns),
                };
                for Stretch { from_ns, to_ns, bytes } in job.late.add(job.until_ns, now_ns, ended) {
                    let span = Span { start: moment(from_ns), end: moment(to_ns) };
                    let rate_bps = bytes / ((to_ns - from_ns) as f64 / 1e9);
                    let found = job.predictor.as_mut().and_then(|it| it.push_sample(span, rate_bps));
                    let Some(prediction) = found else { continue };
                    let expected = Expected::of(&prediction);
                    let mut all = self.expectations.0.write().unwrap_or_else(PoisonError::into_inner);
                    let before = all.insert(key.clone(), expected);
                    drop(all);
                    if expected.is_news_after(before.as_ref()) {
                        self.events.expected(&key, &expected);
                    }
                }
                (job.until_ns, job.moved) = (now_ns, moved);
            }
            self.jobs.insert(key, job);
        }
        if !before.is_empty() {
            let jobs = &self.jobs;
            self.expectations
                .0
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .retain(|key, _| jobs.contains_key(key));
        }
    }
}

fn moment(unix_ns: u64) -> Timestamp {
    Timestamp::from_nanos_since_start(i64::try_from(unix_ns).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_ledger::{JobId, Name};

    fn key(id: &str) -> JobKey {
        JobKey { cluster: Name::default(), uid: 1000, id: JobId::new(id).unwrap(), start_ns: 5 }
    }

    #[test]
    fn the_load_of_the_next_minute_is_that_of_its_phases() {
        let expected = |period_s: f64, next_phase_unix_s: f64| Expected {
            period_s: Some(period_s),
            next_phase_unix_s: Some(next_phase_unix_s),
            confidence: 0.9,
            bytes_per_phase: Some(600.0),
            at_unix_s: 900.0,
            next_phase: None,
            idle_probability: 0.9,
        };
        let load = |period_s, next| expected(period_s, next).load_bps(1000.0).unwrap();
        assert_eq!(load(10.0, 1005.0), 60.0, "six phases");
        assert_eq!(load(10.0, 1000.0), 60.0);
        assert_eq!(load(10.0, 985.0), 60.0, "one that is late");
        assert_eq!(load(600.0, 1030.0), 10.0);
        assert_eq!(load(600.0, 1061.0), 0.0);
        assert_eq!(Expected { period_s: None, ..expected(1.0, 1.0) }.load_bps(1000.0), None);
    }

    #[test]
    fn a_job_that_writes_every_ten_seconds_is_expected_to_go_on() {
        let expectations = Expectations::default();
        let mut predictors = Predictors {
            jobs: HashMap::new(),
            expectations: expectations.clone(),
            events: Events::default(),
        };
        let start_s = 1_700_000_000;
        let mut bytes = 0;
        for tenth in 0..1250u64 {
            // A phase of one second at the begin of each ten.
            bytes += if tenth % 100 < 10 { 100_000_000 } else { 0 };
            let now_ns = start_s * 1_000_000_000 + tenth * 100_000_000;
            let cell = |bytes: u64| Cell { calls: bytes >> 20, bytes, ns: bytes };
            predictors.hear(now_ns, vec![(key("a"), cell(bytes)), (key("idle"), cell(100))]);
        }
        let expected = expectations.of(&key("a")).unwrap();
        let period = expected.period_s.unwrap();
        assert!((9.9..10.1).contains(&period), "{expected:?}");
        let next = expected.next_phase_unix_s.unwrap() - start_s as f64;
        assert!((129.0..131.0).contains(&next), "{expected:?}");
        assert_eq!(expectations.of(&key("idle")), None);
        // A job that has ended is forgotten.
        predictors.hear(2_000_000_000_000_000_000, Vec::new());
        assert_eq!(expectations.of(&key("a")), None);
    }
}
