//! `iotide mount`: a directory through which each job's requests are served in the order a policy says.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use iotide_mount::{MountConfig, MountError, mount};
use iotide_sched::{Policy, UnknownJobs};

use super::ioskel::{parse_seconds, parse_size};
use crate::ExitStatus;
use crate::ui::{Hint, Ui};

/// Show a directory so that jobs do not get in each other's way
///
/// Shows BACKING at MOUNTPOINT and passes everything on, but serves the reads and writes of each job in the order that a
/// policy says. Jobs are told by IOSETS_JOB_ID or SLURM_JOB_ID in the environment of the calling process, else by job_<id>
/// in its cgroup, else by user. How long a job's I/O phases are apart is told from its own requests; --periods or
/// --control say it instead.
///
/// Runs until the directory is unmounted (fusermount3 -u MOUNTPOINT) or a signal ends it. MOUNTPOINT may be BACKING itself:
/// paths then stay as they were. As root it serves all users, otherwise the one who mounts.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct MountArgs {
    /// The directory to show
    backing: PathBuf,
    /// Where to show it: an empty directory, or BACKING itself
    mountpoint: PathBuf,
    /// Who is served when
    #[arg(long, value_enum, default_value_t = PolicyName::Set10, value_name = "POLICY")]
    policy: PolicyName,
    /// How many data requests may be with the backing file system at once
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    workers: u16,
    /// Requests of at most this size are never held up
    #[arg(long, default_value = "16k", value_name = "SIZE", value_parser = parse_size)]
    bypass: u64,
    /// A job that was idle for this long has ended its I/O phase, and the next of its set is served
    #[arg(long, default_value = "50ms", value_name = "TIME", value_parser = parse_seconds)]
    phase_gap: f64,
    /// For how long the system may believe what it was told of names and attributes that others change behind the mount
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = parse_seconds)]
    cache: f64,
    /// Pretend that the backing file system moves no more than this in a second, to try a policy out: 110MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    bandwidth: Option<u64>,
    /// Judge periods as if they were so many times as long, in an experiment whose times were divided by that
    #[arg(long, default_value_t = 1.0, value_name = "FACTOR", value_parser = parse_factor)]
    time_scale: f64,
    /// Take periods from FILE rather than from what jobs do: lines job,seconds or {"job": seconds}; read again on change
    #[arg(long, value_name = "FILE")]
    periods: Option<PathBuf>,
    /// Make a socket at PATH to see jobs ("jobs") and say their periods ("period JOB SECONDS"), a line each
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  iotide mount /lustre/scratch /scratch
  iotide mount /scratch /scratch --policy fair-share
  iotide mount /scratch /scratch --periods periods.csv --control /run/iotide.sock
  iotide mount /tmp/store /tmp/slow --policy none --bandwidth 110MiB    what would a slow disk do?
  fusermount3 -u /scratch                                               the end of it";

/// A policy as people type it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum PolicyName {
    /// Requests as they come
    None,
    /// Each job has the same share
    FairShare,
    /// One job at a time, first come, first served
    Exclusive,
    /// Jobs with periods of the same order of magnitude take turns; those with short periods have the larger share
    Set10,
}

impl From<PolicyName> for Policy {
    fn from(name: PolicyName) -> Self {
        match name {
            PolicyName::None => Policy::Unscheduled,
            PolicyName::FairShare => Policy::FairShare,
            PolicyName::Exclusive => Policy::Exclusive,
            PolicyName::Set10 => Policy::Set10(UnknownJobs::Together),
        }
    }
}

pub(crate) fn run(ui: &mut Ui, args: &MountArgs) -> anyhow::Result<ExitStatus> {
    let config = MountConfig {
        n_workers: usize::from(args.workers),
        bypass_bytes: args.bypass,
        phase_gap_s: args.phase_gap,
        bandwidth_bps: args.bandwidth.map(|bytes| bytes as f64),
        time_scale: args.time_scale,
        trust: Duration::from_secs_f64(args.cache),
        predict: args.periods.is_none(),
        periods: args.periods.clone(),
        control: args.control.clone(),
        ..MountConfig::new(&args.backing, &args.mountpoint, args.policy.into())
    };
    let mounted = match mount(&config) {
        Ok(mounted) => mounted,
        Err(error) => {
            let hint = hint(&error);
            return Err(error).hint(hint);
        }
    };
    ui.status(format_args!("{} is shown at {}", args.backing.display(), args.mountpoint.display()));
    mounted.serve().context("cannot go on")?;
    Ok(ExitStatus::Done)
}

pub(super) fn parse_factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| (1e-6..=1e6).contains(factor));
    factor.ok_or_else(|| "a factor is a number between 1e-6 and 1e6".to_owned())
}

/// What to do about a mount that failed.
fn hint(error: &MountError) -> String {
    match error {
        MountError::Stale { path } => {
            format!(
                "take it away with `fusermount3 -u {0}` or `umount -l {0}`, then mount again",
                path.display()
            )
        }
        MountError::Inside { .. } => {
            "choose a mount point outside, or the backing directory itself".to_owned()
        }
        MountError::NoFuse => {
            "load the kernel module (`modprobe fuse`), or give the container /dev/fuse".to_owned()
        }
        MountError::Refused { .. } => {
            "without root this needs fusermount3 (Debian package fuse3) and a mount point of your own"
                .to_owned()
        }
        MountError::Periods { .. } => "one line per job: its name, a comma, seconds".to_owned(),
        MountError::Control { .. } => "choose a path in a directory that you can write to".to_owned(),
        _ => "both directories must exist".to_owned(),
    }
}
