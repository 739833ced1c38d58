//! Rules about how large calls are, and where in their file they go.

use iotide_trace::{AccessFacts, AccessSizes, Op, StakeKind, WayFacts};

use super::{Run, found_in, percent};
use crate::insight::stake::{AtStake, is_standard_stream};
use crate::insight::{Rule, Verdict};

/// 2²⁰ bytes: where the bins of sizes turn large.
const MEGABYTE_LOG2: usize = 20;

impl Run<'_> {
    pub(super) fn small(
        &self,
        rule: Rule,
        sizes: &AccessSizes,
        way: fn(&AccessFacts) -> WayFacts,
    ) -> Verdict {
        let (kind, op) = match rule {
            Rule::SmallReads => (StakeKind::SmallReads, Op::Read),
            _ => (StakeKind::SmallWrites, Op::Write),
        };
        let (small, calls, stake) = match self.placed().map(|facts| (facts, way(facts))) {
            Some((facts, WayFacts { calls, small: Some(small), .. })) => {
                let (small, calls) = (small as f64, calls as f64);
                (small, calls, self.stake(facts, kind, &[op], small / calls.max(1.0), small))
            }
            // Sums of calls give a mean size; only calls seen one by one can be called small.
            _ => {
                let counted =
                    |bins: &[iotide_trace::SizeBin]| bins.iter().map(|bin| bin.calls as f64).sum::<f64>();
                let all = counted(&sizes.exact);
                if all == 0.0 {
                    let nothing = counted(&sizes.averaged) == 0.0 && sizes.n_uncounted == 0;
                    return if nothing {
                        Verdict::Clear
                    } else {
                        Verdict::NotKnown("the sizes of single calls")
                    };
                }
                let small = counted(&sizes.exact[..MEGABYTE_LOG2]);
                let of_op = self.seen.ops.iter().filter(|known| known.op == op);
                let seconds: f64 = of_op.map(|known| known.sums.time_s).sum();
                let stake = AtStake {
                    calls: small,
                    bytes: sizes.exact[..MEGABYTE_LOG2].iter().map(|bin| bin.bytes).sum(),
                    seconds: seconds * small / all,
                    files: self.files_of_small_calls(op),
                    ..AtStake::default()
                };
                (small, all, stake)
            }
        };
        let share = if calls > 0.0 { small / calls } else { 0.0 };
        let Some(severity) = self
            .weigh_stake(share, self.thresholds.small_share, &stake)
            .filter(|_| calls >= self.thresholds.least_calls)
        else {
            return Verdict::Clear;
        };
        let (what, advice) = if rule == Rule::SmallReads {
            (
                "reads",
                "read larger blocks, or let a library gather them: collective reads, a larger stdio or HDF5 buffer",
            )
        } else {
            (
                "writes",
                "gather data before writing: collective writes, a larger buffer, fewer and larger calls",
            )
        };
        found_in(
            rule,
            severity,
            format!("{} of {calls} {what} move less than a megabyte", percent(share)),
            advice,
            &[("small_calls", small), ("calls", calls), ("share", share)],
            stake,
        )
    }

    /// The files with most calls, where a call moves less than a megabyte on average.
    fn files_of_small_calls(&self, op: Op) -> Vec<String> {
        let moves = |file: &&iotide_trace::FileActivity| {
            let bytes = if op == Op::Read { file.sums.bytes_read } else { file.sums.bytes_written };
            bytes > 0.0
                && file.sums.bytes() < (1u64 << MEGABYTE_LOG2) as f64 * file.sums.calls as f64
                && !is_standard_stream(&file.path)
        };
        let mut files: Vec<_> = self.seen.files.iter().filter(moves).collect();
        files.sort_by(|a, b| b.sums.calls.cmp(&a.sums.calls).then_with(|| a.path.cmp(&b.path)));
        files.into_iter().take(3).map(|file| file.path.clone()).collect()
    }

    pub(super) fn random(&self, rule: Rule, way: fn(&AccessFacts) -> WayFacts) -> Verdict {
        let Some(placed) = self.placed() else { return Verdict::NotKnown("offsets of calls") };
        let facts = way(placed);
        let Some(random) = facts.random else { return Verdict::NotKnown("offsets of calls") };
        let (calls, random) = (facts.calls as f64, random as f64);
        let share = if calls > 0.0 { random / calls } else { 0.0 };
        let (kind, op, what) = match rule {
            Rule::RandomReads => (StakeKind::RandomReads, Op::Read, "reads"),
            _ => (StakeKind::RandomWrites, Op::Write, "writes"),
        };
        let stake = self.stake(placed, kind, &[op], share, random);
        let Some(severity) = self.weigh_stake(share, self.thresholds.random_share, &stake) else {
            return Verdict::Clear;
        };
        found_in(
            rule,
            severity,
            format!("{} of {calls} {what} go back in their file", percent(share)),
            "go through the file in order, or lay data out in the order of their use; collective I/O sorts requests by itself",
            &[("random_calls", random), ("calls", calls), ("share", share)],
            stake,
        )
    }

    pub(super) fn misaligned(&self) -> Verdict {
        let Some(facts) = self.placed() else { return Verdict::NotKnown("offsets of calls") };
        let Some(misaligned) = facts.misaligned_in_file else { return Verdict::NotKnown("offsets of calls") };
        let calls = facts.reads.calls as f64 + facts.writes.calls as f64;
        let share = if calls > 0.0 { (misaligned as f64 / calls).min(1.0) } else { 0.0 };
        let both = [Op::Read, Op::Write];
        let stake = self.stake(facts, StakeKind::Misaligned, &both, share, misaligned as f64);
        match self.weigh_stake(share, self.thresholds.misaligned_share, &stake) {
            Some(severity) => found_in(
                Rule::Misaligned,
                severity,
                format!("{} of {calls} calls begin at an offset that is not aligned", percent(share)),
                "align data to the blocks or stripes of the file system (H5Pset_alignment, striping_unit)",
                &[
                    ("misaligned_calls", misaligned as f64),
                    ("calls", calls),
                    ("share", share),
                    ("alignment_bytes", facts.file_alignment_bytes.unwrap_or(0) as f64),
                ],
                stake,
            ),
            _ => Verdict::Clear,
        }
    }

    pub(super) fn redundant(&self, rule: Rule) -> Verdict {
        let is_read = rule == Rule::RedundantReads;
        let again =
            self.placed().and_then(|facts| if is_read { facts.reread_bytes } else { facts.rewritten_bytes });
        let (Some(facts), Some(again)) = (self.placed(), again) else {
            return Verdict::NotKnown(if is_read {
                "which bytes were read"
            } else {
                "which bytes were written"
            });
        };
        let op = if is_read { Op::Read } else { Op::Write };
        let moved: f64 = self.bytes_of(facts.layer, op);
        let share = if moved > 0.0 { (again / moved).min(1.0) } else { 0.0 };
        let kind = if is_read { StakeKind::Rereads } else { StakeKind::Rewrites };
        // However many calls: bytes count.
        let calls = self.thresholds.least_calls;
        let stake = AtStake { calls, ..self.stake(facts, kind, &[op], share, calls) };
        let (message, advice, names) = if is_read {
            (
                format!("at least {} of the bytes read had been read before", percent(share)),
                "keep what was read in memory, or let one rank read and broadcast it",
                ["reread_bytes", "bytes_read"],
            )
        } else {
            (
                format!("at least {} of the bytes written had been written before", percent(share)),
                "write what is final, keep what changes in memory or on local storage",
                ["rewritten_bytes", "bytes_written"],
            )
        };
        match self.weigh_stake(share, self.thresholds.redundant_share, &stake) {
            Some(severity) if again >= self.thresholds.least_bytes => found_in(
                rule,
                severity,
                message,
                advice,
                &[(names[0], again), (names[1], moved), ("share", share)],
                stake,
            ),
            _ => Verdict::Clear,
        }
    }

    pub(super) fn small_shared(&self) -> Verdict {
        if self.n_ranks < 2.0 {
            return Verdict::Clear;
        }
        let stake = self
            .placed()
            .and_then(|facts| AtStake::counted(self.seen, facts, StakeKind::SmallShared, self.n_ranks));
        let (Some(facts), Some(stake)) = (self.placed(), stake) else {
            return Verdict::NotKnown("which files ranks share, with the sizes of calls on them");
        };
        let calls = facts.reads.calls as f64 + facts.writes.calls as f64;
        let share = if calls > 0.0 { stake.calls / calls } else { 0.0 };
        match self.weigh_stake(share, self.thresholds.small_share, &stake) {
            Some(severity) => found_in(
                Rule::SmallShared,
                severity,
                format!(
                    "{} of {calls} calls move less than a megabyte of a file that several ranks use",
                    percent(share)
                ),
                "let ranks access shared files together: collective calls, with few aggregators that move large blocks",
                &[("small_shared_calls", stake.calls), ("calls", calls), ("share", share)],
                stake,
            ),
            None => Verdict::Clear,
        }
    }
}
