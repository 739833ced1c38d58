//! The page of metrics over time: of a job, a node or the machine.

use std::fmt::Write;

use iotide_look::chart::{Axis, Look, Series, Xs, highest};
use iotide_look::html::escape;
use iotide_look::{Plot, Untrusted, text};

use super::{Frame, Page, path_part, time};

/// Content of the page.
#[derive(Debug)]
pub struct TracePage<'a> {
    /// A job, `Node: NAME`, or `main` for the machine.
    pub of: &'a Untrusted,
    /// Others that can be chosen: what they are called, and what people read.
    pub others: &'a [(Untrusted, Untrusted)],
    /// The metrics there are, and whether each is a counter.
    pub metrics: &'a [(Untrusted, bool)],
    /// The one that is shown.
    pub metric: &'a Untrusted,
    /// Whether it is a counter.
    pub is_counter: bool,
    /// Whether growth per second is shown rather than the value.
    pub as_rate: bool,
    /// From when on, in seconds before now; 0 for all there is.
    pub last_s: u64,
    /// The window ends so long before now.
    pub ago_s: u64,
    /// When the first value is of.
    pub t0_unix_s: f64,
    /// How far apart values are.
    pub period_s: f64,
    /// The values; none where nothing was sampled.
    pub values: &'a [Option<f64>],
    /// Why there are none, if they could not be asked for.
    pub fault: Option<&'a Untrusted>,
}

/// Windows that can be chosen.
const WINDOWS: [(u64, &str); 6] =
    [(600, "10 min"), (3600, "1 h"), (21_600, "6 h"), (86_400, "1 d"), (604_800, "7 d"), (0, "all")];

/// The page.
pub fn traces_page(frame: &Frame<'_>, of: &TracePage<'_>) -> String {
    let mut page = Page::new("Traces", "Metrics over time");
    page.push(&form(of));
    let mut body = windows(of);
    let n = of.values.iter().flatten().count();
    if let Some(fault) = of.fault {
        let _ = writeln!(body, "<p class=\"note\">No values: {}.</p>", fault.for_html());
    } else if of.metrics.is_empty() {
        body += "<p class=\"note\">Nothing was sampled of it yet.</p>\n";
    } else if n == 0 {
        body += "<p class=\"note\">Nothing was sampled of this metric in this time.</p>\n";
    } else {
        body += &chart(of).to_figure("trace");
        let end = of.t0_unix_s + of.values.len() as f64 * of.period_s;
        let _ = writeln!(
            body,
            "<p class=\"note\">From {} to {}, a value every {}. Drag over the picture to look closer; a shorter window has finer values.</p>",
            time(of.t0_unix_s),
            time(end),
            text::seconds(of.period_s)
        );
    }
    let heading =
        if of.metric.is_empty() { "Nothing".to_owned() } else { of.metric.shortened(80).for_terminal() };
    page.live("trace", &heading, &body);
    page.finish(frame)
}

fn form(of: &TracePage<'_>) -> String {
    let mut html = String::from(
        "<section class=\"slide\"><form class=\"ask\" method=\"get\" action=\"/traces\"><label>Of <select name=\"job\">",
    );
    let is_listed = of.others.iter().any(|(name, _)| name == of.of);
    let own = (of.of.clone(), of.of.clone());
    for (name, shown) in (!is_listed).then_some(&own).into_iter().chain(of.others) {
        let selected = if name == of.of { " selected" } else { "" };
        let _ = write!(
            html,
            "<option value=\"{}\"{selected}>{}</option>",
            name.for_html(),
            shown.shortened(60).for_html()
        );
    }
    html += "</select></label><label>Metric <select name=\"metric\">";
    for (name, is_counter) in of.metrics {
        let selected = if name == of.metric { " selected" } else { "" };
        let kind = if *is_counter { "" } else { " (gauge)" };
        let _ = write!(
            html,
            "<option value=\"{}\"{selected}>{}{kind}</option>",
            name.for_html(),
            name.shortened(60).for_html()
        );
    }
    html += "</select></label><label>As <select name=\"as\">";
    let (rate, total) = (("rate", "rate (per second)", of.as_rate), ("total", "total", !of.as_rate));
    // A gauge has no rate: what was chosen for counters waits for the next one.
    let forms = if of.is_counter || of.metrics.is_empty() {
        vec![rate, total]
    } else {
        vec![(if of.as_rate { "rate" } else { "total" }, "value", true)]
    };
    for (value, shown, is_now) in forms {
        let selected = if is_now { " selected" } else { "" };
        let _ = write!(html, "<option value=\"{value}\"{selected}>{shown}</option>");
    }
    let _ = write!(html, "</select></label><input type=\"hidden\" name=\"last\" value=\"{}\">", of.last_s);
    html + "<button>Show</button></form></section>\n"
}

fn href(of: &TracePage<'_>, last_s: u64, ago_s: u64) -> String {
    format!(
        "/traces?job={}&metric={}&as={}&last={last_s}&ago={ago_s}",
        path_part(of.of.as_said()),
        path_part(of.metric.as_said()),
        if of.as_rate { "rate" } else { "total" }
    )
}

fn windows(of: &TracePage<'_>) -> String {
    let mut html = String::from("<ul class=\"chips windows\" aria-label=\"window\">");
    for (last_s, shown) in WINDOWS {
        let current = if last_s == of.last_s { " aria-current=\"true\"" } else { "" };
        let _ =
            write!(html, "<li><a href=\"{}\"{current}>{shown}</a></li>", escape(&href(of, last_s, of.ago_s)));
    }
    if of.last_s > 0 {
        let half = of.last_s / 2;
        let _ = write!(
            html,
            "<li><a href=\"{}\">← earlier</a></li>",
            escape(&href(of, of.last_s, of.ago_s + half))
        );
        if of.ago_s > 0 {
            let _ = write!(
                html,
                "<li><a href=\"{}\">later →</a></li>",
                escape(&href(of, of.last_s, of.ago_s.saturating_sub(half)))
            );
            let _ = write!(html, "<li><a href=\"{}\">now</a></li>", escape(&href(of, of.last_s, 0)));
        }
    }
    html + "</ul>\n"
}

fn chart(of: &TracePage<'_>) -> Plot {
    let values: Vec<f64> = of.values.iter().map(|value| value.unwrap_or(0.0)).collect();
    let name = of.metric.as_said();
    let most = match highest(&values) {
        most if most > 0.0 => most,
        _ => 1.0,
    };
    let is_bytes = name.contains("bytes");
    let scale = |units: &[(f64, &'static str)]| {
        *units.iter().rfind(|(factor, _)| *factor <= most).unwrap_or(&units[0])
    };
    let (label, (factor, unit)) = match (is_bytes, of.as_rate && of.is_counter) {
        (true, true) => ("bandwidth", (0.0, "")),
        (true, false) => ("bytes", scale(&[(1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB")])),
        (false, true) => {
            ("per second", scale(&[(1.0, ""), (1e3, "thousand"), (1e6, "million"), (1e9, "billion")]))
        }
        (false, false) => {
            ("value", scale(&[(1.0, ""), (1e3, "thousand"), (1e6, "million"), (1e9, "billion")]))
        }
    };
    let y = if factor == 0.0 {
        Axis::bandwidth(label, most)
    } else {
        Axis::linear(label, 0.0, most * 1.06, factor, unit)
    };
    let end_s = values.len() as f64 * of.period_s;
    Plot {
        name: "trace",
        title: "One metric over time",
        caption: match (of.is_counter, of.as_rate) {
            (true, true) => "How much the counter grew per second.".to_owned(),
            (true, false) => "The counter since the start.".to_owned(),
            (false, _) => "The value, as the mean of each step.".to_owned(),
        },
        x: Axis::time("time since the first value", 0.0, end_s),
        y,
        bands: Vec::new(),
        series: vec![Series {
            label: "".into(),
            look: Look::Area,
            colour: 0,
            step: true,
            x: Xs::Even { start: 0.0, step: of.period_s },
            mid: values,
            lo: Vec::new(),
            hi: Vec::new(),
        }],
        marks: Vec::new(),
        dots: Vec::new(),
        keys: Vec::new(),
    }
}
