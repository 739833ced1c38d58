//! Frames that daemons of a tree send each other, as bytes.
//!
//! A frame is a length (`u32`, little endian, at most [`MOST_FRAME`]), a kind (`u8`) and a body of numbers ([`put_varint`]) and texts (length, then
//! bytes). Frames of an unknown kind are skipped, and so is what a body has beyond what is known: a later version may say more.
//!
//! Rows are sent whole the first time on a connection and as differences to the last one after that. They are cumulative all the same: whoever
//! misses a connection's frames misses nothing, because the next connection begins with whole ones.

use std::sync::Arc;

use iotide_wire::{put_varint, take_varint, unzigzag, zigzag};

use super::asking::{AnswerPart, Ask, PartKind, Question, Wanted};
use super::outlook::Outlook;
use crate::about::About;
use crate::counters::{Cell, Counters};
use crate::identity::{JobId, JobKey, Name, Trust};
use crate::metric::Metric;
use fields::{Put, Take};

/// The longest body of a frame.
pub const MOST_FRAME: usize = 64 << 10;
/// The longest text in a frame.
pub(super) const MOST_TEXT: usize = 16 << 10;
/// Versions of the protocol that are spoken here.
pub const VERSIONS: (u32, u32) = (1, 2);
/// From this version on, parents take versions of rows that they have missed.
pub(super) const TAKES_MISSED: u32 = 2;
/// How many daemons one above the other there may be.
pub const MOST_LEVELS: usize = 5;
/// Rows of one connection at once.
pub const MOST_ROWS: u32 = 1 << 20;
/// Metrics of one connection.
pub const MOST_METRICS: u32 = 1 << 16;

/// Message of a daemon of a tree to another.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame<'a> {
    /// The child's first.
    Hello(Hello),
    /// The parent's answer.
    Welcome(Welcome),
    /// Who is above the parent has changed: the parent first, the root last.
    Path(Vec<Place>),
    /// State of a node: the child itself, or one below it.
    Node(NodeNews),
    /// A number for a metric, on this connection.
    Metric {
        /// The number; they are given in order.
        number: u32,
        /// The metric.
        metric: Metric,
    },
    /// A number for a row, on this connection; or something new about its job.
    Open {
        /// The number.
        number: u32,
        /// Which row it is, and of what.
        row: Arc<Opened>,
    },
    /// A row has these counts now.
    Row(RowFrame<'a>),
    /// The parent has this final row for good.
    Ack {
        /// Its number.
        number: u32,
        /// Its sequence number.
        seq: u64,
    },
    /// The parent has a later version of this row: the child counts on from there.
    Behind {
        /// Its number.
        number: u32,
        /// The later sequence number.
        seq: u64,
    },
    /// A number is free again: its row is final and acknowledged.
    Close {
        /// The number.
        number: u32,
    },
    /// The child asks what time it is.
    Ping {
        /// The child's clock.
        at_ns: u64,
    },
    /// The parent's answer.
    Pong {
        /// The time in the ping, on the child's clock.
        at_ns: u64,
        /// The parent's clock.
        now_ns: u64,
    },
    /// The connection ends, for this reason.
    Bye(Name),
    /// Somebody above asks about the child, or a node below it.
    Ask(Ask),
    /// A part of the answer.
    Answer(AnswerPart<'a>),
    /// A row had these counts at a time when the parent was not heard. It has others now, which were sent before.
    Missed(MissedFrame<'a>),
    /// The I/O that the node of a row expects of its job.
    Outlook {
        /// The row's number.
        number: u32,
        /// Its last evaluation.
        outlook: Outlook,
    },
}

/// A daemon of the tree: its name, and what tells it from another one of that name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The name of its machine.
    pub node: Name,
    /// Chosen by chance when its store was made.
    pub instance: u64,
}

/// A child introduces itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The versions it speaks, from … to.
    pub versions: (u32, u32),
    /// Who it is.
    pub place: Place,
    /// That it knows the key, or who it is by another's word.
    pub proof: Vec<u8>,
}

/// A parent takes a child in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Welcome {
    /// The version that is spoken.
    pub version: u32,
    /// The parent, and who is above it; the root last.
    pub path: Vec<Place>,
    /// That it knows the key, too.
    pub proof: Vec<u8>,
}

/// State of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeNews {
    /// Its name.
    pub node: Name,
    /// Its parent's name.
    pub parent: Name,
    /// Its version of iotide.
    pub version: Name,
    /// How far its clock is ahead of its parent's, in nanoseconds.
    pub skew_ns: i64,
    /// How long a question to its parent and the answer take, in nanoseconds; 0 as long as it is not known.
    pub round_trip_ns: u64,
    /// Jobs that run on it.
    pub jobs: u64,
    /// Processes that are counted on it.
    pub processes: u64,
    /// Bytes read by all jobs since its daemon was started.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Number of refusals on it.
    pub losses: u64,
    /// How long ago it was last heard of, in nanoseconds.
    pub silent_ns: u64,
}

/// A row when its number is given, and what its node knows of the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The node that counts.
    pub node: Name,
    /// The boot of it.
    pub epoch: u64,
    /// The job, as that node knows it.
    pub key: JobKey,
    /// Facts about it.
    pub about: About,
    /// Whether only this node knows this id, so that the same one on another node is another job.
    pub is_local: bool,
    /// The lowest rank there, plus one; 0 if there are none.
    pub rank: u32,
    /// How many ranks the job has in all, if that is known; else 0.
    pub n_ranks: u32,
}

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub struct RowFrame<'a> {
    /// Its number.
    pub number: u32,
    /// Grows with every version of it.
    pub seq: u64,
    /// When it was read, on its node's clock; when its last process ended, once there is none.
    pub at_ns: u64,
    /// Whether no more will come.
    pub is_final: bool,
    /// How many processes count there now.
    pub n_running: u32,
    /// Values that have changed.
    pub changes: Changes<'a>,
}

/// An earlier version of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct MissedFrame<'a> {
    /// The row's number.
    pub number: u32,
    /// That of the version.
    pub seq: u64,
    /// That of the version which it follows: none that is between them will come.
    pub after: u64,
    /// When it was read, on its node's clock.
    pub at_ns: u64,
    /// Values that had grown since the version before: all of each value, not the difference.
    pub values: Changes<'a>,
}

/// Values of cells, as they are sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Values(Box<[u8]>);

impl Values {
    pub(super) fn of(cells: impl IntoIterator<Item = (u32, Cell)>) -> Self {
        let mut bytes = Vec::new();
        for (slot, added) in cells {
            put_change(&mut bytes, Change { slot, metric: None, added });
        }
        Self(bytes.into_boxed_slice())
    }

    pub(super) fn changes(&self) -> Changes<'_> {
        Changes(&self.0)
    }

    pub(super) fn n_bytes(&self) -> usize {
        self.0.len()
    }
}

/// Cells of a row that have changed since the last frame of it on this connection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Changes<'a>(&'a [u8]);

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which cell of the row: they are numbered in the order in which they first came.
    pub slot: u32,
    /// The metric, of a cell that comes for the first time.
    pub metric: Option<u32>,
    /// Difference to the last values, wrapping around.
    pub added: Cell,
}

impl Iterator for Changes<'_> {
    type Item = Result<Change, FrameError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let change = take_change(&mut self.0);
        if change.is_err() {
            self.0 = &[];
        }
        Some(change)
    }
}

/// Why bytes are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The length is beyond all limits.
    #[error("a frame of {0} bytes is longer than any")]
    TooLong(u32),
    /// The body ends too early, or has something that cannot be there.
    #[error("the body of a frame of kind {0} is damaged")]
    Damaged(u8),
}

mod kind {
    pub const HELLO: u8 = 1;
    pub const WELCOME: u8 = 2;
    pub const PATH: u8 = 3;
    pub const NODE: u8 = 4;
    pub const METRIC: u8 = 5;
    pub const OPEN: u8 = 6;
    pub const ROW: u8 = 7;
    pub const ACK: u8 = 8;
    pub const BEHIND: u8 = 9;
    pub const CLOSE: u8 = 10;
    pub const PING: u8 = 11;
    pub const PONG: u8 = 12;
    pub const BYE: u8 = 13;
    // Daemons that are older skip what follows.
    pub const ASK: u8 = 14;
    pub const ANSWER: u8 = 15;
    pub const MISSED: u8 = 16;
    pub const OUTLOOK: u8 = 17;
}

mod wanted {
    pub const NAMES: u8 = 0;
    pub const ALL: u8 = 1;
    pub const METRIC: u8 = 2;
    pub const UNKNOWN: u8 = u8::MAX;
}

/// A whole frame that nobody has read yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whole<'a> {
    /// Its kind.
    pub kind: u8,
    /// Its body.
    pub body: &'a [u8],
    /// How many bytes it took, with its length.
    pub n_bytes: usize,
}

/// Splits the first frame off. `None` if it is not whole yet.
pub fn split(bytes: &[u8]) -> Result<Option<Whole<'_>>, FrameError> {
    let Some((head, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*head);
    if length == 0 || length as usize > MOST_FRAME {
        return Err(FrameError::TooLong(length));
    }
    let Some(frame) = rest.get(..length as usize) else { return Ok(None) };
    Ok(frame.split_first().map(|(&kind, body)| Whole { kind, body, n_bytes: 4 + frame.len() }))
}

impl<'a> Frame<'a> {
    /// Reads a body; `None` if its kind is not known.
    pub fn read(kind: u8, body: &'a [u8]) -> Result<Option<Self>, FrameError> {
        let mut bytes = Take(body);
        match bytes.frame(kind) {
            None => Err(FrameError::Damaged(kind)),
            Some(frame) => Ok(frame),
        }
    }

    /// Appends the frame.
    pub fn write(&self, out: &mut Vec<u8>) {
        let begin = out.len();
        out.extend([0; 4]);
        let mut put = Put(out);
        match self {
            Self::Hello(Hello { versions, place, proof }) => {
                put.byte(kind::HELLO).number(versions.0).number(versions.1).place(place).bytes(proof);
            }
            Self::Welcome(Welcome { version, path, proof }) => {
                put.byte(kind::WELCOME).number(*version).path(path).bytes(proof);
            }
            Self::Path(path) => {
                put.byte(kind::PATH).path(path);
            }
            Self::Node(news) => {
                put.byte(kind::NODE).node(news);
            }
            Self::Metric { number, metric } => {
                put.byte(kind::METRIC).number(*number).metric(metric);
            }
            Self::Open { number, row } => {
                put.byte(kind::OPEN).number(*number).opened(row);
            }
            Self::Row(row) => {
                put.byte(kind::ROW).row_head(row);
                put.0.extend_from_slice(row.changes.0);
            }
            Self::Ack { number, seq } => {
                put.byte(kind::ACK).number(*number).number(*seq);
            }
            Self::Behind { number, seq } => {
                put.byte(kind::BEHIND).number(*number).number(*seq);
            }
            Self::Close { number } => {
                put.byte(kind::CLOSE).number(*number);
            }
            Self::Ping { at_ns } => {
                put.byte(kind::PING).number(*at_ns);
            }
            Self::Pong { at_ns, now_ns } => {
                put.byte(kind::PONG).number(*at_ns).number(*now_ns);
            }
            Self::Bye(why) => {
                put.byte(kind::BYE).text(why.as_str());
            }
            Self::Ask(ask) => {
                put.byte(kind::ASK).ask(ask);
            }
            Self::Answer(AnswerPart { id, number, kind: part, bytes }) => {
                put.byte(kind::ANSWER).number(*id).number(*number).byte(part.code()).bytes(bytes);
            }
            Self::Missed(MissedFrame { number, seq, after, at_ns, values }) => {
                put.byte(kind::MISSED).number(*number).number(*seq);
                put.number(seq.saturating_sub(*after)).number(*at_ns);
                put.0.extend_from_slice(values.0);
            }
            Self::Outlook { number, outlook } => {
                put.byte(kind::OUTLOOK).number(*number).outlook(outlook);
            }
        }
        close(out, begin);
    }
}

/// Appends a row with its changes.
pub fn write_row(out: &mut Vec<u8>, head: &RowFrame<'_>, changes: impl Iterator<Item = Change>) {
    let begin = out.len();
    out.extend([0; 4]);
    Put(out).byte(kind::ROW).row_head(head);
    changes.for_each(|change| put_change(out, change));
    close(out, begin);
}

fn put_change(out: &mut Vec<u8>, Change { slot, metric, added }: Change) {
    let mut put = Put(out);
    put.number(u64::from(slot) << 1 | u64::from(metric.is_some()));
    if let Some(metric) = metric {
        put.number(metric);
    }
    put.signed(added.calls).signed(added.bytes).signed(added.ns);
}

/// Writes the length of a frame that begins there.
fn close(out: &mut [u8], begin: usize) {
    let length = out.len() - begin - 4;
    // Texts are cut, and 1,024 metrics of a job take 38 bytes each at most.
    debug_assert!(length <= MOST_FRAME);
    if let Some(head) = out[begin..].first_chunk_mut::<4>() {
        *head = (length as u32).to_le_bytes();
    }
}

fn take_change(bytes: &mut &[u8]) -> Result<Change, FrameError> {
    let mut take = || take_varint(bytes).ok_or(FrameError::Damaged(kind::ROW));
    let flag = take()?;
    let small = |value: u64| u32::try_from(value).map_err(|_| FrameError::Damaged(kind::ROW));
    let metric = if flag & 1 == 1 { Some(small(take()?)?) } else { None };
    let mut value = || take().map(|value| unzigzag(value) as u64);
    let added = Cell { calls: value()?, bytes: value()?, ns: value()? };
    Ok(Change { slot: small(flag >> 1)?, metric, added })
}

/// Encodes the counts of a row, to be kept.
pub fn write_counters(counters: &Counters) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut put = Put(&mut bytes);
    for (metric, cell) in counters.iter() {
        put.metric(metric).number(cell.calls).number(cell.bytes).number(cell.ns);
    }
    bytes
}

/// The reverse of [`write_counters`]; `None` if the bytes are damaged.
pub fn read_counters(bytes: &[u8]) -> Option<Counters> {
    let mut take = Take(bytes);
    let mut counters = Counters::default();
    while !take.0.is_empty() {
        let metric = take.metric()?;
        counters.add(metric, Cell { calls: take.number()?, bytes: take.number()?, ns: take.number()? });
    }
    Some(counters)
}

mod fields;
#[cfg(test)]
mod tests;
