//! The next minutes of the jobs that a daemon watches: bandwidth and queue with bands, and on what they are based.

use iotide_look::Untrusted;
use iotide_sim::system::{Alone, Continues, Run, System, Target};
use serde::Serialize;

use super::{Estimate, Repeated, SATURATED, busiest, is_number, requests};

/// Forecast for the storage, or why there is none.
#[derive(Clone, Debug, Serialize)]
pub struct Forecast {
    /// When it was made, in seconds since 1970: times count from there.
    pub at_unix_s: f64,
    /// How far it looks.
    pub horizon_s: f64,
    /// Why there is no forecast; `null` where there is one.
    pub reason: Option<String>,
    /// On what the storage is based; `null` where nothing is known of it.
    pub storage: Option<ForecastStorage>,
    /// How often the jobs were simulated; each time with other chances.
    pub repetitions: usize,
    /// Share of the repetitions that the bands hold.
    pub confidence: f64,
    /// How many jobs run, of all users.
    pub n_jobs: usize,
    /// Of these, how many are in the forecast.
    pub n_foretold: usize,
    /// Bytes moved per second, over all the time; `null` without a forecast.
    pub bandwidth_bps: Option<Estimate>,
    /// Requests at the targets at once, over all the time.
    pub requests: Option<Estimate>,
    /// When the storage is first busy for a whole step; `null` if it is not.
    pub saturated_s: Option<f64>,
    /// Step by step.
    pub state: Vec<ForecastState>,
    /// The jobs that whoever asks may see.
    pub jobs: Vec<ForecastJob>,
    /// Facts that could not be taken into account.
    pub losses: Vec<String>,
}

/// Storage as the forecast assumes it.
#[derive(Clone, Debug, Serialize)]
pub struct ForecastStorage {
    /// `file`: as the setting says; `observed`: as fast as the jobs were.
    pub source: &'static str,
    /// How many targets it has.
    pub n_targets: usize,
    /// Bytes per second of one target.
    pub bandwidth_bps: Option<f64>,
    /// Maximum bandwidth of one stream, in bytes per second.
    pub stream_bps: Option<f64>,
    /// Operations per second of one target.
    pub iops: Option<f64>,
    /// Which of these are known only to be at least that.
    pub at_least: Vec<String>,
}

/// The state from one time to the next.
#[derive(Clone, Debug, Serialize)]
pub struct ForecastState {
    /// When it ends.
    pub time_s: f64,
    /// Bytes moved per second.
    pub bandwidth_bps: Estimate,
    /// Requests at the targets, those that wait included.
    pub requests: Estimate,
    /// Requests beyond the servers.
    pub waiting: Estimate,
    /// How busy the busiest part of the storage is.
    pub utilization: f64,
}

/// How one job is taken to continue, and what it gets.
#[derive(Clone, Debug, Serialize)]
pub struct ForecastJob {
    /// Its id.
    pub job: Untrusted,
    /// Whose it is: who may not see it is not shown it.
    #[serde(skip)]
    pub uid: u32,
    /// `phases`: one each period; `steady`: at the rate it has now; `unknown`: it is not in the forecast.
    pub continues: &'static str,
    /// Bytes per second, computing included.
    pub bandwidth_bps: Option<f64>,
    /// How long a phase takes.
    pub burst_s: Option<f64>,
    /// How long it would take alone.
    pub burst_alone_s: Option<f64>,
    /// One over the other.
    pub slowdown: Option<f64>,
}

impl ForecastStorage {
    /// Storage of targets that are alike, as a file or what was observed says.
    pub fn new(source: &'static str, targets: &[Target], at_least: &[String]) -> Self {
        let first = targets.first();
        Self {
            source,
            n_targets: targets.len(),
            bandwidth_bps: first.and_then(|target| target.bandwidth_bps),
            stream_bps: first.and_then(|target| target.stream_bps),
            iops: first.and_then(|target| target.iops),
            at_least: at_least.to_vec(),
        }
    }
}

/// Data from which a forecast is made.
#[derive(Debug)]
pub struct ForecastParts<'a> {
    /// System that was simulated.
    pub system: &'a System,
    /// Result of each repetition; there is one at least. The state may be that of all templates together.
    pub runs: &'a [Run],
    /// By template: what a job has alone.
    pub alone: &'a [Alone],
    /// The jobs with how they are taken to continue: the known ones are the entries of the system, in this order.
    pub jobs: Vec<(Untrusted, u32, Continues)>,
}

impl Forecast {
    /// A forecast that says why it is none.
    pub fn none(at_unix_s: f64, horizon_s: f64, confidence: f64, reason: &str) -> Self {
        Self {
            at_unix_s,
            horizon_s,
            reason: Some(reason.to_owned()),
            storage: None,
            repetitions: 0,
            confidence,
            n_jobs: 0,
            n_foretold: 0,
            bandwidth_bps: None,
            requests: None,
            saturated_s: None,
            state: Vec::new(),
            jobs: Vec::new(),
            losses: Vec::new(),
        }
    }

    /// The same with what came of simulating the jobs.
    pub fn with_runs(mut self, parts: ForecastParts<'_>) -> Self {
        let ForecastParts { system, runs, alone, jobs } = parts;
        let repeated = Repeated { runs, confidence: self.confidence };
        let zero = Estimate { mean: 0.0, interval: None };
        let n_steps = runs.first().map_or(0, |run| run.state.len());
        self.reason = None;
        self.repetitions = runs.len();
        self.n_foretold = system.jobs.len();
        self.bandwidth_bps = repeated.estimate(|run| run.frame.bandwidth_bps.iter().sum());
        self.requests = repeated.estimate(|run| requests(&run.frame));
        self.state = (0..n_steps)
            .map(|step| {
                let of = |of: &dyn Fn(&Run) -> f64| repeated.estimate(of).unwrap_or(zero);
                ForecastState {
                    time_s: runs[0].state[step].span_s[1],
                    bandwidth_bps: of(&|run| run.state[step].bandwidth_bps.iter().sum()),
                    requests: of(&|run| requests(&run.state[step])),
                    waiting: of(&|run| run.state[step].waiting),
                    utilization: of(&|run| busiest(&run.state[step])).mean,
                }
            })
            .collect();
        let width_s = self.state.first().map_or(0.0, |first| first.time_s);
        let full = self.state.iter().find(|step| step.utilization >= SATURATED);
        self.saturated_s = full.map(|step| (step.time_s - width_s).max(0.0));
        let mut entries = 0..system.jobs.len();
        self.jobs = jobs
            .into_iter()
            .map(|(job, uid, continues)| {
                let entry = if continues == Continues::Unknown { None } else { entries.next() };
                let mean = |of: &dyn Fn(&(f64, f64)) -> f64| {
                    entry.and_then(|entry| {
                        is_number(repeated.mean(|run| run.entries.get(entry).map_or(f64::NAN, of)))
                    })
                };
                let burst_s = mean(&|entry| entry.1).filter(|_| continues == Continues::InPhases);
                let template = entry.map(|entry| system.jobs[entry].template);
                let alone_s = template.and_then(|template| is_number(alone[template].burst_s));
                let alone_s = alone_s.filter(|_| continues == Continues::InPhases);
                ForecastJob {
                    job,
                    uid,
                    continues: match continues {
                        Continues::InPhases => "phases",
                        Continues::Steadily => "steady",
                        Continues::Unknown => "unknown",
                    },
                    bandwidth_bps: mean(&|entry| entry.0),
                    burst_s,
                    burst_alone_s: alone_s,
                    slowdown: burst_s.zip(alone_s).map(|(burst_s, alone_s)| burst_s / alone_s),
                }
            })
            .collect();
        self
    }

    /// The same for someone who sees jobs of some users only: sums are for all.
    pub fn seen_by(&self, sees: impl Fn(u32) -> bool) -> Self {
        let mut seen = self.clone();
        seen.jobs.retain(|job| sees(job.uid));
        seen
    }
}
