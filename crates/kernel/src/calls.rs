//! The system calls that are recorded: their numbers, how our programs treat them, and what they are in a record.

use iotide_wire::{Call, Op};

/// How a program looks at a call when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Class {
    /// Its first argument is a descriptor.
    File = 1,
    /// It closes the descriptor.
    Close = 2,
    /// It opens the path that is its first argument.
    Open = 3,
    /// It opens the path that is its second argument, in the directory that is the first.
    OpenAt = 4,
    /// It is about the path that is its first argument.
    Path = 5,
    /// It is about the path that is its second argument, in the directory that is the first.
    PathAt = 6,
    /// It copies from its second descriptor to its first.
    Send = 7,
    /// It copies from its first descriptor to its third.
    Copy = 8,
    /// Its fifth argument is a descriptor.
    Map = 9,
    /// It hands requests over.
    Submit = 10,
    /// It takes back what became of requests.
    Completed = 11,
    /// It is known for what follows from it.
    Bare = 12,
}

/// Numbers of calls end here.
pub(crate) const N_CALLS: usize = 512;
/// Added to a class: the same number moves data in programs of 32 bits, where it is another call.
pub(crate) const FOREIGN: u8 = 0x80;
/// The calls of a program of 32 bits that move data: read, write, pread64, pwrite64, readv, writev, preadv, pwritev, preadv2, pwritev2,
/// sendfile, sendfile64, splice, copy_file_range, io_submit, io_uring_enter.
const FOREIGN_CALLS: [usize; 16] =
    [3, 4, 180, 181, 145, 146, 333, 334, 378, 379, 187, 239, 313, 377, 248, 426];

/// Where the requests of an `io_uring` are numbered from, among calls; by their opcodes.
pub(crate) const URING: u32 = 1000;
/// Where the requests of libaio are numbered from; by their opcodes.
pub(crate) const LIBAIO: u32 = 2000;

/// Where a call takes place in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Where the descriptor stood.
    Stood,
    /// Where its fourth argument says; −1 is where the descriptor stood.
    Fourth,
    /// Where its sixth argument says.
    Sixth,
    /// At the number it returned.
    Result,
    /// Nowhere.
    None,
}

/// A call that is recorded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) number: u32,
    pub(crate) class: Class,
    pub(crate) call: Call,
    pub(crate) place: Place,
}

macro_rules! known {
    ($($number:literal $class:ident $name:literal $op:ident $place:ident,)*) => {
        /// All calls that are recorded, by their numbers on x86-64; but those whose requests are.
        pub(crate) const KNOWN: &[Known] = &[$(Known {
            number: $number,
            class: Class::$class,
            call: Call::of_symbol($name, Op::$op),
            place: Place::$place,
        }),*];
    };
}

known! {
    0 File "read" Read Stood,
    1 File "write" Write Stood,
    19 File "readv" Read Stood,
    20 File "writev" Write Stood,
    17 File "pread64" Read Fourth,
    18 File "pwrite64" Write Fourth,
    295 File "preadv" Read Fourth,
    296 File "pwritev" Write Fourth,
    327 File "preadv2" Read Fourth,
    328 File "pwritev2" Write Fourth,
    40 Send "sendfile" Read Stood,
    326 Copy "copy_file_range" Read Stood,
    275 Copy "splice" Read Stood,
    2 Open "open" Open None,
    85 Open "creat" Open None,
    257 OpenAt "openat" Open None,
    437 OpenAt "openat" Open None,
    3 Close "close" Close None,
    8 File "lseek" Seek Result,
    74 File "fsync" Sync None,
    75 File "fdatasync" Sync None,
    277 File "sync_file_range" Sync None,
    77 File "ftruncate" Resize None,
    285 File "fallocate" Resize None,
    76 Path "truncate" Resize None,
    82 Path "rename" Rename None,
    264 PathAt "renameat" Rename None,
    316 PathAt "renameat2" Rename None,
    87 Path "unlink" Unlink None,
    263 PathAt "unlinkat" Unlink None,
    83 Path "mkdir" Directory None,
    258 PathAt "mkdirat" Directory None,
    84 Path "rmdir" Directory None,
    4 Path "stat" Stat None,
    6 Path "lstat" Stat None,
    5 File "fstat" Stat None,
    262 PathAt "fstatat" Stat None,
    332 PathAt "statx" Stat None,
    9 Map "mmap" Map Sixth,
}

/// Calls that leave no record, and how programs treat them.
const SILENT: [(u32, Class); 5] = [
    (IO_SUBMIT, Class::Submit),
    (208, Class::Completed), // io_getevents
    (333, Class::Completed), // io_pgetevents
    (CHDIR, Class::Path),
    (FCHDIR, Class::Bare),
];
const IO_SUBMIT: u32 = 209;
pub(crate) const CHDIR: u32 = 80;
pub(crate) const FCHDIR: u32 = 81;

/// The class of each number, for the programs.
pub(crate) fn classes() -> [u8; N_CALLS] {
    let mut classes = [0; N_CALLS];
    for (number, class) in KNOWN.iter().map(|known| (known.number, known.class)).chain(SILENT) {
        classes[number as usize] = class as u8;
    }
    for number in FOREIGN_CALLS {
        classes[number] |= FOREIGN;
    }
    classes
}

/// Operation of a request of an `io_uring`, by its opcode; `None` for those that are not recorded. There is no function of the C library for
/// them, so the records name none.
pub(crate) fn of_uring(opcode: u32) -> Option<Call> {
    Some(Call::of(match opcode {
        1 | 4 | 22 | 49 | 60 => Op::Read,
        2 | 5 | 23 | 61 => Op::Write,
        3 | 8 => Op::Sync,
        17 => Op::Resize,
        _ => return None,
    }))
}

/// Operation of a request of libaio, by its opcode.
pub(crate) fn of_libaio(opcode: u32) -> Option<Call> {
    Some(match opcode {
        0 | 7 => const { Call::of_symbol("io_submit", Op::Read) },
        1 | 8 => const { Call::of_symbol("io_submit", Op::Write) },
        2 | 3 => Call::of(Op::Sync),
        _ => return None,
    })
}

/// The other side of a call that copies: what it writes.
pub(crate) fn written_by(call: Call) -> Call {
    const SIDES: [(Call, Call); 3] = [
        (Call::of_symbol("sendfile", Op::Read), Call::of_symbol("sendfile", Op::Write)),
        (Call::of_symbol("copy_file_range", Op::Read), Call::of_symbol("copy_file_range", Op::Write)),
        (Call::of_symbol("splice", Op::Read), Call::of_symbol("splice", Op::Write)),
    ];
    SIDES.iter().find(|(read, _)| *read == call).map_or(call, |(_, write)| *write)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_call_has_its_class_and_those_of_other_programs_are_marked() {
        let classes = classes();
        assert_eq!(classes[18], Class::File as u8);
        assert_eq!(classes[0], Class::File as u8);
        // 3 is `close` here, and `read` in a program of 32 bits.
        assert_eq!(classes[3], Class::Close as u8 | FOREIGN);
        assert_eq!(classes[110], 0);
        assert_eq!(KNOWN.iter().filter(|known| known.number == 1).count(), 1);
    }
}
