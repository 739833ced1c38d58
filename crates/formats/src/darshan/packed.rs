//! Records of a region, however many: a few are kept, and many are unpacked again whenever they are wanted.

use std::ops::{ControlFlow, Range};

use super::bytes::{Cursor, Endian};
use super::source::Source;
use super::streams::{self, Compression, Feed, Part};

/// A region of a log that is known to unpack to so many bytes.
#[derive(Clone, Debug)]
pub(super) struct PackedRegion {
    pub(super) source: Source,
    pub(super) range: Range<u64>,
    pub(super) compression: Compression,
    pub(super) endian: Endian,
    /// How many bytes were found to be right when the log was opened.
    pub(super) good_bytes: u64,
}

impl PackedRegion {
    /// Hands on the records that `take` finds at the front of what it is given, one after the other.
    pub(super) fn for_each<B>(
        &self,
        mut take: impl FnMut(&mut Cursor) -> Option<ControlFlow<B>>,
    ) -> ControlFlow<B> {
        let mut left = self.good_bytes;
        let mut carry = Carry::default();
        let mut flow = ControlFlow::Continue(());
        let mut region = self.source.region(self.range.clone());
        streams::for_each_part(self.compression, &mut *region, |part| {
            let Part::Bytes(piece) = part else { return ControlFlow::Continue(()) };
            let n = usize::try_from(left).map_or(piece.len(), |left| left.min(piece.len()));
            left -= n as u64;
            let stopped = carry.feed(&piece[..n], self.endian, |cursor| match take(cursor)? {
                ControlFlow::Continue(()) => Some(ControlFlow::Continue(())),
                ControlFlow::Break(why) => {
                    flow = ControlFlow::Break(why);
                    Some(ControlFlow::Break(()))
                }
            });
            if left == 0 { ControlFlow::Break(()) } else { stopped }
        });
        flow
    }
}

/// Puts records together that lie across the borders of pieces.
#[derive(Clone, Debug, Default)]
pub(super) struct Carry {
    bytes: Vec<u8>,
    /// A record claims to be longer than anything that is kept: nothing behind it is read.
    is_lost: bool,
    n_lost: u64,
}

impl Carry {
    /// The longest record that is waited for.
    const LONGEST: usize = 16 << 20;

    /// Calls `take` until it finds no whole record.
    pub(super) fn feed(
        &mut self,
        piece: &[u8],
        endian: Endian,
        mut take: impl FnMut(&mut Cursor) -> Option<ControlFlow<()>>,
    ) -> ControlFlow<()> {
        if self.is_lost {
            self.n_lost += piece.len() as u64;
            return ControlFlow::Continue(());
        }
        let carried = !self.bytes.is_empty();
        if carried {
            self.bytes.extend_from_slice(piece);
        }
        let mut cursor = Cursor::new(if carried { &self.bytes } else { piece }, endian);
        let mut flow = ControlFlow::Continue(());
        while flow.is_continue() {
            let mut ahead = cursor;
            let Some(taken) = take(&mut ahead) else { break };
            cursor = ahead;
            flow = taken;
        }
        let n_left = cursor.rest().len();
        if carried {
            self.bytes.drain(..self.bytes.len() - n_left);
        } else {
            self.bytes.extend_from_slice(&piece[piece.len() - n_left..]);
        }
        if self.bytes.len() > Self::LONGEST {
            (self.is_lost, self.n_lost) = (true, self.bytes.len() as u64);
            self.bytes = Vec::new();
        }
        flow
    }

    /// How many bytes at the end were no whole record.
    pub(super) fn left(&self) -> u64 {
        self.bytes.len() as u64 + self.n_lost
    }
}

/// Takes a record from the front of the bytes, or nothing if it is not whole.
pub(super) type Take<T> = fn(&mut Cursor) -> Option<T>;

/// The records of a module, a few in memory or many in the log.
#[derive(Clone, Debug)]
pub struct Records<T> {
    rows: Rows<T>,
    len: u64,
}

#[derive(Clone, Debug)]
enum Rows<T> {
    Kept(Vec<T>),
    Packed(PackedRegion, Take<T>),
}

impl<T> Records<T> {
    /// How many there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Calls `each` with one record after the other, until it breaks.
    pub fn for_each<B>(&self, mut each: impl FnMut(&T) -> ControlFlow<B>) -> ControlFlow<B> {
        match &self.rows {
            Rows::Kept(records) => records.iter().try_for_each(each),
            Rows::Packed(region, take) => region.for_each(|cursor| Some(each(&take(cursor)?))),
        }
    }

    /// Those of a region that was unpacked; returns how many bytes at the end were no whole record as well.
    pub(super) fn of_bytes(bytes: &[u8], endian: Endian, take: Take<T>) -> (Self, u64) {
        let mut carry = Carry::default();
        let mut records = Vec::new();
        let _ = carry.feed(bytes, endian, |cursor| {
            records.push(take(cursor)?);
            Some(ControlFlow::Continue(()))
        });
        (Self::from(records), carry.left())
    }

    /// Those of a region that was counted.
    pub(super) fn of_region(region: PackedRegion, take: Take<T>, len: u64) -> Self {
        Self { rows: Rows::Packed(region, take), len }
    }
}

impl<T> From<Vec<T>> for Records<T> {
    fn from(records: Vec<T>) -> Self {
        Self { len: records.len() as u64, rows: Rows::Kept(records) }
    }
}

/// Counts the records of a region.
#[derive(Clone, Debug)]
pub(super) struct Count<T> {
    pub(super) carry: Carry,
    pub(super) len: u64,
    endian: Endian,
    take: Take<T>,
}

impl<T> Count<T> {
    pub(super) fn new(endian: Endian, take: Take<T>) -> Self {
        Self { carry: Carry::default(), len: 0, endian, take }
    }
}

impl<T: Clone> Feed for Count<T> {
    fn feed(&mut self, piece: &[u8]) {
        let Self { carry, len, endian, take } = self;
        let _ = carry.feed(piece, *endian, |cursor| {
            take(cursor)?;
            *len += 1;
            Some(ControlFlow::Continue(()))
        });
    }
}
