//! A machine with Slurm: daemons on several nodes and one above, and the scripts that are shipped for it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use iotide_testkit::{FreshDir, program};
use serde_json::Value;

use crate::serve::{IOTIDE, logged};
use crate::slurm_site::{Slurm, wait_until};
use crate::tree::{Node, counted, sum};

/// Somebody else.
const NOBODY: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];

/// A program whose data is counted, and nothing beside it: shells and Slurm's own commands read and write, too.
struct Machine<'a> {
    dir: &'a FreshDir,
    slurm: Slurm,
}

impl<'a> Machine<'a> {
    fn start(dir: &'a FreshDir) -> Option<Self> {
        let here = dir.path().display();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        for folder in ["data", "logs"] {
            fs::create_dir(dir.join(folder)).unwrap();
            fs::set_permissions(dir.join(folder), fs::Permissions::from_mode(0o1777)).unwrap();
        }
        // Where other users can reach it.
        fs::copy(IOTIDE, dir.join("iotide")).unwrap();
        fs::copy(Path::new(IOTIDE).with_file_name("deps/libiotide.so"), dir.join("libiotide.so")).unwrap();
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/slurm");
        for name in ["prolog.sh", "epilog.sh", "task-prolog.sh"] {
            fs::copy(shipped.join(name), dir.join(name)).unwrap();
            // Here each node has places of its own.
            let node = format!("{here}/$SLURMD_NODENAME");
            let script = format!(
                "#!/bin/sh\nexport IOTIDE_LIBRARY={here}/libiotide.so IOTIDE_LIVE={node}/pages IOTIDE_JOBS={node}/jobs\n\
                 exec {here}/{name}\n"
            );
            executable(dir, &format!("site-{name}"), &script);
        }
        let summary = shipped.with_file_name("epilog");
        let script = format!(
            "#!/bin/sh\nexport IOTIDE={here}/iotide IOTIDE_DAEMON={here}/head/socket IOTIDE_SUMMARY_LOG={here}/summaries.jsonl\n\
             export IOTIDE_SUMMARY_WAIT=30s IOTIDE_SUMMARY_LIMIT=60 SLURM_CONF=$(cat {here}/conf)\nexec {}/slurm.sh\n",
            summary.display()
        );
        executable(dir, "site-summary.sh", &script);
        let name = "$SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}.$SLURM_PROCID";
        let task = format!(
            "#!/bin/sh\nmkdir -p {here}/data/{name} && cd {here}/data/{name} || exit 1\n\
             [ \"${{SLURM_RESTART_COUNT:-0}}\" = 0 ] || set -- 10\n\
             exec {here}/iotide ioskel -p 50ms -n $1 -s 300000 -j 2 --transfer-size 32k --turn-probability 0.5 \
             --log {here}/logs/{name}.csv\n"
        );
        executable(dir, "task.sh", &task);
        executable(dir, "step.sh", &format!("#!/bin/sh\nsrun {here}/task.sh 10\n"));
        executable(dir, "both.sh", &format!("#!/bin/sh\nsrun --het-group=0,1 {here}/task.sh 10\n"));
        let settings = format!(
            "SchedulerParameters=bf_interval=1,sched_min_interval=100000\nKillWait=2\n\
             Prolog={here}/site-prolog.sh\nEpilog={here}/site-epilog.sh\nTaskProlog={here}/site-task-prolog.sh\n\
             EpilogSlurmctld={here}/site-summary.sh\n"
        );
        let slurm = Slurm::start(4, &settings)?;
        dir.write("conf", slurm.conf().display().to_string());
        Some(Self { dir, slurm })
    }

    /// Submits a job; returns its id.
    #[track_caller]
    fn submit(&self, args: &[&str]) -> String {
        self.submit_by(self.slurm.command("sbatch", &["--parsable", "-o", "/dev/null"]), args)
    }

    #[track_caller]
    fn submit_by(&self, mut command: Command, args: &[&str]) -> String {
        command.args(args).current_dir(self.dir.path());
        command.env("IOTIDE_EXCLUDE", "/").env("IOTIDE_INCLUDE", self.dir.join("data"));
        self.slurm.run(command).trim().to_owned()
    }

    fn control(&self, args: &[&str]) {
        self.slurm.run(self.slurm.command("scontrol", args));
    }

    /// Returns the bytes that the programs of an attempt moved, by their own tables, one for each program.
    fn moved(&self, attempt: &str, n_tasks: usize) -> [u64; 2] {
        let tables: Vec<[u64; 2]> = (0..n_tasks)
            .map(|task| self.dir.join(format!("logs/{attempt}.{task}.csv")))
            .map(|table| ["read", "write"].map(|op| logged(&table, op)))
            .collect();
        sum(&tables)
    }
}

fn executable(dir: &FreshDir, name: &str, text: &str) {
    fs::set_permissions(dir.write(name, text), fs::Permissions::from_mode(0o755)).unwrap();
}

/// Kills what runs of a job on a node.
fn kill_processes(dir: &FreshDir, node: &str, job: &str) {
    let marks =
        [format!("IOTIDE_LIVE={}", dir.join(node).join("pages").display()), format!("SLURM_JOB_ID={job}")];
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
        let has = |mark: &String| environment.split(|&byte| byte == 0).any(|value| value == mark.as_bytes());
        if marks.iter().all(has) {
            let _ = Command::new("kill").arg("-9").arg(entry.file_name()).status();
        }
    }
}

fn ids(output: &Output) -> Vec<String> {
    let list: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let jobs = list["jobs"].as_array().cloned().unwrap_or_default();
    let mut ids: Vec<String> = jobs.iter().filter_map(|job| Some(job["job"].as_str()?.to_owned())).collect();
    ids.sort();
    ids
}

#[test]
fn every_job_of_slurm_is_closed_and_counted_whatever_happens_to_it() {
    let Some(setpriv) = program("setpriv") else { return };
    let dir = FreshDir::new("slurm");
    let Some(mut machine) = Machine::start(&dir) else { return };
    let root = Node::above(&dir, "head", &[]);
    let mut nodes = ["n1", "n2", "n3", "n4"].map(|name| Node::leaf(&dir, name, &[&root]));
    root.nodes(5);
    let has_written = |job: &Value| job["io"]["bytes_written"].as_u64() > Some(0);
    let task = dir.join("task.sh").display().to_string();

    // A node dies, with all that runs there; on another one only its slurmd does.
    let lost = machine.submit(&["-w", "n4", "--requeue", &task, "10000"]);
    let orphan = machine.submit(&["-w", "n3", &task, "60"]);
    root.job(&lost, has_written);
    root.job(&orphan, has_written);
    machine.slurm.kill_node("n3");
    machine.slurm.kill_node("n4");
    nodes[3].kill();
    machine.control(&["update", "nodename=n4", "state=down", "reason=killed"]);
    kill_processes(&dir, "n4", &lost);

    // An array. Its tasks are found by the names that Slurm gives them.
    let array = machine.submit(&["-A", "chem", "-w", "n1", "--array=1-3", &task, "10"]);
    for i in 1..=3 {
        let name = format!("{array}_{i}");
        let job = root.job(&name, |job| job["state"] == "ended");
        assert_eq!(
            counted(&job),
            machine.moved(&format!("{}.0", job["job"].as_str().unwrap()), 1),
            "{job:#}"
        );
        let said = ["alias", "account", "partition", "cluster", "user"].map(|name| job[name].clone());
        assert_eq!(said, [name.as_str(), "chem", "main", "iotide", "root"].map(Value::from), "{job:#}");
    }

    // A step over two nodes, and a heterogeneous job, whose components are one.
    for (id, of) in [
        (machine.submit(&["-w", "n1,n2", "-N2", "-n2", "step.sh"]), "two nodes"),
        (machine.submit(&["-w", "n1", "-n1", ":", "-w", "n2", "-n1", "both.sh"]), "two components"),
    ] {
        let job = root.ended(&id);
        assert_eq!(job["nodes"], serde_json::json!(["n1", "n2"]), "{of}: {job:#}");
        assert_eq!(counted(&job), machine.moved(&format!("{id}.0"), 2), "{of}: {job:#}");
    }

    // One that is cancelled has an end, too.
    let cancelled = machine.submit(&["-w", "n2", &task, "10000"]);
    root.job(&cancelled, has_written);
    machine.slurm.run(machine.slurm.command("scancel", &[&cancelled]));
    let job = root.ended(&cancelled);
    assert!(job["n_killed"].as_u64() > Some(0) && has_written(&job), "{job:#}");

    // Another user's, who sees that one and no other.
    let mut command = machine.slurm.command(setpriv.to_str().unwrap(), &NOBODY);
    command.args(["sbatch", "--parsable", "-o", "/dev/null"]);
    let theirs = machine.submit_by(command, &["-w", "n1", &task, "10"]);
    let job = root.ended(&theirs);
    assert_eq!(
        (counted(&job), &job["uid"]),
        (machine.moved(&format!("{theirs}.0"), 1), &65534.into()),
        "{job:#}"
    );
    let ask = |args: &[&str]| {
        let mut command = Command::new(&setpriv);
        command.args(NOBODY).arg(dir.join("iotide")).args(args);
        command.env("IOTIDE_DAEMON", root.path("socket")).output().unwrap()
    };
    assert_eq!(ids(&ask(&["jobs", "--format", "json"])), [theirs]);
    for hidden in [&cancelled, &format!("{array}_1")] {
        let output = ask(&["job", hidden]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains("is known to you"), "{said}");
    }

    // The node that died was given up by Slurm, and its job was begun anew: that is another run.
    let job = format!("jobid={lost}");
    let update = ["update", &job, "ReqNodeList=n1", "StartTime=now"];
    wait_until(|| machine.slurm.command("scontrol", &update).output().unwrap().status.success());
    let again = root.ended(&format!("{lost}.r1"));
    assert_eq!(counted(&again), machine.moved(&format!("{lost}.1"), 1), "{again:#}");
    assert_ne!(again["nodes"], serde_json::json!(["n4"]));

    // Whose slurmd was killed ran on to its end.
    let job = root.ended(&orphan);
    assert_eq!(counted(&job), machine.moved(&format!("{orphan}.0"), 1), "{job:#}");

    // Nobody has heard of the dead node for a minute.
    let job = root.job(&lost, |job| job["state"] != "running");
    let losses = job["losses"].to_string();
    assert!(job["state"] == "partial" && losses.contains("node n4: not heard of"), "{job:#}");
    assert!(has_written(&job), "{job:#}");
    let list = root.ask(&["jobs", "--format", "json"]);
    let is_closed =
        |job: &Value| job["state"] == "ended" || job["state"] == "partial" && job["job"] == lost.as_str();
    assert!(
        list["jobs"].as_array().is_some_and(|jobs| jobs.len() == 10 && jobs.iter().all(is_closed)),
        "{list:#}"
    );

    // It comes back: its pages have outlived it, and what was missing is there.
    let before = counted(&job);
    nodes[3].start_again();
    let job = root.ended(&lost);
    assert!(counted(&job)[1] >= before[1] && job["losses"] == Value::Array(Vec::new()), "{job:#}");
}

#[test]
fn a_job_of_slurm_is_summed_up_at_its_end() {
    let dir = FreshDir::new("slurm-summary");
    let Some(machine) = Machine::start(&dir) else { return };
    let root = Node::above(&dir, "head", &[]);
    let _nodes = ["n1", "n2"].map(|name| Node::leaf(&dir, name, &[&root]));
    root.nodes(3);
    let id = machine.submit(&["-w", "n1,n2", "-N2", "-n2", "--time=5", "step.sh"]);
    let log = || fs::read_to_string(dir.join("summaries.jsonl")).unwrap_or_default();
    wait_until(|| log().ends_with('\n'));
    let summary: Value = serde_json::from_str(&log()).unwrap();
    assert_eq!((&summary["job"], &summary["state"]), (&id.as_str().into(), &"ended".into()), "{summary:#}");
    let asked = &summary["asked"];
    assert_eq!((&asked["time_s"], &asked["nodes"]), (&300.0.into(), &2.into()), "{summary:#}");
    assert!(asked["cpus"].as_u64() >= Some(2) && summary["used"]["time_s"].as_f64().is_some(), "{summary:#}");
    let io = ["bytes_read", "bytes_written"].map(|of| summary["io"][of].as_u64().unwrap());
    assert_eq!(io, machine.moved(&format!("{id}.0"), 2), "{summary:#}");
}

#[test]
fn jobs_of_slurm_are_called_as_their_users_call_them_and_programs_stay_apart() {
    let Some(setpriv) = program("setpriv") else { return };
    let dir = FreshDir::new("slurm-names");
    let Some(machine) = Machine::start(&dir) else { return };
    let root = Node::above(&dir, "head", &[]);
    let _leaf = Node::leaf(&dir, "n1", &[&root]);
    root.nodes(2);
    let here = dir.path().display();
    fs::copy(IOTIDE, dir.join("sim")).unwrap();
    let sim = format!("{here}/sim ioskel -p 50ms -n 4 -s 300000 --transfer-size 32k -d {here}/data");
    let dd = format!("dd if=/dev/zero of={here}/data/$SLURM_JOB_ID.dd bs=1M count=8");
    executable(&dir, "run.sh", &format!("#!/bin/bash\nexec {dd}\n"));
    executable(&dir, "steps.sh", &format!("#!/bin/sh\nfor i in 1 2; do srun -n1 {sim}; done\n"));
    executable(&dir, "two.sh", &format!("#!/bin/sh\ncp {here}/task.sh {here}/data/copy\n{dd}\n"));
    fs::create_dir(dir.join("theirs")).unwrap();
    executable(&dir, "theirs/run.sh", &format!("#!/bin/sh\n{sim}\n"));

    let submit = |args: &[&str]| {
        let mut command = machine.slurm.command("sbatch", &["--parsable", "-o", "/dev/null", "-w", "n1"]);
        command.args(args).current_dir(dir.path());
        machine.slurm.run(command).trim().to_owned()
    };
    let (plain, named) = (submit(&["run.sh"]), submit(&["-J", "flow", "steps.sh"]));
    let (two, array) = (submit(&["two.sh"]), submit(&["-J", "sweep", "--array=1-2", "run.sh"]));
    let wrapped = submit(&["--wrap", &dd]);
    let mut command = machine.slurm.command(setpriv.to_str().unwrap(), &NOBODY);
    command.args(["sbatch", "--parsable", "-o", "/dev/null", "-w", "n1", "theirs/run.sh"]);
    command.current_dir(dir.path());
    let theirs = machine.slurm.run(command).trim().to_owned();

    let mut apps = Vec::new();
    for (id, name, program, user) in [
        (plain, "run.sh", "dd", "root"),
        (named, "flow", "sim", "root"),
        (two, "two.sh", "dd", "root"),
        (format!("{array}_1"), "sweep", "dd", "root"),
        (format!("{array}_2"), "sweep", "dd", "root"),
        (wrapped, "dd", "dd", "root"),
        (theirs, "run.sh", "sim", "nobody"),
    ] {
        let job = root.job(&id, |job| job["state"] == "ended");
        let said = ["name", "program", "user"].map(|field| job[field].clone());
        assert_eq!(said, [name, program, user].map(Value::from), "{id}: {job:#}");
        // One process reads or writes, whatever shells and launchers are around it; in one job a copy is made before.
        let n_working = if name == "two.sh" { 2 } else { 1 };
        assert_eq!(job["size"], n_working, "{id}: {job:#}");
        apps.push((program, job["app"].clone()));
    }
    // Runs of one program are runs of one application, whatever their jobs are called.
    for (program, app) in &apps {
        let same = apps.iter().filter(|(_, other)| other == app);
        assert!(same.clone().all(|(other, _)| other == program), "{apps:?}");
    }
    let output = Command::new(IOTIDE).arg("jobs").env("IOTIDE_DAEMON", root.path("socket")).output().unwrap();
    let list = String::from_utf8_lossy(&output.stdout);
    assert!(list.contains("flow (sim)") && list.contains("run.sh (dd)"), "{list}");
}

/// `stage.sh` and `stage-epilog.sh`: what a job has closed when its end is announced, and what it writes between that and its end.
#[test]
fn results_of_a_job_of_slurm_are_safe_after_its_end() {
    let Some(setpriv) = program("setpriv") else { return };
    let dir = FreshDir::new("slurm-stage");
    let here = dir.path().display();
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist/slurm");
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    fs::copy(IOTIDE, dir.join("iotide")).unwrap();
    for name in ["stage.sh", "stage-epilog.sh"] {
        fs::copy(shipped.join(name), dir.join(name)).unwrap();
    }
    let site = format!(
        "#!/bin/sh\nexport IOTIDE={here}/iotide IOTIDE_BUFFERS={here}/buffers\nexec {here}/stage-epilog.sh\n"
    );
    executable(&dir, "site-epilog.sh", &site);
    fs::create_dir(dir.join("buffers")).unwrap();
    fs::set_permissions(dir.join("buffers"), fs::Permissions::from_mode(0o1777)).unwrap();
    let program = format!(
        "#!/bin/sh\ncd {here}/buffers/$SLURM_JOB_ID || exit 1\necho 1 > first\n\
         until [ -e {here}/go ]; do sleep 0.05; done\necho 2 > second\ntouch {here}/written\nexec sleep 1000\n"
    );
    executable(&dir, "program.sh", &program);
    let job = format!(
        "#!/bin/sh\nexec {here}/stage.sh {here}/buffers/$SLURM_JOB_ID {here}/results {here}/program.sh\n"
    );
    executable(&dir, "job.sh", &job);
    let settings = format!("KillWait=2\nEpilog={here}/site-epilog.sh\n");
    let Some(slurm) = Slurm::start(1, &settings) else { return };
    let mut command = slurm.command(setpriv.to_str().unwrap(), &NOBODY);
    command.args(["sbatch", "--parsable", "-o", "log", "--signal=B:USR1@60", "-t", "10", "job.sh"]);
    command
        .current_dir(dir.path())
        .env("IOTIDE", dir.join("iotide"))
        .env("IOTIDE_STAGE_OPTIONS", "--policy end --quiet 50ms");
    let id = slurm.run(command).trim().to_owned();
    let log = || fs::read_to_string(dir.join("log")).unwrap_or_default();
    wait_until(|| log().contains("SIGTERM ends it"));
    wait_until(|| dir.join("buffers").join(&id).join("first").exists());
    assert!(!dir.join("results/first").exists(), "{}", log());
    // As Slurm announces the end of the time of a job.
    slurm.run(slurm.command("scancel", &["--signal=USR1", "--batch", &id]));
    wait_until(|| dir.join("results/first").exists() && log().contains("1 file of 2 B safe"));
    dir.write("go", "");
    wait_until(|| dir.join("written").exists());
    slurm.run(slurm.command("scancel", &[&id]));
    wait_until(|| dir.join("results/second").exists());
    let verified = Command::new(IOTIDE).args(["stage", "verify"]).arg(dir.join("results")).output().unwrap();
    assert!(verified.status.success(), "{verified:?}");
    use std::os::unix::fs::MetadataExt;
    assert_eq!(fs::metadata(dir.join("results/second")).unwrap().uid(), 65534);
}
