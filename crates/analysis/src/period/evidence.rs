//! What speaks for and against a proposed rhythm.
//!
//! Each proposal is described by a handful of numbers, and a multinomial logit weighs them: among the proposals of one
//! signal and the answer "none of them", the probability of each is `exp(w·e)` over the sum. The weights are fitted on
//! generated traces by `cargo xtask accuracy period --fit`; see `docs/methods.md`.

use iotide_num::{coefficient_of_variation, mean, median};

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

/// A rhythm that might be there: its phases and what speaks for it.
#[derive(Clone, Debug)]
pub(super) struct Proposal {
    pub cut: Cut,
    pub pieces: Vec<Piece>,
    /// Runs of the other class: where one of them lies, a phase of ours may be hidden.
    pub others: Vec<Piece>,
    /// Mean distance of phase starts, in samples.
    pub period: f64,
    /// The numbers, in the order of [`NAMES`].
    pub evidence: [f64; N_EVIDENCE],
}

/// How many numbers describe a proposal.
pub const N_EVIDENCE: usize = 14;

/// What each number is.
pub const NAMES: [&str; N_EVIDENCE] = [
    "constant",
    "steadiness of distances",
    "evenness of volumes",
    "number of phases",
    "steadiness × number",
    "share of the volume",
    "autocorrelation",
    "contrast",
    "by scale",
    "steadiness, by scale",
    "one of two classes",
    "drift",
    "comb",
    "grouping",
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
        cut: Cut,
        pieces: Vec<Piece>,
        others: Vec<Piece>,
        background: &Background,
    ) -> Option<Self> {
        let n = pieces.len();
        if n < 3 {
            return None;
        }
        let volumes: Vec<f64> = pieces.iter().map(|piece| piece.volume).collect();
        let counts = beats_per_piece(&volumes);
        let raw: Vec<f64> = pieces.windows(2).map(|pair| pair[1].start - pair[0].start).collect();
        let typical = median(&raw)?;
        let mut beats = 0.0;
        let mut distances = Vec::with_capacity(n - 1);
        for (pair, count) in pieces.windows(2).zip(&counts) {
            let distance = pair[1].start - pair[0].start;
            let k = count.max(hidden_beats(pair[0].start, distance, typical, &others));
            distances.push(distance / k);
            beats += k;
        }
        let period = raw.iter().sum::<f64>() / beats;
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
            volume / total,
            background.correlation_at(period),
            background.contrast(&pieces, volume),
            by_scale,
            by_scale * steadiness,
            f64::from(cut == Cut::Class),
            drift(&distances) * spread.min(1.0),
            background.comb(period),
            grouping(&distances, spread),
        ];
        Some(Self { cut, pieces, others, period, evidence })
    }

    /// The logit of this proposal against "none".
    pub(super) fn logit(&self) -> f64 {
        self.evidence.iter().zip(WEIGHTS).map(|(e, w)| e * w).sum()
    }

    pub(super) fn volume(&self) -> f64 {
        self.pieces.iter().map(|piece| piece.volume).sum()
    }
}

/// The weights, in the order of [`NAMES`].
pub const WEIGHTS: [f64; N_EVIDENCE] =
    [-5.518, -1.034, 1.119, -1.265, 1.331, -0.034, 2.051, 0.703, 0.046, 0.357, -3.225, -1.391, 4.415, 0.384];

impl Background<'_> {
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

/// How many beats lie between two starts `distance` apart, if all but the first are hidden behind `others`.
fn hidden_beats(start: f64, distance: f64, typical: f64, others: &[Piece]) -> f64 {
    let beats = (distance / typical).round();
    if beats < 2.0 || beats > 8.0 || others.is_empty() {
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
