//! A decision, from what it rests on to what came of it.

use super::JobLoss;
use crate::known::{HARDLY_NEW, are_within};

/// Change that a decision makes.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Periods of jobs, as an arbiter or a mount shall take them.
    Periods(Vec<NewPeriod>),
    /// Staging: data that a job writes here is moved there while it computes.
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
    /// Its name at the arbiter.
    pub at: String,
    /// Period that the arbiter assumed until now.
    pub former_s: Option<f64>,
    /// Period that the arbiter shall assume.
    pub period_s: f64,
}

/// Change of a quantity, by how much.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effect {
    /// The quantity.
    pub quantity: Quantity,
    /// Its value without the decision, measured or expected.
    pub without: f64,
    /// Its value with the decision, measured or expected.
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

    /// Returns its name in answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::IoTime => "io_time",
            Self::UntilSafe => "until_safe",
            Self::RunTime => "run_time",
            Self::Wait => "wait",
            Self::Turnaround => "turnaround",
        }
    }

    /// Returns its name in words.
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

/// Outcome of a decision.
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
    /// Its subject has ended.
    Over,
}

impl State {
    /// Returns its name in answers.
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

/// Measured effect of a decision.
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
    /// Change it makes.
    pub change: Change,
    /// Evidence it rests on, in words.
    pub evidence: Vec<String>,
    /// Expected effect.
    pub expected: Option<Effect>,
    /// Measured effect.
    pub verdict: Verdict,
    /// The jobs that lost too much of their time by it, who lost most first.
    pub harmed: Vec<JobLoss>,
    /// Whether it is in force.
    pub state: State,
}
