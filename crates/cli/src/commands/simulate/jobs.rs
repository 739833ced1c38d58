//! `iotide simulate jobs`: jobs on a machine, under several scheduling policies.

use std::path::{Path, PathBuf};

use anyhow::bail;
use iotide_api::{
    ClassErrors, Error, JobPolicy, JobsLog, JobsLogOptions, JobsMix, PolicyKnobs, Progress,
    SimulateJobsOptions, simulate_jobs,
};

use super::io::refused;
use super::read_models;
use crate::ExitStatus;
use crate::commands::advice::advised;
use crate::commands::document::DocumentArgs;
use crate::ui::{Hint, Ui};

/// The name of the log that is made up.
const MIX: &str = "mix";

/// See what scheduling policies, and malleable jobs, would do to a machine
///
/// Runs the jobs of a log again, under each policy: first come first served, EASY and conservative backfilling, the malleable policies
/// of the ADMIRE project as published and corrected (`+`), others from the literature, and iotide's own (`tide`). Reports waits,
/// makespan, slowdown and utilisation, each against the first policy.
///
/// LOG is a description in JSON, a log in Standard Workload Format, what `sacct --parsable2` prints (`-` is stdin), or `mix` (generated
/// jobs).
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct JobsArgs {
    /// Workload: a job log, a description, or `mix`
    log: String,
    /// How many nodes the machine has [default: as the log says; 64 for `mix`]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Workload")]
    nodes: Option<u32>,
    /// Only the first N jobs of the log
    #[arg(long, value_name = "N", help_heading = "Workload")]
    first: Option<usize>,
    /// Make this percentage of the jobs malleable, from half to four times their nodes; several are run one after the other [default:
    /// as the log says; 20 for `mix` if a policy resizes jobs]
    #[arg(long, value_name = "PERCENT,…", value_delimiter = ',', help_heading = "Workload")]
    malleable: Vec<f64>,
    /// Share of the work of these that gains nothing from more nodes
    #[arg(long, value_name = "SHARE", default_value_t = 0.05, help_heading = "Workload")]
    serial_fraction: f64,
    /// Seconds that a change of size costs a job [default: as the log says, else 0]
    #[arg(long, value_name = "SECONDS", help_heading = "Workload")]
    alpha: Option<f64>,
    /// The same for each node that comes or goes [default: as the log says, else 0]
    #[arg(long, value_name = "SECONDS", help_heading = "Workload")]
    alpha_per_node: Option<f64>,
    /// Measurements or stored models of `iotide model`, for jobs and storage that name a model
    #[arg(long, value_name = "FILE", help_heading = "Workload")]
    models: Option<PathBuf>,
    /// I/O of jobs, by name: JSON of traces, bytes or labels; docs/jobs.md has the format
    #[arg(long, value_name = "FILE", help_heading = "Workload")]
    io: Option<PathBuf>,
    /// `mix`: how many jobs
    #[arg(long, value_name = "N", default_value_t = 300, help_heading = "Workload")]
    jobs: usize,
    /// `mix`: what share of the machine the jobs want together
    #[arg(long, value_name = "SHARE", default_value_t = 0.85, help_heading = "Workload")]
    load: f64,

    /// Which policies, or `all`; the others are compared against the first [default: easy, mebf-aggressive, mebf-aggressive+,
    /// common-pool, tide]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', help_heading = "What to run")]
    policies: Vec<String>,
    /// Number of repetitions; each draws again which jobs are malleable, which part of the log is used, and the errors
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "What to run")]
    seeds: usize,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "What to run")]
    seed: u64,
    /// Each seed runs N consecutive jobs of the log, from a random one on [default: all of them]
    #[arg(long, value_name = "N", help_heading = "What to run")]
    window: Option<usize>,
    /// Number of simulations in parallel; 0 is one per core. The results do not depend on it
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "What to run")]
    threads: usize,

    /// `mebf-*`: shrink a job only if its remaining time grows at most by this factor
    #[arg(long, value_name = "RATIO", default_value_t = PolicyKnobs::default().gamma, help_heading = "Settings")]
    gamma: f64,
    /// `mebf-hand-off`: share of its nodes that a job hands off
    #[arg(long, value_name = "SHARE", default_value_t = PolicyKnobs::default().sharing_factor, help_heading = "Settings")]
    sharing_factor: f64,
    /// `mebf-keep-spare`: share of its nodes that a job keeps to spare
    #[arg(long, value_name = "SHARE", default_value_t = PolicyKnobs::default().limit, help_heading = "Settings")]
    limit: f64,
    /// Put what decisions are based on off the truth, by who says so: deviations of the logarithm
    #[arg(long, value_name = "runs=SIGMA,user=SIGMA", value_parser = class_errors, help_heading = "Settings")]
    errors: Option<ClassErrors>,
    /// Put recorded times off the truth: deviation of the logarithm
    #[arg(long, value_name = "SIGMA", default_value_t = 0.0, help_heading = "Settings")]
    recorded_error: f64,
    /// Put limits above the truth: deviation of the logarithm
    #[arg(long, value_name = "SIGMA", default_value_t = 0.0, help_heading = "Settings")]
    limit_error: f64,
    /// Power of a busy and an idle node, in watts, for the energy
    #[arg(long, value_name = "BUSY,IDLE", value_parser = watts, help_heading = "Settings")]
    watts: Option<[f64; 2]>,

    #[command(flatten)]
    output: DocumentArgs,
}

const EXAMPLES: &str = "\
Examples:
  iotide simulate jobs log.swf                                     the policies side by side
  iotide simulate jobs log.swf --malleable 0,20,50,100 --seeds 30 -o page.html
                                                                   what malleable jobs would give, with intervals
  iotide simulate jobs log.swf --policies easy,tide --malleable 50 --seeds 20 --window 1000
                                                                   other parts of the log, too
  iotide simulate jobs jobs.json --policies easy,io-balance --io io.json --errors manager=0,runs=0.1,user=0.5 --seeds 30
                                                                   what is known of jobs, and what if that is wrong?
  sacct -aPX -o JobID,User,JobName,NNodes,Submit,Start,End,State,Timelimit | iotide simulate jobs - --nodes 128
                                                                   your own machine
  iotide simulate jobs jobs.json --format json                     each start, end and resize; docs/jobs.md has the format";

pub(crate) fn run(ui: &mut Ui, args: &JobsArgs) -> anyhow::Result<ExitStatus> {
    let log = log(args)?;
    let report = simulate_jobs(&log, &args.options()?, &mut |progress| {
        if let Progress::Simulating { scenario } = progress {
            ui.progress(format_args!("simulating: {scenario}"));
        }
    });
    args.output.deliver(ui, &report.map_err(refused)?)?;
    Ok(ExitStatus::Done)
}

fn log(args: &JobsArgs) -> anyhow::Result<JobsLog> {
    if args.log == MIX {
        if args.io.is_some() || args.models.is_some() {
            bail!("--io and --models are about jobs of a log: those of `mix` have no names");
        }
        if args.first.is_some() {
            bail!("--first is about a log: --jobs says how many `mix` has");
        }
        let mix = JobsMix { nodes: args.nodes.unwrap_or(64), n_jobs: args.jobs, load: args.load };
        return JobsLog::mix(&mix, args.seed).map_err(refused);
    }
    let models = args.models.as_deref().map(read_models).transpose()?;
    let options = JobsLogOptions {
        nodes: args.nodes,
        first: args.first,
        utc_offset_s: 0.0,
        models,
        io: args.io.clone(),
    };
    match JobsLog::open(Path::new(&args.log), &options) {
        Err(error @ Error::MachineUnknown { .. }) => {
            Err(anyhow::Error::new(error)).hint("say how many nodes it has with --nodes N")
        }
        Err(error @ (Error::ModelUnknown { .. } | Error::StorageModelUnknown { .. })) => {
            Err(anyhow::Error::new(error))
                .hint("--models FILE has measurements or models; a name is a call path or a metric of it")
        }
        Err(error @ Error::Setting { .. }) => Err(refused(error)),
        log => log
            .map_err(advised)
            .hint("a log is a file in JSON, in Standard Workload Format or of sacct, or `mix`"),
    }
}

impl JobsArgs {
    /// Converts the flags to options; nothing below this line depends on clap.
    fn options(&self) -> anyhow::Result<SimulateJobsOptions> {
        let usual = SimulateJobsOptions::default();
        let mut policies = Vec::new();
        for name in &self.policies {
            match JobPolicy::from_name(name) {
                _ if name == "all" => policies.extend(JobPolicy::ALL),
                Some(policy) => policies.push(policy),
                None => {
                    let names = JobPolicy::ALL.map(JobPolicy::name);
                    bail!("--policies: {name:?} is not known; there are {}", names.join(", "));
                }
            }
        }
        if let Some(wrong) = self.malleable.iter().find(|percent| !(0.0..=100.0).contains(*percent)) {
            bail!("--malleable: {wrong} is not a percentage between 0 and 100");
        }
        let policies = if policies.is_empty() { usual.policies } else { policies };
        // The jobs of a mix are rigid: policies that resize jobs would all look like EASY.
        let is_rigid_mix = self.malleable.is_empty() && self.log == MIX;
        let malleable = if is_rigid_mix && policies.iter().any(|policy| policy.resizes()) {
            &[20.0][..]
        } else {
            &self.malleable
        };
        Ok(SimulateJobsOptions {
            policies,
            malleable: malleable.iter().map(|percent| percent / 100.0).collect(),
            serial_fraction: self.serial_fraction,
            seeds: self.seeds,
            seed: self.seed,
            window: self.window,
            knobs: PolicyKnobs {
                gamma: self.gamma,
                sharing_factor: self.sharing_factor,
                limit: self.limit,
                ..usual.knobs
            },
            alpha_s: self.alpha,
            alpha_per_node_s: self.alpha_per_node,
            recorded_error: self.recorded_error,
            limit_error: self.limit_error,
            errors: self.errors.unwrap_or_default(),
            node_watts: self.watts,
            n_threads: self.threads,
            draws: self.output.wants_pictures(),
        })
    }
}

/// `manager=0,runs=0.1,user=0.5`, any of them.
fn class_errors(text: &str) -> Result<ClassErrors, String> {
    let mut errors = ClassErrors::default();
    let mut named = Vec::new();
    for part in text.split(',') {
        let (class, sigma) =
            part.split_once('=').ok_or("it is CLASS=SIGMA, for example runs=0.1,user=0.5")?;
        let sigma = (sigma.parse().ok())
            .filter(|sigma: &f64| (0.0..=10.0).contains(sigma))
            .ok_or_else(|| format!("{sigma:?} is not a deviation between 0 and 10"))?;
        if named.contains(&class) {
            return Err(format!("{class} is named twice"));
        }
        named.push(class);
        match class {
            "runs" => errors.runs = sigma,
            "user" => errors.user = sigma,
            "manager" if sigma == 0.0 => {}
            "manager" => return Err("what the resource manager says is counted: its error is 0".to_owned()),
            _ => return Err(format!("{class:?} is not known; classes are manager, runs and user")),
        }
    }
    Ok(errors)
}

fn watts(text: &str) -> Result<[f64; 2], String> {
    let parsed = text.split_once(',').and_then(|(busy, idle)| Some([busy.parse().ok()?, idle.parse().ok()?]));
    match parsed {
        Some(watts) if watts.iter().all(|watts: &f64| watts.is_finite() && *watts >= 0.0) => Ok(watts),
        _ => Err("power is BUSY,IDLE in watts, for example 350,120".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_read_by_class() {
        let read = |text| class_errors(text);
        assert_eq!(read("manager=0,runs=0.1,user=0.5"), Ok(ClassErrors { runs: 0.1, user: 0.5 }));
        assert_eq!(read("user=2"), Ok(ClassErrors { runs: 0.0, user: 2.0 }));
        for wrong in [
            "",
            "runs",
            "runs=-1",
            "runs=nan",
            "runs=11",
            "god=1",
            "manager=0.1",
            "runs=0.1,",
            "runs=0,runs=1",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
