//! The page of all jobs: what runs now, and what ran.

use std::fmt::Write;

use iotide_look::html::{escape, tiles};
use iotide_look::{Untrusted, text};

use super::{Frame, Page, called_link, cell, job_link, path_part, phase_cells, sortable, sparkline, time};
use iotide_report::{JobList, JobRates, JobState, WatchedJob as JobEntry};

/// Content of the page.
#[derive(Debug)]
pub struct JobsPage<'a> {
    /// The jobs that were asked for.
    pub list: &'a JobList,
    /// How fast running jobs read and wrote lately, in the order of the list; `None` where that is not known.
    pub rates: &'a [Option<JobRates>],
    /// Text that was searched for.
    pub text: &'a Untrusted,
    /// The state that was asked for; empty for all.
    pub state: &'a str,
    /// The user that was asked for.
    pub user: &'a Untrusted,
}

/// The page.
pub fn jobs_page(frame: &Frame<'_>, of: &JobsPage<'_>) -> String {
    let mut page = Page::new("Jobs", "Jobs");
    let _ = writeln!(page.html, "<section class=\"slide\">{}</section>", search_form(of));
    let running: Vec<&JobEntry> = of.list.jobs.iter().filter(|job| job.state == JobState::Running).collect();
    let sum = |rate: fn(&JobEntry) -> Option<f64>| running.iter().filter_map(|job| rate(job)).sum::<f64>();
    let soon = running.iter().filter(|job| {
        job.next_phase_unix_s.is_some_and(|next| (0.0..60.0).contains(&(next - frame.now_unix_s)))
    });
    let mut body = tiles([
        ("running", text::count(running.len() as u64)),
        ("read now", text::bandwidth(sum(|job| job.read_bps))),
        ("written now", text::bandwidth(sum(|job| job.write_bps))),
        ("phases within a minute", text::count(soon.count() as u64)),
    ]);
    let columns = SystemColumns::of(running.iter().copied());
    let rows: Vec<String> = (of.list.jobs.iter().zip(of.rates))
        .filter(|(job, _)| job.state == JobState::Running)
        .map(|(job, rates)| running_row(job, rates.as_ref(), columns, frame.now_unix_s))
        .collect();
    if rows.is_empty() {
        body += "<p class=\"note\">No job runs. <code>iotide record --live -- PROGRAM</code> runs one that is watched.</p>\n";
    } else {
        let mut heads =
            vec!["job", "application", "user", "procs", "nodes", "last minutes", "read", "written"];
        heads.extend(columns.heads());
        heads.extend(["period", "next phase", "started"]);
        body += &sortable("running jobs", &heads, &rows);
    }
    page.live("running", "Running", &body);

    let mut body = String::new();
    let ended: Vec<&JobEntry> = of.list.jobs.iter().filter(|job| job.state != JobState::Running).collect();
    body += &table_of_jobs("jobs that have ended", &ended, frame.now_unix_s);
    if let Some(next) = &of.list.next {
        let _ = writeln!(
            body,
            "<p class=\"more\"><a href=\"/jobs?cursor={}&amp;state={}&amp;user={}&amp;q={}\">Earlier jobs</a></p>",
            path_part(next),
            path_part(of.state),
            path_part(of.user.as_said()),
            path_part(of.text.as_said())
        );
    }
    page.live("ended", "Ended", &body);
    page.finish(frame)
}

fn search_form(of: &JobsPage<'_>) -> String {
    let mut html = format!(
        "<form class=\"ask\" method=\"get\" action=\"/jobs\"><label>Text <input type=\"search\" name=\"q\" value=\"{}\" size=\"26\" placeholder=\"id, program or command\"></label>\
         <label>User <input name=\"user\" value=\"{}\" size=\"10\"></label><label>State <select name=\"state\">",
        of.text.shortened(200).for_html(),
        of.user.shortened(64).for_html()
    );
    for (state, shown) in [("", "all"), ("running", "running"), ("ended", "ended"), ("partial", "partial")] {
        let selected = if state == of.state { " selected" } else { "" };
        let _ = write!(html, "<option value=\"{state}\"{selected}>{shown}</option>");
    }
    html + "</select></label><button>Show</button></form>\n"
}

/// A rate that the script keeps up to date.
pub(super) fn live_rate(job: &Untrusted, what: &str, bps: Option<f64>) -> String {
    let bps = bps.unwrap_or(0.0);
    format!(
        "<td data-v=\"{bps:e}\" data-job=\"{}\" data-rate=\"{what}\">{}</td>",
        job.for_html(),
        escape(&text::bandwidth(bps))
    )
}

/// A link to a job, and its name if it has one.
fn named_link(job: &JobEntry) -> String {
    match job.has_own_name() {
        true => format!("{} {}", job_link(&job.job), job.name.shortened(40).for_html()),
        false => job_link(&job.job),
    }
}

/// Columns with figures of the system and of the scheduler, of which only those are shown that a job of the table has.
#[derive(Clone, Copy)]
struct SystemColumns {
    cpu: bool,
    memory: bool,
    partition: bool,
}

impl SystemColumns {
    fn of<'a>(jobs: impl Iterator<Item = &'a JobEntry> + Clone) -> Self {
        Self {
            cpu: jobs.clone().any(|job| job.cpu_s.is_some()),
            memory: jobs.clone().any(|job| job.memory_bytes.is_some()),
            partition: { jobs }.any(|job| !job.partition.is_empty()),
        }
    }

    fn heads(self) -> impl Iterator<Item = &'static str> {
        let all = [(self.cpu, "processors"), (self.memory, "memory"), (self.partition, "partition")];
        all.into_iter().filter(|(is_shown, _)| *is_shown).map(|(_, head)| head)
    }

    fn cells(self, job: &JobEntry, now_unix_s: f64) -> String {
        let number = |value: Option<f64>, shown: fn(f64) -> String| {
            cell(value.unwrap_or(-1.0), &value.map_or("–".to_owned(), shown))
        };
        let mut html = String::new();
        if self.cpu {
            html += &number(job.cpu_share(now_unix_s), text::percent);
        }
        if self.memory {
            html += &number(job.memory_bytes.map(|bytes| bytes as f64), text::bytes);
        }
        if self.partition {
            let _ = write!(html, "<td class=\"word\">{}</td>", job.partition.shortened(24).for_html());
        }
        html
    }
}

fn running_row(job: &JobEntry, rates: Option<&JobRates>, columns: SystemColumns, now_unix_s: f64) -> String {
    let nodes = match job.nodes.as_slice() {
        [one] => one.shortened(24).for_html(),
        several => text::count(several.len() as u64),
    };
    let picture = rates.map_or(String::new(), |rates| sparkline(&rates.read_bps, &rates.write_bps));
    format!(
        "<td>{}</td><td class=\"word\">{}</td><td class=\"word\">{}</td>{}{}<td class=\"spark\">{picture}</td>{}{}{}{}{}",
        named_link(job),
        called_link(&job.app, job.program()),
        job.user.shortened(24).for_html(),
        cell(job.size.into(), &text::count(job.size.into())),
        cell(job.nodes.len() as f64, &nodes),
        live_rate(&job.job, "read", job.read_bps),
        live_rate(&job.job, "write", job.write_bps),
        columns.cells(job, now_unix_s),
        phase_cells(job.period_s, job.next_phase_unix_s, now_unix_s),
        cell(job.start_unix_s, &time(job.start_unix_s)),
    )
}

/// A table of jobs, most of which have ended.
pub(super) fn table_of_jobs(name: &str, jobs: &[&JobEntry], now_unix_s: f64) -> String {
    if jobs.is_empty() {
        return "<p class=\"note\">None.</p>\n".to_owned();
    }
    let columns = SystemColumns::of(jobs.iter().copied());
    let mut heads =
        vec!["job", "application", "user", "procs", "state", "started", "run time", "read", "written"];
    heads.extend(columns.heads());
    let rows: Vec<String> = jobs.iter().map(|job| job_row(job, columns, now_unix_s)).collect();
    sortable(name, &heads, &rows)
}

fn job_row(job: &JobEntry, columns: SystemColumns, now_unix_s: f64) -> String {
    let run_time = job.end_unix_s.map(|end| end - job.start_unix_s);
    let rate = |bps: Option<f64>| cell(bps.unwrap_or(-1.0), &bps.map_or("–".to_owned(), text::bandwidth));
    let state = match job.state {
        JobState::Partial => "<span class=\"badge warning\">partial</span>".to_owned(),
        state => escape(state.as_str()),
    };
    format!(
        "<td>{}</td><td class=\"word\">{}</td><td class=\"word\">{}</td>{}<td class=\"word\">{state}</td>{}{}{}{}{}",
        named_link(job),
        called_link(&job.app, job.program()),
        job.user.shortened(24).for_html(),
        cell(job.size.into(), &text::count(job.size.into())),
        cell(job.start_unix_s, &time(job.start_unix_s)),
        cell(run_time.unwrap_or(-1.0), &run_time.map_or("–".to_owned(), text::seconds)),
        rate(job.read_bps),
        rate(job.write_bps),
        columns.cells(job, now_unix_s),
    )
}
