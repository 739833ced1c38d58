//! Metrics over time, and what becomes of the store when its disk is full or its files are damaged.

use super::*;
use iotide_testkit::{Missing, skip};

/// A job that writes so often, a little later each time.
fn write_job(dir: &FreshDir, id: &str, n: u32, pause: &str) {
    let counts: Vec<String> = (1..=n).map(|i| (i * 10).to_string()).collect();
    let script = format!(
        "for n in {}; do dd if=/dev/zero of=out bs=1000 count=$n status=none; sleep {pause}; done",
        counts.join(" ")
    );
    assert!(record(dir, id).args(["sh", "-c", &script]).status().unwrap().success());
}

fn get(dir: &FreshDir, path: &str) -> Value {
    let (status, body) = unix_get(dir, path);
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

/// The values of a metric; empty until there are some.
fn series(dir: &FreshDir, id: &str, query: &str) -> Value {
    let (status, body) = unix_get(dir, &format!("/api/1/jobs/{id}/series?{query}"));
    if status == 200 { serde_json::from_str(&body).unwrap() } else { Value::Null }
}

fn last(series: &Value) -> Option<u64> {
    series["values"].as_array()?.iter().filter_map(Value::as_u64).next_back()
}

/// Waits until the last value of a metric is what it should be.
fn wait_for_last(dir: &FreshDir, id: &str, metric: &str, value: &Value) {
    while last(&series(dir, id, &format!("metric={metric}"))) != value.as_u64() {
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn metrics_of_a_job_over_time_end_with_its_totals_and_survive_the_daemon() {
    let dir = FreshDir::new("serve-series");
    let daemon = Daemon::start(&dir);
    write_job(&dir, "4711", 4, "0.7");
    let job = daemon.job("4711", "ended");
    let written = &job["io"]["bytes_written"];
    assert_eq!(written.as_u64(), Some(100_000));
    wait_for_last(&dir, "4711", "write_bytes", written);
    wait_for_last(&dir, "4711", "write_calls", &job["io"]["calls_written"]);

    let all = series(&dir, "4711", "metric=write_bytes");
    assert_eq!((&all["period_s"], &all["folds"], &all["kind"]), (&1.into(), &0.into(), &"counter".into()));
    let values = all["values"].as_array().unwrap();
    assert!(values.len() >= 3, "{all}");
    assert_eq!(all["nodes_reporting"].as_array().unwrap().len(), values.len());
    assert!(values.iter().filter_map(Value::as_u64).is_sorted());
    let t0 = all["t0_unix_s"].as_f64().unwrap();
    assert!((t0 - job["start_unix_s"].as_f64().unwrap()).abs() < 3.0, "{all}");
    // Fewer points end with the same total; a part of the time is a part of the values.
    let two = series(&dir, "4711", "metric=write_bytes&points=2");
    assert!(two["values"].as_array().unwrap().len() <= 2 && last(&two) == written.as_u64(), "{two}");
    let first = series(&dir, "4711", &format!("metric=write_bytes&to={t0}"));
    assert_eq!(first["values"].as_array().unwrap().len(), 1);

    for (question, status) in [
        ("4711/series", 400),
        ("4711/series?metric=nothing", 404),
        ("4711/series?metric=write_bytes&points=0", 400),
        ("4711/series?metric=write_bytes&from=x", 400),
        ("4712/series?metric=write_bytes", 404),
        ("..%2f..%2fevil/series?metric=write_bytes", 400),
    ] {
        assert_eq!(unix_get(&dir, &format!("/api/1/jobs/{question}")).0, status, "{question}");
    }
    let metrics = get(&dir, "/api/1/jobs/4711/metrics");
    let names: Vec<&str> =
        metrics["metrics"].as_array().unwrap().iter().map(|it| it["metric"].as_str().unwrap()).collect();
    for name in ["read_bytes", "write_ns", "open_calls", "threads_ns", "processes"] {
        assert!(names.contains(&name), "{names:?}");
    }

    // As the metric proxy has them.
    let list = get(&dir, "/trace/list");
    let of_job = list.as_array().unwrap().iter().find(|job| job["jobid"] == "4711").unwrap();
    assert!(of_job["end_time"].as_u64() > Some(0));
    let names = get(&dir, "/trace/metrics?job=4711");
    assert!(names.as_array().unwrap().contains(&"deriv__write_bytes".into()), "{names}");
    let plot = get(&dir, "/trace/plot?job=4711&filter=write_bytes");
    assert_eq!(plot.as_array().unwrap().last().unwrap()[1], *written);
    let rates = get(&dir, "/trace/plot?job=4711&filter=deriv__write_bytes");
    let moved: f64 = rates.as_array().unwrap().iter().map(|pair| pair[1].as_f64().unwrap()).sum();
    assert!((moved - 100_000.0).abs() < 1e-6, "{rates}");
    let trace = dir.write("trace.json", unix_get(&dir, "/trace/read?job=4711").1);
    let info = Command::new(IOTIDE).arg("info").arg(trace).args(["--format", "json"]).output().unwrap();
    let info: Value = serde_json::from_slice(&info.stdout).unwrap();
    assert_eq!(info["runs"][0]["source"]["format"], "proxy", "{info:#}");
    // All of it: what was written before the first sample is not left out.
    assert_eq!(info["runs"][0]["source"]["bytes_written"].as_f64(), Some(100_000.0), "{info:#}");
    for of in ["main", "Node:+n1"] {
        let plot = get(&dir, &format!("/trace/plot?job={of}&filter=load1"));
        assert_eq!(plot[0][0].as_f64(), Some(0.0), "times count from the first sample: {plot}");
    }
    let node = get(&dir, "/api/1/nodes/n1/series?metric=load1");
    assert_eq!(node["kind"], "gauge");

    // The picture, and the same from the file alone.
    let picture = |daemon: &Daemon<'_>| {
        let job = daemon.job("4711", "ended");
        let sum: f64 = job["rates"]["write_bps"].as_array().unwrap().iter().filter_map(Value::as_f64).sum();
        let moved = sum * job["rates"]["period_s"].as_f64().unwrap();
        assert!((moved - 100_000.0).abs() < 1e-6, "{job:#}");
        let text = String::from_utf8(ask(&dir, &["job", "4711"]).stdout).unwrap();
        assert!(text.contains("writing  ") && text.contains("  up to "), "{text}");
    };
    picture(&daemon);
    let path = loop {
        let files = fs::read_dir(dir.join("store/series")).unwrap().map(|entry| entry.unwrap().path());
        let mut of_job =
            files.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("4711."));
        match of_job.next().filter(|path| fs::metadata(path).is_ok_and(|file| file.len() > 0)) {
            Some(path) => break path,
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    daemon.kill();
    let daemon = Daemon::start(&dir);
    picture(&daemon);
    assert_eq!(series(&dir, "4711", "metric=write_bytes"), all);

    // A file that was cut is read as far as it goes, and says so.
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    let cut = unix_get(&dir, "/api/1/jobs/4711/series?metric=write_bytes");
    assert!(cut.1.contains("series: the file was damaged"), "{cut:?}");
    assert_eq!(daemon.job("4711", "ended")["io"]["bytes_written"], *written, "counts are not touched");
}

#[test]
fn others_do_not_see_the_series_of_a_job() {
    let (Some(setpriv), Some(curl)) = (program("setpriv"), program("curl")) else { return };
    if !iotide_testkit::is_root() {
        return;
    }
    let dir = FreshDir::new("serve-series-others");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let daemon = Daemon::start(&dir);
    write_job(&dir, "mine", 1, "0");
    daemon.job("mine", "ended");
    assert_eq!(unix_get(&dir, "/trace/metrics?job=mine").0, 200);
    let other = |path: &str| {
        let mut command = Command::new(&setpriv);
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&curl);
        command.args(["-s", "-i", "--unix-socket"]).arg(dir.join("socket")).arg(format!("http://x{path}"));
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    for path in [
        "/api/1/jobs/mine/series?metric=write_bytes",
        "/api/1/jobs/mine/metrics",
        "/trace/metrics?job=mine",
        "/trace/plot?job=mine&filter=write_bytes",
        "/trace/read?job=mine",
    ] {
        assert!(other(path).starts_with("HTTP/1.1 404"), "{path}: {}", other(path));
    }
    assert!(!other("/trace/list").contains("mine"));
    assert!(daemon.get_tcp("/trace/list", "").0 == 401);
}

/// Whether a metric of the daemon's is 1.
fn is_failing(daemon: &Daemon<'_>, what: &str) -> bool {
    let (_, text) = daemon.get_tcp("/metrics", "");
    text.contains(&format!("iotide_daemon_{what}_failing 1\n"))
}

#[test]
fn a_full_disk_stops_series_first_and_job_rows_last_and_both_go_on_when_there_is_room() {
    if program("unshare").is_none() {
        return;
    }
    let dir = FreshDir::new("serve-full");
    fs::create_dir(dir.join("store")).unwrap();
    let script = "mount -t tmpfs -o size=4m,mode=700 none \"$0\" && exec \"$@\"";
    let mut probe = Command::new("unshare");
    probe.args(["-m", "sh", "-c", script]).arg(dir.join("store")).arg("true");
    if !probe.output().unwrap().status.success() {
        return skip(Missing::Data, "of a tmpfs of its own: no right to mount one");
    }
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script]).arg(dir.join("store")).arg(IOTIDE);
    let daemon = Daemon::start_by(&dir, command);
    // The daemon's own view of its store.
    let store = PathBuf::from(format!("/proc/{}/root{}", daemon.child.id(), dir.join("store").display()));
    write_job(&dir, "before", 2, "0.6");
    let before = daemon.job("before", "ended");
    wait_for_last(&dir, "before", "write_bytes", &before["io"]["bytes_written"]);
    assert!(!is_failing(&daemon, "series") && !is_failing(&daemon, "store"));

    // Less than a quarter is left: that is for rows of jobs.
    let fill = |name: &str, left: usize| {
        let mut file = fs::File::create(store.join(name)).unwrap();
        let page = vec![b'x'; 4096];
        while file.write_all(&page).is_ok() {}
        if left > 0 {
            let length = file.metadata().unwrap().len();
            file.set_len(length - left as u64).unwrap();
        }
    };
    fill("ballast", 900 << 10);
    write_job(&dir, "during", 2, "0.6");
    let during = daemon.job("during", "ended");
    assert_eq!(during["io"]["bytes_written"], before["io"]["bytes_written"]);
    while !is_failing(&daemon, "series") {
        std::thread::sleep(Duration::from_millis(50));
    }
    let losses = get(&dir, "/api/1/losses").to_string();
    assert!(losses.contains("series: metrics over time are not stored"), "{losses}");
    assert!(!is_failing(&daemon, "store"));

    // Nothing is left: rows of jobs wait in the pages.
    fill("ballast2", 0);
    let mut n_full = 0;
    while !is_failing(&daemon, "store") {
        write_job(&dir, &format!("full-{n_full}"), 1, "0");
        n_full += 1;
        assert!(n_full < 100, "the database takes no room");
    }
    let fault = get(&dir, "/api/1/losses").to_string();
    assert!(fault.contains("the database in"), "{fault}");

    for name in ["ballast", "ballast2"] {
        fs::remove_file(store.join(name)).unwrap();
    }
    for n in 0..n_full {
        assert_eq!(daemon.job(&format!("full-{n}"), "ended")["io"]["bytes_written"].as_u64(), Some(10_000));
    }
    write_job(&dir, "after", 2, "0.6");
    let after = daemon.job("after", "ended");
    wait_for_last(&dir, "after", "write_bytes", &after["io"]["bytes_written"]);
    // What was held meanwhile is there, too.
    wait_for_last(&dir, "during", "write_bytes", &during["io"]["bytes_written"]);
    while is_failing(&daemon, "series") || is_failing(&daemon, "store") {
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_damaged_database_is_set_aside_the_loss_is_named_and_the_daemon_runs() {
    let dir = FreshDir::new("serve-damaged");
    let mut daemon = Daemon::start(&dir);
    write_job(&dir, "old", 1, "0");
    daemon.job("old", "ended");
    assert!(Command::new("kill").arg(daemon.child.id().to_string()).status().unwrap().success());
    assert!(daemon.child.wait().unwrap().success());
    let path = dir.join("store/iotide.db");
    let whole = fs::read(&path).unwrap();
    for (round, damage) in ["junk", "cut", "middle"].into_iter().enumerate() {
        let mut bytes = whole.clone();
        match damage {
            "junk" => bytes.fill(b'x'),
            "cut" => bytes.truncate(whole.len() / 2 + 100),
            _ => bytes[4096..4096 + 64].fill(0xff),
        }
        fs::write(&path, bytes).unwrap();
        let daemon = Daemon::start(&dir);
        let losses = get(&dir, "/api/1/losses").to_string();
        assert!(losses.contains("it was set aside as iotide.db.damaged-"), "{damage}: {losses}");
        // As far as its metrics over time tell.
        let old = daemon.job("old", "partial");
        assert_eq!(old["io"]["bytes_written"].as_u64(), Some(10_000), "{damage}: {old:#}");
        assert!(old["losses"].to_string().contains("rebuilt from its metrics over time"), "{old:#}");
        let id = format!("new-{round}");
        write_job(&dir, &id, 1, "0");
        assert_eq!(daemon.job(&id, "ended")["io"]["bytes_written"].as_u64(), Some(10_000), "{damage}");
        daemon.kill();
        // And again: what was stored since is there, and so is the word of the loss.
        let daemon = Daemon::start(&dir);
        assert_eq!(daemon.job(&id, "ended")["io"]["bytes_written"].as_u64(), Some(10_000));
        assert!(get(&dir, "/api/1/losses").to_string().contains("set aside"), "{damage}");
        daemon.kill();
        for end in ["-wal", "-shm"] {
            let _ = fs::remove_file(dir.join(format!("store/iotide.db{end}")));
        }
    }
}

#[test]
fn the_period_of_a_job_is_found_by_its_name_alone_in_bytes_and_in_any_metric() {
    let dir = FreshDir::new("serve-detect");
    let daemon = Daemon::start(&dir);
    let script = "for n in 1 2 3 4 5 6; do date +%s.%N >> starts; \
        dd if=/dev/zero of=out bs=100k count=50 status=none; sleep 3; done";
    assert!(record(&dir, "4711").args(["sh", "-c", script]).status().unwrap().success());
    let job = daemon.job("4711", "ended");
    wait_for_last(&dir, "4711", "write_bytes", &job["io"]["bytes_written"]);
    // On a busy machine it is longer than the sleep.
    let starts = std::fs::read_to_string(dir.join("starts")).unwrap();
    let starts: Vec<f64> = starts.lines().map(|line| line.parse().unwrap()).collect();
    let true_s = (starts[5] - starts[0]) / 5.0;
    // As it was predicted while it ran, it is known afterwards. Samples are a second apart: the first phase and the last lie within one of theirs.
    let is_right = |found_s: f64| (found_s - true_s).abs() < 2.0 / 5.0;
    assert!(job["period_s"].as_f64().is_some_and(is_right), "{true_s} s: {job:#}");
    for metric in [&[][..], &["--metric", "write_calls"]] {
        let output = ask(&dir, &[&["detect", "--job", "4711", "--format", "json"], metric].concat());
        let found: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{metric:?}: {}", String::from_utf8_lossy(&output.stderr)));
        let period_s = found["runs"][0]["period"]["period_s"].as_f64();
        assert!(period_s.is_some_and(is_right), "{true_s} s, {metric:?}: {found:#}");
    }
    let fared = ask(&dir, &["measure", "--jobs", "4711", "--format", "json"]);
    let fared: serde_json::Value = serde_json::from_slice(&fared.stdout).unwrap();
    let of_job = &fared["measure"]["jobs"][0];
    assert!(of_job["n_phases"].as_u64().unwrap() >= 2, "{fared:#}");
    assert!((of_job["stretch"].as_f64().unwrap() - 1.0).abs() < 0.2, "alone: {fared:#}");
    let none = ask(&dir, &["detect", "--job", "4711", "--metric", "nothing"]);
    assert!(!none.status.success());
    let said = String::from_utf8_lossy(&none.stderr);
    assert!(said.contains("nothing"), "{said}");
}
