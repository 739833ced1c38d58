//! Jobs on a machine, under several scheduling policies.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use iotide_formats::{JobLog, JobLogOptions, SubmissionLog, SwfLog};
use iotide_report::{FigureSource, JobsReport, JobsRun, text};
use iotide_sched::jobs::{JobPolicy, PolicyKnobs, Speedup};
use iotide_sim::jobs::{
    FigureClass, JobLabel, JobsMix, JobsWorkload, MOST_NODES, Malleability, Mistakes, Schedule, SubmittedJob,
    run_jobs,
};
use iotide_trace::{JobOutcome, Loss};

use crate::job_io::attach_io;
use crate::{Error, Models, Progress};

/// A machine with what is submitted to it, with a name for reports.
#[derive(Clone, Debug)]
pub struct JobsLog {
    /// Name for reports.
    pub name: String,
    /// The machine and its jobs.
    pub workload: JobsWorkload,
    /// Parts of the log that could not be used.
    pub losses: Vec<Loss>,
    /// How far earlier runs of one name lie apart in what they read and write: deviation of the logarithm, where names have several.
    pub io_spread: Option<f64>,
}

/// How a log is meant.
#[derive(Clone, Debug, Default)]
pub struct JobsLogOptions {
    /// How many nodes the machine has; `None` is as the log says.
    pub nodes: Option<u32>,
    /// Only so many jobs, the first of the log.
    pub first: Option<usize>,
    /// How far the clock of dates that name no zone is ahead of UTC.
    pub utc_offset_s: f64,
    /// Models of times, for jobs that name one.
    pub models: Option<Models>,
    /// File with the I/O of jobs, by their names.
    pub io: Option<PathBuf>,
}

impl JobsLog {
    /// Reads a description in JSON, a log in Standard Workload Format, or what `sacct` prints; `-` is standard input.
    pub fn open(path: &Path, options: &JobsLogOptions) -> Result<Self, Error> {
        let name = if path == Path::new("-") { "stdin".to_owned() } else { path.display().to_string() };
        let log = SubmissionLog::open(path, &JobLogOptions { utc_offset_s: options.utc_offset_s })?;
        Self::of(name, log, options)
    }

    fn of(name: String, log: SubmissionLog, options: &JobsLogOptions) -> Result<Self, Error> {
        let mut found = match log {
            SubmissionLog::Json(text) => {
                let workload = JobsWorkload::from_json(&text)
                    .map_err(|why| Error::Workload { name: name.clone(), why })?;
                Self { name, workload, losses: Vec::new(), io_spread: None }
            }
            SubmissionLog::Swf(log) => Self::of_swf(name, log, options)?,
            SubmissionLog::Runs(log) => Self::of_runs(name, log, options)?,
        };
        if let Some(nodes) = options.nodes {
            found.workload.nodes = checked_nodes(nodes.into())?;
            if found.workload.failures.iter().any(|failure| failure.node >= nodes) {
                let fault = format!("nodes {nodes} leaves out a node that fails");
                return Err(Error::Setting { fault });
            }
            let storage = found.workload.storage.as_ref();
            let io_nodes = storage.and_then(|storage| storage.io_nodes.as_ref());
            if let Some(most) = io_nodes.map(|io_nodes| io_nodes.max).filter(|most| *most >= nodes) {
                let fault = format!("nodes {nodes} leaves none beside up to {most} I/O nodes");
                return Err(Error::Setting { fault });
            }
        }
        if let Some(first) = options.first {
            found.workload.jobs.truncate(first);
        }
        let names_model = found.workload.jobs.iter().any(|job| job.model.is_some())
            || found.workload.storage.as_ref().is_some_and(|storage| storage.model.is_some());
        if options.models.is_some() && !names_model {
            let fault =
                format!("models is of no use: neither a job of {} nor its storage names a model", found.name);
            return Err(Error::Setting { fault });
        }
        attach_models(&mut found, options.models.as_ref())?;
        attach_storage_model(&mut found, options.models.as_ref())?;
        if let Some(path) = &options.io {
            let (spread, losses) = attach_io(&mut found.workload, path)?;
            found.io_spread = spread;
            found.losses.extend(losses);
        }
        if found.workload.jobs.is_empty() {
            return Err(Error::NoJobs { name: found.name });
        }
        found.note_what_never_fits()?;
        found.note_io_beyond_times();
        Ok(found)
    }

    /// Jobs whose I/O takes longer, even alone, than they are said to run contradict themselves: they run as long as their I/O.
    fn note_io_beyond_times(&mut self) {
        let Some(storage) = &self.workload.storage else { return };
        let is_beyond = |job: &&SubmittedJob| {
            let alone_bps = storage.bandwidth_bps.min(f64::from(job.batch.nodes) * storage.node_bps);
            let io_ms = job.batch.io_bytes.unwrap_or(0.0) / alone_bps * 1e3;
            io_ms > job.batch.runtime_ms * (1.0 + 1e-6) + 1.0
        };
        let n = self.workload.jobs.iter().filter(is_beyond).count();
        let what =
            "with more I/O than the storage can move in the time they are said to run: they run for longer";
        self.losses.extend(lost_jobs(n as u64, what));
    }

    /// Jobs whose least size is more than the machine has are rejected, whoever schedules; if all are, there is nothing to tell.
    fn note_what_never_fits(&mut self) -> Result<(), Error> {
        let nodes = self.workload.compute_nodes();
        let n = self.workload.jobs.iter().filter(|job| job.batch.nodes_min > nodes).count();
        if n == self.workload.jobs.len() {
            return Err(Error::NothingFits { name: self.name.clone(), nodes });
        }
        let what = "of more nodes than there are for jobs: rejected, unless made malleable";
        self.losses.extend(lost_jobs(n as u64, what));
        Ok(())
    }

    /// Made-up jobs.
    pub fn mix(mix: &JobsMix, seed: u64) -> Result<Self, Error> {
        let fault = if mix.n_jobs == 0 || mix.n_jobs > iotide_sim::jobs::MOST_JOBS {
            format!("jobs {} is not between 1 and {}", mix.n_jobs, iotide_sim::jobs::MOST_JOBS)
        } else if !(mix.load.is_finite() && mix.load > 0.0) {
            format!("load {} is not positive", mix.load)
        } else if mix.nodes == 0 || u64::from(mix.nodes) > MOST_NODES {
            format!("nodes {} is not between 1 and {MOST_NODES}", mix.nodes)
        } else {
            let (name, workload) = ("mix".to_owned(), mix.generate(seed));
            return Ok(Self { name, workload, losses: Vec::new(), io_spread: None });
        };
        Err(Error::Setting { fault })
    }

    fn of_swf(name: String, log: SwfLog, options: &JobsLogOptions) -> Result<Self, Error> {
        let nodes = match (options.nodes, log.n_nodes) {
            (None, Some(nodes)) => checked_nodes(nodes).map_err(|_| Error::MachineTooLarge {
                name: name.clone(),
                nodes,
                most: MOST_NODES,
            })?,
            (nodes, _) => machine(&name, nodes)?,
        };
        let mut losses = log.losses;
        let mut jobs = Vec::with_capacity(log.jobs.len());
        let mut n_large = 0;
        for row in &log.jobs {
            if row.n_nodes > MOST_NODES {
                n_large += 1;
                continue;
            }
            let id = JobLabel::Number(row.id);
            let mut job = SubmittedJob::rigid(id, row.submit_s, row.n_nodes as u32, row.runtime_s);
            if let Some(limit_s) = row.limit_s {
                job.batch.walltime_ms = limit_s * 1e3;
                job.has_limit = true;
            }
            jobs.push(job);
        }
        losses.extend(too_large(n_large));
        Ok(Self { name, workload: machine_with(nodes, jobs), losses, io_spread: None })
    }

    fn of_runs(name: String, log: JobLog, options: &JobsLogOptions) -> Result<Self, Error> {
        let nodes = machine(&name, options.nodes)?;
        let mut losses = log.losses;
        let (mut n_running, mut n_sizeless, mut n_large, mut n_unsubmitted, mut n_twice) = (0, 0, 0, 0, 0);
        let (mut seen, mut runs) = (HashMap::new(), HashSet::new());
        let mut jobs = Vec::with_capacity(log.runs.len());
        for (i, run) in log.runs.iter().enumerate() {
            let Some(end_s) = run.end_s.filter(|_| run.outcome != JobOutcome::Running) else {
                n_running += 1;
                continue;
            };
            let size = match run.n_nodes {
                None | Some(0) => {
                    n_sizeless += 1;
                    continue;
                }
                Some(n) if n > MOST_NODES => {
                    n_large += 1;
                    continue;
                }
                Some(n) => n as u32,
            };
            let id = if run.job_id.is_empty() { format!("row {}", i + 1) } else { run.job_id.clone() };
            // A job that was requeued is listed once a run, each with a start of its own.
            if !runs.insert((id.clone(), run.start_s.to_bits())) {
                n_twice += 1;
                continue;
            }
            let n_runs = seen.entry(id.clone()).and_modify(|n| *n += 1).or_insert(1);
            let id = if *n_runs > 1 { format!("{id} (run {n_runs})") } else { id };
            let label = id.parse().map_or(JobLabel::Text(id), JobLabel::Number);
            n_unsubmitted += u64::from(run.submit_s.is_none());
            let submit_s = run.submit_s.unwrap_or(run.start_s).min(run.start_s);
            let mut job = SubmittedJob::rigid(label, submit_s, size, end_s - run.start_s);
            if let Some(limit_s) = run.limit_s {
                job.batch.walltime_ms = limit_s * 1e3;
                job.has_limit = true;
            }
            job.batch.priority = run.priority.unwrap_or(0);
            job.name = Some(run.name.clone()).filter(|name| !name.is_empty());
            jobs.push(job);
        }
        losses.extend(lost_jobs(n_running, "that had not ended: left out"));
        losses.extend(lost_jobs(n_sizeless, "without a number of nodes: left out"));
        losses.extend(lost_jobs(n_twice, "listed a second time with the same start: left out"));
        losses.extend(too_large(n_large));
        losses.extend(lost_jobs(n_unsubmitted, "without a submission: taken as submitted at the start"));
        Ok(Self { name, workload: machine_with(nodes, jobs), losses, io_spread: None })
    }
}

/// Gives jobs that name a model its times, at every size they can have.
fn attach_models(log: &mut JobsLog, models: Option<&Models>) -> Result<(), Error> {
    let nodes = log.workload.nodes;
    for job in &mut log.workload.jobs {
        let Some(name) = &job.model else { continue };
        let missing =
            || Error::ModelUnknown { log: log.name.clone(), job: job.id.to_string(), model: name.clone() };
        let models = models.ok_or_else(missing)?;
        let batch = &job.batch;
        let most = batch.nodes_max.min(nodes.max(batch.nodes_min));
        // Every size, or of many so many that the line between two is the curve.
        let step = ((most - batch.nodes_min) / 4096).max(1) as usize;
        let mut sizes: Vec<u32> = (batch.nodes_min..=most).step_by(step).chain([batch.nodes, most]).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let times: Option<Vec<(u32, f64)>> = sizes
            .into_iter()
            .map(|size| Some((size, models.named_time_at(name, f64::from(size))?)))
            .collect();
        job.batch.speedup = Speedup::Times(times.ok_or_else(missing)?);
    }
    Ok(())
}

/// Gives storage that names a model its bandwidths, at every number of I/O nodes it can have.
fn attach_storage_model(log: &mut JobsLog, models: Option<&Models>) -> Result<(), Error> {
    let Some(storage) = &mut log.workload.storage else { return Ok(()) };
    let (Some(name), Some(io_nodes)) = (&storage.model, &mut storage.io_nodes) else { return Ok(()) };
    let bps = |n: u32| Some((n, models?.named_time_at(name, f64::from(n))?));
    let bandwidths: Option<Vec<(u32, f64)>> = (io_nodes.min..=io_nodes.max).map(bps).collect();
    io_nodes.bandwidths = bandwidths
        .ok_or_else(|| Error::StorageModelUnknown { log: log.name.clone(), model: name.clone() })?;
    storage.bandwidth_bps = io_nodes.bandwidth_bps(io_nodes.usual);
    Ok(())
}

fn too_large(n: u64) -> Option<Loss> {
    lost_jobs(n, &format!("of more than {MOST_NODES} nodes: left out"))
}

/// So many jobs, and what is wrong with them.
fn lost_jobs(n: u64, what: &str) -> Option<Loss> {
    let what = format!("{} {what}", text::counted(n, "job"));
    (n > 0).then(|| Loss { records: Some(n), ..Loss::of_unknown_size(what) })
}

fn machine(name: &str, nodes: Option<u32>) -> Result<u32, Error> {
    let nodes = nodes.ok_or_else(|| Error::MachineUnknown { name: name.to_owned() })?;
    checked_nodes(nodes.into())
}

/// The machine's size as a setting.
fn checked_nodes(nodes: u64) -> Result<u32, Error> {
    if (1..=MOST_NODES).contains(&nodes) {
        return Ok(nodes as u32);
    }
    Err(Error::Setting { fault: format!("nodes {nodes} is not between 1 and {MOST_NODES}") })
}

fn machine_with(nodes: u32, jobs: Vec<SubmittedJob>) -> JobsWorkload {
    JobsWorkload { nodes, cost: Default::default(), storage: None, failures: Vec::new(), jobs }
}

/// Settings of a simulation of jobs.
#[derive(Clone, Debug)]
pub struct SimulateJobsOptions {
    /// The others are compared against the first.
    pub policies: Vec<JobPolicy>,
    /// Shares of the jobs that are made malleable; none leaves them as the log has them.
    pub malleable: Vec<f64>,
    /// Part of the work of these that gains nothing from more nodes.
    pub serial_fraction: f64,
    /// How often to repeat, with other chances.
    pub seeds: usize,
    /// Where chances begin.
    pub seed: u64,
    /// Each seed runs so many consecutive jobs, from a place of its own; `None` is all of them.
    pub window: Option<usize>,
    /// Numbers that the paper leaves open.
    pub knobs: PolicyKnobs,
    /// Cost of a change of size, in seconds, if not as the log says.
    pub alpha_s: Option<f64>,
    /// The same for each node.
    pub alpha_per_node_s: Option<f64>,
    /// How far off recorded times are: deviation of their logarithm.
    pub recorded_error: f64,
    /// How far above the truth users put their limits: deviation of the logarithm.
    pub limit_error: f64,
    /// How far off figures of each class of reliability are.
    pub errors: ClassErrors,
    /// Power of a busy and of an idle node, in watts.
    pub node_watts: Option<[f64; 2]>,
    /// How many threads; 0 is as many as there are cores.
    pub n_threads: usize,
    /// Whether pictures are wanted.
    pub draws: bool,
}

/// How far off what decisions are based on is, by who says so (ADMIRE D5.5, section 3.1): deviations of the logarithm. What the resource manager counts is so.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassErrors {
    /// Recorded times, models of times, and I/O of earlier runs.
    pub runs: f64,
    /// Limits, and times against sizes and I/O that users state.
    pub user: f64,
}

impl Default for SimulateJobsOptions {
    fn default() -> Self {
        Self {
            policies: ["easy", "mebf-aggressive", "mebf-aggressive+", "common-pool", "tide"]
                .into_iter()
                .filter_map(JobPolicy::from_name)
                .collect(),
            malleable: Vec::new(),
            serial_fraction: 0.05,
            seeds: 1,
            seed: 0,
            window: None,
            knobs: PolicyKnobs::default(),
            alpha_s: None,
            alpha_per_node_s: None,
            recorded_error: 0.0,
            limit_error: 0.0,
            errors: ClassErrors::default(),
            node_watts: None,
            n_threads: 0,
            draws: false,
        }
    }
}

impl SimulateJobsOptions {
    fn check(&self) -> Result<(), Error> {
        let is_share = |share: &f64| (0.0..=1.0).contains(share);
        let not_negative = |value: f64| value.is_finite() && value >= 0.0;
        let times = [("alpha", self.alpha_s), ("alpha-per-node", self.alpha_per_node_s)];
        let long = times.into_iter().find(|(_, time_s)| time_s.is_some_and(|s| !(0.0..=1e9).contains(&s)));
        let deviations = [
            ("recorded-error", self.recorded_error),
            ("limit-error", self.limit_error),
            ("errors runs =", self.errors.runs),
            ("errors user =", self.errors.user),
        ];
        let wild = deviations.into_iter().find(|(_, deviation)| !(0.0..=10.0).contains(deviation));
        let fault = match (long, wild) {
            (Some((name, time_s)), _) => {
                format!("{name} {} is not a time between 0 and 1e9 s", time_s.unwrap_or_default())
            }
            (_, Some((name, deviation))) => format!("{name} {deviation} is not a deviation between 0 and 10"),
            _ if self.policies.is_empty() => "policies names none".to_owned(),
            _ if self.seeds == 0 => "seeds 0 leaves nothing to tell".to_owned(),
            _ if self.seeds > MOST_SEEDS => format!("seeds {} is more than {MOST_SEEDS}", self.seeds),
            _ if self.window == Some(0) => "window 0 leaves nothing to run".to_owned(),
            _ if !self.malleable.iter().all(is_share) => {
                "malleable is a list of percentages from 0 to 100".to_owned()
            }
            _ if !is_share(&self.serial_fraction) => {
                format!("serial-fraction {} is not between 0 and 1", self.serial_fraction)
            }
            _ if !(self.knobs.gamma.is_finite() && self.knobs.gamma >= 1.0) => {
                format!("gamma {} is not 1 or more", self.knobs.gamma)
            }
            _ if !is_share(&self.knobs.sharing_factor) => {
                format!("sharing-factor {} is not between 0 and 1", self.knobs.sharing_factor)
            }
            _ if !is_share(&self.knobs.limit) => {
                format!("limit {} is not between 0 and 1", self.knobs.limit)
            }
            _ if !self.node_watts.unwrap_or([0.0; 2]).into_iter().all(not_negative) => {
                "watts is not negative".to_owned()
            }
            _ => return Ok(()),
        };
        Err(Error::Setting { fault })
    }

    /// Whether seeds differ at a share.
    fn has_chances(&self, share: Option<f64>) -> bool {
        let is_drawn = share.is_some_and(|share| share > 0.0 && share < 1.0);
        is_drawn || self.window.is_some() || self.mistakes() != Mistakes::default()
    }

    /// How far off figures are. What is said of one figure counts more than what is said of its class.
    fn mistakes(&self) -> Mistakes {
        let ClassErrors { runs, user } = self.errors;
        let of = |own: f64, class: f64| if own > 0.0 { own } else { class };
        Mistakes { recorded: of(self.recorded_error, runs), limit: of(self.limit_error, user), runs, user }
    }

    /// The log as one seed has it at a share.
    fn variant(&self, workload: &JobsWorkload, share: Option<f64>, seed: u64) -> JobsWorkload {
        let mut variant = match self.window {
            Some(window) => workload.window(window, seed),
            None => workload.clone(),
        };
        if let Some(alpha_s) = self.alpha_s {
            variant.cost.fixed_ms = 1e3 * alpha_s;
        }
        if let Some(alpha_s) = self.alpha_per_node_s {
            variant.cost.per_node_ms = 1e3 * alpha_s;
        }
        if let Some(share) = share {
            let malleability = Malleability { share, serial_fraction: self.serial_fraction };
            variant = variant.with_malleable(malleability, seed);
        }
        let mistakes = self.mistakes();
        if mistakes != Mistakes::default() {
            variant.mistake(&mistakes, seed);
        }
        variant
    }
}

const MOST_SEEDS: usize = 100_000;

/// Runs a log under each policy and says what the schedules come to.
pub fn simulate_jobs(
    log: &JobsLog,
    options: &SimulateJobsOptions,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<JobsReport, Error> {
    options.check()?;
    let n_jobs = log.workload.jobs.len();
    if let Some(window) = options.window.filter(|&window| window > n_jobs) {
        let fault =
            format!("window {window} is more than the {} there are", text::counted(n_jobs as u64, "job"));
        return Err(Error::Setting { fault });
    }
    let shares: Vec<Option<f64>> = match options.malleable.is_empty() {
        true => vec![None],
        false => options.malleable.iter().copied().map(Some).collect(),
    };
    let stated = options.variant(&JobsWorkload { jobs: Vec::new(), ..log.workload.clone() }, None, 0);
    let shown = JobsWorkload { cost: stated.cost, ..log.workload.clone() };
    let mut report = JobsReport::new(&log.name, &shown, options.seeds, options.seed, options.window);
    report.figures = figure_sources(log, options);
    report.losses = log.losses.iter().map(Into::into).collect();
    for &share in &shares {
        let n_seeds = if options.has_chances(share) { options.seeds } else { 1 };
        let scenario =
            share.map_or("as the log has it".to_owned(), |share| format!("{:.0} % malleable", 100.0 * share));
        progress(Progress::Simulating { scenario: &scenario });
        let is_drawn = options.draws && log.workload.jobs.len() <= MOST_DRAWN;
        let (runs, first) = all_runs(log, options, share, n_seeds, is_drawn);
        if first.iter().flat_map(|schedule| &schedule.jobs).all(|fate| fate.end_ms.is_none()) {
            return Err(Error::NothingRan { name: log.name.clone() });
        }
        let workload = options.variant(&log.workload, share, options.seed);
        for (i, (&policy, schedule)) in options.policies.iter().zip(first).enumerate() {
            report.add_policy(policy.name(), share, &runs[i], (i > 0).then(|| &runs[0][..]));
            if options.seeds == 1 {
                report.list_jobs(&workload, &schedule);
            }
            if is_drawn {
                report.draw(policy.name(), share, &workload, schedule);
            }
        }
    }
    Ok(report)
}

/// More jobs than this are not drawn one by one.
const MOST_DRAWN: usize = 20_000;

/// Results of each policy with each seed.
type Runs = Vec<Vec<JobsRun>>;

/// Every policy with every seed at a share, on all cores, and the schedules of the first seed. Where a run stands in the answer does
/// not depend on who made it.
fn all_runs(
    log: &JobsLog,
    options: &SimulateJobsOptions,
    share: Option<f64>,
    n_seeds: usize,
    is_drawn: bool,
) -> (Runs, Vec<Schedule>) {
    let n_policies = options.policies.len();
    let next = AtomicUsize::new(0);
    let found = Mutex::new((vec![vec![None; n_seeds]; n_policies], vec![None; n_policies]));
    let work = || {
        loop {
            let seed_at = next.fetch_add(1, Ordering::Relaxed);
            if seed_at >= n_seeds {
                return;
            }
            let workload = options.variant(&log.workload, share, options.seed.wrapping_add(seed_at as u64));
            for (i, &policy) in options.policies.iter().enumerate() {
                let is_first = seed_at == 0;
                let (jobs, schedule) = run_jobs(&workload, policy, &options.knobs, is_first && is_drawn);
                let run = JobsRun {
                    metrics: schedule.metrics(&jobs, workload.nodes),
                    io_slowdown: schedule.io_slowdown,
                    energy_kwh: options.node_watts.map(|watts| energy_kwh(&schedule, watts)),
                };
                let mut found = found.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                found.0[i][seed_at] = Some(run);
                if is_first {
                    found.1[i] = Some(schedule);
                }
            }
        }
    };
    let n_threads = match options.n_threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        n => n,
    };
    std::thread::scope(|scope| {
        for _ in 1..n_threads.min(n_seeds) {
            scope.spawn(work);
        }
        work();
    });
    let (runs, first) = found.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let runs = runs.into_iter().map(|runs| runs.into_iter().flatten().collect()).collect();
    (runs, first.into_iter().flatten().collect())
}

fn energy_kwh(schedule: &Schedule, [busy_watts, idle_watts]: [f64; 2]) -> f64 {
    let kwh = |node_ms: u128, watts: f64| node_ms as f64 / 3.6e6 * watts / 1e3;
    kwh(schedule.busy_node_ms, busy_watts) + kwh(schedule.idle_node_ms, idle_watts)
}

/// Returns the figures that decisions are based on, by their source (ADMIRE D5.5, section 3.1, tells classes of reliability apart).
fn figure_sources(log: &JobsLog, options: &SimulateJobsOptions) -> Vec<FigureSource> {
    let jobs = &log.workload.jobs;
    let mistakes = options.mistakes();
    let mut figures = Vec::new();
    let mut add = |figure, class: FigureClass, spread, measured_spread, jobs| {
        figures.push(FigureSource { figure, source: class.name(), spread, measured_spread, jobs });
    };
    add("free nodes, sizes, submissions", FigureClass::Manager, 0.0, None, jobs.len());
    add("recorded time", FigureClass::Runs, mistakes.recorded, None, jobs.len());
    add("limit", FigureClass::User, mistakes.limit, None, jobs.len());
    let is_drawn = !options.malleable.is_empty();
    for (class, spread) in [(FigureClass::Runs, mistakes.runs), (FigureClass::User, mistakes.user)] {
        let scales = |job: &&SubmittedJob| {
            job.scaling_class == class && (is_drawn || job.batch.nodes_min < job.batch.nodes_max)
        };
        let n = jobs.iter().filter(scales).count();
        // Which jobs are made malleable differs from seed to seed.
        if n > 0 || (is_drawn && class == FigureClass::User) {
            add("time against size", class, spread, None, n);
        }
    }
    for (class, spread) in [(FigureClass::Runs, mistakes.runs), (FigureClass::User, mistakes.user)] {
        let n = jobs.iter().filter(|job| job.batch.io_bytes.is_some() && job.io_class == class).count();
        if n > 0 {
            add("I/O volume", class, spread, log.io_spread.filter(|_| class == FigureClass::Runs), n);
        }
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;

    fn simulated(log: &JobsLog, options: &SimulateJobsOptions) -> JobsReport {
        simulate_jobs(log, options, &mut |_| ()).unwrap()
    }

    fn policies(names: &[&str]) -> Vec<JobPolicy> {
        names.iter().map(|name| JobPolicy::from_name(name).unwrap()).collect()
    }

    #[test]
    fn the_first_thousand_jobs_of_lublin_s_model_have_the_known_figures() {
        let Some(path) = iotide_testkit::shared_data("jobs/lublin-256.swf") else { return };
        let log =
            JobsLog::open(&path, &JobsLogOptions { first: Some(1000), ..JobsLogOptions::default() }).unwrap();
        let options =
            SimulateJobsOptions { policies: policies(&["fcfs", "easy"]), ..SimulateJobsOptions::default() };
        let report = simulated(&log, &options);
        let figures: Vec<(f64, f64)> =
            report.policies.iter().map(|entry| (entry.makespan_s.mean, entry.mean_wait_s.mean)).collect();
        assert_eq!(figures, [(1_519_735.0, 158_270.95), (1_156_731.0, 11_045.205)]);
        assert!(log.losses.is_empty());
    }

    #[test]
    fn a_model_of_measured_times_says_how_a_job_scales() {
        let rows: String =
            [2, 4, 8, 16, 32].map(|n| format!("{n},{}\n", 10.0 + 320.0 / f64::from(n))).concat();
        let measured =
            crate::Measurements::from_bytes("runs.csv", format!("p,time\n{rows}").as_bytes(), None).unwrap();
        let models = crate::fit(measured, &crate::FitOptions::default()).unwrap();
        let text = r#"{"nodes": 16, "jobs": [{"kind": "moldable", "submit_s": 0, "nodes": 8, "nodes_min": 4, "nodes_max": 16, "runtime_s": 100, "model": "time"}]}"#;
        let open = |models| {
            let options = JobsLogOptions { models, ..JobsLogOptions::default() };
            JobsLog::of("jobs.json".to_owned(), SubmissionLog::Json(text.to_owned()), &options)
        };
        let log = open(Some(models)).unwrap();
        // 10 + 320/n: 50 at its preferred size, 30 at its largest.
        let time_ms = log.workload.jobs[0].batch.time_ms(16);
        assert!((time_ms - 60_000.0).abs() < 1.0, "{time_ms}");
        assert_eq!(
            open(None).unwrap_err().to_string(),
            "jobs.json: job 1 names the model time, which is not known"
        );
    }

    #[test]
    fn our_own_policy_shortens_waits_beyond_chance_and_the_report_says_who_loses() {
        let log = JobsLog::mix(&JobsMix { nodes: 64, n_jobs: 1200, load: 0.9 }, 5).unwrap();
        let options = SimulateJobsOptions {
            policies: policies(&["easy", "tide", "mebf-aggressive"]),
            malleable: vec![0.2, 1.0],
            seeds: 16,
            window: Some(200),
            ..SimulateJobsOptions::default()
        };
        let report = simulated(&log, &options);
        for entry in report.policies.iter().filter(|entry| entry.policy == "tide") {
            // Of so few and short windows the makespan says nothing at 20 %; the mixes of `sim` do.
            let [_, high] = entry.ratio.unwrap().mean_wait.unwrap().interval.unwrap();
            assert!(high < 1.0, "{entry:?}");
        }
        let losers: Vec<String> =
            report.verdicts().into_iter().filter(|verdict| verdict.starts_with("worse")).collect();
        assert!(losers.iter().any(|verdict| verdict.contains("mebf-aggressive (")), "{losers:?}");
    }

    #[test]
    fn what_users_and_earlier_runs_say_can_be_wrong() {
        let log = JobsLog::mix(&JobsMix { nodes: 32, n_jobs: 80, load: 0.9 }, 1).unwrap();
        let exact = SimulateJobsOptions { seeds: 3, malleable: vec![1.0], ..SimulateJobsOptions::default() };
        let wrong = SimulateJobsOptions { recorded_error: 1.0, limit_error: 0.5, ..exact.clone() };
        let (exact, wrong) = (simulated(&log, &exact), simulated(&log, &wrong));
        assert_eq!(exact.policies[0].mean_wait_s.interval, None, "all seeds are the same");
        assert!(wrong.policies[0].mean_wait_s.interval.is_some());
        let spreads: Vec<f64> = wrong.figures.iter().map(|figure| figure.spread).collect();
        assert_eq!(spreads, [0.0, 1.0, 0.5, 0.0]);
    }

    #[test]
    fn classes_are_off_by_themselves_and_each_figure_says_by_whom_and_how_far() {
        let text = r#"{"nodes": 16, "storage": {"bandwidth_bps": 100, "io_nodes": 2, "io_nodes_max": 4}, "jobs": [
            {"kind": "malleable", "submit_s": 0, "nodes": 4, "nodes_min": 1, "nodes_max": 12, "runtime_s": 500, "serial_fraction": 0.2, "io": {"bytes": 9000, "phases": 4}},
            {"kind": "malleable", "submit_s": 5, "nodes": 8, "nodes_min": 2, "nodes_max": 14, "runtime_s": 300, "times_s": {"2": 900, "8": 300}, "io": {"bytes": 20000, "phases": 3}},
            {"submit_s": 20, "nodes": 6, "runtime_s": 100}, {"submit_s": 30, "nodes": 10, "runtime_s": 200}]}"#;
        let log = JobsLog::of(
            "jobs.json".to_owned(),
            SubmissionLog::Json(text.to_owned()),
            &JobsLogOptions::default(),
        );
        let log = log.unwrap();
        let exact = SimulateJobsOptions {
            seeds: 6,
            policies: policies(&["mebf-aggressive+", "io-balance"]),
            ..SimulateJobsOptions::default()
        };
        let off = |runs, user| SimulateJobsOptions { errors: ClassErrors { runs, user }, ..exact.clone() };
        let figures = simulated(&log, &off(0.1, 0.5)).figures;
        let said: Vec<(&str, &str, f64, usize)> =
            figures.iter().map(|f| (f.figure, f.source, f.spread, f.jobs)).collect();
        assert_eq!(
            said,
            [
                ("free nodes, sizes, submissions", "resource manager", 0.0, 4),
                ("recorded time", "earlier runs", 0.1, 4),
                ("limit", "user", 0.5, 4),
                ("time against size", "user", 0.5, 2),
                ("I/O volume", "user", 0.5, 2),
            ]
        );
        // What is believed changes decisions, and no work: nobody's time at a size is another.
        let variant = off(0.0, 2.0).variant(&log.workload, None, 3);
        assert_ne!(variant.jobs[0].batch.errors, log.workload.jobs[0].batch.errors);
        assert_eq!(variant.jobs[0].batch.time_ms(12), log.workload.jobs[0].batch.time_ms(12));
        let nothing = simulated(&log, &off(0.0, 0.0));
        assert_eq!(nothing.policies[0].makespan_s, simulated(&log, &exact).policies[0].makespan_s);
        let wrong = SimulateJobsOptions { errors: ClassErrors { runs: -1.0, user: 0.0 }, ..exact };
        assert!(simulate_jobs(&log, &wrong, &mut |_| ()).is_err());
    }
}
