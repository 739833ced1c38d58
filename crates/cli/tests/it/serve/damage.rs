//! Each file of a store removed, emptied and cut: what is lost is named, and nothing is silently gone.

use super::*;
use std::collections::BTreeMap;

/// Copies a store, as it was left by a daemon that ended.
fn copy(from: &Path, to: &Path) {
    let _ = fs::remove_dir_all(to);
    let copied = Command::new("cp").arg("-a").args([from, to]).status().unwrap();
    assert!(copied.success());
}

/// The files of a store, by their paths in it.
fn files(store: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![store.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => files.push(entry.path().strip_prefix(store).unwrap().to_owned()),
            }
        }
    }
    files.sort();
    files
}

/// Answers of a daemon: what is kept, by name, and all losses that it names.
fn asked(dir: &FreshDir, until_unix_s: u64) -> (BTreeMap<String, String>, String) {
    let mut kept = BTreeMap::new();
    let mut losses = unix_get(dir, "/api/1/losses").1;
    losses = if losses.contains("\"losses\":[]") { String::new() } else { losses };
    let json = |path: &str| -> Value { serde_json::from_str(&unix_get(dir, path).1).unwrap() };
    for id in ["first", "second"] {
        let job = json(&format!("/api/1/jobs/{id}"));
        kept.insert(format!("{id}: totals"), format!("{} {}", job["state"], job["io"]["bytes_written"]));
        losses += &job["losses"]
            .as_array()
            .map_or(String::new(), |all| Value::from(all.clone()).to_string().replace("[]", ""));
        let series = json(&format!("/api/1/jobs/{id}/series?metric=write_bytes"));
        kept.insert(format!("{id}: series"), series["values"].to_string());
        losses += &series["losses"].to_string().replace("[]", "").replace("null", "");
        losses += series["error"].as_str().filter(|error| error.starts_with("series: ")).unwrap_or_default();
    }
    let node = json(&format!("/api/1/nodes/n1/series?metric=processes&to={until_unix_s}"));
    let n_samples = node["values"].as_array().map_or(0, |all| all.iter().filter(|it| !it.is_null()).count());
    kept.insert("machine: samples".to_owned(), n_samples.to_string());
    losses += &node["losses"].to_string().replace("[]", "").replace("null", "");
    losses += node["error"].as_str().filter(|error| error.starts_with("series: ")).unwrap_or_default();
    let alarms = json("/api/1/alarms");
    let rules: Vec<&Value> = alarms["rules"].as_array().unwrap().iter().map(|rule| &rule["expr"]).collect();
    kept.insert("rules".to_owned(), format!("{rules:?}"));
    (kept, losses)
}

fn stop(mut daemon: Daemon<'_>) {
    assert!(Command::new("kill").arg(daemon.child.id().to_string()).status().unwrap().success());
    assert!(daemon.child.wait().unwrap().success());
}

#[test]
fn whatever_is_cut_from_a_store_is_named() {
    let dir = FreshDir::new("serve-damage");
    let daemon = Daemon::start(&dir);
    for id in ["first", "second"] {
        let script = "for n in 1 2; do dd if=/dev/zero of=out bs=1000 count=7 status=none; sleep 1; done";
        assert!(record(&dir, id).args(["sh", "-c", script]).status().unwrap().success());
        daemon.job(id, "ended");
    }
    let added = Command::new(IOTIDE)
        .args(["alarms", "add", "busy", "rate(write_bytes) > 10 MB/s"])
        .env("IOTIDE_DAEMON", dir.join("socket"))
        .status();
    assert!(added.unwrap().success());
    stop(daemon);
    let until = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() - 1;
    let (store, whole) = (dir.join("store"), dir.join("whole"));
    copy(&store, &whole);
    let daemon = Daemon::start(&dir);
    let (before, losses) = asked(&dir, until);
    assert_eq!(losses, "", "nothing is lost yet");
    assert!(before["first: totals"].ends_with("14000") && before["rules"].contains("10 MB/s"), "{before:?}");
    assert_ne!(before["machine: samples"], "0");
    stop(daemon);
    let mut unnamed = Vec::new();
    for file in files(&whole) {
        let n_bytes = fs::metadata(whole.join(&file)).unwrap().len();
        let mut lengths: Vec<Option<u64>> = vec![None, Some(0), Some(1), Some(100), Some(n_bytes / 2)];
        lengths.push(n_bytes.checked_sub(1));
        lengths.retain(|length| length.is_none_or(|length| length < n_bytes));
        lengths.dedup();
        if file == Path::new("token") {
            // One that is shorter is refused by name: an administrator may have written it.
            lengths.truncate(2);
        }
        if file.starts_with("series") && file.to_string_lossy().contains("/node.") {
            // A day without a file is one on which no daemon ran.
            lengths.remove(0);
        }
        for length in lengths {
            copy(&whole, &store);
            match length {
                None => fs::remove_file(store.join(&file)).unwrap(),
                Some(length) => {
                    fs::OpenOptions::new()
                        .write(true)
                        .open(store.join(&file))
                        .unwrap()
                        .set_len(length)
                        .unwrap();
                }
            }
            let daemon = Daemon::start(&dir);
            let is_named = || {
                let (after, losses) = asked(&dir, until);
                let gone =
                    before.iter().filter(|(name, was)| after[*name] != **was).map(|(name, _)| name.clone());
                let gone: Vec<String> = gone.collect();
                (gone.is_empty() || !losses.is_empty(), gone)
            };
            // The file of the machine is opened for its first sample.
            let (is_well, gone) = (0..50)
                .map(|n| {
                    std::thread::sleep(Duration::from_millis(if n == 0 { 0 } else { 100 }));
                    is_named()
                })
                .find(|(is_well, _)| *is_well)
                .unwrap_or_else(is_named);
            if !is_well {
                unnamed.push(format!("{}, of {n_bytes} bytes, cut to {length:?}: {gone:?}", file.display()));
            }
            stop(daemon);
        }
    }
    assert!(unnamed.is_empty(), "silently gone:\n{}", unnamed.join("\n"));
}
