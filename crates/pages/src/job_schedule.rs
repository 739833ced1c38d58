//! Job scheduling policies as a page: who gains and who loses, the gain against the share of malleable jobs, and schedules over time.

use std::cmp::Ordering;
use std::fmt::Write;

use iotide_look::html::{FOOT, capitalised, escape, head, own_style};

use iotide_look::text;
use iotide_report::{DrawnSchedule, Figure, JobPolicyEntry, JobsReport, Ratios};

use crate::Page;

mod gantt;

impl Page for JobsReport {
    fn to_page(&self) -> Option<String> {
        Some(page(self))
    }
}

const SCRIPT: &str = concat!("\n", include_str!("job_schedule/page.js"));

fn page(report: &JobsReport) -> String {
    let style = own_style(concat!(
        include_str!("tables.css"),
        include_str!("tabs.css"),
        include_str!("job_schedule/page.css")
    ));
    let title = format!("{} · iotide simulate jobs", report.workload.source.for_terminal());
    let mut html = head(&title, &style, SCRIPT);
    let verdicts = report.verdicts();
    let headline = report.headline();
    let _ = write!(
        html,
        "<main class=\"machine\">\n<header><p class=\"path\">{}</p><h1>{}</h1>\n<p>{}</p>\n<ul class=\"verdicts\">\n",
        report.workload.source.for_html(),
        escape(&capitalised(&headline)),
        escape(&report.in_words()),
    );
    for verdict in &verdicts {
        let class = if verdict.starts_with("worse") { " class=\"worse\"" } else { "" };
        let _ = writeln!(html, "<li{class}>{}</li>", escape(&capitalised(verdict)));
    }
    let _ = write!(html, "</ul>\n<p class=\"note\">{}</p></header>\n", escape(WORDS));
    curves(report, &mut html);
    tables(report, &mut html);
    schedules(report, &mut html);
    for loss in &report.losses {
        let _ = writeln!(html, "<p class=\"note\">Lost: {}</p>", loss.what.for_html());
    }
    let _ = write!(html, "<script>{SCRIPT}</script>\n{FOOT}");
    html
}

/// The gain of each policy against the share of malleable jobs.
fn curves(report: &JobsReport, html: &mut String) {
    let shares: Vec<f64> = report.shares().into_iter().flatten().collect();
    if shares.len() < 2 {
        return;
    }
    html.push_str("<section><h2>Gain against the share of malleable jobs</h2>\n");
    let _ = writeln!(
        html,
        "<p>Below the line at 1 a policy is better than {}, above it worse. Bands are 95 % intervals over the seeds, pair by pair; \
         without a band chance has no say.</p>",
        escape(report.baseline)
    );
    for (name, of) in QUANTITIES {
        let curves = curves_of(report, of);
        if !curves.is_empty() {
            let _ = writeln!(
                html,
                "<h3>{name}</h3>\n<div class=\"broad\">{}</div>\n<div class=\"slim\">{}{}</div>",
                curve_picture(name, &shares, &curves, &BROAD),
                curve_picture(name, &shares, &curves, &SLIM),
                keys(&curves)
            );
        }
    }
    html.push_str("</section>\n");
}

fn curves_of(report: &JobsReport, of: fn(&Ratios) -> Option<Figure>) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for entry in &report.policies {
        let (Some(share), Some(figure)) = (entry.malleable, entry.ratio.as_ref().and_then(of)) else {
            continue;
        };
        match curves.iter_mut().find(|(policy, _)| *policy == entry.policy) {
            Some((_, points)) => points.push((share, figure)),
            None => curves.push((entry.policy, vec![(share, figure)])),
        }
    }
    for (_, points) in &mut curves {
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
    }
    curves
}

fn tables(report: &JobsReport, html: &mut String) {
    html.push_str("<section><h2>Policies side by side</h2>\n<div class=\"tabs\">\n");
    for (i, malleable) in report.shares().into_iter().enumerate() {
        let name = malleable
            .map_or("As the log has it".to_owned(), |share| format!("{} malleable", text::percent(share)));
        let checked = if i == 0 { " checked" } else { "" };
        let _ = write!(
            html,
            "<input type=\"radio\" name=\"share\" id=\"share-{i}\"{checked}><label for=\"share-{i}\">{name}</label>\n\
             <div class=\"panel\"><h3 class=\"printed\">{name}</h3><div class=\"wide\" tabindex=\"0\"><table>\n<thead><tr>"
        );
        for column in COLUMNS {
            let _ = write!(html, "<th>{column}</th>");
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        for entry in report.entries(malleable) {
            table_row(html, entry);
        }
        html.push_str("</tbody></table></div></div>\n");
    }
    html.push_str("</div></section>\n");
}

fn schedules(report: &JobsReport, html: &mut String) {
    let Some(chosen) = share_to_draw(report) else { return };
    let runs: Vec<&DrawnSchedule> = report.drawn.iter().filter(|drawn| drawn.malleable == chosen).collect();
    let Some(first) = runs.first() else { return };
    let at = chosen
        .map_or(String::new(), |share| format!(" at {} malleable jobs, first seed", text::percent(share)));
    let _ = write!(
        html,
        "<section><h2>Schedules over time{at}</h2>\n<p>Each rectangle is a job on its nodes: <span class=\"key malleable\">malleable</span> or \
         <span class=\"key other\">not</span>. Below it, how many nodes are busy and how many jobs wait.</p>\n"
    );
    html.push_str(ZOOMS);
    gantt::still_pictures(html, &runs);
    // `<` is the one character that could end the script element from within a string.
    let json = gantt::json(first, &runs).replace('<', "\\u003c");
    let _ =
        writeln!(html, "<script type=\"application/json\" id=\"schedules-data\">{json}</script></section>");
}

/// The share nearest to one half of those that were drawn.
fn share_to_draw(report: &JobsReport) -> Option<Option<f64>> {
    let distance = |share: Option<f64>| share.map_or(0.0, |share| (share - 0.5).abs());
    let shares = report.drawn.iter().map(|drawn| drawn.malleable);
    shares.min_by(|&a, &b| distance(a).total_cmp(&distance(b)))
}

/// Where the script draws; hidden where it does not run.
const ZOOMS: &str = "<div id=\"zooms\" hidden><p>All panels show the same stretch. A drag zooms to the time and the nodes that it marks, and moves with Shift; the wheel zooms with \
    Ctrl. Keys: + and − zoom, arrows move, 0 shows all, as a double click does.</p>\n<p class=\"zooms\"><button type=\"button\" id=\"zoom-in\">Zoom in</button><button type=\"button\" id=\"zoom-out\">Zoom \
    out</button><button type=\"button\" id=\"earlier\">Earlier</button><button type=\"button\" id=\"later\">Later</button><button type=\"button\" id=\"fewer\">Fewer nodes</button><button \
    type=\"button\" id=\"more\">More nodes</button><button type=\"button\" id=\"zoom-all\">Show all</button> <output id=\"shown\"></output></p></div>\n<div id=\"schedules\"></div>\n";

const WORDS: &str = "Wait is the time from submission to the last start; makespan the time from the first submission to the last end; slowdown the mean of a job's time from \
    submission to end over its time alone (10 s at the least), 1 at the least; utilisation the share of the nodes' time that jobs held.";

type Quantity = (&'static str, fn(&Ratios) -> Option<Figure>);

const QUANTITIES: [Quantity; 3] = [
    ("Mean wait", |ratios| ratios.mean_wait),
    ("Makespan", |ratios| ratios.makespan),
    ("Mean bounded slowdown", |ratios| ratios.mean_bounded_slowdown),
];

const COLUMNS: [&str; 11] = [
    "policy",
    "mean wait",
    "against",
    "longest wait",
    "against",
    "makespan",
    "against",
    "slowdown",
    "against",
    "utilisation",
    "resizes",
];

fn table_row(html: &mut String, entry: &JobPolicyEntry) {
    let ratio = |of: fn(&Ratios) -> Option<Figure>| match entry.ratio.as_ref().and_then(of) {
        None => "<td>–</td>".to_owned(),
        Some(figure) => {
            let class = match figure.against_one() {
                Ordering::Greater => " class=\"worse\"",
                Ordering::Less => " class=\"better\"",
                Ordering::Equal => "",
            };
            format!("<td{class}>{}</td>", escape(&figure.ratio_in_words()))
        }
    };
    let _ = writeln!(
        html,
        "<tr><td>{}</td><td>{}</td>{}<td>{}</td>{}<td>{}</td>{}<td>{:.2}</td>{}<td>{}</td><td>{:.0}</td></tr>",
        escape(entry.policy),
        escape(&text::seconds(entry.mean_wait_s.mean)),
        ratio(|ratios| ratios.mean_wait),
        escape(&text::seconds(entry.max_wait_s.mean)),
        ratio(|ratios| ratios.max_wait),
        escape(&text::seconds(entry.makespan_s.mean)),
        ratio(|ratios| ratios.makespan),
        entry.mean_bounded_slowdown.mean,
        ratio(|ratios| ratios.mean_bounded_slowdown),
        escape(&text::percent(entry.utilization.mean)),
        entry.n_resizes.mean
    );
}

/// The ratios of a policy at the shares it was run with.
type Curve = (&'static str, Vec<(f64, Figure)>);

/// How large curves are drawn.
struct Frame {
    wide: f64,
    /// Space at the right for names of the curves; without it there is a list of keys.
    names: Option<f64>,
}

const BROAD: Frame = Frame { wide: 960.0, names: Some(190.0) };

/// For a phone, in its own pixels.
const SLIM: Frame = Frame { wide: 360.0, names: None };

/// How a curve is told from the others: eight colours, then the same ones in dashes.
fn curve_class(i: usize) -> String {
    format!("k{}{}", i % 8, if i < 8 { "" } else { " dashed" })
}

fn keys(curves: &[Curve]) -> String {
    let mut html = String::from("<ul class=\"keys\">");
    for (i, (policy, _)) in curves.iter().enumerate() {
        let _ = write!(
            html,
            "<li><svg viewBox=\"0 0 24 8\" aria-hidden=\"true\"><path class=\"curve {}\" d=\"M0 4L24 4\"/></svg>{}</li>",
            curve_class(i),
            escape(policy)
        );
    }
    html + "</ul>"
}

/// Moves names (each at its height) so that they neither touch nor reach below the lowest place.
fn kept_apart(mut names: Vec<(f64, usize)>, apart: f64, mut lowest: f64) -> Vec<(f64, usize)> {
    names.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Downwards where they would touch, and up again where they would reach too low.
    for i in 1..names.len() {
        names[i].0 = names[i].0.max(names[i - 1].0 + apart);
    }
    for (at, _) in names.iter_mut().rev() {
        *at = at.min(lowest);
        lowest = *at - apart;
    }
    names
}

/// The lines of an axis of ratios from `low` to `high`, with their numbers.
fn ratio_grid(svg: &mut String, [left, right]: [f64; 2], [low, high]: [f64; 2], y: impl Fn(f64) -> f64) {
    for tick in [
        0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0,
    ] {
        let is_crowded = high / low > 4.0 && [0.7, 0.8, 0.9, 1.1, 1.2, 1.5].contains(&tick);
        if (low..=high).contains(&tick) && !is_crowded {
            let class = if tick == 1.0 { "base" } else { "grid" };
            let _ = writeln!(
                svg,
                "<line class=\"{class}\" x1=\"{left}\" x2=\"{right}\" y1=\"{0:.1}\" y2=\"{0:.1}\"/><text x=\"{1}\" y=\"{2:.1}\" text-anchor=\"end\">×{tick}</text>",
                y(tick),
                left - 6.0,
                y(tick) + 4.0
            );
        }
    }
}

/// Ratios against shares, with bands, on an axis on which twice and half are equally far.
fn curve_picture(name: &str, shares: &[f64], curves: &[Curve], frame: &Frame) -> String {
    const HIGH: f64 = 280.0;
    const APART: f64 = 14.0;
    let wide = frame.wide;
    let (left, right, top, floor) = (56.0, wide - frame.names.unwrap_or(24.0), 14.0, HIGH - 40.0);
    let ends = |figure: &Figure| figure.interval.unwrap_or([figure.mean; 2]);
    let values = curves.iter().flat_map(|(_, points)| points.iter().flat_map(|(_, figure)| ends(figure)));
    let (mut low, mut high) =
        values.fold((1.0f64, 1.0f64), |(low, high), value| (low.min(value), high.max(value)));
    (low, high) = ((low / 1.08).max(1e-3), (high * 1.08).min(1e4));
    let y = |value: f64| floor - (value.clamp(low, high) / low).ln() / (high / low).ln() * (floor - top);
    let most = shares.iter().copied().fold(0.01, f64::max);
    let x = |share: f64| left + share / most * (right - left);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide} {HIGH}\" class=\"plot\" role=\"img\" font-size=\"12\"><title>{name} against the share of malleable jobs</title>\n<g class=\"axes\">\n"
    );
    ratio_grid(&mut svg, [left, right], [low, high], y);
    for &share in shares {
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{:.0} %</text>",
            x(share),
            floor + 18.0,
            100.0 * share
        );
    }
    let _ = writeln!(
        svg,
        "<text class=\"name\" x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">malleable jobs</text></g>",
        (left + right) / 2.0,
        HIGH - 6.0
    );
    // Names stand beside the ends of their curves, apart from each other.
    let mut names: Vec<(f64, usize)> = Vec::new();
    for (i, (_, points)) in curves.iter().enumerate() {
        let line = |value: fn(&Figure) -> f64| {
            points
                .iter()
                .map(move |(share, figure)| format!("{:.1} {:.1}", x(*share), y(value(figure))))
                .collect::<Vec<_>>()
        };
        let (lows, mut highs) = (
            line(|figure| figure.interval.map_or(figure.mean, |ends| ends[0])),
            line(|figure| figure.interval.map_or(figure.mean, |ends| ends[1])),
        );
        highs.reverse();
        let _ = writeln!(
            svg,
            "<path class=\"reach {0}\" d=\"M{1}L{2}Z\"/><path class=\"curve {0}\" d=\"M{3}\"/>",
            curve_class(i),
            lows.join("L"),
            highs.join("L"),
            line(|figure| figure.mean).join("L")
        );
        names.extend(points.last().filter(|_| frame.names.is_some()).map(|(_, figure)| (y(figure.mean), i)));
    }
    for (at, i) in kept_apart(names, APART, floor) {
        let _ = writeln!(
            svg,
            "<text class=\"curve-name k{}\" x=\"{}\" y=\"{:.1}\">{}</text>",
            i % 8,
            right + 8.0,
            at + 4.0,
            escape(curves[i].0)
        );
    }
    svg + "</svg>"
}
