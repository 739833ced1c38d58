//! `iotide resize advise`: time, cost and expected wait of a program, size by size.

use std::path::PathBuf;

use anyhow::bail;
use iotide_api::{AdviseOptions, Error, JobPolicy, JobsLog, JobsLogOptions, resize_advise};

use crate::ExitStatus;
use crate::commands::document::DocumentArgs;
use crate::commands::simulate::{read_models, refused};
use crate::ui::{Hint, Ui};

/// See at which size a program should run: time, efficiency, cost, expected wait and turnaround
///
/// MODEL holds measured times against the number of nodes, in any form that `iotide model` reads, or models that it stored. LOG is the
/// job log of the machine; a probe job of each size is submitted at times spread over it, and its wait is simulated.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AdviseArgs {
    /// Measurements of the program, or stored models
    model: PathBuf,
    /// Job log of the machine: JSON, Standard Workload Format or sacct
    #[arg(long, value_name = "FILE")]
    log: PathBuf,
    /// How many nodes the machine has [default: as the log says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,
    /// Only the first N jobs of the log
    #[arg(long, value_name = "N")]
    first: Option<usize>,
    /// Sizes to look at [default: powers of two up to the machine]
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    sizes: Vec<u32>,
    /// How the machine schedules
    #[arg(long, value_name = "NAME", default_value = "easy")]
    policy: String,
    /// How many probe jobs for each size
    #[arg(long, value_name = "N", default_value_t = AdviseOptions::default().n_probes)]
    probes: usize,
    /// How often intervals of the time hold the truth
    #[arg(long, value_name = "SHARE", default_value_t = AdviseOptions::default().confidence)]
    confidence: f64,
    #[command(flatten)]
    output: DocumentArgs,
}

const EXAMPLES: &str = "\
Examples:
  iotide resize advise runs.csv --log log.swf
  iotide resize advise app.models --log sacct.txt --nodes 128 --sizes 8,16,32";

pub(crate) fn run(ui: &mut Ui, args: &AdviseArgs) -> anyhow::Result<ExitStatus> {
    let Some(policy) = JobPolicy::from_name(&args.policy) else {
        bail!(
            "--policy: {:?} is not known; there are {}",
            args.policy,
            JobPolicy::ALL.map(JobPolicy::name).join(", ")
        );
    };
    let models = read_models(&args.model)?;
    let options =
        JobsLogOptions { nodes: args.nodes, first: args.first, utc_offset_s: 0.0, models: None, io: None };
    let log = match JobsLog::open(&args.log, &options) {
        Err(error @ Error::Setting { .. }) => return Err(refused(error)),
        log => log.hint("a log is a file in JSON, in Standard Workload Format or of sacct")?,
    };
    let options = AdviseOptions {
        sizes: args.sizes.clone(),
        policy,
        n_probes: args.probes,
        confidence: args.confidence,
    };
    let advice = resize_advise(&models, &log, &options).map_err(refused)?;
    args.output.deliver(ui, &advice)?;
    Ok(ExitStatus::Done)
}
