//! Rules about what ranks do beside each other, and together.

use iotide_trace::{Layer, Op, StakeKind, TargetTime, WayFacts};

use super::{BRIEF_SHARE, Run, found_in, percent};
use crate::insight::stake::AtStake;
use crate::insight::{Rule, Severity, Verdict};

impl Run<'_> {
    pub(super) fn imbalance(&self) -> Verdict {
        if self.n_ranks < 2.0 || self.bytes < self.thresholds.least_bytes {
            return Verdict::Clear;
        }
        let Some(ranks) = self.seen.rank_bytes else { return Verdict::NotKnown("which rank moved how much") };
        // In collective I/O the bytes of all are moved by a few on purpose: these are compared with each other. One alone has no other.
        let n_ranks = match ranks.n_busy {
            aggregators @ 2.. if self.is_collective() => aggregators as f64,
            _ => self.n_ranks.max(ranks.n_ranks as f64),
        };
        // The busiest moves at least what is known of it. What is known of all ranks together may hide any other difference.
        let (most, mean) = (ranks.most_bytes, self.bytes.max(ranks.bytes) / n_ranks);
        let is_known = ranks.bytes >= 0.5 * self.bytes;
        if most <= mean && !is_known {
            return Verdict::NotKnown("which rank moved how much");
        }
        let share = 1.0 - mean / most;
        // A log file of one rank is no load.
        let is_much = most - mean >= self.thresholds.least_bytes;
        match self.weigh(share, self.thresholds.imbalance_share).filter(|_| is_much) {
            Some(severity) => {
                // Bytes of all ranks together are some of them its own.
                let is_all = ranks.bytes >= 0.99 * self.bytes;
                let message = if ranks.n_ranks == 1 && is_all {
                    format!("rank {} moves all of the bytes", ranks.busiest.0)
                } else {
                    let least = if is_all { "" } else { "at least " };
                    format!("rank {} moves {least}{:.1} times the mean", ranks.busiest.0, most / mean)
                };
                // All ranks together take less time than would matter of one.
                let data_s = self.seen.times.iter().flat_map(|time| [time.read_s, time.write_s]);
                let data_s: f64 = data_s.flatten().sum();
                let is_brief =
                    data_s > 0.0 && self.run_time_s.is_some_and(|run_s| data_s < BRIEF_SHARE * run_s);
                let severity = if is_brief { Severity::Warning } else { severity };
                let stake = AtStake { ranks: vec![ranks.busiest.0], ..AtStake::default() };
                found_in(
                    Rule::RankImbalance,
                    severity,
                    message,
                    "share the data out evenly, or use collective I/O with several aggregators",
                    &[
                        ("most_bytes", most),
                        ("mean_bytes", mean),
                        ("ranks_with_bytes", ranks.n_ranks as f64),
                        ("share", share),
                    ],
                    stake,
                )
            }
            None if is_known => Verdict::Clear,
            None => Verdict::NotKnown("which rank moved how much"),
        }
    }

    /// Whether most MPI-IO calls are collective.
    fn is_collective(&self) -> bool {
        let Some(facts) = self.facts(Layer::MpiIo) else { return false };
        let sum = |of: fn(&WayFacts) -> Option<u64>| {
            of(&facts.reads).unwrap_or(0).saturating_add(of(&facts.writes).unwrap_or(0))
        };
        sum(|way| way.collective) > sum(|way| way.independent)
    }

    pub(super) fn stragglers(&self) -> Verdict {
        if self.n_ranks < 2.0 {
            return Verdict::Clear;
        }
        let shared = self.seen.access.iter().filter_map(|facts| facts.straggler).map(|straggler| {
            let file = self.seen.named_files.get(&straggler.file).cloned();
            (straggler.slowest_rank as f64, straggler.slowest_s, straggler.fastest_s, "fastest_s", file)
        });
        let by_rank = self
            .seen
            .rank_times
            .filter(|times| times.n_peers > 0)
            .map(|times| (f64::from(times.slowest.0), times.slowest_s, times.peers_s, "median_s", None));
        let slow_targets = self.slow_targets();
        let worst = shared.chain(by_rank).max_by(|a, b| (a.1 - a.2).total_cmp(&(b.1 - b.2)));
        let Some((who, slowest_s, other_s, of_what, file)) = worst else {
            let known = self.seen.rank_times.is_some() || self.bytes == 0.0;
            return if known {
                Verdict::Clear
            } else {
                Verdict::NotKnown("the time each rank spends in calls")
            };
        };
        let share = if slowest_s > 0.0 { 1.0 - other_s / slowest_s } else { 0.0 };
        let severity = self
            .weigh(share, self.thresholds.straggler_share)
            .filter(|_| slowest_s - other_s >= self.thresholds.straggler_s);
        let Some(severity) = severity else { return Verdict::Clear };
        // A second more in a run of an hour is no matter.
        let is_long = self.run_time_s.is_none_or(|run_s| slowest_s - other_s >= BRIEF_SHARE * run_s);
        let severity = if is_long { severity } else { Severity::Warning };
        let mut message = format!(
            "rank {who} spends {slowest_s:.1} s in calls where others with as much to do spend {other_s:.1} s"
        );
        let mut evidence =
            vec![("rank", who), ("slowest_s", slowest_s), (of_what, other_s), ("share", share)];
        if let Some(slow) = slow_targets {
            let ids: Vec<String> = slow.targets.iter().take(8).map(|target| target.to_string()).collect();
            let more = if slow.targets.len() > ids.len() { " and others" } else { "" };
            message.push_str(&format!(
                "; files on storage targets (OST) {}{more} take {:.1} times as long for a byte as on the median target",
                ids.join(", "),
                slow.factor
            ));
            evidence.push(("slow_targets", slow.targets.len() as f64));
            evidence.push(("slowest_target", slow.targets[0] as f64));
            evidence.push(("target_factor", slow.factor));
        }
        let ranks = if who >= 0.0 { vec![who as i32] } else { Vec::new() };
        found_in(
            Rule::Stragglers,
            severity,
            message,
            "look at what that rank does beside the others, at its node, and at the storage targets of its files",
            &evidence,
            AtStake { files: file.into_iter().collect(), ranks, ..AtStake::default() },
        )
    }

    /// Storage targets that take much longer for a byte than most.
    fn slow_targets(&self) -> Option<SlowTargets> {
        let mut targets: Vec<&TargetTime> =
            self.seen.access.iter().flat_map(|facts| &facts.targets).collect();
        let slowness = |target: &TargetTime| target.seconds / target.bytes;
        targets.sort_by(|a, b| slowness(b).total_cmp(&slowness(a)));
        let median = slowness(targets.get(targets.len() / 2)?);
        let slow: Vec<&TargetTime> = targets
            .iter()
            .copied()
            .filter(|target| slowness(target) > self.thresholds.target_factor * median)
            .collect();
        let factor = slowness(slow.first()?) / median;
        Some(SlowTargets { targets: slow.iter().map(|target| target.target).collect(), factor })
    }

    pub(super) fn collectives(&self) -> Verdict {
        if self.n_ranks < 2.0 {
            return Verdict::Clear;
        }
        let Some(facts) = self.facts(Layer::MpiIo) else {
            // Without MPI-IO there is nothing that could be collective.
            let above = self.seen.ops.iter().any(|op| op.layer == Layer::MpiIo);
            return if above {
                Verdict::NotKnown("which MPI-IO calls are collective")
            } else {
                Verdict::Clear
            };
        };
        let sum = |of: fn(&WayFacts) -> Option<u64>| Some((of(&facts.reads)? + of(&facts.writes)?) as f64);
        let (Some(collective), Some(independent)) = (sum(|way| way.collective), sum(|way| way.independent))
        else {
            return Verdict::NotKnown("which MPI-IO calls are collective");
        };
        let both = [Op::Read, Op::Write];
        let all = collective + independent;
        let even = if all > 0.0 { independent / all } else { 0.0 };
        let stake = self.stake(facts, StakeKind::Independent, &both, even, independent);
        // Files of one rank alone are left out where they are known.
        let independent = stake.calls;
        let calls = collective + independent;
        let share = if calls > 0.0 { independent / calls } else { 0.0 };
        let unknown = stake.bytes == 0.0 && stake.seconds == 0.0;
        let severity = match unknown {
            true => self.weigh(share, self.thresholds.independent_share),
            false => self.weigh_stake(share, self.thresholds.independent_share, &stake),
        };
        match severity {
            Some(severity) if calls >= self.thresholds.least_calls => found_in(
                Rule::MissingCollectives,
                severity,
                format!(
                    "{} of {calls} MPI-IO calls on shared files are made by each rank alone",
                    percent(share)
                ),
                "use collective calls (MPI_File_write_all, H5FD_MPIO_COLLECTIVE), so that few ranks write large blocks",
                &[("independent_calls", independent), ("collective_calls", collective), ("share", share)],
                stake,
            ),
            _ => Verdict::Clear,
        }
    }

    pub(super) fn blocking(&self) -> Verdict {
        let Some(facts) = self.facts(Layer::MpiIo) else {
            let above = self.seen.ops.iter().any(|op| op.layer == Layer::MpiIo);
            return if above { Verdict::NotKnown("which MPI-IO calls block") } else { Verdict::Clear };
        };
        let ways = [facts.reads, facts.writes];
        let nonblocking: Option<u64> = ways.iter().map(|way| way.nonblocking).sum();
        let (Some(nonblocking), Some(run_time_s)) = (nonblocking, self.run_time_s) else {
            return Verdict::NotKnown("which MPI-IO calls block");
        };
        let calls: u64 = ways.iter().map(|way| way.calls).sum();
        let both = [Op::Read, Op::Write];
        let stake = self.stake(facts, StakeKind::Blocking, &both, 1.0, calls as f64);
        if nonblocking > 0 || stake.seconds <= 0.0 {
            return Verdict::Clear;
        }
        let per_rank_s = stake.seconds / self.n_ranks;
        let share = (per_rank_s / run_time_s.max(per_rank_s)).min(1.0);
        match self.weigh(share, self.thresholds.blocking_share) {
            // What to compute meanwhile, only the program knows: worth a look and no more.
            Some(_) if per_rank_s >= self.thresholds.least_s => found_in(
                Rule::BlockingIo,
                Severity::Warning,
                format!(
                    "a rank waits {per_rank_s:.1} s in MPI-IO calls that block, {} of the run, and makes none that does not",
                    percent(share)
                ),
                "compute while data move: MPI_File_iwrite and iread (or their _all forms), the asynchronous VOL connector of HDF5",
                &[("blocking_calls", calls as f64), ("s_per_rank", per_rank_s), ("share", share)],
                stake,
            ),
            _ => Verdict::Clear,
        }
    }
}

/// Storage targets that stand out.
struct SlowTargets {
    /// The slowest first.
    targets: Vec<i64>,
    /// How much longer the slowest takes than the median.
    factor: f64,
}
