//! Why a run's I/O took longer than that of earlier runs: the program's own requests, the load of others, or the storage.
//!
//! A run is reduced to [`RunFacts`] as it is read, the log of the servers to [`ServerLoad`]; [`why`] compares. Three factors make the
//! slowdown. *Own* is what the requests would take in an earlier run, against the nearest earlier run. *Others* is the speed that the
//! load of others left, against earlier runs. *Storage* is the rest. A cause is named only where draws over phases and earlier runs
//! agree on it; everything else is [`Verdict::Unknown`].
//!
//! The modules stand in the order of the method: `phases` and `model` tell how long the requests take, `load` and `clock` what others
//! moved meanwhile, `capacity` what that left, `verdict` what follows.

use std::borrow::Borrow;

use iotide_num::{median, median_absolute_deviation, student_t_quantile};

use self::capacity::{Capacity, FULL_IDLE_SAMPLES, Speeds};
use self::clock::Clocks;
use self::model::{Expected, Extrapolation, RequestModel};
use self::verdict::{Comparison, Outcome};

pub use self::archive::{ArchivedRun, Caused, JudgedRun, caused, judge};
pub use self::counted::{CountedCalls, CountedComparison, MOST_EARLIER, RunCounts, comparable};
pub use self::load::{LoadGrid, ServerLoad};
pub use self::phases::{PhaseFacts, Request, RunFacts, RunRequests, counts_from_1970};
pub use self::plan::{LoadPlan, StepGrowth};

mod archive;
mod capacity;
mod changes;
mod clock;
mod counted;
mod load;
mod model;
mod phases;
mod plan;
mod verdict;

/// Cause of a slow run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "schema", derive(serde::Serialize))]
#[cfg_attr(feature = "schema", serde(rename_all = "snake_case"))]
pub enum Verdict {
    /// It is not slower than earlier runs within their noise.
    Usual,
    /// It made other requests than before.
    Own,
    /// Others filled the storage.
    Others,
    /// The storage was slower beside the same load or less.
    Storage,
    /// Two of these, each at least a third.
    Mixed,
    /// The evidence does not tell.
    Unknown,
}

impl Verdict {
    /// The name that people and scripts use.
    pub fn name(self) -> &'static str {
        match self {
            Self::Usual => "usual",
            Self::Own => "own",
            Self::Others => "others",
            Self::Storage => "storage",
            Self::Mixed => "mixed",
            Self::Unknown => "unknown",
        }
    }
}

/// How much slower than earlier runs.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize, serde::Deserialize))]
pub struct Slowdown {
    /// The I/O time over the usual one.
    pub factor: f64,
    /// Where the factor lies with a probability of 90 %.
    pub interval: [f64; 2],
}

/// Share of each cause in the slowdown; `None` where the evidence does not give it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize, serde::Deserialize))]
pub struct Parts {
    /// Of the program's own requests.
    pub own: Option<f64>,
    /// Of the load of others.
    pub others: Option<f64>,
    /// Of the storage.
    pub storage: Option<f64>,
}

/// One phase of I/O.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "schema", derive(serde::Serialize))]
pub struct PhaseCause {
    /// When it began, on the clock of the trace.
    pub start_s: f64,
    /// When it ended.
    pub end_s: f64,
    /// Bytes that the program moved.
    pub bytes: f64,
    /// How much longer it took than the same requests usually do; without earlier runs, than in the quickest phases.
    pub factor: Option<f64>,
    /// Mean load of others meanwhile.
    pub others_bps: Option<f64>,
    /// Cause of its slowness.
    pub verdict: Verdict,
}

/// Difference of the program's I/O from earlier runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// It moved more.
    Bytes,
    /// It moved the same in requests of another size.
    RequestSize,
    /// It opened, closed or asked for more files.
    Opens,
    /// It forced data to storage.
    Sync,
    /// Fewer ranks did the work, or one did more of it.
    Ranks,
}

/// Evidence of a verdict, or what it lacks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Clue {
    /// The program did more of something: the seconds that costs, and the new value over the old.
    Changed {
        /// Of what.
        what: Change,
        /// Time that it adds to the expected I/O time.
        seconds: f64,
        /// The value of the run over that of the nearest earlier run.
        ratio: f64,
    },
    /// Load of others during the phases, and in earlier runs.
    OthersLoad {
        /// In this run.
        bps: f64,
        /// The median of earlier runs.
        usual_bps: Option<f64>,
        /// The share of the full speed that they left to the program.
        left: f64,
        /// That of earlier runs.
        usual_left: Option<f64>,
    },
    /// Capacity of the storage, and how much slower it was than that.
    Capacity {
        /// Its capacity.
        bps: f64,
        /// How much slower the run was at its load.
        factor: f64,
    },
    /// The phases do not follow the load: by how much they differ from what it explains (spread of logarithms).
    NotFollowed(f64),
    /// The log never shows the storage full; the most it shows.
    NoCeiling(f64),
    /// No phase ran at its usual speed beside a small load.
    NoUsual,
    /// The log has holes: the share of the phases that it knows.
    LogHole(f64),
    /// The log lacks bytes of the program: this share of them.
    LogForeign(f64),
    /// The log's clock is ahead by so many seconds.
    Offset(f64),
    /// Earlier requests had one size, so the cost of others is not known: the share of the I/O time that is concerned.
    OneSize(f64),
    /// There is nothing to compare with.
    NoHistory,
    /// There is no log of the servers.
    NoLog,
    /// The trace does not say when it began, so no log can be laid beside it.
    NoStartTime,
}

/// An earlier run as a picture shows it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EarlierPoint {
    /// When it began, since 1970.
    pub start_unix_s: Option<f64>,
    /// How much longer it took than its requests usually do.
    pub factor: f64,
}

/// The load of others around the run, for a picture.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OthersSeries {
    /// When the first value begins, on the clock of the trace.
    pub start_s: f64,
    /// How long each holds.
    pub step_s: f64,
    /// Bytes per second; NaN where the log says nothing.
    pub bps: Vec<f64>,
    /// Capacity of the storage.
    pub capacity_bps: f64,
}

/// The answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Why {
    /// Cause of the run's slowness.
    pub verdict: Verdict,
    /// By how much, if there is something to compare with.
    pub slowdown: Option<Slowdown>,
    /// The shares of the causes.
    pub parts: Parts,
    /// How much longer the run's own requests take than earlier ones, where that is known.
    pub own_factor: Option<f64>,
    /// The phases of the run.
    pub phases: Vec<PhaseCause>,
    /// Evidence of the verdict, the most important first.
    pub clues: Vec<Clue>,
    /// How many earlier runs it was compared with.
    pub n_history: usize,
    /// Up to which factor a run is usual.
    pub usual_until: Option<f64>,
    /// Earlier runs, by time.
    pub earlier: Vec<EarlierPoint>,
    /// The load of others around the run.
    pub others: Option<OthersSeries>,
}

impl Why {
    /// By how much the run was slowed down, in all or by one cause: `None` where the evidence does not tell.
    ///
    /// The factors of the causes, each at least 1, multiply to that of all causes, as their parts add up to 1.
    pub fn slowed_by(&self, cause: Option<Verdict>) -> Option<f64> {
        let all = self.slowdown?.factor;
        let part = match (cause, self.verdict) {
            (None, _) => return Some(all),
            (Some(_), Verdict::Usual) => return Some(1.0),
            (Some(Verdict::Own), _) => self.parts.own,
            (Some(Verdict::Others), _) => self.parts.others,
            (Some(Verdict::Storage), _) => self.parts.storage,
            _ => None,
        };
        Some(all.max(1.0).powf(part?))
    }
}

/// Compares a run with earlier ones and with the load of the servers meanwhile.
///
/// Earlier runs that are the run itself, or one another, count once. The answer depends neither on their order nor on any seed.
pub fn why(run: &RunFacts, history: &[impl Borrow<RunFacts>], load: Option<&ServerLoad>) -> Why {
    let history = distinct(run, history);
    let low = answer(run, &history, load, Extrapolation::Speed);
    if low.one_size < ONE_SIZE_COUNTS {
        return low.why;
    }
    // What requests of a new size cost is between two extremes. What both say holds.
    let high = answer(run, &history, load, Extrapolation::Latency);
    let mut why = low.why;
    if why.verdict != high.why.verdict {
        why.verdict = Verdict::Unknown;
        why.parts = Parts::default();
        why.own_factor = None;
        why.slowdown = why.slowdown.zip(high.why.slowdown).map(|(a, b)| Slowdown {
            factor: (a.factor * b.factor).sqrt(),
            interval: [a.interval[0].min(b.interval[0]), a.interval[1].max(b.interval[1])],
        });
        why.clues.retain(|clue| !matches!(clue, Clue::Changed { .. }));
    }
    why.clues.insert(0, Clue::OneSize(low.one_size));
    why
}

/// Below this share of the I/O time, requests of a size that nobody knows do not matter.
const ONE_SIZE_COUNTS: f64 = 0.05;

/// Returns earlier runs, each content once and not the run itself, in an order that depends on nothing but them.
fn distinct<'a>(run: &RunFacts, history: &'a [impl Borrow<RunFacts>]) -> Vec<&'a RunFacts> {
    let mut distinct: Vec<&RunFacts> = history
        .iter()
        .map(Borrow::borrow)
        .filter(|earlier| earlier.content != run.content && !earlier.phases.is_empty())
        .collect();
    let start = |facts: &RunFacts| facts.start_unix_s.unwrap_or(0.0);
    distinct.sort_by(|a, b| start(a).total_cmp(&start(b)).then(a.content.cmp(&b.content)));
    distinct.dedup_by_key(|facts| facts.content);
    distinct
}

struct Answered {
    why: Why,
    /// The share of the I/O time in requests of a size that the model does not know.
    one_size: f64,
}

/// A run with what it is expected to take.
struct Timed<'a> {
    facts: &'a RunFacts,
    expected: Expected,
}

impl Timed<'_> {
    /// The I/O time over what the requests are expected to take.
    fn ratio(&self) -> f64 {
        self.facts.io_s() / self.expected.seconds
    }
}

fn answer(
    run: &RunFacts,
    history: &[&RunFacts],
    load: Option<&ServerLoad>,
    beyond: Extrapolation,
) -> Answered {
    let model = if history.is_empty() { RequestModel::of(&[run]) } else { RequestModel::of(history) };
    let timed = |facts| Timed { facts, expected: model.expect(facts, beyond) };
    let this = timed(run);
    let earlier: Vec<Timed<'_>> = history.iter().map(|facts| timed(facts)).collect();
    let one_size = if earlier.is_empty() { 0.0 } else { this.expected.one_size };
    let mut clues = Vec::new();
    let seen = load.and_then(|load| match Seen::of(&this, &earlier, load) {
        Ok(seen) => Some(seen),
        Err(clue) => {
            clues.push(clue);
            None
        }
    });
    if load.is_none() {
        clues.push(Clue::NoLog);
    }
    let why = if earlier.is_empty() {
        clues.insert(0, Clue::NoHistory);
        verdict::alone(&this, seen.as_ref(), clues)
    } else {
        let usual = Usual::of(&earlier);
        let comparison = Comparison::of(&this, &earlier, &usual, seen.as_ref());
        assemble(&this, &earlier, &usual, &comparison, seen.as_ref(), clues)
    };
    Answered { why, one_size }
}

/// How long requests usually take, against what the model expects, and how much that varies.
struct Usual {
    /// The median over earlier runs of I/O time over expected time.
    ratio: f64,
    /// The spread of its logarithm.
    spread: f64,
    n: usize,
}

/// A spread of which little is known is taken to be near this one, which counts like two runs.
const PRIOR_SPREAD: f64 = 0.04;
const PRIOR_RUNS: f64 = 2.0;

/// A run that is slower by less than this is usual, however well the usual is known.
const LEAST_SLOWDOWN: f64 = 1.12;

impl Usual {
    fn of(earlier: &[Timed<'_>]) -> Self {
        let logs: Vec<f64> = earlier.iter().map(|run| run.ratio().ln()).collect();
        let n = logs.len();
        let mad = 1.4826 * median_absolute_deviation(&logs).unwrap_or(0.0);
        let known = n as f64 - 1.0;
        let variance = (known * mad.powi(2) + PRIOR_RUNS * PRIOR_SPREAD.powi(2)) / (known + PRIOR_RUNS);
        Self { ratio: median(&logs).unwrap_or(0.0).exp(), spread: variance.sqrt(), n }
    }

    fn degrees(&self) -> f64 {
        self.n as f64 - 1.0 + PRIOR_RUNS
    }

    /// The logarithm up to which a factor is usual.
    fn threshold(&self) -> f64 {
        let noise =
            student_t_quantile(0.975, self.degrees()) * self.spread * (1.0 + 1.0 / self.n as f64).sqrt();
        noise.max(LEAST_SLOWDOWN.ln())
    }

    fn interval(&self, factor: f64, changed: bool) -> [f64; 2] {
        // The median of a few values is 1.25 times as uncertain as their mean; the model has errors of its own.
        let of_median =
            student_t_quantile(0.95, self.degrees()) * 1.25 * self.spread / (self.n as f64).sqrt();
        let of_model = 1.645 * if changed { 0.025 } else { 0.007 };
        let half = of_median.hypot(of_model);
        [factor * (-half).exp(), factor * half.exp()]
    }
}

/// The servers' log of the run and of earlier ones.
struct Seen {
    speeds: Speeds,
    /// Of earlier runs, where the log knows them.
    earlier: Vec<Option<Speeds>>,
    capacity: Capacity,
    /// Whether the log shows that others filled the storage.
    is_proven: bool,
    offset_s: f64,
    others: OthersSeries,
}

/// A log that lacks more of the program's bytes is that of another storage.
const MOST_MISSING: f64 = 0.15;
/// A log that knows less of the phases does not tell.
const LEAST_KNOWN: f64 = 0.5;

impl Seen {
    fn of(this: &Timed<'_>, earlier: &[Timed<'_>], load: &ServerLoad) -> Result<Self, Clue> {
        if this.facts.start_unix_s.is_none() {
            return Err(Clue::NoStartTime);
        }
        let runs: Vec<&Timed<'_>> = std::iter::once(this).chain(earlier).collect();
        let clocks = Clocks::of(&runs.iter().map(|run| run.facts).collect::<Vec<_>>(), load);
        let beside: Vec<load::Beside> = runs
            .iter()
            .zip(&clocks.shifts)
            .map(|(run, &shift)| load::Beside::of(run.facts, load, shift))
            .collect();
        let known = beside[0].known_share;
        if known < LEAST_KNOWN {
            return Err(Clue::LogHole(known));
        }
        if beside[0].missing > MOST_MISSING {
            return Err(Clue::LogForeign(beside[0].missing));
        }
        let usable =
            |beside: &load::Beside| beside.known_share >= LEAST_KNOWN && beside.missing <= MOST_MISSING;
        let pairs: Vec<(&Timed<'_>, Option<&load::Beside>)> = runs
            .iter()
            .zip(&beside)
            .map(|(run, beside)| (*run, Some(beside).filter(|b| usable(b))))
            .collect();
        let (capacity, speeds) = capacity::fit(&pairs, load);
        let mut speeds = speeds.into_iter();
        let of_run = speeds.next().flatten().filter(|_| capacity.bps > 0.0).ok_or(Clue::LogHole(known))?;
        let others = beside[0].others(this.facts, load, &capacity);
        let mut earlier: Vec<Option<Speeds>> = speeds.collect();
        let is_proven = capacity.n_full_idle >= FULL_IDLE_SAMPLES || verdict::follows(this, &of_run.phases);
        let mut of_run = of_run;
        if !is_proven {
            // What the program got explains itself: it counts only where the storage was full indeed.
            of_run.told_by_load();
            earlier.iter_mut().flatten().for_each(Speeds::told_by_load);
        }
        Ok(Self {
            speeds: of_run,
            earlier,
            is_proven,
            capacity,
            offset_s: clocks.shifts[0] as f64 * load.grid.fine_s(),
            others,
        })
    }

    /// How much less speed others left than usually. Where nothing shows the storage full, they left all of it in earlier runs, too.
    fn ratio(&self, delay: f64, usual_delay: f64) -> f64 {
        let ratio = delay / usual_delay;
        if self.is_proven { ratio } else { ratio.max(1.0) }
    }

    /// The median of earlier runs of how much slower the load of others made them; `None` where the log knows none.
    fn usual_delay(&self) -> Option<f64> {
        let delays: Vec<f64> = self.earlier.iter().flatten().map(Speeds::delay).collect();
        median(&delays)
    }
}

fn assemble(
    this: &Timed<'_>,
    earlier: &[Timed<'_>],
    usual: &Usual,
    comparison: &Comparison,
    seen: Option<&Seen>,
    mut clues: Vec<Clue>,
) -> Why {
    let Outcome { verdict, parts, doubts } = verdict::decide(comparison, usual);
    let factor = comparison.own * comparison.rest;
    let changed = changes::changes(this, earlier);
    if let Some(seen) = seen {
        let usual_bps: Vec<f64> = seen.earlier.iter().flatten().map(|speeds| speeds.others_bps).collect();
        let delay = seen.usual_delay();
        let load = Clue::OthersLoad {
            bps: seen.speeds.others_bps,
            usual_bps: median(&usual_bps),
            left: 1.0 / seen.speeds.delay(),
            usual_left: delay.map(|delay| 1.0 / delay),
        };
        let capacity = Clue::Capacity {
            bps: seen.capacity.bps,
            factor: comparison.storage().unwrap_or(comparison.rest),
        };
        match verdict {
            Verdict::Storage => clues.splice(0..0, [capacity, load]),
            _ => clues.splice(0..0, [load, capacity]),
        };
        if seen.offset_s != 0.0 {
            clues.push(Clue::Offset(seen.offset_s));
        }
    }
    clues.splice(0..0, doubts);
    if comparison.own.ln() > 0.05 && verdict != Verdict::Usual {
        let at = if matches!(verdict, Verdict::Own | Verdict::Mixed) { 0 } else { clues.len() };
        clues.splice(at..at, changed);
    }
    Why {
        verdict,
        slowdown: Some(Slowdown { factor, interval: usual.interval(factor, comparison.requests_changed) }),
        parts,
        own_factor: Some(comparison.own),
        phases: verdict::phases(this, usual.ratio, usual.threshold(), comparison, seen),
        clues,
        n_history: usual.n,
        usual_until: Some(usual.threshold().exp()),
        earlier: earlier
            .iter()
            .map(|run| EarlierPoint {
                start_unix_s: run.facts.start_unix_s,
                factor: run.ratio() / usual.ratio,
            })
            .collect(),
        others: seen.map(|seen| seen.others.clone()),
    }
}

#[cfg(test)]
mod tests;
