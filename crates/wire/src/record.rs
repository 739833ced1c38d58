//! One I/O call.

use crate::call::Call;

/// The `file` of a record that belongs to no file we know by name.
pub const NO_FILE: u32 = 0;

/// The `position` of a record that states none: it goes to the end of the file, or where the process stands in it.
pub const NO_POSITION: u64 = u64::MAX;

/// One call, or several alike of a C stream that followed each other closely.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Record {
    /// When it began, in ticks of the stream's clock.
    pub start: u64,
    /// How long it took, in ticks. For a non-blocking request: until its completion was seen.
    pub duration: u64,
    /// Bytes moved; what the call returned, not what was asked. The error number if [`Flags::FAILED`].
    pub bytes: u64,
    /// Where in the file, or [`NO_POSITION`]. For a non-blocking request ([`Flags::ASYNC`]): ticks from `start` until the program
    /// began to wait for it, or until it was seen complete if nobody ever waited; where it went then stands in a record of its own
    /// ([`Op::Place`]).
    pub position: u64,
    /// The file, as a path entry of the same stream names it, or [`NO_FILE`].
    pub file: u32,
    /// How many calls this is: 1, or more where small stream calls were joined.
    pub calls: u16,
    /// Which function was called.
    pub call: Call,
    /// By which layer, and how.
    pub flags: Flags,
}

impl Record {
    /// Bytes of a record in a block.
    pub const SIZE: usize = 40;

    /// Returns its operation.
    #[inline(always)]
    pub const fn op(&self) -> Op {
        self.call.op()
    }

    /// Returns the record as it stands in a block.
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[0..8].copy_from_slice(&self.start.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.duration.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.bytes.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.position.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.file.to_le_bytes());
        bytes[36..38].copy_from_slice(&self.calls.to_le_bytes());
        bytes[38] = self.call.code();
        bytes[39] = self.flags.0;
        bytes
    }

    /// Returns the record, or `None` if it names an operation or a layer this version does not know.
    pub fn from_bytes(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        let flags = Flags(bytes[39]);
        flags.layer()?;
        Some(Self {
            start: u64_at(bytes, 0),
            duration: u64_at(bytes, 8),
            bytes: u64_at(bytes, 16),
            position: u64_at(bytes, 24),
            file: u32::from_le_bytes([bytes[32], bytes[33], bytes[34], bytes[35]]),
            calls: u16::from_le_bytes([bytes[36], bytes[37]]),
            call: Call::from_code(bytes[38])?,
            flags,
        })
    }
}

fn u64_at(bytes: &[u8; Record::SIZE], at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

/// Operation of a call. The codes are part of the format: add at the end, never renumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    /// Moved bytes from a file.
    Read = 1,
    /// Moved bytes to a file.
    Write = 2,
    /// Opened or created a file.
    Open = 3,
    /// Closed a file.
    Close = 4,
    /// Moved a file position; `position` is the new one.
    Seek = 5,
    /// Asked for attributes.
    Stat = 6,
    /// Forced data to storage.
    Sync = 7,
    /// Gave a file another name; `file` is the old one.
    Rename = 8,
    /// Removed a name.
    Unlink = 9,
    /// Mapped a file into memory; `bytes` is the length of the mapping. What is read or written through it is not seen.
    Map = 10,
    /// Changed a file's length, or reserved space.
    Resize = 11,
    /// Made or removed a directory.
    Directory = 12,
    /// Handed a stream's buffer to the system.
    Flush = 13,
    /// Set an MPI file view.
    View = 14,
    /// No call, but where a non-blocking request of `bytes` bytes goes: read or written, by the flag [`Flags::PLACED`] of this record.
    Place = 15,
}

impl Op {
    /// All operations, in the order of their codes.
    pub const ALL: [Op; 15] = [
        Op::Read,
        Op::Write,
        Op::Open,
        Op::Close,
        Op::Seek,
        Op::Stat,
        Op::Sync,
        Op::Rename,
        Op::Unlink,
        Op::Map,
        Op::Resize,
        Op::Directory,
        Op::Flush,
        Op::View,
        Op::Place,
    ];

    /// The operation of that code.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.get(usize::from(code).checked_sub(1)?).copied()
    }
}

/// The software layer whose call it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Layer {
    /// System calls.
    Posix = 0,
    /// C streams.
    Stdio = 1,
    /// MPI-IO.
    MpiIo = 2,
}

/// The layer of a call (lowest two bits) and how it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// Made on behalf of a call of a higher layer that is recorded too: the same bytes again.
    pub const NESTED: u8 = 1 << 2;
    /// It failed, and `bytes` is the error number.
    pub const FAILED: u8 = 1 << 3;
    /// Collective: all ranks of the file took part.
    pub const COLLECTIVE: u8 = 1 << 4;
    /// Non-blocking, or split into begin and end.
    pub const ASYNC: u8 = 1 << 5;
    /// `bytes` is what was asked for: the number moved could not be learned.
    pub const ASKED: u8 = 1 << 6;
    /// Of a non-blocking request: a record of [`Op::Place`] says where it goes. Of that record: it was a write.
    pub const PLACED: u8 = 1 << 7;

    /// Returns the flags of an ordinary call of `layer`.
    pub const fn of(layer: Layer) -> Self {
        Self(layer as u8)
    }

    /// Returns these flags and `bits`.
    pub const fn with(self, bits: u8) -> Self {
        Self(self.0 | bits)
    }

    /// Whether all of `bits` are set.
    pub const fn has(self, bits: u8) -> bool {
        self.0 & bits == bits
    }

    /// The layer, or `None` for the one code that is none.
    pub const fn layer(self) -> Option<Layer> {
        match self.0 & 0b11 {
            0 => Some(Layer::Posix),
            1 => Some(Layer::Stdio),
            2 => Some(Layer::MpiIo),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bytes_are_a_record_or_nothing_and_a_record_is_its_bytes(bytes in prop::array::uniform32(any::<u8>()), rest in prop::array::uniform8(any::<u8>())) {
            let mut all = [0; Record::SIZE];
            all[..32].copy_from_slice(&bytes);
            all[32..].copy_from_slice(&rest);
            all[38] %= 64; // make known calls likely
            match Record::from_bytes(&all) {
                Some(record) => prop_assert_eq!(record.to_bytes(), all),
                None => prop_assert!(!(1..=15).contains(&all[38]) && all[38] < 32 || all[39] & 3 == 3),
            }
        }
    }

    #[test]
    fn every_operation_is_found_by_its_code() {
        for op in Op::ALL {
            assert_eq!(Op::from_code(op as u8), Some(op));
        }
        assert_eq!(Op::from_code(0), None);
        assert_eq!(Op::from_code(255), None);
    }

    #[test]
    fn a_record_takes_forty_bytes_and_in_memory_too() {
        assert_eq!(size_of::<Record>(), Record::SIZE);
    }
}
