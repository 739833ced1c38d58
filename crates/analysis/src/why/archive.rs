//! Runs of an archive, each beside the others of its program: which lost time, and to whom.

use super::{RunFacts, ServerLoad, Verdict, Why, why};

/// A run among others.
#[derive(Clone, Debug)]
pub struct ArchivedRun {
    /// The number of its application.
    pub application: usize,
    /// Its summary.
    pub facts: RunFacts,
}

/// A run beside the others of its application.
#[derive(Clone, Debug)]
pub struct JudgedRun {
    /// The answer.
    pub why: Why,
    /// By how much its I/O took longer than usual, in seconds; 0 for a run that is not slow.
    pub lost_s: f64,
}

impl JudgedRun {
    /// Seconds lost to its own requests, to others and to the storage; none where the evidence does not tell.
    pub fn lost_to(&self) -> [f64; 3] {
        let parts = self.why.parts;
        [parts.own, parts.others, parts.storage].map(|part| self.lost_s * part.unwrap_or(0.0))
    }
}

/// So many runs of its application, the nearest in time, a run is compared with.
const MOST_COMPARED: usize = 30;

/// Compares each run with the others of its application, earlier and later.
pub fn judge(runs: &[ArchivedRun], load: Option<&ServerLoad>) -> Vec<JudgedRun> {
    let start = |run: &ArchivedRun| run.facts.start_unix_s.unwrap_or(0.0);
    let judged = |(i, run): (usize, &ArchivedRun)| {
        let mut others: Vec<&ArchivedRun> = (runs.iter().enumerate())
            .filter(|(j, other)| *j != i && other.application == run.application)
            .map(|(_, other)| other)
            .collect();
        let apart = |other: &ArchivedRun| (start(other) - start(run)).abs();
        others.sort_by(|a, b| apart(a).total_cmp(&apart(b)).then(a.facts.content.cmp(&b.facts.content)));
        others.truncate(MOST_COMPARED);
        let history: Vec<&RunFacts> = others.into_iter().map(|other| &other.facts).collect();
        let why = why(&run.facts, &history, load);
        let is_slow = why.verdict != Verdict::Usual;
        let factor = why.slowdown.filter(|_| is_slow).map_or(1.0, |slowdown| slowdown.factor.max(1.0));
        JudgedRun { lost_s: run.facts.io_s() * (1.0 - 1.0 / factor), why }
    };
    runs.iter().enumerate().map(judged).collect()
}

/// Load of others in the phases that it slowed down, and whose it was.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Caused {
    /// Bytes that others moved in these phases.
    pub others_bytes: f64,
    /// Bytes that runs of each application moved meanwhile, as far as they are in the archive.
    pub by_application: Vec<f64>,
}

/// Finds who moved bytes while runs were slow by the load of others.
pub fn caused(runs: &[ArchivedRun], judged: &[JudgedRun]) -> Caused {
    let n = runs.iter().map(|run| run.application + 1).max().unwrap_or(0);
    let mut caused = Caused { others_bytes: 0.0, by_application: vec![0.0; n] };
    for (i, (run, judged)) in runs.iter().zip(judged).enumerate() {
        let Some(zero_s) = run.facts.zero_unix_s() else { continue };
        if !matches!(judged.why.verdict, Verdict::Others | Verdict::Mixed) {
            continue;
        }
        for phase in judged.why.phases.iter().filter(|phase| phase.verdict == Verdict::Others) {
            let (from_s, until_s) = (zero_s + phase.start_s, zero_s + phase.end_s);
            caused.others_bytes += phase.others_bps.unwrap_or(0.0) * (until_s - from_s);
            for other in runs.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, other)| other) {
                caused.by_application[other.application] += moved_between(&other.facts, from_s, until_s);
            }
        }
    }
    caused
}

/// Bytes that a run moved between two times since 1970, those of a phase spread evenly over it.
fn moved_between(run: &RunFacts, from_s: f64, until_s: f64) -> f64 {
    let Some(zero_s) = run.zero_unix_s() else { return 0.0 };
    let of_phase = |phase: &super::PhaseFacts| {
        let (start_s, end_s) = (zero_s + phase.start_s, zero_s + phase.end_s);
        let inside_s = end_s.min(until_s) - start_s.max(from_s);
        phase.bytes() * inside_s.max(0.0) / (end_s - start_s).max(1e-9)
    };
    run.phases.iter().map(of_phase).sum()
}
