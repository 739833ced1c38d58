//! `iotide decisions`: what a controller did by itself, and what came of it.

use iotide_edge::client::in_query;
use iotide_report::DecisionList;

use super::OutputArgs;
use super::jobs::{ask, deliver, send, unreadable};
use crate::ExitStatus;
use crate::ui::Ui;

/// Show the daemon's own decisions and their measured effect
///
/// A daemon with `[act]` in its settings acts within the rules there. Each decision is shown with its evidence, the effect that the simulator expected, and
/// what was measured. What does harm is taken back by itself, and a rule whose decisions do not pay is used no more. For root and the user of the daemon.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub(crate) struct DecisionsArgs {
    #[command(subcommand)]
    what: Option<What>,
    /// Show at most N decisions
    #[arg(long, default_value_t = 20, value_name = "N")]
    limit: usize,
    #[command(flatten)]
    output: OutputArgs,
}

const EXAMPLES: &str = "\
Examples:
  iotide decisions
  iotide decisions --format json | jq '.decisions[] | {change, expected, measured, state}'
  iotide decisions undo 7
  iotide decisions stop scratch";

#[derive(clap::Subcommand, Debug)]
enum What {
    /// Take back a decision that is in force
    #[command(after_help = "Example:\n  iotide decisions undo 7")]
    Undo {
        /// Its number
        id: u64,
    },
    /// Use a rule no more, and take back what it did
    #[command(after_help = "Example:\n  iotide decisions stop scratch")]
    Stop {
        /// Its name
        rule: String,
    },
    /// Use a rule again that was stopped
    #[command(after_help = "Example:\n  iotide decisions resume scratch")]
    Resume {
        /// Its name
        rule: String,
    },
}

pub(crate) fn run(ui: &mut Ui, args: &DecisionsArgs) -> anyhow::Result<ExitStatus> {
    let wish = match &args.what {
        None => {
            let list = DecisionList::from_json(&ask("/api/1/decisions")?).map_err(unreadable)?;
            deliver(ui, &args.output, &list.to_json(), &list.to_text(args.limit))?;
            return Ok(if list.decisions.is_empty() { ExitStatus::NothingFound } else { ExitStatus::Done });
        }
        Some(What::Undo { id }) => format!("undo?id={id}"),
        Some(What::Stop { rule }) => format!("stop?rule={}", in_query(rule)),
        Some(What::Resume { rule }) => format!("resume?rule={}", in_query(rule)),
    };
    send("POST", &format!("/api/1/decisions/{wish}"), b"")?;
    ui.status("done");
    Ok(ExitStatus::Done)
}
