//! A file that is made at its first use, by whichever thread comes first.

use core::sync::atomic::{
    AtomicU8,
    Ordering::{Acquire, Relaxed, Release},
};

use crate::sys;

const CLOSED: u8 = 0;
const OPENING: u8 = 1;
const OPEN: u8 = 2;
const FAILED: u8 = 3;

/// State of the file. Once it has failed, it has failed for good: from then on calls are only counted, and the program goes on.
pub struct Opening(AtomicU8);

impl Opening {
    /// Nobody has asked for it yet.
    pub const fn new() -> Self {
        Self(AtomicU8::new(CLOSED))
    }

    /// Makes it, or waits until another thread has. Returns whether it is there.
    pub fn once(&self, open: impl FnOnce() -> bool) -> bool {
        loop {
            match self.0.load(Acquire) {
                OPEN => return true,
                FAILED => return false,
                OPENING => sys::give_way(),
                _ => {
                    if self.0.compare_exchange(CLOSED, OPENING, Acquire, Relaxed).is_ok() {
                        let opened = open();
                        self.0.store(if opened { OPEN } else { FAILED }, Release);
                        return opened;
                    }
                }
            }
        }
    }

    /// Whether nobody has asked for it.
    #[inline(always)]
    pub fn is_closed(&self) -> bool {
        self.0.load(Relaxed) == CLOSED
    }

    /// Whether it is there, with all that was written to memory before.
    pub fn is_open(&self) -> bool {
        self.0.load(Acquire) == OPEN
    }

    /// It is of no use any more.
    pub fn fail(&self) {
        self.0.store(FAILED, Relaxed);
    }

    /// In a forked child: it is to be made anew.
    pub fn forget_parent(&self) {
        self.0.store(CLOSED, Relaxed);
    }
}
