use crate::util::{Dir, Outcome};

pub const SYSTEM: &str = r#"{"storage": {"targets": [{"iops": 2000, "servers": 4, "bandwidth_bps": 1e9, "stream_bps": 3e8}, {"iops": 2000, "servers": 4, "bandwidth_bps": 1e9, "stream_bps": 3e8}]},
  "templates": [{"name": "checkpoint", "compute_s": 60, "compute_cv": 0.1, "processes": 16, "requests": 500, "request_bytes": 4e6},
                {"name": "<b>log\u001b[31m</b>", "compute_s": 5, "processes": 1, "requests": 20, "request_bytes": 65536}],
  "jobs": [{"template": "checkpoint", "count": 3}, {"template": "<b>log\u001b[31m</b>", "count": 2}], "frame_s": [0, 600]}"#;

fn asked(dir: &Dir, args: &[&str]) -> Outcome {
    Outcome::of(dir.command([]).args(args).output().unwrap())
}

fn json(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn the_state_of_a_system_is_told_and_what_a_change_does() {
    let dir = Dir::new();
    dir.write("system.json", SYSTEM);
    let args = [
        "simulate",
        "system",
        "system.json",
        "--repetitions",
        "20",
        "--add",
        "checkpoint=4@200",
        "--lose-target",
        "0@400",
    ];
    let told = dir.iotide(args).exits_with(0).stdout;
    assert!(
        told.contains("4 jobs of checkpoint more at 200 s") && told.contains("target 0 is lost at 400 s"),
        "{told}"
    );
    assert!(!told.contains('\u{1b}'), "a name steers no terminal");
    let answer = json(&asked(&dir, &[&args[..], &["--format", "json"]].concat()).exits_with(0).stdout);
    let system = &answer["system"];
    assert_eq!(system["state"].as_array().unwrap().len(), 100);
    let (before, after) = (&system["what_if"][1]["before"], &system["what_if"][1]["after"]);
    assert!(
        before["requests"]["mean"].as_f64() < after["requests"]["mean"].as_f64(),
        "half the storage, longer queues"
    );
    let band = &system["frame"]["bandwidth_total_bps"];
    let (low, mean, high) = (&band["interval"][0], &band["mean"], &band["interval"][1]);
    assert!(low.as_f64() < mean.as_f64() && mean.as_f64() < high.as_f64(), "{band}");
    assert!(system["jobs"][0]["slowdown"].as_f64().unwrap() > 1.0);
    assert!(system["saturation"]["knee_jobs"].as_f64().unwrap() > 3.0);
    let again = asked(&dir, &[&args[..], &["--format", "json"]].concat()).exits_with(0).stdout;
    assert_eq!(answer, json(&again), "a run is its inputs");
    asked(&dir, &[&args[..], &["-o", "page.html"]].concat()).exits_with(0);
    let page = std::fs::read_to_string(dir.path().join("page.html")).unwrap();
    assert!(page.contains("&lt;b&gt;log") && !page.contains("<b>log"), "a name is text");
    assert!(page.contains("Before and after"));
}

#[test]
fn how_many_jobs_storage_carries_is_told_with_what_limits_them() {
    let dir = Dir::new();
    dir.write("system.json", SYSTEM);
    let args = ["simulate", "system", "system.json", "--repetitions", "3", "--slowdown", "1.5"];
    for carry in ["--carry", "--carry=checkpoint"] {
        let asked_with =
            |rest: &[&str]| asked(&dir, &[&args[..], &[carry], rest].concat()).exits_with(0).stdout;
        let told = asked_with(&[]);
        assert!(told.contains("before a burst takes over 1.5 times as long as alone"), "{told}");
        assert!(told.contains("is the bottleneck: "), "{told}");
        assert!(!told.contains('\u{1b}'), "a name steers no terminal");
        let answer = asked_with(&["--format", "json"]);
        assert_eq!(answer, asked_with(&["--format", "json"]), "a run is its inputs");
        let carried = &json(&answer)["carry"];
        assert_eq!(carried["beside"], if carry == "--carry" { 0 } else { 5 });
        let jobs = carried["jobs"].as_u64().unwrap();
        let [from, to] = [0, 1].map(|end| carried["interval"][end].as_u64().unwrap());
        assert!(from <= jobs && jobs <= to && jobs > 0, "{carried}");
        let slowdown = |n: u64| {
            let steps = carried["steps"].as_array().unwrap();
            let step =
                steps.iter().find(|step| step["jobs"] == n).unwrap_or_else(|| panic!("{n}: {carried}"));
            assert_eq!(
                step["by_template"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum::<u64>(),
                n + carried["beside"].as_u64().unwrap()
            );
            step["slowdown"]["mean"].as_f64().unwrap()
        };
        assert!(slowdown(jobs) <= 1.5 && slowdown(jobs + 1) > 1.5 && slowdown(2 * jobs) > slowdown(jobs + 1));
        asked_with(&["-o", "page.html"]);
        let page = std::fs::read_to_string(dir.path().join("page.html")).unwrap();
        assert!(page.contains("What each number of jobs does to them") && !page.contains("<b>log"), "{page}");
    }
}

#[test]
fn three_methods_tell_of_one_system() {
    let dir = Dir::new();
    dir.write(
        "closed.json",
        r#"{"storage": {"targets": [{"iops": 50, "bandwidth_bps": 1e8}]}, "frame_s": [50, 4000], "jobs": [{"template": "a", "count": 2}],
            "templates": [{"name": "a", "processes": 20, "requests": null, "request_bytes": 1e6, "think_s": 1}]}"#,
    );
    let of = |method: &str| {
        let args = [
            "simulate",
            "system",
            "closed.json",
            "--method",
            method,
            "--repetitions",
            "2",
            "--format",
            "json",
        ];
        json(&dir.iotide(args).exits_with(0).stdout)["system"]["frame"]["iops"][0].as_f64().unwrap()
    };
    let (ssa, mva, mean_field) = (of("ssa"), of("mva"), of("mean-field"));
    assert!((ssa / mva - 1.0).abs() < 0.01, "{ssa} {mva}");
    assert!((mean_field / mva - 1.0).abs() < 0.25, "{mean_field} {mva}");
}

#[test]
fn what_cannot_be_simulated_is_said() {
    let dir = Dir::new();
    dir.write("system.json", SYSTEM);
    let says = |args: &[&str]| {
        let told = asked(&dir, &[&["simulate", "system"], args].concat()).exits_with(2);
        assert_eq!(told.stdout, "");
        told.stderr
    };
    assert!(says(&["system.json", "--lose-target", "7@5"]).contains("there is no target 7: they are 0 to 1"));
    assert!(says(&["system.json", "--add", "nobody=2@5"]).contains("there is no such template"));
    assert!(says(&["system.json", "--repetitions", "0"]).contains("--repetitions 0"));
    assert!(says(&["system.json", "--confidence", "1.5"]).contains("--confidence 1.5"));
    assert!(says(&["system.json", "--interval", "1e-9"]).contains("interval"));
    assert!(says(&["system.json", "--carry=nobody"]).contains("--carry=nobody: there is no such template"));
    assert!(says(&["system.json", "--carry", "--slowdown", "1"]).contains("--slowdown 1 is not above 1"));
    assert!(says(&["system.json", "--carry", "--method", "mean-field"]).contains("ssa and mva do"));
    assert!(
        says(&["system.json", "--carry", "--lose-target", "0@5"]).contains("take out arrivals and events")
    );
    dir.write("grows.json", r#"{"storage": {"targets": [{"iops": 10}]}, "templates": [{"name": "a", "requests": 1, "iterations": 1, "start": "io"}], "arrivals": [{"template": "a", "per_s": 12}]}"#);
    let said = says(&["grows.json"]);
    assert!(
        said.contains("grows.json: storage.targets[0].iops: 1.200") && said.contains("grows without bound"),
        "{said}"
    );
    dir.write("broken.json", r#"{"storage": {"targets": [{"iops": -1}]}}"#);
    assert!(
        says(&["broken.json"]).contains("broken.json: storage.targets[0].iops is -1, but must be positive")
    );
    assert!(says(&["missing.json"]).contains("missing.json"));
}

/// Three kinds of programs, each at four sizes: one that is weak in scaling, one that is strong, and one of other requests.
fn runs() -> String {
    let mut runs = Vec::new();
    for (program, compute_s, burst_bytes, request_bytes, weak) in
        [("weak", 60.0, 8e9, 4e6, true), ("strong", 400.0, 8e9, 4e6, false), ("small", 60.0, 8e9, 64e3, true)]
    {
        for processes in [16u64, 32, 64, 128] {
            let factor = processes as f64 / 64.0;
            let compute_s: f64 = if weak { compute_s } else { compute_s / factor };
            let bytes = if weak { burst_bytes * factor } else { burst_bytes };
            let (mut ops, mut moved) = (Vec::new(), Vec::new());
            for burst in 0..8 {
                // A little longer or shorter each time.
                let wait_s = compute_s * (1.0 + 0.03 * f64::from(burst % 3 - 1));
                let (gap, length) = (wait_s as usize, 4);
                ops.extend(std::iter::repeat_n(0.0, gap));
                moved.extend(std::iter::repeat_n(0.0, gap));
                ops.extend(std::iter::repeat_n(bytes / request_bytes / length as f64, length));
                moved.extend(std::iter::repeat_n(bytes / length as f64, length));
            }
            ops.push(0.0);
            moved.push(0.0);
            runs.push(serde_json::json!({"program": program, "processes": processes, "dt_s": 1.0, "ops": ops, "bytes": moved}));
        }
    }
    serde_json::json!({"p_ref": 64, "runs": runs}).to_string()
}

#[test]
fn runs_become_templates_and_templates_a_system() {
    let dir = Dir::new();
    dir.write("runs.json", runs());
    let cells: Vec<serde_json::Value> = [(1, 4e6, 60.0), (4, 4e6, 220.0), (16, 4e6, 250.0), (1, 64e3, 900.0), (16, 64e3, 9000.0)]
        .iter()
        .map(|(n, bytes, per_s)| serde_json::json!({"n": n, "request_bytes": bytes, "seconds": 10, "completions": per_s * 10.0}))
        .collect();
    dir.write("ladder.json", serde_json::json!({"cells": cells}).to_string());
    let told = dir.iotide(["templates", "runs.json", "--storage", "ladder.json"]).exits_with(0).stdout;
    assert!(told.starts_with("3 templates of 12 runs, at 64 processes"), "{told}");
    let args =
        ["templates", "runs.json", "--storage", "ladder.json", "--format", "json", "-o", "system.json"];
    dir.iotide(args).exits_with(0);
    let system = json(&std::fs::read_to_string(dir.path().join("system.json")).unwrap());
    let labels: Vec<u64> =
        system["runs"].as_array().unwrap().iter().map(|run| run["template"].as_u64().unwrap()).collect();
    assert_eq!(labels, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
    for (template, compute_s, request_bytes) in [(0, 60.0, 4e6), (1, 400.0, 4e6), (2, 60.0, 64e3)] {
        let found = &system["templates"][template];
        let near = |name: &str, wanted: f64, by: f64| {
            let value = found[name].as_f64().unwrap();
            assert!((value / wanted - 1.0).abs() < by, "{name} {value}, but {wanted} is wanted");
        };
        near("compute_s", compute_s, 0.03);
        near("burst_bytes", 8e9, 0.01);
        near("request_bytes", request_bytes, 1e-6);
    }
    let args = [
        "simulate",
        "system",
        "system.json",
        "--add",
        "template 0=2",
        "--repetitions",
        "3",
        "--format",
        "json",
    ];
    let answer = json(&dir.iotide(args).exits_with(0).stdout);
    assert!(answer["system"]["frame"]["bandwidth_bps"][0].as_f64().unwrap() > 0.0);
    // A trace is a run, too.
    let mut rows = String::from("# nprocs=4\nrank,op,start,end,bytes\n");
    for burst in 0..6 {
        let start = 20.0 * f64::from(burst);
        rows += &format!("0,write,{start},{},1000000\n", start + 2.0);
    }
    dir.write("run.csv", rows);
    let told = dir.iotide(["templates", "run.csv"]).exits_with(0).stdout;
    assert!(told.contains("computes 18 s") && told.contains("at least 500 kB/s"), "{told}");
}

#[test]
fn requests_that_overlap_in_a_trace_tell_of_the_storage() {
    // Streams of 200 MB/s, 800 MB/s in all; bursts by one, two, four and eight ranks.
    let mut rows = String::from("# nprocs=8\nrank,op,start,end,bytes\n");
    for burst in 0..8 {
        let n_ranks = [1, 2, 4, 8][burst % 4];
        let took_s = 1e6 / (8e8 / n_ranks as f64).min(2e8);
        for rank in 0..n_ranks {
            for request in 0..50 {
                // Out of step by as much as ranks are.
                let start = 10.0 * burst as f64 + (request as f64 + rank as f64 / n_ranks as f64) * took_s;
                rows += &format!("{rank},write,{start:.6},{:.6},1000000\n", start + took_s);
            }
        }
    }
    let dir = Dir::new();
    dir.write("run.csv", rows);
    let told = dir.iotide(["templates", "run.csv", "--format", "json"]).exits_with(0).stdout;
    let storage = &json(&told)["storage"];
    for (name, wanted) in [("bandwidth_bps", 8e8), ("stream_bps", 2e8)] {
        let found = storage[name].as_f64().unwrap();
        assert!((found / wanted - 1.0).abs() < 0.1, "{name} is {found}, but {wanted} is wanted: {storage}");
    }
    let told = dir.iotide(["templates", "run.csv"]).exits_with(0);
    assert!(told.stdout.contains("up to 8 requests in flight"), "{}", told.stdout);
    dir.write("system.json", dir.iotide(["templates", "run.csv", "--format", "json"]).exits_with(0).stdout);
    let args = [
        "simulate",
        "system",
        "system.json",
        "--add",
        "template 0=2",
        "--repetitions",
        "2",
        "--horizon",
        "60",
    ];
    dir.iotide(args).exits_with(0);
}

#[test]
fn a_ladder_is_measured_and_nothing_is_left_behind() {
    let dir = Dir::new();
    std::fs::create_dir(dir.path().join("here")).unwrap();
    let args = [
        "ladder",
        "here",
        "--seconds",
        "0.02",
        "--in-flight",
        "1,2,4",
        "--sizes",
        "4K,64K",
        "--most",
        "16M",
        "--room",
        "1M",
        "--format",
        "json",
        "-o",
        "ladder.json",
    ];
    dir.iotide(args).exits_with(0);
    assert_eq!(std::fs::read_dir(dir.path().join("here")).unwrap().count(), 0);
    let ladder = json(&std::fs::read_to_string(dir.path().join("ladder.json")).unwrap());
    assert_eq!(ladder["cells"].as_array().unwrap().len(), 6);
    assert!(ladder["cells"][0]["completions"].as_f64().unwrap() > 0.0);
    dir.write("runs.json", runs());
    dir.iotide(["templates", "runs.json", "--storage", "ladder.json"]).exits_with(0);
    assert!(dir.iotide(["ladder", "nowhere"]).exits_with(2).stderr.contains("cannot measure nowhere"));
    assert!(dir.iotide(["ladder", ".", "--sizes", "100"]).exits_with(2).stderr.contains("a multiple of 512"));
}

#[test]
fn the_jobs_that_a_daemon_sees_are_where_the_next_minutes_begin() {
    let dir = iotide_testkit::FreshDir::new("simulate-live");
    let daemon = crate::serve::Daemon::start(&dir);
    let cells = [(1, 60.0), (4, 220.0), (16, 250.0)]
        .map(|(n, per_s)| serde_json::json!({"n": n, "request_bytes": 4e6, "seconds": 10, "completions": per_s * 10.0}));
    let ladder = dir.write("ladder.json", serde_json::json!({"cells": cells}).to_string());
    let live = [
        "simulate",
        "system",
        "live",
        "--storage",
        ladder.to_str().unwrap(),
        "--repetitions",
        "2",
        "--format",
        "json",
    ];
    let idle = crate::serve::ask(&dir, &live);
    assert_eq!(idle.status.code(), Some(2), "nobody runs");
    assert!(String::from_utf8_lossy(&idle.stderr).contains("nobody is there"));
    let mut job = crate::serve::record(&dir, "live-1");
    job.args([crate::serve::IOTIDE, "ioskel", "-p", "0.5", "-s", "300000", "-n", "1000"]);
    let mut job = job.spawn().unwrap();
    daemon.job("live-1", "running");
    let answer = loop {
        let output = crate::serve::ask(&dir, &live);
        if output.status.success() {
            break json(&String::from_utf8_lossy(&output.stdout));
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    };
    // The same by the name of its socket, wherever the usual daemon is.
    let named = format!("daemon:{}", dir.join("socket").display());
    let mut again = std::process::Command::new(crate::serve::IOTIDE);
    let again = again.args(live.map(|word| if word == "live" { &named } else { word })).output().unwrap();
    let again = json(&String::from_utf8_lossy(&again.stdout));
    assert_eq!(again["system"]["jobs"][0]["template"], "live-1");
    crate::serve::kill_all(&mut job);
    assert_eq!(answer["system"]["jobs"][0]["template"], "live-1");
    assert_eq!(answer["workload"]["frame_s"], serde_json::json!([0.0, 600.0]));
    assert!(answer["system"]["frame"]["bandwidth_bps"][0].as_f64().unwrap() > 0.0, "{answer:#}");
    let unknown = crate::serve::ask(&dir, &["simulate", "system", "live"]);
    assert!(String::from_utf8_lossy(&unknown.stderr).contains("--storage LADDER"));
}

/// The adjusted Rand index is 1 if and only if both put the same runs together.
fn are_alike(a: &[u64], b: &[u64]) -> bool {
    a.len() == b.len() && (0..a.len()).all(|i| (0..i).all(|j| (a[i] == a[j]) == (b[i] == b[j])))
}

fn numbers(value: &serde_json::Value) -> Vec<f64> {
    value.as_array().map_or_else(
        || value.as_f64().into_iter().collect(),
        |list| list.iter().filter_map(|v| v.as_f64()).collect(),
    )
}

fn near(name: &str, found: &serde_json::Value, wanted: &serde_json::Value, by: f64) {
    let (found, wanted) = (numbers(found), numbers(wanted));
    assert_eq!(found.len(), wanted.len(), "{name}");
    for (found, wanted) in found.iter().zip(&wanted) {
        assert!((found / wanted - 1.0).abs() <= by, "{name}: {found}, but {wanted} is wanted");
    }
}

#[test]
fn the_shared_goldens_hold() {
    let Some(folder) = iotide_testkit::shared_data("system") else { return };
    let dir = Dir::new();
    let golden = json(&std::fs::read_to_string(folder.join("golden.json")).unwrap());
    for case in golden["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let by = case["rel_tol"].as_f64().unwrap_or(0.05);
        let run = |method: &str| {
            dir.write("workload.json", case["workload"].to_string());
            let repetitions = case["repetitions"].to_string();
            let args = [
                "simulate",
                "system",
                "workload.json",
                "--method",
                method,
                "--repetitions",
                &repetitions,
                "--format",
                "json",
            ];
            json(&asked(&dir, &args).exits_with(0).stdout)["system"].clone()
        };
        let input = || folder.join(case["input"].as_str().unwrap()).display().to_string();
        match case["kind"].as_str().unwrap() {
            "law" => {
                let (ssa, mva) = (run("ssa"), run("mva"));
                for (key, wanted) in case["expect"].as_object().unwrap() {
                    if key == "distribution_at_op" {
                        let found = numbers(&ssa["frame"][key]);
                        let apart: f64 = numbers(wanted).iter().zip(&found).map(|(a, b)| (a - b).abs()).sum();
                        assert!(apart / 2.0 <= 0.01, "{name}: {apart}");
                        continue;
                    }
                    near(&format!("{name} {key} ssa"), &ssa["frame"][key], wanted, by);
                    near(&format!("{name} {key} mva"), &mva["frame"][key], wanted, 1e-6);
                }
            }
            "what_if" => {
                let found = &run("ssa")["what_if"][0];
                for key in ["bandwidth_before_bps", "bandwidth_after_bps"] {
                    near(name, &found[key], &case["expect"][key], by);
                }
            }
            "templates" => {
                let answer =
                    json(&asked(&dir, &["templates", &input(), "--format", "json"]).exits_with(0).stdout);
                let found: Vec<u64> = answer["runs"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|run| run["template"].as_u64().unwrap())
                    .collect();
                let labels: Vec<u64> =
                    case["labels"].as_array().unwrap().iter().filter_map(|label| label.as_u64()).collect();
                assert!(are_alike(&found, &labels), "{name}: {found:?}");
                for (label, wanted) in case["templates"].as_array().unwrap().iter().enumerate() {
                    let first = labels.iter().position(|known| *known == label as u64).unwrap();
                    let template = &answer["templates"][found[first] as usize];
                    for (key, by) in case["rel_tol"].as_object().unwrap() {
                        near(&format!("{name} {key}"), &template[key], &wanted[key], by.as_f64().unwrap());
                    }
                }
            }
            "storage" => {
                dir.write("runs.json", runs());
                let args = ["templates", "runs.json", "--storage", &input(), "--format", "json"];
                let storage = json(&asked(&dir, &args).exits_with(0).stdout)["storage"].clone();
                for (key, by) in case["rel_tol"].as_object().unwrap() {
                    near(&format!("{name} {key}"), &storage[key], &case["truth"][key], by.as_f64().unwrap());
                }
            }
            // What GreatNector's own net would have: no question that is asked here.
            _ => {}
        }
    }
}

/// Whether a value, or each of a list, is what it should be.
fn assert_close(what: &str, is: &serde_json::Value, should: &serde_json::Value, rel_tol: f64) {
    if let Some(list) = should.as_array() {
        let pairs = list.iter().enumerate();
        return pairs.for_each(|(i, should)| assert_close(&format!("{what}[{i}]"), &is[i], should, rel_tol));
    }
    let (is, should) = (is.as_f64().unwrap_or_else(|| panic!("{what}: {is}")), should.as_f64().unwrap());
    // Shares of next to nothing are next to nothing.
    let is_close =
        (is - should).abs() <= rel_tol * should.abs() + 2e-3 * f64::from(what.contains("distribution"));
    assert!(is_close, "{what}: {is} instead of {should}");
}

/// Queueing theory, made runs and made ladders, all with a known truth that somebody else has worked out.
#[test]
fn systems_whose_truth_is_known_come_out_within_their_tolerance() {
    let Some(folder) = iotide_testkit::shared_data("system") else { return };
    let golden = json(&std::fs::read_to_string(folder.join("golden.json")).unwrap());
    let dir = Dir::new();
    let input = |case: &serde_json::Value| folder.join(case["input"].as_str().unwrap()).display().to_string();
    let any_runs =
        input(golden["cases"].as_array().unwrap().iter().find(|it| it["kind"] == "templates").unwrap());
    let told =
        |args: &[&str]| json(&asked(&dir, &[args, &["--format", "json"]].concat()).exits_with(0).stdout);
    let mut n_tried = 0;
    for case in golden["cases"].as_array().unwrap() {
        let name = case["name"].as_str().unwrap();
        let repetitions = case["repetitions"].to_string();
        let simulate = ["simulate", "system", "w.json", "--repetitions", &repetitions];
        dir.write("w.json", case["workload"].to_string());
        match case["kind"].as_str().unwrap() {
            "law" => {
                for method in ["ssa", "mva"] {
                    let answer = told(&[&simulate[..], &["--method", method]].concat());
                    for (what, should) in case["expect"].as_object().unwrap() {
                        // The closed form has means alone.
                        if (method, what.as_str()) != ("mva", "distribution_at_op") {
                            let rel_tol = case["rel_tol"].as_f64().unwrap();
                            assert_close(
                                &format!("{name}, {method}: {what}"),
                                &answer["system"]["frame"][what],
                                should,
                                rel_tol,
                            );
                        }
                    }
                }
            }
            "what_if" => {
                let what_if = &told(&simulate)["system"]["what_if"][0];
                for side in ["before", "after"] {
                    let should = &case["expect"][format!("bandwidth_{side}_bps")];
                    let rel_tol = case["rel_tol"].as_f64().unwrap();
                    assert_close(
                        &format!("{name}: {side}"),
                        &what_if[side]["bandwidth_bps"]["mean"],
                        should,
                        rel_tol,
                    );
                }
            }
            "templates" => {
                let answer = told(&["templates", &input(case)]);
                let labels: Vec<_> =
                    answer["runs"].as_array().unwrap().iter().map(|run| &run["template"]).collect();
                // The sets are far enough apart, and both count templates by their first run.
                assert_eq!(labels, case["labels"].as_array().unwrap().iter().collect::<Vec<_>>(), "{name}");
                for (i, truth) in case["templates"].as_array().unwrap().iter().enumerate() {
                    for (what, should) in truth.as_object().unwrap() {
                        let rel_tol = case["rel_tol"][what].as_f64().unwrap();
                        assert_close(
                            &format!("{name}, {i}: {what}"),
                            &answer["templates"][i][what],
                            should,
                            rel_tol,
                        );
                    }
                }
            }
            "storage" => {
                let answer = told(&["templates", &any_runs, "--storage", &input(case)]);
                for (what, rel_tol) in case["rel_tol"].as_object().unwrap() {
                    let (is, should) = (&answer["storage"][what], &case["truth"][what]);
                    assert_close(&format!("{name}: {what}"), is, should, rel_tol.as_f64().unwrap());
                }
            }
            _ => continue,
        }
        n_tried += 1;
    }
    assert!(n_tried >= 11, "{n_tried} cases");
}

#[test]
fn a_system_that_cannot_be_read_names_its_own_page() {
    let dir = Dir::new();
    for (text, fault) in [("{", "is not JSON"), (r#"{"nodes": 4}"#, "has an unknown field")] {
        dir.write("bad.json", text);
        let told = dir.iotide(["simulate", "system", "bad.json"]).exits_with(2);
        assert!(
            told.stderr.contains(fault) && told.stderr.contains("hint: docs/system.md says"),
            "{}",
            told.stderr
        );
    }
}
