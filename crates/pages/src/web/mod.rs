//! The pages that a daemon shows: made here, of what it answers to everyone, and readable without the script.
//!
//! A page is a [`Frame`] (who looks, and where) around sections. What changes stands in sections with `data-live`: the script asks for the page
//! again and puts those that have changed in the place of the old ones. Nothing in a page comes from anywhere else.

use std::fmt::Write;

use iotide_look::html::{CHARTS, escape, own_style, root};
use iotide_look::policy::fingerprint;
use iotide_look::{Untrusted, text};

use iotide_report::called;

pub use self::alarms::alarms_page;
pub use self::api::{ApiExample, Endpoint, Kind, Who, api_page, endpoint_list, example_of, openapi_json};
pub use self::decisions::decisions_page;
pub use self::job::{JobPage, NodeShare, job_page};
pub use self::jobs::{JobsPage, jobs_page};
pub use self::load::{JobLoad, LoadPage, load_page};
pub use self::models::{Application, ModelPage, ModelsPage, STEPS_A_DOUBLING, model_page, models_page};
pub use self::nodes::nodes_page;
pub use self::profiles::{ComparedRun, Profile, ProfilesPage, profiles_page};
pub use self::search::{SearchPage, search_page};
pub use self::traces::{TracePage, traces_page};

mod alarms;
mod api;
mod decisions;
mod job;
mod jobs;
mod load;
mod models;
mod nodes;
mod profiles;
mod search;
mod traces;

/// Script that makes pages live: charts that zoom, tables that sort, sections that change.
const SCRIPT: &str = include_str!("web.js");
/// Script that runs first: it keeps the sections as the daemon sent them, before charts and tables are made live.
const FIRST: &str = "const firstSaid = new Map([...document.querySelectorAll(\"main > [id][data-live]\")].map((part) => [part.id, part.outerHTML]));\n";
const STYLE: &str = include_str!("web.css");
/// The sign of the pages: a wave.
pub const ICON: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 32 32\"><rect width=\"32\" height=\"32\" rx=\"7\" fill=\"#1f5c85\"/>\
    <path d=\"M4 20c4 0 4-9 8-9s4 9 8 9 4-9 8-9\" fill=\"none\" stroke=\"#fff\" stroke-width=\"3\" stroke-linecap=\"round\"/></svg>\n";

/// A file that pages need.
#[derive(Clone, Debug)]
pub struct Asset {
    /// Where it is; the name changes with what is in it, so that browsers may keep it.
    pub path: String,
    /// Content of the file.
    pub text: String,
}

/// The script and the style of all pages, in this order.
pub fn assets() -> &'static [Asset; 2] {
    static ASSETS: std::sync::OnceLock<[Asset; 2]> = std::sync::OnceLock::new();
    ASSETS.get_or_init(|| {
        let named = |text: String, ending: &str| Asset {
            path: format!("/page/{}.{ending}", fingerprint(&text)),
            text,
        };
        // Comments and indentation stay at home.
        let lines = |script: &str| -> String {
            let kept = script
                .lines()
                .map(str::trim_start)
                .filter(|line| !line.is_empty() && !line.starts_with("//"));
            kept.flat_map(|line| [line, "\n"]).collect()
        };
        [
            named(
                lines(CHARTS).replacen("\"use strict\";\n", &format!("\"use strict\";\n{FIRST}"), 1)
                    + &lines(SCRIPT),
                "js",
            ),
            named(own_style(STYLE), "css"),
        ]
    })
}

/// Policy of pages, as a header: scripts, styles, images and requests of this daemon, and nothing else.
pub const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; \
                          base-uri 'none'; frame-ancestors 'none'";

/// Who looks at a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sees all.
    Operator,
    /// Sees their own jobs.
    User,
    /// Sees models.
    Controller,
    /// Nobody knows who.
    Nobody,
}

/// Data for the frame around a page.
#[derive(Clone, Debug)]
pub struct Frame<'a> {
    /// Who looks.
    pub role: Role,
    /// Name of the user.
    pub who: &'a Untrusted,
    /// The machine of the daemon.
    pub node: &'a Untrusted,
    /// Which of the pages it is: a path in the navigation.
    pub at: &'static str,
    /// Whether they can log out: not if they are known by something else than a cookie.
    pub has_session: bool,
    /// The time.
    pub now_unix_s: f64,
}

/// The pages in the navigation, and who sees them.
const PAGES: [(&str, &str, bool); 10] = [
    ("/jobs", "Jobs", false),
    ("/load", "Load", false),
    ("/nodes", "Nodes", false),
    ("/models", "Models", true),
    ("/traces", "Traces", false),
    ("/profiles", "Profiles", false),
    ("/alarms", "Alarms", false),
    ("/decisions", "Decisions", false),
    ("/search", "Search", false),
    ("/api", "API", true),
];

impl Frame<'_> {
    fn head(&self, title: &str) -> String {
        let [script, style] = assets();
        let mut html = format!(
            "<!DOCTYPE html>\n{}<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"generator\" content=\"iotide {}\">\n\
             <title>{} · iotide</title>\n<link rel=\"icon\" href=\"/icon.svg\">\n<link rel=\"stylesheet\" href=\"{}\">\n\
             <script src=\"{}\" defer></script>\n</head>\n<body data-now=\"{:.3}\">\n<a class=\"skip\" href=\"#main\">Skip to the content</a>\n\
             <div class=\"top\" role=\"banner\"><a class=\"brand\" href=\"/\"><img src=\"/icon.svg\" alt=\"\" width=\"24\" height=\"24\"> iotide</a>\n",
            root(),
            env!("CARGO_PKG_VERSION"),
            escape(title),
            style.path,
            script.path,
            self.now_unix_s
        );
        if self.role != Role::Nobody {
            html += "<nav aria-label=\"pages\"><ul>";
            for (path, name, is_for_controllers) in PAGES {
                let is_for_operators = path == "/decisions";
                if self.role == Role::Controller && !is_for_controllers
                    || self.role != Role::Operator && is_for_operators
                {
                    continue;
                }
                let current = if path == self.at { " aria-current=\"page\"" } else { "" };
                let _ = write!(html, "<li><a href=\"{path}\"{current}>{name}</a></li>");
            }
            html += "</ul></nav>\n";
            let (who, sees) = match self.role {
                Role::Operator => ("Operator".into(), "all jobs"),
                Role::User => (self.who.shortened(32), "own jobs"),
                _ => ("Controller".into(), "models"),
            };
            let _ = writeln!(
                html,
                "<p class=\"who\"><span class=\"signal\" id=\"signal\" role=\"status\"></span> {} <span>{sees} · on {}</span></p>",
                who.for_html(),
                self.node.shortened(40).for_html()
            );
            if self.has_session {
                html += "<form method=\"post\" action=\"/logout\" class=\"out\"><button>Log out</button></form>\n";
            }
        }
        html + "</div>\n"
    }
}

/// A page while it is made. What is pushed is HTML.
#[derive(Debug)]
struct Page {
    title: String,
    html: String,
}

impl Page {
    /// A page with a heading, as text.
    fn new(title: &str, heading: &str) -> Self {
        let html = format!("<main id=\"main\">\n<header>\n<h1>{}</h1>\n", escape(heading));
        Self { title: title.to_owned(), html: html + "</header>\n" }
    }

    /// A page whose head is HTML.
    fn with_head(title: String, head: &str) -> Self {
        Self { title, html: format!("<main id=\"main\">\n<header data-live id=\"head\">\n{head}</header>\n") }
    }

    /// A sentence below the heading, as HTML.
    fn lead(&mut self, html: &str) {
        let _ = writeln!(self.html, "<p class=\"lead\">{html}</p>");
    }

    /// A section that stays as it is.
    fn section(&mut self, id: &str, title: &str, body: &str) {
        let _ = writeln!(self.html, "<section id=\"{id}\">\n<h2>{}</h2>\n{body}</section>", escape(title));
    }

    /// A section that changes while one looks at it.
    fn live(&mut self, id: &str, title: &str, body: &str) {
        let _ = writeln!(
            self.html,
            "<section id=\"{id}\" data-live>\n<h2>{}</h2>\n{body}</section>",
            escape(title)
        );
    }

    /// The same beside its neighbour, where there is room.
    fn narrow(&mut self, id: &str, title: &str, body: &str) {
        let _ = writeln!(
            self.html,
            "<section id=\"{id}\" class=\"narrow\" data-live>\n<h2>{}</h2>\n{body}</section>",
            escape(title)
        );
    }

    fn push(&mut self, html: &str) {
        self.html += html;
    }

    fn finish(self, frame: &Frame<'_>) -> String {
        format!(
            "{}{}</main>\n<footer>iotide {} · {} · this page asks {} and nobody else</footer>\n</body>\n</html>\n",
            frame.head(&self.title),
            self.html,
            env!("CARGO_PKG_VERSION"),
            time(frame.now_unix_s),
            frame.node.shortened(40).for_html(),
        )
    }
}

/// A page that says in a sentence why there is nothing else; `more` is HTML.
pub fn plain_page(frame: &Frame<'_>, heading: &str, sentence: &Untrusted, more: &str) -> String {
    let mut page = Page::new(heading, heading);
    page.lead(&sentence.shortened(1000).for_html());
    page.push(more);
    page.finish(frame)
}

/// The page of whom nobody knows: how to log in, and what everyone may know.
pub fn login_page(frame: &Frame<'_>, n_running: usize, read_bps: f64, write_bps: f64) -> String {
    let mut page = Page::new("Log in", "Who are you?");
    page.lead(&format!(
        "This is the daemon of {}. On this machine, run <code>iotide web</code>: it prints a link that logs you in here, once, within a minute.",
        frame.node.shortened(40).for_html()
    ));
    page.section(
        "sums",
        "What everyone may know",
        &iotide_look::html::tiles([
            ("jobs running", text::count(n_running as u64)),
            ("read now", text::bandwidth(read_bps)),
            ("written now", text::bandwidth(write_bps)),
        ]),
    );
    page.finish(frame)
}

/// The page after a login: it leads on by itself. (A cookie that is `SameSite=Strict` is not sent with a redirect from another site.)
pub fn welcome_page(frame: &Frame<'_>) -> String {
    let page =
        plain_page(frame, "Logged in", &"You are logged in.".into(), "<p><a href=\"/\">Go on</a></p>\n");
    page.replacen(
        "<link rel=\"icon\"",
        "<meta http-equiv=\"refresh\" content=\"0;url=/\">\n<link rel=\"icon\"",
        1,
    )
}

/// A moment, which the script says in the reader's zone.
fn time(unix_s: f64) -> String {
    let date = text::date(unix_s);
    let iso = date.trim_end_matches(" UTC").replace(' ', "T");
    format!("<time datetime=\"{iso}Z\">{date}</time>")
}

/// Text as a link.
fn link(href: &str, shown: &str) -> String {
    format!("<a href=\"{}\">{}</a>", escape(href), escape(shown))
}

/// A job as a link to its page.
fn job_link(job: &Untrusted) -> String {
    format!("<a href=\"/jobs/{}\">{}</a>", path_part(job.as_said()), job.shortened(40).for_html())
}

/// An application as a link to its models, by the name that people call it.
fn called_link(app: &Untrusted, program: &Untrusted) -> String {
    app_link(app, called(app, program))
}

/// The same by any name.
fn app_link(app: &Untrusted, shown: &Untrusted) -> String {
    format!("<a href=\"/models?app={}\">{}</a>", path_part(app.as_said()), name_of(shown))
}

/// Returns the other name of an application: its program where its user named it, else the id that the daemon made.
fn other_name<'a>(app: &'a Untrusted, program: &'a Untrusted) -> &'a Untrusted {
    if called(app, program) == app { program } else { app }
}

/// A name as people call it; a dash if there is none.
fn name_of(name: &Untrusted) -> String {
    if name.is_empty() { "–".to_owned() } else { name.shortened(48).for_html() }
}

/// Text as a part of a path or of a query.
fn path_part(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => out.push(char::from(byte)),
            other => {
                let _ = write!(out, "%{other:02X}");
            }
        }
    }
    out
}

/// A cell that is sorted by a number; HTML is shown.
fn cell(value: f64, html: &str) -> String {
    format!("<td data-v=\"{value:e}\">{html}</td>")
}

/// How far apart the phases of a job are, and when the next begins.
fn phase_cells(period_s: Option<f64>, next_phase_unix_s: Option<f64>, now_unix_s: f64) -> String {
    let until_next =
        |next: f64| format!("<span data-until=\"{next:.1}\">{}</span>", until(now_unix_s, Some(next)));
    let or_dash = |shown: Option<String>| shown.unwrap_or_else(|| "–".to_owned());
    cell(period_s.unwrap_or(f64::MAX), &or_dash(period_s.map(text::seconds)))
        + &cell(next_phase_unix_s.unwrap_or(f64::MAX), &or_dash(next_phase_unix_s.map(until_next)))
}

/// A table that can be sorted and searched. Heads and rows are HTML; `what` is searched.
fn sortable(what: &str, heads: &[&str], rows: &[String]) -> String {
    let mut html = format!(
        "<div class=\"files list\" data-what=\"{}\" tabindex=\"0\"><table>\n<thead><tr>",
        escape(what)
    );
    // A head stands over its cells: numbers to the right.
    let first: Vec<&str> = rows.first().map_or_else(Vec::new, |row| row.split("<td").skip(1).collect());
    for (i, head) in heads.iter().enumerate() {
        let is_number = first.get(i).is_some_and(|cell| i > 0 && !cell.starts_with(" class="));
        let class = if is_number { " class=\"number\"" } else { "" };
        let _ = write!(html, "<th scope=\"col\"{class}>{head}</th>");
    }
    html += "</tr></thead>\n<tbody>\n";
    for row in rows {
        html += "<tr>";
        // Where a screen is narrow, each cell says what it is.
        for (i, part) in row.split("<td").enumerate().skip(1) {
            let _ = match heads.get(i - 1).filter(|_| i > 1) {
                Some(head) => write!(html, "<td data-label=\"{head}\"{part}"),
                None => write!(html, "<td{part}"),
            };
        }
        html += "</tr>\n";
    }
    html + "</tbody>\n</table></div>\n"
}

/// A share as a bar that is so many per cent long; the number stands beside it.
fn share_bar(parts: &[(&str, f64)]) -> String {
    let mut html = String::from(
        "<svg class=\"plot bar\" viewBox=\"0 0 1000 12\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><rect class=\"field\" width=\"1000\" height=\"12\"/>",
    );
    let mut at = 0.0;
    for (class, share) in parts {
        let width = (share * 1000.0).clamp(0.0, 1000.0 - at);
        let _ = write!(html, "<rect class=\"{class}\" x=\"{at:.1}\" width=\"{width:.1}\" height=\"12\"/>");
        at += width;
    }
    html + "</svg>"
}

/// Rates in a line as high as a word.
fn sparkline(read_bps: &[f64], write_bps: &[f64]) -> String {
    let n = read_bps.len().max(write_bps.len());
    let at = |values: &[f64], i: usize| values.get(i).copied().unwrap_or(0.0);
    let most = (0..n).map(|i| at(read_bps, i) + at(write_bps, i)).fold(0.0, f64::max);
    if n < 2 || most <= 0.0 {
        return String::new();
    }
    let mut paths = [String::new(), String::new()];
    for i in 0..n {
        let x = i as f64 * 100.0 / n as f64;
        let width = 100.0 / n as f64;
        let [write, all] =
            [at(write_bps, i), at(read_bps, i) + at(write_bps, i)].map(|bps| 20.0 - 20.0 * bps / most);
        let _ = write!(paths[0], "M{x:.1} 20V{write:.1}h{width:.2}V20z");
        let _ = write!(paths[1], "M{x:.1} {write:.1}V{all:.1}h{width:.2}V{write:.1}z");
    }
    format!(
        "<svg class=\"plot spark\" viewBox=\"0 0 100 20\" preserveAspectRatio=\"none\" aria-hidden=\"true\"><path class=\"write\" d=\"{}\"/><path class=\"read\" d=\"{}\"/></svg>",
        paths[0], paths[1]
    )
}

/// How long until a moment; empty if it is past.
fn until(now_unix_s: f64, moment: Option<f64>) -> String {
    match moment {
        Some(moment) if moment >= now_unix_s + 0.5 => {
            format!("in {}", text::seconds((moment - now_unix_s).round()))
        }
        Some(_) => "now".to_owned(),
        None => "–".to_owned(),
    }
}

#[cfg(test)]
mod tests;
