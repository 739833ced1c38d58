//! Recorder 2.3–2.5: calls as a grammar over call signatures, times beside it.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::sync::Arc;

use flate2::read::ZlibDecoder;
use iotide_private::open_ordinary;
use iotide_trace::FileId;

use super::{
    Directory, FileRef, Layout, Meaning, Output, bytes_asked, file_ref, read_small, standard_stream,
};
use crate::{Place, budget::NameBudget, error::Fault};

/// Most bytes that a compressed table may inflate to.
const MOST_INFLATED: u64 = 256 << 20;
/// A function of the program itself, traced by its compiler's hooks.
const USER_FUNCTION: u8 = 255;
/// The rule every grammar begins with.
const ROOT: i32 = -1;
/// Sequitur's rules nest like a balanced tree; this is far beyond.
const DEEPEST: usize = 1 << 12;

/// Reads all ranks; returns when the trace began.
pub(super) fn read(directory: &Directory, output: &mut Output<'_>) -> Result<Option<f64>, Fault> {
    let mut tables = Tables::open(directory)?;
    let times = match directory.layout {
        Layout::Merged => Some(MergedTimes::open(directory, output)?),
        _ => None,
    };
    for &rank in &directory.ranks {
        let (signatures, grammar) =
            match (tables.signatures(directory, rank, output), tables.grammar(directory, rank)) {
                (Ok(signatures), Ok(grammar)) => (signatures, grammar),
                (Err(what), _) | (_, Err(what)) => {
                    output.losses.note("tables", Place::Whole, || format!("rank {rank}: {what}"));
                    continue;
                }
            };
        let stream: Box<dyn Read> = match &times {
            Some(times) => match times.of_rank(rank) {
                Ok(stream) => stream,
                Err(what) => {
                    output.losses.note("times", Place::Whole, || format!("rank {rank}: {what}"));
                    continue;
                }
            },
            None => match open_ordinary(&directory.file(&format!("{rank}.ts"))) {
                Ok(file) => Box::new(file),
                Err(error) => {
                    output.losses.note("times", Place::Whole, || format!("rank {rank}: no times: {error}"));
                    continue;
                }
            },
        };
        let mut rank_calls = RankCalls {
            rank,
            directory,
            signatures: &signatures,
            ticks: Ticks { stream: BufReader::with_capacity(64 << 10, stream), previous: 0 },
            handles: HashMap::new(),
            handle_budget: NameBudget::default(),
        };
        if rank_calls.expand(&grammar, output).is_break() {
            break;
        }
    }
    Ok(directory.start_unix_s)
}

/// Signatures and grammars, loaded when a rank needs them and kept while the next one may.
struct Tables {
    /// Which grammar each rank uses, where they are shared.
    grammar_of_rank: Option<Vec<i32>>,
    /// All grammars of the merged layout.
    merged: Vec<Vec<u8>>,
    shared_signatures: Option<Arc<Vec<Signature>>>,
    grammars: HashMap<i32, Arc<Grammar>>,
}

impl Tables {
    fn open(directory: &Directory) -> Result<Self, Fault> {
        let mut tables = Self {
            grammar_of_rank: None,
            merged: Vec::new(),
            shared_signatures: None,
            grammars: HashMap::new(),
        };
        if directory.shared_grammars
            && let Ok(bytes) = read_small(&directory.file("ug.mt"))
        {
            tables.grammar_of_rank = Some(i32s(&bytes).collect());
        }
        if directory.layout == Layout::Merged {
            tables.merged = blocks(&read_small(&directory.file("ug.cfg"))?).0;
        }
        Ok(tables)
    }

    fn signatures(
        &mut self,
        directory: &Directory,
        rank: u32,
        output: &mut Output<'_>,
    ) -> Result<Arc<Vec<Signature>>, String> {
        if let Some(shared) = &self.shared_signatures {
            return Ok(Arc::clone(shared));
        }
        let name = match directory.layout {
            Layout::Merged => "recorder.cst".to_owned(),
            _ if directory.shared_grammars => "0.cst".to_owned(),
            _ => format!("{rank}.cst"),
        };
        let bytes = read_small(&directory.file(&name)).map_err(|_| format!("{name} cannot be read"))?;
        let bytes = match looks_compressed(&bytes) {
            true => blocks(&bytes).0.concat(),
            false => bytes,
        };
        let signatures =
            Arc::new(signatures_in(&bytes, directory, output).ok_or(format!("{name} is damaged"))?);
        if directory.shared_grammars {
            self.shared_signatures = Some(Arc::clone(&signatures));
        }
        Ok(signatures)
    }

    fn grammar(&mut self, directory: &Directory, rank: u32) -> Result<Arc<Grammar>, String> {
        let id = match &self.grammar_of_rank {
            Some(ids) => *ids.get(rank as usize).ok_or("ug.mt does not name its grammar")?,
            None => rank as i32,
        };
        if let Some(grammar) = self.grammars.get(&id) {
            return Ok(Arc::clone(grammar));
        }
        let grammar = if directory.layout == Layout::Merged {
            let bytes = usize::try_from(id).ok().and_then(|id| self.merged.get(id));
            Grammar::parse(bytes.ok_or(format!("grammar {id} is not in ug.cfg"))?)
        } else {
            let name = format!("{id}.cfg");
            let bytes = read_small(&directory.file(&name)).map_err(|_| format!("{name} cannot be read"))?;
            match looks_compressed(&bytes) {
                true => Grammar::parse(&blocks(&bytes).0.concat()),
                false => Grammar::parse(&bytes),
            }
        };
        let grammar = Arc::new(grammar.ok_or(format!("grammar {id} is damaged"))?);
        if self.grammar_of_rank.is_some() {
            self.grammars.insert(id, Arc::clone(&grammar));
        }
        Ok(grammar)
    }
}

fn i32s(bytes: &[u8]) -> impl Iterator<Item = i32> + '_ {
    bytes.chunks_exact(4).map(|it| i32::from_le_bytes([it[0], it[1], it[2], it[3]]))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

fn i32_at(bytes: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// Whether bytes begin with the sizes of a block and a zlib header.
fn looks_compressed(bytes: &[u8]) -> bool {
    u64_at(bytes, 0).is_some_and(|len| len <= bytes.len() as u64) && bytes.get(16) == Some(&0x78)
}

/// Inflates `compressed size, size, zlib stream` blocks one after the other, up to the first that is not whole;
/// returns them and whether they were all there.
fn blocks(bytes: &[u8]) -> (Vec<Vec<u8>>, bool) {
    let mut blocks = Vec::new();
    let mut rest = bytes;
    let mut left = MOST_INFLATED;
    while !rest.is_empty() {
        let Some((stream, behind)) =
            u64_at(rest, 0).and_then(|len| usize::try_from(len).ok()).and_then(|len| {
                let end = len.checked_add(16)?;
                Some((rest.get(16..end)?, rest.get(end..)?))
            })
        else {
            return (blocks, false);
        };
        let mut block = Vec::new();
        if ZlibDecoder::new(stream).take(left).read_to_end(&mut block).is_err() {
            return (blocks, false);
        }
        left -= block.len() as u64;
        blocks.push(block);
        rest = behind;
    }
    (blocks, true)
}

/// A call without its time: function and arguments.
#[derive(Debug)]
struct Signature {
    name: String,
    meaning: Option<Meaning>,
    /// For MPI-IO: the handle that names the file, and whether this call opens it.
    handle: Option<(Vec<u8>, bool)>,
    /// Its size is not in the arguments.
    unknown_size: bool,
}

/// Reads the table of signatures, in the order of their numbers.
///
/// Until 2.3 an entry is `number, length, key`; since 2.4 `number, rank, length, count, key`. A key's length also stands
/// in the key, so the wrong reading does not go far.
fn signatures_in(bytes: &[u8], directory: &Directory, output: &mut Output<'_>) -> Option<Vec<Signature>> {
    let keys = keys_in(bytes, 4, 2).or_else(|| keys_in(bytes, 2, 1))?;
    Some(keys.into_iter().map(|key| signature_of(key, directory, output)).collect())
}

/// The keys of a table whose entries have `n_fields` numbers before the key, its length the `length_at`th of them.
fn keys_in(bytes: &[u8], n_fields: usize, length_at: usize) -> Option<Vec<&[u8]>> {
    let n_entries = usize::try_from(i32_at(bytes, 0)?).ok()?;
    if n_entries > bytes.len() / (4 * n_fields) {
        return None;
    }
    let mut keys: Vec<&[u8]> = vec![&[]; n_entries];
    let mut at = 4;
    for _ in 0..n_entries {
        let number = usize::try_from(i32_at(bytes, at)?).ok()?;
        let length = usize::try_from(i32_at(bytes, at + 4 * length_at)?).ok()?;
        at += 4 * n_fields;
        let key = bytes.get(at..at.checked_add(length)?)?;
        at += length;
        let args_length = usize::try_from(i32_at(key, KEY_FIXED - 4)?).ok()?;
        if key.len() != KEY_FIXED + args_length {
            return None;
        }
        *keys.get_mut(number)? = key;
    }
    Some(keys)
}

/// Thread, function, level, number of arguments, their length.
const KEY_FIXED: usize = 8 + 1 + 1 + 1 + 4;

fn signature_of(key: &[u8], directory: &Directory, output: &mut Output<'_>) -> Signature {
    let function = key.get(8).copied().unwrap_or(USER_FUNCTION);
    let text = key.get(KEY_FIXED..).unwrap_or_default();
    // Each argument is followed by a space.
    let args: Vec<&[u8]> = text.strip_suffix(b" ").unwrap_or(text).split(|&byte| byte == b' ').collect();
    let known = directory.functions.get(usize::from(function)).filter(|_| function != USER_FUNCTION);
    let name = match known {
        Some(function) => function.name.clone(),
        None => String::from_utf8_lossy(args.get(1).copied().unwrap_or(b"?")).into_owned(),
    };
    let mut signature = Signature { name, meaning: None, handle: None, unknown_size: false };
    let Some(kind) = known.and_then(|function| function.kind) else { return signature };
    let bytes = bytes_asked(&signature.name, kind, &args);
    signature.unknown_size = bytes.is_none();
    let file = match file_ref(&signature.name, kind, &args) {
        FileRef::None => FileId::NONE,
        FileRef::Path(path) => output.files.id_of_bytes(path),
        FileRef::Descriptor(descriptor) => {
            standard_stream(descriptor).map_or(FileId::NONE, |name| output.files.id_of_bytes(name))
        }
        FileRef::Handle(handle) => {
            signature.handle = Some((handle.to_vec(), false));
            FileId::NONE
        }
        FileRef::OpensHandle { path, handle } => {
            signature.handle = Some((handle.to_vec(), true));
            output.files.id_of_bytes(path)
        }
    };
    signature.meaning = Some(Meaning { kind, bytes: bytes.unwrap_or(0), file });
    signature
}

/// Rules by number: what each stands for, as symbols and how often each is repeated.
#[derive(Debug, Default)]
struct Grammar {
    rules: BTreeMap<i32, Vec<(i32, i32)>>,
}

impl Grammar {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let n_rules = usize::try_from(i32_at(bytes, 0)?).ok()?;
        let mut rules = BTreeMap::new();
        let mut at = 4;
        for _ in 0..n_rules {
            let number = i32_at(bytes, at)?;
            let n_symbols = usize::try_from(i32_at(bytes, at + 4)?).ok()?;
            let end = (at + 8).checked_add(n_symbols.checked_mul(8)?)?;
            let mut words = i32s(bytes.get(at + 8..end)?);
            let mut body = Vec::with_capacity(n_symbols);
            while let (Some(symbol), Some(times)) = (words.next(), words.next()) {
                body.push((symbol, times));
            }
            rules.insert(number, body);
            at = end;
        }
        rules.contains_key(&ROOT).then_some(Self { rules })
    }
}

/// One rank's calls, put together from its three parts.
struct RankCalls<'a> {
    rank: u32,
    directory: &'a Directory,
    signatures: &'a [Signature],
    ticks: Ticks,
    handles: HashMap<Vec<u8>, FileId>,
    handle_budget: NameBudget,
}

/// A rule that is being walked through.
struct Frame<'g> {
    body: &'g [(i32, i32)],
    next: usize,
    /// How often the symbol before `next` is still to be repeated.
    again: i32,
}

impl RankCalls<'_> {
    /// Walks the grammar from its root and gives each call its time.
    fn expand(&mut self, grammar: &Grammar, output: &mut Output<'_>) -> ControlFlow<()> {
        let rank = self.rank;
        let Some(root) = grammar.rules.get(&ROOT) else { return ControlFlow::Continue(()) };
        let mut stack = vec![Frame { body: root, next: 0, again: 0 }];
        // A damaged grammar may have rules that stand for nothing, or for themselves.
        let most_idle = 1000 + 4 * grammar.rules.len();
        let mut idle = 0;
        while let Some(frame) = stack.last_mut() {
            if frame.again <= 0 {
                let Some(&(_, times)) = frame.body.get(frame.next) else {
                    stack.pop();
                    continue;
                };
                frame.next += 1;
                frame.again = times;
                idle += 1;
                if times <= 0 {
                    continue;
                }
            }
            frame.again -= 1;
            let Some(&(symbol, _)) = frame.body.get(frame.next - 1) else { break };
            if let Ok(number) = usize::try_from(symbol) {
                idle = 0;
                let Some(signature) = self.signatures.get(number) else {
                    output.losses.note("symbol", Place::Whole, || {
                        format!(
                            "rank {rank}: the grammar names call signature {number}, which does not exist"
                        )
                    });
                    return ControlFlow::Continue(());
                };
                match self.ticks.next(rank, output) {
                    Ok(Some(ticks)) => self.call(signature, ticks, output)?,
                    Ok(None) => {
                        output.losses.note("times", Place::Whole, || {
                            format!("rank {rank}: the grammar holds more calls than there are times")
                        });
                        return ControlFlow::Continue(());
                    }
                    Err(error) => {
                        output.losses.note("times", Place::Whole, || {
                            format!("rank {rank}: the times end early: {error}")
                        });
                        return ControlFlow::Continue(());
                    }
                }
            } else {
                idle += 1;
                match grammar.rules.get(&symbol) {
                    Some(body) if stack.len() < DEEPEST && idle <= most_idle => {
                        stack.push(Frame { body, next: 0, again: 0 });
                    }
                    _ => {
                        output.losses.note("grammar", Place::Whole, || {
                            format!("rank {rank}: the grammar is damaged at rule {symbol}")
                        });
                        return ControlFlow::Continue(());
                    }
                }
            }
        }
        let left = self.ticks.left();
        if left > 0 {
            output.losses.notes(left, "times", Place::Whole, || {
                format!("rank {rank}: there are {left} more times than the grammar holds calls")
            });
        }
        ControlFlow::Continue(())
    }

    fn call(
        &mut self,
        signature: &Signature,
        (start, end): (i64, i64),
        output: &mut Output<'_>,
    ) -> ControlFlow<()> {
        let mut meaning = signature.meaning;
        if let (Some(meaning), Some((handle, opens))) = (&mut meaning, &signature.handle) {
            if *opens {
                if let Some(known) = self.handles.get_mut(handle) {
                    *known = meaning.file;
                } else if self.handle_budget.takes(handle) {
                    self.handles.insert(handle.clone(), meaning.file);
                }
            } else {
                meaning.file = self.handles.get(handle).copied().unwrap_or(FileId::NONE);
            }
        }
        if let (true, Some(meaning)) = (signature.unknown_size, &meaning) {
            output.losses.no_size(meaning.kind, &signature.name, self.rank);
        }
        let times = (self.directory.timestamp(start), self.directory.timestamp(end));
        output.call(self.rank, &signature.name, meaning, times, 0)
    }
}

/// Pairs of whole numbers: start and end of a call, after the start of the one before.
struct Ticks {
    stream: BufReader<Box<dyn Read>>,
    previous: i64,
}

impl Ticks {
    /// How close to 2³² a start must be to be taken for one before the previous start (a second, at 100 ns).
    const NEGATIVE: u32 = u32::MAX - 10_000_000;

    /// Start and end of the next call; `None` at the end.
    fn next(&mut self, rank: u32, output: &mut Output<'_>) -> io::Result<Option<(i64, i64)>> {
        let mut pair = [0; 8];
        match self.stream.read_exact(&mut pair) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let [a, b, c, d, e, f, g, h] = pair;
        let (start, end) = (u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h]));
        let (mut start_delta, mut end_delta) = (i64::from(start), i64::from(end));
        // 32 bits hold 429 s; what is more wraps around. Where the end lies before the start, one of them did.
        if end < start {
            if start >= Self::NEGATIVE {
                start_delta -= 1 << 32;
            } else {
                end_delta += 1 << 32;
                output.losses.note_of_unknown_size("overflow", Place::Whole, || {
                    format!("rank {rank}: a call is longer than its 32 bits of time can hold; gaps as long are not seen")
                });
            }
        }
        let (start, end) =
            (self.previous.saturating_add(start_delta), self.previous.saturating_add(end_delta));
        self.previous = start;
        Ok(Some((start, end)))
    }

    /// How many pairs nobody asked for.
    fn left(&mut self) -> u64 {
        io::copy(&mut self.stream, &mut io::sink()).map_or(0, |bytes| bytes / 8)
    }
}

/// 2.5's `recorder.ts`: the size of each rank's part, then the parts.
struct MergedTimes {
    file: Arc<File>,
    /// Where each rank's part begins and ends.
    parts: Vec<(u64, u64)>,
}

impl MergedTimes {
    fn open(directory: &Directory, output: &mut Output<'_>) -> Result<Self, Fault> {
        let mut file = open_ordinary(&directory.file("recorder.ts"))?;
        let file_len = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(0))?;
        let table_len = 8 * u64::from(directory.n_ranks);
        if table_len > file_len {
            return Err(Fault::at(
                Place::Byte(0),
                format!("recorder.ts has {file_len} bytes, too few for {} ranks", directory.n_ranks),
            ));
        }
        let mut table = Vec::new();
        Read::by_ref(&mut file).take(table_len).read_to_end(&mut table)?;
        let mut parts = Vec::new();
        let mut at = table_len;
        for rank in 0..directory.n_ranks {
            let Some(len) = u64_at(&table, 8 * rank as usize) else { break };
            let end = at.saturating_add(len);
            if end > file_len {
                output.losses.note("cut times", Place::Byte(at), || {
                    format!("recorder.ts is cut off in the times of rank {rank}")
                });
            }
            parts.push((at, end.min(file_len)));
            at = end.min(file_len);
        }
        Ok(Self { file: Arc::new(file), parts })
    }

    fn of_rank(&self, rank: u32) -> Result<Box<dyn Read>, String> {
        let &(at, end) = self.parts.get(rank as usize).ok_or("recorder.ts has no times for it")?;
        let part = crate::input::FileAt::new(Arc::clone(&self.file), at).take(end - at);
        Ok(Box::new(Blocks { part: Some(BufReader::new(part)), block: None }))
    }
}

/// Blocks of `compressed size, size, zlib stream`, inflated as they are read.
struct Blocks<R: Read> {
    part: Option<BufReader<R>>,
    block: Option<ZlibDecoder<io::Take<BufReader<R>>>>,
}

impl<R: Read> Read for Blocks<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(block) = &mut self.block {
                let n = block.read(buffer)?;
                if n > 0 || buffer.is_empty() {
                    return Ok(n);
                }
            }
            if let Some(block) = self.block.take() {
                let mut rest = block.into_inner();
                io::copy(&mut rest, &mut io::sink())?;
                self.part = Some(rest.into_inner());
            }
            let Some(mut part) = self.part.take() else { return Ok(0) };
            let mut sizes = [0; 16];
            match part.read_exact(&mut sizes) {
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
                read => read?,
            }
            let len = u64_at(&sizes, 0).unwrap_or(0);
            self.block = Some(ZlibDecoder::new(part.take(len)));
        }
    }
}
