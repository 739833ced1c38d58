//! Any bytes as a journal of staging, as a line of its receipts, as its status, as its note for a daemon, as a list of files to fetch and as a pattern of names: read
//! within bounds, or refused.
#![no_main]

use std::path::Path;

use iotide_report::{JobStaging, Staging};
use iotide_stage::{Pattern, ReceiptLine, Wanted, parse_line, replay};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Some((_, n)) = replay(bytes) {
        assert!(n <= bytes.len());
        // What was read is read again, and nothing beside it.
        assert_eq!(replay(&bytes[..n]).map(|(_, again)| again), Some(n));
    }
    if let Some(line) = parse_line(bytes) {
        let written = line.to_line();
        assert_eq!(parse_line(written.trim_end().as_bytes()).as_ref(), Some(&line), "{written}");
        if let ReceiptLine::Receipt(receipt) = line {
            assert!(
                !receipt.path.starts_with(b"/")
                    && !receipt.path.split(|byte| *byte == b'/').any(|name| name == b"..")
            );
        }
    }
    if let Some((job, staging)) = JobStaging::from_note(bytes) {
        let again = JobStaging::from_note(staging.to_note(&job).as_bytes());
        assert_eq!(again.map(|(job, again)| (job, again.backlog_bytes)), Some((job, staging.backlog_bytes)));
    }
    if let Some(status) = Staging::from_json(bytes) {
        let _ = (status.source.for_terminal(), status.destination.for_terminal());
    }
    if let Ok(wanted) = Wanted::parse(bytes, Path::new("/pfs/run")) {
        assert!(wanted.paths.iter().all(
            |path| !path.starts_with(b"/") && !path.split(|byte| *byte == b'/').any(|name| name == b"..")
        ));
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Ok(pattern) = Pattern::parse(text)
    {
        let _ = (pattern.matches(bytes), pattern.matches(b"a/b/c"));
    }
});
