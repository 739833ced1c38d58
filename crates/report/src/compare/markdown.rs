//! A comparison as Markdown, for the summary of a run on GitHub and for notes on GitLab: verdict first, then what changed.
//!
//! Names are data. They stand in code spans that nothing in them ends, and other texts have no character left that Markdown or HTML
//! would act on.

use std::fmt::Write;

use iotide_look::Untrusted;
use iotide_look::html::capitalised;
use iotide_look::text::{percent, printable};

use super::{
    Change, CompareDocument, IssueRow, Presence, QuantityRow, Side, Verdict, gains_in_words,
    presence_in_words,
};

impl CompareDocument {
    /// Returns the comparison as Markdown.
    pub fn to_markdown(&self) -> String {
        let limit = percent(self.threshold);
        let mut out = match self.is_worse() {
            true => format!("### I/O got worse by more than {limit}\n\n"),
            false => format!("### I/O got no worse by more than {limit}\n\n"),
        };
        for what in &self.worse {
            let _ = writeln!(out, "- **worse:** {}", plain(what));
        }
        let _ = writeln!(out, "{}{}\n", if self.is_worse() { "\n" } else { "" }, plain(&self.headline()));
        for side in &self.sides {
            let _ = writeln!(out, "- {}", side_line(side));
        }
        let (changed, same): (Vec<&QuantityRow>, Vec<&QuantityRow>) =
            self.quantities.iter().partition(|row| row.changes.iter().any(is_change));
        if !changed.is_empty() {
            let _ = write!(out, "\n{}", self.table(&changed));
        }
        self.issues_as_markdown(&mut out);
        if !same.is_empty() {
            let _ = write!(
                out,
                "\n<details><summary>Figures that did not change</summary>\n\n{}\n</details>\n",
                self.table(&same)
            );
        }
        for note in &self.notes {
            let _ = write!(out, "\n{}\n", plain(note));
        }
        out
    }

    fn table(&self, rows: &[&QuantityRow]) -> String {
        let names = || self.sides.iter().map(|side| side.name.as_str());
        let mut table = String::from("| |");
        names().for_each(|name| table += &format!(" {name} |"));
        names().skip(1).for_each(|name| table += &format!(" {name} against A |"));
        table += "\n|---|";
        table += &"---:|".repeat(2 * self.sides.len() - 1);
        table.push('\n');
        for row in rows {
            let _ = write!(table, "| {} |", plain(row.quantity.name()));
            for values in &row.sides {
                let _ = write!(table, " {} |", plain(&row.values_in_words(values)));
            }
            for change in &row.changes {
                let word = match change.verdict {
                    Verdict::Worse => " **worse**".to_owned(),
                    verdict if verdict.name().is_empty() => String::new(),
                    verdict => format!(" {}", verdict.name()),
                };
                let _ = write!(table, " {}{word} |", plain(&change.in_words()));
            }
            table.push('\n');
        }
        table
    }

    /// Issues that came, then those that went, then the others.
    fn issues_as_markdown(&self, out: &mut String) {
        let order = |row: &&IssueRow| {
            let has = |presence: Presence| row.changes.contains(&presence);
            (!has(Presence::Came), !has(Presence::Went))
        };
        let mut rows: Vec<&IssueRow> = self.issues.iter().collect();
        rows.sort_by_key(order);
        if !rows.is_empty() {
            out.push_str("\n**I/O issues**\n\n");
        }
        for row in rows {
            let came = row.changes.contains(&Presence::Came);
            let mark = if came { "**" } else { "" };
            let advice = if came { format!(". {}", plain(&capitalised(&row.advice))) } else { String::new() };
            let _ = writeln!(
                out,
                "- {mark}{} {}{mark} ({}), {}: {}{advice}",
                code(&Untrusted::from(row.id)),
                plain(&presence_in_words(&row.shares, &row.changes, &self.sides)),
                row.severity,
                plain(&gains_in_words(&row.gains)),
                plain(&row.text)
            );
        }
    }
}

fn is_change(change: &Change) -> bool {
    !matches!(change.verdict, Verdict::Same | Verdict::Unknown)
}

/// "**A** baseline `3f2a1c0`: `a.csv`, `b.csv`".
fn side_line(side: &Side) -> String {
    /// The rest is in the page.
    const MOST: usize = 5;
    let paths: Vec<String> = side.runs.iter().take(MOST).map(|run| code(&run.path)).collect();
    let more = match side.runs.len().saturating_sub(MOST) {
        0 => String::new(),
        n => format!(" and {n} more"),
    };
    let baseline = side.baseline.as_ref().map_or(String::new(), |label| format!(" baseline {}", code(label)));
    let of = side.application.as_ref().map_or(String::new(), |name| format!(" {}", code(name)));
    format!("**{}**{baseline}{of}: {}{more}", side.name, paths.join(", "))
}

/// A name in a code span, which none of its characters ends. A blank stays within its line.
fn code(name: &Untrusted) -> String {
    let shown = name.shortened(MOST_NAME).for_terminal();
    let safe: String =
        shown.chars().map(|c| if c == '`' { "\\u{60}".to_owned() } else { c.to_string() }).collect();
    if safe.is_empty() { String::new() } else { format!("`{safe}`") }
}

/// A name of which a summary shows both ends.
const MOST_NAME: usize = 120;

/// A text in which nothing is markup, a link or somebody's name for a notification.
fn plain(text: &str) -> String {
    let text = printable(text);
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let begins_name = rest.peek().is_some_and(|next| next.is_alphanumeric());
        let is_within = out.ends_with(char::is_alphanumeric) && begins_name;
        match c {
            // "small_writes" and "B against A: no difference" are plain text, and a protocol is not.
            '_' if is_within => out.push(c),
            ':' if rest.peek() == Some(&' ') => out.push(c),
            // The invisible joiner keeps a name from being somebody's.
            '@' => out.push_str("&#64;&#8288;"),
            // "www.example.org" would be a link.
            '.' if begins_name && !rest.peek().is_some_and(char::is_ascii_digit) => out.push_str("&#46;"),
            ' ' | ',' | '.' | ';' | '%' | '/' | '(' | ')' | '+' | '=' | '\'' | '?' => out.push(c),
            '-' if !out.is_empty() => out.push(c),
            c if c.is_ascii_punctuation() => {
                let _ = write!(out, "&#{};", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_in_a_text_is_markup() {
        for (text, shown) in [
            ("run time +100 % (242.3 s → 484.1 s)", "run time +100 % (242.3 s → 484.1 s)"),
            (
                "<b>x</b> & | *y* _z_ `q`",
                "&#60;b&#62;x&#60;/b&#62; &#38; &#124; &#42;y&#42; &#95;z&#95; &#96;q&#96;",
            ),
            ("![x](https://evil)", "&#33;&#91;x&#93;(https&#58;//evil)"),
            ("www.evil.org @root #1", "www&#46;evil&#46;org &#64;&#8288;root &#35;1"),
            ("small_writes: 3 calls", "small_writes: 3 calls"),
            ("- list\n# head", "&#45; list&#92;n&#35; head"),
        ] {
            assert_eq!(plain(text), shown);
        }
    }

    #[test]
    fn a_name_cannot_leave_its_span() {
        for name in ["a`b", "``", "a\nb", "<script>", "a|b"] {
            let span = code(&Untrusted::from(name));
            assert_eq!(span.matches('`').count(), 2, "{span}");
            assert!(span.starts_with('`') && span.ends_with('`') && !span.contains('\n'), "{span}");
        }
        assert_eq!(code(&Untrusted::from("")), "");
    }
}
