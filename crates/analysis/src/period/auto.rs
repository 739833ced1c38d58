//! Our own method: evidence from time and frequency together.
//!
//! 1. *Propose.* The signal is cut into phases in many ways: stretches above a threshold with gaps closed at every
//!    natural break, the same split into two classes by volume, and smoothing at each scale.
//! 2. *Weigh.* Each proposal is a rhythm with its own evidence, from time and from frequency; see `evidence`.
//! 3. *Choose.* The most probable proposal wins, unless "none" is more probable than all of them; what uses other
//!    phases than the winner may hold beside it.

use iotide_num::{autocorrelation, mean, spectrum};
use iotide_trace::SampledSignal;

use super::evidence::{Background, Cut, Proposal};
use super::segment::{Piece, Pyramid, join, natural_gaps, natural_volumes, runs_above};
use super::{Candidate, PeriodError, PeriodEstimate, Phase, Rhythm};

pub(super) fn detect(signal: &SampledSignal) -> Result<PeriodEstimate, PeriodError> {
    let proposals = proposals(signal);
    let choice = choose(&proposals);
    let rate_hz = signal.rate_hz;
    let mut estimate = PeriodEstimate {
        confidence: 1.0 - choice.p_periodic,
        candidates: choice
            .ranking
            .iter()
            .map(|&(i, confidence)| Candidate { period_s: proposals[i].period / rate_hz, confidence })
            .collect(),
        ..PeriodEstimate::default()
    };
    let accepted: Vec<&Proposal> = choice.rhythms.iter().map(|&(i, _)| &proposals[i]).collect();
    let mut rhythms: Vec<(&Proposal, Rhythm)> = accepted
        .iter()
        .zip(&choice.rhythms)
        .zip(own_volumes(&accepted))
        .map(|((&proposal, &(_, confidence)), volume)| {
            (proposal, Rhythm { period_s: proposal.period / rate_hz, confidence, bytes: volume / rate_hz })
        })
        .collect();
    rhythms.sort_by(|a, b| b.1.bytes.total_cmp(&a.1.bytes));
    if let Some((best, rhythm)) = rhythms.first() {
        let time_s = |position: f64| signal.start_s + position / rate_hz;
        estimate.period_s = Some(rhythm.period_s);
        estimate.confidence = rhythm.confidence;
        estimate.phases = best
            .pieces
            .iter()
            .map(|p| Phase { start_s: time_s(p.start), end_s: time_s(p.end), bytes: p.volume / rate_hz })
            .collect();
        estimate.next_phase_s = estimate.phases.last().map(|phase| phase.start_s + rhythm.period_s);
        estimate.rhythms = rhythms.iter().map(|(_, rhythm)| *rhythm).collect();
    }
    Ok(estimate)
}

/// What each rhythm moves that no rhythm before it (more probable than it) has claimed.
fn own_volumes(rhythms: &[&Proposal]) -> Vec<f64> {
    let own = |i: usize| {
        let unclaimed = |piece: &Piece| {
            let claimed: f64 = rhythms[..i]
                .iter()
                .map(|other| {
                    let from = other.pieces.partition_point(|o| o.end <= piece.start);
                    let meeting = other.pieces[from..].iter().take_while(|o| o.start < piece.end);
                    meeting.map(|o| o.end.min(piece.end) - o.start.max(piece.start)).sum::<f64>()
                })
                .sum();
            piece.volume * (1.0 - claimed / (piece.end - piece.start).max(1e-9)).clamp(0.0, 1.0)
        };
        rhythms[i].pieces.iter().map(unclaimed).sum()
    };
    (0..rhythms.len()).map(own).collect()
}

struct Choice {
    /// Probability that there is any rhythm.
    p_periodic: f64,
    /// Proposals that hold together, with their probabilities.
    rhythms: Vec<(usize, f64)>,
    /// The best proposals, whether they hold or not.
    ranking: Vec<(usize, f64)>,
}

/// The multinomial logit over the proposals and "none".
fn choose(proposals: &[Proposal]) -> Choice {
    let logits: Vec<f64> = proposals.iter().map(Proposal::logit).collect();
    let mut order: Vec<usize> = (0..proposals.len()).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
    let agree = |a: usize, b: usize| (proposals[a].period / proposals[b].period - 1.0).abs() < 0.05;

    let mut rhythms: Vec<usize> = Vec::new();
    for &i in &order {
        let support = order.iter().filter(|&&j| agree(j, i)).map(|&j| logits[j].exp()).sum::<f64>().ln();
        let least = if rhythms.is_empty() { 0.0 } else { BESIDE };
        if support > least
            && rhythms.len() < 3
            && rhythms.iter().all(|&j| compatible(&proposals[i], &proposals[j]))
        {
            rhythms.push(i);
        }
    }
    // Smoothing finds a rhythm but blurs its edges: where sharper phases tell the same period, they are taken.
    for rhythm in &mut rhythms {
        if proposals[*rhythm].cut == Cut::Scale {
            let sharper = order
                .iter()
                .find(|&&i| proposals[i].cut != Cut::Scale && agree(i, *rhythm) && logits[i] > 0.0);
            *rhythm = *sharper.unwrap_or(rhythm);
        }
    }
    // A rhythm's rivals are the proposals that agree with no other rhythm.
    let probability = |i: usize| {
        let top = logits[i].max(0.0);
        let (mut support, mut total) = (0.0, (-top).exp());
        for &j in &order {
            let weight = (logits[j] - top).exp();
            if agree(j, i) {
                support += weight;
                total += weight;
            } else if !rhythms.iter().any(|&other| other != i && agree(j, other)) {
                total += weight;
            }
        }
        support / total
    };
    let mut ranking: Vec<(usize, f64)> = Vec::new();
    for &i in &order {
        if ranking.len() < 5 && ranking.iter().all(|&(j, _)| !agree(i, j)) {
            ranking.push((i, probability(i)));
        }
    }
    let odds: f64 = logits.iter().map(|logit| logit.min(500.0).exp()).sum();
    Choice {
        p_periodic: odds / (1.0 + odds),
        rhythms: rhythms.iter().map(|&i| (i, probability(i))).collect(),
        ranking,
    }
}

/// The logit from which a second rhythm is believed beside the first.
const BESIDE: f64 = 0.3;

/// Whether two rhythms can hold at once: they have phases of their own, or the short one runs on through the long one.
fn compatible(a: &Proposal, b: &Proposal) -> bool {
    let (short, long) = if a.period < b.period { (a, b) } else { (b, a) };
    if long.period < 1.15 * short.period {
        return false;
    }
    let runs_on = long.period > 1.8 * short.period && long.cut == Cut::Scale && short.cut != Cut::Scale;
    runs_on || shared_time(&a.pieces, &b.pieces) < 0.25
}

/// All rhythms that might be there.
pub(super) fn proposals(signal: &SampledSignal) -> Vec<Proposal> {
    let x = &signal.values;
    let mut sums = Vec::with_capacity(x.len() + 1);
    sums.push(0.0);
    for value in x {
        sums.push(sums[sums.len() - 1] + value);
    }
    if x.len() < 8 || sums[x.len()] <= 0.0 {
        return Vec::new();
    }
    let background =
        Background { x, sums, autocorrelation: autocorrelation(x), powers: spectrum(x).powers() };
    let mut proposals: Vec<Proposal> = Vec::new();
    let mut add = |proposal: Option<Proposal>| {
        let Some(proposal) = proposal else { return };
        // The same phases come out at several thresholds; the one that holds more of the volume stands for all.
        let twin = proposals.iter_mut().find(|other| {
            other.cut == proposal.cut
                && other.pieces.len() == proposal.pieces.len()
                && (other.period / proposal.period - 1.0).abs() < 0.01
        });
        match twin {
            Some(twin) if twin.logit() >= proposal.logit() => {}
            Some(twin) => *twin = proposal,
            None => proposals.push(proposal),
        }
    };
    let top = x.iter().copied().fold(0.0, f64::max);
    let level = mean(x);
    for threshold in [1e-6 * top, 0.05 * top, 0.3 * level, level] {
        let runs = runs_above(x, threshold);
        let mut gaps = natural_gaps(&runs, 10);
        gaps.push(0.0);
        for gap in gaps {
            let pieces = join(&runs, gap);
            if pieces.len() >= 6 {
                for cut in natural_volumes(&pieces, 4) {
                    let (upper, lower): (Vec<Piece>, Vec<Piece>) =
                        pieces.iter().partition(|piece| piece.volume > cut);
                    add(Proposal::new(Cut::Class, upper.clone(), &lower, &background));
                    add(Proposal::new(Cut::Class, lower, &upper, &background));
                }
            }
            add(Proposal::new(Cut::Runs, pieces, &[], &background));
        }
    }
    let pyramid = Pyramid::new(x);
    let mut period = 6.0;
    while period < x.len() as f64 / 2.0 {
        let pieces = pyramid.phases_at(period);
        if pieces.len() >= 3 {
            let found = (pieces[pieces.len() - 1].start - pieces[0].start) / (pieces.len() - 1) as f64;
            if (found / period).ln().abs() < 0.3 {
                add(Proposal::new(Cut::Scale, pieces, &[], &background));
            }
        }
        period *= 1.25;
    }
    let n_proposals = proposals.len();
    for proposal in &mut proposals {
        proposal.note_trials(n_proposals);
    }
    proposals
}

/// How much of the shorter set's time both sets cover. Pieces are in order of time.
fn shared_time(a: &[Piece], b: &[Piece]) -> f64 {
    let (mut i, mut j, mut both) = (0, 0, 0.0);
    while i < a.len() && j < b.len() {
        both += (a[i].end.min(b[j].end) - a[i].start.max(b[j].start)).max(0.0);
        if a[i].end < b[j].end { i += 1 } else { j += 1 }
    }
    let length = |pieces: &[Piece]| pieces.iter().map(|piece| piece.end - piece.start).sum::<f64>();
    both / length(a).min(length(b)).max(1e-9)
}
