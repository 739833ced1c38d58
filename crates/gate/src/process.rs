//! Signals, threads and descriptors of a program that serves others.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The signals that ask a program for its end: SIGINT, SIGTERM and SIGHUP.
#[derive(Clone, Copy, Debug)]
pub struct Signals(nix::sys::signal::SigSet);

impl Signals {
    /// Keeps them from ending this process where it stands; threads started from now on as well. `None` if that cannot be done.
    pub fn block() -> Option<Self> {
        use nix::sys::signal::{SigSet, Signal};
        let mut signals = SigSet::empty();
        for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
            signals.add(signal);
        }
        signals.thread_block().ok().map(|()| Self(signals))
    }

    /// Waits for one of them. Returns whether one came.
    pub fn wait(&self) -> bool {
        self.0.wait().is_ok()
    }
}

/// A thread that goes on until this is dropped, and has ended then.
#[derive(Debug)]
pub(crate) struct Background {
    running: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    /// Starts one. What it waits at is hung up when it is to end: it has at most to finish what it is doing.
    pub(crate) fn start(name: &str, work: impl FnOnce(&Receiver<()>) + Send + 'static) -> io::Result<Self> {
        let (running, until_dropped) = channel();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || work(&until_dropped))?;
        Ok(Self { running: Some(running), thread: Some(thread) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.running.take());
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Allows this process as many descriptors as the system does, and returns how many.
pub fn raise_open_files() -> usize {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
    let current = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20);
    usize::try_from(current).unwrap_or(usize::MAX).min(1 << 18)
}
