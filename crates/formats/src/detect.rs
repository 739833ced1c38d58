//! The format from the first bytes, never from the name alone.

use iotide_table::{Cells, Dialect, is_remark};
use memchr::memmem;

use crate::{
    Format, ReadError, ceph, darshan, dftracer, gekkofs, gluster, gzip,
    input::Input,
    lmt, lustre, native, prometheus, proxy, recorder,
    rows::{SEPARATORS, UNITS, split_unit},
    scanner::BYTE_ORDER_MARK,
    strace, tau, text, tmio, tracer,
};

/// Tells the format of a source.
pub(crate) fn format(input: &Input) -> Result<Format, ReadError> {
    let path = || input.name().to_path_buf();
    if let Some(directory) = input.directory() {
        if tracer::is_trace(directory) {
            return Ok(Format::Native);
        }
        if recorder::recognises(directory) {
            return Ok(Format::Recorder);
        }
        return Err(ReadError::UnknownDirectory { path: path() });
    }
    of_head(input.head())
        .ok_or_else(|| ReadError::UnknownFormat { path: path(), head: printable(input.head()) })
}

/// Reads a compressed source as if it were not, if what is in it is known; leaves any other as it is.
pub(crate) fn unzipped(input: Input) -> Result<Input, ReadError> {
    if gzip::is_gzip(input.head()) && of_head(&gzip::inflated_head(input.head(), Input::HEAD)).is_some() {
        return input.unzipped();
    }
    Ok(input)
}

/// Reads a compressed text as if it were not, whatever is in it.
pub(crate) fn unzipped_text(input: Input) -> Result<Input, ReadError> {
    if gzip::is_gzip(input.head()) { input.unzipped() } else { Ok(input) }
}

/// Whether these first bytes of a source that is still being written tell its format for good.
pub(crate) fn is_told(head: &[u8]) -> bool {
    match of_head(head) {
        Some(format) if format.is_binary() => true,
        // A text is told by whole lines: half a name is another name. Which of the tables it is, by one of two names.
        Some(Format::Jsonl) => {
            let head = whole_lines(head);
            key_of_time(head, "time").is_some() || key_of_time(head, "start").is_some()
        }
        Some(_) => of_head(whole_lines(head)).is_some(),
        None => false,
    }
}

/// Whether there is a whole line that is more than a remark.
pub(crate) fn has_a_line(head: &[u8]) -> bool {
    whole_lines(head).split(|byte| *byte == b'\n').any(|line| !is_remark(line))
}

fn whole_lines(head: &[u8]) -> &[u8] {
    &head[..memchr::memrchr(b'\n', head).map_or(0, |newline| newline + 1)]
}

/// Whether a table (CSV or JSON Lines) is one of bandwidth over time rather than one of events.
pub(crate) fn is_series(head: &[u8]) -> bool {
    let head = without_mark(head);
    if head.trim_ascii_start().starts_with(b"{") {
        // Whichever key comes first.
        let at = |name| key_of_time(head, name).unwrap_or(usize::MAX);
        return at("time") < at("start");
    }
    header(head, SEPARATORS).is_some_and(|names| has_time(&names, "time") && !has_time(&names, "start"))
}

fn of_head(head: &[u8]) -> Option<Format> {
    if head.starts_with(native::MAGIC) || head.starts_with(tracer::MAGIC) {
        return Some(Format::Native);
    }
    if let Some(format) = of_darshan(head) {
        return Some(format);
    }
    if is_tmio_msgpack(head) {
        return Some(Format::TmioMsgpack);
    }
    if gekkofs::recognises_msgpack(head) {
        return Some(Format::GekkofsMsgpack);
    }
    if proxy::recognises_msgpack(head) {
        return Some(Format::ProxyMsgpack);
    }
    let text = without_mark(head).trim_ascii_start();
    if dftracer::recognises(text) {
        return Some(Format::DfTracer);
    }
    if tau::recognises(text) {
        return Some(Format::Tau);
    }
    if strace::recognises(text) {
        return Some(Format::Strace);
    }
    if lustre::recognises(text) {
        return Some(Format::LustreJobStats);
    }
    if lmt::recognises(text) {
        return Some(Format::Lmt);
    }
    if gluster::recognises(text) {
        return Some(Format::Gluster);
    }
    if ceph::recognises(text) {
        return Some(Format::Ceph);
    }
    if text.starts_with(b"{") {
        return of_json(text);
    }
    if is_table(text) {
        return Some(Format::Csv);
    }
    has_built_in_arrays(text).then_some(Format::Text)
}

fn of_darshan(head: &[u8]) -> Option<Format> {
    if darshan::endian_of(head).is_some() || darshan::is_legacy(head) {
        return Some(Format::Darshan);
    }
    let is_dxt = darshan::text_kind(head)?;
    Some(if is_dxt { Format::DarshanDxtText } else { Format::DarshanParserText })
}

/// A JSON text is told by the names in it: the first byte is the same for all.
fn of_json(text: &[u8]) -> Option<Format> {
    let names = |name: &str| memmem::find(text, format!("\"{name}\"").as_bytes()).is_some();
    if gekkofs::recognises_json(text) {
        return Some(Format::Gekkofs);
    }
    if prometheus::recognises(text) {
        return Some(Format::Prometheus);
    }
    if proxy::recognises_json(text) {
        return Some(Format::Proxy);
    }
    if has_built_in_arrays(text) {
        return Some(Format::Text);
    }
    if keys(text).any(|key| tmio::mode(key).is_some()) {
        return Some(if names("b_overlap_avr") || names("b_overlap_sum") || names("t_overlap") {
            Format::FtioJson
        } else if is_one_object_a_line(text) {
            Format::TmioJsonl
        } else {
            Format::TmioJson
        });
    }
    // A time with a unit stands in many a document: it takes a bandwidth to make a table of it.
    let is_series = || {
        key_of_time(text, "time").is_some() && ["bandwidth", "read", "write"].iter().any(|name| names(name))
    };
    (names("time") || names("start") || names("op") || is_series()).then_some(Format::Jsonl)
}

/// Where the key of a time first stands in JSON, with or without a unit.
fn key_of_time(text: &[u8], name: &str) -> Option<usize> {
    let endings = UNITS.iter().map(|(ending, _)| *ending).chain([""]);
    endings.filter_map(|ending| memmem::find(text, format!("\"{name}{ending}\"").as_bytes())).min()
}

/// Returns the keys of the text: strings in quotes before a colon, as long as it is plain text.
fn keys(text: &[u8]) -> impl Iterator<Item = &str> {
    text.split(|byte| *byte == b':').filter_map(|before| {
        let before = before.trim_ascii_end().strip_suffix(b"\"")?;
        let key = &before[memchr::memrchr(b'"', before)? + 1..];
        std::str::from_utf8(key).ok()
    })
}

/// Whether the first object ends on the line it began on, as far as can be seen.
fn is_one_object_a_line(text: &[u8]) -> bool {
    match memchr::memchr(b'\n', text) {
        None => text.len() >= Input::HEAD / 2,
        Some(newline) => text[..newline].trim_ascii_end().ends_with(b"}"),
    }
}

fn is_tmio_msgpack(head: &[u8]) -> bool {
    // An array of 14 (a mode) or more, and then a name.
    let after_array = match head {
        [0x91..=0x9f, rest @ ..] | [0xdc, _, _, rest @ ..] => rest,
        _ => return false,
    };
    let (len, name) = match after_array {
        [len @ 0xa0..=0xbf, name @ ..] => (usize::from(len & 0x1f), name),
        [0xd9, len, name @ ..] => (usize::from(*len), name),
        _ => return false,
    };
    name.get(..len)
        .and_then(|name| std::str::from_utf8(name).ok())
        .is_some_and(|name| tmio::mode(name).is_some())
}

/// A header of several columns, of which at least one is known: a column that is missing is told when reading.
fn is_table(text: &[u8]) -> bool {
    let known = ["rank", "op", "bytes", "bandwidth"];
    let is_known = |names: &[&[u8]]| {
        known.iter().any(|name| has(names, name))
            || ["start", "end", "time"].iter().any(|name| has_time(names, name))
    };
    header(text, SEPARATORS).is_some_and(|names| names.len() > 1 && is_known(&names))
}

/// The names on the first line that is no comment, with one of these separators between them.
pub(crate) fn header<'a>(text: &'a [u8], separators: &[u8]) -> Option<Vec<&'a [u8]>> {
    let line = text.split(|byte| *byte == b'\n').find(|line| !is_remark(line))?;
    let mut cells = Cells::new(Dialect::of_header(line, separators));
    let mut names = Vec::new();
    while let Some(cell) = cells.next_in(line).ok()? {
        names.push(&line[cell.range]);
    }
    Some(names)
}

pub(crate) fn has(names: &[&[u8]], name: &str) -> bool {
    names.iter().any(|known| known.eq_ignore_ascii_case(name.as_bytes()))
}

/// The same for a time, which may have its unit in its name.
fn has_time(names: &[&[u8]], name: &str) -> bool {
    let is_it = |known: &[u8]| known.eq_ignore_ascii_case(name.as_bytes());
    names.iter().any(|known| {
        is_it(known) || split_unit(&known.to_ascii_lowercase()).is_some_and(|(known, _)| is_it(known))
    })
}

fn has_built_in_arrays(text: &[u8]) -> bool {
    text::BUILT_IN_BANDWIDTH.iter().any(|name| memmem::find(text, name.as_bytes()).is_some())
}

fn without_mark(head: &[u8]) -> &[u8] {
    head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head)
}

/// The first bytes as a reader of the message can recognise them.
fn printable(head: &[u8]) -> String {
    format!("\"{}\"", head[..head.len().min(16)].escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_tell_the_format() {
        for (head, format) in [
            ("rank,op,start,end,bytes\n", Some(Format::Csv)),
            ("# a=b\n\n\"time\",\"bandwidth\"\n", Some(Format::Csv)),
            ("\u{feff}time,read,write", Some(Format::Csv)),
            ("op;start_ns;duration_ns;bytes\n", Some(Format::Csv)),
            ("Time_ms\tread\n", Some(Format::Csv)),
            ("{\"time_ns\": 1, \"read\": 2}\n", Some(Format::Jsonl)),
            ("{\"phases\": [{\"start_s\": 1, \"end_s\": 2}]}\n", None),
            ("{\"time\": 1, \"bandwidth\": 2}\n", Some(Format::Jsonl)),
            ("{\"rank\": 0, \"op\": \"read\"}\n", Some(Format::Jsonl)),
            ("\t{\"write_sync\":{\"a\": 1}}\n\t{\"io_time\":{}}\n", Some(Format::TmioJsonl)),
            ("{\n\t\"read_sync\":{\n", Some(Format::TmioJson)),
            ("{\"write_sync\": {\"bandwidth\": {\"b_overlap_avr\": [", Some(Format::FtioJson)),
            ("avg_thruput_mib: [1,2", Some(Format::Text)),
            ("IOTIDE\0\u{1}", Some(Format::Native)),
            ("\u{0}\u{1}", None),
            ("hello, world\n", None),
            ("{\"a\": 1}", None),
            ("   ", None),
        ] {
            assert_eq!(of_head(head.as_bytes()), format, "{head:?}");
        }
        assert_eq!(of_head(b"\x9e\xaaread_async\xc3"), Some(Format::TmioMsgpack));
        assert_eq!(of_head(b"\x9e\xaaread_asyn"), None);
    }
}
