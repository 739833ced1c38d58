//! Periods for an arbiter or a mount.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use iotide_api::{Foreseen, MeasuredJob, foresee_periods};
use iotide_report::StorageJobs;
use iotide_sched::act::{AtTarget, Change, Decision, JobFacts, Measure, NewPeriod, Proposal, period_changes};
use iotide_sched::{PeriodSource, Policy, Rules};

use crate::closed_loop::{Executor, Look, in_words};
use crate::control::{ask_within, say_all};

/// A storage whose arbiter or mount is report.
pub(crate) struct Target {
    socket: PathBuf,
    bandwidth_bps: Option<f64>,
}

impl Target {
    /// An arbiter that does not answer within this is left alone until the next look.
    const WITHIN: Duration = Duration::from_secs(1);
    /// By so many periods before and after, one can tell what came of a decision: over fewer, it depends on which phases happen to meet.
    const PERIODS_TO_TELL: f64 = 4.0;
    const WINDOW_S: [f64; 2] = [10.0, 1800.0];
    /// Jobs whose period is not known yet are waited for, for so long after they came: half of the jobs in sets is worse than none.
    const PATIENCE_S: f64 = 60.0;

    pub(crate) fn new(socket: PathBuf, bandwidth_bps: Option<f64>) -> Self {
        Self { socket, bandwidth_bps }
    }
}

impl Executor for Target {
    fn propose(&mut self, look: &Look<'_>) -> anyhow::Result<Vec<Proposal>> {
        let &Look { now_s, rule, jobs, controller, accepted } = look;
        let storage = ask_within(&self.socket, Self::WITHIN)?;
        let seen: Vec<AtTarget> = storage
            .jobs
            .iter()
            .map(|job| AtTarget {
                name: job.job.as_said().to_owned(),
                period_s: job.period_s,
                is_given: job.period_source == Some(PeriodSource::Given),
            })
            .collect();
        let held = controller.held_periods(rule);
        let changes = period_changes(&controller.rules()[rule], jobs, &seen, accepted, &held);
        if changes.is_empty() {
            return Ok(Vec::new());
        }
        let is_here = |job: &&JobFacts| {
            let key = job.key();
            controller.rules()[rule].scope.holds(job)
                && seen.iter().any(|seen| seen.name == key || seen.name == job.id)
        };
        let here: Vec<&JobFacts> = jobs.iter().filter(is_here).collect();
        let is_open = |job: &&JobFacts| {
            let key = job.key();
            let is_young =
                controller.history().since_s(&key).is_some_and(|since_s| now_s - since_s < Self::PATIENCE_S);
            look.period_s(job).is_none() && is_young && job.bytes > 0
        };
        if here.iter().any(is_open) {
            return Ok(Vec::new());
        }
        let longest_s = here.iter().filter_map(|job| look.period_s(job)).fold(0.0, f64::max);
        let evidence = changes
            .iter()
            .filter_map(|new| here.iter().find(|job| job.key() == new.job))
            .map(|job| in_words(job));
        let foreseen = self.foresee(&storage, &here, &changes, look);
        let (expected, expected_losses) = foreseen.map_or((None, Vec::new()), |(keys, foreseen)| {
            (Some(foreseen.effect), keys.into_iter().zip(foreseen.time_lost).collect())
        });
        Ok(vec![Proposal {
            rule,
            evidence: evidence.collect(),
            expected,
            expected_losses,
            measure: Measure::IoTime,
            concerned: here.iter().map(|job| job.key()).collect(),
            window_s: (Self::PERIODS_TO_TELL * longest_s).clamp(Self::WINDOW_S[0], Self::WINDOW_S[1]),
            change: Change::Periods(changes),
        }])
    }

    fn carry_out(&mut self, decision: &Decision, lent_s: f64) -> anyhow::Result<()> {
        self.lend(decision, lent_s)
    }

    /// Tells the target, for a time.
    fn lend(&mut self, decision: &Decision, lent_s: f64) -> anyhow::Result<()> {
        self.say(decision, |new| format!("period {} {} for {lent_s}", new.at, new.period_s))
    }

    /// Has the target forget it.
    fn take_back(&mut self, decision: &Decision) -> anyhow::Result<()> {
        self.say(decision, |new| format!("period {} none", new.at))
    }
}

impl Target {
    /// Returns the simulator's forecast for the changes, by the same queue, and the jobs it covers.
    fn foresee(
        &self,
        storage: &StorageJobs,
        here: &[&JobFacts],
        changes: &[NewPeriod],
        look: &Look<'_>,
    ) -> Option<(Vec<String>, Foreseen)> {
        let keys: Vec<String> = here.iter().map(|job| job.key()).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let history = look.controller.history();
        let bandwidth_bps = self.bandwidth_bps.or_else(|| history.highest_bps(&keys))?;
        let measured = |job: &&JobFacts| {
            let (period_s, phase_bytes) = (look.period_s(job)?, job.bytes_per_phase?);
            let n_processes = f64::from(job.n_processes.max(1));
            let phase_s = job.io_s / job.bytes.max(1) as f64 * phase_bytes / n_processes;
            let phase_s =
                phase_s.clamp(phase_bytes / bandwidth_bps, period_s.max(phase_bytes / bandwidth_bps));
            Some((job.key(), MeasuredJob { period_s, phase_s, phase_bytes }))
        };
        // Those that it knows already first.
        let is_new = |(key, _): &(String, MeasuredJob)| changes.iter().any(|new| new.job == *key);
        let (new, mut jobs): (Vec<_>, Vec<_>) = here.iter().filter_map(measured).partition(is_new);
        let n_known = jobs.len();
        jobs.extend(new);
        let (keys, jobs): (Vec<String>, Vec<MeasuredJob>) = jobs.into_iter().unzip();
        let rules = storage.rules.as_deref().and_then(Rules::from_name).unwrap_or_default();
        let policy = Policy::ALL.into_iter().find(|policy| policy.name() == storage.policy)?;
        Some((keys, foresee_periods(&jobs, n_known, bandwidth_bps, rules.of(policy))?))
    }

    fn say(&self, decision: &Decision, line: impl Fn(&NewPeriod) -> String) -> anyhow::Result<()> {
        let Change::Periods(periods) = &decision.change else { return Ok(()) };
        let shown = self.socket.display();
        // A name with a blank would be two words to the other side.
        if periods.iter().any(|new| new.at.contains(|c: char| c.is_ascii_whitespace())) {
            bail!("{shown} cannot be told of a job whose name has blanks");
        }
        let answers = say_all(&self.socket, periods.iter().map(line), Self::WITHIN)?;
        // A job that has gone meanwhile needs no period, and is refused.
        if answers.iter().any(String::is_empty) {
            bail!("{shown} does not answer");
        }
        Ok(())
    }
}
