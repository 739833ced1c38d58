//! Records that make no sense, summed up by kind.

use iotide_trace::{EventSink, Loss};

use crate::Place;

/// Collects unusable records while reading: many of one kind become one [`Loss`] that names the first.
///
/// A source in which every line is broken must not cost a `Loss` per line; the number of kinds is what the reader's
/// code names, so this stays small.
#[derive(Default)]
pub(crate) struct Losses {
    kinds: Vec<Kind>,
}

struct Kind {
    name: &'static str,
    first: String,
    records: u64,
}

impl Losses {
    /// Notes one record that is left out. `kind` groups; `fault` (made only for the first of its kind) says what
    /// was wrong with this one.
    pub(crate) fn record(&mut self, kind: &'static str, place: Place, fault: impl FnOnce() -> String) {
        self.records(1, kind, place, fault);
    }

    /// Notes `records` records of one kind at once.
    pub(crate) fn records(
        &mut self,
        records: u64,
        kind: &'static str,
        place: Place,
        fault: impl FnOnce() -> String,
    ) {
        match self.kinds.iter_mut().find(|known| known.name == kind) {
            Some(known) => known.records = known.records.saturating_add(records),
            None => self.kinds.push(Kind { name: kind, first: format!("{place}: {}", fault()), records }),
        }
    }

    /// Hands all of it to the sink.
    pub(crate) fn report(self, sink: &mut dyn EventSink) {
        for Kind { first, records, .. } in self.kinds {
            let what = match records {
                0 | 1 => first,
                _ => format!("{first}, and {} more like it", records - 1),
            };
            sink.loss(Loss::of_records(records, what));
        }
    }
}
