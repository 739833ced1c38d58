use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use iotide_testkit::{FreshDir, Missing, program, skip};
use iotide_wire::{Flags, NO_POSITION, Op, Payload, Record, Step, StreamHeader, next_block};

const IOTIDE: &str = env!("CARGO_BIN_EXE_iotide");
const CALLS: &str = include_str!("record_kernel/calls.c");
const RING: &str = include_str!("record_kernel/ring.c");
const BATCH: &str = include_str!("record_kernel/batch.c");
const DOOR: &str = include_str!("record_kernel/door.c");

/// A directory, if this machine lets us trace by the kernel; otherwise the test is skipped, loudly.
fn prepared(test: &str) -> Option<FreshDir> {
    let check = Command::new(IOTIDE).args(["record", "--kernel=check"]).output().unwrap();
    if !check.status.success() {
        skip(Missing::Data, "rights to trace by the kernel");
        return None;
    }
    Some(FreshDir::new(test))
}

/// Compiles a program; `None`, said loudly, without a compiler.
fn compiled(dir: &FreshDir, source: &str, flags: &[&str]) -> Option<()> {
    program("gcc")?;
    dir.write("program.c", source);
    let output = Command::new("gcc")
        .args(["-O1", "-w", "-o", "program", "program.c"])
        .args(flags)
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(())
}

/// `iotide` in the directory, whose own files are recorded though they lie in a place of the system.
fn iotide(dir: &FreshDir, arguments: &[&str]) -> Command {
    let mut command = Command::new(IOTIDE);
    command
        .args(arguments)
        .current_dir(dir.path())
        .env_remove("LD_PRELOAD")
        // Where the loader looks for libraries it opens files, which only the kernel sees.
        .env_remove("LD_LIBRARY_PATH")
        .env("IOTIDE_INCLUDE", dir.path());
    command
}

fn record(dir: &FreshDir, trace: &str, program: &[&str]) -> Output {
    let output =
        iotide(dir, &[&["record", "--kernel", "-o", trace, "--"], program].concat()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// A call as a stream has it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    op: Op,
    file: String,
    bytes: u64,
    position: u64,
    flags: Flags,
}

/// The calls of each process, in the order of their beginning, in a trace; the processes in the order of their first.
fn seen(trace: &Path) -> Vec<Vec<Seen>> {
    let mut processes = Vec::new();
    for entry in fs::read_dir(trace).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        let mut rest = &bytes[StreamHeader::SIZE..];
        let (mut names, mut records) = (BTreeMap::new(), Vec::<Record>::new());
        while let Step::Block { header, payload, used } = next_block(rest) {
            match Payload::of(&header, payload).unwrap() {
                Payload::Paths(paths) => {
                    for entry in paths {
                        names.insert(entry.file, String::from_utf8_lossy(entry.path).into_owned());
                    }
                }
                Payload::Records(bytes) => records.extend(Payload::records(bytes).flatten()),
                _ => {}
            }
            rest = &rest[used..];
        }
        assert!(rest.is_empty(), "{} bytes are no block", rest.len());
        records.sort_by_key(|record| record.start);
        let Some(first) = records.first().map(|record| record.start) else { continue };
        let name = |file: u32| names.get(&file).map_or("", |path| path.rsplit('/').next().unwrap());
        let calls = records.iter().map(|record| Seen {
            op: record.op(),
            file: name(record.file).to_owned(),
            bytes: record.bytes,
            position: record.position,
            flags: record.flags,
        });
        processes.push((first, calls.collect::<Vec<_>>()));
    }
    // Ticks of the preloaded tracer and nanoseconds are not compared with each other.
    processes.sort_by_key(|(first, _)| *first);
    processes.into_iter().map(|(_, calls)| calls).collect()
}

/// Calls and bytes of an operation on a file.
fn sum(processes: &[Vec<Seen>], op: Op, file: &str) -> (u64, u64) {
    let calls = processes.iter().flatten();
    let calls = calls.filter(|call| call.op == op && call.file == file && !call.flags.has(Flags::FAILED));
    calls.fold((0, 0), |(n, bytes), call| (n + 1, bytes + call.bytes))
}

#[track_caller]
fn all_calls_are_there(trace: &Path) {
    let seen = seen(trace);
    let rows = [
        (Op::Open, "a.dat", (2, 0)),
        (Op::Write, "a.dat", (1120, 1000 * 4096 + 100 * 1000 + 20 * 600)),
        (Op::Read, "a.dat", (64 + 50 + 1 + 2, 4_102_000 + 50 * 777 + 600 + 15_000)),
        (Op::Write, "b.dat", (2, 15_000)),
        (Op::Sync, "a.dat", (2, 0)),
        (Op::Seek, "a.dat", (2, 0)),
        (Op::Resize, "b.dat", (1, 0)),
        (Op::Rename, "b.dat", (1, 0)),
        (Op::Unlink, "c.dat", (1, 0)),
        (Op::Close, "a.dat", (2, 0)),
        (Op::Close, "b.dat", (1, 0)),
        (Op::Write, "child.dat", (7, 7 * 333)),
    ];
    for (op, file, expected) in rows {
        assert_eq!(sum(&seen, op, file), expected, "{op:?} {file}");
    }
}

#[test]
fn a_static_program_and_its_child_are_seen_to_the_byte() {
    let Some(dir) = prepared("kernel-static") else { return };
    let Some(()) = compiled(&dir, CALLS, &["-static"]) else { return };
    let output = record(&dir, "trace", &["./program", "."]);
    all_calls_are_there(&dir.join("trace"));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("2 processes") && !stderr.contains("lost:"), "{stderr}");
    let info = iotide(&dir, &["info", "trace"]).output().unwrap();
    assert!(
        String::from_utf8_lossy(&info.stdout).contains("program ."),
        "the command line is kept: {info:?}"
    );
}

#[test]
fn the_kernel_and_the_preloaded_tracer_have_equal_records() {
    let Some(dir) = prepared("kernel-equal") else { return };
    let Some(()) = compiled(&dir, CALLS, &[]) else { return };
    record(&dir, "kernel", &["./program", "."]);
    let preloaded = iotide(&dir, &["record", "-o", "preload", "--", "./program", "."]).output().unwrap();
    assert!(preloaded.status.success(), "{preloaded:?}");
    let (kernel, preload) = (seen(&dir.join("kernel")), seen(&dir.join("preload")));
    assert_eq!(kernel.len(), preload.len());
    for (kernel, preload) in kernel.iter().zip(&preload) {
        assert_eq!(kernel.len(), preload.len());
        for (mine, theirs) in kernel.iter().zip(preload) {
            assert_eq!(mine, theirs);
        }
    }
    assert!(kernel[0].iter().any(|call| call.flags.has(Flags::FAILED)), "a write that fails is there, too");
    assert!(kernel[0].iter().filter(|call| call.op == Op::Write).all(|call| call.position != NO_POSITION));
}

#[test]
fn strace_sees_the_same() {
    let Some(dir) = prepared("kernel-strace") else { return };
    let (Some(()), Some(_)) = (compiled(&dir, CALLS, &["-static"]), program("strace")) else { return };
    record(&dir, "trace", &["./program", "."]);
    let traced = Command::new("strace")
        .args([
            "-f",
            "-y",
            "-s0",
            "-o",
            "log",
            "-e",
            "trace=read,write,pread64,pwrite64,readv,writev,preadv,pwritev",
            "./program",
            ".",
        ])
        .current_dir(dir.path())
        .status();
    assert!(traced.unwrap().success());
    let log = fs::read_to_string(dir.join("log")).unwrap();
    let mut theirs = BTreeMap::<(bool, String), (u64, u64)>::new();
    for line in log.lines().filter(|line| line.contains(".dat>")) {
        let call = line.split_whitespace().nth(1).unwrap();
        let path = line.split(['<', '>']).nth(1).unwrap();
        let result = line.rsplit("= ").next().unwrap();
        let Ok(bytes) = result.parse::<u64>() else { continue };
        let file = path.rsplit('/').next().unwrap().to_owned();
        let sums = theirs.entry((call.contains("write"), file)).or_default();
        *sums = (sums.0 + 1, sums.1 + bytes);
    }
    assert_eq!(theirs.len(), 3, "{theirs:?}");
    let seen = seen(&dir.join("trace"));
    for ((is_write, file), expected) in theirs {
        let (op, copied) = if is_write { (Op::Write, (0, 0)) } else { (Op::Read, (2, 15_000)) };
        let (n, bytes) = sum(&seen, op, &file);
        assert_eq!((n - copied.0, bytes - copied.1), expected, "{op:?} {file}");
    }
}

#[test]
fn requests_of_an_io_uring_are_seen_with_their_places() {
    let Some(dir) = prepared("kernel-ring") else { return };
    let Some(()) = compiled(&dir, RING, &[]) else { return };
    record(&dir, "trace", &["./program", "file"]);
    let seen = seen(&dir.join("trace"));
    assert_eq!(sum(&seen, Op::Write, "file"), (64, 64 * 4096));
    assert_eq!(sum(&seen, Op::Read, "file"), (32, 32_000));
    assert!(
        seen.iter().flatten().filter(|call| call.op == Op::Read).all(|call| call.flags.has(Flags::ASYNC))
    );
    let mut places: Vec<_> =
        seen.iter().flatten().filter(|call| call.op == Op::Place).map(|call| call.position).collect();
    places.sort_unstable();
    let mut expected: Vec<_> = (0..64).map(|i| i * 4096).chain((0..32).map(|i| i * 1000)).collect();
    expected.sort_unstable();
    assert_eq!(places, expected);
}

#[test]
fn batches_of_libaio_are_seen_and_the_rest_of_long_ones_is_a_loss() {
    let Some(dir) = prepared("kernel-batch") else { return };
    let Some(()) = compiled(&dir, BATCH, &[]) else { return };
    for (n, n_lost) in [(1, 0), (32, 0), (528, 0), (600, 72)] {
        let trace = format!("trace{n}");
        let output = record(&dir, &trace, &["./program", "file", &n.to_string()]);
        let n_seen = n - n_lost;
        assert_eq!(sum(&seen(&dir.join(&trace)), Op::Write, "file"), (n_seen, 512 * n_seen), "{n}");
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(stderr.contains("libaio requests in batches"), n_lost > 0, "{stderr}");
    }
}

#[test]
fn calls_through_the_door_for_32_bits_are_a_loss() {
    let Some(dir) = prepared("kernel-door") else { return };
    let Some(()) = compiled(&dir, DOOR, &[]) else { return };
    let output = iotide(&dir, &["record", "--kernel", "--", "./program", "file"]).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    if output.status.code() != Some(0) {
        skip(Missing::Data, "door for programs of 32 bits in this kernel");
        return;
    }
    assert!(
        stderr.contains("lost: process")
            && stderr.contains("calls of 32-bit programs that moved data (5 records)"),
        "{stderr}"
    );
}

#[test]
fn fio_counts_the_same() {
    let Some(dir) = prepared("kernel-fio") else { return };
    let Some(_) = program("fio") else { return };
    let engines: [&[&str]; 6] = [
        &["--ioengine=psync"],
        &["--ioengine=pvsync2"],
        &["--ioengine=io_uring", "--iodepth=16"],
        &["--ioengine=io_uring", "--iodepth=8", "--fixedbufs=1", "--registerfiles=1", "--sqthread_poll=1"],
        &["--ioengine=libaio", "--iodepth=16"],
        &["--ioengine=libaio", "--iodepth=64", "--iodepth_batch=64", "--iodepth_batch_complete_min=32"],
    ];
    let common = [
        "--name=x",
        "--size=2m",
        "--bs=4k",
        "--rw=randrw",
        "--filename=data",
        "--output-format=json",
        "--output=told",
    ];
    // Laid out before: what fio writes to make the file is none of the run.
    dir.write("data", vec![7; 2 << 20]);
    for (i, engine) in engines.into_iter().enumerate() {
        let trace = format!("trace{i}");
        record(&dir, &trace, &[&["fio"], &common[..], engine].concat());
        let told = fs::read_to_string(dir.join("told")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&told[told.find('{').unwrap()..]).unwrap();
        let seen = seen(&dir.join(&trace));
        for (op, name) in [(Op::Read, "read"), (Op::Write, "write")] {
            let theirs = &json["jobs"][0][name];
            let expected = (theirs["total_ios"].as_u64().unwrap(), theirs["io_bytes"].as_u64().unwrap());
            assert!(expected.0 > 0);
            assert_eq!(sum(&seen, op, "data"), expected, "{engine:?} {name}");
        }
    }
}

#[test]
fn a_program_in_go_is_seen() {
    const SOURCE: &str = r#"package main
import ("fmt"; "os"; "sync")
func main() {
    var all sync.WaitGroup
    for i := 0; i < 4; i++ {
        all.Add(1)
        go func(i int) {
            defer all.Done()
            file, err := os.Create(fmt.Sprintf("out%d", i))
            if err != nil { panic(err) }
            data := make([]byte, 1000)
            for k := 0; k < 100*(i+1); k++ { file.Write(data) }
            file.Close()
        }(i)
    }
    all.Wait()
}
"#;
    let Some(dir) = prepared("kernel-go") else { return };
    let Some(_) = program("go") else { return };
    dir.write("main.go", SOURCE);
    let built = Command::new("go")
        .args(["build", "-o", "program", "main.go"])
        .current_dir(dir.path())
        .env("GOCACHE", Path::new(env!("CARGO_TARGET_TMPDIR")).join("go"))
        .env("GO111MODULE", "off")
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    record(&dir, "trace", &["./program"]);
    let seen = seen(&dir.join("trace"));
    for i in 0..4 {
        let n = 100 * (i + 1);
        assert_eq!(sum(&seen, Op::Write, &format!("out{i}")), (n, 1000 * n));
    }
}

#[test]
fn a_setuid_program_is_seen_and_so_is_one_in_namespaces_of_its_own() {
    let Some(dir) = prepared("kernel-rights") else { return };
    let Some(()) = compiled(&dir, CALLS, &["-static"]) else { return };
    let (Some(_), Some(_)) = (program("setpriv"), program("unshare")) else { return };
    let run = |line: &str| {
        assert!(Command::new("sh").args(["-c", line]).current_dir(dir.path()).status().unwrap().success())
    };
    run("mkdir out && chmod 777 out . && chown nobody program && chmod 4755 program");
    record(&dir, "setuid", &["setpriv", "--reuid=1000", "--clear-groups", "./program", "out"]);
    all_calls_are_there(&dir.join("setuid"));
    run("rm -r out && mkdir out && chown root program && chmod 755 program");
    record(&dir, "spaces", &["unshare", "-Urpf", "--mount-proc", "./program", "out"]);
    all_calls_are_there(&dir.join("spaces"));
}

#[test]
fn ranks_of_mpi_are_known_by_their_numbers() {
    let Some(dir) = prepared("kernel-mpi") else { return };
    if program("mpirun.openmpi").is_none() {
        return;
    }
    let script = "i=0; while [ $i -le $OMPI_COMM_WORLD_RANK ]; do printf 12345 >> out$OMPI_COMM_WORLD_RANK; i=$((i+1)); done";
    let launch = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n", "3", "sh", "-c", script];
    record(&dir, "trace", &launch);
    let seen = seen(&dir.join("trace"));
    for rank in 0..3 {
        assert_eq!(sum(&seen, Op::Write, &format!("out{rank}")), (rank + 1, 5 * (rank + 1)));
    }
    let info = iotide(&dir, &["info", "--format", "json", "trace"]).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap();
    assert_eq!(json["runs"][0]["source"]["n_ranks"], 3, "{json:#}");
}

#[test]
fn beside_the_library_each_byte_counts_once() {
    const STREAM: &str = r#"#include <stdio.h>
int main(void) {
    FILE *file = fopen("stream", "w");
    for (int i = 0; i < 10000; i++) fprintf(file, "%05d", i);
    return fclose(file);
}
"#;
    let Some(dir) = prepared("kernel-both") else { return };
    for (source, name, flags) in [
        (STREAM, "stream", &[][..]),
        (CALLS, "plain", &[]),
        (CALLS, "static", &["-static"]),
        (RING, "ring", &[]),
    ] {
        let Some(()) = compiled(&dir, source, flags) else { return };
        fs::rename(dir.join("program"), dir.join(format!("run-{name}"))).unwrap();
    }
    let script = "mkdir a b; ./run-stream; ./run-plain a; ./run-static b; ./run-ring requests";
    let arguments = ["record", "--kernel=both", "-o", "trace", "--", "sh", "-c", script];
    let output = iotide(&dir, &arguments).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && !stderr.contains("lost:"), "{stderr}");
    let info = iotide(&dir, &["info", "--format", "json", "trace"]).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap();
    let source = &json["runs"][0]["source"];
    let calls = (1000 * 4096 + 100 * 1000 + 20 * 600 + 15_000 + 7 * 333, 4_102_000 + 50 * 777 + 600 + 15_000);
    let written = 50_000 + 2 * calls.0 + 64 * 4096;
    assert_eq!(source["bytes_written"], written, "{json:#}");
    assert_eq!(source["bytes_read"], 2 * calls.1 + 32_000, "{json:#}");
    let functions = json["runs"][0]["functions"].as_array().unwrap();
    assert!(functions.iter().any(|function| function["layer"] == "stdio"), "{functions:#?}");
}

#[test]
fn a_job_that_runs_is_recorded_for_a_while_with_all_its_threads_and_children() {
    const SOURCE: &str = r#"#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
static char data[100];
static void *work(void *name) {
    char go;
    // The file is there before anybody looks.
    int file = open(name, O_CREAT | O_WRONLY | O_TRUNC, 0644);
    if (read(0, &go, 1) != 1) return 0;
    for (int i = 0; i < 500; i++) write(file, data, sizeof data);
    return 0;
}
int main(void) {
    pthread_t thread;
    pthread_create(&thread, 0, work, "thread");
    pid_t child = fork();
    work(child ? "first" : "child");
    if (!child) return 0;
    pthread_join(thread, 0);
    waitpid(child, 0, 0);
    return 0;
}
"#;
    let Some(dir) = prepared("kernel-job") else { return };
    let Some(()) = compiled(&dir, SOURCE, &["-static", "-pthread"]) else { return };
    let job = format!("job-{}", std::process::id());
    let mut program = Command::new("./program");
    program.current_dir(dir.path()).env("SLURM_JOB_ID", &job).stdin(Stdio::piped());
    let mut program = program.spawn().unwrap();
    while !["thread", "first", "child"].iter().all(|name| dir.join(name).exists()) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let mut recording = iotide(&dir, &["job", &job, "--trace", "1h"]).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(recording.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert_eq!(first, format!("iotide: recording 2 processes of job {job}"));
    program.stdin.take().unwrap().write_all(b"123").unwrap();
    assert!(program.wait().unwrap().success());
    // The job has ended: an hour is not waited for.
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(recording.wait().unwrap().success(), "{rest:?}");
    let seen = seen(&dir.join(format!("iotide-trace-{job}-1")));
    for name in ["thread", "first", "child"] {
        assert_eq!(sum(&seen, Op::Write, name), (500, 50_000), "{name}: {rest:?}");
    }
    assert!(!rest.iter().any(|line| line.contains("lost:")), "{rest:?}");
    let nobody = iotide(&dir, &["job", &job, "--trace", "1s"]).output().unwrap();
    assert_eq!(nobody.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&nobody.stderr).contains("no process of job"), "{nobody:?}");
}

/// Numbers of what a process holds in the kernel, by kind.
fn held(pid: u32) -> Vec<(&'static str, u32)> {
    let mut held = Vec::new();
    for entry in fs::read_dir(format!("/proc/{pid}/fdinfo")).into_iter().flatten().flatten() {
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        for kind in ["prog_id", "map_id", "link_id"] {
            let line = text.lines().find_map(|line| line.strip_prefix(kind)?.strip_prefix(':'));
            held.extend(line.and_then(|id| Some((kind, id.trim().parse().ok()?))));
        }
    }
    held
}

/// Whether the kernel still has it.
#[allow(unsafe_code)]
fn is_there(kind: &str, id: u32) -> bool {
    let command = match kind {
        "prog_id" => 13,
        "map_id" => 14,
        _ => 30,
    };
    let mut arguments = [0u64; 4];
    arguments[0] = u64::from(id);
    // SAFETY: asks for a descriptor by a number; it is closed at once.
    unsafe {
        let fd = libc::syscall(libc::SYS_bpf, command, arguments.as_ptr(), size_of_val(&arguments));
        if fd >= 0 {
            libc::close(fd as i32);
        }
        fd >= 0
    }
}

#[test]
fn nothing_is_left_in_the_kernel_after_a_kill() {
    let Some(dir) = prepared("kernel-kill") else { return };
    let mut child =
        iotide(&dir, &["record", "--kernel", "-o", "trace", "--", "sh", "-c", "echo ready; exec sleep 1000"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let held = held(child.id());
    for kind in ["prog_id", "map_id", "link_id"] {
        assert!(held.iter().any(|(of, id)| *of == kind && is_there(kind, *id)), "{kind} in {held:?}");
    }
    let sleeping = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    for pid in sleeping.split_whitespace() {
        assert!(Command::new("kill").arg(pid).status().unwrap().success());
    }
    let until = Instant::now() + Duration::from_secs(60);
    while held.iter().any(|(kind, id)| is_there(kind, *id)) {
        assert!(Instant::now() < until, "something of {held:?} is left");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn without_rights_it_is_said_which_are_missing_and_two_of_them_suffice() {
    let Some(dir) = prepared("kernel-capabilities") else { return };
    let Some(_) = program("setpriv") else { return };
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o777)).unwrap();
    let run = |arguments: &[&str]| {
        Command::new("setpriv")
            .args(arguments)
            .current_dir(dir.path())
            .env("IOTIDE_INCLUDE", dir.path())
            .output()
            .unwrap()
    };
    for arguments in [["record", "--kernel", "--", "true"], ["record", "--kernel=check", "", ""]] {
        let arguments: Vec<_> = arguments.into_iter().filter(|argument| !argument.is_empty()).collect();
        let output = run(&[&["--reuid=65534", "--clear-groups", IOTIDE], &arguments[..]].concat());
        assert!(!output.status.success());
        let told = [output.stdout, output.stderr].concat();
        let told = String::from_utf8_lossy(&told);
        assert!(told.contains("CAP_BPF and CAP_PERFMON"), "{told}");
    }
    // CAP_PERFMON, CAP_BPF.
    let rights =
        ["--inh-caps=+cap_38,+cap_39", "--ambient-caps=+cap_38,+cap_39", "--reuid=65534", "--clear-groups"];
    let recorded = run(&[
        &rights[..],
        &[IOTIDE, "record", "--kernel", "-o", "trace", "--", "sh", "-c", "printf 1234567 > file"],
    ]
    .concat());
    assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
    assert_eq!(sum(&seen(&dir.join("trace")), Op::Write, "file"), (1, 7));
    // A program that acts as another user: sizes, and no names.
    let Some(()) = compiled(&dir, CALLS, &["-static"]) else { return };
    fs::set_permissions(dir.join("program"), PermissionsExt::from_mode(0o4755)).unwrap();
    let recorded = run(&[
        &rights[..],
        &[IOTIDE, "record", "--kernel", "-o", "foreign", "--", "./program", "."],
    ]
    .concat());
    assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
    let seen = seen(&dir.join("foreign"));
    assert!(seen.iter().flatten().all(|call| call.file.is_empty()), "{seen:?}");
    assert_eq!(sum(&seen, Op::Write, "").0, 1120 + 2 + 7);
}

#[test]
fn without_the_description_of_the_kernels_types_that_is_said() {
    let Some(dir) = prepared("kernel-hidden") else { return };
    let Some(_) = program("unshare") else { return };
    for (hide, why) in [("/dev/null", "no BTF"), ("cut", "types are cut")] {
        dir.write("cut", &fs::read("/sys/kernel/btf/vmlinux").unwrap()[..100_000]);
        let script =
            format!("mount --bind {hide} /sys/kernel/btf/vmlinux && exec {IOTIDE} record --kernel -- true");
        let output = Command::new("unshare")
            .args(["-m", "sh", "-c", &script])
            .current_dir(dir.path())
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(
            stderr.contains("the kernel does not describe its types") && stderr.contains(why),
            "{stderr}"
        );
        assert!(stderr.contains("--kernel=check"), "{stderr}");
        assert!(!dir.join("iotide-trace").exists());
    }
}

#[test]
fn a_command_line_that_makes_no_sense_is_refused() {
    let dir = FreshDir::new("kernel-usage");
    for (arguments, why) in [
        (&["record", "--kernel"][..], "no program to record"),
        (&["record", "--kernel", "--live", "--", "true"], "cannot be used with"),
        (&["record", "--kernel=sometimes", "--", "true"], "invalid value"),
    ] {
        let output = iotide(&dir, arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains(why), "{output:?}");
    }
}

#[test]
fn the_programs_exit_status_is_ours() {
    let Some(dir) = prepared("kernel-status") else { return };
    for (script, code) in [("exit 7", 7), ("kill -9 $$", 137)] {
        let output =
            iotide(&dir, &["record", "--quiet", "--kernel", "--", "sh", "-c", script]).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
    }
    let output = iotide(&dir, &["record", "--kernel", "--", "./no-such-program"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot run ./no-such-program"), "{output:?}");
}
