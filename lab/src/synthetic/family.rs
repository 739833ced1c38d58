//! Traces of every kind for the laws that hold of all of them.

use iotide_trace::Op;

use super::change;
use super::random::Random;
use super::regular::{Layout, SHORTEST_REQUEST, Shape, log_uniform};
use super::trace::{BESIDE, Request, Trace, Truth};
use super::{job, labelled, workload};

type Make = fn(&mut Random) -> Trace;

/// The `i`-th trace: every kind in turn.
pub fn any(random: &mut Random, i: usize) -> Trace {
    let (name, make) = FAMILIES[i % FAMILIES.len()];
    let mut trace = make(random);
    if !trace.family.starts_with(name) {
        trace.family = format!("{name}: {}", trace.family);
    }
    trace
}

const FAMILIES: &[(&str, Make)] = &[
    ("regular", |random| regular(random, 4)),
    ("alternating sizes", alternating),
    ("pairs of phases", paired),
    ("missed beats", missed),
    ("a pause", |random| {
        let trace = regular(random, 10);
        beats_of(change::paused(&trace, random).0)
    }),
    ("a change of beat", regime_change),
    ("a late result", late_result),
    ("a larger first or last phase", |random| {
        let trace = regular(random, 4);
        change::with_a_larger_end(&trace, random).0
    }),
    ("two beats", two_beats),
    ("a log beside", |random| {
        let trace = regular(random, 6);
        beats_of(change::with_a_log(&trace, random).0)
    }),
    ("a stream beside", |random| {
        let trace = regular(random, 6);
        beats_of(change::with_a_stream(&trace, random).0)
    }),
    ("training with evaluation", training),
    ("exponential distances", |random| {
        let n = random.whole(4, 80);
        memoryless(random, n, Distances::Exponential)
    }),
    ("Pareto distances", |random| {
        let (n, shape) = (random.whole(4, 80), random.uniform(1.1, 2.5));
        memoryless(random, n, Distances::Pareto(shape))
    }),
    ("Gamma distances", |random| {
        let (n, cv) = (random.whole(4, 80), random.uniform(0.1, 1.0));
        memoryless(random, n, Distances::Gamma(cv))
    }),
    ("uniform times", uniform_times),
    ("a few writes", few_writes),
    ("one phase", |random| Shape { n: 1, ..Shape::any(random, 4) }.make(random)),
    ("a steady stream", steady),
    ("one call per rank", one_call_per_rank),
    ("reads and writes", reads_and_writes),
    ("accuracy: phases of the paper", |random| {
        let (compute_s, delay_s) =
            (*random.pick(&[1.0, 5.0, 22.0, 100.0]), *random.pick(&[0.0, 0.0, 5.0, 20.0]));
        let (std_s, noise) =
            (*random.pick(&[0.0, 0.0, 0.25, 0.75]) * compute_s, *random.pick(&[None, Some(0.5e9)]));
        of_workload(workload::phases(random, "phases", compute_s, std_s, delay_s, noise))
    }),
    ("accuracy: interleaved", |random| of_workload(workload::interleaved(random))),
    ("accuracy: nested", |random| of_workload(workload::nested(random))),
    ("accuracy: odd shapes", |random| of_workload(workload::odd_shapes(random))),
    ("accuracy: any size", |random| of_workload(workload::any_size(random))),
    ("accuracy: aperiodic", |random| {
        let kind = random.whole(0, workload::APERIODIC_KINDS - 1);
        of_workload(workload::aperiodic(random, kind))
    }),
    ("accuracy: online", |random| {
        let (kind, events) = job::any_job(random);
        of_events(kind, &events)
    }),
    ("accuracy: categories", |random| {
        let (kind, events) = labelled::any_run(random);
        of_events(kind, &events)
    }),
];

fn regular(random: &mut Random, fewest: usize) -> Trace {
    let shape = Shape::any(random, fewest);
    shape.make(random)
}

/// The same, of which no more is asserted than its beat.
pub fn beats_of(trace: Trace) -> Trace {
    let truth = Truth::Beats(vec![trace.regular().beat_s()]);
    Trace { truth, ..trace }
}

/// Big and small phases in turn.
pub fn alternating(random: &mut Random) -> Trace {
    let mut trace = regular(random, 8);
    let ratio = log_uniform(random, 1.5, 20.0);
    for request in trace.requests.iter_mut().filter(|request| request.phase % 2 == 1) {
        request.bytes /= ratio;
    }
    beats_of(trace)
}

/// Distances such as 6, 14, 6, 14: two phases to each beat.
pub fn paired(random: &mut Random) -> Trace {
    let shape = Shape { n: random.whole(8, 40), ..Shape::any(random, 8) };
    let shape = Shape { duty: shape.duty.min(0.2), jitter: shape.jitter.min(0.02), ..shape };
    let mut trace = shape.make(random);
    let phases = trace.phases();
    let early = (random.uniform(0.1, 0.5) * shape.beat as f64) as i64;
    for request in trace.requests.iter_mut().filter(|request| request.phase % 2 == 1) {
        // Towards the phase before, but not onto it.
        let before = phases[request.phase as usize - 1].1;
        let early = early.min((phases[request.phase as usize].0 - before) / 2);
        request.start -= early;
        request.end -= early;
    }
    Trace { truth: Truth::Beats(vec![2.0 * shape.beat as f64 * 1e-9]), ..trace }
}

/// 5 to 30 % of the beats missing.
pub fn missed(random: &mut Random) -> Trace {
    let trace = regular(random, 20);
    let share = random.uniform(0.05, 0.3);
    let n = trace.regular().n as u32;
    let gone: Vec<bool> = (0..n).map(|i| i > 0 && i + 1 < n && random.chance(share)).collect();
    let requests = trace.requests.iter().filter(|request| !gone[request.phase as usize]).copied().collect();
    beats_of(Trace { requests, ..trace })
}

/// One beat, then another.
pub fn regime_change(random: &mut Random) -> Trace {
    let first = Shape::any(random, 8);
    let factor = if random.chance(0.5) { random.uniform(1.5, 4.0) } else { random.uniform(0.3, 0.7) };
    let duty = (first.duty / factor).min(0.5);
    let second = Shape { beat: (first.beat as f64 * factor) as i64, n: random.whole(8, 30), duty, ..first };
    let (one, two) = (first.make(random), second.make(random));
    let bytes = one.bytes() / one.regular().n as f64 / (two.bytes() / two.regular().n as f64);
    let shift = one.phases()[first.n - 1].0 + first.beat - two.span().0;
    let mut requests = one.requests.clone();
    requests.extend(two.requests.iter().map(|request| Request {
        start: request.start + shift,
        end: request.end + shift,
        bytes: request.bytes * bytes,
        phase: request.phase + first.n as u32,
        ..*request
    }));
    let beats = vec![one.regular().beat_s(), two.regular().beat_s()];
    Trace { family: format!("{} then {}", one.family, two.family), requests, truth: Truth::Beats(beats) }
}

/// A result file soon or long after the last phase, of the size of one of them or of twenty times all of them.
pub fn late_result(random: &mut Random) -> Trace {
    let trace = regular(random, 10);
    let regular = trace.regular();
    let start = trace.span().1 + (log_uniform(random, 0.5, 50.0) * regular.beat as f64) as i64;
    let volume = trace.bytes() * log_uniform(random, 0.5 / regular.n as f64, 20.0);
    let length = (regular.beat as f64 * regular.duty * random.uniform(0.5, 3.0)) as i64;
    let mut changed = trace.clone();
    let end = start + length.max(SHORTEST_REQUEST);
    let op = trace.requests[0].op;
    changed.requests.push(Request { rank: 0, file: 7, op, start, end, bytes: volume, phase: BESIDE });
    beats_of(changed)
}

/// Two regular runs at once, each with at least 8 phases and 5 % of the bytes, in the same direction.
///
/// The beats differ by at least a third and are no multiple by two of each other: phases that fall between those of
/// another rhythm, evenly, are one rhythm of half the beat.
pub fn two_beats(random: &mut Random) -> Trace {
    let plain =
        |shape: Shape| Shape { op: Op::Write, jitter: shape.jitter.min(0.01), drifts: false, ..shape };
    let short = plain(Shape::any(random, 8));
    let ratio = loop {
        let ratio = if random.chance(0.3) { random.whole(3, 9) as f64 } else { random.uniform(1.35, 12.0) };
        if (ratio - 2.0).abs() > 0.15 {
            break ratio;
        }
    };
    let n_long = random.whole(8, 20);
    let n_short = ((n_long as f64 * ratio) as usize).max(8);
    let per_phase = |n: usize, asked: usize| asked.min((4000 / n).max(1));
    let short = Shape {
        n: n_short,
        duty: short.duty.min(0.12),
        requests_per_phase: per_phase(n_short, short.requests_per_phase),
        layout: Layout::Together,
        ..short
    };
    let long = Shape {
        beat: (short.beat as f64 * ratio) as i64,
        n: n_long,
        duty: log_uniform(random, 0.005, 0.12),
        requests_per_phase: per_phase(n_long, random.whole(1, 50)),
        ..short
    };
    let (one, mut two) = (short.make(random), long.make(random));
    // 6 to 94 % of the bytes each.
    let share = random.uniform(0.06, 0.94);
    let factor = one.bytes() * share / (1.0 - share) / two.bytes();
    let shift = one.span().0 + (random.unit() * short.beat as f64) as i64 - two.span().0;
    for request in &mut two.requests {
        request.bytes *= factor;
        request.start += shift;
        request.end += shift;
    }
    change::overlaid(&one, &two)
}

/// Epochs that read a data set in steps, an evaluation pass after each.
pub fn training(random: &mut Random) -> Trace {
    let epoch = log_uniform(random, 1e9, 3.6e12);
    let n_epochs = random.whole(6, 30);
    let n_steps = random.whole(1, 60);
    let (train, evaluate) = (random.uniform(0.3, 0.6), random.uniform(0.03, 0.15));
    let between = random.uniform(0.05, 0.9 - train - evaluate);
    let jitter = *random.pick(&[0.0, 0.01, 0.03]);
    let bytes = 10f64.powf(random.uniform(6.0, 11.0));
    let mut requests = Vec::new();
    let mut at = 0.0;
    for phase in 0..n_epochs as u32 {
        let mut pass = |from: f64, length: f64, n: usize, bytes: f64| {
            for i in 0..n {
                let start = from + length * i as f64 / n as f64;
                let end = start + 0.9 * length / n as f64;
                requests.push(Request {
                    rank: 0,
                    file: 0,
                    op: Op::Read,
                    start: start as i64,
                    end: end as i64,
                    bytes: bytes / n as f64,
                    phase,
                });
            }
        };
        pass(at, train * epoch, n_steps, bytes);
        pass(at + (train + between) * epoch, evaluate * epoch, n_steps.div_ceil(5), bytes * evaluate / train);
        at += epoch * (1.0 + random.normal(0.0, jitter).clamp(-0.08, 0.08));
    }
    Trace {
        family: format!("training ({n_epochs} epochs of {:.3} s, {n_steps} steps)", epoch * 1e-9),
        requests,
        truth: Truth::Beats(vec![epoch * 1e-9]),
    }
}

/// How the distances of a renewal process are drawn.
#[derive(Clone, Copy, Debug)]
pub enum Distances {
    Exponential,
    /// With this shape; the smaller, the heavier the tail.
    Pareto(f64),
    /// With this coefficient of variation.
    Gamma(f64),
}

/// Equal, short phases whose distances are independent draws.
pub fn memoryless(random: &mut Random, n: usize, distances: Distances) -> Trace {
    let mean = log_uniform(random, 1e7, 6e11);
    let length = mean * log_uniform(random, 0.001, 0.02);
    let mut requests = Vec::new();
    let (mut at, n_ranks) = (0.0, *random.pick(&[1, 4]));
    for phase in 0..n as u32 {
        for rank in 0..n_ranks {
            let (start, end) = (at as i64, (at + length) as i64);
            let file = rank as u32;
            requests.push(Request { rank, file, op: Op::Write, start, end, bytes: 1e8, phase });
        }
        // Phases do not overlap; what they add to the distances is at most 2 % of the mean.
        at += length
            + mean
                * match distances {
                    Distances::Exponential => random.exponential(1.0),
                    Distances::Pareto(shape) => {
                        (1.0 - random.unit()).powf(-1.0 / shape) * (shape - 1.0) / shape
                    }
                    Distances::Gamma(cv) => gamma(random, 1.0 / (cv * cv)) * cv * cv,
                };
    }
    let truth = match distances {
        Distances::Gamma(_) => Truth::Unknown,
        Distances::Exponential | Distances::Pareto(_) => Truth::None,
    };
    Trace { family: format!("{distances:?} distances ({n} phases)"), requests, truth }
}

/// A draw of the Gamma distribution with scale 1 (Marsaglia & Tsang, 2000).
pub fn gamma(random: &mut Random, shape: f64) -> f64 {
    if shape < 1.0 {
        // Gamma(a) = Gamma(a + 1) · U^(1/a).
        return gamma(random, shape + 1.0) * (1.0 - random.unit()).powf(1.0 / shape);
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = random.normal(0.0, 1.0);
        let v = (1.0 + c * x).powi(3);
        if v > 0.0 && (1.0 - random.unit()).ln() < 0.5 * x * x + d - d * v + d * v.ln() {
            return d * v;
        }
    }
}

fn uniform_times(random: &mut Random) -> Trace {
    let run = log_uniform(random, 1e9, 1e13);
    let n = random.whole(4, 60);
    let requests = (0..n as u32)
        .map(|phase| {
            let start = (random.unit() * run) as i64;
            let end = start + (run * log_uniform(random, 1e-4, 1e-2)) as i64;
            let bytes = random.log_normal(1e8, 1.0);
            Request { rank: 0, file: phase, op: Op::Write, start, end, bytes, phase }
        })
        .collect();
    Trace { family: format!("uniform times ({n})"), requests, truth: Truth::Unknown }
}

fn few_writes(random: &mut Random) -> Trace {
    let n = random.whole(1, 3);
    let shape = Shape { n, jitter: random.uniform(0.0, 0.1), ..Shape::any(random, 4) };
    let trace = Shape { requests_per_phase: 1, n_ranks: 1, duty: shape.duty.min(0.3), ..shape }.make(random);
    Trace { truth: Truth::Unknown, ..trace }
}

/// Back-to-back or evenly spaced requests without any phase.
fn steady(random: &mut Random) -> Trace {
    let n = random.whole(1, 2000);
    let length = log_uniform(random, 1e4, 1e10);
    let filled = *random.pick(&[1.0, 1.0, 0.98, 0.9]);
    let uneven = *random.pick(&[0.0, 0.1]);
    let mut at = 0.0;
    let requests = (0..n)
        .map(|_| {
            let start = at as i64;
            let length = length * (1.0 + random.uniform(-uneven, uneven));
            at += length;
            let end = start + (length * filled) as i64;
            Request { rank: 0, file: 0, op: Op::Write, start, end, bytes: 1e6, phase: BESIDE }
        })
        .collect();
    Trace {
        family: format!("a steady stream ({n} requests, {filled} filled)"),
        requests,
        truth: Truth::Unknown,
    }
}

/// Ranks write once each, one after the other.
fn one_call_per_rank(random: &mut Random) -> Trace {
    let n = random.whole(2, 64) as i32;
    let length = log_uniform(random, 1e5, 1e10);
    let gap = length * random.uniform(0.0, 2.0);
    let requests = (0..n)
        .map(|rank| {
            let start = (f64::from(rank) * (length + gap)) as i64;
            let (file, end) = (rank as u32, start + length as i64);
            Request { rank, file, op: Op::Write, start, end, bytes: 1e6, phase: 0 }
        })
        .collect();
    Trace { family: format!("one call per rank ({n})"), requests, truth: Truth::Unknown }
}

/// A rhythm in each direction.
fn reads_and_writes(random: &mut Random) -> Trace {
    let (writes, reads) = (Shape::any(random, 4), Shape::any(random, 4));
    let writes = Shape { op: Op::Write, ..writes };
    let beat = (writes.beat as f64 * log_uniform(random, 0.3, 3.0)) as i64;
    let reads = Shape { op: Op::Read, beat, ..reads };
    let trace = change::overlaid(&writes.make(random), &reads.make(random));
    Trace { truth: Truth::Unknown, ..trace }
}

/// The same trace, of which nothing is asserted.
fn of_workload(made: workload::Workload) -> Trace {
    Trace { truth: Truth::Unknown, ..made.trace }
}

/// The bytes that events moved.
pub fn of_events(name: &str, events: &[iotide_trace::Event]) -> Trace {
    let requests = events
        .iter()
        .filter(|event| event.op.moves_data())
        .map(|event| Request {
            rank: event.rank.0,
            file: event.file.0,
            op: event.op,
            start: event.start.as_nanos(),
            end: event.end.as_nanos(),
            bytes: event.bytes,
            phase: BESIDE,
        })
        .collect();
    Trace { family: name.to_owned(), requests, truth: Truth::Unknown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_makes_requests_that_go_forward() {
        for i in 0..4 * FAMILIES.len() {
            let trace = any(&mut Random::new(i as u64), i);
            assert!(!trace.requests.is_empty(), "{}", trace.family);
            for request in &trace.requests {
                assert!(
                    request.start <= request.end && request.bytes >= 0.0,
                    "{}: {request:?}",
                    trace.family
                );
            }
        }
    }

    #[test]
    fn gamma_draws_have_the_mean_and_deviation_that_were_asked_for() {
        for cv in [0.3, 0.5, 1.0, 1.4] {
            let mut random = Random::new(5);
            let draws: Vec<f64> =
                (0..20_000).map(|_| gamma(&mut random, 1.0 / (cv * cv)) * cv * cv).collect();
            let mean = draws.iter().sum::<f64>() / draws.len() as f64;
            let variance = draws.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / draws.len() as f64;
            assert!(
                (mean - 1.0).abs() < 0.03 && (variance.sqrt() / cv - 1.0).abs() < 0.05,
                "{mean} {variance}"
            );
        }
    }

    #[test]
    fn pairs_of_phases_alternate_between_two_distances() {
        let trace = paired(&mut Random::new(2));
        let Truth::Beats(beats) = &trace.truth else { panic!("a beat") };
        let phases = trace.phases();
        for pair in phases.windows(3) {
            let two = (pair[2].0 - pair[0].0) as f64 * 1e-9;
            assert!((two / beats[0] - 1.0).abs() < 0.2, "{two} {beats:?}");
        }
    }

    #[test]
    fn two_beats_have_their_shares_of_the_bytes() {
        for seed in 0..50 {
            let trace = two_beats(&mut Random::new(seed));
            let second: f64 = trace
                .requests
                .iter()
                .filter(|request| request.phase == BESIDE)
                .map(|request| request.bytes)
                .sum();
            assert!((0.05..=0.95).contains(&(second / trace.bytes())), "{}", trace.family);
        }
    }
}
