//! Our own method: evidence from time and frequency together.
//!
//! 1. *Propose.* The signal is cut into phases in many ways: stretches above a threshold with gaps closed at every
//!    natural break, the same split into two classes by volume, and smoothing at each scale.
//! 2. *Weigh.* Each proposal is a rhythm with its own evidence, from time and from frequency; see `evidence`.
//! 3. *Choose.* The most probable proposal wins, unless "none" is more probable than all of them; what uses other
//!    phases than the winner may hold beside it.

use iotide_num::mean;
use iotide_trace::SampledSignal;

use super::evidence::{Background, Cut, Proposal, Rule};
use super::segment::{Piece, Pyramid, join, natural_gaps, natural_volumes, runs_above};
use super::{
    Candidate, DftConfig, PeriodError, PeriodEstimate, Phase, Rhythm, Verdict, correlation, next_beat_s,
    spectral,
};

/// Weighs every rhythm the signal might have and returns the ones that hold.
pub(super) fn detect(signal: &SampledSignal, config: &DftConfig) -> Result<PeriodEstimate, PeriodError> {
    let rate_hz = signal.rate_hz;
    let Some(background) = Background::of(&signal.values) else { return Ok(PeriodEstimate::default()) };
    let proposals = propose(&background);
    let choice = choose(&proposals);
    let mut estimate = PeriodEstimate {
        confidence: 1.0 - choice.p_periodic,
        candidates: choice
            .ranking
            .iter()
            .map(|&(i, confidence)| Candidate { period_s: proposals[i].period / rate_hz, confidence })
            .collect(),
        autocorrelation: correlation::estimate_from(&background.autocorrelation, rate_hz),
        waves: spectral::strongest_waves(signal, config.n_top),
        ..PeriodEstimate::default()
    };
    let accepted: Vec<&Proposal> = choice.rhythms.iter().map(|&(i, _)| &proposals[i]).collect();
    let mut rhythms: Vec<(&Proposal, Rhythm)> = accepted
        .iter()
        .zip(&choice.rhythms)
        .zip(own_volumes(&accepted))
        .map(|((&proposal, &(_, confidence)), volume)| {
            let phases = phases_of(&proposal.pieces, signal);
            let period_s = proposal.period / rate_hz;
            let rhythm = Rhythm {
                period_s,
                mean_distance_s: period_s,
                confidence,
                bytes: volume / rate_hz,
                start_s: phases[0].start_s,
                end_s: phases[phases.len() - 1].end_s,
                phases,
                ..Rhythm::default()
            };
            (proposal, rhythm)
        })
        .collect();
    rhythms.sort_by(|a, b| b.1.bytes.total_cmp(&a.1.bytes));
    estimate.verdict = Verdict::NotPeriodic;
    if let Some((_, rhythm)) = rhythms.first() {
        estimate.verdict = Verdict::Periodic;
        estimate.period_s = Some(rhythm.period_s);
        estimate.confidence = rhythm.confidence;
        // The autocorrelation is among the evidence already.
        estimate.refined_confidence = Some(rhythm.confidence);
        estimate.phases = rhythm.phases.clone();
        estimate.next_phase_s =
            estimate.phases.last().map(|phase| next_beat_s(phase.start_s, rhythm.period_s, signal.end_s()));
        estimate.rhythms = rhythms.into_iter().map(|(_, rhythm)| rhythm).collect();
    }
    Ok(estimate)
}

/// Returns the rhythms that hold, each with its phases and with how these were cut out of the signal.
pub(crate) fn detect_cuts(signal: &SampledSignal) -> CutEstimate {
    let Some(background) = Background::of(&signal.values) else { return CutEstimate::default() };
    let proposals = propose(&background);
    let choice = choose(&proposals);
    let as_cut = |proposal: &Proposal, confidence: f64| CutRhythm {
        period_s: proposal.period / signal.rate_hz,
        confidence,
        phases: phases_of(&proposal.pieces, signal),
        rule: proposal.rule.in_seconds(signal.rate_hz),
    };
    let accepted: Vec<&Proposal> = choice.rhythms.iter().map(|&(i, _)| &proposals[i]).collect();
    let mut rhythms: Vec<(f64, CutRhythm)> = choice
        .rhythms
        .iter()
        .zip(own_volumes(&accepted))
        .map(|(&(i, confidence), volume)| (volume, as_cut(&proposals[i], confidence)))
        .collect();
    rhythms.sort_by(|a, b| b.0.total_cmp(&a.0));
    CutEstimate {
        p_periodic: choice.p_periodic,
        rhythms: rhythms.into_iter().map(|(_, rhythm)| rhythm).collect(),
        best: choice.ranking.first().map(|&(i, confidence)| as_cut(&proposals[i], confidence)),
        few: proposals
            .iter()
            .filter(|proposal| proposal.cut() == Cut::Runs && proposal.pieces.len() <= 4)
            .filter(|proposal| {
                let volume: f64 = proposal.pieces.iter().map(|piece| piece.volume).sum();
                volume > 0.95 * background.sums[background.x.len()]
            })
            .max_by(|a, b| a.logit().total_cmp(&b.logit()))
            .map(|proposal| as_cut(proposal, 0.0)),
    }
}

/// Cuts a signal into phases as `rule` says, whether they have a rhythm or not.
pub(crate) fn cut_by(signal: &SampledSignal, rule: &Rule) -> Vec<Phase> {
    let x = &signal.values;
    let rule = rule.in_seconds(1.0 / signal.rate_hz);
    let pieces = match rule {
        Rule::Runs { threshold, gap } => join(&runs_above(x, threshold), gap),
        Rule::Class { threshold, gap, volume, upper } => {
            let mut pieces = join(&runs_above(x, threshold), gap);
            pieces.retain(|piece| (piece.volume > volume) == upper);
            pieces
        }
        Rule::Scale { period } if x.len() >= 8 && period >= 2.0 => {
            let mut sums = vec![0.0];
            sums.extend(x.iter().scan(0.0, |sum, value| {
                *sum += value;
                Some(*sum)
            }));
            Pyramid::new(x, &sums).phases_at(period)
        }
        Rule::Scale { .. } => Vec::new(),
    };
    phases_of(&pieces, signal)
}

fn phases_of(pieces: &[Piece], signal: &SampledSignal) -> Vec<Phase> {
    let time_s = |position: f64| signal.start_s + position / signal.rate_hz;
    pieces
        .iter()
        .map(|p| Phase { start_s: time_s(p.start), end_s: time_s(p.end), bytes: p.volume / signal.rate_hz })
        .collect()
}

/// What [`detect_cuts`] finds.
#[derive(Clone, Debug, Default)]
pub(crate) struct CutEstimate {
    /// Probability that there is any rhythm.
    pub p_periodic: f64,
    /// Those that hold at once, the one that moves most bytes first.
    pub rhythms: Vec<CutRhythm>,
    /// The most probable one, whether it holds or not; of three phases or more.
    pub best: Option<CutRhythm>,
    /// The best way to see (nearly all of) the signal as three or four stretches of activity, if there is one.
    pub few: Option<CutRhythm>,
}

/// A rhythm and its phases.
#[derive(Clone, Debug)]
pub(crate) struct CutRhythm {
    pub period_s: f64,
    pub confidence: f64,
    pub phases: Vec<Phase>,
    pub rule: Rule,
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
        if proposals[*rhythm].cut() == Cut::Scale {
            let sharper = order
                .iter()
                .find(|&&i| proposals[i].cut() != Cut::Scale && agree(i, *rhythm) && logits[i] > 0.0);
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
    let mut probable: Vec<(usize, f64)> = rhythms.iter().map(|&i| (i, probability(i))).collect();
    // An answer that its rivals outweigh is none.
    if probable.first().is_some_and(|&(_, p)| p < LEAST_PROBABLE) {
        probable.clear();
    }
    let odds: f64 = logits.iter().map(|logit| logit.min(500.0).exp()).sum();
    Choice { p_periodic: odds / (1.0 + odds), rhythms: probable, ranking }
}

/// How probable an answer must be to be given.
const LEAST_PROBABLE: f64 = 0.4;

/// The logit from which a second rhythm is believed beside the first.
const BESIDE: f64 = 0.3;

/// Whether two rhythms can hold at once: they have phases of their own, or the short one runs on through the long one.
fn compatible(a: &Proposal, b: &Proposal) -> bool {
    let (short, long) = if a.period < b.period { (a, b) } else { (b, a) };
    if long.period < 1.15 * short.period {
        return false;
    }
    let runs_on = long.period > 1.8 * short.period && long.cut() == Cut::Scale && short.cut() != Cut::Scale;
    runs_on || shared_time(&a.pieces, &b.pieces) < 0.25
}

/// All rhythms the signal might have.
pub(super) fn proposals(signal: &SampledSignal) -> Vec<Proposal> {
    Background::of(&signal.values).map_or_else(Vec::new, |background| propose(&background))
}

fn propose(background: &Background) -> Vec<Proposal> {
    let x = background.x;
    let mut proposals: Vec<Proposal> = Vec::new();
    let mut add = |proposal: Option<Proposal>| {
        let Some(proposal) = proposal else { return };
        // The same phases come out at several thresholds; the one that holds more of the volume stands for all.
        let twin = proposals.iter_mut().find(|other| {
            other.cut() == proposal.cut()
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
                    let rule = |upper| Rule::Class { threshold, gap, volume: cut, upper };
                    add(Proposal::new(rule(true), upper.clone(), &lower, background));
                    add(Proposal::new(rule(false), lower, &upper, background));
                }
            }
            add(Proposal::new(Rule::Runs { threshold, gap }, pieces, &[], background));
        }
    }
    let pyramid = Pyramid::new(x, &background.sums);
    let mut period = 6.0;
    while period < x.len() as f64 / 2.0 {
        let pieces = pyramid.phases_at(period);
        if pieces.len() >= 3 {
            let found = (pieces[pieces.len() - 1].start - pieces[0].start) / (pieces.len() - 1) as f64;
            if (found / period).ln().abs() < 0.3 {
                add(Proposal::new(Rule::Scale { period }, pieces, &[], background));
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn signal(values: Vec<f64>) -> SampledSignal {
        let duration_s = values.len() as f64 / 10.0;
        SampledSignal { start_s: 100.0, rate_hz: 10.0, values, duration_s }
    }

    /// Bursts of `length` samples at `starts`, each moving `volume`.
    fn bursts(n: usize, starts: &[usize], length: usize, volume: f64) -> Vec<f64> {
        let mut values = vec![0.0; n];
        for &start in starts {
            for value in &mut values[start..start + length] {
                *value += volume / length as f64;
            }
        }
        values
    }

    fn every(period: usize, n: usize) -> Vec<usize> {
        (0..n).map(|i| 7 + i * period).collect()
    }

    fn found(values: Vec<f64>) -> PeriodEstimate {
        detect(&signal(values), &DftConfig::default()).unwrap()
    }

    #[test]
    fn even_bursts_have_their_distance_as_period() {
        let estimate = found(bursts(1000, &every(50, 19), 9, 1e9));
        assert!((estimate.period_s.unwrap() - 5.0).abs() < 1e-9);
        assert!(estimate.confidence > 0.95, "{}", estimate.confidence);
        assert_eq!(estimate.phases.len(), 19);
        assert!((estimate.phases[0].start_s - 100.7).abs() < 1e-9);
        assert!((estimate.next_phase_s.unwrap() - 200.7).abs() < 1e-6);
    }

    #[test]
    fn three_even_bursts_suffice_and_two_do_not() {
        assert_eq!(found(bursts(650, &[100, 300, 500], 50, 1.0)).period_s.map(f64::round), Some(20.0));
        assert_eq!(found(bursts(650, &[100, 300], 50, 1.0)).period_s, None);
    }

    #[test]
    fn phases_of_several_bursts_are_not_taken_for_more_phases() {
        let starts: Vec<usize> =
            every(100, 15).iter().flat_map(|&start| [start, start + 12, start + 24]).collect();
        let estimate = found(bursts(1600, &starts, 6, 1e9));
        assert!((estimate.period_s.unwrap() - 10.0).abs() < 1e-9);
    }

    #[test]
    fn a_log_beside_the_phases_does_not_hide_them() {
        let mut values = bursts(2000, &every(100, 19), 30, 1e9);
        for (value, log) in values.iter_mut().zip(bursts(2000, &every(13, 150), 2, 1e4)) {
            *value += log;
        }
        assert!((found(values).period_s.unwrap() - 10.0).abs() < 1e-6);
    }

    #[test]
    fn a_dump_and_a_checkpoint_are_two_rhythms_the_heavier_first() {
        let mut values = bursts(4000, &every(80, 48), 8, 1e9);
        for (value, checkpoint) in values.iter_mut().zip(bursts(4000, &every(470, 8), 30, 20e9)) {
            *value += checkpoint;
        }
        let periods_s: Vec<f64> =
            found(values).rhythms.iter().map(|rhythm| rhythm.period_s.round()).collect();
        assert_eq!(periods_s, [47.0, 8.0]);
    }

    #[test]
    fn two_phases_that_ran_into_each_other_count_as_two() {
        // The ninth phase comes late and touches the tenth.
        let mut starts = every(60, 20);
        starts[8] = starts[9] - 20;
        let estimate = found(bursts(1300, &starts, 20, 1e9));
        assert!((estimate.period_s.unwrap() - 6.0).abs() < 1e-6);
    }

    #[test]
    fn what_does_not_vary_or_is_too_short_is_not_periodic() {
        for values in [vec![], vec![1.0], vec![1.0, 0.0, 1.0], vec![0.0; 100], vec![3.5; 100]] {
            assert_eq!(found(values).period_s, None);
        }
    }

    #[test]
    fn waiting_times_without_memory_make_no_rhythm() {
        // Exponential gaps by their quantiles, shuffled: as irregular as chance, with no luck involved.
        let mut at = 10.0;
        let starts: Vec<usize> = (0..20)
            .map(|i| {
                at += 10.0 - 60.0 * (1.0 - (f64::from((i * 7) % 20) + 0.5) / 20.0).ln();
                at as usize
            })
            .collect();
        assert_eq!(found(bursts(2000, &starts, 8, 1e9)).period_s, None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn any_samples_give_finite_numbers(values in prop::collection::vec(prop_oneof![Just(0.0), 0.0..1e12f64], 0..400)) {
            let estimate = found(values);
            let all = estimate.candidates.iter().flat_map(|c| [c.period_s, c.confidence]);
            let all = all.chain(estimate.rhythms.iter().flat_map(|r| [r.period_s, r.confidence, r.bytes]));
            prop_assert!(all.chain(estimate.next_phase_s).all(f64::is_finite));
            prop_assert!((0.0..=1.0).contains(&estimate.confidence));
        }

        #[test]
        fn scaling_the_bandwidth_changes_nothing_but_the_bytes(
            values in prop::collection::vec(prop_oneof![Just(0.0), 0.0..1e9f64], 8..300), doublings in -30..30i32,
        ) {
            let scaled: Vec<f64> = values.iter().map(|value| value * 2f64.powi(doublings)).collect();
            let (small, large) = (found(values), found(scaled));
            prop_assert_eq!(small.period_s, large.period_s);
            prop_assert_eq!(small.confidence, large.confidence);
            prop_assert_eq!(small.phases.len(), large.phases.len());
        }

        #[test]
        fn a_time_shift_moves_the_phases_and_nothing_else(shift_s in -1e6..1e6f64, period in 20..80usize) {
            let here = signal(bursts(1700, &every(period, 20), 7, 1e9));
            let there = SampledSignal { start_s: here.start_s + shift_s, ..here.clone() };
            let config = DftConfig::default();
            let (here, there) = (detect(&here, &config).unwrap(), detect(&there, &config).unwrap());
            prop_assert_eq!(here.period_s, there.period_s);
            prop_assert_eq!(here.confidence, there.confidence);
            for (a, b) in here.phases.iter().zip(&there.phases) {
                prop_assert!((b.start_s - a.start_s - shift_s).abs() < 1e-6);
            }
        }
    }
}
