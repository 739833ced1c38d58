//! `iotide resize apply`: resizes marked jobs of a Slurm as a policy says, again and again, and leaves nothing behind.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use iotide_act::{Actuators, Deciding, Manner, Models, Slurm, checked_signal, in_words, may_expand, rest};

use super::SlurmArgs;
use super::plan::PolicyArgs;
use crate::ExitStatus;
use crate::commands::ioskel::parse_seconds;
use crate::ui::Ui;

/// Keep resizing marked jobs of this Slurm, until Ctrl-C
///
/// Jobs are malleable if their comment says so: `sbatch --comment iotide:min=2,max=16`. Before a job is shrunk its processes get a
/// signal and a grace period. A job grows through a helper job that asks for the nodes (`--dependency=expand`), which Slurm must permit
/// (`SchedulerParameters=permit_job_expansion`). Helper jobs are cancelled at the end, and on SIGINT, SIGTERM and SIGHUP; those of a run
/// that was killed are cancelled by the next. Sizes stay as they are then.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  iotide resize apply --dry-run --rounds 1    what it would do\n  iotide resize apply --grace 30"
)]
pub(crate) struct ApplyArgs {
    /// Print what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// Time from one look at the queue to the next
    #[arg(long, value_name = "TIME", default_value = "10", value_parser = parse_seconds)]
    interval: f64,
    /// Stop after N rounds
    #[arg(long, value_name = "N")]
    rounds: Option<u64>,
    /// Signal that a job gets before it is shrunk; `none` for no signal
    #[arg(long, value_name = "NAME", default_value = "USR1", value_parser = checked_signal)]
    signal: String,
    /// Time from the signal to the shrink
    #[arg(long, value_name = "TIME", default_value = "10", value_parser = parse_seconds)]
    grace: f64,
    /// Time that a helper job may wait for its nodes
    #[arg(long, value_name = "TIME", default_value = "20", value_parser = parse_seconds)]
    wait: f64,
    /// Folder that remembers what is under way [default: iotide/resize in the user's state folder]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    slurm: SlurmArgs,
}

pub(crate) fn run(ui: &mut Ui, args: &ApplyArgs) -> anyhow::Result<ExitStatus> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("cannot wait for Ctrl-C")?;
    }
    let folder = match &args.state {
        Some(folder) => folder.clone(),
        None => state_folder().context("there is no folder for the state; name one with --state")?,
    };
    let deciding = args.policy.deciding()?;
    let manner = Manner { signal: args.signal.clone(), grace_s: args.grace, wait_s: args.wait };
    let mut actuators = Actuators::open(&folder, manner)?;
    let asked = Arc::clone(&stop);
    let slurm = Slurm::new(&args.slurm.talk(), move || asked.load(Ordering::Relaxed))
        .with_folder(actuators.scratch().to_owned());
    if !args.dry_run {
        actuators.withdraw(&slurm)?.iter().for_each(|note| ui.status(note));
        may_expand(&slurm)?;
    }
    let looked = look_again_and_again(ui, args, &deciding, &slurm, &mut actuators, &stop);
    // However it ended: no helper job outlives us, and Ctrl-C does not hurry this.
    let closing = Slurm::new(&args.slurm.talk(), || false).with_folder(actuators.scratch().to_owned());
    let withdrawn = if args.dry_run { Ok(Vec::new()) } else { actuators.withdraw(&closing) };
    looked?;
    withdrawn?.iter().for_each(|note| ui.status(note));
    Ok(ExitStatus::Done)
}

fn look_again_and_again(
    ui: &mut Ui,
    args: &ApplyArgs,
    deciding: &Deciding,
    slurm: &Slurm,
    actuators: &mut Actuators,
    stop: &AtomicBool,
) -> anyhow::Result<()> {
    let (mut last_trouble, mut models) = (None, Models::default());
    for round in 1.. {
        match slurm.list() {
            Err(error) if round == 1 => return Err(error),
            // A controller that is away for a moment changes nothing.
            Err(error) => {
                let trouble = format!("{error:#}");
                if last_trouble.as_ref() != Some(&trouble) && !stop.load(Ordering::Relaxed) {
                    ui.status(&trouble);
                }
                last_trouble = Some(trouble);
            }
            Ok(mut listing) => {
                last_trouble = None;
                if round == 1 {
                    listing.notes.iter().for_each(|note| ui.status(note));
                }
                for resize in deciding.wanted(&mut |note| ui.status(note), &mut listing, &mut models) {
                    ui.out(&format!("{}\n", in_words(&resize)))?;
                    if args.dry_run || stop.load(Ordering::Relaxed) {
                        continue;
                    }
                    if let Err(error) = actuators.carry_out(slurm, &resize, stop) {
                        ui.status(format_args!("job {}: {error:#}", resize.id));
                    }
                }
            }
        }
        if args.rounds == Some(round) || !rest(args.interval, stop) {
            break;
        }
    }
    Ok(())
}

/// Where programs keep what they must not forget.
fn state_folder() -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    state.or_else(home).map(|folder| folder.join("iotide/resize"))
}
