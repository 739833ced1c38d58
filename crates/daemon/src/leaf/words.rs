//! What is said to a [`Leaf`](super::Leaf), and what it says.

use std::sync::Arc;

use iotide_ledger::tree::{KeptRow, Opened};
use iotide_ledger::{About, Counters, JobId, JobKey, Losses, Name, Refusal};

/// The unique name of a counter page: its file name and its inode.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(Box<str>);

impl PageId {
    /// Returns the id of a page.
    pub fn new(text: impl Into<Box<str>>) -> Self {
        Self(text.into())
    }

    /// Returns what stands for the page of a job's cgroup. No file has such a name.
    pub fn of_group(job: &str, inode: u64) -> Self {
        Self(format!("{GROUP}{job}:{inode}").into())
    }

    /// Whether it stands for a cgroup, rather than a process.
    pub fn is_group(&self) -> bool {
        self.0.starts_with(GROUP)
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

const GROUP: &str = "/cgroup/job_";

/// What says which job a process belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The system, by a cgroup.
    Cgroup(JobId),
    /// The process, by a variable of its environment.
    Job(JobId),
    /// `iotide record`, which names its runs.
    Run(JobId),
    /// Nobody; then processes of one program with one parent are a job.
    Siblings {
        /// The process that started it.
        parent_pid: u32,
    },
}

/// A process when its page is first seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Whose it is: the owner of the page, not what the page says.
    pub uid: u32,
    /// The cluster as the scheduler names it; may be empty.
    pub cluster: Name,
    /// Which job it belongs to.
    pub claim: Claim,
    /// When it began, in nanoseconds since 1970.
    pub start_ns: u64,
    /// Which rank of a parallel program it is: ranks speak for their job before launchers and shells do.
    pub rank: Option<u32>,
    /// How many ranks there are.
    pub n_ranks: Option<u32>,
    /// What it says of its job.
    pub about: About,
}

/// Something that must be stored. Each may be stored twice without harm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// A job runs, and this is known of it.
    Job {
        /// Which.
        key: JobKey,
        /// What is known.
        about: About,
    },
    /// A page belongs to a job.
    Page {
        /// Which page.
        page: PageId,
        /// Which job.
        key: JobKey,
    },
    /// What a running process has counted so far, should its page be lost.
    Keep {
        /// Its page.
        page: PageId,
        /// Its job.
        key: JobKey,
        /// Its counts.
        counters: Arc<Counters>,
    },
    /// A process is gone, and this is what it counted. Once that is stored, its page can go.
    Finish {
        /// Its page.
        page: PageId,
        /// Its job.
        key: JobKey,
        /// Its counts.
        counters: Arc<Counters>,
        /// What is wrong with them.
        loss: Option<Refusal>,
    },
    /// What other nodes have counted for a job.
    Rows {
        /// Which job.
        key: JobKey,
        /// Rows of which more is known than is stored.
        rows: Vec<KeptRow>,
        /// What all rows of the job add up to.
        sum: Arc<Counters>,
        /// All its nodes.
        nodes: Arc<[Name]>,
    },
    /// All processes of a job are gone.
    End {
        /// Which.
        key: JobKey,
        /// When the last one went.
        end_ns: u64,
        /// Nodes that were not heard of until the end.
        silent: Vec<Name>,
        /// What the daemon above is to have of it, if there is one and processes of this machine were part of the job.
        own: Option<Box<Opened>>,
    },
}

impl Act {
    /// The job that has ended, if one has.
    pub fn ended(&self) -> Option<&JobKey> {
        match self {
            Self::End { key, .. } => Some(key),
            _ => None,
        }
    }
}

/// Puts rows where they can be stored: after the job that they are of, and before its end.
pub fn with_rows(mut acts: Vec<Act>, rows: Vec<Act>) -> Vec<Act> {
    let ends = acts.iter().position(|act| act.ended().is_some()).unwrap_or(acts.len());
    acts.splice(ends..ends, rows);
    acts
}

/// A job that ran before, as the store has it.
#[derive(Clone, Debug, Default)]
pub struct Earlier {
    /// What was known of it.
    pub job: Option<(JobKey, About)>,
    /// What its processes had counted that are gone.
    pub done: Counters,
    /// What other nodes had counted.
    pub elsewhere: Counters,
    /// Pages that were not finished, and what was last kept of them.
    pub pages: Vec<(PageId, Counters)>,
    /// When it ended, if it has.
    pub end_ns: Option<u64>,
    /// How many processes it had.
    pub n_processes: u32,
}

/// A running job, to be shown.
#[derive(Clone, Debug)]
pub struct JobView {
    /// Which.
    pub key: JobKey,
    /// What is known of it.
    pub about: About,
    /// What it has counted.
    pub counters: Arc<Counters>,
    /// How many processes it has now.
    pub n_running: u32,
    /// The nodes it runs on.
    pub nodes: Arc<[Name]>,
    /// Bytes read per second, over the last ten seconds.
    pub read_bps: f64,
    /// Bytes written per second, over the last ten seconds.
    pub write_bps: f64,
}

/// All that runs on a node, to be shown.
#[derive(Clone, Debug, Default)]
pub struct View {
    /// When it was, in nanoseconds since 1970.
    pub at_ns: u64,
    /// The node.
    pub node: Name,
    /// The jobs that run.
    pub jobs: Vec<JobView>,
    /// What all jobs have counted on this machine since this daemon was started, those that have ended among them.
    pub total: Counters,
    /// The same on machines below.
    pub elsewhere: Counters,
    /// What was refused for good.
    pub losses: Losses,
    /// Processes that are not counted, unless there is room for them later.
    pub refused: Losses,
    /// How many pages are read.
    pub n_pages: usize,
}

impl View {
    /// All that is not counted, for good or so far.
    pub fn not_counted(&self) -> impl Iterator<Item = (Refusal, u64)> {
        self.losses.iter().chain(self.refused.iter())
    }
}

impl View {
    /// Jobs that run on this machine; others run on machines below only.
    pub fn n_jobs_here(&self) -> usize {
        self.jobs.iter().filter(|job| job.nodes.contains(&self.node)).count()
    }
}

/// A job with processes on this machine, as it is told to a daemon above.
#[derive(Clone, Debug)]
pub struct OwnRow {
    /// Which it is.
    pub opened: Opened,
    /// What processes of this machine have counted.
    pub counters: Counters,
    /// How many there are.
    pub n_running: u32,
    /// When the last one ended, if there is none.
    pub ended_ns: Option<u64>,
}
