use std::path::Path;

use iotide_formats::darshan::{Compression, Endian};
use serde_json::{Value as Json, json};

use crate::darshan_log::{LogWriter, START_S};
use crate::util::{Dir, bursts};

fn rich() -> LogWriter {
    LogWriter::rich(41, Endian::Little, Compression::Zlib)
}

#[test]
fn a_darshan_log_is_told_module_by_module() {
    let dir = Dir::new();
    dir.write("a.darshan", rich().write());
    let outcome = dir.iotide(["info", "a.darshan"]).exits_with(0);
    assert_eq!(outcome.stderr, "");
    insta::assert_snapshot!(outcome.stdout, @r#"
    a.darshan: darshan 3.41 of ./a.out -x, job 77

      job            4 processes, user 1000, began 2020-09-13 12:26:40 UTC, ran for 9.25 s
      log            written by Darshan 3.9.9, little-endian, packed with zlib, 4 names, 2 mounts
      POSIX          version 4, 2 records: 1.1 kB read, 2.2 kB written, 2 opens, 4 reads, 6 writes
      STDIO          version 2, 1 record: 0 B read, 50 B written, 1 open, 5 writes
      DXT_POSIX      version 1, 1 record: 1 read of 100 B, 2 writes of 200 B, 1 s to 5 s
      HEATMAP        version 1, 1 record
      heatmap POSIX  3 bins of 2 s: 100 B read, 200 B written
      losses         none
    "#);
}

#[test]
fn json_of_a_log_has_the_names_that_scripts_rely_on() {
    let dir = Dir::new();
    dir.write("a.darshan", rich().write());
    let document = dir.iotide(["info", "--format", "json", "a.darshan"]).exits_with(0).json();
    assert_eq!((&document["schema"], &document["command"]), (&json!("iotide/1"), &json!("info")));
    let run = &document["runs"][0];
    assert_eq!(
        run["job"],
        json!({
            "jobid": 77, "uid": 1000, "user": null, "nprocs": 4, "start_time": START_S as f64 + 0.25,
            "end_time": START_S as f64 + 9.5, "run_time_s": 9.25, "exe": "./a.out -x", "log_version": "3.41",
        })
    );
    let posix = &run["modules"]["POSIX"];
    assert_eq!(
        (&posix["version"], &posix["records"], &posix["partial"]),
        (&json!(4), &json!(2), &json!(false))
    );
    assert_eq!(posix["totals"]["POSIX_BYTES_WRITTEN"], 2200);
    assert_eq!(posix["totals"]["POSIX_F_READ_END_TIMESTAMP"], 4.0);
    assert_eq!(
        run["dxt"],
        json!({"DXT_POSIX": {
            "records": 1, "read_segments": 1, "write_segments": 2, "bytes_read": 100, "bytes_written": 200,
            "first_start_s": 1.0, "last_end_s": 5.0,
        }})
    );
    assert_eq!(
        run["heatmap"],
        json!({"POSIX": {"ranks": 1, "bin_width_s": 2.0, "n_bins": 3, "bytes_read": 100, "bytes_written": 200}})
    );
    assert_eq!(run["losses"], json!([]));
    assert!(run["source"]["n_events"].is_null(), "events are made only if they are asked for");
}

#[test]
fn events_of_a_log_are_counted_from_the_source_that_is_asked_for() {
    let dir = Dir::new();
    dir.write("a.darshan", rich().write());
    let written = |source: &str| {
        let args = ["info", "--source", source, "--format", "json", "a.darshan"];
        dir.iotide(args).exits_with(0).json()["runs"][0]["operations"]["write"].clone()
    };
    // Beside POSIX there are 5 writes of 50 bytes in all to a C stream.
    assert_eq!(written("dxt"), json!({"events": 2, "calls": 2, "bytes": 200}));
    assert_eq!(written("auto"), json!({"events": 3, "calls": 7, "bytes": 250}));
    assert_eq!(written("counters"), json!({"events": 3, "calls": 11, "bytes": 2250}));
    let outcome = dir.iotide(["info", "--layers", "mpi-io", "a.darshan"]).exits_with(0);
    assert!(outcome.stdout.contains("0 events"), "{}", outcome.stdout);
}

#[test]
fn a_damaged_log_is_told_with_its_losses() {
    let dir = Dir::new();
    let log = rich().write();
    dir.write("cut.darshan", &log[..log.len() - 100]);
    let outcome = dir.iotide(["info", "--format", "json", "cut.darshan"]).exits_with(0);
    let run = &outcome.json()["runs"][0];
    assert_eq!(run["modules"]["POSIX"]["records"], 2);
    assert!(!run["losses"].as_array().unwrap().is_empty());
    let outcome = dir.iotide(["info", "cut.darshan"]).exits_with(0);
    assert!(outcome.stdout.contains("the log is cut"), "{}", outcome.stdout);
}

#[test]
fn any_other_trace_is_told_by_its_events() {
    let dir = Dir::new();
    dir.write(
        "run.csv",
        "# nprocs=8\n# exe=./a.out\n# jobid=4711\n# start_time=1600000000\nrank,op,start,end,bytes,file,opens\n\
         0,write,0.5,1.5,4096,/a,1\n1,read,1,2,100,/b,2\n1,write,9,8,1,/b,0\n",
    );
    let outcome = dir.iotide(["info", "run.csv"]).exits_with(0);
    insta::assert_snapshot!(outcome.stdout, @r#"
    run.csv: csv of ./a.out, job 4711, 4 events

      job     8 processes, began 2020-09-13 12:26:40 UTC
      ranks   2
      time    0.5 s to 2 s, 1.5 s
      volume  100 B read, 4.1 kB written
      read    1 event, 100 B
      write   1 event, 4.1 kB
      open    2 events for 3 calls
      files   2
      losses  line 8: end 8 is before start 9 (1 record)
    "#);
    let run = &dir.iotide(["info", "--format", "json", "run.csv"]).exits_with(0).json()["runs"][0];
    assert_eq!(run["operations"]["open"], json!({"events": 2, "calls": 3, "bytes": 0}));
    assert_eq!(
        (&run["n_files"], &run["source"]["n_ranks"], &run["source"]["end_s"]),
        (&json!(2), &json!(2), &json!(2.0))
    );
    assert_eq!(run["job"]["jobid"], "4711");
    assert!(run.get("modules").is_none());
}

#[test]
fn logs_of_one_job_are_one_run() {
    let dir = Dir::new();
    dir.write("a.darshan", rich().write());
    dir.write("b.darshan", LogWriter { start_s: START_S + 20, end_s: START_S + 29, ..rich() }.write());
    let args = ["info", "--one-run", "a.darshan", "b.darshan", "--format", "json"];
    let run = &dir.iotide(args).exits_with(0).json()["runs"][0];
    assert_eq!(run["job"]["nprocs"], 8);
    assert_eq!(run["job"]["run_time_s"], 29.25);
    assert_eq!(run["source"]["end_s"], 28.0);
    assert_eq!(run["source"]["bytes_read"], 200);
}

#[test]
fn records_and_segments_are_listed_one_by_one() {
    let dir = Dir::new();
    dir.write("a.darshan", rich().write());
    let lines = |args: [&str; 4]| {
        let outcome = dir.iotide(args).exits_with(0);
        assert_eq!(outcome.stderr, "");
        outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<Json>>()
    };
    let records = lines(["info", "--records", "--format=json", "a.darshan"]);
    let modules: Vec<_> = records.iter().map(|record| record["module"].as_str().unwrap()).collect();
    assert_eq!(modules, ["POSIX", "POSIX", "STDIO", "HEATMAP"]);
    assert_eq!((&records[0]["file"], &records[1]["rank"]), (&json!("/scratch/a"), &json!(-1)));
    assert_eq!(records[1]["counters"]["POSIX_BYTES_READ"], 1000);
    assert_eq!(records[3]["counters"]["HEATMAP_WRITE_BIN_1"], 200);
    insta::assert_snapshot!(dir.iotide(["info", "--dxt", "a.darshan"]).exits_with(0).stdout.replace('\t', " | "), @r#"
    module | rank | op | segment | offset | length | start | end | host | file
    DXT_POSIX | 0 | write | 0 | 0 | 150 | 3 | 3.5 | n01 | /scratch/a
    DXT_POSIX | 0 | write | 1 | 150 | 50 | 4 | 5 | n01 | /scratch/a
    DXT_POSIX | 0 | read | 0 | 0 | 100 | 1 | 2 | n01 | /scratch/a
    "#);
    let segments = lines(["info", "--dxt", "--format=json", "a.darshan"]);
    assert_eq!(segments.len(), 3);
    assert_eq!((&segments[1]["offset"], &segments[1]["start_s"]), (&json!(150), &json!(4.0)));
    let text = dir.iotide(["info", "--records", "a.darshan"]).exits_with(0).stdout;
    assert!(text.contains("POSIX\t0\t11\tPOSIX_BYTES_WRITTEN\t200\t/scratch/a\n"), "{text}");
    dir.write("run.csv", bursts("write"));
    insta::assert_snapshot!(dir.iotide(["info", "--records", "run.csv", "-o", "x"]).exits_with(2).complaint(), @"
    iotide: run.csv is not one Darshan log, and has no records of Darshan
    hint: `iotide convert --to csv` lists the events of any trace
    ");
}

#[test]
fn a_log_can_come_from_a_pipe_with_others_beside_it() {
    let dir = Dir::new();
    dir.write("a.darshan", rich().write());
    dir.write("empty", "");
    let outcome = dir.iotide(["info", "a.darshan", "empty", "--format", "json"]).exits_with(2);
    let document = outcome.json();
    assert_eq!(document["runs"].as_array().unwrap().len(), 1);
    assert_eq!(document["failures"][0]["error"], "empty is empty");
    let mut command = dir.command(["info", "-", "--format", "json"]);
    let log = std::fs::File::open(dir.path().join("a.darshan")).unwrap();
    let output = command.stdin(log).output().unwrap();
    let document: Json = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["runs"][0]["dxt"]["DXT_POSIX"]["write_segments"], 2);
}

/// Numbers agree if they differ by no more than rounding; everything else must be the same.
fn agree(ours: &Json, theirs: &Json) -> bool {
    match (ours.as_f64(), theirs.as_f64()) {
        (Some(ours), Some(theirs)) => (ours - theirs).abs() <= 1e-9 * ours.abs().max(theirs.abs()),
        _ => ours == theirs,
    }
}

#[test]
fn every_real_log_is_told_as_an_independent_reader_found_it() {
    let Some(folder) = iotide_testkit::shared_data("traces") else { return };
    let golden: Json = serde_json::from_slice(&std::fs::read(folder.join("golden.json")).unwrap()).unwrap();
    let (mut faults, mut n_logs) = (Vec::new(), 0);
    for (path, entry) in golden.as_object().unwrap() {
        if !path.starts_with("darshan/") {
            continue;
        }
        n_logs += 1;
        let run = info_of(&folder.join(path));
        let reference = &entry["reference"];
        if reference.get("failed").is_some() || reference.is_null() {
            assert!(!run["losses"].as_array().unwrap().is_empty(), "{path} is damaged");
            continue;
        }
        let mut check = |what: String, ours: &Json, theirs: &Json| {
            if !agree(ours, theirs) {
                faults.push(format!("{path}: {what}: ours {ours}, theirs {theirs}"));
            }
        };
        let (job, expected) = (&run["job"], &reference["job"]);
        for (ours, theirs) in [
            ("jobid", "jobid"),
            ("uid", "uid"),
            ("nprocs", "nprocs"),
            ("exe", "exe"),
            ("log_version", "log_ver"),
        ] {
            check(ours.to_owned(), &job[ours], &expected[theirs]);
        }
        let seconds = |name: &str| {
            let part = |unit: &str| expected[format!("{name}_{unit}")].as_f64().unwrap();
            part("sec") + part("nsec") / 1e9
        };
        check("start".into(), &job["start_time"], &seconds("start_time").into());
        match seconds("end_time") {
            0.0 => check("end".into(), &job["end_time"], &Json::Null),
            end => check("end".into(), &job["end_time"], &end.into()),
        }
        for (name, expected) in reference["modules"].as_object().unwrap() {
            let module = &run["modules"][name];
            check(format!("{name} version"), &module["version"], &expected["ver"]);
            check(format!("{name} partial"), &module["partial"], &expected["partial"]);
            if let Some(records) = expected.get("records") {
                check(format!("{name} records"), &module["records"], records);
            }
        }
        for (name, totals) in reference["totals"].as_object().unwrap() {
            for (counter, expected) in totals.as_object().unwrap() {
                check(counter.clone(), &run["modules"][name]["totals"][counter], expected);
            }
        }
        let pairs: [(&str, &[(&str, &str)]); 2] = [
            (
                "dxt",
                &[
                    ("records", "file_records"),
                    ("read_segments", "read_segments"),
                    ("write_segments", "write_segments"),
                    ("bytes_read", "read_bytes"),
                    ("bytes_written", "write_bytes"),
                    ("first_start_s", "first_start"),
                    ("last_end_s", "last_end"),
                ],
            ),
            (
                "heatmap",
                &[
                    ("ranks", "ranks"),
                    ("bin_width_s", "bin_width"),
                    ("n_bins", "nbins"),
                    ("bytes_read", "read_bytes"),
                    ("bytes_written", "write_bytes"),
                ],
            ),
        ];
        for (part, names) in pairs {
            for (name, expected) in reference.get(part).and_then(Json::as_object).into_iter().flatten() {
                for (ours, theirs) in names {
                    check(format!("{part} {name} {ours}"), &run[part][name][*ours], &expected[*theirs]);
                }
            }
        }
    }
    assert!(n_logs > 0, "golden.json names no log");
    assert!(faults.is_empty(), "{} differences in {n_logs} logs:\n{}", faults.len(), faults.join("\n"));
}

fn info_of(path: &Path) -> Json {
    let dir = Dir::new();
    let outcome = dir.iotide(["info", "--format", "json", path.to_str().unwrap()]).exits_with(0);
    outcome.json()["runs"][0].clone()
}
