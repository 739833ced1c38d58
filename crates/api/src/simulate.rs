//! Periodic jobs on shared storage, under several policies.

use std::path::PathBuf;

use iotide_analysis::{RunConfig, analyse_run};
use iotide_formats::OpenOptions;
use iotide_report::{Published, SimulationReport};
use iotide_sched::{Ageing, Credit, Exclusivity, IoProfile, Order, Policy, Rules, UnknownJobs};
use iotide_sim::{Contender, IoSettings, JobSpec, Knowledge, Mix, Workload, compare};

use crate::{Error, Input, Observed, Progress, observe};

/// Jobs that share a storage, with a name for reports.
#[derive(Clone, Debug)]
pub struct IoWorkload {
    /// Name for reports.
    pub name: String,
    /// The jobs and their storage.
    pub workload: Workload,
    /// Whether it is that of Inria report 9537, whose published figures are put beside the answers.
    pub is_rr9537: bool,
}

/// More than this is a mistake rather than a machine.
const MOST_JOBS: usize = 10_000_000;

impl IoWorkload {
    /// The workload of Inria report 9537 (IO-Sets).
    pub fn rr9537() -> Self {
        Self { name: "report".to_owned(), workload: Workload::rr9537(), is_rr9537: true }
    }

    /// One that is described in JSON; see docs/scheduling.md.
    pub fn from_json(name: &str, text: &str) -> Result<Self, Error> {
        let workload =
            Workload::from_json(text).map_err(|why| Error::Workload { name: name.to_owned(), why })?;
        Ok(Self { name: name.to_owned(), workload, is_rr9537: false })
    }

    /// Generated jobs.
    pub fn mix(mix: &Mix, seed: u64) -> Result<Self, Error> {
        let fault = if !(1..=MOST_JOBS).contains(&mix.n_jobs) {
            Some(format!("jobs {} is not between 1 and {MOST_JOBS}", mix.n_jobs))
        } else if mix.around_s.is_empty() || mix.around_s.iter().any(|&s| !(s.is_finite() && s > 0.0)) {
            Some("around is a list of positive times".to_owned())
        } else if mix.iterations == Some(0) {
            Some("iterations 0 leaves nothing to do".to_owned())
        } else if !(mix.load.is_finite() && mix.load > 0.0) {
            Some(format!("load {} is not positive", mix.load))
        } else {
            None
        };
        match fault {
            Some(fault) => Err(Error::Setting { fault }),
            None => {
                Ok(Self { name: "mix".to_owned(), workload: Workload::generate(mix, seed), is_rr9537: false })
            }
        }
    }

    /// One job of each trace that has a period, `copies` times at once; `None` if no trace has one.
    ///
    /// Without a stated bandwidth the storage is as fast as the fastest of them.
    pub fn of_traces(
        traces: &[PathBuf],
        copies: usize,
        bandwidth_bps: Option<f64>,
        progress: &mut dyn FnMut(Progress<'_>),
    ) -> Result<Option<Self>, Error> {
        if !(1..=MOST_JOBS / traces.len().max(1)).contains(&copies) {
            let fault = format!("copies {copies} makes no job, or more than {MOST_JOBS}");
            return Err(Error::Setting { fault });
        }
        let mut jobs = Vec::new();
        let mut fastest_bps = 0.0;
        for path in traces {
            let input = Input::file(path);
            let Observed { reads, writes, stated, .. } = observe::<()>(&input, &OpenOptions::default())?;
            let analysis = analyse_run(&reads, &writes, &RunConfig { stated, ..RunConfig::default() });
            let profile =
                analysis.as_ref().ok().and_then(|run| IoProfile::from_estimate(&run.estimate, &run.scores));
            let (Some(profile), Ok(run)) = (profile, &analysis) else {
                progress(Progress::LeftOut { name: &input.name(), why: Error::NoPeriod });
                continue;
            };
            let (Some(bytes), Some(share)) = (profile.bytes_per_phase, profile.io_share) else {
                progress(Progress::LeftOut { name: &input.name(), why: Error::NothingSubstantial });
                continue;
            };
            fastest_bps = run.scores.io_bandwidth_bps.unwrap_or(0.0).max(fastest_bps);
            let name = path.file_stem().map_or(input.name(), |stem| stem.to_string_lossy().into_owned());
            for copy in 1..=copies {
                jobs.push(JobSpec {
                    name: if copies > 1 { format!("{name} {copy}") } else { name.clone() },
                    compute_s: profile.w_iter_s() * (1.0 - share),
                    io_bytes: bytes,
                    iterations: None,
                    start_s: 0.0,
                    jitter: 0.02,
                });
            }
        }
        let bandwidth_bps = bandwidth_bps.unwrap_or(fastest_bps);
        if jobs.is_empty() || bandwidth_bps <= 0.0 {
            return Ok(None);
        }
        let longest_s = jobs.iter().map(|job| job.w_iter_s(bandwidth_bps)).fold(0.0, f64::max);
        let workload = Workload { bandwidth_bps, frame_s: [longest_s, 9.0 * longest_s], jobs };
        Ok(Some(Self { name: "traces".to_owned(), workload, is_rr9537: false }))
    }
}

/// A policy with what it knows of the jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyName {
    policy: Policy,
    periods: Periods,
}

/// Where a policy has the periods of jobs from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Periods {
    Given,
    Predicted,
    /// Predicted, and too high or too low.
    Wrong,
}

impl Periods {
    const ALL: [Self; 3] = [Self::Given, Self::Predicted, Self::Wrong];

    fn suffix(self) -> &'static str {
        match self {
            Self::Given => "",
            Self::Predicted => "-predicted",
            Self::Wrong => "-error",
        }
    }
}

impl From<Policy> for PolicyName {
    /// With periods that are given.
    fn from(policy: Policy) -> Self {
        Self { policy, periods: Periods::Given }
    }
}

impl PolicyName {
    /// All of them, in the order of reports. The sets alone are compared with given periods only.
    pub fn all() -> Vec<Self> {
        let of = |policy: Policy| {
            let is_predicted = policy.needs_profiles() && !matches!(policy, Policy::EqualSets(_));
            let periods = if is_predicted { &Periods::ALL[..] } else { &Periods::ALL[..1] };
            periods.iter().map(move |&periods| Self { policy, periods })
        };
        Policy::ALL.into_iter().flat_map(of).collect()
    }

    /// The name people use.
    pub fn name(self) -> String {
        format!("{}{}", self.policy.name(), self.periods.suffix())
    }

    /// The policy that people mean by a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|policy| policy.name() == name)
    }

    fn contender(self, unknown: UnknownJobs, error: f64, one_error: bool) -> Contender {
        let knowledge = match self.periods {
            Periods::Given => Knowledge::Given,
            Periods::Predicted => Knowledge::Predicted { error: 0.0 },
            Periods::Wrong if one_error => Knowledge::GivenWrong { error },
            Periods::Wrong => Knowledge::Predicted { error },
        };
        Contender { policy: self.policy.with_unknown(unknown), knowledge }
    }
}

/// How storage is modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StorageModels {
    /// Ideally: bandwidth is divided as the policy says.
    Fluid,
    /// As a server with requests and workers.
    Requests,
    /// One after the other.
    #[default]
    Both,
}

/// Whose rules the server's queue follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueRules {
    /// Ours.
    Iotide,
    /// Those of Inria report 9537.
    Rr9537,
    /// One after the other.
    Both,
}

/// Settings of a simulation. `None` is as the model or the rules have it.
#[derive(Clone, Debug)]
pub struct SimulateOptions {
    /// The others are compared against the first.
    pub policies: Vec<PolicyName>,
    /// How storage is modelled.
    pub models: StorageModels,
    /// Whose rules; `None` is both for Inria report 9537, else ours.
    pub rules: Option<QueueRules>,
    /// How often to repeat, with other chances.
    pub repetitions: usize,
    /// Where chances begin.
    pub seed: u64,
    /// Which job of a set goes first.
    pub order: Option<Order>,
    /// Treatment of jobs without a prediction.
    pub unknown: Option<UnknownJobs>,
    /// Unequal shares where nobody sees to it: deviation of their logarithm.
    pub sigma: Option<f64>,
    /// Ideal storage: what share of a set's bandwidth leaks to jobs whose turn it is not.
    pub leak: f64,
    /// Server: what a set's share is counted in.
    pub credit: Option<Credit>,
    /// Server: whether others of a set wait even while the one whose turn it is has no request.
    pub strict: bool,
    /// Server: how long a job waits before it is served now and then; 0 is for ever.
    pub timeout_s: Option<f64>,
    /// Server: how many storage targets there are; with several, each rule is tried with targets that decide for themselves and with one queue for all.
    pub n_servers: usize,
    /// Server: over how many targets each job's data are striped.
    pub n_stripes: usize,
    /// Server: how many requests are served at once, at each target.
    pub n_workers: usize,
    /// Server: processes of a job, each with one request at the server.
    pub n_processes: usize,
    /// Server: size of a request.
    pub request_bytes: u64,
    /// Server: time from the end of a request until the next has come.
    pub latency_s: f64,
    /// Relative deviation of computing times; `None` is as the workload says, or 0.005 for Inria report 9537.
    pub jitter: Option<f64>,
    /// Predictions are believed after so many phases.
    pub warm_up_phases: u64,
    /// `set10-error`: how much too high or too low each prediction is.
    pub error: f64,
    /// `set10-error`: each job has one wrong period, from its beginning to its end, instead of predictions that are each wrong.
    pub one_error: bool,
    /// Whether pictures are wanted.
    pub draws: bool,
}

impl Default for SimulateOptions {
    fn default() -> Self {
        let server = IoSettings::server(Rules::Iotide);
        Self {
            policies: PolicyName::all(),
            models: StorageModels::Both,
            rules: None,
            repetitions: 10,
            seed: 0,
            order: None,
            unknown: None,
            sigma: None,
            leak: 0.0,
            credit: None,
            strict: false,
            timeout_s: None,
            n_servers: 1,
            n_stripes: 1,
            n_workers: server.n_workers,
            n_processes: server.n_processes,
            request_bytes: 1 << 20,
            latency_s: server.latency_s,
            jitter: None,
            warm_up_phases: IoSettings::ideal().warm_up_phases,
            error: 0.5,
            one_error: false,
            draws: false,
        }
    }
}

/// More jobs than this are lines too thin to be seen.
const MOST_DRAWN: usize = 160;

/// Runs a workload under each policy and says by how much jobs are stretched, and how well the storage is used.
pub fn simulate_io(
    workload: &IoWorkload,
    options: &SimulateOptions,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<SimulationReport, Error> {
    if let Some(timeout_s) = options.timeout_s.filter(|timeout_s| timeout_s.is_nan() || *timeout_s < 0.0) {
        return Err(Error::Setting { fault: format!("timeout {timeout_s} is not a number of seconds") });
    }
    if options.repetitions == 0 {
        return Err(Error::Setting { fault: "repetitions 0 leaves nothing to tell".to_owned() });
    }
    if options.models == StorageModels::Fluid && options.n_servers > 1 {
        let fault = format!(
            "servers {} needs the model of requests: an ideal storage has no targets",
            options.n_servers
        );
        return Err(Error::Setting { fault });
    }
    let IoWorkload { name, workload, is_rr9537 } = workload;
    let mut report = SimulationReport::new(name, workload, options.repetitions, options.seed);
    for Scenario { name, mut settings, unknown } in options.scenarios(*is_rr9537) {
        let is_drawn = options.draws && workload.jobs.len() <= MOST_DRAWN;
        settings.n_timeline_bins = if is_drawn { 400 } else { 0 };
        report.add_scenario(name, &settings, unknown);
        let contenders: Vec<Contender> = (options
            .policies
            .iter()
            .map(|policy| policy.contender(unknown, options.error, options.one_error)))
        .collect();
        let of = contenders.len() * options.repetitions;
        let tell = |n_done| progress(Progress::Repeating { scenario: name, nth: n_done + 1, of });
        let outcomes = compare(workload, &contenders, &settings, options.repetitions, options.seed, tell)
            .map_err(Error::Simulation)?;
        for (policy, outcomes) in options.policies.iter().zip(&outcomes) {
            let published = Published::of(&policy.name()).filter(|_| *is_rr9537 && options.n_servers == 1);
            report.add_policy(&policy.name(), outcomes, published);
        }
    }
    Ok(report)
}

/// One way of modelling the storage.
struct Scenario {
    name: &'static str,
    settings: IoSettings,
    unknown: UnknownJobs,
}

impl SimulateOptions {
    fn scenarios(&self, is_rr9537: bool) -> Vec<Scenario> {
        let rules = self.rules.unwrap_or(if is_rr9537 { QueueRules::Both } else { QueueRules::Iotide });
        let mut scenarios = Vec::new();
        // An ideal storage has no targets.
        if self.models != StorageModels::Requests && self.n_servers == 1 {
            scenarios.push(Scenario {
                name: "ideal",
                settings: IoSettings::ideal(),
                unknown: UnknownJobs::Together,
            });
        }
        let rules: &[Rules] = match rules {
            _ if self.models == StorageModels::Fluid => &[],
            QueueRules::Iotide => &[Rules::Iotide],
            QueueRules::Rr9537 => &[Rules::Report],
            QueueRules::Both => &[Rules::Report, Rules::Iotide],
        };
        for rules in rules {
            let coordinations: &[bool] = if self.n_servers > 1 { &[false, true] } else { &[false] };
            for &coordinated in coordinations {
                let name = match (rules, coordinated) {
                    (Rules::Report, false) => "server, the report's rules",
                    (Rules::Report, true) => "one queue for all servers, the report's rules",
                    (Rules::Iotide, false) => "server, iotide's rules",
                    (Rules::Iotide, true) => "one queue for all servers, iotide's rules",
                };
                let settings = IoSettings { coordinated, ..IoSettings::server(*rules) };
                scenarios.push(Scenario { name, settings, unknown: rules.unknown_jobs() });
            }
        }
        for Scenario { settings, unknown, .. } in &mut scenarios {
            *unknown = self.unknown.unwrap_or(*unknown);
            settings.order = self.order.unwrap_or(settings.order);
            settings.credit = self.credit.unwrap_or(settings.credit);
            settings.sigma = self.sigma.unwrap_or(settings.sigma);
            if let Some(timeout_s) = self.timeout_s {
                settings.ageing = (timeout_s > 0.0).then_some(Ageing { patience_s: timeout_s, every: 16 });
            }
            settings.leak = self.leak;
            if self.strict {
                settings.exclusivity = Exclusivity::Strict;
            }
            settings.n_servers = self.n_servers;
            settings.n_stripes = self.n_stripes;
            settings.n_workers = self.n_workers;
            settings.n_processes = self.n_processes;
            settings.request_bytes = self.request_bytes;
            settings.latency_s = self.latency_s;
            // The report's jobs sleep, and yet no two of its repetitions were the same.
            settings.jitter = self.jitter.or(is_rr9537.then_some(0.005));
            settings.warm_up_phases = self.warm_up_phases;
        }
        scenarios
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_has_a_name_of_its_own() {
        let all: Vec<Contender> = PolicyName::all()
            .into_iter()
            .map(|policy| policy.contender(UnknownJobs::Together, 0.5, false))
            .collect();
        for (i, one) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|other| other != one), "{one:?}");
        }
        for policy in PolicyName::all() {
            assert_eq!(PolicyName::from_name(&policy.name()), Some(policy));
        }
        assert_eq!(PolicyName::from_name("set11"), None);
    }

    #[test]
    fn what_leaves_nothing_to_simulate_is_refused() {
        let mix = Mix {
            n_jobs: 0,
            around_s: vec![10.0],
            load: 0.5,
            bandwidth_bps: 1e9,
            iterations: None,
            jitter: 0.0,
            frame_s: None,
        };
        let fault = |mix: Mix| IoWorkload::mix(&mix, 0).unwrap_err().to_string();
        assert_eq!(fault(mix.clone()), "jobs 0 is not between 1 and 10000000");
        assert_eq!(fault(Mix { n_jobs: 1, load: 0.0, ..mix.clone() }), "load 0 is not positive");
        assert_eq!(
            fault(Mix { n_jobs: 1, around_s: Vec::new(), ..mix }),
            "around is a list of positive times"
        );
        let none = IoWorkload::of_traces(&[], 0, None, &mut |_| ()).unwrap_err().to_string();
        assert_eq!(none, "copies 0 makes no job, or more than 10000000");
        let never = SimulateOptions { repetitions: 0, ..SimulateOptions::default() };
        assert!(simulate_io(&IoWorkload::rr9537(), &never, &mut |_| ()).is_err());
    }
}
