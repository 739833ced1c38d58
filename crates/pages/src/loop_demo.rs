//! Jobs on one storage without and with a controller, as a page.

use iotide_look::chart::{Axis, Look, Mark, Series, Xs};
use iotide_look::html::{FOOT, SCRIPT, Section, capitalised, escape, head, own_style, table};
use iotide_look::{Plot, text};

use iotide_report::{LoopDemo, LoopRun, LoopSample};

/// Returns the page of `iotide demo --loop`.
pub fn loop_page(demo: &LoopDemo) -> String {
    let style = own_style(include_str!("tables.css"));
    let mut html = head("The loop, closed · iotide demo", &style, SCRIPT);
    html += &format!(
        "<main>\n<header><p class=\"path\">iotide demo --loop</p><h1>{}</h1>\n<p>{} jobs share a storage that lets {} through. First it serves requests as they come; \
         then a daemon watches the same jobs, finds the periods of their I/O, tries out in the simulator what taking turns by sets would bring, \
         tells the storage, and measures what came of it.</p></header>\n",
        escape(&capitalised(&text::whole_numbers(&demo.verdict()))),
        demo.jobs.len(),
        text::bandwidth(demo.bandwidth_bps),
    );
    let wide = |table: String| format!("<div class=\"wide\" tabindex=\"0\">{table}</div>");
    let section = |id, title: &str, body| Section { id, title: title.to_owned(), body, narrow: false };
    // Narrow enough for a phone.
    let rows = demo
        .rows()
        .into_iter()
        .map(|[job, what, without, with, change]| [format!("{job}: {what}"), without, with, change]);
    let jobs = wide(table(["job", "without", "with", "change"], rows));
    let mut sections = vec![section("jobs", "How long a megabyte takes each job", jobs)];
    for plot in plots(demo) {
        sections.push(section(plot.name, plot.title, plot.to_figure("a")));
    }
    sections.push(section("decisions", "What was decided, and what came of it", decisions_in_words(demo)));
    Section::write_all(&sections, &mut html, "loop");
    html += &format!("<script>{SCRIPT}</script>\n{FOOT}");
    html
}

fn decisions_in_words(demo: &LoopDemo) -> String {
    if demo.decisions.decisions.is_empty() {
        return "<p>Nothing.</p>\n".to_owned();
    }
    let mut html = String::new();
    for decision in demo.decisions.decisions.iter().rev() {
        html += &format!(
            "<h3>{}: {}</h3>\n<p>Expected {}, measured {}; {}.</p>\n<ul>\n",
            decision.id,
            escape(&decision.change.for_terminal()),
            escape(&decision.expectation()),
            escape(&decision.outcome()),
            escape(&decision.state),
        );
        for why in decision.why() {
            html += &format!("<li>{}</li>\n", escape(&why.for_terminal()));
        }
        html += "</ul>\n";
    }
    html
}

/// Returns the maximum of the bandwidth axis. It may be above the bandwidth of the storage: a sample is sometimes late, and more was written
/// since the one before.
fn highest_bps(demo: &LoopDemo) -> f64 {
    let of_run =
        |run: &LoopRun| (0..demo.jobs.len()).flat_map(|job| rates_bps(run, job).1).fold(0.0, f64::max);
    of_run(&demo.without).max(of_run(&demo.with)).max(demo.bandwidth_bps)
}

fn plots(demo: &LoopDemo) -> Vec<Plot> {
    let end_s =
        [&demo.without, &demo.with].iter().filter_map(|run| run.at_s.last()).fold(0.0, |a: f64, b| a.max(*b));
    if end_s <= 0.0 {
        return Vec::new();
    }
    let highest_bps = highest_bps(demo);
    let plot = |name, title, caption: &str, run: &LoopRun, marks| {
        let series = demo.jobs.iter().enumerate().map(|(n, job)| {
            let (at_s, rates) = rates_bps(run, n);
            Series {
                label: job.name.clone().into(),
                look: Look::Beat,
                colour: n,
                step: true,
                x: Xs::At(at_s),
                mid: rates,
                lo: Vec::new(),
                hi: Vec::new(),
            }
        });
        Plot {
            name,
            title,
            caption: caption.to_owned(),
            x: Axis::time("time", 0.0, end_s),
            y: Axis::bandwidth("written", 1.05 * highest_bps),
            bands: Vec::new(),
            series: series.filter(|series| !series.mid.is_empty()).collect(),
            marks,
            dots: Vec::new(),
            keys: Vec::new(),
        }
    };
    let mark = |at| Mark { at, label: "decided".to_owned(), strong: true };
    vec![
        plot(
            "without",
            "Without",
            "What each job writes: whoever asks is served.",
            &demo.without,
            Vec::new(),
        ),
        plot(
            "with",
            "With the loop",
            "The same jobs; from the mark on, jobs with short periods have the larger share, and those of a set take turns.",
            &demo.with,
            demo.decided_s.map(mark).into_iter().collect(),
        ),
    ]
}

fn rates_bps(run: &LoopRun, job: usize) -> (Vec<f64>, Vec<f64>) {
    let samples = run.jobs.get(job).map_or(&[][..], Vec::as_slice);
    let pairs = run.at_s.iter().zip(samples);
    let rate = |((from_s, from), (to_s, to)): ((&f64, &LoopSample), (&f64, &LoopSample))| {
        (*from_s, to.bytes.saturating_sub(from.bytes) as f64 / (to_s - from_s).max(1e-3))
    };
    pairs.clone().zip(pairs.skip(1)).map(rate).unzip()
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_report::{DecisionList, LoopJob};

    #[test]
    fn names_of_jobs_are_no_markup() {
        let samples = (0..10).map(|n| LoopSample { bytes: n * 100, io_s: n as f64 });
        let run = LoopRun { at_s: (0..10).map(f64::from).collect(), jobs: vec![samples.collect()] };
        let html = loop_page(&LoopDemo {
            bandwidth_bps: 1000.0,
            jobs: vec![LoopJob { name: "<a>".to_owned(), what: "writes".to_owned() }],
            without: run.clone(),
            with: run,
            decisions: DecisionList::default(),
            decided_s: Some(4.5),
        });
        iotide_look::policy::assert_keeps_its_policy(&html);
        assert!(html.contains("&lt;a&gt;") && !html.contains("<a>"));
    }
}
