//! The signal as the engine sees it: bandwidth that is constant in steps, and the bursts in it.

use iotide_trace::{SampledSignal, Span, StepSignal};

/// Bandwidth over time. Step `i` reaches from `times_s[i]` to `times_s[i + 1]`, counted from the window's start.
#[derive(Clone, Debug)]
pub(crate) struct Steps {
    pub times_s: Vec<f64>,
    pub rates_bps: Vec<f64>,
    /// The steps are even bins of this width, and a burst may begin anywhere within one.
    pub bin_s: Option<f64>,
    /// Times are not known better than to this.
    pub resolution_s: f64,
    /// Times are whole rows of this width; 0 if they are exact.
    pub row_s: f64,
}

impl Steps {
    /// The part of `signal` within `window`, exact.
    pub(crate) fn within(signal: &StepSignal, window: Span) -> Self {
        let mut times_s = Vec::with_capacity(signal.times().len() + 1);
        let mut rates_bps = Vec::with_capacity(signal.times().len());
        for (start, end, rate_bps) in signal.pieces() {
            let (start, end) = (start.max(window.start), end.min(window.end));
            if start < end {
                times_s.push(start.secs_since(window.start));
                rates_bps.push(rate_bps);
            }
        }
        times_s.push(window.duration_s().max(times_s.last().copied().unwrap_or(0.0)));
        Self { times_s, rates_bps, bin_s: None, resolution_s: 0.0, row_s: 0.0 }
    }

    /// A sampled signal, each sample a step.
    pub(crate) fn sampled(signal: &SampledSignal) -> Self {
        let bin_s = 1.0 / signal.rate_hz;
        Self {
            times_s: (0..=signal.values.len()).map(|i| i as f64 * bin_s).collect(),
            rates_bps: signal.values.clone(),
            bin_s: Some(bin_s),
            resolution_s: bin_s,
            row_s: 0.0,
        }
    }

    /// These parts of the signal (in order of time, apart) one after the other.
    pub(crate) fn only(&self, parts: &[(f64, f64)]) -> Self {
        let (mut times_s, mut rates_bps) = (vec![0.0], Vec::new());
        for &(from_s, to_s) in parts {
            let begin_s = times_s[times_s.len() - 1];
            let mut i = self.times_s.partition_point(|&time_s| time_s <= from_s).saturating_sub(1);
            while i < self.len() && self.times_s[i] < to_s {
                times_s.push(begin_s + self.times_s[i + 1].min(to_s) - from_s);
                rates_bps.push(self.rates_bps[i]);
                i += 1;
            }
        }
        Self { times_s, rates_bps, bin_s: None, resolution_s: self.resolution_s, row_s: self.row_s }
    }

    pub(crate) fn duration_s(&self) -> f64 {
        self.times_s.last().copied().unwrap_or(0.0)
    }

    pub(crate) fn len(&self) -> usize {
        self.rates_bps.len()
    }

    pub(crate) fn bytes(&self) -> f64 {
        (0..self.len()).map(|i| self.bytes_of(i)).sum()
    }

    #[inline]
    fn length_s(&self, i: usize) -> f64 {
        self.times_s[i + 1] - self.times_s[i]
    }

    #[inline]
    fn bytes_of(&self, i: usize) -> f64 {
        self.rates_bps[i] * self.length_s(i)
    }

    /// Maximal stretches with more than `threshold_bps`.
    pub(crate) fn bursts_above(&self, threshold_bps: f64) -> Vec<Burst> {
        let mut bursts = Vec::new();
        let mut i = 0;
        while i < self.len() {
            if self.rates_bps[i] <= threshold_bps {
                i += 1;
                continue;
            }
            let from = i;
            let mut bytes = 0.0;
            while i < self.len() && self.rates_bps[i] > threshold_bps {
                bytes += self.bytes_of(i);
                i += 1;
            }
            let (start_s, end_s) = self.ends(from, i);
            bursts.push(Burst { start_s, end_s, bytes });
        }
        bursts
    }

    /// Where a burst over the steps `from..to` begins and ends: a bin that is filled by a third means that the burst
    /// began at two thirds of it.
    fn ends(&self, from: usize, to: usize) -> (f64, f64) {
        let (start_s, end_s) = (self.times_s[from], self.times_s[to]);
        let Some(bin_s) = self.bin_s.filter(|_| to - from >= 2) else { return (start_s, end_s) };
        let x = &self.rates_bps;
        let empty = |edge: usize, inner: usize| {
            if x[inner] > x[edge] { bin_s * (1.0 - x[edge] / x[inner]) } else { 0.0 }
        };
        (start_s + empty(from, from + 1), end_s - empty(to - 1, to - 2))
    }

    /// The levels of bandwidth at which to tell bursts from what goes on beside them.
    ///
    /// All of them come from how the *bytes* are distributed over the rates, not the time: a pause of any length, before,
    /// within or after the run, changes none of them.
    pub(crate) fn levels_bps(&self) -> Vec<f64> {
        let mut by_rate: Vec<(f64, f64)> = (0..self.len())
            .map(|i| (self.rates_bps[i], self.bytes_of(i)))
            .filter(|&(rate_bps, bytes)| rate_bps > 0.0 && bytes > 0.0)
            .collect();
        // Positive numbers are in the order of their bits.
        by_rate.sort_unstable_by_key(|(rate_bps, _)| rate_bps.to_bits());
        let total: f64 = by_rate.iter().map(|(_, bytes)| bytes).sum();
        let mut levels = vec![0.0];
        let Some(&(lowest, _)) = by_rate.first() else { return levels };
        // Bytes over the logarithm of the rate: valleys in between are natural levels.
        let quantile = |share: f64| {
            let mut sum = 0.0;
            for &(rate_bps, bytes) in &by_rate {
                sum += bytes;
                if sum >= share * total {
                    return rate_bps;
                }
            }
            by_rate[by_rate.len() - 1].0
        };
        let middle = quantile(0.5);
        let mut wanted: Vec<f64> = LEVELS.iter().map(|share| share * middle).collect();
        wanted.extend(self.natural_levels(&by_rate, total));
        let highest = by_rate[by_rate.len() - 1].0;
        for level in wanted {
            if level >= lowest && level < highest {
                levels.push(level);
            }
        }
        levels.sort_unstable_by(f64::total_cmp);
        levels.dedup_by(|b, a| *a > 0.0 && *b < *a * 1.1);
        levels
    }

    /// The middles of the widest jumps between rates, among those that move the bulk of the bytes on either side.
    fn natural_levels(&self, by_rate: &[(f64, f64)], total: f64) -> Vec<f64> {
        let mut below = 0.0;
        let mut jumps: Vec<(f64, f64)> = Vec::new();
        for pair in by_rate.windows(2) {
            below += pair[0].1;
            // Less than a two-hundredth of the bytes on one side says nothing about phases.
            if below > 0.002 * total && below < 0.98 * total && pair[1].0 > 1.207 * pair[0].0 {
                jumps.push((pair[1].0 / pair[0].0, (pair[0].0 * pair[1].0).sqrt()));
            }
        }
        let rounded = |ratio: f64| (ratio.ln() * 1e6).round();
        jumps.sort_by(|a, b| rounded(b.0).total_cmp(&rounded(a.0)).then(a.1.total_cmp(&b.1)));
        jumps.truncate(3);
        jumps.into_iter().map(|(_, level)| level).collect()
    }

    /// Mean bandwidth in `n` even bins over the window.
    pub(crate) fn in_bins(&self, n: usize) -> Vec<f64> {
        let mut bins = vec![0.0; n];
        let per_s = n as f64 / self.duration_s();
        for i in 0..self.len() {
            let rate = self.rates_bps[i];
            if rate == 0.0 {
                continue;
            }
            let (from, to) = (self.times_s[i] * per_s, (self.times_s[i + 1] * per_s).min(n as f64));
            let (left, right) = ((from as usize).min(n - 1), (to as usize).min(n - 1));
            if left == right {
                bins[left] += rate * (to - from);
            } else {
                bins[left] += rate * ((left + 1) as f64 - from);
                for bin in &mut bins[left + 1..right] {
                    *bin += rate;
                }
                bins[right] += rate * (to - right as f64);
            }
        }
        bins
    }
}

/// Levels of bandwidth, as shares of the one at which half of the bytes are moved. No ratios of small whole numbers: with equal
/// ranks, bandwidths are such ratios, and a level must not fall on one of them.
const LEVELS: [f64; 5] = [0.0317, 0.1237, 0.4142, 0.8137, 1.3179];

/// A stretch of activity, in seconds since the window's start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Burst {
    pub start_s: f64,
    pub end_s: f64,
    pub bytes: f64,
}

impl Burst {
    pub(crate) fn duration_s(&self) -> f64 {
        self.end_s - self.start_s
    }
}

/// Joins bursts whose gap is shorter than `shortest_gap_s`.
pub(crate) fn join(bursts: &[Burst], shortest_gap_s: f64) -> Vec<Burst> {
    let mut joined: Vec<Burst> = Vec::new();
    for burst in bursts {
        match joined.last_mut() {
            Some(last) if burst.start_s - last.end_s < shortest_gap_s => {
                last.end_s = last.end_s.max(burst.end_s);
                last.bytes += burst.bytes;
            }
            _ => joined.push(*burst),
        }
    }
    joined
}

/// A gap length at which joining changes the picture, and how clearly: the shortest gap left open over the longest closed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Break {
    pub at: f64,
    pub ratio: f64,
}

/// The gap lengths at which joining changes the picture most, widest first.
pub(crate) fn natural_gaps(bursts: &[Burst], most: usize) -> Vec<Break> {
    let gaps: Vec<f64> =
        bursts.windows(2).map(|pair| pair[1].start_s - pair[0].end_s).filter(|&gap| gap > 0.0).collect();
    let shortest = gaps.iter().copied().fold(f64::INFINITY, f64::min);
    let span_s = bursts.last().map_or(0.0, |last| last.end_s - bursts[0].start_s);
    let tick_s = if shortest < span_s * TICK { 1.01 * shortest } else { 0.0 };
    widest_breaks(gaps, 1.0507, tick_s, most)
}

/// Where the shortest gap is less than this share of the run, it is a tick of the clock or of the grid that requests were put on:
/// one tick or two make no difference.
const TICK: f64 = 1.0 / (1 << 18) as f64;

/// Numbers in a class of [`ends_of_classes`] differ by less than this factor: five binary digits are theirs.
const CLASS_WIDTH: f64 = 1.0 + 1.0 / 32.0;

/// Values in order; of very many, the least and the greatest of each class of values that are nearly equal. No jump by more than
/// [`CLASS_WIDTH`] is lost, and nothing has to be sorted.
fn ends_of_classes(mut values: Vec<f64>) -> Vec<f64> {
    const FEW: usize = 1 << 10;
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let greatest = values.iter().copied().fold(0.0, f64::max);
    let is_normal = least >= f64::MIN_POSITIVE && greatest.is_finite();
    if values.len() <= FEW || !is_normal {
        values.sort_unstable_by(f64::total_cmp);
        return values;
    }
    let class = |value: f64| (value.to_bits() >> 47) as usize;
    let first = class(least);
    let mut ends = vec![(f64::INFINITY, 0.0_f64); class(greatest) - first + 1];
    for value in values {
        let (low, high) = &mut ends[class(value) - first];
        // Hardly ever: most of the time nothing is written.
        if value < *low {
            *low = value;
        }
        if value > *high {
            *high = value;
        }
    }
    ends.into_iter().filter(|(_, high)| *high > 0.0).flat_map(|(low, high)| [low, high]).collect()
}

/// The usual one of some values: the middle one, of an even number the higher of the two.
pub(crate) fn usual(mut values: Vec<f64>) -> f64 {
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}

/// The volumes at which bursts fall into two classes most clearly, widest first.
pub(crate) fn natural_volumes(bursts: &[Burst], most: usize) -> Vec<Break> {
    let volumes = bursts.iter().map(|burst| burst.bytes).filter(|&bytes| bytes > 0.0).collect();
    widest_breaks(volumes, 1.2589, 0.0, most)
}

/// Where sorted values jump the most, as a ratio and by `least_ratio` or more, and by more than `least`.
fn widest_breaks(values: Vec<f64>, least_ratio: f64, least: f64, most: usize) -> Vec<Break> {
    debug_assert!(least_ratio > CLASS_WIDTH);
    let values = ends_of_classes(values);
    let mut breaks: Vec<Break> = values
        .windows(2)
        .filter(|pair| pair[1] > pair[0] * least_ratio && pair[1] - pair[0] > least)
        .map(|pair| Break { at: (pair[0] * pair[1]).sqrt(), ratio: pair[1] / pair[0] })
        .collect();
    // Equal jumps keep their order, whatever the last digits say.
    let rounded = |ratio: f64| (ratio.ln() * 1e6).round();
    breaks.sort_by(|a, b| rounded(b.ratio).total_cmp(&rounded(a.ratio)).then(a.at.total_cmp(&b.at)));
    breaks.truncate(most);
    breaks
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_jump_is_lost_among_very_many_values(
            steps in prop::collection::vec((1.0..3.0f64, 1..900usize), 1..8),
            least in prop_oneof![Just(1e-300), 1e-9..1e9f64],
        ) {
            // Heaps of values, each within some percents, at growing distances.
            let mut values = Vec::new();
            let mut at = least;
            for (ratio, n) in steps {
                at *= ratio;
                values.extend((0..n).map(|i| at * (1.0 + 0.07 * ((i * 7919) % 1000) as f64 / 1000.0)));
            }
            let mut sorted = values.clone();
            sorted.sort_unstable_by(f64::total_cmp);
            let jumps = |values: &[f64]| -> Vec<(f64, f64)> {
                let pairs = values.windows(2).map(|pair| (pair[0], pair[1]));
                pairs.filter(|(low, high)| *high > low * CLASS_WIDTH).collect()
            };
            prop_assert_eq!(jumps(&ends_of_classes(values)), jumps(&sorted));
        }
    }
}
