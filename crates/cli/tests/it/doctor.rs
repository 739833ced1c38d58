use serde_json::Value;

use crate::util::Dir;

fn check<'a>(report: &'a Value, id: &str) -> &'a Value {
    let checks = report["checks"].as_array().unwrap();
    checks.iter().find(|check| check["id"] == id).unwrap_or_else(|| panic!("no {id}: {report:#}"))
}

#[test]
fn every_part_is_tried_and_what_is_missing_has_advice() {
    let dir = Dir::new();
    let report = dir.iotide(["doctor", "--format", "json"]).exits_with(0).json();
    for id in ["tracer", "clock", "space", "counters"] {
        assert_eq!(check(&report, id)["state"], "works", "{report:#}");
    }
    for absent in report["checks"].as_array().unwrap().iter().filter(|check| check["state"] == "absent") {
        assert!(absent["mend"].is_string(), "{absent:#}");
    }
    assert_eq!(check(&report, "daemon")["state"], "absent", "no daemon has this test's socket: {report:#}");
    let text = dir.iotide(["doctor"]).exits_with(0);
    assert!(text.stdout.contains("works   tracer"), "{}", text.stdout);
}

#[test]
fn a_tracer_that_cannot_be_loaded_is_found() {
    let dir = Dir::new();
    dir.write("libiotide.so", "no library at all");
    let mut command = dir.command(["doctor", "--format", "json"]);
    let output = command.env("IOTIDE_LIBRARY", dir.path().join("libiotide.so")).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(check(&report, "tracer")["state"], "broken", "{report:#}");
}

#[test]
fn a_program_is_the_same_under_the_tracer_unless_it_looks_for_it() {
    let dir = Dir::new();
    let harm = |script: &str, status: i32| {
        let args = ["doctor", "--format", "json", "--runs", "2", "--", "sh", "-c", script];
        dir.iotide(args).exits_with(status).json()["program"].clone()
    };
    let plain = harm("echo word > file; cat file; echo no >&2; exit 3", 0);
    assert_eq!((&plain["same_status"], &plain["same_output"]), (&true.into(), &true.into()), "{plain:#}");
    assert!(plain["n_events"].as_u64().unwrap() > 2);
    let by_itself = harm("echo word > file; echo $$", 0);
    assert!(by_itself["same_output"].is_null(), "its number is another each time: {by_itself:#}");
    let looks = harm("echo word > file; echo \"$LD_PRELOAD\"", 1);
    assert_eq!((&looks["same_status"], &looks["same_output"]), (&true.into(), &false.into()), "{looks:#}");
    let idle = harm("exit 0", 1);
    assert_eq!((&idle["is_unseen"], &idle["n_events"]), (&true.into(), &0.into()), "{idle:#}");
    let large = "import sys\nopen('file', 'w').write('word')\nall = bytearray(300_000_000)\nprint(len(all))";
    let args = ["doctor", "--format", "json", "--runs", "1", "--", "python3", "-c", large];
    let large = dir.iotide(args).exits_with(0).json()["program"].clone();
    for way in ["without_memory_bytes", "with_memory_bytes"] {
        assert!(
            large[way].as_u64().is_some_and(|bytes| (300_000_000..600_000_000).contains(&bytes)),
            "{large:#}"
        );
    }
    let missing = dir.iotide(["doctor", "--", "./no-such-program"]).exits_with(2).complaint();
    assert!(missing.contains("cannot run ./no-such-program"), "{missing}");
}
