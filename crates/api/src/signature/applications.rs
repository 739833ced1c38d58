//! The signatures of all applications in a long log.
//!
//! The log is in memory once, as even steps. Cores take applications one by one; what they find is handed on in the order
//! of the applications, as it comes.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;

use iotide_analysis::{
    CutConfig, CutSamples, Grouping, RunGroup, SignatureConfig, cut_samples, extract, group_runs,
};
use iotide_formats::JobLog;
use iotide_report::{GroupEntry, LogReport, LogSource, SignatureChart, SignatureEntry};
use iotide_trace::{JobRun, Loss, ThroughputLog};

use super::SignatureOptions;
use crate::Error;

/// The applications of a long log, to be looked at.
#[derive(Debug)]
pub struct Applications {
    log: ThroughputLog,
    runs: Vec<JobRun>,
    groups: Vec<RunGroup>,
    source: LogSource,
    losses: Vec<Loss>,
    cut: CutConfig,
    config: SignatureConfig,
    threads: NonZeroUsize,
}

/// Result for one application.
#[derive(Debug)]
pub enum Found {
    /// Its signature, and what to draw of it where that was asked for.
    Signature(Box<SignatureEntry>, Option<SignatureChart>),
    /// Nothing, and why.
    Nothing(GroupEntry, String),
}

/// Puts together who ran what (a job log called `name`) and what a server moved meanwhile.
pub fn applications(
    (log, mut losses): (ThroughputLog, Vec<Loss>),
    name: &str,
    jobs: JobLog,
    options: &SignatureOptions,
) -> Result<Applications, Error> {
    check_clocks(&log, &jobs.runs)?;
    let of_jobs = |loss: Loss| Loss { what: format!("{name}: {}", loss.what), ..loss };
    losses.extend(jobs.losses.into_iter().map(of_jobs));
    let Grouping { groups, n_broken, n_rare } = group_runs(&jobs.runs, &options.groups);
    let source = LogSource {
        start_s: log.start_s,
        end_s: log.end_s(),
        interval_s: log.interval_s,
        n_values: log.values.len(),
        n_unknown: log.n_unknown(),
        n_runs: jobs.runs.len(),
        n_not_begun: jobs.n_not_begun,
        n_broken,
        n_rare,
    };
    let threads =
        options.threads.or_else(|| std::thread::available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    let (cut, config) = (options.cut, options.config.clone());
    Ok(Applications { log, runs: jobs.runs, groups, source, losses, cut, config, threads })
}

/// Two clocks that never meet are a mistake, not a log without jobs.
fn check_clocks(log: &ThroughputLog, runs: &[JobRun]) -> Result<(), Error> {
    let meets = |run: &JobRun| run.start_s < log.end_s() && run.end_s.is_none_or(|end_s| end_s > log.start_s);
    if runs.iter().any(meets) {
        return Ok(());
    }
    let first_s = runs.iter().map(|run| run.start_s).fold(f64::INFINITY, f64::min);
    let last_s = runs.iter().map(|run| run.end_s.unwrap_or(run.start_s)).fold(f64::NEG_INFINITY, f64::max);
    Err(Error::ClocksApart { log_s: [log.start_s, log.end_s()], jobs_s: [first_s, last_s] })
}

impl Applications {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// A report to which what is found can be added.
    pub fn report(&self) -> LogReport {
        LogReport::new(self.source.clone(), &self.losses)
    }

    /// Looks at all of them and hands on what is found, in their order, until one cannot be taken.
    pub fn for_each<E>(
        &self,
        draws: bool,
        mut take: impl FnMut(usize, Found) -> Result<(), E>,
    ) -> Result<(), E> {
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let (send, receive) = sync_channel(2 * self.threads.get());
            for _ in 0..self.threads.get().min(self.groups.len()) {
                let (send, next) = (send.clone(), &next);
                scope.spawn(move || {
                    loop {
                        let i = next.fetch_add(1, Ordering::Relaxed);
                        let Some(group) = self.groups.get(i) else { break };
                        // Nobody listens any more: what was found could not be taken.
                        if send.send((i, self.look_at(group, draws))).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(send);
            let mut waiting = BTreeMap::new();
            let mut n_taken = 0;
            for (i, found) in receive {
                waiting.insert(i, found);
                while let Some(found) = waiting.remove(&n_taken) {
                    take(n_taken, found)?;
                    n_taken += 1;
                }
            }
            Ok(())
        })
    }

    fn look_at(&self, group: &RunGroup, draws: bool) -> Found {
        let entry = GroupEntry {
            user: (&group.user).into(),
            name: (&group.name).into(),
            nodes: group.n_nodes,
            runs: group.runs.len(),
        };
        let CutSamples { samples, without, n_not_needed } =
            cut_samples(&self.log, &self.runs, group, &self.cut);
        match extract(&samples, &self.config) {
            Ok(signature) => {
                let mut found = SignatureEntry::new(Some(entry), &signature);
                for (i, why) in without {
                    found.without_sample(&self.runs[i].job_id, why);
                }
                found.samples.not_needed = n_not_needed;
                let chart = draws.then(|| SignatureChart::of(&signature, &samples));
                Found::Signature(Box::new(found), chart)
            }
            Err(error) => Found::Nothing(entry, error.to_string()),
        }
    }
}
