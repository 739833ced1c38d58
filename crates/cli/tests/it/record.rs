use std::fs;
use std::path::Path;
use std::process::{Command, Output};

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
    assert!(stderr.contains("5 kB written") && stderr.contains("ended without a word"), "{stderr}");
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
