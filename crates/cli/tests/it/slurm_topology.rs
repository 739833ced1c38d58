//! Nodes of a Slurm whose daemons find each other by its topology.

use std::fs;
use std::time::Duration;

use iotide_testkit::FreshDir;

use crate::slurm_site::Slurm;
use crate::tree::Node;

const TOPOLOGY: &str = "SwitchName=s0 Nodes=n[1-3]\nSwitchName=s1 Nodes=n4\nSwitchName=s2 Switches=s[0-1]\n";

/// Waits until the root knows these nodes, each below another.
fn until_below(root: &Node<'_>, expected: &[(&str, &str)]) {
    let mut nodes = Vec::new();
    for _ in 0..1500 {
        nodes = root.ask(&["nodes", "--format", "json"])["nodes"].as_array().cloned().unwrap_or_default();
        let is_there = |(node, parent): &(&str, &str)| {
            let mut known = nodes.iter().filter(|it| it["node"] == *node);
            known.any(|it| it["parent"] == *parent && it["silent_s"].as_f64() < Some(5.0))
        };
        if expected.iter().all(is_there) {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{expected:?} is not {nodes:#?}\n{}", root.said());
}

#[test]
fn nodes_send_to_the_first_of_their_switch_and_when_that_is_away_to_the_second() {
    let dir = FreshDir::new("slurm-topology");
    let settings = "TopologyPlugin=topology/tree\n";
    let Some(slurm) = Slurm::start_with(4, settings, TOPOLOGY) else { return };
    let root = Node::above(&dir, "root", &[]);
    // Each node has an address of this machine, which others find by its name.
    let hosts: String = (1..=4).map(|n| format!("127.0.0.{}\tn{n}\n", 10 + n)).collect();
    fs::write(dir.join("hosts"), format!("127.0.0.1\tlocalhost\n{hosts}")).unwrap();
    let mount = format!("mount --bind {} /etc/hosts && exec \"$@\"", dir.join("hosts").display());
    let around = ["unshare", "--mount", "sh", "-c", &mount, "sh"].map(str::to_owned);
    let start = |name: &'static str, n: u8| {
        let port = 20_000 + std::process::id() as u16 % 10_000;
        let parents = vec![format!("slurm:{port}"), root.children().to_owned()];
        let children = Some(format!("127.0.0.{}:{port}", 10 + n));
        let mut node = Node::new(&dir, name, parents, children, dir.join("tree.key"));
        (node.around, node.slurm_conf) = (around.to_vec(), Some(slurm.conf()));
        node.start_again();
        node
    };
    let mut first = start("n1", 1);
    let _others = [start("n2", 2), start("n3", 3), start("n4", 4)];
    until_below(&root, &[("n1", "root"), ("n2", "n1"), ("n3", "n1"), ("n4", "root")]);
    first.kill();
    until_below(&root, &[("n2", "root"), ("n3", "n2"), ("n4", "root")]);
    // The controller does not answer: a daemon that is started then says so, and goes where it is told to.
    slurm.signal_controller("STOP");
    first.start_again();
    until_below(&root, &[("n1", "root")]);
    slurm.signal_controller("CONT");
}
