use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use iotide_testkit::FreshDir;
use iotide_wire::Op;
use iotide_wire::page::{Counters, Life, PageHeader, PageText, lane_at};

/// `iotide record --live …`, whose pages go to `pages` in the directory.
fn record(dir: &FreshDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotide"));
    command
        .args(["record", "--live", "--exclude", "*run.csv"])
        .args(arguments)
        .current_dir(dir.path())
        .env_remove("LD_PRELOAD")
        .env("IOTIDE_LIVE", dir.path().join("pages"));
    command
}

fn pages(dir: &FreshDir) -> Vec<(Vec<u8>, Box<Counters>)> {
    let read = |path: PathBuf| {
        let bytes = fs::read(path).unwrap();
        let mut counters = Box::new(Counters::ZERO);
        for i in 0..PageHeader::decode(&bytes).unwrap().lanes_used {
            counters.add_lane(&bytes[lane_at(i)..lane_at(i + 1)]);
        }
        (bytes, counters)
    };
    let files =
        fs::read_dir(dir.path().join("pages")).into_iter().flatten().map(|entry| entry.unwrap().path());
    // One that was killed while it made its page has none yet.
    files
        .filter(|path| fs::read(path).is_ok_and(|bytes| PageHeader::decode(&bytes).is_ok()))
        .map(read)
        .collect()
}

fn moved(dir: &FreshDir, op: Op) -> u64 {
    pages(dir).iter().map(|(_, counters)| counters.own(op).bytes).sum()
}

/// Returns the bytes that the skeleton moved, by its own log.
fn logged(path: &Path, op: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap();
    let rows = text.lines().skip_while(|line| line.starts_with('#')).skip(1);
    let rows = rows.map(|line| line.split(',').collect::<Vec<_>>()).filter(|cells| cells[1] == op);
    rows.map(|cells| cells[4].parse::<u64>().unwrap()).sum()
}

const SKELETON: [&str; 14] = [
    "ioskel",
    "-p",
    "20ms",
    "-s",
    "300000",
    "-n",
    "6",
    "-j",
    "4",
    "--transfer-size",
    "32k",
    "--turn-probability",
    "0.5",
    "--log",
];

#[test]
fn pages_hold_exactly_what_the_skeleton_counted_itself_and_no_trace_is_written() {
    let dir = FreshDir::new("record-live");
    let program = env!("CARGO_BIN_EXE_iotide");
    let output = record(&dir, &["--", program]).args(SKELETON).arg("run.csv").output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    assert_eq!(moved(&dir, Op::Write), logged(&dir.join("run.csv"), "write"));
    assert_eq!(moved(&dir, Op::Read), logged(&dir.join("run.csv"), "read"));
    assert!(moved(&dir, Op::Write) > 0);
    assert!(stderr.contains("of counters in") && stderr.contains("POSIX"), "{stderr}");
    let mut left: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["pages", "run.csv"]);
    for (bytes, _) in pages(&dir) {
        let header = PageHeader::decode(&bytes).unwrap();
        assert_eq!(header.life(None), Life::Ended);
        assert!(header.text(PageText::Run).starts_with(b"iotide-"));
    }
}

#[test]
fn a_trace_and_counters_of_one_run_agree() {
    let dir = FreshDir::new("record-live-both");
    let program = env!("CARGO_BIN_EXE_iotide");
    let output =
        record(&dir, &["-o", "trace", "--", program]).args(SKELETON).arg("run.csv").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let info = Command::new(program)
        .args(["detect", "--format", "json", "trace"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let json: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap();
    let source = &json["runs"][0]["source"];
    assert_eq!(source["bytes_written"].as_f64(), Some(moved(&dir, Op::Write) as f64));
    assert_eq!(source["bytes_read"].as_f64(), Some(moved(&dir, Op::Read) as f64));
}

#[test]
fn killed_at_any_moment_pages_hold_what_reached_the_files() {
    for round in 0..5 {
        let dir = FreshDir::new("record-live-killed");
        let script = "for i in 1 2 3 4; do (exec dd if=/dev/zero of=file$i bs=1000 status=none) & done; wait";
        let mut command = record(&dir, &["-q", "--", "sh", "-c", script]);
        let mut child = command.stdout(Stdio::null()).process_group(0).spawn().unwrap();
        let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        std::thread::sleep(Duration::from_millis(20 + u64::from(clock.subsec_micros()) % 100 + 10 * round));
        let group = format!("-{}", child.id());
        assert!(Command::new("kill").args(["-9", "--", &group]).status().unwrap().success());
        child.wait().unwrap();
        // A process that is killed in a call is there until the call ends.
        while fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .any(|process| fs::read_link(process.path().join("cwd")).is_ok_and(|cwd| cwd == dir.path()))
        {
            std::thread::yield_now();
        }
        let written: u64 =
            (1..=4).map(|i| fs::metadata(dir.join(format!("file{i}"))).map_or(0, |file| file.len())).sum();
        let counted = moved(&dir, Op::Write);
        assert!(counted <= written && written - counted <= 4 * 1000, "round {round}: {counted} of {written}");
    }
}

#[test]
fn a_directory_that_cannot_be_used_is_told_and_the_program_runs() {
    let dir = FreshDir::new("record-live-nowhere");
    fs::write(dir.join("file"), "").unwrap();
    for more in [&[][..], &["-o", "trace"]] {
        let mut command = record(&dir, more);
        let program = ["--", "sh", "-c", "echo ran > ran; exit 3"];
        let output = command.args(program).env("IOTIDE_LIVE", dir.join("file")).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{stderr}");
        assert_eq!(stderr.matches("runs without counters: they cannot be kept in").count(), 1, "{stderr}");
        assert_eq!(fs::read_to_string(dir.join("ran")).unwrap(), "ran\n");
        fs::remove_file(dir.join("ran")).unwrap();
    }
    assert_eq!(dir.names(), ["file", "trace"], "the trace that was asked for, and no other");
}
