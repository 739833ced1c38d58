//! The net, event by event: exact stochastic simulation by the direct method (Gillespie, 1977).
//!
//! Requests stand in arrays, one for each place, and who is served is drawn evenly from its array: an event costs the same whether ten jobs run or
//! ten thousand. Times between bursts are sums of many exponential stages, drawn at once as the gamma distribution that such a sum has. What happens at a
//! known time cuts the step that would pass it, and the step is drawn anew: exponential times do not remember.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use iotide_num::SplitMix64;

use super::compiled::{Compiled, Kind, Level, Station};
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
    /// Which of [`Compiled::levels`] its next token is of.
    level: u32,
    /// Its tokens are this one and the next ones, as many as it has in flight.
    first_token: u32,
    /// Bursts it has still to do, this one included.
    bursts: u64,
    began_s: f64,
}

/// Some requests of a job that go together.
#[derive(Clone, Copy, Debug)]
struct Token {
    job: u32,
    /// Which of [`Compiled::levels`] it is of.
    level: u32,
    place: Place,
    /// Where it stands among those at its place.
    index: u32,
}

/// Where a token is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// Nowhere: all that it stood for is done.
    Nowhere,
    /// With others that think as long.
    Thinking,
    /// At the operations of a target.
    AtOp(u32),
    /// It moves bytes of a target.
    Moving(u32),
    /// No target can take it.
    Stranded,
}

/// Event at a known time.
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
    /// Those that left, by kind.
    free: Vec<Vec<u32>>,
    /// Of all jobs that are there.
    tokens: Vec<Token>,
    /// Jobs between bursts or not begun, by the time their burst begins; a time of 0 or more is ordered as its bits are.
    waiting: BinaryHeap<Reverse<(u64, u32)>>,
    /// By [`Level::thinks_as`].
    thinking: Vec<Vec<u32>>,
    /// By target and, within it, [`Level::operates_as`].
    at_op: Vec<Vec<u32>>,
    n_at_op: Vec<usize>,
    /// By target and, within it, [`Level::moves_as`].
    moving: Vec<Vec<u32>>,
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

/// Result of a run.
#[derive(Debug)]
pub(super) struct Walked {
    /// Sums that were written down, at each mark.
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
            free: vec![Vec::new(); n_kinds],
            tokens: Vec::new(),
            waiting: BinaryHeap::new(),
            thinking: vec![Vec::new(); compiled.think_rates.len()],
            at_op: vec![Vec::new(); n_targets * compiled.grains.len()],
            n_at_op: vec![0; n_targets],
            moving: vec![Vec::new(); n_targets * compiled.bytes.len()],
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

    /// Runs through what happens at known times, which ends with [`Timed::End`]; `None` if there are more than so many events, give or take a few.
    pub(super) fn walk(
        mut self,
        timed: &[(f64, Timed)],
        frame_start_s: f64,
        most_events: u64,
    ) -> Option<Walked> {
        let mut marks = Vec::with_capacity(timed.len());
        let mut timed = timed.iter().peekable();
        while let Some(&&(at_s, what)) = timed.peek() {
            let due_s = self.waiting.peek().map_or(f64::INFINITY, |Reverse((bits, _))| f64::from_bits(*bits));
            let stop_s = at_s.min(due_s);
            if !self.events_until(stop_s, most_events) {
                if self.n_events >= most_events {
                    return None;
                }
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
        Some(Walked { marks, n_events: self.n_events, distribution_s: self.tally.distribution_s })
    }

    /// Simulates random events until the clock stands at a time, or until a burst begins that is due before or there were too many events.
    fn events_until(&mut self, stop_s: f64, most_events: u64) -> bool {
        let n_waiting = self.waiting.len();
        loop {
            if self.n_events.is_multiple_of(EVENTS_A_SUM) {
                if self.n_events >= most_events {
                    return false;
                }
                self.sum_anew();
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
        let (n_thinking, n_targets) = (self.thinking.len(), self.stations.len());
        if chosen < n_targets {
            self.operated(chosen, pick);
        } else if chosen < 2 * n_targets {
            self.moved(chosen - n_targets, pick);
        } else if chosen < 2 * n_targets + n_thinking {
            let class = chosen - 2 * n_targets;
            let among = &mut self.thinking[class];
            let at = index_at(among, pick / self.compiled.think_rates[class]);
            let token = take(among, at, &mut self.tokens);
            self.think_changed(class);
            self.issue(token);
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

    /// An operation of a target is done, the one that so much of their rate of the way through is.
    fn operated(&mut self, target: usize, pick: f64) {
        let Compiled { grains, .. } = self.compiled;
        let pick = pick * self.stations[target].operation_s(self.n_at_op[target]);
        let classes = &mut self.at_op[target * grains.len()..][..grains.len()];
        let (class, at) = weighted(classes, grains, pick);
        let token = take(&mut classes[class], at, &mut self.tokens);
        self.op_changed(target, token, false);
        if !self.move_to(target, token) {
            self.done(token);
        }
    }

    /// A stream at a target has got what it wanted, the one that so much of their rate of the way through is.
    fn moved(&mut self, target: usize, pick: f64) {
        let Compiled { bytes, .. } = self.compiled;
        let pick = pick * self.stations[target].byte_s(self.n_moving[target]);
        let classes = &mut self.moving[target * bytes.len()..][..bytes.len()];
        let (class, at) = weighted(classes, bytes, pick);
        let token = take(&mut classes[class], at, &mut self.tokens);
        self.move_changed(target, token, false);
        self.done(token);
    }

    /// Makes all sums anew, so that roundings do not gather.
    fn sum_anew(&mut self) {
        self.total = self.rates.iter().sum();
        let Compiled { grains, bytes, .. } = self.compiled;
        for (weight, classes) in self.op_weights.iter_mut().zip(self.at_op.chunks(grains.len().max(1))) {
            *weight = weight_of(classes, grains);
        }
        for (weight, classes) in self.weights.iter_mut().zip(self.moving.chunks(bytes.len().max(1))) {
            *weight = weight_of(classes, bytes);
        }
    }

    fn kind(&self, job: u32) -> &'c Kind {
        &self.compiled.kinds[self.jobs[job as usize].kind as usize]
    }

    #[inline]
    fn level(&self, token: u32) -> &'c Level {
        &self.compiled.levels[self.tokens[token as usize].level as usize]
    }

    /// Notes where a token is.
    #[inline]
    fn put(&mut self, token: u32, place: Place, index: usize) {
        let known = &mut self.tokens[token as usize];
        known.place = place;
        known.index = index as u32;
    }

    /// A job comes; its first burst begins at a known time, or after it has computed.
    fn admit(&mut self, group: u32, start_s: f64, next_phase_s: Option<f64>) {
        let kind_index = self.compiled.groups[group as usize];
        let kind = &self.compiled.kinds[kind_index as usize];
        let mut job = Job {
            group,
            kind: kind_index,
            out: 0,
            left: 0,
            level: kind.first_level,
            first_token: 0,
            bursts: kind.bursts,
            began_s: 0.0,
        };
        // Who left before leaves its tokens to another of its kind.
        let number = match self.free[kind_index as usize].pop() {
            Some(number) => {
                job.first_token = self.jobs[number as usize].first_token;
                self.jobs[number as usize] = job;
                number
            }
            None => {
                let number = self.jobs.len() as u32;
                job.first_token = self.tokens.len() as u32;
                let token = Token { job: number, level: kind.first_level, place: Place::Nowhere, index: 0 };
                self.tokens.extend(std::iter::repeat_n(token, kind.in_flight as usize));
                self.jobs.push(job);
                number
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
        job.left = kind.requests;
        job.level = kind.first_level;
        let first = job.first_token;
        for token in first..first + kind.in_flight as u32 {
            self.renew(token, kind);
            self.issue(token);
        }
    }

    /// A token stands for the next requests of its job, which has some left.
    #[inline]
    fn renew(&mut self, token: u32, kind: &'c Kind) {
        let number = self.tokens[token as usize].job;
        let job = &mut self.jobs[number as usize];
        let levels = &self.compiled.levels;
        if job.left < levels[job.level as usize].least_left {
            self.refine(number, kind);
        }
        let job = &mut self.jobs[number as usize];
        if job.left != u64::MAX {
            job.left -= levels[job.level as usize].grain;
        }
        let known = &mut self.tokens[token as usize];
        known.level = job.level;
        known.place = Place::Nowhere;
    }

    /// From now on tokens of a job stand for fewer requests. What those that are out would still have done beyond that goes back to what is left: as their times are exponential, each
    /// has all that it stands for before it.
    #[cold]
    fn refine(&mut self, number: u32, kind: &'c Kind) {
        loop {
            let Job { left, level, first_token, .. } = self.jobs[number as usize];
            let levels = &self.compiled.levels;
            if level == kind.last_level || left >= levels[level as usize].least_left {
                return;
            }
            let finer = &levels[level as usize + 1];
            let mut back = 0;
            for token in first_token..first_token + kind.in_flight as u32 {
                let Token { place, level: had, .. } = self.tokens[token as usize];
                if place != Place::Nowhere && had <= level {
                    back += levels[had as usize].grain - finer.grain;
                    self.relevel(token, level + 1);
                }
            }
            let job = &mut self.jobs[number as usize];
            job.level = level + 1;
            job.left += back;
        }
    }

    /// A token that is out stands for another number of requests.
    fn relevel(&mut self, token: u32, level: u32) {
        let Token { place, index, .. } = self.tokens[token as usize];
        let had = self.level(token);
        match place {
            Place::Nowhere | Place::Stranded => self.tokens[token as usize].level = level,
            Place::Thinking => {
                let Some(class) = had.thinks_as.map(|class| class as usize) else { return };
                take(&mut self.thinking[class], index as usize, &mut self.tokens);
                self.think_changed(class);
                self.tokens[token as usize].level = level;
                self.think(token);
            }
            Place::AtOp(target) => {
                let target = target as usize;
                let class = target * self.compiled.grains.len() + had.operates_as as usize;
                take(&mut self.at_op[class], index as usize, &mut self.tokens);
                self.op_changed(target, token, false);
                self.tokens[token as usize].level = level;
                self.operate(target, token);
            }
            Place::Moving(target) => {
                let target = target as usize;
                let Some(class) = had.moves_as else { return };
                let class = target * self.compiled.bytes.len() + class as usize;
                take(&mut self.moving[class], index as usize, &mut self.tokens);
                self.move_changed(target, token, false);
                self.tokens[token as usize].level = level;
                self.move_to(target, token);
            }
        }
    }

    /// A request goes to a target that lives.
    fn issue(&mut self, token: u32) {
        let target = match self.live.len() {
            0 => {
                self.put(token, Place::Stranded, 0);
                self.stranded.push(token);
                return;
            }
            1 => self.live[0] as usize,
            n => self.live[self.random.below(n)] as usize,
        };
        if self.stations[target].op_rate > 0.0 {
            self.operate(target, token);
        } else if !self.move_to(target, token) {
            self.done(token);
        }
    }

    fn operate(&mut self, target: usize, token: u32) {
        let class = target * self.compiled.grains.len() + self.level(token).operates_as as usize;
        self.put(token, Place::AtOp(target as u32), self.at_op[class].len());
        self.at_op[class].push(token);
        self.op_changed(target, token, true);
    }

    fn think(&mut self, token: u32) {
        let Some(class) = self.level(token).thinks_as.map(|class| class as usize) else { return };
        self.put(token, Place::Thinking, self.thinking[class].len());
        self.thinking[class].push(token);
        self.think_changed(class);
    }

    /// A request begins to move its bytes; `false`: that takes no time.
    fn move_to(&mut self, target: usize, token: u32) -> bool {
        let Some(class) = self.level(token).moves_as.filter(|_| self.stations[target].moves) else {
            return false;
        };
        let class = target * self.compiled.bytes.len() + class as usize;
        self.put(token, Place::Moving(target as u32), self.moving[class].len());
        self.moving[class].push(token);
        self.move_changed(target, token, true);
        true
    }

    /// Requests are done.
    fn done(&mut self, token: u32) {
        let Token { job: number, level, .. } = self.tokens[token as usize];
        let kind = self.kind(number);
        self.tokens[token as usize].place = Place::Nowhere;
        let job = &mut self.jobs[number as usize];
        let (group, kind_index) = (job.group as usize, job.kind as usize);
        self.tally.completed[group] += self.compiled.levels[level as usize].grain;
        // At the end, what is out is as fine as can be.
        if job.left == 0 {
            self.refine(number, kind);
        }
        let job = &mut self.jobs[number as usize];
        if job.left > 0 {
            self.renew(token, kind);
            if self.level(token).thinks_as.is_some() {
                self.think(token);
            } else {
                self.issue(token);
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
            self.free[kind_index].push(number);
            return;
        }
        let at_s = self.now_s + kind.between_s(&mut self.random);
        self.wait(number, at_s);
    }

    #[inline]
    fn think_changed(&mut self, class: usize) {
        let rate = self.compiled.think_rates[class] * self.thinking[class].len() as f64;
        self.set_rate(2 * self.stations.len() + class, rate);
    }

    #[inline]
    fn op_changed(&mut self, target: usize, token: u32, is_more: bool) {
        let Level { kind, per_grain, .. } = *self.level(token);
        let station = &self.stations[target];
        let (n, weight) = (&mut self.n_at_op[target], &mut self.op_weights[target]);
        let (by, after) = if is_more { (1.0, *n + 1) } else { (-1.0, *n) };
        changed(n, weight, per_grain, is_more);
        let (n, weight) = (*n, *weight);
        // Beyond the servers one more waits, and the servers are as they were.
        let is_beyond = after > station.servers;
        let busy = if is_beyond { None } else { Some(n as f64 * station.per_server) };
        self.tally.at_op(self.now_s, target, kind as usize, by, busy);
        if is_beyond && self.compiled.grains.len() == 1 {
            return;
        }
        // All are served evenly, so that tokens of any grain hold the servers as their requests would.
        let served = if n > station.servers { station.servers as f64 / n as f64 } else { 1.0 };
        let rate = station.op_rate * served * weight;
        self.set_rate(target, rate);
    }

    #[inline]
    fn move_changed(&mut self, target: usize, token: u32, is_more: bool) {
        let Level { kind, per_byte, moves_as: Some(_), .. } = *self.level(token) else { return };
        let (n, weight) = (&mut self.n_moving[target], &mut self.weights[target]);
        changed(n, weight, per_byte, is_more);
        let (n, weight) = (*n, *weight);
        let streams = self.stations[target].streams(n);
        let by = if is_more { 1.0 } else { -1.0 };
        self.tally.moving(self.now_s, target, kind as usize, by, streams.busy);
        self.set_rate(self.stations.len() + target, streams.each_bps * weight);
    }

    fn change(&mut self, index: usize) {
        match &self.compiled.changes[index] {
            WhatChanges::Lose(target) => self.lose(*target),
            WhatChanges::Restore(target) => {
                if !self.live.contains(&(*target as u32)) {
                    self.live.push(*target as u32);
                    self.live.sort_unstable();
                }
                for token in std::mem::take(&mut self.stranded) {
                    self.issue(token);
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
        for token in self.emptied(target) {
            self.issue(token);
        }
    }

    /// Takes all requests from a target.
    fn emptied(&mut self, target: usize) -> Vec<u32> {
        let mut tokens = Vec::new();
        let (n_grains, n_bytes) = (self.compiled.grains.len(), self.compiled.bytes.len());
        for class in target * n_grains..(target + 1) * n_grains {
            while let Some(token) = self.at_op[class].pop() {
                self.op_changed(target, token, false);
                tokens.push(token);
            }
        }
        for class in target * n_bytes..(target + 1) * n_bytes {
            while let Some(token) = self.moving[class].pop() {
                self.move_changed(target, token, false);
                tokens.push(token);
            }
        }
        for token in &tokens {
            self.tokens[*token as usize].place = Place::Nowhere;
        }
        tokens
    }

    /// A target becomes another; its requests begin again there.
    fn set(&mut self, target: usize, figures: &Target) {
        let tokens = self.emptied(target);
        self.stations[target] = Station::of(figures);
        for token in tokens {
            self.issue(token);
        }
    }
}

/// One more is there, or one fewer, of such a weight.
#[inline]
fn changed(n: &mut usize, sum: &mut f64, weight: f64, is_more: bool) {
    if is_more {
        *n += 1;
        *sum += weight;
    } else {
        *n -= 1;
        // What rounding leaves of nothing is nothing.
        *sum = if *n == 0 { 0.0 } else { *sum - weight };
    }
}

/// How many there are in all, each counted as 1 over the size of those of its class.
#[inline]
fn weight_of(classes: &[Vec<u32>], sizes: &[f64]) -> f64 {
    classes.iter().zip(sizes).map(|(tokens, size)| tokens.len() as f64 / size).sum()
}

/// The class and the index of the one that so much weight of the way through is; each weighs 1 over the size of those of its class.
#[inline]
fn weighted(classes: &[Vec<u32>], sizes: &[f64], mut pick: f64) -> (usize, usize) {
    let mut chosen = (0, 0);
    for (class, (tokens, size)) in classes.iter().zip(sizes).enumerate() {
        if tokens.is_empty() {
            continue;
        }
        let places = pick * size;
        chosen = (class, index_at(tokens, places));
        if places < tokens.len() as f64 {
            break;
        }
        pick -= tokens.len() as f64 / size;
    }
    chosen
}

/// The index of the one that so many are before; the last if there are too few.
#[inline]
fn index_at(tokens: &[u32], places: f64) -> usize {
    (places as usize).min(tokens.len() - 1)
}

/// Takes one out; the last takes its place.
#[inline]
fn take(among: &mut Vec<u32>, index: usize, tokens: &mut [Token]) -> u32 {
    let taken = among.swap_remove(index);
    if let Some(moved) = among.get(index) {
        tokens[*moved as usize].index = index as u32;
    }
    taken
}
