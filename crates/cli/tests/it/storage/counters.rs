//! Counters of servers, collected as docs/formats.md says, against the bytes that were written.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::{Ceph, Gluster, until};
use crate::util::Dir;

const MIB: u64 = 1 << 20;

/// A loop of the shell that collects counters, until this is dropped.
struct Collector(Child);

impl Collector {
    fn start(script: &str, into: &Path) -> Self {
        let log = std::fs::File::options().create(true).append(true).open(into).unwrap();
        let mut shell = Command::new("sh");
        Self(shell.args(["-c", script]).stdin(Stdio::null()).stdout(log).spawn().unwrap())
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Writes files one after the other, each synced.
fn write_bursts(at: &Path, n: u64) {
    for i in 0..n {
        let mut dd = Command::new("dd");
        dd.args(["if=/dev/zero", "bs=1M", "count=4", "conv=fsync", "status=none"]);
        assert!(dd.arg(format!("of={}", at.join(format!("burst{i}")).display())).status().unwrap().success());
    }
}

/// Targets, and bytes written to each of them, as `iotide convert` finds them in a log.
fn written(log: &Path) -> Vec<(String, f64)> {
    let dir = Dir::new();
    let converted = dir.iotide(["convert", log.to_str().unwrap(), "--to", "jsonl", "-o", "events.jsonl"]);
    converted.exits_with(0);
    let mut targets = std::collections::BTreeMap::new();
    for line in dir.read("events.jsonl").lines() {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        if row["op"] == "write" {
            *targets.entry(row["file"].as_str().unwrap().to_owned()).or_insert(0.0) +=
                row["bytes"].as_f64().unwrap();
        }
    }
    targets.into_iter().collect()
}

fn has(log: &Path, bytes: f64) -> bool {
    std::fs::read_to_string(log).is_ok_and(|text| text.matches("# ").count() > 2)
        && (written(log).iter().map(|(_, written)| written).sum::<f64>() - bytes).abs() < 1.0
}

#[test]
fn what_bricks_of_gluster_count_is_what_clients_wrote() {
    let Some(gluster) = Gluster::start() else { return };
    // Clients dump their counters by the name of the volume, for the whole machine.
    let volume = gluster.name();
    gluster.volume(volume, &["replica", "3"], 3);
    gluster.set(volume, "diagnostics.stats-dump-interval", "1");
    gluster.set(volume, "diagnostics.stats-dump-format", "json");
    gluster.tell(&["volume", "profile", volume, "start"]);
    let at = gluster.mount(volume, "m", "");
    let logs = gluster.folder("logs");
    let (dumps, profile) = (logs.join("dumps"), logs.join("profile"));
    let own: Vec<PathBuf> = (1..=3).map(|n| gluster.dump_of(volume, n)).collect();
    until("bricks dump their counters", || own.iter().all(|dump| dump.exists()));
    let info = gluster.tell(&["volume", "info", volume, "--xml"]);
    std::fs::write(&dumps, &info).unwrap();
    std::fs::write(&profile, &info).unwrap();
    let own: Vec<_> = own.iter().map(|dump| dump.display().to_string()).collect();
    let script = format!(
        "while sleep 1; do for dump in {}; do stat -c '# %.Y' \"$dump\"; \
         grep -E 'aggr\\.(bytes_|fop\\.(read|write)\\.count)' \"$dump\"; done; done",
        own.join(" ")
    );
    let collector = Collector::start(&script, &dumps);
    let ask = |when: u64| {
        let said = gluster.tell(&["volume", "profile", volume, "info", "cumulative", "--xml"]);
        let before = std::fs::read_to_string(&profile).unwrap();
        std::fs::write(&profile, format!("{before}# {when}\n{said}")).unwrap();
    };
    ask(1);
    until("the log has begun", || {
        std::fs::read_to_string(&dumps).is_ok_and(|text| text.matches("# ").count() >= 3)
    });
    write_bursts(&at, 5);
    ask(2);
    let all = (20 * MIB) as f64;
    until("the log has all of it", || has(&dumps, all));
    drop(collector);
    let third = all / 3.0;
    for log in [&dumps, &profile] {
        let targets = written(log);
        assert_eq!(targets.len(), 3, "{targets:?}");
        assert!(
            targets
                .iter()
                .all(|(name, bytes)| name.starts_with("10.91.0.1:/") && (bytes - third).abs() < 1.0),
            "{targets:?}"
        );
    }
    // Bricks are the targets of a model.
    let dir = Dir::new();
    let system = dir.iotide(["templates", dumps.to_str().unwrap(), "--format", "json"]).exits_with(0).json();
    assert_eq!(system["storage"]["targets"].as_array().map(Vec::len), Some(3), "{system}");
    // A daemon that runs beside them counts the same.
    let place = iotide_testkit::FreshDir::new("serve-gluster");
    let _daemon = crate::serve::Daemon::start(&place);
    let brick = gluster.dump_of(volume, 1).file_stem().unwrap().to_str().unwrap().replace("glusterfsd_", "");
    until("the daemon has read the dumps", || {
        let metrics = crate::serve::get_at(&place.join("socket"), "/metrics").1;
        let line = metrics.lines().find(|line| {
            line.starts_with("iotide_node_gluster_written_bytes_total")
                && line.contains(&format!("\"{brick}\""))
        });
        line.is_some_and(|line| line.ends_with(&format!(" {}", 20 * MIB)))
    });
}

#[test]
fn what_a_daemon_of_ceph_counts_is_what_clients_wrote() {
    let Some(ceph) = Ceph::start() else { return };
    let log = ceph.folder("logs").join("ceph");
    let socket = ceph.osd_socket();
    let script = format!(
        "while sleep 1; do for socket in {}; do date +\"# %s.%N $(basename \"$socket\" .asok)\"; \
         ceph daemon \"$socket\" perf dump osd; done; done",
        socket.display()
    );
    let collector = Collector::start(&script, &log);
    until("the log has begun", || {
        std::fs::read_to_string(&log).is_ok_and(|text| text.matches("op_in_bytes").count() >= 2)
    });
    write_bursts(&ceph.mounted(), 5);
    // Metadata of the file system are objects as well.
    let is_all = || {
        written(&log)
            .first()
            .is_some_and(|(name, bytes)| name == "osd.0" && (20 * MIB..22 * MIB).contains(&(*bytes as u64)))
    };
    until("the log has all of it", is_all);
    drop(collector);
}
