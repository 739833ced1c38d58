//! `iotide simulate io`: periodic jobs on shared storage, under several policies.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use iotide_analysis::{RunConfig, analyse_run};
use iotide_api::{Input, Observed, OpenOptions, observe};
use iotide_report::{Published, SimulationReport};
use iotide_sched::{Ageing, Credit, Exclusivity, IoProfile, Order, Policy, UnknownJobs};
use iotide_sim::{Contender, IoSettings, JobSpec, Knowledge, Mix, Model, Workload, compare};

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
/// WORKLOAD is a JSON file (`-` is stdin), `report` (the workload of Inria report 9537, whose published figures are put
/// beside the answers) or `mix` (generated jobs).
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct IoArgs {
    /// What to run: a JSON file, `report`, or `mix`
    #[arg(required_unless_present = "from_traces", conflicts_with = "from_traces")]
    workload: Option<String>,
    /// Make one job of each trace that has a period
    #[arg(long, value_name = "TRACE", num_args = 1.., help_heading = "Workload")]
    from_traces: Vec<PathBuf>,
    /// With --from-traces: run each job so many times at once
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Workload")]
    copies: usize,
    /// What one job alone gets from the storage, in bytes per second [default: as the workload says; of traces, the
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
    #[arg(long, value_name = "NAME,…", value_delimiter = ',', value_parser = contender_of_name, help_heading = "What to run")]
    policies: Vec<Named>,
    /// An ideal storage, a server with requests and workers, or both
    #[arg(long, value_enum, default_value_t = ModelArg::Both, help_heading = "What to run")]
    model: ModelArg,
    /// Whose rules the server's queue follows: iotide's, the report's, or both [default: both for `report`, else iotide]
    #[arg(long, value_enum, help_heading = "What to run")]
    rules: Option<RulesArg>,
    /// How often to repeat, with other chances
    #[arg(long, value_name = "N", default_value_t = 10, help_heading = "What to run")]
    repetitions: usize,
    /// Where chances begin
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "What to run")]
    seed: u64,

    /// Which job of a set goes first [default: first-come; `id` by the report's rules]
    #[arg(long, value_enum, help_heading = "Settings")]
    order: Option<OrderArg>,
    /// What becomes of jobs without a prediction: one set, or one each [default: together; `apart` by the report's rules]
    #[arg(long, value_enum, help_heading = "Settings")]
    unknown: Option<UnknownArg>,
    /// Unequal shares where nobody sees to it: deviation of their logarithm [default: 0 ideally, 0.25 at a server]
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
    /// Server: how many requests are served at once
    #[arg(long, value_name = "N", default_value_t = IoSettings::server().n_workers, help_heading = "Settings")]
    workers: usize,
    /// Server: processes of a job, each with one request at the server
    #[arg(long, value_name = "N", default_value_t = IoSettings::server().n_processes, help_heading = "Settings")]
    processes: usize,
    /// Server: size of a request
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = parse_size, help_heading = "Settings")]
    request_size: u64,
    /// Server: seconds from the end of a request until the next has come
    #[arg(long, value_name = "SECONDS", default_value_t = IoSettings::server().latency_s, help_heading = "Settings")]
    latency: f64,
    /// Relative deviation of computing times [default: as the workload says; 0.005 for `report`]
    #[arg(long, value_name = "SHARE", help_heading = "Settings")]
    jitter: Option<f64>,
    /// Predictions begin after so many phases
    #[arg(long, value_name = "N", default_value_t = IoSettings::ideal().warm_up_phases, help_heading = "Settings")]
    warm_up: u64,
    /// `set10-error`: how much too high or too low each prediction is
    #[arg(long, value_name = "SHARE", default_value_t = 0.5, help_heading = "Settings")]
    error: f64,

    #[command(flatten)]
    output: DocumentArgs,
}

const EXAMPLES: &str = "\
Examples:
  iotide simulate io report                                 the published experiment, beside its figures
  iotide simulate io report -o policies.html                the same as a page with pictures
  iotide simulate io mix --jobs 90 --load 0.9 --model fluid generated jobs around 10, 100 and 1000 s
  iotide simulate io jobs.json --policies none,set10        your own; docs/scheduling.md says how to write it
  iotide simulate io --from-traces a.csv b.darshan --copies 8
                                                            what if eight of each ran at once?";

pub(crate) fn run(ui: &mut Ui, args: &IoArgs) -> anyhow::Result<ExitStatus> {
    let Some((name, workload)) = workload(ui, args)? else {
        ui.status("no trace has a period: there is nothing to simulate");
        return Ok(ExitStatus::NothingFound);
    };
    if let Some(timeout_s) = args.timeout.filter(|timeout_s| timeout_s.is_nan() || *timeout_s < 0.0) {
        bail!("--timeout {timeout_s} is not a number of seconds");
    }
    if args.from_traces.is_empty() && args.copies != 1 {
        bail!("--copies is about --from-traces: a workload says itself how often a job runs");
    }
    if args.repetitions == 0 {
        bail!("--repetitions 0 leaves nothing to tell");
    }
    let is_report = name == REPORT;
    let contenders = if args.policies.is_empty() { NAMES.map(Named).to_vec() } else { args.policies.clone() };
    let mut report = SimulationReport::new(&name, &workload, args.repetitions, args.seed);
    for scenario in scenarios(args, is_report) {
        ui.progress(format_args!("simulating: {}", scenario.name));
        let settings = IoSettings {
            n_timeline_bins: if args.output.wants_pictures() && workload.jobs.len() <= MOST_DRAWN {
                400
            } else {
                0
            },
            ..scenario.settings
        };
        let unknown = match scenario.unknown {
            UnknownJobs::Together => "together",
            UnknownJobs::Apart => "apart",
        };
        report.add_scenario(scenario.name, &settings, unknown);
        let run: Vec<Contender> =
            contenders.iter().map(|named| named.contender(scenario.unknown, args.error)).collect();
        let outcomes = compare(&workload, &run, &settings, args.repetitions, args.seed)
            .hint("`iotide simulate io --help` lists what can be changed")?;
        for (Named(name), outcomes) in contenders.iter().zip(&outcomes) {
            report.add_policy(name, outcomes, Published::of(name).filter(|_| is_report));
        }
    }
    args.output.deliver(ui, &report)?;
    Ok(ExitStatus::Done)
}

/// The workload that is built in.
const REPORT: &str = "report";

/// More jobs than this are lines too thin to be seen.
const MOST_DRAWN: usize = 160;

/// A policy with what it knows of the jobs, by the name people use.
#[derive(Clone, Copy, Debug)]
struct Named(&'static str);

const NAMES: [&str; 7] =
    ["none", "fair-share", "exclusive", "equal-sets", "set10", "set10-predicted", "set10-error"];

impl Named {
    fn contender(self, unknown: UnknownJobs, error: f64) -> Contender {
        let policy = match self.0 {
            "none" => Policy::Unscheduled,
            "fair-share" => Policy::FairShare,
            "exclusive" => Policy::Exclusive,
            "equal-sets" => Policy::EqualSets(unknown),
            _ => Policy::Set10(unknown),
        };
        let knowledge = match self.0 {
            "set10-predicted" => Knowledge::Predicted { error: 0.0 },
            "set10-error" => Knowledge::Predicted { error },
            _ => Knowledge::Given,
        };
        Contender { policy, knowledge }
    }
}

fn contender_of_name(name: &str) -> Result<Named, String> {
    let known = NAMES.into_iter().find(|known| *known == name);
    known.map(Named).ok_or_else(|| format!("known policies are {}", NAMES.join(", ")))
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

/// One way of modelling the storage.
struct Scenario {
    name: &'static str,
    settings: IoSettings,
    unknown: UnknownJobs,
}

/// What the flags mean; nothing below this line knows clap.
fn scenarios(args: &IoArgs, is_report: bool) -> Vec<Scenario> {
    let rules = args.rules.unwrap_or(if is_report { RulesArg::Both } else { RulesArg::Iotide });
    let mut scenarios = Vec::new();
    if args.model != ModelArg::Requests {
        scenarios.push(Scenario {
            name: "ideal",
            settings: IoSettings::ideal(),
            unknown: UnknownJobs::Together,
        });
    }
    if args.model != ModelArg::Fluid && rules != RulesArg::Iotide {
        let settings = IoSettings::server_of_the_report();
        scenarios.push(Scenario {
            name: "server, the report's rules",
            settings,
            unknown: UnknownJobs::Apart,
        });
    }
    if args.model != ModelArg::Fluid && rules != RulesArg::Report {
        let settings = IoSettings::server();
        scenarios.push(Scenario { name: "server, iotide's rules", settings, unknown: UnknownJobs::Together });
    }
    for Scenario { settings, unknown, .. } in &mut scenarios {
        let IoSettings { order, sigma, credit, ageing, .. } = settings;
        if let Some(said) = args.order {
            *order = match said {
                OrderArg::FirstCome => Order::FirstCome,
                OrderArg::Id => Order::Id,
            };
        }
        if let Some(said) = args.unknown {
            *unknown = match said {
                UnknownArg::Together => UnknownJobs::Together,
                UnknownArg::Apart => UnknownJobs::Apart,
            };
        }
        if let Some(said) = args.credit {
            *credit = match said {
                CreditArg::Bytes => Credit::Bytes,
                CreditArg::Requests => Credit::Requests,
            };
        }
        *sigma = args.sigma.unwrap_or(*sigma);
        if let Some(timeout_s) = args.timeout {
            *ageing = (timeout_s > 0.0).then_some(Ageing { patience_s: timeout_s, every: 16 });
        }
        settings.leak = args.leak;
        if args.strict {
            settings.exclusivity = Exclusivity::Strict;
        }
        settings.n_workers = args.workers;
        settings.n_processes = args.processes;
        settings.request_bytes = args.request_size;
        settings.latency_s = args.latency;
        // The report's jobs sleep, and yet no two of its repetitions were the same.
        settings.jitter = args.jitter.or(is_report.then_some(0.005));
        settings.warm_up_phases = args.warm_up;
    }
    debug_assert!(scenarios.iter().all(|s| (s.name == "ideal") == (s.settings.model == Model::Fluid)));
    scenarios
}

/// The workload with its name; none if no trace has a period.
fn workload(ui: &mut Ui, args: &IoArgs) -> anyhow::Result<Option<(String, Workload)>> {
    let (name, mut workload) = match args.workload.as_deref() {
        None => match of_traces(ui, args)? {
            Some(workload) => ("traces".to_owned(), workload),
            None => return Ok(None),
        },
        Some(REPORT) => (REPORT.to_owned(), Workload::of_the_report()),
        Some("mix") => ("mix".to_owned(), Workload::generate(&mix(args)?, args.seed)),
        Some(path) => {
            let text = read_text(Path::new(path))?;
            let workload = Workload::from_json(&text)
                .map_err(|error| anyhow::anyhow!("{path}: {error}"))
                .hint("docs/scheduling.md says how a workload is written")?;
            (if path == "-" { "stdin" } else { path }.to_owned(), workload)
        }
    };
    if let Some(bandwidth) = args.bandwidth {
        workload.bandwidth_bps = bandwidth as f64;
    }
    workload.frame_s = args.frame.unwrap_or(workload.frame_s);
    Ok(Some((name, workload)))
}

fn read_text(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).map(|_| ())
    } else {
        std::fs::read_to_string(path).map(|read| text = read)
    };
    let hint = "a workload is a JSON file, `report` or `mix`";
    read.with_context(|| format!("cannot read {}", path.display())).hint(hint)?;
    Ok(text)
}

/// More than this is a mistake rather than a machine.
const MOST_JOBS: usize = 10_000_000;

fn mix(args: &IoArgs) -> anyhow::Result<Mix> {
    if !(1..=MOST_JOBS).contains(&args.jobs) {
        bail!("--jobs {} is not between 1 and {MOST_JOBS}", args.jobs);
    }
    if args.around.is_empty() || args.around.iter().any(|&s| !(s.is_finite() && s > 0.0)) {
        bail!("--around is a list of positive times");
    }
    if args.iterations == Some(0) {
        bail!("--iterations 0 leaves nothing to do");
    }
    if !(args.load.is_finite() && args.load > 0.0) {
        bail!("--load {} is not positive", args.load);
    }
    Ok(Mix {
        n_jobs: args.jobs,
        around_s: args.around.clone(),
        load: args.load,
        bandwidth_bps: args.bandwidth.unwrap_or(1 << 30) as f64,
        iterations: args.iterations,
        jitter: 0.02,
        frame_s: args.frame,
    })
}

/// One job of each trace that has a period, as often as was asked for.
fn of_traces(ui: &mut Ui, args: &IoArgs) -> anyhow::Result<Option<Workload>> {
    if !(1..=MOST_JOBS / args.from_traces.len().max(1)).contains(&args.copies) {
        bail!("--copies {} makes no job, or more than {MOST_JOBS}", args.copies);
    }
    let mut jobs = Vec::new();
    let mut fastest_bps = 0.0;
    for path in &args.from_traces {
        let name = path.display().to_string();
        let Observed { reads, writes, .. } =
            observe::<()>(&Input::file(path), &OpenOptions::default()).map_err(advised)?;
        let analysis = analyse_run(&reads, &writes, &RunConfig::default());
        let profile =
            analysis.as_ref().ok().and_then(|run| IoProfile::from_estimate(&run.estimate, &run.scores));
        let (Some(profile), Ok(run)) = (profile, &analysis) else {
            ui.status(format_args!("{name}: no period, left out"));
            continue;
        };
        let (Some(bytes), Some(share)) = (profile.bytes_per_phase, profile.io_share) else {
            ui.status(format_args!("{name}: a period, but nothing substantial is moved; left out"));
            continue;
        };
        fastest_bps = run.scores.io_bandwidth_bps.unwrap_or(0.0).max(fastest_bps);
        let name = path.file_stem().map_or(name, |stem| stem.to_string_lossy().into_owned());
        for copy in 1..=args.copies {
            jobs.push(JobSpec {
                name: if args.copies > 1 { format!("{name} {copy}") } else { name.clone() },
                compute_s: profile.w_iter_s() * (1.0 - share),
                io_bytes: bytes,
                iterations: None,
                start_s: 0.0,
                jitter: 0.02,
            });
        }
    }
    let bandwidth_bps = args.bandwidth.map_or(fastest_bps, |bandwidth| bandwidth as f64);
    if jobs.is_empty() || bandwidth_bps <= 0.0 {
        return Ok(None);
    }
    let longest_s = jobs.iter().map(|job| job.w_iter_s(bandwidth_bps)).fold(0.0, f64::max);
    Ok(Some(Workload { bandwidth_bps, frame_s: [longest_s, 9.0 * longest_s], jobs }))
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

    #[test]
    fn every_policy_has_a_name_of_its_own() {
        let all: Vec<Contender> =
            NAMES.map(|name| contender_of_name(name).unwrap().contender(UnknownJobs::Together, 0.5)).to_vec();
        for (i, one) in all.iter().enumerate() {
            assert!(all[i + 1..].iter().all(|other| other != one), "{one:?}");
        }
        assert!(contender_of_name("set11").is_err());
    }
}
