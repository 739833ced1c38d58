//! Throughput of a storage server from its log: bandwidth at even steps over weeks, gaps included.

use std::ops::{ControlFlow, Range};

use crate::{Direction, Event, EventSink, Grain, Loss, Op, Timestamp};

/// Bandwidth at even steps over a long time: value `i` belongs to the time from `start_s + i · interval_s` until the next.
#[derive(Clone, Debug, PartialEq)]
pub struct ThroughputLog {
    /// When the first value begins, on the log's clock.
    pub start_s: f64,
    /// How long each value holds.
    pub interval_s: f64,
    /// Bytes per second; NaN where the log says nothing.
    pub values: Vec<f64>,
}

impl ThroughputLog {
    /// When the last value ends.
    pub fn end_s(&self) -> f64 {
        self.start_s + self.values.len() as f64 * self.interval_s
    }

    /// Returns which values belong to the time from `from_s` until `until_s`, as far as the log reaches.
    pub fn cells(&self, from_s: f64, until_s: f64) -> Range<usize> {
        let cell = |at_s: f64| ((at_s - self.start_s) / self.interval_s).round().max(0.0) as usize;
        let end = cell(until_s).min(self.values.len());
        cell(from_s).min(end)..end
    }

    /// How many values are not known.
    pub fn n_unknown(&self) -> usize {
        self.values.iter().filter(|value| value.is_nan()).count()
    }
}

/// Settings of a [`ThroughputSink`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThroughputConfig {
    /// Which way the bytes that count went.
    pub direction: Direction,
    /// How long a value of the result holds; `None` takes the source's own step.
    pub interval_s: Option<f64>,
    /// Meaning of a time that no event covers.
    pub silence: Silence,
    /// A value that is said to hold for more than so many steps holds for one, and then the log has a gap.
    pub longest_hold: Option<f64>,
}

/// Meaning of a time that no event covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// Nothing was moved.
    Nothing,
    /// Nobody knows what was moved.
    Unknown,
}

/// Adds events up to a [`ThroughputLog`].
///
/// The step and where its cells begin are told by all events, in whatever order they came, as long as these fall into no
/// more than [`ThroughputSink::MOST_INTERVALS`] different intervals (the servers of one file system share theirs); of a
/// longer log, the first so many tell, and the others are put on that grid as they come. From there on memory grows with
/// the length of the log in steps, 16 bytes each, and not with the number of events.
#[derive(Debug)]
pub struct ThroughputSink {
    config: ThroughputConfig,
    /// Intervals received, kept until the step is known.
    held: Vec<Held>,
    /// How many are held before equal intervals are looked for again.
    join_at: usize,
    most_intervals: usize,
    grid: Option<Grid>,
    n_far: u64,
    losses: Vec<Loss>,
}

/// Bytes moved one way in one interval, by how many events.
#[derive(Clone, Copy, Debug)]
struct Held {
    start: Timestamp,
    end: Timestamp,
    bytes: f64,
    n: u32,
    is_read: bool,
    is_sample: bool,
}

impl Held {
    fn key(&self) -> (Timestamp, Timestamp, bool, bool) {
        (self.start, self.end, self.is_read, self.is_sample)
    }
}

impl From<Event> for Held {
    fn from(event: Event) -> Self {
        Self {
            start: event.start,
            end: event.end,
            bytes: event.bytes,
            n: 1,
            is_read: event.op == Op::Read,
            is_sample: event.grain == Grain::Bin,
        }
    }
}

/// A log has no more steps than this: two years at 2 s. Half a gigabyte.
const MOST_CELLS: usize = 32 << 20;

/// A step of events that are not samples, as nobody chose it.
const DEFAULT_INTERVAL_S: f64 = 1.0;

impl ThroughputSink {
    /// So many different intervals are kept before the step has to be told, 32 bytes each.
    pub const MOST_INTERVALS: usize = 1 << 20;
    /// Fewer than this are not worth joining early.
    const FEW: usize = 1 << 12;

    /// Returns a sink that has seen nothing.
    pub fn new(config: ThroughputConfig) -> Self {
        Self {
            config,
            held: Vec::new(),
            join_at: Self::FEW,
            most_intervals: Self::MOST_INTERVALS,
            grid: None,
            n_far: 0,
            losses: Vec::new(),
        }
    }

    /// Returns the log and what is missing of it; `None` if no event counted.
    pub fn finish(mut self) -> (Option<ThroughputLog>, Vec<Loss>) {
        self.begin();
        let Some(grid) = self.grid else { return (None, self.losses) };
        if self.n_far > 0 {
            let what =
                format!("lies more than {MOST_CELLS} steps of {} s from the beginning", grid.interval_s);
            self.losses.push(Loss::of_records(self.n_far, what));
        }
        (Some(grid.finish(self.config.silence)), self.losses)
    }

    /// Decides the step and adds up what has waited for it.
    fn begin(&mut self) {
        if self.grid.is_some() || self.held.is_empty() {
            return;
        }
        self.join();
        let held = std::mem::take(&mut self.held);
        let interval_s = self.config.interval_s.unwrap_or_else(|| step_of(&held));
        // They are in order of time. One wild date must not put all the others out of reach.
        let median = held[held.len() / 2].start;
        let reach_s = 0.5 * MOST_CELLS as f64 * interval_s;
        let origin = held.iter().map(|held| held.start).find(|start| median.secs_since(*start) < reach_s);
        self.grid = Some(Grid::new(origin.unwrap_or(median), interval_s));
        for held in held {
            self.add(held);
        }
    }

    /// Puts what is held in order of time, equal intervals as one.
    fn join(&mut self) {
        // By their bytes, too: sums must not depend on the order.
        self.held.sort_by(|a, b| a.key().cmp(&b.key()).then(a.bytes.total_cmp(&b.bytes)));
        self.held.dedup_by(|next, held| {
            let is_same = next.key() == held.key();
            if is_same {
                held.bytes += next.bytes;
                held.n = held.n.saturating_add(next.n);
            }
            is_same
        });
    }

    fn add(&mut self, held: Held) {
        let Some(grid) = &mut self.grid else { return };
        if !grid.add(held, self.config.longest_hold) {
            self.n_far += u64::from(held.n);
        }
    }
}

impl EventSink for ThroughputSink {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        let counts = match self.config.direction {
            Direction::Read => event.op == Op::Read,
            Direction::Write => event.op == Op::Write,
            Direction::Both => event.op.moves_data(),
        };
        if counts && self.grid.is_some() {
            self.add(event.into());
        } else if counts {
            self.held.push(event.into());
            if self.held.len() > self.join_at {
                self.join();
                self.join_at = 2 * self.held.len().max(Self::FEW);
                if self.held.len() > self.most_intervals {
                    self.begin();
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn loss(&mut self, loss: Loss) {
        self.losses.push(loss);
    }

    fn async_event(&mut self, event: Event, _: crate::Timestamp) -> ControlFlow<()> {
        self.event(event)
    }

    fn time_spent(&mut self, _: crate::TimeSpent) {}

    fn access_facts(&mut self, _: &crate::AccessFacts) {}
}

/// The step at which most samples come, to three digits: clocks jitter.
fn step_of(held: &[Held]) -> f64 {
    let samples = held.iter().filter(|held| held.is_sample);
    let mut steps: Vec<f64> = samples.map(|held| held.end.secs_since(held.start)).collect();
    steps.sort_unstable_by(f64::total_cmp);
    match steps.get(steps.len() / 2) {
        Some(&median_s) if median_s > 0.0 => {
            let digit = 10f64.powf(median_s.log10().floor() - 2.0);
            // Divide by the whole inverse where there is one: 2.0 rather than 2.0000000000000004.
            if digit < 1.0 {
                (median_s / digit).round() / (1.0 / digit).round()
            } else {
                (median_s / digit).round() * digit
            }
        }
        _ => DEFAULT_INTERVAL_S,
    }
}

#[derive(Debug)]
struct Grid {
    /// When cell 0 begins.
    origin: Timestamp,
    interval_s: f64,
    cells: Vec<Cell>,
}

/// Bytes, and for how much of its time reads and writes are known: once each, however many servers report.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    bytes: f64,
    read_s: f32,
    written_s: f32,
}

impl Grid {
    fn new(origin: Timestamp, interval_s: f64) -> Self {
        Self { origin, interval_s, cells: Vec::new() }
    }

    /// Adds an event; `false` if it lies too far away.
    fn add(&mut self, event: Held, longest_hold: Option<f64>) -> bool {
        let (start_s, mut end_s) = (event.start.secs_since(self.origin), event.end.secs_since(self.origin));
        let mut bytes = event.bytes;
        if let Some(hold) = longest_hold
            && event.is_sample
            && end_s - start_s > hold * self.interval_s
        {
            bytes *= self.interval_s / (end_s - start_s);
            end_s = start_s + self.interval_s;
        }
        let Some((first, last)) = self.reach(start_s, end_s) else { return false };
        // The origin may have moved.
        let shift_s = start_s - event.start.secs_since(self.origin);
        let (start_s, end_s) = (start_s - shift_s, end_s - shift_s);
        let per_second = bytes / (end_s - start_s);
        for (i, cell) in self.cells[first..=last].iter_mut().enumerate() {
            let from_s = (first + i) as f64 * self.interval_s;
            let seconds = (end_s.min(from_s + self.interval_s) - start_s.max(from_s)).max(0.0);
            // What takes no time at all moves its bytes within one cell.
            cell.bytes += if first == last { bytes } else { per_second * seconds };
            let known_s = if event.is_read { &mut cell.read_s } else { &mut cell.written_s };
            *known_s = (*known_s + event.n as f32 * seconds as f32).min(self.interval_s as f32);
        }
        true
    }

    /// Makes room; returns the cells from the one that holds `start_s` to the one that holds what is before `end_s`.
    fn reach(&mut self, start_s: f64, end_s: f64) -> Option<(usize, usize)> {
        let cell = |at_s: f64| at_s / self.interval_s;
        // A sample that ends where the next cell begins, give or take the clock's last digits, is not in that one.
        let first = (cell(start_s) + NEGLIGIBLE).floor();
        let last = (cell(end_s) - NEGLIGIBLE).floor().max(first);
        let most = MOST_CELLS as f64;
        if first < -most || last >= most || last - first.min(0.0) >= most {
            return None;
        }
        let (first, last) = (first as i64, last as i64);
        let before = usize::try_from(-first).unwrap_or(0);
        if before > 0 {
            // By a half more, so that a source that runs backwards does not move all cells with each event.
            let room = (before + self.cells.len() / 2).min(MOST_CELLS - self.cells.len().min(MOST_CELLS));
            if room < before {
                return None;
            }
            self.cells.splice(0..0, std::iter::repeat_n(Cell::default(), room));
            self.origin = self.origin.plus_nanos(-((room as f64 * self.interval_s * 1e9).round() as i64));
            return Some(((first + room as i64) as usize, (last + room as i64) as usize));
        }
        if self.cells.len() <= last as usize {
            self.cells.resize(last as usize + 1, Cell::default());
        }
        Some((first as usize, last as usize))
    }

    fn finish(self, silence: Silence) -> ThroughputLog {
        let interval_s = self.interval_s;
        let known_s = |cell: &Cell| f64::from(cell.read_s.max(cell.written_s));
        let is_empty = |cell: &&Cell| known_s(cell) == 0.0 && cell.bytes == 0.0;
        let n_before = self.cells.iter().take_while(is_empty).count();
        let n_after = self.cells[n_before..].iter().rev().take_while(is_empty).count();
        let used = &self.cells[n_before..self.cells.len() - n_after];
        let value = |cell: &Cell| match silence {
            Silence::Nothing => cell.bytes / interval_s,
            // What is known for half of a cell stands for all of it.
            Silence::Unknown if known_s(cell) >= 0.5 * interval_s => {
                cell.bytes / known_s(cell).min(interval_s)
            }
            Silence::Unknown => f64::NAN,
        };
        ThroughputLog {
            start_s: self.origin.as_secs() + n_before as f64 * interval_s,
            interval_s,
            values: used.iter().map(value).collect(),
        }
    }
}

/// A share of a cell that is the clock's rounding.
const NEGLIGIBLE: f64 = 1e-6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileId, Layer, Rank};
    use proptest::prelude::*;

    fn bin(op: Op, start_s: f64, end_s: f64, rate_bps: f64) -> Event {
        let at = |secs| Timestamp::from_secs_since_start(secs).unwrap();
        Event {
            layer: Layer::Server,
            grain: Grain::Bin,
            file: FileId::NONE,
            ..Event::data(op, Rank::ALL, at(start_s), at(end_s), rate_bps * (end_s - start_s))
        }
    }

    fn log(config: ThroughputConfig, events: impl IntoIterator<Item = Event>) -> ThroughputLog {
        let mut sink = ThroughputSink::new(config);
        for event in events {
            let _ = sink.event(event);
        }
        let (log, losses) = sink.finish();
        assert_eq!(losses, []);
        log.unwrap()
    }

    const OF_SERVER: ThroughputConfig = ThroughputConfig {
        direction: Direction::Both,
        interval_s: None,
        silence: Silence::Unknown,
        longest_hold: Some(4.0),
    };

    fn shown(log: &ThroughputLog) -> String {
        log.values.iter().map(|value| format!("{value:.0}")).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_log_has_the_step_of_its_source() {
        let log = log(
            OF_SERVER,
            (0..5).map(|i| {
                bin(Op::Write, 1.7e9 + 2.0 * f64::from(i), 1.7e9 + 2.0 * f64::from(i) + 2.0, f64::from(i))
            }),
        );
        assert_eq!((log.start_s, log.interval_s, log.end_s()), (1.7e9, 2.0, 1.7e9 + 10.0));
        assert_eq!(shown(&log), "0 1 2 3 4");
    }

    #[test]
    fn reads_and_writes_add_up_and_one_direction_can_be_asked_for() {
        let events =
            [bin(Op::Write, 0.0, 2.0, 5.0), bin(Op::Read, 0.0, 2.0, 3.0), bin(Op::Write, 2.0, 4.0, 1.0)];
        assert_eq!(shown(&log(OF_SERVER, events)), "8 1");
        assert_eq!(shown(&log(ThroughputConfig { direction: Direction::Read, ..OF_SERVER }, events)), "3");
    }

    #[test]
    fn a_clock_that_jitters_keeps_the_volume() {
        let at = |i: u32| f64::from(i) * 2.0 + 0.003 * f64::from(i % 3);
        let log = log(OF_SERVER, (0..999).map(|i| bin(Op::Write, at(i), at(i + 1), 7.0)));
        assert_eq!(log.interval_s, 2.0);
        assert!(log.values.iter().all(|value| (value - 7.0).abs() < 1e-4), "{:?}", &log.values[..9]);
    }

    #[test]
    fn a_value_that_holds_for_hours_is_a_gap_in_a_log_and_a_value_in_a_table() {
        let events = [
            bin(Op::Write, 0.0, 2.0, 5.0),
            bin(Op::Write, 2.0, 4.0, 6.0),
            bin(Op::Write, 4.0, 16.0, 7.0),
            bin(Op::Write, 16.0, 18.0, 8.0),
        ];
        assert_eq!(shown(&log(OF_SERVER, events)), "5 6 7 NaN NaN NaN NaN NaN 8");
        assert_eq!(
            shown(&log(ThroughputConfig { longest_hold: None, ..OF_SERVER }, events)),
            "5 6 7 7 7 7 7 7 8"
        );
    }

    #[test]
    fn between_the_calls_of_a_program_nothing_is_moved() {
        let call =
            |start_s, end_s, rate| Event { grain: Grain::Call, ..bin(Op::Write, start_s, end_s, rate) };
        let config = ThroughputConfig { silence: Silence::Nothing, ..OF_SERVER };
        assert_eq!(shown(&log(config, [call(0.0, 1.5, 4.0), call(3.0, 3.5, 8.0)])), "4 2 0 4");
    }

    #[test]
    fn a_source_may_begin_with_what_came_last() {
        let events = [bin(Op::Write, 100.0, 102.0, 1.0), bin(Op::Write, 102.0, 104.0, 2.0)]
            .into_iter()
            .chain((0..9000).map(|_| bin(Op::Write, 104.0, 106.0, 0.0)))
            .chain([bin(Op::Write, 96.0, 98.0, 3.0), bin(Op::Write, 98.0, 100.0, 4.0)]);
        let log = log(OF_SERVER, events);
        assert_eq!((log.start_s, shown(&log).as_str()), (96.0, "3 4 1 2 0"));
    }

    #[test]
    fn one_wild_date_costs_one_record() {
        let mut sink = ThroughputSink::new(OF_SERVER);
        for event in [
            bin(Op::Write, 0.0, 2.0, 5.0),
            bin(Op::Write, 2.0, 4.0, 5.0),
            bin(Op::Write, 4e9, 4e9 + 2.0, 5.0),
        ] {
            let _ = sink.event(event);
        }
        let (log, losses) = sink.finish();
        assert_eq!((log.unwrap().values.len(), losses.len(), losses[0].records), (2, 1, Some(1)));
    }

    #[test]
    fn one_wild_date_before_all_others_costs_one_record() {
        let events =
            (0..100).map(|i| bin(Op::Write, 1.7e9 + 2.0 * f64::from(i), 1.7e9 + 2.0 * f64::from(i + 1), 5.0));
        let mut sink = ThroughputSink::new(OF_SERVER);
        for event in [bin(Op::Write, 0.0, 2.0, 5.0)].into_iter().chain(events) {
            let _ = sink.event(event);
        }
        let (log, losses) = sink.finish();
        assert_eq!((log.unwrap().values.len(), losses.len(), losses[0].records), (100, 1, Some(1)));
    }

    proptest! {
        #[test]
        fn the_order_of_events_means_nothing(
            (one, other) in prop::collection::vec((any::<bool>(), 0..200u32, 0..3u32, 0..40u32), 1..60)
                .prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
            unknown in any::<bool>(),
        ) {
            let silence = if unknown { Silence::Unknown } else { Silence::Nothing };
            let logged = |samples: &[(bool, u32, u32, u32)]| {
                let mut sink = ThroughputSink::new(ThroughputConfig { silence, ..OF_SERVER });
                for &(is_read, step, jitter, rate) in samples {
                    let start_s = 1e6 + 2.0 * f64::from(step) + 0.125 * f64::from(jitter);
                    let op = if is_read { Op::Read } else { Op::Write };
                    let _ = sink.event(bin(op, start_s, start_s + 2.0, f64::from(rate)));
                    if samples.len().is_multiple_of(2) {
                        sink.join(); // as a long log does now and then
                    }
                }
                sink.finish().0.unwrap()
            };
            let (one, other) = (logged(&one), logged(&other));
            prop_assert_eq!((one.start_s, one.interval_s, one.values.len()), (other.start_s, other.interval_s, other.values.len()));
            for (a, b) in one.values.iter().zip(&other.values) {
                prop_assert!(a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-9 * a.abs(), "{} {}", a, b);
            }
        }
    }

    #[test]
    fn a_log_of_too_many_intervals_is_put_on_the_grid_as_it_comes() {
        let mut sink = ThroughputSink { most_intervals: 5000, ..ThroughputSink::new(OF_SERVER) };
        for i in 0..20_000 {
            let _ = sink.event(bin(Op::Write, 2.0 * f64::from(i), 2.0 * f64::from(i + 1), 5.0));
        }
        assert!(sink.held.is_empty());
        let (log, losses) = sink.finish();
        assert_eq!((log.unwrap().values, losses), (vec![5.0; 20_000], vec![]));
    }

    #[test]
    fn cells_of_a_time_are_those_the_log_has() {
        let log = ThroughputLog { start_s: 100.0, interval_s: 2.0, values: vec![0.0; 10] };
        for ((from_s, until_s), cells) in [
            ((100.0, 104.0), 0..2),
            ((90.0, 104.9), 0..2),
            ((110.0, 999.0), 5..10),
            ((0.0, 50.0), 0..0),
            ((300.0, 400.0), 10..10),
        ] {
            assert_eq!(log.cells(from_s, until_s), cells, "{from_s} to {until_s}");
        }
    }
}
