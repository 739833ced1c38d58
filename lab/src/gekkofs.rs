//! iotide on a GekkoFS that is installed: a job writes checkpoints into it, they leave it in the gaps, and what does not work is refused.
//!
//! GekkoFS is no mount: a preloaded library serves its directory. The job, `record`, `ladder` and `stage` run with that library; `detect` and
//! `stage verify` run without it.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Outcome;
use crate::product::{self, Bed, Server};

const HELP: &str = "usage: cargo xtask gekkofs PREFIX [--iotide FILE]

  PREFIX          where GekkoFS is installed (bin/gkfs_daemon, lib/libgkfs_intercept.so), built with client metrics
  --iotide FILE   the iotide to try (built in release mode unless given); about two minutes
";

/// The job: so many checkpoints of so many bytes, one each period.
const CHECKPOINTS: u64 = 10;
const BYTES: usize = 2 << 20;
const PERIOD: Duration = Duration::from_secs(3);
/// Option by which this program runs as the job.
const JOB: &str = "--job";
/// No client may take longer: one that crashes may hang.
const PATIENCE_S: u32 = 90;

/// Tries everything, and says what works.
pub(crate) fn run(args: &[String]) -> Result<Outcome, String> {
    if let [word, folder, n, seed] = args
        && word == JOB
    {
        let number = |text: &String| text.parse().map_err(|_| format!("'{text}' is not a number"));
        return job(Path::new(folder), number(n)?, number(seed)?).map(|()| Outcome::Good);
    }
    let (prefix, iotide) = match args {
        [prefix] if !prefix.starts_with('-') => (prefix, product::build()?),
        [prefix, option, file] if option == "--iotide" => (prefix, PathBuf::from(file)),
        _ => return Err(format!("one GekkoFS is needed\n\n{HELP}")),
    };
    let gekko = Gekko::start(Path::new(prefix), iotide)?;
    let tries: [(&str, Try); 8] = [
        ("detect --listen", period_from_metrics),
        ("stage out", results_leave_in_the_gaps),
        ("stage verify", copies_are_confirmed),
        ("stage out --once", a_rewritten_file_is_copied_again),
        ("stage in", inputs_arrive),
        ("record", the_tracer_sees_all),
        ("ladder", the_ladder_measures_gekkofs),
        ("refusals", what_cannot_work_is_refused),
    ];
    let mut outcome = Outcome::Good;
    for (name, attempt) in tries {
        match attempt(&gekko) {
            Ok(what) => println!("{name:<17} works    {what}"),
            Err(why) => {
                outcome = Outcome::Wanting;
                println!("{name:<17} FAILS    {why}");
            }
        }
    }
    Ok(outcome)
}

type Try = fn(&Gekko) -> Result<String, String>;

/// A daemon of GekkoFS on this machine, and what its clients need.
struct Gekko {
    iotide: PathBuf,
    library: PathBuf,
    /// Where GekkoFS seems to be.
    mount: PathBuf,
    daemon: Child,
    bed: Bed,
}

impl Gekko {
    fn start(prefix: &Path, iotide: PathBuf) -> Result<Self, String> {
        let prefix = fs::canonicalize(prefix).map_err(|error| format!("{}: {error}", prefix.display()))?;
        let libraries = ["lib", "lib64"].map(|lib| prefix.join(lib).join("libgkfs_intercept.so"));
        let library = libraries.into_iter().find(|file| file.is_file());
        let library = library.ok_or("there is no lib/libgkfs_intercept.so")?;
        let bed = Bed::make("gekkofs")?;
        let mount = bed.folder.join("mnt");
        for folder in [mount.clone(), bed.folder.join("root")] {
            fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        }
        let daemon = Command::new(prefix.join("bin/gkfs_daemon"))
            .args(["--clean-rootdir", "-P", "ofi+sockets", "-l", "lo"])
            .args([Path::new("-r"), &bed.folder.join("root"), Path::new("-m"), &mount])
            .args([Path::new("-H"), &bed.folder.join("hosts")])
            // Libraries below it write their last words into the working directory.
            .current_dir(&bed.folder)
            .env("LD_LIBRARY_PATH", library.parent().unwrap_or(&prefix))
            .env("GKFS_DAEMON_LOG_PATH", bed.folder.join("daemon.log"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("cannot start gkfs_daemon: {error}"))?;
        let gekko = Self { iotide, library, mount, daemon, bed };
        let began = Instant::now();
        while fs::metadata(gekko.bed.folder.join("hosts")).map_or(0, |stat| stat.len()) == 0 {
            if began.elapsed() > Duration::from_secs(30) {
                return Err("gkfs_daemon does not come up within 30 s".to_owned());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Ok(gekko)
    }

    /// A program that runs with GekkoFS's library.
    fn client(&self, program: &Path) -> Command {
        let mut command = Command::new("timeout");
        let name = |name: &str, path: &Path| format!("{name}={}", path.display());
        command
            .args(["-k", "1", &PATIENCE_S.to_string(), "env"])
            .arg(name("LD_PRELOAD", &self.library))
            .arg(name("LD_LIBRARY_PATH", self.library.parent().unwrap_or(&self.library)))
            .arg(name("LIBGKFS_HOSTS_FILE", &self.bed.folder.join("hosts")))
            .arg(name("LIBGKFS_LOG_OUTPUT", &self.bed.folder.join("client.log")))
            .arg(program)
            .stdin(Stdio::null());
        command
    }

    /// The job, writing into a folder of GekkoFS; the seed tells its bytes from those of another.
    fn job(&self, folder: &str, n: u64, seed: u64) -> Result<Command, String> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let mut command = self.client(&own);
        command.arg("gekkofs").arg(JOB).arg(self.mount.join(folder));
        command.args([n.to_string(), seed.to_string()]);
        Ok(command)
    }

    /// Has the clients of a command send what they moved to a port, or write it into a folder.
    fn metrics(command: Command, to: &str) -> Command {
        // Behind `env`, so that the program alone has them.
        let mut again = Command::new(command.get_program());
        let is_port = !to.contains('/');
        let variable = if is_port { "LIBGKFS_METRICS_IP_PORT" } else { "LIBGKFS_METRICS_PATH" };
        for arg in command.get_args() {
            again.arg(arg);
            if arg == "env" {
                again.args(["LIBGKFS_ENABLE_METRICS=ON", "LIBGKFS_METRICS_FLUSH_INTERVAL=1"]);
                again.arg(format!("{variable}={to}"));
            }
        }
        again.stdin(Stdio::null());
        again
    }

    fn folder(&self, name: &str) -> Result<PathBuf, String> {
        let folder = self.bed.folder.join(name);
        fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        Ok(folder)
    }
}

impl Drop for Gekko {
    fn drop(&mut self) {
        product::signal(self.daemon.id(), "TERM");
        let asked = Instant::now();
        while matches!(self.daemon.try_wait(), Ok(None)) && asked.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
    }
}

/// Writes checkpoints, each with a file beside it that says it is complete.
fn job(folder: &Path, n: u64, seed: u64) -> Result<(), String> {
    let told = |error: std::io::Error| format!("{}: {error}", folder.display());
    // A first question that is answered: see `main` of iotide.
    let _ = fs::metadata("/");
    if let Err(error) = fs::create_dir(folder)
        && error.kind() != std::io::ErrorKind::AlreadyExists
    {
        return Err(told(error));
    }
    let began = Instant::now();
    for nth in 0..n {
        let due = began + PERIOD * nth as u32;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let mut file = fs::File::create(folder.join(name(nth))).map_err(told)?;
        for piece in checkpoint(nth, seed).chunks(1 << 20) {
            file.write_all(piece).map_err(told)?;
        }
        drop(file);
        fs::File::create(folder.join(name(nth) + ".done")).map_err(told)?;
    }
    Ok(())
}

fn name(nth: u64) -> String {
    format!("checkpoint.{nth}")
}

/// The bytes of a checkpoint.
fn checkpoint(nth: u64, seed: u64) -> Vec<u8> {
    let first = (seed << 32 | nth).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let word = |i: u64| first.wrapping_add(i.wrapping_mul(0xd134_2543_de82_ef95)).to_le_bytes();
    (0..(BYTES / 8) as u64).flat_map(word).collect()
}

/// Whether a folder has the checkpoints of a job.
fn compare(folder: &Path, n: u64, seed: u64) -> Result<(), String> {
    for nth in 0..n {
        let path = folder.join(name(nth));
        let found = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        if found != checkpoint(nth, seed) {
            return Err(format!("{} has other bytes than the job wrote", path.display()));
        }
    }
    Ok(())
}

/// Runs a command to its end; its last words if it fails.
fn done(mut command: Command) -> Result<Output, String> {
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.success() { Ok(output) } else { Err(last_words(&output)) }
}

fn last_words(output: &Output) -> String {
    let said =
        [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said).into_owned()).concat();
    let last: Vec<&str> = said.lines().rev().take(5).collect();
    format!("{}: {}", output.status, last.into_iter().rev().collect::<Vec<_>>().join(" | "))
}

fn json(output: &Output) -> Result<Value, String> {
    serde_json::from_slice(&output.stdout).map_err(|error| format!("no JSON: {error}"))
}

/// Bytes that were written, as a trace has it.
fn bytes_written(gekko: &Gekko, trace: &Path) -> Result<f64, String> {
    let mut command = Command::new(&gekko.iotide);
    command.args(["info", "--format", "json"]).arg(trace);
    let info = json(&done(command)?)?;
    let run = &info["runs"][0];
    let n_losses = run["losses"].as_array().map_or(0, Vec::len);
    if n_losses > 0 {
        return Err(format!("losses: {}", run["losses"]));
    }
    run["source"]["bytes_written"].as_f64().ok_or_else(|| "no bytes were written".to_owned())
}

/// A detector that hears the clients' metrics by ZeroMQ, and answers on a socket.
struct Detector {
    server: Server,
    /// Port to which clients send.
    port: String,
    socket: String,
    lines: PathBuf,
}

impl Detector {
    fn start(gekko: &Gekko, name: &str) -> Result<Self, String> {
        let lines = gekko.bed.folder.join(format!("{name}.jsonl"));
        let socket = format!("unix:{}", gekko.bed.folder.join(name).display());
        let mut command = Command::new(&gekko.iotide);
        command.args([
            "detect",
            "--listen",
            "zmq:tcp://127.0.0.1:0",
            "--listen",
            &socket,
            "--format",
            "json",
        ]);
        command.stdout(fs::File::create(&lines).map_err(|error| error.to_string())?);
        // Its first line is where the port is; the reader is kept, or the second would end it.
        let mut child = command.stderr(Stdio::piped()).spawn().map_err(|error| error.to_string())?;
        let mut said = String::new();
        let mut stderr = BufReader::new(child.stderr.take().ok_or("no stderr")?);
        stderr.read_line(&mut said).map_err(|error| error.to_string())?;
        std::thread::spawn(move || stderr.lines().for_each(drop));
        let port = said.trim().rsplit_once("tcp://").map(|(_, port)| port.to_owned());
        let server = Server::of(child);
        let port = port.ok_or_else(|| format!("detect says '{}'", said.trim()))?;
        Ok(Self { server, port, socket, lines })
    }

    /// Ends it, and returns its last prediction.
    fn end(self) -> Result<Value, String> {
        drop(self.server);
        let text = fs::read_to_string(&self.lines).map_err(|error| error.to_string())?;
        let mut lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.rfind(|line| !line["period_s"].is_null()).ok_or_else(|| "no period was found".to_owned())
    }
}

fn period_from_metrics(gekko: &Gekko) -> Result<String, String> {
    let detector = Detector::start(gekko, "period")?;
    done(Gekko::metrics(gekko.job("measured", CHECKPOINTS, 1)?, &detector.port))?;
    std::thread::sleep(Duration::from_secs(2));
    let prediction = detector.end()?;
    let period_s = prediction["period_s"].as_f64().unwrap_or(f64::NAN);
    let error = (period_s / PERIOD.as_secs_f64() - 1.0).abs();
    let said = format!("the clients' metrics say {period_s:.2} s, the job does {} s", PERIOD.as_secs());
    if error < 0.1 { Ok(said) } else { Err(said) }
}

fn results_leave_in_the_gaps(gekko: &Gekko) -> Result<String, String> {
    let detector = Detector::start(gekko, "gaps")?;
    // The folder has to be there.
    done(gekko.job("results", 0, 2)?)?;
    let mut command = gekko.client(&gekko.iotide);
    command.args([
        "stage",
        "out",
        "--flag",
        "{}.done",
        "--format",
        "json",
        "--predictions",
        &detector.socket,
    ]);
    command.args([&gekko.mount.join("results"), &gekko.folder("results")?]);
    let stager = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let stager = stager.map_err(|error| error.to_string())?;
    let job = done(Gekko::metrics(gekko.job("results", CHECKPOINTS, 2)?, &detector.port));
    let results = gekko.folder("results")?;
    let n_before = (0..CHECKPOINTS).filter(|nth| results.join(name(*nth)).is_file()).count();
    product::signal(program_of(stager.id())?, "TERM");
    let output = stager.wait_with_output().map_err(|error| error.to_string())?;
    job?;
    let prediction = detector.end();
    if !output.status.success() {
        return Err(last_words(&output));
    }
    compare(&results, CHECKPOINTS, 2)?;
    let answer = json(&output)?;
    let staging = &answer["runs"][0];
    let period_s = prediction.ok().and_then(|prediction| prediction["period_s"].as_f64());
    Ok(format!(
        "{} files safe (flags included), {n_before} checkpoints before the job ended, {:.1} s in the way of the job; predicted period {}",
        staging["files"]["safe"],
        staging["interference_s"].as_f64().unwrap_or(f64::NAN),
        period_s.map_or("none".to_owned(), |period_s| format!("{period_s:.2} s")),
    ))
}

/// The program that `timeout` runs. A signal to `timeout` itself would be followed by SIGKILL after a second.
fn program_of(timeout: u32) -> Result<u32, String> {
    let children = fs::read_to_string(format!("/proc/{timeout}/task/{timeout}/children"));
    let child = children.ok().and_then(|children| children.trim().parse().ok());
    child.ok_or_else(|| "the stager ended before the job did".to_owned())
}

fn copies_are_confirmed(gekko: &Gekko) -> Result<String, String> {
    let mut command = Command::new(&gekko.iotide);
    let output = done({
        command.args(["stage", "verify"]).arg(gekko.folder("results")?);
        command
    })?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().replace('\n', " "))
}

fn a_rewritten_file_is_copied_again(gekko: &Gekko) -> Result<String, String> {
    done(gekko.job("results", 1, 3)?)?;
    let mut command = gekko.client(&gekko.iotide);
    command.args(["stage", "out", "--once", "--flag", "{}.done"]);
    command.args([&gekko.mount.join("results"), &gekko.folder("results")?]);
    done(command)?;
    compare(&gekko.folder("results")?, 1, 3)?;
    Ok("a checkpoint that was written again, as long as before, is in the results".to_owned())
}

fn inputs_arrive(gekko: &Gekko) -> Result<String, String> {
    let inputs = gekko.folder("inputs")?;
    for nth in 0..3 {
        fs::write(inputs.join(name(nth)), checkpoint(nth, 4)).map_err(|error| error.to_string())?;
    }
    done(gekko.job("inputs", 0, 4)?)?;
    let back = gekko.folder("back")?;
    for _ in 0..2 {
        let mut command = gekko.client(&gekko.iotide);
        command.args(["stage", "in"]).args([&inputs, &gekko.mount.join("inputs")]);
        done(command)?;
    }
    for nth in 0..3 {
        let mut command = gekko.client(Path::new("cp"));
        command.args([&gekko.mount.join("inputs").join(name(nth)), &back]);
        done(command)?;
    }
    compare(&back, 3, 4)?;
    Ok("3 files, brought twice, are what they were".to_owned())
}

fn the_tracer_sees_all(gekko: &Gekko) -> Result<String, String> {
    let trace = gekko.bed.folder.join("trace");
    let job = gekko.job("traced", 3, 5)?;
    // What follows `env` and its settings.
    let is_setting = |arg: &&OsStr| arg.to_string_lossy().contains('=');
    let program = job.get_args().skip_while(|arg| *arg != "env").skip(1).skip_while(is_setting);
    let mut command = gekko.client(&gekko.iotide);
    command.args(["record", "-o"]).arg(&trace).arg("--").args(program);
    let said = done(command)?;
    let written = bytes_written(gekko, &trace)?;
    let expected = (3 * BYTES) as f64;
    let said =
        String::from_utf8_lossy(&said.stderr).lines().find(|line| line.contains(" % of ")).map(str::to_owned);
    let about = format!("{written} of {expected} bytes traced;{}", said.unwrap_or_default());
    if written >= expected && written < 1.1 * expected { Ok(about) } else { Err(about) }
}

fn the_ladder_measures_gekkofs(gekko: &Gekko) -> Result<String, String> {
    let metrics = gekko.folder("ladder-metrics")?;
    let mut command = gekko.client(&gekko.iotide);
    command.arg("ladder").arg(&gekko.mount);
    command.args(["--sizes", "64K", "--in-flight", "1,4", "--seconds", "0.3", "--format", "json"]);
    let ladder = json(&done(Gekko::metrics(command, &format!("{}/", metrics.display())))?)?;
    let cells = ladder["cells"].as_array().cloned().unwrap_or_default();
    let n: f64 = cells.iter().filter_map(|cell| cell["completions"].as_f64()).sum();
    let written = bytes_written(gekko, &metrics)?;
    let about = format!("{n} requests of 64 KiB measured, {written} bytes written to GekkoFS by its metrics");
    if n > 0.0 && written >= n * 65536.0 { Ok(about) } else { Err(about) }
}

fn what_cannot_work_is_refused(gekko: &Gekko) -> Result<String, String> {
    let mut said = Vec::new();
    for options in [&["--once"][..], &["--once", "--flag", "{}.done", "--purge", "staged"]] {
        let mut command = gekko.client(&gekko.iotide);
        command.args(["stage", "out"]).args(options);
        command.args([&gekko.mount.join("results"), &gekko.folder("refused")?]);
        let output = command.output().map_err(|error| error.to_string())?;
        let words = last_words(&output);
        if output.status.code() != Some(2) || !words.contains("preloaded library") {
            return Err(format!("{options:?}: {words}"));
        }
        said.push(options.join(" "));
    }
    let mut command = gekko.client(&gekko.iotide);
    command.args(["stage", "out", "--once"]).args([&gekko.folder("refused")?, &gekko.mount.join("results")]);
    let output = command.output().map_err(|error| error.to_string())?;
    if output.status.code() != Some(2) || !last_words(&output).contains("nothing is durable") {
        return Err(format!("results into GekkoFS: {}", last_words(&output)));
    }
    Ok(format!("stage out {}; stage out into GekkoFS", said.join("; stage out ")))
}
