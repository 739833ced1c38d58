//! Free text, read by a pattern: what FTIO calls a custom format.
//!
//! Either the numbers stand in named arrays (`start_t_micro: [500, 10500]`), one for each quantity, or each line
//! that fits a template is a request. The pattern says which, under what names and in what units.

use std::fs::File;
use std::sync::Arc;

use iotide_trace::{Event, EventSink, FileId, Grain, Layer, Op, Rank, TraceInfo};

use crate::{
    Place,
    column::{Column, Values},
    error::Fault,
    input::Input,
    json::Json,
    losses::{Losses, Nonsense, amount, interval},
    number::parse_f64,
    rows::quoted,
    scanner::Scanner,
};

/// Where a free text has its numbers, and in what units; see `docs/formats.md`.
///
/// ```
/// use iotide_formats::{OpenOptions, PatternSpec};
/// use iotide_trace::Trace;
///
/// let pattern = PatternSpec::parse("line = \"{op} {bytes} from {start} to {end}\"\nunit_bytes = \"MB\"")?;
/// let options = OpenOptions { pattern: Some(pattern), ..OpenOptions::default() };
/// let mut trace = Trace::default();
/// options.from_read("log", &b"hello\nwrite 4 from 1.5 to 2\n"[..]).unwrap().read(&mut trace).unwrap();
/// assert_eq!(trace.events[0].bytes, 4e6);
/// # Ok::<(), iotide_formats::PatternError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PatternSpec {
    layout: Layout,
    /// The operation where the text names none.
    op: Op,
    /// Seconds in one unit of time; bytes in one of size; bytes per second in one of bandwidth.
    seconds: f64,
    bytes: f64,
    bytes_per_second: f64,
}

#[derive(Clone, Debug, PartialEq)]
enum Layout {
    /// The names of the array of each quantity.
    Arrays(Vec<(Quantity, Vec<String>)>),
    Lines(Template),
}

/// Why a pattern is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the pattern: {fault}")]
pub struct PatternError {
    /// The line, counted from 1.
    pub line: usize,
    /// Fault in it.
    pub fault: String,
}

/// Meaning of a number of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    Start,
    End,
    Duration,
    Bytes,
    Bandwidth,
    Rank,
    Op,
}

impl Quantity {
    const ALL: [(Quantity, &'static str); 7] = [
        (Quantity::Start, "start"),
        (Quantity::End, "end"),
        (Quantity::Duration, "duration"),
        (Quantity::Bytes, "bytes"),
        (Quantity::Bandwidth, "bandwidth"),
        (Quantity::Rank, "rank"),
        (Quantity::Op, "op"),
    ];

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, known)| *known == name).map(|(quantity, _)| quantity)
    }
}

impl PatternSpec {
    /// Reads a pattern: lines of `key = "value"` (a small part of TOML), `#` begins a comment.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let mut pattern = Self {
            layout: Layout::Arrays(Vec::new()),
            op: Op::Write,
            seconds: 1.0,
            bytes: 1.0,
            bytes_per_second: 1.0,
        };
        let mut arrays: Vec<(Quantity, Vec<String>)> = Vec::new();
        let mut template = None;
        let mut last_line = 1;
        for (index, line) in text.lines().enumerate() {
            let failed = |fault: String| PatternError { line: index + 1, fault };
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            last_line = index + 1;
            let (key, value) = assignment(line).map_err(|fault| failed(fault.to_owned()))?;
            let unknown = || failed(format!("{value:?} is not a unit of {key}"));
            match key {
                "line" => template = Some(Template::parse(value).map_err(failed)?),
                "unit_time" => pattern.seconds = seconds_in(value).ok_or_else(unknown)?,
                "unit_bytes" => pattern.bytes = bytes_in(value).ok_or_else(unknown)?,
                "unit_bandwidth" => {
                    let unit = value.strip_suffix("/s").and_then(bytes_in);
                    pattern.bytes_per_second = unit.ok_or_else(unknown)?;
                }
                "op" => match Op::from_name(value) {
                    Some(op) => pattern.op = op,
                    None => return Err(failed(format!("{value:?} is not an operation"))),
                },
                _ => {
                    let Some(quantity) = Quantity::from_name(key) else {
                        return Err(failed(format!("{key:?} is not a key")));
                    };
                    if arrays.iter().any(|(known, _)| *known == quantity) {
                        return Err(failed(format!("{key:?} is there twice")));
                    }
                    arrays.push((quantity, value.split('|').map(|name| name.trim().to_owned()).collect()));
                }
            }
        }
        let named: Vec<Quantity> = match &template {
            Some(template) => template.quantities().collect(),
            None => arrays.iter().map(|(quantity, _)| *quantity).collect(),
        };
        let failed = |fault: &str| Err(PatternError { line: last_line, fault: fault.to_owned() });
        let has = |quantity| named.contains(&quantity);
        if template.is_some() && !arrays.is_empty() {
            return failed("it has both a line and arrays");
        }
        if !has(Quantity::Start) || !(has(Quantity::End) || has(Quantity::Duration)) {
            return failed("it does not say where start and end (or duration) are");
        }
        if !has(Quantity::Bytes) && !has(Quantity::Bandwidth) {
            return failed("it does not say where bytes or bandwidth are");
        }
        pattern.layout = template.map_or(Layout::Arrays(arrays), Layout::Lines);
        Ok(pattern)
    }

    /// The pattern for texts that name `avg_thruput_mib`, `start_t_micro` and `end_t_micro`, as GekkoFS writes them.
    ///
    /// In JSON the times are what the names say. In plain text they are taken as milliseconds, because that is how
    /// FTIO, whose format this is, has always read them.
    pub(crate) fn built_in(is_json: bool) -> Self {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Self {
            layout: Layout::Arrays(vec![
                (Quantity::Bandwidth, names(BUILT_IN_BANDWIDTH)),
                (Quantity::Start, names(&["start_t_micro"])),
                (Quantity::End, names(&["end_t_micro"])),
            ]),
            op: Op::Write,
            seconds: if is_json { 1e-6 } else { 1e-3 },
            bytes: 1.0,
            bytes_per_second: MIB,
        }
    }

    /// The event of one request.
    fn event(&self, request: &Request) -> Result<Event, Nonsense> {
        let start_s = request.start * self.seconds;
        let end_s = match request.end {
            Some(end) => end * self.seconds,
            None => start_s + request.duration.unwrap_or(f64::NAN) * self.seconds,
        };
        let (start, end) = interval(start_s, end_s)?;
        let bytes = match request.bytes {
            Some(bytes) => amount("bytes", bytes * self.bytes)?,
            None => {
                let rate_bps = request.bandwidth.unwrap_or(f64::NAN) * self.bytes_per_second;
                amount("bandwidth", rate_bps)? * end.secs_since(start)
            }
        };
        let rank = match request.rank {
            None => Rank::ALL,
            Some(rank) if rank.fract() == 0.0 && (-1.0..=f64::from(i32::MAX)).contains(&rank) => {
                Rank(rank as i32)
            }
            Some(rank) => return Err(Nonsense::new("not a rank", format!("{rank} is not a rank"))),
        };
        let op = request.op.unwrap_or(self.op);
        let (layer, grain) = (Layer::Unknown, Grain::Call);
        Ok(Event { op, layer, grain, rank, file: FileId::NONE, start, end, bytes, calls: 1 })
    }
}

/// The names under which the built-in pattern finds bandwidth.
pub(crate) const BUILT_IN_BANDWIDTH: &[&str] = &["avg_thruput_mib", "avg_throughput_mib"];

const MIB: f64 = (1u64 << 20) as f64;

pub(crate) fn read(
    input: Input,
    pattern: Option<PatternSpec>,
    sink: &mut dyn EventSink,
) -> Result<TraceInfo, Fault> {
    let is_json = input.head().trim_ascii_start().starts_with(b"{");
    let pattern = pattern.unwrap_or_else(|| PatternSpec::built_in(is_json));
    let mut losses = Losses::default();
    match &pattern.layout {
        Layout::Arrays(names) => read_arrays(input, &pattern, names, sink, &mut losses)?,
        Layout::Lines(template) => read_lines(input, &pattern, template, sink, &mut losses)?,
    }
    losses.report(sink);
    Ok(TraceInfo::default())
}

/// One request, in the text's own units.
#[derive(Clone, Copy, Debug, Default)]
struct Request {
    start: f64,
    end: Option<f64>,
    duration: Option<f64>,
    bytes: Option<f64>,
    bandwidth: Option<f64>,
    rank: Option<f64>,
    op: Option<Op>,
}

impl Request {
    fn set(&mut self, quantity: Quantity, value: f64) {
        match quantity {
            Quantity::Start => self.start = value,
            Quantity::End => self.end = Some(value),
            Quantity::Duration => self.duration = Some(value),
            Quantity::Bytes => self.bytes = Some(value),
            Quantity::Bandwidth => self.bandwidth = Some(value),
            Quantity::Rank => self.rank = Some(value),
            Quantity::Op => {}
        }
    }
}

fn read_lines(
    input: Input,
    pattern: &PatternSpec,
    template: &Template,
    sink: &mut dyn EventSink,
    losses: &mut Losses,
) -> Result<(), Fault> {
    /// Longer lines are looked at up to here.
    const LONGEST_LINE: usize = 64 << 10;
    let mut scanner = Scanner::new(input.into_read());
    let mut n_line = 0;
    let mut n_fitting = 0u64;
    while let Some((line, len)) = scanner.line(LONGEST_LINE)? {
        n_line += 1;
        // Lines that do not fit are what else is in a log; they are no loss.
        if let Some(request) = template.request(line) {
            n_fitting += 1;
            match request.and_then(|request| pattern.event(&request)) {
                Ok(event) if sink.event(event).is_break() => return Ok(()),
                Ok(_) => {}
                Err(nonsense) => losses.record(Place::Line(n_line), nonsense),
            }
        }
        scanner.advance(len);
    }
    if n_fitting == 0 {
        return Err(Fault::at(Place::Whole, "no line fits the pattern"));
    }
    Ok(())
}

/// A line with holes: literal text, and fields that end where the text after them begins.
#[derive(Clone, Debug, PartialEq)]
struct Template {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Literal(Vec<u8>),
    /// Any run of spaces and tabs.
    Space,
    /// A quantity, or text to pass over.
    Field(Option<Quantity>),
}

impl Template {
    fn parse(text: &str) -> Result<Self, String> {
        let mut pieces = Vec::new();
        let mut rest = text.trim();
        while let Some(first) = rest.chars().next() {
            if first == '{' {
                let end = rest.find('}').ok_or("a { without }")?;
                let name = &rest[1..end];
                let quantity = match name {
                    "_" => None,
                    _ => Some(Quantity::from_name(name).ok_or_else(|| format!("{{{name}}} is not a field"))?),
                };
                if matches!(pieces.last(), Some(Piece::Field(_))) {
                    return Err("two fields with nothing between them".to_owned());
                }
                pieces.push(Piece::Field(quantity));
                rest = &rest[end + 1..];
            } else if first.is_whitespace() {
                pieces.push(Piece::Space);
                rest = rest.trim_start();
            } else {
                let end = rest.find(|c: char| c == '{' || c.is_whitespace()).unwrap_or(rest.len());
                pieces.push(Piece::Literal(rest.as_bytes()[..end].to_vec()));
                rest = &rest[end..];
            }
        }
        Ok(Self { pieces })
    }

    fn quantities(&self) -> impl Iterator<Item = Quantity> + '_ {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Field(quantity) => *quantity,
            _ => None,
        })
    }

    /// The request that a line states; `None` if the line does not fit, an error if it fits and makes no sense.
    fn request(&self, line: &[u8]) -> Option<Result<Request, Nonsense>> {
        let mut request = Request::default();
        let mut fault = None;
        let mut rest = line.trim_ascii();
        for (index, piece) in self.pieces.iter().enumerate() {
            match piece {
                Piece::Literal(literal) => rest = rest.strip_prefix(literal.as_slice())?,
                Piece::Space => {
                    let trimmed = rest.trim_ascii_start();
                    if trimmed.len() == rest.len() {
                        return None;
                    }
                    rest = trimmed;
                }
                Piece::Field(quantity) => {
                    let len = match self.pieces.get(index + 1) {
                        None => rest.len(),
                        Some(Piece::Literal(literal)) => memchr::memmem::find(rest, literal)?,
                        Some(_) => rest.iter().position(u8::is_ascii_whitespace)?,
                    };
                    let (value, after) = rest.split_at(len);
                    rest = after;
                    let set = match quantity {
                        None => continue,
                        Some(quantity) => set_field(&mut request, *quantity, value.trim_ascii()),
                    };
                    if let Err(nonsense) = set {
                        fault.get_or_insert(nonsense);
                    }
                }
            }
        }
        let fits = rest.is_empty() || matches!(self.pieces.last(), Some(Piece::Literal(_)));
        fits.then_some(fault.map_or(Ok(request), Err))
    }
}

fn set_field(request: &mut Request, quantity: Quantity, value: &[u8]) -> Result<(), Nonsense> {
    if quantity == Quantity::Op {
        let name = String::from_utf8_lossy(value).to_ascii_lowercase();
        let unknown = || Nonsense::new("unknown op", format!("{} is not an operation", quoted(value)));
        request.op = Some(Op::from_name(&name).ok_or_else(unknown)?);
        return Ok(());
    }
    let not_a_number = || Nonsense::new("not a number", format!("{} is not a number", quoted(value)));
    request.set(quantity, parse_f64(value).ok_or_else(not_a_number)?);
    Ok(())
}

fn read_arrays(
    input: Input,
    pattern: &PatternSpec,
    names: &[(Quantity, Vec<String>)],
    sink: &mut dyn EventSink,
    losses: &mut Losses,
) -> Result<(), Fault> {
    let file = input.file().cloned();
    let mut json = Json::new(Scanner::new(input.into_read()));
    let mut found: Vec<Option<Column>> = names.iter().map(|_| None).collect();
    let mut n_blocks = 0;
    while let Some(name) = next_array(&mut json)? {
        let Some(index) = names.iter().position(|(_, names)| names.contains(&name)) else { continue };
        let place = json.place();
        let taken = take_array(&mut json, file.as_ref());
        let (column, damage) = match taken {
            (column, Ok(())) => (column, None),
            (column, Err(Fault::At(place, fault))) => (column, Some((place, fault))),
            (_, Err(fault)) => return Err(fault),
        };
        if found[index].replace(column).is_some() {
            let fault = format!("a second {name} before all arrays of the first were there");
            losses.unknown_size(place, Nonsense::new("array twice", fault));
        }
        if let Some((place, fault)) = damage {
            losses.unknown_size(place, Nonsense::new("damaged array", fault));
        }
        if found.iter().all(Option::is_some) {
            n_blocks += 1;
            let columns = found.iter_mut().filter_map(Option::take).map(Column::into_values);
            let columns = names.iter().map(|(quantity, _)| *quantity).zip(columns).collect();
            if emit(columns, pattern, place, sink, losses)? {
                return Ok(());
            }
        }
    }
    let missing: Vec<&str> = names
        .iter()
        .zip(&found)
        .filter(|(_, column)| column.is_none())
        .filter_map(|((_, names), _)| names.first().map(String::as_str))
        .collect();
    if n_blocks == 0 {
        return Err(Fault::at(Place::Whole, format!("there is no array {}", missing.join(", "))));
    }
    if missing.len() < names.len() {
        let fault = format!("the last arrays lack {}", missing.join(", "));
        losses.unknown_size(json.place(), Nonsense::new("array missing", fault));
    }
    Ok(())
}

fn take_array(json: &mut Json, file: Option<&Arc<File>>) -> (Column, Result<(), Fault>) {
    let mut column = Column::default();
    let taken = column.take(json, file);
    (column, taken)
}

/// Pushes the events of arrays that belong together; `true` if the sink wants no more.
fn emit(
    mut columns: Vec<(Quantity, Values)>,
    pattern: &PatternSpec,
    place: Place,
    sink: &mut dyn EventSink,
    losses: &mut Losses,
) -> Result<bool, Fault> {
    let mut n_ragged = 0;
    loop {
        let mut request = Request::default();
        let mut n_values = 0;
        for (quantity, values) in &mut columns {
            if let Some(value) = values.next()? {
                request.set(*quantity, value);
                n_values += 1;
            }
        }
        if n_values == 0 {
            break;
        }
        if n_values < columns.len() {
            n_ragged += 1;
            continue;
        }
        match pattern.event(&request) {
            Ok(event) if sink.event(event).is_break() => return Ok(true),
            Ok(_) => {}
            Err(nonsense) => losses.record(place, nonsense),
        }
    }
    if n_ragged > 0 {
        let fault = format!("the arrays differ in length, {n_ragged} values have no partners");
        losses.records(n_ragged, place, Nonsense::new("arrays differ in length", fault));
    }
    Ok(false)
}

/// Finds the next `name: [`, `name = [` or `"name": [` and stops before the bracket.
fn next_array(json: &mut Json) -> Result<Option<String>, Fault> {
    /// Names are no longer than this.
    const LONGEST_NAME: usize = 256;
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    // What stands before the next bracket, as far as a name needs it.
    let mut before: Vec<u8> = Vec::new();
    loop {
        let text = json.scanner.want(1)?;
        if text.is_empty() {
            return Ok(None);
        }
        let bracket = memchr::memchr(b'[', text);
        let passed = &text[..bracket.unwrap_or(text.len())];
        if passed.len() >= 2 * LONGEST_NAME {
            before.clear();
        }
        before.extend_from_slice(&passed[passed.len().saturating_sub(2 * LONGEST_NAME)..]);
        before.drain(..before.len().saturating_sub(2 * LONGEST_NAME));
        let n_passed = passed.len();
        json.scanner.advance(n_passed);
        if bracket.is_none() {
            continue;
        }
        let name = before.trim_ascii_end();
        if let Some(name) = name.strip_suffix(b":").or_else(|| name.strip_suffix(b"=")) {
            let name = name.trim_ascii_end();
            let name = name.strip_suffix(b"\"").unwrap_or(name);
            let n_name = name.iter().rev().take_while(|byte| is_name(byte)).count();
            if n_name > 0 {
                let name = String::from_utf8_lossy(&name[name.len() - n_name..]).into_owned();
                // A caller that does not want it comes back here, and finds a bracket with no name before it.
                return Ok(Some(name));
            }
        }
        json.scanner.advance(1);
        before.clear();
    }
}

/// Takes `key = "value"` apart.
fn assignment(line: &str) -> Result<(&str, &str), &'static str> {
    let (key, value) = line.split_once('=').ok_or("a line is key = \"value\"")?;
    let value = value.trim();
    let quote = value.chars().next().filter(|c| matches!(c, '"' | '\'')).ok_or("a value stands in quotes")?;
    let (value, behind) = value[1..].split_once(quote).ok_or("a quote that does not end")?;
    let behind = behind.trim();
    if behind.is_empty() || behind.starts_with('#') {
        Ok((key.trim(), value))
    } else {
        Err("there is more behind the value")
    }
}

fn seconds_in(unit: &str) -> Option<f64> {
    Some(match unit {
        "s" => 1.0,
        "ms" => 1e-3,
        "us" | "µs" => 1e-6,
        "ns" => 1e-9,
        "min" => 60.0,
        "h" => 3600.0,
        _ => return None,
    })
}

fn bytes_in(unit: &str) -> Option<f64> {
    Some(match unit {
        "B" => 1.0,
        "kB" | "KB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "TB" => 1e12,
        "KiB" => 1024.0,
        "MiB" => MIB,
        "GiB" => MIB * 1024.0,
        "TiB" => MIB * MIB,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenOptions;
    use crate::testing::{check, check_with};

    fn by(pattern: &str) -> OpenOptions {
        OpenOptions { pattern: Some(PatternSpec::parse(pattern).unwrap()), ..OpenOptions::default() }
    }

    #[test]
    fn the_arrays_of_gekkofs_are_known() {
        check(
            "avg_thruput_mib: [0.0,2]\nstart_t_micro: [0500,1000]\nend_t_micro: [ 1500, 2000 ]\nhostname: \"X\"\n",
            "r-1 write 0.5..1.5 0B
             r-1 write 1..2 2097152B",
        );
        check(
            "{\n\"avg_throughput_mib\": [1],\n\"end_t_micro\": [2000000],\n\"other\": [[1], 2],\n\"start_t_micro\": [1000000]\n}",
            "r-1 write 1..2 1048576B",
        );
    }

    #[test]
    fn arrays_may_come_again_and_again() {
        check_with(
            &by("start = \"t0\"\nduration = \"dt\"\nbytes = \"n|size\"\nrank = \"rank\"\nop = \"read\"\n"),
            "t0 = [1] dt = [2] n = [3] rank = [0]\nt0 = [10, 11]\ndt = [1, 1]\nsize = [4, 5]\nrank = [1, 2]\nt0 = [7]",
            "r0 read 1..3 3B
             r1 read 10..11 4B
             r2 read 11..12 5B
             loss: byte 99: the last arrays lack dt, n, rank",
        );
    }

    #[test]
    fn arrays_that_are_missing_are_named() {
        check(
            "avg_thruput_mib: [1]\nstart_t_micro: [0]\n",
            "error: input, as a whole: there is no array end_t_micro",
        );
    }

    #[test]
    fn lines_that_fit_the_template_are_requests() {
        check_with(
            &by(
                "# a log\nline = \"[{_}] rank {rank}: {op} of {bytes} in {start}..{end}\"  # remark\nunit_time = 'ms'\nunit_bytes = 'KiB'",
            ),
            "starting up\n[info] rank 3: WRITE of 2   in 100..350\n[info] rank 3: done\n  [x] rank 1:  read of 1 in 0..1\n\
             [info] rank 3: write of x in 1..2\n[info] rank 3: write of 1 in 2..1\n",
            "r3 write 0.1..0.35 2048B
             r1 read 0..0.001 1024B
             loss of 1: line 5: \"x\" is not a number
             loss of 1: line 6: end 0.001 is before start 0.002",
        );
    }

    #[test]
    fn a_pattern_that_fits_nothing_is_told() {
        check_with(
            &by("line = \"{start} {end} {bytes}\""),
            "hello\nworld\n",
            "error: input, as a whole: no line fits the pattern",
        );
    }

    #[test]
    fn a_pattern_that_is_none_says_why() {
        for (pattern, fault) in [
            ("start = 5", "line 1 of the pattern: a value stands in quotes"),
            ("\nbegin = \"x\"", "line 2 of the pattern: \"begin\" is not a key"),
            (
                "start = \"a\"\nend = \"b\"",
                "line 2 of the pattern: it does not say where bytes or bandwidth are",
            ),
            ("bytes = \"a\"", "line 1 of the pattern: it does not say where start and end (or duration) are"),
            ("unit_time = \"fortnight\"", "line 1 of the pattern: \"fortnight\" is not a unit of unit_time"),
            ("line = \"{start}{end}\"", "line 1 of the pattern: two fields with nothing between them"),
            ("line = \"{speed}\"", "line 1 of the pattern: {speed} is not a field"),
            ("start = \"a\"\nstart = \"b\"", "line 2 of the pattern: \"start\" is there twice"),
        ] {
            assert_eq!(PatternSpec::parse(pattern).unwrap_err().to_string(), fault);
        }
    }
}
