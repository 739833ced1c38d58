//! Costs of an acting daemon to jobs when something fails: `cargo xtask loop`.
//!
//! Three jobs (one writes a little often, two much now and then) on a storage that lets so much through in a second: a mount that serves requests as
//! they come, in front of which an arbiter gives turns. Each failure is tried twice, with a daemon that only watches and with one that acts, at the
//! same moment of the run. Jobs have so many phases and then end, so how long they run is what the controller has cost or saved.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Outcome;
use crate::product::{self, Bed, Server, signal};

const HELP: &str = "\
usage: cargo xtask loop [OPTIONS]

  --faults LIST     which of none,killed,changing,stalled,hanging,slurm are tried (all)
  --repetitions N   how often each is run (1); medians of each job count
  --short BYTES     what the short job writes in a phase (3000000): the more, the more its gain costs the others
  --seed N          by which the moment of the failure is drawn (1)
  --program FILE    the iotide to measure (built in release mode unless given)
";

/// Bandwidth of the storage, in bytes per second.
const BANDWIDTH_BPS: u64 = 60_000_000;
/// When a failure begins, at the earliest and at the latest: before the first decision, until it has been evaluated.
const MOMENT_S: [f64; 2] = [12.0, 45.0];
/// A daemon is killed while a decision of its is in force: at the latest so long after it was taken.
const KILLED_WITHIN_S: f64 = 8.0;
/// How long the storage stalls, or the arbiter hangs.
const PAUSE: Duration = Duration::from_secs(4);
/// Time after which an arbiter has forgotten the periods it was lent.
const FORGOTTEN: Duration = Duration::from_secs(8);
/// So much longer than without the controller each job may take.
const LIMIT: f64 = 1.02;

struct Job {
    name: &'static str,
    compute_s: f64,
    n_processes: u32,
    /// Of each process in each phase.
    bytes: u64,
    n_phases: u32,
}

const JOBS: [Job; 3] = [
    Job { name: "short", compute_s: 0.5, n_processes: 1, bytes: 3_000_000, n_phases: 80 },
    Job { name: "long-1", compute_s: 2.5, n_processes: 4, bytes: 18_000_000, n_phases: 14 },
    Job { name: "long-2", compute_s: 2.8, n_processes: 4, bytes: 18_000_000, n_phases: 14 },
];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    None,
    /// The daemon is killed.
    Killed,
    /// From their middle on jobs compute twice as long, or half as long: what was found of them is wrong by a factor of two.
    Changing,
    /// The storage does nothing for a while.
    Stalled,
    /// The arbiter does nothing for a while.
    Hanging,
    /// There is a rule for sizes, and a Slurm that does not answer.
    Slurm,
}

impl Fault {
    const ALL: [Self; 6] =
        [Self::None, Self::Killed, Self::Changing, Self::Stalled, Self::Hanging, Self::Slurm];

    fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Killed => "killed",
            Self::Changing => "changing",
            Self::Stalled => "stalled",
            Self::Hanging => "hanging",
            Self::Slurm => "slurm",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::None => "nothing fails",
            Self::Killed => "the daemon is killed",
            Self::Changing => "periods change by a factor of two",
            Self::Stalled => "the storage stalls for 4 s",
            Self::Hanging => "the arbiter hangs for 4 s",
            Self::Slurm => "Slurm does not answer",
        }
    }

    /// The failure that a run without a controller has for comparison.
    fn without_controller(self) -> Self {
        match self {
            Self::Killed | Self::Slurm => Self::None,
            other => other,
        }
    }
}

struct Settings {
    faults: Vec<Fault>,
    repetitions: usize,
    seed: u64,
    short_bytes: u64,
    program: Option<PathBuf>,
}

impl Settings {
    fn parse(args: &[String]) -> Result<Option<Self>, String> {
        let mut settings = Self {
            faults: Fault::ALL.to_vec(),
            repetitions: 1,
            seed: 1,
            short_bytes: JOBS[0].bytes,
            program: None,
        };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                "--faults" => {
                    let of = |word: &str| Fault::ALL.into_iter().find(|fault| fault.word() == word);
                    let faults =
                        value()?.split(',').map(|word| of(word).ok_or(format!("no failure '{word}'")));
                    settings.faults = faults.collect::<Result<_, _>>()?;
                }
                "--repetitions" => settings.repetitions = value()?.parse().map_err(|_| "no number")?,
                "--seed" => settings.seed = value()?.parse().map_err(|_| "no number")?,
                "--short" => settings.short_bytes = value()?.parse().map_err(|_| "no number")?,
                "--program" => settings.program = Some(PathBuf::from(value()?)),
                "--help" | "-h" => return Ok(None),
                other => return Err(format!("no option {other}\n{HELP}")),
            }
        }
        settings.repetitions = settings.repetitions.max(1);
        Ok(Some(settings))
    }
}

/// Setup of the measurements.
struct Bench {
    program: PathBuf,
    short_bytes: u64,
}

/// Results of a run.
#[derive(Clone, Default)]
struct Measured {
    /// How long each job ran.
    job_s: Vec<f64>,
    /// Of decisions: how many were carried out, and taken back.
    n_taken: usize,
    n_undone: usize,
    /// Why the latest that was declined was.
    declined: Option<String>,
    /// Periods that the arbiter was still lent when it should have forgotten them.
    n_left: usize,
}

/// Runs each failure without and with a controller, and says by how much jobs are slower with it.
pub(crate) fn run(args: &[String]) -> Result<Outcome, String> {
    let Some(settings) = Settings::parse(args)? else {
        print!("{HELP}");
        return Ok(Outcome::Good);
    };
    let program = match &settings.program {
        Some(program) => program.clone(),
        None => product::build()?,
    };
    let bench = Bench { program, short_bytes: settings.short_bytes };
    println!("storage of {} MB/s; seed {}\n", BANDWIDTH_BPS / 1_000_000, settings.seed);
    println!(
        "| | run time without | with | ratio, mean over jobs | slowest job | decisions | taken back | left at the arbiter |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let mut failures = Vec::new();
    for fault in &settings.faults {
        let mut rows = Vec::new();
        for repetition in 0..settings.repetitions {
            let share = moment_share(settings.seed, repetition, *fault);
            let moment_s = moment_s(share);
            match fault {
                Fault::Killed => {
                    eprintln!("{}: {:.1} s after its first decision", fault.name(), share * KILLED_WITHIN_S)
                }
                _ => eprintln!("{}: at {moment_s:.1} s", fault.name()),
            }
            let without = measure(&bench, fault.without_controller(), share, false)?;
            let with = measure(&bench, *fault, share, true)?;
            with.declined.iter().for_each(|why| eprintln!("  declined: {why}"));
            for (job, (with, without)) in JOBS.iter().zip(with.job_s.iter().zip(&without.job_s)) {
                eprintln!("  {}: {:.3} of the time", job.name, with / without);
            }
            rows.push((without, with));
        }
        let median = |figures: &[f64]| iotide_num::median(figures).unwrap_or(f64::NAN);
        let ratios = job_ratios(&rows);
        let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
        let (slowest, slowest_ratio) = JOBS
            .iter()
            .zip(&ratios)
            .max_by(|(_, a), (_, b)| a.total_cmp(b))
            .map_or(("–", f64::NAN), |(job, ratio)| (job.name, *ratio));
        let longest = |pick: fn(&(Measured, Measured)) -> &Measured| {
            let of_run = |row: &(Measured, Measured)| pick(row).job_s.iter().copied().fold(0.0, f64::max);
            median(&rows.iter().map(of_run).collect::<Vec<_>>())
        };
        let sum = |pick: fn(&Measured) -> usize| rows.iter().map(|(_, with)| pick(with)).sum::<usize>();
        let n_left = sum(|with| with.n_left);
        println!(
            "| {} | {:.1} s | {:.1} s | {mean:.3} | {slowest} {slowest_ratio:.3} | {} | {} | {n_left} |",
            fault.name(),
            longest(|(without, _)| without),
            longest(|(_, with)| with),
            sum(|with| with.n_taken),
            sum(|with| with.n_undone),
        );
        failures.extend(failures_of(*fault, &ratios, n_left));
    }
    println!(
        "\nratio: run time with the controller over that without; the limit is {LIMIT} for each job, not only for the mean"
    );
    match failures.is_empty() {
        true => println!("no job exceeds the limit"),
        false => failures.iter().for_each(|failure| println!("{failure}")),
    }
    Ok(if failures.is_empty() { Outcome::Good } else { Outcome::Wanting })
}

/// How long each job runs with the controller over how long it runs without: the median over repetitions, so that one that was slow once by chance counts for
/// less the more often it is run.
fn job_ratios(rows: &[(Measured, Measured)]) -> Vec<f64> {
    let of_job = |n: usize| {
        let ratios: Vec<f64> = rows
            .iter()
            .filter_map(|(without, with)| Some(with.job_s.get(n)? / without.job_s.get(n)?))
            .collect();
        iotide_num::median(&ratios).unwrap_or(f64::NAN)
    };
    (0..JOBS.len()).map(of_job).collect()
}

/// Returns the faults in the runs of a failure: each job that is slower than it may be, and periods left behind. A job without a measurement is a fault.
fn failures_of(fault: Fault, ratios: &[f64], n_left: usize) -> Vec<String> {
    let name = fault.name();
    let is_slow = |(_, ratio): &(&Job, &f64)| ratio.is_nan() || **ratio > LIMIT;
    let slow = JOBS.iter().zip(ratios).filter(is_slow);
    let mut failures: Vec<String> = slow
        .map(|(job, ratio)| format!("{name}: {} takes {ratio:.3} of the time, more than {LIMIT}", job.name))
        .collect();
    if n_left > 0 {
        failures.push(format!("{name}: {n_left} periods were left at the arbiter"));
    }
    failures
}

/// Where between the earliest and the latest moment something fails; the same for every run of a seed.
fn moment_share(seed: u64, repetition: usize, fault: Fault) -> f64 {
    let mut hash = iotide_wire::Fnv1a::default();
    hash.write(&seed.to_le_bytes());
    hash.write(&(repetition as u64).to_le_bytes());
    hash.write(fault.without_controller().word().as_bytes());
    (hash.value() >> 11) as f64 / (1u64 << 53) as f64
}

fn moment_s(share: f64) -> f64 {
    MOMENT_S[0] + share * (MOMENT_S[1] - MOMENT_S[0])
}

fn said(error: std::io::Error) -> String {
    error.to_string()
}

/// A program that is ended when dropped.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // The number of one that has ended may be another's by now.
        if !matches!(self.0.try_wait(), Ok(None)) {
            return;
        }
        signal(self.0.id(), "TERM");
        let asked = Instant::now();
        while matches!(self.0.try_wait(), Ok(None)) && asked.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn measure(bench: &Bench, fault: Fault, share: f64, acts: bool) -> Result<Measured, String> {
    let program = bench.program.as_path();
    let bed = Bed::make("loop")?;
    for name in ["backing", "shown", "pages", "slurm"] {
        fs::create_dir_all(bed.folder.join(name)).map_err(said)?;
    }
    let bandwidth = BANDWIDTH_BPS.to_string();
    let mut mount = Command::new(program);
    mount.arg("mount").arg(bed.folder.join("backing")).arg(bed.folder.join("shown"));
    mount.args(["--policy", "none", "--workers", "4", "--bandwidth", &bandwidth]);
    let (mount, _mount_says) = Server::start(mount, Some(bed.folder.join("shown")), "is shown at")?;
    fs::write(bed.folder.join("periods.json"), "{}").map_err(said)?;
    let mut arbiter = Command::new(program);
    arbiter
        .arg("arbiter")
        .arg(gate(&bed))
        // As few with the storage at once as keep it busy: what is there is out of everyone's hands.
        .args(["--policy", "set10", "--workers", "2", "--control"])
        .arg(bed.folder.join("control"));
    arbiter.arg("--periods").arg(bed.folder.join("periods.json"));
    let (arbiter, _arbiter_says) = Server::start(arbiter, None, "listening")?;
    let mut daemon = Some(start_daemon(program, &bed, fault, acts)?);

    let began = Instant::now();
    let mut jobs: Vec<(Ended, Option<f64>)> = start_jobs(bench, &bed, fault)?;
    let mut measured = Measured::default();
    let moment_s = moment_s(share);
    let mut decided_s = None;
    let (mut stopped, mut is_due) = (None::<u32>, true);
    let (mut killed, mut asked) = (None, Instant::now());
    while jobs.iter().any(|(_, ran_s)| ran_s.is_none()) {
        std::thread::sleep(Duration::from_millis(5));
        for (job, ran_s) in jobs.iter_mut().filter(|(_, ran_s)| ran_s.is_none()) {
            if let Some(status) = job.0.try_wait().map_err(said)? {
                if !status.success() {
                    return Err(format!("a job failed: {status}"));
                }
                *ran_s = Some(began.elapsed().as_secs_f64());
            }
        }
        let now_s = began.elapsed().as_secs_f64();
        let due_s = match fault {
            Fault::Killed => decided_s.map_or(f64::MAX, |decided_s| decided_s + share * KILLED_WITHIN_S),
            _ => moment_s,
        };
        if is_due && now_s >= due_s {
            is_due = false;
            match fault {
                Fault::Killed => {
                    if let Some(mut daemon) = daemon.take() {
                        daemon.0.kill().map_err(said)?;
                        killed = Some(Instant::now());
                    }
                }
                Fault::Stalled => stopped = Some(mount.id()),
                Fault::Hanging => stopped = Some(arbiter.id()),
                Fault::None | Fault::Changing | Fault::Slurm => {}
            }
            stopped.into_iter().for_each(|process| signal(process, "STOP"));
        }
        if now_s >= moment_s + PAUSE.as_secs_f64() {
            stopped.take().into_iter().for_each(|process| signal(process, "CONT"));
        }
        if killed.is_some_and(|killed: Instant| killed.elapsed() > FORGOTTEN) {
            killed = None;
            measured.n_left = n_given(&bed.folder.join("control"));
        }
        if acts && daemon.is_some() && asked.elapsed() > Duration::from_secs(2) {
            asked = Instant::now();
            count_decisions(program, &bed, &mut measured);
            if measured.n_taken > 0 {
                decided_s = decided_s.or(Some(now_s));
            }
        }
    }
    stopped.take().into_iter().for_each(|process| signal(process, "CONT"));
    measured.job_s = jobs.into_iter().filter_map(|(_, ran_s)| ran_s).collect();
    Ok(measured)
}

fn gate(bed: &Bed) -> String {
    format!("unix:{}", bed.folder.join("gate").display())
}

fn start_daemon(program: &Path, bed: &Bed, fault: Fault, acts: bool) -> Result<Ended, String> {
    let mut settings = String::new();
    if acts {
        settings = format!(
            "[act]\ndry_run = false\nevery = \"500ms\"\n\n[[act.rule]]\nname = \"storage\"\nactor = \"sets\"\ncontrol = {:?}\nbandwidth = \"{BANDWIDTH_BPS}\"\n",
            bed.folder.join("control").display().to_string()
        );
        if fault == Fault::Slurm {
            settings += "\n[[act.rule]]\nname = \"sizes\"\nactor = \"resize\"\n";
        }
    }
    fs::write(bed.folder.join("serve.toml"), settings).map_err(said)?;
    let mut command = Command::new(program);
    command.args(["serve", "--http", "none", "--node", "n1", "--config"]).arg(bed.folder.join("serve.toml"));
    for (option, name) in [("--socket", "socket"), ("--store", "store"), ("--pages", "pages")] {
        command.arg(option).arg(bed.folder.join(name));
    }
    if fault == Fault::Slurm {
        for name in ["squeue", "scontrol", "sinfo", "sbatch", "scancel"] {
            let path = bed.folder.join("slurm").join(name);
            fs::write(&path, "#!/bin/sh\nexec sleep 600\n").map_err(said)?;
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).map_err(said)?;
        }
        let others = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{others}", bed.folder.join("slurm").display()));
    }
    let daemon = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(said)?;
    let daemon = Ended(daemon);
    let began = Instant::now();
    while UnixStream::connect(bed.folder.join("socket")).is_err() {
        if began.elapsed() > Duration::from_secs(10) {
            return Err("the daemon does not answer".to_owned());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(daemon)
}

/// Starts the jobs, none of which has ended yet.
fn start_jobs(bench: &Bench, bed: &Bed, fault: Fault) -> Result<Vec<(Ended, Option<f64>)>, String> {
    let [short, others @ ..] = JOBS;
    let short = [Job { bytes: bench.short_bytes, ..short }];
    short.iter().chain(&others).map(|job| Ok((start_job(&bench.program, bed, job, fault)?, None))).collect()
}

fn start_job(program: &Path, bed: &Bed, job: &Job, fault: Fault) -> Result<Ended, String> {
    let data = bed.folder.join("shown").join(job.name);
    fs::create_dir(&data).map_err(said)?;
    let part = |n_phases: u32, compute_s: f64| {
        format!(
            "{} ioskel --compute {compute_s} --size {} --processes {} -n {n_phases} --sync --dir {}",
            program.display(),
            job.bytes,
            job.n_processes,
            data.display()
        )
    };
    let script = match fault {
        Fault::Changing => {
            // Others than the first go the other way.
            let factor = if job.name == JOBS[0].name { 2.0 } else { 0.5 };
            let half = job.n_phases / 2;
            format!(
                "{} && exec {}",
                part(half, job.compute_s),
                part(job.n_phases - half, factor * job.compute_s)
            )
        }
        _ => format!("exec {}", part(job.n_phases, job.compute_s)),
    };
    let mut command = Command::new(program);
    command.args(["record", "--live", "-q", "-o"]).arg(bed.folder.join(format!("{}.trace", job.name)));
    command.args(["--", "sh", "-c", &script]);
    command.env("IOTIDE_LIVE", bed.folder.join("pages")).env("IOTIDE_JOB_ID", job.name);
    // The paced directory lies in memory, where nothing is traced unless it is named.
    command.env("IOTIDE_GATE", gate(bed)).env("IOTIDE_INCLUDE", bed.folder.join("shown"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(Ended(command.spawn().map_err(said)?))
}

/// How many periods an arbiter has been given by somebody.
fn n_given(control: &Path) -> usize {
    let ask = || {
        let mut socket = UnixStream::connect(control)?;
        socket.write_all(b"jobs\n")?;
        let mut answer = String::new();
        BufReader::new(socket).read_line(&mut answer)?;
        Ok::<_, std::io::Error>(answer)
    };
    let answer: Value = serde_json::from_str(&ask().unwrap_or_default()).unwrap_or_default();
    let jobs = answer["jobs"].as_array().cloned().unwrap_or_default();
    jobs.iter().filter(|job| job["period_source"] == "given").count()
}

fn count_decisions(program: &Path, bed: &Bed, measured: &mut Measured) {
    let mut command = Command::new(program);
    command.args(["decisions", "--format", "json"]).env("IOTIDE_DAEMON", bed.folder.join("socket"));
    let Ok(output) = command.stderr(Stdio::null()).output() else { return };
    let list: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let Some(decisions) = list["decisions"].as_array() else { return };
    let n_in = |states: &[&str]| {
        decisions
            .iter()
            .filter(|it| it["state"].as_str().is_some_and(|state| states.contains(&state)))
            .count()
    };
    measured.n_taken = measured.n_taken.max(n_in(&["standing", "undone", "over"]));
    measured.n_undone = measured.n_undone.max(n_in(&["undone"]));
    let declined = decisions.iter().find(|it| it["state"] == "declined");
    measured.declined =
        declined.and_then(|it| it["reason"].as_str()).map(str::to_owned).or(measured.declined.take());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(job_s: [f64; 3]) -> Measured {
        Measured { job_s: job_s.to_vec(), ..Measured::default() }
    }

    #[test]
    fn one_job_that_is_too_slow_fails_a_run_whatever_the_mean_is() {
        let ratios = job_ratios(&[(ran([60.0, 70.0, 70.0]), ran([50.0, 71.0, 72.5]))]);
        let failures = failures_of(Fault::Stalled, &ratios, 0);
        assert_eq!(failures, ["the storage stalls for 4 s: long-2 takes 1.036 of the time, more than 1.02"]);
        // Once of three times is no more than chance.
        let good = (ran([60.0, 70.0, 70.0]), ran([50.0, 71.0, 71.0]));
        let once = (ran([60.0, 70.0, 70.0]), ran([50.0, 71.0, 72.5]));
        let ratios = job_ratios(&[good.clone(), once, good]);
        assert_eq!(failures_of(Fault::None, &ratios, 0), Vec::<String>::new());
        assert_eq!(failures_of(Fault::None, &ratios, 2).len(), 1);
        assert_eq!(failures_of(Fault::None, &job_ratios(&[]), 0).len(), 3, "nothing was measured");
    }
}
