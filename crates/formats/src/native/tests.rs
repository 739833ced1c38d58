use super::*;
use crate::OpenOptions;
use crate::testing::{check, read};
use iotide_trace::{FileLayout, FileRecord, FunctionSums, RankPart, RankShare, SmallCalls, Trace, WayRecord};
use proptest::prelude::*;

fn write(trace: &Trace) -> Vec<u8> {
    let mut writer = NativeWriter::new(Vec::new()).unwrap();
    for event in &trace.events {
        assert!(writer.event(*event).is_continue());
    }
    for loss in &trace.losses {
        writer.loss(loss.clone());
    }
    writer.finish(&trace.info).unwrap()
}

fn events() -> impl Strategy<Value = Event> {
    let nanos =
        prop_oneof![-1000i64..1000, any::<i64>(), 1_700_000_000_000_000_000i64..1_800_000_000_000_000_000];
    let bytes = prop_oneof![Just(0.0), Just(-0.0), (0u32..1 << 24).prop_map(f64::from), 0.0..1e18f64];
    let rank = prop_oneof![Just(-1), 0..4i32, any::<i32>()];
    let kind = (0..Op::ALL.len(), 0..LAYERS.len(), 0..GRAINS.len());
    let calls = prop_oneof![Just(1), any::<u32>()];
    let length = prop_oneof![0..1_000_000i64, 0..i64::MAX / 2];
    (kind, rank, prop_oneof![Just(u32::MAX), 0..3u32], nanos, length, bytes, calls).prop_map(
        |((op, layer, grain), rank, file, start, length, bytes, calls)| {
            let start = Timestamp::from_nanos_since_start(start);
            let (op, layer, grain) = (Op::ALL[op], LAYERS[layer], GRAINS[grain]);
            let (rank, file, end) = (Rank(rank), FileId(file), start.plus_nanos(length));
            Event { op, layer, grain, rank, file, start, end, bytes, calls }
        },
    )
}

fn traces() -> impl Strategy<Value = Trace> {
    let loss = (".{0,20}", any::<Option<u64>>(), any::<Option<i32>>(), any::<bool>());
    let losses = prop::collection::vec(loss, 0..3);
    let n_procs = any::<(Option<u64>, Option<u64>)>();
    let job = (any::<Option<u32>>(), n_procs, any::<Option<String>>(), any::<Option<String>>());
    (prop::collection::vec(events(), 0..200), prop::collection::vec(any::<String>(), 3..6), losses, job)
        .prop_map(|(events, files, losses, (run_time, (n_procs, n_told), exe, user))| {
            let run_time_s = run_time.map(f64::from);
            let job = JobInfo { run_time_s, n_procs, n_told, exe, user, ..JobInfo::default() };
            let since = |nanos: i32| Timestamp::from_nanos_since_start(i64::from(nanos));
            let loss = |(what, records, at, cut): (String, _, Option<i32>, _)| Loss {
                what,
                records,
                since: at.map(since),
                cut,
            };
            Trace { info: TraceInfo { job, files }, events, losses: losses.into_iter().map(loss).collect() }
        })
}

/// Keeps everything a source can say.
#[derive(Debug, Default, PartialEq)]
struct All {
    events: Vec<Event>,
    async_events: Vec<(Event, Timestamp)>,
    times: Vec<TimeSpent>,
    facts: Vec<AccessFacts>,
    losses: Vec<Loss>,
}

impl EventSink for All {
    fn event(&mut self, event: Event) -> ControlFlow<()> {
        self.events.push(event);
        ControlFlow::Continue(())
    }
    fn async_event(&mut self, event: Event, waited: Timestamp) -> ControlFlow<()> {
        self.async_events.push((event, waited));
        ControlFlow::Continue(())
    }
    fn time_spent(&mut self, spent: TimeSpent) {
        self.times.push(spent);
    }
    fn access_facts(&mut self, facts: &AccessFacts) {
        self.facts.push(facts.clone());
    }
    fn loss(&mut self, loss: Loss) {
        self.losses.push(loss);
    }
}

impl All {
    fn tell(&self, sink: &mut dyn EventSink) {
        for event in &self.events {
            assert!(sink.event(*event).is_continue());
        }
        for (event, waited) in &self.async_events {
            assert!(sink.async_event(*event, *waited).is_continue());
        }
        self.times.iter().for_each(|spent| sink.time_spent(*spent));
        self.facts.iter().for_each(|facts| sink.access_facts(facts));
        self.losses.iter().for_each(|loss| sink.loss(loss.clone()));
    }
}

fn everything() -> impl Strategy<Value = All> {
    let waited = (events(), 0.0..1.0f64).prop_map(|(event, share)| {
        let nanos = (event.end.as_nanos() - event.start.as_nanos()) as f64 * share;
        (event, event.start.plus_nanos(nanos as i64))
    });
    use prop::collection::vec;
    let file = || prop_oneof![Just(u32::MAX), 0..3u32].prop_map(FileId);
    let rank = || (-1..3i32).prop_map(Rank);
    let spent = (0..LAYERS.len(), 0..TIME_KINDS.len(), file(), rank(), 0.0..1e6f64).prop_map(
        |(layer, kind, file, rank, seconds)| TimeSpent {
            layer: LAYERS[layer],
            kind: TIME_KINDS[kind],
            file,
            rank,
            seconds,
        },
    );
    let amounts = || (any::<u64>(), 0.0..1e15f64, 0.0..1e9f64);
    let way = || {
        let counts = (any::<Option<u64>>(), any::<Option<u64>>(), any::<Option<u64>>());
        (amounts(), prop::option::of(amounts()), counts, prop::option::of(0.0..1e12f64)).prop_map(
            |((calls, bytes, seconds), small, (random, collective, nonblocking), up_to)| WayRecord {
                calls,
                bytes: up_to.map(|_| bytes),
                seconds,
                small: small.map(|(calls, bytes, seconds)| SmallCalls {
                    calls,
                    bytes,
                    seconds: random.map(|_| seconds),
                }),
                random,
                up_to,
                collective,
                nonblocking,
                calls_s: collective.map(|_| seconds),
            },
        )
    };
    let record = (0..LAYERS.len(), file(), rank(), (way(), way()), prop::option::of(amounts())).prop_map(
        |(layer, file, rank, (reads, writes), share)| FileRecord {
            reads,
            writes,
            opens: reads.calls / 3,
            stats: 7,
            syncs: writes.calls,
            maps: 1,
            metadata_s: 0.5,
            sync_s: share.map(|_| 2.5),
            alignment: share.map(|_| 4096),
            misaligned: share.map(|(calls, ..)| calls),
            slowest: share.map(|(_, bytes, seconds)| RankShare { rank, bytes, seconds }),
            fastest: share.map(|(_, bytes, seconds)| RankShare { rank: Rank(5), bytes, seconds }),
            n_files: 3,
            ..FileRecord::new(file, rank, LAYERS[layer])
        },
    );
    let layout = (file(), vec(any::<u32>(), 0..4)).prop_map(|(file, targets)| FileLayout { file, targets });
    let numbers = vec(any::<Option<u32>>(), 24);
    let functions = prop::collection::btree_map("[a-z]{1,8}", amounts(), 0..3).prop_map(|functions| {
        let sums = |(name, (calls, bytes, seconds))| FunctionSums { name, calls, bytes, seconds };
        functions.into_iter().map(sums).collect::<Vec<_>>()
    });
    let parts = prop::collection::btree_map(rank(), 0.0..1e15f64, 0..3).prop_map(|parts| {
        parts.into_iter().map(|(rank, bytes)| RankPart { rank, bytes }).collect::<Vec<_>>()
    });
    let lists = (vec(record, 0..3), vec(layout, 0..3), any::<Option<u32>>(), functions, parts);
    let facts = (0..LAYERS.len(), numbers, lists).prop_map(
        |(layer, numbers, (records, layouts, n_targets, functions, rank_parts))| AccessFacts {
            records,
            layouts,
            n_targets,
            functions,
            rank_parts,
            ..facts::of_numbers(LAYERS[layer], &numbers.iter().map(|n| n.map(u64::from)).collect::<Vec<_>>())
        },
    );
    (vec(events(), 0..20), vec(waited, 0..20), vec(spent, 0..20), vec(facts, 0..4)).prop_map(
        |(events, async_events, times, facts)| All {
            events,
            async_events,
            times,
            facts,
            losses: vec![Loss::of_records(3, "three")],
        },
    )
}

proptest! {
    #[test]
    fn all_that_a_source_can_say_comes_back(all in everything()) {
        let mut writer = NativeWriter::new(Vec::new()).unwrap();
        all.tell(&mut writer);
        let info = TraceInfo { files: vec!["a".into(), "b".into(), "c".into()], ..TraceInfo::default() };
        let bytes = writer.finish(&info).unwrap();
        let mut found = All::default();
        let reader = OpenOptions::default().from_read("copy", std::io::Cursor::new(bytes)).unwrap();
        // A trace without events is none that can be used.
        if all.events.len() + all.async_events.len() > 0 {
            reader.read(&mut found).unwrap();
            prop_assert_eq!(found, all);
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(trace in traces()) {
        prop_assume!(!trace.events.is_empty() || trace.losses.is_empty());
        prop_assert_eq!(read(&OpenOptions::default(), &write(&trace)).unwrap(), trace);
    }

    #[test]
    fn a_cut_trace_gives_a_beginning_and_a_loss(trace in traces(), share in 0.0..1.0f64) {
        let bytes = write(&trace);
        let cut = 8 + ((bytes.len() - 8) as f64 * share) as usize;
        if let Ok(found) = read(&OpenOptions::default(), &bytes[..cut]) {
            prop_assert!(trace.events.starts_with(&found.events));
            let n_files = found.info.files.len();
            prop_assert!(found.events.iter().all(|e| e.file == FileId::NONE || (e.file.0 as usize) < n_files));
            prop_assert!(found.losses.len() > trace.losses.len() || !found.losses.is_empty());
        }
    }
}

fn long_trace() -> Trace {
    let at = |i: i64| Timestamp::from_nanos_since_start(i * 1_000_000);
    let event = |i: i64| Event::data(Op::Write, Rank((i % 7) as i32), at(i), at(i + 3), (4096 * i) as f64);
    Trace { events: (0..50_000).map(event).collect(), ..Trace::default() }
}

#[test]
fn a_damaged_block_costs_its_own_events_only() {
    let trace = long_trace();
    let mut bytes = write(&trace);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x40;
    let found = read(&OpenOptions::default(), &bytes).unwrap();
    let n_lost = trace.events.len() - found.events.len();
    assert!((1..10_000).contains(&n_lost), "{n_lost} lost");
    assert!(found.events.iter().all(|event| trace.events.contains(event) || event.bytes > 1e15));
    assert!(found.losses.iter().any(|loss| loss.records == Some(n_lost as u64)), "{:?}", found.losses);
}

#[test]
fn an_event_is_small() {
    let trace = long_trace();
    let n_bytes = write(&trace).len();
    assert!(n_bytes <= 14 * trace.events.len(), "{n_bytes} bytes for {} events", trace.events.len());
}

#[test]
fn later_versions_are_told_apart_from_damage() {
    check(b"IOTIDE\0\x07abc", "error: input, byte 7: version 7 of the native trace is not known, 1 is");
    check(b"IOTIDE\0", "error: input, byte 0: this is not the beginning of a native trace");
}

#[test]
fn the_checksum_is_the_common_one() {
    assert_eq!(crc32([&b"1234"[..], b"56789"]), 0xcbf4_3926);
}
