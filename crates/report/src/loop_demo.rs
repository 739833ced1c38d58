//! Jobs on one storage without and with a controller: what `iotide demo --loop` shows.

use iotide_look::chart::{Axis, Look, Mark, Series, Xs};
use iotide_look::html::{FOOT, SCRIPT, Section, escape, head, own_style, table};
use iotide_look::{Plot, text};

use crate::decisions::{DecisionList, share};

/// The same jobs, twice.
#[derive(Clone, Debug)]
pub struct LoopDemo {
    /// What the storage lets through in a second.
    pub bandwidth_bps: f64,
    /// What the jobs do, in words.
    pub jobs: Vec<LoopJob>,
    /// The storage serves requests as they come.
    pub without: LoopRun,
    /// The daemon decides.
    pub with: LoopRun,
    /// What it decided.
    pub decisions: DecisionList,
    /// When the first of its decisions was taken, after the start of the jobs; what is compared begins here.
    pub decided_s: Option<f64>,
}

/// A job.
#[derive(Clone, Debug)]
pub struct LoopJob {
    /// Its name.
    pub name: String,
    /// What it does, in words.
    pub what: String,
}

/// How the jobs fared once.
#[derive(Clone, Debug, Default)]
pub struct LoopRun {
    /// When they were looked at, after their start.
    pub at_s: Vec<f64>,
    /// What each had written by then, and how long it had been at it: by job.
    pub jobs: Vec<Vec<LoopSample>>,
}

/// What a job had done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoopSample {
    /// Bytes written.
    pub bytes: u64,
    /// Seconds in the calls.
    pub io_s: f64,
}

impl LoopRun {
    /// Seconds in I/O for each byte of a job, from some time on.
    fn seconds_a_byte(&self, job: usize, from_s: f64) -> Option<f64> {
        let samples = self.jobs.get(job)?;
        let first = samples.get(self.at_s.iter().position(|at_s| *at_s >= from_s)?)?;
        let last = samples.last()?;
        let bytes = last.bytes.checked_sub(first.bytes).filter(|bytes| *bytes > 0)?;
        Some((last.io_s - first.io_s) / bytes as f64).filter(|cost| *cost > 0.0)
    }

    fn rates_bps(&self, job: usize) -> (Vec<f64>, Vec<f64>) {
        let samples = self.jobs.get(job).map_or(&[][..], Vec::as_slice);
        let pairs = self.at_s.iter().zip(samples);
        let rate = |((from_s, from), (to_s, to)): ((&f64, &LoopSample), (&f64, &LoopSample))| {
            (*from_s, to.bytes.saturating_sub(from.bytes) as f64 / (to_s - from_s).max(1e-3))
        };
        pairs.clone().zip(pairs.skip(1)).map(rate).unzip()
    }
}

impl LoopDemo {
    /// Seconds in I/O for each byte of each job, without and with the controller, since it first decided; and how that has changed in the geometric
    /// mean over the jobs.
    pub fn costs(&self) -> (Vec<[Option<f64>; 2]>, Option<f64>) {
        let from_s = self.decided_s.unwrap_or(0.0);
        let of = |job| [&self.without, &self.with].map(|run| run.seconds_a_byte(job, from_s));
        let jobs: Vec<[Option<f64>; 2]> = (0..self.jobs.len()).map(of).collect();
        let logs: Option<Vec<f64>> =
            jobs.iter().map(|[without, with]| Some((with.as_ref()? / without.as_ref()?).ln())).collect();
        let mean = logs
            .filter(|logs| !logs.is_empty())
            .map(|logs| (logs.iter().sum::<f64>() / logs.len() as f64).exp() - 1.0);
        (jobs, mean)
    }

    /// What came of it, in a sentence.
    pub fn verdict(&self) -> String {
        let Some(decided_s) = self.decided_s else {
            return "the daemon has decided nothing: it was not sure of the jobs' periods in time".to_owned();
        };
        let decided = text::seconds(decided_s.round());
        match self.costs().1 {
            Some(change) => format!(
                "after {decided} the daemon put the jobs into sets; from then on the time that a byte takes changed by {} in the mean over the jobs",
                share(change)
            ),
            None => {
                format!("after {decided} the daemon put the jobs into sets, too late to tell what came of it")
            }
        }
    }

    fn rows(&self) -> Vec<[String; 5]> {
        // A second for a megabyte is a microsecond for a byte.
        let shown = |cost: Option<f64>| cost.map_or("–".to_owned(), |cost| text::seconds(1e6 * cost));
        let (jobs, mean) = self.costs();
        let row = |(job, [without, with]): (&LoopJob, &[Option<f64>; 2])| {
            let change =
                without.zip(*with).map_or("–".to_owned(), |(without, with)| share(with / without - 1.0));
            [job.name.clone(), job.what.clone(), shown(*without), shown(*with), change]
        };
        let mut rows: Vec<[String; 5]> = self.jobs.iter().zip(&jobs).map(row).collect();
        let none = || "–".to_owned();
        rows.push([
            "all".to_owned(),
            "geometric mean".to_owned(),
            none(),
            none(),
            mean.map_or_else(none, share),
        ]);
        rows
    }

    /// For a terminal.
    pub fn to_text(&self) -> String {
        let mut out = crate::jobs::table(
            &["job", "what it does", "a MB takes without", "with", "change"],
            &self.rows(),
        );
        out.push('\n');
        for decision in self.decisions.decisions.iter().rev() {
            out.push_str(&format!(
                "  decision {}: {} (expected {}, measured {}; {})\n",
                decision.id,
                decision.change.for_terminal(),
                decision.expectation(),
                decision.outcome(),
                decision.state
            ));
        }
        out
    }

    /// As a page.
    pub fn html(&self) -> String {
        let style = own_style(include_str!("tables.css"));
        let mut html = head("The loop, closed · iotide demo", &style, SCRIPT);
        html += &format!(
            "<main>\n<header><p class=\"path\">iotide demo --loop</p><h1>{}</h1>\n<p>{} jobs share a storage that lets {} through. First it serves requests as they come; \
             then a daemon watches the same jobs, finds the periods of their I/O, tries out in the simulator what taking turns by sets would bring, \
             tells the storage, and measures what came of it.</p></header>\n",
            escape(&iotide_look::html::capitalised(&text::whole_numbers(&self.verdict()))),
            self.jobs.len(),
            text::bandwidth(self.bandwidth_bps),
        );
        let wide = |table: String| format!("<div class=\"wide\" tabindex=\"0\">{table}</div>");
        let section = |id, title: &str, body| Section { id, title: title.to_owned(), body, narrow: false };
        // Narrow enough for a phone.
        let rows = self
            .rows()
            .into_iter()
            .map(|[job, what, without, with, change]| [format!("{job}: {what}"), without, with, change]);
        let jobs = wide(table(["job", "without", "with", "change"], rows));
        let mut sections = vec![section("jobs", "How long a megabyte takes each job", jobs)];
        for plot in self.plots() {
            sections.push(section(plot.name, plot.title, plot.to_figure("a")));
        }
        sections.push(section(
            "decisions",
            "What was decided, and what came of it",
            self.decisions_in_words(),
        ));
        for section in sections {
            section.write(&mut html, "loop");
        }
        html += &format!("<script>{SCRIPT}</script>\n{FOOT}");
        html
    }

    fn decisions_in_words(&self) -> String {
        if self.decisions.decisions.is_empty() {
            return "<p>Nothing.</p>\n".to_owned();
        }
        let mut html = String::new();
        for decision in self.decisions.decisions.iter().rev() {
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

    /// What the axis of the pictures must hold: what was written between two looks may be more than the storage lets through in that time, for a look is
    /// sometimes late.
    fn highest_bps(&self) -> f64 {
        let of_run =
            |run: &LoopRun| (0..self.jobs.len()).flat_map(|job| run.rates_bps(job).1).fold(0.0, f64::max);
        of_run(&self.without).max(of_run(&self.with)).max(self.bandwidth_bps)
    }

    fn plots(&self) -> Vec<Plot> {
        let end_s = [&self.without, &self.with]
            .iter()
            .filter_map(|run| run.at_s.last())
            .fold(0.0, |a: f64, b| a.max(*b));
        if end_s <= 0.0 {
            return Vec::new();
        }
        let highest_bps = self.highest_bps();
        let plot = |name, title, caption: &str, run: &LoopRun, marks| {
            let series = self.jobs.iter().enumerate().map(|(n, job)| {
                let (at_s, rates) = run.rates_bps(n);
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
                &self.without,
                Vec::new(),
            ),
            plot(
                "with",
                "With the loop",
                "The same jobs; from the mark on, jobs with short periods have the larger share, and those of a set take turns.",
                &self.with,
                self.decided_s.map(mark).into_iter().collect(),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seconds_a_byte: f64) -> LoopRun {
        let at_s: Vec<f64> = (0..10).map(f64::from).collect();
        let samples =
            (0..10u64).map(|n| LoopSample { bytes: n * 100, io_s: n as f64 * 100.0 * seconds_a_byte });
        LoopRun { at_s, jobs: vec![samples.collect()] }
    }

    #[test]
    fn what_is_compared_begins_with_the_first_decision() {
        let mut demo = LoopDemo {
            bandwidth_bps: 1000.0,
            jobs: vec![LoopJob { name: "<a>".to_owned(), what: "writes".to_owned() }],
            without: run(4e-3),
            with: run(2e-3),
            decisions: DecisionList::default(),
            decided_s: Some(4.5),
        };
        let (jobs, mean) = demo.costs();
        assert!(
            (jobs[0][0].unwrap() - 4e-3).abs() < 1e-9 && (mean.unwrap() + 0.5).abs() < 1e-9,
            "{jobs:?} {mean:?}"
        );
        assert!(demo.verdict().contains("changed by −50 %"), "{}", demo.verdict());
        let html = demo.html();
        iotide_look::policy::assert_keeps_its_policy(&html);
        assert!(html.contains("&lt;a&gt;") && !html.contains("<a>"));
        demo.decided_s = Some(9.0);
        assert!(demo.verdict().ends_with("too late to tell what came of it"), "{}", demo.verdict());
        demo.decided_s = None;
        assert!(demo.verdict().starts_with("the daemon has decided nothing"));
    }
}
