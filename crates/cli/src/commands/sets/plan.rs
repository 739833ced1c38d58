//! `iotide sets plan`: the sets of given jobs, and what BeeGFS or Lustre would have to be told.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use iotide_report::PlanReport;
use iotide_sched::{
    Action, ControlledJob, IoProfile, JobId, Policy, UnknownJobs, is_plain_id, parse_periods,
};

use super::deeds::carry_out;
use super::system::{System, SystemArgs};
use crate::ExitStatus;
use crate::commands::Form;
use crate::ui::{Hint, Ui};

/// Show the sets of jobs with known periods, and tell BeeGFS or Lustre
///
/// PROFILES is a table with lines `job,seconds`, with or without a head, or {"job": seconds}, as for `mount --periods` (`-` is
/// stdin); a job without a period is not known yet. Shows the set, priority and share of each. With --apply, does what the file system needs, or with --dry-run shows that instead.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PlanArgs {
    /// Table of jobs and periods
    profiles: PathBuf,
    /// Tell this system: priorities for BeeGFS with the IO-Sets change, or rates for Lustre's token bucket filter
    #[arg(long, value_enum, value_name = "SYSTEM")]
    apply: Option<System>,
    /// Print what would be done, and do nothing
    #[arg(long, requires = "apply")]
    dry_run: bool,
    #[command(flatten)]
    system: SystemArgs,
    /// Form of the answer
    #[arg(long, value_enum, default_value_t = Form::Text, value_name = "FORM", help_heading = "Output")]
    format: Form,
    /// Write the answer to FILE rather than to stdout
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    output: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  iotide sets plan jobs.csv                                 who belongs where?
  iotide sets plan jobs.csv --apply configfs --dry-run      what would be set on BeeGFS?
  iotide sets plan jobs.csv --apply lustre-tbf --capacity 8000";

pub(crate) fn run(ui: &mut Ui, args: &PlanArgs) -> anyhow::Result<ExitStatus> {
    let profiles = read_profiles(&args.profiles)?;
    let policy = Policy::Set10(UnknownJobs::Together);
    let jobs: Vec<ControlledJob> = profiles
        .iter()
        .map(|(id, profile)| ControlledJob {
            id: id.clone(),
            placement: policy.place(JobId(0), profile.as_ref()),
            // Nothing is known of what they do now: each is taken to do I/O, and to want what it can get.
            active_since_s: Some(0.0),
            demand_rps: 0.0,
        })
        .collect();
    for job in jobs.iter().filter(|job| args.apply.is_some() && !is_plain_id(&job.id)) {
        ui.status(format_args!("job {:?} is left alone: its id could be misunderstood", job.id));
    }
    let actions = match args.apply {
        None => Vec::new(),
        Some(system) => args.system.controller(system, Vec::new())?.update(&jobs),
    };
    let known = profiles.iter().map(|(_, profile)| profile.as_ref());
    let mut report = PlanReport::new(jobs.iter().zip(known));
    report.actions = actions.iter().map(Action::to_string).collect();
    report.is_done = args.apply.is_some() && !args.dry_run;
    if report.is_done {
        for (i, action) in actions.iter().enumerate() {
            let Err(error) = carry_out(action, PATIENCE, &|| false) else { continue };
            // Half of it is done: whoever has to put that right must know which half.
            for done in &actions[..i] {
                ui.status(format_args!("done: {done}"));
            }
            let left = actions.len() - i;
            return Err(error.context(format!("{i} of {} steps are done, {left} are not", actions.len())))
                .hint("`--dry-run` shows all that would be done");
        }
    }
    let text = match args.format {
        Form::Json => report.to_json(),
        Form::Text => report.to_text(),
    };
    match &args.output {
        Some(path) if path != Path::new("-") => ui.out_file(path, &text)?,
        _ => ui.out(&text)?,
    }
    Ok(ExitStatus::Done)
}

/// No step takes longer, unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(30);

/// Jobs with what is known of each, in the order written.
pub(super) fn read_profiles(path: &Path) -> anyhow::Result<Vec<(String, Option<IoProfile>)>> {
    let name = path.display();
    let mut text = String::new();
    let read = if path == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).map(|_| ())
    } else {
        std::fs::read_to_string(path).map(|read| text = read)
    };
    read.with_context(|| format!("cannot read {name}"))?;
    parse_periods(&text).with_context(|| name.to_string())
}
