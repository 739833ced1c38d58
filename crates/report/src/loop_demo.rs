//! Jobs on one storage without and with a controller: what `iotide demo --loop` shows.

use iotide_look::text;

use crate::decisions::{DecisionList, share};

/// The same jobs, twice.
#[derive(Clone, Debug)]
pub struct LoopDemo {
    /// Bandwidth of the storage, in bytes per second.
    pub bandwidth_bps: f64,
    /// The jobs, described in words.
    pub jobs: Vec<LoopJob>,
    /// The storage serves requests as they come.
    pub without: LoopRun,
    /// The daemon decides.
    pub with: LoopRun,
    /// Decisions of the daemon.
    pub decisions: DecisionList,
    /// When the first of its decisions was taken, after the start of the jobs; what is compared begins here.
    pub decided_s: Option<f64>,
}

/// A job.
#[derive(Clone, Debug)]
pub struct LoopJob {
    /// Its name.
    pub name: String,
    /// Description of its activity.
    pub what: String,
}

/// How the jobs fared once.
#[derive(Clone, Debug, Default)]
pub struct LoopRun {
    /// When they were looked at, after their start.
    pub at_s: Vec<f64>,
    /// Bytes that each had written by then, and its time in the calls: by job.
    pub jobs: Vec<Vec<LoopSample>>,
}

/// Writes of a job so far.
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

    /// Returns the outcome, in a sentence.
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

    /// A row for each job, and one for all: its name, what it does, what a megabyte takes without and with, and the change.
    pub fn rows(&self) -> Vec<[String; 5]> {
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
        demo.decided_s = Some(9.0);
        assert!(demo.verdict().ends_with("too late to tell what came of it"), "{}", demo.verdict());
        demo.decided_s = None;
        assert!(demo.verdict().starts_with("the daemon has decided nothing"));
    }
}
