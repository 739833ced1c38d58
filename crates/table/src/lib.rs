//! Lines of a table into cells: separators, quotes, comments, numbers of lines.
//!
//! Every table that iotide reads is taken apart here: events, bandwidth over time, job logs, what LMT prints, measurements,
//! parameters of traces, periods of jobs. What the cells mean, and what is to be done about a line that makes no sense, is the
//! reader's matter.
//!
//! A table in memory is [`lines`] and [`cells`]:
//!
//! ```
//! use iotide_table::{Dialect, cells, lines};
//!
//! let table = "# two jobs\njob,seconds\n\"a, b\",12\n";
//! let rows: Vec<_> = lines(table).map(|(number, line)| (number, cells(line, Dialect::CSV))).collect();
//! assert_eq!(rows[0], (2, Ok(vec!["job".into(), "seconds".into()])));
//! assert_eq!(rows[1], (3, Ok(vec!["a, b".into(), "12".into()])));
//! ```
//!
//! One that comes in pieces gives its lines to [`Cells`], which allocates nothing; [`end_of_quoted_row`] says where a row ends that
//! holds line ends.
//!
//! # Why not the `csv` crate
//! Its reader takes a quote that is never closed as the beginning of a cell that reaches to the end of the file: one damaged row would
//! cost all rows after it. Here it costs its row. It also has neither values in comments (`# nprocs=32`), nor a limit to the length of
//! a row, nor blanks around quotes; all of these stand in tables that were read before.
//!
//! **Invariant:** no file, clock or thread; nothing panics, whatever the bytes.

use std::borrow::Cow;
use std::ops::Range;

/// How the cells of a line are separated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// The ASCII character between two cells.
    pub separator: u8,
    /// Whether a cell may stand in quotes, which then protect separators and line ends; `""` is a quote inside (RFC 4180).
    pub quotes: bool,
}

impl Dialect {
    /// Commas and quotes.
    pub const CSV: Self = Self { separator: b',', quotes: true };

    /// Bars, and quotes are letters like others: `sacct --parsable2`.
    pub const BARS: Self = Self { separator: b'|', quotes: false };

    /// Quotes, and the separator that stands most often in the header; of equals, the one named last.
    pub fn of_header(header: &[u8], separators: &[u8]) -> Self {
        let count = |separator: &u8| memchr::memchr_iter(*separator, header).count();
        let separator = separators.iter().copied().max_by_key(|separator| count(separator));
        Self { separator: separator.unwrap_or(b','), quotes: true }
    }

    /// A number with its decimal comma made a point; `None` unless semicolons leave the comma free for that, and there is one.
    ///
    /// ```
    /// # use iotide_table::Dialect;
    /// let semicolons = Dialect::of_header(b"p;seconds", b";,");
    /// assert_eq!(semicolons.with_point("0,5").as_deref(), Some("0.5"));
    /// assert_eq!(semicolons.with_point("1,000,000"), None);
    /// assert_eq!(Dialect::CSV.with_point("0,5"), None);
    /// ```
    pub fn with_point(self, number: &str) -> Option<String> {
        let (whole, fraction) = number.split_once(',').filter(|_| self.separator == b';')?;
        (!fraction.contains(',')).then(|| format!("{whole}.{fraction}"))
    }
}

/// A quote that begins a cell and is not closed in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenQuote;

/// Where a cell lies in its line, without the quotes and blanks around it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Its bytes.
    pub range: Range<usize>,
    /// Whether there are doubled quotes in it, which [`push_unescaped`] makes single.
    pub is_escaped: bool,
}

/// Walks over the cells of a line.
#[derive(Clone, Debug)]
pub struct Cells {
    dialect: Dialect,
    /// Where the next cell begins; `None` after the last.
    at: Option<usize>,
}

impl Cells {
    /// Begins with the first cell.
    pub fn new(dialect: Dialect) -> Self {
        Self { dialect, at: Some(0) }
    }

    /// Returns the next cell of `line`, which must be the same each time; `None` after the last.
    // Not an iterator: that would borrow the line, behind which readers put what had to be unescaped.
    #[inline]
    pub fn next_in(&mut self, line: &[u8]) -> Result<Option<Cell>, OpenQuote> {
        let Some(mut start) = self.at else { return Ok(None) };
        let Dialect { separator, quotes } = self.dialect;
        while let Some(blank @ (b' ' | b'\t')) = line.get(start)
            && *blank != separator
        {
            start += 1;
        }
        let rest = line.get(start..).unwrap_or_default();
        if !quotes || rest.first() != Some(&b'"') {
            let len = memchr::memchr(separator, rest);
            self.at = len.map(|len| start + len + 1);
            let cell = rest[..len.unwrap_or(rest.len())].trim_ascii_end();
            return Ok(Some(Cell { range: start..start + cell.len(), is_escaped: false }));
        }
        let mut end = 1;
        let mut is_escaped = false;
        loop {
            end += memchr::memchr(b'"', rest.get(end..).unwrap_or_default()).ok_or(OpenQuote)?;
            if rest.get(end + 1) != Some(&b'"') {
                break;
            }
            end += 2;
            is_escaped = true;
        }
        self.at = memchr::memchr(separator, &rest[end..]).map(|len| start + end + len + 1);
        Ok(Some(Cell { range: start + 1..start + end, is_escaped }))
    }
}

/// Writes the cell that lies there once more behind all of `text`, with single quotes for doubled ones, and returns where.
pub fn push_unescaped(text: &mut Vec<u8>, cell: Range<usize>) -> Range<usize> {
    let unescaped_at = text.len();
    let mut at = cell.start;
    while let Some(rest) = text.get(at..cell.end).filter(|rest| !rest.is_empty()) {
        let (len, skipped) = memchr::memchr(b'"', rest).map_or((rest.len(), 0), |quote| (quote + 1, 1));
        text.extend_from_within(at..at + len);
        at += len + skipped;
    }
    unescaped_at..text.len()
}

/// Returns how far the rest of a row reaches whose quoted cell began before `ahead`; `None` if that is not to be seen.
pub fn end_of_quoted_row(ahead: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        at += memchr::memchr(b'"', ahead.get(at..)?)? + 1;
        if ahead.get(at) != Some(&b'"') {
            return Some(memchr::memchr(b'\n', &ahead[at..]).map_or(ahead.len(), |newline| at + newline + 1));
        }
        at += 1;
    }
}

/// Whether a line says nothing: it is blank, or a comment.
pub fn is_remark(line: &[u8]) -> bool {
    matches!(line.trim_ascii_start().first(), None | Some(b'#'))
}

/// Returns the lines of a table that are neither blank nor comments, each with its number; a byte order mark is passed over.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    text.lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line))
        .filter(|(_, line)| !is_remark(line.as_bytes()))
}

/// Returns the cells of a line.
pub fn cells(line: &str, dialect: Dialect) -> Result<Vec<Cow<'_, str>>, OpenQuote> {
    let mut walk = Cells::new(dialect);
    let mut cells = Vec::new();
    while let Some(Cell { range, is_escaped }) = walk.next_in(line.as_bytes())? {
        let cell = line.get(range).unwrap_or_default();
        cells.push(if is_escaped { cell.replace("\"\"", "\"").into() } else { cell.into() });
    }
    Ok(cells)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(line: &str, dialect: Dialect, expected: &[&str]) {
        let found = cells(line, dialect).unwrap();
        assert_eq!(found, expected, "{line}");
        // The same by the way that allocates nothing.
        let mut text = line.as_bytes().to_vec();
        let mut walk = Cells::new(dialect);
        for cell in found {
            let Cell { mut range, is_escaped } = walk.next_in(line.as_bytes()).unwrap().unwrap();
            if is_escaped {
                range = push_unescaped(&mut text, range);
            }
            assert_eq!(text[range], *cell.as_bytes());
        }
        assert_eq!(walk.next_in(line.as_bytes()), Ok(None));
    }

    #[test]
    fn quotes_protect_separators_and_quotes() {
        check(r#"1,"a,""b""",c"#, Dialect::CSV, &["1", "a,\"b\"", "c"]);
        check(r#" "a" , b c ,"#, Dialect::CSV, &["a", "b c", ""]);
        check(r#""""",x"#, Dialect::CSV, &["\"", "x"]);
        assert_eq!(cells(r#"a,"b"#, Dialect::CSV), Err(OpenQuote));
    }

    #[test]
    fn bars_know_no_quotes() {
        check(r#"a|"b|c"#, Dialect::BARS, &["a", "\"b", "c"]);
    }

    #[test]
    fn a_separator_is_no_blank() {
        let tabs = Dialect { separator: b'\t', quotes: true };
        check("\t\tb\t", tabs, &["", "", "b", ""]);
        check("", Dialect::CSV, &[""]);
    }

    #[test]
    fn the_header_tells_the_separator() {
        assert_eq!(Dialect::of_header(b"a;b;c,d", b",;\t").separator, b';');
        assert_eq!(Dialect::of_header(b"a", b"").separator, b',');
    }

    #[test]
    fn remarks_are_no_lines_but_count() {
        let found: Vec<_> = lines("\u{feff}# x\n\n  # y\r\na\r\n \nb").collect();
        assert_eq!(found, [(4, "a"), (6, "b")]);
    }

    #[test]
    fn a_row_ends_behind_the_quote_that_closes() {
        assert_eq!(end_of_quoted_row(b"x\"\"y\nz\",1\nnext"), Some(10));
        assert_eq!(end_of_quoted_row(b"x\"\""), None);
        assert_eq!(end_of_quoted_row(b"x\""), Some(2));
    }

    proptest! {
        #[test]
        fn cells_are_read_as_they_were_written(written in prop::collection::vec("[a,\"é ]{0,6}", 1..6)) {
            let line: Vec<String> = written.iter().map(|cell| format!("\"{}\"", cell.replace('"', "\"\""))).collect();
            let line = line.join(",");
            prop_assert_eq!(cells(&line, Dialect::CSV).unwrap(), written);
        }

        #[test]
        fn nothing_panics(line in "[a,\"é \t|]{0,20}", separator in prop::sample::select(b",\t |".to_vec()), quotes: bool) {
            let _ = cells(&line, Dialect { separator, quotes });
            let mut walk = Cells::new(Dialect { separator, quotes });
            while let Ok(Some(cell)) = walk.next_in(line.as_bytes()) {
                push_unescaped(&mut line.clone().into_bytes(), cell.range);
            }
            end_of_quoted_row(line.as_bytes());
        }
    }
}
