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
    assert!(only.stdout.starts_with("<root> · flat\n  5\n"), "{}", only.stdout);
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
        outcome.stdout.contains("2 · p\n")
            && outcome.stdout.contains("1 value is no number and was left out"),
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
        page.starts_with("<!DOCTYPE html>") && page.contains("2 · p") && !page.contains("http://localhost")
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

/// The lines that section 3.3 of ADMIRE deliverable 5.5 prints of NEK5000's profile, as they stand there.
const NEK5000: &str = r#"{"params": {"Processes": 36}, "callpath": "strace_size..->scall->pread64", "metric": "Size (B)", "value": 1868271840.0}
{"params": {"Processes": 72}, "callpath": "strace_size..->scall->pread64", "metric": "Size (B)", "value": 1868340384.0}
{"params": {"Processes": 1368}, "callpath": "strace_size..->scall->pread64", "metric": "Size (B)", "value": 1870807968.0}
{"params": {"Processes": 1404}, "callpath": "strace_size..->scall->pread64", "metric": "Size (B)", "value": 1870876512.0}
{"params": {"Processes": 36}, "callpath": "strace_time..->scall->pread64", "metric": "Time (s)", "value": 1.069}
{"params": {"Processes": 72}, "callpath": "strace_time..->scall->pread64", "metric": "Time (s)", "value": 0.918}
{"params": {"Processes": 1368}, "callpath": "strace_time..->scall->pread64", "metric": "Time (s)", "value": 1.092}
{"params": {"Processes": 1404}, "callpath": "strace_time..->scall->pread64", "metric": "Time (s)", "value": 1.097}
{"params": {"Processes": 36}, "callpath": "strace_hits..->scall->pread64", "metric": "Hits", "value": 384.0}
{"params": {"Processes": 72}, "callpath": "strace_hits..->scall->pread64", "metric": "Hits", "value": 738.0}
{"params": {"Processes": 1368}, "callpath": "strace_hits..->scall->pread64", "metric": "Hits", "value": 12672.0}
{"params": {"Processes": 1404}, "callpath": "strace_hits..->scall->pread64", "metric": "Hits", "value": 12960.0}
{"params": {"Processes": 36}, "callpath": "strace_size..->scall->pwrite64", "metric": "Size (B)", "value": 303548544.0}
{"params": {"Processes": 1404}, "callpath": "strace_hits..->scall->pwrite64", "metric": "Hits", "value": 3000.0}
{"params": {"Processes": 144}, "callpath": "tau size..->function->mpi send", "metric": "Size (B)", "value": 9922929351.0}
{"params": {"Processes": 1224}, "callpath": "tau_time..->function->mpi_send", "metric": "Time (s)", "value": 132.192}
"#;

#[test]
fn the_printed_lines_of_nek5000_are_modelled_as_far_as_they_go() {
    let dir = Dir::new();
    dir.write("nek5000.jsonl", NEK5000);
    let json = dir
        .iotide(["model", "nek5000.jsonl", "--at", "Processes=2808", "--format", "json"])
        .exits_with(0)
        .json();
    assert_eq!(json["models"].as_array().unwrap().len(), 7);
    // 1904 bytes more for every process: one header each.
    let size = model_of(&json, "strace_size..->scall->pread64", "Size (B)");
    assert_eq!(size["terms"][0]["factors"][0]["exponent"], "1");
    assert!((size["terms"][0]["coefficient"].as_f64().unwrap() - 1904.0).abs() < 1e-6, "{size}");
    let there = size["predictions"][0]["value"].as_f64().unwrap();
    assert!((there - (1_868_203_296.0 + 1904.0 * 2808.0)).abs() < 1.0, "{there}");
    // Calls grow about in proportion; four values carry no shape, and it says so.
    let hits = model_of(&json, "strace_hits..->scall->pread64", "Hits");
    let there = hits["predictions"][0]["value"].as_f64().unwrap();
    assert!((23_000.0..27_000.0).contains(&there), "{hits}");
    assert!(hits["predictions"][0]["cautions"][0].as_str().unwrap().contains("Processes"), "{hits}");
    // Time neither rises nor falls beyond its own scatter.
    let time = model_of(&json, "strace_time..->scall->pread64", "Time (s)");
    assert_eq!(time["terms"].as_array().unwrap().len(), 0, "{time}");
    // One value is a value, not a law: no interval.
    let once = model_of(&json, "strace_size..->scall->pwrite64", "Size (B)");
    assert_eq!(once["constant"], 303_548_544.0);
    assert!(once["predictions"][0]["interval"].is_null(), "{once}");
}

/// Section 3.4.2 for real: `ioskel.….15.100` on one to five processes, bursts of 64 KiB rather than 512 MiB.
#[test]
fn skeletons_that_ran_here_move_eight_bursts_out_and_seven_in_for_every_process() {
    let dir = Dir::new();
    for n in ["1", "2", "3", "4", "5"] {
        let log = format!("run{n}.csv");
        dir.iotide([
            "ioskel",
            "-p",
            "5ms",
            "-s",
            "64k",
            "-n",
            "15",
            "--turn-probability",
            "100%",
            "-j",
            n,
            "--transfer-size",
            "64k",
            "--log",
            &log,
        ])
        .exits_with(0);
    }
    let [a, b, c, d, e] = ["run1.csv", "run2.csv", "run3.csv", "run4.csv", "run5.csv"];
    let json = dir.iotide(["model", "--from-traces", a, b, c, d, e, "--format", "json"]).exits_with(0).json();
    for (callpath, bursts) in [("run->write", 8.0), ("run->read", 7.0)] {
        let model = model_of(&json, callpath, "bytes");
        assert_eq!(model["terms"][0]["factors"][0]["exponent"], "1", "{model}");
        let slope = model["terms"][0]["coefficient"].as_f64().unwrap();
        assert!((slope / (bursts * 65_536.0) - 1.0).abs() < 1e-9, "{model}");
        assert_eq!(model["constant"], 0.0);
    }
}

#[test]
fn values_that_are_odd_cost_no_more_than_they_must() {
    let dir = Dir::new();
    // Nothing but zeros is a constant, as it is for a call that is never made.
    dir.write("zero.csv", "p,t\n2,0\n4,0\n8,0\n16,0\n32,0\n");
    let zero = dir.iotide(["model", "zero.csv", "--at", "p=64"]).exits_with(0);
    assert!(zero.stdout.starts_with("<root> · t\n  0\n"), "{}", zero.stdout);
    // Squares of these leave the range of a float; the values do not.
    dir.write("huge.csv", "p,t\n2,2e300\n4,4e300\n8,8e300\n16,16e300\n32,32e300\n");
    let huge = dir.iotide(["model", "huge.csv"]).exits_with(0);
    assert!(huge.stdout.contains("1e+300 · p\n"), "{}", huge.stdout);
    // One value predicts itself and nothing about how sure that is.
    dir.write("one.csv", "p,t\n4,5\n");
    let one = dir.iotide(["model", "one.csv", "--at", "p=64"]).exits_with(0);
    assert!(one.stdout.contains("  at p=64: 5\n"), "{}", one.stdout);
    assert!(one.stdout.contains("p was measured at 1 value only"), "{}", one.stdout);
    // Below zero there are no sizes.
    let below = dir.iotide(["model", "zero.csv", "--at", "p=-1"]).exits_with(0);
    assert!(below.stdout.contains("p was always above zero"), "{}", below.stdout);
}

#[test]
fn questions_without_an_answer_are_told_apart_from_answers() {
    let dir = Dir::new();
    dir.write("m.csv", "p,t\n2,4\n4,8\n8,16\n16,32\n32,64\n");
    let none = dir.iotide(["model", "m.csv", "--metric", "u"]).exits_with(1);
    assert!(none.stderr.contains("no call path and metric"), "{}", none.stderr);
    let twice = dir.iotide(["model", "m.csv", "--at", "p=4,p=8"]).exits_with(2);
    assert!(twice.complaint().contains("p is there twice"), "{}", twice.stderr);
    let advice = dir.iotide(["model", "m.csv", "--advise", "--method", "extrap"]).exits_with(2);
    assert!(advice.complaint().contains("--advise"), "{}", advice.stderr);
    let settled = dir.iotide(["model", "m.csv", "--advise"]).exits_with(0);
    assert!(settled.stderr.contains("no further point"), "{}", settled.stderr);
}

#[test]
fn a_page_tells_what_was_left_out_too() {
    let dir = Dir::new();
    dir.write("m.csv", "p,t,u\n2,4,x\n4,8,x\nword,8,9\n8,16,x\n");
    dir.iotide(["model", "m.csv", "-o", "m.html"]).exits_with(0);
    let page = dir.read("m.html");
    assert!(page.contains("No model</h2>") && page.contains("no point has a usable value"), "{page}");
    assert!(page.contains("Left out</h2>") && page.contains("line 4: a parameter is no number"), "{page}");
}

/// Runs a script by the interpreter that Extra-P is installed for.
fn extra_p(script: &str, file: &std::path::Path) -> Option<String> {
    let extrap = iotide_testkit::program("extrap")?;
    let first = std::fs::read_to_string(extrap).unwrap();
    let python = first.lines().next().unwrap().strip_prefix("#!").unwrap().trim().to_owned();
    let answer = std::process::Command::new(python).arg("-c").arg(script).arg(file).output().unwrap();
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    Some(String::from_utf8(answer.stdout).unwrap())
}

const MEASURED: &str = "p,callpath,metric,value\n2,main,time,6\n2,main,time,6.2\n4,main,time,12\n8,main,time,24\n16,main,time,48\n32,main,time,96\n";

#[test]
fn extra_p_opens_the_experiment_and_the_points_that_are_written() {
    let dir = Dir::new();
    dir.write("m.csv", MEASURED);
    dir.iotide(["model", "m.csv", "-o", "m.extra-p", "--points", "m.jsonl"]).exits_with(0);
    let script = "import sys
from extrap.fileio.experiment_io import read_experiment
from extrap.fileio.file_reader.jsonlines_file_reader import read_jsonlines_file
from extrap.modelers.model_generator import ModelGenerator
path = sys.argv[1]
experiment = read_experiment(path) if path.endswith('.extra-p') else read_jsonlines_file(path)
generator = ModelGenerator(experiment)
generator.model_all()
for (callpath, metric), model in generator.models.items():
    print(callpath.name, metric.name, len(experiment.coordinates), model.hypothesis.function.evaluate(64) > 180)
";
    for file in ["m.extra-p", "m.jsonl"] {
        let Some(answer) = extra_p(script, &dir.path().join(file)) else { return };
        assert_eq!(answer.trim(), "main time 5 True", "{file}");
    }
    // And ours reads both as what they were.
    for file in ["m.extra-p", "m.jsonl"] {
        let again = dir.iotide(["model", file, "--print", "{callpath} {metric} {model}"]).exits_with(0);
        let first = dir.iotide(["model", "m.csv", "--print", "{callpath} {metric} {model}"]);
        assert_eq!(again.stdout, first.stdout);
    }
}

#[test]
fn points_are_shown_and_an_input_is_never_overwritten() {
    let dir = Dir::new();
    dir.write("m.csv", MEASURED);
    let shown = dir.iotide(["model", "m.csv", "--points"]).exits_with(0);
    assert!(shown.stdout.contains("measured at p=2: mean 6.1, median 6.1, 2 values"), "{}", shown.stdout);
    assert!(shown.stdout.contains(", RSS "), "{}", shown.stdout);
    dir.write("a.jsonl", "");
    let outcome = dir.iotide(["model", "m.csv", "--points", "a.jsonl"]).exits_with(2);
    assert!(outcome.complaint().contains("the file exists already"), "{}", outcome.complaint());
}

#[test]
fn two_points_say_that_they_cannot_tell() {
    let dir = Dir::new();
    dir.write("m.csv", "p,time\n4,10\n8,20\n");
    let outcome = dir.iotide(["model", "m.csv", "--at", "p=64"]).exits_with(0);
    assert!(outcome.stdout.contains("cannot tell how it changes with p"), "{}", outcome.stdout);
    assert!(
        !outcome.stdout.contains("probability") && !outcome.stdout.contains("between"),
        "{}",
        outcome.stdout
    );
}
