//! How `iotide record` ends: as its program does, and after it.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use iotide_testkit::FreshDir;

fn record(directory: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotide"));
    command.arg("record").args(arguments).current_dir(directory);
    command.env_remove("LD_PRELOAD").env("IOTIDE_INCLUDE", directory);
    command
}

/// Starts a shell script under `iotide record` and returns once it has said "ready".
fn started(directory: &Path, script: &str) -> Child {
    let mut command = record(directory, &["-o", "trace", "--", "sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}

fn send(signal: &str, process: u32) {
    assert!(Command::new("kill").args(["-s", signal, &process.to_string()]).status().unwrap().success());
}

#[test]
fn signals_reach_the_program_and_its_end_is_waited_for() {
    for signal in ["TERM", "USR1", "HUP", "INT"] {
        let dir = FreshDir::new("record-signals");
        // What a program does that is told of the end of its time: it saves its work, and takes a while.
        let script = format!(
            "trap 'sleep 0.2; echo saved > checkpoint; exit 3' {signal}; echo ready; while :; do sleep 0.01; done"
        );
        let child = started(dir.path(), &script);
        send(signal, child.id());
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{signal}: {said}");
        assert_eq!(fs::read_to_string(dir.join("checkpoint")).unwrap(), "saved\n");
        assert!(said.contains("stdio") || said.contains("POSIX"), "the summary is there: {said}");
    }
}

#[test]
fn a_signal_that_ends_the_program_is_our_status() {
    let dir = FreshDir::new("record-ended");
    let mut child = started(dir.path(), "echo $$ > pid; echo ready; exec sleep 600");
    send("TERM", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
    let pid = fs::read_to_string(dir.join("pid")).unwrap();
    assert!(!PathBuf::from(format!("/proc/{}", pid.trim())).exists(), "nobody is left behind");
}

#[test]
fn what_was_ignored_stays_ignored() {
    let dir = FreshDir::new("record-nohup");
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_iotide")]);
    command.args(["record", "--", "sh", "-c", "kill -s HUP $$; kill -s HUP $PPID; echo alive"]);
    let output = command.current_dir(dir.path()).env_remove("LD_PRELOAD").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "alive\n");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_program_that_is_killed_before_it_did_anything_is_no_fault_of_the_trace() {
    for shell in ["bash", "sh"] {
        let dir = FreshDir::new("record-killed");
        let output = record(dir.path(), &["--", shell, "-c", "kill -9 $$"]).output().unwrap();
        assert_eq!(output.status.code(), Some(137), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Returns the messages of `iotide record` for a script.
fn said_of(name: &str, arguments: &[&str]) -> String {
    let dir = FreshDir::new(name);
    let output = record(dir.path(), arguments).env_remove("IOTIDE_INCLUDE").output().unwrap();
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn how_much_was_seen_and_what_it_cost_is_told() {
    let script = "dd if=/dev/zero of=a bs=64k count=100 status=none; cat a > b";
    let said = said_of("record-seen", &["--", "sh", "-c", script]);
    assert!(said.contains("coverage: 99 % of the ") || said.contains("coverage: 100 % of the "), "{said}");
    assert!(said.contains("  overhead: "), "{said}");
    assert!(!said.contains("lost"), "{said}");
    let said = said_of("record-excluded", &["--exclude", "*/b", "--", "sh", "-c", script]);
    assert!(said.contains("ignored: "), "{said}");
}

#[test]
fn a_process_that_outlives_the_program_is_still_running() {
    let script = "(exec >/dev/null 2>&1; echo x > a; exec 9>>a; while [ -e a ] && [ ! -e stop ]; do sleep 0.01; done) & while [ ! -s a ]; do sleep 0.01; done";
    let dir = FreshDir::new("record-running");
    let output = record(dir.path(), &["-o", "trace", "--", "sh", "-c", script]).output().unwrap();
    dir.write("stop", "");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("is still running") && !said.contains("terminated abnormally"), "{said}");
}

#[test]
fn a_program_with_address_sanitizer_starts() {
    let Some(gcc) = iotide_testkit::program("gcc") else { return };
    let dir = FreshDir::new("record-asan");
    let source = dir.write("p.c", "#include <stdio.h>\nint main(void) { FILE *f = fopen(\"a\", \"w\"); fputs(\"text\", f); return fclose(f); }\n");
    let compiled =
        Command::new(gcc).args(["-fsanitize=address", "-o"]).arg(dir.join("p")).arg(source).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let output = record(dir.path(), &["--", "./p"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("4 B written"), "{said}");
}

#[test]
fn the_ranks_of_torchrun_and_of_a_variable_of_ones_own_are_ranks() {
    for (options, script) in [
        (
            &["-o", "trace"][..],
            "for r in 0 1 2; do RANK=$r WORLD_SIZE=3 dd if=/dev/zero of=f$r bs=1k count=5 status=none; done",
        ),
        (
            &["-o", "trace", "--rank-from", "ME:ALL"],
            "for r in 0 1 2; do ME=$r ALL=3 dd if=/dev/zero of=f$r bs=1k count=5 status=none; done",
        ),
    ] {
        let dir = FreshDir::new("record-ranks");
        assert!(
            record(dir.path(), &[options, &["--", "sh", "-c", script]].concat()).status().unwrap().success()
        );
        let mut trace = iotide_trace::Trace::default();
        trace.info = iotide_formats::open(&dir.join("trace")).unwrap().read(&mut trace).unwrap();
        let writes = trace.events.iter().filter(|event| event.op == iotide_trace::Op::Write);
        let mut ranks: Vec<i32> = writes.map(|event| event.rank.0).collect();
        ranks.dedup();
        ranks.sort();
        ranks.dedup();
        assert_eq!(ranks, [0, 1, 2]);
        assert_eq!(trace.info.job.n_procs, Some(3));
    }
}

#[test]
fn a_listener_that_is_not_there_is_named_and_costs_nothing() {
    let dir = FreshDir::new("record-no-listener");
    let with = |address: &str| {
        let mut command = record(dir.path(), &["-o", "trace", "--stream", address, "--"]);
        command.args(["sh", "-c", "mkdir -p elsewhere; cd elsewhere; echo x > written"]).output().unwrap()
    };
    for (address, fault) in [("nowhere", "unix:PATH"), ("zmq:tcp://localhost:7", "ZeroMQ")] {
        let output = with(address);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{address}: {said}");
        assert!(said.contains(fault), "{said}");
        assert!(
            !dir.join("trace").exists() && !dir.join("elsewhere").exists(),
            "{address}: nothing was begun"
        );
    }
    let output = with("unix:socket");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let socket = dir.path().canonicalize().unwrap().join("socket");
    assert!(said.contains(&format!("nobody listens on unix:{}", socket.display())), "{said}");
    assert!(said.contains("2 B written"), "the trace is whole: {said}");
}

#[test]
fn a_trace_is_synced_once_its_program_has_ended() {
    let Some(strace) = iotide_testkit::program("strace") else { return };
    let dir = FreshDir::new("record-synced");
    let recorded = record(dir.path(), &["-o", "trace", "--", "sh", "-c", "echo x > result"]);
    let mut command = Command::new(strace);
    // -f: not needed, the recorder itself syncs; -y: with the names of descriptors.
    command.args(["-y", "-e", "trace=fsync,fdatasync,syncfs", "-o", "calls"]).arg(recorded.get_program());
    command.args(recorded.get_args()).current_dir(dir.path()).env("IOTIDE_INCLUDE", dir.path());
    assert!(command.status().unwrap().success());
    let calls = fs::read_to_string(dir.join("calls")).unwrap();
    let at = |ending: &str| calls.lines().position(|line| line.contains(&format!("{ending}>) = 0")));
    let (stream, folder) = (at(".iot"), at("/trace"));
    let parent = at(&dir.path().display().to_string());
    assert!(stream.is_some() && stream < folder && folder < parent, "{calls}");
}
