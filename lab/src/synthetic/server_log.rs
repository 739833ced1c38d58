//! Server logs of made runs, after the pseudo-applications of the IOSI paper (section 6): what the application would do
//! alone is known, what the log shows is that, delayed by what others do, plus what others do.

use iotide_analysis::Sample;

use super::random::Random;

/// An application that computes and writes in turns.
#[derive(Clone, Copy, Debug)]
pub struct Application {
    pub name: &'static str,
    period_s: f64,
    /// Bytes written by its bursts, over and over.
    volumes: &'static [f64],
    /// The share of the usual bandwidth that its bursts reach, over and over.
    heights: &'static [f64],
    n_bursts: usize,
}

/// The paper's three.
pub const APPLICATIONS: [Application; 3] = [
    Application { name: "IOR_A", period_s: 300.0, volumes: &[128e9], heights: &[1.0], n_bursts: 5 },
    Application { name: "IOR_B", period_s: 120.0, volumes: &[64e9, 16e9], heights: &[1.0], n_bursts: 10 },
    Application {
        name: "IOR_C",
        period_s: 120.0,
        volumes: &[64e9, 32e9, 16e9],
        heights: &[1.0],
        n_bursts: 10,
    },
];

/// After the paper's S3D: checkpoints of one size whose peaks differ, as in large jobs.
pub const UNEVEN: Application = Application {
    name: "S3D",
    period_s: 200.0,
    volumes: &[60e9],
    heights: &[1.0, 0.55, 0.8, 0.4, 0.9, 0.65],
    n_bursts: 6,
};

/// The bandwidth of a run that has the storage for itself: the paper's runs were made for 2 to 3 GB/s.
const ALONE_BPS: f64 = 2.5e9;
/// The steps in which a run is followed.
const TICK_S: f64 = 0.5;
/// The steps of the log, as those of Spider.
pub const INTERVAL_S: f64 = 2.0;

/// How much others do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    pub name: &'static str,
    /// The median of what is always there.
    floor_bps: f64,
    /// How far apart foreign bursts are, on average over the samples.
    distance_s: f64,
}

/// Noise of others on ordinary and on bad days.
pub const NOISES: [Noise; 2] = [
    Noise { name: "moderate", floor_bps: 0.085e9, distance_s: 180.0 },
    Noise { name: "heavy", floor_bps: 0.19e9, distance_s: 70.0 },
];

/// Runs of one application, and what it does alone.
#[derive(Clone, Debug)]
pub struct Case {
    pub name: String,
    pub application: String,
    pub noise: String,
    pub samples: Vec<Sample>,
    pub truth: Truth,
}

/// I/O of an application alone.
#[derive(Clone, Debug)]
pub struct Truth {
    pub interval_s: f64,
    pub bandwidth_bps: Vec<f64>,
    /// Start and end of each burst.
    pub bursts: Vec<(f64, f64)>,
}

/// Makes the log of `n_samples` runs: mostly ordinary ones, and some that should be told apart.
pub fn make(application: &Application, noise: &Noise, n_samples: usize, seed: u64) -> Case {
    let mut random = Random::new(seed);
    let silence = |_: &mut Random| 0.0;
    let (alone, bursts) = run(application, 0, &mut random, false, silence);
    let truth = Truth { interval_s: INTERVAL_S, bandwidth_bps: logged(&alone), bursts };
    // Most runs are ordinary: at least five.
    let mut n_odd = 0;
    let samples = (0..n_samples)
        .map(|i| {
            let is_odd = n_odd + 5 < n_samples && random.chance(0.12);
            n_odd += usize::from(is_odd);
            // Restarted from a checkpoint halfway, or on a day when others did several times as much.
            let is_restart = is_odd && random.chance(0.5);
            let level = if is_odd && !is_restart { random.uniform(4.0, 9.0) } else { 1.0 };
            let first_burst = if is_restart { application.n_bursts / 2 } else { 0 };
            let mut others = Others::new(noise, level, &mut random);
            let (values, _) = run(application, first_burst, &mut random, true, |random| others.next(random));
            Sample::whole(format!("s{i}"), INTERVAL_S, logged(&values))
        })
        .collect();
    Case {
        name: format!("{}-{}-{seed}", application.name, noise.name),
        application: application.name.to_owned(),
        noise: noise.name.to_owned(),
        samples,
        truth,
    }
}

/// Follows a run tick by tick: what the server sees, and when the bursts were.
fn run(
    application: &Application,
    first_burst: usize,
    random: &mut Random,
    is_real: bool,
    mut others: impl FnMut(&mut Random) -> f64,
) -> (Vec<f64>, Vec<(f64, f64)>) {
    let mut seen = Vec::new();
    let mut bursts = Vec::new();
    // The launcher takes its time.
    let launch_s = if is_real { random.exponential(1.5).min(10.0) } else { 0.0 };
    let mut pause_s = launch_s;
    for burst in first_burst..application.n_bursts {
        let volume = application.volumes[burst % application.volumes.len()];
        let alone_bps = ALONE_BPS * application.heights[burst % application.heights.len()];
        pause_s += application.period_s - volume / alone_bps;
        // Computing takes as long as it takes, give or take.
        pause_s += if is_real { random.normal(0.0, 0.4) } else { 0.0 };
        for _ in 0..(pause_s / TICK_S).round() as usize {
            seen.push(others(random));
        }
        pause_s = 0.0;
        let start_s = seen.len() as f64 * TICK_S;
        let mut left = volume;
        let mut jitter = 0.0;
        while left > 0.0 {
            let foreign = others(random);
            // Requests of all are served in turn, so that each loses what the others ask for.
            let share = alone_bps / (alone_bps + foreign);
            jitter = 0.7 * jitter + if is_real { random.normal(0.0, 0.09) } else { 0.0 };
            let rate = (alone_bps * share * (1.0 + jitter)).max(0.2 * alone_bps * share);
            let moved = (rate * TICK_S).min(left);
            left -= moved;
            seen.push(moved / TICK_S + foreign);
        }
        bursts.push((start_s, seen.len() as f64 * TICK_S));
    }
    for _ in 0..4 {
        seen.push(others(random));
    }
    (seen, bursts)
}

/// Returns the values of the log: means over its interval.
fn logged(ticks: &[f64]) -> Vec<f64> {
    let per_value = (INTERVAL_S / TICK_S) as usize;
    ticks.chunks(per_value).map(|chunk| (chunk.iter().sum::<f64>() / chunk.len() as f64).round()).collect()
}

/// All the other users of the storage.
struct Others {
    floor_bps: f64,
    /// The logarithm of the floor wanders around its median.
    wander: f64,
    bursts: Vec<Foreign>,
    distance_s: f64,
    /// Another application with a rhythm of its own: every so many ticks, for so many, so much.
    rhythm: Option<(usize, usize, f64)>,
    tick: usize,
}

struct Foreign {
    height_bps: f64,
    ticks_left: usize,
}

impl Others {
    fn new(noise: &Noise, level: f64, random: &mut Random) -> Self {
        let rhythm = random.chance(0.15).then(|| {
            let period_s = random.uniform(40.0, 200.0);
            let length_s = random.uniform(4.0, 0.25 * period_s);
            let height_bps = random.log_normal(0.7e9, 0.5);
            ((period_s / TICK_S) as usize, (length_s / TICK_S) as usize, height_bps)
        });
        Self {
            floor_bps: noise.floor_bps * level.sqrt(),
            wander: 0.0,
            bursts: Vec::new(),
            // Some days are worse than others.
            distance_s: noise.distance_s / level / random.log_normal(1.0, 0.5),
            rhythm,
            tick: random.whole(0, 1000),
        }
    }

    fn next(&mut self, random: &mut Random) -> f64 {
        self.tick += 1;
        // 0.9 a tick, so that values 2 s apart have a correlation of two thirds.
        self.wander = 0.9 * self.wander + random.normal(0.0, 0.3);
        if random.chance(TICK_S / self.distance_s) {
            let length_s = 3.0 + random.exponential(14.0);
            let height_bps = random.log_normal(0.8e9, 0.7);
            self.bursts.push(Foreign { height_bps, ticks_left: (length_s / TICK_S) as usize });
        }
        let mut sum = self.floor_bps * self.wander.exp();
        for burst in &mut self.bursts {
            burst.ticks_left -= 1;
            sum += burst.height_bps * random.uniform(0.8, 1.2);
        }
        self.bursts.retain(|burst| burst.ticks_left > 0);
        if let Some((period, length, height_bps)) = self.rhythm
            && self.tick % period < length
        {
            sum += height_bps;
        }
        sum
    }
}
