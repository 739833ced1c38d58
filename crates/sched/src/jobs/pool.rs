//! Policies that start jobs below their preferred size and move nodes among all of them.
//!
//! `common-pool` and `average` are those of Posner et al. (2023), by their description; `easy-moldable` chooses sizes at the start alone.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::cluster::Cluster;
use super::plan::{Plan, Planned};

/// EASY where the scheduler chooses the size of a job at its start: the preferred one while others wait, else all it can use.
pub(super) fn easy_moldable(cluster: &mut Cluster<'_>) {
    let size = |cluster: &Cluster<'_>, job: usize| {
        let at = &cluster.jobs[job];
        let wanted = match (at.is_sizeable(), cluster.n_waiting() > 1) {
            (false, _) => return (at.nodes <= cluster.free).then_some(at.nodes),
            (true, true) => at.nodes,
            (true, false) => at.nodes_max,
        };
        Some(wanted.min(cluster.free)).filter(|&nodes| nodes >= at.nodes_min)
    };
    easy_by_size(cluster, size);
}

/// EASY with sizes: `size` says at which a job can start now. The reservation is for the least size of the head.
fn easy_by_size(cluster: &mut Cluster<'_>, size: impl Fn(&Cluster<'_>, usize) -> Option<u32>) {
    while let Some(head) = cluster.head() {
        let Some(nodes) = size(cluster, head) else { break };
        cluster.start(head, nodes);
    }
    'again: while cluster.free > 0 {
        let Some(head) = cluster.head() else { return };
        let reserved = cluster.reservation(cluster.jobs[head].least_nodes());
        let gap = cluster.gap(reserved);
        let candidate = cluster.waiting().skip(1).find_map(|job| {
            let nodes = size(cluster, job)?;
            gap.fits(nodes, cluster.jobs[job].limit_ms(nodes)).then_some((job, nodes))
        });
        if let Some((job, nodes)) = candidate {
            cluster.start(job, nodes);
            continue 'again;
        }
        return;
    }
}

/// Starts what fits at its preferred size or, if it is malleable, at what is free.
fn start_what_fits(cluster: &mut Cluster<'_>) {
    easy_by_size(cluster, |cluster, job| {
        let at = &cluster.jobs[job];
        let nodes = if at.is_sizeable() { at.nodes.min(cluster.free) } else { at.nodes };
        (nodes <= cluster.free && nodes >= at.least_nodes()).then_some(nodes)
    });
}

/// Each job that waits takes from those most above their preferred size; what is left fills all to it, then beyond.
pub(super) fn common_pool(cluster: &mut Cluster<'_>) {
    start_what_fits(cluster);
    let mut plan = Plan::of(cluster);
    for job in cluster.waiting().collect::<Vec<_>>() {
        let at = &cluster.jobs[job];
        for (want, keeps_preferred) in [(at.nodes, true), (at.least_nodes(), true), (at.least_nodes(), false)]
        {
            if take_most_above(&mut plan, want, keeps_preferred) {
                plan.start(cluster, job, want);
                break;
            }
        }
    }
    fill(&mut plan, |planned| planned.preferred);
    fill(&mut plan, |planned| planned.max);
    plan.apply(cluster);
}

/// Makes so many nodes free, from those most above their preferred size; all or nothing.
fn take_most_above(plan: &mut Plan, want: u32, keeps_preferred: bool) -> bool {
    let keeps = |planned: &Planned| match keeps_preferred {
        true => planned.preferred.max(planned.min),
        false => planned.min,
    };
    let mut need = want.saturating_sub(plan.free);
    let can_give: u64 =
        plan.jobs.iter().map(|planned| u64::from(planned.nodes.saturating_sub(keeps(planned)))).sum();
    if can_give < u64::from(need) {
        return false;
    }
    let mut order: Vec<usize> = (0..plan.jobs.len()).collect();
    order.sort_by_key(|&i| (Reverse(plan.jobs[i].above_preferred()), Reverse(plan.jobs[i].rank)));
    for i in order {
        let planned = &mut plan.jobs[i];
        let given = planned.nodes.saturating_sub(keeps(planned)).min(need);
        planned.nodes -= given;
        plan.free += given;
        need -= given;
        if need == 0 {
            break;
        }
    }
    true
}

/// Gives what is free to all, by key, up to a size of each.
fn fill(plan: &mut Plan, up_to: impl Fn(&Planned) -> u32) {
    plan.jobs.sort_by_key(|planned| planned.rank);
    for planned in &mut plan.jobs {
        let given = up_to(planned).min(planned.max).saturating_sub(planned.nodes).min(plan.free);
        planned.nodes += given;
        plan.free -= given;
    }
}

/// Each job that waits takes node by node from who stands highest between least and largest size; what is left goes to who stands lowest.
pub(super) fn average(cluster: &mut Cluster<'_>) {
    start_what_fits(cluster);
    let mut plan = Plan::of(cluster);
    for job in cluster.waiting().collect::<Vec<_>>() {
        let want = cluster.jobs[job].least_nodes();
        let need = want.saturating_sub(plan.free);
        let can_give: u64 = plan.jobs.iter().map(|planned| u64::from(planned.nodes - planned.min)).sum();
        if can_give >= u64::from(need) {
            lower_the_highest(&mut plan, need);
            plan.start(cluster, job, want);
        }
    }
    raise_the_lowest(&mut plan);
    plan.apply(cluster);
}

/// Takes nodes, one at a time, from whose ratio is highest; of equals from the last by key.
fn lower_the_highest(plan: &mut Plan, need: u32) {
    let entry = |i: usize, planned: &Planned| {
        (planned.nodes > planned.min).then(|| (by_ratio(planned), planned.rank, i))
    };
    let mut heap: BinaryHeap<_> =
        plan.jobs.iter().enumerate().filter_map(|(i, planned)| entry(i, planned)).collect();
    for _ in 0..need {
        let Some((_, _, i)) = heap.pop() else { return };
        plan.jobs[i].nodes -= 1;
        plan.free += 1;
        heap.extend(entry(i, &plan.jobs[i]));
    }
}

/// Gives all that is free, one node at a time, to whose ratio is lowest; of equals to the first by key.
fn raise_the_lowest(plan: &mut Plan) {
    let entry = |i: usize, planned: &Planned| {
        (planned.nodes < planned.max).then(|| Reverse((by_ratio(planned), planned.rank, i)))
    };
    let mut heap: BinaryHeap<_> =
        plan.jobs.iter().enumerate().filter_map(|(i, planned)| entry(i, planned)).collect();
    while plan.free > 0 {
        let Some(Reverse((_, _, i))) = heap.pop() else { return };
        plan.jobs[i].nodes += 1;
        plan.free -= 1;
        heap.extend(entry(i, &plan.jobs[i]));
    }
}

/// Ratios are not negative, so their bits are in their order.
fn by_ratio(planned: &Planned) -> u64 {
    planned.ratio().unwrap_or(0.0).to_bits()
}
