//! Jobs to simulate: described as JSON, RR-9537's own, or generated.

use iotide_num::SplitMix64;
use serde_json::Value;

use crate::fields::{Bound, Fields, WorkloadError, fault, read_frame};

/// Periodic jobs on one storage, and the stretch of time they are judged by.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// Bandwidth that one job alone gets from the storage.
    pub bandwidth_bps: f64,
    /// When judging begins and ends.
    pub frame_s: [f64; 2],
    /// The jobs; their ids count from 1 in this order.
    pub jobs: Vec<JobSpec>,
}

/// A job that repeats: compute, then move some bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct JobSpec {
    /// Its name.
    pub name: String,
    /// How long it computes between two I/O phases.
    pub compute_s: f64,
    /// Bytes that an I/O phase moves.
    pub io_bytes: f64,
    /// How often it does both; `None` goes on beyond the frame.
    pub iterations: Option<u64>,
    /// When it begins to compute.
    pub start_s: f64,
    /// Relative standard deviation of the time it computes.
    pub jitter: f64,
}

impl JobSpec {
    /// The time between the starts of two I/O phases if nobody else is there.
    pub fn w_iter_s(&self, bandwidth_bps: f64) -> f64 {
        self.compute_s + self.io_bytes / bandwidth_bps
    }
}

impl Workload {
    /// Returns the headline workload of RR-9537: 16 jobs of 8 processes on 110 MiB/s; one computes 18 s and writes
    /// 16 MiB per process, fifteen compute 360 s and write 320 MiB per process.
    pub fn rr9537() -> Self {
        const MIB: f64 = (1u64 << 20) as f64;
        let job = |name: String, compute_s, mib_per_process: f64| JobSpec {
            name,
            compute_s,
            io_bytes: 8.0 * mib_per_process * MIB,
            iterations: None,
            start_s: 0.0,
            jitter: 0.0,
        };
        let mut jobs = vec![JobSpec { iterations: Some(200), ..job("high".into(), 18.0, 16.0) }];
        jobs.extend((1..=15).map(|n| job(format!("low {n}"), 360.0, 320.0)));
        Self { bandwidth_bps: 110.0 * MIB, frame_s: [400.0, 3200.0], jobs }
    }

    /// Returns jobs whose characteristic times lie around some values, and that together want a share of the storage.
    ///
    /// The times around each centre are normally distributed with a tenth of it as standard deviation; jobs begin
    /// anywhere in their first period. What a job wants of the storage is drawn evenly, and scaled so that the sum is
    /// [`Mix::load`].
    pub fn generate(mix: &Mix, seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let drawn: Vec<(f64, f64, f64)> = (0..mix.n_jobs)
            .map(|n| {
                let centre_s = mix.around_s[n % mix.around_s.len()];
                // Cut off at four deviations: no period is ever zero or less.
                let w_iter_s = centre_s * (1.0 + 0.1 * random.normal().clamp(-4.0, 4.0));
                (w_iter_s, 0.2 + random.unit(), random.unit())
            })
            .collect();
        let wanted: f64 = drawn.iter().map(|(_, share, _)| share).sum();
        let jobs = drawn.iter().enumerate().map(|(n, &(w_iter_s, share, offset))| {
            // A job alone cannot do I/O all the time: what is above stays unasked for.
            let io_share = (share / wanted * mix.load).min(0.9);
            JobSpec {
                name: format!("{} s {}", mix.around_s[n % mix.around_s.len()], n / mix.around_s.len() + 1),
                compute_s: w_iter_s * (1.0 - io_share),
                io_bytes: w_iter_s * io_share * mix.bandwidth_bps,
                iterations: mix.iterations,
                start_s: offset * w_iter_s,
                jitter: mix.jitter,
            }
        });
        let longest_s = mix.around_s.iter().copied().fold(0.0, f64::max);
        Self {
            bandwidth_bps: mix.bandwidth_bps,
            frame_s: mix.frame_s.unwrap_or(default_frame_s(longest_s)),
            jobs: jobs.collect(),
        }
    }

    /// Reads a workload from JSON; see `docs/scheduling.md`.
    pub fn from_json(text: &str) -> Result<Self, WorkloadError> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| fault("", format!("is not JSON: {error}")))?;
        let fields = Fields::of("", &value, &["bandwidth_bps", "frame_s", "jobs"])?;
        let bandwidth_bps = fields
            .number("bandwidth_bps", Bound::Positive)?
            .ok_or_else(|| fields.missing("bandwidth_bps"))?;
        let list = match fields.map.get("jobs") {
            Some(Value::Array(jobs)) if !jobs.is_empty() => jobs,
            Some(_) => return Err(fault("jobs", "is not a list of jobs")),
            None => return Err(fields.missing("jobs")),
        };
        let mut jobs = Vec::new();
        for (i, job) in list.iter().enumerate() {
            read_jobs(&format!("jobs[{i}]"), job, &mut jobs)?;
        }
        let longest_s = jobs.iter().map(|job| job.w_iter_s(bandwidth_bps)).fold(0.0, f64::max);
        let frame_s = match fields.map.get("frame_s") {
            None | Some(Value::Null) => default_frame_s(longest_s),
            Some(value) => read_frame(value)?,
        };
        Ok(Self { bandwidth_bps, frame_s, jobs })
    }
}

/// Jobs to generate.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// How many jobs.
    pub n_jobs: usize,
    /// Values that their characteristic times lie around, in turn. Not empty.
    pub around_s: Vec<f64>,
    /// Share of the storage's time that they demand together; above 1 it cannot keep up.
    pub load: f64,
    /// Bandwidth that one job alone gets from the storage.
    pub bandwidth_bps: f64,
    /// How often each job computes and does I/O; `None` goes on beyond the frame.
    pub iterations: Option<u64>,
    /// Relative standard deviation of the time a job computes.
    pub jitter: f64,
    /// When judging begins and ends; `None` is from one to nine times the longest characteristic time.
    pub frame_s: Option<[f64; 2]>,
}

/// Long enough for each job to have several phases, without its first.
fn default_frame_s(longest_s: f64) -> [f64; 2] {
    [longest_s, 9.0 * longest_s]
}

/// More than this is a mistake rather than a machine.
const MAX_JOBS: usize = 10_000_000;

fn read_jobs(place: &str, value: &Value, jobs: &mut Vec<JobSpec>) -> Result<(), WorkloadError> {
    const NAMES: [&str; 7] = ["name", "count", "compute_s", "io_bytes", "iterations", "start_s", "jitter"];
    let fields = Fields::of(place, value, &NAMES)?;
    let name = match fields.map.get("name") {
        None | Some(Value::Null) => None,
        Some(Value::String(name)) => Some(name.clone()),
        Some(_) => return Err(fault(&fields.at("name"), "is not a text")),
    };
    let count = fields.count("count")?.unwrap_or(1);
    if count as usize > MAX_JOBS - jobs.len().min(MAX_JOBS) {
        return Err(fault(&fields.at("count"), format!("makes more than {MAX_JOBS} jobs")));
    }
    let compute_s =
        fields.number("compute_s", Bound::NotNegative)?.ok_or_else(|| fields.missing("compute_s"))?;
    let io_bytes =
        fields.number("io_bytes", Bound::NotNegative)?.ok_or_else(|| fields.missing("io_bytes"))?;
    if compute_s == 0.0 && io_bytes == 0.0 {
        return Err(fault(place, "neither computes nor moves a byte"));
    }
    let job = JobSpec {
        name: name.unwrap_or_else(|| format!("job {}", jobs.len() + 1)),
        compute_s,
        io_bytes,
        iterations: fields.count("iterations")?,
        start_s: fields.number("start_s", Bound::NotNegative)?.unwrap_or(0.0),
        jitter: fields.number("jitter", Bound::NotNegative)?.unwrap_or(0.0),
    };
    for n in 1..=count {
        let name = if count == 1 { job.name.clone() } else { format!("{} {n}", job.name) };
        jobs.push(JobSpec { name, ..job.clone() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_report_has_sixteen_jobs_with_periods_of_19_and_384_seconds() {
        let workload = Workload::rr9537();
        let periods: Vec<f64> =
            workload.jobs.iter().map(|job| job.w_iter_s(workload.bandwidth_bps)).collect();
        assert_eq!(periods.len(), 16);
        assert!((periods[0] - 19.2).abs() < 0.05, "{}", periods[0]);
        assert!(periods[1..].iter().all(|period_s| (period_s - 383.3).abs() < 0.05), "{periods:?}");
    }

    #[test]
    fn the_described_form_of_rr9537_is_the_built_in_one() {
        let described = Workload::from_json(
            r#"{"bandwidth_bps": 115343360, "frame_s": [400, 3200], "jobs": [
                {"name": "high", "count": 1, "compute_s": 18, "io_bytes": 134217728, "iterations": 200, "start_s": 0},
                {"name": "low", "count": 15, "compute_s": 360, "io_bytes": 2684354560}]}"#,
        );
        assert_eq!(described, Ok(Workload::rr9537()));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let says = |text: &str| Workload::from_json(text).unwrap_err().to_string();
        let job = |fields: &str| says(&format!(r#"{{"bandwidth_bps": 1, "jobs": [{{{fields}}}]}}"#));
        assert!(says("{").starts_with("is not JSON: "));
        assert_eq!(says("[]"), "is not an object");
        assert_eq!(says("{}"), "bandwidth_bps is missing");
        assert_eq!(says(r#"{"bandwidth_bps": 0}"#), "bandwidth_bps is 0, but must be positive");
        assert_eq!(says(r#"{"bandwidth_bps": 1, "jobs": []}"#), "jobs is not a list of jobs");
        assert_eq!(job(""), "jobs[0].compute_s is missing");
        assert_eq!(job(r#""compute_s": "1""#), "jobs[0].compute_s is not a number");
        assert_eq!(job(r#""compute_s": 0, "io_bytes": 0"#), "jobs[0] neither computes nor moves a byte");
        assert_eq!(
            job(r#""compute_s": 1, "io_bytes": 1, "count": 0"#),
            "jobs[0].count is not a whole number above 0"
        );
        assert_eq!(
            job(r#""compute_s": 1, "io_bytes": 1, "count": 99999999"#),
            "jobs[0].count makes more than 10000000 jobs"
        );
        assert!(
            job(r#""computes": 1"#)
                .starts_with(r#"jobs[0] has an unknown field "computes"; there are name, "#)
        );
        let framed = |frame: &str| {
            says(&format!(
                r#"{{"bandwidth_bps": 1, "frame_s": {frame}, "jobs": [{{"compute_s": 1, "io_bytes": 1}}]}}"#
            ))
        };
        assert_eq!(framed("[5, 5]"), "frame_s [5, 5] does not begin before it ends");
        assert_eq!(framed("[5]"), "frame_s is not a list of two times");
    }

    #[test]
    fn what_is_not_said_has_a_sensible_value() {
        let workload = Workload::from_json(
            r#"{"bandwidth_bps": 10, "jobs": [{"compute_s": 9, "io_bytes": 10}, {"compute_s": 1, "io_bytes": 0, "count": 2}]}"#,
        )
        .unwrap();
        assert_eq!(workload.frame_s, [10.0, 90.0]);
        let names: Vec<&str> = workload.jobs.iter().map(|job| job.name.as_str()).collect();
        assert_eq!(names, ["job 1", "job 2 1", "job 2 2"]);
    }

    proptest! {
        #[test]
        fn a_generated_mix_wants_the_load_it_was_asked_for(n_jobs in 3..200usize, load in 0.05..1.5f64, seed: u64) {
            let mix = Mix {
                n_jobs, around_s: vec![10.0, 100.0, 1000.0], load, bandwidth_bps: 1e9, iterations: None, jitter: 0.0,
                frame_s: None,
            };
            let workload = Workload::generate(&mix, seed);
            let wanted: f64 = workload.jobs.iter().map(|job| job.io_bytes / 1e9 / job.w_iter_s(1e9)).sum();
            prop_assert!(wanted <= load * (1.0 + 1e-9));
            if n_jobs > 20 {
                prop_assert!((wanted / load - 1.0).abs() < 1e-9);
            }
            for (n, job) in workload.jobs.iter().enumerate() {
                let ratio = job.w_iter_s(1e9) / [10.0, 100.0, 1000.0][n % 3];
                prop_assert!((0.59..1.41).contains(&ratio) && job.compute_s > 0.0);
            }
            prop_assert_eq!(Workload::generate(&mix, seed), workload);
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in "\\PC*") {
            let _ = Workload::from_json(&text);
        }
    }
}
