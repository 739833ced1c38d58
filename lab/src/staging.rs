//! `iotide stage out` beside a job with a known rhythm: what each policy costs the job, and how soon its results are safe.
//!
//! The job (`iotide ioskel`) writes a new file in each phase into a buffer, from where files go to a results folder. Both are behind one mount that
//! lets so much through in a second and not more: what is moved during a phase, the phase waits for.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Outcome;
use crate::product::{self, Server};

const PHASES: u32 = 12;
const BURST: &str = "80M";
const COMPUTE: &str = "2";
const BANDWIDTH: &str = "100MiB";
/// Capacity of the small buffer: two and a half bursts.
const SMALL: &str = "200M";

const HELP: &str = "usage: cargo xtask staging [--iotide FILE]

  --iotide FILE   the iotide to measure (built in release mode unless given); about six minutes
";

/// One run.
struct Case {
    name: &'static str,
    /// Options of `stage out`; `None` for the job alone.
    options: Option<&'static [&'static str]>,
    job: Job,
    predictions: Predictions,
    /// In a file system in memory that holds [`SMALL`].
    is_small: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Job {
    Steady,
    /// Computes twice as long from its middle on.
    Changing,
}

#[derive(Clone, Copy, PartialEq)]
enum Predictions {
    None,
    /// From the job's trace.
    Trace,
    /// From what the job sends, of which nothing arrives after its first half.
    CutOff,
}

const fn case(name: &'static str, options: &'static [&'static str], predictions: Predictions) -> Case {
    Case { name, options: Some(options), job: Job::Steady, predictions, is_small: false }
}

const CASES: [Case; 8] = [
    Case { options: None, ..case("no staging", &[], Predictions::None) },
    case("immediate", &["--policy", "immediate"], Predictions::None),
    case("end", &["--policy", "end"], Predictions::None),
    case("gap, by what the job does", &["--policy", "gap"], Predictions::None),
    case("gap, predicted", &["--policy", "gap"], Predictions::Trace),
    case("gap, trace cut off midway", &["--policy", "gap"], Predictions::CutOff),
    Case { job: Job::Changing, ..case("gap, the rhythm changes", &["--policy", "gap"], Predictions::Trace) },
    Case {
        is_small: true,
        ..case("gap, a buffer of 2.5 phases", &["--policy", "gap", "--purge", "staged"], Predictions::Trace)
    },
];

/// Results of a run.
struct Measured {
    job_s: f64,
    interference_s: Option<f64>,
    safe_after_s: Option<f64>,
    n_safe: Option<u64>,
    peak: Option<f64>,
}

pub(crate) fn run(args: &[String]) -> Result<Outcome, String> {
    let program = match args {
        [] => product::build()?,
        [option, path] if option == "--iotide" => PathBuf::from(path),
        [option] if option == "-h" || option == "--help" => {
            print!("{HELP}");
            return Ok(Outcome::Good);
        }
        _ => return Err(format!("that is not known\n{HELP}")),
    };
    let folder = std::env::temp_dir().join(format!("iotide-staging-{}", std::process::id()));
    println!("{PHASES} phases of {BURST} after {COMPUTE} s each; buffer and results share {BANDWIDTH}/s\n");
    println!(
        "| | run time | moved beside the job's I/O | safe after its end | fullest |\n|---|---|---|---|---|"
    );
    let mut outcome = Outcome::Good;
    for case in CASES {
        fs::create_dir_all(&folder).map_err(said)?;
        let measured = case.measure(&program, &folder);
        fs::remove_dir_all(&folder).map_err(said)?;
        match measured {
            Ok(measured) => {
                println!("{}", measured.row(case.name));
                if measured.n_safe.is_some_and(|n| n != u64::from(PHASES)) {
                    println!("{:?} files are safe instead of {PHASES}", measured.n_safe);
                    outcome = Outcome::Wanting;
                }
            }
            Err(why) => {
                println!("| {} | {why} | | | |", case.name);
                outcome = Outcome::Wanting;
            }
        }
    }
    Ok(outcome)
}

fn said(error: std::io::Error) -> String {
    error.to_string()
}

impl Case {
    fn measure(&self, program: &Path, folder: &Path) -> Result<Measured, String> {
        let (backing, shown) = (folder.join("backing"), folder.join("shown"));
        for path in ["buffer", "results"].map(|name| backing.join(name)).iter().chain([&shown]) {
            fs::create_dir_all(path).map_err(said)?;
        }
        let mut mount = Command::new(program);
        mount.arg("mount").arg(&backing).arg(&shown).args(["--policy", "none", "--bandwidth", BANDWIDTH]);
        let _mount = Server::start(mount, Some(shown.clone()), "is shown at")?;
        let memory = self.is_small.then(|| InMemory::mount(folder.join("memory"))).transpose()?;
        let buffer = memory.as_ref().map_or_else(|| shown.join("buffer"), |memory| memory.path.clone());
        let trace = folder.join("trace");
        let (from, to) = (folder.join("job.sock"), folder.join("stage.sock"));

        let stager = self.options.map(|options| {
            let mut command = Command::new(program);
            command.args(["stage", "out"]).arg(&buffer).arg(shown.join("results"));
            command.args(["--quiet", "250ms", "--format", "json"]).args(options);
            match self.predictions {
                Predictions::None => {}
                Predictions::Trace => drop(command.arg("--follow").arg(&trace)),
                Predictions::CutOff => drop(command.arg("--listen").arg(format!("unix:{}", to.display()))),
            }
            command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().map_err(said)
        });
        let stager = stager.transpose()?;
        if self.predictions == Predictions::CutOff {
            let half_s = f64::from(PHASES) / 2.0 * (COMPUTE.parse::<f64>().unwrap_or(2.0) + 0.8);
            relay(&from, &to, Duration::from_secs_f64(half_s))?;
        }
        let began = Instant::now();
        let mut job = self.start_job(program, &buffer, &trace, &from)?;
        let mut peak = 0.0f64;
        let status = loop {
            if let Some(status) = job.try_wait().map_err(said)? {
                break status;
            }
            peak = peak.max(memory.as_ref().map_or(0.0, InMemory::share));
            std::thread::sleep(Duration::from_millis(10));
        };
        let (job_s, over) = (began.elapsed().as_secs_f64(), Instant::now());
        let mut measured = Measured {
            job_s,
            interference_s: None,
            safe_after_s: None,
            n_safe: None,
            peak: memory.as_ref().map(|_| peak),
        };
        if let Some(stager) = stager {
            let _ = Command::new("kill").arg(stager.id().to_string()).status();
            let output = stager.wait_with_output().map_err(said)?;
            measured.safe_after_s = Some(over.elapsed().as_secs_f64());
            let answer: Value = serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
            measured.interference_s = answer["interference_s"].as_f64();
            measured.n_safe = answer["files"]["safe"].as_u64();
        }
        if status.success() { Ok(measured) } else { Err("the job failed: its buffer was full".to_owned()) }
    }

    /// The job, under the tracer where its trace or what it sends is wanted.
    fn start_job(&self, program: &Path, buffer: &Path, trace: &Path, stream: &Path) -> Result<Child, String> {
        let part = |n: u32, compute: &str| {
            let (program, buffer) = (program.display(), buffer.display());
            format!("{program} ioskel --compute {compute} -s {BURST} -n {n} --file-per-burst --dir {buffer}")
        };
        let script = match self.job {
            Job::Steady => format!("exec {}", part(PHASES, COMPUTE)),
            Job::Changing => {
                format!("{} && exec {}", part(PHASES / 2, COMPUTE), part(PHASES - PHASES / 2, "4"))
            }
        };
        let mut command = Command::new(program);
        command.args(["record", "-q", "-o"]).arg(trace);
        if self.predictions == Predictions::CutOff {
            command.arg("--stream").arg(format!("unix:{}", stream.display()));
        }
        command.args(["--", "sh", "-c", &script]);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(said)
    }
}

impl Measured {
    fn row(&self, name: &str) -> String {
        let seconds = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.1} s"));
        format!(
            "| {name} | {:.1} s | {} | {} | {} |",
            self.job_s,
            seconds(self.interference_s),
            seconds(self.safe_after_s),
            self.peak.map_or("–".to_owned(), |peak| format!("{:.0} %", peak * 100.0))
        )
    }
}

/// Passes on what a job sends, until it says nothing more; the connections stay.
fn relay(from: &Path, to: &Path, how_long: Duration) -> Result<(), String> {
    let listener = UnixListener::bind(from).map_err(said)?;
    let (to, until) = (to.to_owned(), Instant::now() + how_long);
    let pass_on = move |mut from: UnixStream, mut to: UnixStream| {
        let mut buffer = [0; 64 << 10];
        while let Ok(n @ 1..) = from.read(&mut buffer) {
            if Instant::now() < until && to.write_all(&buffer[..n]).is_err() {
                break;
            }
        }
        // Held until the job hangs up, and long after: whoever listens hears neither data nor an end.
        std::thread::sleep(Duration::from_secs(600));
    };
    std::thread::spawn(move || {
        for from in listener.incoming().flatten() {
            let Ok(to) = UnixStream::connect(&to) else { continue };
            if let (Ok(back_from), Ok(back_to)) = (from.try_clone(), to.try_clone()) {
                std::thread::spawn(move || pass_on(back_to, back_from));
            }
            std::thread::spawn(move || pass_on(from, to));
        }
    });
    Ok(())
}

/// A small file system in memory, gone when dropped.
struct InMemory {
    path: PathBuf,
}

impl InMemory {
    fn mount(path: PathBuf) -> Result<Self, String> {
        fs::create_dir_all(&path).map_err(said)?;
        let size = format!("size={SMALL}");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "none"]).arg(&path).status();
        match mounted {
            Ok(status) if status.success() => Ok(Self { path }),
            _ => Err("cannot mount a file system in memory (as root?)".to_owned()),
        }
    }

    /// How full it is.
    fn share(&self) -> f64 {
        let output = Command::new("stat").args(["-f", "-c", "%b %f"]).arg(&self.path).output();
        let text =
            output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
        let mut numbers = text.split_whitespace().filter_map(|word| word.parse::<f64>().ok());
        let (Some(all), Some(free)) = (numbers.next(), numbers.next()) else { return 0.0 };
        1.0 - free / all
    }
}

impl Drop for InMemory {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.path).status();
    }
}
