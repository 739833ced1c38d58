//! How wide the bins of a source are that tells volumes bin by bin.

use crate::{Event, Grain};

/// The widths of the bins seen so far.
///
/// A heatmap has one width, except that its last bin may be cut where the run ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BinWidths {
    /// Events that move data and are no bins.
    n_other: u64,
    /// Widths in nanoseconds with how often they were seen.
    widths: Vec<(i64, u64)>,
}

impl BinWidths {
    /// How many widths are counted; a source with more has no width to speak of.
    const MOST: usize = 8;
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
        // Both ends of a bin are rounded to the nanosecond.
        let is_near = |known: i64| known.abs_diff(width) <= 2 + known.unsigned_abs() / 1000;
        if let Some((_, n)) = self.widths.iter_mut().find(|(known, _)| is_near(*known)) {
            *n += 1;
        } else if self.widths.len() < Self::MOST {
            self.widths.push((width, 1));
        } else {
            self.n_other += 1;
        }
    }

    /// The width of the bins, if all data comes in bins and nearly all bins have the same.
    pub fn width_s(&self) -> Option<f64> {
        let &(width, n) = self.widths.iter().max_by_key(|(_, n)| n)?;
        let n_all: u64 = self.n_other + self.widths.iter().map(|(_, n)| n).sum::<u64>();
        // Two bins are as many as one that is whole and one that is cut.
        let enough = n as f64 >= Self::SHARE * n_all as f64 || (n_all - n <= 1 && n >= 2);
        (enough && width > 0).then_some(width as f64 * 1e-9)
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
    fn calls_and_uneven_samples_have_no_width() {
        let bins: Vec<(f64, f64)> = (0..20).map(|i| (f64::from(i), f64::from(i + 1))).collect();
        assert_eq!(width_of(&bins, Grain::Call), None);
        let uneven: Vec<(f64, f64)> =
            (1..40).map(|i| (f64::from(i * i), f64::from((i + 1) * (i + 1)))).collect();
        assert_eq!(width_of(&uneven, Grain::Bin), None);
        assert_eq!(width_of(&[], Grain::Bin), None);
    }
}
