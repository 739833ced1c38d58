use crate::util::Dir;

const DAY_S: f64 = 86_400.0;
const START_S: f64 = 1_700_000_000.0;

/// A program on a day: two ranks, eight phases of an open, two small writes, four large ones and a close; phase `i` takes `slow(i)` times as long.
struct Made {
    zero_s: f64,
    table: String,
    /// Bytes written, when, and until when.
    moved: Vec<(f64, f64, f64)>,
    phases: Vec<(f64, f64)>,
}

fn made(day: usize, n_large: usize, slow: impl Fn(usize) -> f64) -> Made {
    let zero_s = START_S + DAY_S * day as f64;
    let mut table =
        format!("# start_time={zero_s}\n# nprocs=2\n# exe=/opt/solver -in x\nrank,op,start,end,bytes\n");
    let (mut moved, mut phases) = (Vec::new(), Vec::new());
    let mut at_s = 1.0;
    for phase in 0..8 {
        let mut end_s: f64 = at_s;
        for rank in 0..2 {
            let mut now_s = at_s;
            // A little noise that differs from day to day.
            let noise = 1.0 + 0.01 * ((day * 7 + phase * 3 + rank) % 5) as f64;
            let mut call = |op: &str, bytes: f64, takes_s: f64| {
                let until_s = now_s + takes_s * slow(phase) * noise;
                table += &format!("{rank},{op},{now_s:.4},{until_s:.4},{bytes}\n");
                moved.push((now_s, until_s, bytes));
                now_s = until_s;
            };
            call("open", 0.0, 0.01);
            call("write", 100_000.0, 0.011);
            call("write", 100_000.0, 0.011);
            (0..n_large).for_each(|_| call("write", 1e8, 2.0));
            call("close", 0.0, 0.005);
            end_s = end_s.max(now_s);
        }
        phases.push((at_s, end_s));
        at_s = end_s + 20.0;
    }
    Made { zero_s, table, moved, phases }
}

/// The servers' log, every 2 s around each run: the run itself, and the load of others.
fn log(runs: &[&Made], others: impl Fn(usize, f64) -> f64) -> String {
    let mut table = String::from("time,read,write\n");
    for (i, run) in runs.iter().enumerate() {
        let until_s = run.phases.last().unwrap().1 + 60.0;
        let mut at_s = -60.0;
        while at_s < until_s {
            let own: f64 = (run.moved.iter())
                .map(|(from, to, bytes)| bytes * (to.min(at_s + 2.0) - from.max(at_s)).max(0.0) / (to - from))
                .sum();
            table += &format!("{},0,{:.0}\n", run.zero_s + at_s, own / 2.0 + others(i, at_s + 1.0));
            at_s += 2.0;
        }
    }
    table
}

/// Six earlier runs in `earlier/`; returns them.
fn history(dir: &Dir) -> Vec<Made> {
    std::fs::create_dir(dir.path().join("earlier")).unwrap();
    let runs: Vec<Made> = (0..6).map(|day| made(day, 4, |_| 1.0)).collect();
    for (day, run) in runs.iter().enumerate() {
        dir.write(&format!("earlier/{day}.csv"), &run.table);
    }
    runs
}

/// Phases 2 to 5 of the run took 2.5 times as long, while others filled the storage.
pub(crate) fn disturbed(dir: &Dir) {
    let earlier = history(dir);
    let run = made(7, 4, |phase| if (2..6).contains(&phase) { 2.5 } else { 1.0 });
    dir.write("run.csv", &run.table);
    let mut runs: Vec<&Made> = earlier.iter().collect();
    runs.push(&run);
    let (from_s, until_s) = (run.phases[2].0 - 5.0, run.phases[5].1 + 5.0);
    let log = log(&runs, |i, at_s| {
        let busy = run.phases.iter().any(|(from, to)| (*from..*to).contains(&at_s));
        match i == 6 && (from_s..until_s).contains(&at_s) {
            true if busy => 1.6e8,
            true => 2e8,
            false => 2e7,
        }
    });
    dir.write("servers.csv", log);
}

#[test]
fn others_who_filled_the_storage_are_named() {
    let dir = Dir::new();
    disturbed(&dir);
    let args = ["why", "run.csv", "--history", "earlier", "--storage", "servers.csv", "--format", "json"];
    let json = dir.iotide(args).exits_with(0).json();
    assert_eq!((json["schema"].as_str(), json["command"].as_str()), (Some("iotide/1"), Some("why")));
    let why = &json["runs"][0]["why"];
    assert_eq!(why["verdict"], "others", "{why:#}");
    assert_eq!(why["n_history"], 6);
    assert!(why["parts"]["others"].as_f64().unwrap() > 0.8, "{why:#}");
    let verdicts: Vec<&str> =
        why["phases"].as_array().unwrap().iter().map(|phase| phase["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["usual", "usual", "others", "others", "others", "others", "usual", "usual"]);
    assert_eq!(why["evidence"][0]["kind"], "others_load");
    let factor = why["slowdown"]["factor"].as_f64().unwrap();
    let interval = [0, 1].map(|i| why["slowdown"]["interval"][i].as_f64().unwrap());
    assert!(interval[0] <= factor && factor <= interval[1] && (factor - 1.75).abs() < 0.1, "{why:#}");
}

#[test]
fn the_text_begins_with_the_verdict() {
    let dir = Dir::new();
    disturbed(&dir);
    let args = ["why", "run.csv", "--history", "earlier", "--storage", "servers.csv"];
    let text = dir.iotide(args).exits_with(0).stdout;
    assert!(text.starts_with("Others: the I/O took 1.7"), "{text}");
    assert!(text.contains("because others filled the storage"), "{text}");
    assert!(text.contains("others moved") && text.contains("phase from"), "{text}");
}

#[test]
fn without_a_log_the_answer_says_what_is_excluded_and_what_would_help() {
    let dir = Dir::new();
    disturbed(&dir);
    let outcome = dir.iotide(["why", "run.csv", "--history", "earlier"]).exits_with(1);
    let text = outcome.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("not by the program's own requests"), "{text}");
    assert!(
        text.contains("the log of the servers during the run and the earlier ones (--storage)"),
        "{text}"
    );
}

#[test]
fn a_program_that_moves_more_is_told_so() {
    let dir = Dir::new();
    history(&dir);
    dir.write("run.csv", made(7, 8, |_| 1.0).table);
    let json =
        dir.iotide(["why", "run.csv", "--history", "earlier", "--format", "json"]).exits_with(0).json();
    let why = &json["runs"][0]["why"];
    assert_eq!((&why["verdict"], &why["evidence"][0]["kind"]), (&"own".into(), &"bytes".into()), "{why:#}");
}

#[test]
fn a_run_among_its_own_history_and_runs_of_other_programs_do_not_count() {
    let dir = Dir::new();
    history(&dir);
    let run = made(7, 4, |_| 1.0).table;
    dir.write("run.csv", &run);
    dir.write("earlier/again.csv", &run);
    dir.write("earlier/other.csv", made(8, 9, |_| 1.0).table.replace("/opt/solver", "/opt/other"));
    dir.write("earlier/notes.txt", "not a trace\n");
    let json =
        dir.iotide(["why", "run.csv", "--history", "earlier", "--format", "json"]).exits_with(0).json();
    let why = &json["runs"][0]["why"];
    assert_eq!((&why["verdict"], &why["n_history"]), (&"usual".into(), &6.into()), "{why:#}");
}

#[test]
fn who_ran_in_the_slow_phases_only_is_a_hint() {
    let dir = Dir::new();
    disturbed(&dir);
    let day = |day: f64| START_S + DAY_S * day;
    dir.write(
        "jobs.csv",
        format!(
            "user,name,nodes,start,end\nana,climate,8,{},{}\nbob,always,4,{},{}\n",
            day(7.0) + 20.0,
            day(7.0) + 300.0,
            day(0.0),
            day(8.0)
        ),
    );
    let args = [
        "why",
        "run.csv",
        "--history",
        "earlier",
        "--storage",
        "servers.csv",
        "--jobs",
        "jobs.csv",
        "--format",
        "json",
    ];
    let json = dir.iotide(args).exits_with(0).json();
    let why = &json["runs"][0]["why"];
    let jobs: Vec<&str> = (why["evidence"].as_array().unwrap().iter())
        .filter(|evidence| evidence["kind"] == "job")
        .map(|evidence| evidence["text"].as_str().unwrap())
        .collect();
    assert_eq!(why["verdict"], "others");
    assert!(jobs.len() == 1 && jobs[0].starts_with("ana · climate ran in"), "{jobs:?}");
}

#[test]
fn a_page_has_the_phases_and_the_history() {
    let dir = Dir::new();
    disturbed(&dir);
    dir.iotide(["why", "run.csv", "--history", "earlier", "--storage", "servers.csv", "-o", "why.html"])
        .exits_with(0);
    let page = dir.read("why.html");
    assert!(page.contains("<h1>Others: the I/O took") && page.contains("data-name=\"phases\""), "{page}");
    assert!(page.contains("data-name=\"history\"") && page.contains("phase: others"));
}

#[test]
fn what_cannot_be_used_is_named() {
    let dir = Dir::new();
    history(&dir);
    let run = made(7, 4, |_| 1.0).table;
    dir.write("run.csv", &run);
    dir.write("series.csv", "time,bandwidth\n0,5\n1,6\n2,5\n");
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    for (args, said) in [
        (vec!["why", "missing.csv"], "missing.csv"),
        (vec!["why", "series.csv", "--history", "earlier"], "no requests with times of their own"),
        (vec!["why", "run.csv", "--history", "nowhere"], "nowhere does not exist"),
        (vec!["why", "run.csv", "--history", "empty"], "empty holds no earlier run"),
        (vec!["why", "run.csv", "--storage", "run.csv"], "run.csv is no log of servers"),
        (vec!["why", "run.csv", "--storage", "prometheus:ftp://x"], "ftp is not supported"),
        (
            vec!["why", "run.csv", "--daemon", "nowhere", "--storage", "daemon"],
            "no daemon answers at nowhere",
        ),
        (vec!["why", "--job", "4711", "--daemon", "nowhere"], "no daemon answers at nowhere"),
        (vec!["why", "run.csv", "--storage", "series.csv", "series.csv"], "series.csv is given twice"),
        (vec!["why", "run.csv", "--storage", "series.csv", "daemon"], "daemon cannot be added up"),
        (vec!["why", "run.csv", "--storage", "series.csv", "--query", "x"], "--query is for"),
    ] {
        let outcome = dir.command([]).args(&args).output().unwrap();
        let complaint = crate::util::Outcome::of(outcome).exits_with(2).complaint();
        assert!(complaint.contains(said), "{args:?}: {complaint}");
    }
}

/// A log of servers as counters of Lustre's targets, of which each has half.
fn as_metrics(log: &str) -> String {
    let mut metrics = String::from("# TYPE lustre_write_bytes counter\n");
    for target in ["OST0000", "OST0001"] {
        let mut total = 0.0;
        for row in log.lines().skip(1) {
            let cells: Vec<f64> = row.split(',').map(|cell| cell.parse().unwrap()).collect();
            // A value holds for two seconds, and the counter has it at their end.
            total += cells[2];
            let at_s = cells[0] + 2.0;
            metrics += &format!(
                "lustre_write_bytes_total{{component=\"ost\",target=\"{target}\"}} {total} {at_s}\n"
            );
        }
    }
    metrics + "# EOF\n"
}

#[test]
fn a_prometheus_server_tells_the_same_as_the_log_that_it_was_filled_with() {
    let (Some(prometheus), Some(promtool)) =
        (iotide_testkit::program("prometheus"), iotide_testkit::program("promtool"))
    else {
        return;
    };
    let dir = Dir::new();
    disturbed(&dir);
    let server = crate::signature::Prometheus::with(
        dir.path(),
        &prometheus,
        &promtool,
        &as_metrics(&dir.read("servers.csv")),
    );
    let storage = format!("prometheus:{}", server.url);
    let by = |more: &[&str]| {
        let mut command = dir.command(["why", "run.csv", "--history", "earlier", "--format", "json"]);
        let output = command.args(["--step", "2", "--storage", &storage]).args(more).output().unwrap();
        crate::util::Outcome::of(output)
    };
    let file = dir
        .iotide(["why", "run.csv", "--history", "earlier", "--storage", "servers.csv", "--format", "json"])
        .exits_with(0)
        .json();
    let usual = by(&[]).exits_with(0).json();
    let own = by(&["--query", "irate(lustre_write_bytes_total[5m])"]).exits_with(0).json();
    for (json, asked) in [(&usual, "node_disk_written_bytes_total"), (&own, "for irate(lustre_write")] {
        let (why, of_file) = (&json["runs"][0]["why"], &file["runs"][0]["why"]);
        assert_eq!(why["verdict"], "others", "{why:#}");
        let others = |why: &serde_json::Value| why["parts"]["others"].as_f64().unwrap();
        assert!((others(why) - others(of_file)).abs() < 0.05, "{why:#} {of_file:#}");
        let source = why["evidence"].as_array().unwrap().last().unwrap();
        assert_eq!(source["kind"], "load_source");
        assert!(source["text"].as_str().unwrap().contains(asked), "{source}");
    }
    // A server that has nothing of that time: the answer is that without a log.
    let nothing = by(&["--query", "no_such_metric"]).exits_with(1).json();
    assert_eq!(nothing["runs"][0]["why"]["verdict"], "unknown");
    let wrong = by(&["--query", "sum("]).exits_with(2).complaint();
    assert!(wrong.contains("refuses the query"), "{wrong}");
}

#[test]
fn open_cases_have_their_verdicts() {
    let Some(cases) = iotide_testkit::shared_data("why") else { return };
    let dir = Dir::new();
    for case in
        std::fs::read_dir(cases).unwrap().map(|case| case.unwrap().path()).filter(|case| case.is_dir())
    {
        let truth: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(case.join("truth.json")).unwrap()).unwrap();
        let path = |name: &str| case.join(name).display().to_string();
        let mut command = dir.command(["why"]);
        command.arg(path("run.csv")).args(["--format", "json"]);
        for (flag, name) in [("--history", "history"), ("--storage", "server.csv")] {
            if case.join(name).exists() {
                command.args([flag, &path(name)]);
            }
        }
        let outcome = crate::util::Outcome::of(command.output().unwrap());
        let json = outcome.json();
        let why = &json["runs"][0]["why"];
        assert!(truth["accept"].as_array().unwrap().contains(&why["verdict"]), "{}: {why:#}", case.display());
        if let Some(factor) = why["slowdown"]["factor"].as_f64() {
            let error = (factor / truth["factor"].as_f64().unwrap()).ln().abs();
            assert!(error < 0.1, "{}: {factor} for {}", case.display(), truth["factor"]);
        }
    }
}

#[test]
fn a_comparison_tells_what_of_the_difference_is_its_own() {
    let dir = Dir::new();
    disturbed(&dir);
    dir.write("more.csv", made(7, 8, |_| 1.0).table);
    let json = dir
        .iotide(["compare", "earlier/0.csv", "more.csv", "--why", "--format", "json"])
        .exits_with(0)
        .json();
    assert_eq!(
        (&json["why"][0]["side"], &json["why"][0]["verdict"]),
        (&"B".into(), &"own".into()),
        "{json:#}"
    );
    let text = dir.iotide(["compare", "earlier/0.csv", "more.csv", "--why"]).exits_with(0).stdout;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("B against A. The program itself: its I/O took 2 times as long"), "{text}");
    // Several runs on a side, and the load of the storage.
    let mut command = dir.command(["compare"]);
    command.args(["earlier/0.csv", "earlier/1.csv", "earlier/2.csv", "earlier/3.csv", "earlier/4.csv"]);
    command.args(["--with", "run.csv", "--storage", "servers.csv", "--format", "json"]);
    let json = crate::util::Outcome::of(command.output().unwrap()).exits_with(0).json();
    assert_eq!(
        (&json["why"][0]["verdict"], &json["why"][0]["n_history"]),
        (&"others".into(), &5.into()),
        "{json:#}"
    );
    // Of another program, and where nobody asked, there is nothing to say.
    dir.write("other.csv", made(7, 4, |_| 1.0).table.replace("/opt/solver", "/opt/other"));
    let json =
        dir.iotide(["compare", "run.csv", "other.csv", "--why", "--format", "json"]).exits_with(0).json();
    assert!(json.get("why").is_none(), "{json:#}");
}

#[test]
fn a_report_tells_why_the_run_was_slow() {
    let dir = Dir::new();
    disturbed(&dir);
    let results = ["categorize", "earlier", "--out", "results"];
    dir.iotide(results).exits_with(0);
    let args = ["report", "run.csv", "--history", "results", "--storage", "servers.csv", "-o", "run.html"];
    dir.iotide(args).exits_with(0);
    let page = dir.read("run.html");
    assert!(page.contains("Own I/O, others or the storage?") && page.contains("phase: others"), "{page}");
    let args = ["report", "run.csv", "--history", "results", "--storage", "servers.csv", "--format", "json"];
    let json = dir.iotide(args).exits_with(0).json();
    let why = &json["runs"][0]["why"];
    assert_eq!((&why["verdict"], &why["n_history"]), (&"others".into(), &6.into()), "{why:#}");
    let text =
        dir.iotide(["report", "run.csv", "--history", "results", "--format", "text"]).exits_with(0).stdout;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("not by the program's own requests"), "{text}");
    assert!(dir.iotide(["report", "run.csv", "--format", "json"]).json()["runs"][0].get("why").is_none());
}

#[test]
fn an_archive_tells_who_lost_time_and_who_caused_it() {
    let dir = Dir::new();
    disturbed(&dir);
    std::fs::rename(dir.path().join("run.csv"), dir.path().join("earlier/slow.csv")).unwrap();
    // Another program moved most of what filled the storage while phases 2 to 5 were slow.
    let zero_s = START_S + DAY_S * 7.0;
    let mut loader = format!("# start_time={zero_s}\n# exe=/opt/loader\nrank,op,start,end,bytes\n");
    for i in 0..100 {
        loader += &format!("0,write,{},{},{}\n", 60 + 2 * i, 62 + 2 * i, 2.4e8);
    }
    dir.write("earlier/loader.csv", loader);
    dir.iotide(["categorize", "earlier", "--out", "results"]).exits_with(0);
    let args = ["why", "--archive", "results", "--storage", "servers.csv", "--format", "json"];
    let json = dir.iotide(args).exits_with(0).json();
    let archive = &json["archive"];
    assert_eq!(
        (&json["command"], &archive["n_runs"], &archive["n_slow"]),
        (&"why".into(), &8.into(), &1.into())
    );
    let slow: Vec<&serde_json::Value> =
        archive["runs"].as_array().unwrap().iter().filter(|run| run["is_slow"] == true).collect();
    assert!(
        slow[0]["path"].as_str().unwrap().ends_with("slow.csv") && slow[0]["verdict"] == "others",
        "{slow:?}"
    );
    let of = |name: &str| {
        let all = archive["applications"].as_array().unwrap();
        all.iter().find(|one| one["application"] == name).unwrap_or_else(|| panic!("{all:?}")).clone()
    };
    let (solver, loader) = (of("solver"), of("loader"));
    assert_eq!((&solver["n_slow"], &loader["n_slow"]), (&1.into(), &0.into()));
    assert!(solver["lost"]["others_s"].as_f64().unwrap() > 10.0, "{solver}");
    let share = |of: &serde_json::Value| of["caused_share"].as_f64().unwrap();
    assert!(share(&loader) > 0.5 && share(&solver) == 0.0, "{loader} {solver}");
    let hours = archive["hours"].as_array().unwrap();
    assert_eq!(hours.iter().map(|hour| hour["n_slow"].as_u64().unwrap()).sum::<u64>(), 1);
    assert_eq!(
        archive["weeks"].as_array().unwrap().iter().map(|week| week["n_runs"].as_u64().unwrap()).sum::<u64>(),
        8
    );

    let text = dir.iotide(["why", "--archive", "results", "--storage", "servers.csv"]).exits_with(0).stdout;
    assert!(text.starts_with("1 of 8 runs were slow") && text.contains("of the load of others"), "{text}");
    dir.iotide(["why", "--archive", "results", "--storage", "servers.csv", "-o", "slow.html"]).exits_with(0);
    assert!(dir.read("slow.html").contains("Lost I/O time by hour"));
}

#[test]
fn an_archive_marks_slow_runs_beside_those_of_an_earlier_one_by_week_and_by_file_system() {
    let dir = Dir::new();
    disturbed(&dir);
    std::fs::create_dir(dir.path().join("now")).unwrap();
    // With files, whose folders say on which file system the run was.
    let with_file = |line: &str| match line {
        line if line.starts_with('#') => format!("{line}\n"),
        line if line.starts_with("rank") => format!("{line},file\n"),
        line => format!("{line},/scratch/ada/out\n"),
    };
    dir.write("now/run.csv", dir.read("run.csv").lines().map(with_file).collect::<String>());
    dir.iotide(["categorize", "earlier", "--out", "old"]).exits_with(0);
    let args = ["categorize", "now", "--out", "new", "--history", "old", "--storage", "servers.csv"];
    let text = dir.iotide(args).exits_with(0).stdout;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("1 of 1 run were slow"), "{text}");
    assert!(text.contains("file system /scratch: 1 of 1 slow"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&dir.read("new/statistics.json")).unwrap();
    let slow = &json["statistics"]["slow"];
    assert_eq!((&slow["n_runs"], &slow["n_slow"]), (&1.into(), &1.into()), "{slow:#}");
    let run = &slow["runs"][0];
    assert_eq!((&run["verdict"], &run["file_system"]), (&"others".into(), &"/scratch".into()), "{run:#}");
    assert!(run["lost"]["others_s"].as_f64().unwrap() > 10.0, "{run:#}");
    assert_eq!(slow["weeks"].as_array().unwrap().len(), 1);
    assert_eq!(slow["file_systems"][0]["n_slow"], 1);
    let page = dir.read("new/index.html");
    assert!(page.contains("Slow runs, and why") && page.contains("/scratch"), "{page}");

    // Beside its own runs, and where nobody asked.
    let args = ["categorize", "earlier", "--out", "old", "--history", "old", "--format", "json"];
    let slow = dir.iotide(args).exits_with(0).json()["statistics"]["slow"].clone();
    assert_eq!((&slow["n_runs"], &slow["n_slow"]), (&6.into(), &0.into()), "{slow:#}");
    let json = dir.iotide(["categorize", "earlier", "--out", "old", "--format", "json"]).exits_with(0).json();
    assert!(json["statistics"].get("slow").is_none());
    for args in [["earlier", "--history", "old"], ["earlier", "--storage", "servers.csv"]] {
        let mut command = dir.command(["categorize"]);
        let failed = crate::util::Outcome::of(command.args(args).output().unwrap()).exits_with(2);
        assert!(failed.stderr.contains("--history"), "{}", failed.stderr);
    }
}
