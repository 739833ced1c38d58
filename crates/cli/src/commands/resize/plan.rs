//! `iotide resize plan`: what would be resized on a Slurm now.

use iotide_report::text;
use iotide_sched::jobs::{JobPolicy, MalleableMark, PolicyKnobs, ResizeCost, WantedResize, wanted_resizes};

use anyhow::bail;

use super::slurm::{Listing, Slurm, SlurmArgs};
use crate::ExitStatus;
use crate::ui::Ui;

/// Show what would be resized on this Slurm now, and change nothing
///
/// Jobs are malleable if their comment says so: `sbatch --comment iotide:min=2,max=16`. All others are left alone.
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  iotide resize plan")]
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
}

impl PolicyArgs {
    /// What the policy asks for now.
    pub(super) fn wanted(&self, listing: &Listing) -> anyhow::Result<Vec<WantedResize>> {
        let Some(policy) = JobPolicy::from_name(&self.policy) else {
            let names = JobPolicy::ALL.map(JobPolicy::name);
            bail!("--policy: {:?} is not known; there are {}", self.policy, names.join(", "));
        };
        if !(self.alpha.is_finite() && (0.0..=1e6).contains(&self.alpha)) {
            bail!("--alpha: {} is not a number of seconds", self.alpha);
        }
        let cost = ResizeCost { fixed_ms: 1e3 * self.alpha, per_node_ms: 0.0 };
        Ok(wanted_resizes(&listing.jobs, listing.free, policy, &PolicyKnobs::default(), cost))
    }
}

pub(crate) fn run(ui: &mut Ui, args: &PlanArgs) -> anyhow::Result<ExitStatus> {
    let listing = Slurm::new(&args.slurm, || false)?.list()?;
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
    let wanted = args.policy.wanted(&listing)?;
    for resize in &wanted {
        ui.out(&format!("{}\n", in_words(resize)))?;
    }
    Ok(if wanted.is_empty() { ExitStatus::NothingFound } else { ExitStatus::Done })
}

pub(super) fn in_words(resize: &WantedResize) -> String {
    let WantedResize { id, from, to, starts } = resize;
    let why = match (to < from, starts.is_empty()) {
        (true, false) => format!(", so that {} can start", starts.join(", ")),
        _ => String::new(),
    };
    let verb = if to < from { "shrink" } else { "grow" };
    format!("{verb} job {id} from {from} to {to} nodes{why}")
}

/// What a comment says, or a note on what is wrong with it.
pub(super) fn mark_of(id: &str, comment: &str) -> Result<Option<MalleableMark>, String> {
    match MalleableMark::parse(comment) {
        None => Ok(None),
        Some(Ok(mark)) => Ok(Some(mark)),
        Some(Err(fault)) => Err(format!("job {id} is left alone: {}", text::printable(&fault))),
    }
}
