//! What each job sends, from the counters that a Lustre server keeps of jobs.

use std::collections::BTreeMap;

/// Requests of each job so far, from the text of `lctl get_param obdfilter.*.job_stats`, all targets of a server together.
///
/// Lustre counts the bytes of each read or write request, so the number of samples is the number of requests. A line that
/// is not understood is passed over: newer servers count more than older ones.
pub fn requests_by_job(job_stats: &str) -> BTreeMap<String, u64> {
    let mut by_job = BTreeMap::new();
    let mut job = None;
    for line in job_stats.lines() {
        let Some((name, value)) = line.split_once(':') else { continue };
        match name.trim_start_matches('-').trim() {
            "job_id" => job = Some(value.trim().trim_matches('"').to_owned()),
            "read_bytes" | "write_bytes" => {
                let samples = value.split_once("samples:").and_then(|(_, rest)| {
                    rest.trim_start().split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
                });
                if let (Some(job), Some(samples)) = (&job, samples) {
                    let so_far = by_job.entry(job.clone()).or_insert(0u64);
                    *so_far = so_far.saturating_add(samples);
                }
            }
            _ => {}
        }
    }
    by_job
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_reads_and_writes_are_added_over_targets() {
        let stats = "obdfilter.fs-OST0000.job_stats=\njob_stats:\n\
            - job_id:          dd.0\n  snapshot_time:   1510782606\n\
            \x20 read_bytes:      { samples:           3, unit: bytes, min: 4096, max: 1048576, sum: 2101248 }\n\
            \x20 write_bytes:     { samples:          40, unit: bytes, min: 1048576, max: 1048576, sum: 41943040 }\n\
            \x20 punch:           { samples:           7, unit:  reqs }\n\
            obdfilter.fs-OST0001.job_stats=\njob_stats:\n\
            - job_id:          \"4711\"\n  write_bytes: { samples: 5, unit: bytes }\n\
            - job_id:          dd.0\n  read_bytes: { samples: 1 }\n  write_bytes: { nothing }\n";
        let expected = [("4711".to_owned(), 5), ("dd.0".to_owned(), 44)];
        assert_eq!(requests_by_job(stats), expected.into_iter().collect());
        assert!(requests_by_job("write_bytes: { samples: 5 }\n\u{0}job_id").is_empty());
    }
}
