//! The policies by name, and the plain ones: first come first served and EASY.

use super::cluster::{Cluster, Decision};
use super::{balance, conservative, mebf, pool, tide};

/// How jobs are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum JobPolicy {
    /// Strictly in order.
    Fcfs,
    /// EASY backfilling (Lifka, 1995): the first of the queue has a reservation, others may start before it.
    Easy,
    /// The same, of those that may start before the head the shortest first.
    EasyShortest,
    /// Everyone has a reservation.
    Conservative,
    /// Malleable EASY backfilling of the ADMIRE project.
    Mebf(MebfWay, MebfForm),
    /// EASY where the scheduler chooses sizes at the start.
    EasyMoldable,
    /// Nodes go to who waits from who has most above what it prefers.
    CommonPool,
    /// All malleable jobs stand equally far between their least and their largest size.
    Average,
    /// Running jobs demand as much of the storage as the workload does on average.
    IoBalance,
    /// EASY where malleable jobs count as holding their least size; what they have above it is lent to who waits.
    Tide,
}

/// How much is given and taken at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MebfWay {
    /// Only what is substantial.
    HandOff,
    /// Everything.
    Aggressive,
    /// A part.
    KeepSpare,
}

/// As it is written, or as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MebfForm {
    /// As the paper has it.
    Literal,
    /// As the paper has it, in its second way: what has grown may be shrunk.
    Shrinkable,
    /// Corrected: true times, no harm to reservations, every kind of job is backfilled.
    Corrected,
}

/// Numbers that the paper leaves to whoever runs it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PolicyKnobs {
    /// γ: a job is shrunk if it takes at most this many times as long.
    pub gamma: f64,
    /// Share of its nodes that a job hands off.
    pub sharing_factor: f64,
    /// Share of its nodes that a job keeps to spare.
    pub limit: f64,
    /// A job with less than this share of its time left is left alone.
    pub soon: f64,
}

impl Default for PolicyKnobs {
    fn default() -> Self {
        Self { gamma: 2.0, sharing_factor: 0.5, limit: 0.3, soon: 0.25 }
    }
}

impl JobPolicy {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 16] = {
        use MebfForm::{Corrected, Literal, Shrinkable};
        use MebfWay::{Aggressive, HandOff, KeepSpare};
        [
            Self::Fcfs,
            Self::Easy,
            Self::EasyShortest,
            Self::Conservative,
            Self::Mebf(HandOff, Literal),
            Self::Mebf(Aggressive, Literal),
            Self::Mebf(Aggressive, Shrinkable),
            Self::Mebf(KeepSpare, Literal),
            Self::Mebf(HandOff, Corrected),
            Self::Mebf(Aggressive, Corrected),
            Self::Mebf(KeepSpare, Corrected),
            Self::EasyMoldable,
            Self::CommonPool,
            Self::Average,
            Self::IoBalance,
            Self::Tide,
        ]
    };

    /// The name people use.
    pub fn name(self) -> &'static str {
        use MebfForm::{Corrected, Literal, Shrinkable};
        match self {
            Self::Fcfs => "fcfs",
            Self::Easy => "easy",
            Self::EasyShortest => "easy-shortest",
            Self::Conservative => "conservative",
            Self::Mebf(MebfWay::HandOff, Literal | Shrinkable) => "mebf-hand-off",
            Self::Mebf(MebfWay::Aggressive, Literal) => "mebf-aggressive",
            Self::Mebf(MebfWay::Aggressive, Shrinkable) => "mebf-aggressive-shrinkable",
            Self::Mebf(MebfWay::KeepSpare, Literal | Shrinkable) => "mebf-keep-spare",
            Self::Mebf(MebfWay::HandOff, Corrected) => "mebf-hand-off+",
            Self::Mebf(MebfWay::Aggressive, Corrected) => "mebf-aggressive+",
            Self::Mebf(MebfWay::KeepSpare, Corrected) => "mebf-keep-spare+",
            Self::EasyMoldable => "easy-moldable",
            Self::CommonPool => "common-pool",
            Self::Average => "average",
            Self::IoBalance => "io-balance",
            Self::Tide => "tide",
        }
    }

    /// The policy that people mean by a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// Whether it changes the size of running jobs: without malleable jobs it has nothing to do.
    pub fn resizes(self) -> bool {
        match self {
            Self::Fcfs | Self::Easy | Self::EasyShortest | Self::Conservative | Self::EasyMoldable => false,
            Self::Mebf(..) | Self::CommonPool | Self::Average | Self::IoBalance | Self::Tide => true,
        }
    }

    /// Whether only malleable jobs are started before the first of the queue.
    fn fills_malleable_only(self) -> bool {
        matches!(self, Self::Mebf(_, MebfForm::Literal | MebfForm::Shrinkable))
    }
}

impl Cluster<'_> {
    /// Says under which policy jobs will wait. Before the first job is submitted.
    pub fn prepare(&mut self, policy: JobPolicy) {
        self.fills_malleable_only = policy.fills_malleable_only();
        self.fills_at_least_size = policy == JobPolicy::Tide;
    }

    /// When the head of the queue starts at the latest under a policy; `None` if nobody waits, or that cannot be foreseen.
    pub fn promise_ms(&self, policy: JobPolicy) -> Option<i64> {
        match policy {
            JobPolicy::Tide => tide::promise_ms(self),
            _ => self.reservation(self.jobs[self.head()?].nodes).at_ms,
        }
    }
}

/// Makes one pass: returns what starts and what is resized now, in this order. The cluster has changed accordingly.
pub fn schedule(
    cluster: &mut Cluster<'_>,
    policy: JobPolicy,
    knobs: &PolicyKnobs,
    now_ms: i64,
) -> Vec<Decision> {
    cluster.now_ms = now_ms;
    cluster.pass += 1;
    cluster.decisions.clear();
    match policy {
        JobPolicy::Fcfs => start_heads(cluster),
        JobPolicy::Easy => easy(cluster),
        JobPolicy::EasyShortest => easy_shortest(cluster),
        JobPolicy::Conservative => conservative::pass(cluster),
        JobPolicy::Mebf(way, form) => mebf::pass(cluster, way, form, knobs),
        JobPolicy::EasyMoldable => pool::easy_moldable(cluster),
        JobPolicy::CommonPool => pool::common_pool(cluster),
        JobPolicy::Average => pool::average(cluster),
        JobPolicy::IoBalance => balance::pass(cluster, knobs),
        JobPolicy::Tide => tide::pass(cluster),
    }
    std::mem::take(&mut cluster.decisions)
}

/// Starts the first of the queue while it fits.
pub(super) fn start_heads(cluster: &mut Cluster<'_>) {
    while let Some(head) = cluster.head() {
        let nodes = cluster.jobs[head].nodes;
        if nodes > cluster.free {
            break;
        }
        cluster.start(head, nodes);
    }
}

fn easy(cluster: &mut Cluster<'_>) {
    start_heads(cluster);
    while backfill(cluster) {}
}

fn easy_shortest(cluster: &mut Cluster<'_>) {
    start_heads(cluster);
    while let Some(head) = cluster.head().filter(|_| cluster.free > 0) {
        let reserved = cluster.reservation(cluster.jobs[head].nodes);
        let Some(rank) = cluster.waiting.shortest_in(&cluster.gap(reserved)) else { return };
        let job = cluster.at_rank(rank);
        cluster.start(job, cluster.jobs[job].nodes);
    }
}

/// Starts the first job that does not delay the head of the queue. Returns whether there was one.
pub(super) fn backfill(cluster: &mut Cluster<'_>) -> bool {
    let Some(head) = cluster.head().filter(|_| cluster.free > 0) else { return false };
    let reserved = cluster.reservation(cluster.jobs[head].nodes);
    let Some(rank) = cluster.waiting.first_in(&cluster.gap(reserved)) else { return false };
    let job = cluster.at_rank(rank);
    cluster.start(job, cluster.jobs[job].nodes);
    true
}
