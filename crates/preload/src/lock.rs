//! A lock of our own: the C library's may be the program's at the moment.

use core::sync::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

use crate::{clock, sys};

/// A lock that can be waited for with a limit, and that a forked child can make its own.
pub struct Lock(AtomicU32);

impl Lock {
    const FREE: u32 = 0;
    const TAKEN: u32 = 1;
    /// Taken, and someone sleeps.
    const WANTED: u32 = 2;

    pub const fn new() -> Self {
        Self(AtomicU32::new(Self::FREE))
    }

    /// Waits for the lock until a moment on the monotonic clock. Returns whether it is ours.
    pub fn lock_until(&self, deadline_ns: u64) -> bool {
        if self.0.compare_exchange(Self::FREE, Self::TAKEN, Acquire, Relaxed).is_ok() {
            return true;
        }
        loop {
            // Whoever slept once cannot know whether others do.
            if self.0.swap(Self::WANTED, Acquire) == Self::FREE {
                return true;
            }
            let now_ns = clock::monotonic_nanos();
            if now_ns >= deadline_ns {
                return false;
            }
            sys::wait_at(&self.0, Self::WANTED, ((deadline_ns - now_ns) / 1_000_000) as i64 + 1);
        }
    }

    /// Lets the next one in.
    pub fn unlock(&self) {
        if self.0.swap(Self::FREE, AcqRel) == Self::WANTED {
            sys::wake_one(&self.0);
        }
    }

    /// In a forked child: whoever held it is not here.
    pub fn reset(&self) {
        self.0.store(Self::FREE, Release);
    }
}
