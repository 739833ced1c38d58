//! `cargo xtask accuracy why --real`: five applications on a storage that lets so much through in a second, beside others that load it, on a slower
//! storage, with other requests. Each has a mount, a daemon and a log of the mount's own in steps of 5 s, so that all five run at once.

use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use crate::product::{Bed, Server};

/// Bandwidth of each storage, in bytes per second.
const BANDWIDTH_BPS: u64 = 20_000_000;
/// The share of it that a slow storage has.
const SLOW: f64 = 0.4;
/// Step of the server's log.
const STEP: Duration = Duration::from_secs(5);
/// How long others run before a run begins and after it ends: the log shows what the storage carries.
const AROUND: Duration = Duration::from_secs(5);

/// An application: how long it computes, its processes, what each writes in a burst and in a call, and how many bursts.
struct App {
    name: &'static str,
    compute_s: f64,
    n_processes: u32,
    burst_kb: u64,
    transfer: &'static str,
    n_bursts: u32,
}

/// Each burst ends with a smaller call, so that earlier runs know two sizes.
const APPS: [App; 5] = [
    App { name: "a", compute_s: 2.5, n_processes: 2, burst_kb: 30_300, transfer: "1M", n_bursts: 4 },
    App { name: "b", compute_s: 3.0, n_processes: 1, burst_kb: 70_300, transfer: "1M", n_bursts: 3 },
    App { name: "c", compute_s: 2.2, n_processes: 4, burst_kb: 15_300, transfer: "512k", n_bursts: 4 },
    App { name: "d", compute_s: 4.0, n_processes: 2, burst_kb: 36_300, transfer: "2M", n_bursts: 3 },
    App { name: "e", compute_s: 2.4, n_processes: 2, burst_kb: 26_100, transfer: "256k", n_bursts: 4 },
];

/// Difference of a run from the quiet ones.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Usual,
    /// So many others write all the time.
    Beside(usize),
    Slow,
    /// Requests of 32 KiB: as quick as large ones, for a paced mount charges bytes and nothing for a call.
    Small,
    Twice,
}

/// The runs of each application in question: eight.
const KINDS: [Kind; 8] = [
    Kind::Usual,
    Kind::Beside(1),
    Kind::Beside(2),
    Kind::Beside(3),
    Kind::Slow,
    Kind::Small,
    Kind::Twice,
    Kind::Slow,
];

impl Kind {
    fn name(self) -> String {
        match self {
            Self::Usual => "as ever".to_owned(),
            Self::Beside(1) => "beside a heavy job".to_owned(),
            Self::Beside(n) => format!("beside {n} heavy jobs"),
            Self::Slow => "storage at 40 %".to_owned(),
            Self::Small => "requests of 32 KiB".to_owned(),
            Self::Twice => "twice the bytes".to_owned(),
        }
    }

    fn truth(self) -> &'static str {
        match self {
            Self::Usual | Self::Small => "usual",
            Self::Beside(_) => "others",
            Self::Slow => "storage",
            Self::Twice => "own",
        }
    }
}

/// An answer beside the truth.
struct Told {
    kind: Kind,
    app: &'static str,
    /// By counters of the daemon alone, and by traces with the log of the mount.
    by: [Answer; 2],
}

struct Answer {
    verdict: String,
    factor: Option<f64>,
}

/// Runs the experiment with a program and prints the table.
pub(super) fn run(program: &Path, n_quiet: usize) -> Result<(), String> {
    let began = Instant::now();
    let told = Mutex::new(Vec::new());
    let results: Vec<Result<(), String>> = std::thread::scope(|scope| {
        let threads: Vec<_> =
            APPS.iter().map(|app| scope.spawn(|| of_app(program, app, n_quiet, &told))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a thread ended".to_owned())))
            .collect()
    });
    results.into_iter().collect::<Result<(), String>>()?;
    print(&told.into_inner().map_err(|error| error.to_string())?);
    println!("\n{:.0} s in all", began.elapsed().as_secs_f64());
    Ok(())
}

fn print(told: &[Told]) {
    println!(
        "| run | truth | by the daemon's counters | factors | by traces and a log in 5 s steps | factors |"
    );
    println!("|---|---|---|---|---|---|");
    for (_, kind) in KINDS.into_iter().enumerate().filter(|(i, kind)| !KINDS[..*i].contains(kind)) {
        let of_kind: Vec<&Told> = told.iter().filter(|one| one.kind == kind).collect();
        let by = |i: usize| {
            let mut verdicts: Vec<(String, usize)> = Vec::new();
            let mut factors: Vec<f64> = Vec::new();
            for one in &of_kind {
                let answer = &one.by[i];
                match verdicts.iter_mut().find(|(verdict, _)| *verdict == answer.verdict) {
                    Some((_, n)) => *n += 1,
                    None => verdicts.push((answer.verdict.clone(), 1)),
                }
                factors.extend(answer.factor);
            }
            factors.sort_by(f64::total_cmp);
            let words: Vec<String> = verdicts.iter().map(|(verdict, n)| format!("{verdict} {n}")).collect();
            let range = match (factors.first(), factors.last()) {
                (Some(low), Some(high)) => format!("{low:.2} to {high:.2}"),
                _ => "–".to_owned(),
            };
            format!("{} | {range}", words.join(", "))
        };
        println!("| {} | {} | {} | {} |", kind.name(), kind.truth(), by(0), by(1));
    }
    for i in 0..2 {
        let right = told.iter().filter(|one| one.by[i].verdict == one.kind.truth()).count();
        let unknown = told.iter().filter(|one| one.by[i].verdict == "unknown").count();
        let source = ["by the daemon", "by traces and a log"][i];
        println!("\n{source}: {right} of {} right, {unknown} unknown", told.len());
    }
    for one in told.iter().filter(|one| one.by.iter().any(|answer| answer.verdict != one.kind.truth())) {
        let [daemon, log] = &one.by;
        println!("{} of {}: {} and {}", one.kind.name(), one.app, daemon.verdict, log.verdict);
    }
}

/// A storage with its daemon and its log.
struct Storage<'a> {
    program: &'a Path,
    bed: &'a Bed,
}

fn said(error: std::io::Error) -> String {
    error.to_string()
}

/// Runs an application ten times in quiet, and then each kind of run.
fn of_app(program: &Path, app: &'static App, n_quiet: usize, told: &Mutex<Vec<Told>>) -> Result<(), String> {
    let bed = Bed::make(&format!("why-{}", app.name))?;
    for name in ["backing", "shown", "pages", "quiet", "asked"] {
        fs::create_dir_all(bed.folder.join(name)).map_err(said)?;
    }
    let storage = Storage { program, bed: &bed };
    let mut daemon = Command::new(program);
    daemon.args(["serve", "--http", "none", "--node", app.name]);
    for (option, name) in [("--socket", "socket"), ("--store", "store"), ("--pages", "pages")] {
        daemon.arg(option).arg(bed.folder.join(name));
    }
    let (_daemon, _says) = Server::start(daemon, None, "serving at")?;
    let log = Log::start(&bed)?;
    let mut mount = storage.mount(BANDWIDTH_BPS, &log)?;
    for i in 0..n_quiet {
        storage.run(app, Kind::Usual, &format!("q{i}"), "quiet")?;
    }
    let mut ids = Vec::new();
    for (i, &kind) in KINDS.iter().enumerate() {
        let id = format!("r{i}");
        if kind == Kind::Slow {
            drop(mount);
            mount = storage.mount((BANDWIDTH_BPS as f64 * SLOW) as u64, &log)?;
        }
        let heavy = match kind {
            Kind::Beside(n) => (0..n).map(|nth| storage.heavy(i, nth)).collect::<Result<Vec<_>, _>>()?,
            _ => Vec::new(),
        };
        let pause = if heavy.is_empty() { Duration::from_secs(1) } else { AROUND };
        std::thread::sleep(pause);
        storage.run(app, kind, &id, "asked")?;
        std::thread::sleep(pause);
        drop(heavy);
        if kind == Kind::Slow {
            drop(mount);
            mount = storage.mount(BANDWIDTH_BPS, &log)?;
        }
        eprintln!("{}: {}", app.name, kind.name());
        ids.push((kind, id));
    }
    std::thread::sleep(STEP + Duration::from_secs(1));
    drop(log);
    for (kind, id) in ids {
        let by = [storage.by_daemon(&id)?, storage.by_trace(&id)?];
        told.lock().map_err(|error| error.to_string())?.push(Told { kind, app: app.name, by });
    }
    drop(mount);
    Ok(())
}

/// Programs of a group that are ended when dropped.
struct Group(Child);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", "--", &format!("-{}", self.0.id())]).status();
        let _ = self.0.wait();
    }
}

impl Storage<'_> {
    fn at(&self, name: &str) -> PathBuf {
        self.bed.folder.join(name)
    }

    fn mount(&self, bandwidth_bps: u64, log: &Log) -> Result<Server, String> {
        let mut mount = Command::new(self.program);
        mount.arg("mount").arg(self.at("backing")).arg(self.at("shown"));
        mount.args(["--policy", "none", "--workers", "4", "--bandwidth", &bandwidth_bps.to_string()]);
        let (mount, _says) = Server::start(mount, Some(self.at("shown")), "is shown at")?;
        log.follow(mount.id());
        Ok(mount)
    }

    /// `iotide record` of a skeleton, as a job that the daemon counts.
    fn job(&self, app: &str, id: &str, trace: &Path) -> Command {
        let mut command = Command::new(self.program);
        command
            .args(["record", "--live", "-q", "-o"])
            .arg(trace)
            .arg("--")
            .arg(self.program)
            .args(["ioskel", "-q", "-d"])
            .arg(self.at("shown"))
            .env_remove("LD_PRELOAD")
            .env("IOTIDE_LIVE", self.at("pages"))
            .env("IOTIDE_JOB_ID", id)
            .env("IOTIDE_APP", app)
            .process_group(0)
            .stdout(Stdio::null());
        command
    }

    fn run(&self, app: &App, kind: Kind, id: &str, folder: &str) -> Result<(), String> {
        let mut command = self.job(app.name, id, &self.at(folder).join(id));
        let kb = app.burst_kb * if kind == Kind::Twice { 2 } else { 1 };
        let transfer = if kind == Kind::Small { "32k" } else { app.transfer };
        command.args(["--compute", &app.compute_s.to_string(), "-n", &app.n_bursts.to_string()]);
        command.args([
            "-j",
            &app.n_processes.to_string(),
            "-s",
            &format!("{kb}k"),
            "--transfer-size",
            transfer,
        ]);
        let status = command.status().map_err(said)?;
        if status.success() { Ok(()) } else { Err(format!("run {id} of {} failed: {status}", app.name)) }
    }

    /// A job that writes all the time, until it is dropped.
    fn heavy(&self, run: usize, nth: usize) -> Result<Group, String> {
        let id = format!("heavy{run}-{nth}");
        let mut command = self.job("heavy", &id, &self.at(&id));
        command.args(["-p", "1ms", "-s", "8M", "-n", "100000", "-j", "2", "--transfer-size", "1M"]);
        command.spawn().map(Group).map_err(said)
    }

    fn by_daemon(&self, id: &str) -> Result<Answer, String> {
        let mut command = Command::new(self.program);
        command.args(["why", "--job", id, "--daemon"]).arg(self.at("socket"));
        answer(command)
    }

    fn by_trace(&self, id: &str) -> Result<Answer, String> {
        let mut command = Command::new(self.program);
        command.arg("why").arg(self.at("asked").join(id)).arg("--history").arg(self.at("quiet"));
        command.arg("--storage").arg(self.at("server.csv"));
        answer(command)
    }
}

fn answer(mut command: Command) -> Result<Answer, String> {
    let output = command.args(["--format", "json"]).output().map_err(said)?;
    let json: Value = serde_json::from_slice(&output.stdout)
        .map_err(|_| format!("iotide why: {}", String::from_utf8_lossy(&output.stderr).trim()))?;
    let why = &json["runs"][0]["why"];
    Ok(Answer {
        verdict: why["verdict"].as_str().unwrap_or("–").to_owned(),
        factor: why["slowdown"]["factor"].as_f64(),
    })
}

/// The log of a server: what the mount wrote, every 5 s, as the system counts it.
struct Log {
    process: Arc<Mutex<u32>>,
    ended: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Log {
    fn start(bed: &Bed) -> Result<Self, String> {
        let mut file = fs::File::create(bed.folder.join("server.csv")).map_err(said)?;
        writeln!(file, "time,bandwidth").map_err(said)?;
        let (process, ended) = (Arc::new(Mutex::new(0)), Arc::new(AtomicBool::new(false)));
        let (of, end) = (Arc::clone(&process), Arc::clone(&ended));
        let thread = std::thread::spawn(move || {
            let mut last: (u32, u64) = (0, 0);
            while !end.load(Ordering::Relaxed) {
                let from_s =
                    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
                std::thread::sleep(STEP);
                let id = of.lock().map_or(0, |id| *id);
                let Some(written) = written_by(id) else { continue };
                // A mount that is new has counted from zero on.
                let before = if last.0 == id { last.1 } else { 0 };
                let bps = written.saturating_sub(before) as f64 / STEP.as_secs_f64();
                last = (id, written);
                let _ = writeln!(file, "{from_s:.3},{bps:.0}");
            }
        });
        Ok(Self { process, ended, thread: Some(thread) })
    }

    fn follow(&self, process: u32) {
        if let Ok(mut id) = self.process.lock() {
            *id = process;
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

/// Bytes that a process wrote.
fn written_by(process: u32) -> Option<u64> {
    let io = fs::read_to_string(format!("/proc/{process}/io")).ok()?;
    io.lines().find_map(|line| line.strip_prefix("wchar: "))?.trim().parse().ok()
}
