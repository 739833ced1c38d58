//! Time that calls cost a rank: the busiest one, and the mean.

use std::collections::HashMap;

use iotide_trace::{FileRecord, Rank};

/// An amount by rank: time, or bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Cost {
    /// Of every rank.
    every: f64,
    /// Of single ranks, beside that.
    own: HashMap<Rank, f64>,
    /// Summed over the ranks.
    total: f64,
}

impl Cost {
    /// Adds an amount of a record: of its own rank, or spread over `n_ranks` of which the slowest has its own share.
    pub(super) fn add(&mut self, record: &FileRecord, amount: f64, n_ranks: f64) {
        if amount <= 0.0 {
            return;
        }
        self.total += amount;
        if record.rank != Rank::ALL {
            *self.own.entry(record.rank).or_default() += amount;
            return;
        }
        let mean = amount / n_ranks;
        self.every += mean;
        // The slowest rank divides its time as the sum does.
        let all = record.seconds();
        if let Some(slowest) = record.slowest.filter(|_| all > 0.0) {
            let more = (slowest.seconds * amount / all).min(amount) - mean;
            if more > 0.0 {
                *self.own.entry(slowest.rank).or_default() += more;
            }
        }
    }

    /// Adds the bytes of a record.
    pub(super) fn add_bytes(&mut self, record: &FileRecord, bytes: f64, n_ranks: f64) {
        self.total += bytes;
        if record.rank != Rank::ALL {
            *self.own.entry(record.rank).or_default() += bytes;
            return;
        }
        let all = record.bytes();
        let share = if all > 0.0 { bytes / all } else { 0.0 };
        let most = record.slowest.map_or(bytes / n_ranks, |slowest| (slowest.bytes * share).min(bytes));
        let rest = if n_ranks > 1.0 { (bytes - most) / (n_ranks - 1.0) } else { 0.0 };
        self.every += rest.min(bytes / n_ranks).max(0.0);
        if let Some(slowest) = record.slowest.filter(|_| most > rest) {
            *self.own.entry(slowest.rank).or_default() += most - rest;
        }
    }

    /// Adds an amount that every rank has, as all wait for each other.
    pub(super) fn add_to_all(&mut self, amount: f64, n_ranks: f64) {
        self.every += amount;
        self.total += amount * n_ranks;
    }

    /// The most that a rank has.
    pub(super) fn busiest(&self) -> f64 {
        self.every + self.own.values().copied().fold(0.0, f64::max)
    }

    /// The rank that has most, if one has more than the others; the lowest on a tie.
    pub(super) fn busiest_rank(&self) -> Option<Rank> {
        let most = self.own.iter().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(a.0)));
        most.map(|(rank, _)| *rank)
    }

    /// The amount of one rank.
    pub(super) fn of(&self, rank: Rank) -> f64 {
        self.every + self.own.get(&rank).copied().unwrap_or(0.0)
    }

    /// The mean over the ranks.
    pub(super) fn mean(&self, n_ranks: f64) -> f64 {
        self.total / n_ranks
    }

    /// Summed over the ranks.
    pub(super) fn total(&self) -> f64 {
        self.total
    }

    /// Ranks with an amount of their own.
    pub(super) fn ranks(&self) -> impl Iterator<Item = (Rank, f64)> + '_ {
        self.own.iter().map(|(rank, own)| (*rank, self.every + own))
    }

    /// Returns the least amount that every rank has.
    pub(super) fn every(&self) -> f64 {
        self.every
    }
}
