//! Records written by `printf`: one per line, JSON by intention.
//!
//! DFTracer and TAU put names and pointers between quotes without escaping them, or bare: a path may hold a quote, a
//! pointer stands as `0x7ffe`. A strict parser would refuse what a person reads without trouble. This one takes
//! strings by how they end rather than by what is in them.

/// A value as it stands in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// Between quotes. Nothing is unescaped: what the tracer wrote is what the program had.
    Text(&'a [u8]),
    /// Bare: a number, a pointer, `true`, `null`.
    Bare(&'a [u8]),
    /// An object or an array below the level that is looked at.
    Nested(&'a [u8]),
}

impl<'a> Value<'a> {
    /// The bytes of it, with or without quotes.
    pub(crate) fn bytes(self) -> &'a [u8] {
        match self {
            Value::Text(bytes) | Value::Bare(bytes) | Value::Nested(bytes) => bytes,
        }
    }

    /// The whole number that it is, quoted or not.
    pub(crate) fn as_i64(self) -> Option<i64> {
        match self {
            Value::Nested(_) => None,
            // u64 above i64 is how a tracer prints −1 of a `size_t`.
            _ => parse_i64(self.bytes()).or_else(|| parse_u64(self.bytes()).map(|n| n as i64)),
        }
    }

    /// The whole number that it is, if it is not negative.
    pub(crate) fn as_u64(self) -> Option<u64> {
        match self {
            Value::Nested(_) => None,
            _ => parse_u64(self.bytes()),
        }
    }
}

/// Where a field stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// In the record itself.
    Record,
    /// In its `args`.
    Args,
}

/// Why a line is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// It stops before its last brace: cut off.
    Cut,
    /// At this byte stands something that no record has.
    At(usize),
}

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Broken::Cut => f.write_str("the record is cut off"),
            Broken::At(byte) => write!(f, "column {}: not a record", byte + 1),
        }
    }
}

/// Hands the fields of a record and of its `args` to `visit`, in order.
///
/// Bytes after the closing brace are not looked at. Fields may have been visited before a fault is found.
pub(crate) fn visit_fields<'a>(
    line: &'a [u8],
    mut visit: impl FnMut(Depth, &'a [u8], Value<'a>),
) -> Result<(), Broken> {
    let mut cursor = Cursor { line, at: 0 };
    cursor.skip_space();
    cursor.expect(b'{')?;
    cursor.object(Depth::Record, &mut visit)
}

struct Cursor<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), Broken> {
        match self.peek() {
            Some(found) if found == byte => {
                self.at += 1;
                Ok(())
            }
            Some(_) => Err(Broken::At(self.at)),
            None => Err(Broken::Cut),
        }
    }

    /// The rest of an object whose opening brace was taken.
    fn object(
        &mut self,
        depth: Depth,
        visit: &mut impl FnMut(Depth, &'a [u8], Value<'a>),
    ) -> Result<(), Broken> {
        loop {
            self.skip_space();
            match self.peek() {
                Some(b'}') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b',') => {
                    self.at += 1;
                    continue;
                }
                _ => {}
            }
            self.expect(b'"')?;
            let key = self.key()?;
            self.skip_space();
            self.expect(b':')?;
            self.skip_space();
            if self.peek() == Some(b'{') && depth == Depth::Record && key == b"args" {
                self.at += 1;
                self.object(Depth::Args, visit)?;
            } else {
                visit(depth, key, self.value(false)?);
            }
        }
    }

    /// A key is a plain word.
    fn key(&mut self) -> Result<&'a [u8], Broken> {
        let start = self.at;
        let len = memchr::memchr(b'"', &self.line[start..]).ok_or(Broken::Cut)?;
        self.at = start + len + 1;
        Ok(&self.line[start..start + len])
    }

    /// A value, or a key if `may_be_key`.
    fn value(&mut self, may_be_key: bool) -> Result<Value<'a>, Broken> {
        match self.peek() {
            None => Err(Broken::Cut),
            Some(b'"') => {
                self.at += 1;
                let start = self.at;
                loop {
                    let rest = self.line.get(self.at..).ok_or(Broken::Cut)?;
                    let quote = self.at + memchr::memchr(b'"', rest).ok_or(Broken::Cut)?;
                    self.at = quote + 1;
                    if ends_a_string(&self.line[self.at..], may_be_key) {
                        return Ok(Value::Text(&self.line[start..quote]));
                    }
                }
            }
            Some(b'{' | b'[') => self.nested(),
            Some(_) => {
                let start = self.at;
                while self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || b"+-._".contains(&byte))
                {
                    self.at += 1;
                }
                match self.peek() {
                    None => Err(Broken::Cut),
                    Some(b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n') if self.at > start => {
                        Ok(Value::Bare(&self.line[start..self.at]))
                    }
                    Some(_) => Err(Broken::At(self.at)),
                }
            }
        }
    }

    /// Skips to the brace or bracket that closes the one here. Counts, so that no depth can exhaust the stack.
    fn nested(&mut self) -> Result<Value<'a>, Broken> {
        let start = self.at;
        let mut open = 0usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'{' | b'[' => open += 1,
                b'}' | b']' => open -= 1,
                b'"' => {
                    self.value(true)?;
                    continue;
                }
                _ => {}
            }
            self.at += 1;
            if open == 0 {
                return Ok(Value::Nested(&self.line[start..self.at]));
            }
        }
        Err(Broken::Cut)
    }
}

/// Whether a quote with `rest` after it closes its string: another field follows, or the object or array ends.
fn ends_a_string(rest: &[u8], may_be_key: bool) -> bool {
    let mut rest = rest.iter().copied().skip_while(|&byte| byte == b' ').peekable();
    match rest.next() {
        None | Some(b'}' | b']' | b'\r' | b'\n') => true,
        Some(b':') => may_be_key,
        Some(b',') => {
            // `","` inside a path would need a key after it to be taken for the end.
            !matches!(rest.find(|&byte| byte != b' '), Some(byte) if !matches!(byte, b'"' | b'{' | b'[' | b'0'..=b'9' | b'-'))
        }
        Some(_) => false,
    }
}

pub(crate) fn parse_u64(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    text.iter().try_fold(0u64, |value, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

pub(crate) fn parse_i64(text: &[u8]) -> Option<i64> {
    match text.strip_prefix(b"-") {
        Some(magnitude) => parse_u64(magnitude).and_then(|n| 0i64.checked_sub_unsigned(n)),
        None => parse_u64(text).and_then(|n| i64::try_from(n).ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fields(line: &str) -> Result<String, Broken> {
        let mut seen = Vec::new();
        visit_fields(line.as_bytes(), |depth, key, value| {
            let dot = if depth == Depth::Args { "." } else { "" };
            let value = match value {
                Value::Text(text) => format!("'{}'", text.escape_ascii()),
                Value::Bare(text) | Value::Nested(text) => text.escape_ascii().to_string(),
            };
            seen.push(format!("{dot}{}={value}", key.escape_ascii()));
        })?;
        Ok(seen.join(" "))
    }

    #[test]
    fn fields_of_a_record_and_of_its_args_are_told_apart() {
        let line = r#" {"id":1,"name":"read","args":{"ret":"8","cfg":{"a":[1,"}"]},"fd":16} , "ph":"X"},"#;
        assert_eq!(
            fields(line).unwrap(),
            r"id=1 name='read' .ret='8' .cfg={\x22a\x22:[1,\x22}\x22]} .fd=16 ph='X'"
                .replace(r"\x22", "\\\"")
        );
    }

    #[test]
    fn a_quote_inside_a_path_does_not_end_it() {
        let line = r#"{"args":{"fname":"/data/a "b" c","fd":3}}"#;
        assert_eq!(fields(line).unwrap(), r#".fname='/data/a \"b\" c' .fd=3"#);
    }

    #[test]
    fn a_bare_pointer_is_a_value() {
        assert_eq!(fields(r#"{"args": {"buf": 0x7fff, "count": 8}}"#).unwrap(), ".buf=0x7fff .count=8");
    }

    #[test]
    fn a_record_that_stops_early_is_cut() {
        let line = r#"{"id":1,"name":"read","args":{"ret":8}}"#;
        for len in 0..line.len() {
            assert_eq!(fields(&line[..len]), Err(Broken::Cut), "{}", &line[..len]);
        }
        assert_eq!(fields("]"), Err(Broken::At(0)));
        assert_eq!(fields(r#"{"id":}"#), Err(Broken::At(6)));
    }

    #[test]
    fn numbers_above_what_a_double_holds_stay_exact() {
        assert_eq!(Value::Bare(b"17868160079272185648").as_u64(), Some(17868160079272185648));
        assert_eq!(Value::Text(b"18446744073709551615").as_i64(), Some(-1));
        assert_eq!(Value::Bare(b"-9223372036854775808").as_i64(), Some(i64::MIN));
        assert_eq!(Value::Bare(b"99999999999999999999").as_u64(), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(line in prop::collection::vec(prop::sample::select(b"{}[]\",: a0\\".to_vec()), 0..60)) {
            let _ = visit_fields(&line, |_, _, _| {});
        }
    }
}
