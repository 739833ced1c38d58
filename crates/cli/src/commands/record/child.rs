//! A program that is run for the user: signals sent to us reach it, and it ends before we do.

use std::io;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use signal_hook::consts::{
    SIGALRM, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH, SIGXCPU,
};
use signal_hook::flag;
use signal_hook::iterator::{SignalsInfo, exfiltrator::raw::WithRawSiginfo};

/// Signals that users, batch systems and launchers send. Those that cannot be caught end us and not the program.
const PASSED_ON: [i32; 10] =
    [SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGTERM, SIGALRM, SIGXCPU, SIGCONT, SIGWINCH];
/// Those that end us while we sum up, when there is no program any more.
const ENDING: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// The `si_code` of a signal from the kernel. One from the terminal (Ctrl-C, a new window size) goes to the whole group of
/// processes: the program has had it already.
const SI_KERNEL: i32 = 0x80;

/// Runs a program to its end and passes signals on to it.
pub(super) fn run(command: &mut Command) -> io::Result<ExitStatus> {
    run_by(command, Command::spawn)
}

/// Runs a program that `spawn` starts to its end, likewise.
pub(super) fn run_by(
    command: &mut Command,
    spawn: impl FnOnce(&mut Command) -> io::Result<Child>,
) -> io::Result<ExitStatus> {
    // What is ignored stays ignored, for the program too: `nohup iotide record …`.
    let ignored = ignored_signals();
    let heeded = |signal: &&i32| ignored & (1 << (**signal - 1)) == 0;
    let is_over = Arc::new(AtomicBool::new(false));
    for signal in ENDING.iter().filter(heeded) {
        flag::register_conditional_shutdown(*signal, 128 + signal, Arc::clone(&is_over))?;
    }
    let mut signals = SignalsInfo::<WithRawSiginfo>::new(PASSED_ON.iter().filter(heeded))?;
    let listening = signals.handle();
    let mut child = spawn(command)?;
    let pid = Pid::from_child(&child);
    let passing = std::thread::spawn(move || {
        for info in &mut signals {
            if let Some(signal) = Signal::from_named_raw(info.si_signo).filter(|_| info.si_code != SI_KERNEL)
            {
                let _ = kill_process(pid, signal);
            }
        }
    });
    // Seen to have ended, but not taken away yet: until nobody sends it signals, its number must not become another's.
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while matches!(waitid(WaitId::Pid(pid), ended), Err(rustix::io::Errno::INTR)) {}
    listening.close();
    let _ = passing.join();
    is_over.store(true, Relaxed);
    child.wait()
}

/// The signals that this process ignores, one bit each.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
