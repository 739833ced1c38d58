//! iotide's own trace: everything a [`iotide_trace::Trace`] holds, compact, and readable after damage.
//!
//! ```text
//! file   = "IOTIDE\0" version:u8 block*
//! block  = marker:[u8;4] kind:u8 len:u32 crc:u32 payload:[u8;len]     little endian; crc over kind, len, payload
//! kinds    1 events   2 files   3 job   4 losses   5 end (how many events were written)
//!          6 events beside the program, each with when it was waited for   7 time spent   8 facts on accesses
//!          9 the census of a tracer's calls
//! ```
//!
//! An event is two bytes of flags and varints relative to the event before it, usually 8 to 14 bytes in all. Each
//! block stands for itself, so a damaged one costs its own events and nothing else: reading goes on at the next
//! marker. A file without an end block was cut. A kind of block that a later version adds is passed over and noted.

use std::io::{self, Write};
use std::ops::ControlFlow;

use iotide_trace::{
    AccessFacts, Event, EventSink, FileId, Grain, JobInfo, Layer, Loss, Op, Rank, TimeKind, TimeSpent,
    Timestamp, TraceInfo,
};
use iotide_wire::{unzigzag, zigzag};

use crate::{
    Place,
    budget::NameBudget,
    census::Census,
    error::Fault,
    files::Files,
    input::Input,
    losses::{Losses, Nonsense},
    scanner::Scanner,
};

mod census;
mod facts;
mod file_record;
mod shape;
#[cfg(test)]
mod tests;

/// How a native trace begins; then comes the version.
pub(crate) const MAGIC: &[u8; 7] = b"IOTIDE\0";
const VERSION: u8 = 1;
const MARKER: [u8; 4] = *b"\xb1\x0cIO";
const BLOCK_HEAD: usize = MARKER.len() + 1 + 4 + 4;
/// A block that claims more than this is damaged.
const LONGEST_BLOCK: usize = 1 << 20;
/// Blocks of events are closed once they are this long.
const FULL_BLOCK: usize = 60 << 10;
/// Longer texts are cut when written: a path or a sentence of a loss.
const LONGEST_TEXT: usize = 32 << 10;

const EVENTS: u8 = 1;
const FILES: u8 = 2;
const JOB: u8 = 3;
const LOSSES: u8 = 4;
const END: u8 = 5;
const ASYNC_EVENTS: u8 = 6;
const TIME_SPENT: u8 = 7;
const ACCESS_FACTS: u8 = 8;
const CENSUS: u8 = 9;

/// Writes a native trace as events come; an [`EventSink`], so that any reader can pour into it.
///
/// ```
/// use iotide_formats::{NativeWriter, OpenOptions};
/// use iotide_trace::Trace;
///
/// let table = OpenOptions::default().from_read("table", &b"time,bandwidth\n0,1e6\n2,0\n"[..])?;
/// let mut writer = NativeWriter::new(Vec::new())?;
/// let info = table.read(&mut writer)?;
/// let bytes = writer.finish(&info)?;
///
/// let mut trace = Trace::default();
/// OpenOptions::default().from_read("copy", std::io::Cursor::new(bytes))?.read(&mut trace)?;
/// assert_eq!(trace.events[0].bytes, 2e6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct NativeWriter<W: Write> {
    out: W,
    events: Block,
    async_events: Block,
    times: Vec<u8>,
    n_events: u64,
    losses: Vec<Loss>,
    /// The first thing that went wrong; told by [`NativeWriter::finish`], because a sink has no other way.
    failed: Option<io::Error>,
}

impl<W: Write> NativeWriter<W> {
    /// Begins a trace.
    pub fn new(mut out: W) -> io::Result<Self> {
        out.write_all(MAGIC)?;
        out.write_all(&[VERSION])?;
        Ok(Self {
            out,
            events: Block::new(EVENTS),
            async_events: Block::new(ASYNC_EVENTS),
            times: Vec::new(),
            n_events: 0,
            losses: Vec::new(),
            failed: None,
        })
    }

    /// Writes what the source counted beside its events.
    pub fn census(&mut self, census: &Census) {
        for entries in census::encode(census) {
            let written = write_block(&mut self.out, CENSUS, &entries);
            if self.flow(written).is_break() {
                return;
            }
        }
    }

    /// Writes what is left and what is known of the run, and returns what was written to.
    pub fn finish(mut self, info: &TraceInfo) -> io::Result<W> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        write_block(&mut self.out, EVENTS, &self.events.bytes)?;
        write_block(&mut self.out, ASYNC_EVENTS, &self.async_events.bytes)?;
        write_block(&mut self.out, TIME_SPENT, &self.times)?;
        let mut files = Vec::new();
        for path in &info.files {
            put_text(&mut files, path);
            if files.len() >= FULL_BLOCK {
                write_block(&mut self.out, FILES, &files)?;
                files.clear();
            }
        }
        write_block(&mut self.out, FILES, &files)?;
        write_block(&mut self.out, JOB, &encode_job(&info.job))?;
        for loss in std::mem::take(&mut self.losses) {
            write_block(&mut self.out, LOSSES, &encode_loss(&loss))?;
        }
        write_block(&mut self.out, END, &self.n_events.to_le_bytes())?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// Returns whether all is well; what is not is kept for [`NativeWriter::finish`].
    fn flow(&mut self, written: io::Result<()>) -> ControlFlow<()> {
        match written {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                self.failed.get_or_insert(error);
                ControlFlow::Break(())
            }
        }
    }
}

/// Events that wait to be written.
#[derive(Debug)]
struct Block {
    kind: u8,
    bytes: Vec<u8>,
    last: Event,
}

impl Block {
    fn new(kind: u8) -> Self {
        Self { kind, bytes: Vec::new(), last: before_first() }
    }

    fn push(&mut self, event: &Event, waited: Option<Timestamp>, out: &mut impl Write) -> io::Result<()> {
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(FULL_BLOCK + LONGEST_EVENT);
        }
        encode_event(&mut self.bytes, event, &self.last);
        if let Some(waited) = waited {
            put_varint(&mut self.bytes, zigzag(waited.as_nanos().wrapping_sub(event.start.as_nanos())));
        }
        self.last = *event;
        if self.bytes.len() < FULL_BLOCK {
            return Ok(());
        }
        let written = write_block(out, self.kind, &self.bytes);
        self.bytes.clear();
        self.last = before_first();
        written
    }
}

/// Writes a block; nothing if there is nothing in it.
fn write_block(out: &mut impl Write, kind: u8, payload: &[u8]) -> io::Result<()> {
    if payload.is_empty() {
        return Ok(());
    }
    let len = (payload.len() as u32).to_le_bytes();
    let crc = crc32([&[kind][..], &len, payload]);
    out.write_all(&MARKER)?;
    out.write_all(&[kind])?;
    out.write_all(&len)?;
    out.write_all(&crc.to_le_bytes())?;
    out.write_all(payload)
}

impl<W: Write> EventSink for NativeWriter<W> {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        self.n_events += 1;
        let written = self.events.push(&event, None, &mut self.out);
        self.flow(written)
    }

    fn async_event(&mut self, event: Event, waited: Timestamp) -> ControlFlow<()> {
        self.n_events += 1;
        let written = self.async_events.push(&event, Some(waited), &mut self.out);
        self.flow(written)
    }

    fn time_spent(&mut self, spent: TimeSpent) {
        encode_time_spent(&mut self.times, &spent);
        if self.times.len() >= FULL_BLOCK {
            let written = write_block(&mut self.out, TIME_SPENT, &self.times);
            self.times.clear();
            let _ = self.flow(written);
        }
    }

    fn access_facts(&mut self, facts: &AccessFacts) {
        let written = write_block(&mut self.out, ACCESS_FACTS, &facts::encode(facts));
        let _ = self.flow(written);
    }

    fn loss(&mut self, loss: Loss) {
        self.losses.push(loss);
    }
}

/// Reads a native trace; what a tracer counted is put into `census`.
pub(crate) fn read<S: EventSink>(
    input: Input,
    census: &mut Option<Census>,
    sink: &mut S,
) -> Result<TraceInfo, Fault> {
    let mut scanner = Scanner::new(input.into_read());
    let version = match scanner.want(MAGIC.len() + 1)?.strip_prefix(MAGIC) {
        Some([version, ..]) => *version,
        _ => return Err(Fault::at(Place::Byte(0), "this is not the beginning of a native trace")),
    };
    if version != VERSION {
        let fault = format!("version {version} of the native trace is not known, {VERSION} is");
        return Err(Fault::at(Place::Byte(MAGIC.len() as u64), fault));
    }
    scanner.advance(MAGIC.len() + 1);

    let mut info = TraceInfo::default();
    let (mut budget, mut n_unnamed) = (NameBudget::new(NameBudget::FILES), 0);
    let mut losses = Losses::default();
    let mut read = EventsRead::default();
    let mut n_promised = None;
    while let Some((kind, payload, place)) = next_block(&mut scanner, &mut losses)? {
        let taken = match kind {
            EVENTS | ASYNC_EVENTS => match read.take(&payload, kind == ASYNC_EVENTS, sink) {
                Ok(ControlFlow::Continue(())) => Ok(()),
                Ok(ControlFlow::Break(())) => {
                    info.files.resize(read.n_files, String::new());
                    return Ok(info);
                }
                Err(Damaged) => Err(Damaged),
            },
            TIME_SPENT => take_times(&payload, sink),
            ACCESS_FACTS => facts::decode(&payload).map(|facts| sink.access_facts(&facts)).ok_or(Damaged),
            CENSUS => census::decode(&payload)
                .map(|counted| census.get_or_insert_default().add(counted))
                .ok_or(Damaged),
            FILES => take_files(&payload, &mut info.files, &mut budget, &mut n_unnamed),
            JOB => decode_job(&payload).map(|job| info.job = job),
            LOSSES => decode_loss(&payload).map(|loss| sink.loss(loss)),
            END => <[u8; 8]>::try_from(payload.as_slice())
                .map(|n| n_promised = Some(u64::from_le_bytes(n)))
                .map_err(|_| Damaged),
            _ => {
                let fault = format!("a block of kind {kind}, which a later version may know");
                losses.record(place, Nonsense::new("unknown block", fault));
                Ok(())
            }
        };
        if let Err(Damaged) = taken {
            losses.unknown_size(
                place,
                Nonsense::new("damaged block", "a block that does not hold what it should"),
            );
        }
    }
    let end = Place::Byte(scanner.offset());
    match n_promised {
        None => losses.note_of_the_rest("cut", end, || "the trace ends before its end mark".into()),
        Some(n_promised) if n_promised > read.n_events => {
            let n_lost = n_promised - read.n_events;
            let fault = format!("{n_lost} of {n_promised} events could not be read");
            losses.records(n_lost, end, Nonsense::new("missing events", fault));
        }
        Some(_) => {}
    }
    if n_unnamed > 0 {
        let fault = format!("there is no room for the names of {n_unnamed} files");
        losses.unknown_size(end, Nonsense::new("long names", fault));
    }
    // Events may name files whose names were lost with a block: every id still gets its place.
    if info.files.len() < read.n_files {
        let fault = format!("the names of {} files are lost", read.n_files - info.files.len());
        losses.unknown_size(end, Nonsense::new("missing names", fault));
        info.files.resize(read.n_files, String::new());
    }
    losses.report(sink);
    Ok(info)
}

struct Damaged;

/// Returns the next block that is whole: its kind, payload and place. What lies before it is noted as lost.
fn next_block(scanner: &mut Scanner, losses: &mut Losses) -> Result<Option<(u8, Vec<u8>, Place)>, Fault> {
    let mut lost_from = None;
    loop {
        let place = Place::Byte(scanner.offset());
        let head = scanner.want(BLOCK_HEAD)?;
        if head.is_empty() {
            note_lost(lost_from, losses);
            return Ok(None);
        }
        if let Some((kind, len, crc)) = block_head(head) {
            let block = scanner.want(BLOCK_HEAD + len)?;
            if let Some(payload) = block.get(BLOCK_HEAD..BLOCK_HEAD + len)
                && crc32([&block[MARKER.len()..MARKER.len() + 5], payload]) == crc
            {
                let payload = payload.to_vec();
                scanner.advance(BLOCK_HEAD + len);
                note_lost(lost_from, losses);
                return Ok(Some((kind, payload, place)));
            }
        }
        lost_from.get_or_insert(place);
        // On to the next marker; the last bytes of the buffer may be the first ones of it.
        let text = scanner.buffered();
        let found = memchr::memmem::find(&text[1..], &MARKER);
        let n_skipped = match found {
            Some(marker) => 1 + marker,
            None => text.len().saturating_sub(MARKER.len() - 1).max(1),
        };
        scanner.advance(n_skipped);
    }
}

fn note_lost(from: Option<Place>, losses: &mut Losses) {
    if let Some(place) = from {
        losses.unknown_size(place, Nonsense::new("damaged bytes", "bytes that are no whole block"));
    }
}

fn block_head(head: &[u8]) -> Option<(u8, usize, u32)> {
    let head = head.get(..BLOCK_HEAD)?.strip_prefix(&MARKER)?;
    let u32_at = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?));
    let len = u32_at(1)? as usize;
    (len <= LONGEST_BLOCK).then_some((head[0], len, u32_at(5)?))
}

/// The flags of an event's second byte: what is as it was in the event before, or as usual.
const SAME_RANK: u8 = 1;
const SAME_FILE: u8 = 2;
const SAME_BYTES: u8 = 4;
const WHOLE_BYTES: u8 = 8;
const ONE_CALL: u8 = 16;

/// Two flags; rank, file and calls of at most 5 bytes, three times of at most 10, bytes of at most 8.
const LONGEST_EVENT: usize = 2 + 3 * 5 + 3 * 10 + 8;

/// Returns the event that a block's first event is relative to.
fn before_first() -> Event {
    Event::data(Op::Read, Rank(0), Timestamp::default(), Timestamp::default(), 0.0)
}

const LAYERS: [Layer; 6] =
    [Layer::Unknown, Layer::Posix, Layer::Stdio, Layer::MpiIo, Layer::Library, Layer::Server];
const GRAINS: [Grain; 3] = [Grain::Call, Grain::Bin, Grain::Record];

fn encode_event(out: &mut Vec<u8>, event: &Event, last: &Event) {
    // Positions in tables of our own rather than `as u8`: the order of an enum elsewhere is no promise.
    let op = Op::ALL.iter().position(|op| *op == event.op).unwrap_or(Op::ALL.len() - 1);
    let layer = LAYERS.iter().position(|layer| *layer == event.layer).unwrap_or(0);
    let grain = GRAINS.iter().position(|grain| *grain == event.grain).unwrap_or(0);
    out.push((op | layer << 3 | grain << 6) as u8);
    // Not for −0 or NaN, which go as they are.
    let whole =
        (0.0..9e15).contains(&event.bytes) && event.bytes.fract() == 0.0 && event.bytes.is_sign_positive();
    let mut flags = 0;
    let mut flag = |bit: u8, set: bool| {
        flags |= if set { bit } else { 0 };
        !set
    };
    let put_rank = flag(SAME_RANK, event.rank == last.rank);
    let put_file = flag(SAME_FILE, event.file == last.file);
    let put_bytes = flag(SAME_BYTES, event.bytes.to_bits() == last.bytes.to_bits());
    let raw_bytes = flag(WHOLE_BYTES, whole);
    let put_calls = flag(ONE_CALL, event.calls == 1);
    out.push(flags);
    if put_rank {
        put_varint(out, zigzag(i64::from(event.rank.0)));
    }
    if put_file {
        put_varint(out, u64::from(event.file.0));
    }
    put_varint(out, zigzag(event.start.as_nanos().wrapping_sub(last.start.as_nanos())));
    put_varint(out, zigzag(event.end.as_nanos().wrapping_sub(event.start.as_nanos())));
    match (put_bytes, raw_bytes) {
        (false, _) => {}
        (true, false) => put_varint(out, event.bytes as u64),
        (true, true) => out.extend_from_slice(&event.bytes.to_le_bytes()),
    }
    if put_calls {
        put_varint(out, u64::from(event.calls));
    }
}

/// How many events were read, and how many files they name.
#[derive(Default)]
struct EventsRead {
    n_events: u64,
    n_files: usize,
}

impl EventsRead {
    fn take<S: EventSink>(
        &mut self,
        payload: &[u8],
        is_async: bool,
        sink: &mut S,
    ) -> Result<ControlFlow<()>, Damaged> {
        let mut bytes = Bytes(payload);
        let mut event = before_first();
        while !bytes.0.is_empty() {
            decode_event(&mut bytes, &mut event).ok_or(Damaged)?;
            let waited = if is_async { Some(unzigzag(bytes.varint().ok_or(Damaged)?)) } else { None };
            self.n_events += 1;
            if event.file != FileId::NONE {
                self.n_files = self.n_files.max(event.file.0 as usize + 1);
            }
            let flow = match waited {
                Some(nanos) => sink.async_event(event, event.start.plus_nanos(nanos)),
                None => sink.event(event),
            };
            if flow.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

const TIME_KINDS: [TimeKind; 3] = [TimeKind::Read, TimeKind::Write, TimeKind::Metadata];

fn encode_time_spent(out: &mut Vec<u8>, spent: &TimeSpent) {
    let TimeSpent { layer, kind, file, rank, seconds } = *spent;
    let layer = LAYERS.iter().position(|known| *known == layer).unwrap_or(0);
    let kind = TIME_KINDS.iter().position(|known| *known == kind).unwrap_or(0);
    let has_rank = usize::from(rank != Rank::ALL);
    out.push((layer | kind << 3 | has_rank << 5) as u8);
    put_varint(out, u64::from(file.0));
    if has_rank == 1 {
        put_varint(out, zigzag(i64::from(rank.0)));
    }
    out.extend_from_slice(&seconds.to_le_bytes());
}

fn take_times(payload: &[u8], sink: &mut dyn EventSink) -> Result<(), Damaged> {
    let mut bytes = Bytes(payload);
    let mut decode = || {
        let head = usize::from(bytes.byte()?);
        let (layer, kind) = (*LAYERS.get(head & 7)?, *TIME_KINDS.get(head >> 3 & 3)?);
        let file = FileId(bytes.varint()?.try_into().ok()?);
        let has_rank = head >> 5 & 1 == 1;
        let rank = if has_rank { Rank(unzigzag(bytes.varint()?).try_into().ok()?) } else { Rank::ALL };
        let seconds = f64::from_le_bytes(bytes.take(8)?.try_into().ok()?);
        Some((TimeSpent { layer, kind, file, rank, seconds }, bytes.0.is_empty()))
    };
    loop {
        let (spent, is_last) = decode().ok_or(Damaged)?;
        sink.time_spent(spent);
        if is_last {
            return Ok(());
        }
    }
}

/// Turns an event into the one that follows it.
#[inline]
fn decode_event(bytes: &mut Bytes<'_>, event: &mut Event) -> Option<()> {
    let kind = usize::from(bytes.byte()?);
    let flags = bytes.byte()?;
    let has = |bit: u8| flags & bit != 0;
    event.op = Op::ALL[kind & 7];
    event.layer = *LAYERS.get(kind >> 3 & 7)?;
    event.grain = *GRAINS.get(kind >> 6)?;
    if !has(SAME_RANK) {
        event.rank = Rank(unzigzag(bytes.varint()?).try_into().ok()?);
    }
    if !has(SAME_FILE) {
        event.file = FileId(bytes.varint()?.try_into().ok()?);
        if event.file != FileId::NONE && event.file.0 as usize >= Files::MOST {
            return None;
        }
    }
    let start = event.start.as_nanos().wrapping_add(unzigzag(bytes.varint()?));
    let end = start.wrapping_add(unzigzag(bytes.varint()?));
    if end < start {
        return None;
    }
    match (has(SAME_BYTES), has(WHOLE_BYTES)) {
        (true, _) => {}
        (false, true) => event.bytes = bytes.varint()? as f64,
        (false, false) => event.bytes = f64::from_le_bytes(bytes.take(8)?.try_into().ok()?),
    }
    event.calls = if has(ONE_CALL) { 1 } else { bytes.varint()?.try_into().ok()? };
    (event.start, event.end) =
        (Timestamp::from_nanos_since_start(start), Timestamp::from_nanos_since_start(end));
    Some(())
}

fn take_files(
    payload: &[u8],
    files: &mut Vec<String>,
    budget: &mut NameBudget,
    n_unnamed: &mut u64,
) -> Result<(), Damaged> {
    let mut bytes = Bytes(payload);
    while !bytes.0.is_empty() {
        if files.len() >= Files::MOST {
            return Err(Damaged);
        }
        let name = bytes.text().ok_or(Damaged)?;
        // Without room for its name a file still has its place.
        let is_kept = budget.takes(name.as_bytes());
        *n_unnamed += u64::from(!is_kept);
        files.push(if is_kept { name } else { String::new() });
    }
    Ok(())
}

/// The job's facts, each behind the number it is known by, so that later versions can add some.
fn encode_job(job: &JobInfo) -> Vec<u8> {
    let mut out = Vec::new();
    let numbers = [
        (1, job.run_time_s.map(f64::to_bits)),
        (2, job.n_procs),
        (6, job.start_time_unix_s.map(f64::to_bits)),
        (7, job.n_nodes),
        (9, job.n_told),
        (10, job.has_ranks.map(u64::from)),
    ];
    for (tag, number) in numbers {
        if let Some(number) = number {
            out.push(tag);
            put_text_bytes(&mut out, &number.to_le_bytes());
        }
    }
    for (tag, text) in [(3, &job.user), (4, &job.exe), (5, &job.job_id)] {
        if let Some(text) = text {
            out.push(tag);
            put_text(&mut out, text);
        }
    }
    for iotide_trace::Mount { kind, path } in &job.mounts {
        out.push(8);
        put_text(&mut out, &format!("{kind}\t{path}"));
    }
    out
}

fn decode_job(payload: &[u8]) -> Result<JobInfo, Damaged> {
    let mut bytes = Bytes(payload);
    let mut job = JobInfo::default();
    while !bytes.0.is_empty() {
        let tag = bytes.byte().ok_or(Damaged)?;
        let value = bytes.text_bytes().ok_or(Damaged)?;
        let number = || <[u8; 8]>::try_from(value).map(u64::from_le_bytes).map_err(|_| Damaged);
        let text = || Some(String::from_utf8_lossy(value).into_owned());
        match tag {
            1 => job.run_time_s = Some(f64::from_bits(number()?)),
            2 => job.n_procs = Some(number()?),
            3 => job.user = text(),
            4 => job.exe = text(),
            5 => job.job_id = text(),
            6 => job.start_time_unix_s = Some(f64::from_bits(number()?)),
            7 => job.n_nodes = Some(number()?),
            8 => {
                let text = String::from_utf8_lossy(value);
                if let Some((kind, path)) = text.split_once('\t') {
                    job.mounts.push(iotide_trace::Mount { kind: kind.to_owned(), path: path.to_owned() });
                }
            }
            9 => job.n_told = Some(number()?),
            10 => job.has_ranks = Some(number()? != 0),
            _ => {}
        }
    }
    Ok(job)
}

/// Beside whether the number of records is known: the source was cut.
const CUT: u8 = 2;

fn encode_loss(loss: &Loss) -> Vec<u8> {
    let mut out = Vec::new();
    put_text(&mut out, &loss.what);
    out.push(u8::from(loss.records.is_some()) | if loss.cut { CUT } else { 0 });
    out.extend_from_slice(&loss.records.unwrap_or(0).to_le_bytes());
    out.push(u8::from(loss.since.is_some()));
    out.extend_from_slice(&loss.since.map_or(0, Timestamp::as_nanos).to_le_bytes());
    out
}

fn decode_loss(payload: &[u8]) -> Result<Loss, Damaged> {
    let mut bytes = Bytes(payload);
    let mut decode = || {
        let what = bytes.text()?;
        let flags = bytes.byte()?;
        let records = u64::from_le_bytes(bytes.take(8)?.try_into().ok()?);
        let has_since = bytes.byte()? != 0;
        let since = i64::from_le_bytes(bytes.take(8)?.try_into().ok()?);
        Some(Loss {
            what,
            records: (flags & !CUT != 0).then_some(records),
            since: has_since.then(|| Timestamp::from_nanos_since_start(since)),
            cut: flags & CUT != 0,
        })
    };
    decode().ok_or(Damaged)
}

fn put_varint(out: &mut Vec<u8>, value: u64) {
    iotide_wire::put_varint(value, |byte| out.push(byte));
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_text_bytes(out, iotide_wire::cut_text(text, LONGEST_TEXT).as_bytes());
}

fn put_text_bytes(out: &mut Vec<u8>, text: &[u8]) {
    put_varint(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Bytes taken from the front, as long as there are any.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(taken)
    }

    #[inline]
    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    #[inline]
    fn varint(&mut self) -> Option<u64> {
        // Eight bytes as one number; the first whose highest bit is not set is the last of the varint.
        if let Some((eight, _)) = self.0.split_first_chunk::<8>() {
            let eight = u64::from_le_bytes(*eight);
            let ends = !eight & 0x8080_8080_8080_8080;
            if ends != 0 {
                let n_bits = ends.trailing_zeros() + 1;
                let groups = eight & (u64::MAX >> (64 - n_bits)) & 0x7f7f_7f7f_7f7f_7f7f;
                let pairs = (groups & 0x007f_007f_007f_007f) | (groups & 0x7f00_7f00_7f00_7f00) >> 1;
                let fours = (pairs & 0x0000_3fff_0000_3fff) | (pairs & 0x3fff_0000_3fff_0000) >> 2;
                self.0 = &self.0[n_bits as usize / 8..];
                return Some((fours & 0x0fff_ffff) | (fours >> 32) << 28);
            }
        }
        self.long_varint()
    }

    fn long_varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn text_bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.varint()?;
        self.take(usize::try_from(len).ok()?)
    }

    fn text(&mut self) -> Option<String> {
        Some(String::from_utf8_lossy(self.text_bytes()?).into_owned())
    }
}

/// The CRC-32 of zlib and Ethernet (reflected 0x04C11DB7) of these pieces, one after the other.
fn crc32<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut crc = flate2::Crc::new();
    pieces.into_iter().for_each(|piece| crc.update(piece));
    crc.sum()
}
