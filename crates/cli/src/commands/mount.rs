//! `iotide mount`: a directory through which each job's requests are served in the order a policy says.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use iotide_gate::{ArbiterConfig, Arbiters, GateError};
use iotide_live::Address;
use iotide_mount::{MountConfig, MountError, mount};

use super::arbiter::{self, SocketArgs, parse_listen};
use super::ioskel::{parse_seconds, parse_size};
use super::scheduling::SchedulingArgs;
use crate::ExitStatus;
use crate::ui::{Hint, Ui};

/// Mount a directory and schedule the jobs' I/O
///
/// Shows BACKING at MOUNTPOINT and passes everything on, but serves the reads and writes of each job in the order that a
/// policy says. Jobs are identified by job_<id> in the cgroup of the calling process, else by IOSETS_JOB_ID or SLURM_JOB_ID in its
/// environment, else by user. How long a job's I/O phases are apart is found from its own requests; --periods or
/// --control override it.
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
    #[command(flatten)]
    scheduling: SchedulingArgs,
    /// Requests of at most this size are not held up, up to 1 MiB/s of a user
    #[arg(long, default_value = "16k", value_name = "SIZE", value_parser = parse_size)]
    bypass: u64,
    /// For how long the kernel may cache names and attributes that others change behind the mount
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = parse_seconds)]
    cache: f64,
    /// Pretend that the backing file system moves no more than this in a second, to try a policy out: 110MiB
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    bandwidth: Option<u64>,
    /// Pretend that there are N storage targets, each of that bandwidth, with the stripes (1 MiB) of a file round robin
    #[arg(long, default_value_t = 1, value_name = "N", requires = "bandwidth", value_parser = clap::value_parser!(u16).range(1..=16))]
    targets: u16,
    /// Ask these arbiters before data are moved, instead of a queue of this mount's own: an address or a map, as IOTIDE_GATE
    #[arg(long, value_name = "MAP", conflicts_with_all = ["policy", "rules", "periods"])]
    gate: Option<String>,
    /// Let programs under the tracer, on this machine or others, ask for turns in the queue of this mount: unix:/path or tcp:address:port
    #[arg(long, value_name = "ADDRESS", value_parser = parse_listen, conflicts_with = "gate")]
    listen_gate: Option<Address>,
    /// Key by which arbiters at tcp: addresses, or programs that ask here, are known
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    #[command(flatten)]
    socket: SocketArgs,
}

const EXAMPLES: &str = "\
Examples:
  iotide mount /lustre/scratch /scratch
  iotide mount /scratch /scratch --policy fair-share
  iotide mount /scratch /scratch --periods periods.csv --control /run/iotide.sock
  iotide mount /tmp/store /tmp/slow --policy none --bandwidth 110MiB    what would a slow disk do?
  iotide mount /scratch /scratch --gate tcp:10.0.0.5:7070 --key site.key         turns across nodes
  iotide mount /export /export --listen-gate tcp:10.0.0.5:7070 --key site.key    at a server
  fusermount3 -u /scratch                                               the end of it";

pub(crate) fn run(ui: &mut Ui, args: &MountArgs) -> anyhow::Result<ExitStatus> {
    let n_paced = args.bandwidth.map(|_| args.targets);
    let turns = match args.gate {
        Some(_) => args.scheduling.turns_of_others(n_paced),
        None => args.scheduling.turns(n_paced),
    };
    let config = MountConfig {
        bypass_bytes: args.bypass,
        bandwidth_bps: args.bandwidth.map(|bytes| bytes as f64),
        n_targets: usize::from(args.targets),
        trust: Duration::from_secs_f64(args.cache),
        arbiters: arbiters(args)?,
        listen: args.listen_gate.as_ref().map(|address| ArbiterConfig {
            access: args.socket.access(),
            key: args.key.clone(),
            ..ArbiterConfig::new(address.clone(), turns.clone())
        }),
        ..MountConfig::new(&args.backing, &args.mountpoint, turns)
    };
    let mounted = match mount(&config) {
        Ok(mounted) => mounted,
        Err(error) => {
            let hint = hint(&error);
            return Err(error).hint(hint);
        }
    };
    if mounted.has_cleared() {
        ui.status(format_args!(
            "took away what was left of an earlier mount at {}, whose program had ended",
            args.mountpoint.display()
        ));
    }
    ui.status(format_args!("{} is shown at {}", args.backing.display(), args.mountpoint.display()));
    if let Some(arbiter) = mounted.arbiter() {
        ui.status(format_args!("turns in its queue are given at IOTIDE_GATE={}", arbiter.address()));
    }
    mounted.serve().context("cannot go on")?;
    Ok(ExitStatus::Done)
}

/// Whom the mount asks.
fn arbiters(args: &MountArgs) -> anyhow::Result<Option<Arbiters>> {
    let Some(text) = &args.gate else { return Ok(None) };
    // Where it cannot be found, mounting says so.
    let mountpoint = args.mountpoint.canonicalize().unwrap_or_else(|_| args.mountpoint.clone());
    match Arbiters::read(text, &mountpoint, args.key.as_ref()) {
        Ok(arbiters) => Ok(Some(arbiters)),
        Err(error) => {
            let hint = arbiter::hint(&error);
            Err(error).hint(hint)
        }
    }
}

/// Returns advice for a mount that failed.
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
        MountError::Gate(GateError::Periods { .. }) => {
            "one line per job: its name, a comma, seconds".to_owned()
        }
        MountError::Gate(
            error @ (GateError::NoKey(_)
            | GateError::Key { .. }
            | GateError::Listen { .. }
            | GateError::NoGroup(_)),
        ) => arbiter::hint(error).to_owned(),
        MountError::Gate(GateError::Control { .. }) => {
            "choose a path in a directory that you can write to".to_owned()
        }
        _ => "both directories must exist".to_owned(),
    }
}
