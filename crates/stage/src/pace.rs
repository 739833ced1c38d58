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
    /// How many these will be in the end, as far as that is known.
    expected_bytes: Option<u64>,
    /// When something last moved, asked to, or was answered.
    last: Instant,
    /// How many batches are on their way.
    n_begun: u32,
}

const SOON: Duration = Duration::from_millis(200);
/// Longest time of one move, unless it is as little as [`MIN_PIECE`].
pub(crate) const LONGEST: Duration = Duration::from_millis(50);
pub(crate) const MIN_PIECE: usize = 256 << 10;

/// While this is held, answers are expected.
pub(crate) struct Begun<'a> {
    pace: &'a Pace,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.pace.state().n_begun -= 1;
    }
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
            expected_bytes: None,
            last: now,
            n_begun: 0,
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

    /// So many bytes are to move from now on, written and read back counted apart.
    pub(crate) fn expect(&self, n_bytes: u64) {
        let mut state = self.state();
        state.expected_bytes = Some(state.moved_bytes.saturating_add(n_bytes));
    }

    /// How many bytes were let through, and how many it will have been in the end; `None` while that is not known.
    pub fn progress(&self) -> Option<(u64, u64)> {
        let state = self.state();
        state.expected_bytes.map(|expected| (state.moved_bytes.min(expected), expected))
    }

    /// For how long those who move data have waited for an answer; `None` if nobody does.
    pub fn unanswered_for(&self) -> Option<Duration> {
        let state = self.state();
        (state.n_begun > 0).then(|| state.last.elapsed())
    }

    /// Something was answered.
    pub(crate) fn is_answered(&self) {
        self.state().last = Instant::now();
    }

    /// Goes on with work that moves nothing and waits for nobody, unless it was stopped.
    pub(crate) fn go_on(&self) -> Result<(), Stopped> {
        let mut state = self.state();
        state.last = Instant::now();
        if state.is_stopped { Err(Stopped) } else { Ok(()) }
    }

    /// From now on answers are expected, until this is dropped.
    pub(crate) fn begin(&self) -> Begun<'_> {
        let mut state = self.state();
        state.n_begun += 1;
        state.last = Instant::now();
        Begun { pace: self }
    }

    /// How much to move at a time, at most `max`: what takes no longer than the job may have to wait for it.
    pub(crate) fn piece(&self, max: usize) -> usize {
        let n = (self.state().rate_bps * LONGEST.as_secs_f64()) as usize;
        // A whole number of the least, as direct reads and writes begin at multiples of a page.
        (n / MIN_PIECE * MIN_PIECE).max(MIN_PIECE).min(max)
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
            // Looked at again soon: who waits here is not waiting for an answer.
            let due = if state.is_held { SOON } else { (state.next - now).min(SOON) };
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
    fn who_waits_for_leave_does_not_wait_for_an_answer() {
        let pace = Pace::free();
        assert_eq!(pace.unanswered_for(), None);
        let begun = pace.begin();
        std::thread::sleep(Duration::from_millis(5));
        assert!(pace.unanswered_for() >= Some(Duration::from_millis(5)));
        pace.set_rate(0.0);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| pace.wait(7));
            while pace.unanswered_for() >= Some(Duration::from_millis(5)) {
                std::thread::yield_now();
            }
            pace.stop();
            waiting.join().unwrap().unwrap_err();
        });
        drop(begun);
        assert_eq!(pace.unanswered_for(), None);
    }

    #[test]
    fn how_far_it_is_is_known_once_it_is_known_how_much_there_is() {
        let pace = Pace::free();
        pace.wait(5).unwrap();
        assert_eq!(pace.progress(), None);
        pace.expect(10);
        assert_eq!(pace.progress(), Some((5, 15)));
        // What was read back beyond the end of a small file is not too much.
        pace.wait(11).unwrap();
        assert_eq!(pace.progress(), Some((15, 15)));
    }

    #[test]
    fn the_slower_the_less_moves_at_a_time() {
        let pace = Pace::free();
        assert_eq!(pace.piece(4 << 20), 4 << 20);
        for (rate_bps, n) in [(1e3, MIN_PIECE), (20e6, 3 * MIN_PIECE), (1e9, 4 << 20)] {
            pace.set_rate(rate_bps);
            assert_eq!(pace.piece(4 << 20), n, "{rate_bps}");
        }
        // A small file has no more.
        assert_eq!(pace.piece(4096), 4096);
        // While nothing moves, what was the rate before still is.
        pace.set_rate(0.0);
        assert_eq!(pace.piece(4 << 20), 4 << 20);
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
