//! Sums of a process beside its records, and its notes in words.

use crate::facts::{u32_at, u64_at};

/// A sum over the life of a process. The codes are part of the format: add at the end, never renumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Total {
    /// Bytes that the kernel says the process read by calls, since tracing began.
    KernelRead = 1,
    /// Bytes that the kernel says the process wrote by calls, without those of the tracer itself.
    KernelWritten = 2,
    /// Of those read, the bytes that passed the tracer's hooks, recorded or left out.
    SeenRead = 3,
    /// Of those written, the bytes that passed the tracer's hooks, recorded or left out.
    SeenWritten = 4,
    /// Calls that moved data and were left out because of their path.
    ExcludedCalls = 5,
    /// Bytes of those calls.
    ExcludedBytes = 6,
    /// Times a file was mapped into memory, shared and writable.
    Mappings = 7,
    /// Bytes of those mappings.
    MappedBytes = 8,
    /// Times an `io_uring` was set up.
    Rings = 9,
    /// Nanoseconds spent in the tracer's own work, estimated from a sample of the calls.
    HookNanos = 10,
    /// Nanoseconds spent writing blocks.
    FlushNanos = 11,
    /// Times the socket of the gate's arbiter was there and could not be used for want of permission.
    GateDenied = 12,
    /// Times the gate's arbiter could not be reached, or went silent.
    GateUnreached = 13,
    /// Requests that should have waited for the arbiter's leave and went on without.
    GateSkipped = 14,
    /// Nanoseconds that requests waited for the arbiter's leave.
    GateNanos = 15,
}

impl Total {
    /// How many there are.
    pub const COUNT: usize = 15;
    /// All of them, in the order of their codes.
    pub const ALL: [Total; Self::COUNT] = [
        Self::KernelRead,
        Self::KernelWritten,
        Self::SeenRead,
        Self::SeenWritten,
        Self::ExcludedCalls,
        Self::ExcludedBytes,
        Self::Mappings,
        Self::MappedBytes,
        Self::Rings,
        Self::HookNanos,
        Self::FlushNanos,
        Self::GateDenied,
        Self::GateUnreached,
        Self::GateSkipped,
        Self::GateNanos,
    ];
}

/// The sums of a process; the last block of them counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals([u64; Total::COUNT]);

impl Totals {
    /// Bytes of all entries.
    pub const SIZE: usize = Total::COUNT * 16;

    /// The value of a sum.
    pub fn get(&self, total: Total) -> u64 {
        self.0[total as usize - 1]
    }

    /// Sets a sum.
    pub fn set(&mut self, total: Total, value: u64) {
        self.0[total as usize - 1] = value;
    }

    /// Takes over what is larger in other sums of the same process: they only grow, and blocks need not stand in their order.
    pub fn raise(&mut self, other: &Totals) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = theirs.max(*mine);
        }
    }

    /// Adds another process's sums.
    pub fn add(&mut self, other: &Totals) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine = mine.saturating_add(theirs);
        }
    }

    /// Returns the sums as they stand in a block.
    pub fn to_bytes(&self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        for ((entry, total), value) in bytes.as_chunks_mut::<16>().0.iter_mut().zip(Total::ALL).zip(self.0) {
            entry[0..4].copy_from_slice(&(total as u32).to_le_bytes());
            entry[8..16].copy_from_slice(&value.to_le_bytes());
        }
        bytes
    }

    /// Returns the sums of a block. Those this version does not know are left out.
    pub fn decode(bytes: &[u8]) -> Self {
        let mut totals = Self::default();
        for entry in bytes.chunks_exact(16) {
            let code = u32_at(entry, 0);
            if let Some(total) = Total::ALL.into_iter().find(|total| code == Some(*total as u32)) {
                totals.set(total, u64_at(entry, 8).unwrap_or(0));
            }
        }
        totals
    }
}

/// Subject of a note. The codes are part of the format: add at the end, never renumber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NoteKind {
    /// A program that was started and is linked statically.
    StaticChild = 1,
    /// A program that was started and gets rights of its own, so that the loader leaves the tracer out.
    PrivilegedChild = 2,
    /// A program that was started with an environment into which the tracer could not be put back.
    UnpreparedChild = 3,
}

/// A few words about something that was not traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note<'a> {
    /// Subject of the note.
    pub kind: NoteKind,
    /// The name of it.
    pub text: &'a [u8],
}

impl Note<'_> {
    /// The longest text that is kept; more is cut.
    pub const MAX_TEXT: usize = 1024;
    /// The most bytes a note can take.
    pub const MAX_SIZE: usize = 4 + Self::MAX_TEXT;

    /// Writes the note to the front of `out` and returns how many bytes it took.
    pub fn encode(&self, out: &mut [u8; Note::MAX_SIZE]) -> usize {
        let text = &self.text[..self.text.len().min(Self::MAX_TEXT)];
        out[0] = self.kind as u8;
        out[1..4].fill(0);
        out[4..4 + text.len()].copy_from_slice(text);
        4 + text.len()
    }
}

impl<'a> Note<'a> {
    /// Returns the note of a block, or `None` if this version does not know its kind.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (head, text) = bytes.split_at_checked(4)?;
        let kinds = [NoteKind::StaticChild, NoteKind::PrivilegedChild, NoteKind::UnpreparedChild];
        Some(Self { kind: kinds.into_iter().find(|kind| *kind as u8 == head[0])?, text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn totals_and_notes_survive_a_round_trip(values in prop::array::uniform15(any::<u64>()), text in prop::collection::vec(any::<u8>(), 0..1024)) {
            let totals = Totals(values);
            prop_assert_eq!(Totals::decode(&totals.to_bytes()), totals);
            let note = Note { kind: NoteKind::PrivilegedChild, text: &text };
            let mut out = [0; Note::MAX_SIZE];
            let n = note.encode(&mut out);
            prop_assert_eq!(Note::decode(&out[..n]), Some(note));
        }

        #[test]
        fn any_bytes_are_totals_and_a_note_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Totals::decode(&bytes);
            let _ = Note::decode(&bytes);
        }
    }
}
