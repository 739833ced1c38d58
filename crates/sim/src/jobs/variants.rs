//! The same log with chances: which jobs are malleable, which part of it, and logs that are made up.

use iotide_num::SplitMix64;
use iotide_sched::jobs::{JobKind, ResizeCost, Speedup};

use super::workload::{FigureClass, JobLabel, JobsWorkload, SubmittedJob};

/// How jobs become malleable.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Malleability {
    /// Which share of the jobs.
    pub share: f64,
    /// Part of their work that gains nothing from more nodes.
    pub serial_fraction: f64,
}

impl Malleability {
    /// Returns the usual jobs: half to four times the nodes, a twentieth of the work serial.
    pub fn of_share(share: f64) -> Self {
        Self { share, serial_fraction: 0.05 }
    }
}

/// How far off what is known of jobs is: deviations of the logarithm.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Mistakes {
    /// Times that earlier runs recorded.
    pub recorded: f64,
    /// Limits that users state, which lie above the truth.
    pub limit: f64,
    /// Scaling at twice or half the nodes, and I/O, as earlier runs have it.
    pub runs: f64,
    /// The same, as users have it.
    pub user: f64,
}

impl Mistakes {
    fn of(&self, class: FigureClass) -> f64 {
        match class {
            FigureClass::Manager => 0.0,
            FigureClass::Runs => self.runs,
            FigureClass::User => self.user,
        }
    }
}

impl JobsWorkload {
    /// Makes a share of the jobs malleable, and leaves the others as they are. A job that is malleable at a share is so at any higher one.
    pub fn with_malleable(&self, malleability: Malleability, seed: u64) -> Self {
        let mut chances = SplitMix64::new(seed ^ 0x6d61_6c6c_6561_626c);
        let mut workload = self.clone();
        for job in &mut workload.jobs {
            // Drawn for every job, so that shares are nested.
            if chances.unit() < malleability.share {
                let batch = &mut job.batch;
                batch.kind = JobKind::Malleable;
                batch.nodes_min = (batch.nodes / 2).max(1);
                batch.nodes_max = batch.nodes.saturating_mul(4);
                batch.speedup = Speedup::SerialFraction(malleability.serial_fraction);
                job.scaling_class = FigureClass::User;
            }
        }
        workload
    }

    /// Puts what is known of jobs off the truth: recorded times both ways, limits upwards; how times change with sizes, and I/O, by who says so.
    pub fn mistake(&mut self, mistakes: &Mistakes, seed: u64) {
        let mut chances = SplitMix64::new(seed ^ 0x006d_6973_7461_6b65);
        let mut by_class = SplitMix64::new(seed ^ 0x636c_6173_7365_7300);
        for job in &mut self.jobs {
            let recorded = (mistakes.recorded * chances.normal()).exp();
            let limit = (mistakes.limit * chances.normal().abs()).exp();
            job.batch.recorded_ms *= recorded;
            job.batch.walltime_ms *= limit;
            // At twice or half its nodes, times are off by the deviation; drawn for every job, so that classes do not depend on each other.
            let (scaling, io) = (by_class.normal(), by_class.normal());
            job.batch.errors.scaling = mistakes.of(job.scaling_class) * scaling / std::f64::consts::LN_2;
            job.batch.errors.io = (mistakes.of(job.io_class) * io).exp();
        }
    }

    /// Returns `n` consecutive jobs by submission, from a place that the seed chooses.
    pub fn window(&self, n: usize, seed: u64) -> Self {
        let mut order: Vec<usize> = (0..self.jobs.len()).collect();
        order.sort_by_key(|&i| (self.jobs[i].batch.submit_ms, i));
        let n_starts = self.jobs.len().saturating_sub(n) + 1;
        let from = SplitMix64::new(seed ^ 0x7769_6e64_6f77).below(n_starts);
        let jobs = order[from..].iter().take(n).map(|&i| self.jobs[i].clone()).collect();
        Self { jobs, ..self.clone() }
    }
}

/// Jobs that are made up: sizes of powers of two, times over two orders of magnitude, arrivals at random.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JobsMix {
    /// How many nodes the machine has.
    pub nodes: u32,
    /// How many jobs.
    pub n_jobs: usize,
    /// Share of the machine that they would keep busy if nobody ever waited.
    pub load: f64,
}

impl JobsMix {
    /// Makes the jobs, all rigid, with limits that are one to three times their time.
    pub fn generate(&self, seed: u64) -> JobsWorkload {
        let mut chances = SplitMix64::new(seed ^ 0x006d_6978_6564);
        let sizes = f64::from(self.nodes).log2().floor();
        let drawn: Vec<(u32, f64, f64)> = (0..self.n_jobs)
            .map(|_| {
                // Small jobs are many: the exponent is the lesser of two.
                let exponent = (chances.unit() * (sizes + 1.0)).min(chances.unit() * (sizes + 1.0)).floor();
                let runtime_s = (60.0 * (240f64.ln() * chances.unit()).exp()).round();
                (2f64.powf(exponent) as u32, runtime_s, 1.0 + 2.0 * chances.unit())
            })
            .collect();
        let node_s: f64 = drawn.iter().map(|&(nodes, runtime_s, _)| f64::from(nodes) * runtime_s).sum();
        let mean_gap_s = node_s / f64::from(self.nodes) / self.load / self.n_jobs.max(1) as f64;
        let mut at_s = 0.0;
        let jobs = drawn.into_iter().enumerate().map(|(i, (nodes, runtime_s, limit))| {
            at_s += -mean_gap_s * (1.0 - chances.unit()).ln();
            let mut job = SubmittedJob::rigid(JobLabel::Number(i as u64 + 1), at_s.round(), nodes, runtime_s);
            job.batch.walltime_ms = (runtime_s * limit).round() * 1e3;
            job.has_limit = true;
            job
        });
        JobsWorkload {
            nodes: self.nodes,
            cost: ResizeCost::default(),
            storage: None,
            failures: Vec::new(),
            jobs: jobs.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::{JobsMetrics, run_jobs};
    use iotide_num::{mean, student_t_quantile};
    use iotide_sched::jobs::{JobPolicy, PolicyKnobs};

    /// The mixes of `cargo xtask accuracy jobs`.
    fn mixes(share: f64) -> Vec<JobsWorkload> {
        let mix = |seed: usize| JobsMix {
            nodes: [32, 64, 128][seed % 3],
            n_jobs: 300,
            load: [0.7, 0.85, 1.0][seed / 3 % 3],
        };
        let malleable = Malleability::of_share(share);
        (0..36).map(|seed| mix(seed).generate(seed as u64).with_malleable(malleable, seed as u64)).collect()
    }

    /// The upper end of the 95 % interval of a ratio to EASY.
    fn at_most(workloads: &[JobsWorkload], policy: JobPolicy, of: fn(&JobsMetrics) -> f64) -> f64 {
        let measured = |workload: &JobsWorkload, policy| {
            let (jobs, schedule) = run_jobs(workload, policy, &PolicyKnobs::default(), false);
            of(&schedule.metrics(&jobs, workload.nodes)) + 1.0
        };
        let logs: Vec<f64> = workloads
            .iter()
            .map(|workload| (measured(workload, policy) / measured(workload, JobPolicy::Easy)).ln())
            .collect();
        let (n, middle) = (logs.len() as f64, mean(&logs));
        let variance = logs.iter().map(|log| (log - middle).powi(2)).sum::<f64>() / (n - 1.0);
        (middle + student_t_quantile(0.975, n - 1.0) * (variance / n).sqrt()).exp()
    }

    #[test]
    fn tide_is_better_than_easy_in_wait_and_makespan_on_the_mixes() {
        for share in [0.2, 1.0] {
            let mixes = mixes(share);
            let wait = at_most(&mixes, JobPolicy::Tide, |metrics| metrics.mean_wait_s);
            let makespan = at_most(&mixes, JobPolicy::Tide, |metrics| metrics.makespan_s);
            assert!(wait < 1.0 && makespan < 1.0, "at {share}: wait ≤ {wait}, makespan ≤ {makespan}");
        }
    }

    #[test]
    fn shares_are_nested_and_windows_are_stretches_of_the_log() {
        let log = JobsMix { nodes: 16, n_jobs: 50, load: 0.8 }.generate(1);
        let malleable = |share: f64| -> Vec<usize> {
            let workload = log.with_malleable(Malleability::of_share(share), 7);
            (0..50).filter(|&i| workload.jobs[i].batch.kind == JobKind::Malleable).collect()
        };
        let (few, many) = (malleable(0.2), malleable(0.6));
        assert!(!few.is_empty() && few.iter().all(|i| many.contains(i)) && few.len() < many.len());
        assert_eq!((malleable(0.0).len(), malleable(1.0).len()), (0, 50));
        let window = log.window(10, 3);
        let from = log.jobs.iter().position(|job| job.id == window.jobs[0].id).unwrap();
        assert_eq!(window.jobs, log.jobs[from..from + 10]);
    }
}
