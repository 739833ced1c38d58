//! How wide the bins of a source are that tells volumes bin by bin.

use crate::{Event, Grain};

/// The widths of the bins seen so far.
///
/// A heatmap has one width, except that its last bin may be cut where the run ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BinWidths {
    /// Events that move data and are no bins.
    n_other: u64,
    /// The first of each width in nanoseconds, how many are alike, and their sum.
    widths: Vec<(i64, u64, i128)>,
}

impl BinWidths {
    /// How many widths are counted; a source with more has no width to speak of.
    const MOST: usize = 8;
    /// Widths that differ by less than this part are alike: a daemon that reports once a second is a few milliseconds early or late.
    const UNEVENNESS: u64 = 8;
    /// The share of the bins that must have the width.
    const SHARE: f64 = 0.9;

    /// Takes note of an event that moves data.
    #[inline]
    pub(crate) fn add(&mut self, event: &Event) {
        if event.grain == Grain::Bin {
            self.add_bin(event.end.as_nanos() - event.start.as_nanos());
        } else {
            self.n_other += 1;
        }
    }

    fn add_bin(&mut self, width: i64) {
        // Both ends of a bin are rounded to the nanosecond, and samples are taken a little early or late.
        let is_alike = |known: i64| known.abs_diff(width) <= 2 + known.unsigned_abs() / Self::UNEVENNESS;
        if let Some((_, n, sum)) = self.widths.iter_mut().find(|(known, ..)| is_alike(*known)) {
            *n += 1;
            *sum += i128::from(width);
        } else if self.widths.len() < Self::MOST {
            self.widths.push((width, 1, i128::from(width)));
        } else {
            self.n_other += 1;
        }
    }

    /// The width of the bins, if all data comes in bins and nearly all bins have the same.
    pub fn width_s(&self) -> Option<f64> {
        let &(first, n, sum) = self.widths.iter().max_by_key(|(_, n, _)| n)?;
        let n_all: u64 = self.n_other + self.widths.iter().map(|(_, n, _)| n).sum::<u64>();
        // Two bins are as many as one that is whole and one that is cut.
        let enough = n as f64 >= Self::SHARE * n_all as f64 || (n_all - n <= 1 && n >= 2);
        let (first, mean) = (first as f64, sum as f64 / n as f64);
        // Bins of a heatmap have one width, to the last digit.
        let width = if (mean - first).abs() <= 2.0 + first / 1000.0 { first } else { mean };
        (enough && width > 0.0).then_some(width * 1e-9)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Op, Rank, Tally, Timestamp};

    fn width_of(spans_s: &[(f64, f64)], grain: Grain) -> Option<f64> {
        let at = |secs| Timestamp::from_secs_since_start(secs).unwrap();
        let mut tally = Tally::default();
        for &(start_s, end_s) in spans_s {
            tally.add(&Event { grain, ..Event::data(Op::Write, Rank(0), at(start_s), at(end_s), 1.0) });
        }
        tally.bin_width_s()
    }

    #[test]
    fn bins_of_one_width_have_it_although_the_last_is_cut() {
        let mut bins: Vec<(f64, f64)> =
            (0..20).map(|i| (f64::from(i) * 0.1, f64::from(i + 1) * 0.1)).collect();
        assert!((width_of(&bins, Grain::Bin).unwrap() - 0.1).abs() < 1e-6);
        bins.push((2.0, 2.03));
        assert!((width_of(&bins, Grain::Bin).unwrap() - 0.1).abs() < 1e-6);
    }

    #[test]
    fn samples_taken_a_little_early_or_late_have_the_width_of_the_mean() {
        let late_s = |i: u32| f64::from(i * 7 % 11) * 0.008;
        let samples: Vec<(f64, f64)> =
            (0..60).map(|i| (f64::from(i) + late_s(i), f64::from(i + 1) + late_s(i + 1))).collect();
        assert!((width_of(&samples, Grain::Bin).unwrap() - 1.0).abs() < 0.005);
    }

    #[test]
    fn calls_and_very_uneven_samples_have_no_width() {
        let bins: Vec<(f64, f64)> = (0..20).map(|i| (f64::from(i), f64::from(i + 1))).collect();
        assert_eq!(width_of(&bins, Grain::Call), None);
        let uneven: Vec<(f64, f64)> =
            (1..40).map(|i| (f64::from(i * i), f64::from((i + 1) * (i + 1)))).collect();
        assert_eq!(width_of(&uneven, Grain::Bin), None);
        assert_eq!(width_of(&[], Grain::Bin), None);
    }
}
