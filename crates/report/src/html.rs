//! The report as one page that needs nothing else: no network, no script to be readable, no folder beside it.
//!
//! A page is a list of runs, a run is a list of [`Section`]s: to show more, write a function that returns one and name
//! it in [`sections`]. The pictures are SVG in the page; the script only draws them again where a reader zooms.

use std::fmt::Write;

use crate::chart::{self, Plot, escape};
use crate::text;
use crate::{Report, Run};

/// Returns the report as a page; `pictures` has the plots of each run, in the order of `report.runs`.
pub fn page(report: &Report, pictures: &[Vec<Plot>]) -> String {
    let title = match report.runs.as_slice() {
        [run] => file_name(&run.source.path).to_owned(),
        runs => text::counted(runs.len() as u64, "run"),
    };
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"generator\" content=\"iotide {}\">\n<title>{} · iotide</title>\n\
         <style>\n{}\n{}\n@media (prefers-color-scheme: dark){{{}}}\n</style>\n</head>\n<body>\n",
        env!("CARGO_PKG_VERSION"),
        escape(&title),
        include_str!("page.css"),
        chart::style(&chart::LIGHT),
        chart::style(&chart::DARK),
    );
    let none = Vec::new();
    for (i, run) in report.runs.iter().enumerate() {
        write_run(&mut html, run, pictures.get(i).unwrap_or(&none), i);
    }
    let _ = write!(
        html,
        "<footer>Made by iotide {}. Wheel to zoom into a picture, drag to move, double-click to see all again.</footer>\n\
         <script>\n{}</script>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
        include_str!("page.js")
    );
    html
}

/// A part of the page.
struct Section {
    /// The anchor, unique within a run.
    id: &'static str,
    title: String,
    /// HTML; whatever came from a trace is escaped in it.
    body: String,
    /// Whether it may stand beside its neighbour where there is room.
    narrow: bool,
}

/// What a run's part of the page consists of, in order.
fn sections(run: &Run, plots: &[Plot], run_idx: usize) -> Vec<Section> {
    let mut sections: Vec<Section> = plots.iter().map(|plot| picture(plot, run_idx)).collect();
    sections.extend(scores(run));
    sections.extend(demand(run));
    sections.extend(candidates(run));
    sections.extend(phases(run));
    sections.push(source(run));
    sections.push(settings(run));
    sections.push(losses(run));
    sections
}

fn write_run(html: &mut String, run: &Run, plots: &[Plot], run_idx: usize) {
    let _ = writeln!(
        html,
        "<main id=\"run-{run_idx}\">\n<header>\n<p class=\"path\">{}</p>\n<h1>{}</h1>\n{}</header>",
        escape(&run.source.path),
        escape(&capitalised(&run.headline())),
        tiles(run)
    );
    for Section { id, title, body, narrow } in sections(run, plots, run_idx) {
        let _ = writeln!(
            html,
            "<section id=\"run-{run_idx}-{id}\"{}>\n<h2>{}</h2>\n{body}</section>",
            if narrow { " class=\"narrow\"" } else { "" },
            escape(&title)
        );
    }
    html.push_str("</main>\n");
}

/// The numbers one looks for first.
fn tiles(run: &Run) -> String {
    let mut tiles: Vec<(&str, String)> = Vec::new();
    if let Some(period_s) = run.period.period_s {
        tiles.push(("period", text::seconds(period_s)));
    }
    if let Some(confidence) = run.period.confidence.filter(|&c| c > 0.0) {
        let of_what = if run.is_periodic() { "confidence" } else { "confidence in that" };
        tiles.push((of_what, text::percent(confidence)));
    }
    if let Some(next_s) = run.period.next_phase_s {
        tiles.push(("next phase at", text::moment(next_s)));
    }
    if let Some(bytes) = run.scores.bytes_per_period {
        tiles.push(("per period", text::bytes(bytes)));
    }
    if let Some(ratio) = run.scores.io_time_ratio {
        tiles.push(("of the time busy", text::percent(ratio)));
    }
    if let Some(bps) = run.scores.io_bandwidth_bps {
        tiles.push(("while busy", text::bandwidth(bps)));
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
    let mut html = String::from("<dl class=\"tiles\">\n");
    for (name, value) in tiles {
        let _ = writeln!(html, "<div><dt>{}</dt><dd>{}</dd></div>", escape(name), escape(&value));
    }
    html + "</dl>\n"
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

fn candidates(run: &Run) -> Option<Section> {
    let period = &run.period;
    if period.candidates.is_empty() && period.autocorrelation.is_none() {
        return None;
    }
    let mut rows: Vec<[String; 3]> = (period.candidates.iter())
        .map(|c| ["considered".into(), text::seconds(c.period_s), text::percent(c.confidence)])
        .collect();
    rows.extend(
        period
            .rhythms
            .iter()
            .map(|r| ["found".into(), text::seconds(r.period_s), text::percent(r.confidence)]),
    );
    rows.extend(
        (period.autocorrelation.iter()).map(|acf| {
            ["autocorrelation".into(), text::seconds(acf.period_s), text::percent(acf.confidence)]
        }),
    );
    if let (Some(confidence), Some(period_s)) = (period.refined_confidence, period.period_s) {
        rows.push(["all together".into(), text::seconds(period_s), text::percent(confidence)]);
    }
    let body = table(["", "period", "confidence"], rows);
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
    let job = &source.job;
    rows.extend(job.jobid.clone().map(|id| ("job", id)));
    rows.extend(job.exe.clone().map(|exe| ("command", exe)));
    rows.extend(job.user.clone().map(|user| ("user", user)));
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
    if settings.skip_first_phase {
        rows.push(("first phase", "left out".to_owned()));
    }
    rows.extend(settings.outliers.map(|outliers| ("outliers by", outliers.to_owned())));
    rows.extend(settings.tolerance.map(|tolerance| ("tolerance", tolerance.to_string())));
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

fn facts(rows: impl IntoIterator<Item = (&'static str, String)>) -> String {
    let mut html = String::from("<dl class=\"facts\">\n");
    for (name, value) in rows {
        let _ = writeln!(html, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(&value));
    }
    html + "</dl>\n"
}

fn table<const N: usize>(head: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let cells = |tag: &str, cells: &[String]| {
        cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect::<String>()
    };
    let mut html =
        format!("<table>\n<thead><tr>{}</tr></thead>\n<tbody>\n", cells("th", &head.map(str::to_owned)));
    for row in rows {
        let _ = writeln!(html, "<tr>{}</tr>", cells("td", &row));
    }
    html + "</tbody>\n</table>\n"
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path)
}

fn capitalised(words: &str) -> String {
    let mut chars = words.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::pictures;
    use crate::samples::{aperiodic, periodic, silent};

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
            "period",
            "spectrum",
            "autocorrelation",
            "scores",
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
        assert_eq!(html.matches("<svg").count(), 4);
    }

    #[test]
    fn nothing_a_trace_says_becomes_markup() {
        let (analysis, mut run) = periodic();
        let nasty = "</script><script>alert(1)</script>\"'&<img src=x onerror=alert(2)>\x1b[31m.csv";
        run.source.path = format!("/tmp/{nasty}");
        run.source.job.exe = Some(nasty.to_owned());
        run.source.job.user = Some(nasty.to_owned());
        run.source.format = nasty.to_owned();
        run.losses[0].what = nasty.to_owned();
        let mut plots = pictures(&analysis);
        plots[0].caption = nasty.to_owned();
        let html = page_of(vec![(run, plots)]);
        assert!(
            !html.contains("<script>alert") && !html.contains("<img") && !html.contains('\x1b'),
            "{html}"
        );
        assert!(html.contains("&lt;/script&gt;&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#39;&amp;&lt;img"));
        assert_eq!(html.matches("</script>").count(), 4 + 1, "each script ends once");
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
}
