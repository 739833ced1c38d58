//! When each job's next I/O phase begins.
//!
//! Only what processes of this machine move is evaluated: it is sampled ten times a second. Of jobs on other machines, their daemons send what they
//! found ([`Outlook`]).
//!
//! A thread of its own: an evaluation takes milliseconds, and pages are to be read meanwhile. It is told the bytes of each job ten times a second. What
//! it has no time for it is not told; the bytes are cumulative, so the next time has them.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::{io, mem};

use iotide_analysis::online::{NextPhase, Prediction, Predictor, PredictorConfig};
use iotide_ledger::tree::Outlook;
use iotide_ledger::{Cell, JobKey};
use iotide_private::{Share, Shares};
use iotide_trace::{Span, Timestamp};

use crate::events::Events;
use crate::leaf::JobView;
use crate::store::Figure;

use late::{Late, Stretch};
use steady::Readings;

mod late;
mod steady;

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
pub struct Expected {
    /// How far apart its phases are.
    pub period_s: Option<f64>,
    /// When the next one begins, in seconds since 1970.
    pub next_phase_unix_s: Option<f64>,
    /// With which confidence.
    pub confidence: f64,
    /// What one phase moves.
    pub bytes_per_phase: Option<f64>,
    /// When that was found.
    pub at_unix_s: f64,
    /// More of the next phase.
    pub next_phase: Option<NextPhase>,
    /// How probable it is that a gap between two phases is idle.
    pub idle_probability: f64,
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

    /// The same without a period: what was found is a rhythm of the sampling.
    fn without_period(self) -> Self {
        Self { period_s: None, next_phase_unix_s: None, bytes_per_phase: None, next_phase: None, ..self }
    }

    /// In the form in which it is sent to a daemon above.
    fn outlook(&self, moved_bytes: u64) -> Outlook {
        let ns = |seconds: f64| (seconds.max(0.0) * 1e9).round() as u64;
        let ppm = |share: f64| (share.clamp(0.0, 1.0) * 1e6).round() as u32;
        let next = self.next_phase;
        let of_next = |get: fn(NextPhase) -> f64| next.map_or(0, |next| ns(get(next)));
        Outlook {
            at_ns: ns(self.at_unix_s),
            moved_bytes,
            period_ns: self.period_s.map_or(0, ns),
            confidence_ppm: ppm(self.confidence),
            idle_ppm: ppm(self.idle_probability),
            next_ns: self.next_phase_unix_s.map_or(0, ns),
            early_ns: of_next(|next| next.start_s - next.start_interval_s.0),
            late_ns: of_next(|next| next.start_interval_s.1 - next.start_s),
            phase_ns: of_next(|next| next.duration_s),
            phase_bytes: self.bytes_per_phase.map_or(0, |bytes| bytes.max(0.0).round() as u64),
        }
    }

    /// The reverse of [`Expected::outlook`].
    fn of_outlook(outlook: &Outlook) -> Self {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let period_s = (outlook.period_ns > 0).then(|| seconds(outlook.period_ns));
        let bytes = outlook.phase_bytes as f64;
        let next_phase = (period_s.is_some() && outlook.next_ns > 0).then(|| {
            let start_s = seconds(outlook.next_ns);
            let start_interval_s = (start_s - seconds(outlook.early_ns), start_s + seconds(outlook.late_ns));
            NextPhase { start_s, start_interval_s, bytes, duration_s: seconds(outlook.phase_ns) }
        });
        Self {
            period_s,
            next_phase_unix_s: next_phase.map(|next| next.start_s),
            confidence: f64::from(outlook.confidence_ppm) / 1e6,
            bytes_per_phase: period_s.map(|_| bytes),
            at_unix_s: seconds(outlook.at_ns),
            next_phase,
            idle_probability: f64::from(outlook.idle_ppm) / 1e6,
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
    pub fn load_bps(&self, now_unix_s: f64) -> Option<f64> {
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
    pub fn figures(&self) -> Vec<Figure> {
        let figure =
            |metric: &str, value: f64| Figure { callpath: "io".to_owned(), metric: metric.to_owned(), value };
        let Some(period_s) = self.period_s else { return Vec::new() };
        let bytes = self.bytes_per_phase.map(|bytes| figure(BYTES, bytes));
        std::iter::once(figure(PERIOD, period_s)).chain(bytes).collect()
    }

    /// The period of a run that has ended, and what a phase of it moved, out of its measurements.
    pub fn measured(figures: &[Figure]) -> (Option<f64>, Option<f64>) {
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
pub struct Expectations(Arc<RwLock<Known>>);

#[derive(Debug, Default)]
struct Known {
    /// From samples of this machine, and the bytes that were moved here by then.
    here: HashMap<JobKey, (Expected, u64)>,
    /// From those of machines below.
    below: HashMap<JobKey, Outlook>,
}

impl Known {
    fn of(&self, key: &JobKey) -> Option<Expected> {
        match (self.here.get(key), self.below.get(key)) {
            (here, None) => here.map(|(expected, _)| *expected),
            (here, Some(below)) => {
                let here = here.map(|(expected, moved_bytes)| expected.outlook(*moved_bytes));
                Outlook::merge(here.into_iter().chain([*below])).map(|it| Expected::of_outlook(&it))
            }
        }
    }

    /// Changes something, and returns what is expected of a job then if that is news.
    fn change(&mut self, key: &JobKey, change: impl FnOnce(&mut Self)) -> Option<Expected> {
        let before = self.of(key);
        change(self);
        self.of(key).filter(|expected| expected.is_news_after(before.as_ref()))
    }
}

impl Expectations {
    /// What is expected of a job.
    pub fn of(&self, key: &JobKey) -> Option<Expected> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).of(key)
    }

    /// What was found from samples of this machine, for the daemon above.
    pub(crate) fn outlook_here(&self, key: &JobKey) -> Option<Outlook> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.here.get(key).map(|(expected, moved_bytes)| expected.outlook(*moved_bytes))
    }

    /// Takes note of what machines below have found; returns what is expected now if that is news.
    pub(crate) fn set_below(&self, key: &JobKey, outlook: Outlook) -> Option<Expected> {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.change(key, |known| _ = known.below.insert(key.clone(), outlook))
    }

    fn set_here(&self, key: &JobKey, expected: Expected, moved_bytes: u64) -> Option<Expected> {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        known.change(key, |known| _ = known.here.insert(key.clone(), (expected, moved_bytes)))
    }

    /// Bytes per second that a job is expected to move in the next minute: in the phases that begin in it, or as fast as now if it has no period.
    pub fn load_bps(&self, job: &JobView, now_ns: u64) -> f64 {
        let load = self.of(&job.key).and_then(|expected| expected.load_bps(now_ns as f64 / 1e9));
        load.unwrap_or(job.read_bps + job.write_bps)
    }
}

/// The jobs at one time, with what they have read and written so far.
type Reading = (u64, Vec<(JobKey, Cell)>);

/// The thread. It ends when this is dropped.
#[derive(Debug)]
pub struct Predicting {
    readings: Option<SyncSender<Reading>>,
    thread: Option<JoinHandle<()>>,
}

impl Predicting {
    /// Starts the thread that predicts.
    pub fn start(expectations: Expectations, events: Events) -> io::Result<Self> {
        let (readings, told) = sync_channel(4);
        let work = move || Predictors::new(expectations, events).run(&told);
        let thread = thread::Builder::new().name("iotide-predict".to_owned()).spawn(work)?;
        Ok(Self { readings: Some(readings), thread: Some(thread) })
    }

    /// Tells what jobs have moved until now; nobody waits.
    pub fn tell(&self, now_ns: u64, jobs: Vec<(JobKey, Cell)>) {
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
    /// Room for predictors, with a share for each user.
    places: Shares,
}

struct Job {
    /// Begun when the job has moved enough and there is room for it.
    predictor: Option<(Box<Predictor>, Share)>,
    until_ns: u64,
    moved: Cell,
    late: Late,
    readings: Readings,
}

impl Predictors {
    fn new(expectations: Expectations, events: Events) -> Self {
        let is_root = rustix::process::geteuid().is_root();
        let places = if is_root { Shares::among_users(MOST_JOBS) } else { Shares::for_one(MOST_JOBS) };
        Self { jobs: HashMap::new(), expectations, events, places }
    }

    fn run(mut self, told: &Receiver<Reading>) {
        while let Ok((now_ns, jobs)) = told.recv() {
            self.hear(now_ns, jobs);
        }
    }

    fn hear(&mut self, now_ns: u64, jobs: Vec<(JobKey, Cell)>) {
        let mut before = mem::take(&mut self.jobs);
        for (key, moved) in jobs {
            let new = || Job {
                predictor: None,
                until_ns: now_ns,
                moved,
                late: Late::default(),
                readings: Readings::default(),
            };
            let mut job = before.remove(&key).unwrap_or_else(new);
            if job.predictor.is_none()
                && moved.bytes >= LEAST_BYTES
                && let Some(place) = self.places.take(key.uid)
            {
                let config =
                    PredictorConfig { apart_s: APART_S, resolution_s: 0.05, ..PredictorConfig::default() };
                job.predictor = Some((Box::new(Predictor::new(config)), place));
            }
            if now_ns > job.until_ns {
                let ended = Cell {
                    calls: moved.calls.saturating_sub(job.moved.calls),
                    bytes: moved.bytes.saturating_sub(job.moved.bytes),
                    ns: moved.ns.saturating_sub(job.moved.ns),
                };
                job.readings.add(ended.bytes);
                for Stretch { from_ns, to_ns, bytes } in job.late.add(job.until_ns, now_ns, ended) {
                    let span = Span { start: moment(from_ns), end: moment(to_ns) };
                    let rate_bps = bytes / ((to_ns - from_ns) as f64 / 1e9);
                    let found = job.predictor.as_mut().and_then(|(it, _)| it.push_sample(span, rate_bps));
                    let Some(prediction) = found else { continue };
                    let mut expected = Expected::of(&prediction);
                    if expected.period_s.is_some_and(|period_s| job.readings.explain(period_s)) {
                        expected = expected.without_period();
                    }
                    if let Some(news) = self.expectations.set_here(&key, expected, moved.bytes) {
                        self.events.expected(&key, &news);
                    }
                }
                (job.until_ns, job.moved) = (now_ns, moved);
            }
            self.jobs.insert(key, job);
        }
        if !before.is_empty() {
            let jobs = &self.jobs;
            let mut known = self.expectations.0.write().unwrap_or_else(PoisonError::into_inner);
            known.here.retain(|key, _| jobs.contains_key(key));
            known.below.retain(|key, _| jobs.contains_key(key));
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
        let mut predictors = Predictors::new(expectations.clone(), Events::default());
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

    #[test]
    fn what_machines_below_have_found_is_what_they_sent_and_joins_what_is_found_here() {
        let expectations = Expectations::default();
        let next = NextPhase {
            start_s: 1_700_000_100.25,
            start_interval_s: (1_700_000_099.5, 1_700_000_101.5),
            bytes: 600.0,
            duration_s: 1.5,
        };
        let found = Expected {
            period_s: Some(9.0),
            next_phase_unix_s: Some(next.start_s),
            confidence: 0.9996,
            bytes_per_phase: Some(600.0),
            at_unix_s: 1_700_000_093.0,
            next_phase: Some(next),
            idle_probability: 0.75,
        };
        let outlook = found.outlook(6000);
        assert!(expectations.set_below(&key("a"), outlook).is_some(), "a period is news");
        assert_eq!(expectations.set_below(&key("a"), outlook), None, "once");
        let above = expectations.of(&key("a")).unwrap();
        assert_eq!(
            (above.period_s, above.confidence, above.bytes_per_phase),
            (Some(9.0), 0.9996, Some(600.0))
        );
        assert!((above.next_phase_unix_s.unwrap() - next.start_s).abs() < 1e-6, "{above:?}");
        assert_eq!(above.outlook(6000), outlook, "and so at any level");
        expectations.set_here(&key("a"), found, 6000);
        assert_eq!(expectations.of(&key("a")).unwrap().bytes_per_phase, Some(1200.0));
        assert_eq!(expectations.outlook_here(&key("a")), Some(outlook), "here is not what is below");
    }

    #[test]
    fn jobs_of_one_user_leave_room_for_the_period_of_another() {
        let places = Shares::among_users(MOST_JOBS);
        let mut predictors =
            Predictors { places, ..Predictors::new(Expectations::default(), Events::default()) };
        let of = |uid: u32, n: usize| {
            (JobKey { uid, ..key(&format!("j{n}")) }, Cell { bytes: LEAST_BYTES, ..Cell::default() })
        };
        let mut jobs: Vec<(JobKey, Cell)> = (0..2 * MOST_JOBS).map(|n| of(1000, n)).collect();
        jobs.push(of(1001, 0));
        predictors.hear(1_700_000_000_000_000_000, jobs);
        let count = |uid: u32| {
            predictors.jobs.iter().filter(|(key, job)| key.uid == uid && job.predictor.is_some()).count()
        };
        assert_eq!((count(1000), count(1001)), (MOST_JOBS / 4, 1));
    }

    #[test]
    fn a_loop_that_beats_with_the_readings_has_no_period() {
        let expectations = Expectations::default();
        let mut predictors = Predictors::new(expectations.clone(), Events::default());
        for tenth in 0..1800u64 {
            let now_ns = 1_700_000_000_000_000_000 + tenth * 100_000_000;
            // 40 reads of 4 KiB, every 55 ms.
            let rounds = tenth * 100 / 55;
            let cell = Cell { calls: 40 * rounds, bytes: rounds * 163_840, ns: rounds * 1_000_000 };
            predictors.hear(now_ns, vec![(key("reader"), cell)]);
            let period = expectations.of(&key("reader")).and_then(|it| it.period_s);
            assert_eq!(period, None, "after {} s", tenth / 10);
        }
        assert!(expectations.of(&key("reader")).is_some(), "it was evaluated");
    }
}
