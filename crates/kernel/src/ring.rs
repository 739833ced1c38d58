//! The ring through which the kernel hands events over, in the order in which they were begun.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Acquire, Release};

use crate::bpf::Shared;

/// Our end of a ring.
pub(crate) struct Ring {
    /// How far we have read.
    read: Shared,
    /// How far the kernel has written, and behind that page the data, twice in a row: what goes over the end can be read in one piece.
    written: Shared,
    size: usize,
}

const PAGE: usize = 4096;
const BUSY: u32 = 1 << 31;
const DISCARDED: u32 = 1 << 30;
const HEAD: usize = 8;

impl Ring {
    /// Opens a ring of `size` bytes.
    pub(crate) fn open(map: &OwnedFd, size: usize) -> io::Result<Self> {
        let read = Shared::map(map, PAGE, 0, true)?;
        Ok(Self { read, written: Shared::map(map, PAGE + 2 * size, PAGE, false)?, size })
    }

    /// Hands over what is there. Returns how many events that were.
    pub(crate) fn drain(&self, mut take: impl FnMut(&[u8])) -> usize {
        let mut position = self.read.counter().load(Acquire);
        let mut n = 0;
        while position < self.written.counter().load(Acquire) {
            let at = PAGE + (position as usize & (self.size - 1));
            let Some(head) = self.written.word(at).map(|head| head.load(Acquire)) else { break };
            if head & BUSY != 0 {
                break;
            }
            let len = (head & !(BUSY | DISCARDED)) as usize;
            let Some(event) = self.written.bytes(at + HEAD, len) else { break };
            if head & DISCARDED == 0 {
                take(event);
                n += 1;
            }
            position += (HEAD + len).next_multiple_of(8) as u64;
            self.read.counter().store(position, Release);
        }
        n
    }
}
