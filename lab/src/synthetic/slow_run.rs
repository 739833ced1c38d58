//! Runs of one program beside a log of the servers, with what is true of the slow one: what others left, what the storage lost, what it
//! did differently.
//!
//! The ranks work along a time of their own, in which nobody disturbs them. Real time passes more slowly where others or the storage leave
//! less: own time is the integral of the speed left. Others and the program share what the storage carries in proportion to what they ask for.

use iotide_analysis::{LoadGrid, Request, RunRequests, ServerLoad};
use iotide_num::SplitMix64;
use iotide_trace::Op;

/// A run, what there is to compare it with, and the truth.
#[derive(Clone, Debug)]
pub struct Case {
    /// Verdicts that are right, by name.
    pub accept: &'static [&'static str],
    /// The run in question.
    pub run: RunRequests,
    /// Earlier ones.
    pub history: Vec<RunRequests>,
    /// The log of the servers.
    pub load: Option<ServerLoad>,
    /// How much slower it was.
    pub factor: f64,
    /// Logarithms of the causes: own, others, storage.
    pub causes: [f64; 3],
    /// The change that evidence must name.
    pub changed: Option<&'static str>,
}

/// Kinds of cases, and the verdicts that are right.
pub const KINDS: &[(&str, &[&str])] = &[
    ("usual_quiet", &["usual"]),
    ("usual_busy", &["usual"]),
    ("usual_loaded_history", &["usual"]),
    ("usual_after_bad_runs", &["usual"]),
    ("others_burst", &["others"]),
    ("others_steady", &["others"]),
    ("others_read", &["others"]),
    ("others_offset", &["others"]),
    ("others_coarse", &["others"]),
    ("others_rows_missing", &["others"]),
    ("others_loaded_history", &["others", "unknown"]),
    ("others_small_program", &["others", "unknown"]),
    ("usual_other_targets", &["usual"]),
    ("own_other_targets", &["own"]),
    ("storage_other_targets", &["storage", "unknown"]),
    ("own_bytes", &["own"]),
    ("own_small", &["own"]),
    ("own_sync", &["own"]),
    ("own_ranks", &["own"]),
    ("own_small_busy", &["own"]),
    ("own_no_log", &["own"]),
    ("storage_target", &["storage"]),
    ("storage_target_busy", &["storage"]),
    ("storage_rebuild", &["storage"]),
    ("mixed_own_others", &["mixed"]),
    ("mixed_own_storage", &["mixed"]),
    ("halves_others_storage", &["mixed", "storage", "unknown"]),
    ("no_log", &["unknown"]),
    ("foreign_log", &["unknown"]),
    ("hole", &["unknown"]),
    ("two_earlier_others", &["others", "unknown"]),
];

/// How a program does I/O.
#[derive(Clone, Debug)]
struct Program {
    n_ranks: usize,
    n_phases: usize,
    pause_s: f64,
    n_large: usize,
    large_bytes: f64,
    n_small: usize,
    small_bytes: f64,
    syncs: bool,
    latency_s: f64,
    rank_bps: f64,
}

impl Program {
    fn any(random: &mut SplitMix64) -> Self {
        Self {
            n_ranks: 2 + random.below(3),
            n_phases: 7 + random.below(6),
            pause_s: 15.0 + 20.0 * random.unit(),
            n_large: 4 + random.below(5),
            large_bytes: 1e8 * (1.0 + 4.0 * random.unit()),
            n_small: 2 + random.below(3),
            small_bytes: 2e5 * (1.0 + 3.0 * random.unit()),
            syncs: false,
            latency_s: 0.002 + 0.006 * random.unit(),
            rank_bps: 0.0,
        }
        .at_speed(random)
    }

    fn at_speed(mut self, random: &mut SplitMix64) -> Self {
        // A phase takes 6 to 16 s when nobody disturbs it.
        self.rank_bps = self.n_large as f64 * self.large_bytes / (6.0 + 10.0 * random.unit());
        self
    }

    fn asked_bps(&self) -> f64 {
        self.n_ranks as f64 * self.rank_bps
    }

    fn call_s(&self, op: Op, bytes: f64) -> f64 {
        match op {
            Op::Sync => 200.0 * self.latency_s,
            _ => self.latency_s + bytes / self.rank_bps,
        }
    }

    /// Requests of a rank in a phase: calls with how many there are in a row.
    fn calls(&self) -> Vec<(Op, f64, f64)> {
        let mut calls = vec![(Op::Open, 0.0, 1.0)];
        calls.extend((0..self.n_small).map(|_| (Op::Write, self.small_bytes, 1.0)));
        for _ in 0..self.n_large {
            // Large rows stand for many calls where a size is small.
            let in_a_row = (5e7 / self.large_bytes).floor().max(1.0);
            let mut left = (1e8 / self.large_bytes).max(1.0).round();
            if self.large_bytes >= 5e7 {
                left = 1.0;
            }
            while left > 0.0 {
                let n = left.min(in_a_row);
                calls.push((Op::Write, self.large_bytes, n));
                if self.syncs {
                    calls.push((Op::Sync, 0.0, 1.0));
                }
                left -= n;
            }
        }
        calls.push((Op::Close, 0.0, 1.0));
        calls
    }

    fn phase_s(&self) -> f64 {
        self.calls().iter().map(|&(op, bytes, n)| n * self.call_s(op, bytes)).sum()
    }
}

/// The load of others: reads and writes that they ask for.
#[derive(Clone, Debug)]
struct Others {
    base: f64,
    bursts: Vec<(f64, f64, f64)>,
    read_share: f64,
    phase: f64,
}

impl Others {
    fn at(&self, at_s: f64) -> f64 {
        let wave =
            1.0 + 0.15 * (at_s / 37.0 + self.phase).sin() + 0.1 * (at_s / 9.3 + 2.0 * self.phase).sin();
        let burst: f64 = self
            .bursts
            .iter()
            .filter(|(from, to, _)| (*from..*to).contains(&at_s))
            .map(|burst| burst.2)
            .sum();
        self.base * wave + burst
    }
}

/// One day: who else was there, and what the storage carried.
#[derive(Clone, Debug)]
struct Day {
    others: Others,
    capacity: f64,
    /// The speed of the program's own target, by the share of the run that is done.
    target: fn(f64) -> f64,
    zero_s: f64,
    noise: f64,
    /// Whether others use targets that the program does not.
    is_apart: bool,
}

impl Day {
    /// The share of the asked speed that program and others get.
    fn left(&self, wanted: f64, asked: f64) -> f64 {
        if self.is_apart { 1.0 } else { (self.capacity / (wanted + asked)).min(1.0) }
    }
}

/// Outcome of a run.
struct Made {
    run: RunRequests,
    io_s: f64,
    /// The same requests undisturbed, without noise.
    expected_s: f64,
    /// The integral of the speed that others left.
    left_s: f64,
    /// Per tenth of a second: own bytes per second and whether the program was busy.
    own: Vec<f64>,
}

const DT: f64 = 0.1;
/// Logs reach so far before and after a run.
const MARGIN_S: f64 = 120.0;

fn make_run(program: &Program, day: &Day, random: &mut SplitMix64) -> Made {
    let asked = program.asked_bps();
    let mut run = RunRequests { zero_unix_s: Some(day.zero_s), ..RunRequests::default() };
    let (mut at_s, mut io_s, mut left_s) = (1.0 + 2.0 * random.unit(), 0.0, 0.0);
    for i in 0..program.n_phases {
        let done = i as f64 / program.n_phases as f64;
        let slow = (day.target)(done) * (-day.noise * random.normal()).exp();
        // Own time of each rank, request by request.
        let mut rows: Vec<(i32, Op, f64, f64, f64, f64)> = Vec::new();
        for rank in 0..program.n_ranks {
            let mut own_s = 0.0;
            for (op, bytes, n) in program.calls() {
                let takes = n * program.call_s(op, bytes) * (0.03 * random.normal()).exp();
                rows.push((rank as i32, op, own_s, own_s + takes, n * bytes, n));
                own_s += takes;
            }
        }
        // Real time at each own time.
        let longest = rows.iter().map(|row| row.3).fold(0.0, f64::max);
        let (mut own_s, mut now_s) = (0.0, at_s);
        let mut clock = vec![(0.0, at_s)];
        while own_s < longest {
            let wanted = day.others.at(now_s);
            let left = day.left(wanted, asked);
            own_s += DT * left * slow;
            left_s += (DT * left).min(DT);
            now_s += DT;
            clock.push((own_s, now_s));
        }
        let real = |own: f64| {
            let next = clock.partition_point(|(at, _)| *at < own).clamp(1, clock.len() - 1);
            let ((a, from), (b, to)) = (clock[next - 1], clock[next]);
            from + (to - from) * (own - a) / (b - a)
        };
        let mut end_s = at_s;
        for (rank, op, from, to, bytes, calls) in rows {
            end_s = f64::max(end_s, real(to));
            run.requests.push(Request { op, rank, start_s: real(from), end_s: real(to), bytes, calls });
        }
        io_s += end_s - at_s;
        at_s = end_s + program.pause_s * (0.9 + 0.2 * random.unit());
    }
    run.run_s = Some(at_s);
    let mut own = vec![0.0; ((at_s + 2.0 * MARGIN_S) / DT) as usize + 1];
    for request in run.requests.iter().filter(|request| request.bytes > 0.0) {
        let (from, to) = ((request.start_s + MARGIN_S) / DT, (request.end_s + MARGIN_S) / DT);
        let bps = request.bytes / (request.end_s - request.start_s);
        for (cell, moved) in own.iter_mut().enumerate().take(to as usize + 1).skip(from as usize) {
            *moved += bps * (to.min(cell as f64 + 1.0) - from.max(cell as f64)).max(0.0);
        }
    }
    Made { run, io_s, expected_s: program.n_phases as f64 * program.phase_s(), left_s, own }
}

/// How the servers are logged.
#[derive(Clone, Copy, Debug)]
struct Logger {
    step_s: f64,
    offset_s: f64,
    missing: f64,
    noise: f64,
}

/// Rows of the log around one run: time, read, written.
fn log_rows(
    made: &Made,
    program: &Program,
    day: &Day,
    logger: Logger,
    random: &mut SplitMix64,
) -> Vec<[f64; 3]> {
    let asked = program.asked_bps();
    let per_row = (logger.step_s / DT).round() as usize;
    let mut rows = Vec::new();
    for (i, cells) in made.own.chunks(per_row).enumerate() {
        let (mut read, mut written) = (0.0, 0.0);
        for (j, &own) in cells.iter().enumerate() {
            let at_s = (i * per_row + j) as f64 * DT - MARGIN_S;
            let wanted = day.others.at(at_s);
            let most = if day.is_apart { 0.97 * day.capacity } else { day.capacity };
            let served =
                if own > 0.0 && !day.is_apart { wanted * day.left(wanted, asked) } else { wanted.min(most) };
            read += served * day.others.read_share;
            written += served * (1.0 - day.others.read_share) + own;
        }
        if random.unit() < logger.missing {
            continue;
        }
        let scale = |random: &mut SplitMix64| (logger.noise * random.normal()).exp() / cells.len() as f64;
        let time = (day.zero_s - MARGIN_S).floor() + i as f64 * logger.step_s + logger.offset_s;
        let (read, written) = (read * scale(random), written * scale(random));
        rows.push([time + (day.zero_s - day.zero_s.floor()), read, written]);
    }
    rows
}

fn load_of(mut rows: Vec<[f64; 3]>, step_s: f64) -> Option<ServerLoad> {
    rows.sort_by(|a, b| a[0].total_cmp(&b[0]));
    let (first, last) = (rows.first()?[0], rows.last()?[0]);
    let n = ((last - first) / step_s).round() as usize + 1;
    let (mut read_bps, mut written_bps) = (vec![f64::NAN; n], vec![f64::NAN; n]);
    for [time, read, written] in rows {
        let cell = ((time - first) / step_s).round() as usize;
        read_bps[cell] = read;
        written_bps[cell] = written;
    }
    let grid = LoadGrid { start_s: first, step_s };
    Some(ServerLoad { grid, read_bps, written_bps, is_same_clock: false })
}

/// How a kind of case differs from quiet days.
struct Plan {
    logger: Logger,
    n_history: usize,
    /// Demand of others in earlier runs and in the run, as a share of the capacity.
    base: [f64; 2],
    /// The bursts of others in the run: how many phases they reach, and how much they ask for.
    bursts: (f64, f64),
    history_bursts: f64,
    read_share: f64,
    /// Demand of the program, as a share of the capacity.
    asks: f64,
    target: fn(f64) -> f64,
    rebuild: f64,
}

fn plan(kind: &str, random: &mut SplitMix64) -> Plan {
    let step_s = [1.0, 2.0, 5.0][random.below(3)];
    let mut plan = Plan {
        logger: Logger { step_s, offset_s: 0.0, missing: 0.0, noise: 0.01 },
        n_history: 5 + random.below(10),
        base: [0.15, 0.15],
        bursts: (0.0, 0.0),
        history_bursts: 0.0,
        read_share: 0.3,
        asks: 0.45 + 0.3 * random.unit(),
        target: |_| 1.0,
        rebuild: 1.0,
    };
    let strong = 1.2 + 1.6 * random.unit();
    match kind {
        "usual_busy" | "own_small_busy" => plan.base = [0.2, 0.35],
        "usual_loaded_history" => {
            plan.history_bursts = 0.5;
            plan.bursts = (0.5, 1.0);
        }
        "others_burst" | "two_earlier_others" | "foreign_log" | "no_log" | "hole" | "mixed_own_others" => {
            plan.bursts = (0.6, strong);
        }
        "usual_other_targets" | "own_other_targets" | "storage_other_targets" => {
            (plan.bursts, plan.history_bursts) = ((0.6, 1.5), 0.3);
            if kind == "storage_other_targets" {
                plan.target = |_| 0.45;
            }
        }
        "others_steady" => plan.bursts = (1.0, strong),
        "others_read" => (plan.bursts, plan.read_share) = ((0.7, strong), 0.8),
        "others_offset" => {
            plan.bursts = (0.6, strong);
            plan.logger.offset_s =
                plan.logger.step_s * ((random.unit() - 0.5) * 24.0 / plan.logger.step_s).round();
        }
        "others_coarse" => (plan.bursts, plan.logger.step_s) = ((0.6, strong), 10.0),
        "others_rows_missing" => {
            plan.bursts = (0.6, strong);
            (plan.logger.missing, plan.logger.noise) = (0.2, 0.07);
        }
        "others_loaded_history" => (plan.bursts, plan.history_bursts) = ((1.0, 2.5), 0.3),
        "others_small_program" => (plan.bursts, plan.asks) = ((0.7, 2.0), 0.03),
        "storage_target" | "mixed_own_storage" => plan.target = |_| 0.45,
        "storage_target_busy" => (plan.target, plan.base) = (|_| 0.45, [0.3, 0.35]),
        "storage_rebuild" => {
            plan.rebuild = 0.45;
            plan.asks = 0.8;
        }
        "halves_others_storage" => {
            plan.bursts = (0.45, strong);
            plan.target = |done| if done > 0.5 { 0.4 } else { 1.0 };
        }
        _ => {}
    }
    if kind == "two_earlier_others" {
        plan.n_history = 2;
    }
    plan
}

/// Makes a case of a kind.
pub fn make(kind: &'static str, accept: &'static [&'static str], seed: u64) -> Case {
    let mut random = SplitMix64::new(seed);
    let random = &mut random;
    let plan = plan(kind, random);
    let program = Program::any(random);
    let capacity = program.asked_bps() / plan.asks;
    let mut changed_program = program.clone();
    let changed = change(kind, &mut changed_program);
    let mut rows = Vec::new();
    let mut earlier: Vec<Made> = Vec::new();
    for i in 0..=plan.n_history + FOR_TRUTH {
        let is_run = i == plan.n_history;
        let program = if is_run { &changed_program } else { &program };
        let bad = kind == "usual_after_bad_runs" && i < 2;
        let (share, strength) = if is_run { plan.bursts } else { (plan.history_bursts, 1.0) };
        let (share, strength) = if bad { (1.0, 2.0) } else { (share, strength) };
        let per_phase_s = program.phase_s() + program.pause_s;
        let length_s = program.n_phases as f64 * per_phase_s;
        let mut bursts = Vec::new();
        if share > 0.0 {
            let n = if share >= 1.0 { 1 } else { 3 };
            for j in 0..n {
                let from =
                    (j as f64 + if n > 1 { 0.6 * random.unit() * (1.0 - share) } else { 0.0 }) / n as f64;
                let scale = strength * (0.8 + 0.4 * random.unit());
                let slower = if kind == "halves_others_storage" && from > 0.3 { 0.0 } else { 1.0 };
                let reach = if n == 1 { 6.0 } else { 1.0 };
                bursts.push((
                    from * length_s,
                    (from + reach * share / n as f64 * 1.4) * length_s,
                    slower * scale * capacity,
                ));
            }
        }
        let day = Day {
            others: Others {
                base: plan.base[usize::from(is_run)] * capacity,
                bursts,
                read_share: plan.read_share,
                phase: 6.0 * random.unit(),
            },
            capacity: capacity * (0.02 * random.normal()).exp() * if is_run { plan.rebuild } else { 1.0 },
            target: if is_run { plan.target } else { |_| 1.0 },
            zero_s: 1.7e9 + 90_000.0 * i as f64 + (1000.0 * random.unit()).floor(),
            noise: 0.02,
            is_apart: kind.ends_with("other_targets"),
        };
        let made = make_run(program, &day, random);
        if i <= plan.n_history {
            rows.extend(log_rows(&made, program, &day, plan.logger, random));
        }
        earlier.push(made);
    }
    let usual = Usual::of(&earlier, plan.n_history);
    earlier.truncate(plan.n_history + 1);
    finish(kind, accept, earlier, rows, &plan, changed, &usual)
}

/// So many more earlier runs tell what is usual; nobody else sees them.
const FOR_TRUTH: usize = 40;

/// Usual duration, from more runs than anybody has.
struct Usual {
    ratio: f64,
    delay: f64,
}

impl Usual {
    fn of(runs: &[Made], in_question: usize) -> Self {
        let others = || runs.iter().enumerate().filter(|(i, _)| *i != in_question).map(|(_, run)| run);
        let middle = |values: Vec<f64>| iotide_num::median(&values).unwrap_or(1.0);
        Self {
            ratio: middle(others().map(|run| run.io_s / run.expected_s).collect()),
            delay: middle(others().map(|run| run.io_s / run.left_s).collect()),
        }
    }
}

/// Difference of the program's I/O; the name of the evidence.
fn change(kind: &str, program: &mut Program) -> Option<&'static str> {
    match kind {
        "own_bytes" | "mixed_own_storage" => {
            program.n_large *= 2;
            Some("bytes")
        }
        "own_small" | "own_other_targets" | "own_small_busy" | "own_no_log" | "mixed_own_others" => {
            // As many bytes in requests so small that half of the time is latency.
            program.large_bytes = 0.9 * program.latency_s * program.rank_bps;
            let per_phase_s = program.phase_s();
            program.n_large = (program.n_large as f64 * 20.0 / per_phase_s).ceil() as usize;
            Some("request_size")
        }
        "own_sync" => {
            program.syncs = true;
            Some("sync")
        }
        "own_ranks" => {
            program.n_large *= program.n_ranks;
            program.n_ranks = 1;
            Some("ranks")
        }
        _ => None,
    }
}

fn finish(
    kind: &'static str,
    accept: &'static [&'static str],
    mut earlier: Vec<Made>,
    mut rows: Vec<[f64; 3]>,
    plan: &Plan,
    changed: Option<&'static str>,
    usual: &Usual,
) -> Case {
    let made = earlier.remove(earlier.len() - 1);
    let rest = made.io_s / made.expected_s / usual.ratio;
    let delay = made.io_s / made.left_s / usual.delay;
    let own = made.expected_s / earlier[0].expected_s;
    // Less capacity is the storage's: what others left is told at the usual one.
    let others = if plan.rebuild < 1.0 { 1.0 } else { delay.min(rest) };
    let zero_s = made.run.zero_unix_s.unwrap_or(0.0);
    match kind {
        "no_log" | "own_no_log" => rows.clear(),
        "foreign_log" => rows.iter_mut().for_each(|row| row[2] *= 0.05),
        "hole" => rows.retain(|row| row[0] < zero_s || row[0] > zero_s + made.run.run_s.unwrap_or(0.0)),
        _ => {}
    }
    let causes: [f64; 3] = [own.ln(), others.ln(), (rest / others).ln()];
    let sum: f64 = causes.iter().map(|cause| cause.max(0.0)).sum();
    // Near a third, chance decides between one cause and two.
    let is_near = kind.starts_with("mixed") && causes.iter().filter(|cause| **cause > 0.4 * sum).count() < 2;
    Case {
        accept: if is_near { &["mixed", "own", "others", "storage", "unknown"] } else { accept },
        run: made.run,
        history: earlier.into_iter().map(|made| made.run).collect(),
        load: load_of(rows, plan.logger.step_s),
        factor: own * rest,
        causes,
        changed,
    }
}
