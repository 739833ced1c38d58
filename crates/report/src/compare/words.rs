//! A comparison in words, and the words that its page shares.

use iotide_analysis::WhyVerdict;
use iotide_look::text::{self, Rows, counted, percent, wrap};

use super::{
    Change, CompareDocument, FileRow, FileValues, Presence, Quantity, QuantityRow, Side, SideRun, SideWhy,
    Values, Verdict,
};
use crate::Ink;
use crate::why::WhyEntry;

/// How many files a terminal shows.
const MOST_FILES: usize = 12;

impl CompareDocument {
    /// Adds why a side took longer than the first, or not.
    pub fn add_why(&mut self, side: String, why: WhyEntry) {
        // The headline of several causes has their parts.
        let parts = match why.parts_words() {
            parts if parts.is_empty() || why.verdict == WhyVerdict::Mixed => String::new(),
            parts => format!(" ({parts})"),
        };
        self.notes.push(format!("{side} against A. {}{parts}.", why.headline()));
        self.why.push(SideWhy { side, why });
    }

    /// Whether a side is of the application of the first, as far as both name one.
    pub fn is_same_application(&self, side: usize) -> bool {
        let [first, side] = [self.sides.first(), self.sides.get(side)].map(|side| side?.application.as_ref());
        first.is_some() && first == side
    }

    /// The answer in one sentence, without a full stop.
    pub fn headline(&self) -> String {
        let second = &self.sides[1];
        let rest = match self.sides.len() {
            2 => format!("{} against A", second.name),
            n => format!("{} sides against A", n - 1),
        };
        let mut told: Vec<(f64, String)> = Vec::new();
        for row in &self.quantities {
            for (change, side) in row.changes.iter().zip(&self.sides[1..]) {
                if matches!(change.verdict, Verdict::Better | Verdict::Worse | Verdict::Changed) {
                    // What has a good direction goes first, the largest factor of it foremost.
                    let weight = change.ratio.map_or(f64::INFINITY, |ratio| ratio.ln().abs());
                    let first = match row.quantity {
                        // Runs of other sizes are to be compared with care: that comes before all.
                        Quantity::Ranks => 2e6,
                        _ if row.better.is_some() => 1e6,
                        _ => 0.0,
                    };
                    told.push((
                        weight.min(1e5) + first,
                        format!("{} {}", row.quantity.name(), self.change_of(row, change, side)),
                    ));
                }
            }
        }
        told.sort_by(|a, b| b.0.total_cmp(&a.0));
        let n_more = told.len().saturating_sub(3);
        let mut sentences: Vec<String> = told.into_iter().take(3).map(|(_, sentence)| sentence).collect();
        let n_of = |wanted: Presence| self.issues.iter().filter(|row| row.changes.contains(&wanted)).count();
        for (n, what) in [(n_of(Presence::Came), "new"), (n_of(Presence::Went), "no longer present")] {
            if n > 0 {
                sentences.push(format!("{} {what}", counted(n as u64, "issue")));
            }
        }
        if sentences.is_empty() {
            let any = self
                .quantities
                .iter()
                .flat_map(|row| &row.changes)
                .any(|change| change.difference != Some(0.0));
            let limit = percent(self.threshold);
            return if any {
                format!("{rest}: no difference of more than {limit} that is not noise")
            } else {
                format!("{rest}: no difference")
            };
        }
        let more = if n_more > 0 { format!(", and {n_more} more") } else { String::new() };
        format!("{rest}: {}{more}", sentences.join(", "))
    }

    /// "+25 % (100 s → 125 s)"; where there are several other sides, of which.
    pub fn change_of(&self, row: &QuantityRow, change: &Change, side: &Side) -> String {
        let i = self.sides.iter().position(|other| other.name == side.name).unwrap_or(1);
        let shown =
            |values: &Values| values.median.map_or("–".to_owned(), |value| row.quantity.shown(value));
        let on = if self.sides.len() > 2 { format!(" on {}", side.name) } else { String::new() };
        format!("{}{on} ({} → {})", change.in_words(), shown(&row.sides[0]), shown(&row.sides[i]))
    }

    pub(super) fn in_words(&self, width: usize, ink: Ink) -> String {
        let headline = wrap(&self.headline(), width).join("\n");
        let mut out = if ink == Ink::Ansi { ink.bold(&headline) } else { headline };
        out.push_str("\n\n");
        let mut rows = Rows::default();
        for side in &self.sides {
            rows.row(&side.name, side.in_words());
        }
        out += &rows.render(width, |name| ink.accent(name));
        out.push('\n');
        let names: Vec<&str> = self.sides.iter().map(|side| side.name.as_str()).collect();
        let mut head = vec![String::new()];
        head.extend(names.iter().map(|name| (*name).to_owned()));
        head.extend(names[1..].iter().map(|name| format!("{name} against A")));
        let mut lines = vec![head];
        for row in &self.quantities {
            let mut line = vec![row.quantity.name().to_owned()];
            line.extend(row.sides.iter().map(|values| row.values_in_words(values)));
            line.extend(row.changes.iter().map(Change::with_verdict));
            lines.push(line);
        }
        out += &aligned(&lines, ink);
        self.presences_in_words(&mut out, width, ink);
        self.files_in_words(&mut out, ink);
        for note in &self.notes {
            out.push('\n');
            out += &wrap(note, width).join("\n");
        }
        if !self.notes.is_empty() {
            out.push('\n');
        }
        out
    }

    fn presences_in_words(&self, out: &mut String, width: usize, ink: Ink) {
        let mut rows = Rows::default();
        for row in &self.issues {
            let words = presence_in_words(&row.shares, &row.changes, &self.sides);
            rows.row(
                row.severity,
                format!("{}: {words}, {}; {}", row.id, gains_in_words(&row.gains), row.text),
            );
        }
        for row in
            self.labels.iter().filter(|row| row.changes.iter().any(|change| *change != Presence::Stayed))
        {
            rows.row(
                "label",
                format!("{}: {}", row.label, presence_in_words(&row.shares, &row.changes, &self.sides)),
            );
        }
        let text = rows.render(width, |name| ink.faint(name));
        if !text.is_empty() {
            out.push('\n');
            *out += &text;
        }
    }

    fn files_in_words(&self, out: &mut String, ink: Ink) {
        if self.files.is_empty() {
            return;
        }
        let mut lines = vec![
            std::iter::once("file".to_owned())
                .chain(self.sides.iter().map(|side| side.name.clone()))
                .collect(),
        ];
        for row in self.files.iter().take(MOST_FILES) {
            let mut line: Vec<String> = vec![row.path.shortened(44).for_terminal()];
            line.extend(
                row.sides.iter().map(|values| values.as_ref().map_or("–".to_owned(), FileValues::in_words)),
            );
            lines.push(line);
        }
        out.push('\n');
        *out += &aligned(&lines, ink);
        let n_more = self.files.len().saturating_sub(MOST_FILES) + self.n_more_files;
        if n_more > 0 {
            *out += &format!("  and {}\n", counted(n_more as u64, "more file"));
        }
    }
}

/// "came on B", "went on B", "on all sides", "on 1 of 3 runs of A".
pub fn presence_in_words(shares: &[f64], changes: &[Presence], sides: &[Side]) -> String {
    let changed = |wanted: Presence, word: &str| {
        let names: Vec<&str> = changes
            .iter()
            .zip(&sides[1..])
            .filter(|(change, _)| **change == wanted)
            .map(|(_, side)| side.name.as_str())
            .collect();
        (!names.is_empty()).then(|| format!("{word} on {}", names.join(", ")))
    };
    let words: Vec<String> =
        [changed(Presence::Came, "came"), changed(Presence::Went, "went")].into_iter().flatten().collect();
    if !words.is_empty() {
        return words.join(", ");
    }
    if shares.iter().all(|&share| share > 0.5) {
        return "on all sides".to_owned();
    }
    let some: Vec<String> = shares
        .iter()
        .zip(sides)
        .filter(|(share, _)| **share > 0.0)
        .map(|(share, side)| format!("{} of {}", percent(*share), side.name))
        .collect();
    format!("on {}", some.join(", "))
}

impl Side {
    /// Which runs these are.
    pub fn in_words(&self) -> String {
        let first = &self.runs[0];
        let runs = self.runs_in_words(first);
        match &self.baseline {
            Some(label) => format!("baseline {}, {runs}", label.for_terminal()),
            None => runs,
        }
    }

    fn runs_in_words(&self, first: &SideRun) -> String {
        match self.runs.as_slice() {
            [_] => format!("{} ({}): {}", first.path.for_terminal(), first.format, first.rhythm),
            runs => {
                let of = self
                    .application
                    .as_ref()
                    .map_or(String::new(), |name| format!(" of {}", name.for_terminal()));
                let paths: Vec<String> = runs.iter().take(4).map(|run| run.path.for_terminal()).collect();
                let more = if runs.len() > 4 { ", …" } else { "" };
                format!("{}{of}: {}{more}", counted(runs.len() as u64, "run"), paths.join(", "))
            }
        }
    }
}

impl QuantityRow {
    /// "125 s", and where several runs differ "125 s (120 s to 131 s)".
    pub fn values_in_words(&self, values: &Values) -> String {
        let Some(median) = values.median else { return "–".to_owned() };
        let shown = self.quantity.shown(median);
        match (values.lowest, values.highest) {
            (Some(low), Some(high)) if self.quantity.shown(low) != self.quantity.shown(high) => {
                format!("{shown} ({} to {})", self.quantity.shown(low), self.quantity.shown(high))
            }
            _ => shown,
        }
    }
}

impl Change {
    /// By how much: "+25 %", "3.2 times", "=", "–".
    pub fn in_words(&self) -> String {
        match (self.difference, self.ratio) {
            (None, _) => "–".to_owned(),
            (Some(0.0), _) => "=".to_owned(),
            (Some(_), None) => "from none".to_owned(),
            (Some(_), Some(ratio)) if ratio <= 0.0 => "to none".to_owned(),
            (Some(_), Some(ratio)) if ratio >= 3.0 => format!("{} times", factor(ratio)),
            // −100 % would be nothing.
            (Some(_), Some(ratio)) if ratio < 0.01 => format!("to 1/{}", factor(1.0 / ratio)),
            (Some(_), Some(ratio)) => {
                let percent = (ratio - 1.0) * 100.0;
                let sign = if percent < 0.0 { "−" } else { "+" };
                match percent.abs() {
                    size if size < 0.1 => "< 0.1 %".to_owned(),
                    size if size < 9.95 => format!("{sign}{size:.1} %"),
                    size => format!("{sign}{size:.0} %"),
                }
            }
        }
    }

    fn with_verdict(&self) -> String {
        match self.verdict.name() {
            "" => self.in_words(),
            name => format!("{} {name}", self.in_words()),
        }
    }
}

impl Verdict {
    /// The word beside the number; nothing where the number says it all.
    pub fn name(self) -> &'static str {
        match self {
            Self::Same | Self::Unknown | Self::Changed => "",
            Self::Noise => "noise",
            Self::Better => "better",
            Self::Worse => "worse",
        }
    }
}

impl FileValues {
    /// "1.2 GB written, every 12.7 s".
    pub fn in_words(&self) -> String {
        let moved: Vec<String> = [(self.bytes_read, "read"), (self.bytes_written, "written")]
            .into_iter()
            .filter(|(bytes, _)| *bytes > 0.0)
            .map(|(bytes, what)| format!("{} {what}", text::bytes(bytes)))
            .collect();
        let moved = if moved.is_empty() { "no data".to_owned() } else { moved.join(", ") };
        match self.rhythm_in_words() {
            Some(rhythm) => format!("{moved}, {rhythm}"),
            None => moved,
        }
    }

    /// "every 12.7 s".
    pub(super) fn rhythm_in_words(&self) -> Option<String> {
        self.period_s.map(|period_s| format!("every {}", text::seconds(period_s)))
    }
}

impl FileRow {
    /// How its bytes changed on a side against the first: `None` if either does not have it.
    pub fn ratio(&self, side: usize) -> Option<f64> {
        let bytes = |side: usize| self.sides[side].as_ref().map(FileValues::bytes);
        let (before, after) = (bytes(0)?, bytes(side)?);
        (before > 0.0).then(|| after / before)
    }
}

/// A factor in three digits, or in groups of them.
fn factor(ratio: f64) -> String {
    if ratio < 1000.0 { text::digits(ratio, 3) } else { text::count(ratio.round() as u64) }
}

/// Columns that stand below each other, the first to the left and the others to the right.
pub(super) fn aligned(lines: &[Vec<String>], ink: Ink) -> String {
    let n_columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..n_columns).map(width).collect();
    let mut out = String::new();
    for (i, line) in lines.iter().enumerate() {
        let mut text = String::from(" ");
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            let padding = " ".repeat(width - cell.chars().count());
            text += &if column == 0 { format!(" {cell}{padding}") } else { format!("   {padding}{cell}") };
        }
        let text = text.trim_end().to_owned();
        out += &if i == 0 { ink.faint(&text) } else { text };
        out.push('\n');
    }
    out
}

/// The gain on each side: "gain 31 % → 2 % of the run".
pub fn gains_in_words(gains: &[f64]) -> String {
    let told: Vec<String> = gains.iter().map(|gain| percent(*gain)).collect();
    format!("gain {} of the run", told.join(" → "))
}
