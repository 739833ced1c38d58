//! Beats that bins cannot tell from faster ones.
//!
//! Phases that come about once in a bin, or once in one and a half, fill the bins unevenly: every so many bins there is one phase more than in
//! the others, or one less, and that has a beat of its own, slower than the true one. Such bins are nearly a steady stream, though: from
//! a straight line the bytes moved so far are never further than one phase. So a slow beat is believed if the bytes are further from the
//! line than the faster beat allows.

use super::Rhythm;
use super::stated::LEAST_BINS;
use crate::rhythm::Steps;

/// Returns the periods of faster phases that would fill the bins in the same way as `rhythm` does, the longest first. Its times are those of the
/// steps and `origin_s`.
pub(super) fn faster_periods_s(steps: &Steps, rhythm: &Rhythm, origin_s: f64, bin_s: f64) -> Vec<f64> {
    let starts_s: Vec<f64> = rhythm.phases.iter().map(|phase| phase.start_s - origin_s).collect();
    let Some(swing) = Swing::of(steps, &starts_s, rhythm.period_s) else { return Vec::new() };
    let beat = rhythm.period_s / bin_s;
    let (swing_in_bins, per_bin) = (swing.seconds / bin_s, 1.0 / beat);
    let mut faster = Vec::new();
    // The frequency of the bins, a little more or a little less.
    if beat < LONGEST_SLIP {
        for once in [1.0 / (1.0 - per_bin), 1.0 / (1.0 + per_bin)] {
            if once < LEAST_BINS && swing_in_bins <= once * UNEVEN {
                faster.push(once * bin_s);
            }
        }
    }
    // Two or three phases to a beat, each in bins of its own.
    for parts in [2, 3] {
        let part = beat / f64::from(parts);
        if part < LEAST_BINS && swing.n_bursts >= parts as usize && swing_in_bins <= part * UNEVEN {
            faster.push(part * bin_s);
        }
    }
    faster.sort_by(|a, b| b.total_cmp(a));
    faster
}

/// Bins show one phase more or less every so many bins, at most: the faster period would be even closer to the width of a bin, and that is
/// a coincidence (one in six).
const LONGEST_SLIP: f64 = 12.0;
/// Phases that vary in volume or come late are by so much further from the straight line.
const UNEVEN: f64 = 1.1;
/// A burst ends where the bandwidth falls below this share of the highest.
const DIP: f64 = 0.5;

/// How unevenly bytes are moved within one beat, usually.
struct Swing {
    /// From the least to the most that the bytes moved so far differ from a straight line, as the time the mean bandwidth takes for them.
    seconds: f64,
    /// The bursts in it.
    n_bursts: usize,
}

impl Swing {
    fn of(steps: &Steps, starts_s: &[f64], period_s: f64) -> Option<Self> {
        let (mut swings_s, mut counts) = (Vec::new(), Vec::new());
        for pair in starts_s.windows(2) {
            // Over a pause or a missed beat nothing is a straight line.
            if (pair[1] - pair[0]) < 1.5 * period_s
                && let Some(swing) = Self::between(steps, pair[0], pair[1])
            {
                swings_s.push(swing.seconds);
                counts.push(swing.n_bursts as f64);
            }
        }
        let n_bursts = iotide_num::median(&counts)? as usize;
        Some(Self { seconds: iotide_num::median(&swings_s)?, n_bursts })
    }

    fn between(steps: &Steps, from_s: f64, to_s: f64) -> Option<Self> {
        let first = steps.times_s.partition_point(|&time_s| time_s <= from_s).checked_sub(1)?;
        let pieces = (first..steps.len())
            .map(|i| {
                let (begin_s, end_s) = (steps.times_s[i].max(from_s), steps.times_s[i + 1].min(to_s));
                (end_s - begin_s, steps.rates_bps[i])
            })
            .take_while(|(length_s, _)| *length_s > 0.0);
        let (time_s, bytes) = pieces
            .clone()
            .fold((0.0, 0.0), |(time, bytes), (length_s, rate)| (time + length_s, bytes + length_s * rate));
        if bytes <= 0.0 {
            return None;
        }
        let mean_bps = bytes / time_s;
        let highest_bps = pieces.clone().map(|(_, rate_bps)| rate_bps).fold(0.0, f64::max);
        let (mut ahead_s, mut least_s, mut most_s) = (0.0, 0.0f64, 0.0f64);
        let (mut n_bursts, mut is_high) = (0, false);
        for (length_s, rate_bps) in pieces {
            ahead_s += length_s * (rate_bps / mean_bps - 1.0);
            (least_s, most_s) = (least_s.min(ahead_s), most_s.max(ahead_s));
            let was_high = std::mem::replace(&mut is_high, rate_bps > DIP * highest_bps);
            n_bursts += usize::from(is_high && !was_high);
        }
        Some(Self { seconds: most_s - least_s, n_bursts })
    }
}
