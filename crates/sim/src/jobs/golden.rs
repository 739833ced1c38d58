//! The schedules of a slow reference, start by start, end by end, resize by resize.

#[cfg(test)]
mod tests {
    use iotide_sched::jobs::{JobPolicy, PolicyKnobs};
    use serde_json::Value;

    use super::super::{JobState, JobsWorkload, run_jobs};

    fn milliseconds(value: &Value) -> Option<i64> {
        value.as_f64().map(|seconds| (seconds * 1e3).round() as i64)
    }

    fn state(name: &str) -> JobState {
        match name {
            "completed" => JobState::Completed,
            "timeout" => JobState::Timeout,
            "cancelled" => JobState::Cancelled,
            "rejected" => JobState::Rejected,
            other => panic!("no state {other}"),
        }
    }

    /// Returns the first difference, in words.
    fn difference(workload: &JobsWorkload, expected: &Value) -> Option<String> {
        let name = expected["policy"].as_str().unwrap();
        let policy = JobPolicy::from_name(name).unwrap_or_else(|| panic!("no policy {name}"));
        let (batch, schedule) = run_jobs(workload, policy, &PolicyKnobs::default(), false);
        let mut differing: Vec<(i64, String)> = Vec::new();
        for (i, expected) in expected["jobs"].as_array().unwrap().iter().enumerate() {
            let fate = &schedule.jobs[i];
            let resizes: Vec<(i64, u64, u64)> = expected["resizes"]
                .as_array()
                .unwrap()
                .iter()
                .map(|resize| {
                    let size = |name: &str| resize[name].as_u64().unwrap();
                    (milliseconds(&resize["at_s"]).unwrap(), size("from"), size("to"))
                })
                .collect();
            let ours: Vec<(i64, u64, u64)> = fate
                .resizes
                .iter()
                .map(|resize| (resize.at_ms, resize.from.into(), resize.to.into()))
                .collect();
            let is_same = fate.state == state(expected["state"].as_str().unwrap())
                && fate.start_ms == milliseconds(&expected["start_s"])
                && fate.end_ms == milliseconds(&expected["end_s"])
                && fate.nodes.map(u64::from) == expected["nodes"].as_u64()
                && u64::from(fate.restarts) == expected["restarts"].as_u64().unwrap()
                && ours == resizes;
            if !is_same {
                let at = fate.start_ms.unwrap_or(i64::MAX);
                differing.push((at, format!("{:?}\n     {fate:?}\n     {expected}", workload.jobs[i].batch)));
            }
        }
        differing.sort();
        if let Some((_, first)) = differing.first() {
            return Some(format!("{name}: {} jobs, first {first}", differing.len()));
        }
        let metrics = schedule.metrics(&batch, workload.nodes);
        for (what, ours) in [
            ("makespan_s", metrics.makespan_s),
            ("mean_wait_s", metrics.mean_wait_s),
            ("max_wait_s", metrics.max_wait_s),
            ("mean_bounded_slowdown", metrics.mean_bounded_slowdown),
            ("node_hours", metrics.node_hours),
            ("utilization", metrics.utilization),
            ("n_resizes", metrics.n_resizes as f64),
        ] {
            let theirs = expected[what].as_f64().unwrap();
            if (ours - theirs).abs() > 1e-6 * theirs.abs().max(1e-9) {
                return Some(format!("{name}: {what} is {ours}, not {theirs}"));
            }
        }
        None
    }

    #[test]
    fn every_start_end_and_resize_is_that_of_the_reference() {
        let Some(path) = iotide_testkit::shared_data("jobs/golden.json") else { return };
        let golden: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let cases = golden["cases"].as_array().unwrap();
        assert_eq!(cases.len(), 15);
        let mut differences = Vec::new();
        for case in cases {
            let workload = JobsWorkload::from_json(&case["workload"].to_string()).unwrap();
            let policies = case["policies"].as_array().unwrap();
            assert_eq!(policies.len(), 9);
            for expected in policies {
                differences.extend(
                    difference(&workload, expected)
                        .map(|what| format!("{} {what}", case["name"].as_str().unwrap())),
                );
            }
        }
        assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    }
}
