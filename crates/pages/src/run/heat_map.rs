//! Pictures of what was done: ranks over time, access sizes, time in calls.
//!
//! A heat map has one path per shade, and a cell in it is a stroke of a few characters: however large the run, the
//! picture is at most [`iotide_trace::Activity::MOST_ROWS`] rows of [`iotide_trace::Activity::MOST_BINS`] strokes.

use std::fmt::Write;

use iotide_look::chart::{Axis, LEFT, RIGHT, TOP, Tick, WIDTH, draw_x_ticks};
use iotide_look::html::escape;
use iotide_look::palette::{LEVELS, style_element};
use iotide_look::text;
use iotide_report::{Activity, HeatMap, HeatRow, SizeRow};
use serde::Serialize;

/// A picture as an SVG document with a word for file names.
#[derive(Clone, Debug)]
pub struct Picture {
    /// A word for file names.
    pub name: &'static str,
    /// The document.
    pub svg: String,
}

/// Returns its pictures, each of them standing alone, for papers and slides.
pub fn pictures(activity: &Activity) -> Vec<Picture> {
    let style = style_element();
    let mut pictures = Vec::new();
    for direction in [Way::Write, Way::Read] {
        if let Some(field) = activity.heat_map.as_ref().and_then(|heat| Field::new(heat, direction)) {
            let name = match direction {
                Way::Write => "ranks-write",
                Way::Read => "ranks-read",
            };
            pictures.push(Picture { name, svg: field.to_svg(&style) });
        }
    }
    if !activity.access_sizes.is_empty() {
        pictures.push(Picture { name: "sizes", svg: sizes_svg(&activity.access_sizes, &style) });
    }
    pictures
}

/// The most cells with anything in them on a page: it stays small for any run.
const MOST_CELLS: usize = 16_000;

/// The same with as many cells as a page can bear: neighbours in time, then neighbouring ranks, are put together.
pub(crate) fn for_page(heat: &HeatMap) -> HeatMap {
    let mut map = heat.clone();
    let n_used = |map: &HeatMap| {
        let used = |cells: &[f64]| cells.iter().filter(|&&bytes| bytes > 0.0).count();
        map.rows.iter().map(|row| used(&row.bytes_read) + used(&row.bytes_written)).sum::<usize>()
    };
    let mut by_time = true;
    while n_used(&map) > MOST_CELLS {
        if by_time {
            halve_bins(&mut map);
        } else {
            halve_rows(&mut map);
        }
        by_time = !by_time;
    }
    map
}

fn halve_bins(map: &mut HeatMap) {
    let halved = |cells: &mut Vec<f64>| *cells = cells.chunks(2).map(|pair| pair.iter().sum()).collect();
    for row in &mut map.rows {
        halved(&mut row.bytes_read);
        halved(&mut row.bytes_written);
    }
    map.n_bins = map.n_bins.div_ceil(2);
    map.bin_s *= 2.0;
}

fn halve_rows(map: &mut HeatMap) {
    let mut rows: Vec<HeatRow> = Vec::new();
    let per_row = 2 * map.ranks_per_row as i32;
    for row in std::mem::take(&mut map.rows) {
        match rows.last_mut() {
            Some(last) if last.first_rank >= 0 && row.first_rank / per_row == last.first_rank / per_row => {
                last.last_rank = row.last_rank;
                for (sums, cells) in
                    [(&mut last.bytes_read, row.bytes_read), (&mut last.bytes_written, row.bytes_written)]
                {
                    sums.resize(sums.len().max(cells.len()), 0.0);
                    sums.iter_mut().zip(cells).for_each(|(sum, bytes)| *sum += bytes);
                }
            }
            _ => rows.push(row),
        }
    }
    map.rows = rows;
    map.ranks_per_row *= 2;
}

/// Which bytes a heat map shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Read,
    Write,
}

impl Way {
    fn class(self) -> &'static str {
        match self {
            Way::Read => "r",
            Way::Write => "w",
        }
    }

    fn of(self, row: &HeatRow) -> &[f64] {
        match self {
            Way::Read => &row.bytes_read,
            Way::Write => &row.bytes_written,
        }
    }
}

/// The heat map of one direction.
pub(crate) struct Field<'a> {
    heat: &'a HeatMap,
    /// The rows as they are drawn: that of all ranks several times among many, or it would be a hair.
    rows: Vec<&'a HeatRow>,
    way: Way,
    /// The cells that have the faintest shade and the strongest, in bytes.
    lo: f64,
    hi: f64,
    /// The smallest cell with anything in it.
    least: f64,
}

impl<'a> Field<'a> {
    /// Shades tell apart what is up to this much less than the most; what is still less has the faintest.
    const RANGE: f64 = 1e4;

    /// `None` if nothing went that way.
    pub(crate) fn new(heat: &'a HeatMap, way: Way) -> Option<Self> {
        let cells = || heat.rows.iter().flat_map(|row| way.of(row)).copied().filter(|&bytes| bytes > 0.0);
        let (hi, least) = (cells().fold(0.0, f64::max), cells().fold(f64::INFINITY, f64::min));
        let n_times = (heat.rows.len() / 14).max(1);
        let (all, ranks) =
            heat.rows.split_at(usize::from(heat.rows.first().is_some_and(|row| row.first_rank < 0)));
        let rows = all.iter().flat_map(|row| std::iter::repeat_n(row, n_times)).chain(ranks).collect();
        (hi > 0.0).then(|| Self { heat, rows, way, lo: least.max(hi / Self::RANGE), hi, least })
    }

    /// All that went that way.
    pub(crate) fn bytes(&self) -> f64 {
        self.heat.rows.iter().flat_map(|row| self.way.of(row)).sum()
    }

    fn level(&self, bytes: f64) -> Option<usize> {
        if bytes <= 0.0 {
            return None;
        }
        let share = (bytes / self.lo).ln() / (self.hi / self.lo).ln();
        // Where all cells are alike, they are all as strong as can be.
        let share = if share.is_nan() { 1.0 } else { share };
        Some(((share * LEVELS as f64).max(0.0) as usize).min(LEVELS - 1))
    }

    /// Rows of at least one unit each, so that none is ever lost, and of no more than a finger's width.
    fn height(&self) -> f64 {
        let n_rows = self.rows.len() as f64;
        n_rows * (240.0 / n_rows).floor().clamp(1.0, if n_rows < 3.0 { 28.0 } else { 18.0 })
    }

    /// The picture, standing alone.
    pub(crate) fn to_svg(&self, style: &str) -> String {
        self.draw(style, "cells", true)
    }

    /// The picture in a page, whose legend stands beside it; `suffix` tells its ids from those of its like.
    pub(crate) fn to_inline_svg(&self, suffix: &str) -> String {
        self.draw("", &format!("cells-{suffix}"), false)
    }

    /// Returns the legend of the shades.
    pub(crate) fn legend_html(&self) -> String {
        let rate = |bytes: f64| text::bandwidth(bytes / self.heat.bin_s);
        let below = if self.least < self.lo { "≤ " } else { "" };
        if self.lo == self.hi {
            return format!(
                "<p class=\"shades\"><svg class=\"plot swatch one\" viewBox=\"0 0 14 10\" aria-hidden=\"true\"><rect class=\"{}{}\" \
                 width=\"14\" height=\"10\"/></svg> {}</p>",
                self.way.class(),
                LEVELS - 1,
                rate(self.hi)
            );
        }
        let mut html = format!("<p class=\"shades\">{below}{} ", rate(self.lo));
        let _ = write!(
            html,
            "<svg class=\"plot swatch\" viewBox=\"0 0 {} 10\" aria-hidden=\"true\">",
            14 * LEVELS
        );
        for level in 0..LEVELS {
            let _ = write!(
                html,
                "<rect class=\"{}{level}\" x=\"{}\" width=\"14\" height=\"10\"/>",
                self.way.class(),
                14 * level
            );
        }
        let _ = write!(html, "</svg> {}</p>", rate(self.hi));
        html
    }

    /// Returns the numbers of each row, as a table that is folded away.
    pub(crate) fn numbers_html(&self) -> String {
        let mut html = String::from(
            "<details class=\"numbers\"><summary>Numbers</summary>\n<div class=\"wide\" tabindex=\"0\">\n<table>\n<thead><tr><th>ranks</th>\
             <th>bytes (B)</th><th>most at once (B)</th><th>of so many steps, busy</th></tr></thead>\n<tbody>\n",
        );
        for row in &self.heat.rows {
            let cells = self.way.of(row);
            let ranks = match (row.first_rank, row.last_rank) {
                (..0, _) => "all".to_owned(),
                (first, last) if first == last => first.to_string(),
                (first, last) => format!("{first} to {last}"),
            };
            let (sum, most) = (cells.iter().sum::<f64>(), cells.iter().copied().fold(0.0, f64::max));
            let n_busy = cells.iter().filter(|&&bytes| bytes > 0.0).count();
            let _ = writeln!(
                html,
                "<tr><td>{ranks}</td><td data-v=\"{sum}\">{}</td><td data-v=\"{most}\">{}</td><td data-v=\"{n_busy}\">{n_busy}</td></tr>",
                text::digits(sum, 6),
                text::digits(most, 6)
            );
        }
        html + "</tbody>\n</table>\n</div>\n</details>\n"
    }

    fn x(&self) -> Axis {
        let HeatMap { start_s, bin_s, n_bins, .. } = *self.heat;
        self.heat.zero.axis(start_s, start_s + bin_s * n_bins as f64)
    }

    fn draw(&self, style: &str, id: &str, with_legend: bool) -> String {
        let (HeatMap { n_bins, .. }, rows) = (self.heat, &self.rows);
        let (height, bottom) = (self.height(), TOP + self.height());
        let mut svg = open_svg(bottom + 50.0, "Bytes per rank over time", style);
        let _ = writeln!(
            svg,
            "<defs><clipPath id=\"{id}\"><rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{0}\" height=\"{height}\"/></clipPath></defs>\n\
             <rect class=\"field\" x=\"{LEFT}\" y=\"{TOP}\" width=\"{0}\" height=\"{height}\"/>\n\
             <g clip-path=\"url(#{id})\"><g class=\"cells\" transform=\"translate({LEFT} {TOP}) scale({1:.6} {2:.6}) translate(0 .5)\" shape-rendering=\"crispEdges\">",
            RIGHT - LEFT,
            (RIGHT - LEFT) / *n_bins as f64,
            height / rows.len() as f64
        );
        for (level, path) in self.paths().iter().enumerate().filter(|(_, path)| !path.is_empty()) {
            let _ = writeln!(svg, "<path class=\"{}{level}\" d=\"{path}\"/>", self.way.class());
        }
        svg.push_str("</g></g>\n<g class=\"axes\">\n");
        draw_time_axis(&mut svg, &self.x(), bottom);
        for (i, row) in self.labelled_rows() {
            let at = TOP + (i as f64 + 0.5) * height / rows.len() as f64;
            let label = if row.first_rank < 0 { "all".to_owned() } else { row.first_rank.to_string() };
            let _ = writeln!(
                svg,
                "<line class=\"tick row\" x1=\"{}\" x2=\"{LEFT}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text class=\"row\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                LEFT - 4.0,
                LEFT - 8.0,
                at + 4.0
            );
        }
        let what = match self.heat.ranks_per_row {
            1 => "rank".to_owned(),
            n => format!("ranks, {n} in a row"),
        };
        let _ = writeln!(
            svg,
            "<text class=\"name left\" x=\"4\" y=\"15\" text-anchor=\"start\">{what}</text>\n</g>"
        );
        if with_legend {
            self.draw_legend(&mut svg);
        }
        svg + "</svg>\n"
    }

    /// One path per shade; neighbours in time of the same shade are one stroke.
    fn paths(&self) -> [String; LEVELS] {
        let mut paths: [String; LEVELS] = std::array::from_fn(|_| String::new());
        for (y, row) in self.rows.iter().enumerate() {
            let cells = self.way.of(row);
            let mut x = 0;
            while x < cells.len() {
                let level = self.level(cells[x]);
                let n = cells[x..].iter().take_while(|&&bytes| self.level(bytes) == level).count();
                if let Some(level) = level {
                    let _ = write!(paths[level], "M{x} {y}h{n}");
                }
                x += n;
            }
        }
        paths
    }

    /// The rows whose rank is written beside them: not so many that they touch.
    fn labelled_rows(&self) -> Vec<(usize, &HeatRow)> {
        const APART: f64 = 13.0;
        let height = self.height() / self.rows.len() as f64;
        let step = (APART / height).ceil().max(1.0) as usize;
        let step = step.next_power_of_two();
        let n_all = self.rows.iter().take_while(|row| row.first_rank < 0).count();
        let is_labelled = |i: usize| match i.checked_sub(n_all) {
            None => i == n_all / 2,
            Some(0) => n_all == 0 || (n_all - n_all / 2) as f64 * height >= APART,
            Some(i) => i.is_multiple_of(step),
        };
        self.rows.iter().copied().enumerate().filter(|(i, _)| is_labelled(*i)).collect()
    }

    fn draw_legend(&self, svg: &mut String) {
        let rate = |bytes: f64| text::bandwidth(bytes / self.heat.bin_s);
        let (from, to) = (rate(self.lo), rate(self.hi));
        let below = if self.least < self.lo { "≤ " } else { "" };
        let _ = writeln!(
            svg,
            "<g class=\"legend\">\n<text x=\"{RIGHT}\" y=\"15\" text-anchor=\"end\">{to}</text>"
        );
        let right = RIGHT - to.chars().count() as f64 * 6.6 - 8.0;
        let left = right - 16.0 * LEVELS as f64;
        for level in 0..LEVELS {
            let _ = writeln!(
                svg,
                "<rect class=\"{}{level}\" x=\"{:.1}\" y=\"5\" width=\"16\" height=\"11\"/>",
                self.way.class(),
                left + 16.0 * level as f64
            );
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"15\" text-anchor=\"end\">{below}{from}</text>\n</g>",
            left - 8.0
        );
    }

    /// Returns the data from which the page's script describes the cell under the pointer.
    pub(crate) fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Cells<'a> {
            x: Axis,
            start: f64,
            bin: f64,
            columns: usize,
            top: f64,
            height: f64,
            hi: f64,
            /// How many codes make a factor of e.
            per_e: f64,
            ranks: Vec<[i32; 2]>,
            rows: &'a [String],
        }
        let per_e = (CODES - 2) as f64 / (self.hi / self.least).ln().clamp(1e-3, 30.0);
        let rows: Vec<String> =
            (self.rows.iter()).map(|row| coded(self.way.of(row), self.hi, per_e)).collect();
        let HeatMap { start_s, bin_s, n_bins, .. } = *self.heat;
        let ranks = self.rows.iter().map(|row| [row.first_rank, row.last_rank]).collect();
        let cells = Cells {
            x: self.x(),
            start: start_s,
            bin: bin_s,
            columns: n_bins,
            top: TOP,
            height: self.height(),
            hi: self.hi,
            per_e,
            ranks,
            rows: &rows,
        };
        iotide_look::text::json(&cells)
    }
}

/// Two characters of 64 each: code 0 is nothing, [`CODES`] − 1 the most, and each step less a factor of e^(1 / `per_e`).
fn coded(cells: &[f64], hi: f64, per_e: f64) -> String {
    const DIGITS: &[u8; 64] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
    let n_used = cells.iter().rposition(|&bytes| bytes > 0.0).map_or(0, |last| last + 1);
    let mut text = String::with_capacity(2 * n_used);
    for &bytes in &cells[..n_used] {
        let below = ((hi / bytes).ln() * per_e).round().clamp(0.0, (CODES - 2) as f64) as usize;
        let code = if bytes > 0.0 { CODES - 1 - below } else { 0 };
        text.push(char::from(DIGITS[code / 64]));
        text.push(char::from(DIGITS[code % 64]));
    }
    text
}

const CODES: usize = 64 * 64;

/// Calls per size, reads and writes side by side; `style` is for a picture that stands alone.
pub(crate) fn sizes_svg(rows: &[SizeRow], style: &str) -> String {
    const HEIGHT: f64 = 250.0;
    const BOTTOM: f64 = 200.0;
    let most = rows.iter().map(|row| row.n_reads().max(row.n_writes())).max().unwrap_or(1).max(1);
    let y = Axis::linear("", 0.0, most as f64 * 1.06, 1.0, "");
    let mut svg = open_svg(HEIGHT, "Calls per access size", style);
    svg.push_str("<g class=\"axes\">\n");
    for Tick { value, .. } in y.ticks(5).iter().filter(|tick| tick.value.fract() == 0.0) {
        let at = y.at(*value, BOTTOM, TOP);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 8.0,
            at + 4.0,
            short_count(*value)
        );
    }
    let slot = ((RIGHT - LEFT) / rows.len() as f64).min(90.0);
    let bar = slot * 0.4;
    let every = (60.0 / slot).ceil() as usize;
    for (i, row) in rows.iter().enumerate().filter(|(i, _)| i.is_multiple_of(every)) {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            LEFT + (i as f64 + 0.5) * slot,
            BOTTOM + 18.0,
            binary_bytes(row.from_bytes)
        );
    }
    let _ = writeln!(
        svg,
        "<line class=\"base\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{BOTTOM}\" y2=\"{BOTTOM}\"/>\n\
         <text class=\"name\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">bytes per call: from this to twice as many</text>\n\
         <text class=\"name\" x=\"{LEFT}\" y=\"15\" text-anchor=\"start\">calls</text>\n</g>",
        (LEFT + RIGHT) / 2.0,
        HEIGHT - 8.0
    );
    for (i, row) in rows.iter().enumerate() {
        let middle = LEFT + (i as f64 + 0.5) * slot;
        let bars = [
            ("read", middle - bar, row.reads, row.reads_on_average),
            ("write", middle, row.writes, row.writes_on_average),
        ];
        for (class, x, exact, averaged) in
            bars.into_iter().filter(|(_, _, exact, averaged)| exact + averaged > 0)
        {
            let up = |calls: u64| y.at(calls as f64, BOTTOM, TOP);
            // What is there at all is seen.
            let top = up(exact + averaged).min(BOTTOM - 1.5);
            let split = if averaged == 0 { top } else { up(exact) };
            let _ = writeln!(svg, "<g><title>{}</title>", escape(&size_words(row, class, exact, averaged)));
            for (averaged, top, bottom) in [(" averaged", top, split), ("", split, BOTTOM)] {
                if bottom - top > 0.01 {
                    let _ = writeln!(
                        svg,
                        "<rect class=\"{class}{averaged}\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{bar:.1}\" height=\"{:.1}\"/>",
                        bottom - top
                    );
                }
            }
            svg.push_str("</g>\n");
        }
    }
    let has = |count: fn(&SizeRow) -> u64| rows.iter().any(|row| count(row) > 0);
    let mut entries = Vec::new();
    if has(|row| row.reads_on_average + row.writes_on_average) {
        let class = if has(|row| row.writes_on_average) { "write averaged" } else { "read averaged" };
        entries.push((class, "on average"));
    }
    entries.extend(has(SizeRow::n_writes).then_some(("write", "writes")));
    entries.extend(has(SizeRow::n_reads).then_some(("read", "reads")));
    draw_entries(&mut svg, &entries);
    svg + "</svg>\n"
}

fn size_words(row: &SizeRow, class: &str, exact: u64, averaged: u64) -> String {
    let mut words = format!(
        "{} of {} to {}",
        text::counted(exact + averaged, class),
        binary_bytes(row.from_bytes),
        binary_bytes(row.from_bytes * 2.0)
    );
    if averaged > 0 {
        let _ = write!(words, ", {} of them on average", text::count(averaged));
    }
    words
}

/// Returns a power of two as people say it: `4 KiB`.
pub(crate) fn binary_bytes(n: f64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let unit = ((n.log2() / 10.0) as usize).min(UNITS.len() - 1);
    format!("{} {}", text::digits(n / 1024f64.powi(unit as i32), 4), UNITS[unit])
}

/// `12k`, `3.5M`: what fits beside an axis.
fn short_count(n: f64) -> String {
    match n {
        n if n < 1e4 => text::digits(n, 5),
        n if n < 1e6 => format!("{}k", text::digits(n / 1e3, 4)),
        n if n < 1e9 => format!("{}M", text::digits(n / 1e6, 4)),
        n => format!("{}G", text::digits(n / 1e9, 4)),
    }
}

fn open_svg(height: f64, title: &str, style: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" class=\"plot\" role=\"img\" \
         font-family=\"system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif\" font-size=\"12\">\n\
         <title>{}</title>\n{style}",
        escape(title)
    )
}

fn draw_time_axis(svg: &mut String, x: &Axis, bottom: f64) {
    draw_x_ticks(svg, x, &x.ticks(8), bottom);
    let _ = writeln!(
        svg,
        "<line class=\"base\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\n\
         <text class=\"name\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
        (LEFT + RIGHT) / 2.0,
        bottom + 42.0,
        escape(&x.label)
    );
}

/// Swatches and words, from the right.
fn draw_entries(svg: &mut String, entries: &[(&str, &str)]) {
    let mut at = RIGHT;
    svg.push_str("<g class=\"legend\">\n");
    for (class, label) in entries {
        at -= label.chars().count() as f64 * 6.3;
        let _ = writeln!(svg, "<text x=\"{at:.1}\" y=\"15\">{label}</text>");
        at -= 20.0;
        let _ = writeln!(svg, "<rect class=\"{class}\" x=\"{at:.1}\" y=\"6\" width=\"14\" height=\"10\"/>");
        at -= 16.0;
    }
    svg.push_str("</g>\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{busy, crowded};

    #[test]
    fn a_code_is_the_bytes_it_stands_for() {
        const DIGITS: &str = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
        let cells = [0.0, 1.0, 512.0, 3e6, 1e9, 0.0, 7e8, 0.0];
        let per_e = (CODES - 2) as f64 / 1e9f64.ln();
        let text = coded(&cells, 1e9, per_e);
        assert_eq!(text.len(), 14, "the end of a row is left out where nothing is in it");
        let digit = |at: usize| DIGITS.find(&text[at..=at]).unwrap();
        for (i, &bytes) in cells[..7].iter().enumerate() {
            let code = digit(2 * i) * 64 + digit(2 * i + 1);
            let found = if code == 0 { 0.0 } else { 1e9 * (-((CODES - 1 - code) as f64) / per_e).exp() };
            assert!((found - bytes).abs() <= 0.003 * bytes, "{found}, not {bytes}");
        }
    }

    #[test]
    fn every_cell_with_anything_in_it_is_drawn_once() {
        let run = crowded(20_000, 300, 10);
        let heat = run.activity.as_ref().unwrap().heat_map.as_ref().unwrap();
        let field = Field::new(heat, Way::Write).unwrap();
        let n_cells =
            heat.rows.iter().flat_map(|row| &row.bytes_written).filter(|&&bytes| bytes > 0.0).count();
        let lengths = field.paths().concat();
        let n_drawn: usize = lengths
            .split('h')
            .skip(1)
            .map(|rest| rest.split('M').next().unwrap().parse::<usize>().unwrap())
            .sum();
        assert_eq!(n_drawn, n_cells);
    }

    #[test]
    fn pictures_stand_alone() {
        let pictures = pictures(&busy().activity.unwrap());
        let names: Vec<_> = pictures.iter().map(|picture| picture.name).collect();
        assert_eq!(names, ["ranks-write", "ranks-read", "sizes"]);
        for Picture { name, svg } in &pictures {
            assert!(
                svg.starts_with("<svg xmlns=") && svg.contains("<style>") && !svg.contains("NaN"),
                "{name}"
            );
            assert_eq!(svg.matches("<g").count(), svg.matches("</g>").count(), "{name}");
        }
    }

    #[test]
    fn idle_ranks_have_rows_too() {
        let heat = busy().activity.unwrap().heat_map.unwrap();
        let ranks: Vec<_> = heat.rows.iter().map(|row| row.first_rank).collect();
        assert_eq!(ranks, [-1, 0, 1, 2, 3, 4, 5, 6, 7]);
    }

    #[test]
    fn ranks_that_do_one_thing_at_a_time_spend_no_more_time_than_there_is() {
        for time in busy().activity.unwrap().time {
            let shares = [time.read_share, time.write_share, time.metadata_share];
            assert!(shares.into_iter().flatten().sum::<f64>() <= 1.0, "{shares:?}");
        }
    }

    #[test]
    fn sizes_are_said_in_powers_of_two() {
        assert_eq!(
            [1.0, 512.0, 1024.0, 2f64.powi(22), 2f64.powi(63)].map(binary_bytes),
            ["1 B", "512 B", "1 KiB", "4 MiB", "8 EiB"]
        );
    }
}
