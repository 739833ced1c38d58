//! When the next bytes may move.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Shared by all who move data: whether they may now, and how fast.
#[derive(Debug)]
pub struct Pace {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    is_held: bool,
    is_stopped: bool,
    /// Bytes a second; infinite without a limit.
    rate_bps: f64,
    /// When the bytes that were let through are due to be over.
    next: Instant,
    moved_bytes: u64,
    /// When something last moved, or asked to.
    last: Instant,
}

/// Nothing more is to be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stopped;

impl Pace {
    /// As fast as it goes.
    pub fn free() -> Self {
        let now = Instant::now();
        let state = State {
            is_held: false,
            is_stopped: false,
            rate_bps: f64::INFINITY,
            next: now,
            moved_bytes: 0,
            last: now,
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Lets bytes through at `rate_bps`, or none at all for 0.
    pub fn set_rate(&self, rate_bps: f64) {
        let mut state = self.state();
        state.is_held = rate_bps <= 0.0;
        if rate_bps > 0.0 {
            state.rate_bps = rate_bps;
        }
        self.changed.notify_all();
    }

    /// Lets nothing through any more: whoever waits gives up.
    pub fn stop(&self) {
        self.state().is_stopped = true;
        self.changed.notify_all();
    }

    /// Whether it was stopped.
    pub fn is_stopped(&self) -> bool {
        self.state().is_stopped
    }

    /// Bytes that were let through so far.
    pub fn moved_bytes(&self) -> u64 {
        self.state().moved_bytes
    }

    /// For how long nobody has been let through, nor waited to be.
    pub fn silent_for(&self) -> Duration {
        self.state().last.elapsed()
    }

    /// Waits until `n` bytes may move.
    pub(crate) fn wait(&self, n: u64) -> Result<(), Stopped> {
        let mut state = self.state();
        loop {
            if state.is_stopped {
                return Err(Stopped);
            }
            let now = Instant::now();
            state.last = now;
            if !state.is_held && state.next <= now {
                let takes_s = n as f64 / state.rate_bps;
                state.next = now + Duration::try_from_secs_f64(takes_s).unwrap_or(Duration::from_secs(3600));
                state.moved_bytes += n;
                return Ok(());
            }
            let due = if state.is_held { Duration::from_millis(500) } else { state.next - now };
            state = match self.changed.wait_timeout(state, due) {
                Ok((state, _)) => state,
                Err(broken) => broken.into_inner().0,
            };
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|broken| broken.into_inner())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_moves_while_held_and_whoever_waits_is_let_go_when_stopped() {
        let pace = Pace::free();
        pace.wait(5).unwrap();
        pace.set_rate(0.0);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| pace.wait(7));
            pace.stop();
            assert_eq!(waiting.join().unwrap(), Err(Stopped));
        });
        assert_eq!(pace.moved_bytes(), 5);
    }

    #[test]
    fn a_rate_is_kept() {
        let pace = Pace::free();
        pace.set_rate(1e6);
        let began = Instant::now();
        for _ in 0..5 {
            pace.wait(10_000).unwrap();
        }
        // The first went at once, each other after the one before.
        assert!(began.elapsed() >= Duration::from_millis(40));
    }
}
