//! Bytes per rank and time on a grid that folds when the run outgrows it.

use std::collections::BTreeMap;

use super::{Activity, HeatMap, HeatRow};
use crate::{Op, Rank, Timestamp};

/// The heat map while it grows: bins are numbered from the clock's zero, so that folding two into one is a division.
#[derive(Clone, Debug)]
pub(super) struct Heat {
    /// A power of two, in nanoseconds.
    bin_nanos: i64,
    /// The numbers of the first bin in use and of the last.
    bins: Option<(i64, i64)>,
    /// A power of two.
    ranks_per_row: u32,
    /// By rank / `ranks_per_row`; every row has [`Activity::MOST_BINS`] bins from the first in use.
    rows: BTreeMap<u32, HeatSums>,
    all_ranks: Option<HeatSums>,
}

#[derive(Clone, Debug)]
struct HeatSums {
    read: Vec<f64>,
    written: Vec<f64>,
}

impl Default for HeatSums {
    fn default() -> Self {
        let none = vec![0.0; Activity::MOST_BINS];
        Self { read: none.clone(), written: none }
    }
}

impl Default for Heat {
    fn default() -> Self {
        Self { bin_nanos: 1, bins: None, ranks_per_row: 1, rows: BTreeMap::new(), all_ranks: None }
    }
}

impl Heat {
    pub(super) fn add(&mut self, rank: Rank, op: Op, start: Timestamp, end: Timestamp, bytes: f64) {
        if bytes <= 0.0 {
            return;
        }
        // A request of no length is one nanosecond long.
        let (start, end) = (start.as_nanos(), end.as_nanos().max(start.as_nanos() + 1));
        let first = self.make_room(start, end);
        let bin_nanos = self.bin_nanos;
        let row = self.row(rank);
        let volumes = if op == Op::Read { &mut row.read } else { &mut row.written };
        let (from, to) = (start.div_euclid(bin_nanos), (end - 1).div_euclid(bin_nanos));
        let (left, right) = ((from - first) as usize, (to - first) as usize);
        if left == right {
            volumes[left] += bytes;
            return;
        }
        let per_nano = bytes / (end - start) as f64;
        volumes[left] += per_nano * ((from + 1) * bin_nanos - start) as f64;
        volumes[right] += per_nano * (end - to * bin_nanos) as f64;
        for volume in &mut volumes[left + 1..right] {
            *volume += per_nano * bin_nanos as f64;
        }
    }

    /// Makes the bins reach from `start` to `end` and returns the number of the first.
    fn make_room(&mut self, start: i64, end: i64) -> i64 {
        const MOST: i64 = Activity::MOST_BINS as i64;
        loop {
            let (from, to) = (start.div_euclid(self.bin_nanos), (end - 1).div_euclid(self.bin_nanos));
            let Some((first, last)) = self.bins else {
                if to - from < MOST {
                    self.bins = Some((from, to));
                    return from;
                }
                self.bin_nanos *= 2;
                continue;
            };
            let (wanted, until) = (first.min(from), last.max(to));
            if until - wanted < MOST {
                let shift = (first - wanted) as usize;
                if shift > 0 {
                    // What is pushed out at the end was never in use.
                    self.each_row(|volumes| volumes.rotate_right(shift));
                }
                self.bins = Some((wanted, until));
                return wanted;
            }
            self.bin_nanos *= 2;
            let odd = first.rem_euclid(2) as usize;
            self.bins = Some((first.div_euclid(2), last.div_euclid(2)));
            self.each_row(|volumes| {
                let mut folded = vec![0.0; Activity::MOST_BINS];
                for (i, volume) in volumes.iter().enumerate() {
                    folded[(i + odd) / 2] += volume;
                }
                *volumes = folded;
            });
        }
    }

    fn each_row(&mut self, mut change: impl FnMut(&mut Vec<f64>)) {
        for row in self.rows.values_mut().chain(&mut self.all_ranks) {
            change(&mut row.read);
            change(&mut row.written);
        }
    }

    fn row(&mut self, rank: Rank) -> &mut HeatSums {
        let Ok(rank) = u32::try_from(rank.0) else { return self.all_ranks.get_or_insert_default() };
        while self.rows.len() >= Activity::MOST_ROWS && !self.rows.contains_key(&(rank / self.ranks_per_row))
        {
            self.ranks_per_row *= 2;
            for (key, row) in std::mem::take(&mut self.rows) {
                let joined = self.rows.entry(key / 2).or_default();
                joined.read.iter_mut().zip(&row.read).for_each(|(sum, bytes)| *sum += bytes);
                joined.written.iter_mut().zip(&row.written).for_each(|(sum, bytes)| *sum += bytes);
            }
        }
        self.rows.entry(rank / self.ranks_per_row).or_default()
    }

    pub(super) fn finish(self) -> HeatMap {
        let Self { bin_nanos, bins, ranks_per_row, rows, all_ranks } = self;
        let Some((first, last)) = bins else { return HeatMap::default() };
        let n_bins = (last - first + 1) as usize;
        let cut = |mut volumes: Vec<f64>| {
            volumes.truncate(n_bins);
            volumes
        };
        let told = |first: i32, last: i32, sums: HeatSums| HeatRow {
            first: Rank(first),
            last: Rank(last),
            read: cut(sums.read),
            written: cut(sums.written),
        };
        let ranks = rows.into_iter().map(|(key, sums)| {
            // A rank is at most `i32::MAX`, and so is the first of its row; the last may not be.
            let first = key * ranks_per_row;
            let last = first.saturating_add(ranks_per_row - 1).min(i32::MAX as u32);
            told(first as i32, last as i32, sums)
        });
        HeatMap {
            start_s: Timestamp::from_nanos_since_start(first * bin_nanos).as_secs(),
            bin_s: bin_nanos as f64 * 1e-9,
            n_bins,
            ranks_per_row,
            rows: all_ranks.into_iter().map(|sums| told(-1, -1, sums)).chain(ranks).collect(),
        }
    }
}
