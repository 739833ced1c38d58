//! `iotide arbiter`: who may move data when, for programs that run under the tracer.

use std::time::Duration;

use iotide_mount::{Arbiter, ArbiterConfig, Listen};

use super::ioskel::parse_seconds;
use super::scheduling::SchedulingArgs;
use crate::ExitStatus;
use crate::ui::{Hint, Ui};

/// Let programs take turns at the storage, without a mount and without root
///
/// Programs that run under `iotide record` with IOTIDE_GATE set to ADDRESS ask here before they move data, and are answered
/// in the order that a policy says. Jobs are told by IOTIDE_JOB_ID, IOSETS_JOB_ID or the batch system's variable. How long a
/// job's I/O phases are apart is told from its own requests; --periods or --control say it instead.
///
/// If the arbiter goes away or stops answering, programs go on without it after a second at most. One arbiter stands
/// for one storage target. Runs until a signal ends it.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ArbiterArgs {
    /// Where programs ask: unix:/path, or tcp:address:port
    #[arg(value_name = "ADDRESS", value_parser = parse_listen)]
    listen: Listen,
    #[command(flatten)]
    scheduling: SchedulingArgs,
    /// For how long a program that is alone need not ask again; another waits for this long at most before it has a say
    #[arg(long, default_value = "20ms", value_name = "TIME", value_parser = parse_seconds)]
    lease: f64,
}

const EXAMPLES: &str = "\
Examples:
  iotide arbiter unix:/tmp/scratch.gate --control /tmp/scratch.control
  IOTIDE_GATE=unix:/tmp/scratch.gate iotide record -- mpirun -n 64 ./simulation
  iotide sets show /tmp/scratch.control                     jobs, periods, sets and shares, live";

pub(crate) fn run(ui: &mut Ui, args: &ArbiterArgs) -> anyhow::Result<ExitStatus> {
    let scheduling = &args.scheduling;
    let config = ArbiterConfig {
        n_workers: scheduling.n_workers(),
        phase_gap_s: scheduling.phase_gap,
        lull_s: scheduling.lull,
        lease: Duration::from_secs_f64(args.lease),
        time_scale: scheduling.time_scale,
        predict: scheduling.predicts(),
        periods: scheduling.periods.clone(),
        control: scheduling.control.clone(),
        ..ArbiterConfig::new(args.listen.clone(), scheduling.policy())
    };
    Arbiter::run(&config, |arbiter| ui.status(format_args!("listening; IOTIDE_GATE={}", arbiter.address())))
        .hint("choose an address that is free, and a path in a directory that you can write to")?;
    Ok(ExitStatus::Done)
}

fn parse_listen(text: &str) -> Result<Listen, String> {
    Listen::parse(text).ok_or_else(|| "an address is unix:/path or tcp:address:port".to_owned())
}
