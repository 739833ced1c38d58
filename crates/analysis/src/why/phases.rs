//! The summary of a run: its phases, the requests of each rank in them, how long they took, and when bytes were moved.

use std::collections::{BTreeMap, HashMap};

use iotide_num::median;
use iotide_trace::Op;

use super::load::LoadGrid;

/// Calls of one kind by one rank, with their time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Request {
    /// Kind of call.
    pub op: Op,
    /// By whom.
    pub rank: i32,
    /// When it began, on the clock of the trace.
    pub start_s: f64,
    /// When it ended.
    pub end_s: f64,
    /// Bytes moved.
    pub bytes: f64,
    /// How many calls this stands for, at least 1.
    pub calls: f64,
}

/// All requests of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunRequests {
    /// When the clock of the trace was zero, since 1970.
    pub zero_unix_s: Option<f64>,
    /// How long the run took, if the trace says so.
    pub run_s: Option<f64>,
    /// Shorter pauses part no phases, however short the run is: 0 where each request has its time.
    pub least_pause_s: f64,
    /// Whether the run goes on: its requests so far are not all of them.
    pub goes_on: bool,
    /// Its requests.
    pub requests: Vec<Request>,
}

/// Summary of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunFacts {
    /// When its first request began, since 1970.
    pub start_unix_s: Option<f64>,
    /// Tells runs with other requests or of another time apart.
    pub content: u64,
    /// Where the program waits for I/O, in order.
    pub phases: Vec<PhaseFacts>,
    pub(super) zero_unix_s: Option<f64>,
    /// Whether the run goes on.
    pub(super) goes_on: bool,
    /// How long calls took, by kind and size.
    pub(super) classes: Vec<ClassTime>,
    /// Bytes per fine cell of the log's grid.
    pub(super) moved: Moved,
}

/// A phase of I/O.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseFacts {
    /// When it began, on the clock of the trace.
    pub start_s: f64,
    /// When it ended.
    pub end_s: f64,
    /// How long at least one request was under way.
    pub busy_s: f64,
    /// Bytes read.
    pub read_bytes: f64,
    /// Bytes written.
    pub written_bytes: f64,
    /// Requests of each rank.
    pub(super) ranks: Vec<Vec<Work>>,
}

/// Calls of one kind and about one size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Work {
    pub(super) op: Op,
    pub(super) class: i32,
    pub(super) calls: f64,
    pub(super) bytes: f64,
    pub(super) seconds: f64,
}

/// How long a call of one kind and about one size took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ClassTime {
    pub(super) op: Op,
    pub(super) class: i32,
    /// The median size of a call.
    pub(super) bytes: f64,
    /// The median time of a call.
    pub(super) seconds: f64,
}

/// When bytes were moved, on the fine grid of a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Moved {
    /// The first fine cell, counted from the beginning of the log.
    pub(super) first: i64,
    pub(super) read: Vec<f64>,
    pub(super) written: Vec<f64>,
}

/// Pauses that are longer than this share of the run part phases.
const PAUSE: f64 = 0.005;

/// The class of calls that move nothing.
pub(super) const NO_BYTES: i32 = i32::MIN;

/// A run has no more fine cells than this: 19 days at 50 ms. Beyond, it is not laid beside a log.
const MOST_CELLS: f64 = 32e6;

/// Whether a time is late enough (after September 2001) to count from 1970, whatever the trace says of its start.
pub fn counts_from_1970(at_s: f64) -> bool {
    at_s >= 1e9
}

impl RunFacts {
    /// Reduces a run; `grid` is that of the log beside which it will be laid.
    pub fn of(run: RunRequests, grid: Option<LoadGrid>) -> Self {
        Self::once_known(run, || grid)
    }

    /// Reduces a run; `grid` is called last, and may wait until the log was read.
    pub fn once_known(mut run: RunRequests, grid: impl FnOnce() -> Option<LoadGrid>) -> Self {
        run.requests.retain(|request| {
            request.start_s.is_finite()
                && request.end_s >= request.start_s
                && request.bytes.is_finite()
                && request.calls >= 1.0
        });
        // All that tells two requests apart, but for names: sums must not depend on the order of rows. The stable sort makes use of what is in
        // order already, as the requests of a rank are.
        run.requests.sort_by(|a, b| {
            (a.start_s.total_cmp(&b.start_s))
                .then(a.end_s.total_cmp(&b.end_s))
                .then(a.op.cmp(&b.op))
                .then(a.bytes.total_cmp(&b.bytes))
                .then(a.calls.total_cmp(&b.calls))
                .then(a.rank.cmp(&b.rank))
        });
        let first_s = run.requests.first().map(|request| request.start_s);
        let zero_unix_s = match first_s {
            Some(first_s) if counts_from_1970(first_s) => Some(0.0),
            _ => run.zero_unix_s,
        };
        let start_unix_s = zero_unix_s.zip(first_s).map(|(zero, first)| zero + first);
        Self {
            start_unix_s,
            content: content(&run.requests, start_unix_s),
            phases: phases(&run),
            zero_unix_s,
            goes_on: run.goes_on,
            classes: class_times(&run.requests),
            moved: match (grid(), zero_unix_s) {
                (Some(grid), Some(zero)) => moved(&run.requests, zero, grid),
                _ => Moved::default(),
            },
        }
    }

    /// Brings a run that was reduced on the grid `from` to another, which begins a whole number of steps later or earlier.
    pub fn rebase(&mut self, from: LoadGrid, start_s: f64) {
        self.moved.first -= ((start_s - from.start_s) / from.fine_s()).round() as i64;
    }

    /// How long at least one request was under way.
    pub fn io_s(&self) -> f64 {
        self.phases.iter().map(|phase| phase.busy_s).sum()
    }

    /// When the clock of the trace was zero, since 1970.
    pub fn zero_unix_s(&self) -> Option<f64> {
        self.zero_unix_s
    }

    /// When its first request began and its last one ended, since 1970.
    pub fn span_unix_s(&self) -> Option<(f64, f64)> {
        let (zero_s, first, last) = (self.zero_unix_s?, self.phases.first()?, self.phases.last()?);
        Some((zero_s + first.start_s, zero_s + last.end_s))
    }

    /// Bytes moved.
    pub fn bytes(&self) -> f64 {
        self.phases.iter().map(PhaseFacts::bytes).sum()
    }
}

impl PhaseFacts {
    /// Bytes moved.
    pub fn bytes(&self) -> f64 {
        self.read_bytes + self.written_bytes
    }
}

/// The class of a size: half powers of two.
fn class_of(bytes: f64) -> i32 {
    if bytes > 0.0 { (2.0 * bytes.log2()).round() as i32 } else { NO_BYTES }
}

/// A number that runs with the same requests at the same time share, on whatever clock (FNV-1a).
fn content(requests: &[Request], start_unix_s: Option<f64>) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut add = |number: i64| {
        hash = (hash ^ number as u64).wrapping_mul(0x0100_0000_01b3);
        hash ^= hash >> 29;
    };
    // Traces round times to tenths of milliseconds: none of these lies where the next millisecond begins.
    add((start_unix_s.unwrap_or(0.0) * 1e3 + 0.05).floor() as i64);
    let first_s = requests.first().map_or(0.0, |request| request.start_s);
    // Ten microseconds: a clock that counts from 1970 tells no more.
    let tens_of_micros = |at_s: f64| ((at_s - first_s) * 1e5).round() as i64;
    // Rounding may swap requests that began at about the same time: their sum does not mind.
    let mut sum = 0_u64;
    for request in requests {
        let mut one = 0x9e37_79b9_7f4a_7c15_u64;
        for number in [
            tens_of_micros(request.start_s),
            tens_of_micros(request.end_s),
            request.op as i64,
            request.bytes as i64,
            request.calls as i64,
        ] {
            one = (one ^ number as u64).wrapping_mul(0xff51_afd7_ed55_8ccd);
            one ^= one >> 32;
        }
        sum = sum.wrapping_add(one);
    }
    add(sum as i64);
    hash
}

/// Cuts a run at its pauses; `requests` are in order.
fn phases(run: &RunRequests) -> Vec<PhaseFacts> {
    let requests = &run.requests;
    let Some(first) = requests.first() else { return Vec::new() };
    let last_s = requests.iter().map(|request| request.end_s).fold(first.end_s, f64::max);
    let span_s = last_s - first.start_s;
    let pause_s =
        (PAUSE * run.run_s.filter(|run_s| *run_s >= span_s).unwrap_or(span_s)).max(run.least_pause_s);
    let mut phases = Vec::new();
    let mut begun = 0;
    let (mut end_s, mut busy_s) = (first.start_s, 0.0);
    for (i, request) in requests.iter().enumerate() {
        if request.start_s - end_s > pause_s {
            phases.push(phase(&requests[begun..i], end_s, busy_s));
            (begun, end_s, busy_s) = (i, request.start_s, 0.0);
        }
        busy_s += (request.end_s - request.start_s.max(end_s)).max(0.0);
        end_s = end_s.max(request.end_s);
    }
    phases.push(phase(&requests[begun..], end_s, busy_s));
    // What takes no time cannot be slow.
    phases.retain(|phase| phase.busy_s > 0.0);
    phases
}

fn phase(requests: &[Request], end_s: f64, busy_s: f64) -> PhaseFacts {
    let mut work: HashMap<(i32, Op, i32), Work> = HashMap::new();
    let (mut read_bytes, mut written_bytes) = (0.0, 0.0);
    for request in requests {
        match request.op {
            Op::Read => read_bytes += request.bytes,
            Op::Write => written_bytes += request.bytes,
            _ => {}
        }
        let class = class_of(request.bytes / request.calls);
        let work = work.entry((request.rank, request.op, class)).or_insert(Work {
            op: request.op,
            class,
            calls: 0.0,
            bytes: 0.0,
            seconds: 0.0,
        });
        work.calls += request.calls;
        work.bytes += request.bytes;
        work.seconds += request.end_s - request.start_s;
    }
    let mut by_rank: BTreeMap<i32, Vec<Work>> = BTreeMap::new();
    for ((rank, ..), work) in work {
        by_rank.entry(rank).or_default().push(work);
    }
    let mut ranks: Vec<Vec<Work>> = by_rank.into_values().collect();
    ranks.iter_mut().for_each(|works| works.sort_by_key(|work| (work.op, work.class)));
    let start_s = requests.first().map_or(end_s, |request| request.start_s);
    PhaseFacts { start_s, end_s, busy_s, read_bytes, written_bytes, ranks }
}

fn class_times(requests: &[Request]) -> Vec<ClassTime> {
    let mut seen: BTreeMap<(Op, i32), (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for request in requests {
        let bytes = request.bytes / request.calls;
        let (sizes, times) = seen.entry((request.op, class_of(bytes))).or_default();
        sizes.push(bytes);
        times.push((request.end_s - request.start_s) / request.calls);
    }
    let class_time = |((op, class), (sizes, times)): ((Op, i32), (Vec<f64>, Vec<f64>))| {
        Some(ClassTime { op, class, bytes: median(&sizes)?, seconds: median(&times)? })
    };
    seen.into_iter().filter_map(class_time).collect()
}

/// Spreads the bytes of requests evenly over their time.
fn moved(requests: &[Request], zero_unix_s: f64, grid: LoadGrid) -> Moved {
    let fine_s = grid.fine_s();
    let cell = |at_s: f64| (zero_unix_s - grid.start_s + at_s) / fine_s;
    let data = || requests.iter().filter(|request| request.op.moves_data() && request.bytes > 0.0);
    let from = data().map(|request| cell(request.start_s)).fold(f64::INFINITY, f64::min).floor();
    let until = data().map(|request| cell(request.end_s)).fold(f64::NEG_INFINITY, f64::max).floor() + 1.0;
    if !(from.abs() < 1e15 && until - from <= MOST_CELLS) {
        return Moved::default();
    }
    let n = (until - from) as usize;
    let mut moved = Moved { first: from as i64, read: vec![0.0; n], written: vec![0.0; n] };
    for request in data() {
        let cells = if request.op == Op::Read { &mut moved.read } else { &mut moved.written };
        let (start, end) = (cell(request.start_s) - from, cell(request.end_s) - from);
        let (first, last) = (start as usize, (end as usize).min(n - 1));
        if first >= last {
            cells[last.min(first)] += request.bytes;
            continue;
        }
        let each = request.bytes / (end - start);
        cells[first] += each * (first as f64 + 1.0 - start);
        cells[first + 1..last].iter_mut().for_each(|cell| *cell += each);
        cells[last] += each * (end - last as f64);
    }
    moved
}
