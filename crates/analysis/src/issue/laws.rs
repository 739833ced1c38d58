//! Laws that hold for any run, over runs made of random counters.

use iotide_trace::{FileId, FileRecord, Layer, Rank, WayRecord};
use proptest::prelude::*;

use super::made::{MIB, Made, calls, in_layer, shared, writes};
use super::{IssueId, Issues, Severity};

const N_RANKS: u64 = 8;
const RUN_S: f64 = 1000.25;

/// Reads or writes with enough calls and time to be above every least number.
fn way() -> impl Strategy<Value = WayRecord> {
    let sizes = prop::sample::select(vec![512.0, 4096.0, 300_000.0, MIB, 4.0 * MIB, 64.0 * MIB]);
    (sizes, 400..20_000u64, 20.0..200.0f64, 0.0..1.0f64, 0.3..1.0f64).prop_map(
        |(request, n, seconds, back, extent)| {
            let way = calls(n, request, seconds);
            WayRecord {
                random: Some((back * n as f64) as u64),
                up_to: Some((extent * n as f64 * request).max(1.0)),
                ..way
            }
        },
    )
}

/// A file of a rank, or one that all ranks use, by POSIX alone, by streams, or by MPI-IO above POSIX.
fn file(index: usize) -> impl Strategy<Value = Vec<(String, FileRecord)>> {
    let counts = (1..40u64, 0..400u64, 0..3000u64, 0.0..50.0f64);
    (way(), way(), counts, 0..N_RANKS as i32, 0..4u8, any::<bool>(), 0.1..1.5f64).prop_map(
        move |(reads, written, (opens, stats, syncs, metadata_s), rank, kind, is_shared, above)| {
            let record = FileRecord {
                reads,
                opens,
                stats,
                syncs,
                metadata_s,
                alignment: Some(1 << 20),
                misaligned: Some(written.calls / 2),
                ..writes(rank, written)
            };
            let name = format!("/scratch/data.{index}");
            let mut records = match kind {
                0 => vec![in_layer(record, Layer::Stdio)],
                1 | 2 => vec![record],
                _ => {
                    let asked = |way: WayRecord| WayRecord {
                        collective: Some(if above > 0.8 { way.calls } else { 0 }),
                        nonblocking: Some(0),
                        seconds: way.seconds * above * 1.5,
                        ..way
                    };
                    let mpi = FileRecord { reads: asked(reads), writes: asked(written), ..record };
                    vec![in_layer(mpi, Layer::MpiIo), record]
                }
            };
            if is_shared {
                records.iter_mut().for_each(|record| *record = shared(*record, N_RANKS));
            }
            records.into_iter().map(|record| (name.clone(), record)).collect()
        },
    )
}

fn runs() -> impl Strategy<Value = Made> {
    (file(0), file(1), file(2), 1..=3usize).prop_map(|(a, b, c, n)| {
        let files = [a, b, c].into_iter().take(n).flatten();
        files.fold(Made::new(N_RANKS, RUN_S), |made, (name, record)| made.with(&name, record))
    })
}

/// All counters and times of a run, times `factor`.
fn scaled(made: &Made, factor: u64) -> Made {
    let times = factor as f64;
    let way = |way: WayRecord| WayRecord {
        calls: way.calls * factor,
        bytes: way.bytes.map(|bytes| bytes * times),
        seconds: way.seconds * times,
        small: way.small.map(|small| iotide_trace::SmallCalls {
            calls: small.calls * factor,
            bytes: small.bytes * times,
            seconds: small.seconds.map(|seconds| seconds * times),
        }),
        random: way.random.map(|calls| calls * factor),
        up_to: way.up_to.map(|extent| extent * times),
        collective: way.collective.map(|calls| calls * factor),
        nonblocking: way.nonblocking,
        calls_s: None,
    };
    let share = |share: iotide_trace::RankShare| iotide_trace::RankShare {
        bytes: share.bytes * times,
        seconds: share.seconds * times,
        ..share
    };
    let mut made = made.clone();
    for record in &mut made.seen.records {
        (record.reads, record.writes) = (way(record.reads), way(record.writes));
        record.syncs *= factor;
        record.metadata_s *= times;
        record.misaligned = record.misaligned.map(|calls| calls * factor);
        (record.slowest, record.fastest) = (record.slowest.map(share), record.fastest.map(share));
    }
    made.job.run_time_s = made.job.run_time_s.map(|run_s| run_s * times);
    made
}

fn gains(judged: &Issues) -> Vec<(IssueId, f64)> {
    judged.found.iter().map(|issue| (issue.id, issue.gain.unwrap().of_run)).collect()
}

/// Fails unless both have the same ids in the same order, and each gain of the second is `factor` times that of the first.
fn same(one: &Issues, other: &Issues, factor: f64) -> Result<(), TestCaseError> {
    let (one, other) = (gains(one), gains(other));
    let ids = |gains: &[(IssueId, f64)]| {
        let mut ids: Vec<_> = gains.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids
    };
    prop_assert_eq!(ids(&one), ids(&other), "{:?} {:?}", one, other);
    for (id, gain) in &one {
        let found = other.iter().find(|(known, _)| known == id).map(|(_, gain)| *gain);
        prop_assert!(
            found.is_some_and(|found| (found - factor * gain).abs() < 1e-6),
            "{id:?} {one:?} {other:?}"
        );
    }
    Ok(())
}

proptest! {
    #[test]
    fn a_gain_is_within_its_interval_and_the_time_in_io_and_severity_follows_it(made in runs()) {
        let judged = made.judged();
        let io_share = judged.io_share.unwrap();
        prop_assert!(io_share <= 1.0 + 1e-12);
        let mut last = f64::INFINITY;
        let mut together = 0.0;
        for issue in &judged.found {
            let gain = issue.gain.unwrap();
            let [low, high] = gain.interval;
            prop_assert!(0.0 <= low && low <= gain.of_run && gain.of_run <= high && high <= io_share + 1e-12, "{issue:?}");
            prop_assert!(gain.of_run <= last + 1e-12, "not sorted: {:?}", judged.found);
            last = gain.of_run;
            let by_gain = match gain.of_run {
                share if share >= 0.1 => Severity::High,
                share if share >= 0.03 => Severity::Medium,
                _ => Severity::Low,
            };
            prop_assert!(issue.severity == by_gain || issue.id == IssueId::BlockingIo, "{issue:?}");
            together += if issue.same_calls_as.is_none() { gain.of_run } else { 0.0 };
        }
        prop_assert!(together <= io_share + 1e-9, "{together} of {io_share}");
    }

    #[test]
    fn a_run_of_as_many_times_everything_has_the_same_issues(made in runs(), factor in 2..6u64) {
        same(&made.judged(), &scaled(&made, factor).judged(), 1.0)?;
    }

    #[test]
    fn every_step_twice_gives_the_same_ids_and_gains(made in runs()) {
        same(&made.judged(), &scaled(&made, 2).judged(), 1.0)?;
    }

    #[test]
    fn more_computing_lowers_every_gain_in_proportion(made in runs(), more_s in 0.0..5000.0f64) {
        let mut longer = made.clone();
        // Below this the time in I/O would be more than the run, and be cut.
        prop_assume!(made.judged().io_share.unwrap() < 0.999);
        longer.job.run_time_s = Some(RUN_S + more_s);
        same(&made.judged(), &longer.judged(), RUN_S / (RUN_S + more_s))?;
    }

    #[test]
    fn names_and_numbers_of_files_and_ranks_mean_nothing(made in runs(), by in 1..7i32) {
        let mut renamed = made.clone();
        for record in &mut renamed.seen.records {
            let turn = |rank: Rank| if rank == Rank::ALL { rank } else { Rank((rank.0 + by) % N_RANKS as i32) };
            record.rank = turn(record.rank);
            for share in [&mut record.slowest, &mut record.fastest].into_iter().flatten() {
                share.rank = turn(share.rank);
            }
            record.file = FileId(record.file.0 + 7);
        }
        renamed.seen.named_files =
            made.seen.named_files.keys().map(|file| (FileId(file.0 + 7), format!("/elsewhere/x{}y", file.0))).collect();
        same(&made.judged(), &renamed.judged(), 1.0)?;
    }

    #[test]
    fn standard_output_and_a_fifo_that_waits_change_nothing(made in runs(), n in 1..100_000u64) {
        let stdout = in_layer(writes(0, calls(n, 40.0, 300.0)), Layer::Stdio);
        let fifo = FileRecord { metadata_s: 0.9 * RUN_S, ..writes(1, calls(3, 5.0, 0.0)) };
        let beside = made.clone().with("<STDOUT>", stdout).with("/tmp/pipe_17", fifo);
        same(&made.judged(), &beside.judged(), 1.0)?;
    }

    #[test]
    fn a_shared_record_tells_what_equal_records_of_its_ranks_tell(
        written in way(), opens in 1..40u64, syncs in 0..3000u64, metadata_s in 0.0..50.0f64
    ) {
        let record = FileRecord { opens, syncs, metadata_s, ..writes(0, WayRecord { random: Some(0), ..written }) };
        let whole = Made::new(N_RANKS, RUN_S).with("/a", shared(record, N_RANKS));
        let split = (0..N_RANKS as i32).fold(Made::new(N_RANKS, RUN_S), |made, rank| {
            made.with("/a", FileRecord { rank: Rank(rank), ..record })
        });
        prop_assert_eq!(whole.ids(), split.ids(), "{:#?} {:#?}", whole.judged().found, split.judged().found);
    }
}

/// Half the steps of a program are too few for a cost, and have the same issues.
#[test]
fn a_short_run_has_the_issues_of_a_long_one_and_says_that_it_is_too_short() {
    let of = |steps: u64| {
        let seconds = 0.01 * steps as f64;
        Made::new(4, 0.03 * steps as f64 + 0.001).with("/a", writes(0, calls(100 * steps, 1024.0, seconds)))
    };
    let (long, short) = (of(200), of(50));
    assert_eq!(long.ids(), short.ids());
    assert_eq!((long.judged().verdict.name(), short.judged().verdict.name()), ("found", "too_little"));
    assert!(short.judged().found.iter().all(|issue| issue.severity == Severity::Low));
    assert!((long.gain("small_writes") - short.gain("small_writes")).abs() < 0.01);
}
