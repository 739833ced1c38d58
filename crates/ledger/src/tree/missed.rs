//! Versions of rows from a time in which a daemon above was not reached.
//!
//! Rows are cumulative, so sums are right again with the first row that arrives. When it was counted is not known from them: all of it would seem to have
//! happened at once, at the end of the silence. So a daemon keeps the versions of its rows until the one above has them ([`Missed`]), and sends those that
//! it has missed behind the present ones. Whoever gets them knows what it has shown of the row meanwhile ([`Shown`]), and so what is to be added to
//! which seconds ([`LateGrowth`]). A version counts once, and never for more than the row has now: what is shown of a second grows towards what was true
//! in it, and no later second shows less.

use std::collections::VecDeque;

use super::frame::Values;
use super::hub::{Group, RowId};
use crate::{Cell, Counters};

/// Versions that nobody above has are kept for so long.
pub const KEPT_NS: u64 = 300 * 1_000_000_000;
/// … in so many bytes at most.
const MOST_BYTES: usize = 16 << 20;
/// Bytes of a version beside its values.
const VERSION_BYTES: usize = size_of::<Version>();
/// A row that comes after so long was missed: usually there is one each second.
pub(super) const GAP_NS: u64 = 1_500_000_000;
/// Time within which missed versions come after the row that ends the silence, by however many ways: nobody keeps them for longer.
pub(super) const LATE_NS: u64 = KEPT_NS;
/// After a silence, rows may come late for so long.
const RECENT_NS: u64 = 10 * 1_000_000_000;
/// Silences of a row that are remembered.
const MOST_SHOWN: usize = 16;

/// Counts of a job on nodes below beyond those that were shown, in some seconds of the past.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LateGrowth {
    /// Which job.
    pub group: Group,
    /// The first of these seconds since 1970, by the clock of this daemon.
    pub from_s: u64,
    /// The first second after them: what was shown then had it already.
    pub until_s: u64,
    /// Counts to be added to those that were shown in each of them.
    pub added: Counters,
}

/// A version of a row.
#[derive(Clone, Debug)]
pub(super) struct Version {
    pub(super) row: RowId,
    pub(super) seq: u64,
    /// The version that it follows: none that is between them will come.
    pub(super) after: u64,
    pub(super) at_ns: u64,
    /// When it came here.
    pub(super) kept_ns: u64,
    /// The cells that have grown since the version before.
    pub(super) values: Values,
}

impl Version {
    fn n_bytes(&self) -> usize {
        VERSION_BYTES + self.values.n_bytes()
    }
}

/// Versions of rows that the daemon above may not have, the oldest first. They have positions, which count from the first that ever was.
#[derive(Clone, Debug, Default)]
pub(super) struct Missed {
    versions: VecDeque<Version>,
    first: u64,
    n_bytes: usize,
    n_lost: u64,
}

impl Missed {
    /// Keeps a version; returns its position.
    pub(super) fn push(&mut self, version: Version) -> u64 {
        let now_ns = version.kept_ns;
        self.n_bytes += version.n_bytes();
        self.versions.push_back(version);
        self.forget_old(now_ns);
        self.end() - 1
    }

    /// The position of the oldest, and that of the next to come.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    pub(super) fn end(&self) -> u64 {
        self.first + self.versions.len() as u64
    }

    /// All of them, the oldest first.
    pub(super) fn versions(&self) -> impl Iterator<Item = &Version> {
        self.versions.iter()
    }

    /// Returns the bytes that they take.
    pub(super) fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    pub(super) fn get(&self, position: u64) -> Option<&Version> {
        self.versions.get(usize::try_from(position.checked_sub(self.first)?).ok()?)
    }

    /// The daemon above has all before this position.
    pub(super) fn acked(&mut self, position: u64) {
        while self.first < position && self.drop_first() {}
        if self.versions.is_empty() {
            self.versions.shrink_to(64);
        }
    }

    /// Drops versions that are too old, or too many: the oldest first. They are lost.
    pub(super) fn forget_old(&mut self, now_ns: u64) {
        while let Some(oldest) = self.versions.front()
            && (now_ns.saturating_sub(oldest.kept_ns) > KEPT_NS || self.n_bytes > MOST_BYTES)
        {
            self.n_lost += 1;
            self.drop_first();
        }
    }

    fn drop_first(&mut self) -> bool {
        let Some(version) = self.versions.pop_front() else { return false };
        self.n_bytes -= version.n_bytes();
        self.first += 1;
        true
    }

    /// Versions that nobody above will ever have.
    pub(super) fn n_lost(&self) -> u64 {
        self.n_lost
    }
}

/// Counts that were shown of a row for a time, because nothing later was known.
#[derive(Clone, Debug)]
pub(super) struct Shown {
    /// It was shown from then …
    pub(super) since_ns: u64,
    /// … until then; `None` as long as nobody has looked at what came after it.
    pub(super) until_ns: Option<u64>,
    /// When the row came that ended it.
    pub(super) closed_ns: u64,
    /// The last version that is in it.
    pub(super) seq: u64,
    /// Whether the cells below are all that was shown; else nobody knows what was.
    pub(super) is_known: bool,
    pub(super) cells: Vec<Option<Cell>>,
    /// Whether it begins with a row that came late: the ones before it may come yet.
    pub(super) is_of_row: bool,
}

impl Shown {
    /// Makes the record of the counts that were shown until now: `cells`, or `None` if they are not known.
    pub(super) fn new(now_ns: u64, seq: u64, cells: Option<&[(u32, Cell)]>) -> Self {
        let is_known = cells.is_some();
        let cells = cells.unwrap_or_default().iter().map(|(_, cell)| Some(*cell)).collect();
        Self { since_ns: 0, until_ns: None, closed_ns: now_ns, seq, is_known, cells, is_of_row: false }
    }

    /// A version comes that is of a time at which this was shown, and others before it may come yet: all of them if it is a row, else those behind `after`.
    /// Returns what was shown from that time on, which it is part of; the others belong to the time before.
    pub(super) fn split(&mut self, seq: u64, after: Option<u64>, at_ns: u64) -> Option<Self> {
        let has_all_before = match after {
            Some(after) => after <= self.seq,
            None => self.is_of_row,
        };
        if seq <= self.seq || has_all_before || self.until_ns.is_some_and(|until_ns| at_ns >= until_ns) {
            return None;
        }
        let since_ns = self.since_ns.max(at_ns);
        let later = Self { since_ns, is_of_row: after.is_none(), ..self.clone() };
        self.until_ns = Some(at_ns);
        Some(later)
    }

    /// Returns the bytes that it takes.
    pub(super) fn n_bytes(&self) -> usize {
        Self::bytes_with(self.cells.capacity())
    }

    /// Returns the bytes that one with so many cells takes.
    pub(super) fn bytes_with(n_cells: usize) -> usize {
        size_of::<Self>() + n_cells * size_of::<Option<Cell>>()
    }

    /// Whether the silence ended a short time ago.
    pub(super) fn is_recent(&self, now_ns: u64) -> bool {
        now_ns.saturating_sub(self.closed_ns) < RECENT_NS
    }

    /// A version belongs to a time at which this was shown. Returns what it has more, by cell; `None` if it does not, or has nothing that is new. The larger
    /// of two values is the later one, so that neither the order nor the number of times in which versions come makes a sum wrong.
    pub(super) fn grow(
        &mut self,
        seq: u64,
        at_ns: u64,
        values: impl Iterator<Item = (u32, Cell)>,
    ) -> Option<Vec<(u32, Cell)>> {
        if self.until_ns.is_some_and(|until_ns| at_ns >= until_ns) {
            return None;
        }
        let is_new = seq > self.seq;
        self.seq = self.seq.max(seq);
        let mut added = Vec::new();
        for (cell, value) in values {
            let index = cell as usize;
            if index >= self.cells.len() {
                self.cells.resize(index + 1, self.is_known.then(Cell::default));
            }
            // Of what nobody knows, the first version is taken to have been shown.
            let known = self.cells[index].get_or_insert(value);
            let before = *known;
            known.raise(value);
            if *known != before {
                added.push((
                    cell,
                    Cell {
                        calls: known.calls - before.calls,
                        bytes: known.bytes - before.bytes,
                        ns: known.ns - before.ns,
                    },
                ));
            }
        }
        (is_new || !added.is_empty()).then_some(added)
    }
}

/// Remembers another silence of a row, or a part of one, at its place in time.
pub(super) fn remember(all: &mut Vec<Shown>, at: usize, shown: Shown) {
    all.insert(at, shown);
    if all.len() > MOST_SHOWN {
        all.remove(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(row: RowId, at_s: u64) -> Version {
        let kept_ns = at_s * 1_000_000_000;
        let values = Values::of([(0, Cell { calls: at_s, bytes: 0, ns: 0 })]);
        Version { row, seq: at_s, after: at_s - 1, at_ns: kept_ns, kept_ns, values }
    }

    #[test]
    fn the_oldest_are_lost_after_three_hundred_seconds_and_counted() {
        let mut missed = Missed::default();
        for at_s in 1..=400 {
            assert_eq!(missed.push(version(RowId::default(), at_s)), at_s - 1);
        }
        assert_eq!((missed.n_lost(), missed.get(98).is_none()), (99, true));
        assert_eq!(missed.get(99).map(|version| version.seq), Some(100));
        missed.acked(390);
        assert_eq!(
            (missed.first(), missed.end(), missed.n_lost()),
            (390, 400, 99),
            "what is there is not lost"
        );
        missed.acked(1000);
        assert_eq!((missed.first(), missed.end(), missed.n_bytes), (400, 400, 0));
    }

    #[test]
    fn a_version_is_never_kept_at_the_cost_of_more_than_some_mebibytes() {
        let mut missed = Missed::default();
        let values = Values::of((0..1024).map(|cell| (cell, Cell { calls: 1 << 61, bytes: 1 << 61, ns: 1 })));
        for seq in 0..2000 {
            let values = values.clone();
            missed.push(Version { row: RowId::default(), seq, after: 0, at_ns: 1, kept_ns: 1, values });
            assert!(missed.n_bytes <= MOST_BYTES);
        }
        assert!(missed.n_lost() > 500 && missed.end() == 2000, "{}", missed.n_lost());
    }

    #[test]
    fn a_version_counts_once_and_in_order_and_not_after_the_silence() {
        let cell = |bytes| Cell { calls: 0, bytes, ns: 0 };
        let mut shown = Shown::new(100, 5, Some(&[(7, cell(50))]));
        shown.until_ns = Some(90);
        assert_eq!(shown.grow(5, 10, [(0, cell(50))].into_iter()), None, "it was shown");
        assert_eq!(
            shown.grow(6, 10, [(0, cell(60)), (1, cell(3))].into_iter()),
            Some(vec![(0, cell(10)), (1, cell(3))])
        );
        assert_eq!(shown.grow(6, 10, [(0, cell(60))].into_iter()), None, "it came before");
        assert_eq!(shown.grow(8, 20, [(0, cell(75))].into_iter()), Some(vec![(0, cell(15))]));
        assert_eq!(shown.grow(7, 15, [(0, cell(70))].into_iter()), None, "a later one came before");
        assert_eq!(shown.grow(9, 90, [(0, cell(99))].into_iter()), None, "it is of a later time");
        // What was shown before a restart is not known: the first version stands for it.
        let mut unknown = Shown::new(100, 0, None);
        assert_eq!(unknown.grow(1, 10, [(0, cell(60))].into_iter()), Some(Vec::new()));
        assert_eq!(unknown.grow(2, 11, [(0, cell(61)), (2, cell(9))].into_iter()), Some(vec![(0, cell(1))]));
    }
}
