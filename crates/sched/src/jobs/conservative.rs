//! Conservative backfilling: everyone in the queue has a reservation.

use super::cluster::Cluster;

/// Plans all that wait, by key, and starts what is due. The plan is made anew in every pass.
pub(super) fn pass(cluster: &mut Cluster<'_>) {
    let mut profile = Profile::of(cluster);
    let waiting: Vec<usize> = cluster.waiting().collect();
    for job in waiting {
        let at = &cluster.jobs[job];
        let (nodes, limit_ms) = (at.nodes, at.limit_ms(at.nodes));
        let Some(start_ms) = profile.earliest(nodes, limit_ms) else { continue };
        profile.take(start_ms, start_ms.saturating_add(limit_ms), nodes);
        // Jobs that take no time leave no trace in the profile; who has to wait for one is started in the next pass.
        if start_ms == cluster.now_ms && nodes <= cluster.free {
            cluster.start(job, nodes);
        }
    }
}

/// Free nodes from each time on, as far as can be foreseen.
struct Profile {
    steps: Vec<(i64, u32)>,
}

impl Profile {
    fn of(cluster: &Cluster<'_>) -> Self {
        let mut free = cluster.free;
        let mut steps = vec![(cluster.now_ms, free)];
        for &(end_ms, job) in cluster.limits() {
            free += cluster.nodes_of(job as usize);
            // Who is over its limit and still there may go any moment, but is not gone.
            let end_ms = end_ms.max(cluster.now_ms + 1);
            match steps.last_mut() {
                Some(last) if last.0 == end_ms => last.1 = free,
                _ => steps.push((end_ms, free)),
            }
        }
        Self { steps }
    }

    /// The first step from which so many nodes stay free for so long.
    fn earliest(&self, nodes: u32, for_ms: i64) -> Option<i64> {
        let mut at = 0;
        'start: while let Some(&(start_ms, free)) = self.steps.get(at) {
            if free < nodes {
                at += 1;
                continue;
            }
            let end_ms = start_ms.saturating_add(for_ms);
            for (later, &(step_ms, free)) in self.steps.iter().enumerate().skip(at + 1) {
                if step_ms >= end_ms {
                    break;
                }
                if free < nodes {
                    at = later + 1;
                    continue 'start;
                }
            }
            return Some(start_ms);
        }
        None
    }

    fn take(&mut self, from_ms: i64, to_ms: i64, nodes: u32) {
        let first = self.split(from_ms);
        let last = self.split(to_ms);
        for step in &mut self.steps[first..last] {
            step.1 -= nodes;
        }
    }

    /// Makes a step at a time, and returns which it is.
    fn split(&mut self, at_ms: i64) -> usize {
        match self.steps.binary_search_by_key(&at_ms, |step| step.0) {
            Ok(at) => at,
            Err(at) => {
                let free = self.steps[at - 1].1;
                self.steps.insert(at, (at_ms, free));
                at
            }
        }
    }
}
