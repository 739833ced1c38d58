//! Many nodes, one picture: daemons that send what they count to another, which sends it on.
//!
//! Nothing here knows of sockets, threads or clocks. A [`Hub`] holds rows, an [`Uplink`] and a [`Downlink`] are the ends of a connection, [`Frame`]s
//! are what they say; the same code runs between machines and between made ones in tests.
//!
//! Promise of the tree: the sum of a job at the root never falls, never exceeds what was counted, and equals it once all have been heard,
//! whatever happened to connections and daemons in between. That rests on three things: rows are cumulative and are never added on the way;
//! of two versions of a row the larger values win; and a final row is sent again until the root's store has it.
//!
//! Counts from a time without a connection reach the daemon above afterwards, with the time of counting ([`LateGrowth`]).
//!
//! The rhythm of a job is found where it is sampled, and comes up beside its rows ([`Outlook`]).
//!
//! All other data stay where they are, and are asked for: an [`Ask`] goes down to the node that has them, the answer comes up in parts, behind all rows.

pub use asking::{AnswerPart, Ask, AskError, MOST_ANSWER, MOST_OPEN, PartKind, Question, Wanted};
pub use frame::{
    Change, Changes, Frame, FrameError, Hello, MOST_FRAME, MOST_LEVELS, MOST_METRICS, MOST_ROWS, MissedFrame,
    NodeNews, Opened, Place, RowFrame, VERSIONS, Welcome, Whole, read_counters, split, write_counters,
    write_row,
};
pub use hub::{Group, GroupNews, Hub, HubFull, HubRow, KeptRow, KnownNode, RowId, RowKey, SILENT_NS};
pub use links::{Downlink, Inbox, LinkError, Uplink};
pub use missed::{KEPT_NS, LateGrowth};
pub use outlook::Outlook;

mod asking;
mod frame;
mod hub;
#[cfg(test)]
mod liars;
mod links;
mod missed;
mod outlook;
#[cfg(any(test, feature = "trials"))]
pub mod trials;
