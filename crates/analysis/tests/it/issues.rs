//! Issues of real logs where a rule of thumb goes wrong.

use iotide_analysis::{Issue, IssueConfig, Issues, IssuesVerdict, Severity, issues};
use iotide_formats::OpenOptions;
use iotide_trace::Activity;

fn judged(log: &str) -> Option<Issues> {
    let path = iotide_testkit::shared_data(&format!("traces/{log}"))?;
    let mut activity = Activity::new();
    let info = OpenOptions::default().open(&path).unwrap().read(&mut activity).unwrap();
    Some(issues(&activity.finish(&info), &info.job, &[], &IssueConfig::default()))
}

fn find<'a>(seen: &'a Issues, id: &str) -> Option<&'a Issue> {
    seen.found.iter().find(|issue| issue.id.name() == id)
}

fn gain(seen: &Issues, id: &str) -> f64 {
    let issue = find(seen, id).unwrap_or_else(|| panic!("no {id}: {:?}", seen.found));
    issue.gain.unwrap().of_run
}

/// 1 KiB writes with an fsync after each: the same data in 1 MiB calls took 2 s of 465 s.
#[test]
fn a_sync_after_each_small_write_takes_nearly_the_whole_run() {
    let log = "darshan/aiio/dbin_ior_id66184525-37486_1-22-67323-16349198698853775843_1.darshan";
    let Some(seen) = judged(log) else { return };
    assert_eq!(seen.found[0].id.name(), "excessive_sync");
    assert!((gain(&seen, "excessive_sync") - 0.95).abs() < 0.01, "{:?}", seen.found);
    assert!((gain(&seen, "small_writes") - 0.90).abs() < 0.01, "{:?}", seen.found);
    let interval = seen.found[0].gain.unwrap().interval;
    assert!(interval[0] <= 0.995 && 0.995 <= interval[1], "{interval:?}");
}

/// One aggregator writes 168 MB for 64 ranks in pieces of 256 bytes: 70 of 72 s; tuned it took 2 s.
#[test]
fn one_aggregator_with_tiny_pieces_is_known_by_its_pieces() {
    let log = "darshan/aiio/dbin_write_3d_nc4_id66168155-29343_1-21-52011-13559133571516104128_1.darshan";
    let Some(seen) = judged(log) else { return };
    assert!((gain(&seen, "small_writes") - 0.87).abs() < 0.01, "{:?}", seen.found);
    assert_eq!(
        find(&seen, "few_aggregators").unwrap().same_calls_as.map(|id| id.name()),
        Some("small_writes")
    );
}

/// 687 GB on one target cannot take less than 687 s of 1023 s, however large the requests are; collective ones took 741 s.
#[test]
fn tiny_writes_on_one_target_gain_no_more_than_the_target_allows() {
    let log =
        "darshan/aiio/dbin_h5bench_openpmd_write_id66082102-11665_1-17-41968-4919217136106122637_1.darshan";
    let Some(seen) = judged(log) else { return };
    let collective = find(&seen, "missing_collectives").unwrap().gain.unwrap();
    assert!((0.2..0.4).contains(&collective.of_run), "{collective:?}");
    assert!(collective.interval[0] <= 0.28 && 0.28 <= collective.interval[1], "{collective:?}");
}

/// 56 aggregators write 305 GB for 77 GB asked for, and read before they write.
#[test]
fn even_aggregators_are_no_imbalance_and_data_sieving_is_amplification() {
    let Some(seen) = judged("darshan/e3sm_io_heatmap_only.darshan") else { return };
    assert_eq!(seen.found[0].id.name(), "write_amplification");
    assert!(
        find(&seen, "rank_imbalance").is_none() && find(&seen, "stragglers").is_none(),
        "{:?}",
        seen.found
    );
}

/// Opens of FIFOs wait for 11217 s in a run of 1469 s.
#[test]
fn fifos_that_wait_are_no_metadata_time() {
    let Some(seen) = judged("darshan/dxt.darshan") else { return };
    assert_eq!(seen.verdict, IssuesVerdict::None, "{:?}", seen.found);
}

/// 0.24 s of I/O on the busiest rank.
#[test]
fn too_little_to_judge_is_said_and_the_pattern_is_listed() {
    let Some(seen) = judged("darshan/generated/ior-mpiio-fpp-dxtv2v3-head.darshan") else { return };
    assert_eq!(seen.verdict, IssuesVerdict::TooLittle);
    assert!(find(&seen, "small_writes").is_some_and(|issue| issue.severity == Severity::Low));
}

/// IOR writes four files of 550 GB and reads them once, on a machine whose offsets have 32 bits.
#[test]
fn offsets_that_end_at_two_gigabytes_make_no_redundant_accesses() {
    let Some(seen) = judged("darshan-legacy/harms_IOR_id350690_2-8-83458_1.darshan.gz") else { return };
    for id in ["redundant_reads", "redundant_writes"] {
        assert!(find(&seen, id).is_none(), "{:?}", seen.found);
    }
}
