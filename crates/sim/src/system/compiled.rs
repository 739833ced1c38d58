//! A description made ready for the net: names as numbers, times as rates, requests in grains.

use iotide_num::SplitMix64;

use super::description::{System, Target, Template, WhatChanges};

/// More stages than these are as good as a fixed time: a deviation of 1 %.
const MOST_STAGES: f64 = 10_000.0;
/// With grains of our own choice bursts have so many tokens at least: the length of one alone then deviates by 5 % at most.
const TOKENS_A_BURST: u64 = 400;
/// Tokens become finer towards the end of a burst, so that nobody waits longer for the last of them than for the last request: what is left is enough for each process to have
/// so many more of them.
const ROUNDS_LEFT: u64 = 1;
/// Number of streams up to which their bandwidth is computed once: as many as jobs of usual sizes have.
const STREAMS_KNOWN: usize = 1024;

/// Data of a template that the net needs.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    /// Time between bursts, and of how many stages it is.
    stages: [(f64, f64); 2],
    pub(super) in_flight: u64,
    /// Requests of a burst; `u64::MAX` where it has no end.
    pub(super) requests: u64,
    /// Bytes of a request.
    pub(super) request_bytes: f64,
    /// 1 over the time between a request and the next; 0: none.
    think_rate: f64,
    /// Where in [`Compiled::levels`] those of its tokens are, the coarsest first.
    pub(super) first_level: u32,
    pub(super) last_level: u32,
    /// `u64::MAX` goes on.
    pub(super) bursts: u64,
    pub(super) starts_with_io: bool,
}

/// Data of tokens that stand for a given number of requests, as the net needs it. Those of several kinds that are alike are drawn from together.
///
/// It has everything that an event asks of a token, so that one look from the token is enough.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    /// Whose tokens they are.
    pub(super) kind: u32,
    /// For how many requests each stands.
    pub(super) grain: u64,
    /// A burst has such tokens while so many requests are left.
    pub(super) least_left: u64,
    /// Its place in [`Compiled::grains`].
    pub(super) operates_as: u32,
    /// 1 over the requests that each stands for.
    pub(super) per_grain: f64,
    /// Its place in [`Compiled::bytes`]; `None` where there are no bytes.
    pub(super) moves_as: Option<u32>,
    /// 1 over the bytes that each wants; without meaning where there are none.
    pub(super) per_byte: f64,
    /// Its place in [`Compiled::think_rates`], if there is time between a request and the next.
    pub(super) thinks_as: Option<u32>,
}

impl Kind {
    /// Converts a template for the net; where its levels are is not known yet.
    fn of(template: &Template) -> Self {
        let shape = (1.0 / (template.compute_cv * template.compute_cv)).round().clamp(1.0, MOST_STAGES);
        Self {
            stages: [(template.compute_s, shape), (template.mpi_s, shape)],
            in_flight: template.in_flight(),
            requests: template.requests.unwrap_or(u64::MAX),
            request_bytes: template.request_bytes,
            think_rate: if template.think_s > 0.0 { 1.0 / template.think_s } else { 0.0 },
            first_level: 0,
            last_level: 0,
            bursts: template.iterations.unwrap_or(u64::MAX),
            starts_with_io: template.starts_with_io || template.between_s() == 0.0,
        }
    }

    pub(super) fn between_s(&self, random: &mut SplitMix64) -> f64 {
        let mut sum_s = 0.0;
        for (mean_s, shape) in self.stages {
            if mean_s > 0.0 {
                sum_s +=
                    mean_s / shape * if shape == 1.0 { random.exponential() } else { random.gamma(shape) };
            }
        }
        sum_s
    }
}

/// Data of a target that the net needs.
#[derive(Clone, Debug)]
pub(super) struct Station {
    /// Operations per second of one server; 0: they take no time.
    pub(super) op_rate: f64,
    pub(super) servers: usize,
    /// 1 over their number.
    pub(super) per_server: f64,
    /// How long an operation takes; without meaning where they take no time.
    pub(super) op_s: f64,
    pub(super) moves: bool,
    bandwidth_bps: f64,
    stream_bps: f64,
    /// 1 over the two.
    byte_s: f64,
    stream_byte_s: f64,
    /// Bandwidth of streams, by their number, as far as it is not worth a division each time.
    streams: Vec<Streams>,
}

impl Station {
    pub(super) fn of(target: &Target) -> Self {
        let bandwidth_bps = target.bandwidth_bps.unwrap_or(f64::INFINITY);
        let stream_bps = target.stream_bps.unwrap_or(f64::INFINITY);
        Self {
            op_rate: target.iops.map_or(0.0, |iops| iops / f64::from(target.servers)),
            servers: target.servers as usize,
            per_server: 1.0 / f64::from(target.servers),
            op_s: target.iops.map_or(0.0, |iops| f64::from(target.servers) / iops),
            moves: target.moves(),
            bandwidth_bps,
            stream_bps,
            byte_s: 1.0 / bandwidth_bps,
            stream_byte_s: 1.0 / stream_bps,
            streams: (0..STREAMS_KNOWN).map(|n| Streams::of(n, bandwidth_bps, stream_bps)).collect(),
        }
    }

    /// How long an operation of one request takes of the station's time where `n` tokens are served evenly.
    #[inline]
    pub(super) fn operation_s(&self, n: usize) -> f64 {
        self.op_s * (n as f64 * self.per_server).max(1.0)
    }

    /// How long a byte takes where `n` streams share.
    #[inline]
    pub(super) fn byte_s(&self, n: usize) -> f64 {
        (n as f64 * self.byte_s).max(self.stream_byte_s)
    }

    /// Returns the bandwidth of streams, if there are `n`.
    #[inline]
    pub(super) fn streams(&self, n: usize) -> Streams {
        match self.streams.get(n) {
            Some(streams) => *streams,
            None => Streams::of(n, self.bandwidth_bps, self.stream_bps),
        }
    }
}

/// Bandwidth of some streams of a target.
#[derive(Clone, Copy, Debug)]
pub(super) struct Streams {
    /// Each of them.
    pub(super) each_bps: f64,
    /// Share of the bandwidth that all of them use.
    pub(super) busy: f64,
}

impl Streams {
    fn of(n: usize, bandwidth_bps: f64, stream_bps: f64) -> Self {
        if n == 0 {
            return Self { each_bps: 0.0, busy: 0.0 };
        }
        let busy = if bandwidth_bps == f64::INFINITY {
            0.0
        } else {
            (n as f64 * stream_bps / bandwidth_bps).min(1.0)
        };
        Self { each_bps: (bandwidth_bps / n as f64).min(stream_bps), busy }
    }
}

/// Jobs that are there or will be.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) count: u64,
    pub(super) start_s: f64,
    pub(super) next_phase_s: Option<f64>,
}

/// A system for the net.
#[derive(Clone, Debug)]
pub(super) struct Compiled {
    pub(super) kinds: Vec<Kind>,
    /// The different rates at which kinds think.
    pub(super) think_rates: Vec<f64>,
    /// The different sizes of tokens in bytes.
    pub(super) bytes: Vec<f64>,
    /// The different sizes of tokens in requests.
    pub(super) grains: Vec<f64>,
    /// Of all kinds, those of one after the other.
    pub(super) levels: Vec<Level>,
    pub(super) stations: Vec<Station>,
    /// The kind of each group: entries first, then arrivals, then what changes add.
    pub(super) groups: Vec<u32>,
    pub(super) entries: Vec<Entry>,
    /// The group, and how many a second.
    pub(super) arrivals: Vec<(u32, f64)>,
    pub(super) changes: Vec<WhatChanges>,
}

impl Compiled {
    /// A system whose templates have such grains.
    pub(super) fn new(system: &System, grains: &[u64]) -> Self {
        let entries = system.jobs.iter().map(|jobs| Entry {
            count: jobs.count,
            start_s: jobs.start_s,
            next_phase_s: jobs.next_phase_s,
        });
        let n_entries = system.jobs.len();
        let mut groups: Vec<u32> = system.jobs.iter().map(|jobs| jobs.template as u32).collect();
        groups.extend(system.arrivals.iter().map(|arrivals| arrivals.template as u32));
        // One for each change, so that it is found by its number; most stay empty.
        groups.extend(system.changes.iter().map(|change| match change.what {
            WhatChanges::Add { template, .. } => template as u32,
            _ => 0,
        }));
        let mut kinds: Vec<Kind> = system.templates.iter().map(Kind::of).collect();
        let (mut think_rates, mut bytes, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
        let mut levels = Vec::new();
        for (number, (kind, grain)) in kinds.iter_mut().zip(grains).enumerate() {
            kind.first_level = levels.len() as u32;
            for grain in halved(*grain, kind.requests) {
                let (n_requests, think_rate) = (grain as f64, kind.think_rate / grain as f64);
                let wanted = n_requests * kind.request_bytes;
                levels.push(Level {
                    kind: number as u32,
                    grain,
                    least_left: if grain > 1 {
                        grain.saturating_mul(ROUNDS_LEFT).saturating_mul(kind.in_flight)
                    } else {
                        0
                    },
                    operates_as: place_of(n_requests, &mut sizes),
                    per_grain: 1.0 / n_requests,
                    moves_as: (wanted > 0.0).then(|| place_of(wanted, &mut bytes)),
                    per_byte: 1.0 / wanted,
                    thinks_as: (think_rate > 0.0).then(|| place_of(think_rate, &mut think_rates)),
                });
            }
            kind.last_level = levels.len() as u32 - 1;
        }
        Self {
            kinds,
            think_rates,
            bytes,
            grains: sizes,
            levels,
            stations: system.targets.iter().map(Station::of).collect(),
            groups,
            entries: entries.collect(),
            arrivals: (system.arrivals.iter().enumerate())
                .map(|(i, arrivals)| ((n_entries + i) as u32, arrivals.per_s))
                .collect(),
            changes: system.changes.iter().map(|change| change.what.clone()).collect(),
        }
    }

    pub(super) fn group_of_change(&self, index: usize) -> u32 {
        (self.entries.len() + self.arrivals.len() + index) as u32
    }
}

/// The grain and its halves, down to one request; a burst without an end keeps its grain.
fn halved(grain: u64, requests: u64) -> impl Iterator<Item = u64> {
    std::iter::successors(Some(grain), move |grain| {
        Some(grain / 2).filter(|grain| *grain > 0 && requests != u64::MAX)
    })
}

/// Where a value stands among the known ones, which it joins if it is new.
fn place_of(value: f64, known: &mut Vec<f64>) -> u32 {
    let place = known.iter().position(|other| *other == value).unwrap_or_else(|| {
        known.push(value);
        known.len() - 1
    });
    place as u32
}

/// How many requests a token of each template stands for at most, if nobody says: as many as leave bursts their length.
///
/// Means do not depend on it, nor on whether templates have the same: tokens that share a station evenly hold it as long as their requests would.
pub(super) fn usual_grains(system: &System) -> Vec<u64> {
    let usual = |requests: u64| {
        // A power of two, so that many templates have few different ones.
        let most = (requests / TOKENS_A_BURST).max(1);
        1 << most.ilog2()
    };
    system.templates.iter().map(|template| template.requests.map_or(1, usual)).collect()
}

/// How many tokens there may be at once, but for those that arrive by chance.
pub(super) fn n_tokens(system: &System) -> f64 {
    let of = |template: usize, count: u64| count as f64 * system.templates[template].in_flight() as f64;
    let added = system.changes.iter().map(|change| match change.what {
        WhatChanges::Add { template, count } => of(template, count),
        _ => 0.0,
    });
    system.jobs.iter().map(|jobs| of(jobs.template, jobs.count)).chain(added).sum()
}
