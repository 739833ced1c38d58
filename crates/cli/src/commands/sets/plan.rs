//! `iotide sets plan`: the sets of given jobs, and what BeeGFS or Lustre would have to be told.

use std::path::{Path, PathBuf};
use std::time::Duration;

use iotide_act::programs::carry_out;
use iotide_api::{Controller, Document, Ink, Plan, Profiles, profiles, read_text};

use super::system::{System, SystemArgs};
use crate::ExitStatus;
use crate::commands::Form;
use crate::commands::advice::advised;
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
    let mut controller = args.apply.map(|system| args.system.controller(system, Vec::new())).transpose()?;
    let Plan { mut report, actions, left_alone } = iotide_api::plan(
        &profiles,
        args.system.rules(),
        controller.as_deref_mut().map(|controller| controller as &mut dyn Controller),
    );
    for id in left_alone {
        ui.status(format_args!("job {id:?} is left alone: its id could be misunderstood"));
    }
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
        Form::Text => report.to_text(ui.width(), Ink::Plain),
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
pub(super) fn read_profiles(path: &Path) -> anyhow::Result<Profiles> {
    let text = read_text(path).map_err(advised)?;
    profiles(&path.display().to_string(), &text).map_err(advised)
}
