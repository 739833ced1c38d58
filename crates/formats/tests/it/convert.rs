use std::collections::HashMap;
use std::io::Cursor;
use std::path::Path;
use std::process::Command;

use iotide_formats::{Census, Format, OpenOptions, Reader, Target, convert};
use iotide_trace::{
    Activity, ActivitySums, Event, FileId, Grain, JobInfo, Layer, Loss, Op, Rank, Timestamp, Trace, TraceInfo,
};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use proptest::prelude::*;
use serde_json::Value as Json;

use crate::samples;

fn read(bytes: &[u8]) -> Trace {
    let mut trace = Trace::default();
    let reader = OpenOptions::default().from_read("input", Cursor::new(bytes.to_vec())).unwrap();
    trace.info = reader.read(&mut trace).unwrap();
    trace
}

/// The same in order of time: calls that went on beside the program come after the others in a native trace.
fn in_order(mut trace: Trace) -> Trace {
    trace.events.sort_by_key(|event| (event.start, event.end, event.rank, event.op.name()));
    trace
}

fn converted(bytes: &[u8], target: Target) -> Vec<u8> {
    let reader = OpenOptions::default().from_read("input", Cursor::new(bytes.to_vec())).unwrap();
    let mut out = Vec::new();
    let conversion = convert(reader, target, &mut out).unwrap();
    let trace = read(bytes);
    assert_eq!(conversion.n_events, trace.events.len() as u64);
    assert_eq!((conversion.info, conversion.losses), (trace.info, trace.losses));
    out
}

/// Events with their file's name in place of its number, which tables do not keep.
fn named(trace: &Trace) -> Vec<(Event, Option<&str>)> {
    let name = |event: &Event| trace.info.files.get(event.file.0 as usize).map(String::as_str);
    trace.events.iter().map(|event| (Event { file: FileId::NONE, ..*event }, name(event))).collect()
}

/// A trace with everything that is hard to write.
fn awkward() -> Vec<u8> {
    let at = Timestamp::from_nanos_since_start;
    let files = ["/plain", "", " a, \"b\"\tc", "/é\u{1}\\", "two\nlines"].map(str::to_owned).to_vec();
    let event = |op, file, start, end, bytes| Event {
        file: FileId(file),
        ..Event::data(op, Rank(3), at(start), at(end), bytes)
    };
    let trace = Trace {
        info: TraceInfo {
            job: JobInfo {
                run_time_s: Some(12.5),
                n_procs: Some(4),
                user: Some("ada".into()),
                exe: Some("./a.out \"x\" \\".into()),
                job_id: Some("77.batch".into()),
                start_time_unix_s: Some(1.6e9 + 0.25),
                ..JobInfo::default()
            },
            files,
        },
        events: vec![
            event(Op::Write, 0, -1_500_000_001, 1, 4096.0),
            event(Op::Read, 2, 123_456_789, 8_000_000_000_000_001, 0.125),
            Event { rank: Rank::ALL, grain: Grain::Bin, calls: 0, ..event(Op::Write, u32::MAX, 5, 9, 9e15) },
            Event {
                layer: Layer::MpiIo,
                grain: Grain::Record,
                calls: u32::MAX,
                ..event(Op::Sync, 3, 0, 0, 0.0)
            },
            Event { layer: Layer::Posix, ..event(Op::Other, 4, 7, 7, 0.0) },
        ],
        losses: vec![
            Loss { since: Some(at(1_500_000_000)), ..Loss::of_records(7, "line 3: a, \"b\"") },
            Loss::of_unknown_size("12,34: cut"),
            Loss::of_the_rest("nothing after, \"this\""),
        ],
    };
    native(&trace)
}

fn native(trace: &Trace) -> Vec<u8> {
    use iotide_trace::EventSink;
    let mut writer = iotide_formats::NativeWriter::new(Vec::new()).unwrap();
    trace.events.iter().for_each(|event| assert!(writer.event(*event).is_continue()));
    trace.losses.iter().for_each(|loss| writer.loss(loss.clone()));
    writer.finish(&trace.info).unwrap()
}

#[test]
fn a_native_trace_of_any_source_is_the_same_trace() {
    for sample in samples::all() {
        let bytes = converted(&sample.bytes, Target::Native);
        assert_eq!(in_order(read(&bytes)), in_order(read(&sample.bytes)), "{}", sample.name);
    }
    assert_eq!(converted(&awkward(), Target::Native), awkward());
}

/// All that a source says beside its events: times, facts on accesses, sums by rank and file, the census of a tracer.
fn sums(reader: Reader) -> (ActivitySums, Option<Census>) {
    let mut activity = Activity::new();
    let (info, census) = reader.read_with_census(&mut activity).unwrap();
    (activity.finish(&info), census)
}

/// Converts a trace to the native form and asserts that it says the same in sums.
fn check_sums(name: &str, open: impl Fn() -> Reader) {
    let mut out = Vec::new();
    convert(open(), Target::Native, &mut out).unwrap();
    let native = OpenOptions::default().from_read("native", Cursor::new(out)).unwrap();
    let ((mut ours, census), (mut theirs, kept)) = (sums(open()), sums(native));
    // Calls that went on beside the program come last in a native trace: the same floats in another order.
    for sums in [&mut ours, &mut theirs] {
        sums.heat
            .rows
            .iter_mut()
            .flat_map(|row| row.read.iter_mut().chain(&mut row.written))
            .for_each(rounded);
        sums.ops.iter_mut().for_each(|op| rounded(&mut op.sums.time_s));
        for times in &mut sums.times {
            [&mut times.read_s, &mut times.write_s, &mut times.metadata_s]
                .into_iter()
                .flatten()
                .for_each(rounded);
        }
        sums.files.iter_mut().filter_map(|file| file.sums.time_s.as_mut()).for_each(rounded);
        if let Some(times) = &mut sums.rank_times {
            rounded(&mut times.slowest_s);
            rounded(&mut times.peers_s);
        }
    }
    assert_eq!(ours, theirs, "{name}");
    assert_eq!(census.filter(|census| *census != Census::default()), kept, "{name}");
}

fn rounded(value: &mut f64) {
    *value = (*value * 1e6).round() / 1e6;
}

#[test]
fn a_native_trace_of_any_source_says_all_that_the_source_said() {
    for sample in samples::all() {
        check_sums(sample.name, || {
            OpenOptions::default().from_read(sample.name, Cursor::new(sample.bytes.clone())).unwrap()
        });
    }
}

/// One trace of each kind that others made; `cargo xtask round-trip` tries all of them.
#[test]
fn a_native_trace_of_real_traces_says_all_that_they_said() {
    for path in [
        "traces/recorder/2.5-ior_mpiio",
        "traces/dftracer/v2.2.0_ior_posix_fpp_np4",
        "traces/darshan/sample-badost.darshan",
        "traces/darshan/imbalanced-io.darshan",
        "traces/darshan/ior_hdf5_example.darshan",
    ] {
        let Some(trace) = iotide_testkit::shared_data(path) else { continue };
        check_sums(path, || OpenOptions::default().open(&trace).unwrap());
    }
}

#[test]
fn a_table_of_any_source_has_the_same_events_to_the_nanosecond() {
    for target in [Target::Csv, Target::Jsonl] {
        let sources = samples::all().into_iter().map(|sample| (sample.name, sample.bytes));
        for (name, bytes) in sources.chain([("awkward", awkward())]) {
            let table = converted(&bytes, target);
            let (found, mut expected) = (in_order(read(&table)), in_order(read(&bytes)));
            let what = format!("{name} as {}:\n{}", target.name(), String::from_utf8_lossy(&table));
            if target == Target::Csv {
                // The one thing that CSV cannot say: a character that would steer a terminal.
                expected.info.files.iter_mut().for_each(|file| *file = file.replace('\u{1}', "\\u{1}"));
            }
            assert_eq!(named(&found), named(&expected), "{what}");
            assert_eq!(found.info.job, expected.info.job, "{what}");
            assert_eq!(found.losses, expected.losses, "{what}");
        }
    }
}

#[test]
fn a_table_converted_twice_is_the_same_table() {
    for (target, format) in [(Target::Csv, Format::Csv), (Target::Jsonl, Format::Jsonl)] {
        let once = converted(&awkward(), target);
        let reader = OpenOptions::default().from_read("input", Cursor::new(once.clone())).unwrap();
        assert_eq!(reader.format(), format);
        assert_eq!(converted(&once, target), once);
    }
}

fn traces() -> impl Strategy<Value = Trace> {
    const CENTURY: i64 = 100 * 365 * 86_400 * 1_000_000_000;
    let event = (
        (0..Op::ALL.len(), 0..Layer::ALL.len(), 0..Grain::ALL.len()),
        (-1..40_i32, prop::option::of(0..3_u32)),
        (-CENTURY..CENTURY, 0..1_000_000_000_000_i64),
        prop_oneof![Just(0.0), (0..1_u64 << 53).prop_map(|n| n as f64), 0.0..1e12],
        prop_oneof![Just(1), any::<u32>()],
    );
    let event = event.prop_map(|((op, layer, grain), (rank, file), (start, length), bytes, calls)| Event {
        op: Op::ALL[op],
        layer: Layer::ALL[layer],
        grain: Grain::ALL[grain],
        rank: Rank(rank),
        file: file.map_or(FileId::NONE, FileId),
        start: Timestamp::from_nanos_since_start(start),
        end: Timestamp::from_nanos_since_start((start + length).min(CENTURY)),
        bytes,
        calls,
    });
    let files = prop::collection::vec("[a-z,\"\\\\ \n\u{e9}]{1,8}", 3);
    (prop::collection::vec(event, 1..40), files).prop_filter_map(
        "two files of one name",
        |(events, files)| {
            // A table that names a file twice cannot tell the two apart; blanks around a name are part of it.
            let distinct = files[0] != files[1] && files[1] != files[2] && files[0] != files[2];
            distinct.then(|| Trace {
                events,
                info: TraceInfo { files, ..TraceInfo::default() },
                losses: Vec::new(),
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn what_is_written_is_read_again(trace in traces()) {
        let bytes = native(&trace);
        for target in [Target::Native, Target::Csv, Target::Jsonl] {
            let found = read(&converted(&bytes, target));
            prop_assert_eq!(named(&found), named(&trace), "{}", target.name());
        }
    }

    #[test]
    fn slices_of_one_thread_do_not_overlap(trace in traces()) {
        check_chrome(&native(&trace));
    }
}

/// Checks a Chrome trace against its schema and against the events it was made from.
fn check_chrome(source: &[u8]) {
    let document: Json = serde_json::from_slice(&converted(source, Target::Chrome)).unwrap();
    let trace = read(&converted(source, Target::Native));
    let mut expected = named(&trace).into_iter();
    let mut threads: HashMap<(i64, i64), Vec<(Timestamp, Timestamp)>> = HashMap::new();
    for slice in document["traceEvents"].as_array().unwrap() {
        let number = |name: &str| slice[name].as_f64().unwrap_or_else(|| panic!("{name} in {slice}"));
        assert!(slice["name"].is_string() && slice["ph"].is_string(), "{slice}");
        let thread = (slice["pid"].as_i64().unwrap(), slice["tid"].as_i64().unwrap());
        assert!((0..1 << 31).contains(&thread.0) && (0..1 << 31).contains(&thread.1), "{slice}");
        let (ts, dur) = (number("ts"), number("dur"));
        assert!(dur >= 0.0, "{slice}");
        if slice["ph"] == "M" {
            assert!(slice["args"]["name"].is_string(), "{slice}");
            continue;
        }
        assert_eq!(slice["ph"], "X");
        let (event, file) = expected.next().expect("a slice an event");
        assert_eq!(slice["name"], event.op.name());
        // The parser is allowed the last digit.
        let bytes = slice["args"]["bytes"].as_f64().unwrap();
        assert!((bytes - event.bytes).abs() <= 1e-15 * bytes, "{slice}");
        assert_eq!(slice["args"]["file"].as_str(), file);
        if event.rank != Rank::ALL {
            assert_eq!(thread.0, i64::from(event.rank.0));
        }
        let start_us = event.start.as_nanos() as f64 / 1e3;
        assert!((ts - start_us).abs() <= 1e-3 + start_us.abs() * 1e-15, "{slice}");
        // A float has no nanoseconds that far from zero; whether slices overlap is asked of the events themselves.
        threads.entry(thread).or_default().push((event.start, event.end));
    }
    assert_eq!(expected.next(), None);
    for (thread, mut slices) in threads {
        slices.sort_unstable();
        assert!(slices.windows(2).all(|pair| pair[1].0 >= pair[0].1), "{thread:?}: {slices:?}");
    }
}

#[test]
fn a_chrome_trace_keeps_its_schema() {
    for sample in samples::all() {
        check_chrome(&sample.bytes);
    }
    check_chrome(&awkward());
    let document: Json = serde_json::from_slice(&converted(&awkward(), Target::Chrome)).unwrap();
    assert_eq!(document["otherData"]["exe"], "./a.out \"x\" \\");
    assert_eq!(document["otherData"]["losses"][0]["records"], 7);
    let names: Vec<_> =
        document["traceEvents"].as_array().unwrap().iter().map(|slice| &slice["args"]["name"]).collect();
    assert!(names.contains(&&Json::from("rank 3")) && names.contains(&&Json::from("all ranks")), "{names:?}");
}

/// 300 000 events: more than two row groups.
fn many() -> Vec<u8> {
    let at = Timestamp::from_nanos_since_start;
    let events = (0..300_000_u32).map(|i| Event {
        file: if i % 3 == 0 { FileId::NONE } else { FileId(i % 2) },
        calls: i,
        ..Event::data(
            if i % 5 == 0 { Op::Read } else { Op::Write },
            Rank(i as i32 % 7 - 1),
            at(i64::from(i) * 1_000_001),
            at(i64::from(i) * 1_000_001 + 999),
            f64::from(i) * 4096.0,
        )
    });
    let info = TraceInfo { files: vec!["/a".into(), "/b".into()], ..TraceInfo::default() };
    native(&Trace { events: events.collect(), info, losses: vec![Loss::of_records(2, "x")] })
}

#[test]
fn parquet_is_read_back_by_its_own_crate() {
    for bytes in [many(), awkward()] {
        let trace = read(&bytes);
        let parquet = bytes::Bytes::from(converted(&bytes, Target::Parquet));
        let reader = SerializedFileReader::new(parquet).unwrap();
        let metadata = reader.metadata();
        assert_eq!(metadata.file_metadata().num_rows(), trace.events.len() as i64);
        assert_eq!(metadata.num_row_groups(), trace.events.len().div_ceil(128 << 10));
        let about = metadata.file_metadata().key_value_metadata().unwrap();
        let losses = about.iter().find(|entry| entry.key == "iotide.losses").unwrap().value.clone().unwrap();
        let losses: Json = serde_json::from_str(&losses).unwrap();
        assert_eq!(losses.as_array().unwrap().len(), trace.losses.len());
        for (row, (event, file)) in reader.get_row_iter(None).unwrap().zip(named(&trace)) {
            let row = row.unwrap();
            assert_eq!(row.get_int(0).unwrap(), event.rank.0);
            assert_eq!(row.get_string(1).unwrap(), event.op.name());
            assert_eq!(row.get_double(2).unwrap(), event.start.as_secs());
            assert_eq!(row.get_double(3).unwrap(), event.end.as_secs());
            assert_eq!(row.get_double(4).unwrap(), event.bytes);
            assert_eq!(row.get_string(5).ok().map(String::as_str), file);
            assert_eq!(row.get_string(6).unwrap(), event.layer.name());
            assert_eq!(row.get_string(7).unwrap(), event.grain.name());
            assert_eq!(row.get_uint(8).unwrap(), event.calls);
        }
    }
}

/// Script for a reader of another make, which prints a line of sums of a Parquet file.
const SUMS: &str = r#"
import sys
path = sys.argv[1]
try:
    import pyarrow.parquet as pq
    table = pq.read_table(path).to_pydict()
except ImportError:
    import duckdb
    columns = duckdb.sql(f"select * from '{path}'")
    table = dict(zip(columns.columns, zip(*columns.fetchall())))
print(len(table["rank"]), sum(table["rank"]), sum(table["bytes"]), sum(table["calls"]), max(table["end"]),
      sum(op == "read" for op in table["op"]), sum(file == "/b" for file in table["file"]),
      sum(file is None for file in table["file"]), set(table["layer"]), set(table["grain"]))
"#;

#[test]
fn parquet_is_read_back_by_others() {
    let Some(python) = python_with_parquet() else { return };
    let dir = iotide_testkit::FreshDir::new("parquet");
    let bytes = many();
    let path = dir.write("many.parquet", converted(&bytes, Target::Parquet));
    let output = Command::new(python).args(["-c", SUMS]).arg(&path).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let trace = read(&bytes);
    let sum = |of: fn(&Event) -> f64| trace.events.iter().map(of).sum::<f64>();
    let count = |is: fn(&Event) -> bool| trace.events.iter().filter(|event| is(event)).count();
    let expected = format!(
        "{} {} {:.1} {} {} {} {} {} {{'unknown'}} {{'call'}}\n",
        trace.events.len(),
        sum(|event| f64::from(event.rank.0)),
        sum(|event| event.bytes),
        sum(|event| f64::from(event.calls)),
        trace.events.iter().map(|event| event.end.as_secs()).fold(0.0, f64::max),
        count(|event| event.op == Op::Read),
        count(|event| event.file == FileId(1)),
        count(|event| event.file == FileId::NONE),
    );
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}

/// A Python that has pyarrow or duckdb: the one `./test` prepares (`IOTIDE_TEST_PYTHON`), or that of the system.
fn python_with_parquet() -> Option<std::path::PathBuf> {
    let prepared = std::env::var_os("IOTIDE_TEST_PYTHON").map(std::path::PathBuf::from);
    let candidates = prepared.into_iter().chain(["python3".into()]);
    let has = |python: &Path| {
        let script = "import importlib.util as u, sys; sys.exit(not (u.find_spec('pyarrow') or u.find_spec('duckdb')))";
        Command::new(python).args(["-c", script]).output().is_ok_and(|output| output.status.success())
    };
    let found = candidates.into_iter().find(|python| has(python));
    if found.is_none() {
        iotide_testkit::skip(iotide_testkit::Missing::Program, "python3 with pyarrow or duckdb");
    }
    found
}
