//! Alarms: what is watched, and when it fires.
//!
//! A [`Rule`] defines which value of which jobs is too large, too small, or the one that nobody wants. A [`Watch`] takes the value of one rule on one target,
//! tick by tick, and returns when the alarm begins and when it ends. Between two begins there is always a value beyond the clear level: an alarm does not flap.

pub use rule::{On, Relation, Rule, RuleError, RuleName, Scope, SlowedBy, Subject, number};
pub use watch::{Change, State, Watch};
pub use window::Window;

mod rule;
mod watch;
mod window;
