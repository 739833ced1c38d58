//! Load of targets (bricks, daemons, OSTs) by logs of servers: the highest bandwidth of each, and the mean size of requests.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use iotide_trace::{AccessFacts, Event, EventSink, FileId, Grain, Layer, Loss, TimeSpent, Timestamp};

/// Collects what targets moved, interval by interval.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerTargets {
    by_target: BTreeMap<FileId, Target>,
    calls: u64,
    /// Of those.
    bytes: f64,
}

#[derive(Clone, Copy, Debug)]
struct Target {
    /// Reads and writes of an interval are told one after the other.
    last: (Timestamp, Timestamp),
    bytes: f64,
    most_bps: f64,
}

impl EventSink for ServerTargets {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        let is_sample = event.layer == Layer::Server && event.grain == Grain::Bin && event.op.moves_data();
        let seconds = event.end.secs_since(event.start);
        if !is_sample || seconds <= 0.0 || !event.bytes.is_finite() {
            return ControlFlow::Continue(());
        }
        if event.calls > 0 {
            self.calls += u64::from(event.calls);
            self.bytes += event.bytes;
        }
        if event.file != FileId::NONE {
            let last = (event.start, event.end);
            let target =
                self.by_target.entry(event.file).or_insert(Target { last, bytes: 0.0, most_bps: 0.0 });
            if target.last != last {
                (target.last, target.bytes) = (last, 0.0);
            }
            target.bytes += event.bytes;
            target.most_bps = target.most_bps.max(target.bytes / seconds);
        }
        ControlFlow::Continue(())
    }

    fn async_event(&mut self, event: Event, _: Timestamp) -> ControlFlow<()> {
        self.event(event)
    }

    fn time_spent(&mut self, _: TimeSpent) {}
    fn access_facts(&mut self, _: &AccessFacts) {}
    fn loss(&mut self, _: Loss) {}
}

impl ServerTargets {
    /// The mean size of requests, where servers count them.
    pub(crate) fn request_bytes(&self) -> Option<f64> {
        (self.calls > 0 && self.bytes > 0.0).then(|| self.bytes / self.calls as f64)
    }

    /// Bytes a second that each target moved at the most, by name.
    pub(crate) fn fastest<'a>(&'a self, files: &'a [String]) -> impl Iterator<Item = (&'a str, f64)> {
        let named = self.by_target.iter().filter(|(_, target)| target.most_bps > 0.0);
        named.filter_map(|(file, target)| Some((files.get(file.0 as usize)?.as_str(), target.most_bps)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_trace::{Op, Rank};

    #[test]
    fn a_target_moves_what_is_read_and_written_in_one_interval() {
        let mut targets = ServerTargets::default();
        let at = |secs| Timestamp::from_secs_since_start(secs).unwrap();
        for (file, op, start, bytes, calls) in [
            (0, Op::Read, 0.0, 10.0, 1),
            (0, Op::Write, 0.0, 20.0, 2),
            (1, Op::Write, 0.0, 50.0, 0),
            (0, Op::Write, 2.0, 40.0, 1),
        ] {
            let event = Event::data(op, Rank::ALL, at(start), at(start + 2.0), bytes);
            let event = Event { layer: Layer::Server, grain: Grain::Bin, file: FileId(file), calls, ..event };
            assert!(targets.event(event).is_continue());
        }
        assert_eq!(targets.request_bytes(), Some(70.0 / 4.0));
        let files = ["a".to_owned(), "b".to_owned()];
        assert_eq!(targets.fastest(&files).collect::<Vec<_>>(), [("a", 20.0), ("b", 25.0)]);
    }
}
