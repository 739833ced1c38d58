//! Events become streams of records: one for each process and program, as the preloaded tracer writes them.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use iotide_wire::{Call, EndReason, Flags, Layer, LossKind, NO_FILE, NO_POSITION, Op, Record, Total};

use crate::bpf;
use crate::calls::{self, CHDIR, Class, FCHDIR, Known, LIBAIO, N_CALLS, Place, URING};
use crate::event::{Ended, Event, Side, What};
use crate::names::{Key, Names};
use crate::process::{Process, own_directory};
use crate::stream::Stream;
use crate::tracer::Lost;

/// Where streams go, and what they leave out.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The trace's directory, which is there.
    pub directory: PathBuf,
    /// Paths to keep although they are left out otherwise: patterns with `:` between them.
    pub include: Vec<u8>,
    /// Paths to leave out.
    pub exclude: Vec<u8>,
    /// Name of the run.
    pub run: Vec<u8>,
    /// Host's name.
    pub host: Vec<u8>,
    /// The user who asks, and sees no names of what acts as another; `None` for root, who sees all.
    pub user: Option<u32>,
    /// Whether this is a while of processes that go on afterwards.
    pub is_slice: bool,
    /// Whether programs have the preloaded library, too, and write to the same directory: what it records is then left to it.
    pub is_beside_library: bool,
}

/// Turns events into streams.
pub struct Recorder {
    settings: Settings,
    known: Vec<Option<&'static Known>>,
    processes: HashMap<u32, Process>,
    names: Names,
    /// The first stream that has ended: losses that belong to no process go there.
    ended: Option<Stream>,
    /// The first thing that went wrong.
    failed: Option<io::Error>,
    /// Whether processes are looked up by their numbers.
    asks_proc: bool,
    /// Whether no program has begun yet.
    is_first: bool,
}

/// How often what is written grows, at least.
const FLUSH_NS: u64 = 1_000_000_000;

impl Recorder {
    /// Begins a trace.
    pub fn new(settings: Settings) -> Self {
        let mut known = vec![None; N_CALLS];
        for call in calls::KNOWN {
            known[call.number as usize] = Some(call);
        }
        let names = Names::new(settings.include.clone(), settings.exclude.clone());
        let asks_proc = crate::tracer::has_own_numbers().is_ok();
        let processes = HashMap::new();
        Self { settings, known, processes, names, ended: None, failed: None, asks_proc, is_first: true }
    }

    /// Takes what has happened.
    pub fn take(&mut self, event: &Event<'_>) {
        let pid = event.thread.pid;
        match &event.what {
            What::Made { made, .. } if made.pid == pid => {
                self.process(pid).threads.insert(made.tid);
            }
            What::Made { made, at } => {
                let child = self.process(pid).forked(made.pid, *at);
                self.processes.insert(made.pid, child);
            }
            What::Program { parent, user, acts_as, path, arguments, at } => {
                let before = self.processes.remove(&pid);
                let mut process = match &before {
                    Some(before) => before.forked(pid, *at),
                    None => Process::new(pid, *at),
                };
                self.end(before, EndReason::Exec);
                (process.facts.parent, process.facts.user) = (*parent, *user);
                process.is_foreign = self.settings.user.is_some_and(|own| own != *acts_as);
                if self.is_first {
                    self.is_first = false;
                    // We have started it, where we are.
                    process.cwd = own_directory();
                }
                process.begin(path, arguments, self.asks_proc);
                self.processes.insert(pid, process);
            }
            What::Gone => {
                let Some(process) = self.processes.get_mut(&pid) else { return };
                process.threads.remove(&event.thread.tid);
                if process.threads.is_empty() {
                    let process = self.processes.remove(&pid);
                    self.end(process, EndReason::Exit);
                }
            }
            What::Ended(ended) => self.ended(pid, ended),
        }
    }

    /// The process of that number; one whose beginning was lost is known by what `/proc` says of it.
    fn process(&mut self, pid: u32) -> &mut Process {
        let (asks_proc, user) = (self.asks_proc, self.settings.user);
        self.processes.entry(pid).or_insert_with(|| {
            let mut process = Process::new(pid, bpf::now().0);
            process.is_foreign = user.is_some() && process.acts_as() != user;
            process.begin(&[], &[], asks_proc);
            process
        })
    }

    fn end(&mut self, process: Option<Process>, reason: EndReason) {
        let Some(Process { stream: Some(mut stream), .. }) = process else { return };
        let written = stream.end(reason);
        self.note(written);
        self.ended.get_or_insert(stream);
    }

    fn note(&mut self, written: io::Result<()>) {
        if let Err(error) = written {
            self.failed.get_or_insert(error);
        }
    }

    fn ended(&mut self, pid: u32, ended: &Ended<'_>) {
        let (call, known) = match ended.call {
            opcode @ LIBAIO.. => (calls::of_libaio(opcode - LIBAIO), None),
            opcode @ URING.. => (calls::of_uring(opcode - URING), None),
            CHDIR | FCHDIR => return self.moves(pid, ended),
            number => {
                let known = self.known.get(number as usize).copied().flatten();
                (known.map(|known| known.call), known)
            }
        };
        let Some(call) = call else { return };
        let call = match ended.side {
            Side::Write => calls::written_by(call),
            _ => call,
        };
        let named = self.name(pid, ended, known);
        if self.settings.is_beside_library && self.is_left_to_library(pid, call, ended, named.path.as_deref())
        {
            return;
        }
        let bytes = if ended.result > 0 { ended.result as u64 } else { 0 };
        let moves_data = matches!(call.op(), Op::Read | Op::Write);
        if !named.is_wanted {
            if moves_data && bytes > 0 {
                let process = self.process(pid);
                process.totals.set(Total::ExcludedCalls, process.totals.get(Total::ExcludedCalls) + 1);
                process.totals.set(Total::ExcludedBytes, process.totals.get(Total::ExcludedBytes) + bytes);
            }
            return;
        }
        let record = match known {
            Some(known) => of_call(known, call, ended),
            // What failed moved nothing, and the preloaded tracer has no record of it either.
            None if ended.result < 0 => return,
            None => of_request(call, ended),
        };
        if call.op() == Op::Map && record.flags.0 & Flags::FAILED == 0 && is_written_through(ended) {
            let process = self.process(pid);
            process.totals.set(Total::Mappings, process.totals.get(Total::Mappings) + 1);
            process.totals.set(Total::MappedBytes, process.totals.get(Total::MappedBytes) + record.bytes);
        }
        let waited = known.is_none().then(|| ended.arguments[0].saturating_sub(ended.start));
        let path = named.path.filter(|_| !self.process(pid).is_foreign);
        let written = self.push(pid, path.as_deref(), record, waited);
        self.note(written);
    }

    /// Whether the preloaded library records a call. It does so in a process that has opened a stream, which it does at the first call that it
    /// records: what was recorded here before is given up then. Requests of an `io_uring` are all that it cannot see in such a process.
    fn is_left_to_library(&mut self, pid: u32, call: Call, ended: &Ended<'_>, path: Option<&[u8]>) -> bool {
        let in_trace = |path: &[u8]| {
            let rest = path.strip_prefix(self.settings.directory.as_os_str().as_bytes());
            rest.is_some_and(|rest| rest.starts_with(b"/") && rest.ends_with(b".iot"))
        };
        if call.op() == Op::Open && path.is_some_and(in_trace) {
            let process = self.process(pid);
            process.records_itself = true;
            let given_up = process.stream.take().map_or(Ok(()), Stream::give_up);
            self.note(given_up);
        }
        self.process(pid).records_itself && !(URING..LIBAIO).contains(&ended.call)
    }

    fn name(&mut self, pid: u32, ended: &Ended<'_>, known: Option<&Known>) -> crate::names::Named {
        self.process(pid);
        let Self { processes, names, asks_proc, .. } = self;
        let Some(process) = processes.get_mut(&pid) else { return crate::names::Named::default() };
        let key = (ended.inode != 0).then_some(Key { device: ended.device, inode: ended.inode });
        match (known.map(|known| known.class), key) {
            (Some(Class::Open | Class::OpenAt), Some(key)) => names.opened(process, ended, key, *asks_proc),
            (Some(Class::Path | Class::PathAt), _) => names.of_path(process, ended, *asks_proc),
            (_, Some(key)) => {
                let named = names.of_file(process, ended.fd, key, known.is_some(), *asks_proc);
                if known.is_some_and(|known| known.class == Class::Close) {
                    process.files.remove(&ended.fd);
                }
                named
            }
            (_, None) => names.unknown(),
        }
    }

    /// The process has gone to another directory.
    fn moves(&mut self, pid: u32, ended: &Ended<'_>) {
        let asks_proc = self.asks_proc;
        let process = self.process(pid);
        process.cwd = match ended.path {
            Some(path) => process.whole(ended.arguments[0] as i32, path, asks_proc),
            None => None,
        };
        if process.cwd.is_none() && asks_proc {
            process.cwd = process.link("cwd");
        }
    }

    fn push(&mut self, pid: u32, path: Option<&[u8]>, record: Record, waited: Option<u64>) -> io::Result<()> {
        self.process(pid);
        let Some(process) = self.processes.get_mut(&pid) else { return Ok(()) };
        let stream = match &mut process.stream {
            Some(stream) => stream,
            none => none.insert(Stream::begin(&self.settings, &process.id, &process.facts)?),
        };
        stream.totals = process.totals;
        let file = match path {
            Some(path) => stream.file(path)?,
            None => NO_FILE,
        };
        let mut record = Record { file, ..record };
        if let Some(waited) = waited
            && matches!(record.op(), Op::Read | Op::Write)
        {
            let place = record.position;
            record.flags = record.flags.with(Flags::ASYNC);
            record.position = waited.min(record.duration);
            if place != NO_POSITION && file != NO_FILE {
                let is_write = record.op() == Op::Write;
                let flags = if is_write { record.flags.with(Flags::PLACED) } else { record.flags };
                let flags = Flags(flags.0 & !Flags::ASYNC);
                let where_to =
                    Record { duration: 0, position: place, call: Call::of(Op::Place), flags, ..record };
                stream.push(&where_to)?;
                record.flags = record.flags.with(Flags::PLACED);
            }
        }
        stream.push(&record)?;
        if record.start.saturating_add(record.duration) > stream.flushed_ns + FLUSH_NS {
            stream.flush()?;
        }
        Ok(())
    }

    /// Takes note of a process that ran before, with its threads.
    pub fn joins(&mut self, pid: u32, threads: &[u32]) {
        self.is_first = false;
        self.process(pid).threads = threads.iter().copied().collect();
        let Self { processes, names, asks_proc: true, .. } = self else { return };
        if let Some(process) = processes.get_mut(&pid) {
            names.open_already(process);
        }
    }

    /// Whether this is a while of processes that go on afterwards.
    pub fn is_slice(&self) -> bool {
        self.settings.is_slice
    }

    /// Whether all processes have ended.
    pub fn is_over(&self) -> bool {
        self.processes.is_empty()
    }

    /// Writes what waits, so that a trace can be read while it grows.
    pub fn flush(&mut self) {
        let mut written = self.processes.values_mut().filter_map(|process| process.stream.as_mut());
        let written = written.try_for_each(Stream::flush);
        self.note(written);
    }

    /// Ends the trace: what still runs has no end, and what was lost is stated. Returns the first thing that went wrong.
    pub fn finish(mut self, lost: Lost) -> io::Result<()> {
        let processes: Vec<_> = self.processes.drain().map(|(_, process)| process).collect();
        for mut process in processes {
            if self.asks_proc && !self.settings.is_slice && process.link("exe").is_some() {
                let written = process.stream.as_mut().map_or(Ok(()), Stream::flush);
                self.note(written);
                if let Some(stream) = process.stream {
                    self.ended.get_or_insert(stream);
                }
            } else {
                self.end(Some(process), EndReason::Exit);
            }
        }
        let losses = [
            (LossKind::RingFull, lost.ring_full),
            (LossKind::Foreign, lost.foreign),
            (LossKind::LongBatch, lost.batch),
            (LossKind::TooManyRequests, lost.requests),
        ];
        if losses.iter().any(|(_, n)| *n > 0) {
            let mut stream = match self.ended.take() {
                Some(stream) => stream,
                None => {
                    // Nothing was recorded of anybody: what was lost is still to be said.
                    let process = Process::new(std::process::id(), bpf::now().0);
                    Stream::begin(&self.settings, &process.id, &process.facts)?
                }
            };
            let written = stream.lose(&losses);
            self.note(written);
        }
        self.failed.map_or(Ok(()), Err)
    }
}

/// The record of a call, but for its file.
fn of_call(known: &Known, call: Call, ended: &Ended<'_>) -> Record {
    let [second, fourth, sixth] = ended.arguments;
    let (outcome, failed) = match ended.result {
        error @ ..0 => (error.unsigned_abs(), Flags::FAILED),
        result => (result as u64, 0),
    };
    let moves_data = matches!(call.op(), Op::Read | Op::Write);
    let moved = if failed == 0 && moves_data { outcome } else { 0 };
    let stood = ended.position.wrapping_sub(moved);
    let position = match known.place {
        // An offset that the program keeps itself is not looked at.
        Place::Stood if ended.side == Side::Read && second != 0 => NO_POSITION,
        Place::Stood if ended.side == Side::Write && known.class == Class::Copy && fourth != 0 => NO_POSITION,
        Place::Stood => stood,
        Place::Fourth if fourth == NO_POSITION => stood,
        Place::Fourth => fourth,
        Place::Sixth => sixth,
        Place::Result if failed == 0 => outcome,
        Place::Result | Place::None => NO_POSITION,
    };
    let bytes = match (failed, call.op()) {
        (Flags::FAILED, _) | (_, Op::Read | Op::Write) => outcome,
        (_, Op::Map) => second,
        _ => 0,
    };
    Record {
        start: ended.start,
        duration: ended.end.saturating_sub(ended.start),
        bytes,
        position,
        file: NO_FILE,
        calls: 1,
        call,
        flags: Flags::of(Layer::Posix).with(failed),
    }
}

/// Whether what is written to a mapping reaches its file: nobody sees when.
fn is_written_through(ended: &Ended<'_>) -> bool {
    let (protection, flags) = (ended.position as i32, ended.arguments[1] as i32);
    flags & libc::MAP_TYPE != libc::MAP_PRIVATE && protection & libc::PROT_WRITE != 0
}

/// The record of a request, but for its file; where it goes stands in its position.
fn of_request(call: Call, ended: &Ended<'_>) -> Record {
    let moves_data = matches!(call.op(), Op::Read | Op::Write);
    Record {
        start: ended.start,
        duration: ended.end.saturating_sub(ended.start),
        bytes: if moves_data { ended.result as u64 } else { 0 },
        position: if moves_data { ended.position } else { NO_POSITION },
        file: NO_FILE,
        calls: 1,
        call,
        flags: Flags::of(Layer::Posix),
    }
}

/// Threads of a process, by their numbers.
pub(crate) type Threads = HashSet<u32>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Thread;
    use iotide_testkit::FreshDir;
    use iotide_wire::{Payload, Step, StreamHeader, next_block};
    use proptest::prelude::*;

    /// Above the highest number that the kernel gives: `/proc` knows nobody of it.
    const PID: u32 = 1 << 23;

    fn recorder(dir: &FreshDir) -> Recorder {
        let directory = dir.path().to_owned();
        Recorder::new(Settings { directory, host: b"node/1".to_vec(), ..Settings::default() })
    }

    fn take(recorder: &mut Recorder, pid: u32, what: What<'_>) {
        recorder.take(&Event { thread: Thread { tid: pid, pid }, what });
    }

    fn program(path: &'static [u8], at: u64) -> What<'static> {
        What::Program { parent: 1, user: 1000, acts_as: 1000, path, arguments: b"app\0-x\0", at }
    }

    fn call(number: u32, fd: i32, result: i64, path: Option<&'static [u8]>) -> What<'static> {
        What::Ended(Ended {
            call: number,
            side: Side::Only,
            start: 100,
            end: 130,
            result,
            position: 4096,
            inode: 7,
            device: 1,
            fd,
            arguments: [libc::AT_FDCWD as u64, 0, 0],
            path,
        })
    }

    /// A stream's program, its records with their paths, and how it ended.
    type Read = (Vec<u8>, Vec<(Record, Vec<u8>)>, Option<EndReason>);

    /// All streams, sorted by name.
    fn streams(dir: &FreshDir) -> Vec<Read> {
        let mut paths: Vec<_> =
            std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let read = |path: &PathBuf| {
            let bytes = std::fs::read(path).unwrap();
            let (mut rest, mut names) = (&bytes[StreamHeader::SIZE..], HashMap::new());
            let (mut program, mut records, mut end) = (Vec::new(), Vec::new(), None);
            while let Step::Block { header, payload, used } = next_block(rest) {
                match Payload::of(&header, payload).unwrap() {
                    Payload::Facts(facts) => program = facts.exe.to_vec(),
                    Payload::Paths(entries) => {
                        names.extend(entries.map(|entry| (entry.file, entry.path.to_vec())))
                    }
                    Payload::Records(bytes) => records.extend(Payload::records(bytes).map(Option::unwrap)),
                    Payload::End(mark) => end = Some(mark.reason),
                    _ => {}
                }
                rest = &rest[used..];
            }
            assert!(rest.is_empty());
            let name = |record: &Record| names.get(&record.file).cloned().unwrap_or_default();
            (program, records.into_iter().map(|record| (record, name(&record))).collect(), end)
        };
        paths.iter().map(read).collect()
    }

    #[test]
    fn each_program_of_a_process_has_a_stream_and_a_child_its_own_with_the_files_of_its_parent() {
        let dir = FreshDir::new("kernel-recorder");
        let mut recorder = recorder(&dir);
        take(&mut recorder, PID, program(b"/first", 1));
        take(&mut recorder, PID, call(2, 3, 3, Some(b"/data/in")));
        take(&mut recorder, PID, What::Made { made: Thread { tid: PID + 1, pid: PID + 1 }, at: 5 });
        take(&mut recorder, PID + 1, call(0, 3, 96, None));
        take(&mut recorder, PID + 1, What::Gone);
        take(&mut recorder, PID, program(b"/second", 9));
        take(&mut recorder, PID, call(1, 3, -28, None));
        take(&mut recorder, PID, call(3, 3, 0, None));
        take(&mut recorder, PID, What::Gone);
        recorder.finish(Lost::default()).unwrap();
        let streams = streams(&dir);
        let seen: Vec<_> = streams
            .iter()
            .map(|(program, records, end)| {
                let ops: Vec<_> = records.iter().map(|(record, _)| record.op()).collect();
                (&program[..], ops, end.unwrap())
            })
            .collect();
        assert_eq!(
            seen,
            [
                (&b"/first"[..], vec![Op::Open], EndReason::Exec),
                (b"/second", vec![Op::Write, Op::Close], EndReason::Exit),
                (b"/first", vec![Op::Read], EndReason::Exit),
            ]
        );
        assert!(streams.iter().flat_map(|(_, records, _)| records).all(|(_, path)| path == b"/data/in"));
        let (read, _) = &streams[2].1[0];
        assert_eq!((read.bytes, read.position, read.start, read.duration), (96, 4000, 100, 30));
        let (write, _) = &streams[1].1[0];
        assert_eq!((write.bytes, write.flags.has(Flags::FAILED)), (28, true));
    }

    #[test]
    fn who_is_not_root_is_told_no_names_of_what_acts_as_another() {
        for (user, path) in [(Some(1000), &b"/data/in"[..]), (Some(7), b""), (None, b"/data/in")] {
            let dir = FreshDir::new("kernel-foreign");
            let mut recorder = recorder(&dir);
            recorder.settings.user = user;
            take(&mut recorder, PID, program(b"/app", 1));
            take(&mut recorder, PID, call(2, 3, 3, Some(b"/data/in")));
            take(&mut recorder, PID, What::Made { made: Thread { tid: PID + 1, pid: PID + 1 }, at: 5 });
            take(&mut recorder, PID + 1, call(0, 3, 96, None));
            recorder.finish(Lost::default()).unwrap();
            let streams = streams(&dir);
            assert_eq!(streams.len(), 2);
            assert!(streams.iter().all(|(_, records, _)| records[0].1 == path), "{user:?}");
        }
    }

    #[test]
    fn what_is_left_out_is_counted_and_leaves_no_stream() {
        let dir = FreshDir::new("kernel-left-out");
        let mut recorder = recorder(&dir);
        take(&mut recorder, PID, program(b"/app", 1));
        take(&mut recorder, PID, call(2, 3, 3, Some(b"/usr/lib/data")));
        take(&mut recorder, PID, call(0, 3, 96, None));
        assert_eq!(recorder.process(PID).totals.get(Total::ExcludedBytes), 96);
        recorder.finish(Lost::default()).unwrap();
        assert_eq!(streams(&dir), []);
    }

    #[test]
    fn a_loss_is_stated_though_nothing_else_is_there() {
        let dir = FreshDir::new("kernel-lost");
        recorder(&dir).finish(Lost { ring_full: 3, ..Lost::default() }).unwrap();
        assert_eq!(streams(&dir).len(), 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_events_leave_streams_that_can_be_read(
            events in prop::collection::vec((0u8..8, 0u32..450, prop::collection::vec(any::<u8>(), 80..1400)), 0..40),
        ) {
            let dir = FreshDir::new("kernel-any");
            let mut recorder = recorder(&dir);
            for (kind, number, mut bytes) in events {
                bytes[..8].copy_from_slice(&[u32::from(kind).to_le_bytes(), number.to_le_bytes()].concat());
                bytes[8..16].copy_from_slice(&[PID.to_le_bytes(), (PID + number % 3).to_le_bytes()].concat());
                if let Some(event) = Event::decode(&bytes) {
                    recorder.take(&event);
                }
            }
            let _ = recorder.finish(Lost::default());
            streams(&dir);
        }
    }
}
