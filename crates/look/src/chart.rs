//! Pictures with two axes, as SVG and as data for the page's script.
//!
//! A [`Plot`] says what is to be seen, in the units of the data. It is drawn twice: here, as SVG that stands for itself
//! in a paper, and by `charts.js` whenever a reader zooms. Both use the same sizes and class names.
//!
//! However many values, a picture has one column per pixel at the most, and each keeps its lowest and highest value:
//! a burst of one sample is still seen.

use std::borrow::Cow;
use std::fmt::Write;

use serde::{Serialize, Serializer};

use crate::html::escape;
use crate::palette::style_element;
use crate::text;

/// One picture.
#[derive(Clone, Debug, Serialize)]
pub struct Plot {
    /// A word for file names and anchors.
    pub name: &'static str,
    /// Subject of the picture, as a heading.
    pub title: &'static str,
    /// How to read it, as a sentence.
    pub caption: String,
    /// From left to right.
    pub x: Axis,
    /// From bottom to top.
    pub y: Axis,
    /// Stretches that are shaded.
    pub bands: Vec<Band>,
    /// Series that are drawn, the last on top.
    pub series: Vec<Series>,
    /// Lines across the picture.
    pub marks: Vec<Mark>,
    /// Places that are to be seen.
    pub dots: Vec<[f64; 2]>,
    /// Entries of the legend beside the series: class and label.
    #[serde(skip)]
    pub keys: Vec<(String, String)>,
}

impl Plot {
    /// Returns the picture as an SVG document, for papers and slides.
    pub fn to_svg(&self) -> String {
        self.draw(Some(&style_element()))
    }

    /// Returns the picture as an element of a page that has [`crate::html::own_style`].
    pub fn to_inline_svg(&self) -> String {
        self.draw(None)
    }

    /// Returns what the page's script needs to draw it again.
    pub fn to_json(&self) -> String {
        text::json(self)
    }

    /// Returns where zero lies: in the middle if series hang below it.
    fn base(&self) -> f64 {
        if self.is_mirrored() { (TOP + BOTTOM) / 2.0 } else { BOTTOM }
    }

    fn is_mirrored(&self) -> bool {
        self.series.iter().any(|series| series.look == Look::Below)
    }

    fn draw(&self, style: Option<&str>) -> String {
        let (x, y) = (self.x.ticks(8), self.y.ticks(if self.is_mirrored() { 3 } else { 5 }));
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
            series.draw(&mut svg, &self.x, &self.y, self.base());
        }
        for [at, value] in &self.dots {
            let (at, value) = (self.x.at(*at, LEFT, RIGHT), self.y.at(*value, self.base(), TOP));
            let _ = writeln!(svg, "<circle class=\"dot\" cx=\"{at:.1}\" cy=\"{value:.1}\" r=\"3\"/>");
        }
        svg.push_str("</g>\n");
        self.draw_marks(&mut svg);
        // On a page the legend stands beside the picture, as words that wrap.
        if style.is_some() {
            self.draw_legend(&mut svg);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn draw_axes(&self, svg: &mut String, x: &[Tick], y: &[Tick]) {
        svg.push_str("<g class=\"axes\">\n");
        let base = self.base();
        let ends: &[f64] = if self.is_mirrored() { &[TOP, BOTTOM] } else { &[TOP] };
        for (Tick { value, label }, &end) in ends.iter().flat_map(|end| y.iter().map(move |tick| (tick, end)))
        {
            let at = self.y.at(*value, base, end);
            // The zero of both halves is one.
            if end == BOTTOM && at <= base {
                continue;
            }
            let _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                LEFT - 8.0,
                at + 4.0
            );
        }
        if base != BOTTOM {
            let _ = writeln!(
                svg,
                "<line class=\"base\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{base}\" y2=\"{base}\"/>"
            );
        }
        draw_x_ticks(svg, &self.x, x, BOTTOM);
        let _ = writeln!(
            svg,
            "<line class=\"base\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{BOTTOM}\" y2=\"{BOTTOM}\"/>\n\
             <text class=\"name\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n\
             <text class=\"name\" x=\"{LEFT}\" y=\"15\" text-anchor=\"start\">{}</text>\n</g>",
            (LEFT + RIGHT) / 2.0,
            HEIGHT - 6.0,
            escape(&self.x.label),
            escape(&self.y_name())
        );
    }

    /// Returns the name of the upright axis, which says so if a bandwidth is on a logarithmic scale beside a time that is not.
    fn y_name(&self) -> Cow<'_, str> {
        match self.y.log && !self.x.log && self.y.unit.ends_with("B/s") {
            true => format!("{}, logarithmic", self.y.label).into(),
            false => self.y.label.as_str().into(),
        }
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
            entries.push((series.class(), &series.label, String::new()));
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

/// Draws the ticks of an axis that lies at `bottom`, from left to right.
pub fn draw_x_ticks(svg: &mut String, axis: &Axis, ticks: &[Tick], bottom: f64) {
    for Tick { value, label } in ticks {
        let at = axis.at(*value, LEFT, RIGHT);
        // A long one at the end of the axis would be cut off.
        let centre = at.min(WIDTH - 3.6 * label.chars().count() as f64);
        let _ = writeln!(
            svg,
            "<line class=\"tick\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom}\" y2=\"{}\"/>\
             <text x=\"{centre:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
            bottom + 5.0,
            bottom + 18.0
        );
    }
}

/// Sizes in SVG units; `charts.js` has the same.
pub const WIDTH: f64 = 960.0;
/// The height of a picture.
pub const HEIGHT: f64 = 300.0;
/// Where the inside of a picture begins.
pub const LEFT: f64 = 56.0;
/// Where it ends.
pub const RIGHT: f64 = 948.0;
/// Its upper edge.
pub const TOP: f64 = 28.0;
/// Its lower edge.
pub const BOTTOM: f64 = 250.0;
/// Height of a strip at the top.
const LANE: f64 = 10.0;

/// One column per SVG unit.
const COLUMNS: usize = (RIGHT - LEFT) as usize;

/// The most values of a series that go into a page: beyond that, columns of lowest, mean and highest.
pub const EMBEDDED: usize = 3072;

/// Axis of a picture.
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    /// Label of the axis.
    pub label: String,
    lo: f64,
    hi: f64,
    /// Subtracted from a value before it is shown: clocks that count from the Unix epoch have no room for their digits.
    origin: f64,
    /// Divides a value before it is shown.
    factor: f64,
    /// The unit of what is shown then.
    unit: &'static str,
    /// Whether equal distances are equal factors; `lo` is above zero then.
    log: bool,
}

impl Axis {
    /// From `lo` to `hi`; what is shown is divided by `factor`, which makes it `unit`.
    pub fn linear(label: &str, lo: f64, hi: f64, factor: f64, unit: &'static str) -> Self {
        // A span of nothing cannot be divided by.
        let hi = if hi > lo { hi } else { lo + factor };
        let label = if unit.is_empty() { label.to_owned() } else { format!("{label} ({unit})") };
        Self { label, lo, hi, origin: 0.0, factor, unit, log: false }
    }

    /// How many digits of places on it are alike.
    pub(crate) fn digits_alike(&self) -> usize {
        if self.is_logarithmic() { 0 } else { digits_before(self.lo, self.hi) }
    }

    /// Seconds, in the unit that suits their span.
    pub fn time(label: &str, lo: f64, hi: f64) -> Self {
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

    /// The same with another zero, and another name that says so.
    pub fn counted_from(self, origin: f64, label: &str) -> Self {
        Self { label: format!("{label} ({})", self.unit), origin, ..self }
    }

    /// Bandwidth from 0 to a little above `highest`.
    pub fn bandwidth(label: &str, highest: f64) -> Self {
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

    /// The same from `lo` on, if that is lower.
    pub fn down_to(self, lo: f64) -> Self {
        Self { lo: self.lo.min(lo), ..self }
    }

    /// The same from `lo` on, which is above zero, with equal distances for equal factors.
    pub fn logarithmic(self, lo: f64) -> Self {
        Self { log: true, lo, ..self }
    }

    /// Returns the number that is subtracted from a value before it is shown, and the unit it has then.
    pub(crate) fn shown_as(&self) -> (f64, &'static str) {
        (self.origin, self.unit)
    }

    /// Returns the quantity on the axis, with the unit of values as they are.
    pub(crate) fn plain_name(&self) -> String {
        let name = self.label.rsplit_once(" (").map_or(self.label.as_str(), |(name, _)| name);
        let unit = match self.unit {
            "" => return name.to_owned(),
            unit if unit.ends_with("B/s") => "B/s",
            "Hz" => "Hz",
            unit if self.factor == 1.0 => unit,
            _ => "s",
        };
        format!("{name} ({unit})")
    }

    /// The same for values that are counted from the clock's own zero, as the JSON form has them.
    pub(crate) fn stored_name(&self) -> String {
        let plain = self.plain_name();
        match (self.origin == 0.0, plain.split_once(" after "), plain.rsplit_once(" (")) {
            (false, Some((name, _)), Some((_, unit))) => format!("{name} ({unit}"),
            _ => plain,
        }
    }

    /// Whether equal distances are equal factors.
    pub(crate) fn is_logarithmic(&self) -> bool {
        self.log
    }

    /// Where a value lies if the axis reaches from `from` to `to`.
    pub fn at(&self, value: f64, from: f64, to: f64) -> f64 {
        let share = if self.log {
            (value.max(self.lo * 0.5) / self.lo).ln() / (self.hi / self.lo).ln()
        } else {
            (value - self.lo) / (self.hi - self.lo)
        };
        from + share * (to - from)
    }

    /// About so many round values.
    pub fn ticks(&self, about: usize) -> Vec<Tick> {
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

/// A round value on an axis.
#[derive(Clone, Debug)]
pub struct Tick {
    /// The value.
    pub value: f64,
    /// As it is written.
    pub label: String,
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
pub struct Band {
    /// Where it begins.
    pub from: f64,
    /// Where it ends.
    pub to: f64,
    /// Kind of the band.
    pub kind: BandKind,
    /// Which of the colours it has.
    pub colour: usize,
    /// 0 over the whole height; else a strip at the top, so that bands at the same time do not hide each other.
    pub lane: usize,
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

/// Meaning of a band.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BandKind {
    /// Something is there.
    Phase,
    /// Something will be there.
    Expected,
    /// A time in which nothing is.
    Pause,
}

/// Bands as they can be distinguished: what is less than `gap` apart is one.
pub fn merged(bands: &[Band], gap: f64) -> Vec<Band> {
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
pub struct Mark {
    /// Where.
    pub at: f64,
    /// Label beside the line.
    pub label: String,
    /// Whether it is the one that counts.
    pub strong: bool,
}

impl Mark {
    fn class(&self) -> &'static str {
        if self.strong { "mark" } else { "mark weak" }
    }
}

/// Values over x.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    /// In the legend; empty for none.
    pub label: Cow<'static, str>,
    /// How it is drawn.
    pub look: Look,
    /// Which of the colours it has.
    pub colour: usize,
    /// Whether a value holds until the next x rather than being joined to it.
    pub step: bool,
    /// Where the values stand.
    pub x: Xs,
    /// The values, or the means of columns of values.
    #[serde(serialize_with = "short_numbers")]
    pub mid: Vec<f64>,
    /// The lowest and highest of each column; empty if a column is one value.
    #[serde(serialize_with = "short_numbers")]
    pub lo: Vec<f64>,
    /// See `lo`.
    #[serde(serialize_with = "short_numbers")]
    pub hi: Vec<f64>,
}

/// How values are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Look {
    /// Filled down to the axis in its colour: strong up to the lowest of a column, faint up to its highest.
    Area,
    /// The same downwards: zero lies in the middle of the picture then, and both halves have one scale.
    Below,
    /// A line, as thick as its range.
    Line,
    /// The space between lowest and highest.
    Ribbon,
    /// A dot for the lowest and one for the highest of each column, in its colour.
    Points,
    /// A line in its colour.
    Beat,
    /// The space between lowest and highest in its colour: its value, on top of others.
    Stack,
}

/// Where values stand.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Xs {
    /// At even distances.
    Even {
        /// The first.
        start: f64,
        /// From one to the next.
        step: f64,
    },
    /// Each where it says.
    At(#[serde(serialize_with = "short_places")] Vec<f64>),
}

impl Xs {
    /// Where the value with this number stands.
    pub fn at(&self, i: usize) -> f64 {
        match self {
            Xs::Even { start, step } => start + i as f64 * step,
            Xs::At(xs) => xs[i.min(xs.len() - 1)],
        }
    }
}

/// One pixel's worth of values.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Where it stands.
    pub x: f64,
    /// The lowest of them.
    pub lo: f64,
    /// Their mean.
    pub mid: f64,
    /// The highest.
    pub hi: f64,
}

impl Series {
    /// Values at even distances; more than a page can bear become columns of lowest, mean and highest.
    pub fn even(label: &'static str, look: Look, start: f64, step: f64, values: &[f64]) -> Self {
        if values.len() <= 2 * EMBEDDED {
            let (mid, x) = (values.to_vec(), Xs::Even { start, step });
            return Self {
                label: label.into(),
                look,
                colour: 0,
                step: false,
                x,
                mid,
                lo: Vec::new(),
                hi: Vec::new(),
            };
        }
        let per_column = values.len().div_ceil(EMBEDDED);
        let columns = || values.chunks(per_column);
        Self {
            label: label.into(),
            look,
            colour: 0,
            step: false,
            x: Xs::Even { start, step: step * per_column as f64 },
            mid: columns().map(|part| part.iter().sum::<f64>() / part.len() as f64).collect(),
            lo: columns().map(|part| part.iter().copied().fold(f64::INFINITY, f64::min)).collect(),
            hi: columns().map(|part| part.iter().copied().fold(f64::NEG_INFINITY, f64::max)).collect(),
        }
    }

    /// Returns the highest value between two places, that in which the first lies included.
    pub fn peak(&self, from: f64, to: f64) -> f64 {
        let n = self.mid.len();
        let first_beyond = |place: f64| {
            let (mut lo, mut hi) = (0, n);
            while lo < hi {
                let middle = (lo + hi) / 2;
                if self.x.at(middle) > place { hi = middle } else { lo = middle + 1 }
            }
            lo
        };
        let (first, end) = (first_beyond(from).saturating_sub(1), first_beyond(to));
        (first..end).map(|i| *self.hi.get(i).unwrap_or(&self.mid[i])).fold(0.0, f64::max)
    }

    pub(crate) fn class(&self) -> String {
        match self.look {
            Look::Area | Look::Below => format!("area a{}", self.colour),
            Look::Line => "line".to_owned(),
            Look::Ribbon => "ribbon".to_owned(),
            Look::Points => format!("points c{}", self.colour),
            // A line of two points is a level; one of more is drawn to be followed.
            Look::Beat if self.mid.len() > 2 => format!("beat c{} wave", self.colour),
            Look::Beat => format!("beat c{}", self.colour),
            Look::Stack => format!("stack s{}", self.colour),
        }
    }

    /// The values as columns of the picture, at most one per pixel.
    pub fn columns(&self, x_axis: &Axis) -> Vec<Column> {
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

    /// Draws it; zero lies at `base`.
    fn draw(&self, svg: &mut String, x_axis: &Axis, y_axis: &Axis, base: f64) {
        let mut columns = self.columns(x_axis);
        if columns.is_empty() {
            return;
        }
        if matches!(self.look, Look::Area | Look::Below) {
            smear(&mut columns);
        }
        let end = if self.look == Look::Below { BOTTOM } else { TOP };
        let up = |value: f64| match y_axis.at(value, base, end) {
            // Below the least of a logarithmic scale there is the other half.
            at if base != BOTTOM && (at - base) * (end - base) < 0.0 => base,
            at => at,
        };
        // Steps are drawn as such only where there is room for them.
        let stepped = self.step && columns.len() < COLUMNS / 2;
        let stop = match (&self.x, self.step) {
            (Xs::Even { .. }, true) => x_axis.at(self.x.at(self.mid.len()), LEFT, RIGHT),
            _ => columns[columns.len() - 1].x,
        };
        let path = |value: &dyn Fn(&Column) -> f64| {
            let mut path = String::new();
            let mut last = None;
            for column in &columns {
                let y = up(value(column));
                if let (true, Some(last)) = (stepped, last) {
                    let _ = write!(path, "L{:.1} {last:.1}", column.x);
                }
                let _ = write!(path, "{}{:.1} {y:.1}", if path.is_empty() { "M" } else { "L" }, column.x);
                last = Some(y);
            }
            if let (true, Some(last)) = (self.step, last) {
                let _ = write!(path, "L{stop:.1} {last:.1}");
            }
            path
        };
        match self.look {
            Look::Area | Look::Below => {
                let ground = up(0.0f64.max(y_axis.lo));
                let close = format!("L{stop:.1} {ground:.1}L{:.1} {ground:.1}Z", columns[0].x);
                // A mean of bursts that share a column would show a beat between bursts and columns that is not there.
                let (lowest, highest) = (path(&|column| column.lo), path(&|column| column.hi));
                if lowest != highest {
                    let _ = writeln!(svg, "<path class=\"faint f{}\" d=\"{highest}{close}\"/>", self.colour);
                }
                let _ = writeln!(svg, "<path class=\"{}\" d=\"{lowest}{close}\"/>", self.class());
                let _ = writeln!(svg, "<path class=\"edge e{}\" d=\"{highest}\"/>", self.colour);
            }
            Look::Points => {
                let mut path = String::new();
                for column in &columns {
                    let (lo, hi) = (up(column.lo), up(column.hi));
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
                    let (lo, hi) = (up(column.lo), up(column.hi));
                    let _ =
                        write!(path, "{}{:.1} {lo:.1}", if path.is_empty() { "M" } else { "L" }, column.x);
                    if lo != hi {
                        let _ = write!(path, "L{:.1} {hi:.1}", column.x);
                    }
                }
                let _ = writeln!(svg, "<path class=\"line\" d=\"{path}\"/>");
            }
            Look::Ribbon | Look::Stack => {
                let mut path = path(&|column| column.hi);
                let mut right = stop;
                for column in columns.iter().rev() {
                    let lo = up(column.lo);
                    if stepped {
                        let _ = write!(path, "L{right:.1} {lo:.1}");
                        right = column.x;
                    }
                    let _ = write!(path, "L{:.1} {lo:.1}", column.x);
                }
                let _ = writeln!(svg, "<path class=\"{}\" d=\"{path}Z\"/>", self.class());
            }
        }
    }
}

/// Where bursts are less than three columns apart, a column has the lowest and the highest of its neighbours, too: whether a burst falls
/// into a column is chance then, and would show as a pattern. Values that are wider than columns are seen one by one.
fn smear(columns: &mut [Column]) {
    let peaks =
        columns.windows(3).filter(|three| three[1].hi > three[0].hi && three[1].hi >= three[2].hi).count();
    let [first, .., last] = &*columns else { return };
    if 3 * peaks < columns.len() || last.x - first.x >= 2.0 * columns.len() as f64 {
        return;
    }
    let before = columns.to_vec();
    for (i, column) in columns.iter_mut().enumerate() {
        for neighbour in &before[i.saturating_sub(1)..(i + 2).min(before.len())] {
            column.lo = column.lo.min(neighbour.lo);
            column.hi = column.hi.max(neighbour.hi);
        }
    }
}

/// The highest of these and zero.
pub fn highest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

/// Four digits are more than a screen shows, and a quarter of the size.
fn short_numbers<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(values.iter().map(|&value| to_digits(value, 4)))
}

/// Five for places on an axis, and as many more as their distance from zero takes. Seconds since 1970 have nine before any differ.
fn short_places<S: Serializer>(places: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    let (lo, hi) =
        places.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), &at| (at.min(lo), at.max(hi)));
    let n = 5 + digits_before(lo, hi);
    serializer.collect_seq(places.iter().map(|&place| to_digits(place, n)))
}

/// How many digits the values of a range have before those in which they differ.
fn digits_before(lo: f64, hi: f64) -> usize {
    let times = lo.abs().max(hi.abs()) / (hi - lo);
    if times.is_nan() || times <= 1.0 { 0 } else { times.log10().ceil().min(12.0) as usize }
}

/// The nearest number of at most `n` digits, and zero for what is none.
///
/// It is made of the digits themselves: scaled by a power of ten, rounded and scaled back, 10⁹ would become 999999999.9999999.
pub(crate) fn to_digits(value: f64, n: usize) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let short = format!("{value:.*e}", n.saturating_sub(1)).parse().ok();
    // The largest numbers there are cannot be rounded up.
    short.filter(|short: &f64| short.is_finite()).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_that_are_closer_than_columns_show_no_pattern_of_their_own() {
        let column = |i: usize, hi: f64| Column { x: i as f64, lo: 0.0, mid: hi / 2.0, hi };
        // Bursts 1.8 columns apart: some columns have none.
        let mut dense: Vec<Column> =
            (0..900).map(|i| column(i, if (i * 5 % 9) < 5 { 1.0 } else { 0.0 })).collect();
        smear(&mut dense);
        assert!(dense.iter().all(|column| column.hi == 1.0 && column.lo == 0.0));
        // Those 10 columns apart are told apart.
        let mut sparse: Vec<Column> =
            (0..900).map(|i| column(i, if i % 10 == 0 { 1.0 } else { 0.0 })).collect();
        smear(&mut sparse);
        assert_eq!(sparse.iter().filter(|column| column.hi == 1.0).count(), 90);
    }

    #[test]
    fn values_that_are_wider_than_columns_are_seen_one_by_one() {
        let column = |i: usize| Column {
            x: 13.0 * i as f64,
            lo: (i % 2) as f64,
            mid: (i % 2) as f64,
            hi: (i % 2) as f64,
        };
        let mut sparse: Vec<Column> = (0..54).map(column).collect();
        smear(&mut sparse);
        assert!(
            sparse
                .iter()
                .enumerate()
                .all(|(i, column)| column.lo == column.hi && column.hi == (i % 2) as f64)
        );
    }

    #[test]
    fn places_that_begin_long_after_zero_stay_apart() {
        let places = |xs: Vec<f64>| serde_json::to_string(&Xs::At(xs)).unwrap();
        assert_eq!(places(vec![1744611915.125, 1744611968.25]), "{\"at\":[1744611915.125,1744611968.25]}");
        assert_eq!(places(vec![1744611915.125]), "{\"at\":[1744611915.125]}");
        assert_eq!(places(vec![0.0, 1.0 / 3.0, 100.0]), "{\"at\":[0.0,0.33333,100.0]}");
    }

    #[test]
    fn moments_are_named_for_what_people_see_and_for_what_is_stored() {
        let since_1970 = Axis::time("time", 1_744_611_916.0, 1_744_611_956.0);
        let named = since_1970.counted_from(1_744_611_915.0, "time after 2025-04-14 06:25:15 UTC");
        assert_eq!(named.plain_name(), "time after 2025-04-14 06:25:15 UTC (s)");
        assert_eq!(named.stored_name(), "time (s)");
        let own = Axis::time("time", 0.0, 40.0);
        assert_eq!((own.plain_name(), own.stored_name()), ("time (s)".to_owned(), "time (s)".to_owned()));
    }

    #[test]
    fn the_last_tick_of_an_axis_is_not_cut_off() {
        let axis = Axis::time("time", 0.0, 1400.0);
        let mut svg = String::new();
        draw_x_ticks(&mut svg, &axis, &axis.ticks(8), BOTTOM);
        let last = svg.lines().last().unwrap().rsplit("<text x=\"").next().unwrap();
        let centre: f64 = last.split('"').next().unwrap().parse().unwrap();
        assert!(last.ends_with(">1400</text>") && centre + 14.0 <= WIDTH && centre + 20.0 > WIDTH, "{last}");
    }

    #[test]
    fn many_values_below_zero_are_drawn_where_they_are() {
        let values: Vec<f64> = (0..10 * EMBEDDED).map(|i| -1.0 - (i % 2) as f64).collect();
        let series = Series::even("", Look::Line, 0.0, 1.0, &values);
        assert!(series.mid.len() <= EMBEDDED && series.mid.len() == series.hi.len());
        assert!(series.lo.iter().all(|&lo| lo == -2.0) && series.hi.iter().all(|&hi| hi == -1.0));
    }

    #[test]
    fn powers_of_ten_and_their_neighbours_keep_as_many_digits_as_all_others() {
        for exponent in -20..20 {
            let ten: f64 = format!("1e{exponent}").parse().unwrap();
            assert_eq!(to_digits(ten, 4), ten);
            assert_eq!(to_digits(-0.99996 * ten, 4), -ten);
            let close: f64 = format!("1.235e{exponent}").parse().unwrap();
            assert_eq!(to_digits(1.23456 * ten, 4), close);
        }
        assert_eq!([0.0, f64::NAN, f64::INFINITY].map(|value| to_digits(value, 4)), [0.0; 3]);
        assert_eq!(to_digits(f64::MAX, 4), f64::MAX);
        assert_eq!(to_digits(f64::MIN_POSITIVE, 4), 2.225e-308);
    }

    #[test]
    fn ticks_are_round() {
        let labels = |axis: Axis| axis.ticks(5).iter().map(|t| t.label.clone()).collect::<Vec<_>>().join(" ");
        assert_eq!(labels(Axis::time("time", 0.0, 428.2)), "0 100 200 300 400");
        assert_eq!(labels(Axis::time("time", 0.0, 7e4)), "0 5 10 15");
        assert_eq!(labels(Axis::bandwidth("bandwidth", 1.05e10)), "0 2 4 6 8 10");
        assert_eq!(labels(Axis::linear("rho", -0.8, 1.0, 1.0, "")), "−0.5 0.0 0.5 1.0");
        assert_eq!(
            labels(Axis { log: true, ..Axis::linear("f", 0.01, 1.0, 1.0, "Hz") }),
            "0.01 0.02 0.05 0.1 0.2 0.5 1"
        );
        let since_1970 = Axis::time("time", 1.7e9, 1.7e9 + 40.0);
        assert_eq!(since_1970.label, "time after 1700000000 s (s)");
        assert_eq!(since_1970.ticks(4)[1].label, "10");
    }
}
