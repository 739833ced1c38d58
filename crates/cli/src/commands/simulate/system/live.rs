//! Jobs that a daemon sees, as what is simulated.

use std::path::{Path, PathBuf};

use anyhow::bail;
use iotide_api::{NamedSystem, USUAL_HORIZON_S, storage_of_file};
use iotide_report::{JobDocument, JobList};
use iotide_sched::AcceptedHints;
use iotide_source::Source;

use super::SystemArgs;
use crate::commands::advice::advised;
use crate::commands::asking::{ask_at, now_unix_s, unreadable};
use crate::commands::source::parse_source;

/// The jobs that a daemon sees.
const LIVE: &str = "live";
/// So many running jobs are asked for: those that were begun last.
const MOST_RUNNING: usize = 500;

/// Returns what the daemon sees that is named as the workload, if one is.
pub(super) fn seen(args: &SystemArgs) -> anyhow::Result<Option<NamedSystem>> {
    daemon(args).map(|socket| live(args, &socket)).transpose()
}

fn daemon(args: &SystemArgs) -> Option<PathBuf> {
    let name = if args.workload == LIVE { "daemon" } else { &args.workload };
    match parse_source(name) {
        Ok(Source::Daemon { socket, .. }) => Some(socket),
        _ => None,
    }
}

fn live(args: &SystemArgs, socket: &Path) -> anyhow::Result<NamedSystem> {
    let Some(ladder) = &args.storage else {
        bail!(
            "`live` wants --storage LADDER: what the storage can do, as `iotide ladder DIR --format json` measures it"
        );
    };
    let storage = storage_of_file(ladder).map_err(advised)?;
    let list = ask_at(socket, &format!("/api/1/jobs?state=running&limit={MOST_RUNNING}"))?;
    let list = JobList::from_json(&list).map_err(unreadable)?;
    let mut jobs = Vec::new();
    for job in &list.jobs {
        // One may end while others are asked for.
        if let Ok(document) = ask_at(socket, &format!("/api/1/jobs/{}", job.job.as_said())) {
            jobs.push(JobDocument::from_json(&document).map_err(unreadable)?);
        }
    }
    forget_the_uncertain(socket, &mut jobs);
    Ok(NamedSystem::of_running(&jobs, &storage, now_unix_s(), USUAL_HORIZON_S))
}

/// A rhythm that nobody would act on is none: the job then goes on as it does now.
fn forget_the_uncertain(socket: &Path, jobs: &mut [JobDocument]) {
    let daemon = Source::Daemon { socket: socket.to_owned(), is_ours: false };
    // One that is too old to say how certain it is means what it says.
    let Ok(known) = daemon.ask() else { return };
    let mut heeded = AcceptedHints::default();
    heeded.look(0.0, Some(&known));
    for JobDocument { entry, uid, .. } in jobs {
        if heeded.period_s(entry.job.as_said(), Some(*uid)).is_none() {
            (entry.period_s, entry.next_phase_unix_s) = (None, None);
        }
    }
}
