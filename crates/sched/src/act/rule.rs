//! Permitted actions, the jobs they apply to, and their limits.

use crate::LEAST_CONFIDENCE;

/// Who acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// Gives periods to an arbiter or a mount, which puts jobs into sets by them.
    Sets,
    /// Moves what a job has written to another place while it computes.
    Stage,
    /// Gives a malleable job another size.
    Resize,
}

impl Actor {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Sets, Self::Stage, Self::Resize];

    /// Returns its name in settings and answers.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sets => "sets",
            Self::Stage => "stage",
            Self::Resize => "resize",
        }
    }

    /// The one of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|actor| actor.name() == name)
    }
}

/// One permission.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// Its name; no other rule has it.
    pub name: String,
    /// Who acts by it.
    pub actor: Actor,
    /// On which jobs.
    pub scope: Scope,
    /// How much.
    pub limits: Limits,
}

/// Which jobs are meant. What is empty leaves everyone in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Their ids or the names of their programs.
    pub jobs: Vec<Pattern>,
    /// Their users.
    pub users: Vec<Pattern>,
    /// The partitions they run in.
    pub partitions: Vec<Pattern>,
}

impl Scope {
    /// The one partition that is meant, if there is only one.
    pub fn only_partition(&self) -> Option<&str> {
        match self.partitions.as_slice() {
            [Pattern(name)] if !name.contains('*') => Some(name),
            _ => None,
        }
    }

    /// Whether a job is meant.
    pub fn holds(&self, job: &JobFacts) -> bool {
        let fits = |patterns: &[Pattern], names: &[&str]| {
            patterns.is_empty() || patterns.iter().any(|pattern| names.iter().any(|name| pattern.fits(name)))
        };
        fits(&self.jobs, &[&job.id, &job.program])
            && fits(&self.users, &[&job.user])
            && fits(&self.partitions, &[&job.partition])
    }
}

/// A name in which `*` stands for anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern(String);

impl Pattern {
    /// A pattern as someone wrote it.
    pub fn new(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether a name fits.
    pub fn fits(&self, name: &str) -> bool {
        let (pattern, name) = (self.0.as_bytes(), name.as_bytes());
        // Where the last star stood, and what was tried for it: no pattern takes longer than the product of both lengths.
        let (mut at, mut in_name, mut star) = (0, 0, None);
        while in_name < name.len() {
            if pattern.get(at) == Some(&b'*') {
                star = Some((at, in_name));
                at += 1;
            } else if pattern.get(at) == Some(&name[in_name]) {
                at += 1;
                in_name += 1;
            } else if let Some((star_at, tried)) = star {
                at = star_at + 1;
                in_name = tried + 1;
                star = Some((star_at, tried + 1));
            } else {
                return false;
            }
        }
        pattern[at..].iter().all(|&byte| byte == b'*')
    }
}

/// How far a rule may go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Jobs that it holds at once.
    pub most_jobs: usize,
    /// Decisions in an hour.
    pub most_per_hour: usize,
    /// Least saving that must be expected of a decision, as a share.
    pub least_gain: f64,
    /// Below this confidence a period is a guess.
    pub least_confidence: f64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { most_jobs: 64, most_per_hour: 60, least_gain: 0.05, least_confidence: LEAST_CONFIDENCE }
    }
}

/// Measurements of a running job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobFacts {
    /// Its id.
    pub id: String,
    /// Its user's number.
    pub uid: u32,
    /// Its user's name.
    pub user: String,
    /// Name of its program.
    pub program: String,
    /// The partition it runs in.
    pub partition: String,
    /// How many processes it has.
    pub n_processes: u32,
    /// How far apart its I/O phases are.
    pub period_s: Option<f64>,
    /// How sure that is.
    pub confidence: f64,
    /// Bytes that a phase moves.
    pub bytes_per_phase: Option<f64>,
    /// Bytes it has read and written so far.
    pub bytes: u64,
    /// How long its threads were in calls that read and write so far.
    pub io_s: f64,
    /// How many such calls have ended.
    pub n_calls: u64,
}

impl JobFacts {
    /// Which job it is: users may have jobs of one id.
    pub fn key(&self) -> String {
        format!("uid:{}/{}", self.uid, self.id)
    }
}

/// The id of a job in its [`JobFacts::key`].
pub fn id_of(key: &str) -> &str {
    key.split_once('/').map_or(key, |(_, id)| id)
}
