//! What the rules say of real logs, where they or Drishti once went wrong.

use iotide_analysis::{InsightConfig, Insights, Rule, Severity, insights};
use iotide_formats::OpenOptions;
use iotide_trace::Activity;

fn findings(log: &str) -> Option<Insights> {
    let path = iotide_testkit::shared_data(&format!("traces/{log}"))?;
    let mut activity = Activity::new();
    let info = OpenOptions::default().open(&path).unwrap().read(&mut activity).unwrap();
    Some(insights(&activity.finish(&info), &info.job, &InsightConfig::default()))
}

fn severity(seen: &Insights, rule: Rule) -> Option<Severity> {
    seen.found.iter().find(|insight| insight.rule == rule).map(|insight| insight.severity)
}

/// 56 aggregators write 5.4 GB each, and each of the 512 ranks reads 50 kB of a header.
#[test]
fn even_aggregators_are_no_imbalance() {
    let Some(seen) = findings("darshan/e3sm_io_heatmap_only.darshan") else { return };
    assert!(seen.clear.contains(&Rule::RankImbalance), "{:?}", seen.found);
}

/// Rank 0 writes all of 168 MB for 64 ranks, in 70 of 72 s.
#[test]
fn one_aggregator_alone_is_an_imbalance() {
    let log = "darshan/aiio/dbin_write_3d_nc4_id66168155-29343_1-21-52011-13559133571516104128_1.darshan";
    let Some(seen) = findings(log) else { return };
    assert_eq!(severity(&seen, Rule::RankImbalance), Some(Severity::High));
}

/// Rank 0 writes 210 MB in 0.06 s of 8.
#[test]
fn an_imbalance_of_no_time_is_a_warning() {
    let Some(seen) = findings("darshan/warpx.collision.darshan") else { return };
    assert_eq!(severity(&seen, Rule::RankImbalance), Some(Severity::Warning));
}

/// IOR writes four files of 550 GB and reads them once, on a machine whose offsets have 32 bits.
#[test]
fn offsets_that_end_at_two_gigabytes_make_no_redundant_accesses() {
    let Some(seen) = findings("darshan-legacy/harms_IOR_id350690_2-8-83458_1.darshan.gz") else { return };
    let not_known: Vec<Rule> = seen.not_known.iter().map(|(rule, _)| *rule).collect();
    for rule in [Rule::RedundantReads, Rule::RedundantWrites] {
        assert!(not_known.contains(&rule), "{:?}", seen.found);
    }
}

/// Each rank has a record of its own for the one file: all of them together read and write it twice.
#[test]
fn what_several_ranks_move_of_one_file_is_moved_again() {
    let both =
        "darshan/jeanbez_8_benchmark_parallel_id45195555_8-6-50011-11681279140261054765_1628283217.darshan";
    let writes =
        "darshan/jlbez_8a_benchmark_write_parallel_id1322696_8-21-14519-8141979180909667175_12.darshan";
    for (log, rule) in
        [(both, Rule::RedundantReads), (both, Rule::RedundantWrites), (writes, Rule::RedundantWrites)]
    {
        let Some(seen) = findings(log) else { return };
        let found = seen.found.iter().find(|insight| insight.rule == rule);
        let share = found.and_then(|insight| insight.evidence.iter().find(|known| known.name == "share"));
        assert!(share.is_some_and(|share| (0.45..0.55).contains(&share.value)), "{log}: {:?}", seen.found);
    }
}

/// Rank 0 moves (nearly) all bytes of a file that all ranks open.
#[test]
fn the_bytes_of_the_slowest_rank_of_a_shared_file_show_an_imbalance() {
    // In the first this takes 264 s of many hours.
    for (log, severity) in [("skew-app", Severity::Warning), ("imbalanced-io", Severity::High)] {
        let Some(seen) = findings(&format!("darshan/{log}.darshan")) else { return };
        let found = seen.found.iter().find(|insight| insight.rule == Rule::RankImbalance);
        let found = found.unwrap_or_else(|| panic!("{log}: {:?}", seen.found));
        assert_eq!((found.severity, found.ranks.as_slice()), (severity, &[0][..]), "{found:?}");
        let evidence =
            |name| found.evidence.iter().find(|known| known.name == name).map(|known| known.value).unwrap();
        assert!(evidence("share") > 0.9, "{found:?}");
    }
}
