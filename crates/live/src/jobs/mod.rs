//! The jobs that are followed, each with a predictor and a past of its own.

use std::time::{Duration, Instant};

use iotide_formats::JobSinks;
use iotide_trace::EventSink;

pub use self::engine::Engine;
pub use self::watched::Watched;

use crate::Live;

mod engine;
mod watched;

/// All jobs that are followed, by the numbers [`Live`] gives them.
pub struct Jobs {
    list: Vec<Job>,
    /// Engine of a job that is new.
    fresh: Engine,
}

/// One of them.
pub struct Job {
    /// Observations of the job.
    pub watched: Watched,
    /// Since when data waits to be evaluated.
    owed_since: Option<Instant>,
    began_anew: bool,
}

impl Jobs {
    /// Returns one job of which nothing is known; the others come with their events. Each gets an engine like `fresh`.
    pub fn new(fresh: Engine) -> Self {
        let mut jobs = Self { list: Vec::new(), fresh };
        jobs.reach(1);
        jobs
    }

    /// Makes room for so many.
    fn reach(&mut self, n: usize) {
        while self.list.len() < n {
            let watched = Watched::new(self.fresh.another());
            self.list.push(Job { watched, owed_since: None, began_anew: false });
        }
    }

    /// All of them, in the order of their numbers; never empty.
    pub fn list(&mut self) -> &mut [Job] {
        &mut self.list
    }

    /// Whether data of any waits to be evaluated until no more of it comes.
    pub fn is_owed(&self) -> bool {
        self.list.iter().any(|job| job.watched.is_owed())
    }

    /// Takes note of what time it is for each, after a turn; says whether all are over.
    ///
    /// Data that waits is evaluated when no more of it came, or after `longest`.
    pub fn time_passed(&mut self, live: &Live, unix_s: f64, is_news: bool, longest: Duration) -> bool {
        self.reach(live.n_jobs());
        let mut all_are_over = !is_news;
        for (number, job) in self.list.iter_mut().enumerate() {
            // The silence after a job says nothing about its rhythm.
            let is_over = !job.watched.has_news() && live.job_is_over(number);
            all_are_over &= is_over;
            job.time_passed(live, number, unix_s, is_over, longest);
        }
        all_are_over
    }

    /// The number of the one that something was last heard of.
    pub fn busiest(&self) -> usize {
        let newest = |(_, job): &(usize, &Job)| job.watched.last_heard();
        self.list.iter().enumerate().max_by_key(newest).map_or(0, |(number, _)| number)
    }
}

impl JobSinks for Jobs {
    fn of_job(&mut self, job: usize) -> &mut dyn EventSink {
        self.reach(job + 1);
        &mut self.list[job].watched
    }
}

impl Job {
    fn time_passed(&mut self, live: &Live, number: usize, unix_s: f64, is_over: bool, longest: Duration) {
        let is_news = self.watched.has_news();
        self.watched.time_passed(unix_s, live.origin_unix_s(number), is_over);
        if self.watched.is_owed() {
            // What never pauses is evaluated now and then all the same.
            let since = *self.owed_since.get_or_insert_with(Instant::now);
            if !is_news || since.elapsed() > longest {
                self.watched.pause();
                self.owed_since = None;
            }
        }
        self.began_anew |= self.watched.is_new_file(live.n_replaced());
    }

    /// Whether another run has begun since this was last asked: what was predicted before is not about it.
    pub fn take_began_anew(&mut self) -> bool {
        std::mem::take(&mut self.began_anew)
    }
}
