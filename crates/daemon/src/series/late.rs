//! Late counts from daemons below, held until all of them are there.

use std::collections::HashMap;
use std::sync::Arc;

use iotide_ledger::series::{Amendment, Columns, Sample, samples_of_job};

use super::{DAY_S, Owner, column_of};
use crate::gather::LateJob;

/// Nothing has come for so many seconds: then all that was missed is there.
const QUIET_S: u64 = 2;
/// Longer than this nobody waits.
const MOST_S: u64 = 10;

/// Late counts, by their owner.
#[derive(Debug, Default)]
pub(super) struct LateSamples(HashMap<Owner, Waiting>);

/// Late counts of one owner.
#[derive(Debug)]
pub struct Waiting {
    first_s: u64,
    last_s: u64,
    until_s: u64,
    growth: Vec<LateJob>,
}

impl LateSamples {
    /// Takes something in: it belongs to the job and to the machines together.
    pub fn take(&mut self, now_s: u64, late: &LateJob) {
        self.add(now_s, Owner::Job(late.key.clone()), late.clone());
        for day in late.from_s / DAY_S..=(late.until_s - 1).max(late.from_s) / DAY_S {
            let of_day = LateJob {
                from_s: late.from_s.max(day * DAY_S),
                until_s: late.until_s.min((day + 1) * DAY_S),
                ..late.clone()
            };
            self.add(now_s, Owner::Tree { day }, of_day);
        }
    }

    fn add(&mut self, now_s: u64, owner: Owner, late: LateJob) {
        let new = || Waiting { first_s: now_s, last_s: now_s, until_s: 0, growth: Vec::new() };
        let waiting = self.0.entry(owner).or_insert_with(new);
        (waiting.last_s, waiting.until_s) = (now_s, waiting.until_s.max(late.until_s));
        waiting.growth.push(late);
    }

    /// Takes out what is due.
    pub(super) fn take_due(&mut self, is_due: impl Fn(&Waiting) -> bool) -> Vec<(Owner, Waiting)> {
        self.0.extract_if(|_, waiting| is_due(waiting)).collect()
    }
}

impl Waiting {
    /// Whether nothing more is to be expected, and there is a sample that has all of it.
    pub(super) fn is_ripe(&self, now_s: u64) -> bool {
        let is_quiet = now_s >= self.last_s + QUIET_S || now_s >= self.first_s + MOST_S;
        is_quiet && now_s > self.until_s
    }

    /// Returns the growth of columns, which are found by their names.
    pub(super) fn amendment(&self, columns: &mut Arc<Columns>) -> Amendment {
        let mut amendment = Amendment::default();
        for LateJob { from_s, until_s, added, .. } in &self.growth {
            for (name, sample) in samples_of_job(added, 0) {
                // What has not grown is no reason for a new column.
                let Sample::Counter(value @ 1..) = sample else { continue };
                if let Some(id) = column_of(columns, &name, sample) {
                    amendment.add((*from_s, *until_s), id, value);
                }
            }
        }
        amendment
    }
}
