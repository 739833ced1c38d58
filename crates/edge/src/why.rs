//! Whether a job was slow, and why: found when somebody asks, and kept for a while.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use iotide_daemon::why::{AskedJob, Evidence, NoWhy};
use iotide_ledger::JobKey;
use iotide_report::{Document, JobWhy, WhyDocument, WhyRun};

use crate::answer::{Answer, Answers, Known, Result, Viewer};
use crate::refusal::Refusal;

const SECOND_NS: u64 = 1_000_000_000;
/// A job that runs, or has just ended, is compared again after this: its last samples may be missing.
const FRESH_NS: u64 = 60 * SECOND_NS;
/// One that ended long ago is compared again after this: earlier samples may have been removed.
const SETTLED_NS: u64 = 600 * SECOND_NS;
/// Answers that are kept.
const MOST_KEPT: usize = 64;

/// Answers of the last minutes, the latest last.
#[derive(Debug, Default)]
pub(crate) struct Whys(Mutex<VecDeque<Kept>>);

#[derive(Debug)]
struct Kept {
    key: JobKey,
    end_ns: Option<u64>,
    until_ns: u64,
    /// `None`: nothing can be said of it.
    why: Option<Arc<WhyRun>>,
}

impl Whys {
    fn find(&self, job: AskedJob<'_>, now_ns: u64) -> Option<Option<Arc<WhyRun>>> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it =
            |kept: &&Kept| kept.key == *job.key && kept.end_ns == job.end_ns && now_ns < kept.until_ns;
        kept.iter().find(is_it).map(|kept| kept.why.clone())
    }

    fn keep(&self, job: AskedJob<'_>, now_ns: u64, why: Option<Arc<WhyRun>>) {
        let is_settled = job.end_ns.is_some_and(|end_ns| now_ns.saturating_sub(end_ns) > FRESH_NS);
        let until_ns = now_ns + if is_settled { SETTLED_NS } else { FRESH_NS };
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| kept.key != *job.key);
        if kept.len() >= MOST_KEPT {
            kept.pop_front();
        }
        kept.push_back(Kept { key: job.key.clone(), end_ns: job.end_ns, until_ns, why });
    }
}

impl Answers {
    /// Compares a job that somebody may see with earlier runs of its application; `None` if none of its I/O was sampled.
    pub(crate) fn why(&self, viewer: Viewer, id: &str) -> Result<Option<Arc<WhyRun>>> {
        let view = self.shared.view();
        let known = self.find_job(viewer, id, &view)?;
        let job = match &known {
            Known::Live(live, _) => AskedJob { key: &live.key, about: &live.about, end_ns: None },
            Known::Stored(stored) => stored.into(),
        };
        let now_ns = crate::shared::now_ns();
        if let Some(why) = self.shared.whys.find(job, now_ns) {
            return Ok(why);
        }
        let answered = self.ask(|reader| {
            match (Evidence { reader, series: &self.shared.series, view: &view }).why(job) {
                Err(NoWhy::Store(fault)) => Err(fault),
                answered => Ok(answered),
            }
        })?;
        let why = match answered {
            Ok(answer) => Some(Arc::new(answer.run)),
            Err(NoWhy::NoIo) => None,
            Err(fault) => return Err(Refusal::new(503, fault.to_string())),
        };
        self.shared.whys.keep(job, now_ns, why.clone());
        Ok(why)
    }

    /// The same as a document of its own.
    pub(crate) fn why_answer(&self, viewer: Viewer, id: &str) -> Result<Answer> {
        let why = self.why(viewer, id)?;
        let run = why.ok_or_else(|| Refusal::new(404, NoWhy::NoIo.to_string()))?;
        Ok(Answer::json(WhyDocument::new(vec![WhyRun::clone(&run)]).to_json()))
    }

    /// The same in short, for the document of the job. It is left out where there is none.
    pub(crate) fn short_why(&self, viewer: Viewer, id: &str) -> Option<JobWhy> {
        Some(JobWhy::of(&self.why(viewer, id).ok()??.why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_ledger::{About, JobId, Name};

    #[test]
    fn answers_are_kept_for_a_while_and_only_so_many() {
        let key = |n: u64| JobKey {
            cluster: Name::default(),
            uid: 7,
            id: JobId::new(n.to_string()).unwrap(),
            start_ns: n,
        };
        let about = About::default();
        let whys = Whys::default();
        let keys: Vec<JobKey> = (0..=MOST_KEPT as u64).map(key).collect();
        let running = |key| AskedJob { key, about: &about, end_ns: None };
        keys.iter().for_each(|key| whys.keep(running(key), 0, None));
        assert!(whys.find(running(&keys[0]), 1).is_none(), "the oldest made room");
        assert!(whys.find(running(&keys[1]), FRESH_NS - 1).is_some());
        assert!(whys.find(running(&keys[1]), FRESH_NS).is_none(), "it is old");
        let ended = |end_ns| AskedJob { end_ns: Some(end_ns), ..running(&keys[1]) };
        assert!(whys.find(ended(5), 1).is_none(), "it ended since");
        whys.keep(ended(5), 2 * FRESH_NS, None);
        assert!(whys.find(ended(5), FRESH_NS + SETTLED_NS).is_some());
    }
}
