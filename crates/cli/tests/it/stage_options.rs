use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

use iotide_testkit::{FreshDir, Missing, port, shared_data, skip};

use crate::serve::{Daemon, IOTIDE, ask, record, unix_get};
use crate::stage::{ONCE, pair, stage};
use crate::util::Dir;

/// A file of so many bytes that was written so many seconds after 1970.
fn aged(dir: &Dir, name: &str, size: usize, age_s: u64) {
    dir.write(&format!("src/{name}"), vec![b'x'; size]);
    let file = File::options().write(true).open(dir.path().join("src").join(name)).unwrap();
    file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(age_s)).unwrap();
}

/// Waits until all files have been left alone for as long as [`ONCE`] asks: then none is passed over at the first look.
fn let_rest() {
    std::thread::sleep(Duration::from_millis(31));
}

/// The files that arrived, in the order of their receipts.
fn order(dir: &Dir) -> Vec<String> {
    let receipts = fs::read_dir(dir.path().join("dst/.iotide-stage")).unwrap().flatten();
    let receipts =
        receipts.map(|entry| entry.path()).find(|path| path.extension().is_some_and(|end| end == "jsonl"));
    let text = fs::read_to_string(receipts.unwrap()).unwrap();
    let lines = text.lines().skip(1).map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    lines.map(|line| line["path"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn files_go_in_the_order_that_was_asked_for() {
    for (options, wanted) in [
        (&[][..], ["old", "small", "new", "middle"]),
        (&["--order", "newest"], ["middle", "new", "small", "old"]),
        (&["--order", "smallest"], ["small", "middle", "new", "old"]),
        (&["--order", "smallest", "--first", "n*"], ["new", "small", "middle", "old"]),
    ] {
        let dir = pair();
        for (name, size, age_s) in
            [("new", 3000, 30), ("old", 4000, 10), ("small", 1000, 20), ("middle", 2000, 40)]
        {
            aged(&dir, name, size, age_s);
        }
        let_rest();
        // One after the other: of two at once either may be done first.
        stage(dir.path(), &[&ONCE[..], &["--jobs", "1"], options].concat()).exits_with(0);
        assert_eq!(order(&dir), wanted, "{options:?}");
    }
}

#[test]
fn only_what_there_is_no_room_for_is_removed_the_oldest_first() {
    let dir = pair();
    for (name, age_s) in [("c", 30), ("a", 10), ("d", 40), ("b", 20)] {
        aged(&dir, name, 100_000, age_s);
    }
    let_rest();
    // One after the other: of those that are safe the oldest goes, and of two at once either may be safe first.
    let space = ["--purge", "space", "--capacity", "500000", "--high-water", "0.5", "--jobs", "1"];
    stage(dir.path(), &[&ONCE[..], &space].concat()).exits_with(0);
    // 400,000 bytes are above the mark of 250,000; two files are within nine tenths of it.
    let left = |dir: &Dir| ["a", "b", "c", "d"].map(|name| dir.path().join("src").join(name).exists());
    assert_eq!(left(&dir), [false, false, true, true]);
    // Below the mark nothing goes; and what went is safe.
    stage(dir.path(), &[&ONCE[..], &space].concat()).exits_with(0);
    assert_eq!(left(&dir), [false, false, true, true]);
    let told = stage(dir.path(), &["status", "dst", "--format", "json"]).exits_with(0).json();
    assert_eq!((&told["files"]["safe"], &told["purged_bytes"]), (&4.into(), &200_000.into()), "{told:#}");
    for options in [["--high-water", "0"], ["--high-water", "1.5"], ["--capacity", "much"]] {
        let told = stage(dir.path(), &[&ONCE[..], &options].concat()).exits_with(2).stderr;
        assert!(told.contains(options[0]), "{told}");
    }
}

#[test]
fn a_bandwidth_is_kept_and_a_deadline_leaves_the_rest_with_its_reason() {
    let dir = pair();
    dir.write("src/first", vec![1; 1 << 20]);
    dir.write("src/second", vec![2; 1 << 20]);
    // Written and read back, one after the other: four pieces of a megabyte, and the first of them goes at once.
    let began = Instant::now();
    stage(dir.path(), &[&ONCE[..], &["--bandwidth", "16M", "--jobs", "1"]].concat()).exits_with(0);
    assert!(began.elapsed() >= Duration::from_millis(3 * 1000 / 16));
    dir.write("src/third", vec![3; 8 << 20]);
    let late = ["--bandwidth", "1M", "--deadline", "300ms", "--format", "json"];
    let told = stage(dir.path(), &[&ONCE[..], &late].concat()).exits_with(1).json();
    assert_eq!((&told["files"]["safe"], &told["files"]["waiting"]), (&2.into(), &1.into()), "{told:#}");
    assert_eq!(told["left"][0]["why"], "stopped before its turn", "{told:#}");
    assert!(!dir.path().join("dst/third").exists());
    assert!(no_temporary_files(&dir.path().join("dst")));
    // In an epilog: the deadline begins when the job is over, which it is at once.
    let told =
        stage(dir.path(), &[&ONCE[..], &["--policy", "end", "--deadline", "1min"]].concat()).exits_with(0);
    assert!(told.stdout.starts_with("3 files"), "{}", told.stdout);
}

fn no_temporary_files(dst: &Path) -> bool {
    let names = fs::read_dir(dst).unwrap().flatten().map(|entry| entry.file_name());
    !names.into_iter().any(|name| name.to_string_lossy().starts_with(".iotide-stage-"))
}

pub(crate) fn start<const N: usize>(dir: &Dir, args: [&str; N]) -> Child {
    dir.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

pub(crate) fn wait_for(path: &Path) {
    while !path.exists() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_job_that_sends_its_trace_is_staged_and_its_end_is_the_end() {
    let dir = pair();
    let stager = start(
        &dir,
        ["stage", "out", "src", "dst", "--quiet", "30ms", "--listen", "unix:socket", "--format", "json"],
    );
    wait_for(&dir.path().join("socket"));
    let script = "for i in 1 2 3; do echo $i > src/$i; done";
    dir.iotide(["record", "--stream", "unix:socket", "--", "sh", "-c", script]).exits_with(0);
    let ended = crate::util::Outcome::of(stager.wait_with_output().unwrap()).exits_with(0);
    assert_eq!(ended.json()["files"]["safe"], 3, "{ended:#?}");
    assert_eq!(["1", "2", "3"].map(|name| dir.read(&format!("dst/{name}"))), ["1\n", "2\n", "3\n"]);
    for options in [["--listen", "somewhere"], ["--listen", "unix:/nowhere/socket"]] {
        let told = stage(dir.path(), &["out", "src", "dst", options[0], options[1]]).exits_with(2).stderr;
        assert!(told.contains(options[1].strip_prefix("unix:").unwrap_or(options[1])), "{told}");
    }
}

#[test]
fn inputs_come_beside_a_job_while_it_is_silent_and_not_after_it() {
    let dir = pair();
    dir.write("src/input", "x");
    let fetch = ["stage", "in", "src", "dst", "--listen", "unix:socket", "--format", "json"];
    let told = dir.iotide(fetch).exits_with(0).json();
    assert_eq!((&told["files"]["safe"], dir.read("dst/input")), (&1.into(), "x".to_owned()), "{told:#}");
    assert!(!dir.path().join("socket").exists(), "its socket goes with it");
    // So slowly that the job ends before.
    dir.write("src/large", vec![7; 4 << 20]);
    let fetch = dir.command(fetch).args(["--bandwidth", "1"]).stdout(Stdio::piped()).spawn().unwrap();
    wait_for(&dir.path().join("socket"));
    dir.iotide(["record", "--stream", "unix:socket", "--", "sh", "-c", "echo > src/result"]).exits_with(0);
    let ended = crate::util::Outcome::of(fetch.wait_with_output().unwrap()).exits_with(1);
    assert_eq!(ended.json()["left"][0]["why"], "stopped before its turn", "{ended:#?}");
    assert!(!dir.path().join("dst/large").exists());
}

#[test]
fn staging_is_a_job_of_its_own_and_the_last_at_an_arbiter() {
    let dir = pair();
    dir.write("src/file", vec![7; 300_000]);
    let mut arbiter = start(&dir, ["arbiter", "unix:gate", "--control", "control"]);
    wait_for(&dir.path().join("control"));
    let mut command = dir.command(["stage", "out", "src", "dst", "--quiet", "30ms", "--gate", "unix:gate"]);
    command
        .args(["--control", "control"])
        .env("SLURM_JOB_ID", "77")
        .env("IOTIDE_LIVE", dir.path().join("pages"));
    // The tracer of the job itself is none of ours: nothing is added to its trace.
    command.env("IOTIDE_DIR", dir.path().join("trace"));
    let mut stager = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let jobs = loop {
        let told = dir.iotide(["sets", "show", "control", "--format", "json"]).exits_with(0).json();
        let jobs = told["runs"][0]["jobs"].clone();
        if jobs[0]["period_s"].is_number() {
            break jobs;
        }
        assert!(stager.try_wait().unwrap().is_none(), "{told:#}");
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!((&jobs[0]["job"], &jobs[0]["period_s"]), (&"stage-77".into(), &1e6.into()), "{jobs:#}");
    assert!(Command::new("kill").arg(stager.id().to_string()).status().unwrap().success());
    assert_eq!(stager.wait().unwrap().code(), Some(0));
    assert!(!dir.path().join("trace").exists());
    // Copied and read back; the arbiter may hear of it a moment later.
    let told = || dir.iotide(["sets", "show", "control", "--format", "json"]).exits_with(0).json();
    while told()["runs"][0]["jobs"][0]["bytes"].as_u64() < Some(600_000) {
        std::thread::sleep(Duration::from_millis(5));
    }
    while_room_runs_out_it_has_the_period_of_its_job(&dir);
    arbiter.kill().unwrap();
    arbiter.wait().unwrap();
    let told =
        stage(dir.path(), &["out", "src", "dst", "--once", "--control", "control"]).exits_with(2).stderr;
    assert!(told.contains("cannot connect to control"), "{told}");
}

/// A control socket that says of job 77 what the test says, and how often it was asked.
fn a_storage(path: &Path, is_active: &Arc<AtomicBool>) -> Arc<AtomicU32> {
    use std::io::{BufRead, BufReader, Write};
    let socket = std::os::unix::net::UnixListener::bind(path).unwrap();
    let n_asked = Arc::new(AtomicU32::new(0));
    let (is_active, n) = (Arc::clone(is_active), Arc::clone(&n_asked));
    std::thread::spawn(move || {
        for stream in socket.incoming().flatten() {
            let mut line = String::new();
            let _ = BufReader::new(&stream).read_line(&mut line);
            let job = |name: &str, share: &str| {
                format!(
                    r#"{{"job":"{name}","period_s":20,"period_source":"predicted","set":"1","share":{share},"bandwidth_bps":1,"bytes":1,"waiting":0,"phases":3}}"#
                )
            };
            let share = if is_active.load(Relaxed) { "0.5" } else { "null" };
            let jobs = [job("77", share), job("stage-77", "null")].join(",");
            let _ = writeln!(&stream, r#"{{"policy":"set10","rules":"iotide","jobs":[{jobs}]}}"#);
            n.fetch_add(1, Relaxed);
        }
    });
    n_asked
}

/// Within a batch job `stage out` has another name; the storage knows the job by its own.
#[test]
fn while_an_arbiter_sees_the_job_do_io_nothing_is_copied() {
    let dir = pair();
    let is_active = Arc::new(AtomicBool::new(true));
    let n_asked = a_storage(&dir.path().join("control"), &is_active);
    let mut command = dir.command(["stage", "out", "src", "dst", "--predictions", "control"]);
    command.env("SLURM_JOB_ID", "77").env("IOTIDE_LIVE", dir.path().join("pages"));
    let mut stager = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    while n_asked.load(Relaxed) < 3 {
        assert!(stager.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(5));
    }
    dir.write("src/file", "x");
    let status = || fs::read_to_string(dir.path().join("src/.iotide-stage/status.json")).unwrap_or_default();
    while !status().contains("\"state\": \"hold\"") {
        assert!(!dir.path().join("dst/file").exists(), "{}", status());
        std::thread::sleep(Duration::from_millis(5));
    }
    is_active.store(false, Relaxed);
    wait_for(&dir.path().join("dst/file"));
    assert!(Command::new("kill").arg(stager.id().to_string()).status().unwrap().success());
    let ended = stager.wait_with_output().unwrap();
    let told = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success() && !told.contains("knows no job"), "{told}");
}

fn while_room_runs_out_it_has_the_period_of_its_job(dir: &Dir) {
    let mut job = dir.command(["record", "--", "dd", "if=/dev/zero", "of=elsewhere", "bs=1M", "count=1"]);
    job.env("SLURM_JOB_ID", "77")
        .env("IOTIDE_GATE", "unix:gate")
        .env("IOTIDE_LIVE", dir.path().join("pages"));
    assert!(job.output().unwrap().status.success());
    let say = |line: &str| {
        use std::io::{BufRead, Write};
        let mut control = std::os::unix::net::UnixStream::connect(dir.path().join("control")).unwrap();
        writeln!(control, "{line}").unwrap();
        let mut answer = String::new();
        std::io::BufReader::new(control).read_line(&mut answer).unwrap();
        answer
    };
    // The arbiter may hear of it a moment later.
    while !say("period 77 5").contains("true") {
        std::thread::sleep(Duration::from_millis(5));
    }
    // The first goes at once, the second after an hour.
    for name in ["src/one", "src/two"] {
        dir.write(name, vec![7; 300_000]);
    }
    let full = ["--purge", "staged", "--capacity", "100k", "--bandwidth", "83", "--jobs", "1"];
    let mut command = dir.command(["stage", "out", "src", "dst", "--quiet", "30ms", "--control", "control"]);
    command.args(full).env("SLURM_JOB_ID", "77").env("IOTIDE_LIVE", dir.path().join("pages"));
    let mut stager = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let period_s = || {
        let told = dir.iotide(["sets", "show", "control", "--format", "json"]).exits_with(0).json();
        let jobs = told["runs"][0]["jobs"].as_array().unwrap().clone();
        jobs.iter().find(|job| job["job"] == "stage-77").unwrap()["period_s"].clone()
    };
    while period_s() != 5.0 {
        assert!(stager.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(5));
    }
    stager.kill().unwrap();
    stager.wait().unwrap();
}

#[test]
fn the_daemon_of_the_node_shows_what_is_left_in_the_buffers_of_a_job() {
    let dir = FreshDir::new("stage-daemon");
    for name in ["src", "dst"] {
        fs::create_dir(dir.join(name)).unwrap();
    }
    let daemon = Daemon::start(&dir);
    let mut job = record(&dir, "4711")
        .args(["sh", "-c", "head -c 1000000 /dev/zero > src/results; read _"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stager = Command::new(IOTIDE)
        .args(["stage", "out", "src", "dst", "--policy", "end", "--capacity", "2M"])
        .current_dir(dir.path())
        .env("IOTIDE_JOB_ID", "4711")
        .env("IOTIDE_LIVE", dir.join("pages"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let staging = loop {
        let staging = daemon.job("4711", "running")["staging"][0].clone();
        if staging["backlog_bytes"] == 1_000_000 {
            break staging;
        }
        assert!(stager.try_wait().unwrap().is_none(), "{staging:#}");
    };
    let src = fs::canonicalize(dir.join("src")).unwrap();
    assert_eq!((&staging["source"], &staging["bytes_safe"]), (&src.to_str().unwrap().into(), &0.into()));
    assert!(staging.as_object().unwrap().contains_key("full_at_s"), "{staging:#}");
    let list = String::from_utf8(ask(&dir, &["jobs"]).stdout).unwrap();
    assert!(list.contains("staging of 4711: 1 MB to go from "), "{list}");
    let (_, page) = unix_get(&dir, "/jobs/4711");
    assert!(page.contains("<h2>Staging") && page.contains(src.to_str().unwrap()), "{page}");
    assert!(Command::new("kill").arg(stager.id().to_string()).status().unwrap().success());
    assert_eq!(stager.wait().unwrap().code(), Some(0));
    // Nothing is left, and nobody says anything of it any more.
    assert!(daemon.job("4711", "running").get("staging").is_none());
    drop(job.stdin.take());
    job.wait().unwrap();
}

/// Script that replays a recording of a GekkoFS client as the client sends it, a hundred times as fast and again and again; each phase
/// also writes a file.
const REPLAY: &str = r#"
import itertools, json, os, struct, sys, threading, time, zmq
recorded, endpoint, folder, speed = json.load(open(sys.argv[1])), sys.argv[2], sys.argv[3], 100
def text(s): return bytes([0xa0 | len(s)]) + s.encode()
def number(n): return b"\xcf" + struct.pack(">Q", int(n))
def array(xs): return b"\xdc" + struct.pack(">H", len(xs)) + b"".join(xs)
requests = sorted(zip(recorded["start_t_micro"], recorded["end_t_micro"], recorded["req_size"]))
phases = []
for request in requests:
    if not phases or request[0] - phases[-1][-1][1] > 5e6: phases.append([])
    phases[-1].append(request)
length = (phases[-1][0][0] - phases[0][0][0]) * len(phases) / (len(phases) - 1)
context = zmq.Context()
socket = context.socket(zmq.PUSH)
socket.connect(endpoint)
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
began = time.monotonic()
for n in itertools.count():
    shift = n // len(phases) * length - phases[0][0][0]
    phase = [(start + shift, end + shift, size) for start, end, size in phases[n % len(phases)]]
    time.sleep(max(0, began + phase[-1][1] / 1e6 / speed - time.monotonic()))
    starts, ends = ([number(request[i] / speed) for request in phase] for i in (0, 1))
    sizes = [number(size) for _, _, size in phase]
    total = sum(size for _, _, size in phase)
    socket.send(number(phase[-1][1] / speed) + text(recorded["hostname"]) + number(recorded["pid"]) + text("w")
        + array(starts) + array(ends) + array(sizes) + number(len(phase)) + number(total))
    open(os.path.join(folder, f"phase-{n}"), "w").write("x" * 1000)
"#;

#[test]
fn what_a_client_of_gekkofs_sends_says_when_files_are_copied() {
    let Some(recorded) = shared_data("traces/gekkofs/write_2024-02-28_20-50-02_x0024_34250.json") else {
        return;
    };
    let has_zmq = |python: &&&str| {
        Command::new(python).args(["-c", "import zmq"]).output().is_ok_and(|output| output.status.success())
    };
    let Some(python) = ["python3", "/usr/bin/python3"].iter().find(has_zmq).copied() else {
        return skip(Missing::Program, "/usr/lib/python3/dist-packages/zmq/__init__.py");
    };
    let dir = pair();
    let endpoint = format!("tcp://127.0.0.1:{}", port());
    let listen = format!("zmq:{endpoint}");
    let mut stager = start(
        &dir,
        ["stage", "out", "src", "dst", "--quiet", "30ms", "--purge", "staged", "--listen", &listen],
    );
    let mut client = Command::new(python)
        .args(["-c", REPLAY])
        .arg(recorded)
        .arg(&endpoint)
        .arg(dir.path().join("src"))
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    // Until decisions rest on predictions, and a file has gone on their ground.
    let status = dir.path().join("src/.iotide-stage/status.json");
    loop {
        let told =
            fs::read(&status).ok().and_then(|json| serde_json::from_slice::<serde_json::Value>(&json).ok());
        if told.is_some_and(|told| told["basis"] == "predictions" && told["files"]["safe"].as_u64() > Some(0))
        {
            break;
        }
        assert!(client.try_wait().unwrap().is_none() && stager.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(client.stdin.take());
    client.wait().unwrap();
    assert!(Command::new("kill").arg(stager.id().to_string()).status().unwrap().success());
    assert_eq!(stager.wait().unwrap().code(), Some(0));
    assert!(dir.path().join("dst/phase-0").exists() && !dir.path().join("src/phase-0").exists());
}
