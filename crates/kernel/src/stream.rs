//! One process's file in the trace directory.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use iotide_wire::{
    BlockHeader, BlockKind, ClockKind, End, EndReason, Facts, LossEntries, LossKind, PathEntry, Record,
    StreamHeader, Totals,
};

use crate::bpf;
use crate::process::{self, Id};
use crate::record::Settings;

/// Records that wait to be written.
const FULL: usize = 1600;

/// A file that is written at its end, past no link.
fn to_append(options: &mut OpenOptions) -> &mut OpenOptions {
    options.append(true).custom_flags(libc::O_NOFOLLOW)
}

/// A stream that is being written.
pub(crate) struct Stream {
    /// Opened for each block: there may be more processes than descriptors.
    path: PathBuf,
    sequence: u64,
    n_records: u64,
    names: HashMap<Box<[u8]>, u32>,
    paths: Vec<u8>,
    records: Vec<u8>,
    pub(crate) totals: Totals,
    /// When records were last written, on the monotonic clock.
    pub(crate) flushed_ns: u64,
}

impl Stream {
    /// Makes the file of a process, which must not be there.
    pub(crate) fn begin(settings: &Settings, id: &Id, facts: &process::Facts) -> io::Result<Self> {
        let host: Vec<u8> =
            settings.host.iter().map(|byte| if *byte == b'/' { b'_' } else { *byte }).collect();
        let name = [&host, format!(".{}.{:x}.iot", id.pid, id.start_ns).as_bytes()].concat();
        let path = settings.directory.join(OsStr::from_bytes(&name));
        let header = StreamHeader { version: StreamHeader::VERSION }.to_bytes();
        to_append(OpenOptions::new().create_new(true).mode(0o644)).open(&path)?.write_all(&header)?;
        let (nanos, realtime_offset_ns) = bpf::now();
        let mut stream = Self {
            path,
            sequence: 0,
            n_records: 0,
            names: HashMap::new(),
            paths: Vec::new(),
            records: Vec::new(),
            totals: Totals::default(),
            flushed_ns: nanos,
        };
        let facts = Facts {
            rank: facts.rank,
            n_ranks: facts.n_ranks,
            pid: id.pid,
            parent_pid: facts.parent,
            uid: facts.user,
            buffer_records: FULL as u32,
            realtime_offset_ns,
            start_ns: id.start_ns,
            clock: ClockKind::MonotonicNanos,
            host: &settings.host,
            job_id: &facts.job,
            exe: &facts.program,
            mpi: &[],
            run: &settings.run,
            command: &facts.command,
        };
        let mut payload = [0; Facts::MAX_SIZE];
        let n = facts.encode(&mut payload).unwrap_or(0);
        stream.block(BlockKind::Facts, &payload[..n])?;
        Ok(stream)
    }

    fn block(&mut self, kind: BlockKind, payload: &[u8]) -> io::Result<()> {
        let nanos = bpf::now().0;
        let header = BlockHeader {
            kind,
            payload_len: payload.len() as u32,
            thread: 0,
            sequence: self.sequence,
            ticks: nanos,
            nanos,
        };
        self.sequence += 1;
        // In one call: whoever reads while it grows sees whole blocks.
        let block = [&header.seal(payload)[..], payload].concat();
        to_append(&mut OpenOptions::new()).open(&self.path)?.write_all(&block)
    }

    /// The number of a file, which the first to use it writes.
    pub(crate) fn file(&mut self, path: &[u8]) -> io::Result<u32> {
        if let Some(number) = self.names.get(path) {
            return Ok(*number);
        }
        let number = self.names.len() as u32 + 1;
        self.names.insert(path.into(), number);
        let mut entry = [0; 8 + PathEntry::MAX_PATH];
        let n = PathEntry { file: number, path }.encode(&mut entry).unwrap_or(0);
        self.paths.extend_from_slice(&entry[..n]);
        if self.paths.len() > FULL * Record::SIZE {
            self.write_paths()?;
        }
        Ok(number)
    }

    /// Keeps a record.
    pub(crate) fn push(&mut self, record: &Record) -> io::Result<()> {
        self.records.extend_from_slice(&record.to_bytes());
        if self.records.len() >= FULL * Record::SIZE { self.flush() } else { Ok(()) }
    }

    fn write_paths(&mut self) -> io::Result<()> {
        let paths = std::mem::take(&mut self.paths);
        if paths.is_empty() { Ok(()) } else { self.block(BlockKind::Paths, &paths) }
    }

    /// Writes what waits.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.flushed_ns = bpf::now().0;
        self.write_paths()?;
        if self.records.is_empty() {
            return Ok(());
        }
        let records = std::mem::take(&mut self.records);
        self.block(BlockKind::Records, &records)?;
        self.n_records += (records.len() / Record::SIZE) as u64;
        self.records = records;
        self.records.clear();
        Ok(())
    }

    /// Removes the file: another tracer has it all.
    pub(crate) fn give_up(self) -> io::Result<()> {
        std::fs::remove_file(self.path)
    }

    /// States losses.
    pub(crate) fn lose(&mut self, losses: &[(LossKind, u64)]) -> io::Result<()> {
        let entries: Vec<u8> = losses.iter().flat_map(|(kind, n)| LossEntries::encode(*kind, *n)).collect();
        self.block(BlockKind::Losses, &entries)
    }

    /// Writes what is left, and the end.
    pub(crate) fn end(&mut self, reason: EndReason) -> io::Result<()> {
        self.flush()?;
        self.block(BlockKind::Totals, &self.totals.to_bytes())?;
        let end = End { reason, n_records: self.n_records, realtime_offset_ns: bpf::now().1 };
        self.block(BlockKind::End, &end.to_bytes())
    }
}
