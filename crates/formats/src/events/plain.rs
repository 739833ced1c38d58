//! Rows of CSV as programs write them: numbers without exponents, names without quotes.
//!
//! Such a row is read in one pass over its bytes. Whatever is unusual about a row, and so all that can be wrong with it, is
//! left to the reader that knows every case; this one never answers anything else than that one would.

use iotide_trace::{Event, Grain, Layer, Op, Rank, Timestamp};

use super::{BYTES, CALLS, END, FILE, GRAIN, LAYER, OP, RANK, START};
use crate::{
    files::Files,
    number::{prefix_f64, prefix_nanos, prefix_whole},
};

/// Returns the event of the first row of `text` and the length of its line; `None` if that is not a whole plain row.
///
/// `header` says which wanted column each column is.
#[inline]
pub(super) fn row(text: &[u8], header: &[Option<usize>], files: &mut Files) -> Option<(Event, usize)> {
    let zero = Timestamp::from_nanos_since_start(0);
    let event = Event::data(Op::Other, Rank::ALL, zero, zero, 0.0);
    let mut row = Row { event, has_bytes: true, path: &[] };
    let mut here = 0;
    let last = header.len().checked_sub(1)?;
    for (i, column) in header.iter().enumerate() {
        while let Some(b' ' | b'\t') = text.get(here) {
            here += 1;
        }
        let field = text.get(here..)?;
        here += row.take(*column, field)?;
        // A line that begins so is a remark, whatever its first column.
        if i == 0 && field.first() == Some(&b'#') {
            return None;
        }
        here += match (text.get(here)?, i == last) {
            (b',', false) | (b'\n', true) => 1,
            (b'\r', true) if text.get(here + 1) == Some(&b'\n') => 2,
            _ => return None,
        };
    }
    let Row { mut event, has_bytes, path } = row;
    if event.end < event.start || (!has_bytes && event.op.moves_data()) {
        return None;
    }
    if !path.is_empty() {
        event.file = files.id_of_bytes(path);
    }
    Some((event, here))
}

/// A row as far as it was read.
struct Row<'t> {
    event: Event,
    has_bytes: bool,
    path: &'t [u8],
}

impl<'t> Row<'t> {
    /// Takes the value of a wanted column from the beginning of `field` and returns how long it is written; `None` if it is not written plainly.
    #[inline(always)]
    fn take(&mut self, column: Option<usize>, field: &'t [u8]) -> Option<usize> {
        let event = &mut self.event;
        let len = match column {
            Some(START) => {
                let (nanos, len) = prefix_nanos(field)?;
                event.start = Timestamp::from_nanos_since_start(nanos);
                len
            }
            Some(END) => {
                let (nanos, len) = prefix_nanos(field)?;
                event.end = Timestamp::from_nanos_since_start(nanos);
                len
            }
            Some(BYTES) => {
                let (bytes, len) = amount(field)?;
                event.bytes = bytes.unwrap_or(0.0);
                self.has_bytes = bytes.is_some();
                len
            }
            Some(RANK) => {
                let negative = usize::from(field.first() == Some(&b'-'));
                let (rank, len) = prefix_whole(&field[negative..])?;
                event.rank = match (negative, i32::try_from(rank)) {
                    (0, Ok(rank)) => Rank(rank),
                    (1, Ok(1)) => Rank::ALL,
                    (1, Ok(0)) => Rank(0),
                    _ => return None,
                };
                negative + len
            }
            Some(OP) => {
                let (op, len) = op(field)?;
                event.op = op;
                len
            }
            Some(FILE) => {
                self.path = name(field)?;
                self.path.len()
            }
            Some(CALLS) => match field.first()? {
                b',' | b'\n' | b'\r' => 0,
                _ => {
                    let (calls, len) = prefix_whole(field)?;
                    event.calls = u32::try_from(calls).ok()?;
                    len
                }
            },
            Some(LAYER) => {
                let name = name(field)?;
                if !name.is_empty() {
                    event.layer = Layer::from_name(std::str::from_utf8(name).ok()?)?;
                }
                name.len()
            }
            Some(GRAIN) => {
                let name = name(field)?;
                if !name.is_empty() {
                    event.grain = Grain::from_name(std::str::from_utf8(name).ok()?)?;
                }
                name.len()
            }
            // Counts that go with the row make further events of it.
            Some(_) => match field.first()? {
                b',' | b'\n' | b'\r' => 0,
                _ => return None,
            },
            None => name(field)?.len(),
        };
        Some(len)
    }
}

/// The amount at the beginning of a field and its length; no amount where the field is empty.
#[inline]
fn amount(field: &[u8]) -> Option<(Option<f64>, usize)> {
    if let Some((whole, len)) = prefix_whole(field)
        && !matches!(field.get(len), Some(b'.' | b'e' | b'E'))
    {
        return Some((Some(whole as f64), len));
    }
    match field.first()? {
        b',' | b'\n' | b'\r' => Some((None, 0)),
        b'0'..=b'9' | b'.' => {
            let (value, len) = prefix_f64(field)?;
            value.is_finite().then_some((Some(value), len))
        }
        _ => None,
    }
}

#[inline]
fn op(field: &[u8]) -> Option<(Op, usize)> {
    // These two first: they are nearly all.
    if field.starts_with(b"write") {
        return Some((Op::Write, 5));
    }
    if field.starts_with(b"read") {
        return Some((Op::Read, 4));
    }
    Op::ALL.into_iter().find(|op| field.starts_with(op.name().as_bytes())).map(|op| (op, op.name().len()))
}

/// A field of text as it stands; `None` if it is quoted, marked as text, or has blanks at its end.
fn name(field: &[u8]) -> Option<&[u8]> {
    let name = &field[..memchr::memchr2(b',', b'\n', field)?];
    let name = if field[name.len()] == b'\n' { name.strip_suffix(b"\r").unwrap_or(name) } else { name };
    match (name.first(), name.last()) {
        (Some(b'"' | b'\''), _) => None,
        (_, Some(last)) if last.is_ascii_whitespace() => None,
        _ => Some(name),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{COLUMNS, TIMES, event};
    use super::*;
    use crate::{
        input::Input,
        losses::Losses,
        rows::{Rows, Syntax},
    };

    /// The event that the reader of every case makes of the table's first row.
    fn slowly(table: &str) -> Option<Event> {
        let input =
            Input::from_read("table".as_ref(), Box::new(std::io::Cursor::new(table.to_owned()))).unwrap();
        let mut losses = Losses::default();
        let mut rows = Rows::open(input, Syntax::Csv, COLUMNS, TIMES, &mut losses).ok()?;
        rows.advance(&mut losses).ok()?.then(|| event(&rows, &mut Files::default()).ok())?
    }

    fn column(name: &str) -> Option<usize> {
        COLUMNS.iter().position(|column| *column == name)
    }

    #[test]
    fn what_programs_write_is_plain() {
        let header: Vec<_> = ["rank", "op", "start", "end", "bytes", "file", "note"].map(column).to_vec();
        for row in [
            "0,write,0.5,1.500000001,4096,/a,\n",
            "-1,read,2,3,0.125,,x y\r\n",
            "7,open,0,0,,/a/b c,\n",
            "7, write , 0, 0,1,/a,\n",
        ] {
            let table = format!("rank,op,start,end,bytes,file,note\n{row}");
            let plain = super::row(row.as_bytes(), &header, &mut Files::default());
            if row.contains("write ,") {
                assert_eq!(plain, None);
            } else {
                assert_eq!(plain.map(|(_, len)| len), Some(row.len()), "{row}");
                assert_eq!(plain.map(|(event, _)| event), slowly(&table), "{row}");
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn a_plain_row_is_what_the_reader_of_every_case_makes_of_it(
            columns in Just(["rank", "op", "start", "end", "bytes", "file", "calls", "layer", "opens", "x"]).prop_shuffle(),
            values in [
                "-?[0-9]{1,11}|-1|", "write|read|open|seek|stat|WRITE|rea|reads|", "-?[0-9]{0,12}(\\.[0-9]{0,12})?",
                "[0-9]{0,11}(\\.[0-9]{0,12})?(e3)?", "-?[0-9]{0,18}(\\.[0-9]{0,3})?(e[0-9])?|inf|nan", "[ab\"#/ ]{0,6}", "[0-9]{0,11}",
                "posix|stdio|x|", "2|", "[ab\"# ]{0,6}",
            ],
            blank in " {0,1}",
            end in "\r?\n",
        ) {
            let names = ["rank", "op", "start", "end", "bytes", "file", "calls", "layer", "opens", "x"];
            let value = |name: &str| &values[names.iter().position(|known| *known == name).unwrap()];
            let fields: Vec<String> = columns.iter().map(|name| format!("{blank}{}", value(name))).collect();
            let row = format!("{}{end}", fields.join(","));
            let header: Vec<_> = columns.iter().map(|name| column(name)).collect();
            let plain = super::row(row.as_bytes(), &header, &mut Files::default());
            if let Some((event, len)) = plain {
                prop_assert_eq!(len, row.len());
                let table = format!("{}\n{row}", columns.join(","));
                prop_assert_eq!(Some(event), slowly(&table), "{}", row);
            }
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b','), Just(b'\n'), Just(b'1')], 0..40)) {
            let header: Vec<_> = ["rank", "op", "start", "end", "bytes", "file", "calls"].map(column).to_vec();
            let _ = super::row(&bytes, &header, &mut Files::default());
        }
    }
}
