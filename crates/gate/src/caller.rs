//! Whose request is it: the job a calling thread belongs to.
//!
//! A job is told by a folder `job_<id>` in the path of the caller's cgroup, which only the system can make; else by `IOSETS_JOB_ID` or
//! `SLURM_JOB_ID` in the environment that its process was started with, which is a claim; else by its user. The kernel names the calling thread; its process is
//! found in `/proc`. What was found is kept by thread, and looked at again now and then: a number may by then belong to
//! another process (told by its start time) or the process may run another program (told by where its environment lies).

use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::job::JobName;

/// The thread that made a request, as the kernel tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Who {
    /// Its number; 0 if it cannot be seen from here.
    pub thread: u32,
    /// The user it acts for.
    pub uid: u32,
}

/// Finds the jobs of callers.
#[derive(Debug)]
pub(crate) struct Callers {
    proc: PathBuf,
    known: Mutex<HashMap<Who, Known>>,
}

#[derive(Debug)]
struct Known {
    job: JobName,
    life: Option<Life>,
    checked: Instant,
}

/// Marks that tell one life of a thread number from the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Life {
    start: u64,
    environment: u64,
}

/// Within this time a thread number is not reused, and a program that was just started has not begun its I/O.
const TRUST: Duration = Duration::from_millis(100);

/// More callers than this at once are looked up anew.
const MAX_KNOWN: usize = 4096;

/// An environment is at most this large by default; where it is larger, the rest is not looked at.
const MAX_ENVIRONMENT: u64 = 2 << 20;

/// The variables that name a job, the first that is there counts.
const VARIABLES: [&str; 2] = ["IOSETS_JOB_ID", "SLURM_JOB_ID"];

impl Callers {
    /// Looks callers up in `proc`.
    pub(crate) fn new(proc: PathBuf) -> Self {
        Self { proc, known: Mutex::default() }
    }

    /// Returns the job that a request belongs to.
    pub(crate) fn job_of(&self, who: Who) -> JobName {
        let now = Instant::now();
        let expired = {
            let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
            match known.get(&who) {
                Some(entry) if now.duration_since(entry.checked) < TRUST => return entry.job.clone(),
                Some(entry) => Some((entry.job.clone(), entry.life)),
                None => None,
            }
        };
        // Not under the lock: /proc may be slow, and other callers need not wait for it.
        let life = self.life(who.thread);
        let job = match expired {
            Some((job, old)) if life.is_some() && old == life => job,
            _ => self.find(who),
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MAX_KNOWN && !known.contains_key(&who) {
            known.retain(|_, entry| now.duration_since(entry.checked) < TRUST);
            if known.len() >= MAX_KNOWN {
                known.clear();
            }
        }
        known.insert(who, Known { job: job.clone(), life, checked: now });
        job
    }

    fn find(&self, who: Who) -> JobName {
        let found = (who.thread != 0).then(|| self.process_of(who.thread)).flatten().and_then(|process| {
            let folder = self.proc.join(process.to_string());
            self.vouched(process)
                .or_else(|| job_in_environment(&read(&folder.join("environ"), MAX_ENVIRONMENT)))
        });
        found.map_or_else(|| JobName::of_user(who.uid), |name| JobName::new(&name, Some(who.uid)))
    }

    /// The job that the system says a process belongs to.
    pub(crate) fn vouched(&self, process: u32) -> Option<String> {
        job_in_cgroup(&read(&self.proc.join(process.to_string()).join("cgroup"), 64 << 10))
    }

    fn process_of(&self, thread: u32) -> Option<u32> {
        let status = read(&self.proc.join(thread.to_string()).join("status"), 64 << 10);
        let status = String::from_utf8_lossy(&status);
        status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())
    }

    fn life(&self, thread: u32) -> Option<Life> {
        let stat = read(&self.proc.join(thread.to_string()).join("stat"), 64 << 10);
        // The name of the program may hold anything, also blanks and brackets; it ends at the last bracket.
        let after_name = &stat[stat.iter().rposition(|&byte| byte == b')')? + 1..];
        let fields: Vec<&str> = std::str::from_utf8(after_name).ok()?.split_ascii_whitespace().collect();
        // Numbered from 1 in proc(5), of which the first two are gone.
        let field = |number: usize| fields.get(number - 3)?.parse().ok();
        Some(Life { start: field(22)?, environment: field(50).unwrap_or(0) })
    }
}

fn job_in_environment(environment: &[u8]) -> Option<String> {
    VARIABLES.iter().find_map(|variable| {
        environment.split(|&byte| byte == 0).find_map(|entry| {
            let value = entry.strip_prefix(variable.as_bytes())?.strip_prefix(b"=")?;
            let value = String::from_utf8_lossy(value).trim().to_owned();
            (!value.is_empty() && value.len() <= 256).then_some(value)
        })
    })
}

fn job_in_cgroup(cgroup: &[u8]) -> Option<String> {
    String::from_utf8_lossy(cgroup).split(['/', '\n']).find_map(|folder| {
        let id = folder.strip_prefix("job_")?;
        (!id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit())).then(|| id.to_owned())
    })
}

/// Reads a file, up to `limit` bytes; empty if it cannot be read, as when the process has just ended.
fn read(path: &Path, limit: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Ok(file) = File::open(path) {
        let _ = file.take(limit).read_to_end(&mut bytes);
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use iotide_testkit::FreshDir;

    /// A `/proc` with one process of two threads, 40 and 41.
    fn proc(environ: &str, cgroup: &str) -> FreshDir {
        let dir = FreshDir::new("proc");
        for thread in ["40", "41"] {
            std::fs::create_dir(dir.join(thread)).unwrap();
            dir.write(format!("{thread}/status"), "Name:\tsim\nTgid:\t40\nPid:\t41\n");
        }
        started(&dir, 1000);
        dir.write("40/environ", environ);
        dir.write("40/cgroup", cgroup);
        dir
    }

    fn started(dir: &FreshDir, start: u64) {
        let mut fields = vec!["0".to_owned(); 50];
        fields[19] = start.to_string();
        dir.write("41/stat", format!("41 (a name) (with brackets) {}", fields.join(" ")));
    }

    fn job(dir: &FreshDir) -> String {
        Callers::new(dir.path().to_owned()).job_of(Who { thread: 41, uid: 1000 }).to_string()
    }

    #[test]
    fn a_job_is_told_by_what_the_system_says_then_by_claim_then_by_user() {
        let slurm = "/system.slice/slurmstepd.scope/job_77/step_0/user/task_0";
        let cgroup = format!("0::{slurm}\n");
        // Who claims to be another job than the one it is in, is not believed.
        assert_eq!(job(&proc("HOME=/\0SLURM_JOB_ID=12\0IOSETS_JOB_ID=7\0", &cgroup)), "77");
        assert_eq!(job(&proc("HOME=/\0SLURM_JOB_ID=12\0IOSETS_JOB_ID=7\0", "0::/user.slice\n")), "7");
        assert_eq!(job(&proc("HOME=/\0SLURM_JOB_ID=12\0", "0::/user.slice\n")), "12");
        assert_eq!(job(&proc("NOT_SLURM_JOB_ID=12\0SLURM_JOB_ID=\0", &cgroup)), "77");
        assert_eq!(job(&proc("HOME=/\0", "0::/user.slice/job_x/jobs\n")), "uid:1000");
        assert_eq!(job(&FreshDir::new("no-proc")), "uid:1000");
    }

    #[test]
    fn two_users_who_claim_one_job_are_two_jobs() {
        let dir = proc("SLURM_JOB_ID=1\0", "");
        let callers = Callers::new(dir.path().to_owned());
        let [victim, thief] = [1000, 1001].map(|uid| callers.job_of(Who { thread: 41, uid }));
        assert_ne!(victim, thief);
        assert!(victim.is_called("1") && thief.is_called("1"));
        assert!(thief.is_called("uid:1001/1") && !victim.is_called("uid:1001/1"));
    }

    #[test]
    fn a_thread_number_that_is_used_again_is_looked_up_again() {
        let dir = proc("SLURM_JOB_ID=1\0", "");
        let callers = Callers::new(dir.path().to_owned());
        let who = Who { thread: 41, uid: 1000 };
        let expire = || callers.known.lock().unwrap().get_mut(&who).unwrap().checked -= 2 * TRUST;
        assert_eq!(callers.job_of(who).name(), "1");
        dir.write("40/environ", "SLURM_JOB_ID=2\0");
        assert_eq!(callers.job_of(who).name(), "1", "within the trust");
        expire();
        assert_eq!(callers.job_of(who).name(), "1", "the same life, and environments do not change");
        started(&dir, 2000);
        expire();
        assert_eq!(callers.job_of(who).name(), "2");
    }

    #[test]
    fn the_callers_of_a_busy_machine_do_not_pile_up() {
        let dir = FreshDir::new("no-proc");
        let callers = Callers::new(dir.path().to_owned());
        for thread in 0..3 * MAX_KNOWN as u32 {
            callers.job_of(Who { thread, uid: 0 });
        }
        assert!(callers.known.lock().unwrap().len() <= MAX_KNOWN);
    }

    #[test]
    fn this_process_is_found_by_the_number_of_any_of_its_threads() {
        let callers = Callers::new("/proc".into());
        let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        assert_eq!(callers.process_of(thread), Some(std::process::id()));
        assert!(callers.life(thread).is_some());
    }
}
