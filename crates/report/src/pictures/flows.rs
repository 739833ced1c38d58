//! Reads and writes over time, as columns of a picture: each keeps its mean, its lowest and its highest bandwidth.

use iotide_look::chart::{Look, Series, Xs};
use iotide_trace::StepSignal;

/// The most columns; a screen has fewer.
pub(super) const MOST_COLUMNS: usize = 4096;

/// Reads and writes between two moments, those that moved anything; reads hang below writes if both can be seen.
pub(super) fn series(reads: &StepSignal, writes: &StepSignal, start_s: f64, end_s: f64) -> Vec<Series> {
    let both = [("written", 0, writes), ("read", 1, reads)];
    let mut series: Vec<Series> = both
        .into_iter()
        .filter_map(|(label, colour, signal)| {
            let columns = Columns::of(signal, start_s, end_s)?;
            let is_flat = columns.lo == columns.hi;
            let (lo, hi) = if is_flat { (Vec::new(), Vec::new()) } else { (columns.lo, columns.hi) };
            let x = Xs::Even { start: start_s, step: (end_s - start_s) / columns.mean.len() as f64 };
            Some(Series {
                label: label.into(),
                look: Look::Area,
                colour,
                step: true,
                x,
                mid: columns.mean,
                lo,
                hi,
            })
        })
        .collect();
    if let [written, read] = series.as_mut_slice()
        && are_both_seen(written.peak(start_s, end_s), read.peak(start_s, end_s))
    {
        read.look = Look::Below;
    }
    series
}

/// Whether two curves that reach up to these are both worth half a picture.
pub fn are_both_seen(a_bps: f64, b_bps: f64) -> bool {
    const SEEN: f64 = 0.01;
    a_bps.min(b_bps) > SEEN * a_bps.max(b_bps)
}

struct Columns {
    mean: Vec<f64>,
    lo: Vec<f64>,
    hi: Vec<f64>,
}

impl Columns {
    /// `None` if nothing was moved.
    fn of(signal: &StepSignal, start_s: f64, end_s: f64) -> Option<Self> {
        let n = MOST_COLUMNS;
        let step_s = (end_s - start_s) / n as f64;
        if step_s <= 0.0 || !step_s.is_finite() {
            return None;
        }
        let (mut mean, mut hi) = (vec![0.0; n], vec![0.0f64; n]);
        let (mut lo, mut covered) = (vec![f64::INFINITY; n], vec![0.0; n]);
        let mut moved = false;
        for (from, to, rate) in signal.pieces() {
            let (from, to) = ((from.as_secs() - start_s) / step_s, (to.as_secs() - start_s) / step_s);
            let (from, to) = (from.max(0.0), to.min(n as f64));
            if to <= from {
                continue;
            }
            moved |= rate > 0.0;
            for i in from as usize..(to.ceil() as usize).min(n) {
                let share = to.min(i as f64 + 1.0) - from.max(i as f64);
                if share <= 0.0 {
                    continue;
                }
                mean[i] += rate * share;
                covered[i] += share;
                lo[i] = lo[i].min(rate);
                hi[i] = hi[i].max(rate);
            }
        }
        // Where the signal does not reach, nothing was moved.
        for i in 0..n {
            if covered[i] < 1.0 - 1e-9 {
                lo[i] = 0.0;
            }
            lo[i] = lo[i].min(mean[i]);
            hi[i] = hi[i].max(mean[i]);
        }
        moved.then_some(Self { mean, lo, hi })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_trace::Timestamp;

    fn bursts(n: i64) -> StepSignal {
        let at = |ns: i64| Timestamp::from_nanos_since_start(ns);
        let times = (0..n).flat_map(|i| [at(i * 1_000_000), at(i * 1_000_000 + 100)]).collect();
        StepSignal::new(times, (0..n).flat_map(|_| [1e9, 0.0]).collect())
    }

    #[test]
    fn every_burst_is_as_high_as_it_was_and_no_byte_is_lost() {
        // 10,000 bursts of 100 ns: a column holds two or three of them.
        let writes = bursts(10_000);
        let series = series(&StepSignal::default(), &writes, 0.0, 10.0);
        let [written] = series.as_slice() else { panic!("{series:?}") };
        assert_eq!((&*written.label, written.mid.len()), ("written", MOST_COLUMNS));
        assert!(written.hi[..4095].iter().all(|&hi| hi == 1e9), "no beat between bursts and columns");
        assert!(written.lo.iter().all(|&lo| lo == 0.0));
        let volume: f64 = written.mid.iter().map(|mean| mean * 10.0 / MOST_COLUMNS as f64).sum();
        assert!((volume - 10_000.0 * 100.0).abs() < 1.0, "{volume}");
    }

    #[test]
    fn reads_hang_below_writes_only_where_there_are_both() {
        let (some, none) = (bursts(100), StepSignal::default());
        let looks = |reads, writes| -> Vec<Look> {
            series(reads, writes, 0.0, 0.1).iter().map(|series| series.look).collect()
        };
        assert_eq!(looks(&some, &some), [Look::Area, Look::Below]);
        assert_eq!((looks(&some, &none), looks(&none, &some)), (vec![Look::Area], vec![Look::Area]));
    }
}
