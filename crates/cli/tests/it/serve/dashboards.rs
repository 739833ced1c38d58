//! Dashboards and rules for Prometheus and Grafana, against what a daemon really exports and a real Prometheus.

use std::collections::BTreeSet;

use super::remote_write::start_prometheus;
use super::*;

fn dist(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist").join(name)
}

/// A group of processes, ended when dropped.
struct Held(Child);

impl Drop for Held {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.0.id())]).status();
        let _ = self.0.wait();
    }
}

/// Expressions of a dashboard, for one job.
fn expressions(of: &Value, found: &mut Vec<String>) {
    match of {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value.as_str() {
                    Some(text) if name == "expr" => found.push(text.replace("$job", "beat")),
                    _ => expressions(value, found),
                }
            }
        }
        Value::Array(all) => all.iter().for_each(|one| expressions(one, found)),
        _ => {}
    }
}

/// Names of metrics in a text: ours, and those that rules record.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || "_:".contains(c);
    let words = text.split(|c: char| !is_part(c));
    words
        .filter(|word| word.starts_with("iotide_") || word.starts_with("iotide:"))
        .map(str::to_owned)
        .collect()
}

fn prometheus_says(curl: &Path, port: u16, query: &str) -> Value {
    let output = Command::new(curl)
        .args(["-s", "-m", "10", "-G", "--data-urlencode", &format!("query={query}")])
        .arg(format!("http://127.0.0.1:{port}/api/v1/query"))
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

#[test]
fn dashboards_and_rules_ask_for_what_is_exported() {
    let (Some(promtool), Some(prometheus), Some(curl)) =
        (program("promtool"), program("prometheus"), program("curl"))
    else {
        return;
    };
    let rules = dist("prometheus/iotide.rules.yml");
    let checked = Command::new(promtool).args(["check", "rules"]).arg(&rules).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));

    // A root with a node below it, someone to notify, and a job with a rhythm.
    let dir = FreshDir::new("serve-dashboards");
    let (key, children) = (dir.join("tree.key"), format!("127.0.0.1:{}", iotide_testkit::port()));
    assert!(Command::new(IOTIDE).args(["serve", "key"]).arg(&key).status().unwrap().success());
    let options =
        ["--children", &children, "--key", key.to_str().unwrap(), "--webhook", "http://127.0.0.1:9/"];
    let daemon = Daemon::start_with(&dir, Command::new(IOTIDE), &options);
    let below = FreshDir::new("serve-dashboards-below");
    let options = ["--parent", &children, "--key", key.to_str().unwrap(), "--node", "n2"];
    let mut command = Command::new(IOTIDE);
    command.args(["serve", "--http", "none"]).args(options);
    for (option, name) in [("--socket", "socket"), ("--store", "store"), ("--pages", "pages")] {
        command.arg(option).arg(below.join(name));
    }
    let _leaf = Held(command.stderr(Stdio::null()).process_group(0).spawn().unwrap());
    let script = "while head -c 300000 /dev/zero > out; do sleep 1; done";
    let _job = Held(record(&dir, "beat").args(["sh", "-c", script]).spawn().unwrap());
    let port = iotide_testkit::port();
    let settings = format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [{}]\nscrape_configs:\n  - job_name: iotide\n    honor_labels: true\n    \
         authorization: {{ type: Bearer, credentials_file: {} }}\n    static_configs: [{{ targets: [\"{}\"] }}]\n",
        fs::canonicalize(&rules).unwrap().display(),
        dir.join("store/token").display(),
        daemon.http
    );
    let _prometheus = start_prometheus(&prometheus, &dir, &settings, port, &[]);

    let mut asked = Vec::new();
    for name in ["iotide-storage.json", "iotide-job.json"] {
        let text = fs::read_to_string(dist("grafana").join(name)).unwrap();
        let dashboard: Value = serde_json::from_str(&text).unwrap();
        let before = asked.len();
        expressions(&dashboard, &mut asked);
        assert!(asked.len() > before + 5, "{name}");
    }
    let rules = fs::read_to_string(&rules).unwrap();
    let rules: String =
        rules.lines().filter(|line| !line.trim_start().starts_with('#')).collect::<Vec<_>>().join("\n");
    let recorded: BTreeSet<String> =
        rules.lines().filter_map(|line| Some(line.split_once("record: ")?.1.trim().to_owned())).collect();
    let mut wanted = names(&asked.join("\n"));
    wanted.extend(names(rules.split("groups:").nth(1).unwrap()));
    wanted.retain(|name| {
        !["iotide_records", "iotide_alerts"].contains(&name.as_str()) && !recorded.contains(name)
    });
    assert!(wanted.len() > 15, "{wanted:?}");
    let missing = || -> Vec<String> {
        let (_, text) = unix_get(&dir, "/metrics");
        let exported: BTreeSet<&str> =
            text.lines().filter_map(|line| line.split([' ', '{']).next()).collect();
        wanted.iter().filter(|name| !exported.contains(name.as_str())).cloned().collect()
    };
    // What a rhythm needs time for comes last.
    let is_there = (0..600).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        missing().is_empty()
    });
    assert!(is_there, "never exported: {:?}", missing());
    // Prometheus takes what is exported, records by the rules, and understands every question.
    let query = r#"iotide:user_io_bytes:rate1m{op="write"} > 0"#;
    while prometheus_says(&curl, port, query)["data"]["result"].as_array().is_none_or(Vec::is_empty) {
        std::thread::sleep(Duration::from_millis(100));
    }
    for query in &asked {
        let answer = prometheus_says(&curl, port, query);
        assert_eq!(answer["status"], "success", "{query}: {answer}");
    }
    let answered = |query: &String| {
        prometheus_says(&curl, port, query)["data"]["result"].as_array().is_some_and(|all| !all.is_empty())
    };
    let n_answered = asked.iter().filter(|query| answered(query)).count();
    assert!(n_answered * 10 >= asked.len() * 8, "{n_answered} of {} have an answer", asked.len());
}
