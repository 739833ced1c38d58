//! Jobs of the tracer while they run: bytes of its processes' streams in, events out.
//!
//! Output of the tracer reaches a follower in pieces and by several ways: files that grow, connections that come and go.
//! Every block carries its process and its number, so the same block may come twice and counts once, in whichever order.

use std::collections::HashMap;

use iotide_trace::{EventSink, JobInfo, Loss, Rank};
use iotide_wire::{
    BlockHeader, ClockMap, EndReason, Facts, Fault, Payload, Record, Step, StreamHeader, next_block,
    skip_torn,
};

use crate::tracer::{Life, Lost, Process, Seen, Unusable, note_text};

/// Jobs of the tracer, told apart by what their processes say of themselves.
///
/// A job is a user and the scheduler's name for the job, or the name of the run where there is no scheduler. Processes that say
/// neither are one job without a name, for each user.
///
/// ```
/// use iotide_formats::{OneSink, TracedJobs, TracedStream};
/// use iotide_trace::Trace;
///
/// let (mut jobs, mut stream, mut trace) = (TracedJobs::default(), TracedStream::default(), Trace::default());
/// let not_a_stream = jobs.feed(&mut stream, b"GET / HTTP/1.1", &mut OneSink(&mut trace));
/// assert!(not_a_stream.is_err());
/// ```
#[derive(Default)]
pub struct TracedJobs {
    jobs: Vec<TracedJob>,
    by_name: HashMap<(u32, Vec<u8>), usize>,
    n_refused: u64,
}

/// Where the events of each job go.
pub trait JobSinks {
    /// The sink of a job. Jobs are numbered from 0, in the order in which they were first heard of.
    fn of_job(&mut self, job: usize) -> &mut dyn EventSink;
}

/// One sink for all jobs.
pub struct OneSink<'a>(pub &'a mut dyn EventSink);

impl JobSinks for OneSink<'_> {
    fn of_job(&mut self, _: usize) -> &mut dyn EventSink {
        self.0
    }
}

/// The processes of a job as they become known.
///
/// Times count from the beginning of the first process that was heard of; one that began earlier and is heard of later has
/// negative times. Events name no files. What is kept grows with the number of processes, not with what they do.
#[derive(Default)]
pub struct TracedJob {
    name: String,
    processes: Vec<Live>,
    by_identity: HashMap<Identity, usize>,
    origin_ns: Option<i64>,
    end_ns: i64,
    n_refused: u64,
}

/// Identity of a process; no two processes share one.
type Identity = (Vec<u8>, u32, u64);

struct Live {
    process: Process,
    clock: ClockMap,
    seen: Seen,
    unusable: Unusable,
    /// The number of the block that has its end mark.
    ended_at: u64,
}

/// One file or connection of a process: what came of it and is not a whole block yet.
#[derive(Default)]
pub struct TracedStream {
    buffer: Vec<u8>,
    greeted: bool,
    /// The job and its process that it comes from.
    of: Option<(usize, usize)>,
    n_damaged: u64,
}

/// A process of the job, as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced<'a> {
    /// The host it runs on.
    pub host: &'a str,
    /// Its number there.
    pub pid: u32,
    /// Its rank, if it has one.
    pub rank: Option<u32>,
    /// How many ranks it says there are.
    pub n_ranks: Option<u32>,
    /// Whether it has said that it ends.
    pub has_ended: bool,
    /// Whether it ended by becoming another program, which has the same number.
    pub goes_on: bool,
}

impl TracedJobs {
    /// More jobs than this at once are not followed.
    pub const MOST_JOBS: usize = 256;

    /// Takes the next bytes of a stream. Whole blocks become events; the rest waits for what follows.
    ///
    /// Fails if the bytes are no stream of the tracer, or one of a later version. Damage within is skipped and counted.
    pub fn feed(
        &mut self,
        stream: &mut TracedStream,
        bytes: &[u8],
        sinks: &mut dyn JobSinks,
    ) -> Result<(), Fault> {
        // Most of the time whole blocks come, and nothing needs to be copied.
        let mut kept = std::mem::take(&mut stream.buffer);
        let all = if kept.is_empty() {
            bytes
        } else {
            kept.extend_from_slice(bytes);
            &kept
        };
        let used = self.take(stream, all, false, sinks)?;
        let rest = &all[used..];
        // A copy rather than a drain: a stream that once had a long block gives its memory back.
        stream.buffer = if used == 0 && !kept.is_empty() { kept } else { rest.to_vec() };
        Ok(())
    }

    /// Takes note that nothing more comes from a stream: what is left of it is damage.
    pub fn end_of(&mut self, mut stream: TracedStream, sinks: &mut dyn JobSinks) {
        let kept = std::mem::take(&mut stream.buffer);
        let _ = self.take(&mut stream, &kept, true, sinks);
    }

    /// Hands over what is whole at the front of `bytes` and returns how many bytes that were.
    fn take(
        &mut self,
        stream: &mut TracedStream,
        bytes: &[u8],
        is_all: bool,
        sinks: &mut dyn JobSinks,
    ) -> Result<usize, Fault> {
        let mut at = 0;
        if !stream.greeted {
            let n_magic = bytes.len().min(StreamHeader::MAGIC.len());
            if bytes[..n_magic] != StreamHeader::MAGIC[..n_magic] {
                return Err(Fault::NotAStream);
            }
            if bytes.len() < StreamHeader::SIZE {
                return Ok(0);
            }
            StreamHeader::decode(bytes)?;
            stream.greeted = true;
            at = StreamHeader::SIZE;
        }
        while at < bytes.len() {
            match next_block(&bytes[at..]) {
                Step::Block { header, payload, used } => {
                    match Payload::of(&header, payload) {
                        Ok(payload) => self.block(stream, &header, payload, sinks),
                        Err(_) => self.damaged(stream, used),
                    }
                    at += used;
                }
                Step::Need(_) if is_all => {
                    let skip = skip_torn(&bytes[at..]);
                    self.damaged(stream, skip);
                    at += skip;
                }
                Step::Need(_) => break,
                Step::Damaged { skip, .. } => {
                    // The last bytes may be the first ones of a block's mark; `next_block` counts that in.
                    self.damaged(stream, skip);
                    at += skip;
                }
            }
        }
        Ok(at)
    }

    fn block(
        &mut self,
        stream: &mut TracedStream,
        header: &BlockHeader,
        payload: Payload<'_>,
        sinks: &mut dyn JobSinks,
    ) {
        if let Payload::Facts(facts) = &payload {
            // Whose it is is said at its beginning, and stays.
            let job = stream.of.map(|(job, _)| job).or_else(|| self.job_of(facts));
            let Some(job) = job else {
                self.n_refused += 1;
                return;
            };
            match self.jobs[job].process_of(facts) {
                Some(process) => {
                    stream.of = Some((job, process));
                    self.jobs[job].processes[process].process.n_damaged +=
                        std::mem::take(&mut stream.n_damaged);
                }
                None => {
                    self.jobs[job].n_refused += 1;
                    return;
                }
            }
        }
        let Some((job, process)) = stream.of else {
            // Whose block it is stood in one that is damaged.
            stream.n_damaged += (BlockHeader::SIZE + header.payload_len as usize) as u64;
            return;
        };
        self.jobs[job].block(process, header, payload, sinks.of_job(job));
    }

    /// The job of a process that states these facts.
    fn job_of(&mut self, facts: &Facts<'_>) -> Option<usize> {
        let name = if facts.job_id.is_empty() { facts.run } else { facts.job_id };
        let key = (facts.uid, name.to_vec());
        if let Some(&job) = self.by_name.get(&key) {
            return Some(job);
        }
        if self.jobs.len() >= Self::MOST_JOBS {
            return None;
        }
        let name = String::from_utf8_lossy(name).into_owned();
        self.jobs.push(TracedJob { name, ..TracedJob::default() });
        self.by_name.insert(key, self.jobs.len() - 1);
        Some(self.jobs.len() - 1)
    }

    fn damaged(&mut self, stream: &mut TracedStream, n_bytes: usize) {
        match stream.of {
            Some((job, process)) => {
                self.jobs[job].processes[process].process.n_damaged += n_bytes as u64;
            }
            None => stream.n_damaged += n_bytes as u64,
        }
    }

    /// The jobs, in the order in which they were first heard of.
    pub fn jobs(&self) -> &[TracedJob] {
        &self.jobs
    }

    /// Returns the loss because there are too many jobs; `None` if there is none.
    pub fn loss(&self) -> Option<Loss> {
        let what = format!("more than {} jobs: the others are left out", Self::MOST_JOBS);
        (self.n_refused > 0).then(|| Loss::of_unknown_size(what))
    }
}

impl TracedJob {
    /// A job of more processes than this is followed as far as the first of them.
    pub const MOST_PROCESSES: usize = 1 << 20;

    /// Returns the name of the job from its processes, or that of the run from `iotide record`; empty if neither has one.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn block(
        &mut self,
        process: usize,
        header: &BlockHeader,
        payload: Payload<'_>,
        sink: &mut dyn EventSink,
    ) {
        let live = &mut self.processes[process];
        if !live.seen.is_new(header.sequence) {
            return;
        }
        live.clock.pair(header.ticks, header.nanos);
        match payload {
            Payload::Records(records) if live.process.is_launcher() => {
                live.process.n_records += (records.len() / Record::SIZE) as u64;
            }
            Payload::Records(records) => {
                live.process.n_records += (records.len() / Record::SIZE) as u64;
                let origin_ns = self.origin_ns.unwrap_or(0);
                let Live { process, clock, unusable, .. } = live;
                // A follower wants everything; one that does not can stop to feed.
                let _ = process.push_events(records, clock, origin_ns, &mut self.end_ns, sink, unusable);
                // Calls made after the end mark are followed by a new one; a block that merely comes late is not.
                if header.sequence > live.ended_at {
                    live.process.end = None;
                }
            }
            Payload::Losses(counts) => live.process.told.raise_losses(&counts),
            Payload::Totals(totals) => live.process.told.totals.raise(&totals),
            Payload::Note(note) => live.process.told.notes.extend(note.map(|note| note_text(&note))),
            Payload::End(mark) => {
                live.process.end = Some(mark);
                live.ended_at = header.sequence;
            }
            Payload::Facts(_) | Payload::Paths(_) | Payload::Reserve | Payload::Unknown => {}
        }
    }

    /// The process that states these facts. Its rank may have become known only now.
    fn process_of(&mut self, facts: &Facts<'_>) -> Option<usize> {
        let identity = (facts.host.to_vec(), facts.pid, facts.start_ns);
        if let Some(&index) = self.by_identity.get(&identity) {
            let process = &mut self.processes[index].process;
            if facts.rank.is_some() {
                (process.stated_rank, process.n_ranks) = (facts.rank, facts.n_ranks);
                process.rank = rank_of(facts.rank);
            }
            return Some(index);
        }
        if self.processes.len() >= Self::MOST_PROCESSES {
            return None;
        }
        let mut process = Process::of(facts);
        self.origin_ns.get_or_insert(process.start_ns());
        let is_parallel =
            facts.rank.is_some() || self.processes.iter().any(|p| p.process.stated_rank.is_some());
        process.rank = if is_parallel { rank_of(facts.rank) } else { Rank(self.processes.len() as i32) };
        let index = self.processes.len();
        let clock = ClockMap::new(process.clock);
        let (seen, unusable) = (Seen::default(), Unusable::default());
        self.processes.push(Live { process, clock, seen, unusable, ended_at: 0 });
        self.by_identity.insert(identity, index);
        Some(index)
    }

    /// The processes that were heard of.
    pub fn processes(&self) -> impl Iterator<Item = Traced<'_>> {
        self.processes.iter().map(|Live { process, .. }| Traced {
            host: &process.host,
            pid: process.pid,
            rank: process.stated_rank,
            n_ranks: process.n_ranks,
            has_ended: process.end.is_some(),
            goes_on: process.end.is_some_and(|end| end.reason == EndReason::Exec),
        })
    }

    /// When the clock of the events began, in nanoseconds since the Unix epoch; `None` before the first process.
    pub fn origin_unix_ns(&self) -> Option<i64> {
        self.origin_ns
    }

    /// Returns the known facts about the job so far.
    pub fn job(&self) -> JobInfo {
        let origin_ns = self.origin_ns.unwrap_or(0);
        crate::tracer::job_of(self.processes.iter().map(|live| &live.process), origin_ns, self.end_ns)
    }

    /// Returns the known losses, if nothing more came ever.
    pub fn losses(&self) -> Vec<Loss> {
        self.losses_by(|_| Life::Gone)
    }

    /// Returns the known losses, if nothing more came now; `life` tells which processes may go on.
    pub fn losses_by(&self, life: impl Fn(&Traced<'_>) -> Life) -> Vec<Loss> {
        let mut lost = Lost::default();
        for (Live { process, unusable, .. }, traced) in self.processes.iter().zip(self.processes()) {
            process.note_unusable(unusable, &mut lost);
            process.note_losses(life(&traced), &mut lost);
        }
        let mut losses = iotide_trace::Trace::default();
        lost.report(&mut losses);
        if self.n_refused > 0 {
            let what = format!("more than {} processes: the others are left out", Self::MOST_PROCESSES);
            losses.loss(Loss::of_unknown_size(what));
        }
        losses.losses
    }
}

impl TracedStream {
    /// How many bytes wait for the rest of their block: at most one block's.
    pub fn n_waiting(&self) -> usize {
        self.buffer.len()
    }

    /// Whether the bytes so far may be the beginning of a stream.
    pub fn may_begin(bytes: &[u8]) -> bool {
        let n = bytes.len().min(StreamHeader::MAGIC.len());
        bytes[..n] == StreamHeader::MAGIC[..n]
    }
}

fn rank_of(stated: Option<u32>) -> Rank {
    stated.map_or(Rank::ALL, |rank| Rank(i32::try_from(rank).unwrap_or(i32::MAX)))
}
