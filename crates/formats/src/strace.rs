//! strace: `strace -ttt -T -f`, with or without `-yy`, one file for all processes or one for each (`-ff`).
//!
//! ```text
//! 7641 1794703154.416946 openat(AT_FDCWD</runs>, "out.dat", O_RDWR) = 3</runs/out.dat> <0.000016>
//! 7641 1794703154.417008 write(3</runs/out.dat>, "…"..., 4096 <unfinished ...>
//! 7642 1794703154.417044 +++ exited with 0 +++
//! 7641 1794703154.417069 <... write resumed>) = 4096 <0.000061>
//! ```
//!
//! Only calls on files become events: with `-yy` pipes, sockets and terminals say what they are; without it,
//! descriptors are followed from the call that made them. A descriptor of unknown origin is taken for a file without
//! a name. Each traced task is a rank. Times count from the Unix epoch.

use std::collections::HashMap;
use std::ops::ControlFlow;

use iotide_trace::{Event, EventSink, FileId, Grain, Layer, Op, Rank, Timestamp, TraceInfo};

use crate::{
    Place,
    budget::NameBudget,
    calls::{self, CallKind},
    error::Fault,
    files::Files,
    functions::Functions,
    input::Input,
    lenient::{parse_i64, parse_u64},
    losses::Losses,
    processes::Processes,
    scanner::Scanner,
};

/// `-s` may ask for long buffers in every line.
const LONGEST_LINE: usize = 1 << 20;
/// Calls that wait for their end at one time: one per task.
const MOST_PENDING: usize = 1 << 16;
/// Descriptors followed at one time.
const MOST_DESCRIPTORS: usize = 1 << 20;

/// Whether a file begins like one of these.
pub(crate) fn recognises(head: &[u8]) -> bool {
    let line =
        head.split(|&byte| byte == b'\n').find(|line| !line.trim_ascii().is_empty()).unwrap_or_default();
    let Some(Line { text, .. }) = parse_line(line) else { return false };
    match text {
        [b'+', b'+', b'+', b' ', ..] | [b'-', b'-', b'-', b' ', ..] => true,
        [b'<', b'.', b'.', b'.', ..] => true,
        _ => call_name(text).is_some(),
    }
}

/// Reads one file.
pub(crate) fn read(
    input: Input,
    processes: &mut Processes,
    sink: &mut dyn EventSink,
) -> Result<TraceInfo, Fault> {
    // With -ff, strace appends the task's number to the name and leaves it out of the lines.
    let name = input.name().to_string_lossy().into_owned();
    let own_pid = name.rsplit_once('.').and_then(|(_, number)| parse_u64(number.as_bytes()));
    let host = if own_pid.is_some() { Vec::new() } else { name.into_bytes() };
    let mut scanner = Scanner::new(input.into_read());
    let mut decoder = Decoder::new(processes, host, own_pid.unwrap_or(0));
    let _ = scanner.lines(LONGEST_LINE, |line, number| decoder.line(line, number, sink))?;
    Ok(decoder.finish(sink))
}

/// A line taken apart as far as all lines are alike.
struct Line<'a> {
    pid: Option<u64>,
    at: Timestamp,
    text: &'a [u8],
}

fn parse_line(line: &[u8]) -> Option<Line<'_>> {
    let mut rest = line.trim_ascii();
    let mut pid = None;
    if let Some(bracketed) = rest.strip_prefix(b"[pid ") {
        let end = memchr::memchr(b']', bracketed)?;
        pid = Some(parse_u64(bracketed[..end].trim_ascii())?);
        rest = bracketed[end + 1..].trim_ascii_start();
    }
    let (mut word, mut behind) = split_word(rest);
    if pid.is_none()
        && let Some(number) = parse_u64(word)
    {
        pid = Some(number);
        (word, behind) = split_word(behind);
    }
    Some(Line { pid, at: Timestamp::from_nanos_since_start(parse_seconds(word)?), text: behind })
}

fn split_word(text: &[u8]) -> (&[u8], &[u8]) {
    let len = memchr::memchr(b' ', text).unwrap_or(text.len());
    (&text[..len], text[len..].trim_ascii_start())
}

/// "1794703154.416197" in nanoseconds, exactly.
fn parse_seconds(text: &[u8]) -> Option<i64> {
    let dot = memchr::memchr(b'.', text)?;
    let (secs, fraction) = (&text[..dot], &text[dot + 1..]);
    if fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let scale = 10i64.checked_pow(9 - fraction.len() as u32)?;
    let fraction = i64::try_from(parse_u64(fraction)?).ok()?.checked_mul(scale)?;
    i64::try_from(parse_u64(secs)?).ok()?.checked_mul(1_000_000_000)?.checked_add(fraction)
}

/// The name before the first parenthesis, if it is one.
fn call_name(text: &[u8]) -> Option<&str> {
    let open = memchr::memchr(b'(', &text[..text.len().min(64)])?;
    let name = &text[..open];
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    (!name.is_empty() && name.iter().all(is_name)).then(|| std::str::from_utf8(name).ok())?
}

/// A call that returned.
struct Call<'a> {
    name: &'a str,
    args: &'a [u8],
    /// `None` for `?`: it never returned, or is to be started again.
    result: Option<i64>,
    /// Note of `-y` on a returned descriptor.
    result_note: Option<&'a [u8]>,
    bad_descriptor: bool,
    duration_nanos: Option<i64>,
}

fn parse_call(text: &[u8]) -> Option<Call<'_>> {
    let name = call_name(text)?;
    let (closing, result_at) = find_result(text)?;
    let args = text.get(name.len() + 1..closing)?;
    let tail = text[result_at..].trim_ascii();
    let duration = tail.strip_suffix(b">").and_then(|rest| {
        let open = memchr::memrchr(b'<', rest)?;
        parse_seconds(&rest[open + 1..])
    });
    let number_len = tail.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'-').count();
    let (number, behind) = tail.split_at(number_len);
    let result = match number.strip_prefix(b"0x") {
        Some(hex) => std::str::from_utf8(hex).ok().and_then(|hex| i64::from_str_radix(hex, 16).ok()),
        None => parse_i64(number),
    };
    Some(Call {
        name,
        args,
        result,
        result_note: note_at(behind),
        bad_descriptor: memchr::memmem::find(behind, b"EBADF").is_some(),
        duration_nanos: duration,
    })
}

/// Where the arguments end and where the result begins: the last `) = `, however many spaces are in it.
fn find_result(text: &[u8]) -> Option<(usize, usize)> {
    let mut end = text.len();
    loop {
        let equals = memchr::memrchr(b'=', &text[..end])?;
        let before = text[..equals].trim_ascii_end();
        if before.len() < equals && before.ends_with(b")") && text.get(equals + 1) == Some(&b' ') {
            return Some((before.len() - 1, equals + 2));
        }
        end = equals;
    }
}

/// The note that `-y` puts behind a descriptor: `</path>`, `<pipe:[1]>`, `</dev/null<char 1:3>>`.
fn note_at(text: &[u8]) -> Option<&[u8]> {
    let note = text.strip_prefix(b"<")?;
    let mut from = 0;
    loop {
        let end = from + memchr::memchr(b'>', &note[from..])?;
        // A `>` in the middle of it (`TCP:[a->b]`) is followed by more of it.
        if matches!(note.get(end + 1), None | Some(b',' | b')' | b'(' | b' ' | b']' | b'}')) {
            return Some(&note[..end]);
        }
        from = end + 1;
    }
}

/// Known target of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    File(FileId),
    /// A pipe, a socket, a terminal.
    NoFile,
}

/// Calls that make descriptors which are no files.
fn makes_no_file(name: &str) -> bool {
    matches!(
        name,
        "socket"
            | "accept"
            | "accept4"
            | "eventfd"
            | "eventfd2"
            | "epoll_create"
            | "epoll_create1"
            | "timerfd_create"
            | "signalfd"
            | "signalfd4"
            | "memfd_create"
            | "inotify_init"
            | "inotify_init1"
            | "pidfd_open"
            | "io_uring_setup"
            | "perf_event_open"
            | "userfaultfd"
    )
}

struct Pending {
    at: Timestamp,
    text: Vec<u8>,
}

struct Decoder<'p> {
    processes: &'p mut Processes,
    host: Vec<u8>,
    own_pid: u64,
    functions: Functions,
    files: Files,
    /// Calls of which only the beginning was seen, by task.
    pending: HashMap<u64, Pending>,
    pending_budget: NameBudget,
    /// Descriptor tables; tasks may share one.
    tables: Vec<HashMap<i64, Target>>,
    table_of: HashMap<u64, usize>,
    losses: Losses,
    exe: Option<String>,
    first: Option<Timestamp>,
}

impl<'p> Decoder<'p> {
    fn new(processes: &'p mut Processes, host: Vec<u8>, own_pid: u64) -> Self {
        Self {
            processes,
            host,
            own_pid,
            functions: Functions::default(),
            files: Files::default(),
            pending: HashMap::new(),
            pending_budget: NameBudget::default(),
            tables: Vec::new(),
            table_of: HashMap::new(),
            losses: Losses::default(),
            exe: None,
            first: None,
        }
    }

    fn line(&mut self, line: &[u8], number: u64, sink: &mut dyn EventSink) -> ControlFlow<()> {
        if line.trim_ascii().is_empty() {
            return ControlFlow::Continue(());
        }
        let Some(Line { pid, at, text }) = parse_line(line) else {
            self.losses.note("line", Place::Line(number), || "no time at the beginning of the line".into());
            return ControlFlow::Continue(());
        };
        let pid = pid.unwrap_or(self.own_pid);
        self.first = Some(self.first.map_or(at, |first| first.min(at)));
        if text.starts_with(b"+++") || text.starts_with(b"---") {
            return ControlFlow::Continue(());
        }
        if let Some(resumed) = text.strip_prefix(b"<... ") {
            let rest =
                memchr::memmem::find(resumed, b"resumed>").map(|at| &resumed[at + b"resumed>".len()..]);
            let (Some(rest), Some(Pending { at: began, mut text })) = (rest, self.pending.remove(&pid))
            else {
                self.losses.note("resumed", Place::Line(number), || {
                    "a call goes on here whose beginning is missing".into()
                });
                return ControlFlow::Continue(());
            };
            self.pending_budget.give_back(&text);
            // Older versions leave a space here; it means nothing to what follows.
            text.extend_from_slice(rest);
            return self.call(pid, began, Some(at), &text, number, sink);
        }
        if let Some(begun) = text.strip_suffix(b"<unfinished ...>") {
            let begun = begun.trim_ascii_end();
            if self.pending.len() < MOST_PENDING && self.pending_budget.takes(begun) {
                let before = self.pending.insert(pid, Pending { at, text: begun.to_vec() });
                before.inspect(|before| self.pending_budget.give_back(&before.text));
            }
            return ControlFlow::Continue(());
        }
        self.call(pid, at, None, text, number, sink)
    }

    fn call(
        &mut self,
        pid: u64,
        start: Timestamp,
        resumed_at: Option<Timestamp>,
        text: &[u8],
        number: u64,
        sink: &mut dyn EventSink,
    ) -> ControlFlow<()> {
        let Some(call) = parse_call(text) else {
            self.losses.note("call", Place::Line(number), || "a call without an end".into());
            return ControlFlow::Continue(());
        };
        let end = match (call.duration_nanos, resumed_at) {
            (Some(nanos), _) => start.plus_nanos(nanos),
            (None, Some(at)) => at,
            (None, None) => start,
        };
        let rank = self.processes.rank_of(&self.host, pid);
        let times = (start, end.max(start));
        let flow = self.events_of(pid, rank, times, &call, sink);
        self.follow_descriptors(pid, &call);
        flow
    }

    /// Turns a call into an event, or into two if it reads one file and writes another.
    fn events_of(
        &mut self,
        pid: u64,
        rank: Rank,
        (start, end): (Timestamp, Timestamp),
        call: &Call<'_>,
        sink: &mut dyn EventSink,
    ) -> ControlFlow<()> {
        let Some(result) = call.result.filter(|_| !call.bad_descriptor) else {
            return ControlFlow::Continue(());
        };
        let mut event = |functions: &mut Functions, op: Op, file: FileId| {
            let bytes = if op.moves_data() { result.max(0) as f64 } else { 0.0 };
            let (layer, grain) = (Layer::Posix, Grain::Call);
            let event = Event { op, layer, grain, rank, file, start, end, bytes, calls: 1 };
            functions.add(call.name, &event);
            sink.event(event)
        };
        // (from, to) of calls that copy inside the kernel
        let copies = match call.name {
            "sendfile" | "sendfile64" => Some((1, 0)),
            "copy_file_range" => Some((0, 2)),
            _ => None,
        };
        if let Some((from, to)) = copies {
            for (op, at) in [(Op::Read, from), (Op::Write, to)] {
                let arg = nth_arg(call.args, at);
                if let Target::File(file) = self.target_of(pid, arg) {
                    event(&mut self.functions, op, file)?;
                }
            }
            return ControlFlow::Continue(());
        }
        let Some(CallKind { op, layer: Layer::Posix }) = calls::kind_of(call.name) else {
            return ControlFlow::Continue(());
        };
        let file = match self.file_of(pid, call) {
            Target::File(file) => file,
            Target::NoFile => return ControlFlow::Continue(()),
        };
        event(&mut self.functions, op, file)
    }

    /// The file a call is about.
    fn file_of(&mut self, pid: u64, call: &Call<'_>) -> Target {
        // What was opened is best told by what came back.
        if let Some(note) = call.result_note
            && calls::kind_of(call.name).is_some_and(|kind| kind.op == Op::Open)
        {
            return self.noted(note);
        }
        let first = nth_arg(call.args, 0);
        if first.starts_with(b"\"") {
            return Target::File(self.files.id_of_bytes(&unquoted(first)));
        }
        // …at(directory, "path", …); an empty path means the descriptor itself.
        let second = nth_arg(call.args, 1);
        if call.name.contains("at") && second.starts_with(b"\"") && !second.starts_with(b"\"\"") {
            let path = unquoted(second);
            let directory = memchr::memchr(b'<', first).and_then(|at| note_at(&first[at..]));
            return Target::File(match directory {
                Some(directory) if !path.starts_with(b"/") => {
                    self.files.id_of_bytes(&[directory, b"/", &path].concat())
                }
                _ => self.files.id_of_bytes(&path),
            });
        }
        self.target_of(pid, first)
    }

    /// Returns the target of a descriptor argument, by its note or by what made it.
    fn target_of(&mut self, pid: u64, arg: &[u8]) -> Target {
        let len = arg.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, behind) = arg.split_at(len);
        if let Some(note) = note_at(behind) {
            return self.noted(note);
        }
        let Some(descriptor) = parse_i64(number) else { return Target::File(FileId::NONE) };
        let known = self.table_of.get(&pid).and_then(|&table| self.tables.get(table)?.get(&descriptor));
        known.copied().unwrap_or(Target::File(FileId::NONE))
    }

    fn noted(&mut self, note: &[u8]) -> Target {
        if !note.starts_with(b"/") || memchr::memmem::find(note, b"<char ").is_some() {
            return Target::NoFile;
        }
        let path = memchr::memmem::find(note, b"<block ").map_or(note, |at| &note[..at]);
        Target::File(self.files.id_of_bytes(&unescaped(path)))
    }

    /// Keeps track of what each descriptor of each task is.
    fn follow_descriptors(&mut self, pid: u64, call: &Call<'_>) {
        let Some(result) = call.result.filter(|&result| result >= 0) else { return };
        let number = |at: usize| {
            let arg = nth_arg(call.args, at);
            parse_i64(&arg[..arg.iter().take_while(|byte| byte.is_ascii_digit()).count()])
        };
        match call.name {
            "clone" | "clone3" | "fork" | "vfork" => return self.inherit(pid, result as u64, call.args),
            "execve" => {
                self.exe.get_or_insert_with(|| command_line(call.args));
                return;
            }
            "close" => {
                if let (Some(&table), Some(descriptor)) = (self.table_of.get(&pid), number(0)) {
                    self.tables[table].remove(&descriptor);
                }
                return;
            }
            "pipe" | "pipe2" | "socketpair" => {
                let ends = nth_arg(call.args, if call.name == "socketpair" { 3 } else { 0 });
                let ends = ends.strip_prefix(b"[").unwrap_or(ends);
                for end in ends.split(|&byte| byte == b',') {
                    let end = end.trim_ascii();
                    let len = end.iter().take_while(|byte| byte.is_ascii_digit()).count();
                    if let Some(descriptor) = parse_i64(&end[..len]) {
                        self.set(pid, descriptor, Target::NoFile);
                    }
                }
                return;
            }
            _ => {}
        }
        let target = match call.name {
            "dup" | "dup2" | "dup3" => self.target_of(pid, nth_arg(call.args, 0)),
            "fcntl" | "fcntl64" if nth_arg(call.args, 1).starts_with(b"F_DUPFD") => {
                self.target_of(pid, nth_arg(call.args, 0))
            }
            name if makes_no_file(name) => Target::NoFile,
            name if calls::kind_of(name).is_some_and(|kind| kind.op == Op::Open) => self.file_of(pid, call),
            _ => return,
        };
        self.set(pid, result, target);
    }

    fn set(&mut self, pid: u64, descriptor: i64, target: Target) {
        let table = self.table(pid);
        if self.tables[table].len() < MOST_DESCRIPTORS {
            self.tables[table].insert(descriptor, target);
        }
    }

    fn table(&mut self, pid: u64) -> usize {
        *self.table_of.entry(pid).or_insert_with(|| {
            self.tables.push(HashMap::new());
            self.tables.len() - 1
        })
    }

    /// A new task has its parent's descriptors: the same table if it is a thread, a copy if it is a process.
    ///
    /// Its first calls may come before its parent's `clone` returns, so what it has already is kept.
    fn inherit(&mut self, parent: u64, child: u64, args: &[u8]) {
        let (from, to) = (self.table(parent), self.table(child));
        if from == to || self.tables[from].len() > MOST_DESCRIPTORS / 16 {
            return;
        }
        if memchr::memmem::find(args, b"CLONE_FILES").is_some() {
            let own = std::mem::take(&mut self.tables[to]);
            self.tables[from].extend(own);
            self.table_of.insert(child, from);
        } else {
            for (descriptor, target) in self.tables[from].clone() {
                self.tables[to].entry(descriptor).or_insert(target);
            }
        }
    }

    fn finish(mut self, sink: &mut dyn EventSink) -> TraceInfo {
        let mut unfinished: Vec<_> = self.pending.into_values().collect();
        unfinished.sort_by_key(|pending| pending.at);
        if let Some(first) = unfinished.first() {
            let name = call_name(&first.text).unwrap_or("a call");
            let what = format!("{name} began and its end is not in the trace");
            self.losses.notes(unfinished.len() as u64, "unfinished", Place::Whole, || what);
        }
        let files = self.files.into_paths(&mut self.losses);
        self.losses.report(sink);
        self.functions.tell(sink);
        let mut info = TraceInfo { files, ..TraceInfo::default() };
        info.job.exe = self.exe;
        info.job.start_time_unix_s = self.first.map(Timestamp::as_secs);
        info
    }
}

/// The `n`th argument, counted from 0; commas in strings, brackets and notes do not count.
fn nth_arg(args: &[u8], n: usize) -> &[u8] {
    let (mut at, mut start, mut index, mut open) = (0, 0, 0, 0usize);
    while let Some(&byte) = args.get(at) {
        match byte {
            b'"' => at += 1 + string_len(&args[at + 1..]),
            b'<' => at += note_at(&args[at..]).map_or(0, |note| note.len() + 1),
            b'[' | b'{' | b'(' => open += 1,
            b']' | b'}' | b')' => open = open.saturating_sub(1),
            b',' if open == 0 => {
                if index == n {
                    break;
                }
                index += 1;
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    if index == n { args.get(start..at.min(args.len())).unwrap_or_default().trim_ascii() } else { &[] }
}

/// How many bytes come before the quote that ends a string.
fn string_len(text: &[u8]) -> usize {
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match byte {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

/// The content of a quoted string.
fn unquoted(arg: &[u8]) -> Vec<u8> {
    let text = arg.strip_prefix(b"\"").unwrap_or(arg);
    unescaped(&text[..string_len(text)])
}

/// Undoes C escapes.
fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        at += 1;
        if byte != b'\\' {
            plain.push(byte);
            continue;
        }
        let Some(&escape) = text.get(at) else { break };
        let digits = |from: usize, most: usize, radix: u32| {
            let is_digit = |byte: &&u8| char::from(**byte).is_digit(radix);
            let len = text[from.min(text.len())..].iter().take(most).take_while(is_digit).count();
            let value = std::str::from_utf8(&text[from..from + len]).ok();
            (value.and_then(|it| u32::from_str_radix(it, radix).ok()).unwrap_or(0) as u8, len)
        };
        at += match escape {
            b'0'..=b'7' => {
                let (value, len) = digits(at, 3, 8);
                plain.push(value);
                len
            }
            b'x' if text.len() > at + 1 => {
                let (value, len) = digits(at + 1, 2, 16);
                plain.push(value);
                len + 1
            }
            _ => {
                plain.push(match escape {
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'r' => b'\r',
                    b'v' => 0x0b,
                    b'f' => 0x0c,
                    other => other,
                });
                1
            }
        };
    }
    plain
}

/// `execve("/bin/ior", ["ior", "-a"], …)` as a command.
fn command_line(args: &[u8]) -> String {
    let list = nth_arg(args, 1);
    let list = list.strip_prefix(b"[").and_then(|list| list.strip_suffix(b"]")).unwrap_or_default();
    let mut words: Vec<String> = Vec::new();
    while words.len() < 4096 {
        let word = nth_arg(list, words.len());
        if !word.starts_with(b"\"") {
            break;
        }
        words.push(String::from_utf8_lossy(&unquoted(word)).into_owned());
    }
    if words.is_empty() {
        String::from_utf8_lossy(&unquoted(nth_arg(args, 0))).into_owned()
    } else {
        words.join(" ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_trace::Trace;
    use std::path::Path;

    fn read_named(name: &str, text: &str, processes: &mut Processes) -> Trace {
        let input =
            Input::from_read(Path::new(name), Box::new(std::io::Cursor::new(text.to_owned()))).unwrap();
        let mut trace = Trace::default();
        trace.info = read(input, processes, &mut trace).unwrap();
        trace
    }

    /// One line per event: "rank op bytes file duration in µs".
    fn check(text: &str, expected: &[&str]) -> Trace {
        assert!(recognises(text.as_bytes()));
        let trace = read_named("test.trace", text, &mut Processes::default());
        let shown: Vec<String> = trace
            .events
            .iter()
            .map(|event| {
                let file = trace.info.files.get(event.file.0 as usize).map_or("-", String::as_str);
                let micros = (event.end.as_nanos() - event.start.as_nanos()) / 1000;
                format!("{} {} {} {file} {micros}", event.rank.0, event.op.name(), event.bytes)
            })
            .collect();
        assert_eq!(shown, expected);
        trace
    }

    #[test]
    fn notes_tell_files_from_pipes_and_terminals() {
        check(
            r#"1794703154.416197 close(33<pipe:[337112]>) = 0 <0.000134>
1794703154.416946 openat(AT_FDCWD</scratch/runs>, "out (1).dat", O_RDWR|O_CREAT, 0644) = 23</scratch/runs/out (1).dat> <0.000016>
1794703154.417008 newfstatat(23</scratch/runs/out (1).dat>, "", {st_mode=S_IFREG|0644, st_size=0, ...}, AT_EMPTY_PATH) = 0 <0.000005>
1794703154.417069 pwrite64(23</scratch/runs/out (1).dat>, "a) = 3 <0.5>\"\0"..., 4096, 0) = 4096 <0.000040>
1794703154.417100 write(1</dev/pts/0<char 136:0>>, "x", 1) = 1 <0.000005>
1794703154.417200 write(14<TCP:[127.0.0.1:5->127.0.0.1:6]>, "x", 1) = 1 <0.000005>
1794703154.417300 unlink("/tmp/a") = -1 ENOENT (No such file or directory) <0.000009>
1794703154.417400 faccessat(AT_FDCWD</scratch/runs>, "sub/b", R_OK) = 0 <0.000009>
1794703155.037658 +++ exited with 0 +++
"#,
            &[
                "0 open 0 /scratch/runs/out (1).dat 16",
                "0 stat 0 /scratch/runs/out (1).dat 5",
                "0 write 4096 /scratch/runs/out (1).dat 40",
                "0 other 0 /tmp/a 9",
                "0 stat 0 /scratch/runs/sub/b 9",
            ],
        );
    }

    #[test]
    fn without_notes_descriptors_are_followed_through_dup_fork_and_close() {
        let trace = check(
            r#"7 1.000000 execve("/bin/app", ["app", "-x", "a b"], 0x7ffe /* 24 vars */) = 0 <0.001>
7 1.100000 openat(AT_FDCWD, "/data/in", O_RDONLY) = 3 <0.000010>
7 1.150000 pipe2([4, 5], O_CLOEXEC) = 0 <0.000010>
7 1.200000 dup2(3, 9)                              = 9 <0.000010>
7 1.300000 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD) = 8 <0.000010>
8 1.400000 read(9, "abc", 100) = 3 <0.000010>
8 1.450000 write(5, "abc", 3) = 3 <0.000010>
7 1.500000 close(3) = 0 <0.000010>
7 1.600000 read(3, 0x7ffe, 100) = -1 EBADF (Bad file descriptor) <0.000010>
8 1.700000 pread64(3, "abc", 100, 0) = 7 <0.000010>
8 1.800000 read(77, "abc", 100) = 9 <0.000010>
"#,
            &[
                "0 open 0 /data/in 10",
                "1 read 3 /data/in 10",
                "0 close 0 /data/in 10",
                "1 read 7 /data/in 10",
                "1 read 9 - 10",
            ],
        );
        assert_eq!(trace.info.job.exe.as_deref(), Some("app -x a b"));
    }

    #[test]
    fn a_call_that_was_interrupted_by_others_is_put_together() {
        let trace = check(
            r#"[pid    11] 5.000000 read(3</data/a>,  <unfinished ...>
[pid    12] 5.100000 write(4</data/b>, "x", 1) = 1 <0.000100>
[pid    11] 5.200000 <... read resumed>"abc", 4096) = 3 <0.200050>
[pid    12] 5.300000 fsync(4</data/b> <unfinished ...>
[pid    11] 5.400000 <... futex resumed>) = 0 <0.1>
"#,
            &["0 write 1 /data/b 100", "1 read 3 /data/a 200050"],
        );
        let losses: Vec<&str> = trace.losses.iter().map(|loss| loss.what.as_str()).collect();
        assert_eq!(
            losses,
            [
                "line 5: a call goes on here whose beginning is missing",
                "as a whole: fsync began and its end is not in the trace"
            ]
        );
    }

    #[test]
    fn copies_inside_the_kernel_read_and_write() {
        check(
            "1.5 copy_file_range(3</a>, [0] => [8], 4</b>, NULL, 8, 0) = 8 <0.000001>\n1.6 sendfile(9<TCP:[1]>, 3</a>, NULL, 5) = 5 <0.000001>\n",
            &["0 read 8 /a 1", "0 write 8 /b 1", "0 read 5 /a 1"],
        );
    }

    #[test]
    fn the_file_names_the_task_where_the_lines_do_not() {
        let line = "1.5 write(3</a>, \"x\", 1) = 1 <0.000001>\n";
        let mut processes = Processes::default();
        let ranks: Vec<Rank> = ["ior.7641", "ior.7642", "ior.7641"]
            .iter()
            .map(|name| read_named(name, line, &mut processes).events[0].rank)
            .collect();
        assert_eq!(ranks, [Rank(0), Rank(1), Rank(0)]);
    }

    #[test]
    fn other_text_is_not_taken_for_a_trace() {
        for text in ["", "time,bandwidth\n1.5,3\n", "1.5 2.5 3.5\n", "hello world\n", "7 7 7\n"] {
            assert!(!recognises(text.as_bytes()), "{text}");
        }
        assert!(recognises(b"1794703155.086638 +++ exited with 0 +++\n"));
    }
}
