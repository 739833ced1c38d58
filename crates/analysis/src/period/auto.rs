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
    let mut rhythms: Vec<(&Proposal, f64)> =
        choice.rhythms.iter().map(|&(i, p)| (&proposals[i], p)).collect();
    rhythms.sort_by(|a, b| b.0.volume().total_cmp(&a.0.volume()));
    let mut estimate = PeriodEstimate {
        confidence: 1.0 - choice.p_periodic,
        candidates: choice
            .ranking
            .iter()
            .map(|&(i, confidence)| Candidate { period_s: proposals[i].period / rate_hz, confidence })
            .collect(),
        ..PeriodEstimate::default()
    };
    if let Some((best, confidence)) = rhythms.first() {
        estimate.period_s = Some(best.period / rate_hz);
        estimate.confidence = *confidence;
        let time_s = |position: f64| signal.start_s + position / rate_hz;
        estimate.phases = best
            .pieces
            .iter()
            .map(|p| Phase { start_s: time_s(p.start), end_s: time_s(p.end), bytes: p.volume / rate_hz })
            .collect();
        estimate.next_phase_s = estimate.phases.last().map(|phase| phase.start_s + best.period / rate_hz);
        estimate.rhythms = rhythms
            .iter()
            .map(|(p, confidence)| Rhythm {
                period_s: p.period / rate_hz,
                confidence: *confidence,
                bytes: p.volume() / rate_hz,
            })
            .collect();
    }
    Ok(estimate)
}

struct Choice {
    p_periodic: f64,
    rhythms: Vec<(usize, f64)>,
    ranking: Vec<(usize, f64)>,
}

/// The multinomial logit over the proposals and "none".
fn choose(proposals: &[Proposal]) -> Choice {
    let logits: Vec<f64> = proposals.iter().map(Proposal::logit).collect();
    let mut allowed: Vec<usize> = (0..proposals.len()).collect();
    let mut choice = Choice { p_periodic: 0.0, rhythms: Vec::new(), ranking: Vec::new() };
    for round in 0..3 {
        let top = allowed.iter().map(|&i| logits[i]).fold(0.0, f64::max);
        let none = (-top).exp();
        let total: f64 = none + allowed.iter().map(|&i| (logits[i] - top).exp()).sum::<f64>();
        // Proposals that agree are one answer.
        let support = |period: f64| {
            let agreeing = allowed.iter().filter(|&&i| (proposals[i].period / period - 1.0).abs() < 0.05);
            agreeing.map(|&i| (logits[i] - top).exp() / total).sum::<f64>()
        };
        let Some(&best) = allowed.iter().max_by(|&&a, &&b| logits[a].total_cmp(&logits[b])) else { break };
        let p = support(proposals[best].period);
        if round == 0 {
            choice.p_periodic = 1.0 - none / total;
            let mut order = allowed.clone();
            order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
            for i in order {
                let period = proposals[i].period;
                if choice.ranking.len() < 5
                    && choice.ranking.iter().all(|&(j, _)| (proposals[j].period / period - 1.0).abs() > 0.05)
                {
                    choice.ranking.push((i, support(period)));
                }
            }
        }
        if none > total - none {
            break;
        }
        choice.rhythms.push((best, p));
        allowed.retain(|&i| shared_time(&proposals[i].pieces, &proposals[best].pieces) < 0.25);
    }
    choice
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
                    add(Proposal::new(Cut::Class, upper.clone(), lower.clone(), &background));
                    add(Proposal::new(Cut::Class, lower, upper, &background));
                }
            }
            add(Proposal::new(Cut::Runs, pieces, Vec::new(), &background));
        }
    }
    let pyramid = Pyramid::new(x);
    let mut period = 6.0;
    while period < x.len() as f64 / 2.0 {
        let pieces = pyramid.phases_at(period);
        if pieces.len() >= 3 {
            let found = (pieces[pieces.len() - 1].start - pieces[0].start) / (pieces.len() - 1) as f64;
            if (found / period).ln().abs() < 0.3 {
                add(Proposal::new(Cut::Scale, pieces, Vec::new(), &background));
            }
        }
        period *= 1.25;
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
