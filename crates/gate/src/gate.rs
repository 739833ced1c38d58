//! A scheduler with all that keeps it informed.

use crate::GateError;
use crate::caller::Callers;
use crate::control::Control;
use crate::crew::Crew;
use crate::rhythm::{Rhythm, check_periods};
use crate::schedule::{JobStatus, Rules, Scheduler};
use crate::turns::Turns;

/// A gate that is open: a scheduler, whose periods are kept up to date and which can be asked and told through a socket. When this is
/// dropped, nobody is let through any more, and the threads have ended.
#[derive(Debug)]
pub struct Gate {
    scheduler: Scheduler,
    // Ended in this order, before the scheduler is.
    control: Option<Control>,
    rhythm: Option<Rhythm>,
}

/// What is behind a gate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Storage {
    /// Requests of at most this size are never held up.
    pub bypass_bytes: u64,
    /// Pretend that it is no faster than this, in bytes per second.
    pub bandwidth_bps: Option<f64>,
}

impl Gate {
    /// Begins to let requests through; those that had to wait are served by the crew.
    pub fn open(turns: &Turns, storage: Storage, crew: Crew) -> Result<Self, GateError> {
        if let Some(path) = &turns.periods {
            check_periods(path).map_err(|reason| GateError::Periods { path: path.clone(), reason })?;
        }
        let rules = Rules {
            queue: turns.queue(),
            n_workers: turns.n_workers,
            bypass_bytes: storage.bypass_bytes,
            bandwidth_bps: storage.bandwidth_bps,
            time_scale: turns.time_scale,
        };
        let scheduler =
            Scheduler::start(rules, Callers::new("/proc".into()), crew).map_err(GateError::Thread)?;
        let mut gate = Self { scheduler, control: None, rhythm: None };
        let rhythm = Rhythm::start(gate.scheduler.clone(), turns.predict, turns.periods.clone());
        gate.rhythm = Some(rhythm.map_err(GateError::Thread)?);
        if let Some(path) = &turns.control {
            let control = Control::listen(path, turns.policy.name(), gate.scheduler.clone());
            gate.control = Some(control.map_err(|source| GateError::Control { path: path.clone(), source })?);
        }
        Ok(gate)
    }

    /// Whom requests ask.
    pub fn scheduler(&self) -> &Scheduler {
        &self.scheduler
    }

    /// Returns the jobs that were seen of late.
    pub fn jobs(&self) -> Vec<JobStatus> {
        self.scheduler.jobs()
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        drop(self.control.take());
        drop(self.rhythm.take());
        self.scheduler.stop();
    }
}
