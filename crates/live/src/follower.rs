//! Following to the end: how long to wait, when what has come is evaluated, and when all is over.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{Engine, Jobs, Live, LiveError, Summary};

/// Follows jobs and predicts, one turn at a time.
pub struct Follower {
    /// Source that is followed.
    pub live: Live,
    /// State of each job.
    pub jobs: Jobs,
}

/// Why following ended by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All jobs are over.
    JobOver,
    /// Nothing came for as long as was waited for.
    Idle,
}

/// How long after data came more of it may belong to it: what is flushed at once is evaluated at once.
const BREATH: Duration = Duration::from_millis(50);
/// Longest time without an evaluation where data never pause.
const LONGEST_BREATH: Duration = Duration::from_millis(500);
/// How long after its last process has ended a job may still have another one to begin.
const LINGER: Duration = Duration::from_millis(1500);

impl Follower {
    /// Returns one that has seen nothing; each job gets an engine like `fresh`.
    pub fn new(live: Live, fresh: Engine) -> Self {
        Self { live, jobs: Jobs::new(fresh) }
    }

    /// Waits for news, for at most `timeout`, and predicts what there is to predict; says whether that was the end.
    ///
    /// Without news for more than `idle_s` seconds it is.
    pub fn turn(&mut self, timeout: Duration, idle_s: Option<f64>) -> Result<Option<End>, LiveError> {
        let timeout = if self.jobs.is_owed() { BREATH } else { timeout };
        let is_news = self.live.turn(timeout, &mut self.jobs)?;
        let unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |now| now.as_secs_f64());
        let all_are_over = self.jobs.time_passed(&self.live, unix_s, is_news, LONGEST_BREATH);
        let quiet = self.live.quiet_for();
        Ok(match idle_s {
            _ if is_news => None,
            _ if quiet > LINGER && all_are_over => Some(End::JobOver),
            Some(idle_s) if quiet.as_secs_f64() > idle_s => Some(End::Idle),
            _ => None,
        })
    }

    /// Takes the last of what has come, and asks for a last prediction of each job.
    pub fn finish(&mut self) -> Result<Summary, LiveError> {
        let summary = self.live.finish(&mut self.jobs)?;
        self.jobs.list().iter_mut().for_each(|job| job.watched.last_word());
        Ok(summary)
    }
}
