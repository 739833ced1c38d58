use std::collections::BTreeMap;

use crate::sink::Each;
use iotide_formats::darshan::{
    Compression, DarshanLayers, DarshanOptions, DarshanSource, Endian, Limits, Log, ModuleData, Value,
    lustre_totals,
};
use iotide_formats::{Format, OpenOptions};
use iotide_trace::{AccessFacts, Activity, ActivitySums, FileId, Grain, Layer, Op, Rank, Trace};

use super::writer::{EXE, LogWriter, START_S};

const MINORS: [u32; 5] = [0, 10, 20, 21, 41];
const ENDIANS: [Endian; 2] = [Endian::Little, Endian::Big];
const COMPRESSIONS: [Compression; 3] = [Compression::Zlib, Compression::Bzip2, Compression::None];

fn parse(log: &LogWriter) -> Log {
    Log::parse("made", log.write()).unwrap()
}

fn trace(log: &LogWriter, source: DarshanSource, layers: DarshanLayers) -> Trace {
    let options = OpenOptions { darshan: DarshanOptions { source, layers }, ..OpenOptions::default() };
    let reader = options.from_read("made", std::io::Cursor::new(log.write())).unwrap();
    assert_eq!(reader.format(), Format::Darshan);
    let mut trace = Trace::default();
    trace.info = reader.read(&mut trace).unwrap();
    trace
}

/// Events as lines: what, who, when, how much.
fn lines(trace: &Trace) -> Vec<String> {
    let line = |event: &iotide_trace::Event| {
        let file = trace.info.files.get(event.file.0 as usize).map_or("-", String::as_str);
        let rank = event.rank.0;
        let (start, end) = (event.start.as_secs(), event.end.as_secs());
        format!(
            "{:?} {} r{rank} {file} {start}..{end} {}B {}x",
            event.layer,
            event.op.name(),
            event.bytes,
            event.calls
        )
    };
    trace.events.iter().map(line).collect()
}

fn modules(log: &Log) -> BTreeMap<&str, Option<u64>> {
    log.modules.iter().map(|module| (&*module.name, module.n_records())).collect()
}

#[test]
fn every_version_byte_order_and_packing_says_the_same() {
    for minor in MINORS {
        for endian in ENDIANS {
            for compression in COMPRESSIONS {
                let what = format!("3.{minor:02} {endian:?} {compression:?}");
                let log = parse(&LogWriter::rich(minor, endian, compression));
                assert_eq!(log.losses, [], "{what}");
                assert_eq!((log.endian, log.compression), (Some(endian), Some(compression)), "{what}");
                let job = log.job.as_ref().unwrap();
                assert_eq!((job.uid, job.job_id, job.n_procs, job.start_s), (1000, 77, 4, START_S), "{what}");
                assert_eq!((job.exe.as_str(), job.mounts.len()), (EXE, 2), "{what}");
                assert_eq!(job.run_time_s(), Some(if minor >= 41 { 9.25 } else { 10.0 }), "{what}");
                assert_eq!(log.library_version(), Some("3.9.9"), "{what}");
                assert_eq!((log.names.len(), log.names.get(12)), (4, Some("/scratch/b")), "{what}");
                let expected = [("POSIX", 2), ("STDIO", 1), ("DXT_POSIX", 1), ("HEATMAP", 1)];
                let expected: BTreeMap<_, _> =
                    expected.into_iter().map(|(name, n)| (name, Some(n))).collect();
                assert_eq!(modules(&log), expected, "{what}");
                let totals = log.module("POSIX").unwrap().counters().unwrap().totals();
                let total = |name: &str| totals.iter().find(|(known, _)| *known == name).unwrap().1;
                assert_eq!(total("POSIX_BYTES_WRITTEN"), Value::Int(2200), "{what}");
                assert_eq!(total("POSIX_F_WRITE_END_TIMESTAMP"), Value::Float(10.0), "{what}");
                let ModuleData::Dxt(dxt) = &log.module("DXT_POSIX").unwrap().data else { panic!("{what}") };
                assert_eq!((dxt.totals.write_segments, dxt.totals.bytes_read), (2, 100), "{what}");
                let heatmap = &log.heatmap_totals()[0];
                assert_eq!(
                    (heatmap.layer.as_str(), heatmap.n_bins, heatmap.bytes_written),
                    ("POSIX", 3, 200),
                    "{what}"
                );
            }
        }
    }
}

#[test]
fn dxt_is_preferred_and_metadata_come_from_counters() {
    let log = LogWriter::rich(41, Endian::Little, Compression::Zlib);
    let trace = trace(&log, DarshanSource::Auto, DarshanLayers::Lowest);
    assert_eq!(
        lines(&trace),
        [
            "Posix write r0 /scratch/a 3..3.5 150B 1x",
            "Posix write r0 /scratch/a 4..5 50B 1x",
            "Posix read r0 /scratch/a 1..2 100B 1x",
            "Posix open r0 /scratch/a 0.5..0.75 0B 1x",
            "Posix close r0 /scratch/a 6..6.5 0B 1x",
            "Posix seek r0 /scratch/a 0.5..6.5 0B 4x",
            "Posix open r-1 /scratch/b 0.5..0.75 0B 1x",
            "Posix close r-1 /scratch/b 6..6.5 0B 1x",
            "Posix seek r-1 /scratch/b 0.5..6.5 0B 4x",
            "Stdio write r0 <STDOUT> 0.25..8 50B 5x",
            "Stdio open r0 <STDOUT> 0.125..0.125 0B 1x",
            "Stdio sync r0 <STDOUT> 0.125..8 0B 1x",
        ]
    );
    assert_eq!(trace.losses, []);
    let job = &trace.info.job;
    assert_eq!((job.n_procs, job.run_time_s, job.exe.as_deref()), (Some(4), Some(9.25), Some(EXE)));
    assert_eq!((job.job_id.as_deref(), job.user.as_deref()), (Some("77"), Some("1000")));
    assert_eq!(job.start_time_unix_s, Some(START_S as f64 + 0.25));
}

#[test]
fn time_in_calls_is_stated_where_no_call_carries_it() {
    let log = LogWriter::rich(41, Endian::Little, Compression::Zlib);
    let times = |source| {
        let options = OpenOptions {
            darshan: DarshanOptions { source, layers: DarshanLayers::Lowest },
            ..OpenOptions::default()
        };
        let reader = options.from_read("made", std::io::Cursor::new(log.write())).unwrap();
        let mut activity = Activity::new();
        let info = reader.read(&mut activity).unwrap();
        let sums = activity.finish(&info);
        let posix = sums.times.iter().find(|times| times.layer == Layer::Posix).copied().unwrap();
        (posix.read_s, posix.write_s, posix.metadata_s)
    };
    // Two records of 0.5 s, 1.25 s and 0.125 s.
    assert_eq!(times(DarshanSource::Counters), (Some(1.0), Some(2.5), Some(0.25)));
    assert_eq!(times(DarshanSource::Heatmap), (Some(1.0), Some(2.5), Some(0.25)));
    // The calls of the first record: 0.5 s and 1 s of writes, 1 s of reads.
    assert_eq!(times(DarshanSource::Dxt), (Some(1.0), Some(1.5), Some(0.25)));
}

#[test]
fn a_source_can_be_asked_for() {
    let log = LogWriter::rich(41, Endian::Big, Compression::None);
    let data = |source| {
        let trace = trace(&log, source, DarshanLayers::Lowest);
        let of_posix =
            trace.events.iter().filter(|event| event.op.moves_data() && event.layer == Layer::Posix);
        of_posix.map(|event| (event.grain, event.op, event.rank.0, event.bytes)).collect::<Vec<_>>()
    };
    let (read, write) = (Op::Read, Op::Write);
    assert_eq!(data(DarshanSource::Heatmap), [(Grain::Bin, write, 0, 200.0), (Grain::Bin, read, 0, 100.0)]);
    assert_eq!(
        data(DarshanSource::Counters),
        [
            (Grain::Record, read, 0, 100.0),
            (Grain::Record, write, 0, 200.0),
            (Grain::Record, read, -1, 1000.0),
            (Grain::Record, write, -1, 2000.0)
        ]
    );
    assert_eq!(data(DarshanSource::Dxt).len(), 3);
}

#[test]
fn bytes_seen_by_two_layers_come_once_unless_both_are_wanted() {
    let mut log = LogWriter::rich(41, Endian::Little, Compression::Zlib);
    let mut record = log.words(&[11, 0]);
    let mut ints = [0_i64; 51];
    // COLL_OPENS, COLL_WRITES, BYTES_WRITTEN.
    (ints[1], ints[5], ints[15]) = (1, 2, 200);
    let mut floats = [0.0; 17];
    (floats[2], floats[6]) = (3.0, 5.0);
    record.extend(log.words(&ints));
    record.extend(log.floats(&floats));
    log.push("MPI-IO", 3, false, vec![record]);
    log.modules.sort_by_key(|module| module.0);
    let written = |layers| {
        let trace = trace(&log, DarshanSource::Auto, layers);
        let writes = trace.events.iter().filter(|event| event.op == Op::Write && event.layer != Layer::Stdio);
        writes.map(|event| event.bytes).sum::<f64>()
    };
    assert_eq!(written(DarshanLayers::Lowest), 200.0);
    assert_eq!(written(DarshanLayers::MpiIo), 200.0);
    assert_eq!(written(DarshanLayers::All), 400.0);
    // Without POSIX, MPI-IO is the lowest there is.
    let is_posix = |slot: usize| slot == 1 || slot == 10 || slot == 15;
    log.modules.retain(|module| !is_posix(module.0));
    let trace = trace(&log, DarshanSource::Auto, DarshanLayers::Lowest);
    let layers: Vec<_> =
        trace.events.iter().filter(|event| event.op == Op::Write).map(|event| event.layer).collect();
    assert_eq!(layers, [Layer::MpiIo, Layer::Stdio]);
}

#[test]
fn a_module_that_ran_out_of_memory_is_a_loss() {
    let mut log = LogWriter::rich(10, Endian::Big, Compression::Zlib);
    log.modules[0].2 = true;
    let parsed = parse(&log);
    assert!(parsed.module("POSIX").unwrap().partial);
    assert!(!parsed.module("STDIO").unwrap().partial);
    assert_eq!(parsed.losses.len(), 1);
    assert!(
        parsed.losses[0].what.starts_with("POSIX: the module ran out of memory"),
        "{}",
        parsed.losses[0].what
    );
}

#[test]
fn a_process_that_was_killed_leaves_what_it_had() {
    let mut log = LogWriter::rich(41, Endian::Little, Compression::None);
    log.end_s = 0;
    let trace = trace(&log, DarshanSource::Auto, DarshanLayers::Lowest);
    assert_eq!(trace.info.job.run_time_s, None);
    assert_eq!(trace.events.len(), 12);
}

#[test]
fn a_damaged_region_loses_itself_and_nothing_else() {
    let whole = LogWriter::rich(41, Endian::Little, Compression::Zlib);
    let bytes = whole.write();
    let regions = parse(&whole).regions;
    assert_eq!(regions.len(), 6);
    for damaged in &regions {
        let mut bytes = bytes.clone();
        // The last byte of a zlib stream is of its checksum.
        bytes[(damaged.offset + damaged.length) as usize - 1] ^= 0xff;
        let log = Log::parse("made", bytes).unwrap();
        assert_eq!(log.losses.len(), 1, "{}: {:?}", damaged.name, log.losses);
        assert!(log.losses[0].what.starts_with(&format!("{}:", damaged.name)), "{:?}", log.losses);
        for region in &log.regions {
            assert_eq!(region.state.fault.is_some(), region.name == damaged.name, "{}", region.name);
        }
        // The damaged stream is the last of its region: the first POSIX record is whole.
        let n_posix = if damaged.name == "POSIX" { 1 } else { 2 };
        assert_eq!(log.module("POSIX").unwrap().n_records(), Some(n_posix));
        assert_eq!(log.job.is_none(), damaged.name == "job");
        assert_eq!(log.names.is_empty(), damaged.name == "names");
        assert_eq!(log.heatmap_totals().len(), usize::from(damaged.name != "HEATMAP"));
    }
}

#[test]
fn a_log_cut_anywhere_is_read_up_to_there() {
    for compression in COMPRESSIONS {
        let whole = LogWriter::rich(41, Endian::Big, compression);
        let bytes = whole.write();
        let regions = parse(&whole).regions;
        for cut in (0..bytes.len()).step_by(7) {
            let log = Log::parse("made", bytes[..cut].to_vec());
            if cut < 1328 {
                assert!(log.is_err(), "cut at {cut}, within the header");
                continue;
            }
            let log = log.unwrap();
            for (region, whole) in log.regions.iter().zip(&regions) {
                let is_whole = region.name != "job" && region.offset + region.length <= cut as u64;
                if is_whole {
                    assert_eq!(region, whole, "cut at {cut}");
                }
                let told = log.losses.iter().any(|loss| loss.what.starts_with(&*region.name));
                assert!(
                    is_whole || told || region.name == "job",
                    "{} cut at {cut}: {:?}",
                    region.name,
                    log.losses
                );
            }
        }
    }
}

#[test]
fn what_nobody_knows_is_listed_and_does_no_harm() {
    let mut log = LogWriter::rich(41, Endian::Little, Compression::Zlib);
    log.modules.push((30, 7, false, vec![vec![1, 2, 3]]));
    log.push("DFS", 9, false, vec![vec![0; 100]]);
    let log = parse(&log);
    assert_eq!(modules(&log)["POSIX"], Some(2));
    assert_eq!(modules(&log)["MODULE_30"], None);
    assert!(matches!(log.module("DFS").unwrap().data, ModuleData::Unknown { bytes: 100 }));
    assert_eq!(log.losses.len(), 2);
}

#[test]
fn lustre_layouts_of_both_versions_are_read() {
    for endian in ENDIANS {
        let mut log = LogWriter::new(21, endian, Compression::Zlib);
        let record = |id, osts: &[i64]| {
            let mut words = vec![id, 0, 248, 4, 0, 1 << 20, osts.len() as i64];
            words.extend(osts);
            log.words(&words)
        };
        let records = [record(1, &[7]), record(2, &[7, 8, 9]), record(3, &[])].concat();
        log.push("LUSTRE", 1, false, vec![records]);
        let parsed = parse(&log);
        let ModuleData::Lustre(records) = &parsed.module("LUSTRE").unwrap().data else { panic!() };
        let totals = lustre_totals(records);
        assert_eq!((records.len(), totals.components, totals.stripes, totals.unique_osts), (3, 3, 4, 3));
        assert_eq!(parsed.losses, []);

        let mut log = LogWriter::new(41, endian, Compression::Bzip2);
        let mut record = log.words(&[1, -1, 2, 3]);
        for stripes in [1, 2] {
            record.extend(log.words(&[1 << 20, stripes, 0, 0, 0, -1, 0]));
            record.extend(b"flash\0\0\0\0\0\0\0\0\0\0\0");
        }
        record.extend(log.words(&[4, 5, 6]));
        log.push("LUSTRE", 2, false, vec![record]);
        let parsed = parse(&log);
        let ModuleData::Lustre(records) = &parsed.module("LUSTRE").unwrap().data else { panic!() };
        let mut first = None;
        let _ = records.for_each(|record| {
            first = Some(record.clone());
            std::ops::ControlFlow::Break(())
        });
        let first = first.unwrap();
        assert_eq!(first.osts, [4, 5, 6]);
        assert_eq!(first.components[1].counters[1], ("LUSTRE_COMP_STRIPE_COUNT".into(), 2));
        assert_eq!(first.components[0].pool.as_deref(), Some("flash"));
    }
}

#[test]
fn counts_that_claim_more_than_there_is_are_not_believed() {
    let mut log = LogWriter::new(41, Endian::Little, Compression::None);
    log.push("LUSTRE", 2, false, vec![log.words(&[1, 0, i64::MAX, i64::MAX])]);
    log.push("MDHIM", 1, false, vec![log.words(&[1, 0, 0, 0, 0, 0, i64::MAX, 0, 0, 0, 0, 0])]);
    log.push("HEATMAP", 1, false, vec![log.words(&[1, 0, 0, i64::MAX, 0, 0])]);
    let mut dxt = log.words(&[1, 0, 0]);
    dxt.extend([0; 64]);
    dxt.extend(log.words(&[i64::MAX, i64::MAX]));
    log.push("DXT_POSIX", 1, false, vec![dxt]);
    let log = parse(&log);
    assert_eq!(log.losses.len(), 4, "{:?}", log.losses);
    assert_eq!(
        modules(&log),
        [("DXT_POSIX", 1), ("HEATMAP", 0), ("LUSTRE", 0), ("MDHIM", 0)].map(|(m, n)| (m, Some(n))).into()
    );
}

#[test]
fn mpi_calls_and_servers_of_mdhim_are_counted() {
    let mut log = LogWriter::new(41, Endian::Big, Compression::Zlib);
    let magic = i64::from_be_bytes(*b"\0\0\0APMPI");
    let mut apmpi = log.words(&[5, 0, magic, 1 << 32]);
    apmpi.extend(log.floats(&[0.5, 0.25]));
    for rank in 0..2 {
        apmpi.extend(log.words(&[5, rank]));
        let mut ints = vec![0; 396];
        ints[0] = 3;
        apmpi.extend(log.words(&ints));
        let mut floats = vec![0.0; 240];
        floats[238] = 1.5;
        apmpi.extend(log.floats(&floats));
        let mut node = [0; 128];
        node[..2].copy_from_slice(b"n1");
        apmpi.extend(node);
    }
    log.push("APMPI", 1, false, vec![apmpi]);
    let servers = log.words(&[6, 0, 1, 2, 3, 4, 3, 0, 0, 0, 0, 7, 8, 9]);
    log.push("MDHIM", 1, false, vec![servers.repeat(2)]);
    let log = parse(&log);
    assert_eq!(log.losses, []);
    assert_eq!(modules(&log), [("APMPI", Some(3)), ("MDHIM", Some(2))].into());
    let ModuleData::Apmpi(apmpi) = &log.module("APMPI").unwrap().data else { panic!() };
    let header = apmpi.header.unwrap();
    assert_eq!((header.synchronised, header.variance_total_time), (true, 0.5));
    assert_eq!(apmpi.nodes, ["n1", "n1"]);
    let totals = apmpi.ranks.totals();
    assert!(totals.contains(&("MPI_SEND_CALL_COUNT", Value::Int(6))));
    assert!(totals.contains(&("MPI_TOTAL_COMM_TIME", Value::Float(3.0))));
}

#[test]
fn threads_are_known_from_dxt_posix_2_and_mpiio_3_on_and_offsets_from_mpiio_2_on() {
    for (name, version, has_thread, has_offset) in [
        ("DXT_POSIX", 1, false, true),
        ("DXT_POSIX", 2, true, true),
        ("DXT_MPIIO", 1, false, false),
        ("DXT_MPIIO", 2, false, true),
        ("DXT_MPIIO", 3, true, true),
    ] {
        let mut log = LogWriter::new(41, Endian::Little, Compression::Zlib);
        let mut dxt = log.words(&[1, 3, -1]);
        dxt.extend([0; 64]);
        dxt.extend(log.words(&[0, 2]));
        for offset in [40, 50] {
            dxt.extend(log.words(&[offset, 10]));
            dxt.extend(log.floats(&[1.0, 2.0]));
            dxt.extend(if has_thread { log.words(&[99]) } else { vec![] });
        }
        log.push(name, version, false, vec![dxt]);
        let log = parse(&log);
        let mut segments = Vec::new();
        let losses = log.for_each_dxt_segment(log.module(name).unwrap(), |record, segment| {
            assert_eq!((record.rank, record.shared, record.n_reads), (3, true, 2));
            segments.extend(segment.map(|segment| (segment.offset, segment.thread)));
            std::ops::ControlFlow::Continue(())
        });
        assert_eq!((losses, log.losses.len()), (vec![], 0), "{name} {version}");
        let thread = has_thread.then_some(99);
        let offset = |offset| has_offset.then_some(offset);
        assert_eq!(segments, [(offset(40), thread), (offset(50), thread)], "{name} {version}");
    }
}

/// Returns the content of a log, in every way it can be read.
fn everything(log: &Log) -> String {
    let mut trace = Trace::default();
    let mut activity = Activity::new();
    let options = DarshanOptions { source: DarshanSource::Auto, layers: DarshanLayers::All };
    let info = log.events(options, &mut (&mut trace, &mut activity));
    let mut said = format!("{:?}\n{:?}\n{:?}\n", trace.events, trace.losses, activity.finish(&info));
    for module in &log.modules {
        said += &format!("{} {:?}\n", module.name, module.n_records());
        said += &format!("{:?}\n", module.counters().map(|table| table.totals()));
        match &module.data {
            ModuleData::Lustre(records) => said += &format!("{:?}\n", lustre_totals(records)),
            ModuleData::Heatmap(_) => said += &format!("{:?}\n", log.heatmap_totals()),
            _ => {}
        }
    }
    said += &format!("{:?}\n{:?}", log.names.iter().collect::<Vec<_>>(), log.regions);
    said
}

#[test]
fn records_too_many_to_keep_say_the_same_as_those_that_are_kept() {
    for endian in ENDIANS {
        for compression in COMPRESSIONS {
            let mut made = LogWriter::rich(41, endian, compression);
            let mut lustre = made.words(&[11, 0, 2, 1, 0, 1 << 20, 2, 7, 9]);
            lustre.extend(made.words(&[12, -1, 2, 1, 0, 1 << 20, 1, 8]));
            made.push("LUSTRE", 1, false, vec![lustre]);
            made.modules.sort_by_key(|module| module.0);
            let mut bytes = made.write();
            for damaged in [false, true] {
                if damaged {
                    // Within the last module, the heatmap.
                    let last = bytes.len() - 3;
                    bytes[last] ^= 0xff;
                }
                let parsed = |region: usize| {
                    let limits = Limits { region, ..Limits::default() };
                    Log::parse_with("made", bytes.clone(), limits).unwrap()
                };
                let kept = everything(&parsed(1 << 20));
                for region in [0, 1, 700, 1500] {
                    let streamed = everything(&parsed(region));
                    assert_eq!(streamed, kept, "{region} {endian:?} {compression:?} {damaged}");
                }
            }
        }
    }
}

#[test]
fn a_log_that_is_left_in_its_file_says_the_same_as_one_in_memory() {
    let dir = iotide_testkit::FreshDir::new("large-log");
    let path = dir.path().join("made.darshan");
    let bytes = LogWriter::rich(41, Endian::Little, Compression::Zlib).write();
    std::fs::write(&path, &bytes).unwrap();
    let in_file = Log::open_with(&path, Limits { in_memory: 0, region: 0, ..Limits::default() }).unwrap();
    assert_eq!(everything(&in_file), everything(&Log::parse("made", bytes).unwrap()));
}

#[test]
fn a_log_with_260_000_records_is_whole() {
    const N_RECORDS: i64 = 260_000;
    let mut log = LogWriter::new(41, Endian::Little, Compression::Zlib);
    let mut ints = [0_i64; 69];
    // OPENS, WRITES, BYTES_WRITTEN.
    (ints[0], ints[4], ints[15]) = (1, 3, 300);
    let mut floats = [0.0; 17];
    (floats[0], floats[2], floats[6], floats[9]) = (0.5, 1.0, 2.0, 0.25);
    let tail = [log.words(&ints), log.floats(&floats)].concat();
    let streams: Vec<Vec<u8>> = (0..N_RECORDS / 1000)
        .map(|rank| {
            let mut stream = Vec::new();
            for i in 0..1000 {
                stream.extend_from_slice(&(1 + 1000 * rank + i).to_le_bytes());
                stream.extend_from_slice(&rank.to_le_bytes());
                stream.extend_from_slice(&tail);
            }
            stream
        })
        .collect();
    assert!(streams.iter().map(Vec::len).sum::<usize>() > 128 << 20);
    log.push("POSIX", 4, false, streams);
    let parsed = parse(&log);
    assert_eq!(parsed.losses, []);
    assert_eq!(parsed.module("POSIX").unwrap().n_records(), Some(N_RECORDS as u64));
    let mut tally = iotide_trace::Tally::default();
    let mut count =
        Each(|event: iotide_trace::Event| tally.add(&event), |loss: iotide_trace::Loss| panic!("{loss:?}"));
    parsed.events(DarshanOptions::default(), &mut count);
    assert_eq!((tally.bytes_written, tally.n_ranks()), (300.0 * N_RECORDS as f64, 260));
}

/// Packed data that claim to be far more than they are cost time, and no memory.
#[test]
fn a_compression_bomb_costs_no_memory() {
    let mut log = LogWriter::rich(41, Endian::Little, Compression::Zlib);
    log.modules.retain(|module| module.0 == 9);
    log.push("LUSTRE", 2, false, vec![vec![0xff; 64 << 20]]);
    log.push("HEATMAP", 1, false, vec![vec![0; 1 << 20]; 64]);
    let bytes = log.write();
    assert!(bytes.len() < 4 << 20);
    let limits = Limits { region: 1 << 20, ..Limits::default() };
    let log = Log::parse_with("bomb", bytes, limits).unwrap();
    // A layout with more parts than there are bytes is no record, and 48 bytes of zeroes are an empty heatmap.
    assert_eq!(modules(&log)["LUSTRE"], Some(0));
    assert_eq!(modules(&log)["HEATMAP"], Some((64 << 20) / 48));
    assert_eq!(log.losses.len(), 2, "{:?}", log.losses);
    assert!(log.losses.iter().all(|loss| loss.what.contains("no whole record")), "{:?}", log.losses);
}

#[test]
fn bytes_that_posix_did_not_see_come_from_mpi_io() {
    let mut log = LogWriter::rich(41, Endian::Little, Compression::Zlib);
    // POSIX saw 2200 of them, and /scratch/c alone; MPI-IO saw 9000 of /scratch/b.
    let mut record = log.words(&[12, -1]);
    let mut ints = [0_i64; 51];
    (ints[1], ints[5], ints[15]) = (1, 2, 9000);
    let mut floats = [0.0; 17];
    (floats[2], floats[6]) = (3.0, 5.0);
    record.extend(log.words(&ints));
    record.extend(log.floats(&floats));
    log.push("MPI-IO", 3, false, vec![record]);
    // Without DXT and heatmap.
    log.modules.retain(|module| module.0 != 10 && module.0 != 15);
    log.modules.sort_by_key(|module| module.0);
    let trace = trace(&log, DarshanSource::Auto, DarshanLayers::Lowest);
    let written: Vec<_> = trace
        .events
        .iter()
        .filter(|event| event.op == Op::Write && event.layer != Layer::Stdio)
        .map(|event| (event.layer, event.bytes))
        .collect();
    assert_eq!(written, [(Layer::Posix, 200.0), (Layer::MpiIo, 9000.0)]);
    assert!(
        trace.losses.iter().any(|loss| loss.what.contains("the MPI-IO layer was taken")),
        "{:?}",
        trace.losses
    );
}

#[test]
fn records_without_a_name_keep_their_bytes() {
    let mut log = LogWriter::rich(41, Endian::Little, Compression::Zlib);
    log.names.retain(|(id, _)| *id != 12);
    let trace = trace(&log, DarshanSource::Counters, DarshanLayers::Lowest);
    let of_all: Vec<_> =
        trace.events.iter().filter(|event| event.rank == Rank::ALL && event.op == Op::Write).collect();
    assert_eq!(of_all.len(), 1);
    assert_eq!(trace.info.files[of_all[0].file.0 as usize], "<unnamed 0x000000000000000c>");
}

#[test]
fn logs_of_darshan_2_become_events() {
    let mut bytes = b"2.06\0\0\0\0".to_vec();
    let words = |words: &[i64]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<_>>();
    bytes.extend(words(&[6_567_223, 1000, START_S, START_S + 9, 4, 77]));
    bytes.resize(1080, 0);
    bytes.extend(b"./old\n8\tgpfs\t/home");
    bytes.resize(4096, 0);
    bytes.extend(words(&[5, -1]));
    bytes.extend(b"ing/of/a/path\0\0\0");
    let mut ints = [0_i64; 144];
    // POSIX_READS, POSIX_WRITES, POSIX_OPENS; BYTES_READ, BYTES_WRITTEN.
    (ints[11], ints[12], ints[13], ints[47], ints[48]) = (1, 2, 4, 100, 200);
    bytes.extend(words(&ints));
    let mut floats = [0.0_f64; 18];
    // Opens 1, reads 2 to 3, writes 4 to 5, closes 6.
    (floats[0], floats[1], floats[2], floats[3], floats[4], floats[5]) = (1.0, 2.0, 4.0, 6.0, 3.0, 5.0);
    bytes.extend(floats.iter().flat_map(|float| float.to_be_bytes()));
    bytes.extend([9; 3]);
    let mut packer = bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::fast());
    std::io::Write::write_all(&mut packer, &bytes).unwrap();

    let reader =
        OpenOptions::default().from_read("old", std::io::Cursor::new(packer.finish().unwrap())).unwrap();
    assert_eq!(reader.format(), Format::Darshan);
    let mut trace = Trace::default();
    trace.info = reader.read(&mut trace).unwrap();
    assert_eq!(
        lines(&trace),
        [
            "Posix read r-1 …ing/of/a/path 2..3 100B 1x",
            "Posix write r-1 …ing/of/a/path 4..5 200B 2x",
            "Posix open r-1 …ing/of/a/path 1..1 0B 4x",
            "Posix close r-1 …ing/of/a/path 6..6 0B 4x",
        ]
    );
    assert_eq!(trace.losses.len(), 1, "three bytes are no record");
    assert_eq!(trace.info.job.run_time_s, Some(10.0));
}

#[test]
fn what_one_process_left_behind_is_not_the_whole_run() {
    let mut writer = LogWriter::rich(41, Endian::Little, Compression::None);
    let n_procs = |writer: &LogWriter| {
        let log = parse(writer);
        let losses: Vec<String> = log.losses.iter().map(|loss| loss.what.clone()).collect();
        let job = log.events(DarshanOptions::default(), &mut ()).job;
        (job.n_procs, job.n_compared(), losses)
    };
    assert_eq!(n_procs(&writer), (Some(4), Some(4), Vec::new()));
    writer.end_s = 0;
    let (of_the_job, compared, losses) = n_procs(&writer);
    assert_eq!((of_the_job, compared), (Some(4), Some(1)));
    assert!(losses.len() == 1 && losses[0].contains("one of its 4 processes"), "{losses:?}");
    // A packed log is that of the run, whether or not it says when that ended.
    writer.compression = Compression::Zlib;
    assert_eq!(n_procs(&writer), (Some(4), Some(4), Vec::new()));
}

/// Counters of a POSIX record by their columns: OPENS 0, READS 3, BYTES_READ 14, MAX_BYTE_READ 16, then the ranks.
fn posix_record(log: &LogWriter, id: u64, rank: i64, ints: &[(&str, i64)]) -> Vec<u8> {
    let column = |name: &str| match name {
        "READS" => 3,
        "BYTES_READ" => 14,
        "MAX_BYTE_READ" => 16,
        "FASTEST_RANK" => 65,
        "FASTEST_RANK_BYTES" => 66,
        "SLOWEST_RANK" => 67,
        _ => 68,
    };
    let mut words = [0_i64; 69];
    ints.iter().for_each(|(name, value)| words[column(name)] = *value);
    let mut floats = [0.0; 17];
    // Reads 1 to 2, 0.5 s of them.
    (floats[1], floats[5], floats[8]) = (1.0, 2.0, 0.5);
    [log.words(&[id as i64, rank]), log.words(&words), log.floats(&floats)].concat()
}

fn posix_activity(log: &LogWriter) -> ActivitySums {
    let mut activity = Activity::new();
    parse(log).events(DarshanOptions::default(), &mut activity);
    let info = iotide_trace::TraceInfo { files: vec!["/a".into(), "/b".into()], ..Default::default() };
    activity.finish(&info)
}

fn posix_facts(log: &LogWriter) -> AccessFacts {
    posix_activity(log).access.into_iter().find(|facts| facts.layer == Layer::Posix).unwrap()
}

#[test]
fn each_rank_has_a_record_that_tells_how_far_it_read() {
    let mut log = LogWriter::new(41, Endian::Little, Compression::Zlib);
    log.names = vec![(11, "/a"), (12, "/b")];
    let whole = [("READS", 10), ("BYTES_READ", 1000), ("MAX_BYTE_READ", 999)];
    let mut records: Vec<_> = (0..4).map(|rank| posix_record(&log, 11, rank, &whole)).collect();
    // A counter that was not kept, and one that cannot be.
    let unknown = [("READS", 10), ("BYTES_READ", -5), ("MAX_BYTE_READ", -1)];
    records.push(posix_record(&log, 12, 0, &unknown));
    log.push("POSIX", 4, false, records);
    let found = posix_activity(&log).records;
    assert_eq!(found.len(), 5);
    let ranks: Vec<_> = found.iter().map(|record| (record.file, record.rank)).collect();
    assert_eq!(ranks[3..], [(FileId(0), Rank(3)), (FileId(1), Rank(0))]);
    let reads = found[0].reads;
    assert_eq!((reads.calls, reads.bytes, reads.up_to), (10, Some(1000.0), Some(1000.0)));
    assert_eq!((found[4].reads.bytes, found[4].reads.up_to), (None, None), "below zero is not known");
}

#[test]
fn the_slowest_and_the_fastest_rank_of_a_shared_file_have_bytes_of_their_own() {
    let mut log = LogWriter::new(41, Endian::Little, Compression::Zlib);
    log.names = vec![(11, "/a"), (12, "/b")];
    let shared = |slowest: i64, fastest: i64| {
        let [slowest, fastest] = [(slowest, 900), (fastest, 100)];
        [
            ("READS", 10),
            ("BYTES_READ", 1000),
            ("SLOWEST_RANK", slowest.0),
            ("SLOWEST_RANK_BYTES", slowest.1),
            ("FASTEST_RANK", fastest.0),
            ("FASTEST_RANK_BYTES", fastest.1),
        ]
    };
    let records = vec![
        posix_record(&log, 11, -1, &shared(2, 0)),
        posix_record(&log, 12, -1, &shared(2, 2)),
        // A rank's own record comes as events, and the run has four ranks.
        posix_record(&log, 11, 1, &shared(1, 0)),
        posix_record(&log, 12, -1, &shared(4, -1)),
    ];
    log.push("POSIX", 4, false, records);
    let parts: Vec<_> = posix_facts(&log).rank_parts.iter().map(|part| (part.rank.0, part.bytes)).collect();
    assert_eq!(parts, [(0, 100.0), (2, 1800.0)]);
    // Where single calls are told, so are their ranks.
    let rich = LogWriter::rich(41, Endian::Little, Compression::Zlib);
    assert_eq!(posix_facts(&rich).rank_parts, []);
}
