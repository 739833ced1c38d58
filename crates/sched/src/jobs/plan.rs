//! Sizes for everybody at once: who starts, who gives and who gets, before anything is done.

use std::collections::HashMap;

use super::cluster::Cluster;
use super::job::JobKind;

/// Sizes that are being thought about. Applied in one go, so that nobody is resized twice in a pass.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Running malleable jobs and jobs that are about to start.
    pub(super) jobs: Vec<Planned>,
    /// Nodes that nobody has in the plan.
    pub(super) free: u32,
    /// Who starts, in the order that was decided: it says who gets the lowest nodes.
    pub(super) starts: Vec<usize>,
}

/// A job in the plan.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planned {
    pub(super) job: usize,
    pub(super) rank: u32,
    /// Nodes it has now; 0 if it waits.
    pub(super) had: u32,
    /// Nodes it is to have.
    pub(super) nodes: u32,
    pub(super) min: u32,
    pub(super) preferred: u32,
    pub(super) max: u32,
}

impl Planned {
    /// Where it stands between its least and its largest size; `None` if it has no choice.
    pub(super) fn ratio(&self) -> Option<f64> {
        (self.max > self.min).then(|| f64::from(self.nodes - self.min) / f64::from(self.max - self.min))
    }

    pub(super) fn is_new(&self) -> bool {
        self.had == 0
    }

    /// Nodes above the preferred size; negative below it.
    pub(super) fn above_preferred(&self) -> i64 {
        i64::from(self.nodes) - i64::from(self.preferred)
    }
}

impl Plan {
    /// The plan that changes nothing, by key.
    pub(super) fn of(cluster: &Cluster<'_>) -> Self {
        let is_fixed = |job: usize| cluster.run(job).is_none_or(|run| !run.is_open);
        let jobs = cluster
            .malleable
            .iter()
            .map(|&rank| (rank, cluster.at_rank(rank)))
            .filter(|&(_, job)| !is_fixed(job))
            .map(|(rank, job)| Planned::of(cluster, job, rank, cluster.nodes_of(job)))
            .collect();
        Self { jobs, free: cluster.free, starts: Vec::new() }
    }

    /// Adds a job that waits, at a size that is free.
    pub(super) fn start(&mut self, cluster: &Cluster<'_>, job: usize, nodes: u32) {
        self.free -= nodes;
        let planned = Planned::of(cluster, job, cluster.rank(job), nodes);
        self.jobs.push(Planned { had: 0, ..planned });
        self.starts.push(job);
    }

    /// Does what is planned: gives first, then starts, then growth.
    pub(super) fn apply(self, cluster: &mut Cluster<'_>) {
        for planned in self.jobs.iter().filter(|planned| planned.nodes < planned.had) {
            cluster.resize(planned.job, planned.nodes);
        }
        let sizes: HashMap<usize, u32> = self
            .jobs
            .iter()
            .filter(|planned| planned.is_new())
            .map(|planned| (planned.job, planned.nodes))
            .collect();
        for job in self.starts {
            cluster.start(job, sizes[&job]);
        }
        for planned in self.jobs.iter().filter(|planned| !planned.is_new() && planned.nodes > planned.had) {
            cluster.resize(planned.job, planned.nodes);
        }
    }
}

impl Planned {
    fn of(cluster: &Cluster<'_>, job: usize, rank: u32, nodes: u32) -> Self {
        let at = &cluster.jobs[job];
        // Only what can be resized later has anything to give or to get.
        let (min, max) = match at.kind {
            JobKind::Malleable => (at.nodes_min, at.nodes_max),
            _ => (nodes, nodes),
        };
        Self { job, rank, had: nodes, nodes, min, preferred: at.nodes, max }
    }
}
