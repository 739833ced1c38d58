//! Events of our programs, one for each call, request, task and program, as bytes in the ring.

/// Where the parts of an event stand.
pub(crate) mod at {
    pub(crate) const KIND: i16 = 0;
    pub(crate) const CALL: i16 = 4;
    /// The thread (32 bits), then the process.
    pub(crate) const THREAD: i16 = 8;
    pub(crate) const START: i16 = 16;
    pub(crate) const END: i16 = 24;
    pub(crate) const RESULT: i16 = 32;
    pub(crate) const POSITION: i16 = 40;
    pub(crate) const INODE: i16 = 48;
    pub(crate) const DEVICE: i16 = 56;
    pub(crate) const FD: i16 = 60;
    pub(crate) const SECOND: i16 = 64;
    pub(crate) const FOURTH: i16 = 72;
    pub(crate) const SIXTH: i16 = 80;
}

/// Bytes of an event without a path.
pub(crate) const HEAD: usize = 88;
/// Room for a path, its last zero included.
pub(crate) const SHORT_PATH: usize = 256;
pub(crate) const LONG_PATH: usize = 4096;
/// Room for the name of a program, and for its arguments.
pub(crate) const PROGRAM: usize = 256;
pub(crate) const ARGUMENTS: usize = 1024;

pub(crate) const KIND_CALL: u32 = 1;
/// The two sides of a call that copies.
pub(crate) const KIND_READ_SIDE: u32 = 2;
pub(crate) const KIND_WRITE_SIDE: u32 = 3;
pub(crate) const KIND_TASK: u32 = 4;
pub(crate) const KIND_EXEC: u32 = 5;
pub(crate) const KIND_END: u32 = 6;

/// A thread of a process, by the kernel's own numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Thread {
    /// The thread.
    pub tid: u32,
    /// Its process.
    pub pid: u32,
}

/// A side of a call that copies from one descriptor to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Of a call with one descriptor.
    Only,
    /// Where it reads.
    Read,
    /// Where it writes.
    Write,
}

/// A call that has ended, or a request that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended<'a> {
    /// Number of the system call; those of requests begin behind.
    pub call: u32,
    /// Side, where it has two.
    pub side: Side,
    /// When it began, on the monotonic clock.
    pub start: u64,
    /// When it ended.
    pub end: u64,
    /// Its result: the error number, negative, if it failed.
    pub result: i64,
    /// Where the descriptor stood when it had ended; of a request, where it goes; of a mapping, how it is protected.
    pub position: u64,
    /// The file's inode; 0 if there is no file.
    pub inode: u64,
    /// Its device, as the kernel has it.
    pub device: u32,
    /// The descriptor.
    pub fd: i32,
    /// The second, fourth and sixth arguments. Of a call with a path, the second is the directory where it begins; of a
    /// request, when the program began to wait for it; of a call that copies, where it keeps the offset that it reads from.
    pub arguments: [u64; 3],
    /// The path that the program named.
    pub path: Option<&'a [u8]>,
}

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'a> {
    /// A call has ended.
    Ended(Ended<'a>),
    /// A thread was made, or a process.
    Made {
        /// It.
        made: Thread,
        /// When.
        at: u64,
    },
    /// A process has become another program.
    Program {
        /// The process that started it.
        parent: u32,
        /// Its user.
        user: u32,
        /// The user in whose name it acts.
        acts_as: u32,
        /// The program's path, as it was named.
        path: &'a [u8],
        /// Its arguments, each with a zero behind it.
        arguments: &'a [u8],
        /// When.
        at: u64,
    },
    /// A thread has ended.
    Gone,
}

/// An event, and of whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'a> {
    /// Who did it.
    pub thread: Thread,
    /// It.
    pub what: What<'a>,
}

impl<'a> Event<'a> {
    /// Returns what the bytes of an event say; `None` if they are none. Never more is read than there is.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (head, rest) = bytes.split_at_checked(HEAD)?;
        let u32_at = |at: i16| Some(u32::from_le_bytes(*head.get(at as usize..)?.first_chunk()?));
        let u64_at = |at: i16| Some(u64::from_le_bytes(*head.get(at as usize..)?.first_chunk()?));
        let thread = Thread { tid: u32_at(at::THREAD)?, pid: u32_at(at::THREAD + 4)? };
        let kind = u32_at(at::KIND)?;
        let what = match kind {
            KIND_CALL | KIND_READ_SIDE | KIND_WRITE_SIDE => What::Ended(Ended {
                call: u32_at(at::CALL)?,
                side: match kind {
                    KIND_READ_SIDE => Side::Read,
                    KIND_WRITE_SIDE => Side::Write,
                    _ => Side::Only,
                },
                start: u64_at(at::START)?,
                end: u64_at(at::END)?,
                result: u64_at(at::RESULT)? as i64,
                position: u64_at(at::POSITION)?,
                inode: u64_at(at::INODE)?,
                device: u32_at(at::DEVICE)?,
                fd: u32_at(at::FD)? as i32,
                arguments: [u64_at(at::SECOND)?, u64_at(at::FOURTH)?, u64_at(at::SIXTH)?],
                path: text(rest, u64_at(at::SIXTH)?),
            }),
            KIND_TASK => {
                let made = Thread { tid: u64_at(at::RESULT)? as u32, pid: u64_at(at::INODE)? as u32 };
                What::Made { made, at: u64_at(at::START)? }
            }
            KIND_EXEC => {
                let (program, arguments) = rest.split_at_checked(PROGRAM)?;
                let n = usize::try_from(u64_at(at::SECOND)?).ok()?;
                What::Program {
                    parent: u64_at(at::RESULT)? as u32,
                    user: u64_at(at::INODE)? as u32,
                    acts_as: u64_at(at::POSITION)? as u32,
                    path: text(program, u64_at(at::SIXTH)?).unwrap_or_default(),
                    arguments: arguments.get(..n)?,
                    at: u64_at(at::START)?,
                }
            }
            KIND_END => What::Gone,
            _ => return None,
        };
        Some(Self { thread, what })
    }
}

/// A text whose length, with the zero behind it, a helper of the kernel has returned; `None` if it could not be read.
fn text(bytes: &[u8], n: u64) -> Option<&[u8]> {
    let n = (n as i64).checked_sub(1).and_then(|n| usize::try_from(n).ok())?;
    bytes.get(..n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_call_with_a_path_is_read_back() {
        let mut bytes = vec![0; HEAD + SHORT_PATH];
        bytes[0] = KIND_CALL as u8;
        bytes[4..6].copy_from_slice(&257u16.to_le_bytes());
        bytes[8] = 12;
        bytes[12] = 11;
        bytes[32] = 3;
        bytes[at::SIXTH as usize] = 7;
        bytes[HEAD..HEAD + 7].copy_from_slice(b"in.dat\0");
        let event = Event::decode(&bytes).unwrap();
        assert_eq!(event.thread, Thread { tid: 12, pid: 11 });
        let What::Ended(ended) = event.what else { panic!("{event:?}") };
        assert_eq!((ended.call, ended.result, ended.path), (257, 3, Some(&b"in.dat"[..])));
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_event_or_nothing(kind in 0u8..9, bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
            let mut bytes = bytes;
            if let Some(first) = bytes.get_mut(..4) {
                first.copy_from_slice(&[kind, 0, 0, 0]);
            }
            let _ = Event::decode(&bytes);
        }
    }
}
