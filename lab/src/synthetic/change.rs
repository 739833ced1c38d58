//! Changes to a trace: those that must not matter, and those whose effect is known.

use iotide_trace::Op;

use super::random::Random;
use super::regular::{SHORTEST_REQUEST, log_uniform};
use super::trace::{BESIDE, Regular, Request, Trace, Truth};

/// How times and bytes of a changed trace relate to those of the original.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    pub time: f64,
    /// Seconds added to scaled times.
    pub shift_s: f64,
    pub bytes: f64,
}

/// Nothing changes.
pub const SAME: Scale = Scale { time: 1.0, shift_s: 0.0, bytes: 1.0 };

/// Rows in another order.
pub fn shuffled(trace: &Trace, random: &mut Random) -> Trace {
    let mut changed = trace.clone();
    let rows = &mut changed.requests;
    for i in (1..rows.len()).rev() {
        rows.swap(i, random.whole(0, i));
    }
    changed
}

/// The last row first.
pub fn reversed(trace: &Trace) -> Trace {
    let mut changed = trace.clone();
    changed.requests.reverse();
    changed
}

/// Other numbers of ranks and files, and the rows in the order that follows from them (as files per rank would have it).
pub fn renamed(trace: &Trace, random: &mut Random) -> Trace {
    let mut changed = trace.clone();
    let (key, offset) = (random.whole(1, 1 << 20) as i32 * 2 + 1, random.whole(0, 1 << 20) as i32);
    for request in &mut changed.requests {
        request.rank = (request.rank.wrapping_mul(key)).wrapping_add(offset) & 0x00ff_ffff;
        request.file = request.file.wrapping_mul(key as u32) & 0x00ff_ffff;
    }
    changed.requests.sort_by_key(|request| (request.rank, request.file, request.start));
    changed
}

/// All times moved by the same amount.
pub fn shifted(trace: &Trace, nanos: i64) -> (Trace, Scale) {
    let mut changed = trace.clone();
    for request in &mut changed.requests {
        request.start += nanos;
        request.end += nanos;
    }
    (changed, Scale { shift_s: nanos as f64 * 1e-9, ..SAME })
}

/// Times multiplied by `10^exponent`, with the trace to compare with.
///
/// Upwards this is exact on whole nanoseconds. Downwards the original is first rounded to multiples of the divisor, and
/// that rounded trace is the one to compare with: the twin is then exact too. Rounding must not change the trace to
/// speak of, so that the divisor is at most a thousandth of the shortest request or gap between steps of the signal;
/// `exponent` is raised until that holds. Upwards it is lowered until the run ends within thirty years (the clock holds
/// 146).
pub fn time_scaled(trace: &Trace, exponent: i32) -> (Trace, Trace, Scale) {
    let (mut before, mut after) = (trace.clone(), trace.clone());
    if exponent >= 0 {
        let (first, last) = trace.span();
        let furthest = first.abs().max(last.abs()).max(1);
        let mut factor = 10i64.pow(exponent.unsigned_abs());
        while factor > 1 && furthest > 1_000_000_000_000_000_000 / factor {
            factor /= 10;
        }
        for request in &mut after.requests {
            request.start *= factor;
            request.end *= factor;
        }
        return (before, after, Scale { time: factor as f64, ..SAME });
    }
    let shortest = shortest_step(trace);
    let mut divisor = 10i64.pow(exponent.unsigned_abs());
    while divisor > 1 && divisor > shortest / 1000 {
        divisor /= 10;
    }
    let nearest = |nanos: i64| (nanos + divisor / 2).div_euclid(divisor);
    for (coarse, scaled) in before.requests.iter_mut().zip(&mut after.requests) {
        scaled.start = nearest(scaled.start);
        scaled.end = nearest(scaled.end);
        coarse.start = scaled.start * divisor;
        coarse.end = scaled.end * divisor;
    }
    (before, after, Scale { time: 1.0 / divisor as f64, ..SAME })
}

/// The shortest request, or distance of two starts or ends of requests that differ.
fn shortest_step(trace: &Trace) -> i64 {
    let mut edges: Vec<i64> =
        trace.requests.iter().flat_map(|request| [request.start, request.end]).collect();
    edges.sort_unstable();
    edges.windows(2).map(|pair| pair[1] - pair[0]).filter(|step| *step > 0).min().unwrap_or(i64::MAX)
}

/// All bytes multiplied by the same factor.
pub fn bytes_scaled(trace: &Trace, factor: f64) -> (Trace, Scale) {
    let mut changed = trace.clone();
    for request in &mut changed.requests {
        request.bytes *= factor;
    }
    (changed, Scale { bytes: factor, ..SAME })
}

/// Each request as two, back to back.
pub fn cut_in_halves(trace: &Trace) -> Trace {
    let cut = |request: &Request| {
        let length = request.end - request.start;
        let middle = request.start + length / 2;
        if middle == request.start {
            return vec![*request];
        }
        // In proportion, so that an odd number of nanoseconds leaves no step in the middle.
        let first = request.bytes * (middle - request.start) as f64 / length as f64;
        vec![
            Request { end: middle, bytes: first, ..*request },
            Request { start: middle, bytes: request.bytes - first, ..*request },
        ]
    };
    Trace { requests: trace.requests.iter().flat_map(cut).collect(), ..trace.clone() }
}

/// Each request as two of half the bytes at the same time.
pub fn doubled(trace: &Trace) -> Trace {
    let double = |request: &Request| {
        let half = Request { bytes: request.bytes / 2.0, ..*request };
        [half, Request { rank: request.rank + 1_000_000, ..half }]
    };
    Trace { requests: trace.requests.iter().flat_map(double).collect(), ..trace.clone() }
}

/// The run `k` times, so that the rhythm goes on.
pub fn repeated(trace: &Trace, k: usize) -> Trace {
    let regular = trace.regular();
    let phases = trace.phases();
    // Where phases drift, they drift on from the last one.
    let length = phases[phases.len() - 1].0 - phases[0].0 + regular.beat;
    let copies = (0..k).flat_map(|copy| {
        let moved = move |request: &Request| {
            let shift = length * copy as i64;
            let phase = request.phase + (copy * regular.n) as u32;
            Request { start: request.start + shift, end: request.end + shift, phase, ..*request }
        };
        trace.requests.iter().map(moved).collect::<Vec<_>>()
    });
    let truth = Truth::Regular(Regular { n: k * regular.n, ..regular });
    Trace { family: trace.family.clone(), requests: copies.collect(), truth }
}

/// One phase left out, never the first or the last: there nothing would be missing.
pub fn without_a_phase(trace: &Trace, random: &mut Random) -> (Trace, usize) {
    let regular = trace.regular();
    let gone = random.whole(1, regular.n - 2);
    let requests = trace.requests.iter().filter(|request| request.phase != gone as u32).copied().collect();
    let truth = Truth::Regular(Regular { n: regular.n - 1, ..regular });
    (Trace { family: trace.family.clone(), requests, truth }, gone)
}

/// A pause of half a beat to a thousand beats before one of the phases, with at least three phases on either side.
pub fn paused(trace: &Trace, random: &mut Random) -> (Trace, f64) {
    let regular = trace.regular();
    let from = random.whole(3, regular.n - 3) as u32;
    let beats = log_uniform(random, 0.5, 1000.0);
    let length = (beats * regular.beat as f64) as i64;
    let mut changed = trace.clone();
    for request in changed.requests.iter_mut().filter(|request| request.phase >= from) {
        request.start += length;
        request.end += length;
    }
    (changed, beats)
}

/// A burst that has nothing to do with the phases, of a third of their volume to three times it, anywhere.
pub fn with_a_burst(trace: &Trace, random: &mut Random) -> (Trace, String) {
    let regular = trace.regular();
    let (first, last) = trace.span();
    let start = first + (random.unit() * (last - first) as f64) as i64;
    let length = (log_uniform(random, 0.2, 1.5) * regular.duty * regular.beat as f64) as i64;
    let volume = trace.bytes() / regular.n as f64 * log_uniform(random, 0.3, 3.0);
    let changed = with_request(trace, start, start + length.max(SHORTEST_REQUEST), volume);
    let what = format!(
        "a burst of {:.2} phases' volume at {:.3} of the run",
        volume * regular.n as f64 / trace.bytes(),
        (start - first) as f64 / (last - first) as f64
    );
    (changed, what)
}

/// One phase, neither the first nor the last, that begins up to 0.4 of a beat too late, before the next one at any rate.
pub fn with_a_late_phase(trace: &Trace, random: &mut Random) -> (Trace, String) {
    let regular = trace.regular();
    let which = random.whole(1, regular.n - 2) as u32;
    let late = log_uniform(random, 0.02, 0.4_f64.min(0.9 - regular.duty));
    let mut changed = trace.clone();
    for request in changed.requests.iter_mut().filter(|request| request.phase == which) {
        request.start += (late * regular.beat as f64) as i64;
        request.end += (late * regular.beat as f64) as i64;
    }
    (changed, format!("phase {which} late by {late:.3} beats"))
}

/// One request more, beside all phases.
fn with_request(trace: &Trace, start: i64, end: i64, bytes: f64) -> Trace {
    let mut changed = trace.clone();
    let request = Request { rank: 0, file: 99, op: op_of(trace), start, end, bytes, phase: BESIDE };
    changed.requests.push(request);
    changed
}

/// A burst of next to nothing: at most 0.9 % of a phase's volume, anywhere from a beat and a half before the first phase to as long after the last.
pub fn with_next_to_nothing(trace: &Trace, random: &mut Random) -> (Trace, String) {
    let regular = trace.regular();
    let (first, last) = trace.span();
    let around = 1.5 * regular.beat as f64;
    let start = first + (random.unit() * ((last - first) as f64 + 2.0 * around) - around) as i64;
    let volume = trace.bytes() / regular.n as f64 * log_uniform(random, 1e-5, 0.009);
    let changed = with_request(trace, start, start + SHORTEST_REQUEST, volume);
    let what = format!(
        "a burst of {:.5} phases' volume at {:.3} of the run",
        volume * regular.n as f64 / trace.bytes(),
        (start - first) as f64 / (last - first) as f64
    );
    (changed, what)
}

/// A log beside the phases with at most 0.5 % of the bytes, at any rate.
pub fn with_a_log(trace: &Trace, random: &mut Random) -> (Trace, String) {
    let regular = trace.regular();
    let (first, last) = trace.span();
    // From two lines a beat... to a line in some beats, up to a few thousand lines.
    let every = (log_uniform(random, 0.003, 3.0) * regular.beat as f64) as i64;
    let every = every.max((last - first) / 4000).max(4 * SHORTEST_REQUEST);
    let share = log_uniform(random, 1e-5, 0.005);
    let n_lines = ((last - first) / every).max(1);
    let bytes = trace.bytes() * share / n_lines as f64;
    let uneven = if random.chance(0.5) { 0.3 } else { 0.0 };
    let length = (every / 50).clamp(SHORTEST_REQUEST, 2_000_000);
    let mut changed = trace.clone();
    let mut at = first as f64;
    for _ in 0..n_lines {
        let start = at as i64;
        changed.requests.push(Request {
            rank: 0,
            file: 98,
            op: op_of(trace),
            start,
            end: start + length,
            bytes,
            phase: BESIDE,
        });
        at += every as f64 * (1.0 + random.uniform(-uneven, uneven));
    }
    let what = format!(
        "a log with {:.4} % of the bytes, a line every {:.4} beats",
        100.0 * share,
        every as f64 / regular.beat as f64
    );
    (changed, what)
}

/// A constant stream beside the phases, below their bandwidth.
pub fn with_a_stream(trace: &Trace, random: &mut Random) -> (Trace, String) {
    let regular = trace.regular();
    let (first, last) = trace.span();
    // The lowest of the phases' mean bandwidths.
    let phases = trace.phases();
    let mut volumes = vec![0.0; phases.len()];
    for request in &trace.requests {
        volumes[request.phase as usize] += request.bytes;
    }
    let lowest = (phases.iter().zip(&volumes))
        .map(|((start, end), volume)| volume / (end - start) as f64 * 1e9)
        .fold(f64::INFINITY, f64::min);
    let share = random.uniform(0.02, 0.9);
    let n_requests = *random.pick(&[1, 1, regular.n, 500]) as i64;
    let n_requests = n_requests.min(((last - first) / SHORTEST_REQUEST).max(1));
    let mut changed = trace.clone();
    for i in 0..n_requests {
        let at = |i: i64| first + ((last - first) as i128 * i128::from(i) / i128::from(n_requests)) as i64;
        let (start, end) = (at(i), at(i + 1));
        let bytes = lowest * share * (end - start) as f64 * 1e-9;
        changed.requests.push(Request {
            rank: 0,
            file: 97,
            op: op_of(trace),
            start,
            end,
            bytes,
            phase: BESIDE,
        });
    }
    (changed, format!("a stream of {n_requests} requests at {:.0} % of the phases' bandwidth", 100.0 * share))
}

/// The first or the last phase 1.5 to 10 times as large: faster, or longer where there is room.
pub fn with_a_larger_end(trace: &Trace, random: &mut Random) -> (Trace, String) {
    let regular = trace.regular();
    let (whose, name) = if random.chance(0.5) { (0, "first") } else { (regular.n as u32 - 1, "last") };
    let factor = random.uniform(1.5, 10.0);
    // The phases of the growing and shrinking layouts are no longer than the stated share of the beat.
    let longer = random.chance(0.5) && factor * regular.duty < 0.7 - 3.0 * regular.spread;
    let start = trace.phases()[whose as usize].0;
    let mut changed = trace.clone();
    for request in changed.requests.iter_mut().filter(|request| request.phase == whose) {
        request.bytes *= factor;
        if longer {
            request.start = start + ((request.start - start) as f64 * factor) as i64;
            request.end = start + ((request.end - start) as f64 * factor) as i64;
        }
    }
    let how = if longer { "longer" } else { "faster" };
    (changed, format!("the {name} phase {factor:.1} times as large, {how}"))
}

/// Two traces at once.
pub fn overlaid(one: &Trace, other: &Trace) -> Trace {
    let mut requests = one.requests.clone();
    requests.extend(other.requests.iter().map(|request| Request {
        rank: request.rank + 1000,
        file: request.file + 1000,
        phase: BESIDE,
        ..*request
    }));
    let truth = Truth::Beats(vec![one.regular().beat_s(), other.regular().beat_s()]);
    Trace { family: format!("{} + {}", one.family, other.family), requests, truth }
}

fn op_of(trace: &Trace) -> Op {
    trace.requests.first().map_or(Op::Write, |request| request.op)
}

#[cfg(test)]
mod tests {
    use super::super::regular::Shape;
    use super::*;

    fn any(seed: u64) -> (Trace, Random) {
        let mut random = Random::new(seed);
        let shape = Shape::any(&mut random, 10);
        (shape.make(&mut random), random)
    }

    fn same_signal(one: &Trace, other: &Trace) {
        let (one, other) = (one.signals(), other.signals());
        for (one, other) in [(&one.0, &other.0), (&one.1, &other.1)] {
            let gap = (one.volume_bytes() - other.volume_bytes()).abs();
            assert!(gap <= 1e-9 * one.volume_bytes(), "{gap}");
            assert_eq!(one.span(), other.span());
        }
    }

    #[test]
    fn changes_that_must_not_matter_keep_volume_and_span() {
        for seed in 0..100 {
            let (trace, mut random) = any(seed);
            same_signal(&trace, &shuffled(&trace, &mut random));
            same_signal(&trace, &reversed(&trace));
            same_signal(&trace, &renamed(&trace, &mut random));
            same_signal(&trace, &cut_in_halves(&trace));
            same_signal(&trace, &doubled(&trace));
        }
    }

    #[test]
    fn scaled_times_are_exact_and_rounding_is_small() {
        for seed in 0..100 {
            let (trace, _) = any(seed);
            for exponent in [-6, -3, -1, 0, 2, 6] {
                let (before, after, scale) = time_scaled(&trace, exponent);
                let shortest = shortest_step(&trace) as f64;
                for ((original, before), after) in
                    trace.requests.iter().zip(&before.requests).zip(&after.requests)
                {
                    assert!((original.start - before.start).abs() as f64 <= 1e-3 * shortest);
                    let exact = if scale.time >= 1.0 {
                        before.start * scale.time as i64 == after.start
                    } else {
                        after.start * (1.0 / scale.time).round() as i64 == before.start
                    };
                    assert!(exact, "{before:?} and {after:?} by {}", scale.time);
                }
            }
        }
    }

    #[test]
    fn a_repeated_run_goes_on_in_its_beat() {
        for seed in 0..50 {
            let (trace, _) = any(seed);
            let (regular, three) = (trace.regular(), repeated(&trace, 3));
            let phases = three.phases();
            assert_eq!(phases.len(), 3 * regular.n);
            let seam = phases[regular.n].0 - phases[regular.n - 1].0;
            assert_eq!(seam, regular.beat);
        }
    }

    #[test]
    fn a_phase_left_out_is_missing_in_the_middle() {
        let (trace, mut random) = any(3);
        let (changed, _) = without_a_phase(&trace, &mut random);
        assert_eq!(changed.phases().len(), trace.phases().len() - 1);
        assert_eq!(changed.phases()[0], trace.phases()[0]);
        assert_eq!(changed.phases().last(), trace.phases().last());
    }

    #[test]
    fn a_pause_moves_what_comes_after_it() {
        let (trace, mut random) = any(4);
        let (changed, beats) = paused(&trace, &mut random);
        let gap = changed.span().1 - trace.span().1;
        assert!((gap as f64 / trace.regular().beat as f64 - beats).abs() < 1e-3);
        assert_eq!(changed.span().0, trace.span().0);
    }

    #[test]
    fn a_log_and_a_stream_stay_below_their_limits() {
        for seed in 0..100 {
            let (trace, mut random) = any(seed);
            let beside = |changed: &Trace| {
                let beside = changed.requests.iter().filter(|request| request.phase == BESIDE);
                beside.map(|request| request.bytes).sum::<f64>()
            };
            let (logged, what) = with_a_log(&trace, &mut random);
            assert!(beside(&logged) <= 0.00501 * trace.bytes(), "{what}");
            let (streamed, what) = with_a_stream(&trace, &mut random);
            assert!(beside(&streamed) > 0.0, "{what}");
            assert_eq!(streamed.span(), trace.span());
        }
    }
}
