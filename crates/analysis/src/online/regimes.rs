//! Stretches of stable behaviour as an automaton: a rhythm is entered, left, and may return.

use super::prediction::{Regime, RegimeChange, RegimeChangeKind};
use crate::rhythm::Rule;

/// The automaton: at most one regime is on, and the last [`MOST_KNOWN`] are remembered.
#[derive(Clone, Debug, Default)]
pub(super) struct Regimes {
    known: Vec<Known>,
    current: Option<Current>,
    n_entered: u32,
    /// Changes since [`Regimes::take_changes`].
    changes: Vec<RegimeChange>,
}

/// A rhythm that the job has or had.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// 0 until it is established.
    id: u32,
    pub fit: Fit,
    pub period_s: f64,
    /// Bytes that one of its phases moves.
    pub bytes: f64,
}

/// How the phases of a rhythm are found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fit {
    pub rule: Rule,
    /// How wide the bins were in which the rule last found them.
    pub bin_s: f64,
}

#[derive(Clone, Copy, Debug)]
struct Current {
    known: Known,
    since_s: f64,
    n_phases: u32,
    /// The start of the last phase that was counted.
    counted_s: f64,
}

/// How many rhythms are remembered.
const MOST_KNOWN: usize = 8;

/// How much the periods of two stretches may differ, as a logarithm, to be the same rhythm.
const SAME_PERIOD: f64 = 0.1;

impl Regimes {
    /// The rhythm that is on, established or not.
    pub(super) fn current(&self) -> Option<&Known> {
        self.current.as_ref().map(|current| &current.known)
    }

    /// The regime that is on, as a prediction shows it.
    pub(super) fn shown(&self) -> Option<Regime> {
        let Current { known, since_s, n_phases, .. } = self.current.filter(|current| current.known.id > 0)?;
        Some(Regime { id: known.id, since_s, n_phases })
    }

    /// The rhythms the job has had, the last one first.
    pub(super) fn known(&self) -> impl Iterator<Item = &Known> {
        self.known.iter().rev()
    }

    /// A rhythm has begun at `since_s`: one that was there before, or maybe a new one.
    pub(super) fn enter(&mut self, since_s: f64, period_s: f64, bytes: f64, fit: Fit) {
        let same = |known: &Known| {
            (known.period_s / period_s).ln().abs() < SAME_PERIOD
                && (known.bytes / bytes).ln().abs() < 2f64.ln()
        };
        let mut known = Known { id: 0, period_s, bytes, fit };
        if let Some(i) = self.known.iter().rposition(same) {
            known.id = self.known.remove(i).id;
            self.known.push(known);
            self.note(RegimeChange {
                at_s: since_s,
                kind: RegimeChangeKind::Returned,
                regime: known.id,
                period_s,
            });
        }
        self.current = Some(Current { known, since_s, n_phases: 0, counted_s: f64::NEG_INFINITY });
    }

    /// The rhythm goes on, in its latest form; with `established` phases it is a regime.
    pub(super) fn stay(
        &mut self,
        period_s: f64,
        bytes: f64,
        fit: Fit,
        starts_s: impl Iterator<Item = f64>,
        established: u32,
    ) {
        let Some(mut current) = self.current else { return };
        // The same phase is cut out anew in every window: what lies within half a period of a counted one is that.
        for start_s in starts_s {
            if start_s > current.counted_s + 0.5 * period_s {
                current.n_phases += 1;
                current.counted_s = start_s;
            }
        }
        current.known = Known { period_s, bytes, fit, ..current.known };
        if current.known.id > 0 {
            self.known.retain(|known| known.id != current.known.id);
            self.known.push(current.known);
        } else if current.n_phases >= established {
            self.n_entered += 1;
            current.known.id = self.n_entered;
            if self.known.len() == MOST_KNOWN {
                self.known.remove(0);
            }
            self.known.push(current.known);
            self.note(RegimeChange {
                at_s: current.since_s,
                kind: RegimeChangeKind::Entered,
                regime: current.known.id,
                period_s,
            });
        }
        self.current = Some(current);
    }

    /// The phases of the rhythm that is on are found in another way from now on.
    pub(super) fn cut_anew(&mut self, rule: Rule) {
        if let Some(current) = &mut self.current {
            current.known.fit.rule = rule;
        }
    }

    /// The rhythm has ended at `at_s`.
    pub(super) fn leave(&mut self, at_s: f64) {
        if let Some(Current { known, .. }) = self.current.take().filter(|current| current.known.id > 0) {
            let Known { id, period_s, .. } = known;
            self.note(RegimeChange { at_s, kind: RegimeChangeKind::Left, regime: id, period_s });
        }
    }

    /// Hands out what happened.
    pub(super) fn take_changes(&mut self) -> Vec<RegimeChange> {
        std::mem::take(&mut self.changes)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.known.capacity() * size_of::<Known>() + self.changes.capacity() * size_of::<RegimeChange>()
    }

    fn note(&mut self, change: RegimeChange) {
        // Nobody asks for predictions? Then the oldest changes go.
        if self.changes.len() == 64 {
            self.changes.remove(0);
        }
        self.changes.push(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIT: Fit = Fit { rule: Rule::Runs { level_bps: 0.0, gap_s: 1.0, least_bytes: 0.0 }, bin_s: 0.1 };

    /// Has a rhythm from `since_s` on, for ten phases.
    fn hold(regimes: &mut Regimes, since_s: f64, period_s: f64, bytes: f64) {
        regimes.enter(since_s, period_s, bytes, FIT);
        regimes.stay(period_s, bytes, FIT, (0..10).map(|i| since_s + f64::from(i) * period_s), 6);
        regimes.leave(since_s + 10.0 * period_s);
    }

    fn kinds(regimes: &mut Regimes) -> Vec<(RegimeChangeKind, u32)> {
        regimes.take_changes().into_iter().map(|change| (change.kind, change.regime)).collect()
    }

    #[test]
    fn a_rhythm_that_comes_back_is_known_again() {
        use RegimeChangeKind::{Entered, Left, Returned};
        let mut regimes = Regimes::default();
        hold(&mut regimes, 0.0, 10.0, 1e9);
        hold(&mut regimes, 100.0, 3.0, 1e9);
        regimes.enter(200.0, 10.3, 1.1e9, FIT);
        assert_eq!(kinds(&mut regimes), [(Entered, 1), (Left, 1), (Entered, 2), (Left, 2), (Returned, 1)]);
        assert!(kinds(&mut regimes).is_empty());
        assert_eq!(regimes.shown().unwrap().id, 1);
    }

    #[test]
    fn the_same_period_with_ten_times_the_bytes_is_another_rhythm() {
        let mut regimes = Regimes::default();
        hold(&mut regimes, 0.0, 10.0, 1e9);
        hold(&mut regimes, 100.0, 10.0, 1e10);
        assert_eq!(kinds(&mut regimes)[2], (RegimeChangeKind::Entered, 2));
    }

    #[test]
    fn three_phases_are_predicted_from_but_are_no_regime() {
        let mut regimes = Regimes::default();
        regimes.enter(0.0, 10.0, 1e9, FIT);
        regimes.stay(10.0, 1e9, FIT, [0.0, 10.0, 20.0].into_iter(), 6);
        assert!(regimes.current().is_some() && regimes.shown().is_none());
        regimes.leave(25.0);
        assert!(kinds(&mut regimes).is_empty());
    }

    #[test]
    fn phases_seen_in_every_window_are_counted_once() {
        let mut regimes = Regimes::default();
        regimes.enter(0.0, 10.0, 1e9, FIT);
        regimes.stay(10.0, 1e9, FIT, (0..6).map(|i| 10.0 * f64::from(i)), 6);
        regimes.stay(10.0, 1e9, FIT, (0..7).map(|i| 10.0 * f64::from(i) + 0.02), 6);
        assert_eq!(regimes.shown().unwrap().n_phases, 7);
    }

    #[test]
    fn memory_of_rhythms_is_bounded() {
        let mut regimes = Regimes::default();
        for i in 0..1000 {
            hold(&mut regimes, f64::from(i) * 1e9, 1.5f64.powi(i % 40), 1e9);
        }
        assert!(regimes.known.len() <= MOST_KNOWN && regimes.changes.len() <= 64);
    }
}
