//! Facts in a stream about its process, its losses and its end.

use crate::clock::ClockKind;

/// Who was traced. A stream may state its facts again as more becomes known (the rank after `MPI_Init`); the last word counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts<'a> {
    /// The rank in `MPI_COMM_WORLD` or the launcher's environment; `None` outside a parallel program.
    pub rank: Option<u32>,
    /// How many ranks there are.
    pub n_ranks: Option<u32>,
    /// The process.
    pub pid: u32,
    /// The process that started it.
    pub parent_pid: u32,
    /// Its user.
    pub uid: u32,
    /// How many records a thread's buffer holds: what a killed process can have lost per thread.
    pub buffer_records: u32,
    /// Offset to add to the monotonic clock to get nanoseconds since the Unix epoch: hosts share no other clock.
    pub realtime_offset_ns: i64,
    /// When tracing began, on the monotonic clock.
    pub start_ns: u64,
    /// Unit of the ticks of records.
    pub clock: ClockKind,
    /// The host's name.
    pub host: &'a [u8],
    /// The scheduler's name for the job; empty if there is none.
    pub job_id: &'a [u8],
    /// The program's path.
    pub exe: &'a [u8],
    /// The MPI library's own description of itself; empty without MPI.
    pub mpi: &'a [u8],
    /// Name of the run from `iotide record`, for programs outside any scheduler's job; empty without it.
    pub run: &'a [u8],
    /// The command line as the system has it: each argument ends with a zero byte.
    pub command: &'a [u8],
}

/// The tag of a text among the facts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Text {
    /// [`Facts::host`]
    Host = 1,
    /// [`Facts::job_id`]
    JobId = 2,
    /// [`Facts::exe`]
    Exe = 3,
    /// [`Facts::mpi`]
    Mpi = 4,
    /// [`Facts::run`]
    Run = 5,
    /// [`Facts::command`]
    Command = 6,
}

impl<'a> Facts<'a> {
    const FIXED: usize = 48;
    /// The longest text that is kept; more is cut.
    pub const MAX_TEXT: usize = 1024;
    /// The most bytes facts can take.
    pub const MAX_SIZE: usize = Self::FIXED + 6 * (4 + Self::MAX_TEXT);

    /// Writes the facts to the front of `out` and returns how many bytes they took; `None` if `out` is too short.
    pub fn encode(&self, out: &mut [u8]) -> Option<usize> {
        let fixed = out.get_mut(..Self::FIXED)?;
        fixed.fill(0);
        fixed[0..4].copy_from_slice(&self.rank.unwrap_or(u32::MAX).to_le_bytes());
        fixed[4..8].copy_from_slice(&self.n_ranks.unwrap_or(u32::MAX).to_le_bytes());
        fixed[8..12].copy_from_slice(&self.pid.to_le_bytes());
        fixed[12..16].copy_from_slice(&self.parent_pid.to_le_bytes());
        fixed[16..20].copy_from_slice(&self.uid.to_le_bytes());
        fixed[20..24].copy_from_slice(&self.buffer_records.to_le_bytes());
        fixed[24..32].copy_from_slice(&self.realtime_offset_ns.to_le_bytes());
        fixed[32..40].copy_from_slice(&self.start_ns.to_le_bytes());
        fixed[40] = self.clock as u8;
        let mut at = Self::FIXED;
        for (tag, text) in [
            (Text::Host, self.host),
            (Text::JobId, self.job_id),
            (Text::Exe, self.exe),
            (Text::Mpi, self.mpi),
            (Text::Run, self.run),
            (Text::Command, self.command),
        ] {
            let text = &text[..text.len().min(Self::MAX_TEXT)];
            let entry = out.get_mut(at..at + 4 + text.len())?;
            entry[0] = tag as u8;
            entry[1] = 0;
            entry[2..4].copy_from_slice(&(text.len() as u16).to_le_bytes());
            entry[4..].copy_from_slice(text);
            at += 4 + text.len();
        }
        Some(at)
    }

    /// Returns the facts, or `None` if the bytes are too few. Texts with unknown tags are skipped: a later version may have them.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (fixed, mut rest) = bytes.split_at_checked(Self::FIXED)?;
        let known = |value: u32| (value != u32::MAX).then_some(value);
        let mut facts = Self {
            rank: known(u32_at(fixed, 0)?),
            n_ranks: known(u32_at(fixed, 4)?),
            pid: u32_at(fixed, 8)?,
            parent_pid: u32_at(fixed, 12)?,
            uid: u32_at(fixed, 16)?,
            buffer_records: u32_at(fixed, 20)?,
            realtime_offset_ns: u64_at(fixed, 24)? as i64,
            start_ns: u64_at(fixed, 32)?,
            clock: ClockKind::from_code(fixed[40])?,
            host: &[],
            job_id: &[],
            exe: &[],
            mpi: &[],
            run: &[],
            command: &[],
        };
        while !rest.is_empty() {
            let (head, tail) = rest.split_at_checked(4)?;
            let (text, tail) = tail.split_at_checked(usize::from(u16::from_le_bytes([head[2], head[3]])))?;
            match head[0] {
                tag if tag == Text::Host as u8 => facts.host = text,
                tag if tag == Text::JobId as u8 => facts.job_id = text,
                tag if tag == Text::Exe as u8 => facts.exe = text,
                tag if tag == Text::Mpi as u8 => facts.mpi = text,
                tag if tag == Text::Run as u8 => facts.run = text,
                tag if tag == Text::Command as u8 => facts.command = text,
                _ => {}
            }
            rest = tail;
        }
        Some(facts)
    }
}

/// Why records are missing. The codes are part of the format: add at the end, never renumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum LossKind {
    /// Calls of a signal handler that interrupted the tracer itself.
    InSignal = 1,
    /// Calls of a thread whose full buffer another thread was just writing out.
    BufferBusy = 2,
    /// Records that could not be written: disk full, quota, directory gone.
    NotWritten = 3,
    /// Calls on descriptors beyond the table (65536 and more).
    HighDescriptor = 4,
    /// Files without a name, because the table of names was full.
    TooManyFiles = 5,
    /// Non-blocking requests not followed, because too many were under way.
    TooManyRequests = 6,
    /// Calls of threads for which no buffer could be had.
    NoMemory = 7,
    /// Calls that moved bytes through descriptors that neither the kernel nor the tracer knows.
    UnknownDescriptor = 8,
    /// Calls for which the ring of the kernel's tracer had no room.
    RingFull = 9,
    /// Calls that moved data, by programs of 32 bits, which the kernel's tracer counts and does not follow.
    Foreign = 10,
    /// Requests of libaio in batches too long for the kernel's tracer.
    LongBatch = 11,
}

impl LossKind {
    /// How many kinds there are.
    pub const COUNT: usize = 11;

    /// All kinds, in the order of their codes.
    pub const ALL: [LossKind; Self::COUNT] = [
        Self::InSignal,
        Self::BufferBusy,
        Self::NotWritten,
        Self::HighDescriptor,
        Self::TooManyFiles,
        Self::TooManyRequests,
        Self::NoMemory,
        Self::UnknownDescriptor,
        Self::RingFull,
        Self::Foreign,
        Self::LongBatch,
    ];

    /// The kind as a phrase that follows a number of calls.
    pub fn what(self) -> &'static str {
        match self {
            Self::InSignal => "calls made by signal handlers that interrupted the tracer",
            Self::BufferBusy => "calls made while the thread's full buffer was being written out",
            Self::NotWritten => "records that could not be written to the trace directory",
            Self::HighDescriptor => "calls on file descriptors above 65535",
            Self::TooManyFiles => "files without a name because the table of names was full",
            Self::TooManyRequests => "non-blocking requests not followed because too many were under way",
            Self::NoMemory => "calls of threads for which no buffer could be had",
            Self::UnknownDescriptor => {
                "calls on file descriptors of an intercepting library that were opened unseen"
            }
            Self::RingFull => "events for which the kernel's ring had no room",
            Self::Foreign => "calls of 32-bit programs that moved data",
            Self::LongBatch => "libaio requests in batches of more than 528",
        }
    }
}

/// The loss counters of a block: (kind, how many so far).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LossEntries<'a>(pub(crate) &'a [u8]);

impl LossEntries<'_> {
    /// Bytes of one entry.
    pub const ENTRY_SIZE: usize = 16;

    /// Returns an entry as it stands in a block.
    pub fn encode(kind: LossKind, count: u64) -> [u8; 16] {
        let mut entry = [0; 16];
        entry[0..4].copy_from_slice(&(kind as u32).to_le_bytes());
        entry[8..16].copy_from_slice(&count.to_le_bytes());
        entry
    }

    /// The counters; a kind that this version does not know is `None`.
    pub fn iter(&self) -> impl Iterator<Item = (Option<LossKind>, u64)> + '_ {
        self.0.chunks_exact(Self::ENTRY_SIZE).filter_map(|entry| {
            let code = u32_at(entry, 0)?;
            Some((LossKind::ALL.into_iter().find(|kind| *kind as u32 == code), u64_at(entry, 8)?))
        })
    }
}

/// The last block of a process that could say good-bye. Blocks after it are calls made even later, with a new end mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// How it ended.
    pub reason: EndReason,
    /// How many records the process put into blocks, here or on a connection.
    pub n_records: u64,
    /// Offset to add to the monotonic clock to get Unix time, as it was at the end: shows how far the clocks were set meanwhile.
    pub realtime_offset_ns: i64,
}

/// How a process ended, as far as the tracer could see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EndReason {
    /// `exit`, `_exit`, or a return from `main`.
    Exit = 0,
    /// It became another program; that one has a stream of its own.
    Exec = 1,
    /// `abort`.
    Abort = 2,
}

impl End {
    /// Bytes of an end mark.
    pub const SIZE: usize = 24;

    /// Returns the mark as it stands in a block.
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[0] = self.reason as u8;
        bytes[8..16].copy_from_slice(&self.n_records.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.realtime_offset_ns.to_le_bytes());
        bytes
    }

    /// Returns the mark, or `None` if the bytes are none. An unknown reason counts as [`EndReason::Exit`].
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let reason = match *bytes.first()? {
            1 => EndReason::Exec,
            2 => EndReason::Abort,
            _ => EndReason::Exit,
        };
        Some(Self { reason, n_records: u64_at(bytes, 8)?, realtime_offset_ns: u64_at(bytes, 16)? as i64 })
    }
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn facts<'a>(host: &'a [u8], exe: &'a [u8]) -> Facts<'a> {
        Facts {
            rank: Some(3),
            n_ranks: None,
            pid: 77,
            parent_pid: 1,
            uid: 1000,
            buffer_records: 1600,
            realtime_offset_ns: -5,
            start_ns: 9,
            clock: ClockKind::CycleCounter,
            host,
            job_id: b"",
            exe,
            mpi: b"MPICH 4",
            run: b"ioskel.77",
            command: exe,
        }
    }

    proptest! {
        #[test]
        fn facts_survive_a_round_trip(host in prop::collection::vec(any::<u8>(), 0..1024), exe in prop::collection::vec(any::<u8>(), 0..1024)) {
            let mut out = [0; Facts::MAX_SIZE];
            let facts = facts(&host, &exe);
            let n = facts.encode(&mut out).unwrap();
            prop_assert_eq!(Facts::decode(&out[..n]), Some(facts));
        }

        #[test]
        fn any_bytes_are_facts_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Facts::decode(&bytes);
            let _ = End::decode(&bytes);
            let _ = LossEntries(&bytes).iter().count();
        }
    }

    #[test]
    fn a_text_that_is_too_long_is_cut_rather_than_refused() {
        let long = [b'x'; 5000];
        let mut out = [0; Facts::MAX_SIZE];
        let n = facts(&long, &long).encode(&mut out).unwrap();
        assert_eq!(Facts::decode(&out[..n]).unwrap().host.len(), Facts::MAX_TEXT);
    }
}
