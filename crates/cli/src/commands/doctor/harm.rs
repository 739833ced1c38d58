//! A program without the tracer and with it, by turns.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::Context;
use iotide_api::{InfoOptions, Input, info};
use iotide_private::PrivateDir;
use iotide_report::HarmEntry;
use iotide_wire::Fnv1a;

use crate::commands::library::{self, LibraryPlace};
use crate::commands::record::environment;
use crate::ui::Ui;

/// How a run went.
struct Ran {
    /// Status by `wait`.
    status: i32,
    /// Checksums of stdout and stderr.
    printed: [u64; 2],
    took_s: f64,
    memory_bytes: u64,
}

/// Runs a program without the tracer and with it.
pub(super) fn compare(ui: &mut Ui, program: &[OsString], n_runs: usize) -> anyhow::Result<HarmEntry> {
    let library = library::find(&LibraryPlace::default())?;
    let folder = PrivateDir::new("doctor").context("cannot make a folder for temporary files")?;
    let (mut without, mut with) = (Vec::new(), Vec::new());
    let mut n_events = 0;
    for nth in 0..n_runs {
        ui.progress(format_args!("running {} ({} of {n_runs})", program[0].display(), nth + 1));
        let cannot = || format!("cannot run {}", program[0].display());
        without.push(run(program, folder.path(), None).with_context(cannot)?);
        let trace = folder.path().join(format!("trace-{nth}"));
        std::fs::create_dir(&trace).context("cannot make a folder for a trace")?;
        with.push(run(program, folder.path(), Some((&library, &trace))).with_context(cannot)?);
        if nth + 1 == n_runs {
            n_events = recorded(&trace);
        }
        std::fs::remove_dir_all(&trace).context("cannot remove a trace")?;
    }
    let times = |runs: &[Ran]| runs.iter().map(|run| run.took_s).collect::<Vec<_>>();
    let median = |runs: &[Ran]| iotide_num::median(&times(runs)).unwrap_or(0.0);
    // A child begins as a copy of this process: what is less than this one had cannot be seen.
    let unseen_bytes = own_memory_bytes();
    let most =
        |runs: &[Ran]| runs.iter().map(|run| run.memory_bytes).max().filter(|most| *most > unseen_bytes);
    let without_s = times(&without);
    Ok(HarmEntry {
        program: program.join(&OsString::from(" ")).to_string_lossy().into_owned().into(),
        n_runs,
        same_status: same(&without, &with, |run| run.status),
        same_output: same(&without, &with, |run| run.printed),
        without_s: median(&without),
        with_s: median(&with),
        without_range_s: [
            without_s.iter().copied().fold(f64::INFINITY, f64::min),
            without_s.iter().copied().fold(0.0, f64::max),
        ],
        without_memory_bytes: most(&without),
        with_memory_bytes: most(&with),
        n_events,
        is_unseen: n_events == 0,
    })
}

/// Whether something is the same in both ways; `None` if it is not even the same from run to run without the tracer.
fn same<T: PartialEq>(without: &[Ran], with: &[Ran], of: impl Fn(&Ran) -> T) -> Option<bool> {
    let first = of(without.first()?);
    let is_first = |run: &Ran| of(run) == first;
    without.iter().all(is_first).then(|| with.iter().all(is_first))
}

/// Returns how many calls a trace has; 0 if there is none.
fn recorded(trace: &Path) -> u64 {
    let options = InfoOptions::default();
    info(&Input::file(trace), &options).ok().and_then(|info| info.source.n_events).unwrap_or(0)
}

fn run(program: &[OsString], folder: &Path, traced: Option<(&Path, &Path)>) -> io::Result<Ran> {
    let streams = ["stdout", "stderr"].map(|name| folder.join(name));
    let [stdout, stderr] = streams.each_ref().map(File::create);
    let mut command = Command::new(&program[0]);
    command.args(&program[1..]).stdin(Stdio::null()).stdout(stdout?).stderr(stderr?);
    if let Some((library, trace)) = traced {
        command.envs(environment(library, trace));
    }
    let began = Instant::now();
    let (status, memory_bytes) = wait(command.spawn()?.id())?;
    let took_s = began.elapsed().as_secs_f64();
    let [stdout, stderr] = streams.map(|stream| std::fs::read(stream).map(|text| Fnv1a::of(&text).value()));
    Ok(Ran { status, printed: [stdout?, stderr?], took_s, memory_bytes })
}

/// Returns the most memory that this process has had.
fn own_memory_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    most.and_then(|most| most.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Waits for a child, and returns its status and the most memory that it, or a child that it waited for, had.
#[allow(unsafe_code)]
fn wait(pid: u32) -> io::Result<(i32, u64)> {
    loop {
        let mut status = 0;
        // SAFETY: all zeroes is a valid usage; both pointers are to values of ours, and the process is a child that nobody else waits for.
        let (ended, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (libc::wait4(pid.cast_signed(), &raw mut status, 0, &raw mut usage), usage)
        };
        if ended >= 0 {
            return Ok((status, usage.ru_maxrss.cast_unsigned() * 1024));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
