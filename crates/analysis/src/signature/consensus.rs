//! Our own method. Three laws hold for the load of a server during runs of one application:
//!
//! 1. *Background load only adds.* Of several samples at the same moment of the run, the lower ones are nearer the truth.
//! 2. *Contention only delays.* It makes bursts longer; what lies between them, the computing, it leaves alone.
//! 3. *The volume of a burst stays.* A burst that has to share takes longer, and moves what it has to move.
//!
//! So a sample is aligned to a template by a delay that may change within bursts and hardly elsewhere, at a cost that
//! forgives what is above the template more than what is below; the template is a low quantile of the aligned samples, and
//! both take turns. Then the bursts are timed: by the pauses between them, on which the samples agree, and by their volume.

use iotide_num::{mean, mean_of_steps, quantile, quantile_of_sorted, quantiles_across, rebin};

use super::prepare::{Prepared, Ready};
use super::{Alignment, ConsensusConfig, Drawn, Extent, SampleRejection, SignatureConfig};

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
    let bursts = template.bursts(settings);
    let timed = Timing::of(&template, &bursts, &used, &delays, settings, prepared.native_s);
    timed.draw(&used, &members, prepared, settings, rejected)
}

/// A sample on the common grid, as the run's time goes.
struct Series {
    /// NaN where nothing is known; one value for each point.
    values: Vec<f64>,
    /// Value beyond the ends: silence around a whole run, nothing known around a part.
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

    /// Its values at the points of a template, behind which it lags by `delays`.
    fn along(&self, delays: &[isize]) -> Vec<f64> {
        delays.iter().zip(0..).map(|(delay, i)| self.at(i + delay)).collect()
    }

    fn known(&self) -> impl Iterator<Item = f64> + '_ {
        self.values.iter().copied().filter(|value| !value.is_nan())
    }

    /// The middle of the values between two places.
    fn level(&self, (from, to): (f64, f64)) -> f64 {
        let (first, last) = inner((from, to));
        let end = (last.max(0.0) as usize).min(self.values.len());
        let points = self.values.get(first.max(0.0) as usize..end).unwrap_or(&[]);
        let known: Vec<f64> = points.iter().copied().filter(|value| !value.is_nan()).collect();
        quantile(&known, 0.5).unwrap_or_else(|| mean_of_steps(&self.values, from, to))
    }

    /// Returns the load of others a little before and a little after a burst.
    fn noise_around(&self, (from, to): (f64, f64)) -> f64 {
        const REACH: isize = 10;
        let (from, to) = (from.floor() as isize - 1, to.ceil() as isize + 1);
        let around = (from - REACH..from).chain(to..to + REACH);
        let inside = around.filter_map(|i| self.values.get(usize::try_from(i).ok()?).copied());
        mean(&inside.filter(|value| !value.is_nan()).collect::<Vec<_>>())
    }

    /// Whether all of a burst is known.
    fn shows(&self, (from, to): (f64, f64)) -> bool {
        let end = to.floor() as usize;
        from >= 0.0
            && self.values.get(from as usize..end).is_some_and(|values| values.iter().all(|x| !x.is_nan()))
    }

    /// All values between the bursts, but for those next to an edge.
    fn pauses(&self, bursts: &[(f64, f64)]) -> Vec<f64> {
        let mut pauses = Vec::with_capacity(self.values.len());
        let mut from = 0;
        for &(start, end) in bursts.iter().chain(&[(self.values.len() as f64 + 1.0, f64::INFINITY)]) {
            let to = ((start.floor() - 1.0).max(0.0) as usize).min(self.values.len());
            pauses.extend(self.values.get(from..to).unwrap_or(&[]).iter().filter(|value| !value.is_nan()));
            from = (end.ceil() + 1.0).max(0.0) as usize;
        }
        pauses
    }

    fn volume(&self) -> f64 {
        self.known().sum::<f64>() / self.scale
    }
}

/// Common shape of the samples aligned so far.
struct Template {
    values: Vec<f64>,
    /// How high a burst is.
    height: f64,
    /// Level without bursts.
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

    /// By how much the delay of a sample grows at each point because it runs on more nodes: its bursts are longer.
    fn expected_steps(&self, scale: f64, settings: &ConsensusConfig) -> Vec<isize> {
        if scale == 1.0 {
            return vec![0; self.values.len()];
        }
        let mut owed = 0.0;
        self.values
            .iter()
            .map(|value| {
                owed +=
                    if value - self.floor > settings.burst_base * self.height { scale - 1.0 } else { 0.0 };
                let step = owed.floor();
                owed -= step;
                step as isize
            })
            .collect()
    }

    /// Stretches of points, half open, where it stands out.
    fn bursts(&self, settings: &ConsensusConfig) -> Vec<(usize, usize)> {
        let threshold = self.floor + settings.burst_base * self.height;
        let peak = self.floor + settings.burst_peak * self.height;
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
        bursts.retain(|&(from, to)| self.values[from..to].iter().any(|&value| value > peak));
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
            a.scale.total_cmp(&b.scale).then(key(a).total_cmp(&key(b)))
        })
        .expect("there are samples");
    let mut template = Template::new(reference.values.clone());
    let mut delays: Vec<Vec<isize>> = Vec::new();
    let mut room = Room::default();
    for round in 0..settings.rounds.max(1) {
        let target = Target::of(&template, settings);
        delays = members
            .iter()
            .enumerate()
            .map(|(j, &member)| {
                let series = &series[member];
                let expected = template.expected_steps(series.scale, settings);
                let band = match delays.get(j) {
                    None => {
                        let slack = (settings.slack_s / native_s).ceil() as isize;
                        Band::around_expected(expected, series, slack)
                    }
                    Some(delays) => Band::around(delays, expected),
                };
                align(&target, series, &band, &mut room)
            })
            .collect();
        let aligned: Vec<Vec<f64>> =
            members.iter().zip(&delays).map(|(&member, delays)| series[member].along(delays)).collect();
        let [values] = quantiles_across(aligned, [settings.quantile]);
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
        // The first template is a single sample, with all that others did in it.
        if round > 0 && change <= 0.01 * whole {
            break;
        }
    }
    (template, delays)
}

/// Which delays are considered at each point of the template: `width` of them, from `first[i]` on.
struct Band {
    first: Vec<isize>,
    width: usize,
    /// By how much the delay grows of itself from one point to the next.
    expected: Vec<isize>,
}

impl Band {
    /// Delays of up to `slack` points more than the sample is longer than expected, and half as much the other way.
    fn around_expected(expected: Vec<isize>, series: &Series, slack: isize) -> Self {
        let early = slack / 2;
        let mut delay = -early;
        let first: Vec<isize> = expected
            .iter()
            .map(|step| {
                delay += step;
                delay
            })
            .collect();
        let longer = series.values.len() as isize - first.len() as isize - (delay + early);
        Self { first, width: (early + slack + longer.max(0) + 1) as usize, expected }
    }

    /// Delays close to those of the last round.
    fn around(delays: &[isize], expected: Vec<isize>) -> Self {
        const REACH: isize = 8;
        let first = delays.iter().map(|delay| delay - REACH).collect();
        Self { first, width: 2 * REACH as usize + 1, expected }
    }
}

/// Buffers of [`align`]: made once, used for every sample.
#[derive(Default)]
struct Room {
    /// Values of the sample, in heights above the floor, at each place that any delay can lead to.
    places: Vec<f32>,
    /// For each point, what the cheapest way to each delay has cost when it comes there.
    costs: Vec<f32>,
}

/// A template as [`align`] sees it: in heights above the floor.
struct Target<'a> {
    template: &'a Template,
    settings: &'a ConsensusConfig,
    scale: f64,
    levels: Vec<f32>,
    /// Cost of changing the delay by a point, at each point.
    changes: Vec<f32>,
}

impl<'a> Target<'a> {
    fn of(template: &'a Template, settings: &'a ConsensusConfig) -> Self {
        let scale = if template.height > 0.0 { 1.0 / template.height } else { 1.0 };
        let levels: Vec<f32> =
            template.values.iter().map(|value| ((value - template.floor) * scale) as f32).collect();
        let is_high = |level: &f32| *level > settings.burst_base as f32;
        let changes = (0..levels.len())
            .map(|i| {
                let around = &levels[i.saturating_sub(1)..(i + 2).min(levels.len())];
                let change = if around.iter().any(is_high) {
                    settings.change_in_burst
                } else {
                    settings.change_in_pause
                };
                change as f32
            })
            .collect();
        Self { template, settings, scale, levels, changes }
    }
}

/// Returns by how many points the sample lags behind the template at each of its points: the cheapest way through `band`,
/// where a delay changes by at most a point from one point to the next.
fn align(target: &Target, series: &Series, band: &Band, Room { places, costs }: &mut Room) -> Vec<isize> {
    const FAR: f32 = 1e30;
    let Target { template, settings, scale, levels, changes } = target;
    let n = levels.len();
    let width = band.width;
    let seen = |place: isize| ((series.at(place) - template.floor) * scale) as f32;
    let lowest = band.first.iter().zip(0..).map(|(first, i)| first + i).min().unwrap_or(0);
    let highest = band.first.iter().zip(0..).map(|(first, i)| first + i).max().unwrap_or(0) + width as isize;
    places.clear();
    places.extend((lowest..highest).map(seen));
    let (below, above) = (settings.below as f32, settings.above as f32);
    let most_above = settings.most_above as f32;
    // How far the band moves, beside what the delay does of itself.
    let moved_at = |i: usize| {
        let moved = if i == 0 { 0 } else { band.first[i] - band.first[i - 1] - band.expected[i] };
        moved.clamp(-1, 1)
    };
    // Row 0 is what it costs to begin with a delay, row i + 1 belongs to point i. Two more states on both sides: every state
    // has neighbours, also where the band has moved by one.
    let stride = width + 4;
    costs.resize((n + 1) * stride, FAR);
    costs[..stride].fill(FAR);
    for (w, cost) in costs[2..width + 2].iter_mut().enumerate() {
        *cost = 0.02 * (band.first.first().copied().unwrap_or(0) + w as isize).abs() as f32;
    }
    for i in 0..n {
        let change = changes[i];
        let own = levels[i];
        let at = (band.first[i] + i as isize - lowest) as usize;
        let places = &places[at..at + width];
        let (before, after) = costs[i * stride..(i + 2) * stride].split_at_mut(stride);
        let before = &before[(1 + moved_at(i)) as usize..];
        let (less, same, more) = (&before[..width], &before[1..width + 1], &before[2..width + 2]);
        after[..2].fill(FAR);
        after[width + 2..].fill(FAR);
        let after = &mut after[2..width + 2];
        // One loop over vectors: comparisons rather than `min` and `max`, which take pains over NaN. Of a point that is not
        // known, all comparisons fail: it speaks neither for nor against.
        for w in 0..width {
            let changed = (if less[w] < more[w] { less[w] } else { more[w] }) + change;
            let cheapest = if changed < same[w] { changed } else { same[w] };
            let gap = places[w] - own;
            let short = if gap < 0.0 { -gap } else { 0.0 };
            let over = if gap > 0.0 { gap } else { 0.0 };
            let over = if over < most_above { over } else { most_above };
            after[w] = cheapest + below * short + above * over;
        }
    }
    let last = &costs[n * stride + 2..][..width];
    let mut w = (0..width).min_by(|&a, &b| last[a].total_cmp(&last[b])).unwrap_or(0) as isize;
    let mut delays = vec![0; n];
    for i in (0..n).rev() {
        delays[i] = band.first[i] + w;
        // The way here is found again where it is needed, which is at one state of each point.
        let came_from = &costs[i * stride + (1 + moved_at(i) + w) as usize..][..3];
        let (less, same, more) = (came_from[0] + changes[i], came_from[1], came_from[2] + changes[i]);
        let step = match () {
            () if less.min(more) >= same => 0,
            () if less <= more => 1,
            () => -1,
        };
        let delay = delays[i] - step - band.expected[i];
        w = if i == 0 { 0 } else { (delay - band.first[i - 1]).clamp(0, width as isize - 1) };
    }
    delays
}

/// The members whose misfit is far from that of the others.
fn unlike(
    template: &Template,
    series: &[Series],
    members: &[usize],
    delays: &[Vec<isize>],
) -> Vec<(usize, SampleRejection)> {
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
            mean(&gaps)
        })
        .collect();
    // Never stricter than a twentieth of a burst's height: among good samples the median misfit is next to nothing.
    let usual = quantile(&misfits, 0.5).unwrap_or(0.0).max(0.02 * template.height);
    members
        .iter()
        .zip(misfits)
        .filter(|(_, misfit)| *misfit > MOST * usual)
        .map(|(&member, misfit)| (member, SampleRejection::Unlike { misfit_ratio: misfit / usual }))
        .collect()
}

/// Bursts as each sample shows them.
struct Sightings<'a> {
    used: &'a [&'a Series],
    n_bursts: usize,
    /// Of each sample: start and end of each burst.
    edges: Vec<Vec<(f64, f64)>>,
    /// Whether it shows the burst.
    shown: Vec<Vec<bool>>,
    /// How much its word on the burst counts: the quieter others are around it, the more.
    weights: Vec<Vec<f64>>,
}

impl<'a> Sightings<'a> {
    fn of(
        template: &Template,
        bursts: &[(usize, usize)],
        used: &'a [&'a Series],
        delays: &[Vec<isize>],
        settings: &ConsensusConfig,
    ) -> Self {
        let edges: Vec<Vec<(f64, f64)>> = used
            .iter()
            .zip(delays)
            .map(|(series, delays)| {
                bursts.iter().map(|&burst| find_edges(template, burst, series, delays)).collect()
            })
            .collect();
        let least = 0.02 * template.height;
        let weight = |noise: f64| 1.0 / (noise + least).powf(settings.trust);
        let (mut shown, mut weights) = (Vec::new(), Vec::new());
        for (series, edges) in used.iter().zip(&edges) {
            shown.push(edges.iter().map(|&edges| series.shows(edges)).collect());
            weights.push(edges.iter().map(|&edges| weight(series.noise_around(edges))).collect());
        }
        Self { used, n_bursts: bursts.len(), edges, shown, weights }
    }

    /// Returns the values of each sample outside its bursts.
    fn pauses(&self) -> Vec<Vec<f64>> {
        self.used.iter().zip(&self.edges).map(|(series, edges)| series.pauses(edges)).collect()
    }

    /// The quantile `q` of a quantity over the samples that show burst `k`.
    fn across(&self, k: usize, q: f64, of: impl Fn(usize) -> f64) -> f64 {
        let mut values: Vec<(f64, f64)> = (0..self.used.len())
            .filter(|&j| self.shown[j][k])
            .map(|j| (of(j), self.weights[j][k]))
            .filter(|(value, weight)| !value.is_nan() && !weight.is_nan())
            .collect();
        weighted_quantile(&mut values, q)
    }

    /// How long the run goes on after its last burst; `None` if no sample is whole.
    fn shortest_tail(&self) -> Option<f64> {
        self.used
            .iter()
            .zip(&self.edges)
            .filter(|(series, _)| series.beyond == 0.0)
            .map(|(series, edges)| series.values.len() as f64 - edges.last().map_or(0.0, |edge| edge.1))
            .min_by(f64::total_cmp)
    }
}

/// Joint result of the samples for each burst.
struct Agreed {
    /// How high it is on average.
    levels: Vec<f64>,
    volumes: Vec<f64>,
    /// The pause before it; of the first, the time since the beginning.
    before: Vec<f64>,
}

impl Agreed {
    fn of(
        sightings: &Sightings<'_>,
        usual: &mut UsualMeans<'_>,
        settings: &ConsensusConfig,
        native_s: f64,
    ) -> Self {
        let Sightings { used, edges: seen, shown, .. } = sightings;
        let every = |of: &dyn Fn(usize) -> f64| (0..sightings.n_bursts).map(of).collect::<Vec<f64>>();
        let levels = every(&|k| sightings.across(k, settings.level_quantile, |j| used[j].level(seen[j][k])));
        let mut own_volume = |j: usize, edges: (f64, f64)| {
            // Points that the burst fills in part count whole: what it does in them is its own.
            let (from, to) = (edges.0.floor(), edges.1.ceil());
            let own = mean_of_steps(&used[j].values, from, to) - usual.mean(j, to - from);
            own * (to - from) / used[j].scale
        };
        let own_volumes: Vec<Vec<f64>> = seen
            .iter()
            .enumerate()
            .map(|(j, edges)| edges.iter().map(|&edges| own_volume(j, edges)).collect())
            .collect();
        let volumes = every(&|k| sightings.across(k, settings.burst_quantile, |j| own_volumes[j][k]));
        let mut before = every(&|k| match k.checked_sub(1) {
            None => sightings.across(k, settings.launch_quantile, |j| seen[j][k].0),
            Some(last) => sightings.across(k, settings.pause_quantile, |j| {
                if shown[j][last] { seen[j][k].0 - seen[j][last].1 } else { f64::NAN }
            }),
        });
        // What is alike is taken as the same: an application does the same again and again.
        let levels = pooled(&levels, |a, b| (a - b).abs() <= settings.alike * b);
        let volumes = pooled(&volumes, |a, b| (a - b).abs() <= settings.alike * b);
        if let Some((_, pauses)) = before.split_first_mut() {
            let same = pooled(pauses, |a, b| (a - b).abs() <= settings.alike_pause_s / native_s);
            pauses.copy_from_slice(&same);
        }
        Self { levels, volumes, before }
    }

    /// Start and end of each burst of the signature.
    fn edges(
        &self,
        Sightings { used, n_bursts, edges: seen, shown, .. }: &Sightings<'_>,
        usual: &mut UsualMeans<'_>,
        settings: &ConsensusConfig,
    ) -> Vec<(f64, f64)> {
        // How late each sample is by now, were every point of a burst shared fairly with what others usually do.
        let mut delay = vec![0.0; used.len()];
        let mut edges: Vec<(f64, f64)> = Vec::with_capacity(*n_bursts);
        for k in 0..*n_bursts {
            let (first, end) =
                (edges.first().map_or(0.0, |edge| edge.0), edges.last().map_or(0.0, |edge| edge.1));
            let mut start = end + self.before[k].max(0.0);
            let mut places: Vec<(f64, f64)> = (0..used.len())
                .filter(|&j| k > 0 && shown[j][0] && shown[j][k])
                .map(|j| (first + seen[j][k].0 - seen[j][0].0 - delay[j], 1.0 / (delay[j] + 1.0).powi(2)))
                .collect();
            if !places.is_empty() {
                start += settings.anchor * (weighted_quantile(&mut places, 0.5) - start);
            }
            let start = start.max(end);
            let level = self.levels[k].max(f64::MIN_POSITIVE);
            let width = (self.volumes[k] / level).max(0.5);
            for (j, delay) in delay.iter_mut().enumerate() {
                let shared = usual.mean(j, width) / level;
                *delay += width * (used[j].scale - 1.0 + shared.min(1.0));
            }
            edges.push((start, start + width));
        }
        edges
    }
}

/// When the bursts are, in the signature and in each sample; in points of the common grid.
struct Timing {
    /// Of the signature: start and end of each burst.
    edges: Vec<(f64, f64)>,
    /// Of each sample: the same.
    seen: Vec<Vec<(f64, f64)>>,
    /// How high each burst of the signature is on average.
    levels: Vec<f64>,
    /// How long the signature is.
    length: f64,
    background: f64,
}

impl Timing {
    fn of(
        template: &Template,
        bursts: &[(usize, usize)],
        used: &[&Series],
        delays: &[Vec<isize>],
        settings: &ConsensusConfig,
        native_s: f64,
    ) -> Self {
        let sightings = Sightings::of(template, bursts, used, delays, settings);
        let pauses = sightings.pauses();
        let mut usual = UsualMeans::of(&pauses);
        let agreed = Agreed::of(&sightings, &mut usual, settings, native_s);
        let edges = agreed.edges(&sightings, &mut usual, settings);
        let last = edges.last().map_or(0.0, |edge| edge.1);
        let tail = sightings.shortest_tail().unwrap_or_else(|| {
            // Of parts alone nobody knows when the run ended.
            template.values.len() as f64 - bursts.last().map_or(0.0, |burst| burst.1 as f64)
        });
        Self {
            edges,
            seen: sightings.edges,
            levels: agreed.levels,
            length: last + tail.max(0.0),
            background: template.floor,
        }
    }

    /// Where places in the signature, which ascend, lie in a sample: bursts on bursts, pauses on pauses.
    fn places_in(&self, sample: usize, places: impl Iterator<Item = f64>) -> impl Iterator<Item = f64> {
        let edges = self.edges.iter().zip(&self.seen[sample]);
        let mut ahead = edges.flat_map(|(own, there)| [(own.0, there.0), (own.1, there.1)]).peekable();
        let mut passed: Option<(f64, f64)> = None;
        places.map(move |place| {
            while let Some(edge) = ahead.next_if(|(own, _)| place >= *own) {
                passed = Some(edge);
            }
            match (passed, ahead.peek().copied()) {
                (None, None) => place,
                (None, Some((own, there))) | (Some((own, there)), None) => place + there - own,
                (Some((from, from_there)), Some((to, to_there))) => {
                    let share = (place - from) / (to - from).max(1e-9);
                    from_there + share * (to_there - from_there)
                }
            }
        })
    }

    fn draw(
        &self,
        used: &[&Series],
        members: &[usize],
        prepared: &Prepared,
        settings: &ConsensusConfig,
        rejected: Vec<(usize, SampleRejection)>,
    ) -> Drawn {
        let step = prepared.interval_s / prepared.native_s;
        let n = (self.length / step).ceil() as usize;
        let mut bandwidth_bps = vec![0.0; n];
        for (k, &(start, end)) in self.edges.iter().enumerate() {
            let n_slots = ((end - start).ceil() as usize).max(1);
            let slot = (end - start) / n_slots as f64;
            let shape: Vec<f64> = (0..n_slots)
                .map(|s| {
                    let shares = (s as f64 / n_slots as f64, (s + 1) as f64 / n_slots as f64);
                    let column: Vec<f64> = used
                        .iter()
                        .zip(&self.seen)
                        .filter(|(series, seen)| series.shows(seen[k]))
                        .map(|(series, seen)| {
                            let (from, to) = inner(seen[k]);
                            let at = |share: f64| from + share * (to - from);
                            mean_of_steps(&series.values, at(shares.0), at(shares.1))
                        })
                        .filter(|value| !value.is_nan())
                        .collect();
                    quantile(&column, settings.level_quantile).unwrap_or(0.0)
                })
                .collect();
            // The shape is that of the samples, the volume that of the burst.
            let scale = self.levels[k] / mean(&shape).max(f64::MIN_POSITIVE);
            for (s, value) in shape.iter().enumerate() {
                let from = start + s as f64 * slot;
                spread_over(&mut bandwidth_bps, from / step, (from + slot) / step, value * scale);
            }
        }
        let alignments = members
            .iter()
            .enumerate()
            .map(|(sample, &member)| {
                let places = (0..n).map(|i| (i as f64 + 0.5) * step);
                let times_s = self.places_in(sample, places).map(|place| place * prepared.native_s).collect();
                Alignment { sample: member, times_s }
            })
            .collect();
        Drawn { bandwidth_bps, background_bps: self.background, alignments, rejected }
    }
}

/// Usual load of others in the pauses of each sample.
struct UsualMeans<'a> {
    pauses: &'a [Vec<f64>],
    /// For each sample, lengths in points that were asked for, and the answers: bursts that are alike ask again.
    known: Vec<Vec<(usize, f64)>>,
}

impl<'a> UsualMeans<'a> {
    fn of(pauses: &'a [Vec<f64>]) -> Self {
        Self { pauses, known: vec![Vec::new(); pauses.len()] }
    }

    /// The mean over a stretch of the given length as it usually is: the median over stretches that overlap by half.
    ///
    /// Short stretches mostly meet nobody, long ones mostly meet their share of everybody.
    fn mean(&mut self, sample: usize, length: f64) -> f64 {
        let values = &self.pauses[sample];
        let length = (length.round() as usize).clamp(1, values.len().max(1));
        if let Some(&(_, usual)) = self.known[sample].iter().find(|(known, _)| *known == length) {
            return usual;
        }
        let means: Vec<f64> = values.windows(length).step_by((length / 2).max(1)).map(mean).collect();
        let usual = quantile(&means, 0.5).unwrap_or(0.0);
        self.known[sample].push((length, usual));
        usual
    }
}

/// The value at which a share `q` of the weight is reached: each value stands in the middle of its weight, and between two
/// of them it goes straight.
fn weighted_quantile(values: &mut [(f64, f64)], q: f64) -> f64 {
    values.sort_by(|a, b| a.0.total_cmp(&b.0));
    let whole: f64 = values.iter().map(|(_, weight)| weight).sum();
    let (mut passed, mut before) = (0.0, None);
    for &(value, weight) in values.iter() {
        let middle = (passed + weight / 2.0) / whole;
        if middle >= q {
            return match before {
                Some((lower, at)) => lower + (value - lower) * (q - at) / (middle - at),
                None => value,
            };
        }
        before = Some((value, middle));
        passed += weight;
    }
    before.map_or(0.0, |(value, _)| value)
}

/// How far from where the alignment puts it an edge is looked for, in points.
const EDGE_REACH: isize = 3;

/// Returns where a burst of the template begins and ends in a sample.
///
/// An edge lies where the fewest points are on the wrong side of half the height; how full the point beside it is tells
/// the fraction.
fn find_edges(
    template: &Template,
    (from, to): (usize, usize),
    series: &Series,
    delays: &[isize],
) -> (f64, f64) {
    // On more nodes a point of the template is several of the sample, and its delay leads to the last of them.
    let widened = (series.scale - 1.0).round() as isize;
    let (start, end) = (from as isize + delays[from] - widened, to as isize + delays[to - 1]);
    let level = series.level((start as f64, end as f64)).max(template.floor + 0.5 * template.height);
    let fill = |place: isize| (series.at(place) - template.floor) / (level - template.floor);
    let reach = EDGE_REACH.min((end - start).max(1));
    // Of equally good places the nearest to where the alignment puts it.
    let search = |guess: isize, is_high_behind: bool| {
        let places = guess - 2 * reach..guess + 2 * reach;
        let mut is_high = [false; 4 * EDGE_REACH as usize];
        for (is_high, place) in is_high.iter_mut().zip(places.clone()) {
            *is_high = fill(place) > 0.5;
        }
        (-reach..=reach)
            .map(|shift| guess + shift)
            .min_by_key(|&edge| {
                let is_wrong =
                    |(place, is_high): &(isize, bool)| *is_high != ((*place >= edge) == is_high_behind);
                (places.clone().zip(is_high).filter(is_wrong).count(), edge.abs_diff(guess))
            })
            .unwrap_or(guess)
    };
    let start = search(start, true);
    let end = search(end, false).max(start + 1);
    // The point before the start belongs to the burst as far as it is fuller than those before it, and the first one does
    // not as far as it is emptier. Neither is cut off at empty and full: noise errs to both sides, and should even out.
    let begun = |edge: isize, outwards: isize| {
        let outer = if outwards < 0 { edge - 1 } else { edge };
        let before: Vec<f64> =
            (1..=3).map(|i| fill(outer + i * outwards)).filter(|value| !value.is_nan()).collect();
        let base = quantile(&before, 0.5).unwrap_or(0.0).min(0.5);
        let (full, inner) = (fill(outer), fill(outer - outwards));
        let share = (full - base) / (1.0 - base) - (1.0 - inner);
        if share.is_nan() { 0.0 } else { share.clamp(-1.0, 1.0) }
    };
    let (first, last) = (start as f64 - begun(start, -1), end as f64 + begun(end, 1));
    (first, last.max(first + 0.5))
}

/// Each value as the median of those that are alike to it.
fn pooled(values: &[f64], is_alike: impl Fn(f64, f64) -> bool) -> Vec<f64> {
    values
        .iter()
        .map(|&value| {
            let mut alike: Vec<f64> =
                values.iter().copied().filter(|&other| is_alike(other, value)).collect();
            alike.sort_unstable_by(f64::total_cmp);
            quantile_of_sorted(&alike, 0.5).unwrap_or(value)
        })
        .collect()
}

/// The points that a burst fills wholly, if there are any.
fn inner((from, to): (f64, f64)) -> (f64, f64) {
    let (first, last) = ((from - 0.1).ceil(), (to + 0.1).floor());
    if last >= first + 1.0 { (first, last) } else { (from, to) }
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
