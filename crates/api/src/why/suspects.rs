//! Jobs that ran in the slow phases of a run and not during earlier runs.

use std::collections::BTreeSet;

use iotide_analysis::{RunFacts, Why};
use iotide_trace::JobRun;

/// So many jobs are named.
const MOST_SUSPECTS: usize = 3;
/// A job that ran in less of the slow phases explains little.
const LEAST_SHARE: f64 = 0.25;

/// Returns who ran in the slow phases and not during earlier runs, with the share of the slow phases, the largest first.
pub(super) fn suspects(
    run: &RunFacts,
    job_id: Option<&str>,
    history: &[RunFacts],
    answer: &Why,
    jobs: &[JobRun],
) -> Vec<(String, f64)> {
    let Some(zero_s) = run.zero_unix_s() else { return Vec::new() };
    let slow_from = answer.usual_until.unwrap_or(1.3);
    let slow: Vec<(f64, f64)> = (answer.phases.iter())
        .filter(|phase| phase.factor.is_some_and(|factor| factor > slow_from))
        .map(|phase| (zero_s + phase.start_s, zero_s + phase.end_s))
        .collect();
    let all_s: f64 = slow.iter().map(|(from, until)| until - from).sum();
    let earlier: Vec<(f64, f64)> = history.iter().filter_map(RunFacts::span_unix_s).collect();
    let during = |job: &JobRun, (from, until): (f64, f64)| {
        (job.end_s.unwrap_or(f64::INFINITY).min(until) - job.start_s.max(from)).max(0.0)
    };
    let who = |job: &JobRun| (job.user.clone(), job.name.clone());
    let known: BTreeSet<(String, String)> =
        jobs.iter().filter(|job| earlier.iter().any(|&span| during(job, span) > 0.0)).map(who).collect();
    let own_span = run.span_unix_s();
    let is_itself = |job: &JobRun| {
        job_id.is_some_and(|id| id == job.job_id)
            || own_span.is_some_and(|(from, until)| {
                // The job of a run begins shortly before it and ends shortly after.
                let margin_s = 0.1 * (until - from) + 60.0;
                job.start_s <= from
                    && from - job.start_s < margin_s
                    && job.end_s.is_some_and(|end_s| end_s >= until && end_s - until < margin_s)
            })
    };
    let mut shares: std::collections::BTreeMap<(String, String), f64> = std::collections::BTreeMap::new();
    for job in jobs.iter().filter(|job| !known.contains(&who(job)) && !is_itself(job)) {
        let seconds: f64 = slow.iter().map(|&phase| during(job, phase)).sum();
        *shares.entry(who(job)).or_default() += seconds / all_s.max(1e-9);
    }
    let mut named: Vec<(String, f64)> = (shares.into_iter())
        .filter(|(_, share)| *share >= LEAST_SHARE)
        .map(|((user, name), share)| (format!("{user} · {name}"), share.min(1.0)))
        .collect();
    named.sort_by(|a, b| b.1.total_cmp(&a.1));
    named.truncate(MOST_SUSPECTS);
    named
}
