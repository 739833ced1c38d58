//! `iotide mcp`: questions as tools for assistants, by the Model Context Protocol.

use std::path::PathBuf;
use std::time::Duration;

use self::fence::Fence;
use self::session::{Limits, Session};
use super::ioskel::parse_seconds;
use crate::ExitStatus;
use crate::ui::Ui;

mod answer;
mod fence;
mod protocol;
mod session;
mod tools;
mod walls;

/// Answer questions of an assistant about traces and jobs (MCP)
///
/// Serves the Model Context Protocol on stdin and stdout, for the client that starts it. The tools are detect, issues, categorize, info,
/// compare, model, why, simulate_io, jobs and job: what only reads. Answers are short texts with figures, evidence and losses, and the JSON
/// document of the command line. Files outside of --root are not read, and nothing is changed or executed.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct McpArgs {
    /// Directory whose files may be read; may be given several times [default: the current directory]
    #[arg(long, value_name = "DIR")]
    root: Vec<PathBuf>,
    /// End a call without an answer after TIME
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = parse_seconds)]
    timeout: f64,
    /// Work on at most N calls at the same time
    #[arg(long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    at_once: u32,
}

const EXAMPLES: &str = "\
Examples:
  iotide mcp --root /logs                                     for a client that starts it itself
  claude mcp add iotide -- iotide mcp --root /logs            add it to a client
  iotide mcp --root ~/runs --root /logs --timeout 10min       two directories, and long questions

docs/assistants.md has the setup of common clients.";

pub(crate) fn run(_: &mut Ui, args: &McpArgs) -> anyhow::Result<ExitStatus> {
    let fence = Fence::new(&args.root)?;
    let limits = Limits {
        time: Duration::from_secs_f64(args.timeout.clamp(0.1, 86_400.0)),
        at_once: args.at_once as usize,
    };
    Session::new(fence, limits)?.run()?;
    Ok(ExitStatus::Done)
}
