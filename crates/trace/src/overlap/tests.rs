use proptest::prelude::*;

use super::*;
use crate::{Rank, Span};

/// Start, end, bytes.
type Request = (i64, i64, f64);
type Requested = Vec<Request>;

fn at(secs: f64) -> Timestamp {
    Timestamp::from_secs_since_start(secs).unwrap()
}

fn nanos(nanos: i64) -> Timestamp {
    Timestamp::from_nanos_since_start(nanos)
}

/// Requests as "start..end bytes" in seconds, the signal as "time rate" in seconds and bytes per second.
fn check(requests: &[(f64, f64, f64)], expected: &[(f64, f64)]) {
    let mut overlap = Overlap::new();
    for &(start, end, bytes) in requests {
        let _ = overlap.event(Event::data(Op::Write, Rank(0), at(start), at(end), bytes));
    }
    assert_eq!(overlap.resolution_s(), None);
    let signal = overlap.finish();
    let found: Vec<_> =
        signal.times().iter().map(|time| time.as_secs()).zip(signal.rates_bps().iter().copied()).collect();
    assert_eq!(found, expected);
}

#[test]
fn two_ranks_writing_at_once_add_their_bandwidth() {
    check(&[(0.0, 2.0, 2.0), (1.0, 3.0, 2.0)], &[(0.0, 1.0), (1.0, 2.0), (2.0, 1.0), (3.0, 0.0)]);
}

#[test]
fn requests_that_follow_at_the_same_rate_are_one_step() {
    check(&[(0.0, 1.0, 5.0), (1.0, 2.0, 5.0)], &[(0.0, 5.0), (2.0, 0.0)]);
}

#[test]
fn a_request_of_no_length_keeps_its_volume() {
    let mut overlap = Overlap::new();
    overlap.add(nanos(7), nanos(7), 4096.0);
    assert!((overlap.finish().volume_bytes() - 4096.0).abs() < 1e-6);
}

#[test]
fn a_request_that_moved_nothing_still_lasted() {
    check(
        &[(0.0, 1.0, 0.0), (2.0, 3.0, 5.0), (4.0, 6.0, 0.0)],
        &[(0.0, 0.0), (2.0, 5.0), (3.0, 0.0), (6.0, 0.0)],
    );
}

#[test]
fn silence_between_bursts_is_exactly_silent() {
    check(
        &[(0.0, 1.0, 0.1), (0.0, 1.0, 0.7), (0.0, 1.0, 1e9), (2.0, 3.0, 1.0)],
        &[(0.0, 0.1 + 0.7 + 1e9), (1.0, 0.0), (2.0, 1.0), (3.0, 0.0)],
    );
}

#[test]
fn large_long_and_fractional_requests_stand_among_the_usual_ones() {
    check(
        &[(0.0, 10.0, 5e10), (1.0, 2.0, 3.0), (2.0, 3.0, 0.5), (5.0, 5.5, 8e9)],
        &[(0.0, 5e9), (1.0, 5e9 + 3.0), (2.0, 5e9 + 0.5), (3.0, 5e9), (5.0, 2.1e10), (5.5, 5e9), (10.0, 0.0)],
    );
}

#[test]
fn the_ends_of_time_have_room() {
    let (first, last) = (nanos(i64::MIN), nanos(i64::MAX));
    for limits in [Limits::default(), Limits { requests: 1, cells: 64 }] {
        let mut overlap = Overlap { limits, ..Overlap::new() };
        for (start, end) in [(last, last), (first, first), (at(1.0), at(2.0)), (first, last)] {
            overlap.add(start, end, 100.0);
        }
        let signal = overlap.finish();
        assert_eq!(signal.span(), Some(Span { start: first, end: last }));
        assert!((signal.volume_bytes() - 400.0).abs() < 1e-3, "{limits:?}: {}", signal.volume_bytes());
    }
}

#[test]
fn absurd_amounts_stay_finite() {
    let mut overlap = Overlap::new();
    for _ in 0..3 {
        overlap.add(nanos(5), nanos(5), f64::MAX);
    }
    overlap.add(nanos(9), nanos(10), 1.0);
    assert!(overlap.finish().rates_bps().iter().all(|rate| rate.is_finite()));
}

/// Few enough that a handful of requests goes past them.
const SMALL: Limits = Limits { requests: 3, cells: 64 };

fn added(limits: Limits, requests: &[Request]) -> Overlap {
    let mut overlap = Overlap { limits, ..Overlap::new() };
    for &(start, end, bytes) in requests {
        overlap.add(nanos(start), nanos(end), bytes);
    }
    overlap
}

/// The slow twin of the exact form: the bandwidth between any two neighbouring edges, request by request.
fn exact_twin(requests: &[Request]) -> Requested {
    let long = |&(start, end, bytes): &Request| (start, end.max(start + 1), bytes);
    let requests: Vec<_> = requests.iter().map(long).collect();
    let mut edges: Vec<i64> = requests.iter().flat_map(|&(start, end, _)| [start, end]).collect();
    edges.sort_unstable();
    edges.dedup();
    let rate = |from: i64| -> f64 {
        let open = requests.iter().filter(|(start, end, _)| *start <= from && from < *end);
        open.map(|(start, end, bytes)| bytes / ((end - start) as f64 * 1e-9)).sum()
    };
    edges.windows(2).map(|pair| (pair[0], pair[1], rate(pair[0]))).collect()
}

/// The slow twin of the grid: its width from the first and the last moment alone, and every cell's volume from the
/// definition, an integral over its spline.
fn grid_twin(n_cells: i64, requests: &[Request]) -> (i64, Requested) {
    let first = requests.iter().map(|request| request.0).min().unwrap();
    let last = requests.iter().map(|request| request.1.max(request.0 + 1)).max().unwrap();
    let ends = |width: i64| (first.div_euclid(width) - 1, (last - 1).div_euclid(width) + 1);
    let mut width = 1;
    while ends(width).1 - ends(width).0 >= n_cells {
        width *= 2;
    }
    // Six times the integral of the spline that begins at 0 up to `at`, in whole numbers: nothing cancels.
    let wide = i128::from(width);
    let below = |at: i128| {
        let at = at.clamp(0, 3 * wide);
        let cube = |x: i128| x.max(0).pow(3);
        cube(at) - 3 * cube(at - wide) + 3 * cube(at - 2 * wide) - cube(at - 3 * wide)
    };
    let volume = |cell: i64| -> f64 {
        let share = |&(start, end, bytes): &Request| {
            let end = end.max(start + 1);
            let from_spline = |at: i64| i128::from(at - (cell - 1) * width);
            let integral = (below(from_spline(end)) - below(from_spline(start))) as f64;
            bytes * integral / (6 * wide * wide) as f64 / (end - start) as f64
        };
        requests.iter().map(share).sum()
    };
    let mut cells: Requested = (ends(width).0..=ends(width).1)
        .map(|cell| ((cell * width).max(first), ((cell + 1) * width).min(last), volume(cell)))
        .collect();
    // The first and the last cell with less than half a width join their neighbours.
    while cells.len() > 1 && cells[0].1 - cells[0].0 < width / 2 {
        let (start, _, bytes) = cells.remove(0);
        cells[0] = (start.min(cells[0].0), cells[0].1, cells[0].2 + bytes);
        cells[0].0 = first;
    }
    while cells.len() > 1 && cells[cells.len() - 1].1 - cells[cells.len() - 1].0 < width / 2 {
        let (_, _, bytes) = cells.pop().unwrap();
        let cell = cells.last_mut().unwrap();
        *cell = (cell.0, last, cell.2 + bytes);
    }
    let rate = |(start, end, bytes): (i64, i64, f64)| (start, end, bytes / ((end - start) as f64 * 1e-9));
    (width, cells.into_iter().map(rate).collect())
}

/// The rate of a signal at a moment.
fn rate_at(signal: &StepSignal, at: i64) -> f64 {
    let n_begun = signal.times().partition_point(|time| time.as_nanos() <= at);
    if n_begun == 0 { 0.0 } else { signal.rates_bps()[n_begun - 1] }
}

/// Whether a signal is those pieces, to rounding: `slack` of the highest rate.
fn has_shape(signal: &StepSignal, pieces: &[Request], slack: f64) -> Result<(), TestCaseError> {
    let highest = pieces.iter().map(|piece| piece.2).fold(0.0, f64::max);
    for &(start, end, rate) in pieces {
        for at in [start, end - 1] {
            let found = rate_at(signal, at);
            prop_assert!(
                (found - rate).abs() <= 1e-6 * rate + slack * highest,
                "at {at}: {found}, not {rate}; {pieces:?}"
            );
        }
    }
    let span = signal.span().map(|span| (span.start.as_nanos(), span.end.as_nanos()));
    prop_assert_eq!(span, Some((pieces[0].0, pieces[pieces.len() - 1].1)));
    Ok(())
}

fn requests(n: std::ops::Range<usize>) -> impl Strategy<Value = Requested> {
    let edge = prop_oneof![0..50i64, -1000..1000i64, -5_000_000_000..5_000_000_000i64];
    let length = prop_oneof![0..4i64, 0..2_000i64, 0..1_000_000i64, 0..20_000_000_000i64];
    let bytes = prop_oneof![(1..100_000u32).prop_map(f64::from), 1.0..1e12f64];
    prop::collection::vec((edge, length, bytes), n)
        .prop_map(|all| all.into_iter().map(|(start, len, bytes)| (start, start + len, bytes)).collect())
}

/// The same requests, by chance in another order.
fn shuffled() -> impl Strategy<Value = (Requested, Requested)> {
    requests(1..40).prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle()))
}

proptest! {
    #[test]
    fn the_exact_sum_is_that_of_its_slow_twin(requests in requests(1..40)) {
        let overlap = added(Limits::default(), &requests);
        prop_assert_eq!(overlap.resolution_s(), None);
        has_shape(&overlap.finish(), &exact_twin(&requests), 1e-12)?;
    }

    #[test]
    fn the_exact_sum_is_the_same_to_the_last_bit_in_any_order((one, other) in shuffled()) {
        prop_assert_eq!(added(Limits::default(), &one).finish(), added(Limits::default(), &other).finish());
    }

    #[test]
    fn the_grid_is_that_of_its_slow_twin(requests in requests(4..40)) {
        let overlap = added(SMALL, &requests);
        let (width, cells) = grid_twin(SMALL.cells as i64, &requests);
        prop_assert_eq!(overlap.resolution_s(), Some(width as f64 * 1e-9));
        has_shape(&overlap.finish(), &cells, 1e-9)?;
    }

    #[test]
    fn the_grid_is_the_same_in_any_order((one, other) in shuffled(), n_bits in 4..9u32) {
        let limits = Limits { cells: 1 << n_bits, ..SMALL };
        let (one, other) = (added(limits, &one), added(limits, &other));
        prop_assert_eq!(one.resolution_s(), other.resolution_s());
        let other: Vec<_> = (other.finish().pieces())
            .map(|(start, end, rate)| (start.as_nanos(), end.as_nanos(), rate))
            .collect();
        has_shape(&one.finish(), &other, 1e-12)?;
    }

    #[test]
    fn the_grid_holds_the_same_volume_as_the_exact_sum(requests in requests(4..60)) {
        let exact = added(Limits::default(), &requests).finish();
        let grid = added(SMALL, &requests).finish();
        let gap = (exact.volume_bytes() - grid.volume_bytes()).abs() / exact.volume_bytes();
        prop_assert!(gap < 1e-9, "relative gap {gap}");
        prop_assert_eq!(exact.span(), grid.span());
    }
}

/// Long silence is passed over on the grid: what stands around it is where it was.
#[test]
fn bursts_in_long_silence_stand_on_the_grid_as_in_its_slow_twin() {
    let burst =
        |at: i64| (0..20).map(move |i| (at + 700 * i, at + 700 * i + 1 + 450 * (i % 7), 1e6 + i as f64));
    let long = (40_000_000, 47_300_001, 5e8);
    for ends in [(0, 99_999_999), (3, 64 << 20), (12_345, 100_000_007)] {
        let mut requests: Requested = vec![(ends.0, ends.0 + 5, 7.0), (ends.1, ends.1 + 9, 3.0), long];
        requests.extend([5_000_000, 5_100_000, 33_554_000, 90_000_001].into_iter().flat_map(burst));
        let limits = Limits { requests: 3, cells: 1 << 12 };
        let (_, cells) = grid_twin(limits.cells as i64, &requests);
        has_shape(&added(limits, &requests).finish(), &cells, 1e-9).unwrap();
        requests.reverse();
        has_shape(&added(limits, &requests).finish(), &cells, 1e-9).unwrap();
    }
}

#[test]
fn a_hundred_thousand_requests_of_a_thousand_ranks_are_the_same_in_any_order() {
    let mut state = 7u64;
    let mut chance = |n: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % n
    };
    let mut requests: Requested = Vec::new();
    for rank in 0..1000i64 {
        let mut at = 50 * rank;
        for _ in 0..100 {
            let len = 1000 * chance(1000) as i64;
            requests.push((at, at + len, chance(1 << 20) as f64));
            at += len;
        }
    }
    let one = added(Limits::default(), &requests).finish();
    // Sums of what was open at some moments, request by request.
    for at in (0..one.times().len()).step_by(997).map(|i| one.times()[i].as_nanos()) {
        let long = |request: &&Request| request.0 <= at && at < request.1.max(request.0 + 1);
        let rate: f64 = requests
            .iter()
            .filter(long)
            .map(|(start, end, bytes)| bytes / ((end - start).max(1) as f64 * 1e-9))
            .sum();
        assert!(
            (rate_at(&one, at) - rate).abs() <= 1e-9 * rate,
            "at {at}: {}, not {rate}",
            rate_at(&one, at)
        );
    }
    for i in (1..requests.len()).rev() {
        requests.swap(i, chance(i as u64 + 1) as usize);
    }
    assert_eq!(one, added(Limits::default(), &requests).finish());
}

#[test]
fn one_request_more_decides_between_the_two_forms_whatever_the_order() {
    let requests: Vec<_> = (0..8).map(|i| (1000 * i, 1000 * i + 500, 10.0)).collect();
    let limits = Limits { requests: 7, cells: 64 };
    assert_eq!(added(limits, &requests[..7]).resolution_s(), None);
    let backwards: Vec<_> = requests.iter().rev().copied().collect();
    assert_eq!(added(limits, &requests).resolution_s(), added(limits, &backwards).resolution_s());
    assert!(added(limits, &requests).resolution_s().is_some());
}

#[test]
fn equal_requests_at_any_pace_make_no_slow_beat_with_the_grid() {
    const WIDTH: f64 = (1u64 << 21) as f64;
    for requests_per_width in [2.04, 1.96, 1.90, 2.10, 3.03, 2.94f64] {
        let period = (WIDTH / requests_per_width) as i64;
        // Enough to fill more than half of the cells at this width.
        let n = (29_000.0 * requests_per_width) as i64;
        let requests: Vec<_> = (0..n).map(|i| (i * period, i * period + 2_000, 4096.0)).collect();
        let overlap = added(Limits { requests: 1000, cells: 1 << 15 }, &requests);
        assert_eq!(overlap.resolution_s(), Some(WIDTH * 1e-9));
        let signal = overlap.finish();
        // The grid sees so many requests more or fewer than a whole number in a width: how strong is that beat?
        let per_width = WIDTH / period as f64;
        let beats_per_nano = (per_width - per_width.round()) / WIDTH;
        let (mut cosine, mut sine, mut volume) = (0.0, 0.0, 0.0);
        for (start, end, rate_bps) in signal.pieces() {
            let bytes = rate_bps * end.secs_since(start);
            let phase = |at: Timestamp| std::f64::consts::TAU * beats_per_nano * at.as_nanos() as f64;
            let (from, to) = (phase(start), phase(end));
            cosine += bytes * (to.sin() - from.sin()) / (to - from);
            sine += bytes * (from.cos() - to.cos()) / (to - from);
            volume += bytes;
        }
        let ripple = 2.0 * cosine.hypot(sine) / volume;
        // Plain bins leave 3 to 10 %.
        assert!(ripple < 0.0005, "{requests_per_width} requests a width: a beat of {ripple} of the mean");
    }
}
