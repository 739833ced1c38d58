//! `iotide arbiter`: who may move data when, for programs that run under the tracer.

use std::path::PathBuf;
use std::time::Duration;

use iotide_gate::{Access, Arbiter, ArbiterConfig, GateError};
use iotide_live::Address;

use super::ioskel::{parse_seconds, parse_size};
use super::scheduling::SchedulingArgs;
use crate::ExitStatus;
use crate::ui::{Hint, Ui};

/// Let programs take turns at the storage, without a mount and without root
///
/// Programs that run under `iotide record` with IOTIDE_GATE set to ADDRESS ask here before they move data, and are answered
/// in the order that a policy says. Jobs are identified by IOTIDE_JOB_ID, IOSETS_JOB_ID or the batch system's variable. How long a
/// job's I/O phases are apart is found from its own requests; --periods or --control override it.
///
/// If the arbiter goes away or stops answering, programs go on without it after a second at most. One arbiter stands
/// for one storage target. Runs until a signal ends it.
///
/// At a tcp: address that other machines can reach, programs prove whose they are by a key (`iotide serve key`, `iotide sets key`);
/// without --key such an address is refused.
#[derive(clap::Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ArbiterArgs {
    /// Where programs ask: unix:/path, or tcp:address:port
    #[arg(value_name = "ADDRESS", value_parser = parse_listen)]
    listen: Address,
    #[command(flatten)]
    scheduling: SchedulingArgs,
    /// For how long a program that is alone need not ask again; another waits for this long at most before it has a say
    #[arg(long, default_value = "20ms", value_name = "TIME", value_parser = parse_seconds)]
    lease: f64,
    /// Let SIZE a second through at most, as a storage of that speed would: to try a policy out
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    bandwidth: Option<u64>,
    /// Key of the site, with which programs at a tcp: address prove who they are
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    #[command(flatten)]
    socket: SocketArgs,
}

/// Who may ask at a path.
#[derive(clap::Args, Debug)]
pub(super) struct SocketArgs {
    /// Who may ask at a unix: address, as an octal mode; 0666 is everyone on this machine [default: 0600, or 0660 with a group]
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    socket_mode: Option<u32>,
    /// The group that the socket belongs to, by name or number
    #[arg(long, value_name = "GROUP")]
    socket_group: Option<String>,
}

impl SocketArgs {
    pub(super) fn access(&self) -> Access {
        let mode = self.socket_mode.unwrap_or(if self.socket_group.is_some() { 0o660 } else { 0o600 });
        Access { mode, group: self.socket_group.clone() }
    }
}

const EXAMPLES: &str = "\
Examples:
  iotide arbiter unix:/tmp/scratch.gate --control /tmp/scratch.control
  IOTIDE_GATE=unix:/tmp/scratch.gate iotide record -- mpirun -n 64 ./simulation
  iotide sets show /tmp/scratch.control                     jobs, periods, sets and shares, live
  iotide arbiter unix:/run/scratch.gate --socket-group hpc  the programs of a group
  iotide arbiter tcp:10.0.0.5:7070 --key /etc/iotide/site.key   programs on all nodes";

pub(crate) fn run(ui: &mut Ui, args: &ArbiterArgs) -> anyhow::Result<ExitStatus> {
    let config = ArbiterConfig {
        access: args.socket.access(),
        key: args.key.clone(),
        lease: Duration::from_secs_f64(args.lease),
        bandwidth_bps: args.bandwidth.map(|bytes| bytes.max(1) as f64),
        ..ArbiterConfig::new(args.listen.clone(), args.scheduling.turns(args.bandwidth.map(|_| 1)))
    };
    let is_private = matches!(args.listen, Address::Unix(_)) && config.access.mode & 0o022 == 0;
    let whom = if is_private { " to your own programs (--socket-mode lets others ask)" } else { "" };
    let listening = |arbiter: &Arbiter| {
        ui.status(format_args!("listening{whom}; IOTIDE_GATE={}", arbiter.address()));
    };
    match Arbiter::run(&config, listening) {
        Ok(()) => Ok(ExitStatus::Done),
        Err(error) => {
            let hint = hint(&error);
            Err(error).hint(hint)
        }
    }
}

/// Returns advice for an arbiter that cannot listen.
pub(super) fn hint(error: &GateError) -> &'static str {
    match error {
        GateError::NoKey(_) => "`iotide serve key site.key` makes a key; name it with --key",
        GateError::Key { .. } => {
            "`iotide serve key FILE` makes the key of a site, `iotide sets key` that of a user"
        }
        GateError::Map { .. } => {
            "as IOTIDE_GATE: unix:/path, tcp:a.b.c.d:port, or /path=ADDRESS,ADDRESS@1M;…"
        }
        _ => "choose an address that is free, and a path in a directory that you can write to",
    }
}

fn parse_mode(text: &str) -> Result<u32, String> {
    let mode = u32::from_str_radix(text, 8).ok().filter(|mode| *mode <= 0o777);
    mode.ok_or_else(|| "a mode is an octal number up to 0777".to_owned())
}

pub(super) fn parse_listen(text: &str) -> Result<Address, String> {
    // The tracer's gate knows no ZeroMQ.
    let address = text.parse().ok().filter(|address| !matches!(address, Address::Zmq(_)));
    address.ok_or_else(|| "an address is unix:/path or tcp:address:port".to_owned())
}
