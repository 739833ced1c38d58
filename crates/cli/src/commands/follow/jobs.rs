//! The jobs that are followed, each with a predictor and a past of its own.

use std::time::{Duration, Instant};

use iotide_formats::JobSinks;
use iotide_live::Live;
use iotide_report::Prediction;
use iotide_trace::EventSink;

use super::engine::Engine;
use super::watched::Watched;

/// All of them, by their number.
pub(crate) struct Jobs {
    list: Vec<Job>,
    /// What a job that is first heard of begins with.
    fresh: Engine,
}

/// One of them.
pub(crate) struct Job {
    pub(crate) watched: Watched,
    /// The latest predictions, for the screen.
    pub(crate) predictions: Vec<Prediction>,
    pub(crate) n_predictions: u64,
    /// The last period that was found.
    pub(crate) last_period_s: Option<f64>,
    /// Since when data waits to be evaluated.
    owed_since: Option<Instant>,
}

impl Jobs {
    pub(crate) fn new(fresh: Engine) -> Self {
        let mut jobs = Self { list: Vec::new(), fresh };
        jobs.reach(1);
        jobs
    }

    /// Makes room for so many.
    fn reach(&mut self, n: usize) {
        while self.list.len() < n {
            self.list.push(Job::new(self.fresh.another()));
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn get_mut(&mut self, job: usize) -> &mut Job {
        self.reach(job + 1);
        &mut self.list[job]
    }

    pub(crate) fn into_list(self) -> Vec<Job> {
        self.list
    }

    /// Whether data of any waits to be evaluated until no more of it comes.
    pub(crate) fn is_owed(&self) -> bool {
        self.list.iter().any(|job| job.watched.is_owed())
    }

    /// Takes note of what time it is for each, after a turn; says whether all are over.
    pub(crate) fn time_passed(&mut self, live: &Live, unix_s: f64, is_news: bool, longest: Duration) -> bool {
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

    /// The one that something was last heard of.
    pub(crate) fn busiest(&self) -> usize {
        let newest = |(_, job): &(usize, &Job)| job.watched.last_heard();
        self.list.iter().enumerate().max_by_key(newest).map_or(0, |(number, _)| number)
    }
}

impl JobSinks for Jobs {
    fn of_job(&mut self, job: usize) -> &mut dyn EventSink {
        &mut self.get_mut(job).watched
    }
}

impl Job {
    /// Predictions the screen remembers.
    const MOST_SHOWN: usize = 100;

    fn new(engine: Engine) -> Self {
        Self {
            watched: Watched::new(engine),
            predictions: Vec::new(),
            n_predictions: 0,
            last_period_s: None,
            owed_since: None,
        }
    }

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
        if self.watched.is_new_file(live.n_replaced()) {
            self.predictions.clear();
        }
    }

    /// What is new, in the words of the report.
    pub(crate) fn take_fresh(&mut self, name: &str) -> Vec<Prediction> {
        let origin_unix_s = self.watched.origin_unix_s();
        let taken = self.watched.take_predictions();
        let fresh: Vec<Prediction> =
            taken.iter().map(|prediction| Prediction::new(name, prediction, origin_unix_s)).collect();
        if let Some(newest) = fresh.last() {
            self.last_period_s = newest.period_s.or(self.last_period_s);
        }
        self.n_predictions += fresh.len() as u64;
        self.predictions.extend(fresh.iter().cloned());
        self.predictions.drain(..self.predictions.len().saturating_sub(Self::MOST_SHOWN));
        fresh
    }
}
