//! `iotide record`: run a program under the tracer.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::ops::ControlFlow;
use std::os::unix::process::{CommandExt, ExitStatusExt, parent_id};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus as ProgramStatus};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;
use iotide_analysis::{IssueConfig, RunConfig, StatedRun, analyse_run, demand, issues};
use iotide_api::Address;
use iotide_formats::{GateTotals, TmioWriter, TracerTotals};
use iotide_private::OpenDir;
use iotide_report::{Run, RunIssues, Source, text};
use iotide_trace::{Activity, Event, EventSink, Layer, Loss, Op, ReadWrite, Timestamp};

use super::library::{self, LibraryPlace};
use crate::ExitStatus;
use crate::ui::{Hint, Ui};

mod child;
mod kernel;
mod live;
mod stream;

use kernel::Kernel;
pub(super) use kernel::trace_job;
pub(super) use live::usable_directory as pages_directory;
use stream::Listener;

/// Run a program and trace its I/O
///
/// Every call of POSIX, C streams and MPI-IO is recorded, in all processes and threads the program starts, with whatever MPI it
/// was built with. The program needs no change; it runs as it would without. Signals sent to iotide are passed on to it, and iotide
/// ends with its exit status (128 and the number of the signal that ended it). The trace is a
/// directory with one file per process, which the other commands read as one run.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RecordArgs {
    /// Directory of the trace [default: iotide-trace, with a number if there is one already]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Count calls, bytes and time in pages that can be read while the program runs; then a trace is written only with `-o`
    #[arg(long)]
    live: bool,
    /// Exclude paths with this prefix, or matching this glob; may be given several times
    #[arg(long, value_name = "PATTERN")]
    exclude: Vec<String>,
    /// Keep files that are left out otherwise, as those of the system are
    #[arg(long, value_name = "PATTERN")]
    include: Vec<String>,
    /// Send what is recorded to a listener as it happens: `unix:PATH` or `tcp:HOST:PORT`
    #[arg(long, value_name = "WHERE")]
    stream: Option<Address>,
    /// Write the run as TMIO's JSON Lines, too, for tools that read TMIO
    #[arg(long, value_name = "FILE")]
    tmio: Option<PathBuf>,
    /// Take a process's rank from variable NAME, and the number of ranks from SIZE; otherwise from those of MPI launchers, Slurm and torchrun
    #[arg(long, value_name = "NAME[:SIZE]")]
    rank_from: Option<String>,
    /// Let the kernel report the calls, also of static and Go programs, of setuid programs and of io_uring; needs root, CAP_BPF or the like. `--kernel=both` lets the library record what it can, `--kernel=check` says what this machine can do
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "record", hide_possible_values = true, conflicts_with_all = ["live", "stream"])]
    kernel: Option<Kernel>,
    #[command(flatten)]
    library: LibraryPlace,
    /// Write the C header iotide.h, which declares iotide_flush(), to DIR, and run nothing
    #[arg(long, value_name = "DIR", conflicts_with = "program")]
    header: Option<PathBuf>,
    /// The program and its arguments
    #[arg(
        required_unless_present_any = ["header", "kernel"],
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "PROGRAM"
    )]
    program: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  iotide record -- ./simulation input.txt
  iotide record -o run7 -- mpirun -n 4 ./simulation     the launcher and all ranks
  mpirun -n 4 iotide record -o run7 -- ./simulation     each rank by itself; also with srun, and on several nodes
  iotide record --live -- ./simulation                  counters only, for the daemon of this machine
  sudo iotide record --kernel -- ./static-program       what a preloaded library cannot see
  iotide detect run7                                    what is its rhythm?";

/// C header for programs that call the tracer.
const HEADER: &str = include_str!("../../../preload/include/iotide.h");

/// How a program ended, and where its trace is, if there is one to be read here.
pub(super) struct Recorded {
    pub(super) status: ExitStatus,
    pub(super) trace: Option<PathBuf>,
}

impl From<ExitStatus> for Recorded {
    fn from(status: ExitStatus) -> Self {
        Self { status, trace: None }
    }
}

pub(crate) fn run(ui: &mut Ui, args: &RecordArgs) -> anyhow::Result<ExitStatus> {
    let Recorded { status, trace } = record(ui, args)?;
    if let Some(trace) = trace {
        say_next(ui, &as_typed_here(&trace));
    }
    Ok(status)
}

/// Says which commands go on from a trace.
pub(super) fn say_next(ui: &mut Ui, trace: &Path) {
    let trace = trace.display();
    ui.status(format_args!("  next: iotide report {trace} (a page), iotide detect {trace} (its rhythm)"));
}

/// Returns a path as one would type it in the working directory.
pub(super) fn as_typed_here(path: &Path) -> PathBuf {
    let here = env::current_dir().and_then(|here| here.canonicalize()).unwrap_or_default();
    path.strip_prefix(here).unwrap_or(path).to_owned()
}

/// Runs a program under the tracer.
pub(super) fn record(ui: &mut Ui, args: &RecordArgs) -> anyhow::Result<Recorded> {
    if let Some(directory) = &args.header {
        return write_header(ui, directory).map(Recorded::from);
    }
    if args.kernel == Some(Kernel::Check) {
        return kernel::check(ui).map(Recorded::from);
    }
    if args.program.is_empty() {
        return Err(anyhow::anyhow!("no program to record")).hint("`iotide record --kernel -- PROGRAM`");
    }
    if args.kernel.is_some() {
        return record_by_kernel(ui, args);
    }
    let library = library::find(&args.library)?;
    library::warn_of_other_nodes(ui, &library, &args.program);
    let rank = Rank::of_this_process(args.rank_from.as_deref());
    let pages = if args.live { live::directory(ui) } else { None };
    if args.live && !args.wants_trace() {
        return run_counted(ui, args, &library, pages.as_deref(), rank.as_ref()).map(Recorded::from);
    }
    let listener = args.stream.as_ref().map(Listener::find).transpose()?;
    let directory = make_directory(args, rank.as_ref())?;
    let mut command =
        prepare(args, &library, Some(&directory), listener.as_ref(), pages.as_deref(), rank.as_ref());
    // Of many ranks one speaks at the end; the others need nobody to wait for them.
    if rank.as_ref().is_some_and(|rank| rank.number != 0) {
        return Err(cannot_run(&args.program[0], command.exec()));
    }
    if let Some(listener) = &listener {
        listener.try_out(ui);
    }
    let began = Instant::now();
    let status = child::run(&mut command).map_err(|error| cannot_run(&args.program[0], error))?;
    conclude(ui, args, directory, rank.as_ref(), code_of(status), began.elapsed())
}

/// Runs a program whose calls the kernel reports. Of many ranks each does so for itself, and one speaks at the end.
fn record_by_kernel(ui: &mut Ui, args: &RecordArgs) -> anyhow::Result<Recorded> {
    let rank = Rank::of_this_process(args.rank_from.as_deref());
    let directory = make_directory(args, rank.as_ref())?;
    let (status, elapsed) = match kernel::run(ui, args, &directory, rank.as_ref()) {
        Ok(recorded) => recorded,
        Err(error) => {
            let _ = std::fs::remove_dir(&directory);
            return Err(error);
        }
    };
    if rank.as_ref().is_some_and(|rank| rank.number != 0) {
        return Ok(ExitStatus::Program(code_of(status)).into());
    }
    conclude(ui, args, directory, rank.as_ref(), code_of(status), elapsed)
}

/// Reports what was recorded of a job that goes on.
fn tell_of_slice(ui: &mut Ui, directory: &Path, elapsed: Duration) -> anyhow::Result<ExitStatus> {
    if !holds_streams(directory) {
        let _ = std::fs::remove_dir(directory);
    }
    let summary = Summary::read(directory)?;
    summary.tell(ui, true, directory, elapsed);
    if summary.moved.tally.n_events == 0 {
        return Ok(ExitStatus::NothingFound);
    }
    say_next(ui, directory);
    Ok(ExitStatus::Done)
}

/// Makes the directory of the trace, which must hold no other.
fn make_directory(args: &RecordArgs, rank: Option<&Rank>) -> anyhow::Result<PathBuf> {
    let directory = match &args.output {
        Some(directory) => directory.clone(),
        None => PathBuf::from(default_directory(rank)),
    };
    if rank.is_none() && holds_streams(&directory) {
        return Err(anyhow::anyhow!("{} holds the trace of another run already", directory.display()))
            .hint("`-o DIR` names another directory");
    }
    OpenDir::make(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    directory.canonicalize().with_context(|| format!("cannot find {}", directory.display()))
}

/// Sums a trace up whose program has ended with `code`.
fn conclude(
    ui: &mut Ui,
    args: &RecordArgs,
    directory: PathBuf,
    rank: Option<&Rank>,
    code: u8,
    elapsed: Duration,
) -> anyhow::Result<Recorded> {
    if args.output.is_none() && !holds_streams(&directory) {
        // A folder that nobody asked for and that holds nothing is in the way of the next run. Only an empty one goes.
        let _ = std::fs::remove_dir(&directory);
    }
    let summed_up = sum_up(ui, args, &directory, rank, elapsed);
    if let Err(error) = make_durable(&directory) {
        ui.warning(format_args!("iotide: the trace may not survive a power failure: {error}"));
    }
    let status = ExitStatus::Program(code);
    match summed_up {
        Ok(has_io) => Ok(Recorded { status, trace: has_io.then_some(directory) }),
        // How the program ended matters more than what became of its trace.
        Err(error) if code != 0 => {
            ui.error(&error);
            Ok(status.into())
        }
        Err(error) => Err(error),
    }
}

/// Syncs the streams in a directory and the names on the way to them. Streams that other nodes wrote are synced there, by their own kernels.
fn make_durable(directory: &Path) -> io::Result<()> {
    if !holds_streams(directory) {
        return Ok(());
    }
    OpenDir::open(directory)?.sync_files(".iot")?;
    OpenDir::open(directory.parent().unwrap_or(directory))?.sync()
}

/// Runs a program that is counted, and leaves no trace.
fn run_counted(
    ui: &mut Ui,
    args: &RecordArgs,
    library: &Path,
    pages: Option<&Path>,
    rank: Option<&Rank>,
) -> anyhow::Result<ExitStatus> {
    let mut command = prepare(args, library, None, None, pages, rank);
    if rank.is_some_and(|rank| rank.number != 0) {
        return Err(cannot_run(&args.program[0], command.exec()));
    }
    let began = Instant::now();
    let status = child::run(&mut command).map_err(|error| cannot_run(&args.program[0], error))?;
    if !ui.is_quiet()
        && let Some(pages) = pages
    {
        let stated = command.get_envs().find(|(name, _)| *name == "IOTIDE_RUN").and_then(|(_, value)| value);
        let run = stated.map(OsStr::to_owned).or_else(|| env::var_os("IOTIDE_RUN")).unwrap_or_default();
        live::tell(ui, pages, &run, began.elapsed());
    }
    Ok(ExitStatus::Program(code_of(status)))
}

impl RecordArgs {
    /// Whether anything is asked for that needs records.
    fn wants_trace(&self) -> bool {
        self.output.is_some() || self.stream.is_some() || self.tmio.is_some()
    }
}

fn write_header(ui: &mut Ui, directory: &Path) -> anyhow::Result<ExitStatus> {
    let folder = OpenDir::make(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let header = directory.join("iotide.h");
    let write = || {
        let mut part = folder.replace("iotide.h")?;
        part.write_all(HEADER.as_bytes())?;
        part.finish()
    };
    write().with_context(|| format!("cannot write {}", header.display()))?;
    ui.out(&format!("{}\n", header.display()))?;
    Ok(ExitStatus::Done)
}

/// Reports what was recorded, and writes it as TMIO would have. Returns whether there was any I/O, if that was looked at.
fn sum_up(
    ui: &mut Ui,
    args: &RecordArgs,
    directory: &Path,
    rank: Option<&Rank>,
    elapsed: Duration,
) -> anyhow::Result<bool> {
    if ui.is_quiet() && args.tmio.is_none() {
        return Ok(holds_streams(directory));
    }
    let summary = Summary::wait_for(directory, rank)?;
    if !ui.is_quiet() {
        summary.tell(ui, args.kernel.is_some(), directory, elapsed);
    }
    if let Some(file) = &args.tmio {
        write_tmio(file, directory, summary.n_ranks())
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(summary.moved.tally.n_events > 0)
}

/// Writes a trace as TMIO would have.
fn write_tmio(file: &Path, directory: &Path, n_ranks: u64) -> anyhow::Result<()> {
    let mut writer = TmioWriter::new(BufWriter::new(File::create(file)?), n_ranks);
    if holds_streams(directory) {
        iotide_formats::open(directory)?.read(&mut writer)?;
    }
    writer.finish()?;
    Ok(())
}

fn cannot_run(program: &OsStr, error: io::Error) -> anyhow::Error {
    anyhow::anyhow!("cannot run {}: {error}", program.display())
}

/// The program's own exit code, or 128 and the number of the signal that ended it, as shells say it.
fn code_of(status: ProgramStatus) -> u8 {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(2);
    (code & 0xff) as u8
}

fn prepare(
    args: &RecordArgs,
    library: &Path,
    directory: Option<&Path>,
    listener: Option<&Listener>,
    pages: Option<&Path>,
    rank: Option<&Rank>,
) -> Command {
    let mut command = Command::new(&args.program[0]);
    command.args(&args.program[1..]).envs(environment(library, directory.unwrap_or(Path::new(""))));
    if directory.is_none() {
        command.env_remove("IOTIDE_DIR").env_remove("IOTIDE_STREAM");
    }
    match pages {
        Some(pages) => drop(command.env("IOTIDE_LIVE", pages)),
        // Neither counted nor traced.
        None if directory.is_none() => drop(command.env("IOTIDE_DISABLE", "1")),
        None => {}
    }
    for (variable, patterns) in [("IOTIDE_EXCLUDE", &args.exclude), ("IOTIDE_INCLUDE", &args.include)] {
        let mut all: Vec<String> = env::var(variable).ok().into_iter().collect();
        all.extend(patterns.iter().cloned());
        if !all.is_empty() {
            command.env(variable, all.join(":"));
        }
    }
    if let Some(names) = &args.rank_from {
        command.env("IOTIDE_RANK_FROM", names);
    }
    // A run within a run is part of it.
    if env::var_os("IOTIDE_RUN").is_none() {
        command.env("IOTIDE_RUN", run_name(&args.program[0], rank));
    }
    // AddressSanitizer's library wants to be the first of all, and ends the program if it is not. It works behind ours.
    let sanitizer = env::var("ASAN_OPTIONS").unwrap_or_default();
    if !sanitizer.contains("verify_asan_link_order") {
        let separator = if sanitizer.is_empty() { "" } else { ":" };
        command.env("ASAN_OPTIONS", format!("{sanitizer}{separator}verify_asan_link_order=0"));
    }
    if let Some(listener) = listener {
        // A trace that was watched is a whole trace all the same.
        command.env("IOTIDE_STREAM", listener.for_tracer()).env("IOTIDE_KEEP", "1");
    }
    // Open MPI's launcher hands its own environment on to this node only; this makes it name ours to the others.
    if env::var_os("OMPI_MCA_mca_base_env_list").is_none() {
        let names = command.get_envs().filter_map(|(name, value)| value.and(name.to_str()));
        let list = names.collect::<Vec<_>>().join(";");
        command.env("OMPI_MCA_mca_base_env_list", list);
    }
    command
}

/// Returns the name of a run without a scheduler's name: unique among the runs at one time, and the same for all ranks of a run.
fn run_name(program: &OsStr, rank: Option<&Rank>) -> String {
    let job = rank.map_or_else(|| std::process::id().to_string(), |rank| rank.job.clone());
    let name = Path::new(program).file_name().unwrap_or(program).to_string_lossy();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._+-".contains(c) { c } else { '_' };
    // What is too long is cut at its end, where the program's name can do without.
    let name: String = name.chars().map(plain).take(24).collect();
    let job: String = job.chars().map(plain).take(36).collect();
    format!("{name}-{job}")
}

/// Returns the environment variables by which a program is traced into `directory`.
pub(super) fn environment(library: &Path, directory: &Path) -> [(&'static str, OsString); 2] {
    // Other preloaded libraries come after ours, and so see what we pass on.
    let mut preload = library.as_os_str().to_owned();
    if let Some(others) = env::var_os("LD_PRELOAD").filter(|others| !others.is_empty()) {
        preload.push(":");
        preload.push(others);
    }
    [("LD_PRELOAD", preload), ("IOTIDE_DIR", directory.as_os_str().to_owned())]
}

/// This process's place among the ranks, if a launcher has started it.
struct Rank {
    number: u64,
    of: Option<u64>,
    /// Name of the job by the launcher, the same for all ranks.
    job: String,
}

impl Rank {
    fn of_this_process(rank_from: Option<&str>) -> Option<Self> {
        let number = |name: &str| env::var(name).ok()?.parse().ok();
        let ranks = [
            ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
            ("PMI_RANK", "PMI_SIZE"),
            ("PMIX_RANK", "PMIX_SIZE"),
            ("MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"),
            ("PALS_RANKID", "PALS_SIZE"),
            ("JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"),
            ("FLUX_TASK_RANK", "FLUX_JOB_SIZE"),
        ];
        let named = rank_from.map(|names| names.split_once(':').unwrap_or((names, "")));
        // Anybody's names: both must be there.
        let torchrun = env::var("WORLD_SIZE").is_ok().then_some(("RANK", "WORLD_SIZE"));
        let slurm = ("SLURM_PROCID", "SLURM_NTASKS");
        // A batch script has a SLURM_PROCID too; only a step that srun started has a number of its own.
        let is_step = env::var("SLURM_STEP_ID").is_ok_and(|step| step.parse::<u32>().is_ok());
        let (number, of) = (named.into_iter().chain(ranks))
            .chain(is_step.then_some(slurm))
            .chain(torchrun)
            .find_map(|(rank, size)| Some((number(rank)?, number(size))))?;
        let names = ["PMIX_NAMESPACE", "PMI_JOBID", "SLURM_JOB_ID", "FLUX_JOB_ID", "TORCHELASTIC_RUN_ID"];
        let job = names.into_iter().find_map(|name| env::var(name).ok());
        // MPICH's launcher names no job, but all ranks of a node have one parent.
        let mut job = job.unwrap_or_else(|| parent_id().to_string());
        if let Ok(step) = env::var("SLURM_STEP_ID") {
            job = format!("{job}.{step}");
        }
        Some(Self { number, of, job: job.replace('/', "_") })
    }
}

/// A directory that holds no trace yet, and the same for all ranks.
fn default_directory(rank: Option<&Rank>) -> String {
    if let Some(rank) = rank {
        return format!("iotide-trace-{}", rank.job);
    }
    let plain = "iotide-trace".to_owned();
    let numbered = (2..).map(|n| format!("iotide-trace-{n}"));
    std::iter::once(plain).chain(numbered).find(|name| !Path::new(name).exists()).unwrap_or_default()
}

fn holds_streams(directory: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(directory) else { return false };
    entries.flatten().any(|entry| entry.path().extension().is_some_and(|extension| extension == "iot"))
}

/// Contents of the trace, for a last message to the user.
struct Summary {
    n_processes: usize,
    layers: [LayerSums; 3],
    moved: ReadWrite,
    run: Option<Run>,
    issues: Option<RunIssues>,
    tracer: TracerTotals,
}

#[derive(Default)]
struct LayerSums {
    calls: u64,
    bytes_read: f64,
    bytes_written: f64,
    time_s: f64,
}

const LAYERS: [(Layer, &str); 3] =
    [(Layer::MpiIo, "MPI-IO"), (Layer::Posix, "POSIX"), (Layer::Stdio, "stdio")];

impl Summary {
    /// How long the last rank may take to end after the first.
    const PATIENCE: Duration = Duration::from_secs(5);

    /// Reads the trace, once all ranks have ended if there are several.
    fn wait_for(directory: &Path, rank: Option<&Rank>) -> anyhow::Result<Self> {
        let until = Instant::now() + Self::PATIENCE;
        loop {
            let summary = Self::read(directory)?;
            let n_expected = rank.and_then(|rank| rank.of).unwrap_or(0);
            let is_whole = summary.n_processes as u64 >= n_expected && summary.moved.losses.is_empty();
            if rank.is_none() || is_whole || Instant::now() > until {
                return Ok(summary);
            }
            sleep(Duration::from_millis(100));
        }
    }

    fn read(directory: &Path) -> anyhow::Result<Self> {
        let mut sums = Summary {
            n_processes: std::fs::read_dir(directory).map_or(0, Iterator::count),
            layers: Default::default(),
            moved: ReadWrite::default(),
            run: None,
            issues: None,
            tracer: iotide_formats::tracer_totals(directory).unwrap_or_default(),
        };
        if !holds_streams(directory) {
            return Ok(sums);
        }
        let reader = iotide_formats::open(directory).context("cannot read the trace back")?;
        let format = reader.format();
        let mut activity = Activity::new();
        let info = reader.read(&mut (&mut sums, &mut activity)).context("cannot read the trace back")?;
        let judged = issues(&activity.finish(&info), &info.job, &sums.moved.losses, &IssueConfig::default());
        sums.issues = Some(RunIssues::from(&judged));
        let source =
            Source::new(directory.display().to_string(), format.name(), &sums.moved.tally, &info.job);
        let stated = StatedRun::of(&sums.moved.tally, &info.job);
        let config = RunConfig { stated, ..RunConfig::default() };
        let ReadWrite { read, write, async_phases, losses, .. } = sums.moved.clone();
        sums.run = match analyse_run(&read.finish(), &write.finish(), &config) {
            Ok(run) => {
                let demand = demand(&async_phases.finish());
                Some(Run::analysed(source, &losses, &config, &run).with_demand(demand.as_ref()))
            }
            Err(_) => None,
        };
        Ok(sums)
    }

    fn tell(&self, ui: &mut Ui, by_kernel: bool, directory: &Path, elapsed: Duration) {
        let ran = text::seconds(elapsed.as_secs_f64());
        if self.moved.tally.n_events == 0 {
            let why = if by_kernel { String::new() } else { format!("; {}", Self::BLIND_SPOTS) };
            ui.status(format_args!("iotide: {ran}, no I/O was seen{why}"));
            self.tell_of_losses(ui);
            return;
        }
        ui.status(format_args!("iotide: {ran}, {}, trace in {}", self.processes(), directory.display()));
        for ((_, name), sums) in LAYERS.iter().zip(&self.layers).filter(|(_, sums)| sums.calls > 0) {
            ui.status(format_args!(
                "  {name:<7} {:>9} calls  {:>9} read  {:>9} written  {:>8} in them",
                text::count(sums.calls),
                text::bytes(sums.bytes_read),
                text::bytes(sums.bytes_written),
                text::seconds(sums.time_s),
            ));
        }
        if let Some(run) = &self.run {
            for (name, sentence) in run.demand.iter().flat_map(|demand| demand.in_words()) {
                ui.status(format_args!("  {name}: {sentence}"));
            }
            ui.status(format_args!("  {}", run.headline()));
        }
        for line in self.issues.iter().flat_map(RunIssues::first_lines) {
            ui.status(format_args!("  {line}"));
        }
        self.tell_of_the_tracer(ui, elapsed);
        self.tell_of_the_gate(ui);
        self.tell_of_losses(ui);
    }

    /// Whether the arbiter that IOTIDE_GATE names was asked, and what that cost.
    fn tell_of_the_gate(&self, ui: &mut Ui) {
        let GateTotals { n_denied, n_unreached, n_skipped, waited_s } = self.tracer.gate;
        let arbiter = env::var("IOTIDE_GATE").unwrap_or_default();
        let is_remote = arbiter.contains("tcp:");
        if n_skipped > 0 {
            let why = match (n_denied, n_unreached) {
                (0, 0) => "their turn did not come within IOTIDE_GATE_PATIENCE".to_owned(),
                (0, _) if is_remote && env::var_os("IOTIDE_GATE_KEY").is_none_or(|key| key.is_empty()) => {
                    format!("nobody answered at {arbiter} (or it wants a key: IOTIDE_GATE_KEY)")
                }
                (0, _) => format!("nobody answered at {arbiter}"),
                _ if is_remote => {
                    format!(
                        "no permission to ask at {arbiter} (the key in IOTIDE_GATE_KEY is not the arbiter's, or is not yours alone)"
                    )
                }
                _ => format!(
                    "no permission to ask at {arbiter} (--socket-mode and --socket-group of `iotide arbiter` give it)"
                ),
            };
            let requests = text::counted(n_skipped, "request");
            ui.status(format_args!("  gate: {requests} went on without the arbiter's leave: {why}"));
        }
        if waited_s >= 0.001 {
            ui.status(format_args!("  gate: requests waited {} for their turn", text::seconds(waited_s)));
        }
    }

    fn tell_of_losses(&self, ui: &mut Ui) {
        for Loss { what, records, .. } in &self.moved.losses {
            let n = records.map(|n| format!(" ({})", text::counted(n, "record"))).unwrap_or_default();
            ui.status(format_args!("  lost: {what}{n}"));
        }
    }

    /// How much of what was moved is in the trace, and what that cost.
    fn tell_of_the_tracer(&self, ui: &mut Ui, elapsed: Duration) {
        let TracerTotals { kernel_bytes, seen_bytes, excluded_calls, excluded_bytes, .. } = self.tracer;
        // Less than that is what the C library reads to start a program.
        if kernel_bytes > 1e5 {
            let percent = (100.0 * seen_bytes / kernel_bytes).floor();
            let kernel = text::bytes(kernel_bytes);
            ui.status(format_args!(
                "  coverage: {percent} % of the {kernel} moved by these processes was traced"
            ));
        }
        if excluded_calls > 0 {
            ui.status(format_args!(
                "  ignored: {} ({}) on system or excluded paths (see --include)",
                text::counted(excluded_calls, "call"),
                text::bytes(excluded_bytes),
            ));
        }
        if self.tracer.overhead_s > 0.0 {
            let share = self.tracer.worst_overhead_s / elapsed.as_secs_f64().max(1e-9);
            ui.status(format_args!(
                "  overhead: {} in total, at most {} ({} of the run) in one process",
                text::seconds(self.tracer.overhead_s),
                text::seconds(self.tracer.worst_overhead_s),
                text::percent(share),
            ));
        }
    }

    fn n_ranks(&self) -> u64 {
        self.moved.tally.n_ranks() as u64
    }

    fn processes(&self) -> String {
        match self.n_processes {
            1 => "1 process".to_owned(),
            n => format!("{} processes", text::count(n as u64)),
        }
    }

    const BLIND_SPOTS: &str = "statically linked programs, Go programs and io_uring bypass the tracer";
}

impl EventSink for Summary {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        self.count(&event);
        self.moved.event(event)
    }
    fn async_event(&mut self, event: Event, waited: Timestamp) -> ControlFlow<()> {
        self.count(&event);
        self.moved.async_event(event, waited)
    }
    fn loss(&mut self, loss: Loss) {
        self.moved.loss(loss);
    }

    fn time_spent(&mut self, _: iotide_trace::TimeSpent) {}

    fn access_facts(&mut self, _: &iotide_trace::AccessFacts) {}
}

impl Summary {
    fn count(&mut self, event: &Event) {
        let layer = LAYERS.iter().position(|(layer, _)| *layer == event.layer);
        if let Some(sums) = layer.map(|i| &mut self.layers[i]) {
            sums.calls += u64::from(event.calls);
            sums.time_s += event.end.secs_since(event.start);
            match event.op {
                Op::Read => sums.bytes_read += event.bytes,
                Op::Write => sums.bytes_written += event.bytes,
                _ => {}
            }
        }
    }
}
