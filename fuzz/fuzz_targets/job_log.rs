//! Any bytes as a job log, as jobs that were submitted, and as the answer of a Prometheus server: reading must return.
#![no_main]

use std::io::Cursor;

use iotide_formats::{JobLogOptions, RangeAnswer, SubmissionLog};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    match JobLogOptions::default().from_read("input", Cursor::new(bytes.to_vec())) {
        Ok(log) => {
            for run in &log.runs {
                assert!(run.start_s.is_finite() && run.end_s.is_none_or(|end_s| end_s >= run.start_s));
            }
            assert!(log.losses.iter().all(|loss| !loss.what.is_empty()));
        }
        Err(error) => assert!(error.to_string().contains("input")),
    }
    match SubmissionLog::from_read("input", Cursor::new(bytes.to_vec()), &JobLogOptions::default()) {
        Ok(SubmissionLog::Swf(log)) => {
            for job in &log.jobs {
                assert!(job.submit_s >= 0.0 && job.runtime_s >= 0.0 && job.runtime_s.is_finite() && job.n_nodes > 0);
            }
        }
        Ok(SubmissionLog::Json(text)) => drop(iotide_api::JobsWorkload::from_json(&text)),
        Ok(SubmissionLog::Runs(_)) => {}
        Err(error) => assert!(error.to_string().contains("input")),
    }
    let _ = RangeAnswer::read(Cursor::new(bytes.to_vec()), |_, at_s, value| {
        assert!(at_s.is_finite() && value >= 0.0);
    });
});
