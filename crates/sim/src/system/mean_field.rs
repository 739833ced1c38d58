//! Mean counts over time, as an ordinary differential equation: quick for any number of jobs, blind to chance.
//!
//! Queues that chance alone fills are shorter here than they are: with less work than can be done, nobody waits.

use super::description::{System, WhatChanges};
use super::mva::check_open;
use super::{Means, Run, Settings, SystemError, steps};

/// Stages of the time between bursts.
const MOST_STAGES: usize = 24;
/// Error that a step may have, as a share of the whole.
const TOLERANCE: f64 = 1e-4;
/// Times between bursts below this share of all are none.
const SHORTEST: f64 = 1e-5;
/// More steps than this are given up on.
const MOST_STEPS: u64 = 50_000_000;

/// Where things stand in the vector of counts.
struct Layout {
    n_templates: usize,
    n_targets: usize,
    stages: Vec<usize>,
    /// Where the stages of each template begin.
    between: Vec<usize>,
    bursting: usize,
    left: usize,
    thinking: usize,
    op: usize,
    moving: usize,
    len: usize,
}

impl Layout {
    fn new(system: &System) -> Self {
        let n_templates = system.templates.len();
        let n_targets = system.targets.len();
        let stages: Vec<usize> = (system.templates.iter())
            .map(|template| {
                (1.0 / template.compute_cv.powi(2)).round().clamp(1.0, MOST_STAGES as f64) as usize
            })
            .collect();
        let between: Vec<usize> = (stages.iter())
            .scan(0, |next, n| {
                let own = *next;
                *next += n;
                Some(own)
            })
            .collect();
        let bursting: usize = stages.iter().sum();
        let left = bursting + n_templates;
        let thinking = left + n_templates;
        let op = thinking + n_templates;
        let moving = op + n_templates * n_targets;
        let len = moving + n_templates * n_targets;
        Self { n_templates, n_targets, stages, between, bursting, left, thinking, op, moving, len }
    }

    fn op(&self, target: usize, template: usize) -> usize {
        self.op + target * self.n_templates + template
    }

    fn moving(&self, target: usize, template: usize) -> usize {
        self.moving + target * self.n_templates + template
    }
}

/// Flows that are told: requests done, and bursts ended, by template.
#[derive(Clone, Default)]
struct Flows {
    done: Vec<f64>,
    ended: Vec<f64>,
}

struct Field<'s> {
    system: &'s System,
    targets: Vec<super::Target>,
    live: Vec<bool>,
    layout: Layout,
}

impl Field<'_> {
    /// How counts change.
    fn slope(&self, counts: &[f64], slope: &mut [f64], flows: &mut Flows) {
        let at = &self.layout;
        slope.fill(0.0);
        flows.done.fill(0.0);
        flows.ended.fill(0.0);
        let n_live = self.live.iter().filter(|live| **live).count() as f64;
        let mut begun = vec![0.0; at.n_templates];
        let mut issued = vec![0.0; at.n_templates];
        for (t, template) in self.system.templates.iter().enumerate() {
            let between_s = template.between_s();
            if between_s > 0.0 {
                let rate = at.stages[t] as f64 / between_s;
                for stage in 0..at.stages[t] {
                    let flow = rate * counts[at.between[t] + stage];
                    slope[at.between[t] + stage] -= flow;
                    if stage + 1 < at.stages[t] {
                        slope[at.between[t] + stage + 1] += flow;
                    } else {
                        begun[t] += flow;
                    }
                }
            }
            if template.think_s > 0.0 {
                let flow = counts[at.thinking + t] / template.think_s;
                slope[at.thinking + t] -= flow;
                issued[t] += flow;
            }
        }
        for arrivals in &self.system.arrivals {
            let template = &self.system.templates[arrivals.template];
            if template.starts_with_io || template.between_s() == 0.0 {
                begun[arrivals.template] += arrivals.per_s;
            } else {
                slope[at.between[arrivals.template]] += arrivals.per_s;
            }
        }
        self.served(counts, slope, &mut flows.done);
        for (t, template) in self.system.templates.iter().enumerate() {
            let done = flows.done[t];
            let again = match template.requests {
                None => done,
                Some(requests) => {
                    let in_flight = template.in_flight() as f64;
                    let rest = (requests as f64 - in_flight).max(0.0);
                    // Whose burst has no request left issues none; near the end some have.
                    let left = counts[at.left + t].max(0.0);
                    let again = if rest > 0.0 {
                        done * left / (left + 0.02 * rest.min(in_flight) + 1e-12)
                    } else {
                        0.0
                    };
                    let ended = (done - again) / in_flight;
                    flows.ended[t] = ended;
                    slope[at.bursting + t] -= ended;
                    let leaves = template.iterations.map_or(0.0, |iterations| 1.0 / iterations as f64);
                    if template.between_s() > 0.0 {
                        slope[at.between[t]] += ended * (1.0 - leaves);
                    } else {
                        begun[t] += ended * (1.0 - leaves);
                    }
                    slope[at.left + t] += begun[t] * rest - again;
                    again
                }
            };
            slope[at.bursting + t] += begun[t];
            let first = begun[t] * template.in_flight() as f64;
            if template.think_s > 0.0 {
                slope[at.thinking + t] += again;
                issued[t] += first;
            } else {
                issued[t] += first + again;
            }
        }
        for (d, target) in self.targets.iter().enumerate().filter(|(d, _)| self.live[*d]) {
            for (t, issued) in issued.iter().enumerate() {
                let place = if target.iops.is_some() { at.op(d, t) } else { at.moving(d, t) };
                slope[place] += issued / n_live;
            }
        }
    }

    /// Adds the flows of requests that targets serve.
    fn served(&self, counts: &[f64], slope: &mut [f64], done: &mut [f64]) {
        let at = &self.layout;
        for (d, target) in self.targets.iter().enumerate() {
            let sum = |first: usize| counts[first..first + at.n_templates].iter().sum::<f64>();
            let n_op = sum(at.op(d, 0));
            let n_moving = sum(at.moving(d, 0));
            for (t, template) in self.system.templates.iter().enumerate() {
                let moves = target.moves() && template.request_bytes > 0.0;
                if let (Some(iops), true) = (target.iops, n_op > 0.0) {
                    let servers = f64::from(target.servers);
                    let flow = iops / servers * servers.min(n_op) * counts[at.op(d, t)].max(0.0) / n_op;
                    slope[at.op(d, t)] -= flow;
                    if moves { slope[at.moving(d, t)] += flow } else { done[t] += flow }
                }
                if n_moving > 0.0 {
                    // Less than one request on average is one for a part of the time.
                    let share_bps = target.share_bps(n_moving.max(1.0));
                    let flow = if moves {
                        counts[at.moving(d, t)].max(0.0) * share_bps / template.request_bytes
                    } else {
                        0.0
                    };
                    slope[at.moving(d, t)] -= flow;
                    done[t] += flow;
                }
            }
        }
    }

    /// Jobs come.
    fn admit(&self, counts: &mut [f64], template: usize, n: f64, in_burst: bool) {
        let at = &self.layout;
        let figures = &self.system.templates[template];
        if !(in_burst || figures.starts_with_io || figures.between_s() == 0.0) {
            counts[at.between[template]] += n;
            return;
        }
        let in_flight = figures.in_flight() as f64;
        counts[at.bursting + template] += n;
        counts[at.left + template] +=
            n * figures.requests.map_or(0.0, |requests| requests as f64 - in_flight);
        self.spread(counts, template, n * in_flight);
    }

    fn spread(&self, counts: &mut [f64], template: usize, requests: f64) {
        let at = &self.layout;
        let n_live = self.live.iter().filter(|live| **live).count() as f64;
        for (d, target) in self.targets.iter().enumerate().filter(|(d, _)| self.live[*d]) {
            let place = if target.iops.is_some() { at.op(d, template) } else { at.moving(d, template) };
            counts[place] += requests / n_live;
        }
    }

    fn change(&mut self, counts: &mut [f64], what: &WhatChanges) {
        match what {
            WhatChanges::Add { template, count } => self.admit(counts, *template, *count as f64, false),
            WhatChanges::Restore(target) => self.live[*target] = true,
            WhatChanges::Set(target, figures) => self.targets[*target] = figures.clone(),
            WhatChanges::Lose(target) => {
                self.live[*target] = false;
                if !self.live.contains(&true) {
                    return;
                }
                for template in 0..self.layout.n_templates {
                    let (op, moving) =
                        (self.layout.op(*target, template), self.layout.moving(*target, template));
                    let requests = counts[op] + counts[moving];
                    counts[op] = 0.0;
                    counts[moving] = 0.0;
                    self.spread(counts, template, requests);
                }
            }
        }
    }

    /// Adds the counts and the flows to means, as of one moment.
    fn told(&self, counts: &[f64], flows: &Flows, into: &mut Means, weight_s: f64) {
        let at = &self.layout;
        for (d, target) in self.targets.iter().enumerate() {
            let (mut n_op, mut n_moving) = (0.0, 0.0);
            for t in 0..at.n_templates {
                let (op, moving) = (counts[at.op(d, t)].max(0.0), counts[at.moving(d, t)].max(0.0));
                into.at_op[t] += weight_s * op;
                into.moving[t] += weight_s * moving;
                n_op += op;
                n_moving += moving;
            }
            let servers = f64::from(target.servers);
            if target.iops.is_some() {
                into.waiting += weight_s * (n_op - servers).max(0.0);
                into.op_busy[d] += weight_s * (n_op / servers).min(1.0);
            }
            if let Some(bandwidth_bps) = target.bandwidth_bps {
                let used = n_moving * target.share_bps(n_moving.max(1.0)) / bandwidth_bps;
                into.move_busy[d] += weight_s * used.min(1.0);
            }
        }
        for (t, template) in self.system.templates.iter().enumerate() {
            into.iops[t] += weight_s * flows.done[t];
            into.bandwidth_bps[t] += weight_s * flows.done[t] * template.request_bytes;
            // For now: jobs in bursts, to be divided by bursts that ended.
            into.burst_s[t] += weight_s * counts[at.bursting + t];
        }
    }
}

/// Follows the mean counts of a system.
pub fn mean_field(system: &System, settings: &Settings) -> Result<Run, SystemError> {
    check_open(system)?;
    // A time that no answer could show would cost a billion steps.
    let mut system = system.clone();
    for template in &mut system.templates {
        if template.between_s() < SHORTEST * system.frame_s[1] {
            (template.compute_s, template.mpi_s) = (0.0, 0.0);
        }
    }
    let system = &system;
    let mut field = Field {
        system,
        targets: system.targets.clone(),
        live: vec![true; system.targets.len()],
        layout: Layout::new(system),
    };
    let [from_s, to_s] = system.frame_s;
    let steps = steps(to_s, settings.interval_s)?;
    let mut stops: Vec<f64> = steps.clone();
    stops.extend([from_s, to_s]);
    stops.extend(system.changes.iter().map(|change| change.at_s).filter(|at_s| *at_s < to_s));
    let starts = system.jobs.iter().map(|jobs| jobs.start_s + jobs.next_phase_s.unwrap_or(0.0));
    stops.extend(starts.clone().filter(|at_s| *at_s < to_s));
    stops.sort_by(f64::total_cmp);
    stops.dedup();
    let mut counts = vec![0.0; field.layout.len];
    let mut walk = Walk::new(&field, from_s, to_s, settings.interval_s, system);
    let mut now_s = 0.0;
    let arrive = |field: &Field<'_>, counts: &mut [f64], at_s: f64| {
        for (jobs, start_s) in system.jobs.iter().zip(starts.clone()) {
            if start_s == at_s {
                field.admit(counts, jobs.template, jobs.count as f64, jobs.next_phase_s.is_some());
            }
        }
    };
    arrive(&field, &mut counts, 0.0);
    for change in system.changes.iter().filter(|change| change.at_s == 0.0) {
        field.change(&mut counts, &change.what);
    }
    for stop_s in stops.into_iter().filter(|stop_s| *stop_s > 0.0) {
        walk.until(&field, &mut counts, &mut now_s, stop_s)?;
        arrive(&field, &mut counts, stop_s);
        for change in system.changes.iter().filter(|change| change.at_s == stop_s) {
            field.change(&mut counts, &change.what);
        }
    }
    Ok(walk.run())
}

/// Means that are being gathered.
struct Walk {
    frame: Gathered,
    state: Vec<Gathered>,
    stretches: Vec<Gathered>,
    step_s: f64,
    n_steps: u64,
}

#[derive(Clone)]
struct Gathered {
    means: Means,
    ended: Vec<f64>,
}

impl Gathered {
    fn new(span_s: [f64; 2], n_templates: usize, n_targets: usize) -> Self {
        let means = Means {
            span_s,
            at_op: vec![0.0; n_templates],
            moving: vec![0.0; n_templates],
            waiting: 0.0,
            op_busy: vec![0.0; n_targets],
            move_busy: vec![0.0; n_targets],
            iops: vec![0.0; n_templates],
            bandwidth_bps: vec![0.0; n_templates],
            burst_s: vec![0.0; n_templates],
        };
        Self { means, ended: vec![0.0; n_templates] }
    }

    fn add(&mut self, field: &Field<'_>, now_s: f64, step_s: f64, counts: &[f64], flows: &Flows) {
        let [from_s, to_s] = self.means.span_s;
        let middle_s = now_s + 0.5 * step_s;
        if middle_s > from_s && middle_s < to_s {
            field.told(counts, flows, &mut self.means, step_s);
            for (sum, ended) in self.ended.iter_mut().zip(&flows.ended) {
                *sum += step_s * ended;
            }
        }
    }

    fn means(mut self) -> Means {
        let span_s = self.means.span_s[1] - self.means.span_s[0];
        let means = &mut self.means;
        means.waiting /= span_s;
        for list in [
            &mut means.at_op,
            &mut means.moving,
            &mut means.op_busy,
            &mut means.move_busy,
            &mut means.iops,
            &mut means.bandwidth_bps,
        ] {
            list.iter_mut().for_each(|value| *value /= span_s);
        }
        for (sum, ended) in means.burst_s.iter_mut().zip(&self.ended) {
            *sum = if *ended > 1e-9 { *sum / ended } else { f64::NAN };
        }
        self.means
    }
}

impl Walk {
    fn new(field: &Field<'_>, from_s: f64, to_s: f64, interval_s: Option<f64>, system: &System) -> Self {
        let layout = &field.layout;
        let gathered = |span_s: [f64; 2]| Gathered::new(span_s, layout.n_templates, layout.n_targets);
        let spans = |mut edges: Vec<f64>| -> Vec<Gathered> {
            edges.push(to_s);
            edges.windows(2).map(|pair| gathered([pair[0], pair[1]])).collect()
        };
        let state = interval_s.map_or_else(Vec::new, |interval_s| {
            let n = (to_s / interval_s).ceil() as u64;
            spans((0..n).map(|step| step as f64 * interval_s).collect())
        });
        let changes: Vec<f64> =
            system.changes.iter().map(|change| change.at_s).filter(|at_s| *at_s < to_s).collect();
        let stretches = match changes.first() {
            None => Vec::new(),
            Some(first_s) => {
                let begin_s = if *first_s > from_s { from_s } else { 0.0 };
                spans(std::iter::once(begin_s).chain(changes).collect())
            }
        };
        Self { frame: gathered([from_s, to_s]), state, stretches, step_s: 1e-6, n_steps: 0 }
    }

    /// Goes on to a time by the method of Bogacki & Shampine (1989), whose steps are as long as they may be.
    fn until(
        &mut self,
        field: &Field<'_>,
        counts: &mut [f64],
        now_s: &mut f64,
        stop_s: f64,
    ) -> Result<(), SystemError> {
        let n = counts.len();
        let n_templates = field.layout.n_templates;
        let mut flows = Flows { done: vec![0.0; n_templates], ended: vec![0.0; n_templates] };
        let mut slopes = [vec![0.0; n], vec![0.0; n], vec![0.0; n], vec![0.0; n]];
        let mut tried = vec![0.0; n];
        while *now_s < stop_s {
            if self.n_steps > MOST_STEPS {
                return Err(SystemError::Method(
                    "the mean field needs more than 5e7 steps here; ssa takes fewer",
                ));
            }
            self.n_steps += 1;
            let step_s = self.step_s.min(stop_s - *now_s);
            let [k1, k2, k3, k4] = &mut slopes;
            field.slope(counts, k1, &mut flows);
            let at = |weights: [(&[f64], f64); 3], into: &mut [f64]| {
                for (i, value) in into.iter_mut().enumerate() {
                    *value = counts[i]
                        + step_s * weights.iter().map(|(slope, weight)| slope[i] * weight).sum::<f64>();
                }
            };
            at([(k1, 0.5), (k1, 0.0), (k1, 0.0)], &mut tried);
            field.slope(&tried, k2, &mut flows);
            at([(k2, 0.75), (k1, 0.0), (k1, 0.0)], &mut tried);
            field.slope(&tried, k3, &mut flows);
            at([(k1, 2.0 / 9.0), (k2, 1.0 / 3.0), (k3, 4.0 / 9.0)], &mut tried);
            field.slope(&tried, k4, &mut flows);
            let wrong = (0..n)
                .map(|i| {
                    let by = step_s * (-5.0 / 72.0 * k1[i] + k2[i] / 12.0 + k3[i] / 9.0 - k4[i] / 8.0).abs();
                    by / (TOLERANCE * (1.0 + counts[i].abs()))
                })
                .fold(0.0, f64::max);
            let is_taken = wrong <= 1.0 || step_s < 1e-9;
            if is_taken {
                for gathered in std::iter::once(&mut self.frame).chain(&mut self.stretches) {
                    gathered.add(field, *now_s, step_s, &tried, &flows);
                }
                // Steps of the state follow one another: only the one that holds this time is looked at.
                let middle_s = *now_s + 0.5 * step_s;
                let index = self.state.partition_point(|gathered| gathered.means.span_s[1] <= middle_s);
                if let Some(gathered) = self.state.get_mut(index) {
                    gathered.add(field, *now_s, step_s, &tried, &flows);
                }
                *now_s = if step_s >= stop_s - *now_s { stop_s } else { *now_s + step_s };
                for (count, tried) in counts.iter_mut().zip(&tried) {
                    *count = tried.max(0.0);
                }
            }
            let grow = 0.9 * wrong.max(1e-6).powf(-1.0 / 3.0);
            let wanted_s = step_s * grow.clamp(0.2, 3.0);
            // A step that a stop cut short says nothing of the next.
            self.step_s = if is_taken && step_s < self.step_s {
                self.step_s.min(wanted_s.max(step_s)).max(self.step_s * 0.5)
            } else {
                wanted_s
            };
        }
        Ok(())
    }

    fn run(self) -> Run {
        let means = |list: Vec<Gathered>| list.into_iter().map(Gathered::means).collect();
        Run {
            frame: self.frame.means(),
            distribution_at_op: Vec::new(),
            state: means(self.state),
            stretches: means(self.stretches),
            entries: Vec::new(),
            n_events: self.n_steps,
        }
    }
}
