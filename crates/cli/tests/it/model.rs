use crate::util::Dir;

/// 4096 MiB written and 3584 MiB read by each process: 15 bursts of 512 MiB, every other one a read.
fn ioskel_profile() -> String {
    let sizes = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];
    let line = |size: f64, call: &str, bytes: f64| {
        format!(
            "{{\"params\":{{\"size\":{size}}},\"metric\":\"bytes\",\"callpath\":\"strace->{call}\",\"value\":{}}}\n",
            size * bytes
        )
    };
    sizes
        .iter()
        .map(|size| line(*size, "write", 4_294_967_296.0) + &line(*size, "read", 3_758_096_384.0))
        .collect()
}

#[test]
fn bytes_of_a_skeleton_grow_with_its_processes_by_what_each_moves() {
    let dir = Dir::new();
    dir.write("ioskel.jsonl", ioskel_profile());
    for method in ["auto", "extrap"] {
        let outcome = dir.iotide([
            "model",
            "ioskel.jsonl",
            "--method",
            method,
            "--at",
            "size=1024",
            "--format",
            "json",
        ]);
        assert_eq!(outcome.status, 0, "{}", outcome.stderr);
        let json: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        for (model, bytes) in
            json["models"].as_array().unwrap().iter().zip([4_294_967_296.0, 3_758_096_384.0])
        {
            let term = &model["terms"][0];
            assert_eq!(
                (&term["factors"][0]["exponent"], &term["factors"][0]["log_exponent"]),
                (&"1".into(), &"0".into())
            );
            assert!((term["coefficient"].as_f64().unwrap() / bytes - 1.0).abs() < 1e-6, "{model}");
            let there = model["predictions"][0]["value"].as_f64().unwrap();
            assert!((there / (1024.0 * bytes) - 1.0).abs() < 1e-6);
        }
    }
}

#[test]
fn what_will_hurt_comes_first() {
    let dir = Dir::new();
    dir.write("m.csv", "p,flat,steep,gentle\n2,5,4,2\n4,5,16,4\n8,5,64,8\n16,5,256,16\n32,5,1024,32\n");
    let outcome = dir.iotide(["model", "m.csv", "--at", "p=1024", "--rank-by", "growth", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    let order: Vec<&str> =
        json["models"].as_array().unwrap().iter().map(|model| model["metric"].as_str().unwrap()).collect();
    assert_eq!(order, ["steep", "gentle", "flat"]);
    let only = dir.iotide(["model", "m.csv", "--metric", "flat"]);
    assert!(only.stdout.starts_with("<root> · flat\n  5.0\n"), "{}", only.stdout);
}

#[test]
fn one_bad_value_costs_one_value_and_says_so() {
    let dir = Dir::new();
    let line =
        |p: u32, value: &str| format!("{{\"params\":{{\"p\":{p}}},\"metric\":\"t\",\"value\":{value}}}\n");
    let lines: String = [
        line(2, "4"),
        line(4, "8"),
        line(8, "NaN"),
        line(16, "32"),
        line(32, "64"),
        line(64, "128"),
        "{broken\n".into(),
    ]
    .concat();
    let outcome = dir.iotide_reading(&lines, ["model", "-"]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    assert!(
        outcome.stdout.contains("p^(1)") && outcome.stdout.contains("1 values are not numbers"),
        "{}",
        outcome.stdout
    );
    assert!(outcome.stdout.contains("left out: line 7: "), "{}", outcome.stdout);
}

#[test]
fn a_page_and_pictures_stand_alone() {
    let dir = Dir::new();
    dir.write("m.csv", "p,t\n2,4\n4,8\n8,16\n16,32\n32,64\n");
    let outcome = dir.iotide(["model", "m.csv", "-o", "m.html", "--svg", "pictures", "--at", "p=64"]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    let page = dir.read("m.html");
    assert!(
        page.starts_with("<!DOCTYPE html>") && page.contains("<svg") && !page.contains("http://localhost")
    );
    assert!(dir.read("pictures/000-root-t.svg").starts_with("<svg"));
}

#[test]
fn a_question_that_makes_no_sense_is_refused_with_a_reason() {
    let dir = Dir::new();
    dir.write("m.csv", "p,t\n2,4\n4,8\n");
    let at = dir.iotide(["model", "m.csv", "--at", "q=64"]);
    assert_eq!(at.status, 2);
    assert!(at.stderr.contains("there is no parameter \"q\", only p"), "{}", at.stderr);
    dir.write("no.txt", "hello");
    let no = dir.iotide(["model", "no.txt"]);
    assert_eq!(no.status, 2);
    assert!(no.stderr.contains("cannot read no.txt: this is no known form of measurements"), "{}", no.stderr);
}

/// One run of a skeleton: every process writes 8 MiB every `period` seconds, eight times, and reads them back in between.
fn skeleton_trace(n_processes: u32, period: f64) -> String {
    let mut rows =
        format!("# nprocs={n_processes}\n# runtime_s={}\nrank,op,start,end,bytes\n", 16.0 * period);
    for phase in 0..15 {
        let (op, start) = (if phase % 2 == 0 { "write" } else { "read" }, f64::from(phase) * period);
        for rank in 0..n_processes {
            rows += &format!("{rank},{op},{start},{},8388608\n", start + 0.25 * period);
        }
    }
    rows
}

fn model_of<'a>(json: &'a serde_json::Value, callpath: &str, metric: &str) -> &'a serde_json::Value {
    let models = json["models"].as_array().unwrap();
    models
        .iter()
        .find(|model| model["callpath"] == callpath && model["metric"] == metric)
        .unwrap_or_else(|| panic!("no model of {callpath} {metric}"))
}

#[test]
fn traces_at_several_sizes_are_measurements() {
    let dir = Dir::new();
    for (i, n) in [2, 4, 8, 16, 32].into_iter().enumerate() {
        // The larger the run, the longer its period: 2 s and a tenth of a second a process.
        dir.write(&format!("run{i}.csv"), skeleton_trace(n, 2.0 + 0.1 * f64::from(n)));
    }
    let json = dir
        .iotide([
            "model",
            "--from-traces",
            "run0.csv",
            "run1.csv",
            "run2.csv",
            "run3.csv",
            "run4.csv",
            "--at",
            "p=64",
            "--format",
            "json",
        ])
        .exits_with(0)
        .json();
    for (callpath, metric, there) in [
        ("run->write", "bytes", 64.0 * 8.0 * 8_388_608.0),
        ("run->read", "bytes", 64.0 * 7.0 * 8_388_608.0),
        ("unknown->write", "operations", 64.0 * 8.0),
        ("run", "time (s)", 16.0 * 8.4),
        ("run->phases", "period (s)", 2.0 * 8.4),
    ] {
        let value = model_of(&json, callpath, metric)["predictions"][0]["value"].as_f64().unwrap();
        assert!((value / there - 1.0).abs() < 0.02, "{callpath} {metric}: {value}, not {there}");
    }
    let term = &model_of(&json, "run->write", "bytes")["terms"][0];
    assert!((term["coefficient"].as_f64().unwrap() / (8.0 * 8_388_608.0) - 1.0).abs() < 1e-9, "{term}");
}

#[test]
fn a_table_tells_what_traces_do_not() {
    let dir = Dir::new();
    let mut table = "trace,size\n".to_owned();
    for size in [1, 2, 4, 8, 16] {
        let name = format!("s{size}.csv");
        dir.write(&name, format!("rank,op,start,end,bytes\n0,write,0,1,{}\n", size * size * 1000));
        table += &format!("{name},{size}\n");
    }
    dir.write("sizes.csv", table);
    dir.write("unnamed.csv", "rank,op,start,end,bytes\n0,write,0,1,5\n");
    let outcome = dir.iotide([
        "model",
        "--from-traces",
        "--parameters",
        "sizes.csv",
        "s1.csv",
        "s2.csv",
        "s4.csv",
        "s8.csv",
        "s16.csv",
        "unnamed.csv",
        "--metric",
        "bytes",
        "--callpath",
        "run->write",
        "--format",
        "json",
    ]);
    assert!(
        outcome.stderr.contains("unnamed.csv is left out: sizes.csv does not name it"),
        "{}",
        outcome.stderr
    );
    let json = outcome.exits_with(0).json();
    assert_eq!(model_of(&json, "run->write", "bytes")["terms"][0]["factors"][0]["exponent"], "2");
    dir.write("sizes.csv", "trace,size\ns1.csv,one\n");
    let outcome = dir.iotide(["model", "--from-traces", "--parameters", "sizes.csv", "s1.csv"]).exits_with(2);
    assert!(outcome.complaint().contains(r#"sizes.csv, line 2: "one" is no number"#), "{}", outcome.stderr);
}

#[test]
fn a_stored_set_grows_by_what_is_new_and_says_what_it_fitted() {
    let dir = Dir::new();
    dir.write("monday.csv", "p,a,b\n1,2,5\n2,4,5\n4,8,5\n8,16,5\n");
    dir.write("tuesday.csv", "p,a\n16,32\n32,64\n");
    let first = dir.iotide(["model", "--store", "app.models", "monday.csv"]).exits_with(0);
    assert!(first.stderr.contains("app.models: 2 of 2 metrics fitted"), "{}", first.stderr);
    let second = dir.iotide(["model", "--store", "app.models", "tuesday.csv"]).exits_with(0);
    assert!(second.stderr.contains("app.models: 1 of 2 metrics fitted"), "{}", second.stderr);
    let again = dir.iotide(["model", "--store", "app.models", "tuesday.csv"]).exits_with(0);
    assert!(again.stderr.contains("1 of the 1 inputs are in it already"), "{}", again.stderr);
    assert_eq!(again.stdout, second.stdout);

    // What is stored is what would have been fitted from everything at once.
    let told = dir
        .iotide(["model", "--store", "app.models", "--at", "p=64", "--format", "json"])
        .exits_with(0)
        .json();
    let at_once = dir
        .iotide(["model", "monday.csv", "tuesday.csv", "--at", "p=64", "--format", "json"])
        .exits_with(0)
        .json();
    assert_eq!(told["models"], at_once["models"]);

    let stored = std::fs::read(dir.path().join("app.models")).unwrap();
    dir.write("app.models", &stored[..stored.len() - 1]);
    let damaged = dir.iotide(["model", "--store", "app.models", "monday.csv"]).exits_with(2);
    assert!(damaged.complaint().contains("the stored set is damaged"), "{}", damaged.stderr);
    assert_eq!(std::fs::read(dir.path().join("app.models")).unwrap(), &stored[..stored.len() - 1]);
}

/// The profile of NEK5000 as a metric proxy writes it: lines of several call paths and metrics in any order.
#[test]
fn lines_of_a_metric_proxy_are_modelled_call_by_call() {
    let dir = Dir::new();
    let mut lines = String::new();
    for nodes in 1..=39 {
        let p = 36 * nodes;
        let line = |callpath: &str, metric: &str, value: f64| {
            format!(
                "{{\"params\": {{\"Processes\": {p}}}, \"callpath\": \"{callpath}\", \"metric\": \"{metric}\", \"value\": {value:?}}}\n"
            )
        };
        let processes = f64::from(p);
        lines += &line("strace_size..->scall->pread64", "Size (B)", 1_868_203_296.0 + 1904.0 * processes);
        lines += &line("strace_hits..->scall->pread64", "Hits", 60.0 + 9.0 * processes);
        lines += &line("strace_hits..->scall->pwrite64", "Hits", 3000.0);
    }
    dir.write("nek5000.jsonl", lines);
    let json = dir
        .iotide(["model", "nek5000.jsonl", "--at", "Processes=2808", "--format", "json"])
        .exits_with(0)
        .json();
    let at = |callpath: &str, metric: &str| {
        model_of(&json, callpath, metric)["predictions"][0]["value"].as_f64().unwrap()
    };
    let size = at("strace_size..->scall->pread64", "Size (B)");
    assert!((size / 1_873_549_728.0 - 1.0).abs() < 1e-6, "{size}");
    assert!((at("strace_hits..->scall->pread64", "Hits") / 25_332.0 - 1.0).abs() < 1e-6);
    assert_eq!(at("strace_hits..->scall->pwrite64", "Hits"), 3000.0);
}
