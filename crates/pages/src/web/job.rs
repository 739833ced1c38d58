//! The page of one job.

use std::fmt::Write;

use iotide_analysis::{busy_phases, usual_length_s};
use iotide_look::chart::{Axis, Band, BandKind, Look, Mark, Series, Xs, highest};
use iotide_look::figure::legend;
use iotide_look::html::{capitalised, escape, tiles};
use iotide_look::{Plot, Untrusted, text};

use super::{Frame, Page, app_link, called, cell, job_link, path_part, share_bar, sortable, time, until};
use crate::run::issues;
use iotide_report::{JobDocument, JobRates, JobState, Trust, WatchedJob as JobEntry, WhyRun, are_both_seen};

/// Content of the page.
#[derive(Debug)]
pub struct JobPage<'a> {
    /// The job.
    pub job: &'a JobDocument,
    /// Whether it was slow, and why, as far as its I/O was sampled.
    pub why: Option<&'a WhyRun>,
    /// How fast it read and wrote, as finely as a screen shows.
    pub rates: Option<&'a JobRates>,
    /// Confidence of its period.
    pub confidence: Option<f64>,
    /// Bytes per phase.
    pub bytes_per_phase: Option<f64>,
    /// Activity on each of its nodes.
    pub nodes: &'a [NodeShare],
    /// Where a Prometheus that keeps its metrics is.
    pub prometheus: Option<&'a str>,
}

/// Activity of a job on one node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeShare {
    /// Which.
    pub node: Untrusted,
    /// Processes that run there now.
    pub n_running: u32,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Time of its threads in I/O.
    pub io_s: f64,
    /// In MPI.
    pub mpi_s: f64,
    /// In all.
    pub threads_s: f64,
}

/// The page.
pub fn job_page(frame: &Frame<'_>, of: &JobPage<'_>) -> String {
    let job = of.job;
    let entry = &job.entry;
    let mut page =
        Page::with_head(format!("Job {}", entry.job.shortened(40).for_terminal()), &head(of, frame));
    page.live("bandwidth", "Read and written per second", &bandwidth(of, frame.now_unix_s));
    if !entry.staging.is_empty() {
        page.live("staging", "Staging", &staging(entry));
    }
    if let Some(run) = of.why {
        page.live("why", "Was it slow, and why?", &why(job, run));
    }
    if let Some(found) = job.judged() {
        let reason = format!("<p>{}.</p>\n", escape(&capitalised(&found.issues_reason)));
        page.live("issues", "I/O issues", &(reason + &issues::cards(&found)));
    }
    page.narrow("time", "Where the time goes", &shares(job));
    page.narrow("facts", "The run", &facts(job));
    page.live("operations", "Operations", &operations(job));
    if of.nodes.len() > 1 {
        page.live("nodes", "Nodes side by side", &side_by_side(of.nodes));
    }
    if !job.earlier.is_empty() {
        page.live("earlier", "Earlier runs of this application", &earlier(job));
    }
    let losses = match entry.losses.as_slice() {
        [] => "<p class=\"note\">None: everything was counted.</p>\n".to_owned(),
        losses => {
            let items: String =
                losses.iter().map(|loss| format!("<li>{}</li>", loss.shortened(400).for_html())).collect();
            format!("<ul class=\"losses\">{items}</ul>\n")
        }
    };
    page.live("losses", "Losses", &losses);
    page.finish(frame)
}

/// Returns the verdict with its evidence; of a job without an earlier run, only that there is none.
fn why(job: &JobDocument, run: &WhyRun) -> String {
    let mut html = format!("<p>{}.</p>\n", escape(&text::whole_numbers(&run.why.headline())));
    if run.why.n_history > 0 {
        html += &crate::why::body(run, "job-why");
        for loss in run.losses_in_words() {
            let _ = writeln!(html, "<p class=\"note\">Missing: {}.</p>", escape(&loss));
        }
    }
    let job = path_part(job.entry.job.as_said());
    html + &format!("<p class=\"note\"><a href=\"/api/1/jobs/{job}/why\">JSON</a></p>\n")
}

/// Returns the table of data on its way out of buffers.
fn staging(entry: &JobEntry) -> String {
    let mut rows = String::new();
    for one in &entry.staging {
        let _ = writeln!(
            rows,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td><td class=\"number\">{}</td></tr>",
            one.source.shortened(200).for_html(),
            one.destination.shortened(200).for_html(),
            one.state.shortened(20).for_html(),
            escape(&text::bytes(one.backlog_bytes as f64)),
            escape(&text::bytes(one.bytes_safe as f64)),
            one.full_at_s.map_or("–".to_owned(), |full_at_s| escape(&text::seconds(full_at_s))),
        );
    }
    format!(
        "<div class=\"scroll\"><table><thead><tr><th>From</th><th>To</th><th>State</th><th>Left</th><th>Safe</th><th>Full in</th></tr></thead>\n<tbody>{rows}</tbody></table></div>\n"
    )
}

fn head(of: &JobPage<'_>, frame: &Frame<'_>) -> String {
    let entry = &of.job.entry;
    let badge = match entry.state {
        JobState::Running => "<span class=\"badge good\">running</span>",
        JobState::Partial => "<span class=\"badge warning\">not all counts are known</span>",
        JobState::Ended => "<span class=\"badge\">ended</span>",
    };
    let mut html = format!(
        "<p class=\"path\"><a href=\"/jobs\">Jobs</a> / {}</p>\n<h1>{} {badge}</h1>\n<dl class=\"job\">",
        entry.job.shortened(64).for_html(),
        match if entry.has_own_name() { &entry.name } else { called(&entry.app, &entry.name) } {
            name if name.is_empty() => entry.job.shortened(64).for_html(),
            name => name.shortened(80).for_html(),
        },
    );
    let mut fact = |name: &str, value: String| {
        let _ = write!(html, "<div><dt>{name}</dt><dd>{value}</dd></div>");
    };
    fact("user", entry.user.shortened(32).for_html());
    fact("processes", text::count(entry.size.into()));
    fact("nodes", text::count(entry.nodes.len() as u64));
    fact("started", time(entry.start_unix_s));
    match entry.end_unix_s {
        Some(end) => {
            fact("ended", time(end));
            fact("run time", text::seconds(end - entry.start_unix_s));
        }
        None => fact("runs for", text::seconds((frame.now_unix_s - entry.start_unix_s).max(0.0).round())),
    }
    if let Some(address) = of.prometheus {
        let link = in_prometheus(address, entry, frame.now_unix_s);
        fact("metrics", format!("<a href=\"{}\">in Prometheus</a>", escape(&link)));
    }
    html += "</dl>\n";
    let io = &of.job.io;
    let now = if entry.state == JobState::Running { "now" } else { "on average" };
    html += &tiles([
        ("read", text::bytes(io.bytes_read as f64)),
        ("written", text::bytes(io.bytes_written as f64)),
        (
            if now == "now" { "reading now" } else { "read on average" },
            text::bandwidth(entry.read_bps.unwrap_or(0.0)),
        ),
        (
            if now == "now" { "writing now" } else { "written on average" },
            text::bandwidth(entry.write_bps.unwrap_or(0.0)),
        ),
        ("period", entry.period_s.map_or("–".to_owned(), text::seconds)),
        (
            "next phase",
            if entry.state == JobState::Running {
                until(frame.now_unix_s, entry.next_phase_unix_s)
            } else {
                "–".to_owned()
            },
        ),
    ]);
    if entry.state == JobState::Running {
        html += &rhythm_sentence(of, frame.now_unix_s);
    }
    html
}

/// Returns the address at which a Prometheus draws the bytes per second of a job, from its start to its end or to now.
fn in_prometheus(address: &str, entry: &JobEntry, now_unix_s: f64) -> String {
    // Prometheus draws steps of a 250th of the range; a rate needs a few samples.
    const LEAST_S: f64 = 600.0;
    let id: String = entry
        .job
        .as_said()
        .chars()
        .flat_map(|c| match c {
            '"' | '\\' => vec!['\\', c],
            '\n' => vec!['\\', 'n'],
            c => vec![c],
        })
        .collect();
    let expression = format!("sum by (op) (rate(iotide_job_io_bytes_total{{job=\"{id}\"}}[1m]))");
    let end_s = entry.end_unix_s.unwrap_or(now_unix_s);
    let range_s = (end_s - entry.start_unix_s).max(LEAST_S).ceil();
    let mut link =
        format!("{address}/graph?g0.expr={}&g0.tab=0&g0.range_input={range_s}s", path_part(&expression));
    if entry.end_unix_s.is_some() {
        let end = text::date(end_s);
        let _ = write!(link, "&g0.end_input={}", path_part(end.trim_end_matches(" UTC")));
    }
    link
}

fn rhythm_sentence(of: &JobPage<'_>, now_unix_s: f64) -> String {
    let entry = &of.job.entry;
    let Some(period_s) = entry.period_s else {
        return "<p class=\"note\">No period so far: the daemon needs at least three phases.</p>\n"
            .to_owned();
    };
    let mut said = format!("I/O comes every {}", text::seconds(period_s));
    if let Some(confidence) = of.confidence {
        let _ = write!(said, " (confidence {})", text::percent(confidence));
    }
    if let Some(bytes) = of.bytes_per_phase {
        let _ = write!(said, ", {} a phase", text::bytes(bytes));
    }
    if let Some(next) = entry.next_phase_unix_s {
        let _ = write!(said, "; the next phase is expected {}", until(now_unix_s, Some(next)));
    }
    format!("<p class=\"note\">{}.</p>\n", escape(&said))
}

/// Beyond this share of what was seen, the future is not drawn.
const MOST_FUTURE: f64 = 0.5;

fn bandwidth(of: &JobPage<'_>, now_unix_s: f64) -> String {
    let entry = &of.job.entry;
    let Some(rates) = of.rates.filter(|rates| rates.read_bps.len().max(rates.write_bps.len()) > 1) else {
        return "<p class=\"note\">There are no samples yet: the first come after two seconds.</p>\n"
            .to_owned();
    };
    let start_s = rates.t0_unix_s - entry.start_unix_s;
    let n = rates.read_bps.len().max(rates.write_bps.len());
    let at = |values: &[f64], i: usize| values.get(i).copied().unwrap_or(0.0);
    let total: Vec<f64> = (0..n).map(|i| at(&rates.read_bps, i) + at(&rates.write_bps, i)).collect();
    let phases = busy_phases(&total, rates.period_s);
    let mut bands: Vec<Band> = phases
        .iter()
        .map(|phase| Band {
            from: start_s + phase.start_s,
            to: start_s + phase.end_s,
            kind: BandKind::Phase,
            colour: 0,
            lane: 0,
        })
        .collect();
    let mut end_s = start_s + n as f64 * rates.period_s;
    let mut marks = Vec::new();
    let mut caption = "Bytes read and written per second. Shaded: phases, in which much is moved.".to_owned();
    if entry.state == JobState::Running {
        let now_s = now_unix_s - entry.start_unix_s;
        marks.push(Mark { at: now_s, label: "now".to_owned(), strong: true });
        end_s = end_s.max(now_s);
        if let Some(next_s) = entry.next_phase_unix_s.map(|next| next - entry.start_unix_s) {
            let length_s = usual_length_s(&phases).unwrap_or(rates.period_s);
            if next_s + length_s > now_s && next_s < end_s * (1.0 + MOST_FUTURE) + 60.0 {
                bands.push(Band {
                    from: next_s,
                    to: next_s + length_s,
                    kind: BandKind::Expected,
                    colour: 0,
                    lane: 0,
                });
                end_s = end_s.max(next_s + length_s * 1.2);
                caption += " Hatched: the next expected phase.";
            }
        }
    }
    let x = || Xs::Even { start: start_s, step: rates.period_s };
    let (written, read) = (highest(&rates.write_bps), highest(&rates.read_bps));
    let look_of_reads = if are_both_seen(written, read) { Look::Below } else { Look::Area };
    let series = |label: &'static str, look: Look, colour: usize, values: &[f64]| Series {
        label: label.into(),
        look,
        colour,
        step: true,
        x: x(),
        mid: values.to_vec(),
        lo: Vec::new(),
        hi: Vec::new(),
    };
    let plot = Plot {
        name: "bandwidth",
        title: "Rate over time",
        caption,
        x: Axis::time("time since the start", start_s.min(0.0), end_s),
        y: Axis::bandwidth("rate", written.max(read).max(1.0)),
        bands,
        series: vec![
            series("written", Look::Area, 0, &rates.write_bps),
            series("read", look_of_reads, 1, &rates.read_bps),
        ],
        marks,
        dots: Vec::new(),
        keys: if phases.is_empty() { Vec::new() } else { vec![("phase p0".to_owned(), "phase".to_owned())] },
    };
    let job = path_part(entry.job.as_said());
    format!(
        "{}<p class=\"note\"><a href=\"/traces?job={job}\">Any metric of this job over time</a> · <a href=\"/api/1/jobs/{job}\">JSON</a></p>\n",
        plot.to_figure("job")
    )
}

fn shares(job: &JobDocument) -> String {
    let time = &job.time;
    if time.threads_s <= 0.0 {
        return "<p class=\"note\">Nothing is known of its threads: it was not run under <code>iotide record</code>.</p>\n".to_owned();
    }
    let parts = [
        ("not in I/O or MPI", "metadata", time.compute_s),
        ("I/O", "write", time.io_s),
        ("communication (MPI)", "read", time.mpi_s),
    ];
    let bars: Vec<(&str, f64)> = parts.iter().map(|(_, class, s)| (*class, s / time.threads_s)).collect();
    let labels: Vec<(&str, String)> = parts
        .iter()
        .map(|(name, class, s)| {
            (*class, format!("{name} {} ({})", text::percent(s / time.threads_s), text::seconds(*s)))
        })
        .collect();
    format!(
        "{}{}<p class=\"note\">Of {} of all threads.</p>\n",
        share_bar(&bars),
        legend(labels.iter().map(|(class, label)| (*class, label.as_str()))),
        text::seconds(time.threads_s)
    )
}

fn facts(job: &JobDocument) -> String {
    let entry = &job.entry;
    let mut html = String::from("<dl class=\"facts\">");
    let mut fact = |name: &str, value: String| {
        if !value.is_empty() {
            let _ = writeln!(html, "<dt>{name}</dt><dd>{value}</dd>");
        }
    };
    if entry.has_own_name() {
        fact("Program", entry.program().shortened(80).for_html());
    }
    fact("Application", app_link(&entry.app, &entry.app));
    fact("Command", format!("<code>{}</code>", job.command.shortened(400).for_html()));
    fact("Directory", job.run_dir.shortened(200).for_html());
    fact("Parameters", job.parameters.shortened(200).for_html());
    fact("Build", job.build.shortened(16).for_html());
    let nodes: Vec<String> = entry.nodes.iter().take(16).map(|node| node.shortened(40).for_html()).collect();
    let more =
        if entry.nodes.len() > 16 { format!(" and {} more", entry.nodes.len() - 16) } else { String::new() };
    fact("Nodes", nodes.join(", ") + &more);
    fact("Cluster", job.cluster.shortened(64).for_html());
    fact("Partition", entry.partition.shortened(64).for_html());
    fact("Account", job.account.shortened(64).for_html());
    fact("Also called", job.alias.shortened(64).for_html());
    if let Some(cgroup) = &job.cgroup {
        let cpu = format!(
            "{} in programs, {} in the system",
            text::seconds(cgroup.cpu_user_s),
            text::seconds(cgroup.cpu_system_s)
        );
        fact("Processors", escape(&cpu));
        let peak = cgroup.memory_peak_bytes.map_or(String::new(), |bytes| text::bytes(bytes as f64));
        fact("Most memory", peak);
        cgroup.others().for_each(|(name, value)| fact(&name, escape(&value)));
    }
    fact(
        "Job id",
        match entry.trust {
            Trust::Cgroup => "from the system (cgroup)".to_owned(),
            Trust::Claimed => "as the program says".to_owned(),
        },
    );
    html + "</dl>\n"
}

fn operations(job: &JobDocument) -> String {
    let mut html = String::new();
    if job.io.by.is_empty() {
        html += "<p class=\"note\">No call was counted yet.</p>\n";
    } else {
        let rows: Vec<String> = job
            .io
            .by
            .iter()
            .map(|cell_of| {
                let mean = cell_of.bytes as f64 / cell_of.calls.max(1) as f64;
                format!(
                    "<td>{}</td><td class=\"word\">{}</td><td class=\"word\">{}</td>{}{}{}{}",
                    cell_of.op.shortened(40).for_html(),
                    cell_of.layer.shortened(24).for_html(),
                    cell_of.fs.shortened(40).for_html(),
                    cell(cell_of.calls as f64, &text::count(cell_of.calls)),
                    cell(cell_of.bytes as f64, &text::bytes(cell_of.bytes as f64)),
                    cell(mean, &if cell_of.bytes > 0 { text::bytes(mean) } else { "–".to_owned() }),
                    cell(cell_of.seconds, &text::seconds(cell_of.seconds)),
                )
            })
            .collect();
        html += &sortable(
            "operations",
            &["operation", "layer", "file system", "calls", "bytes", "a call", "time"],
            &rows,
        );
    }
    if !job.mpi.by_function.is_empty() {
        let mut functions: Vec<_> = job.mpi.by_function.iter().collect();
        functions.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        let rows: Vec<String> = functions
            .iter()
            .take(40)
            .map(|mpi| {
                format!(
                    "<td>{}</td>{}{}{}",
                    mpi.function.shortened(64).for_html(),
                    cell(mpi.calls as f64, &text::count(mpi.calls)),
                    cell(mpi.bytes as f64, &text::bytes(mpi.bytes as f64)),
                    cell(mpi.seconds, &text::seconds(mpi.seconds))
                )
            })
            .collect();
        html += "<h3>MPI</h3>\n";
        html += &sortable("MPI functions", &["function", "calls", "bytes", "time"], &rows);
    }
    if !job.own.is_empty() {
        html += "<h3>The program's own counters</h3>\n<dl class=\"facts\">";
        for own in job.own.iter().take(64) {
            let _ = write!(
                html,
                "<dt>{}</dt><dd>{} {}</dd>",
                own.name.shortened(64).for_html(),
                text::count(own.value),
                own.unit.shortened(16).for_html()
            );
        }
        html += "</dl>\n";
    }
    html
}

fn side_by_side(nodes: &[NodeShare]) -> String {
    let most = nodes.iter().map(|node| node.bytes_read + node.bytes_written).max().unwrap_or(0).max(1) as f64;
    let rows: Vec<String> = nodes
        .iter()
        .map(|node| {
            let bar = share_bar(&[
                ("write", node.bytes_written as f64 / most),
                ("read", node.bytes_read as f64 / most),
            ]);
            let share = if node.threads_s > 0.0 { node.io_s / node.threads_s } else { 0.0 };
            format!(
                "<td>{}</td><td class=\"bars\">{bar}</td>{}{}{}{}{}",
                node.node.shortened(40).for_html(),
                cell(node.n_running.into(), &text::count(node.n_running.into())),
                cell(node.bytes_read as f64, &text::bytes(node.bytes_read as f64)),
                cell(node.bytes_written as f64, &text::bytes(node.bytes_written as f64)),
                cell(node.io_s, &format!("{} ({})", text::seconds(node.io_s), text::percent(share))),
                cell(node.mpi_s, &text::seconds(node.mpi_s)),
            )
        })
        .collect();
    sortable(
        "nodes",
        &["node", "written and read", "procs", "read", "written", "time in I/O", "time in MPI"],
        &rows,
    )
}

fn earlier(job: &JobDocument) -> String {
    let rows: Vec<String> = job
        .earlier
        .iter()
        .map(|run| {
            format!(
                "<td>{}</td>{}{}{}{}{}<td class=\"word\"><a href=\"/profiles?a={}&amp;b={}\">compare</a></td>",
                job_link(&run.job),
                cell(run.start_unix_s, &time(run.start_unix_s)),
                cell(run.size.into(), &text::count(run.size.into())),
                cell(run.run_time_s.unwrap_or(-1.0), &run.run_time_s.map_or("–".to_owned(), text::seconds)),
                cell(run.bytes_read as f64, &text::bytes(run.bytes_read as f64)),
                cell(run.bytes_written as f64, &text::bytes(run.bytes_written as f64)),
                path_part(run.job.as_said()),
                path_part(job.entry.job.as_said()),
            )
        })
        .collect();
    sortable(
        "earlier runs",
        &["job", "started", "procs", "run time", "read", "written", "with this run"],
        &rows,
    )
}
