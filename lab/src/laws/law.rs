//! The laws: each takes a trace and its changed twins, asks the engine, and says which parts hold.

use iotide_analysis::{Access, CategoryConfig, Observed, RunConfig, StatedRun, Verdict, categorize};
use iotide_trace::{Direction, JobInfo, automatic_rate_hz};

use super::consistency;
use crate::answer::{Answer, ROUNDING, SAMPLING, ask, ask_with, same, seconds};
use crate::score::relative_error;
use crate::synthetic::change::{self, SAME, Scale};
use crate::synthetic::family::{self, Distances};
use crate::synthetic::random::Random;
use crate::synthetic::regular::{Layout, Shape, log_uniform};
use crate::synthetic::trace::{Regular, Trace};

/// A law of rhythm, with its parts.
pub struct Law {
    /// Its number in the list of laws.
    pub number: &'static str,
    /// Parts of the test: name and the share that must hold.
    pub parts: &'static [(&'static str, f64)],
    /// How many cases there are if `n` traces are asked for.
    pub n_cases: fn(n: usize) -> usize,
    /// Tries case `i`.
    pub try_case: fn(&mut Random, i: usize) -> Vec<Tried>,
}

/// A part of a law, tried on one trace.
#[derive(Clone, Debug)]
pub struct Tried {
    pub part: &'static str,
    /// Why it does not hold, with the trace, the change and both answers.
    pub result: Result<(), String>,
}

const ALWAYS: f64 = 1.0;
const MOSTLY: f64 = 0.99;
/// Of so few phases chance makes some even: more cannot be asked for without refusing runs that do keep a beat.
const USUALLY: f64 = 0.85;

/// All laws, in order.
pub const LAWS: &[Law] = &[
    Law {
        number: "1",
        parts: &[
            ("order of rows", ALWAYS),
            ("numbers of ranks and files", ALWAYS),
            ("time shift", ALWAYS),
            ("time × c", ALWAYS),
            ("bytes × c", ALWAYS),
        ],
        n_cases: |n| n,
        try_case: |random, i| law_1(&family::any(random, i), random),
    },
    Law {
        number: "1b",
        parts: &[("order of rows, more than are kept exactly", ALWAYS)],
        n_cases: |n| (n / 100).clamp(1, 6),
        try_case: law_1_large,
    },
    Law {
        number: "2",
        parts: &[("requests cut in halves", ALWAYS), ("requests as concurrent halves", ALWAYS)],
        n_cases: |n| n,
        try_case: |random, i| law_2(&family::any(random, i)),
    },
    Law {
        number: "3",
        parts: &[("the run repeated", MOSTLY)],
        n_cases: |n| n,
        try_case: |random, _| law_3(random),
    },
    Law {
        number: "4",
        parts: &[("one phase left out", MOSTLY), ("a pause", MOSTLY), ("one foreign burst", MOSTLY)],
        n_cases: |n| n,
        try_case: |random, _| law_4(random),
    },
    Law {
        number: "4b",
        parts: &[("a burst of next to nothing, from four phases on", MOSTLY)],
        n_cases: |n| n,
        try_case: |random, _| law_4_small(random),
    },
    Law {
        number: "4c",
        parts: &[("one phase late, from five phases on", MOSTLY)],
        n_cases: |n| n,
        try_case: |random, _| law_4_late(random),
    },
    Law {
        number: "5",
        parts: &[("a log beside", MOSTLY), ("a constant stream beside", MOSTLY)],
        n_cases: |n| n,
        try_case: |random, _| law_5(random),
    },
    Law {
        number: "6",
        parts: &[("a larger first or last phase", MOSTLY)],
        n_cases: |n| n,
        try_case: |random, _| law_6(random),
    },
    Law {
        number: "7",
        parts: &[("n phases, n from 4 to 2000", ALWAYS), ("any regular run", ALWAYS)],
        n_cases: |n| SWEPT + n,
        try_case: law_7,
    },
    Law {
        number: "8",
        parts: &[("two runs overlaid", MOSTLY)],
        n_cases: |n| n,
        try_case: |random, _| law_8(random),
    },
    Law {
        number: "9",
        parts: &[("internal consistency", ALWAYS)],
        n_cases: |n| 2 * n,
        try_case: |random, i| law_9(&family::any(random, i)),
    },
    Law {
        number: "10",
        parts: &[("exponential distances", MOSTLY), ("Pareto distances", MOSTLY)],
        n_cases: |n| n,
        try_case: |random, _| law_10(random),
    },
    Law {
        number: "10b",
        parts: &[("no memory, 8 or 12 phases", USUALLY)],
        n_cases: |n| n,
        try_case: |random, _| law_10_few(random),
    },
    Law {
        number: "11",
        parts: &[("more phases, no less confidence", MOSTLY)],
        n_cases: |n| n / 2,
        try_case: |random, _| law_11(random),
    },
    Law {
        number: "12",
        parts: &[("finer sampling", MOSTLY), ("more memory", MOSTLY)],
        n_cases: |n| n,
        try_case: |random, i| law_12(&family::any(random, i)),
    },
    Law {
        number: "engine",
        parts: &[("detect and categorize agree", ALWAYS)],
        n_cases: |n| n,
        try_case: |random, i| one_engine(&family::any(random, i)),
    },
];

/// Order of rows, names, time shift, time × c, bytes × c: the same answer, scaled.
pub fn law_1(trace: &Trace, random: &mut Random) -> Vec<Tried> {
    let before = ask(trace);
    let twin = |part, what: &str, changed: &Trace, scale: &Scale| {
        compared(part, trace, what, &before, &ask(changed), scale)
    };
    let (shifted, shift) = {
        // From a clock that starts at zero to one that counts from the Unix epoch.
        let nanos = *random.pick(&[-7_000_000_000, 1, 86_400_000_000_000, 1_700_000_000_000_000_000]);
        change::shifted(trace, nanos)
    };
    let factor = 2f64.powi(random.whole(0, 40) as i32 - 20) * random.uniform(1.0, 2.0);
    let (scaled, scale) = change::bytes_scaled(trace, factor);
    let (coarse, stretched, time) = change::time_scaled(trace, random.whole(0, 12) as i32 - 6);
    let order = if random.chance(0.3) { change::reversed(trace) } else { change::shuffled(trace, random) };
    let stretched_from = if time.time < 1.0 { ask(&coarse) } else { before.clone() };
    vec![
        twin("order of rows", "rows in another order", &order, &SAME),
        twin("numbers of ranks and files", "renumbered", &change::renamed(trace, random), &SAME),
        twin("time shift", &format!("moved by {} s", shift.shift_s), &shifted, &shift),
        compared(
            "time × c",
            trace,
            &format!("times × {:e}", time.time),
            &stretched_from,
            &ask(&stretched),
            &time,
        ),
        twin("bytes × c", &format!("bytes × {factor:.3e}"), &scaled, &scale),
    ]
}

/// Rows in other orders where there are more than a sum keeps exactly.
fn law_1_large(random: &mut Random, i: usize) -> Vec<Tried> {
    let (n_phases, per_phase) = [(150, 8000), (40, 20_000), (600, 1000)][i % 3];
    let beat_s = *random.pick(&[10.0, 0.5, 300.0]);
    let shape = Shape {
        requests_per_phase: per_phase,
        n_ranks: 8,
        layout: Layout::Together,
        jitter: *random.pick(&[0.0, 0.01]),
        ..Shape::plain(beat_s, n_phases, random.uniform(0.05, 0.4))
    };
    let trace = shape.make(random);
    let before = ask(&trace);
    let part = "order of rows, more than are kept exactly";
    vec![
        judged(part, &trace, "as it is", &[&before], is_right(&before, &trace.regular())),
        compared(part, &trace, "last row first", &before, &ask(&change::reversed(&trace)), &SAME),
        compared(part, &trace, "shuffled", &before, &ask(&change::shuffled(&trace, random)), &SAME),
    ]
}

/// Requests cut in two, one after the other or at once: the same answer.
pub fn law_2(trace: &Trace) -> Vec<Tried> {
    let before = ask(trace);
    let (cut, doubled) = (ask(&change::cut_in_halves(trace)), ask(&change::doubled(trace)));
    vec![
        compared("requests cut in halves", trace, "cut in halves", &before, &cut, &SAME),
        compared("requests as concurrent halves", trace, "concurrent halves", &before, &doubled, &SAME),
    ]
}

/// The run `k` times: the same beat, `k` times the phases.
fn law_3(random: &mut Random) -> Vec<Tried> {
    let trace = Shape::any(random, 6).make(random);
    let k = random.whole(2, 5);
    let longer = change::repeated(&trace, k);
    let (before, after) = (ask(&trace), ask(&longer));
    let result = is_right(&before, &trace.regular())
        .map_err(|why| format!("before: {why}"))
        .and_then(|()| is_right(&after, &longer.regular()).map_err(|why| format!("after: {why}")));
    vec![judged("the run repeated", &trace, &format!("{k} times"), &[&before, &after], result)]
}

/// A phase left out, a pause, a foreign burst: the same beat, and the change is reported.
fn law_4(random: &mut Random) -> Vec<Tried> {
    let trace = Shape::any(random, 10).make(random);
    let regular = trace.regular();
    let (without, gone) = change::without_a_phase(&trace, random);
    let (paused, beats) = change::paused(&trace, random);
    let (disturbed, burst) = change::with_a_burst(&trace, random);
    let before = ask(&trace);
    vec![
        {
            let after = ask(&without);
            let result = after.has_headline(regular.beat_s(), regular.tolerance()).and_then(|rhythm| {
                counted(rhythm.phases.len(), regular.n - 1, 0)?;
                if rhythm.missed == 1 {
                    Ok(())
                } else {
                    Err(format!("{} missed beats, not 1", rhythm.missed))
                }
            });
            let what = format!("phase {gone} left out");
            judged("one phase left out", &trace, &what, &[&before, &after], result)
        },
        {
            let after = ask(&paused);
            let result = after.has_headline(regular.beat_s(), regular.tolerance()).and_then(|_| {
                // One rhythm with a pause, or one before it and one after.
                let of_the_beat = after.estimate.rhythms.iter().filter(|rhythm| {
                    relative_error(rhythm.period_s, regular.beat_s()) <= regular.tolerance()
                });
                counted(of_the_beat.map(|rhythm| rhythm.phases.len()).sum(), regular.n, 0)
            });
            let what = format!("a pause of {beats:.2} beats");
            judged("a pause", &trace, &what, &[&before, &after], result)
        },
        {
            let after = ask(&disturbed);
            let result = after.has_headline(regular.beat_s(), regular.tolerance()).and_then(|rhythm| {
                // The burst may be a phase of its own, or part of one, or fill a gap.
                counted(rhythm.phases.len(), regular.n, 1)
            });
            judged("one foreign burst", &trace, &burst, &[&before, &after], result)
        },
    ]
}

/// A phase that comes late, the next one on time again: the same beat, all phases, and none missed.
fn law_4_late(random: &mut Random) -> Vec<Tried> {
    let (beat_s, duty) = (log_uniform(random, 1e-3, 3600.0), log_uniform(random, 0.002, 0.5));
    let shape = Shape {
        jitter: *random.pick(&[0.0, 0.0, 0.01, 0.02]),
        ..Shape::plain(beat_s, random.whole(5, 40), duty)
    };
    let trace = shape.make(random);
    let regular = trace.regular();
    let (late, what) = change::with_a_late_phase(&trace, random);
    let (before, after) = (ask(&trace), ask(&late));
    let result = after.has_headline(regular.beat_s(), 0.03_f64.max(regular.tolerance())).and_then(|rhythm| {
        counted(rhythm.phases.len(), regular.n, 0)?;
        if rhythm.missed == 0 { Ok(()) } else { Err(format!("{} missed beats, not 0", rhythm.missed)) }
    });
    vec![judged("one phase late, from five phases on", &trace, &what, &[&before, &after], result)]
}

/// A burst of next to nothing anywhere: the same beat and the same phases, however few they are.
fn law_4_small(random: &mut Random) -> Vec<Tried> {
    let shape = match random.chance(0.5) {
        true => Shape::any(random, 4),
        false => {
            let (beat_s, duty) = (log_uniform(random, 1e-3, 3600.0), log_uniform(random, 0.002, 0.5));
            Shape::plain(beat_s, random.whole(4, 9), duty)
        }
    };
    let trace = shape.make(random);
    let regular = trace.regular();
    let (disturbed, burst) = change::with_next_to_nothing(&trace, random);
    let (before, after) = (ask(&trace), ask(&disturbed));
    let result = after
        .has_headline(regular.beat_s(), regular.tolerance())
        .and_then(|rhythm| counted(rhythm.phases.len(), regular.n, 0));
    let part = "a burst of next to nothing, from four phases on";
    vec![judged(part, &trace, &burst, &[&before, &after], result)]
}

/// A log with at most 0.5 % of the bytes: the same headline. A constant stream: the same beats.
fn law_5(random: &mut Random) -> Vec<Tried> {
    let trace = Shape::any(random, 8).make(random);
    let regular = trace.regular();
    let (logged, log) = change::with_a_log(&trace, random);
    let (streamed, stream) = change::with_a_stream(&trace, random);
    let before = ask(&trace);
    let (beside_log, beside_stream) = (ask(&logged), ask(&streamed));
    let headline = |answer: &Answer| {
        let rhythm = answer.has_headline(regular.beat_s(), regular.tolerance())?;
        counted(rhythm.phases.len(), regular.n, 0)
    };
    let alone = headline(&beside_stream).and_then(|()| match beside_stream.estimate.rhythms.len() {
        1 => Ok(()),
        n => Err(format!("{n} rhythms where there is one")),
    });
    vec![
        judged("a log beside", &trace, &log, &[&before, &beside_log], headline(&beside_log)),
        judged("a constant stream beside", &trace, &stream, &[&before, &beside_stream], alone),
    ]
}

/// The first or last phase larger: the same beat.
fn law_6(random: &mut Random) -> Vec<Tried> {
    let trace = Shape::any(random, 4).make(random);
    let (changed, what) = change::with_a_larger_end(&trace, random);
    let (before, after) = (ask(&trace), ask(&changed));
    let result = is_right(&after, &trace.regular());
    vec![judged("a larger first or last phase", &trace, &what, &[&before, &after], result)]
}

/// Numbers of phases at which every combination of beat and duty cycle is tried.
const THOROUGH: [usize; 19] = [4, 5, 6, 7, 8, 9, 10, 12, 16, 20, 25, 32, 40, 50, 64, 81, 100, 120, 128];
const SWEEP_BEATS_S: [f64; 5] = [0.001, 0.37, 10.0, 60.0, 3600.0];
const SWEEP_DUTIES: [f64; 6] = [0.001, 0.01, 0.05, 0.2, 0.4, 0.6];
const COMBINATIONS: usize = SWEEP_BEATS_S.len() * SWEEP_DUTIES.len();
/// Every n from 4 to 2000 once, in combinations that take turns, and some with all of them.
const SWEPT: usize = 1997 + THOROUGH.len() * COMBINATIONS;

/// A regular run: its beat, one rhythm, all its phases, the mean of their bytes.
fn law_7(random: &mut Random, i: usize) -> Vec<Tried> {
    if i >= SWEPT {
        let trace = Shape::any(random, 4).make(random);
        let answer = ask(&trace);
        return vec![judged(
            "any regular run",
            &trace,
            "as it is",
            &[&answer],
            is_right(&answer, &trace.regular()),
        )];
    }
    let (n, combination) = if i < 1997 {
        // 7 and 30 have no common divisor: all combinations take turns.
        (i + 4, 7 * i % COMBINATIONS)
    } else {
        (THOROUGH[(i - 1997) / COMBINATIONS], (i - 1997) % COMBINATIONS)
    };
    let beat_s = SWEEP_BEATS_S[combination % SWEEP_BEATS_S.len()];
    let trace = Shape::plain(beat_s, n, SWEEP_DUTIES[combination / SWEEP_BEATS_S.len()]).make(random);
    let answer = ask(&trace);
    let result = is_right(&answer, &trace.regular()).and_then(|()| {
        let rhythm = &answer.estimate.rhythms[0];
        let (found, expected) = (rhythm.bytes / rhythm.phases.len() as f64, trace.bytes() / n as f64);
        if relative_error(found, expected) < 0.01 {
            return Ok(());
        }
        Err(format!("{found:.5e} bytes per phase, not {expected:.5e}"))
    });
    vec![judged("n phases, n from 4 to 2000", &trace, "as it is", &[&answer], result)]
}

/// Two runs at once: both beats.
fn law_8(random: &mut Random) -> Vec<Tried> {
    let trace = family::two_beats(random);
    let answer = ask(&trace);
    let crate::synthetic::trace::Truth::Beats(beats) = &trace.truth else { unreachable!("two beats") };
    let result = beats.iter().try_for_each(|&beat_s| answer.has_beat(beat_s, 0.03));
    vec![judged("two runs overlaid", &trace, "as it is", &[&answer], result)]
}

/// An answer does not contradict itself.
pub fn law_9(trace: &Trace) -> Vec<Tried> {
    let answer = ask(trace);
    let result = consistency::check(&answer, trace);
    vec![judged("internal consistency", trace, "as it is", &[&answer], result)]
}

/// Distances without memory: not periodic. Eight or twelve of them may be even by chance; then "unclear" is as good.
fn law_10(random: &mut Random) -> Vec<Tried> {
    let n = *random.pick(&[20, 30, 40, 80, 200]);
    let shape = random.uniform(1.05, 2.0);
    [("exponential distances", Distances::Exponential), ("Pareto distances", Distances::Pareto(shape))]
        .into_iter()
        .map(|(part, distances)| without_memory(random, part, n, distances))
        .collect()
}

/// The same with so few distances that chance makes some of them even.
fn law_10_few(random: &mut Random) -> Vec<Tried> {
    let n = *random.pick(&[8, 12]);
    let shape = random.uniform(1.05, 2.0);
    let distances = if random.chance(0.5) { Distances::Exponential } else { Distances::Pareto(shape) };
    vec![without_memory(random, "no memory, 8 or 12 phases", n, distances)]
}

fn without_memory(random: &mut Random, part: &'static str, n: usize, distances: Distances) -> Tried {
    let trace = family::memoryless(random, n, distances);
    let answer = ask(&trace);
    let result = match answer.estimate.verdict {
        Verdict::Periodic => Err("called periodic".to_owned()),
        Verdict::Unclear if n >= 40 => Err(format!("unclear after {n} phases")),
        Verdict::Unclear | Verdict::NotPeriodic => Ok(()),
    };
    judged(part, &trace, "as it is", &[&answer], result)
}

/// Coefficients of variation at which Gamma distances are tried.
pub const GAMMA_CVS: [f64; 9] = [0.1, 0.2, 0.3, 0.41, 0.5, 0.58, 0.71, 0.85, 1.0];

/// Whether 40 phases with Gamma distances of that variation are called periodic.
pub fn gamma_is_periodic(random: &mut Random, cv: f64) -> bool {
    ask(&family::memoryless(random, 40, Distances::Gamma(cv))).is_periodic()
}

/// More phases of the same regular run: no less confidence.
fn law_11(random: &mut Random) -> Vec<Tried> {
    let shape = Shape::any(random, 10);
    let shape = Shape {
        n: 96,
        jitter: shape.jitter.min(0.02),
        requests_per_phase: shape.requests_per_phase.min(20),
        layout: if random.chance(0.5) { Layout::Together } else { Layout::Uneven },
        ..shape
    };
    let trace = shape.make(random);
    let mut last: Option<(usize, Answer)> = None;
    for n in [4, 5, 6, 8, 11, 16, 24, 40, 64, 96] {
        let requests = trace.requests.iter().filter(|request| request.phase < n as u32).copied().collect();
        let answer = ask(&Trace { requests, ..trace.clone() });
        // Confidence in the rhythm: "not periodic" of the first few is none.
        let confidence =
            |answer: &Answer| if answer.is_periodic() { answer.estimate.confidence } else { 0.0 };
        if let Some((fewer, before)) = &last
            && confidence(&answer) < confidence(before) - 0.002
        {
            let why = Err(format!(
                "{:.4} after {fewer} phases, {:.4} after {n}",
                confidence(before),
                confidence(&answer)
            ));
            return vec![judged(
                "more phases, no less confidence",
                &trace,
                "prefixes",
                &[before, &answer],
                why,
            )];
        }
        last = Some((n, answer));
    }
    vec![Tried { part: "more phases, no less confidence", result: Ok(()) }]
}

/// Finer samples, and sums that keep everything: the same answer.
pub fn law_12(trace: &Trace) -> Vec<Tried> {
    let signals = trace.signals();
    let before = ask_with(&signals, &RunConfig::default());
    let mut tried = Vec::new();
    let signal = if before.direction == Some(Direction::Read) { &signals.0 } else { &signals.1 };
    if let Some(window) = signal.span() {
        let rate_hz = automatic_rate_hz(signal, window);
        for factor in [1.7, 3.0] {
            if rate_hz * factor * window.duration_s() > 400_000.0 {
                continue; // as fine as the program itself would ever sample
            }
            let config = RunConfig { rate_hz: Some(rate_hz * factor), ..RunConfig::default() };
            let after = ask_with(&signals, &config);
            let result = same(&before, &after, &SAME, &SAMPLING);
            let what = format!("{factor} times as many samples");
            tried.push(judged("finer sampling", trace, &what, &[&before, &after], result));
        }
    }
    let exact = ask_with(&trace.exact_signals(), &RunConfig::default());
    tried.push(compared("more memory", trace, "summed in parts", &before, &exact, &SAME));
    tried
}

/// `detect` and `categorize` name the same periods of reads and of writes.
pub fn one_engine(trace: &Trace) -> Vec<Tried> {
    let mut observed = Observed::new();
    trace.feed(&mut observed);
    let stated = StatedRun::of(observed.tally(), &JobInfo::default());
    let found = categorize(observed, &JobInfo::default(), &CategoryConfig::default());
    let signals = trace.signals();
    let mut tried = Vec::new();
    for (access, direction, findings) in
        [(Access::Read, Direction::Read, &found.read), (Access::Write, Direction::Write, &found.write)]
    {
        let insignificant =
            iotide_analysis::Category::When(access, iotide_analysis::Temporality::Insignificant);
        if findings.bytes == 0.0 || found.has(insignificant) {
            continue; // MOSAIC looks no further at runs that hardly move a byte
        }
        let answer =
            ask_with(&signals, &RunConfig { direction: Some(direction), stated, ..RunConfig::default() });
        let detected: Vec<f64> = answer.estimate.rhythms.iter().map(|rhythm| rhythm.period_s).collect();
        let labelled: Vec<f64> = findings.periods.iter().map(|period| period.period_s).collect();
        let agree = detected.len() == labelled.len()
            && detected.iter().zip(&labelled).all(|(one, two)| relative_error(*one, *two) < 1e-6);
        let list = |periods: &[f64]| periods.iter().map(|&s| seconds(s)).collect::<Vec<_>>().join(", ");
        let result = if agree {
            Ok(())
        } else {
            Err(format!("detect [{}], categorize [{}]", list(&detected), list(&labelled)))
        };
        tried.push(judged("detect and categorize agree", trace, "as it is", &[&answer], result));
    }
    tried
}

/// Whether a regular run is seen as what it is: periodic, one rhythm, its beat, all its phases.
pub fn is_right(answer: &Answer, regular: &Regular) -> Result<(), String> {
    let rhythm = answer.has_headline(regular.beat_s(), regular.tolerance())?;
    if answer.estimate.rhythms.len() > 1 {
        let beats: Vec<String> =
            answer.estimate.rhythms.iter().map(|rhythm| seconds(rhythm.period_s)).collect();
        return Err(format!("{} where there is one rhythm", beats.join(" and ")));
    }
    counted(rhythm.phases.len(), regular.n, 0)?;
    if rhythm.missed > 0 {
        return Err(format!("{} missed beats where none is", rhythm.missed));
    }
    Ok(())
}

fn counted(found: usize, expected: usize, slack: usize) -> Result<(), String> {
    if found.abs_diff(expected) <= slack { Ok(()) } else { Err(format!("{found} phases, not {expected}")) }
}

fn compared(
    part: &'static str,
    trace: &Trace,
    change: &str,
    before: &Answer,
    after: &Answer,
    scale: &Scale,
) -> Tried {
    judged(part, trace, change, &[before, after], same(before, after, scale, &ROUNDING))
}

fn judged(
    part: &'static str,
    trace: &Trace,
    change: &str,
    answers: &[&Answer],
    result: Result<(), String>,
) -> Tried {
    let result = result.map_err(|why| {
        let answers: String =
            answers.iter().map(|answer| format!("\n        {}", answer.describe())).collect();
        format!("{why}\n      {}; {change}{answers}", trace.family)
    });
    Tried { part, result }
}

/// A regular run for tests of this module and of its neighbours.
#[cfg(test)]
pub fn plain_run(n: usize) -> Trace {
    Shape::plain(10.0, n, 0.1).make(&mut Random::new(1))
}

#[cfg(test)]
mod tests {
    use iotide_analysis::{PeriodEstimate, Phase, Rhythm};

    use super::*;

    /// The right answer for a plain run.
    fn right(trace: &Trace) -> Answer {
        let regular = trace.regular();
        let bytes = trace.bytes() / regular.n as f64;
        let phases: Vec<Phase> = (trace.phases().iter())
            .map(|&(start, end)| Phase { start_s: start as f64 * 1e-9, end_s: end as f64 * 1e-9, bytes })
            .collect();
        let beat_s = regular.beat_s();
        let rhythm = Rhythm {
            period_s: beat_s,
            mean_distance_s: beat_s,
            spread: 0.0,
            missed: 0,
            bytes: trace.bytes(),
            byte_share: 1.0,
            time_share: 1.0,
            depth: 1.0,
            start_s: phases[0].start_s,
            end_s: phases[phases.len() - 1].end_s,
            confidence: 0.99,
            phases: phases.clone(),
        };
        let estimate = PeriodEstimate {
            verdict: Verdict::Periodic,
            period_s: Some(beat_s),
            confidence: 0.99,
            rhythms: vec![rhythm],
            phases,
            ..PeriodEstimate::default()
        };
        Answer { direction: Some(Direction::Write), estimate, error: None }
    }

    #[test]
    fn a_right_answer_is_right_and_wrong_ones_are_caught() {
        let trace = plain_run(12);
        let (regular, answer) = (trace.regular(), right(&trace));
        is_right(&answer, &regular).unwrap();
        consistency::check(&answer, &trace).unwrap();
        let wrong = |change: &dyn Fn(&mut PeriodEstimate)| {
            let mut answer = answer.clone();
            change(&mut answer.estimate);
            is_right(&answer, &regular).unwrap_err()
        };
        assert_eq!(wrong(&|e| e.rhythms[0].period_s = 20.0), "20.000 s where the beat is 10.000 s");
        assert_eq!(wrong(&|e| e.rhythms[0].phases.truncate(11)), "11 phases, not 12");
        assert_eq!(wrong(&|e| e.rhythms[0].missed = 2), "2 missed beats where none is");
        assert_eq!(wrong(&|e| e.verdict = Verdict::Unclear), "no rhythm where the beat is 10.000 s");
        assert_eq!(
            wrong(&|e| e.rhythms.push(Rhythm { period_s: 29.4, ..e.rhythms[0].clone() })),
            "10.000 s and 29.400 s where there is one rhythm"
        );
    }

    #[test]
    fn every_law_has_a_name_for_each_part_that_it_tries() {
        for law in LAWS.iter().filter(|law| law.number != "1b") {
            for i in 0..2 {
                for tried in (law.try_case)(&mut Random::new(i as u64), i) {
                    assert!(
                        law.parts.iter().any(|part| part.0 == tried.part),
                        "{}: {}",
                        law.number,
                        tried.part
                    );
                }
            }
        }
    }

    #[test]
    fn the_sweep_tries_every_number_of_phases() {
        assert_eq!(SWEPT, 1997 + 570);
        let mut combinations: Vec<usize> = (0..COMBINATIONS).map(|i| 7 * i % COMBINATIONS).collect();
        combinations.sort_unstable();
        assert_eq!(combinations, (0..COMBINATIONS).collect::<Vec<_>>());
    }
}
