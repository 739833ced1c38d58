//! Pictures: bandwidth over time, one period, spectrum, autocorrelation; as SVG and as data for the page's script.
//!
//! A [`Plot`] says what is to be seen, in the units of the data. It is drawn twice: here, as SVG that stands for itself
//! in a paper, and by `page.js` whenever a reader zooms. Both use the same sizes and class names.
//!
//! However long the run, a picture has one column per pixel at the most, and each keeps its lowest and highest value:
//! a burst of one sample is still seen.

use std::fmt::Write;

use iotide_analysis::RunAnalysis;
use iotide_num::{autocorrelation, quantile, spectrum};
use iotide_trace::{Direction, SampledSignal};
use serde::{Serialize, Serializer};

use crate::palette::{N_COLOURS, style_element};
use crate::text;

mod beat;

/// Returns the pictures of one run, in the order they are read.
pub fn pictures(run: &RunAnalysis) -> Vec<Plot> {
    let mut plots = vec![bandwidth_plot(run)];
    plots.extend(beat::plot(run));
    plots.extend(fold_plot(run));
    plots.extend(spectrum_plot(run));
    plots.extend(autocorrelation_plot(run));
    plots
}

/// One picture.
#[derive(Clone, Debug, Serialize)]
pub struct Plot {
    /// A word for file names and anchors.
    pub name: &'static str,
    /// What it shows, as a heading.
    pub title: &'static str,
    /// How to read it, as a sentence.
    pub caption: String,
    x: Axis,
    y: Axis,
    bands: Vec<Band>,
    series: Vec<Series>,
    marks: Vec<Mark>,
    dots: Vec<[f64; 2]>,
    /// What the legend says beside the series: class and label.
    #[serde(skip)]
    keys: Vec<(String, String)>,
}

impl Plot {
    /// Returns the picture as an SVG document, for papers and slides.
    pub fn to_svg(&self) -> String {
        self.draw(Some(&style_element()))
    }

    /// Returns the picture as an element of a page that has [`page_style`].
    pub(crate) fn to_inline_svg(&self) -> String {
        self.draw(None)
    }

    /// Returns what the page's script needs to draw it again.
    pub(crate) fn to_json(&self) -> String {
        crate::text::json(self)
    }

    fn draw(&self, style: Option<&str>) -> String {
        let (x, y) = (self.x.ticks(8), self.y.ticks(5));
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" class=\"plot\" role=\"img\" \
             font-family=\"system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif\" font-size=\"12\">\n\
             <title>{}</title>\n",
            escape(self.title)
        );
        if let Some(style) = style {
            let _ = writeln!(svg, "{style}");
        }
        let _ = writeln!(
            svg,
            "<defs><pattern id=\"hatch-{name}\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
             patternTransform=\"rotate(45)\"><line class=\"hatch\" x1=\"0\" y1=\"0\" x2=\"0\" y2=\"6\"/></pattern>\
             <clipPath id=\"inside-{name}\"><rect x=\"{LEFT}\" y=\"{TOP}\" width=\"{}\" height=\"{}\"/></clipPath></defs>",
            RIGHT - LEFT,
            BOTTOM - TOP,
            name = self.name
        );
        self.draw_axes(&mut svg, &x, &y);
        let _ = writeln!(svg, "<g clip-path=\"url(#inside-{})\">", self.name);
        for band in merged(&self.bands, (self.x.hi - self.x.lo) / (RIGHT - LEFT)) {
            let (from, to) = (self.x.at(band.from, LEFT, RIGHT), self.x.at(band.to, LEFT, RIGHT));
            let fill = match band.kind {
                BandKind::Phase | BandKind::Pause => String::new(),
                BandKind::Expected => format!(" fill=\"url(#hatch-{})\"", self.name),
            };
            let (top, height) = band.rows();
            let _ = writeln!(
                svg,
                "<rect class=\"{}\" x=\"{from:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{height}\"{fill}/>",
                band.class(),
                (to - from).max(0.7),
            );
        }
        for series in &self.series {
            series.draw(&mut svg, &self.x, &self.y);
        }
        for [at, value] in &self.dots {
            let (at, value) = (self.x.at(*at, LEFT, RIGHT), self.y.at(*value, BOTTOM, TOP));
            let _ = writeln!(svg, "<circle class=\"dot\" cx=\"{at:.1}\" cy=\"{value:.1}\" r=\"3\"/>");
        }
        svg.push_str("</g>\n");
        self.draw_marks(&mut svg);
        self.draw_legend(&mut svg);
        svg.push_str("</svg>\n");
        svg
    }

    fn draw_axes(&self, svg: &mut String, x: &[Tick], y: &[Tick]) {
        svg.push_str("<g class=\"axes\">\n");
        for Tick { value, label } in y {
            let at = self.y.at(*value, BOTTOM, TOP);
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                LEFT - 8.0,
                at + 4.0
            );
        }
        for Tick { value, label } in x {
            let at = self.x.at(*value, LEFT, RIGHT);
            let _ = writeln!(
                svg,
                "<line class=\"tick\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{BOTTOM}\" y2=\"{}\"/>\
                 <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
                BOTTOM + 5.0,
                BOTTOM + 18.0
            );
        }
        let _ = writeln!(
            svg,
            "<line class=\"base\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{BOTTOM}\" y2=\"{BOTTOM}\"/>\n\
             <text class=\"name\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n\
             <text class=\"name\" x=\"{LEFT}\" y=\"15\" text-anchor=\"start\">{}</text>\n</g>",
            (LEFT + RIGHT) / 2.0,
            HEIGHT - 6.0,
            escape(&self.x.label),
            escape(&self.y.label)
        );
    }

    fn draw_marks(&self, svg: &mut String) {
        let seen: Vec<(f64, &Mark)> = (self.marks.iter())
            .map(|mark| (self.x.at(mark.at, LEFT, RIGHT), mark))
            .filter(|(at, _)| (LEFT..=RIGHT).contains(at))
            .collect();
        svg.push_str("<g class=\"marks\">\n");
        for (at, mark) in &seen {
            let _ = writeln!(
                svg,
                "<line class=\"{}\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{BOTTOM}\"/>",
                mark.class()
            );
        }
        // Labels over all the lines. Those that would overlap go one row down; the fourth of a crowd is left out.
        let mut rows: [f64; 3] = [f64::NEG_INFINITY; 3];
        for (at, mark) in &seen {
            let width = mark.label.chars().count() as f64 * 6.6 + 10.0;
            let Some(row) = (0..rows.len()).find(|&row| rows[row] <= *at) else { continue };
            rows[row] = at + width;
            let (anchor, shift) = if at + width > RIGHT { ("end", -5.0) } else { ("start", 5.0) };
            let _ = writeln!(
                svg,
                "<text class=\"{}\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
                mark.class(),
                at + shift,
                TOP + 12.0 + row as f64 * 15.0,
                escape(&mark.label)
            );
        }
        svg.push_str("</g>\n");
    }

    fn draw_legend(&self, svg: &mut String) {
        let mut at = RIGHT;
        let mut entries = Vec::new();
        if self.bands.iter().any(|band| band.kind == BandKind::Expected) {
            let fill = format!(" fill=\"url(#hatch-{})\"", self.name);
            entries.push(("expected".to_owned(), "expected next phase", fill));
        }
        for (class, label) in self.keys.iter().rev() {
            entries.push((class.clone(), label, String::new()));
        }
        for series in self.series.iter().rev().filter(|series| !series.label.is_empty()) {
            entries.push((series.class(), series.label, String::new()));
        }
        svg.push_str("<g class=\"legend\">\n");
        for (class, label, fill) in entries {
            at -= label.chars().count() as f64 * 6.3;
            let _ = writeln!(svg, "<text x=\"{at:.1}\" y=\"15\">{}</text>", escape(label));
            at -= 20.0;
            let _ = writeln!(
                svg,
                "<rect class=\"{class}\" x=\"{at:.1}\" y=\"6\" width=\"14\" height=\"10\"{fill}/>"
            );
            at -= 16.0;
        }
        svg.push_str("</g>\n");
    }
}

/// Sizes in SVG units; `page.js` has the same.
pub(crate) const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 300.0;
pub(crate) const LEFT: f64 = 56.0;
pub(crate) const RIGHT: f64 = 948.0;
pub(crate) const TOP: f64 = 28.0;
const BOTTOM: f64 = 250.0;
/// Height of a strip of phases.
const LANE: f64 = 10.0;

/// One column per SVG unit.
const COLUMNS: usize = (RIGHT - LEFT) as usize;

/// The most values of a series that go into a page: beyond that, columns of lowest, mean and highest.
const EMBEDDED: usize = 8192;

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Axis {
    pub(crate) label: String,
    lo: f64,
    hi: f64,
    /// Subtracted from a value before it is shown: clocks that count from the Unix epoch have no room for their digits.
    origin: f64,
    /// Divides a value before it is shown.
    factor: f64,
    /// The unit of what is shown then.
    unit: &'static str,
    log: bool,
}

impl Axis {
    pub(crate) fn linear(label: &str, lo: f64, hi: f64, factor: f64, unit: &'static str) -> Self {
        // A span of nothing cannot be divided by.
        let hi = if hi > lo { hi } else { lo + factor };
        let label = if unit.is_empty() { label.to_owned() } else { format!("{label} ({unit})") };
        Self { label, lo, hi, origin: 0.0, factor, unit, log: false }
    }

    pub(crate) fn time(label: &str, lo: f64, hi: f64) -> Self {
        let (factor, unit) = match hi - lo {
            span if span < 2e-3 => (1e-6, "µs"),
            span if span < 2.0 => (1e-3, "ms"),
            span if span < 20_000.0 => (1.0, "s"),
            span if span < 1e6 => (3600.0, "h"),
            _ => (86_400.0, "d"),
        };
        let mut axis = Self::linear(label, lo, hi, factor, unit);
        if lo.abs() > 1e5 && lo.abs() > 20.0 * (hi - lo) {
            axis.origin = lo.floor();
            axis.label = format!("{label} after {} s ({unit})", axis.origin);
        }
        axis
    }

    /// Bandwidth from 0 to a little above `highest`.
    pub(crate) fn bandwidth(label: &str, highest: f64) -> Self {
        const UNITS: [(f64, &str); 7] = [
            (1.0, "B/s"),
            (1e3, "kB/s"),
            (1e6, "MB/s"),
            (1e9, "GB/s"),
            (1e12, "TB/s"),
            (1e15, "PB/s"),
            (1e18, "EB/s"),
        ];
        let &(factor, unit) = UNITS.iter().rfind(|(factor, _)| *factor <= highest).unwrap_or(&UNITS[0]);
        Self::linear(label, 0.0, highest * 1.06, factor, unit)
    }

    pub(crate) fn at(&self, value: f64, from: f64, to: f64) -> f64 {
        let share = if self.log {
            (value.max(self.lo * 0.5) / self.lo).ln() / (self.hi / self.lo).ln()
        } else {
            (value - self.lo) / (self.hi - self.lo)
        };
        from + share * (to - from)
    }

    pub(crate) fn ticks(&self, about: usize) -> Vec<Tick> {
        if self.log {
            return self.log_ticks();
        }
        let (lo, hi) = ((self.lo - self.origin) / self.factor, (self.hi - self.origin) / self.factor);
        let step = nice_step(hi - lo, about);
        let decimals = (-step.log10().floor()).clamp(0.0, 12.0) as usize;
        let (first, last) = ((lo / step - 1e-9).ceil() as i64, (hi / step + 1e-9).floor() as i64);
        (first..=last)
            .map(|i| {
                let shown = i as f64 * step;
                let label = format!("{shown:.decimals$}").replace('-', "−");
                Tick { value: shown * self.factor + self.origin, label }
            })
            .collect()
    }

    /// 1, 2 and 5 of each power of ten, or only the powers if there are many.
    fn log_ticks(&self) -> Vec<Tick> {
        let (lo, hi) = (self.lo / self.factor, self.hi / self.factor);
        let steps: &[f64] = if hi / lo > 2e3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let (first, last) = (lo.log10().floor() as i32, hi.log10().ceil() as i32);
        (first..=last)
            .flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)))
            .filter(|value| (lo * (1.0 - 1e-9)..=hi * (1.0 + 1e-9)).contains(value))
            .map(|value| Tick { value: value * self.factor, label: text::digits(value, 3) })
            .collect()
    }
}

pub(crate) struct Tick {
    pub(crate) value: f64,
    pub(crate) label: String,
}

/// 1, 2 or 5 times a power of ten, so that `span` has about `n` of it.
fn nice_step(span: f64, n: usize) -> f64 {
    let rough = span / n as f64;
    let power = 10f64.powf(rough.log10().floor());
    power
        * match rough / power {
            r if r < 1.5 => 1.0,
            r if r < 3.5 => 2.0,
            r if r < 7.5 => 5.0,
            _ => 10.0,
        }
}

/// A stretch of the x axis that is shaded.
#[derive(Clone, Copy, Debug, Serialize)]
struct Band {
    from: f64,
    to: f64,
    kind: BandKind,
    /// The rhythm it belongs to.
    colour: usize,
    /// 0 over the whole height; else a strip at the top, so that rhythms at once do not hide each other.
    lane: usize,
}

impl Band {
    fn class(&self) -> String {
        match self.kind {
            BandKind::Phase => format!("phase p{}", self.colour),
            BandKind::Expected => "expected".to_owned(),
            BandKind::Pause => "pause".to_owned(),
        }
    }

    /// Where it begins and how high it is.
    fn rows(&self) -> (f64, f64) {
        match self.lane {
            0 => (TOP, BOTTOM - TOP),
            lane => (TOP + (lane - 1) as f64 * LANE, LANE - 2.0),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum BandKind {
    Phase,
    Expected,
    /// A time without phases.
    Pause,
}

/// Bands as they can be told apart: what is less than `gap` apart is one.
fn merged(bands: &[Band], gap: f64) -> Vec<Band> {
    let mut merged: Vec<Band> = Vec::new();
    for &band in bands {
        match merged.last_mut() {
            Some(last)
                if (last.kind, last.colour) == (band.kind, band.colour) && band.from - last.to < gap =>
            {
                last.to = last.to.max(band.to)
            }
            _ => merged.push(band),
        }
    }
    merged
}

/// A line across the picture with a label.
#[derive(Clone, Debug, Serialize)]
struct Mark {
    at: f64,
    label: String,
    strong: bool,
}

impl Mark {
    fn class(&self) -> &'static str {
        if self.strong { "mark" } else { "mark weak" }
    }
}

/// Values over x.
#[derive(Clone, Debug, Serialize)]
struct Series {
    label: &'static str,
    look: Look,
    /// The rhythm it belongs to.
    colour: usize,
    /// Whether a value holds until the next x rather than being joined to it.
    step: bool,
    x: Xs,
    /// The values, or the means of columns of values.
    #[serde(serialize_with = "short_numbers")]
    mid: Vec<f64>,
    /// The lowest and highest of each column; empty if a column is one value.
    #[serde(serialize_with = "short_numbers")]
    lo: Vec<f64>,
    #[serde(serialize_with = "short_numbers")]
    hi: Vec<f64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Look {
    /// Filled down to the axis: strong up to the mean, faint up to the highest.
    Area,
    /// A line, as thick as its range.
    Line,
    /// The space between lowest and highest.
    Ribbon,
    /// A dot for the lowest and one for the highest of each column, in the colour of a rhythm.
    Points,
    /// A line in the colour of a rhythm.
    Beat,
}

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Xs {
    Even { start: f64, step: f64 },
    At(#[serde(serialize_with = "short_numbers")] Vec<f64>),
}

impl Xs {
    fn at(&self, i: usize) -> f64 {
        match self {
            Xs::Even { start, step } => start + i as f64 * step,
            Xs::At(xs) => xs[i.min(xs.len() - 1)],
        }
    }
}

/// One pixel's worth of values.
#[derive(Clone, Copy, Debug)]
struct Column {
    x: f64,
    lo: f64,
    mid: f64,
    hi: f64,
}

impl Series {
    fn even(label: &'static str, look: Look, start: f64, step: f64, values: &[f64]) -> Self {
        if values.len() <= 2 * EMBEDDED {
            let (mid, x) = (values.to_vec(), Xs::Even { start, step });
            return Self { label, look, colour: 0, step: false, x, mid, lo: Vec::new(), hi: Vec::new() };
        }
        let per_column = values.len().div_ceil(EMBEDDED);
        let columns = || values.chunks(per_column);
        Self {
            label,
            look,
            colour: 0,
            step: false,
            x: Xs::Even { start, step: step * per_column as f64 },
            mid: columns().map(|part| part.iter().sum::<f64>() / part.len() as f64).collect(),
            lo: columns().map(|part| part.iter().copied().fold(f64::INFINITY, f64::min)).collect(),
            hi: columns().map(highest).collect(),
        }
    }

    fn class(&self) -> String {
        match self.look {
            Look::Area => "area".to_owned(),
            Look::Line => "line".to_owned(),
            Look::Ribbon => "ribbon".to_owned(),
            Look::Points => format!("points c{}", self.colour),
            Look::Beat => format!("beat c{}", self.colour),
        }
    }

    /// The values as columns of the picture, at most one per pixel.
    fn columns(&self, x_axis: &Axis) -> Vec<Column> {
        let mut columns: Vec<(Column, i64, f64)> = Vec::new();
        for (i, &mid) in self.mid.iter().enumerate() {
            let x = x_axis.at(self.x.at(i), LEFT, RIGHT);
            let (lo, hi) = (*self.lo.get(i).unwrap_or(&mid), *self.hi.get(i).unwrap_or(&mid));
            let pixel = x.floor() as i64;
            if !(LEFT as i64 - 2..=RIGHT as i64 + 2).contains(&pixel) {
                continue;
            }
            match columns.last_mut() {
                Some((column, at, n)) if *at == pixel => {
                    column.lo = column.lo.min(lo);
                    column.hi = column.hi.max(hi);
                    column.mid += mid;
                    *n += 1.0;
                }
                _ => columns.push((Column { x, lo, mid, hi }, pixel, 1.0)),
            }
        }
        columns.into_iter().map(|(column, _, n)| Column { mid: column.mid / n, ..column }).collect()
    }

    fn draw(&self, svg: &mut String, x_axis: &Axis, y_axis: &Axis) {
        let columns = self.columns(x_axis);
        if columns.is_empty() {
            return;
        }
        // Steps are drawn as such only where there is room for them.
        let stepped = self.step && columns.len() < COLUMNS / 2;
        let end = match (&self.x, self.step) {
            (Xs::Even { .. }, true) => x_axis.at(self.x.at(self.mid.len()), LEFT, RIGHT),
            _ => columns[columns.len() - 1].x,
        };
        let path = |value: &dyn Fn(&Column) -> f64| {
            let mut path = String::new();
            let mut last = None;
            for column in &columns {
                let y = y_axis.at(value(column), BOTTOM, TOP);
                if let (true, Some(last)) = (stepped, last) {
                    let _ = write!(path, "L{:.1} {last:.1}", column.x);
                }
                let _ = write!(path, "{}{:.1} {y:.1}", if path.is_empty() { "M" } else { "L" }, column.x);
                last = Some(y);
            }
            if let (true, Some(last)) = (self.step, last) {
                let _ = write!(path, "L{end:.1} {last:.1}");
            }
            path
        };
        match self.look {
            Look::Area => {
                let ground = y_axis.at(0.0f64.max(y_axis.lo), BOTTOM, TOP);
                let close = format!("L{end:.1} {ground:.1}L{:.1} {ground:.1}Z", columns[0].x);
                if columns.iter().any(|column| column.hi > column.mid) {
                    let _ =
                        writeln!(svg, "<path class=\"faint\" d=\"{}{close}\"/>", path(&|column| column.hi));
                }
                let means = path(&|column| column.mid);
                let _ = writeln!(svg, "<path class=\"area\" d=\"{means}{close}\"/>");
                let _ = writeln!(svg, "<path class=\"edge\" d=\"{means}\"/>");
            }
            Look::Points => {
                let mut path = String::new();
                for column in &columns {
                    let (lo, hi) = (y_axis.at(column.lo, BOTTOM, TOP), y_axis.at(column.hi, BOTTOM, TOP));
                    let _ = write!(path, "M{:.1} {lo:.1}h0", column.x);
                    if lo - hi >= 1.0 {
                        let _ = write!(path, "M{:.1} {hi:.1}h0", column.x);
                    }
                }
                let _ = writeln!(svg, "<path class=\"{}\" d=\"{path}\"/>", self.class());
            }
            Look::Beat => {
                let _ =
                    writeln!(svg, "<path class=\"{}\" d=\"{}\"/>", self.class(), path(&|column| column.mid));
            }
            Look::Line => {
                let mut path = String::new();
                for column in &columns {
                    let (lo, hi) = (y_axis.at(column.lo, BOTTOM, TOP), y_axis.at(column.hi, BOTTOM, TOP));
                    let _ =
                        write!(path, "{}{:.1} {lo:.1}", if path.is_empty() { "M" } else { "L" }, column.x);
                    if lo != hi {
                        let _ = write!(path, "L{:.1} {hi:.1}", column.x);
                    }
                }
                let _ = writeln!(svg, "<path class=\"line\" d=\"{path}\"/>");
            }
            Look::Ribbon => {
                let mut path = path(&|column| column.hi);
                for column in columns.iter().rev() {
                    let _ = write!(path, "L{:.1} {:.1}", column.x, y_axis.at(column.lo, BOTTOM, TOP));
                }
                let _ = writeln!(svg, "<path class=\"ribbon\" d=\"{path}Z\"/>");
            }
        }
    }
}

fn bandwidth_plot(run: &RunAnalysis) -> Plot {
    let SampledSignal { start_s, rate_hz, ref values, .. } = run.signal;
    let (estimate, end_s) = (&run.estimate, run.signal.end_s());
    let (mut bands, keys, marks) = rhythm_bands(run);
    let mut until_s = end_s;
    let mut caption = format!("{} over time, as it was analysed.", capitalised(moved(run.direction)));
    if !bands.is_empty() {
        caption += match estimate.rhythms.len() {
            0 | 1 => " Shaded: the phases.",
            _ => " Shaded: the phases, a colour for each rhythm.",
        };
    }
    if let (Some(next_s), Some(period_s)) = (estimate.next_phase_s, estimate.period_s) {
        let lengths: Vec<f64> = estimate.phases.iter().map(|phase| phase.end_s - phase.start_s).collect();
        let length_s = quantile(&lengths, 0.5).unwrap_or(period_s * 0.1).max(period_s * 0.01);
        // A phase expected within the data is no forecast, and one far beyond them would squeeze the data.
        if next_s + length_s > end_s && next_s < end_s + 2.0 * period_s {
            bands.push(Band {
                from: next_s,
                to: next_s + length_s,
                kind: BandKind::Expected,
                colour: 0,
                lane: 0,
            });
            until_s = next_s + length_s * 1.3;
            let _ = write!(caption, " Hatched: the next one is expected at {}.", text::moment(next_s));
        }
    }
    let mut series = Series::even("", Look::Area, start_s, 1.0 / rate_hz, values);
    series.step = true;
    Plot {
        name: "bandwidth",
        title: "Bandwidth over time",
        caption,
        x: Axis::time("time", start_s, until_s),
        y: Axis::bandwidth("bandwidth", highest(values)),
        bands,
        series: vec![series],
        marks,
        dots: Vec::new(),
        keys,
    }
}

/// The phases of every rhythm, what the legend says of them, and where a rhythm follows another.
fn rhythm_bands(run: &RunAnalysis) -> (Vec<Band>, Vec<(String, String)>, Vec<Mark>) {
    let (estimate, gap_s) = (&run.estimate, run.signal.duration_s / EMBEDDED as f64);
    let (mut bands, mut keys, mut marks) = (Vec::new(), Vec::new(), Vec::new());
    let mut taken: Vec<&iotide_analysis::Rhythm> = Vec::new();
    let mut lane = 0;
    let shaded = |phases: &[iotide_analysis::Phase], colour: usize, lane: usize| {
        let mut bands: Vec<Band> = (phases.iter())
            .map(|phase| Band { from: phase.start_s, to: phase.end_s, kind: BandKind::Phase, colour, lane })
            .collect();
        bands.sort_unstable_by(|a, b| a.from.total_cmp(&b.from));
        merged(&bands, gap_s)
    };
    let rhythms = (estimate.rhythms.iter()).filter(|rhythm| !rhythm.phases.is_empty()).take(N_COLOURS);
    for (colour, rhythm) in rhythms.enumerate() {
        let is_apart =
            (taken.iter()).all(|other| rhythm.start_s >= other.end_s || other.start_s >= rhythm.end_s);
        if is_apart {
            taken.push(rhythm);
        } else {
            lane += 1;
        }
        bands.extend(shaded(&rhythm.phases, colour, if is_apart { 0 } else { lane }));
        keys.push((format!("phase p{colour}"), format!("every {}", text::seconds(rhythm.period_s))));
    }
    taken.sort_by(|a, b| a.start_s.total_cmp(&b.start_s));
    marks.extend(taken.iter().skip(1).map(|rhythm| Mark {
        at: rhythm.start_s,
        label: format!("every {}", text::seconds(rhythm.period_s)),
        strong: false,
    }));
    if keys.is_empty() && !estimate.phases.is_empty() {
        bands = shaded(&estimate.phases, 0, 0);
    }
    if keys.len() < 2 && !bands.is_empty() {
        keys = vec![("phase p0".to_owned(), "phase".to_owned())];
    }
    (bands, keys, marks)
}

/// All periods laid over each other.
fn fold_plot(run: &RunAnalysis) -> Option<Plot> {
    let period_s = run.estimate.period_s?;
    let signal = &run.signal;
    let per_period = period_s * signal.rate_hz;
    let n_periods = signal.duration_s / period_s;
    let n_bins = (per_period as usize).clamp(1, 200);
    if n_periods < 2.0 || per_period < 4.0 {
        return None;
    }
    // Begin a tenth of a period before a phase, so that no phase is cut in two.
    let anchor_s = run.estimate.phases.first().map_or(signal.start_s, |phase| phase.start_s) - 0.1 * period_s;
    let mut bins = vec![Vec::new(); n_bins];
    for (i, &value) in signal.values[..signal.n_whole()].iter().enumerate() {
        let share = ((signal.time_s(i) - anchor_s) / period_s).rem_euclid(1.0);
        bins[((share * n_bins as f64) as usize).min(n_bins - 1)].push(value);
    }
    let of_bins = |q: f64| bins.iter().map(|bin| quantile(bin, q).unwrap_or(0.0)).collect::<Vec<_>>();
    let means: Vec<f64> =
        bins.iter().map(|bin| bin.iter().sum::<f64>() / (bin.len() as f64).max(1.0)).collect();
    let step = period_s / n_bins as f64;
    let (lo, hi) = (of_bins(0.1), of_bins(0.9));
    let top = highest(&hi).max(highest(&means));
    let ribbon =
        Series { lo, hi, ..Series::even("eight of ten periods", Look::Ribbon, step / 2.0, step, &means) };
    Some(Plot {
        name: "period",
        title: "One period",
        caption: format!(
            "All periods of {} laid over each other: the narrower the band, the more alike they are.",
            text::seconds(period_s)
        ),
        x: Axis::time("time within the period", 0.0, period_s),
        y: Axis::bandwidth("bandwidth", top),
        bands: Vec::new(),
        series: vec![ribbon, Series::even("mean", Look::Line, step / 2.0, step, &means)],
        marks: Vec::new(),
        dots: Vec::new(),
        keys: Vec::new(),
    })
}

fn spectrum_plot(run: &RunAnalysis) -> Option<Plot> {
    /// The best candidates; more would only be a fence.
    const MARKED: usize = 3;
    let signal = &run.signal;
    let n = signal.n_whole();
    if n < 8 {
        return None;
    }
    let spectrum = spectrum(&signal.values[..n]);
    let amplitudes: Vec<f64> =
        spectrum.magnitudes[1..].iter().map(|magnitude| 2.0 * magnitude / n as f64).collect();
    let frequency_hz = |k: usize| (k + 1) as f64 * signal.rate_hz / n as f64;
    let (lo, hi) = (frequency_hz(0), frequency_hz(amplitudes.len() - 1));
    // On a logarithmic axis the low bins stand alone and the high ones crowd: the highest of a crowd is kept.
    let (mut xs, mut peaks): (Vec<f64>, Vec<f64>) = (Vec::new(), Vec::new());
    let mut column = -1;
    for (k, &amplitude) in amplitudes.iter().enumerate() {
        let here = ((frequency_hz(k) / lo).ln() / (hi / lo).ln() * EMBEDDED as f64 / 2.0) as i64;
        match peaks.last_mut() {
            Some(peak) if here == column => {
                if amplitude > *peak {
                    *peak = amplitude;
                    xs[peaks.len() - 1] = frequency_hz(k);
                }
            }
            _ => {
                xs.push(frequency_hz(k));
                peaks.push(amplitude);
            }
        }
        column = here;
    }
    let marks = (run.estimate.rhythms.iter())
        .map(|rhythm| (rhythm.period_s, true))
        .chain(run.estimate.period_s.map(|period_s| (period_s, true)))
        .chain(run.estimate.candidates.iter().take(MARKED).map(|candidate| (candidate.period_s, false)))
        .map(|(period_s, strong)| Mark { at: 1.0 / period_s, label: text::seconds(period_s), strong });
    let mut seen: Vec<Mark> = Vec::new();
    for mark in marks {
        if !seen.iter().any(|other| (other.at / mark.at - 1.0).abs() < 5e-3) {
            seen.push(mark);
        }
    }
    seen.sort_unstable_by(|a, b| a.at.total_cmp(&b.at));
    let caption = match (seen.iter().any(|mark| mark.strong), seen.is_empty()) {
        (true, _) => {
            "How strong each frequency is. Marked: the period that was found, and fainter what was considered."
        }
        (false, false) => "How strong each frequency is. Marked: what was considered, and not believed.",
        (false, true) => "How strong each frequency is. None stands out as a period.",
    };
    let series = Series {
        label: "",
        look: Look::Line,
        colour: 0,
        step: false,
        x: Xs::At(xs),
        mid: peaks.clone(),
        lo: Vec::new(),
        hi: Vec::new(),
    };
    Some(Plot {
        name: "spectrum",
        title: "Spectrum",
        caption: caption.to_owned(),
        x: Axis { log: true, ..Axis::linear("frequency", lo, hi, 1.0, "Hz") },
        y: Axis::bandwidth("amplitude", highest(&peaks)),
        bands: Vec::new(),
        series: vec![series],
        marks: seen,
        dots: Vec::new(),
        keys: Vec::new(),
    })
}

fn autocorrelation_plot(run: &RunAnalysis) -> Option<Plot> {
    let signal = &run.signal;
    let n = signal.n_whole();
    if n < 8 {
        return None;
    }
    let mut rho = autocorrelation(&signal.values[..n]);
    // Beyond half the run a value rests on less than half the data.
    rho.truncate(n / 2 + 1);
    let longest_s = (rho.len() - 1) as f64 / signal.rate_hz;
    let mut dots = Vec::new();
    let mut marks = Vec::new();
    let period_s = run.estimate.period_s.or(run.estimate.autocorrelation.as_ref().map(|acf| acf.period_s));
    if let Some(period_s) = period_s.filter(|&period_s| period_s * signal.rate_hz >= 2.0) {
        let n_multiples = ((longest_s / period_s) as usize).min(200);
        for multiple in 1..=n_multiples {
            let around =
                |shift: f64| ((multiple as f64 + shift) * period_s * signal.rate_hz).round() as usize;
            let (from, to) = (around(-0.25), around(0.25).min(rho.len() - 1));
            let best = (from..=to).max_by(|&a, &b| rho[a].total_cmp(&rho[b]));
            if let Some(best) = best.filter(|&best| best > from && best < to && rho[best] > 0.0) {
                dots.push([best as f64 / signal.rate_hz, rho[best]]);
            }
        }
        let strong = run.estimate.period_s.is_some();
        marks.push(Mark { at: period_s, label: text::seconds(period_s), strong });
    }
    let lowest = rho.iter().copied().fold(0.0, f64::min);
    let caption = if dots.is_empty() {
        "How much the signal resembles itself some time later. A rhythm would show as even peaks."
    } else {
        "How much the signal resembles itself some time later. Dots: the peaks at multiples of the period."
    };
    Some(Plot {
        name: "autocorrelation",
        title: "Autocorrelation",
        caption: caption.to_owned(),
        x: Axis::time("shifted by", 0.0, longest_s),
        y: Axis::linear("autocorrelation", (lowest * 5.0).floor() / 5.0, 1.0, 1.0, ""),
        bands: Vec::new(),
        series: vec![Series::even("", Look::Line, 0.0, 1.0 / signal.rate_hz, &rho)],
        marks,
        dots,
        keys: Vec::new(),
    })
}

fn moved(direction: Direction) -> &'static str {
    match direction {
        Direction::Read => "bytes read",
        Direction::Write => "bytes written",
        Direction::Both => "bytes read and written",
    }
}

fn capitalised(words: &str) -> String {
    let mut chars = words.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

fn highest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// Five digits are more than a screen shows, and a third of the size.
fn short_numbers<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(|&value| {
        if value == 0.0 || !value.is_finite() {
            return 0.0;
        }
        let scale = 10f64.powi(5 - value.abs().log10().ceil() as i32);
        let short = (value * scale).round() / scale;
        if short.is_finite() { short } else { value }
    }))
}

/// Returns text that is safe between tags and in quoted attributes of HTML and SVG.
pub(crate) fn escape(text: &str) -> String {
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
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{aperiodic, long, periodic, since_1970};

    fn named<'a>(plots: &'a [Plot], name: &str) -> &'a Plot {
        plots.iter().find(|plot| plot.name == name).unwrap_or_else(|| panic!("no picture {name}"))
    }

    #[test]
    fn a_periodic_run_has_five_pictures_and_an_aperiodic_one_no_fold() {
        let names = |plots: Vec<Plot>| plots.iter().map(|plot| plot.name).collect::<Vec<_>>().join(" ");
        assert_eq!(names(pictures(&periodic().0)), "bandwidth beat period spectrum autocorrelation");
        assert_eq!(names(pictures(&aperiodic().0)), "bandwidth spectrum autocorrelation");
    }

    #[test]
    fn a_long_run_has_no_more_points_than_a_screen_has_pixels() {
        let plots = pictures(&long());
        for plot in &plots {
            let svg = plot.to_svg();
            for path in svg.split("<path").skip(1) {
                let points = path.split("/>").next().unwrap().matches(['L', 'M']).count();
                assert!(points <= 2000, "{}: {points} points", plot.name);
            }
            assert!(plot.to_json().len() < 400_000, "{}: {} bytes", plot.name, plot.to_json().len());
        }
    }

    #[test]
    fn a_burst_of_one_sample_is_seen_however_long_the_run() {
        let mut run = long();
        run.signal.values.fill(1.0);
        run.signal.values[123_456] = 1000.0;
        let plots = pictures(&run);
        let plot = named(&plots, "bandwidth");
        let highest = plot.series[0].columns(&plot.x).iter().map(|column| column.hi).fold(0.0, f64::max);
        assert_eq!(highest, 1000.0);
    }

    #[test]
    fn the_spectrum_peaks_where_the_period_is() {
        let run = periodic().0;
        let plots = pictures(&run);
        let series = &named(&plots, "spectrum").series[0];
        let peak = (0..series.mid.len()).max_by(|&a, &b| series.mid[a].total_cmp(&series.mid[b])).unwrap();
        assert!((1.0 / series.x.at(peak) - 5.0).abs() < 0.3, "{} Hz", series.x.at(peak));
    }

    #[test]
    fn the_peaks_of_the_autocorrelation_lie_at_multiples_of_the_period() {
        let plots = pictures(&periodic().0);
        let dots = &named(&plots, "autocorrelation").dots;
        assert!(dots.len() >= 3, "{dots:?}");
        for (i, [lag_s, _]) in dots.iter().enumerate() {
            assert!((lag_s - 5.0 * (i + 1) as f64).abs() < 0.2, "{dots:?}");
        }
    }

    #[test]
    fn ticks_are_round_and_clocks_since_1970_have_room_for_them() {
        let labels = |axis: Axis| axis.ticks(5).iter().map(|t| t.label.clone()).collect::<Vec<_>>().join(" ");
        assert_eq!(labels(Axis::time("time", 0.0, 428.2)), "0 100 200 300 400");
        assert_eq!(labels(Axis::time("time", 0.0, 7e4)), "0 5 10 15");
        assert_eq!(labels(Axis::bandwidth("bandwidth", 1.05e10)), "0 2 4 6 8 10");
        assert_eq!(labels(Axis::linear("rho", -0.8, 1.0, 1.0, "")), "−0.5 0.0 0.5 1.0");
        assert_eq!(
            labels(Axis { log: true, ..Axis::linear("f", 0.01, 1.0, 1.0, "Hz") }),
            "0.01 0.02 0.05 0.1 0.2 0.5 1"
        );
        let plots = pictures(&since_1970());
        assert_eq!(named(&plots, "bandwidth").x.label, "time after 1700000000 s (s)");
        assert_eq!(named(&plots, "bandwidth").x.ticks(4)[1].label, "10");
    }

    #[test]
    fn an_svg_is_well_formed_and_stands_alone() {
        for plot in pictures(&periodic().0) {
            let svg = plot.to_svg();
            assert!(svg.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
            assert!(svg.contains("<style>") && !svg.contains("NaN") && !svg.contains("inf"), "{}", plot.name);
            let opened = svg.matches("<g").count();
            assert_eq!(opened, svg.matches("</g>").count(), "{}", plot.name);
            assert!(!svg.contains("href"), "{}", plot.name);
        }
    }

    #[test]
    fn a_run_of_almost_nothing_has_a_picture_too() {
        let mut run = periodic().0;
        run.signal.values = vec![0.0, 0.0];
        run.signal.duration_s = 0.02;
        run.estimate = Default::default();
        for plot in pictures(&run) {
            assert!(!plot.to_svg().contains("NaN"), "{}", plot.to_svg());
        }
    }
}
