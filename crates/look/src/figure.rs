//! A picture as a part of a page: its legend, the picture, its caption, its numbers, and what the script needs to draw it again.

use std::fmt::Write;

use serde::{Serialize, Serializer};

use crate::chart::{Axis, BandKind, Look, Plot, Series, Xs, to_digits};
use crate::html::escape;
use crate::text;

/// The numbers of a picture, in plain units: what stands in the table behind it and in the JSON form.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Numbers {
    /// Content of each column, with its unit.
    pub columns: Vec<String>,
    /// The rows, each as long as `columns`.
    #[serde(serialize_with = "rows_of_numbers")]
    pub rows: Vec<Vec<f64>>,
    /// How the numbers of each column look to people.
    #[serde(skip)]
    shown: Vec<Shown>,
    /// Name of the first column for readers, with the origin of its values.
    #[serde(skip)]
    place: String,
}

/// How a number looks to people.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shown {
    /// Bytes per second.
    Rate,
    /// So many seconds after a moment.
    Seconds(f64),
    /// Cycles per second.
    Frequency,
    /// As it is.
    Plain,
}

impl Shown {
    fn on(axis: &Axis) -> Self {
        let (origin, unit) = axis.shown_as();
        match unit {
            "" => Self::Plain,
            "Hz" => Self::Frequency,
            unit if unit.ends_with("B/s") => Self::Rate,
            _ if axis.plain_name().ends_with("(s)") => Self::Seconds(origin),
            _ => Self::Plain,
        }
    }

    fn of(self, value: f64) -> String {
        match self {
            Self::Rate => text::bandwidth(value),
            // Beside each other, moments have to be told apart.
            Self::Seconds(origin) => format!("{} s", text::digits(value - origin, 6)),
            Self::Frequency => text::frequency(value),
            Self::Plain => text::digits(value, 5),
        }
    }
}

impl Numbers {
    /// The most rows of a table: a person reads it.
    pub const MOST_ROWS: usize = 200;

    /// As a table that is folded away.
    pub fn to_html(&self) -> String {
        let mut html = String::from(
            "<details class=\"numbers\"><summary>Numbers</summary>\n<div class=\"wide\" tabindex=\"0\">\n<table>\n<thead><tr>",
        );
        // In its cells the first column counts from where the axis does.
        let columns = std::iter::once(&self.place).chain(self.columns.iter().skip(1));
        for (column, shown) in columns.zip(&self.shown) {
            // Where each cell says its unit, the head need not.
            let name = match shown {
                Shown::Plain => column.as_str(),
                _ => column.rsplit_once(" (").map_or(column.as_str(), |(name, _)| name),
            };
            let _ = write!(html, "<th>{}</th>", escape(name));
        }
        html += "</tr></thead>\n<tbody>\n";
        for row in &self.rows {
            html += "<tr>";
            for (&value, shown) in row.iter().zip(&self.shown) {
                let _ = write!(html, "<td data-v=\"{value}\">{}</td>", shown.of(value));
            }
            html += "</tr>\n";
        }
        html + "</tbody>\n</table>\n</div>\n</details>\n"
    }
}

fn rows_of_numbers<S: Serializer>(rows: &[Vec<f64>], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(rows)
}

impl Plot {
    /// Returns the numbers that the picture shows, in at most [`Numbers::MOST_ROWS`] rows of plain units.
    ///
    /// Many values become the mean, the lowest and the highest of a stretch; of a spectrum, the strongest are kept.
    pub fn numbers(&self) -> Numbers {
        // A line of two points is a level, not numbers.
        let is_level = |series: &Series| series.look == Look::Beat && series.mid.len() <= 2;
        let series: Vec<&Series> = self.series.iter().filter(|series| !is_level(series)).collect();
        let Some(first) = series.first() else {
            return Numbers::default();
        };
        let (x, y) = (Shown::on(&self.x), Shown::on(&self.y));
        let mut numbers = Numbers {
            columns: vec![self.x.stored_name()],
            rows: Vec::new(),
            shown: vec![x],
            place: self.x.plain_name(),
        };
        let mut name = |what: &str| {
            numbers.columns.push(what.to_owned());
            numbers.shown.push(y);
        };
        let is_log = self.x.is_logarithmic();
        // Series on the same grid stand side by side; of others the last, which lies on top, is told.
        let same: Vec<&&Series> = if series.iter().all(|other| is_same_grid(first, other)) {
            series.iter().collect()
        } else {
            series.last().into_iter().collect()
        };
        let n = same[0].mid.len();
        let per_row = if is_log { 1 } else { n.div_ceil(Numbers::MOST_ROWS).max(1) };
        for series in &same {
            let has_range = has_range(series, per_row);
            let plain = self.y.plain_name();
            let (name_of, unit) = match plain.rsplit_once(" (") {
                Some((name, unit)) => (name, format!(" ({unit}")),
                None => (plain.as_str(), String::new()),
            };
            let name_of = if series.label.is_empty() { name_of } else { &series.label };
            if has_range {
                for what in ["mean", "lowest", "highest"] {
                    name(&format!("{name_of}: {what}{unit}"));
                }
            } else {
                name(&format!("{name_of}{unit}"));
            }
        }
        // Of seconds since 1970 the first nine are alike.
        let n_place_digits = DIGITS + self.x.digits_alike();
        let row = |from: usize, to: usize| {
            let mut row = vec![same[0].x.at(from)];
            for series in &same {
                let to = to.min(series.mid.len());
                let mids = &series.mid[from.min(to)..to];
                let mean = mids.iter().sum::<f64>() / mids.len().max(1) as f64;
                row.push(mean);
                if has_range(series, per_row) {
                    let lows = if series.lo.is_empty() { mids } else { &series.lo[from.min(to)..to] };
                    let highs = if series.hi.is_empty() { mids } else { &series.hi[from.min(to)..to] };
                    row.push(lows.iter().copied().fold(f64::INFINITY, f64::min).min(mean));
                    row.push(highs.iter().copied().fold(f64::NEG_INFINITY, f64::max).max(mean));
                }
            }
            let places = row.iter().take(1).map(|&place| to_digits(place, n_place_digits));
            places.chain(row.iter().skip(1).map(|&value| to_digits(value, DIGITS))).collect::<Vec<f64>>()
        };
        let mut picked: Vec<usize> = (0..n).step_by(per_row).collect();
        if picked.len() > Numbers::MOST_ROWS {
            picked.sort_by(|&a, &b| same[0].mid[b].total_cmp(&same[0].mid[a]));
            picked.truncate(Numbers::MOST_ROWS / 4);
            picked.sort_unstable();
        }
        numbers.rows = picked.into_iter().map(|from| row(from, from + per_row)).collect();
        numbers
    }

    /// Returns the picture as a part of a page that has [`crate::html::SCRIPT`]; `suffix` tells its ids from those of its like.
    pub fn to_figure(&self, suffix: &str) -> String {
        // `<` is the one character that could end the script element from within a string.
        let data = self.to_json().replace('<', "\\u003c");
        let (name, apart) = (self.name, format!("{}-{suffix}", self.name));
        let svg = self.to_inline_svg().replace(&format!("-{name}\""), &format!("-{apart}\""));
        let svg = svg.replace(&format!("-{name})"), &format!("-{apart})"));
        let numbers = self.numbers();
        let table = if numbers.rows.is_empty() { String::new() } else { numbers.to_html() };
        format!(
            "<figure class=\"chart\" data-name=\"{name}\">\n<div class=\"bar\">{}</div>\n{svg}<figcaption>{}</figcaption>\n{table}\
             <script type=\"application/json\">{data}</script>\n</figure>\n",
            self.legend_html(),
            escape(&self.caption)
        )
    }

    /// Returns the legend of the colours, as words that wrap where a picture is narrow.
    fn legend_html(&self) -> String {
        let mut entries: Vec<(String, &str)> = Vec::new();
        for series in self.series.iter().filter(|series| !series.label.is_empty()) {
            entries.push((series.class(), &series.label));
        }
        entries.extend(self.keys.iter().map(|(class, label)| (class.clone(), label.as_str())));
        if self.bands.iter().any(|band| band.kind == BandKind::Expected) {
            entries.push(("expected hatched".to_owned(), "expected next phase"));
        }
        legend(entries.iter().map(|(class, label)| (class.as_str(), *label)))
    }
}

/// Swatches and words; a class is that of the picture's part.
pub fn legend<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut html = String::from("<ul class=\"legend\">");
    for (class, label) in entries {
        let _ = write!(
            html,
            "<li><svg class=\"plot swatch\" viewBox=\"0 0 14 10\" aria-hidden=\"true\"><rect class=\"{class}\" width=\"14\" height=\"10\"/></svg>{}</li>",
            escape(label)
        );
    }
    html + "</ul>"
}

/// Whether lowest and highest are told, too. What is on top of others has a place, and no range.
fn has_range(series: &Series, per_row: usize) -> bool {
    series.look != Look::Stack && (per_row > 1 || !series.lo.is_empty())
}

fn is_same_grid(one: &Series, other: &Series) -> bool {
    one.mid.len() == other.mid.len()
        && match (&one.x, &other.x) {
            (Xs::Even { start, step }, Xs::Even { start: start_2, step: step_2 }) => {
                start == start_2 && step == step_2
            }
            (Xs::At(xs), Xs::At(others)) => xs == others,
            _ => false,
        }
}

/// Six are more than anybody compares.
const DIGITS: usize = 6;
