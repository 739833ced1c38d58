//! The rules themselves.

use iotide_trace::{AccessFacts, ActivitySums, JobInfo, Layer, Op, StakeKind};

use super::stake::AtStake;
use super::{Insight, InsightThresholds, Rule, Severity, Verdict};
use crate::Evidence;

mod calls;
mod files;
mod ranks;
#[cfg(test)]
mod tests;

/// A run as the rules look at it.
pub(super) struct Run<'a> {
    seen: &'a ActivitySums,
    thresholds: &'a InsightThresholds,
    n_ranks: f64,
    bytes: f64,
    /// Time in I/O calls, summed over the ranks; 0 if it is not known.
    io_s: f64,
    run_time_s: Option<f64>,
}

impl<'a> Run<'a> {
    pub(super) fn of(seen: &'a ActivitySums, job: &JobInfo, thresholds: &'a InsightThresholds) -> Self {
        let named = seen.n_ranks as f64;
        let n_ranks = job.n_compared().map_or(named, |n_procs| n_procs as f64).max(1.0);
        let io_s = seen
            .times
            .iter()
            .map(|time| [time.read_s, time.write_s, time.metadata_s].into_iter().flatten().sum::<f64>())
            .fold(0.0, f64::max);
        let span_s = seen.span.map(|span| span.end.secs_since(span.start));
        Self { seen, thresholds, n_ranks, bytes: seen.bytes, io_s, run_time_s: job.run_time_s.or(span_s) }
    }

    pub(super) fn apply(&self, rule: Rule) -> Verdict {
        match rule {
            Rule::SmallReads => self.small(rule, &self.seen.reads, |facts| facts.reads),
            Rule::SmallWrites => self.small(rule, &self.seen.writes, |facts| facts.writes),
            Rule::RandomReads => self.random(rule, |facts| facts.reads),
            Rule::RandomWrites => self.random(rule, |facts| facts.writes),
            Rule::Misaligned => self.misaligned(),
            Rule::RedundantReads => self.redundant(rule),
            Rule::RedundantWrites => self.redundant(rule),
            Rule::SmallShared => self.small_shared(),
            Rule::RankImbalance => self.imbalance(),
            Rule::Stragglers => self.stragglers(),
            Rule::MissingCollectives => self.collectives(),
            Rule::BlockingIo => self.blocking(),
            Rule::StdioBulk => self.stdio(),
            Rule::MetadataTime => self.metadata(),
            Rule::OpenCloseChurn => self.churn(),
        }
    }

    fn facts(&self, layer: Layer) -> Option<&AccessFacts> {
        self.seen.access.iter().find(|facts| facts.layer == layer)
    }

    /// The layer that says where in their files calls went, and how large they were: POSIX, or MPI-IO where a source with offsets did not
    /// look below it.
    fn placed(&self) -> Option<&AccessFacts> {
        let bytes = |layer| self.bytes_of(layer, Op::Read) + self.bytes_of(layer, Op::Write);
        let mpi_io = self.facts(Layer::MpiIo).filter(|facts| {
            facts.reads.random.is_some()
                && facts.writes.random.is_some()
                && bytes(Layer::MpiIo) > bytes(Layer::Posix)
        });
        mpi_io.or_else(|| self.facts(Layer::Posix))
    }

    /// Whether `value` exceeds `threshold`, and how gravely.
    fn weigh(&self, value: f64, threshold: f64) -> Option<Severity> {
        // A share cannot grow by any factor: it is grave half way from its threshold to all.
        let grave = if threshold < 1.0 && value <= 1.0 {
            (self.thresholds.high_factor * threshold).min((1.0 + threshold) / 2.0)
        } else {
            self.thresholds.high_factor * threshold
        };
        (value > threshold).then_some(if value >= grave { Severity::High } else { Severity::Warning })
    }

    /// As [`Run::weigh`], for calls on which so much depends: nothing if that is next to nothing, and not grave if it is a
    /// small part of the run.
    fn weigh_stake(&self, value: f64, threshold: f64, stake: &AtStake) -> Option<Severity> {
        let InsightThresholds { least_calls, least_bytes, least_s, high_stake_share, .. } = *self.thresholds;
        let severity = self.weigh(value, threshold)?;
        let takes_time = stake.longest_s.max(stake.seconds / self.n_ranks) >= least_s;
        if stake.calls < least_calls || (stake.bytes < least_bytes && !takes_time) {
            return None;
        }
        // Where the time is known, so is whether the run would be shorter without.
        let rank_s = stake.longest_s.max(stake.seconds / self.n_ranks);
        let is_brief =
            stake.seconds > 0.0 && self.run_time_s.is_some_and(|run_s| rank_s < BRIEF_SHARE * run_s);
        let is_large_part = stake.bytes >= high_stake_share * self.bytes
            || (self.io_s > 0.0 && stake.seconds >= high_stake_share * self.io_s);
        Some(if is_large_part && !is_brief { severity } else { Severity::Warning })
    }

    /// What depends on calls of a kind: as the source counted it, or an even share of the layer.
    fn stake(&self, facts: &AccessFacts, kind: StakeKind, ops: &[Op], share: f64, calls: f64) -> AtStake {
        AtStake::counted(self.seen, facts, kind, self.n_ranks)
            .unwrap_or_else(|| AtStake::share_of(self.seen, facts.layer, ops, share, calls))
    }

    fn bytes_of(&self, layer: Layer, op: Op) -> f64 {
        let of = self.seen.ops.iter().filter(|known| known.layer == layer && known.op == op);
        of.map(|known| known.sums.bytes).sum()
    }
}

/// Less of a run than this is no matter, however it is spent.
const BRIEF_SHARE: f64 = 0.01;

fn percent(share: f64) -> String {
    // What rounds to all and is not all has a digit more.
    if (0.995..1.0).contains(&share) {
        format!("{:.1} %", (1000.0 * share).floor() / 10.0)
    } else {
        format!("{:.0} %", 100.0 * share)
    }
}

fn found(
    rule: Rule,
    severity: Severity,
    message: String,
    advice: &'static str,
    evidence: &[(&'static str, f64)],
) -> Verdict {
    found_in(rule, severity, message, advice, evidence, AtStake::default())
}

/// A finding, with what depends on it.
fn found_in(
    rule: Rule,
    severity: Severity,
    message: String,
    advice: &'static str,
    evidence: &[(&'static str, f64)],
    stake: AtStake,
) -> Verdict {
    let at_stake = [("bytes_at_stake", stake.bytes), ("seconds_at_stake", stake.seconds)];
    let at_stake = at_stake.into_iter().filter(|(_, value)| *value > 0.0);
    let evidence =
        evidence.iter().copied().chain(at_stake).map(|(name, value)| Evidence { name, value }).collect();
    Verdict::Found(Insight {
        rule,
        severity,
        message,
        evidence,
        files: stake.files,
        ranks: stake.ranks,
        advice,
    })
}
