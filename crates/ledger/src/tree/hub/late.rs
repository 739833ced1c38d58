//! Versions of rows that did not come in time.

use std::collections::{BTreeMap, HashMap};

use super::{Group, GroupId, Hub, HubRow, RowId};
use crate::tree::frame::{MOST_LEVELS, Values};
use crate::tree::missed::{GAP_NS, KEPT_NS, LateGrowth, Shown, Version, remember};
use crate::{Cell, Counters, Metric};

/// Cells of versions that came late and wait to be taken: 2 MiB of them.
const MOST_CELLS: usize = 1 << 16;
/// Bytes, at most, of the counts that were shown of rows in silences, give or take what comes within a second. Of further silences, the counts shown are not
/// recorded: late counts of them are in the sums and not in their seconds, and refused ([`Forgotten`]).
const MOST_SHOWN_BYTES: usize = 4 << 20;
/// Cells that a row is likely to have, of which nothing has come yet.
const USUAL_CELLS: usize = 64;
const SECOND_NS: u64 = 1_000_000_000;

/// A silence of a row of which nobody knows what was shown: what comes late of it is lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Forgotten {
    /// The last version before it, and then the last that was lost of it: by however many ways a version comes, it is lost once.
    after: u64,
    /// The version that ended it, once that has come.
    until: Option<u64>,
}

impl Forgotten {
    /// Whether a version that comes late is of this silence, and did not come before.
    fn loses(&mut self, seq: u64) -> bool {
        let is_lost = seq > self.after && self.until.is_none_or(|until| seq < until);
        self.after = if is_lost { seq } else { self.after };
        is_lost
    }
}

/// Counts of a row at a time of which something else was shown.
#[derive(Clone, Debug)]
pub(super) struct LateCells {
    row: RowId,
    from_ns: u64,
    /// `None` if what was shown then still was when it came.
    until_ns: Option<u64>,
    /// Counts beyond those that were shown, by place in the job's metrics.
    added: Vec<(u32, Cell)>,
}

/// All of these.
#[derive(Clone, Debug, Default)]
pub(super) struct Late {
    all: Vec<LateCells>,
    n_cells: usize,
}

impl Late {
    /// Takes one; returns whether there was room.
    fn push(&mut self, late: LateCells) -> bool {
        let n_cells = self.n_cells + late.added.len();
        let has_room = n_cells <= MOST_CELLS;
        if has_room {
            self.n_cells = n_cells;
            self.all.push(late);
        }
        has_room
    }
}

impl Hub {
    /// Whether one more silence of a row can be remembered; counts it, if so.
    fn has_room_for_shown(&mut self, n_cells: usize) -> bool {
        if self.shown_bytes > MOST_SHOWN_BYTES {
            return false;
        }
        self.shown_bytes += Shown::bytes_with(n_cells.max(USUAL_CELLS));
        true
    }

    /// A row is about to change: if it was silent, what is shown of it until now is remembered.
    pub(in crate::tree) fn note_shown(&mut self, now_ns: u64, id: RowId) {
        let Some(row) = self.rows.get(&id).filter(|row| !row.is_own) else { return };
        let since_ns = if row.seq > 0 && !row.is_restored {
            let is_after_silence = row.shown.last().is_some_and(|shown| shown.is_recent(now_ns));
            // Behind a silence, rows that are late themselves may be followed by what was before them.
            if is_after_silence { row.heard_ns.min(self.here_ns(id, row.at_ns)) } else { row.heard_ns }
        } else if row.is_restored {
            0
        } else {
            self.here_ns(id, row.opened.key.start_ns)
        };
        let is_open = row.shown.last().is_some_and(|shown| shown.until_ns.is_none());
        // The first row may be as late as it likes; others come each second.
        let least_ns = if row.seq > 0 { GAP_NS } else { SECOND_NS };
        let n_cells = row.cells.len();
        if is_open || now_ns.saturating_sub(since_ns) < least_ns {
            return;
        }
        let has_room = self.has_room_for_shown(n_cells);
        let Some(row) = self.rows.get_mut(&id) else { return };
        if !has_room {
            let before = row.forgotten.map_or(0, |forgotten| forgotten.after);
            row.forgotten = Some(Forgotten { after: row.seq.max(before), until: None });
            return;
        }
        row.is_after_silence = true;
        if row.is_restored {
            // Before this daemon was started, something else was shown.
            let before = Shown { until_ns: Some(row.heard_ns), ..Shown::new(now_ns, row.seq, None) };
            row.shown.push(before);
            let since_ns = row.heard_ns;
            let shown = Shown { since_ns, ..Shown::new(now_ns, row.seq, Some(&row.cells)) };
            let last = row.shown.len();
            remember(&mut row.shown, last, shown);
        } else {
            // A row that is older than all that is kept of it may have been here before.
            let is_known = row.seq > 0 || now_ns.saturating_sub(row.opened.key.start_ns) < KEPT_NS;
            let cells = is_known.then_some(&row.cells[..]);
            let since_ns = row.shown.last().and_then(|shown| shown.until_ns).unwrap_or(0);
            let shown = Shown { since_ns, ..Shown::new(now_ns, row.seq, cells) };
            let last = row.shown.len();
            remember(&mut row.shown, last, shown);
        }
    }

    /// Keeps a version of a row for the daemon above; one that came late also says what its row had counted then.
    pub(super) fn keep_version(&mut self, now_ns: u64, id: RowId, seq: u64, at_ns: u64) {
        let Some(row) = self.rows.get_mut(&id) else { return };
        if let Some(forgotten) = &mut row.forgotten {
            forgotten.until.get_or_insert(seq);
        }
        if self.grown.0.take() == Some(id) && !self.grown.1.is_empty() {
            self.grown.1.sort_unstable();
            self.grown.1.dedup();
            let grown = self.grown.1.iter().map(|cell| (*cell, row.cells[*cell as usize].1));
            let values = Values::of(grown);
            let is_after_silence = std::mem::take(&mut row.is_after_silence);
            let after = if is_after_silence { seq.saturating_sub(1) } else { row.kept_seq };
            let version = Version { row: id, seq, after, at_ns, kept_ns: now_ns, values };
            (row.kept_at, row.kept_seq) = (Some(self.missed.push(version)), seq);
        }
        // What comes in time is of no time when something else was shown.
        let here_ns = self.here_ns(id, at_ns);
        let Some(row) = self.rows.get(&id) else { return };
        if row.shown.iter().all(|shown| shown.until_ns.is_some_and(|until_ns| here_ns >= until_ns)) {
            return;
        }
        let cells: Vec<(u32, Cell)> = (0..).zip(row.cells.iter().map(|(_, cell)| *cell)).collect();
        self.grow_shown(now_ns, id, (seq, None), at_ns, &cells);
    }

    /// A version of a row comes that was missed: this is what had grown in it. What the row has now is not touched.
    pub(in crate::tree) fn missed(
        &mut self,
        now_ns: u64,
        id: RowId,
        (seq, after): (u64, u64),
        at_ns: u64,
        grown: &[(u32, Cell)],
    ) {
        if !self.grow_shown(now_ns, id, (seq, Some(after)), at_ns, grown) {
            let forgotten = self.rows.get_mut(&id).and_then(|row| row.forgotten.as_mut());
            self.n_refused += u64::from(forgotten.is_some_and(|forgotten| forgotten.loses(seq)));
        } else if !self.is_root {
            let values = Values::of(grown.iter().copied());
            self.missed.push(Version { row: id, seq, after, at_ns, kept_ns: now_ns, values });
        }
    }

    /// Returns whether that was new of any time.
    fn grow_shown(
        &mut self,
        now_ns: u64,
        id: RowId,
        (seq, after): (u64, Option<u64>),
        at_ns: u64,
        values: &[(u32, Cell)],
    ) -> bool {
        let here_ns = self.here_ns(id, at_ns);
        let has_room = self.shown_bytes <= MOST_SHOWN_BYTES;
        let Some(row) = self.rows.get_mut(&id) else { return false };
        let mut splits = row.shown.iter_mut().enumerate().filter(|_| has_room);
        if let Some((at, later)) =
            splits.find_map(|(at, shown)| Some((at, shown.split(seq, after, here_ns)?)))
        {
            remember(&mut row.shown, at + 1, later);
            self.shown_bytes += Shown::bytes_with(row.cells.len());
        }
        let mut is_new = false;
        for shown in &mut row.shown {
            // A row has what all before it have: that is theirs.
            let is_before = after.is_none() && shown.until_ns.is_some_and(|until_ns| here_ns >= until_ns);
            let grown = if is_before { None } else { shown.grow(seq, here_ns, values.iter().copied()) };
            let Some(grown) = grown else { continue };
            is_new = true;
            let of_metric = |(cell, added): (u32, Cell)| Some((row.cells.get(cell as usize)?.0, added));
            let added: Vec<(u32, Cell)> = grown.into_iter().filter_map(of_metric).collect();
            if added.is_empty() {
                continue;
            }
            let from_ns = here_ns.max(shown.since_ns);
            let has_room = self.late.push(LateCells { row: id, from_ns, until_ns: shown.until_ns, added });
            // What is of this moment will be seen a moment later: thousands of nodes that come at once are no loss.
            self.n_refused += u64::from(!has_room && now_ns.saturating_sub(from_ns) >= SECOND_NS);
        }
        is_new
    }

    /// When something happened on the node of a row, by the clock of this daemon: clocks of daemons are known to their parents.
    fn here_ns(&self, id: RowId, at_ns: u64) -> u64 {
        let mut skew_ns = 0i64;
        let mut node = self.rows.get(&id).map(|row| &row.opened.node);
        for _ in 0..MOST_LEVELS {
            let Some(known) = node.and_then(|node| self.nodes.get(node)) else { break };
            skew_ns = skew_ns.saturating_add(known.news.skew_ns);
            node = Some(&known.news.parent).filter(|parent| **parent != self.own.node);
        }
        at_ns.saturating_add_signed(skew_ns.saturating_neg())
    }

    /// Returns the late counts of jobs of other nodes since the last call. `until_s` is the first second in which the present state is shown.
    pub fn take_late(&mut self, until_s: u64) -> Vec<LateGrowth> {
        let now_until_ns = until_s.saturating_mul(SECOND_NS);
        // Of what nobody has looked at yet, nothing is shown.
        let groups = &self.groups;
        let is_shown = |row: &HubRow| groups.get(&row.group).is_some_and(|group| !group.is_changed);
        for row in self.rows.values_mut().filter(|row| !row.shown.is_empty() && is_shown(row)) {
            for shown in row.shown.iter_mut().filter(|shown| shown.until_ns.is_none()) {
                shown.until_ns = Some(now_until_ns);
            }
        }
        // Of many nodes, what belongs to one second of a job is one.
        let mut late: BTreeMap<(GroupId, u64, u64), Vec<(u32, Cell)>> = BTreeMap::new();
        for cells in std::mem::take(&mut self.late).all {
            let Some(row) = self.rows.get(&cells.row) else { continue };
            let Some(until_ns) = cells.until_ns.or(is_shown(row).then_some(now_until_ns)) else {
                self.late.push(cells);
                continue;
            };
            let (from_s, until_s) = (cells.from_ns / SECOND_NS, until_ns / SECOND_NS);
            if from_s < until_s {
                late.entry((row.group, from_s, until_s)).or_default().extend(cells.added);
            }
        }
        if late.is_empty() {
            return Vec::new();
        }
        let groups: HashMap<&GroupId, &Group> = self.by_group.iter().map(|(group, id)| (id, group)).collect();
        let growth = late.into_iter().filter_map(|((id, from_s, until_s), added)| {
            let (group, metrics) = (*groups.get(&id)?, &self.groups.get(&id)?.metrics);
            let mut sum = Counters::default();
            for (at, cell) in added {
                sum.add(Metric::clone(metrics.get(at as usize)?), cell);
            }
            Some(LateGrowth { group: group.clone(), from_s, until_s, added: sum })
        });
        growth.collect()
    }

    /// Versions of rows that the daemon above has missed for good.
    pub fn n_missed(&self) -> u64 {
        self.missed.n_lost()
    }
}
