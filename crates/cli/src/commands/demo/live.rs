//! A daemon of the demo's own, which watches its processes while they run.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use iotide_edge::client;
use serde_json::Value;

/// Id of the job.
const JOB: &str = "demo";

/// `iotide serve` in a folder of the demo; ended when dropped.
pub(super) struct Daemon {
    child: Child,
    socket: PathBuf,
    pages: PathBuf,
}

/// State of the job as the daemon reports it.
pub(super) struct Seen {
    pub(super) bytes_written: u64,
    pub(super) period_s: Option<f64>,
    is_over: bool,
}

impl Daemon {
    /// So long a daemon has to begin, and to hear of the end of the processes.
    const WITHIN: Duration = Duration::from_secs(5);

    /// Starts it, with settings if it has any.
    pub(super) fn start(folder: &Path, settings: Option<&Path>) -> anyhow::Result<Self> {
        let [socket, pages, store] = ["serve.sock", "pages", "store"].map(|name| folder.join(name));
        let mut command = Command::new(iotide_private::own_program()?);
        command.args(["serve", "--http", "none", "--socket"]).arg(&socket);
        command.arg("--pages").arg(&pages).arg("--store").arg(&store);
        if let Some(settings) = settings {
            command.arg("--config").arg(settings);
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().context("cannot start `iotide serve`")?;
        let mut daemon = Self { child, socket, pages };
        let began = Instant::now();
        while client::get(&daemon.socket, "/api/1/jobs").is_err() {
            if daemon.child.try_wait()?.is_some() || began.elapsed() > Self::WITHIN {
                bail!("`iotide serve` does not answer");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(daemon)
    }

    /// Where it is asked.
    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns the environment in which the daemon watches processes.
    pub(super) fn environment(&self) -> [(&'static str, OsString); 2] {
        [("IOTIDE_LIVE", self.pages.clone().into_os_string()), ("IOTIDE_JOB_ID", JOB.into())]
    }

    /// All that is known of a job now.
    pub(super) fn document(&self, job: &str) -> Option<Value> {
        let answer = client::get(&self.socket, &format!("/api/1/jobs/{job}")).ok()?;
        serde_json::from_slice(&answer.body).ok()
    }

    /// Returns the present state of the job.
    pub(super) fn job(&self) -> Option<Seen> {
        let job = self.document(JOB)?;
        Some(Seen {
            bytes_written: job["io"]["bytes_written"].as_u64()?,
            period_s: job["period_s"].as_f64(),
            is_over: job["state"] != "running",
        })
    }

    /// Returns the state of the job once its processes have ended.
    pub(super) fn job_at_the_end(&self) -> Option<Seen> {
        let began = Instant::now();
        loop {
            let seen = self.job();
            if seen.as_ref().is_none_or(|seen| seen.is_over) || began.elapsed() > Self::WITHIN {
                return seen;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // What it keeps is removed with the folder.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
