use std::process::{Child, Command};
use std::time::{Duration, Instant};

use iotide_testkit::FreshDir;

use crate::serve::{Daemon, record};
use crate::slurm_site::{Slurm, wait_until};
use crate::util::Dir;

#[test]
fn the_size_with_the_least_turnaround_is_named() {
    let dir = Dir::new();
    let rows: String = [4, 8, 16, 32, 64].map(|n| format!("{n},{}\n", 20.0 + 6400.0 / f64::from(n))).concat();
    dir.write("runs.csv", format!("nodes,time\n{rows}"));
    let busy = |i: u32| format!("{} {} -1 3600 48 -1 -1 48 3600 -1 1 -1 -1 -1 0 -1 -1 -1\n", i + 1, 1800 * i);
    dir.write("log.swf", format!("; MaxNodes: 64\n{}", (0..20).map(busy).collect::<String>()));
    let told =
        dir.iotide(["resize", "advise", "runs.csv", "--log", "log.swf", "--probes", "8"]).exits_with(0);
    insta::assert_snapshot!(told.stdout, @r#"
    log.swf: 64 nodes under easy, 8 probes a size; 95 % intervals
      nodes  time                                    efficiency  node-hours  wait                                 turnaround
      4      27 min 00 s [27 min 00 s, 27 min 00 s]  100 %       1.8         0 s                                  27 min 00 s [27 min 00 s, 27 min 00 s]
      8      820 s [820 s, 820 s]                    99 %        1.82        0 s                                  820 s [820 s, 820 s]
      16     420 s [420 s, 420 s]                    96 %        1.87        0 s                                  420 s [420 s, 420 s]
      32     220 s [220 s, 220 s]                    92 %        1.96        5 h 15 min [2 h 50 min, 7 h 39 min]  5 h 18 min [2 h 54 min, 7 h 43 min]
      64     120 s [120 s, 120 s]                    84 %        2.13        5 h 15 min [2 h 50 min, 7 h 39 min]  5 h 17 min [2 h 52 min, 7 h 41 min]
    16 nodes take 420 s from submission to end
    "#);
    let refused =
        dir.iotide(["resize", "advise", "runs.csv", "--log", "log.swf", "--sizes", "65"]).exits_with(2);
    assert!(refused.stderr.contains("65 is not between 1 and the machine's 64 nodes"), "{}", refused.stderr);
}

/// A Slurm with a marked job, and `iotide resize` on it.
struct Site {
    dir: Dir,
    slurm: Slurm,
}

impl Site {
    fn iotide(&self, args: &[&str]) -> Command {
        let mut command = self.slurm.command(env!("CARGO_BIN_EXE_iotide"), &["resize"]);
        command.args(args).current_dir(self.dir.path());
        command
    }

    fn apply(&self) -> Child {
        self.iotide(&["apply", "--state", "state", "--interval", "200ms", "--grace", "200ms"])
            .spawn()
            .unwrap()
    }

    fn submit(&self, args: &[&str], script: &str) -> String {
        let mut command =
            self.slurm.command("sbatch", &["--parsable", "--exclusive", "-t", "5", "-o", "%j.out"]);
        command.args(args).arg("--wrap").arg(script).current_dir(self.dir.path());
        self.slurm.run(command).trim().to_owned()
    }

    /// `id name nodes`, by id.
    fn running(&self) -> Vec<String> {
        let squeue = self.slurm.command("squeue", &["-h", "-t", "RUNNING", "-S", "i", "-o", "%i %j %D"]);
        self.slurm.run(squeue).lines().map(str::to_owned).collect()
    }

    /// The names of all jobs that are there.
    fn queued(&self) -> String {
        self.slurm.run(self.slurm.command("squeue", &["-h", "-o", "%j"]))
    }

    fn runs(&self, id: &str, nodes: u32) -> bool {
        self.running()
            .iter()
            .any(|line| line.starts_with(&format!("{id} ")) && line.ends_with(&format!(" {nodes}")))
    }
}

impl Site {
    /// A marked job whose growth was cut off by kill -9, with the helper job still there: the moment is short, and may be missed.
    fn killed_while_growing(&self, mut earlier: String, script: &str) -> String {
        for attempt in 1..=20 {
            self.slurm.run(self.slurm.command("scancel", &[&earlier]));
            wait_until(|| self.running().is_empty());
            let marked = self.submit(&["-N2", "--comment", "iotide:min=1,max=4"], script);
            wait_until(|| self.runs(&marked, 2));
            let mut apply = self.apply();
            let journal = self.dir.path().join("state/growing");
            let until = Instant::now() + Duration::from_secs(60);
            while !std::fs::metadata(&journal).is_ok_and(|file| file.len() > 0) {
                assert!(Instant::now() < until, "nothing grows");
            }
            // Half of the attempts wait until the helper job is seen, however long that takes here; the others a fixed time.
            let has_entry = |file: std::fs::Metadata| file.len() > 0;
            let until = Instant::now() + Duration::from_secs(5);
            while attempt % 2 == 1
                && Instant::now() < until
                && std::fs::metadata(&journal).is_ok_and(has_entry)
                && !self.queued().contains("iotide-grow-")
            {}
            if attempt % 2 == 0 {
                std::thread::sleep(Duration::from_millis(15 * attempt));
            }
            apply.kill().unwrap();
            apply.wait().unwrap();
            let until = Instant::now() + Duration::from_secs(3);
            while Instant::now() < until {
                if self.running().iter().any(|line| line.contains("iotide-grow-")) {
                    return marked;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
            earlier = marked;
        }
        panic!("no helper job was ever seen waiting");
    }
}

impl Site {
    /// A comment with line breaks, each followed by what looks like a row of `squeue`, changes nothing for the jobs of others.
    fn no_comment_forges_jobs_or_marks(&self) {
        let idle = || String::from_utf8(self.iotide(&["plan"]).output().unwrap().stdout).unwrap();
        let before = idle();
        let row = |widths: &[usize], cells: &[&str]| -> String {
            widths.iter().zip(cells).map(|(width, cell)| format!("{cell:>width$}")).collect()
        };
        let pending = ["9999", "PENDING", "2", "7", "2026-01-01T00:00:00", "0:00", "1:00", "Resources", ""];
        let pending = row(&[32, 16, 12, 16, 24, 24, 24, 40, 1], &pending);
        // Held, so that it needs no node for its comment to be listed.
        let held = self.submit(&["-N1", "-H", "--comment", &format!("x\n{pending}")], "true");
        wait_until(|| self.slurm.run(self.slurm.command("squeue", &["-h", "-o", "%i"])).contains(&held));
        assert_eq!(idle(), before, "a job that does not exist is planned for");
        self.slurm.run(self.slurm.command("scancel", &[&held]));
        wait_until(|| self.queued().lines().count() == 1);
    }
}

fn stop(child: &mut Child) {
    assert!(Command::new("kill").arg("-INT").arg(child.id().to_string()).status().unwrap().success());
    assert!(child.wait().unwrap().success());
}

#[test]
fn a_marked_job_of_slurm_shrinks_and_grows_and_nothing_is_left_behind() {
    let Some(slurm) = Slurm::start(4, "SchedulerParameters=permit_job_expansion,sched_min_interval=100000\n")
    else {
        return;
    };
    let site = Site { dir: Dir::new(), slurm };
    let wait = "trap 'echo told' USR1; echo ready; for i in $(seq 1200); do sleep 0.1; done";
    let marked = site.submit(&["-N4", "--comment", "iotide:min=1,max=4"], wait);
    // Slurm says that a job runs before its script does: a signal would end it.
    let output = site.dir.path().join(format!("{marked}.out"));
    let is_ready = || std::fs::read_to_string(&output).is_ok_and(|said| said.contains("ready"));
    wait_until(|| is_ready() && site.runs(&marked, 4));
    let other = site.submit(&["-N2"], "sleep 3");
    wait_until(|| {
        let plan = site.iotide(&["plan"]).output().unwrap();
        String::from_utf8(plan.stdout).unwrap()
            == format!("shrink job {marked} from 4 to 2 nodes, so that {other} can start\n")
    });
    assert!(site.runs(&marked, 4), "a plan changes nothing");
    let mut apply = site.apply();
    // Slurm lists the one a moment before it lists the other's new size.
    wait_until(|| site.runs(&other, 2) && site.runs(&marked, 2));
    // A signal comes first; the shell answers it when its `sleep` has ended.
    wait_until(|| site.dir.read(&format!("{marked}.out")).contains("told"));
    wait_until(|| site.runs(&marked, 4));
    stop(&mut apply);
    assert_eq!(site.running().len(), 1, "{:?}", site.running());

    site.no_comment_forges_jobs_or_marks();

    // Killed while a helper job asks for nodes: the next start cancels it.
    let marked = site.killed_while_growing(marked, wait);
    let again = site.iotide(&["apply", "--state", "state", "--rounds", "1"]).output().unwrap();
    assert!(String::from_utf8(again.stderr).unwrap().contains("is cancelled"));
    wait_until(|| site.runs(&marked, 4) && site.running().len() == 1);
    let left: Vec<_> = std::fs::read_dir(site.dir.path().join("state"))
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .collect();
    assert_eq!(left, ["lock"]);
}

/// Runs of an application that take a second at any size, as a daemon sees them.
fn runs_that_do_not_scale(dir: &FreshDir, daemon: &Daemon<'_>) {
    let traced = |id: &str, n: u32| {
        let mut command = record(dir, id);
        command.env("IOTIDE_APP", "flat").env("PMI_RANK", "0").env("PMI_SIZE", n.to_string());
        command
    };
    let runs = [1, 2, 3, 4, 5].map(|n| {
        let id = format!("run-{n}");
        let child = traced(&id, n).args(["sh", "-c", "echo > out; sleep 1"]).spawn().unwrap();
        (id, child)
    });
    for (id, mut child) in runs {
        assert!(child.wait().unwrap().success());
        daemon.job(&id, "ended");
    }
}

#[test]
fn a_job_whose_earlier_runs_did_not_scale_is_not_grown_as_long_as_the_daemon_answers() {
    let Some(slurm) = Slurm::start(4, "SchedulerParameters=permit_job_expansion\n") else { return };
    let site = Site { dir: Dir::new(), slurm };
    let dir = FreshDir::new("resize-models");
    let daemon = Daemon::start(&dir);
    runs_that_do_not_scale(&dir, &daemon);
    let marked = site.submit(&["-N2", "--comment", "iotide:min=1,max=4"], "sleep 290");
    wait_until(|| site.runs(&marked, 2));
    // What runs in it, as the daemon sees it.
    let mut inside = record(&dir, &marked);
    inside.env("IOTIDE_APP", "flat").env("PMI_RANK", "0").env("PMI_SIZE", "2");
    let mut inside = inside.args(["sh", "-c", "echo > out; exec sleep 290"]).spawn().unwrap();
    daemon.job(&marked, "running");
    let source = format!("daemon:{}", dir.join("socket").display());
    let plan = |more: &[&str]| {
        let args = [&["plan", "--alpha", "30"], more].concat();
        let output = site.iotide(&args).output().unwrap();
        [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap())
    };
    let grown = format!("grow job {marked} from 2 to 4 nodes\n");
    assert_eq!(plan(&[])[0], grown);
    wait_until(|| {
        let [planned, said] = plan(&["--models", &source]);
        said.contains("has models of 1 of 1 jobs") && planned.is_empty()
    });
    daemon.kill();
    let [planned, said] = plan(&["--models", &source]);
    assert!(planned == grown && said.contains("going by what comments of jobs say"), "{planned}{said}");
    let group = format!("-{}", inside.id());
    assert!(Command::new("kill").args(["-KILL", "--", &group]).status().unwrap().success());
    inside.wait().unwrap();
}
