//! Users who mean harm beside one who does not, at a daemon of root: `cargo xtask hostile daemon [--minutes 10]`.
//!
//! The victim runs one job after the other, each of which knows what it has written. A Prometheus asks once a second, with the daemon's token.
//! An operator has an alarm that goes to a receiver. Attackers do at once all that is known to have worked: pages that claim another name
//! space, pages of dead processes, sparse pages with many lanes, files that are no pages, alarms that fire all the time, connections that
//! say half a question, questions without end, links that are wrong.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use iotide_wire::page::{About, MAX_LANES, PageText, Texts, lane_at};
use serde_json::Value;

use super::{Cost, Settings, VICTIM};
use crate::Outcome;
use crate::product::{Bed, Server};

const ATTACKER: u32 = 50_001;
/// Memory limit in the unit of the daemon.
const MOST_RSS_MB: u64 = 128;
/// Within which an answer must have come.
const MOST_WAIT: Duration = Duration::from_secs(1);
/// Bytes of the job that the victim runs over and over.
const VICTIM_BYTES: u64 = 8 << 20;

/// Carries the attack out and judges what it came to.
pub(super) fn run(settings: &Settings, program: &Path) -> Result<Outcome, String> {
    let site = Site::make(program)?;
    let receiver = Receiver::start()?;
    let server = site.serve(&receiver)?;
    site.ask(0, &["alarms", "add", "operators", "rate(write_bytes) > 1", "--severity", "page"])?;
    let stop = Arc::new(AtomicBool::new(false));
    let scraped = Scraped::default();
    println!(
        "{:>7} {:>14} {:>10} {:>16} {:>14} {:>8}",
        "minute", "victim's jobs", "wrong", "slowest scrape", "late scrapes", "RSS MB"
    );
    let (mut n_jobs, mut wrong) = (0, Vec::new());
    std::thread::scope(|scope| -> Result<(), String> {
        let _stops = Stops(&stop);
        scope.spawn(|| site.forge(&stop));
        scope.spawn(|| scraped.go(&site, &stop));
        let _attackers =
            [site.attack("hold"), site.attack("ask"), site.attack("login"), site.attack("alarms")];
        let (began, mut minute) = (Instant::now(), 0);
        while began.elapsed().as_secs_f64() < settings.minutes * 60.0 {
            n_jobs += 1;
            wrong.extend(site.victim(n_jobs)?);
            if began.elapsed().as_secs() / 60 > minute {
                minute = began.elapsed().as_secs() / 60;
                let (slowest, late) = scraped.so_far();
                let cost = Cost::of(server.id())?;
                println!(
                    "{minute:>7} {n_jobs:>14} {:>10} {slowest:>14.2} s {late:>14} {:>8}",
                    wrong.len(),
                    cost.peak_mb
                );
            }
        }
        Ok(())
    })?;
    wrong.iter().take(5).for_each(|wrong| println!("  {wrong}"));
    let mut is_good = true;
    let mut check = |what: String, is_right: bool| {
        println!("{} {what}", if is_right { "ok    " } else { "WRONG " });
        is_good &= is_right;
    };
    check(
        format!("{} of {n_jobs} jobs of the victim are counted to the byte", n_jobs - wrong.len()),
        wrong.is_empty(),
    );
    let (slowest, late) = scraped.so_far();
    let n_scrapes = scraped.n.load(Ordering::Relaxed);
    check(
        format!("{late} of {n_scrapes} scrapes were not answered within 1 s (slowest {slowest:.2} s)"),
        late == 0,
    );
    let n_told = receiver.n_told();
    check(format!("the operator's alarm was told {n_told} times"), n_told > 0);
    let peak_mb = Cost::of(server.id())?.peak_mb;
    check(format!("{peak_mb} MB at most of {MOST_RSS_MB}"), peak_mb <= MOST_RSS_MB);
    Ok(if is_good { Outcome::Good } else { Outcome::Wanting })
}

/// Ends what runs beside when it is dropped.
struct Stops<'a>(&'a AtomicBool);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Where it all happens.
struct Site {
    bed: Bed,
    http: SocketAddr,
}

impl Site {
    fn make(program: &Path) -> Result<Self, String> {
        let bed = Bed::make("hostile-daemon")?;
        let failed = |error: std::io::Error| format!("cannot prepare {}: {error}", bed.folder.display());
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
        mode(&bed.folder, 0o755).map_err(failed)?;
        for name in ["pages", "data"] {
            fs::create_dir(bed.folder.join(name)).map_err(failed)?;
            mode(&bed.folder.join(name), 0o1777).map_err(failed)?;
        }
        // Where every user can reach them.
        let library = program.with_file_name("deps").join("libiotide.so");
        for (from, to) in [(program, "iotide"), (library.as_path(), "libiotide.so")] {
            fs::copy(from, bed.folder.join(to)).map_err(failed)?;
            mode(&bed.folder.join(to), 0o755).map_err(failed)?;
        }
        fs::write(bed.folder.join("daemon_actors.py"), include_str!("daemon_actors.py")).map_err(failed)?;
        let http = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).map_err(failed)?;
        Ok(Self { bed, http })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.bed.folder.join(name)
    }

    fn serve(&self, receiver: &Receiver) -> Result<Server, String> {
        let line = "ulimit -S -n 1024; exec nice -n -5 \"$0\" \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", line]).arg(self.path("iotide"));
        command.args(["serve", "--node", "h1", "--http", &self.http.to_string()]);
        command.args(["--webhook", &format!("http://{}/hook", receiver.address)]);
        for (option, name) in [("--socket", "socket"), ("--store", "store"), ("--pages", "pages")] {
            command.arg(option).arg(self.path(name));
        }
        let (server, stderr) = Server::start(command, None, "serving at")?;
        std::thread::spawn(move || stderr.lines().map_while(Result::ok).for_each(|line| eprintln!("{line}")));
        Ok(server)
    }

    fn command(&self, uid: u32) -> Command {
        let mut command = Command::new(self.path("iotide"));
        command.uid(uid).gid(uid).current_dir(self.path("data")).env("IOTIDE_DAEMON", self.path("socket"));
        command.stdin(Stdio::null());
        command
    }

    /// Asks the daemon something as a user.
    fn ask(&self, uid: u32, args: &[&str]) -> Result<Vec<u8>, String> {
        let output = self.command(uid).args(args).output().map_err(|error| error.to_string())?;
        match output.status.success() {
            true => Ok(output.stdout),
            false => Err(format!("{args:?}: {}", String::from_utf8_lossy(&output.stderr).trim())),
        }
    }

    /// Runs a job of the victim; returns what is wrong with what the daemon knows of it.
    fn victim(&self, number: usize) -> Result<Option<String>, String> {
        let job = format!("victim-{number}");
        let mut command = self.command(VICTIM);
        command.args([
            "ioskel",
            "-p",
            "250ms",
            "-n",
            "8",
            "-s",
            "1MiB",
            "--turn-probability",
            "0",
            "-d",
            ".",
        ]);
        command.env("IOTIDE_JOB_ID", &job).env("IOTIDE_LIVE", self.path("pages"));
        command.env("LD_PRELOAD", self.path("libiotide.so")).stdout(Stdio::null()).stderr(Stdio::null());
        let status = command.status().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("{job}: {status}"));
        }
        let ended = Instant::now();
        let mut last = String::new();
        while ended.elapsed() < Duration::from_secs(20) {
            match self.ask(VICTIM, &["job", &job, "--format", "json"]) {
                Ok(json) => {
                    let document: Value = serde_json::from_slice(&json).unwrap_or_default();
                    let written = document["io"]["bytes_written"].as_u64();
                    if document["state"] == "ended" && written == Some(VICTIM_BYTES) {
                        return Ok(None);
                    }
                    last = format!("{job} is {} with {written:?} bytes of {VICTIM_BYTES}", document["state"]);
                }
                Err(error) => last = format!("{job}: {error}"),
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        Ok(Some(last))
    }

    /// Starts an attacker that needs to be a user of its own.
    fn attack(&self, role: &str) -> Crowd {
        let mut command = Command::new("/usr/bin/python3");
        command.arg(self.path("daemon_actors.py")).args([role, &self.http.to_string()]);
        command.arg(self.path("iotide")).env("IOTIDE_DAEMON", self.path("socket"));
        command.uid(ATTACKER).gid(ATTACKER).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Crowd(command.spawn().ok())
    }

    /// Makes pages in the attacker's name until it is told to stop.
    fn forge(&self, stop: &AtomicBool) {
        let alive = Crowd(Command::new("sleep").arg("100000").uid(ATTACKER).spawn().ok());
        let running = alive.0.as_ref().map_or((1, 1), |child| (child.id(), start_ticks(child.id())));
        for index in 0..500 {
            self.page(&format!("lanes-{index}"), running, 0, MAX_LANES);
        }
        for index in 0..20_000 {
            let path = self.path("pages").join(format!("junk-{index}.page"));
            let _ = fs::write(&path, "no page").and_then(|()| chown(&path, Some(ATTACKER), None));
        }
        let mut number = 0;
        while !stop.load(Ordering::Relaxed) {
            // As many again as there is room for, half of them elsewhere, half of them dead.
            for _ in 0..100 {
                number += 1;
                let (process, namespace) = if number % 2 == 0 { ((7, 77), 4242) } else { ((1, 77), 0) };
                self.page(&format!("forged-{number}"), process, namespace, 1 + number % 8);
            }
            std::thread::sleep(Duration::from_millis(500));
        }
    }

    fn page(&self, job: &str, (pid, start_ticks): (u32, u64), pid_namespace: u64, n_lanes: usize) {
        let mut texts = Texts::default();
        texts.set(PageText::Job, job.as_bytes());
        let about = About {
            n_lanes: n_lanes as u32,
            pid,
            start_ticks,
            pid_namespace,
            uid: ATTACKER,
            texts,
            ..About::default()
        };
        let path = self.path("pages").join(format!("{job}.page"));
        // A full directory is what an attacker gets, too.
        let _ = fs::File::create(&path).and_then(|file| {
            file.set_len(lane_at(n_lanes) as u64)?;
            file.write_all_at(&about.whole_header(n_lanes), 0)?;
            chown(&path, Some(ATTACKER), None)
        });
    }
}

fn start_ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    after_name.split(' ').nth(19).and_then(|field| field.parse().ok()).unwrap_or(0)
}

/// A process that is ended when dropped.
struct Crowd(Option<Child>);

impl Drop for Crowd {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Results of a Prometheus' scrapes.
#[derive(Default)]
struct Scraped {
    n: AtomicU64,
    n_late: AtomicU64,
    slowest_ms: AtomicU64,
}

impl Scraped {
    fn go(&self, site: &Site, stop: &AtomicBool) {
        let token = fs::read_to_string(site.path("store/token")).unwrap_or_default();
        let question = format!(
            "GET /metrics HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n\r\n",
            site.http,
            token.trim()
        );
        while !stop.load(Ordering::Relaxed) {
            let asked = Instant::now();
            let is_answered = scrape(site.http, &question).is_some();
            let took = asked.elapsed();
            self.n.fetch_add(1, Ordering::Relaxed);
            if !is_answered || took > MOST_WAIT {
                self.n_late.fetch_add(1, Ordering::Relaxed);
            }
            self.slowest_ms.fetch_max(took.as_millis() as u64, Ordering::Relaxed);
            std::thread::sleep(Duration::from_secs(1).saturating_sub(took));
        }
    }

    /// The longest answer in seconds, and how many came too late or not at all.
    fn so_far(&self) -> (f64, u64) {
        (self.slowest_ms.load(Ordering::Relaxed) as f64 / 1e3, self.n_late.load(Ordering::Relaxed))
    }
}

fn scrape(http: SocketAddr, question: &str) -> Option<()> {
    let mut stream = TcpStream::connect_timeout(&http, Duration::from_secs(5)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    stream.write_all(question.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    answer.starts_with(b"HTTP/1.1 200").then_some(())
}

/// A receiver of alarms, which counts those of the operator.
struct Receiver {
    address: SocketAddr,
    told: Arc<AtomicU64>,
}

impl Receiver {
    fn start() -> Result<Self, String> {
        let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
        let address = listener.local_addr().map_err(|error| error.to_string())?;
        let told = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&told);
        std::thread::spawn(move || {
            listener.incoming().flatten().for_each(|stream| drop(take(stream, &count)))
        });
        Ok(Self { address, told })
    }

    fn n_told(&self) -> u64 {
        self.told.load(Ordering::Relaxed)
    }
}

/// Reads one notification and answers it.
fn take(stream: TcpStream, told: &AtomicU64) -> std::io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut reader = BufReader::new(&stream);
    let (mut line, mut n_bytes) = (String::new(), 0);
    while reader.read_line(&mut line)? > 2 {
        if let Some(said) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            n_bytes = said.trim().parse().unwrap_or(0).min(1 << 20);
        }
        line.clear();
    }
    let mut body = vec![0; n_bytes];
    reader.read_exact(&mut body)?;
    let said: Value = serde_json::from_slice(&body).unwrap_or_default();
    told.fetch_add(u64::from(said["alarm"]["name"] == "operators"), Ordering::Relaxed);
    (&stream).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
}
