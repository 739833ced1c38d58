//! Whose request goes next, for real: a scheduler, the periods of the jobs it sees, a control socket, and an arbiter.
//!
//! ```text
//!  requests of a mount ─────────────┐
//!                                   ├─▶ Scheduler (sched::Queue) ─▶ a Permit, at once or later
//!  programs that ask an Arbiter ────┘       ▲            ▲
//!                                        Rhythm       Control
//!                                   (periods, predicted, reported or from a file)
//! ```
//!
//! Promises:
//! - A request that waits for its turn holds no thread.
//! - Nobody who connects can hold up anybody else: one thread hears all of them, and who says nothing is hung up on.
//! - Everything started here ends when it is dropped, its threads included.
//!
//! Start reading at [`Gate`], then `schedule`.

pub use crate::arbiter::{Access, Arbiter, ArbiterConfig};
pub use crate::asker::Arbiters;
pub use crate::caller::Who;
pub use crate::crew::{Crew, Task};
pub use crate::error::GateError;
pub use crate::gate::{Gate, Storage};
pub use crate::keys::{user_number, write_user_key};
pub use crate::process::{Signals, raise_open_files};
pub use crate::schedule::{Direction, JobStatus, Permit, Scheduler, Ticket};
pub use crate::turns::Turns;
pub use iotide_private::{Share, Shares};

mod allowance;
mod arbiter;
mod asker;
mod caller;
mod clock;
mod control;
mod crew;
mod device;
mod door;
mod error;
mod gate;
mod hints;
mod job;
mod keys;
mod meter;
mod process;
mod rhythm;
mod schedule;
mod shares;
mod turns;
