//! Traces whose rhythm is known: the semi-synthetic ones of section III-A of the FTIO paper, and what it leaves out.

use iotide_trace::Op;

use super::random::Random;
use super::trace::{BESIDE, Request, Trace, Truth};

/// A trace by which an estimate of the period is scored.
pub struct Workload {
    /// Its beats are the mean distances of phase starts, that of the phases that move most bytes first.
    pub trace: Trace,
    /// "Not periodic" is a fair answer too (the paper's traces with σ/μ ≥ 1).
    pub may_refuse: bool,
    /// Something else in the trace has a rhythm of about this period; to find it is neither right nor wrong.
    pub beside_s: Option<f64>,
}

impl Workload {
    fn periodic(family: &str, requests: Vec<Request>, periods_s: Vec<f64>) -> Self {
        let trace = Trace { family: family.to_owned(), requests, truth: Truth::Beats(periods_s) };
        Self { trace, may_refuse: false, beside_s: None }
    }

    fn aperiodic(requests: Vec<Request>) -> Self {
        let trace = Trace { family: "aperiodic".to_owned(), requests, truth: Truth::None };
        Self { trace, may_refuse: true, beside_s: None }
    }

    /// All true periods; none: aperiodic.
    pub fn periods_s(&self) -> &[f64] {
        self.trace.beats_s()
    }
}

/// A write of a rank.
fn write(rank: i32, start_s: f64, end_s: f64, bytes: f64) -> Request {
    let nanos = |secs: f64| (secs * 1e9).round() as i64;
    let (start, end) = (nanos(start_s), nanos(end_s));
    Request { rank, file: rank.unsigned_abs(), op: Op::Write, start, end, bytes, phase: BESIDE }
}

const RANKS: i32 = 32;
const CHUNKS: usize = 20;
const GB: f64 = 1e9;

/// One I/O phase as IOR leaves it on 32 ranks: about 10.4 s, a few stragglers, rates that waver. `scale` stretches it.
/// Returns when it ends.
fn ior_phase(
    random: &mut Random,
    requests: &mut Vec<Request>,
    at_s: f64,
    scale: f64,
    delay: &mut dyn FnMut(&mut Random, i32) -> f64,
) -> f64 {
    let longest = scale * (10.22 + random.exponential(0.18)).min(13.34);
    let bytes = 3.5 * GB / CHUNKS as f64 * scale;
    let mut last_s = at_s;
    for rank in 0..RANKS {
        let length = longest * random.uniform(0.93, 1.0);
        let weights: Vec<f64> = (0..CHUNKS).map(|_| random.uniform(0.5, 1.5)).collect();
        let total: f64 = weights.iter().sum();
        let mut start_s = at_s + delay(random, rank);
        for weight in weights {
            let end_s = start_s + length * weight / total;
            requests.push(write(rank, start_s, end_s, bytes));
            start_s = end_s;
        }
        last_s = last_s.max(start_s);
    }
    last_s
}

/// The paper's application: compute, then write; `J = 20` times.
pub fn phases(
    random: &mut Random,
    family: &'static str,
    compute_mean_s: f64,
    compute_std_s: f64,
    delay_mean_s: f64,
    noise_bps: Option<f64>,
) -> Workload {
    phases_n(random, family, 20, 1.0, compute_mean_s, compute_std_s, delay_mean_s, noise_bps)
}

#[allow(clippy::too_many_arguments)] // one call site per row of the paper's table reads best flat
pub fn phases_n(
    random: &mut Random,
    family: &'static str,
    n_phases: usize,
    scale: f64,
    compute_mean_s: f64,
    compute_std_s: f64,
    delay_mean_s: f64,
    noise_bps: Option<f64>,
) -> Workload {
    let mut requests = Vec::new();
    let mut starts = Vec::new();
    let mut at_s = 0.0;
    for _ in 0..n_phases {
        at_s += if compute_std_s > 0.0 {
            random.positive_normal(compute_mean_s, compute_std_s)
        } else {
            compute_mean_s
        };
        starts.push(at_s);
        at_s = ior_phase(random, &mut requests, at_s, scale, &mut |random, rank| {
            if rank == 0 || delay_mean_s == 0.0 { 0.0 } else { random.exponential(delay_mean_s) }
        });
    }
    if let Some(rate_bps) = noise_bps {
        requests.extend(noise(random, at_s, rate_bps));
    }
    Workload {
        may_refuse: compute_std_s >= compute_mean_s,
        beside_s: noise_bps.map(|_| 2.2),
        ..Workload::periodic(family, requests, vec![mean_distance(&starts)])
    }
}

/// A single process beside the job, in rounds of ten bursts of about 2.2 s.
fn noise(random: &mut Random, until_s: f64, rate_bps: f64) -> Vec<Request> {
    let mut requests = Vec::new();
    let mut at_s = 0.0;
    while at_s < until_s {
        for _ in 0..10 {
            let busy_s = random.uniform(1.2, 1.6);
            let rate_bps = rate_bps * random.uniform(0.85, 1.15);
            requests.push(write(RANKS, at_s, at_s + busy_s, rate_bps * busy_s));
            at_s += random.uniform(2.1, 2.3);
        }
    }
    requests
}

/// A burst of all ranks together, in chunks.
fn burst(random: &mut Random, requests: &mut Vec<Request>, start_s: f64, length_s: f64, bytes: f64) {
    let n_ranks = 8;
    for rank in 0..n_ranks {
        let mut at_s = start_s;
        for _ in 0..6 {
            let end_s = at_s + length_s / 6.0 * random.uniform(0.9, 1.0);
            requests.push(write(rank, at_s, end_s, bytes / f64::from(n_ranks) / 6.0));
            at_s = end_s;
        }
    }
}

/// Two rhythms at once: a checkpoint now and then, an analysis dump more often.
pub fn interleaved(random: &mut Random) -> Workload {
    let short_s = random.uniform(8.0, 40.0);
    let ratio = if random.chance(0.4) { random.whole(3, 9) as f64 } else { random.uniform(2.6, 9.0) };
    let long_s = short_s * ratio;
    let jitter = *random.pick(&[0.0, 0.01, 0.03]);
    let n_long = random.whole(7, 20);
    let run_s = long_s * n_long as f64;
    let mut requests = Vec::new();
    let mut rhythm = |random: &mut Random, period_s: f64, duty: f64, bytes: f64| {
        let mut starts = Vec::new();
        let mut at_s = random.uniform(0.0, period_s);
        while at_s < run_s {
            starts.push(at_s);
            let bytes = bytes * random.uniform(0.95, 1.05);
            let length_s = period_s * duty * random.uniform(0.9, 1.1);
            burst(random, &mut requests, at_s, length_s, bytes);
            at_s += period_s * (1.0 + random.normal(0.0, jitter));
        }
        (mean_distance(&starts), bytes * starts.len() as f64)
    };
    let duty = random.uniform(0.05, 0.2);
    let dump = rhythm(random, short_s, duty, 2.0 * GB);
    let duty = random.uniform(0.05, 0.15);
    let bytes = 2.0 * GB * random.uniform(2.0, 30.0);
    let checkpoint = rhythm(random, long_s, duty, bytes);
    let (first, second) = if dump.1 > checkpoint.1 { (dump, checkpoint) } else { (checkpoint, dump) };
    Workload::periodic("interleaved", requests, vec![first.0, second.0])
}

/// A loop that dumps every step and writes a checkpoint every few, so that the rhythms are locked.
pub fn nested(random: &mut Random) -> Workload {
    let compute_s = random.uniform(5.0, 30.0);
    let every = random.whole(3, 10);
    let dump_s = compute_s * random.uniform(0.05, 0.25);
    let checkpoint_s = dump_s * random.uniform(1.5, 4.0);
    let (dump_bytes, checkpoint_bytes) = (2.0 * GB, 2.0 * GB * random.uniform(3.0, 20.0));
    let jitter = *random.pick(&[0.0, 0.02, 0.05]);
    let mut requests = Vec::new();
    let (mut dumps, mut checkpoints) = (Vec::new(), Vec::new());
    let mut at_s = 0.0;
    for step in 1..=every * random.whole(7, 14) {
        at_s += compute_s * (1.0 + random.normal(0.0, jitter));
        dumps.push(at_s);
        burst(random, &mut requests, at_s, dump_s, dump_bytes);
        at_s += dump_s;
        if step % every == 0 {
            at_s += dump_s * random.uniform(0.1, 0.5);
            checkpoints.push(at_s);
            burst(random, &mut requests, at_s, checkpoint_s, checkpoint_bytes);
            at_s += checkpoint_s;
        }
    }
    let (dump, checkpoint) = (mean_distance(&dumps), mean_distance(&checkpoints));
    let periods_s = if dumps.len() as f64 * dump_bytes > checkpoints.len() as f64 * checkpoint_bytes {
        vec![dump, checkpoint]
    } else {
        vec![checkpoint, dump]
    };
    Workload::periodic("nested", requests, periods_s)
}

/// Puts the requests of a run of about this many seconds together.
type Aperiodic = fn(&mut Random, &mut Vec<Request>, f64);

/// Runs without a rhythm.
const APERIODIC: [Aperiodic; 12] = [
    // Bursts at any time, of any size.
    |random, r, run_s| {
        for _ in 0..random.whole(8, 40) {
            let (at, length, bytes) =
                (random.uniform(0.0, run_s), random.log_normal(6.0, 0.8), random.log_normal(20.0 * GB, 1.0));
            burst(random, r, at, length, bytes);
        }
    },
    // Equal bursts at any time.
    |random, r, run_s| {
        for _ in 0..random.whole(8, 40) {
            let at = random.uniform(0.0, run_s);
            burst(random, r, at, 5.0, 20.0 * GB);
        }
    },
    // Equal phases, waiting times without memory.
    |random, r, _| {
        let (mut at, n) = (0.0, random.whole(12, 30));
        let mean = random.uniform(10.0, 60.0);
        for _ in 0..n {
            at += random.exponential(mean);
            burst(random, r, at, 6.0, 20.0 * GB);
            at += 6.0;
        }
    },
    // Waiting times with a heavy tail, any size.
    |random, r, _| {
        let mut at = 0.0;
        for _ in 0..random.whole(10, 30) {
            at += random.log_normal(12.0, 1.2);
            let (length, bytes) = (random.log_normal(4.0, 0.7), random.log_normal(10.0 * GB, 1.0));
            burst(random, r, at, length, bytes);
            at += length;
        }
    },
    // One to three bursts.
    |random, r, run_s| {
        for _ in 0..random.whole(1, 3) {
            let (at, length) = (random.uniform(0.0, run_s), random.uniform(2.0, 60.0));
            let bytes = random.log_normal(20.0 * GB, 1.0);
            burst(random, r, at, length, bytes);
        }
    },
    // A stream that wavers (autoregressive).
    |random, r, run_s| {
        let (mut level, memory) = (0.0, random.uniform(0.0, 0.95));
        for i in 0..run_s as usize {
            level = memory * level + random.normal(0.0, 1.0);
            let rate = (4.0 + level).max(0.0) * GB;
            r.push(write(0, i as f64, i as f64 + 1.0, rate));
        }
    },
    // Input at the start, output at the end, a little in between.
    |random, r, run_s| {
        let length = random.uniform(10.0, 60.0);
        burst(random, r, 0.0, length, 100.0 * GB);
        burst(random, r, run_s - 30.0, 30.0, 80.0 * GB);
        for _ in 0..random.whole(0, 4) {
            let at = random.uniform(100.0, run_s - 60.0);
            burst(random, r, at, 5.0, 10.0 * GB);
        }
    },
    // Waiting times that grow (convergence slows down).
    |random, r, _| {
        let (mut at, mut wait, growth) = (0.0, 4.0, random.uniform(1.15, 1.5));
        for _ in 0..random.whole(7, 14) {
            burst(random, r, at, 3.0, 10.0 * GB);
            at += 3.0 + wait;
            wait *= growth;
        }
    },
    // A random walk.
    |random, r, run_s| {
        let mut level = 5.0f64;
        for i in 0..run_s as usize {
            level = (level + random.normal(0.0, 0.4)).clamp(0.0, 12.0);
            r.push(write(0, i as f64, i as f64 + 1.0, level * GB));
        }
    },
    // The paper's phases, but waiting times without memory.
    |random, r, _| {
        let mean = random.uniform(11.0, 60.0);
        let mut at = 0.0;
        for _ in 0..20 {
            at += random.exponential(mean);
            at = ior_phase(random, r, at, 1.0, &mut |_, _| 0.0);
        }
    },
    // The paper's phases, but waiting times with a heavy tail and any size.
    |random, r, _| {
        let mut at = 0.0;
        for _ in 0..random.whole(8, 25) {
            at += random.log_normal(11.0, 1.0);
            let scale = random.log_normal(1.0, 0.6);
            at = ior_phase(random, r, at, scale, &mut |_, _| 0.0);
        }
    },
    // Sessions: clusters of small bursts, with long silences.
    |random, r, _| {
        let mut at = 0.0;
        for _ in 0..random.whole(4, 9) {
            at += random.exponential(100.0);
            for _ in 0..random.whole(1, 8) {
                let (length, bytes) = (random.uniform(0.5, 4.0), random.log_normal(4.0 * GB, 0.8));
                burst(random, r, at, length, bytes);
                at += length + random.exponential(5.0);
            }
        }
    },
];

/// How many kinds [`aperiodic`] knows.
pub const APERIODIC_KINDS: usize = APERIODIC.len();

/// A run without a rhythm, of the given kind.
pub fn aperiodic(random: &mut Random, kind: usize) -> Workload {
    let mut requests = Vec::new();
    let run_s = random.uniform(300.0, 2000.0);
    APERIODIC[kind % APERIODIC_KINDS](random, &mut requests, run_s);
    Workload::aperiodic(requests)
}

/// Phases of several bursts, phases that vary in size, a slow log beside them: periodic, but not as the paper's are.
pub fn odd_shapes(random: &mut Random) -> Workload {
    let n = if random.chance(0.3) { random.whole(3, 5) } else { random.whole(6, 40) };
    let period_s = random.log_normal(40.0, 0.8);
    let jitter = random.uniform(0.0, 0.08);
    let n_sub = random.whole(1, 4);
    let (size_spread, duty) = (*random.pick(&[0.0, 0.0, 0.1, 0.3]), random.uniform(0.05, 0.5));
    let mut requests = Vec::new();
    let mut starts = Vec::new();
    let mut at_s = random.uniform(0.0, period_s);
    for _ in 0..n {
        starts.push(at_s);
        let size = random.log_normal(1.0, size_spread);
        for sub in 0..n_sub {
            let step = period_s * duty / n_sub as f64;
            let filled = if n_sub == 1 { 1.0 } else { random.uniform(0.4, 0.7) };
            burst(random, &mut requests, at_s + sub as f64 * step, step * filled, 4.0 * GB * size);
        }
        at_s += period_s * (1.0 + random.normal(0.0, jitter)).max(duty + 0.05);
    }
    let mut beside_s = None;
    if random.chance(0.3) {
        // A log line every so often: many, tiny.
        let step = period_s * random.uniform(0.05, 0.3);
        beside_s = Some(step);
        let mut t = 0.0;
        while t < at_s {
            requests.push(write(0, t, t + step * 0.1, 2e6));
            t += step;
        }
    }
    Workload { beside_s, ..Workload::periodic("odd shapes", requests, vec![mean_distance(&starts)]) }
}

/// The paper's application at any size: other numbers of phases, lengths, spreads and delays.
pub fn any_size(random: &mut Random) -> Workload {
    let n_phases = if random.chance(0.2) { random.whole(3, 5) } else { random.whole(6, 50) };
    phases_of_any_size(random, n_phases, &[0.0, 0.0, 0.1, 0.3, 0.5])
}

/// The same with a handful of phases, more or less even.
pub fn few_phases(random: &mut Random) -> Workload {
    let n_phases = random.whole(3, 7);
    phases_of_any_size(random, n_phases, &[0.0, 0.0, 0.1, 0.2, 0.3])
}

/// A handful of equal bursts at any time.
pub fn few_at_random(random: &mut Random) -> Workload {
    let (run_s, length_s) = (random.uniform(300.0, 2000.0), random.log_normal(5.0, 0.8));
    let mut requests = Vec::new();
    for _ in 0..random.whole(3, 8) {
        let at_s = random.uniform(0.0, run_s);
        burst(random, &mut requests, at_s, length_s, 20.0 * GB);
    }
    Workload::aperiodic(requests)
}

fn phases_of_any_size(random: &mut Random, n_phases: usize, spreads: &[f64]) -> Workload {
    let scale = random.log_normal(0.5, 0.8);
    let compute_s = 10.4 * scale * random.log_normal(1.0, 1.0);
    let spread = *random.pick(spreads);
    let delay_s = *random.pick(&[0.0, 0.0, 0.05, 0.2, 1.0]) * 10.4 * scale;
    let noise_bps = *random.pick(&[None, None, Some(0.5e9), Some(1e9)]);
    phases_n(random, "any size", n_phases, scale, compute_s, spread * compute_s, delay_s, noise_bps)
}

fn mean_distance(starts: &[f64]) -> f64 {
    (starts[starts.len() - 1] - starts[0]) / (starts.len() - 1) as f64
}
