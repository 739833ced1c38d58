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
        sort(&mut self.usual);
        self.wide.sort(); // few, or a source of long ones, which lists one rank after the other: runs to be merged
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
    open: Open,
    sum: CompensatedSum,
}

impl Steps {
    fn with_capacity(n: usize) -> Self {
        Self {
            times: Vec::with_capacity(n),
            rates_bps: Vec::with_capacity(n),
            open: Open::default(),
            sum: CompensatedSum::default(),
        }
    }

    #[inline]
    fn begin(&mut self, end: i64, rate_bps: f64) {
        self.open.push((end, rate_bps.to_bits()));
        self.sum.add(rate_bps);
    }

    /// Ends all requests that end by `until`. Those that end then leave the step of that time to be marked.
    #[inline]
    fn end_until(&mut self, until: i64) {
        while let Some((at, _)) = self.open.first().filter(|(at, _)| *at <= until) {
            while let Some((_, rate_bits)) = self.open.first().filter(|(end, _)| *end == at) {
                self.sum.add(-f64::from_bits(rate_bits));
                self.open.pop();
            }
            if self.open.first().is_none() {
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

/// When each open request ends, and the bits of its rate; the earliest can be taken out.
///
/// Requests that are open at once mostly end in the order in which they began, so a list in order is the cheapest as long as
/// it is short; what does not fit goes into a heap.
#[derive(Default)]
struct Open {
    /// Ascending from `head` on.
    list: Vec<(i64, u64)>,
    head: usize,
    heap: BinaryHeap<Reverse<(i64, u64)>>,
}

impl Open {
    const LONGEST_LIST: usize = 512;
    /// So many that were taken out are worth moving the rest.
    const LONGEST_HEAD: usize = 4096;

    #[inline]
    fn push(&mut self, entry: (i64, u64)) {
        let list = &self.list[self.head..];
        if list.len() >= Self::LONGEST_LIST {
            self.heap.push(Reverse(entry));
        } else if list.last().is_none_or(|last| *last <= entry) {
            self.list.push(entry);
        } else {
            let place = self.head + list.partition_point(|known| *known <= entry);
            self.list.insert(place, entry);
        }
    }

    #[inline]
    fn first(&self) -> Option<(i64, u64)> {
        match (self.list.get(self.head), self.heap.peek()) {
            (Some(one), Some(Reverse(other))) => Some(*one.min(other)),
            (one, other) => one.or(other.map(|Reverse(entry)| entry)).copied(),
        }
    }

    #[inline]
    fn pop(&mut self) {
        let is_in_list = match (self.list.get(self.head), self.heap.peek()) {
            (Some(one), Some(Reverse(other))) => one <= other,
            (one, _) => one.is_some(),
        };
        if !is_in_list {
            self.heap.pop();
            return;
        }
        self.head += 1;
        if self.head == self.list.len() || self.head >= Self::LONGEST_HEAD {
            self.list.drain(..self.head);
            self.head = 0;
        }
    }
}

/// Sorts by start, then by the other fields.
///
/// By digits (radix sort), as nanoseconds of a run are numbers of some forty bits: a third of the work of comparing.
fn sort(requests: &mut Vec<Usual>) {
    const DIGIT_BITS: u32 = 11;
    const N_DIGITS: usize = 1 << DIGIT_BITS;
    if requests.is_sorted() {
        return;
    }
    let first = requests.iter().map(|request| request.start).min().unwrap_or(0);
    let last = requests.iter().map(|request| request.start).max().unwrap_or(0);
    let n_passes = (u64::BITS - ((last - first) as u64).leading_zeros()).div_ceil(DIGIT_BITS);
    if requests.len() < 8 * N_DIGITS {
        requests.sort_unstable();
        return;
    }
    let mut sorted = vec![Usual { start: 0, nanos: 0, bytes: 0 }; requests.len()];
    for pass in 0..n_passes {
        let digit = |request: &Usual| {
            ((request.start - first) as u64 >> (pass * DIGIT_BITS)) as usize & (N_DIGITS - 1)
        };
        let mut places = [0usize; N_DIGITS];
        for request in requests.iter() {
            places[digit(request)] += 1;
        }
        let mut n_before = 0;
        for place in &mut places {
            n_before += std::mem::replace(place, n_before);
        }
        for request in requests.iter() {
            let place = &mut places[digit(request)];
            sorted[*place] = *request;
            *place += 1;
        }
        std::mem::swap(requests, &mut sorted);
    }
    for same in requests.chunk_by_mut(|one, other| one.start == other.start) {
        if same.len() > 1 {
            same.sort_unstable();
        }
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
