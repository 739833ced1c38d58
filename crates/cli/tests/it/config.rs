//! `iotide config`, and what settings change elsewhere.

use crate::util::{Dir, bursts};

/// A directory with settings, and a command that reads them.
fn with_settings(settings: &str) -> Dir {
    let dir = Dir::new();
    std::fs::create_dir_all(dir.path().join("home/iotide")).unwrap();
    dir.write("home/iotide/config.toml", settings);
    dir.write("run.csv", bursts("write"));
    dir
}

fn iotide<const N: usize>(dir: &Dir, args: [&str; N]) -> crate::util::Outcome {
    let mut command = dir.command(args);
    command.env_remove("IOTIDE_CONFIG").env("XDG_CONFIG_HOME", dir.path().join("home"));
    crate::util::Outcome::of(command.output().unwrap())
}

#[test]
fn a_setting_holds_and_says_where_it_comes_from() {
    let dir = with_settings("units = \"iec\"\n");
    let told = iotide(&dir, ["detect", "run.csv"]).exits_with(0).stdout;
    assert!(told.contains("976.6 KiB") || told.contains("977 KiB"), "{told}");
    let settings = iotide(&dir, ["config", "--quiet", "--format", "json"]).exits_with(0).json();
    let of = |name: &str| {
        let rows = settings["settings"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == name).unwrap().clone()
    };
    assert_eq!((of("units")["value"].as_str(), of("units")["source"].as_str()), (Some("iec"), Some("file")));
    assert!(of("units")["place"].as_str().unwrap().ends_with("home/iotide/config.toml"));
    assert_eq!(of("quiet")["source"], "option");
    assert_eq!(of("colour")["source"], "default");
    let told = iotide(&dir, ["config"]).exits_with(0).stdout;
    assert!(told.contains("setting") && told.contains("colour       auto"), "{told}");
}

#[test]
fn a_mistake_ends_a_question_but_no_program_that_is_recorded() {
    let dir = with_settings("quiet = true\nunits = \"IEC\"\n");
    let complaint = iotide(&dir, ["detect", "run.csv"]).exits_with(2).complaint();
    assert!(complaint.contains("config.toml, line 2: units: expected \"si\" or \"iec\""), "{complaint}");
    assert!(complaint.contains("hint: `iotide config --example`"), "{complaint}");
    let recorded = iotide(&dir, ["record", "--", "/bin/sh", "-c", "echo ran; exit 3"]).exits_with(3);
    assert_eq!(recorded.stdout, "ran\n");
    // What else the file says holds.
    assert!(recorded.stderr.contains("line 2") && !recorded.stderr.contains("no I/O"), "{}", recorded.stderr);
    iotide(&dir, ["config", "--example"]).exits_with(0);
}

#[test]
fn quiet_leaves_results_and_errors() {
    let dir = Dir::new();
    dir.write("run.csv", bursts("write"));
    let quiet = dir.iotide(["report", "run.csv", "-q"]).exits_with(0);
    assert_eq!((quiet.stdout.as_str(), quiet.stderr.as_str()), ("", ""));
    assert!(dir.iotide(["--quiet", "detect", "none.csv"]).exits_with(2).stderr.contains("No such file"));
    assert!(dir.iotide(["report", "run.csv"]).exits_with(0).stderr.contains("open report.html in a browser"));
}
