//! Each check with a run that has the issue, and one that a veto clears of it.

use iotide_trace::{FileRecord, Layer, Rank, RankShare, WayRecord};

use super::made::{MIB, Made, calls, in_layer, reads, shared, writes};

/// Fails unless the first run has the issue and the second has not.
#[track_caller]
fn check(id: &str, with: &Made, without: &Made) {
    assert!(with.find(id).is_some(), "no {id}: {:#?}", with.judged().found);
    assert!(without.find(id).is_none(), "{id} in spite of the veto: {:#?}", without.find(id));
}

fn run() -> Made {
    Made::new(8, 100.5)
}

/// The same record for each of 8 ranks.
fn each(made: Made, name: &str, of: impl Fn(i32) -> FileRecord) -> Made {
    (0..8).fold(made, |made, rank| made.with(name, of(rank)))
}

fn collective(way: WayRecord) -> WayRecord {
    WayRecord { collective: Some(way.calls), nonblocking: Some(0), ..way }
}

fn independent(way: WayRecord) -> WayRecord {
    WayRecord { collective: Some(0), nonblocking: Some(0), ..way }
}

#[test]
fn small_calls_are_those_of_the_program_below_a_mebibyte() {
    let small = run().with("/a", writes(0, calls(100_000, 1024.0, 50.0)));
    check("small_writes", &small, &run().with("/a", writes(0, calls(100_000, MIB, 50.0))));
    assert!((small.gain("small_writes") - 0.9 * 50.0 / 100.5).abs() < 1e-9);
    // Below collective calls, requests of 512 KiB are those of an aggregator's buffer.
    let beneath = |request: f64| {
        let asked = in_layer(writes(0, collective(calls(100, 1000.0 * request, 60.0))), Layer::MpiIo);
        run().with("/a", asked).with("/a", writes(0, calls(100_000, request, 50.0)))
    };
    check("small_writes", &beneath(1024.0), &beneath(512.0 * 1024.0));
    // MPI-IO reads nothing of the file: the reads beneath are those of data sieving.
    let sieved = |reads_above: u64| {
        let above = FileRecord {
            reads: independent(calls(reads_above, 1024.0, 1e-3 * reads_above as f64)),
            ..writes(0, independent(calls(100, 100.0 * MIB, 20.0)))
        };
        let beneath =
            FileRecord { reads: calls(100_000, 1024.0, 20.0), ..writes(0, calls(100, 100.0 * MIB, 20.0)) };
        run().with("/a", in_layer(above, Layer::MpiIo)).with("/a", beneath)
    };
    check("small_reads", &sieved(50_000), &sieved(0));
    // Whole files below a mebibyte in few calls.
    let whole = |n_calls: u64| {
        (0..200).fold(run(), |made, i| made.with(&format!("/f{i}"), reads(0, calls(n_calls, 4096.0, 0.1))))
    };
    check("small_reads", &whole(10), &whole(3));
}

#[test]
fn random_calls_go_back_in_small_requests_of_much_of_the_data() {
    let of = |request: f64, n: u64, seconds: f64, back: u64| {
        let way = WayRecord { random: Some(back), ..calls(n, request, seconds) };
        run().with("/a", writes(0, way))
    };
    check("random_writes", &of(1024.0, 100_000, 50.0, 50_000), &of(1024.0, 100_000, 50.0, 10_000));
    check("random_writes", &of(0.5 * MIB, 1000, 50.0, 500), &of(4.0 * MIB, 1000, 50.0, 500));
    check("random_writes", &of(1024.0, 100_000, 50.0, 50_000), &of(2.0 * MIB, 50_000, 50.0, 25_000)); // 2 GB/s
    let beside =
        |request: f64| of(1024.0, 10_000, 5.0, 5_000).with("/b", writes(0, calls(1000, request, 50.0)));
    check("random_writes", &beside(1024.0), &beside(100.0 * MIB)); // less than a hundredth of the bytes
}

#[test]
fn misaligned_writes_are_larger_than_a_block_and_of_several_ranks() {
    let of = |ranks: i32, request: f64, alignment: u64| {
        let record = |rank: i32| FileRecord {
            alignment: Some(alignment),
            misaligned: Some(1000),
            ..writes(rank, calls(1000, request, 50.0))
        };
        (0..ranks).fold(run(), |made, rank| made.with("/a", record(rank)))
    };
    check("misaligned", &of(4, 2.0 * MIB, 1 << 20), &of(1, 2.0 * MIB, 1 << 20));
    check("misaligned", &of(4, 2.0 * MIB, 1 << 20), &of(4, 0.5 * MIB, 1 << 20));
    check("misaligned", &of(4, 20.0 * MIB, 1 << 20), &of(4, 20.0 * MIB, 16 << 20)); // a block of GPFS
    // t · A/(A + s)
    assert!((of(4, 3.0 * MIB, 1 << 20).gain("misaligned") - 50.0 / 4.0 / 100.5).abs() < 1e-9);
}

#[test]
fn amplification_is_more_than_headers() {
    let of = |asked: f64, moved: f64| {
        let above = in_layer(writes(0, collective(calls(100, asked / 100.0, 60.0))), Layer::MpiIo);
        run().with("/a", above).with("/a", writes(0, calls(100, moved / 100.0, 50.0)))
    };
    check("write_amplification", &of(1e9, 4e9), &of(1e9, 1.1e9));
    check("write_amplification", &of(1e9, 4e9), &of(1e5, 9e5)); // less than 1 MB
    assert!((of(1e9, 4e9).gain("write_amplification") - 0.75 * 50.0 / 100.5).abs() < 1e-9);
    // Reads of a file that MPI-IO only writes, also of nothing.
    let sieved = |n: u64, bytes: f64| {
        let above = in_layer(writes(0, collective(calls(100, 1e7, 60.0))), Layer::MpiIo);
        let beneath = FileRecord { reads: calls(n, bytes, 30.0), ..writes(0, calls(100, 1e7, 20.0)) };
        run().with("/a", above).with("/a", beneath)
    };
    check("read_amplification", &sieved(1000, 0.0), &sieved(10, 100.0));
}

#[test]
fn mpi_io_has_an_overhead_where_its_bytes_are_seen_beneath() {
    // Each rank has a part of the file.
    let part = |request: f64, seconds: f64| WayRecord {
        up_to: Some(8000.0 * request * MIB),
        ..calls(100, request * MIB, seconds)
    };
    let of = |mpi_s: f64, beneath: f64| {
        let above = |rank| in_layer(writes(rank, independent(part(10.0, mpi_s))), Layer::MpiIo);
        let made = each(run(), "/a", above);
        each(made, "/a", |rank| writes(rank, part(beneath, 10.0)))
    };
    check("mpiio_overhead", &of(50.0, 10.0), &of(50.0, 5.0)); // half of the bytes beneath
    check("mpiio_overhead", &of(50.0, 10.0), &of(9.0, 10.0));
    assert!((of(50.0, 10.0).gain("mpiio_overhead") - 0.5 * 40.0 / 100.5).abs() < 1e-9);
}

#[test]
fn few_aggregators_are_one_or_two_that_move_the_data_of_all() {
    let of = |aggregators: i32, targets: &[u32]| {
        let above = |rank| in_layer(writes(rank, collective(calls(100, 10.0 * MIB, 60.0))), Layer::MpiIo);
        let made = each(run(), "/a", above);
        let request = 8000.0 * MIB / f64::from(aggregators) / 1000.0;
        (0..aggregators)
            .fold(made, |made, rank| made.with("/a", writes(rank, calls(1000, request, 50.0))))
            .on("/a", targets, 16)
    };
    check("few_aggregators", &of(1, &[0]), &of(8, &[0]));
    check("few_aggregators", &of(1, &[0, 1]), &of(2, &[0, 1])); // one for each target
    check(
        "rank_imbalance",
        &each(run(), "/a", |rank| {
            writes(
                rank,
                calls(1000 * (1 + 3 * u64::from(rank == 0)), MIB, if rank == 0 { 40.0 } else { 10.0 }),
            )
        }),
        &of(1, &[0]),
    );
}

#[test]
fn few_targets_are_fewer_than_known_for_many_clients() {
    let of = |ranks: u64, targets: &[u32], seconds: f64| {
        let record = shared(writes(0, calls(100, 10.0 * MIB, seconds)), ranks);
        Made::new(ranks, 100.5).with("/a", record).on("/a", targets, 4)
    };
    check("few_targets", &of(16, &[0], 50.0), &of(16, &[0, 1, 2, 3], 50.0)); // on every target
    check("few_targets", &of(16, &[0], 50.0), &of(8, &[0], 50.0)); // few clients
    check("few_targets", &of(16, &[0], 50.0), &of(16, &[0, 1], 90.0)); // targets that are not busy
    assert!((of(16, &[0], 50.0).gain("few_targets") - 0.5 * 50.0 / 100.5).abs() < 1e-9);
}

#[test]
fn contention_needs_a_file_of_ones_own_to_compare_with() {
    let of = |own_s: f64, shared_s: f64| {
        let made = each(run(), "/shared", |rank| writes(rank, calls(100, 2.0 * MIB, shared_s)));
        made.with("/own", writes(0, calls(100, 2.0 * MIB, own_s)))
    };
    check("shared_contention", &of(2.0, 50.0), &of(30.0, 50.0));
    let alone = each(run(), "/shared", |rank| writes(rank, calls(100, 2.0 * MIB, 50.0)));
    check("shared_contention", &of(2.0, 50.0), &alone);
    assert!(alone.judged().not_judged.iter().any(|not| not.id == "shared_contention"));
    // Small requests are another issue.
    let small = each(of(2.0, 0.001), "/shared2", |rank| writes(rank, calls(100_000, 1024.0, 50.0)));
    check("shared_contention", &of(2.0, 50.0), &small);
}

#[test]
fn one_rank_that_moves_all_is_compared_with_at_least_three_others() {
    let of = |n: u64| {
        Made::new(n, 100.5)
            .with("/a", writes(0, calls(1000, MIB, 50.0)))
            .with("/b", reads(1, calls(1, 10.0, 0.01)))
    };
    check("single_rank_io", &of(4), &of(3));
    let mut one_process = of(4);
    one_process.job.n_told = Some(1);
    assert!(one_process.find("single_rank_io").is_none(), "the log of one process");
    // Equal writers, one for each node, are even.
    let nodes =
        [0, 4].into_iter().fold(run(), |made, rank| made.with("/a", writes(rank, calls(1000, MIB, 50.0))));
    check("single_rank_io", &of(8), &nodes);
    assert!(nodes.find("rank_imbalance").is_none());
}

#[test]
fn a_straggler_has_as_much_to_do_and_takes_longer() {
    let of = |slow_s: f64, slow_calls: u64| {
        each(run(), "/a", |rank| match rank {
            3 => writes(rank, calls(slow_calls, 2.0 * MIB, slow_s)),
            _ => writes(rank, calls(100, 2.0 * MIB, 10.0)),
        })
    };
    check("stragglers", &of(50.0, 100), &of(13.0, 100));
    check("stragglers", &of(50.0, 100), &of(50.0, 500)); // more to do
    assert_eq!(of(50.0, 100).find("stragglers").unwrap().ranks, [3]);
    assert!((of(50.0, 100).gain("stragglers") - 40.0 / 100.5).abs() < 1e-9);
    // Times that are spread evenly have no outlier.
    let even = each(run(), "/a", |rank| writes(rank, calls(100, 2.0 * MIB, 10.0 + 5.0 * f64::from(rank))));
    check("stragglers", &of(50.0, 100), &even);
    // In collective calls all wait for each other.
    let waiting = each(run(), "/a", |rank| {
        let way = collective(calls(100, 2.0 * MIB, if rank == 3 { 50.0 } else { 10.0 }));
        in_layer(writes(rank, way), Layer::MpiIo)
    });
    check("stragglers", &of(50.0, 100), &waiting);
}

#[test]
fn a_slow_target_explains_slow_files() {
    let of = |slow_target: u32| {
        let made = (0..8).fold(run(), |made, rank| {
            let seconds = if rank == 3 { 50.0 } else { 5.0 };
            made.with(&format!("/f{rank}"), writes(rank, calls(100, 2.0 * MIB, seconds)))
        });
        (0..8).fold(made, |made, rank| {
            made.on(&format!("/f{rank}"), &[if rank == 3 { slow_target } else { rank as u32 % 3 }], 8)
        })
    };
    // On a target of its own the file is slow for it; on one that serves others as fast as any it is not.
    check(
        "slow_target",
        &of(7),
        &(0..40).fold(of(0), |made, i| {
            made.with(&format!("/g{i}"), writes(0, calls(100, 2.0 * MIB, 0.1))).on(&format!("/g{i}"), &[0], 8)
        }),
    );
    assert_eq!(of(7).find("slow_target").unwrap().cause.targets, [7]);
}

#[test]
fn collective_calls_are_missing_for_small_independent_ones_on_shared_files() {
    let of = |ranks: i32, request: f64, together: u64| {
        let way =
            WayRecord { collective: Some(together), nonblocking: Some(0), ..calls(10_000, request, 50.0) };
        (0..ranks).fold(run(), |made, rank| made.with("/a", in_layer(writes(rank, way), Layer::MpiIo)))
    };
    check("missing_collectives", &of(4, 1024.0, 0), &of(4, 1024.0, 9_900));
    check("missing_collectives", &of(4, 1024.0, 0), &of(4, 4.0 * MIB, 0));
    check("missing_collectives", &of(4, 1024.0, 0), &of(1, 1024.0, 0));
    assert!((of(4, 1024.0, 0).gain("missing_collectives") - 0.9 * 0.9 * 50.0 / 100.5).abs() < 1e-9);
}

#[test]
fn bytes_are_redundant_unless_a_file_is_opened_for_them() {
    let of = |bytes: f64, extent: f64, opens: u64| {
        let way = WayRecord { up_to: Some(extent), ..calls(1000, bytes / 1000.0, 50.0) };
        run().with("/a", FileRecord { opens, ..writes(0, way) })
    };
    check("redundant_writes", &of(4e9, 1e9, 1), &of(1.1e9, 1e9, 1));
    check("redundant_writes", &of(4e9, 1e9, 1), &of(4e9, 1e9, 4)); // truncated and written again
    assert!((of(4e9, 1e9, 1).gain("redundant_writes") - 0.75 * 50.0 / 100.5).abs() < 1e-9);
    let read = |ranks: i32, bytes: f64, opens: u64| {
        let way = WayRecord { up_to: Some(1e9), ..calls(1000, bytes / 1000.0, 50.0) };
        (0..ranks).fold(run(), |made, rank| made.with("/a", FileRecord { opens, ..reads(rank, way) }))
    };
    check("redundant_reads", &read(1, 4e9, 1), &read(8, 1e9, 1)); // each rank reads the input once
    assert!((read(1, 4e9, 4).gain("redundant_reads") - 0.5 * 0.75 * 50.0 / 100.5).abs() < 1e-9, "epochs");
}

#[test]
fn metadata_time_has_a_cause_where_one_is_known() {
    let of = |opens: u64, stats: u64| {
        let record = FileRecord { opens, stats, metadata_s: 40.0, ..writes(0, calls(10, 100.0 * MIB, 1.0)) };
        run().with("/a", record)
    };
    check("metadata_time", &of(5, 0), &of(100, 0));
    check("open_close_churn", &of(100, 0), &of(10, 0));
    check("stat_storm", &of(1, 100), &of(1, 9));
    assert!((of(5, 0).gain("metadata_time") - 0.6 * 40.0 / 100.5).abs() < 1e-9);
    // A FIFO waits for most of the run.
    let fifo = FileRecord { metadata_s: 95.0, ..writes(0, calls(1, 5.0, 0.0)) };
    check("metadata_time", &of(5, 0), &run().with("/tmp/pipe", fifo));
    let lock = FileRecord { metadata_s: 40.0, ..writes(0, calls(1, 5.0, 0.0)) };
    check("metadata_time", &of(5, 0), &run().with("/tmp/ompi.node.0/lock", lock));
}

#[test]
fn first_calls_after_opens_may_be_saved_too() {
    let most = |opens: u64, calls_of_it: u64| {
        let way = calls(calls_of_it, 4096.0, 20.0);
        let record = FileRecord { opens, metadata_s: 40.0, ..writes(0, way) };
        run().with("/a", record).find("open_close_churn").unwrap().gain.unwrap().interval[1]
    };
    let of_all = |seconds: f64| seconds / 100.5;
    assert!((most(1000, 1000) - of_all(40.0 + 0.5 * 20.0)).abs() < 1e-9);
    assert!((most(1000, 100_000) - of_all(40.0 + 0.5 * 0.2)).abs() < 1e-9);
}

#[test]
fn many_small_files_are_many_and_small() {
    let of = |n: u32, bytes: f64| {
        (0..n).fold(run(), |made, i| {
            made.with(
                &format!("/data/f{i}"),
                FileRecord { metadata_s: 0.2, ..reads(0, calls(1, bytes, 0.01)) },
            )
        })
    };
    check("many_small_files", &of(150, 4096.0), &of(90, 4096.0));
    check("many_small_files", &of(150, 4096.0), &of(150, 10.0 * MIB));
}

#[test]
fn a_file_for_each_of_many_processes_costs_what_opening_it_costs() {
    let of = |n: u64, metadata_s: f64| {
        (0..n).fold(Made::new(n, 100.5), |made, rank| {
            let record = FileRecord { metadata_s, ..writes(rank as i32, calls(10, 10.0 * MIB, 20.0)) };
            made.with(&format!("/out/rank.{rank:05}"), record)
        })
    };
    check("file_per_process", &of(512, 10.0), &of(400, 10.0));
    check("file_per_process", &of(512, 10.0), &of(512, 0.01)); // good practice
}

#[test]
fn syncs_are_excessive_after_every_few_writes() {
    let of = |syncs: u64, opens: u64| {
        run().with("/a", FileRecord { syncs, opens, ..writes(0, calls(1000, 1024.0, 50.0)) })
    };
    check("excessive_sync", &of(1000, 1), &of(50, 1));
    check("excessive_sync", &of(1000, 1), &of(1000, 500)); // at the end of each file
    assert!((of(1000, 1).gain("excessive_sync") - 0.95 * 50.0 / 100.5).abs() < 1e-9);
    // Where the time of syncs is known, it is that.
    let timed = run()
        .with("/a", FileRecord { syncs: 1000, sync_s: Some(20.0), ..writes(0, calls(1000, 1024.0, 50.0)) });
    assert!((timed.gain("excessive_sync") - 0.95 * 20.0 / 100.5).abs() < 1e-9);
}

#[test]
fn streams_are_bulk_in_small_calls_and_standard_output_is_no_file() {
    let of = |name: &str, request: f64| {
        run().with(name, in_layer(writes(0, calls(1000, request, 50.0)), Layer::Stdio))
    };
    check("stdio_bulk", &of("/a", 4096.0), &of("/a", 2.0 * MIB));
    check("stdio_bulk", &of("/a", 4096.0), &of("<STDOUT>", 4096.0));
    let little = of("/a", 4096.0).with("/b", writes(0, calls(1000, 2.0 * MIB, 1.0)));
    check("stdio_bulk", &of("/a", 4096.0), &little);
}

#[test]
fn phases_block_and_some_are_slow() {
    let of = |phases: &[usize], seconds: f64| {
        Made::new(8, 200.5).with("/a", writes(0, calls(1000, 2.0 * MIB, seconds))).with_phases(phases)
    };
    check("blocking_io", &of(&[2; 8], 40.0), &of(&[2; 2], 40.0));
    check("blocking_io", &of(&[2; 8], 40.0), &of(&[2; 8], 195.0)); // more than nine tenths
    let nonblocking = WayRecord { nonblocking: Some(5), collective: Some(0), ..calls(1000, 2.0 * MIB, 40.0) };
    let overlapped =
        Made::new(8, 200.5).with("/a", in_layer(writes(0, nonblocking), Layer::MpiIo)).with_phases(&[2; 8]);
    check("blocking_io", &of(&[2; 8], 40.0), &overlapped);
    check("slow_phase", &of(&[2, 2, 2, 2, 2, 2, 2, 9], 40.0), &of(&[9, 2, 2, 2, 2, 2, 2, 2], 40.0)); // the first one
    check("slow_phase", &of(&[2, 2, 2, 2, 2, 2, 2, 9], 40.0), &of(&[2, 2, 9], 40.0)); // too few
}

#[test]
fn a_slow_file_is_one_that_nothing_else_explains() {
    let of = |request: f64| {
        let n = (200.0 * MIB / request) as u64;
        (0..6).fold(Made::new(1, 100.5), |made, i| {
            let seconds = if i == 0 { 50.0 } else { 1.0 };
            made.with(&format!("/d/f{i}"), writes(0, calls(n, request, seconds)))
        })
    };
    check("low_bandwidth", &of(2.0 * MIB), &of(1024.0)); // small writes explain it
}

#[test]
fn python_modules_are_no_data_of_the_program() {
    let of = |name: &str| {
        (0..200).fold(run(), |made, i| {
            made.with(&name.replace('#', &i.to_string()), reads(0, calls(10, 4096.0, 0.2)))
        })
    };
    check("small_reads", &of("/data/#.bin"), &of("/usr/lib/python3.11/site-packages/numpy/m#.py"));
}

#[test]
fn what_one_process_left_has_no_gain_and_is_low() {
    let mut made = Made::new(2, 100.5).with("/a", writes(0, calls(100_000, 1024.0, 50.0)));
    made.job.n_told = Some(1);
    let judged = made.judged();
    assert_eq!((judged.io_share, judged.verdict.name()), (None, "none"));
    let issue = judged.found.iter().find(|issue| issue.id.name() == "small_writes").unwrap();
    assert_eq!((issue.gain, issue.severity.name()), (None, "low"));
}

#[test]
fn the_time_of_small_calls_lies_between_their_share_of_bytes_and_of_calls() {
    // 900 calls of a kilobyte beside 100 of 100 MiB, as totals and as traced one by one.
    let mixed = |exact: Option<f64>| {
        let mut way = calls(1000, 1024.0, 50.0);
        way.bytes = Some(900.0 * 1024.0 + 100.0 * 100.0 * MIB);
        way.small = Some(iotide_trace::SmallCalls { calls: 900, bytes: 900.0 * 1024.0, seconds: exact });
        run().with("/a", writes(0, way))
    };
    assert!(mixed(None).gain("small_writes") < 0.01, "an even split by calls would give 45 %");
    assert!((mixed(Some(40.0)).gain("small_writes") - 0.9 * 40.0 / 100.5).abs() < 1e-9);
}

#[test]
fn a_rank_share_of_a_shared_record_is_its_own() {
    let mut record = shared(writes(0, calls(1000, 2.0 * MIB, 20.0)), 8);
    record.slowest = Some(RankShare { rank: Rank(5), bytes: 2000.0 * MIB, seconds: 60.0 });
    let made = run().with("/a", record);
    assert!((made.judged().io_share.unwrap() - 60.0 / 100.5).abs() < 1e-9);
    assert_eq!(made.find("stragglers").unwrap().ranks, [5]);
}
