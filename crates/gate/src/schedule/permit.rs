//! Rights to be with the backing store, and requests that wait for one.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use super::{Answer, Core, Direction, Grant, Scheduler, Served};
use crate::asker::{Asker, Extent, Leave};
use crate::job::JobName;

/// The right to be with the backing store; given back when dropped.
pub struct Permit {
    pub(super) core: Arc<Core>,
    pub(super) held: Hold,
    /// Permissions of arbiters elsewhere; these are notified of its end after the place is free.
    pub(super) leave: Leave,
}

pub(super) enum Hold {
    /// A place among those that are with the backing store.
    Place(Grant),
    /// A small request is only noted when it is over.
    Nothing(JobName, Served),
}

impl Permit {
    /// Makes room for another request before this one is over: its data are not counted request by request.
    pub(crate) fn leave_service(&mut self) {
        if let Hold::Place(grant) = &mut self.held
            && std::mem::take(&mut grant.is_in_service)
        {
            let mut state = self.core.lock();
            state.n_in_service -= 1;
            let ready = self.core.let_through(&mut state, self.core.now_s());
            drop(state);
            self.core.serve(ready);
        }
    }

    /// The same, with what arbiters elsewhere have allowed.
    pub(super) fn with(mut self, leave: Leave) -> Self {
        self.leave = leave;
        self
    }

    /// Says how much was moved in the end; what was asked for, if nobody says so.
    pub(crate) fn set_moved(&mut self, bytes: u64) {
        match &mut self.held {
            Hold::Place(Grant { request, .. }) | Hold::Nothing(_, request) => request.bytes = bytes,
        }
    }

    /// Waits until the device that we pretend to have would be through; to be called before the answer.
    pub fn pace(&self) {
        if let Hold::Place(Grant { through_at_s: Some(through_at_s), .. }) = self.held {
            let left_s = through_at_s - self.core.now_s();
            if left_s > 0.0 {
                thread::sleep(Duration::from_secs_f64(left_s));
            }
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.core.lock();
        let now_s = self.core.now_s();
        let Grant { job: id, request, is_in_service, .. } = match &self.held {
            Hold::Place(grant) => *grant,
            Hold::Nothing(name, request) => {
                let id = state.job(name, now_s);
                if let Some(job) = state.jobs.get_mut(&id) {
                    job.note_at_once(Served { end_s: now_s, ..*request }, now_s);
                }
                return;
            }
        };
        if let Some(job) = state.jobs.get_mut(&id) {
            job.note(Served { end_s: job.clock.at(now_s), ..request }, now_s);
            job.clock.end(now_s);
        }
        state.n_in_service -= usize::from(is_in_service);
        state.queue.complete(id, now_s);
        let ready = self.core.let_through(&mut state, now_s);
        drop(state);
        self.core.serve(ready);
    }
}

/// A request that has to wait.
pub struct Ticket {
    pub(super) core: Arc<Core>,
    pub(super) wait: Wait,
}

/// Reason for the wait.
pub(super) enum Wait {
    /// Its turn here: it is in the queue.
    Turn(u64),
    /// Leave of arbiters elsewhere, then its turn here.
    Leave { asker: Asker, job: JobName, direction: Direction, extent: Extent },
}

impl Ticket {
    /// Leaves what shall be done when its turn has come.
    pub fn wait(self, answer: impl FnOnce(&Permit) + Send + 'static) {
        self.keep(Box::new(move |permit: Permit| answer(&permit)));
    }

    pub(super) fn keep(self, answer: Answer) {
        let id = match self.wait {
            Wait::Turn(id) => id,
            Wait::Leave { asker, job, direction, extent } => {
                let scheduler = Scheduler { core: self.core };
                return asker.ask(&job.clone(), direction, extent, move |leave| {
                    let answer = move |permit: Permit| answer(permit.with(leave));
                    match scheduler.ask_for(&job, direction, extent) {
                        Ok(permit) => answer(permit),
                        Err(ticket) => ticket.keep(Box::new(answer)),
                    }
                });
            }
        };
        let mut state = self.core.lock();
        if let Some(grant) = state.take_grant(id) {
            // Its turn has come in the meantime.
            drop(state);
            self.core.serve(vec![(grant, answer)]);
        } else if let Some(waiting) = state.waiting.get_mut(&id) {
            waiting.answer = Some(answer);
        }
    }
}
