//! Streams and their blocks: found, checked, taken apart.

use crate::checksum::checksum;
use crate::facts::{End, Facts, LossEntries, u32_at, u64_at};
use crate::record::Record;
use crate::totals::{Note, Totals};

/// The first bytes of every stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamHeader {
    /// The version of the format; readers refuse a higher one.
    pub version: u16,
}

impl StreamHeader {
    /// First bytes of a stream. The high bit shows a transfer that strips it, the line feed one that changes line ends.
    pub const MAGIC: [u8; 8] = *b"\x89IOTIDE\n";
    /// The version this crate writes.
    pub const VERSION: u16 = 1;
    /// Bytes of the header.
    pub const SIZE: usize = 16;

    /// Returns the header as it stands at the front of a stream.
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[0..8].copy_from_slice(&Self::MAGIC);
        bytes[8..10].copy_from_slice(&self.version.to_le_bytes());
        bytes
    }

    /// Returns the header, or what is wrong with it.
    pub fn decode(bytes: &[u8]) -> Result<Self, Fault> {
        match bytes.get(..Self::SIZE) {
            Some(header) if header[..8] == Self::MAGIC => match u16::from_le_bytes([header[8], header[9]]) {
                version if version <= Self::VERSION => Ok(Self { version }),
                version => Err(Fault::Version(version)),
            },
            _ => Err(Fault::NotAStream),
        }
    }
}

/// Header of every payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    /// Kind of the payload.
    pub kind: BlockKind,
    /// Bytes of the payload.
    pub payload_len: u32,
    /// The thread it comes from; 0 where that means nothing.
    pub thread: u32,
    /// The block's number in its process, from 0. A number that is missing was lost; one that comes twice is the same block.
    pub sequence: u64,
    /// The clock when the block was sealed, in ticks.
    pub ticks: u64,
    /// The same moment on the monotonic clock.
    pub nanos: u64,
}

impl BlockHeader {
    /// First bytes of a block.
    pub const MAGIC: [u8; 4] = *b"IOTB";
    /// Bytes of the header.
    pub const SIZE: usize = 64;
    /// No payload is longer. A longer one is damage, not data.
    pub const MAX_PAYLOAD: u32 = 1 << 20;

    /// Returns the header of a block with this payload, checksum included.
    pub fn seal(&self, payload: &[u8]) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[0..4].copy_from_slice(&Self::MAGIC);
        bytes[4] = self.kind as u8;
        bytes[8..12].copy_from_slice(&self.payload_len.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.thread.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.ticks.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.nanos.to_le_bytes());
        let sum = checksum(checksum(0, &bytes[..Self::SUMMED]), payload);
        bytes[Self::SUMMED..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The header's bytes before its checksum.
    const SUMMED: usize = 56;
}

/// Kind of a payload. The codes are part of the format: add at the end, never renumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum BlockKind {
    /// [`Facts`]
    Facts = 1,
    /// [`PathEntry`]s
    Paths = 2,
    /// [`Record`]s
    Records = 3,
    /// [`LossEntries`]
    Losses = 4,
    /// [`End`]
    End = 5,
    /// [`Totals`]
    Totals = 6,
    /// [`Note`]
    Note = 7,
    /// Nothing: room that was kept for what must be written when there is no room any more.
    Reserve = 8,
    /// Metrics over time, in a file of the daemon's: their values.
    Series = 9,
    /// Metrics over time: their names.
    Columns = 10,
    /// One this version does not know; its payload is to be left alone.
    Unknown = 255,
}

impl BlockKind {
    fn from_code(code: u8) -> Self {
        match code {
            1 => Self::Facts,
            2 => Self::Paths,
            3 => Self::Records,
            4 => Self::Losses,
            5 => Self::End,
            6 => Self::Totals,
            7 => Self::Note,
            8 => Self::Reserve,
            9 => Self::Series,
            10 => Self::Columns,
            _ => Self::Unknown,
        }
    }
}

/// Fault in some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// They are no stream of the tracer.
    NotAStream,
    /// They were written by a later version.
    Version(u16),
    /// No block begins here.
    NoBlock,
    /// The block states a length no block has.
    Length(u32),
    /// The checksum disagrees.
    Checksum,
    /// The checksum agrees, yet the payload is not what the header says.
    Payload(BlockKind),
}

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Fault::NotAStream => f.write_str("not a stream of the tracer"),
            Fault::Version(version) => {
                write!(
                    f,
                    "written by version {version} of the format, and {} is known",
                    StreamHeader::VERSION
                )
            }
            Fault::NoBlock => f.write_str("no block begins here"),
            Fault::Length(length) => write!(f, "a block claims {length} bytes"),
            Fault::Checksum => f.write_str("a block's checksum disagrees"),
            Fault::Payload(kind) => write!(f, "a block of {kind:?} does not hold what it claims"),
        }
    }
}

impl core::error::Error for Fault {}

/// Meaning of the front of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// A whole block whose checksum agrees; it takes the first `used` bytes.
    Block {
        /// Its header.
        header: BlockHeader,
        /// Its payload, for [`Payload::of`].
        payload: &'a [u8],
        /// Bytes of both.
        used: usize,
    },
    /// Perhaps a block, but this many bytes are needed to tell.
    Need(usize),
    /// Damage: after `skip` bytes (at least one) another block may begin.
    Damaged {
        /// How many bytes to leave out.
        skip: usize,
        /// The fault.
        fault: Fault,
    },
}

/// Looks at the front of `bytes`, which follow a stream header or another block.
pub fn next_block(bytes: &[u8]) -> Step<'_> {
    let damaged = |fault| Step::Damaged { skip: distance_to_magic(bytes), fault };
    let n_magic = bytes.len().min(4);
    if bytes[..n_magic] != BlockHeader::MAGIC[..n_magic] {
        return damaged(Fault::NoBlock);
    }
    let Some(head) = bytes.get(..BlockHeader::SIZE) else {
        return Step::Need(BlockHeader::SIZE);
    };
    let Some(header) = decode_header(head) else { return damaged(Fault::NoBlock) };
    if header.payload_len > BlockHeader::MAX_PAYLOAD {
        return damaged(Fault::Length(header.payload_len));
    }
    let used = BlockHeader::SIZE + header.payload_len as usize;
    let Some(payload) = bytes.get(BlockHeader::SIZE..used) else {
        return Step::Need(used);
    };
    let stated = u64_at(head, BlockHeader::SUMMED);
    if stated != Some(checksum(checksum(0, &head[..BlockHeader::SUMMED]), payload)) {
        return damaged(Fault::Checksum);
    }
    Step::Block { header, payload, used }
}

/// How many bytes to leave out where [`next_block`] asks for more than there will ever be: up to the next place a block may begin.
///
/// Either the last block was cut, or a damaged length swallowed the ones behind it.
pub fn skip_torn(bytes: &[u8]) -> usize {
    distance_to_magic(bytes)
}

fn decode_header(head: &[u8]) -> Option<BlockHeader> {
    Some(BlockHeader {
        kind: BlockKind::from_code(*head.get(4)?),
        payload_len: u32_at(head, 8)?,
        thread: u32_at(head, 12)?,
        sequence: u64_at(head, 16)?,
        ticks: u64_at(head, 24)?,
        nanos: u64_at(head, 32)?,
    })
}

/// How far on from the first byte the next block may begin. A magic number cut short at the end counts.
fn distance_to_magic(bytes: &[u8]) -> usize {
    (1..bytes.len())
        .find(|&at| {
            let n = (bytes.len() - at).min(4);
            bytes[at..at + n] == BlockHeader::MAGIC[..n]
        })
        .unwrap_or(bytes.len().max(1))
}

/// A payload taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// Who was traced.
    Facts(Facts<'a>),
    /// Names of files.
    Paths(PathEntries<'a>),
    /// Calls, [`Record::SIZE`] bytes each: see [`Payload::records`].
    Records(&'a [u8]),
    /// Losses so far.
    Losses(LossEntries<'a>),
    /// The end.
    End(End),
    /// Totals that were added up beside the records.
    Totals(Totals),
    /// Something in words, if this version knows what about.
    Note(Option<Note<'a>>),
    /// Nothing.
    Reserve,
    /// Something that no stream of the tracer has, or that a later version writes.
    Unknown,
}

impl<'a> Payload<'a> {
    /// Takes the payload of a block apart.
    pub fn of(header: &BlockHeader, payload: &'a [u8]) -> Result<Self, Fault> {
        let fault = Fault::Payload(header.kind);
        match header.kind {
            BlockKind::Facts => Facts::decode(payload).map(Self::Facts).ok_or(fault),
            BlockKind::Paths => Ok(Self::Paths(PathEntries(payload))),
            BlockKind::Records if payload.len().is_multiple_of(Record::SIZE) => Ok(Self::Records(payload)),
            BlockKind::Records => Err(fault),
            BlockKind::Losses => Ok(Self::Losses(LossEntries(payload))),
            BlockKind::End => End::decode(payload).map(Self::End).ok_or(fault),
            BlockKind::Totals => Ok(Self::Totals(Totals::decode(payload))),
            BlockKind::Note => Ok(Self::Note(Note::decode(payload))),
            BlockKind::Reserve => Ok(Self::Reserve),
            BlockKind::Series | BlockKind::Columns | BlockKind::Unknown => Ok(Self::Unknown),
        }
    }

    /// The records of [`Payload::Records`]; one that this version does not understand is `None`.
    pub fn records(payload: &'a [u8]) -> impl Iterator<Item = Option<Record>> + 'a {
        payload.as_chunks().0.iter().map(Record::from_bytes)
    }
}

/// The name of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathEntry<'a> {
    /// Number of the file in records.
    pub file: u32,
    /// Its path, absolute where the tracer could tell.
    pub path: &'a [u8],
}

impl PathEntry<'_> {
    /// The longest path that is kept: Linux's own limit.
    pub const MAX_PATH: usize = 4096;

    /// Writes the entry to the front of `out` and returns how many bytes it took; `None` if `out` is too short. A longer path is
    /// cut.
    pub fn encode(&self, out: &mut [u8]) -> Option<usize> {
        let path = &self.path[..self.path.len().min(Self::MAX_PATH)];
        let entry = out.get_mut(..8 + path.len())?;
        entry[0..4].copy_from_slice(&self.file.to_le_bytes());
        entry[4..8].copy_from_slice(&(path.len() as u32).to_le_bytes());
        entry[8..].copy_from_slice(path);
        Some(8 + path.len())
    }
}

/// The names in a block, in the order they were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathEntries<'a>(pub(crate) &'a [u8]);

impl<'a> Iterator for PathEntries<'a> {
    type Item = PathEntry<'a>;

    /// Returns the next name. An entry that claims more bytes than are left ends the block.
    fn next(&mut self) -> Option<PathEntry<'a>> {
        let (head, rest) = self.0.split_at_checked(8)?;
        let (path, rest) = rest.split_at_checked(u32_at(head, 4)? as usize)?;
        self.0 = rest;
        Some(PathEntry { file: u32_at(head, 0)?, path })
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::record::{Flags, Layer, NO_POSITION, Op};
    use proptest::prelude::*;
    use std::vec::Vec;

    fn record(start: u64) -> Record {
        Record {
            start,
            duration: 10,
            bytes: 4096,
            position: NO_POSITION,
            file: 1,
            calls: 1,
            call: crate::Call::of(Op::Write),
            flags: Flags::of(Layer::Posix),
        }
    }

    fn block_of(sequence: u64, records: &[Record]) -> Vec<u8> {
        let payload: Vec<u8> = records.iter().flat_map(Record::to_bytes).collect();
        let header = BlockHeader {
            kind: BlockKind::Records,
            payload_len: payload.len() as u32,
            thread: 5,
            sequence,
            ticks: 100,
            nanos: 200,
        };
        let mut block = header.seal(&payload).to_vec();
        block.extend(payload);
        block
    }

    /// Reads what can be read, the way every reader should: numbers of whole blocks, and bytes left out.
    fn read(mut bytes: &[u8]) -> (Vec<u64>, usize) {
        let (mut sequences, mut n_skipped) = (Vec::new(), 0);
        while !bytes.is_empty() {
            let used = match next_block(bytes) {
                Step::Block { header, payload, used } => {
                    assert!(Payload::of(&header, payload).is_ok());
                    sequences.push(header.sequence);
                    used
                }
                Step::Need(_) => {
                    let skip = skip_torn(bytes);
                    n_skipped += skip;
                    skip
                }
                Step::Damaged { skip, .. } => {
                    n_skipped += skip;
                    skip
                }
            };
            bytes = &bytes[used..];
        }
        (sequences, n_skipped)
    }

    #[test]
    fn a_block_cut_short_asks_for_its_rest() {
        let block = block_of(0, &[record(1), record(2)]);
        for n in 0..block.len() {
            let Step::Need(needed) = next_block(&block[..n]) else { panic!("{n} bytes") };
            assert!(needed > n && needed <= block.len());
        }
    }

    proptest! {
        #[test]
        fn damage_to_one_block_leaves_the_others_readable(at in 0..144usize, bit in 0..8u8) {
            let blocks: Vec<_> = (0..3).map(|n| block_of(n, &[record(n), record(n)])).collect();
            prop_assert_eq!(blocks[1].len(), 144);
            let mut bytes = blocks.concat();
            bytes[144 + at] ^= 1 << bit;
            let (sequences, n_skipped) = read(&bytes);
            prop_assert_eq!(sequences, [0, 2]);
            prop_assert_eq!(n_skipped, 144);
        }

        #[test]
        fn any_bytes_come_to_an_end(bytes in prop::collection::vec(prop_oneof![Just(b'I'), Just(b'O'), Just(b'T'), Just(b'B'), any::<u8>()], 0..500)) {
            let (sequences, n_skipped) = read(&bytes);
            prop_assert!(sequences.is_empty());
            prop_assert_eq!(n_skipped, bytes.len());
            PathEntries(&bytes).for_each(drop);
        }

        #[test]
        fn records_survive_a_round_trip(starts in prop::collection::vec(any::<u64>(), 0..100)) {
            let records: Vec<_> = starts.iter().map(|&start| record(start)).collect();
            let block = block_of(9, &records);
            let Step::Block { header, payload, used } = next_block(&block) else { panic!() };
            prop_assert_eq!(used, block.len());
            let Ok(Payload::Records(payload)) = Payload::of(&header, payload) else { panic!() };
            let read: Option<Vec<_>> = Payload::records(payload).collect();
            prop_assert_eq!(read, Some(records));
        }
    }

    #[test]
    fn a_block_claiming_a_gigabyte_is_damage() {
        let mut block = block_of(0, &[record(1)]);
        block[8..12].copy_from_slice(&(1u32 << 30).to_le_bytes());
        assert!(matches!(next_block(&block), Step::Damaged { fault: Fault::Length(_), .. }));
    }

    #[test]
    fn a_later_version_is_refused_and_so_is_anything_else() {
        let mut header = StreamHeader { version: 1 }.to_bytes();
        assert_eq!(StreamHeader::decode(&header), Ok(StreamHeader { version: 1 }));
        header[8] = 2;
        assert_eq!(StreamHeader::decode(&header), Err(Fault::Version(2)));
        assert_eq!(StreamHeader::decode(b"hello, world; hello"), Err(Fault::NotAStream));
        assert_eq!(StreamHeader::decode(b""), Err(Fault::NotAStream));
    }

    #[test]
    fn names_survive_a_round_trip_and_a_false_length_ends_them() {
        let mut out = [0; 64];
        let a = PathEntry { file: 1, path: b"/scratch/a" }.encode(&mut out).unwrap();
        let b = PathEntry { file: 2, path: b"" }.encode(&mut out[a..]).unwrap();
        let read =
            |bytes: &[u8]| PathEntries(bytes).map(|entry| (entry.file, entry.path.len())).collect::<Vec<_>>();
        assert_eq!(read(&out[..a + b]), [(1, 10), (2, 0)]);
        out[4] = 200;
        assert_eq!(read(&out[..a + b]), []);
    }
}
