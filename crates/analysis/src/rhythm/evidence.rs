//! Evidence for a stretch being a rhythm of the run, and the weight of each number.

use super::explain::Stretch;
use super::propose::{Cut, Proposal, Rule};
use super::spectrum::Spectrum;
use super::steps::Burst;

/// How many numbers describe a candidate.
pub const N_EVIDENCE: usize = 31;

/// The places of some of them.
pub(crate) const EVENNESS: usize = 2;
pub(crate) const BY_SCALE: usize = 5;
pub(crate) const UNCLEAR_BREAK: usize = 9;
pub(crate) const MISSED: usize = 10;
const CORRELATION: usize = 13;
const COMB: usize = 14;
pub(crate) const ODD_VOLUMES: usize = 15;
const PLAIN: usize = 21;
const PLAIN_COMB: usize = 23;
const PLAIN_CORRELATION: usize = 24;

/// Names of the numbers.
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
    "gaps closed at no clear break",
    "missed beats",
    "pauses",
    "bursts left out",
    "autocorrelation",
    "comb",
    "odd volumes",
    "number of phases",
    "share of the bytes above the level, less what is told apart (log)",
    "few gaps closed",
    "few phases",
    "evenness, few phases",
    "plain",
    "odds, plain",
    "comb, plain",
    "autocorrelation, plain",
    "wide",
    "wide, too few phases to tell",
    "odds, wide",
    "few phases, gaps closed at no clear break",
    "few phases, moving the same",
    "wide, a handful of phases, moving the same",
];

/// The weights, in the order of [`NAMES`].
pub const WEIGHTS: [f64; N_EVIDENCE] = [
    -0.540, // constant
    0.508,  // odds of the beat
    0.242,  // evenness of volumes
    0.202,  // share of the bytes (log)
    -0.253, // silence between phases
    -3.107, // by scale
    0.403,  // odds, by scale
    -1.052, // one of two classes
    -1.559, // drift
    -1.725, // gaps closed at no clear break
    -0.919, // missed beats
    -3.238, // pauses
    0.889,  // bursts left out
    1.812,  // autocorrelation
    1.943,  // comb
    -2.913, // odd volumes
    -0.667, // number of phases
    1.956,  // share of the bytes above the level, less what is told apart (log)
    -2.013, // few gaps closed
    -2.023, // few phases
    -0.244, // evenness, few phases
    1.965,  // plain
    -0.147, // odds, plain
    -0.132, // comb, plain
    0.938,  // autocorrelation, plain
    -0.100, // wide
    -0.882, // wide, too few phases to tell
    -0.027, // odds, wide
    -0.595, // few phases, gaps closed at no clear break
    1.582,  // few phases, moving the same
    0.781,  // wide, a handful of phases, moving the same
];

/// Returns the numbers that describe a stretch of a proposal; what a spectrum says of it is as [`add_spectrum`] has it without one.
pub(crate) fn evidence(
    proposal: &Proposal,
    stretch: &Stretch,
    total_bytes: f64,
    bytes_between: impl Fn(f64, f64) -> f64,
) -> [f64; N_EVIDENCE] {
    let members: Vec<&Burst> = stretch.members.iter().map(|&i| &proposal.bursts[i]).collect();
    let bytes: f64 = members.iter().map(|burst| burst.bytes).sum();
    // In order, for all that is asked of them below.
    let mut volumes: Vec<f64> = members.iter().map(|burst| burst.bytes).collect();
    volumes.sort_unstable_by(f64::total_cmp);
    let own_bytes = own_bytes(&volumes);
    let n = members.len() as f64;
    let by_scale = f64::from(proposal.rule.cut() == Cut::Scale);
    let odds = compressed(stretch.log_odds);
    let distances: Vec<f64> = members.windows(2).map(|pair| pair[1].start_s - pair[0].start_s).collect();
    let wide = (stretch.spread / 0.25).ln().max(0.0);
    let few = (8f64.ln() - n.ln()).max(0.0);
    let unsteady = (20f64.ln() - n.ln()).max(0.0) * (stretch.spread / 0.1).ln().max(0.0);
    let alike = f64::from(move_alike(&volumes));
    let evenness = evenness(&volumes);
    let odd_volumes = odd_volumes(&volumes);
    let contrast = contrast(&members, bytes, bytes_between);
    let plain = f64::from(is_plain(proposal, stretch, bytes / total_bytes, contrast, odd_volumes));
    let mut evidence = [
        1.0,
        odds,
        evenness,
        (own_bytes / total_bytes).clamp(1e-4, 1.0).ln(),
        contrast,
        by_scale,
        by_scale * odds,
        f64::from(proposal.rule.cut() == Cut::Class),
        drift(&distances),
        unclear_break(proposal.separation),
        stretch.missed as f64 / (n + stretch.missed as f64),
        stretch.pauses.len() as f64 / n,
        1.0 - n / proposal.bursts.len() as f64,
        0.0, // the spectrum's
        0.0,
        odd_volumes,
        n.ln().min(40f64.ln()),
        (own_bytes / (proposal.bytes_above - said_apart(proposal, stretch))).clamp(1e-4, 1.0).ln(),
        few_closed(proposal),
        few,
        few * evenness,
        plain,
        plain * odds,
        0.0, // the spectrum's
        0.0,
        wide,
        unsteady,
        wide * odds,
        few * unclear_break(proposal.separation),
        alike * few,
        if few > 0.0 { alike * unsteady } else { 0.0 },
    ];
    set_spectrum(&mut evidence, USUAL_CORRELATION, 0.0);
    evidence
}

/// Adds what a spectrum says of a beat, as far as its grid can show it.
pub(crate) fn add_spectrum(evidence: &mut [f64; N_EVIDENCE], spectrum: &Spectrum, beat_s: f64) {
    let correlation = spectrum.correlation_at(beat_s).unwrap_or(USUAL_CORRELATION);
    set_spectrum(evidence, correlation, spectrum.comb(beat_s).unwrap_or(0.0));
}

fn set_spectrum(evidence: &mut [f64; N_EVIDENCE], correlation: f64, comb: f64) {
    let plain = evidence[PLAIN];
    (evidence[CORRELATION], evidence[COMB]) = (correlation, comb);
    (evidence[PLAIN_CORRELATION], evidence[PLAIN_COMB]) = (plain * correlation, plain * comb);
}

/// The logit of a candidate against "no rhythm".
pub(crate) fn logit(evidence: &[f64; N_EVIDENCE]) -> f64 {
    evidence.iter().zip(WEIGHTS).map(|(e, w)| e * w).sum()
}

/// The highest logit that a candidate can have, whatever its spectrum says.
pub(crate) fn logit_at_most(evidence: &[f64; N_EVIDENCE]) -> f64 {
    let mut most = *evidence;
    set_spectrum(&mut most, 1.0, 1.0);
    logit(&most).max(logit(evidence))
}

/// Whether it is the plainest of candidates: bursts that stand clearly apart, nearly all of them on the beat, moving alike.
fn is_plain(proposal: &Proposal, stretch: &Stretch, share: f64, contrast: f64, odd_volumes: f64) -> bool {
    let n = stretch.members.len() as f64;
    let stands_out = match proposal.rule {
        Rule::Runs { level_bps, .. } => level_bps == 0.0 || (share > 0.5 && contrast > 0.85),
        _ => false,
    };
    stands_out
        && (proposal.closed == 0.0 || proposal.separation > CLEARLY_APART * (8.0 / n).sqrt().max(1.0))
        && few_closed(proposal) == 0.0
        && n >= 0.85 * proposal.bursts.len() as f64
        && stretch.pauses.len() <= 1
        && share > 0.02
        && odd_volumes * n <= (0.1 * n).max(1.0)
}

/// The gaps between plain phases are more than this many times those within. Where there are fewer than eight they must be longer still: two or three
/// of many gaps may well happen to be long.
const CLEARLY_APART: f64 = 3.0003;

/// Returns the bytes of the phases, less those beyond ten times the usual: these belong to something else that a log met at random.
fn own_bytes(volumes: &[f64]) -> f64 {
    let most = FAR_LARGER * volumes[volumes.len() / 2];
    volumes.iter().map(|&bytes| bytes.min(most)).sum()
}

const FAR_LARGER: f64 = 10.0;

/// Returns the bytes of the bursts that are no evidence about the beat: one result file, and the phases of another beat before or after it.
fn said_apart(proposal: &Proposal, stretch: &Stretch) -> f64 {
    let mut is_apart = vec![false; proposal.bursts.len()];
    for other in proposal.stretches.iter().filter(|other| other.log_odds > CLEAR_ODDS) {
        other.members.iter().for_each(|&i| is_apart[i] = true);
    }
    let mut members = stretch.members.iter().copied().peekable();
    let (mut apart, mut largest) = (0.0, 0.0f64);
    for (i, burst) in proposal.bursts.iter().enumerate() {
        if members.next_if_eq(&i).is_some() {
            continue;
        }
        if is_apart[i] {
            apart += burst.bytes;
        } else {
            largest = largest.max(burst.bytes);
        }
    }
    apart + largest
}

/// The odds from which another stretch has a beat of its own.
const CLEAR_ODDS: f64 = 4.0;

/// 0 where the gaps between phases are three times those within, or phases have none; 1 where they are as long.
fn unclear_break(separation: f64) -> f64 {
    (1.0 - separation.max(1.0).ln() / 3f64.ln()).max(0.0)
}

/// 1 where one or two gaps among many were closed: that joins phases that happened to come close. 0 where most were, or none.
fn few_closed(proposal: &Proposal) -> f64 {
    if proposal.closed > 0.0 { (1.0 - 2.0 * proposal.closed).max(0.0) } else { 0.0 }
}

/// Odds grow with every phase; what they say about the answer grows more slowly, but more is never less.
pub(crate) fn compressed(log_odds: f64) -> f64 {
    const SCALE: f64 = 3.0;
    SCALE * (log_odds / SCALE).asinh()
}

/// `−ln` of how much the volumes differ, by their median deviation: a first checkpoint that is heavier changes nothing.
fn evenness(volumes: &[f64]) -> f64 {
    let n = volumes.len();
    let middle = volumes[n / 2];
    let mut deviations: Vec<f64> = volumes.iter().map(|volume| (volume - middle).abs()).collect();
    deviations.sort_unstable_by(f64::total_cmp);
    -(1.4826 * deviations[n / 2] / middle.max(1e-300)).hypot(0.05).min(1.0).ln()
}

/// Whether all phases but one move the same: a loop of a program does, chance does not. (The first checkpoint may be larger.)
fn move_alike(volumes: &[f64]) -> bool {
    let n = volumes.len();
    volumes[n - 2] < ALIKE * volumes[0] || volumes[n - 1] < ALIKE * volumes[1]
}

/// Volumes that differ by less than this factor are the same.
const ALIKE: f64 = 1.05;

/// The share of phases that move less than half or more than one and a half times the usual.
fn odd_volumes(volumes: &[f64]) -> f64 {
    let n = volumes.len();
    let usual = volumes[n / 2];
    volumes.iter().filter(|&bytes| !(0.4871..=1.5137).contains(&(bytes / usual))).count() as f64 / n as f64
}

/// Correlation assumed for a beat that the grid cannot show.
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
