//! Data of a trace that labels need, collected in one pass and in flat memory.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use iotide_trace::{Event, EventSink, Loss, Op, Overlap, Rank, Tally, Timestamp};

/// Collects what [`crate::categorize`] needs of a run while its trace streams past.
///
/// Bytes go into an [`Overlap`] for each direction, requests on names into seconds. Memory has a limit, whatever the
/// trace: see [`Overlap::EXACT_REQUESTS`] and [`Observed::MOST_SECONDS`]. The order of events means nothing as long as
/// those limits are not reached.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    pub(super) reads: Overlap,
    pub(super) writes: Overlap,
    pub(super) requests: Requests,
    pub(super) tally: Tally,
    pub(super) faults: Faults,
}

/// Faults of a trace, with an example of each.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Faults {
    /// Events that moved less than nothing.
    pub negative: u64,
    /// Events that ended before they began.
    pub backward: u64,
    /// Data that the source itself reports as missing or invalid; the first few.
    pub losses: Vec<Loss>,
}

impl Observed {
    /// How many seconds with metadata requests are told apart; beyond that the quietest are kept as a sum.
    pub const MOST_SECONDS: usize = 1 << 16;
    /// How many requests are kept with their own intervals until the number of ranks is known.
    pub const MOST_REQUESTS: usize = 1 << 15;
    const MOST_LOSSES: usize = 16;

    /// Returns what is seen before anything happens.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }
}

impl EventSink for Observed {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        self.faults.negative += u64::from(event.bytes < 0.0);
        self.faults.backward += u64::from(event.end < event.start);
        self.tally.add(&event);
        match event.op {
            Op::Read => self.reads.add(event.start, event.end, event.bytes),
            Op::Write => self.writes.add(event.start, event.end, event.bytes),
            Op::Open | Op::Close | Op::Seek => self.requests.add(&event),
            Op::Stat | Op::Sync | Op::Other => {}
        }
        ControlFlow::Continue(())
    }

    fn loss(&mut self, loss: Loss) {
        if self.faults.losses.len() < Self::MOST_LOSSES {
            self.faults.losses.push(loss);
        } else if loss.cut && !self.faults.losses.iter().any(|known| known.cut) {
            // The one that must not be missed.
            self.faults.losses.pop();
            self.faults.losses.push(loss);
        }
    }

    fn async_event(&mut self, event: Event, _: iotide_trace::Timestamp) -> ControlFlow<()> {
        self.event(event)
    }

    fn time_spent(&mut self, _: iotide_trace::TimeSpent) {}

    fn access_facts(&mut self, _: &iotide_trace::AccessFacts) {}
}

/// Opens, seeks and closes.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    recent: Vec<Request>,
    /// Requests that `recent` no longer holds, by the second they fall into.
    folded: Seconds,
    folded_plainly: Seconds,
    pub opens: f64,
    pub seeks: f64,
    pub closes: f64,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    op: Op,
    start: Timestamp,
    end: Timestamp,
    calls: u32,
    /// Whether it stands for all ranks.
    shared: bool,
}

impl Requests {
    fn add(&mut self, event: &Event) {
        let calls = f64::from(event.calls);
        match event.op {
            Op::Open => self.opens += calls,
            Op::Seek => self.seeks += calls,
            _ => self.closes += calls,
        }
        self.recent.push(Request {
            op: event.op,
            start: event.start,
            end: event.end.max(event.start),
            calls: event.calls,
            shared: event.rank == Rank::ALL,
        });
        if self.recent.len() >= Observed::MOST_REQUESTS {
            // So many requests come from a trace of single calls, which names its ranks and its closes.
            let closes_told = self.closes > 0.0;
            for request in std::mem::take(&mut self.recent) {
                request.pour(&mut self.folded, 1.0, closes_told, true);
                request.pour(&mut self.folded_plainly, 1.0, closes_told, false);
            }
        }
    }

    /// All requests, and the closes that a source without closes implies.
    pub(super) fn total(&self) -> f64 {
        self.opens + self.seeks + if self.closes_told() { self.closes } else { self.opens }
    }

    /// The requests by second. With `spread`, what one rank did repeatedly is spread over the time in which it did so;
    /// without, opens and seeks fall on the start of their interval and closes on its end, as MOSAIC has it.
    pub(super) fn by_second(&self, n_ranks: f64, spread: bool) -> Seconds {
        let mut seconds = if spread { self.folded.clone() } else { self.folded_plainly.clone() };
        for request in &self.recent {
            let ranks = if request.shared { n_ranks } else { 1.0 };
            request.pour(&mut seconds, ranks, self.closes_told(), spread);
        }
        seconds
    }

    fn closes_told(&self) -> bool {
        self.closes > 0.0
    }
}

impl Request {
    fn pour(&self, seconds: &mut Seconds, ranks: f64, closes_told: bool, spread: bool) {
        let calls = f64::from(self.calls);
        let closes = if self.op == Op::Open && !closes_told { calls } else { 0.0 };
        if spread && calls > ranks && self.end > self.start {
            seconds.spread(self.start, self.end, calls + closes);
        } else {
            let at = if self.op == Op::Close { self.end } else { self.start };
            seconds.add(at, calls);
            seconds.add(self.end, closes);
        }
    }
}

/// Requests by second of the trace's clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Seconds {
    /// Requests at a known time.
    at: BTreeMap<i64, f64>,
    /// Changes of the rate of requests whose times are not known one by one.
    rate_steps: BTreeMap<i64, f64>,
    /// Requests in seconds that were dropped because there were too many.
    forgotten: f64,
}

impl Seconds {
    fn add(&mut self, at: Timestamp, calls: f64) {
        if calls > 0.0 {
            *self.at.entry(second_of(at)).or_default() += calls;
            if self.at.len() > Observed::MOST_SECONDS {
                self.forget();
            }
        }
    }

    /// Spreads `calls` evenly over the seconds from `start` to `end`.
    fn spread(&mut self, start: Timestamp, end: Timestamp, calls: f64) {
        let (first, last) = (second_of(start), second_of(end));
        let rate = calls / (last - first + 1) as f64;
        if rate >= 1.0 || self.rate_steps.len() < Observed::MOST_SECONDS {
            *self.rate_steps.entry(first).or_default() += rate;
            *self.rate_steps.entry(last + 1).or_default() -= rate;
        } else {
            self.forgotten += calls;
        }
    }

    /// Keeps the busier half of the seconds.
    fn forget(&mut self) {
        let mut counts: Vec<f64> = self.at.values().copied().collect();
        let middle = counts.len() / 2;
        let (_, median, _) = counts.select_nth_unstable_by(middle, f64::total_cmp);
        let median = *median;
        // Where most seconds are alike, the first of them go: an endless even load has no spikes to lose.
        let mut n_left = middle;
        let forgotten = &mut self.forgotten;
        self.at.retain(|_, count| {
            let keep = *count > median || n_left == 0;
            if !keep {
                *forgotten += *count;
                n_left -= 1;
            }
            keep
        });
    }

    /// Calls `take` with a number of requests and in how many neighbouring seconds there were so many.
    pub(super) fn for_each(&self, mut take: impl FnMut(f64, f64)) {
        let mut steps = self.rate_steps.iter().peekable();
        let (mut rate, mut reached) = (0.0, i64::MIN);
        let mut advance = |to: i64, rate: &mut f64, take: &mut dyn FnMut(f64, f64)| {
            while let Some(&(&step, &change)) = steps.peek() {
                if step > to {
                    break;
                }
                if reached < step {
                    if *rate > 1e-9 {
                        take(*rate, (step - reached) as f64);
                    }
                    reached = step;
                }
                *rate += change;
                steps.next();
            }
            if reached < to {
                if *rate > 1e-9 {
                    take(*rate, (to - reached) as f64);
                }
                reached = to;
            }
        };
        for (&second, &count) in &self.at {
            advance(second, &mut rate, &mut take);
            take(count + rate.max(0.0), 1.0);
            // This second is done: what follows begins with the next.
            let mut nothing = |_: f64, _: f64| {};
            advance(second + 1, &mut rate, &mut nothing);
        }
        // After the last step there is nothing, whatever rounding left of the rate.
        if let Some((&last, _)) = self.rate_steps.last_key_value() {
            advance(last, &mut rate, &mut take);
        }
    }
}

fn second_of(at: Timestamp) -> i64 {
    at.as_nanos().div_euclid(1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: f64) -> Timestamp {
        Timestamp::from_secs_since_start(secs).unwrap()
    }

    fn request(op: Op, rank: i32, start_s: f64, end_s: f64, calls: u32) -> Event {
        Event { calls, ..Event::data(op, Rank(rank), at(start_s), at(end_s), 0.0) }
    }

    /// Requests and in how many seconds there are so many, in order of time.
    fn seconds(events: &[Event], spread: bool) -> Vec<(f64, f64)> {
        let mut observed = Observed::new();
        for event in events {
            let _ = observed.event(*event);
        }
        let mut found = Vec::new();
        observed.requests.by_second(4.0, spread).for_each(|count, n| found.push((count, n)));
        found
    }

    #[test]
    fn opens_fall_on_the_start_and_the_closes_they_imply_on_the_end() {
        let opens = [request(Op::Open, 0, 3.2, 9.7, 1), request(Op::Seek, 0, 3.2, 9.7, 1)];
        assert_eq!(seconds(&opens, true), [(2.0, 1.0), (1.0, 1.0)]);
    }

    #[test]
    fn closes_that_are_told_are_not_made_up() {
        let calls = [request(Op::Open, 0, 3.2, 9.7, 1), request(Op::Close, 0, 9.1, 9.7, 1)];
        assert_eq!(seconds(&calls, true), [(1.0, 1.0), (1.0, 1.0)]);
    }

    #[test]
    fn what_one_rank_did_repeatedly_is_spread_over_its_time() {
        let reopened = [request(Op::Open, 0, 0.0, 9.9, 50)];
        assert_eq!(seconds(&reopened, true), [(10.0, 10.0)]);
        assert_eq!(seconds(&reopened, false), [(50.0, 1.0), (50.0, 1.0)]);
    }

    #[test]
    fn a_file_that_all_ranks_opened_once_was_opened_at_once() {
        let shared = [request(Op::Open, -1, 0.0, 9.9, 4)];
        assert_eq!(seconds(&shared, true), [(4.0, 1.0), (4.0, 1.0)]);
        let twice = [request(Op::Open, -1, 0.0, 9.9, 8)];
        assert_eq!(seconds(&twice, true), [(1.6, 10.0)]);
    }

    #[test]
    fn a_spike_stands_on_the_load_around_it() {
        let both = [request(Op::Open, 0, 0.0, 9.9, 50), request(Op::Close, 1, 4.2, 4.3, 7)];
        assert_eq!(seconds(&both, true), [(5.0, 4.0), (12.0, 1.0), (5.0, 5.0)]);
    }

    #[test]
    fn an_endless_trace_costs_no_more_memory_than_a_long_one() {
        let mut observed = Observed::new();
        for second in 0..4 * Observed::MOST_SECONDS {
            let time_s = second as f64 + 0.5;
            let calls = if second % 1000 == 0 { 300 } else { 1 };
            let _ = observed.event(request(Op::Open, 0, time_s, time_s + 0.1, calls));
            let _ = observed.event(request(Op::Close, 0, time_s, time_s + 0.1, calls));
        }
        let seconds = observed.requests.by_second(1.0, false);
        assert!(
            seconds.at.len() <= Observed::MOST_SECONDS
                && observed.requests.recent.len() < Observed::MOST_REQUESTS
        );
        let mut n_spikes = 0.0;
        seconds.for_each(|count, n| n_spikes += if count >= 300.0 { n } else { 0.0 });
        assert_eq!(n_spikes, (4 * Observed::MOST_SECONDS).div_ceil(1000) as f64);
    }
}
