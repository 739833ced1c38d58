//! Decisions about the sizes of jobs: the policy, and the models it uses.

use iotide_report::text;
use iotide_sched::jobs::{
    JobPolicy, ListedJob, MalleableMark, PolicyKnobs, ResizeCost, WantedResize, wanted_resizes,
};
use iotide_source::{SizedJob, Source};

use crate::slurm::Listing;

/// State of the source of models: its last error, and whether it has models.
#[derive(Debug, Default)]
pub struct Models {
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

/// The policy for sizes, and the models it uses.
#[derive(Clone, Debug, PartialEq)]
pub struct Deciding {
    /// The rule for sizes.
    pub policy: JobPolicy,
    /// Cost to a job of a change of size.
    pub cost: ResizeCost,
    /// How jobs scale.
    pub models: Option<Source>,
}

impl Deciding {
    /// Returns the resizes that the policy wants now; `say` gets notes on models for the operator.
    pub fn wanted(
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
pub fn policy_named(name: &str) -> Result<JobPolicy, String> {
    JobPolicy::from_name(name).ok_or_else(|| {
        let names = JobPolicy::ALL.map(JobPolicy::name);
        format!("{name:?} is not known; there are {}", names.join(", "))
    })
}

/// A change of size in a line.
pub fn in_words(resize: &WantedResize) -> String {
    let WantedResize { id, from, to, starts } = resize;
    let why = match (to < from, starts.is_empty()) {
        (true, false) => format!(", so that {} can start", starts.join(", ")),
        _ => String::new(),
    };
    let verb = if to < from { "shrink" } else { "grow" };
    format!("{verb} job {id} from {from} to {to} nodes{why}")
}

/// Returns the mark in a comment, if there is one, or a note on its fault.
pub(crate) fn mark_of(id: &str, comment: &str) -> Result<Option<MalleableMark>, String> {
    match MalleableMark::parse(comment) {
        None => Ok(None),
        Some(Ok(mark)) => Ok(Some(mark)),
        Some(Err(fault)) => Err(format!("job {id} is left alone: {}", text::printable(&fault))),
    }
}
