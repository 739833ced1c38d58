//! What is done about I/O, for real: the closed loop beside a daemon, and the ways it shares with commands that people run.
//!
//! [`Acting`] looks at the jobs now and then, proposes what its rules ([`ActSettings`]) permit, and carries it out: `target` tells arbiters and mounts of periods,
//! `stagers` stage what jobs write, `resizer` changes sizes. Decisions are `iotide_sched::act`'s; here is what they need of the world.
//!
//! - [`Slurm`], [`Actuators`]: a Slurm by its own commands, and how a size is changed; [`Deciding`]: to which.
//! - [`Watch`]: jobs as several sources see them, for those who keep a file system informed.
//! - [`control`]: the control socket of a mount or an arbiter.
//! - [`programs`]: the one runner of programs; none is waited for longer than report.
//!
//! **Invariant:** what is done elsewhere is lent, or written down before it is done: a controller that was killed leaves nothing half-done.

use iotide_edge::places;
use iotide_source::Source;

pub use actuators::{Actuators, Manner, rest};
pub use closed_loop::{Acting, Seat};
pub use settings::ActSettings;
pub use sizes::{Deciding, Models, in_words, policy_named};
pub use slurm::{Listing, Slurm, SlurmTalk, checked_signal, may_expand, plain_word};
pub use watch::{Watch, Watching};

mod actuators;
mod closed_loop;
pub mod control;
mod journal;
mod log;
pub mod programs;
mod resizer;
mod settings;
mod sizes;
mod slurm;
mod stagers;
mod target;
mod watch;

/// Reads a source: a table, a socket, an address or a daemon.
pub fn parse_source(text: &str) -> Result<Source, String> {
    Source::parse(text, || {
        let socket = places::socket_to_ask();
        // In a place of one's own only oneself and root can answer; anyone else has put that place there.
        let is_ours = socket == places::socket();
        (socket, is_ours)
    })
}
