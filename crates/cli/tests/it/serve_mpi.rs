use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use iotide_testkit::{FreshDir, program};
use serde_json::Value;

use crate::serve::{Daemon, IOTIDE, ask, unix_get};

const BOTH: [&str; 2] = ["openmpi", "mpich"];
/// Five sizes are the least that carry a shape.
const SIZES: [u32; 5] = [1, 2, 3, 4, 6];

/// Ranks that read in turn by one pointer into one file, ranks that compute while they write, and ranks that do a bit of all and say how long.
const LOOPS: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
enum { ROUNDS = 8, READ = 4096, WRITTEN = 1 << 18 };
static char buffer[WRITTEN];
// Also before MPI is there, and after it is gone.
static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}
static void compute(double seconds) {
    double start = now();
    volatile double x = 1;
    while (now() - start < seconds) for (int i = 0; i < 1000; i++) x *= 1.0000001;
}
int main(int argc, char **argv) {
    double begun = now(), computed = 0, talked = 0;
    int rank, n;
    MPI_File file;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    MPI_File_open(MPI_COMM_WORLD, argv[2], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    if (!strcmp(argv[1], "shared-read")) {
        if (rank == 0)
            for (int i = 0; i < ROUNDS * n; i++)
                MPI_File_write_at(file, (MPI_Offset)i * READ, buffer, READ, MPI_BYTE, MPI_STATUS_IGNORE);
        MPI_File_sync(file);
        MPI_Barrier(MPI_COMM_WORLD);
        for (int i = 0; i < ROUNDS; i++) {
            MPI_Status status;
            int got;
            MPI_File_read_shared(file, buffer, READ, MPI_BYTE, &status);
            MPI_Get_count(&status, MPI_BYTE, &got);
            if (got != READ) MPI_Abort(MPI_COMM_WORLD, 3);
        }
    } else if (!strcmp(argv[1], "asynchronous")) {
        for (int i = 0; i < ROUNDS; i++) {
            MPI_Request request;
            MPI_File_iwrite_at(file, ((MPI_Offset)i * n + rank) * WRITTEN, buffer, WRITTEN, MPI_BYTE, &request);
            compute(0.02);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
    } else {
        for (int i = 0; i < 10; i++) {
            double start = now();
            compute(0.2);
            double middle = now();
            MPI_Allreduce(MPI_IN_PLACE, buffer, 1000, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
            MPI_Barrier(MPI_COMM_WORLD);
            computed += middle - start;
            talked += now() - middle;
            MPI_File_write_at(file, ((MPI_Offset)i * n + rank) * WRITTEN, buffer, WRITTEN, MPI_BYTE, MPI_STATUS_IGNORE);
        }
    }
    MPI_File_close(&file);
    MPI_Finalize();
    if (computed > 0) {
        char line[200];
        snprintf(line, sizeof line, "rank %d run %.6f computed %.6f talked %.6f\n", rank, now() - begun, computed, talked);
        FILE *said = fopen(argv[3], "a");
        fputs(line, said);
        fclose(said);
    }
    return 0;
}
"#;

fn compile(dir: &FreshDir, mpi: &str) -> Option<PathBuf> {
    let compiler = program(&format!("mpicc.{mpi}"))?;
    let source = dir.write("loops.c", LOOPS);
    let file = dir.join(format!("loops-{mpi}"));
    let output = Command::new(compiler).args(["-O1", "-w", "-o"]).arg(&file).arg(source).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(file)
}

/// `iotide record --live -- mpirun …`.
fn launch(dir: &FreshDir, mpi: &str, id: &str, n: u32, options: &[&str], program: &Path, arguments: &[&str]) {
    let mut command = Command::new(IOTIDE);
    command.args(["record", "--live", "-q"]).args(options).arg("--").arg(format!("mpirun.{mpi}"));
    if mpi == "openmpi" {
        command
            .args(["--oversubscribe", "--quiet"])
            .envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")])
            .env("OMPI_MCA_mpi_yield_when_idle", "1");
    }
    command.args(["-n", &n.to_string()]).arg(program).args(arguments);
    command
        .current_dir(dir.path())
        .env_remove("LD_PRELOAD")
        .env("IOTIDE_LIVE", dir.join("pages"))
        .env("IOTIDE_JOB_ID", id)
        .env("IOTIDE_INCLUDE", dir.path())
        .stdin(Stdio::null());
    let app = format!("{}-{mpi}", arguments[0]);
    let output = command.env("IOTIDE_APP", app).output().unwrap();
    assert!(output.status.success(), "{mpi} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn models_of(dir: &FreshDir, app: &str, n_runs: usize, at: &str) -> Value {
    loop {
        let (_, body) = unix_get(dir, &format!("/api/1/models?app={app}&at={at}"));
        let models: Value = serde_json::from_str(&body).unwrap_or_default();
        if models["runs"].as_u64() == Some(n_runs as u64) {
            return models;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn there(models: &Value, callpath: &str, metric: &str) -> f64 {
    let all = models["models"].as_array().unwrap();
    let of = all.iter().find(|model| model["callpath"] == callpath && model["metric"] == metric);
    let of = of.unwrap_or_else(|| panic!("no {callpath} {metric} in {models}"));
    of["predictions"][0]["value"].as_f64().unwrap()
}

fn assert_near(value: f64, expected: f64) {
    assert!((value - expected).abs() <= 1e-6 * expected, "{value} instead of {expected}");
}

#[test]
fn a_loop_that_reads_by_a_shared_pointer_is_modelled_by_function() {
    let dir = FreshDir::new("serve-shared-read");
    let daemon = Daemon::start(&dir);
    for mpi in BOTH {
        let Some(program) = compile(&dir, mpi) else { continue };
        for n in SIZES {
            let id = format!("{mpi}-{n}");
            launch(&dir, mpi, &id, n, &[], &program, &["shared-read", &format!("{id}.dat")]);
            assert_eq!(daemon.job(&id, "ended")["size"], n, "ranks, not the launcher");
        }
        let models = models_of(&dir, &format!("shared-read-{mpi}"), SIZES.len(), "p=128");
        assert_near(there(&models, "mpi->MPI_File_read_shared", "hits"), 8.0 * 128.0);
        assert_near(there(&models, "mpi->MPI_File_read_shared", "size"), 8.0 * 128.0 * 4096.0);
        assert!(there(&models, "mpi->MPI_File_read_shared", "time") > 0.0);
    }
}

#[test]
fn a_loop_that_computes_while_it_writes_tells_what_it_needed_and_what_it_lost() {
    let dir = FreshDir::new("serve-asynchronous");
    let daemon = Daemon::start(&dir);
    for mpi in BOTH {
        let Some(program) = compile(&dir, mpi) else { continue };
        let mut traces = Vec::new();
        for n in SIZES {
            let (id, trace) = (format!("{mpi}-{n}"), format!("trace-{mpi}-{n}"));
            launch(&dir, mpi, &id, n, &["-o", &trace], &program, &["asynchronous", &format!("{id}.dat")]);
            daemon.job(&id, "ended");
            traces.push(trace);
        }
        let models = models_of(&dir, &format!("asynchronous-{mpi}"), SIZES.len(), "p=128");
        assert_near(there(&models, "mpi->MPI_File_iwrite_at", "hits"), 8.0 * 128.0);
        assert_near(there(&models, "mpi->MPI_File_iwrite_at", "size"), 8.0 * 128.0 * 262_144.0);
        assert!(there(&models, "mpi->MPI_Wait", "time") >= 0.0);

        let mut command = Command::new(IOTIDE);
        command
            .args(["model", "--from-traces"])
            .args(&traces)
            .args(["--at", "p=128", "--points", "--format", "json"]);
        let output = command.current_dir(dir.path()).output().unwrap();
        let models: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        assert_near(there(&models, "asynchronous->write", "bytes"), 8.0 * 128.0 * 262_144.0);
        // A rank gives each write 20 ms or more: it never needs more than so much, however it is held up.
        let all = models["models"].as_array().unwrap();
        let points = |metric: &str| -> Vec<f64> {
            let of = all.iter().find(|of| of["callpath"] == "asynchronous->write" && of["metric"] == metric);
            let of = of.unwrap_or_else(|| panic!("no {metric} in {models}"));
            of["points"].as_array().unwrap().iter().map(|point| point["mean"].as_f64().unwrap()).collect()
        };
        let required = points("required bandwidth (B/s)");
        assert_eq!(required.len(), SIZES.len());
        for (required_bps, n) in required.iter().zip(SIZES) {
            let most = f64::from(n) * 262_144.0 / 0.02;
            assert!(
                *required_bps > 0.0 && *required_bps <= 1.001 * most,
                "{mpi} {n}: {required_bps} of {most}"
            );
        }
        assert!(points("throughput (B/s)").iter().all(|bps| *bps > 0.0));
        assert!(points("time lost over processes (s)").iter().all(|lost_s| *lost_s >= 0.0));
    }
}

#[test]
fn computing_and_mpi_and_io_add_up_to_the_time_that_the_ranks_ran() {
    let dir = FreshDir::new("serve-adds-up");
    let daemon = Daemon::start(&dir);
    for mpi in BOTH {
        let Some(program) = compile(&dir, mpi) else { continue };
        let said = dir.join(format!("said-{mpi}"));
        // By a script that waits for it: that is no part of the program's time, nor is the launcher.
        let script = format!("{} \"$@\"; exit $?", program.display());
        let arguments = ["-c", &script, "mixed", "mixed", &format!("{mpi}.dat"), said.to_str().unwrap()];
        launch(&dir, mpi, mpi, 2, &[], Path::new("/bin/sh"), &arguments);
        let job = daemon.job(mpi, "ended");
        let lines = std::fs::read_to_string(said).unwrap();
        let sum = |word: &str| -> f64 {
            let values = lines.lines().map(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                words[words.iter().position(|known| *known == word).unwrap() + 1].parse::<f64>().unwrap()
            });
            values.sum()
        };
        let time = |part: &str| job["time"][part].as_f64().unwrap();
        let all_s = time("compute_s") + time("mpi_s") + time("io_s");
        let ran_s = sum("run");
        assert!((all_s - ran_s).abs() <= 0.02 * ran_s, "{mpi}: {all_s} of {ran_s} s\n{job:#}");
        assert!(time("compute_s") >= sum("computed"), "{mpi}: {lines}{job:#}");
        assert!(time("io_s") > 0.0 && time("mpi_s") > 0.0, "{job:#}");
        // What it says of its talk, it measured around the calls.
        let counted: f64 = ["MPI_Allreduce", "MPI_Barrier"]
            .iter()
            .map(|name| {
                let all = job["mpi"]["by_function"].as_array().unwrap();
                all.iter().find(|cell| cell["function"] == *name).unwrap()["seconds"].as_f64().unwrap()
            })
            .sum();
        assert!(counted <= 1.001 * sum("talked"), "{mpi}: {counted} s\n{lines}");
        let text = String::from_utf8(ask(&dir, &["job", mpi]).stdout).unwrap();
        assert!(text.contains("MPI_Allreduce"), "{text}");
    }
}

/// Input of ScaLAPACK's own test of its LU factorization, as Debian packages it for MPICH: a few seconds on two ranks.
const LU: &str = "'SCALAPACK, LU factorization input file'
'MPI Machine'
'LU.out'  output file name (if any)
7         device out
2         number of problems sizes
500 480   values of M
500 480   values of N
3         number of NB's
8 16 32   values of NB
2         number of NRHS's
1 9       values of NRHS
2         Number of NBRHS's
1 5       values of NBRHS
2         number of process grids (ordered pairs of P & Q)
1 2       values of P
2 1       values of Q
1.0       threshold
F         (T or F) Test Cond. Est. and Iter. Ref. Routines
";

#[test]
fn the_time_of_a_packaged_code_under_mpich_adds_up() {
    let Some(lu) = program("/usr/lib/x86_64-linux-gnu/scalapack/mpich-tests/xdlu") else { return };
    let dir = FreshDir::new("serve-scalapack");
    let daemon = Daemon::start(&dir);
    dir.write("LU.dat", LU);
    // How long each rank ran, a clock beside it says. Before its first call a rank is loaded and linked, which the clock sees and a page does not;
    // on a machine that is busy with something else that takes long, and then once more.
    let script = format!("a=$(date +%s%N); {}; b=$(date +%s%N); echo $((b - a)) >> ran", lu.display());
    let mut apart = Vec::new();
    let found = (0..3).find_map(|n| {
        let _ = std::fs::remove_file(dir.join("ran"));
        let id = format!("lu-{n}");
        launch(&dir, "mpich", &id, 2, &[], Path::new("/bin/sh"), &["-c", &script, "lu"]);
        let ran = std::fs::read_to_string(dir.join("ran")).unwrap();
        let ran_s: f64 = ran.lines().map(|ns| ns.parse::<f64>().unwrap() / 1e9).sum();
        let job = daemon.job(&id, "ended");
        let time = |part: &str| job["time"][part].as_f64().unwrap();
        let all_s = time("compute_s") + time("mpi_s") + time("io_s");
        assert!(all_s <= 1.02 * ran_s, "{all_s} of {ran_s} s\n{job:#}");
        apart.push((all_s, ran_s));
        (ran_s - all_s <= 0.02 * ran_s + 0.2).then_some((job, ran))
    });
    let (job, ran) = found.unwrap_or_else(|| panic!("seconds that are known, and all: {apart:?}"));
    let out = std::fs::read_to_string(dir.join("LU.out")).unwrap();
    assert!(out.contains("48 tests completed and passed"), "{out}");
    let time = |part: &str| job["time"][part].as_f64().unwrap();
    assert!(time("compute_s") > 0.0 && time("mpi_s") > 0.0 && time("io_s") > 0.0, "{job:#}");
    // Its results, and what the clock wrote.
    assert_eq!(job["io"]["bytes_written"], (out.len() + ran.len()) as u64, "{job:#}");
}
