//! `iotide resize plan`: what would be resized on a Slurm now.

use anyhow::bail;
use iotide_act::{Deciding, Models, Slurm, in_words, parse_source, policy_named};
use iotide_report::text;
use iotide_sched::jobs::ResizeCost;
use iotide_source::Source;

use super::SlurmArgs;
use crate::ExitStatus;
use crate::ui::Ui;

/// Show what would be resized on this Slurm now, and change nothing
///
/// Jobs are malleable if their comment says so: `sbatch --comment iotide:min=2,max=16`. All others are left alone.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Examples:\n  iotide resize plan\n  iotide resize plan --models daemon    as earlier runs of each program have scaled"
)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    policy: PolicyArgs,
    #[command(flatten)]
    slurm: SlurmArgs,
}

/// How sizes are decided.
#[derive(clap::Args, Debug)]
pub(super) struct PolicyArgs {
    /// Which policy decides, of those of `iotide simulate jobs`
    #[arg(long, value_name = "NAME", default_value = "tide")]
    policy: String,
    /// Seconds that a change of size costs a job
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    alpha: f64,
    /// Take how a job's time changes with its size from models of earlier runs: `daemon` or `daemon:SOCKET` (`iotide serve`); without a model, or with `serial=` in
    /// the comment, as the comment says
    #[arg(long, value_name = "SOURCE", value_parser = parse_source)]
    models: Option<Source>,
}

impl PolicyArgs {
    pub(super) fn deciding(&self) -> anyhow::Result<Deciding> {
        let policy = policy_named(&self.policy).map_err(|why| anyhow::anyhow!("--policy: {why}"))?;
        if !(self.alpha.is_finite() && (0.0..=1e6).contains(&self.alpha)) {
            bail!("--alpha: {} is not a number of seconds", self.alpha);
        }
        let cost = ResizeCost { fixed_ms: 1e3 * self.alpha, per_node_ms: 0.0 };
        Ok(Deciding { policy, cost, models: self.models.clone() })
    }
}

pub(crate) fn run(ui: &mut Ui, args: &PlanArgs) -> anyhow::Result<ExitStatus> {
    let deciding = args.policy.deciding()?;
    let mut listing = Slurm::new(&args.slurm.talk(), || false).list()?;
    for note in &listing.notes {
        ui.status(note);
    }
    let n_marked = listing.jobs.iter().filter(|job| job.mark.is_some()).count();
    ui.status(format_args!(
        "{}, {} malleable, {}",
        text::counted(listing.jobs.len() as u64, "job"),
        n_marked,
        text::counted(u64::from(listing.free), "free node")
    ));
    let wanted = deciding.wanted(&mut |note| ui.status(note), &mut listing, &mut Models::default());
    for resize in &wanted {
        ui.out(&format!("{}\n", in_words(resize)))?;
    }
    Ok(if wanted.is_empty() { ExitStatus::NothingFound } else { ExitStatus::Done })
}
