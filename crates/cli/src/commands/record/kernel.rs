//! `iotide record --kernel`: the kernel reports the calls of a program, and of all that it starts.

use std::env;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::{Command, ExitStatus as ProgramStatus};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use iotide_kernel::{Events, Missing, Recorder, Settings, Tracer};

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
    let (status, recorded) = scope(|scope| {
        let reading = scope.spawn(|| read(&tracer, events, settings, &is_over));
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

/// Empties the ring until the program is over, and then to its end.
fn read(tracer: &Tracer, mut events: Events, settings: Settings, is_over: &AtomicBool) -> io::Result<()> {
    let mut recorder = Recorder::new(settings);
    let mut n_idle = 0;
    loop {
        // Asked before: what comes after the end of the program is of nobody we wait for.
        let was_over = is_over.load(Relaxed);
        let n = events.drain(|event| recorder.take(event));
        if n > 0 {
            continue;
        }
        if was_over {
            return recorder.finish(tracer.lost());
        }
        n_idle += 1;
        if n_idle >= FLUSHES_AFTER {
            n_idle = 0;
            recorder.flush();
        }
        sleep(EACH);
    }
}

fn settings(args: &RecordArgs, directory: &Path, rank: Option<&Rank>) -> Settings {
    let patterns = |variable: &str, more: &[String]| {
        let mut all = env::var_os(variable).map(OsStringExt::into_vec).unwrap_or_default();
        for pattern in more {
            all.push(b':');
            all.extend_from_slice(pattern.as_bytes());
        }
        all
    };
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let run = env::var_os("IOTIDE_RUN").map(OsStringExt::into_vec);
    Settings {
        directory: directory.to_owned(),
        include: patterns("IOTIDE_INCLUDE", &args.include),
        exclude: patterns("IOTIDE_EXCLUDE", &args.exclude),
        run: run.unwrap_or_else(|| run_name(&args.program[0], rank).into_bytes()),
        host: host.trim_end().into(),
        is_beside_library: args.kernel == Some(Kernel::Both),
    }
}
