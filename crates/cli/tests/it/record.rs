use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::util::Dir;

/// Runs `iotide record …` in an empty directory of its own.
fn record(test: &str, arguments: &[&str]) -> (std::path::PathBuf, Output) {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("record").join(test);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    let output = iotide(&directory, &[&["record"], arguments].concat());
    (directory, output)
}

fn iotide(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_iotide"))
        .args(arguments)
        .current_dir(directory)
        .env_remove("LD_PRELOAD")
        .env("IOTIDE_INCLUDE", directory)
        .output()
        .unwrap()
}

#[test]
fn the_bytes_of_a_program_and_its_children_are_told_and_can_be_read() {
    let script = "dd if=/dev/zero of=a bs=1000 count=70 status=none; cat a > b; echo done";
    let (directory, output) = record("bytes", &["-o", "trace", "--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stdout, b"done\n", "what the program says is left alone");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("140 kB written"), "{stderr}");
    assert!(!stderr.contains("lost"), "{stderr}");
    let detected = iotide(&directory, &["detect", "--format", "json", "trace"]);
    let json: serde_json::Value = serde_json::from_slice(&detected.stdout).unwrap();
    let source = &json["runs"][0]["source"];
    assert_eq!(
        (source["format"].as_str(), source["bytes_written"].as_f64()),
        (Some("native"), Some(140_000.0))
    );
}

#[test]
fn a_recording_keeps_the_command_line() {
    let arguments = ["if=/dev/zero", "of=a b", "bs=1000", "count=3", "status=none"];
    let (directory, output) = record("command", &[&["-o", "trace", "--", "dd"][..], &arguments].concat());
    assert_eq!(output.status.code(), Some(0));
    let reported = iotide(&directory, &["report", "--format", "json", "trace"]);
    let json: serde_json::Value = serde_json::from_slice(&reported.stdout).unwrap();
    let card = &json["runs"][0]["card"];
    assert_eq!(card["program"], "dd");
    let command = card["command"].as_str().unwrap();
    assert!(command.ends_with("/dd if=/dev/zero of=a b bs=1000 count=3 status=none"), "{command}");
    let told = String::from_utf8(iotide(&directory, &["info", "trace"]).stdout).unwrap();
    assert!(told.contains("\n  processes  1\n") && !told.contains("ranks"), "{told}");
}

#[test]
fn the_programs_exit_status_is_ours() {
    for (script, code) in [("exit 7", 7), ("kill -9 $$", 137)] {
        let (_, output) = record("status", &["--quiet", "--", "sh", "-c", script]);
        assert_eq!(output.status.code(), Some(code), "{script}");
        assert!(output.stderr.is_empty());
    }
}

#[test]
fn a_killed_program_is_a_loss_in_the_summary() {
    let (_, output) = record(
        "killed",
        &["--", "sh", "-c", "dd if=/dev/zero of=a bs=1 count=5000 status=none; : > b; kill -9 $$"],
    );
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(137), "{stderr}");
    assert!(stderr.contains("5 kB written") && stderr.contains("terminated abnormally"), "{stderr}");
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    let (_, output) = record("missing", &["--", "./no-such-program"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot run ./no-such-program"));
}

#[test]
fn the_trace_of_another_run_is_not_mixed_with() {
    let (directory, _) = record("mixed", &["-q", "-o", "trace", "--", "cp", "/proc/self/exe", "copy"]);
    let again = iotide(&directory, &["record", "-o", "trace", "--", "true"]);
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("another run"));
    // Without a name, a fresh one is found each time.
    for name in ["iotide-trace", "iotide-trace-2"] {
        assert!(iotide(&directory, &["record", "-q", "--", "cp", "copy", "again"]).status.success());
        assert!(directory.join(name).is_dir(), "{name}");
    }
}

/// Hands a write over, computes, waits for it at once or after it was done.
const ASYNCHRONOUS: &str = r#"
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
int main(void) {
    static char data[1 << 20];
    int fd = open("out", O_CREAT | O_WRONLY, 0644);
    for (int i = 0; i < 5; i++) {
        struct aiocb block;
        memset(&block, 0, sizeof block);
        block.aio_fildes = fd;
        block.aio_buf = data;
        block.aio_nbytes = sizeof data;
        block.aio_offset = (off_t)i << 20;
        if (aio_write(&block)) return 1;
        nanosleep(&(struct timespec){0, 20000000}, 0);
        const struct aiocb *all[] = {&block};
        while (aio_error(&block) == EINPROGRESS) aio_suspend(all, 1, 0);
        if (aio_return(&block) != sizeof data) return 2;
    }
    return close(fd);
}
"#;

#[test]
fn what_asynchronous_writes_required_is_told_everywhere() {
    if iotide_testkit::program("gcc").is_none() {
        return;
    }
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("record/asynchronous");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("program.c"), ASYNCHRONOUS).unwrap();
    let compiled =
        Command::new("gcc").args(["-o", "program", "program.c", "-lrt"]).current_dir(&directory).status();
    assert!(compiled.unwrap().success());
    let output = iotide(&directory, &["record", "-o", "trace", "--", "./program"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("async writes: 5.24 MB written in 5 phases at"), "{stderr}");

    let detected = iotide(&directory, &["detect", "--format", "json", "trace"]);
    let json: serde_json::Value = serde_json::from_slice(&detected.stdout).unwrap();
    let demand = &json["runs"][0]["demand"];
    assert!(demand["read"].is_null(), "{demand}");
    assert_eq!(
        (&demand["write"]["n_phases"], &demand["write"]["bytes"]),
        (&5.into(), &(5 << 20).into()),
        "{demand}"
    );
    let required_bps = demand["write"]["required_bps"].as_f64().unwrap();
    // 1 MiB in 20 ms or, on a busy machine, somewhat longer.
    assert!((1e6..5.5e7).contains(&required_bps), "{demand}");
    assert_eq!(demand["phases"].as_array().unwrap().len(), 5);

    assert!(iotide(&directory, &["report", "trace", "-o", "page.html"]).status.success());
    assert!(
        fs::read_to_string(directory.join("page.html")).unwrap().contains("5.24\u{a0}MB written in 5 phases")
    );
}

#[test]
fn a_run_written_as_tmio_would_have_says_the_same() {
    let script = "for i in 1 2 3; do dd if=/dev/zero of=a$i bs=1000 count=20 status=none; done; cat a1 > b";
    let (directory, output) =
        record("tmio", &["-q", "-o", "trace", "--tmio", "run.jsonl", "--", "sh", "-c", script]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty());
    let source = |trace: &str| {
        let detected = iotide(&directory, &["detect", "--format", "json", trace]);
        let json: serde_json::Value = serde_json::from_slice(&detected.stdout).unwrap();
        json["runs"][0]["source"].clone()
    };
    let (native, tmio) = (source("trace"), source("run.jsonl"));
    assert_eq!(tmio["format"], "tmio-jsonl");
    assert_eq!((&tmio["bytes_written"], &tmio["bytes_read"]), (&80_000.into(), &native["bytes_read"]));
    assert_eq!(tmio["n_ranks"], native["n_ranks"]);
}

/// The 2-d flow that LAMMPS ships as an example, wide enough that its computing outlasts the scheduler's whims, dumped through MPI-IO.
#[test]
fn the_period_of_a_molecular_dynamics_run_is_the_time_between_its_dumps() {
    const N_STEPS: usize = 250;
    const STEPS_PER_DUMP: usize = 10;
    let example = Path::new("/usr/share/lammps/examples/flow/in.flow.pois");
    let is_there = |program: &str| {
        std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
            .any(|dir| dir.join(program).is_file())
    };
    if !(is_there("lmp") && is_there("mpirun.openmpi") && example.is_file()) {
        // Hundreds of megabytes to install: not asked of everyone.
        iotide_testkit::skip(
            iotide_testkit::Missing::Data,
            "LAMMPS (Debian packages lammps, lammps-examples)",
        );
        return;
    }
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("record/lammps");
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    let input: String = (fs::read_to_string(example).unwrap().lines())
        .map(|line| match line.split_whitespace().next() {
            Some("run") => {
                format!("dump 1 all atom/mpiio {STEPS_PER_DUMP} dump.flow.mpiio\nrun {N_STEPS}\n")
            }
            _ => {
                line.replace("0 20 0 10", "0 400 0 250")
                    .replace("INF 1.25", "INF 10")
                    .replace("8.75 INF", "240 INF")
                    + "\n"
            }
        })
        .collect();
    fs::write(directory.join("in.flow"), input).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_iotide"))
        .args([
            "record",
            "-o",
            "trace",
            "--",
            "mpirun.openmpi",
            "--oversubscribe",
            "-n",
            "4",
            "lmp",
            "-in",
            "in.flow",
        ])
        .current_dir(&directory)
        .env("IOTIDE_INCLUDE", &directory)
        .envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")])
        .env("OMPI_MCA_mpi_yield_when_idle", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let mut trace = iotide_trace::Trace::default();
    trace.info = iotide_formats::open(&directory.join("trace")).unwrap().read(&mut trace).unwrap();
    let dumps = starts_of_dumps(&trace);
    assert_eq!(dumps.len(), 1 + N_STEPS / STEPS_PER_DUMP);
    let interval_s = (dumps[dumps.len() - 1] - dumps[0]) / (dumps.len() - 1) as f64;
    let written: f64 = events_of_dumps(&trace).map(|event| event.bytes).sum();
    let dump_bytes = fs::metadata(directory.join("dump.flow.mpiio")).unwrap().len();
    assert_eq!(written, dump_bytes as f64, "every byte of the file was seen once");

    let widest_s = dumps.windows(2).map(|pair| pair[1] - pair[0]).fold(0.0, f64::max);
    if widest_s > 2.5 * interval_s {
        // The run itself has lost its beat: other programs held the processors for longer than a dump takes.
        iotide_testkit::skip(iotide_testkit::Missing::Data, "a machine with enough idle processors");
        return;
    }
    let detected = iotide(&directory, &["detect", "--format", "json", "trace"]);
    let json: serde_json::Value = serde_json::from_slice(&detected.stdout).unwrap();
    let period_s = json["runs"][0]["period"]["period_s"].as_f64();
    let gap = period_s.map(|period_s| (period_s - interval_s).abs() / interval_s);
    assert!(
        gap.is_some_and(|gap| gap < 0.05),
        "found {period_s:?} of {interval_s} s; dumps began at {dumps:?}"
    );
    fs::remove_dir_all(&directory).unwrap();
}

fn events_of_dumps(trace: &iotide_trace::Trace) -> impl Iterator<Item = &iotide_trace::Event> {
    trace.events.iter().filter(|event| {
        let name = trace.info.files.get(event.file.0 as usize);
        event.op == iotide_trace::Op::Write && name.is_some_and(|name| name.ends_with("dump.flow.mpiio"))
    })
}

/// When each dump began, as rank 1 saw it: it writes its atoms with one call a dump, where rank 0 writes a header, too.
fn starts_of_dumps(trace: &iotide_trace::Trace) -> Vec<f64> {
    let mut starts: Vec<f64> =
        events_of_dumps(trace).filter(|event| event.rank.0 == 1).map(|event| event.start.as_secs()).collect();
    starts.sort_by(f64::total_cmp);
    starts
}

#[test]
fn a_library_that_ranks_elsewhere_cannot_load_is_reported_before_they_start() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = Dir::new();
    dir.write("mpirun", "#!/bin/sh\nexit 0\n");
    let executable = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(dir.path().join("mpirun"), executable).unwrap();
    let here = dir.iotide(["record", "--library-dir", "lib", "--", "./mpirun", "-n", "2", "true"]);
    assert!(!here.exits_with(0).stderr.contains("file system of this node"));
    let away = dir.iotide(["record", "--library-dir", "lib", "--", "./mpirun", "--host", "a,b", "true"]);
    let said = away.exits_with(0).stderr;
    assert!(
        said.contains("is on a file system of this node") && said.contains("hint: `--library-dir DIR`"),
        "{said}"
    );
}
