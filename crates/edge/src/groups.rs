//! What the cgroups of jobs say, read by a thread that nobody waits for.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use std::{io, thread};

use crate::shared::Shared;
use iotide_daemon::collect::Cgroups;

/// The gauge of a job's memory, as a figure of its run.
pub(crate) const MEMORY: &str = "cgroup->memory_bytes";

/// Reads them each second. The thread ends soon after the daemon has.
pub(crate) fn watch(shared: &Arc<Shared>) -> io::Result<()> {
    let Some(root) = shared.config.cgroups.clone() else { return Ok(()) };
    let mut cgroups = Cgroups::new(root, "/proc".into());
    let shared = Arc::downgrade(shared);
    // A daemon of a user's own serves that user.
    let uid = rustix::process::geteuid();
    let work = move || {
        loop {
            let mut jobs = cgroups.read();
            jobs.retain(|job| uid.is_root() || job.owner.uid == uid.as_raw());
            let Some(shared) = shared.upgrade() else { return };
            *shared.groups.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(jobs);
            shared.n_group_readings.fetch_add(1, Ordering::Release);
            drop(shared);
            thread::sleep(Duration::from_secs(1));
        }
    };
    thread::Builder::new().name("iotide-cgroups".to_owned()).spawn(work).map(drop)
}
