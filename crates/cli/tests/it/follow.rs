//! A job that runs is followed: by its files, by its sockets, through cuts and kills.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use iotide_testkit::{Missing, program, skip};
use serde_json::Value;

use crate::util::{Dir, Outcome, bursts};

/// Longer than anything here takes on a machine with too much to do.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until something is so; the name says what, if it never is.
#[track_caller]
fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < until, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A follower in the background, its lines in a file.
struct Follower {
    child: Child,
    out: PathBuf,
    stderr: PathBuf,
}

impl Follower {
    fn start(dir: &Dir, name: &str, args: &[&str]) -> Self {
        let (out, stderr) = (dir.path().join(format!("{name}.out")), dir.path().join(format!("{name}.err")));
        let mut command = dir.command(["detect", "--format", "json"]);
        let child = (command.args(args).env("PATH", std::env::var_os("PATH").unwrap_or_default()))
            .stdout(File::create(&out).unwrap())
            .stderr(File::create(&stderr).unwrap())
            .spawn()
            .unwrap();
        Self { child, out, stderr }
    }

    /// The whole lines so far.
    fn lines(&self) -> Vec<Value> {
        let text = fs::read_to_string(&self.out).unwrap();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn of_kind(&self, kind: &str) -> Vec<Value> {
        self.lines().into_iter().filter(|line| line["kind"] == kind).collect()
    }

    #[track_caller]
    fn wait_for_lines(&self, what: &str, mut are_there: impl FnMut(&[Value]) -> bool) {
        wait_until(what, || are_there(&self.lines()));
    }

    /// Where it listens, as it said.
    fn address(&self) -> String {
        let said = || fs::read_to_string(&self.stderr).unwrap();
        wait_until("an address", || said().contains("listening on ") && said().ends_with('\n'));
        said().lines().find_map(|line| line.strip_prefix("listening on ").map(str::to_owned)).unwrap()
    }

    /// Waits until it ends by itself; its exit status and last line.
    #[track_caller]
    fn ends(&mut self) -> (i32, Value) {
        let mut status = None;
        wait_until("the follower's end", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let complaint = fs::read_to_string(&self.stderr).unwrap();
        let end = self.of_kind("end").pop().unwrap_or_else(|| panic!("no last line: {complaint}"));
        (status.unwrap().code().unwrap(), end)
    }

    /// Presses Ctrl-C; what is there by then is still taken.
    fn interrupt(&self) {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the sums over a trace by `iotide info`: events, bytes read, bytes written.
fn held_by(dir: &Dir, trace: &str) -> (Value, Value, Value) {
    let info = dir.iotide(["info", "--format", "json", trace]).exits_with(0).json();
    sums(&info["runs"][0]["source"])
}

fn sums(source: &Value) -> (Value, Value, Value) {
    (source["n_events"].clone(), source["bytes_read"].clone(), source["bytes_written"].clone())
}

/// Ends a background program and all it has started, if the test fails.
struct Job(Child);

impl Drop for Job {
    fn drop(&mut self) {
        if let Ok(None) = self.0.try_wait() {
            let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.0.id())]).status();
            let _ = self.0.wait();
        }
    }
}

/// Starts `iotide record ARGS` in a process group of its own.
fn record(dir: &Dir, args: &[&str]) -> Job {
    use std::os::unix::process::CommandExt;
    let mut command = dir.command(["record"]);
    command.args(args).env("PATH", std::env::var_os("PATH").unwrap_or_default());
    // The directories of tests lie where the tracer looks by default, but mpirun is root's here and there.
    command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    command.env("OMPI_MCA_mpi_yield_when_idle", "1").env("HOME", dir.path()).env("TMPDIR", dir.path());
    let log = File::create(dir.path().join("record.log")).unwrap();
    let child = (command.stdout(Stdio::null()).stderr(log)).process_group(0).spawn().unwrap();
    Job(child)
}

const IOTIDE: &str = env!("CARGO_BIN_EXE_iotide");

#[test]
fn a_table_is_followed_while_it_is_written() {
    let dir = Dir::new();
    let mut follower = Follower::start(&dir, "f", &["--follow", "run.csv"]);
    let table = bursts("write");
    let mut file = File::create(dir.path().join("run.csv")).unwrap();
    // In pieces that end anywhere, also within a number.
    for piece in table.as_bytes().chunks(37) {
        file.write_all(piece).unwrap();
        std::thread::sleep(Duration::from_millis(2));
    }
    follower.wait_for_lines("predictions", |lines| !lines.is_empty());
    follower.interrupt();
    let (status, end) = follower.ends();
    assert_eq!((status, &end["reason"]), (0, &Value::from("interrupted")), "{end}");
    assert_eq!(sums(&end["source"]), held_by(&dir, "run.csv"));
    assert_eq!(end["losses"], Value::Array(Vec::new()));
    let last = follower.of_kind("prediction").pop().unwrap();
    let period_s = last["period_s"].as_f64().unwrap();
    assert!((period_s - 5.0).abs() < 0.25, "{last}");
    assert!(last["next_phase"]["start_s"].as_f64().unwrap() > 45.0, "{last}");
}

#[test]
fn a_row_that_is_not_whole_is_not_counted() {
    let dir = Dir::new();
    dir.write("run.csv", "rank,op,start,end,bytes\n0,write,0,1,1000\n0,write,5,6,40");
    let mut follower = Follower::start(&dir, "f", &["--follow", "run.csv", "--idle", "1"]);
    let (status, end) = follower.ends();
    assert_eq!((status, &end["source"]["bytes_written"]), (1, &Value::from(1000)), "{end}");
}

#[test]
fn a_table_that_is_cut_and_written_anew_is_noticed_and_nothing_is_lost() {
    let dir = Dir::new();
    let path = dir.path().join("run.csv");
    dir.write("run.csv", bursts("write"));
    let mut follower = Follower::start(&dir, "f", &["--follow", "run.csv"]);
    follower.wait_for_lines("predictions", |lines| !lines.is_empty());
    // As a shell does it with `>`: the same file, cut.
    fs::write(&path, "rank,op,start,end,bytes\n0,write,0,1,7\n").unwrap();
    follower.wait_for_lines("the cut", |lines| {
        lines.iter().any(|line| line["text"].as_str().is_some_and(|text| text.contains("cut short")))
    });
    // As `logrotate` does it: another file of that name.
    fs::rename(&path, dir.path().join("run.csv.1")).unwrap();
    fs::write(&path, "rank,op,start,end,bytes\n0,write,2,3,50\n").unwrap();
    follower.wait_for_lines("the other file", |lines| {
        lines.iter().any(|line| line["text"].as_str().is_some_and(|text| text.contains("replaced")))
    });
    // Written anew with all that was there and one row more.
    dir.write("new.csv", "rank,op,start,end,bytes\n0,write,2,3,50\n0,write,4,5,300\n");
    fs::rename(dir.path().join("new.csv"), &path).unwrap();
    follower.interrupt();
    let (_, end) = follower.ends();
    assert_eq!(end["source"]["bytes_written"], 10_000_357, "{end}");
    assert_eq!(end["source"]["n_events"], 13);
}

#[test]
fn what_tmio_appends_is_followed() {
    let dir = Dir::new();
    let mut follower = Follower::start(&dir, "f", &["--follow", "8.jsonl"]);
    let mut file = File::create(dir.path().join("8.jsonl")).unwrap();
    for flush in 0..10 {
        let line = format!(
            "\t{{\"write_sync\":{{\"number_of_ranks\": 8,\"bandwidth\": {{\"b_rank_avr\": [ 1e6],\"t_rank_s\": [ {}.0],\"t_rank_e\": [ {}.0]}}}}}}\n",
            10 * flush,
            10 * flush + 2
        );
        let (head, tail) = line.split_at(50);
        file.write_all(head.as_bytes()).unwrap();
        file.write_all(tail.as_bytes()).unwrap();
    }
    follower.wait_for_lines("predictions", |lines| !lines.is_empty());
    follower.interrupt();
    let (status, end) = follower.ends();
    assert_eq!((status, &end["source"]["format"]), (0, &Value::from("tmio-jsonl")), "{end}");
    assert_eq!(end["source"]["bytes_written"], 20_000_000);
    let period_s = follower.of_kind("prediction").pop().unwrap()["period_s"].as_f64().unwrap();
    assert!((period_s - 10.0).abs() < 0.5, "{period_s}");
}

#[test]
fn a_trace_that_is_written_at_the_end_cannot_be_followed() {
    let dir = Dir::new();
    dir.write("8.json", "{\n\t\"write_sync\":{\n\t\t\"bandwidth\": {}}\n}\n");
    let outcome = dir.iotide(["detect", "--follow", "8.json"]).exits_with(2);
    insta::assert_snapshot!(outcome.complaint(), @"iotide: 8.json is of format tmio-json, which is not written while the job runs: it cannot be followed");
}

#[test]
fn a_command_is_told_each_prediction_one_at_a_time() {
    let dir = Dir::new();
    dir.write("run.csv", bursts("write"));
    let hook = "cat > told.$IOTIDE_PREDICTION; echo $IOTIDE_PERIOD_S $IOTIDE_NEXT_PHASE_S >> periods";
    let mut follower =
        Follower::start(&dir, "f", &["--follow", "run.csv", "--idle", "1", "--on-prediction", hook]);
    follower.ends();
    let last = follower.of_kind("prediction").pop().unwrap();
    let told: Value = serde_json::from_str(&dir.read(&format!("told.{}", last["number"]))).unwrap();
    assert_eq!(told, last);
    let periods = dir.read("periods");
    let expected = format!("{} {}", last["period_s"], last["next_phase"]["start_s"]);
    assert_eq!(
        periods.lines().last().unwrap().replace(' ', ""),
        expected.replace(".0 ", " ").trim_end_matches(".0").replace(' ', "")
    );
}

/// Four ranks under Open MPI that write a burst a second, recorded and followed at once.
#[test]
fn a_job_of_four_ranks_is_followed_live_and_its_period_is_right_after_four_phases() {
    if program("mpirun.openmpi").is_none() {
        return;
    }
    // A machine with much else to do may start a rank late: then the run itself has no even beginning, and is made again.
    if (0..3).all(|_| !four_ranks_have_begun_evenly_and_were_predicted()) {
        skip(Missing::Data, "a machine with enough idle processors: the run itself has lost its beat");
    }
}

/// Whether the first phases came evenly; if they did, the prediction after four of them is right.
fn four_ranks_have_begun_evenly_and_were_predicted() -> bool {
    let dir = Dir::new();
    let mut follower = Follower::start(&dir, "f", &["--follow", "run7"]);
    let ioskel = ["ioskel", "--period", "1", "--size", "256K", "--iterations", "8"];
    let launch = ["-q", "-o", "run7", "--", "mpirun.openmpi", "--oversubscribe", "-n", "4", IOTIDE];
    let mut job = record(&dir, &[&launch[..], &ioskel].concat());
    let (status, end) = follower.ends();
    assert!(job.0.wait().unwrap().success(), "{}", dir.read("record.log"));
    assert_eq!((status, &end["reason"]), (0, &Value::from("job_over")), "{end}");
    assert_eq!(end["losses"], Value::Array(Vec::new()), "{end}");
    assert_eq!(end["source"]["bytes_written"], 4 * 8 * 256 * 1024);
    assert_eq!(sums(&end["source"]), held_by(&dir, "run7"));
    assert_eq!(end["source"]["n_ranks"], 4);
    // The period as it was on this machine at this time, by the whole trace.
    let whole = dir.iotide(["detect", "--format", "json", "run7"]).json();
    let Some(period_s) = whole["runs"][0]["period"]["period_s"].as_f64() else { return false };
    let phases = whole["runs"][0]["phases"].as_array().unwrap();
    let starts_s: Vec<f64> = phases.iter().map(|phase| phase["start_s"].as_f64().unwrap()).collect();
    let is_even = |pair: &[f64]| ((pair[1] - pair[0]) / period_s - 1.0).abs() < 0.1;
    if !starts_s[..5].windows(2).all(is_even) {
        return false;
    }
    // What is first said about the time after the fourth phase; on a busy machine that may be said late, and then more phases are known.
    let after_four =
        follower.of_kind("prediction").into_iter().find(|p| p["at_s"].as_f64() > Some(starts_s[3]));
    let found = after_four.as_ref().and_then(|prediction| prediction["period_s"].as_f64());
    assert!(
        found.is_some_and(|found| (found - period_s).abs() < 0.15 * period_s),
        "{found:?} after four phases, {period_s} by all of them: {after_four:#?}"
    );
    true
}

#[test]
fn a_writer_that_is_killed_has_lost_nothing_it_had_written() {
    let dir = Dir::new();
    let mut follower = Follower::start(&dir, "f", &["--follow", "run8"]);
    let mut job = record(
        &dir,
        &["-q", "-o", "run8", "--", IOTIDE, "ioskel", "-p", "200ms", "-s", "64K", "-n", "1000", "-j", "2"],
    );
    follower.wait_for_lines("predictions", |lines| lines.len() >= 2);
    let group = format!("-{}", job.0.id());
    assert!(Command::new("kill").args(["-KILL", "--", &group]).status().unwrap().success());
    job.0.wait().unwrap();
    let (_, end) = follower.ends();
    assert_eq!(end["reason"], "job_over", "{end}");
    assert_eq!(sums(&end["source"]), held_by(&dir, "run8"));
    let losses = end["losses"].to_string();
    assert!(losses.contains("terminated abnormally"), "{losses}");
}

#[test]
fn a_follower_that_is_killed_and_started_anew_has_seen_everything() {
    let dir = Dir::new();
    let mut first = Follower::start(&dir, "first", &["--follow", "run9"]);
    let mut job = record(
        &dir,
        &["-q", "-o", "run9", "--", IOTIDE, "ioskel", "-p", "400ms", "-s", "64K", "-n", "15", "-j", "2"],
    );
    first.wait_for_lines("predictions", |lines| !lines.is_empty());
    first.kill();
    let mut second = Follower::start(&dir, "second", &["--follow", "run9"]);
    let (_, end) = second.ends();
    assert!(job.0.wait().unwrap().success());
    assert_eq!(sums(&end["source"]), held_by(&dir, "run9"));
    assert_eq!(end["source"]["bytes_written"], 2 * 15 * 64 * 1024);
    assert_eq!(end["losses"], Value::Array(Vec::new()), "{end}");
    // Once more after the job: the same events, so the same last word.
    let mut third = Follower::start(&dir, "third", &["--follow", "run9"]);
    let (_, again) = third.ends();
    assert_eq!(sums(&again["source"]), sums(&end["source"]));
}

#[test]
fn a_listener_that_is_cut_off_and_comes_back_misses_nothing_beside_the_files() {
    let dir = Dir::new();
    let args = ["--listen", "unix:socket", "--follow", "run10"];
    let mut first = Follower::start(&dir, "first", &args);
    first.address();
    let stream = format!("unix:{}", dir.path().join("socket").display());
    let mut job = record(
        &dir,
        &[
            "-q", "-o", "run10", "--stream", &stream, "--", IOTIDE, "ioskel", "-p", "300ms", "-s", "64K",
            "-n", "30", "-j", "2",
        ],
    );
    first.wait_for_lines("predictions", |lines| !lines.is_empty());
    first.kill();
    let mut second = Follower::start(&dir, "second", &args);
    second.wait_for_lines("predictions", |lines| !lines.is_empty());
    // Someone asks meanwhile, and watches.
    let mut asker = UnixStream::connect(dir.path().join("socket")).unwrap();
    asker.write_all(b"latest\nwatch\n").unwrap();
    let mut answers = BufReader::new(asker);
    let mut answer = || {
        let mut line = String::new();
        answers.read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
    };
    let (latest, watched, next) = (answer(), answer(), answer());
    assert_eq!((&latest["kind"], &watched["number"]), (&Value::from("prediction"), &latest["number"]));
    assert!(next["number"].as_u64() > latest["number"].as_u64());
    let (_, end) = second.ends();
    assert!(job.0.wait().unwrap().success());
    assert_eq!(end["losses"], Value::Array(Vec::new()), "{end}");
    assert_eq!(sums(&end["source"]), held_by(&dir, "run10"));
    assert_eq!(end["source"]["bytes_written"], 2 * 30 * 64 * 1024);
    assert!(!dir.path().join("socket").exists(), "the socket is left behind");
}

/// Two runs outside any scheduler, and a third one in two pieces that a scheduler's name holds together.
#[test]
fn jobs_on_one_socket_get_an_answer_each() {
    let dir = Dir::new();
    let mut follower = Follower::start(&dir, "f", &["--listen", "unix:socket", "--idle", "20s"]);
    follower.address();
    let stream = format!("unix:{}", dir.path().join("socket").display());
    let start = |name: &str, period: &str, n: &str, size: &str, job: Option<&str>| {
        let mut command = dir.command(["record", "-q", "-o", name, "--stream", &stream, "--", IOTIDE]);
        command.args(["ioskel", "-p", period, "-s", size, "-n", n]);
        command.envs(job.map(|job| ("IOTIDE_JOB_ID", job)));
        Job(command.stdout(Stdio::null()).spawn().unwrap())
    };
    let mut running = [
        start("quick", "800ms", "10", "64K", None),
        start("slow", "1500ms", "6", "256K", None),
        start("one", "500ms", "6", "32K", Some("4711")),
        start("two", "500ms", "6", "32K", Some("4711")),
    ];
    // Who asks is told of the job that is named.
    follower.wait_for_lines("a prediction for 4711", |lines| lines.iter().any(|line| line["job"] == "4711"));
    let mut asker = UnixStream::connect(dir.path().join("socket")).unwrap();
    asker.write_all(b"latest 4711\nlatest nobody\njobs\n").unwrap();
    let mut answers = BufReader::new(asker).lines().map(|line| line.unwrap());
    let latest: Value = serde_json::from_str(&answers.next().unwrap()).unwrap();
    assert_eq!(latest["job"], "4711");
    assert_eq!(answers.next().unwrap(), "null");
    let all: Value = serde_json::from_str(&answers.next().unwrap()).unwrap();
    let named =
        all["jobs"].as_array().unwrap().iter().find(|job| job["prediction"]["job"] == "4711").unwrap();
    assert!(named["age_s"].as_f64().unwrap() < 60.0 && named["prediction"]["kind"] == "prediction", "{all}");
    for job in &mut running {
        assert!(job.0.wait().unwrap().success());
    }
    follower.ends();
    let ends = follower.of_kind("end");
    let end_of = |written: u64| {
        let found = ends.iter().find(|end| end["source"]["bytes_written"] == written);
        found.unwrap_or_else(|| panic!("{written} bytes: {ends:#?}"))
    };
    assert_eq!(ends.len(), 3, "{ends:#?}");
    let (quick, slow, named) = (end_of(10 * 64 * 1024), end_of(6 * 256 * 1024), end_of(2 * 6 * 32 * 1024));
    assert_eq!(named["job"], "4711");
    assert!(quick["job"] != slow["job"] && quick["job"].as_str().unwrap().starts_with("iotide-"), "{quick}");
    let period_s = |end: &Value| end["period_s"].as_f64().unwrap_or(0.0);
    assert!((0.7..0.9).contains(&period_s(quick)), "{quick}");
    assert!((1.3..1.7).contains(&period_s(slow)), "{slow}");
    assert_eq!(sums(&quick["source"]), held_by(&dir, "quick"));
    assert_eq!(sums(&slow["source"]), held_by(&dir, "slow"));
    for end in &ends {
        assert_eq!(end["losses"], Value::Array(Vec::new()), "{end}");
    }
}

#[test]
fn what_the_tracer_streams_over_tcp_is_heard_without_any_file() {
    let dir = Dir::new();
    let mut follower = Follower::start(&dir, "f", &["--listen", "tcp:127.0.0.1:0"]);
    let stream = follower.address();
    let mut job = record(
        &dir,
        &[
            "-q", "-o", "run", "--stream", &stream, "--", IOTIDE, "ioskel", "-p", "200ms", "-s", "64K", "-n",
            "8",
        ],
    );
    assert!(job.0.wait().unwrap().success());
    let (_, end) = follower.ends();
    assert_eq!(sums(&end["source"]), held_by(&dir, "run"));
    assert_eq!(end["losses"], Value::Array(Vec::new()), "{end}");
}

#[test]
fn who_says_nonsense_on_the_socket_is_turned_away_and_the_others_are_not() {
    let dir = Dir::new();
    let mut follower = Follower::start(&dir, "f", &["--listen", "unix:socket"]);
    follower.address();
    let connect = || UnixStream::connect(dir.path().join("socket")).unwrap();
    let mut good = connect();
    good.write_all(b"lat").unwrap();
    for nonsense in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 4096], b"\x89IOTIDE\n\xff\xff\0\0\0\0\0\0"] {
        let mut bad = connect();
        // It may be gone before all is said.
        let _ = bad.write_all(nonsense);
        let mut rest = Vec::new();
        let _ = bad.read_to_end(&mut rest);
        assert_eq!(rest, b"");
    }
    good.write_all(b"est\n").unwrap();
    let mut answer = String::new();
    BufReader::new(&good).read_line(&mut answer).unwrap();
    assert_eq!(answer, "null\n", "nothing was predicted yet");
    assert_eq!(follower.of_kind("notice").len(), 3);
    follower.kill();
}

/// The messages of FTIO's senders, sent by ZeroMQ's own library.
#[test]
fn messages_of_tmio_and_gekkofs_come_by_zeromq() {
    let pythons = ["python3", "/usr/bin/python3"];
    let has_zmq = |python: &&&str| {
        let checked = Command::new(python).args(["-c", "import zmq"]).stderr(Stdio::null()).status();
        checked.is_ok_and(|status| status.success())
    };
    let Some(python) = pythons.iter().find(has_zmq) else {
        skip(Missing::Program, "/usr/lib/python3/dist-packages/zmq/__init__.py");
        return;
    };
    let dir = Dir::new();
    let mut follower = Follower::start(&dir, "f", &["--listen", "zmq:tcp://127.0.0.1:0"]);
    let address = follower.address();
    let script = r#"
import struct, sys, zmq
def number(x): return b"\xcb" + struct.pack(">d", x)
def array(xs): return b"\xdc" + struct.pack(">H", len(xs)) + b"".join(xs)
def text(s): return bytes([0xa0 | len(s)]) + s.encode()
def tmio(t):
    request = array([number(v) for v in (1e6, t, t + 1.0, t + 1.0, 0, 1e6, 0, 1e6, 1)])
    mode = [text("write_sync"), b"\xc2", b"\xc3"] + [number(0)] * 9 + [number(4), array([request])]
    return array(mode) + array([text("io_time"), number(1.0)])
def direct(t): return b"\x83" + text("b") + array([number(2e6)]) + text("ts") + array([number(t)]) + text("te") + array([number(t + 1.0)])
def gekko(t):
    us = lambda s: b"\xce" + struct.pack(">I", int(s * 1e6))
    return us(t) + text("node1") + b"\xd1\x63\xd8" + text("w") + array([us(t)]) + array([us(t + 1.0)]) + array([number(3e6)]) + b"\x01" + number(3e6)
context = zmq.Context()
socket = context.socket(zmq.PUSH)
socket.connect(sys.argv[1])
for i in range(12):
    make = (tmio, direct, gekko)[i % 3]
    socket.send(make(10.0 * i))
socket.send(b"nonsense")
socket.close()
context.term()
"#;
    let endpoint = address.strip_prefix("zmq:").unwrap();
    let sent = Command::new(python).args(["-c", script, endpoint]).status().unwrap();
    assert!(sent.success());
    follower.interrupt();
    let (status, end) = follower.ends();
    assert_eq!(status, 0, "{end}");
    assert_eq!(
        (&end["source"]["n_events"], &end["source"]["bytes_written"]),
        (&12.into(), &24_000_000.into())
    );
    assert_eq!(end["losses"].as_array().unwrap().len(), 1, "{end}");
    let period_s = follower.of_kind("prediction").pop().unwrap()["period_s"].as_f64().unwrap();
    assert!((period_s - 10.0).abs() < 0.5, "{period_s}");
}

/// The screen, in a terminal that `script` makes.
#[test]
fn the_screen_shows_period_and_countdown_and_gives_the_terminal_back() {
    let Some(script) = program("script") else { return };
    let dir = Dir::new();
    dir.write("run.csv", bursts("write"));
    // The command that is told of the prediction presses Ctrl-C, so to speak.
    let follow = format!(
        "stty rows 30 cols 90; {IOTIDE} detect --follow run.csv --on-prediction 'kill -INT $PPID'; echo status $?; stty -a"
    );
    let status = (Command::new(script).args(["-q", "-e", "-c", &follow, "typescript"]))
        .current_dir(dir.path())
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success());
    let seen = String::from_utf8_lossy(&fs::read(dir.path().join("typescript")).unwrap()).into_owned();
    let (before, after) = seen.split_once("\x1b[?1049l").unwrap_or_else(|| panic!("{seen:?}"));
    let (_, screen) = before.split_once("\x1b[?1049h").unwrap_or_else(|| panic!("{seen:?}"));
    for shown in ["run.csv", "period", "5 s", "next phase", "up to 1 MB/s", "predictions", "Ctrl-C ends"] {
        assert!(screen.contains(shown), "{shown:?} is missing: {screen:?}");
    }
    assert!(screen.contains("in \x1b[1m") || screen.contains("in "), "{screen:?}");
    assert!(screen.contains("\x1b[?25l") && before.contains("\x1b[?25h"), "the cursor is hidden and shown");
    assert!(after.contains("status 0") && after.contains("stopped: 10 events"), "{after:?}");
    let settings: Vec<&str> = after.split([' ', ';', '\r', '\n']).collect();
    assert!(settings.contains(&"echo") && settings.contains(&"icanon"), "{after:?}");
}

#[test]
fn without_a_terminal_there_are_plain_lines() {
    let dir = Dir::new();
    dir.write("run.csv", bursts("write"));
    let outcome = dir.iotide(["detect", "--follow", "run.csv", "--idle", "1"]).exits_with(0);
    assert!(!outcome.stdout.contains('\x1b'));
    assert!(outcome.stdout.contains("period 5 s"), "{}", outcome.stdout);
    assert!(
        outcome.stdout.contains("nothing more came: 10 events, 0 B read, 10 MB written"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn polling_finds_what_the_kernel_does_not_tell() {
    let dir = Dir::new();
    let mut follower = Follower::start(&dir, "f", &["--follow", "run.csv", "--poll", "50ms", "--idle", "2"]);
    let mut table = String::from("rank,op,start,end,bytes\n");
    for i in 0..10 {
        writeln!(table, "0,write,{},{},1000", i * 5, i * 5 + 1).unwrap();
        fs::write(dir.path().join("run.csv"), &table).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    follower.wait_for_lines("predictions", |lines| !lines.is_empty());
    follower.interrupt();
    let (_, end) = follower.ends();
    assert_eq!(end["source"]["n_events"], 10, "{end}");
}

#[test]
fn a_follower_needs_something_to_follow() {
    let dir = Dir::new();
    let complaint = dir.iotide(["detect", "--listen", "nowhere"]).exits_with(2).complaint();
    assert!(complaint.contains("unix:PATH, tcp:HOST:PORT or zmq:tcp://HOST:PORT"), "{complaint}");
    dir.iotide(["detect", "--follow"]).exits_with(2);
    dir.iotide(["detect", "--follow", "-"]).exits_with(2);
    dir.iotide(["detect", "--listen", "unix:s", "run.csv"]).exits_with(2);
    assert!(!Path::new("s").exists());
}

#[test]
fn options_that_have_no_meaning_while_a_job_runs_are_refused() {
    let dir = Dir::new();
    dir.write("run.csv", bursts("write"));
    for (options, complaint) in [
        (&["--window", "0:10"][..], "--method auto takes no --window while a job runs"),
        (&["--freq", "10"], "takes no --freq"),
        (&["--tolerance", "0.5"], "takes no --tolerance"),
        (&["--outliers", "dbscan"], "takes no --outliers"),
        (&["--harmonics", "two"], "takes no --harmonics"),
        (&["--method", "dft", "--top", "3"], "--top has no meaning while a job runs"),
        (&["--skip-first-phase"], "--skip-first-phase has no meaning"),
        (&["--method", "dft", "--adapt", "change-points"], "--method dft has no change points"),
    ] {
        let mut command = dir.command(["detect", "--follow", "--idle", "1", "run.csv"]);
        let refused = Outcome::of(command.args(options).output().unwrap()).exits_with(2);
        assert!(refused.stderr.contains(complaint), "{options:?}: {}", refused.stderr);
    }
    let refused = dir.iotide(["detect", "--adapt", "all", "run.csv"]).exits_with(2);
    assert!(refused.stderr.contains("--adapt has a meaning only with --follow"), "{}", refused.stderr);
}

#[test]
fn the_method_of_the_paper_follows_with_the_options_it_was_given() {
    let dir = Dir::new();
    dir.write("run.csv", bursts("write"));
    let follow = |options: &[&str]| {
        let args = ["detect", "--format", "json", "--follow", "--idle", "1", "--method", "dft", "run.csv"];
        let out = Outcome::of(dir.command(args).args(options).output().unwrap()).exits_with(0);
        let lines: Vec<Value> = out.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        lines.into_iter().rfind(|line| line["kind"] == "prediction").unwrap()
    };
    let all = follow(&["--adapt", "all"]);
    assert_eq!(all["reason"], "new_data", "{all}");
    assert!((all["period_s"].as_f64().unwrap() - 5.0).abs() < 0.5, "{all}");
    let cut = follow(&["--adapt", "all", "--window", "20:"]);
    assert!(cut["window_s"][0].as_f64().unwrap() >= 20.0, "{cut}");
    let fixed = follow(&["--adapt", "length=25s"]);
    let [from_s, to_s] = [0, 1].map(|i| fixed["window_s"][i].as_f64().unwrap());
    assert!(to_s - from_s <= 25.0, "{fixed}");
}

#[test]
fn the_paper_s_window_gives_the_steps_of_ftio_line_by_line() {
    let Some(golden) = iotide_testkit::shared_data("ftio/golden_online.json") else { return };
    let Some(trace) = iotide_testkit::shared_data("ftio/tmio/JSONL/8.jsonl") else { return };
    let golden: Value = serde_json::from_str(&fs::read_to_string(golden).unwrap()).unwrap();
    let steps = golden["8.jsonl|frequency_hits"].as_array().unwrap();
    let lines: Vec<String> = fs::read_to_string(trace).unwrap().lines().map(str::to_owned).collect();
    let dir = Dir::new();
    let mut follower = Follower::start(
        &dir,
        "f",
        &["--follow", "grows.jsonl", "--method", "dft", "--adapt", "hits=3", "--mode", "write"],
    );
    let mut grows = File::create(dir.path().join("grows.jsonl")).unwrap();
    // TMIO writes seven lines a flush. The last flush has no new writes: FTIO looks again, we have nothing to say.
    for (n, (flush, step)) in lines.chunks(7).zip(&steps[..steps.len() - 1]).enumerate() {
        grows.write_all(format!("{}\n", flush.join("\n")).as_bytes()).unwrap();
        wait_until("a prediction", || follower.of_kind("prediction").len() > n);
        let told = follower.of_kind("prediction").pop().unwrap();
        for (i, key) in ["t_start", "t_end"].iter().enumerate() {
            let gap = told["window_s"][i].as_f64().unwrap() - step[key].as_f64().unwrap();
            assert!(gap.abs() < 1e-6, "{step}: {told}");
        }
        let numbers = |key: &str| step[key].as_array().unwrap().iter().map(|x| x.as_f64().unwrap());
        let expected = numbers("freqs").zip(numbers("conf")).max_by(|a, b| a.1.total_cmp(&b.1));
        match (told["frequency_hz"].as_f64(), expected) {
            (Some(found), Some((frequency, confidence))) => {
                assert!((found / frequency - 1.0).abs() < 1e-6, "{step}: {told}");
                assert!((told["confidence"].as_f64().unwrap() - confidence).abs() < 1e-6, "{step}: {told}");
            }
            (found, expected) => assert!(found.is_none() && expected.is_none(), "{step}: {told}"),
        }
    }
    follower.kill();
}

#[test]
fn a_follower_that_is_stopped_does_not_say_of_a_running_program_that_it_ended() {
    let dir = Dir::new();
    let mut follower = Follower::start(&dir, "f", &["--follow", "run9"]);
    let _job = record(
        &dir,
        &["-q", "-o", "run9", "--", IOTIDE, "ioskel", "-p", "200ms", "-s", "64K", "-n", "1000", "-j", "1"],
    );
    follower.wait_for_lines("predictions", |lines| lines.len() >= 2);
    let pid = follower.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    let (_, end) = follower.ends();
    assert_eq!(end["reason"], "interrupted", "{end}");
    let losses = end["losses"].to_string();
    assert!(losses.contains("was still running") && !losses.contains("ended"), "{losses}");
}
