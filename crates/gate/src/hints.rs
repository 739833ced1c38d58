//! Hints from elsewhere about the jobs that are seen here, and when to use them.
//!
//! A thread of its own asks the source: however slow the answer is, nothing here waits for it.

use std::collections::{HashMap, HashSet};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use iotide_sched::{AcceptedHints, HintSource, KnownJob, PeriodSource};

use crate::job::JobName;
use crate::process::Background;

/// How often somebody is asked.
const EVERY: Duration = Duration::from_secs(1);

type Answer = Result<Vec<KnownJob>, String>;

/// Periods in use: those of the source, or those seen here where the source does not have the job, does not answer, or is wrong.
#[derive(Debug)]
pub(crate) struct HintedPeriods {
    informant: Arc<dyn HintSource>,
    heeded: AcceptedHints,
    /// Last answer, if it is new.
    heard: Arc<Mutex<Option<Answer>>>,
    trouble: Option<String>,
    /// The periods that were seen here.
    own_s: HashMap<JobName, f64>,
    /// Jobs for which there was a period.
    known: HashSet<JobName>,
    _asking: Option<Background>,
}

impl HintedPeriods {
    /// Begins to ask.
    pub(crate) fn start(informant: Arc<dyn HintSource>) -> std::io::Result<Self> {
        let mut told = Self::silent(Arc::clone(&informant));
        let heard = Arc::clone(&told.heard);
        told._asking = Some(Background::start("iotide-source", move |until_dropped| {
            loop {
                let answer = informant.ask();
                *heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
                if until_dropped.recv_timeout(EVERY) != Err(RecvTimeoutError::Timeout) {
                    return;
                }
            }
        })?);
        Ok(told)
    }

    fn silent(informant: Arc<dyn HintSource>) -> Self {
        Self {
            informant,
            heeded: AcceptedHints::default(),
            heard: Arc::default(),
            trouble: None,
            own_s: HashMap::new(),
            known: HashSet::new(),
            _asking: None,
        }
    }

    /// Takes the answer since the last time.
    pub(crate) fn look(&mut self, now_s: f64) {
        let answer = self.heard.lock().unwrap_or_else(PoisonError::into_inner).take();
        match answer {
            Some(Ok(jobs)) => {
                self.heeded.look(now_s, Some(&jobs));
                if self.trouble.take().is_some() {
                    self.informant.note(&format!("{} answers again", self.informant.name()));
                }
            }
            Some(Err(trouble)) => {
                self.heeded.look(now_s, None);
                if self.trouble.as_ref() != Some(&trouble) {
                    let then = "going by what is seen here, once what it said is old";
                    self.informant.note(&format!("{trouble}; {then}"));
                }
                self.trouble = Some(trouble);
            }
            None => self.heeded.look(now_s, None),
        }
    }

    /// Notes a period that was seen here.
    pub(crate) fn observe(&mut self, job: &JobName, period_s: f64) {
        let said_s = self.heeded.period_s(job.name(), job.user());
        self.own_s.insert(job.clone(), period_s);
        let Some(is_wrong) = self.heeded.observe(job.name(), job.user(), period_s) else { return };
        let name = self.informant.name();
        self.informant.note(&match said_s {
            Some(said_s) if is_wrong => format!(
                "job {job}: {name} says that its I/O phases are {said_s:.3} s apart, but here they are {period_s:.3} s apart; \
                 going by that"
            ),
            _ => format!("job {job}: what {name} says is right again"),
        });
    }

    /// The period to go by, and whose word that is; `None` if there is nothing to say.
    pub(crate) fn period_of(&mut self, job: &JobName) -> Option<(Option<f64>, PeriodSource)> {
        let said =
            self.heeded.period_s(job.name(), job.user()).map(|said_s| (said_s, PeriodSource::Reported));
        let seen = || Some((*self.own_s.get(job)?, PeriodSource::Predicted));
        match said.or_else(seen) {
            Some((period_s, source)) => {
                self.known.insert(job.clone());
                Some((Some(period_s), source))
            }
            None => self.known.remove(job).then_some((None, PeriodSource::Reported)),
        }
    }

    pub(crate) fn forget(&mut self, job: &JobName) {
        self.own_s.remove(job);
        self.known.remove(job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Daemon(Mutex<Vec<String>>);

    impl HintSource for Daemon {
        fn name(&self) -> String {
            "the daemon".to_owned()
        }

        fn ask(&self) -> Answer {
            Err("the daemon is away".to_owned())
        }

        fn note(&self, news: &str) {
            self.0.lock().unwrap().push(news.to_owned());
        }
    }

    fn says(told: &HintedPeriods, answer: Answer) {
        *told.heard.lock().unwrap() = Some(answer);
    }

    fn of_job(period_s: f64) -> Answer {
        let job = "7".to_owned();
        Ok(vec![KnownJob {
            job,
            uid: Some(1000),
            period_s: Some(period_s),
            confidence: Some(0.9),
            ..KnownJob::default()
        }])
    }

    #[test]
    fn what_is_said_is_gone_by_until_it_is_old_or_wrong_and_then_what_is_seen() {
        let daemon = Arc::new(Daemon::default());
        let (mut told, job) = (HintedPeriods::silent(daemon.clone()), JobName::new("7", Some(1000)));
        assert_eq!(told.period_of(&job), None);
        says(&told, of_job(20.0));
        told.look(0.0);
        assert_eq!(told.period_of(&job), Some((Some(20.0), PeriodSource::Reported)));
        assert_eq!(told.period_of(&JobName::new("7", Some(1001))), None, "another user's");
        // It is away: for a while nothing changes.
        says(&told, Err("the daemon is away".to_owned()));
        told.look(50.0);
        says(&told, Err("the daemon is away".to_owned()));
        told.look(60.0);
        assert_eq!(told.period_of(&job), Some((Some(20.0), PeriodSource::Reported)));
        told.look(71.0);
        assert_eq!(told.period_of(&job), Some((None, PeriodSource::Reported)), "taken back once");
        assert_eq!(told.period_of(&job), None);
        told.observe(&job, 10.0);
        assert_eq!(told.period_of(&job), Some((Some(10.0), PeriodSource::Predicted)));
        // It is back, and wrong.
        says(&told, of_job(20.0));
        told.look(72.0);
        assert_eq!(told.period_of(&job), Some((Some(20.0), PeriodSource::Reported)));
        (0..3).for_each(|_| told.observe(&job, 10.0));
        assert_eq!(told.period_of(&job), Some((Some(10.0), PeriodSource::Predicted)));
        (0..3).for_each(|_| told.observe(&job, 21.0));
        assert_eq!(told.period_of(&job), Some((Some(20.0), PeriodSource::Reported)));
        let said = daemon.0.lock().unwrap();
        assert_eq!(
            *said,
            [
                "the daemon is away; going by what is seen here, once what it said is old",
                "the daemon answers again",
                "job 7: the daemon says that its I/O phases are 20.000 s apart, but here they are 10.000 s apart; going by that",
                "job 7: what the daemon says is right again",
            ]
        );
    }

    #[test]
    fn the_thread_that_asks_ends_with_us() {
        let daemon = Arc::new(Daemon::default());
        let mut told = HintedPeriods::start(daemon.clone()).unwrap();
        while told.heard.lock().unwrap().is_none() {
            std::thread::yield_now();
        }
        told.look(0.0);
        assert_eq!(daemon.0.lock().unwrap().len(), 1);
        drop(told);
        assert_eq!(Arc::strong_count(&daemon), 1);
    }
}
