//! Stretches of stable behaviour as an automaton: a rhythm is entered, left, and may return.

use super::prediction::{Regime, RegimeChange, RegimeChangeKind};
use crate::period::Rule;

/// The automaton: at most one regime is on, and the last [`MOST_KNOWN`] are remembered.
#[derive(Clone, Debug, Default)]
pub(super) struct Regimes {
    known: Vec<Known>,
    current: Option<Current>,
    n_entered: u32,
    /// What happened since [`Regimes::take_changes`].
    changes: Vec<RegimeChange>,
}

/// A rhythm that the job has or had.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    id: u32,
    pub rule: Rule,
    pub period_s: f64,
    /// What one of its phases moves.
    pub bytes: f64,
}

#[derive(Clone, Copy, Debug)]
struct Current {
    id: u32,
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
    /// The regime that is on.
    pub(super) fn current(&self) -> Option<&Known> {
        let current = self.current.as_ref()?;
        self.known.iter().find(|known| known.id == current.id)
    }

    /// The same as a prediction shows it.
    pub(super) fn shown(&self) -> Option<Regime> {
        self.current.map(|Current { id, since_s, n_phases, .. }| Regime { id, since_s, n_phases })
    }

    /// The rhythms the job has had, the last one first.
    pub(super) fn known(&self) -> impl Iterator<Item = &Known> {
        self.known.iter().rev()
    }

    /// A rhythm has begun at `since_s`: one that was there before, or a new one.
    pub(super) fn enter(&mut self, since_s: f64, period_s: f64, bytes: f64, rule: Rule) {
        let same = |known: &Known| {
            (known.period_s / period_s).ln().abs() < SAME_PERIOD
                && (known.bytes / bytes).ln().abs() < 2f64.ln()
        };
        let (known, kind) = match self.known.iter().rposition(same) {
            Some(i) => (Known { period_s, bytes, rule, ..self.known.remove(i) }, RegimeChangeKind::Returned),
            None => {
                self.n_entered += 1;
                (Known { id: self.n_entered, period_s, bytes, rule }, RegimeChangeKind::Entered)
            }
        };
        if self.known.len() == MOST_KNOWN {
            self.known.remove(0);
        }
        self.known.push(known);
        self.current = Some(Current { id: known.id, since_s, n_phases: 0, counted_s: f64::NEG_INFINITY });
        self.note(RegimeChange { at_s: since_s, kind, regime: known.id, period_s });
    }

    /// The rhythm goes on, in its latest form.
    pub(super) fn stay(
        &mut self,
        period_s: f64,
        bytes: f64,
        rule: Rule,
        starts_s: impl Iterator<Item = f64>,
    ) {
        let Some(current) = &mut self.current else { return };
        // The same phase is cut out anew in every window: what lies within half a period of a counted one is that.
        for start_s in starts_s {
            if start_s > current.counted_s + 0.5 * period_s {
                current.n_phases += 1;
                current.counted_s = start_s;
            }
        }
        let id = current.id;
        if let Some(known) = self.known.iter_mut().find(|known| known.id == id) {
            (known.period_s, known.bytes, known.rule) = (period_s, bytes, rule);
        }
    }

    /// The rhythm has ended at `at_s`.
    pub(super) fn leave(&mut self, at_s: f64) {
        if let Some(period_s) = self.current().map(|known| known.period_s)
            && let Some(current) = self.current.take()
        {
            self.note(RegimeChange { at_s, kind: RegimeChangeKind::Left, regime: current.id, period_s });
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

    const RULE: Rule = Rule::Runs { threshold: 0.0, gap: 1.0 };

    fn kinds(regimes: &mut Regimes) -> Vec<(RegimeChangeKind, u32)> {
        regimes.take_changes().into_iter().map(|change| (change.kind, change.regime)).collect()
    }

    #[test]
    fn a_rhythm_that_comes_back_is_known_again() {
        use RegimeChangeKind::{Entered, Left, Returned};
        let mut regimes = Regimes::default();
        regimes.enter(0.0, 10.0, 1e9, RULE);
        regimes.leave(100.0);
        regimes.enter(100.0, 3.0, 1e9, RULE);
        regimes.leave(200.0);
        regimes.enter(200.0, 10.3, 1.1e9, RULE);
        assert_eq!(kinds(&mut regimes), [(Entered, 1), (Left, 1), (Entered, 2), (Left, 2), (Returned, 1)]);
        assert!(kinds(&mut regimes).is_empty());
        assert_eq!(regimes.shown().unwrap().id, 1);
    }

    #[test]
    fn the_same_period_with_ten_times_the_bytes_is_another_rhythm() {
        let mut regimes = Regimes::default();
        regimes.enter(0.0, 10.0, 1e9, RULE);
        regimes.leave(100.0);
        regimes.enter(100.0, 10.0, 1e10, RULE);
        assert_eq!(regimes.shown().unwrap().id, 2);
    }

    #[test]
    fn phases_seen_in_every_window_are_counted_once() {
        let mut regimes = Regimes::default();
        regimes.enter(0.0, 10.0, 1e9, RULE);
        regimes.stay(10.0, 1e9, RULE, [0.0, 10.0, 20.0].into_iter());
        regimes.stay(10.0, 1e9, RULE, [0.02, 10.01, 20.02, 30.0].into_iter());
        assert_eq!(regimes.shown().unwrap().n_phases, 4);
    }

    #[test]
    fn memory_of_rhythms_is_bounded() {
        let mut regimes = Regimes::default();
        for i in 0..1000 {
            regimes.enter(f64::from(i), 1.5f64.powi(i % 40), 1e9, RULE);
            regimes.leave(f64::from(i) + 0.5);
        }
        assert!(regimes.known.len() <= MOST_KNOWN && regimes.changes.len() <= 64);
    }
}
