//! Pages in Markdown as text for a terminal: headings, wrapped paragraphs, lists, tables and code.

use iotide_report::Ink;
use iotide_report::text::wrap;

/// Returns a page in lines of at most `width` columns; code is kept as it is.
pub(super) fn plain(page: &str, width: usize, ink: Ink) -> String {
    let mut out = Out { text: String::new(), width, ink };
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        let mut block = |is_part: &dyn Fn(&str) -> bool| {
            let mut block = vec![line];
            while let Some(next) = lines.next_if(|next| is_part(next)) {
                block.push(next);
            }
            block
        };
        let trimmed = line.trim_start();
        if trimmed.starts_with("```") {
            let code = block(&|next| !next.trim_start().starts_with("```"));
            out.code(&code[1..]);
            lines.next();
        } else if trimmed.starts_with("<!--") {
            let ends = line.contains("-->");
            if !ends {
                block(&|next| !next.contains("-->"));
                lines.next();
            }
        } else if let Some(heading) = heading(line) {
            out.heading(heading);
        } else if line.starts_with('|') {
            out.table(&block(&|next| next.starts_with('|')));
        } else if !trimmed.is_empty() {
            let is_text = |next: &str| {
                let next = next.trim_start();
                let begins = next.starts_with("```") || next.starts_with('|') || next.starts_with("<!--");
                !next.is_empty() && !begins && heading(next).is_none() && bullet(next).is_none()
            };
            out.paragraph(&block(&is_text));
        } else {
            out.blank();
        }
    }
    out.text.truncate(out.text.trim_end().len());
    out.text + "\n"
}

/// The depth and the text of a heading.
fn heading(line: &str) -> Option<(usize, &str)> {
    let depth = line.bytes().take_while(|byte| *byte == b'#').count();
    let text = line.get(depth..)?.strip_prefix(' ')?;
    (1..=6).contains(&depth).then_some((depth, text))
}

/// Mark at the beginning of a line of a list.
fn bullet(line: &str) -> Option<&str> {
    let number = line.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
    let end = if number > 0 && line[number..].starts_with(". ") { number + 2 } else { 2 };
    let is_one = end > 2 || line.starts_with("* ") || line.starts_with("- ") || line.starts_with("> ");
    is_one.then(|| &line[..end])
}

/// Text without marks for emphasis; of a link, its text, and where it leads if that is not said.
fn inline(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['[', '`', '*']) {
        out += &rest[..at];
        rest = &rest[at..];
        if rest.starts_with('`') {
            // Code keeps its marks, and everything between them.
            let end = rest[1..].find('`').map_or(rest.len(), |end| end + 2);
            out += &rest[..end];
            rest = &rest[end..];
        } else if let Some(behind) = rest.strip_prefix("**") {
            rest = behind;
        } else if let Some((shown, target, behind)) = link(rest) {
            out += &inline(shown);
            let page = target.split('#').next().unwrap_or_default();
            if target.starts_with("http") {
                out += &format!(" ({target})");
            } else if let Some(name) = page.strip_suffix(".md").filter(|name| !shown.contains(name)) {
                out += &format!(" ({}.md)", name.trim_start_matches("../"));
            }
            rest = behind;
        } else {
            out += &rest[..1];
            rest = &rest[1..];
        }
    }
    out + rest
}

/// The text and the target of a link at the beginning, and what stands behind it.
fn link(text: &str) -> Option<(&str, &str, &str)> {
    let (shown, behind) = text.strip_prefix('[')?.split_once("](")?;
    let (target, behind) = behind.split_once(')')?;
    (!shown.contains('[')).then_some((shown, target, behind))
}

struct Out {
    text: String,
    width: usize,
    ink: Ink,
}

impl Out {
    fn line(&mut self, line: &str) {
        self.text += line.trim_end();
        self.text.push('\n');
    }

    /// One empty line, however many there are.
    fn blank(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    fn heading(&mut self, (depth, text): (usize, &str)) {
        self.blank();
        let text = inline(text);
        let underline = match depth {
            1 => "=",
            2 => "-",
            _ => "",
        };
        self.line(&self.ink.bold(&text));
        self.line(&underline.repeat(text.chars().count()));
        self.text.truncate(self.text.trim_end().len() + 1);
    }

    fn code(&mut self, lines: &[&str]) {
        for line in lines {
            self.line(&format!("    {line}"));
        }
    }

    /// A paragraph, or an entry of a list, whose further lines stand below its text.
    fn paragraph(&mut self, lines: &[&str]) {
        let indent = lines[0].len() - lines[0].trim_start().len();
        let first = lines[0].trim_start();
        let mark = bullet(first).unwrap_or("");
        let rest = lines[1..].iter().map(|line| line.trim());
        let text: Vec<&str> = std::iter::once(first[mark.len()..].trim()).chain(rest).collect();
        let margin = indent + mark.chars().count();
        for (i, line) in
            wrap(&inline(&text.join(" ")), self.width.saturating_sub(margin).max(20)).iter().enumerate()
        {
            let before = if i == 0 { " ".repeat(indent) + mark } else { " ".repeat(margin) };
            self.line(&format!("{before}{line}"));
        }
    }

    /// A table with cells wrapped so that it fits.
    fn table(&mut self, lines: &[&str]) {
        let rows: Vec<Vec<String>> = lines.iter().map(|line| cells(line)).collect();
        let n_columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |column: usize| {
            rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let is_rule = |row: &[String]| {
            row.iter().all(|cell| !cell.is_empty() && cell.chars().all(|c| matches!(c, '-' | ':')))
        };
        let mut widths: Vec<usize> = (0..n_columns).map(widest).collect();
        let room = self.width.saturating_sub(2 * n_columns.saturating_sub(1));
        while widths.iter().sum::<usize>() > room {
            let Some(longest) = widths.iter_mut().max().filter(|longest| **longest > 8) else { break };
            *longest -= 1;
        }
        // A table without a head has an empty one.
        let is_headless = rows.first().is_some_and(|row| row.iter().all(String::is_empty));
        for row in rows.iter().skip(if is_headless { 2 } else { 0 }) {
            if is_rule(row) {
                let rules: Vec<String> = widths.iter().map(|width| "-".repeat(*width)).collect();
                self.line(&rules.join("  "));
                continue;
            }
            let wrapped: Vec<Vec<String>> =
                row.iter().zip(&widths).map(|(cell, width)| wrap(cell, *width)).collect();
            for i in 0..wrapped.iter().map(Vec::len).max().unwrap_or(0) {
                let cells = wrapped.iter().zip(&widths).map(|(cell, width)| {
                    let part = cell.get(i).map_or("", String::as_str);
                    format!("{part}{}", " ".repeat(width.saturating_sub(part.chars().count())))
                });
                self.line(&cells.collect::<Vec<_>>().join("  "));
            }
        }
    }
}

/// The cells of a row; `\|` is a character of a cell.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim().trim_start_matches('|').replace("\\|", "\u{0}");
    let line = line.strip_suffix('|').unwrap_or(&line);
    line.split('|').map(|cell| inline(cell.trim()).replace('\u{0}', "|")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_plain_text_that_fits() {
        let page = "# Why **it** works\n\nA [page](why.md#top) and [why.md](why.md) and\n[one elsewhere](http://x.org) with `a * [b]` code.\n\n\
                    ## List\n* one that goes on\n  below\n* two\n\n<!-- not run: no -->\n```sh\niotide  detect run.csv   # as it is, however long the line may be\n```\n\n\
                    | a | what |\n|---|---|\n| `x\\|y` | a cell that is rather long and is wrapped |\n";
        assert_eq!(
            plain(page, 40, Ink::Plain),
            "Why it works\n============\n\nA page (why.md) and why.md and one\nelsewhere (http://x.org) with `a * [b]`\ncode.\n\n\
             List\n----\n* one that goes on below\n* two\n\n    iotide  detect run.csv   # as it is, however long the line may be\n\n\
             a      what\n-----  ---------------------------------\n`x|y`  a cell that is rather long and is\n       wrapped\n"
        );
    }

    #[test]
    fn no_page_has_longer_lines_than_its_code() {
        for page in crate::manual::pages() {
            let text = plain(page.text, 80, Ink::Plain);
            let long = text.lines().find(|line| {
                line.chars().count() > 80
                    && !line.starts_with("    ")
                    && !line.contains("  ")
                    && line.contains(' ')
            });
            assert!(
                long.is_none_or(|line| line.split(' ').any(|word| word.len() > 40)),
                "{}: {long:?}",
                page.name
            );
            assert!(!text.contains("](") || page.text.contains("`"), "{}", page.name);
        }
    }
}
