use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use iotide_testkit::{FreshDir, program};
use serde_json::Value;

/// Alarms, and their receivers.
mod alarms;
/// Jobs that the system knows by a cgroup.
mod cgroups;
/// Many users beside one another, one of whom means harm.
mod crowds;
/// Files of the store, cut and removed.
mod damage;
/// Dashboards and rules that are shipped.
mod dashboards;
/// Metrics of others.
mod exporters;
/// The next ten minutes, simulated.
mod forecast;
/// Models in Redis.
mod redis;
/// Samples that are sent elsewhere.
mod remote_write;
/// Questions in frames.
mod rpc;
/// Metrics over time, full disks, damaged files.
mod series;
/// Pages: roles, logins, harmful names, and a browser.
mod web;
/// Why a run was slow, from counters alone.
mod why;

pub(crate) const IOTIDE: &str = env!("CARGO_BIN_EXE_iotide");

/// A daemon with everything of its own in a directory.
pub(crate) struct Daemon<'a> {
    pub(crate) dir: &'a FreshDir,
    child: Child,
    /// The address of HTTP over TCP.
    http: String,
}

impl<'a> Daemon<'a> {
    pub(crate) fn start(dir: &'a FreshDir) -> Self {
        Self::start_by(dir, Command::new(IOTIDE))
    }

    /// Started by a command that begins with something else.
    fn start_by(dir: &'a FreshDir, command: Command) -> Self {
        Self::start_with(dir, command, &[])
    }

    /// With options of its own.
    pub(crate) fn start_with(dir: &'a FreshDir, mut command: Command, options: &[&str]) -> Self {
        command.args(["serve", "--http", "127.0.0.1:0", "--node", "n1"]).args(options);
        for (option, name) in [("--socket", "socket"), ("--store", "store"), ("--pages", "pages")] {
            command.arg(option).arg(dir.join(name));
        }
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut said = String::new();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        while !said.contains("serving at") {
            let n = stderr.read_line(&mut said).unwrap();
            assert!(n > 0, "the daemon did not start: {said}");
        }
        // It must not be stopped by a pipe that nobody reads.
        std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
        let http = said
            .replace("https://", "http://")
            .split("http://")
            .nth(1)
            .unwrap()
            .split(';')
            .next()
            .unwrap()
            .to_owned();
        Self { dir, child, http }
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Asks it to end, and waits until it has.
    pub(crate) fn stop(mut self) {
        let asked = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(asked.success() && self.child.wait().unwrap().success());
    }

    /// `iotide job ID`, once it has come to a state.
    pub(crate) fn job(&self, id: &str, state: &str) -> Value {
        loop {
            let output = ask(self.dir, &["job", id, "--format", "json"]);
            if let Ok(job) = serde_json::from_slice::<Value>(&output.stdout)
                && job["state"] == state
            {
                return job;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The most memory that the daemon ever had, in bytes.
    fn most_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
    }

    fn get_tcp(&self, path: &str, headers: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.http).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head[9..12].parse().unwrap(), body.to_owned())
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn ask(dir: &FreshDir, args: &[&str]) -> Output {
    Command::new(IOTIDE).args(args).env("IOTIDE_DAEMON", dir.join("socket")).output().unwrap()
}

/// `iotide record --live …`, whose pages go to where the daemon looks for them.
pub(crate) fn record(dir: &FreshDir, job: &str) -> Command {
    let mut command = Command::new(IOTIDE);
    command
        .args(["record", "--live", "-q", "--exclude", "*run.csv", "--"])
        .current_dir(dir.path())
        .env_remove("LD_PRELOAD")
        .env("IOTIDE_LIVE", dir.join("pages"))
        .env("IOTIDE_JOB_ID", job)
        .process_group(0)
        .stdout(Stdio::null());
    command
}

fn skeleton(command: &mut Command, period: &str, n: &str) {
    command.args([
        IOTIDE,
        "ioskel",
        "-p",
        period,
        "-s",
        "300000",
        "-n",
        n,
        "-j",
        "4",
        "--transfer-size",
        "32k",
    ]);
    command.args(["--turn-probability", "0.5", "--log", "run.csv"]);
}

/// Returns the bytes that the skeleton moved, by its own log.
pub(crate) fn logged(path: &Path, op: &str) -> u64 {
    let text = fs::read_to_string(path).unwrap();
    let rows = text.lines().skip_while(|line| line.starts_with('#')).skip(1);
    let rows = rows.map(|line| line.split(',').collect::<Vec<_>>()).filter(|cells| cells[1] == op);
    rows.map(|cells| cells[4].parse::<u64>().unwrap()).sum()
}

fn assert_counts_what_was_logged(job: &Value, dir: &FreshDir) {
    let log = dir.join("run.csv");
    assert_eq!(job["io"]["bytes_written"].as_u64(), Some(logged(&log, "write")), "{job:#}");
    assert_eq!(job["io"]["bytes_read"].as_u64(), Some(logged(&log, "read")), "{job:#}");
    assert_eq!(job["losses"], Value::Array(Vec::new()));
}

/// Kills a program and all that it has started.
pub(crate) fn kill_all(child: &mut Child) {
    let group = format!("-{}", child.id());
    assert!(Command::new("kill").args(["-9", "--", &group]).status().unwrap().success());
    child.wait().unwrap();
}

/// A moment that no two runs have in common.
pub(crate) fn some_moment(most_ms: u64) -> Duration {
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    Duration::from_micros(u64::from(clock.subsec_nanos()) / 7 % (most_ms * 1000))
}

#[test]
fn a_job_shows_exactly_what_the_skeleton_counted_itself() {
    let dir = FreshDir::new("serve-exact");
    let daemon = Daemon::start(&dir);
    let mut command = record(&dir, "4711");
    skeleton(&mut command, "20ms", "6");
    assert!(command.status().unwrap().success());
    let job = daemon.job("4711", "ended");
    assert_counts_what_was_logged(&job, &dir);
    assert!(job["io"]["bytes_written"].as_u64() > Some(0));
    assert_eq!((&job["trust"], &job["nodes"][0]), (&"claimed".into(), &"n1".into()));
    assert!(job["end_unix_s"].as_f64() > job["start_unix_s"].as_f64());
    // The sum of the parts is the whole, and its page is gone.
    let by = job["io"]["by"].as_array().unwrap();
    let written: u64 = by
        .iter()
        .filter(|cell| cell["op"] == "write" && cell["layer"] != "beneath")
        .map(|cell| cell["bytes"].as_u64().unwrap())
        .sum();
    assert_eq!(Some(written), job["io"]["bytes_written"].as_u64());
    assert!(fs::read_dir(dir.join("pages")).unwrap().next().is_none());

    // Measurements of its application, one a line, that models are made of.
    let (_, points) = unix_get(&dir, "/profiles/extrap?jobid=4711");
    let points: Vec<Value> = points.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let written_point =
        points.iter().find(|point| point["callpath"] == "posix->write" && point["metric"] == "size").unwrap();
    assert_eq!(
        (written_point["value"].as_f64(), written_point["params"]["size"].as_f64()),
        (Some(written as f64), job["size"].as_f64())
    );

    let text = String::from_utf8(ask(&dir, &["job", "4711"]).stdout).unwrap();
    assert!(text.contains(&format!("({written} bytes)")) && text.contains("losses: none"), "{text}");
    let jobs: Value = serde_json::from_slice(&ask(&dir, &["jobs", "--format", "json"]).stdout).unwrap();
    assert_eq!((jobs["jobs"].as_array().unwrap().len(), &jobs["jobs"][0]["job"]), (1, &"4711".into()));
    assert_eq!(ask(&dir, &["jobs", "--state", "running"]).status.code(), Some(1), "nothing runs");
    let top = String::from_utf8(ask(&dir, &["top"]).stdout).unwrap();
    assert!(top.starts_with("0 jobs running"), "{top}");
}

#[test]
fn a_program_that_is_killed_keeps_what_it_has_counted() {
    let dir = FreshDir::new("serve-killed");
    let daemon = Daemon::start(&dir);
    for round in 0..3 {
        let id = format!("killed-{round}");
        let script = format!(
            "for i in 1 2 3 4; do (exec dd if=/dev/zero of=file$i.{round} bs=1000 status=none) & done; wait"
        );
        let mut child = record(&dir, &id).args(["sh", "-c", &script]).spawn().unwrap();
        // So that there is something to be killed.
        while !(1..=4)
            .all(|i| fs::metadata(dir.join(format!("file{i}.{round}"))).is_ok_and(|file| file.len() > 0))
        {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::thread::sleep(some_moment(100));
        kill_all(&mut child);
        let job = daemon.job(&id, "ended");
        let written: u64 =
            (1..=4).map(|i| fs::metadata(dir.join(format!("file{i}.{round}"))).unwrap().len()).sum();
        let counted = job["io"]["bytes_written"].as_u64().unwrap();
        // A call that was cut by the signal has moved its bytes and was not counted yet.
        assert!(counted <= written && written - counted <= 4 * 1000, "round {round}: {counted} of {written}");
    }
}

#[test]
fn a_job_runs_on_in_a_program_that_counts_nothing() {
    let dir = FreshDir::new("serve-exec");
    let daemon = Daemon::start(&dir);
    // The shell writes, and then it is `sleep`, which makes no call that counts.
    let mut child =
        record(&dir, "exec").args(["sh", "-c", "echo written > f; exec sleep 1000"]).spawn().unwrap();
    let is_asleep = || {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        processes.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok()).any(|stat| {
            let in_group = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(2));
            stat.contains("(sleep)") && in_group == Some(&child.id().to_string())
        })
    };
    while !is_asleep() {
        std::thread::sleep(Duration::from_millis(5));
    }
    while daemon.job("exec", "running")["io"]["bytes_written"] != 8 {
        std::thread::sleep(Duration::from_millis(20));
    }
    // Until the daemon has looked at its pages a few times after that.
    for _ in 0..30 {
        let job = daemon.job("exec", "running");
        assert_eq!(job["io"]["bytes_written"], 8, "{job:#}");
        std::thread::sleep(Duration::from_millis(100));
    }
    kill_all(&mut child);
    assert_eq!(daemon.job("exec", "ended")["io"]["bytes_written"], 8);
}

#[test]
fn a_daemon_that_is_killed_again_and_again_loses_and_doubles_nothing() {
    let dir = FreshDir::new("serve-restarted");
    let mut daemon = Daemon::start(&dir);
    for round in 0..2 {
        let id = format!("restarted-{round}");
        let mut command = record(&dir, &id);
        skeleton(&mut command, "50ms", "40");
        let mut child = command.spawn().unwrap();
        let mut n_kills = 0;
        while child.try_wait().unwrap().is_none() {
            std::thread::sleep(some_moment(300));
            daemon.kill();
            n_kills += 1;
            std::thread::sleep(some_moment(100));
            daemon = Daemon::start(&dir);
        }
        assert!(child.wait().unwrap().success());
        // Once more while it settles.
        std::thread::sleep(some_moment(30));
        daemon.kill();
        daemon = Daemon::start(&dir);
        assert!(n_kills >= 2, "{n_kills}");
        assert_counts_what_was_logged(&daemon.job(&id, "ended"), &dir);
    }
    assert!(fs::read_dir(dir.join("pages")).unwrap().next().is_none());
}

#[test]
fn ids_that_lead_elsewhere_are_refused_and_counted() {
    let dir = FreshDir::new("serve-evil");
    let daemon = Daemon::start(&dir);
    for id in ["../../evil", "a\nb", "<script>"] {
        let output = ask(&dir, &["job", id]);
        assert_eq!(output.status.code(), Some(2));
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.contains("a job id consists of letters"), "{stderr}");
        assert!(
            record(&dir, id)
                .args(["dd", "if=/dev/zero", "of=out", "bs=1000", "count=3"])
                .status()
                .unwrap()
                .success()
        );
    }
    // The programs are counted all the same, as runs of `iotide record`.
    let jobs = loop {
        let output = ask(&dir, &["jobs", "--app", "dd", "--state", "ended", "--format", "json"]);
        let jobs: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if jobs["jobs"].as_array().is_some_and(|jobs| jobs.len() == 3) {
            break jobs;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert!(
        jobs["jobs"].as_array().unwrap().iter().all(|job| job["job"].as_str().unwrap().starts_with("dd-"))
    );
    let losses: Value = serde_json::from_str(&unix_get(&dir, "/api/1/losses").1).unwrap();
    assert!(losses["losses"].to_string().contains("3 processes that named an invalid job id"), "{losses}");
    let mut names = dir.names();
    names.sort();
    assert_eq!(names, ["out", "pages", "socket", "socket.rpc", "store"]);
    // A name of ten megabytes is too long for a question.
    let mut stream = UnixStream::connect(dir.join("socket")).unwrap();
    let _ = stream.write_all(format!("GET /api/1/jobs/{} HTTP/1.1\r\n\r\n", "x".repeat(10 << 20)).as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{}", String::from_utf8_lossy(&answer));
    assert!(daemon.most_memory() < 64 << 20);
}

pub(crate) fn unix_get(dir: &FreshDir, path: &str) -> (u16, String) {
    get_at(&dir.join("socket"), path)
}

/// Asks at a socket.
pub(crate) fn get_at(socket: &Path, path: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(socket).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head[9..12].parse().unwrap(), body.to_owned())
}

#[test]
fn hundreds_of_megabytes_of_junk_cost_little_memory_and_nobody_else_notices() {
    let dir = FreshDir::new("serve-junk");
    let daemon = Daemon::start(&dir);
    let junk = vec![b'x'; 1 << 20];
    let pour = |mut stream: Box<dyn ReadWrite>, head: &str| {
        let _ = stream.write_all(head.as_bytes());
        for _ in 0..300 {
            if stream.write_all(&junk).is_err() {
                return; // hung up on
            }
        }
    };
    for head in ["", "GET /", "POST /api/1/push HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999\r\n\r\n"] {
        pour(Box::new(UnixStream::connect(dir.join("socket")).unwrap()), head);
        pour(Box::new(TcpStream::connect(&daemon.http).unwrap()), head);
    }
    // In the directory of pages, too.
    fs::write(dir.join("pages/1-1-x.page"), &junk).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", dir.join("pages/2-2-x.page")).unwrap();
    assert!(Command::new("mkfifo").arg(dir.join("pages/3-3-x.page")).status().unwrap().success());
    assert_eq!(unix_get(&dir, "/api/1/jobs"), (200, "{\"jobs\":[],\"next\":null}\n".to_owned()));
    assert_eq!(daemon.get_tcp("/metrics", "").0, 200);
    assert!(daemon.most_memory() < 64 << 20, "{}", daemon.most_memory());
}

trait ReadWrite: Read + Write {}
impl<S: Read + Write> ReadWrite for S {}

#[test]
fn callers_that_say_nothing_keep_no_other_user_and_no_other_door_out() {
    let dir = FreshDir::new("serve-silent");
    let daemon = Daemon::start(&dir);
    // More than one address may have; each with the beginning of a question.
    let silent: Vec<TcpStream> = (0..400)
        .map(|_| {
            let mut stream = TcpStream::connect(&daemon.http).unwrap();
            let _ = stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-");
            stream
        })
        .collect();
    assert_eq!(unix_get(&dir, "/api/1/jobs").0, 200);
    for _ in 0..5 {
        assert_eq!(daemon.get_tcp("/metrics", "").0, 200, "who asks goes before who says nothing");
    }
    drop(silent);
}

#[test]
fn what_prometheus_scrapes_is_valid_and_nothing_is_injected() {
    let Some(promtool) = program("promtool") else { return };
    let dir = FreshDir::new("serve-metrics");
    let daemon = Daemon::start(&dir);
    // A program whose name ends a line and begins another sample.
    let evil = dir.join("evil\"\niotide_job_info{job=\"forged\"} 1\n");
    fs::copy("/bin/dd", &evil).unwrap();
    let mut running = record(&dir, "4711")
        .args([evil.as_os_str(), "if=/dev/zero".as_ref(), "of=out".as_ref(), "bs=1000".as_ref()])
        .spawn()
        .unwrap();
    daemon.job("4711", "running");
    let token = fs::read_to_string(dir.join("store/token")).unwrap();
    let (_, with_token) = daemon.get_tcp("/metrics", &format!("Authorization: Bearer {}\r\n", token.trim()));
    let (_, without) = daemon.get_tcp("/metrics", "");
    let (_, of_job) = unix_get(&dir, "/metrics?job=4711");
    let open = "Accept: application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3\r\n";
    let (_, as_openmetrics) = daemon.get_tcp("/metrics", open);
    assert!(
        as_openmetrics.contains("# TYPE iotide_node_io_bytes counter\niotide_node_io_bytes_total{")
            && as_openmetrics.ends_with("\n# EOF\n"),
        "{as_openmetrics}"
    );
    assert_eq!(unix_get(&dir, "/metrics?job=4712").0, 404, "there is no such job");
    kill_all(&mut running);
    daemon.job("4711", "ended");
    let (status, said) = unix_get(&dir, "/metrics?job=4711");
    assert!(status == 404 && said.contains("has ended; its totals are at /api/1/jobs/4711"), "{said}");
    for text in [&with_token, &without, &of_job] {
        assert_eq!(exporters::checked(&promtool, text), "");
        assert!(!text.lines().any(|line| line.starts_with("iotide_job_info{job=\"forged\"}")), "{text}");
    }
    assert!(with_token.contains("iotide_job_io_bytes_total{job=\"4711\",op=\"write\"}"), "{with_token}");
    assert!(of_job.contains("iotide_job_info{job=\"4711\"") && !of_job.contains("iotide_node_"), "{of_job}");
    assert!(
        !without.contains("4711") && without.contains("iotide_node_io_bytes_total{node=\"n1\",op=\"write\"}"),
        "{without}"
    );
    let wrong = format!("Authorization: Bearer {}\r\n", "0".repeat(64));
    assert_eq!(daemon.get_tcp("/api/1/jobs", &wrong).0, 401);
    assert_eq!(daemon.get_tcp("/metrics?job=4711", "").0, 401);
    let right = format!("Authorization: Bearer {}\r\n", token.trim());
    assert_eq!(daemon.get_tcp("/api/1/jobs", &right).0, 200);
    let (_, list) = daemon.get_tcp("/job/list", &right);
    assert!(list.contains("\"Node: n1\"") && list.contains("\"main\""), "{list}");
}

#[test]
fn beside_a_daemon_record_sums_up_no_remains() {
    let dir = FreshDir::new("serve-beside");
    let daemon = Daemon::start(&dir);
    let script = "head -c 5000000 /dev/zero > a; sleep 1; head -c 1000000 /dev/zero > b";
    let mut command = Command::new(IOTIDE);
    command.args(["record", "--live", "--", "sh", "-c", script]).current_dir(dir.path());
    command.env("IOTIDE_LIVE", dir.join("pages")).env("IOTIDE_JOB_ID", "5");
    let output = command.env("IOTIDE_DAEMON", dir.join("socket")).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("its counters are with the daemon") && !stderr.contains("POSIX"), "{stderr}");
    let job = daemon.job("5", "ended");
    assert!(job["io"]["bytes_written"].as_u64().unwrap() >= 6_000_000, "{job:#}");
}

#[test]
fn another_user_sees_nothing_of_a_job() {
    let Some(setpriv) = program("setpriv") else { return };
    if !iotide_testkit::is_root() {
        return;
    }
    let dir = FreshDir::new("serve-others");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let daemon = Daemon::start(&dir);
    assert!(
        record(&dir, "4711").args(["dd", "if=/dev/zero", "of=out", "count=3"]).status().unwrap().success()
    );
    daemon.job("4711", "ended");
    let iotide = dir.join("iotide");
    fs::copy(IOTIDE, &iotide).unwrap();
    let other = |args: &[&str]| {
        let mut command = Command::new(&setpriv);
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&iotide).args(args);
        command.env("IOTIDE_DAEMON", dir.join("socket")).output().unwrap()
    };
    fs::copy(Path::new(IOTIDE).with_file_name("deps/libiotide.so"), dir.join("libiotide.so")).unwrap();
    let jobs = other(&["jobs"]);
    assert_eq!(
        (jobs.status.code(), String::from_utf8(jobs.stdout).unwrap().as_str()),
        (Some(1), "no jobs\n")
    );
    let job = other(&["job", "4711"]);
    let stderr = String::from_utf8(job.stderr).unwrap();
    assert!(job.status.code() == Some(2) && stderr.contains("no job 4711 is known to you"), "{stderr}");
    let folder = dir.join("theirs");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    // It is watched as well: its own jobs it sees, of the same id too, and root sees all.
    let mut command = Command::new(&setpriv);
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&iotide);
    command.args(["record", "--live", "-q", "--", "dd", "if=/dev/zero", "of=out", "count=3", "status=none"]);
    command
        .env_remove("LD_PRELOAD")
        .env("IOTIDE_LIVE", dir.join("pages"))
        .env("IOTIDE_JOB_ID", "4711")
        .current_dir(&folder);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let list = |output: Output| -> Vec<u64> {
        let list: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        list["jobs"]
            .as_array()
            .map_or(Vec::new(), |jobs| jobs.iter().map(|job| job["size"].as_u64().unwrap()).collect())
    };
    while list(other(&["jobs", "--state", "ended", "--format", "json"])).len() != 1 {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(list(ask(&dir, &["jobs", "--format", "json"])).len(), 2);
    // Nor of its pages, its store and its token.
    for path in ["store/token", "store/iotide.db", "store", "pages"] {
        let mut command = Command::new(&setpriv);
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "ls"]).arg(dir.join(path).join(""));
        assert!(!command.output().unwrap().status.success(), "{path}");
    }
}

#[test]
fn it_ends_when_asked_and_says_who_uses_its_place() {
    let dir = FreshDir::new("serve-ends");
    let mut daemon = Daemon::start(&dir);
    let second = Command::new(IOTIDE)
        .args(["serve", "--http", "none", "--socket"])
        .arg(dir.join("socket"))
        .arg("--store")
        .arg(dir.join("store2"))
        .arg("--pages")
        .arg(dir.join("pages"))
        .output()
        .unwrap();
    let stderr = String::from_utf8(second.stderr).unwrap();
    assert!(second.status.code() == Some(2) && stderr.contains("cannot listen at"), "{stderr}");
    assert!(stderr.contains("a daemon runs at ") && stderr.contains("`iotide jobs` asks it"), "{stderr}");
    assert!(Command::new("kill").arg(daemon.child.id().to_string()).status().unwrap().success());
    assert!(daemon.child.wait().unwrap().success());
    assert!(!dir.join("socket").exists());
    let output = ask(&dir, &["jobs"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr.contains("no daemon answers at") && stderr.contains("`iotide serve` starts a daemon"),
        "{stderr}"
    );
}

#[test]
fn settings_are_checked_with_the_place_of_a_mistake() {
    let dir = FreshDir::new("serve-settings");
    let check = |settings: &str| {
        let file: PathBuf = dir.write("serve.toml", settings);
        let output = Command::new(IOTIDE).args(["serve", "check", "--config"]).arg(file).output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        (output.status.code().unwrap(), String::from_utf8(said).unwrap())
    };
    let store = dir.join("store");
    let (status, said) = check(&format!("http = \"none\"\nstore = {store:?}\nnode = \"n7\"\n"));
    assert!(status == 0 && said.contains("http    none") && said.contains("node    n7"), "{said}");
    assert!(said.contains("series  8 MiB a job, 1 GiB in all, for 90 d"), "{said}");
    assert!(!store.exists(), "checking makes nothing");
    let (status, said) = check("series_job = \"1MiB\"\nseries_all = \"20MiB\"\nseries_age = \"36h\"\n");
    assert!(status == 0 && said.contains("series  1 MiB a job, 20 MiB in all, for 129600 s"), "{said}");
    for (settings, complaint) in [
        ("http = 5\n", "'http' must be a text"),
        ("http = \"10.0.0.1:80\"\n", "can be reached from other machines"),
        ("colour = \"red\"\n", "there is no setting 'colour'"),
        ("prometheus = \"javascript:alert(1)\"\n", "'prometheus': an address as https://"),
        ("http = \n", "serve.toml"),
        ("series_job = \"1k\"\n", "between 65536 and 33554432 bytes, not 1024"),
        ("series_job = \"1 parsec\"\n", "'series_job': 'parsec' is no unit of size"),
        ("series_all = \"1MiB\"\n", "at least as much as those of one, 8388608 bytes, not 1048576"),
        ("series_age = \"5min\"\n", "at least an hour, not for 300 s"),
        ("remote_write = [\"ftp://x/\"]\n", "'remote_write': ftp://x/: ftp is not supported"),
        ("scrape = [\"http://x:y/\"]\n", "'scrape': http://x:y/: \"y\" is not a port number"),
        ("scrape_every = \"2h\"\n", "between 100ms and 1h"),
        ("remote_write = 5\n", "'remote_write': a list of addresses in quotes"),
        ("remote_write_every = \"1us\"\n", "between 100ms and 1h"),
        ("group = \"no-such-group\"\n", "there is no group 'no-such-group'"),
    ] {
        let (status, said) = check(settings);
        assert!(status == 2 && said.contains(complaint), "{said}");
    }
}

/// Reads events as they come, until one is there that is wanted.
fn events_until(lines: &mut impl BufRead, is_wanted: impl Fn(&str) -> bool) -> String {
    let mut heard = String::new();
    while !is_wanted(&heard) {
        assert!(lines.read_line(&mut heard).unwrap() > 0, "events end: {heard}");
    }
    heard
}

#[test]
fn whoever_listens_learns_that_a_job_begins_and_ends_and_that_its_models_are_fitted() {
    let dir = FreshDir::new("serve-events");
    let daemon = Daemon::start(&dir);
    let mut stream = UnixStream::connect(dir.join("socket")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(b"GET /api/1/events HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut lines = BufReader::new(stream);
    let head = events_until(&mut lines, |heard| heard.contains("retry: 1000"));
    assert!(head.contains("text/event-stream"), "{head}");
    let write = ["dd", "if=/dev/zero", "of=out", "bs=1000", "count=3", "status=none"];
    assert!(record(&dir, "4711").args(write).status().unwrap().success());
    let heard = events_until(&mut lines, |heard| heard.contains("event: model"));
    let (begun, rest) = heard.split_once("\"begun\"").unwrap();
    assert!(begun.contains("event: job") && begun.contains("4711"), "{heard}");
    assert!(rest.contains("event: job") && rest.contains("\"ended\""), "{heard}");
    // Without a name nobody is told.
    assert_eq!(daemon.get_tcp("/api/1/events", "").0, 401);
}
