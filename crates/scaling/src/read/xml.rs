//! As much XML as a Cube profile's `anchor.xml` needs: elements, attributes, text.

/// Next piece of a document.
#[derive(Debug, PartialEq)]
pub(super) enum Piece {
    /// An element begins; one that ends at once is followed by its end.
    Open { name: String, attributes: Vec<(String, String)> },
    /// Text between two tags, without the blanks around it.
    Text(String),
    /// An element ends.
    Close { name: String },
}

/// Hands out the pieces of a document one by one; ends where it is broken.
pub(super) struct Pieces<'a> {
    text: &'a str,
    at: usize,
    /// The end that follows an element without content.
    pending: Option<String>,
}

impl<'a> Pieces<'a> {
    pub(super) fn of(text: &'a str) -> Self {
        Self { text, at: 0, pending: None }
    }

    /// Where reading stands, in bytes.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Whether nothing but blanks is left.
    pub(super) fn is_done(&self) -> bool {
        self.pending.is_none() && self.text[self.at..].trim().is_empty()
    }

    /// Passes over everything up to and including `end`.
    fn skip(&mut self, end: &str) -> Option<()> {
        self.at += self.text[self.at..].find(end)? + end.len();
        Some(())
    }

    fn element(&mut self) -> Option<Piece> {
        let inside = &self.text[self.at + 1..];
        // A `>` may stand inside a quoted value.
        let mut quote = None;
        let length = inside.char_indices().find_map(|(i, c)| {
            match (quote, c) {
                (None, '>') => return Some(i),
                (None, '"' | '\'') => quote = Some(c),
                (Some(open), c) if c == open => quote = None,
                _ => {}
            }
            None
        })?;
        self.at += 1 + length + 1;
        let tag = &inside[..length];
        if let Some(name) = tag.strip_prefix('/') {
            return Some(Piece::Close { name: name.trim().to_owned() });
        }
        let (tag, is_empty) = match tag.strip_suffix('/') {
            Some(tag) => (tag, true),
            None => (tag, false),
        };
        let (name, mut rest) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
        let mut attributes = Vec::new();
        while let Some((key, value)) = rest.split_once('=') {
            let value = value.trim_start();
            let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''))?;
            let (value, after) = value[1..].split_once(quote)?;
            attributes.push((key.trim().to_owned(), unescape(value)));
            rest = after;
        }
        if is_empty {
            self.pending = Some(name.to_owned());
        }
        Some(Piece::Open { name: name.to_owned(), attributes })
    }
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if let Some(name) = self.pending.take() {
            return Some(Piece::Close { name });
        }
        loop {
            let rest = &self.text[self.at..];
            if rest.starts_with("<?") {
                self.skip("?>")?;
            } else if rest.starts_with("<!--") {
                self.skip("-->")?;
            } else if let Some(data) = rest.strip_prefix("<![CDATA[") {
                let data = &data[..data.find("]]>")?];
                self.skip("]]>")?;
                return Some(Piece::Text(data.to_owned()));
            } else if rest.starts_with("<!") {
                self.skip(">")?;
            } else if rest.starts_with('<') {
                return self.element();
            } else {
                let length = rest.find('<')?;
                self.at += length;
                let text = rest[..length].trim();
                if !text.is_empty() {
                    return Some(Piece::Text(unescape(text)));
                }
            }
        }
    }
}

/// The five names of characters, and characters by number; what is none of them stays as it is.
fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let known = rest.find(';').and_then(|end| {
            let number =
                |digits: &str, radix: u32| u32::from_str_radix(digits, radix).ok().and_then(char::from_u32);
            let c = match &rest[1..end] {
                "lt" => '<',
                "gt" => '>',
                "amp" => '&',
                "quot" => '"',
                "apos" => '\'',
                name => match name.strip_prefix("#x") {
                    Some(digits) => number(digits, 16)?,
                    None => number(name.strip_prefix('#')?, 10)?,
                },
            };
            Some((c, end + 1))
        });
        let (c, length) = known.unwrap_or(('&', 1));
        out.push(c);
        rest = &rest[length..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn elements_attributes_and_text_come_out_in_order() {
        let text = "<?xml version='1.0'?><!-- <x> --><a k=\"1 &gt; 0\" l='&#65;'>b &amp; c<d/></a>";
        let pieces: Vec<Piece> = Pieces::of(text).collect();
        let open = |name: &str, attributes: &[(&str, &str)]| Piece::Open {
            name: name.into(),
            attributes: attributes.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect(),
        };
        let close = |name: &str| Piece::Close { name: name.into() };
        assert_eq!(
            pieces,
            [
                open("a", &[("k", "1 > 0"), ("l", "A")]),
                Piece::Text("b & c".into()),
                open("d", &[]),
                close("d"),
                close("a")
            ]
        );
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "[<>/a='\"!?&;#x \\-\\[\\]é]*") {
            Pieces::of(&text).for_each(drop);
        }
    }
}
