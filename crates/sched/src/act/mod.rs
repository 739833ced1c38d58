//! The loop, closed: what is measured decides by itself, within rules, and is evaluated by what came of it.
//!
//! ```text
//!  jobs as they are measured ─▶ proposals ─▶ Controller ─▶ steps (do, undo)
//!                                  ▲            │ ▲
//!                          rules, limits        │ └── what really came of it
//!                                               └──▶ decisions: evidence, expected, measured
//! ```
//!
//! A [`Controller`] takes nothing for granted: what is not expected to pay is not done, what was done and does not pay is undone, and a
//! [`Rule`] whose decisions do not pay is used no more. It holds no file, no clock and no socket; whoever drives it carries out its [`Step`]s.

pub use controller::{Controller, Measure, Proposal, RuleState, Step};
pub use decision::{Change, Decision, Effect, NewPeriod, Quantity, State, Verdict};
pub use history::{History, JobLoss, Sample};
pub use rule::{Actor, JobFacts, Limits, Pattern, Rule, Scope, id_of};
pub use sets::{AtTarget, period_changes};

mod controller;
mod decision;
mod history;
mod rule;
mod sets;

#[cfg(test)]
mod faults;
#[cfg(test)]
mod harm;
#[cfg(test)]
mod tests;
