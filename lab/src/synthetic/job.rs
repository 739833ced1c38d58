//! Jobs whose rhythm changes, as the events that a tracer sends.

use iotide_trace::{Event, Op, Rank, Timestamp};

use super::random::Random;

/// A synthetic job and the truth about it.
pub struct Job {
    /// By their ends, as a tracer sends them.
    pub events: Vec<Event>,
    /// One row per rhythm: the starts of its phases. The first moves most bytes.
    pub rhythms: Vec<Vec<f64>>,
    /// Phases of the first rhythm from which on distances are others than before.
    pub changes: Vec<usize>,
}

type Make = fn(&mut Random) -> Job;

/// The kinds of jobs by name.
pub const KINDS: [(&str, Make); 6] = [
    ("steady", steady),
    ("jump", jump),
    ("drift", drift),
    ("pause and return", pause),
    ("there and back again", back_again),
    ("two interleaved", interleaved),
];

/// The name and the events of a job of any kind.
pub fn any_job(random: &mut Random) -> (&'static str, Vec<Event>) {
    let (kind, make) = *random.pick(&KINDS);
    (kind, make(random).events)
}

/// Writes of a few ranks, in one phase from `start_s`.
fn phase(random: &mut Random, events: &mut Vec<Event>, start_s: f64, length_s: f64, bytes: f64) {
    const RANKS: i32 = 8;
    const CHUNKS: usize = 6;
    for rank in 0..RANKS {
        let mut at_s = start_s + if rank == 0 { 0.0 } else { random.uniform(0.0, 0.05) * length_s };
        let end_s = start_s + length_s * random.uniform(0.9, 1.0);
        for chunk in 0..CHUNKS {
            let until_s = at_s
                + (end_s - at_s) / (CHUNKS - chunk) as f64
                    * random.uniform(0.7, 1.3).min((CHUNKS - chunk) as f64);
            let busy_s = at_s + (until_s - at_s) * random.uniform(0.8, 1.0);
            events.push(event(rank, at_s, busy_s, bytes / f64::from(RANKS) / CHUNKS as f64));
            at_s = until_s;
        }
    }
}

/// A write of a rank.
pub fn event(rank: i32, start_s: f64, end_s: f64, bytes: f64) -> Event {
    let at = |secs| Timestamp::from_secs_since_start(secs).expect("a time");
    Event::data(Op::Write, Rank(rank), at(start_s), at(end_s), bytes)
}

/// Properties that all kinds share: the shape of a phase, how unsteady the job is, and whether a log is written beside.
struct Character {
    period_s: f64,
    busy: f64,
    jitter: f64,
    bytes: f64,
    log: bool,
    first_s: f64,
}

impl Character {
    fn any(random: &mut Random) -> Self {
        Self {
            period_s: random.log_normal(20.0, 1.2).clamp(1.0, 600.0),
            busy: random.uniform(0.08, 0.45),
            jitter: *random.pick(&[0.0, 0.01, 0.03]),
            bytes: random.log_normal(1e10, 2.0),
            log: random.chance(0.25),
            first_s: random.uniform(0.0, 3.0),
        }
    }

    /// A job whose distances are `distances_s`, but for the jitter; `length` is of a phase, in periods.
    fn job(&self, random: &mut Random, distances_s: &[f64], changes: Vec<usize>) -> Job {
        let mut starts = Vec::new();
        let mut events = Vec::new();
        let mut at_s = self.first_s * self.period_s;
        let length_s = self.busy * distances_s.iter().copied().fold(f64::INFINITY, f64::min);
        for &distance_s in distances_s {
            starts.push(at_s);
            let length_s = length_s * random.log_normal(1.0, 0.05);
            let bytes = self.bytes * random.log_normal(1.0, 0.03);
            phase(random, &mut events, at_s, length_s, bytes);
            at_s += distance_s * (1.0 + self.jitter * random.normal(0.0, 1.0)).max(0.5);
        }
        if self.log {
            let every_s = self.period_s / random.uniform(3.0, 9.0);
            write_log(random, &mut events, at_s, every_s, self.bytes * 1e-5);
        }
        finished(events, vec![starts], changes)
    }
}

fn write_log(random: &mut Random, events: &mut Vec<Event>, until_s: f64, every_s: f64, bytes: f64) {
    let mut at_s = random.uniform(0.0, every_s);
    while at_s < until_s {
        events.push(event(0, at_s, at_s + 0.002, bytes));
        at_s += every_s * random.uniform(0.7, 1.3);
    }
}

fn finished(mut events: Vec<Event>, rhythms: Vec<Vec<f64>>, changes: Vec<usize>) -> Job {
    events.sort_by_key(|event| event.end);
    Job { events, rhythms, changes }
}

fn steady(random: &mut Random) -> Job {
    let character = Character::any(random);
    character.job(random, &[character.period_s; 60], Vec::new())
}

fn jump(random: &mut Random) -> Job {
    let character = Character::any(random);
    let n_before = random.whole(12, 30);
    let factor = if random.chance(0.5) { random.uniform(0.3, 0.7) } else { random.uniform(1.4, 3.5) };
    let mut distances_s = vec![character.period_s; n_before];
    distances_s.extend([character.period_s * factor; 30]);
    character.job(random, &distances_s, vec![n_before])
}

fn drift(random: &mut Random) -> Job {
    let character = Character::any(random);
    let growth = 1.0 + random.uniform(0.005, 0.02) * if random.chance(0.5) { 1.0 } else { -1.0 };
    let distances_s: Vec<f64> = (0..60).map(|i| character.period_s * growth.powi((i - 10).max(0))).collect();
    character.job(random, &distances_s, Vec::new())
}

fn pause(random: &mut Random) -> Job {
    let character = Character::any(random);
    let n_before = random.whole(12, 30);
    let mut distances_s = vec![character.period_s; n_before];
    distances_s.push(character.period_s * random.uniform(4.0, 25.0));
    distances_s.extend([character.period_s; 30]);
    character.job(random, &distances_s, vec![n_before + 1])
}

fn back_again(random: &mut Random) -> Job {
    let character = Character::any(random);
    let factor = if random.chance(0.5) { random.uniform(0.3, 0.7) } else { random.uniform(1.4, 3.5) };
    let mut distances_s = vec![character.period_s; 15];
    distances_s.extend([character.period_s * factor; 15]);
    distances_s.extend([character.period_s; 15]);
    character.job(random, &distances_s, vec![15, 30])
}

/// A dump every so often, and a heavier checkpoint at a rate of its own.
fn interleaved(random: &mut Random) -> Job {
    let fast = Character::any(random);
    let slow_s = fast.period_s * random.uniform(3.3, 7.7);
    let until_s = 14.0 * slow_s;
    let mut events = Vec::new();
    let mut series = |random: &mut Random, period_s: f64, length_s: f64, bytes: f64| {
        let (mut starts, mut at_s) = (Vec::new(), random.uniform(0.0, period_s));
        while at_s < until_s {
            starts.push(at_s);
            let length_s = length_s * random.log_normal(1.0, 0.05);
            phase(random, &mut events, at_s, length_s, bytes);
            at_s += period_s * (1.0 + fast.jitter * random.normal(0.0, 1.0));
        }
        starts
    };
    let busy_s = 0.15 * fast.period_s;
    let light = series(random, fast.period_s, busy_s, fast.bytes);
    let (longer, heavier) = (random.uniform(2.0, 4.0), random.uniform(15.0, 30.0));
    let heavy = series(random, slow_s, busy_s * longer, fast.bytes * heavier);
    finished(events, vec![heavy, light], Vec::new())
}
