//! Sets, and whose turn it is among them.

use super::{Credit, Exclusivity, Order, Ordered, Queue};
use crate::SetId;

#[derive(Clone, Debug)]
pub(super) struct Set {
    pub(super) id: SetId,
    pub(super) priority: f64,
    pub(super) n_jobs: usize,
    /// Jobs with requests, in the order they are served.
    pub(super) waiting: Ordered<u64, usize>,
    /// [`Exclusivity::Strict`]: jobs in a phase, in that order; those without requests as long as they may be waited for.
    pub(super) holders: Ordered<u64, usize>,
    /// [`Credit::Bytes`]: what it has been served over its priority, or where the others are if it was idle.
    pub(super) finish: f64,
    /// Which rest `finish` counts from.
    pub(super) n_rests: u64,
}

/// When a set's turn comes: sets are ordered as the fields are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    pub(super) finish: u64,
    pub(super) higher_first: u64,
    pub(super) set: usize,
}

impl Queue {
    pub(super) fn enter_set(&mut self, id: SetId, priority: f64) -> usize {
        if let Some(&at) = self.set_of.get(&id) {
            self.sets[at].n_jobs += 1;
            return at;
        }
        let set = Set {
            id,
            priority,
            n_jobs: 1,
            waiting: Ordered::new(),
            holders: Ordered::new(),
            finish: 0.0,
            n_rests: self.n_rests,
        };
        let at = match self.free_sets.pop() {
            Some(at) => {
                self.sets[at] = set;
                at
            }
            None => {
                self.sets.push(set);
                self.sets.len() - 1
            }
        };
        self.set_of.insert(id, at);
        at
    }

    pub(super) fn leave_set(&mut self, job: usize) {
        let at = self.jobs[job].set;
        let set = &mut self.sets[at];
        set.n_jobs -= 1;
        if set.n_jobs == 0 {
            self.set_of.remove(&set.id);
            self.free_sets.push(at);
        }
    }

    /// The job has requests: it queues in its set, and the set among the sets.
    #[inline]
    pub(super) fn join(&mut self, at: usize) {
        let job = &mut self.jobs[at];
        job.key = match (self.config.policy.is_exclusive_in_sets(), self.config.order) {
            (false, _) => job.requests[0].seq,
            (true, Order::Id) => job.id.0,
            (true, Order::FirstCome) => job.phase.map_or(0, |phase| phase.turn),
        };
        let set_at = job.set;
        let set = &mut self.sets[set_at];
        set.waiting.insert(job.key, at);
        if self.config.exclusivity == Exclusivity::Strict {
            set.holders.insert(job.key, at);
        }
        if set.waiting.len() == 1 {
            if set.n_rests != self.n_rests {
                set.n_rests = self.n_rests;
                set.finish = 0.0;
            }
            set.finish = set.finish.max(self.virtual_time);
            self.turns.insert(self.turn_of(set_at), ());
        }
    }

    /// The job has no requests any more, or belongs elsewhere.
    #[inline]
    pub(super) fn part(&mut self, at: usize) {
        let job = &self.jobs[at];
        let set = &mut self.sets[job.set];
        set.waiting.remove(&job.key);
        if set.waiting.is_empty() {
            let turn = self.turn_of(self.jobs[at].set);
            self.turns.remove(&turn);
        }
    }

    /// When the turn of a set comes.
    #[inline]
    pub(super) fn turn_of(&self, at: usize) -> Turn {
        let set = &self.sets[at];
        // Numbers that are not negative are ordered as their bits are.
        let finish = match self.config.credit {
            Credit::Requests => 0,
            Credit::Bytes => set.finish.to_bits(),
        };
        Turn { finish, higher_first: !set.priority.to_bits(), set: at }
    }

    /// The job whose turn it is by credit and order.
    #[inline]
    pub(super) fn in_turn(&mut self, now_s: f64) -> Option<usize> {
        match self.config.credit {
            Credit::Bytes if self.config.exclusivity == Exclusivity::Relaxed => {
                // Whoever waits is free.
                let (turn, ()) = self.turns.first()?;
                self.free_job(turn.set, now_s)
            }
            Credit::Bytes => {
                let (_, job) = self.first_free(None, now_s)?;
                Some(job)
            }
            Credit::Requests if self.turns.len() == 1 => {
                // Nobody to take turns with: the credit of the least is one.
                let (turn, ()) = self.turns.first()?;
                let job = self.free_job(turn.set, now_s)?;
                let left = self.current.filter(|(of, _)| *of == turn).map_or(0, |(_, left)| left);
                self.current = Some((turn, left.saturating_sub(1)));
                Some(job)
            }
            Credit::Requests => {
                if let Some((turn, left)) = self.current
                    && left > 0
                    && self.turns.contains(&turn)
                    && let Some(job) = self.free_job(turn.set, now_s)
                {
                    self.current = Some((turn, left - 1));
                    return Some(job);
                }
                let after = self.current.map(|(turn, _)| turn);
                let (turn, job) = self.first_free(after, now_s)?;
                let least = self.turns.last().map_or(1.0, |(turn, ())| self.sets[turn.set].priority);
                // To the nearest; `round` is a call on machines that must not be newer than they are.
                let credit = (self.sets[turn.set].priority / least + 0.5) as u64;
                self.current = Some((turn, credit.max(1) - 1));
                Some(job)
            }
        }
    }

    /// The first set after a turn, all around, one of whose jobs may be served, and that job.
    #[inline]
    pub(super) fn first_free(&mut self, after: Option<Turn>, now_s: f64) -> Option<(Turn, usize)> {
        let mut turn = self.turn_after(after)?;
        for _ in 0..self.turns.len() {
            if let Some(job) = self.free_job(turn.set, now_s) {
                return Some((turn, job));
            }
            turn = self.turn_after(Some(turn))?;
        }
        None
    }

    /// The turn after another, all around.
    #[inline]
    pub(super) fn turn_after(&self, turn: Option<Turn>) -> Option<Turn> {
        let next = turn.and_then(|turn| self.turns.after(&turn));
        next.or_else(|| self.turns.first()).map(|(turn, ())| turn)
    }

    /// The job of a set that may be served now.
    #[inline]
    pub(super) fn free_job(&mut self, set: usize, now_s: f64) -> Option<usize> {
        if self.config.exclusivity == Exclusivity::Strict {
            return self.strictly_free_job(set, now_s);
        }
        if self.has_turns_that_end() {
            self.end_turns(set, now_s);
        }
        self.sets[set].waiting.first().map(|(_, job)| job)
    }

    fn strictly_free_job(&mut self, set: usize, now_s: f64) -> Option<usize> {
        if self.has_turns_that_end() {
            self.end_turns(set, now_s);
        }
        let mut next = self.sets[set].holders.first();
        while let Some((key, holder)) = next {
            let job = &self.jobs[holder];
            if !job.requests.is_empty() {
                return Some(holder);
            }
            let is_served = job.n_in_flight > 0;
            if now_s < if is_served { self.turn_ends_s(holder) } else { self.grace_ends_s(holder) } {
                self.awaited = Some(holder);
                return None;
            }
            let idle_s = if is_served { 0.0 } else { now_s - job.last_active_s };
            let (is_over, is_late) = (idle_s >= job.gap_s, idle_s >= self.config.lull_s);
            next = self.sets[set].holders.after(&key);
            if is_over {
                self.leave_phase(holder);
            } else if is_late {
                // Nobody waits for it any more, whatever becomes of the others. With its next request it is back in its place; until then
                // it is not looked at again and again.
                self.sets[set].holders.remove(&key);
            }
        }
        None
    }
}
