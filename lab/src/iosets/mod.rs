//! The experiment of the IO-Sets report for real, on this machine: `cargo xtask iosets mount|gate [--repetitions 3] [--scale 20]`.
//!
//! One job computes for 18 s and writes 8 × 16 MiB, fifteen compute for 360 s and write 8 × 320 MiB, all on one storage
//! of 110 MiB/s; measured between 400 s and 3200 s. Here times and volumes are divided by a scale, and the storage is a
//! directory in memory behind a way of scheduling requests ([`Backend`]) that lets 110 MiB/s through.
//!
//! To add a backend: a variant of [`Backend`], and what it starts in [`Backend::run`].

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStderr, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use self::metrics::{Frame, Metrics, Phase, isolated_bandwidth_bps, metrics, phases_of};
use self::nodes::Layout;
use crate::product::{self, Bed, Server};
use crate::{Outcome, repository};

mod metrics;
mod nodes;
mod picture;

const HELP: &str = "\
usage: cargo xtask iosets mount|gate [OPTIONS]
       cargo xtask iosets gate --nodes 3 --targets 2      over a network of namespaces, as root

  --repetitions N   how often each policy is run (3); from four on quartiles are shown
  --arms LIST       which of none,fair-share,given,predicted,error,report are run (all); for the gate also daemon (periods of a daemon
                    that watches the jobs); with --nodes also killed (periods given, one arbiter is killed in mid-run) and cut (the same, one node
                    loses its network)
  --nodes N         run jobs on so many nodes, which ask arbiters over TCP with a key (1: no network)
  --targets N       so many storage targets, each with an arbiter and its share of the bandwidth (1)
  --storage DIR     write to a folder of DIR, behind the same pacing, rather than to memory: a volume of GlusterFS, for example
  --scale N         times and volumes are those of the report over N (20)
  --program FILE    the iotide to measure (built in release mode unless given)
  --output FILE     where the picture goes (target/iosets-mount.html, target/iosets-gate.html)
";

/// Runs the experiment and judges it by its goals.
pub(crate) fn run(args: &[String]) -> Result<Outcome, String> {
    let Some(settings) = Settings::parse(args)? else {
        print!("{HELP}");
        return Ok(Outcome::Good);
    };
    let program = match &settings.program {
        Some(program) => program.clone(),
        None => product::build()?,
    };
    let workload = Workload::rr9537(settings.scale);
    println!(
        "1 job of {:.2} s + {:.1} MiB, 15 of {:.2} s + {:.1} MiB, at {:.0} MiB/s; frame {:.1} s to {:.1} s; scale 1:{}",
        workload.jobs[0].compute_s,
        workload.jobs[0].bytes as f64 / MIB,
        workload.jobs[1].compute_s,
        workload.jobs[1].bytes as f64 / MIB,
        BANDWIDTH_BPS / MIB,
        workload.frame.begin_s,
        workload.frame.end_s,
        settings.scale,
    );
    let arms = &settings.arms;
    let mut runs: Runs = vec![Vec::new(); arms.len()];
    // Arm after arm in each repetition: what disturbs the machine for a while disturbs all of them.
    for repetition in 1..=settings.repetitions {
        for (arm, runs) in arms.iter().zip(&mut runs) {
            eprintln!("repetition {repetition} of {}: {}", settings.repetitions, arm.name());
            let bed = Bed::make("iosets")?;
            let _store = settings.storage.as_deref().map(|storage| Store::make(storage, &bed)).transpose()?;
            let run = settings.run(&program, &bed, &workload, *arm, repetition)?;
            runs.push(run);
        }
        if repetition < settings.repetitions {
            tell(&runs, &workload, &settings)?; // it takes long: what there is can be looked at
        }
    }
    Ok(judge(arms, &tell(&runs, &workload, &settings)?))
}

/// Phases of each job in each run of each arm.
type Runs = Vec<Vec<Vec<Vec<Phase>>>>;

/// Prints the table of the runs so far, draws them, and returns their metrics.
fn tell(runs: &Runs, workload: &Workload, settings: &Settings) -> Result<Vec<Vec<Metrics>>, String> {
    let every_run: Vec<&Vec<Vec<Phase>>> = runs.iter().flatten().collect();
    let bandwidth_bps = isolated_bandwidth_bps(&every_run).unwrap_or(BANDWIDTH_BPS);
    let of_run = |run: &Vec<Vec<Phase>>| metrics(run, workload.frame, bandwidth_bps);
    let results: Vec<Vec<Metrics>> = runs.iter().map(|runs| runs.iter().map(of_run).collect()).collect();
    let table = table(&settings.arms, &results);
    println!("\nbandwidth of phases that nobody else shared: {:.1} MiB/s\n{table}", bandwidth_bps / MIB);
    let names: Vec<&str> = settings.arms.iter().map(|arm| arm.name()).collect();
    let page = picture::page(&names, runs, &results, workload.frame, &table);
    fs::write(&settings.output, page)
        .map_err(|error| format!("cannot write {}: {error}", settings.output.display()))?;
    println!("picture in {}", settings.output.display());
    Ok(results)
}

struct Settings {
    backend: Backend,
    layout: Layout,
    repetitions: usize,
    arms: Vec<Arm>,
    storage: Option<PathBuf>,
    scale: f64,
    program: Option<PathBuf>,
    output: PathBuf,
}

/// A folder on storage that is there, in the place of the one in memory. Gone when dropped.
struct Store(PathBuf);

impl Store {
    fn make(storage: &Path, bed: &Bed) -> Result<Self, String> {
        let folder = storage.join(format!("iotide-iosets-{}", std::process::id()));
        let made = fs::create_dir(&folder).map(|()| Self(folder.clone()));
        let folder = made.map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        std::os::unix::fs::symlink(&folder.0, bed.folder.join("backing"))
            .map_err(|error| error.to_string())?;
        Ok(folder)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Settings {
    fn parse(args: &[String]) -> Result<Option<Self>, String> {
        let mut settings = Self {
            backend: Backend::Mount,
            layout: Layout { n_nodes: 1, n_targets: 1 },
            repetitions: 3,
            arms: Vec::new(),
            storage: None,
            scale: 20.0,
            program: None,
            output: PathBuf::new(),
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                "mount" => settings.backend = Backend::Mount,
                "gate" => settings.backend = Backend::Gate,
                "--repetitions" => settings.repetitions = number(value()?)? as usize,
                "--arms" => {
                    settings.arms = value()?.split(',').map(Arm::by_word).collect::<Result<_, _>>()?
                }
                "--nodes" => settings.layout.n_nodes = number(value()?)? as usize,
                "--targets" => settings.layout.n_targets = number(value()?)? as usize,
                "--storage" => {
                    let storage =
                        PathBuf::from(value()?).canonicalize().map_err(|error| error.to_string())?;
                    settings.storage = Some(storage);
                }
                "--scale" => settings.scale = number(value()?)?,
                "--program" => settings.program = Some(PathBuf::from(value()?)),
                "--output" => settings.output = PathBuf::from(value()?),
                "--help" | "-h" => return Ok(None),
                other => return Err(format!("no option {other}\n{HELP}")),
            }
        }
        let is_gate = matches!(settings.backend, Backend::Gate);
        if settings.arms.is_empty() {
            let n_arms = if settings.is_network() { Arm::ALL.len() } else { 6 + usize::from(is_gate) };
            settings.arms = Arm::ALL[..n_arms].to_vec();
        }
        let has_faults = settings.arms.iter().any(|arm| matches!(arm, Arm::Killed | Arm::Cut));
        if (settings.is_network() || settings.arms.contains(&Arm::Set10Daemon)) && !is_gate {
            return Err("--nodes, --targets and a daemon are for the gate".to_owned());
        }
        if settings.storage.is_some() && settings.is_network() {
            return Err("--storage is for one node".to_owned());
        }
        if has_faults && !settings.is_network() {
            return Err("killed and cut are for --nodes and --targets".to_owned());
        }
        if settings.output.as_os_str().is_empty() {
            settings.output = repository().join(match settings.backend {
                Backend::Mount => "target/iosets-mount.html",
                Backend::Gate => "target/iosets-gate.html",
            });
        }
        Ok(Some(settings))
    }
}

impl Settings {
    fn is_network(&self) -> bool {
        self.layout.n_nodes > 1 || self.layout.n_targets > 1
    }

    /// Runs all jobs once, and returns the I/O phases of each.
    fn run(
        &self,
        program: &Path,
        bed: &Bed,
        workload: &Workload,
        arm: Arm,
        repetition: usize,
    ) -> Result<Vec<Vec<Phase>>, String> {
        let scheduling = scheduling(bed, workload, arm, repetition)?;
        if self.is_network() {
            nodes::run(self.layout, program, bed, workload, arm, &scheduling)
        } else {
            self.backend.run(program, bed, workload, arm, &scheduling)
        }
    }
}

fn number(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|number| *number >= 1.0).ok_or(format!("'{text}' is no number of at least 1"))
}

const MIB: f64 = (1 << 20) as f64;

/// Bandwidth of the report's storage, as the report measured it.
const BANDWIDTH_BPS: f64 = 110.0 * MIB;

struct Workload {
    jobs: Vec<Job>,
    frame: Frame,
    /// Divisor of the report's times and volumes.
    scale: f64,
}

#[derive(Clone, Copy)]
struct Job {
    compute_s: f64,
    bytes: u64,
}

impl Job {
    /// Its period when it is alone.
    fn period_s(self) -> f64 {
        self.compute_s + self.bytes as f64 / BANDWIDTH_BPS
    }
}

impl Workload {
    fn rr9537(scale: f64) -> Self {
        let job = |compute_s: f64, mib: f64| Job {
            compute_s: compute_s / scale,
            bytes: (8.0 * mib * MIB / scale).round() as u64,
        };
        let mut jobs = vec![job(18.0, 16.0)];
        jobs.extend([job(360.0, 320.0); 15]);
        Self { jobs, frame: Frame { begin_s: 400.0 / scale, end_s: 3200.0 / scale }, scale }
    }
}

/// Arm of the comparison.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Arm {
    None,
    FairShare,
    Set10Given,
    Set10Predicted,
    /// As in the FTIO paper: each period is half as long, or one and a half times as long, as it should be.
    Set10Error,
    /// As in the report: order by id, credits in requests, unknown jobs in sets of their own, no turn kept for a job that is late.
    Set10Report,
    /// Periods of a daemon that sees the jobs through their live counters.
    Set10Daemon,
    /// Periods given, and in mid-run an arbiter dies.
    Killed,
    /// Periods given, and in mid-run a node loses its network.
    Cut,
}

impl Arm {
    const ALL: [Self; 9] = [
        Self::None,
        Self::FairShare,
        Self::Set10Given,
        Self::Set10Predicted,
        Self::Set10Error,
        Self::Set10Report,
        Self::Set10Daemon,
        Self::Killed,
        Self::Cut,
    ];

    fn by_word(word: &str) -> Result<Self, String> {
        let words =
            ["none", "fair-share", "given", "predicted", "error", "report", "daemon", "killed", "cut"];
        let found = words.iter().zip(Self::ALL).find(|(known, _)| **known == word);
        found.map(|(_, arm)| arm).ok_or(format!("no arm {word}; there are {}", words.join(", ")))
    }

    /// By how much a job's period is wrong when it is given; `None` if none is.
    fn error(self, index: usize, repetition: usize) -> Option<f64> {
        match self {
            Self::Set10Given | Self::Killed | Self::Cut => Some(1.0),
            Self::Set10Error => {
                // Another draw for each job and repetition, the same on every machine.
                let mixed = (index as u64 + 100 * repetition as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
                Some(if mixed >> 63 == 0 { 0.5 } else { 1.5 })
            }
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::FairShare => "fair share",
            Self::Set10Given => "Set-10, periods given",
            Self::Set10Predicted => "Set-10, periods predicted",
            Self::Set10Error => "Set-10, error ±50 %",
            Self::Set10Report => "Set-10, report's rules",
            Self::Set10Daemon => "Set-10, periods of daemon",
            Self::Killed => "Set-10, an arbiter dies",
            Self::Cut => "Set-10, a node is cut off",
        }
    }

    /// The name of the policy on the command line.
    fn policy(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::FairShare => "fair-share",
            _ => "set10",
        }
    }
}

/// How requests are scheduled.
#[derive(Clone, Copy)]
enum Backend {
    /// By `iotide mount`, which also paces the storage.
    Mount,
    /// By `iotide arbiter`, which jobs ask through the tracer; the storage is a mount that paces and does not schedule.
    Gate,
}

/// Returns the scheduling options of a mount or an arbiter.
fn scheduling(bed: &Bed, workload: &Workload, arm: Arm, repetition: usize) -> Result<Vec<String>, String> {
    let periods = bed.folder.join("periods.csv");
    let mut scheduling = vec!["--policy".to_owned(), arm.policy().to_owned()];
    let rules = if arm == Arm::Set10Report { "report" } else { "iotide" };
    scheduling.extend(["--rules", rules, "--workers", "4"].map(str::to_owned));
    // When a phase is over is a matter of time, too: 5 s in the report's, of which the storage waits 0.4 s.
    scheduling.extend(["--phase-gap".to_owned(), (5.0 / workload.scale).to_string()]);
    scheduling.extend(["--grace-period".to_owned(), (0.4 / workload.scale).to_string()]);
    scheduling.extend(["--turn".to_owned(), (40.0 / workload.scale).to_string()]);
    // Orders of magnitude are those of the report, whatever its times were divided by.
    scheduling.extend(["--time-scale".to_owned(), workload.scale.to_string()]);
    let line = |(index, job): (usize, &Job)| {
        let period_s = job.period_s() * arm.error(index, repetition)?;
        Some(format!("{},{period_s}\n", job_id(index)))
    };
    let table: Option<String> = workload.jobs.iter().enumerate().map(line).collect();
    if let Some(table) = table {
        fs::write(&periods, table).map_err(|error| error.to_string())?;
        scheduling.extend(["--periods".to_owned(), periods.display().to_string()]);
    }
    if arm == Arm::Set10Daemon {
        scheduling.extend(["--periods".to_owned(), format!("daemon:{}", Watch::socket(bed).display())]);
    }
    Ok(scheduling)
}

/// A daemon that watches the jobs, until it is dropped.
struct Watch {
    _server: Server,
    _stderr: BufReader<ChildStderr>,
}

impl Watch {
    /// Starts it, if there is one.
    fn start(program: &Path, bed: &Bed, arm: Arm) -> Result<Option<Self>, String> {
        if arm != Arm::Set10Daemon {
            return Ok(None);
        }
        let mut command = Command::new(program);
        command.args(["serve", "--http", "none", "--socket"]).arg(Self::socket(bed));
        command.arg("--pages").arg(Self::pages(bed)).arg("--store").arg(bed.folder.join("store"));
        let (server, stderr) = Server::start(command, None, "serving at")?;
        Ok(Some(Self { _server: server, _stderr: stderr }))
    }

    /// Where it is asked.
    fn socket(bed: &Bed) -> PathBuf {
        bed.folder.join("serve.sock")
    }

    /// Where jobs count.
    fn pages(bed: &Bed) -> PathBuf {
        bed.folder.join("pages")
    }
}

impl Backend {
    /// Runs all jobs once, and returns the I/O phases of each.
    fn run(
        self,
        program: &Path,
        bed: &Bed,
        workload: &Workload,
        arm: Arm,
        scheduling: &[String],
    ) -> Result<Vec<Vec<Phase>>, String> {
        let bandwidth = BANDWIDTH_BPS.to_string();
        let watch = Watch::start(program, bed, arm)?;
        let (storage, arbiter) = match self {
            Self::Mount => (Session::mount(program, bed, scheduling, &bandwidth)?, None),
            Self::Gate => {
                let as_it_comes = ["--policy", "none", "--workers", "4"].map(str::to_owned);
                let storage = Session::mount(program, bed, &as_it_comes, &bandwidth)?;
                (storage, Some(Session::arbiter(program, bed, scheduling)?))
            }
        };
        let gate = arbiter.as_ref().map(|_| Session::gate(bed));
        let start = |_: usize| {
            let mut command = Command::new(program);
            command.envs(gate.as_ref().map(|gate| ("IOTIDE_GATE", gate)));
            command
        };
        let way = Way { n_processes: 1, asks: gate.is_some(), is_watched: watch.is_some() };
        let (running, until_over) = channel::<()>();
        std::thread::scope(|scope| {
            let scheduler = arbiter.as_ref().unwrap_or(&storage);
            scope.spawn(move || {
                // Shortly before the end: of a job that has ended, nobody says anything any more.
                let late = Duration::from_secs_f64(0.95 * workload.frame.end_s);
                let is_told = matches!(arm, Arm::Set10Predicted | Arm::Set10Report | Arm::Set10Daemon);
                if is_told && until_over.recv_timeout(late) == Err(RecvTimeoutError::Timeout) {
                    let jobs = scheduler.jobs();
                    eprintln!("  {}; {}", counted(&jobs, "set"), counted(&jobs, "period_source"));
                }
            });
            let phases = run_jobs(&start, &storage.dir, bed, workload, way);
            drop(running);
            phases
        })
    }
}

/// A storage, or an arbiter, until it is dropped.
struct Session {
    server: Server,
    /// Where jobs write; empty for an arbiter.
    dir: PathBuf,
    control: PathBuf,
    _stderr: BufReader<ChildStderr>,
}

impl Session {
    fn mount(program: &Path, bed: &Bed, scheduling: &[String], bandwidth: &str) -> Result<Self, String> {
        let (backing, dir) = (bed.folder.join("backing"), bed.folder.join("shown"));
        for folder in [&backing, &dir] {
            fs::create_dir_all(folder).map_err(|error| error.to_string())?;
        }
        let mut command = Command::new(program);
        command.arg("mount").arg(&backing).arg(&dir).args(scheduling);
        command.args(["--bandwidth", bandwidth]);
        Self::start(command, dir, bed.folder.join("control"), "is shown at")
    }

    fn arbiter(program: &Path, bed: &Bed, scheduling: &[String]) -> Result<Self, String> {
        let mut command = Command::new(program);
        command.arg("arbiter").arg(Self::gate(bed)).args(scheduling);
        Self::start(command, PathBuf::new(), bed.folder.join("gate-control"), "listening")
    }

    /// Where the arbiter listens.
    fn gate(bed: &Bed) -> String {
        format!("unix:{}", bed.folder.join("gate").display())
    }

    fn start(mut command: Command, dir: PathBuf, control: PathBuf, ready: &str) -> Result<Self, String> {
        command.arg("--control").arg(&control);
        let shown = (!dir.as_os_str().is_empty()).then(|| dir.clone());
        let (server, stderr) = Server::start(command, shown, ready)?;
        Ok(Self { server, dir, control, _stderr: stderr })
    }

    /// Its process.
    fn id(&self) -> u32 {
        self.server.id()
    }

    /// Returns the list of jobs at its control socket.
    fn jobs(&self) -> String {
        let ask = || {
            let mut socket = std::os::unix::net::UnixStream::connect(&self.control)?;
            socket.write_all(b"jobs\n")?;
            let mut answer = String::new();
            BufReader::new(socket).read_line(&mut answer)?;
            Ok::<_, std::io::Error>(answer)
        };
        ask().unwrap_or_default()
    }
}

/// How many jobs have which value of a field, from the line of JSON that lists them.
fn counted(jobs: &str, field: &str) -> String {
    let mut counts = std::collections::BTreeMap::new();
    for rest in jobs.split(&format!("\"{field}\":")).skip(1) {
        let value = rest.split(['"', ',', '}']).find(|word| !word.is_empty()).unwrap_or("?");
        *counts.entry(value).or_insert(0) += 1;
    }
    counts.iter().map(|(value, n)| format!("{n} jobs with {field} {value}")).collect::<Vec<_>>().join(", ")
}

/// Numbers that a batch system might give; in the order the jobs are started.
fn job_id(index: usize) -> usize {
    1000 + index
}

/// How jobs are run.
#[derive(Clone, Copy)]
struct Way {
    /// Of each job.
    n_processes: usize,
    /// Whether they ask an arbiter, and so run under the tracer.
    asks: bool,
    /// Whether a daemon watches them.
    is_watched: bool,
}

/// Runs the jobs by the command of iotide that `start` makes for each.
fn run_jobs(
    start: &dyn Fn(usize) -> Command,
    dir: &Path,
    bed: &Bed,
    workload: &Workload,
    Way { n_processes, asks, is_watched }: Way,
) -> Result<Vec<Vec<Phase>>, String> {
    let began = Instant::now();
    let mut children = Vec::new();
    for (index, job) in workload.jobs.iter().enumerate() {
        let log = bed.folder.join(format!("job-{index}.csv"));
        let mut command = start(index);
        if asks {
            let trace = bed.folder.join(format!("trace-{index}"));
            // Whatever it was started by, it runs the same program again.
            let program = command.get_args().last().unwrap_or(command.get_program()).to_owned();
            command
                .arg("record")
                .args(is_watched.then_some("--live"))
                .arg("-o")
                .arg(trace)
                .arg("--")
                .arg(program);
            if is_watched {
                command.env("IOTIDE_LIVE", Watch::pages(bed)).env("IOTIDE_JOB_ID", job_id(index).to_string());
            }
            // The paced directory lies in memory, where nothing is traced unless it is named.
            command.env("IOTIDE_INCLUDE", dir);
        }
        command.arg("ioskel").args([
            "--compute",
            &job.compute_s.to_string(),
            "--size",
            &(job.bytes / n_processes as u64).to_string(),
            "--processes",
            &n_processes.to_string(),
        ]);
        command.args(["--iterations", "100000", "--until", &workload.frame.end_s.to_string(), "--sync"]);
        command.arg("--dir").arg(dir).arg("--log").arg(&log);
        command.env("IOSETS_JOB_ID", job_id(index).to_string()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().map_err(|error| format!("cannot start a job: {error}"))?;
        children.push((child, began.elapsed().as_secs_f64(), log));
    }
    let mut all = Vec::new();
    for ((mut child, started_s, log), job) in children.into_iter().zip(&workload.jobs) {
        let status = child.wait().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("a job failed: {status}"));
        }
        let text = fs::read_to_string(&log).map_err(|error| error.to_string())?;
        all.push(phases_of(&text, started_s, job.compute_s / 2.0)?);
    }
    Ok(all)
}

type Figure = (&'static str, fn(&Metrics) -> f64);

/// The report's four metrics.
const FIGURES: [Figure; 4] = [
    ("max stretch", |metrics| metrics.max_stretch),
    ("geo-mean stretch", |metrics| metrics.geomean_stretch),
    ("I/O slowdown", |metrics| metrics.io_slowdown),
    ("utilisation", |metrics| metrics.utilization),
];

fn median_of(runs: &[Metrics], figure: fn(&Metrics) -> f64) -> f64 {
    metrics::median(&runs.iter().map(figure).collect::<Vec<_>>())
}

/// Medians, with quartiles (of fewer than four repetitions the least and the most), and how they stand to no scheduling.
fn table(arms: &[Arm], results: &[Vec<Metrics>]) -> String {
    let mut text = format!("{:<27}", "policy");
    for (name, _) in FIGURES {
        let _ = write!(text, "{name:>32}");
    }
    text.push('\n');
    for (arm, runs) in arms.iter().zip(results) {
        let _ = write!(text, "{:<27}", arm.name());
        for (_, figure) in FIGURES {
            let median = median_of(runs, figure);
            let (low, high) = metrics::spread(&runs.iter().map(figure).collect::<Vec<_>>());
            let change = 100.0 * (median / median_of(&results[0], figure) - 1.0);
            let cell = format!("{median:.2} ({low:.2}–{high:.2}) {change:+.0} %");
            let _ = write!(text, "{cell:>32}");
        }
        text.push('\n');
    }
    text
}

/// Goals: what Set-10 gained before turns had an end stays, predicted periods within a quarter of given ones.
fn judge(arms: &[Arm], results: &[Vec<Metrics>]) -> Outcome {
    let of = |arm: Arm| arms.iter().position(|known| *known == arm).map(|index| &results[index]);
    let slowdown = |runs: &Vec<Metrics>| median_of(runs, |metrics| metrics.io_slowdown);
    let stretch = |runs: &Vec<Metrics>| median_of(runs, |metrics| metrics.max_stretch);
    let mut goals = Vec::new();
    for arm in [Arm::Set10Given, Arm::Set10Predicted] {
        if let (Some(plain), Some(runs)) = (of(Arm::None), of(arm)) {
            let name = arm.name();
            goals.push((format!("I/O slowdown −80 %: {name}"), slowdown(runs) <= 0.2 * slowdown(plain)));
            goals.push((format!("max stretch −35 %: {name}"), stretch(runs) <= 0.65 * stretch(plain)));
        }
    }
    if let (Some(given), Some(predicted)) = (of(Arm::Set10Given), of(Arm::Set10Predicted)) {
        let is_met = slowdown(predicted) <= 1.25 * slowdown(given);
        goals.push(("I/O slowdown with predicted periods within 25 % of given".to_owned(), is_met));
    }
    if let (Some(given), Some(daemon)) = (of(Arm::Set10Given), of(Arm::Set10Daemon)) {
        let is_near = |a: f64, b: f64| (a / b - 1.0).abs() <= 0.05;
        let is_met = is_near(slowdown(daemon), slowdown(given)) && is_near(stretch(daemon), stretch(given));
        goals.push((
            "I/O slowdown and stretch with a daemon's periods within 5 % of given".to_owned(),
            is_met,
        ));
    }
    println!();
    for (goal, is_met) in &goals {
        println!("{} {goal}", if *is_met { "met   " } else { "MISSED" });
    }
    if goals.iter().all(|(_, is_met)| *is_met) { Outcome::Good } else { Outcome::Wanting }
}
