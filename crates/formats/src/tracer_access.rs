//! How traced processes went through their files: what a Darshan log counts, from the calls themselves.
//!
//! A process is read at a time; what several ranks did to one file is put together at the end.

use std::collections::HashMap;

use iotide_trace::{
    AccessFacts, EventSink, FileId, FileStake, FunctionSums, Layer, Rank, Stake, StakeKind, Straggler,
    WayFacts,
};
use iotide_wire::{Call, ClockMap, Flags, NO_POSITION, Op, Payload, Record};

/// Pages, and the blocks of most file systems.
const ALIGNMENT_BYTES: u64 = 4096;
const SMALL_BELOW: u64 = 1 << 20;
/// The tracer numbers no more files in a process.
const MOST_FILES: usize = 1 << 17;
const LAYERS: [Layer; 3] = [Layer::Posix, Layer::Stdio, Layer::MpiIo];

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
    n_misaligned: u64,
    n_placed: u64,
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

    fn plus(mut self, other: Self) -> Self {
        self.add(other.calls, other.bytes, other.ticks);
        self
    }

    fn part(self, file: FileId, rank: Rank, seconds_a_tick: f64) -> Option<FileStake> {
        let Self { calls, bytes, ticks } = self;
        let seconds = ticks as f64 * seconds_a_tick;
        (calls > 0).then_some(FileStake { file, rank, calls, bytes: bytes as f64, seconds })
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
    reads: FileWay,
    writes: FileWay,
    misaligned: Amount,
}

#[derive(Clone, Copy, Default)]
struct FileWay {
    all: Amount,
    small: Amount,
    random: Amount,
    collective: Amount,
    blocking: Amount,
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
            if !record.flags.has(Flags::NESTED) {
                self.layers[layer as usize].count(&record);
            }
        }
    }

    /// Says what was counted; what several ranks may have done to one file is left for the end.
    pub(crate) fn tell(
        &self,
        rank: Rank,
        clock: &ClockMap,
        file_of: impl Fn(u32) -> Option<FileId>,
        shared: &mut Shared,
        sink: &mut dyn EventSink,
    ) {
        let seconds_a_tick = self.seconds_a_tick(clock);
        for (i, layer) in LAYERS.into_iter().enumerate() {
            let access = &self.layers[i];
            let functions = self.functions_of(i, seconds_a_tick);
            if access.reads.calls + access.writes.calls > 0 {
                let mut facts = access.facts(layer, rank, seconds_a_tick, &file_of);
                facts.functions = functions;
                sink.access_facts(&facts);
                shared.add(i, access, rank, seconds_a_tick, &file_of);
            } else if !functions.is_empty() {
                sink.access_facts(&AccessFacts { layer, functions, ..AccessFacts::default() });
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
        let Some(place) = self.place(record.file) else { return };
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
                way.all.add(calls, record.bytes, record.duration);
                // What ranks do together is gathered to large requests.
                if is_small && !is_collective {
                    way.small.add(calls, record.bytes, record.duration);
                }
                if is_collective {
                    way.collective.add(calls, record.bytes, record.duration);
                }
                if !is_async {
                    way.blocking.add(calls, record.bytes, record.duration);
                }
                // A call without a place goes to the end of the file, or where the process stands in it.
                let next = match is_named && layer != Some(iotide_wire::Layer::MpiIo) {
                    true => place.reads.up_to.max(place.writes.up_to),
                    false => place.position,
                };
                let sums = if op == Op::Read { &mut self.reads } else { &mut self.writes };
                sums.calls += calls;
                sums.small += if is_small && !is_collective { calls } else { 0 };
                sums.collective += if is_collective { calls } else { 0 };
                sums.nonblocking += if is_async { calls } else { 0 };
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
        if goes_back {
            way.random.add(1, record.bytes / calls, record.duration / calls);
        }
        way.last_end = Some(end);
        if !place.has_view {
            way.up_to = way.up_to.max(end);
        }
        if !states_place {
            place.position = end;
        }
        let is_placed = !place.has_view && !is_collective;
        let n_misaligned = if at.is_multiple_of(ALIGNMENT_BYTES) { calls - 1 } else { calls };
        if is_placed && n_misaligned > 0 {
            let share = |all: u64| (u128::from(all) * u128::from(n_misaligned) / u128::from(calls)) as u64;
            place.misaligned.add(n_misaligned, share(record.bytes), share(record.duration));
        }
        if is_placed {
            self.n_placed += calls;
            self.n_misaligned += n_misaligned;
        }
        let sums = if is_write { &mut self.writes } else { &mut self.reads };
        sums.sequential += if goes_back { calls - 1 } else { calls };
    }

    fn facts(
        &self,
        layer: Layer,
        rank: Rank,
        seconds_a_tick: f64,
        file_of: impl Fn(u32) -> Option<FileId>,
    ) -> AccessFacts {
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
        let mut stakes: Vec<Stake> = kinds(layer).iter().copied().map(Stake::of).collect();
        for place in &self.places {
            let file = file_of(place.file).unwrap_or(FileId::NONE);
            for (kind, amount) in [
                (StakeKind::SmallReads, place.reads.small),
                (StakeKind::SmallWrites, place.writes.small),
                (StakeKind::RandomReads, place.reads.random),
                (StakeKind::RandomWrites, place.writes.random),
                (StakeKind::Misaligned, place.misaligned),
                (StakeKind::Blocking, place.reads.blocking.plus(place.writes.blocking)),
            ] {
                let stake = stakes.iter_mut().find(|stake| stake.kind == kind);
                if let (Some(stake), Some(part)) = (stake, amount.part(file, rank, seconds_a_tick)) {
                    stake.add(part);
                }
            }
        }
        let has_places = layer != Layer::Stdio && self.n_placed > 0;
        AccessFacts {
            layer,
            reads: way(&self.reads),
            writes: way(&self.writes),
            misaligned_in_file: has_places.then_some(self.n_misaligned),
            file_alignment_bytes: has_places.then_some(ALIGNMENT_BYTES),
            stakes,
            ..AccessFacts::default()
        }
    }
}

/// What a layer's calls are told apart by. Streams have a buffer of their own below them.
fn kinds(layer: Layer) -> &'static [StakeKind] {
    match layer {
        Layer::Posix => StakeKind::OF_PLACES,
        Layer::MpiIo => &StakeKind::ALL,
        _ => &[],
    }
}

/// What all ranks did to each file, layer by layer.
#[derive(Default)]
pub(crate) struct Shared([HashMap<FileId, SharedFile>; 3]);

#[derive(Default)]
struct SharedFile {
    /// The first rank that used it, and how many did.
    first: Rank,
    n_ranks: u32,
    reads: Together,
    writes: Together,
    small: Seconds,
    independent: Seconds,
    has_view: bool,
    is_collective: bool,
    slowest: Option<(Rank, f64, f64)>,
    fastest: Option<(f64, f64)>,
}

/// Calls, bytes and seconds.
#[derive(Clone, Copy, Default)]
struct Seconds {
    calls: u64,
    bytes: f64,
    seconds: f64,
}

impl Seconds {
    fn add(&mut self, amount: Amount, seconds_a_tick: f64) {
        self.calls = self.calls.saturating_add(amount.calls);
        self.bytes += amount.bytes as f64;
        self.seconds += amount.ticks as f64 * seconds_a_tick;
    }
}

#[derive(Clone, Copy, Default)]
struct Together {
    all: Seconds,
    up_to: u64,
}

impl Together {
    /// The part of the calls that moved bytes which had been moved before: more than the file's extent.
    fn again(&self, file: FileId, rank: Rank) -> Option<FileStake> {
        let Seconds { calls, bytes, seconds } = self.all;
        let again = bytes - self.up_to as f64;
        (again > 0.0 && bytes > 0.0).then(|| {
            let share = again / bytes;
            let calls = (share * calls as f64).ceil() as u64;
            FileStake { file, rank, calls, bytes: again, seconds: share * seconds }
        })
    }
}

impl Shared {
    fn add(
        &mut self,
        layer: usize,
        access: &LayerAccess,
        rank: Rank,
        seconds_a_tick: f64,
        file_of: impl Fn(u32) -> Option<FileId>,
    ) {
        for place in &access.places {
            let Some(file) = file_of(place.file) else { continue };
            let (reads, writes) = (&place.reads, &place.writes);
            let all = reads.all.plus(writes.all);
            if all.calls == 0 {
                continue;
            }
            let known = self.0[layer].entry(file).or_default();
            known.first = if known.n_ranks == 0 { rank } else { known.first };
            known.n_ranks += 1;
            known.has_view |= place.has_view;
            known.is_collective |= reads.collective.calls + writes.collective.calls > 0;
            for (together, way) in [(&mut known.reads, reads), (&mut known.writes, writes)] {
                together.all.add(way.all, seconds_a_tick);
                together.up_to = together.up_to.max(way.up_to);
            }
            known.small.add(reads.small.plus(writes.small), seconds_a_tick);
            for way in [reads, writes] {
                let independent = Amount {
                    calls: way.all.calls - way.collective.calls,
                    bytes: way.all.bytes - way.collective.bytes,
                    ticks: way.all.ticks - way.collective.ticks,
                };
                known.independent.add(independent, seconds_a_tick);
            }
            let (seconds, bytes) = (all.ticks as f64 * seconds_a_tick, all.bytes as f64);
            if known.slowest.is_none_or(|(_, slowest_s, _)| seconds > slowest_s) {
                known.slowest = Some((rank, seconds, bytes));
            }
            if known.fastest.is_none_or(|(fastest_s, _)| seconds < fastest_s) {
                known.fastest = Some((seconds, bytes));
            }
        }
    }

    /// Says what only all ranks together show.
    pub(crate) fn tell(self, sink: &mut dyn EventSink) {
        for (files, layer) in self.0.into_iter().zip(LAYERS) {
            let of_layer = kinds(layer);
            if files.is_empty() || of_layer.is_empty() {
                continue;
            }
            let mut facts = AccessFacts {
                layer,
                stakes: of_layer.iter().copied().map(Stake::of).collect(),
                reread_bytes: Some(0.0),
                rewritten_bytes: Some(0.0),
                ..AccessFacts::default()
            };
            let mut files: Vec<(FileId, SharedFile)> = files.into_iter().collect();
            files.sort_by_key(|(file, _)| *file);
            for (file, known) in &files {
                known.add_to(*file, &mut facts);
            }
            sink.access_facts(&facts);
        }
    }
}

impl SharedFile {
    fn add_to(&self, file: FileId, facts: &mut AccessFacts) {
        let rank = if self.n_ranks > 1 { Rank::ALL } else { self.first };
        let part = |Seconds { calls, bytes, seconds }: Seconds| {
            (self.n_ranks > 1 && calls > 0).then_some(FileStake { file, rank, calls, bytes, seconds })
        };
        let again = |way: &Together| if self.has_view { None } else { way.again(file, rank) };
        let (reread, rewritten) = (again(&self.reads), again(&self.writes));
        let add = |sum: &mut Option<f64>, part: Option<FileStake>| {
            *sum = sum.map(|sum| sum + part.map_or(0.0, |part| part.bytes));
        };
        add(&mut facts.reread_bytes, reread);
        add(&mut facts.rewritten_bytes, rewritten);
        for (kind, part) in [
            (StakeKind::Rereads, reread),
            (StakeKind::Rewrites, rewritten),
            (StakeKind::SmallShared, part(self.small)),
            (StakeKind::Independent, part(self.independent)),
        ] {
            let stake = facts.stakes.iter_mut().find(|stake| stake.kind == kind);
            if let (Some(stake), Some(part)) = (stake, part) {
                stake.add(part);
            }
        }
        let (Some((slowest, slowest_s, slowest_bytes)), Some((fastest_s, fastest_bytes))) =
            (self.slowest, self.fastest)
        else {
            return;
        };
        // In a collective call ranks wait for each other. A rank that has more to do takes longer.
        let is_measure = self.n_ranks > 1
            && !self.is_collective
            && fastest_s > 0.0
            && fastest_bytes > 0.0
            && 2.0 * fastest_bytes >= slowest_bytes;
        if is_measure
            && facts.straggler.is_none_or(|known| slowest_s - fastest_s > known.slowest_s - known.fastest_s)
        {
            facts.straggler = Some(Straggler {
                file,
                slowest_rank: i64::from(slowest.0),
                slowest_s,
                fastest_s,
                slowest_bytes,
                fastest_bytes,
            });
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
        let (mut heard, mut shared) = (Heard::default(), Shared::default());
        for (rank, records) in (0..).zip(ranks) {
            let mut access = Access::default();
            access.count(&records.iter().flat_map(Record::to_bytes).collect::<Vec<u8>>());
            let mut clock = ClockMap::new(ClockKind::CycleCounter);
            clock.pair(0, 0);
            clock.pair(2_000_000_000, 1_000_000_000);
            access.tell(Rank(rank), &clock, |file| Some(FileId(file)), &mut shared, &mut heard);
        }
        shared.tell(&mut heard);
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
        assert_eq!((facts.writes.small, facts.misaligned_in_file), (Some(10), Some(0)));
        let back: Vec<Record> =
            (0..10).map(|i| call(Op::Read, posix, 1000 * (10 - i) + 1, 1 << 20)).collect();
        let facts = facts_of(&back, Layer::Posix);
        assert_eq!((facts.reads.calls, facts.reads.sequential, facts.reads.small), (10, Some(1), Some(0)));
        assert_eq!(facts.misaligned_in_file, Some(10));
        assert!(facts.reread_bytes > Some(9e6));
        let stake = facts.stake(StakeKind::RandomReads).unwrap();
        assert_eq!((stake.calls, stake.bytes, stake.worst[0].file), (9, 9.0 * f64::from(1 << 20), FileId(3)));
        assert_eq!(stake.seconds, 9.0 * 0.5e-9);
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
        assert_eq!((facts.writes.sequential, facts.rewritten_bytes), (Some(20), Some(0.0)));
        let names: Vec<_> =
            facts.functions.iter().map(|sums| (sums.name.as_str(), sums.calls, sums.bytes)).collect();
        assert_eq!(names, [("open", 20, 0.0), ("write", 20, 20.0 * f64::from(1 << 20))]);
        // Opened to be read once more from its beginning, nothing jumps back.
        let read = Record { call: Call::of_symbol("read", Op::Read), ..call(Op::Read, posix, 0, 1 << 20) };
        let again = facts_of(&[open, read, open, read], Layer::Posix);
        assert_eq!((again.reads.random, again.reread_bytes), (Some(0), Some(f64::from(1 << 20))));
        assert_eq!(facts_of(&[open, read, read], Layer::Posix).reads.random, Some(1));
    }

    #[test]
    fn what_ranks_do_to_one_file_is_put_together() {
        let posix = iotide_wire::Layer::Posix;
        // Both read the same megabyte in small calls; one takes four times as long.
        let reads: Vec<Record> = (0..256).map(|i| call(Op::Read, posix, 4096 * i, 4096)).collect();
        let slow: Vec<Record> = reads.iter().map(|read| Record { duration: 4, ..*read }).collect();
        let facts = facts_of_ranks(&[&reads, &slow], Layer::Posix);
        assert_eq!(facts.reread_bytes, Some(f64::from(1 << 20)));
        assert_eq!(facts.stake(StakeKind::SmallShared).unwrap().calls, 512);
        let straggler = facts.straggler.unwrap();
        assert_eq!((straggler.slowest_rank, straggler.file), (1, FileId(3)));
        assert!((straggler.slowest_s / straggler.fastest_s - 4.0).abs() < 1e-9);
        // A file of one rank alone is not shared.
        let alone = facts_of(&reads, Layer::Posix);
        assert_eq!((alone.stake(StakeKind::SmallShared).unwrap().calls, alone.straggler), (0, None));
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
