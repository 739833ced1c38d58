//! `iotide resize apply`: resizes marked jobs of a Slurm as a policy says, again and again, and leaves nothing behind.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use iotide_sched::jobs::WantedResize;

use super::journal::{Journal, PREFIX};
use super::plan::{Models, PolicyArgs, in_words};
use super::slurm::{Slurm, SlurmArgs, checked_signal, may_expand};
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
    /// Stop after so many looks
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
    let mut journal = Journal::open(&folder)?;
    // Slurm leaves scripts where a size is changed.
    let scratch = folder.join("scratch");
    let _ = std::fs::remove_dir_all(&scratch);
    std::fs::create_dir(&scratch).with_context(|| format!("cannot use {}", scratch.display()))?;
    let slurm = Slurm::new(&args.slurm, || stop.load(Ordering::Relaxed))?.with_folder(scratch.clone());
    let mut helpers = Helpers { journal: &mut journal, n_asked: 0 };
    if !args.dry_run {
        helpers.withdraw(ui, &slurm)?;
        may_expand(&slurm)?;
    }
    let looked = look_again_and_again(ui, args, &slurm, &mut helpers, &stop);
    // However it ended: no helper job outlives us, and Ctrl-C does not hurry this.
    let closing = Slurm::new(&args.slurm, || false)?.with_folder(scratch.clone());
    let withdrawn = if args.dry_run { Ok(()) } else { helpers.withdraw(ui, &closing) };
    let _ = std::fs::remove_dir_all(&scratch);
    looked?;
    withdrawn?;
    Ok(ExitStatus::Done)
}

fn look_again_and_again(
    ui: &mut Ui,
    args: &ApplyArgs,
    slurm: &Slurm<'_>,
    helpers: &mut Helpers<'_>,
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
                for resize in args.policy.wanted(ui, &mut listing, &mut models)? {
                    ui.out(&format!("{}\n", in_words(&resize)))?;
                    if args.dry_run || stop.load(Ordering::Relaxed) {
                        continue;
                    }
                    if let Err(error) = carry_out(args, slurm, helpers, stop, &resize) {
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

fn carry_out(
    args: &ApplyArgs,
    slurm: &Slurm<'_>,
    helpers: &mut Helpers<'_>,
    stop: &AtomicBool,
    resize: &WantedResize,
) -> anyhow::Result<()> {
    if resize.to > resize.from {
        return helpers.grow(slurm, &resize.id, resize.to - resize.from, args.wait);
    }
    if args.signal != "none" {
        slurm.signal(&resize.id, &args.signal)?;
        if !rest(args.grace, stop) {
            bail!("not shrunk: stopped during its grace period");
        }
    }
    slurm.set_size(&resize.id, &resize.to.to_string())
}

/// Helper jobs: each asks for nodes that a running job is given.
struct Helpers<'a> {
    journal: &'a mut Journal,
    n_asked: u32,
}

impl Helpers<'_> {
    fn grow(&mut self, slurm: &Slurm<'_>, id: &str, by: u32, wait_s: f64) -> anyhow::Result<()> {
        self.n_asked += 1;
        let name = format!("{PREFIX}{id}-{}-{}", std::process::id(), self.n_asked);
        self.journal.add(&name)?;
        let grown = grow_by(slurm, id, by, &name, wait_s);
        cancel_all(slurm, &name)?;
        self.journal.remove(&name)?;
        grown
    }

    /// Cancels all helper jobs that may exist.
    fn withdraw(&mut self, ui: &mut Ui, slurm: &Slurm<'_>) -> anyhow::Result<()> {
        for name in self.journal.names() {
            let n = cancel_all(slurm, &name)?;
            if n > 0 {
                ui.status(format_args!("helper job {name} is cancelled"));
            }
            self.journal.remove(&name)?;
        }
        Ok(())
    }
}

fn grow_by(slurm: &Slurm<'_>, id: &str, by: u32, name: &str, wait_s: f64) -> anyhow::Result<()> {
    let Some(helper) = slurm.ask_for(id, by, name, wait_s.ceil() as u64)? else {
        bail!("not grown: {by} more nodes were not to be had within {wait_s} s");
    };
    let Some(held) = slurm.size_of(id)? else { bail!("not grown: it ended meanwhile") };
    slurm.set_size(&helper, "0")?;
    let wanted = held + by;
    // With the last node of the helper the job has them all; some versions of Slurm must be told so.
    for _ in 0..5 {
        if slurm.size_of(id)?.is_none_or(|nodes| nodes >= wanted) {
            return Ok(());
        }
        if slurm.set_size(id, "ALL").is_err() {
            thread::sleep(Duration::from_secs(1));
        }
    }
    bail!("not grown: Slurm did not hand {by} nodes over")
}

fn cancel_all(slurm: &Slurm<'_>, name: &str) -> anyhow::Result<usize> {
    let ids = slurm.named(name)?;
    for id in &ids {
        slurm.cancel(id)?;
    }
    Ok(ids.len())
}

/// Waits, and returns whether nobody said to stop meanwhile.
fn rest(seconds: f64, stop: &AtomicBool) -> bool {
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    while !stop.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(Duration::from_millis(50)));
    }
    false
}

/// Where programs keep what they must not forget.
fn state_folder() -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/state"));
    let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    state.or_else(home).map(|folder| folder.join("iotide/resize"))
}
