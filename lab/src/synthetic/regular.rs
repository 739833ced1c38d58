//! Runs whose phases follow one beat: the traces for laws that presuppose a rhythm.

use iotide_trace::Op;

use super::random::Random;
use super::trace::{Regular, Request, Trace, Truth};

/// How a regular run is to be.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The beat in nanoseconds.
    pub beat: i64,
    /// How many phases.
    pub n: usize,
    /// The share of the beat that a phase lasts.
    pub duty: f64,
    pub n_ranks: i32,
    /// Requests of all ranks together.
    pub requests_per_phase: usize,
    /// Standard deviation of the starts (over the beat) around the beat, or of the distances if `drifts`.
    pub jitter: f64,
    /// Whether a late phase makes all later ones late.
    pub drifts: bool,
    pub layout: Layout,
    pub op: Op,
}

/// How the requests of a phase lie.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Layout {
    /// All ranks together, each back to back.
    Together,
    /// One rank (and file) after the other, with short breaks.
    InSequence,
    /// All ranks, each begins a little later than the first.
    Desynchronised,
    /// All ranks together, requests of uneven lengths.
    Uneven,
    /// Phases that grow in volume and length over the run, up to three times.
    Growing,
    /// Phases that shrink.
    Shrinking,
}

/// No request is shorter than this: a thousand ticks of the clock, so that rounding is below a thousandth of it.
pub const SHORTEST_REQUEST: i64 = 1000;

/// Most requests of one trace; the laws ask thousands of questions.
const MOST_REQUESTS: usize = 6000;

impl Shape {
    /// Any regular run: beats of 1 ms to 1 h, 0.1 % to 60 % busy, 1 to 64 ranks, 1 to 500 requests a phase, and starts
    /// that are off by up to 10 %.
    ///
    /// The more the starts are off, the more phases there are: a rhythm of four uneven phases is none that anyone could
    /// swear to.
    pub fn any(random: &mut Random, fewest: usize) -> Self {
        let jitter = *random.pick(&[0.0, 0.0, 0.0, 0.005, 0.02, 0.05, 0.1]);
        let fewest = fewest.max(6 + (200.0 * jitter) as usize);
        let n = if random.chance(0.3) { fewest + random.whole(0, 4) } else { fewest + random.whole(0, 50) };
        // Starts that are off by 10 % must not let phases touch.
        let most_busy: f64 = 0.6 - 3.0 * jitter;
        let beat = log_uniform(random, 1e6, 3.6e12);
        // The smallest phase of a growing run is a third of the largest, and must still hold a request.
        let duty = log_uniform(random, (4.0 * SHORTEST_REQUEST as f64 / beat).max(0.001), most_busy);
        let layout = *random.pick(&[
            Layout::Together,
            Layout::Together,
            Layout::InSequence,
            Layout::Desynchronised,
            Layout::Uneven,
            Layout::Growing,
            Layout::Shrinking,
        ]);
        let n_ranks = *random.pick(&[1, 1, 2, 4, 8, 16, 64]);
        let requests_per_phase = (log_uniform(random, 1.0, 500.9) as usize).min((MOST_REQUESTS / n).max(1));
        Self {
            beat: beat as i64,
            n,
            duty,
            n_ranks,
            requests_per_phase,
            jitter,
            drifts: random.chance(0.3),
            layout,
            op: *random.pick(&[Op::Write, Op::Write, Op::Write, Op::Read]),
        }
    }

    /// The plainest run there is: one rank, one request a phase, no deviation at all.
    pub fn plain(beat_s: f64, n: usize, duty: f64) -> Self {
        Self {
            beat: (beat_s * 1e9) as i64,
            n,
            duty,
            n_ranks: 1,
            requests_per_phase: 1,
            jitter: 0.0,
            drifts: false,
            layout: Layout::Together,
            op: Op::Write,
        }
    }

    pub fn describe(&self) -> String {
        let Self { n, duty, n_ranks, requests_per_phase, jitter, layout, .. } = self;
        let beat_s = self.beat as f64 * 1e-9;
        let drifts = if self.drifts { ", drifting" } else { "" };
        format!(
            "regular ({layout:?}, {n} phases every {beat_s:.6} s, {:.2} % busy, {n_ranks} ranks, {requests_per_phase} \
             requests a phase, jitter {jitter}{drifts})",
            100.0 * duty
        )
    }

    /// Makes the run.
    pub fn make(&self, random: &mut Random) -> Trace {
        let beat = self.beat as f64;
        let mut starts = Vec::with_capacity(self.n);
        let mut at = 0.0;
        // Bounded to two deviations: a single one of 40 % would be another law's business (a beat left out).
        let deviation = |random: &mut Random| {
            random.normal(0.0, self.jitter).clamp(-2.0 * self.jitter, 2.0 * self.jitter)
        };
        let offset = random.uniform(0.0, 3.0) * beat;
        for i in 0..self.n {
            if self.drifts {
                starts.push((offset + at) as i64);
                at += beat * (1.0 + deviation(random));
            } else {
                starts.push((offset + beat * (1.0 + i as f64 + deviation(random))) as i64);
            }
        }
        let mut requests = Vec::with_capacity(self.n * self.requests_per_phase);
        let volume = 10f64.powf(random.uniform(4.0, 11.0));
        for (i, &start) in starts.iter().enumerate() {
            let progress = i as f64 / (self.n - 1).max(1) as f64;
            let size = match self.layout {
                Layout::Growing => (1.0 + 2.0 * progress) / 3.0,
                Layout::Shrinking => (3.0 - 2.0 * progress) / 3.0,
                _ => 1.0,
            };
            let length = (self.duty * beat * size) as i64;
            self.phase(random, &mut requests, i as u32, start, length, volume * size);
        }
        // The grid's deviations are independent, so that a distance has those of its two ends.
        let spread = if self.drifts { self.jitter } else { self.jitter * std::f64::consts::SQRT_2 };
        let truth = Truth::Regular(Regular { beat: self.beat, n: self.n, spread, duty: self.duty });
        Trace { family: self.describe(), requests, truth }
    }

    fn phase(
        &self,
        random: &mut Random,
        requests: &mut Vec<Request>,
        phase: u32,
        start: i64,
        length: i64,
        bytes: f64,
    ) {
        let n_ranks = (self.n_ranks as usize).min(self.requests_per_phase).max(1);
        let in_sequence = self.layout == Layout::InSequence;
        let lanes = if in_sequence { 1 } else { n_ranks };
        // At most so many back to back that none is too short.
        let most = (length / SHORTEST_REQUEST / 4).max(1) as usize;
        let per_lane = (self.requests_per_phase / lanes).clamp(1, most);
        let bytes = bytes / (lanes * per_lane) as f64;
        for lane in 0..lanes {
            let late = match self.layout {
                Layout::Desynchronised if lane > 0 => (random.unit() * 0.3 * length as f64) as i64,
                _ => 0,
            };
            let length = (length - late) as f64;
            let weights: Vec<f64> = (0..per_lane)
                .map(|_| if self.layout == Layout::Uneven { random.uniform(0.5, 1.5) } else { 1.0 })
                .collect();
            let total: f64 = weights.iter().sum();
            let mut at = (start + late) as f64;
            for (i, weight) in weights.iter().enumerate() {
                let slot = length * weight / total;
                // Breaks within a phase are at most a tenth of the gap to the next phase.
                let gap = (self.beat as f64 * (1.0 - self.duty)).max(0.0);
                let pause = if in_sequence && per_lane > 1 { (0.2 * slot).min(0.1 * gap) } else { 0.0 };
                let rank = if in_sequence { i * n_ranks / per_lane } else { lane };
                let (start, end) = (at as i64, (at + slot - pause) as i64);
                let end = end.max(start + SHORTEST_REQUEST.min(length as i64).max(1));
                requests.push(Request {
                    rank: rank as i32,
                    file: rank as u32,
                    op: self.op,
                    start,
                    end,
                    bytes,
                    phase,
                });
                at += slot;
            }
        }
    }
}

/// Even in the logarithm.
pub fn log_uniform(random: &mut Random, low: f64, high: f64) -> f64 {
    random.uniform(low.ln(), high.ln()).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_regular_run_is_what_its_shape_says() {
        for seed in 0..300 {
            let mut random = Random::new(seed);
            let shape = Shape::any(&mut random, 4);
            let trace = shape.make(&mut random);
            let phases = trace.phases();
            assert_eq!(phases.len(), shape.n, "{}", trace.family);
            let distances: Vec<f64> =
                phases.windows(2).map(|pair| (pair[1].0 - pair[0].0) as f64 / shape.beat as f64).collect();
            let mean = distances.iter().sum::<f64>() / distances.len() as f64;
            let regular = trace.regular();
            assert!((mean - 1.0).abs() < regular.tolerance(), "{}: mean {mean}", trace.family);
            assert!(phases.windows(2).all(|pair| pair[0].1 < pair[1].0), "phases touch: {}", trace.family);
            assert!(
                trace.requests.iter().all(|request| request.end - request.start >= 1000),
                "{}",
                trace.family
            );
        }
    }

    #[test]
    fn the_same_seed_makes_the_same_run() {
        let make = |seed| {
            let mut random = Random::new(seed);
            Shape::any(&mut random, 4).make(&mut random).requests
        };
        assert_eq!(make(7), make(7));
        assert_ne!(make(7), make(8));
    }
}
