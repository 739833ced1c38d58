//! Jobs that wait, by key, and a quick answer to: which is the first that fits here?

use std::collections::BTreeSet;

/// The queue. Jobs are named by their rank: their place among all jobs, by key.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    ranks: BTreeSet<u32>,
    /// The least size and the least time of each part of the queue: leaf `n_leaves + rank`, parent `i / 2`.
    least: Vec<Least>,
    n_leaves: usize,
}

#[derive(Clone, Copy, Debug)]
struct Least {
    nodes: u32,
    limit_ms: i64,
}

const NOBODY: Least = Least { nodes: u32::MAX, limit_ms: i64::MAX };

/// A gap in front of a reservation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gap {
    /// Nodes that are free now.
    pub(super) free: u32,
    /// Who takes no longer than this is out of the way in time.
    pub(super) window_ms: i64,
    /// Who takes no more than these never was in the way.
    pub(super) extra: u32,
}

impl Gap {
    pub(super) fn fits(&self, nodes: u32, limit_ms: i64) -> bool {
        nodes <= self.free && (limit_ms <= self.window_ms || nodes <= self.extra)
    }
}

impl Waiting {
    pub(super) fn new(n_jobs: usize) -> Self {
        let n_leaves = n_jobs.next_power_of_two();
        Self { ranks: BTreeSet::new(), least: vec![NOBODY; 2 * n_leaves], n_leaves }
    }

    /// Adds a job; `size` is its size and its limit if it may be filled in before others.
    pub(super) fn insert(&mut self, rank: u32, size: Option<(u32, i64)>) {
        self.ranks.insert(rank);
        if let Some((nodes, limit_ms)) = size {
            self.set(rank, Least { nodes, limit_ms });
        }
    }

    pub(super) fn remove(&mut self, rank: u32) {
        self.ranks.remove(&rank);
        self.set(rank, NOBODY);
    }

    fn set(&mut self, rank: u32, least: Least) {
        let mut at = self.n_leaves + rank as usize;
        self.least[at] = least;
        while at > 1 {
            at /= 2;
            let (left, right) = (self.least[2 * at], self.least[2 * at + 1]);
            self.least[at] =
                Least { nodes: left.nodes.min(right.nodes), limit_ms: left.limit_ms.min(right.limit_ms) };
        }
    }

    pub(super) fn first(&self) -> Option<u32> {
        self.ranks.first().copied()
    }

    pub(super) fn contains(&self, rank: u32) -> bool {
        self.ranks.contains(&rank)
    }

    pub(super) fn len(&self) -> usize {
        self.ranks.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranks.iter().copied()
    }

    /// Returns the first that fits a gap.
    pub(super) fn first_in(&self, gap: &Gap) -> Option<u32> {
        self.first_below(1, gap).map(|leaf| (leaf - self.n_leaves) as u32)
    }

    /// Returns the one with the least limit that fits a gap; of equals the first.
    pub(super) fn shortest_in(&self, gap: &Gap) -> Option<u32> {
        // Who is shortest of all that are small enough is in time if anybody is.
        let shortest = |nodes: u32| {
            let mut best = None;
            self.shortest_below(1, nodes, &mut best);
            best
        };
        let (limit_ms, leaf) = shortest(gap.free)?;
        let leaf = if limit_ms <= gap.window_ms { leaf } else { shortest(gap.free.min(gap.extra))?.1 };
        Some((leaf - self.n_leaves) as u32)
    }

    fn shortest_below(&self, at: usize, nodes: u32, best: &mut Option<(i64, usize)>) {
        let least = self.least[at];
        let is_beaten = best.is_some_and(|(limit_ms, _)| least.limit_ms >= limit_ms);
        if least.nodes == u32::MAX || least.nodes > nodes || is_beaten {
            return;
        }
        if at >= self.n_leaves {
            *best = Some((least.limit_ms, at));
            return;
        }
        self.shortest_below(2 * at, nodes, best);
        self.shortest_below(2 * at + 1, nodes, best);
    }

    /// A part whose least size and least time do not fit together has nobody who does; the reverse is not so, and costs
    /// another look.
    fn first_below(&self, at: usize, gap: &Gap) -> Option<usize> {
        let least = self.least[at];
        if least.nodes == u32::MAX || !gap.fits(least.nodes, least.limit_ms) {
            return None;
        }
        if at >= self.n_leaves {
            return Some(at);
        }
        self.first_below(2 * at, gap).or_else(|| self.first_below(2 * at + 1, gap))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_tree_finds_whom_a_walk_along_the_queue_finds(
            jobs in prop::collection::vec((1..9u32, 1..9i64), 0..20),
            (free, window_ms, extra) in (0..9u32, 0..9i64, 0..9u32),
        ) {
            let mut waiting = Waiting::new(jobs.len());
            for (rank, &size) in jobs.iter().enumerate() {
                waiting.insert(rank as u32, Some(size));
            }
            for rank in (0..jobs.len() as u32).step_by(3) {
                waiting.remove(rank);
            }
            let gap = Gap { free, window_ms, extra };
            let fits = || waiting.iter().filter(|&rank| {
                let (nodes, limit_ms) = jobs[rank as usize];
                gap.fits(nodes, limit_ms)
            });
            prop_assert_eq!(waiting.first_in(&gap), fits().next());
            prop_assert_eq!(waiting.shortest_in(&gap), fits().min_by_key(|&rank| (jobs[rank as usize].1, rank)));
        }
    }
}
