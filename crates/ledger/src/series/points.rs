//! One column over time, in as many points as someone wants to see.

use super::rows::{Rows, Sample};

/// A column over time: one value for each point, where there is one.
#[derive(Clone, Debug, PartialEq)]
pub struct Points {
    /// How often the rows were folded.
    pub folds: u8,
    /// The tick of the first point.
    pub first_tick: u64,
    /// How many ticks a point covers.
    pub ticks_a_point: u64,
    /// Values of the points, and how many samples each stands for.
    pub values: Vec<Option<(Sample, u32)>>,
}

impl Points {
    /// How long a point is.
    pub fn period_s(&self) -> u64 {
        self.ticks_a_point << self.folds
    }

    /// When the first point begins, in seconds since 1970.
    pub fn start_s(&self) -> u64 {
        self.first_tick << self.folds
    }
}

/// Returns a column of rows that are in order, between two seconds since 1970, in at most so many points. What is between two points is in the second: a
/// counter's last value is the last value, and a gauge's sum is kept. `None` if there is nothing.
pub fn points<'a>(
    rows: impl Iterator<Item = &'a Rows> + Clone,
    id: u32,
    (from_s, to_s): (u64, u64),
    most: usize,
) -> Option<Points> {
    let folds = rows.clone().map(Rows::folds).max()?;
    let ticks = from_s >> folds..=to_s >> folds;
    let values = rows.flat_map(|rows| {
        let by = folds - rows.folds();
        rows.column(id).map(move |(tick, sample, n)| (tick >> by, sample, n))
    });
    let values = values.filter(|(tick, ..)| ticks.contains(tick));
    let (mut first_tick, mut last) = (u64::MAX, 0);
    for (tick, ..) in values.clone() {
        (first_tick, last) = (first_tick.min(tick), last.max(tick));
    }
    let n_ticks = last.checked_sub(first_tick)?.saturating_add(1);
    let most = most.max(1) as u64;
    let ticks_a_point = n_ticks.div_ceil(most).max(1);
    let mut points: Vec<Option<(Sample, u32)>> = vec![None; n_ticks.div_ceil(ticks_a_point) as usize];
    for (tick, sample, n) in values {
        let Some(point) = points.get_mut(((tick - first_tick) / ticks_a_point) as usize) else { continue };
        *point = Some(match *point {
            Some((before, n_before)) => (before.merged(n_before, sample, n), n_before.saturating_add(n)),
            None => (sample, n),
        });
    }
    Some(Points { folds, first_tick, ticks_a_point, values: points })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn gaps_stay_gaps_and_pieces_of_different_periods_meet() {
        let mut early = Rows::new(2);
        early.add(100, [(0, Sample::Counter(5))]);
        early.add(104, [(0, Sample::Counter(6))]);
        let mut late = Rows::new(0);
        late.add(117, [(0, Sample::Counter(7))]);
        late.add(118, [(0, Sample::Counter(8))]);
        let rows = [early, late];
        let all = points(rows.iter(), 0, (0, u64::MAX), 1000).unwrap();
        let value = |value, n| Some((Sample::Counter(value), n));
        assert_eq!((all.start_s(), all.period_s()), (100, 4));
        assert_eq!(all.values, [value(5, 1), value(6, 1), None, None, value(8, 2)]);
        let two = points(rows.iter(), 0, (0, u64::MAX), 2).unwrap();
        assert_eq!((two.period_s(), two.values), (12, vec![value(6, 2), value(8, 2)]));
        let some = points(rows.iter(), 0, (104, 110), 1000).unwrap();
        assert_eq!((some.start_s(), some.values), (104, vec![value(6, 1)]));
        assert_eq!(points(rows.iter(), 1, (0, u64::MAX), 10), None);
        assert_eq!(points([].iter(), 0, (0, u64::MAX), 10), None);
    }

    proptest! {
        #[test]
        fn fewer_points_add_up_to_the_same(
            steps in prop::collection::vec((1u64..6, 0u64..1000), 1..300),
            most in 1usize..50,
        ) {
            let mut rows = vec![Rows::new(0)];
            let (mut second, mut sum, mut gauges) = (1000, 0, 0);
            for (step, grow) in steps {
                (second, sum, gauges) = (second + step, sum + grow, gauges + grow);
                if second % 7 == 0 {
                    rows.push(Rows::new(0));
                }
                let last = rows.last_mut().unwrap();
                last.add(second, [(0, Sample::Counter(sum)), (1, Sample::Gauge(grow as f64))]);
            }
            let counter = points(rows.iter(), 0, (0, u64::MAX), most).unwrap();
            prop_assert!(counter.values.len() <= most);
            prop_assert_eq!(counter.values.last().unwrap().unwrap().0, Sample::Counter(sum));
            let gauge = points(rows.iter(), 1, (0, u64::MAX), most).unwrap();
            let total: f64 = gauge.values.iter().flatten().map(|(sample, n)| match sample {
                Sample::Gauge(value) => value * f64::from(*n),
                Sample::Counter(_) => 0.0,
            }).sum();
            prop_assert!((total - gauges as f64).abs() < 1e-6 * total.max(1.0));
        }
    }
}
