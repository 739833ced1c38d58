//! The next ten minutes of the storage: the jobs that run are simulated from where they are now, while somebody looks.
//!
//! A thread of its own is begun when somebody asks and what there is has become old, and ends after one forecast: who does not look costs nothing, and pages are answered
//! meanwhile. Time, events of a run and jobs are bounded.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use iotide_report::{Forecast, ForecastParts, ForecastStorage, Untrusted, answer_json};
use iotide_sim::system::{
    Run, RunningJob, Settings, Storage, System, Target, USUAL_HORIZON_S, Watched, alone, simulate_in_grains,
};
use tokio::sync::oneshot;

use crate::answer::{Answer, Answers, Viewer, seconds};
use crate::config::ServeError;
use crate::model_answers::Reply;
use crate::refusal::Refusal;
use crate::shared::Shared;
use iotide_daemon::leaf::JobView;

/// One that is younger is not made anew.
const FRESH: Duration = Duration::from_secs(10);
/// The same where nothing was simulated.
const FRESH_WITHOUT: Duration = Duration::from_secs(1);
/// One that is older is not shown while the next is made.
const STALE: Duration = Duration::from_secs(60);
/// No repetition is begun after this.
const WITHIN: Duration = Duration::from_millis(1500);
const MOST_REPETITIONS: usize = 100;
const CONFIDENCE: f64 = 0.9;
const STEP_S: f64 = 10.0;
/// The jobs that move most; others are left out, and this is said.
const MOST_JOBS: usize = 128;
/// Of one repetition, about: with ten times as many it would take a second, and the bands would be the same.
const MOST_TOKENS: f64 = 50_000.0;
/// A repetition with more is given up: a part of a second.
const MOST_EVENTS: u64 = 5_000_000;
/// Answers that wait for one forecast.
const MOST_WAITING: usize = 256;

/// Reads what a storage can do: a ladder, or a system of `iotide templates`.
pub fn read_storage(path: &Path) -> Result<Storage, ServeError> {
    let fault = |why: String| ServeError::Storage { path: path.to_owned(), why };
    let text = std::fs::read_to_string(path).map_err(|error| fault(error.to_string()))?;
    Storage::from_json(&text).map_err(|error| fault(error.to_string()))
}

/// The last forecast, and whether one is being made.
#[derive(Debug, Default)]
pub(crate) struct Forecasts {
    storage: Option<Storage>,
    state: Mutex<State>,
    is_over: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    latest: Option<(Instant, Arc<Forecast>)>,
    making: Option<JoinHandle<()>>,
    waiting: Vec<oneshot::Sender<Arc<Forecast>>>,
}

impl Forecasts {
    pub(crate) fn new(storage: Option<Storage>) -> Self {
        Self { storage, ..Self::default() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins no more, and waits for the end of the one that is being made: a fraction of a second.
    pub(crate) fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
        let making = self.state().making.take();
        let _ = making.map(JoinHandle::join);
    }

    /// The last one if it is younger than that, or new; and has the next one made if it is time. `waiter` hears of that one, if there is none yet.
    fn ask(
        &self,
        shared: &Arc<Shared>,
        most: Option<Duration>,
        waiter: Option<oneshot::Sender<Arc<Forecast>>>,
    ) -> Option<Arc<Forecast>> {
        // One hold of the lock for all, so that a forecast that is done meanwhile is seen here or reaches the waiter.
        let mut state = self.state();
        let made = state.latest.as_ref().map(|(at, forecast)| (at.elapsed(), Arc::clone(forecast)));
        let found = made.as_ref().filter(|(age, forecast)| *age < most.unwrap_or_else(|| fresh(forecast)));
        let found = found.map(|(_, forecast)| Arc::clone(forecast));
        if found.is_none() && state.waiting.len() < MOST_WAITING {
            state.waiting.extend(waiter);
        }
        let is_new = made.is_some_and(|(age, forecast)| age < fresh(&forecast));
        let is_being_made = state.making.as_ref().is_some_and(|making| !making.is_finished());
        if is_new || is_being_made || self.is_over.load(Ordering::Relaxed) {
            return found;
        }
        let of_thread = Arc::clone(shared);
        let begun = thread::Builder::new().name("iotide-forecast".to_owned()).spawn(move || {
            iotide_daemon::priority::give_way();
            let forecast = Arc::new(Answers::new(Arc::clone(&of_thread)).forecast());
            let mut state = of_thread.forecasts.state();
            state.latest = Some((Instant::now(), Arc::clone(&forecast)));
            state.making = None;
            for waiting in state.waiting.drain(..) {
                let _ = waiting.send(Arc::clone(&forecast));
            }
            drop(state);
            // What it took is given back.
            of_thread.has_answered.store(true, Ordering::Relaxed);
        });
        // Without a thread there is no forecast; who waits learns it when the sender is dropped.
        match begun {
            Ok(making) => state.making = Some(making),
            Err(_) => state.waiting.clear(),
        }
        found
    }
}

/// How long one is new.
fn fresh(forecast: &Forecast) -> Duration {
    if forecast.reason.is_some() { FRESH_WITHOUT } else { FRESH }
}

/// Waits for a forecast.
pub(crate) struct Awaited {
    forecast: oneshot::Receiver<Arc<Forecast>>,
    viewer: Viewer,
}

impl Awaited {
    pub(crate) async fn answer(self) -> Answer {
        match self.forecast.await {
            Ok(forecast) => told(&forecast, self.viewer),
            Err(_) => Refusal::new(503, "the next minutes could not be simulated; ask again later").into(),
        }
    }
}

fn told(forecast: &Forecast, viewer: Viewer) -> Answer {
    Answer::json(answer_json(&forecast.seen_by(|uid| viewer.sees_user(uid))))
}

impl Answers {
    /// A forecast for a program: a new one, which may have to be waited for.
    pub(crate) fn forecast_reply(&self, viewer: Viewer) -> Reply {
        let (waiter, forecast) = oneshot::channel();
        match self.shared.forecasts.ask(&self.shared, None, Some(waiter)) {
            Some(forecast) => Reply::Now(told(&forecast, viewer)),
            None => Reply::Forecast(Awaited { forecast, viewer }),
        }
    }

    /// A forecast for a page: what there is, while the next one is made.
    pub(crate) fn forecast_now(&self, viewer: Viewer) -> Option<Forecast> {
        let forecast = self.shared.forecasts.ask(&self.shared, Some(STALE), None)?;
        Some(forecast.seen_by(|uid| viewer.sees_user(uid)))
    }

    /// Simulates the jobs that run.
    fn forecast(&self) -> Forecast {
        let begun = Instant::now();
        let now_ns = crate::shared::now_ns();
        let none = |reason: &str| Forecast::none(seconds(now_ns), USUAL_HORIZON_S, CONFIDENCE, reason);
        let view = self.shared.view();
        if view.jobs.is_empty() {
            return none("no job runs");
        }
        let mut jobs: Vec<(&JobView, RunningJob)> =
            view.jobs.iter().map(|job| (job, self.running(job, seconds(now_ns)))).collect();
        jobs.sort_by(|(_, a), (_, b)| mean_bps(b).total_cmp(&mean_bps(a)));
        let n_left_out = jobs.len().saturating_sub(MOST_JOBS);
        jobs.truncate(MOST_JOBS);
        let (storage, source) = match &self.shared.forecasts.storage {
            Some(storage) => (Some(storage.clone()), "file"),
            None => (self.observed(&jobs, now_ns / 1_000_000_000), "observed"),
        };
        let Some(storage) = storage else {
            let unknown = "nothing is known of the storage: no setting `storage` describes it, and no job has moved anything yet";
            return Forecast { n_jobs: view.jobs.len(), ..none(unknown) };
        };
        let (seen, running): (Vec<&JobView>, Vec<RunningJob>) = jobs.into_iter().unzip();
        let (system, continues) = System::of_running(&running, storage.targets.clone(), USUAL_HORIZON_S);
        let mut forecast = Forecast {
            storage: Some(ForecastStorage::new(source, &storage.targets, &storage.at_least)),
            n_jobs: view.jobs.len(),
            ..none(
                "no job that runs has a period, and none moves anything now: nobody knows what they will do",
            )
        };
        if n_left_out > 0 {
            forecast.losses.push(format!("{n_left_out} jobs that move less than the others are left out"));
        }
        if system.jobs.is_empty() {
            return forecast;
        }
        let grains = system.grains_within(MOST_TOKENS);
        let settings = Settings { grain: None, interval_s: Some(STEP_S), most_events: Some(MOST_EVENTS) };
        let mut runs: Vec<Run> = Vec::new();
        while runs.len() < MOST_REPETITIONS
            && (runs.is_empty() || begun.elapsed() < WITHIN)
            && !self.shared.forecasts.is_over.load(Ordering::Relaxed)
        {
            match simulate_in_grains(&system, &settings, &grains, runs.len() as u64) {
                Ok(mut run) => {
                    run.state.iter_mut().for_each(|state| *state = state.summed());
                    runs.push(run);
                }
                Err(error) => return Forecast { reason: Some(error.to_string()), ..forecast },
            }
        }
        if runs.is_empty() {
            return Forecast { reason: Some("the daemon ends".to_owned()), ..forecast };
        }
        let alone: Vec<_> = (0..system.templates.len()).map(|template| alone(&system, template)).collect();
        let jobs = seen
            .iter()
            .zip(continues)
            .map(|(job, continues)| (Untrusted::from(job.key.id.as_str()), job.key.uid, continues));
        forecast.with_runs(ForecastParts {
            system: &system,
            runs: &runs,
            alone: &alone,
            jobs: jobs.collect(),
        })
    }

    /// A job as it is now.
    fn running(&self, job: &JobView, now_unix_s: f64) -> RunningJob {
        let io = job.counters.io();
        let expected = self.shared.expectations.of(&job.key);
        let watched = Watched {
            name: job.key.id.as_str(),
            n_running: job.n_running,
            bytes: io.bytes(),
            calls: io.read.calls + io.write.calls,
            rate_bps: job.read_bps + job.write_bps,
            period_s: expected.and_then(|expected| expected.period_s),
            confidence: expected.map(|expected| expected.confidence),
            bytes_per_phase: expected.and_then(|expected| expected.bytes_per_phase),
            next_phase_unix_s: expected.and_then(|expected| expected.next_phase_unix_s),
        };
        watched.at(now_unix_s)
    }

    /// Storage as fast as the jobs were: all together in the fastest two seconds of the last minutes, and one process in the time its calls took; at least that.
    fn observed(&self, jobs: &[(&JobView, RunningJob)], now_s: u64) -> Option<Storage> {
        let mut all: Vec<f64> = Vec::new();
        let mut stream_bps: f64 = 0.0;
        for (job, _) in jobs {
            let rates = self.recent(&job.key, now_s);
            all.resize(all.len().max(rates.read_bps.len()), 0.0);
            for (sum, (read, write)) in all.iter_mut().zip(rates.read_bps.iter().zip(&rates.write_bps)) {
                *sum += read + write;
            }
            let io = job.counters.io();
            let call_s = seconds(io.read.ns.saturating_add(io.write.ns));
            if call_s > 0.0 {
                stream_bps = stream_bps.max(io.bytes() as f64 / call_s);
            }
        }
        let bandwidth_bps = all.into_iter().fold(stream_bps, f64::max);
        let is_known = bandwidth_bps > 0.0 && bandwidth_bps.is_finite();
        let target = Target {
            servers: 1,
            bandwidth_bps: Some(bandwidth_bps),
            stream_bps: (stream_bps > 0.0).then_some(stream_bps),
            ..Target::default()
        };
        is_known.then(|| Storage {
            targets: vec![target],
            at_least: vec!["bandwidth_bps".to_owned(), "stream_bps".to_owned()],
        })
    }
}

/// What a job is expected to move per second.
fn mean_bps(job: &RunningJob) -> f64 {
    job.phases.map_or(job.rate_bps, |phases| phases.bytes / phases.period_s.max(1e-3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;

    #[test]
    fn storage_is_read_from_a_ladder_or_a_system_and_a_fault_names_the_file() {
        let dir = FreshDir::new("forecast-storage");
        let path = dir.join("storage.json");
        std::fs::write(&path, r#"{"cells": [
            {"n": 1, "request_bytes": 4194304, "seconds": 1, "completions": 50}, {"n": 8, "request_bytes": 4194304, "seconds": 1, "completions": 200},
            {"n": 1, "request_bytes": 65536, "seconds": 1, "completions": 900}, {"n": 8, "request_bytes": 65536, "seconds": 1, "completions": 4000}]}"#).unwrap();
        let ladder = read_storage(&path).unwrap();
        let bps = ladder.targets[0].bandwidth_bps.unwrap();
        assert!((0.8..1.5).contains(&(bps / (200.0 * 4_194_304.0))), "{ladder:?}");
        std::fs::write(&path, r#"{"storage": {"targets": [{"bandwidth_bps": 1e9}, {"bandwidth_bps": 1e9}], "at_least": ["bandwidth_bps"]},
            "templates": [{"name": "a", "requests": 5, "request_bytes": 1e6}]}"#).unwrap();
        let system = read_storage(&path).unwrap();
        assert_eq!(
            (system.targets.len(), system.at_least.as_slice()),
            (2, &["bandwidth_bps".to_owned()][..])
        );
        for wrong in ["", "{}", r#"{"cells": [{"n": 1}]}"#, r#"{"cells": [], "storage": 5}"#] {
            std::fs::write(&path, wrong).unwrap();
            let said = read_storage(&path).unwrap_err().to_string();
            assert!(said.contains("storage.json"), "{wrong}: {said}");
        }
    }
}
