//! How traced processes went through their files: what a Darshan log counts, from the calls themselves.

use std::collections::HashMap;

use iotide_trace::{
    AccessFacts, EventSink, FileId, FileRecord, FunctionSums, Layer, Rank, SmallCalls, WayFacts, WayRecord,
};
use iotide_wire::{Call, ClockMap, Flags, NO_POSITION, Op, Payload, Record};

/// Pages, and the blocks of most file systems.
const ALIGNMENT_BYTES: u64 = 4096;
const SMALL_BELOW: u64 = 1 << 20;
/// The tracer numbers no more files in a process.
const MOST_FILES: usize = 1 << 17;
const LAYERS: [Layer; 3] = [Layer::Posix, Layer::Stdio, Layer::MpiIo];
const MPI_IO: usize = 2;

/// Counts the calls of one process.
#[derive(Default)]
pub(crate) struct Access {
    layers: [LayerAccess; 3],
    /// By layer and the code of the call: also those that a layer makes on behalf of another.
    functions: Vec<[Amount; 3]>,
    /// The first tick of any call, and the last one.
    ticks: Option<(u64, u64)>,
}

#[derive(Default)]
struct LayerAccess {
    reads: Way,
    writes: Way,
    places: Vec<Place>,
    by_file: HashMap<u32, usize>,
    /// The file of the call before, and its place.
    last: Option<(u32, usize)>,
}

#[derive(Default)]
struct Way {
    calls: u64,
    small: u64,
    sequential: u64,
    collective: u64,
    nonblocking: u64,
}

/// Calls of some kind. Of a file that a process has no name for, too.
#[derive(Clone, Copy, Default)]
struct Amount {
    calls: u64,
    bytes: u64,
    ticks: u64,
}

impl Amount {
    fn add(&mut self, calls: u64, bytes: u64, ticks: u64) {
        self.calls = self.calls.saturating_add(calls);
        self.bytes = self.bytes.saturating_add(bytes);
        self.ticks = self.ticks.saturating_add(ticks);
    }
}

/// How far the process is in a file, and what it did there.
#[derive(Clone, Copy, Default)]
struct Place {
    file: u32,
    /// Where a call goes that states no place.
    position: u64,
    /// Whether offsets are those of an MPI view, in elements of some type.
    has_view: bool,
    /// Whether the program itself made any of the calls.
    is_called: bool,
    reads: FileWay,
    writes: FileWay,
    n_misaligned: u64,
    n_placed: u64,
    opens: u64,
    stats: u64,
    syncs: Amount,
    metadata_ticks: u64,
}

#[derive(Clone, Copy, Default)]
struct FileWay {
    all: Amount,
    small: Amount,
    n_random: u64,
    n_collective: u64,
    n_nonblocking: u64,
    /// Where the last call ended; `None` before the first.
    last_end: Option<u64>,
    /// How far into the file any call went.
    up_to: u64,
}

impl Access {
    /// Counts the calls of a block.
    pub(crate) fn count(&mut self, records: &[u8]) {
        if self.functions.is_empty() {
            self.functions.resize(256, [Amount::default(); 3]);
        }
        for record in Payload::records(records).flatten() {
            let Some(layer) = record.flags.layer().filter(|_| !record.flags.has(Flags::FAILED)) else {
                continue;
            };
            let end = record.start.saturating_add(record.duration);
            self.ticks = Some(
                self.ticks
                    .map_or((record.start, end), |(first, last)| (first.min(record.start), last.max(end))),
            );
            if record.op() != Op::Place {
                let bytes = if matches!(record.op(), Op::Read | Op::Write) { record.bytes } else { 0 };
                self.functions[usize::from(record.call.code())][layer as usize].add(
                    u64::from(record.calls.max(1)),
                    bytes,
                    record.duration,
                );
            }
            self.layers[layer as usize].count(&record);
        }
    }

    /// Pushes what was counted.
    pub(crate) fn tell(
        &self,
        rank: Rank,
        clock: &ClockMap,
        file_of: impl Fn(u32) -> Option<FileId>,
        sink: &mut dyn EventSink,
    ) {
        let seconds_a_tick = self.seconds_a_tick(clock);
        for (i, layer) in LAYERS.into_iter().enumerate() {
            let access = &self.layers[i];
            let functions = self.functions_of(i, seconds_a_tick);
            // Beneath C streams the same bytes are moved again; beneath MPI-IO that tells what became of its requests.
            let asked = &self.layers[MPI_IO].by_file;
            let is_told = |place: &&Place| place.is_called || asked.contains_key(&place.file);
            let records: Vec<FileRecord> = (access.places.iter().filter(is_told))
                .map(|place| {
                    place.record(layer, rank, seconds_a_tick, file_of(place.file).unwrap_or(FileId::NONE))
                })
                .collect();
            if access.reads.calls + access.writes.calls > 0 {
                sink.access_facts(&AccessFacts { functions, records, ..access.facts(layer) });
            } else if !functions.is_empty() || !records.is_empty() {
                sink.access_facts(&AccessFacts { layer, functions, records, ..AccessFacts::default() });
            }
        }
    }

    fn seconds_a_tick(&self, clock: &ClockMap) -> f64 {
        /// Long enough for whole nanoseconds to be exact.
        const LEAST_TICKS: u64 = 1 << 32;
        let span = self.ticks.and_then(|(first, last)| {
            let last = last.max(first.saturating_add(LEAST_TICKS));
            let nanos = clock.nanos(last)?.checked_sub(clock.nanos(first)?)?;
            (last > first && nanos > 0).then_some(1e-9 * nanos as f64 / (last - first) as f64)
        });
        span.unwrap_or(1e-9)
    }

    fn functions_of(&self, layer: usize, seconds_a_tick: f64) -> Vec<FunctionSums> {
        let mut functions: Vec<FunctionSums> = Vec::new();
        for (code, amounts) in (0..=u8::MAX).zip(&self.functions) {
            let Amount { calls, bytes, ticks } = amounts[layer];
            let Some(call) = Call::from_code(code).filter(|_| calls > 0) else { continue };
            let (bytes, seconds) = (bytes as f64, ticks as f64 * seconds_a_tick);
            let name = name_of(call);
            match functions.iter_mut().find(|known| known.name == name) {
                Some(known) => {
                    known.calls += calls;
                    known.bytes += bytes;
                    known.seconds += seconds;
                }
                None => functions.push(FunctionSums { name: name.to_owned(), calls, bytes, seconds }),
            }
        }
        functions.sort_by(|a, b| a.name.cmp(&b.name));
        functions
    }
}

/// A function's name, or what several functions did that took turns on a stream.
fn name_of(call: Call) -> &'static str {
    call.name().unwrap_or(match call.op() {
        Op::Read => "several (read)",
        Op::Write => "several (write)",
        _ => "several (other)",
    })
}

impl LayerAccess {
    fn place(&mut self, file: u32) -> Option<&mut Place> {
        let at = match self.last {
            Some((last, at)) if last == file => at,
            _ => {
                if self.places.len() >= MOST_FILES && !self.by_file.contains_key(&file) {
                    return None;
                }
                let at = *self.by_file.entry(file).or_insert(self.places.len());
                if at == self.places.len() {
                    self.places.push(Place { file, ..Place::default() });
                }
                self.last = Some((file, at));
                at
            }
        };
        self.places.get_mut(at)
    }

    fn count(&mut self, record: &Record) {
        let is_named = record.call.name().is_some();
        let layer = record.flags.layer();
        // Calls that a layer makes for another are no calls of the program, but they show what became of its requests.
        let is_nested = record.flags.has(Flags::NESTED);
        let Some(place) = self.place(record.file) else { return };
        place.is_called |= !is_nested;
        match record.op() {
            Op::Read | Op::Write | Op::Place => {}
            Op::Sync => place.syncs.add(1, 0, record.duration),
            op => {
                place.opens += u64::from(op == Op::Open);
                place.stats += u64::from(op == Op::Stat);
                place.metadata_ticks = place.metadata_ticks.saturating_add(record.duration);
            }
        }
        match record.op() {
            Op::Open => {
                // The first call after an open goes back from nowhere.
                (place.reads.last_end, place.writes.last_end) = (None, None);
                // Earlier tracers did not follow descriptors: a file that is opened is read from its beginning.
                if !is_named || layer == Some(iotide_wire::Layer::MpiIo) {
                    place.position = 0;
                }
            }
            Op::Seek if record.position != NO_POSITION => place.position = record.position,
            Op::View => (place.position, place.has_view) = (0, true),
            Op::Place => {
                let is_write = record.flags.has(Flags::PLACED);
                self.go(record, record.position, is_write);
            }
            op @ (Op::Read | Op::Write) => {
                let is_async = record.flags.has(Flags::ASYNC);
                let calls = u64::from(record.calls.max(1));
                let is_small = record.bytes / calls < SMALL_BELOW;
                let is_collective = record.flags.has(Flags::COLLECTIVE);
                let way = if op == Op::Read { &mut place.reads } else { &mut place.writes };
                // The program does not wait for a request that goes on beside it.
                let waited = if is_async { 0 } else { record.duration };
                way.all.add(calls, record.bytes, waited);
                if is_small {
                    way.small.add(calls, record.bytes, waited);
                }
                way.n_collective += if is_collective { calls } else { 0 };
                way.n_nonblocking += if is_async { calls } else { 0 };
                // A call without a place goes to the end of the file, or where the process stands in it.
                let next = match is_named && layer != Some(iotide_wire::Layer::MpiIo) {
                    true => place.reads.up_to.max(place.writes.up_to),
                    false => place.position,
                };
                let sums = if op == Op::Read { &mut self.reads } else { &mut self.writes };
                if !is_nested {
                    sums.calls += calls;
                    // What ranks do together is gathered to large requests.
                    sums.small += if is_small && !is_collective { calls } else { 0 };
                    sums.collective += if is_collective { calls } else { 0 };
                    sums.nonblocking += if is_async { calls } else { 0 };
                }
                if record.flags.has(Flags::PLACED) {
                    return; // where it goes stands in a record of its own
                }
                let states_place = record.position != NO_POSITION && !is_async;
                self.go(record, if states_place { record.position } else { next }, op == Op::Write);
            }
            _ => {}
        }
    }

    /// Takes note of where in the file a call went.
    fn go(&mut self, record: &Record, at: u64, is_write: bool) {
        let calls = u64::from(record.calls.max(1));
        let is_collective = record.flags.has(Flags::COLLECTIVE);
        let states_place = record.position != NO_POSITION && !record.flags.has(Flags::ASYNC);
        let Some(place) = self.place(record.file) else { return };
        let end = at.saturating_add(record.bytes);
        let way = if is_write { &mut place.writes } else { &mut place.reads };
        let goes_back = way.last_end.is_some_and(|last_end| at < last_end) && !is_collective;
        way.n_random += u64::from(goes_back);
        way.last_end = Some(end);
        if !place.has_view {
            way.up_to = way.up_to.max(end);
        }
        if !states_place {
            place.position = end;
        }
        let is_placed = !place.has_view && !is_collective;
        let n_misaligned = if at.is_multiple_of(ALIGNMENT_BYTES) { calls - 1 } else { calls };
        if is_placed {
            place.n_placed += calls;
            place.n_misaligned += n_misaligned;
        }
        let sums = if is_write { &mut self.writes } else { &mut self.reads };
        if !record.flags.has(Flags::NESTED) {
            sums.sequential += if goes_back { calls - 1 } else { calls };
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
        AccessFacts { layer, reads: way(&self.reads), writes: way(&self.writes), ..AccessFacts::default() }
    }
}

impl Place {
    fn record(&self, layer: Layer, rank: Rank, seconds_a_tick: f64, file: FileId) -> FileRecord {
        let seconds = |ticks: u64| ticks as f64 * seconds_a_tick;
        let is_mpi = layer == Layer::MpiIo;
        let way = |way: &FileWay| WayRecord {
            calls: way.all.calls,
            bytes: Some(way.all.bytes as f64),
            seconds: seconds(way.all.ticks),
            // Streams have a buffer of their own below them.
            small: (layer != Layer::Stdio).then_some(SmallCalls {
                calls: way.small.calls,
                bytes: way.small.bytes as f64,
                seconds: Some(seconds(way.small.ticks)),
            }),
            random: (layer != Layer::Stdio).then_some(way.n_random),
            up_to: (!self.has_view && way.all.calls > 0).then_some(way.up_to as f64),
            collective: is_mpi.then_some(way.n_collective),
            nonblocking: is_mpi.then_some(way.n_nonblocking),
            calls_s: None,
        };
        let has_places = layer != Layer::Stdio && self.n_placed > 0;
        FileRecord {
            reads: way(&self.reads),
            writes: way(&self.writes),
            opens: self.opens,
            stats: self.stats,
            syncs: self.syncs.calls,
            metadata_s: seconds(self.metadata_ticks),
            sync_s: Some(seconds(self.syncs.ticks)),
            alignment: has_places.then_some(ALIGNMENT_BYTES),
            misaligned: has_places.then_some(self.n_misaligned),
            ..FileRecord::new(file, rank, layer)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_wire::ClockKind;

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
            match self.0.iter_mut().find(|known| known.layer == facts.layer) {
                Some(known) => known.join(facts),
                None => self.0.push(facts.clone()),
            }
        }
    }

    fn facts_of_ranks(ranks: &[&[Record]], layer: Layer) -> AccessFacts {
        let mut heard = Heard::default();
        for (rank, records) in (0..).zip(ranks) {
            let mut access = Access::default();
            access.count(&records.iter().flat_map(Record::to_bytes).collect::<Vec<u8>>());
            let mut clock = ClockMap::new(ClockKind::CycleCounter);
            clock.pair(0, 0);
            clock.pair(2_000_000_000, 1_000_000_000);
            access.tell(Rank(rank), &clock, |file| Some(FileId(file)), &mut heard);
        }
        heard.0.into_iter().find(|facts| facts.layer == layer).unwrap()
    }

    fn facts_of(records: &[Record], layer: Layer) -> AccessFacts {
        facts_of_ranks(&[records], layer)
    }

    fn call(op: Op, layer: iotide_wire::Layer, position: u64, bytes: u64) -> Record {
        Record {
            start: 0,
            duration: 1,
            bytes,
            position,
            file: 3,
            calls: 1,
            call: Call::of(op),
            flags: Flags::of(layer),
        }
    }

    #[test]
    fn calls_in_order_are_sequential_and_those_that_jump_back_are_not() {
        let posix = iotide_wire::Layer::Posix;
        let ahead: Vec<Record> = (0..10).map(|_| call(Op::Write, posix, NO_POSITION, 4096)).collect();
        let facts = facts_of(&ahead, Layer::Posix);
        assert_eq!((facts.writes.calls, facts.writes.sequential), (10, Some(10)));
        assert_eq!((facts.writes.small, facts.records[0].misaligned), (Some(10), Some(0)));
        let back: Vec<Record> =
            (0..10).map(|i| call(Op::Read, posix, 1000 * (10 - i) + 1, 1 << 20)).collect();
        let facts = facts_of(&back, Layer::Posix);
        assert_eq!((facts.reads.calls, facts.reads.sequential, facts.reads.small), (10, Some(1), Some(0)));
        let record = facts.records[0];
        assert_eq!((record.misaligned, record.file), (Some(10), FileId(3)));
        assert_eq!((record.reads.random, record.reads.bytes), (Some(9), Some(10.0 * f64::from(1 << 20))));
        assert!((record.reads.seconds - 10.0 * 0.5e-9).abs() < 1e-18);
        assert!(record.reads.up_to < Some(1.1e6), "ten times the same megabyte");
    }

    #[test]
    fn a_seek_moves_the_place_and_collective_calls_are_told() {
        let mpi = iotide_wire::Layer::MpiIo;
        let mut together = call(Op::Write, mpi, 0, 10);
        together.flags = together.flags.with(Flags::COLLECTIVE);
        let facts = facts_of(&[together, call(Op::Write, mpi, 100, 10)], Layer::MpiIo);
        assert_eq!((facts.writes.collective, facts.writes.independent), (Some(1), Some(1)));
        assert_eq!(facts.writes.small, Some(1), "what ranks do together is gathered");
        let posix = iotide_wire::Layer::Posix;
        let seek = call(Op::Seek, posix, 0, 0);
        let write = call(Op::Write, posix, NO_POSITION, 10);
        assert_eq!(facts_of(&[write, write, seek, write], Layer::Posix).writes.sequential, Some(2));
    }

    #[test]
    fn a_log_that_is_opened_again_and_again_to_append_is_written_once_and_in_order() {
        let posix = iotide_wire::Layer::Posix;
        let open =
            Record { call: Call::of_symbol("open", Op::Open), ..call(Op::Open, posix, NO_POSITION, 0) };
        let append = Record {
            call: Call::of_symbol("write", Op::Write),
            ..call(Op::Write, posix, NO_POSITION, 1 << 20)
        };
        let records: Vec<Record> = (0..20).flat_map(|_| [open, append]).collect();
        let facts = facts_of(&records, Layer::Posix);
        assert_eq!(facts.writes.sequential, Some(20));
        let record = facts.records[0];
        assert_eq!((record.opens, record.writes.up_to), (20, record.writes.bytes), "written once");
        let names: Vec<_> =
            facts.functions.iter().map(|sums| (sums.name.as_str(), sums.calls, sums.bytes)).collect();
        assert_eq!(names, [("open", 20, 0.0), ("write", 20, 20.0 * f64::from(1 << 20))]);
        // Opened to be read once more from its beginning, nothing jumps back.
        let read = Record { call: Call::of_symbol("read", Op::Read), ..call(Op::Read, posix, 0, 1 << 20) };
        let again = facts_of(&[open, read, open, read], Layer::Posix);
        assert_eq!(again.reads.random, Some(0));
        assert_eq!(again.records[0].reads.up_to, Some(f64::from(1 << 20)), "read twice");
        assert_eq!(facts_of(&[open, read, read], Layer::Posix).reads.random, Some(1));
    }

    #[test]
    fn each_rank_has_a_record_of_a_file_with_small_calls_and_syncs_apart() {
        let posix = iotide_wire::Layer::Posix;
        let reads: Vec<Record> = (0..256).map(|i| call(Op::Read, posix, 4096 * i, 4096)).collect();
        let slow: Vec<Record> = reads.iter().map(|read| Record { duration: 4, ..*read }).collect();
        let mut synced = slow.clone();
        synced.push(Record { duration: 100, ..call(Op::Sync, posix, NO_POSITION, 0) });
        let facts = facts_of_ranks(&[&reads, &synced], Layer::Posix);
        let [one, other] = facts.records[..] else { panic!("{:?}", facts.records) };
        assert_eq!((one.rank, other.rank, one.file), (Rank(0), Rank(1), FileId(3)));
        assert_eq!((one.reads.small.unwrap().calls, other.reads.small.unwrap().calls), (256, 256));
        assert!((other.reads.seconds / one.reads.seconds - 4.0).abs() < 1e-9);
        assert_eq!((one.sync_s, other.syncs), (Some(0.0), 1));
        assert!((other.sync_s.unwrap() - 50e-9).abs() < 1e-15, "{other:?}");
    }

    #[test]
    fn calls_beneath_mpi_io_show_in_records_and_in_no_sum() {
        let nested = |record: Record| Record { flags: record.flags.with(Flags::NESTED), ..record };
        let beneath = nested(call(Op::Write, iotide_wire::Layer::Posix, 0, 10));
        let above = call(Op::Write, iotide_wire::Layer::MpiIo, 0, 10);
        let facts = facts_of(&[above, beneath], Layer::Posix);
        assert_eq!((facts.writes.calls, facts.records[0].writes.calls), (0, 1));
        // Beneath a stream the bytes have been counted.
        let stream = call(Op::Write, iotide_wire::Layer::Stdio, 0, 10);
        let opened = call(Op::Open, iotide_wire::Layer::Stdio, NO_POSITION, 0);
        let heard = facts_of_ranks(&[&[opened, stream, beneath]], Layer::Stdio);
        assert_eq!(heard.records.len(), 1, "{:?}", heard.records);
    }

    #[test]
    fn a_request_beside_the_program_goes_where_its_other_record_says() {
        let mpi = iotide_wire::Layer::MpiIo;
        let records: Vec<Record> = (0..10)
            .flat_map(|i| {
                let flags = Flags::of(mpi);
                let place = Record {
                    call: Call::of(Op::Place),
                    flags: flags.with(Flags::PLACED),
                    ..call(Op::Write, mpi, 1000 * (10 - i), 100)
                };
                let request = Record {
                    call: Call::of_symbol("MPI_File_iwrite_at", Op::Write),
                    flags: flags.with(Flags::ASYNC | Flags::PLACED),
                    ..call(Op::Write, mpi, 1, 100)
                };
                [place, request]
            })
            .collect();
        let facts = facts_of(&records, Layer::MpiIo);
        let WayFacts { calls, random, nonblocking, .. } = facts.writes;
        assert_eq!((calls, random, nonblocking), (10, Some(9), Some(10)));
        assert_eq!(facts.functions[0].name, "MPI_File_iwrite_at");
        assert_eq!(facts.functions[0].calls, 10);
    }
}
