//! The loop from end to end: what is measured of a job decides about its set, its staging and its size, by itself.

use std::path::Path;
use std::process::{Command, Stdio};

use iotide_testkit::{FreshDir, program};
use serde_json::Value;

use crate::serve::{Daemon, IOTIDE, record, unix_get};
use crate::slurm_site::{Slurm, wait_until};
use crate::sources::Running;

/// Returns the output of `iotide decisions`, the latest decision first.
fn decisions(dir: &FreshDir) -> Vec<Value> {
    let mut command = Command::new(IOTIDE);
    command.args(["decisions", "--format", "json"]).env("IOTIDE_DAEMON", dir.join("socket"));
    let output = command.stderr(Stdio::null()).output().unwrap();
    let list: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    list["decisions"].as_array().cloned().unwrap_or_default()
}

/// Waits until there is such a decision of an actor.
#[track_caller]
fn until(dir: &FreshDir, actor: &str, is_such: impl Fn(&Value) -> bool) -> Value {
    let mut found = None;
    wait_until(|| {
        let is_it = |decision: &Value| decision["actor"] == actor && is_such(decision);
        found = decisions(dir).into_iter().find(is_it);
        found.is_some()
    });
    found.unwrap()
}

/// Whether it was carried out, whatever became of it.
fn is_taken(decision: &Value) -> bool {
    ["standing", "undone", "over"].iter().any(|state| decision["state"] == *state)
}

fn is_standing(decision: &Value) -> bool {
    decision["state"] == "standing"
}

fn is_over(decision: &Value) -> bool {
    decision["state"] == "over"
}

fn stage_rule(dir: &FreshDir) -> String {
    format!(
        "[[act.rule]]\nname = \"results\"\nactor = \"stage\"\nfrom = \"{0}/buffer/{{job}}\"\nto = \"{0}/safe/{{job}}\"\nbandwidth = \"20MB\"\n",
        dir.path().display()
    )
}

fn start<'a>(dir: &'a FreshDir, rules: &str, command: Command) -> Daemon<'a> {
    dir.write("serve.toml", format!("[act]\ndry_run = false\nevery = \"200ms\"\n{rules}"));
    std::fs::create_dir(dir.join("safe")).unwrap();
    let config = dir.join("serve.toml").display().to_string();
    Daemon::start_with(dir, command, &["--config", &config])
}

/// A job that writes a file into its buffer every second.
const EACH_SECOND: &str =
    "for i in $(seq $N); do dd if=/dev/zero of=buffer/4711/out$i bs=1M count=3; sleep 1; done 2> /dev/null";

fn names(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.map(|it| it.file_name().to_string_lossy().into_owned()).collect();
    names.retain(|name| !name.starts_with(".iotide-stage"));
    names.sort();
    names
}

#[test]
fn what_a_job_with_a_rhythm_writes_is_staged_by_itself_and_safe_after_its_end() {
    let dir = FreshDir::new("act-stage");
    std::fs::create_dir_all(dir.join("buffer/4711")).unwrap();
    let daemon = start(&dir, &stage_rule(&dir), Command::new(IOTIDE));
    let mut job = record(&dir, "4711").env("N", "14").args(["sh", "-c", EACH_SECOND]).spawn().unwrap();
    let taken = until(&dir, "stage", is_standing);
    assert_eq!(taken["jobs"][0], "4711");
    assert_eq!(taken["expected"]["quantity"], "until_safe", "{taken}");
    assert!(taken["expected"]["change"].as_f64().unwrap() < -0.05, "{taken}");
    assert!(job.wait().unwrap().success());
    let over = until(&dir, "stage", is_over);
    assert_eq!(over["id"], taken["id"]);
    let measured = &over["measured"];
    assert_eq!(measured["quantity"], "until_safe", "{over}");
    assert!(measured["without"].as_f64().unwrap() > 0.0, "{over}");
    let [buffer, safe] = ["buffer/4711", "safe/4711"].map(|path| names(&dir.join(path)));
    assert_eq!((buffer.len(), &buffer), (14, &safe), "nothing is removed, everything is safe");

    // Killed, it leaves nobody who stages, and nothing half-copied.
    let mut job = record(&dir, "4711").env("N", "250").args(["sh", "-c", EACH_SECOND]).spawn().unwrap();
    until(&dir, "stage", is_standing);
    let stagers = || {
        let mut pgrep = Command::new("pgrep");
        let found = pgrep.args(["-f", &format!("stage out {}/buffer", dir.path().display())]).output();
        String::from_utf8(found.unwrap().stdout).unwrap()
    };
    assert_ne!(stagers(), "");
    daemon.kill();
    wait_until(|| stagers().is_empty());
    let whole = |name: &String| {
        let length = std::fs::metadata(dir.join("safe/4711").join(name)).unwrap().len();
        name.starts_with("out") && length == 3 << 20
    };
    let safe = names(&dir.join("safe/4711"));
    assert!(safe.iter().all(whole), "{safe:?}");
    let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", job.id())]).status();
    job.wait().unwrap();
}

/// A job that goes on as fast as it has nodes, and writes now and then: it asks the batch system for its size.
const SOLVER: &str = "while ! [ -e $BUFFER/../over ]; do n=$(squeue -h -j $SLURM_JOB_ID -o %D); sleep $(awk \"BEGIN { print 3 / $n }\"); \
                      i=$((i + 1)); dd if=/dev/zero of=$BUFFER/$SLURM_JOB_ID/out$i bs=1M count=4 2> /dev/null; done";

struct Site<'a> {
    dir: &'a FreshDir,
    slurm: Slurm,
}

impl Site<'_> {
    /// Submits a traced job under the arbiter.
    fn submit(&self, args: &[&str], size: u32, script: &str) -> String {
        let here = self.dir.path().display();
        let wrapped = format!(
            "mkdir -p {here}/buffer/$SLURM_JOB_ID; export BUFFER={here}/buffer PMI_RANK=0 PMI_SIZE={size} IOTIDE_APP=solver IOTIDE_LIVE={here}/pages \
             IOTIDE_GATE=unix:{here}/gate; exec {IOTIDE} record --live -q -- sh -c '{script}'"
        );
        let mut command =
            self.slurm.command("sbatch", &["--parsable", "--exclusive", "-t", "5", "-o", "/dev/null"]);
        command.args(args).arg("--wrap").arg(wrapped).current_dir(self.dir.path());
        self.slurm.run(command).trim().to_owned()
    }

    fn size_of(&self, job: &str) -> String {
        // Of all: one that is long gone is an error.
        let squeue = self.slurm.command("squeue", &["-h", "-t", "RUNNING", "-o", "%i %D"]);
        let rows = self.slurm.run(squeue);
        let size = rows.lines().find_map(|row| row.strip_prefix(&format!("{job} ")).map(str::to_owned));
        size.unwrap_or_default()
    }

    /// How many runs the models of the application are based on, and the notes on others.
    fn models(&self) -> (u64, String) {
        let (_, body) = unix_get(self.dir, "/api/1/models?app=solver");
        let models: Value = serde_json::from_str(&body).unwrap_or_default();
        (models["runs"].as_u64().unwrap_or(0), models["notes"].to_string())
    }
}

#[test]
fn on_a_real_slurm_a_job_gets_its_set_its_staging_and_its_size_by_itself_and_the_next_run_refits_its_model() {
    let Some(slurm) = Slurm::start(4, "SchedulerParameters=permit_job_expansion,sched_min_interval=100000\n")
    else {
        return;
    };
    let Some(_) = program("awk") else { return };
    let folder = FreshDir::new("loop");
    let (dir, site) = (&folder, Site { dir: &folder, slurm });
    dir.write("periods.json", "{}");
    let gate = format!("unix:{}", dir.join("gate").display());
    let mut arbiter = Command::new(IOTIDE);
    arbiter.args(["arbiter", &gate, "--control", "control", "--periods", "periods.json"]);
    let arbiter = Running::start(arbiter.current_dir(dir.path()));
    arbiter.until("listening");
    let rules = format!(
        "{}[[act.rule]]\nactor = \"resize\"\npartitions = [\"main\"]\nsignal = \"none\"\ntimeout = \"5s\"\nalpha = \"1s\"\n\
         [[act.rule]]\nactor = \"sets\"\ncontrol = \"{}\"\nbandwidth = \"100MB\"\nleast_gain = 0\n",
        stage_rule(dir),
        dir.join("control").display()
    );
    let daemon = start(dir, &rules, site.slurm.command(IOTIDE, &[]));
    // Recorded at several sizes: eight seconds of work, shared by all, so that a start that takes long on a busy machine matters little.
    for size in [1, 2, 3, 4, 8] {
        site.submit(
            &["-N1"],
            size,
            &format!("sleep $(awk \"BEGIN {{ print 8 / {size} }}\"); echo > $BUFFER/$SLURM_JOB_ID/out"),
        );
    }
    wait_until(|| site.models().0 == 5);
    let job = site.submit(&["-N2", "--comment", "iotide:min=1,max=4"], 2, SOLVER);
    let resized = until(dir, "resize", is_taken);
    assert!(resized["evidence"].to_string().contains("by earlier runs it takes"), "{resized}");
    assert_eq!(until(dir, "stage", is_taken)["jobs"][0], job);
    assert_eq!(until(dir, "sets", is_taken)["jobs"][0], job);
    wait_until(|| site.size_of(&job) == "4");
    let measured = until(dir, "resize", |it| it["measured"].is_object());
    assert_eq!(measured["measured"]["quantity"], "run_time");
    dir.write("over", "");
    let over = until(dir, "stage", |it| is_over(it) || it["state"] == "undone");
    assert!(over["measured"].is_object(), "{over}");
    // Its time is that of no size; the next run counts.
    site.submit(&["-N1"], 4, "sleep 1; echo > $BUFFER/$SLURM_JOB_ID/out");
    wait_until(|| site.models().0 == 6);
    assert!(site.models().1.contains("the size was changed meanwhile"), "{:?}", site.models());
    // One that gains little from its nodes gives some to another that waits; what it gave it has again in the end.
    let marked = site.submit(&["-N4", "--comment", "iotide:min=1,max=4,serial=0.5"], 4, "sleep 250");
    wait_until(|| site.size_of(&marked) == "4");
    let waiting = site.submit(&["-N2"], 2, "sleep 1");
    let given = until(dir, "resize", |it| it["jobs"][0] == *marked && it["measured"].is_object());
    assert_eq!(given["measured"]["quantity"], "wait", "{given}");
    assert!(given["evidence"].to_string().contains(&format!("{waiting} can start")), "{given}");
    assert_eq!(site.size_of(&marked), "2");
    // Who is not to be reached is named, and nobody else waits for it.
    let trouble = || {
        let (_, body) = unix_get(dir, "/api/1/decisions");
        let list: Value = serde_json::from_str(&body).unwrap_or_default();
        list["rules"][1]["trouble"].is_string()
    };
    site.slurm.signal_controller("STOP");
    wait_until(trouble);
    site.slurm.signal_controller("CONT");
    wait_until(|| !trouble() && site.size_of(&waiting).is_empty());
    daemon.stop();
    assert_eq!(site.size_of(&marked), "4");
}
