//! Messages between a program under the tracer and the arbiter of its storage.
//!
//! The program says a [`GateHello`] once, then [`GateMessage::Ask`] before it moves data, and [`GateMessage::Done`] after. The
//! arbiter answers an ask with [`GateMessage::Grant`], and until then, several times a second, with [`GateMessage::Wait`]: an arbiter
//! that is silent is gone. Over a network both say first who they are ([`GateClaim`]).

pub use self::map::{GateMap, GateRule, MAX_GATE_TARGETS};
pub use self::proof::{GateChallenge, GateClaim, GateKey, GateKeyText, GateSide, key_bytes};

mod map;
mod proof;

/// How often an arbiter at least says `Wait` to a program that waits, in milliseconds.
pub const GATE_WAIT_EVERY_MS: u64 = 200;

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GateHello {
    /// The process.
    pub process: u32,
    job: [u8; GateHello::MAX_JOB],
    job_len: u8,
}

impl GateHello {
    /// Its size.
    pub const SIZE: usize = 64;
    /// The longest name of a job; what is longer is cut.
    pub const MAX_JOB: usize = 48;
    const MAGIC: [u8; 8] = *b"iogate01";

    /// Returns the greeting of a process of `job`.
    pub fn new(process: u32, job: &[u8]) -> Self {
        let len = job.len().min(Self::MAX_JOB);
        let mut name = [0; Self::MAX_JOB];
        name[..len].copy_from_slice(&job[..len]);
        Self { process, job: name, job_len: len as u8 }
    }

    /// The job's name.
    pub fn job(&self) -> &[u8] {
        &self.job[..usize::from(self.job_len)]
    }

    /// As bytes.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..8].copy_from_slice(&Self::MAGIC);
        bytes[8..12].copy_from_slice(&self.process.to_le_bytes());
        bytes[12] = self.job_len;
        bytes[16..].copy_from_slice(&self.job);
        bytes
    }

    /// From bytes; `None` if they are something else.
    pub fn decode(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk::<8>()?;
        let (process, rest) = rest.split_first_chunk::<4>()?;
        let (job_len, job) = rest.split_first_chunk::<4>()?;
        let job = job.first_chunk::<{ Self::MAX_JOB }>()?;
        (*magic == Self::MAGIC && usize::from(job_len[0]) <= Self::MAX_JOB).then(|| Self {
            process: u32::from_le_bytes(*process),
            job: *job,
            job_len: job_len[0],
        })
    }
}

/// One thing said, either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateMessage {
    /// May I move data?
    Ask {
        /// The program's number for it.
        id: u64,
        /// How much.
        bytes: u64,
        /// Whether to storage.
        is_write: bool,
    },
    /// The granted bytes have been moved.
    Done {
        /// The number of the ask.
        id: u64,
        /// How much was moved under it.
        bytes: u64,
    },
    /// You may.
    Grant {
        /// The number of the ask.
        id: u64,
        /// How much, what was asked for included. More than that is a lease: further requests need not ask.
        bytes: u64,
        /// How long the lease is good for; 0: there is none, and `Done` is expected.
        lease_ns: u64,
    },
    /// Not yet.
    Wait,
}

impl GateMessage {
    /// Its size.
    pub const SIZE: usize = 32;

    /// As bytes.
    pub fn encode(&self) -> [u8; Self::SIZE] {
        let (kind, flag, id, a, b) = match *self {
            GateMessage::Ask { id, bytes, is_write } => (1u32, u32::from(is_write), id, bytes, 0),
            GateMessage::Done { id, bytes } => (2, 0, id, bytes, 0),
            GateMessage::Grant { id, bytes, lease_ns } => (3, 0, id, bytes, lease_ns),
            GateMessage::Wait => (4, 0, 0, 0, 0),
        };
        let mut encoded = [0; Self::SIZE];
        encoded[..4].copy_from_slice(&kind.to_le_bytes());
        encoded[4..8].copy_from_slice(&flag.to_le_bytes());
        for (to, number) in encoded[8..].chunks_exact_mut(8).zip([id, a, b]) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        encoded
    }

    /// From bytes; `None` if they say nothing.
    pub fn decode(bytes: &[u8; Self::SIZE]) -> Option<Self> {
        let word =
            |at: usize| -> Option<u32> { Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk::<4>()?)) };
        let number =
            |at: usize| -> Option<u64> { Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk::<8>()?)) };
        let (id, a, b) = (number(8)?, number(16)?, number(24)?);
        match word(0)? {
            1 => Some(GateMessage::Ask { id, bytes: a, is_write: word(4)? != 0 }),
            2 => Some(GateMessage::Done { id, bytes: a }),
            3 => Some(GateMessage::Grant { id, bytes: a, lease_ns: b }),
            4 => Some(GateMessage::Wait),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_heard() {
        for message in [
            GateMessage::Ask { id: 7, bytes: 1 << 40, is_write: true },
            GateMessage::Ask { id: 8, bytes: 0, is_write: false },
            GateMessage::Done { id: 7, bytes: 12 },
            GateMessage::Grant { id: 7, bytes: 64, lease_ns: 20_000_000 },
            GateMessage::Wait,
        ] {
            assert_eq!(GateMessage::decode(&message.encode()), Some(message));
        }
        assert_eq!(GateMessage::decode(&[0; GateMessage::SIZE]), None);
        assert_eq!(GateMessage::decode(&[0xff; GateMessage::SIZE]), None);
    }

    #[test]
    fn a_greeting_names_process_and_job() {
        let hello = GateHello::new(4711, b"1234.batch");
        let heard = GateHello::decode(&hello.encode()).unwrap();
        assert_eq!((heard.process, heard.job()), (4711, &b"1234.batch"[..]));
        let mut wrong = hello.encode();
        wrong[12] = 200;
        assert_eq!(GateHello::decode(&wrong), None);
        assert_eq!(GateHello::decode(&[0; GateHello::SIZE]), None);
        assert_eq!(GateHello::new(1, &[b'x'; 100]).job().len(), GateHello::MAX_JOB);
    }
}
