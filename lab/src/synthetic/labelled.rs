//! Runs with known labels, made from a seed: what programs do, and what makes that hard to see.

use std::collections::{BTreeMap, BTreeSet};

use iotide_analysis::{Access, BusyTime, Category, Magnitude, MetadataLoad, Observed, Temporality};
use iotide_trace::{Event, EventSink, JobInfo, Op, Rank, Timestamp};

use super::random::Random;

/// A run whose labels are known.
pub struct Case {
    pub name: String,
    pub kind: String,
    pub observed: Observed,
    pub job: JobInfo,
    pub truth: Truth,
}

/// True labels and periods of a run.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    pub labels: BTreeSet<Category>,
    /// Of which accesses the temporality is not asserted.
    pub any: Vec<Access>,
    /// The true periods where the run is periodic.
    pub periods_s: BTreeMap<Access, Vec<f64>>,
}

/// Returns `n` runs of each kind.
pub fn runs(n: usize, seed: u64) -> Vec<Case> {
    let mut random = Random::new(seed);
    let mut cases = Vec::with_capacity(n * KINDS.len());
    for (kind, make) in KINDS {
        for i in 0..n {
            let mut run = Run::new(&mut random, kind);
            make(&mut run, &mut random);
            cases.push(run.finish(format!("{kind}-{i}")));
        }
    }
    cases
}

/// The kind and the events of one run of any kind.
pub fn any_run(random: &mut Random) -> (&'static str, Vec<Event>) {
    let (kind, make) = *random.pick(KINDS);
    let mut run = Run::new(random, kind);
    make(&mut run, random);
    (kind, run.events)
}

type Make = fn(&mut Run, &mut Random);

const KINDS: &[(&str, Make)] = &[
    ("insignificant", |run, random| {
        for op in [Op::Read, Op::Write] {
            let (start, length) = (random.uniform(0.0, 0.6), random.uniform(0.01, 0.4));
            run.shared(op, start, length, random.uniform(1e3, 2e7));
        }
    }),
    ("read, compute, write", |run, random| {
        let (reads, writes) = (run.volume(random), run.volume(random));
        let start = random.uniform(0.0, 0.05);
        run.everyone(random, Op::Read, start, 0.1, reads);
        run.everyone(random, Op::Write, 0.85, 0.1, writes);
        run.when(Access::Read, Temporality::OnStart);
        run.when(Access::Write, Temporality::OnEnd);
    }),
    ("one place", |run, random| {
        let (when, parts) = *random.pick(PLACES);
        let access = run.pick_access(random);
        let bytes = run.volume(random);
        for (from, to) in parts {
            let (inset, length) = (0.04, to - from);
            run.shared(op_of(access), from + inset * length, length * (1.0 - 2.0 * inset), bytes);
        }
        run.when(access, when);
    }),
    ("one place, at odd times", |run, random| {
        // Uneven volumes at uneven times, evenly enough over the place to be of it.
        let (when, parts) = *random.pick(&PLACES[..5]);
        let access = run.pick_access(random);
        let bytes = run.volume(random);
        let n = random.whole(8, 24);
        for (from, to) in parts {
            for i in 0..n {
                // As many in each quarter of the place, anywhere in it.
                let at = ((i * 4 / n) as f64 + random.unit()) / 4.0;
                let start = from + (to - from) * (0.03 + 0.92 * at);
                let bytes = bytes / n as f64 * random.uniform(0.2, 1.8);
                run.everyone(random, op_of(access), start, 0.004, bytes);
            }
        }
        run.when(access, when);
    }),
    ("across a border", |run, random| {
        let access = run.pick_access(random);
        let bytes = run.volume(random);
        let (when, from, to) = *random.pick(&[
            (Temporality::OnStart, 0.02, 0.34),
            (Temporality::OnEnd, 0.67, 0.98),
            (Temporality::AfterStartBeforeEnd, 0.2, 0.76),
            (Temporality::AfterStart, 0.19, 0.99),
            (Temporality::BeforeEnd, 0.01, 0.8),
        ]);
        run.shared(op_of(access), from, to - from, bytes);
        run.when(access, when);
    }),
    ("periodic", |run, random| {
        let n = random.whole(6, 40);
        run.periodic(random, n, 0.02, 0.02);
    }),
    ("periodic, uneven", |run, random| {
        let n = random.whole(8, 40);
        let jitter = *random.pick(&[0.05, 0.1, 0.2]);
        run.periodic(random, n, jitter, jitter);
    }),
    ("few checkpoints", |run, random| {
        let n = random.whole(3, 6);
        run.periodic(random, n, 0.02, 0.01);
    }),
    ("checkpoints and a result", |run, random| {
        let n = random.whole(7, 20);
        let period = 1.0 / (n as f64 + 1.0);
        let bytes = run.volume(random);
        for i in 0..n {
            run.everyone(random, Op::Write, (i as f64 + 0.8) * period, 0.1 * period, bytes);
        }
        let result = bytes * n as f64 * random.uniform(8.0, 20.0);
        run.everyone(random, Op::Write, 0.96, 0.03, result);
        run.everyone(random, Op::Read, 0.02, 0.08, 5e9);
        run.when(Access::Read, Temporality::OnStart);
        run.when(Access::Write, Temporality::OnEnd);
        run.beat(Access::Write, period, 0.1);
    }),
    ("two rhythms", |run, random| {
        let (n_long, ratio) = (random.whole(5, 12), *random.pick(&[2.5, 3.0, 5.0, 6.0]));
        let long = 0.98 / n_long as f64;
        let short = long / ratio;
        let bytes = run.volume(random);
        let heavier = *random.pick(&[1.0, 4.0, 20.0]);
        for i in 0..(0.98 / short) as usize {
            run.everyone(random, Op::Write, (i as f64 + 0.3) * short, 0.06 * short, bytes);
        }
        for i in 0..n_long {
            run.everyone(random, Op::Write, (i as f64 + 0.55 / ratio) * long, 0.06 * long, bytes * heavier);
        }
        run.when(Access::Write, Temporality::Steady);
        run.beat(Access::Write, short, 0.06);
        run.beat(Access::Write, long, 0.06);
    }),
    ("beats left out", |run, random| {
        let n = random.whole(14, 28);
        let (period, bytes) = (1.0 / n as f64, run.volume(random));
        for i in 0..n {
            if i == 0 || i + 1 == n || !random.chance(0.25) {
                run.everyone(random, Op::Write, (i as f64 + 0.6) * period, 0.08 * period, bytes);
            }
        }
        run.when(Access::Write, Temporality::Steady);
        run.beat(Access::Write, period, 0.08);
    }),
    ("a change of period", |run, random| {
        let (n, ratio) = (random.whole(5, 12), random.uniform(1.5, 2.2));
        let period = 1.0 / (n as f64 * (1.0 + ratio));
        let bytes = run.volume(random);
        for i in 0..n {
            run.everyone(random, Op::Write, (i as f64 + 0.5) * period, 0.08 * period, bytes);
            let later = n as f64 * period + (i as f64 + 0.5) * ratio * period;
            run.everyone(random, Op::Write, later, 0.08 * period, bytes);
        }
        run.any(Access::Write);
        run.beat(Access::Write, period, 0.08);
        run.beat(Access::Write, ratio * period, 0.08 / ratio);
    }),
    ("ranks drift apart", |run, random| {
        let n = random.whole(8, 24);
        let (period, bytes, skew) = (1.0 / n as f64, run.volume(random), random.uniform(0.05, 0.25));
        for i in 0..n {
            let late = skew * period * i as f64 / n as f64;
            for rank in 0..run.n_ranks {
                let start = (i as f64 + 0.4) * period + late * f64::from(rank) / f64::from(run.n_ranks);
                let share = bytes / f64::from(run.n_ranks);
                run.op(Op::Write, Rank(rank), start, 0.06 * period, share, 1);
            }
        }
        run.when(Access::Write, Temporality::Steady);
        run.beat(Access::Write, period, 0.06 + 0.5 * skew);
    }),
    ("at random", |run, random| {
        let access = run.pick_access(random);
        for _ in 0..random.whole(5, 20) {
            let bytes = 10f64.powf(random.uniform(8.1, 11.0));
            let start = random.uniform(0.0, 0.98);
            run.everyone(random, op_of(access), start, 0.005, bytes);
        }
        run.any(access);
    }),
    ("at random, alike", |run, random| {
        // Poisson arrivals of equal volume: nothing but the distances tells them from a rhythm.
        let access = run.pick_access(random);
        let bytes = run.volume(random);
        for _ in 0..random.whole(8, 24) {
            let start = random.uniform(0.0, 0.98);
            run.everyone(random, op_of(access), start, 0.002, bytes);
        }
        run.any(access);
    }),
    ("kept open", |run, random| {
        let bytes = run.volume(random);
        run.shared(Op::Write, 0.03, 0.94, bytes);
        run.when(Access::Write, Temporality::Steady);
    }),
    ("a storm of opens", |run, random| {
        let n = random.whole(270, 600);
        let at = random.uniform(0.05, 0.9);
        run.storm(random, at, n);
        run.load(MetadataLoad::HighSpike);
        run.any(Access::Read);
    }),
    ("no storm yet", |run, random| {
        let n = random.whole(60, 115);
        let at = random.uniform(0.05, 0.9);
        run.storm(random, at, n);
        run.any(Access::Read);
    }),
    ("several gusts", |run, random| {
        for _ in 0..random.whole(7, 15) {
            let (at, n) = (random.uniform(0.02, 0.95), random.whole(55, 100));
            run.storm(random, at, n);
        }
        run.load(MetadataLoad::MultipleSpikes);
        run.any(Access::Read);
    }),
    ("opened again and again", |run, random| {
        let bytes = run.volume(random);
        let opens = random.whole(30, 60) as u32;
        for rank in 0..run.n_ranks {
            let share = bytes / f64::from(run.n_ranks);
            run.op(Op::Write, Rank(rank), 0.02, 0.96, share, opens);
        }
        run.when(Access::Write, Temporality::Steady);
    }),
];

/// Which parts of the run each label stands for.
const PLACES: &[(Temporality, &[(f64, f64)])] = &[
    (Temporality::OnStart, &[(0.0, 0.2)]),
    (Temporality::AfterStart, &[(0.25, 1.0)]),
    (Temporality::BeforeEnd, &[(0.0, 0.75)]),
    (Temporality::AfterStartBeforeEnd, &[(0.25, 0.75)]),
    (Temporality::Steady, &[(0.0, 1.0)]),
    (Temporality::OnEnd, &[(0.8, 1.0)]),
    (Temporality::OnStartAndOnEnd, &[(0.0, 0.15), (0.85, 1.0)]),
];

/// A run in the making. Times are shares of the run.
struct Run {
    kind: &'static str,
    time_s: f64,
    n_ranks: i32,
    observed: Observed,
    /// Events that moved bytes, as `observed` recorded them.
    events: Vec<Event>,
    labels: BTreeSet<Category>,
    truth: Truth,
}

impl Run {
    fn new(random: &mut Random, kind: &'static str) -> Self {
        let time_s = 10f64.powf(random.uniform(2.7, 4.6));
        let n_ranks = *random.pick(&[4, 8, 16]);
        let (observed, labels, truth) = (Observed::new(), BTreeSet::new(), Truth::default());
        Self { kind, time_s, n_ranks, observed, events: Vec::new(), labels, truth }
    }

    fn volume(&self, random: &mut Random) -> f64 {
        10f64.powf(random.uniform(8.3, 12.0))
    }

    fn pick_access(&self, random: &mut Random) -> Access {
        *random.pick(&[Access::Read, Access::Write])
    }

    fn op(&mut self, op: Op, rank: Rank, start: f64, length: f64, bytes: f64, opens: u32) {
        let at = |share: f64| Timestamp::from_secs_since_start((share * self.time_s).clamp(0.0, self.time_s));
        let (Some(start), Some(end)) = (at(start), at(start + length)) else { return };
        let event = Event::data(op, rank, start, end, bytes);
        let _ = self.observed.event(event);
        self.events.push(event);
        let _ = self.observed.event(Event { op: Op::Open, bytes: 0.0, calls: opens, ..event });
    }

    /// One file, all ranks: a record of their sums.
    fn shared(&mut self, op: Op, start: f64, length: f64, bytes: f64) {
        self.op(op, Rank::ALL, start, length, bytes, self.n_ranks as u32);
    }

    /// A file for each rank, or one for all.
    fn everyone(&mut self, random: &mut Random, op: Op, start: f64, length: f64, bytes: f64) {
        if random.chance(0.4) {
            return self.shared(op, start, length, bytes);
        }
        for rank in 0..self.n_ranks {
            let length = length * random.uniform(0.9, 1.0);
            self.op(op, Rank(rank), start, length, bytes / f64::from(self.n_ranks), 1);
        }
    }

    /// `n` beats over the run, with deviations of the distances and of the volumes.
    fn periodic(&mut self, random: &mut Random, n: usize, jitter: f64, volume_jitter: f64) {
        let access = self.pick_access(random);
        let bytes = self.volume(random);
        let busy = random.pick(&[0.05f64, 0.12, 0.2, 0.5, 0.85]).min(0.9 - 2.0 * jitter);
        // Long enough that no gap is taken for a break within one operation.
        let period_s = 10f64.powf(random.uniform(0.8, 5.0));
        let gaps: Vec<f64> = (0..n).map(|_| (1.0 + random.normal(0.0, jitter)).clamp(0.6, 1.6)).collect();
        let lead = random.uniform(0.05, 0.9);
        self.time_s = period_s * (gaps.iter().sum::<f64>() + random.uniform(0.0, 0.1));
        let period = period_s / self.time_s;
        let mut at = lead * (gaps[n - 1] - busy).max(0.0) * period;
        for gap in &gaps {
            let bytes = bytes * (1.0 + random.normal(0.0, volume_jitter)).max(0.3);
            self.everyone(random, op_of(access), at, busy * period, bytes);
            at += gap * period;
        }
        self.when(access, Temporality::Steady);
        // What came out, not what was meant: a few uneven distances have a mean of their own.
        let mean = period * gaps[..n - 1].iter().sum::<f64>() / (n - 1) as f64;
        self.beat(access, mean, busy * period / mean);
    }

    /// So many ranks' worth of files opened within a second.
    fn storm(&mut self, random: &mut Random, at: f64, n: usize) {
        // From the middle of a second, so that all of it falls into one.
        let second = (at * self.time_s).floor();
        for i in 0..n {
            let start = (second + random.uniform(0.1, 0.8)) / self.time_s;
            let rank = Rank(i as i32 % self.n_ranks);
            self.op(Op::Read, rank, start, 5.0 / self.time_s, 1e6 * random.uniform(1.0, 9.0), 1);
        }
    }

    fn when(&mut self, access: Access, when: Temporality) {
        self.labels.insert(Category::When(access, when));
    }

    fn any(&mut self, access: Access) {
        self.truth.any.push(access);
    }

    fn load(&mut self, load: MetadataLoad) {
        self.labels.insert(Category::Metadata(load));
    }

    fn beat(&mut self, access: Access, period: f64, busy: f64) {
        let period_s = period * self.time_s;
        let magnitude = match period_s {
            ..=30.0 => Magnitude::Second,
            ..=1800.0 => Magnitude::Minute,
            ..=43200.0 => Magnitude::Hour,
            _ => Magnitude::DayOrMore,
        };
        self.labels.extend([Category::Periodic(access), Category::Period(access, magnitude)]);
        match busy {
            ..=0.25 => drop(self.labels.insert(Category::Busy(access, BusyTime::Low))),
            0.75.. => drop(self.labels.insert(Category::Busy(access, BusyTime::High))),
            _ => {}
        }
        self.truth.periods_s.entry(access).or_default().push(period_s);
    }

    fn finish(mut self, name: String) -> Case {
        for access in [Access::Read, Access::Write] {
            let said = |category: &Category| matches!(category, Category::When(whose, _) if *whose == access);
            if !self.labels.iter().any(said) && !self.truth.any.contains(&access) {
                self.labels.insert(Category::When(access, Temporality::Insignificant));
            }
        }
        if !self.labels.iter().any(|label| matches!(label, Category::Metadata(_))) {
            self.load(MetadataLoad::Insignificant);
        }
        self.truth.labels = self.labels;
        Case {
            name,
            kind: self.kind.to_owned(),
            observed: self.observed,
            job: JobInfo {
                run_time_s: Some(self.time_s),
                n_procs: u64::try_from(self.n_ranks).ok(),
                ..JobInfo::default()
            },
            truth: self.truth,
        }
    }
}

fn op_of(access: Access) -> Op {
    match access {
        Access::Read => Op::Read,
        Access::Write => Op::Write,
    }
}
