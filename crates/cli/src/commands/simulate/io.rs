//! `iotide simulate io`: periodic jobs on shared storage, under several policies.

use std::path::{Path, PathBuf};

use anyhow::bail;
use iotide_api::{
    Credit, Error, IoSettings, IoWorkload, Mix, Order, PolicyName, Progress, QueueRules, Rules,
    SimulateOptions, StorageModels, UnknownJobs, read_text, simulate_io,
};

use crate::ExitStatus;
use crate::commands::advice::advised;
use crate::commands::document::DocumentArgs;
use crate::commands::ioskel::parse_size;
use crate::ui::{Hint, Ui};

/// See what policies of sharing storage would do to periodic jobs
///
/// Runs jobs that compute and then do I/O, over and over, on one storage: without scheduling, with a fair share for each
/// job, one job at a time, and with Set-10 (jobs grouped by the order of magnitude of their period), knowing the periods
/// or predicting them. Says by how much jobs are stretched, how much slower their I/O is, and how much of the time is
/// spent computing.
///
/// WORKLOAD is a JSON file (`-` is stdin), `rr9537` (the workload of Inria report 9537, whose published figures are put
/// beside the answers) or `mix` (generated jobs).
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct IoArgs {
    /// Workload: a JSON file, `rr9537`, or `mix`
    #[arg(required_unless_present = "from_traces", conflicts_with = "from_traces")]
    workload: Option<String>,
    /// Make one job of each trace that has a period
    #[arg(long, value_name = "TRACE", num_args = 1.., help_heading = "Workload")]
    from_traces: Vec<PathBuf>,
    /// With --from-traces: number of copies of each job that run at once
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Workload")]
    copies: usize,
    /// Bandwidth that one job alone gets from the storage, in bytes per second [default: as the workload says; of traces, the
    /// fastest]
    #[arg(long, value_name = "SIZE", value_parser = parse_size, help_heading = "Workload")]
    bandwidth: Option<u64>,
    /// Judge only this part, in seconds [default: as the workload says]
    #[arg(long, value_name = "FROM:TO", value_parser = frame, help_heading = "Workload")]
    frame: Option<[f64; 2]>,
    /// `mix`: how many jobs
    #[arg(long, value_name = "N", default_value_t = 60, help_heading = "Workload")]
    jobs: usize,
    /// `mix`: the periods lie around these, in seconds
    #[arg(long, value_name = "S,…", value_delimiter = ',', default_values_t = [10.0, 100.0, 1000.0], help_heading = "Workload")]
    around: Vec<f64>,
    /// `mix`: what share of the storage's time the jobs want together
    #[arg(long, value_name = "SHARE", default_value_t = 0.8, help_heading = "Workload")]
    load: f64,
    /// `mix`: how often each job does I/O [default: until the end]
    #[arg(long, value_name = "N", help_heading = "Workload")]
    iterations: Option<u64>,

    /// Which of none, fair-share, exclusive, equal-sets, set10, set10-predicted and set10-error; the others are compared
    /// against the first [default: all]
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = policy_of_name, help_heading = "What to run")]
    policies: Vec<PolicyName>,
    /// An ideal storage, a server with requests and workers, or both
    #[arg(long, value_enum, default_value_t = ModelArg::Both, help_heading = "What to run")]
    model: ModelArg,
    /// Whose rules the server's queue follows: iotide's, the report's, or both [default: both for `rr9537`, else iotide]
    #[arg(long, value_enum, help_heading = "What to run")]
    rules: Option<RulesArg>,
    /// Number of repetitions, each with another random seed
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "What to run")]
    repetitions: usize,
    /// Random seed
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "What to run")]
    seed: u64,

    /// Which job of a set goes first [default: first-come; `id` by the report's rules]
    #[arg(long, value_enum, help_heading = "Settings")]
    order: Option<OrderArg>,
    /// Sets for jobs without a prediction: one for all, or one each [default: together; `apart` by the report's rules]
    #[arg(long, value_enum, help_heading = "Settings")]
    unknown: Option<UnknownArg>,
    /// Spread of shares without scheduling (log-normal sigma) [default: 0 ideally, 0.25 at a server]
    #[arg(long, value_name = "SIGMA", help_heading = "Settings")]
    sigma: Option<f64>,
    /// Ideal storage: what share of a set's bandwidth leaks to jobs whose turn it is not
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, help_heading = "Settings")]
    leak: f64,
    /// Server: what a set's share is counted in [default: bytes; requests by the report's rules]
    #[arg(long, value_enum, help_heading = "Settings")]
    credit: Option<CreditArg>,
    /// Server: make others of a set wait even while the one whose turn it is has no request
    #[arg(long, help_heading = "Settings")]
    strict: bool,
    /// Server: serve a job now and then that was not served for this many seconds; 0 is never [default: 60; never by
    /// the report's rules]
    #[arg(long, alias = "patience", value_name = "SECONDS", help_heading = "Settings")]
    timeout: Option<f64>,
    /// Server: how many storage targets there are, each with a queue of its own; with several, one queue for all is tried, too
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Settings")]
    servers: usize,
    /// Server: over how many of them the data of each job are striped; together they move what one job alone gets
    #[arg(long, value_name = "M", default_value_t = 1, help_heading = "Settings")]
    stripes: usize,
    /// Server: how many requests are served at once, at each target
    #[arg(long, value_name = "N", default_value_t = IoSettings::server(Rules::Iotide).n_workers, help_heading = "Settings")]
    workers: usize,
    /// Server: processes of a job, each with one request at the server
    #[arg(long, value_name = "N", default_value_t = IoSettings::server(Rules::Iotide).n_processes, help_heading = "Settings")]
    processes: usize,
    /// Server: size of a request
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = parse_size, help_heading = "Settings")]
    request_size: u64,
    /// Server: seconds from the end of a request until the next has come
    #[arg(long, value_name = "SECONDS", default_value_t = IoSettings::server(Rules::Iotide).latency_s, help_heading = "Settings")]
    latency: f64,
    /// Relative deviation of computing times [default: as the workload says; 0.005 for `rr9537`]
    #[arg(long, value_name = "SHARE", help_heading = "Settings")]
    jitter: Option<f64>,
    /// Phases before predictions are used
    #[arg(long, value_name = "N", default_value_t = IoSettings::ideal().warm_up_phases, help_heading = "Settings")]
    warm_up: u64,
    /// `set10-error`: how much too high or too low each prediction is
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, help_heading = "Settings")]
    error: f64,
    /// `set10-error`: one wrong period for each job, from its beginning to its end, instead of predictions that are each wrong
    #[arg(long, help_heading = "Settings")]
    one_error: bool,

    #[command(flatten)]
    output: DocumentArgs,
}

const EXAMPLES: &str = "\
Examples:
  iotide simulate io rr9537                                 the published experiment, beside its figures
  iotide simulate io rr9537 -o policies.html                the same as a page with pictures
  iotide simulate io mix --jobs 90 --load 0.9 --model fluid generated jobs around 10, 100 and 1000 s
  iotide simulate io rr9537 --servers 4 --stripes 2         the same jobs on four storage targets, two for each job
  iotide simulate io jobs.json --policies none,set10        your own; docs/scheduling.md says how to write it
  iotide simulate io --from-traces a.csv b.darshan --copies 8
                                                            what if eight of each ran at once?";

pub(crate) fn run(ui: &mut Ui, args: &IoArgs) -> anyhow::Result<ExitStatus> {
    let Some(workload) = workload(ui, args)? else {
        ui.status("no trace has a period: there is nothing to simulate");
        return Ok(ExitStatus::NothingFound);
    };
    if args.from_traces.is_empty() && args.copies != 1 {
        bail!("--copies is about --from-traces: a workload says itself how often a job runs");
    }
    let report = simulate_io(&workload, &args.options(), &mut |progress| {
        if let Progress::Repeating { scenario, nth, of } = progress {
            ui.progress(format_args!("simulating: {scenario} ({nth} of {of} runs)"));
        }
    });
    args.output.deliver(ui, &report.map_err(refused)?)?;
    Ok(ExitStatus::Done)
}

/// A setting that cannot be has the name of its flag.
pub(in crate::commands) fn refused(error: Error) -> anyhow::Error {
    match error {
        Error::Setting { fault } => anyhow::anyhow!("--{fault}"),
        error => advised(error),
    }
}

/// The workload that is built in.
const RR9537: &str = "rr9537";
/// Its former name.
const REPORT: &str = "report";

fn policy_of_name(name: &str) -> Result<PolicyName, String> {
    let names: Vec<String> = PolicyName::all().into_iter().map(PolicyName::name).collect();
    PolicyName::from_name(name).ok_or_else(|| format!("known policies are {}", names.join(", ")))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ModelArg {
    Fluid,
    Requests,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum RulesArg {
    Iotide,
    Report,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum OrderArg {
    FirstCome,
    Id,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum UnknownArg {
    Together,
    Apart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum CreditArg {
    Bytes,
    Requests,
}

impl IoArgs {
    /// Converts the flags to options; nothing below this line depends on clap.
    fn options(&self) -> SimulateOptions {
        let usual = SimulateOptions::default();
        SimulateOptions {
            policies: if self.policies.is_empty() { usual.policies } else { self.policies.clone() },
            models: match self.model {
                ModelArg::Fluid => StorageModels::Fluid,
                ModelArg::Requests => StorageModels::Requests,
                ModelArg::Both => StorageModels::Both,
            },
            rules: self.rules.map(|rules| match rules {
                RulesArg::Iotide => QueueRules::Iotide,
                RulesArg::Report => QueueRules::Rr9537,
                RulesArg::Both => QueueRules::Both,
            }),
            repetitions: self.repetitions,
            seed: self.seed,
            order: self.order.map(|order| match order {
                OrderArg::FirstCome => Order::FirstCome,
                OrderArg::Id => Order::Id,
            }),
            unknown: self.unknown.map(|unknown| match unknown {
                UnknownArg::Together => UnknownJobs::Together,
                UnknownArg::Apart => UnknownJobs::Apart,
            }),
            sigma: self.sigma,
            leak: self.leak,
            credit: self.credit.map(|credit| match credit {
                CreditArg::Bytes => Credit::Bytes,
                CreditArg::Requests => Credit::Requests,
            }),
            strict: self.strict,
            timeout_s: self.timeout,
            n_servers: self.servers,
            n_stripes: self.stripes,
            n_workers: self.workers,
            n_processes: self.processes,
            request_bytes: self.request_size,
            latency_s: self.latency,
            jitter: self.jitter,
            warm_up_phases: self.warm_up,
            error: self.error,
            one_error: self.one_error,
            draws: self.output.wants_pictures(),
        }
    }

    fn mix(&self) -> Mix {
        Mix {
            n_jobs: self.jobs,
            around_s: self.around.clone(),
            load: self.load,
            bandwidth_bps: self.bandwidth.unwrap_or(1 << 30) as f64,
            iterations: self.iterations,
            jitter: 0.02,
            frame_s: self.frame,
        }
    }
}

/// The workload with its name; none if no trace has a period.
fn workload(ui: &mut Ui, args: &IoArgs) -> anyhow::Result<Option<IoWorkload>> {
    let bandwidth_bps = args.bandwidth.map(|bandwidth| bandwidth as f64);
    let mut found = match args.workload.as_deref() {
        None => {
            let mut tell = |progress: Progress<'_>| {
                if let Progress::LeftOut { name, why } = progress {
                    let pause = if matches!(why, Error::NoPeriod) { "," } else { ";" };
                    ui.status(format_args!("{name}: {why}{pause} left out"));
                }
            };
            let found = IoWorkload::of_traces(&args.from_traces, args.copies, bandwidth_bps, &mut tell);
            let Some(found) = found.map_err(refused)? else { return Ok(None) };
            found
        }
        Some(RR9537 | REPORT) => IoWorkload::rr9537(),
        Some("mix") => IoWorkload::mix(&args.mix(), args.seed).map_err(refused)?,
        Some(path) => {
            let hint = "a workload is a JSON file, `rr9537` or `mix`";
            let text = read_text(Path::new(path)).hint(hint)?;
            let mut found = IoWorkload::from_json(path, &text).map_err(advised)?;
            if path == "-" {
                found.name = "stdin".to_owned();
            }
            found
        }
    };
    let workload = &mut found.workload;
    workload.bandwidth_bps = bandwidth_bps.unwrap_or(workload.bandwidth_bps);
    workload.frame_s = args.frame.unwrap_or(workload.frame_s);
    Ok(Some(found))
}

fn frame(text: &str) -> Result<[f64; 2], String> {
    let parsed = text.split_once(':').and_then(|(from, to)| Some([from.parse().ok()?, to.parse().ok()?]));
    match parsed {
        Some([from_s, to_s]) if 0.0 <= from_s && from_s < to_s && f64::is_finite(to_s) => Ok([from_s, to_s]),
        _ => Err("a frame is FROM:TO in seconds, for example 400:3200".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_begins_before_it_ends() {
        assert_eq!(frame("400:3200"), Ok([400.0, 3200.0]));
        for wrong in ["", "5", "5:5", "7:5", "-1:5", "a:b", "0:inf", "nan:1"] {
            assert!(frame(wrong).is_err(), "{wrong}");
        }
    }
}
