//! What speaks for and against a proposed rhythm.
//!
//! Each proposal is described by a handful of numbers, and a multinomial logit weighs them: among the proposals of one
//! signal and the answer "none of them", the probability of each is `exp(w·e)` over the sum. The weights are fitted on
//! generated traces by `cargo xtask accuracy period --fit`; see `docs/methods.md`.

use iotide_num::{autocorrelation, coefficient_of_variation, mean, median, power_spectrum};

use super::segment::Piece;

/// How a proposal was cut out of the signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// Stretches above a threshold, short gaps closed.
    Runs,
    /// What is left after smoothing at the scale of the period itself.
    Scale,
    /// The larger (or the smaller) of two classes of runs.
    Class,
}

/// A [`Cut`] with its numbers: what it takes to cut another signal the same way.
///
/// In samples and sums of samples, or in seconds and bytes; see [`Rule::in_seconds`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Rule {
    /// Above `threshold`, gaps shorter than `gap` closed.
    Runs { threshold: f64, gap: f64 },
    /// Of these, those that move more than `volume` (or those that do not).
    Class { threshold: f64, gap: f64, volume: f64, upper: bool },
    /// Smoothed at the scale of `period`.
    Scale { period: f64 },
}

impl Rule {
    /// The rule in seconds and bytes, of one in samples taken at `rate_hz`. With the inverse of the rate: the way back.
    pub(super) fn in_seconds(self, rate_hz: f64) -> Self {
        match self {
            Self::Runs { threshold, gap } => Self::Runs { threshold, gap: gap / rate_hz },
            Self::Class { threshold, gap, volume, upper } => {
                Self::Class { threshold, gap: gap / rate_hz, volume: volume / rate_hz, upper }
            }
            Self::Scale { period } => Self::Scale { period: period / rate_hz },
        }
    }

    fn cut(self) -> Cut {
        match self {
            Self::Runs { .. } => Cut::Runs,
            Self::Class { .. } => Cut::Class,
            Self::Scale { .. } => Cut::Scale,
        }
    }
}

/// A rhythm that might be there: its phases and what speaks for it.
#[derive(Clone, Debug)]
pub(super) struct Proposal {
    pub rule: Rule,
    pub pieces: Vec<Piece>,
    /// Mean distance of phase starts, in samples.
    pub period: f64,
    /// The numbers, in the order of [`NAMES`].
    pub evidence: [f64; N_EVIDENCE],
}

/// How many numbers describe a proposal.
pub const N_EVIDENCE: usize = 16;

/// What each number is.
pub const NAMES: [&str; N_EVIDENCE] = [
    "constant",
    "steadiness of distances",
    "evenness of volumes",
    "number of phases",
    "steadiness × number",
    "share of the volume (log)",
    "autocorrelation",
    "contrast",
    "by scale",
    "steadiness, by scale",
    "one of two classes",
    "drift",
    "comb",
    "grouping",
    "trials (log)",
    "trials × few phases",
];

/// The signal's own properties that the evidence refers to.
pub(super) struct Background<'a> {
    pub x: &'a [f64],
    /// `sums[i]` is the sum of the first `i` samples.
    pub sums: Vec<f64>,
    pub autocorrelation: Vec<f64>,
    pub powers: Vec<f64>,
}

impl Proposal {
    /// Measures the rhythm of `pieces`; `None` if they are too few to have one.
    pub(super) fn new(
        rule: Rule,
        pieces: Vec<Piece>,
        others: &[Piece],
        background: &Background,
    ) -> Option<Self> {
        let (n, cut) = (pieces.len(), rule.cut());
        if n < 3 {
            return None;
        }
        let volumes: Vec<f64> = pieces.iter().map(|piece| piece.volume).collect();
        let counts = beats_per_piece(&volumes);
        let (distances, beats) = distances(&pieces, &counts, others)?;
        let period = (pieces[n - 1].start - pieces[0].start) / beats;
        if period.is_nan() || period <= 0.0 {
            return None;
        }
        let single: Vec<f64> = volumes.iter().zip(&counts).map(|(volume, count)| volume / count).collect();
        let spread = coefficient_of_variation(&distances)?;
        let steadiness = -(spread.hypot(0.02)).ln();
        let evenness = -(coefficient_of_variation(&single)?.hypot(0.05)).ln();
        let number = ((n - 1) as f64).ln().min(40f64.ln());
        let total = background.sums[background.x.len()];
        let volume: f64 = volumes.iter().sum();
        let by_scale = f64::from(cut == Cut::Scale);
        let evidence = [
            1.0,
            steadiness,
            evenness,
            number,
            steadiness * number,
            (volume / total).max(1e-4).ln(),
            background.correlation_at(period),
            background.contrast(&pieces, volume),
            by_scale,
            by_scale * steadiness,
            f64::from(cut == Cut::Class),
            drift(&distances) * spread.min(1.0),
            background.comb(period),
            grouping(&distances, spread),
            0.0,
            0.0,
        ];
        Some(Self { rule, pieces, period, evidence })
    }

    /// Takes into account among how many proposals this one stood: the more are tried, the sooner chance makes one of
    /// them look steady, above all one with few phases.
    pub(super) fn note_trials(&mut self, n_proposals: usize) {
        let trials = (n_proposals as f64).ln();
        self.evidence[14] = trials;
        self.evidence[15] = trials / (self.pieces.len() - 1) as f64;
    }

    /// How it was cut out of the signal.
    pub(super) fn cut(&self) -> Cut {
        self.rule.cut()
    }

    /// The logit of this proposal against "none".
    pub(super) fn logit(&self) -> f64 {
        self.evidence.iter().zip(WEIGHTS).map(|(e, w)| e * w).sum()
    }
}

/// The weights, in the order of [`NAMES`].
pub const WEIGHTS: [f64; N_EVIDENCE] = [
    -4.263, // constant
    0.002,  // steadiness of distances
    1.193,  // evenness of volumes
    -1.681, // number of phases
    2.116,  // steadiness × number
    3.633,  // share of the volume (log)
    2.341,  // autocorrelation
    -1.735, // contrast
    1.127,  // by scale
    -0.608, // steadiness, by scale
    -5.985, // one of two classes
    -1.577, // drift
    0.433,  // comb
    1.075,  // grouping
    -0.159, // trials (log)
    -1.291, // trials × few phases
];

impl<'a> Background<'a> {
    /// Returns `None` where there is too little to have a rhythm.
    pub(super) fn of(x: &'a [f64]) -> Option<Self> {
        let mut sums = Vec::with_capacity(x.len() + 1);
        sums.push(0.0);
        for value in x {
            sums.push(sums[sums.len() - 1] + value);
        }
        let worth_it = x.len() >= 8 && sums[x.len()] > 0.0;
        worth_it.then(|| Self { x, sums, autocorrelation: autocorrelation(x), powers: power_spectrum(x) })
    }

    /// The highest autocorrelation within a tenth of the period, corrected for the shorter overlap.
    fn correlation_at(&self, period: f64) -> f64 {
        let n = self.autocorrelation.len();
        let (from, to) = ((period * 0.9) as usize, (period * 1.1).ceil() as usize + 1);
        (from..to.min(n))
            .map(|lag| self.autocorrelation[lag] * n as f64 / (n - lag) as f64)
            .fold(0.0, f64::max)
            .min(1.0)
    }

    /// How much more happens within the phases than between them: 1 is silence in between.
    fn contrast(&self, pieces: &[Piece], volume: f64) -> f64 {
        let (first, last) = (&pieces[0], &pieces[pieces.len() - 1]);
        let (from, to) = (first.start.max(0.0) as usize, (last.end.ceil() as usize).min(self.x.len()));
        let busy: f64 = pieces.iter().map(|piece| (piece.end - piece.start).max(1e-9)).sum();
        let idle = (last.end - first.start - busy).max(1e-9);
        let between = (self.sums[to] - self.sums[from] - volume).max(0.0);
        1.0 - ((between / idle) / (volume / busy)).min(1.0)
    }

    /// The share of the power, up to the eighth harmonic, that lies on the harmonics — less what a flat spectrum puts there.
    fn comb(&self, period: f64) -> f64 {
        let n = self.x.len() as f64;
        let step = n / period;
        let n_harmonics = 8.0f64.min(((self.powers.len() - 1) as f64 / step).floor());
        if n_harmonics < 1.0 || step < 2.5 {
            return 0.0;
        }
        let reach = (step / 8.0).max(1.0).round();
        let last = (((n_harmonics + 0.5) * step) as usize).min(self.powers.len() - 1);
        let first = (step / 2.0).ceil() as usize;
        let total: f64 = self.powers[first..=last].iter().sum();
        if total <= 0.0 {
            return 0.0;
        }
        let on: f64 = (1..=n_harmonics as usize)
            .map(|harmonic| {
                let centre = harmonic as f64 * step;
                let (from, to) = ((centre - reach).round() as usize, (centre + reach).round() as usize);
                self.powers[from.max(first)..=to.min(last)].iter().sum::<f64>()
            })
            .sum();
        let expected = (n_harmonics * (2.0 * reach + 1.0) / (last - first + 1) as f64).min(1.0);
        on / total - expected
    }
}

/// The distances between phases as the program meant them, and how many beats there are from the first to the last.
///
/// Phases that ran into each other count as several. Where a phase of the other class lies between two of ours, there
/// are two readings, and the one that makes the distances steadier is taken: it *hid* a beat of ours (the distance is a
/// multiple of the typical one), or it *held up* the program (the distance is longer by its length).
fn distances(pieces: &[Piece], counts: &[f64], others: &[Piece]) -> Option<(Vec<f64>, f64)> {
    let raw: Vec<f64> = pieces.windows(2).map(|pair| pair[1].start - pair[0].start).collect();
    let plain: Vec<f64> = raw.iter().zip(counts).map(|(distance, count)| distance / count).collect();
    let beats: f64 = counts[..raw.len()].iter().sum();
    if others.is_empty() {
        return Some((plain, beats));
    }
    let typical = median(&plain)?;
    let mut hidden = (Vec::with_capacity(raw.len()), 0.0);
    let mut held_up = Vec::with_capacity(raw.len());
    for ((pair, &distance), &count) in pieces.windows(2).zip(&raw).zip(counts) {
        let k = count.max(hidden_beats(pair[0].start, distance, typical, others));
        hidden.0.push(distance / k);
        hidden.1 += k;
        let from = others.partition_point(|other| other.end <= pair[0].start);
        let in_between = others[from..].iter().take_while(|other| other.start < pair[1].start);
        let lost: f64 =
            in_between.map(|o| o.end.min(pair[1].start) - o.start.max(pair[0].end)).map(|t| t.max(0.0)).sum();
        held_up.push((distance - lost) / count);
    }
    let spread = |distances: &[f64]| coefficient_of_variation(distances).unwrap_or(f64::INFINITY);
    let readings = [(spread(&plain), 0), (spread(&hidden.0), 1), (spread(&held_up), 2)];
    // In doubt the plain reading: the others must be clearly steadier.
    match readings.into_iter().min_by(|a, b| a.0.total_cmp(&b.0))? {
        (spread, 1) if spread < 0.8 * readings[0].0 => Some(hidden),
        (spread, 2) if spread < 0.8 * readings[0].0 => Some((held_up, beats)),
        _ => Some((plain, beats)),
    }
}

/// How many beats lie between two starts `distance` apart, if all but the first are hidden behind `others`.
fn hidden_beats(start: f64, distance: f64, typical: f64, others: &[Piece]) -> f64 {
    let beats = (distance / typical).round();
    if !(2.0..=8.0).contains(&beats) {
        return 1.0;
    }
    let slack = 0.35 * typical;
    let hidden = (1..beats as usize).all(|beat| {
        let expected = start + distance * beat as f64 / beats;
        // Pieces are in order of time: the first one that ends late enough decides.
        let at = others.partition_point(|other| other.end + slack < expected);
        others.get(at).is_some_and(|other| other.start - slack < expected)
    });
    if hidden { beats } else { 1.0 }
}

/// How many phases each piece stands for: two that ran into each other move twice the volume of one.
///
/// Believed only if nearly all volumes are whole multiples of the typical one.
fn beats_per_piece(volumes: &[f64]) -> Vec<f64> {
    let ones = vec![1.0; volumes.len()];
    let Some(typical) = median(volumes).filter(|&volume| volume > 0.0) else { return ones };
    let counts: Vec<f64> = volumes.iter().map(|volume| (volume / typical).round().max(1.0)).collect();
    let n_single = counts.iter().filter(|&&count| count == 1.0).count();
    let n_fitting = volumes
        .iter()
        .zip(&counts)
        .filter(|&(volume, count)| (volume / typical - count).abs() < 0.12 * count.sqrt())
        .count();
    let n = volumes.len() as f64;
    let believed =
        n_fitting as f64 >= 0.9 * n && n_single as f64 >= 0.6 * n && counts.iter().all(|&count| count <= 4.0);
    if believed { counts } else { ones }
}

/// How much of the distances' variance a straight line explains, as a correlation: 1 if they only grow or only shrink.
fn drift(distances: &[f64]) -> f64 {
    if distances.len() < 4 {
        return 0.0;
    }
    let centre = (mean(distances), (distances.len() - 1) as f64 / 2.0);
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (i, distance) in distances.iter().enumerate() {
        let (x, y) = (i as f64 - centre.1, distance - centre.0);
        xy += x * y;
        xx += x * x;
        yy += y * y;
    }
    if yy > 0.0 { (xy / (xx * yy).sqrt()).abs() } else { 0.0 }
}

/// Whether every 2, 3 or 4 of the distances together are far steadier than each: then several pieces make one phase.
///
/// Sums of `m` independent distances spread `√m` less; the logarithm of how much less than that they spread, not below 0.
fn grouping(distances: &[f64], spread: f64) -> f64 {
    (2..=4)
        .filter(|m| distances.len() >= 3 * m)
        .filter_map(|m| {
            let sums: Vec<f64> = distances.windows(m).map(|window| window.iter().sum()).collect();
            let expected = spread.hypot(0.02) / (m as f64).sqrt();
            Some((expected / coefficient_of_variation(&sums)?.hypot(0.02)).ln())
        })
        .fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(starts: &[f64], length: f64) -> Vec<Piece> {
        starts.iter().map(|&start| Piece { start, end: start + length, volume: 1.0 }).collect()
    }

    #[test]
    fn a_piece_of_twice_the_volume_is_two_phases() {
        assert_eq!(beats_per_piece(&[1.0, 1.02, 2.0, 0.99, 1.0]), [1.0, 1.0, 2.0, 1.0, 1.0]);
    }

    #[test]
    fn volumes_that_are_no_multiples_count_once() {
        assert_eq!(beats_per_piece(&[1.0, 1.5, 2.3, 0.6, 1.9]), [1.0; 5]);
    }

    #[test]
    fn a_beat_behind_the_other_class_is_counted() {
        let ours = pieces(&[0.0, 10.0, 30.0, 40.0], 1.0);
        let (distances, beats) = distances(&ours, &[1.0; 4], &pieces(&[19.0], 4.0)).unwrap();
        assert_eq!((distances, beats), (vec![10.0; 3], 4.0));
    }

    #[test]
    fn a_program_that_was_held_up_is_as_steady_as_before() {
        let ours = pieces(&[0.0, 10.0, 26.0, 36.0], 1.0);
        let (distances, beats) = distances(&ours, &[1.0; 4], &pieces(&[15.0], 6.0)).unwrap();
        assert_eq!((distances, beats), (vec![10.0; 3], 3.0));
    }

    #[test]
    fn a_gap_without_excuse_stays_a_gap() {
        let (distances, beats) = distances(&pieces(&[0.0, 10.0, 30.0], 1.0), &[1.0; 3], &[]).unwrap();
        assert_eq!((distances, beats), (vec![10.0, 20.0], 2.0));
    }

    #[test]
    fn distances_that_repeat_in_groups_are_told() {
        let grouped = [1.0, 1.0, 8.0, 1.0, 1.0, 8.0, 1.0, 1.0, 8.0, 1.0, 1.0, 8.0];
        let spread = |x: &[f64]| coefficient_of_variation(x).unwrap();
        assert!(grouping(&grouped, spread(&grouped)) > 2.0);
        let plain = [9.0, 10.0, 11.0, 10.5, 9.5, 10.0, 9.0, 11.0, 10.0];
        assert!(grouping(&plain, spread(&plain)) < 1.0);
    }

    #[test]
    fn distances_that_only_grow_drift() {
        assert!((drift(&[1.0, 2.0, 3.0, 4.0]) - 1.0).abs() < 1e-12);
        assert!(drift(&[1.0, 2.0, 1.0, 2.0, 1.0]) < 0.1);
    }
}
