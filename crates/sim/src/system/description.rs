//! System to simulate: targets, kinds of applications, who runs, and what changes on the way.

use iotide_num::SplitMix64;
use serde_json::Value;

use crate::fields::{Bound, Fields, WorkloadError, fault, read_frame};
use crate::workload::Workload;

/// More than this is a mistake rather than a machine.
const MOST_TARGETS: usize = 4096;
/// As above.
const MOST_TEMPLATES: usize = 4096;
/// As above.
const MOST_ENTRIES: usize = 1_000_000;
/// As above.
const MOST_JOBS: u64 = 10_000_000;
/// Without a frame, so much is looked at.
pub const USUAL_HORIZON_S: f64 = 600.0;

/// A storage target: a request is an operation first (a queue with servers), then bytes (a line that streams share).
#[derive(Clone, Debug, PartialEq, Default)]
#[cfg_attr(feature = "schema", derive(serde::Serialize))]
pub struct Target {
    /// Operations per second, of all servers together; `None`: an operation takes no time.
    pub iops: Option<f64>,
    /// How many operations it does at once.
    pub servers: u32,
    /// Largest bandwidth of one stream, in bytes per second.
    pub stream_bps: Option<f64>,
    /// Bytes per second of all streams together; `None`: as fast as its streams.
    pub bandwidth_bps: Option<f64>,
    /// How well the figures are known.
    pub errors: TargetErrors,
}

/// Standard deviations of logarithms; 0 is exactly known.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
#[allow(missing_docs)] // named as what they are errors of
#[cfg_attr(feature = "schema", derive(serde::Serialize))]
pub struct TargetErrors {
    pub iops: f64,
    pub stream_bps: f64,
    pub bandwidth_bps: f64,
}

impl Target {
    /// Whether bytes take time there.
    pub(super) fn moves(&self) -> bool {
        self.bandwidth_bps.is_some() || self.stream_bps.is_some()
    }

    /// Returns the bandwidth of each of `n` streams.
    pub(super) fn share_bps(&self, n: f64) -> f64 {
        let even = self.bandwidth_bps.map_or(f64::INFINITY, |bandwidth_bps| bandwidth_bps / n);
        even.min(self.stream_bps.unwrap_or(f64::INFINITY))
    }
}

/// A kind of application: computes, then does a burst of requests, over and over.
#[derive(Clone, Debug, PartialEq)]
pub struct Template {
    /// Its name.
    pub name: String,
    /// How long it computes between bursts.
    pub compute_s: f64,
    /// How long it communicates between bursts.
    pub mpi_s: f64,
    /// Relative standard deviation of both.
    pub compute_cv: f64,
    /// How many requests are out at once.
    pub processes: u64,
    /// Requests of a burst; `None`: it has no end.
    pub requests: Option<u64>,
    /// Bytes that a request moves.
    pub request_bytes: f64,
    /// How long a process thinks between two requests.
    pub think_s: f64,
    /// How many bursts; `None` goes on.
    pub iterations: Option<u64>,
    /// Whether it begins with a burst.
    pub starts_with_io: bool,
    /// How well the figures are known.
    pub errors: TemplateErrors,
}

/// Standard deviations of logarithms; 0 is exactly known.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
#[allow(missing_docs)] // named as what they are errors of
pub struct TemplateErrors {
    pub compute_s: f64,
    pub burst_bytes: f64,
    pub request_bytes: f64,
    pub think_s: f64,
}

impl Template {
    /// How many requests are out at once.
    pub(super) fn in_flight(&self) -> u64 {
        self.requests.map_or(self.processes, |requests| requests.min(self.processes))
    }

    /// Time between bursts.
    pub(super) fn between_s(&self) -> f64 {
        self.compute_s + self.mpi_s
    }

    /// Bytes of a burst; `None`: it has no end.
    pub fn burst_bytes(&self) -> Option<f64> {
        self.requests.map(|requests| requests as f64 * self.request_bytes)
    }
}

/// Jobs of one kind that are there.
#[derive(Clone, Debug, PartialEq)]
pub struct Jobs {
    /// Which template.
    pub template: usize,
    /// How many.
    pub count: u64,
    /// When they begin.
    pub start_s: f64,
    /// When their first burst begins, counted from their start: known of jobs that run; `None` is as the template says.
    pub next_phase_s: Option<f64>,
}

/// Jobs that come by chance.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrivals {
    /// Which template.
    pub template: usize,
    /// How many a second.
    pub per_s: f64,
}

/// Something that changes at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// When.
    pub at_s: f64,
    /// Kind of the change.
    pub what: WhatChanges,
}

/// Kind of a change.
#[derive(Clone, Debug, PartialEq)]
pub enum WhatChanges {
    /// A target is gone.
    Lose(usize),
    /// It is back.
    Restore(usize),
    /// Jobs of a template come.
    Add {
        /// Which.
        template: usize,
        /// How many.
        count: u64,
    },
    /// A target has other figures from now on.
    Set(usize, Target),
}

/// A system: storage and who uses it.
#[derive(Clone, Debug, PartialEq)]
pub struct System {
    /// The storage; a request goes to one of those that live, by chance.
    pub targets: Vec<Target>,
    /// Kinds of applications.
    pub templates: Vec<Template>,
    /// Who is there, or will be.
    pub jobs: Vec<Jobs>,
    /// Who may come.
    pub arrivals: Vec<Arrivals>,
    /// Changes, in the order of time.
    pub changes: Vec<Change>,
    /// From when to when means are taken.
    pub frame_s: [f64; 2],
}

impl System {
    /// Reads a description; see `docs/system.md`. A workload of [`crate::Workload::from_json`] is taken, too.
    pub fn from_json(text: &str) -> Result<Self, WorkloadError> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| fault("", format!("is not JSON: {error}")))?;
        if value.get("bandwidth_bps").is_some() && value.get("storage").is_none() {
            return Self::of_periodic_jobs(&Workload::from_json(text)?);
        }
        let fields = Fields::of(
            "",
            &value,
            &[
                "schema",
                "command",
                "storage",
                "templates",
                "jobs",
                "arrivals",
                "events",
                "frame_s",
                "losses",
                "runs",
                "p_ref",
            ],
        )?;
        let storage = fields.get("storage").ok_or_else(|| fields.missing("storage"))?;
        let storage = Fields::of(
            "storage",
            storage,
            &["targets", "iops", "servers", "bandwidth_bps", "stream_bps", "errors", "at_least", "spread"],
        )?;
        let targets: Vec<Target> = (storage.list("targets", MOST_TARGETS)?.iter().enumerate())
            .map(|(i, value)| read_target(&format!("storage.targets[{i}]"), value))
            .collect::<Result<_, _>>()?;
        let templates: Vec<Template> = (fields.list("templates", MOST_TEMPLATES)?.iter().enumerate())
            .map(|(i, value)| read_template(i, value))
            .collect::<Result<_, _>>()?;
        let mut system = Self {
            targets,
            templates,
            jobs: Vec::new(),
            arrivals: Vec::new(),
            changes: Vec::new(),
            frame_s: fields.get("frame_s").map_or(Ok([0.0, USUAL_HORIZON_S]), read_frame)?,
        };
        for (i, value) in fields.list("jobs", MOST_ENTRIES)?.iter().enumerate() {
            let jobs = system.read_jobs(&format!("jobs[{i}]"), value)?;
            system.jobs.push(jobs);
        }
        for (i, value) in fields.list("arrivals", MOST_ENTRIES)?.iter().enumerate() {
            let place = format!("arrivals[{i}]");
            let fields = Fields::of(&place, value, &["template", "per_s"])?;
            let template = system.template_at(&fields, "template")?;
            let per_s = fields.number("per_s", Bound::Positive)?.ok_or_else(|| fields.missing("per_s"))?;
            system.arrivals.push(Arrivals { template, per_s });
        }
        for (i, value) in fields.list("events", MOST_ENTRIES)?.iter().enumerate() {
            let change = system.read_change(&format!("events[{i}]"), value)?;
            system.changes.push(change);
        }
        system.in_order();
        system.check()?;
        Ok(system)
    }

    /// Periodic jobs on one storage, as requests of 1 MiB of eight processes each.
    pub fn of_periodic_jobs(workload: &Workload) -> Result<Self, WorkloadError> {
        const REQUEST_BYTES: f64 = (1u64 << 20) as f64;
        let mut system = Self {
            targets: vec![Target {
                servers: 1,
                bandwidth_bps: Some(workload.bandwidth_bps),
                ..Target::default()
            }],
            templates: Vec::new(),
            jobs: Vec::new(),
            arrivals: Vec::new(),
            changes: Vec::new(),
            frame_s: workload.frame_s,
        };
        for job in &workload.jobs {
            let requests = (job.io_bytes / REQUEST_BYTES).ceil().max(1.0);
            let template = Template {
                name: job.name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end().to_owned(),
                compute_s: job.compute_s,
                mpi_s: 0.0,
                compute_cv: job.jitter,
                processes: 8,
                requests: Some(requests as u64),
                request_bytes: job.io_bytes / requests,
                think_s: 0.0,
                iterations: job.iterations,
                starts_with_io: false,
                errors: TemplateErrors::default(),
            };
            let template = system.index_of_kind(template);
            match system.jobs.last_mut() {
                Some(last) if last.template == template && last.start_s == job.start_s => last.count += 1,
                _ => system.jobs.push(Jobs { template, count: 1, start_s: job.start_s, next_phase_s: None }),
            }
        }
        system.check()?;
        Ok(system)
    }

    /// The template that is the same but for its name; a new one, if there is none.
    fn index_of_kind(&mut self, mut template: Template) -> usize {
        let same = self
            .templates
            .iter()
            .position(|known| Template { name: known.name.clone(), ..template.clone() } == *known);
        same.unwrap_or_else(|| {
            if self.templates.iter().any(|known| known.name == template.name) {
                template.name = format!("{} {}", template.name, self.templates.len() + 1);
            }
            self.templates.push(template);
            self.templates.len() - 1
        })
    }

    /// The template of a name.
    pub fn template(&self, name: &str) -> Option<usize> {
        self.templates.iter().position(|template| template.name == name)
    }

    /// Something else changes, too.
    pub fn with_change(mut self, change: Change) -> Result<Self, WorkloadError> {
        match change {
            // Who is there from the beginning is no change.
            Change { at_s: 0.0, what: WhatChanges::Add { template, count } } => {
                self.jobs.push(Jobs { template, count, start_s: 0.0, next_phase_s: None });
            }
            change => self.changes.push(change),
        }
        self.in_order();
        self.check()?;
        Ok(self)
    }

    fn in_order(&mut self) {
        self.changes.sort_by(|a, b| a.at_s.total_cmp(&b.at_s));
    }

    fn template_at(&self, fields: &Fields<'_>, name: &str) -> Result<usize, WorkloadError> {
        let named = fields.text(name)?.ok_or_else(|| fields.missing(name))?;
        self.template(named).ok_or_else(|| {
            fault(&fields.at(name), format!("is {named:?}: there is no template of this name"))
        })
    }

    fn read_jobs(&self, place: &str, value: &Value) -> Result<Jobs, WorkloadError> {
        let fields = Fields::of(place, value, &["template", "count", "start_s", "next_phase_s"])?;
        Ok(Jobs {
            template: self.template_at(&fields, "template")?,
            count: fields.count("count")?.unwrap_or(1),
            start_s: fields.number("start_s", Bound::NotNegative)?.unwrap_or(0.0),
            next_phase_s: fields.number("next_phase_s", Bound::NotNegative)?,
        })
    }

    fn read_change(&self, place: &str, value: &Value) -> Result<Change, WorkloadError> {
        let fields = Fields::of(
            place,
            value,
            &["at_s", "lose_target", "restore_target", "add", "count", "set_target", "target"],
        )?;
        let at_s = fields.number("at_s", Bound::NotNegative)?.ok_or_else(|| fields.missing("at_s"))?;
        let target = |name: &str| -> Result<Option<usize>, WorkloadError> {
            let Some(value) = fields.get(name) else { return Ok(None) };
            let index = value.as_u64().and_then(|index| usize::try_from(index).ok());
            match index.filter(|index| *index < self.targets.len()) {
                Some(index) => Ok(Some(index)),
                None => Err(fault(
                    &fields.at(name),
                    format!("is {value}: there are {} targets, from 0", self.targets.len()),
                )),
            }
        };
        let what = if let Some(lost) = target("lose_target")? {
            WhatChanges::Lose(lost)
        } else if let Some(back) = target("restore_target")? {
            WhatChanges::Restore(back)
        } else if let Some(index) = target("set_target")? {
            let figures = fields.get("target").ok_or_else(|| fields.missing("target"))?;
            WhatChanges::Set(index, read_target(&fields.at("target"), figures)?)
        } else {
            WhatChanges::Add {
                template: self.template_at(&fields, "add")?,
                count: fields.count("count")?.unwrap_or(1),
            }
        };
        Ok(Change { at_s, what })
    }

    /// Says what cannot be simulated.
    fn check(&self) -> Result<(), WorkloadError> {
        if self.targets.is_empty() {
            return Err(fault("storage.targets", "is empty"));
        }
        if self.templates.is_empty() {
            return Err(fault("templates", "is empty"));
        }
        let n_jobs: u64 = self.jobs.iter().map(|jobs| jobs.count).fold(0, u64::saturating_add);
        if n_jobs > MOST_JOBS {
            return Err(fault("jobs", format!("are {n_jobs}, more than {MOST_JOBS}")));
        }
        for (i, template) in self.templates.iter().enumerate() {
            if self.templates[..i].iter().any(|earlier| earlier.name == template.name) {
                let place = format!("templates[{i}].name");
                return Err(fault(&place, format!("{:?} is there twice", template.name)));
            }
            if template.think_s > 0.0 {
                continue;
            }
            let takes_time =
                |target: &Target| target.iops.is_some() || (target.moves() && template.request_bytes > 0.0);
            let changed = self.changes.iter().enumerate().filter_map(|(i, change)| match &change.what {
                WhatChanges::Set(_, target) => Some((format!("events[{i}].target"), target)),
                _ => None,
            });
            let targets = self.targets.iter().enumerate();
            let mut targets =
                targets.map(|(i, target)| (format!("storage.targets[{i}]"), target)).chain(changed);
            if let Some((place, _)) = targets.find(|(_, target)| !takes_time(target)) {
                return Err(fault(
                    &format!("templates[{i}]"),
                    format!(
                        "takes no time at {place}, nor between requests: its requests would go round without the clock going on"
                    ),
                ));
            }
        }
        Ok(())
    }

    /// The same system with figures as they may be, given how well they are known.
    pub fn drawn(&self, random: &mut SplitMix64) -> Self {
        let mut drawn = self.clone();
        let mut draw = |value: &mut f64, error: f64| {
            if error > 0.0 {
                *value *= (error * random.normal()).exp();
            }
        };
        for target in &mut drawn.targets {
            let errors = target.errors;
            for (value, error) in [
                (&mut target.iops, errors.iops),
                (&mut target.bandwidth_bps, errors.bandwidth_bps),
                (&mut target.stream_bps, errors.stream_bps),
            ] {
                if let Some(value) = value {
                    draw(value, error);
                }
            }
        }
        for template in &mut drawn.templates {
            let errors = template.errors;
            draw(&mut template.compute_s, errors.compute_s);
            draw(&mut template.mpi_s, errors.compute_s);
            draw(&mut template.request_bytes, errors.request_bytes);
            draw(&mut template.think_s, errors.think_s);
            if let Some(requests) = &mut template.requests {
                let mut wanted = *requests as f64;
                draw(&mut wanted, errors.burst_bytes);
                *requests = (wanted.round() as u64).max(1);
            }
        }
        drawn
    }

    /// Whether anything is not exactly known.
    pub fn is_uncertain(&self) -> bool {
        self.targets.iter().any(|target| target.errors != TargetErrors::default())
            || self.templates.iter().any(|template| template.errors != TemplateErrors::default())
    }
}

fn read_target(place: &str, value: &Value) -> Result<Target, WorkloadError> {
    let fields = Fields::of(place, value, &["iops", "servers", "bandwidth_bps", "stream_bps", "errors"])?;
    let servers = fields.count("servers")?.unwrap_or(1);
    let errors = match fields.get("errors") {
        None => TargetErrors::default(),
        Some(value) => {
            let place = fields.at("errors");
            let fields = Fields::of(&place, value, &["iops", "bandwidth_bps", "stream_bps"])?;
            let error = |name| Ok(fields.number(name, Bound::NotNegative)?.unwrap_or(0.0));
            TargetErrors {
                iops: error("iops")?,
                bandwidth_bps: error("bandwidth_bps")?,
                stream_bps: error("stream_bps")?,
            }
        }
    };
    Ok(Target {
        iops: fields.number("iops", Bound::Positive)?,
        servers: u32::try_from(servers)
            .map_err(|_| fault(&fields.at("servers"), format!("is {servers}: too many")))?,
        bandwidth_bps: fields.number("bandwidth_bps", Bound::Positive)?,
        stream_bps: fields.number("stream_bps", Bound::Positive)?,
        errors,
    })
}

fn read_template(index: usize, value: &Value) -> Result<Template, WorkloadError> {
    const NAMES: [&str; 16] = [
        "name",
        "compute_s",
        "compute_cv",
        "mpi_s",
        "processes",
        "requests",
        "burst_bytes",
        "request_bytes",
        "think_s",
        "iterations",
        "start",
        "errors",
        "burst_s",
        "runs",
        "cautions",
        "steady",
    ];
    let place = format!("templates[{index}]");
    let fields = Fields::of(&place, value, &NAMES)?;
    let number = |name: &str, bound| Ok::<f64, WorkloadError>(fields.number(name, bound)?.unwrap_or(0.0));
    let request_bytes = number("request_bytes", Bound::NotNegative)?;
    let requests = match (fields.map.get("requests"), fields.number("burst_bytes", Bound::NotNegative)?) {
        (Some(Value::Null), _) => None,
        (Some(_), _) => fields.count("requests")?,
        (None, Some(bytes)) if request_bytes > 0.0 => Some(((bytes / request_bytes).round() as u64).max(1)),
        (None, Some(_)) => return Err(fields.missing("request_bytes")),
        (None, None) => return Err(fields.missing("requests")),
    };
    let compute_cv = fields.number("compute_cv", Bound::NotNegative)?.unwrap_or(USUAL_CV);
    let starts_with_io = match fields.text("start")? {
        None | Some("compute") => false,
        Some("io") => true,
        Some(other) => {
            return Err(fault(&fields.at("start"), format!("is {other:?}, neither \"compute\" nor \"io\"")));
        }
    };
    let errors = match fields.get("errors") {
        None => TemplateErrors::default(),
        Some(value) => {
            let place = fields.at("errors");
            let names = ["compute_s", "burst_bytes", "request_bytes", "think_s"];
            let fields = Fields::of(&place, value, &names)?;
            let error =
                |name| Ok::<f64, WorkloadError>(fields.number(name, Bound::NotNegative)?.unwrap_or(0.0));
            TemplateErrors {
                compute_s: error("compute_s")?,
                burst_bytes: error("burst_bytes")?,
                request_bytes: error("request_bytes")?,
                think_s: error("think_s")?,
            }
        }
    };
    Ok(Template {
        name: fields.text("name")?.map_or_else(|| format!("template {index}"), str::to_owned),
        compute_s: number("compute_s", Bound::NotNegative)?,
        mpi_s: number("mpi_s", Bound::NotNegative)?,
        compute_cv,
        processes: fields.count("processes")?.unwrap_or(1),
        requests,
        request_bytes,
        think_s: number("think_s", Bound::NotNegative)?,
        iterations: fields.count("iterations")?,
        starts_with_io,
        errors,
    })
}

/// Where the description has no regularity of computing: a tenth, about what is seen of periodic programs.
const USUAL_CV: f64 = 0.1;
