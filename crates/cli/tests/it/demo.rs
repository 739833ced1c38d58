use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use iotide_testkit::FreshDir;

fn demo(dir: &FreshDir, args: &[&str]) -> Output {
    let temp = dir.join("temp");
    fs::create_dir(&temp).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotide"));
    command.arg("demo").args(args).env("TMPDIR", &temp).current_dir(dir.path()).output().unwrap()
}

#[test]
fn the_true_and_the_found_period_agree_and_only_the_page_is_left() {
    let dir = FreshDir::new("demo");
    let output = demo(&dir, &["--period", "200ms", "--bursts", "12", "-o", "page.html"]);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{out}{err}");
    let period = |name: &str| -> f64 {
        let line =
            out.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in {out}"));
        line[name.len()..].split_whitespace().next().unwrap().parse().unwrap()
    };
    let (truth_s, found_s) = (period("true period"), period("found period"));
    assert!((found_s - truth_s).abs() < 0.05 * truth_s, "{out}");
    assert!(err.contains("what the tracer recorded"), "{err}");
    // Two processes write 8 MiB in each burst.
    let live = out.lines().find(|line| line.starts_with("seen live")).unwrap_or_else(|| panic!("{out}"));
    let bytes = 12 * 2 * (8 << 20);
    assert!(live.contains(&format!("{bytes} bytes in the end, exactly what it counted itself")), "{live}");
    let before = live.split_whitespace().nth(2).unwrap();
    assert!(before.parse::<f64>().unwrap() > 0.0, "{live}");
    let page = fs::read_to_string(dir.join("page.html")).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("<svg"), "{}", &page[..200]);
    assert!(out.contains("page.html"), "{out}");
    assert_eq!(dir.names(), ["page.html", "temp"]);
    assert_eq!(fs::read_dir(dir.join("temp")).unwrap().count(), 0);
}

#[test]
fn a_page_that_cannot_be_written_is_known_before_the_run() {
    let dir = FreshDir::new("demo");
    let output = demo(&dir, &["--period", "60", "-o", "nowhere/page.html"]);
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("cannot write nowhere/page.html") && err.contains("hint: "), "{err}");
    assert_eq!(fs::read_dir(dir.join("temp")).unwrap().count(), 0);
}

#[test]
fn ctrl_c_leaves_nothing_behind() {
    let dir = FreshDir::new("demo-interrupted");
    let temp = dir.join("temp");
    fs::create_dir(&temp).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotide"));
    command.args(["demo", "--period", "60", "-o", "page.html"]).env("TMPDIR", &temp);
    let mut running = command.current_dir(dir.path()).stderr(Stdio::piped()).spawn().unwrap();
    // The processes of the workload have a folder in that of the demo, beside the daemon's socket.
    let is_under_way = || {
        let names = |path: &Path| fs::read_dir(path).map_or(Vec::new(), |all| all.flatten().collect());
        names(&temp).iter().flat_map(|entry| names(&entry.path())).any(|entry| {
            entry.file_name().to_string_lossy().starts_with("ioskel-") && names(&entry.path()).len() == 2
        })
    };
    while !is_under_way() {
        assert!(running.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(Duration::from_millis(20));
    }
    let pid = running.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let ended = running.wait_with_output().unwrap();
    let err = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(2) && err.contains("interrupted"), "{err}");
    assert_eq!(fs::read_dir(&temp).unwrap().count(), 0);
    assert_eq!(dir.names(), ["temp"]);
    assert!(fs::read_dir("/proc").unwrap().flatten().all(|process| {
        let command = fs::read(process.path().join("cmdline")).unwrap_or_default();
        !String::from_utf8_lossy(&command).contains(&*temp.to_string_lossy())
    }));
}

#[test]
fn without_the_tracer_the_log_will_do() {
    let dir = FreshDir::new("demo");
    let mut command = Command::new(env!("CARGO_BIN_EXE_iotide"));
    command.args(["demo", "--period", "100ms", "--bursts", "8", "-o", "page.html"]);
    let output = command.env("IOTIDE_LIBRARY", dir.join("none.so")).current_dir(dir.path()).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_ne!(output.status.code(), Some(2), "{err}");
    assert!(err.contains("their own log") && err.contains("none.so"), "{err}");
    assert!(dir.join("page.html").exists());
}
