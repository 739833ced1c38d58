//! The rules, in their order.

use std::collections::VecDeque;
use std::fmt;

use super::capacity::{Deficit, Outlook};
use super::forecast::Forecast;
use super::rhythm::Rhythm;
use super::settings::{Policy, Settings};

/// Of the last so many rates of moving, [`RATE_QUANTILE`] is relied on.
const N_RATES: usize = 64;
const RATE_QUANTILE: f64 = 0.1;
/// How often to decide anew while what matters changes all the time.
const TICK_S: f64 = 0.1;
/// Nothing is waited for longer than this without a look.
const LONGEST_LOOK_S: f64 = 30.0;
/// Levels of the buffer that are remembered.
const N_LEVELS: usize = 32;

/// Decides when data leaves a buffer.
///
/// Times are seconds on one clock of the caller's choice, and never go back (a time that does is taken for the latest one).
#[derive(Clone, Debug)]
pub struct Controller {
    settings: Settings,
    rhythm: Rhythm,
    rates_bps: VecDeque<f64>,
    /// Rate that is relied on, derived from them.
    rate_bps: Option<f64>,
    levels: Levels,
    now_s: f64,
    last: Option<Last>,
    interference_s: f64,
}

/// The last decision, and what happened since.
#[derive(Clone, Copy, Debug)]
struct Last {
    at_s: f64,
    has_moved: bool,
    has_activity: bool,
    /// Whether the job did I/O: rates of moving then say nothing of rates in gaps.
    is_beside_job: bool,
}

/// Observations of a caller when it asks.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Seen {
    /// The time.
    pub now_s: f64,
    /// How full the buffer is.
    pub used_bytes: f64,
    /// Bytes that could be moved now.
    pub eligible_bytes: f64,
    /// The job is over, or everything has to go for another reason (a signal, a deadline).
    pub is_over: bool,
    /// The destination takes nothing.
    pub has_fault: bool,
}

/// Decision of the controller: move data now, or not, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// In one word.
    pub state: State,
    /// The highest rate, if [`State::is_moving`]; `None` is as fast as possible.
    pub limit_bps: Option<f64>,
    /// When to ask again at the latest. Later than now, by the clock that was told.
    pub look_again_s: f64,
    /// For what reason.
    pub why: Why,
    /// Basis of that reason.
    pub basis: Basis,
    /// Bytes that have to be moved although the job does I/O; 0 if everything fits.
    pub deficit_bytes: f64,
    /// When the buffer is full if data is moved in gaps alone; `None` if that cannot be seen.
    pub full_at_s: Option<f64>,
}

/// Action, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Move everything, whatever the job does.
    Flush,
    /// The destination takes nothing: try again later.
    Stuck,
    /// There is nothing to move.
    Idle,
    /// Move at the rate told, although the job may do I/O: room runs out.
    Drain,
    /// Move nothing: the piece that is on its way is the last.
    Hold,
    /// Move.
    Run,
}

impl State {
    /// All of them, in the order of the rules.
    pub const ALL: [Self; 6] = [Self::Flush, Self::Stuck, Self::Idle, Self::Drain, Self::Hold, Self::Run];

    /// Returns its name in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::Stuck => "stuck",
            Self::Idle => "idle",
            Self::Drain => "drain",
            Self::Hold => "hold",
            Self::Run => "run",
        }
    }

    /// Whether data is moved.
    pub fn is_moving(self) -> bool {
        matches!(self, Self::Flush | Self::Drain | Self::Run)
    }
}

/// Why a decision was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Why {
    /// The job is over.
    JobOver,
    /// The destination takes nothing.
    Fault,
    /// Nothing can be moved now.
    NothingEligible,
    /// Room runs out.
    Deficit,
    /// The job does I/O.
    JobActive,
    /// An I/O phase should begin about now.
    PhaseExpected,
    /// The policy waits for the end of the job.
    JobNotOver,
    /// The policy waits until the buffer fills.
    EnoughRoom,
    /// The policy moves whatever the job does.
    Always,
    /// The job does no I/O, and none is expected.
    Gap,
    /// The buffer is fuller than the high-water mark.
    AboveHighWater,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::JobOver => "the job is over",
            Self::Fault => "the destination takes nothing",
            Self::NothingEligible => "nothing is ready to be moved",
            Self::Deficit => "the buffer would become too full",
            Self::JobActive => "the job does I/O",
            Self::PhaseExpected => "an I/O phase is about to begin",
            Self::JobNotOver => "the job is not over",
            Self::EnoughRoom => "there is room enough",
            Self::Always => "the policy does not wait",
            Self::Gap => "the job does no I/O",
            Self::AboveHighWater => "the buffer is above the high-water mark",
        })
    }
}

/// Basis of decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Basis {
    /// Predictions.
    Predictions,
    /// Activity of the job: there were no predictions yet.
    Activity,
    /// Activity of the job: predictions have stopped.
    Lost,
    /// Activity of the job: phases did not come as predicted.
    Wrong,
    /// Activity of the job: predictions are too uncertain.
    Uncertain,
}

impl Basis {
    /// Returns its name in words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Predictions => "predictions",
            Self::Activity => "activity",
            Self::Lost => "activity, predictions lost",
            Self::Wrong => "activity, predictions wrong",
            Self::Uncertain => "activity, predictions uncertain",
        }
    }
}

impl Controller {
    /// Returns a controller that knows nothing yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            rhythm: Rhythm::default(),
            rates_bps: VecDeque::with_capacity(N_RATES),
            rate_bps: None,
            levels: Levels::default(),
            now_s: f64::NEG_INFINITY,
            last: None,
            interference_s: 0.0,
        }
    }

    /// Returns its settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Takes a prediction; `None` says that there is no rhythm, or that predictions are lost.
    pub fn forecast(&mut self, now_s: f64, forecast: Option<Forecast>) {
        let now_s = self.pass_to(now_s);
        self.rhythm.forecast(now_s, forecast);
    }

    /// The job has just moved so many bytes (0 if unknown).
    pub fn activity(&mut self, now_s: f64, bytes: f64) {
        let now_s = self.pass_to(now_s);
        self.rhythm.activity(now_s, bytes, &self.settings);
        if let Some(last) = &mut self.last {
            last.has_activity = true;
        }
    }

    /// So many bytes were moved to the destination, in so many seconds without pauses.
    pub fn moved(&mut self, bytes: f64, seconds: f64) {
        let is_beside_job = self.last.is_some_and(|last| last.is_beside_job);
        let rate_bps = bytes / seconds;
        if let Some(last) = &mut self.last {
            last.has_moved = true;
        }
        if is_beside_job || !rate_bps.is_finite() || rate_bps <= 0.0 {
            return;
        }
        if self.rates_bps.len() == N_RATES {
            self.rates_bps.pop_front();
        }
        self.rates_bps.push_back(rate_bps);
        let mut rates_bps: Vec<f64> = self.rates_bps.iter().copied().collect();
        rates_bps.sort_by(f64::total_cmp);
        let index = (RATE_QUANTILE * (rates_bps.len() - 1) as f64) as usize;
        let rate_bps = rates_bps[index];
        let limit_bps = self.settings.bandwidth_bps;
        self.rate_bps = Some(limit_bps.map_or(rate_bps, |limit_bps| rate_bps.min(limit_bps)));
    }

    /// The rate that data moves at nearly always; `None` before any was moved.
    pub fn rate_bps(&self) -> Option<f64> {
        self.rate_bps
    }

    /// How long data was moved while the job did I/O.
    pub fn interference_s(&self) -> f64 {
        self.interference_s
    }

    /// Says what to do: the first rule that holds.
    pub fn decide(&mut self, seen: &Seen) -> Decision {
        let now_s = self.pass_to(seen.now_s);
        self.account(now_s);
        self.levels.push(now_s, seen.used_bytes);
        let alarm_until_s = self.rhythm.alarm(now_s, 2.0 * self.settings.chunk_s);
        let basis = self.rhythm.basis(now_s);
        let outlook = self.outlook(now_s, seen.used_bytes);
        let deficit = self.settings.high_water_bytes().map(|limit_bytes| outlook.deficit(limit_bytes));
        let (state, why, until_s) = self.rule(seen, now_s, basis, deficit, alarm_until_s);
        let is_active = self.is_active(now_s, basis);
        let limit_bps = self.limit_bps(state, seen, now_s, is_active, deficit);
        self.last =
            Some(Last { at_s: now_s, has_moved: false, has_activity: false, is_beside_job: is_active });
        Decision {
            state,
            limit_bps,
            look_again_s: self.look_again_s(now_s, state, until_s),
            why,
            basis,
            deficit_bytes: deficit.map_or(0.0, |deficit| deficit.bytes.max(0.0)),
            full_at_s: self.full_at_s(&outlook),
        }
    }

    /// Rules 1 to 7. The time is when the answer changes, if nothing else does.
    fn rule(
        &self,
        seen: &Seen,
        now_s: f64,
        basis: Basis,
        deficit: Option<Deficit>,
        alarm_until_s: Option<f64>,
    ) -> (State, Why, Option<f64>) {
        if seen.is_over {
            return (State::Flush, Why::JobOver, None);
        }
        if seen.has_fault {
            return (State::Stuck, Why::Fault, None);
        }
        if seen.eligible_bytes <= 0.0 {
            return (State::Idle, Why::NothingEligible, None);
        }
        let has_deficit = deficit.is_some_and(|deficit| deficit.bytes > 0.0);
        if has_deficit && self.settings.is_purged {
            return (State::Drain, Why::Deficit, None);
        }
        match self.settings.policy {
            Policy::Immediate => return (State::Run, Why::Always, None),
            Policy::End => return (State::Hold, Why::JobNotOver, None),
            Policy::Gap | Policy::Deadline | Policy::Space => {}
        }
        if self.is_active(now_s, basis) {
            let last_s = self.rhythm.last_activity_s().unwrap_or(now_s);
            return (State::Hold, Why::JobActive, Some(last_s + self.silence_s(basis)));
        }
        if let Some(until_s) = alarm_until_s {
            return (State::Hold, Why::PhaseExpected, Some(until_s));
        }
        let next_s = self.rhythm.expected(now_s).map(|(_, (from_s, _))| from_s - 2.0 * self.settings.chunk_s);
        if self.settings.policy == Policy::Space {
            let is_above =
                self.settings.high_water_bytes().is_some_and(|limit_bytes| seen.used_bytes > limit_bytes);
            return match is_above {
                true => (State::Run, Why::AboveHighWater, next_s),
                false => (State::Hold, Why::EnoughRoom, None),
            };
        }
        (State::Run, Why::Gap, next_s)
    }

    /// How long the job has to be silent before data is moved.
    fn silence_s(&self, basis: Basis) -> f64 {
        match basis {
            Basis::Predictions => self.settings.recent_s,
            _ => self.settings.quiet_s,
        }
    }

    fn is_active(&self, now_s: f64, basis: Basis) -> bool {
        self.rhythm.last_activity_s().is_some_and(|last_s| now_s < last_s + self.silence_s(basis))
    }

    fn outlook(&self, now_s: f64, used_bytes: f64) -> Outlook {
        let expected = self.rhythm.expected(now_s);
        let phase = self.rhythm.phase(now_s, self.settings.recent_s.max(TICK_S));
        Outlook {
            now_s,
            used_bytes,
            rate_bps: self.rate_bps(),
            next: expected.map(|(forecast, (from_s, to_s))| (forecast, (from_s + to_s) / 2.0)),
            phase: phase.map(|burst| (burst.start_s, burst.bytes)),
        }
    }

    fn limit_bps(
        &self,
        state: State,
        seen: &Seen,
        now_s: f64,
        is_active: bool,
        deficit: Option<Deficit>,
    ) -> Option<f64> {
        let own_bps = match (state, deficit) {
            // In a gap as fast as possible; beside the job no faster than needed.
            (State::Drain, Some(Deficit { bytes, busy_s })) if is_active && busy_s > 0.0 => {
                Some(bytes / busy_s.max(self.settings.chunk_s))
            }
            (State::Run, _) if self.settings.policy == Policy::Deadline => {
                let left_s = self
                    .rhythm
                    .expected(now_s)
                    .map(|(_, (from_s, _))| from_s - 2.0 * self.settings.chunk_s - now_s);
                left_s.filter(|&left_s| left_s > 0.0).map(|left_s| seen.eligible_bytes / left_s)
            }
            _ => None,
        };
        [own_bps, self.settings.bandwidth_bps].into_iter().flatten().reduce(f64::min)
    }

    fn look_again_s(&self, now_s: f64, state: State, until_s: Option<f64>) -> f64 {
        let tick_s = match state {
            State::Drain => TICK_S,
            // Whether there is room enough depends on what is moved meanwhile.
            _ if self.settings.capacity_bytes.is_some() => {
                let period_s = self.rhythm.expected(now_s).map_or(1.0, |(forecast, _)| forecast.period_s);
                (period_s / 64.0).clamp(TICK_S, LONGEST_LOOK_S)
            }
            _ => LONGEST_LOOK_S,
        };
        let latest_s = now_s + tick_s;
        let look_s = until_s.map_or(latest_s, |until_s| until_s.min(latest_s));
        // What is due is decided at once, and may not be due again at the same time.
        if look_s > now_s { look_s } else { now_s + TICK_S }
    }

    fn full_at_s(&self, outlook: &Outlook) -> Option<f64> {
        let capacity_bytes = self.settings.capacity_bytes?;
        if outlook.next.is_some() || outlook.used_bytes >= capacity_bytes {
            return outlook.full_at_s(capacity_bytes);
        }
        self.levels.reaches_at_s(capacity_bytes)
    }

    /// Counts the time since the last decision, if data was moved while the job did I/O.
    fn account(&mut self, now_s: f64) {
        if let Some(last) = self.last.filter(|last| last.has_moved && last.has_activity) {
            self.interference_s += now_s - last.at_s;
        }
    }

    fn pass_to(&mut self, now_s: f64) -> f64 {
        if now_s.is_finite() {
            self.now_s = self.now_s.max(now_s);
        }
        if self.now_s.is_finite() { self.now_s } else { 0.0 }
    }
}

/// How full the buffer was, at few moments of the past.
#[derive(Clone, Debug, Default)]
struct Levels {
    list: Vec<(f64, f64)>,
    /// Moments are at least so far apart; doubled when there are too many.
    apart_s: f64,
}

impl Levels {
    fn push(&mut self, now_s: f64, used_bytes: f64) {
        if self.list.last().is_some_and(|&(at_s, _)| now_s - at_s < self.apart_s) {
            return;
        }
        self.list.push((now_s, used_bytes));
        if self.list.len() > N_LEVELS {
            let mut index = 0;
            self.list.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.apart_s = (2.0 * self.apart_s).max(TICK_S);
        }
    }

    /// When so much is reached if it goes on as it did on average.
    fn reaches_at_s(&self, bytes: f64) -> Option<f64> {
        let (&(from_s, from_bytes), &(to_s, to_bytes)) = (self.list.first()?, self.list.last()?);
        let slope_bps = (to_bytes - from_bytes) / (to_s - from_s);
        (to_s > from_s && slope_bps > 0.0).then(|| to_s + (bytes - to_bytes).max(0.0) / slope_bps)
    }
}
