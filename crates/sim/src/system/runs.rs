//! Runs of programs as bins of equal width, described in JSON.

use serde_json::Value;

use crate::fields::{Bound, Fields, WorkloadError, fault};

/// More than this is a mistake rather than a run.
const MOST_BINS: usize = 10_000_000;
/// As above.
const MOST_RUNS: usize = 1_000_000;

/// Activity of a run, bin by bin.
#[derive(Clone, Debug, PartialEq)]
pub struct BinnedRun {
    /// Which program.
    pub program: String,
    /// How many processes it had.
    pub processes: u64,
    /// How wide a bin is.
    pub dt_s: f64,
    /// Requests in each bin.
    pub ops: Vec<f64>,
    /// Bytes in each bin.
    pub bytes: Vec<f64>,
    /// Seconds that a process spent communicating in all, where that is known.
    pub mpi_s: Option<f64>,
}

/// Runs, and the number of processes at which they are compared.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct BinnedRuns {
    /// The number of processes at which they are compared.
    pub p_ref: Option<u64>,
    /// The runs.
    pub runs: Vec<BinnedRun>,
}

impl BinnedRuns {
    /// Reads `{"p_ref": 64, "runs": [{"program", "processes", "dt_s", "ops": […], "bytes": […]}]}`.
    pub fn from_json(text: &str) -> Result<Self, WorkloadError> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| fault("", format!("is not JSON: {error}")))?;
        let fields = Fields::of("", &value, &["p_ref", "runs"])?;
        let list = fields.list("runs", MOST_RUNS)?;
        if list.is_empty() {
            return Err(fault("runs", "is empty"));
        }
        let runs = list.iter().enumerate().map(|(i, value)| read_run(&format!("runs[{i}]"), value));
        Ok(Self { p_ref: fields.count("p_ref")?, runs: runs.collect::<Result<_, _>>()? })
    }
}

fn read_run(place: &str, value: &Value) -> Result<BinnedRun, WorkloadError> {
    let fields = Fields::of(place, value, &["program", "processes", "dt_s", "ops", "bytes", "mpi_s"])?;
    let numbers = |name: &str| -> Result<Vec<f64>, WorkloadError> {
        let list = fields.list(name, MOST_BINS)?;
        if list.is_empty() {
            return Err(fault(&fields.at(name), "is missing or empty"));
        }
        let number = |(i, value): (usize, &Value)| {
            value.as_f64().filter(|number| number.is_finite() && *number >= 0.0).ok_or_else(|| {
                fault(&format!("{}[{i}]", fields.at(name)), format!("is {value}, but must be 0 or more"))
            })
        };
        list.iter().enumerate().map(number).collect()
    };
    let run = BinnedRun {
        program: fields.text("program")?.ok_or_else(|| fields.missing("program"))?.to_owned(),
        processes: fields.count("processes")?.ok_or_else(|| fields.missing("processes"))?,
        dt_s: fields.number("dt_s", Bound::Positive)?.ok_or_else(|| fields.missing("dt_s"))?,
        ops: numbers("ops")?,
        bytes: numbers("bytes")?,
        mpi_s: fields.number("mpi_s", Bound::NotNegative)?,
    };
    if run.ops.len() != run.bytes.len() {
        let fault_said = format!("has {} bins and bytes {}", run.ops.len(), run.bytes.len());
        return Err(fault(&fields.at("ops"), fault_said));
    }
    Ok(run)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_a_run_is_said_with_its_place() {
        let says =
            |run: &str| BinnedRuns::from_json(&format!(r#"{{"runs": [{run}]}}"#)).unwrap_err().to_string();
        let run = |rest: &str| says(&format!(r#"{{"program": "a", "processes": 4, {rest}}}"#));
        assert_eq!(says("5"), "runs[0] is not an object");
        assert_eq!(says(r#"{"program": "a"}"#), "runs[0].processes is missing");
        assert_eq!(run(r#""dt_s": 0, "ops": [1], "bytes": [1]"#), "runs[0].dt_s is 0, but must be positive");
        assert_eq!(run(r#""dt_s": 1, "ops": [], "bytes": []"#), "runs[0].ops is missing or empty");
        assert_eq!(
            run(r#""dt_s": 1, "ops": [1], "bytes": [1, -2]"#),
            "runs[0].bytes[1] is -2, but must be 0 or more"
        );
        assert_eq!(run(r#""dt_s": 1, "ops": [1], "bytes": [1, 2]"#), "runs[0].ops has 1 bins and bytes 2");
        assert_eq!(BinnedRuns::from_json(r#"{"runs": []}"#).unwrap_err().to_string(), "runs is empty");
    }
}
