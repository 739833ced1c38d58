//! iotide and its peers, measured side by side in one run on one machine: `cargo xtask bench [NAME…]`.
//!
//! To add a bench: a function that returns [`Line`]s, in the file of its subject, and one entry in [`BENCHES`].

use std::path::{Path, PathBuf};
use std::process::Command;

use self::measure::Cost;
use crate::peer::on_path;
use crate::{Outcome, product, repository};

mod arbiter;
mod archive;
pub(crate) mod darshan;
mod jobs;
mod kernel;
mod live_counters;
mod measure;
mod mount;
mod online;
mod period;
mod python;
mod rpc;
mod scaling;
mod serve;
mod signature;
mod signature_one;
mod simulate;
pub(crate) mod soak;
mod stage;
mod system;
mod tmio;
mod tracer;
pub(crate) mod tree;
mod why;

/// A bench: its name, and the function that measures and judges.
struct Bench {
    name: &'static str,
    help: &'static str,
    run: fn(&Bed) -> Result<Vec<Line>, String>,
}

const BENCHES: &[Bench] = &[
    Bench {
        name: "period-cpu",
        help: "CPU time of `detect` on 1e6 requests",
        run: period::cpu_of_a_million_requests,
    },
    Bench {
        name: "period-rows",
        help: "CPU time of `detect` on 1e6 requests as CSV and as a native trace",
        run: period::cpu_of_a_million_rows,
    },
    Bench {
        name: "period-memory",
        help: "peak memory of `detect` on 5e6 requests",
        run: period::memory_of_five_million,
    },
    Bench {
        name: "period-small",
        help: "wall time of `detect` on a small trace",
        run: period::time_of_a_small_trace,
    },
    Bench {
        name: "darshan-large",
        help: "a full load of an 11 MB DXT log against PyDarshan and bare inflation",
        run: darshan::cost_of_a_large_log,
    },
    Bench {
        name: "darshan-small",
        help: "wall time of `info` on a small log",
        run: darshan::time_of_a_small_log,
    },
    Bench {
        name: "tracer-write",
        help: "nanoseconds the tracer adds to a write",
        run: tracer::nanoseconds_of_a_write,
    },
    Bench {
        name: "tracer-mpi",
        help: "nanoseconds the tracer adds to MPI_File_write_at",
        run: tracer::nanoseconds_of_an_mpi_write,
    },
    Bench {
        name: "tracer-ioskel",
        help: "the share of a run that tracing takes, 1 to 16 ranks, to files and streamed",
        run: tracer::share_of_a_run,
    },
    Bench { name: "tracer-dd", help: "CPU time the tracer adds to dd", run: tracer::cpu_of_dd },
    Bench {
        name: "kernel",
        help: "what tracing by the kernel adds to a call, recorded or not; no call lost at full speed",
        run: kernel::figures,
    },
    Bench {
        name: "live-counters",
        help: "nanoseconds of an increment, and what counting adds to a write and to a call of MPI",
        run: live_counters::nanoseconds,
    },
    Bench {
        name: "serve",
        help: "what the daemon costs: idle, asked, by sample, over 10,000 jobs, searching 10⁶; and all of live-counters",
        run: serve::figures,
    },
    Bench {
        name: "rpc",
        help: "what a controller waits for while jobs run and models are fitted anew, in frames and over HTTP",
        run: rpc::figures,
    },
    Bench {
        name: "tree",
        help: "daemons in a tree: idle, 10,000 leaves over TLS, what an update takes; and 10,000 made leaves under faults",
        run: tree::figures,
    },
    Bench {
        name: "many-jobs",
        help: "memory of the daemon over 10,000 jobs (a part of serve)",
        run: serve::memory_over_many_jobs,
    },
    Bench {
        name: "job-search",
        help: "CPU time of questions about 10⁶ jobs (a part of serve)",
        run: serve::search_of_a_million_jobs,
    },
    Bench {
        name: "archive",
        help: "CPU and memory of `categorize` on 20,000 logs",
        run: archive::cost_of_an_archive,
    },
    Bench {
        name: "archive-pydarshan",
        help: "CPU of `categorize` on real logs against PyDarshan reading them",
        run: archive::cpu_beside_pydarshan,
    },
    Bench {
        name: "signature-year",
        help: "all signatures of a three-month log with 80 000 jobs",
        run: signature::three_months,
    },
    Bench {
        name: "why",
        help: "`why` on a run of 1e6 requests with 30 earlier runs and a week of 1 s samples",
        run: why::a_million_requests,
    },
    Bench {
        name: "online-events",
        help: "events of 10,000 ranks streamed into a predictor",
        run: online::events_of_ten_thousand_ranks,
    },
    Bench {
        name: "online-evaluation",
        help: "one evaluation after 10², 10⁴ and 10⁶ phases",
        run: online::evaluation_at_any_history,
    },
    Bench {
        name: "simulate-requests",
        help: "CPU time of the report's workload, request by request, against the same model in Python",
        run: simulate::cpu_of_requests,
    },
    Bench {
        name: "simulate-fluid",
        help: "CPU time of a million jobs of ten phases in the fluid model",
        run: simulate::cpu_of_a_million_jobs,
    },
    Bench {
        name: "stage",
        help: "files out of memory onto a disk, checked and synced, beside cp, rsync and rclone",
        run: stage::figures,
    },
    Bench {
        name: "system-events",
        help: "CPU an event of simulated storage, beside rebop",
        run: system::cost_of_an_event,
    },
    Bench {
        name: "system-answers",
        help: "how long one waits for the next ten minutes of sixteen jobs, and for templates of a thousand runs",
        run: system::time_of_an_answer,
    },
    Bench {
        name: "jobs",
        help: "CPU time and memory of job logs under scheduling policies, against AccaSim",
        run: jobs::cpu_of_job_logs,
    },
    Bench {
        name: "mount",
        help: "writes through `iotide mount` against bindfs and libfuse's examples",
        run: mount::writes_through_the_mount,
    },
    Bench {
        name: "gate",
        help: "nanoseconds the gate adds to a write that nobody contends with",
        run: tracer::nanoseconds_of_the_gate,
    },
    Bench {
        name: "arbiter-jobs",
        help: "what a request costs an arbiter that a thousand jobs ask, and what it keeps of them",
        run: arbiter::figures,
    },
    Bench {
        name: "signature-one",
        help: "CPU time of one signature of 8 samples of 750 points",
        run: signature_one::cpu_of_a_signature,
    },
    Bench { name: "scaling-cpu", help: "CPU time of `model` against extrap", run: scaling::cpu_of_models },
    Bench {
        name: "python",
        help: "the Python package: reading, detecting and modelling, beside PyDarshan, FTIO's and Extra-P's API",
        run: python::figures,
    },
    Bench {
        name: "refit",
        help: "CPU time of fitting an application's metrics anew when a run ends, as `serve` does",
        run: scaling::cpu_of_a_refit,
    },
];

/// Runs the benches whose name contains one of `filters`, or whose line of help names that command (all, if none is given),
/// and prints the table.
///
/// `--no-build` measures the program that lies in the target folder as it is.
pub(crate) fn run(filters: &[String]) -> Result<Outcome, String> {
    let (flags, filters): (Vec<&String>, Vec<&String>) = filters.iter().partition(|arg| arg.starts_with('-'));
    let mut build = true;
    for flag in flags {
        match flag.as_str() {
            "--no-build" => build = false,
            "--help" | "-h" => return Ok(list()),
            other => return Err(format!("no option {other}; there is --no-build")),
        }
    }
    let chosen: Vec<&Bench> = BENCHES
        .iter()
        .filter(|bench| {
            let is_meant = |filter: &&String| {
                bench.name.contains(filter.as_str()) || bench.help.contains(&format!("`{filter}`"))
            };
            filters.is_empty() || filters.iter().any(is_meant)
        })
        .collect();
    if chosen.is_empty() {
        list();
        return Err("no bench of that name".to_owned());
    }
    let bed = Bed::make(build)?;
    if let Some(load) = busy() {
        eprintln!(
            "the machine is busy ({load} processes want its cores): wall times are longer than they should be"
        );
    }
    let mut lines = Vec::new();
    let mut all_measured = true;
    for bench in chosen {
        eprintln!("measuring {}: {}", bench.name, bench.help);
        let measured = (bench.run)(&bed).map_err(|error| format!("{}: {error}", bench.name))?;
        if measured.is_empty() {
            eprintln!("{}: NOTHING WAS MEASURED", bench.name);
            all_measured = false;
        }
        lines.extend(measured);
    }
    print!("{}", table(&lines));
    let all_met = all_measured && lines.iter().all(|line| line.met() != Some(false));
    Ok(if all_met { Outcome::Good } else { Outcome::Wanting })
}

fn list() -> Outcome {
    println!("usage: cargo xtask bench [--no-build] [NAME…]\n");
    for bench in BENCHES {
        println!("  {:<17} {}", bench.name, bench.help);
    }
    Outcome::Good
}

/// Where measuring takes place: our program, the peers that are here, and a folder that goes away.
struct Bed {
    iotide: PathBuf,
    /// Whether what is measured is built first.
    builds: bool,
    ftio: Option<PathBuf>,
    folder: PathBuf,
}

impl Bed {
    fn make(build: bool) -> Result<Self, String> {
        let iotide = if build { product::build()? } else { product::path() };
        if !iotide.exists() {
            return Err(format!("there is no {}; run without --no-build", iotide.display()));
        }
        let ftio = on_path("ftio");
        if ftio.is_none() {
            eprintln!("no ftio on PATH (`pip install ftio-hpc`): measuring iotide alone");
        }
        let folder = std::env::temp_dir().join(format!("iotide-bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder)
            .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        Ok(Self { iotide, builds: build, ftio, folder })
    }

    fn measure(&self, mut command: Command) -> Result<Cost, String> {
        measure::run(&mut command, &self.folder.join("stderr"))
    }

    /// Compiles a program that lies beside the benches; `None` if there is no such compiler.
    fn compile(&self, source: &str, compiler: &str, flags: &[&str]) -> Result<Option<PathBuf>, String> {
        let program = self.folder.join(format!("{}-{compiler}", source.replace('_', "-")));
        let source = repository().join(format!("lab/src/bench/{source}.c"));
        match Command::new(compiler).args(["-O2", "-o"]).arg(&program).args(flags).arg(source).output() {
            Ok(output) if output.status.success() => Ok(Some(program)),
            Ok(output) => Err(format!("{compiler}: {}", String::from_utf8_lossy(&output.stderr))),
            Err(_) => Ok(None),
        }
    }

    /// Runs `iotide` with these arguments, unmeasured, and returns its answer: what was measured must have been the work.
    fn answer<A: AsRef<std::ffi::OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Result<String, String> {
        let mut command = Command::new(&self.iotide);
        let output = (command.args(args).current_dir(&self.folder).output())
            .map_err(|error| format!("cannot start iotide: {error}"))?;
        if !output.status.success() {
            return Err(format!("{command:?} failed: {}", String::from_utf8_lossy(&output.stderr)));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Returns `iotide detect TRACE` as a user would type it.
    fn iotide_detect(&self, trace: &Path) -> Command {
        let mut command = Command::new(&self.iotide);
        command.arg("detect").arg(trace).current_dir(&self.folder);
        command
    }

    /// Returns `ftio TRACE -e no` (no plots), if ftio is here.
    fn ftio(&self, trace: &Path) -> Option<Command> {
        let mut command = Command::new(self.ftio.as_ref()?);
        command.arg(trace).args(["-e", "no"]).current_dir(&self.folder);
        Some(command)
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// Returns how many processes wanted to run of late, if more than there are cores; unknown outside of Linux.
fn busy() -> Option<f64> {
    let load = std::fs::read_to_string("/proc/loadavg").ok()?.split(' ').next()?.parse::<f64>().ok()?;
    let n_cores = std::thread::available_parallelism().map_or(1, usize::from);
    // One of them is this bench, or the build just before it.
    (load > n_cores as f64).then_some(load)
}

/// One measured quantity, where less is better.
struct Line {
    what: String,
    unit: &'static str,
    iotide: f64,
    /// `None` if the peer is not here, or failed.
    peer: Option<f64>,
    goal: Goal,
}

/// Target of a quantity.
enum Goal {
    /// The peer's is at least this many times ours.
    TimesLess(f64),
    /// Ours is at most this much.
    AtMost(f64),
    /// Reported only.
    None,
}

impl Line {
    fn ratio(&self) -> Option<f64> {
        self.peer.map(|peer| peer / self.iotide)
    }

    /// Whether the goal is met; `None` if there is none, or no peer to compare with.
    fn met(&self) -> Option<bool> {
        match self.goal {
            Goal::TimesLess(times) => self.ratio().map(|ratio| ratio >= times),
            Goal::AtMost(limit) => Some(self.iotide <= limit),
            Goal::None => None,
        }
    }

    fn cells(&self) -> [String; 6] {
        let value = |value: f64| format!("{} {}", three_digits(value), self.unit);
        [
            self.what.clone(),
            value(self.iotide),
            self.peer.map_or_else(|| "–".to_owned(), value),
            self.ratio().map_or_else(|| "–".to_owned(), |ratio| format!("{}×", three_digits(ratio))),
            match self.goal {
                Goal::TimesLess(times) => format!("≥ {times}×"),
                Goal::AtMost(limit) => format!("≤ {limit} {}", self.unit),
                Goal::None => "–".to_owned(),
            },
            match self.met() {
                Some(true) => "met",
                Some(false) => "NOT MET",
                None => "–",
            }
            .to_owned(),
        ]
    }
}

/// Returns the lines as a Markdown table, aligned for reading as it is.
fn table(lines: &[Line]) -> String {
    let mut rows = vec![["what", "iotide", "peer", "ratio", "goal", ""].map(str::to_owned)];
    rows.extend(lines.iter().map(Line::cells));
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        for (cell, width) in row.iter().zip(widths) {
            text += &format!("| {cell:<width$} ");
        }
        text += "|\n";
        if index == 0 {
            text += &widths.map(|width| format!("|{}", "-".repeat(width + 2))).concat();
            text += "|\n";
        }
    }
    text
}

fn three_digits(value: f64) -> String {
    let decimals = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(iotide: f64, peer: Option<f64>, goal: Goal) -> Line {
        Line { what: "x".to_owned(), unit: "s", iotide, peer, goal }
    }

    #[test]
    fn a_goal_is_judged_on_the_ratio_or_on_our_own_figure() {
        assert_eq!(line(1.0, Some(20.0), Goal::TimesLess(20.0)).met(), Some(true));
        assert_eq!(line(1.0, Some(19.9), Goal::TimesLess(20.0)).met(), Some(false));
        assert_eq!(line(1.0, None, Goal::TimesLess(20.0)).met(), None);
        assert_eq!(line(31.0, None, Goal::AtMost(30.0)).met(), Some(false));
        assert_eq!(line(31.0, Some(1.0), Goal::None).met(), None);
    }

    #[test]
    fn the_table_says_what_is_missing_and_what_is_not_met() {
        let lines = [line(0.25, Some(7.5), Goal::TimesLess(20.0)), line(31.4, None, Goal::AtMost(30.0))];
        let expected = "\
| what | iotide | peer   | ratio | goal   |         |
|------|--------|--------|-------|--------|---------|
| x    | 0.25 s | 7.50 s | 30.0× | ≥ 20×  | met     |
| x    | 31.4 s | –      | –     | ≤ 30 s | NOT MET |
";
        assert_eq!(table(&lines), expected);
    }
}
