//! A scheduler with all that keeps it informed.

use crate::GateError;
use crate::caller::Callers;
use crate::control::Control;
use crate::crew::Crew;
use crate::process::Background;
use crate::rhythm::{check_periods, keep_periods};
use crate::schedule::{JobStatus, Rules, Scheduler};
use crate::turns::Turns;

/// A gate that is open: a scheduler, whose periods are kept up to date and which can be asked and told through a socket. When this is
/// dropped, nobody is let through any more, and the threads have ended.
#[derive(Debug)]
pub struct Gate {
    scheduler: Scheduler,
    // Ended in this order, before the scheduler is.
    control: Option<Control>,
    rhythm: Option<Background>,
}

/// Storage behind a gate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Storage {
    /// Requests of at most this size are never held up.
    pub bypass_bytes: u64,
    /// Pretend that it is no faster than this, in bytes per second.
    pub bandwidth_bps: Option<f64>,
    /// How many targets of that bandwidth are pretended, with the stripes of each file round robin; none is one.
    pub n_targets: usize,
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
            n_targets: storage.n_targets,
            time_scale: turns.time_scale,
        };
        let scheduler =
            Scheduler::start(rules, Callers::new("/proc".into()), crew).map_err(GateError::Thread)?;
        let mut gate = Self { scheduler, control: None, rhythm: None };
        let rhythm = keep_periods(gate.scheduler.clone(), turns);
        gate.rhythm = Some(rhythm.map_err(GateError::Thread)?);
        if let Some(path) = &turns.control {
            let control = Control::listen(path, turns, gate.scheduler.clone());
            gate.control = Some(control.map_err(|cause| GateError::Control { path: path.clone(), cause })?);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::caller::Who;
    use crate::schedule::Direction;
    use iotide_sched::{Policy, UnknownJobs};
    use iotide_testkit::FreshDir;

    #[test]
    fn a_gate_that_is_dropped_leaves_no_thread_and_no_socket_behind() {
        let dir = FreshDir::new("gate-drop");
        let control = dir.join("control");
        let turns = Turns {
            periods: Some(dir.write("periods.csv", "7,1\n")),
            control: Some(control.clone()),
            ..Turns::new(Policy::Set10(UnknownJobs::Together))
        };
        let gate = Gate::open(&turns, Storage::default(), Crew::new(1)).unwrap();
        // One is let through and one waits, for an answer that holds the scheduler.
        let who = Who { thread: 0, uid: 1 };
        let held = gate.scheduler().ask(who, Direction::Write, 0, 1 << 20).ok().unwrap();
        let kept = gate.scheduler().clone();
        gate.scheduler().schedule(Who { thread: 0, uid: 2 }, Direction::Write, 0, 1, move |_| drop(kept));
        assert!(control.exists());
        drop(held);
        let core = gate.scheduler().downgrade();
        drop(gate);
        assert!(!control.exists());
        // Every thread that knew it has ended, but one of the crew may be about to let go of what it served.
        while core.strong_count() > 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_table_of_periods_that_makes_no_sense_is_refused_before_anything_is_started() {
        let dir = FreshDir::new("gate-periods");
        let control = dir.join("control");
        let turns = Turns {
            periods: Some(dir.write("periods.csv", "7 is slow\n")),
            control: Some(control.clone()),
            ..Turns::new(Policy::Exclusive)
        };
        let error = Gate::open(&turns, Storage::default(), Crew::new(1)).unwrap_err();
        assert!(matches!(error, GateError::Periods { .. }), "{error}");
        assert!(!control.exists());
    }
}
