use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use iotide_testkit::FreshDir;

fn ioskel(dir: &FreshDir, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotide"));
    command.arg("ioskel").args(args).current_dir(dir.path()).output().unwrap()
}

/// A row of the event table that the skeleton writes.
#[derive(Debug)]
struct Row {
    rank: u32,
    op: String,
    start_s: f64,
    end_s: f64,
    bytes: u64,
}

fn rows(path: &Path) -> Vec<Row> {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines().skip_while(|line| line.starts_with('#'));
    assert_eq!(lines.next(), Some("rank,op,start,end,bytes,file"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        Row {
            rank: cells[0].parse().unwrap(),
            op: cells[1].to_owned(),
            start_s: cells[2].parse().unwrap(),
            end_s: cells[3].parse().unwrap(),
            bytes: cells[4].parse().unwrap(),
        }
    };
    lines.map(row).collect()
}

fn bytes(rows: &[Row], op: &str) -> u64 {
    rows.iter().filter(|row| row.op == op).map(|row| row.bytes).sum()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn every_byte_of_every_process_is_in_the_log_and_no_file_is_left() {
    let dir = FreshDir::new("ioskel");
    let args =
        ["-p", "100ms", "-s", "300000", "-n", "4", "-j", "3", "--transfer-size", "128k", "--log", "run.csv"];
    let output = ioskel(&dir, &args);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(dir.names(), ["run.csv"]);
    let rows = rows(&dir.join("run.csv"));
    assert_eq!(bytes(&rows, "write"), 3 * 4 * 300_000);
    assert_eq!(bytes(&rows, "read"), 0);
    for op in ["open", "close"] {
        assert_eq!(rows.iter().filter(|row| row.op == op).count(), 12, "{op}");
    }
    assert!(rows.iter().all(|row| row.end_s >= row.start_s && row.bytes <= 128 << 10));
    assert!(rows.is_sorted_by_key(|row| row.start_s));
    assert!(stdout(&output).starts_with("4 bursts of 293.0 KiB by 3 processes"), "{}", stdout(&output));
}

#[test]
fn with_a_time_to_compute_no_process_begins_a_burst_before_all_are_done_with_the_one_before() {
    let dir = FreshDir::new("ioskel");
    // Each process syncs its own data, which takes one longer than another.
    let args = ["--compute", "50ms", "-s", "4M", "-n", "5", "-j", "4", "--sync", "--turn-probability", "50%"];
    let output = ioskel(&dir, &[&args[..], &["--log", "run.csv"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    let mut bursts: BTreeMap<u32, Vec<[f64; 2]>> = BTreeMap::new();
    for row in rows(&dir.join("run.csv")) {
        let bursts = bursts.entry(row.rank).or_default();
        match row.op.as_str() {
            "open" => bursts.push([row.start_s, row.end_s]),
            _ => bursts.last_mut().unwrap()[1] = row.end_s,
        }
    }
    assert_eq!(bursts.len(), 4);
    for n in 0..4 {
        let last_end_s = bursts.values().map(|bursts| bursts[n][1]).fold(0.0, f64::max);
        for (rank, bursts) in &bursts {
            // Clocks of processes are set once, each on its own.
            assert!(
                bursts[n + 1][0] > last_end_s + 0.04,
                "{rank} begins {bursts:?}, all end at {last_end_s}"
            );
        }
    }
}

#[test]
fn no_burst_begins_before_its_beat_and_beats_count_from_the_common_start() {
    let dir = FreshDir::new("ioskel");
    let output = ioskel(&dir, &["-p", "0.2", "-s", "64k", "-n", "6", "-j", "2", "--log", "run.csv"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let mut opens: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for row in rows(&dir.join("run.csv")).iter().filter(|row| row.op == "open") {
        opens.entry(row.rank).or_default().push(row.start_s);
    }
    assert_eq!(opens.len(), 2);
    for starts in opens.values() {
        assert_eq!(starts.len(), 6);
        // Late on a busy machine, perhaps; early, never.
        assert!(
            starts.iter().zip(0..).all(|(start_s, beat)| *start_s >= 0.2 * f64::from(beat)),
            "{starts:?}"
        );
    }
}

#[test]
fn sure_to_turn_it_reads_back_what_it_wrote_in_every_second_burst() {
    let dir = FreshDir::new("ioskel");
    let args =
        ["-p", "50ms", "-s", "100k", "-n", "5", "--turn-probability", "100%", "--sync", "--log", "run.csv"];
    let output = ioskel(&dir, &args);
    assert!(output.status.success(), "{}", stderr(&output));
    let rows = rows(&dir.join("run.csv"));
    assert_eq!((bytes(&rows, "write"), bytes(&rows, "read")), (3 * 102_400, 2 * 102_400));
    assert_eq!(rows.iter().filter(|row| row.op == "sync").count(), 3);
    assert!(stdout(&output).contains("written 300 KiB, read back 200 KiB"), "{}", stdout(&output));
}

#[test]
fn the_seed_decides_the_turns() {
    let dir = FreshDir::new("ioskel");
    let turns = |seed: &str| {
        let args = [
            "-p",
            "1ms",
            "-s",
            "1k",
            "-n",
            "40",
            "--turn-probability",
            "0.5",
            "--seed",
            seed,
            "--log",
            "r.csv",
        ];
        assert!(ioskel(&dir, &args).status.success());
        let ops = rows(&dir.join("r.csv")).into_iter().map(|row| row.op);
        ops.filter(|op| op == "read" || op == "write").collect::<Vec<_>>()
    };
    assert_eq!(turns("5"), turns("5"));
    assert_ne!(turns("5"), turns("6"));
}

#[test]
fn the_name_of_a_symbolic_link_configures_it() {
    let dir = FreshDir::new("ioskel");
    let name = "ioskel.1.4096.2.100";
    symlink(env!("CARGO_BIN_EXE_iotide"), dir.join(name)).unwrap();
    let mut command = Command::new(dir.join(name));
    let output =
        command.args(["--period", "50ms", "-j", "2", "--log", "run.csv"]).current_dir(dir.path()).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let log = fs::read_to_string(dir.join("run.csv")).unwrap();
    assert!(log.contains("# exe=ioskel.1.4096.2.100\n") && log.contains("# nprocs=2\n"), "{log}");
    let rows = rows(&dir.join("run.csv"));
    assert_eq!((bytes(&rows, "write"), bytes(&rows, "read")), (2 * 4096, 2 * 4096));
}

#[test]
fn a_name_that_says_nothing_is_refused() {
    let dir = FreshDir::new("ioskel");
    symlink(env!("CARGO_BIN_EXE_iotide"), dir.join("ioskel.4")).unwrap();
    let output = Command::new(dir.join("ioskel.4")).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("expected ioskel.PERIOD.SIZE.ITER"), "{}", stderr(&output));
}

#[test]
fn kept_files_hold_the_last_burst_of_each_process() {
    let dir = FreshDir::new("ioskel");
    let output = ioskel(&dir, &["-p", "20ms", "-s", "10k", "-n", "2", "-j", "2", "--keep"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let [folder] = &dir.names()[..] else { panic!("{:?}", dir.names()) };
    for rank in ["rank-0.dat", "rank-1.dat"] {
        assert_eq!(fs::metadata(dir.join(folder).join(rank)).unwrap().len(), 10 << 10);
    }
    assert!(stdout(&output).contains("files kept in "), "{}", stdout(&output));
}

#[test]
fn a_folder_that_does_not_exist_is_an_error_with_a_hint() {
    let dir = FreshDir::new("ioskel");
    let output = ioskel(&dir, &["--dir", "nowhere"]);
    assert_eq!(output.status.code(), Some(2));
    let said = stderr(&output);
    assert!(
        said.contains("cannot make a folder in nowhere") && said.contains("hint: choose a folder"),
        "{said}"
    );
}

#[test]
fn a_log_that_cannot_be_written_is_known_before_the_run() {
    let dir = FreshDir::new("ioskel");
    let began = Instant::now();
    let output = ioskel(&dir, &["-p", "60", "-n", "2", "--log", "nowhere/run.csv"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("cannot write nowhere/run.csv"), "{}", stderr(&output));
    assert!(began.elapsed() < Duration::from_secs(60));
}

/// A limit on the size of files stands in for a full disk: like it, it cuts a burst in the middle.
#[test]
fn a_write_that_fails_ends_the_run_but_loses_no_operation() {
    let Some(sh) = iotide_testkit::program("sh") else { return };
    let dir = FreshDir::new("ioskel");
    // In units of 512 bytes; SIGXFSZ is ignored so that the write fails with EFBIG rather than killing the process.
    let script = "trap '' XFSZ; ulimit -f 1024; exec \"$@\"";
    let mut command = Command::new(sh);
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_iotide"), "ioskel"]);
    command.args([
        "-p",
        "0.1",
        "-s",
        "2M",
        "-n",
        "3",
        "-j",
        "2",
        "--transfer-size",
        "64k",
        "--log",
        "run.csv",
    ]);
    let output = command.current_dir(dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("burst 1: cannot write ") && said.contains("File too large"), "{said}");
    assert!(said.contains("done until then are in run.csv"), "{said}");
    assert_eq!(dir.names(), ["run.csv"]);
    let rows = rows(&dir.join("run.csv"));
    assert!(bytes(&rows, "write") >= 512 << 10, "{rows:?}");
}

#[test]
fn killed_in_the_middle_it_still_leaves_no_file() {
    let dir = FreshDir::new("ioskel");
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotide"));
    command.args(["ioskel", "-p", "300", "-s", "64k", "-n", "2", "-j", "2"]).current_dir(dir.path());
    let mut child = command.stderr(std::process::Stdio::null()).spawn().unwrap();
    let both_there = || {
        let folder = dir.names().first().map(|name| dir.join(name));
        folder.is_some_and(|folder| (0..2).all(|rank| folder.join(format!("rank-{rank}.dat")).exists()))
    };
    wait_for("the files to appear", both_there);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_for("the folder to go", || dir.names().is_empty());
}

/// Looks again and again until `condition` holds; a minute is for machines that are very busy.
#[track_caller]
fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let began = Instant::now();
    while !condition() {
        assert!(began.elapsed() < Duration::from_secs(60), "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
