//! `iotide stage out` in a process of its own, which is left behind if the destination does not answer.
//!
//! A thread that waits for a file system whose server is gone cannot be ended, and neither can its process. So the process that was started waits
//! for another one that does the work, passes signals on to it, and ends when that one is done or gives up.

use std::env;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, exit};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use rustix::process::{Signal, set_parent_process_death_signal};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};

use crate::commands::heed_signals;

/// Set in the process that does the work; its standard input is a socket to the one that waits.
const WORKER: &str = "IOTIDE_STAGE_WORKER";
/// The byte by which it says that it gives up.
const GIVES_UP: u8 = b'!';
/// How long it may take to end then.
const TIME_TO_END: Duration = Duration::from_millis(500);
const PASSED_ON: [i32; 5] = [SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2];

/// Requests that arrive as signals.
#[derive(Clone, Default)]
pub(super) struct Asked {
    /// The job is over, or about to be: everything is to go.
    pub(super) is_over: Arc<AtomicBool>,
    /// Nothing more is wanted.
    pub(super) is_withdrawn: Arc<AtomicBool>,
}

/// Has another process do the work, and ends with it; returns in that one.
pub(super) fn work_in_a_child() -> anyhow::Result<Asked> {
    if env::var_os(WORKER).is_some() {
        return hear();
    }
    // Asked a second time, it ends at once, and the worker with it: that is as safe as any other moment. SIGUSR1 announces the end, and does not count.
    heed_signals(&Arc::default())?;
    let mut signals = signal_hook::iterator::Signals::new(PASSED_ON).context("cannot handle signals")?;
    let (ours, theirs) = UnixStream::pair().context("cannot make a socket")?;
    let mut command = Command::new(iotide_private::own_program().context("where is this program?")?);
    command.args(iotide_private::own_arguments()).env(WORKER, "1").stdin(OwnedFd::from(theirs));
    let mut child = command.spawn().context("cannot start the process that copies")?;
    // The socket is closed here, so that its end is seen.
    drop(command);
    let mut to_child = ours.try_clone().context("cannot make a socket")?;
    thread::spawn(move || {
        for signal in signals.forever() {
            let _ = to_child.write_all(&[signal as u8]);
        }
    });
    let mut word = [0];
    if matches!((&ours).read(&mut word), Ok(1)) && word == [GIVES_UP] {
        let since = Instant::now();
        while since.elapsed() < TIME_TO_END && !matches!(child.try_wait(), Ok(Some(_))) {
            thread::sleep(Duration::from_millis(5));
        }
        exit(2)
    }
    exit(code_of(child.wait().context("cannot wait for the process that copies")?))
}

/// Says that nothing is waited for any more, to whoever waits for this process.
pub(super) fn give_up() -> ! {
    if let Ok(socket) = socket() {
        let _ = (&socket).write_all(&[GIVES_UP]);
    }
    exit(2)
}

/// Hears signals from the one that waits alone: those who signal a whole group or a terminal's would be heard twice.
fn hear() -> anyhow::Result<Asked> {
    // Whoever waits is killed, and so is this.
    set_parent_process_death_signal(Some(Signal::KILL)).context("cannot end with the process that waits")?;
    let asked = Asked::default();
    for signal in PASSED_ON {
        signal_hook::flag::register(signal, Arc::default()).context("cannot handle signals")?;
    }
    let (mut socket, heard) = (socket().context("cannot hear signals")?, asked.clone());
    thread::spawn(move || {
        let mut word = [0];
        while matches!(socket.read(&mut word), Ok(1)) {
            let flag = if i32::from(word[0]) == SIGUSR2 { &heard.is_withdrawn } else { &heard.is_over };
            flag.store(true, Relaxed);
        }
        // It ended before it could be said that this ends with it.
        exit(2);
    });
    Ok(asked)
}

fn socket() -> std::io::Result<UnixStream> {
    Ok(UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?))
}

fn code_of(status: ExitStatus) -> i32 {
    status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(2)
}
