//! The loop when something fails at any moment: nothing is left half-done, and jobs lose nothing.

use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use iotide_testkit::FreshDir;
use serde_json::Value;

use crate::act::{acting, arbiter, decisions, job, settings, until_decided, until_given};
use crate::serve::{IOTIDE, record};
use crate::slurm_site::wait_until;

/// Random moments. The seed is printed if the test fails; `IOTIDE_SEED` sets it again.
struct Moments {
    seed: u64,
    state: u64,
}

impl Moments {
    fn new() -> Self {
        let given = std::env::var("IOTIDE_SEED").ok().and_then(|seed| seed.parse().ok());
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64 % 1_000_000_007;
        let seed = given.unwrap_or_else(now);
        Self { seed, state: seed }
    }

    /// A time of at most so many milliseconds.
    fn within(&mut self, most_ms: u64) -> Duration {
        // Steele's SplitMix64: every seed is as good as any other.
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        Duration::from_millis((mixed ^ (mixed >> 31)) % most_ms)
    }

    fn pass(&mut self, most_ms: u64) {
        std::thread::sleep(self.within(most_ms));
    }
}

impl Drop for Moments {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let _ = writeln!(std::io::stderr(), "the moments were those of IOTIDE_SEED={}", self.seed);
        }
    }
}

/// Stagers of a test's own folder.
fn stagers(dir: &FreshDir) -> String {
    let mut pgrep = Command::new("pgrep");
    let found = pgrep.args(["-f", &format!("stage out {}/", dir.path().display())]).output();
    String::from_utf8(found.unwrap().stdout).unwrap()
}

/// Results in a folder, without what staging keeps for itself.
fn results(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let read = entries.map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        (name, entry.path())
    });
    read.filter(|(name, _)| !name.starts_with(".iotide-stage"))
        .map(|(name, path)| (name, std::fs::read(path).unwrap()))
        .collect()
}

#[test]
fn a_daemon_that_is_killed_again_and_again_leaves_nothing_half_done_and_jobs_lose_nothing() {
    const N_PHASES: usize = 11;
    let mut moments = Moments::new();
    let dir = FreshDir::new("failures-killed");
    let arbiter = arbiter(&dir);
    settings(&dir, false);
    let mut rules = std::fs::read_to_string(dir.join("serve.toml")).unwrap();
    rules += &format!(
        "[[act.rule]]\nname = \"results\"\nactor = \"stage\"\nfrom = \"{0}/buffer/{{job}}\"\nto = \"{0}/safe/{{job}}\"\nbandwidth = \"20MB\"\nleast_gain = 0\n",
        dir.path().display()
    );
    dir.write("serve.toml", rules);
    for name in ["buffer/4711", "safe"] {
        std::fs::create_dir_all(dir.join(name)).unwrap();
    }
    let pattern: Vec<u8> = (0..3u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    std::fs::write(dir.join("pattern"), &pattern).unwrap();
    let script = format!(
        "for i in $(seq {N_PHASES}); do dd if=pattern of=buffer/4711/out$i bs=1M 2> /dev/null || exit 1; sleep 1; done"
    );
    let mut daemon = acting(&dir);
    let mut command = record(&dir, "4711");
    command.env("IOTIDE_GATE", format!("unix:{}", dir.join("gate").display()));
    let mut job = command.args(["sh", "-c", &script]).spawn().unwrap();
    // Before, while and after something is decided.
    let status = loop {
        moments.pass(6_000);
        daemon.kill();
        daemon = acting(&dir);
        if let Some(status) = job.try_wait().unwrap() {
            break status;
        }
    };
    daemon.kill();
    assert!(status.success(), "the job noticed: {status}");
    wait_until(|| stagers(&dir).is_empty());
    let written = results(&dir.join("buffer/4711"));
    assert_eq!(written.len(), N_PHASES);
    for (name, bytes) in written.iter().chain(&results(&dir.join("safe/4711"))) {
        assert!(*bytes == pattern, "{name} has {} bytes, or others", bytes.len());
    }
    until_given(&dir, false);
    drop(arbiter);
    // The next one knows of what was decided: nothing of it stands, and no number was given twice.
    let _daemon = acting(&dir);
    let list = decisions(&dir);
    let ids: Vec<u64> =
        list["decisions"].as_array().unwrap().iter().map(|it| it["id"].as_u64().unwrap()).collect();
    assert!(ids.is_sorted_by(|later, earlier| later > earlier), "{ids:?}");
    let stands = list["decisions"].as_array().unwrap().iter().any(|it| it["state"] == "standing");
    assert!(!stands, "{list}");
}

#[test]
fn an_arbiter_that_hangs_at_any_moment_holds_nobody_up_and_forgets_what_could_not_be_taken_back() {
    let mut moments = Moments::new();
    let dir = FreshDir::new("failures-hangs");
    let arbiter = arbiter(&dir);
    settings(&dir, false);
    let _daemon = acting(&dir);
    let _job = job(&dir);
    until_decided(&dir, "standing");
    until_given(&dir, true);
    let signal = |name: &str| {
        let done = Command::new("kill").args(["-s", name, &arbiter.id().to_string()]).status();
        assert!(done.unwrap().success());
    };
    let trouble = || decisions(&dir)["rules"][0]["trouble"].as_str().map(str::to_owned);
    let n_files = || std::fs::read_dir(dir.join("src")).unwrap().count();
    moments.pass(1_000);
    signal("STOP");
    // The daemon answers meanwhile, and the job goes on.
    wait_until(|| trouble().is_some());
    let n_before = n_files();
    wait_until(|| n_files() > n_before + 1);
    moments.pass(1_000);
    signal("CONT");
    wait_until(|| trouble().is_none());
    until_given(&dir, true);
    // What it does not hear when it is taken back runs out.
    moments.pass(1_000);
    signal("STOP");
    let stop = Command::new(IOTIDE)
        .args(["decisions", "stop", "scratch"])
        .env("IOTIDE_DAEMON", dir.join("socket"))
        .output()
        .unwrap();
    assert!(stop.status.success(), "{stop:?}");
    until_decided(&dir, "undone");
    moments.pass(1_000);
    signal("CONT");
    until_given(&dir, false);
    assert_eq!(decisions(&dir)["rules"][0]["standing"], Value::from(0));
}
