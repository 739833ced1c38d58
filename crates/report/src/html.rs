//! The report as one page that needs nothing else: no network, no script to be readable, no folder beside it.
//!
//! A page is a list of runs, a run is a list of [`Section`]s: to show more, write a function that returns one and name
//! it in [`sections`]. The pictures are SVG in the page; the script only draws them again where a reader zooms.

use std::fmt::Write;

use iotide_page::html::{self, SCRIPT, Section, capitalised, escape, facts, head, own_style, table};
use iotide_page::{Plot, text};

use crate::activity::{Activity, File, LayerTime};
use crate::activity_chart::{Field, Picture, Way, binary_bytes, sizes_svg, time_bar};
use crate::document::Document;
use crate::harmonics;
use crate::insight::not_known_in_words;
use crate::{Ink, Report, Run};

/// A report with the plots of each run, in the order of its runs.
#[derive(Clone, Debug)]
pub struct RunPage {
    /// What was found.
    pub report: Report,
    /// The plots of each run.
    pub plots: Vec<Vec<Plot>>,
}

impl RunPage {
    /// Returns the page.
    pub fn html(&self) -> String {
        page(&self.report, &self.plots)
    }
}

impl Document for RunPage {
    fn to_text(&self, width: usize, ink: Ink) -> String {
        self.report.to_text(width, ink)
    }

    fn to_json(&self) -> String {
        self.report.to_json()
    }

    fn to_page(&self) -> Option<String> {
        Some(self.html())
    }

    /// `bandwidth.svg` and so on; with several runs `1-bandwidth.svg`, `2-bandwidth.svg`.
    fn pictures(&self) -> Vec<(String, String)> {
        let mut pictures = Vec::new();
        for (i, (run, plots)) in self.report.runs.iter().zip(&self.plots).enumerate() {
            let plots = plots.iter().map(|plot| Picture { name: plot.name, svg: plot.to_svg() });
            let others = run.activity.iter().flat_map(|activity| activity.pictures());
            pictures.extend(plots.chain(others).map(|Picture { name, svg }| match self.report.runs.len() {
                1 => (format!("{name}.svg"), svg),
                _ => (format!("{}-{name}.svg", i + 1), svg),
            }));
        }
        pictures
    }
}

fn page(report: &Report, pictures: &[Vec<Plot>]) -> String {
    let title = match report.runs.as_slice() {
        [run] => run.source.path.file_name().for_terminal(),
        runs => text::counted(runs.len() as u64, "run"),
    };
    let mut html = head(&format!("{title} · iotide"), &own_style(""), SCRIPT);
    let none = Vec::new();
    for (i, run) in report.runs.iter().enumerate() {
        write_run(&mut html, run, pictures.get(i).unwrap_or(&none), i);
    }
    let _ = write!(
        html,
        "<footer>Made by iotide {}. Wheel to zoom into a picture, drag to move, double-click to see all again.</footer>\n\
         <script>{SCRIPT}</script>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
    );
    html
}

/// What a run's part of the page consists of, in order.
fn sections(run: &Run, plots: &[Plot], run_idx: usize) -> Vec<Section> {
    let mut plots = plots.iter().map(|plot| picture(plot, run_idx));
    let mut sections: Vec<Section> = plots.next().into_iter().collect();
    sections.extend(insights(run));
    sections.extend(labels(run));
    sections.extend(history(run));
    sections.extend(run.activity.as_ref().and_then(ranks));
    sections.extend(plots);
    sections.extend(scores(run));
    sections.extend(demand(run));
    sections.extend(rhythms(run));
    sections.extend(candidates(run));
    sections.extend(phases(run));
    if let Some(activity) = &run.activity {
        sections.extend(time(activity));
        sections.extend(operations(activity));
        sections.extend(sizes(activity));
        sections.extend(files(activity));
    }
    sections.push(source(run));
    sections.push(settings(run));
    sections.push(losses(run));
    sections
}

fn write_run(html: &mut String, run: &Run, plots: &[Plot], run_idx: usize) {
    let _ = writeln!(
        html,
        "<main id=\"run-{run_idx}\">\n<header>\n<p class=\"path\">{}</p>\n<h1>{}</h1>\n{}</header>",
        run.source.path.for_html(),
        escape(&capitalised(&run.headline())),
        tiles(run)
    );
    for section in sections(run, plots, run_idx) {
        section.write(html, &format!("run-{run_idx}"));
    }
    html.push_str("</main>\n");
}

/// The numbers one looks for first.
fn tiles(run: &Run) -> String {
    let mut tiles: Vec<(&str, String)> = Vec::new();
    if let Some(period_s) = run.period.period_s {
        tiles.push(("period", text::seconds(period_s)));
    }
    if let Some(confidence) = run.headline_confidence() {
        let of_what = if run.is_periodic() { "confidence" } else { "confidence in that" };
        tiles.push((of_what, text::percent(confidence)));
    }
    if let Some(next_s) = run.period.next_phase_s {
        tiles.push(("next phase at", text::moment(next_s)));
    }
    if let Some((name, bytes)) = run.bytes_at_once() {
        tiles.push((name, text::bytes(bytes)));
    }
    if let Some((ratio, bps)) = run.scores.busy() {
        tiles.push(("of the time busy", text::percent(ratio)));
        tiles.extend(bps.map(|bps| ("while busy", text::bandwidth(bps))));
    }
    if run.source.bytes_written > 0.0 {
        tiles.push(("written", text::bytes(run.source.bytes_written)));
    }
    if run.source.bytes_read > 0.0 {
        tiles.push(("read", text::bytes(run.source.bytes_read)));
    }
    if !run.losses.is_empty() {
        tiles.push(("losses", text::count(run.losses.len() as u64)));
    }
    html::tiles(tiles)
}

fn picture(plot: &Plot, run_idx: usize) -> Section {
    // `<` is the one character that could end the script element from within a string.
    let data = plot.to_json().replace('<', "\\u003c");
    // Two runs have two of each picture, and ids are the page's.
    let svg =
        plot.to_inline_svg().replace(&format!("-{}\"", plot.name), &format!("-{}-{run_idx}\"", plot.name));
    let svg = svg.replace(&format!("-{})", plot.name), &format!("-{}-{run_idx})", plot.name));
    Section {
        id: plot.name,
        title: plot.title.to_owned(),
        body: format!(
            "<figure data-run=\"{run_idx}\">\n{svg}<figcaption>{}</figcaption>\n\
             <script type=\"application/json\">{data}</script>\n</figure>\n",
            escape(&plot.caption)
        ),
        narrow: false,
    }
}

/// What the run does that its storage does not like.
fn insights(run: &Run) -> Option<Section> {
    let found = run.insights.as_ref()?;
    let mut body = String::new();
    if !found.is_empty() {
        body += &table(
            ["", "what", "what to do", "numbers"],
            found.iter().map(|insight| {
                [
                    insight.severity.to_owned(),
                    match insight.place_in_words() {
                        Some(place) => format!("{} ({place})", capitalised(&insight.message.for_terminal())),
                        None => capitalised(&insight.message.for_terminal()),
                    },
                    capitalised(insight.advice),
                    insight.evidence_in_words(),
                ]
            }),
        );
    }
    let not_known = run.insights_not_known.as_deref().unwrap_or_default();
    if found.is_empty() && not_known.is_empty() {
        body.push_str("<p class=\"note\">No rule found anything.</p>\n");
    }
    if !not_known.is_empty() {
        let told = format!("Not known from this source: {}.", not_known_in_words(not_known));
        let _ = writeln!(body, "<p class=\"note\">{}</p>", escape(&told));
    }
    Some(Section { id: "insights", title: "Insights".into(), body, narrow: false })
}

/// What kind of I/O it does.
fn labels(run: &Run) -> Option<Section> {
    let evidence = run.evidence.as_ref()?;
    let body = table(["label", "confidence", "numbers"], evidence.cells());
    Some(Section { id: "labels", title: "Labels".into(), body, narrow: true })
}

/// The run beside earlier ones of its application.
fn history(run: &Run) -> Option<Section> {
    let history = run.history.as_ref()?;
    let mut body = String::new();
    for line in history.in_words().lines() {
        let _ = writeln!(body, "<p>{}</p>", escape(&capitalised(line)));
    }
    if !history.quantities.is_empty() {
        body += &table(
            ["", "this run", "usually", "times the usual"],
            history.quantities.iter().map(|quantity| quantity.cells()),
        );
    }
    Some(Section { id: "history", title: "Beside earlier runs".into(), body, narrow: false })
}

/// Ranks over time.
fn ranks(activity: &Activity) -> Option<Section> {
    let heat = activity.heat_map.as_ref()?;
    let mut body = String::new();
    for (way, moved) in [(Way::Write, "written"), (Way::Read, "read")] {
        let Some(field) = Field::new(heat, way) else { continue };
        let mut caption = format!("Bytes {moved} by each rank, in steps of {}", text::seconds(heat.bin_s));
        if heat.ranks_per_row > 1 {
            let _ = write!(caption, "; a row is {} ranks", heat.ranks_per_row);
        }
        caption.push_str(". The shades are logarithmic.");
        if heat.rows[0].first_rank < 0 {
            caption.push_str(" “all”: what the source does not tell apart by rank.");
        }
        let _ = write!(
            body,
            "<figure class=\"heat\">\n{}<figcaption>{}</figcaption>\n\
             <script type=\"application/json\">{}</script>\n</figure>\n",
            field.to_svg(""),
            escape(&caption),
            field.to_json()
        );
    }
    (!body.is_empty()).then(|| Section { id: "ranks", title: "Ranks over time".into(), body, narrow: false })
}

/// Time in reads, writes and metadata per layer.
fn time(activity: &Activity) -> Option<Section> {
    if activity.time.is_empty() {
        return None;
    }
    let told = |time_s: Option<f64>, share: Option<f64>| match (time_s, share) {
        (Some(time_s), Some(share)) => format!("{} ({})", text::seconds(time_s), text::percent(share)),
        (Some(time_s), None) => text::seconds(time_s),
        (None, _) => "–".to_owned(),
    };
    let shares = |time: &LayerTime| [time.read_share, time.write_share, time.metadata_share];
    let sum = |time: &LayerTime| shares(time).into_iter().flatten().sum::<f64>();
    // Threads may spend more than passes; then the bars are of the longest.
    let whole = activity.time.iter().map(sum).fold(1.0, f64::max);
    let mut body = table(
        ["", "reading", "writing", "metadata"],
        activity.time.iter().map(|time| {
            [
                time.layer.unwrap_or("calls").to_owned(),
                told(time.read_s, time.read_share),
                told(time.write_s, time.write_share),
                told(time.metadata_s, time.metadata_share),
            ]
        }),
    );
    for time in &activity.time {
        let _ = writeln!(
            body,
            "<div class=\"share\"><span>{}</span>{}</div>",
            escape(time.layer.unwrap_or("calls")),
            time_bar(time, whole)
        );
    }
    let mut note = format!(
        "Summed over ranks, and as a share of {} × {}.",
        text::counted(activity.n_ranks, "rank"),
        text::seconds(activity.run_time_s)
    );
    if whole > 1.0 {
        note.push_str(" More than all of it: several threads of a rank did I/O at the same time.");
    }
    let _ = writeln!(body, "<p class=\"note\">{}</p>", escape(&note));
    Some(Section { id: "time", title: "Time in I/O".into(), body, narrow: true })
}

/// How often what was done.
fn operations(activity: &Activity) -> Option<Section> {
    if activity.operations.is_empty() {
        return None;
    }
    let rows = activity.operations.iter().map(|operation| {
        let moves = operation.bytes > 0.0;
        let mean =
            operation.calls.filter(|&calls| calls > 0 && moves).map(|calls| operation.bytes / calls as f64);
        [
            [operation.layer.unwrap_or(""), operation.op].join(" ").trim().to_owned(),
            operation.calls.map_or("–".into(), text::count),
            if moves { text::bytes(operation.bytes) } else { "–".into() },
            mean.map_or("–".into(), text::bytes),
        ]
    });
    let mut body = table(["", "calls", "bytes", "per call"], rows);
    if activity.operations.iter().any(|operation| operation.calls.is_none()) {
        body.push_str("<p class=\"note\">–: the source has sums over time and does not count calls.</p>\n");
    }
    Some(Section { id: "operations", title: "Operations".into(), body, narrow: true })
}

/// How large calls were.
fn sizes(activity: &Activity) -> Option<Section> {
    let rows = &activity.access_sizes;
    if rows.is_empty() {
        return None;
    }
    let mut notes = Vec::new();
    let averaged: u64 = rows.iter().map(|row| row.reads_on_average + row.writes_on_average).sum();
    if averaged > 0 {
        notes.push(format!(
            "Of {} only sums are known: they stand at the mean size of their sum (pale).",
            text::counted(averaged, "call")
        ));
    }
    if activity.empty_calls > 0 {
        notes.push(format!("Not shown: {} that moved nothing.", text::counted(activity.empty_calls, "call")));
    }
    if activity.bytes_of_unknown_size > 0.0 {
        let bytes = text::bytes(activity.bytes_of_unknown_size);
        notes.push(format!("Not shown: {bytes} in calls that nobody counted."));
    }
    let used = rows.iter().filter(|row| row.n_reads() + row.n_writes() > 0);
    let cells = used.map(|row| {
        [
            format!("{} to {}", binary_bytes(row.from_bytes), binary_bytes(row.from_bytes * 2.0)),
            text::count(row.n_reads()),
            text::bytes(row.bytes_read),
            text::count(row.n_writes()),
            text::bytes(row.bytes_written),
        ]
    });
    let body = format!(
        "<figure class=\"still\">\n{}<figcaption>{}</figcaption>\n</figure>\n\
         <details><summary>in numbers</summary>\n{}</details>\n",
        sizes_svg(rows, ""),
        escape(&notes.join(" ")),
        table(["bytes per call", "reads", "moving", "writes", "moving"], cells)
    );
    Some(Section { id: "sizes", title: "Access sizes".into(), body, narrow: false })
}

/// The heaviest files. The script adds a search field and makes the heads sort.
fn files(activity: &Activity) -> Option<Section> {
    if activity.files.is_empty() {
        return None;
    }
    let most = |bytes: fn(&File) -> f64| activity.files.iter().map(bytes).fold(0.0, f64::max);
    let (most_read, most_written) = (most(|file| file.bytes_read), most(|file| file.bytes_written));
    let mut body = String::from(
        "<div class=\"files\">\n<table>\n<thead><tr><th>file</th><th>read</th><th>written</th><th>calls</th>\
         <th>opens</th><th>time</th><th>ranks</th></tr></thead>\n<tbody>\n",
    );
    for file in &activity.files {
        let _ = write!(body, "<tr><td>{}</td>", file.path.shortened(300).for_html());
        for (class, bytes, most) in
            [("r", file.bytes_read, most_read), ("w", file.bytes_written, most_written)]
        {
            if bytes > 0.0 {
                let share = bytes / most * 100.0;
                let told = text::bytes(bytes);
                let _ = write!(
                    body,
                    "<td class=\"{class}\" data-v=\"{bytes}\" style=\"--s:{share:.1}%\">{told}</td>"
                );
            } else {
                body.push_str("<td data-v=\"0\">–</td>");
            }
        }
        let ranks = match (file.n_ranks, file.more_ranks) {
            (None, _) => "all".to_owned(),
            (Some(n), true) => format!("≥ {}", text::count(n.into())),
            (Some(n), false) => text::count(n.into()),
        };
        let _ = writeln!(
            body,
            "<td data-v=\"{}\">{}</td><td data-v=\"{}\">{}</td><td data-v=\"{}\">{}</td><td data-v=\"{}\">{ranks}</td></tr>",
            file.calls,
            text::count(file.calls),
            file.opens,
            text::count(file.opens),
            file.time_s.unwrap_or(0.0),
            file.time_s.map_or("–".into(), text::seconds),
            file.n_ranks.map_or(u64::MAX >> 11, u64::from)
        );
    }
    body.push_str("</tbody>\n</table>\n</div>\n");
    if activity.n_more_files > 0 {
        let _ = writeln!(
            body,
            "<p class=\"note\">These are the heaviest; {} more moved {} together.</p>",
            text::counted(activity.n_more_files, "file"),
            text::bytes(activity.bytes_of_more_files)
        );
    }
    let title = format!("Files ({})", text::count(activity.files.len() as u64 + activity.n_more_files));
    Some(Section { id: "files", title, body, narrow: false })
}

fn scores(run: &Run) -> Option<Section> {
    let words = run.scores.in_words();
    (!words.is_empty()).then(|| {
        let rows = words.iter().map(|(name, sentence)| (*name, sentence.clone()));
        Section { id: "scores", title: "How regular it is".into(), body: facts(rows), narrow: true }
    })
}

fn demand(run: &Run) -> Option<Section> {
    run.demand.as_ref().map(|demand| {
        let body = facts(demand.in_words());
        Section { id: "demand", title: "Asynchronous I/O".into(), body, narrow: true }
    })
}

/// A row for each rhythm.
fn rhythms(run: &Run) -> Option<Section> {
    let rhythms = &run.period.rhythms;
    if rhythms.iter().all(|rhythm| rhythm.n_phases == 0) {
        return None;
    }
    let rows = rhythms.iter().map(|rhythm| {
        let n_pauses = rhythm.pauses.len() as u64;
        [
            text::seconds(rhythm.period_s),
            text::seconds(rhythm.mean_distance_s),
            text::percent(rhythm.spread),
            text::count(rhythm.missed as u64),
            text::count(n_pauses),
            text::count(rhythm.n_phases as u64),
            text::bytes(rhythm.bytes),
            format!("{} to {}", text::moment(rhythm.start_s), text::moment(rhythm.end_s)),
            text::percent(rhythm.confidence),
        ]
    });
    let head =
        ["beat", "mean distance", "spread", "missed", "pauses", "phases", "moved", "holds", "confidence"];
    Some(Section { id: "rhythms", title: "Rhythms".into(), body: table(head, rows), narrow: false })
}

fn candidates(run: &Run) -> Option<Section> {
    let period = &run.period;
    if period.candidates.is_empty() && period.autocorrelation.is_none() {
        return None;
    }
    let mut rows: Vec<[String; 3]> = (period.candidates.iter())
        .map(|c| {
            let fate = if c.accepted { "accepted" } else { "rejected" };
            [fate.into(), text::seconds(c.period_s), text::percent(c.confidence)]
        })
        .collect();
    rows.extend(
        (period.autocorrelation.iter()).map(|acf| {
            ["autocorrelation".into(), text::seconds(acf.period_s), text::percent(acf.confidence)]
        }),
    );
    if let (Some(confidence), Some(period_s)) = (period.refined_confidence, period.period_s) {
        rows.push(["all together".into(), text::seconds(period_s), text::percent(confidence)]);
    }
    let mut body = table(["", "period", "confidence"], rows);
    if let Some(words) = harmonics::in_words(&period.harmonics, period.bursts == Some(true)) {
        let _ = writeln!(body, "<p>Harmonics: {}.</p>", escape(&words));
    }
    Some(Section { id: "candidates", title: "What was considered".into(), body, narrow: true })
}

fn phases(run: &Run) -> Option<Section> {
    /// A page is read by a person; all phases are in the JSON form.
    const SHOWN: usize = 200;
    if run.phases.is_empty() {
        return None;
    }
    let rows = run.phases.iter().take(SHOWN).enumerate().map(|(i, phase)| {
        let length_s = phase.end_s - phase.start_s;
        let rate = if length_s > 0.0 { text::bandwidth(phase.bytes / length_s) } else { "–".into() };
        [
            (i + 1).to_string(),
            text::moment(phase.start_s),
            text::seconds(length_s),
            text::bytes(phase.bytes),
            rate,
        ]
    });
    let mut body = table(["", "begins at", "lasts", "moves", "at"], rows);
    if run.phases.len() > SHOWN {
        let _ = writeln!(body, "<p>The first {SHOWN} of {}.</p>", text::count(run.phases.len() as u64));
    }
    let body = format!(
        "<details{}><summary>{}</summary>\n{body}</details>\n",
        if run.phases.len() <= 12 { " open" } else { "" },
        text::counted(run.phases.len() as u64, "phase")
    );
    Some(Section { id: "phases", title: "Phases".into(), body, narrow: false })
}

fn source(run: &Run) -> Section {
    let source = &run.source;
    let mut rows = vec![("format", source.format.clone()), ("events", text::count(source.n_events))];
    rows.extend(source.n_ranks.map(|n| ("ranks", text::count(n))));
    rows.push(("read", text::bytes(source.bytes_read)));
    rows.push(("written", text::bytes(source.bytes_written)));
    if let (Some(start_s), Some(end_s)) = (source.start_s, source.end_s) {
        rows.push(("time", format!("{} to {}", text::moment(start_s), text::moment(end_s))));
    }
    rows.extend(source.resolution_s.map(|s| ("times rounded to", text::seconds(s))));
    let job = &source.job;
    rows.extend(job.jobid.as_ref().map(|id| ("job", id.for_terminal())));
    rows.extend(job.exe.as_ref().map(|exe| ("command", exe.for_terminal())));
    rows.extend(job.user.as_ref().map(|user| ("user", user.for_terminal())));
    rows.extend(job.nprocs.map(|n| ("processes", text::count(n))));
    rows.extend(job.run_time_s.map(|s| ("run time", text::seconds(s))));
    Section { id: "source", title: "Source".into(), body: facts(rows), narrow: true }
}

fn settings(run: &Run) -> Section {
    let settings = &run.settings;
    let mut rows = vec![("method", settings.method.to_owned()), ("direction", settings.mode.to_owned())];
    if let Some([start_s, end_s]) = settings.window_s {
        rows.push(("window", format!("{} to {}", text::moment(start_s), text::moment(end_s))));
    }
    if let Some(rate_hz) = settings.sample_rate_hz {
        let samples = settings.n_samples.map(|n| format!(", {}", text::counted(n as u64, "sample")));
        rows.push(("sampling", format!("{}{}", text::frequency(rate_hz), samples.unwrap_or_default())));
    }
    rows.push((
        "a sample is",
        match settings.sampling {
            "hold" => "the value at its instant".to_owned(),
            _ => "the mean over its bin".to_owned(),
        },
    ));
    rows.extend(
        settings.abstraction_error.filter(|&e| e > 1e-9).map(|e| ("volume misstated", text::percent(e))),
    );
    let far = settings.signal_error.filter(|&e| e > 1e-9 && settings.method == "dft");
    rows.extend(far.map(|e| ("signal misstated", format!("by {} of its volume", text::percent(e)))));
    if settings.skip_first_phase {
        rows.push(("first phase", "left out".to_owned()));
    }
    rows.extend(settings.outliers.clone().map(|outliers| ("outliers by", outliers)));
    rows.extend(settings.tolerance.map(|tolerance| ("tolerance", tolerance.to_string())));
    rows.extend(settings.harmonics.map(|which| ("harmonics", format!("{which} multiples are dropped"))));
    rows.extend(settings.substantial_bps.map(|bps| ("substantial above", text::bandwidth(bps))));
    rows.extend(settings.seed.map(|seed| ("seed", seed.to_string())));
    Section { id: "settings", title: "How it was analysed".into(), body: facts(rows), narrow: true }
}

fn losses(run: &Run) -> Section {
    let body = if run.losses.is_empty() {
        "<p>Nothing is known to be missing from this trace.</p>\n".to_owned()
    } else {
        let items: String =
            run.losses.iter().map(|loss| format!("<li>{}</li>\n", escape(&loss.in_words()))).collect();
        format!("<ul class=\"losses\">\n{items}</ul>\n")
    };
    Section { id: "losses", title: "Losses".into(), body, narrow: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pictures::pictures;
    use crate::samples::{aperiodic, busy, crowded, periodic, silent};

    fn page_of(runs: Vec<(Run, Vec<Plot>)>) -> String {
        let (runs, plots): (Vec<Run>, Vec<Vec<Plot>>) = runs.into_iter().unzip();
        page(&Report { runs, ..Report::new("report") }, &plots)
    }

    #[test]
    fn a_page_has_everything_in_it_and_asks_for_nothing() {
        let (analysis, run) = periodic();
        let html = page_of(vec![(run, pictures(&analysis))]);
        for id in [
            "bandwidth",
            "beat",
            "period",
            "spectrum",
            "autocorrelation",
            "scores",
            "rhythms",
            "candidates",
            "phases",
            "source",
            "settings",
            "losses",
        ] {
            assert!(html.contains(&format!("<section id=\"run-0-{id}\"")), "no section {id}");
        }
        // The name of the SVG language is no address, and the only thing that looks like one.
        let others = html.replace("http://www.w3.org/2000/svg", "");
        for outside in ["http:", "https:", "src=", "@import", "href=", "fetch("] {
            assert!(!others.contains(outside), "{outside}");
        }
        assert_eq!(html.matches("<svg").count(), 5);
    }

    #[test]
    fn nothing_a_trace_says_becomes_markup() {
        let (analysis, mut run) = periodic();
        let nasty = "</script><script>alert(1)</script>\"'&<img src=x onerror=alert(2)>\x1b[31m.csv";
        run.source.path = format!("/tmp/{nasty}").into();
        run.source.job.exe = Some(nasty.into());
        run.source.job.user = Some(nasty.into());
        run.source.format = nasty.to_owned();
        run.losses[0].what = nasty.into();
        let mut plots = pictures(&analysis);
        plots[0].caption = nasty.to_owned();
        let html = page_of(vec![(run, plots)]);
        assert!(
            !html.contains("<script>alert") && !html.contains("<img") && !html.contains('\x1b'),
            "{html}"
        );
        assert!(html.contains("&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;&lt;img"));
        assert_eq!(html.matches("</script>").count(), 5 + 1, "each script ends once");
        iotide_page::policy::assert_keeps_its_policy(&html);
    }

    #[test]
    fn several_runs_share_a_page_without_sharing_an_id() {
        let (analysis, run) = periodic();
        let html = page_of(vec![
            (run.clone(), pictures(&analysis)),
            (run, pictures(&analysis)),
            (aperiodic().1, pictures(&aperiodic().0)),
            (silent(), Vec::new()),
        ]);
        let mut ids: Vec<&str> =
            html.split(" id=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
        let n_ids = ids.len();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), n_ids);
        for used in html.split("url(#").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            assert!(ids.contains(&used) || used.contains('$'), "{used} is not there");
        }
        assert!(html.contains("Nothing to analyse: no bytes were read or written"));
    }

    fn section(html: &str, id: &str) -> String {
        let from =
            html.find(&format!("<section id=\"run-0-{id}\"")).unwrap_or_else(|| panic!("no section {id}"));
        let until = from + html[from..].find("</section>").expect("a section ends");
        html[from..until].to_owned()
    }

    /// What a reader sees of a section: a line per row, without pictures.
    fn read_out(html: &str) -> String {
        let mut text = String::new();
        let mut rest = html.replace("</td>", " | ").replace("</th>", " | ");
        while let Some(from) = rest.find("<svg") {
            let until = rest.find("</svg>").unwrap() + "</svg>".len();
            rest.replace_range(from..until, "");
        }
        for (i, part) in rest.split('<').enumerate() {
            text.push_str(if i == 0 { part } else { part.split_once('>').unwrap().1 });
        }
        text.lines()
            .map(|line| line.trim_end_matches(" | ").trim())
            .filter(|line| !line.is_empty())
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn what_was_done_is_told_in_tables() {
        let html = page_of(vec![(busy(), Vec::new())]);
        let told =
            ["time", "operations", "sizes", "files"].map(|id| read_out(&section(&html, id))).join("\n\n");
        insta::assert_snapshot!(told, @r#"
        Time in I/O
        | reading | writing | metadata
        POSIX | – | 16 s (20 %) | 1 s (1 %)
        STDIO | 2 s (2 %) | – | –
        POSIX
        STDIO
        Summed over ranks, and as a share of 8 ranks × 10 s.

        Operations
        | calls | bytes | per call
        read | 10 | 41 kB | 4.1 kB
        POSIX write | 64 | 67.1 MB | 1.05 MB
        POSIX open | 4 | – | –
        POSIX close | 4 | – | –
        STDIO read | 4 | 400 B | 100 B

        Access sizes
        Of 10 calls only sums are known: they stand at the mean size of their sum (pale).
        in numbers
        bytes per call | reads | moving | writes | moving
        64 B to 128 B | 4 | 400 B | 0 | 0 B
        4 KiB to 8 KiB | 10 | 41 kB | 0 | 0 B
        1 MiB to 2 MiB | 0 | 0 B | 64 | 67.1 MB

        Files (5)
        file | read | written | calls | opens | time | ranks
        /scratch/out.0 | – | 16.8 MB | 18 | 1 | 4.25 s | 1
        /scratch/out.1 | – | 16.8 MB | 18 | 1 | 4.25 s | 1
        /scratch/out.2 | – | 16.8 MB | 18 | 1 | 4.25 s | 1
        /scratch/out.3 | – | 16.8 MB | 18 | 1 | 4.25 s | 1
        /scratch/input.nc | 41.4 kB | – | 14 | 0 | 2 s | all
        "#);
    }

    #[test]
    fn ranks_have_a_map_of_reads_and_one_of_writes() {
        let ranks = section(&page_of(vec![(busy(), Vec::new())]), "ranks");
        assert_eq!(ranks.matches("<figure class=\"heat\">").count(), 2);
        let shades: Vec<&str> = ranks
            .lines()
            .filter_map(|line| line.strip_prefix("<path class=\"w")?.strip_suffix("\"/>"))
            .collect();
        insta::assert_snapshot!(shades.join("\n"), @r#"
        0" d="M120 1h1
        5" d="M0 1h1M15 2h1
        6" d="M30 3h1M45 4h1
        7" d="M1 1h119M16 2h119M31 3h119M46 4h119
        "#);
    }

    #[test]
    fn a_file_is_a_name_and_never_markup() {
        let mut run = busy();
        let nasty = "</td></table><script>alert(1)</script><img src=x onerror=alert(2)>\"' onmouseover='x\x1b[31m\u{202e}";
        let activity = run.activity.as_mut().unwrap();
        activity.files[0].path = nasty.into();
        activity.files[1].path = "é".repeat(5000).into();
        let html = page_of(vec![(run, Vec::new())]);
        assert!(!html.contains("<script>alert") && !html.contains("<img") && !html.contains('\x1b'));
        assert_eq!(html.matches("</script>").count(), 2 + 1, "two heat maps and the page's own");
        assert!(html.contains("&lt;/td&gt;&lt;/table&gt;&lt;script&gt;"));
        assert!(html.matches('é').count() == 300, "a name as long as a page is shortened");
    }

    #[test]
    fn a_page_stays_small_however_large_the_run() {
        let run = crowded(1_000_000, 5000, 200_000);
        let activity = run.activity.as_ref().unwrap();
        let heat = activity.heat_map.as_ref().unwrap();
        assert!(
            heat.rows.len() <= 256 && heat.n_bins <= 400,
            "{} rows, {} bins",
            heat.rows.len(),
            heat.n_bins
        );
        assert_eq!((activity.files.len(), activity.n_more_files), (500, 199_500));
        let html = page_of(vec![(run, Vec::new())]);
        assert!(html.len() < 3_000_000, "{} bytes", html.len());
        assert!(html.contains("199\u{202f}500 files more moved"));
    }
}
