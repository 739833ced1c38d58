//! `iotide demo --loop`: three jobs on one storage, first without and then with a daemon that acts.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use iotide_edge::client;
use iotide_pages::loop_page;
use iotide_private::PrivateDir;
use iotide_report::{DecisionList, LoopDemo, LoopJob, LoopRun, LoopSample, text};

use super::DemoArgs;
use super::live::Daemon;
use crate::ExitStatus;
use crate::commands::asking::now_unix_s;
use crate::commands::heed_signals;
use crate::ui::{Hint, Ui};

/// Bandwidth of the storage, in bytes per second.
const BANDWIDTH_BPS: u32 = 100_000_000;
/// How often jobs are looked at: the daemon itself looks no more often.
const EVERY: Duration = Duration::from_secs(1);

/// A job: each of its processes computes, then writes, and so on.
struct Workload {
    name: &'static str,
    compute_s: f64,
    n_processes: u32,
    /// Of each process.
    burst_bytes: u64,
}

/// A small one that writes a little often, and two runs of a large one that writes much now and then: begun together, they stay together as long as
/// both are served at once. What the small one gains costs the others bandwidth: it writes so little that they lose less than a job may.
const JOBS: [Workload; 3] = [
    Workload { name: "short", compute_s: 0.5, n_processes: 1, burst_bytes: 2_000_000 },
    Workload { name: "long-1", compute_s: 2.5, n_processes: 8, burst_bytes: 15_000_000 },
    Workload { name: "long-2", compute_s: 2.5, n_processes: 8, burst_bytes: 15_000_000 },
];

pub(super) fn run(ui: &mut Ui, args: &DemoArgs, run_s: f64) -> anyhow::Result<ExitStatus> {
    super::check_writable(&args.output)
        .with_context(|| format!("cannot write {}", args.output.display()))
        .hint("choose another place for the page with -o FILE")?;
    let stop = Arc::new(AtomicBool::new(false));
    heed_signals(&stop)?;
    let each = text::seconds(run_s);
    ui.status(format_args!(
        "1. three jobs on a storage of {}, which serves requests as they come ({each})",
        text::bandwidth(f64::from(BANDWIDTH_BPS))
    ));
    let (without, _, _) = round(ui, run_s, false, &stop)?;
    ui.status(format_args!("2. the same jobs, and a daemon that watches and acts ({each})"));
    let (with, decisions, began_unix_s) = round(ui, run_s, true, &stop)?;
    let taken = decisions.decisions.iter().filter(|it| it.state != "declined" && it.state != "failed");
    let decided_s = taken.map(|it| it.at_unix_s - began_unix_s).reduce(f64::min);
    let jobs = JOBS.iter().map(|job| LoopJob {
        name: job.name.to_owned(),
        what: format!(
            "computes {}, then writes {}",
            text::seconds(job.compute_s),
            text::bytes((u64::from(job.n_processes) * job.burst_bytes) as f64)
        ),
    });
    let demo = LoopDemo {
        bandwidth_bps: f64::from(BANDWIDTH_BPS),
        jobs: jobs.collect(),
        without,
        with,
        decisions,
        decided_s,
    };
    ui.status(format_args!("3. writing {}; all else is removed\n", args.output.display()));
    ui.out_file(&args.output, &loop_page(&demo))?;
    let shown = std::path::absolute(&args.output).unwrap_or_else(|_| args.output.clone());
    ui.out(&format!("{}\n{}\n\nlook at  {}\n", demo.to_text(), demo.verdict(), shown.display()))?;
    Ok(if demo.decided_s.is_some() { ExitStatus::Done } else { ExitStatus::NothingFound })
}

/// Programs that end with this.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // Asked first, so that its own children end, too.
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(3) {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the jobs once; returns how they fared, what was decided, and when they began.
fn round(
    ui: &mut Ui,
    run_s: f64,
    acts: bool,
    stop: &AtomicBool,
) -> anyhow::Result<(LoopRun, DecisionList, f64)> {
    let folder = PrivateDir::new("loop")
        .context("cannot make a temporary folder")
        .hint("set TMPDIR to a folder you can write to")?;
    let path = folder.path();
    let _arbiter = arbiter(path, acts)?;
    let settings = path.join("serve.toml");
    if acts {
        std::fs::write(
            &settings,
            format!(
                "[act]\ndry_run = false\nevery = \"1s\"\n\n[[act.rule]]\nname = \"storage\"\nactor = \"sets\"\ncontrol = {:?}\nbandwidth = \"{BANDWIDTH_BPS}\"\n",
                path.join("control").display().to_string()
            ),
        )?;
    }
    let daemon = Daemon::start(path, acts.then_some(settings.as_path()))?;
    let jobs: Vec<Ended> =
        JOBS.iter().map(|job| begin(path, &daemon, job, run_s)).collect::<Result<_, _>>()?;
    let (began, began_unix_s) = (Instant::now(), now_unix_s());
    let mut run = LoopRun { at_s: Vec::new(), jobs: vec![Vec::new(); JOBS.len()] };
    let mut decisions = DecisionList::default();
    while began.elapsed().as_secs_f64() < run_s {
        // What was started ends with this.
        if stop.load(Ordering::Relaxed) {
            bail!("interrupted");
        }
        std::thread::sleep(EVERY);
        run.at_s.push(began.elapsed().as_secs_f64());
        for (samples, job) in run.jobs.iter_mut().zip(&JOBS) {
            let before = samples.last().copied().unwrap_or_default();
            samples.push(seen(&daemon, job).unwrap_or(before));
        }
        if acts && let Ok(answer) = client::get(daemon.socket(), "/api/1/decisions") {
            decisions = DecisionList::from_json(&answer.body).unwrap_or(decisions);
        }
        let done_s = began.elapsed().as_secs_f64().min(run_s);
        let said = match decisions.decisions.first() {
            Some(last) => format!("decided: {}", last.change.shortened(60).for_terminal()),
            None if acts => "the daemon watches".to_owned(),
            None => "nobody decides anything".to_owned(),
        };
        ui.progress_bar(done_s as u64, Some(run_s as u64), format_args!("{said}"));
    }
    drop(jobs);
    let bytes: u64 = run.jobs.iter().filter_map(|samples| Some(samples.last()?.bytes)).sum();
    if bytes == 0 {
        bail!("the daemon has seen nothing of the jobs: is the tracer (libiotide.so) beside this program?");
    }
    Ok((run, decisions, began_unix_s))
}

/// A storage: an arbiter that lets so much through, and knows nothing of periods unless someone tells it.
fn arbiter(folder: &Path, acts: bool) -> anyhow::Result<Ended> {
    let periods = folder.join("periods.json");
    std::fs::write(&periods, "{}")?;
    let mut command = Command::new(iotide_private::own_program()?);
    command.arg("arbiter").arg(gate(folder)).arg("--control").arg(folder.join("control"));
    command.args([
        "--bandwidth",
        &BANDWIDTH_BPS.to_string(),
        "--policy",
        if acts { "set10" } else { "none" },
    ]);
    // What is with the storage is out of everyone's hands: one request at a time leaves the order to the policy.
    command.args(["--workers", "1", "--turn", "300ms", "--periods"]).arg(&periods);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let arbiter = Ended(command.spawn().context("cannot start `iotide arbiter`")?);
    let began = Instant::now();
    while std::os::unix::net::UnixStream::connect(folder.join("control")).is_err() {
        if began.elapsed() > Duration::from_secs(5) {
            bail!("`iotide arbiter` does not answer");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    Ok(arbiter)
}

fn gate(folder: &Path) -> String {
    format!("unix:{}", folder.join("gate").display())
}

fn begin(folder: &Path, daemon: &Daemon, job: &Workload, run_s: f64) -> anyhow::Result<Ended> {
    let program = iotide_private::own_program()?;
    let data: PathBuf = folder.join(job.name);
    std::fs::create_dir(&data)?;
    let mut command = Command::new(&program);
    command.args(["record", "--live", "-o"]).arg(folder.join(format!("{}.trace", job.name))).arg("--");
    command.arg(&program).args(["ioskel", "--compute", &job.compute_s.to_string()]);
    command.args(["--size", &job.burst_bytes.to_string(), "--processes", &job.n_processes.to_string()]);
    command.args(["--iterations", "100000", "--until", &run_s.to_string(), "--dir"]).arg(&data);
    command.envs(daemon.environment()).env("IOTIDE_JOB_ID", job.name).env("IOTIDE_GATE", gate(folder));
    command.env("IOTIDE_INCLUDE", iotide_private::temporary_files());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Ok(Ended(command.spawn().context("cannot start a job")?))
}

/// Returns the I/O of a job so far.
fn seen(daemon: &Daemon, job: &Workload) -> Option<LoopSample> {
    sample(&daemon.document(job.name)?["io"], job.n_processes)
}

/// A sample of a job by its document. Its processes write at the same time: the job spends the mean of their times, not the sum.
fn sample(io: &serde_json::Value, n_processes: u32) -> Option<LoopSample> {
    Some(LoopSample {
        bytes: io["bytes_written"].as_u64()?,
        io_s: io["seconds_written"].as_f64()? / f64::from(n_processes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_spends_no_more_time_than_passes() {
        // Eight processes write for the same two seconds.
        let io = serde_json::json!({"bytes_written": 800, "seconds_written": 16.0});
        let sample = sample(&io, 8).unwrap();
        assert_eq!((sample.bytes, sample.io_s), (800, 2.0));
    }
}
