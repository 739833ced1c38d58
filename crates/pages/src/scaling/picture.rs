//! A model as a picture for papers: a curve with its band, or a map.

use std::fmt::Write;

use iotide_look::{Untrusted, text};
use iotide_report::{DrawnModel, ModelEntry};

/// Content of a model's picture.
#[derive(Clone, Debug)]
pub(super) enum Picture {
    /// One parameter: points, curve, and the band of its interval.
    Curve { parameter: Untrusted, points: Vec<(f64, f64)>, curve: Vec<(f64, f64, f64, f64)> },
    /// Two parameters: the value as colour, points as dots.
    Map { parameters: [Untrusted; 2], x: (f64, f64), y: (f64, f64), cells: Vec<f64>, points: Vec<(f64, f64)> },
}

/// Cells along each side of a map.
pub(super) const CELLS: usize = 24;
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 76.0;
const BOTTOM: f64 = 44.0;
const TOP: f64 = 14.0;
const RIGHT: f64 = 16.0;

impl Picture {
    /// The picture of a model of one or two parameters.
    pub(super) fn of(drawn: &DrawnModel, names: &[Untrusted]) -> Option<Self> {
        let DrawnModel { series, model, predictions, confidence } = drawn;
        let asked = |p: usize| predictions.iter().map(move |prediction| prediction.at[p]);
        let range = |p: usize| {
            let high = asked(p).fold(model.ranges[p].maximum * 2.0, f64::max);
            let low = asked(p).fold(model.ranges[p].minimum, f64::min);
            (low, high)
        };
        let spaced = |(low, high): (f64, f64), share: f64| {
            if low > 0.0 { low * (high / low).powf(share) } else { low + share * (high - low) }
        };
        match model.ranges.len() {
            1 => {
                let values = |m: &iotide_scaling::Measurement| match &m.values {
                    iotide_scaling::Values::Each(values) => values.clone(),
                    iotide_scaling::Values::Summary(summary) => vec![summary.mean],
                };
                let points: Vec<(f64, f64)> = series
                    .measurements
                    .iter()
                    .flat_map(|m| values(m).into_iter().map(|y| (m.coordinate[0], y)))
                    .filter(|(x, y)| x.is_finite() && y.is_finite())
                    .collect();
                let curve = (0..=60)
                    .map(|i| {
                        let x = spaced(range(0), f64::from(i) / 60.0);
                        let there = model.predict(&[x], *confidence);
                        let (low, high) = there.interval.unwrap_or((there.value, there.value));
                        (x, there.value, low, high)
                    })
                    .filter(|(_, y, low, high)| y.is_finite() && low.is_finite() && high.is_finite())
                    .collect();
                Some(Self::Curve { parameter: names.first()?.clone(), points, curve })
            }
            2 => {
                let (x, y) = (range(0), range(1));
                let share = |i: usize| (i as f64 + 0.5) / CELLS as f64;
                let cells = (0..CELLS * CELLS)
                    .map(|i| model.function.at(&[spaced(x, share(i % CELLS)), spaced(y, share(i / CELLS))]))
                    .collect();
                let points = series.measurements.iter().map(|m| (m.coordinate[0], m.coordinate[1])).collect();
                Some(Self::Map {
                    parameters: [names.first()?.clone(), names.get(1)?.clone()],
                    x,
                    y,
                    cells,
                    points,
                })
            }
            _ => None,
        }
    }

    pub(super) fn to_svg(&self, entry: &ModelEntry) -> String {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" \
             font-family=\"system-ui, sans-serif\" font-size=\"12\" fill=\"#1d2a33\"><title>{} · {}: {}</title>",
            entry.callpath.for_html(),
            entry.metric.for_html(),
            entry.function.for_html()
        );
        match self {
            Self::Curve { parameter, points, curve } => {
                draw_curve(&mut svg, parameter, &entry.metric, points, curve)
            }
            Self::Map { parameters, x, y, cells, points } => {
                draw_map(&mut svg, parameters, *x, *y, cells, points)
            }
        }
        svg.push_str("</svg>\n");
        svg
    }
}

/// A number line: logarithmic where values allow, since sizes double.
struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    logarithmic: bool,
}

impl Scale {
    fn new(low: f64, high: f64, from: f64, to: f64, logarithmic: bool) -> Self {
        let high = if high > low { high } else { low + low.abs().max(1.0) };
        Self { low, high, from, to, logarithmic: logarithmic && low > 0.0 }
    }

    fn at(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share.clamp(-0.05, 1.05) * (self.to - self.from)
    }

    fn ticks(&self) -> Vec<f64> {
        (0..=4)
            .map(|i| {
                let share = f64::from(i) / 4.0;
                if self.logarithmic {
                    self.low * (self.high / self.low).powf(share)
                } else {
                    self.low + share * (self.high - self.low)
                }
            })
            .collect()
    }
}

fn draw_axes(svg: &mut String, x: &Scale, y: &Scale, x_name: &Untrusted, y_name: &Untrusted) {
    let floor = HEIGHT - BOTTOM;
    let _ =
        write!(svg, "<path d=\"M{LEFT} {TOP}V{floor}H{}\" fill=\"none\" stroke=\"#5b6972\"/>", WIDTH - RIGHT);
    for tick in x.ticks() {
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            x.at(tick),
            floor + 16.0,
            text::digits(tick, 3)
        );
    }
    for tick in y.ticks() {
        let _ = write!(
            svg,
            "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            y.at(tick) + 4.0,
            text::digits(tick, 3)
        );
    }
    let middle = (LEFT + WIDTH - RIGHT) / 2.0;
    let _ = write!(
        svg,
        "<text x=\"{middle}\" y=\"{}\" text-anchor=\"middle\" font-weight=\"600\">{}</text>",
        HEIGHT - 8.0,
        x_name.for_html()
    );
    let _ = write!(
        svg,
        "<text transform=\"translate(14 {}) rotate(-90)\" text-anchor=\"middle\" font-weight=\"600\">{}</text>",
        floor / 2.0,
        y_name.for_html()
    );
}

fn draw_curve(
    svg: &mut String,
    parameter: &Untrusted,
    metric: &Untrusted,
    points: &[(f64, f64)],
    curve: &[(f64, f64, f64, f64)],
) {
    let xs = || curve.iter().map(|c| c.0).chain(points.iter().map(|p| p.0));
    // The band may be endless far out; the picture is as high as twice what the curve and the points need.
    let top = curve.iter().map(|c| c.1).chain(points.iter().map(|p| p.1)).fold(f64::NEG_INFINITY, f64::max);
    let bottom = curve.iter().map(|c| c.1).chain(points.iter().map(|p| p.1)).fold(f64::INFINITY, f64::min);
    let band_top =
        curve.iter().map(|c| c.3).fold(top, f64::max).min(top + (top - bottom).abs().max(top.abs() * 0.2));
    let x = Scale::new(
        xs().fold(f64::INFINITY, f64::min),
        xs().fold(f64::NEG_INFINITY, f64::max),
        LEFT,
        WIDTH - RIGHT,
        true,
    );
    let y = Scale::new(bottom.min(0.0), band_top, HEIGHT - BOTTOM, TOP, false);
    let path = |points: &mut dyn Iterator<Item = (f64, f64)>| -> String {
        points.map(|(px, py)| format!("{:.1} {:.1}", x.at(px), y.at(py))).collect::<Vec<_>>().join("L")
    };
    let band = path(&mut curve.iter().map(|c| (c.0, c.3)).chain(curve.iter().rev().map(|c| (c.0, c.2))));
    let _ = write!(svg, "<path d=\"M{band}Z\" fill=\"#1f5c85\" fill-opacity=\".16\"/>");
    let line = path(&mut curve.iter().map(|c| (c.0, c.1)));
    let _ = write!(svg, "<path d=\"M{line}\" fill=\"none\" stroke=\"#1f5c85\" stroke-width=\"2\"/>");
    for (px, py) in points.iter().take(2000) {
        let _ = write!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"#b2452b\" fill-opacity=\".7\"/>",
            x.at(*px),
            y.at(*py)
        );
    }
    draw_axes(svg, &x, &y, parameter, metric);
}

fn draw_map(
    svg: &mut String,
    parameters: &[Untrusted; 2],
    x: (f64, f64),
    y: (f64, f64),
    cells: &[f64],
    points: &[(f64, f64)],
) {
    let known = || cells.iter().copied().filter(|value| value.is_finite());
    let (low, high) = (known().fold(f64::INFINITY, f64::min), known().fold(f64::NEG_INFINITY, f64::max));
    let colour = Scale::new(low, high, 0.0, 1.0, true);
    let (x_axis, y_axis) =
        (Scale::new(x.0, x.1, LEFT, WIDTH - RIGHT, true), Scale::new(y.0, y.1, HEIGHT - BOTTOM, TOP, true));
    let (cell_width, cell_height) =
        ((WIDTH - RIGHT - LEFT) / CELLS as f64, (HEIGHT - BOTTOM - TOP) / CELLS as f64);
    for (i, value) in cells.iter().enumerate().filter(|(_, value)| value.is_finite()) {
        let (column, row) = ((i % CELLS) as f64, (i / CELLS) as f64);
        // From pale to deep blue, in one hue so that it reads in grey, too.
        let light = 94.0 - 64.0 * colour.at(*value).clamp(0.0, 1.0);
        let _ = write!(
            svg,
            "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{:.1}\" fill=\"hsl(205 60% {light:.0}%)\"><title>{}</title></rect>",
            LEFT + column * cell_width,
            HEIGHT - BOTTOM - (row + 1.0) * cell_height,
            cell_width + 0.5,
            cell_height + 0.5,
            text::digits(*value, 4)
        );
    }
    for (px, py) in points.iter().take(2000) {
        let _ = write!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3\" fill=\"#b2452b\" stroke=\"#fff\"/>",
            x_axis.at(*px),
            y_axis.at(*py)
        );
    }
    draw_axes(svg, &x_axis, &y_axis, &parameters[0], &parameters[1]);
}
