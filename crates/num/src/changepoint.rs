//! Has the level changed? State machines that are given one value at a time.
//!
//! All four estimate the level and the spread of the values themselves; thresholds are in units of that spread, so they
//! mean the same whatever is measured. Give them logarithms of what is positive (distances, volumes): then a change by a
//! factor weighs the same everywhere.
//!
//! | kind | sees | of the past it keeps |
//! |---|---|---|
//! | k-sigma | a jump, at the second value that stands out to the same side | level, one suspect |
//! | CUSUM | a jump, or a small lasting shift | level, two sums |
//! | Page–Hinkley | a small lasting shift | level, two sums and their extremes |
//! | ADWIN | that an older and a newer part of the past differ | the last 64 values |

use crate::student_t_quantile;

/// A state machine that tells when the level of a sequence changes.
///
/// ```
/// use iotide_num::{Change, ChangeDetector, ChangeDetectorKind};
///
/// let mut detector = ChangeDetector::new(ChangeDetectorKind::KSigma, 0.05);
/// let found: Vec<_> = [10.0f64, 10.2, 9.9, 10.1, 20.3, 19.8].iter().map(|x| detector.push(x.ln())).collect();
/// assert_eq!(found[..5], [None; 5]); // one value may be an accident
/// assert_eq!(found[5], Some(Change { n_new: 2 }));
/// ```
#[derive(Clone, Debug)]
pub struct ChangeDetector {
    level: Level,
    state: State,
}

/// Which detector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ChangeDetectorKind {
    /// Two values in a row outside of the prediction interval of the past (Student's t, 1 %), to the same side.
    #[default]
    KSigma,
    /// Cumulative sums (Page, 1954) of what exceeds half a spread; alarm at 5 spreads.
    Cusum,
    /// The test of Page and Hinkley (Hinkley, 1971) with a slack of a quarter of a spread; alarm at 8 spreads.
    PageHinkley,
    /// Adaptive windowing (Bifet & Gavaldà, 2007) by the variance form of its bound, δ = 0.2 %, over the last 64 values.
    Adwin,
}

/// A level changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// How many of the values pushed last, the one that gave the alarm among them, belong to the new level.
    pub n_new: usize,
}

#[derive(Clone, Debug)]
enum State {
    KSigma { suspect: Option<f64> },
    Cusum { up: Sum, down: Sum },
    PageHinkley { up: Sum, down: Sum },
    Adwin { window: Vec<f64> },
}

/// A sum that starts over at zero, with the values since then.
#[derive(Clone, Debug, Default)]
struct Sum {
    value: f64,
    since: Vec<f64>,
}

impl ChangeDetector {
    /// Returns a detector that has seen nothing.
    ///
    /// `least_spread` is the standard deviation below which nothing is believed: what measuring itself adds. It also stands for two
    /// values, until there are enough of them to tell.
    pub fn new(kind: ChangeDetectorKind, least_spread: f64) -> Self {
        let state = match kind {
            ChangeDetectorKind::KSigma => State::KSigma { suspect: None },
            ChangeDetectorKind::Cusum => State::Cusum { up: Sum::default(), down: Sum::default() },
            ChangeDetectorKind::PageHinkley => {
                State::PageHinkley { up: Sum::default(), down: Sum::default() }
            }
            ChangeDetectorKind::Adwin => State::Adwin { window: Vec::new() },
        };
        Self { level: Level { least_spread, ..Level::default() }, state }
    }

    /// Takes the next value; after a change, the detector goes on with the values of the new level.
    ///
    /// A value that is not finite is passed over.
    pub fn push(&mut self, value: f64) -> Option<Change> {
        if !value.is_finite() {
            return None;
        }
        let new = match &mut self.state {
            State::KSigma { suspect } => push_k_sigma(&mut self.level, suspect, value),
            State::Cusum { up, down } => {
                let z = self.level.normal_z(value).clamp(-OUTLYING, OUTLYING);
                let new = [(up, z), (down, -z)].into_iter().find_map(|(sum, z)| {
                    sum.value = (sum.value + z - CUSUM_SLACK).max(0.0);
                    sum.note(value);
                    (sum.value >= CUSUM_ALARM).then(|| std::mem::take(&mut sum.since))
                });
                if new.is_none() {
                    self.level.add(value, z);
                }
                new
            }
            State::PageHinkley { up, down } => {
                let z = self.level.normal_z(value).clamp(-OUTLYING, OUTLYING);
                // The textbook's difference of a sum and its extreme is a sum that starts over at zero.
                let new = [(up, z), (down, -z)].into_iter().find_map(|(sum, z)| {
                    sum.value = (sum.value + z - PAGE_HINKLEY_SLACK).max(0.0);
                    sum.note(value);
                    (sum.value >= PAGE_HINKLEY_ALARM).then(|| std::mem::take(&mut sum.since))
                });
                if new.is_none() {
                    self.level.add(value, 0.0); // the running mean takes everything in
                }
                new
            }
            State::Adwin { window } => push_adwin(window, value, self.level.least_spread),
        }?;
        let change = Change { n_new: new.len() };
        self.restart(&new);
        Some(change)
    }

    /// The level by what was seen since the last change; `None` before the first value.
    pub fn level(&self) -> Option<f64> {
        match &self.state {
            State::Adwin { window } => (!window.is_empty()).then(|| crate::mean(window)),
            _ => (self.level.n > 0.0).then_some(self.level.mean),
        }
    }

    fn restart(&mut self, values: &[f64]) {
        self.level = Level { least_spread: self.level.least_spread, ..Level::default() };
        for &value in values {
            self.level.add(value, 0.0);
        }
        match &mut self.state {
            State::KSigma { suspect } => *suspect = None,
            State::Cusum { up, down } | State::PageHinkley { up, down } => {
                (*up, *down) = (Sum::default(), Sum::default());
            }
            State::Adwin { window } => values.clone_into(window),
        }
    }
}

/// No single value counts for more than this many spreads: it may be an accident.
const OUTLYING: f64 = 3.0;
const CUSUM_SLACK: f64 = 0.5;
const CUSUM_ALARM: f64 = 5.0;
const PAGE_HINKLEY_SLACK: f64 = 0.25;
const PAGE_HINKLEY_ALARM: f64 = 8.0;
/// How improbable, either side together, a value must be to be suspect.
const K_SIGMA_SUSPECT: f64 = 0.01;
const ADWIN_DELTA: f64 = 0.002;
/// No more values than this are kept.
const MOST_KEPT: usize = 64;
/// Weight of [`ChangeDetector::new`]'s `least_spread`, in values.
const PRIOR_VALUES: f64 = 2.0;

fn push_k_sigma(level: &mut Level, suspect: &mut Option<f64>, value: f64) -> Option<Vec<f64>> {
    let suspicious =
        level.n >= 2.0 && level.z(value).abs() > student_t_quantile(1.0 - K_SIGMA_SUSPECT / 2.0, level.dof());
    if !suspicious {
        *suspect = None; // the one before was an accident
        level.add(value, 0.0);
        return None;
    }
    match suspect.replace(value) {
        Some(before) if (before - level.mean) * (value - level.mean) > 0.0 => Some(vec![before, value]),
        _ => None,
    }
}

fn push_adwin(window: &mut Vec<f64>, value: f64, least_spread: f64) -> Option<Vec<f64>> {
    if window.len() == MOST_KEPT {
        window.remove(0);
    }
    window.push(value);
    let n = window.len() as f64;
    let (sum, squares) = window.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    let log_term = (2.0 * n.ln().max(1.0) / ADWIN_DELTA).ln();
    let (mut old_sum, mut old_squares) = (0.0, 0.0);
    let mut best: Option<(f64, usize)> = None;
    for (i, x) in window.iter().enumerate().take(window.len() - 1) {
        old_sum += x;
        old_squares += x * x;
        let (older, newer) = ((i + 1) as f64, n - (i + 1) as f64);
        let (old_mean, new_mean) = (old_sum / older, (sum - old_sum) / newer);
        // The spread within the two parts: that between them is what is asked about.
        let within =
            old_squares - older * old_mean.powi(2) + (squares - old_squares) - newer * new_mean.powi(2);
        let variance = (within.max(0.0) + PRIOR_VALUES * least_spread.powi(2)) / (n - 2.0 + PRIOR_VALUES);
        let harmonic = 1.0 / (1.0 / older + 1.0 / newer);
        let bound = (2.0 / harmonic * variance * log_term).sqrt()
            + 2.0 / (3.0 * harmonic) * variance.sqrt() * log_term;
        let excess = (old_mean - new_mean).abs() / bound;
        if excess > 1.0 && best.is_none_or(|(most, _)| excess > most) {
            best = Some((excess, i + 1));
        }
    }
    best.map(|(_, n_old)| window[n_old..].to_vec())
}

/// The level and spread of the values of one level.
#[derive(Clone, Debug, Default)]
struct Level {
    n: f64,
    mean: f64,
    /// Sum of the squared distances from the mean (Welford, 1962).
    squares: f64,
    least_spread: f64,
}

impl Level {
    /// Takes a value in, unless it lies `z` spreads off and so says little of the level.
    fn add(&mut self, value: f64, z: f64) {
        if z.abs() >= OUTLYING && self.n >= 2.0 {
            return;
        }
        self.n += 1.0;
        let before = value - self.mean;
        self.mean += before / self.n;
        self.squares += before * (value - self.mean);
    }

    /// How many spreads `value` lies off, the doubt about the level counted in; 0 before the second value.
    fn z(&self, value: f64) -> f64 {
        if self.n < 2.0 { 0.0 } else { (value - self.mean) / (self.spread() * (1.0 + 1.0 / self.n).sqrt()) }
    }

    /// The same with the heavy tails of a spread that few values tell taken off: of variance 1.
    fn normal_z(&self, value: f64) -> f64 {
        self.z(value) * ((self.dof() - 2.0).max(0.0) / self.dof()).sqrt()
    }

    fn spread(&self) -> f64 {
        ((self.squares + PRIOR_VALUES * self.least_spread.powi(2)) / self.dof())
            .sqrt()
            .max(self.least_spread.max(f64::MIN_POSITIVE))
    }

    fn dof(&self) -> f64 {
        self.n - 1.0 + PRIOR_VALUES
    }
}

impl Sum {
    fn note(&mut self, value: f64) {
        if self.value == 0.0 {
            self.since.clear();
            return;
        }
        if self.since.len() == MOST_KEPT {
            self.since.remove(0);
        }
        self.since.push(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;
    use proptest::prelude::*;

    const KINDS: [ChangeDetectorKind; 4] = [
        ChangeDetectorKind::KSigma,
        ChangeDetectorKind::Cusum,
        ChangeDetectorKind::PageHinkley,
        ChangeDetectorKind::Adwin,
    ];

    /// Roughly normal: the sum of twelve uniform numbers.
    fn noise(random: &mut SplitMix64, std: f64) -> f64 {
        ((0..12).map(|_| random.unit()).sum::<f64>() - 6.0) * std
    }

    /// When each kind gives its first alarm, and which values it takes for new.
    fn first_alarm(kind: ChangeDetectorKind, values: &[f64]) -> Option<(usize, Change)> {
        let mut detector = ChangeDetector::new(kind, 0.02);
        values.iter().enumerate().find_map(|(i, &value)| Some((i, detector.push(value)?)))
    }

    #[test]
    fn a_jump_by_a_factor_of_two_is_seen_within_four_values_and_placed_right() {
        let mut random = SplitMix64::new(1);
        for kind in KINDS {
            let values: Vec<f64> =
                (0..30).map(|i| if i < 12 { 2.3 } else { 3.0 } + noise(&mut random, 0.05)).collect();
            let (at, change) = first_alarm(kind, &values).unwrap();
            assert!((12..=15).contains(&at), "{kind:?} at {at}");
            assert!((at + 1 - change.n_new).abs_diff(12) <= 1, "{kind:?} at {at}: {change:?}");
        }
    }

    #[test]
    fn a_small_lasting_shift_is_seen_by_those_that_add_up() {
        let mut random = SplitMix64::new(2);
        let values: Vec<f64> =
            (0..60).map(|i| if i < 20 { 0.0 } else { 0.15 } + noise(&mut random, 0.08)).collect();
        for kind in [ChangeDetectorKind::Cusum, ChangeDetectorKind::PageHinkley, ChangeDetectorKind::Adwin] {
            let (at, _) = first_alarm(kind, &values).unwrap();
            assert!((20..45).contains(&at), "{kind:?} at {at}");
        }
    }

    #[test]
    fn one_accident_is_no_change() {
        for kind in [ChangeDetectorKind::KSigma, ChangeDetectorKind::PageHinkley] {
            let mut random = SplitMix64::new(3);
            let values: Vec<f64> =
                (0..20).map(|i| if i == 9 { 5.0 } else { 0.0 } + noise(&mut random, 0.05)).collect();
            assert_eq!(first_alarm(kind, &values), None, "{kind:?}");
        }
    }

    #[test]
    fn steady_values_give_few_false_alarms() {
        for kind in KINDS {
            for std in [0.0, 0.01, 0.1, 1.0] {
                let mut random = SplitMix64::new(4);
                let mut detector = ChangeDetector::new(kind, 0.02);
                let alarms = (0..5000).filter(|_| detector.push(noise(&mut random, std)).is_some()).count();
                assert!(alarms <= 50, "{kind:?}: {alarms} alarms in 5000 values of spread {std}");
            }
        }
    }

    #[test]
    fn after_a_change_the_next_one_is_seen_as_well() {
        for kind in KINDS {
            let mut detector = ChangeDetector::new(kind, 0.02);
            let values = [0.0; 8].into_iter().chain([1.0; 8]).chain([0.3; 8]);
            let n_changes = values.filter(|&value| detector.push(value).is_some()).count();
            assert_eq!(n_changes, 2, "{kind:?}");
            assert!((detector.level().unwrap() - 0.3).abs() < 1e-9, "{kind:?}");
        }
    }

    proptest! {
        #[test]
        fn a_shift_of_all_values_changes_no_verdict(
            values in prop::collection::vec(-3.0..3.0f64, 0..80), shift in -64..64i32,
        ) {
            for kind in KINDS {
                let alarms = |shift: f64| {
                    let mut detector = ChangeDetector::new(kind, 0.05);
                    values.iter().map(|x| detector.push(x + shift).is_some()).collect::<Vec<_>>()
                };
                prop_assert_eq!(alarms(0.0), alarms(f64::from(shift) / 1024.0));
            }
        }

        #[test]
        fn no_value_breaks_it(values in prop::collection::vec(prop::num::f64::ANY, 0..80)) {
            for kind in KINDS {
                let mut detector = ChangeDetector::new(kind, 0.05);
                for (i, &value) in values.iter().enumerate() {
                    if let Some(change) = detector.push(value) {
                        prop_assert!((1..=i + 1).contains(&change.n_new));
                    }
                }
            }
        }
    }
}
