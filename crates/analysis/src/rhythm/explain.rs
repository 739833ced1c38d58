//! Do these starts keep a beat? The best explanation in stretches, and its odds against chance.
//!
//! *With a beat*: from one phase to the next it is a whole number of beats, give or take a normal deviation of unknown
//! width; a beat may be missed, at a price, a phase may be late, a burst may be foreign, and once in a while the program
//! pauses. *Without*: idle times of no particular length (log-normal, at least as wide as [`LEAST_CHANCE_WIDTH`]). An
//! operation that lasts keeps the next one off, which must not pass for a rhythm: that is why chance is asked for idle
//! times and the beat for starts.
//!
//! Every step of an explanation has a density, so its logarithm less that of chance says how much the step speaks for the
//! beat. The stretch with the largest sum is the one in which the beat holds: what comes before or after it, another
//! beat, a late result, costs it nothing. No number here has a unit: times enter as ratios only.

use super::steps::Burst;

/// A stretch of bursts that keeps a beat.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stretch {
    /// The beat.
    pub beat_s: f64,
    /// Standard deviation of the distances around whole beats, over the beat.
    pub spread: f64,
    /// Its bursts, ascending.
    pub members: Vec<usize>,
    /// Beats without a burst, those that passed in pauses included.
    pub missed: usize,
    /// Distances that are no whole number of beats: the program did something else.
    pub n_pauses: usize,
    /// Logarithm of the odds for the beat against chance, everything paid for.
    pub log_odds: f64,
}

/// Returns the stretches of `bursts` (in order of time) that keep a beat, in order of time.
///
/// Times are not known better than to `resolution_s`.
pub(crate) fn explain(bursts: &[Burst], resolution_s: f64) -> Vec<Stretch> {
    let mut stretches = Vec::new();
    explain_into(bursts, 0, resolution_s, 0, &mut stretches);
    stretches.sort_by_key(|stretch| stretch.members[0]);
    merge_same_beat(&mut stretches, bursts);
    stretches
}

/// So many stretches one after the other are looked for on either side of the best one.
const MOST_DEPTH: usize = 3;

fn explain_into(
    bursts: &[Burst],
    offset: usize,
    resolution_s: f64,
    depth: usize,
    stretches: &mut Vec<Stretch>,
) {
    if bursts.len() < 3 || depth > MOST_DEPTH {
        return;
    }
    let Some(mut best) = best_stretch(bursts, resolution_s) else { return };
    let (first, last) = (best.members[0], best.members[best.members.len() - 1]);
    for member in &mut best.members {
        *member += offset;
    }
    stretches.push(best);
    explain_into(&bursts[..first], offset, resolution_s, depth + 1, stretches);
    explain_into(&bursts[last + 1..], offset + last + 1, resolution_s, depth + 1, stretches);
}

/// Two neighbouring stretches of one beat are one stretch with a pause.
fn merge_same_beat(stretches: &mut Vec<Stretch>, bursts: &[Burst]) {
    let mut i = 0;
    while i + 1 < stretches.len() {
        let (one, next) = (&stretches[i], &stretches[i + 1]);
        let tolerance = 0.03 + (one.spread + next.spread) / 2.0 / (one.members.len().min(next.members.len()) as f64).sqrt();
        if (one.beat_s / next.beat_s).ln().abs() < tolerance {
            let next = stretches.remove(i + 1);
            let one = &mut stretches[i];
            let (n_one, n_next) = (one.members.len() as f64, next.members.len() as f64);
            one.beat_s = (one.beat_s * (n_one - 1.0) + next.beat_s * (n_next - 1.0)) / (n_one + n_next - 2.0);
            one.spread = ((one.spread.powi(2) * n_one + next.spread.powi(2) * n_next) / (n_one + n_next)).sqrt();
            let pause_s =
                bursts[next.members[0]].start_s - bursts[one.members[one.members.len() - 1]].start_s;
            one.missed += next.missed + ((pause_s / one.beat_s).round() as usize).saturating_sub(1);
            one.n_pauses += next.n_pauses + 1;
            one.log_odds += next.log_odds;
            one.members.extend(next.members);
        } else {
            i += 1;
        }
    }
}

fn best_stretch(bursts: &[Burst], resolution_s: f64) -> Option<Stretch> {
    let starts = Starts::of(bursts, resolution_s)?;
    let mut best: Option<Stretch> = None;
    let mut tried: Vec<f64> = Vec::new();
    for guess_s in starts.guesses_s() {
        if guess_s <= 0.0 || tried.iter().any(|other| (other / guess_s).ln().abs() < 0.02) {
            continue;
        }
        tried.push(guess_s);
        if let Some(found) = starts.fit(guess_s)
            && best.as_ref().is_none_or(|best| found.log_odds > best.log_odds)
        {
            best = Some(found);
        }
    }
    best.filter(|best| best.log_odds > 0.0)
}

/// Idle times that vary less than this (standard deviation of their logarithm) are not called chance: half of the
/// sequences whose distances vary by one half (as a share of their mean) keep a beat, half do not.
const LEAST_CHANCE_WIDTH: f64 = 0.5;
/// Chance may produce an idle time of any length, this often.
const ODD_IDLE: f64 = 0.05;
/// Idle times "of any length" lie within so many e-foldings.
const E_FOLDINGS: f64 = 20.0;
/// A program keeps time no better than to this share of the beat.
const LEAST_SPREAD: f64 = 0.01;
/// Beyond this spread nobody would speak of a beat.
const MOST_SPREAD: f64 = 0.6;
/// A phase is out of step this often, a burst foreign this often, and the program pauses this often.
const OUT_OF_STEP: f64 = 0.03;
const FOREIGN: f64 = 0.03;
const PAUSE: f64 = 0.02;
/// More beats than this in a row are a pause, not missed.
const MOST_MISSED: f64 = 12.0;
/// Foreign bursts between two of a rhythm's phases.
const MOST_FOREIGN: usize = 3;

struct Starts<'a> {
    bursts: &'a [Burst],
    /// Sums of the log density of the first `i` idle times under chance.
    chance: Vec<f64>,
    resolution_s: f64,
}

impl<'a> Starts<'a> {
    fn of(bursts: &'a [Burst], resolution_s: f64) -> Option<Self> {
        if bursts.windows(2).any(|pair| pair[1].start_s <= pair[0].start_s) {
            return None;
        }
        let idle: Vec<f64> = bursts
            .windows(2)
            .map(|pair| (pair[1].start_s - pair[0].end_s).max(1e-3 * (pair[1].start_s - pair[0].start_s)))
            .collect();
        let logs: Vec<f64> = idle.iter().map(|idle_s| idle_s.ln()).collect();
        let (middle, width) = middle_and_width(&logs);
        let width = width.clamp(LEAST_CHANCE_WIDTH, 2.5);
        let mut chance = Vec::with_capacity(bursts.len());
        let mut sum = 0.0;
        chance.push(sum);
        for (idle_s, log) in idle.iter().zip(&logs) {
            let z = (log - middle) / width;
            let usual = (1.0 - ODD_IDLE) * (-0.5 * z * z).exp() / (width * SQRT_TAU);
            sum += (usual + ODD_IDLE / E_FOLDINGS).ln() - idle_s.ln();
            chance.push(sum);
        }
        Some(Self { bursts, chance, resolution_s })
    }

    fn guesses_s(&self) -> Vec<f64> {
        let mut distances: Vec<f64> =
            self.bursts.windows(2).map(|pair| pair[1].start_s - pair[0].start_s).collect();
        let n = distances.len();
        let mean = distances.iter().sum::<f64>() / n as f64;
        distances.sort_unstable_by(f64::total_cmp);
        let at = |share: f64| distances[((n - 1) as f64 * share).round() as usize];
        let mut guesses = vec![at(0.5), at(0.25), at(0.75), mean];
        if n <= MANY {
            guesses.extend([at(0.1), at(0.9), at(0.0)]);
            // With foreign bursts between them, phases are every second start.
            if n >= 4 {
                let mut pairs: Vec<f64> =
                    self.bursts.windows(3).map(|three| three[2].start_s - three[0].start_s).collect();
                pairs.sort_unstable_by(f64::total_cmp);
                guesses.push(pairs[pairs.len() / 2]);
            }
        }
        guesses
    }

    fn least_spread(&self, beat_s: f64) -> f64 {
        // Two starts, each anywhere within the resolution: the standard deviation of their difference is w/√6.
        LEAST_SPREAD.hypot(self.resolution_s / beat_s / 6f64.sqrt())
    }

    /// The stretch that a beat of about `guess_s` explains best.
    fn fit(&self, guess_s: f64) -> Option<Stretch> {
        let mut beat_s = guess_s;
        let mut spread = self.first_spread(beat_s);
        let mut missing = 0.05;
        let mut path = None;
        for _ in 0..3 {
            let found = self.best_path(beat_s, spread, missing)?;
            let (before_s, before) = (beat_s, spread);
            beat_s = found.beat_s;
            spread = found.spread.max(self.least_spread(beat_s));
            missing = ((found.missed as f64 + 0.5) / (found.steps as f64 + found.missed as f64 + 1.0)).clamp(0.01, 0.5);
            let settled = (beat_s / before_s - 1.0).abs() < 1e-3 && (spread / before).ln().abs() < 0.05;
            path = Some(found);
            if settled {
                break;
            }
        }
        let path = path?;
        let n = path.members.len();
        if n < 3 || path.missed > n || spread > MOST_SPREAD || path.n_pauses * 3 > n {
            return None;
        }
        let whole = n + path.n_foreign == self.bursts.len();
        // The beat and its spread are chosen by these very distances; where the stretch begins and ends as well.
        let price = 0.5 * (n as f64).ln() + 1.0 + if whole { 0.0 } else { (self.bursts.len() as f64).ln() };
        Some(Stretch {
            beat_s,
            spread: path.spread,
            missed: path.missed + path.missed_in_pauses,
            n_pauses: path.n_pauses,
            log_odds: path.score - price,
            members: path.members,
        })
    }

    fn first_spread(&self, beat_s: f64) -> f64 {
        let deviations: Vec<f64> = self
            .bursts
            .windows(2)
            .map(|pair| (pair[1].start_s - pair[0].start_s) / beat_s)
            .filter(|distance| (0.5..1.5).contains(distance))
            .map(|distance| distance - 1.0)
            .collect();
        let width = if deviations.len() < 2 { 0.05 } else { middle_and_width(&deviations).1 };
        width.clamp(self.least_spread(beat_s), 0.5)
    }

    /// Dynamic programming over the starts: the best explanation that ends with burst `i` on the beat.
    fn best_path(&self, beat_s: f64, spread: f64, missing: f64) -> Option<Path> {
        let n = self.bursts.len();
        let (ln_missing, ln_there) = (missing.ln(), (1.0 - missing).ln());
        let ln_beat = beat_s.ln();
        let ln_foreign = FOREIGN.ln() - ln_beat;
        let mut steps: Vec<Step> = Vec::with_capacity(n);
        let mut end = 0;
        for i in 0..n {
            let mut best = Step { score: 0.0, from: i, beats: 0.0 };
            for back in 1..=(1 + MOST_FOREIGN).min(i) {
                let j = i - back;
                let distance = (self.bursts[i].start_s - self.bursts[j].start_s) / beat_s;
                if distance < 0.4 {
                    continue;
                }
                let fixed = steps[j].score + (back - 1) as f64 * ln_foreign - (self.chance[i] - self.chance[j]);
                let beats = distance.round().max(1.0);
                if beats <= MOST_MISSED {
                    let width = spread * beats.sqrt();
                    let z = (distance - beats) / width;
                    let mut density = (1.0 - OUT_OF_STEP) * (-0.5 * z * z).exp() / (width * SQRT_TAU);
                    if beats == 1.0 {
                        density += OUT_OF_STEP;
                    }
                    let score = fixed + (density + 1e-300).ln() - ln_beat + ln_there + (beats - 1.0) * ln_missing;
                    if score > best.score {
                        best = Step { score, from: j, beats };
                    }
                }
                if distance > 1.5 {
                    let score = fixed + PAUSE.ln() - (distance * E_FOLDINGS).ln() - ln_beat;
                    if score > best.score {
                        best = Step { score, from: j, beats: -beats };
                    }
                }
                // Only what is close enough to a beat is worth looking past.
                if distance > MOST_MISSED {
                    break;
                }
            }
            if i == 0 || best.score > steps[end].score {
                end = i;
            }
            steps.push(best);
        }
        Path::back_from(end, &steps, self.bursts, beat_s)
    }
}

/// How burst `i` is reached: from which one, over how many beats (negative: a pause); from itself if it is the first.
#[derive(Clone, Copy)]
struct Step {
    score: f64,
    from: usize,
    beats: f64,
}

struct Path {
    members: Vec<usize>,
    score: f64,
    beat_s: f64,
    spread: f64,
    /// Steps that are no pauses.
    steps: usize,
    missed: usize,
    missed_in_pauses: usize,
    n_pauses: usize,
    n_foreign: usize,
}

impl Path {
    fn back_from(end: usize, steps: &[Step], bursts: &[Burst], beat_s: f64) -> Option<Self> {
        let mut members = vec![end];
        let (mut time_s, mut beats, mut missed, mut missed_in_pauses, mut n_pauses) = (0.0, 0.0, 0, 0, 0);
        let mut distances: Vec<(f64, f64)> = Vec::new();
        let mut n_foreign = 0;
        let mut at = end;
        while steps[at].from != at {
            let step = steps[at];
            let distance_s = bursts[at].start_s - bursts[step.from].start_s;
            n_foreign += at - step.from - 1;
            if step.beats > 0.0 {
                time_s += distance_s;
                beats += step.beats;
                missed += step.beats as usize - 1;
                distances.push((distance_s, step.beats));
            } else {
                n_pauses += 1;
                missed_in_pauses += (-step.beats as usize).saturating_sub(1);
            }
            at = step.from;
            members.push(at);
        }
        if distances.len() < 2 {
            return None;
        }
        members.reverse();
        let mean_s: f64 = time_s / beats;
        // Phases out of step (one late, the next on time again) do not widen the rest.
        let mut deviations: Vec<f64> = distances
            .iter()
            .map(|(distance_s, beats)| (distance_s / mean_s - beats) / beats.sqrt())
            .collect();
        let spread = trimmed_spread(&mut deviations);
        let _ = beat_s;
        Some(Self {
            members,
            score: steps[end].score,
            beat_s: mean_s,
            spread,
            steps: distances.len(),
            missed,
            missed_in_pauses,
            n_pauses,
            n_foreign,
        })
    }
}

/// Standard deviation around 0 without the few values that stand out from the rest.
fn trimmed_spread(deviations: &mut [f64]) -> f64 {
    let n = deviations.len();
    deviations.sort_unstable_by(|a, b| a.abs().total_cmp(&b.abs()));
    let typical = 1.4826 * deviations[(n - 1) / 2].abs();
    let limit = (5.0 * typical).max(3.0 * LEAST_SPREAD);
    let kept: Vec<f64> = deviations.iter().copied().filter(|d| d.abs() <= limit).collect();
    let freedom = if n > 2 { kept.len() as f64 - 1.0 } else { kept.len() as f64 };
    (kept.iter().map(|d| d * d).sum::<f64>() / freedom.max(1.0)).sqrt()
}

/// Median, and what the median deviation from it says about the standard deviation.
fn middle_and_width(values: &[f64]) -> (f64, f64) {
    let median = |values: &mut Vec<f64>| {
        let n = values.len();
        let (_, &mut upper, _) = values.select_nth_unstable_by(n / 2, f64::total_cmp);
        if n % 2 == 1 {
            return upper;
        }
        let lower = values[..n / 2].iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (lower + upper) / 2.0
    };
    let mut sorted = values.to_vec();
    let middle = median(&mut sorted);
    let mut deviations: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    (middle, 1.4826 * median(&mut deviations))
}

/// From so many distances on, fewer first guesses are tried: the middle of so many is close enough.
const MANY: usize = 20_000;

/// √(2π)
const SQRT_TAU: f64 = 2.506_628_274_631_000_2;
