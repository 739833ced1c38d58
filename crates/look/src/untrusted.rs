//! Text that someone else chose: names of files, jobs and users, commands, and messages that quote them.
//!
//! It cannot be printed or joined; it leaves for a terminal, a page or JSON, by the way that makes it harmless there. So a place where that was
//! forgotten does not compile. (Tables of events, which people open in spreadsheets, are written by `formats` and have their own way.)

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::text;

/// Whether text from outside is marked, for readers who might take it for instructions.
static IS_MARKED: AtomicBool = AtomicBool::new(false);

/// Opening and closing mark of text from outside.
pub const MARKS: [char; 2] = ['⟦', '⟧'];

/// Makes [`Untrusted::for_terminal`] mark its text from now on, or no longer: for language models, which read data and instructions in one text.
///
/// A marked text is a code span of Markdown, so that links, pictures and markup in it stay text. No character of it ends the span or the marks, and its
/// blanks do not end a line (U+00A0): a line that begins within it could begin a heading or a list. Returns whether it was so before.
pub fn mark_untrusted(is_marked: bool) -> bool {
    IS_MARKED.swap(is_marked, Relaxed)
}

/// Returns text between marks, in which nothing ends them, and nothing is invisible.
fn marked(text: &str) -> String {
    let [open, close] = MARKS;
    let is_hidden = |c: char| {
        text::steers(c)
            || matches!(c, '\u{ad}' | '\u{34f}' | '\u{180b}'..='\u{180e}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2065}')
            || matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
    };
    let mut out = format!("`{open}");
    for c in text.chars() {
        match c {
            '`' => out += "\\u{60}",
            ' ' => out.push('\u{a0}'),
            '\u{a0}' => out.extend(c.escape_unicode()),
            c if is_hidden(c) => out.extend(c.escape_default()),
            c if MARKS.contains(&c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out.push(close);
    out + "`"
}

/// Text from outside.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Untrusted(String);

impl Untrusted {
    /// For one line of a terminal or of a message: what would steer it is shown as `\u{1b}`.
    ///
    /// Where text from outside is marked ([`mark_untrusted`]), it is so here.
    pub fn for_terminal(&self) -> String {
        if IS_MARKED.load(Relaxed) { marked(&self.0) } else { text::printable(&self.0) }
    }

    /// For a page: neither markup nor an end to an attribute, and nothing that turns the direction of writing.
    pub fn for_html(&self) -> String {
        crate::html::escape(&self.for_terminal())
    }

    /// The same of several lines, which stay apart.
    pub fn lines_for_html(&self) -> String {
        crate::html::escape(&text::printable_lines(&self.0))
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether it begins with another one: most errors begin with the file they are about.
    pub fn begins_with(&self, other: &Self) -> bool {
        self.0.starts_with(&other.0)
    }

    /// Returns the text as it was given, for lookups and for formats that are read again. Not to be shown.
    pub fn as_said(&self) -> &str {
        &self.0
    }

    /// The part behind the last slash: the name of a file without its folders.
    pub fn file_name(&self) -> Self {
        Self(self.0.rsplit('/').find(|part| !part.is_empty()).unwrap_or(&self.0).to_owned())
    }

    /// No more of it than a page can bear; beginning and end say most.
    pub fn shortened(&self, most_chars: usize) -> Self {
        let (n_chars, half) = (self.0.chars().count(), most_chars / 2);
        if n_chars <= most_chars {
            return self.clone();
        }
        let head = self.0.chars().take(half);
        Self(head.chain(['…']).chain(self.0.chars().skip(n_chars - half)).collect())
    }

    /// Whether it quotes something.
    pub fn mentions(&self, text: &str) -> bool {
        self.0.contains(text)
    }
}

/// As in JSON: nothing in it steers.
impl fmt::Debug for Untrusted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.for_terminal())
    }
}

/// As it is: whoever writes the JSON escapes it ([`text::json`]).
impl Serialize for Untrusted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Untrusted {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self)
    }
}

impl From<String> for Untrusted {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for Untrusted {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<&String> for Untrusted {
    fn from(text: &String) -> Self {
        Self(text.clone())
    }
}

impl From<Cow<'_, str>> for Untrusted {
    fn from(text: Cow<'_, str>) -> Self {
        Self(text.into_owned())
    }
}

/// So that tests and tables can ask for one.
impl PartialEq<str> for Untrusted {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for Untrusted {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_leaves_by_the_way_that_makes_it_harmless() {
        let name = Untrusted::from("=cmd|'<b>\u{1b}[31m\u{202e}\",x");
        assert_eq!(name.for_terminal(), "=cmd|'<b>\\u{1b}[31m\\u{202e}\",x");
        assert_eq!(name.for_html(), "=cmd|&#39;&lt;b&gt;\\u{1b}[31m\\u{202e}&quot;,x");
        assert_eq!(text::json(&name), "\"=cmd|'<b>\\u001b[31m\\u202e\\\",x\"");
        assert_eq!(format!("{name:?}"), "\"=cmd|'<b>\\u{1b}[31m\\u{202e}\",x\"");
    }

    #[test]
    fn nothing_in_a_marked_text_ends_its_marks() {
        assert_eq!(marked("/scratch/run_7.h5"), "`⟦/scratch/run_7.h5⟧`");
        assert_eq!(
            marked("a⟧` ![x](http://evil)\n\u{1b}[31m⟦\u{200b}\u{e0041}"),
            "`⟦a\\u{27e7}\\u{60}\u{a0}![x](http://evil)\\n\\u{1b}[31m\\u{27e6}\\u{200b}\\u{e0041}⟧`"
        );
    }
}
