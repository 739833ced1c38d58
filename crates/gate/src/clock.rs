//! A job's own time.

/// A clock that stands still while the job waits for its turn.
///
/// A job's period is that of the job alone: what it computes and what the storage takes to serve it. By the clock on the wall a job that is held
/// up has a longer one, for which it is put among slower jobs, which holds it up for longer; and a job that never stops has the period in
/// which turns come round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct JobClock {
    n_waiting: usize,
    n_served: usize,
    held_up_s: f64,
    /// Since when it waits and nothing of it is served.
    held_up_since_s: Option<f64>,
}

impl JobClock {
    /// A request came. Returns when, in the job's time.
    pub(crate) fn ask(&mut self, now_s: f64) -> f64 {
        self.n_waiting += 1;
        self.turn(now_s);
        self.at(now_s)
    }

    /// The turn of a request has come.
    pub(crate) fn begin(&mut self, now_s: f64) {
        self.n_waiting = self.n_waiting.saturating_sub(1);
        self.n_served += 1;
        self.turn(now_s);
    }

    /// A request has been served.
    pub(crate) fn end(&mut self, now_s: f64) {
        self.n_served = self.n_served.saturating_sub(1);
        self.turn(now_s);
    }

    /// Returns the time on this clock, in seconds, when the clock on the wall shows `now_s`.
    pub(crate) fn at(&self, now_s: f64) -> f64 {
        self.held_up_since_s.unwrap_or(now_s) - self.held_up_s
    }

    /// For how long it has stood still.
    pub(crate) fn held_up_s(&self, now_s: f64) -> f64 {
        now_s - self.at(now_s)
    }

    fn turn(&mut self, now_s: f64) {
        let is_held_up = self.n_waiting > 0 && self.n_served == 0;
        match (is_held_up, self.held_up_since_s) {
            (true, None) => self.held_up_since_s = Some(now_s),
            (false, Some(since_s)) => {
                self.held_up_s += (now_s - since_s).max(0.0);
                self.held_up_since_s = None;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stands_still_while_all_that_is_asked_for_waits() {
        let mut clock = JobClock::default();
        assert_eq!(clock.ask(1.0), 1.0);
        assert_eq!(clock.at(5.0), 1.0);
        assert_eq!(clock.ask(6.0), 1.0);
        clock.begin(7.0);
        // The second waits, but the first is served.
        assert_eq!(clock.at(8.0), 2.0);
        clock.end(8.0);
        assert_eq!(clock.at(9.5), 2.0);
        clock.begin(10.0);
        clock.end(10.5);
        assert_eq!(clock.at(11.5), 3.5);
    }
}
