//! Cost of predicting while a job runs.

use std::time::Instant;

use iotide_analysis::online::{Predictor, PredictorConfig};
use iotide_trace::{Event, Op, Rank, Timestamp};

use super::{Bed, Goal, Line};

const RANKS: i64 = 10_000;
const REQUESTS_PER_PHASE: i64 = 20;
const PHASES: i64 = 25;

/// 10,000 ranks that each write 20 requests of 10 ms, every 20 s: five million events.
pub(super) fn events_of_ten_thousand_ranks(_: &Bed) -> Result<Vec<Line>, String> {
    let mut predictor = Predictor::new(PredictorConfig::default());
    let began = Clock::start();
    let mut told = None;
    for phase in 0..PHASES {
        for request in 0..REQUESTS_PER_PHASE {
            for rank in 0..RANKS {
                // Ranks are up to 3 ms apart, in no order.
                let at = 20_000_000_000 * phase + 11_000_000 * request + (rank * 7919 % RANKS) * 300;
                told = predictor.push_event(&write(rank as i32, at, at + 10_000_000)).or(told);
            }
        }
    }
    let seconds = began.seconds();
    let n_events = predictor.stream().events as f64;
    let period_s = told.and_then(|told| told.period_s).ok_or("no period was found")?;
    if (period_s - 20.0).abs() > 0.5 {
        return Err(format!("{period_s} s instead of 20 s"));
    }
    let work = predictor.work();
    Ok(vec![
        line("CPU of a million events, 10,000 ranks", "s", 1e6 * seconds / n_events, Goal::AtMost(1.0)),
        line("bins written per event", "", work.bin_writes as f64 / n_events, Goal::None),
        line("memory of a predictor", "KiB", predictor.memory_bytes() as f64 / 1024.0, Goal::AtMost(512.0)),
    ])
}

/// One evaluation after histories of very different length.
pub(super) fn evaluation_at_any_history(_: &Bed) -> Result<Vec<Line>, String> {
    let mut lines = Vec::new();
    for (n_phases, shown) in [(100, "10²"), (10_000, "10⁴"), (1_000_000, "10⁶")] {
        let mut predictor = Predictor::new(PredictorConfig::default());
        // Most of the history goes by quickly, and the last hundred phases at the pace of a job.
        let mut at = 0;
        for phase in 0..n_phases {
            let period = if phase + 100 < n_phases { 200_000 } else { 1_000_000_000 };
            for rank in 0..4 {
                predictor.push_event(&write(rank, at, at + period / 5));
            }
            at += period;
        }
        let mut costs: Vec<f64> = (0..200)
            .map(|i| {
                // Time passes, so that no two evaluations look at the same window.
                predictor.advance_to(Timestamp::from_nanos_since_start(at + i * 100_000));
                let began = Clock::start();
                let told = std::hint::black_box(predictor.evaluate());
                let seconds = began.seconds();
                told.and_then(|told| told.period_s).map(|_| seconds).ok_or("an evaluation found no period")
            })
            .collect::<Result<_, _>>()?;
        costs.sort_by(f64::total_cmp);
        let what = format!("CPU of one evaluation after {shown} phases, median");
        lines.push(line(&what, "ms", 1e3 * costs[costs.len() / 2], Goal::AtMost(1.0)));
        lines.push(line(
            &format!("… memory after {shown} phases"),
            "KiB",
            predictor.memory_bytes() as f64 / 1024.0,
            Goal::AtMost(512.0),
        ));
    }
    Ok(lines)
}

fn write(rank: i32, start_nanos: i64, end_nanos: i64) -> Event {
    let at = Timestamp::from_nanos_since_start;
    Event::data(Op::Write, Rank(rank), at(start_nanos), at(end_nanos), 1e6)
}

fn line(what: &str, unit: &'static str, iotide: f64, goal: Goal) -> Line {
    Line { what: what.to_owned(), unit, iotide, peer: None, goal }
}

/// Time on a core where the kernel tells it, time on the wall where not.
struct Clock {
    wall: Instant,
    on_core_nanos: Option<f64>,
}

impl Clock {
    fn start() -> Self {
        Self { on_core_nanos: on_core_nanos(), wall: Instant::now() }
    }

    fn seconds(&self) -> f64 {
        match (self.on_core_nanos, on_core_nanos()) {
            (Some(before), Some(after)) if after > before => (after - before) * 1e-9,
            _ => self.wall.elapsed().as_secs_f64(),
        }
    }
}

/// The first number of `/proc/thread-self/schedstat`; it moves at every tick and switch, and when it is read.
fn on_core_nanos() -> Option<f64> {
    std::fs::read_to_string("/proc/thread-self/schedstat").ok()?.split(' ').next()?.parse().ok()
}
