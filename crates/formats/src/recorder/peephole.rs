//! Recorder 2.0–2.2: one stream of records per rank, some of them differences against a recent one.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::ops::ControlFlow;

use iotide_private::open_ordinary;
use iotide_trace::{FileId, Op};

use super::{Directory, FileRef, Meaning, Output, bytes_asked, file_ref, read_small, standard_stream};
use crate::{
    Place, budget::NameBudget, error::Fault, lenient::parse_i64, number::parse_f64, scanner::Scanner,
};

/// How far back a difference may refer: `func` is a byte, the tracer's window is 3.
const WINDOW: usize = 256;
/// Status, start, end, result, function.
const FIXED: usize = 14;
/// A path is at most 4 KiB, and a call has at most a handful.
const LONGEST_ARGS: usize = 64 << 10;
/// The tracer's `int` cannot hold a time of more than 35.8 minutes in microseconds, and x86 then stores this.
const OVERFLOWED: i32 = i32::MIN;

/// Reads all ranks; returns when the first of them began.
pub(super) fn read(directory: &Directory, output: &mut Output<'_>) -> Result<Option<f64>, Fault> {
    let starts: Vec<(u32, Option<f64>)> =
        directory.ranks.iter().map(|&rank| (rank, rank_start(directory, rank))).collect();
    // Each rank counts from its own start: the earliest is the zero of the whole.
    let zero = starts.iter().filter_map(|&(_, start)| start).min_by(f64::total_cmp);
    for (rank, start) in starts {
        let shift_s = zero.zip(start).map_or(0.0, |(zero, start)| start - zero);
        let start_unix_s = start.unwrap_or(0.0);
        let mut stream = RankStream {
            rank,
            shift_nanos: (shift_s * 1e9).round() as i64,
            start_unix_s,
            recent: VecDeque::with_capacity(WINDOW),
            descriptors: HashMap::new(),
            handles: HashMap::new(),
            handle_budget: NameBudget::default(),
        };
        if stream.read(directory, output)?.is_break() {
            break;
        }
    }
    Ok(zero)
}

/// `N.mt` begins with the rank's own start time.
fn rank_start(directory: &Directory, rank: u32) -> Option<f64> {
    let header = read_small(&directory.file(&format!("{rank}.mt"))).ok()?;
    let start = f64::from_le_bytes(header.get(..8)?.try_into().ok()?);
    (start > 1e8 && start < 1e11).then_some(start)
}

struct RankStream {
    rank: u32,
    shift_nanos: i64,
    start_unix_s: f64,
    /// The last records, newest first.
    recent: VecDeque<Recent>,
    descriptors: HashMap<i64, FileId>,
    handles: HashMap<Vec<u8>, FileId>,
    handle_budget: NameBudget,
}

/// A record as the next ones may refer to it.
#[derive(Clone, Default)]
struct Recent {
    function: u8,
    /// Joined by spaces.
    args: Vec<u8>,
}

impl RankStream {
    fn read(&mut self, directory: &Directory, output: &mut Output<'_>) -> Result<ControlFlow<()>, Fault> {
        let file = match open_ordinary(&directory.file(&format!("{}.itf", self.rank))) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(ControlFlow::Continue(())),
            Err(error) => return Err(error.into()),
        };
        let mut scanner = Scanner::new(Box::new(file));
        // In text mode a record begins with a time; in binary mode with 0 or a byte of which bit 7 is set.
        let text = scanner.want(1)?.first().is_some_and(u8::is_ascii_digit);
        loop {
            let at = scanner.offset();
            let fixed = if text { 0 } else { FIXED };
            let bytes = scanner.want(FIXED)?;
            if bytes.is_empty() {
                return Ok(ControlFlow::Continue(()));
            }
            let Some(head) = bytes.get(..fixed).map(<[u8]>::to_vec) else {
                let left = bytes.len();
                output.losses.note("cut", Place::Byte(at), || {
                    format!("rank {}: the last record is cut off, {left} bytes are left", self.rank)
                });
                return Ok(ControlFlow::Continue(()));
            };
            scanner.advance(fixed);
            let Some((line, len)) = scanner.line(LONGEST_ARGS)? else {
                output.losses.note("cut", Place::Byte(at), || {
                    format!("rank {}: the last record is cut off", self.rank)
                });
                return Ok(ControlFlow::Continue(()));
            };
            if len == line.len() {
                let longer = len >= LONGEST_ARGS;
                let rank = self.rank;
                output.losses.note("cut", Place::Byte(at), || match longer {
                    true => format!("rank {rank}: a record without an end; nothing behind it can be read"),
                    false => format!("rank {rank}: the last record is cut off"),
                });
                return Ok(ControlFlow::Continue(()));
            }
            let flow = if text {
                self.text_record(line, at, directory, output)
            } else {
                self.binary_record(&head, line, at, directory, output)
            };
            scanner.advance(len);
            if flow.is_break() {
                return Ok(flow);
            }
        }
    }

    fn binary_record(
        &mut self,
        head: &[u8],
        args: &[u8],
        at: u64,
        directory: &Directory,
        output: &mut Output<'_>,
    ) -> ControlFlow<()> {
        let i32_at =
            |at: usize| head.get(at..at + 4).and_then(|it| it.try_into().ok()).map_or(0, i32::from_le_bytes);
        let (status, start, end, result, function) = (
            head.first().copied().unwrap_or(0),
            i32_at(1),
            i32_at(5),
            i32_at(9),
            head.get(13).copied().unwrap_or(0),
        );
        let args = args.strip_prefix(b" ").unwrap_or(args);
        let record = if status == 0 {
            Recent { function, args: args.to_vec() }
        } else {
            let Some(reference) = self.recent.get(usize::from(function)) else {
                output.census.unusable += 1;
                output.losses.note("reference", Place::Byte(at), || {
                    format!("rank {}: a record refers to one {function} back, which is not there", self.rank)
                });
                self.remember(Recent::default());
                return ControlFlow::Continue(());
            };
            Recent { function: reference.function, args: patched(&reference.args, args, status) }
        };
        let flow = match (start, end) {
            (OVERFLOWED, _) | (_, OVERFLOWED) => {
                output.census.unusable += 1;
                output.losses.note("overflow", Place::Byte(at), || {
                    format!(
                        "rank {}: the time is past 35.8 minutes, more than this version can hold",
                        self.rank
                    )
                });
                // Still tells which file a descriptor is.
                let _ = self.meaning_of(&record, i64::from(result), directory, output);
                ControlFlow::Continue(())
            }
            _ => {
                let times = (directory.timestamp(i64::from(start)), directory.timestamp(i64::from(end)));
                self.emit(&record, i64::from(result), times, directory, output)
            }
        };
        self.remember(record);
        flow
    }

    /// `start end result function args…`, times since the epoch.
    fn text_record(
        &mut self,
        line: &[u8],
        at: u64,
        directory: &Directory,
        output: &mut Output<'_>,
    ) -> ControlFlow<()> {
        let mut words = line.splitn(5, |&byte| byte == b' ');
        let mut word = || words.next().unwrap_or_default();
        let (start, end, result, name, args) = (word(), word(), word(), word(), word());
        let time = |text: &[u8]| {
            iotide_trace::Timestamp::from_secs_since_start(parse_f64(text)? - self.start_unix_s)
        };
        let function = directory.functions.iter().position(|function| function.name.as_bytes() == name);
        let (Some(start), Some(end), Some(function)) = (time(start), time(end), function) else {
            output.census.unusable += 1;
            output.losses.note("text", Place::Byte(at), || {
                format!(
                    "rank {}: not a record: {:?}",
                    self.rank,
                    String::from_utf8_lossy(&line[..line.len().min(60)])
                )
            });
            return ControlFlow::Continue(());
        };
        let record = Recent { function: u8::try_from(function).unwrap_or(u8::MAX), args: args.to_vec() };
        self.emit(&record, parse_i64(result).unwrap_or(0), (start, end), directory, output)
    }

    fn remember(&mut self, record: Recent) {
        self.recent.truncate(WINDOW - 1);
        self.recent.push_front(record);
    }

    fn emit(
        &mut self,
        record: &Recent,
        result: i64,
        times: (iotide_trace::Timestamp, iotide_trace::Timestamp),
        directory: &Directory,
        output: &mut Output<'_>,
    ) -> ControlFlow<()> {
        let name =
            directory.functions.get(usize::from(record.function)).map_or("?", |function| &function.name);
        let meaning = self.meaning_of(record, result, directory, output);
        output.call(self.rank, name, meaning, times, self.shift_nanos)
    }

    /// Returns the meaning of the call, following descriptors from `open` to `close`.
    fn meaning_of(
        &mut self,
        record: &Recent,
        result: i64,
        directory: &Directory,
        output: &mut Output<'_>,
    ) -> Option<Meaning> {
        let function = directory.functions.get(usize::from(record.function))?;
        let args: Vec<&[u8]> = record.args.split(|&byte| byte == b' ').collect();
        let number = |at: usize| args.get(at).and_then(|text| parse_i64(text));
        let duplicate = match function.name.as_str() {
            "dup" => number(0).map(|old| (old, result)),
            "dup2" => number(0).zip(number(1)),
            // F_DUPFD and F_DUPFD_CLOEXEC
            "fcntl" if matches!(number(1), Some(0 | 1030)) => number(0).map(|old| (old, result)),
            _ => None,
        };
        if let Some((old, new)) = duplicate
            && let Some(&file) = self.descriptors.get(&old)
            && new > 2
        {
            self.descriptors.insert(new, file);
        }
        let kind = function.kind?;
        let file = match file_ref(&function.name, kind, &args) {
            FileRef::None => FileId::NONE,
            FileRef::Path(path) => output.files.id_of_bytes(path),
            FileRef::Descriptor(descriptor) => match self.descriptors.get(&descriptor) {
                Some(&file) => file,
                None => {
                    standard_stream(descriptor).map_or(FileId::NONE, |name| output.files.id_of_bytes(name))
                }
            },
            FileRef::Handle(handle) => self.handles.get(handle).copied().unwrap_or(FileId::NONE),
            FileRef::OpensHandle { path, handle } => {
                let file = output.files.id_of_bytes(path);
                if let Some(known) = self.handles.get_mut(handle) {
                    *known = file;
                } else if self.handle_budget.takes(handle) {
                    self.handles.insert(handle.to_vec(), file);
                }
                file
            }
        };
        match kind.op {
            Op::Open if result > 2 && file != FileId::NONE => {
                self.descriptors.insert(result, file);
            }
            Op::Close => {
                number(0).map(|descriptor| self.descriptors.remove(&descriptor));
            }
            _ => {}
        }
        let bytes = bytes_asked(&function.name, kind, &args).unwrap_or_else(|| {
            output.losses.no_size(kind, &function.name, self.rank);
            0
        });
        Some(Meaning { kind, bytes, file })
    }
}

/// The arguments of a record that differs from another in those whose bit is set.
fn patched(reference: &[u8], changed: &[u8], status: u8) -> Vec<u8> {
    let mut changed = changed.split(|&byte| byte == b' ');
    let mut args = Vec::with_capacity(reference.len() + changed.size_hint().0);
    for (i, same) in reference.split(|&byte| byte == b' ').enumerate() {
        if i > 0 {
            args.push(b' ');
        }
        let differs = i < 7 && status & (1 << i) != 0;
        args.extend_from_slice(if differs { changed.next().unwrap_or_default() } else { same });
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_changes_the_marked_arguments_only() {
        assert_eq!(patched(b"19 %p 8192 0", b"20 77", 0b1000_1001), b"20 %p 8192 77");
        assert_eq!(patched(b"19 %p 8192", b"", 0b1000_0000), b"19 %p 8192");
    }
}
