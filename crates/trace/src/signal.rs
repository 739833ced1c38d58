//! Bandwidth over time, in its two forms.

use crate::Timestamp;

/// A stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its beginning.
    pub start: Timestamp,
    /// Its end, not before `start`.
    pub end: Timestamp,
}

impl Span {
    /// Its length in seconds.
    pub fn duration_s(self) -> f64 {
        self.end.secs_since(self.start)
    }
}

/// Bandwidth that changes at given times: exact, as the events had it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StepSignal {
    times: Vec<Timestamp>,
    rates_bps: Vec<f64>,
}

impl StepSignal {
    /// Returns the signal that has `rates_bps[i]` from `times[i]` until `times[i + 1]`, and nothing after the last time.
    ///
    /// # Panics
    /// If the lengths differ or `times` does not ascend strictly.
    pub fn new(times: Vec<Timestamp>, mut rates_bps: Vec<f64>) -> Self {
        assert_eq!(times.len(), rates_bps.len(), "one rate per time");
        assert!(times.windows(2).all(|pair| pair[0] < pair[1]), "times ascend");
        if let Some(last) = rates_bps.last_mut() {
            *last = 0.0;
        }
        Self { times, rates_bps }
    }

    /// The moments at which the bandwidth changes, ascending.
    #[inline]
    pub fn times(&self) -> &[Timestamp] {
        &self.times
    }

    /// The bandwidth from each moment on; the last one is 0.
    #[inline]
    pub fn rates_bps(&self) -> &[f64] {
        &self.rates_bps
    }

    /// From the first change to the last, or `None` if nothing ever happens.
    pub fn span(&self) -> Option<Span> {
        match (self.times.first(), self.times.last()) {
            (Some(&start), Some(&end)) if start < end => Some(Span { start, end }),
            _ => None,
        }
    }

    /// Pieces of constant bandwidth: (start, end, rate), in order.
    pub fn pieces(&self) -> impl Iterator<Item = (Timestamp, Timestamp, f64)> + '_ {
        self.times.windows(2).zip(&self.rates_bps).map(|(pair, &rate)| (pair[0], pair[1], rate))
    }

    /// Returns the sum of two signals, as if their requests had been one.
    pub fn plus(&self, other: &Self) -> Self {
        let mut times: Vec<_> = self.times.iter().chain(&other.times).copied().collect();
        times.sort_unstable();
        times.dedup();
        let (mut i, mut j) = (0, 0);
        let rates_bps = times
            .iter()
            .map(|&time| {
                while i < self.times.len() && self.times[i] <= time {
                    i += 1;
                }
                while j < other.times.len() && other.times[j] <= time {
                    j += 1;
                }
                let rate =
                    |rates: &[f64], n_begun: usize| if n_begun == 0 { 0.0 } else { rates[n_begun - 1] };
                rate(&self.rates_bps, i) + rate(&other.rates_bps, j)
            })
            .collect();
        Self::new(times, rates_bps)
    }

    /// Returns the same signal with silence before and after it, so that it reaches at least from `start` to `end`.
    pub(crate) fn stretched(mut self, start: Timestamp, end: Timestamp) -> Self {
        if start >= end {
            return self;
        }
        if self.times.first().is_none_or(|first| start < *first) {
            self.times.insert(0, start);
            self.rates_bps.insert(0, 0.0);
        }
        if self.times.last().is_some_and(|last| *last < end) {
            self.times.push(end);
            self.rates_bps.push(0.0);
        }
        self
    }

    /// The bytes moved within `window`.
    pub fn volume_in(&self, window: Span) -> f64 {
        self.pieces()
            .map(|(start, end, rate)| rate * end.min(window.end).secs_since(start.max(window.start)).max(0.0))
            .sum()
    }

    /// The time in which bytes move.
    pub fn busy_s(&self) -> f64 {
        let busy = self.pieces().filter(|(_, _, rate)| *rate > 0.0);
        busy.map(|(start, end, _)| end.secs_since(start)).sum()
    }

    /// All bytes moved.
    pub fn volume_bytes(&self) -> f64 {
        self.pieces().map(|(start, end, rate)| rate * end.secs_since(start)).sum()
    }
}

/// Bandwidth on an even grid: value `i` belongs to the time from `start_s + i / rate_hz` until the next.
#[derive(Clone, Debug, PartialEq)]
pub struct SampledSignal {
    /// When the first sample begins, on the trace's clock.
    pub start_s: f64,
    /// Samples per second.
    pub rate_hz: f64,
    /// Bytes per second.
    pub values: Vec<f64>,
    /// How much time was sampled. The last bin may reach beyond it.
    pub duration_s: f64,
}

impl SampledSignal {
    /// All bytes moved.
    pub fn volume_bytes(&self) -> f64 {
        self.values.iter().sum::<f64>() / self.rate_hz
    }

    /// How many bins lie wholly within the sampled time: `floor(duration · rate)`, the N of the paper.
    pub fn n_whole(&self) -> usize {
        // A duration of 28.9 s at 10 Hz is 289 samples, whatever the last digit of the product says.
        ((self.duration_s * self.rate_hz + 1e-6).floor() as usize).min(self.values.len())
    }

    /// The time at which sample `i` begins.
    pub fn time_s(&self, i: usize) -> f64 {
        self.start_s + i as f64 / self.rate_hz
    }

    /// When the sampled time ends.
    pub fn end_s(&self) -> f64 {
        self.start_s + self.duration_s
    }
}
