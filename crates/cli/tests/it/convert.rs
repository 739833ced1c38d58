use std::process::Stdio;

use iotide_formats::darshan::{Compression, Endian};

use crate::darshan_log::LogWriter;
use crate::util::{Dir, bursts};

#[test]
fn a_table_becomes_a_native_trace_and_a_table_again() {
    let dir = Dir::new();
    dir.write("run.csv", bursts("write"));
    let outcome = dir.iotide(["convert", "run.csv", "--to", "native", "-o", "run.iot"]).exits_with(0);
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("", "10 events written to run.iot\n"));
    let outcome = dir.iotide(["convert", "run.iot", "--to", "csv"]).exits_with(0);
    assert_eq!(outcome.stderr, "10 events written\n");
    assert!(outcome.stdout.starts_with(
        "rank,op,start,end,bytes,file,layer,grain,calls\n0,write,0.000000000,1.000000000,1000000,,,,\n"
    ));
    assert_eq!(outcome.stdout.lines().count(), 11);
    let names: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "nothing else is left behind: {names:?}");
}

#[test]
fn what_is_missing_is_told_and_stays_told() {
    let dir = Dir::new();
    dir.write(
        "run.csv",
        "# exe=./a.out\nrank,op,start,end,bytes,file\n0,write,2,1,5,/a\n1,read,0,1.5,7,/b\n",
    );
    let outcome = dir.iotide(["convert", "run.csv", "--to", "jsonl"]).exits_with(0);
    insta::assert_snapshot!(outcome.stderr, @"
    loss: line 3: end 1 is before start 2 (1 record)
    1 event written
    ");
    insta::assert_snapshot!(outcome.stdout, @r#"
    {"exe":"./a.out"}
    {"loss":"line 3: end 1 is before start 2","records":1}
    {"rank":1,"op":"read","start":0.000000000,"end":1.500000000,"bytes":7,"file":"/b"}
    "#);
    dir.write("again.jsonl", outcome.stdout);
    let outcome = dir.iotide(["convert", "again.jsonl", "--to", "csv"]).exits_with(0);
    insta::assert_snapshot!(outcome.stdout, @"
    # exe=./a.out
    # loss=1,,line 3: end 1 is before start 2
    rank,op,start,end,bytes,file,layer,grain,calls
    1,read,0.000000000,1.500000000,7,/b,,,
    ");
}

#[test]
fn a_chrome_trace_has_a_slice_an_event() {
    let dir = Dir::new();
    dir.write("run.csv", "rank,op,start,end,bytes,file\n0,write,0,1.5,5,/a\n0,read,1,2,5,\n");
    let outcome = dir.iotide(["convert", "run.csv", "--to", "chrome"]).exits_with(0);
    insta::assert_snapshot!(outcome.stdout, @r#"
    {"displayTimeUnit":"ms","otherData":{"losses":[]},
    "traceEvents":[
    {"name":"process_name","ph":"M","ts":0,"dur":0,"pid":0,"tid":0,"args":{"name":"rank 0"}},
    {"name":"thread_name","ph":"M","ts":0,"dur":0,"pid":0,"tid":0,"args":{"name":"rank 0 lane 1"}},
    {"name":"write","cat":"unknown,call","ph":"X","ts":0.000,"dur":1500000.000,"pid":0,"tid":0,"args":{"rank":0,"bytes":5,"calls":1,"file":"/a"}},
    {"name":"thread_name","ph":"M","ts":0,"dur":0,"pid":0,"tid":8388608,"args":{"name":"rank 0 lane 2"}},
    {"name":"read","cat":"unknown,call","ph":"X","ts":1000000.000,"dur":1000000.000,"pid":0,"tid":8388608,"args":{"rank":0,"bytes":5,"calls":1}}
    ]}
    "#);
    outcome.json();
}

#[test]
fn the_source_of_a_log_can_be_chosen() {
    let dir = Dir::new();
    dir.write("a.darshan", LogWriter::rich(41, Endian::Little, Compression::Zlib).write());
    let grains = |source: &str| {
        let table =
            dir.iotide(["convert", "a.darshan", "--source", source, "--to", "csv"]).exits_with(0).stdout;
        let rows = table
            .lines()
            .filter(|line| line.contains(",posix,") && (line.contains(",read,") || line.contains(",write,")));
        let grains: std::collections::BTreeSet<_> =
            rows.map(|row| row.split(',').nth(7).unwrap().to_owned()).collect();
        grains.into_iter().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(["auto", "dxt", "heatmap", "counters"].map(grains), ["", "", "bin", "record"]);
}

#[test]
fn a_trace_may_be_replaced_by_what_it_becomes() {
    let dir = Dir::new();
    dir.write("run", bursts("read"));
    dir.iotide(["convert", "run", "--to", "native", "-o", "run"]).exits_with(0);
    let info = dir.iotide(["info", "run", "--format", "json"]).exits_with(0).json();
    assert_eq!(
        (&info["runs"][0]["source"]["format"], &info["runs"][0]["source"]["n_events"]),
        (&"native".into(), &10.into())
    );
}

#[test]
fn a_failed_conversion_leaves_no_file() {
    let dir = Dir::new();
    dir.write("bad.csv", "rank,op,start,end,bytes\n0,write,2,1,5\n");
    let outcome = dir.iotide(["convert", "bad.csv", "--to", "parquet", "-o", "out.parquet"]).exits_with(2);
    insta::assert_snapshot!(outcome.complaint(), @"iotide: bad.csv holds no record that can be used: line 2: end 1 is before start 2");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    let outcome = dir.iotide(["convert", "bad.csv", "--to", "csv", "-o", "no/such/place.csv"]).exits_with(2);
    assert!(outcome.stderr.starts_with("iotide: cannot write no/such/place.csv: "), "{outcome:?}");
}

#[test]
fn several_runs_are_not_one() {
    let dir = Dir::new();
    dir.write("a.csv", bursts("write"));
    dir.write("b.csv", bursts("write").replace("\n0,", "\n1,"));
    insta::assert_snapshot!(dir.iotide(["convert", "a.csv", "b.csv", "--to", "csv"]).exits_with(2).complaint(), @"
    iotide: 2 runs cannot be converted into one
    hint: `--one-run` takes the traces as parts of one run; otherwise convert them one by one
    ");
    let outcome = dir.iotide(["convert", "--one-run", "a.csv", "b.csv", "--to", "csv"]).exits_with(0);
    assert_eq!(outcome.stdout.lines().count(), 21);
}

#[test]
fn a_form_that_does_not_exist_is_named() {
    insta::assert_snapshot!(Dir::new().iotide(["convert", "a.csv", "--to", "papyrus"]).exits_with(2).complaint(), @"
    iotide: invalid value 'papyrus' for '--to <FORM>': known forms are native, csv, jsonl, chrome, parquet, tmio-json, tmio-jsonl, tmio-msgpack

    For more information, try '--help'.
    ");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let dir = Dir::new();
    let mut table = bursts("write");
    (0..100_000).for_each(|i| table.push_str(&format!("1,write,{i},{i}.5,100\n")));
    dir.write("run.csv", table);
    let mut command = dir.command(["convert", "run.csv", "--to", "csv"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}
