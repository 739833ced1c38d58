//! Which scheduling policy is better than EASY, and by how much: on Lublin's model and on generated mixes.

use std::path::Path;

use iotide_num::{mean, mean_half_width};
use iotide_sched::jobs::{JobPolicy, PolicyKnobs};
use iotide_sim::jobs::{JobLabel, JobsMetrics, JobsMix, JobsWorkload, Malleability, SubmittedJob, run_jobs};

pub(super) const HELP: &str = "\
accuracy jobs [LOG.swf] [--alpha SECONDS] [--serial SHARE] [--seed FIRST]
             ratios against EASY, pair by pair, with 95 % intervals, at 20, 50 and 100 % malleable jobs: 36 mixes, and of
             the log ten windows of 1000 jobs, and its first 1000 jobs with 30 seeds; --seed 1000 has mixes and
             choices of malleable jobs that no policy was chosen by";

/// Policies under test, beside EASY.
const POLICIES: [&str; 12] = [
    "easy-shortest",
    "easy-moldable",
    "mebf-hand-off",
    "mebf-aggressive",
    "mebf-keep-spare",
    "mebf-hand-off+",
    "mebf-aggressive+",
    "mebf-keep-spare+",
    "io-balance",
    "common-pool",
    "average",
    "tide",
];

pub(super) fn run(args: &[String]) -> Result<(), String> {
    let (mut log, mut alpha_s, mut serial, mut first_seed) = (None, 0.0, 0.05, 0u64);
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let mut number =
            || rest.next().and_then(|text| text.parse::<f64>().ok()).ok_or(format!("{arg} needs a number"));
        match arg.as_str() {
            "--alpha" => alpha_s = number()?,
            "--serial" => serial = number()?,
            "--seed" => first_seed = number()? as u64,
            path => log = Some(read(Path::new(path))?),
        }
    }
    println!("ratios to EASY [95 % interval]; a resize costs {alpha_s} s, {serial} of the work is serial");
    for share in [0.2, 0.5, 1.0] {
        let malleable = |workload: &JobsWorkload, seed: u64| {
            let mut workload = workload.with_malleable(Malleability { share, serial_fraction: serial }, seed);
            workload.cost.fixed_ms = 1e3 * alpha_s;
            workload
        };
        let mixes = (0..36u64).map(|seed| {
            let mix = JobsMix {
                nodes: [32, 64, 128][seed as usize % 3],
                n_jobs: 300,
                load: [0.7, 0.85, 1.0][seed as usize / 3 % 3],
            };
            malleable(&mix.generate(first_seed + seed), first_seed + seed)
        });
        table("36 mixes", share, &mixes.collect::<Vec<_>>());
        let Some(log) = &log else { continue };
        let part = |from: usize| JobsWorkload {
            jobs: log.jobs.iter().skip(from).take(1000).cloned().collect(),
            ..log.clone()
        };
        let windows = (0..log.jobs.len() / 1000).map(|i| malleable(&part(1000 * i), first_seed + i as u64));
        table("the log, windows of 1000", share, &windows.collect::<Vec<_>>());
        let n_seeds = if share < 1.0 { 30 } else { 1 };
        let first: Vec<JobsWorkload> =
            (0..n_seeds).map(|seed| malleable(&part(0), first_seed + seed)).collect();
        table("the log, first 1000", share, &first);
    }
    Ok(())
}

fn table(what: &str, share: f64, workloads: &[JobsWorkload]) {
    println!("\n{what}, {:.0} % malleable, {} runs", 100.0 * share, workloads.len());
    println!(
        "  {:<18} {:<22} {:<22} {:<22} {:<22}",
        "policy", "mean wait", "makespan", "longest wait", "slowdown"
    );
    let measured = |policy: JobPolicy| -> Vec<JobsMetrics> {
        let run = |workload: &JobsWorkload| {
            let (jobs, schedule) = run_jobs(workload, policy, &PolicyKnobs::default(), false);
            schedule.metrics(&jobs, workload.nodes)
        };
        workloads.iter().map(run).collect()
    };
    let easy = measured(JobPolicy::Easy);
    for policy in POLICIES.into_iter().filter_map(JobPolicy::from_name) {
        let ours = measured(policy);
        let ratio = |of: fn(&JobsMetrics) -> f64| {
            // A second more keeps waits of nothing apart from nothing at all.
            let logs: Vec<f64> = ours
                .iter()
                .zip(&easy)
                .map(|(ours, easy)| ((of(ours) + 1.0) / (of(easy) + 1.0)).ln())
                .collect();
            interval(&logs)
        };
        println!(
            "  {:<18} {:<22} {:<22} {:<22} {:<22}",
            policy.name(),
            ratio(|metrics| metrics.mean_wait_s),
            ratio(|metrics| metrics.makespan_s),
            ratio(|metrics| metrics.max_wait_s),
            ratio(|metrics| metrics.mean_bounded_slowdown),
        );
    }
}

fn interval(logs: &[f64]) -> String {
    let middle = mean(logs);
    let Some(half) = mean_half_width(logs, 0.95) else { return format!("{:.3}", middle.exp()) };
    format!("{:.3} [{:.3}, {:.3}]", middle.exp(), (middle - half).exp(), (middle + half).exp())
}

fn read(path: &Path) -> Result<JobsWorkload, String> {
    let log = iotide_formats::SubmissionLog::open(path, &iotide_formats::JobLogOptions::default());
    let iotide_formats::SubmissionLog::Swf(log) = log.map_err(|error| error.to_string())? else {
        return Err(format!("{} is not in Standard Workload Format", path.display()));
    };
    let nodes = log.n_nodes.ok_or("the log does not say how many nodes there are")? as u32;
    let job = |job: &iotide_formats::SwfJob| {
        SubmittedJob::rigid(JobLabel::Number(job.id), job.submit_s, job.n_nodes as u32, job.runtime_s)
    };
    let jobs = log.jobs.iter().map(job).collect();
    Ok(JobsWorkload { nodes, cost: Default::default(), storage: None, failures: Vec::new(), jobs })
}
