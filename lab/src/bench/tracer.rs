//! Cost of the tracer to the programs it runs in.

use std::io::{BufRead, BufReader, Write};
use std::ops::ControlFlow;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use iotide_trace::{Event, EventSink, Loss, Op};

use super::{Bed, Goal, Line};

/// How often `tracer.c` makes the call it measures.
pub(super) const CALLS: u64 = 2000 * 2000;
/// How often `dd` does.
const DD_CALLS: u64 = 200_000;
const CALL_BYTES: u64 = 4096;

/// Nanoseconds added to a `write` and a `pwrite` of 4 KiB to a file in memory, to an `open` with its `close`, and to an `fputc`.
pub(super) fn nanoseconds_of_a_write(bed: &Bed) -> Result<Vec<Line>, String> {
    let program = bed.compile("tracer", "gcc", &[])?.ok_or("no gcc here")?;
    [
        ("write", "a 4 KiB write", 60.0),
        ("pwrite", "a 4 KiB pwrite", 60.0),
        ("open", "open and close", 400.0),
        ("fputc", "fputc", 10.0),
    ]
    .map(|(call, name, goal)| {
        let expected = match call {
            "open" => Expected { op: Op::Open, bytes: 0 },
            "fputc" => Expected { op: Op::Write, bytes: 1 },
            _ => Expected { op: Op::Write, bytes: CALL_BYTES },
        };
        let added = bed.added_ns(expected, |file| {
            let mut command = Command::new(&program);
            command.arg(file).arg(call);
            command
        })?;
        let what = format!("tracer: ns added to {name}");
        Ok(Line { what, unit: "ns", iotide: added, peer: None, goal: Goal::AtMost(goal) })
    })
    .into_iter()
    .collect()
}

/// Nanoseconds added to an `MPI_File_write_at` of 4 KiB, with each MPI library that is here.
pub(super) fn nanoseconds_of_an_mpi_write(bed: &Bed) -> Result<Vec<Line>, String> {
    let mut lines = Vec::new();
    for mpi in ["openmpi", "mpich"] {
        let Some(program) = bed.compile("tracer", &format!("mpicc.{mpi}"), &["-DWITH_MPI"])? else {
            eprintln!("no mpicc.{mpi} here");
            continue;
        };
        let added = bed.added_ns(WRITES, |file| {
            let mut command = Command::new(format!("mpirun.{mpi}"));
            command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
            command.args(["-n", "1"]).arg(&program).arg(file);
            command
        })?;
        let what = format!("tracer: ns added to MPI_File_write_at ({mpi})");
        lines.push(Line { what, unit: "ns", iotide: added, peer: None, goal: Goal::AtMost(150.0) });
    }
    Ok(lines)
}

/// CPU time added to `dd bs=4k count=200000`, in per cent, and bytes a record takes on disk.
pub(super) fn cpu_of_dd(bed: &Bed) -> Result<Vec<Line>, String> {
    let file = bed.folder.join("dd.out");
    let trace = bed.folder.join("dd.trace");
    let run = |traced: bool| {
        let _ = std::fs::remove_file(&file);
        let _ = std::fs::remove_dir_all(&trace);
        let mut command = Command::new("dd");
        command.args(["if=/dev/zero", "bs=4k", "count=200000"]).arg(format!("of={}", file.display()));
        if traced {
            bed.trace(&mut command, &trace)?;
        }
        let cost = bed.measure(command)?;
        if traced {
            expect_calls(&trace, DD_CALLS, WRITES)?;
        }
        Ok::<f64, String>(cost.cpu_s)
    };
    // In turn, so that a change of the machine's mood meets both; the best of each.
    let (mut bare, mut traced) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..9 {
        bare = bare.min(run(false)?);
        traced = traced.min(run(true)?);
    }
    let size: u64 = std::fs::read_dir(&trace)
        .map_err(|error| format!("dd left no trace: {error}"))?
        .flatten()
        .filter_map(|entry| entry.metadata().ok())
        .map(|metadata| metadata.len())
        .sum();
    let percent = (traced / bare - 1.0) * 100.0;
    let line =
        |what: &str, unit, iotide, goal| Line { what: what.to_owned(), unit, iotide, peer: None, goal };
    Ok(vec![
        line("tracer: CPU added to dd bs=4k count=200000", "%", percent, Goal::AtMost(8.0)),
        // dd opens, closes and a few more: what 200 000 records do not account for is blocks and names.
        line("tracer: bytes a call takes on disk", "B", size as f64 / DD_CALLS as f64, Goal::AtMost(41.0)),
    ])
}

/// Ranks of a workload that is measured as the FTIO paper measures its tracer, and what the paper states: the share of the run that tracing
/// took, written to files and streamed to a listener.
const IOSKEL_RANKS: [u64; 5] = [1, 2, 4, 8, 16];
const PAPER_PERCENT: [f64; 2] = [0.6, 6.9];

/// The share of the run that tracing took, by its own account: calls of 4 KiB in bursts of 1 MiB every 100 ms.
pub(super) fn share_of_a_run(bed: &Bed) -> Result<Vec<Line>, String> {
    const BURSTS: u64 = 20;
    let mut lines = Vec::new();
    for n_ranks in IOSKEL_RANKS {
        for (mode, paper) in ["file", "stream"].into_iter().zip(PAPER_PERCENT) {
            let trace = bed.folder.join(format!("ioskel-{mode}-{n_ranks}"));
            let socket = bed.folder.join(format!("listener-{n_ranks}"));
            let mut command = Command::new(&bed.iotide);
            command.args(["ioskel", "--period", "100ms", "--size", "1M", "--transfer-size", "4K"]);
            command.args(["--iterations", &BURSTS.to_string(), "--processes", &n_ranks.to_string()]);
            command.arg("--dir").arg(&bed.folder).env("IOTIDE_INCLUDE", &bed.folder);
            bed.trace(&mut command, &trace)?;
            let listener = (mode == "stream").then(|| Listener::start(bed, &socket)).transpose()?;
            if listener.is_some() {
                let address = format!("unix:{}", socket.display());
                command.envs([("IOTIDE_STREAM", address.as_str()), ("IOTIDE_KEEP", "1")]);
            }
            let cost = bed.measure(command)?;
            drop(listener);
            expect_calls(&trace, n_ranks * BURSTS * ((1 << 20) / CALL_BYTES), WRITES)?;
            let totals = iotide_formats::tracer_totals(&trace).map_err(|error| error.to_string())?;
            lines.push(Line {
                what: format!("tracer: share of the run of {n_ranks} ranks, {mode} (peer: the FTIO paper's)"),
                unit: "%",
                iotide: 100.0 * totals.overhead_s / (cost.wall_s * n_ranks as f64),
                peer: Some(paper),
                goal: Goal::AtMost(paper),
            });
        }
    }
    Ok(lines)
}

/// `iotide detect --listen`, until dropped.
struct Listener(std::process::Child);

impl Listener {
    fn start(bed: &Bed, socket: &Path) -> Result<Self, String> {
        let mut command = Command::new(&bed.iotide);
        command.args(["detect", "--format", "json", "--listen"]).arg(format!("unix:{}", socket.display()));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().map_err(|error| format!("cannot start a listener: {error}"))?;
        while !socket.exists() {
            if child.try_wait().is_ok_and(|ended| ended.is_some()) {
                return Err("the listener has ended".to_owned());
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        Ok(Self(child))
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Nanoseconds that the gate adds to a traced write of 4 KiB, with an arbiter on this machine and nobody else at the storage.
pub(super) fn nanoseconds_of_the_gate(bed: &Bed) -> Result<Vec<Line>, String> {
    let program = bed.compile("tracer", "gcc", &[])?.ok_or("no gcc here")?;
    let socket = bed.folder.join("gate");
    let mut arbiter = Command::new(&bed.iotide);
    let control = bed.folder.join("control");
    let mut arbiter = (arbiter.arg("arbiter").arg(format!("unix:{}", socket.display())))
        .arg("--control")
        .arg(&control)
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("cannot start the arbiter: {error}"))?;
    let gated = |address: String| {
        bed.added_ns(WRITES, |file| {
            let mut command = Command::new(&program);
            // Requests this small would not ask otherwise, and larger ones take longer by themselves.
            command.arg(file).arg("pwrite").envs([("IOTIDE_GATE_BYPASS", "0"), ("IOTIDE_GATE", &address)]);
            command
        })
    };
    let (traced, asked) = (gated(String::new()), gated(format!("unix:{}", socket.display())));
    let seen = jobs_at(&control);
    let _ = arbiter.kill();
    let _ = arbiter.wait();
    if !seen.map_err(|error| format!("the arbiter does not answer: {error}"))?.contains("\"bytes\"") {
        return Err("nobody asked the arbiter".to_owned());
    }
    let what = "gate: ns added to a 4 KiB pwrite under the tracer, uncontended".to_owned();
    Ok(vec![Line { what, unit: "ns", iotide: asked? - traced?, peer: None, goal: Goal::AtMost(1000.0) }])
}

impl Bed {
    /// Runs a measuring program bare and traced, some times in turn, and returns the difference of the best.
    fn added_ns(&self, expected: Expected, command_for: impl Fn(&Path) -> Command) -> Result<f64, String> {
        // In memory if there is such a place: the tracer's cost, not the disk's.
        let memory = Path::new("/dev/shm");
        let folder = if memory.is_dir() { memory } else { &self.folder };
        let folder = folder.join(format!("iotide-bench-{}", std::process::id()));
        let run = |traced: bool| {
            std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
            let answer = self.folder.join("answer");
            let mut command = command_for(&folder.join("file"));
            command.arg(&answer);
            let _ = std::fs::remove_file(&answer);
            let trace = folder.join("trace");
            if traced {
                self.trace(&mut command, &trace)?;
                command.env("IOTIDE_INCLUDE", &folder);
            }
            let result = self.measure(command).and_then(|_| match traced {
                true => expect_calls(&trace, CALLS, expected),
                false => Ok(()),
            });
            let _ = std::fs::remove_dir_all(&folder);
            result?;
            let text = std::fs::read_to_string(&answer).map_err(|error| error.to_string())?;
            text.trim().parse::<f64>().map_err(|error| error.to_string())
        };
        let (mut bare, mut traced) = (f64::INFINITY, f64::INFINITY);
        for _ in 0..3 {
            bare = bare.min(run(false)?);
            traced = traced.min(run(true)?);
        }
        Ok(traced - bare)
    }

    /// Puts the tracer before a command.
    fn trace(&self, command: &mut Command, directory: &Path) -> Result<(), String> {
        let library = self.iotide.with_file_name("deps").join("libiotide.so");
        if !library.is_file() {
            // The loader would say so, and go on without.
            return Err(format!("there is no {}", library.display()));
        }
        command.env("LD_PRELOAD", library).env("IOTIDE_DIR", directory);
        Ok(())
    }
}

/// Returns the jobs of an arbiter, as its control socket lists them.
fn jobs_at(control: &Path) -> std::io::Result<String> {
    let mut socket = UnixStream::connect(control)?;
    socket.write_all(b"jobs\n")?;
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line)?;
    Ok(line)
}

/// A call that must be in a trace, so often as it was made.
#[derive(Clone, Copy)]
pub(super) struct Expected {
    op: Op,
    bytes: u64,
}

pub(super) const WRITES: Expected = Expected { op: Op::Write, bytes: CALL_BYTES };

/// A tracer that saw nothing costs nothing: the trace must hold the calls that were measured, and no loss.
pub(super) fn expect_calls(trace: &Path, n_calls: u64, expected: Expected) -> Result<(), String> {
    struct Calls {
        expected: Expected,
        n_calls: u64,
        lost: Option<String>,
    }
    impl EventSink for Calls {
        fn event(&mut self, event: Event) -> ControlFlow<()> {
            let Expected { op, bytes } = self.expected;
            if event.op == op && event.bytes == f64::from(event.calls) * bytes as f64 {
                self.n_calls += u64::from(event.calls);
            }
            ControlFlow::Continue(())
        }
        fn loss(&mut self, loss: Loss) {
            self.lost.get_or_insert(loss.what);
        }
        fn async_event(&mut self, event: Event, _: iotide_trace::Timestamp) -> ControlFlow<()> {
            self.event(event)
        }
        fn time_spent(&mut self, _: iotide_trace::TimeSpent) {}
        fn access_facts(&mut self, _: &iotide_trace::AccessFacts) {}
    }
    let mut calls = Calls { expected, n_calls: 0, lost: None };
    let reader = iotide_formats::open(trace).map_err(|error| format!("nothing was traced: {error}"))?;
    reader.read(&mut calls).map_err(|error| format!("nothing was traced: {error}"))?;
    if let Some(lost) = calls.lost {
        return Err(format!("not all was traced: {lost}"));
    }
    // The program opens its own files, too: a few calls more are no fault.
    match calls.n_calls {
        n if (n_calls..n_calls + 10).contains(&n) => Ok(()),
        n => Err(format!("{n} of {n_calls} calls are in the trace")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_without_the_writes_is_an_error() {
        let dir = iotide_testkit::FreshDir::new("bench-tracer");
        assert!(expect_calls(dir.path(), 1, WRITES).unwrap_err().starts_with("nothing was traced"));
    }

    #[test]
    fn without_the_library_nothing_is_measured() {
        let dir = iotide_testkit::FreshDir::new("bench-library");
        let bed = Bed { iotide: dir.join("iotide"), builds: false, ftio: None, folder: dir.join("bed") };
        let error = bed.trace(&mut Command::new("true"), dir.path()).unwrap_err();
        assert!(error.starts_with("there is no ") && error.ends_with("libiotide.so"), "{error}");
    }
}
