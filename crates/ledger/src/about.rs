//! What is known of a job beside its key.

use crate::identity::{Name, Trust};
use crate::parameters::Parameters;

/// What is known of a job beside its key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// The name of its user, or their number.
    pub user: Name,
    /// Which application it is a run of: see [`crate::app_id`], or the name that the user chose.
    pub app: Name,
    /// What people call it: the program's file name.
    pub name: Name,
    /// Its command line, cut where it is very long.
    pub command: String,
    /// The directory it runs in.
    pub run_dir: String,
    /// The partition of the scheduler; empty if there is none.
    pub partition: Name,
    /// The account that the scheduler charges; empty if there is none.
    pub account: Name,
    /// What the scheduler calls the job beside its id: `4711_3`, the third of an array; empty if there is nothing.
    pub alias: Name,
    /// How many processes it has: what the launcher says, or how many were seen.
    pub size: u32,
    /// Who says that it is this job.
    pub trust: Trust,
    /// Which binary ran: the digits of its build id, or what stands for one; empty if it is not known.
    pub build: Name,
    /// Its own parameters beside its size.
    pub parameters: Parameters,
}
