//! One evaluation: from the bandwidth of a bounded window to what is expected next.
//!
//! With [`Adaptation::ChangePoints`], in this order:
//! 1. *Does the rhythm go on?* The window is cut into phases the way that fitted when the rhythm was found. If a change
//!    detector sees the level of the (logarithms of the) distances change, the window starts over at the first new phase; if
//!    phases stay away, the rhythm is left.
//! 2. *Which rhythm is there?* The window is analysed as a whole trace would be. If nothing is found in it, shorter ones
//!    that end now are tried: the beginning of a job, or of a new behaviour, often does not belong to it.
//! 3. *What comes next?* See `forecast`.
//!
//! With the other adaptations the window is what they say, and the answer is that of `detect_period`.

use iotide_num::ChangeDetector;
use iotide_trace::SampledSignal;

use super::PredictorConfig;
use super::adaptation::{Adaptation, WindowStart};
use super::forecast::{Forecast, SHORT_MEMORY, forecast, volume_within, with_missed};
use super::merge::Merged;
use super::octaves::Octaves;
use super::prediction::{ExpectedRhythm, IdleGap, NextPhase, SeenPhase};
use super::regimes::{Fit, Known, Regimes};
use crate::period::{CutEstimate, CutRhythm, cut_by, detect_cuts, detect_period};
use crate::rhythm::{MOST_CERTAIN, Rule};
use crate::{Method, Phase};

/// State that lasts from one evaluation to the next, all of it bounded. Times are seconds since the first event.
#[derive(Clone, Debug)]
pub(super) struct Evaluator {
    /// Where the window begins.
    window_start_s: f64,
    /// The rhythm was left in silence: the window begins with the next I/O.
    awaits_io: bool,
    /// When I/O went on after such silences, the last few times.
    restarts_s: Vec<f64>,
    /// When the last phase of the last rhythm that was left in silence began.
    left_s: Option<f64>,
    pub(super) regimes: Regimes,
    pub(super) merged: Merged,
    paper: WindowStart,
    /// Findings of the last evaluations in a row that contradict the current rhythm.
    doubts: Doubts,
    pub(super) work: Work,
}

/// Cost of the evaluations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Evaluations made.
    pub evaluations: u64,
    /// Samples they looked at, all windows together.
    pub samples: u64,
    /// Bins the stream was written to.
    pub bin_writes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Doubts {
    n_other: u32,
    other_period_s: f64,
    n_none: u32,
}

/// Result of an evaluation.
#[derive(Clone, Debug, Default)]
pub(super) struct Evaluation {
    pub window_s: (f64, f64),
    pub period_s: Option<f64>,
    pub confidence: f64,
    pub rhythms: Vec<ExpectedRhythm>,
    pub next_phase: Option<NextPhase>,
    pub idle_gaps: Vec<IdleGap>,
    pub last_phase: Option<SeenPhase>,
}

/// No window holds more phases of the main rhythm than this: as many as the longest reading of `forecast` remembers. More would only make the
/// bins wider.
const MOST_PHASES: usize = 24;
/// … unless a slower one beside it would have fewer than this: what it takes to find two rhythms at once reliably.
const LEAST_SLOW_PHASES: f64 = 8.0;
/// A rhythm whose phases stay away for so many periods is over: three in a row missed, and the fourth not just late.
const MISSED_PERIODS: f64 = 3.5;
/// Distances are not reported more exactly than to this, as a logarithm: the error that `forecast` assumes before there is a record.
const LEAST_SPREAD: f64 = 0.05;
/// An alarm is heard if it is about one of so many last phases: a detector needs two, and a phase may still be going on.
const NEWS: usize = 3;
/// Two periods are the same rhythm if they differ by less, as a logarithm: half way to the closest ratio of small numbers that jobs have, 3 : 2.
const SAME_RHYTHM: f64 = 0.2;
/// After so many evaluations in a row that find another rhythm, it is believed: there are about two in a phase, so one whole phase says so.
const DOUBTS_TO_SWITCH: u32 = 3;
/// After so many that find none, the record decides: two phases.
const DOUBTS_TO_LEAVE: u32 = 4;
/// A record of so many phases is enough to be silent about a rhythm that fails: half of what is kept.
const ENOUGH_FORETOLD: usize = 4;
/// Least confidence in a rhythm of the last few of many phases: several such parts are examined, in each evaluation again.
const SURE_OF_A_PART: f64 = 0.95;
/// How many times the bytes a rhythm must move to be the main one instead: two that move the same do not take turns.
const HEAVIER: f64 = 1.3;
/// Least share of the bytes of its time that a rhythm must move to be the main one, as `detect` asks of a headline.
const NEGLIGIBLE: f64 = 0.01;
/// The share of a period that phases fill at most. What pauses for less is a stream in requests: nothing fits into its gaps, and they are
/// those between the requests of the first phase as often as not.
const FULL: f64 = 5.0 / 6.0;
/// So many returns after a silence are remembered: `look_further` needs three, and they are to be the last ones.
const MOST_RESTARTS: usize = 8;
/// Samples that suffice to add up a window.
const SKETCH: usize = 64;
/// The confidence of a guess from the last distance alone. A convention, not a measurement: below one half, so that nobody acts on it.
const GUESS: f64 = 0.3;
/// A rhythm is predicted from its third phase on, but a stretch of stable behaviour has at least twice as many.
const ESTABLISHED: u32 = 6;
/// How long a beat faster than [`PredictorConfig::fast_s`] must hold: longer than most phases last.
const FAST_HELD_S: f64 = 10.0;
/// The contrast of phases that stand apart: between them there is a fifth of their bandwidth at most. A choice, not fitted.
const STANDS_APART: f64 = 0.8;
/// How many idle gaps are reported. A choice of what is useful: the spread grows with each.
const N_GAPS: usize = 3;

impl Evaluator {
    pub(super) fn new(adaptation: Adaptation) -> Self {
        Self {
            window_start_s: 0.0,
            awaits_io: false,
            restarts_s: Vec::new(),
            left_s: None,
            regimes: Regimes::default(),
            merged: Merged::default(),
            paper: WindowStart::new(adaptation),
            doubts: Doubts::default(),
            work: Work::default(),
        }
    }

    /// Where the next window will begin, by what is known now.
    pub(super) fn window_start_s(&self) -> f64 {
        self.window_start_s
    }

    /// Takes note of I/O that began at `at_s`: maybe after a silence that ended a rhythm, maybe before the first event that came.
    pub(super) fn note_io(&mut self, at_s: f64) {
        if self.awaits_io {
            if self.restarts_s.len() == MOST_RESTARTS {
                self.restarts_s.remove(0);
            }
            self.restarts_s.push(at_s);
        }
        if self.awaits_io || (at_s < self.window_start_s && self.window_start_s <= 0.0) {
            self.awaits_io = false;
            self.window_start_s = at_s;
        }
    }

    /// Memory held by the lists in here, by their limits.
    pub(super) fn heap_bytes(&self) -> usize {
        self.regimes.heap_bytes() + self.merged.heap_bytes()
    }

    /// Evaluates what is known at `at_s`.
    pub(super) fn evaluate(&mut self, octaves: &Octaves, at_s: f64, config: &PredictorConfig) -> Evaluation {
        self.work.evaluations += 1;
        let evaluation = match config.adaptation {
            Adaptation::ChangePoints(_) => self.by_change_points(octaves, at_s, config),
            _ => self.by_the_paper(octaves, at_s, config),
        };
        if let Some(period_s) = evaluation.period_s {
            self.merged.note(1.0 / period_s, (evaluation.window_s.1 - evaluation.window_s.0).max(1e-9));
        }
        evaluation
    }

    fn window(
        &mut self,
        octaves: &Octaves,
        start_s: f64,
        at_s: f64,
        config: &PredictorConfig,
    ) -> SampledSignal {
        let signal = octaves.window(nanos(start_s), nanos(at_s).max(1), config.most_samples);
        self.work.samples += signal.values.len() as u64;
        signal
    }

    fn by_the_paper(&mut self, octaves: &Octaves, at_s: f64, config: &PredictorConfig) -> Evaluation {
        let start_s =
            self.paper.before(at_s).map_or(self.window_start_s, |start_s| start_s.max(self.window_start_s));
        let signal = self.window(octaves, start_s, at_s, config);
        let estimate = detect_period(&signal, &config.period).unwrap_or_default();
        // Two candidates of the paper's method are an answer, but no hit.
        let is_hit = config.period.method == Method::Auto || estimate.candidates.len() == 1;
        self.paper.note(at_s, estimate.period_s.filter(|_| is_hit));
        let mut evaluation = Evaluation {
            window_s: (signal.start_s.max(start_s), at_s),
            period_s: estimate.period_s,
            confidence: estimate.confidence,
            last_phase: seen(&estimate.phases, at_s, 1.0 / signal.rate_hz),
            ..Evaluation::default()
        };
        let Some(period_s) = estimate.period_s else { return evaluation };
        let next_s = estimate.next_phase_s.unwrap_or(at_s + period_s).max(at_s);
        let bytes = estimate.rhythms.first().map_or(signal.volume_bytes(), |rhythm| rhythm.bytes) * period_s
            / (at_s - start_s);
        let duration_s = iotide_num::median(
            &estimate.phases.iter().map(|phase| phase.end_s - phase.start_s).collect::<Vec<_>>(),
        );
        let duration_s = duration_s.unwrap_or(0.5 * period_s);
        // The paper has no interval; this is half the step of its frequency grid.
        let half_s = 0.5 * period_s * period_s / (at_s - start_s);
        evaluation.next_phase = Some(NextPhase {
            start_s: next_s,
            start_interval_s: ((next_s - half_s).max(at_s), next_s + half_s),
            bytes,
            duration_s,
        });
        evaluation.rhythms = vec![ExpectedRhythm {
            period_s,
            confidence: estimate.confidence,
            bytes_per_phase: bytes,
            next_start_s: next_s,
        }];
        evaluation
    }

    fn by_change_points(&mut self, octaves: &Octaves, at_s: f64, config: &PredictorConfig) -> Evaluation {
        let mut signal = self.window(octaves, self.window_start_s, at_s, config);
        let mut phases = Vec::new();
        if let Some(known) = self.regimes.current().copied() {
            phases = self.phases_of(&known, &signal, config);
            if !phases.is_empty() && total(&phases) < NEGLIGIBLE * signal.volume_bytes() {
                // A log that went on alone so far: now the phases have begun. The window holds the first of them.
                self.regimes.leave(phases.last().map_or(at_s, |phase| phase.start_s));
            }
        }
        if let Some(known) = self.regimes.current().copied() {
            match self.goes_on(&phases, known.period_s, at_s, &signal, config) {
                Verdict::GoesOn => {}
                Verdict::Changed { start_s } => {
                    self.regimes.leave(start_s);
                    self.window_start_s = start_s;
                    signal = self.window(octaves, start_s, at_s, config);
                }
                Verdict::Unseen => self.regimes.leave(signal.start_s),
                Verdict::Silent { since_s } => {
                    self.regimes.leave(since_s);
                    self.left_s = phases.last().map(|phase| phase.start_s);
                    self.window_start_s = at_s;
                    self.awaits_io = true;
                    return Evaluation {
                        window_s: (signal.start_s, at_s),
                        last_phase: seen(&phases, at_s, 1.0 / signal.rate_hz),
                        ..Evaluation::default()
                    };
                }
            }
        }
        let mut found = rhythms_in(&signal, self.regimes.current().map(|known| known.period_s), config);
        if found.rhythms.first().is_some_and(|main| total(&main.phases) < NEGLIGIBLE * signal.volume_bytes())
        {
            found.rhythms.clear();
        }
        if self.regimes.current().is_some() {
            self.settle(&mut found, &phases, &signal);
        }
        if self.regimes.current().is_none() {
            self.look_further(&mut found, &mut signal, octaves, at_s, config);
            if found.rhythms.is_empty() {
                self.search(&mut found, &mut signal, octaves, at_s, config);
            }
            if found.rhythms.is_empty() {
                self.recall(&mut found, &signal);
            }
            if found
                .rhythms
                .first()
                .is_some_and(|main| is_stream(main) || self.is_negligible(main, &signal, octaves, at_s))
            {
                found.rhythms.clear();
            }
            if let Some(main) = found.rhythms.first() {
                self.doubts = Doubts::default();
                let fit = Fit { rule: main.rule, bin_s: 1.0 / signal.rate_hz };
                self.regimes.enter(main.phases[0].start_s, main.period_s, bytes_of(&main.phases), fit);
            }
        }
        self.conclude(&found, &signal, at_s, config)
    }

    /// The phases in the window of the rhythm that is on.
    ///
    /// A rule is made for bins of a certain width. Once the window is so long that they are wider, what is shorter than a bin has less bandwidth
    /// in it, and a rule that asks for more finds some of the phases, or none. Then the rhythm is looked for anew, and if it is still there its
    /// phases are those that are more.
    fn phases_of(&mut self, known: &Known, signal: &SampledSignal, config: &PredictorConfig) -> Vec<Phase> {
        let phases = own_phases(cut_by(signal, &known.fit.rule), known.period_s);
        if 1.0 / signal.rate_hz <= known.fit.bin_s * (1.0 + 1e-6) {
            return phases;
        }
        let found = rhythms_in(signal, Some(known.period_s), config);
        let again = found.rhythms.into_iter().find(|rhythm| is_same(rhythm.period_s, known.period_s));
        match again {
            Some(again) if again.phases.len() > phases.len() => {
                self.regimes.cut_anew(again.rule);
                own_phases(again.phases, known.period_s)
            }
            _ => phases,
        }
    }

    /// Whether a rhythm moves next to nothing beside what the job moved just before the window: then it is a log, or the like,
    /// that is heard while the phases pause.
    ///
    /// "Just before" is four windows, or as long before the end of the last rhythm as has passed since.
    fn is_negligible(
        &mut self,
        main: &CutRhythm,
        signal: &SampledSignal,
        octaves: &Octaves,
        at_s: f64,
    ) -> bool {
        let length_s = length_s(signal);
        let since_s = self.left_s.map_or(0.0, |left_s| at_s - left_s);
        let reach_s = (4.0 * length_s).max(2.0 * since_s);
        let longer = octaves.window(nanos(at_s - reach_s), nanos(at_s).max(1), SKETCH);
        self.work.samples += longer.values.len() as u64;
        total(&main.phases) / length_s < NEGLIGIBLE * longer.volume_bytes() / reach_s
    }

    /// Whether the rhythm that is on goes on, by its phases in the window.
    fn goes_on(
        &self,
        phases: &[Phase],
        period_s: f64,
        at_s: f64,
        signal: &SampledSignal,
        config: &PredictorConfig,
    ) -> Verdict {
        let Some(last) = phases.last() else {
            let is_silent = signal.volume_bytes() <= 0.0;
            return if is_silent { Verdict::Silent { since_s: signal.start_s } } else { Verdict::Unseen };
        };
        let resolution_s = 1.0 / signal.rate_hz;
        if at_s - last.start_s > MISSED_PERIODS * period_s {
            // Nothing for so long; or one phase without end, and then the rule no longer fits.
            return if last.end_s < at_s - resolution_s - period_s {
                Verdict::Silent { since_s: last.end_s }
            } else {
                Verdict::Changed { start_s: before(phases, phases.len() - 1) }
            };
        }
        let Adaptation::ChangePoints(kind) = config.adaptation else { return Verdict::GoesOn };
        let starts = with_missed(phases, period_s).0;
        let mut detector = ChangeDetector::new(kind, LEAST_SPREAD);
        let mut changed = None;
        // Compared with what the phases just before it let expect: a slow drift is no change.
        for i in 2..starts.len() {
            let Some(expected_s) = SHORT_MEMORY.distance(&starts[..i]) else { continue };
            let distance_s = (starts[i] - starts[i - 1]).max(1e-9);
            if let Some(change) = detector.push((distance_s / expected_s).ln()) {
                changed = Some((i, i - change.n_new));
            }
        }
        match changed {
            // An alarm about what lies further back would have been given then: the same past is not tried twice.
            Some((alarm, first)) if alarm + NEWS >= starts.len() => {
                // Of the phases that came, the first one from there on.
                let came = phases.partition_point(|phase| phase.start_s < starts[first] - 1e-9);
                Verdict::Changed { start_s: before(phases, came.min(phases.len() - 1)) }
            }
            _ => Verdict::GoesOn,
        }
    }

    /// Reconciles what was found with the rhythm that is on: leaves `found` with the rhythm to believe, or leaves that rhythm.
    fn settle(&mut self, found: &mut CutEstimate, phases: &[Phase], signal: &SampledSignal) {
        let Some(known) = self.regimes.current().copied() else { return };
        let record = forecast(phases, known.period_s, signal.end_s(), 1.0 / signal.rate_hz);
        let period_s = record.as_ref().map_or(known.period_s, |record| record.period_s);
        if record.as_ref().is_some_and(|record| record.n_hits == 0) && !is_same(period_s, known.period_s) {
            // A few phases at other distances, and none came when it should: the rule that its phases were found by no longer finds them,
            // for instance because some ranks handed over later what they had done. What is found now is judged as if nothing were known.
            self.regimes.leave(signal.start_s);
            return;
        }
        let agrees = |rhythm: &CutRhythm| is_same(rhythm.period_s, period_s);
        match found.rhythms.iter().position(agrees) {
            Some(0) => {
                self.doubts = Doubts::default();
                // The rule stays what it was while the rhythm was plain to see: one that is found while it breaks up may
                // smooth over that. Unless it was the smoothing one.
                let is_smooth = |rule| matches!(rule, Rule::Scale { .. });
                if !is_smooth(known.fit.rule) || is_smooth(found.rhythms[0].rule) {
                    found.rhythms[0].rule = known.fit.rule;
                    found.rhythms[0].phases = phases.to_vec();
                }
                return;
            }
            // A heavier rhythm has come to light beside it: behaviour is the same, we see more of it.
            Some(_) => {
                self.doubts = Doubts::default();
                return;
            }
            None => {}
        }
        // By its record the rhythm may well go on: the analysis of a whole window does not know of pauses and drifts.
        let fails = record.as_ref().is_none_or(|record| 2 * record.n_hits < record.n_foretold);
        if let Some(other) = found.rhythms.first() {
            let again = (other.period_s / self.doubts.other_period_s).ln().abs() < SAME_RHYTHM;
            self.doubts.n_other = if again { self.doubts.n_other + 1 } else { 1 };
            self.doubts.other_period_s = other.period_s;
            let heavier = total(&other.phases) > HEAVIER * total(phases);
            if self.doubts.n_other >= DOUBTS_TO_SWITCH && (fails || heavier) {
                self.regimes.leave(other.phases[0].start_s);
                return;
            }
        } else {
            self.doubts.n_none += 1;
            if self.doubts.n_none >= DOUBTS_TO_LEAVE && fails {
                self.regimes.leave(phases.last().map_or(signal.start_s, |phase| phase.start_s));
                return;
            }
        }
        let Some(record) = record else { return };
        found.rhythms.clear();
        // What neither the analysis nor a record of some length bears out is not told while it is in doubt.
        if !fails || record.n_foretold < ENOUGH_FORETOLD {
            let confidence = succession(record.n_hits, record.n_foretold);
            let ours = CutRhythm { period_s, confidence, phases: phases.to_vec(), rule: known.fit.rule };
            found.rhythms.push(ours);
        }
    }

    /// If a rhythm was left in silence again and again, it may be that of the chunks within a phase, and the silences those between
    /// the phases: looks for a rhythm of all that went on since the first of them.
    fn look_further(
        &mut self,
        found: &mut CutEstimate,
        signal: &mut SampledSignal,
        octaves: &Octaves,
        at_s: f64,
        config: &PredictorConfig,
    ) {
        let [first_s, .., last_s] = self.restarts_s[..] else { return };
        if self.restarts_s.len() < 3 {
            return;
        }
        let distance_s = (last_s - first_s) / (self.restarts_s.len() - 1) as f64;
        let longer = self.window(octaves, first_s, at_s, config);
        let cuts = rhythms_in(&longer, None, config);
        if cuts.rhythms.first().is_some_and(|rhythm| rhythm.period_s > distance_s / 2.0) {
            (*found, *signal, self.window_start_s) = (cuts, longer, first_s);
            self.restarts_s.clear();
        }
    }

    /// Looks for a rhythm in shorter windows that end now.
    fn search(
        &mut self,
        found: &mut CutEstimate,
        signal: &mut SampledSignal,
        octaves: &Octaves,
        at_s: f64,
        config: &PredictorConfig,
    ) {
        let Some(best) = found.best.clone() else {
            // Too few phases to be seen at this resolution.
            let start_s = at_s - signal.duration_s / 4.0;
            let shorter = self.window(octaves, start_s, at_s, config);
            let cuts = rhythms_in(&shorter, None, config);
            let is_main = |rhythm: &CutRhythm| rhythm.phases.len() > 3 && !is_light(rhythm, &shorter, signal);
            if cuts.rhythms.first().is_some_and(is_main) {
                (*found, *signal, self.window_start_s) = (cuts, shorter, start_s);
            }
            return;
        };
        let phases = best.phases;
        let n = phases.len();
        // In a long irregular past, chance makes some three in a row look even: there it takes more of them, and more evidence.
        let (lengths, least): (&[usize], f64) =
            if n <= 8 { (&[6, 4, 3], 0.5) } else { (&[12, 8, 6], SURE_OF_A_PART) };
        for &length in lengths.iter().filter(|&&length| length < n) {
            let start_s = before(&phases, n - length);
            let shorter = self.window(octaves, start_s, at_s, config);
            let cuts = rhythms_in(&shorter, None, config);
            // The engine is careful with three phases; what it holds more probable than not is a rhythm.
            let sure = |rhythm: &CutRhythm| rhythm.confidence > least && !is_light(rhythm, &shorter, signal);
            if cuts.rhythms.first().is_some_and(sure) {
                (*found, *signal, self.window_start_s) = (cuts, shorter, start_s);
                return;
            }
        }
        // Neither a log's lines nor requests are a measure of the window: there are, or will be, phases.
        if n > MOST_PHASES
            && !is_of_requests(&phases, config)
            && total(&phases) >= NEGLIGIBLE * signal.volume_bytes()
        {
            self.window_start_s = before(&phases, n - MOST_PHASES);
        }
    }

    /// Asks whether the last phases are those of a rhythm the job has had before.
    fn recall(&mut self, found: &mut CutEstimate, signal: &SampledSignal) {
        for known in self.regimes.known() {
            let phases = cut_by(signal, &known.fit.rule);
            let n = phases.len();
            if !(2..=4).contains(&n) {
                continue;
            }
            let distances_fit = phases.windows(2).all(|pair| {
                ((pair[1].start_s - pair[0].start_s) / known.period_s).ln().abs() < SAME_RHYTHM / 2.0
            });
            let volumes_fit =
                phases[..n - 1].iter().all(|phase| (phase.bytes / known.bytes).ln().abs() < 2f64.ln());
            if distances_fit && volumes_fit {
                let confidence = succession(n - 1, n - 1);
                found.rhythms =
                    vec![CutRhythm { period_s: known.period_s, confidence, phases, rule: known.fit.rule }];
                return;
            }
        }
    }

    fn conclude(
        &mut self,
        found: &CutEstimate,
        signal: &SampledSignal,
        at_s: f64,
        config: &PredictorConfig,
    ) -> Evaluation {
        let resolution_s = 1.0 / signal.rate_hz;
        let mut evaluation = Evaluation {
            window_s: (signal.start_s.max(self.window_start_s), at_s),
            // Fewer than three phases are too few to say that there is no rhythm, and so are the requests of the first.
            confidence: match &found.best {
                Some(best) if !is_of_requests(&best.phases, config) => {
                    (1.0 - found.p_periodic).min(MOST_CERTAIN)
                }
                _ => 0.0,
            },
            ..Evaluation::default()
        };
        let Some(main) = found.rhythms.first() else {
            evaluation.last_phase =
                found.best.as_ref().and_then(|best| seen(&best.phases, at_s, resolution_s));
            // Three phases are too few to tell a held-up start from no rhythm: that the last distance repeats is the best
            // guess, once the last phase is over and so may be followed by another.
            if let Some(CutRhythm { phases, .. }) = &found.few
                && seen(phases, at_s, resolution_s).is_some_and(|last| last.is_over)
                && stand_apart(phases)
                && !is_of_requests(phases, config)
                && let Some(guess) = forecast(phases, f64::INFINITY, at_s, resolution_s)
            {
                evaluation.tell(&guess, phases, signal, at_s, GUESS);
            }
            return evaluation;
        };
        let Some(expected) = forecast(&main.phases, main.period_s, at_s, resolution_s) else {
            return evaluation;
        };
        self.regimes.stay(
            expected.period_s,
            bytes_of(&main.phases),
            Fit { rule: main.rule, bin_s: resolution_s },
            main.phases.iter().map(|phase| phase.start_s),
            // Phases with silence between them are believed sooner than waves of something that goes on all the time,
            // such as the chunks of one long phase.
            if contrast(&main.phases, signal) > STANDS_APART { ESTABLISHED } else { 2 * ESTABLISHED },
        );
        let confidence =
            (expected.n_hits as f64 + 2.0 * main.confidence) / (expected.n_foretold as f64 + 2.0);
        evaluation.tell(&expected, &main.phases, signal, at_s, confidence);
        for beside in &found.rhythms[1..] {
            if let Some(expected) = forecast(&beside.phases, beside.period_s, at_s, resolution_s) {
                evaluation.rhythms.push(expected.as_rhythm(at_s, beside.confidence));
            }
        }
        let slowest_s = evaluation.rhythms.iter().map(|rhythm| rhythm.period_s).fold(0.0, f64::max);
        let n = main.phases.len();
        if n > MOST_PHASES {
            let start_s = before(&main.phases, n - MOST_PHASES).min(at_s - LEAST_SLOW_PHASES * slowest_s);
            self.window_start_s = self.window_start_s.max(start_s);
        }
        evaluation
    }
}

/// Whether two periods are those of one rhythm.
fn is_same(a_s: f64, b_s: f64) -> bool {
    (a_s / b_s).ln().abs() < SAME_RHYTHM
}

enum Verdict {
    GoesOn,
    /// Something else goes on since `start_s`.
    Changed {
        start_s: f64,
    },
    /// There is I/O, but the rule finds no phases in it any more.
    Unseen,
    /// Nothing goes on.
    Silent {
        since_s: f64,
    },
}

impl Evaluation {
    fn tell(
        &mut self,
        expected: &Forecast,
        phases: &[Phase],
        signal: &SampledSignal,
        at_s: f64,
        confidence: f64,
    ) {
        self.period_s = Some(expected.period_s);
        self.confidence = confidence;
        let rhythm = expected.as_rhythm(at_s, confidence);
        let start_s = rhythm.next_start_s;
        self.next_phase = Some(NextPhase {
            start_s,
            start_interval_s: ((start_s - expected.half_width_s).max(at_s), start_s + expected.half_width_s),
            bytes: expected.bytes,
            duration_s: expected.duration_s,
        });
        self.rhythms = vec![rhythm];
        self.idle_gaps = expected.gaps(phases, signal, at_s, confidence, N_GAPS);
        self.last_phase = seen(phases, at_s, 1.0 / signal.rate_hz);
    }
}

impl Forecast {
    fn as_rhythm(&self, at_s: f64, confidence: f64) -> ExpectedRhythm {
        // A phase that did not come when it should may come late; half a period later, it is the next one that is awaited.
        let missed = ((at_s - self.next_start_s) / self.period_s + 0.5).floor().max(0.0);
        let next_start_s = (self.next_start_s + missed * self.period_s).max(at_s);
        ExpectedRhythm { period_s: self.period_s, confidence, bytes_per_phase: self.bytes, next_start_s }
    }
}

/// The middle of the gap before phase `i`: where a window begins that is to hold it whole.
fn before(phases: &[Phase], i: usize) -> f64 {
    if i == 0 { phases[0].start_s } else { (phases[i - 1].end_s + phases[i].start_s) / 2.0 }
}

/// Leaves out what comes in between of another kind: a phase of quite another volume without which the distance is as usual.
///
/// A rhythm that has become twice as fast is not of that kind: its phases move as much as before.
fn own_phases(phases: Vec<Phase>, period_s: f64) -> Vec<Phase> {
    let bytes = bytes_of(&phases);
    let mut own: Vec<Phase> = Vec::with_capacity(phases.len());
    for (i, &phase) in phases.iter().enumerate() {
        let is_foreign = (phase.bytes / bytes).ln().abs() > 2f64.ln()
            && own.last().zip(phases.get(i + 1)).is_some_and(|(before, after)| {
                ((after.start_s - before.start_s) / period_s).ln().abs() < SAME_RHYTHM
            });
        if !is_foreign {
            own.push(phase);
        }
    }
    own
}

/// Whether the phases of a rhythm fill nearly all of it. (Where it was found by smoothing, they have no ends.)
fn is_stream(rhythm: &CutRhythm) -> bool {
    let lengths_s: Vec<f64> = rhythm.phases.iter().map(|phase| phase.end_s - phase.start_s).collect();
    !matches!(rhythm.rule, Rule::Scale { .. })
        && iotide_num::median(&lengths_s).is_some_and(|length_s| length_s > FULL * rhythm.period_s)
}

/// Returns the rhythms that the engine finds, less the beats of requests. A rhythm that is known already is not one of those.
fn rhythms_in(signal: &SampledSignal, known_s: Option<f64>, config: &PredictorConfig) -> CutEstimate {
    let mut found = detect_cuts(signal);
    let is_known =
        |period_s: f64| known_s.is_some_and(|known_s| (period_s / known_s).ln().abs() < SAME_RHYTHM);
    found.rhythms.retain(|rhythm| is_known(rhythm.period_s) || !is_of_requests(&rhythm.phases, config));
    found
}

/// Whether these are requests of one phase, as far as the data show: they come fast, and have not done so for long.
fn is_of_requests(phases: &[Phase], config: &PredictorConfig) -> bool {
    let distances_s: Vec<f64> = phases.windows(2).map(|pair| pair[1].start_s - pair[0].start_s).collect();
    let Some(usual_s) = iotide_num::median(&distances_s) else { return false };
    // Pauses do not count as time in which it held.
    let held_s = usual_s * distances_s.len() as f64;
    usual_s < config.fast_s && held_s < FAST_HELD_S
}

/// Whether a few phases are longer apart than they last, and so are no requests of one phase.
fn stand_apart(phases: &[Phase]) -> bool {
    let gaps_s: Vec<f64> = phases.windows(2).map(|pair| pair[1].start_s - pair[0].end_s).collect();
    let lengths_s: Vec<f64> = phases.iter().map(|phase| phase.end_s - phase.start_s).collect();
    iotide_num::median(&gaps_s)
        .zip(iotide_num::median(&lengths_s))
        .is_some_and(|(gap_s, length_s)| gap_s > length_s)
}

/// Whether a rhythm in the last part of a window moves next to nothing beside the rest.
fn is_light(rhythm: &CutRhythm, part: &SampledSignal, whole: &SampledSignal) -> bool {
    total(&rhythm.phases) / length_s(part) < NEGLIGIBLE * whole.volume_bytes() / length_s(whole)
}

fn length_s(signal: &SampledSignal) -> f64 {
    signal.duration_s.max(signal.values.len() as f64 / signal.rate_hz)
}

/// How probable the next hit is after so many (Laplace's rule of succession).
fn succession(n_hits: usize, n_tried: usize) -> f64 {
    (n_hits as f64 + 1.0) / (n_tried as f64 + 2.0)
}

fn total(phases: &[Phase]) -> f64 {
    phases.iter().map(|phase| phase.bytes).sum()
}

/// How much less goes on between the phases than within them: 1 is silence.
fn contrast(phases: &[Phase], signal: &SampledSignal) -> f64 {
    let (Some(first), Some(last)) = (phases.first(), phases.last()) else { return 0.0 };
    let busy_s: f64 = phases.iter().map(|phase| phase.end_s - phase.start_s).sum();
    let idle_s = last.end_s - first.start_s - busy_s;
    let beside = volume_within(signal, first.start_s, last.end_s) - total(phases);
    if idle_s <= 0.0 || busy_s <= 0.0 {
        return 0.0;
    }
    1.0 - ((beside.max(0.0) / idle_s) / (total(phases) / busy_s)).min(1.0)
}

/// Returns the usual bytes of a phase; the last phase may be going on.
fn bytes_of(phases: &[Phase]) -> f64 {
    let n_whole = phases.len().saturating_sub(1).max(1).min(phases.len());
    let whole: Vec<f64> = phases[..n_whole].iter().map(|phase| phase.bytes).collect();
    iotide_num::median(&whole).unwrap_or(0.0)
}

fn seen(phases: &[Phase], at_s: f64, resolution_s: f64) -> Option<SeenPhase> {
    phases.last().map(|&Phase { start_s, end_s, bytes }| SeenPhase {
        start_s,
        end_s: end_s.min(at_s),
        bytes,
        is_over: end_s < at_s - resolution_s,
    })
}

fn nanos(time_s: f64) -> i64 {
    (time_s * 1e9) as i64
}
