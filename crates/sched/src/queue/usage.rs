//! How a job uses its turn: when the turn is over, and how long the storage waits for the job's next request.
//!
//! Two bounds keep a turn from shutting others out. A turn ends ([`QueueConfig::turn_s`]), and then the job queues behind the others of its
//! set. And the storage is idle for a job's sake only as long as that job has earned by being served ([`QueueConfig::idle_share`]): a program
//! that writes back to back is waited for while it sends its next request; one that pauses between its requests is not.

use super::sets::Set;
use super::{Exclusivity, LONGEST_TURN_S, Order, Queue, QueueConfig};
use crate::IoProfile;

/// Gaps in a turn may add up to this part of the time served in it, beside half the gap that ends a phase.
const LATE_SHARE: f64 = 1.0 / 8.0;

/// The storage may be idle for several jobs one after the other, but not longer than so many lulls without having been busy in between.
pub(super) const MOST_LULLS: f64 = 5.0;

#[derive(Clone, Copy, Debug)]
pub(super) struct Usage {
    /// In this turn: for how long it had requests with the storage, those under way left out.
    served_s: f64,
    /// Since when those under way are.
    since_s: f64,
    /// In this turn: for how long it had no request at all, delays of single requests left out.
    late_s: f64,
    /// For how long the storage may yet be idle for its sake.
    grace_s: f64,
    /// How long it took to send its next request, the last two times.
    gaps_s: [f64; 2],
    /// How long it was served before, the last time.
    last_served_s: f64,
}

impl Usage {
    pub(super) fn new(config: &QueueConfig) -> Self {
        Self {
            served_s: 0.0,
            since_s: 0.0,
            late_s: 0.0,
            grace_s: config.lull_s,
            gaps_s: [0.0; 2],
            last_served_s: 0.0,
        }
    }

    pub(super) fn begin_turn(&mut self, now_s: f64) {
        (self.served_s, self.late_s, self.since_s) = (0.0, 0.0, now_s);
    }

    pub(super) fn note_gap(&mut self, gap_s: f64) {
        // One late request does not make a job slow: of two gaps the shorter counts.
        self.late_s += gap_s.min(self.gaps_s[0]).max(0.0);
        self.gaps_s = [gap_s, self.gaps_s[0]];
    }

    pub(super) fn begin_service(&mut self, now_s: f64) {
        self.since_s = now_s;
    }

    pub(super) fn end_service(&mut self, now_s: f64, config: &QueueConfig) {
        let served_s = (now_s - self.since_s).max(0.0);
        self.served_s += served_s;
        self.last_served_s = served_s;
        if config.idle_share.is_finite() {
            self.grace_s = (self.grace_s + config.idle_share * served_s).min(config.lull_s);
        }
    }

    /// How long an idle storage waits for its next request: not at all if that would take more than it earns by being served, or if it will
    /// not come in time. One late request does not make a job slow, two do.
    fn grace_s(&self, most_s: f64, config: &QueueConfig) -> f64 {
        let grace_s = most_s.min(self.grace_s);
        let worth_s = grace_s.min(2.0 * config.idle_share * self.last_served_s);
        if self.gaps_s[0].min(self.gaps_s[1]) > worth_s { 0.0 } else { grace_s }
    }
}

impl Queue {
    #[inline]
    pub(super) fn has_turns_that_end(&self) -> bool {
        self.config.turn_s.is_finite()
            && self.config.order == Order::FirstCome
            && self.config.policy.is_exclusive_in_sets()
    }

    /// Moves jobs of a set whose turn is over behind those that wait; each at most once.
    pub(super) fn end_turns(&mut self, set: usize, now_s: f64) {
        for _ in 0..self.sets[set].n_jobs {
            let Set { waiting, holders, .. } = &self.sets[set];
            let is_strict = self.config.exclusivity == Exclusivity::Strict;
            let Some((_, first)) = (if is_strict { holders.first() } else { waiting.first() }) else {
                return;
            };
            let n_others = waiting.len() - usize::from(!self.jobs[first].requests.is_empty());
            if n_others == 0 || now_s < self.turn_ends_s(first) {
                return;
            }
            self.n_turns += 1;
            let turn = self.n_turns;
            let job = &mut self.jobs[first];
            let former = std::mem::replace(&mut job.key, turn);
            if let Some(phase) = &mut job.phase {
                phase.turn = turn;
            }
            job.usage.begin_turn(now_s);
            self.sets[set].waiting.rekey(&former, turn);
            self.sets[set].holders.rekey(&former, turn);
        }
    }

    /// When a job has been served for long enough, if it is served from now on; in the past if its turn is over.
    pub(super) fn turn_ends_s(&self, at: usize) -> f64 {
        if !self.has_turns_that_end() {
            return f64::INFINITY;
        }
        let job = &self.jobs[at];
        let Usage { served_s, since_s, late_s, .. } = job.usage;
        if late_s > job.gap_s / 2.0 + LATE_SHARE * served_s {
            return f64::NEG_INFINITY;
        }
        let half_s = |profile: IoProfile| profile.w_iter_s() / self.config.time_scale / 2.0;
        let limit_s = job.profile.map_or(self.config.turn_s, |profile| half_s(profile).min(LONGEST_TURN_S));
        match () {
            () if served_s >= limit_s => f64::NEG_INFINITY,
            () if job.n_in_flight > 0 => since_s + limit_s - served_s,
            () => f64::INFINITY,
        }
    }

    /// Until when the others of its set wait for the next request of a job that has none.
    pub(super) fn grace_ends_s(&self, holder: usize) -> f64 {
        let job = &self.jobs[holder];
        let most_s = job.gap_s.min(self.config.lull_s);
        // While others' requests keep the storage busy it costs nothing to wait.
        let is_bounded = self.n_in_flight == 0 && self.config.idle_share.is_finite();
        let grace_s = || job.usage.grace_s(most_s.min(self.idle_left_s), &self.config);
        job.last_active_s + if is_bounded { grace_s() } else { most_s }
    }

    /// Remembers that the storage is idle from now on while a request waits, and for whom.
    pub(super) fn note_idle_storage(&mut self, now_s: f64) {
        let Some(awaited) = self.awaited.take() else { return };
        if self.n_in_flight == 0 && self.idle_for.is_none() {
            self.idle_for = Some((self.jobs[awaited].id, now_s));
        }
    }

    /// The storage has something to do again: who was waited for has used up so much of its grace.
    #[inline]
    pub(super) fn charge_idle_storage(&mut self, now_s: f64) {
        if let Some((job, since_s)) = self.idle_for.take()
            && let Some(at) = self.job_of.get(job)
        {
            let idle_s = (now_s - since_s).max(0.0);
            let usage = &mut self.jobs[at].usage;
            usage.grace_s = (usage.grace_s - idle_s).max(0.0);
            self.idle_left_s = (self.idle_left_s - idle_s).max(0.0);
        }
    }

    /// The storage has served what it had, since it was last idle.
    #[inline]
    pub(super) fn earn_idle_time(&mut self, now_s: f64) {
        if self.config.idle_share.is_finite() {
            let earned_s = self.config.idle_share * (now_s - self.busy_since_s).max(0.0);
            self.idle_left_s = (self.idle_left_s + earned_s).min(MOST_LULLS * self.config.lull_s);
        }
    }
}
