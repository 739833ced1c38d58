//! Needs a folder `shared/data/traces` above the project; says so and passes if there is none.

use std::collections::BTreeSet;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use crate::sink::Each;
use iotide_formats::darshan::{
    Compression, DarshanLayers, DarshanOptions, DarshanSource, Endian, Log, ModuleData, Value, lustre_totals,
};
use serde_json::Value as Json;

/// The folder with real logs, if it is there.
pub fn traces() -> Option<PathBuf> {
    let found = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|ancestor| ancestor.join("shared/data/traces"))
        .find(|folder| folder.join("golden.json").is_file());
    if found.is_none() {
        #[allow(clippy::print_stderr)]
        {
            eprintln!("SKIPPED: there is no shared/data/traces above {}", env!("CARGO_MANIFEST_DIR"));
        }
    }
    found
}

fn golden(folder: &Path) -> serde_json::Map<String, Json> {
    let text = std::fs::read_to_string(folder.join("golden.json")).unwrap();
    match serde_json::from_str(&text).unwrap() {
        Json::Object(entries) => entries,
        other => panic!("golden.json holds {other}"),
    }
}

#[test]
fn every_real_log_says_what_an_independent_reader_found_in_it() {
    let Some(folder) = traces() else { return };
    let (mut faults, mut n_logs) = (Vec::new(), 0);
    for (path, entry) in golden(&folder) {
        let reference = &entry["reference"];
        if !path.starts_with("darshan/") || reference.get("failed").is_some() {
            continue;
        }
        n_logs += 1;
        let log = Log::open(&folder.join(&path)).unwrap();
        let mut check = Check { path: &path, faults: &mut faults };
        check_job(&mut check, &log, reference);
        check_modules(&mut check, &log, reference);
        check_totals(&mut check, &log, reference);
        check_dxt(&mut check, &log, reference);
        check_heatmap(&mut check, &log, reference);
        for region in &log.regions {
            check.equal(&format!("{} fault", region.name), region.state.fault.is_none(), true);
            if let Some(expected) = reference["uncompressed_bytes"].get(&*region.name) {
                check.json(&format!("{} bytes", region.name), Json::from(region.state.good_bytes), expected);
            }
        }
    }
    assert!(n_logs > 0, "golden.json names no log");
    assert!(faults.is_empty(), "{} differences in {n_logs} logs:\n{}", faults.len(), faults.join("\n"));
}

struct Check<'a> {
    path: &'a str,
    faults: &'a mut Vec<String>,
}

impl Check<'_> {
    fn equal<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, ours: T, theirs: T) {
        if ours != theirs {
            self.faults.push(format!("{}: {what}: ours {ours:?}, theirs {theirs:?}", self.path));
        }
    }

    /// Numbers agree if they differ by no more than rounding; everything else must be the same.
    fn json(&mut self, what: &str, ours: Json, theirs: &Json) {
        let agree = match (ours.as_f64(), theirs.as_f64()) {
            (Some(ours), Some(theirs)) => (ours - theirs).abs() <= 1e-9 * ours.abs().max(theirs.abs()),
            _ => ours == *theirs,
        };
        if !agree {
            self.faults.push(format!("{}: {what}: ours {ours}, theirs {theirs}", self.path));
        }
    }
}

fn check_job(check: &mut Check, log: &Log, reference: &Json) {
    let (job, expected) = (log.job.as_ref().expect("a job record"), &reference["job"]);
    check.json("jobid", job.job_id.into(), &expected["jobid"]);
    check.json("nprocs", job.n_procs.into(), &expected["nprocs"]);
    check.json("uid", job.uid.into(), &expected["uid"]);
    check.json("start", job.start_s.into(), &expected["start_time_sec"]);
    check.json("start ns", job.start_ns.into(), &expected["start_time_nsec"]);
    check.json("end", job.end_s.into(), &expected["end_time_sec"]);
    check.json("end ns", job.end_ns.into(), &expected["end_time_nsec"]);
    check.json("version", log.version.as_str().into(), &expected["log_ver"]);
    check.json("exe", job.exe.as_str().into(), &expected["exe"]);
    check.json("mounts", job.mounts.len().into(), &reference["mounts"]);
    check.json("names", log.names.len().into(), &reference["name_records"]);
    match job.run_time_s() {
        // The reference subtracts in a float of seconds since 1970, which has 0.2 µs steps.
        Some(run_time_s) => {
            let theirs = expected["run_time"].as_f64().unwrap();
            check.equal("run time", (run_time_s - theirs).abs() < 1e-6, true);
        }
        None => check.json("end of a killed process", 0.into(), &expected["end_time_sec"]),
    }
    let endian = match log.endian {
        Some(Endian::Little) => "little",
        Some(Endian::Big) => "big",
        None => "text",
    };
    check.json("endian", endian.into(), &reference["endian"]);
    let compression = match log.compression {
        Some(Compression::Zlib) => "zlib",
        Some(Compression::Bzip2) => "bzip2",
        Some(Compression::None) => "none",
        None => "text",
    };
    check.json("compression", compression.into(), &reference["compression"]);
}

fn check_modules(check: &mut Check, log: &Log, reference: &Json) {
    let expected = reference["modules"].as_object().unwrap();
    let ours: BTreeSet<_> = log.modules.iter().map(|module| module.name.to_string()).collect();
    check.equal("modules", ours, expected.keys().cloned().collect());
    for (name, expected) in expected {
        let Some(module) = log.module(name) else { continue };
        check.json(&format!("{name} version"), module.version.into(), &expected["ver"]);
        check.json(&format!("{name} partial"), module.partial.into(), &expected["partial"]);
        if let Some(records) = expected.get("records") {
            check.json(&format!("{name} records"), module.n_records().into(), records);
        }
        if let (Some(shared), Some(table)) = (expected.get("shared_records"), module.counters()) {
            let (mut ours, mut ids) = (0, Vec::new());
            let _: ControlFlow<()> = table.for_each(|record| {
                ours += usize::from(record.rank == -1);
                ids.push(record.id);
                ControlFlow::Continue(())
            });
            check.json(&format!("{name} shared records"), ours.into(), shared);
            ids.sort_unstable();
            ids.dedup();
            check.json(&format!("{name} ids"), ids.len().into(), &expected["unique_ids"]);
        }
        let region = log.regions.iter().find(|region| region.name == *name).unwrap();
        check.json(&format!("{name} length"), region.length.into(), &expected["compressed_len"]);
    }
}

fn check_totals(check: &mut Check, log: &Log, reference: &Json) {
    for (name, expected) in reference["totals"].as_object().unwrap() {
        let Some(module) = log.module(name) else { continue };
        if let ModuleData::Lustre(records) = &module.data {
            let totals = lustre_totals(records);
            check.json("components", totals.components.into(), &expected["components"]);
            check.json("stripes", totals.stripes.into(), &expected["stripes"]);
            check.json("unique OSTs", totals.unique_osts.into(), &expected["unique_osts"]);
            continue;
        }
        let totals = module.counters().expect("a module of counters").totals();
        for (counter, expected) in expected.as_object().unwrap() {
            let ours = totals.iter().find(|(known, _)| known == counter).map(|(_, value)| match value {
                Value::Int(value) => Json::from(*value),
                Value::Float(value) => Json::from(*value),
            });
            check.json(counter, ours.unwrap_or(Json::Null), expected);
        }
    }
}

fn check_dxt(check: &mut Check, log: &Log, reference: &Json) {
    let Some(expected) = reference.get("dxt").and_then(Json::as_object) else { return };
    for (name, expected) in expected {
        let Some(ModuleData::Dxt(dxt)) = log.module(name).map(|module| &module.data) else {
            check.equal(name, "absent", "present");
            continue;
        };
        let totals = &dxt.totals;
        // The segments one by one add up to the sums.
        let (mut n_segments, mut n_bytes) = (0, 0);
        let losses = log.for_each_dxt_segment(log.module(name).unwrap(), |_, segment| {
            n_segments += u64::from(segment.is_some());
            n_bytes += segment.map_or(0, |segment| segment.length);
            std::ops::ControlFlow::Continue(())
        });
        check.equal(&format!("{name} losses"), losses.len(), 0);
        check.equal(&format!("{name} segments"), n_segments, totals.write_segments + totals.read_segments);
        check.equal(&format!("{name} bytes"), n_bytes, totals.bytes_written + totals.bytes_read);
        for (what, ours) in [
            ("file_records", Json::from(totals.records)),
            ("write_segments", totals.write_segments.into()),
            ("read_segments", totals.read_segments.into()),
            ("write_bytes", totals.bytes_written.into()),
            ("read_bytes", totals.bytes_read.into()),
            ("first_start", totals.first_start_s.into()),
            ("last_end", totals.last_end_s.into()),
        ] {
            check.json(&format!("{name} {what}"), ours, &expected[what]);
        }
    }
}

fn check_heatmap(check: &mut Check, log: &Log, reference: &Json) {
    let Some(expected) = reference.get("heatmap").and_then(Json::as_object) else { return };
    let ours = log.heatmap_totals();
    check.equal("heatmaps", ours.len(), expected.len());
    for totals in ours {
        let Some(expected) = expected.get(&totals.layer) else {
            check.equal(&totals.layer, "present", "absent");
            continue;
        };
        for (what, ours) in [
            ("ranks", Json::from(totals.records)),
            ("bin_width", totals.bin_width_s.into()),
            ("nbins", totals.n_bins.into()),
            ("write_bytes", totals.bytes_written.into()),
            ("read_bytes", totals.bytes_read.into()),
        ] {
            check.json(&format!("heatmap {} {what}", totals.layer), ours, &expected[what]);
        }
    }
}

#[test]
fn events_of_real_logs_move_the_bytes_their_sources_count() {
    let Some(folder) = traces() else { return };
    let mut faults = Vec::new();
    for (path, entry) in golden(&folder) {
        let reference = &entry["reference"];
        if !path.starts_with("darshan/") || reference.get("failed").is_some() {
            continue;
        }
        let log = Log::open(&folder.join(&path)).unwrap();
        let mut check = Check { path: &path, faults: &mut faults };
        let total =
            |module: &str, counter: &str| reference["totals"][module][counter].as_f64().unwrap_or(0.0);
        let moved = |module: &str, prefix: &str| {
            total(module, &format!("{prefix}_BYTES_READ")) + total(module, &format!("{prefix}_BYTES_WRITTEN"))
        };
        let (posix, mpi_io, stdio) =
            (moved("POSIX", "POSIX"), moved("MPI-IO", "MPIIO"), moved("STDIO", "STDIO"));
        let dxt = |module: &str| {
            let sums = reference.get("dxt")?.get(module)?;
            Some(sums["write_bytes"].as_f64()? + sums["read_bytes"].as_f64()?)
        };
        // Where the MPI library moved its data by calls that Darshan does not see as POSIX, MPI-IO has them.
        let is_seen = posix > 0.0 && 2.0 * posix >= mpi_io;
        let lowest = if is_seen { posix } else { mpi_io };
        // Files that POSIX alone saw come on top.
        let on_top = if is_seen || mpi_io == 0.0 { 0.0 } else { posix };
        let mut equal = |what: &str, ours: f64, theirs: f64| {
            let nearest = ours.clamp(theirs, theirs + on_top);
            check.equal(what, ours, nearest);
        };
        equal("bytes by counters", bytes_of_events(&log, DarshanSource::Counters), lowest + stdio);
        let of_posix = dxt("DXT_POSIX").filter(|_| is_seen || mpi_io == 0.0);
        if let Some(calls) = of_posix.or(dxt("DXT_MPIIO")) {
            equal("bytes by DXT", bytes_of_events(&log, DarshanSource::Dxt), calls);
            equal("bytes by default", bytes_of_events(&log, DarshanSource::Auto), calls + stdio);
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The bytes of all events, each of which must be in order.
fn bytes_of_events(log: &Log, source: DarshanSource) -> f64 {
    let mut bytes = 0.0;
    let mut sink = Each(
        |event: iotide_trace::Event| {
            assert!(event.end >= event.start && event.calls > 0, "{event:?}");
            bytes += event.bytes;
        },
        drop::<iotide_trace::Loss>,
    );
    log.events(DarshanOptions { source, layers: DarshanLayers::Lowest }, &mut sink);
    bytes
}

#[test]
fn of_a_damaged_log_every_region_gives_what_is_whole() {
    let Some(folder) = traces() else { return };
    let mut faults = Vec::new();
    let mut n_logs = 0;
    for (path, entry) in golden(&folder) {
        let Some(regions) = entry.get("regions").and_then(Json::as_object) else { continue };
        n_logs += 1;
        let log = Log::open(&folder.join(&path)).unwrap();
        let mut check = Check { path: &path, faults: &mut faults };
        for (name, expected) in regions {
            let Some(region) = log.regions.iter().find(|region| region.name == *name) else {
                check.equal(name, "absent", "present");
                continue;
            };
            // Offsets are not compared: those of golden.json are of the log before paths in it were made anonymous.
            check.json(&format!("{name} bytes"), region.state.good_bytes.into(), &expected["good_bytes"]);
            check.json(
                &format!("{name} streams"),
                region.state.good_streams.into(),
                &expected["good_streams"],
            );
            let is_whole = expected["status"] == "ok";
            check.equal(&format!("{name} is whole"), region.state.fault.is_none(), is_whole);
            let told = log.losses.iter().any(|loss| loss.what.starts_with(&format!("{name}:")));
            check.equal(&format!("{name} loss told"), told, !is_whole);
        }
    }
    assert!(n_logs > 0, "golden.json names no damaged log");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn logs_of_darshan_1_and_2_say_what_their_own_parser_prints() {
    let Some(folder) = traces() else { return };
    let (mut faults, mut n_logs) = (Vec::new(), 0);
    for (path, entry) in golden(&folder) {
        if !path.starts_with("darshan-legacy/") {
            continue;
        }
        n_logs += 1;
        let log = Log::open(&folder.join(&path));
        if entry["rc"] != 0 {
            assert!(log.is_err(), "{path} is of a version that nobody reads");
            continue;
        }
        let log = log.unwrap();
        let job = log.job.as_ref().unwrap();
        let mut check = Check { path: &path, faults: &mut faults };
        let expected = &entry["job"];
        check.json("version", log.version.as_str().into(), &expected["darshan log version"]);
        check.json("exe", job.exe.as_str().into(), &expected["exe"]);
        for (what, ours) in [
            ("uid", job.uid),
            ("jobid", job.job_id),
            ("start_time", job.start_s),
            ("end_time", job.end_s),
            ("nprocs", job.n_procs),
        ] {
            check.json(what, ours.to_string().into(), &expected[what]);
        }
        let run_time_s = job.run_time_s().map(|run_time_s| run_time_s.to_string());
        check.json("run time", run_time_s.into(), &expected["run time"]);
        let module = log.module("CP").unwrap();
        check.json("records", module.n_records().into(), &entry["file_records"]);
        check_legacy_totals(&mut check, module.counters().unwrap(), &entry["totals"]);
        check.equal("losses", log.losses.len(), 0);

        // The same through the door that unpacks what it knows, and for a log that somebody unpacked.
        let mut trace = iotide_trace::Trace::default();
        let reader = iotide_formats::OpenOptions::default().open(&folder.join(&path)).unwrap();
        check.equal("format", reader.format(), iotide_formats::Format::Darshan);
        let read = reader.read(&mut trace);
        assert!(read.is_ok(), "{path}: {}", read.unwrap_err());
        check.equal("losses of the trace", trace.losses.len(), 0);
        let packed = std::fs::read(folder.join(&path)).unwrap();
        if packed.starts_with(&[0x1f, 0x8b]) {
            let mut unpacked = Vec::new();
            flate2::read::MultiGzDecoder::new(packed.as_slice()).read_to_end(&mut unpacked).unwrap();
            let log = Log::parse("unpacked", unpacked).unwrap();
            check.equal(
                "records of the unpacked log",
                log.module("CP").unwrap().n_records(),
                module.n_records(),
            );
        }
    }
    assert!(n_logs > 0, "golden.json names no log of Darshan 1 or 2");
    assert!(faults.is_empty(), "{} differences:\n{}", faults.len(), faults.join("\n"));
}

/// The parser aggregates in its own way where a sum makes no sense; counts and bytes are sums.
fn check_legacy_totals(check: &mut Check, table: &iotide_formats::darshan::CounterTable, expected: &Json) {
    const SUMMED: [&str; 7] = ["OPENS", "READS", "WRITES", "SEEKS", "STATS", "SYNCS", "BYTES_"];
    let totals = table.totals();
    for (counter, expected) in expected.as_object().unwrap() {
        let is_sum = SUMMED.iter().any(|part| counter.contains(part)) || counter.starts_with("CP_SIZE_READ");
        let is_time = counter.ends_with("_TIME") && counter.starts_with("CP_F_POSIX");
        let ours = totals.iter().find(|(known, _)| known == counter).map(|(_, value)| *value);
        match ours {
            Some(Value::Int(ours)) if is_sum => check.json(counter, ours.into(), expected),
            // Printed with six digits after the point.
            Some(Value::Float(ours)) if is_time => {
                let close = (ours - expected.as_f64().unwrap()).abs() < 1e-5 * ours.abs().max(1.0);
                check.equal(counter, close, true);
            }
            Some(_) => {}
            // A counter that the version does not have is absent here and zero there.
            None => check.json(counter, 0.into(), expected),
        }
    }
}
