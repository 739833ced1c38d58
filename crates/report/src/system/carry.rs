//! How many jobs shared storage carries before they slow each other down, and what holds more of them up.

use std::fmt::Write;

use iotide_look::{Ink, Untrusted, text};
use iotide_sim::system::{Limit, Means, MostJobs};
use serde::Serialize;

use super::{Estimate, aligned, part_of_storage, plain, ranked};
use crate::SCHEMA;
use crate::document::Document;

/// Below this, bursts that meet by chance are what slows jobs down, and not that the storage is full.
const FAR_FROM_FULL: f64 = 0.8;

/// The answer of `iotide simulate system --carry`.
#[derive(Clone, Debug, Serialize)]
pub struct CarryReport {
    schema: &'static str,
    /// The command that was asked.
    pub command: &'static str,
    /// System that was asked about.
    pub workload: CarryBrief,
    /// How often each number of jobs was run.
    pub repetitions: usize,
    /// With which chances.
    pub seed: u64,
    /// Share of what may be that intervals hold.
    pub confidence: f64,
    /// How many jobs it carries.
    pub carry: CarryAnswer,
    /// Facts that could not be taken into account.
    pub losses: Vec<Untrusted>,
}

/// A system in brief.
#[derive(Clone, Debug, Serialize)]
pub struct CarryBrief {
    /// Where it is from.
    pub source: Untrusted,
    /// How many targets there are.
    pub n_targets: usize,
    /// The kinds of applications.
    pub templates: Vec<Untrusted>,
}

/// How many jobs a system carries.
#[derive(Clone, Debug, Serialize)]
pub struct CarryAnswer {
    /// Whose jobs are counted; `null`: all, mixed as they are.
    pub template: Option<Untrusted>,
    /// Jobs that are there beside them.
    pub beside: u64,
    /// Largest factor that is borne.
    pub limit: CarryLimitEntry,
    /// So many jobs run at once within the limit; `null` where the storage sets none.
    pub jobs: Option<u64>,
    /// From where to where the number may be, given how well the figures are known and how much was run.
    pub interval: Option<[u64; 2]>,
    /// `storage`; `search` where more jobs were not tried; `nothing` where jobs share nothing of the storage that takes time.
    pub limited_by: &'static str,
    /// More jobs are not tried.
    pub most_tried: u64,
    /// Part of the storage that is busiest with so many jobs.
    pub bottleneck: Option<String>,
    /// How busy it is then.
    pub utilization: Option<f64>,
    /// With so many jobs in all, mixed as they are, there is as much to do as can be done.
    pub knee_jobs: Option<f64>,
    /// Whether no more than a lower bound of the bottleneck's speed is known, so that it may carry more.
    pub at_least: bool,
    /// Results of each number that was tried.
    pub steps: Vec<CarryEntry>,
    /// `ssa` or `mva`.
    pub method: &'static str,
}

/// Largest factor that is borne.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CarryLimitEntry {
    /// `slowdown`, of a burst, or `stretch`, of computing and burst.
    pub of: &'static str,
    /// How many times as long as alone.
    pub factor: f64,
}

/// Results of a number of jobs.
#[derive(Clone, Debug, Serialize)]
pub struct CarryEntry {
    /// How many are counted.
    pub jobs: u64,
    /// All jobs that are there then, by template.
    pub by_template: Vec<u64>,
    /// Of the template that is held up most: how many times as long as alone a burst takes.
    pub slowdown: Option<Estimate>,
    /// The same of computing and burst together.
    pub stretch: Option<Estimate>,
    /// Which template that is.
    pub slowest: Untrusted,
    /// Bytes moved a second, by all jobs.
    pub bandwidth_bps: Option<Estimate>,
    /// Part of the storage that is busiest.
    pub busiest: String,
    /// How busy it is.
    pub utilization: f64,
}

/// Runs with a number of jobs.
#[derive(Clone, Debug)]
pub struct CarryStep {
    /// How many are counted.
    pub n: u64,
    /// By repetition and template: how many times as long as alone a burst takes.
    pub slowdowns: Vec<Vec<f64>>,
    /// By repetition and template: the same of computing and burst.
    pub stretches: Vec<Vec<f64>>,
    /// By repetition.
    pub means: Vec<Means>,
    /// The limit that was asked about.
    pub limit: Limit,
}

impl CarryStep {
    fn limited(&self) -> &[Vec<f64>] {
        match self.limit {
            Limit::Slowdown(_) => &self.slowdowns,
            Limit::Stretch(_) => &self.stretches,
        }
    }

    /// The template that is held up most, and how much on average; 1 where nobody is.
    fn slowest(&self) -> (usize, f64) {
        let limited = self.limited();
        let mean = |t: usize| limited.iter().map(|factors| factors[t]).sum::<f64>() / limited.len() as f64;
        let present = (0..limited.first().map_or(0, Vec::len)).map(|t| (t, mean(t)));
        let slowest = present.filter(|(_, mean)| !mean.is_nan()).max_by(|a, b| a.1.total_cmp(&b.1));
        slowest.unwrap_or((0, 1.0))
    }

    /// How many times as long as alone it takes the template that is held up most, on average.
    pub fn worst(&self) -> f64 {
        self.slowest().1
    }

    /// The standard error of [`Self::worst`]; 0 where nothing was repeated.
    pub fn error_of_worst(&self) -> f64 {
        let (template, mean) = self.slowest();
        let limited = self.limited();
        let n = limited.len() as f64;
        let squares: f64 = limited.iter().map(|factors| (factors[template] - mean).powi(2)).sum();
        let error = (squares / (n - 1.0).max(1.0) / n).sqrt();
        if error.is_finite() { error } else { 0.0 }
    }

    /// The busiest part of the storage, whether it is its operations, and how busy it is.
    fn busiest(&self) -> (usize, bool, f64) {
        let n = self.means.len() as f64;
        let busy = |of: fn(&Means) -> &Vec<f64>, target: usize| {
            self.means.iter().map(|means| of(means)[target]).sum::<f64>() / n
        };
        let targets = 0..self.means.first().map_or(0, |means| means.op_busy.len());
        let parts = targets.flat_map(|target| {
            [
                (target, false, busy(|means| &means.move_busy, target)),
                (target, true, busy(|means| &means.op_busy, target)),
            ]
        });
        // Of targets that are equally busy, the first.
        parts.fold((0, false, 0.0), |busiest, part| if part.2 > busiest.2 { part } else { busiest })
    }
}

/// Parts of an answer.
#[derive(Clone, Debug)]
pub struct CarryRuns<'a> {
    /// Where the system is from.
    pub source: &'a str,
    /// The question.
    pub question: &'a MostJobs,
    /// Whose jobs are counted; `None`: all.
    pub template: Option<usize>,
    /// `ssa` or `mva`.
    pub method: &'static str,
    /// How often each number was run.
    pub repetitions: usize,
    /// Where chances began.
    pub seed: u64,
    /// Share of what may be that intervals hold.
    pub confidence: f64,
    /// The largest number within the limit; `None` where the smallest is not, or where nothing limits it.
    pub found: Option<u64>,
    /// More are not tried.
    pub most: u64,
    /// Where the limit may be passed, given what is not exactly known; empty where all is.
    pub crossings: Vec<f64>,
    /// Every number that was tried, in order; empty where nothing limits it.
    pub steps: Vec<CarryStep>,
    /// With so many jobs there is as much to do as can be done.
    pub knee_jobs: Option<f64>,
    /// Figures of which no more than a lower bound is known.
    pub at_least: &'a [String],
    /// Facts that could not be taken into account.
    pub losses: &'a [String],
}

impl CarryReport {
    /// The report of what was tried.
    pub fn new(parts: CarryRuns<'_>) -> Self {
        let system = parts.question.system();
        let n = parts.found.unwrap_or(0);
        let busiest = parts.steps.iter().find(|step| step.n == n).map(CarryStep::busiest);
        let mut crossings = parts.crossings.clone();
        crossings.sort_by(f64::total_cmp);
        let tail = 0.5 * (1.0 - parts.confidence);
        let end = |share: f64| ranked(&crossings, share).floor() as u64;
        let limit = parts.question.limit();
        let is_bound = |(_, is_op, _): (usize, bool, f64)| {
            let name = if is_op { "iops" } else { "bandwidth_bps" };
            parts.at_least.iter().any(|known| known == name)
        };
        let steps = parts.steps.iter().map(|step| {
            let (slowest, _) = step.slowest();
            let (target, is_op, utilization) = step.busiest();
            let of = |factors: &[Vec<f64>]| {
                Estimate::of(factors.iter().map(|by_template| by_template[slowest]), parts.confidence)
            };
            CarryEntry {
                jobs: step.n,
                by_template: parts.question.counts(step.n),
                slowdown: of(&step.slowdowns),
                stretch: of(&step.stretches),
                slowest: system.templates[slowest].name.as_str().into(),
                bandwidth_bps: Estimate::of(
                    step.means.iter().map(|means| means.bandwidth_bps.iter().sum()),
                    parts.confidence,
                ),
                busiest: part_of_storage(target, is_op),
                utilization,
            }
        });
        Self {
            schema: SCHEMA,
            command: "simulate",
            workload: CarryBrief {
                source: parts.source.into(),
                n_targets: system.targets.len(),
                templates: system.templates.iter().map(|template| template.name.as_str().into()).collect(),
            },
            repetitions: if parts.method == "mva" { 1 } else { parts.repetitions },
            seed: parts.seed,
            confidence: parts.confidence,
            carry: CarryAnswer {
                template: parts.template.map(|template| system.templates[template].name.as_str().into()),
                beside: parts.question.n_beside(),
                limit: CarryLimitEntry {
                    of: match limit {
                        Limit::Slowdown(_) => "slowdown",
                        Limit::Stretch(_) => "stretch",
                    },
                    factor: limit.factor(),
                },
                jobs: (!parts.steps.is_empty()).then_some(n),
                interval: (!crossings.is_empty()).then(|| [end(tail).min(n), end(1.0 - tail).max(n)]),
                limited_by: match (parts.steps.is_empty(), n < parts.most) {
                    (true, _) => "nothing",
                    (false, true) => "storage",
                    (false, false) => "search",
                },
                most_tried: parts.most,
                bottleneck: busiest.map(|(target, is_op, _)| part_of_storage(target, is_op)),
                utilization: busiest.map(|(_, _, busy)| busy),
                knee_jobs: parts.knee_jobs,
                at_least: busiest.is_some_and(is_bound),
                steps: steps.collect(),
                method: parts.method,
            },
            losses: parts.losses.iter().map(|loss| loss.as_str().into()).collect(),
        }
    }

    /// Returns the main result, in a sentence without a full stop.
    pub fn verdict(&self) -> String {
        let carry = &self.carry;
        let CarryLimitEntry { of, factor } = carry.limit;
        let what = if of == "slowdown" { "a burst" } else { "a round of computing and I/O" };
        let (factor, more) = (plain(factor), if carry.beside > 0 { " more" } else { "" });
        match (carry.limited_by, carry.jobs) {
            ("nothing", _) | (_, None) => {
                "the storage does not limit how many of these jobs run at once: they share nothing of it that takes time".to_owned()
            }
            ("search", Some(jobs)) => format!(
                "{}{more} or more at once: {what} then takes no more than {factor} times as long as alone, and more jobs are not tried",
                text::counted(jobs, "job")
            ),
            (_, Some(0)) => format!(
                "no job more: with the {} that are there, {what} takes over {factor} times as long as alone already",
                text::counted(carry.beside, "job")
            ),
            (_, Some(jobs)) => {
                let interval = carry.interval.filter(|[from, to]| from != to);
                let interval = interval.map_or(String::new(), |[from, to]| format!(" ({from} to {to})"));
                let at_least = if carry.at_least { "at least " } else { "" };
                format!(
                    "{at_least}{}{more} at once{interval} before {what} takes over {factor} times as long as alone",
                    text::counted(jobs, "job")
                )
            }
        }
    }

    /// Returns who is asked about and how it was found, in sentences.
    pub fn head_lines(&self) -> Vec<String> {
        let (brief, carry) = (&self.workload, &self.carry);
        let of = match (&carry.template, brief.templates.as_slice()) {
            (Some(template), _) | (None, [template]) => format!("jobs of {}", template.for_terminal()),
            (None, templates) => format!("jobs of {} templates, mixed", templates.len()),
        };
        let beside = match carry.beside {
            0 => String::new(),
            n => format!(" beside {}", text::counted(n, "other job")),
        };
        let how = match carry.method {
            "mva" => "mean value analysis of each number of jobs: the long run".to_owned(),
            _ => format!(
                "{} of each number of jobs, out of step, seed {}",
                text::counted(self.repetitions as u64, "repetition"),
                self.seed
            ),
        };
        vec![
            format!(
                "{}: {of}{beside} on {}",
                brief.source.for_terminal(),
                text::counted(brief.n_targets as u64, "target")
            ),
            how,
        ]
    }

    /// Returns what limits the number, in sentences.
    pub fn limit_lines(&self) -> Vec<String> {
        let carry = &self.carry;
        let mut lines = Vec::new();
        if let (Some(bottleneck), Some(busy), Some(jobs)) = (&carry.bottleneck, carry.utilization, carry.jobs)
        {
            let full = carry
                .knee_jobs
                .map_or(String::new(), |knee| format!("; it is full with {} in all", plain(knee)));
            let more = if carry.beside > 0 { " more" } else { "" };
            lines.push(format!(
                "{bottleneck} is the bottleneck: {} busy with {}{more}{full}",
                text::percent(busy),
                text::counted(jobs, "job")
            ));
            if carry.limited_by == "storage" && busy < FAR_FROM_FULL {
                lines.push(
                    "bursts meet by chance long before it is full: in turns, more would fit".to_owned(),
                );
            }
        }
        if carry.at_least {
            lines.push("no more than a lower bound of its speed is known: it may carry more".to_owned());
        }
        if carry.limited_by == "search" && carry.method == "ssa" {
            lines.push("`--method mva` tries more jobs".to_owned());
        }
        lines
    }

    /// The number, one more and twice the number, as cells under [`CARRY_HEAD`].
    pub fn carry_rows(&self) -> Vec<[String; 5]> {
        let Some(jobs) = self.carry.jobs else { return Vec::new() };
        let named = [jobs, jobs + 1, 2 * jobs.max(1)];
        let cell = |estimate: &Option<Estimate>, show: fn(f64) -> String| {
            estimate.map_or("–".to_owned(), |estimate| estimate.shown(show))
        };
        (self.carry.steps.iter())
            .filter(|step| named.contains(&step.jobs))
            .map(|step| {
                [
                    step.jobs.to_string(),
                    cell(&step.slowdown, times),
                    cell(&step.stretch, times),
                    cell(&step.bandwidth_bps, text::bandwidth),
                    format!("{} {}", step.busiest, text::percent(step.utilization)),
                ]
            })
            .collect()
    }
}

/// Returns a factor in four digits: many lie close to 1.
fn times(value: f64) -> String {
    text::digits(value, 4)
}

/// The heads of [`CarryReport::carry_rows`].
pub const CARRY_HEAD: [&str; 5] =
    ["jobs", "a burst, times as alone", "with computing", "bandwidth", "busiest"];

impl Document for CarryReport {
    fn to_text(&self, width: usize, _: Ink) -> String {
        let mut out = String::new();
        let verdict = iotide_look::html::capitalised(&self.verdict());
        let lines = self.head_lines().into_iter().chain([verdict]).chain(self.limit_lines());
        for line in lines.flat_map(|line| text::wrap(&line, width)) {
            let _ = writeln!(out, "{line}");
        }
        if !self.carry.steps.is_empty() {
            out += &aligned(CARRY_HEAD, &self.carry_rows());
        }
        for loss in &self.losses {
            let _ = writeln!(out, "not taken into account: {}", loss.for_terminal());
        }
        out
    }

    fn to_json(&self) -> String {
        text::json_document(self)
    }
}
