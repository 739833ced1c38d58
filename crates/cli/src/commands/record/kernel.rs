//! `iotide record --kernel`: the kernel reports the calls of a program, and of all that it starts.

use std::collections::HashSet;
use std::env;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus as ProgramStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use iotide_kernel::{Events, Missing, Recorder, Settings, Tracer};
use iotide_private::OpenDir;
use iotide_report::text;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::{Rank, RecordArgs, cannot_run, child, library, prepare, run_name};
use crate::ExitStatus;
use crate::ui::{Hint, Ui};

/// Use of the kernel's tracer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kernel {
    /// Record a program
    Record,
    /// Record a program by the preloaded library, too, which sees MPI-IO and C streams; each call once
    Both,
    /// Say what this machine can do
    Check,
}

/// How often the ring is emptied. It holds 90,000 calls: at most 18 million a second.
const EACH: Duration = Duration::from_millis(5);
/// How often what was recorded is written, though little.
const FLUSHES_AFTER: u32 = 200;

/// Says what this machine can do.
pub(super) fn check(ui: &mut Ui) -> anyhow::Result<ExitStatus> {
    let mut works = true;
    for ability in iotide_kernel::check() {
        let (state, why) = match &ability.works {
            Ok(()) => ("works", String::new()),
            Err(why) if ability.is_needed => ("MISSING", format!(": {why}")),
            Err(why) => ("absent", format!(": {why}")),
        };
        works &= ability.works.is_ok() || !ability.is_needed;
        ui.out(&format!("{state:<8} {}{why}\n", ability.what))?;
    }
    Ok(if works { ExitStatus::Done } else { ExitStatus::NothingFound })
}

/// Runs a program to its end while the kernel reports its calls.
pub(super) fn run(
    ui: &mut Ui,
    args: &RecordArgs,
    directory: &Path,
    rank: Option<&Rank>,
) -> anyhow::Result<(ProgramStatus, Duration)> {
    let mut command = if args.kernel == Some(Kernel::Both) {
        let library = library::find(&args.library)?;
        let mut command = prepare(args, &library, Some(directory), None, None, rank);
        command.env("IOTIDE_BESIDE_KERNEL", "1");
        command
    } else {
        let mut command = Command::new(&args.program[0]);
        command.args(&args.program[1..]);
        if let Some(names) = &args.rank_from {
            command.env("IOTIDE_RANK_FROM", names);
        }
        command
    };
    let (tracer, events) = Tracer::attach().map_err(refused)?;
    if let Err(why) = tracer.uring() {
        ui.warning(format_args!("iotide: requests of io_uring are not seen: {why}"));
    }
    let settings = settings(args, directory, rank);
    let is_over = AtomicBool::new(false);
    let began = Instant::now();
    let has_ended = |_: &Recorder| is_over.load(Relaxed);
    let (status, recorded) = scope(|scope| {
        let reading = scope.spawn(|| read(&tracer, events, Recorder::new(settings), has_ended));
        let status = child::run_by(&mut command, |command| tracer.spawn(command));
        let elapsed = began.elapsed();
        is_over.store(true, Relaxed);
        (status.map(|status| (status, elapsed)), reading.join())
    });
    let status = status.map_err(|error| cannot_run(&args.program[0], error))?;
    match recorded {
        Ok(Ok(())) => {}
        Ok(Err(error)) => ui.error(&anyhow!("the trace in {} is not whole: {error}", directory.display())),
        Err(_) => ui.error(&anyhow!("the trace in {} is not whole", directory.display())),
    }
    Ok(status)
}

fn refused(missing: Missing) -> anyhow::Error {
    let advice = match missing {
        Missing::Rights(_) => {
            "run as root, or `setcap cap_bpf,cap_perfmon,cap_sys_ptrace+ep` on iotide; without `--kernel` no rights are needed"
        }
        _ => {
            "`iotide record --kernel=check` says what this machine can do; without `--kernel` the preloaded tracer records"
        }
    };
    Err::<(), _>(missing).hint(advice).map_or_else(|error| error, |()| anyhow!("not refused"))
}

/// Empties the ring until all is over, and then to its end.
fn read(
    tracer: &Tracer,
    mut events: Events,
    mut recorder: Recorder,
    is_over: impl Fn(&Recorder) -> bool,
) -> io::Result<()> {
    let mut n_idle = 0;
    loop {
        // Asked before the ring is emptied: what comes after the end of the program is of nobody we wait for.
        let was_over = is_over(&recorder);
        let n = events.drain(|event| recorder.take(event));
        // One that is at work all the time would be heard for ever.
        if was_over && (n == 0 || recorder.is_slice()) {
            return recorder.finish(tracer.lost());
        }
        if n > 0 {
            continue;
        }
        n_idle += 1;
        if n_idle >= FLUSHES_AFTER {
            n_idle = 0;
            recorder.flush();
        }
        sleep(EACH);
    }
}

/// Records for a while what the processes of a job do on this machine, or until they have ended, or until Ctrl-C.
pub(in crate::commands) fn trace_job(ui: &mut Ui, job: &str, seconds: f64) -> anyhow::Result<ExitStatus> {
    let (tracer, events) = Tracer::attach().map_err(refused)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot wait for Ctrl-C")?;
    }
    if iotide_kernel::processes_of_job(job, user()).is_empty() {
        return Err(anyhow!("no process of job {job} runs on this machine, or none that may be looked at"))
            .hint("root sees all processes; `iotide jobs` lists jobs");
    }
    let directory = (1..).map(|n| PathBuf::from(format!("iotide-trace-{}-{n}", job.replace('/', "_"))));
    let directory = directory.into_iter().find(|name| !name.exists()).unwrap_or_default();
    OpenDir::make(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let mut recorder = Recorder::new(Settings {
        directory: directory.canonicalize().unwrap_or_else(|_| directory.clone()),
        include: patterns("IOTIDE_INCLUDE", &[]),
        exclude: patterns("IOTIDE_EXCLUDE", &[]),
        host: host(),
        user: user(),
        is_slice: true,
        ..Settings::default()
    });
    let (n, n_missed) = join_all(&tracer, &mut recorder, job);
    if n_missed > 0 {
        ui.warning(format_args!(
            "iotide: {n_missed} threads cannot be followed: that takes Linux 6.9, or a recording from their start"
        ));
    }
    ui.status(format_args!("iotide: recording {} of job {job}", text::counted(n, "process")));
    let began = Instant::now();
    let is_over = |recorder: &Recorder| {
        stop.load(Relaxed) || recorder.is_over() || began.elapsed().as_secs_f64() >= seconds
    };
    let recorded = read(&tracer, events, recorder, is_over);
    let elapsed = began.elapsed();
    drop(tracer);
    recorded.with_context(|| format!("the trace in {} is not whole", directory.display()))?;
    super::tell_of_slice(ui, &directory, elapsed)
}

/// Marks all processes of a job, with those that are started meanwhile. Returns how many there are, and how many threads cannot be followed.
fn join_all(tracer: &Tracer, recorder: &mut Recorder, job: &str) -> (u64, usize) {
    let (mut joined, mut n_missed) = (HashSet::new(), 0);
    loop {
        let new: Vec<u32> = iotide_kernel::processes_of_job(job, user())
            .into_iter()
            .filter(|pid| joined.insert(*pid))
            .collect();
        if new.is_empty() {
            return (joined.len() as u64, n_missed);
        }
        for pid in new {
            // One that has ended meanwhile is none of those that run.
            if let Ok((threads, missed)) = tracer.mark_running(pid) {
                recorder.joins(pid, &threads);
                n_missed += missed;
            }
        }
    }
}

/// Patterns of a variable and of options, with `:` between them.
fn patterns(variable: &str, more: &[String]) -> Vec<u8> {
    let mut all = env::var_os(variable).map(OsStringExt::into_vec).unwrap_or_default();
    for pattern in more {
        all.push(b':');
        all.extend_from_slice(pattern.as_bytes());
    }
    all
}

/// The user who asks, if not root. It is who has called, whatever rights the program has: it may have been given some.
fn user() -> Option<u32> {
    let user = rustix::process::getuid();
    (!user.is_root()).then(|| user.as_raw())
}

fn host() -> Vec<u8> {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim_end().into()
}

fn settings(args: &RecordArgs, directory: &Path, rank: Option<&Rank>) -> Settings {
    let run = env::var_os("IOTIDE_RUN").map(OsStringExt::into_vec);
    Settings {
        directory: directory.to_owned(),
        include: patterns("IOTIDE_INCLUDE", &args.include),
        exclude: patterns("IOTIDE_EXCLUDE", &args.exclude),
        run: run.unwrap_or_else(|| run_name(&args.program[0], rank).into_bytes()),
        host: host(),
        user: user(),
        is_slice: false,
        is_beside_library: args.kernel == Some(Kernel::Both),
    }
}
