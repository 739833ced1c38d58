//! Why a run was slow, as a page: its phases above the load of others, beside earlier runs.

use std::fmt::Write;

use iotide_analysis::{PhaseCause, WhyVerdict};
use iotide_look::chart::{Axis, Band, BandKind, Look, Series, Xs, highest};
use iotide_look::html::{SCRIPT, escape, facts, head, own_style, sorted_cell, table};
use iotide_look::{Plot, text};
use iotide_report::{SlowRuns, SlowTable, WhyArchive, WhyDocument, WhyRun};

use crate::{Page, section};

impl Page for WhyDocument {
    fn to_page(&self) -> Option<String> {
        self.runs.first().map(page)
    }

    fn pictures(&self) -> Vec<(String, String)> {
        let plots = self.runs.first().map(plots).unwrap_or_default();
        plots.iter().map(|plot| (format!("{}.svg", plot.name), plot.to_svg())).collect()
    }
}

impl Page for WhyArchive {
    fn to_page(&self) -> Option<String> {
        let headline = text::whole_numbers(&self.headline());
        let mut html =
            head(&format!("{headline} · iotide why"), &own_style(include_str!("tables.css")), SCRIPT);
        let _ = write!(
            html,
            "<main>\n<header><p class=\"path\">Slow runs of an archive</p><h1>{}</h1></header>\n",
            escape(&headline)
        );
        let plot = lost_plot(&self.archive);
        if let Some(plot) = &plot {
            section(&mut html, "lost", "Lost I/O time by hour", &plot.to_figure("why"));
        }
        for (i, SlowTable { title, head: names, mut rows }) in self.archive.tables().into_iter().enumerate() {
            rows.truncate(MOST_ROWS);
            if !rows.is_empty() {
                section(&mut html, &format!("table-{i}"), title, &table(names, rows));
            }
        }
        let _ = write!(
            html,
            "</main>\n<footer>Made by iotide {}. The same numbers for scripts: <code>iotide why --archive … --format json</code>.</footer>\n\
             <script>{SCRIPT}</script>\n</body>\n</html>\n",
            env!("CARGO_PKG_VERSION"),
        );
        Some(html)
    }

    fn pictures(&self) -> Vec<(String, String)> {
        lost_plot(&self.archive).iter().map(|plot| (format!("{}.svg", plot.name), plot.to_svg())).collect()
    }
}

/// The slow runs of an archive, for a page about more: lost time, then each table.
pub(crate) fn slow_runs(slow: &SlowRuns) -> String {
    let mut html = format!("<p>{}.</p>\n", escape(&text::whole_numbers(&slow.headline())));
    html.extend(lost_plot(slow).iter().map(|plot| plot.to_figure("slow")));
    for SlowTable { title, head: names, mut rows } in slow.tables() {
        rows.truncate(MOST_ROWS);
        if !rows.is_empty() {
            let _ = write!(html, "<h3>{title}</h3>\n{}", table(names, rows));
        }
    }
    html
}

/// Hours of a picture; a longer archive is shown by weeks.
const MOST_HOURS: f64 = 2000.0;

/// Lost I/O time over time, and how much of it others caused.
fn lost_plot(slow: &SlowRuns) -> Option<Plot> {
    let (hours, weeks) = (&slow.hours, &slow.weeks);
    let span_s = hours.last()?.start_unix_s - hours.first()?.start_unix_s;
    let (times, length_s) =
        if span_s <= MOST_HOURS * 3600.0 { (hours, 3600.0) } else { (weeks, 168.0 * 3600.0) };
    let first_s = times.first()?.start_unix_s;
    let n = ((times.last()?.start_unix_s - first_s) / length_s).round() as usize + 1;
    let (mut all, mut by_others) = (vec![0.0; n], vec![0.0; n]);
    for time in times {
        let at = (((time.start_unix_s - first_s) / length_s).round() as usize).min(n - 1);
        all[at] += time.lost.all_s;
        by_others[at] += time.lost.others_s;
    }
    let top = highest(&all);
    if top <= 0.0 {
        return None;
    }
    let steps = |label: &'static str, look, colour, values: &[f64]| Series {
        step: true,
        colour,
        ..Series::even(label, look, 0.0, length_s, values)
    };
    Some(Plot {
        name: "lost",
        title: "I/O time that runs lost",
        caption: format!(
            "Each step is an hour or a week in which runs began; the first begins at {}.",
            text::date(first_s)
        ),
        x: Axis::time("time since the first run", 0.0, n as f64 * length_s),
        y: Axis::linear("lost", 0.0, top * 1.05, 1.0, "s"),
        bands: Vec::new(),
        series: vec![steps("lost", Look::Area, 0, &all), steps("lost to others", Look::Beat, 3, &by_others)],
        marks: Vec::new(),
        dots: Vec::new(),
        keys: Vec::new(),
    })
}

/// A page has no more rows than a person looks at.
const MOST_ROWS: usize = 500;

fn page(run: &WhyRun) -> String {
    let headline = run.why.headline();
    let mut html = head(&format!("{headline} · iotide why"), &own_style(include_str!("tables.css")), SCRIPT);
    let _ = write!(
        html,
        "<main>\n<header><p class=\"path\">{}</p><h1>{}</h1></header>\n",
        run.source.path.for_html(),
        escape(&text::whole_numbers(&headline))
    );
    let figures: Vec<String> = plots(run).iter().map(|plot| plot.to_figure("why")).collect();
    if !figures.is_empty() {
        section(&mut html, "pictures", "The run and what went on beside it", &figures.concat());
    }
    let rows: Vec<(&'static str, String)> =
        run.why.facts().pairs().map(|(name, value)| (fact_name(name), value.to_owned())).collect();
    section(&mut html, "evidence", "Evidence", &facts(rows));
    section(&mut html, "phases", "Phases", &phase_table(&run.why.phases));
    let losses = run.losses_in_words();
    if !losses.is_empty() {
        section(
            &mut html,
            "losses",
            "What is missing",
            &facts(losses.into_iter().map(|loss| ("loss", loss))),
        );
    }
    let _ = write!(
        html,
        "</main>\n<footer>Made by iotide {}. The same numbers for scripts: <code>iotide why --format json</code>.</footer>\n\
         <script>{SCRIPT}</script>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
    );
    html
}

/// The pictures, the evidence and the phases, for a page about more.
pub(crate) fn body(run: &WhyRun, prefix: &str) -> String {
    let figures: String = plots(run).iter().map(|plot| plot.to_figure(prefix)).collect();
    let rows = run.why.facts();
    let rows: Vec<(&'static str, String)> =
        rows.pairs().map(|(name, value)| (fact_name(name), value.to_owned())).collect();
    format!("{figures}{}{}", facts(rows), phase_table(&run.why.phases))
}

/// Facts of the report have these names, which a page keeps as they are.
fn fact_name(name: &str) -> &'static str {
    match name {
        "slowdown" => "slowdown",
        "parts" => "parts",
        "would help" => "would help",
        _ => "evidence",
    }
}

fn phase_table(phases: &[PhaseCause]) -> String {
    let mut html = String::from(
        "<div class=\"wide\" tabindex=\"0\"><table class=\"sortable\">\n<thead><tr><th scope=\"col\">begins</th><th scope=\"col\">ends</th>\
         <th scope=\"col\">moves</th><th scope=\"col\">factor</th><th scope=\"col\">others</th><th scope=\"col\">verdict</th></tr></thead>\n<tbody>\n",
    );
    let or_none = |value: Option<f64>, shown: fn(f64) -> String| {
        sorted_cell(value.unwrap_or(-1.0), &value.map_or("–".to_owned(), shown))
    };
    for phase in phases.iter().take(MOST_ROWS) {
        let _ = writeln!(
            html,
            "<tr>{}{}{}{}{}<td>{}</td></tr>",
            sorted_cell(phase.start_s, &text::moment(phase.start_s)),
            sorted_cell(phase.end_s, &text::moment(phase.end_s)),
            sorted_cell(phase.bytes, &text::bytes(phase.bytes)),
            or_none(phase.factor, |factor| text::digits(factor, 3)),
            or_none(phase.others_bps, text::bandwidth),
            phase.verdict.name()
        );
    }
    html += "</tbody>\n</table></div>\n<p class=\"note\">Times count from the start of the trace; \u{201c}factor\u{201d} is how much longer the phase \
             took than such requests usually do.";
    if phases.len() > MOST_ROWS {
        let _ = write!(html, " The first {MOST_ROWS} of {}; JSON has all.", text::count(phases.len() as u64));
    }
    html + "</p>\n"
}

fn plots(run: &WhyRun) -> Vec<Plot> {
    phases_plot(run).into_iter().chain(history_plot(run)).collect()
}

/// Which colour and kind a verdict has.
fn look_of(verdict: WhyVerdict) -> (BandKind, usize) {
    match verdict {
        WhyVerdict::Own => (BandKind::Phase, 0),
        WhyVerdict::Usual => (BandKind::Phase, 1),
        WhyVerdict::Storage => (BandKind::Phase, 2),
        WhyVerdict::Others | WhyVerdict::Mixed => (BandKind::Phase, 3),
        WhyVerdict::Unknown => (BandKind::Pause, 0),
    }
}

/// The phases, coloured by their verdicts, and what others moved on the same axis.
fn phases_plot(run: &WhyRun) -> Option<Plot> {
    let (first, last) = (run.why.phases.first()?, run.why.phases.last()?);
    let bands: Vec<Band> = (run.why.phases.iter())
        .map(|phase| {
            let (kind, colour) = look_of(phase.verdict);
            Band { from: phase.start_s, to: phase.end_s, kind, colour, lane: 0 }
        })
        .collect();
    let mut keys: Vec<(String, String)> = Vec::new();
    for verdict in [
        WhyVerdict::Usual,
        WhyVerdict::Own,
        WhyVerdict::Others,
        WhyVerdict::Storage,
        WhyVerdict::Mixed,
        WhyVerdict::Unknown,
    ] {
        if run.why.phases.iter().any(|phase| phase.verdict == verdict) {
            let (kind, colour) = look_of(verdict);
            let class = if kind == BandKind::Pause { "pause".to_owned() } else { format!("phase p{colour}") };
            keys.push((class, format!("phase: {}", verdict.name())));
        }
    }
    let margin = 0.01 * (last.end_s - first.start_s);
    let x = Axis::time("time since the start of the trace", first.start_s - margin, last.end_s + margin);
    let mut series = Vec::new();
    let mut top_bps = run.why.phases.iter().map(own_bps).fold(0.0, f64::max);
    if let Some(others) = &run.others {
        // What is not known is drawn as nothing; the evidence tells of holes.
        let known: Vec<f64> = others.bps.iter().map(|bps| if bps.is_nan() { 0.0 } else { *bps }).collect();
        top_bps = top_bps.max(highest(&known)).max(others.capacity_bps);
        series.push(Series {
            step: true,
            ..Series::even("load of others", Look::Area, others.start_s, others.step_s, &known)
        });
        series.push(level("what the storage carries", x_span(first, last), others.capacity_bps, 2));
    }
    series.push(own_rate(&run.why.phases));
    Some(Plot {
        name: "phases",
        title: "Phases of the run above the load of others",
        caption: "Phases are shaded in the colour of their verdict. Where others moved nearly what the storage carries, little is left to the program."
            .to_owned(),
        x,
        y: Axis::bandwidth("bandwidth", top_bps),
        bands,
        series,
        marks: Vec::new(),
        dots: Vec::new(),
        keys,
    })
}

fn own_bps(phase: &PhaseCause) -> f64 {
    phase.bytes / (phase.end_s - phase.start_s).max(1e-9)
}

fn x_span(first: &PhaseCause, last: &PhaseCause) -> [f64; 2] {
    [first.start_s, last.end_s]
}

/// Mean bandwidth of the program in each phase.
fn own_rate(phases: &[PhaseCause]) -> Series {
    let (mut at, mut values) = (Vec::new(), Vec::new());
    for phase in phases {
        at.extend([phase.start_s, phase.end_s]);
        values.extend([own_bps(phase), 0.0]);
    }
    Series {
        label: "the program".into(),
        look: Look::Beat,
        colour: 0,
        step: true,
        x: Xs::At(at),
        mid: values,
        lo: Vec::new(),
        hi: Vec::new(),
    }
}

fn level(label: &'static str, [from, to]: [f64; 2], value: f64, colour: usize) -> Series {
    Series {
        label: label.into(),
        look: Look::Beat,
        colour,
        step: false,
        x: Xs::At(vec![from, to]),
        mid: vec![value, value],
        lo: Vec::new(),
        hi: Vec::new(),
    }
}

/// A dot for each earlier run, and the run itself at the end.
fn history_plot(run: &WhyRun) -> Option<Plot> {
    let slowdown = run.why.slowdown?;
    let factors: Vec<f64> = run.earlier.iter().map(|earlier| earlier.factor).collect();
    let n = factors.len() as f64;
    let usual = run.why.usual_until.unwrap_or(1.0);
    let top = factors.iter().copied().fold(slowdown.factor.max(usual), f64::max);
    let span = [0.5, n + 1.5];
    Some(Plot {
        name: "history",
        title: "Earlier runs of the program",
        caption: format!(
            "Each dot is an earlier run, by time: its I/O time over what its requests usually take. The dot at the right is this run, at {}.",
            text::digits(slowdown.factor, 3)
        ),
        x: Axis::linear("earlier runs, then this one", span[0], span[1], 1.0, ""),
        y: Axis::linear("I/O time over the usual", 0.0, top * 1.08, 1.0, ""),
        bands: Vec::new(),
        series: vec![
            level("up to here a run is usual", span, usual, 2),
            Series {
                look: Look::Points,
                colour: 1,
                ..Series::even("earlier run", Look::Points, 1.0, 1.0, &factors)
            },
        ],
        marks: Vec::new(),
        dots: vec![[n + 1.0, slowdown.factor]],
        keys: vec![("dot".to_owned(), "this run".to_owned())],
    })
}
