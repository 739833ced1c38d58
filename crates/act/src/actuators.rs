//! A size is changed: with a signal and a grace period, or through a helper job of which nothing is left.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use iotide_sched::jobs::WantedResize;

use crate::journal::{Journal, PREFIX};
use crate::slurm::Slurm;

/// How jobs are treated.
#[derive(Clone, Debug, PartialEq)]
pub struct Manner {
    /// What a job gets before it is shrunk; `none` for nothing.
    pub signal: String,
    /// Time from the signal to the shrink.
    pub grace_s: f64,
    /// Time that a helper job may wait for its nodes.
    pub wait_s: f64,
}

/// Changes sizes; helper jobs, each of which asks for nodes that a running job is given, are written down.
pub struct Actuators {
    journal: Journal,
    manner: Manner,
    /// Slurm leaves scripts where a size is changed.
    scratch: PathBuf,
    n_asked: u32,
}

impl Actuators {
    /// Opens the folder that remembers what is under way; nobody else can use it meanwhile.
    pub fn open(folder: &Path, manner: Manner) -> anyhow::Result<Self> {
        let journal = Journal::open(folder)?;
        let scratch = folder.join("scratch");
        let _ = std::fs::remove_dir_all(&scratch);
        std::fs::create_dir(&scratch).with_context(|| format!("cannot use {}", scratch.display()))?;
        Ok(Self { journal, manner, scratch, n_asked: 0 })
    }

    /// Where Slurm's commands may leave files.
    pub fn scratch(&self) -> &Path {
        &self.scratch
    }

    /// Gives a job another size.
    pub fn carry_out(
        &mut self,
        slurm: &Slurm,
        resize: &WantedResize,
        stop: &AtomicBool,
    ) -> anyhow::Result<()> {
        if resize.to > resize.from {
            return self.grow(slurm, &resize.id, resize.to - resize.from);
        }
        if self.manner.signal != "none" {
            slurm.signal(&resize.id, &self.manner.signal)?;
            if !rest(self.manner.grace_s, stop) {
                bail!("not shrunk: stopped during its grace period");
            }
        }
        slurm.set_size(&resize.id, &resize.to.to_string())
    }

    fn grow(&mut self, slurm: &Slurm, id: &str, by: u32) -> anyhow::Result<()> {
        self.n_asked += 1;
        let name = format!("{PREFIX}{id}-{}-{}", std::process::id(), self.n_asked);
        self.journal.add(&name)?;
        let grown = grow_by(slurm, id, by, &name, self.manner.wait_s);
        cancel_all(slurm, &name)?;
        self.journal.remove(&name)?;
        grown
    }

    /// Cancels all helper jobs that may exist; says of which that is true.
    pub fn withdraw(&mut self, slurm: &Slurm) -> anyhow::Result<Vec<String>> {
        let mut notes = Vec::new();
        for name in self.journal.names() {
            if cancel_all(slurm, &name)? > 0 {
                notes.push(format!("helper job {name} is cancelled"));
            }
            self.journal.remove(&name)?;
        }
        Ok(notes)
    }
}

impl Drop for Actuators {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.scratch);
    }
}

fn grow_by(slurm: &Slurm, id: &str, by: u32, name: &str, wait_s: f64) -> anyhow::Result<()> {
    let Some(helper) = slurm.ask_for(id, by, name, wait_s.ceil() as u64)? else {
        bail!("not grown: {by} more nodes were not to be had within {wait_s} s");
    };
    let Some(held) = slurm.size_of(id)? else { bail!("not grown: it ended meanwhile") };
    slurm.set_size(&helper, "0")?;
    let wanted = held + by;
    // With the last node of the helper the job has them all; some versions of Slurm must be told so.
    for _ in 0..5 {
        if slurm.size_of(id)?.is_none_or(|nodes| nodes >= wanted) {
            return Ok(());
        }
        if slurm.set_size(id, "ALL").is_err() {
            thread::sleep(Duration::from_secs(1));
        }
    }
    bail!("not grown: Slurm did not hand {by} nodes over")
}

fn cancel_all(slurm: &Slurm, name: &str) -> anyhow::Result<usize> {
    let ids = slurm.named(name)?;
    for id in &ids {
        slurm.cancel(id)?;
    }
    Ok(ids.len())
}

/// Waits, and returns whether nobody said to stop meanwhile.
pub fn rest(seconds: f64, stop: &AtomicBool) -> bool {
    let until = Instant::now() + Duration::from_secs_f64(seconds);
    while !stop.load(Ordering::Relaxed) {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(Duration::from_millis(50)));
    }
    false
}
