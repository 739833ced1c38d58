//! `iotide jobs`, `iotide job`, `iotide top` and `iotide nodes`: asking the daemon.

use std::time::{Duration, Instant};

use iotide_report::quantity::parse_ago;
use iotide_report::{JobDocument, JobList, JobResources, JobState, JobSummary, ModelLines, NodeList};

use super::asking::{ask, in_query, now_unix_s, unreadable};
use super::ioskel::parse_seconds;
use super::{Form, OutputArgs};
use crate::ExitStatus;
use crate::ui::Ui;

/// List the jobs that the daemon has seen
///
/// Shows your own jobs; root and the user of the daemon see all. The daemon is the one at IOTIDE_DAEMON (a unix socket), your own, or the
/// machine's (`iotide serve`).
#[derive(clap::Args, Debug)]
#[command(after_help = JOBS_EXAMPLES)]
pub(crate) struct JobsArgs {
    /// Show jobs of this user only
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Show runs of this application only, by id or by program name
    #[arg(long, value_name = "APP")]
    app: Option<String>,
    /// Show jobs started within this time before now, as in 30m, 12h, 7d
    #[arg(long, value_name = "TIME", value_parser = parse_ago)]
    since: Option<f64>,
    /// Show jobs in this state only
    #[arg(long, value_enum, value_name = "STATE")]
    state: Option<State>,
    /// Show jobs with this text in their id, program name or command
    #[arg(long, value_name = "TEXT")]
    search: Option<String>,
    /// Order of the list
    #[arg(long, value_enum, default_value_t = Order::Start, value_name = "ORDER")]
    sort: Order,
    /// Show at most N jobs
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum State {
    Running,
    Ended,
    Partial,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Order {
    /// The latest first
    Start,
    /// The most bytes per second read first
    Read,
    /// The most bytes per second written first
    Write,
    /// The most processes first
    Size,
    /// By user name
    User,
}

const JOBS_EXAMPLES: &str = "\
Examples:
  iotide jobs
  iotide jobs --state running --sort write
  iotide jobs --app lmp --since 7d --format json";

/// Show what a job has done
///
/// Bytes, calls and time of its I/O by operation, layer and file system; its time in MPI; earlier runs of the same application, and how what they
/// measured grows with their size; what is missing.
/// Of several jobs with this id, the latest is shown.
#[derive(clap::Args, Debug)]
#[command(after_help = JOB_EXAMPLES)]
pub(crate) struct JobArgs {
    /// The job, as `iotide jobs` lists it
    #[arg(value_name = "ID")]
    id: String,
    /// Sum the job up in one block, for a mail at its end: what was asked for and used, its I/O, the issue with the largest gain and what to do. With --format
    /// json, one line
    #[arg(long)]
    summary: bool,
    /// Resources that the job asked for, as its scheduler writes them: time=[D-]H:MM:SS,cpus=N,nodes=N,memory=8GB
    #[arg(long, value_name = "LIST", requires = "summary", default_value = "", hide_default_value = true)]
    asked: JobResources,
    /// Resources that its scheduler measured: time, cpu_time, memory, as above [default: what the daemon counted]
    #[arg(long, value_name = "LIST", requires = "summary", default_value = "", hide_default_value = true)]
    used: JobResources,
    /// Wait at most TIME for the end of the job: the daemon sees it a moment later than the scheduler
    #[arg(long, value_name = "TIME", requires = "summary", value_parser = parse_seconds)]
    wait: Option<f64>,
    /// Record what the job's processes on this machine do for TIME, by the kernel, into a new directory iotide-trace-ID-N; needs root or the like
    #[cfg(feature = "system")]
    #[arg(long, value_name = "TIME", value_parser = parse_seconds, conflicts_with_all = ["format", "output", "summary"])]
    trace: Option<f64>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Models in the report of a job.
const MOST_MODELS: usize = 16;

const JOB_EXAMPLES: &str = "\
Examples:
  iotide job 4711
  iotide job 4711 --summary                                              the end of a job in one block
  iotide job 4711 --summary --asked time=2:00:00,cpus=64,memory=128GB    beside what it asked for
  sudo iotide job 4711 --trace 60s                                       a trace of a minute of a job that runs
  iotide job 4711 --format json | jq .io.bytes_written";

/// Show which jobs load the storage now
///
/// Running jobs, the busiest first, with the period of their I/O and when the next phase begins. On a terminal it is repeated until Ctrl-C.
#[derive(clap::Args, Debug)]
#[command(after_help = TOP_EXAMPLES)]
pub(crate) struct TopArgs {
    /// Refresh interval [default: once if stdout is not a terminal]
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    every: Option<f64>,
    /// Show it N times
    #[arg(short, long, value_name = "N")]
    count: Option<u64>,
    #[command(flatten)]
    output: OutputArgs,
}

const TOP_EXAMPLES: &str = "\
Examples:
  iotide top
  iotide top --every 10s
  iotide top --count 1 --format json";

/// Show the machines that report to the daemon, as a tree
///
/// Each with its version, what runs on it, how far its clock is ahead of its parent's, when it was last heard of and what it had to refuse.
#[derive(clap::Args, Debug)]
#[command(after_help = NODES_EXAMPLES)]
pub(crate) struct NodesArgs {
    #[command(flatten)]
    output: OutputArgs,
}

const NODES_EXAMPLES: &str = "\
Examples:
  iotide nodes
  iotide nodes --format json | jq '.nodes[] | select(.silent_s > 10) .node'";

pub(crate) fn run_nodes(ui: &mut Ui, args: &NodesArgs) -> anyhow::Result<ExitStatus> {
    let body = ask("/api/1/nodes")?;
    let list = NodeList::from_json(&body).map_err(unreadable)?;
    deliver(ui, &args.output, &list.to_json(), &list.to_text())?;
    Ok(ExitStatus::Done)
}

pub(crate) fn run_jobs(ui: &mut Ui, args: &JobsArgs) -> anyhow::Result<ExitStatus> {
    let mut query = Vec::new();
    let mut also = |name: &str, value: Option<&str>| {
        query.extend(value.map(|value| format!("{name}={}", in_query(value))));
    };
    also("user", args.user.as_deref());
    also("app", args.app.as_deref());
    also("q", args.search.as_deref());
    also(
        "state",
        args.state.map(|state| match state {
            State::Running => "running",
            State::Ended => "ended",
            State::Partial => "partial",
        }),
    );
    also("since", args.since.map(|ago| format!("{:.3}", (now_unix_s() - ago).max(0.0))).as_deref());
    let mut list = list(&query, args.limit as usize)?;
    let load = |bps: Option<f64>| bps.unwrap_or(0.0);
    match args.sort {
        Order::Start => {}
        Order::Read => list.jobs.sort_by(|a, b| load(b.read_bps).total_cmp(&load(a.read_bps))),
        Order::Write => list.jobs.sort_by(|a, b| load(b.write_bps).total_cmp(&load(a.write_bps))),
        Order::Size => list.jobs.sort_by_key(|job| std::cmp::Reverse(job.size)),
        Order::User => list.jobs.sort_by(|a, b| a.user.cmp(&b.user)),
    }
    deliver(ui, &args.output, &list.to_json(), &list.to_text(now_unix_s()))?;
    Ok(if list.jobs.is_empty() { ExitStatus::NothingFound } else { ExitStatus::Done })
}

/// Between two questions whether a job has ended.
const LOOK_AGAIN: Duration = Duration::from_millis(200);

/// Asks for a job, again until it has ended if that is to be waited for.
fn job_of(args: &JobArgs) -> anyhow::Result<JobDocument> {
    let wait = args.wait.and_then(|wait_s| Duration::try_from_secs_f64(wait_s).ok()).unwrap_or_default();
    let until = Instant::now().checked_add(wait);
    let read = |body: Vec<u8>| JobDocument::from_json(&body).map_err(unreadable);
    let path = format!("/api/1/jobs/{}", in_query(&args.id));
    if args.wait.is_some() {
        // A job that was short may not be known yet.
        while ask(&path).and_then(read).map_or(true, |job| job.entry.state == JobState::Running)
            && until.is_none_or(|until| Instant::now() < until)
        {
            std::thread::sleep(LOOK_AGAIN);
        }
    }
    ask(&format!("{path}?why=1")).and_then(read)
}

pub(crate) fn run_job(ui: &mut Ui, args: &JobArgs) -> anyhow::Result<ExitStatus> {
    #[cfg(feature = "system")]
    if let Some(seconds) = args.trace {
        return super::record::trace_job(ui, &args.id, seconds);
    }
    let job = job_of(args)?;
    if args.summary {
        let summary = JobSummary::new(&job, args.asked, args.used);
        deliver(ui, &args.output, &summary.to_json_line(), &summary.to_text(ui.width()))?;
        return Ok(ExitStatus::Done);
    }
    // What it would cost at other sizes, if earlier runs tell.
    let models = match args.output.form() {
        Form::Json => None,
        Form::Text => ask(&format!("/api/1/models?job={}", in_query(&args.id))).ok(),
    };
    let models = models.and_then(|body| ModelLines::from_json(&body)).unwrap_or_default();
    let text = job.to_text(ui.width()) + &models.to_text(&job.busiest(), MOST_MODELS);
    deliver(ui, &args.output, &job.to_json(), &text)?;
    Ok(ExitStatus::Done)
}

pub(crate) fn run_top(ui: &mut Ui, args: &TopArgs) -> anyhow::Result<ExitStatus> {
    let is_screen = ui.out_is_terminal() && args.output.file().is_none() && args.output.form() == Form::Text;
    let every = args.every.or(is_screen.then_some(2.0));
    let n_times = args.count.unwrap_or(if every.is_some() { u64::MAX } else { 1 });
    for index in 0..n_times {
        if index > 0 {
            std::thread::sleep(Duration::from_secs_f64(every.unwrap_or(2.0)));
        }
        let list = list(&["state=running".to_owned()], 1000)?;
        let clear = if is_screen { "\u{1b}[H\u{1b}[J" } else { "" };
        deliver(ui, &args.output, &list.to_json(), &format!("{clear}{}", list.to_top(now_unix_s())))?;
    }
    Ok(ExitStatus::Done)
}

/// All jobs of a query up to a limit, however many answers they come in.
pub(super) fn list(query: &[String], limit: usize) -> anyhow::Result<JobList> {
    let mut all = JobList::default();
    loop {
        let n_left = limit.saturating_sub(all.jobs.len());
        let mut query = query.to_vec();
        query.push(format!("limit={}", n_left.min(1000)));
        query.extend(all.next.take().map(|next| format!("cursor={}", in_query(&next))));
        let body = ask(&format!("/api/1/jobs?{}", query.join("&")))?;
        let part = JobList::from_json(&body).map_err(unreadable)?;
        let has_any = !part.jobs.is_empty();
        all.jobs.extend(part.jobs);
        all.next = part.next;
        if all.next.is_none() || all.jobs.len() >= limit || !has_any {
            all.jobs.truncate(limit);
            return Ok(all);
        }
    }
}

pub(super) fn deliver(ui: &mut Ui, output: &OutputArgs, json: &str, text: &str) -> anyhow::Result<()> {
    ui.also_in_words(|_| text.to_owned());
    let said = if output.form() == Form::Json { json } else { text };
    match output.file() {
        Some(path) => ui.answer_file(path, said),
        None => ui.out(said),
    }
}
