//! `tide`: nodes ebb from running malleable jobs so that others can start, and flow back when nobody can use them.
//!
//! EASY, where a running malleable job counts as holding its least size only: the rest is at the disposal of who waits. So
//!
//! 1. whoever is next in the queue starts as soon as its least size can be had, and others start before it by EASY's rule, the shortest
//!    first (Tsafrir, Etsion & Feitelson, 2007);
//! 2. what these need beyond the free nodes is taken, node by node, from who holds most above its least size;
//! 3. what is free after that goes, node by node, to who stands lowest and gains by it.
//!
//! The reservation of the head of the queue is reckoned as if every malleable job ran at its least size from now on. Whatever is lent,
//! taken back or given can only make it earlier; that is why lending costs nobody a promise, and why backfilling, for which lent nodes
//! are out of reach in the MEBF policies, reaches them here. Pauses for resizing are not foreseen: a promise may move by those.

use super::cluster::Cluster;
use super::job::{BatchJob, JobKind};
use super::plan::{Plan, Planned};
use super::waiting::Gap;

/// The size at which a job starts while others wait.
pub(super) fn least_size(job: &BatchJob) -> u32 {
    if job.kind == JobKind::Malleable { job.nodes_min } else { job.nodes }
}

pub(super) fn pass(cluster: &mut Cluster<'_>) {
    let mut plan = Plan::of(cluster);
    let mut disposable = plan.free + plan.jobs.iter().map(|planned| planned.nodes - planned.min).sum::<u32>();
    let starts = starts(cluster, &mut disposable);
    let wanted: u32 = starts.iter().map(|&job| least_size(&cluster.jobs[job])).sum();
    if wanted > plan.free {
        ebb(&mut plan, wanted - cluster.free);
    }
    for &job in &starts {
        plan.start(cluster, job, least_size(&cluster.jobs[job]));
    }
    if plan.free > 0 {
        flow(cluster, &mut plan);
    }
    plan.apply(cluster);
}

/// Who starts, given that so many nodes are at their disposal.
fn starts(cluster: &mut Cluster<'_>, disposable: &mut u32) -> Vec<usize> {
    let mut starts = Vec::new();
    let everything = |free: u32| Gap { free, window_ms: i64::MAX, extra: free };
    if cluster.waiting.first_in(&everything(*disposable)).is_none() {
        return starts;
    }
    let mut withdrawn = Vec::new();
    while let Some(head) = cluster.head() {
        let nodes = least_size(&cluster.jobs[head]);
        if nodes > *disposable {
            break;
        }
        *disposable -= nodes;
        starts.push(head);
        withdrawn.push(head);
        cluster.withdraw(head);
    }
    if let Some(head) = cluster.head() {
        let mut limits = worst_limits(cluster, &starts);
        let need = least_size(&cluster.jobs[head]);
        while *disposable > 0 {
            let gap = gap(&limits, cluster.now_ms, *disposable, need);
            let Some(rank) = cluster.waiting.shortest_in(&gap) else { break };
            let job = cluster.at_rank(rank);
            let nodes = least_size(&cluster.jobs[job]);
            let end = (cluster.now_ms + cluster.jobs[job].limit_ms(nodes), nodes);
            limits.insert(limits.partition_point(|other| *other < end), end);
            *disposable -= nodes;
            starts.push(job);
            withdrawn.push(job);
            cluster.withdraw(job);
        }
    }
    // They wait until the plan is done.
    for job in withdrawn {
        cluster.submit(job);
    }
    starts
}

/// When each running job ends at the latest, and what it holds until then: malleable ones their least size.
fn worst_limits(cluster: &Cluster<'_>, starts: &[usize]) -> Vec<(i64, u32)> {
    let mut limits: Vec<(i64, u32)> = cluster
        .limits()
        .iter()
        .map(|&(end_ms, job)| {
            let at = &cluster.jobs[job as usize];
            match cluster.run(job as usize) {
                Some(run) if at.kind == JobKind::Malleable && run.is_open() && run.nodes > at.nodes_min => {
                    (run.limit_end_after(at, cluster.now_ms, at.nodes_min, cluster.cost), at.nodes_min)
                }
                run => (end_ms, run.map_or(0, |run| run.nodes)),
            }
        })
        .collect();
    limits.extend(starts.iter().map(|&job| {
        let at = &cluster.jobs[job];
        (cluster.now_ms + at.limit_ms(least_size(at)), least_size(at))
    }));
    limits.sort_unstable();
    limits
}

/// The gap in front of a reservation for `need` nodes.
fn gap(limits: &[(i64, u32)], now_ms: i64, disposable: u32, need: u32) -> Gap {
    let mut free = disposable;
    let mut limits = limits.iter().peekable();
    while let Some(&(end_ms, nodes)) = limits.next() {
        free += nodes;
        if free >= need && limits.peek().is_none_or(|&&(next_ms, _)| next_ms > end_ms) {
            let at_ms = if end_ms < now_ms { now_ms + 1 } else { end_ms };
            return Gap { free: disposable, window_ms: at_ms - now_ms, extra: free - need };
        }
    }
    Gap { free: disposable, window_ms: i64::MAX, extra: 0 }
}

/// When the head of the queue starts at the latest; `None` if nobody waits, or that cannot be foreseen.
pub(super) fn promise_ms(cluster: &Cluster<'_>) -> Option<i64> {
    let need = least_size(&cluster.jobs[cluster.head()?]);
    let plan = Plan::of(cluster);
    let disposable = plan.free + plan.jobs.iter().map(|planned| planned.nodes - planned.min).sum::<u32>();
    let gap = gap(&worst_limits(cluster, &[]), cluster.now_ms, disposable, need);
    (gap.window_ms < i64::MAX).then(|| cluster.now_ms + gap.window_ms)
}

/// Takes so many nodes, as if one by one from who holds most; of equals from the last by key.
fn ebb(plan: &mut Plan, need: u32) {
    let at = |level: u32, planned: &Planned| planned.nodes.min(level.max(planned.min));
    let given = |level: u32| -> u64 {
        plan.jobs.iter().map(|planned| u64::from(planned.nodes - at(level, planned))).sum()
    };
    let highest = plan.jobs.iter().map(|planned| planned.nodes).max().unwrap_or(0);
    // The lowest level that takes no more than is needed; who stands on it gives the rest.
    let level = lowest_level(highest, |level| given(level) <= u64::from(need));
    let mut rest = need - given(level) as u32;
    for planned in &mut plan.jobs {
        planned.nodes = at(level, planned);
    }
    for planned in plan.jobs.iter_mut().rev().filter(|p| p.nodes == level && p.nodes > p.min) {
        if rest == 0 {
            break;
        }
        planned.nodes -= 1;
        rest -= 1;
    }
    plan.free += need - rest;
}

/// Gives what is free, as if one by one to who holds least; of equals to the first, by key as they are.
fn raise(plan: &mut Plan) {
    let at = |level: u32, planned: &Planned| planned.nodes.max(level.min(planned.max));
    let taken = |level: u32| -> u64 {
        plan.jobs.iter().map(|planned| u64::from(at(level, planned) - planned.nodes)).sum()
    };
    let highest = plan.jobs.iter().map(|planned| planned.max).max().unwrap_or(0);
    // The first level that takes more than there is; the one below it can be had.
    let level = lowest_level(highest + 1, |level| taken(level) > u64::from(plan.free) || level > highest) - 1;
    let mut rest = plan.free - taken(level) as u32;
    for planned in &mut plan.jobs {
        planned.nodes = at(level, planned);
    }
    for planned in plan.jobs.iter_mut().filter(|p| p.nodes == level && p.nodes < p.max) {
        if rest == 0 {
            break;
        }
        planned.nodes += 1;
        rest -= 1;
    }
    plan.free = rest;
}

/// The lowest level in `0..=highest` from which on something holds; it holds at the highest.
fn lowest_level(highest: u32, holds: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut high) = (0, highest);
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// Gives what is free to those that hold least and gain by it.
fn flow(cluster: &Cluster<'_>, plan: &mut Plan) {
    plan.jobs.sort_by_key(|planned| planned.rank);
    let before: Vec<u32> = plan.jobs.iter().map(|planned| planned.nodes).collect();
    loop {
        raise(plan);
        // Who gains nothing stays as it is, and what it would have had is for others.
        let mut has_refused = false;
        for (planned, &before) in plan.jobs.iter_mut().zip(&before) {
            if planned.nodes > before && !gains(cluster, planned, before) {
                planned.max = before;
                has_refused = true;
            }
        }
        if !has_refused {
            return;
        }
        // Dealt out anew: how far it reaches depends on who takes part.
        for (planned, &before) in plan.jobs.iter_mut().zip(&before) {
            plan.free += planned.nodes - before;
            planned.nodes = before;
        }
    }
}

/// Whether a growth pays for its pauses: the one to come, and the one when the nodes are taken back. A start has none.
fn gains(cluster: &Cluster<'_>, planned: &Planned, before: u32) -> bool {
    let at = &cluster.jobs[planned.job];
    let done = cluster.run(planned.job).map_or(0.0, |run| run.done(cluster.now_ms));
    let pauses_ms = if planned.is_new() { 0.0 } else { 2.0 * cluster.cost.of(planned.nodes - before) };
    at.remaining_ms(done, planned.nodes) + pauses_ms < at.remaining_ms(done, before) - 1e-3
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plans() -> impl Strategy<Value = Plan> {
        let job = (1..6u32, 0..6u32, 0..6u32);
        (prop::collection::vec(job, 0..6), 0..30u32).prop_map(|(jobs, free)| {
            let planned = |(rank, (min, above, room)): (usize, (u32, u32, u32))| Planned {
                job: rank,
                rank: rank as u32,
                had: min + above,
                nodes: min + above,
                min,
                preferred: min,
                max: min + above + room,
            };
            Plan { jobs: jobs.into_iter().enumerate().map(planned).collect(), free, starts: Vec::new() }
        })
    }

    fn sizes(plan: &Plan) -> (Vec<u32>, u32) {
        (plan.jobs.iter().map(|planned| planned.nodes).collect(), plan.free)
    }

    proptest! {
        #[test]
        fn by_levels_is_as_one_by_one(mut plan in plans(), wanted in 0..30u32) {
            let mut slow = plan.clone();
            let need = wanted.min(plan.jobs.iter().map(|planned| planned.nodes - planned.min).sum());
            ebb(&mut plan, need);
            for _ in 0..need {
                let most = slow.jobs.iter_mut().filter(|p| p.nodes > p.min).max_by_key(|p| (p.nodes, p.rank)).unwrap();
                most.nodes -= 1;
                slow.free += 1;
            }
            prop_assert_eq!(sizes(&plan), sizes(&slow));
            raise(&mut plan);
            while slow.free > 0 {
                let least = slow.jobs.iter_mut().filter(|p| p.nodes < p.max).min_by_key(|p| (p.nodes, p.rank));
                let Some(least) = least else { break };
                least.nodes += 1;
                slow.free -= 1;
            }
            prop_assert_eq!(sizes(&plan), sizes(&slow));
        }
    }
}
