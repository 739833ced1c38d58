//! Our own method. Three laws hold for the load of a server during runs of one application:
//!
//! 1. *Foreign load only adds.* Of several samples at the same moment of the run, the lower ones are nearer the truth.
//! 2. *Contention only delays.* It makes bursts longer; what lies between them, the computing, it leaves alone.
//! 3. *The volume of a burst stays.* A burst that has to share takes longer, and moves what it has to move.
//!
//! So a sample is aligned to a template by a delay that may change within bursts and hardly elsewhere, at a cost that
//! forgives what is above the template more than what is below; the template is a low quantile of the aligned samples, and
//! both take turns. Then the bursts are timed: by the pauses between them, on which the samples agree, and by their volume.

use iotide_num::{mean_of_steps, quantile, rebin};

use super::prepare::{Prepared, Ready};
use super::{Alignment, ConsensusConfig, Drawn, Extent, Rejection, SignatureConfig};

/// Draws the signature.
pub(super) fn draw(prepared: &Prepared, config: &SignatureConfig) -> Drawn {
    let settings = &config.consensus;
    let series: Vec<Series> =
        prepared.samples.iter().map(|ready| Series::of(ready, prepared.native_s)).collect();
    let mut rejected = Vec::new();
    let mut members: Vec<usize> = (0..series.len()).collect();
    let (mut template, mut delays) = agree(&series, &members, settings, prepared.native_s);
    // Once more without those that do not fit, if enough are left to outvote one.
    let unlike = unlike(&template, &series, &members, &delays);
    if !unlike.is_empty() && members.len() - unlike.len() >= config.outliers.keep {
        members.retain(|member| unlike.iter().all(|(other, _)| other != member));
        rejected = unlike;
        (template, delays) = agree(&series, &members, settings, prepared.native_s);
    }
    let used: Vec<&Series> = members.iter().map(|&member| &series[member]).collect();
    let bursts = template.bursts(settings.burst_share);
    let timed = Timing::of(&bursts, &used, &delays, settings);
    timed.draw(&used, &members, prepared, rejected)
}

/// A sample on the common grid, as the run's time goes.
struct Series {
    /// NaN where nothing is known; one value for each point.
    values: Vec<f64>,
    /// What lies beyond the ends: silence around a whole run, nothing known around a part.
    beyond: f64,
    /// How many times longer its bursts are than those of the fewest nodes.
    scale: f64,
}

impl Series {
    fn of(ready: &Ready, native_s: f64) -> Self {
        let lead = (ready.lead_s / native_s).round() as usize;
        let mut values = vec![f64::NAN; lead];
        values.extend(rebin(&ready.sample.bandwidth_bps, native_s / ready.sample.interval_s));
        let beyond = if ready.sample.extent == Extent::Whole { 0.0 } else { f64::NAN };
        Self { values, beyond, scale: ready.scale }
    }

    fn at(&self, place: isize) -> f64 {
        usize::try_from(place).ok().and_then(|i| self.values.get(i)).copied().unwrap_or(self.beyond)
    }

    fn known(&self) -> impl Iterator<Item = f64> + '_ {
        self.values.iter().copied().filter(|value| !value.is_nan())
    }

    fn volume(&self) -> f64 {
        self.known().sum::<f64>() / self.scale
    }
}

/// What the aligned samples have in common so far.
struct Template {
    values: Vec<f64>,
    /// How high a burst is.
    height: f64,
    /// What is there without bursts.
    floor: f64,
}

impl Template {
    fn new(values: Vec<f64>) -> Self {
        let known: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
        let floor = quantile(&known, 0.25).unwrap_or(0.0);
        let (sum, squares) = known
            .iter()
            .map(|value| (value - floor).max(0.0))
            .fold((0.0, 0.0), |(sum, squares), value| (sum + value, squares + value * value));
        let height = if sum > 0.0 { squares / sum } else { 0.0 };
        Self { values, height, floor }
    }

    /// Stretches of points, half open, where it stands out.
    fn bursts(&self, share: f64) -> Vec<(usize, usize)> {
        let threshold = self.floor + share * self.height;
        let mut bursts = Vec::new();
        let mut start = None;
        for (i, &value) in self.values.iter().chain(&[f64::NAN]).enumerate() {
            match (start, value > threshold) {
                (None, true) => start = Some(i),
                (Some(from), false) => {
                    bursts.push((from, i));
                    start = None;
                }
                _ => {}
            }
        }
        bursts
    }
}

/// Lets template and alignment take turns until they agree.
fn agree(
    series: &[Series],
    members: &[usize],
    settings: &ConsensusConfig,
    native_s: f64,
) -> (Template, Vec<Vec<isize>>) {
    let reference = members
        .iter()
        .map(|&member| &series[member])
        .min_by(|a, b| {
            let key = |s: &Series| s.volume() * s.values.len() as f64;
            key(a).total_cmp(&key(b))
        })
        .expect("there are samples");
    let mut template = Template::new(reference.values.clone());
    let mut delays = Vec::new();
    for _ in 0..settings.rounds.max(1) {
        delays = members
            .iter()
            .map(|&member| align(&template, &series[member], settings, native_s))
            .collect::<Vec<_>>();
        let mut column = Vec::with_capacity(members.len());
        let values: Vec<f64> = (0..template.values.len())
            .map(|i| {
                column.clear();
                column.extend(
                    members
                        .iter()
                        .zip(&delays)
                        .map(|(&member, delay)| series[member].at(i as isize + delay[i]))
                        .filter(|value| !value.is_nan()),
                );
                quantile(&column, settings.quantile).unwrap_or(f64::NAN)
            })
            .collect();
        let next = Template::new(values);
        let change: f64 = next
            .values
            .iter()
            .zip(&template.values)
            .map(|(a, b)| (a - b).abs())
            .filter(|x| !x.is_nan())
            .sum();
        let whole: f64 = next.values.iter().filter(|x| !x.is_nan()).sum();
        template = next;
        if change <= 0.01 * whole {
            break;
        }
    }
    (template, delays)
}

/// How dear it is to change the delay by one point: within a burst, and between bursts.
const CHANGE_IN_BURST: f32 = 0.15;
const CHANGE_IN_PAUSE: f32 = 1.0;
/// What is above the template by more than this, in heights, is no worse for it.
const MOST_ABOVE: f32 = 1.0;

/// Returns by how many points the sample lags behind the template at each of its points.
fn align(template: &Template, series: &Series, settings: &ConsensusConfig, native_s: f64) -> Vec<isize> {
    let n = template.values.len();
    let slack = (settings.slack_s / native_s).ceil() as usize;
    let longer = series.values.len().saturating_sub(n);
    let early = slack / 2;
    let width = early + slack + longer + 1;
    let scale = if template.height > 0.0 { 1.0 / template.height } else { 1.0 };
    let seen: Vec<f32> = (0..n + width)
        .map(|i| ((series.at(i as isize - early as isize) - template.floor) * scale) as f32)
        .collect();
    let (below, above) = (settings.below as f32, settings.above as f32);
    let threshold = settings.burst_share as f32;
    const FAR: f32 = 1e30;
    // Padded by one on both sides, so that every state has two neighbours.
    let mut costs = vec![FAR; width + 2];
    let mut next = vec![FAR; width + 2];
    for (w, cost) in costs[1..=width].iter_mut().enumerate() {
        *cost = 0.02 * (w as f32 - early as f32).abs();
    }
    let mut steps = vec![0i8; n * width];
    let level = |i: usize| ((template.values[i] - template.floor) * scale) as f32;
    for i in 0..n {
        let own = level(i);
        let in_burst = (i.saturating_sub(1)..(i + 2).min(n)).any(|k| level(k) > threshold);
        let change = if in_burst { CHANGE_IN_BURST } else { CHANGE_IN_PAUSE };
        let row = &mut steps[i * width..(i + 1) * width];
        let seen = &seen[i..i + width];
        for w in 0..width {
            let (from_less, stay, from_more) = (costs[w] + change, costs[w + 1], costs[w + 2] + change);
            let mut best = stay;
            let mut step = 0i8;
            if from_less < best {
                best = from_less;
                step = 1;
            }
            if from_more < best {
                best = from_more;
                step = -1;
            }
            let gap = seen[w] - own;
            // Of a point that is not known, `max` and `min` make 0: it speaks neither for nor against.
            let miss = below * (-gap).max(0.0) + above * gap.max(0.0).min(MOST_ABOVE);
            next[w + 1] = best + miss;
            row[w] = step;
        }
        std::mem::swap(&mut costs, &mut next);
    }
    let mut w = (0..width).min_by(|&a, &b| costs[a + 1].total_cmp(&costs[b + 1])).unwrap_or(early);
    let mut delays = vec![0; n];
    for i in (0..n).rev() {
        delays[i] = w as isize - early as isize;
        w = (w as isize - isize::from(steps[i * width + w])) as usize;
    }
    delays
}

/// The members whose misfit is far from that of the others.
fn unlike(
    template: &Template,
    series: &[Series],
    members: &[usize],
    delays: &[Vec<isize>],
) -> Vec<(usize, Rejection)> {
    const MOST: f64 = 4.0;
    let misfits: Vec<f64> = members
        .iter()
        .zip(delays)
        .map(|(&member, delays)| {
            let gaps: Vec<f64> = delays
                .iter()
                .enumerate()
                .map(|(i, delay)| (template.values[i] - series[member].at(i as isize + delay)).max(0.0))
                .filter(|gap| !gap.is_nan())
                .collect();
            iotide_num::mean(&gaps)
        })
        .collect();
    // Never stricter than a twentieth of a burst's height: among good samples the median misfit is next to nothing.
    let usual = quantile(&misfits, 0.5).unwrap_or(0.0).max(0.02 * template.height);
    members
        .iter()
        .zip(misfits)
        .filter(|(_, misfit)| *misfit > MOST * usual)
        .map(|(&member, misfit)| (member, Rejection::Unlike { misfit_ratio: misfit / usual }))
        .collect()
}

/// When the bursts are, in the signature and in each sample; in points of the common grid.
struct Timing {
    /// Of the signature: start and end of each burst.
    edges: Vec<(f64, f64)>,
    /// Of each sample: the same.
    seen: Vec<Vec<(f64, f64)>>,
    /// How long the signature is.
    length: f64,
    background: f64,
}

impl Timing {
    fn of(
        bursts: &[(usize, usize)],
        used: &[&Series],
        delays: &[Vec<isize>],
        _settings: &ConsensusConfig,
    ) -> Self {
        let seen: Vec<Vec<(f64, f64)>> = used
            .iter()
            .zip(delays)
            .map(|(_series, delays)| {
                bursts
                    .iter()
                    .map(|&(start, end)| {
                        let lag = |i: usize| delays[i.min(delays.len() - 1)] as f64;
                        (start as f64 + lag(start), end as f64 + lag(end - 1))
                    })
                    .collect()
            })
            .collect();
        let across = |of: &dyn Fn(&[(f64, f64)]) -> f64, q: f64| {
            quantile(&seen.iter().map(|edges| of(edges)).collect::<Vec<_>>(), q).unwrap_or(0.0)
        };
        let mut edges: Vec<(f64, f64)> = Vec::new();
        for k in 0..bursts.len() {
            let start = match edges.last() {
                None => across(&|edges| edges[k].0, 0.1),
                Some((_, end)) => end + across(&|edges| edges[k].0 - edges[k - 1].1, 0.5),
            };
            let width = across(&|edges| edges[k].1 - edges[k].0, 0.25).max(0.5);
            edges.push((start, start + width));
        }
        let last = edges.last().map_or(0.0, |edge| edge.1);
        let tail = used
            .iter()
            .zip(&seen)
            .map(|(series, edges)| series.values.len() as f64 - edges.last().map_or(0.0, |edge| edge.1))
            .fold(f64::INFINITY, f64::min)
            .max(0.0);
        Self { edges, seen, length: last + tail, background: 0.0 }
    }

    /// Where a place in the signature lies in a sample: bursts on bursts, pauses on pauses.
    fn place_in(&self, sample: usize, place: f64) -> f64 {
        let seen = &self.seen[sample];
        let mut before = (0.0, None);
        for (own, there) in self.edges.iter().zip(seen) {
            for (own, there) in [(own.0, there.0), (own.1, there.1)] {
                if place < own {
                    return match before {
                        (_, None) => place + there - own,
                        (from, Some(from_there)) => {
                            let share = (place - from) / (own - from).max(1e-9);
                            from_there + share * (there - from_there)
                        }
                    };
                }
                before = (own, Some(there));
            }
        }
        place + before.1.map_or(0.0, |there: f64| there - before.0)
    }

    fn draw(
        &self,
        used: &[&Series],
        members: &[usize],
        prepared: &Prepared,
        rejected: Vec<(usize, Rejection)>,
    ) -> Drawn {
        let step = prepared.interval_s / prepared.native_s;
        let n = (self.length / step).ceil() as usize;
        let mut bandwidth_bps = vec![0.0; n];
        for (k, &(start, end)) in self.edges.iter().enumerate() {
            let n_slots = ((end - start).ceil() as usize).max(1);
            let slot = (end - start) / n_slots as f64;
            for s in 0..n_slots {
                let shares = (s as f64 / n_slots as f64, (s + 1) as f64 / n_slots as f64);
                let column: Vec<f64> = used
                    .iter()
                    .zip(&self.seen)
                    .map(|(series, seen)| {
                        let (from, to) = seen[k];
                        let length = to - from;
                        mean_of_steps(&series.values, from + shares.0 * length, from + shares.1 * length)
                    })
                    .filter(|value| !value.is_nan())
                    .collect();
                let value = quantile(&column, 0.5).unwrap_or(0.0);
                let from = start + s as f64 * slot;
                spread_over(&mut bandwidth_bps, from / step, (from + slot) / step, value);
            }
        }
        let alignments = members
            .iter()
            .enumerate()
            .map(|(sample, &member)| Alignment {
                sample: member,
                times_s: (0..n)
                    .map(|i| self.place_in(sample, (i as f64 + 0.5) * step) * prepared.native_s)
                    .collect(),
            })
            .collect();
        Drawn { bandwidth_bps, background_bps: self.background, alignments, rejected }
    }
}

/// Adds a step of `value` from one place to another to the bins it covers.
fn spread_over(bins: &mut [f64], from: f64, to: f64, value: f64) {
    let first = from.max(0.0) as usize;
    for (i, bin) in bins.iter_mut().enumerate().skip(first) {
        let covered = to.min((i + 1) as f64) - from.max(i as f64);
        if covered <= 0.0 {
            break;
        }
        *bin += value * covered;
    }
}
