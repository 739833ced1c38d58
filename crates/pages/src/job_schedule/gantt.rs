//! Schedules over time: what the page's script draws, and pictures for readers without one.

use std::collections::HashMap;
use std::fmt::Write;

use iotide_look::html::escape;
use iotide_look::text;
use iotide_report::DrawnSchedule;
use iotide_sim::jobs::{Held, History, Load};
use serde::Serialize;

/// Stretches of one schedule that go into a page; what comes later is left out, and said to be.
const MOST_STRETCHES: usize = 100_000;

/// Points of busy nodes and of the queue that go into a page.
const MOST_LOADS: usize = 4_000;

#[derive(Serialize)]
struct PageData<'a> {
    ids: &'a [String],
    kinds: String,
    runs: Vec<RunData>,
}

/// A schedule for the script, in whole seconds since the first submission.
#[derive(Serialize)]
struct RunData {
    policy: &'static str,
    /// From when on stretches are left out.
    cut: Option<i64>,
    nodes: u32,
    end: i64,
    /// Job, start less the start before, length, first node, number of nodes.
    held: Vec<i64>,
    /// Time, busy nodes, waiting jobs.
    load: Vec<i64>,
}

/// Returns the data that the script draws.
pub(super) fn json(first: &DrawnSchedule, runs: &[&DrawnSchedule]) -> String {
    text::json(&PageData {
        ids: &first.ids,
        kinds: first.kinds.iter().map(|&kind| if kind == "malleable" { 'm' } else { 'r' }).collect(),
        runs: runs.iter().filter_map(|run| data(run)).collect(),
    })
}

/// A job on neighbouring nodes, for as long as it held just these.
#[derive(Debug, PartialEq)]
struct Stretch {
    job: usize,
    from_ms: i64,
    to_ms: i64,
    low: u32,
    high: u32,
}

/// Stretches by their beginning. A resize that leaves some of a job's nodes alone leaves their stretches whole.
fn stretches(held: &[Held]) -> Vec<Stretch> {
    let mut held: Vec<&Held> = held.iter().collect();
    held.sort_by_key(|held| (held.from_ms, held.job));
    let mut stretches: Vec<Stretch> = Vec::new();
    let mut last_of: HashMap<(usize, u32, u32), usize> = HashMap::new();
    for &Held { job, from_ms, to_ms, ref nodes } in held {
        for &(low, high) in nodes {
            match last_of.get(&(job, low, high)) {
                Some(&at) if stretches[at].to_ms == from_ms => stretches[at].to_ms = to_ms,
                _ => {
                    last_of.insert((job, low, high), stretches.len());
                    stretches.push(Stretch { job, from_ms, to_ms, low, high });
                }
            }
        }
    }
    stretches
}

/// At most so many times, with the mean of the busy nodes and the longest queue from each to the next.
fn loads(loads: &[Load], end_ms: i64, most: usize) -> Vec<(i64, i64, u32)> {
    let step = loads.len().div_ceil(most).max(1);
    let mut found = Vec::with_capacity(most.min(loads.len()));
    for (i, chunk) in loads.chunks(step).enumerate() {
        let until_ms = loads.get((i + 1) * step).map_or(end_ms, |load| load.at_ms);
        let ends = chunk.iter().skip(1).map(|load| load.at_ms).chain([until_ms]);
        let held: i64 = chunk
            .iter()
            .zip(ends)
            .map(|(load, end_ms)| i64::from(load.busy) * (end_ms - load.at_ms).max(0))
            .sum();
        let from_ms = chunk[0].at_ms;
        let busy = if until_ms > from_ms { held / (until_ms - from_ms) } else { i64::from(chunk[0].busy) };
        found.push((from_ms, busy, chunk.iter().map(|load| load.queue).max().unwrap_or(0)));
    }
    found
}

fn first_ms(history: &History) -> i64 {
    history.load.first().map_or(0, |load| load.at_ms)
}

fn end_ms(run: &DrawnSchedule) -> Option<i64> {
    run.schedule.jobs.iter().filter_map(|fate| fate.end_ms).max()
}

fn data(run: &DrawnSchedule) -> Option<RunData> {
    let history = run.schedule.history.as_ref()?;
    let zero_ms = first_ms(history);
    let second = |at_ms: i64| (at_ms - zero_ms).div_euclid(1000);
    let stretches = stretches(&history.held);
    let mut rows = Vec::with_capacity(5 * stretches.len().min(MOST_STRETCHES));
    let mut before = 0;
    for stretch in stretches.iter().take(MOST_STRETCHES) {
        let from = second(stretch.from_ms);
        rows.extend([
            stretch.job as i64,
            from - before,
            second(stretch.to_ms) - from,
            i64::from(stretch.low),
            i64::from(stretch.high - stretch.low),
        ]);
        before = from;
    }
    let end_ms = end_ms(run).unwrap_or(zero_ms);
    Some(RunData {
        policy: run.policy,
        nodes: run.nodes,
        end: second(end_ms) + 1,
        cut: stretches.get(MOST_STRETCHES).map(|stretch| second(stretch.from_ms)),
        held: rows,
        load: loads(&history.load, end_ms, MOST_LOADS)
            .into_iter()
            .flat_map(|(at_ms, busy, queue)| [second(at_ms), busy, i64::from(queue)])
            .collect(),
    })
}

/// The first and the last schedule as pictures that can be stretched without a script.
pub(super) fn still_pictures(html: &mut String, runs: &[&DrawnSchedule]) {
    let shown: Vec<&DrawnSchedule> = match runs {
        [first, .., last] => vec![*first, *last],
        few => few.to_vec(),
    };
    let wide_ms = |run: &&DrawnSchedule| Some(end_ms(run)? - first_ms(run.schedule.history.as_ref()?));
    let wide_ms = shown.iter().filter_map(wide_ms).max().unwrap_or(0).max(1);
    let stills: Vec<(&DrawnSchedule, Still)> = shown
        .into_iter()
        .filter_map(|run| Some((run, Still::of(run, run.schedule.history.as_ref()?, wide_ms))))
        .collect();
    let longest = stills.iter().flat_map(|(_, still)| &still.queue).copied().fold(1.0, f64::max);
    html.push_str("<noscript><div class=\"stills\">");
    for (i, (name, checked)) in
        [("all", " checked"), ("3 times as wide", ""), ("9 times as wide", "")].into_iter().enumerate()
    {
        let _ = writeln!(
            html,
            "<input type=\"radio\" name=\"still\" id=\"still-{i}\"{checked}><label for=\"still-{i}\">{name}</label>"
        );
    }
    for (run, still) in stills {
        let _ = write!(
            html,
            "<h3>{}</h3>\n<div class=\"wide\" tabindex=\"0\">{}</div>\n",
            escape(run.policy),
            still.svg(run, wide_ms, longest)
        );
    }
    html.push_str("</div></noscript>\n");
}

const COLUMNS: usize = 1080;
const MOST_ROWS: usize = 48;

/// A schedule in cells: how much of each was held, by malleable jobs and by others; busy nodes and the longest queue by column.
struct Still {
    n_rows: usize,
    malleable: Vec<f64>,
    other: Vec<f64>,
    busy: Vec<f64>,
    queue: Vec<f64>,
}

/// Whole steps that a stretch touches, and how much of each it covers.
fn covered(from: f64, to: f64, n: usize) -> impl Iterator<Item = (usize, f64)> {
    let last = (to.ceil().max(0.0) as usize).min(n);
    (from.max(0.0) as usize..last).map(move |i| (i, to.min(i as f64 + 1.0) - from.max(i as f64)))
}

impl Still {
    fn of(run: &DrawnSchedule, history: &History, wide_ms: i64) -> Self {
        let n_rows = (run.nodes as usize).clamp(1, MOST_ROWS);
        let zero_ms = first_ms(history);
        let column = |at_ms: i64| (at_ms - zero_ms) as f64 * COLUMNS as f64 / wide_ms as f64;
        let row = |node: u32| f64::from(node) * n_rows as f64 / f64::from(run.nodes.max(1));
        let mut still = Self {
            n_rows,
            malleable: vec![0.0; COLUMNS * n_rows],
            other: vec![0.0; COLUMNS * n_rows],
            busy: vec![0.0; COLUMNS],
            queue: vec![0.0; COLUMNS],
        };
        for stretch in stretches(&history.held) {
            let cells =
                if run.kinds[stretch.job] == "malleable" { &mut still.malleable } else { &mut still.other };
            for (y, high) in covered(row(stretch.low), row(stretch.high), n_rows) {
                for (x, wide) in covered(column(stretch.from_ms), column(stretch.to_ms), COLUMNS) {
                    cells[y * COLUMNS + x] += high * wide;
                }
            }
        }
        let ends = history.load.iter().skip(1).map(|load| load.at_ms);
        let ends = ends.chain([end_ms(run).unwrap_or(zero_ms)]);
        for (load, end_ms) in history.load.iter().zip(ends) {
            for (x, wide) in covered(column(load.at_ms), column(end_ms), COLUMNS) {
                still.busy[x] += wide * f64::from(load.busy);
                still.queue[x] = still.queue[x].max(f64::from(load.queue));
            }
        }
        still
    }

    /// Cells that are held for the most part, as a path.
    fn cells(&self, is_malleable: bool) -> String {
        let mut path = String::new();
        for y in 0..self.n_rows {
            let is_drawn = |x: usize| {
                let (malleable, other) = (self.malleable[y * COLUMNS + x], self.other[y * COLUMNS + x]);
                malleable + other >= 0.5 && (malleable >= other) == is_malleable
            };
            let mut x = 0;
            while x < COLUMNS {
                let from = x;
                while x < COLUMNS && is_drawn(x) {
                    x += 1;
                }
                if x > from {
                    // The first node is at the bottom.
                    let _ = write!(path, "M{from} {}h{1}v1h-{1}z", self.n_rows - 1 - y, x - from);
                }
                x += 1;
            }
        }
        path
    }

    fn svg(&self, run: &DrawnSchedule, wide_ms: i64, longest: f64) -> String {
        let mut svg = format!(
            "<svg class=\"still plot\" role=\"img\" font-size=\"12\" height=\"466\"><title>Gantt chart, busy nodes and queue under {}</title>\n",
            escape(run.policy)
        );
        let part = |svg: &mut String, top: u32, name: &str, high: u32, rows: usize, paths: &str| {
            let _ = writeln!(
                svg,
                "<text y=\"{}\">{name}</text><svg y=\"{top}\" width=\"100%\" height=\"{high}\" viewBox=\"0 0 {COLUMNS} {rows}\" \
                 preserveAspectRatio=\"none\"><rect class=\"field\" width=\"{COLUMNS}\" height=\"{rows}\"/>{paths}</svg>",
                top - 5
            );
        };
        let gantt = format!(
            "<path class=\"other\" d=\"{}\"/><path class=\"malleable\" d=\"{}\"/>",
            self.cells(false),
            self.cells(true)
        );
        part(&mut svg, 20, &format!("nodes, from 0 up to {}", run.nodes), 240, self.n_rows, &gantt);
        let bars = |values: &[f64], most: f64, class: &str| {
            let mut path = format!("<path class=\"{class}\" d=\"M0 100");
            for (x, value) in values.iter().enumerate() {
                let _ = write!(path, "V{:.0}H{}", 100.0 * (1.0 - value / most), x + 1);
            }
            path + "V100z\"/>"
        };
        let busy = bars(&self.busy, f64::from(run.nodes.max(1)), "busy");
        part(&mut svg, 284, &format!("busy nodes, of {}", run.nodes), 70, 100, &busy);
        let waiting = bars(&self.queue, longest, "queue");
        part(&mut svg, 378, &format!("jobs waiting, up to {longest}"), 70, 100, &waiting);
        for quarter in 0..=4 {
            let anchor = ["start", "middle", "middle", "middle", "end"][quarter];
            let at_s = wide_ms as f64 / 1e3 * quarter as f64 / 4.0;
            let _ = write!(
                svg,
                "<text x=\"{}%\" y=\"463\" text-anchor=\"{anchor}\">{}</text>",
                25 * quarter,
                escape(&text::seconds(at_s))
            );
        }
        svg + "</svg>"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_that_a_resize_leaves_alone_stay_one_stretch() {
        let held =
            |job, from_ms, to_ms, nodes: &[(u32, u32)]| Held { job, from_ms, to_ms, nodes: nodes.to_vec() };
        let found = stretches(&[
            held(0, 0, 10, &[(0, 2), (4, 6)]),
            held(0, 10, 20, &[(0, 2)]),
            held(1, 10, 20, &[(4, 6)]),
            // Back after a pause in the queue: a stretch of its own.
            held(0, 30, 40, &[(0, 2)]),
        ]);
        let stretch = |job, from_ms, to_ms, low, high| Stretch { job, from_ms, to_ms, low, high };
        assert_eq!(
            found,
            [
                stretch(0, 0, 20, 0, 2),
                stretch(0, 0, 10, 4, 6),
                stretch(1, 10, 20, 4, 6),
                stretch(0, 30, 40, 0, 2)
            ]
        );
    }

    #[test]
    fn busy_nodes_are_a_mean_over_time_and_not_over_events() {
        let load = |at_ms, busy, queue| Load { at_ms, busy, queue };
        let events = [load(0, 8, 1), load(90, 0, 5), load(100, 4, 0)];
        assert_eq!(loads(&events, 110, 2), [(0, 7, 5), (100, 4, 0)]);
        assert_eq!(loads(&events, 110, 9), [(0, 8, 1), (90, 0, 5), (100, 4, 0)]);
    }

    #[test]
    fn a_stretch_covers_parts_of_cells() {
        let parts: Vec<(usize, f64)> = covered(0.75, 2.5, 8).collect();
        assert_eq!(parts, [(0, 0.25), (1, 1.0), (2, 0.5)]);
        assert_eq!(covered(1.0, 9.0, 2).count(), 1);
    }
}
