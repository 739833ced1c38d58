//! Samples that a real Prometheus holds after remote writes.

use std::collections::BTreeMap;

use super::*;

/// Something that runs until this is dropped.
pub(super) struct Running(pub(super) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Debian's Prometheus with these settings, at a port.
pub(super) fn start_prometheus(
    program: &Path,
    dir: &FreshDir,
    settings: &str,
    port: u16,
    more: &[&str],
) -> Running {
    let config = dir.write("prometheus.yml", settings);
    let mut command = Command::new(program);
    command
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.tsdb.path={}", dir.join("tsdb").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .arg("--log.level=error")
        .args(more);
    Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

/// Series and their values, as Prometheus answers a question; nothing while it does not answer.
pub(super) fn asked(curl: &Path, port: u16, query: &str) -> BTreeMap<String, f64> {
    let output = Command::new(curl)
        .args(["-s", "-m", "10", "-G", "--data-urlencode", &format!("query={query}")])
        .arg(format!("http://127.0.0.1:{port}/api/v1/query"))
        .output()
        .unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    let of_series = |series: &Value| {
        let labels: BTreeMap<String, String> = serde_json::from_value(series["metric"].clone()).unwrap();
        assert_eq!(labels["instance"], "n1");
        (series_name(labels), series["value"][1].as_str().unwrap().parse().unwrap())
    };
    answer["data"]["result"].as_array().map_or(BTreeMap::new(), |all| all.iter().map(of_series).collect())
}

fn series_name(mut labels: BTreeMap<String, String>) -> String {
    labels.remove("instance");
    let name = labels.remove("__name__").unwrap();
    format!("{name}{labels:?}")
}

/// The same of `/metrics`.
fn shown(dir: &FreshDir) -> BTreeMap<String, f64> {
    let (_, text) = unix_get(dir, "/metrics");
    let of_line = |line: &str| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let labels = labels.trim_end_matches('}').split(',').filter(|label| !label.is_empty());
        let mut labels: BTreeMap<String, String> = labels
            .map(|label| label.split_once('=').unwrap())
            .map(|(name, value)| (name.to_owned(), value.trim_matches('"').to_owned()))
            .collect();
        labels.insert("__name__".to_owned(), name.to_owned());
        (series_name(labels), value.parse().unwrap())
    };
    let is_wanted = |line: &&str| {
        ["iotide_job_io_", "iotide_node_io_", "iotide_fs_"].iter().any(|it| line.starts_with(it))
    };
    text.lines().filter(is_wanted).map(of_line).collect()
}

#[test]
fn a_prometheus_that_is_written_to_holds_what_metrics_shows() {
    let (Some(prometheus), Some(curl)) = (program("prometheus"), program("curl")) else { return };
    let dir = FreshDir::new("serve-remote-write");
    let port = iotide_testkit::port();
    let settings = format!(
        "remote_write = [\"http://127.0.0.1:{port}/api/v1/write\"]\nremote_write_every = \"500ms\"\ncgroups = \"none\"\n"
    );
    let settings = dir.write("serve.toml", settings);
    let daemon = Daemon::start_with(&dir, Command::new(IOTIDE), &["--config", settings.to_str().unwrap()]);
    let figure = |name: &str| -> f64 {
        let (_, text) = unix_get(&dir, "/metrics");
        let line = format!("iotide_daemon_remote_write_{name}{{target=\"127.0.0.1:{port}\"}} ");
        text.lines()
            .find_map(|line_of| line_of.strip_prefix(&line))
            .unwrap_or_else(|| panic!("{name}: {text}"))
            .parse()
            .unwrap()
    };
    // Nobody is there yet: it waits.
    while figure("failing") == 0.0 || figure("waiting_samples") == 0.0 {
        std::thread::sleep(Duration::from_millis(50));
    }
    let _prometheus = start_prometheus(
        &prometheus,
        &dir,
        "scrape_configs: []\n",
        port,
        &["--web.enable-remote-write-receiver"],
    );
    // The shell stays: a job whose one process becomes a program that does nothing may count as ended.
    let script =
        "dd if=/dev/zero of=out bs=1000 count=10 status=none; sleep 1000 & trap 'kill $!; exit' TERM; wait";
    let job = Running(record(&dir, "4711").args(["sh", "-c", script]).spawn().unwrap());
    let query = "{__name__=~\"iotide_(job_io|node_io|fs)_.*\"}";
    let written = "iotide_job_io_bytes_total{\"job\": \"4711\", \"op\": \"write\"}";
    loop {
        let held = asked(&curl, port, query);
        if held.get(written) == Some(&10_000.0) && held == shown(&dir) {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    // A job that has ended has no value any more, and what was sent before it is held.
    assert!(Command::new("kill").arg(job.0.id().to_string()).status().unwrap().success());
    daemon.job("4711", "ended");
    while asked(&curl, port, query).keys().any(|series| series.starts_with("iotide_job")) {
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(asked(&curl, port, "iotide_node_io_bytes_total{op=\"write\"}").len(), 1);
    while figure("waiting_samples") > 0.0 {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(figure("samples_total") > 0.0 && figure("lost_samples_total") == 0.0);
    daemon.kill();
}
