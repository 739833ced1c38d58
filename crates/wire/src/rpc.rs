//! Messages between a controller and the daemon, in frames.
//!
//! ```text
//! connection = "iotrpc01" frame*                                 from the client; the daemon only sends frames
//! frame      = length:u32 kind:u8 flags:u8 zero:u16 id:u32 payload      length counts what follows it, at most MAX_FRAME
//! text       = length:u16 bytes                                  at most MAX_TEXT bytes of UTF-8
//! ```
//!
//! All numbers are little-endian, `f64` as IEEE 754 has it; a number that does not exist is NaN. A question has a number of the client's choice (`id`), and its answer has the
//! same. Answers come in the order of the questions of one connection, except that events come in between.

/// First bytes from a client.
pub const RPC_MAGIC: [u8; 8] = *b"iotrpc01";

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RpcHeader {
    /// Bytes of the payload.
    pub payload: usize,
    /// Kind of the message: see [`RpcKind`].
    pub kind: u8,
    /// Of an evaluation: whether intervals are wanted, or there ([`RpcHeader::INTERVALS`]).
    pub flags: u8,
    /// The client's number of the question.
    pub id: u32,
}

impl RpcHeader {
    /// Its size.
    pub const SIZE: usize = 12;
    /// The longest frame, without its length.
    pub const MAX_FRAME: usize = 1 << 20;
    /// The longest question, without its length.
    pub const MAX_QUESTION: usize = 128 << 10;
    /// The longest text.
    pub const MAX_TEXT: usize = 1024;
    /// Points in one evaluation.
    pub const MAX_POINTS: usize = 1024;
    /// Points in one evaluation with intervals, which take a thousand times as long.
    pub const MAX_POINTS_WITH_INTERVALS: usize = 16;
    /// Parameters of a model.
    pub const MAX_PARAMETERS: usize = 15;
    /// A flag: intervals beside values.
    pub const INTERVALS: u8 = 1;
    /// Bytes that a length counts beside the payload.
    const REST: usize = Self::SIZE - 4;

    /// As bytes.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        let length = (self.payload.min(Self::MAX_FRAME) + Self::REST) as u32;
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes[4] = self.kind;
        bytes[5] = self.flags;
        bytes[8..].copy_from_slice(&self.id.to_le_bytes());
        bytes
    }

    /// From bytes; `None` if no frame of at most `most` bytes begins so.
    pub fn decode(bytes: &[u8; Self::SIZE], most: usize) -> Option<Self> {
        let (length, rest) = bytes.split_first_chunk::<4>()?;
        let length = u32::from_le_bytes(*length) as usize;
        let &[kind, flags, 0, 0, a, b, c, d] = rest else { return None };
        let payload = length.checked_sub(Self::REST).filter(|_| length <= most)?;
        Some(Self { payload, kind, flags, id: u32::from_le_bytes([a, b, c, d]) })
    }
}

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RpcKind {
    /// Which model is meant: `of:u8` (0: an application, 1: a job), `text` its name or id, `text` call path (may be empty), `text` metric, `n:u8`, then n `text`:
    /// the parameters in the order in which points will have them; none: that of the answer.
    Resolve = 1,
    /// `handle:u32 n:u32`, then n points of as many `f64` as there are parameters.
    Evaluate = 2,
    /// Jobs: `text`, a query as behind `/api/1/jobs?`.
    Jobs = 3,
    /// Forecasts: `text`, a job's id, or nothing for all that run.
    Predictions = 4,
    /// Who loads the storage, now and in the next minute: nothing.
    Load = 5,
    /// Events from now on: nothing.
    Subscribe = 6,
    /// The rhythms of jobs, for those who act on them: `text`, a job's id, or nothing for all that run.
    Rhythms = 7,
    /// `handle:u32 generation:u64 runs:u32 n:u8`, then n `text`: the parameters in the order of points.
    Resolved = 0x81,
    /// `generation:u64 n:u32`, then n `f64`; with intervals, n times value, low, high.
    Values = 0x82,
    /// JSON, as `/api/1/jobs` answers it.
    JobList = 0x83,
    /// `n:u32`, then n times `text` job and six `f64`: period, next phase (since 1970), time until it begins, confidence, bytes of a phase, bytes per second in the next minute.
    Expected = 0x84,
    /// Three `f64`: bytes per second read and written now, and expected in the next minute; `jobs:u32`.
    LoadNow = 0x85,
    /// Nothing: events will come.
    Subscribed = 0x86,
    /// `n:u32`, then n times a [`RpcRhythm`].
    RhythmsNow = 0x87,
    /// `text` kind (`job`, `prediction`, `model`, `alarm`, `missed`), then JSON; the id is that of the subscription.
    Event = 0x90,
    /// `code:u16 text`: as HTTP has codes.
    Refused = 0xff,
}

impl RpcKind {
    /// Kinds of questions.
    pub const QUESTIONS: [Self; 7] = [
        Self::Resolve,
        Self::Evaluate,
        Self::Jobs,
        Self::Predictions,
        Self::Load,
        Self::Subscribe,
        Self::Rhythms,
    ];

    /// The question of a number.
    pub fn question(kind: u8) -> Option<Self> {
        Self::QUESTIONS.into_iter().find(|known| *known as u8 == kind)
    }
}

/// A question.
#[derive(Clone, Debug, PartialEq)]
pub enum RpcQuestion<'a> {
    /// See [`RpcKind::Resolve`].
    Resolve {
        /// Whether a job is named, not an application.
        is_job: bool,
        /// Its name or id.
        name: &'a str,
        /// The call path; empty if the metric is enough.
        callpath: &'a str,
        /// The metric.
        metric: &'a str,
        /// The parameters, one behind the other.
        parameters: RpcFields<'a>,
        /// How many.
        n_parameters: usize,
    },
    /// See [`RpcKind::Evaluate`].
    Evaluate {
        /// Handle that a resolution returned.
        handle: u32,
        /// How many points.
        n_points: usize,
        /// Their coordinates, as bytes.
        coordinates: &'a [u8],
    },
    /// See [`RpcKind::Jobs`].
    Jobs(&'a str),
    /// See [`RpcKind::Predictions`].
    Predictions(&'a str),
    /// See [`RpcKind::Load`].
    Load,
    /// See [`RpcKind::Subscribe`].
    Subscribe,
    /// See [`RpcKind::Rhythms`].
    Rhythms(&'a str),
}

impl<'a> RpcQuestion<'a> {
    /// From a payload; `None` if it is none of this kind.
    pub fn decode(kind: u8, payload: &'a [u8]) -> Option<Self> {
        let mut fields = RpcFields(payload);
        let question = match RpcKind::question(kind)? {
            RpcKind::Resolve => {
                let is_job = match fields.u8()? {
                    0 => false,
                    1 => true,
                    _ => return None,
                };
                let (name, callpath, metric) = (fields.text()?, fields.text()?, fields.text()?);
                let n_parameters = usize::from(fields.u8()?);
                let parameters = RpcFields(fields.0);
                for _ in 0..n_parameters {
                    fields.text()?;
                }
                if n_parameters > RpcHeader::MAX_PARAMETERS {
                    return None;
                }
                Self::Resolve { is_job, name, callpath, metric, parameters, n_parameters }
            }
            RpcKind::Evaluate => {
                let (handle, n_points) = (fields.u32()?, fields.u32()? as usize);
                let coordinates = core::mem::take(&mut fields.0);
                let is_whole = n_points <= RpcHeader::MAX_POINTS
                    && (n_points == 0 && coordinates.is_empty()
                        || n_points > 0 && coordinates.len() % (8 * n_points) == 0);
                return is_whole.then_some(Self::Evaluate { handle, n_points, coordinates });
            }
            RpcKind::Jobs => Self::Jobs(fields.text()?),
            RpcKind::Predictions => Self::Predictions(fields.text()?),
            RpcKind::Load => Self::Load,
            RpcKind::Subscribe => Self::Subscribe,
            RpcKind::Rhythms => Self::Rhythms(fields.text()?),
            _ => return None,
        };
        fields.0.is_empty().then_some(question)
    }
}

/// The rhythm of a job: `text` job, `uid:u32`, and nine `f64` in the order of the fields; NaN for what does not exist.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RpcRhythm<'a> {
    /// The job's id.
    pub job: &'a str,
    /// Whose it is.
    pub uid: u32,
    /// Time from the start of one phase to that of the next.
    pub period_s: f64,
    /// With which confidence.
    pub confidence: f64,
    /// How long ago that was found.
    pub age_s: f64,
    /// In how many seconds the next phase begins; below zero if it should have begun.
    pub start_in_s: f64,
    /// In how many seconds it begins at the earliest …
    pub earliest_in_s: f64,
    /// … and at the latest.
    pub latest_in_s: f64,
    /// How long it lasts.
    pub duration_s: f64,
    /// Bytes it moves.
    pub bytes: f64,
    /// How probable it is that a gap between two phases is idle from end to end.
    pub idle_probability: f64,
}

impl<'a> RpcRhythm<'a> {
    /// Writes it.
    pub fn put(&self, out: &mut impl Extend<u8>) {
        put_rpc_text(out, self.job);
        out.extend(self.uid.to_le_bytes());
        let figures = [
            self.period_s,
            self.confidence,
            self.age_s,
            self.start_in_s,
            self.earliest_in_s,
            self.latest_in_s,
            self.duration_s,
            self.bytes,
            self.idle_probability,
        ];
        figures.iter().for_each(|figure| out.extend(figure.to_le_bytes()));
    }

    /// The next of an answer.
    fn next(fields: &mut RpcFields<'a>) -> Option<Self> {
        Some(Self {
            job: fields.text()?,
            uid: fields.u32()?,
            period_s: fields.f64()?,
            confidence: fields.f64()?,
            age_s: fields.f64()?,
            start_in_s: fields.f64()?,
            earliest_in_s: fields.f64()?,
            latest_in_s: fields.f64()?,
            duration_s: fields.f64()?,
            bytes: fields.f64()?,
            idle_probability: fields.f64()?,
        })
    }

    /// Those of an answer ([`RpcKind::RhythmsNow`]); `None` if it is none, or cut.
    pub fn all(payload: &'a [u8]) -> Option<impl Iterator<Item = Self> + use<'a>> {
        let mut fields = RpcFields(payload);
        let n = fields.u32()?;
        let mut rest = fields;
        (0..n).try_for_each(|_| Self::next(&mut rest).map(drop))?;
        rest.0.is_empty().then(|| (0..n).map_while(move |_| Self::next(&mut fields)))
    }
}

/// Fields of a payload, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RpcFields<'a>(pub &'a [u8]);

impl<'a> RpcFields<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    /// A small number.
    pub fn u8(&mut self) -> Option<u8> {
        self.take::<1>().map(|[byte]| byte)
    }

    /// A number.
    pub fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    /// A number.
    pub fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    /// A number.
    pub fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    /// A number.
    pub fn f64(&mut self) -> Option<f64> {
        self.take().map(f64::from_le_bytes)
    }

    /// A text.
    pub fn text(&mut self) -> Option<&'a str> {
        let length = usize::from(self.u16()?);
        let (text, rest) = self.0.split_at_checked(length).filter(|_| length <= RpcHeader::MAX_TEXT)?;
        self.0 = rest;
        core::str::from_utf8(text).ok()
    }
}

/// Writes a text, cut where it is too long.
pub fn put_rpc_text(out: &mut impl Extend<u8>, text: &str) {
    let text = crate::cut_text(text, RpcHeader::MAX_TEXT);
    out.extend((text.len() as u16).to_le_bytes());
    out.extend(text.bytes());
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::String;
    use std::vec::Vec;

    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_head_is_read_back_and_one_that_is_too_long_refused() {
        let header = RpcHeader { payload: 24, kind: 2, flags: 1, id: 77 };
        assert_eq!(RpcHeader::decode(&header.encode(), RpcHeader::MAX_QUESTION), Some(header));
        let long = RpcHeader { payload: 200 << 10, ..header };
        assert_eq!(RpcHeader::decode(&long.encode(), RpcHeader::MAX_QUESTION), None);
        assert_eq!(RpcHeader::decode(&[0; 12], RpcHeader::MAX_QUESTION), None, "shorter than its own head");
        assert_eq!(RpcHeader::decode(b"GET / HTTP/1", RpcHeader::MAX_QUESTION), None);
    }

    #[test]
    fn questions_are_read_and_what_is_cut_or_longer_is_refused() {
        let mut payload = Vec::from([1]);
        for text in ["4711", "posix->write", "size"] {
            put_rpc_text(&mut payload, text);
        }
        payload.push(1);
        put_rpc_text(&mut payload, "size");
        let Some(RpcQuestion::Resolve {
            is_job: true,
            name: "4711",
            callpath: "posix->write",
            metric: "size",
            mut parameters,
            n_parameters: 1,
        }) = RpcQuestion::decode(1, &payload)
        else {
            panic!("it is whole")
        };
        assert_eq!(parameters.text(), Some("size"));
        for end in 0..payload.len() {
            assert_eq!(RpcQuestion::decode(1, &payload[..end]), None, "{end}");
        }
        payload.push(0);
        assert_eq!(RpcQuestion::decode(1, &payload), None, "something follows");
        let evaluate = |n: u32, n_values: usize| {
            let mut payload = Vec::from(7u32.to_le_bytes());
            payload.extend(n.to_le_bytes());
            payload.resize(8 + 8 * n_values, 0);
            RpcQuestion::decode(2, &payload).is_some()
        };
        assert!(evaluate(3, 6) && evaluate(0, 0) && evaluate(1024, 1024));
        assert!(!evaluate(3, 7) && !evaluate(0, 1) && !evaluate(1025, 1025) && !evaluate(u32::MAX, 2));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_question_or_none(kind in 0..10u8, bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = RpcQuestion::decode(kind, &bytes);
        }

        #[test]
        fn a_text_is_read_back(text in ".{0,600}") {
            let mut out = Vec::new();
            put_rpc_text(&mut out, &text);
            let read = String::from(RpcFields(&out).text().unwrap());
            prop_assert!(text.starts_with(&read) && (read.len() == text.len() || read.len() > 1020));
        }
    }

    #[test]
    fn rhythms_are_read_as_they_were_written_and_a_cut_answer_is_none() {
        let rhythm = |job, uid| RpcRhythm {
            job,
            uid,
            period_s: 10.0,
            confidence: 0.9,
            age_s: 0.5,
            start_in_s: -0.25,
            earliest_in_s: -1.0,
            latest_in_s: 2.0,
            duration_s: 1.0,
            bytes: 1e9,
            idle_probability: 0.75,
        };
        let all = [rhythm("4711", 1000), rhythm("\u{e9}", 0)];
        let mut payload: Vec<u8> = 2u32.to_le_bytes().into();
        all.iter().for_each(|rhythm| rhythm.put(&mut payload));
        assert!(RpcRhythm::all(&payload).unwrap().eq(all));
        assert!((0..payload.len()).all(|end| RpcRhythm::all(&payload[..end]).is_none()));
        payload.push(0);
        assert!(RpcRhythm::all(&payload).is_none());
        assert!(RpcRhythm::all(&u32::MAX.to_le_bytes()).is_none());
    }
}
