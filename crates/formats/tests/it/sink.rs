//! A sink for tests that look at events and losses and at nothing else.

use std::ops::ControlFlow;

use iotide_trace::{AccessFacts, Event, EventSink, Loss, TimeSpent, Timestamp};

/// Hands each event, asynchronous ones too, to the first function and each loss to the second.
pub(crate) struct Each<E, L>(pub E, pub L);

impl<E: FnMut(Event), L: FnMut(Loss)> EventSink for Each<E, L> {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        (self.0)(event);
        ControlFlow::Continue(())
    }

    fn async_event(&mut self, event: Event, _: Timestamp) -> ControlFlow<()> {
        self.event(event)
    }

    fn time_spent(&mut self, _: TimeSpent) {}

    fn access_facts(&mut self, _: &AccessFacts) {}

    fn loss(&mut self, loss: Loss) {
        (self.1)(loss);
    }
}
