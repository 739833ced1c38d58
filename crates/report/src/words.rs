//! Wording of parts of results, for pages.

pub use crate::alarms::value_text;
pub use crate::archive::population_in_words;
pub use crate::compare::{gains_in_words, presence_in_words};
pub use crate::decisions::{MOST_HARMED, share};
pub use crate::harmonics::in_words as harmonics_in_words;
pub use crate::issue::not_judged_in_words;
pub use crate::scaling::{advice_line, failure_line, figure, per_cent};
pub use crate::staging_simulation::{COLUMNS as STAGING_COLUMNS, SIZE_COLUMNS as STAGING_SIZE_COLUMNS};
pub use crate::system::{CARRY_HEAD, CHANGE_HEAD, TEMPLATE_HEAD, plain};
