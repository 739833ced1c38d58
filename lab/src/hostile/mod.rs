//! Users who mean harm, beside users who do not: `cargo xtask hostile [--minutes 60]`, as root.
//!
//! Root serves a mount and an arbiter to everyone. Victims (one user, three jobs at each) compute for a second and write 8 MiB, over and over.
//! First ordinary users write all the time beside them: what the victims then move, or an equal part of the storage if that is less, is
//! their fair share. Then the same users attack, in every way that is known to have worked once: leases that are not given up, jobs with ever new names, descriptors that are
//! hoarded, requests too small to be held up, turns without end; at the arbiter silence, answers that are not read, grants
//! that are never given back. Every minute it is told what is left to the victims and what the servers cost.
//!
//! Attackers are held to a few per cent of a core each, so that it is the servers that are tried and not the machine.

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::Outcome;
use crate::product::{self, Server};

mod daemon;

const HELP: &str = "\
usage: cargo xtask hostile [OPTIONS]           a mount and an arbiter (as root, with FUSE, python3 and setpriv)
       cargo xtask hostile daemon [OPTIONS]    a daemon (as root, with python3)

  --minutes N       how long the attack lasts (60)
  --program FILE    the iotide to attack (built in release mode unless given)
  --only LIST       attacks to carry out, of big,tiny,names,descriptors,leases,rights,gate_deaf,gate_silent,gate_undone,gate_big (all)
";

/// Bandwidth of the storage behind the mount, in bytes per second; clients of the arbiter state the same of theirs.
const STORAGE_BPS: u64 = 32 << 20;

const VICTIM: u32 = 40_001;
/// Each user may have a quarter of most things: with these, the victims and root are left one.
const STRANGERS: [u32; 3] = [50_001, 50_002, 50_003];

/// Ways to attack: at whom, and how many processes each attacker uses for it.
const ATTACKS: [(&str, usize); 10] = [
    ("big", 4),
    ("tiny", 1),
    ("names", 1),
    ("descriptors", 1),
    ("leases", 1),
    ("rights", 1),
    ("gate_deaf", 1),
    ("gate_silent", 1),
    ("gate_undone", 1),
    ("gate_big", 1),
];

/// Limits on the resources of a server.
const MOST_RSS_MB: u64 = 256;
const MOST_THREADS: u64 = 128;
/// Of the 4096 that the mount may open and the arbiter has places for.
const MOST_DESCRIPTORS: u64 = 4500;

/// Carries the attack out and judges what it came to.
pub(crate) fn run(args: &[String]) -> Result<Outcome, String> {
    let Some(settings) = Settings::parse(args)? else {
        print!("{HELP}");
        return Ok(Outcome::Good);
    };
    let program = settings.program.clone().map_or_else(product::build, Ok)?;
    if settings.is_daemon {
        return daemon::run(&settings, &program.canonicalize().map_err(|error| error.to_string())?);
    }
    let bed = Bed::make(&program)?;
    println!(
        "in {}: `iotide sets show control gate-control` tells what the schedulers think",
        bed.folder.display()
    );
    let servers = [mount(&bed)?, arbiter(&bed)?];
    let victims = ["victim", "gate_victim"].map(|role| Crowd::start(&bed, VICTIM, role, 3, -10));
    let victims = victims.into_iter().collect::<Result<Vec<_>, _>>()?;

    println!("the victims alone, until their periods are known");
    std::thread::sleep(Duration::from_secs(40));
    let calm_s = (settings.minutes * 60.0 / 20.0).clamp(20.0, 60.0);
    println!("ordinary users beside the victims, for {calm_s:.0} s before and after");
    let before = in_peace(&bed, &victims, calm_s)?;
    println!("{}", Minute::head());
    let mut minutes = Vec::new();
    {
        let mut attackers = Vec::new();
        for (attack, n) in ATTACKS.iter().filter(|(attack, _)| settings.attacks(attack)) {
            for user in STRANGERS {
                attackers.push(Crowd::start(&bed, user, attack, *n, 0)?);
            }
        }
        let began = Instant::now();
        while began.elapsed().as_secs_f64() < settings.minutes * 60.0 {
            let mut minute = Minute::begin(&victims, &attackers);
            std::thread::sleep(Duration::from_secs(60));
            minute.end(&victims, &mut attackers, &servers)?;
            println!("{:>6}  {}", minutes.len() + 1, minute.line(&before));
            minutes.push(minute);
        }
        // All at once: one that has been ended is gone only when its last request was answered.
        attackers.iter_mut().for_each(Crowd::kill);
    }
    let after = in_peace(&bed, &victims, calm_s)?;
    drop(victims);
    // What attackers held is closed by the system, and answered for by the servers a moment later.
    std::thread::sleep(Duration::from_secs(3));
    Ok(judge(&settings, &minutes, [&before, &after], &servers, &bed))
}

/// Returns the bandwidth of victims at the mount and at the arbiter, in MiB per second, while ordinary users are in the attackers' place.
fn in_peace(bed: &Bed, victims: &[Crowd], for_s: f64) -> Result<[f64; 2], String> {
    let mut others = Vec::new();
    for user in STRANGERS {
        others.push(Crowd::start(bed, user, "ordinary", 1, -10)?);
        others.push(Crowd::start(bed, user, "gate_ordinary", 1, -10)?);
    }
    // Until everyone has found their place.
    std::thread::sleep(Duration::from_secs(10));
    let began: Vec<Moved> = victims.iter().map(Crowd::moved).collect();
    std::thread::sleep(Duration::from_secs_f64(for_s));
    let moved = |at: usize| (victims[at].moved().good - began[at].good) as f64 / for_s;
    let share = [moved(0), moved(1)];
    if others.iter_mut().map(Crowd::n_gone).sum::<usize>() > 0 || share.contains(&0.0) {
        return Err("those who should take part have ended, or nothing was moved".to_owned());
    }
    others.iter_mut().for_each(Crowd::kill);
    println!("  victims move {:.2} MiB/s at the mount, {:.2} at the arbiter", share[0], share[1]);
    Ok(share)
}

fn judge(
    settings: &Settings,
    minutes: &[Minute],
    shares: [&[f64; 2]; 2],
    servers: &[Server; 2],
    bed: &Bed,
) -> Outcome {
    let mut is_good = true;
    let mut check = |what: String, is_right: bool| {
        println!("{} {what}", if is_right { "ok    " } else { "WRONG " });
        is_good &= is_right;
    };
    for (at, name) in ["mount", "arbiter"].into_iter().enumerate() {
        let in_peace = (shares[0][at] + shares[1][at]) / 2.0;
        // Nobody is owed more than an equal part of the storage, though it may be had in peace.
        let fair = in_peace.min(STORAGE_BPS as f64 / f64::from(1 << 20) / (STRANGERS.len() + 1) as f64);
        let moved: Vec<f64> = minutes.iter().map(|minute| minute.mib_per_s[at]).collect();
        let mean = moved.iter().sum::<f64>() / moved.len().max(1) as f64;
        let worst = moved.iter().copied().fold(f64::INFINITY, f64::min);
        check(
            format!(
                "{name}: victims keep {mean:.2} MiB/s, {:.2} of what they move in peace and {:.2} of their fair share of \
                 {fair:.2} (worst minute {:.2}); half of that must be left",
                mean / in_peace,
                mean / fair,
                worst / fair
            ),
            2.0 * mean >= fair,
        );
        let n_wrong: u64 = minutes.iter().map(|minute| minute.n_wrong[at]).sum();
        check(format!("{name}: {n_wrong} requests of victims refused or without an answer"), n_wrong == 0);
        let most =
            |of: fn(&Cost) -> u64| minutes.iter().map(|minute| of(&minute.costs[at])).max().unwrap_or(0);
        let rss_mb = most(|cost| cost.peak_mb);
        check(format!("{name}: {rss_mb} MB at most of {MOST_RSS_MB}"), rss_mb <= MOST_RSS_MB);
        let threads = most(|cost| cost.threads);
        check(format!("{name}: {threads} threads at most of {MOST_THREADS}"), threads <= MOST_THREADS);
        let descriptors = most(|cost| cost.descriptors);
        check(
            format!("{name}: {descriptors} descriptors at most of {MOST_DESCRIPTORS}"),
            descriptors <= MOST_DESCRIPTORS,
        );
        match Cost::of(servers[at].id()) {
            Ok(left) => check(
                format!(
                    "{name}: {} descriptors and {} MB once everyone has gone",
                    left.descriptors, left.rss_mb
                ),
                // Those of files that the kernel still knows.
                left.descriptors < 1000,
            ),
            Err(error) => check(format!("{name}: {error}"), false),
        }
    }
    let n_gone = minutes.iter().map(|minute| minute.n_gone).max().unwrap_or(0);
    check(format!("{n_gone} attackers gave up"), n_gone == 0);
    let mode = fs::metadata(bed.folder.join("backing/program")).map_or(0, |file| file.permissions().mode());
    if settings.attacks("rights") {
        check(format!("mount: the program that everyone may change has mode {mode:o}"), mode & 0o6000 == 0);
    }
    if is_good { Outcome::Good } else { Outcome::Wanting }
}

struct Settings {
    minutes: f64,
    program: Option<PathBuf>,
    only: Option<Vec<String>>,
    is_daemon: bool,
}

impl Settings {
    fn parse(args: &[String]) -> Result<Option<Self>, String> {
        let mut settings = Self { minutes: 60.0, program: None, only: None, is_daemon: false };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                "--minutes" => {
                    let minutes = value()?.parse().ok().filter(|minutes| (1.0..=1e4).contains(minutes));
                    settings.minutes = minutes.ok_or("--minutes needs a number of at least 1")?;
                }
                "daemon" => settings.is_daemon = true,
                "--program" => settings.program = Some(PathBuf::from(value()?)),
                "--only" => settings.only = Some(value()?.split(',').map(str::to_owned).collect()),
                "--help" | "-h" => return Ok(None),
                other => return Err(format!("no option {other}\n{HELP}")),
            }
        }
        Ok(Some(settings))
    }

    fn attacks(&self, attack: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.iter().any(|wanted| wanted == attack))
    }
}

/// Where it all happens: in memory; gone when dropped.
struct Bed {
    folder: PathBuf,
    program: PathBuf,
}

impl Bed {
    fn make(program: &Path) -> Result<Self, String> {
        let folder = PathBuf::from(format!("/dev/shm/iotide-hostile-{}", std::process::id()));
        let failed = |error: std::io::Error| format!("cannot prepare {}: {error}", folder.display());
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
        fs::create_dir(&folder).map_err(failed)?;
        let bed = Self { folder: folder.clone(), program: program.canonicalize().map_err(failed)? };
        mode(&folder, 0o755).map_err(failed)?;
        for name in ["backing", "shown"] {
            fs::create_dir(folder.join(name)).map_err(failed)?;
        }
        mode(&folder.join("backing"), 0o777).map_err(failed)?;
        let script = folder.join("actors.py");
        fs::write(&script, include_str!("actors.py")).map_err(failed)?;
        mode(&script, 0o644).map_err(failed)?;
        // What every user may change and none may gain by.
        let target = folder.join("backing/program");
        fs::write(&target, "a program").map_err(failed)?;
        mode(&target, 0o6777).map_err(failed)?;
        Ok(bed)
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The mount that is attacked.
fn mount(bed: &Bed) -> Result<Server, String> {
    let options = format!("mount backing shown --policy set10 --bandwidth {STORAGE_BPS} --control control");
    start(bed, &options, "is shown at", Some(bed.folder.join("shown")))
}

/// The arbiter that is attacked.
fn arbiter(bed: &Bed) -> Result<Server, String> {
    let options = "arbiter unix:gate --policy set10 --workers 4 --socket-mode 666 --control gate-control";
    start(bed, options, "listening", None)
}

fn start(bed: &Bed, options: &str, ready: &str, shown: Option<PathBuf>) -> Result<Server, String> {
    let line = format!("ulimit -n 4096; exec nice -n -10 \"$0\" {options}");
    let mut command = Command::new("sh");
    command.args(["-c", &line]).arg(&bed.program).current_dir(&bed.folder);
    let (server, stderr) = Server::start(command, shown, ready)?;
    // What else it says is shown.
    std::thread::spawn(move || stderr.lines().map_while(Result::ok).for_each(|line| eprintln!("{line}")));
    Ok(server)
}

/// Several processes of one user that do the same; ended when dropped.
struct Crowd {
    children: Vec<Child>,
    good: Arc<AtomicU64>,
    wrong: Arc<AtomicU64>,
}

/// How many MiB came through, and how many went wrong.
#[derive(Clone, Copy)]
struct Moved {
    good: u64,
    wrong: u64,
}

impl Crowd {
    fn start(bed: &Bed, user: u32, role: &str, n: usize, niceness: i32) -> Result<Self, String> {
        let mut crowd = Self { children: Vec::new(), good: Arc::default(), wrong: Arc::default() };
        for i in 0..n {
            let name = format!("{role}-{user}-{i}");
            let mut command = Command::new("nice");
            command.args(["-n", &niceness.to_string(), "setpriv", "--clear-groups"]);
            command.args([format!("--reuid={user}"), format!("--regid={user}")]);
            // One that every user may run, whatever root has on its path.
            command.args(["/usr/bin/python3", "actors.py", role, &name, &STORAGE_BPS.to_string()]);
            command.env("IOSETS_JOB_ID", &name).current_dir(&bed.folder);
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
            let mut child = command.spawn().map_err(|error| format!("{name}: {error}"))?;
            let words = BufReader::new(child.stdout.take().ok_or("no stdout")?);
            let (good, wrong) = (Arc::clone(&crowd.good), Arc::clone(&crowd.wrong));
            std::thread::spawn(move || {
                for word in words.lines().map_while(Result::ok) {
                    (if word == "." { &good } else { &wrong }).fetch_add(1, Ordering::Relaxed);
                }
            });
            crowd.children.push(child);
        }
        Ok(crowd)
    }

    fn moved(&self) -> Moved {
        Moved { good: self.good.load(Ordering::Relaxed), wrong: self.wrong.load(Ordering::Relaxed) }
    }

    /// Processor time of its processes and their children, in ticks of which a second has a hundred.
    fn ticks(&self) -> u64 {
        let of = |child: &Child| {
            let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
            let fields = stat.rsplit_once(") ").map_or("", |(_, rest)| rest).split(' ');
            fields.skip(11).take(4).filter_map(|field| field.parse::<u64>().ok()).sum::<u64>()
        };
        self.children.iter().map(of).sum()
    }

    fn kill(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
        }
    }

    /// How many have ended, which none should.
    fn n_gone(&mut self) -> usize {
        self.children.iter_mut().filter_map(|child| child.try_wait().ok().flatten()).count()
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.kill();
        for child in &mut self.children {
            let _ = child.wait();
        }
    }
}

/// Resources used by a server.
#[derive(Clone, Copy, Default)]
struct Cost {
    rss_mb: u64,
    peak_mb: u64,
    threads: u64,
    descriptors: u64,
}

impl Cost {
    fn of(process: u32) -> Result<Self, String> {
        let status =
            fs::read_to_string(format!("/proc/{process}/status")).map_err(|_| "the server has ended")?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            line.split_whitespace().next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0)
        };
        let descriptors = fs::read_dir(format!("/proc/{process}/fd")).map_or(0, |fds| fds.count() as u64);
        Ok(Self {
            rss_mb: field("VmRSS:") >> 10,
            peak_mb: field("VmHWM:") >> 10,
            threads: field("Threads:"),
            descriptors,
        })
    }
}

/// Results of a minute of the attack.
struct Minute {
    began: Instant,
    moved: Vec<Moved>,
    ticks: u64,
    mib_per_s: [f64; 2],
    n_wrong: [u64; 2],
    costs: [Cost; 2],
    /// Cores that the attackers used.
    cores: f64,
    n_gone: usize,
}

impl Minute {
    fn begin(victims: &[Crowd], attackers: &[Crowd]) -> Self {
        Self {
            began: Instant::now(),
            moved: victims.iter().map(Crowd::moved).collect(),
            ticks: attackers.iter().map(Crowd::ticks).sum(),
            mib_per_s: [0.0; 2],
            n_wrong: [0; 2],
            costs: [Cost::default(); 2],
            cores: 0.0,
            n_gone: 0,
        }
    }

    fn end(
        &mut self,
        victims: &[Crowd],
        attackers: &mut [Crowd],
        servers: &[Server; 2],
    ) -> Result<(), String> {
        let lasted_s = self.began.elapsed().as_secs_f64();
        for (at, victims) in victims.iter().enumerate() {
            let now = victims.moved();
            self.mib_per_s[at] = (now.good - self.moved[at].good) as f64 / lasted_s;
            self.n_wrong[at] = now.wrong - self.moved[at].wrong;
            self.costs[at] = Cost::of(servers[at].id())?;
        }
        let ticks: u64 = attackers.iter().map(Crowd::ticks).sum();
        self.cores = ticks.saturating_sub(self.ticks) as f64 / 100.0 / lasted_s;
        self.n_gone = attackers.iter_mut().map(Crowd::n_gone).sum();
        Ok(())
    }

    fn head() -> &'static str {
        "minute  mount: MiB/s  of peace wrong  MB (peak)  threads  files   arbiter: MiB/s  of peace wrong  MB (peak)  threads  files   attackers: cores  ended"
    }

    fn line(&self, fair: &[f64; 2]) -> String {
        let mut line = String::new();
        for (at, cost) in self.costs.iter().enumerate() {
            let _ = write!(
                line,
                "{:>width$.2}  {:>7.2}  {:>5}  {:>3} {:>5}  {:>7}  {:>5}   ",
                self.mib_per_s[at],
                self.mib_per_s[at] / fair[at],
                self.n_wrong[at],
                cost.rss_mb,
                format!("({})", cost.peak_mb),
                cost.threads,
                cost.descriptors,
                width = if at == 0 { 12 } else { 14 },
            );
        }
        line + &format!("{:>16.2}  {:>5}", self.cores, self.n_gone)
    }
}
