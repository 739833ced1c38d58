//! Which files are meant.

/// A pattern as shells have them: `*` and `?` stop at `/`, `**` does not, `[a-z]` and `[!a-z]` are one byte.
///
/// Without `/` it is compared with the last name of a path, else with all of it from the top.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// As it was written.
    text: String,
    tokens: Vec<Token>,
    is_whole_path: bool,
}

#[derive(Clone, Debug)]
enum Token {
    Byte(u8),
    One,
    Many,
    ManyWithSlashes,
    Class { is_other: bool, ranges: Vec<(u8, u8)> },
}

/// Why a pattern is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{pattern}' is no pattern: {why}")]
pub struct PatternError {
    pattern: String,
    why: &'static str,
}

impl Pattern {
    /// Longer ones are not for people.
    const MAX: usize = 4096;

    /// Reads one.
    pub fn parse(pattern: &str) -> Result<Self, PatternError> {
        let refused = |why| PatternError { pattern: pattern.chars().take(100).collect(), why };
        if pattern.is_empty() || pattern.len() > Self::MAX {
            return Err(refused("it must have 1 to 4096 bytes"));
        }
        let trimmed = pattern.strip_prefix('/').unwrap_or(pattern);
        let mut tokens = Vec::new();
        let mut rest = trimmed.as_bytes();
        while let Some((&byte, after)) = rest.split_first() {
            rest = after;
            tokens.push(match byte {
                b'?' => Token::One,
                b'*' if rest.first() == Some(&b'*') => {
                    rest = &rest[1..];
                    Token::ManyWithSlashes
                }
                b'*' => Token::Many,
                b'\\' => {
                    let (&byte, after) =
                        rest.split_first().ok_or_else(|| refused("it ends in a backslash"))?;
                    rest = after;
                    Token::Byte(byte)
                }
                b'[' => {
                    let (class, after) = class(rest).ok_or_else(|| refused("a '[' has no ']'"))?;
                    rest = after;
                    class
                }
                byte => Token::Byte(byte),
            });
        }
        Ok(Self { text: pattern.to_owned(), tokens, is_whole_path: pattern.contains('/') })
    }

    /// Whether the path, relative to the top, is meant.
    pub fn matches(&self, path: &[u8]) -> bool {
        let text =
            if self.is_whole_path { path } else { path.rsplit(|byte| *byte == b'/').next().unwrap_or(path) };
        // Which tokens may come next; `n` is the end. No backtracking, so no pattern takes long.
        let n = self.tokens.len();
        let mut now = vec![false; n + 1];
        now[0] = true;
        self.skip_empty(&mut now);
        for &byte in text {
            let mut next = vec![false; n + 1];
            for (at, token) in self.tokens.iter().enumerate().filter(|(at, _)| now[*at]) {
                if token.takes(byte) {
                    next[if token.is_many() { at } else { at + 1 }] = true;
                }
            }
            self.skip_empty(&mut next);
            now = next;
        }
        now[n]
    }

    fn skip_empty(&self, states: &mut [bool]) {
        for (at, token) in self.tokens.iter().enumerate() {
            if states[at] && token.is_many() {
                states[at + 1] = true;
            }
        }
    }
}

impl Token {
    fn is_many(&self) -> bool {
        matches!(self, Token::Many | Token::ManyWithSlashes)
    }

    fn takes(&self, byte: u8) -> bool {
        match self {
            Token::Byte(one) => *one == byte,
            Token::One | Token::Many => byte != b'/',
            Token::ManyWithSlashes => true,
            Token::Class { is_other, ranges } => {
                byte != b'/' && *is_other != ranges.iter().any(|(from, to)| (*from..=*to).contains(&byte))
            }
        }
    }
}

fn class(text: &[u8]) -> Option<(Token, &[u8])> {
    let (is_other, text) = match text.first()? {
        b'!' | b'^' => (true, &text[1..]),
        _ => (false, text),
    };
    // A ']' that comes first is one of the bytes.
    let end = 1 + text.get(1..)?.iter().position(|byte| *byte == b']')?;
    let (bytes, rest) = (&text[..end], &text[end + 1..]);
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if bytes.get(at + 1) == Some(&b'-') && at + 2 < bytes.len() {
            ranges.push((bytes[at], bytes[at + 2]));
            at += 3;
        } else {
            ranges.push((bytes[at], bytes[at]));
            at += 1;
        }
    }
    Some((Token::Class { is_other, ranges }, rest))
}

/// Which files of a tree are staged, and which of them first.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only these, if there are any.
    pub include: Vec<Pattern>,
    /// Not these.
    pub exclude: Vec<Pattern>,
    /// These before others, in the order of the patterns.
    pub first: Vec<Pattern>,
}

impl Filter {
    /// Whether a file is staged.
    pub fn takes(&self, path: &[u8]) -> bool {
        let any = |patterns: &[Pattern]| patterns.iter().any(|pattern| pattern.matches(path));
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }

    /// Returns the patterns of [`Filter::takes`], for another process to read: `+` and `-` before patterns, each of which ends in a zero byte.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let kinds = [(b'+', &self.include), (b'-', &self.exclude)];
        let patterns =
            kinds.into_iter().flat_map(|(kind, patterns)| patterns.iter().map(move |it| (kind, it)));
        patterns.flat_map(|(kind, pattern)| [&[kind], pattern.text.as_bytes(), &[0]].concat()).collect()
    }

    /// Reads what [`Filter::to_bytes`] wrote; `None` if it is not that.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut filter = Self::default();
        for pattern in bytes.split_inclusive(|byte| *byte == 0) {
            let (kind, pattern) = pattern.strip_suffix(&[0])?.split_first()?;
            let pattern = Pattern::parse(std::str::from_utf8(pattern).ok()?).ok()?;
            match kind {
                b'+' => filter.include.push(pattern),
                b'-' => filter.exclude.push(pattern),
                _ => return None,
            }
        }
        Some(filter)
    }

    /// Its rank among those that come first.
    pub fn rank(&self, path: &[u8]) -> usize {
        self.first.iter().position(|pattern| pattern.matches(path)).unwrap_or(self.first.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_in_a_shell() {
        for (pattern, path, is_so) in [
            ("*.h5", "a/b/out.h5", true),
            ("*.h5", "a/b.h5/out", false),
            ("a/*.h5", "a/out.h5", true),
            ("a/*.h5", "a/b/out.h5", false),
            ("a/**", "a/b/out.h5", true),
            ("**/out.h5", "a/b/out.h5", true),
            ("/out", "out", true),
            ("/out", "a/out", false),
            ("step-[0-9][!a]", "step-4b", true),
            ("step-[0-9][!a]", "step-4a", false),
            ("[]]x", "]x", true),
            ("?", "é", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
        ] {
            assert_eq!(Pattern::parse(pattern).unwrap().matches(path.as_bytes()), is_so, "{pattern} {path}");
        }
        assert!(Pattern::parse("*").unwrap().matches(b"\xff\xfe"));
        assert!(
            Pattern::parse("").is_err() && Pattern::parse("[a").is_err() && Pattern::parse("\\").is_err()
        );
    }

    #[test]
    fn what_is_staged_is_the_same_for_another_process() {
        let patterns = |texts: &[&str]| texts.iter().map(|text| Pattern::parse(text).unwrap()).collect();
        let filter = Filter {
            include: patterns(&["*.h5", "a\nb"]),
            exclude: patterns(&["/tmp/**", "[!x]"]),
            first: patterns(&["x"]),
        };
        let bytes = filter.to_bytes();
        let read = Filter::from_bytes(&bytes).unwrap();
        assert_eq!(read.to_bytes(), bytes);
        for (path, is_taken) in [("b/c.h5", true), ("a\nb", true), ("tmp/c.h5", false), ("c.txt", false)] {
            assert_eq!((filter.takes(path.as_bytes()), read.takes(path.as_bytes())), (is_taken, is_taken));
        }
        assert!(Filter::from_bytes(b"").unwrap().takes(b"anything"));
        assert!(
            (1..bytes.len()).filter(|n| bytes[n - 1] != 0).all(|n| Filter::from_bytes(&bytes[..n]).is_none())
        );
        assert!(
            [&b"+\0"[..], b"?x\0", b"-\xff\0"].into_iter().all(|bytes| Filter::from_bytes(bytes).is_none())
        );
    }

    #[test]
    fn a_pattern_of_many_stars_takes_no_longer_than_others() {
        let pattern = Pattern::parse(&"*a".repeat(1000)).unwrap();
        assert!(!pattern.matches(&[b'b'; 4000]));
    }
}
