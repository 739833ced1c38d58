//! What a source counted of how bytes were accessed, where single calls with their offsets are not told.

use crate::Layer;

/// Counters of one layer, summed over its records. What the source does not count is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AccessFacts {
    /// The layer that counted.
    pub layer: Layer,
    /// Reads.
    pub reads: WayFacts,
    /// Writes.
    pub writes: WayFacts,
    /// Calls whose offset in the file is not a multiple of the file's alignment.
    pub misaligned_in_file: Option<u64>,
    /// The alignment that counter refers to, of the file with most such calls; of several parts of a run, the largest.
    pub file_alignment_bytes: Option<u64>,
    /// Bytes that were read although as many as the file's extent had been read already: at least so many twice.
    pub reread_bytes: Option<f64>,
    /// Where one rank took much longer than another with a file they share.
    pub straggler: Option<Straggler>,
}

/// Counters of reads, or of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WayFacts {
    /// All calls.
    pub calls: u64,
    /// Calls of less than a megabyte.
    pub small: Option<u64>,
    /// Calls at a higher offset than the one before.
    pub sequential: Option<u64>,
    /// Calls that all ranks make together.
    pub collective: Option<u64>,
    /// Calls that a rank makes on its own.
    pub independent: Option<u64>,
}

/// The slowest and the fastest rank on a file that ranks share, as to time in calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Straggler {
    /// The slowest rank.
    pub slowest_rank: i64,
    /// Its time in calls.
    pub slowest_s: f64,
    /// The time of the fastest.
    pub fastest_s: f64,
    /// What the slowest moved.
    pub slowest_bytes: f64,
    /// What the fastest moved.
    pub fastest_bytes: f64,
}

impl AccessFacts {
    /// Adds what another part of the run counted in the same layer.
    pub fn join(&mut self, other: &Self) {
        self.reads.join(other.reads);
        self.writes.join(other.writes);
        self.misaligned_in_file = sum(self.misaligned_in_file, other.misaligned_in_file);
        self.file_alignment_bytes = self.file_alignment_bytes.max(other.file_alignment_bytes);
        self.reread_bytes = match (self.reread_bytes, other.reread_bytes) {
            (Some(a), Some(b)) => Some(a + b),
            (one, None) | (None, one) => one,
        };
        // The longest lag, whatever the order; a tie goes to the longer time and then to the lower rank.
        let key =
            |s: &Straggler| (s.slowest_s - s.fastest_s, s.slowest_s, -s.slowest_rank as f64, s.slowest_bytes);
        self.straggler = match (self.straggler, other.straggler) {
            (Some(one), Some(two)) if key(&two) > key(&one) => Some(two),
            (one, two) => one.or(two),
        };
    }
}

impl WayFacts {
    fn join(&mut self, other: Self) {
        self.calls += other.calls;
        self.small = sum(self.small, other.small);
        self.sequential = sum(self.sequential, other.sequential);
        self.collective = sum(self.collective, other.collective);
        self.independent = sum(self.independent, other.independent);
    }
}

/// The sum of what is known.
fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (known, None) | (None, known) => known,
    }
}
