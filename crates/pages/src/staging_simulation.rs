//! Staging policies as a page: policies side by side, the buffer over time, and what the controller does about it.

use iotide_look::chart::{Axis, Band, BandKind, Look, Series, Xs};
use iotide_look::html::{FOOT, SCRIPT, Section, capitalised, escape, head, own_style, table};
use iotide_look::{Plot, text};
use iotide_report::words::{STAGING_COLUMNS, STAGING_SIZE_COLUMNS};
use iotide_report::{DrawnStaging, StagingEntry, StagingReport};
use iotide_sched::staging::State;
use iotide_sim::staging::Sample;

use crate::Page;

impl Page for StagingReport {
    fn to_page(&self) -> Option<String> {
        Some(page(self))
    }

    fn pictures(&self) -> Vec<(String, String)> {
        plots(self).iter().map(|plot| (plot.name.to_owned(), plot.to_svg())).collect()
    }
}

/// Stretches of states that go into one picture; what comes later is not drawn.
const MOST_STRETCHES: usize = 20_000;

fn page(report: &StagingReport) -> String {
    let style = own_style(include_str!("tables.css"));
    let title = format!("{} · iotide simulate staging", report.workload.source.for_terminal());
    let mut html = head(&title, &style, SCRIPT);
    html += &format!(
        "<main>\n<header><p class=\"path\">{}</p><h1>{}</h1>\n<p>{}.</p>\n",
        report.workload.source.for_html(),
        escape(&capitalised(&text::whole_numbers(&report.verdict()))),
        escape(&capitalised(&text::whole_numbers(&report.in_words()))),
    );
    if let Some(words) = report.model_in_words() {
        html += &format!("<p>{}.</p>\n", escape(&capitalised(&words)));
    }
    html += &format!("<p class=\"note\">{WORDS}</p></header>\n");
    Section::write_all(&sections(report), &mut html, "staging");
    html += &format!("<script>{SCRIPT}</script>\n{FOOT}");
    html
}

fn sections(report: &StagingReport) -> Vec<Section> {
    let wide = |table: String| format!("<div class=\"wide\" tabindex=\"0\">{table}</div>");
    let section = |id, title: &str, body| Section { id, title: title.to_owned(), body, narrow: false };
    let mut sections = vec![
        section("policies", "Policies side by side", wide(table(STAGING_COLUMNS, report.rows()))),
        section("size", "Which buffer is needed", wide(table(STAGING_SIZE_COLUMNS, report.size_rows()))),
    ];
    for plot in plots(report) {
        sections.push(section(plot.name, plot.title, plot.to_figure("a")));
    }
    sections
}

/// The buffer under all policies, then each with what is done.
fn plots(report: &StagingReport) -> Vec<Plot> {
    let all = report.policies.iter().map(|entry| &entry.drawn);
    let end_s = all.clone().filter_map(end_s).fold(0.0, f64::max);
    let highest = all.flat_map(|drawn| &drawn.samples).map(|sample| sample.used_bytes).fold(0.0, f64::max);
    if end_s <= 0.0 || highest <= 0.0 {
        return Vec::new();
    }
    let plot = |name, title, caption, highest, series, bands, keys| Plot {
        name,
        title,
        caption,
        x: Axis::time("time", 0.0, end_s),
        y: bytes_axis("in the buffer", highest),
        bands,
        series,
        marks: Vec::new(),
        dots: Vec::new(),
        keys,
    };
    let lines = (report.policies.iter().enumerate())
        .map(|(i, entry)| line(&entry.drawn, entry.policy, Look::Beat, i, |sample| sample.used_bytes));
    let caption = "Bytes in the buffer in the first run, under each policy.".to_owned();
    let mut plots = vec![plot(
        "buffer",
        "The buffer over time",
        caption,
        highest,
        lines.collect(),
        Vec::new(),
        Vec::new(),
    )];
    for entry in &report.policies {
        let (name, title) = name_and_title(entry.policy);
        let drawn = &entry.drawn;
        let series = vec![line(drawn, "nowhere else", Look::Beat, 0, |sample| sample.unsafe_bytes)];
        let keys = vec![
            ("pause".to_owned(), "the job writes".to_owned()),
            (format!("phase p{MOVING}"), "run or flush".to_owned()),
            (format!("phase p{DRAINING}"), "drain".to_owned()),
            (format!("phase p{HOLDING}"), "hold".to_owned()),
        ];
        let own = entry.lost_at_crash.max_bytes.mean;
        plots.push(plot(name, title, in_words(entry), own, series, bands(drawn), keys));
    }
    plots
}

/// Explained once, above the tables.
const WORDS: &str = "Inflation is the job's run time over that without staging. Lost at a crash is what is nowhere but in the buffer: on average until \
    everything is safe, and at the worst moment. Interference is the time in which data is moved while the job writes; stalled is what the job loses because \
    the buffer is full.";

const MOVING: usize = 0;
const DRAINING: usize = 1;
const HOLDING: usize = 2;

fn name_and_title(policy: &str) -> (&'static str, &'static str) {
    match policy {
        "immediate" => ("immediate", "Immediate"),
        "end" => ("end", "End"),
        "space" => ("space", "Space"),
        "gap" => ("gap", "Gap"),
        _ => ("deadline", "Deadline"),
    }
}

fn bytes_axis(label: &str, highest: f64) -> Axis {
    const UNITS: [(f64, &str); 6] =
        [(1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB"), (1e15, "PB")];
    let &(factor, unit) = UNITS.iter().rfind(|(factor, _)| *factor <= highest).unwrap_or(&UNITS[0]);
    Axis::linear(label, 0.0, highest * 1.06, factor, unit)
}

/// Returns the outcome of the job, in a sentence.
fn in_words(entry: &StagingEntry) -> String {
    let ends = match (entry.run_time_s, entry.safe_after_end_s) {
        (Some(run), Some(safe)) => format!(
            "the job runs for {} and everything is safe {} later",
            text::seconds(run.mean),
            text::seconds(safe.mean)
        ),
        _ => "the job hangs with a full buffer".to_owned(),
    };
    format!(
        "Bytes that are nowhere but in the buffer; the strip above says what is done. {}.",
        capitalised(&ends)
    )
}

fn end_s(drawn: &DrawnStaging) -> Option<f64> {
    drawn.samples.last().map(|sample| sample.at_s)
}

fn line(
    drawn: &DrawnStaging,
    label: &'static str,
    look: Look,
    colour: usize,
    of: fn(&Sample) -> f64,
) -> Series {
    Series {
        label: label.into(),
        look,
        colour,
        step: false,
        x: Xs::At(drawn.samples.iter().map(|sample| sample.at_s).collect()),
        mid: drawn.samples.iter().map(of).collect(),
        lo: Vec::new(),
        hi: Vec::new(),
    }
}

/// Phases over the whole height, states as a strip above.
fn bands(drawn: &DrawnStaging) -> Vec<Band> {
    let phases = (drawn.phases_s.iter()).map(|&(from, to)| Band {
        from,
        to,
        kind: BandKind::Pause,
        colour: 0,
        lane: 0,
    });
    let states = drawn.samples.windows(2).filter_map(|pair| {
        let colour = match pair[0].state {
            State::Run | State::Flush => MOVING,
            State::Drain => DRAINING,
            State::Hold => HOLDING,
            State::Idle | State::Stuck => return None,
        };
        let (from, to) = (pair[0].at_s, pair[1].at_s);
        (to > from).then_some(Band { from, to, kind: BandKind::Phase, colour, lane: 1 })
    });
    phases.chain(states).take(MOST_STRETCHES).collect()
}
