//! The sets of jobs with known periods.
#![allow(clippy::print_stdout)]

use iotide_api::{Rules, plan, profiles};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Jobs and the seconds from one I/O phase to the next; nothing is known of the last one.
    let jobs = profiles("jobs.csv", "job,seconds\na,10\nb,12\nc,1000\nd,\n")?;
    let plan = plan(&jobs, Rules::Iotide, None);

    for job in &plan.report.jobs {
        println!("{}: set {}, {:.0} % of the storage", job.job.as_said(), job.set, 100.0 * job.share);
    }
    let [a, b, c, d] = &plan.report.jobs[..] else { panic!("four jobs were given") };
    assert_eq!(a.set, b.set, "periods of one order of magnitude share a set");
    assert!(a.set != c.set && a.priority > c.priority, "short periods go first");
    assert_ne!(d.set, a.set);
    assert!(plan.actions.is_empty(), "no file system was named");
    Ok(())
}
