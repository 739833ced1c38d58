//! Baselines one after the other, as a page: a chart of each key figure, and a table of all.

use std::fmt::Write;

use iotide_look::chart::{Axis, Look, Mark, Series, Xs};
use iotide_look::html::{SCRIPT, capitalised, escape, head, own_style, sorted_cell};
use iotide_look::{Plot, text};
use iotide_report::{Document, HistoryDocument, HistoryPoint, Quantity};

use crate::{Page, section};

impl Page for HistoryDocument {
    fn to_page(&self) -> Option<String> {
        let headline = capitalised(&text::whole_numbers(&self.headline()));
        let mut html =
            head(&format!("{headline} · iotide compare"), &own_style(include_str!("tables.css")), SCRIPT);
        let _ = write!(html, "<main>\n<header><h1>{}</h1></header>\n", escape(&headline));
        let charts: String = plots(self).iter().map(figure).collect();
        section(&mut html, "figures", "Key figures", &charts);
        section(&mut html, "baselines", "Baselines", &table(self));
        let _ = write!(
            html,
            "</main>\n<footer>Made by iotide {}. The same numbers for scripts: <code>iotide compare --history --format json</code>.</footer>\n\
             <script type=\"application/json\" id=\"data\">{}</script>\n<script>{SCRIPT}</script>\n</body>\n</html>\n",
            env!("CARGO_PKG_VERSION"),
            // A page of a thousand baselines stays one that a browser opens.
            if self.to_json().len() < MOST_DATA {
                text::json(self).replace('<', "\\u003c")
            } else {
                "null".to_owned()
            },
        );
        Some(html)
    }

    fn pictures(&self) -> Vec<(String, String)> {
        plots(self).iter().map(|plot| (format!("{}.svg", plot.name), plot.to_svg())).collect()
    }
}

const MOST_DATA: usize = 400_000;

fn figure(plot: &Plot) -> String {
    format!("<h3>{}</h3>\n{}", escape(&capitalised(plot.title)), plot.to_figure("history"))
}

/// Charts of the quantities that have a good and a bad direction, and of the bytes, which explain some of them.
fn plots(history: &HistoryDocument) -> Vec<Plot> {
    let is_key = |quantity: &Quantity| {
        quantity.better().is_some() || matches!(quantity, Quantity::BytesRead | Quantity::BytesWritten)
    };
    history.quantities().into_iter().filter(is_key).filter_map(|quantity| plot(history, quantity)).collect()
}

fn plot(history: &HistoryDocument, quantity: Quantity) -> Option<Plot> {
    let values: Vec<(f64, f64, f64, f64)> = (history.history.iter().zip(1_u32..))
        .filter_map(|(point, at)| {
            let values = point.values(quantity)?;
            Some((f64::from(at), values.median?, values.lowest?, values.highest?))
        })
        .collect();
    let highest = values.iter().map(|(.., highest)| *highest).fold(0.0, f64::max);
    if values.is_empty() || highest <= 0.0 {
        return None;
    }
    let column = |of: fn(&(f64, f64, f64, f64)) -> f64| values.iter().map(of).collect::<Vec<f64>>();
    let (places, medians) = (column(|value| value.0), column(|value| value.1));
    let (lows, highs) = (column(|value| value.2), column(|value| value.3));
    let series = |label: &'static str, look: Look, mid: Vec<f64>, lo: Vec<f64>, hi: Vec<f64>| Series {
        label: label.into(),
        look,
        colour: 0,
        step: false,
        x: Xs::At(places.clone()),
        mid,
        lo,
        hi,
    };
    let mut shown = Vec::new();
    if lows != highs {
        shown.push(series("lowest to highest", Look::Ribbon, medians.clone(), lows, highs));
    }
    let dots = places.iter().zip(&medians).map(|(at, value)| [*at, *value]).collect();
    shown.push(series("median", Look::Beat, medians, Vec::new(), Vec::new()));
    Some(Plot {
        name: quantity.key(),
        title: quantity.name(),
        caption: "A point is a baseline. Marked in bold: baselines that are worse than the one before in this figure."
            .to_owned(),
        x: Axis::linear("baseline", 0.5, history.history.len() as f64 + 0.5, 1.0, ""),
        y: axis(quantity, highest),
        bands: Vec::new(),
        series: shown,
        marks: marks(history, quantity),
        dots,
        keys: Vec::new(),
    })
}

/// Labels of the baselines: of all where there is room for them, else of the last at which a figure got worse.
fn marks(history: &HistoryDocument, quantity: Quantity) -> Vec<Mark> {
    const ROOM: usize = 16;
    let is_worse = |point: &HistoryPoint| point.worse_quantities.contains(&quantity);
    let is_roomy = history.history.len() <= ROOM;
    let found: Vec<(&HistoryPoint, u32)> =
        (history.history.iter().zip(1_u32..)).filter(|(point, _)| is_roomy || is_worse(point)).collect();
    let last = found.iter().skip(found.len().saturating_sub(ROOM));
    last.map(|(point, at)| Mark {
        at: f64::from(*at),
        label: point.label.shortened(10).for_terminal(),
        strong: is_worse(point),
    })
    .collect()
}

fn axis(quantity: Quantity, highest: f64) -> Axis {
    let name = quantity.name();
    match quantity {
        Quantity::Bandwidth => Axis::bandwidth(name, highest),
        Quantity::RunTime | Quantity::IoTimePerRank | Quantity::SlowestRank => {
            Axis::time(name, 0.0, 1.06 * highest)
        }
        Quantity::BytesRead
        | Quantity::BytesWritten
        | Quantity::ReadRequestBytes
        | Quantity::WriteRequestBytes => {
            let units = [(1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB"), (1e15, "PB")];
            let (factor, unit) =
                units.into_iter().rfind(|(factor, _)| *factor <= highest).unwrap_or(units[0]);
            Axis::linear(name, 0.0, 1.06 * highest, factor, unit)
        }
        _ => Axis::linear(name, 0.0, 1.06 * highest, 1.0, ""),
    }
}

fn table(history: &HistoryDocument) -> String {
    let quantities: Vec<Quantity> =
        history.quantities().into_iter().filter(|quantity| quantity.better().is_some()).collect();
    let mut html = String::from(
        "<div class=\"wide\" tabindex=\"0\"><table class=\"sortable\">\n<thead><tr><th scope=\"col\">number</th><th scope=\"col\">baseline</th>\
         <th scope=\"col\">runs</th>",
    );
    for quantity in &quantities {
        let _ = write!(html, "<th scope=\"col\">{}</th>", escape(quantity.name()));
    }
    html += "<th scope=\"col\">against the one before</th></tr></thead>\n<tbody>\n";
    for (at, point) in history.history.iter().enumerate() {
        let _ = write!(
            html,
            "<tr>{}<td title=\"{}\">{}</td>{}",
            sorted_cell(at as f64, &(at + 1).to_string()),
            point.path.for_html(),
            point.label.shortened(40).for_html(),
            sorted_cell(point.n_runs as f64, &point.n_runs.to_string()),
        );
        for quantity in &quantities {
            let median = point.values(*quantity).and_then(|values| values.median);
            html += &sorted_cell(median.unwrap_or(-1.0), &text::whole_numbers(&point.shown(*quantity)));
        }
        let class = if point.worse.is_empty() { "" } else { " class=\"worse\"" };
        let _ =
            writeln!(html, "<td{class}>{}</td></tr>", escape(&text::whole_numbers(&point.step_in_words())));
    }
    let _ = write!(
        html,
        "</tbody>\n</table></div>\n<p class=\"note\">Medians of the runs of a baseline. Worse: by more than {}, beyond the noise of the runs.</p>\n",
        text::percent(history.threshold)
    );
    html
}
