//! The page of past runs, by application, and of two of them side by side.

use std::collections::BTreeMap;
use std::fmt::Write;

use iotide_look::html::escape;
use iotide_look::{Untrusted, text};

use super::{
    Frame, Page, app_link, called, cell, job_link, other_name, path_part, share_bar, sortable, time,
};
use iotide_report::WatchedJob as JobEntry;

/// A run, or runs of an application, of which a profile is compared.
#[derive(Clone, Debug)]
pub struct ComparedRun {
    /// Key in the query: a job, or `app:` and an application.
    pub key: Untrusted,
    /// How many runs it is the mean of.
    pub n_runs: usize,
    /// Name for people.
    pub name: Untrusted,
    /// How many processes it had, on average.
    pub size: f64,
    /// Measured values by call path and metric.
    pub profile: Profile,
}

/// Values by call path and metric.
pub type Profile = BTreeMap<(String, String), f64>;

/// Content of the page.
#[derive(Debug)]
pub struct ProfilesPage<'a> {
    /// Runs that have ended, the latest first.
    pub runs: &'a [JobEntry],
    /// Runs that are chosen to be compared, as they were asked for.
    pub chosen: [&'a Untrusted; 2],
    /// Both, if they are known.
    pub compared: Option<&'a [ComparedRun; 2]>,
    /// Why they are not compared.
    pub fault: Option<&'a Untrusted>,
}

/// Runs of an application that are listed.
const MOST_RUNS: usize = 50;

/// The page.
pub fn profiles_page(frame: &Frame<'_>, of: &ProfilesPage<'_>) -> String {
    let mut page = Page::new("Profiles", "Profiles of past runs");
    page.lead("What each run counted to its end. Choose A and B, runs or whole applications, to see them side by side.");
    if let Some(fault) = of.fault {
        page.section(
            "fault",
            "Not compared",
            &format!("<p class=\"note\">{}</p>\n", fault.shortened(400).for_html()),
        );
    }
    if let Some(compared) = of.compared {
        page.section("compared", "Side by side", &side_by_side(compared));
    }
    let mut groups: Vec<(&Untrusted, Vec<&JobEntry>)> = Vec::new();
    for run in of.runs {
        match groups.iter_mut().find(|(app, _)| *app == &run.app) {
            Some((_, runs)) => runs.push(run),
            None => groups.push((&run.app, vec![run])),
        }
    }
    let mut body = String::from("<form method=\"get\" action=\"/profiles\" class=\"profiles\">\n");
    for (app, runs) in &groups {
        write_group(&mut body, app, runs, of.chosen);
    }
    if groups.is_empty() {
        body += "<p class=\"note\">No run has ended yet.</p>\n";
    } else {
        body += "<p class=\"sticky\"><button>Compare A and B</button></p>\n";
    }
    page.section("runs", "Applications", &(body + "</form>\n"));
    page.finish(frame)
}

fn write_group(html: &mut String, app: &Untrusted, runs: &[&JobEntry], chosen: [&Untrusted; 2]) {
    let is_open = runs.iter().any(|run| chosen.contains(&&run.job)) || runs.len() <= 5;
    let whole = Untrusted::from(format!("app:{}", app.as_said()));
    let _ = writeln!(
        html,
        "<details{}><summary>{} <span>{} · <code>{}</code></span></summary>\n<p>{} All its runs: {}</p>",
        if is_open { " open" } else { "" },
        called(app, &runs[0].name).shortened(60).for_html(),
        escape(&text::counted(runs.len() as u64, "run")),
        other_name(app, &runs[0].name).shortened(24).for_html(),
        app_link(app, &"models".into()),
        choices(&whole, chosen),
    );
    let rows: Vec<String> = runs
        .iter()
        .take(MOST_RUNS)
        .map(|run| {
            let run_time = run.end_unix_s.map(|end| end - run.start_unix_s);
            format!(
                "<td>{}</td>{}{}{}{}<td class=\"word\"><a href=\"/profiles/get?jobid={}\">JSON</a></td><td class=\"word\">{}</td>",
                job_link(&run.job),
                cell(run.start_unix_s, &time(run.start_unix_s)),
                cell(run.size.into(), &text::count(run.size.into())),
                cell(run_time.unwrap_or(-1.0), &run_time.map_or("–".to_owned(), text::seconds)),
                cell(run.write_bps.unwrap_or(0.0), &run.write_bps.map_or("–".to_owned(), text::bandwidth)),
                path_part(run.job.as_said()),
                choices(&run.job, chosen),
            )
        })
        .collect();
    *html +=
        &sortable("runs", &["job", "started", "procs", "run time", "written", "profile", "compare"], &rows);
    *html += "</details>\n";
}

fn choices(key: &Untrusted, chosen: [&Untrusted; 2]) -> String {
    let choice = |name: &str, shown: &str, is_chosen: bool| {
        let checked = if is_chosen { " checked" } else { "" };
        format!(
            "<label><input type=\"radio\" name=\"{name}\" value=\"{}\"{checked}> {shown}</label> ",
            key.for_html()
        )
    };
    choice("a", "A", chosen[0] == key) + &choice("b", "B", chosen[1] == key)
}

fn shown(metric: &str, value: Option<f64>) -> String {
    match (metric, value) {
        (_, None) => "–".to_owned(),
        ("time" | "period", Some(value)) => text::seconds(value),
        ("size" | "bytes_per_period", Some(value)) => text::bytes(value),
        (_, Some(value)) => text::digits(value, 5),
    }
}

fn side_by_side(compared: &[ComparedRun; 2]) -> String {
    let [a, b] = compared;
    let about = |letter: &str, run: &ComparedRun| {
        let runs = if run.n_runs > 1 {
            format!(", the mean of {}", text::counted(run.n_runs as u64, "run"))
        } else {
            String::new()
        };
        format!(
            "<dt>{letter}</dt><dd>{} <span class=\"note\">{} · {} processes{}</span></dd>",
            run.name.shortened(60).for_html(),
            run.key.shortened(60).for_html(),
            text::digits(run.size, 4),
            escape(&runs)
        )
    };
    let mut html = format!("<dl class=\"facts\">{}{}</dl>\n", about("A", a), about("B", b));
    let mut names: Vec<&(String, String)> = a.profile.keys().chain(b.profile.keys()).collect();
    names.sort();
    names.dedup();
    let mut rows = Vec::new();
    for name in names {
        let (of_a, of_b) = (a.profile.get(name).copied(), b.profile.get(name).copied());
        let (value_a, value_b) = (of_a.unwrap_or(0.0), of_b.unwrap_or(0.0));
        if value_a == 0.0 && value_b == 0.0 {
            continue;
        }
        let ratio = (value_a > 0.0 && value_b > 0.0).then(|| value_b / value_a);
        let most = value_a.abs().max(value_b.abs());
        let change = match ratio {
            Some(ratio) => format!("× {}", text::digits(ratio, 3)),
            None if value_a == 0.0 => "only B".to_owned(),
            None => "only A".to_owned(),
        };
        // What differs most by its factor stands first when sorted; what is in one only, before all.
        let size = ratio.map_or(f64::MAX, |ratio| ratio.ln().abs());
        rows.push((
            size,
            format!(
                "<td>{}</td><td class=\"word\">{}</td>{}{}<td class=\"bars\">{}{}</td>{}",
                Untrusted::from(&name.0).shortened(60).for_html(),
                Untrusted::from(&name.1).shortened(24).for_html(),
                cell(value_a, &shown(&name.1, of_a)),
                cell(value_b, &shown(&name.1, of_b)),
                share_bar(&[("write", value_a / most)]),
                share_bar(&[("read", value_b / most)]),
                cell(size, &change),
            ),
        ));
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    let rows: Vec<String> = rows.into_iter().map(|(_, row)| row).collect();
    html += &sortable("measured values", &["call path", "metric", "A", "B", "A and B", "B to A"], &rows);
    html
}
