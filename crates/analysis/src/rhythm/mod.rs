//! The one rhythm engine: from a run's bandwidth to the rhythms in it.
//!
//! 1. *Propose* (`propose`). The signal is cut into phases in many ways: bursts above a level of bandwidth, gaps closed at every
//!    natural break, the same split into two classes by volume, and smoothing at each scale.
//! 2. *Explain* (`explain`). For the starts of each proposal the best explanation in stretches with a beat is found, and its
//!    odds against chance.
//! 3. *Choose* (`choose`). What the structure of another proposal explains better is dropped; of the rest the most probable is
//!    the rhythm, and what has phases of its own beside it, or before and after it, holds as well.
//! 4. *Look again* (`rest`, `swing`). What a plain rhythm leaves of the signal may have another one; a stream that never pauses may have one in
//!    the swing of its level.
//!
//! `docs/methods.md` says it in plain words.

pub(crate) use choose::{Findings, Found, MOST_CERTAIN, Sums, find_rhythms, weigh};
pub use evidence::{NAMES, WEIGHTS};
pub(crate) use propose::{Rule, cut_by};
pub(crate) use rest::find_all_rhythms;
pub(crate) use steps::{Burst, Steps};

mod choose;
mod evidence;
mod explain;
mod propose;
mod rest;
mod rows;
mod scale;
mod spectrum;
mod steps;
mod swing;
