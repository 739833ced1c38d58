//! Rows of many nodes, merged.
//!
//! A row is what one node has counted for one job in one boot. It is kept as it is, whoever brought it: by whichever way, in whatever order and
//! however often a row comes, the larger of two values of a cell is the later one. The sum of a job is that of its rows, so it never falls, never
//! holds anything twice, and is whole once the last version of each row has come.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::frame::{NodeNews, Opened, Place};
use super::missed::{LATE_NS, Missed, Shown};
use super::outlook::Outlook;
use crate::{About, Cell, Counters, JobId, JobKey, Limits, Metric, Name, Trust};

/// A node that has said nothing of a job for so long is taken for lost.
pub const SILENT_NS: u64 = 60_000_000_000;
/// Rows that are done are kept for so long: whoever brought them is told so.
const LINGER_NS: u64 = 10_000_000_000;
/// Nodes that were not heard of for so long are forgotten.
const FORGET_NODE_NS: u64 = 3600 * 1_000_000_000;
/// Rows at once.
const MOST_ROWS: usize = 1 << 18;
/// Rows of one node at once: what a node says of itself leaves room for others.
const MOST_ROWS_OF_NODE: usize = MOST_ROWS / 16;
/// Nodes at once.
const MOST_NODES: usize = 1 << 16;

/// Which row it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey {
    /// The node that counts.
    pub node: Name,
    /// The boot of it.
    pub epoch: u64,
    /// The job, as that node knows it.
    pub key: JobKey,
}

impl RowKey {
    fn of(opened: &Opened) -> Self {
        Self { node: opened.node.clone(), epoch: opened.epoch, key: opened.key.clone() }
    }
}

/// Which job, as all nodes know it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group {
    /// The cluster.
    pub cluster: Name,
    /// Whose it is.
    pub uid: u32,
    /// Its id.
    pub id: JobId,
    /// Whether this is what the daemon counts itself, on its way up. Nobody sums that up here.
    pub is_own: bool,
}

impl Group {
    fn of(row: &Opened, is_own: bool) -> Self {
        let JobKey { cluster, uid, id, .. } = &row.key;
        let id = match row.is_local && !is_own {
            false => id.clone(),
            // The same id on another node is another job.
            true => JobId::made_of(&format!("{id}+{}", row.node)),
        };
        Self { cluster: cluster.clone(), uid: *uid, id, is_own }
    }
}

/// A number of a row that no other row ever gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(u64);

/// A number of a job that no other job ever gets: rows find theirs by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct GroupId(u64);

/// A row.
#[derive(Clone, Debug)]
pub struct HubRow {
    /// Facts about it, from its node.
    pub opened: Arc<Opened>,
    group: GroupId,
    /// Whether this daemon counts it itself.
    is_own: bool,
    /// Its version.
    pub seq: u64,
    /// When it was read, or when its last process ended, on its node's clock.
    pub at_ns: u64,
    /// Whether no more will come.
    pub is_final: bool,
    /// How many processes count there now.
    pub n_running: u32,
    /// The last evaluation of its node.
    pub outlook: Option<Outlook>,
    cells: Vec<(u32, Cell)>,
    heard_ns: u64,
    /// Grows with everything that is new of it.
    pub(super) version: u64,
    pub(super) opened_version: u64,
    /// State in the store: its sequence number, and whether that was final.
    stored: Option<(u64, bool)>,
    /// The sequence number for which somebody above, or the store of the root, has taken over.
    acked: Option<u64>,
    /// The sequence number of a later version that somebody above has.
    behind: Option<u64>,
    /// Whether it is as the store had it, and its node has not been heard since.
    is_restored: bool,
    /// Counts that were shown of it while its node was silent.
    shown: Vec<Shown>,
    /// The last silence for which there was no room.
    forgotten: Option<late::Forgotten>,
    /// The position of its last version among those that are kept for the daemon above.
    pub(super) kept_at: Option<u64>,
    /// Its number, and whether some before the next may be missing.
    kept_seq: u64,
    is_after_silence: bool,
}

impl HubRow {
    /// Which it is.
    pub fn key(&self) -> RowKey {
        RowKey::of(&self.opened)
    }

    /// Its cells, in the order in which they first came.
    pub(super) fn cells(&self) -> &[(u32, Cell)] {
        &self.cells
    }

    /// Whether it is final, and somebody else keeps it.
    pub fn is_acked(&self) -> bool {
        self.is_final && self.acked == Some(self.seq)
    }

    /// The sequence number of a later version that somebody above has, if this is not the last one.
    pub(super) fn behind(&self) -> Option<u64> {
        self.behind.filter(|&seq| seq > self.seq)
    }

    fn is_live(&self, now_ns: u64) -> bool {
        !self.is_final && now_ns.saturating_sub(self.heard_ns) <= SILENT_NS
    }
}

#[derive(Clone, Debug, Default)]
struct HubGroup {
    metrics: Vec<Arc<Metric>>,
    index: HashMap<Arc<Metric>, u32>,
    n_own: usize,
    sum: Vec<Cell>,
    rows: BTreeSet<RowId>,
    is_changed: bool,
    /// When its end was stored.
    closed_ns: Option<u64>,
}

/// Row as the store is to have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptRow {
    /// Which.
    pub key: RowKey,
    /// Its version.
    pub seq: u64,
    /// Whether no more will come.
    pub is_final: bool,
    /// Its counts.
    pub counters: Counters,
}

/// A job that rows of other nodes tell of.
#[derive(Clone, Debug)]
pub struct GroupNews {
    /// Which.
    pub group: Group,
    /// When the first node saw it.
    pub start_ns: u64,
    /// Facts about it.
    pub about: About,
    /// How many ranks it has, if that is known.
    pub n_ranks: Option<u32>,
    /// Sum over all rows.
    pub sum: Counters,
    /// How many processes count in all.
    pub n_running: u32,
    /// Nodes that count, or may be counting.
    pub n_live: usize,
    /// All nodes, in the order of their names.
    pub nodes: Vec<Name>,
    /// Nodes that were not heard of for too long before they were done.
    pub silent: Vec<Name>,
    /// When its last process ended, on its node's clock, if all nodes have said so.
    pub end_ns: Option<u64>,
    /// The I/O that is expected of it, merged from those of its nodes.
    pub outlook: Option<Outlook>,
}

/// Why a row was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HubFull {
    /// There are too many rows.
    #[error("there are too many rows")]
    Rows,
    /// There are too many rows of one node.
    #[error("there are too many rows of one node")]
    RowsOfNode,
}

/// The rows of a daemon that others send theirs to, or that sends its own.
#[derive(Clone, Debug)]
pub struct Hub {
    /// Who this is.
    pub own: Place,
    limits: Limits,
    rows: HashMap<RowId, HubRow>,
    by_key: HashMap<RowKey, RowId>,
    /// How many rows each node has.
    by_node: HashMap<Name, usize>,
    groups: HashMap<GroupId, HubGroup>,
    by_group: BTreeMap<Group, GroupId>,
    nodes: BTreeMap<Name, KnownNode>,
    /// Metrics of jobs and of connections. Thousands of nodes have the same ones.
    metrics: HashSet<Arc<Metric>>,
    /// How many of these there were when those that nobody has were last removed.
    n_metrics: usize,
    n_rows_ever: u64,
    n_groups_ever: u64,
    version: u64,
    /// Whether a final row is safe once the store has it, because nobody is above.
    is_root: bool,
    path: Vec<Place>,
    path_version: u64,
    /// Values and rows that were refused.
    n_refused: u64,
    /// Rows that this daemon has counted to their end and that are safe above.
    safe: Vec<RowId>,
    has_finals: bool,
    has_news: bool,
    /// Versions of rows that somebody above may not have.
    pub(super) missed: Missed,
    /// Cells of a row that have grown since its last version.
    grown: (Option<RowId>, Vec<u32>),
    late: late::Late,
    /// About how many bytes all rows take for what was shown of them in silences.
    shown_bytes: usize,
}

/// A node that is known.
#[derive(Clone, Debug)]
pub struct KnownNode {
    /// State of the node.
    pub news: NodeNews,
    heard_ns: u64,
    pub(super) version: u64,
}

impl KnownNode {
    /// How long ago it was last heard of.
    pub fn silent_ns(&self, now_ns: u64) -> u64 {
        self.news.silent_ns.saturating_add(now_ns.saturating_sub(self.heard_ns))
    }
}

impl Hub {
    /// Returns a hub without rows. Nobody is above the root.
    pub fn new(own: Place, is_root: bool, limits: Limits) -> Self {
        Self {
            own,
            limits,
            rows: HashMap::new(),
            by_key: HashMap::new(),
            by_node: HashMap::new(),
            groups: HashMap::new(),
            by_group: BTreeMap::new(),
            nodes: BTreeMap::new(),
            metrics: HashSet::new(),
            n_metrics: 0,
            n_rows_ever: 0,
            n_groups_ever: 0,
            version: 0,
            is_root,
            path: Vec::new(),
            path_version: 0,
            n_refused: 0,
            safe: Vec::new(),
            has_finals: false,
            has_news: false,
            missed: Missed::default(),
            grown: (None, Vec::new()),
            late: late::Late::default(),
            shown_bytes: 0,
        }
    }

    /// Who is above, the parent first.
    pub fn path(&self) -> &[Place] {
        &self.path
    }

    pub(super) fn path_version(&self) -> u64 {
        self.path_version
    }

    /// Takes note of who is above.
    pub fn set_path(&mut self, path: Vec<Place>) {
        if path != self.path {
            (self.path, self.path_version) = (path, self.path_version + 1);
        }
    }

    /// How many values and rows were refused.
    pub fn n_refused(&self) -> u64 {
        self.n_refused
    }

    /// How many rows there are.
    pub fn n_rows(&self) -> usize {
        self.rows.len()
    }

    fn next_version(&mut self) -> u64 {
        self.version += 1;
        self.version
    }

    /// Returns the row, which may be a new one.
    pub fn open(&mut self, now_ns: u64, opened: &Opened, is_own: bool) -> Result<RowId, HubFull> {
        let key = RowKey::of(opened);
        let version = self.next_version();
        if let Some(id) = self.by_key.get(&key).copied()
            && let Some(row) = self.rows.get_mut(&id)
        {
            if *row.opened != *opened {
                row.opened = Arc::new(opened.clone());
                (row.version, row.opened_version) = (version, version);
                self.touch_group(id);
            }
            return Ok(id);
        }
        let n_of_node = self.by_node.get(&opened.node).copied().unwrap_or(0);
        let is_full = (n_of_node >= MOST_ROWS_OF_NODE).then_some(HubFull::RowsOfNode);
        if let Some(why) = is_full.or((self.rows.len() >= MOST_ROWS).then_some(HubFull::Rows)) {
            self.n_refused += 1;
            return Err(why);
        }
        self.by_node.insert(opened.node.clone(), n_of_node + 1);
        self.n_rows_ever += 1;
        let id = RowId(self.n_rows_ever);
        self.by_key.insert(key, id);
        let group = *self.by_group.entry(Group::of(opened, is_own)).or_insert_with(|| {
            self.n_groups_ever += 1;
            GroupId(self.n_groups_ever)
        });
        let of_group = self.groups.entry(group).or_default();
        of_group.rows.insert(id);
        (of_group.is_changed, of_group.closed_ns) = (true, None);
        let row = HubRow {
            opened: Arc::new(opened.clone()),
            group,
            is_own,
            seq: 0,
            at_ns: 0,
            is_final: false,
            n_running: 0,
            outlook: None,
            cells: Vec::new(),
            heard_ns: now_ns,
            version,
            opened_version: version,
            stored: None,
            acked: None,
            behind: None,
            is_restored: false,
            shown: Vec::new(),
            forgotten: None,
            kept_at: None,
            kept_seq: 0,
            is_after_silence: false,
        };
        self.rows.insert(id, row);
        Ok(id)
    }

    /// The one copy of a metric that all share.
    pub(super) fn shared(&mut self, metric: &Metric) -> Arc<Metric> {
        share(&mut self.metrics, metric)
    }

    fn group(&self, group: &Group) -> Option<&HubGroup> {
        self.groups.get(self.by_group.get(group)?)
    }

    fn touch_group(&mut self, id: RowId) {
        let Some(row) = self.rows.get(&id) else { return };
        if let Some(group) = self.groups.get_mut(&row.group) {
            (group.is_changed, group.closed_ns) = (true, None);
        }
    }

    /// The place of a metric in a row, which may be a new one; `None` if the job has too many.
    pub fn cell_of(&mut self, id: RowId, metric: &Metric) -> Option<u32> {
        let row = self.rows.get_mut(&id)?;
        let group = self.groups.get_mut(&row.group)?;
        let at = match group.index.get(metric) {
            Some(&at) => at,
            None => {
                let is_own = matches!(metric, Metric::Own { .. });
                if group.metrics.len() >= self.limits.metrics
                    || is_own && group.n_own >= self.limits.own_metrics
                {
                    self.n_refused += 1;
                    return None;
                }
                let at = group.metrics.len() as u32;
                group.n_own += usize::from(is_own);
                let shared = share(&mut self.metrics, metric);
                group.metrics.push(Arc::clone(&shared));
                group.sum.push(Cell::default());
                group.index.insert(shared, at);
                at
            }
        };
        if let Some(cell) = row.cells.iter().position(|(known, _)| *known == at) {
            return Some(cell as u32);
        }
        row.cells.push((at, Cell::default()));
        Some(row.cells.len() as u32 - 1)
    }

    /// Gives back the room that cells of a row do not need.
    pub(super) fn shrink(&mut self, id: RowId) {
        if let Some(row) = self.rows.get_mut(&id) {
            row.cells.shrink_to_fit();
        }
    }

    /// A row has these values now. What is less than before came late, and changes nothing. Returns whether anything changed.
    pub fn raise(&mut self, id: RowId, cells: impl IntoIterator<Item = (u32, Cell)>) -> bool {
        let Some(row) = self.rows.get_mut(&id) else { return false };
        let Some(group) = self.groups.get_mut(&row.group) else { return false };
        let mut has_changed = false;
        // The root sends nothing up.
        let notes_grown = !self.is_root;
        if notes_grown && self.grown.0 != Some(id) {
            self.grown.0 = Some(id);
            self.grown.1.clear();
        }
        for (cell, value) in cells {
            let Some((at, known)) = row.cells.get_mut(cell as usize) else { continue };
            let before = *known;
            known.raise(value);
            if *known != before {
                has_changed = true;
                if notes_grown {
                    self.grown.1.push(cell);
                }
            }
            group.sum[*at as usize].add(Cell {
                calls: known.calls - before.calls,
                bytes: known.bytes - before.bytes,
                ns: known.ns - before.ns,
            });
        }
        has_changed
    }

    /// The same, for metrics that may be new to the row.
    fn raise_all(&mut self, id: RowId, counters: &Counters) -> bool {
        let mut has_changed = false;
        for (metric, cell) in counters.iter() {
            if let Some(at) = self.cell_of(id, metric) {
                has_changed |= self.raise(id, [(at, *cell)]);
            }
        }
        has_changed
    }

    /// A version of a row has come. Returns a later one that is known already, if there is one.
    pub fn heard(
        &mut self,
        now_ns: u64,
        id: RowId,
        seq: u64,
        at_ns: u64,
        is_final: bool,
        n_running: u32,
    ) -> Option<u64> {
        let version = self.next_version();
        let row = self.rows.get_mut(&id)?;
        if seq < row.seq {
            return Some(row.seq);
        }
        // Of two with one number, the final one is the later.
        row.is_final = is_final || seq == row.seq && row.is_final;
        self.has_finals |= row.is_final && !row.is_own;
        self.has_news |= !row.is_own;
        row.n_running = if row.is_final { 0 } else { n_running };
        (row.seq, row.at_ns) = (seq, row.at_ns.max(at_ns));
        (row.heard_ns, row.version) = (now_ns, version);
        row.is_restored = false;
        self.touch_group(id);
        self.keep_version(now_ns, id, seq, at_ns);
        None
    }

    /// Takes note of what the node of a row expects. What was evaluated earlier changes nothing.
    pub fn set_outlook(&mut self, id: RowId, outlook: Outlook) {
        let version = self.next_version();
        let Some(row) = self.rows.get_mut(&id) else { return };
        if row.outlook.is_none_or(|known| known.at_ns < outlook.at_ns) {
            (row.outlook, row.version) = (Some(outlook), version);
            self.has_news |= !row.is_own;
            self.touch_group(id);
        }
    }

    /// Takes over what this daemon counts itself, to be sent up, and returns its row. `ended_ns` says when the last process went, if there is none.
    pub fn put_own(
        &mut self,
        now_ns: u64,
        opened: &Opened,
        counters: &Counters,
        n_running: u32,
        is_final: bool,
        ended_ns: Option<u64>,
    ) -> Option<RowId> {
        let id = self.open(now_ns, opened, true).ok()?;
        let has_changed = self.raise_all(id, counters);
        let before = self.rows.get(&id).map_or((0, false), |row| (row.seq, row.is_final));
        if before.1 && is_final && !has_changed {
            return Some(id);
        }
        // The clock may have been set back.
        let at_ns = ended_ns.unwrap_or(now_ns);
        self.heard(now_ns, id, now_ns.max(before.0 + 1), at_ns, is_final, n_running);
        Some(id)
    }

    /// Somebody above has a later version of a row. What we count ourselves counts on from there; of what others count, it is for them to know.
    pub fn behind(&mut self, id: RowId, seq: u64) {
        let version = self.next_version();
        let Some(row) = self.rows.get_mut(&id).filter(|row| row.seq <= seq) else { return };
        if row.is_own {
            (row.seq, row.version) = (seq.saturating_add(1), version);
        } else {
            row.behind = Some(seq);
        }
    }

    /// Somebody above has this version of a row for good.
    pub fn acked(&mut self, now_ns: u64, id: RowId, seq: u64) {
        let Some(row) = self.rows.get_mut(&id) else { return };
        if row.seq < seq {
            // The version that is safe may come here yet.
            row.acked = Some(seq);
            return self.behind(id, seq);
        }
        if row.seq > seq {
            return;
        }
        row.acked = Some(seq);
        if row.is_own && row.is_final {
            self.safe.push(id);
        }
        // Whoever brought it is to know before it goes.
        if let Some(group) = self.groups.get_mut(&row.group)
            && (group.closed_ns.is_some() || row.is_own && row.is_final)
        {
            group.closed_ns = Some(now_ns);
        }
    }

    /// Jobs that this daemon has counted to their end and that are safe above, since this was last asked.
    pub fn take_safe(&mut self) -> Vec<JobKey> {
        let safe = std::mem::take(&mut self.safe);
        // Some may have gone on since.
        let rows = safe.iter().filter_map(|id| self.rows.get(id)).filter(|row| row.is_acked());
        rows.map(|row| row.opened.key.clone()).collect()
    }

    /// Whether anything of others has come since this was last asked.
    pub fn take_has_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// Whether final rows of others have come since this was last asked.
    pub fn take_has_finals(&mut self) -> bool {
        std::mem::take(&mut self.has_finals)
    }

    /// A row.
    pub fn row(&self, id: RowId) -> Option<&HubRow> {
        self.rows.get(&id)
    }

    /// All rows.
    pub fn rows(&self) -> impl Iterator<Item = (RowId, &HubRow)> {
        self.rows.iter().map(|(id, row)| (*id, row))
    }

    pub(super) fn metric(&self, row: &HubRow, at: u32) -> Option<&Metric> {
        self.groups.get(&row.group)?.metrics.get(at as usize).map(Arc::as_ref)
    }

    fn counters(&self, row: &HubRow) -> Counters {
        let Some(group) = self.groups.get(&row.group) else { return Counters::default() };
        row.cells.iter().map(|(at, cell)| (Metric::clone(&group.metrics[*at as usize]), *cell)).collect()
    }

    /// Jobs of other nodes of which something is new, or whose nodes have fallen silent.
    pub fn changed(&self, now_ns: u64) -> Vec<Group> {
        let is_silent =
            |id: &RowId| self.rows.get(id).is_some_and(|row| !row.is_final && !row.is_live(now_ns));
        let has_changed = |of_group: &HubGroup| {
            of_group.closed_ns.is_none() && (of_group.is_changed || of_group.rows.iter().any(is_silent))
        };
        let others = self.by_group.iter().filter(|(group, _)| !group.is_own);
        let changed = others.filter(|(_, id)| self.groups.get(id).is_some_and(has_changed));
        changed.map(|(group, _)| group.clone()).collect()
    }

    /// Returns the state of a job of other nodes; after this, it is not new.
    pub fn news(&mut self, now_ns: u64, group: &Group) -> Option<GroupNews> {
        let of_group = self.groups.get_mut(self.by_group.get(group)?)?;
        of_group.is_changed = false;
        let rows: Vec<&HubRow> = of_group.rows.iter().filter_map(|id| self.rows.get(id)).collect();
        // An epoch ends with its node: a row of an earlier one waits for nothing if there is a later one.
        let mut last: BTreeMap<&Name, &HubRow> = BTreeMap::new();
        for row in &rows {
            let known = last.entry(&row.opened.node).or_insert(row);
            let age = |row: &HubRow| (row.opened.epoch, row.opened.key.start_ns);
            if age(row) > age(known) {
                *known = row;
            }
        }
        // Who speaks for the job: the lowest rank, else the node that first saw a program which does not only start others.
        let starts_others = |row: &HubRow| row.opened.about.starts_others();
        let standing =
            |row: &HubRow| (row.opened.rank.wrapping_sub(1), starts_others(row), row.opened.key.start_ns);
        let speaker = rows
            .iter()
            .min_by(|a, b| standing(a).cmp(&standing(b)).then_with(|| a.opened.node.cmp(&b.opened.node)))?;
        let n_ranks = rows.iter().map(|row| row.opened.n_ranks).max().filter(|&n| n > 0);
        let works = |row: &&&HubRow| starts_others(speaker) || !starts_others(row);
        let n_working: u32 =
            rows.iter().filter(works).map(|row| row.opened.about.size).fold(0, u32::saturating_add);
        let is_cgroup = rows.iter().all(|row| row.opened.about.trust == Trust::Cgroup);
        let silent = last.values().filter(|row| !row.is_final && !row.is_live(now_ns));
        let live = rows.iter().filter(|row| row.is_live(now_ns));
        Some(GroupNews {
            group: group.clone(),
            start_ns: rows.iter().map(|row| row.opened.key.start_ns).min().unwrap_or(0),
            about: About {
                size: n_ranks.unwrap_or(n_working),
                trust: if is_cgroup { Trust::Cgroup } else { Trust::Claimed },
                ..speaker.opened.about.clone()
            },
            n_ranks,
            sum: of_group
                .metrics
                .iter()
                .map(|metric| Metric::clone(metric))
                .zip(of_group.sum.iter().copied())
                .collect(),
            n_running: live.map(|row| row.n_running).fold(0, u32::saturating_add),
            n_live: last.values().filter(|row| row.is_live(now_ns)).count(),
            nodes: last.keys().map(|node| (*node).clone()).collect(),
            silent: silent.map(|row| row.opened.node.clone()).collect(),
            // Of rows that come from the store nobody knows when they were read.
            end_ns: (rows.iter().all(|row| row.is_final && row.at_ns > 0))
                .then(|| rows.iter().map(|row| row.at_ns).max())
                .flatten(),
            outlook: Outlook::merge(last.values().filter_map(|row| row.outlook)),
        })
    }

    /// Returns the counts of each node for a job, in the order of their names, and how many processes it has there.
    pub fn by_node(&self, group: &Group) -> BTreeMap<Name, (u32, Counters)> {
        let mut nodes: BTreeMap<Name, (u32, Counters)> = BTreeMap::new();
        let Some(of_group) = self.group(group) else { return nodes };
        for row in of_group.rows.iter().filter_map(|id| self.rows.get(id)) {
            let (n_running, counters) = nodes.entry(row.opened.node.clone()).or_default();
            *n_running = n_running.saturating_add(if row.is_final { 0 } else { row.n_running });
            counters.add_all(&self.counters(row));
        }
        nodes
    }

    /// Rows of a job of which the store is to have more than it has: new ones, final ones and, if `all`, all that have changed.
    pub fn to_store(&self, group: &Group, all: bool) -> Vec<KeptRow> {
        let Some(of_group) = self.group(group) else { return Vec::new() };
        let rows = of_group.rows.iter().filter_map(|id| self.rows.get(id));
        let is_new = |row: &&HubRow| match row.stored {
            None => true,
            Some((seq, was_final)) => {
                row.is_final && !was_final
                    || !row.is_final && was_final
                    || (row.is_final || all) && row.seq > seq
            }
        };
        let kept = rows.filter(is_new).map(|row| KeptRow {
            key: row.key(),
            seq: row.seq,
            is_final: row.is_final,
            counters: self.counters(row),
        });
        kept.collect()
    }

    /// The store has this version of a row.
    pub fn stored(&mut self, key: &RowKey, seq: u64, is_final: bool) {
        let Some(row) = self.by_key.get(key).and_then(|id| self.rows.get_mut(id)) else { return };
        row.stored = Some((seq, is_final));
        if self.is_root && is_final && row.is_final && row.seq == seq {
            row.acked = Some(seq);
        }
    }

    /// The store was begun anew, and has no row.
    pub fn store_was_lost(&mut self) {
        self.rows.values_mut().for_each(|row| row.stored = None);
    }

    /// Takes over rows that the store has of a job of which others have just come.
    pub fn restore(&mut self, now_ns: u64, group: &Group, about: &About, rows: Vec<KeptRow>) {
        for kept in rows {
            let RowKey { node, epoch, key } = &kept.key;
            let opened = Opened {
                node: node.clone(),
                epoch: *epoch,
                key: key.clone(),
                about: About { size: 0, ..about.clone() },
                is_local: group.id != key.id,
                rank: 0,
                n_ranks: 0,
            };
            let is_known = self.by_key.contains_key(&kept.key);
            let known = self.by_key.get(&kept.key).and_then(|id| self.rows.get(id));
            let opened = known.map_or_else(|| Arc::new(opened), |row| Arc::clone(&row.opened));
            let Ok(id) = self.open(now_ns, &opened, false) else { continue };
            self.raise_all(id, &kept.counters);
            if let Some(row) = self.rows.get_mut(&id) {
                row.stored = Some((kept.seq, kept.is_final));
                row.is_restored |= !is_known;
                if !is_known || kept.seq > row.seq {
                    (row.seq, row.is_final) = (kept.seq, kept.is_final);
                }
                // It came again because the first acknowledgement did not arrive.
                if self.is_root && row.is_final && kept.is_final && row.seq == kept.seq {
                    row.acked = Some(row.seq);
                }
            }
        }
    }

    /// Whether all that is known of a job is in the store, and nobody counts: nothing is new since its end.
    pub fn is_as_stored(&self, group: &Group) -> bool {
        self.group(group).is_some_and(|of_group| {
            of_group
                .rows
                .iter()
                .filter_map(|id| self.rows.get(id))
                .all(|row| row.stored == Some((row.seq, row.is_final)) && row.is_final)
        })
    }

    /// The end of a job is stored: its rows go once those who brought them know.
    pub fn closed(&mut self, now_ns: u64, group: &Group) {
        if let Some(of_group) = self.by_group.get(group).and_then(|id| self.groups.get_mut(id)) {
            of_group.closed_ns = Some(now_ns);
        }
    }

    /// Forgets what is done.
    pub fn tick(&mut self, now_ns: u64) {
        let is_done = |of_group: &HubGroup| {
            let waits = |row: &HubRow| row.is_final && !row.is_acked() && row.behind().is_none();
            of_group.closed_ns.is_some_and(|closed_ns| now_ns.saturating_sub(closed_ns) > LINGER_NS)
                && !of_group.rows.iter().filter_map(|id| self.rows.get(id)).any(waits)
        };
        let done: Vec<(Group, GroupId)> = self
            .by_group
            .iter()
            .filter(|(_, id)| self.groups.get(id).is_some_and(is_done))
            .map(|(group, id)| (group.clone(), *id))
            .collect();
        for (group, id) in done {
            self.by_group.remove(&group);
            let Some(of_group) = self.groups.remove(&id) else { continue };
            for id in of_group.rows {
                if let Some(row) = self.rows.remove(&id) {
                    self.by_key.remove(&row.key());
                    if let Some(n) = self.by_node.get_mut(&row.opened.node) {
                        *n -= 1;
                    }
                }
            }
        }
        self.by_node.retain(|_, n| *n > 0);
        self.shown_bytes = 0;
        for row in self.rows.values_mut().filter(|row| !row.shown.is_empty()) {
            row.shown.retain(|shown| now_ns.saturating_sub(shown.closed_ns) < LATE_NS);
            row.shown.shrink_to_fit();
            self.shown_bytes += row.shown.iter().map(Shown::n_bytes).sum::<usize>();
        }
        self.missed.forget_old(now_ns);
        self.nodes.retain(|_, node| node.silent_ns(now_ns) < FORGET_NODE_NS);
        if self.metrics.len() > 2 * self.n_metrics + 64 {
            self.metrics.retain(|metric| Arc::strong_count(metric) > 1);
            self.n_metrics = self.metrics.len();
        }
    }

    /// Takes note of a node.
    pub fn node_heard(&mut self, now_ns: u64, news: NodeNews) {
        let version = self.next_version();
        if self.nodes.len() < MOST_NODES || self.nodes.contains_key(&news.node) {
            // The same node may be told of by its former parent, later.
            let is_old = self.nodes.get(&news.node).is_some_and(|known| {
                known.news.parent != news.parent && known.silent_ns(now_ns) < news.silent_ns
            });
            if !is_old {
                self.nodes.insert(news.node.clone(), KnownNode { news, heard_ns: now_ns, version });
            }
        }
    }

    /// Returns the state of a node.
    pub fn node(&self, node: &str) -> Option<&KnownNode> {
        self.nodes.get(node)
    }

    /// All nodes that are known, this one too if it was told of.
    pub fn nodes(&self) -> impl Iterator<Item = &KnownNode> {
        self.nodes.values()
    }
}

fn share(metrics: &mut HashSet<Arc<Metric>>, metric: &Metric) -> Arc<Metric> {
    if let Some(known) = metrics.get(metric) {
        return Arc::clone(known);
    }
    let shared = Arc::new(metric.clone());
    metrics.insert(Arc::clone(&shared));
    shared
}

mod kept;
mod late;
#[cfg(test)]
mod tests;
