//! The state of shared storage as a page: the verdict first, bands over time, what a change does.

use iotide_look::Plot;
use iotide_look::chart::{Axis, Look, Mark, Series, Xs};
use iotide_look::html::{FOOT, SCRIPT, Section, capitalised, escape, head, own_style, table, tiles};
use iotide_look::text;

use iotide_report::words::{CHANGE_HEAD, TEMPLATE_HEAD, plain};
use iotide_report::{Estimate, State, SystemReport};

mod carry;

use crate::Page;

impl Page for SystemReport {
    fn to_page(&self) -> Option<String> {
        Some(page(self))
    }

    fn pictures(&self) -> Vec<(String, String)> {
        plots(self).iter().map(|plot| (format!("{}.svg", plot.name), plot.to_svg())).collect()
    }
}

fn page(report: &SystemReport) -> String {
    let style = own_style(include_str!("tables.css"));
    let title = format!("{} · iotide simulate system", report.workload.source.for_terminal());
    let mut html = head(&title, &style, SCRIPT);
    html += &format!(
        "<main>\n<header><p class=\"path\">{}</p><h1>{}</h1>\n<p>{}</p></header>\n",
        report.workload.source.for_html(),
        escape(&capitalised(&text::whole_numbers(&report.verdict()))),
        escape(&capitalised(&format!("{}.", report.head_lines().join("; ")))),
    );
    html += &tiles(head_tiles(report));
    Section::write_all(&sections(report), &mut html, "system");
    html += &format!("<script>{SCRIPT}</script>\n{FOOT}");
    html
}

fn head_tiles(report: &SystemReport) -> Vec<(&'static str, String)> {
    let frame = &report.system.frame;
    let mut tiles = vec![
        ("bandwidth", text::bandwidth(frame.bandwidth_total_bps.mean)),
        ("requests at the targets", plain(frame.at_op_total + frame.moving_total)),
        ("of them waiting", plain(frame.waiting)),
    ];
    tiles.extend(frame.op_utilization.map(|busy| ("servers busy", text::percent(busy))));
    tiles.extend(frame.bandwidth_utilization.map(|busy| ("bandwidth used", text::percent(busy))));
    if let Some(clogs) = &report.system.saturation {
        tiles.push(("full with", format!("{} jobs", plain(clogs.knee_jobs))));
    }
    tiles
}

fn sections(report: &SystemReport) -> Vec<Section> {
    let mut sections = Vec::new();
    for plot in plots(report) {
        sections.push(Section {
            id: plot.name,
            title: plot.title.to_owned(),
            body: plot.to_figure("a"),
            narrow: false,
        });
    }
    if !report.system.what_if.is_empty() {
        let body =
            format!("<div class=\"wide\" tabindex=\"0\">{}</div>", table(CHANGE_HEAD, report.change_rows()));
        sections.push(Section { id: "what-if", title: "Before and after".to_owned(), body, narrow: false });
    }
    let body =
        format!("<div class=\"wide\" tabindex=\"0\">{}</div>", table(TEMPLATE_HEAD, report.template_rows()));
    sections.push(Section {
        id: "templates",
        title: "What each kind of application gets".to_owned(),
        body,
        narrow: false,
    });
    let lines: String = report
        .saturation_lines()
        .iter()
        .map(|line| format!("<p>{}.</p>\n", escape(&capitalised(line))))
        .collect();
    if !lines.is_empty() {
        sections.push(Section {
            id: "limits",
            title: "Where it clogs".to_owned(),
            body: lines,
            narrow: false,
        });
    }
    sections
}

/// The state over time; empty without one.
fn plots(report: &SystemReport) -> Vec<Plot> {
    if report.system.state.len() < 2 {
        return Vec::new();
    }
    let bandwidth = |state: &State| state.bandwidth_bps;
    let requests = |state: &State| state.requests;
    let busy = |state: &State| Estimate { mean: 100.0 * state.utilization, interval: None };
    let highest = |of: &dyn Fn(&State) -> Estimate| {
        let tops = report.system.state.iter().map(|state| {
            let estimate = of(state);
            estimate.interval.map_or(estimate.mean, |[_, to]| to)
        });
        tops.fold(0.0, f64::max).max(1e-9)
    };
    let share = text::percent(report.confidence);
    let banded = if report.repetitions > 1 {
        format!(" The line is the mean of the repetitions; the band holds {share} of them.")
    } else {
        String::new()
    };
    vec![
        plot(
            report,
            "bandwidth",
            "Bandwidth",
            format!("Bytes moved per second, of all jobs together.{banded}"),
            Axis::bandwidth("bandwidth", highest(&bandwidth)),
            &bandwidth,
        ),
        plot(
            report,
            "requests",
            "Requests at the targets",
            format!("Requests that are at the targets at once, those that wait included.{banded}"),
            Axis::linear("requests", 0.0, 1.06 * highest(&requests), 1.0, ""),
            &requests,
        ),
        plot(
            report,
            "busy",
            "How busy the storage is",
            "The busiest part of the storage: at 100 % everything that is added makes everyone wait."
                .to_owned(),
            Axis::linear("busy", 0.0, 106.0, 1.0, "%"),
            &busy,
        ),
    ]
}

fn plot(
    report: &SystemReport,
    name: &'static str,
    title: &'static str,
    caption: String,
    y: Axis,
    of: &dyn Fn(&State) -> Estimate,
) -> Plot {
    let state = &report.system.state;
    // A mean over a step stands in its middle.
    let begins = |step: usize| if step == 0 { 0.0 } else { state[step - 1].time_s };
    let xs: Vec<f64> = (0..state.len()).map(|step| 0.5 * (begins(step) + state[step].time_s)).collect();
    let estimates: Vec<Estimate> = state.iter().map(of).collect();
    let end_s = state.last().map_or(1.0, |last| last.time_s);
    Plot {
        name,
        title,
        caption,
        x: Axis::time("time", 0.0, end_s),
        y,
        bands: Vec::new(),
        series: mean_in_band(&xs, &estimates),
        marks: (report.system.what_if.iter())
            .map(|what| Mark { at: what.at_s, label: what.change.clone(), strong: true })
            .collect(),
        dots: Vec::new(),
        keys: Vec::new(),
    }
}

fn line(label: &'static str, look: Look, xs: &[f64], mid: Vec<f64>) -> Series {
    Series {
        label: label.into(),
        look,
        colour: 0,
        step: false,
        x: Xs::At(xs.to_vec()),
        mid,
        lo: Vec::new(),
        hi: Vec::new(),
    }
}

/// The means as a line, in the band of the repetitions if all have one.
fn mean_in_band(xs: &[f64], estimates: &[Estimate]) -> Vec<Series> {
    let means: Vec<f64> = estimates.iter().map(|estimate| estimate.mean).collect();
    let mut series = Vec::new();
    let bands: Option<Vec<[f64; 2]>> = estimates.iter().map(|estimate| estimate.interval).collect();
    if let Some(bands) = bands {
        let mut ribbon = line("most repetitions", Look::Ribbon, xs, means.clone());
        ribbon.lo = bands.iter().map(|[from, _]| *from).collect();
        ribbon.hi = bands.iter().map(|[_, to]| *to).collect();
        series.push(ribbon);
    }
    series.push(line("mean", Look::Beat, xs, means));
    series
}
