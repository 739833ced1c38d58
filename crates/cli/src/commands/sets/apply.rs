//! `iotide sets apply`: tells BeeGFS or Lustre of jobs again and again, and takes it back in the end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use iotide_act::programs::{Hung, carry_out, run as run_program};
use iotide_act::{Watch, Watching, parse_source, rest};
use iotide_sched::{Action, ControlledJob, LustreTbf, former_policies};
use iotide_source::{Source, SourceError};

use super::system::{System, SystemArgs};
use crate::ExitStatus;
use crate::commands::ioskel::{parse_seconds, parse_size};
use crate::ui::{Hint, Ui};

/// Keep telling BeeGFS or Lustre what jobs deserve, until Ctrl-C
///
/// SOURCE says which jobs there are and what their periods are: `daemon` or `daemon:SOCKET` (`iotide serve`), the address or socket of `iotide detect --listen`,
/// the control socket of a mount or an arbiter, or a table with lines `job,seconds`. It is asked again each time. Predictions with a confidence below 50 % are
/// ignored, and a job changes its set only when another period was found twice. Of several sources the first that knows the period of a job is used. A source that
/// is silent for 3.5 periods of a job (10 s at least) is not relied on until it answers again.
///
/// Rates of Lustre cap a job even if nobody else wants the storage, so they are set again from what jobs send: as a control socket says, else as the server counts
/// (`lctl get_param obdfilter.*.job_stats`; run it there, as root). Previous settings are restored at the end, and on SIGINT, SIGTERM and SIGHUP.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ApplyArgs {
    /// Who knows jobs and periods: a daemon, a detector, a control socket or a table; the first that knows a job is used
    #[arg(required = true, value_name = "SOURCE", value_parser = parse_source)]
    sources: Vec<Source>,
    /// Tell this system: priorities for BeeGFS with the IO-Sets change, or rates for Lustre's token bucket filter
    #[arg(long, value_enum, value_name = "SYSTEM")]
    controller: System,
    /// Time from one look at the jobs to the next
    #[arg(long, value_name = "TIME", default_value = "2", value_parser = parse_seconds)]
    interval: f64,
    /// Stop after N rounds
    #[arg(long, value_name = "N")]
    rounds: Option<u64>,
    /// Print what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    system: SystemArgs,
    /// `lustre-tbf` with a control socket: how large the requests of a client are
    #[arg(long, value_name = "SIZE", default_value = "1M", value_parser = parse_size)]
    rpc_size: u64,
    /// Kill a command after TIME and retry it in the next round
    #[arg(long, value_name = "TIME", default_value = "10", value_parser = parse_seconds)]
    timeout: f64,
}

const EXAMPLES: &str = "\
Examples:
  iotide sets apply daemon --controller configfs                 as the daemon sees jobs
  iotide sets apply daemon jobs.csv --controller configfs        with a table to fall back on
  iotide sets apply /run/iotide.sock --controller configfs       as a mount or an arbiter does
  iotide sets apply jobs.csv --controller lustre-tbf --capacity 8000 --dry-run --rounds 1";

pub(crate) fn run(ui: &mut Ui, args: &ApplyArgs) -> anyhow::Result<ExitStatus> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot wait for Ctrl-C")?;
    }
    let former = former(ui, args, &stop);
    let mut controller = args.system.controller(args.controller, former)?;
    let mut watch = Watch::new(args.watching());
    let mut jobs = look(&mut watch, ui, &stop)?;
    let mut last_trouble = None;
    for round in 1.. {
        if round > 1 {
            // A server that does not count for a moment changes nothing.
            match look(&mut watch, ui, &stop) {
                Ok(seen) => (jobs, last_trouble) = (seen, None),
                Err(error) => {
                    let trouble = format!("{error:#}");
                    if last_trouble.as_ref() != Some(&trouble) {
                        ui.status(format_args!("{trouble}; going on with what was known"));
                    }
                    last_trouble = Some(trouble);
                }
            }
        }
        watch.name_odd_ones(&mut |note| ui.status(note), &jobs);
        let actions = controller.update(&jobs);
        if !actions.is_empty() || round == 1 {
            ui.status(format_args!("{} jobs, {} to do", jobs.len(), actions.len()));
        }
        for action in do_all(ui, args, &actions, &|| is_set(&stop))? {
            controller.failed(&action);
        }
        if args.rounds == Some(round) || !rest(args.interval, &stop) {
            break;
        }
    }
    // However often somebody says to stop: no step takes longer than it may, and after one that hangs no other is tried.
    let left = do_all(ui, args, &controller.withdraw(), &|| false)?;
    if left.is_empty() {
        return Ok(ExitStatus::Done);
    }
    ui.status(format_args!("this could not be taken back:"));
    for action in left {
        ui.status(format_args!("  {action}"));
    }
    Ok(ExitStatus::Failed)
}

/// What a server of Lustre does now, to be put back in the end.
fn former(ui: &mut Ui, args: &ApplyArgs, stop: &AtomicBool) -> Vec<String> {
    if args.controller != System::LustreTbf || args.dry_run {
        return Vec::new();
    }
    let words = LustreTbf::SEE_POLICIES.map(str::to_owned);
    let printed = run_program(&words, Duration::from_secs_f64(args.timeout), &|| is_set(stop));
    let former = printed.map(|printed| former_policies(&printed)).unwrap_or_default();
    if former.is_empty() {
        ui.status(format_args!("the server does not say which policy it uses; fifo will be set in the end"));
    }
    former
}

/// Does or prints each action, and returns those that failed. After a program that hangs the rest is not tried.
fn do_all(
    ui: &mut Ui,
    args: &ApplyArgs,
    actions: &[Action],
    is_over: &dyn Fn() -> bool,
) -> anyhow::Result<Vec<Action>> {
    let mut failed = Vec::new();
    for (i, action) in actions.iter().enumerate() {
        let shown = ui.out(&format!("{action}\n"));
        if args.dry_run {
            shown?;
            continue;
        }
        // Whether somebody reads along or not: what was begun must be ended.
        if let Err(error) = carry_out(action, Duration::from_secs_f64(args.timeout), is_over) {
            ui.status(format_args!("{error:#}"));
            if error.downcast_ref::<Hung>().is_some() {
                failed.extend_from_slice(&actions[i..]);
                break;
            }
            failed.push(action.clone());
        }
    }
    Ok(failed)
}

fn is_set(stop: &AtomicBool) -> bool {
    stop.load(Ordering::Relaxed)
}

fn look(watch: &mut Watch, ui: &mut Ui, stop: &AtomicBool) -> anyhow::Result<Vec<ControlledJob>> {
    watch.look(&mut |note| ui.status(note), stop).or_else(|error| match error.downcast::<SourceError>() {
        Ok(fault) => {
            let hint = hint(&fault);
            Err(fault).hint(hint)
        }
        Err(error) => Err(error),
    })
}

fn hint(fault: &SourceError) -> &'static str {
    match fault {
        SourceError::Silent { .. } | SourceError::Strange { .. } => {
            "a source is a daemon (`iotide serve`), a detector (`iotide detect --listen`), or a socket made by `--control PATH` of `iotide mount` or `iotide arbiter`, which must be running"
        }
        _ => "a table has a line for each job: its name, a comma, seconds",
    }
}

impl ApplyArgs {
    fn watching(&self) -> Watching {
        Watching {
            sources: self.sources.clone(),
            rules: self.system.rules(),
            rpc_bytes: self.rpc_size,
            asks_lustre: self.controller == System::LustreTbf && !self.dry_run,
            within: Duration::from_secs_f64(self.timeout),
        }
    }
}
