//! Costs of `iotide serve`: idle, asked, over many jobs, and in the room that metrics over time take.
//!
//! The peer is the metric proxy of the ADMIRE project, as measured once.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{Bed, Goal, Line, live_counters, scaling};

type Part = fn(&Bed) -> Result<Vec<Line>, String>;

/// All figures of the daemon. Each part measures by itself, and fails if it has measured nothing.
pub(super) fn figures(bed: &Bed) -> Result<Vec<Line>, String> {
    let parts: [Part; 7] = [
        live_counters::nanoseconds,
        idle,
        exposition,
        bytes_a_sample,
        memory_over_many_jobs,
        search_of_a_million_jobs,
        scaling::cpu_of_a_refit,
    ];
    let mut lines = Vec::new();
    for part in parts {
        let measured = part(bed)?;
        if measured.is_empty() {
            return Err("a part measured nothing".to_owned());
        }
        lines.extend(measured);
    }
    Ok(lines)
}

fn line(what: &str, unit: &'static str, iotide: f64, peer: Option<f64>, goal: Goal) -> Line {
    Line { what: format!("serve: {what}"), unit, iotide, peer, goal }
}

/// A daemon with everything of its own in a folder.
pub(super) struct Daemon {
    pub(super) folder: PathBuf,
    child: Child,
}

impl Daemon {
    fn start(bed: &Bed, name: &str) -> Result<Self, String> {
        Self::start_with(bed, name, &[])
    }

    /// Started with more options.
    pub(super) fn start_with(bed: &Bed, name: &str, options: &[&str]) -> Result<Self, String> {
        let folder = bed.folder.join(name);
        std::fs::create_dir_all(folder.join("files")).map_err(|error| error.to_string())?;
        let mut command = Command::new(&bed.iotide);
        command.args(["serve", "--http", "none"]).args(options);
        if !options.contains(&"--node") {
            command.args(["--node", "n1"]);
        }
        for (option, name) in [("--socket", "socket"), ("--store", "store"), ("--pages", "pages")] {
            command.arg(option).arg(folder.join(name));
        }
        let child =
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(|error| error.to_string())?;
        let mut daemon = Self { folder, child };
        let began = Instant::now();
        while daemon.get("/metrics").is_err() {
            if began.elapsed() > Duration::from_secs(60)
                || daemon.child.try_wait().is_ok_and(|it| it.is_some())
            {
                return Err("the daemon does not answer".to_owned());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(daemon)
    }

    pub(super) fn get(&self, path: &str) -> Result<String, String> {
        let ask = || -> std::io::Result<String> {
            let mut stream = UnixStream::connect(self.folder.join("socket"))?;
            write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        let answer = ask().map_err(|error| format!("{path}: {error}"))?;
        match answer.split_once("\r\n\r\n") {
            Some((head, body)) if head.starts_with("HTTP/1.1 200") => Ok(body.to_owned()),
            _ => Err(format!("{path}: {}", answer.lines().next().unwrap_or("no answer"))),
        }
    }

    /// A figure of the daemon's own.
    fn figure(&self, name: &str) -> Result<f64, String> {
        let text = self.get("/metrics")?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|value| value.parse().ok()).ok_or_else(|| format!("/metrics has no {name}"))
    }

    /// CPU seconds of its threads until now: of all, or of one by name.
    pub(super) fn cpu_s(&self, thread: Option<&str>) -> Result<f64, String> {
        let tasks = format!("/proc/{}/task", self.child.id());
        let mut ns = 0.0;
        for task in std::fs::read_dir(&tasks).map_err(|error| error.to_string())?.flatten() {
            let read = |file: &str| std::fs::read_to_string(task.path().join(file)).unwrap_or_default();
            if thread.is_none_or(|name| read("comm").trim() == name) {
                ns +=
                    read("schedstat").split(' ').next().and_then(|it| it.parse::<f64>().ok()).unwrap_or(0.0);
            }
        }
        if ns > 0.0 { Ok(ns / 1e9) } else { Err("the kernel does not say what threads took".to_owned()) }
    }

    /// Bytes of memory: of a field of its status.
    pub(super) fn memory(&self, field: &str) -> Result<f64, String> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))
            .map_err(|error| error.to_string())?;
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
        kib.map(|kib| kib * 1024.0).ok_or_else(|| format!("no {field}"))
    }

    /// How many files it has open.
    pub(super) fn n_files(&self) -> Result<usize, String> {
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.child.id()));
        files.map(Iterator::count).map_err(|error| error.to_string())
    }

    /// A program that is counted as a job.
    pub(super) fn job(&self, bed: &Bed, program: &PathBuf, id: &str, how: &str) -> Result<Child, String> {
        let library = bed.iotide.with_file_name("deps").join("libiotide.so");
        if !library.is_file() {
            return Err(format!("there is no {}", library.display()));
        }
        let mut command = Command::new(program);
        command.arg(self.folder.join("files")).arg(how);
        command.env("LD_PRELOAD", library).env("IOTIDE_LIVE", self.folder.join("pages"));
        command.env("IOTIDE_JOB_ID", id).env("IOTIDE_INCLUDE", self.folder.join("files"));
        command.stdin(if how == "again" { Stdio::piped() } else { Stdio::null() });
        command.spawn().map_err(|error| error.to_string())
    }

    /// Asks it to end, and waits.
    fn stop(&mut self) -> Result<(), String> {
        let pid = self.child.id().to_string();
        Command::new("kill").arg(pid).status().map_err(|error| error.to_string())?;
        self.child.wait().map(drop).map_err(|error| error.to_string())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Jobs that wait; ended when dropped.
struct Jobs(Vec<Child>);

impl Drop for Jobs {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
        }
        for child in &mut self.0 {
            let _ = child.wait();
        }
    }
}

pub(super) fn compile(bed: &Bed) -> Result<PathBuf, String> {
    let source = crate::repository().join("lab/src/bench/serve_job.c");
    let program = bed.folder.join("serve-job");
    let output = Command::new("gcc").args(["-O1", "-o"]).arg(&program).arg(source).output();
    match output {
        Ok(output) if output.status.success() => Ok(program),
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => Err(format!("gcc: {error}")),
    }
}

/// A daemon that nobody asks and that watches nothing.
fn idle(bed: &Bed) -> Result<Vec<Line>, String> {
    let daemon = Daemon::start(bed, "idle")?;
    std::thread::sleep(Duration::from_secs(3));
    let (before, began) = (daemon.cpu_s(None)?, Instant::now());
    std::thread::sleep(Duration::from_secs(20));
    let share = (daemon.cpu_s(None)? - before) / began.elapsed().as_secs_f64();
    if share <= 0.0 {
        return Err("an idle daemon still reads a directory ten times a second".to_owned());
    }
    let memory = daemon.memory("VmRSS")?;
    Ok(vec![
        line(
            "idle, CPU (the proxy: a root and two children)",
            "% of a core",
            share * 100.0,
            Some(36.0),
            Goal::AtMost(0.5),
        ),
        line("idle, memory", "MB", memory / 1e6, None, Goal::AtMost(20.0)),
    ])
}

/// `/metrics` with 20,000 series, of 500 jobs that wait.
fn exposition(bed: &Bed) -> Result<Vec<Line>, String> {
    const N_JOBS: usize = 500;
    const N_SERIES: usize = 20_000;
    let program = compile(bed)?;
    let daemon = Daemon::start(bed, "exposition")?;
    let mut jobs = Jobs(Vec::new());
    for n in 0..N_JOBS {
        jobs.0.push(daemon.job(bed, &program, &format!("job-{n}"), "wait")?);
    }
    let count = || -> Result<usize, String> {
        Ok(daemon.get("/metrics")?.lines().filter(|line| !line.starts_with('#')).count())
    };
    let began = Instant::now();
    let mut n_series = count()?;
    while n_series < N_SERIES {
        if began.elapsed() > Duration::from_secs(60) {
            return Err(format!("{n_series} series, not {N_SERIES}"));
        }
        std::thread::sleep(Duration::from_millis(200));
        n_series = count()?;
    }
    const N_TIMES: u32 = 40;
    let before = daemon.cpu_s(Some("iotide-http"))?;
    for _ in 0..N_TIMES {
        if count()? < N_SERIES {
            return Err("series went away".to_owned());
        }
    }
    let cpu_ms = (daemon.cpu_s(Some("iotide-http"))? - before) * 1e3 / f64::from(N_TIMES);
    let (before, began) = (daemon.cpu_s(None)?, Instant::now());
    std::thread::sleep(Duration::from_secs(10));
    let share = (daemon.cpu_s(None)? - before) / began.elapsed().as_secs_f64() * 100.0;
    Ok(vec![
        line(&format!("/metrics with {n_series} series, CPU"), "ms", cpu_ms, Some(141.0), Goal::AtMost(15.0)),
        line("500 jobs that wait, CPU", "% of a core", share, None, Goal::None),
        line("500 jobs that wait, memory", "MB", daemon.memory("VmRSS")? / 1e6, None, Goal::None),
    ])
}

/// Metrics of four jobs with I/O phases, and of this machine, over two and a half minutes.
fn bytes_a_sample(bed: &Bed) -> Result<Vec<Line>, String> {
    let mut daemon = Daemon::start(bed, "samples")?;
    let mut jobs = Jobs(Vec::new());
    for n in 0..4 {
        let mut command = Command::new(&bed.iotide);
        command.args(["record", "--live", "-q", "--", bed.iotide.to_str().ok_or("a path that is no text")?]);
        let period = format!("{}s", 3 + 2 * n);
        command.args([
            "ioskel",
            "-p",
            &period,
            "-s",
            "8M",
            "-n",
            "1000",
            "-j",
            "2",
            "--transfer-size",
            "256k",
        ]);
        command.current_dir(daemon.folder.join("files")).stdout(Stdio::null()).stderr(Stdio::null());
        command.env("IOTIDE_LIVE", daemon.folder.join("pages")).env("IOTIDE_JOB_ID", format!("skeleton-{n}"));
        jobs.0.push(command.spawn().map_err(|error| error.to_string())?);
    }
    std::thread::sleep(Duration::from_secs(150));
    let n_samples = daemon.figure("iotide_daemon_samples_total")?;
    let bytes_moved = daemon.figure("iotide_node_io_bytes_total{node=\"n1\",op=\"write\"}")?;
    daemon.stop()?;
    drop(jobs);
    let folder = std::fs::read_dir(daemon.folder.join("store/series")).map_err(|error| error.to_string())?;
    let sizes = folder.flatten().filter_map(|entry| entry.metadata().ok()).map(|it| it.len() as f64);
    let (n_bytes, n_files) = sizes.fold((0.0, 0), |(sum, n), size| (sum + size, n + 1));
    if n_files < 5 || n_samples < 10_000.0 || bytes_moved < 1e8 {
        return Err(format!("{n_samples} samples in {n_files} files of jobs that wrote {bytes_moved} bytes"));
    }
    let what = format!("bytes a sample, {n_samples} samples of 4 jobs and the machine");
    Ok(vec![line(&what, "B", n_bytes / n_samples, Some(85.0), Goal::AtMost(3.0))])
}

/// 10,000 short jobs, eight at a time: memory at rest after a fifth of them and after all, and the most there was.
pub(super) fn memory_over_many_jobs(bed: &Bed) -> Result<Vec<Line>, String> {
    const N_JOBS: usize = 10_000;
    let program = compile(bed)?;
    let daemon = Daemon::start(bed, "many")?;
    let begun = daemon.memory("VmRSS")?;
    let cpu_s = daemon.cpu_s(None)?;
    let run = |jobs: std::ops::Range<usize>| -> Result<f64, String> {
        let n_jobs = jobs.end;
        let mut running: std::collections::VecDeque<Child> = std::collections::VecDeque::new();
        for n in jobs {
            running.push_back(daemon.job(bed, &program, &format!("many-{n}"), "once")?);
            if running.len() > 8
                && let Some(mut child) = running.pop_front()
            {
                child.wait().map_err(|error| error.to_string())?;
            }
        }
        for mut child in running {
            child.wait().map_err(|error| error.to_string())?;
        }
        let began = Instant::now();
        loop {
            let n_stored = count_jobs(&daemon, "state=ended")?;
            if n_stored >= n_jobs {
                break;
            }
            if began.elapsed() > Duration::from_secs(180) {
                return Err(format!("{n_stored} of {n_jobs} jobs are stored"));
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        // What is free goes back to the system within some seconds.
        std::thread::sleep(Duration::from_secs(12));
        daemon.memory("VmRSS")
    };
    let after_some = run(0..N_JOBS / 5)?;
    let after_all = run(N_JOBS / 5..N_JOBS)?;
    let most = daemon.memory("VmHWM")?;
    let cpu_ms = (daemon.cpu_s(None)? - cpu_s) * 1e3 / N_JOBS as f64;
    let grown = (after_all - after_some).max(0.0);
    Ok(vec![
        line("memory before any job", "MB", begun / 1e6, None, Goal::None),
        line("memory at rest after 2,000 jobs", "MB", after_some / 1e6, None, Goal::None),
        line("memory at rest after 10,000 jobs", "MB", after_all / 1e6, None, Goal::None),
        line("memory grown from 2,000 to 10,000 jobs", "MB", grown / 1e6, None, Goal::AtMost(2.0)),
        line("most memory over 10,000 jobs", "MB", most / 1e6, None, Goal::None),
        line("CPU for a short job, from its first page to its row", "ms", cpu_ms, None, Goal::None),
    ])
}

fn count_jobs(daemon: &Daemon, query: &str) -> Result<usize, String> {
    let (mut n_jobs, mut cursor) = (0, String::new());
    loop {
        let body = daemon.get(&format!("/api/1/jobs?limit=1000&{query}{cursor}"))?;
        let list: serde_json::Value = serde_json::from_str(&body).map_err(|error| error.to_string())?;
        n_jobs += list["jobs"].as_array().map_or(0, Vec::len);
        match list["next"].as_str() {
            Some(next) => cursor = format!("&cursor={next}"),
            None => return Ok(n_jobs),
        }
    }
}

/// A million jobs: what a question takes that can be asked of them.
pub(super) fn search_of_a_million_jobs(bed: &Bed) -> Result<Vec<Line>, String> {
    const N_JOBS: &str = "1000000";
    let mut daemon = Daemon::start(bed, "million")?;
    daemon.stop()?;
    let script = crate::repository().join("lab/src/bench/serve_fill.py");
    let database = daemon.folder.join("store/iotide.db");
    let filled = Command::new("python3").arg(script).arg(database).arg(N_JOBS).output();
    match filled {
        Ok(output) if output.status.success() => {}
        Ok(output) => return Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        Err(error) => return Err(format!("python3: {error}")),
    }
    let daemon = Daemon::start(bed, "million")?;
    let questions = [
        ("the latest", "limit=100", 100),
        ("of a user", "user=user77", 100),
        ("of an application", "app=program77", 100),
        ("of a user's application", "user=user77&app=program77", 100),
        ("that are partial", "state=partial", 100),
        ("since a day", "since=1659913600", 100),
        ("with a text that many have", "q=program77", 100),
        ("with a text that some have", "q=case12345", 11),
        ("with a text that one has", "q=case123456.in", 1),
    ];
    let mut lines = Vec::new();
    for (what, query, n_expected) in questions {
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let before = daemon.cpu_s(Some("iotide-http"))?;
            let body = daemon.get(&format!("/api/1/jobs?{query}"))?;
            best = best.min((daemon.cpu_s(Some("iotide-http"))? - before) * 1e3);
            let list: serde_json::Value = serde_json::from_str(&body).map_err(|error| error.to_string())?;
            let n_jobs = list["jobs"].as_array().map_or(0, Vec::len);
            if n_jobs != n_expected {
                return Err(format!("{query}: {n_jobs} jobs, not {n_expected}"));
            }
        }
        lines.push(line(&format!("10⁶ jobs, those {what}, CPU"), "ms", best, None, Goal::AtMost(50.0)));
    }
    Ok(lines)
}
