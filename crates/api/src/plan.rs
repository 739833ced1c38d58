//! The sets of jobs with known periods, and what a file system has to be told of them.

use iotide_report::PlanReport;
use iotide_sched::{Action, ControlledJob, Controller, IoProfile, JobId, Rules, is_plain_id, parse_periods};

use crate::Error;

/// Jobs with what is known of each.
pub type Profiles = Vec<(String, Option<IoProfile>)>;

/// Reads a table of jobs and periods: lines `job,seconds`, or `{"job": seconds}`; `name` stands for it in messages.
pub fn profiles(name: &str, text: &str) -> Result<Profiles, Error> {
    parse_periods(text).map_err(|why| Error::Periods { name: name.to_owned(), why })
}

/// Where jobs belong, and what is to be done about it.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The set, priority and share of each.
    pub report: PlanReport,
    /// Actions for the file system, in this order.
    pub actions: Vec<Action>,
    /// Jobs it is not told of: their ids could be misunderstood.
    pub left_alone: Vec<String>,
}

/// Puts jobs into sets by their periods; with a controller, says what its file system has to be told.
pub fn plan(profiles: &Profiles, rules: Rules, controller: Option<&mut dyn Controller>) -> Plan {
    let policy = rules.set10();
    let jobs: Vec<ControlledJob> = profiles
        .iter()
        .zip(0..)
        .map(|((id, profile), n)| ControlledJob {
            id: id.clone(),
            placement: policy.place(JobId::of_name(id).unwrap_or(JobId::made_up(n)), profile.as_ref()),
            // Nothing is known of what they do now: each is taken to do I/O, and to want what it can get.
            active_since_s: Some(0.0),
            demand_rps: 0.0,
        })
        .collect();
    let mut report = PlanReport::new(jobs.iter().zip(profiles.iter().map(|(_, profile)| profile.as_ref())));
    let (mut actions, mut left_alone) = (Vec::new(), Vec::new());
    if let Some(controller) = controller {
        left_alone.extend(jobs.iter().filter(|job| !is_plain_id(&job.id)).map(|job| job.id.clone()));
        actions = controller.update(&jobs);
    }
    report.actions = actions.iter().map(Action::to_string).collect();
    Plan { report, actions, left_alone }
}
