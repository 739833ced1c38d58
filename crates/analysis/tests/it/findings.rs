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
