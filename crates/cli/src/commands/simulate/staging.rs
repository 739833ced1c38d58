//! `iotide simulate staging`: when to move a job's results out of its buffer.

use std::path::{Path, PathBuf};

use anyhow::bail;
use iotide_api::{Error, Progress, StagingJob, StagingOptions, StagingPolicy, read_text, simulate_staging};

use super::io::refused;
use super::read_models;
use crate::ExitStatus;
use crate::commands::advice::advised;
use crate::commands::document::DocumentArgs;
use crate::commands::ioskel::parse_size;
use crate::commands::model::point;
use crate::ui::{Hint, Ui};

/// See when results should leave a buffer, and what that costs the job
///
/// Runs a job that computes and then writes into a buffer, over and over, while its results are staged out to a slower file system by
/// the same controller that `iotide stage` runs: at once, between I/O phases, or when the job is over. Reports by how much
/// the job is slowed down, when its data is safe, how full the buffer becomes, and what a crash would cost.
///
/// WORKLOAD is a JSON file (`-` is stdin) or `example`.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct StagingArgs {
    /// Workload: a JSON file, or `example`
    workload: String,
    /// Capacity of the buffer [default: as the workload says, else without limit]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Workload")]
    capacity: Option<u64>,
    /// How many nodes hold the buffer [default: as the workload says, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Workload")]
    nodes: Option<u64>,
    /// Whether the workload describes one buffer for all nodes, or the buffer of one node
    #[arg(long, value_enum, default_value_t = BufferArg::Shared, help_heading = "Workload")]
    buffer: BufferArg,
    /// Measurements or stored models of `iotide model`, for figures of the workload at another scale
    #[arg(long, value_name = "FILE", requires = "at", help_heading = "Workload")]
    model: Option<PathBuf>,
    /// With --model: the scale
    #[arg(long, value_name = "NAME=NUMBER,…", requires = "model", help_heading = "Workload")]
    at: Option<String>,
    /// With --model: which metric a figure of the workload is [default: the one of its name; a single metric is phase_bytes]
    #[arg(long, value_name = "FIGURE=METRIC", requires = "model", help_heading = "Workload")]
    metric: Vec<String>,

    /// Which of immediate, end, space, gap and deadline
    #[arg(
        long,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "immediate,end,gap,deadline",
        help_heading = "What to run"
    )]
    policies: Vec<String>,
    /// Number of repetitions, each with another random seed
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "What to run")]
    seeds: usize,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "What to run")]
    seed: u64,

    /// By how much predicted starts are wrong: standard deviation, in periods
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, help_heading = "Settings")]
    error: f64,
    /// Relative deviation of computing times [default: as the workload says, else 0]
    #[arg(long, value_name = "SHARE", help_heading = "Settings")]
    jitter: Option<f64>,
    /// Phases before predictions begin
    #[arg(long, value_name = "N", default_value_t = 3, help_heading = "Settings")]
    warm_up: u64,
    /// Phases after which predictions stop
    #[arg(long, value_name = "N", help_heading = "Settings")]
    lost_after: Option<u64>,
    /// Without predictions: seconds of silence before data is moved
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, help_heading = "Settings")]
    quiet: f64,
    /// With predictions: seconds of silence before data is moved
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0, help_heading = "Settings")]
    recent: f64,
    /// The highest rate at which data is moved, in bytes per second
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Settings")]
    bandwidth: Option<u64>,

    #[command(flatten)]
    output: DocumentArgs,
}

const EXAMPLES: &str = "\
Examples:
  iotide simulate staging example                           a job whose figures can be checked by hand
  iotide simulate staging job.json -o staging.html          your own, with pictures; docs/staging-simulation.md says how to write it
  iotide simulate staging example --capacity 50G --error 0.2 --jitter 0.1 --seeds 20
                                                            a small buffer, and predictions that are often wrong
  iotide simulate staging job.json --model runs.jsonl --at p=4096 --nodes 128
                                                            which buffer the job needs at another scale";

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum BufferArg {
    Shared,
    PerNode,
}

pub(crate) fn run(ui: &mut Ui, args: &StagingArgs) -> anyhow::Result<ExitStatus> {
    let job = job(args)?;
    let report = simulate_staging(&job, &args.options()?, &mut |progress| {
        if let Progress::Simulating { scenario } = progress {
            ui.progress(format_args!("simulating: {scenario}"));
        }
    });
    args.output.deliver(ui, &report.map_err(refused)?)?;
    Ok(ExitStatus::Done)
}

fn job(args: &StagingArgs) -> anyhow::Result<StagingJob> {
    let mut job = match args.workload.as_str() {
        "example" => StagingJob::example(),
        path => {
            let text = read_text(Path::new(path))
                .map_err(advised)
                .hint("a workload is a JSON file as docs/staging-simulation.md describes it, or `example`")?;
            StagingJob::from_json(path, &text)
                .map_err(anyhow::Error::new)
                .hint("docs/staging-simulation.md says how a workload is written")?
        }
    };
    if let Some(bytes) = args.capacity {
        if bytes == 0 {
            bail!("--capacity 0 holds nothing");
        }
        job.workload.capacity_bytes = Some(bytes as f64);
    }
    if let (Some(path), Some(at)) = (&args.model, &args.at) {
        let names: Vec<(String, String)> =
            args.metric.iter().map(|text| figure_and_metric(text)).collect::<anyhow::Result<_>>()?;
        let models = read_models(path)?;
        let source = path.display().to_string();
        job = job.at(&source, &models, &point(at)?, &names).map_err(|error| match error {
            Error::Point { fault, .. } => anyhow::anyhow!("--at {at}: {fault}"),
            error => refused(error),
        })?;
    }
    job.on_nodes(args.nodes, args.buffer == BufferArg::PerNode).map_err(refused)
}

fn figure_and_metric(text: &str) -> anyhow::Result<(String, String)> {
    match text.split_once('=') {
        Some((figure, metric)) => Ok((figure.trim().to_owned(), metric.trim().to_owned())),
        None => bail!("--metric {text}: is not FIGURE=METRIC"),
    }
}

impl StagingArgs {
    /// Converts the flags to options; nothing below this line depends on clap.
    fn options(&self) -> anyhow::Result<StagingOptions> {
        let mut policies = Vec::new();
        for name in &self.policies {
            let Some(policy) = StagingPolicy::from_name(name) else {
                let names = StagingPolicy::ALL.map(StagingPolicy::name);
                bail!("--policies: {name:?} is not known; there are {}", names.join(", "));
            };
            policies.push(policy);
        }
        let mut options =
            StagingOptions { policies, seeds: self.seeds, seed: self.seed, ..StagingOptions::default() };
        let run = &mut options.run;
        (run.error, run.jitter) = (self.error, self.jitter);
        (run.warm_up_phases, run.lost_after_phases) = (self.warm_up, self.lost_after);
        (run.quiet_s, run.recent_s) = (self.quiet, self.recent);
        run.bandwidth_bps = self.bandwidth.map(|bps| bps as f64);
        Ok(options)
    }
}
