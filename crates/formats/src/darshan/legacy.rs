//! Logs of Darshan 1 and 2: the whole file is one gzip or bzip2 stream of a job record and file records.
//!
//! There are no modules yet: a file record counts POSIX, C streams and MPI-IO side by side, under names that begin with
//! `CP_`. They are shown as one module of that name. Times are in seconds; only the last characters of a path are kept.

use std::io::Read;
use std::ops::ControlFlow;
use std::sync::Arc;

use iotide_trace::Loss;

use super::bytes::{Cursor, Endian, text};
use super::counters::{CP_FLOATS, CP_INTS};
use super::job::{Job, Mount, Names, parse_metadata};
use super::packed::Carry;
use super::records::CounterTable;
use super::source::Source;
use super::{Limits, Log, Module, ModuleData};
use crate::Place;
use crate::error::Fault;

/// Whether this is packed as such logs are.
pub(super) fn is_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b]) || bytes.starts_with(b"BZh")
}

/// Whether this is what such a log unpacks to: somebody unpacked it, or a reader of packed files did before us.
pub(super) fn is_unpacked(bytes: &[u8]) -> bool {
    bytes.first_chunk::<8>().is_some_and(|name| name[7] == 0 && Version::of(&text(name)).is_some())
}

/// Whether this begins like such a log: with one of the versions at its start, packed or not.
pub(super) fn is_legacy(head: &[u8]) -> bool {
    if !is_packed(head) {
        return is_unpacked(head);
    }
    let mut version = [0; 8];
    unpack(head).read_exact(&mut version).is_ok() && {
        let version = text(&version);
        let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        version
            .split_once('.')
            .is_some_and(|(major, minor)| matches!(major, "1" | "2") && minor.len() <= 2 && digits(minor))
    }
}

fn unpack(bytes: &[u8]) -> Box<dyn Read + '_> {
    if bytes.starts_with(b"BZh") {
        Box::new(bzip2::read::MultiBzDecoder::new(bytes))
    } else {
        Box::new(flate2::bufread::MultiGzDecoder::new(bytes))
    }
}

/// Layout of a version of the log.
struct Version {
    /// Where the command line begins.
    exe_at: usize,
    /// Where the file records begin.
    records_at: usize,
    /// Counters that came later, by name.
    missing: &'static [&'static str],
    /// Version 1: 32-bit job record, the name after the counters, always big-endian.
    is_first: bool,
}

const SINCE_1_22: &[&str] = &[
    "CP_INDEP_NC_OPENS",
    "CP_COLL_NC_OPENS",
    "CP_HDF5_OPENS",
    "CP_MAX_READ_TIME_SIZE",
    "CP_MAX_WRITE_TIME_SIZE",
    "CP_F_MAX_READ_TIME",
    "CP_F_MAX_WRITE_TIME",
    "CP_DEVICE",
    "CP_SIZE_AT_OPEN",
    "CP_FASTEST_RANK",
    "CP_FASTEST_RANK_BYTES",
    "CP_SLOWEST_RANK",
    "CP_SLOWEST_RANK_BYTES",
    "CP_F_FASTEST_RANK_TIME",
    "CP_F_SLOWEST_RANK_TIME",
    "CP_F_VARIANCE_RANK_TIME",
    "CP_F_VARIANCE_RANK_BYTES",
];

impl Version {
    fn of(version: &str) -> Option<Self> {
        // What came with 1.22 is the front of the list, what came with 1.23 the two behind it, the rest is of 2.00.
        let (since_1_23, since_2_00) = (&SINCE_1_22[7..], &SINCE_1_22[9..]);
        let (exe_at, records_at, missing, is_first) = match version {
            "1.21" => (28, 1024, SINCE_1_22, true),
            "1.22" => (28, 1024, since_1_23, true),
            "1.23" | "1.24" => (28, 1024, since_2_00, true),
            "2.00" => (56, 1024, &[][..], false),
            "2.01" | "2.02" | "2.03" => (120, 1024, &[][..], false),
            "2.04" | "2.05" | "2.06" => (1080, 4096, &[][..], false),
            _ => return None,
        };
        Some(Self { exe_at, records_at, missing, is_first })
    }

    fn table(&self) -> CounterTable {
        let here = |names: &'static [&'static str]| {
            names.iter().copied().filter(|name| !self.missing.contains(name))
        };
        CounterTable::new(here(CP_INTS), here(CP_FLOATS))
    }
}

/// Reads a log.
pub(super) fn parse(packed: &[u8], limits: Limits) -> Result<Log, Fault> {
    parse_stream(unpack(packed), limits)
}

/// Reads a log that is unpacked already.
pub(super) fn parse_unpacked(bytes: &[u8], limits: Limits) -> Result<Log, Fault> {
    parse_stream(Box::new(bytes), limits)
}

fn parse_stream(mut unpacked: Box<dyn Read + '_>, limits: Limits) -> Result<Log, Fault> {
    /// Bytes read at once; more than a job record.
    const PIECE: u64 = 256 << 10;
    let mut losses = Vec::new();
    let mut n_read = 0;
    // What came before the damage is kept: here the records of all ranks are one stream.
    let mut piece = |losses: &mut Vec<Loss>| {
        let mut bytes = Vec::new();
        if n_read < limits.legacy
            && let Err(error) = unpacked.by_ref().take(PIECE).read_to_end(&mut bytes)
        {
            let at = n_read + bytes.len() as u64;
            losses.push(Loss::of_the_rest(format!(
                "from byte {at} of the unpacked log on nothing could be read: {error}"
            )));
            unpacked = Box::new(std::io::empty());
        }
        n_read += bytes.len() as u64;
        if n_read >= limits.legacy && !bytes.is_empty() {
            let what =
                format!("the log unpacks to more than {} MiB; the rest was not read", limits.legacy >> 20);
            losses.push(Loss::of_the_rest(what));
        }
        bytes
    };
    let bytes = piece(&mut losses);
    let name = text(bytes.get(..8).unwrap_or(&bytes));
    let version = Version::of(&name).ok_or_else(|| {
        Fault::at(Place::Byte(0), format!("Darshan log version \"{}\" is not known", name.escape_debug()))
    })?;
    let cut = || Fault::at(Place::Whole, "the log ends within its job record");
    let endian = if version.is_first {
        Endian::Big
    } else {
        super::endian_of(&bytes)
            .ok_or_else(|| Fault::at(Place::Byte(8), "this is no Darshan log: its magic number is missing"))?
    };
    let job = parse_job(&bytes, endian, &version).ok_or_else(cut)?;

    let mut table = version.table();
    let mut names = Names::default();
    let mut carry = Carry::default();
    let mut bytes = bytes.get(version.records_at..).unwrap_or_default().to_vec();
    while !bytes.is_empty() {
        let _ = carry.feed(&bytes, endian, |cursor| {
            take_record(cursor, endian, &version, &mut table, &mut names)?;
            Some(ControlFlow::Continue(()))
        });
        bytes = piece(&mut losses);
    }
    let left = carry.left();
    if left > 0 {
        let what = format!("{left} bytes at the end of the log are no whole record");
        losses.push(Loss::of_the_rest(what));
    }
    let module = Module { name: "CP".into(), version: 1, partial: false, data: ModuleData::Counters(table) };
    Ok(Log {
        version: name,
        endian: Some(endian),
        compression: None,
        job: Some(job),
        names,
        modules: vec![module],
        regions: Vec::new(),
        losses,
        source: Source::Memory(Arc::default()),
    })
}

fn parse_job(bytes: &[u8], endian: Endian, version: &Version) -> Option<Job> {
    let mut job = Job { whole_seconds: true, ..Job::default() };
    if version.is_first {
        let mut cursor = Cursor::new(bytes.get(12..)?, endian);
        job.uid = i64::from(cursor.u32()?);
        job.start_s = i64::from(cursor.u32()? as i32);
        job.end_s = i64::from(cursor.u32()? as i32);
        job.n_procs = i64::from(cursor.u32()? as i32);
    } else {
        let mut cursor = Cursor::new(bytes.get(16..)?, endian);
        job.uid = cursor.i64()?;
        job.start_s = cursor.i64()?;
        job.end_s = cursor.i64()?;
        job.n_procs = cursor.i64()?;
        job.job_id = cursor.i64()?;
        job.metadata = parse_metadata(&text(bytes.get(56..version.exe_at)?));
    }
    let rest = bytes.get(version.exe_at..version.records_at.min(bytes.len()))?;
    let rest = text(rest);
    let mut lines = rest.split('\n');
    job.exe = lines.next().unwrap_or_default().to_string();
    // "device\tkind\tpath", and the last line may be cut.
    job.mounts = lines
        .filter_map(|line| {
            let (_device, mount) = line.split_once('\t')?;
            let (kind, path) = mount.split_once('\t')?;
            Some(Mount { kind: kind.to_string(), path: path.to_string() })
        })
        .collect();
    Some(job)
}

fn take_record(
    cursor: &mut Cursor,
    endian: Endian,
    version: &Version,
    table: &mut CounterTable,
    names: &mut Names,
) -> Option<()> {
    /// Version 1 keeps 12 bytes of the name and 4 to align them, version 2 keeps 16.
    const NAME_LEN: usize = 16;
    let record = *cursor;
    let (head, tail) = if version.is_first { (0, NAME_LEN) } else { (NAME_LEN, 0) };
    let before = table.len();
    table.take(cursor, head, tail)?;
    let taken = &record.rest()[..record.rest().len() - cursor.rest().len()];
    let name_at = if version.is_first { taken.len() - NAME_LEN } else { 16 };
    let suffix = text(&taken[name_at..name_at + NAME_LEN]);
    if version.is_first {
        // The rank is an `int` at byte 8, and what aligns the counters behind it is garbage.
        let rank = endian.u32(*taken[8..].first_chunk()?) as i32;
        table.set_rank(before, i64::from(rank));
    }
    let id = endian.u64(*taken.first_chunk()?);
    let name = if suffix.is_empty() { suffix } else { format!("…{suffix}") };
    names.insert(id, &name);
    Some(())
}
