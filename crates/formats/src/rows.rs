//! Tables row by row, written with separators or as JSON Lines.

use std::ops::Range;

use iotide_table::{Cell, Cells, Dialect, OpenQuote, end_of_quoted_row, push_unescaped};
use iotide_trace::{EventSink, JobInfo, Loss, Mount, Timestamp};

use crate::{
    Place,
    error::Fault,
    input::Input,
    json,
    losses::{Losses, Nonsense, amount},
    number::{parse_f64, parse_nanos},
    scanner::Scanner,
};

/// How a table is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    /// A header line, then values separated by commas, semicolons or tabs, whichever the header has most of; RFC 4180 with `\n` or `\r\n`, `#` begins a
    /// comment line.
    Csv,
    /// The same, and of two columns of one name the first counts: what a program writes.
    Printed,
    /// The same with bars and without quotes; below the header, `#` begins nothing.
    Bars,
    /// One JSON object a line.
    JsonLines,
}

/// The rows of a table, of which some columns are wanted.
///
/// One row is in memory at a time. Lines that cannot be taken apart are losses.
pub(crate) struct Rows {
    scanner: Scanner,
    syntax: Syntax,
    columns: &'static [&'static str],
    /// Those of them that are times, and may be so in a unit that their name ends with: `start_ns`.
    times: &'static [usize],
    /// The unit of each wanted column, as the power of ten of which a second has so many: 9 for nanoseconds.
    units: Vec<u8>,
    /// Separator between values, unless it is JSON.
    dialect: Dialect,
    /// Unless it is JSON: which wanted column each column of the file is.
    header: Vec<Option<usize>>,
    header_line: u64,
    line: u64,
    /// The line, and behind it what had to be unescaped.
    text: Vec<u8>,
    /// Where in `text` each wanted value lies; behind them, those of the job's facts.
    values: Vec<Option<Range<usize>>>,
    /// Facts about the job from the table so far.
    pub(crate) job: JobInfo,
    /// Losses that the table itself reports; see [`MOST_STATED_LOSSES`].
    stated_losses: Vec<Loss>,
}

/// Bytes that may separate values; of those that a header has equally often, the last.
pub(crate) const SEPARATORS: &[u8] = b"\t;,";

/// How the name of a time ends that has its unit in it, and the power of ten of which a second has so many.
pub(crate) const UNITS: [(&str, u8); 4] = [("_s", 0), ("_ms", 3), ("_us", 6), ("_ns", 9)];

/// The name of a time and the unit that it ends with, as in `start_ns`.
pub(crate) fn split_unit(name: &[u8]) -> Option<(&[u8], u8)> {
    UNITS.into_iter().find_map(|(suffix, unit)| Some((name.strip_suffix(suffix.as_bytes())?, unit)))
}

/// Which of these columns a name is.
fn column_named(columns: &[&str], name: &[u8]) -> Option<usize> {
    columns.iter().position(|column| column.as_bytes() == name)
}

/// Which of these columns, if it is one of those that are times, a name with a unit is, and the unit.
fn time_named(columns: &[&str], times: &[usize], name: &[u8]) -> Option<(usize, u8)> {
    let (name, unit) = split_unit(name)?;
    column_named(columns, name).filter(|column| times.contains(column)).map(|column| (column, unit))
}

/// A row is no longer than this; a longer one is a loss.
const LONGEST_ROW: usize = 1 << 20;

/// The names under which tables state facts about their job.
const JOB_FACTS: [&str; 10] = [
    "runtime_s",
    "nprocs",
    "has_ranks",
    "nprocs_told",
    "user",
    "exe",
    "jobid",
    "start_time",
    "nodes",
    "mounts",
];

/// The names under which a line of JSON states a loss.
const LOSS_FACTS: [&str; 3] = ["loss", "records", "since"];

/// A table may state this many losses; a table of losses alone must not fill the memory.
const MOST_STATED_LOSSES: usize = 1000;

impl Rows {
    /// Begins to read a table, up to its header if it has one.
    pub(crate) fn open(
        input: Input,
        syntax: Syntax,
        columns: &'static [&'static str],
        times: &'static [usize],
        losses: &mut Losses,
    ) -> Result<Self, Fault> {
        let mut rows = Self {
            scanner: Scanner::new(input.into_read()),
            syntax,
            columns,
            times,
            units: vec![0; columns.len()],
            dialect: if syntax == Syntax::Bars { Dialect::BARS } else { Dialect::CSV },
            header: Vec::new(),
            header_line: 0,
            line: 0,
            text: Vec::new(),
            values: vec![None; columns.len() + JOB_FACTS.len() + LOSS_FACTS.len()],
            job: JobInfo::default(),
            stated_losses: Vec::new(),
        };
        rows.scanner.skip_byte_order_mark()?;
        if syntax != Syntax::JsonLines {
            rows.read_header(losses)?;
        }
        Ok(rows)
    }

    /// Whether the table is CSV.
    pub(crate) fn is_csv(&self) -> bool {
        self.syntax == Syntax::Csv
    }

    /// Whether the table has that column. JSON Lines may have any: each row tells for itself.
    pub(crate) fn has(&self, column: usize) -> bool {
        self.syntax == Syntax::JsonLines || self.header.contains(&Some(column))
    }

    /// Whether every row must have a value in that column: its header says so.
    pub(crate) fn has_everywhere(&self, column: usize) -> bool {
        self.header.contains(&Some(column))
    }

    /// Fails if one of these columns is missing.
    pub(crate) fn require(&self, columns: impl IntoIterator<Item = usize>) -> Result<(), Fault> {
        let missing: Vec<_> = columns
            .into_iter()
            .filter(|&column| !self.has(column))
            .map(|column| self.columns[column])
            .collect();
        if missing.is_empty() {
            return Ok(());
        }
        let fault = format!("the header has no column {}", missing.join(", "));
        Err(Fault::at(self.header_place(), fault))
    }

    /// Moves to the next row; `false` after the last.
    pub(crate) fn advance(&mut self, losses: &mut Losses) -> Result<bool, Fault> {
        while self.next_line(losses)? {
            let taken_apart = match self.syntax {
                Syntax::JsonLines => self.split_json(losses),
                _ => self.split_row()?,
            };
            match taken_apart {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(nonsense) => losses.record(self.place(), nonsense),
            }
        }
        Ok(false)
    }

    /// CSV with commas and seconds: which wanted column each column is, and the text ahead, at the beginning of a line. Whoever can tell its rows
    /// apart more cheaply than [`Rows::advance`] does so, and says by [`Rows::pass`] how far that went.
    pub(crate) fn ahead(&self) -> Option<(&[Option<usize>], &[u8])> {
        let is_plain = self.syntax == Syntax::Csv
            && self.dialect == Dialect::CSV
            && self.units.iter().all(|unit| *unit == 0);
        is_plain.then(|| (self.header.as_slice(), self.scanner.buffered()))
    }

    /// Moves on behind lines that were taken from [`Rows::ahead`].
    pub(crate) fn pass(&mut self, n_bytes: usize, n_lines: u64) {
        self.scanner.advance(n_bytes);
        self.line += n_lines;
    }

    /// The line of the header; the first where there is none.
    pub(crate) fn header_place(&self) -> Place {
        Place::Line(self.header_line.max(1))
    }

    /// The line of the current row.
    pub(crate) fn place(&self) -> Place {
        Place::Line(self.line)
    }

    /// The value in a wanted column; `None` if the row has none or it is empty.
    pub(crate) fn value(&self, column: usize) -> Option<&[u8]> {
        self.values[column].clone().map(|range| &self.text[range]).filter(|value| !value.is_empty())
    }

    /// The number in a wanted column, NaN if it says so.
    pub(crate) fn number(&self, column: usize) -> Result<f64, Nonsense> {
        let name = self.columns[column];
        let Some(text) = self.value(column) else {
            return Err(Nonsense::new("no value", format!("no value for {name}")));
        };
        let with_point =
            |text| parse_f64(self.dialect.with_point(std::str::from_utf8(text).ok()?)?.as_bytes());
        let number = parse_f64(text).or_else(|| with_point(text)).ok_or_else(|| {
            Nonsense::new("not a number", format!("{name} is {}, not a number", quoted(text)))
        })?;
        Ok(number / 10f64.powi(self.units[column].into()))
    }

    /// The time in a wanted column as nanoseconds, where it is written as plain digits.
    pub(crate) fn nanos(&self, column: usize) -> Option<i64> {
        let text = self.value(column)?;
        match self.units[column] {
            0 => parse_nanos(text),
            // Nanoseconds since 1970 are more than a floating-point number holds.
            unit => {
                let whole: i64 = std::str::from_utf8(text).ok()?.parse().ok()?;
                let nanos = whole.checked_mul(10i64.pow(u32::from(9 - unit)));
                nanos.filter(|nanos| (-(i64::MAX / 2)..=i64::MAX / 2).contains(nanos))
            }
        }
    }

    /// Fetches the next line that is neither blank nor a comment into `text`.
    fn next_line(&mut self, losses: &mut Losses) -> Result<bool, Fault> {
        loop {
            let Some((line, len)) = self.scanner.line(LONGEST_ROW)? else { return Ok(false) };
            self.line += 1;
            if line.len() >= LONGEST_ROW {
                self.skip_rest_of_line()?;
                let nonsense = Nonsense::new("long line", format!("longer than {LONGEST_ROW} bytes"));
                losses.record(self.place(), nonsense);
                continue;
            }
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            self.text.clear();
            self.text.extend_from_slice(line);
            self.scanner.advance(len);
            let line = self.text.trim_ascii();
            let has_comments = self.syntax != Syntax::Bars || self.header.is_empty();
            if let Some(comment) = line.strip_prefix(b"#").filter(|_| has_comments) {
                if let Some(equals) = memchr::memchr(b'=', comment) {
                    let (key, value) = (comment[..equals].trim_ascii(), comment[equals + 1..].trim_ascii());
                    if key == b"loss" {
                        let loss = stated_loss(value);
                        self.state(loss, losses);
                    } else if let Err(nonsense) = set_job_fact(&mut self.job, key, value) {
                        losses.record(Place::Line(self.line), nonsense);
                    }
                }
            } else if !line.is_empty() {
                return Ok(true);
            }
        }
    }

    fn skip_rest_of_line(&mut self) -> Result<(), Fault> {
        loop {
            let text = self.scanner.want(1)?;
            if text.is_empty() {
                return Ok(());
            }
            match memchr::memchr(b'\n', text) {
                Some(newline) => {
                    self.scanner.advance(newline + 1);
                    return Ok(());
                }
                None => {
                    let len = text.len();
                    self.scanner.advance(len);
                }
            }
        }
    }

    fn read_header(&mut self, losses: &mut Losses) -> Result<(), Fault> {
        if !self.next_line(losses)? {
            return Err(Fault::at(Place::Line(self.line.max(1)), "there is no header line"));
        }
        self.header_line = self.line;
        if self.syntax != Syntax::Bars {
            self.dialect = Dialect::of_header(&self.text, SEPARATORS);
        }
        let place = Place::Line(self.header_line);
        let fault = |fault: String| Fault::at(place, fault);
        let mut cells = Cells::new(self.dialect);
        let mut names = Vec::new();
        while let Some(cell) =
            cells.next_in(&self.text).map_err(|OpenQuote| fault("a quote that does not end".into()))?
        {
            names.push(self.text[cell.range].to_ascii_lowercase());
        }
        self.header = vec![None; names.len()];
        for (i, name) in names.iter().enumerate() {
            let Some(column) = column_named(self.columns, name) else { continue };
            if !self.header.contains(&Some(column)) {
                self.header[i] = Some(column);
            } else if self.syntax == Syntax::Csv {
                return Err(fault(format!("the header has two columns {}", quoted(name))));
            }
            // Of two columns that a program writes the first is as good as the other.
        }
        // The same time twice, plainly and in another unit: the plain one.
        for (i, name) in names.iter().enumerate() {
            if let Some((column, unit)) = time_named(self.columns, self.times, name)
                && !self.header.contains(&Some(column))
            {
                (self.header[i], self.units[column]) = (Some(column), unit);
            }
        }
        Ok(())
    }

    fn split_row(&mut self) -> Result<Result<bool, Nonsense>, Fault> {
        // A quoted field may hold line ends: then the row goes on in lines that were not fetched yet.
        for _ in 0..MOST_LINES_OF_A_ROW {
            let record_len = self.text.len();
            match self.split_record() {
                Ok(row) => return Ok(row),
                Err(OpenQuote) => self.text.truncate(record_len),
            }
            let Some(end) = self.end_of_quoted_row()? else { break };
            let ahead = self.scanner.buffered();
            self.line += memchr::memchr_iter(b'\n', &ahead[..end]).count() as u64;
            let rest = &ahead[..end];
            let rest = rest.strip_suffix(b"\n").unwrap_or(rest);
            self.text.push(b'\n');
            self.text.extend_from_slice(rest.strip_suffix(b"\r").unwrap_or(rest));
            self.scanner.advance(end);
        }
        Ok(Err(Nonsense::new("quote without end", "a quote that does not end")))
    }

    /// Returns how far ahead the row reaches whose quoted field goes on there; `None` if it does not end within bounds.
    fn end_of_quoted_row(&mut self) -> Result<Option<usize>, Fault> {
        loop {
            let ahead = self.scanner.buffered();
            let (n_ahead, ahead) = (ahead.len(), &ahead[..ahead.len().min(LONGEST_QUOTED_ROW)]);
            let is_all = self.scanner.is_drained() || n_ahead >= LONGEST_QUOTED_ROW;
            match end_of_quoted_row(ahead) {
                Some(end) if end < ahead.len() || is_all || ahead.ends_with(b"\n") => return Ok(Some(end)),
                None if is_all => return Ok(None),
                _ => {
                    self.scanner.want_more(LONGEST_QUOTED_ROW)?;
                }
            }
        }
    }

    fn split_record(&mut self) -> Result<Result<bool, Nonsense>, OpenQuote> {
        self.values.fill(None);
        let record_len = self.text.len();
        let mut cells = Cells::new(self.dialect);
        let mut n_fields = 0;
        while let Some(Cell { mut range, is_escaped }) = cells.next_in(&self.text[..record_len])? {
            if let Some(Some(column)) = self.header.get(n_fields) {
                if is_escaped {
                    range = push_unescaped(&mut self.text, range);
                }
                self.values[*column] = Some(range);
            }
            n_fields += 1;
        }
        if n_fields == self.header.len() {
            return Ok(Ok(true));
        }
        let fault = format!("{n_fields} fields where the header has {}", self.header.len());
        Ok(Err(Nonsense::new("wrong number of fields", fault)))
    }

    /// `Ok(false)`: an object that states facts about the job, or a loss, only.
    fn split_json(&mut self, losses: &mut Losses) -> Result<bool, Nonsense> {
        self.values.fill(None);
        let columns = self.columns;
        let (times, units) = (self.times, &mut self.units);
        let index_of = |key: &[u8]| {
            let plain = column_named(columns, key).map(|column| (column, 0));
            if let Some((column, unit)) = plain.or_else(|| time_named(columns, times, key)) {
                units[column] = unit;
                return Some(column);
            }
            let fact = JOB_FACTS.iter().chain(&LOSS_FACTS).position(|name| name.as_bytes() == key);
            fact.map(|fact| columns.len() + fact)
        };
        split_object(&mut self.text, &mut self.values, index_of)
            .map_err(|fault| Nonsense::new("not a JSON object", format!("not a JSON object: {fault}")))?;
        for (fact, name) in JOB_FACTS.iter().enumerate() {
            if let Some(range) = self.values[columns.len() + fact].clone() {
                set_job_fact(&mut self.job, name.as_bytes(), &self.text[range])?;
            }
        }
        let (row, facts) = self.values.split_at(columns.len());
        let is_row = row.iter().any(Option::is_some) || facts.iter().all(Option::is_none);
        let [what, records, since] =
            [0, 1, 2].map(|fact| self.values[columns.len() + JOB_FACTS.len() + fact].clone());
        if let (false, Some(what)) = (is_row, what) {
            let text = |range: Option<Range<usize>>| range.map(|range| &self.text[range]);
            let loss = loss_of(&self.text[what], text(records), text(since));
            self.state(loss, losses);
        }
        Ok(is_row)
    }

    fn state(&mut self, loss: Loss, losses: &mut Losses) {
        if self.stated_losses.len() < MOST_STATED_LOSSES {
            self.stated_losses.push(loss);
        } else {
            let fault = format!("more than {MOST_STATED_LOSSES} losses are stated");
            losses.unknown_size(self.place(), Nonsense::new("too many losses", fault));
        }
    }

    /// Hands on what the table says is missing, and then what was found wrong while reading it.
    pub(crate) fn report(&mut self, losses: Losses, sink: &mut dyn EventSink) {
        for loss in self.stated_losses.drain(..) {
            sink.loss(loss);
        }
        losses.report(sink);
    }
}

/// A row whose quoted fields hold line ends is no longer than this.
const LONGEST_QUOTED_ROW: usize = 16 << 10;

/// … and its quoted fields that hold line ends are no more than this.
const MOST_LINES_OF_A_ROW: usize = 8;

/// A text from outside, fit for a message.
pub(crate) fn quoted(text: &[u8]) -> String {
    let shown = &text[..text.len().min(40)];
    let more = if shown.len() < text.len() { "…" } else { "" };
    format!("\"{}{more}\"", String::from_utf8_lossy(shown).escape_debug())
}

/// The mounted file systems as one fact: `lustre /scratch; ext4 /`. A name that would be read as two is left out.
pub(crate) fn mounts_of(job: &JobInfo) -> Option<String> {
    let told: Vec<String> = (job.mounts.iter())
        .filter(|Mount { kind, path }| !kind.contains(' ') && !kind.contains(';') && !path.contains("; "))
        .map(|Mount { kind, path }| format!("{kind} {path}"))
        .collect();
    (!told.is_empty()).then(|| told.join("; "))
}

fn set_job_fact(job: &mut JobInfo, key: &[u8], value: &[u8]) -> Result<(), Nonsense> {
    let text = || Some(String::from_utf8_lossy(value).into_owned());
    let number = |what: &str| {
        let number = parse_f64(value).unwrap_or(f64::NAN);
        amount(what, number)
            .map_err(|_| Nonsense::new("not a fact", format!("{what} is {}, not a number", quoted(value))))
    };
    match key {
        b"runtime_s" => job.run_time_s = Some(number("runtime_s")?),
        b"nprocs" => job.n_procs = Some(number("nprocs")? as u64),
        b"has_ranks" => job.has_ranks = Some(number("has_ranks")? != 0.0),
        b"nprocs_told" => job.n_told = Some(number("nprocs_told")? as u64),
        b"user" => job.user = text(),
        b"exe" => job.exe = text(),
        b"jobid" => job.job_id = text(),
        b"start_time" => job.start_time_unix_s = Some(number("start_time")?),
        b"nodes" => job.n_nodes = Some(number("nodes")? as u64),
        b"mounts" => {
            let text = String::from_utf8_lossy(value);
            let mounts = text.split("; ").filter_map(|mount| mount.split_once(' '));
            job.mounts =
                mounts.map(|(kind, path)| Mount { kind: kind.to_owned(), path: path.to_owned() }).collect();
        }
        _ => {}
    }
    Ok(())
}

/// Stands in place of a number of records where the source was cut.
const CUT: &[u8] = b"cut";

/// The loss that a comment `loss=records,since,what` states. What a person wrote without numbers is taken as it is.
fn stated_loss(value: &[u8]) -> Loss {
    let mut parts = value.splitn(3, |byte| *byte == b',');
    if let (Some(records), Some(since), Some(what)) = (parts.next(), parts.next(), parts.next())
        && [records, since]
            .iter()
            .all(|number| number.is_empty() || parse_f64(number).is_some() || **number == *CUT)
    {
        return loss_of(what, Some(records), Some(since));
    }
    loss_of(value, None, None)
}

fn loss_of(what: &[u8], records: Option<&[u8]>, since: Option<&[u8]>) -> Loss {
    let cut = records == Some(CUT);
    let records = records.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
    let since = since.and_then(parse_f64).and_then(Timestamp::from_secs_since_start);
    // A loss is told in words, also if the table has none for it.
    let what = if what.is_empty() { b"something that the table does not name" } else { what };
    Loss { what: String::from_utf8_lossy(what).into_owned(), records, since, cut }
}

/// Notes where the wanted members of a JSON object on one line lie. Values that are no scalars are passed over.
fn split_object(
    text: &mut Vec<u8>,
    values: &mut [Option<Range<usize>>],
    mut index_of: impl FnMut(&[u8]) -> Option<usize>,
) -> Result<(), &'static str> {
    let mut at = skip_space(text, 0);
    if text.get(at) != Some(&b'{') {
        return Err("it does not begin with {");
    }
    let len = text.len();
    at = skip_space(text, at + 1);
    if text.get(at) == Some(&b'}') {
        return Ok(());
    }
    loop {
        let key = json_string(text, len, &mut at)?;
        let index = index_of(&text[key]);
        at = skip_space(text, at);
        if at >= len || text[at] != b':' {
            return Err("a key without a colon");
        }
        at = skip_space(text, at + 1);
        let value = json_value(text, len, &mut at)?;
        if let Some(index) = index {
            values[index] = value;
        }
        at = skip_space(text, at);
        match text[..len].get(at) {
            Some(b',') => at = skip_space(text, at + 1),
            Some(b'}') => return Ok(()),
            Some(_) => return Err("a value without a comma behind it"),
            None => return Err("it does not end"),
        }
    }
}

fn skip_space(text: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\r' | b'\n') = text.get(at) {
        at += 1;
    }
    at
}

/// Returns where the scalar at `at` lies (a string's content unescaped); `None` for `null`, arrays and objects.
fn json_value(text: &mut Vec<u8>, len: usize, at: &mut usize) -> Result<Option<Range<usize>>, &'static str> {
    match text[..len].get(*at) {
        Some(b'"') => json_string(text, len, at).map(Some),
        Some(b'[' | b'{') => {
            let mut depth = 0usize;
            loop {
                match text[..len].get(*at) {
                    None => return Err("it does not end"),
                    Some(b'"') => {
                        json_string(text, len, at)?;
                        continue;
                    }
                    Some(b'[' | b'{') => depth += 1,
                    Some(b']' | b'}') => depth -= 1,
                    Some(_) => {}
                }
                *at += 1;
                if depth == 0 {
                    return Ok(None);
                }
            }
        }
        _ => {
            let start = *at;
            while let Some(byte) = text[..len].get(*at)
                && !matches!(byte, b',' | b'}' | b' ' | b'\t' | b'\r' | b'\n')
            {
                *at += 1;
            }
            match &text[start..*at] {
                b"" => Err("a key without a value"),
                b"null" => Ok(None),
                _ => Ok(Some(start..*at)),
            }
        }
    }
}

/// Returns where the content of the string at `at` lies; one with escapes is written anew behind the line.
fn json_string(text: &mut Vec<u8>, len: usize, at: &mut usize) -> Result<Range<usize>, &'static str> {
    if text[..len].get(*at) != Some(&b'"') {
        return Err("a key that is not a string");
    }
    let start = *at + 1;
    let mut end = start;
    let mut has_escapes = false;
    loop {
        end += memchr::memchr2(b'"', b'\\', &text[end..len]).ok_or("a string that does not end")?;
        if text[end] == b'"' {
            break;
        }
        has_escapes = true;
        end = (end + 2).min(len);
    }
    *at = end + 1;
    if !has_escapes {
        return Ok(start..end);
    }
    let unescaped = json::unescape(&text[start..end]).ok_or("a string with an escape that does not exist")?;
    let unescaped_at = text.len();
    text.extend_from_slice(unescaped.as_bytes());
    Ok(unescaped_at..text.len())
}
