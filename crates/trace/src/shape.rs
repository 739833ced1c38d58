//! Counts of the sizes and the order of calls, as Darshan has them.

/// Where Darshan's ranges of sizes begin, in bytes; a size that is a bound belongs to the range before it.
pub const SIZE_RANGES: [u64; 10] =
    [0, 100, 1 << 10, 10 << 10, 100 << 10, 1 << 20, 4 << 20, 10 << 20, 100 << 20, 1 << 30];

/// The range that a call of so many bytes belongs to.
pub fn size_range(bytes: f64) -> usize {
    SIZE_RANGES[1..].iter().position(|&bound| bytes <= bound as f64).unwrap_or(SIZE_RANGES.len() - 1)
}

/// Sizes and order of a layer's calls. What the source does not count is absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallShape {
    /// Reads.
    pub reads: WayShape,
    /// Writes.
    pub writes: WayShape,
    /// Calls at one of the four commonest strides of their file, reads and writes together.
    pub strided: Option<u64>,
    /// The commonest sizes, the commonest first, at most [`CallShape::MOST_SIZES`].
    pub common_sizes: Vec<CommonSize>,
    /// Time in reads, writes and metadata, summed over the ranks.
    pub times_s: Option<[f64; 3]>,
    /// How long the slowest rank took, where the source counts that.
    pub slowest: Option<SlowestRank>,
}

/// Bytes of a layer and the time of its slowest rank, from which Darshan's own tools estimate a bandwidth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlowestRank {
    /// All bytes, read and written.
    pub bytes: f64,
    /// The longest time in reads, writes and metadata that a rank spent with files of its own.
    pub own_s: f64,
    /// The rank that spent it.
    pub rank: Option<crate::Rank>,
    /// How long the slowest rank took with each file that ranks share, summed over those files.
    pub shared_s: f64,
}

impl SlowestRank {
    /// Bytes per second; `None` if nothing took any time.
    pub fn bps(&self) -> Option<f64> {
        let bps = self.bytes / (self.own_s + self.shared_s);
        (self.bytes > 0.0 && bps.is_finite()).then_some(bps)
    }
}

/// Sizes and order of reads, or of writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WayShape {
    /// Calls in each of [`SIZE_RANGES`].
    pub sizes: Option<[u64; SIZE_RANGES.len()]>,
    /// Calls that begin exactly where the one before them ended.
    pub consecutive: Option<u64>,
}

/// A size that many calls have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommonSize {
    /// The size.
    pub bytes: u64,
    /// How many calls have it.
    pub calls: u64,
}

impl CallShape {
    /// How many common sizes are named.
    pub const MOST_SIZES: usize = 10;

    /// Adds what another part of the run counted.
    pub fn join(&mut self, other: &Self) {
        self.reads.join(other.reads);
        self.writes.join(other.writes);
        self.strided = sum(self.strided, other.strided);
        self.times_s = match (self.times_s, other.times_s) {
            (Some(a), Some(b)) => Some(std::array::from_fn(|i| a[i] + b[i])),
            (known, None) | (None, known) => known,
        };
        self.slowest = match (self.slowest, other.slowest) {
            (Some(a), Some(b)) => {
                let longest = if b.own_s > a.own_s { b } else { a };
                Some(SlowestRank { bytes: a.bytes + b.bytes, shared_s: a.shared_s + b.shared_s, ..longest })
            }
            (known, None) | (None, known) => known,
        };
        for size in &other.common_sizes {
            match self.common_sizes.iter_mut().find(|known| known.bytes == size.bytes) {
                Some(known) => known.calls = known.calls.saturating_add(size.calls),
                None => self.common_sizes.push(*size),
            }
        }
        self.sort_sizes();
    }

    /// Puts the commonest sizes first and drops the rarest.
    pub fn sort_sizes(&mut self) {
        self.common_sizes.sort_unstable_by(|a, b| b.calls.cmp(&a.calls).then(a.bytes.cmp(&b.bytes)));
        self.common_sizes.truncate(Self::MOST_SIZES);
    }
}

impl WayShape {
    fn join(&mut self, other: Self) {
        self.consecutive = sum(self.consecutive, other.consecutive);
        self.sizes = match (self.sizes, other.sizes) {
            (Some(a), Some(b)) => Some(std::array::from_fn(|i| a[i].saturating_add(b[i]))),
            (known, None) | (None, known) => known,
        };
    }
}

/// The sum of what is known.
fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(a), Some(b)) => Some(a.saturating_add(b)),
        (known, None) | (None, known) => known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_those_of_darshan() {
        let ranges = [0.0, 100.0, 101.0, 1024.0, 1025.0, 1048576.0, 1048577.0, 1073741824.0, 1073741825.0];
        assert_eq!(ranges.map(size_range), [0, 0, 1, 1, 2, 4, 5, 8, 9]);
    }
}
