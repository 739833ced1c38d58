//! What speaks for a stretch being a rhythm of the run, and how much each of it weighs.

use super::explain::Stretch;
use super::propose::{Cut, Proposal, Rule};
use super::spectrum::Spectrum;
use super::steps::Burst;

/// How many numbers describe a candidate.
pub const N_EVIDENCE: usize = 21;

/// What each number is.
pub const NAMES: [&str; N_EVIDENCE] = [
    "constant",
    "odds of the beat",
    "evenness of volumes",
    "share of the bytes (log)",
    "silence between phases",
    "by scale",
    "odds, by scale",
    "one of two classes",
    "drift",
    "grouping",
    "gaps closed at no clear break",
    "steadiness",
    "missed beats",
    "pauses",
    "bursts left out",
    "autocorrelation",
    "comb",
    "odd volumes",
    "number of phases",
    "share of the bytes above the level (log)",
    "few gaps closed",
];

/// The weights, in the order of [`NAMES`].
pub const WEIGHTS: [f64; N_EVIDENCE] = [
    -2.533, // constant
    0.301,  // odds of the beat
    0.277,  // evenness of volumes
    0.537,  // share of the bytes (log)
    0.295,  // silence between phases
    -4.119, // by scale
    0.485,  // odds, by scale
    -2.187, // one of two classes
    -1.207, // drift
    0.358,  // grouping
    -2.549, // gaps closed at no clear break
    0.330,  // steadiness
    -1.001, // missed beats
    -5.552, // pauses
    -0.069, // bursts left out
    0.850,  // autocorrelation
    4.445,  // comb
    -3.627, // odd volumes
    0.111,  // number of phases
    1.536,  // share of the bytes above the level (log)
    -3.173, // few gaps closed
];

/// Returns the numbers that describe a stretch of a proposal.
pub(crate) fn evidence(
    proposal: &Proposal,
    stretch: &Stretch,
    total_bytes: f64,
    spectrum: Option<&Spectrum>,
    bytes_between: impl Fn(f64, f64) -> f64,
) -> [f64; N_EVIDENCE] {
    let members: Vec<&Burst> = stretch.members.iter().map(|&i| &proposal.bursts[i]).collect();
    let bytes: f64 = members.iter().map(|burst| burst.bytes).sum();
    let n = members.len() as f64;
    let by_scale = f64::from(proposal.rule.cut() == Cut::Scale);
    let odds = compressed(stretch.log_odds);
    let distances: Vec<f64> = members.windows(2).map(|pair| pair[1].start_s - pair[0].start_s).collect();
    [
        1.0,
        odds,
        evenness(&members),
        (bytes / total_bytes).clamp(1e-4, 1.0).ln(),
        contrast(&members, bytes, bytes_between),
        by_scale,
        by_scale * odds,
        f64::from(proposal.rule.cut() == Cut::Class),
        drift(&distances),
        grouping(&distances, stretch.spread),
        unclear_break(proposal.separation),
        -stretch.spread.hypot(0.02).ln(),
        stretch.missed as f64 / (n + stretch.missed as f64),
        stretch.pauses.len() as f64 / n,
        1.0 - n / proposal.bursts.len() as f64,
        spectrum.and_then(|spectrum| spectrum.correlation_at(stretch.beat_s)).unwrap_or(USUAL_CORRELATION),
        spectrum.and_then(|spectrum| spectrum.comb(stretch.beat_s)).unwrap_or(0.0),
        odd_volumes(&members),
        n.ln().min(40f64.ln()),
        (bytes / proposal.bytes_above).clamp(1e-4, 1.0).ln(),
        few_closed(proposal),
    ]
}

/// The logit of a candidate against "no rhythm".
pub(crate) fn logit(evidence: &[f64; N_EVIDENCE]) -> f64 {
    evidence.iter().zip(WEIGHTS).map(|(e, w)| e * w).sum()
}

/// The logit that the odds of the beat alone give the plainest of candidates: bursts that stand clearly apart, nearly all of
/// them on the beat, moving alike. Whatever the spectrum makes of it, such a run is judged by its beat: one large result at the
/// end takes nothing from the checkpoints before it.
pub(crate) fn plain_logit(
    proposal: &Proposal,
    stretch: &Stretch,
    evidence: &[f64; N_EVIDENCE],
) -> Option<f64> {
    let n = stretch.members.len();
    let is_plain = matches!(proposal.rule, Rule::Runs { level_bps: 0.0, .. })
        && (proposal.closed == 0.0 || proposal.separation > 3.0)
        && n >= 6
        && n as f64 >= 0.85 * proposal.bursts.len() as f64
        && stretch.pauses.len() <= 1
        && evidence[3] > 0.02f64.ln()
        && evidence[17] < 0.1;
    is_plain.then(|| 0.6 * compressed(stretch.log_odds) - 0.5)
}

/// 0 where the gaps between phases are three times those within, or phases have none; 1 where they are as long.
fn unclear_break(separation: f64) -> f64 {
    (1.0 - separation.max(1.0).ln() / 3f64.ln()).max(0.0)
}

/// 1 where one or two gaps among many were closed: that joins phases that happened to come close. 0 where most were, or none.
fn few_closed(proposal: &Proposal) -> f64 {
    if proposal.closed > 0.0 { (1.0 - 2.0 * proposal.closed).max(0.0) } else { 0.0 }
}

/// Odds grow with every phase; what they say about the answer grows more slowly, but more is never less.
fn compressed(log_odds: f64) -> f64 {
    const SCALE: f64 = 3.0;
    SCALE * (log_odds / SCALE).asinh()
}

/// `−ln` of how much the volumes differ, by their median deviation: a first checkpoint that is heavier changes nothing.
fn evenness(members: &[&Burst]) -> f64 {
    let mut volumes: Vec<f64> = members.iter().map(|burst| burst.bytes).collect();
    let n = volumes.len();
    volumes.sort_unstable_by(f64::total_cmp);
    let middle = volumes[n / 2];
    let mut deviations: Vec<f64> = volumes.iter().map(|volume| (volume - middle).abs()).collect();
    deviations.sort_unstable_by(f64::total_cmp);
    -(1.4826 * deviations[n / 2] / middle.max(1e-300)).hypot(0.05).min(1.0).ln()
}

/// The share of phases that move less than half or more than one and a half times the usual.
fn odd_volumes(members: &[&Burst]) -> f64 {
    let mut volumes: Vec<f64> = members.iter().map(|burst| burst.bytes).collect();
    let n = volumes.len();
    let usual = *volumes.select_nth_unstable_by(n / 2, f64::total_cmp).1;
    members.iter().filter(|burst| !(0.4871..=1.5137).contains(&(burst.bytes / usual))).count() as f64
        / n as f64
}

/// What a beat that the grid cannot show is taken to have.
const USUAL_CORRELATION: f64 = 0.6;

/// How much more happens within the phases than between them: 1 is silence in between.
fn contrast(members: &[&Burst], bytes: f64, bytes_between: impl Fn(f64, f64) -> f64) -> f64 {
    let (first, last) = (members[0], members[members.len() - 1]);
    let busy_s: f64 = members.iter().map(|burst| burst.duration_s()).sum();
    let idle_s = last.end_s - first.start_s - busy_s;
    if busy_s <= 0.0 || idle_s <= 0.0 {
        return 0.0;
    }
    let between = (bytes_between(first.start_s, last.end_s) - bytes).max(0.0);
    1.0 - ((between / idle_s) / (bytes / busy_s)).min(1.0)
}

/// How much of the distances' variance a straight line explains, where it explains more than chance would; weighted by how
/// much they vary at all: 1 if they only grow or only shrink, and by a lot.
fn drift(distances: &[f64]) -> f64 {
    let n = distances.len();
    if n < 4 {
        return 0.0;
    }
    let mean = distances.iter().sum::<f64>() / n as f64;
    let centre = (n - 1) as f64 / 2.0;
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (i, distance) in distances.iter().enumerate() {
        let (x, y) = (i as f64 - centre, distance - mean);
        xy += x * y;
        xx += x * x;
        yy += y * y;
    }
    if yy <= 0.0 {
        return 0.0;
    }
    let correlation = (xy / (xx * yy).sqrt()).abs();
    correlation.powi(2) * (yy / n as f64).sqrt().min(mean) / mean
}

/// Whether every 2, 3 or 4 of the distances together are far steadier than each: then several pieces make one phase.
///
/// Sums of `m` independent distances spread `√m` less; the logarithm of how much less than that they spread, not below 0.
fn grouping(distances: &[f64], spread: f64) -> f64 {
    let variation = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt() / mean
    };
    (2..=4)
        .filter(|m| distances.len() >= 3 * m)
        .map(|m| {
            let sums: Vec<f64> = distances.windows(m).map(|window| window.iter().sum()).collect();
            let expected = spread.hypot(0.02) / (m as f64).sqrt();
            (expected / variation(&sums).hypot(0.02)).ln()
        })
        .fold(0.0, f64::max)
}
