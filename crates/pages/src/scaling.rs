//! Models as one page: a table of all of them, and a chart of those that are chosen.

use std::fmt::Write;

use iotide_look::html::{escape, head, own_style, sorted_cell};
use iotide_look::{Untrusted, text};
use serde::Serialize;

use iotide_report::words::{advice_line, failure_line, figure, per_cent};
use iotide_report::{ModelEntry, ScalingReport};

use self::chart::ChartData;
use self::picture::Picture;
use crate::Page;

mod chart;
mod picture;

impl Page for ScalingReport {
    fn to_page(&self) -> Option<String> {
        Some(page(self))
    }

    fn pictures(&self) -> Vec<(String, String)> {
        pictures(self)
    }
}

const SCRIPT: &str = concat!("\n", include_str!("scaling/page.js"));

/// Maximum size of the data in a page, in bytes; data that does not fit is in the JSON.
const MOST_BYTES: usize = 880_000;

fn page(report: &ScalingReport) -> String {
    let style = own_style(concat!(include_str!("tables.css"), include_str!("scaling/page.css")));
    let mut html = head(&format!("{} · iotide model", report.source.path.for_terminal()), &style, SCRIPT);
    let rows = rows(report);
    let n_more = report.models.len() - rows.len();
    let _ = write!(
        html,
        "<main>\n<header><p class=\"path\">{}</p><h1>{}</h1>\n<p class=\"note\">{}</p></header>\n",
        report.source.path.for_html(),
        title(report),
        escape(&about(report, n_more)),
    );
    html += "<section id=\"chart\" hidden><h2>Chosen functions</h2>\n<div class=\"controls\"></div>\n<div class=\"drawing\"></div>\n\
             <div class=\"formulas\"></div></section>\n";
    html += "<section id=\"models\"><h2>Functions</h2>\n<div class=\"controls\"></div>\n<div class=\"wide\" tabindex=\"0\">";
    html += &table(report, &rows);
    html += "</div>\n<p class=\"note\">R² is the share of the variance that the function explains, corrected for its number of terms. SMAPE is the \
             mean distance of the function from the points, in per cent of their size. Growth is the term that is largest where the \
             parameters are large.</p></section>\n";
    let failures: Vec<String> = report.failures.iter().map(failure_line).collect();
    let advice: Vec<String> = report.advice.iter().map(advice_line).collect();
    let (shown, n_notes) = report.notes_shown();
    let more = (n_notes > 0).then(|| format!("{n_notes} more; JSON lists them all"));
    let shown = shown.iter().map(|note| Untrusted::from(note).for_terminal());
    let left_out: Vec<String> = shown.chain(more).collect();
    for (title, lines) in [("No model", failures), ("Worth measuring next", advice), ("Left out", left_out)] {
        if lines.is_empty() {
            continue;
        }
        let items: String = lines.iter().map(|line| format!("<li>{}</li>", escape(line))).collect();
        let _ = writeln!(html, "<section><h2>{title}</h2><ul>{items}</ul></section>");
    }
    let data = Data { parameters: &report.parameters, models: rows };
    let _ = write!(
        html,
        "</main>\n<footer>Made by iotide {}.</footer>\n<script type=\"application/json\" id=\"data\">{}</script>\n\
         <script>{SCRIPT}</script>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
        // `<` is the one character that could end the script element from within a string.
        text::json(&data).replace('<', "\\u003c"),
    );
    html
}

fn title(report: &ScalingReport) -> String {
    let metrics: std::collections::BTreeSet<&Untrusted> =
        report.models.iter().map(|entry| &entry.metric).collect();
    match metrics.len() {
        0 | 1 => text::counted(report.models.len() as u64, "scaling model"),
        n => format!(
            "{} of {}",
            text::counted(report.models.len() as u64, "scaling model"),
            text::counted(n as u64, "metric")
        ),
    }
}

fn about(report: &ScalingReport, n_more: usize) -> String {
    let names: Vec<String> = report.parameters.iter().map(Untrusted::for_terminal).collect();
    let mut about = format!(
        "Functions of {}, found by the method {}. Choose rows to draw them; click a head to sort.",
        if names.is_empty() { "no parameter".to_owned() } else { names.join(" and ") },
        report.method
    );
    if n_more > 0 {
        about += &format!(
            " {} more do not fit on this page; --callpath and --metric choose, JSON has all.",
            text::count(n_more as u64)
        );
    }
    about
}

/// A picture for each model of one or two parameters.
fn pictures(report: &ScalingReport) -> Vec<(String, String)> {
    let drawn = report.models.iter().filter_map(|entry| {
        let picture = Picture::of(entry.drawn.as_ref()?, &report.parameters)?;
        Some((entry, picture))
    });
    drawn.enumerate().map(|(i, (entry, picture))| (file_name(i, entry), picture.to_svg(entry))).collect()
}

fn file_name(index: usize, entry: &ModelEntry) -> String {
    let plain = |name: &str| -> String {
        let mapped = name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
        mapped.take(40).collect::<String>().trim_matches('-').to_owned()
    };
    format!("{index:03}-{}-{}.svg", plain(entry.callpath.as_said()), plain(entry.metric.as_said()))
}

/// As many as fit.
fn rows(report: &ScalingReport) -> Vec<Row<'_>> {
    let mut left = MOST_BYTES;
    let mut rows = Vec::new();
    for entry in &report.models {
        let row = Row {
            callpath: &entry.callpath,
            metric: &entry.metric,
            readable: &entry.readable,
            latex: &entry.latex,
            python: &entry.python,
            chart: entry.drawn.as_ref().map(ChartData::of),
            entry,
        };
        // The row of the table repeats about as much as the names and the formula take.
        let size = text::json(&row).len() + 700 + 2 * entry.callpath.as_said().len();
        let Some(rest) = left.checked_sub(size) else { break };
        left = rest;
        rows.push(row);
    }
    rows
}

fn table(report: &ScalingReport, rows: &[Row<'_>]) -> String {
    let asked =
        report.models.iter().find_map(|entry| entry.predictions.first()).map(|there| there.at.in_words());
    // Where metrics have no name, there is nothing to tell them apart by.
    let class = if rows.iter().all(|row| row.entry.metric.is_empty()) { " class=\"nameless\"" } else { "" };
    let mut html = format!(
        "<table{class}>\n<thead><tr><th data-still scope=\"col\"><span class=\"hidden\">draw</span></th><th scope=\"col\">call path</th>\
         <th scope=\"col\">metric</th><th scope=\"col\">function</th><th scope=\"col\">growth</th><th scope=\"col\">points</th>\
         <th scope=\"col\">R²</th><th scope=\"col\">SMAPE</th>",
    );
    if let Some(at) = &asked {
        let _ = write!(html, "<th scope=\"col\">at {}</th><th scope=\"col\">interval</th>", escape(at));
    }
    html += "</tr></thead>\n<tbody>\n";
    for (i, Row { entry, .. }) in rows.iter().enumerate() {
        let notes: Vec<String> = entry
            .notes
            .iter()
            .chain(entry.predictions.iter().flat_map(|there| &there.cautions))
            .map(Untrusted::for_html)
            .collect();
        let caution = match notes.is_empty() {
            true => String::new(),
            false => format!("\u{a0}<abbr title=\"{}\">!</abbr>", notes.join("; ")),
        };
        let _ = write!(
            html,
            "<tr data-i=\"{i}\"><td><input type=\"checkbox\" aria-label=\"draw {} {}\"></td><td class=\"path\">{}</td><td>{}</td>\
             <td class=\"function\"><code>{}</code>{caution}</td><td class=\"class\">{}</td>{}{}{}",
            entry.callpath.for_html(),
            entry.metric.for_html(),
            entry.callpath.for_html(),
            entry.metric.for_html(),
            entry.readable.for_html(),
            entry.growth_class.for_html(),
            number(Some(entry.n_points as f64), |n| text::count(n as u64)),
            number(entry.adjusted_r2, |r2| text::digits(r2, 4)),
            number(entry.smape, per_cent),
        );
        if asked.is_some() {
            let there = entry.predictions.first();
            let interval = there.and_then(|there| there.interval);
            let shown = interval
                .map_or("–".to_owned(), |[low, high]| format!("{} to {}", figure(low), figure(high)));
            let width = interval.map_or(-1.0, |[low, high]| high - low);
            let _ = write!(
                html,
                "{}<td data-v=\"{width}\">{shown}</td>",
                number(there.and_then(|there| there.value), figure)
            );
        }
        html += "</tr>\n";
    }
    html + "</tbody>\n</table>"
}

fn number(value: Option<f64>, shown: impl Fn(f64) -> String) -> String {
    match value {
        Some(value) => sorted_cell(value, &shown(value)),
        None => "<td data-v=\"-1e308\">–</td>".to_owned(),
    }
}

#[derive(Serialize)]
struct Data<'a> {
    parameters: &'a [Untrusted],
    models: Vec<Row<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    callpath: &'a Untrusted,
    metric: &'a Untrusted,
    readable: &'a Untrusted,
    latex: &'a Untrusted,
    python: &'a Untrusted,
    #[serde(flatten)]
    chart: Option<ChartData>,
    #[serde(skip)]
    entry: &'a ModelEntry,
}

#[cfg(test)]
mod tests {
    use super::picture::CELLS;
    use super::*;
    use iotide_report::{Document, ModelFailure};
    use iotide_scaling::{Advice, FitConfig, Measurement, Series, fit};

    use crate::plain_pages;
    use crate::samples::scaling as report;

    #[test]
    fn one_parameter_is_a_curve_and_two_are_a_map() {
        let (curve, map) = (report(1), report(2));
        assert!(curve.pictures()[0].1.contains("<path") && curve.pictures()[0].0 == "000-main--io-time.svg");
        assert!(map.pictures()[0].1.matches("<rect").count() == CELLS * CELLS);
        iotide_look::policy::assert_keeps_its_policy(&map.to_page().unwrap());
        assert!(
            map.to_page().unwrap().contains("size&lt;b&gt;") && !map.to_page().unwrap().contains("size<b>")
        );
    }

    #[test]
    fn names_of_others_steer_neither_terminal_nor_page() {
        use crate::steering::hostile as name;
        let names = [name("p")];
        let mut report = ScalingReport::new(&name("file"), "csv", "auto", &names);
        (report.draws, report.keeps_points) = (true, true);
        let measurements =
            [2.0, 4.0, 8.0, 16.0, 32.0].map(|p| Measurement::new([p], [3.0 + 2.0 * p])).to_vec();
        let series =
            Series { callpath: name("main"), metric: name("time"), measurements, ..Series::default() };
        let model = fit(&series.measurements, &FitConfig::default()).unwrap();
        report.add(&series, &model, &[model.predict(&[64.0], 0.9)], 0.9);
        let (callpath, metric) = (name("a"), name("b"));
        report.failures.push(ModelFailure { callpath, metric, error: name("error") });
        report.advise(&Advice { at: vec![64.0], disagreement: 0.1, cost: 2.0 }, &name("unit"));
        report.notes.push(name("note"));
        plain_pages::assert_steers_nothing(&report);
        for format in
            ["all", "functions-latex", "functions-python", "parameters", "{points}", "{measurements}"]
        {
            crate::steering::assert_plain(&report.print(format).unwrap(), "\n\t");
        }
        let json: serde_json::Value = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(json["models"][0]["callpath"], series.callpath, "JSON means what was said");
        assert_eq!(json["models"][0]["predictions"][0]["at"][&names[0]], 64);
    }

    #[test]
    fn a_page_stays_below_a_megabyte_and_says_what_it_leaves_out() {
        let mut many = report(1);
        many.models = vec![many.models[0].clone(); 3000];
        let page = many.to_page().unwrap();
        assert!(page.len() < 1_000_000 && page.contains("more do not fit on this page"), "{}", page.len());
        iotide_look::policy::assert_keeps_its_policy(&page);
    }
}
