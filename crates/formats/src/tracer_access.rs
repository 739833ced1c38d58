//! How a traced process went through its files: what a Darshan log counts, from the calls themselves.

use iotide_trace::{AccessFacts, EventSink, Layer, WayFacts};
use iotide_wire::{Flags, NO_POSITION, Op, Payload, Record};

/// Pages, and the blocks of most file systems.
const ALIGNMENT_BYTES: u64 = 4096;
const SMALL_BELOW: u64 = 1 << 20;
/// The tracer numbers no more files in a process.
const MOST_FILES: usize = 1 << 17;

/// Counts the calls of one process.
#[derive(Default)]
pub(crate) struct Access {
    layers: [LayerAccess; 3],
}

#[derive(Default)]
struct LayerAccess {
    reads: Way,
    writes: Way,
    n_misaligned: u64,
    n_placed: u64,
    files: Vec<Place>,
}

#[derive(Default)]
struct Way {
    calls: u64,
    small: u64,
    sequential: u64,
    collective: u64,
    nonblocking: u64,
}

/// How far the process is in a file.
#[derive(Clone, Copy, Default)]
struct Place {
    /// Where a call goes that states no place.
    position: u64,
    /// Where the last call that moved data began; `None` before the first.
    last: Option<u64>,
    read: Extent,
    written: Extent,
}

/// How much was moved, and how far into the file.
#[derive(Clone, Copy, Default)]
struct Extent {
    bytes: u64,
    up_to: u64,
}

impl Access {
    /// Counts the calls of a block.
    pub(crate) fn count(&mut self, records: &[u8]) {
        for record in Payload::records(records).flatten() {
            if record.flags.0 & (Flags::NESTED | Flags::FAILED) == 0
                && let Some(layer) = record.flags.layer()
            {
                self.layers[layer as usize].count(&record);
            }
        }
    }

    /// Says what was counted.
    pub(crate) fn tell(&self, sink: &mut dyn EventSink) {
        for (access, layer) in self.layers.iter().zip([Layer::Posix, Layer::Stdio, Layer::MpiIo]) {
            if access.reads.calls + access.writes.calls > 0 {
                sink.access_facts(&access.facts(layer));
            }
        }
    }
}

impl LayerAccess {
    fn count(&mut self, record: &Record) {
        let file = record.file as usize;
        if file >= MOST_FILES {
            return;
        }
        if file >= self.files.len() {
            self.files.resize(file + 1, Place::default());
        }
        let place = &mut self.files[file];
        let is_async = record.flags.has(Flags::ASYNC);
        match record.op {
            Op::Open => place.position = 0,
            Op::Seek if record.position != NO_POSITION => place.position = record.position,
            Op::Read | Op::Write => {
                let calls = u64::from(record.calls.max(1));
                let way = if record.op == Op::Read { &mut self.reads } else { &mut self.writes };
                way.calls += calls;
                if record.bytes / calls < SMALL_BELOW {
                    way.small += calls;
                }
                if record.flags.has(Flags::COLLECTIVE) {
                    way.collective += calls;
                }
                if is_async {
                    way.nonblocking += calls;
                }
                // A request that goes on beside the program states when it was waited for in the place of an offset.
                let at =
                    if record.position == NO_POSITION || is_async { place.position } else { record.position };
                let end = at.saturating_add(record.bytes);
                way.sequential += if place.last.is_none_or(|last| at >= last) { calls } else { calls - 1 };
                place.last = Some(at);
                if record.position == NO_POSITION {
                    place.position = end;
                }
                if !is_async {
                    self.n_placed += calls;
                    self.n_misaligned += if at.is_multiple_of(ALIGNMENT_BYTES) { calls - 1 } else { calls };
                }
                let extent = if record.op == Op::Read { &mut place.read } else { &mut place.written };
                extent.bytes += record.bytes;
                extent.up_to = extent.up_to.max(end);
            }
            _ => {}
        }
    }

    fn facts(&self, layer: Layer) -> AccessFacts {
        let is_mpi = layer == Layer::MpiIo;
        let way = |way: &Way| WayFacts {
            calls: way.calls,
            small: Some(way.small),
            sequential: Some(way.sequential),
            random: Some(way.calls.saturating_sub(way.sequential)),
            collective: is_mpi.then_some(way.collective),
            independent: is_mpi.then(|| way.calls - way.collective),
            nonblocking: is_mpi.then_some(way.nonblocking),
        };
        let again = |extent: fn(&Place) -> Extent| {
            let twice = self.files.iter().map(extent).map(|extent| extent.bytes.saturating_sub(extent.up_to));
            Some(twice.sum::<u64>() as f64)
        };
        let has_places = layer == Layer::Posix && self.n_placed > 0;
        AccessFacts {
            layer,
            reads: way(&self.reads),
            writes: way(&self.writes),
            misaligned_in_file: has_places.then_some(self.n_misaligned),
            file_alignment_bytes: has_places.then_some(ALIGNMENT_BYTES),
            reread_bytes: again(|place| place.read),
            rewritten_bytes: again(|place| place.written),
            straggler: None,
            stakes: Vec::new(),
            targets: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts_of(records: &[Record], layer: Layer) -> AccessFacts {
        #[derive(Default)]
        struct Heard(Vec<AccessFacts>);
        impl EventSink for Heard {
            fn async_event(
                &mut self,
                event: iotide_trace::Event,
                _: iotide_trace::Timestamp,
            ) -> std::ops::ControlFlow<()> {
                self.event(event)
            }
            fn time_spent(&mut self, _: iotide_trace::TimeSpent) {}
            fn event(&mut self, _: iotide_trace::Event) -> std::ops::ControlFlow<()> {
                std::ops::ControlFlow::Continue(())
            }
            fn loss(&mut self, _: iotide_trace::Loss) {}
            fn access_facts(&mut self, facts: &AccessFacts) {
                self.0.push(facts.clone());
            }
        }
        let mut access = Access::default();
        access.count(&records.iter().flat_map(Record::to_bytes).collect::<Vec<u8>>());
        let mut heard = Heard::default();
        access.tell(&mut heard);
        heard.0.into_iter().find(|facts| facts.layer == layer).unwrap()
    }

    fn call(op: Op, layer: iotide_wire::Layer, position: u64, bytes: u64) -> Record {
        Record { start: 0, duration: 1, bytes, position, file: 3, calls: 1, op, flags: Flags::of(layer) }
    }

    #[test]
    fn calls_in_order_are_sequential_and_those_that_jump_back_are_not() {
        let posix = iotide_wire::Layer::Posix;
        let ahead: Vec<Record> = (0..10).map(|_| call(Op::Write, posix, NO_POSITION, 4096)).collect();
        let facts = facts_of(&ahead, Layer::Posix);
        assert_eq!((facts.writes.calls, facts.writes.sequential), (10, Some(10)));
        assert_eq!((facts.writes.small, facts.misaligned_in_file), (Some(10), Some(0)));
        let back: Vec<Record> =
            (0..10).map(|i| call(Op::Read, posix, 1000 * (10 - i) + 1, 1 << 20)).collect();
        let facts = facts_of(&back, Layer::Posix);
        assert_eq!((facts.reads.calls, facts.reads.sequential, facts.reads.small), (10, Some(1), Some(0)));
        assert_eq!(facts.misaligned_in_file, Some(10));
        assert!(facts.reread_bytes > Some(9e6));
    }

    #[test]
    fn a_seek_moves_the_place_and_collective_calls_are_told() {
        let mpi = iotide_wire::Layer::MpiIo;
        let mut together = call(Op::Write, mpi, 0, 10);
        together.flags = together.flags.with(Flags::COLLECTIVE);
        let facts = facts_of(&[together, call(Op::Write, mpi, 100, 10)], Layer::MpiIo);
        assert_eq!((facts.writes.collective, facts.writes.independent), (Some(1), Some(1)));
        let posix = iotide_wire::Layer::Posix;
        let seek = call(Op::Seek, posix, 0, 0);
        let write = call(Op::Write, posix, NO_POSITION, 10);
        assert_eq!(facts_of(&[write, write, seek, write], Layer::Posix).writes.sequential, Some(2));
    }
}
