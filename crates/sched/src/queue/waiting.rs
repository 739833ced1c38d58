//! Jobs with requests by how long they have not been served, so that none starves.

use super::{Ageing, Queue};

impl Queue {
    /// The job that has waited too long, if it is time to heed that.
    #[inline]
    pub(super) fn overdue(&self, now_s: f64) -> Option<usize> {
        let Ageing { patience_s, every } = self.config.ageing?;
        let at = self.longest_waiting?;
        (self.pops_since_out_of_turn + 1 >= every.max(1)
            && now_s - self.jobs[at].waiting_since_s > patience_s)
            .then_some(at)
    }

    #[inline]
    pub(super) fn wait_last(&mut self, at: usize) {
        if self.config.ageing.is_none() {
            return;
        }
        self.jobs[at].before = self.last_waiting;
        self.jobs[at].after = None;
        match self.last_waiting {
            Some(last) => self.jobs[last].after = Some(at),
            None => self.longest_waiting = Some(at),
        }
        self.last_waiting = Some(at);
    }

    #[inline]
    pub(super) fn stop_waiting(&mut self, at: usize) {
        if self.config.ageing.is_none() {
            return;
        }
        let (before, after) = (self.jobs[at].before.take(), self.jobs[at].after.take());
        match before {
            Some(before) => self.jobs[before].after = after,
            None => self.longest_waiting = after,
        }
        match after {
            Some(after) => self.jobs[after].before = before,
            None => self.last_waiting = before,
        }
    }
}
