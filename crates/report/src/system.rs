//! The state of shared storage: what a simulated system does, with bands, where it clogs, and what a change does to it.

use std::fmt::Write;

use iotide_look::{Ink, Untrusted, text};
use iotide_sim::system::{Alone, Means, Run, Saturation, System, WhatChanges};
use serde::Serialize;

use crate::SCHEMA;
use crate::document::Document;

pub use self::carry::{
    CARRY_HEAD, CarryAnswer, CarryBrief, CarryEntry, CarryLimitEntry, CarryReport, CarryRuns, CarryStep,
};
pub use self::forecast::{Forecast, ForecastJob, ForecastParts, ForecastState, ForecastStorage};

mod carry;
mod forecast;

/// The answer of `iotide simulate system`.
#[derive(Clone, Debug, Serialize)]
pub struct SystemReport {
    schema: &'static str,
    /// The command that was asked.
    pub command: &'static str,
    /// System that was simulated.
    pub workload: SystemBrief,
    /// How often.
    pub repetitions: usize,
    /// With which chances.
    pub seed: u64,
    /// Share of the repetitions that the bands hold.
    pub confidence: f64,
    /// Results of the simulation.
    pub system: SystemAnswer,
    /// Facts that could not be taken into account.
    pub losses: Vec<Untrusted>,
}

/// A system in brief.
#[derive(Clone, Debug, Serialize)]
pub struct SystemBrief {
    /// Where it is from.
    pub source: Untrusted,
    /// How many targets there are.
    pub n_targets: usize,
    /// How many jobs are there or will be.
    pub n_jobs: u64,
    /// The kinds of applications.
    pub templates: Vec<Untrusted>,
    /// From when to when means are taken.
    pub frame_s: [f64; 2],
}

/// Results of the simulation of a system.
#[derive(Clone, Debug, Serialize)]
pub struct SystemAnswer {
    /// Means over the frame.
    pub frame: Frame,
    /// Step by step.
    pub state: Vec<State>,
    /// Bandwidth and burst times of the jobs.
    pub jobs: Vec<SystemJob>,
    /// Where it clogs; `null` where nobody stays.
    pub saturation: Option<SaturationEntry>,
    /// Effects of changes.
    pub what_if: Vec<WhatIf>,
    /// Events of all repetitions.
    pub events: u64,
    /// `ssa`, `mean-field` or `mva`.
    pub method: &'static str,
    /// Whether the means are exact: those of `mva` are of single requests, and not of bursts.
    pub exact: bool,
    /// How many requests a token stands for, at most.
    pub grain: u64,
    /// How many requests a token stands for, by template.
    pub grains: Vec<u64>,
}

/// Means over the frame; lists are by template.
#[derive(Clone, Debug, Serialize)]
pub struct Frame {
    /// Requests at operations.
    pub at_op: Vec<f64>,
    /// Requests that move bytes.
    pub moving: Vec<f64>,
    /// Requests beyond the servers.
    pub waiting: f64,
    /// Share of the servers that are busy.
    pub op_utilization: Option<f64>,
    /// Share of the bandwidth that is used.
    pub bandwidth_utilization: Option<f64>,
    /// Requests done a second.
    pub iops: Vec<f64>,
    /// Bytes moved a second.
    pub bandwidth_bps: Vec<f64>,
    /// How long a burst took.
    pub burst_s: Vec<Option<f64>>,
    /// Of all templates.
    pub at_op_total: f64,
    /// Of all templates.
    pub moving_total: f64,
    /// Of all templates, with a band over the repetitions.
    pub bandwidth_total_bps: Estimate,
    /// Requests at the targets, with a band over the repetitions.
    pub requests_total: Estimate,
    /// How long a burst took, with a band over the repetitions.
    pub burst: Vec<Option<Estimate>>,
    /// Of the frame: how much of it 0, 1, 2 … requests were at operations.
    pub distribution_at_op: Vec<f64>,
}

/// A mean, and what holds most repetitions.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Estimate {
    /// The mean.
    pub mean: f64,
    /// From where to where; `null` where nothing was repeated.
    pub interval: Option<[f64; 2]>,
}

/// The state from one time to the next.
#[derive(Clone, Debug, Serialize)]
pub struct State {
    /// When it ends.
    pub time_s: f64,
    /// Requests beyond the servers.
    pub waiting: Estimate,
    /// Requests at the targets, those that wait included.
    pub requests: Estimate,
    /// Bytes moved a second.
    pub bandwidth_bps: Estimate,
    /// The same by template.
    pub bandwidth_by_template_bps: Vec<f64>,
    /// How busy the busiest part of the storage is.
    pub utilization: f64,
}

/// Bandwidth and burst time of each job of one entry.
#[derive(Clone, Debug, Serialize)]
pub struct SystemJob {
    /// Their kind.
    pub template: Untrusted,
    /// How many there are.
    pub count: u64,
    /// Bytes a second, computing included.
    pub bandwidth_bps: Option<f64>,
    /// How long a burst takes.
    pub burst_s: Option<f64>,
    /// How long it would take alone.
    pub burst_alone_s: Option<f64>,
    /// One over the other.
    pub slowdown: Option<f64>,
}

/// Where a system clogs.
#[derive(Clone, Debug, Serialize)]
pub struct SaturationEntry {
    /// `targets[0] bandwidth` or `targets[0] operations`.
    pub bottleneck: String,
    /// How busy it is in the long run.
    pub utilization: f64,
    /// When it is first busy for a whole step; `null` if it is not.
    pub first_s: Option<f64>,
    /// With so many jobs, mixed as they are, there is as much to do as can be done.
    pub knee_jobs: f64,
    /// How many more of each template until then.
    pub more_jobs: std::collections::BTreeMap<String, u64>,
}

/// Effect of a change.
#[derive(Clone, Debug, Serialize)]
pub struct WhatIf {
    /// The change, in words.
    pub change: String,
    /// When.
    pub at_s: f64,
    /// From the change before, or the beginning of the frame.
    pub before: Stretch,
    /// Until the next change, or the end of the frame.
    pub after: Stretch,
    /// As in `before`.
    pub bandwidth_before_bps: Option<f64>,
    /// As in `after`.
    pub bandwidth_after_bps: Option<f64>,
}

/// A time between changes.
#[derive(Clone, Debug, Serialize)]
pub struct Stretch {
    /// From when to when.
    pub span_s: [f64; 2],
    /// Bytes moved a second; `null` where no time passes.
    pub bandwidth_bps: Option<Estimate>,
    /// Requests beyond the servers.
    pub waiting: Option<Estimate>,
    /// Requests at the targets.
    pub requests: Option<Estimate>,
    /// How long bursts took that ended then, by template.
    pub burst_s: Vec<Option<f64>>,
}

/// Runs of a system, from which a report is made.
#[derive(Clone, Debug)]
pub struct SystemRuns<'a> {
    /// Where the system is from.
    pub source: &'a str,
    /// The system.
    pub system: &'a System,
    /// Result of each repetition; one for methods that repeat nothing.
    pub runs: &'a [Run],
    /// `ssa`, `mean-field` or `mva`.
    pub method: &'static str,
    /// Whether means are exact.
    pub is_exact: bool,
    /// How many requests a token stood for, by template.
    pub grains: &'a [u64],
    /// Where chances began.
    pub seed: u64,
    /// Share of the repetitions that the bands hold.
    pub confidence: f64,
    /// Where it clogs.
    pub saturation: Option<Saturation>,
    /// Facts that could not be taken into account.
    pub losses: &'a [String],
    /// By template: what a job has alone.
    pub alone: Vec<Alone>,
}

fn is_number(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// Means over repetitions.
struct Repeated<'a> {
    runs: &'a [Run],
    confidence: f64,
}

impl Repeated<'_> {
    /// The mean of what is a number, with a band; `None` if nothing is.
    fn estimate(&self, of: impl Fn(&Run) -> f64) -> Option<Estimate> {
        Estimate::of(self.runs.iter().map(of), self.confidence)
    }

    fn mean(&self, of: impl Fn(&Run) -> f64) -> f64 {
        self.estimate(of).map_or(f64::NAN, |estimate| estimate.mean)
    }
}

/// Below which a share of what might come lies: a repetition more is as likely in each of the gaps between those there are.
fn ranked(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() as f64 + 1.0) - 1.0;
    let below = (place.floor().max(0.0) as usize).min(sorted.len() - 1);
    let above = (below + 1).min(sorted.len() - 1);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64).clamp(0.0, 1.0)
}

fn busiest(means: &Means) -> f64 {
    means.op_busy.iter().chain(&means.move_busy).copied().fold(0.0, f64::max)
}

fn requests(means: &Means) -> f64 {
    means.at_op.iter().chain(&means.moving).sum()
}

/// Busy enough that one more request would wait.
const SATURATED: f64 = 0.95;

impl SystemReport {
    /// The report of runs of a system; there is one at least.
    pub fn new(parts: &SystemRuns<'_>) -> Self {
        let SystemRuns { system, runs, .. } = parts;
        let repeated = Repeated { runs, confidence: parts.confidence };
        let state = state(&repeated, system);
        Self {
            schema: SCHEMA,
            command: "simulate",
            workload: SystemBrief {
                source: parts.source.into(),
                n_targets: system.targets.len(),
                n_jobs: system.jobs.iter().map(|jobs| jobs.count).sum(),
                templates: system.templates.iter().map(|template| template.name.as_str().into()).collect(),
                frame_s: system.frame_s,
            },
            repetitions: runs.len(),
            seed: parts.seed,
            confidence: parts.confidence,
            system: SystemAnswer {
                frame: frame(&repeated, system),
                jobs: jobs(&repeated, parts),
                saturation: parts.saturation.as_ref().map(|clogs| clogged(clogs, system, &state)),
                state,
                what_if: what_if(&repeated, system),
                events: runs.iter().map(|run| run.n_events).sum(),
                method: parts.method,
                exact: parts.is_exact,
                grain: parts.grains.iter().copied().max().unwrap_or(1),
                grains: parts.grains.to_vec(),
            },
            losses: parts.losses.iter().map(|loss| loss.as_str().into()).collect(),
        }
    }
}

fn frame(repeated: &Repeated<'_>, system: &System) -> Frame {
    let n = system.templates.len();
    let by_template = |of: fn(&Means) -> &Vec<f64>| -> Vec<f64> {
        (0..n).map(|t| repeated.mean(|run| of(&run.frame)[t])).collect()
    };
    let (at_op, moving) = (by_template(|means| &means.at_op), by_template(|means| &means.moving));
    let share = |list: fn(&Means) -> &Vec<f64>, has: &dyn Fn(usize) -> bool| -> Option<f64> {
        let those: Vec<usize> = (0..system.targets.len()).filter(|target| has(*target)).collect();
        is_number(repeated.mean(|run| {
            those.iter().map(|target| list(&run.frame)[*target]).sum::<f64>() / those.len() as f64
        }))
    };
    let n_counted = repeated.runs.iter().map(|run| run.distribution_at_op.len()).max().unwrap_or(0);
    let burst: Vec<Option<Estimate>> =
        (0..n).map(|t| repeated.estimate(|run| run.frame.burst_s[t])).collect();
    Frame {
        at_op_total: at_op.iter().sum(),
        moving_total: moving.iter().sum(),
        at_op,
        moving,
        waiting: repeated.mean(|run| run.frame.waiting),
        op_utilization: share(|means| &means.op_busy, &|target| system.targets[target].iops.is_some()),
        bandwidth_utilization: share(|means| &means.move_busy, &|target| {
            system.targets[target].bandwidth_bps.is_some()
        }),
        iops: by_template(|means| &means.iops),
        bandwidth_bps: by_template(|means| &means.bandwidth_bps),
        burst_s: burst.iter().map(|burst| burst.map(|burst| burst.mean)).collect(),
        bandwidth_total_bps: repeated
            .estimate(|run| run.frame.bandwidth_bps.iter().sum())
            .unwrap_or(Estimate { mean: 0.0, interval: None }),
        requests_total: repeated
            .estimate(|run| requests(&run.frame))
            .unwrap_or(Estimate { mean: 0.0, interval: None }),
        burst,
        distribution_at_op: (0..n_counted)
            .map(|k| repeated.mean(|run| run.distribution_at_op.get(k).copied().unwrap_or(0.0)))
            .collect(),
    }
}

fn state(repeated: &Repeated<'_>, system: &System) -> Vec<State> {
    let n_steps = repeated.runs.first().map_or(0, |run| run.state.len());
    let of = |step: usize, of: &dyn Fn(&Means) -> f64| {
        repeated.estimate(|run| of(&run.state[step])).unwrap_or(Estimate { mean: 0.0, interval: None })
    };
    (0..n_steps)
        .map(|step| State {
            time_s: repeated.runs[0].state[step].span_s[1],
            waiting: of(step, &|means| means.waiting),
            requests: of(step, &requests),
            bandwidth_bps: of(step, &|means| means.bandwidth_bps.iter().sum()),
            bandwidth_by_template_bps: (0..system.templates.len())
                .map(|t| of(step, &|means| means.bandwidth_bps[t]).mean)
                .collect(),
            utilization: of(step, &busiest).mean,
        })
        .collect()
}

fn jobs(repeated: &Repeated<'_>, parts: &SystemRuns<'_>) -> Vec<SystemJob> {
    let jobs = parts.system.jobs.iter().enumerate().map(|(entry, jobs)| {
        let of_run = |run: &Run| run.entries.get(entry).copied();
        let template = &parts.system.templates[jobs.template];
        let of_frame = |run: &Run| run.frame.burst_s[jobs.template];
        let burst_s =
            is_number(repeated.mean(|run| of_run(run).map_or_else(|| of_frame(run), |(_, burst_s)| burst_s)));
        let alone_s = template.requests.and(is_number(parts.alone[jobs.template].burst_s));
        SystemJob {
            template: template.name.as_str().into(),
            count: jobs.count,
            bandwidth_bps: is_number(repeated.mean(|run| of_run(run).map_or(f64::NAN, |(bps, _)| bps))),
            burst_s,
            burst_alone_s: alone_s,
            // Without chance, a crowd of jobs takes turns better than jobs do.
            slowdown: burst_s
                .zip(alone_s)
                .filter(|_| parts.method != "mean-field")
                .map(|(burst_s, alone_s)| burst_s / alone_s),
        }
    });
    jobs.collect()
}

fn part_of_storage(target: usize, is_op: bool) -> String {
    format!("targets[{target}] {}", if is_op { "operations" } else { "bandwidth" })
}

fn clogged(clogs: &Saturation, system: &System, state: &[State]) -> SaturationEntry {
    let width_s = state.first().map_or(0.0, |first| first.time_s);
    SaturationEntry {
        bottleneck: part_of_storage(clogs.target, clogs.is_op),
        utilization: clogs.utilization,
        first_s: state
            .iter()
            .find(|step| step.utilization >= SATURATED)
            .map(|step| (step.time_s - width_s).max(0.0)),
        knee_jobs: clogs.knee_jobs,
        more_jobs: (system.templates.iter().zip(&clogs.more_jobs))
            .map(|(template, more)| (template.name.clone(), *more))
            .collect(),
    }
}

fn what_if(repeated: &Repeated<'_>, system: &System) -> Vec<WhatIf> {
    let n = repeated.runs.first().map_or(0, |run| run.stretches.len());
    let stretch = |index: usize| {
        let span_s = repeated.runs[0].stretches[index].span_s;
        let of = |of: &dyn Fn(&Means) -> f64| repeated.estimate(|run| of(&run.stretches[index]));
        Stretch {
            span_s,
            bandwidth_bps: of(&|means| means.bandwidth_bps.iter().sum()),
            waiting: of(&|means| if means.span_s[1] > means.span_s[0] { means.waiting } else { f64::NAN }),
            requests: of(&requests),
            burst_s: (0..system.templates.len())
                .map(|t| of(&|means| means.burst_s[t]).map(|burst| burst.mean))
                .collect(),
        }
    };
    let within = system.changes.iter().filter(|change| change.at_s < system.frame_s[1]);
    within
        .enumerate()
        .take(n.saturating_sub(1))
        .map(|(index, change)| {
            let (before, after) = (stretch(index), stretch(index + 1));
            WhatIf {
                change: in_words(&change.what, system),
                at_s: change.at_s,
                bandwidth_before_bps: before.bandwidth_bps.map(|bandwidth| bandwidth.mean),
                bandwidth_after_bps: after.bandwidth_bps.map(|bandwidth| bandwidth.mean),
                before,
                after,
            }
        })
        .collect()
}

fn in_words(what: &WhatChanges, system: &System) -> String {
    match what {
        WhatChanges::Lose(target) => format!("target {target} is lost"),
        WhatChanges::Restore(target) => format!("target {target} is back"),
        WhatChanges::Add { template, count } => {
            let name = Untrusted::from(&system.templates[*template].name).for_terminal();
            format!("{} of {name} more", text::counted(*count, "job"))
        }
        WhatChanges::Set(target, figures) => {
            let mut said = Vec::new();
            said.extend(figures.iops.map(|iops| format!("{} operations/s", text::digits(iops, 4))));
            said.extend(figures.bandwidth_bps.map(text::bandwidth));
            said.extend(figures.stream_bps.map(|bps| format!("{} a stream", text::bandwidth(bps))));
            format!("target {target} has {}", said.join(", "))
        }
    }
}

impl Estimate {
    /// The mean of what is a number, with a band; `None` if nothing is.
    fn of(values: impl Iterator<Item = f64>, confidence: f64) -> Option<Self> {
        let mut values: Vec<f64> = values.filter(|value| value.is_finite()).collect();
        if values.is_empty() {
            return None;
        }
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.sort_by(f64::total_cmp);
        let tail = 0.5 * (1.0 - confidence);
        let interval = (values.len() > 1).then(|| [ranked(&values, tail), ranked(&values, 1.0 - tail)]);
        Some(Self { mean, interval })
    }

    fn shown(&self, show: impl Fn(f64) -> String) -> String {
        match self.interval {
            Some([from, to]) if show(from) != show(to) => {
                format!("{} ({} to {})", show(self.mean), show(from), show(to))
            }
            _ => show(self.mean),
        }
    }
}

/// Returns a number in three digits.
pub fn plain(value: f64) -> String {
    text::digits(value, 3)
}

impl SystemReport {
    /// Returns the main result, in a sentence without a full stop.
    pub fn verdict(&self) -> String {
        let answer = &self.system;
        let bandwidth = answer.frame.bandwidth_total_bps.shown(text::bandwidth);
        let parts =
            [("bandwidth", answer.frame.bandwidth_utilization), ("servers", answer.frame.op_utilization)];
        let busiest = parts.iter().filter_map(|(name, busy)| Some((name, (*busy)?)));
        let busy = match busiest.max_by(|a, b| a.1.total_cmp(&b.1)) {
            Some((name, busy)) if busy >= SATURATED => {
                format!("the storage is saturated: {} of its {name} in use", text::percent(busy))
            }
            Some((name, busy)) => format!("{} of the storage's {name} in use", text::percent(busy)),
            None => "nothing of the storage is ever full".to_owned(),
        };
        let worst = answer.jobs.iter().filter_map(|job| Some((job.slowdown?, &job.template)));
        let slow = worst.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(slowdown, _)| *slowdown > 1.05);
        let slow = slow.map_or(String::new(), |(slowdown, template)| {
            format!("; bursts of {} take {} times as long as alone", template.for_terminal(), plain(slowdown))
        });
        format!("{bandwidth} on average, {busy}{slow}")
    }

    /// Returns what was run and how, in sentences.
    pub fn head_lines(&self) -> Vec<String> {
        let brief = &self.workload;
        let how = match self.system.method {
            "ssa" => format!(
                "{} of {} events in all, seed {}{}",
                text::counted(self.repetitions as u64, "repetition"),
                text::count(self.system.events),
                self.seed,
                match (self.system.grains.iter().min(), self.system.grain) {
                    (_, 1) => String::new(),
                    (Some(least), most) if *least < most => {
                        format!(", {least} to {most} requests a token")
                    }
                    (_, most) => format!(", {most} requests a token"),
                }
            ),
            "mva" if self.system.exact => "mean value analysis: the long run, exactly".to_owned(),
            "mva" => "mean value analysis: the long run, each burst taken for one piece of work".to_owned(),
            _ => "mean field: a crowd of jobs out of step, without chance".to_owned(),
        };
        vec![
            format!(
                "{}: {}, {} on {}, from {} to {}",
                brief.source.for_terminal(),
                text::counted(brief.templates.len() as u64, "template"),
                text::counted(brief.n_jobs, "job"),
                text::counted(brief.n_targets as u64, "target"),
                text::seconds(brief.frame_s[0]),
                text::seconds(brief.frame_s[1])
            ),
            how,
        ]
    }

    /// By template: its name and what its jobs get, as cells under [`TEMPLATE_HEAD`].
    pub fn template_rows(&self) -> Vec<[String; 6]> {
        let frame = &self.system.frame;
        (self.workload.templates.iter().enumerate())
            .map(|(t, name)| {
                let slowdown = self.system.jobs.iter().filter(|job| job.template.as_said() == name.as_said());
                let slowdown = slowdown.filter_map(|job| job.slowdown).fold(f64::NAN, f64::max);
                [
                    name.for_terminal(),
                    text::bandwidth(frame.bandwidth_bps[t]),
                    format!("{}/s", plain(frame.iops[t])),
                    plain(frame.at_op[t] + frame.moving[t]),
                    frame.burst[t].map_or("–".to_owned(), |burst| burst.shown(text::seconds)),
                    if slowdown.is_finite() { plain(slowdown) } else { "–".to_owned() },
                ]
            })
            .collect()
    }

    /// Returns where it clogs, in sentences.
    pub fn saturation_lines(&self) -> Vec<String> {
        let Some(clogs) = &self.system.saturation else { return Vec::new() };
        let mut lines = vec![format!(
            "{} clogs first: {} busy in the long run; full with {} jobs like these",
            clogs.bottleneck,
            text::percent(clogs.utilization),
            plain(clogs.knee_jobs)
        )];
        if let Some(first_s) = clogs.first_s {
            lines.push(format!("first full at {}", text::seconds(first_s)));
        }
        let room = clogs
            .more_jobs
            .iter()
            .map(|(name, more)| format!("{more} of {}", Untrusted::from(name).for_terminal()));
        lines.push(format!("room for more jobs: {}", room.collect::<Vec<_>>().join(", or ")));
        lines
    }

    /// Each change: what, when, and before and after, as cells under [`CHANGE_HEAD`].
    pub fn change_rows(&self) -> Vec<[String; 5]> {
        let cell = |estimate: &Option<Estimate>, show: fn(f64) -> String| {
            estimate.map_or("–".to_owned(), |estimate| estimate.shown(show))
        };
        (self.system.what_if.iter())
            .map(|what| {
                [
                    format!("{} at {}", what.change, text::seconds(what.at_s)),
                    cell(&what.before.bandwidth_bps, text::bandwidth),
                    cell(&what.after.bandwidth_bps, text::bandwidth),
                    cell(&what.before.requests, plain),
                    cell(&what.after.requests, plain),
                ]
            })
            .collect()
    }
}

/// The heads of [`SystemReport::template_rows`].
pub const TEMPLATE_HEAD: [&str; 6] =
    ["template", "bandwidth", "requests", "at the targets", "a burst takes", "times as alone"];
/// The heads of [`SystemReport::change_rows`].
pub const CHANGE_HEAD: [&str; 5] = ["what if", "bandwidth before", "after", "requests before", "after"];

/// Rows under a head, in columns.
fn aligned<const N: usize>(head: [&str; N], rows: &[[String; N]]) -> String {
    let mut all = vec![head.map(str::to_owned)];
    all.extend_from_slice(rows);
    let width = |column: usize| all.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let mut out = String::new();
    for row in &all {
        let mut line = String::from(" ");
        for (cell, width) in row.iter().zip(widths) {
            let _ = write!(line, " {cell}{}", " ".repeat(width + 1 - cell.chars().count()));
        }
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

impl Document for SystemReport {
    fn to_text(&self, width: usize, _: Ink) -> String {
        let mut out = String::new();
        let say = |out: &mut String, line: &str| {
            for line in text::wrap(line, width) {
                let _ = writeln!(out, "{line}");
            }
        };
        for line in self.head_lines() {
            say(&mut out, &line);
        }
        say(&mut out, &iotide_look::html::capitalised(&self.verdict()));
        out += &aligned(TEMPLATE_HEAD, &self.template_rows());
        for line in self.saturation_lines() {
            say(&mut out, &line);
        }
        if !self.system.what_if.is_empty() {
            out += &aligned(CHANGE_HEAD, &self.change_rows());
        }
        for loss in &self.losses {
            say(&mut out, &format!("not taken into account: {}", loss.for_terminal()));
        }
        out
    }

    fn to_json(&self) -> String {
        text::json_document(self)
    }
}
