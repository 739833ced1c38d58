//! Staging as a job of its own, last in line at the storage.
//!
//! The environment of a process at its start names its job; so it starts itself once more under another name.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use anyhow::Context;

use crate::commands::library::{self, LibraryPlace};
use crate::commands::sets;

/// Whose turn it is at the destination.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Turns")]
pub(super) struct TurnArgs {
    /// Ask this arbiter before data is moved to or from DST: unix:PATH or tcp:ADDRESS:PORT, or a map of several as IOTIDE_GATE takes
    #[arg(long, value_name = "MAP")]
    gate: Option<String>,
    /// Come last at the arbiter or mount with this control socket, as a job with a period of 10^6 s; while room runs out, with the
    /// period of the job itself
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
}

/// Variable that shows that this has been done, and for which job.
const JOB_OF: &str = "IOTIDE_STAGE_OF";
/// Set if nobody has said which job that is, and the buffer gave it a name.
const IS_GUESSED: &str = "IOTIDE_STAGE_OF_BUFFER";
const PATIENCE: &str = "IOTIDE_GATE_PATIENCE";
/// Where a job's id stands, in the order in which it is looked for.
const JOB_IDS: [&str; 4] = ["IOTIDE_JOB_ID", "IOSETS_JOB_ID", "SLURM_JOB_ID", "PBS_JOBID"];
/// Where it stands in other batch systems.
const OTHER_JOB_IDS: [&str; 5] = ["LSB_JOBID", "PJM_JOBID", "FLUX_JOB_ID", "COBALT_JOBID", "JOB_ID"];
/// Period of a job without a rhythm of its own, in seconds: all others come before it.
const LAST_S: f64 = 1e6;
const EVERY: Duration = Duration::from_millis(500);
const AT_FIRST: Duration = Duration::from_millis(20);

impl TurnArgs {
    /// Starts this program anew as a job of its own, if it is taken for its job otherwise, or has to ask. Without the tracer that
    /// counts for the job, whose rhythm this would be part of.
    pub(super) fn take_own_name(&self, src: &Path, dst: &Path, answer_timeout_s: f64) -> anyhow::Result<()> {
        if env::var_os(JOB_OF).is_some() {
            return Ok(());
        }
        let job = job_id();
        let others = env::var("LD_PRELOAD").unwrap_or_default();
        let is_ours = |library: &&str| library.ends_with("libiotide.so");
        let is_traced = others.split([':', ' ']).any(|library| is_ours(&library));
        if job.is_none() && !is_traced && self.gate.is_none() && self.control.is_none() {
            return Ok(());
        }
        let mut preload: Vec<OsString> = others
            .split([':', ' '])
            .filter(|name| !is_ours(name) && !name.is_empty())
            .map(Into::into)
            .collect();
        let mut command = Command::new(iotide_private::own_program().context("where is this program?")?);
        if job.is_none() {
            command.env(IS_GUESSED, "1");
        }
        let job = job.unwrap_or_else(|| name_of(src));
        command.args(iotide_private::own_arguments()).env(JOB_OF, &job);
        for name in ["IOTIDE_DIR", "IOTIDE_STREAM", "IOTIDE_KEEP", "IOTIDE_GATE"] {
            command.env_remove(name);
        }
        for name in &JOB_IDS[..2] {
            command.env(name, own_name(&job));
        }
        if let Some(gate) = &self.gate {
            let dst = std::fs::canonicalize(dst).unwrap_or_else(|_| dst.to_owned());
            let map = if gate.contains('=') { gate.clone() } else { format!("{}={gate}", dst.display()) };
            preload.insert(0, library::find(&LibraryPlace::default())?.into_os_string());
            let pages =
                iotide_private::pages_directory().context("cannot make a directory for counter pages")?;
            command.env("IOTIDE_GATE", map).env("IOTIDE_LIVE", pages);
            // Who waits for its turn does not count as one that gets no answer.
            if env::var_os(PATIENCE).is_none() {
                command.env(PATIENCE, (answer_timeout_s * 0.75).to_string());
            }
        }
        command.env("LD_PRELOAD", preload.join(&OsString::from(":")));
        Err(command.exec()).context("cannot start this program anew as a job of its own")
    }

    /// Says who comes last, from a thread and as long as the process runs: an arbiter knows a job from its first request on.
    pub(super) fn keep_place(&self) -> anyhow::Result<Place> {
        let place = Place::default();
        let Some(socket) = self.control.clone() else { return Ok(place) };
        sets::ask(&socket)?;
        let job = env::var(JOB_OF).unwrap_or_default();
        let is_draining = Arc::clone(&place.is_draining);
        std::thread::spawn(move || {
            let mut told = None;
            loop {
                let wanted = if is_draining.load(Relaxed) { period_of(&socket, &job) } else { Some(LAST_S) };
                if told != Some(wanted)
                    && iotide_act::control::set_period(&socket, &own_name(&job), wanted).is_ok()
                {
                    told = Some(wanted);
                }
                std::thread::sleep(if told.is_some() { EVERY } else { AT_FIRST });
            }
        });
        Ok(place)
    }
}

/// State of the place in the queue.
#[derive(Default)]
pub(super) struct Place {
    is_draining: Arc<AtomicBool>,
}

impl Place {
    /// Set while room runs out: staging then comes as early as its job.
    pub(super) fn is_draining(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_draining)
    }
}

/// The job whose files are staged, if it is known.
pub(super) fn job_id() -> Option<String> {
    let value = |name: &&str| env::var(name).ok().filter(|value| !value.is_empty());
    value(&JOB_OF).or_else(|| JOB_IDS.iter().find_map(value))
}

/// The job as others call it who see it: under its own name, not under ours, and not under one that we made up.
pub(super) fn job_id_elsewhere() -> Option<String> {
    let value = |name: &&str| env::var(name).ok().filter(|value| !value.is_empty());
    let said = if env::var_os(IS_GUESSED).is_some() { None } else { job_id() };
    said.or_else(|| OTHER_JOB_IDS.iter().find_map(value))
}

fn own_name(job: &str) -> String {
    format!("stage-{job}")
}

/// Without a scheduler, the buffer gives the name.
fn name_of(src: &Path) -> String {
    let src = std::fs::canonicalize(src).unwrap_or_else(|_| src.to_owned());
    let name = src.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' };
    name.chars().map(plain).take(32).collect()
}

fn period_of(socket: &Path, job: &str) -> Option<f64> {
    let storage = sets::ask(socket).ok()?;
    storage.jobs.iter().find(|one| one.job == *job)?.period_s
}
