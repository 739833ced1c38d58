//! Periodic applications on one storage under a policy.

use iotide_analysis::online::{Predictor, PredictorConfig};
use iotide_num::SplitMix64;
use iotide_sched::{
    Ageing, Credit, Exclusivity, IoProfile, JobId, LEAST_CONFIDENCE, Order, Placement, Policy, Rules,
};

use iotide_trace::{Event as Moved, Op, Rank, Timestamp};

use crate::engine::Agenda;
use crate::metrics::{Effort, Outcome, Timeline};
use crate::workload::Workload;

mod fluid;
mod requests;

/// Runs a workload once.
pub fn simulate(
    workload: &Workload,
    contender: &Contender,
    settings: &IoSettings,
    seed: u64,
) -> Result<Outcome, SimulationError> {
    check(workload, settings)?;
    check_error(contender.knowledge)?;
    Ok(match settings.model {
        Model::Fluid => fluid::run(workload, contender, settings, seed),
        Model::Requests => requests::run(workload, contender, settings, seed),
    })
}

/// Runs a workload several times under each policy; the nth run of each meets the same chances.
///
/// Only the first run of each has its jobs and its timeline kept. `tell` hears before each run how many are done.
pub fn compare(
    workload: &Workload,
    contenders: &[Contender],
    settings: &IoSettings,
    n_repetitions: usize,
    seed: u64,
    mut tell: impl FnMut(usize),
) -> Result<Vec<Vec<Outcome>>, SimulationError> {
    let mut n_done = 0;
    let mut run = |contender: &Contender, repetition: usize| {
        tell(n_done);
        n_done += 1;
        let settings = IoSettings {
            n_timeline_bins: if repetition == 0 { settings.n_timeline_bins } else { 0 },
            ..settings.clone()
        };
        let mut outcome = simulate(workload, contender, &settings, seed.wrapping_add(repetition as u64))?;
        if repetition > 0 {
            outcome.jobs = Vec::new();
        }
        Ok(outcome)
    };
    contenders.iter().map(|contender| (0..n_repetitions).map(|n| run(contender, n)).collect()).collect()
}

/// A policy, and what it knows of the jobs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contender {
    /// The policy.
    pub policy: Policy,
    /// Knowledge it has of the jobs.
    pub knowledge: Knowledge,
}

/// Knowledge that a policy has of the jobs' characteristic times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Knowledge {
    /// Characteristic time that each would have alone, from the beginning on: "clairvoyant".
    Given,
    /// The same of so many jobs, the first of the workload, and nothing of the others.
    GivenOfFirst(usize),
    /// The same, but wrong: of each job from the beginning to the end.
    GivenWrong {
        /// By this share too high or too low, by chance.
        error: f64,
    },
    /// Period that the online predictor ([`Predictor`]) finds from the phases of each as they end, by the clock on the wall. Of more than
    /// [`MOST_PREDICTORS`] jobs, which would need too much memory, the mean time between the starts of the last phases.
    Predicted {
        /// Each prediction is this share too high or too low, by chance.
        error: f64,
    },
}

/// How a workload is run.
#[derive(Clone, Debug, PartialEq)]
pub struct IoSettings {
    /// Which model.
    pub model: Model,
    /// Which job of a set goes first.
    pub order: Order,
    /// After how many phases a prediction is believed.
    pub warm_up_phases: u64,
    /// Inequality of what jobs get where nobody sees to it: the standard deviation of the logarithm of a phase's weight
    /// ([`Model::Fluid`]) or of what each of its requests brings ([`Model::Requests`]). Whoever counts requests does not
    /// see the latter; whoever counts bytes does.
    pub sigma: f64,
    /// [`Model::Fluid`]: what share of a set's bandwidth goes to those of it whose turn it is not; in [0, 1).
    pub leak: f64,
    /// [`Model::Requests`]: what a set's share is counted in.
    pub credit: Credit,
    /// [`Model::Requests`]: what the others of a set do while the first has no request.
    pub exclusivity: Exclusivity,
    /// [`Model::Requests`]: how jobs that wait long are helped.
    pub ageing: Option<Ageing>,
    /// [`Model::Requests`]: over how many storage targets the system has, each with a queue and workers of its own.
    pub n_servers: usize,
    /// [`Model::Requests`]: over how many of them each job's data are striped; those of a job alone move at the workload's bandwidth together.
    pub n_stripes: usize,
    /// [`Model::Requests`]: one queue decides for all targets rather than each for itself.
    pub coordinated: bool,
    /// [`Model::Requests`]: how many requests are served at once, at each target.
    pub n_workers: usize,
    /// [`Model::Requests`]: how many requests a job keeps at the server, one per process.
    pub n_processes: usize,
    /// [`Model::Requests`]: how large they are, but for [`IoSettings::sigma`].
    pub request_bytes: u64,
    /// [`Model::Requests`]: time from the end of a request until the process has sent the next.
    pub latency_s: f64,
    /// Overrides each job's [`crate::JobSpec::jitter`].
    pub jitter: Option<f64>,
    /// Into how many bins from 0 to the end of the frame the timeline is divided; 0 keeps none.
    pub n_timeline_bins: usize,
}

impl IoSettings {
    /// Returns the ideal: what a policy says happens at once.
    pub fn ideal() -> Self {
        Self {
            model: Model::Fluid,
            order: Order::FirstCome,
            warm_up_phases: 2,
            sigma: 0.0,
            leak: 0.0,
            credit: Credit::Bytes,
            exclusivity: Exclusivity::Relaxed,
            ageing: None,
            n_servers: 1,
            n_stripes: 1,
            coordinated: false,
            n_workers: 24,
            n_processes: 8,
            request_bytes: 1 << 20,
            latency_s: 0.0,
            jitter: None,
            n_timeline_bins: 0,
        }
    }

    /// Returns a server as there are: 24 workers, jobs of 8 processes that get unequal shares, and a queue by these rules.
    pub fn server(rules: Rules) -> Self {
        Self {
            model: Model::Requests,
            order: rules.order(),
            credit: rules.credit(),
            ageing: rules.ageing(),
            sigma: 0.25,
            latency_s: 1e-3,
            ..Self::ideal()
        }
    }
}

/// How storage is modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Bandwidth that is divided as the policy says.
    Fluid,
    /// Requests, workers, the queue, and a device.
    Requests,
}

/// Why a workload cannot be run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SimulationError {
    /// There is no job.
    #[error("the workload has no jobs")]
    NoJobs,
    /// It would take for ever.
    #[error("the workload has about {n:.1e} {what} before its frame ends; at most {MOST:.0e} are simulated")]
    TooMany {
        /// How many.
        n: f64,
        /// The things counted.
        what: &'static str,
    },
    /// A setting has no meaning.
    #[error("{what} is {value}, but must be {must}")]
    Setting {
        /// Which.
        what: &'static str,
        /// Its value.
        value: f64,
        /// Condition that it must meet.
        must: &'static str,
    },
}

/// More phases or requests than this would run for hours.
const MOST: f64 = 2e9;

fn check_error(knowledge: Knowledge) -> Result<(), SimulationError> {
    match knowledge {
        Knowledge::Predicted { error } | Knowledge::GivenWrong { error } if !(0.0..1.0).contains(&error) => {
            Err(SimulationError::Setting {
                what: "the error of predictions",
                value: error,
                must: "0 or more and below 1",
            })
        }
        _ => Ok(()),
    }
}

fn check(workload: &Workload, settings: &IoSettings) -> Result<(), SimulationError> {
    if workload.jobs.is_empty() {
        return Err(SimulationError::NoJobs);
    }
    let setting = |what, value: f64, is_fine: bool, must| {
        if is_fine { Ok(()) } else { Err(SimulationError::Setting { what, value, must }) }
    };
    let amount = |value: f64| value.is_finite() && value >= 0.0;
    setting("sigma", settings.sigma, amount(settings.sigma) && settings.sigma <= 5.0, "from 0 to 5")?;
    setting("leak", settings.leak, (0.0..1.0).contains(&settings.leak), "0 or more and below 1")?;
    setting("latency", settings.latency_s, amount(settings.latency_s), "0 or more")?;
    setting("jitter", settings.jitter.unwrap_or(0.0), amount(settings.jitter.unwrap_or(0.0)), "0 or more")?;
    setting("the number of workers", settings.n_workers as f64, settings.n_workers > 0, "above 0")?;
    setting(
        "the number of servers",
        settings.n_servers as f64,
        (1..=4096).contains(&settings.n_servers),
        "from 1 to 4096",
    )?;
    setting(
        "the number of stripes",
        settings.n_stripes as f64,
        (1..=settings.n_servers).contains(&settings.n_stripes),
        "from 1 to the number of servers",
    )?;
    setting("the number of processes", settings.n_processes as f64, settings.n_processes > 0, "above 0")?;
    setting("the size of a request", settings.request_bytes as f64, settings.request_bytes > 0, "above 0")?;

    let [_, end_s] = workload.frame_s;
    let mut n_phases = 0.0;
    let mut bytes = 0.0;
    for job in &workload.jobs {
        let most = (end_s - job.start_s).max(0.0) / job.w_iter_s(workload.bandwidth_bps);
        let n = job.iterations.map_or(most, |iterations| most.min(iterations as f64));
        n_phases += n;
        bytes += n * job.io_bytes;
    }
    if n_phases > MOST {
        return Err(SimulationError::TooMany { n: n_phases, what: "phases" });
    }
    // The storage cannot serve more than it can.
    let n_at_once = settings.n_servers as f64 / settings.n_stripes as f64;
    let n_requests = bytes.min(end_s * workload.bandwidth_bps * n_at_once) / settings.request_bytes as f64;
    if settings.model == Model::Requests && n_requests > MOST {
        return Err(SimulationError::TooMany { n: n_requests, what: "requests" });
    }
    Ok(())
}

/// The jobs of a run as they compute, wait and are evaluated; what both models share.
struct Play<'a> {
    workload: &'a Workload,
    contender: Contender,
    settings: &'a IoSettings,
    seed: u64,
    players: Vec<Player>,
    agenda: Agenda<Event>,
    /// Jobs of which not everything in the frame is known yet.
    n_unsettled: usize,
    n_phases: u64,
    timeline: Option<Timeline>,
}

#[derive(Clone, Debug)]
struct Player {
    effort: Effort,
    n_iterations: u64,
    phase_start_s: f64,
    /// The latest starts of phases; kept if predictions are made.
    starts_s: Vec<f64>,
    /// There once a phase has ended, if predictions are made of few enough jobs.
    predictor: Option<Box<Predictor>>,
    /// How many phases it was shown, and at how many it is asked next.
    n_shown: u64,
    asks_at: u64,
    profile: Option<IoProfile>,
    ended_s: Option<f64>,
    is_settled: bool,
}

impl Player {
    /// Shows the phase that has just ended to the job's predictor, and asks for its period: after each of the first phases, later
    /// when there are a quarter more of them than the last time. `None` if nothing new is known.
    fn predicted_s(&mut self, now_s: f64, bytes: f64) -> Option<f64> {
        let (start, end) = (at(self.phase_start_s)?, at(now_s)?);
        let usual = || PredictorConfig { fast_s: 0.0, apart_s: WHEN_ASKED_S, ..PredictorConfig::default() };
        let predictor = self.predictor.get_or_insert_with(|| Box::new(Predictor::new(usual())));
        let _ = predictor.push_event(&Moved::data(Op::Write, Rank(0), start, end, bytes));
        self.n_shown += 1;
        if self.n_shown < self.asks_at {
            return None;
        }
        self.asks_at = self.n_shown + 1 + self.n_shown / 4;
        let prediction = predictor.evaluate()?;
        prediction.period_s.filter(|_| prediction.confidence >= LEAST_CONFIDENCE)
    }

    /// The mean time between the starts of its last phases.
    fn observed_s(&self) -> Option<f64> {
        let [first_s, .., last_s] = self.starts_s[..] else { return None };
        Some((last_s - first_s) / (self.starts_s.len() - 1) as f64)
    }
}

fn at(time_s: f64) -> Option<Timestamp> {
    Timestamp::from_secs_since_start(time_s)
}

/// Planned event of a job.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// To begin an I/O phase, or to end if it has none left.
    Phase(usize),
    /// Somebody who waits may have waited long enough.
    Wake,
}

/// Of more jobs than this no predictors are kept: each takes up to half a mebibyte.
pub const MOST_PREDICTORS: usize = 4096;

/// A predictor that evaluates when it is asked alone: an evaluation costs milliseconds, and a simulation is over in as many.
const WHEN_ASKED_S: f64 = 1e8;

/// Over how many distances of starts a prediction is made at most.
const PREDICTED_FROM: usize = 5;

impl<'a> Play<'a> {
    fn new(workload: &'a Workload, contender: &Contender, settings: &'a IoSettings, seed: u64) -> Self {
        let n_given = match contender.knowledge {
            Knowledge::Given | Knowledge::GivenWrong { .. } => workload.jobs.len(),
            Knowledge::GivenOfFirst(n) => n,
            Knowledge::Predicted { .. } => 0,
        };
        let factor = |n: usize| match contender.knowledge {
            Knowledge::GivenWrong { error } => wrong_by(error, &mut chances_of(seed, n, 0)),
            _ => 1.0,
        };
        let given = |n: usize, job: &crate::JobSpec| {
            (n < n_given)
                .then(|| IoProfile::checked(job.w_iter_s(workload.bandwidth_bps) * factor(n)))
                .flatten()
        };
        let player = |(n, job)| Player {
            effort: Effort::default(),
            n_iterations: 0,
            phase_start_s: 0.0,
            starts_s: Vec::new(),
            predictor: None,
            n_shown: 0,
            asks_at: 0,
            profile: given(n, job),
            ended_s: None,
            is_settled: false,
        };
        let n_jobs = workload.jobs.len();
        let mut play = Self {
            workload,
            contender: *contender,
            settings,
            seed,
            players: workload.jobs.iter().enumerate().map(player).collect(),
            agenda: Agenda::new(),
            n_unsettled: n_jobs,
            n_phases: 0,
            timeline: (settings.n_timeline_bins > 0)
                .then(|| Timeline::new(n_jobs, settings.n_timeline_bins, workload.frame_s[1])),
        };
        for job in 0..n_jobs {
            play.compute(job, workload.jobs[job].start_s);
        }
        play
    }

    /// Whether all is known, or will not be known in any reasonable time.
    fn is_over(&self, now_s: f64) -> bool {
        let [from_s, to_s] = self.workload.frame_s;
        self.n_unsettled == 0 || now_s > to_s + 2.0 * (to_s - from_s)
    }

    /// Chances of one iteration of a job: the same whatever the policy, and whatever happened before.
    fn chances(&self, job: usize) -> SplitMix64 {
        chances_of(self.seed, job, self.players[job].n_iterations)
    }

    /// The job computes from now on, and has planned what comes then.
    fn compute(&mut self, job: usize, now_s: f64) {
        let spec = &self.workload.jobs[job];
        let jitter = self.settings.jitter.unwrap_or(spec.jitter);
        let is_done = spec.iterations.is_some_and(|n| self.players[job].n_iterations >= n);
        if is_done {
            self.players[job].ended_s = Some(now_s);
            self.settle(job);
            return;
        }
        let factor = if jitter > 0.0 { (1.0 + jitter * self.chances(job).normal()).max(0.0) } else { 1.0 };
        let until_s = now_s + spec.compute_s * factor;
        self.players[job].effort.computes(self.workload.frame_s, now_s, until_s);
        if until_s >= self.workload.frame_s[1] {
            self.settle(job);
        }
        self.agenda.plan(until_s, Event::Phase(job));
    }

    /// The job's I/O phase begins; returns its weight against others where nobody sees to fairness.
    fn begin_phase(&mut self, job: usize, now_s: f64) -> f64 {
        let sigma = self.settings.sigma;
        let weight = if sigma > 0.0 {
            let mut chances = self.chances(job);
            chances.normal(); // the first is the computing time's
            (sigma * chances.normal()).exp()
        } else {
            1.0
        };
        let player = &mut self.players[job];
        player.phase_start_s = now_s;
        player.effort.begins_phase(now_s);
        if matches!(self.contender.knowledge, Knowledge::Predicted { .. }) {
            if player.starts_s.len() > PREDICTED_FROM {
                player.starts_s.remove(0);
            }
            player.starts_s.push(now_s);
        }
        weight
    }

    /// The job's I/O phase ends, and it computes again.
    fn end_phase(&mut self, job: usize, now_s: f64) {
        self.n_phases += 1;
        let bytes = self.workload.jobs[job].io_bytes;
        let frame_s = self.workload.frame_s;
        self.predict(job, now_s);
        let player = &mut self.players[job];
        player.effort.moves(frame_s, player.phase_start_s, now_s, bytes);
        player.n_iterations += 1;
        if now_s >= frame_s[1] {
            self.settle(job);
        }
        self.compute(job, now_s);
    }

    fn predict(&mut self, job: usize, now_s: f64) {
        let Knowledge::Predicted { error } = self.contender.knowledge else { return };
        let mut chances = self.chances(job);
        let has_predictors = self.players.len() <= MOST_PREDICTORS;
        let bytes = self.workload.jobs[job].io_bytes;
        let player = &mut self.players[job];
        let found_s = if has_predictors { player.predicted_s(now_s, bytes) } else { player.observed_s() };
        if let Some(w_iter_s) = found_s.filter(|_| player.effort.n_phases >= self.settings.warm_up_phases) {
            player.profile = IoProfile::checked(w_iter_s * wrong_by(error, &mut chances)).or(player.profile);
        }
    }

    fn settle(&mut self, job: usize) {
        if !self.players[job].is_settled {
            self.players[job].is_settled = true;
            self.n_unsettled -= 1;
        }
    }

    fn id(job: usize) -> JobId {
        JobId(job as u64 + 1)
    }

    fn placement(&self, job: usize) -> Placement {
        self.contender.policy.place(Self::id(job), self.players[job].profile.as_ref())
    }

    fn outcome(self) -> Outcome {
        let frame_s = self.workload.frame_s;
        let jobs = self.players.iter().zip(&self.workload.jobs).map(|(player, spec)| {
            let there_s = [spec.start_s, player.ended_s.unwrap_or(f64::INFINITY)];
            player.effort.outcome(spec.name.clone(), frame_s, there_s, self.workload.bandwidth_bps)
        });
        Outcome {
            timeline: self.timeline,
            n_phases: self.n_phases,
            n_starved: self.players.iter().filter(|player| !player.is_settled).count() as u64,
            ..Outcome::of(jobs.collect(), frame_s)
        }
    }
}

fn chances_of(seed: u64, job: usize, iteration: u64) -> SplitMix64 {
    let mixed = SplitMix64::new(seed).next() ^ (job as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    SplitMix64::new(SplitMix64::new(mixed).next() ^ iteration)
}

/// By what a time is multiplied that is wrong by a share, up or down.
fn wrong_by(error: f64, chances: &mut SplitMix64) -> f64 {
    // The first two are for computing times.
    chances.normal();
    chances.normal();
    if chances.unit() < 0.5 { 1.0 - error } else { 1.0 + error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobSpec;
    use iotide_sched::UnknownJobs;

    const NONE: Contender = Contender { policy: Policy::Unscheduled, knowledge: Knowledge::Given };
    const FAIR: Contender = Contender { policy: Policy::FairShare, knowledge: Knowledge::Given };
    const SET10: Contender =
        Contender { policy: Policy::Set10(UnknownJobs::Together), knowledge: Knowledge::Given };

    fn predicted(unknown: UnknownJobs, error: f64) -> Contender {
        Contender { policy: Policy::Set10(unknown), knowledge: Knowledge::Predicted { error } }
    }

    fn job(name: &str, compute_s: f64, io_bytes: f64) -> JobSpec {
        JobSpec { name: name.into(), compute_s, io_bytes, iterations: None, start_s: 0.0, jitter: 0.0 }
    }

    fn numbers(outcome: &Outcome) -> [f64; 4] {
        [
            outcome.max_stretch.unwrap(),
            outcome.geomean_stretch.unwrap(),
            outcome.io_slowdown.unwrap(),
            outcome.utilization,
        ]
    }

    /// Changes in per cent of the four numbers from one policy to another, without chances.
    fn changes(settings: &IoSettings, from: Contender, to: Contender) -> [f64; 4] {
        let workload = Workload::rr9537();
        let of = |contender| numbers(&simulate(&workload, &contender, settings, 1).unwrap());
        let (from, to) = (of(from), of(to));
        std::array::from_fn(|i| 100.0 * (to[i] / from[i] - 1.0))
    }

    fn close(found: [f64; 4], expected: [f64; 4], within: f64) {
        for (found_one, expected_one) in found.iter().zip(expected) {
            assert!((found_one - expected_one).abs() <= within, "{found:.1?} instead of {expected:?}");
        }
    }

    #[test]
    fn ideally_set10_does_on_the_reports_workload_what_others_have_simulated() {
        let settings = IoSettings { jitter: Some(0.005), ..IoSettings::ideal() };
        close(changes(&settings, FAIR, SET10), [-38.0, -38.0, -85.0, 60.0], 3.0);
    }

    #[test]
    fn without_chances_a_server_is_as_it_is_in_python() {
        // What lab/src/bench/simulate.py prints: the same model, written twice.
        let report = [1.3126081754567058, 1.2284678942139415, 4.5506634243379205, 0.7630913380820475];
        let iotide = [1.3149935631494543, 1.2303292946589746, 4.573445430667126, 0.7619994237329613];
        for (settings, python) in
            [(IoSettings::server(Rules::Report), report), (IoSettings::server(Rules::Iotide), iotide)]
        {
            let settings = IoSettings { sigma: 0.0, ..settings };
            let outcome = simulate(&Workload::rr9537(), &SET10, &settings, 0).unwrap();
            close(numbers(&outcome), python, 1e-6);
        }
    }

    #[test]
    fn at_a_server_set10_halves_the_slowdown_with_given_and_with_predicted_periods() {
        let settings =
            IoSettings { request_bytes: 4 << 20, jitter: Some(0.005), ..IoSettings::server(Rules::Iotide) };
        let given = changes(&settings, NONE, SET10);
        let predicted = changes(&settings, NONE, predicted(UnknownJobs::Together, 0.0));
        for change in [given, predicted] {
            assert!(
                change[0] < 0.0 && change[1] < -15.0 && change[2] < -50.0 && change[3] > 15.0,
                "{change:.1?}"
            );
        }
        assert!((given[2] - predicted[2]).abs() < 10.0, "{given:.1?} {predicted:.1?}");
    }

    #[test]
    fn a_wrong_period_stays_that_of_its_job_and_one_that_is_not_wrong_is_the_given_one() {
        let workload = Workload::rr9537();
        let settings = IoSettings { request_bytes: 16 << 20, ..IoSettings::server(Rules::Iotide) };
        let wrong = |error| Contender {
            policy: Policy::Set10(UnknownJobs::Together),
            knowledge: Knowledge::GivenWrong { error },
        };
        for seed in 0..3 {
            let run = |contender| simulate(&workload, &contender, &settings, seed).unwrap();
            assert_eq!(run(wrong(0.0)), run(SET10));
            assert_ne!(run(wrong(0.5)), run(SET10));
        }
        let play = Play::new(&workload, &wrong(0.5), &settings, 1);
        let factors: Vec<f64> = (play.players.iter().zip(&workload.jobs))
            .map(|(player, job)| player.profile.unwrap().w_iter_s() / job.w_iter_s(workload.bandwidth_bps))
            .collect();
        assert!(factors.iter().all(|factor| (factor - 0.5).abs() < 1e-9 || (factor - 1.5).abs() < 1e-9));
        assert!(factors.iter().any(|factor| *factor < 1.0) && factors.iter().any(|factor| *factor > 1.0));
        assert!(simulate(&workload, &wrong(1.0), &settings, 1).is_err());
    }

    fn of_targets(n_servers: usize, n_stripes: usize, coordinated: bool) -> IoSettings {
        IoSettings { n_servers, n_stripes, coordinated, sigma: 0.0, ..IoSettings::server(Rules::Iotide) }
    }

    #[test]
    fn jobs_on_targets_of_their_own_do_not_meet_and_stripes_of_all_of_them_do() {
        let jobs = vec![job("a", 10.0, 1e9), job("b", 10.0, 1e9)];
        let workload = Workload { bandwidth_bps: 1e8, frame_s: [20.0, 180.0], jobs };
        let slowdown = |settings: &IoSettings, policy| {
            let contender = Contender { policy, knowledge: Knowledge::Given };
            simulate(&workload, &contender, settings, 1).unwrap().io_slowdown.unwrap()
        };
        for coordinated in [false, true] {
            let apart = slowdown(&of_targets(2, 1, coordinated), Policy::FairShare);
            assert!((apart - 1.0).abs() < 0.02, "{apart}");
            let striped = slowdown(&of_targets(2, 2, coordinated), Policy::FairShare);
            assert!(striped > 1.8, "{striped}");
        }
    }

    #[test]
    fn one_target_is_the_same_with_and_without_coordination() {
        let workload = Workload { frame_s: [400.0, 1200.0], ..Workload::rr9537() };
        let settings = |coordinated| IoSettings { request_bytes: 8 << 20, ..of_targets(1, 1, coordinated) };
        let of = |coordinated| numbers(&simulate(&workload, &SET10, &settings(coordinated), 1).unwrap());
        assert_eq!(of(false), of(true));
    }

    #[test]
    fn more_stripes_than_servers_are_refused() {
        let refused = simulate(&Workload::rr9537(), &SET10, &of_targets(2, 3, false), 1).unwrap_err();
        assert!(refused.to_string().contains("the number of stripes is 3"), "{refused}");
    }

    #[test]
    fn the_predictor_itself_says_what_the_period_is_and_needs_a_few_phases_for_it() {
        let jobs = vec![job("a", 15.0, 5e8)];
        let workload = Workload { bandwidth_bps: 1e8, frame_s: [0.0, 1000.0], jobs };
        let contender = predicted(UnknownJobs::Apart, 0.0);
        let settings = IoSettings { warm_up_phases: 0, ..IoSettings::ideal() };
        let mut play = Play::new(&workload, &contender, &settings, 1);
        let mut known = Vec::new();
        for n in 1..10 {
            let start_s = 20.0 * f64::from(n);
            play.begin_phase(0, start_s);
            play.end_phase(0, start_s + 5.0);
            known.push(play.players[0].profile.map(|profile| profile.w_iter_s()));
        }
        // Two phases have a distance, which is no rhythm yet.
        assert_eq!(known[..2], [None, None], "{known:?}");
        let last_s = known.last().copied().flatten().unwrap();
        assert!((last_s - 20.0).abs() < 0.5, "{known:?}");
    }

    #[test]
    fn a_count_of_requests_does_not_see_that_some_bring_more_and_a_count_of_bytes_does() {
        let slowdown = |credit| {
            let settings = IoSettings { request_bytes: 4 << 20, credit, ..IoSettings::server(Rules::Iotide) };
            simulate(&Workload::rr9537(), &FAIR, &settings, 1).unwrap().io_slowdown.unwrap()
        };
        // Kept in step, the jobs collide each time; out of step, they do not.
        let (by_requests, by_bytes) = (slowdown(Credit::Requests), slowdown(Credit::Bytes));
        assert!(by_requests < 0.8 * by_bytes, "{by_requests} {by_bytes}");
    }

    #[test]
    fn a_job_alone_is_not_stretched_by_anybody() {
        let workload =
            Workload { bandwidth_bps: 1e8, frame_s: [50.0, 500.0], jobs: vec![job("a", 9.0, 1e8)] };
        for settings in
            [IoSettings::ideal(), IoSettings::server(Rules::Iotide), IoSettings::server(Rules::Report)]
        {
            for contender in [NONE, FAIR, SET10, predicted(UnknownJobs::Apart, 0.5)] {
                let found = numbers(&simulate(&workload, &contender, &settings, 3).unwrap());
                close(found, [1.0, 1.0, 1.0, 0.9], 0.03);
            }
        }
    }

    #[test]
    fn a_server_with_many_small_requests_shares_as_the_fluid_does() {
        let jobs = vec![job("a", 5.0, 4e8), job("b", 7.0, 3e8), job("c", 50.0, 9e8)];
        let workload = Workload { bandwidth_bps: 1e8, frame_s: [100.0, 900.0], jobs };
        let server = IoSettings {
            latency_s: 0.0,
            sigma: 0.0,
            request_bytes: 1 << 18,
            ..IoSettings::server(Rules::Iotide)
        };
        for contender in [NONE, FAIR] {
            let fluid = numbers(&simulate(&workload, &contender, &IoSettings::ideal(), 0).unwrap());
            let requests = numbers(&simulate(&workload, &contender, &server, 0).unwrap());
            close(requests, fluid, 0.05);
        }
        // With one worker a set is exclusive at a server, too.
        let server = IoSettings { n_workers: 1, ageing: None, ..server };
        let fluid = numbers(&simulate(&workload, &SET10, &IoSettings::ideal(), 0).unwrap());
        close(numbers(&simulate(&workload, &SET10, &server, 0).unwrap()), fluid, 0.08);
    }

    #[test]
    fn a_strict_server_with_fewer_workers_than_a_job_has_processes_comes_to_an_end() {
        let workload = Workload::rr9537();
        for (n_workers, n_servers) in [(1, 1), (4, 1), (8, 1), (4, 2)] {
            let server = IoSettings {
                n_workers,
                n_servers,
                exclusivity: Exclusivity::Strict,
                ..IoSettings::server(Rules::Iotide)
            };
            let run = simulate(&workload, &SET10, &server, 0).unwrap();
            let slowdown = run.io_slowdown.unwrap();
            assert!(slowdown < 4.0, "{n_workers} workers: {slowdown}");
        }
    }

    #[test]
    fn a_run_is_its_inputs_and_its_seed() {
        let workload = Workload::rr9537();
        let settings =
            IoSettings { jitter: Some(0.02), sigma: 0.3, n_timeline_bins: 50, ..IoSettings::ideal() };
        let run = |seed| simulate(&workload, &SET10, &settings, seed).unwrap();
        assert_eq!(run(7), run(7));
        assert_ne!(run(7), run(8));
        let all = compare(&workload, &[NONE, SET10], &settings, 3, 7, |_| {}).unwrap();
        assert_eq!(all[1][0], run(7));
        assert_eq!((all[1][1].io_slowdown, all[1][1].jobs.len()), (run(8).io_slowdown, 0));
    }

    /// Three jobs that end long before the frame does.
    fn finite() -> Workload {
        let jobs = [job("a", 5.0, 4e8), job("b", 7.0, 3e8), job("c", 50.0, 9e8)]
            .map(|job| JobSpec { iterations: Some(3), ..job });
        Workload { bandwidth_bps: 1e8, frame_s: [10.0, 1000.0], jobs: jobs.to_vec() }
    }

    #[test]
    fn a_timeline_shows_all_that_was_moved() {
        let workload = finite();
        for settings in
            [IoSettings::ideal(), IoSettings { request_bytes: 1 << 18, ..IoSettings::server(Rules::Iotide) }]
        {
            let settings = IoSettings { n_timeline_bins: 100, ..settings };
            let outcome = simulate(&workload, &SET10, &settings, 0).unwrap();
            let moved: f64 = outcome.timeline.unwrap().bytes.iter().flatten().sum();
            let expected: f64 = workload.jobs.iter().map(|job| 3.0 * job.io_bytes).sum();
            assert!((moved / expected - 1.0).abs() < 1e-6, "{moved} of {expected}");
            assert_eq!(outcome.n_phases, 9);
        }
    }

    #[test]
    fn a_job_that_ends_is_judged_until_then() {
        let outcome = simulate(&finite(), &FAIR, &IoSettings::ideal(), 0).unwrap();
        // Alone the third would take 3 × 59 s; the others are there during its first computing only.
        let third = &outcome.jobs[2];
        assert!((third.time_s - (3.0 * 59.0 - 10.0)).abs() < 1e-6, "{third:?}");
        assert!((third.stretch.unwrap() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn by_id_the_last_starves_where_first_come_shares_the_wait() {
        // Four jobs that together want twice what there is.
        let jobs = ["a", "b", "c", "d"].map(|name| job(name, 1.0, 1e8)).to_vec();
        let workload = Workload { bandwidth_bps: 1e8, frame_s: [10.0, 200.0], jobs };
        let spread = |order| {
            let settings = IoSettings { order, ..IoSettings::ideal() };
            let outcome = simulate(&workload, &SET10, &settings, 0).unwrap();
            let stretches: Vec<f64> =
                outcome.jobs.iter().map(|job| job.stretch.unwrap_or(f64::INFINITY)).collect();
            stretches.iter().copied().fold(0.0, f64::max) / stretches[0]
        };
        assert!(spread(Order::FirstCome) < 1.1, "{}", spread(Order::FirstCome));
        assert!(spread(Order::Id) > 10.0, "{}", spread(Order::Id));
    }

    #[test]
    fn strict_turns_leave_no_leak_to_workers_that_would_be_idle() {
        let settings = IoSettings { exclusivity: Exclusivity::Strict, ..IoSettings::server(Rules::Iotide) };
        let strict = simulate(&finite(), &SET10, &settings, 0).unwrap();
        let relaxed = simulate(&finite(), &SET10, &IoSettings::server(Rules::Iotide), 0).unwrap();
        assert_eq!((strict.n_phases, relaxed.n_phases), (9, 9));
        assert!(strict.io_slowdown < relaxed.io_slowdown, "{strict:?} {relaxed:?}");
    }

    #[test]
    fn what_cannot_be_run_says_why() {
        let says = |workload: &Workload, settings: &IoSettings| {
            simulate(workload, &SET10, settings, 0).unwrap_err().to_string()
        };
        let ideal = IoSettings::ideal();
        assert_eq!(says(&Workload { jobs: Vec::new(), ..finite() }, &ideal), "the workload has no jobs");
        let hasty = Workload { jobs: vec![job("a", 1e-9, 0.0)], ..finite() };
        assert_eq!(
            says(&hasty, &ideal),
            "the workload has about 1.0e12 phases before its frame ends; at most 2e9 are simulated"
        );
        let wrong = IoSettings { leak: 1.0, ..ideal.clone() };
        assert_eq!(says(&finite(), &wrong), "leak is 1, but must be 0 or more and below 1");
        let wrong = IoSettings { n_workers: 0, ..ideal };
        assert_eq!(says(&finite(), &wrong), "the number of workers is 0, but must be above 0");
    }
}
