//! When each rank read and wrote.

use iotide_trace::{Stretch, TimelineRows};
use serde::Serialize;

use crate::run::whole_bytes;
use crate::zero::Zero;

/// When each rank read and wrote, where calls have times of their own.
#[derive(Clone, Debug, Serialize)]
pub struct Timeline {
    /// How many ranks a row stands for.
    pub ranks_per_row: u32,
    /// Calls of a row no further apart than this are drawn as one.
    pub gap_s: f64,
    /// The rows, ascending by rank.
    pub rows: Vec<TimelineRow>,
    /// Origin of its times on a page.
    #[serde(skip)]
    pub zero: Zero,
}

/// One rank or a few.
#[derive(Clone, Debug, Serialize)]
pub struct TimelineRow {
    /// The first rank.
    pub first_rank: i32,
    /// The last rank.
    pub last_rank: i32,
    /// Reads.
    pub reads: RowSums,
    /// Writes.
    pub writes: RowSums,
}

/// Sums over a row in one direction.
#[derive(Clone, Debug, Serialize)]
pub struct RowSums {
    /// How many calls.
    pub calls: u64,
    /// Bytes that they moved.
    #[serde(serialize_with = "whole_bytes")]
    pub bytes: f64,
    /// For how long any of them was under way.
    pub busy_s: f64,
    /// The stretches themselves.
    #[serde(skip)]
    pub stretches: Vec<Stretch>,
}

impl RowSums {
    fn of(stretches: Vec<Stretch>) -> Self {
        Self {
            calls: stretches.iter().fold(0, |sum, stretch| sum.saturating_add(stretch.calls)),
            bytes: stretches.iter().map(|stretch| stretch.bytes).sum(),
            busy_s: stretches.iter().map(|stretch| (stretch.end_ns - stretch.start_ns) as f64 * 1e-9).sum(),
            stretches,
        }
    }
}

impl From<TimelineRows> for Timeline {
    fn from(rows: TimelineRows) -> Self {
        let TimelineRows { ranks_per_row, gap_s, rows } = rows;
        let row = |row: iotide_trace::TimelineRow| TimelineRow {
            first_rank: row.first.0,
            last_rank: row.first.0.saturating_add(ranks_per_row as i32 - 1),
            reads: RowSums::of(row.reads),
            writes: RowSums::of(row.writes),
        };
        Self { ranks_per_row, gap_s, rows: rows.into_iter().map(row).collect(), zero: Zero::default() }
    }
}
