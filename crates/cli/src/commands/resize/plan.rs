//! `iotide resize plan`: what would be resized on a Slurm now.

use iotide_report::text;
use iotide_sched::jobs::{
    JobPolicy, ListedJob, MalleableMark, PolicyKnobs, ResizeCost, WantedResize, wanted_resizes,
};
use iotide_source::{SizedJob, Source};

use anyhow::bail;

use super::slurm::{Listing, Slurm, SlurmArgs};
use crate::ExitStatus;
use crate::commands::source::parse_source;
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

/// What is heard of models.
#[derive(Debug, Default)]
pub(in crate::commands) struct Models {
    trouble: Option<String>,
    is_known: bool,
}

impl Models {
    /// Notes what models say of marked jobs that run. One that is silent is named once, and then marks are all that is known.
    fn fill(&mut self, say: &mut dyn FnMut(String), source: &Source, listing: &mut Listing) {
        let is_sized = |job: &&mut ListedJob| job.mark.is_some() && job.elapsed_s.is_some();
        let mut marked: Vec<&mut ListedJob> = listing.jobs.iter_mut().filter(is_sized).collect();
        let sized: Vec<SizedJob> = marked
            .iter()
            .filter_map(|job| {
                let mark = job.mark?;
                Some(SizedJob { id: job.id.clone(), nodes: job.nodes, min: mark.min, max: mark.max })
            })
            .collect();
        match source.times(&sized) {
            Ok(times) => {
                if self.trouble.take().is_some() {
                    say(format!("{source} answers again"));
                }
                let n_known = times.iter().filter(|times| !times.is_empty()).count();
                if !std::mem::replace(&mut self.is_known, n_known > 0) && n_known > 0 {
                    say(format!("{source} has models of {n_known} of {} jobs", sized.len()));
                }
                marked.iter_mut().zip(times).for_each(|(job, times)| job.times = times);
            }
            Err(error) => {
                let trouble = error.to_string();
                if self.trouble.as_ref() != Some(&trouble) {
                    say(format!("{trouble}; going by what comments of jobs say"));
                }
                self.trouble = Some(trouble);
            }
        }
    }
}

/// Who decides about sizes, and on what.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::commands) struct Deciding {
    pub(in crate::commands) policy: JobPolicy,
    /// What a change of size costs a job.
    pub(in crate::commands) cost: ResizeCost,
    /// How jobs scale.
    pub(in crate::commands) models: Option<Source>,
}

impl Deciding {
    /// What the policy asks for now; what an operator should know of models is handed to `say`.
    pub(in crate::commands) fn wanted(
        &self,
        say: &mut dyn FnMut(String),
        listing: &mut Listing,
        models: &mut Models,
    ) -> Vec<WantedResize> {
        if let Some(source) = &self.models {
            models.fill(say, source, listing);
        }
        wanted_resizes(&listing.jobs, listing.free, self.policy, &PolicyKnobs::default(), self.cost)
    }
}

/// The policy of a name.
pub(in crate::commands) fn policy_named(name: &str) -> Result<JobPolicy, String> {
    JobPolicy::from_name(name).ok_or_else(|| {
        let names = JobPolicy::ALL.map(JobPolicy::name);
        format!("{name:?} is not known; there are {}", names.join(", "))
    })
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
    let mut listing = Slurm::new(&args.slurm, || false).list()?;
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
