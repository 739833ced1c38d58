//! Requests with their own times → the exact sum of their bandwidths.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::{StepSignal, Timestamp};

/// Requests as they were, 16 bytes for each of the usual ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    usual: Vec<Usual>,
    /// Those that last or move more than `Usual` can hold, or no whole number of bytes.
    wide: Vec<Wide>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Usual {
    start: i64,
    nanos: u32,
    bytes: u32,
}

/// `bytes` are positive, so their bits are in the order of their values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Wide {
    start: i64,
    end: i64,
    bytes_bits: u64,
}

impl Requests {
    #[inline]
    pub(super) fn push(&mut self, start: i64, end: i64, bytes: f64) {
        let whole = bytes as u32;
        match u32::try_from(end - start) {
            Ok(nanos) if f64::from(whole) == bytes => {
                self.usual.push(Usual { start, nanos, bytes: whole });
            }
            _ => self.wide.push(Wide { start, end, bytes_bits: bytes.to_bits() }),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.usual.len() + self.wide.len()
    }

    /// Calls `take` with the start, the end and the bytes of each, in no particular order.
    pub(super) fn for_each(&self, mut take: impl FnMut(i64, i64, f64)) {
        for &Usual { start, nanos, bytes } in &self.usual {
            take(start, start + i64::from(nanos), f64::from(bytes));
        }
        for &Wide { start, end, bytes_bits } in &self.wide {
            take(start, end, f64::from_bits(bytes_bits));
        }
    }

    /// Walks over the requests in order of time.
    ///
    /// Requests with the same start are taken in the order of their other fields, and so are those with the same end: the
    /// sums are the same to the last bit, whatever the order in which the requests came.
    pub(super) fn sweep(mut self) -> StepSignal {
        // A source lists one rank after the other, each in order of time: such runs are merged, not sorted anew.
        self.usual.sort();
        self.wide.sort();
        let mut steps = Steps::with_capacity(2 * self.len());
        let mut starts = InOrder { usual: &self.usual, wide: &self.wide };
        let mut next = starts.next();
        while let Some((at, end, rate_bps)) = next {
            steps.end_until(at);
            steps.begin(end, rate_bps);
            next = starts.next();
            while let Some((_, end, rate_bps)) = next.filter(|(start, ..)| *start == at) {
                steps.begin(end, rate_bps);
                next = starts.next();
            }
            steps.mark(at);
        }
        steps.end_until(i64::MAX);
        steps.finish()
    }
}

/// The requests of two sorted lists as (start, end, rate), ascending.
struct InOrder<'a> {
    usual: &'a [Usual],
    wide: &'a [Wide],
}

impl Iterator for InOrder<'_> {
    type Item = (i64, i64, f64);

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (start, end, bytes) = match (self.usual.first(), self.wide.first()) {
            (Some(usual), wide) if wide.is_none_or(|wide| usual.start <= wide.start) => {
                self.usual = &self.usual[1..];
                (usual.start, usual.start + i64::from(usual.nanos), f64::from(usual.bytes))
            }
            (_, Some(wide)) => {
                self.wide = &self.wide[1..];
                (wide.start, wide.end, f64::from_bits(wide.bytes_bits))
            }
            _ => return None,
        };
        Some((start, end, bytes / ((end - start) as f64 * 1e-9)))
    }
}

/// The signal while it is written, and the requests that are open at its end.
struct Steps {
    times: Vec<Timestamp>,
    rates_bps: Vec<f64>,
    /// When each open request ends, and the bits of its rate.
    open: BinaryHeap<Reverse<(i64, u64)>>,
    sum: CompensatedSum,
}

impl Steps {
    fn with_capacity(n: usize) -> Self {
        Self {
            times: Vec::with_capacity(n),
            rates_bps: Vec::with_capacity(n),
            open: BinaryHeap::new(),
            sum: CompensatedSum::default(),
        }
    }

    #[inline]
    fn begin(&mut self, end: i64, rate_bps: f64) {
        self.open.push(Reverse((end, rate_bps.to_bits())));
        self.sum.add(rate_bps);
    }

    /// Ends all requests that end by `until`. Those that end then leave the step of that time to be marked.
    #[inline]
    fn end_until(&mut self, until: i64) {
        while let Some(&Reverse((at, _))) = self.open.peek().filter(|Reverse((at, _))| *at <= until) {
            while let Some(&Reverse((_, rate_bits))) = self.open.peek().filter(|Reverse((end, _))| *end == at)
            {
                self.sum.add(-f64::from_bits(rate_bits));
                self.open.pop();
            }
            if self.open.is_empty() {
                self.sum = CompensatedSum::default(); // silence is exactly silent
            }
            if at < until {
                self.mark(at);
            }
        }
    }

    /// Notes the bandwidth from `at` on.
    #[inline]
    fn mark(&mut self, at: i64) {
        let rate_bps = self.sum.value().max(0.0);
        if self.rates_bps.last() != Some(&rate_bps) {
            self.times.push(Timestamp::from_nanos_since_start(at));
            self.rates_bps.push(rate_bps);
        }
    }

    /// The last mark was silence, unless nothing was ever marked.
    fn finish(self) -> StepSignal {
        StepSignal::new(self.times, self.rates_bps)
    }
}

/// Neumaier's sum: a request of a nanosecond (a rate of 1e15) that comes and goes leaves no dust on the slow ones.
#[derive(Default)]
pub(super) struct CompensatedSum {
    sum: f64,
    lost: f64,
}

impl CompensatedSum {
    #[inline]
    pub(super) fn add(&mut self, x: f64) {
        let sum = self.sum + x;
        self.lost += if self.sum.abs() >= x.abs() { (self.sum - sum) + x } else { (x - sum) + self.sum };
        self.sum = sum;
    }

    #[inline]
    pub(super) fn value(&self) -> f64 {
        self.sum + self.lost
    }
}
