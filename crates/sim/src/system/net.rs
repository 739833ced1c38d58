//! The net, event by event: exact stochastic simulation by the direct method (Gillespie, 1977).
//!
//! Requests stand in arrays, one for each place, and who is served is drawn evenly from its array: an event costs the same whether ten jobs run or
//! ten thousand. Times between bursts are sums of many exponential stages, drawn at once as the gamma distribution that such a sum has. What happens at a
//! known time cuts the step that would pass it, and the step is drawn anew: exponential times do not remember.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use iotide_num::SplitMix64;

use super::compiled::{Compiled, Kind, Station};
use super::description::{Target, WhatChanges};
use super::tally::{Sums, Tally};

/// After so many events the sum of the rates is made anew, so that roundings do not gather.
const EVENTS_A_SUM: u64 = 256;

/// Where so little is left of a rate that went, roundings would count: the sum is made anew.
const LEAST_LEFT: f64 = 1e-6;

/// A job that is there.
#[derive(Clone, Copy, Debug)]
struct Job {
    /// Which entry of the description it belongs to.
    group: u32,
    kind: u32,
    /// Requests that are out.
    out: u64,
    /// Requests of this burst that are not out yet.
    left: u64,
    /// Bursts it has still to do, this one included.
    bursts: u64,
    began_s: f64,
}

/// What happens at a known time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Timed {
    /// Sums are written down.
    Mark,
    /// Something changes; sums are written down before.
    Change(usize),
    /// The end.
    End,
}

/// The net, marked.
#[derive(Debug)]
pub(super) struct Net<'c> {
    compiled: &'c Compiled,
    stations: Vec<Station>,
    random: SplitMix64,
    now_s: f64,
    jobs: Vec<Job>,
    free: Vec<u32>,
    /// Jobs between bursts or not begun, by the time their burst begins; a time of 0 or more is ordered as its bits are.
    waiting: BinaryHeap<Reverse<(u64, u32)>>,
    /// By [`Kind::thinks_as`].
    thinking: Vec<Vec<u32>>,
    /// By target and [`Kind::operates_as`].
    at_op: Vec<Vec<Vec<u32>>>,
    n_at_op: Vec<usize>,
    /// By target and [`Kind::moves_as`].
    moving: Vec<Vec<Vec<u32>>>,
    n_moving: Vec<usize>,
    /// By target: tokens at operations over the requests that each stands for, summed; and streams over the bytes that each wants.
    op_weights: Vec<f64>,
    weights: Vec<f64>,
    /// Requests that no target can take.
    stranded: Vec<u32>,
    live: Vec<u32>,
    /// Operating by target, moving by target, thinking, arrivals.
    rates: Vec<f64>,
    /// Their sum.
    total: f64,
    tally: Tally,
    n_events: u64,
}

/// What came of a run.
#[derive(Debug)]
pub(super) struct Walked {
    /// What was written down, at each mark.
    pub(super) marks: Vec<Sums>,
    /// How many events there were.
    pub(super) n_events: u64,
    /// For how long so many requests were at operations in the frame.
    pub(super) distribution_s: Vec<f64>,
}

impl<'c> Net<'c> {
    pub(super) fn new(compiled: &'c Compiled, seed: u64) -> Self {
        let (n_kinds, n_targets) = (compiled.kinds.len(), compiled.stations.len());
        let mut net = Self {
            compiled,
            stations: compiled.stations.clone(),
            random: SplitMix64::new(seed),
            now_s: 0.0,
            jobs: Vec::new(),
            free: Vec::new(),
            waiting: BinaryHeap::new(),
            thinking: vec![Vec::new(); compiled.think_rates.len()],
            at_op: vec![vec![Vec::new(); compiled.per_grains.len()]; n_targets],
            n_at_op: vec![0; n_targets],
            moving: vec![vec![Vec::new(); compiled.per_bytes.len()]; n_targets],
            n_moving: vec![0; n_targets],
            op_weights: vec![0.0; n_targets],
            weights: vec![0.0; n_targets],
            stranded: Vec::new(),
            live: (0..n_targets as u32).collect(),
            rates: vec![0.0; 2 * n_targets + compiled.think_rates.len()],
            total: 0.0,
            tally: Tally::new(n_kinds, n_targets, compiled.groups.len()),
            n_events: 0,
        };
        net.rates.extend(compiled.arrivals.iter().map(|(_, per_s)| *per_s));
        net.total = net.rates.iter().sum();
        for (index, entry) in compiled.entries.iter().enumerate() {
            for _ in 0..entry.count {
                net.admit(index as u32, entry.start_s, entry.next_phase_s);
            }
        }
        net
    }

    /// Runs through what happens at known times, which ends with [`Timed::End`].
    pub(super) fn walk(mut self, timed: &[(f64, Timed)], frame_start_s: f64) -> Walked {
        let mut marks = Vec::with_capacity(timed.len());
        let mut timed = timed.iter().peekable();
        while let Some(&&(at_s, what)) = timed.peek() {
            let due_s = self.waiting.peek().map_or(f64::INFINITY, |Reverse((bits, _))| f64::from_bits(*bits));
            let stop_s = at_s.min(due_s);
            if !self.events_until(stop_s) {
                continue;
            }
            if due_s <= at_s {
                if let Some(Reverse((_, job))) = self.waiting.pop() {
                    self.begin(job);
                }
                continue;
            }
            timed.next();
            marks.push(self.tally.sums(at_s));
            if at_s == frame_start_s && what == Timed::Mark {
                self.tally.forget_distribution();
            }
            match what {
                Timed::Mark => {}
                Timed::Change(index) => self.change(index),
                Timed::End => break,
            }
        }
        Walked { marks, n_events: self.n_events, distribution_s: self.tally.distribution_s }
    }

    /// What happens by chance, until the clock stands at a time, or until a burst begins that is due before.
    fn events_until(&mut self, stop_s: f64) -> bool {
        let n_waiting = self.waiting.len();
        loop {
            if self.n_events.is_multiple_of(EVENTS_A_SUM) {
                self.total = self.rates.iter().sum();
            }
            let then_s = if self.total > 0.0 {
                self.now_s + self.random.exponential() / self.total
            } else {
                f64::INFINITY
            };
            if then_s >= stop_s {
                self.now_s = stop_s;
                return true;
            }
            let pick = self.random.unit() * self.total;
            self.n_events += 1;
            self.now_s = then_s;
            self.event(pick);
            // A job that began to compute may be due before.
            if self.waiting.len() != n_waiting {
                return false;
            }
        }
    }

    fn event(&mut self, mut pick: f64) {
        let mut chosen = None;
        for (channel, rate) in self.rates.iter().enumerate() {
            // What rounding leaves over belongs to the last that can happen.
            if *rate > 0.0 {
                chosen = Some(channel);
                if pick < *rate {
                    break;
                }
                pick -= rate;
            }
        }
        let Some(chosen) = chosen else {
            // The sum was what rounding had left of rates that are all 0 again.
            self.total = 0.0;
            self.n_events -= 1;
            return;
        };
        let share = (pick / self.rates[chosen]).min(1.0);
        let (n_thinking, n_targets) = (self.thinking.len(), self.at_op.len());
        if chosen < n_targets {
            let pick = share * self.op_weights[chosen];
            let job = take_weighted(&mut self.at_op[chosen], &self.compiled.per_grains, pick);
            self.op_changed(chosen, self.jobs[job as usize].kind, false);
            if !self.move_to(chosen, job) {
                self.done(job);
            }
        } else if chosen < 2 * n_targets {
            self.moved(chosen - n_targets, share);
        } else if chosen < 2 * n_targets + n_thinking {
            let class = chosen - 2 * n_targets;
            let job = take(&mut self.thinking[class], share);
            self.think_changed(class);
            self.issue(job);
        } else {
            let group = self.compiled.arrivals[chosen - 2 * n_targets - n_thinking].0;
            self.admit(group, self.now_s, None);
        }
    }

    /// Sets how often something happens.
    #[inline]
    fn set_rate(&mut self, channel: usize, rate: f64) {
        let before = std::mem::replace(&mut self.rates[channel], rate);
        self.total += rate - before;
        if self.total < LEAST_LEFT * before {
            self.total = self.rates.iter().sum();
        }
    }

    /// A stream at a target has got what it wanted.
    fn moved(&mut self, target: usize, share: f64) {
        let pick = share * self.weights[target];
        let job = take_weighted(&mut self.moving[target], &self.compiled.per_bytes, pick);
        self.move_changed(target, self.jobs[job as usize].kind, false);
        self.done(job);
    }

    fn kind(&self, job: u32) -> &'c Kind {
        &self.compiled.kinds[self.jobs[job as usize].kind as usize]
    }

    /// A job comes; its first burst begins at a known time, or after it has computed.
    fn admit(&mut self, group: u32, start_s: f64, next_phase_s: Option<f64>) {
        let kind_index = self.compiled.groups[group as usize];
        let kind = &self.compiled.kinds[kind_index as usize];
        let job = Job { group, kind: kind_index, out: 0, left: 0, bursts: kind.bursts, began_s: 0.0 };
        let number = match self.free.pop() {
            Some(number) => {
                self.jobs[number as usize] = job;
                number
            }
            None => {
                self.jobs.push(job);
                (self.jobs.len() - 1) as u32
            }
        };
        let after_s = match next_phase_s {
            Some(after_s) => after_s,
            None if kind.starts_with_io => 0.0,
            None => kind.between_s(&mut self.random),
        };
        let at_s = start_s + after_s;
        if at_s <= self.now_s { self.begin(number) } else { self.wait(number, at_s) }
    }

    fn wait(&mut self, job: u32, until_s: f64) {
        self.waiting.push(Reverse((until_s.to_bits(), job)));
    }

    /// A burst begins.
    fn begin(&mut self, number: u32) {
        let kind = self.kind(number);
        let job = &mut self.jobs[number as usize];
        job.began_s = self.now_s;
        job.out = kind.in_flight;
        job.left = kind.requests - kind.in_flight;
        for _ in 0..kind.in_flight {
            self.issue(number);
        }
    }

    /// A request goes to a target that lives.
    fn issue(&mut self, job: u32) {
        let target = match self.live.len() {
            0 => {
                self.stranded.push(job);
                return;
            }
            1 => self.live[0] as usize,
            n => self.live[self.random.below(n)] as usize,
        };
        if self.stations[target].op_rate > 0.0 {
            let kind = self.jobs[job as usize].kind;
            self.at_op[target][self.compiled.kinds[kind as usize].operates_as as usize].push(job);
            self.op_changed(target, kind, true);
        } else if !self.move_to(target, job) {
            self.done(job);
        }
    }

    /// A request begins to move its bytes; `false`: that takes no time.
    fn move_to(&mut self, target: usize, job: u32) -> bool {
        let kind = self.jobs[job as usize].kind;
        if !self.stations[target].moves || self.compiled.kinds[kind as usize].per_byte == f64::INFINITY {
            return false;
        }
        self.moving[target][self.compiled.kinds[kind as usize].moves_as as usize].push(job);
        self.move_changed(target, kind, true);
        true
    }

    /// A request is done.
    fn done(&mut self, number: u32) {
        let kind = self.kind(number);
        let job = &mut self.jobs[number as usize];
        let group = job.group as usize;
        self.tally.completed[group] += 1;
        if job.left > 0 {
            if kind.has_end {
                job.left -= 1;
            }
            if kind.think_rate > 0.0 {
                let class = kind.thinks_as as usize;
                self.thinking[class].push(number);
                self.think_changed(class);
            } else {
                self.issue(number);
            }
            return;
        }
        job.out -= 1;
        if job.out > 0 {
            return;
        }
        self.tally.burst(group, self.now_s - job.began_s);
        if job.bursts != u64::MAX {
            job.bursts -= 1;
        }
        if job.bursts == 0 {
            self.free.push(number);
            return;
        }
        let at_s = self.now_s + kind.between_s(&mut self.random);
        self.wait(number, at_s);
    }

    #[inline]
    fn think_changed(&mut self, class: usize) {
        let rate = self.compiled.think_rates[class] * self.thinking[class].len() as f64;
        self.set_rate(2 * self.at_op.len() + class, rate);
    }

    #[inline]
    fn op_changed(&mut self, target: usize, kind: u32, is_more: bool) {
        let station = &self.stations[target];
        let n = &mut self.n_at_op[target];
        let (by, after) = if is_more { (1.0, *n + 1) } else { (-1.0, *n) };
        *n = if is_more { *n + 1 } else { *n - 1 };
        let n = *n;
        let weight = weight_of(&self.at_op[target], &self.compiled.per_grains);
        self.op_weights[target] = weight;
        // Beyond the servers one more waits, and the servers are as they were.
        let is_beyond = after > station.servers;
        let busy = if is_beyond { None } else { Some(n as f64 * station.per_server) };
        self.tally.at_op(self.now_s, target, kind as usize, by, busy);
        if is_beyond && self.compiled.per_grains.len() == 1 {
            return;
        }
        // All are served evenly, so that tokens of any grain hold the servers as their requests would.
        let served = if n > station.servers { station.servers as f64 / n as f64 } else { 1.0 };
        let rate = station.op_rate * served * weight;
        self.set_rate(target, rate);
    }

    #[inline]
    fn move_changed(&mut self, target: usize, kind: u32, is_more: bool) {
        let n = &mut self.n_moving[target];
        *n = if is_more { *n + 1 } else { *n - 1 };
        let n = *n;
        let weight = weight_of(&self.moving[target], &self.compiled.per_bytes);
        self.weights[target] = weight;
        let station = &self.stations[target];
        let rate = if n == 0 { 0.0 } else { station.share_bps(n) * weight };
        self.tally.moving(
            self.now_s,
            target,
            kind as usize,
            if is_more { 1.0 } else { -1.0 },
            station.busy(n),
        );
        self.set_rate(self.at_op.len() + target, rate);
    }

    fn change(&mut self, index: usize) {
        match &self.compiled.changes[index] {
            WhatChanges::Lose(target) => self.lose(*target),
            WhatChanges::Restore(target) => {
                if !self.live.contains(&(*target as u32)) {
                    self.live.push(*target as u32);
                    self.live.sort_unstable();
                }
                for job in std::mem::take(&mut self.stranded) {
                    self.issue(job);
                }
            }
            WhatChanges::Add { count, .. } => {
                let group = self.compiled.group_of_change(index);
                for _ in 0..*count {
                    self.admit(group, self.now_s, None);
                }
            }
            WhatChanges::Set(target, figures) => self.set(*target, figures),
        }
    }

    /// A target is gone; its requests are issued anew.
    fn lose(&mut self, target: usize) {
        self.live.retain(|live| *live as usize != target);
        for job in self.emptied(target) {
            self.issue(job);
        }
    }

    /// Takes all requests from a target.
    fn emptied(&mut self, target: usize) -> Vec<u32> {
        let mut jobs = Vec::new();
        for class in 0..self.compiled.per_grains.len() {
            while let Some(job) = self.at_op[target][class].pop() {
                self.op_changed(target, self.jobs[job as usize].kind, false);
                jobs.push(job);
            }
        }
        for class in 0..self.compiled.per_bytes.len() {
            while let Some(job) = self.moving[target][class].pop() {
                self.move_changed(target, self.jobs[job as usize].kind, false);
                jobs.push(job);
            }
        }
        jobs
    }

    /// A target becomes another; its requests begin again there.
    fn set(&mut self, target: usize, figures: &Target) {
        let jobs = self.emptied(target);
        self.stations[target] = Station::of(figures);
        for job in jobs {
            self.issue(job);
        }
    }
}

/// How many there are in all, each counted as those of its class are.
#[inline]
fn weight_of(classes: &[Vec<u32>], weights: &[f64]) -> f64 {
    classes.iter().zip(weights).map(|(jobs, weight)| jobs.len() as f64 * weight).sum()
}

/// Takes the one that so much weight of the way through is.
#[inline]
fn take_weighted(classes: &mut [Vec<u32>], weights: &[f64], mut pick: f64) -> u32 {
    let (mut chosen, mut of_chosen) = (0, 1.0);
    for (class, (jobs, weight)) in classes.iter().zip(weights).enumerate() {
        if jobs.is_empty() {
            continue;
        }
        (chosen, of_chosen) = (class, jobs.len() as f64 * weight);
        if pick < of_chosen {
            break;
        }
        pick -= of_chosen;
    }
    take(&mut classes[chosen], pick / of_chosen)
}

/// Takes the one that a share of the way through is.
fn take(jobs: &mut Vec<u32>, share: f64) -> u32 {
    let index = ((share * jobs.len() as f64) as usize).min(jobs.len() - 1);
    jobs.swap_remove(index)
}
