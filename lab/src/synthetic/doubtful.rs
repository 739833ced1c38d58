//! Runs to which a rhythm engine easily gives too high a confidence: bins as wide as the beat, two levels, loops of wandering length, streams whose level swings,
//! beats that are half missing.

use iotide_trace::{Event, Grain, Op, Overlap, Rank, StepSignal, Tally, Timestamp};

use super::random::Random;
use super::regular::log_uniform;

/// A run, with what is true of it.
pub struct Doubtful {
    pub writes: StepSignal,
    /// The width of its bins, if its source has bins.
    pub bin_s: Option<f64>,
    /// The mean time from one phase to the next; `None` if there are no phases.
    pub period_s: Option<f64>,
}

type Make = fn(&mut Random) -> Doubtful;

/// The families by name.
pub const FAMILIES: [(&str, Make); 15] = [
    ("less than one bin to a beat", |random| coarse(random, 0.3, 0.98)),
    ("one to two bins to a beat", |random| coarse(random, 1.02, 2.0)),
    ("two to three bins to a beat", |random| coarse(random, 2.0, 3.0)),
    ("four to eight bins to a beat", |random| coarse(random, 4.0, 8.0)),
    ("weak and strong phases in turn, never silent", weak_and_strong),
    ("steps of ± 30 %, one by one", |random| steps(random, false)),
    ("steps of ± 30 %, wandering", |random| steps(random, true)),
    ("a stream whose level swings", swinging),
    ("a stream that wanders, or with noise", wandering),
    ("half of the beats missing", half_missing),
    ("three or four long phases back to back", back_to_back),
    ("three to four bins to a beat", |random| coarse(random, 3.0, 4.0)),
    ("calls noted in whole rows, two to eight to a beat", in_rows),
    ("samples taken unevenly, three to eight to a beat", unevenly_sampled),
    ("two distances in turn", two_in_turn),
];

/// A burst: start and end in seconds, bytes.
type Burst = (f64, f64, f64);

/// Bursts as a source with bins tells them, upon `base_bps`, each bin off by a share of `noise`.
fn binned(random: &mut Random, bursts: &[Burst], bin_s: f64, base_bps: f64, noise: f64) -> StepSignal {
    let end_s = bursts.iter().map(|burst| burst.1).fold(0.0, f64::max);
    let mut bins = vec![base_bps * bin_s; (end_s / bin_s).ceil() as usize + 1];
    for &(start_s, end_s, bytes) in bursts {
        let (first, last) = ((start_s / bin_s) as usize, (end_s / bin_s) as usize);
        for (i, bin) in bins.iter_mut().enumerate().take(last + 1).skip(first) {
            let within_s = end_s.min((i + 1) as f64 * bin_s) - start_s.max(i as f64 * bin_s);
            *bin += bytes * (within_s / (end_s - start_s)).max(0.0);
        }
    }
    for bytes in &mut bins {
        *bytes *= random.normal(1.0, noise).max(0.0);
    }
    levels(&bins.iter().map(|bytes| bytes / bin_s).collect::<Vec<_>>(), bin_s)
}

/// A bandwidth that is known once in `bin_s`.
fn levels(rates_bps: &[f64], bin_s: f64) -> StepSignal {
    let bins = rates_bps.iter().enumerate().filter(|(_, rate_bps)| **rate_bps > 0.0);
    signal(bins.map(|(i, rate_bps)| (i as f64 * bin_s, (i + 1) as f64 * bin_s, rate_bps * bin_s)))
}

fn time(secs: f64) -> Timestamp {
    Timestamp::from_nanos_since_start((secs * 1e9).round() as i64)
}

fn signal(bursts: impl IntoIterator<Item = Burst>) -> StepSignal {
    let mut overlap = Overlap::new();
    for (start_s, end_s, bytes) in bursts {
        overlap.add(time(start_s), time(end_s), bytes);
    }
    overlap.finish()
}

/// Equal phases, or nearly so, in bins of which so many fit into a beat.
fn coarse(random: &mut Random, fewest: f64, most: f64) -> Doubtful {
    let period_s = log_uniform(random, 0.1, 1000.0);
    let bin_s = period_s / random.uniform(fewest, most);
    let (n, duty) = (random.whole(12, 60), log_uniform(random, 0.01, 0.4));
    let (jitter, uneven) = (*random.pick(&[0.0, 0.0, 0.01, 0.03]), *random.pick(&[0.0, 0.05]));
    let offset = random.unit();
    let bursts: Vec<Burst> = (0..n)
        .map(|i| {
            let start_s = (period_s * (i as f64 + offset + random.normal(0.0, jitter))).max(0.0);
            (start_s, start_s + duty * period_s, 1e9 * random.uniform(1.0 - uneven, 1.0 + uneven))
        })
        .collect();
    Doubtful {
        writes: binned(random, &bursts, bin_s, 0.0, 0.0),
        bin_s: Some(bin_s),
        period_s: Some(period_s),
    }
}

/// Short calls whose times are rounded down and up to whole rows, such as the seconds of a log.
fn in_rows(random: &mut Random) -> Doubtful {
    let (n, row_s) = (random.whole(12, 60), log_uniform(random, 0.01, 100.0));
    let (beat, length) = (random.uniform(2.05, 8.0), random.uniform(0.01, 0.8));
    let (jitter, offset) = (*random.pick(&[0.0, 0.0, 0.01]), random.unit());
    let bursts: Vec<Burst> = (0..n)
        .map(|i| {
            let start = (beat * (i as f64 + offset + random.normal(0.0, jitter))).max(0.0);
            (start.floor() * row_s, (start + length).ceil() * row_s, 1e9)
        })
        .collect();
    let period_s = beat * row_s;
    Doubtful { writes: signal(bursts), bin_s: None, period_s: Some(period_s) }
}

/// Equal phases in samples of a counter that are taken about once in so long.
fn unevenly_sampled(random: &mut Random) -> Doubtful {
    let (n, sample_s) = (random.whole(12, 60), log_uniform(random, 0.1, 60.0));
    let (beat, length) = (random.uniform(3.05, 8.0), random.uniform(0.01, 1.5));
    let (unevenness, offset) = (random.uniform(0.002, 0.04), random.unit());
    let moved = |at: f64| {
        let whole = ((at / beat) - offset).floor().max(-1.0);
        whole + ((at - (whole + offset) * beat) / length).clamp(0.0, 1.0)
    };
    let mut tally = Tally::default();
    let mut rows = Vec::new();
    let (mut before, mut i) = (0.0, 1.0);
    while before < beat * n as f64 {
        let at: f64 = i + random.normal(0.0, unevenness);
        let row = (before * sample_s, at * sample_s, 1e9 * (moved(at) - moved(before)));
        if row.2 > 0.0 {
            let event = Event::data(Op::Write, Rank(0), time(row.0), time(row.1), row.2);
            tally.add(&Event { grain: Grain::Bin, ..event });
            rows.push(row);
        }
        (before, i) = (at, i + 1.0);
    }
    Doubtful { writes: signal(rows), bin_s: tally.bin_width_s(), period_s: Some(beat * sample_s) }
}

/// A long and a short distance in turn: together they repeat, alone neither does.
fn two_in_turn(random: &mut Random) -> Doubtful {
    let (n, short_s) = (random.whole(8, 60), log_uniform(random, 1.0, 100.0));
    let long_s = short_s * log_uniform(random, 1.4, 4.0);
    let (length_s, jitter) = (short_s * log_uniform(random, 0.01, 0.5), *random.pick(&[0.0, 0.01, 0.02]));
    let (first_is_long, other_bytes) = (random.chance(0.5), *random.pick(&[1e9, 1e9, 2e9]));
    let at_s = random.uniform(0.0, long_s);
    let bursts = (0..n).map(|i| {
        let is_second = i % 2 == 1;
        let into_s = if !is_second {
            0.0
        } else if first_is_long {
            long_s
        } else {
            short_s
        };
        let start_s = at_s
            + (i / 2) as f64 * (short_s + long_s)
            + into_s
            + (jitter * random.normal(0.0, short_s)).max(-at_s);
        (start_s, start_s + length_s, if is_second { other_bytes } else { 1e9 })
    });
    let writes = signal(bursts.collect::<Vec<_>>());
    Doubtful { writes, bin_s: None, period_s: Some(short_s + long_s) }
}

/// Epochs of a training job: a weak phase, a dip, a strong phase, in bins of 0.1 to 0.2 s.
fn weak_and_strong(random: &mut Random) -> Doubtful {
    let (n, period_s) = (random.whole(15, 50), random.uniform(6.0, 10.0));
    let (weak_s, dip_s, strong_s) = (
        period_s * random.uniform(0.2, 0.3),
        random.uniform(0.4, 1.4),
        period_s * random.uniform(0.15, 0.25),
    );
    let (bin_s, noise, jitter) =
        (random.uniform(0.1, 0.2), *random.pick(&[0.0, 0.05, 0.15]), *random.pick(&[0.0, 0.01, 0.02]));
    let base_bps = random.uniform(0.02e9, 0.15e9);
    let bursts: Vec<Burst> = (0..n)
        .flat_map(|i| {
            let start_s = period_s * (i as f64 + 0.2 + random.normal(0.0, jitter));
            let strong = start_s + weak_s + dip_s;
            [(start_s, start_s + weak_s, 0.4e9 * weak_s), (strong, strong + strong_s, 1.2e9 * strong_s)]
        })
        .collect();
    Doubtful {
        writes: binned(random, &bursts, bin_s, base_bps, noise),
        bin_s: Some(bin_s),
        period_s: Some(period_s),
    }
}

/// A checkpoint every so many steps, whose length differs by up to 30 %: each for itself, or hardly from one to the next.
fn steps(random: &mut Random, wander: bool) -> Doubtful {
    let (n, mean_s, length_s) = (random.whole(20, 60), 60.0, random.uniform(1.0, 6.0));
    let (mut at_s, mut off) = (0.0, random.uniform(-0.3, 0.3));
    let mut bursts = Vec::new();
    for _ in 0..n {
        bursts.push((at_s, at_s + length_s, 2e9));
        off =
            if wander { (off + random.normal(0.0, 0.1)).clamp(-0.3, 0.3) } else { random.uniform(-0.3, 0.3) };
        at_s += mean_s * (1.0 + off);
    }
    let period_s = bursts[n - 1].0 / (n - 1) as f64;
    Doubtful { writes: signal(bursts), bin_s: None, period_s: Some(period_s) }
}

/// A stream that never pauses, and rises by 5 to 30 % once in a period.
fn swinging(random: &mut Random) -> Doubtful {
    let (n, bins_a_period) = (random.whole(8, 30), random.whole(15, 80));
    let (bin_s, depth) = (log_uniform(random, 0.1, 10.0), random.uniform(0.05, 0.3));
    let (noise, shape) = (depth * random.uniform(0.0, 0.15), random.whole(0, 2));
    let period = bins_a_period as f64 + random.unit();
    let rates_bps: Vec<f64> = (0..(period * n as f64) as usize)
        .map(|i| {
            let phase = (i as f64 / period).fract();
            let high = match shape {
                0 => 0.5 - 0.5 * (std::f64::consts::TAU * phase).cos(),
                1 => phase,
                _ => f64::from(u8::from(phase > 0.5)),
            };
            1e9 * (1.0 - depth + depth * high) * random.normal(1.0, noise)
        })
        .collect();
    Doubtful { writes: levels(&rates_bps, bin_s), bin_s: Some(bin_s), period_s: Some(period * bin_s) }
}

/// A stream that never pauses, without a rhythm: noise, or a level that goes up and down at random.
fn wandering(random: &mut Random) -> Doubtful {
    let (n, bin_s) = (random.whole(200, 1500), log_uniform(random, 0.1, 10.0));
    let (noise, step) = (random.uniform(0.01, 0.1), *random.pick(&[0.0, 0.01, 0.03]));
    let keeps = random.uniform(0.9, 0.999);
    let mut level = 0.0;
    let rates_bps: Vec<f64> = (0..n)
        .map(|_| {
            level = keeps * level + random.normal(0.0, step);
            1e9 * (1.0 + level.clamp(-0.5, 0.5) + random.normal(0.0, noise)).max(0.3)
        })
        .collect();
    Doubtful { writes: levels(&rates_bps, bin_s), bin_s: Some(bin_s), period_s: None }
}

/// Equal phases, four to six in ten of which are missing.
fn half_missing(random: &mut Random) -> Doubtful {
    let (n, period_s, missing) = (random.whole(40, 120), random.uniform(5.0, 50.0), random.uniform(0.4, 0.6));
    let jitter = *random.pick(&[0.0, 0.01, 0.03]);
    let mut starts_s = Vec::new();
    for i in 0..n {
        if !random.chance(missing) {
            starts_s.push(period_s * (i as f64 + 0.2 + random.normal(0.0, jitter)));
        }
    }
    let bursts = starts_s.iter().map(|start_s| (*start_s, start_s + 0.1 * period_s, 1e9));
    Doubtful { writes: signal(bursts), bin_s: None, period_s: Some(period_s) }
}

/// One phase with two or three short dips.
fn back_to_back(random: &mut Random) -> Doubtful {
    let (n, length_s) = (random.whole(3, 4), log_uniform(random, 10.0, 1000.0));
    let gap_s = length_s * random.uniform(0.005, 0.06);
    let n_requests = random.whole(20, 200);
    let mut requests = Vec::new();
    let mut at_s = 0.0;
    for _ in 0..n {
        let length_s = length_s * random.normal(1.0, 0.01);
        for i in 0..n_requests {
            let (from, to) = (i as f64 / n_requests as f64, (i + 1) as f64 / n_requests as f64);
            requests.push((at_s + from * length_s, at_s + to * length_s, 1e9));
        }
        at_s += length_s + gap_s;
    }
    Doubtful { writes: signal(requests), bin_s: None, period_s: None }
}
