//! Output of `libiotide.so`: a directory with one stream per process, or a single such stream.
//!
//! All processes together are one trace: hosts meet on the wall clock, files are known by their paths, and only the calls the program
//! made itself become events. What a layer does on behalf of another (the `pwrite` inside `MPI_File_write`) is left out, or the
//! same bytes would count twice.
//!
//! Streams are read twice: names and facts may stand behind the records they belong to, and the first of all processes tells where the
//! trace's clock begins. The second time, events stream past one block at a time.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{Cursor, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use iotide_private::open_ordinary;
use iotide_trace::{Event, EventSink, FileId, Grain, JobInfo, Layer, Loss, Op, Rank, Timestamp, TraceInfo};
use iotide_wire::{
    BlockHeader, ClockMap, End, Facts, Flags, LossEntries, LossKind, Note, NoteKind, Payload, Record, Step,
    StreamHeader, Total, Totals, next_block, skip_torn,
};

use crate::{
    Place,
    error::Fault,
    files::Files,
    input::{FileAt, Input},
    losses::Losses,
    scanner::Scanner,
    tracer_access::Access,
};

/// How a stream begins.
pub(crate) const MAGIC: &[u8] = &StreamHeader::MAGIC;

/// Whether a directory holds streams of the tracer.
pub(crate) fn is_trace(directory: &Path) -> bool {
    let mut entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.any(|entry| is_stream(&entry.path()))
}

pub(crate) fn read(input: Input, sink: &mut dyn EventSink) -> Result<TraceInfo, Fault> {
    let streams = match (input.directory(), input.file()) {
        (Some(directory), _) => streams_in(directory)?.into_iter().map(Stream::File).collect(),
        (None, Some(file)) => vec![Stream::Open(file.clone())],
        (None, None) => {
            let mut bytes = Vec::new();
            input.into_read().read_to_end(&mut bytes)?;
            vec![Stream::Bytes(bytes.into())]
        }
    };
    let mut lost = Lost::default();
    let mut files = Files::default();
    let mut processes = Vec::new();
    for stream in streams {
        // A stream that cannot be read costs itself, not the others.
        match Process::survey(&stream, &mut files) {
            Ok(process) => processes.push((stream, process)),
            Err(fault) => lost.note("unreadable", None, format!("{}: {}", stream.name(), said(&fault))),
        }
    }
    if processes.is_empty() {
        return Err(Fault::at(
            Place::Whole,
            lost.first().unwrap_or("no process has left anything").to_owned(),
        ));
    }
    processes.sort_by_key(|(_, process)| process.start_ns());
    number_ranks(&mut processes);
    let origin_ns = processes[0].1.start_ns();
    let mut end_ns = origin_ns;
    for (stream, process) in &processes {
        if process.is_launcher() {
            // What starts the ranks reads its own settings and is no part of the program.
            process.note_losses(Life::Gone, &mut lost);
            continue;
        }
        if process.read(stream, origin_ns, &mut end_ns, sink, &mut lost)?.is_break() {
            break;
        }
    }
    let job = job_of(processes.iter().map(|(_, process)| process), origin_ns, end_ns);
    lost.report(sink);
    let mut losses = Losses::default();
    let files = files.into_paths(&mut losses);
    losses.report(sink);
    Ok(TraceInfo { job, files })
}

/// One process's bytes, which can be read again.
enum Stream {
    File(PathBuf),
    Open(Arc<File>),
    Bytes(Arc<[u8]>),
}

impl Stream {
    fn scanner(&self) -> Result<Scanner, Fault> {
        Ok(Scanner::new(match self {
            Stream::File(path) => Box::new(open_ordinary(path)?),
            Stream::Open(file) => Box::new(FileAt::new(file.clone(), 0)),
            Stream::Bytes(bytes) => Box::new(Cursor::new(bytes.clone())),
        }))
    }

    fn name(&self) -> String {
        match self {
            Stream::File(path) => path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            Stream::Open(_) | Stream::Bytes(_) => "the stream".to_owned(),
        }
    }

    /// Hands every whole block to `take`, once. Returns how many bytes were damaged.
    fn for_each_block(
        &self,
        mut take: impl FnMut(&BlockHeader, Payload<'_>) -> ControlFlow<()>,
    ) -> Result<u64, Fault> {
        let mut scanner = self.scanner()?;
        let head = scanner.want(StreamHeader::SIZE)?;
        if head.iter().all(|byte| *byte == 0) {
            let what = "empty: the machine went down, or the disk was full, before anything was written";
            return Err(Fault::at(Place::Byte(0), what));
        }
        StreamHeader::decode(head).map_err(|fault| Fault::at(Place::Byte(0), fault.to_string()))?;
        scanner.advance(StreamHeader::SIZE);
        let mut n_damaged = 0;
        let mut wanted = BlockHeader::SIZE;
        let mut seen = Seen::default();
        loop {
            let bytes = scanner.want(wanted)?;
            if bytes.is_empty() {
                return Ok(n_damaged);
            }
            let is_all = bytes.len() < wanted;
            let used = match next_block(bytes) {
                Step::Block { header, payload, used } => {
                    match Payload::of(&header, payload) {
                        Ok(payload) if seen.is_new(header.sequence) => {
                            if take(&header, payload).is_break() {
                                return Ok(n_damaged);
                            }
                        }
                        Ok(_) => {} // the same block again: sent to a listener that took only half of it
                        Err(_) => n_damaged += used as u64,
                    }
                    used
                }
                // At the end, what asks for more is a block that was being written when the process was killed, or one
                // whose damaged length covers those behind it.
                Step::Need(_) if is_all => {
                    let skip = skip_torn(bytes);
                    n_damaged += skip as u64;
                    skip
                }
                Step::Need(needed) => {
                    wanted = needed; // at most a header and a payload of the longest kind
                    continue;
                }
                Step::Damaged { skip, .. } => {
                    n_damaged += skip as u64;
                    skip
                }
            };
            scanner.advance(used);
            wanted = BlockHeader::SIZE;
        }
    }
}

/// Which block numbers have been seen. Numbers come nearly in order, so what is kept is where the order has holes.
#[derive(Default)]
pub(crate) struct Seen {
    next: u64,
    /// Numbers below `next` that are missing; bounded, because a number from a file may be anything.
    missing: std::collections::BTreeSet<u64>,
}

impl Seen {
    const MOST_MISSING: u64 = 1 << 16;

    pub(crate) fn is_new(&mut self, sequence: u64) -> bool {
        if sequence < self.next {
            return self.missing.remove(&sequence);
        }
        if sequence - self.next + self.missing.len() as u64 <= Self::MOST_MISSING {
            self.missing.extend(self.next..sequence);
        }
        self.next = sequence.saturating_add(1);
        true
    }
}

/// Known facts about a process: before its records are read, or so far.
pub(crate) struct Process {
    pub(crate) rank: Rank,
    pub(crate) stated_rank: Option<u32>,
    pub(crate) n_ranks: Option<u32>,
    pub(crate) pid: u32,
    uid: u32,
    buffer_records: u32,
    realtime_offset_ns: i64,
    pub(crate) start_mono_ns: u64,
    pub(crate) clock: iotide_wire::ClockKind,
    pub(crate) host: String,
    job_id: String,
    exe: String,
    /// The program and its arguments.
    command: String,
    files: HashMap<u32, FileId>,
    pub(crate) end: Option<End>,
    pub(crate) n_records: u64,
    pub(crate) n_damaged: u64,
    pub(crate) told: Announced,
}

/// Data of a process that is not among its records.
#[derive(Default)]
pub(crate) struct Announced {
    losses: Vec<(Option<LossKind>, u64)>,
    pub(crate) totals: Totals,
    /// About what was not traced, and why.
    pub(crate) notes: Vec<(NoteKind, String)>,
}

impl Announced {
    /// Takes note of loss counters, which only grow.
    pub(crate) fn raise_losses(&mut self, counts: &LossEntries<'_>) {
        for (kind, n) in counts.iter() {
            match self.losses.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, most)) => *most = n.max(*most),
                None => self.losses.push((kind, n)),
            }
        }
    }

    fn n_lost(&self, kind: LossKind) -> u64 {
        self.losses.iter().filter(|(known, _)| *known == Some(kind)).map(|(_, n)| n).sum()
    }
}

pub(crate) fn note_text(note: &Note<'_>) -> (NoteKind, String) {
    (note.kind, String::from_utf8_lossy(note.text).into_owned())
}

impl Process {
    /// Reads everything but the records.
    fn survey(stream: &Stream, files: &mut Files) -> Result<Self, Fault> {
        let mut process: Option<Process> = None;
        let mut names = HashMap::new();
        let mut end: Option<End> = None;
        let (mut told, mut n_records) = (Announced::default(), 0);
        let n_damaged = stream.for_each_block(|_, payload| {
            match payload {
                Payload::Facts(facts) => process = Some(Process::of(&facts)),
                Payload::Paths(paths) => names
                    .extend(paths.map(|entry| (entry.file, files.id(&String::from_utf8_lossy(entry.path))))),
                Payload::Records(records) => n_records += (records.len() / Record::SIZE) as u64,
                Payload::Losses(counts) => told.raise_losses(&counts),
                Payload::Totals(totals) => told.totals.raise(&totals),
                Payload::Note(note) => told.notes.extend(note.map(|note| note_text(&note))),
                // One that was written where room had been kept stands before those it follows.
                Payload::End(mark) if end.is_some_and(|end| end.n_records > mark.n_records) => {}
                Payload::End(mark) => end = Some(mark),
                Payload::Reserve | Payload::Unknown => {}
            }
            ControlFlow::Continue(())
        })?;
        let Some(mut process) = process else {
            return Err(Fault::at(Place::Whole, "does not say which process it is from"));
        };
        process.files = names;
        process.end = end;
        process.told = told;
        process.n_records = n_records;
        process.n_damaged = n_damaged;
        Ok(process)
    }

    pub(crate) fn of(facts: &Facts<'_>) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            rank: Rank::ALL,
            stated_rank: facts.rank,
            n_ranks: facts.n_ranks,
            pid: facts.pid,
            uid: facts.uid,
            buffer_records: facts.buffer_records,
            realtime_offset_ns: facts.realtime_offset_ns,
            start_mono_ns: facts.start_ns,
            clock: facts.clock,
            host: text(facts.host),
            job_id: text(facts.job_id),
            exe: text(facts.exe),
            command: command_line(&text(facts.exe), &text(facts.command)),
            files: HashMap::new(),
            end: None,
            n_records: 0,
            n_damaged: 0,
            told: Announced::default(),
        }
    }

    /// When it began, in nanoseconds since the Unix epoch.
    pub(crate) fn start_ns(&self) -> i64 {
        self.realtime_offset_ns.saturating_add_unsigned(self.start_mono_ns)
    }

    /// Pushes its events, in nanoseconds since `origin_ns`.
    fn read(
        &self,
        stream: &Stream,
        origin_ns: i64,
        end_ns: &mut i64,
        sink: &mut dyn EventSink,
        lost: &mut Lost,
    ) -> Result<ControlFlow<()>, Fault> {
        let mut clock = ClockMap::new(self.clock);
        let (mut unusable, mut flow) = (Unusable::default(), ControlFlow::Continue(()));
        let mut access = Access::default();
        stream.for_each_block(|header, payload| {
            clock.pair(header.ticks, header.nanos);
            let Payload::Records(records) = payload else { return ControlFlow::Continue(()) };
            access.count(records);
            flow = self.push_events(records, &clock, origin_ns, end_ns, sink, &mut unusable);
            flow
        })?;
        access.tell(self.rank, &clock, |file| self.files.get(&file).copied(), sink);
        self.note_unusable(&unusable, lost);
        self.note_losses(Life::Gone, lost);
        Ok(flow)
    }

    /// Pushes the events of a block of records.
    pub(crate) fn push_events(
        &self,
        records: &[u8],
        clock: &ClockMap,
        origin_ns: i64,
        end_ns: &mut i64,
        sink: &mut dyn EventSink,
        unusable: &mut Unusable,
    ) -> ControlFlow<()> {
        let to_unix_ns = |mono_ns: i64| mono_ns.saturating_add(self.realtime_offset_ns);
        for record in Payload::records(records) {
            let Some(record) = record else {
                unusable.n_unknown += 1;
                continue;
            };
            // Where a request goes is no call of its own.
            if record.flags.0 & (Flags::NESTED | Flags::FAILED) != 0 || record.op() == iotide_wire::Op::Place
            {
                continue;
            }
            let times =
                (clock.nanos(record.start), clock.nanos(record.start.saturating_add(record.duration)));
            let (Some(start), Some(end)) = times else {
                unusable.n_timeless += 1;
                continue;
            };
            let (start, end) = (to_unix_ns(start), to_unix_ns(end.max(start)));
            *end_ns = (*end_ns).max(end);
            let event = self.event(&record, start.saturating_sub(origin_ns), end.saturating_sub(origin_ns));
            match waited(&record, clock) {
                Some(waited) => {
                    let waited = to_unix_ns(waited).saturating_sub(origin_ns);
                    sink.async_event(event, Timestamp::from_nanos_since_start(waited))?;
                }
                None => sink.event(event)?,
            }
        }
        ControlFlow::Continue(())
    }

    pub(crate) fn note_unusable(&self, unusable: &Unusable, lost: &mut Lost) {
        let Unusable { n_unknown, n_timeless } = *unusable;
        if n_unknown > 0 {
            lost.note(
                "unknown records",
                Some(n_unknown),
                format!("{self}: records that a later version may know"),
            );
        }
        if n_timeless > 0 {
            lost.note("timeless records", Some(n_timeless), format!("{self}: records without a valid time"));
        }
    }

    fn event(&self, record: &Record, start_ns: i64, end_ns: i64) -> Event {
        let op = match record.op() {
            iotide_wire::Op::Read => Op::Read,
            iotide_wire::Op::Write => Op::Write,
            iotide_wire::Op::Open => Op::Open,
            iotide_wire::Op::Close => Op::Close,
            iotide_wire::Op::Seek => Op::Seek,
            iotide_wire::Op::Stat => Op::Stat,
            iotide_wire::Op::Sync => Op::Sync,
            _ => Op::Other,
        };
        let layer = match record.flags.layer() {
            Some(iotide_wire::Layer::Posix) => Layer::Posix,
            Some(iotide_wire::Layer::Stdio) => Layer::Stdio,
            Some(iotide_wire::Layer::MpiIo) => Layer::MpiIo,
            None => Layer::Unknown,
        };
        Event {
            op,
            layer,
            grain: Grain::Call,
            rank: self.rank,
            file: self.files.get(&record.file).copied().unwrap_or(FileId::NONE),
            start: Timestamp::from_nanos_since_start(start_ns),
            end: Timestamp::from_nanos_since_start(end_ns),
            bytes: if op.moves_data() { record.bytes as f64 } else { 0.0 },
            calls: u32::from(record.calls.max(1)),
        }
    }

    /// Whether it is on this host and has not ended: the run was over before all that it started.
    fn is_running(&self) -> bool {
        let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let exe = fs::read_link(format!("/proc/{}/exe", self.pid));
        host.trim_end() == self.host && exe.is_ok_and(|exe| exe.as_os_str() == self.exe.as_str())
    }

    /// Whether it starts the ranks and is none.
    pub(crate) fn is_launcher(&self) -> bool {
        const LAUNCHERS: [&str; 10] =
            ["mpirun", "mpiexec", "orterun", "orted", "prte", "prun", "hydra_", "srun", "aprun", "jsrun"];
        let name = self.exe.rsplit('/').next().unwrap_or_default();
        self.stated_rank.is_none() && LAUNCHERS.iter().any(|launcher| name.starts_with(launcher))
    }

    pub(crate) fn note_losses(&self, life: Life, lost: &mut Lost) {
        match self.end {
            None if life == Life::Gone && self.is_running() => lost.note(
                "running",
                None,
                format!("{self} is still running: its last calls are not in the trace yet"),
            ),
            None => {
                let how = match life {
                    Life::Gone => "terminated abnormally",
                    Life::Unknown => "may still be running",
                    Life::Running => "was still running",
                };
                lost.note(
                    "no end",
                    None,
                    format!(
                        "{self} {how}: up to {} last calls of each of its threads are missing",
                        self.buffer_records
                    ),
                );
            }
            Some(End { n_records, .. }) if n_records > self.n_records => {
                let n = n_records - self.n_records;
                lost.note(
                    "missing records",
                    Some(n),
                    format!("{self}: {n} of {n_records} calls are not in the trace"),
                );
            }
            Some(_) => {}
        }
        // The last block of a full disk is cut, and what it held is among what could not be written.
        if self.n_damaged > 0 && self.told.n_lost(LossKind::NotWritten) == 0 {
            lost.note("damaged", None, format!("{self}: {} bytes are damaged", self.n_damaged));
        }
        let totals = &self.told.totals;
        if totals.get(Total::Mappings) > 0 {
            let (n, bytes) = (totals.get(Total::Mappings), totals.get(Total::MappedBytes));
            let what = format!(
                "{self} mapped files shared and writable ({bytes} bytes in {n} mappings): what it wrote through memory was not seen"
            );
            lost.note("mapped", None, what);
        }
        if totals.get(Total::Rings) > 0 {
            lost.note(
                "rings",
                None,
                format!("{self} set up an io_uring: what it moved through that was not seen"),
            );
        }
        lost.totals.add(totals);
        for (kind, name) in &self.told.notes {
            let (kind, why) = match kind {
                NoteKind::StaticChild => ("static", "is statically linked"),
                NoteKind::PrivilegedChild => ("privileged", "gets rights of its own (setuid)"),
                NoteKind::UnpreparedChild => ("unprepared", "got an environment without the tracer"),
            };
            lost.note(kind, None, format!("{self} started {name}, which {why} and was not traced"));
        }
        for &(kind, n) in self.told.losses.iter().filter(|(_, n)| *n > 0) {
            let what = kind.map_or("calls lost for a reason a later version may know", LossKind::what);
            lost.note(what, Some(n), format!("{self}: {what}"));
        }
    }
}

/// State of a process that has not reported its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// It runs no more: it was killed, or the trace is of old.
    Gone,
    /// Nobody here can tell: it is another node's.
    Unknown,
    /// It runs.
    Running,
}

/// Records of a process that cannot become events.
#[derive(Default)]
pub(crate) struct Unusable {
    n_unknown: u64,
    n_timeless: u64,
}

/// When the program began to wait for a non-blocking request; `None` for any other call.
fn waited(record: &Record, clock: &ClockMap) -> Option<i64> {
    let is_async = record.flags.has(Flags::ASYNC)
        && matches!(record.op(), iotide_wire::Op::Read | iotide_wire::Op::Write);
    // A torn record may claim anything; nobody waits longer than the request lasts.
    is_async.then(|| clock.nanos(record.start.saturating_add(record.position.min(record.duration)))).flatten()
}

impl std::fmt::Display for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.stated_rank {
            Some(rank) => write!(f, "rank {rank} (process {} on {})", self.pid, self.host),
            None => write!(f, "process {} on {}", self.pid, self.host),
        }
    }
}

/// Gives every process its rank. If nobody states one, they are counted as they began; if some do, the others follow the ranks.
fn number_ranks(processes: &mut [(Stream, Process)]) {
    let is_parallel = processes.iter().any(|(_, process)| process.stated_rank.is_some());
    let n_ranks = processes
        .iter()
        .filter_map(|(_, process)| {
            Some(process.stated_rank?.max(process.n_ranks.unwrap_or(0).saturating_sub(1)))
        })
        .max();
    let n_ranks = n_ranks.map_or(0, |highest| i32::try_from(highest).unwrap_or(i32::MAX).saturating_add(1));
    let mut n_others = 0;
    for (i, (_, process)) in processes.iter_mut().enumerate() {
        process.rank = match process.stated_rank {
            Some(rank) => Rank(i32::try_from(rank).unwrap_or(i32::MAX)),
            // A shell around the launcher, or a program before and after: no rank, but not all of them either.
            None if is_parallel => {
                n_others += 1;
                Rank(n_ranks.saturating_add(n_others - 1))
            }
            None => Rank(i as i32),
        };
    }
}

/// The path of a program, followed by the arguments of its command line.
fn command_line(exe: &str, command: &str) -> String {
    let arguments = command.trim_end_matches('\0').split('\0').skip(1);
    [exe].into_iter().chain(arguments).collect::<Vec<_>>().join(" ")
}

pub(crate) fn job_of<'a>(
    mut processes: impl Iterator<Item = &'a Process> + Clone,
    origin_ns: i64,
    end_ns: i64,
) -> JobInfo {
    // The program is what the ranks run; the launcher is not.
    let all = processes.clone();
    let is_parallel = processes.any(|process| process.stated_rank.is_some());
    let ranks = || all.clone().filter(move |process| !is_parallel || process.stated_rank.is_some());
    let text = |of: fn(&Process) -> &String| ranks().map(of).find(|text| !text.is_empty()).cloned();
    let hosts: std::collections::HashSet<&str> =
        ranks().map(|process| process.host.as_str()).filter(|host| !host.is_empty()).collect();
    JobInfo {
        run_time_s: Some(end_ns.saturating_sub(origin_ns) as f64 * 1e-9),
        n_procs: match ranks().find_map(|process| process.n_ranks) {
            Some(n_ranks) => Some(u64::from(n_ranks)),
            None => Some(ranks().count() as u64),
        },
        has_ranks: Some(is_parallel),
        n_told: None,
        user: ranks().next().map(|process| process.uid.to_string()),
        exe: text(|process| &process.command),
        job_id: text(|process| &process.job_id),
        start_time_unix_s: Some(origin_ns as f64 * 1e-9),
        n_nodes: Some(hosts.len() as u64).filter(|&n| n > 0),
        mounts: Vec::new(),
    }
}

/// The streams of a directory, by name.
pub(crate) fn streams_in(directory: &Path) -> Result<Vec<PathBuf>, std::io::Error> {
    let mut streams = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if is_stream(&path) {
            streams.push(path);
        }
    }
    streams.sort();
    Ok(streams)
}

/// Whether a file is a stream, or was one before a power failure emptied it.
fn is_stream(path: &Path) -> bool {
    let head = || {
        let mut head = Vec::new();
        open_ordinary(path)?.take(MAGIC.len() as u64).read_to_end(&mut head).map(|_| head)
    };
    path.extension().is_some_and(|extension| extension == "iot")
        && head().is_ok_and(|head| head == MAGIC || head.iter().all(|byte| *byte == 0))
}

/// Losses of thousands of processes, summed up by kind.
#[derive(Default)]
pub(crate) struct Lost {
    kinds: Vec<(&'static str, Loss, u64)>,
    totals: Totals,
}

impl Lost {
    fn note(&mut self, kind: &'static str, records: Option<u64>, what: String) {
        match self.kinds.iter_mut().find(|(known, ..)| *known == kind) {
            Some((_, loss, n)) => {
                *n += 1;
                loss.records = loss.records.zip(records).map(|(a, b)| a.saturating_add(b));
            }
            None => self.kinds.push((kind, Loss { what, records, since: None, cut: false }, 1)),
        }
    }

    fn first(&self) -> Option<&str> {
        self.kinds.first().map(|(_, loss, _)| loss.what.as_str())
    }

    /// Returns the loss of bytes that the kernel moved and the tracer did not see, if that is more than the odd call.
    fn unseen(&self) -> Option<Loss> {
        let of = |total| self.totals.get(total) as f64;
        let kernel = of(Total::KernelRead) + of(Total::KernelWritten);
        let seen = of(Total::SeenRead) + of(Total::SeenWritten);
        let unseen = kernel - seen;
        (unseen > (0.01 * kernel).max(1e6)).then(|| Loss {
            what: format!(
                "{unseen} bytes moved by calls that passed the tracer by: it saw {:.0} % of what the kernel counted",
                (100.0 * seen / kernel).floor()
            ),
            records: None,
            since: None,
            cut: false,
        })
    }

    pub(crate) fn report(self, sink: &mut dyn EventSink) {
        if let Some(unseen) = self.unseen() {
            sink.loss(unseen);
        }
        for (_, mut loss, n) in self.kinds {
            if n > 1 {
                loss.what = format!("{}, and {} more processes like it", loss.what, n - 1);
            }
            sink.loss(loss);
        }
    }
}

fn said(fault: &Fault) -> String {
    match fault {
        Fault::Io(error) => error.to_string(),
        Fault::At(place, fault) => format!("{place}: {fault}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenOptions;
    use iotide_trace::Trace;
    use iotide_wire::{BlockKind, ClockKind, EndReason, NO_POSITION, PathEntry};

    /// A stream under construction: a process that began a second after `start_s`, with a counter of 2 GHz.
    struct Written {
        bytes: Vec<u8>,
        sequence: u64,
    }

    impl Written {
        fn new(rank: Option<u32>, start_s: i64) -> Self {
            let mut written = Self { bytes: StreamHeader { version: 1 }.to_bytes().to_vec(), sequence: 0 };
            let facts = Facts {
                rank,
                n_ranks: rank.map(|_| 2),
                pid: 7,
                parent_pid: 1,
                uid: 1000,
                buffer_records: 1638,
                realtime_offset_ns: start_s * 1_000_000_000,
                start_ns: 1_000_000_000,
                clock: ClockKind::CycleCounter,
                host: b"node1",
                job_id: b"42",
                exe: b"/bin/app",
                mpi: b"",
                run: b"",
                command: b"app\0-x\0in.nc\0",
            };
            let mut payload = [0; Facts::MAX_SIZE];
            let n = facts.encode(&mut payload).unwrap();
            written.block(BlockKind::Facts, 1.0, &payload[..n]);
            written
        }

        fn block(&mut self, kind: BlockKind, at_s: f64, payload: &[u8]) {
            let (ticks, nanos) = ((at_s * 2e9) as u64, (at_s * 1e9) as u64);
            let payload_len = payload.len() as u32;
            let header = BlockHeader { kind, payload_len, thread: 1, sequence: self.sequence, ticks, nanos };
            self.sequence += 1;
            self.bytes.extend(header.seal(payload));
            self.bytes.extend(payload);
        }

        fn write(&mut self, from_s: f64, to_s: f64, bytes: u64, flags: u8) {
            let record = Record {
                start: (from_s * 2e9) as u64,
                duration: ((to_s - from_s) * 2e9) as u64,
                bytes,
                position: NO_POSITION,
                file: 5,
                calls: 1,
                call: iotide_wire::Call::of(iotide_wire::Op::Write),
                flags: Flags::of(iotide_wire::Layer::Posix).with(flags),
            };
            self.block(BlockKind::Records, to_s, &record.to_bytes());
        }

        fn name(&mut self, path: &[u8]) {
            let mut payload = [0; 100];
            let n = PathEntry { file: 5, path }.encode(&mut payload).unwrap();
            self.block(BlockKind::Paths, 9.0, &payload[..n]);
        }

        fn end(&mut self, n_records: u64) {
            let end = End { reason: EndReason::Exit, n_records, realtime_offset_ns: 0 };
            self.block(BlockKind::End, 10.0, &end.to_bytes());
        }
    }

    fn read(bytes: &[u8]) -> Trace {
        let mut trace = Trace::default();
        let reader = OpenOptions::default().from_read("stream", Cursor::new(bytes.to_vec())).unwrap();
        trace.info = reader.read(&mut trace).unwrap();
        trace
    }

    #[test]
    fn a_stream_becomes_events_with_names_that_came_later() {
        let mut written = Written::new(Some(1), 100);
        written.write(2.0, 3.0, 4096, 0);
        written.write(3.0, 3.5, 4096, Flags::NESTED);
        written.write(4.0, 4.5, 14, Flags::FAILED);
        written.name(b"/scratch/a");
        written.end(3);
        let trace = read(&written.bytes);
        let [event] = trace.events[..] else { panic!("{:?}", trace.events) };
        assert_eq!((event.rank, event.bytes, event.layer), (Rank(1), 4096.0, Layer::Posix));
        assert_eq!((event.start.as_secs(), event.end.as_secs()), (1.0, 2.0), "since the process began");
        assert_eq!(trace.info.files[event.file.0 as usize], "/scratch/a");
        assert_eq!(trace.info.job.n_procs, Some(2));
        assert_eq!(trace.info.job.job_id.as_deref(), Some("42"));
        assert_eq!(trace.info.job.start_time_unix_s, Some(101.0));
        assert_eq!(trace.losses, []);
    }

    #[test]
    fn a_process_that_was_killed_is_a_loss() {
        let mut written = Written::new(None, 0);
        written.write(2.0, 3.0, 4096, 0);
        let torn = written.bytes.len() + 70;
        written.write(3.0, 4.0, 4096, 0);
        let trace = read(&written.bytes[..torn]);
        assert_eq!(trace.events.len(), 1);
        let whats: Vec<_> = trace.losses.iter().map(|loss| loss.what.as_str()).collect();
        assert_eq!(
            whats,
            [
                "process 7 on node1 terminated abnormally: up to 1638 last calls of each of its threads are missing",
                "process 7 on node1: 70 bytes are damaged"
            ]
        );
    }

    #[test]
    fn what_the_tracer_had_to_leave_out_is_a_loss_and_so_is_what_did_not_arrive() {
        let mut written = Written::new(None, 0);
        written.write(2.0, 3.0, 4096, 0);
        written.block(BlockKind::Losses, 4.0, &LossEntries::encode(LossKind::InSignal, 3));
        written.end(10);
        let trace = read(&written.bytes);
        assert_eq!(trace.losses.iter().map(|loss| loss.records).collect::<Vec<_>>(), [Some(9), Some(3)]);
    }

    #[test]
    fn a_block_that_comes_twice_counts_once() {
        let mut written = Written::new(None, 0);
        let from = written.bytes.len();
        written.write(2.0, 3.0, 4096, 0);
        let again = written.bytes[from..].to_vec();
        written.write(3.0, 4.0, 4096, 0);
        written.bytes.extend(again);
        written.end(2);
        assert_eq!(read(&written.bytes).events.len(), 2);
    }

    #[test]
    fn processes_of_several_hosts_are_one_trace_on_the_wall_clock() {
        let directory = std::env::temp_dir().join(format!("iotide-tracer-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        for (rank, start_s) in [(0, 100), (1, 105)] {
            let mut written = Written::new(Some(rank), start_s);
            written.write(2.0, 3.0, 10, 0);
            written.name(b"/scratch/shared");
            written.end(1);
            fs::write(directory.join(format!("node{rank}.7.1.iot")), written.bytes).unwrap();
        }
        fs::write(directory.join("notes.txt"), "not a stream").unwrap();
        let mut trace = Trace::default();
        trace.info = crate::open(&directory).unwrap().read(&mut trace).unwrap();
        fs::remove_dir_all(&directory).unwrap();
        let seen: Vec<_> = trace.events.iter().map(|event| (event.rank.0, event.start.as_secs())).collect();
        assert_eq!(seen, [(0, 1.0), (1, 6.0)]);
        assert_eq!(trace.info.files, ["/scratch/shared"]);
        assert_eq!(trace.losses, []);
    }

    #[test]
    fn streams_that_a_power_failure_emptied_are_named_as_such() {
        let directory = iotide_testkit::FreshDir::new("tracer-empty");
        directory.write("node.1.1.iot", "");
        directory.write("node.2.1.iot", "\0".repeat(4096));
        let error = crate::open(directory.path()).unwrap().read(&mut Trace::default()).unwrap_err();
        assert!(error.to_string().contains("the machine went down"), "{error}");
        let mut written = Written::new(Some(0), 100);
        written.write(2.0, 3.0, 10, 0);
        written.end(1);
        fs::write(directory.join("node.3.1.iot"), written.bytes).unwrap();
        let mut trace = Trace::default();
        crate::open(directory.path()).unwrap().read(&mut trace).unwrap();
        let losses: Vec<_> = trace.losses.iter().map(|loss| loss.what.as_str()).collect();
        assert_eq!(trace.events.len(), 1);
        assert!(losses.len() == 1 && losses[0].contains("the machine went down"), "{losses:?}");
    }
}
