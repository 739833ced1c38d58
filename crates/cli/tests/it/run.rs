//! `iotide run`: record and report in one command.

use std::process::Command;

use crate::util::Dir;

/// Runs a program under `iotide run`; returns its exit status and what is printed beside it.
fn run(dir: &Dir, line: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotide"));
    command.arg("run").args(line).current_dir(dir.path()).env_remove("LD_PRELOAD");
    let output = command.output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_program_is_recorded_answered_and_shown_as_a_page_and_ends_as_it_did() {
    let dir = Dir::new();
    let script =
        "for n in 1 2 3 4 5 6; do dd if=/dev/zero of=out bs=1M count=8 status=none; sleep 0.2; done; exit 3";
    let (status, said) = run(&dir, &["--", "sh", "-c", script]);
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("period") && said.contains("open iotide-trace.html in a browser"), "{said}");
    assert!(
        said.ends_with(
            "  next: iotide report iotide-trace (a page), iotide detect iotide-trace (its rhythm)\n"
        ),
        "{said}"
    );
    let page = std::fs::read_to_string(dir.path().join("iotide-trace.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("period"));
    let (status, said) =
        run(&dir, &["-o", "t", "--page", "p.html", "--", "dd", "if=/dev/zero", "of=out", "count=1"]);
    assert!(status == Some(0) && dir.path().join("p.html").exists(), "{said}");
}

#[test]
fn a_program_without_io_has_no_page() {
    let dir = Dir::new();
    let (status, said) = run(&dir, &["--", "true"]);
    assert!(status == Some(0) && said.contains("no I/O was seen") && !said.contains("browser"), "{said}");
}
