//! Real traces of other tools, where they are at hand, against values another reader found.
//!
//! The traces are not part of this repository: they are looked for in a folder `shared/data/traces` beside or above it.

use std::path::{Path, PathBuf};

use crate::sink::Each;
use iotide_formats::{Census, Format, LayerChoice, OpenOptions};
use iotide_trace::{Grain, Layer, Op, Rank, Tally, Trace};
use serde_json::Value;

use crate::damage::{Random, damage};

/// The folder of real traces, or `None`, said loudly.
#[allow(clippy::print_stderr)]
fn traces() -> Option<PathBuf> {
    let mut folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    while let Some(parent) = folder.parent() {
        let traces = parent.join("shared/data/traces");
        if traces.is_dir() {
            return Some(traces);
        }
        folder = parent;
    }
    eprintln!("SKIPPED: no folder shared/data/traces above {}", env!("CARGO_MANIFEST_DIR"));
    None
}

fn read_layers(path: &Path, layers: LayerChoice) -> (Format, Trace, Option<Census>) {
    let reader = OpenOptions { layers, ..OpenOptions::default() }.open(path).unwrap();
    let format = reader.format();
    let mut trace = Trace::default();
    let (info, census) = reader.read_with_census(&mut trace).unwrap();
    trace.info = info;
    (format, trace, census)
}

fn tally(trace: &Trace) -> Tally {
    let mut tally = Tally::default();
    trace.events.iter().for_each(|event| tally.add(event));
    tally
}

/// Compares counts with golden ones, whole.
fn assert_counts(found: &std::collections::BTreeMap<String, u64>, golden: &Value, what: &str) {
    let golden =
        golden.as_object().unwrap().iter().map(|(name, n)| (name.clone(), n.as_u64().unwrap())).collect();
    assert_eq!(found, &golden, "{what}");
}

#[test]
fn every_golden_trace_reads_as_its_reference_says() {
    let Some(folder) = traces() else { return };
    let golden: Value = serde_json::from_slice(&std::fs::read(folder.join("golden.json")).unwrap()).unwrap();
    let mut n_checked = 0;
    for (name, golden) in golden.as_object().unwrap() {
        let path = folder.join(name);
        match name.split('/').next().unwrap() {
            "dftracer" => dftracer_is_as_golden(name, &path, golden),
            "recorder" if golden.get("records").is_some() => recorder_is_as_golden(name, &path, golden),
            _ => continue,
        }
        n_checked += 1;
    }
    assert!(n_checked > 0, "golden.json names no trace of these formats");
}

fn dftracer_is_as_golden(name: &str, path: &Path, golden: &Value) {
    let (format, trace, census) = read_layers(path, LayerChoice::All);
    assert_eq!(format, Format::DfTracer, "{name}");
    let census = census.unwrap();
    let number = |key: &str| golden[key].as_u64().unwrap();
    assert_eq!(census.records, number("events"), "{name}");
    assert_eq!(census.metadata, number("metadata"), "{name}");
    assert_eq!(census.counters, number("counters"), "{name}");
    assert_eq!(census.aggregated, number("aggregated"), "{name}");
    assert_eq!(census.aggregated_calls, number("aggregated_calls"), "{name}");
    assert_eq!(census.unusable, number("bad_lines"), "{name}");
    assert_eq!(census.per_rank.len() as u64, number("pids"), "{name}");
    assert_counts(&census.functions, &golden["names"], name);
    assert_counts(&census.categories, &golden["cats"], name);
    let tally = tally(&trace);
    assert_eq!(tally.bytes_read, number("read_bytes") as f64, "{name}");
    assert_eq!(tally.bytes_written, number("write_bytes") as f64, "{name}");
    let first = census.per_rank.values().filter_map(|rank| rank.first_start).min().unwrap();
    let last = census.per_rank.values().filter_map(|rank| rank.end).max().unwrap();
    let unit_nanos = if name.contains("time_metric_NS") { 1 } else { 1000 };
    assert_eq!(first.as_nanos() as u64, number("ts_min") * unit_nanos, "{name}");
    assert_eq!(last.as_nanos() as u64, number("ts_max") * unit_nanos, "{name}");
}

fn recorder_is_as_golden(name: &str, path: &Path, golden: &Value) {
    let (format, trace, census) = read_layers(path, LayerChoice::All);
    assert_eq!(format, Format::Recorder, "{name}");
    assert_eq!(trace.losses, [], "{name}");
    let census = census.unwrap();
    assert_eq!(census.records, golden["records"].as_u64().unwrap(), "{name}");
    assert_eq!(trace.info.job.n_procs, golden["ranks"].as_u64(), "{name}");
    assert_counts(&census.functions, &golden["functions"], name);
    assert_eq!(census.posix_bytes_written, golden["posix_write_bytes_requested"].as_u64().unwrap(), "{name}");
    assert_eq!(census.posix_bytes_read, golden["posix_read_bytes_requested"].as_u64().unwrap(), "{name}");
    let timing = golden.get("timing_text").or_else(|| golden.get("timing_reference")).unwrap();
    for (rank, timing) in timing.as_object().unwrap() {
        let found = &census.per_rank[&Rank(rank.parse().unwrap())];
        assert_eq!(found.records, timing["records"].as_u64().unwrap(), "{name} rank {rank}");
        for (key, found) in [
            ("first_tstart", found.first_start),
            ("last_tstart", found.last_start),
            ("last_tend", found.last_end),
        ] {
            let (found, golden) = (found.unwrap().as_secs(), timing[key].as_f64().unwrap());
            assert!((found - golden).abs() < 2e-7, "{name} rank {rank} {key}: {found} instead of {golden}");
        }
    }
    if let Some(start) = golden.pointer("/metadata/start") {
        let found = trace.info.job.start_time_unix_s.unwrap();
        assert!((found - start.as_f64().unwrap()).abs() < 1e-6, "{name}");
    }
}

#[test]
fn a_layer_below_that_was_not_traced_is_not_taken() {
    let Some(folder) = traces() else { return };
    // Open MPI reaches the file by calls that Recorder does not see: of 8 MiB each way, POSIX has nothing.
    for version in ["2.2", "2.4", "2.5"] {
        let (_, trace, _) =
            read_layers(&folder.join(format!("recorder/{version}-ior_mpiio")), LayerChoice::default());
        let of = |layer: Layer, op: Op| -> f64 {
            let events = trace.events.iter().filter(|event| event.layer == layer && event.op == op);
            events
                .filter(|event| trace.info.files[event.file.0 as usize].ends_with("q.dat"))
                .map(|it| it.bytes)
                .sum()
        };
        assert_eq!(of(Layer::MpiIo, Op::Write), 8388608.0, "{version}");
        assert_eq!(of(Layer::MpiIo, Op::Read), 8388608.0, "{version}");
        assert_eq!(of(Layer::Posix, Op::Write), 0.0, "{version}");
        let opens =
            trace.events.iter().filter(|event| event.op == Op::Open && event.layer == Layer::MpiIo).count();
        assert_eq!(opens, 0, "{version}: a file is opened once, by POSIX");
    }
}

#[test]
fn descriptors_lead_to_the_same_paths_in_all_versions() {
    let Some(folder) = traces() else { return };
    for version in ["2.2", "2.4", "2.5"] {
        let (_, trace, _) =
            read_layers(&folder.join(format!("recorder/{version}-ior_posix_fpp")), LayerChoice::default());
        let moved = trace.events.iter().filter(|event| event.op.moves_data() && event.layer == Layer::Posix);
        for event in moved {
            let file = &trace.info.files[event.file.0 as usize];
            assert!(
                file.ends_with(&format!("q.dat.{:08}", event.rank.0)),
                "{version}: rank {:?}: {file}",
                event.rank
            );
        }
    }
}

#[test]
fn strace_files_of_one_run_are_one_trace() {
    let Some(folder) = traces() else { return };
    let (format, trace, _) = read_layers(&folder.join("strace"), LayerChoice::default());
    assert_eq!(format, Format::Strace);
    assert_eq!(trace.losses, []);
    let of_file = |op: Op, path: &str| -> f64 {
        let id = trace.info.files.iter().enumerate().filter(|(_, file)| file.contains(path));
        let ids: Vec<usize> = id.map(|(id, _)| id).collect();
        let events =
            trace.events.iter().filter(|event| event.op == op && ids.contains(&(event.file.0 as usize)));
        events.map(|event| event.bytes).sum()
    };
    // Straight from the lines: the bytes of every read and write on a path.
    let mut written = 0.0;
    for entry in std::fs::read_dir(folder.join("strace")).unwrap() {
        let text = std::fs::read(entry.unwrap().path()).unwrap();
        for line in String::from_utf8_lossy(&text).lines() {
            let Some((_, call)) = line.split_once(' ') else { continue };
            if call.starts_with("write(") && call.contains("</scratch/projects/io/runs/work/") {
                let result = call.rsplit(" = ").next().unwrap().split(' ').next().unwrap();
                written += result.parse::<f64>().unwrap();
            }
        }
    }
    assert!(written > 0.0);
    assert_eq!(of_file(Op::Write, "/scratch/projects/io/runs/work/"), written);
}

#[test]
fn the_rest_of_the_samples_is_read_without_loss() {
    let Some(folder) = traces() else { return };
    let one = |folder: &str| {
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    };
    for (name, format, n_losses) in [
        ("gekkofs", Format::Gekkofs, 0),
        ("tau", Format::Tau, 0),
        // A CPU's load is no bandwidth, and the trace says so.
        ("proxy", Format::ProxyMsgpack, 1),
    ] {
        for path in one(folder.join(name).to_str().unwrap()) {
            let (found, trace, _) = read_layers(&path, LayerChoice::default());
            assert_eq!(found, format, "{}", path.display());
            assert_eq!(trace.losses.len(), n_losses, "{}: {:?}", path.display(), trace.losses);
            assert!(tally(&trace).bytes_written > 0.0, "{}", path.display());
        }
    }
    let (_, trace, _) = read_layers(&folder.join("gekkofs"), LayerChoice::default());
    assert_eq!(tally(&trace).n_ranks(), one(folder.join("gekkofs").to_str().unwrap()).len());
    assert!(trace.events.iter().all(|event| event.grain == Grain::Call));
}

#[test]
fn damaged_copies_of_real_traces_are_read_or_refused() {
    let Some(folder) = traces() else { return };
    let mut checked = Each(
        |event: iotide_trace::Event| {
            assert!(event.start <= event.end && event.bytes >= 0.0, "{event:?}");
        },
        |loss: iotide_trace::Loss| assert!(!loss.what.is_empty()),
    );
    for name in ["dftracer/test.pfw", "dftracer/test.pfw.gz", "strace", "gekkofs", "proxy", "tau"] {
        let path = folder.join(name);
        let files = match path.is_dir() {
            true => std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).collect(),
            false => vec![path],
        };
        for file in files {
            // The beginning is as good as the whole, and faster.
            let mut bytes = std::fs::read(&file).unwrap();
            bytes.truncate(20_000);
            for seed in 0..100 {
                let damaged = damage(&bytes, &mut Random::new(seed));
                let source = std::io::Cursor::new(damaged);
                if let Ok(reader) = OpenOptions::default().from_read(&file, source) {
                    let _ = reader.read(&mut checked);
                }
            }
        }
    }
}
