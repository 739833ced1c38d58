//! The same jobs on several nodes, with several storage targets: `cargo xtask iosets gate --nodes 3 --targets 2`.
//!
//! Nodes and servers are network namespaces that a bridge joins (root). Each target has an arbiter in a namespace of its own, which programs reach over TCP
//! with a key; the storage is one paced mount whose files have their stripes round robin at all targets. In mid-run an
//! arbiter can be killed, or a node cut off.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use super::metrics::{Frame, Phase, metrics};
use super::{Arm, BANDWIDTH_BPS, Session, Watch, Way, Workload, counted, run_jobs};
use crate::product::{Bed, signal};

/// How many of what.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    pub(super) n_nodes: usize,
    pub(super) n_targets: usize,
}

/// Each job has so many processes, so that it has requests at all targets at once.
pub(super) const N_PROCESSES: usize = 4;

/// Runs all jobs once, and returns the I/O phases of each.
pub(super) fn run(
    layout: Layout,
    program: &Path,
    bed: &Bed,
    workload: &Workload,
    arm: Arm,
    scheduling: &[String],
) -> Result<Vec<Vec<Phase>>, String> {
    let networks = Networks::make(layout)?;
    let key = bed.folder.join("site.key");
    let made = Command::new(program).args(["serve", "key"]).arg(&key).stderr(Stdio::null()).status();
    if !made.is_ok_and(|status| status.success()) {
        return Err("cannot make a key".to_owned());
    }
    let watch = Watch::start(program, bed, arm)?;
    let bandwidth = (BANDWIDTH_BPS / layout.n_targets as f64).to_string();
    let n_targets = layout.n_targets.to_string();
    let as_it_comes = ["--policy", "none", "--workers", "16", "--targets", &n_targets].map(str::to_owned);
    let storage = Session::mount(program, bed, &as_it_comes, &bandwidth)?;
    let mut arbiters = Vec::new();
    for target in 0..layout.n_targets {
        let mut command = networks.inside(&server(target), program);
        command.arg("arbiter").arg(address(target)).arg("--key").arg(&key).args(scheduling);
        let control = bed.folder.join(format!("gate-control-{target}"));
        arbiters.push(Session::start(command, Default::default(), control, "listening")?);
    }
    let gate: Vec<String> = (0..layout.n_targets).map(address).collect();
    let gate = gate.join(",");
    let start = |index: usize| {
        let mut command = networks.inside(&node(index % layout.n_nodes), program);
        command.env("IOTIDE_GATE", &gate).env("IOTIDE_GATE_KEY", &key);
        command
    };
    let Frame { begin_s, end_s } = workload.frame;
    let (running, until_over) = channel::<()>();
    let phases = std::thread::scope(|scope| {
        let (networks, arbiters) = (&networks, &arbiters);
        scope.spawn(move || {
            let half_way = Duration::from_secs_f64((begin_s + end_s) / 2.0);
            if until_over.recv_timeout(half_way) == Err(RecvTimeoutError::Timeout) {
                match arm {
                    Arm::Killed => signal(arbiters[layout.n_targets - 1].id(), "KILL"),
                    Arm::Cut => networks.cut(&node(layout.n_nodes - 1)),
                    _ => {}
                }
            }
        });
        let way = Way { n_processes: N_PROCESSES, asks: true, is_watched: watch.is_some() };
        let phases = run_jobs(&start, &storage.dir, bed, workload, way);
        drop(running);
        phases
    })?;
    for (target, arbiter) in arbiters.iter().enumerate() {
        let jobs = arbiter.jobs();
        eprintln!("  target {target}: {}; {}", fairness(&jobs), counted(&jobs, "period_source"));
    }
    for index in 0..layout.n_nodes {
        let of_node: Vec<Vec<Phase>> = phases.iter().skip(index).step_by(layout.n_nodes).cloned().collect();
        let slowdown = metrics(&of_node, workload.frame, BANDWIDTH_BPS).io_slowdown;
        eprintln!("  node {index}: I/O slowdown {slowdown:.2}");
    }
    Ok(phases)
}

/// Returns the least and the most bytes that the equal jobs (all but the first) moved at a target, as recorded by its arbiter.
fn fairness(jobs: &str) -> String {
    let value = |text: &str, name: &str| {
        let rest = text.split_once(&format!("\"{name}\":"))?.1;
        let end = rest.find([',', '}'])?;
        rest[..end].trim_matches('"').parse::<f64>().ok()
    };
    let mut moved: Vec<f64> = jobs
        .split("{\"job\"")
        .skip(1)
        .map(|rest| format!("{{\"job\"{rest}"))
        .filter(|job| value(job, "job").is_some_and(|id| id != super::job_id(0) as f64))
        .filter_map(|job| value(&job, "bytes"))
        .collect();
    moved.sort_by(f64::total_cmp);
    match (moved.first(), moved.last()) {
        (Some(least), Some(most)) => {
            let n = moved.len() as f64;
            let sum: f64 = moved.iter().sum();
            let jain = sum * sum / (n * moved.iter().map(|bytes| bytes * bytes).sum::<f64>());
            format!(
                "equal jobs moved {:.0} to {:.0} MiB each, Jain's index {jain:.3}",
                least / super::MIB,
                most / super::MIB
            )
        }
        _ => "its arbiter is gone".to_owned(),
    }
}

fn node(index: usize) -> String {
    format!("iotide{}n{index}", std::process::id())
}

fn server(target: usize) -> String {
    format!("iotide{}s{target}", std::process::id())
}

/// Where a target's arbiter listens.
fn address(target: usize) -> String {
    format!("tcp:10.78.0.{}:7070", 101 + target)
}

/// Namespaces for all of them, and a bridge between; gone when dropped.
struct Networks {
    switch: String,
    machines: Vec<String>,
}

impl Networks {
    fn make(layout: Layout) -> Result<Self, String> {
        let switch = format!("iotide{}sw", std::process::id());
        let mut networks = Self { switch: switch.clone(), machines: Vec::new() };
        let needs_root = || "cannot make network namespaces: this needs root and `ip` (iproute2)".to_owned();
        let is_made = ip(&format!("netns add {switch}"))
            && ip(&format!("-n {switch} link add br0 type bridge"))
            && ip(&format!("-n {switch} link set br0 up"));
        if !is_made {
            return Err(needs_root());
        }
        let nodes = (0..layout.n_nodes).map(|index| (node(index), 1 + index));
        let servers = (0..layout.n_targets).map(|target| (server(target), 101 + target));
        for (name, number) in nodes.chain(servers) {
            networks.machines.push(name.clone());
            let is_made = ip(&format!("netns add {name}"))
                && ip(&format!("-n {name} link add eth0 type veth peer name {} netns {switch}", port(&name)))
                && ip(&format!("-n {name} addr add 10.78.0.{number}/24 dev eth0"))
                && ip(&format!("-n {name} link set eth0 up"))
                && ip(&format!("-n {name} link set lo up"))
                && ip(&format!("-n {switch} link set {} master br0", port(&name)))
                && ip(&format!("-n {switch} link set {} up", port(&name)));
            if !is_made {
                return Err(needs_root());
            }
        }
        Ok(networks)
    }

    /// A command of iotide on one of them.
    fn inside(&self, machine: &str, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", machine]).arg(program);
        command
    }

    /// Pulls the cable of one of them.
    fn cut(&self, machine: &str) {
        ip(&format!("-n {} link set {} down", self.switch, port(machine)));
    }
}

/// The end of a machine's cable at the switch.
fn port(machine: &str) -> String {
    let number: String = machine.chars().rev().take(2).collect::<Vec<_>>().into_iter().rev().collect();
    format!("port{number}")
}

fn ip(words: &str) -> bool {
    Command::new("ip").args(words.split(' ')).status().is_ok_and(|status| status.success())
}

impl Drop for Networks {
    fn drop(&mut self) {
        for network in self.machines.iter().chain([&self.switch]) {
            ip(&format!("netns delete {network}"));
        }
    }
}
