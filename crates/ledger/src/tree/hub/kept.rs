//! Versions that nobody above has, in a form that outlives the daemon.
//!
//! It is that of a connection: metrics and rows get numbers, then come the versions. So what is stored is read by the decoder of the tree.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Hub, RowId, RowKey};
use crate::tree::frame::{Change, Frame, MOST_ROWS, MissedFrame, RowFrame, Values, Whole, split, write_row};
use crate::tree::missed::Version;
use crate::{Cell, Metric};

impl Hub {
    /// Versions of rows that somebody above may not have, as bytes for [`Self::restore_versions`].
    pub fn kept_versions(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let mut rows: HashMap<RowId, u32> = HashMap::new();
        let mut metrics: HashMap<&Metric, u32> = HashMap::new();
        for version in self.missed.versions() {
            let Some(row) = self.rows.get(&version.row) else { continue };
            let n_rows = rows.len() as u32;
            let number = *rows.entry(version.row).or_insert_with(|| {
                Frame::Open { number: n_rows, row: Arc::clone(&row.opened) }.write(&mut out);
                let mut changes = Vec::new();
                for (slot, (at, _)) in (0..).zip(&row.cells) {
                    let Some(metric) = self.metric(row, *at) else { break };
                    let n_metrics = metrics.len() as u32;
                    let number = *metrics.entry(metric).or_insert_with(|| {
                        Frame::Metric { number: n_metrics, metric: metric.clone() }.write(&mut out);
                        n_metrics
                    });
                    changes.push(Change { slot, metric: Some(number), added: Cell::default() });
                }
                // It says which cells there are; what they have now, the store has elsewhere.
                let head = RowFrame {
                    number: n_rows,
                    seq: 0,
                    at_ns: 0,
                    is_final: false,
                    n_running: 0,
                    changes: Default::default(),
                };
                write_row(&mut out, &head, changes.into_iter());
                n_rows
            });
            let &Version { seq, after, at_ns, .. } = version;
            Frame::Missed(MissedFrame { number, seq, after, at_ns, values: version.values.changes() })
                .write(&mut out);
        }
        out
    }

    /// Takes back what [`Self::kept_versions`] had, for rows that are open. What is damaged, and all behind it, is left out; returns whether nothing was.
    pub fn restore_versions(&mut self, now_ns: u64, mut bytes: &[u8]) -> bool {
        // Another daemon than the next one above may have what was before, and bring it yet.
        self.rows.values_mut().filter(|row| row.is_own).for_each(|row| row.is_after_silence = true);
        let mut metrics: Vec<Metric> = Vec::new();
        // Of each row its number here, if it is known, and where its cells are.
        let mut rows: HashMap<u32, (Option<RowId>, Vec<Option<u32>>)> = HashMap::new();
        while !bytes.is_empty() {
            let Ok(Some(Whole { kind, body, n_bytes })) = split(bytes) else { return false };
            bytes = &bytes[n_bytes..];
            match Frame::read(kind, body) {
                Ok(Some(Frame::Metric { metric, .. })) => metrics.push(metric),
                Ok(Some(Frame::Open { number, row })) if number < MOST_ROWS => {
                    rows.insert(number, (self.by_key.get(&RowKey::of(&row)).copied(), Vec::new()));
                }
                Ok(Some(Frame::Row(row))) => {
                    let Some((id, cells)) = rows.get_mut(&row.number) else { return false };
                    for change in row.changes {
                        let metric = change.ok().and_then(|change| metrics.get(change.metric? as usize));
                        let Some(metric) = metric else { return false };
                        cells.push(id.and_then(|id| self.cell_of(id, metric)));
                    }
                }
                Ok(Some(Frame::Missed(missed))) => {
                    let Some((id, cells)) = rows.get(&missed.number) else { return false };
                    let Some(values) = values_of(&missed, cells) else { return false };
                    if let Some((row, of_row)) = id.and_then(|id| Some((id, self.rows.get_mut(&id)?))) {
                        let MissedFrame { seq, after, at_ns, .. } = missed;
                        let version = Version { row, seq, after, at_ns, kept_ns: now_ns, values };
                        (of_row.kept_at, of_row.kept_seq) = (Some(self.missed.push(version)), seq);
                    }
                }
                _ => return false,
            }
        }
        true
    }

    /// Since when there is something that nobody above is known to have.
    pub fn kept_since_ns(&self) -> Option<u64> {
        self.missed.versions().next().map(|version| version.kept_ns)
    }

    /// About how many bytes that takes.
    pub fn kept_bytes(&self) -> usize {
        self.missed.n_bytes()
    }
}

/// The values of a version by the places that its cells have now; `None` if they are damaged.
fn values_of(missed: &MissedFrame<'_>, cells: &[Option<u32>]) -> Option<Values> {
    let mut values: Vec<(u32, Cell)> = Vec::new();
    for value in missed.values {
        let Change { slot, added: value, .. } = value.ok()?;
        values.extend(cells.get(slot as usize)?.map(|cell| (cell, value)));
    }
    Some(Values::of(values))
}
