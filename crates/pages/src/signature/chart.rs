//! A signature as a picture: the samples faint, where they were aligned to; the signature bold.

use std::fmt::Write;

use iotide_look::chart::Axis;
use iotide_look::palette::style_element;
use iotide_report::SignatureChart;

/// Returns the picture as an SVG document.
pub fn signature_svg(chart: &SignatureChart) -> String {
    draw(chart, Size::LARGE, &style_element())
}

/// Returns the picture for a page that has the styles: for a desk, a tablet and a phone, of which the page shows one. Scaled, its words could not be
/// read; scrolled, it would show one burst of many.
pub(super) fn to_figures(chart: &SignatureChart) -> String {
    [("desk", Size::LARGE), ("tablet", Size::MEDIUM), ("phone", Size::SMALL)]
        .map(|(class, size)| format!("<figure class=\"{class}\">{}</figure>\n", draw(chart, size, "")))
        .concat()
}

/// Returns a small picture for a page of many.
pub(super) fn to_small_svg(chart: &SignatureChart) -> String {
    draw(chart, Size::SMALL, "")
}

fn draw(chart: &SignatureChart, size: Size, style: &str) -> String {
    let Size { width, height, left, top, bottom, every, .. } = size;
    let right = width - 12.0;
    let x = Axis::time("time since the start of the run", 0.0, chart.duration_s);
    let y = Axis::bandwidth("bandwidth", chart.highest_bps);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" class=\"plot\" role=\"img\" \
         font-family=\"system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif\" font-size=\"12\">\n\
         <title>Signature, and the samples it was found in</title>\n{style}\n"
    );
    for &(start_s, end_s) in &chart.bursts {
        let (from, to) = (x.at(start_s, left, right), x.at(end_s, left, right));
        let _ = writeln!(
            svg,
            "<rect class=\"p0\" x=\"{from:.1}\" y=\"{top}\" width=\"{:.1}\" height=\"{}\"/>",
            (to - from).clamp(0.7, width),
            bottom - top
        );
    }
    for tick in y.ticks(size.ticks.1) {
        let at = y.at(tick.value, bottom, top);
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{left}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/><text x=\"{}\" y=\"{:.1}\" \
             text-anchor=\"end\">{}</text>",
            left - 6.0,
            at + 4.0,
            tick.label
        );
    }
    for tick in x.ticks(size.ticks.0) {
        let at = x.at(tick.value, left, right);
        let _ = writeln!(
            svg,
            "<line class=\"tick\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom}\" y2=\"{}\"/><text x=\"{at:.1}\" y=\"{}\" \
             text-anchor=\"middle\">{}</text>",
            bottom + 4.0,
            bottom + 17.0,
            tick.label
        );
    }
    let step_s = chart.duration_s / chart.signature.len().max(1) as f64;
    let line = |values: &[f64]| {
        let mut path = String::new();
        let mut pen_down = false;
        for (i, column) in values.chunks(every).enumerate() {
            let value = column.iter().sum::<f64>() / column.len() as f64;
            if value.is_nan() {
                pen_down = false;
                continue;
            }
            let at = x.at((i as f64 + 0.5) * every as f64 * step_s, left, right);
            let height = y.at(value.min(chart.highest_bps * 1.05), bottom, top);
            let _ = write!(path, "{}{at:.1} {height:.1}", if pen_down { "L" } else { "M" });
            pen_down = true;
        }
        path
    };
    for sample in &chart.samples {
        let _ = writeln!(svg, "<path class=\"sample\" d=\"{}\"/>", line(sample));
    }
    let _ = writeln!(svg, "<path class=\"signature\" d=\"{}\"/>", line(&chart.signature));
    let _ = writeln!(
        svg,
        "<line class=\"base\" x1=\"{left}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\
         <text class=\"name\" x=\"{left}\" y=\"{}\">{}</text>\
         <text class=\"name\" x=\"{right}\" y=\"{}\" text-anchor=\"end\">{}</text>\n</svg>",
        top - 10.0,
        y.label,
        height - 4.0,
        x.label
    );
    svg
}

#[derive(Clone, Copy)]
struct Size {
    width: f64,
    height: f64,
    left: f64,
    top: f64,
    bottom: f64,
    /// How many columns are drawn as one.
    every: usize,
    /// About how many ticks, along and up.
    ticks: (usize, usize),
}

impl Size {
    const LARGE: Self =
        Self { width: 960.0, height: 320.0, left: 56.0, top: 28.0, bottom: 270.0, every: 1, ticks: (8, 5) };
    const MEDIUM: Self =
        Self { width: 700.0, height: 300.0, left: 56.0, top: 28.0, bottom: 250.0, every: 1, ticks: (6, 5) };
    const SMALL: Self =
        Self { width: 340.0, height: 170.0, left: 44.0, top: 22.0, bottom: 126.0, every: 3, ticks: (4, 3) };
}
