//! One job: what is known of it, its rows, and whether it has ended.

use std::collections::BTreeMap;

use crate::counters::Counters;
use crate::identity::{Name, Trust};
use crate::ledger::Limits;
use crate::parameters::Parameters;

/// A node that has said nothing of a job for so long is taken for lost.
const SILENT_NS: u64 = 60_000_000_000;

/// What is known of a job beside its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The name of its user, or their number.
    pub user: Name,
    /// Which application it is a run of: see [`crate::app_id`], or the name that the user chose.
    pub app: Name,
    /// What people call it: the program's file name.
    pub name: Name,
    /// Its command line, cut where it is very long.
    pub command: String,
    /// The directory it runs in.
    pub run_dir: String,
    /// The partition of the scheduler; empty if there is none.
    pub partition: Name,
    /// The account that the scheduler charges; empty if there is none.
    pub account: Name,
    /// What the scheduler calls the job beside its id: `4711_3`, the third of an array; empty if there is nothing.
    pub alias: Name,
    /// How many processes it has: what the launcher says, or how many were seen.
    pub size: u32,
    /// Who says that it is this job.
    pub trust: Trust,
    /// Which binary ran: the digits of its build id, or what stands for one; empty if it is not known.
    pub build: Name,
    /// Its own parameters beside its size.
    pub parameters: Parameters,
}

/// Whether a job runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Life {
    /// It does.
    Running,
    /// It has ended, and all its counts are here.
    Ended {
        /// When, in nanoseconds since 1970.
        end_ns: u64,
    },
    /// It has ended as far as is known, but not all its counts are here.
    Partial {
        /// When the last was heard of it.
        end_ns: u64,
        /// The nodes whose counts may be incomplete.
        silent: Vec<Name>,
    },
}

impl Life {
    /// As it is shown and stored.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ended { .. } => "ended",
            Self::Partial { .. } => "partial",
        }
    }

    /// When it ended.
    pub fn end_ns(&self) -> Option<u64> {
        match self {
            Self::Running => None,
            Self::Ended { end_ns } | Self::Partial { end_ns, .. } => Some(*end_ns),
        }
    }
}

/// What a node has counted for a job since it was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// Grows with every row.
    pub seq: u64,
    /// When it was read, in nanoseconds since 1970.
    pub at_ns: u64,
    /// Cumulative counts.
    pub counters: Counters,
    /// Whether no more will come: all processes have ended and were counted to the end.
    pub is_final: bool,
}

/// A job, as the rows of its nodes tell.
#[derive(Clone, Debug)]
pub struct Job {
    /// What is known of it.
    pub about: About,
    rows: BTreeMap<(Name, u64), Row>,
    n_refused: u64,
}

impl Job {
    /// Returns a job without any rows.
    pub fn new(about: About) -> Self {
        Self { about, rows: BTreeMap::new(), n_refused: 0 }
    }

    /// Takes over a row of (node, epoch).
    ///
    /// Counts are cumulative within an epoch, so the larger of two values of a cell is the later one. In whichever order rows come, and however
    /// often, the outcome is the same; no sum ever falls.
    pub fn merge(&mut self, node: &Name, epoch: u64, row: &Row, limits: &Limits) {
        let own = self.rows.entry((node.clone(), epoch)).or_default();
        self.n_refused += own.counters.raise_all(&row.counters, limits);
        if row.seq >= own.seq {
            // Of rows with one number, the final one is the later.
            own.is_final = row.is_final || row.seq == own.seq && own.is_final;
            own.seq = row.seq;
        }
        own.at_ns = own.at_ns.max(row.at_ns);
    }

    /// The sum over all nodes and epochs.
    pub fn sum(&self) -> Counters {
        let mut sum = Counters::default();
        self.rows.values().for_each(|row| sum.add_all(&row.counters));
        sum
    }

    /// The sum over the epochs of each node.
    pub fn by_node(&self) -> BTreeMap<&Name, Counters> {
        let mut nodes: BTreeMap<&Name, Counters> = BTreeMap::new();
        for ((node, _), row) in &self.rows {
            nodes.entry(node).or_default().add_all(&row.counters);
        }
        nodes
    }

    /// How many values were refused because there were too many metrics.
    pub fn n_refused(&self) -> u64 {
        self.n_refused
    }

    /// Whether it runs. A late final row amends what was partial.
    pub fn life(&self, now_ns: u64) -> Life {
        // An epoch ends with its node: rows of earlier epochs wait for nothing.
        let mut last: BTreeMap<&Name, &Row> = BTreeMap::new();
        for ((node, _), row) in &self.rows {
            last.insert(node, row);
        }
        let end_ns = self.rows.values().map(|row| row.at_ns).max().unwrap_or(0);
        let is_silent = |row: &Row| !row.is_final && now_ns.saturating_sub(row.at_ns) > SILENT_NS;
        if !last.is_empty() && last.values().all(|row| row.is_final) {
            Life::Ended { end_ns }
        } else if last.values().any(|row| !row.is_final && !is_silent(row)) || last.is_empty() {
            Life::Running
        } else {
            let silent = last.iter().filter(|(_, row)| is_silent(row)).map(|(node, _)| (*node).clone());
            Life::Partial { end_ns, silent: silent.collect() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::{Cell, Metric};
    use proptest::prelude::*;

    fn about() -> About {
        About { size: 1, ..About::default() }
    }

    fn node(index: u8) -> Name {
        Name::cut(format!("n{index}").as_bytes())
    }

    fn row(seq: u64, calls: u64, at_s: u64, is_final: bool) -> Row {
        let metric = Metric::Mpi { function: Name::cut(b"MPI_Send") };
        let counters = [(metric, Cell { calls, bytes: 10 * calls, ns: calls / 2 })].into_iter().collect();
        Row { seq, at_ns: at_s * 1_000_000_000, counters, is_final }
    }

    #[test]
    fn a_job_ends_when_all_nodes_say_so_and_is_partial_when_one_falls_silent() {
        let mut job = Job::new(about());
        assert_eq!(job.life(0), Life::Running);
        job.merge(&node(1), 7, &row(1, 5, 10, false), &Limits::default());
        job.merge(&node(2), 3, &row(1, 5, 10, false), &Limits::default());
        job.merge(&node(1), 7, &row(2, 6, 11, true), &Limits::default());
        assert_eq!(job.life(20_000_000_000), Life::Running);
        let end_ns = 11_000_000_000;
        assert_eq!(job.life(80_000_000_000), Life::Partial { end_ns, silent: vec![node(2)] });
        job.merge(&node(2), 3, &row(2, 9, 12, true), &Limits::default());
        assert_eq!(job.life(80_000_000_000), Life::Ended { end_ns: 12_000_000_000 });
        assert_eq!(job.sum().mpi().calls, 15);
        // A node that was restarted does not wait for its former self.
        job.merge(&node(2), 4, &row(1, 1, 90, false), &Limits::default());
        assert_eq!(job.life(91_000_000_000), Life::Running);
        assert_eq!(job.sum().mpi().calls, 16);
        assert_eq!(job.by_node()[&node(2)].mpi().calls, 10);
    }

    #[test]
    fn a_job_that_goes_on_after_its_end_runs_again() {
        let mut job = Job::new(about());
        job.merge(&node(1), 7, &row(1, 5, 10, true), &Limits::default());
        assert_eq!(job.life(11_000_000_000), Life::Ended { end_ns: 10_000_000_000 });
        job.merge(&node(1), 7, &row(2, 5, 12, false), &Limits::default());
        assert_eq!(job.life(13_000_000_000), Life::Running);
    }

    #[test]
    fn metrics_beyond_the_limit_are_refused_and_counted() {
        let mut job = Job::new(about());
        let metric =
            |i: u32| Metric::Own { name: Name::cut(i.to_string().as_bytes()), unit: Name::default() };
        let counters = (0..10).map(|i| (metric(i), Cell { calls: 1, bytes: 0, ns: 0 })).collect();
        job.merge(
            &node(1),
            0,
            &Row { counters, ..Row::default() },
            &Limits { metrics: 4, ..Limits::default() },
        );
        assert_eq!((job.sum().len(), job.n_refused()), (4, 6));
        let counters = (0..10).map(|i| (metric(i), Cell::default())).collect();
        job.merge(
            &node(2),
            0,
            &Row { counters, ..Row::default() },
            &Limits { own_metrics: 3, ..Limits::default() },
        );
        assert_eq!(job.n_refused(), 6 + 7);
    }

    proptest! {
        /// Each node counts upwards; its rows arrive in any order, several times, some never. The sum is that of the last rows that
        /// arrived, whatever came between, and never falls.
        #[test]
        fn no_order_and_no_repetition_changes_a_sum(
            steps in prop::collection::vec((0u8..4, 0u64..3, 0u64..1000), 1..60),
            order in prop::collection::vec((any::<prop::sample::Index>(), 1usize..3), 1..120),
        ) {
            let mut totals: BTreeMap<(u8, u64), (u64, u64)> = BTreeMap::new();
            let mut rows = Vec::new();
            for (node, epoch, calls) in steps {
                let (seq, total) = totals.entry((node, epoch)).or_default();
                (*seq, *total) = (*seq + 1, *total + calls);
                rows.push((node, epoch, row(*seq, *total, *seq, false)));
            }
            let mut job = Job::new(about());
            let mut arrived: BTreeMap<(u8, u64), u64> = BTreeMap::new();
            let mut before = 0;
            for (index, times) in order {
                let (number, epoch, row) = index.get(&rows);
                for _ in 0..times {
                    job.merge(&node(*number), *epoch, row, &Limits::default());
                }
                let newest = arrived.entry((*number, *epoch)).or_default();
                *newest = row.counters.mpi().calls.max(*newest);
                let sum = job.sum().mpi();
                prop_assert!(sum.calls >= before);
                prop_assert_eq!(sum.calls, arrived.values().sum::<u64>());
                prop_assert_eq!(sum.bytes, 10 * sum.calls);
                before = sum.calls;
            }
        }
    }
}
