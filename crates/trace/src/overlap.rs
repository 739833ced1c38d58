//! Events of many ranks → bandwidth over time.

use std::ops::ControlFlow;

use crate::{AsyncPhases, Event, EventSink, Loss, Op, Span, StepSignal, Tally, Timestamp};

/// Adds up requests that overlap: each contributes `bytes / duration` while it lasts.
///
/// Exact up to [`Overlap::EXACT_REQUESTS`] requests. Beyond that the edges are poured into half a million to a
/// million even bins, so memory stays flat however long the trace; volume is still kept, and times are then known to
/// about a millionth of the run.
///
/// A request of zero length is spread over one nanosecond. Requests need not be sorted.
#[derive(Clone, Debug, Default)]
pub struct Overlap {
    edges: Vec<Edge>,
    bins: Option<Bins>,
    /// From the first request to the last, in nanoseconds: requests that moved nothing count here.
    reach: Option<(i64, i64)>,
}

impl Overlap {
    /// How many requests are kept exactly (16 bytes for each of their two edges: 16 MiB at the most).
    pub const EXACT_REQUESTS: usize = 1 << 19;

    /// Returns an empty sum.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a request that moved `bytes` from `start` to `end`. One that moved nothing still says that the run lasted.
    #[inline]
    pub fn add(&mut self, start: Timestamp, end: Timestamp, bytes: f64) {
        let (start, end) = (start.as_nanos(), end.as_nanos().max(start.as_nanos() + 1));
        self.reach = Some(self.reach.map_or((start, end), |(first, last)| (first.min(start), last.max(end))));
        if bytes <= 0.0 || !bytes.is_finite() {
            return;
        }
        match &mut self.bins {
            Some(bins) => bins.add(start, end, bytes),
            None => {
                let rate_bps = bytes / ((end - start) as f64 * 1e-9);
                self.edges.push(Edge { at: start, rate_bps });
                self.edges.push(Edge { at: end, rate_bps: -rate_bps });
                if self.edges.len() > 2 * Self::EXACT_REQUESTS {
                    self.bins = Some(Bins::from_edges(&self.edges));
                    self.edges = Vec::new();
                }
            }
        }
    }

    /// Returns the bandwidth over time.
    pub fn finish(self) -> StepSignal {
        let signal = match self.bins {
            Some(bins) => bins.finish(),
            None => sweep(self.edges),
        };
        let Some((first, last)) = self.reach else { return signal };
        let (start, end) =
            (Timestamp::from_nanos_since_start(first), Timestamp::from_nanos_since_start(last));
        if signal.span() == Some(Span { start, end }) {
            return signal;
        }
        signal.plus(&StepSignal::new(vec![start, end], vec![0.0, 0.0]))
    }
}

impl EventSink for Overlap {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        if event.op.moves_data() {
            self.add(event.start, event.end, event.bytes);
        }
        ControlFlow::Continue(())
    }
    fn loss(&mut self, _: Loss) {}
}

/// Which way the bytes went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From storage.
    Read,
    /// To storage.
    Write,
    /// Either way.
    Both,
}

/// The bandwidth of reads and of writes, the sums and the losses of one trace: what most questions need of it.
#[derive(Clone, Debug, Default)]
pub struct ReadWrite {
    /// Reads so far.
    pub read: Overlap,
    /// Writes so far.
    pub write: Overlap,
    /// Counts so far.
    pub tally: Tally,
    /// Asynchronous phases so far.
    pub async_phases: AsyncPhases,
    /// What is missing so far.
    pub losses: Vec<Loss>,
}

impl EventSink for ReadWrite {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        self.tally.add(&event);
        match event.op {
            Op::Read => self.read.add(event.start, event.end, event.bytes),
            Op::Write => self.write.add(event.start, event.end, event.bytes),
            _ => {}
        }
        ControlFlow::Continue(())
    }
    fn loss(&mut self, loss: Loss) {
        self.losses.push(loss);
    }
    fn async_event(&mut self, event: Event, waited: Timestamp) -> ControlFlow<()> {
        self.async_phases.add(&event, waited);
        self.event(event)
    }
}

/// A change of bandwidth: up where a request begins, down where it ends.
#[derive(Clone, Copy, Debug)]
struct Edge {
    at: i64,
    rate_bps: f64,
}

/// Walks over the edges in order of time.
fn sweep(mut edges: Vec<Edge>) -> StepSignal {
    // A source tells one rank after the other, each in order of time: such runs are merged, not sorted anew.
    edges.sort_by_key(|edge| edge.at);
    let mut times = Vec::with_capacity(edges.len());
    let mut rates_bps: Vec<f64> = Vec::with_capacity(edges.len());
    let mut n_open = 0i64;
    let mut sum = CompensatedSum::default();
    let mut rest = edges.as_slice();
    while let Some(&Edge { at, .. }) = rest.first() {
        let n_here = rest.iter().take_while(|edge| edge.at == at).count();
        let (here, later) = rest.split_at(n_here);
        for edge in here {
            n_open += if edge.rate_bps > 0.0 { 1 } else { -1 };
            sum.add(edge.rate_bps);
        }
        if n_open == 0 {
            sum = CompensatedSum::default(); // silence is exactly silent
        }
        let rate_bps = sum.value().max(0.0);
        if rates_bps.last() != Some(&rate_bps) || later.is_empty() {
            times.push(Timestamp::from_nanos_since_start(at));
            rates_bps.push(rate_bps);
        }
        rest = later;
    }
    StepSignal::new(times, rates_bps)
}

/// Neumaier's sum: a request of a nanosecond (a rate of 1e15) that comes and goes leaves no dust on the slow ones.
#[derive(Default)]
struct CompensatedSum {
    sum: f64,
    lost: f64,
}

impl CompensatedSum {
    fn add(&mut self, x: f64) {
        let sum = self.sum + x;
        self.lost += if self.sum.abs() >= x.abs() { (self.sum - sum) + x } else { (x - sum) + self.sum };
        self.sum = sum;
    }

    fn value(&self) -> f64 {
        self.sum + self.lost
    }
}

/// Volume on an even grid whose bins double in width whenever the trace outgrows them.
#[derive(Clone, Debug)]
struct Bins {
    /// Time of the first bin's left edge, a multiple of `width`.
    origin: i64,
    /// A power of two, in nanoseconds.
    width: i64,
    /// Bytes that fell into each bin from requests shorter than [`Bins::LONG`] bins and from the ends of longer ones.
    volumes: Vec<f64>,
    /// Where the middle part of a long request begins (+) and ends (−): rate, and how many are open. Empty until there is
    /// one: a trace of short calls has none.
    ramps: Vec<(f64, i32)>,
    first: i64,
    last: i64,
}

impl Bins {
    /// At most this many bins; after a doubling, half as many are in use.
    const MOST: usize = 1 << 20;
    /// Requests over more bins than this go through `ramps`, so that one request costs O(1) whatever its length.
    const LONG: i64 = 8;

    fn from_edges(edges: &[Edge]) -> Self {
        let first = edges.iter().map(|edge| edge.at).min().unwrap_or(0);
        let last = edges.iter().map(|edge| edge.at).max().unwrap_or(1);
        let mut width = 1i64;
        while (last - first) / width >= Self::MOST as i64 / 2 {
            width *= 2;
        }
        let mut bins = Self {
            origin: first.div_euclid(width) * width,
            width,
            volumes: Vec::new(),
            ramps: Vec::new(),
            first,
            last,
        };
        bins.make_room(first, last);
        for pair in edges.chunks_exact(2) {
            let (start, end) = (pair[0].at, pair[1].at);
            bins.add(start, end, pair[0].rate_bps * (end - start) as f64 * 1e-9);
        }
        bins
    }

    fn add(&mut self, start: i64, end: i64, bytes: f64) {
        self.first = self.first.min(start);
        self.last = self.last.max(end);
        self.make_room(start, end);
        let left = ((start - self.origin) / self.width) as usize;
        let right = ((end - 1 - self.origin) / self.width) as usize;
        if left == right {
            self.volumes[left] += bytes;
            return;
        }
        let per_nano = bytes / (end - start) as f64;
        let full = per_nano * self.width as f64;
        self.volumes[left] += per_nano * (self.origin + (left as i64 + 1) * self.width - start) as f64;
        self.volumes[right] += per_nano * (end - self.origin - right as i64 * self.width) as f64;
        if right - left > Self::LONG as usize {
            if self.ramps.is_empty() {
                self.ramps = vec![(0.0, 0); self.volumes.len()];
            }
            self.ramps[left + 1].0 += full;
            self.ramps[left + 1].1 += 1;
            self.ramps[right].0 -= full;
            self.ramps[right].1 -= 1;
        } else {
            for volume in &mut self.volumes[left + 1..right] {
                *volume += full;
            }
        }
    }

    fn make_room(&mut self, start: i64, end: i64) {
        let reach = self.origin + self.volumes.len() as i64 * self.width;
        if start >= self.origin && end <= reach {
            return;
        }
        loop {
            let origin = start.min(self.origin).div_euclid(self.width) * self.width;
            let n_bins = (end.max(reach) - origin).div_euclid(self.width) + 1;
            if n_bins <= Self::MOST as i64 {
                let n_before = ((self.origin - origin) / self.width) as usize;
                if n_before > 0 {
                    self.volumes.splice(0..0, std::iter::repeat_n(0.0, n_before));
                    if !self.ramps.is_empty() {
                        self.ramps.splice(0..0, std::iter::repeat_n((0.0, 0), n_before));
                    }
                    self.origin = origin;
                }
                // Grow in strides, so that a trace in time order does not resize at every request.
                let n_bins = (n_bins as usize).max(self.volumes.len()).next_power_of_two().min(Self::MOST);
                if self.volumes.is_empty() {
                    // Zeroes that the system has at hand, where `resize` would write them.
                    self.volumes = vec![0.0; n_bins];
                }
                self.volumes.resize(n_bins, 0.0);
                if !self.ramps.is_empty() {
                    self.ramps.resize(n_bins, (0.0, 0));
                }
                return;
            }
            self.double_width();
        }
    }

    fn double_width(&mut self) {
        self.flatten();
        let width = self.width * 2;
        let origin = self.origin.div_euclid(width) * width;
        let shift = usize::from(origin != self.origin);
        let mut volumes = vec![0.0; (self.volumes.len() + shift).div_ceil(2)];
        for (i, volume) in self.volumes.iter().enumerate() {
            volumes[(i + shift) / 2] += volume;
        }
        self.ramps = Vec::new();
        (self.volumes, self.width, self.origin) = (volumes, width, origin);
    }

    /// Pours the ramps into the volumes.
    fn flatten(&mut self) {
        let (mut full, mut n_open) = (0.0f64, 0i32);
        for (volume, ramp) in self.volumes.iter_mut().zip(&mut self.ramps) {
            full += ramp.0;
            n_open += ramp.1;
            if n_open == 0 {
                full = 0.0;
            }
            *volume += full.max(0.0);
            *ramp = (0.0, 0);
        }
    }

    fn finish(mut self) -> StepSignal {
        self.flatten();
        let mut times = Vec::with_capacity(self.volumes.len() + 1);
        let mut rates_bps: Vec<f64> = Vec::with_capacity(self.volumes.len() + 1);
        for (i, &volume) in self.volumes.iter().enumerate() {
            // The outermost bins are cut to where the first request began and the last one ended.
            let start = (self.origin + i as i64 * self.width).max(self.first);
            let end = (self.origin + (i as i64 + 1) * self.width).min(self.last);
            if start >= end {
                continue;
            }
            let rate_bps = volume / ((end - start) as f64 * 1e-9);
            if rates_bps.last() != Some(&rate_bps) {
                times.push(Timestamp::from_nanos_since_start(start));
                rates_bps.push(rate_bps);
            }
        }
        times.push(Timestamp::from_nanos_since_start(self.last));
        rates_bps.push(0.0);
        StepSignal::new(times, rates_bps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Rank;
    use proptest::prelude::*;

    /// Requests as "start..end bytes" in seconds, the signal as "time rate" in seconds and bytes per second.
    fn check(requests: &[(f64, f64, f64)], expected: &[(f64, f64)]) {
        let mut overlap = Overlap::new();
        for &(start, end, bytes) in requests {
            let at = |secs| Timestamp::from_secs_since_start(secs).unwrap();
            let _ = overlap.event(Event::data(Op::Write, Rank(0), at(start), at(end), bytes));
        }
        let signal = overlap.finish();
        let found: Vec<_> = signal
            .times()
            .iter()
            .map(|time| time.as_secs())
            .zip(signal.rates_bps().iter().copied())
            .collect();
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
        let at = Timestamp::from_nanos_since_start(7);
        overlap.add(at, at, 4096.0);
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

    fn requests() -> impl Strategy<Value = Vec<(i64, i64, f64)>> {
        let edge = prop_oneof![0..50i64, 0..5_000_000_000i64];
        let length = prop_oneof![0..4i64, 0..1_000_000i64, 0..20_000_000_000i64];
        prop::collection::vec((edge, length, 1.0..1e9f64), 1..60)
    }

    proptest! {
        // Each case folds a million bins.
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn folded_bins_hold_the_same_volume_as_the_exact_sum(requests in requests(), shuffle in 0..7i64) {
            let mut exact = Overlap::new();
            let first = requests[0];
            let edges = [Edge { at: first.0, rate_bps: first.2 / ((first.1.max(1)) as f64 * 1e-9) },
                         Edge { at: first.0 + first.1.max(1), rate_bps: -1.0 }];
            let mut bins = Bins::from_edges(&edges);
            for (i, &(start, length, bytes)) in requests.iter().enumerate() {
                let start = if i % 2 == 0 { start } else { -start * shuffle };
                let (from, to) = (Timestamp::from_nanos_since_start(start), Timestamp::from_nanos_since_start(start + length));
                exact.add(from, to, bytes);
                if i > 0 {
                    bins.add(start, start + length.max(1), bytes);
                }
            }
            let (exact, folded) = (exact.finish(), bins.finish());
            let gap = (exact.volume_bytes() - folded.volume_bytes()).abs() / exact.volume_bytes();
            prop_assert!(gap < 1e-9, "relative gap {gap}");
            prop_assert_eq!(exact.span(), folded.span());
        }
    }
}
