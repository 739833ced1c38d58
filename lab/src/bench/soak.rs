//! Real daemons in a tree for an hour or more, with jobs below them and kills among them: nothing may grow, and nothing may be missing.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::Bed;
use super::serve::Daemon;
use super::tree::{free_address, key, wait_for_nodes};
use crate::Outcome;

const HELP: &str = "usage: cargo xtask soak [--leaves N] [--minutes M] [--no-build]

A root and N daemons below it (50) for M minutes (60). Jobs of two nodes begin every two seconds; every half minute a daemon that is not one of
the first ten is killed and started again. Each minute it is shown what the root and the first ten have: memory, open files, jobs. In the end the
root must have counted what the jobs say they wrote, and no process may have more memory (by a tenth) or open files than after a quarter of the time.
";

/// Daemons that are left alone, so that what grows in them is seen.
const N_CALM: usize = 10;
const JOB_EVERY: Duration = Duration::from_secs(2);
const KILL_EVERY: Duration = Duration::from_secs(30);

/// Runs the chore.
pub(crate) fn run(args: &[String]) -> Result<Outcome, String> {
    let (mut n_leaves, mut minutes, mut builds) = (50usize, 60u64, true);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let mut number = || -> Result<u64, String> {
            let text = args.next().ok_or_else(|| format!("{arg} needs a number"))?;
            text.parse().map_err(|_| format!("{arg}: {text} is no number"))
        };
        match arg.as_str() {
            "--leaves" => n_leaves = number()? as usize,
            "--minutes" => minutes = number()?,
            "--no-build" => builds = false,
            "-h" | "--help" => {
                print!("{HELP}");
                return Ok(Outcome::Good);
            }
            other => return Err(format!("'{other}' is not known\n{HELP}")),
        }
    }
    if n_leaves <= N_CALM || minutes < 4 {
        return Err(format!("more than {N_CALM} leaves and at least 4 minutes are needed"));
    }
    Soak::start(&Bed::make(builds)?, n_leaves)?.run(Duration::from_secs(60 * minutes))
}

struct Soak<'a> {
    bed: &'a Bed,
    root: Daemon,
    leaves: Vec<Daemon>,
    /// For each leaf, how it is started again.
    options: Vec<[String; 6]>,
    jobs: Vec<Job>,
    n_jobs: usize,
    n_kills: usize,
    /// Bytes written by ended jobs, by their own logs.
    written: u64,
}

/// A program on one of the two nodes of a job.
struct Job {
    child: Child,
    log: std::path::PathBuf,
}

/// Measurements of one minute.
struct Minute {
    at_min: f64,
    root: (f64, usize),
    /// The largest of the first daemons.
    calm: (f64, usize),
}

impl<'a> Soak<'a> {
    fn start(bed: &'a Bed, n_leaves: usize) -> Result<Self, String> {
        let (key, address) = (key(bed)?, free_address()?);
        let key = key.to_str().ok_or("a path that is no text")?;
        let root = Daemon::start_with(bed, "root", &["--key", key, "--children", &address])?;
        let options: Vec<[String; 6]> = (0..n_leaves)
            .map(|n| {
                let name = format!("leaf{n}");
                ["--key", key, "--parent", &address, "--node", &name].map(str::to_owned)
            })
            .collect();
        let mut leaves = Vec::new();
        for option in &options {
            leaves.push(start_leaf(bed, option)?);
        }
        wait_for_nodes(&root, n_leaves + 1)?;
        Ok(Self { bed, root, leaves, options, jobs: Vec::new(), n_jobs: 0, n_kills: 0, written: 0 })
    }

    fn run(&mut self, span: Duration) -> Result<Outcome, String> {
        println!("minute   root MB  files   leaves MB (most)  files   jobs  kills   GB written");
        let began = Instant::now();
        let (mut job_at, mut kill_at, mut look_at) = (Duration::ZERO, KILL_EVERY, Duration::from_secs(60));
        let mut minutes = Vec::new();
        while began.elapsed() < span {
            let at = began.elapsed();
            if at >= job_at {
                job_at += JOB_EVERY;
                self.begin_job()?;
            }
            if at >= kill_at {
                kill_at += KILL_EVERY;
                self.kill_one()?;
            }
            self.reap()?;
            if at >= look_at {
                look_at += Duration::from_secs(60);
                minutes.push(self.look(at)?);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        while !self.jobs.is_empty() {
            self.reap()?;
            std::thread::sleep(Duration::from_millis(50));
        }
        let counted = self.counted_once_quiet()?;
        Ok(self.judge(&minutes, counted))
    }

    /// A job on two nodes, one of which may be killed while it runs.
    fn begin_job(&mut self) -> Result<(), String> {
        self.n_jobs += 1;
        let n = self.n_jobs;
        for at in [n % N_CALM, N_CALM + n * 7 % (self.leaves.len() - N_CALM)] {
            let folder = &self.leaves[at].folder;
            let log = folder.join(format!("job{n}-{at}.csv"));
            let mut command = Command::new(&self.bed.iotide);
            command.args(["record", "--live", "-q", "--exclude", "*.csv", "--"]).arg(&self.bed.iotide);
            command.args(["ioskel", "-p", "1s", "-n", "4", "-s", "1M", "-j", "2", "--transfer-size", "64k"]);
            command.arg("--log").arg(&log).current_dir(folder.join("files"));
            command.env("IOTIDE_LIVE", folder.join("pages")).env("IOTIDE_JOB_ID", format!("soak-{n}"));
            command.stdout(Stdio::null()).stderr(Stdio::null());
            self.jobs.push(Job { child: command.spawn().map_err(|error| error.to_string())?, log });
        }
        Ok(())
    }

    fn kill_one(&mut self) -> Result<(), String> {
        self.n_kills += 1;
        let at = N_CALM + self.n_kills * 13 % (self.leaves.len() - N_CALM);
        // Dropping kills.
        let leaf = self.leaves.remove(at);
        drop(leaf);
        self.leaves.insert(at, start_leaf(self.bed, &self.options[at])?);
        Ok(())
    }

    fn reap(&mut self) -> Result<(), String> {
        for mut job in std::mem::take(&mut self.jobs) {
            match job.child.try_wait().map_err(|error| error.to_string())? {
                None => self.jobs.push(job),
                Some(status) if status.success() => {
                    self.written += written(&job.log)?;
                    let _ = std::fs::remove_file(&job.log);
                }
                Some(status) => return Err(format!("a job failed: {status}")),
            }
        }
        Ok(())
    }

    fn look(&self, at: Duration) -> Result<Minute, String> {
        let of = |daemon: &Daemon| -> Result<(f64, usize), String> {
            Ok((daemon.memory("VmRSS")? / 1e6, daemon.n_files()?))
        };
        let root = of(&self.root)?;
        let mut calm = (0.0_f64, 0);
        for leaf in &self.leaves[..N_CALM] {
            let (mb, n_files) = of(leaf)?;
            calm = (calm.0.max(mb), calm.1.max(n_files));
        }
        let at_min = at.as_secs_f64() / 60.0;
        println!(
            "{at_min:>6.0} {:>9.1} {:>6} {:>18.1} {:>6} {:>6} {:>6} {:>12.2}",
            root.0,
            root.1,
            calm.0,
            calm.1,
            self.n_jobs,
            self.n_kills,
            self.written as f64 / 1e9
        );
        Ok(Minute { at_min, root, calm })
    }

    /// Returns the bytes counted by the root, once all jobs have ended there.
    fn counted_once_quiet(&self) -> Result<u64, String> {
        let until = Instant::now() + Duration::from_secs(90);
        let (mut counted, mut n_open) = (0, 0);
        for n in 1..=self.n_jobs {
            let job = loop {
                let job = self.root.get(&format!("/api/1/jobs/soak-{n}"))?;
                let job: serde_json::Value = serde_json::from_str(&job).map_err(|error| error.to_string())?;
                if job["state"] == "ended" || Instant::now() > until {
                    break job;
                }
                std::thread::sleep(Duration::from_millis(200));
            };
            n_open += usize::from(job["state"] != "ended");
            counted += job["io"]["bytes_written"].as_u64().unwrap_or(0);
        }
        println!("{} jobs, of which {n_open} have not ended at the root", self.n_jobs);
        Ok(counted)
    }

    fn judge(&self, minutes: &[Minute], counted: u64) -> Outcome {
        let mut is_good = true;
        let mut check = |what: String, is_right: bool| {
            println!("{} {what}", if is_right { "ok    " } else { "WRONG " });
            is_good &= is_right;
        };
        check(
            format!("{counted} bytes at the root, {} as the jobs say", self.written),
            counted == self.written,
        );
        let end_min = minutes.last().map_or(0.0, |minute| minute.at_min);
        let part = |from: f64, to: f64| {
            minutes.iter().filter(move |it| (from * end_min..=to * end_min).contains(&it.at_min))
        };
        for (name, of) in
            [("root", (|it| it.root) as fn(&Minute) -> (f64, usize)), ("leaves", |it: &Minute| it.calm)]
        {
            let most = |from: f64, to: f64| {
                part(from, to).map(of).fold((0.0_f64, 0), |most, it| (most.0.max(it.0), most.1.max(it.1)))
            };
            let (early, late) = (most(0.0, 0.25), most(0.75, 1.0));
            check(
                format!("{name}: {:.1} MB at most in the first quarter, {:.1} in the last", early.0, late.0),
                late.0 <= 1.1 * early.0,
            );
            check(format!("{name}: {} open files, then {}", early.1, late.1), late.1 <= early.1);
        }
        if is_good { Outcome::Good } else { Outcome::Wanting }
    }
}

impl Drop for Soak<'_> {
    fn drop(&mut self) {
        for job in &mut self.jobs {
            let _ = job.child.kill();
            let _ = job.child.wait();
        }
    }
}

fn start_leaf(bed: &Bed, options: &[String; 6]) -> Result<Daemon, String> {
    let options = options.each_ref().map(String::as_str);
    Daemon::start_with(bed, options[5], &options)
}

/// Returns the bytes written by a program, by its own log.
fn written(log: &Path) -> Result<u64, String> {
    let text = std::fs::read_to_string(log).map_err(|error| format!("{}: {error}", log.display()))?;
    let rows = text.lines().skip_while(|line| line.starts_with('#')).skip(1);
    let rows = rows.map(|line| line.split(',').collect::<Vec<_>>());
    let bytes =
        rows.filter(|cells| cells.get(1) == Some(&"write")).map(|cells| cells.get(4)?.parse::<u64>().ok());
    bytes.sum::<Option<u64>>().ok_or_else(|| format!("{} is no table of events", log.display()))
}
