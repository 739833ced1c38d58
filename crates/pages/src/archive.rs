//! An archive as one page: the tables and figures of the MOSAIC paper, each cell leading to its runs.
//!
//! The numbers are in the page as they are; the script only lists the runs behind a cell that was clicked.

use std::fmt::Write;

use iotide_look::html::{self, escape, head, own_style};
use iotide_look::{Untrusted, text};
use serde::Serialize;

use iotide_report::words::population_in_words;
use iotide_report::{ArchiveStatistics, IssueCount, IssueShare, Population, ShareCell, ShareTable, Which};

use crate::section;

mod load;

/// A run that the page can list.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ListedRun {
    /// Where its log is.
    pub path: Untrusted,
    /// Who ran it.
    pub user: Option<Untrusted>,
    /// The program.
    pub application: Option<Untrusted>,
    /// Bytes read.
    pub bytes_read: f64,
    /// Bytes written.
    pub bytes_written: f64,
    /// How long it took.
    pub run_time_s: f64,
    /// The number of processes.
    pub n_procs: Option<u64>,
    /// When it began, in seconds since the Unix epoch.
    pub start_time: Option<f64>,
    /// Its labels, as bits in the order of [`ArchiveStatistics::labels`].
    pub labels: u64,
    /// If it is the heaviest of its application, how many runs that has; else 0.
    pub n_runs: u64,
}

impl ListedRun {
    /// Bytes read and written.
    pub fn bytes_moved(&self) -> f64 {
        self.bytes_read + self.bytes_written
    }
}

/// Sets of labels, as bits: the page has a cell for the runs that bear none of a set.
pub fn rests(labels: &[&'static str]) -> Vec<u64> {
    let nobody = || Population::of(labels.len());
    let statistics = ArchiveStatistics {
        labels: labels.to_vec(),
        unique: nobody(),
        weighted: nobody(),
        all: nobody(),
        ..ArchiveStatistics::default()
    };
    let tables = statistics.tables();
    let first_rows = tables.iter().filter_map(|table| table.rows.first());
    let rests = first_rows.flat_map(|(_, cells)| cells).filter_map(|cell| match cell.which {
        Which::NoneOf(labels) => Some(labels),
        Which::Label(_) => None,
    });
    rests.collect()
}

const SCRIPT: &str = concat!("\n", include_str!("archive/page.js"), include_str!("tables.js"));

/// Returns the page of an archive; `runs` are those it can list, heaviest first.
pub fn archive_page(statistics: &ArchiveStatistics, runs: &[ListedRun]) -> String {
    let mut html = head(
        &format!("{} · iotide", statistics.headline()),
        &own_style(concat!(include_str!("tables.css"), include_str!("archive/page.css"))),
        SCRIPT,
    );
    let _ = writeln!(
        html,
        "<main>\n<header>\n<h1>{}</h1>\n{}</header>",
        escape(&statistics.headline()),
        tiles(statistics)
    );
    if let Some(found) = &statistics.issues {
        section(&mut html, "issues", "I/O issues", &issues(found));
    }
    if let Some(slow) = &statistics.slow {
        section(&mut html, "slow", "Slow runs, and why", &crate::why::slow_runs(slow));
    }
    if !statistics.timeline.is_empty() {
        section(&mut html, "timeline", "Over time", &load::timeline(statistics));
    }
    if !statistics.users.is_empty() {
        section(&mut html, "users", "Users", &load::users(statistics));
    }
    if !statistics.heaviest_applications.is_empty() {
        section(&mut html, "loads", "Applications", &load::applications(statistics));
    }
    let tables = statistics.tables();
    let (metadata, rest) = tables.split_last().expect("the metadata come last");
    let mut shares = String::new();
    for table in rest {
        shares.push_str(&share_table(table));
    }
    section(
        &mut html,
        "shares",
        "Periodicity and temporality",
        &format!(
            "{shares}<p class=\"note\">Tables II and III of the MOSAIC paper. An application is a program of a user; it has the \
         labels of its run that moves most bytes. Click a share to see its runs.</p>\n"
        ),
    );
    section(&mut html, "metadata", "Metadata", &bars(metadata));
    if !statistics.coverage.is_empty() {
        section(&mut html, "coverage", "How much the labels describe", &load::coverage(statistics));
    }
    section(&mut html, "jaccard", "Labels that come together", &heat_maps(statistics));
    section(&mut html, "conditional", "How often one label implies another", &load::conditional(statistics));
    section(&mut html, "glossary", "What the labels mean", &load::glossary(statistics));
    html.push_str(
        "<section id=\"runs\">\n<h2>Runs</h2>\n<div class=\"filters\"></div><div class=\"list\" aria-live=\"polite\"><p class=\"note\">Click a number above to see the runs \
         behind it, or filter. All runs are in <code>runs.jsonl</code> and <code>runs.parquet</code> beside this page.</p></div>\n</section>\n",
    );
    if !statistics.most_run.is_empty() {
        section(&mut html, "applications", "What runs most often", &most_run(statistics));
    }
    if !statistics.rejections.is_empty() {
        section(&mut html, "rejected", "Rejected logs", &rejections(statistics));
    }
    let _ = write!(
        html,
        "</main>\n<footer>Made by iotide {}.</footer>\n<script type=\"application/json\" id=\"data\">{}</script>\n\
         <script>{SCRIPT}</script>\n</body>\n</html>\n",
        env!("CARGO_PKG_VERSION"),
        data(statistics, runs),
    );
    html
}

fn tiles(statistics: &ArchiveStatistics) -> String {
    let share = |n: u64, of: u64| if of == 0 { 0.0 } else { n as f64 / of as f64 };
    let tiles = [
        ("logs", text::count(statistics.n_logs)),
        ("rejected", text::percent(share(statistics.n_rejected, statistics.n_logs))),
        ("runs", text::count(statistics.all.n)),
        ("applications", text::count(statistics.unique.n)),
        ("read", text::bytes(statistics.bytes_read)),
        ("written", text::bytes(statistics.bytes_written)),
    ];
    html::tiles(tiles)
}

/// A number that leads to its runs.
fn link(population: &str, cell: &ShareCell, shown: &str) -> String {
    if cell.n == 0 {
        return format!("<span class=\"none\">{shown}</span>");
    }
    let which = match cell.which {
        Which::Label(label) => format!("data-has=\"{label}\""),
        Which::NoneOf(labels) => {
            let none_of: Vec<String> =
                (0..64).filter(|label| labels >> label & 1 == 1).map(|label| label.to_string()).collect();
            format!("data-lacks=\"{}\"", none_of.join(" "))
        }
    };
    format!("<a href=\"#runs\" data-of=\"{population}\" {which} data-n=\"{}\">{shown}</a>", cell.n)
}

fn share_table(table: &ShareTable) -> String {
    let mut html = format!("<table class=\"shares\">\n<thead><tr><th>{}</th>", escape(&table.title));
    for head in &table.heads {
        let _ = write!(html, "<th>{}</th>", escape(head));
    }
    html.push_str("</tr></thead>\n<tbody>\n");
    for (population, cells) in &table.rows {
        let _ = write!(html, "<tr><td>{}</td>", population_in_words(population));
        for cell in cells {
            let _ = write!(html, "<td>{}</td>", link(population, cell, &text::percent(cell.share)));
        }
        html.push_str("</tr>\n");
    }
    html + "</tbody>\n</table>\n"
}

/// Figure 4 of the paper: a bar for each label and population.
fn bars(table: &ShareTable) -> String {
    let mut html = String::from("<div class=\"bars\">\n");
    for (column, head) in table.heads.iter().enumerate() {
        let _ = writeln!(html, "<h3>{}</h3>", escape(head));
        for (population, cells) in &table.rows {
            let cell = &cells[column];
            let _ = writeln!(
                html,
                "<span>{}</span><div class=\"track\"><i style=\"width:{:.2}%\"></i></div>{}",
                population_in_words(population),
                cell.share * 100.0,
                link(population, cell, &text::percent(cell.share))
            );
        }
    }
    html + "</div>\n<p class=\"note\">Figure 4 of the MOSAIC paper. A run may bear several of these labels.</p>\n"
}

/// Figure 5 of the paper: the Jaccard index of every two labels that occur, for each population.
fn heat_maps(statistics: &ArchiveStatistics) -> String {
    let mut html = String::from("<div class=\"tabs\">\n");
    for (i, (name, population)) in statistics.populations().into_iter().enumerate() {
        let checked = if i == 0 { " checked" } else { "" };
        let _ = writeln!(
            html,
            "<input type=\"radio\" name=\"population\" id=\"population-{name}\"{checked}>\
             <label for=\"population-{name}\">{}</label>",
            population_in_words(name)
        );
        let labels: Vec<usize> =
            (0..statistics.labels.len()).filter(|&label| population.of_label[label] > 0).collect();
        html.push_str("<div class=\"scroll\"><table class=\"heat\">\n<tbody>\n");
        for (row, &a) in labels.iter().enumerate() {
            let _ = write!(html, "<tr><th scope=\"row\">{}</th>", statistics.labels[a]);
            for &b in &labels[..=row] {
                let (n, index) = (population.both(a, b), population.jaccard(a, b));
                if n == 0 {
                    html.push_str("<td></td>");
                    continue;
                }
                let has = if a == b { a.to_string() } else { format!("{a} {b}") };
                // As the paper has it: less than one per cent is a colour without a number.
                let shown = if index >= 0.01 { format!("{:.0}", index * 100.0) } else { String::new() };
                let title = format!("{} and {}", statistics.labels[a], statistics.labels[b]);
                let _ = write!(
                    html,
                    "<td style=\"--v:{:.0}%\"{}><a href=\"#runs\" data-of=\"{name}\" data-has=\"{has}\" data-n=\"{n}\" \
                     title=\"{title}: {}\">{shown}</a></td>",
                    index * 100.0,
                    if index > 0.5 { " class=\"deep\"" } else { "" },
                    text::percent(index)
                );
            }
            html.push_str("</tr>\n");
        }
        html.push_str("<tr><td></td>");
        for &label in &labels {
            let _ = write!(html, "<th scope=\"col\"><span>{}</span></th>", statistics.labels[label]);
        }
        html.push_str("</tr>\n</tbody>\n</table></div>\n");
    }
    html + "</div>\n<p class=\"note\">Figure 5 of the MOSAIC paper: the Jaccard index in per cent, which is how many bear both \
            labels of those that bear either. On the diagonal stands each label itself.</p>\n"
}

fn most_run(statistics: &ArchiveStatistics) -> String {
    let mut html = String::from(
        "<div class=\"wide\" tabindex=\"0\"><table class=\"stack\">\n<thead><tr><th>application</th><th>user</th><th>runs</th><th>heaviest run moves</th><th class=\"words\">labels</th></tr>\
         </thead>\n<tbody>\n",
    );
    for application in &statistics.most_run {
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"labels\">{}</td></tr>",
            application.application.for_html(),
            application.user.as_ref().map_or("–".to_owned(), Untrusted::for_html),
            text::count(application.n_runs),
            text::bytes(application.bytes_moved),
            application.categories.join(", ")
        );
    }
    html + "</tbody>\n</table></div>\n"
}

fn issues(found: &[IssueCount]) -> String {
    if found.is_empty() {
        return "<p class=\"note\">No I/O issues found.</p>\n".to_owned();
    }
    let mut html = String::from(
        "<div class=\"wide\" tabindex=\"0\"><table class=\"rules stack\">\n<thead><tr><th>issue</th><th>core-hours to save</th><th>runs</th><th>of these high</th><th class=\"words\">applications</th><th class=\"words\">example</th></tr>\
         </thead>\n<tbody>\n",
    );
    for IssueCount { id, n_runs, n_high, core_hours, example, applications } in found {
        let most: Vec<String> = applications.iter().map(IssueShare::in_words).collect();
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"words\">{}</td><td class=\"path\">{}</td></tr>",
            escape(id),
            text::digits(*core_hours, 3),
            text::count(*n_runs),
            text::count(*n_high),
            escape(&most.join(", ")),
            example.for_html()
        );
    }
    html + "</tbody>\n</table></div>\n<p class=\"note\">Each run with its issues, their gain, the numbers behind them and what to do is in \
            <code>runs.jsonl</code>.</p>\n"
}

fn rejections(statistics: &ArchiveStatistics) -> String {
    let mut html = String::from(
        "<div class=\"wide\" tabindex=\"0\"><table class=\"stack\">\n<thead><tr><th>reason</th><th>logs</th><th class=\"words\">for example</th></tr></thead>\n<tbody>\n",
    );
    for why in &statistics.rejections {
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td>{}</td><td class=\"path\">{}</td></tr>",
            why.reason.for_html(),
            text::count(why.n_logs),
            why.example.for_html()
        );
    }
    html + "</tbody>\n</table></div>\n<p class=\"note\">Each log with its own reason is in <code>rejected.jsonl</code>. A number in a \
            reason is shown as #.</p>\n"
}

#[derive(Serialize)]
struct Data<'a> {
    labels: &'a [&'static str],
    /// Path, user, application, read, written, time, ranks, start, labels, runs of the application.
    runs: Vec<Row<'a>>,
}

type Row<'a> = (
    &'a Untrusted,
    Option<&'a Untrusted>,
    Option<&'a Untrusted>,
    f64,
    f64,
    f64,
    Option<u64>,
    Option<f64>,
    Vec<u8>,
    u64,
);

fn data(statistics: &ArchiveStatistics, runs: &[ListedRun]) -> String {
    let rows = runs.iter().map(|run| -> Row<'_> {
        let labels = (0..64).filter(|label| run.labels >> label & 1 == 1).collect();
        let (user, application) = (run.user.as_ref(), run.application.as_ref());
        let ListedRun { bytes_read, bytes_written, run_time_s, n_procs, start_time, n_runs, .. } = *run;
        let (read, written) = (bytes_read.round(), bytes_written.round());
        (&run.path, user, application, read, written, run_time_s, n_procs, start_time, labels, n_runs)
    });
    let data = Data { labels: &statistics.labels, runs: rows.collect() };
    // `<` is the one character that could end the script element from within a string.
    iotide_look::text::json(&data).replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_of(paths: &[&str]) -> String {
        let labels: Vec<&'static str> = iotide_analysis::Category::all().map(|label| label.name()).collect();
        let mut all = Population::of(labels.len());
        let runs: Vec<ListedRun> = paths
            .iter()
            .map(|path| {
                all.add(0b101, 1);
                ListedRun { path: (*path).into(), labels: 0b101, n_runs: 1, ..ListedRun::default() }
            })
            .collect();
        let statistics = ArchiveStatistics {
            n_logs: paths.len() as u64,
            labels,
            unique: all.clone(),
            weighted: all.clone(),
            all,
            ..ArchiveStatistics::default()
        };
        archive_page(&statistics, &runs)
    }

    #[test]
    fn a_page_needs_nothing_from_outside() {
        let html = page_of(&["a"]);
        for word in ["http://", "https://", "src=", "@import", "url("] {
            assert!(!html.replace("url(#", "").contains(word), "{word}");
        }
    }

    #[test]
    fn a_path_is_a_name_and_never_markup() {
        let html = page_of(&["</script><script>alert(1)</script>"]);
        assert!(!html.contains("<script>alert"));
        assert_eq!(html.matches("</script>").count(), 2);
        iotide_look::policy::assert_keeps_its_policy(&html);
    }

    #[test]
    fn every_number_that_is_not_zero_leads_to_its_runs() {
        let html = page_of(&["a", "b"]);
        assert!(html.contains("<a href=\"#runs\" data-of=\"unique\" data-has=\"0\" data-n=\"2\">100 %</a>"));
        assert!(html.contains("data-has=\"2 0\" data-n=\"2\""));
        assert!(html.contains("data-lacks=\"23\" data-n=\"2\""), "not periodic");
    }

    #[test]
    fn an_empty_archive_has_a_page_too() {
        assert!(page_of(&[]).contains("<h1>0 logs: 0 runs of 0 applications, 0 rejected</h1>"));
    }
}
