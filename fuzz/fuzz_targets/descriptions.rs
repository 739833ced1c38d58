//! Any text as a workload, a system, a ladder, runs or a log of jobs: reading must return, and what is read must be possible.
#![no_main]

use iotide_sim::Workload;
use iotide_sim::jobs::{IoTable, JobsWorkload};
use iotide_sim::system::{BinnedRuns, Ladder, System};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = Workload::from_json(text);
    let _ = JobsWorkload::from_json(text);
    let _ = IoTable::from_json(text);
    if let Ok(system) = System::from_json(text) {
        assert!(!system.targets.is_empty() && !system.templates.is_empty());
        assert!(system.frame_s[0] < system.frame_s[1]);
        assert!(system.jobs.iter().all(|jobs| jobs.template < system.templates.len()));
    }
    if let Ok(ladder) = Ladder::from_json(text) {
        assert!(ladder.cells.iter().all(|cell| cell.n > 0 && cell.seconds > 0.0));
    }
    if let Ok(read) = BinnedRuns::from_json(text) {
        assert!(read.runs.iter().all(|run| run.ops.len() == run.bytes.len() && run.dt_s > 0.0));
    }
});
