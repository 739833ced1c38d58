//! Jobs submitted to a machine, as JSON describes them.

use std::collections::{BTreeMap, HashSet};

use iotide_sched::jobs::{BatchJob, EstimateErrors, IoNodes, JobKind, ResizeCost, Speedup};
use serde_json::Value;

use crate::fields::{Bound, Fields, WorkloadError, fault};

/// A machine, and what is submitted to it.
#[derive(Clone, Debug, PartialEq)]
pub struct JobsWorkload {
    /// How many nodes there are.
    pub nodes: u32,
    /// Cost of a change of size for a job.
    pub cost: ResizeCost,
    /// The storage that jobs share; without it their I/O takes the time it takes alone.
    pub storage: Option<SharedStorage>,
    /// When nodes fail.
    pub failures: Vec<NodeFailure>,
    /// The jobs, in any order.
    pub jobs: Vec<SubmittedJob>,
}

/// A storage that jobs share.
#[derive(Clone, Debug, PartialEq)]
pub struct SharedStorage {
    /// Bandwidth that all get together.
    pub bandwidth_bps: f64,
    /// Largest bandwidth of one node.
    pub node_bps: f64,
    /// The nodes of the machine that serve it, with what all get together at each number of them; `None` if none of the machine's do.
    pub io_nodes: Option<IoNodes>,
    /// The model of its bandwidth against I/O nodes that is to be looked up, by name.
    pub model: Option<String>,
}

impl SharedStorage {
    /// One that no node of the machine serves.
    pub fn beside(bandwidth_bps: f64, node_bps: f64) -> Self {
        Self { bandwidth_bps, node_bps, io_nodes: None, model: None }
    }
}

/// Who says what decisions are based on (ADMIRE D5.5, section 3.1): how far it can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FigureClass {
    /// The resource manager counts it: it is so.
    Manager,
    /// Earlier runs were like that: traces, profiles, models of them.
    Runs,
    /// A user says so.
    User,
}

impl FigureClass {
    /// The words for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Manager => "resource manager",
            Self::Runs => "earlier runs",
            Self::User => "user",
        }
    }
}

/// A node that fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeFailure {
    /// Which; the first is 0.
    pub node: u32,
    /// When.
    pub at_ms: i64,
    /// How long until it is back.
    pub repair_ms: i64,
}

/// A job as it was submitted.
#[derive(Clone, Debug, PartialEq)]
pub struct SubmittedJob {
    /// Its name in answers.
    pub id: JobLabel,
    /// Its name; jobs of one application share it.
    pub name: Option<String>,
    /// Job as the scheduler sees it; sizes are not cut to the machine yet.
    pub batch: BatchJob,
    /// Whether its limit was stated, and holds even if storage is slow.
    pub has_limit: bool,
    /// When its user takes it back.
    pub cancel_ms: Option<i64>,
    /// Into how many phases its I/O is divided.
    pub io_phases: u32,
    /// An evolving job asks for so many nodes once this share of it is done.
    pub requests: Vec<(f64, u32)>,
    /// The model of its time that is to be looked up, by name.
    pub model: Option<String>,
    /// Who says how its time changes with its size.
    pub scaling_class: FigureClass,
    /// Who says what it reads and writes.
    pub io_class: FigureClass,
}

/// Label of a job in a log: numbers stay numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JobLabel {
    /// As most batch systems do.
    Number(u64),
    /// As others do.
    Text(String),
}

impl std::fmt::Display for JobLabel {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(out, "{number}"),
            Self::Text(text) => out.write_str(text),
        }
    }
}

/// More nodes than this are a mistake rather than a machine.
pub const MOST_NODES: u64 = 1 << 24;

/// More jobs than this are a mistake rather than a log.
pub const MOST_JOBS: usize = 10_000_000;

/// 146 years, as for every other clock.
const MOST_SECONDS: f64 = 4.6e9;

/// A job's I/O is divided into at most so many phases.
pub(super) const MOST_PHASES: u64 = 1_000_000;

impl SubmittedJob {
    /// Returns a rigid job with a limit that it needs wholly.
    pub fn rigid(id: JobLabel, submit_s: f64, nodes: u32, runtime_s: f64) -> Self {
        let runtime_ms = runtime_s * 1e3;
        let batch = BatchJob {
            kind: JobKind::Rigid,
            submit_ms: (submit_s * 1e3).round() as i64,
            nodes,
            nodes_min: nodes,
            nodes_max: nodes,
            reference_nodes: nodes,
            runtime_ms,
            walltime_ms: runtime_ms,
            recorded_ms: runtime_ms,
            priority: 0,
            speedup: Speedup::SerialFraction(0.0),
            io_bytes: None,
            errors: EstimateErrors::default(),
        };
        Self {
            id,
            name: None,
            batch,
            has_limit: false,
            cancel_ms: None,
            io_phases: 1,
            requests: Vec::new(),
            model: None,
            scaling_class: FigureClass::User,
            io_class: FigureClass::User,
        }
    }
}

impl JobsWorkload {
    /// How many nodes jobs can count on: those that do not serve the storage.
    pub fn compute_nodes(&self) -> u32 {
        let io_nodes = self.storage.as_ref().and_then(|storage| storage.io_nodes.as_ref());
        self.nodes.saturating_sub(io_nodes.map_or(0, |io_nodes| io_nodes.usual))
    }

    /// Reads a workload; docs/jobs.md says how to write one. A field that is not known is an error.
    pub fn from_json(text: &str) -> Result<Self, WorkloadError> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| fault("", format!("is not JSON: {error}")))?;
        const NAMES: [&str; 6] = ["nodes", "alpha_s", "alpha_per_node_s", "storage", "failures", "jobs"];
        let fields = Fields::of("", &value, &NAMES)?;
        let nodes = size(&fields, "nodes")?.ok_or_else(|| fields.missing("nodes"))?;
        let cost = ResizeCost {
            fixed_ms: 1e3 * seconds(&fields, "alpha_s")?.unwrap_or(0.0),
            per_node_ms: 1e3 * seconds(&fields, "alpha_per_node_s")?.unwrap_or(0.0),
        };
        let storage = match given(&fields, "storage") {
            None => None,
            Some(value) => Some(read_storage(value, nodes)?),
        };
        let mut failures = Vec::new();
        for (i, value) in list(&fields, "failures")?.iter().enumerate() {
            failures.push(read_failure(&format!("failures[{i}]"), value, nodes)?);
        }
        let described = list(&fields, "jobs")?;
        if described.is_empty() {
            return Err(fault("jobs", "is not a list of jobs"));
        }
        if described.len() > MOST_JOBS {
            return Err(fault("jobs", format!("has more than {MOST_JOBS} jobs")));
        }
        let mut ids = HashSet::new();
        let mut jobs = Vec::with_capacity(described.len());
        for (i, value) in described.iter().enumerate() {
            let place = format!("jobs[{i}]");
            let job = read_job(&place, value, i)?;
            // 1 and "1" are printed alike.
            if !ids.insert(job.id.to_string()) {
                return Err(fault(
                    &format!("{place}.id"),
                    format!("{} is the id of another job, too", job.id),
                ));
            }
            jobs.push(job);
        }
        Ok(Self { nodes, cost, storage, failures, jobs })
    }
}

fn given<'a>(fields: &Fields<'a>, name: &str) -> Option<&'a Value> {
    fields.map.get(name).filter(|value| !value.is_null())
}

fn list<'a>(fields: &Fields<'a>, name: &str) -> Result<&'a [Value], WorkloadError> {
    match given(fields, name) {
        None => Ok(&[]),
        Some(Value::Array(values)) => Ok(values),
        Some(_) => Err(fault(&fields.at(name), "is not a list")),
    }
}

fn seconds(fields: &Fields<'_>, name: &str) -> Result<Option<f64>, WorkloadError> {
    match fields.number(name, Bound::NotNegative)? {
        Some(value) if value > MOST_SECONDS => {
            Err(fault(&fields.at(name), format!("is {value}, but must be at most {MOST_SECONDS} s")))
        }
        value => Ok(value),
    }
}

fn moment_ms(fields: &Fields<'_>, name: &str) -> Result<Option<i64>, WorkloadError> {
    Ok(seconds(fields, name)?.map(|at_s| (at_s * 1e3).round() as i64))
}

fn size(fields: &Fields<'_>, name: &str) -> Result<Option<u32>, WorkloadError> {
    match fields.count(name)? {
        Some(count) if count > MOST_NODES => {
            Err(fault(&fields.at(name), format!("is {count}, but must be at most {MOST_NODES} nodes")))
        }
        count => Ok(count.map(|count| count as u32)),
    }
}

fn read_storage(value: &Value, nodes: u32) -> Result<SharedStorage, WorkloadError> {
    const NAMES: [&str; 6] =
        ["bandwidth_bps", "node_bps", "io_nodes", "io_nodes_min", "io_nodes_max", "model"];
    let fields = Fields::of("storage", value, &NAMES)?;
    let node_bps = fields.number("node_bps", Bound::Positive)?;
    let model = text(&fields, "model")?.map(str::to_owned);
    let stated = given(&fields, "bandwidth_bps");
    let Some(usual) = size(&fields, "io_nodes")? else {
        for name in ["io_nodes_min", "io_nodes_max", "model"] {
            if given(&fields, name).is_some() {
                return Err(fault("storage", format!("has {name}, but no io_nodes")));
            }
        }
        if stated.is_some_and(Value::is_object) {
            return Err(fault("storage.bandwidth_bps", "is a table, but there are no io_nodes"));
        }
        let bandwidth_bps = fields.number("bandwidth_bps", Bound::Positive)?;
        let bandwidth_bps = bandwidth_bps.ok_or_else(|| fields.missing("bandwidth_bps"))?;
        return Ok(SharedStorage::beside(bandwidth_bps, node_bps.unwrap_or(bandwidth_bps)));
    };
    let min = size(&fields, "io_nodes_min")?.unwrap_or(usual);
    let max = size(&fields, "io_nodes_max")?.unwrap_or(usual);
    if !(min <= usual && usual <= max && max < nodes) {
        let said = format!("has {usual} of {min}…{max} I/O nodes; jobs need some of the {nodes}, too");
        return Err(fault("storage", said));
    }
    let bandwidths = match (stated, &model) {
        (Some(_), Some(_)) => return Err(fault("storage", "has both bandwidth_bps and model")),
        (None, None) => return Err(fields.missing("bandwidth_bps")),
        // Looked up later.
        (None, Some(_)) => Vec::new(),
        (Some(Value::Object(_)), None) => table(&fields, "bandwidth_bps", "bandwidth", f64::MAX)?,
        (Some(_), None) => {
            let bps = fields.number("bandwidth_bps", Bound::Positive)?.unwrap_or(0.0);
            [1, usual, max.max(usual + 1)].map(|n| (n, bps * f64::from(n) / f64::from(usual))).to_vec()
        }
    };
    let io_nodes = IoNodes { now: usual, usual, min, max, bandwidths };
    let bandwidth_bps = io_nodes.bandwidth_bps(usual);
    let node_bps = node_bps.unwrap_or(f64::INFINITY);
    Ok(SharedStorage { bandwidth_bps, node_bps, io_nodes: Some(io_nodes), model })
}

/// An object of numbers of nodes and what holds there.
fn table(fields: &Fields<'_>, name: &str, what: &str, most: f64) -> Result<Vec<(u32, f64)>, WorkloadError> {
    let place = fields.at(name);
    let Some(Value::Object(stated)) = given(fields, name) else {
        return Err(fault(&place, format!("is not an object of sizes and {what}s")));
    };
    let mut table = BTreeMap::new();
    for (nodes, value) in stated {
        let size = nodes.parse::<u32>().ok().filter(|&n| n >= 1 && u64::from(n) <= MOST_NODES);
        let size = size.ok_or_else(|| fault(&place, format!("{nodes:?} is not a number of nodes")))?;
        let value = value.as_f64().filter(|&value| value > 0.0 && value <= most);
        let value =
            value.ok_or_else(|| fault(&format!("{place}.{nodes}"), format!("is not a positive {what}")))?;
        if table.insert(size, value).is_some() {
            return Err(fault(&place, format!("has {size} nodes twice")));
        }
    }
    if table.is_empty() {
        return Err(fault(&place, format!("has no {what}s")));
    }
    Ok(table.into_iter().collect())
}

fn read_failure(place: &str, value: &Value, nodes: u32) -> Result<NodeFailure, WorkloadError> {
    let fields = Fields::of(place, value, &["node", "at_s", "repair_s"])?;
    let node = match given(&fields, "node").map(Value::as_u64) {
        None => return Err(fields.missing("node")),
        Some(Some(node)) if node < u64::from(nodes) => node as u32,
        Some(_) => {
            return Err(fault(&fields.at("node"), format!("is not a node: there are 0 to {}", nodes - 1)));
        }
    };
    let at_ms = moment_ms(&fields, "at_s")?.ok_or_else(|| fields.missing("at_s"))?;
    let repair_ms = moment_ms(&fields, "repair_s")?.ok_or_else(|| fields.missing("repair_s"))?;
    Ok(NodeFailure { node, at_ms, repair_ms })
}

const JOB_FIELDS: [&str; 17] = [
    "id",
    "name",
    "kind",
    "submit_s",
    "nodes",
    "nodes_min",
    "nodes_max",
    "runtime_s",
    "walltime_s",
    "recorded_s",
    "priority",
    "serial_fraction",
    "times_s",
    "model",
    "cancel_s",
    "io",
    "requests",
];

fn read_job(place: &str, value: &Value, at: usize) -> Result<SubmittedJob, WorkloadError> {
    let fields = Fields::of(place, value, &JOB_FIELDS)?;
    let id = match given(&fields, "id") {
        None => JobLabel::Number(at as u64 + 1),
        Some(Value::String(text)) => JobLabel::Text(text.clone()),
        Some(value) => match value.as_u64() {
            Some(number) => JobLabel::Number(number),
            None => return Err(fault(&fields.at("id"), "is neither a text nor a whole number")),
        },
    };
    let kind = match text(&fields, "kind")? {
        None => JobKind::Rigid,
        Some(name) => JobKind::from_name(name).ok_or_else(|| {
            fault(&fields.at("kind"), format!("{name:?} is none of rigid, moldable, malleable, evolving"))
        })?,
    };
    let nodes = size(&fields, "nodes")?.ok_or_else(|| fields.missing("nodes"))?;
    let (nodes_min, nodes_max) = match kind {
        JobKind::Rigid => (nodes, nodes),
        _ => (size(&fields, "nodes_min")?.unwrap_or(nodes), size(&fields, "nodes_max")?.unwrap_or(nodes)),
    };
    if !(nodes_min <= nodes && nodes <= nodes_max) {
        return Err(fault(place, format!("prefers {nodes} nodes, which is not in {nodes_min}…{nodes_max}")));
    }
    let ms = |name: &str| Ok::<_, WorkloadError>(seconds(&fields, name)?.map(|time_s| time_s * 1e3));
    let runtime_ms = ms("runtime_s")?.ok_or_else(|| fields.missing("runtime_s"))?;
    let walltime_ms = ms("walltime_s")?;
    let priority = match given(&fields, "priority") {
        None => 0,
        Some(value) => {
            value.as_i64().ok_or_else(|| fault(&fields.at("priority"), "is not a whole number"))?
        }
    };
    let (io_bytes, io_phases) = match given(&fields, "io") {
        None => (None, 1),
        Some(value) => read_io(&fields.at("io"), value)?,
    };
    let mut requests = Vec::new();
    for (i, value) in list(&fields, "requests")?.iter().enumerate() {
        requests.push(read_request(&format!("{place}.requests[{i}]"), value)?);
    }
    if !requests.is_empty() && kind != JobKind::Evolving {
        return Err(fault(place, format!("has requests, but is {}, not evolving", kind.name())));
    }
    requests.sort_by(|a, b| a.0.total_cmp(&b.0));
    let batch = BatchJob {
        kind,
        submit_ms: moment_ms(&fields, "submit_s")?.ok_or_else(|| fields.missing("submit_s"))?,
        nodes,
        nodes_min,
        nodes_max,
        reference_nodes: nodes,
        runtime_ms,
        walltime_ms: walltime_ms.unwrap_or(runtime_ms),
        recorded_ms: ms("recorded_s")?.unwrap_or(runtime_ms),
        priority,
        speedup: read_speedup(&fields)?,
        io_bytes,
        errors: EstimateErrors::default(),
    };
    let model = text(&fields, "model")?.map(str::to_owned);
    Ok(SubmittedJob {
        id,
        name: text(&fields, "name")?.map(str::to_owned),
        batch,
        has_limit: walltime_ms.is_some(),
        cancel_ms: moment_ms(&fields, "cancel_s")?,
        io_phases,
        requests,
        scaling_class: if model.is_some() { FigureClass::Runs } else { FigureClass::User },
        io_class: FigureClass::User,
        model,
    })
}

fn text<'a>(fields: &Fields<'a>, name: &str) -> Result<Option<&'a str>, WorkloadError> {
    match given(fields, name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(fault(&fields.at(name), "is not a text")),
    }
}

fn read_speedup(fields: &Fields<'_>) -> Result<Speedup, WorkloadError> {
    let stated: Vec<&str> = ["serial_fraction", "times_s", "model"]
        .into_iter()
        .filter(|name| given(fields, name).is_some())
        .collect();
    if let [one, other, ..] = stated[..] {
        return Err(fault(fields.place, format!("has both {one} and {other}")));
    }
    if given(fields, "times_s").is_some() {
        return Ok(Speedup::Times(table(fields, "times_s", "time", MOST_SECONDS)?));
    }
    let serial = fields.number("serial_fraction", Bound::NotNegative)?.unwrap_or(0.0);
    if serial > 1.0 {
        return Err(fault(&fields.at("serial_fraction"), format!("is {serial}, but must be at most 1")));
    }
    Ok(Speedup::SerialFraction(serial))
}

fn read_io(place: &str, value: &Value) -> Result<(Option<f64>, u32), WorkloadError> {
    let fields = Fields::of(place, value, &["bytes", "phases"])?;
    let bytes = fields.number("bytes", Bound::NotNegative)?.ok_or_else(|| fields.missing("bytes"))?;
    let phases = fields.count("phases")?.unwrap_or(1);
    if phases > MOST_PHASES {
        return Err(fault(&fields.at("phases"), format!("is {phases}, but must be at most {MOST_PHASES}")));
    }
    Ok((Some(bytes), phases as u32))
}

fn read_request(place: &str, value: &Value) -> Result<(f64, u32), WorkloadError> {
    let fields = Fields::of(place, value, &["at", "nodes"])?;
    let at = fields.number("at", Bound::NotNegative)?.ok_or_else(|| fields.missing("at"))?;
    if at >= 1.0 {
        return Err(fault(&fields.at("at"), format!("is {at}, but a job is over at 1")));
    }
    Ok((at, size(&fields, "nodes")?.ok_or_else(|| fields.missing("nodes"))?))
}
