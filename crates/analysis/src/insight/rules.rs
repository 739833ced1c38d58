//! The rules themselves.

use iotide_trace::{AccessFacts, AccessSizes, ActivitySums, JobInfo, Layer, Op, Rank, WayFacts};

use super::{Insight, InsightThresholds, Rule, Severity, Verdict};
use crate::Evidence;

/// A run as the rules look at it.
pub(super) struct Run<'a> {
    seen: &'a ActivitySums,
    thresholds: &'a InsightThresholds,
    n_ranks: f64,
    bytes: f64,
}

impl<'a> Run<'a> {
    pub(super) fn of(seen: &'a ActivitySums, job: &JobInfo, thresholds: &'a InsightThresholds) -> Self {
        let named = seen.n_ranks as f64;
        let n_ranks = job.n_procs.map_or(named, |n_procs| n_procs as f64).max(1.0);
        // Layers above POSIX may be seen beside it; the lowest has each byte once.
        let of_layer = |layer: Layer| -> f64 {
            seen.ops.iter().filter(|op| op.layer == layer && op.op.moves_data()).map(|op| op.sums.bytes).sum()
        };
        let low: f64 = [Layer::Posix, Layer::Stdio, Layer::Unknown, Layer::Server].map(of_layer).iter().sum();
        let bytes = if low > 0.0 { low } else { of_layer(Layer::MpiIo).max(of_layer(Layer::Library)) };
        Self { seen, thresholds, n_ranks, bytes }
    }

    pub(super) fn apply(&self, rule: Rule) -> Verdict {
        match rule {
            Rule::SmallReads => self.small(rule, &self.seen.reads, |facts| facts.reads),
            Rule::SmallWrites => self.small(rule, &self.seen.writes, |facts| facts.writes),
            Rule::RandomReads => self.random(rule, |facts| facts.reads),
            Rule::RandomWrites => self.random(rule, |facts| facts.writes),
            Rule::Misaligned => self.misaligned(),
            Rule::RedundantReads => self.redundant(),
            Rule::RankImbalance => self.imbalance(),
            Rule::Stragglers => self.stragglers(),
            Rule::MissingCollectives => self.collectives(),
            Rule::StdioBulk => self.stdio(),
            Rule::MetadataTime => self.metadata(),
            Rule::OpenCloseChurn => self.churn(),
        }
    }

    fn facts(&self, layer: Layer) -> Option<&AccessFacts> {
        self.seen.access.iter().find(|facts| facts.layer == layer)
    }

    fn posix(&self) -> Option<&AccessFacts> {
        self.facts(Layer::Posix)
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

    fn small(&self, rule: Rule, sizes: &AccessSizes, way: fn(&AccessFacts) -> WayFacts) -> Verdict {
        let (small, calls) = match self.posix().map(way) {
            Some(WayFacts { calls, small: Some(small), .. }) => (small as f64, calls as f64),
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
                (counted(&sizes.exact[..MEGABYTE_LOG2]), all)
            }
        };
        let share = if calls > 0.0 { small / calls } else { 0.0 };
        let Some(severity) =
            self.weigh(share, self.thresholds.small_share).filter(|_| calls >= self.thresholds.least_calls)
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
        found(
            rule,
            severity,
            format!("{} of {calls} {what} move less than a megabyte", percent(share)),
            advice,
            &[("small_calls", small), ("calls", calls), ("share", share)],
        )
    }

    fn random(&self, rule: Rule, way: fn(&AccessFacts) -> WayFacts) -> Verdict {
        let Some(facts) = self.posix().map(way) else { return Verdict::NotKnown("offsets of calls") };
        let Some(sequential) = facts.sequential else { return Verdict::NotKnown("offsets of calls") };
        let (calls, sequential) = (facts.calls as f64, sequential as f64);
        let random = (calls - sequential).max(0.0);
        let share = if calls > 0.0 { random / calls } else { 0.0 };
        let Some(severity) =
            self.weigh(share, self.thresholds.random_share).filter(|_| calls >= self.thresholds.least_calls)
        else {
            return Verdict::Clear;
        };
        let what = if rule == Rule::RandomReads { "reads" } else { "writes" };
        found(
            rule,
            severity,
            format!("{} of {calls} {what} go back in their file", percent(share)),
            "go through the file in order, or lay data out in the order of their use; collective I/O sorts requests by itself",
            &[("random_calls", random), ("calls", calls), ("share", share)],
        )
    }

    fn misaligned(&self) -> Verdict {
        let Some(facts) = self.posix() else { return Verdict::NotKnown("offsets of calls") };
        let Some(misaligned) = facts.misaligned_in_file else { return Verdict::NotKnown("offsets of calls") };
        let calls = (facts.reads.calls + facts.writes.calls) as f64;
        let share = if calls > 0.0 { (misaligned as f64 / calls).min(1.0) } else { 0.0 };
        match self.weigh(share, self.thresholds.misaligned_share) {
            Some(severity) if calls >= self.thresholds.least_calls => found(
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
            ),
            _ => Verdict::Clear,
        }
    }

    fn redundant(&self) -> Verdict {
        let Some(again) = self.posix().and_then(|facts| facts.reread_bytes) else {
            return Verdict::NotKnown("which bytes were read");
        };
        let read: f64 = self.bytes_of(Layer::Posix, Op::Read);
        let share = if read > 0.0 { (again / read).min(1.0) } else { 0.0 };
        match self.weigh(share, self.thresholds.redundant_share) {
            Some(severity) if again >= self.thresholds.least_bytes => found(
                Rule::RedundantReads,
                severity,
                format!("at least {} of the bytes read had been read before", percent(share)),
                "keep what was read in memory, or let one rank read and broadcast it",
                &[("reread_bytes", again), ("bytes_read", read), ("share", share)],
            ),
            _ => Verdict::Clear,
        }
    }

    fn imbalance(&self) -> Verdict {
        if self.n_ranks < 2.0 || self.bytes < self.thresholds.least_bytes {
            return Verdict::Clear;
        }
        let rows = &self.seen.heat.rows;
        let sums: Vec<f64> = rows
            .iter()
            .filter(|row| row.first != Rank::ALL)
            .map(|row| row.read.iter().chain(&row.written).sum())
            .collect();
        let told: f64 = sums.iter().sum();
        // What is known of all ranks together may hide any difference.
        if sums.is_empty() || told < 0.5 * self.bytes {
            return Verdict::NotKnown("which rank moved how much");
        }
        let n_rows =
            (self.n_ranks / f64::from(self.seen.heat.ranks_per_row.max(1))).ceil().max(sums.len() as f64);
        let (most, mean) = (sums.iter().copied().fold(0.0, f64::max), told / n_rows);
        let share = 1.0 - mean / most;
        match self.weigh(share, self.thresholds.imbalance_share) {
            Some(severity) => found(
                Rule::RankImbalance,
                severity,
                format!("the busiest rank moves {:.1} times the mean", most / mean),
                "share the data out evenly, or use collective I/O with several aggregators",
                &[("most_bytes", most), ("mean_bytes", mean), ("share", share)],
            ),
            None => Verdict::Clear,
        }
    }

    fn stragglers(&self) -> Verdict {
        if self.n_ranks < 2.0 {
            return Verdict::Clear;
        }
        let shared = self.seen.access.iter().filter_map(|facts| facts.straggler);
        let shared =
            shared.max_by(|a, b| (a.slowest_s - a.fastest_s).total_cmp(&(b.slowest_s - b.fastest_s)));
        let (who, slowest_s, other_s, of_what) = match (shared, self.seen.rank_times) {
            (Some(s), _) => (s.slowest_rank as f64, s.slowest_s, s.fastest_s, "fastest_s"),
            (None, Some(times)) if times.n_ranks > 1 => {
                (f64::from(times.slowest.0), times.slowest_s, times.mean_s, "mean_s")
            }
            _ => return Verdict::NotKnown("the time each rank spends in calls"),
        };
        let share = if slowest_s > 0.0 { 1.0 - other_s / slowest_s } else { 0.0 };
        match self.weigh(share, self.thresholds.straggler_share) {
            Some(severity) if slowest_s - other_s >= self.thresholds.straggler_s => found(
                Rule::Stragglers,
                severity,
                format!("rank {who} spends {slowest_s:.1} s in calls where others spend {other_s:.1} s"),
                "look at what that rank does beside the others, at its node, and at the striping of the file they share",
                &[("rank", who), ("slowest_s", slowest_s), (of_what, other_s), ("share", share)],
            ),
            _ => Verdict::Clear,
        }
    }

    fn collectives(&self) -> Verdict {
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
        let calls = collective + independent;
        let share = if calls > 0.0 { independent / calls } else { 0.0 };
        match self.weigh(share, self.thresholds.independent_share) {
            Some(severity) if calls >= self.thresholds.least_calls => found(
                Rule::MissingCollectives,
                severity,
                format!("{} of {calls} MPI-IO calls are made by each rank alone", percent(share)),
                "use collective calls (MPI_File_write_all, H5FD_MPIO_COLLECTIVE), so that few ranks write large blocks",
                &[("independent_calls", independent), ("collective_calls", collective), ("share", share)],
            ),
            _ => Verdict::Clear,
        }
    }

    fn stdio(&self) -> Verdict {
        let known = self.seen.ops.iter().any(|op| op.op.moves_data() && op.layer != Layer::Unknown);
        if !known && self.bytes > 0.0 {
            return Verdict::NotKnown("which layer moved the bytes");
        }
        let bytes = self.bytes_of(Layer::Stdio, Op::Read) + self.bytes_of(Layer::Stdio, Op::Write);
        let share = if self.bytes > 0.0 { bytes / self.bytes } else { 0.0 };
        match self.weigh(share, self.thresholds.stdio_share) {
            Some(severity) if bytes >= self.thresholds.least_bytes => found(
                Rule::StdioBulk,
                severity,
                format!("{} of the bytes go through C streams", percent(share)),
                "move bulk data with POSIX or MPI-IO calls, or a library above them; C streams are made for text",
                &[("stdio_bytes", bytes), ("bytes", self.bytes), ("share", share)],
            ),
            _ => Verdict::Clear,
        }
    }

    fn metadata(&self) -> Verdict {
        let times = &self.seen.times;
        if !times.iter().any(|time| time.metadata_s.is_some()) {
            return if self.seen.ops.is_empty() {
                Verdict::Clear
            } else {
                Verdict::NotKnown("time in metadata calls")
            };
        }
        // Layers contain each other; the one that spends most is the outermost that was seen.
        let metadata_s = times.iter().filter_map(|time| time.metadata_s).fold(0.0, f64::max);
        let data_s = times
            .iter()
            .map(|time| time.read_s.unwrap_or(0.0) + time.write_s.unwrap_or(0.0))
            .fold(0.0, f64::max);
        let per_rank_s = metadata_s / self.n_ranks;
        let share = if metadata_s > 0.0 { metadata_s / (metadata_s + data_s) } else { 0.0 };
        let long = self.weigh(per_rank_s, self.thresholds.metadata_s_per_rank);
        // A large share of next to nothing is nothing.
        let much = self.weigh(share, self.thresholds.metadata_share).filter(|_| per_rank_s >= 1.0);
        let Some(severity) = [long, much].into_iter().flatten().min() else { return Verdict::Clear };
        found(
            Rule::MetadataTime,
            severity,
            format!(
                "a rank spends {per_rank_s:.1} s in metadata calls, {} of its time in I/O",
                percent(share)
            ),
            "open files once and keep them open, use fewer and larger files, avoid stat in loops",
            &[("metadata_s_per_rank", per_rank_s), ("metadata_s", metadata_s), ("share", share)],
        )
    }

    fn churn(&self) -> Verdict {
        let files = &self.seen.files;
        let opens: f64 = files.iter().map(|file| file.sums.opens as f64).sum();
        if opens == 0.0 {
            let counted = self.seen.ops.iter().any(|op| op.op == Op::Open);
            return match (counted, self.seen.ops.is_empty()) {
                (true, _) => Verdict::NotKnown("which file was opened"),
                (false, true) => Verdict::Clear,
                (false, false) => Verdict::NotKnown("opens"),
            };
        }
        let uses = |file: &iotide_trace::FileActivity| {
            if file.sums.all_ranks { self.n_ranks } else { f64::from(file.sums.n_ranks.max(1)) }
        };
        let worst = files
            .iter()
            .max_by(|a, b| (a.sums.opens as f64 / uses(a)).total_cmp(&(b.sums.opens as f64 / uses(b))));
        let Some(worst) = worst else { return Verdict::Clear };
        let often = worst.sums.opens as f64 / uses(worst);
        match self.weigh(often, self.thresholds.opens_per_file) {
            Some(severity) if opens >= self.thresholds.least_calls => found(
                Rule::OpenCloseChurn,
                severity,
                format!("{} is opened {often:.0} times by each rank that uses it", worst.path),
                "open the file once and keep it open until the last use",
                &[("opens_per_rank", often), ("opens_of_file", worst.sums.opens as f64), ("opens", opens)],
            ),
            _ => Verdict::Clear,
        }
    }

    fn bytes_of(&self, layer: Layer, op: Op) -> f64 {
        let of = self.seen.ops.iter().filter(|known| known.layer == layer && known.op == op);
        of.map(|known| known.sums.bytes).sum()
    }
}

/// 2²⁰ bytes: where the bins of sizes turn large.
const MEGABYTE_LOG2: usize = 20;

fn percent(share: f64) -> String {
    format!("{:.0} %", 100.0 * share)
}

fn found(
    rule: Rule,
    severity: Severity,
    message: String,
    advice: &'static str,
    evidence: &[(&'static str, f64)],
) -> Verdict {
    let evidence = evidence.iter().map(|&(name, value)| Evidence { name, value }).collect();
    Verdict::Found(Insight { rule, severity, message, evidence, advice })
}

#[cfg(test)]
mod tests {
    use iotide_trace::{Activity, Event, EventSink, FileId, Timestamp, TraceInfo};

    use super::*;
    use crate::{InsightConfig, Insights, insights};

    fn at(secs: f64) -> Timestamp {
        Timestamp::from_secs_since_start(secs).unwrap()
    }

    fn call(op: Op, rank: i32, layer: Layer, start_s: f64, bytes: f64) -> Event {
        Event {
            layer,
            file: FileId(0),
            ..Event::data(op, Rank(rank), at(start_s), at(start_s + 0.01), bytes)
        }
    }

    fn judged(
        events: impl IntoIterator<Item = Event>,
        facts: &[AccessFacts],
        config: &InsightConfig,
    ) -> Insights {
        let mut activity = Activity::new();
        for event in events {
            let _ = activity.event(event);
        }
        facts.iter().for_each(|facts| activity.access_facts(facts));
        let info = TraceInfo { files: vec!["/scratch/out".into()], ..TraceInfo::default() };
        let job = JobInfo { n_procs: Some(4), ..JobInfo::default() };
        insights(&activity.finish(&info), &job, config)
    }

    fn rules(insights: &Insights) -> Vec<&'static str> {
        insights.found.iter().map(|insight| insight.rule.name()).collect()
    }

    fn writes(n: i32, bytes: f64) -> Vec<Event> {
        (0..n).map(|i| call(Op::Write, i % 4, Layer::Posix, f64::from(i), bytes)).collect()
    }

    #[test]
    fn many_small_writes_are_told_and_large_ones_are_not() {
        let small = judged(writes(2000, 4096.0), &[], &InsightConfig::default());
        assert_eq!(rules(&small), ["small_writes"]);
        assert_eq!(small.found[0].severity, Severity::High);
        assert_eq!(small.found[0].message, "100 % of 2000 writes move less than a megabyte");
        assert!(rules(&judged(writes(2000, 8e6), &[], &InsightConfig::default())).is_empty());
        assert!(rules(&judged(writes(900, 4096.0), &[], &InsightConfig::default())).is_empty());
    }

    #[test]
    fn what_a_source_does_not_count_is_not_known_rather_than_fine() {
        let seen = judged(writes(2000, 8e6), &[], &InsightConfig::default());
        let not_known: Vec<&str> = seen.not_known.iter().map(|(rule, _)| rule.name()).collect();
        assert_eq!(
            not_known,
            [
                "random_reads",
                "random_writes",
                "misaligned",
                "redundant_reads",
                "metadata_time",
                "open_close_churn"
            ]
        );
        assert!(!seen.clear.contains(&Rule::RandomWrites));
    }

    #[test]
    fn counters_of_the_source_tell_random_misaligned_and_redundant_accesses() {
        let facts = AccessFacts {
            layer: Layer::Posix,
            reads: WayFacts { calls: 4000, small: Some(0), sequential: Some(1000), ..WayFacts::default() },
            misaligned_in_file: Some(3000),
            file_alignment_bytes: Some(1 << 20),
            reread_bytes: Some(9e9),
            ..AccessFacts::default()
        };
        let reads = (0..2000).map(|i| call(Op::Read, i % 4, Layer::Posix, f64::from(i), 8e6));
        let seen = judged(reads, &[facts], &InsightConfig::default());
        assert_eq!(rules(&seen), ["random_reads", "misaligned", "redundant_reads"]);
    }

    #[test]
    fn one_rank_that_moves_or_takes_most_stands_out() {
        let mut events = writes(400, 2e6);
        events.extend((0..400).map(|i| call(Op::Write, 3, Layer::Posix, f64::from(i) + 0.5, 8e6)));
        let seen = judged(events, &[], &InsightConfig::default());
        assert_eq!(rules(&seen), ["rank_imbalance", "stragglers"]);
        assert_eq!(seen.found[0].evidence[0], Evidence { name: "most_bytes", value: 3.4e9 });
    }

    #[test]
    fn ranks_that_never_write_together_miss_collectives() {
        let independent = WayFacts { collective: Some(10), independent: Some(5000), ..WayFacts::default() };
        let none = WayFacts { collective: Some(0), independent: Some(0), ..WayFacts::default() };
        let facts =
            AccessFacts { layer: Layer::MpiIo, reads: none, writes: independent, ..AccessFacts::default() };
        assert_eq!(rules(&judged([], &[facts], &InsightConfig::default())), ["missing_collectives"]);
    }

    #[test]
    fn bulk_data_through_c_streams_and_churn_are_told() {
        let mut events: Vec<Event> =
            (0..200).map(|i| call(Op::Write, i % 4, Layer::Stdio, f64::from(i), 8e6)).collect();
        events.extend((0..2000).map(|i| call(Op::Open, i % 4, Layer::Stdio, f64::from(i), 0.0)));
        let seen = judged(events, &[], &InsightConfig::default());
        assert_eq!(rules(&seen), ["stdio_bulk", "metadata_time", "open_close_churn"]);
        assert_eq!(seen.found[2].message, "/scratch/out is opened 500 times by each rank that uses it");
    }

    #[test]
    fn a_rule_can_be_switched_off_and_its_threshold_moved() {
        let mut off = InsightConfig::default();
        off.set("small_writes", 0.0).unwrap();
        assert!(rules(&judged(writes(2000, 4096.0), &[], &off)).is_empty());
        let mut patient = InsightConfig::default();
        patient.set("least_calls", 1e6).unwrap();
        assert!(rules(&judged(writes(2000, 4096.0), &[], &patient)).is_empty());
    }

    #[test]
    fn a_setting_nobody_knows_or_that_makes_no_sense_is_refused() {
        let mut config = InsightConfig::default();
        assert_eq!(
            config.set("smal_writes", 0.0).unwrap_err().to_string(),
            "there is no setting \"smal_writes\""
        );
        let below = config.set("small_share", -1.0).unwrap_err();
        assert_eq!(below.to_string(), "-1 is no value for small_share: it must be a number not below 0");
        for setting in InsightThresholds::SETTINGS {
            assert_eq!(config.thresholds.get(setting.key), Some(setting.default));
            assert!(setting.doc.ends_with('.'), "{}", setting.key);
            assert_eq!(Rule::from_name(setting.key), None);
        }
    }

    #[test]
    fn a_run_that_did_nothing_did_nothing_wrong() {
        let seen = judged([], &[], &InsightConfig::default());
        assert!(seen.found.is_empty());
    }
}
