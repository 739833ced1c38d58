//! A signature as a picture: the samples faint, where they were aligned to; the signature bold.

use std::fmt::Write;

use iotide_analysis::{Extent, Sample, Signature};

use iotide_look::chart::Axis;
use iotide_look::palette::style_element;

/// What is drawn.
pub(super) struct Chart {
    duration_s: f64,
    highest_bps: f64,
    /// Per column, the mean of the signature.
    signature: Vec<f64>,
    /// Per sample and column, its mean there; NaN where it shows nothing.
    samples: Vec<Vec<f64>>,
    bursts: Vec<(f64, f64)>,
}

/// At most so many samples are drawn: more are a grey wall.
const MOST_SAMPLES: usize = 16;

/// Columns of a large picture; a small one has a third.
const COLUMNS: usize = 446;

impl Chart {
    pub(super) fn of(signature: &Signature, samples: &[Sample]) -> Self {
        let n = signature.bandwidth_bps.len();
        let columns = COLUMNS.min(n);
        let part = |i: usize| i * n / columns..((i + 1) * n / columns).max(i * n / columns + 1);
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let drawn: Vec<f64> = (0..columns).map(|i| mean(&signature.bandwidth_bps[part(i)])).collect();
        let aligned = signature.used.iter().take(MOST_SAMPLES).filter_map(|used| {
            let sample = samples.get(used.index)?;
            let offset_s = match sample.extent {
                Extent::Whole => 0.0,
                Extent::Part { offset_s } => offset_s,
            };
            let value_at = |at_s: f64| {
                let cell = (at_s - offset_s) / sample.interval_s;
                if cell < 0.0 {
                    f64::NAN
                } else {
                    sample.bandwidth_bps.get(cell as usize).copied().unwrap_or(f64::NAN)
                }
            };
            let values: Vec<f64> = used.times_s.iter().map(|&at_s| value_at(at_s)).collect();
            (values.len() == n).then(|| (0..columns).map(|i| mean(&values[part(i)])).collect::<Vec<f64>>())
        });
        let samples: Vec<Vec<f64>> = aligned.collect();
        let highest = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
        // What a few samples have by others beside them may be ten times as high: it is cut, and the signature seen.
        let own_bps = highest(&drawn);
        let highest_bps = samples.iter().map(|sample| highest(sample)).fold(own_bps, f64::max);
        Self {
            duration_s: n as f64 * signature.interval_s,
            highest_bps: if own_bps > 0.0 { highest_bps.min(2.0 * own_bps) } else { highest_bps },
            signature: drawn,
            samples,
            bursts: signature
                .bursts
                .iter()
                .map(|burst| (burst.start_s - signature.offset_s, burst.end_s - signature.offset_s))
                .collect(),
        }
    }

    /// Returns the picture as an SVG document.
    pub(super) fn to_svg(&self) -> String {
        self.draw(Size::LARGE, &style_element())
    }

    /// Returns the picture for a page that has the styles: for a desk, a tablet and a phone, of which the page shows one. Scaled, its words could not be
    /// read; scrolled, it would show one burst of many.
    pub(super) fn to_figures(&self) -> String {
        [("desk", Size::LARGE), ("tablet", Size::MEDIUM), ("phone", Size::SMALL)]
            .map(|(class, size)| format!("<figure class=\"{class}\">{}</figure>\n", self.draw(size, "")))
            .concat()
    }

    /// Returns a small picture for a page of many.
    pub(super) fn to_small_svg(&self) -> String {
        self.draw(Size::SMALL, "")
    }

    fn draw(&self, size: Size, style: &str) -> String {
        let Size { width, height, left, top, bottom, every, .. } = size;
        let right = width - 12.0;
        let x = Axis::time("time since the start of the run", 0.0, self.duration_s);
        let y = Axis::bandwidth("bandwidth", self.highest_bps);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" class=\"plot\" role=\"img\" \
             font-family=\"system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif\" font-size=\"12\">\n\
             <title>Signature, and the samples it was found in</title>\n{style}\n"
        );
        for &(start_s, end_s) in &self.bursts {
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
        let step_s = self.duration_s / self.signature.len().max(1) as f64;
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
                let height = y.at(value.min(self.highest_bps * 1.05), bottom, top);
                let _ = write!(path, "{}{at:.1} {height:.1}", if pen_down { "L" } else { "M" });
                pen_down = true;
            }
            path
        };
        for sample in &self.samples {
            let _ = writeln!(svg, "<path class=\"sample\" d=\"{}\"/>", line(sample));
        }
        let _ = writeln!(svg, "<path class=\"signature\" d=\"{}\"/>", line(&self.signature));
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
