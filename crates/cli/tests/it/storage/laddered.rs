//! `iotide ladder` on file systems that programs serve: past which caches, and on which file system.

use super::{Ceph, Gluster};
use crate::util::Dir;

/// A short ladder as JSON, which leaves nothing behind.
fn ladder(at: &std::path::Path) -> serde_json::Value {
    let dir = Dir::new();
    let args = [
        "ladder",
        at.to_str().unwrap(),
        "--in-flight",
        "1,4",
        "--sizes",
        "64K",
        "--seconds",
        "0.2",
        "--most",
        "16M",
    ];
    let report = dir.iotide(args).exits_with(0);
    let mut command = dir.command(args);
    let output = command.args(["--format", "json"]).output().unwrap();
    let left: Vec<_> = std::fs::read_dir(at).unwrap().flatten().map(|entry| entry.file_name()).collect();
    assert!(left.is_empty(), "{left:?}");
    let mut found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    found["text"] = report.stdout.into();
    found
}

#[test]
fn a_ladder_on_gluster_names_it_and_what_may_be_cached() {
    let Some(gluster) = Gluster::start() else { return };
    gluster.volume("dist", &[], 1);
    let found = ladder(&gluster.mount("dist", "dist", ""));
    assert_eq!(found["how"], "direct", "{found}");
    let file_system =
        serde_json::json!({"kind": "fuse.glusterfs", "source": "10.91.0.1:/dist", "is_shared": true});
    assert_eq!(found["file_system"], file_system);
    let text = found["text"].as_str().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("fuse.glusterfs (10.91.0.1:/dist): requests went past the page cache of this machine; the client may keep"), "{text}");
}

/// Whether requests pass the client's cache: the server of the objects counts what comes.
#[test]
fn a_ladder_on_cephfs_reaches_the_servers() {
    let Some(ceph) = Ceph::start() else { return };
    let written = || {
        let counters =
            ceph.run("ceph", &["daemon", ceph.osd_socket().to_str().unwrap(), "perf", "dump", "osd"]);
        let counters: serde_json::Value = serde_json::from_str(&counters).unwrap();
        counters["osd"]["op_w"].as_f64().unwrap()
    };
    let before = written();
    let found = ladder(&ceph.mounted());
    assert_eq!((&found["how"], &found["file_system"]["kind"]), (&"direct".into(), &"fuse.ceph-fuse".into()));
    // Both runs; a cache would write a hundred requests over the same blocks as a few.
    let requests: f64 =
        found["cells"].as_array().unwrap().iter().map(|cell| cell["completions"].as_f64().unwrap()).sum();
    assert!(written() - before >= requests, "{requests} requests, {} of the server", written() - before);
}
