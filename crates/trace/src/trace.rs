//! Where readers put what they find.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use crate::bins::BinWidths;
use crate::{AccessFacts, Event, FileId, Grain, Layer, Loss, Op, Rank, TimeKind, Timestamp};

/// Takes what a reader finds: a [`Trace`] collects, an [`crate::Overlap`] adds up, a [`Tally`] counts.
///
/// There are no default methods: a sink that stands before another and forgets to pass something on does not compile. One
/// that does not care for something says so.
pub trait EventSink {
    /// Takes one event; `Break` asks the reader to stop, because nothing more is wanted.
    fn event(&mut self, event: Event) -> ControlFlow<()>;
    /// Takes one event that went on beside the program, which began to wait for it at `waited`: between the event's start and
    /// its end, or at the end if the program never had to. It comes in place of [`EventSink::event`].
    fn async_event(&mut self, event: Event, waited: Timestamp) -> ControlFlow<()>;
    /// Takes note of time in calls that the source states as a sum, where its events do not carry it.
    fn time_spent(&mut self, spent: TimeSpent);
    /// Takes note of what the source counted of a layer's calls beside their times.
    fn access_facts(&mut self, facts: &AccessFacts);
    /// Takes note of something missing.
    fn loss(&mut self, loss: Loss);
}

/// Time in calls that no event of [`crate::Grain::Call`] carries: a record's interval says when its calls were made,
/// not how long they took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeSpent {
    /// The layer that measured it.
    pub layer: Layer,
    /// Kind of activity it was spent on.
    pub kind: TimeKind,
    /// On which file.
    pub file: FileId,
    /// By whom; [`Rank::ALL`] if it is the sum over all ranks, or over any.
    pub rank: Rank,
    /// How long, summed over the ranks.
    pub seconds: f64,
}

impl<S: EventSink + ?Sized> EventSink for &mut S {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        (**self).event(event)
    }
    fn loss(&mut self, loss: Loss) {
        (**self).loss(loss);
    }
    fn async_event(&mut self, event: Event, waited: Timestamp) -> ControlFlow<()> {
        (**self).async_event(event, waited)
    }
    fn time_spent(&mut self, spent: TimeSpent) {
        (**self).time_spent(spent);
    }
    fn access_facts(&mut self, facts: &AccessFacts) {
        (**self).access_facts(facts);
    }
}

/// Both see everything; the reader may stop when neither wants more.
impl<A: EventSink, B: EventSink> EventSink for (A, B) {
    #[inline]
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        match (self.0.event(event), self.1.event(event)) {
            (ControlFlow::Break(()), ControlFlow::Break(())) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
    fn async_event(&mut self, event: Event, waited: Timestamp) -> ControlFlow<()> {
        match (self.0.async_event(event, waited), self.1.async_event(event, waited)) {
            (ControlFlow::Break(()), ControlFlow::Break(())) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
    fn loss(&mut self, loss: Loss) {
        self.0.loss(loss.clone());
        self.1.loss(loss);
    }
    fn time_spent(&mut self, spent: TimeSpent) {
        self.0.time_spent(spent);
        self.1.time_spent(spent);
    }
    fn access_facts(&mut self, facts: &AccessFacts) {
        self.0.access_facts(facts);
        self.1.access_facts(facts);
    }
}

/// Wants nothing, and so stops nobody who stands beside it.
impl EventSink for () {
    fn event(&mut self, _: Event) -> ControlFlow<()> {
        ControlFlow::Break(())
    }
    fn loss(&mut self, _: Loss) {}

    fn async_event(&mut self, event: Event, _: crate::Timestamp) -> ControlFlow<()> {
        self.event(event)
    }

    fn time_spent(&mut self, _: crate::TimeSpent) {}

    fn access_facts(&mut self, _: &crate::AccessFacts) {}
}

/// Facts that a source states beside its events.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceInfo {
    /// Facts about the job.
    pub job: JobInfo,
    /// Paths by [`crate::FileId`].
    pub files: Vec<String>,
}

/// Known facts about a job. Every field is absent until a source states it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobInfo {
    /// The job's wall-clock time.
    pub run_time_s: Option<f64>,
    /// The number of processes.
    pub n_procs: Option<u64>,
    /// Whether these are ranks of a parallel program; others are processes that know nothing of each other.
    pub has_ranks: Option<bool>,
    /// Of how many of them the source tells, where it is what only some have left.
    pub n_told: Option<u64>,
    /// The user, by name or number as the source has it.
    pub user: Option<String>,
    /// The command.
    pub exe: Option<String>,
    /// The scheduler's name for the job.
    pub job_id: Option<String>,
    /// When the job began, in seconds since the Unix epoch.
    pub start_time_unix_s: Option<f64>,
    /// How many nodes it was seen on.
    pub n_nodes: Option<u64>,
    /// The file systems that were mounted.
    pub mounts: Vec<Mount>,
}

impl JobInfo {
    /// The number of processes to compare with each other: not those whose records are missing.
    pub fn n_compared(&self) -> Option<u64> {
        self.n_told.or(self.n_procs)
    }
}

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The kind of file system.
    pub kind: String,
    /// Where it is mounted.
    pub path: String,
}

/// A whole trace in memory: for when the events themselves are wanted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Facts that the source states.
    pub info: TraceInfo,
    /// Events, in no particular order.
    pub events: Vec<Event>,
    /// Losses of data.
    pub losses: Vec<Loss>,
}

impl EventSink for Trace {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        self.events.push(event);
        ControlFlow::Continue(())
    }
    fn loss(&mut self, loss: Loss) {
        self.losses.push(loss);
    }

    fn async_event(&mut self, event: Event, _: crate::Timestamp) -> ControlFlow<()> {
        self.event(event)
    }

    fn time_spent(&mut self, _: crate::TimeSpent) {}

    fn access_facts(&mut self, _: &crate::AccessFacts) {}
}

/// The sums of a trace, kept while it streams past.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Events seen.
    pub n_events: u64,
    /// Bytes moved from storage.
    pub bytes_read: f64,
    /// Bytes moved to storage.
    pub bytes_written: f64,
    /// When the first event began.
    pub start: Option<Timestamp>,
    /// When the last event ended.
    pub end: Option<Timestamp>,
    ranks: BTreeSet<Rank>,
    last_rank: Option<Rank>,
    bins: BinWidths,
    /// Requests that moved data, and who made them.
    n_data: u64,
    data_ranks: BTreeSet<Rank>,
    /// Bytes that are known by file only.
    by_file_bytes: f64,
}

impl Tally {
    /// Counts one event.
    #[inline]
    pub fn add(&mut self, event: &Event) {
        self.n_events += 1;
        match event.op {
            Op::Read => self.bytes_read += event.bytes,
            Op::Write => self.bytes_written += event.bytes,
            _ => {}
        }
        if event.op.moves_data() {
            self.bins.add(event);
            self.n_data += 1;
            // More requests than ranks: who made them no longer matters.
            if self.data_ranks.len() as u64 + 1 >= self.n_data {
                self.data_ranks.insert(event.rank);
            }
            if event.grain == Grain::Record {
                self.by_file_bytes += event.bytes;
            }
        }
        self.start = Some(self.start.map_or(event.start, |start| start.min(event.start)));
        self.end = Some(self.end.map_or(event.end, |end| end.max(event.end)));
        // Sources write one rank's events in a row: the set is asked only when the rank changes.
        if self.last_rank != Some(event.rank) && event.rank != Rank::ALL {
            self.ranks.insert(event.rank);
            self.last_rank = Some(event.rank);
        }
    }

    /// How wide the bins are, if the source tells volumes by bins of one width.
    pub fn bin_width_s(&self) -> Option<f64> {
        self.bins.width_s()
    }

    /// How many requests moved data.
    pub fn n_data(&self) -> u64 {
        self.n_data
    }

    /// Whether two ranks or more moved data, and each of them once.
    pub fn is_one_call_per_rank(&self) -> bool {
        self.n_data >= 2
            && self.data_ranks.len() as u64 == self.n_data
            && !self.data_ranks.contains(&Rank::ALL)
    }

    /// The share of the bytes that is known by file only.
    pub fn share_by_file(&self) -> f64 {
        let bytes = self.bytes_read + self.bytes_written;
        if bytes > 0.0 { self.by_file_bytes / bytes } else { 0.0 }
    }

    /// How many different ranks were named.
    pub fn n_ranks(&self) -> usize {
        self.ranks.len()
    }
}
