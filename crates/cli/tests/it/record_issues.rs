use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles a program in a fresh directory; `None`, said loudly, without a compiler.
fn compile(test: &str, compiler: &str, source: &str, flags: &[&str]) -> Option<PathBuf> {
    iotide_testkit::program(compiler)?;
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("record_issues").join(test);
    let _ = fs::remove_dir_all(&directory);
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("program.c"), source).unwrap();
    let compiled = Command::new(compiler)
        .args(["-O1", "-o", "program", "program.c"])
        .args(flags)
        .current_dir(&directory)
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    Some(directory)
}

fn iotide(directory: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = Command::new(env!("CARGO_BIN_EXE_iotide"))
        .args(arguments)
        .current_dir(directory)
        .env_remove("LD_PRELOAD")
        .env("IOTIDE_INCLUDE", directory)
        .envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The issues of a trace, by id, with the files each one names; small ones count, too.
fn issues(directory: &Path, trace: &str) -> Vec<(String, Vec<String>)> {
    fs::write(directory.join("settings.toml"), "[issues]\nleast_calls = 50\nleast_share_of_io = 0\n")
        .unwrap();
    let report = iotide(directory, &["report", "--settings", "settings.toml", "--format", "json", trace]);
    let json: serde_json::Value = serde_json::from_slice(&report).unwrap();
    let found = json["runs"][0]["issues"].as_array().unwrap_or_else(|| panic!("{json}"));
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let name = |path: &serde_json::Value| text(path).rsplit('/').next().unwrap().to_owned();
    found
        .iter()
        .map(|issue| {
            let files = issue["files"].as_array().map(|files| files.iter().map(name).collect());
            (text(&issue["id"]), files.unwrap_or_default())
        })
        .collect()
}

const POSIX: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static char block[1 << 20];
int main(void) {
    int fd = open("scattered", O_RDWR | O_CREAT | O_TRUNC, 0644);
    // Backwards, at odd places, in small pieces; then all of it twice more.
    for (int round = 0; round < 3; round++)
        for (int i = 400; i > 0; i--) if (pwrite(fd, block, 3000, i * 3001L) != 3000) return 1;
    close(fd);
    // In order, through a stream.
    FILE *stream = fopen("stream", "w");
    for (int i = 0; i < 200; i++) if (fwrite(block, 1, 100000, stream) != 100000) return 2;
    fclose(stream);
    // Appended, opened each time: in order, and written once.
    for (int i = 0; i < 100; i++) {
        int log = open("log", O_WRONLY | O_CREAT | O_APPEND, 0644);
        if (write(log, block, 5000) != 5000) return 3;
        close(log);
    }
    return 0;
}
"#;

#[test]
fn ones_own_recording_gets_the_issues_of_a_darshan_log() {
    let Some(directory) = compile("posix", "gcc", POSIX, &[]) else { return };
    iotide(&directory, &["record", "-o", "trace", "--", "./program"]);
    let found = issues(&directory, "trace");
    let files_of = |rule: &str| {
        let issue = found.iter().find(|(name, _)| name == rule);
        issue.map(|(_, files)| files.clone()).unwrap_or_else(|| panic!("no {rule}: {found:?}"))
    };
    // Whether small or random writes cost anything depends on the storage: into a cache they may be as fast as large ones.
    assert!(files_of("redundant_writes").contains(&"scattered".to_owned()), "{found:?}");
    assert!(!files_of("redundant_writes").contains(&"log".to_owned()), "{found:?}");
    files_of("stdio_bulk");
    // Every function has its calls, bytes and time.
    let told = String::from_utf8(iotide(&directory, &["info", "trace"])).unwrap();
    assert!(told.contains("(posix): 1200 calls, 3.6 MB, "), "{told}");
    let info = iotide(&directory, &["info", "--format", "json", "trace"]);
    let info: serde_json::Value = serde_json::from_slice(&info).unwrap();
    let functions = info["runs"][0]["functions"].as_array().unwrap_or_else(|| panic!("{info}"));
    let sums = |layer: &str, name: &str| {
        let function = functions.iter().find(|known| {
            known["layer"] == layer && known["name"].as_str().unwrap().trim_end_matches("64") == name
        });
        let function = function.unwrap_or_else(|| panic!("no {name}: {functions:?}"));
        assert!(function["time_s"].as_f64().is_some_and(|time_s| time_s > 0.0), "{function}");
        (function["calls"].as_u64().unwrap(), function["bytes"].as_u64().unwrap())
    };
    assert_eq!(sums("posix", "pwrite"), (1200, 3_600_000));
    assert_eq!(sums("stdio", "fwrite"), (200, 20_000_000));
    // What was found is still found in a native trace.
    iotide(&directory, &["convert", "trace", "--to", "native", "-o", "trace.iot"]);
    assert_eq!(issues(&directory, "trace.iot"), found);
}

const MPI: &str = r#"
#include <mpi.h>
#include <stdlib.h>
static char block[1 << 16];
int main(int argc, char **argv) {
    int rank, n, together = argc > 1;
    MPI_File file;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    MPI_File_open(MPI_COMM_WORLD, "shared", MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
    for (int i = 99; i >= 0; i--) {
        MPI_Offset at = ((MPI_Offset)i * n + rank) * 5000;
        if (together) MPI_File_write_at_all(file, at, block, 5000, MPI_BYTE, MPI_STATUS_IGNORE);
        else MPI_File_write_at(file, at, block, 5000, MPI_BYTE, MPI_STATUS_IGNORE);
    }
    MPI_File_close(&file);
    MPI_Finalize();
    return 0;
}
"#;

#[test]
fn a_recording_of_mpi_io_tells_what_ranks_do_alone_and_names_the_calls() {
    let Some(directory) = compile("mpi", "mpicc.openmpi", MPI, &[]) else { return };
    let launch = ["mpirun.openmpi", "--oversubscribe", "--quiet", "-n"];
    for (trace, n, together) in [("alone", "2", false), ("together", "2", true), ("four", "4", false)] {
        let mut arguments = vec!["record", "-o", trace, "--"];
        arguments.extend(launch);
        arguments.extend([n, "./program"]);
        arguments.extend(together.then_some("together"));
        iotide(&directory, &arguments);
    }
    let rules = |trace: &str| -> Vec<String> {
        issues(&directory, trace).into_iter().map(|(rule, _)| rule).collect()
    };
    let alone = rules("alone");
    for rule in ["missing_collectives", "small_writes"] {
        assert!(alone.iter().any(|known| known == rule), "{rule}: {alone:?}");
    }
    let together = rules("together");
    assert!(together.iter().all(|known| known != "missing_collectives"), "{together:?}");
    // Each function is measured by its own name.
    let model = |by: &[&str]| -> serde_json::Value {
        let arguments = [&["model", "--from-traces", "alone", "four", "--format", "json"], by].concat();
        serde_json::from_slice(&iotide(&directory, &arguments)).unwrap()
    };
    let json = model(&["--by", "function"]);
    let has = |json: &serde_json::Value, callpath: &str, metric: &str| {
        let models = json["models"].as_array().unwrap_or_else(|| panic!("{json}"));
        models.iter().any(|model| model["callpath"] == callpath && model["metric"] == metric)
    };
    for metric in ["bytes", "operations", "time over processes (s)"] {
        assert!(has(&json, "mpi-io->MPI_File_write_at", metric), "{metric}: {json}");
    }
    assert!(has(&json, "mpi-io->MPI_File_open", "operations"), "{json}");
    assert!(!has(&json, "mpi-io->write", "bytes"), "{json}");
    assert!(has(&model(&[]), "mpi-io->write", "bytes"));
}

#[test]
fn the_header_is_written_where_one_asks_and_compiles() {
    let source = "#include <iotide.h>\nint main(void) { iotide_flush(); return iotide_is_tracing(); }\n";
    let Some(directory) = compile("header", "gcc", "int main(void) { return 0; }", &[]) else { return };
    let said = iotide(&directory, &["record", "--header", "include"]);
    assert_eq!(String::from_utf8_lossy(&said), "include/iotide.h\n");
    fs::write(directory.join("program.c"), source).unwrap();
    for (compiler, flags) in
        [("gcc", ["-std=c99", "-Wall", "-Werror"]), ("g++", ["-xc++", "-Wall", "-Werror"])]
    {
        if iotide_testkit::program(compiler).is_none() {
            continue;
        }
        let compiled = Command::new(compiler)
            .args(flags)
            .args(["-Iinclude", "-o", "program", "program.c"])
            .current_dir(&directory)
            .output()
            .unwrap();
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        assert_eq!(Command::new(directory.join("program")).status().unwrap().code(), Some(0));
        let mut record = Command::new(env!("CARGO_BIN_EXE_iotide"));
        let traced =
            record.args(["record", "-q", "--", "./program"]).current_dir(&directory).status().unwrap();
        assert_eq!(traced.code(), Some(1), "the tracer is there");
    }
}
