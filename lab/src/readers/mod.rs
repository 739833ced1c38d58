//! Readers tried on what nobody here made, and on what is larger than anyone hands out; and what other chores ask of traces.

use std::ops::ControlFlow;
use std::path::PathBuf;

use iotide_trace::{AccessFacts, Event, EventSink, Loss, TimeSpent, Timestamp};

use crate::repository;

pub mod large;
pub mod round_trip;

/// Returns where something of the shared data is, in a folder above the repository.
pub fn shared_data(path: &str) -> Option<PathBuf> {
    repository().ancestors().map(|folder| folder.join("shared/data").join(path)).find(|found| found.exists())
}

/// Keeps what is missing from a trace.
#[derive(Default)]
pub struct Losses(pub Vec<Loss>);

impl EventSink for Losses {
    fn event(&mut self, _: Event) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    fn loss(&mut self, loss: Loss) {
        self.0.push(loss);
    }
    fn async_event(&mut self, _: Event, _: Timestamp) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
    fn time_spent(&mut self, _: TimeSpent) {}
    fn access_facts(&mut self, _: &AccessFacts) {}
}
