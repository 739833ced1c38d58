//! Bytes that each rank moved, and the time it took.

use std::collections::{BTreeMap, HashMap};

use super::levels::{Level, Levels};
use crate::{AccessFacts, Layer, Rank, SlowestRank};

/// Sums by rank, 56 bytes each.
#[derive(Clone, Debug, Default)]
pub(super) struct ByRank {
    sums: HashMap<Rank, Sums>,
    last: Option<(Rank, Sums)>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// By [`Level`].
    bytes: [f64; 3],
    /// Time in calls, in whole nanoseconds: of C streams, of MPI-IO, of libraries, of all others. Sums of whole numbers are
    /// the same in any order, so that two ranks that took equally long do so to the last bit (up to 104 days each).
    nanos: [f64; 4],
}

/// Where a layer's time stands.
fn slot(layer: Layer) -> usize {
    match layer {
        Layer::Stdio => 0,
        Layer::MpiIo => 1,
        Layer::Library => 2,
        Layer::Unknown | Layer::Posix | Layer::Server => 3,
    }
}

impl Sums {
    fn join(&mut self, other: Self) {
        self.bytes.iter_mut().zip(other.bytes).for_each(|(sum, bytes)| *sum += bytes);
        self.nanos.iter_mut().zip(other.nanos).for_each(|(sum, nanos)| *sum += nanos);
    }

    fn seconds(&self, layer: Layer) -> f64 {
        self.nanos[slot(layer)] * 1e-9
    }

    fn mpi_io_s(&self) -> f64 {
        self.seconds(Layer::MpiIo)
    }

    fn low_s(&self) -> f64 {
        (self.nanos.iter().sum::<f64>() - self.nanos[slot(Layer::MpiIo)]) * 1e-9
    }
}

impl ByRank {
    #[inline]
    pub(super) fn add(&mut self, rank: Rank, layer: Layer, bytes: f64, seconds: f64) {
        if rank == Rank::ALL {
            return;
        }
        let mut part = Sums::default();
        part.nanos[slot(layer)] = (seconds * 1e9).round();
        part.bytes[Level::of(layer) as usize] = bytes;
        // Sources write one rank's events in a row: the table is asked only when the rank changes.
        match &mut self.last {
            Some((last, sums)) if *last == rank => sums.join(part),
            last => {
                if let Some((rank, sums)) = last.replace((rank, part)) {
                    self.sums.entry(rank).or_default().join(sums);
                }
            }
        }
    }

    /// All sums, by rank.
    fn sorted(&self) -> Vec<(Rank, Sums)> {
        let mut sums = self.sums.clone();
        if let Some((rank, last)) = self.last {
            sums.entry(rank).or_default().join(last);
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_unstable_by_key(|(rank, _)| *rank);
        sums
    }

    /// Returns the bytes of each rank in the levels that count, and of its part in files that all of them use, as far as the source reports it.
    pub(super) fn bytes(&self, levels: Levels, access: &[AccessFacts]) -> Option<RankBytes> {
        let own = self.sorted().into_iter().map(|(rank, sums)| (rank, levels.sum(sums.bytes)));
        let mut moved: HashMap<Rank, f64> = own.filter(|(_, bytes)| *bytes > 0.0).collect();
        let counted = access.iter().filter(|facts| levels.counts(facts.layer));
        for part in counted.flat_map(|facts| &facts.rank_parts).filter(|part| part.bytes > 0.0) {
            *moved.entry(part.rank).or_default() += part.bytes;
        }
        let mut moved: Vec<(Rank, f64)> = moved.into_iter().collect();
        moved.sort_unstable_by_key(|(rank, _)| *rank);
        // The lower rank on a tie.
        let (busiest, most_bytes) = *moved.iter().rev().max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(RankBytes {
            n_ranks: moved.len(),
            n_busy: moved.iter().filter(|(_, bytes)| 100.0 * bytes >= most_bytes).count(),
            busiest,
            most_bytes,
            bytes: moved.iter().map(|(_, bytes)| bytes).sum(),
        })
    }

    /// In collective I/O a rank waits for the others: its time in MPI-IO calls says nothing of itself.
    pub(super) fn times(&self, levels: Levels, access: &[AccessFacts]) -> Option<RankTimes> {
        let sums = self.sorted();
        let bytes = |sums: &Sums| levels.sum(sums.bytes);
        let is_collective = || {
            let facts = access.iter().find(|facts| facts.layer == Layer::MpiIo);
            facts.is_none_or(|facts| {
                [facts.reads, facts.writes].iter().any(|way| way.collective.is_none_or(|calls| calls > 0))
            })
        };
        let below = sums.iter().any(|(_, sums)| sums.low_s() > 0.0);
        let seconds = |sums: &Sums| if below { sums.low_s() } else { sums.mpi_io_s() };
        if !below && (is_collective() || !sums.iter().any(|(_, sums)| sums.mpi_io_s() > 0.0)) {
            return None;
        }
        let timed = || sums.iter().filter(|(_, sums)| seconds(sums) > 0.0);
        let (slowest, most) = timed().rev().max_by(|a, b| seconds(&a.1).total_cmp(&seconds(&b.1)))?;
        let mut peers: Vec<f64> = timed()
            .filter(|(rank, sums)| rank != slowest && 2.0 * bytes(sums) >= bytes(most))
            .map(|(_, sums)| seconds(sums))
            .collect();
        peers.sort_unstable_by(f64::total_cmp);
        Some(RankTimes {
            n_ranks: timed().count(),
            slowest: *slowest,
            slowest_s: seconds(most),
            slowest_bytes: bytes(most),
            n_peers: peers.len(),
            peers_s: peers.get(peers.len() / 2).copied().unwrap_or(0.0),
        })
    }
}

impl ByRank {
    /// Bytes and the time of the slowest rank, layer by layer: as the source counted them, else from its calls.
    pub(super) fn speeds(&self, bytes: &BTreeMap<Layer, f64>, access: &[AccessFacts]) -> Vec<LayerSpeed> {
        let sums = self.sorted();
        let counted = access.iter().filter_map(|facts| Some((facts.layer, facts.shape.slowest?)));
        let mut speeds: BTreeMap<Layer, SlowestRank> = counted.collect();
        for (&layer, &bytes) in bytes {
            let own = sums.iter().map(|(rank, sums)| (*rank, sums.seconds(layer)));
            // The lower rank on a tie.
            let slowest = own.rev().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, seconds)| *seconds > 0.0);
            if let Some((rank, own_s)) = slowest {
                let rank = Some(rank);
                speeds.entry(layer).or_insert(SlowestRank { bytes, own_s, rank, shared_s: 0.0 });
            }
        }
        let known = speeds.into_iter().filter(|(_, slowest)| slowest.bps().is_some());
        known.map(|(layer, slowest)| LayerSpeed { layer, slowest }).collect()
    }
}

/// How fast a layer moved its bytes by its slowest rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerSpeed {
    /// The layer.
    pub layer: Layer,
    /// Its bytes and its slowest rank.
    pub slowest: SlowestRank,
}

/// Time in calls, rank by rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankTimes {
    /// How many ranks spent time in calls.
    pub n_ranks: usize,
    /// Who spent most.
    pub slowest: Rank,
    /// How much that was.
    pub slowest_s: f64,
    /// Bytes it moved.
    pub slowest_bytes: f64,
    /// How many other ranks moved at least half as many bytes. A rank that has more to do is no straggler, and one that leaves
    /// its bytes to an aggregator is no measure.
    pub n_peers: usize,
    /// The median of their times.
    pub peers_s: f64,
}

/// Bytes, rank by rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RankBytes {
    /// How many ranks are known to have moved any.
    pub n_ranks: usize,
    /// How many moved at least a hundredth of what the busiest did: a rank that reads a header moves the data of none.
    pub n_busy: usize,
    /// Who moved most.
    pub busiest: Rank,
    /// How much that was.
    pub most_bytes: f64,
    /// Bytes that all of them moved.
    pub bytes: f64,
}
