//! Metrics over time of machines in a tree: daemons above answer for all below them, by asking.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use iotide_testkit::FreshDir;
use serde_json::Value;

use crate::serve::{IOTIDE, get_at, kill_all};
use crate::tree::{Node, counted};

impl Node<'_> {
    /// Asks its daemon; returns the status and the answer.
    fn get(&self, path: &str) -> (u16, String) {
        get_at(&self.path("socket"), path)
    }

    fn json(&self, path: &str) -> Value {
        let (status, answer) = self.get(path);
        assert_eq!(status, 200, "{path}: {answer}\n{}", self.said());
        serde_json::from_str(&answer).unwrap()
    }

    /// Asks with a token.
    fn status_with(&self, token: &str, path: &str) -> u16 {
        let mut stream = UnixStream::connect(self.path("socket")).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n");
        write!(stream, "{head}Connection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer[9..12].parse().unwrap()
    }

    fn token(&self, role: &str) -> String {
        let mut command = Command::new(IOTIDE);
        let made =
            command.args(["serve", "token", "--role", role, "--store"]).arg(self.path("store")).output();
        String::from_utf8(made.unwrap().stdout).unwrap().trim().to_owned()
    }
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Returns the bytes written by a job; `None` while they are unknown.
fn written(job: &Value) -> Option<u64> {
    job["io"]["bytes_written"].as_u64()
}

fn names(metrics: &Value) -> Vec<&str> {
    metrics["metrics"].as_array().unwrap().iter().map(|it| it["metric"].as_str().unwrap()).collect()
}

#[test]
fn daemons_above_answer_for_machines_below_as_those_do_themselves() {
    let dir = FreshDir::new("tree-series");
    let mut root = Node::new(&dir, "root", Vec::new(), Some("127.0.0.1:0".to_owned()), dir.join("tree.key"));
    assert!(
        Command::new(IOTIDE).args(["serve", "key"]).arg(dir.join("tree.key")).status().unwrap().success()
    );
    fs::DirBuilder::new().mode(0o700).create(root.path("store")).unwrap();
    let [controller, user] = ["controller", "user:65534"].map(|role| root.token(role));
    root.start_again();
    let middle = Node::above(&dir, "middle", &[&root]);
    let leaf = Node::leaf(&dir, "leaf", &[&middle]);
    root.nodes(3);
    assert!(leaf.skeleton("below", "50ms", "40").wait().unwrap().success());
    assert_eq!(counted(&root.ended("below")), leaf.moved("below"));
    let moved = leaf.moved("below");
    // The sample of the end is there.
    let last = |node: &Node<'_>| {
        let series = node.json("/api/1/nodes/leaf/series?metric=write_bytes");
        series["values"].as_array().unwrap().iter().rev().find_map(Value::as_u64)
    };
    while last(&leaf) != Some(moved[1]) {
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(last(&root), Some(moved[1]));

    // What is past does not change while it is asked for.
    let to = now_s() - 1;
    std::thread::sleep(Duration::from_secs(1));
    for (node, name) in [(&leaf, "leaf"), (&middle, "middle")] {
        let metrics = node.json(&format!("/api/1/nodes/{name}/metrics"));
        assert!(names(&metrics).contains(&"load1"), "{metrics}");
        for above in [&root, &middle] {
            assert_eq!(above.json(&format!("/api/1/nodes/{name}/metrics")), metrics);
            for metric in ["write_bytes", "load1", "cpu_user_ns", "memory_available_bytes"] {
                for more in ["", "&points=2", &format!("&points=10000&from={}", to - 2)] {
                    let path = format!("/api/1/nodes/{name}/series?metric={metric}&to={to}{more}");
                    let series = node.json(&path);
                    assert!(!series["values"].as_array().unwrap().is_empty(), "{path}: {series}");
                    assert_eq!(above.json(&path), series, "{path}");
                }
            }
        }
        let proxy = format!("?job=Node:+{name}");
        let own = node.json(&format!("/trace/metrics{proxy}"));
        assert_eq!(root.json(&format!("/trace/metrics{proxy}")), own);
        // Times count from a day ago, which moves on, and so does the end.
        let values = |node: &Node<'_>, path: &str| -> Vec<Value> {
            node.json(path).as_array().unwrap().iter().map(|pair| pair[1].clone()).collect()
        };
        for filter in ["write_bytes", "deriv__write_bytes", "load1"] {
            let path = format!("/trace/plot{proxy}&filter={filter}");
            let own = values(node, &path);
            assert_eq!(values(&root, &path)[..own.len() - 1], own[..own.len() - 1], "{path}");
        }
        let all = |node: &Node<'_>| node.json(&format!("/trace/read{proxy}"))["metrics"].clone();
        let (own, at_root) = (all(node), all(&root));
        assert_eq!(own.as_object().unwrap().len(), at_root.as_object().unwrap().len());
        for (metric, own) in own.as_object().unwrap() {
            let of = |pairs: &Value| -> Vec<Value> {
                pairs.as_array().unwrap().iter().map(|pair| pair[1].clone()).collect()
            };
            let (own, at_root) = (of(own), of(&at_root[metric]));
            assert_eq!(at_root[..own.len() - 1], own[..own.len() - 1], "{metric}");
        }
    }

    // The page draws them, and has them to choose from.
    let (status, page) = root.get("/traces?job=Node:+leaf&metric=write_bytes");
    assert_eq!(status, 200, "{page}");
    for part in ["<figure", ">node leaf<", ">node middle<", "<option value=\"load1\">"] {
        assert!(page.contains(part), "{part}: {page}");
    }
    let listed = root.json("/trace/list");
    let ids: Vec<&str> = listed.as_array().unwrap().iter().filter_map(|job| job["jobid"].as_str()).collect();
    assert!(["Node: root", "Node: middle", "Node: leaf"].iter().all(|id| ids.contains(id)), "{ids:?}");

    // What is wrong is said as the node would.
    for (node, path, expected) in [
        (&root, "/api/1/nodes/leaf/series", 400),
        (&root, "/api/1/nodes/leaf/series?metric=nothing", 404),
        (&root, "/api/1/nodes/leaf/series?metric=load1&points=0", 400),
        (&root, "/api/1/nodes/nobody/series?metric=load1", 404),
        (&root, "/traces?job=Node:+nobody", 404),
        (&leaf, "/api/1/nodes/root/series?metric=load1", 404),
        (&middle, "/api/1/nodes/root/metrics", 404),
    ] {
        assert_eq!(node.get(path).0, expected, "{path}");
    }
    // Who may not see machines does not reach one through the tree.
    for path in ["/api/1/nodes/leaf/metrics", "/trace/metrics?job=Node:+leaf", "/traces?job=Node:+leaf"] {
        assert_eq!(
            (root.status_with(&controller, path), root.status_with(&user, path)),
            (403, 200),
            "{path}"
        );
    }
}

#[test]
fn a_machine_that_is_killed_or_hangs_is_named_and_the_root_goes_on() {
    let dir = FreshDir::new("tree-series-gone");
    let root = Node::above(&dir, "root", &[]);
    let mut middle = Node::above(&dir, "middle", &[&root]);
    let mut leaf = Node::leaf(&dir, "leaf", &[&middle]);
    let lively = Node::leaf(&dir, "lively", &[&root]);
    root.nodes(4);
    let ask = |node: &str| {
        let begun = Instant::now();
        let (status, answer) = root.get(&format!("/api/1/nodes/{node}/series?metric=load1"));
        (status, answer, begun.elapsed())
    };
    // Once it is connected and has sampled something.
    let until_answers = |node: &str| {
        let begun = Instant::now();
        while ask(node).0 != 200 {
            assert!(begun.elapsed() < Duration::from_secs(30), "{:?}\n{}", ask(node), root.said());
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    until_answers("leaf");
    until_answers("lively");
    let is_silent = |node: &str, (status, answer, took): (u16, String, Duration), most: f64| {
        assert_eq!(status, 504, "{answer}");
        assert!(answer.contains(&format!("node {node} did not answer")), "{answer}");
        assert!(took.as_secs_f64() < most, "{took:?}");
    };
    // Killed: the daemon above it knows that it is gone.
    leaf.kill();
    is_silent("leaf", ask("leaf"), 2.0);
    let (status, page) = root.get("/traces?job=Node:+leaf");
    assert!(status == 504 && page.contains("node leaf did not answer"), "{status} {page}");
    assert!(page.contains(">node lively<"), "another one can be chosen: {page}");
    leaf.start_again();
    until_answers("leaf");

    // Hung: many ask, each waits for three seconds, and rows of others are right meanwhile.
    let mut program = lively.skeleton("stays", "50ms", "1000");
    root.job("stays", |job| written(job) > Some(0));
    middle.signal("-STOP");
    std::thread::scope(|scope| {
        let asked: Vec<_> = (0..10).map(|_| scope.spawn(|| ask("leaf"))).collect();
        let (before, begun) = (written(&root.job("stays", |_| true)), Instant::now());
        assert!(lively.skeleton("meanwhile", "20ms", "5").wait().unwrap().success());
        assert_eq!(counted(&root.ended("meanwhile")), lively.moved("meanwhile"));
        root.job("stays", |job| written(job) > before);
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        assert_eq!(ask("lively").0, 200);
        for asked in asked {
            is_silent("leaf", asked.join().unwrap(), 6.0);
        }
    });
    // What hangs is heard of again, and then goes away while it is asked.
    middle.signal("-CONT");
    until_answers("middle");
    middle.signal("-STOP");
    std::thread::scope(|scope| {
        let asked = scope.spawn(|| ask("leaf"));
        std::thread::sleep(Duration::from_millis(300));
        middle.kill();
        is_silent("leaf", asked.join().unwrap(), 2.0);
    });
    kill_all(&mut program);
    let job = root.job("stays", |job| job["state"] != "running");
    assert!(written(&job) > Some(0), "{job:#}");
}

/// Returns the bytes written by a job, second by second.
fn seconds(root: &Node<'_>, job: &str) -> Vec<(u64, u64)> {
    let series = root.json(&format!("/api/1/jobs/{job}/series?metric=write_bytes&points=10000"));
    let (start, period) = (series["t0_unix_s"].as_f64().unwrap(), series["period_s"].as_f64().unwrap());
    let values = series["values"].as_array().unwrap().iter().enumerate();
    values.filter_map(|(n, value)| Some(((start + n as f64 * period) as u64, value.as_u64()?))).collect()
}

#[test]
fn seconds_in_which_a_parent_was_away_are_there_afterwards_as_they_were() {
    seconds_without_a_parent(&FreshDir::new("tree-missed"), false);
}

#[test]
fn a_machine_that_is_restarted_while_its_parent_is_away_loses_no_second_before_that() {
    seconds_without_a_parent(&FreshDir::new("tree-restarted"), true);
}

fn seconds_without_a_parent(dir: &FreshDir, is_restarted: bool) {
    let root = Node::above(dir, "root", &[]);
    let mut middle = Node::above(dir, "middle", &[&root]);
    let mut leaf = Node::leaf(dir, "leaf", &[&middle]);
    root.nodes(3);
    let mut program = leaf.skeleton("steady", "100ms", "1000");
    root.job("steady", |job| written(job) > Some(0));
    std::thread::sleep(Duration::from_secs(3));
    // It is killed, and comes back: nothing of what happened meanwhile went through it.
    let from = now_s();
    middle.kill();
    std::thread::sleep(Duration::from_secs(6));
    if is_restarted {
        leaf.stop();
        leaf.start_again();
    }
    middle.start_again();
    let back = Instant::now();
    let own = |from: u64, to: u64| -> Vec<(u64, u64)> {
        let all = seconds(&leaf, "steady");
        all.into_iter().filter(|(second, _)| (from..to).contains(second)).collect()
    };
    // Each second in between has grown as it did on the machine itself, give or take when in a second it was read.
    let is_right = || {
        let (at_root, truth) = (seconds(&root, "steady"), own(from + 1, from + 6));
        assert!(at_root.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{at_root:?}");
        truth.len() == 5
            && truth.iter().all(|(second, bytes)| {
                let near = seconds(&leaf, "steady");
                let of = |second: u64| near.iter().find(|it| it.0 == second).map(|it| it.1);
                let (least, most) = (of(second - 1), of(second + 1).or(Some(*bytes)));
                let shown = at_root.iter().rfind(|it| it.0 <= *second).map(|it| it.1);
                least <= shown && shown <= most
            })
    };
    while !is_right() {
        assert!(
            back.elapsed() < Duration::from_secs(40),
            "{:?}\n{:?}\n{}",
            seconds(&root, "steady"),
            own(from - 3, from + 12),
            root.said()
        );
        std::thread::sleep(Duration::from_millis(200));
    }
    kill_all(&mut program);
    let job = root.job("steady", |job| job["state"] != "running");
    assert_eq!(written(&job), seconds(&root, "steady").last().map(|it| it.1));
}
