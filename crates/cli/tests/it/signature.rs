use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::util::Dir;

/// The application of these tests: five bursts of 20 s and 40 GB, one every 60 s, in runs of 300 s.
const RUN_S: usize = 300;

fn own_bps(at_s: usize) -> f64 {
    if at_s < RUN_S && at_s % 60 >= 20 && at_s % 60 < 40 { 2e9 } else { 0.0 }
}

/// Numbers that look like noise, the same in every run of the tests.
fn noise(seed: usize) -> f64 {
    let mut z = (seed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (z >> 40) as f64 / (1u64 << 24) as f64
}

/// One run as a table: the application, a little of everybody, and one burst of somebody else.
fn sample(seed: usize) -> String {
    let foreign_from = (noise(seed) * 280.0) as usize;
    let mut table = String::from("time,bandwidth\n");
    for at_s in (0..=RUN_S).step_by(2) {
        let foreign = if (foreign_from..foreign_from + 12).contains(&at_s) { 1.5e9 } else { 0.0 };
        let bandwidth =
            if at_s == RUN_S { 0.0 } else { own_bps(at_s) + foreign + 1e8 * noise(1000 * seed + at_s) };
        writeln!(table, "{at_s},{bandwidth:.0}").unwrap();
    }
    table
}

pub fn samples(dir: &Dir) {
    for seed in 0..6 {
        dir.write(&format!("s{seed}.csv"), sample(seed));
    }
}

/// When the application runs in the log of these tests, in seconds since its beginning.
const STARTS_S: [usize; 6] = [100, 700, 1300, 1900, 2500, 3100];

/// The log's beginning, as servers count.
const EPOCH_S: usize = 1_700_000_000;

/// A log of an hour at 2 s.
pub fn log_values() -> Vec<(usize, f64)> {
    (0..3600)
        .step_by(2)
        .map(|at_s| {
            let own: f64 = STARTS_S
                .iter()
                .filter(|start_s| at_s >= **start_s)
                .map(|start_s| own_bps(at_s - start_s))
                .sum();
            // Enough to be noise; how well heavy noise is told apart is for `cargo xtask accuracy signature`.
            let foreign = if noise(1000 + at_s / 12) < 0.05 { 5e8 } else { 0.0 };
            (at_s, (own + foreign + 1e8 * noise(at_s)).round())
        })
        .collect()
}

pub fn log(values: &[(usize, f64)]) -> String {
    let mut table = String::from("time,bandwidth\n");
    for (at_s, bandwidth) in values {
        writeln!(table, "{},{bandwidth}", EPOCH_S + at_s).unwrap();
    }
    table
}

/// As `sacct -P` writes it: dates, steps, a job that waits, one that failed, one that ran once.
pub fn sacct() -> String {
    let date = |at_s: usize| {
        // 2023-11-14T22:13:20 and on, over midnight.
        let of_day = 80_000 + at_s;
        let (day, of_day) = (14 + of_day / 86_400, of_day % 86_400);
        format!("2023-11-{day}T{:02}:{:02}:{:02}", of_day / 3600, of_day / 60 % 60, of_day % 60)
    };
    let mut text = String::from("JobID|JobName|User|NNodes|Start|End|State\n");
    for (i, start_s) in STARTS_S.into_iter().enumerate() {
        let (id, start, end) = (4700 + i, date(start_s), date(start_s + RUN_S));
        writeln!(text, "{id}|climate|ana|128|{start}|{end}|COMPLETED").unwrap();
        writeln!(text, "{id}.batch|batch||1|{start}|{end}|COMPLETED").unwrap();
        writeln!(text, "{id}.0|a.out||128|{start}|{end}|COMPLETED").unwrap();
    }
    writeln!(text, "4800|once|bo|4|{}|{}|COMPLETED", date(50), date(350)).unwrap();
    writeln!(text, "4801|climate|ana|128|{}|{}|FAILED", date(50), date(60)).unwrap();
    writeln!(text, "4802|climate|ana|128|Unknown|Unknown|PENDING").unwrap();
    text
}

#[track_caller]
fn is_the_application(entry: &serde_json::Value) {
    let bursts = entry["bursts"].as_array().unwrap();
    assert_eq!(bursts.len(), 5, "{bursts:#?}");
    for (i, burst) in bursts.iter().enumerate() {
        let number = |name: &str| burst[name].as_f64().unwrap();
        let start_s = 60.0 * i as f64 + 20.0;
        assert!(
            (number("start_s") - start_s).abs() < 8.0 && (number("end_s") - start_s - 20.0).abs() < 8.0,
            "{burst}"
        );
        assert!((number("bytes") / 4e10 - 1.0).abs() < 0.3, "{burst}");
    }
    let period_s = entry["period"]["period_s"].as_f64().unwrap();
    assert!((period_s - 60.0).abs() < 3.0, "{period_s}");
}

#[test]
fn runs_given_one_by_one_have_their_application_in_common() {
    let dir = Dir::new();
    samples(&dir);
    let json = dir
        .iotide(["signature", "s0.csv", "s1.csv", "s2.csv", "s3.csv", "s4.csv", "s5.csv", "--format", "json"])
        .exits_with(0)
        .json();
    is_the_application(&json);
    assert_eq!((&json["schema"], &json["command"]), (&"iotide/1".into(), &"signature".into()));
    assert_eq!(
        json["samples"]["used"].as_u64().unwrap()
            + json["samples"]["rejected"].as_array().unwrap().len() as u64,
        6
    );
    assert!(json["signature"]["bandwidth_bps"].as_array().unwrap().len() >= 149);
    let text = dir.iotide(["signature", "s0.csv", "s1.csv", "s2.csv", "s3.csv"]).exits_with(0).stdout;
    assert!(text.starts_with("5 bursts, one every "), "{text}");
}

#[test]
fn settings_come_from_a_file_and_preprocessing_can_be_left_out() {
    let dir = Dir::new();
    samples(&dir);
    // A run that lasted twice as long is no run like the others.
    dir.write("s6.csv", sample(6).replace("time,bandwidth\n", "time,bandwidth\n-300,0\n-2,0\n"));
    let files = ["s0.csv", "s1.csv", "s2.csv", "s3.csv", "s4.csv", "s5.csv", "s6.csv"];
    let run =
        |files: &[&str], more: &[&str]| dir.command(["signature"]).args(files).args(more).output().unwrap();
    let signature = |more: &[&str]| -> serde_json::Value {
        let output = run(&files, &[more, &["--format", "json"]].concat());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    // The defaults, printed and given back, change nothing.
    let printed = dir.iotide(["signature", "--print-settings"]).exits_with(0).stdout;
    dir.write("default.toml", &printed);
    assert_eq!(signature(&["--settings", "default.toml"]), signature(&[]));
    // What is left out keeps its default; what is there counts.
    dir.write("raw.toml", "preprocess = 0\noutliers = 0\n");
    let iosi = signature(&["--method", "iosi"]);
    let raw = signature(&["--method", "iosi", "--no-preprocess"]);
    assert_eq!(raw, signature(&["--method", "iosi", "--settings", "raw.toml"]));
    assert_eq!(raw["samples"]["used"], 7, "{raw}");
    assert_ne!(raw["signature"], iosi["signature"]);
    let printed =
        dir.iotide(["signature", "--settings", "raw.toml", "--print-settings"]).exits_with(0).stdout;
    assert!(printed.contains("\npreprocess = 0.0\n"), "{printed}");
    // What belongs to no method, or is no setting, is refused.
    let complaint = |more: &[&str]| {
        let output = run(&["s0.csv", "s1.csv"], more);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(complaint(&["--no-preprocess"]).contains("--no-preprocess belongs to --method iosi, dtw"));
    dir.write("wrong.toml", "preproces = 0\n");
    let wrong = complaint(&["--settings", "wrong.toml"]);
    assert!(wrong.contains("preproces") && wrong.contains("--print-settings"), "{wrong}");
}

#[test]
fn a_signature_is_a_page_a_picture_a_line_and_a_row() {
    let dir = Dir::new();
    samples(&dir);
    let outcome = dir.iotide([
        "signature",
        "s0.csv",
        "s1.csv",
        "s2.csv",
        "-o",
        "a.html",
        "-o",
        "a.svg",
        "-o",
        "a.jsonl",
        "-o",
        "a.parquet",
        "-o",
        "a.json",
    ]);
    assert_eq!(outcome.exits_with(0).stdout, "");
    assert!(
        dir.read("a.svg").starts_with("<svg") && dir.read("a.svg").matches("class=\"sample\"").count() == 3
    );
    assert!(dir.read("a.html").contains("<svg") && !dir.read("a.html").contains("src="));
    assert_eq!(dir.read("a.jsonl").lines().count(), 1);
    assert!(std::fs::read(dir.path().join("a.parquet")).unwrap().starts_with(b"PAR1"));
    is_the_application(&serde_json::from_str(&dir.read("a.json")).unwrap());
}

#[test]
fn each_application_of_a_long_log_has_its_signature() {
    let dir = Dir::new();
    dir.write("log.csv", log(&log_values()));
    dir.write("jobs.txt", sacct());
    let json =
        dir.iotide(["signature", "log.csv", "--jobs", "jobs.txt", "--format", "json"]).exits_with(0).json();
    let signatures = json["signatures"].as_array().unwrap();
    assert_eq!(signatures.len(), 1);
    is_the_application(&signatures[0]);
    assert_eq!(
        signatures[0]["group"],
        serde_json::json!({"user": "ana", "name": "climate", "nodes": 128, "runs": 6})
    );
    let expected = serde_json::json!({"n_runs": 8, "n_not_begun": 1, "n_broken": 1, "n_rare": 1, "n_unknown": 0, "interval_s": 2.0});
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&json["log"][name], value, "{name}");
    }
    // One core or several, lines or a document: the same.
    dir.iotide([
        "signature",
        "log.csv",
        "--jobs",
        "jobs.txt",
        "--threads",
        "1",
        "-o",
        "all.jsonl",
        "-o",
        "all.html",
    ])
    .exits_with(0);
    let line: serde_json::Value = serde_json::from_str(dir.read("all.jsonl").trim()).unwrap();
    assert_eq!(&line, &signatures[0]);
    assert!(dir.read("all.html").contains("ana · climate · 128 nodes"));
    let text = dir.iotide(["signature", "log.csv", "--jobs", "jobs.txt"]).exits_with(0).stdout;
    assert!(
        text.starts_with("1 signature, 1 of them with bursts of their own\n")
            && text.contains("ana · climate · 128 nodes"),
        "{text}"
    );
}

#[test]
fn a_job_log_may_be_a_table_and_the_log_several_files() {
    let dir = Dir::new();
    // Two servers, each with half of the load, and their clocks a little apart.
    let values = log_values();
    for (server, late_s) in [("ost0", 0.0), ("ost1", 0.4)] {
        let mut table = String::from("time,read,write\n");
        for (at_s, bandwidth) in &values {
            writeln!(table, "{},0,{}", (EPOCH_S + at_s) as f64 + late_s, bandwidth / 2.0).unwrap();
        }
        dir.write(&format!("{server}.csv"), table);
    }
    let mut jobs = String::from("user,name,nodes,start,end\n");
    for start_s in STARTS_S {
        writeln!(jobs, "ana,climate,128,{},{}", EPOCH_S + start_s, EPOCH_S + start_s + RUN_S).unwrap();
    }
    dir.write("jobs.csv", jobs);
    let json = dir
        .iotide(["signature", "ost0.csv", "ost1.csv", "--jobs", "jobs.csv", "--format", "json"])
        .exits_with(0)
        .json();
    is_the_application(&json["signatures"][0]);
    // Nobody read anything.
    let none = dir
        .iotide(["signature", "ost0.csv", "--mode", "read", "--jobs", "jobs.csv", "--format", "json"])
        .exits_with(0)
        .json();
    assert_eq!(none["signatures"][0]["bursts"], serde_json::json!([]));
}

#[test]
fn a_log_out_of_lmts_database_is_counters_of_targets() {
    let dir = Dir::new();
    let mut rows = String::from("TIMESTAMP\tOST_ID\tREAD_BYTES\tWRITE_BYTES\tPCT_CPU\n");
    for target in 1..=2 {
        let mut written = 7e12;
        for (at_s, bandwidth) in log_values() {
            // One of the servers is started anew.
            if (target, at_s) == (2, 2000) {
                written = 0.0;
            }
            writeln!(rows, "{}\t{target}\t0\t{written}\tNULL", EPOCH_S + at_s).unwrap();
            written += bandwidth;
        }
    }
    dir.write("lmt.tsv", rows);
    dir.write("jobs.txt", sacct());
    let json =
        dir.iotide(["signature", "lmt.tsv", "--jobs", "jobs.txt", "--format", "json"]).exits_with(0).json();
    is_the_application(&json["signatures"][0]);
    assert_eq!((&json["log"]["interval_s"], &json["log"]["n_unknown"]), (&2.0.into(), &0.into()));
    let losses = json["losses"].to_string();
    assert!(losses.contains("nobody knows what was moved in between"), "{losses}");
}

#[test]
fn a_hole_in_the_log_costs_the_runs_in_it_and_is_told() {
    let dir = Dir::new();
    let values: Vec<_> = log_values().into_iter().filter(|(at_s, _)| !(1280..1500).contains(at_s)).collect();
    dir.write("log.csv", log(&values));
    dir.write("jobs.txt", sacct());
    let json =
        dir.iotide(["signature", "log.csv", "--jobs", "jobs.txt", "--format", "json"]).exits_with(0).json();
    is_the_application(&json["signatures"][0]);
    assert_eq!(json["log"]["n_unknown"], 110);
    let reasons = json["signatures"][0]["samples"]["reasons"].to_string();
    assert!(
        reasons.contains(r#"{"name":"4702","reason":"the throughput log has a hole there"}"#),
        "{reasons}"
    );
}

#[test]
fn runs_that_began_before_the_log_or_go_on_after_it_are_used_in_part() {
    let dir = Dir::new();
    let values: Vec<_> = log_values().into_iter().filter(|(at_s, _)| (180..3300).contains(at_s)).collect();
    dir.write("log.csv", log(&values));
    dir.write("jobs.txt", sacct().replace("|2023-11-14T23:10:00|COMPLETED", "|Unknown|RUNNING"));
    let json =
        dir.iotide(["signature", "log.csv", "--jobs", "jobs.txt", "--format", "json"]).exits_with(0).json();
    let bursts = json["signatures"][0]["bursts"].as_array().unwrap();
    assert!(bursts.len() >= 3, "{bursts:#?}");
    for (i, burst) in bursts.iter().enumerate() {
        let start_s = burst["start_s"].as_f64().unwrap();
        assert!((start_s - 60.0 * i as f64 - 20.0).abs() < 6.0, "{burst}");
    }
    // They were cut out and looked at; whether they are like the others is another question.
    let samples = &json["signatures"][0]["samples"];
    let all = samples["details"].as_array().unwrap().iter().chain(samples["reasons"].as_array().unwrap());
    for part in ["4700", "4705"] {
        let entry = all.clone().find(|entry| entry["name"] == part).unwrap();
        let reason = entry["reason"].as_str().unwrap_or("used");
        assert!(!reason.contains("log") && !reason.contains("short"), "{samples}");
    }
}

#[test]
fn runs_on_other_numbers_of_nodes_are_another_application_unless_it_scales() {
    let dir = Dir::new();
    dir.write("log.csv", log(&log_values()));
    dir.write("jobs.txt", sacct().replacen("climate|ana|128", "climate|ana|64", 1));
    let n = |args: &[&str]| {
        let mut command = dir.command(["signature", "log.csv", "--jobs", "jobs.txt", "--format", "json"]);
        let output = command.args(args).output().unwrap();
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let groups = json["signatures"].as_array().unwrap();
        groups
            .iter()
            .map(|entry| (entry["group"]["nodes"].as_u64(), entry["group"]["runs"].as_u64().unwrap()))
            .collect::<Vec<_>>()
    };
    assert_eq!(n(&[]), [(Some(128), 5)]);
    assert_eq!(n(&["--weak-scaling"]), [(Some(64), 6)]);
    assert_eq!(n(&["--all-states"]), [(Some(128), 6)]);
}

#[test]
fn an_application_is_best_placed_where_others_are_quiet_while_it_writes() {
    let dir = Dir::new();
    samples(&dir);
    let partition = |busy: &dyn Fn(usize) -> bool| {
        let rows = (0..=1200)
            .step_by(2)
            .map(|at_s| format!("{at_s},{}\n", if busy(at_s) { 3_000_000_000u64 } else { 100_000_000 }));
        String::from("time,bandwidth\n") + &rows.collect::<String>()
    };
    dir.write("busy.csv", partition(&|at_s| at_s % 60 < 40));
    // Others write every minute, too: the application fits in between if it starts at the right time.
    dir.write("gaps.csv", partition(&|at_s| at_s % 60 < 24));
    dir.write("quiet.csv", partition(&|_| false));
    let json = dir
        .iotide([
            "signature",
            "s0.csv",
            "s1.csv",
            "s2.csv",
            "s3.csv",
            "--fit",
            "busy.csv",
            "gaps.csv",
            "quiet.csv",
            "--fit-step",
            "4",
            "--capacity",
            "4e9",
            "--format",
            "json",
            "-o",
            "signature.json",
        ])
        .exits_with(0);
    assert_eq!(json.stdout, "");
    let json: serde_json::Value = serde_json::from_str(&dir.read("signature.json")).unwrap();
    let order: Vec<_> = json["fit"]["partitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["partition"].as_str().unwrap())
        .collect();
    assert_eq!(order, ["quiet.csv", "gaps.csv", "busy.csv"]);
    let fit = dir
        .iotide([
            "signature",
            "--signature",
            "signature.json",
            "--fit",
            "gaps.csv",
            "--fit-step",
            "4",
            "--capacity",
            "4e9",
            "--format",
            "json",
        ])
        .exits_with(0)
        .json();
    let best = &fit["fit"]["starts"][0];
    // Its bursts last from second 20 to 40 of a minute; the gap from 24 to 60.
    assert!((4.0..=20.0).contains(&(best["start_s"].as_f64().unwrap() % 60.0)), "{best}");
    assert_eq!(best["delay_s"], 0.0);
    let text = dir
        .iotide(["signature", "--signature", "signature.json", "--fit", "gaps.csv", "quiet.csv"])
        .exits_with(0)
        .stdout;
    assert!(
        text.starts_with(
            "signature.json, on 2 logs\npartitions, the one that disturbs least first\n  quiet.csv: "
        ),
        "{text}"
    );
}

#[test]
fn a_run_counts_once_and_a_log_is_added_once() {
    let dir = Dir::new();
    samples(&dir);
    let names: Vec<String> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|f| f.unwrap().file_name().into_string().unwrap())
        .collect();
    let name = &names[0];
    let twice = dir.iotide(["signature", name, &format!("./{name}")]).exits_with(2);
    assert_eq!(twice.stderr, format!("iotide: ./{name} is given twice\n"));
    dir.write("log.csv", log(&log_values()));
    dir.write("jobs.txt", sacct());
    let twice = dir.iotide(["signature", "log.csv", "log.csv", "--jobs", "jobs.txt"]).exits_with(2);
    assert_eq!(twice.stderr, "iotide: log.csv is given twice\n");
}

#[test]
fn what_makes_no_sense_is_refused_with_a_reason() {
    let dir = Dir::new();
    dir.write("one.csv", sample(0));
    dir.write("jobs.txt", sacct());
    dir.write("no-jobs.csv", "a,b\n1,2\n");
    dir.write("no.json", "{}");
    let complaint = |args: &[&str]| {
        let output = dir.command(["signature"]).args(args).output().unwrap();
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]), "{args:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let all = [
        complaint(&[]),
        complaint(&["one.csv"]),
        complaint(&["one.csv", "--jobs", "jobs.txt"]),
        complaint(&["one.csv", "--jobs", "no-jobs.csv"]),
        complaint(&["--jobs", "jobs.txt"]),
        complaint(&["--signature", "no.json", "--fit", "one.csv"]),
        complaint(&["one.csv", "--jobs", "jobs.txt", "-o", "a.svg"]),
        complaint(&["--jobs", "jobs.txt", "--prometheus", "ftp://localhost", "--query", "x"]),
    ]
    .join("\n");
    insta::assert_snapshot!(all, @r#"
    iotide: no samples were given
    hint: `iotide signature run1.csv run2.csv run3.csv`; see `iotide signature --help`

    iotide: a signature needs at least 2 samples with values, but there are 1
    hint: a signature is what several runs of one application have in common

    iotide: the throughput log lies between 0 and 300 s, and all jobs between 1700000050 and 1700003400 s
    hint: both must count from one zero; `--utc-offset` moves dates of the job log, and SLURM_TIME_FORMAT=%s makes sacct write seconds

    iotide: no-jobs.csv, line 1: the header has no column start; a job log has JobID|User|JobName|NNodes|Start|End|State or user,name,nodes,start,end

    iotide: no throughput log was given
    hint: name its files, or a server with `--prometheus URL --query PROMQL`

    iotide: no.json holds no signature: it has no "signature"
    hint: `iotide signature … --format json -o FILE` writes one

    iotide: a.svg would hold one picture, and a log has many signatures; .html has them on a page

    iotide: invalid value 'ftp://localhost' for '--prometheus <URL>': ftp is not supported, only http and https

    For more information, try '--help'.
    "#);
}

/// A server that gives these answers, one a connection, and notes what was asked.
fn serve(answers: Vec<String>) -> (String, std::thread::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = std::thread::spawn(move || {
        answers
            .into_iter()
            .map(|answer| {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = Vec::new();
                let mut buffer = [0; 4096];
                while !request.ends_with(b"\r\n\r\n") {
                    let n = stream.read(&mut buffer).unwrap();
                    request.extend_from_slice(&buffer[..n]);
                }
                stream.write_all(answer.as_bytes()).unwrap();
                String::from_utf8(request).unwrap().lines().next().unwrap().to_owned()
            })
            .collect()
    });
    (url, asked)
}

fn http(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn asked_of(dir: &Dir, answers: Vec<String>) -> (crate::util::Outcome, Vec<String>) {
    let (url, asked) = serve(answers);
    let outcome = dir.iotide([
        "signature",
        "--prometheus",
        &url,
        "--query",
        "x",
        "--step",
        "2",
        "--jobs",
        "jobs.txt",
        "--format",
        "json",
    ]);
    (outcome, asked.join().unwrap())
}

#[test]
fn a_server_that_is_busy_is_asked_again_and_one_that_refuses_is_not() {
    let dir = Dir::new();
    dir.write("jobs.txt", sacct());
    let samples: Vec<String> =
        log_values().iter().map(|(at_s, value)| format!("[{},\"{value}\"]", EPOCH_S + at_s + 2)).collect();
    let whole = format!(
        r#"{{"status":"success","data":{{"resultType":"matrix","result":[{{"metric":{{}},"values":[{}]}}]}}}}"#,
        samples.join(",")
    );
    let (outcome, asked) =
        asked_of(&dir, vec![http("503 Service Unavailable", "starting"), http("200 OK", &whole)]);
    is_the_application(&outcome.exits_with(0).json()["signatures"][0]);
    assert_eq!(asked.len(), 2);
    assert!(
        asked[1].starts_with("GET /api/v1/query_range?query=x&start=17000000")
            && asked[1].ends_with("&step=2 HTTP/1.1"),
        "{}",
        asked[1]
    );

    let refused =
        http("400 Bad Request", r#"{"status":"error","errorType":"bad_data","error":"1:1: parse error"}"#);
    let total = r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{"__name__":"w_bytes_total"},"values":[[1700000050,"1"]]}]}}"#;
    let empty = r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#;
    let cut = "HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{\"status\":\"succ".to_owned();
    let complaints: Vec<String> = [
        vec![refused],
        vec![http("200 OK", total)],
        vec![http("200 OK", empty)],
        vec![http("404 Not Found", "no")],
        vec![cut.clone(), cut.clone(), cut.clone(), cut],
    ]
    .into_iter()
    .map(|answers| {
        let n = answers.len();
        let (outcome, asked) = asked_of(&dir, answers);
        assert_eq!(asked.len(), n);
        let complaint = outcome.exits_with(2).complaint();
        // The port is another each time.
        let (before, after) = complaint.split_once("127.0.0.1:").unwrap_or((&complaint, ""));
        format!("{before}{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
    })
    .collect();
    insta::assert_snapshot!(complaints.join("\n"), @r#"
    iotide: http:// refuses the query: 1:1: parse error
    hint: `--query` is PromQL that gives bytes per second, for example sum(rate(lustre_write_bytes_total[1m]))

    iotide: w_bytes_total counts bytes, and a throughput log is bytes per second
    hint: ask for sum(rate(w_bytes_total[1m]))

    iotide: http:// has no samples from 1700000052 until 1700003400 for this query
    hint: `--from` and `--until` are seconds since 1970 or dates; the server's own page shows what it has

    iotide: http:// answers with status 404

    iotide: cannot ask http://: the answer ends early
    "#);
}

#[test]
fn a_server_that_cannot_load_so_much_is_asked_for_less_at_a_time() {
    let dir = Dir::new();
    dir.write("jobs.txt", sacct());
    let too_much = http(
        "422 Unprocessable Entity",
        r#"{"status":"error","errorType":"execution","error":"query processing would load too many samples into memory in query execution"}"#,
    );
    let none = http("200 OK", r#"{"status":"success","data":{"resultType":"matrix","result":[]}}"#);
    let (_, asked) =
        asked_of(&dir, vec![too_much, none.clone(), none.clone(), none.clone(), none.clone(), none]);
    let points: Vec<usize> = asked
        .iter()
        .map(|request| {
            let number = |name: &str| {
                request
                    .split(name)
                    .nth(1)
                    .unwrap()
                    .split(['&', ' ', '.'])
                    .next()
                    .unwrap()
                    .parse::<usize>()
                    .unwrap()
            };
            (number("&end=") - number("&start=")) / 2 + 1
        })
        .collect();
    assert_eq!(points[0] / 4, points[1], "{points:?}");
    assert_eq!(points[1..].iter().sum::<usize>(), points[0], "{points:?}");
}

/// A real server with the log of these tests in it, gone with the test.
pub(crate) struct Prometheus {
    child: Child,
    pub(crate) url: String,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Prometheus {
    pub(crate) fn with(dir: &Path, prometheus: &Path, promtool: &Path, metrics: &str) -> Self {
        std::fs::write(dir.join("metrics.txt"), metrics).unwrap();
        let filled = Command::new(promtool)
            .args(["tsdb", "create-blocks-from", "openmetrics", "metrics.txt", "data"])
            .current_dir(dir)
            .output()
            .unwrap();
        assert!(filled.status.success(), "{}", String::from_utf8_lossy(&filled.stderr));
        std::fs::write(dir.join("prometheus.yml"), "global: {}\n").unwrap();
        let port = iotide_testkit::port();
        let address = format!("127.0.0.1:{port}");
        let child = Command::new(prometheus)
            .args([
                "--config.file=prometheus.yml",
                "--storage.tsdb.path=data",
                "--storage.tsdb.retention.time=100y",
            ])
            .arg(format!("--web.listen-address={address}"))
            .current_dir(dir)
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(dir.join("prometheus.log")).unwrap())
            .spawn()
            .unwrap();
        let server = Self { child, url: format!("http://{address}") };
        let begun = Instant::now();
        while !is_ready(&address) {
            assert!(
                begun.elapsed() < Duration::from_secs(120),
                "{}",
                std::fs::read_to_string(dir.join("prometheus.log")).unwrap()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
        server
    }
}

fn is_ready(address: &str) -> bool {
    let mut answer = String::new();
    TcpStream::connect(address)
        .and_then(|mut stream| {
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            stream.write_all(b"GET /-/ready HTTP/1.0\r\n\r\n")?;
            stream.read_to_string(&mut answer)
        })
        .is_ok_and(|_| answer.contains(" 200 "))
}

#[test]
fn a_real_server_is_asked_in_ranges_it_will_answer() {
    let (Some(prometheus), Some(promtool)) =
        (iotide_testkit::program("prometheus"), iotide_testkit::program("promtool"))
    else {
        return;
    };
    let dir = Dir::new();
    // Seven hours at 2 s: 12 600 points, more than a server gives at once. Two servers, each with half of the load.
    const LONG_S: usize = 7 * 3600;
    let values = log_values();
    let value = |at_s: usize| values[at_s % 3600 / 2].1;
    let mut metrics = String::from("# TYPE ost_throughput gauge\n");
    for ost in 0..2 {
        for at_s in (0..LONG_S).step_by(2) {
            // A rate that is stated at a time holds since the one before.
            writeln!(metrics, "ost_throughput{{ost=\"{ost}\"}} {} {}", value(at_s) / 2.0, EPOCH_S + at_s + 2)
                .unwrap();
        }
    }
    metrics.push_str("# TYPE ost_written_bytes counter\n");
    let mut written = 0.0;
    for at_s in (0..LONG_S).step_by(2) {
        written += value(at_s) * 2.0;
        writeln!(metrics, "ost_written_bytes_total {written} {}", EPOCH_S + at_s + 2).unwrap();
    }
    metrics.push_str("# EOF\n");
    let server = Prometheus::with(dir.path(), &prometheus, &promtool, &metrics);
    let mut jobs = String::from("user,name,nodes,start,end\n");
    let mut table = String::from("time,bandwidth\n");
    for at_s in (0..=LONG_S).step_by(2) {
        writeln!(table, "{},{}", EPOCH_S + at_s, value(at_s)).unwrap();
    }
    for start_s in STARTS_S.into_iter().flat_map(|start_s| [start_s, start_s + 6 * 3600 - 3600]) {
        writeln!(jobs, "ana,climate,128,{},{}", EPOCH_S + start_s, EPOCH_S + start_s + RUN_S).unwrap();
    }
    writeln!(jobs, "bo,once,1,{},{}", EPOCH_S, EPOCH_S + LONG_S).unwrap();
    dir.write("jobs.csv", jobs);
    dir.write("log.csv", table);

    let by_file =
        dir.iotide(["signature", "log.csv", "--jobs", "jobs.csv", "--format", "json"]).exits_with(0).json();
    let ask = |query: &str| {
        dir.iotide([
            "signature",
            "--prometheus",
            &server.url,
            "--query",
            query,
            "--step",
            "2",
            "--jobs",
            "jobs.csv",
            "--format",
            "json",
        ])
    };
    let by_server = ask("sum(ost_throughput)").exits_with(0).json();
    is_the_application(&by_server["signatures"][0]);
    // The same values at the same times: the same answer, to the last byte.
    assert_eq!(by_server["signatures"], by_file["signatures"]);
    assert_eq!(by_server["log"]["n_values"], LONG_S / 2);
    // Series of several servers are added up.
    assert_eq!(ask("ost_throughput").exits_with(0).json()["signatures"], by_file["signatures"]);
    // A rate over some seconds comes late and is flatter; its bursts are still five.
    let by_rate = ask("rate(ost_written_bytes_total[4s])").exits_with(0).json();
    assert_eq!(by_rate["signatures"][0]["bursts"].as_array().unwrap().len(), 5);

    let total = ask("ost_written_bytes_total").exits_with(2).complaint();
    assert_eq!(
        total,
        "iotide: ost_written_bytes_total counts bytes, and a throughput log is bytes per second\nhint: ask for sum(rate(ost_written_bytes_total[1m]))\n"
    );
    let wrong = ask("sum(rate(").exits_with(2).complaint();
    assert!(wrong.contains("refuses the query: ") && wrong.contains("parse error"), "{wrong}");
    let nothing = ask("no_such_metric").exits_with(2).complaint();
    assert!(nothing.contains("has no samples from "), "{nothing}");
}
