//! Malleable EASY backfilling (ADMIRE, deliverable D5.5, section 4.1), as it is written and corrected.

use super::cluster::{Change, Cluster, JobRun};
use super::job::BatchJob;
use super::policy::{MebfForm, MebfWay, PolicyKnobs, backfill, start_heads};

/// Shares and ratios are compared with this to spare.
const SPARE: f64 = 1e-9;

pub(super) fn pass(cluster: &mut Cluster<'_>, way: MebfWay, form: MebfForm, knobs: &PolicyKnobs) {
    let rules = Rules { way, form, knobs };
    loop {
        start_heads(cluster);
        let Some(head) = cluster.head() else { break };
        if backfill(cluster) {
            continue;
        }
        let may_shrink = cluster.free == 0 || form == MebfForm::Corrected;
        if may_shrink && rules.shrink_for(cluster, head) {
            continue;
        }
        break;
    }
    if cluster.free > 0 {
        rules.expand(cluster, &All);
    }
}

/// Starts what fits now that nodes have become free.
pub(super) fn start_filled(cluster: &mut Cluster<'_>) {
    start_heads(cluster);
    while backfill(cluster) {}
}

/// How much of what a job may grow by it is given.
pub(super) trait Chooser {
    fn choose(&self, cluster: &Cluster<'_>, job: usize, bound: u32) -> u32;
}

struct All;

impl Chooser for All {
    fn choose(&self, _: &Cluster<'_>, _: usize, bound: u32) -> u32 {
        bound
    }
}

pub(super) struct Rules<'a> {
    pub(super) way: MebfWay,
    pub(super) form: MebfForm,
    pub(super) knobs: &'a PolicyKnobs,
}

impl Rules<'_> {
    fn is_corrected(&self) -> bool {
        self.form == MebfForm::Corrected
    }

    /// Shrinks running jobs so that the head of the queue can start, if enough can be had; else leaves all as they are.
    pub(super) fn shrink_for(&self, cluster: &mut Cluster<'_>, head: usize) -> bool {
        let head_nodes = cluster.jobs[head].nodes;
        let mut need = head_nodes - cluster.free;
        let mut taken: Vec<(usize, u32)> = Vec::new();
        for &rank in cluster.malleable.iter().rev() {
            let job = cluster.at_rank(rank);
            let Some(run) = cluster.run(job) else { continue };
            let granted = self.granted(cluster, head, job, run, need);
            if granted > 0 {
                taken.push((job, run.nodes - granted));
                need -= granted;
                if need == 0 {
                    break;
                }
            }
        }
        if need > 0 {
            return false;
        }
        for (job, to) in taken {
            cluster.resize(job, to);
        }
        cluster.start(head, head_nodes);
        true
    }

    /// How many nodes a running job gives to the head of the queue, which needs so many.
    fn granted(&self, cluster: &Cluster<'_>, head: usize, job: usize, run: &JobRun, need: u32) -> u32 {
        let at = &cluster.jobs[job];
        let is_taken = run.started_in == cluster.pass || run.resized_in == cluster.pass || !run.is_open;
        if is_taken || !self.may_shrink(run) {
            return 0;
        }
        let is_lower = at.priority < cluster.jobs[head].priority;
        let lent = if self.is_corrected() { run.nodes.saturating_sub(at.nodes) } else { 0 };
        let limit = if is_lower { self.share(at, run.nodes).max(lent) } else { lent };
        let granted = need.min(limit);
        let done = run.done(cluster.now_ms);
        if granted == 0 || at.left(done) <= self.knobs.soon {
            return 0;
        }
        let to = run.nodes - granted;
        let keeps_preferred = self.is_corrected() && to >= at.nodes;
        if keeps_preferred
            || self.lengthening(cluster, at, done, run.nodes, granted) <= self.knobs.gamma + SPARE
        {
            granted
        } else {
            0
        }
    }

    /// Whether a job may give so many nodes for another reason than somebody's need.
    pub(super) fn may_give(&self, cluster: &Cluster<'_>, at: &BatchJob, run: &JobRun, given: u32) -> bool {
        let done = run.done(cluster.now_ms);
        run.is_open
            && run.started_in != cluster.pass
            && run.resized_in != cluster.pass
            && at.left(done) > self.knobs.soon
            && run.nodes - given >= at.nodes
            && self.lengthening(cluster, at, done, run.nodes, given) <= self.knobs.gamma + SPARE
    }

    fn may_shrink(&self, run: &JobRun) -> bool {
        match self.form {
            MebfForm::Corrected => true,
            MebfForm::Literal => run.first_change.is_none(),
            MebfForm::Shrinkable => run.first_change != Some(Change::Shrunk),
        }
    }

    /// Returns the number of nodes it may give to jobs of higher priority.
    fn share(&self, at: &BatchJob, nodes: u32) -> u32 {
        let most = nodes.saturating_sub(at.nodes_min);
        let share = match self.way {
            MebfWay::HandOff => f64::from(nodes) * self.knobs.sharing_factor,
            MebfWay::Aggressive => return most,
            MebfWay::KeepSpare => f64::from(nodes) * self.knobs.limit,
        };
        most.min((share + SPARE).floor() as u32)
    }

    /// How many times as long the rest takes if so many nodes are granted.
    fn lengthening(&self, cluster: &Cluster<'_>, at: &BatchJob, done: f64, nodes: u32, granted: u32) -> f64 {
        let rest_ms = at.remaining_ms(done, nodes);
        let after_ms = if self.is_corrected() {
            at.remaining_ms(done, nodes - granted)
        } else {
            rest_ms + f64::from(granted) / f64::from(nodes) * rest_ms
        };
        (after_ms + cluster.cost.of(granted)) / rest_ms
    }

    /// Gives free nodes to running jobs.
    pub(super) fn expand(&self, cluster: &mut Cluster<'_>, chooser: &dyn Chooser) {
        let mut candidates: Vec<(f64, i64, u32)> = Vec::new();
        for &rank in &cluster.malleable {
            let job = cluster.at_rank(rank);
            let Some(run) = cluster.run(job) else { continue };
            if run.nodes < cluster.jobs[job].nodes_max && self.may_expand(cluster, job, run) {
                let gain = if self.is_corrected() { run.gain } else { 0.0 };
                candidates.push((-gain, run.start_ms, rank));
            }
        }
        candidates.sort_by(|a, b| a.0.total_cmp(&b.0).then((a.1, a.2).cmp(&(b.1, b.2))));
        for (_, _, rank) in candidates {
            if cluster.free == 0 {
                break;
            }
            let job = cluster.at_rank(rank);
            let granted = self.growth(cluster, job, chooser);
            if granted > 0 {
                let to = cluster.nodes_of(job) + granted;
                cluster.resize(job, to);
            }
        }
    }

    fn may_expand(&self, cluster: &Cluster<'_>, job: usize, run: &JobRun) -> bool {
        let is_free_again = match (self.form, self.way) {
            (MebfForm::Corrected, _) => true,
            (_, MebfWay::Aggressive) => run.first_change != Some(Change::Shrunk),
            _ => run.first_change.is_none(),
        };
        is_free_again
            && run.resized_in != cluster.pass
            && run.is_open
            && cluster.jobs[job].left(run.done(cluster.now_ms)) > self.knobs.soon
    }

    /// By how many nodes a job grows.
    fn growth(&self, cluster: &Cluster<'_>, job: usize, chooser: &dyn Chooser) -> u32 {
        let at = &cluster.jobs[job];
        let Some(run) = cluster.run(job) else { return 0 };
        let held = run.nodes;
        let room = at.nodes_max - held;
        let mut growth = match self.way {
            MebfWay::HandOff => Some(cluster.free.saturating_sub(held).min(room)).filter(|&n| n > held),
            MebfWay::Aggressive => Some(room.min(cluster.free)),
            MebfWay::KeepSpare => Some(room.min(cluster.free)).filter(|&most| most > held).map(|most| {
                (f64::from(most) - self.knobs.limit * f64::from(held) + SPARE).floor().max(0.0) as u32
            }),
        }
        .unwrap_or(0);
        if self.is_corrected() && growth > 0 {
            growth = unharmful(cluster, at, run, growth);
        }
        if growth > 0 {
            growth = chooser.choose(cluster, job, growth);
        }
        let done = run.done(cluster.now_ms);
        let now_ms = at.remaining_ms(done, held);
        let then_ms = at.remaining_ms(done, held + growth) + cluster.cost.of(growth);
        // Times are compared to a millionth of a second.
        if growth > 0 && then_ms < now_ms - 1e-3 { growth } else { 0 }
    }
}

/// The part of a growth that leaves the head of the queue its reservation.
pub(super) fn unharmful(cluster: &Cluster<'_>, at: &BatchJob, run: &JobRun, growth: u32) -> u32 {
    let Some(head) = cluster.head() else { return growth };
    let reserved = cluster.reservation(cluster.jobs[head].nodes);
    let Some(shadow_ms) = reserved.at_ms else { return growth };
    if run.limit_end_after(at, cluster.now_ms, run.nodes + growth, cluster.cost) <= shadow_ms {
        growth
    } else if run.limit_end_ms <= shadow_ms {
        0
    } else {
        growth.min(reserved.extra)
    }
}
