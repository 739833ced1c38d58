//! JSON as a stream of tokens, pulled one by one: nothing is built, nothing is kept.

use crate::{Place, error::Fault, number::prefix_f64, scanner::Scanner};

/// Next value of a JSON text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Object,
    Array,
    String,
    /// A number, or one of `nan`, `inf`, `Infinity`, which tools that print with `%f` leave in their files.
    Number,
    True,
    False,
    Null,
}

/// Pulls tokens out of a stream. Everything is checked where it is pulled: a caller that goes on after a [`Fault`]
/// must first find a place to go on from, such as the next line.
pub(crate) struct Json {
    pub(crate) scanner: Scanner,
}

impl Json {
    /// Strings are no longer than this.
    const LONGEST_STRING: usize = 64 << 10;
    /// Values are nested no deeper than this when they are skipped.
    const DEEPEST: usize = 128;
    /// More than any number needs; longer ones are faults.
    const LONGEST_NUMBER: usize = 512;

    pub(crate) fn new(scanner: Scanner) -> Self {
        Self { scanner }
    }

    /// Where it is, for messages.
    pub(crate) fn place(&self) -> Place {
        Place::Byte(self.scanner.offset())
    }

    fn fault<T>(&self, fault: &str) -> Result<T, Fault> {
        Err(Fault::at(self.place(), fault))
    }

    /// Skips space and returns the byte after it, which stays; `None` at the end.
    #[inline]
    pub(crate) fn peek_byte(&mut self) -> Result<Option<u8>, Fault> {
        loop {
            let text = self.scanner.want(1)?;
            let Some(n_space) = text.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
            else {
                if text.is_empty() {
                    return Ok(None);
                }
                let len = text.len();
                self.scanner.advance(len);
                continue;
            };
            let byte = text[n_space];
            self.scanner.advance(n_space);
            return Ok(Some(byte));
        }
    }

    /// Takes `byte` if it comes next.
    #[inline]
    fn take(&mut self, byte: u8) -> Result<bool, Fault> {
        let comes = self.peek_byte()? == Some(byte);
        if comes {
            self.scanner.advance(1);
        }
        Ok(comes)
    }

    /// Tells what value comes next, without taking it.
    pub(crate) fn next(&mut self) -> Result<Next, Fault> {
        match self.peek_byte()? {
            Some(b'{') => Ok(Next::Object),
            Some(b'[') => Ok(Next::Array),
            Some(b'"') => Ok(Next::String),
            Some(b't') => Ok(Next::True),
            Some(b'f') => Ok(Next::False),
            Some(b'n') if self.scanner.want(2)?.get(1) == Some(&b'u') => Ok(Next::Null),
            Some(b'-' | b'+' | b'.' | b'0'..=b'9' | b'n' | b'N' | b'i' | b'I') => Ok(Next::Number),
            Some(byte) => {
                let fault = format!("a value cannot begin with \"{}\"", byte.escape_ascii());
                Err(Fault::at(self.place(), fault))
            }
            None => self.fault("the text ends where a value should be"),
        }
    }

    /// Enters an object; then call [`Json::key`] until there is none.
    pub(crate) fn enter_object(&mut self) -> Result<(), Fault> {
        if self.take(b'{')? { Ok(()) } else { self.fault("an object should be here") }
    }

    /// Takes the next key and its colon into `key`; `false` when the object ended. `first` is true for the first key.
    pub(crate) fn key(&mut self, first: &mut bool, key: &mut String) -> Result<bool, Fault> {
        if self.take(b'}')? {
            return Ok(false);
        }
        if !std::mem::take(first) {
            if !self.take(b',')? {
                return self.fault("a comma should be here");
            }
            // A comma before the end: TMIO and people write it.
            if self.take(b'}')? {
                return Ok(false);
            }
        }
        self.string(key)?;
        if !self.take(b':')? {
            return self.fault("a colon should be here");
        }
        Ok(true)
    }

    /// Enters an array; then call [`Json::element`] until there is none.
    pub(crate) fn enter_array(&mut self) -> Result<(), Fault> {
        if self.take(b'[')? { Ok(()) } else { self.fault("an array should be here") }
    }

    /// Moves to the next element; `false` when the array ended. `first` is true for the first element.
    #[inline]
    pub(crate) fn element(&mut self, first: &mut bool) -> Result<bool, Fault> {
        match self.peek_byte()? {
            Some(b']') => {
                self.scanner.advance(1);
                Ok(false)
            }
            _ if std::mem::take(first) => Ok(true),
            Some(b',') => {
                self.scanner.advance(1);
                Ok(!self.take(b']')?)
            }
            Some(_) => self.fault("a comma should be here"),
            None => self.fault("the text ends inside an array"),
        }
    }

    /// Takes a string.
    pub(crate) fn string(&mut self, string: &mut String) -> Result<(), Fault> {
        string.clear();
        if !self.take(b'"')? {
            return self.fault("a string should be here");
        }
        let mut searched = 0;
        let mut has_escapes = false;
        let end = loop {
            let text = self.scanner.buffered();
            match memchr::memchr2(b'"', b'\\', &text[searched.min(text.len())..]) {
                Some(found) if text[searched + found] == b'"' => break searched + found,
                Some(found) => {
                    has_escapes = true;
                    searched += found + 2;
                }
                None => {
                    let had = text.len();
                    searched = searched.max(had);
                    if had > Self::LONGEST_STRING {
                        return self.fault("a string that is far too long");
                    }
                    if self.scanner.want_more(usize::MAX)?.len() == had {
                        return self.fault("the text ends inside a string");
                    }
                }
            }
        };
        let text = &self.scanner.buffered()[..end];
        if has_escapes {
            match unescape(text) {
                Some(unescaped) => *string = unescaped,
                None => return self.fault("a string with an escape that does not exist"),
            }
        } else {
            string.push_str(&String::from_utf8_lossy(text));
        }
        self.scanner.advance(end + 1);
        Ok(())
    }

    /// Takes a number; `null`, `nan` and the like are NaN or infinite.
    #[inline]
    pub(crate) fn number(&mut self) -> Result<f64, Fault> {
        self.peek_byte()?;
        let text = self.number_or_word()?;
        if let Some((value, len)) = prefix_f64(text)
            && len < Self::LONGEST_NUMBER
        {
            self.scanner.advance(len);
            return Ok(value);
        }
        self.word_as_number()
    }

    /// Returns the buffered bytes, with all of the number or word that comes next unless it is far too long.
    #[inline]
    fn number_or_word(&mut self) -> Result<&[u8], Fault> {
        if self.scanner.buffered().len() < Self::LONGEST_NUMBER {
            self.fetch_number_or_word()?;
        }
        Ok(self.scanner.buffered())
    }

    #[cold]
    fn fetch_number_or_word(&mut self) -> Result<(), Fault> {
        let goes_on = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
        loop {
            let text = self.scanner.buffered();
            if text.len() >= Self::LONGEST_NUMBER || !text.iter().all(goes_on) || self.scanner.is_drained() {
                return Ok(());
            }
            self.scanner.want_more(Self::LONGEST_NUMBER)?;
        }
    }

    #[cold]
    fn word_as_number(&mut self) -> Result<f64, Fault> {
        if self.scanner.buffered().is_empty() {
            return self.fault("the text ends where a number should be");
        }
        let text = self.scanner.buffered();
        let (negative, word) = match text.first() {
            Some(b'-') => (true, &text[1..]),
            Some(b'+') => (false, &text[1..]),
            _ => (false, text),
        };
        let n_letters = word.iter().position(|byte| !byte.is_ascii_alphanumeric()).unwrap_or(word.len());
        let value = match word[..n_letters].to_ascii_lowercase().as_slice() {
            b"nan" | b"null" => f64::NAN,
            b"inf" | b"infinity" if negative => f64::NEG_INFINITY,
            b"inf" | b"infinity" => f64::INFINITY,
            _ => return self.fault("a number should be here"),
        };
        let len = text.len() - word.len() + n_letters;
        self.scanner.advance(len);
        Ok(value)
    }

    /// Takes whatever value comes next and forgets it.
    pub(crate) fn skip(&mut self) -> Result<(), Fault> {
        match self.next()? {
            Next::Object | Next::Array => {
                self.scanner.advance(1);
                self.skip_to_end_of_container()
            }
            Next::String => self.string(&mut String::new()),
            Next::Number => self.number().map(drop),
            Next::True | Next::False | Next::Null => {
                let is_letter = |byte: &&u8| byte.is_ascii_alphabetic();
                let n_letters = self.number_or_word()?.iter().take(8).take_while(is_letter).count();
                self.scanner.advance(n_letters);
                Ok(())
            }
        }
    }

    /// Passes over what is left of an array, its end included.
    pub(crate) fn skip_rest_of_array(&mut self) -> Result<(), Fault> {
        self.skip_to_end_of_container()
    }

    /// Looks at brackets and strings only: what lies between them is forgotten anyway.
    fn skip_to_end_of_container(&mut self) -> Result<(), Fault> {
        /// Small enough that a bracket nearby is not paid for with a search through the whole buffer.
        const BLOCK: usize = 1 << 10;
        let mut depth = 1usize;
        let mut string = String::new();
        loop {
            let text = self.scanner.want(1)?;
            if text.is_empty() {
                return self.fault("the text ends inside a value");
            }
            let block = &text[..text.len().min(BLOCK)];
            let opening = memchr::memchr3(b'[', b'{', b'"', block);
            let closing = memchr::memchr2(b']', b'}', &block[..opening.unwrap_or(block.len())]);
            let Some(at) = closing.or(opening) else {
                let len = block.len();
                self.scanner.advance(len);
                continue;
            };
            let is_string = block[at] == b'"';
            self.scanner.advance(at);
            if is_string {
                self.string(&mut string)?;
                continue;
            }
            self.scanner.advance(1);
            depth = if closing.is_some() { depth - 1 } else { depth + 1 };
            if depth == 0 {
                return Ok(());
            }
            if depth > Self::DEEPEST {
                return self.fault("values nested too deep");
            }
        }
    }
}

/// Returns the string that `escaped` (without its quotes) stands for; bytes that are no UTF-8 become `�`.
pub(crate) fn unescape(escaped: &[u8]) -> Option<String> {
    let escaped = String::from_utf8_lossy(escaped);
    let mut string = String::with_capacity(escaped.len());
    let mut rest = escaped.as_ref();
    while let Some(backslash) = rest.find('\\') {
        string.push_str(&rest[..backslash]);
        let mut chars = rest[backslash + 1..].chars();
        string.push(match chars.next()? {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            same @ ('"' | '\\' | '/') => same,
            'u' => {
                let mut unit = || -> Option<u32> {
                    let hex = chars.as_str().get(..4)?;
                    chars = chars.as_str()[4..].chars();
                    u32::from_str_radix(hex, 16).ok()
                };
                let first = unit()?;
                if (0xd800..0xdc00).contains(&first) {
                    chars = chars.as_str().strip_prefix("\\u")?.chars();
                    let mut unit = || -> Option<u32> {
                        let hex = chars.as_str().get(..4)?;
                        chars = chars.as_str()[4..].chars();
                        u32::from_str_radix(hex, 16).ok()
                    };
                    let second = unit()?.checked_sub(0xdc00).filter(|second| *second < 0x400)?;
                    char::from_u32(0x10000 + ((first - 0xd800) << 10) + second)?
                } else {
                    char::from_u32(first)?
                }
            }
            _ => return None,
        });
        rest = chars.as_str();
    }
    string.push_str(rest);
    Some(string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn json(text: &str) -> Json {
        Json::new(Scanner::new(Box::new(Cursor::new(text.as_bytes().to_vec()))))
    }

    #[test]
    fn escapes_stand_for_what_they_say() {
        assert_eq!(unescape(br#"a\"b\\c\n\u00e9\ud83d\ude00/"#).unwrap(), "a\"b\\c\né😀/");
        for bad in [&b"\\x"[..], b"\\u12", b"\\ud83d", b"\\ud83d\\u0041", b"\\", b"\\ude00"] {
            assert_eq!(unescape(bad), None, "{}", bad.escape_ascii());
        }
    }

    #[test]
    fn numbers_that_are_none_are_read_as_what_they_are() {
        for (text, expected) in [("inf", f64::INFINITY), ("-Infinity", f64::NEG_INFINITY), ("1.5e3", 1500.0)]
        {
            assert_eq!(json(text).number().unwrap(), expected);
        }
        for text in ["NaN", "-nan", "nan", "null"] {
            assert!(json(text).number().unwrap().is_nan(), "{text}");
        }
        assert!(json("true").number().is_err());
    }

    #[test]
    fn skipping_ends_exactly_behind_the_value() {
        for value in [
            "[1, [2, {\"a]\": \"}\"}], 3]",
            "\"a\\\"b\"",
            "12",
            "{}",
            "[[],[]]",
            "{\"x\": [1,2], \"y\": null}",
        ] {
            let mut json = json(&format!("{value} , 7"));
            json.skip().unwrap();
            assert_eq!(json.peek_byte().unwrap(), Some(b','), "{value}");
        }
    }

    #[test]
    fn nesting_has_a_limit() {
        assert!(json(&"[".repeat(100_000)).skip().is_err());
    }
}
