use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use iotide_testkit::{FreshDir, Missing, program, skip};

use super::{Daemon, IOTIDE, unix_get};

/// A cgroup of this test's own, removed when dropped. It lies too deep for the daemons of other tests to find it.
struct Cgroup {
    root: PathBuf,
    parent: PathBuf,
    job: PathBuf,
}

impl Cgroup {
    fn make(controller: &Path, id: &str) -> Option<Self> {
        let root = controller.join(format!("iotide-test-{}", std::process::id()));
        let parent = root.join("a/b/c/d/e");
        let job = parent.join(format!("job_{id}"));
        fs::create_dir_all(&job).ok().map(|()| Self { root, parent, job })
    }

    fn remove(&self) {
        while self.job.exists() {
            // Processes that have just ended are still in it.
            let _ = fs::remove_dir(&self.job);
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let mut folder = self.job.as_path();
        while folder.starts_with(&self.root) {
            let _ = fs::remove_dir(folder);
            folder = folder.parent().unwrap();
        }
    }
}

#[test]
fn a_job_without_any_wrapper_is_known_by_its_cgroup() {
    let Some(setpriv) = program("setpriv") else { return };
    // Of version 1, or of version 2, where it is in use.
    let cpuacct = Path::new("/sys/fs/cgroup/cpuacct");
    let controller = if cpuacct.is_dir() { cpuacct } else { Path::new("/sys/fs/cgroup") };
    let id = std::process::id().to_string();
    let Some(cgroup) = Cgroup::make(controller, &id) else {
        return skip(Missing::Data, "rights to make a cgroup");
    };
    let dir = FreshDir::new("serve-cgroup");
    let settings = dir.write("serve.toml", format!("cgroups = {:?}\n", cgroup.parent));
    let options = ["--config", settings.to_str().unwrap()];
    let daemon = Daemon::start_with(&dir, Command::new(IOTIDE), &options);
    let script = format!(
        "echo $$ > {}/cgroup.procs; exec {} --reuid 65534 --clear-groups sh -c 'while :; do :; done'",
        cgroup.job.display(),
        setpriv.display()
    );
    let mut child = Command::new("sh")
        .args(["-c", &script])
        .envs([("SLURM_JOB_NAME", "burner"), ("SLURM_CLUSTER_NAME", "tide"), ("SLURM_NTASKS", "3")])
        .spawn()
        .unwrap();
    let running = loop {
        let job = daemon.job(&id, "running");
        let has = |name: &str| job["cgroup"][name].as_f64().unwrap_or(0.0) > 0.3;
        if has("cpu_user_s") || has("cpu_system_s") {
            break job;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!((&running["trust"], &running["uid"]), (&"cgroup".into(), &65534.into()));
    assert_eq!(
        (&running["name"], &running["cluster"], &running["size"]),
        (&"burner".into(), &"tide".into(), &3.into())
    );
    assert_eq!(running["n_running"], 0, "processes that count themselves");
    let (_, metrics) = unix_get(&dir, "/metrics");
    assert!(
        metrics.contains(&format!("iotide_job_cpu_seconds_total{{job=\"{id}\",mode=\"user\"}} ")),
        "{metrics}"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    let usage = fs::read_to_string(cgroup.job.join("cpuacct.usage_user"));
    cgroup.remove();
    let ended = daemon.job(&id, "ended");
    let seconds = ended["cgroup"]["cpu_user_s"].as_f64().unwrap();
    // What the system has in the end, but for the last second or so; on a machine that is busy with other things that is little.
    if let Ok(usage) = usage {
        let all = usage.trim().parse::<f64>().unwrap() / 1e9;
        assert!(seconds > 0.0 && seconds <= all + 1e-6, "{seconds} of {all}");
    }
    assert!(seconds >= running["cgroup"]["cpu_user_s"].as_f64().unwrap());
    let (_, series) = unix_get(&dir, &format!("/api/1/jobs/{id}/series?metric=cpu_user_ns"));
    let series: serde_json::Value = serde_json::from_str(&series).unwrap();
    let last = series["values"].as_array().unwrap().last().unwrap().as_f64().unwrap();
    assert_eq!(last / 1e9, seconds, "{series}");
    daemon.kill();
}
