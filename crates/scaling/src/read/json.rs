//! JSON as measurement tools write it: with `NaN` and `Infinity`, and (Talpas) with `;` for `,`.
//!
//! Our own few lines, because the usual parsers refuse a whole file for one `NaN`.

use std::borrow::Cow;

/// Deeper nesting than any measurement file has, and shallow enough for any stack.
const MAX_DEPTH: usize = 64;

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Json<'a> {
    Null,
    Bool(bool),
    Number(f64),
    Text(Cow<'a, str>),
    List(Vec<Json<'a>>),
    /// In the order written.
    Object(Vec<(Cow<'a, str>, Json<'a>)>),
}

impl<'a> Json<'a> {
    /// Reads one value from the front of a text and returns what follows it.
    pub(crate) fn read_front(text: &'a str) -> Result<(Self, &'a str), JsonError> {
        let mut reader = Reader { text, at: 0 };
        let value = reader.value(0)?;
        reader.skip_space();
        Ok((value, &text[reader.at..]))
    }

    /// Reads a text that holds one value.
    pub(crate) fn read(text: &'a str) -> Result<Self, JsonError> {
        let (value, rest) = Self::read_front(text)?;
        if rest.is_empty() {
            Ok(value)
        } else {
            Err(JsonError { at: text.len() - rest.len(), fault: "text after the value" })
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Json<'a>> {
        match self {
            Json::Object(fields) => fields.iter().find(|(name, _)| name == key).map(|(_, value)| value),
            _ => None,
        }
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match self {
            Json::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn list(&self) -> Option<&[Json<'a>]> {
        match self {
            Json::List(items) => Some(items),
            _ => None,
        }
    }

    pub(crate) fn object(&self) -> Option<&[(Cow<'a, str>, Json<'a>)]> {
        match self {
            Json::Object(fields) => Some(fields),
            _ => None,
        }
    }

    /// A number, also one written as text; `null` is a value that is missing.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            Json::Number(number) => Some(*number),
            Json::Null => Some(f64::NAN),
            Json::Text(text) => text.trim().parse().ok(),
            _ => None,
        }
    }
}

/// One measurement as a line of JSON Lines has it, read without building a tree; reused from line to line.
#[derive(Default)]
pub(crate) struct PlainLine<'a> {
    pub(crate) params: Vec<(Cow<'a, str>, f64)>,
    pub(crate) callpath: Option<Cow<'a, str>>,
    pub(crate) metric: Option<Cow<'a, str>>,
    pub(crate) value: f64,
    /// Text before and after the value: a repetition differs in the value alone.
    around: (&'a str, &'a str),
}

impl<'a> PlainLine<'a> {
    /// Reads a line that holds what is usual, and says whether it did; any other is left to [`Json::read`].
    pub(crate) fn read(&mut self, line: &'a str) -> bool {
        if let Some(value) = self.repetition(line) {
            self.value = value;
            return true;
        }
        self.params.clear();
        (self.callpath, self.metric, self.around) = (None, None, ("", ""));
        let mut reader = Reader { text: line, at: 0 };
        let mut value_at = None;
        let read = reader.fields(|reader, name| {
            match name.as_ref() {
                "params" => {
                    return reader.fields(|reader, name| {
                        let value = reader.plain_number()?;
                        self.params.push((name, value));
                        Some(())
                    });
                }
                "callpath" => self.callpath = Some(reader.plain_text()?),
                "metric" => self.metric = Some(reader.plain_text()?),
                "value" => {
                    let start = reader.at;
                    self.value = reader.plain_number()?;
                    value_at = Some(start..reader.at);
                }
                _ => return None,
            }
            Some(())
        });
        reader.skip_space();
        let is_plain = read.is_some() && !self.params.is_empty() && reader.at == line.len();
        let Some(value_at) = value_at.filter(|_| is_plain) else { return false };
        self.around = (&line[..value_at.start], &line[value_at.end..]);
        true
    }

    /// The value of a line that is the last one but for that.
    fn repetition(&self, line: &str) -> Option<f64> {
        let (before, after) = self.around;
        let value = line.strip_prefix(before)?.strip_suffix(after)?;
        if before.is_empty() {
            return None;
        }
        let mut reader = Reader { text: value, at: 0 };
        reader.plain_number().filter(|_| reader.at == value.len())
    }
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{fault} at byte {at}")]
pub(crate) struct JsonError {
    pub(crate) at: usize,
    pub(crate) fault: &'static str,
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    /// Calls back at the value of each field of an object; `None` as soon as something is unusual.
    fn fields(&mut self, mut each: impl FnMut(&mut Self, Cow<'a, str>) -> Option<()>) -> Option<()> {
        self.skip_space();
        if !self.take(b'{') {
            return None;
        }
        loop {
            let name = self.plain_text()?;
            self.skip_space();
            if !self.take(b':') {
                return None;
            }
            self.skip_space();
            each(self, name)?;
            if self.ends(b'}').ok()? {
                return Some(());
            }
        }
    }

    fn plain_text(&mut self) -> Option<Cow<'a, str>> {
        self.skip_space();
        if self.peek() == Some(b'"') { self.string().ok() } else { None }
    }

    fn plain_number(&mut self) -> Option<f64> {
        if let Some(number) = self.small_integer() {
            return Some(number);
        }
        match self.peek()? {
            b'0'..=b'9' | b'-' | b'.' => match self.word().ok()? {
                Json::Number(number) => Some(number),
                _ => None,
            },
            _ => None,
        }
    }

    /// Digits alone, few enough to be exact: what coordinates are, and no work for a parser of decimals.
    fn small_integer(&mut self) -> Option<f64> {
        const MOST_DIGITS: usize = 15;
        let rest = &self.text.as_bytes()[self.at..];
        let n_digits = rest.iter().take(MOST_DIGITS + 1).take_while(|byte| byte.is_ascii_digit()).count();
        let ends = matches!(rest.get(n_digits), Some(b',' | b';' | b'}' | b' '));
        if n_digits == 0 || n_digits > MOST_DIGITS || !ends {
            return None;
        }
        self.at += n_digits;
        let number =
            rest[..n_digits].iter().fold(0_u64, |number, digit| number * 10 + u64::from(digit - b'0'));
        Some(number as f64)
    }

    fn value(&mut self, depth: usize) -> Result<Json<'a>, JsonError> {
        if depth > MAX_DEPTH {
            return Err(self.fault("values nested too deep"));
        }
        self.skip_space();
        match self.peek() {
            Some(b'{') => self.object(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => Ok(Json::Text(self.string()?)),
            Some(_) => self.word(),
            None => Err(self.fault("the text ends where a value should stand")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<Json<'a>, JsonError> {
        let mut fields = Vec::new();
        self.at += 1;
        loop {
            self.skip_space();
            if fields.is_empty() && self.take(b'}') {
                return Ok(Json::Object(fields));
            }
            if self.peek() != Some(b'"') {
                return Err(self.fault("a name in quotes is missing"));
            }
            let name = self.string()?;
            self.skip_space();
            if !self.take(b':') {
                return Err(self.fault("a colon is missing"));
            }
            fields.push((name, self.value(depth + 1)?));
            if self.ends(b'}')? {
                return Ok(Json::Object(fields));
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Json<'a>, JsonError> {
        let mut items = Vec::new();
        self.at += 1;
        loop {
            self.skip_space();
            if items.is_empty() && self.take(b']') {
                return Ok(Json::List(items));
            }
            items.push(self.value(depth + 1)?);
            if self.ends(b']')? {
                return Ok(Json::List(items));
            }
        }
    }

    /// After an item: whether the list ends here; otherwise a separator must stand.
    fn ends(&mut self, close: u8) -> Result<bool, JsonError> {
        self.skip_space();
        if self.take(close) {
            Ok(true)
        } else if self.take(b',') || self.take(b';') {
            Ok(false)
        } else {
            Err(self.fault("a comma or a closing bracket is missing"))
        }
    }

    fn string(&mut self) -> Result<Cow<'a, str>, JsonError> {
        self.at += 1;
        let start = self.at;
        let rest = &self.text[start..];
        let stop = rest.bytes().position(|byte| byte == b'"' || byte == b'\\');
        let Some(stop) = stop else { return Err(self.fault("a text does not end")) };
        if rest.as_bytes()[stop] == b'"' {
            self.at = start + stop + 1;
            return Ok(Cow::Borrowed(&rest[..stop]));
        }
        let mut decoded = String::new();
        let mut characters = rest.char_indices();
        while let Some((offset, character)) = characters.next() {
            match character {
                '"' => {
                    self.at = start + offset + 1;
                    return Ok(Cow::Owned(decoded));
                }
                '\\' => match characters.next().map(|(_, escaped)| escaped) {
                    Some('n') => decoded.push('\n'),
                    Some('t') => decoded.push('\t'),
                    Some('r') => decoded.push('\r'),
                    Some('b') => decoded.push('\u{8}'),
                    Some('f') => decoded.push('\u{c}'),
                    Some('u') => {
                        let mut code = four_hex_digits(&mut characters);
                        if let Some(high @ 0xD800..0xDC00) = code {
                            // Half of a pair; without the other half it is no character.
                            let mut ahead = characters.clone();
                            let escaped = (ahead.next().map(|c| c.1), ahead.next().map(|c| c.1))
                                == (Some('\\'), Some('u'));
                            code = None;
                            if let (true, Some(low @ 0xDC00..0xE000)) = (escaped, four_hex_digits(&mut ahead))
                            {
                                code = Some(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00));
                                characters = ahead;
                            }
                        }
                        decoded.push(code.and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER));
                    }
                    Some(other) => decoded.push(other),
                    None => break,
                },
                other => decoded.push(other),
            }
        }
        Err(self.fault("a text does not end"))
    }

    /// A number, or one of the words for true, false, nothing and not-a-number.
    fn word(&mut self) -> Result<Json<'a>, JsonError> {
        let rest = &self.text[self.at..];
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        let stop = rest.bytes().position(|byte| !is_part(byte)).unwrap_or(rest.len());
        let value = match &rest[..stop] {
            "null" => Json::Null,
            "true" => Json::Bool(true),
            "false" => Json::Bool(false),
            "" => return Err(self.fault("a character that starts no value")),
            // Rust reads NaN, inf and Infinity too.
            word => Json::Number(word.parse().map_err(|_| self.fault("a word that is no value"))?),
        };
        self.at += stop;
        Ok(value)
    }

    fn skip_space(&mut self) {
        let bytes = self.text.as_bytes();
        while bytes.get(self.at).is_some_and(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn fault(&self, fault: &'static str) -> JsonError {
        JsonError { at: self.at, fault }
    }
}

fn four_hex_digits(characters: &mut std::str::CharIndices) -> Option<u32> {
    (0..4).try_fold(0, |code, _| Some(code * 16 + characters.next()?.1.to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_is_read_alike_after_any_other() {
        let line = |rest: &str| format!(r#"{{"params": {{"p": 4}}, "callpath": "f", "value": {rest}}}"#);
        let lines =
            [line("1.5"), line("2"), line("-3e2"), line("4, \"metric\": \"t\""), line("\"5\""), line("")];
        for (first, second) in lines.iter().flat_map(|first| lines.iter().map(move |second| (first, second)))
        {
            let (mut after, mut alone) = (PlainLine::default(), PlainLine::default());
            after.read(first);
            let is_plain = alone.read(second);
            assert_eq!(after.read(second), is_plain, "{second} after {first}");
            if is_plain {
                assert_eq!(
                    (&after.params, &after.callpath, &after.metric, after.value),
                    (&alone.params, &alone.callpath, &alone.metric, alone.value),
                    "{second} after {first}"
                );
            }
        }
    }

    #[test]
    fn nan_is_a_number_that_is_not_one() {
        let json = Json::read(r#"{"value": [NaN, -Infinity, 1e3, null]}"#).unwrap();
        let numbers: Vec<f64> =
            json.get("value").unwrap().list().unwrap().iter().filter_map(Json::number).collect();
        assert!(numbers[0].is_nan() && numbers[3].is_nan());
        assert_eq!(numbers[1..3], [f64::NEG_INFINITY, 1000.0]);
    }

    #[test]
    fn escapes_are_undone() {
        let json = Json::read(r#""a\"b\\\u00e9\ud83d\ude00\n""#).unwrap();
        assert_eq!(json.text(), Some("a\"b\\é😀\n"));
        assert_eq!(Json::read(r#""\ud83d""#).unwrap().text(), Some("\u{fffd}"));
    }

    #[test]
    fn a_fault_names_its_place() {
        assert_eq!(
            Json::read("[1, 2").unwrap_err().to_string(),
            "a comma or a closing bracket is missing at byte 5"
        );
        assert_eq!(Json::read("{} x").unwrap_err().to_string(), "text after the value at byte 3");
        assert!(Json::read(&"[".repeat(100_000)).is_err());
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in r#"[\[\]{}":,;0-9eE.+a-zA-Z\\ \-é]{0,60}"#) {
            let _ = Json::read_front(&text);
        }
    }
}
