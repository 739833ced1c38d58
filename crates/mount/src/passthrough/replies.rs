//! Answers to the kernel: what it asked for, or why not.

use fuser::{
    ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLock,
    ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr,
};
use rustix::io::{Errno, Result};

/// A reply that can say why not.
pub(super) trait Refuse: Sized {
    fn refuse(self, error: Errno);
}

macro_rules! refuse {
    ($($reply:ty),*) => {
        $(impl Refuse for $reply {
            fn refuse(self, error: Errno) {
                self.error(fuser::Errno::from_i32(error.raw_os_error()));
            }
        })*
    };
}

refuse!(
    ReplyAttr,
    ReplyCreate,
    ReplyData,
    ReplyDirectory,
    ReplyDirectoryPlus,
    ReplyEmpty,
    ReplyEntry,
    ReplyLock,
    ReplyLseek,
    ReplyOpen,
    ReplyStatfs,
    ReplyWrite,
    ReplyXattr
);

/// Gives what came out, or says why nothing did.
pub(super) fn answer<R: Refuse, T>(reply: R, outcome: Result<T>, give: impl FnOnce(R, T)) {
    match outcome {
        Ok(value) => give(reply, value),
        Err(error) => reply.refuse(error),
    }
}

/// Says that it is done, or why not.
pub(super) fn done(reply: ReplyEmpty, outcome: Result<()>) {
    answer(reply, outcome, |reply, ()| reply.ok());
}

/// Gives an extended attribute: the kernel asks twice, for the size with room for nothing, then for the value.
pub(super) fn attribute(reply: ReplyXattr, outcome: Result<usize>, value: &[u8]) {
    answer(reply, outcome, |reply, size| match value {
        [] => reply.size(size as u32),
        value => reply.data(&value[..size]),
    });
}
