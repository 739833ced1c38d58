//! A description made ready for the net: names as numbers, times as rates, requests in grains.

use iotide_num::SplitMix64;

use super::description::{System, Target, Template, WhatChanges};

/// More stages than these are as good as a fixed time: a deviation of 1 %.
const MOST_STAGES: f64 = 10_000.0;
/// With grains of their own choice bursts keep so many tokens: the length of one alone then deviates by 3 %.
const TOKENS_A_BURST: u64 = 1000;

/// What the net needs of a template.
#[derive(Clone, Debug)]
pub(super) struct Kind {
    /// Time between bursts, and of how many stages it is.
    stages: [(f64, f64); 2],
    pub(super) in_flight: u64,
    /// Tokens of a burst; all that are in flight and one more where it has no end.
    pub(super) requests: u64,
    pub(super) has_end: bool,
    /// 1 over the bytes of a token.
    pub(super) per_byte: f64,
    /// 1 over the time between a request and the next; 0: none.
    pub(super) think_rate: f64,
    /// Kinds that think equally long are drawn from together: its place in [`Compiled::think_rates`].
    pub(super) thinks_as: u32,
    /// So are kinds whose requests are equally large: its place in [`Compiled::per_bytes`].
    pub(super) moves_as: u32,
    /// `u64::MAX` goes on.
    pub(super) bursts: u64,
    pub(super) starts_with_io: bool,
}

impl Kind {
    fn of(template: &Template, grain: u64) -> Self {
        let shape = (1.0 / (template.compute_cv * template.compute_cv)).round().clamp(1.0, MOST_STAGES);
        let tokens =
            template.requests.map(|requests| (requests as f64 / grain as f64).round().max(1.0) as u64);
        let in_flight = tokens.map_or(template.processes, |tokens| tokens.min(template.processes));
        let bytes = match (template.requests, tokens) {
            (Some(requests), Some(tokens)) => template.request_bytes * requests as f64 / tokens as f64,
            _ => template.request_bytes * grain as f64,
        };
        Self {
            stages: [(template.compute_s, shape), (template.mpi_s, shape)],
            in_flight,
            requests: tokens.unwrap_or(in_flight + 1),
            has_end: tokens.is_some(),
            per_byte: 1.0 / bytes,
            think_rate: if template.think_s > 0.0 { 1.0 / (template.think_s * grain as f64) } else { 0.0 },
            thinks_as: 0,
            moves_as: 0,
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

/// What the net needs of a target.
#[derive(Clone, Debug)]
pub(super) struct Station {
    /// Operations per second of one server; 0: they take no time.
    pub(super) op_rate: f64,
    pub(super) servers: usize,
    /// 1 over their number.
    pub(super) per_server: f64,
    pub(super) moves: bool,
    bandwidth_bps: f64,
    stream_bps: f64,
}

impl Station {
    pub(super) fn of(target: &Target, grain: u64) -> Self {
        Self {
            op_rate: target.iops.map_or(0.0, |iops| iops / f64::from(target.servers) / grain as f64),
            servers: target.servers as usize,
            per_server: 1.0 / f64::from(target.servers),
            moves: target.moves(),
            bandwidth_bps: target.bandwidth_bps.unwrap_or(f64::INFINITY),
            stream_bps: target.stream_bps.unwrap_or(f64::INFINITY),
        }
    }

    /// What each of `n` streams gets.
    #[inline]
    pub(super) fn share_bps(&self, n: usize) -> f64 {
        (self.bandwidth_bps / n as f64).min(self.stream_bps)
    }

    /// What share of its bandwidth is used by `n` streams.
    #[inline]
    pub(super) fn busy(&self, n: usize) -> f64 {
        if n == 0 || self.bandwidth_bps == f64::INFINITY {
            return 0.0;
        }
        (n as f64 * self.stream_bps / self.bandwidth_bps).min(1.0)
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
    /// The different sizes of tokens, each as 1 over its bytes.
    pub(super) per_bytes: Vec<f64>,
    pub(super) stations: Vec<Station>,
    /// The kind of each group: entries first, then arrivals, then what changes add.
    pub(super) groups: Vec<u32>,
    pub(super) entries: Vec<Entry>,
    /// The group, and how many a second.
    pub(super) arrivals: Vec<(u32, f64)>,
    pub(super) changes: Vec<WhatChanges>,
    /// How many requests a token stands for.
    pub(super) grain: u64,
}

impl Compiled {
    pub(super) fn new(system: &System, grain: u64) -> Self {
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
        let mut kinds: Vec<Kind> =
            system.templates.iter().map(|template| Kind::of(template, grain)).collect();
        let (mut think_rates, mut per_bytes) = (Vec::new(), Vec::new());
        for kind in &mut kinds {
            kind.thinks_as = place_of(kind.think_rate, &mut think_rates);
            kind.moves_as = place_of(kind.per_byte, &mut per_bytes);
        }
        Self {
            kinds,
            think_rates,
            per_bytes,
            stations: system.targets.iter().map(|target| Station::of(target, grain)).collect(),
            groups,
            entries: entries.collect(),
            arrivals: (system.arrivals.iter().enumerate())
                .map(|(i, arrivals)| ((n_entries + i) as u32, arrivals.per_s))
                .collect(),
            changes: system.changes.iter().map(|change| change.what.clone()).collect(),
            grain,
        }
    }

    pub(super) fn group_of_change(&self, index: usize) -> u32 {
        (self.entries.len() + self.arrivals.len() + index) as u32
    }
}

/// Where a value stands among the known ones, which it joins if it is new.
fn place_of(value: f64, known: &mut Vec<f64>) -> u32 {
    let place = known.iter().position(|other| *other == value).unwrap_or_else(|| {
        known.push(value);
        known.len() - 1
    });
    place as u32
}

/// How many requests a token stands for, if nobody says: as many as leave bursts their length.
pub(super) fn usual_grain(system: &System) -> u64 {
    let added = system.changes.iter().filter_map(|change| match change.what {
        WhatChanges::Add { template, .. } => Some(template),
        _ => None,
    });
    let arriving = system.arrivals.iter().map(|arrivals| arrivals.template);
    let used = system.jobs.iter().map(|jobs| jobs.template).chain(arriving).chain(added);
    let smallest = used.map(|template| system.templates[template].requests.unwrap_or(1)).min().unwrap_or(1);
    (smallest / TOKENS_A_BURST).max(1)
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
