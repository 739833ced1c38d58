//! The shell that every page has, and the parts that many have: sections, tables, lists of facts.

use std::fmt::Write;

use crate::palette;
use crate::policy::content_security_policy;
use crate::text;

/// Script that draws a picture again where a reader zooms, and sorts and searches tables.
pub const SCRIPT: &str = concat!("\n", include_str!("charts.js"), include_str!("ranks.js"));

/// The part of it that draws plots, sorts and searches: `charts.watch` does so for what is put on a page later.
pub const CHARTS: &str = include_str!("charts.js");

/// Style of all pages, without colours.
pub const STYLE: &str = include_str!("page.css");

/// End of every page whose content stands in `<main>`.
pub const FOOT: &str = "</main>\n</body>\n</html>\n";

/// The tag that opens a page; scripts learn from it which units the page has.
pub fn root() -> &'static str {
    if text::has_binary_units() { "<html lang=\"en\" data-units=\"iec\">\n" } else { "<html lang=\"en\">\n" }
}

/// The page up to its body. It will run `script` and wear `style`, and nothing else: the script must follow as it is here.
pub fn head(title: &str, style: &str, script: &str) -> String {
    format!(
        "<!DOCTYPE html>\n{}<head>\n<meta charset=\"utf-8\">\n\
         {}\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"iotide {}\">\n<title>{}</title>\n\
         <style>{style}</style>\n</head>\n<body>\n",
        root(),
        content_security_policy(script, style),
        env!("CARGO_PKG_VERSION"),
        escape(title),
    )
}

/// Returns the style of all pages, in light and in dark, and `more` after it.
pub fn own_style(more: &str) -> String {
    format!(
        "\n{}\n{}\n@media (prefers-color-scheme: dark){{{}}}\n{more}",
        STYLE,
        palette::style(&palette::LIGHT),
        palette::style(&palette::DARK),
    )
}

/// A part of the page.
#[derive(Clone, Debug)]
pub struct Section {
    /// The anchor, unique within a part.
    pub id: &'static str,
    /// The heading, as text.
    pub title: String,
    /// HTML; whatever came from a trace is escaped in it.
    pub body: String,
    /// Whether it may stand beside its neighbour where there is room.
    pub narrow: bool,
}

/// Rank of a section's heading.
#[derive(Clone, Copy, Debug)]
enum Heading {
    Section,
    Part,
}

impl Section {
    /// Writes sections one after the other; `prefix` tells the anchors of this part of the page from those of others.
    pub fn write_all(sections: &[Self], html: &mut String, prefix: &str) {
        write_sections(sections, Heading::Section, html, prefix);
    }

    /// Makes one section of several, with a heading below its own for each of them; `None` of none.
    pub fn of_parts(id: &'static str, title: &str, parts: &[Self], prefix: &str) -> Option<Self> {
        let mut body = String::new();
        write_sections(parts, Heading::Part, &mut body, prefix);
        (!parts.is_empty()).then(|| Self { id, title: title.to_owned(), body, narrow: false })
    }

    fn write(&self, heading: Heading, html: &mut String, prefix: &str) {
        let Self { id, title, body, narrow } = self;
        let tag = match heading {
            Heading::Section => "h2",
            Heading::Part => "h3",
        };
        let _ = writeln!(
            html,
            "<section id=\"{prefix}-{id}\"{}>\n<{tag}>{}</{tag}>\n{body}</section>",
            if *narrow { " class=\"narrow\"" } else { "" },
            escape(title)
        );
    }
}

/// Narrow neighbours fill two columns where there is room.
fn write_sections(sections: &[Section], heading: Heading, html: &mut String, prefix: &str) {
    for group in sections.chunk_by(|one, other| one.narrow && other.narrow) {
        let is_narrow = group.len() > 1;
        html.push_str(if is_narrow { "<div class=\"narrows\">\n" } else { "" });
        for section in group {
            section.write(heading, html, prefix);
        }
        html.push_str(if is_narrow { "</div>\n" } else { "" });
    }
}

/// A cell of a table that is sorted by a number, which is shown in words.
pub fn sorted_cell(value: f64, shown: &str) -> String {
    format!("<td data-v=\"{value:e}\">{}</td>", escape(shown))
}

/// Names and their values in a row of tiles, as text: the numbers one looks for first.
pub fn tiles<'a>(tiles: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let mut html = String::from("<dl class=\"tiles\">\n");
    for (name, value) in tiles {
        let _ = writeln!(html, "<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(&value));
    }
    html + "</dl>\n"
}

/// Names and what there is to say of each, as text.
pub fn facts(rows: impl IntoIterator<Item = (&'static str, String)>) -> String {
    let mut html = String::from("<dl class=\"facts\">\n");
    for (name, value) in rows {
        let _ = writeln!(html, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(&text::whole_numbers(&value)));
    }
    html + "</dl>\n"
}

/// A table, its cells as text.
pub fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let cells = |tag: &str, cells: &[String]| {
        cells
            .iter()
            .map(|cell| format!("<{tag}>{}</{tag}>", escape(&text::whole_numbers(cell))))
            .collect::<String>()
    };
    let mut html =
        format!("<table>\n<thead><tr>{}</tr></thead>\n<tbody>\n", cells("th", &head.map(str::to_owned)));
    for row in rows {
        let _ = writeln!(html, "<tr>{}</tr>", cells("td", &row));
    }
    html + "</tbody>\n</table>\n"
}

/// A sentence begins with a capital letter.
pub fn capitalised(words: &str) -> String {
    let mut chars = words.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

/// Returns text that is safe between tags and in quoted attributes of HTML and SVG.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // Not allowed in XML at all, and of no use in HTML.
            c if c.is_control() && c != '\n' && c != '\t' => safe.push('\u{fffd}'),
            // Would make what follows look as if it stood in another order.
            c if !c.is_control() && crate::text::steers(c) => safe.extend(c.escape_default()),
            c => safe.push(c),
        }
    }
    safe
}
