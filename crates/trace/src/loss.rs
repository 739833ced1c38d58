//! Known losses of data.

use crate::Timestamp;

/// Something the source had and we do not: a dropped record, a cut file, a value that made no sense.
///
/// Loss is data. It travels beside the events and stands on the last lines of every report.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    /// Missing data and its place, as a sentence without a full stop ("line 12: end 3.0 is before start 4.0").
    pub what: String,
    /// How many records this is, where that is known.
    pub records: Option<u64>,
    /// Since when data are missing, where that is known.
    pub since: Option<Timestamp>,
    /// Whether the source ends, or can no longer be read, before its end: any part of the run may be missing, and sums are
    /// not those of the run. Other losses leave a whole source of which something is left out.
    pub cut: bool,
}

impl Loss {
    /// Returns a loss of `records` records.
    pub fn of_records(records: u64, what: impl Into<String>) -> Self {
        Self { what: what.into(), records: Some(records), since: None, cut: false }
    }

    /// Returns a loss whose size nobody knows.
    pub fn of_unknown_size(what: impl Into<String>) -> Self {
        Self { what: what.into(), records: None, since: None, cut: false }
    }

    /// Returns the loss of whatever came after the place at which the source is cut, or cannot be read any more.
    pub fn of_the_rest(what: impl Into<String>) -> Self {
        Self { cut: true, ..Self::of_unknown_size(what) }
    }
}
