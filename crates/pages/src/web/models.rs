//! Pages of models: applications, and what one of them would cost at another size.

use std::fmt::Write;

use iotide_look::chart::{Axis, Look, Mark, Series, Xs};
use iotide_look::html::{escape, tiles};
use iotide_look::{Plot, Untrusted, text};
use iotide_scaling::{Model, Prediction, usable};

use super::{Frame, Page, called, called_link, cell, other_name, path_part, sortable, time};

/// An application of which there are runs.
#[derive(Clone, Debug)]
pub struct Application {
    /// Its id.
    pub app: Untrusted,
    /// Name of its program.
    pub name: Untrusted,
    /// Whose runs these are.
    pub user: Untrusted,
    /// How many were seen lately.
    pub n_runs: usize,
    /// The sizes they had, from the smallest to the largest.
    pub sizes: (u32, u32),
    /// When the last one began.
    pub last_unix_s: f64,
}

/// Content of the list.
#[derive(Debug)]
pub struct ModelsPage<'a> {
    /// The applications.
    pub applications: &'a [Application],
}

/// The list of applications.
pub fn models_page(frame: &Frame<'_>, of: &ModelsPage<'_>) -> String {
    let mut page = Page::new("Models", "Models of applications");
    page.lead(
        "What runs of an application measured, as functions of their size: fitted anew whenever a run ends.",
    );
    let rows: Vec<String> = of
        .applications
        .iter()
        .map(|app| {
            let (least, most) = app.sizes;
            let sizes = if least == most { text::count(least.into()) } else { format!("{least} to {most}") };
            format!(
                "<td>{}</td><td class=\"word\">{}</td><td class=\"word\"><code>{}</code></td>{}{}{}",
                called_link(&app.app, &app.name),
                app.user.shortened(24).for_html(),
                other_name(&app.app, &app.name).shortened(40).for_html(),
                cell(app.n_runs as f64, &text::count(app.n_runs as u64)),
                cell(most.into(), &sizes),
                cell(app.last_unix_s, &time(app.last_unix_s)),
            )
        })
        .collect();
    if rows.is_empty() {
        page.section("applications", "Applications", "<p class=\"note\">No run has ended yet.</p>\n");
    } else {
        let heads = ["application", "user", "program or id", "latest runs", "processes", "last run"];
        page.live("applications", "Applications", &sortable("applications", &heads, &rows));
    }
    page.finish(frame)
}

/// Content of the page of one application.
#[derive(Debug)]
pub struct ModelPage<'a> {
    /// Its id.
    pub app: &'a Untrusted,
    /// Name of its program.
    pub name: &'a Untrusted,
    /// Whose runs these are.
    pub user: &'a Untrusted,
    /// How many runs the models rest on.
    pub n_runs: usize,
    /// Data that was left out.
    pub notes: &'a [String],
    /// The parameters, the size first.
    pub parameters: &'a [String],
    /// The models, with what they rest on.
    pub models: &'a [(&'a iotide_scaling::Series, &'a Model)],
    /// The call path that is drawn, and the metric; the fastest growing if nobody says.
    pub chosen: Option<(&'a str, &'a str)>,
    /// The size that is asked about.
    pub at: Option<f64>,
}

/// The share of intervals that hold the truth.
const CONFIDENCE: f64 = 0.9;
/// The slider goes this many times beyond the largest size that was measured.
const BEYOND: f64 = 256.0;
/// Places of the slider for each factor of two.
pub const STEPS_A_DOUBLING: f64 = 2.0;
/// Places along the curve.
const STEPS: usize = 64;

/// A model, and what it says of the size that is asked about.
struct There<'a> {
    series: &'a iotide_scaling::Series,
    model: &'a Model,
    there: Prediction,
    /// How many times the value at the largest size that was measured.
    growth: f64,
}

/// The page of one application.
pub fn model_page(frame: &Frame<'_>, of: &ModelPage<'_>) -> String {
    let name = called(of.app, of.name);
    let title = format!("{} · models", name.shortened(40).for_terminal());
    let head = format!(
        "<p class=\"path\"><a href=\"/models\">Models</a> / {}</p>\n<h1>{}</h1>\n<p class=\"note\">{} of {} · <code>{}</code></p>\n",
        name.shortened(40).for_html(),
        name.shortened(80).for_html(),
        escape(&text::counted(of.n_runs as u64, "run")),
        of.user.shortened(32).for_html(),
        other_name(of.app, of.name).shortened(40).for_html(),
    );
    let mut page = Page::with_head(title, &head);
    let ranges: Vec<(f64, f64)> = (0..of.parameters.len())
        .map(|i| {
            let of_model =
                |(_, model): &(_, &Model)| model.ranges.get(i).map(|range| (range.minimum, range.maximum));
            let all = || of.models.iter().filter_map(of_model);
            (
                all().map(|range| range.0).fold(f64::INFINITY, f64::min),
                all().map(|range| range.1).fold(0.0, f64::max),
            )
        })
        .collect();
    let Some(&(least, most)) = ranges.first().filter(|(least, most)| least.is_finite() && *most > 0.0) else {
        let why = match of.n_runs {
            0 => "No run of this application has been measured to its end yet.",
            _ => "There are no models yet: runs of at least two sizes are needed.",
        };
        page.section("none", "No models", &format!("<p class=\"note\">{why}</p>\n{}", notes(of)));
        return page.finish(frame);
    };
    let at = of.at.filter(|at| *at > 0.0 && *at <= 1e12).unwrap_or(most * 4.0);
    // Other parameters stay where the largest run had them.
    let point = |size: f64| -> Vec<f64> {
        std::iter::once(size).chain(ranges.iter().skip(1).map(|range| range.1)).collect()
    };
    let mut all: Vec<There<'_>> = of
        .models
        .iter()
        .map(|&(series, model)| {
            let there = model.predict(&point(at), CONFIDENCE);
            let growth = there.value / model.function.at(&point(most));
            There { series, model, there, growth: if growth.is_finite() { growth } else { 0.0 } }
        })
        .collect();
    all.sort_by(|a, b| b.growth.total_cmp(&a.growth));
    let is_chosen =
        |it: &&There<'_>| of.chosen == Some((it.series.callpath.as_str(), it.series.metric.as_str()));
    // How long a run takes is what most ask for.
    let usual = |it: &&There<'_>| it.series.metric == "time" && it.series.callpath == "run";
    let Some(chosen) = all.iter().find(is_chosen).or_else(|| all.iter().find(usual)).or(all.first()) else {
        page.section("none", "No models", &notes(of));
        return page.finish(frame);
    };
    let form = slider(of, chosen, least, most, at);
    page.push(&form);
    page.live("projection", "Projection", &projection(of, chosen, &point, (least, most), at));
    page.live("ranking", "Functions by growth", &ranking(of, &all, chosen, at));
    page.section("left-out", "What was left out", &notes(of));
    page.finish(frame)
}

fn slider(of: &ModelPage<'_>, chosen: &There<'_>, least: f64, most: f64, at: f64) -> String {
    let place = |size: f64| (size.max(1.0).log2() * STEPS_A_DOUBLING).round();
    format!(
        "<section class=\"slide\"><form method=\"get\" action=\"/models\" data-swap><input type=\"hidden\" name=\"app\" value=\"{}\">\
         <input type=\"hidden\" name=\"callpath\" value=\"{}\"><input type=\"hidden\" name=\"metric\" value=\"{}\">\
         <label for=\"size\">Size (processes)</label><input id=\"size\" type=\"range\" name=\"step\" min=\"{}\" max=\"{}\" step=\"1\" value=\"{}\">\
         <output for=\"size\" data-doubling=\"{STEPS_A_DOUBLING}\">{}</output><noscript><button>Show</button></noscript></form></section>\n",
        of.app.for_html(),
        Untrusted::from(chosen.series.callpath.as_str()).for_html(),
        Untrusted::from(chosen.series.metric.as_str()).for_html(),
        place(least),
        place(most * BEYOND),
        place(at),
        text::count(at.round() as u64),
    )
}

/// A value of a metric, in words.
fn shown(metric: &str, value: f64) -> String {
    match metric {
        "time" | "period" => text::seconds(value),
        "size" | "bytes_per_period" => text::bytes(value),
        _ => text::digits(value, 4),
    }
}

fn interval(metric: &str, there: &Prediction) -> String {
    match there.interval.filter(|(low, high)| low.is_finite() && high.is_finite()) {
        Some((low, high)) => format!("{} to {}", shown(metric, low), shown(metric, high)),
        None => "–".to_owned(),
    }
}

/// The axis of a metric's values.
fn axis(metric: &str, highest: f64) -> Axis {
    let highest = if highest.is_finite() && highest > 0.0 { highest * 1.06 } else { 1.0 };
    let scaled = |label: &str, units: &[(f64, &'static str)]| {
        let &(factor, unit) = units.iter().rfind(|(factor, _)| *factor <= highest).unwrap_or(&units[0]);
        Axis::linear(label, 0.0, highest, factor, unit)
    };
    match metric {
        "time" | "period" => scaled("time", &[(1e-6, "µs"), (1e-3, "ms"), (1.0, "s"), (3600.0, "h")]),
        "size" | "bytes_per_period" => {
            scaled("bytes", &[(1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB"), (1e15, "PB")])
        }
        _ => scaled("value", &[(1.0, ""), (1e3, "thousand"), (1e6, "million"), (1e9, "billion")]),
    }
}

fn projection(
    of: &ModelPage<'_>,
    chosen: &There<'_>,
    point: &dyn Fn(f64) -> Vec<f64>,
    range: (f64, f64),
    at: f64,
) -> String {
    let There { series, model, there, growth } = chosen;
    let metric = series.metric.as_str();
    let name = Untrusted::from(format!("{} · {}", series.callpath, series.metric));
    let size = text::count(at.round() as u64);
    let mut html = format!(
        "<h3>{}</h3>\n<p class=\"function\"><code>{}</code></p>\n",
        name.shortened(120).for_html(),
        Untrusted::from(model.function.to_readable(of.parameters)).shortened(400).for_html()
    );
    html += &tiles([
        ("processes", size.clone()),
        ("value there", shown(metric, there.value)),
        ("interval (90 %)", interval(metric, there)),
        ("times that at the largest measured", text::digits(*growth, 3)),
    ]);
    html += &plot_of(of, chosen, point, range, at).to_figure("model");
    let cautions: Vec<String> =
        there.cautions.iter().map(|caution| caution.with_names(of.parameters)).collect();
    if !cautions.is_empty() {
        let _ = writeln!(
            html,
            "<p class=\"note\"><b>With care:</b> {}.</p>",
            Untrusted::from(cautions.join("; ")).shortened(600).for_html()
        );
    }
    if of.parameters.len() > 1 {
        let fixed: Vec<String> = (of.parameters.iter().zip(point(at)).skip(1))
            .map(|(name, value)| format!("{name} = {}", text::digits(value, 6)))
            .collect();
        let _ = writeln!(
            html,
            "<p class=\"note\">Other parameters: {}.</p>",
            Untrusted::from(fixed.join(", ")).shortened(400).for_html()
        );
    }
    html
}

/// Points, curve and interval, with the size that is asked about.
fn plot_of(
    of: &ModelPage<'_>,
    chosen: &There<'_>,
    point: &dyn Fn(f64) -> Vec<f64>,
    (least, most): (f64, f64),
    at: f64,
) -> Plot {
    let There { series, model, there, .. } = chosen;
    let (metric, size) = (series.metric.as_str(), text::count(at.round() as u64));
    let (from, to) = (least.max(1e-9), at.max(most * 2.0));
    let xs: Vec<f64> = (0..=STEPS).map(|i| from * (to / from).powf(i as f64 / STEPS as f64)).collect();
    let curve: Vec<Prediction> = xs.iter().map(|x| model.predict(&point(*x), CONFIDENCE)).collect();
    let finite = |value: f64| if value.is_finite() { value.max(0.0) } else { 0.0 };
    let mid: Vec<f64> = curve.iter().map(|there| finite(there.value)).collect();
    let low: Vec<f64> =
        curve.iter().map(|it| finite(it.interval.map_or(it.value, |interval| interval.0))).collect();
    let high: Vec<f64> =
        curve.iter().map(|it| finite(it.interval.map_or(it.value, |interval| interval.1))).collect();
    let (points, _) = usable(&series.measurements, of.parameters.len());
    let points: Vec<(f64, f64, f64, f64)> = points
        .iter()
        .map(|measurement| {
            let summary = measurement.values.summary();
            (
                measurement.coordinate.first().copied().unwrap_or(1.0),
                summary.mean,
                summary.minimum,
                summary.maximum,
            )
        })
        .collect();
    // The band may be far wider than what it is about.
    let of_values = mid.iter().chain(points.iter().map(|point| &point.3)).copied().fold(0.0, f64::max);
    let highest = high.iter().copied().fold(of_values, f64::max).min(of_values * 2.0);
    let part = |label: &'static str, look: Look, x: Vec<f64>, mid: Vec<f64>, lo: Vec<f64>, hi: Vec<f64>| {
        Series { label: label.into(), look, colour: 3, step: false, x: Xs::At(x), mid, lo, hi }
    };
    Plot {
        name: "projection",
        title: "Measured points, fitted curve and interval",
        caption: format!(
            "Measured from {} to {} processes; what is beyond is projected.",
            text::digits(least, 6),
            text::digits(most, 6)
        ),
        x: Axis::linear("processes", from, to * 1.05, 1.0, "").logarithmic(from * 0.9),
        y: axis(metric, highest),
        bands: Vec::new(),
        series: vec![
            part("90 % interval", Look::Ribbon, xs.clone(), mid.clone(), low, high),
            part("model", Look::Line, xs, mid, Vec::new(), Vec::new()),
            part(
                "measured",
                Look::Points,
                points.iter().map(|point| point.0).collect(),
                points.iter().map(|point| point.1).collect(),
                points.iter().map(|point| point.2).collect(),
                points.iter().map(|point| point.3).collect(),
            ),
        ],
        marks: vec![
            Mark { at: most, label: "largest measured".to_owned(), strong: false },
            Mark { at, label: format!("{size}: {}", shown(metric, there.value)), strong: true },
        ],
        dots: Vec::new(),
        keys: Vec::new(),
    }
}

fn ranking(of: &ModelPage<'_>, all: &[There<'_>], chosen: &There<'_>, at: f64) -> String {
    let rows: Vec<String> = all
        .iter()
        .map(|it| {
            let (callpath, metric) = (&it.series.callpath, &it.series.metric);
            let current = if std::ptr::eq(it.series, chosen.series) { " aria-current=\"true\"" } else { "" };
            let r2 = it.model.costs.adjusted_r2;
            format!(
                "<td><a href=\"/models?app={}&amp;callpath={}&amp;metric={}&amp;at={at:.0}\"{current}>{}</a></td><td class=\"word\">{}</td><td class=\"word function\"><code>{}</code></td>\
                 <td class=\"word\">{}</td>{}{}<td>{}</td>{}{}",
                path_part(of.app.as_said()),
                path_part(callpath),
                path_part(metric),
                Untrusted::from(callpath).shortened(60).for_html(),
                Untrusted::from(metric).shortened(24).for_html(),
                Untrusted::from(it.model.function.to_readable(of.parameters)).shortened(160).for_html(),
                Untrusted::from(it.model.function.growth_class(of.parameters)).shortened(60).for_html(),
                cell(it.growth, &format!("× {}", text::digits(it.growth, 3))),
                cell(it.there.value, &shown(metric, it.there.value)),
                interval(metric, &it.there),
                cell(if r2.is_finite() { r2 } else { -1.0 }, &if r2.is_finite() { text::digits(r2, 4) } else { "–".to_owned() }),
                cell(it.model.n_points as f64, &text::count(it.model.n_points as u64)),
            )
        })
        .collect();
    let there = format!("at {}", text::count(at.round() as u64));
    let heads =
        ["call path", "metric", "function", "growth", "factor", there.as_str(), "interval", "R²", "points"];
    sortable("functions", &heads, &rows)
        + "<p class=\"note\">The factor is the value at the chosen size over that at the largest size that was measured: what grows fastest stands first.</p>\n"
}

fn notes(of: &ModelPage<'_>) -> String {
    if of.notes.is_empty() {
        return "<p class=\"note\">Nothing.</p>\n".to_owned();
    }
    let items: String = of
        .notes
        .iter()
        .take(20)
        .map(|note| format!("<li>{}</li>", Untrusted::from(note).shortened(300).for_html()))
        .collect();
    format!("<ul class=\"note\">{items}</ul>\n")
}
