//! A decision, from what it rests on to what came of it.

use super::JobLoss;
use crate::known::{HARDLY_NEW, are_within};

/// What a decision changes.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Periods of jobs, as an arbiter or a mount shall take them.
    Periods(Vec<NewPeriod>),
    /// What a job writes here goes there while it computes.
    Stage {
        /// The job, by [`JobFacts::key`](super::JobFacts::key).
        job: String,
        /// The buffer.
        from: String,
        /// Where it is safe.
        to: String,
    },
    /// A job's number of nodes.
    Resize {
        /// The job, by [`JobFacts::key`](super::JobFacts::key).
        job: String,
        /// Nodes that it has.
        from: u32,
        /// Nodes that it shall have.
        to: u32,
    },
}

impl Change {
    /// The jobs that are changed, by [`JobFacts::key`](super::JobFacts::key).
    pub fn jobs(&self) -> Vec<&str> {
        match self {
            Self::Periods(periods) => periods.iter().map(|new| new.job.as_str()).collect(),
            Self::Stage { job, .. } | Self::Resize { job, .. } => vec![job],
        }
    }

    /// Whether it is the same to whoever would have to do it again: a period that moves a little is.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Periods(these), Self::Periods(those)) => {
                these.len() == those.len()
                    && these
                        .iter()
                        .zip(those)
                        .all(|(a, b)| a.job == b.job && are_within(HARDLY_NEW, a.period_s, b.period_s))
            }
            _ => self == other,
        }
    }
}

/// The period of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct NewPeriod {
    /// The job.
    pub job: String,
    /// What the arbiter calls it.
    pub at: String,
    /// What it took its period to be until now.
    pub former_s: Option<f64>,
    /// What it shall take it to be.
    pub period_s: f64,
}

/// What changes by how much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// What.
    pub quantity: Quantity,
    /// What it is, or would be, without the decision.
    pub without: f64,
    /// What it is, or would be, with it.
    pub with: f64,
}

impl Effect {
    /// The change as a share: −0.4 is 40 % less.
    pub fn change(&self) -> f64 {
        self.with / self.without - 1.0
    }

    /// Whether both figures are such that a change can be told.
    pub(super) fn is_sound(&self) -> bool {
        [self.with, self.without].iter().all(|figure| figure.is_finite())
            && self.without > 0.0
            && self.with >= 0.0
    }
}

/// Quantities that decisions change; less is better for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Time in I/O for each byte: the geometric mean over jobs, relative to what it was (or to a job alone, where it is simulated).
    IoTime,
    /// Time from the end of the job until all it wrote is safe.
    UntilSafe,
    /// How long a job takes.
    RunTime,
    /// Time until jobs that wait can start.
    Wait,
    /// Time until jobs have ended, those that wait included: the mean.
    Turnaround,
}

impl Quantity {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::IoTime, Self::UntilSafe, Self::RunTime, Self::Wait, Self::Turnaround];

    /// What it is called in answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::IoTime => "io_time",
            Self::UntilSafe => "until_safe",
            Self::RunTime => "run_time",
            Self::Wait => "wait",
            Self::Turnaround => "turnaround",
        }
    }

    /// What people call it.
    pub fn words(self) -> &'static str {
        match self {
            Self::IoTime => "time in I/O per byte",
            Self::UntilSafe => "time until all is safe",
            Self::RunTime => "run time",
            Self::Wait => "time until waiting jobs start",
            Self::Turnaround => "time until jobs have ended",
        }
    }
}

/// What became of a decision.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// It would have been taken; this is a dry run.
    DryRun,
    /// It was not taken.
    Declined(String),
    /// It is in force.
    Standing,
    /// It could not be carried out.
    Failed(String),
    /// It was taken back.
    Undone(String),
    /// What it was about has ended.
    Over,
}

impl State {
    /// What it is called in answers.
    pub fn name(&self) -> &'static str {
        match self {
            Self::DryRun => "dry run",
            Self::Declined(_) => "declined",
            Self::Standing => "standing",
            Self::Failed(_) => "failed",
            Self::Undone(_) => "undone",
            Self::Over => "over",
        }
    }

    /// Why, where there is a reason.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Declined(why) | Self::Failed(why) | Self::Undone(why) => Some(why),
            Self::DryRun | Self::Standing | Self::Over => None,
        }
    }
}

/// What was measured of the effect.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It is too early to tell.
    Open,
    /// This.
    Measured(Effect),
    /// Nobody can tell, and why.
    Unclear(String),
}

/// A decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Its number; later ones have higher ones.
    pub id: u64,
    /// The rule that permits it.
    pub rule: usize,
    /// When it was taken.
    pub at_s: f64,
    /// What it changes.
    pub change: Change,
    /// What it rests on, in words.
    pub evidence: Vec<String>,
    /// What is expected to come of it.
    pub expected: Option<Effect>,
    /// What came of it.
    pub verdict: Verdict,
    /// The jobs that lost too much of their time by it, who lost most first.
    pub harmed: Vec<JobLoss>,
    /// Whether it is in force.
    pub state: State,
}
