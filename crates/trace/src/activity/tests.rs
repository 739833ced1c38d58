use super::*;
use crate::{Timestamp, TraceInfo};
use proptest::prelude::*;

fn at(secs: f64) -> Timestamp {
    Timestamp::from_secs_since_start(secs).unwrap()
}

fn write(rank: i32, start_s: f64, end_s: f64, bytes: f64) -> Event {
    Event::data(Op::Write, Rank(rank), at(start_s), at(end_s), bytes)
}

fn seen(events: impl IntoIterator<Item = Event>, files: &[&str]) -> ActivitySums {
    let mut activity = Activity::new();
    for event in events {
        let _ = activity.event(event);
    }
    let files = files.iter().map(|&path| path.to_owned()).collect();
    activity.finish(&TraceInfo { files, ..TraceInfo::default() })
}

fn volume(heat: &HeatMap) -> (f64, f64) {
    let of = |volumes: fn(&HeatRow) -> &Vec<f64>| heat.rows.iter().flat_map(volumes).sum::<f64>();
    (of(|row| &row.read), of(|row| &row.written))
}

#[test]
fn each_rank_is_a_row_and_all_ranks_together_are_the_first() {
    let sums = seen([write(7, 0.0, 1.0, 8.0), write(-1, 0.0, 1.0, 2.0), write(0, 1.0, 2.0, 4.0)], &[]);
    let rows: Vec<_> = sums
        .heat
        .rows
        .iter()
        .map(|row| (row.first.0, row.last.0, row.written.iter().sum::<f64>().round()))
        .collect();
    assert_eq!(rows, [(-1, -1, 2.0), (0, 0, 4.0), (7, 7, 8.0)]);
    assert_eq!(sums.n_ranks, 2);
}

#[test]
fn a_request_is_spread_over_the_bins_it_lasts() {
    let sums = seen([write(0, 0.0, 0.5, 1.0), write(0, 0.0, 100.0, 1000.0)], &[]);
    let heat = &sums.heat;
    assert!((200..=400).contains(&heat.n_bins), "{}", heat.n_bins);
    let per_bin = 10.0 * heat.bin_s;
    for (i, &bytes) in heat.rows[0].written[2..heat.n_bins - 1].iter().enumerate() {
        assert!((bytes - per_bin).abs() < 1e-9 * per_bin, "bin {i}: {bytes}, not {per_bin}");
    }
}

#[test]
fn many_ranks_share_rows() {
    let sums = seen((0..5000).map(|rank| write(rank, 0.0, 1.0, 1.0)), &[]);
    assert_eq!((sums.heat.ranks_per_row, sums.heat.rows.len()), (32, 157));
    assert_eq!((sums.heat.rows[1].first, sums.heat.rows[1].last), (Rank(32), Rank(63)));
    assert_eq!(sums.n_ranks, 5000);
}

#[test]
fn a_rank_out_of_all_proportion_does_not_squeeze_the_others() {
    let sums = seen([0, 1, 2, i32::MAX].map(|rank| write(rank, 0.0, 1.0, 1.0)), &[]);
    assert_eq!((sums.heat.ranks_per_row, sums.heat.rows.len()), (1, 4));
    let crowd = (0..300).chain([i32::MAX, i32::MAX - 1]);
    let sums = seen(crowd.map(|rank| write(rank, 0.0, 1.0, 1.0)), &[]);
    assert_eq!((sums.heat.ranks_per_row, sums.heat.rows.last().unwrap().last), (2, Rank(i32::MAX)));
}

#[test]
fn the_ends_of_time_have_room() {
    let (first, last) =
        (Timestamp::from_nanos_since_start(i64::MIN), Timestamp::from_nanos_since_start(i64::MAX));
    let event = |start, end| Event { start, end, ..write(0, 0.0, 0.0, 1.0) };
    let sums = seen([event(first, first), event(last, last), event(first, last)], &[]);
    assert!((volume(&sums.heat).1 - 3.0).abs() < 1e-9);
}

#[test]
fn sizes_fall_between_powers_of_two() {
    let sums = seen([0.0, 1.0, 1023.0, 1024.0, 1e30].map(|bytes| write(0, 0.0, 1.0, bytes)), &[]);
    let found: Vec<_> = (0..64).filter(|&k| sums.writes.exact[k].calls > 0).collect();
    assert_eq!((found, sums.writes.empty), (vec![0, 9, 10, 63], 1));
}

#[test]
fn a_sum_of_calls_has_a_mean_size_and_no_time() {
    let record = Event { grain: Grain::Record, calls: 10, ..write(0, 0.0, 5.0, 40_960.0) };
    let bin = Event { grain: Grain::Bin, ..write(0, 0.0, 5.0, 7.0) };
    let sums = seen([record, bin], &[]);
    assert_eq!(sums.writes.averaged[12], SizeBin { calls: 10, bytes: 40_960.0 });
    assert_eq!((sums.writes.n_uncounted, sums.writes.bytes_uncounted), (1, 7.0));
    assert_eq!(sums.times, []);
    assert_eq!((sums.ops[0].sums.calls, sums.ops[0].sums.n_bins), (10, 1));
}

#[test]
fn time_is_kept_per_layer_and_kind_whoever_states_it() {
    let mut activity = Activity::new();
    let _ = activity.event(write(0, 0.0, 2.0, 1.0));
    let _ = activity.event(Event { op: Op::Open, ..write(0, 2.0, 2.5, 0.0) });
    activity.time_spent(TimeSpent {
        layer: Layer::Posix,
        kind: TimeKind::Metadata,
        file: FileId(0),
        rank: Rank::ALL,
        seconds: 3.0,
    });
    let sums = activity.finish(&TraceInfo { files: vec!["f".into()], ..TraceInfo::default() });
    let expected = [
        LayerTimes { layer: Layer::Unknown, read_s: None, write_s: Some(2.0), metadata_s: Some(0.5) },
        LayerTimes { layer: Layer::Posix, read_s: None, write_s: None, metadata_s: Some(3.0) },
    ];
    assert_eq!(sums.times, expected);
    assert_eq!(sums.files[0].sums.time_s, Some(3.0));
}

#[test]
fn files_have_their_sums_the_heaviest_first() {
    let on = |file: u32, event: Event| Event { file: FileId(file), ..event };
    let open = |rank| Event { op: Op::Open, ..write(rank, 0.0, 0.25, 0.0) };
    let read = |rank| Event { op: Op::Read, ..write(rank, 1.0, 2.0, 5.0) };
    let sums = seen(
        [
            on(0, open(0)),
            on(1, open(1)),
            on(1, read(0)),
            on(1, read(1)),
            on(1, read(0)),
            write(5, 0.0, 1.0, 9.0),
        ],
        &["small", "large"],
    );
    let told: Vec<_> = (sums.files.iter())
        .map(|FileActivity { path, sums }| {
            (path.as_str(), sums.bytes_read, sums.calls, sums.opens, sums.time_s, sums.n_ranks)
        })
        .collect();
    assert_eq!(told, [("large", 15.0, 4, 1, Some(3.25), 2), ("small", 0.0, 1, 1, Some(0.25), 1)]);
}

#[test]
fn parts_of_a_run_that_name_the_same_file_mean_the_same_file() {
    let on = |file: u32| Event { file: FileId(file), ..write(0, 0.0, 1.0, 5.0) };
    let sums = seen([on(0), on(1)], &["f", "f"]);
    assert_eq!((sums.files.len(), sums.files[0].sums.bytes_written), (1, 10.0));
}

#[test]
fn the_lightest_of_too_many_files_are_added_up() {
    let n_files = Activity::MOST_FILES + 50_000;
    let names: Vec<String> = (0..n_files).map(|i| format!("f{i}")).collect();
    let mut activity = Activity::new();
    for i in 0..n_files {
        let bytes = if i >= 50_000 { 3.0 } else { 2.0 };
        let _ = activity.event(Event { file: FileId(i as u32), ..write(0, 0.0, 1.0, bytes) });
    }
    let sums = activity.finish(&TraceInfo { files: names, ..TraceInfo::default() });
    assert_eq!((sums.files.len(), sums.n_other_files), (Activity::MOST_FILES, 50_000));
    // The heaviest are named, although they came last.
    assert_eq!(sums.other_files.bytes_written, 100_000.0);
}

#[test]
fn ranks_that_took_equally_long_do_so_in_any_order() {
    // Six times 1.073741824 s in floating point: 3 + 1 + 2 of them are more than 4 + 1 + 1.
    let call = |rank: i32| {
        let start = Timestamp::from_nanos_since_start(0);
        Event::data(Op::Write, Rank(rank), start, start.plus_nanos(1 << 30), 1.0)
    };
    let mut calls = [1, 1, 1, 1, 7, 7, 7, 1, 7, 1, 7, 7].map(call);
    let one = seen(calls, &[]).rank_times.unwrap();
    calls.sort_by_key(|event| event.rank);
    let other = seen(calls, &[]).rank_times.unwrap();
    assert_eq!((one, one.slowest), (other, Rank(1)));
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let edge = prop_oneof![0..50i64, -5_000_000_000..5_000_000_000i64, -(1i64 << 61)..(1i64 << 61)];
    let length = prop_oneof![0..4i64, 0..1_000_000i64, 0..20_000_000_000i64];
    let rank = prop_oneof![-1..4i32, 0..2000i32, 0..=i32::MAX];
    let event =
        (any::<bool>(), rank, edge, length, 1.0..1e9f64).prop_map(|(is_read, rank, start, length, bytes)| {
            let op = if is_read { Op::Read } else { Op::Write };
            let start = Timestamp::from_nanos_since_start(start);
            Event::data(op, Rank(rank), start, start.plus_nanos(length), bytes)
        });
    prop::collection::vec(event, 1..700)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_heat_map_holds_the_bytes_of_the_trace_and_stays_within_its_bounds(events in events()) {
        let of = |op| events.iter().filter(|event| event.op == op).map(|event| event.bytes).sum::<f64>();
        let (read, written) = (of(Op::Read), of(Op::Write));
        let sums = seen(events.iter().copied(), &[]);
        let found = volume(&sums.heat);
        prop_assert!((found.0 - read).abs() <= 1e-9 * read, "{} read, not {read}", found.0);
        prop_assert!((found.1 - written).abs() <= 1e-9 * written, "{} written, not {written}", found.1);
        prop_assert!(sums.heat.n_bins <= Activity::MOST_BINS && sums.heat.rows.len() <= Activity::MOST_ROWS + 1);
        prop_assert!(sums.heat.rows.iter().all(|row| row.read.len() == sums.heat.n_bins));
        let n_sized: u64 = [&sums.reads, &sums.writes].iter()
            .map(|sizes| sizes.exact.iter().map(|bin| bin.calls).sum::<u64>() + sizes.empty).sum();
        prop_assert_eq!(n_sized, events.len() as u64);
    }

    #[test]
    fn the_heat_map_is_that_of_its_slow_twin(events in events()) {
        let sums = seen(events.iter().copied(), &[]);
        let HeatTwin { bin_nanos, first, ranks_per_row, cells } = heat_twin(&events);
        prop_assert_eq!((sums.heat.bin_s, sums.heat.ranks_per_row), (bin_nanos as f64 * 1e-9, ranks_per_row));
        prop_assert_eq!(sums.heat.start_s, Timestamp::from_nanos_since_start(first * bin_nanos).as_secs());
        for row in &sums.heat.rows {
            for (op, volumes) in [(Op::Read, &row.read), (Op::Write, &row.written)] {
                for (i, &found) in volumes.iter().enumerate() {
                    let key = (row.first.0, op, first + i as i64);
                    let bytes = cells.get(&key).copied().unwrap_or(0.0);
                    prop_assert!((found - bytes).abs() <= 1e-6 * bytes, "{key:?}: {found}, not {bytes}");
                }
            }
        }
    }

    #[test]
    fn the_order_of_events_means_nothing((one, other) in events_on_files()) {
        let names: Vec<String> = (0..12).map(|i| format!("f{i}")).collect();
        let info = TraceInfo { files: names, ..TraceInfo::default() };
        let seen = |events: &[Event]| {
            let mut activity =
                Activity { most_files: MostFiles(5), file_ranks: FileRanks::up_to(16), ..Activity::new() };
            for event in events {
                let _ = activity.event(*event);
            }
            activity.finish(&info)
        };
        // Bytes are whole numbers and all calls equally long, so that sums are the same to the last bit.
        prop_assert_eq!(seen(&one), seen(&other));
    }
}

/// Events whose sums are exact in any order: few bytes, calls of equal length, no request over two bins.
fn events_on_files() -> impl Strategy<Value = (Vec<Event>, Vec<Event>)> {
    let event = (0..8usize, -1..300i32, 0..400i64, 0..3u32, 0..14u32, 0..50u32);
    let event = event.prop_map(|(op, rank, second, calls, file, bytes)| {
        let start = Timestamp::from_nanos_since_start(second << 32);
        let file = FileId(if file < 12 { file } else { u32::MAX });
        let event = Event::data(Op::ALL[op], Rank(rank), start, start.plus_nanos(1 << 30), f64::from(bytes));
        Event { file, calls, ..event }
    });
    prop::collection::vec(event, 1..300).prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle()))
}

/// A heat map, made slowly: each request by itself.
struct HeatTwin {
    bin_nanos: i64,
    /// The number of the first bin.
    first: i64,
    ranks_per_row: u32,
    /// Bytes by first rank of the row, operation and number of the bin.
    cells: HashMap<(i32, Op, i64), f64>,
}

fn heat_twin(events: &[Event]) -> HeatTwin {
    let moved: Vec<(i64, i64, &Event)> = (events.iter())
        .filter(|event| event.bytes > 0.0)
        .map(|event| (event.start.as_nanos(), event.end.as_nanos().max(event.start.as_nanos() + 1), event))
        .collect();
    let first = moved.iter().map(|request| request.0).min().unwrap_or(0);
    let last = moved.iter().map(|request| request.1).max().unwrap_or(1);
    let mut width = 1;
    while (last - 1).div_euclid(width) - first.div_euclid(width) >= Activity::MOST_BINS as i64 {
        width *= 2;
    }
    let ranks: HashSet<u32> = moved.iter().filter_map(|request| request.2.rank.0.try_into().ok()).collect();
    let mut per_row = 1;
    while ranks.iter().map(|rank| rank / per_row).collect::<HashSet<u32>>().len() > Activity::MOST_ROWS {
        per_row *= 2;
    }
    let mut cells = HashMap::new();
    for (start, end, event) in moved {
        let row = u32::try_from(event.rank.0).map_or(-1, |rank| (rank / per_row * per_row) as i32);
        for bin in start.div_euclid(width)..=(end - 1).div_euclid(width) {
            let inside = end.min((bin + 1) * width) - start.max(bin * width);
            *cells.entry((row, event.op, bin)).or_default() +=
                event.bytes * inside as f64 / (end - start) as f64;
        }
    }
    HeatTwin { bin_nanos: width, first: first.div_euclid(width), ranks_per_row: per_row, cells }
}
