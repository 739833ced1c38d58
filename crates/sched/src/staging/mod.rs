//! When data may leave a buffer: in the gaps between a job's I/O phases, and earlier if room runs out.
//!
//! A [`Controller`] takes what the job does ([`Controller::activity`]), what is expected of it ([`Controller::forecast`])
//! and how fast data moves ([`Controller::moved`]). Asked at any time, it returns what to do now ([`Controller::decide`]).
//! `iotide stage` and the simulator run the same controller.
//!
//! ```
//! use iotide_sched::staging::{Controller, Policy, Seen, Settings, State};
//!
//! let mut controller = Controller::new(Settings::new(Policy::Gap));
//! controller.activity(10.0, 4e9);
//! let seen = |now_s| Seen { now_s, used_bytes: 4e9, eligible_bytes: 4e9, ..Seen::default() };
//! // The job has just written; without predictions a whole second of silence is needed.
//! assert_eq!(controller.decide(&seen(10.5)).state, State::Hold);
//! assert_eq!(controller.decide(&seen(11.1)).state, State::Run);
//! ```

pub use controller::{Basis, Controller, Decision, Seen, State, Why};
pub use forecast::Forecast;
pub use settings::{Policy, Settings};

mod capacity;
mod controller;
mod forecast;
#[cfg(test)]
mod properties;
mod rhythm;
mod settings;
#[cfg(test)]
mod tests;
