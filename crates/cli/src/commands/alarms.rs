//! `iotide alarms`: what the daemon watches for, and what fires.

use iotide_report::{AlarmDone, AlarmList, NewAlarm, alarm_level};

use super::asking::{ask, in_query, now_unix_s, send, unreadable};
use super::ioskel::parse_seconds;
use super::jobs::deliver;
use super::{Form, OutputArgs};
use crate::ExitStatus;
use crate::ui::Ui;

/// Show and change alarms on what jobs and the machine do
///
/// Shows what fires now, the rules, and what has been. The daemon evaluates rules each second; it notifies the receivers of `iotide serve --alertmanager` and
/// `--webhook` once when an alarm begins, and once when it is over. Your rules are about your own jobs; those of root and of the daemon's user are about all.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct AlarmsArgs {
    #[command(subcommand)]
    what: Option<What>,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  iotide alarms
  iotide alarms add busy 'rate(write_bytes) > 2GB' --for 30s --clear 1GB
  iotide alarms delete busy";

#[derive(clap::Subcommand, Debug)]
enum What {
    List(ListArgs),
    Add(Box<AddArgs>),
    Delete(DeleteArgs),
}

/// Show rules, what fires and what has been
#[derive(clap::Args, Debug)]
#[command(after_help = LIST_EXAMPLES)]
struct ListArgs {
    #[command(flatten)]
    output: OutputArgs,
}

const LIST_EXAMPLES: &str = "\
Examples:
  iotide alarms list
  iotide alarms list --format json | jq '.firing[] | {name, job}'";

/// Add a rule
///
/// The condition compares (>, <, =) a metric of a job as `/api/1/jobs/ID/metrics` lists it (write_bytes), its growth per second over the last ten
/// (rate(write_bytes)), the bytes per second expected in the next minute (predicted_load), how many times longer the I/O of a job takes than in earlier runs (slowdown) or
/// how much of that others cause (slowdown(others), also own and storage), or says what a job has: label(write_periodic), as
/// `iotide categorize` names labels, issue(small_writes), as `iotide report` names issues.
#[derive(clap::Args, Debug)]
#[command(after_help = ADD_EXAMPLES)]
struct AddArgs {
    /// Name of the rule
    #[arg(value_name = "NAME")]
    name: String,
    /// The condition, as in 'rate(write_bytes) > 2GB'
    #[arg(value_name = "CONDITION")]
    condition: String,
    /// Fire once the condition has held for TIME [default: at once]
    #[arg(long = "for", value_name = "TIME", value_parser = parse_seconds)]
    for_s: Option<f64>,
    /// End the alarm when the value reaches LEVEL [default: when the condition does not hold]
    #[arg(long, value_name = "LEVEL", value_parser = parse_level, allow_hyphen_values = true)]
    clear: Option<f64>,
    /// Of what the value is taken
    #[arg(long, value_enum, default_value_t = On::Job, value_name = "WHAT")]
    on: On,
    /// Watch jobs of this user only
    #[arg(long, value_name = "USER")]
    user: Option<String>,
    /// Watch runs of this application only, by id or by program name
    #[arg(long, value_name = "APP")]
    app: Option<String>,
    /// Watch the job of this id only
    #[arg(long, value_name = "ID")]
    job: Option<String>,
    /// How grave it is, for those who route alarms
    #[arg(long, default_value = "warning", value_name = "WORD")]
    severity: String,
}

const ADD_EXAMPLES: &str = "\
Examples:
  iotide alarms add busy 'rate(write_bytes) > 2GB' --for 30s --clear 1GB
  iotide alarms add soon 'predicted_load > 5GB' --on sum
  iotide alarms add full 'free_bytes./scratch < 1TB' --on node --severity critical
  iotide alarms add small 'issue(small_writes)' --app lmp
  iotide alarms add crowded 'slowdown(others) > 2'";

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum On {
    /// Of each job by itself
    Job,
    /// Of all jobs together
    Sum,
    /// Of the machine
    Node,
}

/// Delete a rule
///
/// Alarms that this rule fires end.
#[derive(clap::Args, Debug)]
#[command(after_help = DELETE_EXAMPLES)]
struct DeleteArgs {
    /// Name of the rule
    #[arg(value_name = "NAME")]
    name: String,
    /// Delete the rule of this user (root and the daemon's user only)
    #[arg(long, value_name = "UID")]
    owner: Option<u32>,
}

const DELETE_EXAMPLES: &str = "\
Examples:
  iotide alarms delete busy";

fn parse_level(text: &str) -> Result<f64, String> {
    alarm_level(text).ok_or_else(|| "a number, as in 0.5, 1e9, 512KiB or 2GB".to_owned())
}

pub(crate) fn run(ui: &mut Ui, args: &AlarmsArgs) -> anyhow::Result<ExitStatus> {
    match &args.what {
        None => list(ui, &args.output),
        Some(What::List(list_args)) => list(ui, &list_args.output),
        Some(What::Add(add)) => {
            let new = NewAlarm {
                name: add.name.clone(),
                expr: add.condition.clone(),
                for_s: add.for_s,
                clear: add.clear,
                on: Some(
                    match add.on {
                        On::Job => "job",
                        On::Sum => "sum",
                        On::Node => "node",
                    }
                    .to_owned(),
                ),
                user: add.user.clone(),
                app: add.app.clone(),
                job: add.job.clone(),
                severity: Some(add.severity.clone()),
            };
            // What is wrong with it is known here, too, whether a daemon runs or not.
            new.rule(None)?;
            change(ui, "POST", "/api/1/alarms", new.to_json().as_bytes())
        }
        Some(What::Delete(delete)) => {
            let owner = delete.owner.map_or_else(String::new, |uid| format!("?owner={uid}"));
            change(ui, "DELETE", &format!("/api/1/alarms/{}{owner}", in_query(&delete.name)), b"")
        }
    }
}

/// Sends a change, and shows what the daemon did.
fn change(ui: &mut Ui, method: &str, path: &str, body: &[u8]) -> anyhow::Result<ExitStatus> {
    let answer = AlarmDone::from_json(&send(method, path, body)?).map_err(unreadable)?;
    ui.out(&format!("{}\n", answer.done.for_terminal()))?;
    Ok(ExitStatus::Done)
}

fn list(ui: &mut Ui, output: &OutputArgs) -> anyhow::Result<ExitStatus> {
    let list = AlarmList::from_json(&ask("/api/1/alarms")?).map_err(unreadable)?;
    let text = if output.form() == Form::Text { list.to_text(now_unix_s()) } else { String::new() };
    deliver(ui, output, &list.to_json(), &text)?;
    Ok(ExitStatus::Done)
}
