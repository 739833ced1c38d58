//! A job and its two storages, described as JSON.

use serde_json::Value;

use crate::fields::{Bound, Fields, WorkloadError, fault};

/// A job that computes and then writes into a buffer, over and over.
#[derive(Clone, Debug, PartialEq)]
pub struct StagingWorkload {
    /// Parts of the job, one after the other. Not empty.
    pub parts: Vec<Part>,
    /// Relative standard deviation of the times it computes.
    pub jitter: f64,
    /// Bandwidth of the buffer, in and out together, in bytes per second.
    pub buffer_bps: f64,
    /// Bandwidth of the file system behind it, in bytes per second.
    pub pfs_bps: f64,
    /// Capacity of the buffer; `None` is without limit.
    pub capacity_bytes: Option<f64>,
    /// The share of it that should not be exceeded.
    pub high_water: f64,
    /// Whether what was moved is removed from the buffer.
    pub is_purged: bool,
    /// Files of a phase, written one after the other; `None` is so many that they close evenly.
    pub files: Option<u64>,
    /// Nodes that hold the buffer.
    pub nodes: u64,
}

/// So many equal phases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// How long the job computes before each phase.
    pub compute_s: f64,
    /// Bytes that each phase writes.
    pub phase_bytes: f64,
    /// How many there are.
    pub phases: u64,
}

/// More than this is a mistake rather than a job.
const MOST_PHASES: u64 = 1_000_000;
const MOST_PARTS: usize = 10_000;
const MOST_FILES: u64 = 1_000_000;

impl StagingWorkload {
    /// Returns a job whose figures are easy to check by hand: 10 phases of 20 GB into 2 GB/s after 90 s each; 0.5 GB/s behind.
    pub fn example() -> Self {
        Self {
            parts: vec![Part { compute_s: 90.0, phase_bytes: 20e9, phases: 10 }],
            jitter: 0.0,
            buffer_bps: 2e9,
            pfs_bps: 0.5e9,
            capacity_bytes: None,
            high_water: 0.85,
            is_purged: true,
            files: None,
            nodes: 1,
        }
    }

    /// Reads a workload from JSON; see `docs/staging-simulation.md`.
    pub fn from_json(text: &str) -> Result<Self, WorkloadError> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| fault("", format!("is not JSON: {error}")))?;
        const NAMES: [&str; 12] = [
            "compute_s",
            "phase_bytes",
            "phases",
            "parts",
            "jitter",
            "buffer_bps",
            "pfs_bps",
            "capacity_bytes",
            "high_water",
            "purge",
            "files",
            "nodes",
        ];
        let fields = Fields::of("", &value, &NAMES)?;
        let rate = |name| fields.number(name, Bound::Positive)?.ok_or_else(|| fields.missing(name));
        let high_water = fields.number("high_water", Bound::Positive)?.unwrap_or(0.85);
        if high_water > 1.0 {
            return Err(fault("high_water", format!("is {high_water}, but must be at most 1")));
        }
        let is_purged = match fields.get("purge") {
            None => true,
            Some(value) => value.as_bool().ok_or_else(|| fault("purge", "is not true or false"))?,
        };
        let workload = Self {
            parts: parts(&fields)?,
            jitter: fields.number("jitter", Bound::NotNegative)?.unwrap_or(0.0),
            buffer_bps: rate("buffer_bps")?,
            pfs_bps: rate("pfs_bps")?,
            capacity_bytes: fields.number("capacity_bytes", Bound::Positive)?,
            high_water,
            is_purged,
            files: fields.count("files")?,
            nodes: fields.count("nodes")?.unwrap_or(1),
        };
        workload.check()?;
        Ok(workload)
    }

    /// Whether it can be run at all.
    pub fn check(&self) -> Result<(), WorkloadError> {
        if self.n_phases() > MOST_PHASES {
            return Err(fault("phases", format!("are more than {MOST_PHASES}")));
        }
        if self.files.is_some_and(|files| files > MOST_FILES) {
            return Err(fault("files", format!("are more than {MOST_FILES}")));
        }
        if self.pfs_bps >= self.buffer_bps {
            // Data that is staged out is read from the buffer, and nothing would be left of it for the job.
            let faster = format!("is {}, but must be below buffer_bps ({})", self.pfs_bps, self.buffer_bps);
            return Err(fault("pfs_bps", faster));
        }
        Ok(())
    }

    /// How many phases there are.
    pub fn n_phases(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(part.phases))
    }

    /// Returns the bytes written in all.
    pub fn bytes(&self) -> f64 {
        self.parts.iter().map(|part| part.phases as f64 * part.phase_bytes).sum()
    }
}

fn parts(fields: &Fields<'_>) -> Result<Vec<Part>, WorkloadError> {
    if fields.get("parts").is_none() {
        return Ok(vec![part(fields)?]);
    }
    if let Some(name) = ["compute_s", "phase_bytes", "phases"].iter().find(|name| fields.get(name).is_some())
    {
        return Err(fault(name, "is said beside parts; say it in each part"));
    }
    let list = fields.list("parts", MOST_PARTS)?;
    if list.is_empty() {
        return Err(fault("parts", "is an empty list"));
    }
    list.iter()
        .enumerate()
        .map(|(i, value)| {
            let place = format!("parts[{i}]");
            part(&Fields::of(&place, value, &["compute_s", "phase_bytes", "phases"])?)
        })
        .collect()
}

fn part(fields: &Fields<'_>) -> Result<Part, WorkloadError> {
    Ok(Part {
        compute_s: fields
            .number("compute_s", Bound::NotNegative)?
            .ok_or_else(|| fields.missing("compute_s"))?,
        phase_bytes: fields
            .number("phase_bytes", Bound::Positive)?
            .ok_or_else(|| fields.missing("phase_bytes"))?,
        phases: fields.count("phases")?.ok_or_else(|| fields.missing("phases"))?,
    })
}
