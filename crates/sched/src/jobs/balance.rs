//! `io-balance`: what runs is to ask the storage for as much as the whole workload does on average.
//!
//! ADMIRE's concept (D5.5, section 4.1) on top of the corrected aggressive policy: of jobs that may be filled in, and of sizes that a job may
//! grow to, the one is taken that brings the intensity of the system nearest to that of the workload. Intensities are bytes per
//! node-second. Jobs whose I/O is not known are left out of both.
//!
//! Where the storage is malleable, too, either side may change: it grows by nodes that nobody needs while what runs asks for more than it gives comfortably, and gives nodes back
//! to who waits, down to what running jobs need; what it has above its usual number it gives back in any case, so that the queue can count on the rest.

use super::cluster::Cluster;
use super::mebf::{self, Chooser, Rules};
use super::policy::{MebfForm, MebfWay, PolicyKnobs, start_heads};

/// A shrink is worth it if it closes the distance by more than this share of the workload's intensity.
const WORTH: f64 = 0.05;

/// Sums over running jobs, and the goal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Balance {
    /// Σ V/t(a), in bytes per millisecond.
    bytes_per_ms: f64,
    /// Σ a over the same jobs.
    nodes: f64,
    /// The intensity of the workload.
    goal: f64,
}

impl Balance {
    fn of(cluster: &Cluster<'_>) -> Option<Self> {
        let (mut bytes, mut node_ms) = (0.0, 0.0);
        let mut balance = Self { bytes_per_ms: 0.0, nodes: 0.0, goal: 0.0 };
        for job in cluster.running() {
            let at = &cluster.jobs[job];
            let (Some(volume), Some(run)) = (at.believed_io(), cluster.run(job)) else { continue };
            let left = at.left(run.done(cluster.now_ms));
            bytes += left * volume;
            node_ms += left * f64::from(at.nodes) * at.believed_ms(at.nodes);
            balance.add(volume, at.believed_ms(run.nodes), run.nodes);
        }
        for job in cluster.waiting() {
            let at = &cluster.jobs[job];
            let Some(volume) = at.believed_io() else { continue };
            bytes += volume;
            node_ms += f64::from(at.nodes) * at.believed_ms(at.nodes);
        }
        (node_ms > 0.0).then(|| Self { goal: bytes / node_ms, ..balance })
    }

    fn add(&mut self, volume: f64, time_ms: f64, nodes: u32) {
        if time_ms > 0.0 {
            self.bytes_per_ms += volume / time_ms;
            self.nodes += f64::from(nodes);
        }
    }

    /// How far the system is from the workload.
    fn distance(&self) -> f64 {
        let system = if self.nodes > 0.0 { self.bytes_per_ms / self.nodes } else { 0.0 };
        (self.goal - system).abs()
    }

    /// How far it would be if a job went from one size to another; from 0 is a start.
    fn distance_with(&self, cluster: &Cluster<'_>, job: usize, from: u32, to: u32) -> f64 {
        let at = &cluster.jobs[job];
        let Some(volume) = at.believed_io() else { return self.distance() };
        let mut then = *self;
        if from > 0 && at.believed_ms(from) > 0.0 {
            then.bytes_per_ms -= volume / at.believed_ms(from);
            then.nodes -= f64::from(from);
        }
        then.add(volume, at.believed_ms(to), to);
        then.distance()
    }
}

pub(super) fn pass(cluster: &mut Cluster<'_>, knobs: &PolicyKnobs) {
    let rules = Rules { way: MebfWay::Aggressive, form: MebfForm::Corrected, knobs };
    loop {
        start_heads(cluster);
        let Some(head) = cluster.head() else { break };
        if fill_in(cluster, head) || give_from_storage(cluster, head) || rules.shrink_for(cluster, head) {
            continue;
        }
        break;
    }
    grow_storage(cluster);
    if cluster.free > 0 {
        rules.expand(cluster, &BalancedGrowth);
    }
    shrink_for_balance(cluster, &rules);
}

/// Starts the eligible job that brings the system nearest to the workload; of equals the first.
fn fill_in(cluster: &mut Cluster<'_>, head: usize) -> bool {
    if cluster.free == 0 {
        return false;
    }
    let gap = cluster.gap(cluster.reservation(cluster.jobs[head].nodes));
    let balance = Balance::of(cluster);
    let mut best: Option<(f64, usize)> = None;
    for job in cluster.waiting().skip(1) {
        let at = &cluster.jobs[job];
        if !gap.fits(at.nodes, at.limit_ms(at.nodes)) {
            continue;
        }
        let distance = balance.map_or(0.0, |balance| balance.distance_with(cluster, job, 0, at.nodes));
        if best.is_none_or(|(least, _)| distance < least) {
            best = Some((distance, job));
        }
    }
    let Some((_, job)) = best else { return false };
    cluster.start(job, cluster.jobs[job].nodes);
    true
}

/// Returns the demand of running jobs on the storage, in bytes per second.
fn demand_bps(cluster: &Cluster<'_>) -> f64 {
    let running = cluster.running().filter_map(|job| Some((&cluster.jobs[job], cluster.run(job)?.nodes)));
    let bytes_per_ms = running.filter_map(|(at, nodes)| {
        let time_ms = at.believed_ms(nodes);
        at.believed_io().filter(|_| time_ms > 0.0).map(|volume| volume / time_ms)
    });
    1e3 * bytes_per_ms.sum::<f64>()
}

/// Takes nodes from the storage if the head of the queue can start on them.
fn give_from_storage(cluster: &mut Cluster<'_>, head: usize) -> bool {
    let Some(io_nodes) = &cluster.io_nodes else { return false };
    let nodes = cluster.jobs[head].nodes;
    let need = nodes.saturating_sub(cluster.free);
    let keeps = io_nodes.wanted(demand_bps(cluster)).min(io_nodes.usual);
    let now = io_nodes.now;
    if need == 0 || now.saturating_sub(keeps) < need {
        return false;
    }
    cluster.resize_storage(now - need);
    cluster.start(head, nodes);
    true
}

/// Gives the storage nodes that nobody needs, while running jobs ask for more than it gives comfortably.
fn grow_storage(cluster: &mut Cluster<'_>) {
    let Some(io_nodes) = &cluster.io_nodes else { return };
    let now = io_nodes.now;
    let wanted = io_nodes.wanted(demand_bps(cluster));
    let spare = match cluster.head() {
        Some(head) => cluster.reservation(cluster.jobs[head].nodes).extra.min(cluster.free),
        None => cluster.free,
    };
    let growth = wanted.saturating_sub(now).min(spare);
    if growth > 0 {
        cluster.resize_storage(now + growth);
    }
}

struct BalancedGrowth;

impl Chooser for BalancedGrowth {
    /// The growth up to the bound that brings the system nearest to the workload; of equals the largest.
    fn choose(&self, cluster: &Cluster<'_>, job: usize, bound: u32) -> u32 {
        let Some(balance) = Balance::of(cluster) else { return bound };
        let held = cluster.nodes_of(job);
        let distance = |growth: u32| balance.distance_with(cluster, job, held, held + growth);
        (1..=bound).rev().min_by(|&a, &b| distance(a).total_cmp(&distance(b))).unwrap_or(0)
    }
}

/// Takes nodes from one running job if others wait for them and the balance gains enough.
fn shrink_for_balance(cluster: &mut Cluster<'_>, rules: &Rules<'_>) {
    let (Some(balance), Some(_)) = (Balance::of(cluster), cluster.head()) else { return };
    let mut best: Option<(f64, usize, u32)> = None;
    for &rank in cluster.malleable.iter().rev() {
        let job = cluster.at_rank(rank);
        let at = &cluster.jobs[job];
        let Some(run) = cluster.run(job).filter(|_| at.io_bytes.is_some()) else { continue };
        for to in at.nodes_min..run.nodes {
            let distance = balance.distance_with(cluster, job, run.nodes, to);
            let is_better = best.is_none_or(|(least, ..)| distance < least);
            if is_better && rules.may_give(cluster, at, run, run.nodes - to) {
                best = Some((distance, job, to));
            }
        }
    }
    if let Some((distance, job, to)) = best
        && balance.distance() - distance > WORTH * balance.goal
    {
        cluster.resize(job, to);
        mebf::start_filled(cluster);
    }
}
