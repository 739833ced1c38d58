//! Runs as one page that needs nothing else: no network, no script to be readable, no folder beside it.
//!
//! A page is a list of runs, a run is a list of [`Section`]s: to show more, write a function that returns one and name
//! it in [`sections`]. The pictures are SVG in the page; the script only draws them again where a reader zooms.

use std::fmt::Write;

use iotide_look::html::{SCRIPT, Section, capitalised, escape, facts, head, own_style, table};
use iotide_look::{Plot, text};

use iotide_report::words::harmonics_in_words;
use iotide_report::{Document, HeatMap, Ink, JobCard, Report, Run};

use self::heat_map::Picture;
use crate::Page;

mod activity;
mod card;
mod explained;
mod heat_map;
pub(crate) mod issues;
mod modules;
mod timeline;

/// A report with the plots of each run, in the order of its runs.
#[derive(Clone, Debug)]
pub struct RunPage {
    /// Results of the runs.
    pub report: Report,
    /// The plots of each run.
    pub plots: Vec<Vec<Plot>>,
}

impl RunPage {
    /// Returns the page.
    pub fn html(&self) -> String {
        page(&self.report, &self.plots, false)
    }

    /// Returns the page with an explanation of each part beside it.
    pub fn explained(&self) -> String {
        page(&self.report, &self.plots, true)
    }
}

impl Document for RunPage {
    fn to_text(&self, width: usize, ink: Ink) -> String {
        self.report.to_text(width, ink)
    }

    fn to_json(&self) -> String {
        self.report.to_json()
    }
}

impl Page for RunPage {
    fn to_page(&self) -> Option<String> {
        Some(self.html())
    }

    /// `bandwidth.svg` and so on; with several runs `1-bandwidth.svg`, `2-bandwidth.svg`.
    fn pictures(&self) -> Vec<(String, String)> {
        let mut pictures = Vec::new();
        for (i, (run, plots)) in self.report.runs.iter().zip(&self.plots).enumerate() {
            let plots = plots.iter().map(|plot| Picture { name: plot.name, svg: plot.to_svg() });
            let others = run.activity.iter().flat_map(heat_map::pictures);
            pictures.extend(plots.chain(others).map(|Picture { name, svg }| match self.report.runs.len() {
                1 => (format!("{name}.svg"), svg),
                _ => (format!("{}-{name}.svg", i + 1), svg),
            }));
        }
        pictures
    }
}

fn page(report: &Report, pictures: &[Vec<Plot>], is_explained: bool) -> String {
    let title = match report.runs.as_slice() {
        [run] => run.source.path.file_name().for_terminal(),
        runs => text::counted(runs.len() as u64, "run"),
    };
    let mut html = head(
        &format!("{title} · iotide"),
        &own_style(if is_explained { explained::STYLE } else { "" }),
        SCRIPT,
    );
    let none = Vec::new();
    html.push_str("<main class=\"runs\">\n");
    for (i, run) in report.runs.iter().enumerate() {
        let contents = match report.runs.len() {
            1 => "contents".to_owned(),
            _ => format!("contents of run {}", i + 1),
        };
        let mut sections = sections(run, pictures.get(i).unwrap_or(&none), i);
        for section in sections.iter_mut().filter(|_| is_explained) {
            if let Some(words) = explained::how_to_read(section.id) {
                section.body.insert_str(0, &format!("<p class=\"explained\">{}</p>\n", escape(words)));
            }
        }
        write_run(&mut html, run, &sections, i, &contents);
    }
    html.push_str("</main>\n");
    let _ = write!(
        html,
        "<footer><p>Pictures: drag over a stretch to zoom in, Ctrl + wheel to zoom, Shift + drag to move, double-click to see all again. Keys on \
         a picture: arrows move, + and − zoom, 0 or Escape shows all.</p>\n<p>Made by iotide {}.</p></footer>\n\
         <script>{SCRIPT}</script>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
    );
    html
}

/// Returns the sections of a run's part of the page, in order.
fn sections(run: &Run, plots: &[Plot], run_idx: usize) -> Vec<Section> {
    let mut sections: Vec<Section> = issues::issues(run).into_iter().collect();
    let mut plots = plots.iter().map(|plot| picture(plot, run_idx));
    sections.extend(plots.next());
    if let Some(activity) = &run.activity {
        let (patterns, timeline) = (run.patterns.as_ref(), run.timeline.as_ref());
        sections.extend(activity::sections(activity, patterns, timeline, run_idx, processes(run)));
        // Where few ranks move most, that is what one has to see first.
        let is_uneven = activity.heat_map.as_ref().is_some_and(HeatMap::is_uneven);
        let bandwidth = sections.windows(2).position(|two| two[0].id == "bandwidth" && two[1].id == "ranks");
        if let (true, Some(at)) = (is_uneven, bandwidth) {
            sections.swap(at, at + 1);
        }
    }
    let mut rhythm: Vec<Section> = rhythms(run).into_iter().chain(plots).collect();
    rhythm.extend([phases(run), scores(run), candidates(run)].into_iter().flatten());
    sections.extend(Section::of_parts("rhythm", "Period", &rhythm, &format!("run-{run_idx}")));
    sections.extend(demand(run));
    sections.extend(labels(run));
    sections.extend(history(run));
    sections.extend(slowness(run, run_idx));
    sections.extend(run.modules.as_ref().and_then(modules::section));
    sections.push(source(run));
    sections.push(settings(run));
    sections.push(losses(run));
    sections
}

/// Returns the word for the processes of a run: those of a program without MPI are no ranks.
fn processes(run: &Run) -> &'static str {
    if run.source.job.is_serial { "processes" } else { "ranks" }
}

fn write_run(html: &mut String, run: &Run, sections: &[Section], run_idx: usize, contents: &str) {
    let _ = writeln!(html, "<div class=\"run\" id=\"run-{run_idx}\">\n<header>\n{}</header>", card(run));
    let _ = write!(html, "<nav aria-label=\"{contents}\"><ol>");
    for Section { id, title, .. } in sections {
        let _ = write!(html, "<li><a href=\"#run-{run_idx}-{id}\">{}</a></li>", escape(title));
    }
    html.push_str("</ol></nav>\n");
    Section::write_all(sections, html, &format!("run-{run_idx}"));
    html.push_str("</div>\n");
}

/// Returns the card with the main facts.
fn card(run: &Run) -> String {
    let issues = run.issues.as_ref();
    match &run.card {
        Some(card) => card::to_html(card, &run.source.path, issues),
        None => card::to_html(
            &JobCard::new(run, &iotide_trace::ActivitySums::default()),
            &run.source.path,
            issues,
        ),
    }
}

fn picture(plot: &Plot, run_idx: usize) -> Section {
    let body = plot.to_figure(&run_idx.to_string());
    Section { id: plot.name, title: plot.title.to_owned(), body, narrow: false }
}

/// Returns the labels of the run, which state its kind of I/O.
fn labels(run: &Run) -> Option<Section> {
    let evidence = run.evidence.as_ref()?;
    let body = table(["label", "confidence", "numbers"], evidence.cells());
    Some(Section { id: "labels", title: "Labels".into(), body: words(&body), narrow: false })
}

/// Why the run was slow.
fn slowness(run: &Run, run_idx: usize) -> Option<Section> {
    let why = run.why.as_ref()?;
    let headline = text::whole_numbers(&why.why.headline());
    let body = format!("<p>{}</p>\n{}", escape(&headline), crate::why::body(why, &format!("why-{run_idx}")));
    Some(Section { id: "why", title: "Own I/O, others or the storage?".into(), body, narrow: false })
}

/// The run beside earlier ones of its application.
fn history(run: &Run) -> Option<Section> {
    let history = run.history.as_ref()?;
    let mut body = String::new();
    for line in history.in_words().lines() {
        let _ = writeln!(body, "<p>{}</p>", escape(&capitalised(line)));
    }
    if !history.quantities.is_empty() {
        body += &wide(&table(
            ["quantity", "this run", "usually", "times the usual"],
            history.quantities.iter().map(|quantity| quantity.cells()),
        ));
    }
    Some(Section { id: "history", title: "Beside earlier runs".into(), body, narrow: false })
}

/// A table that scrolls within itself where it is too wide for the page.
fn wide(table: &str) -> String {
    format!("<div class=\"wide\" tabindex=\"0\">\n{table}</div>\n")
}

/// The same for one whose cells are words.
fn words(table: &str) -> String {
    format!("<div class=\"wide words\" tabindex=\"0\">\n{table}</div>\n")
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
            run.source.zero().span(rhythm.start_s, rhythm.end_s),
            text::percent(rhythm.confidence),
        ]
    });
    let head =
        ["beat", "mean distance", "spread", "missed", "pauses", "phases", "moved", "holds", "confidence"];
    Some(Section { id: "rhythms", title: "Rhythms".into(), body: wide(&table(head, rows)), narrow: false })
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
    let mut body = table(["evidence", "period", "confidence"], rows);
    if let Some(words) = harmonics_in_words(&period.harmonics, period.bursts == Some(true)) {
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
            run.source.zero().moment(phase.start_s),
            text::seconds(length_s),
            text::bytes(phase.bytes),
            rate,
        ]
    });
    let mut body = wide(&table(["phase", "begins at", "lasts", "moves", "at"], rows));
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
    rows.extend(source.n_ranks.map(|n| (processes(run), text::count(n))));
    rows.push(("read", text::bytes(source.bytes_read)));
    rows.push(("written", text::bytes(source.bytes_written)));
    if let (Some(start_s), Some(end_s)) = (source.start_s, source.end_s) {
        rows.push(("time", source.zero().dated_span(start_s, end_s)));
    }
    rows.extend(source.resolution_s.map(|s| ("times rounded to", text::seconds(s))));
    Section { id: "source", title: "Source".into(), body: facts(rows), narrow: true }
}

fn settings(run: &Run) -> Section {
    let settings = &run.settings;
    let mut rows = vec![("method", settings.method.to_owned()), ("direction", settings.mode.to_owned())];
    if let Some([start_s, end_s]) = settings.window_s {
        rows.push(("window", run.source.zero().span(start_s, end_s)));
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
    use crate::samples::{aperiodic, busy, crowded, long, periodic, silent};
    use iotide_report::pictures;

    fn page_of(runs: Vec<(Run, Vec<Plot>)>) -> String {
        let (runs, plots): (Vec<Run>, Vec<Vec<Plot>>) = runs.into_iter().unzip();
        let mut report = Report::new("report");
        report.runs = runs;
        RunPage { report, plots }.html()
    }

    #[test]
    fn each_part_is_explained_where_that_is_asked_for() {
        let mut report = Report::new("demo");
        report.runs.push(busy());
        let page = RunPage { report, plots: vec![pictures(&periodic().0)] };
        let n_parts = page.html().matches("<li><a href=\"#run-0-").count();
        assert!(n_parts > 8 && !page.html().contains("explained"), "{n_parts}");
        let mut serial = page.clone();
        serial.report.runs[0].source.job.is_serial = true;
        assert!(page.html().contains("Ranks over time") && serial.html().contains("Processes over time"));
        let explained = page.explained();
        assert_eq!(explained.matches("<p class=\"explained\">").count(), n_parts, "{explained}");
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
        let others = html.replace("http://www.w3.org/2000/svg", "").replace("href=\"#run-0-", "");
        for outside in ["http:", "https:", "src=", "@import", "href=", "fetch("] {
            assert!(!others.contains(outside), "{outside}");
        }
        assert_eq!(html.matches("role=\"img\"").count(), 5);
        assert_eq!(html.matches("<details class=\"numbers\">").count(), 5, "a table behind each picture");
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
        iotide_look::policy::assert_keeps_its_policy(&html);
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

    /// Returns the visible text of a section: a line per row, without pictures.
    fn read_out(html: &str) -> String {
        let mut text = String::new();
        let mut rest = html.replace("</td>", " | ").replace("</th>", " | ").replace('\u{a0}', " ");
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
        layer | reading | writing | metadata
        POSIX | – | 16 s (20 %) | 1 s (1 %)
        STDIO | 2 s (2 %) | – | –
        Time in calls summed over ranks, and as a share of 8 ranks × 10 s. A layer above another includes it.

        Operations
        operation | calls | bytes | per call
        read | 10 | 41 kB | 4.1 kB
        POSIX write | 64 | 67.1 MB | 1.05 MB
        POSIX open | 4 | – | –
        POSIX close | 4 | – | –
        STDIO read | 4 | 400 B | 100 B

        Request sizes
        bytes per call | reads | writes
        0 – 100 B | 4 | 0
        100 B – 1 KiB | 0 | 0
        1 KiB – 10 KiB | 0 | 0
        10 KiB – 100 KiB | 0 | 0
        100 KiB – 1 MiB | 0 | 64
        Not shown: 10 calls of which only sums are known.

        Files (5)
        All in /scratch/
        file | read | written | time | calls | opens | ranks
        out.0 | – | 16.8 MB | 4.25 s | 18 | 1 | 1
        out.1 | – | 16.8 MB | 4.25 s | 18 | 1 | 1
        out.2 | – | 16.8 MB | 4.25 s | 18 | 1 | 1
        out.3 | – | 16.8 MB | 4.25 s | 18 | 1 | 1
        input.nc | 41.4 kB | – | 2 s | 14 | 0 | all
        "#);
    }

    #[test]
    fn ranks_have_a_map_of_reads_and_one_of_writes() {
        let ranks = section(&page_of(vec![(busy(), Vec::new())]), "ranks");
        assert_eq!(ranks.matches("<figure class=\"heat\"").count(), 2);
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
        assert!(html.matches('é').count() == 200, "a name as long as a page is shortened");
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
        // With all pictures that a run can have.
        assert!(run.timeline.is_some());
        let mut analysis = long();
        for (i, value) in analysis.signal.values.iter_mut().enumerate() {
            *value = 1e9 * (1.0 + (i as f64 * 0.618_034).fract());
        }
        let html = page_of(vec![(run, pictures(&analysis))]);
        assert!(html.len() < 1_000_000, "{} bytes", html.len());
        assert!(html.contains("199\u{202f}500 files more moved"));
    }
}
