//! Counts of the records in a call-level trace: every record, not only those that move bytes.

use std::collections::{BTreeMap, HashMap};

use iotide_trace::{Rank, Timestamp};

use crate::budget::NameBudget;

/// How often each function was called, by whom, and what else the trace holds.
///
/// Events tell about storage; a tracer also records barriers, training steps and its own notes. This counts them all,
/// as the tracer's own tools do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Census {
    /// Calls, one record each.
    pub records: u64,
    /// Records that stand for several calls.
    pub aggregated: u64,
    /// The calls that those stand for.
    pub aggregated_calls: u64,
    /// Records of names, hashes and settings.
    pub metadata: u64,
    /// Samples of counters.
    pub counters: u64,
    /// Records that could not be read.
    pub unusable: u64,
    /// Calls by function.
    pub functions: BTreeMap<String, u64>,
    /// Calls by the tracer's own category, where it has categories.
    pub categories: BTreeMap<String, u64>,
    /// Calls by rank.
    pub per_rank: BTreeMap<Rank, RankCensus>,
    /// Bytes that the program asked the POSIX layer to read, whether or not it got them.
    pub posix_bytes_read: u64,
    /// Bytes that the program asked the POSIX layer to write.
    pub posix_bytes_written: u64,
}

/// One rank's part of a [`Census`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RankCensus {
    /// Its calls.
    pub records: u64,
    /// When its first call began.
    pub first_start: Option<Timestamp>,
    /// When its last call began.
    pub last_start: Option<Timestamp>,
    /// When the call that began last ended.
    pub last_end: Option<Timestamp>,
    /// The latest end of any of its calls.
    pub end: Option<Timestamp>,
}

impl Census {
    /// Adds what another file of the same run holds.
    pub(crate) fn add(&mut self, other: Census) {
        self.records += other.records;
        self.aggregated += other.aggregated;
        self.aggregated_calls = self.aggregated_calls.saturating_add(other.aggregated_calls);
        self.metadata += other.metadata;
        self.counters += other.counters;
        self.unusable += other.unusable;
        self.posix_bytes_read = self.posix_bytes_read.saturating_add(other.posix_bytes_read);
        self.posix_bytes_written = self.posix_bytes_written.saturating_add(other.posix_bytes_written);
        for (counts, more) in
            [(&mut self.functions, other.functions), (&mut self.categories, other.categories)]
        {
            for (name, count) in more {
                *counts.entry(name).or_default() += count;
            }
        }
        for (rank, more) in other.per_rank {
            let part = self.per_rank.entry(rank).or_default();
            let later = more.last_start > part.last_start;
            *part = RankCensus {
                records: part.records + more.records,
                first_start: [part.first_start, more.first_start].into_iter().flatten().min(),
                last_start: part.last_start.max(more.last_start),
                last_end: if later { more.last_end } else { part.last_end },
                end: part.end.max(more.end),
            };
        }
    }

    pub(crate) fn rank_call(&mut self, rank: Rank, start: Timestamp, end: Timestamp) {
        let part = self.per_rank.entry(rank).or_default();
        part.records += 1;
        part.first_start = Some(part.first_start.map_or(start, |first| first.min(start)));
        if part.last_start.is_none_or(|last| last <= start) {
            part.last_start = Some(start);
            part.last_end = Some(end);
        }
        part.end = Some(part.end.map_or(end, |latest| latest.max(end)));
    }
}

/// Counts names without allocating for one it knows.
#[derive(Default)]
pub(crate) struct NameCounts(HashMap<Vec<u8>, u64>, NameBudget);

impl NameCounts {
    /// A damaged trace may name anything; beyond this many names the rest goes uncounted.
    const MOST: usize = 1 << 16;

    pub(crate) fn add(&mut self, name: &[u8]) {
        if let Some(count) = self.0.get_mut(name) {
            *count += 1;
        } else if self.0.len() < Self::MOST && self.1.takes(name) {
            self.0.insert(name.to_vec(), 1);
        }
    }

    pub(crate) fn into_map(self) -> BTreeMap<String, u64> {
        self.0.into_iter().map(|(name, count)| (String::from_utf8_lossy(&name).into_owned(), count)).collect()
    }
}
