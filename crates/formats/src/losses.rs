//! Records that make no sense, summed up by kind.

use iotide_trace::{EventSink, Loss, Timestamp};

use crate::Place;

/// Collects unusable records while reading: many of one kind become one [`Loss`] that names the first.
///
/// A source in which every line is broken must not cost a `Loss` per line; the number of kinds is what the readers'
/// code names, so this stays small.
#[derive(Default)]
pub(crate) struct Losses {
    kinds: Vec<Kind>,
}

struct Kind {
    name: &'static str,
    first: String,
    /// How often it was noted, and how many records that is.
    noted: u64,
    records: Option<u64>,
    /// Whether the source could not be read to its end.
    cut: bool,
}

impl Losses {
    /// Notes one record that is left out.
    pub(crate) fn record(&mut self, place: Place, nonsense: Nonsense) {
        self.records(1, place, nonsense);
    }

    /// Notes `records` records of one kind at once.
    pub(crate) fn records(&mut self, records: u64, place: Place, nonsense: Nonsense) {
        match self.kinds.iter_mut().find(|known| known.name == nonsense.kind) {
            Some(known) => {
                known.noted += 1;
                known.records = known.records.map(|known| known.saturating_add(records));
            }
            None => self.kinds.push(Kind {
                name: nonsense.kind,
                first: format!("{place}: {}", nonsense.fault),
                noted: 1,
                records: Some(records),
                cut: false,
            }),
        }
    }

    /// Notes a part of the source of which nobody knows how many records it held.
    pub(crate) fn unknown_size(&mut self, place: Place, nonsense: Nonsense) {
        let kind = nonsense.kind;
        self.records(0, place, nonsense);
        if let Some(known) = self.kinds.iter_mut().find(|known| known.name == kind) {
            known.records = None;
        }
    }

    /// Notes one record that is left out; `fault` is asked only for the first of its kind.
    pub(crate) fn note(&mut self, kind: &'static str, place: Place, fault: impl FnOnce() -> String) {
        self.notes(1, kind, place, fault);
    }

    /// Notes `records` records of one kind at once; `fault` is asked only for the first of its kind.
    pub(crate) fn notes(
        &mut self,
        records: u64,
        kind: &'static str,
        place: Place,
        fault: impl FnOnce() -> String,
    ) {
        // The fault of a kind that is known is not looked at.
        let known = self.kinds.iter().any(|known| known.name == kind);
        self.records(records, place, Nonsense { kind, fault: if known { String::new() } else { fault() } });
    }

    /// Notes a part of the source of unknown size; `fault` is asked only for the first of its kind.
    pub(crate) fn note_of_unknown_size(
        &mut self,
        kind: &'static str,
        place: Place,
        fault: impl FnOnce() -> String,
    ) {
        let known = self.kinds.iter().any(|known| known.name == kind);
        self.unknown_size(place, Nonsense { kind, fault: if known { String::new() } else { fault() } });
    }

    /// Notes that nothing could be read from `place` on; `fault` is asked only for the first of its kind.
    pub(crate) fn note_of_the_rest(
        &mut self,
        kind: &'static str,
        place: Place,
        fault: impl FnOnce() -> String,
    ) {
        self.note_of_unknown_size(kind, place, fault);
        if let Some(known) = self.kinds.iter_mut().find(|known| known.name == kind) {
            known.cut = true;
        }
    }

    /// Hands all of it to the sink.
    pub(crate) fn report(self, sink: &mut dyn EventSink) {
        for Kind { first, noted, records, cut, .. } in self.kinds {
            let what = if noted > 1 { format!("{first}, and {} more like it", noted - 1) } else { first };
            sink.loss(Loss { what, records, since: None, cut });
        }
    }
}

/// Why a record cannot be used.
#[derive(Clone, Debug)]
pub(crate) struct Nonsense {
    /// Groups records that fail alike.
    pub(crate) kind: &'static str,
    /// Fault of this one, in lower case and without a full stop.
    pub(crate) fault: String,
}

impl Nonsense {
    pub(crate) fn new(kind: &'static str, fault: impl Into<String>) -> Self {
        Self { kind, fault: fault.into() }
    }
}

/// Returns the moments `start_s` and `end_s` seconds after the clock's zero, if they are times and in order.
pub(crate) fn interval(start_s: f64, end_s: f64) -> Result<(Timestamp, Timestamp), Nonsense> {
    let (start, end) = (moment("start", start_s)?, moment("end", end_s)?);
    if end < start {
        return Err(Nonsense::new("end before start", format!("end {end_s} is before start {start_s}")));
    }
    Ok((start, end))
}

/// Returns the moment `secs` seconds after the clock's zero, if it is one.
pub(crate) fn moment(what: &str, secs: f64) -> Result<Timestamp, Nonsense> {
    Timestamp::from_secs_since_start(secs)
        .ok_or_else(|| Nonsense::new("not a time", format!("{what} {secs} is not a time")))
}

/// Returns `amount` if bytes or bytes per second can be that many.
pub(crate) fn amount(what: &str, amount: f64) -> Result<f64, Nonsense> {
    // The bound keeps products of amounts and durations finite; NaN is in no range.
    if (0.0..=1e30).contains(&amount) {
        Ok(amount + 0.0) // −0 is 0
    } else {
        Err(Nonsense::new("not an amount", format!("{what} {amount} is not an amount")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_trace::Trace;

    #[test]
    fn losses_of_one_kind_are_one_loss_that_names_the_first() {
        let mut losses = Losses::default();
        for line in 3..10 {
            losses.record(Place::Line(line), interval(2.0, 1.0).unwrap_err());
        }
        losses.record(Place::Line(20), moment("start", f64::NAN).unwrap_err());
        let mut trace = Trace::default();
        losses.report(&mut trace);
        assert_eq!(
            trace.losses,
            [
                Loss::of_records(7, "line 3: end 1 is before start 2, and 6 more like it"),
                Loss::of_records(1, "line 20: start NaN is not a time"),
            ]
        );
    }
}
