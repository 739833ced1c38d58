//! Duration of requests, from earlier runs.

use std::collections::BTreeMap;

use iotide_num::median;
use iotide_trace::Op;

use super::RunFacts;
use super::phases::{NO_BYTES, PhaseFacts, Work};

/// The time of a call by kind and size.
///
/// A line `latency + bytes / speed` for each kind, and at the sizes that earlier runs used, what they took there: between two of these the
/// deviation from the line changes evenly with the logarithm of the size, beyond them it stays.
#[derive(Clone, Debug)]
pub(super) struct RequestModel {
    kinds: BTreeMap<Op, Kind>,
}

#[derive(Clone, Debug, Default)]
struct Kind {
    /// The time of a call that moves nothing.
    empty_s: Option<f64>,
    latency_s: f64,
    s_per_byte: f64,
    /// Sizes, ascending, and the measured time over that of the line.
    known: Vec<(f64, f64)>,
}

/// Cost of a size if earlier requests of its kind had one other size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extrapolation {
    /// Each byte costs the same.
    Speed,
    /// Each call costs the same.
    Latency,
}

/// Expected duration of a run's requests.
#[derive(Clone, Debug, Default)]
pub(super) struct Expected {
    /// In all phases.
    pub(super) seconds: f64,
    /// In each phase: that of the rank with most.
    pub(super) phases: Vec<f64>,
    /// The share of it in calls of which the cost is between two extremes.
    pub(super) one_size: f64,
}

/// Sizes nearer to each other than this (as a ratio) cost the same per byte, and nearly the same per call.
const NEAR: f64 = 1.5;

impl RequestModel {
    /// The median over runs of their median times.
    pub(super) fn of(runs: &[&RunFacts]) -> Self {
        let mut classes: BTreeMap<(Op, i32), (Vec<f64>, Vec<f64>)> = BTreeMap::new();
        for class in runs.iter().flat_map(|run| &run.classes) {
            let (sizes, times) = classes.entry((class.op, class.class)).or_default();
            sizes.push(class.bytes);
            times.push(class.seconds);
        }
        let mut points: BTreeMap<Op, Vec<(f64, f64)>> = BTreeMap::new();
        let mut kinds: BTreeMap<Op, Kind> = BTreeMap::new();
        for ((op, class), (sizes, times)) in classes {
            let (Some(bytes), Some(seconds)) = (median(&sizes), median(&times)) else { continue };
            if class == NO_BYTES {
                kinds.entry(op).or_default().empty_s = Some(seconds);
            }
            points.entry(op).or_default().push((bytes, seconds));
        }
        for (op, points) in points {
            kinds.entry(op).or_default().fit(&points);
        }
        Self { kinds }
    }

    /// How long a call takes, and whether that is a guess; `None` for a kind that no earlier run used.
    fn seconds(&self, op: Op, bytes: f64, beyond: Extrapolation) -> Option<(f64, bool)> {
        let kind = self.kinds.get(&op)?;
        if bytes <= 0.0 {
            return Some((kind.empty_s.unwrap_or(kind.latency_s), false));
        }
        let line = |bytes: f64| kind.latency_s + kind.s_per_byte * bytes;
        match kind.known.as_slice() {
            [] => None,
            [(size, _)] if kind.empty_s.is_none() => {
                let is_guess = bytes > size * NEAR || bytes * NEAR < *size;
                let seconds = match beyond {
                    Extrapolation::Latency if is_guess => line(*size),
                    _ => line(bytes),
                };
                Some((seconds, is_guess))
            }
            known => Some((line(bytes) * deviation(known, bytes), false)),
        }
    }

    fn work_seconds(&self, work: &Work, beyond: Extrapolation) -> (f64, bool) {
        match self.seconds(work.op, work.bytes / work.calls, beyond) {
            Some((seconds, is_guess)) => (seconds * work.calls, is_guess),
            // What nobody did before counts with the time that it took: it is the program's own.
            None => (work.seconds, false),
        }
    }

    /// Returns what the requests of a run are expected to take.
    pub(super) fn expect(&self, run: &RunFacts, beyond: Extrapolation) -> Expected {
        let mut expected = Expected::default();
        let mut guessed_s = 0.0;
        for phase in &run.phases {
            let (seconds, guessed) = self.longest_rank(phase, beyond);
            guessed_s += guessed;
            expected.phases.push(seconds);
            expected.seconds += seconds;
        }
        expected.one_size = if expected.seconds > 0.0 { guessed_s / expected.seconds } else { 0.0 };
        expected
    }

    fn longest_rank(&self, phase: &PhaseFacts, beyond: Extrapolation) -> (f64, f64) {
        // A phase in which calls took no time in earlier runs is not a millionth of a second long.
        self.longest(phase, beyond).map_or((1e-9, 0.0), |(_, sum, guessed)| (f64::max(sum, 1e-9), guessed))
    }

    /// The rank with most to do, the seconds that takes, and how many of them are guessed.
    fn longest<'a>(&self, phase: &'a PhaseFacts, beyond: Extrapolation) -> Option<(&'a [Work], f64, f64)> {
        let of_rank = |works: &'a Vec<Work>| {
            works.iter().fold((works.as_slice(), 0.0, 0.0), |(works, sum, guessed), work| {
                let (seconds, is_guess) = self.work_seconds(work, beyond);
                (works, sum + seconds, guessed + if is_guess { seconds } else { 0.0 })
            })
        };
        phase.ranks.iter().map(of_rank).max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Returns what a run did, and what the rank with most is expected to take for each kind of it.
    pub(super) fn sums(&self, run: &RunFacts) -> Sums {
        let mut sums = Sums::default();
        for phase in &run.phases {
            for work in phase.ranks.iter().flatten() {
                match work.op {
                    Op::Read | Op::Write => {
                        sums.bytes += work.bytes;
                        sums.data_calls += work.calls;
                    }
                    Op::Sync => sums.syncs += work.calls,
                    _ => sums.names += work.calls,
                }
            }
            for work in self.longest(phase, Extrapolation::Speed).map_or(&[][..], |(works, ..)| works) {
                let (seconds, _) = self.work_seconds(work, Extrapolation::Speed);
                match work.op {
                    Op::Read | Op::Write => {
                        sums.data_s += seconds;
                        sums.longest_bytes += work.bytes;
                    }
                    Op::Sync => sums.sync_s += seconds,
                    _ => sums.names_s += seconds,
                }
            }
        }
        sums
    }
}

/// Requests of all ranks, and the seconds of the rank with most, phase by phase.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    pub(super) bytes: f64,
    pub(super) data_calls: f64,
    pub(super) syncs: f64,
    pub(super) names: f64,
    pub(super) data_s: f64,
    pub(super) sync_s: f64,
    pub(super) names_s: f64,
    /// The bytes of the rank with most to do.
    pub(super) longest_bytes: f64,
}

impl Kind {
    /// Fits the line by least squares of relative errors, neither of its numbers negative.
    fn fit(&mut self, points: &[(f64, f64)]) {
        let points: Vec<(f64, f64)> = points.iter().copied().filter(|(_, seconds)| *seconds > 0.0).collect();
        let sum = |of: fn(f64, f64) -> f64| points.iter().map(|&(x, t)| of(x, t)).sum::<f64>();
        // Minimises Σ (a/t + b·x/t − 1)².
        let (s11, s12, s22) = (sum(|_, t| 1.0 / t / t), sum(|x, t| x / t / t), sum(|x, t| x * x / t / t));
        let (r1, r2) = (sum(|_, t| 1.0 / t), sum(|x, t| x / t));
        let determinant = s11 * s22 - s12 * s12;
        let (a, b) = if points.len() > 1 && determinant > 1e-9 * s11 * s22 {
            ((r1 * s22 - r2 * s12) / determinant, (r2 * s11 - r1 * s12) / determinant)
        } else {
            (-1.0, 1.0)
        };
        (self.latency_s, self.s_per_byte) = match (a > 0.0, b > 0.0) {
            (true, true) => (a, b),
            (false, true) if s22 > 0.0 => (0.0, r2 / s22),
            _ if s11 > 0.0 => (r1 / s11, 0.0),
            _ => (0.0, 0.0),
        };
        self.known = points
            .iter()
            .filter(|(bytes, _)| *bytes > 0.0)
            .map(|&(bytes, seconds)| (bytes, seconds / (self.latency_s + self.s_per_byte * bytes)))
            .collect();
        self.known.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
}

/// The measured time over that of the line, at a size.
fn deviation(known: &[(f64, f64)], bytes: f64) -> f64 {
    let next = known.partition_point(|(size, _)| *size < bytes);
    match (next.checked_sub(1).map(|before| known[before]), known.get(next)) {
        (Some((_, ratio)), None) => ratio,
        (None, Some((_, ratio))) => *ratio,
        (Some((below, low)), Some((above, high))) => {
            let share = (bytes / below).ln() / (above / below).ln();
            low + (high - low) * if share.is_finite() { share } else { 0.5 }
        }
        (None, None) => 1.0,
    }
}
