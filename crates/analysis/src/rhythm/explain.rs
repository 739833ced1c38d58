//! Do these starts keep a beat? The best explanation in stretches, and its odds against chance.
//!
//! *With a beat*: from one phase to the next it is a whole number of beats, give or take a normal deviation of unknown
//! width; a beat may be missed, at a price, a phase may be late, a burst may be foreign, and once in a while the program
//! pauses. *Without*: distances of no particular length, log-normal and at least as wide as [`LEAST_CHANCE_WIDTH`], or
//! with the heavy tail of Pareto's distribution, whichever explains them better.
//!
//! Every step of an explanation has a density, so its logarithm less that of chance says how much the step speaks for the
//! beat. The stretch with the largest sum is the one in which the beat holds: what comes before or after it, another
//! beat, a late result, costs it nothing. No number here has a unit: times enter as ratios only.

use std::cell::RefCell;

use super::steps::{Burst, usual};

/// Known facts about a signal that bursts are cut out of.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Signal {
    /// Times are not known better than to this.
    pub resolution_s: f64,
    /// Whether its phases are short beside the distances between them, however it is cut. The length of phases keeps distances from being any shorter, so
    /// where they are long distances crowd at the shortest as Pareto's do.
    pub is_brief: bool,
}

/// A stretch of bursts that keeps a beat.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stretch {
    /// The beat.
    pub beat_s: f64,
    /// Standard deviation of the distances around whole beats, over the beat.
    pub spread: f64,
    /// Its bursts, ascending.
    pub members: Vec<usize>,
    /// Beats without a burst.
    pub missed: usize,
    /// Beats that passed in pauses.
    pub missed_in_pauses: usize,
    /// Distances that are no whole number of beats: the program did something else. Each is the member it comes after, as an
    /// index into `members`.
    pub pauses: Vec<usize>,
    /// Logarithm of the odds for the beat against chance, everything paid for.
    pub log_odds: f64,
}

impl Stretch {
    /// Its first and its last burst.
    pub(crate) fn ends(&self) -> (usize, usize) {
        (self.members[0], self.members[self.members.len() - 1])
    }
}

/// Returns the stretches of `bursts` (in order of time) that keep a beat, in order of time.
///
pub(crate) fn explain(bursts: &[Burst], signal: Signal) -> Vec<Stretch> {
    let mut stretches = Vec::new();
    explain_into(bursts, 0, signal, 0, &mut stretches);
    stretches.sort_by_key(|stretch| stretch.members[0]);
    merge_same_beat(&mut stretches, bursts);
    settle_borders(&mut stretches, bursts);
    stretches
}

/// So many stretches one after the other are looked for on either side of the best one.
const MOST_DEPTH: usize = 3;

/// Two and a half beats are so whatever the last digit says: distances are often whole numbers of bins.
const HARDLY_MORE: f64 = 1.0 + 1e-9;

fn explain_into(bursts: &[Burst], offset: usize, signal: Signal, depth: usize, stretches: &mut Vec<Stretch>) {
    if bursts.len() < 3 || depth > MOST_DEPTH {
        return;
    }
    let Some(mut best) = best_stretch(bursts, signal) else { return };
    let (first, last) = best.ends();
    for member in &mut best.members {
        *member += offset;
    }
    stretches.push(best);
    explain_into(&bursts[..first], offset, signal, depth + 1, stretches);
    explain_into(&bursts[last + 1..], offset + last + 1, signal, depth + 1, stretches);
}

/// Two neighbouring stretches of one beat are one stretch with a pause.
fn merge_same_beat(stretches: &mut Vec<Stretch>, bursts: &[Burst]) {
    let mut i = 0;
    while i + 1 < stretches.len() {
        let (one, next) = (&stretches[i], &stretches[i + 1]);
        let tolerance = 0.03
            + (one.spread + next.spread) / 2.0 / (one.members.len().min(next.members.len()) as f64).sqrt();
        if (one.beat_s / next.beat_s).ln().abs() < tolerance {
            let next = stretches.remove(i + 1);
            let one = &mut stretches[i];
            let (n_one, n_next) = (one.members.len() as f64, next.members.len() as f64);
            one.beat_s = (one.beat_s * (n_one - 1.0) + next.beat_s * (n_next - 1.0)) / (n_one + n_next - 2.0);
            one.spread =
                ((one.spread.powi(2) * n_one + next.spread.powi(2) * n_next) / (n_one + n_next)).sqrt();
            let pause_s =
                bursts[next.members[0]].start_s - bursts[one.members[one.members.len() - 1]].start_s;
            one.missed += next.missed;
            one.missed_in_pauses +=
                next.missed_in_pauses + ((pause_s / one.beat_s).round() as usize).saturating_sub(1);
            let before = one.members.len();
            one.pauses.push(before - 1);
            one.pauses.extend(next.pauses.iter().map(|pause| pause + before));
            one.log_odds += next.log_odds;
            one.members.extend(next.members);
        } else {
            i += 1;
        }
    }
}

/// The burst at which the beat changes ends the old beat: the new one begins with the next.
fn settle_borders(stretches: &mut [Stretch], bursts: &[Burst]) {
    for i in 1..stretches.len() {
        let (before, after) = stretches.split_at_mut(i);
        let (one, next) = (&mut before[i - 1], &mut after[0]);
        let distance_s = bursts[next.members[0]].start_s - bursts[one.members[one.members.len() - 1]].start_s;
        if next.members.len() > 3
            && !next.pauses.contains(&0)
            && (distance_s / one.beat_s - 1.0).abs() < (2.0 * one.spread).max(0.05)
        {
            one.members.push(next.members.remove(0));
            for pause in &mut next.pauses {
                *pause -= 1;
            }
        }
    }
}

fn best_stretch(bursts: &[Burst], signal: Signal) -> Option<Stretch> {
    if bursts.len() > MANY {
        let guess_s = beat_in_parts(bursts, signal)?;
        let found = Starts::of(bursts, signal)?.fit(guess_s)?;
        // A beat that most of a long sequence does not keep is one of many that chance, or a loop of requests, keeps for a while.
        return (found.log_odds > LEAST_ODDS && 3 * found.members.len() > bursts.len()).then_some(found);
    }
    let starts = Starts::of(bursts, signal)?;
    starts.best_of(&starts.guesses_s())
}

/// The beat that parts of a long sequence keep, so that only one is tried on all of it; `None` if the parts agree on none.
fn beat_in_parts(bursts: &[Burst], signal: Signal) -> Option<f64> {
    let mut beats_s: Vec<f64> = Vec::new();
    for part in 0..N_PARTS {
        let from = (bursts.len() - PART) * part / (N_PARTS - 1);
        let part_of = &bursts[from..from + PART];
        let kept = Starts::of(part_of, signal).and_then(|starts| {
            let found = starts.best_of(&starts.likeliest_s())?;
            (found.log_odds > PART_ODDS && 2 * found.members.len() > PART).then_some(found.beat_s)
        });
        beats_s.extend(kept);
        // Half of them without a beat, and none with: the rest would have to be another run.
        if part == N_PARTS / 2 && beats_s.is_empty() {
            return None;
        }
    }
    let agreeing = |beat_s: f64| beats_s.iter().filter(|other| (*other / beat_s).ln().abs() < 0.1).count();
    let best_s = beats_s.iter().copied().max_by_key(|&beat_s| agreeing(beat_s))?;
    (agreeing(best_s) * 3 > N_PARTS).then_some(best_s)
}

/// Below these odds a stretch is not even considered.
const LEAST_ODDS: f64 = -3.0;
/// So many parts of so many bursts each stand for a long sequence.
const N_PARTS: usize = 8;
const PART: usize = 128;
/// A part keeps a beat from these odds on.
const PART_ODDS: f64 = 10.0;

/// Distances that vary less than this (standard deviation of their logarithm) are not called chance: half of the
/// sequences whose distances vary by one half (as a share of their mean) keep a beat, half do not.
const LEAST_CHANCE_WIDTH: f64 = 0.66;
/// Chance may produce a distance of any length, this often.
const ODD_DISTANCE: f64 = 0.05;
/// Distances "of any length" lie within so many e-foldings.
const E_FOLDINGS: f64 = 20.0;
/// A program keeps time no better than to this share of the beat.
const LEAST_SPREAD: f64 = 0.01;
/// Beyond this spread nobody would speak of a beat.
const MOST_SPREAD: f64 = 0.6;
/// Up to this spread a missed beat can be detected; beyond, a phase came late, by less than [`LATEST`] beats.
const LOOSE: f64 = 0.15;
/// Up to this one it can be detected if no more than one in [`SELDOM`] is missed: distances without any beat look like one of which many are missed. (Starts
/// that are 10 % off their places make distances with a spread of 0.14, of thirty phases anything from 0.11 to 0.18.)
const RATHER_LOOSE: f64 = 0.19;
const SELDOM: usize = 20;
const LATEST: f64 = 2.5;
/// Beyond this spread exceptions can hardly be distinguished from uneven distances.
const WIDE_SPREAD: f64 = 0.3;
/// From one phase to the next it is at least this share of the beat.
const SHORTEST_STEP: f64 = 0.3;
/// … unless the beat is kept loosely.
const SHORTEST_LOOSE_STEP: f64 = 0.02;
/// A phase is out of step this often, a burst foreign this often, and the program pauses this often.
const OUT_OF_STEP: f64 = 0.03;
const FOREIGN: f64 = 0.005;
const PAUSE: f64 = 0.02;
/// How often a beat is missed, before anything is known.
const MISSING: f64 = 0.01;
/// So many beats are missed for each that is kept, at most. (At 1 a third of the runs that miss half of their beats have none, at 1.5 one in twenty.)
const MOST_MISSING: f64 = 1.5;
/// More beats than this in a row are a pause, not missed.
const MOST_MISSED: f64 = 12.0;
/// A burst further than so many beats from all others is alone.
const ALONE: f64 = 4.5;
/// Foreign bursts between two of a rhythm's phases.
const MOST_FOREIGN: usize = 3;
/// More than sums of logarithms are rounded by.
const ROUNDING: f64 = 1e-6;

struct Starts<'a> {
    bursts: &'a [Burst],
    /// Sums of the log density of the first `i` distances under chance.
    chance: Vec<f64>,
    resolution_s: f64,
    /// The best paths that were asked for: guesses lead to the same few beats.
    known: RefCell<Vec<(Kept, Option<Path>)>>,
}

/// How a beat is thought to be kept.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Kept {
    beat_s: f64,
    spread: f64,
    /// How often it is missed.
    missing: f64,
    /// Whether so loosely that a missed beat cannot be distinguished from a late one.
    loosely: bool,
    /// From the first burst to the last.
    throughout: bool,
}

impl<'a> Starts<'a> {
    fn of(bursts: &'a [Burst], signal: Signal) -> Option<Self> {
        if bursts.windows(2).any(|pair| pair[1].start_s <= pair[0].start_s) {
            return None;
        }
        let logs: Vec<f64> = bursts.windows(2).map(|pair| (pair[1].start_s - pair[0].start_s).ln()).collect();
        let by_width = log_normal(&logs);
        let sum = |densities: &[f64]| densities.iter().sum::<f64>();
        let by_tail = pareto(&logs, bursts, signal.is_brief).filter(|by_tail| sum(by_tail) > sum(&by_width));
        let densities = by_tail.unwrap_or(by_width);
        let mut chance = Vec::with_capacity(bursts.len());
        chance.push(0.0);
        for (i, (density, log)) in densities.iter().zip(&logs).enumerate() {
            chance.push(chance[i] + density - log);
        }
        Some(Self { bursts, chance, resolution_s: signal.resolution_s, known: RefCell::default() })
    }

    /// The stretch that one of the guesses explains best.
    fn best_of(&self, guesses_s: &[f64]) -> Option<Stretch> {
        let mut best: Option<Stretch> = None;
        let mut tried: Vec<f64> = Vec::new();
        for &guess_s in guesses_s {
            if guess_s <= 0.0 || tried.iter().any(|other| (other / guess_s).ln().abs() < 0.02) {
                continue;
            }
            tried.push(guess_s);
            if let Some(found) = self.fit(guess_s)
                && best.as_ref().is_none_or(|best| found.log_odds > best.log_odds)
            {
                best = Some(found);
            }
        }
        best.filter(|best| best.log_odds > LEAST_ODDS)
    }

    /// The distances from each burst to the next, the shortest first.
    fn distances_in_order(&self) -> Vec<f64> {
        let mut distances: Vec<f64> =
            self.bursts.windows(2).map(|pair| pair[1].start_s - pair[0].start_s).collect();
        // They are positive, so in the order of their bits.
        distances.sort_unstable_by_key(|distance| distance.to_bits());
        distances
    }

    /// The middle distance and the commonest; none if there is no hope of a beat.
    fn likeliest_s(&self) -> Vec<f64> {
        let distances = self.distances_in_order();
        commonest(&distances)
            .map_or_else(Vec::new, |commonest_s| vec![distances[distances.len() / 2], commonest_s])
    }

    fn guesses_s(&self) -> Vec<f64> {
        let distances = self.distances_in_order();
        let n = distances.len();
        let mean = (self.bursts[n].start_s - self.bursts[0].start_s) / n as f64;
        let at = |share: f64| distances[((n - 1) as f64 * share).round() as usize];
        let mut guesses = vec![at(0.5), at(0.25), at(0.75), mean];
        guesses.extend([at(0.1), at(0.9), at(0.0)]);
        // With foreign bursts between them, phases are every second start.
        if n >= 4 {
            let mut pairs: Vec<f64> =
                self.bursts.windows(3).map(|three| three[2].start_s - three[0].start_s).collect();
            pairs.sort_unstable_by(f64::total_cmp);
            guesses.push(pairs[pairs.len() / 2]);
        }
        guesses
    }

    fn least_spread(&self, beat_s: f64) -> f64 {
        // Two starts, each anywhere within the resolution: the standard deviation of their difference is w/√6.
        LEAST_SPREAD.hypot(self.resolution_s / beat_s / 6f64.sqrt())
    }

    /// The stretch that a beat of about `guess_s` explains best.
    fn fit(&self, guess_s: f64) -> Option<Stretch> {
        let found = self.fit_within(guess_s, LOOSE)?;
        if found.spread <= LOOSE {
            return Some(found);
        }
        let with_missed = self.fit_within(guess_s, RATHER_LOOSE).filter(|other| {
            other.missed > 0
                && other.missed * SELDOM <= other.members.len() + other.missed
                && other.log_odds > found.log_odds
        });
        with_missed.or(Some(found))
    }

    /// The same, where a missed beat can be distinguished from a late one up to a spread of `loose`.
    fn fit_within(&self, guess_s: f64, loose: f64) -> Option<Stretch> {
        let mut beat_s = guess_s;
        let mut spread = self.first_spread(beat_s);
        let mut missing = MISSING;
        let mut path = None;
        let best_path = |beat_s, spread, missing, throughout| {
            self.best_path(Kept { beat_s, spread, missing, loosely: spread > loose, throughout })
        };
        // The parts of a very long sequence have settled the beat.
        let is_long = self.bursts.len() > LONG;
        for _ in 0..if is_long { 1 } else { 3 } {
            let found = best_path(beat_s, spread, missing, false)?;
            let (before_s, before) = (beat_s, spread);
            beat_s = found.beat_s;
            spread = found.spread.max(self.least_spread(beat_s));
            // How many are missing can be learned only where they can be told.
            missing = if spread > loose {
                MISSING
            } else {
                ((found.missed as f64 + 0.5) / (found.steps as f64 + found.missed as f64 + 1.0))
                    .clamp(0.01, 0.5)
            };
            let settled = (beat_s / before_s - 1.0).abs() < 1e-3 && (spread / before).ln().abs() < 0.05;
            path = Some(found);
            if settled {
                break;
            }
        }
        let mut path = path?;
        let n_all = self.bursts.len();
        // To leave out what comes before or after costs the choice of where: an uneven beginning alone is not worth it.
        let end_price = 2.0 * (n_all as f64).ln() + 3.0;
        let n_cut = [path.members[0] > 0, path.members[path.members.len() - 1] + 1 < n_all];
        let ends_price = n_cut.iter().filter(|cut| **cut).count() as f64 * end_price;
        path.score -= ends_price;
        if ends_price > 0.0
            && !is_long
            && let Some(whole) = best_path(beat_s, spread, missing, true)
            && let spread_of_whole = whole.spread.max(self.least_spread(whole.beat_s))
            && let Some(whole) = best_path(whole.beat_s, spread_of_whole, missing, true)
            && whole.score > path.score
        {
            beat_s = whole.beat_s;
            spread = whole.spread.max(self.least_spread(beat_s));
            path = whole;
        }
        path.trim(self.bursts);
        let n = path.members.len();
        if n < 3
            || (path.spread > loose && path.missed > 0)
            || (path.spread > 0.2 && !path.pauses.is_empty())
            || path.missed as f64 > MOST_MISSING * n as f64
            || spread > MOST_SPREAD
            || path.pauses.len() * 3 > n
        {
            return None;
        }
        // The beats of pauses were counted by a guess of the beat.
        let start_s = |member: usize| self.bursts[path.members[member]].start_s;
        let missed_in = |&last: &usize| {
            (((start_s(last + 1) - start_s(last)) / beat_s * HARDLY_MORE).round() as usize).saturating_sub(1)
        };
        let missed_in_pauses = path.pauses.iter().map(missed_in).sum();
        // The beat and its spread are chosen by these very distances.
        let price = 0.5 * (n as f64).ln() + 1.0;
        Some(Stretch {
            beat_s,
            spread: path.spread,
            missed: path.missed,
            missed_in_pauses,
            pauses: path.pauses,
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
        width.min(0.5).max(self.least_spread(beat_s))
    }

    /// Whether a burst between `from` and `to`, `beats` later, stands where a beat is due: then that beat is not missed, and the burst not foreign.
    fn is_met(&self, beat_s: f64, beats: f64, from: usize, to: usize) -> bool {
        self.bursts[from + 1..to].iter().any(|burst| {
            let at = (burst.start_s - self.bursts[from].start_s) / beat_s;
            let due = at.round();
            (1.0..beats).contains(&due) && (at - due).abs() < MET
        })
    }

    /// The best explanation by a beat that is kept so.
    fn best_path(&self, kept: Kept) -> Option<Path> {
        // Of a long sequence one guess is followed, and what it leads to need not be kept.
        if self.bursts.len() > MANY {
            return self.walk(kept);
        }
        if let Some((_, path)) = self.known.borrow().iter().find(|(known, _)| *known == kept) {
            return path.clone();
        }
        let path = self.walk(kept);
        self.known.borrow_mut().push((kept, path.clone()));
        path
    }

    /// Dynamic programming over the starts: the best explanation that ends with burst `i` on the beat.
    fn walk(&self, kept: Kept) -> Option<Path> {
        let Kept { beat_s, spread, missing, loosely: is_loose, throughout: whole } = kept;
        let n = self.bursts.len();
        // The wider the beat is kept, the less a missed one, a foreign burst or a pause can be told from an uneven one.
        let told = (1.0 - (spread / WIDE_SPREAD).powi(2)).max(0.03);
        let (ln_missing, ln_there) = ((missing * told).ln(), (1.0 - missing * told).ln());
        let ln_beat = beat_s.ln();
        let ln_foreign = (FOREIGN * told).ln() - ln_beat;
        let ln_pause = (PAUSE * told).ln();
        let out_of_step = OUT_OF_STEP * told.max(0.1);
        let one_beat = OneBeat::of(spread, is_loose, out_of_step);
        let ln_of_one = ((1.0 - OUT_OF_STEP) / (spread * SQRT_TAU)).ln();
        // By the number of beats: the density at its highest, and the price of the missed ones.
        let ln_of_beats: [f64; MOST_MISSED as usize + 1] = std::array::from_fn(|beats| {
            let beats = beats as f64;
            ln_of_one - 0.5 * beats.ln() + (beats - 1.0) * ln_missing
        });
        let ln_most = (one_beat.most() + out_of_step).ln().max(ln_pause - E_FOLDINGS.ln()) - ln_beat;
        // A pause is longer than this, and so its distance is no likelier.
        let shortest_pause = if is_loose { LATEST } else { 1.5 };
        let ln_likeliest_pause = ln_pause - (shortest_pause * E_FOLDINGS).ln() - ln_beat + ROUNDING;
        let mut steps: Vec<Step> = Vec::with_capacity(n);
        let mut end = 0;
        for i in 0..n {
            let fresh = if whole && i > 0 { f64::NEG_INFINITY } else { 0.0 };
            let mut best = Step { score: fresh, from: i, beats: 0.0 };
            // What lasts longer than a beat is no phase of it.
            if self.bursts[i].duration_s() > beat_s * HARDLY_MORE {
                steps.push(Step { score: f64::NEG_INFINITY, ..best });
                continue;
            }
            for back in 1..=(1 + MOST_FOREIGN).min(i) {
                let j = i - back;
                let distance = (self.bursts[i].start_s - self.bursts[j].start_s) / beat_s * HARDLY_MORE;
                if distance < if is_loose { SHORTEST_LOOSE_STEP } else { SHORTEST_STEP } {
                    continue;
                }
                let fixed =
                    steps[j].score + (back - 1) as f64 * ln_foreign - (self.chance[i] - self.chance[j]);
                // Not even the likeliest distance would make this the best way here.
                if fixed + ln_most <= best.score {
                    if distance > MOST_MISSED {
                        break;
                    }
                    continue;
                }
                // Where the beat is kept loosely, a long distance is a late phase, not a missed one.
                let beats = if is_loose && distance < LATEST { 1.0 } else { distance.round().max(1.0) };
                if beats <= if is_loose { 1.0 } else { MOST_MISSED }
                    && (back == 1 || beats == 1.0 || !self.is_met(beat_s, beats, j, i))
                {
                    let ln_density = if beats == 1.0 {
                        one_beat.ln_density(distance)
                    } else {
                        let z = (distance - beats) / spread;
                        ln_of_beats[beats as usize] - 0.5 * z * z / beats
                    };
                    let score = fixed + ln_density.max(LN_NEVER) + ln_there - ln_beat;
                    if score > best.score {
                        best = Step { score, from: j, beats };
                    }
                }
                if distance > shortest_pause && fixed + ln_likeliest_pause > best.score {
                    let score = fixed + ln_pause - (distance * E_FOLDINGS).ln() - ln_beat;
                    if score > best.score {
                        best = Step { score, from: j, beats: -beats };
                    }
                }
                // Only what is close enough to a beat is worth looking past.
                if distance > MOST_MISSED {
                    break;
                }
            }
            if whole || best.score > steps.get(end).map_or(f64::NEG_INFINITY, |step| step.score) {
                end = i;
            }
            steps.push(best);
        }
        Path::back_from(end, &steps, self.bursts)
    }
}

/// So close to its place, as a share of the beat, a burst is the beat.
const MET: f64 = 0.4497;

/// Log densities (of the logarithm) of values given as logarithms: log-normal around their median.
fn log_normal(logs: &[f64]) -> Vec<f64> {
    let (middle, width) = middle_and_width(logs);
    let width = width.clamp(LEAST_CHANCE_WIDTH, 2.5);
    let density = |log: &f64| {
        let z = (log - middle) / width;
        (1.0 - ODD_DISTANCE) * (-0.5 * z * z).exp() / (width * SQRT_TAU) + ODD_DISTANCE / E_FOLDINGS
    };
    logs.iter().map(|log| density(log).ln()).collect()
}

/// The same for Pareto's distribution: many waits of about the shortest length, and a heavy tail.
///
/// `None` if the tail is not heavy.
fn pareto(logs: &[f64], bursts: &[Burst], is_brief: bool) -> Option<Vec<f64>> {
    let least = logs.iter().copied().fold(f64::INFINITY, f64::min);
    let mean = logs.iter().map(|log| log - least).sum::<f64>() / logs.len() as f64;
    let exponent = mean.max(1e-9).recip().max(0.3);
    let density = |log: &f64| {
        (1.0 - ODD_DISTANCE) * exponent * (-exponent * (log - least)).exp() + ODD_DISTANCE / E_FOLDINGS
    };
    let (middle, width) = middle_and_width(logs);
    // One long wait alone is a pause, or beats that were missed.
    let [_, second] = two_largest(logs);
    let is_long = || second - middle > LONG_TAIL.ln() && (is_brief || has_long_waits(bursts));
    let crowds = || is_brief && width > LEAST_CROWD_WIDTH && is_crowded(logs, least, middle);
    let is_heavy = exponent < MOST_PARETO && (is_long() || crowds());
    is_heavy.then(|| logs.iter().map(|log| density(log).ln()).collect())
}

/// Whether two of the waits from the end of a burst to the next one are far longer than usual. Distances of long phases crowd at the shortest, as Pareto's do,
/// whatever the waits between them are.
fn has_long_waits(bursts: &[Burst]) -> bool {
    let waits_s: Vec<f64> = bursts.windows(2).map(|pair| pair[1].start_s - pair[0].end_s).collect();
    let [_, second_s] = two_largest(&waits_s);
    second_s > LONG_WAITS * usual(waits_s)
}

/// Whether values crowd at the least of them: it is not much further from their middle than the highest tenth. (Of Pareto's the distances to the middle are as 0.4 to
/// 1, of those of a normal distribution as 1.6 to 1 where there are thirty.)
fn is_crowded(logs: &[f64], least: f64, middle: f64) -> bool {
    let mut logs = logs.to_vec();
    let ninth_tenth = (logs.len() - 1) * 9 / 10;
    let (_, &mut high, _) = logs.select_nth_unstable_by(ninth_tenth, f64::total_cmp);
    middle - least < MOST_CROWDED * (high - middle)
}

/// The largest of the values first.
fn two_largest(values: &[f64]) -> [f64; 2] {
    values.iter().fold([f64::NEG_INFINITY; 2], |[first, second], &value| {
        if value > first { [value, first] } else { [first, second.max(value)] }
    })
}

/// Waits whose tail is lighter than this are not heavy-tailed.
const MOST_PARETO: f64 = 4.0;
/// … and neither are those of which no two are this many times the usual, unless they are waits between short phases that crowd at the shortest. (At 1.6 one in thirty of the runs whose compute phases vary, σ/μ < 1,
/// is no longer believed; at 2.0 law 10 holds for 97 in 100 of Pareto's waits.)
const LONG_TAIL: f64 = 1.85;
/// Between long phases two waits are so many times the usual one where the tail is heavy. (Of twenty waits without memory the second is 3.7 times the middle one, of normal
/// ones with σ/μ = 0.9 twice. From 3 to 6 one in a hundred more of the runs whose compute phases vary is believed, and one in a thousand more of those without a beat.)
const LONG_WAITS: f64 = 3.4997;
/// Waits vary at least by so much (standard deviation of their logarithm) where they crowd at the shortest: less is the jitter of a beat. (At 0.2 one in 2400 regular
/// runs with a jitter of a tenth is missing a phase, at 0.22 none of 4800.)
const LEAST_CROWD_WIDTH: f64 = 0.2203;
/// How far the shortest wait is from the middle at most, over how far the ninth tenth is. (At 1.0 law 10 holds for 98.9 in 100 of Pareto's
/// waits, at 1.5 for 99.2, at any for 99.4; at 1.6 and any width one in 450 regular runs is missing a phase.)
const MOST_CROWDED: f64 = 1.4997;

/// The distribution of distances of one beat: normal where it is kept well; where it is not, a Gamma distribution of the same
/// width, for a distance can grow without bound but not shrink below zero.
struct OneBeat {
    spread: f64,
    /// Shape of the Gamma distribution, and the logarithm of what normalises it.
    gamma: Option<(f64, f64)>,
    /// The density of a phase that is out of step, at any distance, and its logarithm.
    out_of_step: f64,
    ln_out_of_step: f64,
}

impl OneBeat {
    fn of(spread: f64, is_loose: bool, out_of_step: f64) -> Self {
        let gamma = is_loose.then(|| {
            let shape = spread.powi(-2);
            (shape, shape * shape.ln() - iotide_num::ln_gamma(shape))
        });
        Self { spread, gamma, out_of_step, ln_out_of_step: out_of_step.ln() }
    }

    /// The highest density there is.
    fn most(&self) -> f64 {
        match self.gamma {
            Some((shape, ln_norm)) => {
                let distance = (shape - 1.0).max(1e-9) / shape;
                (ln_norm + (shape - 1.0) * distance.ln() - shape * distance).exp()
            }
            None => 1.0 / (self.spread * SQRT_TAU),
        }
    }

    /// The logarithm of the density, in step or not.
    fn ln_density(&self, distance: f64) -> f64 {
        let in_step = match self.gamma {
            Some((shape, ln_norm)) => (ln_norm + (shape - 1.0) * distance.ln() - shape * distance).exp(),
            None => {
                let z = (distance - 1.0) / self.spread;
                if z.abs() > NEVER_IN_STEP {
                    return self.ln_out_of_step;
                }
                (-0.5 * z * z).exp() / (self.spread * SQRT_TAU)
            }
        };
        ((1.0 - OUT_OF_STEP) * in_step + self.out_of_step).ln()
    }
}

/// Further from the beat than so many standard deviations (the density is 10⁻¹⁸ of the highest) a phase is out of step.
const NEVER_IN_STEP: f64 = 9.0;
/// No density is less: the logarithm of 10⁻³⁰⁰.
const LN_NEVER: f64 = -690.775_527_898_213_7;

/// How burst `i` is reached: from which one, over how many beats (negative: a pause); from itself if it is the first.
#[derive(Clone, Copy)]
struct Step {
    score: f64,
    from: usize,
    beats: f64,
}

#[derive(Clone)]
struct Path {
    members: Vec<usize>,
    score: f64,
    beat_s: f64,
    spread: f64,
    /// Steps that are no pauses.
    steps: usize,
    missed: usize,
    pauses: Vec<usize>,
}

impl Path {
    /// Leaves out a first or last burst that a pause, or many missed beats, set apart from all others: one alone keeps no beat.
    fn trim(&mut self, bursts: &[Burst]) {
        let apart = |one: usize, next: usize, beat_s: f64| {
            let beats = (bursts[next].start_s - bursts[one].start_s) / beat_s;
            (beats > ALONE).then_some((beats.round() as usize).saturating_sub(1))
        };
        let n = self.members.len();
        if n > 3
            && let Some(missed) = apart(self.members[n - 2], self.members[n - 1], self.beat_s)
        {
            self.members.pop();
            self.forget(missed, n - 2);
        }
        let n = self.members.len();
        if n > 3
            && let Some(missed) = apart(self.members[0], self.members[1], self.beat_s)
        {
            self.members.remove(0);
            self.forget(missed, 0);
            for pause in &mut self.pauses {
                *pause -= 1;
            }
        }
    }

    /// Takes back the beats missed after member `at`.
    fn forget(&mut self, missed: usize, at: usize) {
        match self.pauses.iter().position(|&pause| pause == at) {
            Some(pause) => {
                self.pauses.remove(pause);
            }
            None => self.missed = self.missed.saturating_sub(missed),
        }
    }

    fn back_from(end: usize, steps: &[Step], bursts: &[Burst]) -> Option<Self> {
        let mut members = vec![end];
        let (mut time_s, mut beats, mut missed) = (0.0, 0.0, 0);
        let mut pauses = Vec::new();
        let mut distances: Vec<(f64, f64)> = Vec::new();
        let mut at = end;
        while steps[at].from != at {
            let step = steps[at];
            let distance_s = bursts[at].start_s - bursts[step.from].start_s;
            if step.beats > 0.0 {
                time_s += distance_s;
                beats += step.beats;
                missed += step.beats as usize - 1;
                distances.push((distance_s, step.beats));
            } else {
                pauses.push(members.len());
            }
            at = step.from;
            members.push(at);
        }
        if distances.len() < 2 || !steps[end].score.is_finite() {
            return None;
        }
        members.reverse();
        // Counted from the end so far.
        let n = members.len();
        let pauses = pauses.into_iter().rev().map(|from_end: usize| n - 1 - from_end).collect();
        let mean_s: f64 = time_s / beats;
        // Phases out of step (one late, the next on time again) do not widen the rest.
        let mut deviations: Vec<f64> = distances
            .iter()
            .map(|(distance_s, beats)| (distance_s / mean_s - beats) / beats.sqrt())
            .collect();
        let spread = trimmed_spread(&mut deviations);
        Some(Self {
            members,
            score: steps[end].score,
            beat_s: mean_s,
            spread,
            steps: distances.len(),
            missed,
            pauses,
        })
    }
}

/// Standard deviation around 0 without the few values that stand out from the rest.
fn trimmed_spread(deviations: &mut [f64]) -> f64 {
    let n = deviations.len();
    let by_size = |a: &f64, b: &f64| a.abs().total_cmp(&b.abs());
    let typical = 1.4826 * deviations.select_nth_unstable_by((n - 1) / 2, by_size).1.abs();
    let limit = (5.0 * typical).max(3.0 * LEAST_SPREAD);
    let n_apart = deviations.iter().filter(|d| d.abs() > limit).count();
    // More than a third are not few: with four distances, the two of one late phase are half of what is known.
    let limit = if 3 * n_apart > n { f64::INFINITY } else { limit };
    let kept = deviations.iter().filter(|d| d.abs() <= limit);
    let (n_kept, squares) = kept.fold((0.0, 0.0), |(n, squares), d| (n + 1.0, squares + d * d));
    let freedom: f64 = if n > 2 { n_kept - 1.0 } else { n_kept };
    (squares / freedom.max(1.0)).sqrt()
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

/// The commonest of distances, given in order, to within a sixth; `None` if they are so different that no beat can be among them:
/// fewer than [`LEAST_COMMON`] are alike, and they do not scatter around a middle either.
fn commonest(sorted: &[f64]) -> Option<f64> {
    let n = sorted.len();
    let mut best = (0, 0);
    let mut to = 0;
    for from in 0..n {
        while to < n && sorted[to] <= sorted[from] * ALIKE {
            to += 1;
        }
        if to - from > best.1 - best.0 {
            best = (from, to);
        }
    }
    let at = |share: f64| sorted[((n - 1) as f64 * share).round() as usize];
    let scatter = (at(0.75) / at(0.25)).ln() / QUARTILES_APART;
    ((best.1 - best.0) as f64 > LEAST_COMMON * n as f64 || scatter < MOST_SPREAD)
        .then(|| sorted[(best.0 + best.1) / 2])
}

/// Distances that differ by less than this factor are alike.
const ALIKE: f64 = 1.35;
/// With fewer alike than this share there is no beat, foreign bursts and missed beats or not.
const LEAST_COMMON: f64 = 0.3;
/// The quartiles of a normal distribution are so many standard deviations apart.
const QUARTILES_APART: f64 = 1.349;
/// Longer sequences are not tried with every guess: a beat that their parts do not keep, the whole does not keep either.
const MANY: usize = 600;
/// … and those, once.
pub(crate) const LONG: usize = 50_000;

/// √(2π)
const SQRT_TAU: f64 = 2.506_628_274_631_000_2;

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_num::SplitMix64;

    fn bursts_at(starts_s: &[f64]) -> Vec<Burst> {
        starts_s.iter().map(|&start_s| Burst { start_s, end_s: start_s + 0.05, bytes: 1e6 }).collect()
    }

    #[test]
    fn a_beat_is_not_missed_where_a_burst_stands() {
        for off in [0.02, 0.04, 0.06, 0.08] {
            let found = explain(&bursts_at(&[0.0, 1.0, 2.0 + off, 3.0, 4.001]), Signal::default());
            assert_eq!(found.len(), 1, "{off}: {found:?}");
            assert_eq!((found[0].members.len(), found[0].missed), (5, 0), "{off}: {found:?}");
        }
    }

    #[test]
    fn one_beat_that_is_missed_is_noticed_among_starts_that_are_a_tenth_off_their_places() {
        let mut random = SplitMix64::new(7);
        let (mut n_noticed, n_tried) = (0, 300);
        for _ in 0..n_tried {
            let mut starts_s: Vec<f64> =
                (0..30).map(|i| f64::from(i) + (0.1 * random.normal()).clamp(-0.2, 0.2)).collect();
            starts_s.remove(5 + (random.next() % 20) as usize);
            let found = explain(&bursts_at(&starts_s), Signal::default());
            n_noticed +=
                usize::from(found.len() == 1 && found[0].missed == 1 && found[0].members.len() == 29);
        }
        // Not always: some happen to be as uneven as if there were no beat to miss.
        assert!(n_noticed * 10 >= n_tried * 9, "{n_noticed} of {n_tried}");
    }

    /// How many of 200 sequences of phases of this length, with waits that are drawn by `draw`, are explained by a beat from end to end.
    fn n_with_a_beat(signal: Signal, length_s: f64, draw: impl Fn(&mut SplitMix64) -> f64) -> usize {
        let mut random = SplitMix64::new(11);
        let keeps_a_beat = |random: &mut SplitMix64| {
            let mut end_s = 0.0;
            let mut burst = || {
                let start_s = end_s + draw(random);
                end_s = start_s + length_s;
                Burst { start_s, end_s, bytes: 1e6 }
            };
            let bursts: Vec<Burst> = (0..25).map(|_| burst()).collect();
            explain(&bursts, signal)
                .iter()
                .any(|stretch| stretch.members.len() > 20 && stretch.log_odds > 2.0)
        };
        (0..200).filter(|_| keeps_a_beat(&mut random)).count()
    }

    #[test]
    fn between_short_phases_waits_that_crowd_at_the_shortest_are_no_beat() {
        let brief = Signal { is_brief: true, ..Signal::default() };
        let pareto = |random: &mut SplitMix64| 10.0 * (1.0 - random.unit()).powf(-1.0 / 1.9);
        let (n_brief, n_others) =
            (n_with_a_beat(brief, 0.05, pareto), n_with_a_beat(Signal::default(), 0.05, pareto));
        assert!(2 * n_brief < n_others, "{n_brief} and {n_others}");
        // The jitter of a beat is not taken for that.
        let jitter = |random: &mut SplitMix64| 10.0 * (1.0 + 0.14 * random.normal()).max(0.3);
        assert_eq!(n_with_a_beat(brief, 0.05, jitter), 200);
    }

    #[test]
    fn between_long_phases_waits_are_without_a_beat_if_some_are_very_long_and_not_for_varying() {
        let varying = |random: &mut SplitMix64| loop {
            let wait_s = 11.0 + 9.0 * random.normal();
            if wait_s > 0.0 {
                return wait_s;
            }
        };
        let without_memory = |random: &mut SplitMix64| -14.0 * (1.0 - random.unit()).ln();
        let n_of = |draw: &dyn Fn(&mut SplitMix64) -> f64| n_with_a_beat(Signal::default(), 10.0, draw);
        let (n_varying, n_without) = (n_of(&varying), n_of(&without_memory));
        assert!(n_varying > 190 && n_without < 30, "{n_varying} and {n_without}");
    }
}
