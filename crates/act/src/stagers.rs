//! Results of jobs that leave their buffer by themselves: one `iotide stage out` for each job, as its user.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use iotide_api::{MeasuredJob, foresee_staging};
use iotide_report::{Staging, text};
use iotide_sched::act::{Change, Decision, Effect, JobFacts, Measure, Proposal, Quantity, Verdict};
use rustix::process::{Pid, Signal, kill_process};

use crate::closed_loop::{Executor, Look, News, Seat, in_words};
use crate::programs::run_program;
use crate::settings::StagePlace;

/// Stages what the jobs of a rule write.
pub(crate) struct Stagers {
    place: StagePlace,
    seat: Seat,
    running: BTreeMap<u64, Running>,
    /// Stagers that got the signal to leave the remaining files where they are.
    leaving: Vec<Child>,
}

struct Running {
    child: Child,
    job: String,
    said: JoinHandle<Vec<u8>>,
    complained: JoinHandle<Vec<u8>>,
    /// When its job was seen to have ended.
    job_ended: Option<Instant>,
}

impl Stagers {
    /// Over so many periods one can tell whether a job suffers.
    const PERIODS_TO_TELL: f64 = 8.0;
    const WINDOW_S: [f64; 2] = [10.0, 1800.0];
    /// Those that are asked to leave the rest end within this; then they are killed, which loses nothing either.
    const PATIENCE: Duration = Duration::from_secs(5);

    pub(crate) fn new(place: StagePlace, seat: Seat) -> Self {
        Self { place, seat, running: BTreeMap::new(), leaving: Vec::new() }
    }

    fn proposal(&self, look: &Look<'_>, job: &JobFacts) -> anyhow::Result<Option<Proposal>> {
        let key = job.key();
        let own_uid = rustix::process::geteuid();
        let Some(period_s) = look.period_s(job) else { return Ok(None) };
        let Some(phase_bytes) = job.bytes_per_phase.filter(|bytes| *bytes >= 1.0) else { return Ok(None) };
        if !own_uid.is_root() && own_uid.as_raw() != job.uid {
            bail!("job {} is another user's, for whom only root can stage", job.id);
        }
        let from = self.place.from.of(job)?;
        // A job without a buffer writes elsewhere.
        if !std::fs::symlink_metadata(&from).is_ok_and(|about| about.is_dir()) {
            return Ok(None);
        }
        let to = self.place.to.of(job)?;
        let n_phases = (job.bytes as f64 / phase_bytes) as u64;
        let n_processes = f64::from(job.n_processes.max(1));
        let phase_s = job.io_s / job.bytes.max(1) as f64 * phase_bytes / n_processes;
        let measured =
            MeasuredJob { period_s, phase_s: phase_s.clamp(1e-3 * period_s, period_s), phase_bytes };
        let evidence = vec![
            in_words(job),
            format!(
                "{} phases so far, and as many are expected; the destination takes {} a second",
                n_phases,
                text::bytes(self.place.bandwidth_bps)
            ),
        ];
        Ok(Some(Proposal {
            rule: look.rule,
            change: Change::Stage {
                job: key.clone(),
                from: from.display().to_string(),
                to: to.display().to_string(),
            },
            evidence,
            // As long as it has gone on, it may go on.
            expected: foresee_staging(&measured, n_phases.max(1), self.place.bandwidth_bps),
            expected_losses: Vec::new(),
            measure: Measure::Harm,
            concerned: vec![key],
            window_s: (Self::PERIODS_TO_TELL * period_s).clamp(Self::WINDOW_S[0], Self::WINDOW_S[1]),
        }))
    }

    fn command(&self, job: &str, uid: u32, from: &str, to: &str) -> anyhow::Result<Command> {
        let program = iotide_private::own_program().context("where is this program?")?;
        let own_uid = rustix::process::geteuid().as_raw();
        let mut command = if uid == own_uid {
            Command::new(program)
        } else {
            // Its groups are those of its user: results often belong to one of them.
            let gid = run_program(&["id", "-g", &uid.to_string()], Duration::from_secs(5))?;
            let mut command = Command::new("setpriv");
            command.args([
                &format!("--reuid={uid}"),
                &format!("--regid={}", gid.trim()),
                "--init-groups",
                "--",
            ]);
            command.arg(program);
            command
        };
        let daemon = format!("daemon:{}", self.seat.socket.display());
        let own_pid = std::process::id().to_string();
        command.args(["stage", "out", from, to, "--make", "--format", "json"]);
        command.args(["--predictions", &daemon, "--job", job, "--while", &own_pid]);
        if let Some(control) = &self.place.control {
            command.arg("--control").arg(control);
        }
        if let Some(gate) = &self.place.gate {
            command.args(["--gate", gate]);
        }
        for name in ["LD_PRELOAD", "IOTIDE_GATE", "IOTIDE_DIR", "IOTIDE_STREAM", "IOTIDE_STAGE_OF"] {
            command.env_remove(name);
        }
        // By this it calls itself `stage-JOB`, and reports to this daemon.
        command.env("IOTIDE_JOB_ID", job).env("IOTIDE_LIVE", &self.seat.pages).current_dir("/");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }
}

impl Executor for Stagers {
    fn propose(&mut self, look: &Look<'_>) -> anyhow::Result<Vec<Proposal>> {
        let rule = &look.controller.rules()[look.rule];
        let is_held = |job: &JobFacts| {
            let key = job.key();
            look.controller.standing(look.rule).any(|decision| decision.change.jobs().contains(&key.as_str()))
        };
        let (mut proposals, mut trouble) = (Vec::new(), None);
        for job in look.jobs.iter().filter(|job| rule.scope.holds(job) && !is_held(job)) {
            match self.proposal(look, job) {
                Ok(proposal) => proposals.extend(proposal),
                // One job that cannot be staged does not keep others from it.
                Err(error) => trouble = Some(error),
            }
        }
        match trouble {
            Some(error) if proposals.is_empty() => Err(error),
            _ => Ok(proposals),
        }
    }

    fn carry_out(&mut self, decision: &Decision, _lent_s: f64) -> anyhow::Result<()> {
        let Change::Stage { job: key, from, to } = &decision.change else { return Ok(()) };
        let (uid, job) =
            key.strip_prefix("uid:").and_then(|key| key.split_once('/')).context("whose job is it?")?;
        let uid = uid.parse().context("whose job is it?")?;
        let mut command = self.command(job, uid, from, to)?;
        let mut child = command
            .spawn()
            .with_context(|| format!("cannot run {}", command.get_program().to_string_lossy()))?;
        let said = heard(child.stdout.take());
        let complained = heard(child.stderr.take());
        let running = Running { child, job: key.clone(), said, complained, job_ended: None };
        self.running.insert(decision.id, running);
        Ok(())
    }

    fn take_back(&mut self, decision: &Decision) -> anyhow::Result<()> {
        if let Some(running) = self.running.remove(&decision.id) {
            send(&running.child, Signal::USR2);
            self.leaving.push(running.child);
        }
        Ok(())
    }

    fn news(&mut self, jobs: &[JobFacts]) -> Vec<News> {
        self.leaving.retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_))));
        let mut news = Vec::new();
        for running in self.running.values_mut() {
            if running.job_ended.is_none() && !jobs.iter().any(|job| job.key() == running.job) {
                running.job_ended = Some(Instant::now());
                send(&running.child, Signal::TERM);
            }
        }
        let ended: Vec<(u64, ExitStatus)> = self
            .running
            .iter_mut()
            .filter_map(|(id, running)| Some((*id, running.child.try_wait().ok()??)))
            .collect();
        for (id, status) in ended {
            if let Some(running) = self.running.remove(&id) {
                news.push(running.ended(id, status));
            }
        }
        news
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        let until = Instant::now() + Self::PATIENCE;
        for child in &mut self.leaving {
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < until {
                thread::sleep(Duration::from_millis(20));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        self.leaving.clear();
        Ok(())
    }
}

impl Running {
    /// Returns the outcome of the decision, once the stager has ended.
    fn ended(self, id: u64, status: ExitStatus) -> News {
        let [said, complained] = [self.said, self.complained].map(|said| said.join().unwrap_or_default());
        let why = || {
            let complained = String::from_utf8_lossy(&complained);
            let last = complained.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
            match status.signal() {
                Some(signal) => format!("it was ended by signal {signal}"),
                None => format!("it ended with {}: {last}", status.code().unwrap_or_default()),
            }
        };
        let Some(job_ended) = self.job_ended else { return News::Failed(id, why()) };
        let safe_s = job_ended.elapsed().as_secs_f64();
        let staging = Staging::from_json(&said).filter(|_| status.success());
        let Some(staging) = staging else {
            return News::Ended { id, verdict: Verdict::Unclear(why()), is_over: true };
        };
        // What would have had to be moved after the end, as fast as it was moved.
        let without = staging.bytes_safe as f64 * staging.moving_s / staging.moved_bytes.max(1) as f64;
        let verdict = match without > 0.0 {
            true => Verdict::Measured(Effect { quantity: Quantity::UntilSafe, without, with: safe_s }),
            false => Verdict::Unclear("nothing was moved".to_owned()),
        };
        News::Ended { id, verdict, is_over: true }
    }
}

impl Drop for Stagers {
    fn drop(&mut self) {
        for running in self.running.values_mut() {
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}

fn send(child: &Child, signal: Signal) {
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // One that has ended is reaped by us alone, so the number is no other's.
        let _ = kill_process(pid, signal);
    }
}

/// Reads what a program says to its end, and keeps the beginning of it.
fn heard(from: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    const MOST_BYTES: u64 = 16 << 20;
    thread::spawn(move || {
        let mut said = Vec::new();
        if let Some(mut from) = from {
            let _ = from.by_ref().take(MOST_BYTES).read_to_end(&mut said);
            let _ = io::copy(&mut from, &mut io::sink());
        }
        said
    })
}

/// A path in which `{job}` and `{user}` stand for those of a job.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Template(String);

impl Template {
    pub(crate) fn parse(path: &str) -> Result<Self, String> {
        let plain = path.replace("{job}", "").replace("{user}", "");
        if !path.starts_with('/') || plain.contains(['{', '}']) || path.len() > 4096 {
            return Err("is an absolute path, in which {job} and {user} stand for those of a job".to_owned());
        }
        if !path.contains("{job}") {
            return Err("has {job} in it: each job has a folder of its own".to_owned());
        }
        Ok(Self(path.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The path for a job.
    fn of(&self, job: &JobFacts) -> anyhow::Result<PathBuf> {
        let is_plain = |name: &str| {
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
            !name.is_empty() && !name.starts_with(['.', '-']) && name.bytes().all(is_plain)
        };
        if !is_plain(&job.id) || self.0.contains("{user}") && !is_plain(&job.user) {
            bail!("job {:?} of {:?} has no name for a folder", job.id, job.user);
        }
        Ok(self.0.replace("{job}", &job.id).replace("{user}", &job.user).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_that_of_one_job_and_leads_nowhere_else() {
        let template = Template::parse("/scratch/{user}/{job}").unwrap();
        let job = |id: &str, user: &str| JobFacts { id: id.into(), user: user.into(), ..JobFacts::default() };
        assert_eq!(template.of(&job("4711", "ada")).unwrap(), PathBuf::from("/scratch/ada/4711"));
        for (id, user) in
            [("..", "ada"), ("a/b", "ada"), ("", "ada"), ("1", "../root"), ("-1", "ada"), ("1", "{job}")]
        {
            assert!(template.of(&job(id, user)).is_err(), "{id} {user}");
        }
        for wrong in ["scratch/{job}", "/scratch/{user}", "/scratch/{job}/{step}", "/{job"] {
            assert!(Template::parse(wrong).is_err(), "{wrong}");
        }
    }
}
