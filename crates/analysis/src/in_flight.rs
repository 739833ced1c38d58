//! How many requests were in flight in a trace, and how many were done meanwhile: what a ladder measures, as far as a run shows it.
//!
//! A request is taken to get on evenly while it lasts, so that ranks in step, whose requests all end at once, count as much as any others. Of time in which requests of
//! different sizes are in flight nothing is told.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use iotide_trace::{AccessFacts, Event, EventSink, Grain, Loss, TimeSpent, Timestamp};

/// More calls than these of a run say the same.
const MOST_CALLS: usize = 4_000_000;
/// Beyond so many in flight, numbers that lie near each other are one.
const EXACT: u64 = 8;
/// So many of them until the number has doubled.
const STEPS_AN_OCTAVE: f64 = 4.0;
/// Less than this share of the time tells of beginnings and ends of bursts.
const LEAST_SHARE: f64 = 1e-3;

/// Collects the calls of a run that move data.
#[derive(Clone, Debug, Default)]
pub struct InFlight {
    calls: Vec<(i64, i64, f64)>,
}

/// Requests that were in flight at once, and how many of them were done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overlap {
    /// Requests in flight.
    pub n: u64,
    /// Size of each.
    pub request_bytes: f64,
    /// For how long.
    pub seconds: f64,
    /// How many were done.
    pub completions: f64,
}

/// Sums over the time in which a given number of requests of about one size was in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Seen {
    seconds: f64,
    /// Requests times seconds.
    request_s: f64,
    completions: f64,
    bytes: f64,
}

/// By size (logarithm to base 2) and number in flight, as [`step_of`] counts it.
#[derive(Clone, Debug, Default)]
pub struct Overlaps(BTreeMap<(i32, u64), Seen>);

impl EventSink for InFlight {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        if self.calls.len() >= MOST_CALLS {
            return ControlFlow::Break(());
        }
        let (start_ns, end_ns) = (event.start.as_nanos(), event.end.as_nanos());
        let is_call = event.grain == Grain::Call && event.calls == 1 && event.op.moves_data();
        // What takes less than the clock can tell says nothing of speed.
        if is_call && end_ns > start_ns && event.bytes > 0.0 && event.bytes.is_finite() {
            self.calls.push((start_ns, end_ns, event.bytes));
        }
        ControlFlow::Continue(())
    }

    /// Counts an asynchronous operation as in flight until it is done.
    fn async_event(&mut self, event: Event, _: Timestamp) -> ControlFlow<()> {
        self.event(event)
    }

    fn time_spent(&mut self, _: TimeSpent) {}
    fn access_facts(&mut self, _: &AccessFacts) {}
    fn loss(&mut self, _: Loss) {}
}

impl InFlight {
    /// Goes through the calls in time.
    pub fn finish(self) -> Overlaps {
        let calls = self.calls;
        // Ends before beginnings: who goes on at once with another request has as many in flight as before.
        let mut edges: Vec<(i64, bool, usize)> = Vec::with_capacity(2 * calls.len());
        for (i, (start_ns, end_ns, _)) in calls.iter().enumerate() {
            edges.extend([(*start_ns, true, i), (*end_ns, false, i)]);
        }
        edges.sort_unstable();
        let mut overlaps = Overlaps::default();
        let mut sizes: BTreeMap<i32, u64> = BTreeMap::new();
        // Requests, and bytes, that get done in a second by those in flight.
        let (mut per_s, mut bps, mut n) = (0.0, 0.0, 0u64);
        let mut since_ns = 0;
        for (at_ns, is_begin, i) in edges {
            let passed_s = at_ns.saturating_sub(since_ns) as f64 / 1e9;
            if let (Some((size, _)), 1, true) = (sizes.first_key_value(), sizes.len(), passed_s > 0.0) {
                let seen = overlaps.0.entry((*size, step_of(n))).or_default();
                seen.seconds += passed_s;
                seen.request_s += passed_s * n as f64;
                seen.completions += passed_s * per_s;
                seen.bytes += passed_s * bps;
            }
            since_ns = at_ns;
            let (start_ns, end_ns, bytes) = calls[i];
            let own_per_s = 1e9 / end_ns.saturating_sub(start_ns) as f64;
            let size = bytes.log2().round() as i32;
            if is_begin {
                n += 1;
                per_s += own_per_s;
                bps += own_per_s * bytes;
                *sizes.entry(size).or_default() += 1;
                continue;
            }
            n -= 1;
            per_s -= own_per_s;
            bps -= own_per_s * bytes;
            let left = sizes.get(&size).map_or(0, |left| left - 1);
            if left == 0 {
                sizes.remove(&size);
            } else {
                sizes.insert(size, left);
            }
            if n == 0 {
                // So that roundings do not gather.
                (per_s, bps) = (0.0, 0.0);
            }
        }
        overlaps
    }
}

impl Overlaps {
    /// Those of another run, too, which had the storage to itself.
    pub fn add(&mut self, other: &Self) {
        for (key, seen) in &other.0 {
            let sum = self.0.entry(*key).or_default();
            sum.seconds += seen.seconds;
            sum.request_s += seen.request_s;
            sum.completions += seen.completions;
            sum.bytes += seen.bytes;
        }
    }

    /// Returns the cells that a ladder would list.
    pub fn cells(&self) -> Vec<Overlap> {
        let all_s: f64 = self.0.values().map(|seen| seen.seconds).sum();
        (self.0.values())
            .filter(|seen| seen.seconds >= LEAST_SHARE * all_s && seen.completions >= 1.0)
            .map(|seen| Overlap {
                n: (seen.request_s / seen.seconds).round().max(1.0) as u64,
                request_bytes: seen.bytes / seen.completions,
                seconds: seen.seconds,
                completions: seen.completions,
            })
            .collect()
    }
}

/// Where a number in flight belongs: itself, or among those a few percent around it.
fn step_of(n: u64) -> u64 {
    if n <= EXACT { n } else { EXACT + (STEPS_AN_OCTAVE * (n as f64 / EXACT as f64).log2()).ceil() as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_trace::{Op, Rank};

    /// Calls of rank, begin and end in seconds, and bytes.
    fn overlaps(calls: &[(i32, f64, f64, f64)]) -> Overlaps {
        let mut sink = InFlight::default();
        let at = |at_s: f64| Timestamp::from_secs_since_start(at_s).unwrap();
        for &(rank, start_s, end_s, bytes) in calls {
            let _ = sink.event(Event::data(Op::Write, Rank(rank), at(start_s), at(end_s), bytes));
        }
        sink.finish()
    }

    #[test]
    fn ranks_in_step_count_as_many_requests_as_they_make() {
        // Four at once, each for 10 ms, all of which end within a microsecond.
        let calls: Vec<_> = (0..400)
            .map(|i| {
                let start_s = f64::from(i / 4) * 0.02;
                (i % 4, start_s, start_s + 0.01 + 1e-7 * f64::from(i % 4), 1e6)
            })
            .collect();
        let cells = overlaps(&calls).cells();
        let [cell] = cells.as_slice() else { panic!("{cells:?}") };
        assert_eq!(cell.n, 4);
        assert!((cell.completions / cell.seconds - 400.0).abs() < 1.0, "{cell:?}");
        assert!((cell.request_bytes - 1e6).abs() < 1.0, "{cell:?}");
    }

    #[test]
    fn every_request_and_every_second_is_counted_once() {
        let mut random = iotide_num::SplitMix64::new(5);
        let calls: Vec<_> = (0..500)
            .map(|i| {
                let start_s = 10.0 * random.unit();
                (i, start_s, start_s + 0.01 + random.unit(), 1e6 * (1.0 + 0.2 * random.unit()))
            })
            .collect();
        let Overlaps(seen) = overlaps(&calls);
        let sum = |of: fn(&Seen) -> f64| seen.values().map(of).sum::<f64>();
        assert!((sum(|seen| seen.completions) - 500.0).abs() < 1e-6);
        let request_s: f64 = calls.iter().map(|(_, start_s, end_s, _)| end_s - start_s).sum();
        assert!((sum(|seen| seen.request_s) - request_s).abs() < 1e-6);
        let bytes: f64 = calls.iter().map(|call| call.3).sum();
        assert!((sum(|seen| seen.bytes) / bytes - 1.0).abs() < 1e-9);
        // The order of the calls says nothing.
        let backwards: Vec<_> = calls.iter().rev().copied().collect();
        assert_eq!(overlaps(&backwards).cells().len(), overlaps(&calls).cells().len());
    }

    #[test]
    fn small_requests_beside_large_ones_tell_nothing() {
        let mixed = overlaps(&[(0, 0.0, 1.0, 1e6), (1, 0.0, 1.0, 1e3)]);
        assert!(mixed.cells().is_empty());
        // Nor does what took no time, or moved nothing.
        assert!(overlaps(&[(0, 1.0, 1.0, 1e6), (0, 2.0, 3.0, 0.0)]).cells().is_empty());
        assert_eq!([1, 8, 9, 64, 65].map(step_of), [1, 8, 9, 20, 21]);
    }
}
