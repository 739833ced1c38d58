use iotide_trace::{
    Activity, Event, EventSink, FileId, FileStake, Rank, Stake, TargetTime, Timestamp, TraceInfo, WayFacts,
};

use super::*;
use crate::{InsightConfig, Insights, insights};

fn at(secs: f64) -> Timestamp {
    Timestamp::from_secs_since_start(secs).unwrap()
}

fn call(op: Op, rank: i32, layer: Layer, start_s: f64, bytes: f64) -> Event {
    Event { layer, file: FileId(0), ..Event::data(op, Rank(rank), at(start_s), at(start_s + 0.01), bytes) }
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
fn only_all_is_called_all() {
    let said = [1.0, 16_401.0 / 16_402.0, 0.995, 0.994, 0.5].map(super::percent);
    assert_eq!(said, ["100 %", "99.9 %", "99.5 %", "99 %", "50 %"]);
}

#[test]
fn many_small_writes_are_told_and_large_ones_are_not() {
    let small = judged(writes(2000, 4096.0), &[], &InsightConfig::default());
    assert_eq!(rules(&small), ["small_writes"]);
    // 20 s of four ranks, in a run of 2000 s.
    assert_eq!(small.found[0].severity, Severity::Warning);
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
            "redundant_writes",
            "small_shared",
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
        reads: WayFacts { calls: 4000, small: Some(0), random: Some(3000), ..WayFacts::default() },
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
fn a_rank_that_moves_most_stands_out_and_is_no_straggler() {
    let mut events = writes(400, 2e6);
    events.extend((0..400).map(|i| call(Op::Write, 3, Layer::Posix, f64::from(i) + 0.5, 8e6)));
    let seen = judged(events, &[], &InsightConfig::default());
    assert_eq!(rules(&seen), ["rank_imbalance"]);
    assert_eq!(seen.found[0].evidence[0], Evidence { name: "most_bytes", value: 3.4e9 });
    assert_eq!(seen.found[0].ranks, [3]);
}

#[test]
fn a_rank_that_takes_longer_for_as_many_bytes_is_a_straggler() {
    let mut events = writes(400, 8e6);
    for event in events.iter_mut().filter(|event| event.rank == Rank(2)) {
        event.end = event.start.plus_nanos(100_000_000);
    }
    let seen = judged(events, &[], &InsightConfig::default());
    assert_eq!(rules(&seen), ["stragglers"]);
    assert_eq!(
        seen.found[0].message,
        "rank 2 spends 10.0 s in calls where others with as much to do spend 1.0 s"
    );
}

#[test]
fn imbalance_is_seen_however_many_ranks_there_are() {
    let n_ranks = 2000;
    let events = (0..n_ranks).map(|rank| {
        let bytes = if rank == 1234 { 8e9 } else { 1e7 };
        call(Op::Write, rank, Layer::Posix, 0.0, bytes)
    });
    let mut activity = Activity::new();
    for event in events {
        let _ = activity.event(event);
    }
    let job = JobInfo { n_procs: Some(n_ranks as u64), ..JobInfo::default() };
    let seen = insights(&activity.finish(&TraceInfo::default()), &job, &InsightConfig::default());
    assert_eq!(rules(&seen), ["rank_imbalance"]);
    assert_eq!(seen.found[0].ranks, [1234]);
}

#[test]
fn what_one_rank_moves_of_a_shared_file_shows_an_imbalance() {
    use iotide_trace::RankPart;
    let shared = || (0..40).map(|i| call(Op::Write, -1, Layer::Posix, f64::from(i), 8e7));
    let told = |bytes| AccessFacts {
        layer: Layer::Posix,
        rank_parts: vec![RankPart { rank: Rank(1), bytes: 1e6 }, RankPart { rank: Rank(3), bytes }],
        ..AccessFacts::default()
    };
    let heavy = judged(shared(), &[told(3.0e9)], &InsightConfig::default());
    assert_eq!(rules(&heavy), ["rank_imbalance"]);
    assert_eq!(heavy.found[0].message, "rank 3 moves at least 3.8 times the mean");
    assert_eq!(heavy.found[0].ranks, [3]);
    // Nearly four times the mean, and little all the same.
    let log = (0..40).map(|i| call(Op::Write, -1, Layer::Posix, f64::from(i), 2.6e6));
    let little = judged(log, &[told(9.5e7)], &InsightConfig::default());
    assert!(little.clear.contains(&Rule::RankImbalance), "{:?}", little.found);
    // That those two moved little says nothing of the others.
    for light in [
        judged(shared(), &[told(9e8)], &InsightConfig::default()),
        judged(shared(), &[], &InsightConfig::default()),
    ] {
        assert!(light.not_known.iter().any(|(rule, _)| *rule == Rule::RankImbalance), "{:?}", light.found);
    }
}

#[test]
fn bytes_count_once_in_the_layer_that_saw_them() {
    let mean = |seen: &Insights| {
        let found = seen.found.iter().find(|insight| insight.rule == Rule::RankImbalance).unwrap();
        found.evidence.iter().find(|known| known.name == "mean_bytes").unwrap().value
    };
    // Rank 0 writes 4 GB by MPI-IO to a file that POSIX did not see, and a log of 200 MB that only POSIX saw.
    let of = |layer, file, bytes| {
        (0..100).map(move |i| Event { file: FileId(file), ..call(Op::Write, 0, layer, f64::from(i), bytes) })
    };
    let apart = of(Layer::MpiIo, 0, 4e7).chain(of(Layer::Posix, 1, 2e6));
    assert_eq!(mean(&judged(apart, &[], &InsightConfig::default())), 4.2e9 / 4.0);
    // The same bytes by MPI-IO and by POSIX, where both are asked for.
    let twice = of(Layer::MpiIo, 0, 4e7).chain(of(Layer::Posix, 0, 4e7));
    assert_eq!(mean(&judged(twice, &[], &InsightConfig::default())), 4e9 / 4.0);
    // POSIX saw a part only.
    let partly = of(Layer::MpiIo, 0, 4e7).chain(of(Layer::Posix, 0, 1e7));
    assert_eq!(mean(&judged(partly, &[], &InsightConfig::default())), 4e9 / 4.0);
}

#[test]
fn aggregators_are_compared_with_each_other() {
    // Two of four ranks move the bytes of all.
    let events = || (0..400).map(|i| call(Op::Write, i % 2, Layer::Posix, f64::from(i), 8e6));
    let way = |collective, independent| WayFacts { collective, independent, ..WayFacts::default() };
    let facts = |way| AccessFacts { layer: Layer::MpiIo, reads: way, writes: way, ..AccessFacts::default() };
    let together = facts(way(Some(400), Some(0)));
    assert!(rules(&judged(events(), &[together], &InsightConfig::default())).is_empty());
    // That the others read a header makes them no aggregators.
    let headers = || (0..4).map(|rank| call(Op::Read, rank, Layer::Posix, 400.0, 5e4));
    let together = [facts(way(Some(400), Some(4)))];
    assert!(rules(&judged(events().chain(headers()), &together, &InsightConfig::default())).is_empty());
    let alone = judged(events(), &[facts(way(Some(0), Some(400)))], &InsightConfig::default());
    assert_eq!(rules(&alone), ["rank_imbalance"]);
    // One that moves the bytes of all is compared with these.
    let one = events().map(|event| Event { rank: Rank(0), ..event }).chain(headers());
    let one = judged(one, &together, &InsightConfig::default());
    assert_eq!(rules(&one), ["rank_imbalance"]);
    assert_eq!(one.found[0].message, "rank 0 moves 4.0 times the mean");
}

#[test]
fn an_imbalance_of_next_to_no_time_is_a_warning() {
    let events =
        |gap_s: f64| (0..400).map(move |i| call(Op::Write, 0, Layer::Posix, gap_s * f64::from(i), 8e6));
    let severity = |gap_s| {
        let seen = judged(events(gap_s), &[], &InsightConfig::default());
        assert_eq!(rules(&seen), ["rank_imbalance"]);
        assert_eq!(seen.found[0].message, "rank 0 moves all of the bytes");
        seen.found[0].severity
    };
    // 4 s of 40, and of 4000.
    assert_eq!(severity(0.1), Severity::High);
    assert_eq!(severity(10.0), Severity::Warning);
}

#[test]
fn what_is_known_of_one_rank_may_be_enough_for_an_imbalance() {
    // 3 GB of all ranks together, and 4 GB of rank 2.
    let events = |bytes: f64| {
        [call(Op::Write, -1, Layer::Posix, 0.0, 3e9), call(Op::Write, 2, Layer::Posix, 0.0, bytes)]
    };
    let seen = judged(events(4e9), &[], &InsightConfig::default());
    assert_eq!(rules(&seen), ["rank_imbalance"]);
    assert_eq!(seen.found[0].message, "rank 2 moves at least 2.3 times the mean");
    let seen = judged(events(1e8), &[], &InsightConfig::default());
    assert!(seen.not_known.iter().any(|(rule, _)| *rule == Rule::RankImbalance), "{seen:?}");
}

/// File-per-process: the files of ranks 6 and 7 are on a slow target.
#[test]
fn a_slow_storage_target_is_named() {
    let mut activity = Activity::new();
    let target = |target: i64, seconds: f64| TargetTime { target, files: 2, bytes: 2e9, seconds };
    for rank in 0..8 {
        let _ = activity.event(Event {
            grain: iotide_trace::Grain::Record,
            ..call(Op::Write, rank, Layer::Posix, 0.0, 1e9)
        });
        activity.time_spent(iotide_trace::TimeSpent {
            layer: Layer::Posix,
            kind: iotide_trace::TimeKind::Write,
            file: FileId(0),
            rank: Rank(rank),
            seconds: if rank < 6 { 10.0 } else { 600.0 + f64::from(rank) },
        });
    }
    activity.access_facts(&AccessFacts {
        layer: Layer::Posix,
        targets: vec![target(17, 1213.0), target(3, 20.0), target(4, 20.0), target(5, 20.0)],
        ..AccessFacts::default()
    });
    let job = JobInfo { n_procs: Some(8), ..JobInfo::default() };
    let seen = insights(&activity.finish(&TraceInfo::default()), &job, &InsightConfig::default());
    assert_eq!(rules(&seen), ["stragglers"]);
    assert_eq!(
        seen.found[0].message,
        "rank 7 spends 607.0 s in calls where others with as much to do spend 10.0 s; files on storage targets (OST) 17 \
         take 60.7 times as long for a byte as on the median target"
    );
}

#[test]
fn waiting_in_collective_calls_makes_no_straggler() {
    let events = (0..400).map(|i| {
        let mut event = call(Op::Write, i % 4, Layer::MpiIo, f64::from(i), 8e6);
        if i % 4 == 1 {
            event.end = event.start.plus_nanos(500_000_000);
        }
        event
    });
    let collective = WayFacts { collective: Some(400), independent: Some(0), ..WayFacts::default() };
    let together =
        AccessFacts { layer: Layer::MpiIo, writes: collective, reads: collective, ..AccessFacts::default() };
    assert!(rules(&judged(events.clone(), &[together], &InsightConfig::default())).is_empty());
    let alone = WayFacts { collective: Some(0), independent: Some(400), ..WayFacts::default() };
    let alone = AccessFacts { layer: Layer::MpiIo, writes: alone, reads: alone, ..AccessFacts::default() };
    assert_eq!(rules(&judged(events, &[alone], &InsightConfig::default())), ["stragglers"]);
}

fn stake(kind: StakeKind, calls: u64, bytes: f64, seconds: f64) -> Stake {
    let mut stake = Stake::of(kind);
    stake.add(FileStake { file: FileId(0), rank: Rank(2), calls, bytes, seconds });
    stake
}

#[test]
fn a_finding_weighs_what_depends_on_it() {
    let facts = |bytes: f64, seconds: f64| AccessFacts {
        layer: Layer::Posix,
        writes: WayFacts { calls: 2000, small: Some(2000), random: Some(0), ..WayFacts::default() },
        reads: WayFacts { random: Some(0), small: Some(0), ..WayFacts::default() },
        stakes: vec![stake(StakeKind::SmallWrites, 2000, bytes, seconds)],
        ..AccessFacts::default()
    };
    let severity = |bytes, seconds| {
        let seen = judged(writes(400, 8e6), &[facts(bytes, seconds)], &InsightConfig::default());
        seen.found.first().map(|insight| insight.severity)
    };
    // Lines of a log: 14 kB in no time.
    assert_eq!(severity(14e3, 0.01), None);
    // Little of the 3.2 GB and of the 4 s in calls, but more than nothing.
    assert_eq!(severity(110e6, 0.1), Some(Severity::Warning));
    assert_eq!(severity(1e9, 40.0), Some(Severity::High));
    assert_eq!(severity(14e3, 20.0), Some(Severity::High));
    // 2 s of a run of 400 s.
    assert_eq!(severity(1e9, 2.0), Some(Severity::Warning));
    let seen = judged(writes(400, 8e6), &[facts(1e9, 0.1)], &InsightConfig::default());
    assert_eq!(
        (seen.found[0].files.as_slice(), seen.found[0].ranks.as_slice()),
        (&["/scratch/out".into()][..], &[2][..])
    );
}

#[test]
fn bytes_written_again_small_calls_on_shared_files_and_blocking_calls_are_told() {
    let posix = AccessFacts {
        layer: Layer::Posix,
        writes: WayFacts { calls: 4000, small: Some(0), random: Some(0), ..WayFacts::default() },
        rewritten_bytes: Some(9e9),
        stakes: vec![
            stake(StakeKind::Rewrites, 3000, 9e9, 30.0),
            stake(StakeKind::SmallShared, 3000, 1e6, 30.0),
        ],
        ..AccessFacts::default()
    };
    let none =
        WayFacts { collective: Some(0), independent: Some(0), nonblocking: Some(0), ..WayFacts::default() };
    let mpi_io = AccessFacts {
        layer: Layer::MpiIo,
        reads: none,
        writes: WayFacts { calls: 500, collective: Some(500), ..none },
        stakes: vec![stake(StakeKind::Blocking, 500, 9e9, 400.0)],
        ..AccessFacts::default()
    };
    let seen = judged(writes(400, 24e6), &[posix.clone(), mpi_io.clone()], &InsightConfig::default());
    assert_eq!(rules(&seen), ["redundant_writes", "small_shared", "blocking_io"]);
    assert_eq!(
        seen.found[2].message,
        "a rank waits 100.0 s in MPI-IO calls that block, 25 % of the run, and makes none that does not"
    );
    let nonblocking = WayFacts { nonblocking: Some(1), ..mpi_io.writes };
    let seen = judged(
        writes(400, 24e6),
        &[posix, AccessFacts { writes: nonblocking, ..mpi_io }],
        &InsightConfig::default(),
    );
    assert_eq!(rules(&seen), ["redundant_writes", "small_shared"]);
}

#[test]
fn standard_output_is_no_file() {
    let mut activity = Activity::new();
    for i in 0..2000 {
        let _ = activity.event(call(Op::Open, 0, Layer::Stdio, f64::from(i), 0.0));
        let _ = activity.event(call(Op::Write, 0, Layer::Stdio, f64::from(i), 8e6));
    }
    let info = TraceInfo { files: vec!["<STDOUT>".into()], ..TraceInfo::default() };
    let seen = insights(&activity.finish(&info), &JobInfo::default(), &InsightConfig::default());
    assert!(
        !rules(&seen).contains(&"open_close_churn") && !rules(&seen).contains(&"stdio_bulk"),
        "{:?}",
        rules(&seen)
    );
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
fn every_rule_and_every_setting_is_documented() {
    let document = include_str!("../../../../../docs/insights.md");
    for rule in Rule::ALL {
        assert!(document.contains(&format!("`{}`", rule.name())), "{}", rule.name());
    }
    for setting in InsightThresholds::SETTINGS {
        let row = format!("| `{}` | {} | {} |", setting.key, setting.default, setting.doc);
        assert!(document.contains(&row), "{row}");
    }
}

#[test]
fn a_run_that_did_nothing_did_nothing_wrong() {
    let seen = judged([], &[], &InsightConfig::default());
    assert!(seen.found.is_empty());
}
