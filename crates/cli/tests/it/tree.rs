//! Daemons in a tree: real ones, with real programs below them.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use iotide_testkit::{FreshDir, Missing, program, skip};
use serde_json::Value;

use crate::serve::{IOTIDE, kill_all, logged, some_moment};
use crate::util::Networks;

/// A machine: a directory with everything of its own.
pub(crate) struct Node<'a> {
    dir: &'a FreshDir,
    name: &'static str,
    parents: Vec<String>,
    /// Where daemons below connect to; the port is kept when it is started again.
    children: Option<String>,
    key: PathBuf,
    /// More options.
    options: Vec<String>,
    /// The network it is in, if not in that of the test.
    network: Option<String>,
    /// A command that runs it, and where it finds Slurm, if it is a node of one.
    pub(crate) around: Vec<String>,
    pub(crate) slurm_conf: Option<PathBuf>,
    child: Option<Child>,
    said: Arc<Mutex<String>>,
}

impl<'a> Node<'a> {
    /// A daemon that others may connect to, below some parents.
    pub(crate) fn above(dir: &'a FreshDir, name: &'static str, parents: &[&Node<'_>]) -> Self {
        Self::start(dir, name, parents, Some("127.0.0.1:0".to_owned()), dir.join("tree.key"))
    }

    /// A daemon that sends to one of some parents.
    pub(crate) fn leaf(dir: &'a FreshDir, name: &'static str, parents: &[&Node<'_>]) -> Self {
        Self::start(dir, name, parents, None, dir.join("tree.key"))
    }

    fn start(
        dir: &'a FreshDir,
        name: &'static str,
        parents: &[&Node<'_>],
        children: Option<String>,
        key: PathBuf,
    ) -> Self {
        if !key.exists() {
            let made = Command::new(IOTIDE).args(["serve", "key"]).arg(&key).output().unwrap();
            assert!(made.status.success());
        }
        let parents = parents.iter().filter_map(|parent| parent.children.clone()).collect();
        let mut node = Self::new(dir, name, parents, children, key);
        node.start_again();
        node
    }

    pub(crate) fn new(
        dir: &'a FreshDir,
        name: &'static str,
        parents: Vec<String>,
        children: Option<String>,
        key: PathBuf,
    ) -> Self {
        fs::create_dir_all(dir.join(name)).unwrap();
        let (options, network, child, said) = (Vec::new(), None, None, Arc::default());
        let (around, slurm_conf) = (Vec::new(), None);
        Self { dir, name, parents, children, key, options, network, around, slurm_conf, child, said }
    }

    /// Where daemons below connect to.
    pub(crate) fn children(&self) -> &str {
        self.children.as_deref().unwrap_or_default()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.join(self.name).join(name)
    }

    pub(crate) fn start_again(&mut self) {
        let mut command = match (&self.network, &self.around[..]) {
            (None, []) => Command::new(IOTIDE),
            (None, [program, around @ ..]) => {
                let mut command = Command::new(program);
                command.args(around).arg(IOTIDE);
                command
            }
            (Some(network), _) => {
                let mut command = Command::new("ip");
                command.args(["netns", "exec", network, IOTIDE]);
                command
            }
        };
        command.args(["serve", "--http", "none", "--node", self.name, "--key"]).arg(&self.key);
        for (option, name) in [("--socket", "socket"), ("--store", "store"), ("--pages", "pages")] {
            command.arg(option).arg(self.path(name));
        }
        command.args(&self.options);
        if let Some(conf) = &self.slurm_conf {
            command.env("SLURM_CONF", conf);
        }
        if !self.parents.is_empty() {
            command.args(["--parent", &self.parents.join(",")]);
        }
        if let Some(children) = &self.children {
            command.args(["--children", children]);
        }
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("serving at") {
            let n = stderr.read_line(&mut said).unwrap();
            assert!(n > 0, "the daemon did not start: {said}");
        }
        if self.children.is_some() {
            let address = said.trim_end().rsplit_once("connect to ").unwrap().1;
            self.children = Some(address.to_owned());
        }
        let all = Arc::clone(&self.said);
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let mut all = all.lock().unwrap();
                all.push_str(&line);
                all.push('\n');
            }
        });
        self.child = Some(child);
    }

    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Ends its daemon as an administrator does.
    pub(crate) fn stop(&mut self) {
        self.signal("-TERM");
        self.child.take().unwrap().wait().unwrap();
    }

    pub(crate) fn signal(&self, signal: &str) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
    }

    pub(crate) fn said(&self) -> String {
        self.said.lock().unwrap().clone()
    }

    pub(crate) fn ask(&self, args: &[&str]) -> Value {
        let output =
            Command::new(IOTIDE).args(args).env("IOTIDE_DAEMON", self.path("socket")).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap_or_default()
    }

    /// A job, once it is as it should be.
    pub(crate) fn job(&self, id: &str, is_right: impl Fn(&Value) -> bool) -> Value {
        let mut job = Value::Null;
        for _ in 0..3000 {
            job = self.ask(&["job", id, "--format", "json"]);
            if is_right(&job) {
                return job;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("{} says {job:#}\n{}", self.name, self.said())
    }

    pub(crate) fn ended(&self, id: &str) -> Value {
        self.job(id, |job| job["state"] == "ended")
    }

    /// The names of all nodes that are known and heard of, once they are so many.
    pub(crate) fn nodes(&self, n: usize) -> Vec<Value> {
        for _ in 0..1500 {
            let nodes =
                self.ask(&["nodes", "--format", "json"])["nodes"].as_array().cloned().unwrap_or_default();
            let is_heard = |node: &&Value| node["silent_s"].as_f64() < Some(10.0);
            if nodes.iter().filter(is_heard).count() == n {
                return nodes;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("{}: {:#}\n{}", self.name, self.ask(&["nodes", "--format", "json"]), self.said())
    }

    /// A program that writes and reads, watched by this machine's daemon.
    pub(crate) fn skeleton(&self, job: &str, period: &str, n: &str) -> Child {
        let mut command = Command::new(IOTIDE);
        command
            .args([
                "record",
                "--live",
                "-q",
                "--exclude",
                "*.csv",
                "--",
                IOTIDE,
                "ioskel",
                "-p",
                period,
                "-n",
                n,
            ])
            .args(["-s", "300000", "-j", "2", "--transfer-size", "32k", "--turn-probability", "0.5", "--log"])
            .arg(self.path(&format!("{job}.csv")))
            .current_dir(self.dir.join(self.name))
            .env_remove("LD_PRELOAD")
            .env("IOTIDE_LIVE", self.path("pages"))
            .env("IOTIDE_JOB_ID", job)
            .stdout(Stdio::null());
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        command.spawn().unwrap()
    }

    /// Returns the bytes that its program moved, by the program's own log.
    pub(crate) fn moved(&self, job: &str) -> [u64; 2] {
        let log = self.path(&format!("{job}.csv"));
        ["read", "write"].map(|op| logged(&log, op))
    }
}

impl Drop for Node<'_> {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) fn counted(job: &Value) -> [u64; 2] {
    ["bytes_read", "bytes_written"].map(|name| job["io"][name].as_u64().unwrap_or(u64::MAX))
}

pub(crate) fn sum(of: &[[u64; 2]]) -> [u64; 2] {
    of.iter().fold([0, 0], |sum, one| [sum[0] + one[0], sum[1] + one[1]])
}

/// Each level of the metric proxy's tree doubles a counter's first value.
#[test]
fn tree_depth_changes_no_sum() {
    let dir = FreshDir::new("tree-depth");
    let root = Node::above(&dir, "root", &[]);
    let first = Node::above(&dir, "first", &[&root]);
    let second = Node::above(&dir, "second", &[&first]);
    let leaves = [
        Node::leaf(&dir, "one", &[&root]),
        Node::leaf(&dir, "two", &[&first]),
        Node::leaf(&dir, "three", &[&second]),
    ];
    // The daemons in between count what runs on their machines, too.
    let nodes = [&leaves[0], &leaves[1], &leaves[2], &second];
    let mut children: Vec<Child> = nodes.iter().map(|node| node.skeleton("deep", "50ms", "10")).collect();
    assert!(children.iter_mut().all(|child| child.wait().unwrap().success()));
    let moved = sum(&nodes.map(|node| node.moved("deep")));
    let job = root.job("deep", |job| job["state"] == "ended" && counted(job) == moved);
    assert_eq!(job["nodes"], serde_json::json!(["one", "second", "three", "two"]));
    // Two processes on each node; those that start them move nothing.
    assert_eq!((&job["size"], &job["losses"]), (&Value::from(8), &Value::Array(Vec::new())), "{job:#}");
    // Every level has what is below it.
    let below = sum(&[leaves[2].moved("deep"), second.moved("deep")]);
    second.job("deep", |job| job["state"] == "ended" && counted(job) == below);
    let parents: Vec<(String, String)> = root
        .nodes(6)
        .iter()
        .filter_map(|node| Some((node["node"].as_str()?.to_owned(), node["parent"].as_str()?.to_owned())))
        .collect();
    let pairs =
        [("first", "root"), ("one", "root"), ("second", "first"), ("three", "second"), ("two", "first")];
    assert_eq!(parents, pairs.map(|(node, parent)| (node.to_owned(), parent.to_owned())));
    // What a node has moved is what was moved on it, and not what came through it.
    let own = |name: &str| {
        let node = nodes.iter().find(|node| node.name == name);
        node.map_or([0; 2], |node| node.moved("deep"))
    };
    let names = ["first", "one", "root", "second", "three", "two"];
    let expected: Vec<[u64; 2]> = names.map(own).to_vec();
    let mut seen = Vec::new();
    for _ in 0..1500 {
        seen = root.nodes(6).iter().map(|node| counted(&serde_json::json!({ "io": node }))).collect();
        if seen == expected {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(seen, expected);
    let metrics = crate::serve::get_at(&root.path("socket"), "/metrics").1;
    for (name, [_, written]) in names.iter().zip(&expected) {
        let line = format!("iotide_node_io_bytes_total{{node=\"{name}\",op=\"write\"}} {written}");
        let is_there = metrics.lines().any(|known| known == line);
        assert!(is_there || *written == 0 && *name == "root", "{line}\n{metrics}");
    }
    let all: u64 = metrics
        .lines()
        .filter(|line| line.starts_with("iotide_fs_bytes_total{") && line.contains("op=\"write\""))
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<u64>().unwrap())
        .sum();
    assert_eq!(all, moved[1]);
}

/// Daemons of every role are killed and started again while programs run: nothing is lost and nothing is doubled.
#[test]
fn daemons_that_are_killed_at_random_moments_lose_and_double_nothing() {
    let dir = FreshDir::new("tree-storm");
    let root = Node::above(&dir, "root", &[]);
    let middle = Node::above(&dir, "middle", &[&root]);
    let one = Node::leaf(&dir, "one", &[&middle]);
    let two = Node::leaf(&dir, "two", &[&middle, &root]);
    let mut nodes = [root, middle, one, two];
    for round in 0..2 {
        let id = format!("storm-{round}");
        let mut children = [nodes[2].skeleton(&id, "50ms", "60"), nodes[3].skeleton(&id, "50ms", "60")];
        let mut which = round;
        let mut n_kills = 0;
        while children.iter_mut().any(|child| child.try_wait().unwrap().is_none()) {
            std::thread::sleep(some_moment(400));
            let node = &mut nodes[which % 4];
            node.kill();
            std::thread::sleep(some_moment(300));
            node.start_again();
            which += 1 + some_moment(3).subsec_micros() as usize % 3;
            n_kills += 1;
        }
        assert!(n_kills >= 3, "{n_kills}");
        assert!(children.iter_mut().all(|child| child.wait().unwrap().success()));
        // Once more while the last of it is on its way.
        nodes[0].kill();
        nodes[0].start_again();
        let moved = sum(&[nodes[2].moved(&id), nodes[3].moved(&id)]);
        nodes[0].job(&id, |job| job["state"] == "ended" && counted(job) == moved);
    }
}

/// The metric proxy loses the final flush, and its jobs have no end.
#[test]
fn job_end_carries_the_last_values() {
    let dir = FreshDir::new("tree-end");
    let mut root = Node::above(&dir, "root", &[]);
    let mut leaf = Node::leaf(&dir, "leaf", &[&root]);
    root.nodes(2);
    // Nobody is above when it ends, and the daemon that counted it is killed, too.
    let mut child = leaf.skeleton("ends", "20ms", "10");
    root.kill();
    assert!(child.wait().unwrap().success());
    let moved = leaf.moved("ends");
    leaf.ended("ends");
    leaf.kill();
    root.start_again();
    leaf.start_again();
    let job = root.job("ends", |job| job["state"] == "ended" && counted(job) == moved);
    assert!(job["end_unix_s"].as_f64() > job["start_unix_s"].as_f64(), "{job:#}");
    // What is acknowledged is not sent again, and what is known does not change.
    root.kill();
    root.start_again();
    root.nodes(2);
    assert_eq!(counted(&root.ended("ends")), moved);
}

/// A child that hangs stops the metric proxy's gathering for half a minute.
#[test]
fn child_killed_or_hung_delays_no_other() {
    let dir = FreshDir::new("tree-hung");
    let root = Node::above(&dir, "root", &[]);
    let mut gone = Node::leaf(&dir, "gone", &[&root]);
    let hung = Node::leaf(&dir, "hung", &[&root]);
    let lively = Node::leaf(&dir, "lively", &[&root]);
    let mut programs = [gone.skeleton("stays", "50ms", "1000"), hung.skeleton("stays", "50ms", "1000")];
    root.job("stays", |job| job["nodes"].as_array().is_some_and(|nodes| nodes.len() == 2));
    gone.kill();
    hung.signal("-STOP");
    for round in 0..3 {
        let id = format!("lively-{round}");
        assert!(lively.skeleton(&id, "20ms", "5").wait().unwrap().success());
        assert_eq!(counted(&root.ended(&id)), lively.moved(&id));
    }
    // What is known of the others stays, and they are waited for.
    let job = root.job("stays", |job| job["state"] == "running");
    assert!(counted(&job)[1] > 0, "{job:#}");
    programs.iter_mut().for_each(kill_all);
    hung.signal("-CONT");
    gone.start_again();
    let job = root.ended("stays");
    assert!(counted(&job)[1] > 0, "{job:#}");
}

/// Children of the metric proxy never rejoin.
#[test]
fn root_restarted_children_rejoin_by_themselves() {
    let dir = FreshDir::new("tree-rejoin");
    let mut root = Node::above(&dir, "root", &[]);
    let mut middle = Node::above(&dir, "middle", &[&root]);
    let leaf = Node::leaf(&dir, "leaf", &[&middle, &root]);
    root.nodes(3);
    root.kill();
    root.start_again();
    root.nodes(3);
    // Who has another parent does not wait for the one that is gone.
    middle.kill();
    let mut child = leaf.skeleton("moves", "50ms", "20");
    assert!(child.wait().unwrap().success());
    assert_eq!(counted(&root.ended("moves")), leaf.moved("moves"));
    let mut parent = Value::Null;
    for _ in 0..1500 {
        let nodes = root.ask(&["nodes", "--format", "json"]);
        let of_leaf = nodes["nodes"].as_array().unwrap().iter().find(|node| node["node"] == "leaf");
        parent = of_leaf.unwrap()["parent"].clone();
        if parent == "root" {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(parent, "root");
    let output =
        Command::new(IOTIDE).arg("nodes").env("IOTIDE_DAEMON", root.path("socket")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.lines().any(|line| line.starts_with("    leaf ")), "{text}");
}

/// Whoever asks can remove a node of the metric proxy's tree, or lead others astray.
#[test]
fn anonymous_peers_can_neither_join_nor_cost_much() {
    let dir = FreshDir::new("tree-strangers");
    let root = Node::above(&dir, "root", &[]);
    let leaf = Node::leaf(&dir, "leaf", &[&root]);
    root.nodes(2);
    // Another key.
    let stranger = Node::start(&dir, "stranger", &[&root], None, dir.join("another.key"));
    let address = root.children.clone().unwrap();
    // No encryption, a length beyond all limits, hundreds of megabytes that mean nothing.
    for head in [&b"GET /leave HTTP/1.1\r\n\r\n"[..], &[0xff; 64], &[0x16, 3, 1, 0xff, 0xff]] {
        let mut stream = TcpStream::connect(&address).unwrap();
        let _ = stream.write_all(head);
        let junk = vec![0x17; 1 << 20];
        for _ in 0..300 {
            if stream.write_all(&junk).is_err() {
                break; // hung up on
            }
        }
        let mut answer = Vec::new();
        let _ = stream.take(1 << 16).read_to_end(&mut answer);
        assert!(!answer.windows(4).any(|four| four == b"root"), "it says who it is");
    }
    // Connections that say nothing keep nobody out.
    let silent: Vec<TcpStream> = (0..60).filter_map(|_| TcpStream::connect(&address).ok()).collect();
    let mut child = leaf.skeleton("goes-on", "20ms", "10");
    assert!(child.wait().unwrap().success());
    assert_eq!(counted(&root.ended("goes-on")), leaf.moved("goes-on"));
    drop(silent);
    let names: Vec<Value> = root.nodes(2).iter().map(|node| node["node"].clone()).collect();
    assert_eq!(names, ["leaf", "root"]);
    let said = root.said();
    assert_eq!(said.matches("it does not prove that it belongs here").count(), 1, "{said}");
    assert!(stranger.said().contains("no connection"), "{}", stranger.said());
    let status = fs::read_to_string(format!("/proc/{}/status", root.child.as_ref().unwrap().id())).unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    let peak_kb: u64 = peak.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(peak_kb < 64 << 10, "{peak}");
}

/// Two that name each other as parents, and another machine that has taken a name.
#[test]
fn loops_and_two_of_one_name_are_refused() {
    let dir = FreshDir::new("tree-loop");
    let mut left = Node::above(&dir, "left", &[]);
    let right = Node::above(&dir, "right", &[&left]);
    left.nodes(2);
    left.kill();
    left.parents = vec![right.children.clone().unwrap()];
    left.start_again();
    let is_told = |node: &Node<'_>| node.said().contains("loop");
    for _ in 0..1000 {
        if is_told(&left) || is_told(&right) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(is_told(&left) || is_told(&right), "{}{}", left.said(), right.said());

    let root = Node::above(&dir, "root", &[]);
    let _leaf = Node::leaf(&dir, "leaf", &[&root]);
    root.nodes(2);
    let elsewhere = FreshDir::new("tree-twin");
    let twin = Node::start(&elsewhere, "leaf", &[&root], None, dir.join("tree.key"));
    let reason = "another daemon named leaf is connected here";
    // It tries again and gets the same answer; each side logs the reason once.
    for _ in 0..1000 {
        if root.said().contains(reason) && twin.said().contains(reason) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_secs(3));
    for node in [&root, &twin] {
        assert_eq!(node.said().matches(reason).count(), 1, "{}: {}", node.name, node.said());
    }
    assert!(!twin.said().contains("connected to the daemon above"), "{}", twin.said());
}

/// Connections without a proof, opened again and again from one address, keep no daemon out.
#[test]
fn strangers_who_open_connections_without_end_keep_no_daemon_out() {
    let dir = FreshDir::new("tree-flood");
    let root = Node::above(&dir, "root", &[]);
    let (address, stop) = (root.children().to_owned(), AtomicBool::new(false));
    // Held until the root hangs up, so that none of its places is free for long. Without a port of root's, it takes a moment to be greeted.
    let most = iotide_gate::raise_open_files().min(8192) / 2;
    let pause = Duration::from_millis(if rustix::process::geteuid().is_root() { 1 } else { 5 });
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut held = std::collections::VecDeque::new();
            while !stop.load(Ordering::Relaxed) {
                held.extend(TcpStream::connect(&address));
                if held.len() > most {
                    held.pop_front();
                }
                std::thread::sleep(pause);
            }
        });
        // All places of strangers at this address are taken by now.
        std::thread::sleep(Duration::from_secs(1));
        let joined = std::panic::catch_unwind(|| {
            let _leaf = Node::leaf(&dir, "leaf", &[&root]);
            root.nodes(2)
        });
        stop.store(true, Ordering::Relaxed);
        assert!(joined.is_ok());
    });
}

#[test]
fn a_key_that_others_can_read_and_a_missing_one_are_refused() {
    use std::os::unix::fs::PermissionsExt;
    let dir = FreshDir::new("tree-key");
    let key = dir.join("key");
    let check = || {
        let mut command = Command::new(IOTIDE);
        command.args(["serve", "check", "--children", "127.0.0.1:0", "--store"]).arg(dir.join("store"));
        command.arg("--key").arg(&key).output().unwrap()
    };
    let complaint = |output: std::process::Output| String::from_utf8(output.stderr).unwrap();
    assert!(complaint(check()).contains("there is no key; `iotide serve key` makes one"));
    let made = Command::new(IOTIDE).args(["serve", "key"]).arg(&key).output().unwrap();
    assert!(made.status.success());
    assert!(check().status.success());
    let again = Command::new(IOTIDE).args(["serve", "key"]).arg(&key).output().unwrap();
    assert_eq!(again.status.code(), Some(2), "a key is not overwritten");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(complaint(check()).contains("can be read by others"));
    fs::remove_file(&key).unwrap();
    fs::write(&key, "xyz").unwrap();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o400)).unwrap();
    assert!(complaint(check()).contains("is no key"));
}

/// Four levels on a network whose cables are pulled while programs run.
#[test]
fn links_that_are_cut_lose_and_double_nothing() {
    if program("ip").is_none() {
        return;
    }
    let Some(networks) = Networks::new(5) else {
        return skip(Missing::Data, "networks of our own: this needs root and network namespaces");
    };
    let dir = FreshDir::new("tree-links");
    let key = dir.join("tree.key");
    assert!(Command::new(IOTIDE).args(["serve", "key"]).arg(&key).output().unwrap().status.success());
    let at = |machine: usize| format!("10.77.0.{machine}:1338");
    let node = |machine: usize, name: &'static str, parents: &[usize], is_above: bool| {
        let parents = parents.iter().map(|&parent| at(parent)).collect();
        let mut node = Node::new(&dir, name, parents, is_above.then(|| at(machine)), key.clone());
        node.network = Some(networks.machines[machine - 1].clone());
        node.start_again();
        node
    };
    let root = node(1, "root", &[], true);
    let _first = node(2, "first", &[1], true);
    let _second = node(3, "second", &[2], true);
    let leaves = [node(4, "three", &[3], false), node(5, "two", &[2, 1], false)];
    root.nodes(5);
    let mut programs = leaves.each_ref().map(|leaf| leaf.skeleton("cables", "50ms", "200"));
    let mut seen = [0, 0];
    for machine in [3, 5, 2] {
        networks.set(machine, "down");
        // Longer than it takes to be missed.
        for _ in 0..60 {
            let now = counted(&root.ask(&["job", "cables", "--format", "json"]));
            if now[1] != u64::MAX {
                assert!(now[0] >= seen[0] && now[1] >= seen[1], "{seen:?} became {now:?}");
                seen = now;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        networks.set(machine, "up");
    }
    assert!(programs.iter_mut().all(|program| program.wait().unwrap().success()));
    let moved = sum(&leaves.each_ref().map(|leaf| leaf.moved("cables")));
    root.job("cables", |job| job["state"] == "ended" && counted(job) == moved);
}

/// A munged with a key of its own.
struct Munged(Child);

impl Munged {
    fn start(dir: &FreshDir, name: &str) -> Self {
        use std::os::unix::fs::PermissionsExt;
        let at = |end: &str| dir.join(format!("{name}.{end}"));
        fs::write(at("key"), format!("{name} {}", "0123456789abcdef".repeat(8))).unwrap();
        fs::set_permissions(at("key"), fs::Permissions::from_mode(0o400)).unwrap();
        let mut command = Command::new("munged");
        command.args(["--foreground", "--force"]).stdout(Stdio::null()).stderr(Stdio::null());
        for (option, end) in [
            ("key-file", "key"),
            ("socket", "sock"),
            ("pid-file", "pid"),
            ("log-file", "log"),
            ("seed-file", "seed"),
        ] {
            command.arg(format!("--{option}={}", at(end).display()));
        }
        let munged = Self(command.spawn().unwrap());
        for _ in 0..500 {
            if at("sock").exists() {
                return munged;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("munged does not start: {:?}", fs::read_to_string(at("log")));
    }
}

impl Drop for Munged {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Nodes of a Slurm cluster know each other by munge, without any new secret. Credentials of another cluster are none.
#[test]
fn nodes_of_a_cluster_know_each_other_by_munge() {
    if program("munged").is_none() {
        return;
    }
    let dir = FreshDir::new("tree-munge");
    let _munged = [Munged::start(&dir, "ours"), Munged::start(&dir, "theirs")];
    let node = |name: &'static str, parents: Vec<String>, is_above: bool, of: &str| {
        let children = is_above.then(|| "127.0.0.1:0".to_owned());
        let mut node = Node::new(&dir, name, parents, children, dir.join("none"));
        let socket = dir.join(format!("{of}.sock")).display().to_string();
        node.options = ["--auth", "munge", "--munge-socket", &socket].map(str::to_owned).to_vec();
        node.start_again();
        node
    };
    let root = node("root", Vec::new(), true, "ours");
    let parents = vec![root.children.clone().unwrap()];
    let leaf = node("leaf", parents.clone(), false, "ours");
    let stranger = node("stranger", parents, false, "theirs");
    root.nodes(2);
    assert!(leaf.skeleton("munged", "20ms", "10").wait().unwrap().success());
    assert_eq!(counted(&root.ended("munged")), leaf.moved("munged"));
    for _ in 0..500 {
        if root.said().contains("Invalid credential") {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(root.said().contains("Invalid credential"), "{}{}", root.said(), stranger.said());
    let names: Vec<Value> = root.nodes(2).iter().map(|node| node["node"].clone()).collect();
    assert_eq!(names, ["leaf", "root"]);
}

/// Certificates of a site: who has one joins under its own name, and speaks for others only if it says so.
#[test]
fn certificates_let_a_node_speak_for_itself_only() {
    use std::os::unix::fs::PermissionsExt;
    if program("openssl").is_none() {
        return;
    }
    let dir = FreshDir::new("tree-certificates");
    let openssl = |args: &[&str]| {
        let output = Command::new("openssl").args(args).current_dir(dir.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    let curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
    for ca in ["ca", "other"] {
        let [key, pem] = ["key", "pem"].map(|end| format!("{ca}.{end}"));
        let more = ["-subj", "/CN=site", "-keyout", &key, "-out", &pem];
        openssl(&[&["req", "-x509"][..], &curve, &more].concat());
    }
    let issue = |name: &str, names: &str, ca: &str| {
        let [key, request, pem] = ["key", "csr", "pem"].map(|end| format!("{name}.{end}"));
        let more = ["-subj", "/CN=node", "-keyout", &key, "-out", &request];
        openssl(&[&["req"][..], &curve[..5], &more].concat());
        fs::write(dir.join(format!("{name}.ext")), format!("subjectAltName={names}\n")).unwrap();
        let [ca_key, ca_pem, ext] = [format!("{ca}.key"), format!("{ca}.pem"), format!("{name}.ext")];
        let signed = ["-CA", &ca_pem, "-CAkey", &ca_key, "-CAcreateserial", "-extfile", &ext, "-out", &pem];
        openssl(&[&["x509", "-req", "-days", "2", "-in", &request][..], &signed].concat());
        fs::set_permissions(dir.join(&key), fs::Permissions::from_mode(0o400)).unwrap();
    };
    let here = "IP:127.0.0.1";
    issue("root", &format!("DNS:root,{here}"), "ca");
    issue("middle", &format!("DNS:middle,DNS:above.iotide,{here}"), "ca");
    issue("thief", &format!("DNS:thief,{here}"), "ca");
    issue("leaf", "DNS:leaf", "ca");
    issue("stranger", "DNS:stranger", "other");
    let node = |name: &'static str, parent: Option<&Node<'_>>, is_above: bool, certificate: &str| {
        let parents = parent.and_then(|parent| parent.children.clone()).into_iter().collect();
        let children = is_above.then(|| "127.0.0.1:0".to_owned());
        let mut node = Node::new(&dir, name, parents, children, dir.join(format!("{certificate}.key")));
        let at = |name: &str| dir.join(name).display().to_string();
        let pem = at(&format!("{certificate}.pem"));
        let options = ["--auth", "certificates", "--ca", &at("ca.pem"), "--cert", &pem];
        node.options = options.map(str::to_owned).to_vec();
        node.start_again();
        node
    };
    let root = node("root", None, true, "root");
    let middle = node("middle", Some(&root), true, "middle");
    let leaf = node("leaf", Some(&middle), false, "leaf");
    root.nodes(3);
    assert!(leaf.skeleton("certified", "20ms", "10").wait().unwrap().success());
    assert_eq!(counted(&root.ended("certified")), leaf.moved("certified"));
    // Another name than that of the certificate, a certificate of somebody else, and one that speaks for others without being allowed to.
    let _liar = node("liar", Some(&root), false, "leaf");
    let _stranger = node("stranger", Some(&root), false, "stranger");
    let thief = node("thief", Some(&root), true, "thief");
    drop(leaf);
    let _below = node("leaf", Some(&thief), false, "leaf");
    let is_refused = |said: &str| root.said().contains(said);
    let reasons = ["it does not prove that it belongs here", "does not let it speak for others"];
    for _ in 0..1000 {
        if reasons.iter().all(|reason| is_refused(reason)) {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(reasons.iter().all(|reason| is_refused(reason)), "{}", root.said());
    let nodes = root.ask(&["nodes", "--format", "json"])["nodes"].to_string();
    assert!(!nodes.contains("liar") && !nodes.contains("stranger"), "{nodes}");
}
