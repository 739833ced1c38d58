//! Late counts of seconds that were sampled already.

use std::collections::{BTreeMap, BTreeSet};

use super::rows::{ColumnKind, Rows, Sample};

/// Growth of counters in some seconds, beyond their samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amendment(Vec<Growth>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Growth {
    from_s: u64,
    until_s: u64,
    column: u32,
    added: u64,
}

impl Amendment {
    /// From one second until before another, a counter had so much more.
    pub fn add(&mut self, (from_s, until_s): (u64, u64), column: u32, added: u64) {
        if from_s < until_s && added > 0 {
            self.0.push(Growth { from_s, until_s, column, added });
        }
    }

    /// The first second that something is learnt of.
    pub fn from_s(&self) -> Option<u64> {
        self.0.iter().map(|growth| growth.from_s).min()
    }

    /// The first second after all of these.
    pub fn until_s(&self) -> Option<u64> {
        self.0.iter().map(|growth| growth.until_s).max()
    }

    /// Ticks of rows folded so often at which something begins, and what each column has more from a tick on, or less again.
    fn steps(&self, folds: u8) -> (BTreeSet<u64>, BTreeMap<u64, BTreeMap<u32, i128>>) {
        let mut begins = BTreeSet::new();
        let mut steps: BTreeMap<u64, BTreeMap<u32, i128>> = BTreeMap::new();
        for Growth { from_s, until_s, column, added } in &self.0 {
            // A tick has the counters of its last second.
            let (from, until) = (from_s >> folds, until_s >> folds);
            if from < until {
                begins.insert(from);
                *steps.entry(from).or_default().entry(*column).or_default() += i128::from(*added);
                *steps.entry(until).or_default().entry(*column).or_default() -= i128::from(*added);
            }
        }
        (begins, steps)
    }
}

impl Rows {
    /// Returns these rows with what was learnt later. A second that was not sampled has what the one before had, and what is known of it now; no
    /// counter has more than in the next sample.
    #[must_use]
    pub fn amended(&self, amendment: &Amendment) -> Self {
        let (begins, steps) = amendment.steps(self.folds());
        let Some(last) = self.ticks().last() else { return self.clone() };
        let known: BTreeSet<u64> = self.ticks().iter().copied().collect();
        // Nothing is put behind the last sample: who goes on there knows what came.
        let ticks: Vec<u64> = known.union(&begins).copied().filter(|tick| tick <= last).collect();
        let touched: BTreeSet<u32> = steps.values().flat_map(|step| step.keys().copied()).collect();
        let mut columns: BTreeMap<u32, Vec<Option<u64>>> = BTreeMap::new();
        for id in &touched {
            columns.insert(*id, amend_column(self, *id, &ticks, &steps));
        }
        let mut amended = Self::new(self.folds());
        let mut index = 0;
        for (at, tick) in ticks.iter().enumerate() {
            if self.ticks().get(index) == Some(tick) {
                amended.append_tick(self, index);
                index += 1;
            }
            let samples = columns.iter().filter_map(|(id, values)| Some((*id, Sample::Counter(values[at]?))));
            amended.put(*tick, samples);
        }
        amended
    }
}

/// The values of a column at these ticks; `None` where there is none and none is known.
fn amend_column(
    rows: &Rows,
    id: u32,
    ticks: &[u64],
    steps: &BTreeMap<u64, BTreeMap<u32, i128>>,
) -> Vec<Option<u64>> {
    let is_counter =
        rows.columns().find(|(known, _)| *known == id).is_none_or(|it| it.1 == ColumnKind::Counter);
    let samples: BTreeMap<u64, u64> = rows
        .column(id)
        .filter_map(|(tick, sample, _)| match sample {
            Sample::Counter(value) => Some((tick, value)),
            Sample::Gauge(_) => None,
        })
        .collect();
    if !is_counter {
        return vec![None; ticks.len()];
    }
    let mut values: Vec<Option<u64>> = Vec::with_capacity(ticks.len());
    let (mut more, mut step) = (0i128, steps.iter().peekable());
    for tick in ticks {
        while let Some((_, added)) = step.next_if(|(at, _)| *at <= tick) {
            more += added.get(&id).copied().unwrap_or(0);
        }
        let sampled = samples.get(tick).copied();
        if more == 0 {
            values.push(sampled);
            continue;
        }
        // Where nobody took a sample, what was known was that of the one before; of a daemon that was started anew, that of the next.
        let before = || samples.range(..tick).next_back().map_or(0, |(_, value)| *value);
        let after = || samples.range(tick..).next().map_or(u64::MAX, |(_, value)| *value);
        let base = sampled.unwrap_or_else(|| before().min(after()));
        values.push(Some(u64::try_from(i128::from(base) + more).unwrap_or(u64::MAX)));
    }
    // From the end: no second has more than the next sample.
    let mut most = u64::MAX;
    for (value, tick) in values.iter_mut().zip(ticks).rev() {
        if let Some(value) = value {
            if samples.get(tick) != Some(&*value) {
                *value = (*value).min(most).max(samples.get(tick).copied().unwrap_or(0));
            }
            most = *value;
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows(samples: &[(u64, u64)]) -> Rows {
        let mut rows = Rows::new(0);
        for (second, value) in samples {
            let gauge = Sample::Gauge(*second as f64);
            assert_eq!(rows.add(*second, [(0, Sample::Counter(*value)), (1, gauge)]), 0);
        }
        rows
    }

    fn column(rows: &Rows, id: u32) -> Vec<(u64, u64)> {
        let of = |(tick, sample, _)| match sample {
            Sample::Counter(value) => (tick, value),
            Sample::Gauge(value) => (tick, value as u64),
        };
        rows.column(id).map(of).collect()
    }

    #[test]
    fn a_lump_behind_a_silence_is_spread_over_the_seconds_it_came_from() {
        let before = rows(&[(10, 5), (11, 5), (12, 5), (14, 5), (15, 50), (16, 60)]);
        let mut amendment = Amendment::default();
        // What came late: 15 at 11, 25 at 13, which has no sample, and 30 at 14.
        for (second, added) in [(11, 10), (13, 10), (14, 5)] {
            amendment.add((second, 15), 0, added);
        }
        // A column that is only known since.
        amendment.add((13, 15), 2, 7);
        let after = before.amended(&amendment);
        assert_eq!(column(&after, 0), [(10, 5), (11, 15), (12, 15), (13, 25), (14, 30), (15, 50), (16, 60)]);
        assert_eq!(
            column(&after, 1),
            [(10, 10), (11, 11), (12, 12), (14, 14), (15, 15), (16, 16)],
            "as they were"
        );
        assert_eq!(column(&after, 2), [(13, 7), (14, 7)]);
        assert_eq!((amendment.from_s(), amendment.until_s()), (Some(11), Some(15)));
    }

    #[test]
    fn rows_that_were_folded_get_what_their_last_second_has() {
        let mut before = Rows::new(2);
        for (second, value) in [(100, 5), (104, 5), (108, 40)] {
            before.add(second, [(0, Sample::Counter(value))]);
        }
        let mut amendment = Amendment::default();
        amendment.add((105, 108), 0, 10);
        amendment.add((106, 107), 0, 3);
        assert_eq!(column(&before.amended(&amendment), 0), [(25, 5), (26, 15), (27, 40)]);
    }

    #[test]
    fn what_was_shown_before_a_restart_is_not_added_to_twice() {
        // A daemon that showed 100 and was started anew with 40, until its children came back with 130.
        let before = rows(&[(10, 100), (15, 40), (17, 130)]);
        let mut amendment = Amendment::default();
        amendment.add((15, 17), 0, 80);
        amendment.add((16, 17), 0, 5);
        assert_eq!(column(&before.amended(&amendment), 0), [(10, 100), (15, 120), (16, 125), (17, 130)]);
        // However much is said to have come late, the next sample has all of it.
        amendment.add((11, 17), 0, 1000);
        let after = column(&before.amended(&amendment), 0);
        assert_eq!(after, [(10, 100), (11, 130), (15, 130), (16, 130), (17, 130)]);
    }

    proptest! {
        /// A counter of several nodes, of which some are silent for a while: with what they say later it is as if they had not been.
        #[test]
        fn what_is_amended_is_as_if_it_had_been_known(
            grown in prop::collection::vec(prop::collection::vec(0u64..100, 3), 4..80),
            cuts in prop::collection::vec((any::<prop::sample::Index>(), 1usize..30), 3),
        ) {
            let (n, begin) = (grown.len(), 1000);
            let mut truth = vec![[0; 3]; n];
            for second in 0..n {
                for node in 0..3 {
                    truth[second][node] = grown[second][node] + if second > 0 { truth[second - 1][node] } else { 0 };
                }
            }
            let (mut shown, mut amendment) = (truth.clone(), Amendment::default());
            for (node, (cut, length)) in cuts.iter().enumerate() {
                let from = cut.index(n - 1).max(1);
                // The last sample has all of it.
                let until = (from + length).min(n - 1);
                for second in from..until {
                    shown[second][node] = truth[from - 1][node];
                    let added = truth[second][node] - truth[second - 1][node];
                    amendment.add((begin + second as u64, begin + until as u64), 0, added);
                }
            }
            let of = |all: &[[u64; 3]]| -> Vec<(u64, u64)> {
                (begin..).zip(all.iter().map(|of_nodes| of_nodes.iter().sum())).collect()
            };
            let amended = rows(&of(&shown)).amended(&amendment);
            prop_assert_eq!(column(&amended, 0), of(&truth));
            prop_assert_eq!(Rows::decode(&amended.encode()), Ok(amended));
        }
    }
}
