//! Effects of storage-sharing policies on periodic jobs.
#![allow(clippy::print_stdout)]

use iotide_api::{IoWorkload, Policy, Progress, Rules, SimulateOptions, StorageModels, simulate_io};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    // One job that writes often and little, three that write rarely and much, on 100 MB/s.
    let workload = IoWorkload::from_json(
        "jobs",
        r#"{"bandwidth_bps": 100000000, "frame_s": [400, 3200], "jobs": [
            {"name": "often", "count": 1, "compute_s": 18, "io_bytes": 200000000},
            {"name": "rarely", "count": 3, "compute_s": 150, "io_bytes": 5000000000}]}"#,
    )?;
    let options = SimulateOptions {
        policies: vec![Policy::FairShare.into(), Rules::Iotide.set10().into()],
        models: StorageModels::Fluid,
        repetitions: 2,
        ..SimulateOptions::default()
    };
    let report = simulate_io(&workload, &options, &mut |progress| {
        if let Progress::Repeating { scenario, nth: 1, .. } = progress {
            println!("simulating: {scenario}");
        }
    })?;

    for policy in &report.policies {
        println!("{}: I/O slowdown {:?}", policy.policy, policy.io_slowdown);
    }
    let [fair_share, set10] = &report.policies[..] else { panic!("two policies were asked for") };
    assert!(set10.io_slowdown < fair_share.io_slowdown, "the I/O waits less with Set-10");
    Ok(())
}
