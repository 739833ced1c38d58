use std::path::Path;
use std::process::{Command, Stdio};

use crate::page_script::played_on;
use crate::slurm_site::{Slurm, wait_until};
use crate::util::Dir;

/// A run that writes a checkpoint every minute and reads once at the start, of program `exe`.
pub(crate) fn checkpoints(exe: &str, bytes: u64) -> String {
    let mut table =
        format!("# runtime_s=1200\n# nprocs=4\n# user=u1\n# exe=/sw/{exe} -x\nrank,op,start,end,bytes\n");
    table += &format!("0,read,1,5,{}\n", bytes * 20);
    for minute in 0..20 {
        table += &format!("0,write,{},{},{bytes}\n", minute * 60 + 10, minute * 60 + 16);
    }
    table
}

/// A run that does next to nothing.
fn quiet(exe: &str) -> String {
    format!(
        "# runtime_s=100\n# nprocs=1\n# user=u2\n# exe={exe}\nrank,op,start,end,bytes\n0,write,3,4,1000\n"
    )
}

/// A run of program `exe` that writes many small pieces.
fn small_writes(exe: &str, n: u32) -> String {
    let mut table = format!("# runtime_s=100\n# nprocs=1\n# user=u3\n# exe={exe}\nrank,op,start,end,bytes\n");
    for i in 0..n {
        let start = f64::from(i) * 0.01;
        table += &format!("0,write,{start},{},512\n", start + 0.005);
    }
    table
}

/// An archive of `n` logs in folders, of which every tenth is no log.
fn archive(dir: &Dir, n: usize) {
    for i in 0..n {
        let folder = dir.path().join(format!("logs/{:02}", i % 12));
        std::fs::create_dir_all(&folder).unwrap();
        let log = match i % 10 {
            9 => format!("no log {i}"),
            3 | 6 => quiet(&format!("tool{}", i % 7)),
            _ => checkpoints(&format!("app{}", i % 5), 10_000_000 + i as u64),
        };
        std::fs::write(folder.join(format!("run{i:04}.csv")), log).unwrap();
    }
}

const RESULTS: [&str; 5] = ["runs.jsonl", "rejected.jsonl", "statistics.json", "index.html", "runs.parquet"];

#[track_caller]
fn same_results(dir: &Dir, one: &str, other: &str) {
    for name in RESULTS {
        let bytes = |folder: &str| std::fs::read(dir.path().join(folder).join(name)).unwrap();
        assert!(bytes(one) == bytes(other), "{name} differs between {one} and {other}");
    }
}

/// The results of eight runs of an application, and a new run that writes three times as much.
pub(crate) fn with_history() -> Dir {
    let dir = Dir::new();
    std::fs::create_dir(dir.path().join("logs")).unwrap();
    for i in 0..8 {
        dir.write(&format!("logs/{i}.csv"), checkpoints("app", 50_000_000 + i * 100_000));
    }
    dir.iotide(["categorize", "logs", "--out", "results"]).exits_with(0);
    dir.write("new.csv", checkpoints("app", 150_000_000));
    dir
}

#[test]
fn a_run_has_labels_with_evidence() {
    let dir = Dir::new();
    dir.write("run.csv", checkpoints("app", 50_000_000));
    let json = dir.iotide(["categorize", "run.csv", "--format", "json"]).exits_with(0).json();
    assert_eq!((&json["schema"], &json["command"]), (&"iotide/1".into(), &"categorize".into()));
    let run = &json["runs"][0];
    let labels: Vec<&str> =
        run["categories"].as_array().unwrap().iter().map(|label| label.as_str().unwrap()).collect();
    for label in ["read_on_start", "write_steady", "write_periodic", "write_periodic_minute"] {
        assert!(labels.contains(&label), "{labels:?}");
        assert!(run["evidence"][label]["confidence"].as_f64().is_some_and(|c| (0.0..=1.0).contains(&c)));
    }
    let period_s = run["periods"]["write"][0]["period_s"].as_f64().unwrap();
    assert!((period_s - 60.0).abs() < 1.0, "{period_s}");
    assert_eq!((&run["application"], &run["source"]["path"]), (&"app".into(), &"run.csv".into()));
    assert!(run["rejected"].is_null() && run["losses"].as_array().unwrap().is_empty());
    assert!(json["statistics"].is_null());
    let text = dir.iotide(["categorize", "run.csv"]).exits_with(0).stdout;
    assert!(text.starts_with("run.csv: read_on_start, "), "{text}");
    assert!(text.contains("write_periodic (") && text.contains("): every 60 s"), "{text}");
}

#[test]
fn several_runs_have_statistics_too() {
    let dir = Dir::new();
    dir.write("a.csv", checkpoints("app", 50_000_000));
    dir.write("b.csv", checkpoints("app", 60_000_000));
    dir.write("c.csv", quiet("tool"));
    let json = dir.iotide(["categorize", "a.csv", "b.csv", "c.csv", "--format", "json"]).exits_with(0).json();
    assert_eq!(json["runs"].as_array().unwrap().len(), 3);
    let statistics = &json["statistics"];
    let periodic = &statistics["per_label"]["write_periodic"];
    assert_eq!(
        (&periodic["unique"], &periodic["weighted"], &periodic["all"]),
        (&1.into(), &2.into(), &2.into())
    );
    assert_eq!(statistics["jaccard"]["plain"]["write_periodic"]["read_on_start"], 1.0);
    // A folder of the same is an archive with the same answer.
    std::fs::create_dir(dir.path().join("logs")).unwrap();
    for name in ["a.csv", "b.csv", "c.csv"] {
        std::fs::rename(dir.path().join(name), dir.path().join("logs").join(name)).unwrap();
    }
    let folder = dir.iotide(["categorize", "logs", "--format", "json"]).exits_with(0).json();
    assert_eq!(folder["statistics"]["per_label"], statistics["per_label"]);
    assert_eq!(folder["runs"][1]["categories"], json["runs"][1]["categories"]);
    assert_eq!(folder["runs"][1]["source"]["path"], "logs/b.csv");
}

#[test]
fn an_archive_is_told_in_tables_and_every_rejected_log_with_its_reason() {
    let dir = Dir::new();
    archive(&dir, 40);
    dir.write("logs/empty", "");
    let outcome = dir.iotide(["categorize", "logs", "--out", "results"]).exits_with(0);
    insta::assert_snapshot!(outcome.stdout, @r#"
    41 logs: 36 runs of 10 applications, 5 rejected

      Periodic writes             periodic  seconds  minutes   hours    days  not periodic
      application (heaviest run)      50 %      0 %     50 %     0 %     0 %          50 %
      … weighted by its runs          78 %      0 %     78 %     0 %     0 %          22 %
      each run                        78 %      0 %     78 %     0 %     0 %          22 %

      Periodic reads              periodic  seconds  minutes   hours    days  not periodic
      application (heaviest run)       0 %      0 %      0 %     0 %     0 %         100 %
      … weighted by its runs           0 %      0 %      0 %     0 %     0 %         100 %
      each run                         0 %      0 %      0 %     0 %     0 %         100 %

      When reads come             insignificant  on start  steady  others
      application (heaviest run)           50 %      50 %     0 %     0 %
      … weighted by its runs               22 %      78 %     0 %     0 %
      each run                             22 %      78 %     0 %     0 %

      When writes come            insignificant  on end  steady  others
      application (heaviest run)           50 %     0 %    50 %     0 %
      … weighted by its runs               22 %     0 %    78 %     0 %
      each run                             22 %     0 %    78 %     0 %

      Metadata                    high spike  multiple spikes  high density  insignificant
      application (heaviest run)         0 %              0 %           0 %          100 %
      … weighted by its runs             0 %              0 %           0 %          100 %
      each run                           0 %              0 %           0 %          100 %

      together   read_on_start and write_steady (100 %)
                 read_on_start and write_periodic (100 %)
                 read_insignificant and write_insignificant (100 %)
                 write_steady and write_periodic (100 %)
                 read_on_start and metadata_insignificant_load (50 %)
                 read_insignificant and metadata_insignificant_load (50 %)
      described  0 % of the runs have no label; six labels of time describe 100 %
      rejected   4 × is not a trace in any known format (it starts with "no log #")
                 1 × is empty
    "#);
    assert_eq!(outcome.stderr, "open results/index.html in a browser\n");
    let rejected = dir.read("results/rejected.jsonl");
    assert_eq!(rejected.lines().count(), 5);
    let line: serde_json::Value = serde_json::from_str(rejected.lines().last().unwrap()).unwrap();
    assert_eq!((&line["source"]["path"], &line["rejected"]), (&"logs/empty".into(), &"is empty".into()));
    assert!(!dir.path().join("results/journal.jsonl").exists());
}

#[test]
fn killed_at_any_moment_and_gone_on_with_the_result_is_the_same() {
    let dir = Dir::new();
    archive(&dir, 300);
    dir.iotide(["categorize", "logs", "--out", "at-once", "--jobs", "2"]).exits_with(0);
    let journal = dir.path().join("killed/journal.jsonl");
    let mut n_before = 0;
    for round in 0..4 {
        let mut command = dir.command(["categorize", "logs", "--out", "killed", "--jobs", "1"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        wait_until(|| lines_in(&journal) >= n_before + 30);
        child.kill().unwrap();
        child.wait().unwrap();
        n_before = lines_in(&journal);
        assert!((30 * (round + 1)..300).contains(&n_before), "{n_before} lines in round {round}");
    }
    // As if it had been killed while it wrote.
    let mut torn = std::fs::read_to_string(&journal).unwrap();
    let last = torn.rfind("\n{").unwrap();
    let end = last + 1 + torn[last + 1..].find('\n').unwrap();
    torn.truncate(end - 25);
    std::fs::write(&journal, torn).unwrap();
    let outcome = dir.iotide(["categorize", "logs", "--out", "killed"]).exits_with(0);
    assert!(
        outcome.stderr.starts_with("a line that was cut when an earlier run was killed is left out"),
        "{outcome:?}"
    );
    assert!(outcome.stderr.contains(&format!("{} logs were done before", n_before - 1)), "{outcome:?}");
    same_results(&dir, "at-once", "killed");
    // Once more, and nothing is left to do; a log that changed is read again.
    let again = dir.iotide(["categorize", "logs", "--out", "killed"]).exits_with(0);
    assert!(again.stderr.starts_with("300 logs were done before"), "{again:?}");
    same_results(&dir, "at-once", "killed");
    dir.write("logs/00/run0000.csv", quiet("changed"));
    let changed = dir.iotide(["categorize", "logs", "--out", "killed"]).exits_with(0);
    assert!(changed.stderr.starts_with("299 logs were done before"), "{changed:?}");
    assert!(dir.read("killed/runs.jsonl").contains("\"exe\":\"changed\""));
}

#[test]
fn an_interrupted_run_says_how_to_go_on() {
    let dir = Dir::new();
    archive(&dir, 300);
    let mut command = dir.command(["categorize", "logs", "--out", "results", "--jobs", "1"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let journal = dir.path().join("results/journal.jsonl");
    wait_until(|| lines_in(&journal) >= 10);
    let interrupt = Command::new("sh").arg("-c").arg(format!("kill -INT {}", child.id())).status().unwrap();
    assert!(interrupt.success());
    let mut said = String::new();
    std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said}");
    assert!(
        said.starts_with("stopped after ") && said.contains("is kept in results: the same command goes on"),
        "{said}"
    );
    dir.iotide(["categorize", "logs", "--out", "results"]).exits_with(0);
    dir.iotide(["categorize", "logs", "--out", "at-once"]).exits_with(0);
    same_results(&dir, "at-once", "results");
}

#[test]
fn four_shards_merged_are_the_whole() {
    let dir = Dir::new();
    archive(&dir, 120);
    dir.iotide(["categorize", "logs", "--out", "whole"]).exits_with(0);
    for shard in ["1/4", "2/4", "3/4"] {
        dir.iotide(["categorize", "logs", "--out", "parts", "--shard", shard]).exits_with(0);
    }
    let early = dir.iotide(["categorize", "--merge", "parts", "--out", "parts/all"]).exits_with(2);
    assert!(early.stderr.starts_with("iotide: shard 0/4 is missing\nhint: "), "{early:?}");
    dir.iotide(["categorize", "logs", "--out", "parts", "--shard", "4/4"]).exits_with(0);
    let merged = dir.iotide(["categorize", "--merge", "parts", "--out", "parts/all"]).exits_with(0);
    same_results(&dir, "whole", "parts/all");
    let whole = dir.iotide(["categorize", "--merge", "whole"]).exits_with(0);
    assert_eq!(whole.stdout, merged.stdout);
    // Files of lines do as well, and what is merged can be gone on with.
    let lines =
        dir.iotide(["categorize", "--merge", "whole/rejected.jsonl", "whole/runs.jsonl"]).exits_with(0);
    assert_eq!(lines.stdout, merged.stdout);
    let on = dir.iotide(["categorize", "logs", "--out", "parts/all"]).exits_with(0);
    assert!(on.stderr.starts_with("120 logs were done before"), "{on:?}");
}

#[test]
fn results_made_otherwise_are_not_mixed() {
    let dir = Dir::new();
    archive(&dir, 10);
    dir.iotide(["categorize", "logs", "--out", "results"]).exits_with(0);
    let outcome = dir.iotide(["categorize", "logs", "--out", "results", "--method", "mosaic"]).exits_with(2);
    insta::assert_snapshot!(outcome.stderr, @r"
    iotide: the results in results were made with another method, other settings or another shard
    hint: choose another folder with `--out`, or remove this one to begin anew
    ");
}

#[test]
fn logs_may_be_listed() {
    let dir = Dir::new();
    archive(&dir, 30);
    let list = "logs/00/run0000.csv\nlogs/01/run0001.csv\n\nlogs/nowhere\n";
    let outcome = dir.iotide_reading(list, ["categorize", "--files", "-", "--out", "listed"]).exits_with(0);
    assert!(outcome.stdout.starts_with("3 logs: 2 runs of 2 applications, 1 rejected\n"), "{outcome:?}");
    assert!(dir.read("listed/rejected.jsonl").contains("\"logs/nowhere\""));
    assert!(
        std::fs::read_dir(dir.path().join("listed"))
            .unwrap()
            .all(|entry| { !entry.unwrap().file_name().to_string_lossy().starts_with('.') })
    );
}

#[test]
fn one_log_cannot_hold_up_the_rest() {
    let dir = Dir::new();
    archive(&dir, 20);
    let pipe = Command::new("mkfifo").arg(dir.path().join("logs/pipe")).status().unwrap();
    assert!(pipe.success());
    let mut large = String::from("rank,op,start,end,bytes\n");
    for i in 0..60_000 {
        large += &format!("0,write,{i},{i}.5,1000\n");
    }
    dir.write("logs/large.csv", large);
    let args = ["categorize", "logs", "--out", "results", "--size-limit", "1", "--time-limit", "60"];
    dir.iotide(args).exits_with(0);
    let rejected = dir.read("results/rejected.jsonl");
    assert!(rejected.contains("neither a file nor a folder"), "{rejected}");
    assert!(
        rejected.contains("it is larger (") && rejected.contains("than the limit (1048576 bytes)"),
        "{rejected}"
    );
}

#[test]
fn a_run_is_compared_with_earlier_ones_of_its_application() {
    let dir = with_history();
    let json = dir
        .iotide(["categorize", "new.csv", "--history", "results", "--format", "json"])
        .exits_with(0)
        .json();
    let history = &json["runs"][0]["history"];
    assert_eq!((&history["application"], &history["n_runs"]), (&"app".into(), &8.into()));
    let written = &history["quantities"][1];
    assert_eq!((&written["quantity"], &written["unusual"]), (&"bytes_written".into(), &true.into()));
    let text = dir.iotide(["categorize", "new.csv", "--history", "results"]).exits_with(0).stdout;
    assert!(text.contains("3.0 times the usual bytes written (3 GB, usually 1.01 GB)"), "{text}");
    dir.write("other.csv", quiet("new-tool"));
    let text = dir.iotide(["categorize", "other.csv", "--history", "results"]).exits_with(0).stdout;
    assert!(text.contains("0 earlier runs of new-tool: too few to compare with"), "{text}");
}

#[test]
fn what_the_storage_of_an_archive_does_not_like_is_counted() {
    let dir = Dir::new();
    std::fs::create_dir(dir.path().join("logs")).unwrap();
    dir.write("logs/large.csv", checkpoints("app", 50_000_000));
    for n_writes in [2000, 3000] {
        dir.write(&format!("logs/small{n_writes}.csv"), small_writes("logger", n_writes));
    }
    let told = dir.iotide(["categorize", "logs", "--out", "results", "--issues"]).exits_with(0).stdout;
    let words = told.split_whitespace().collect::<Vec<_>>().join(" ");
    // 2000 writes of 5 ms cost 9 % of the run, 3000 cost 13.5 %: one is medium, one high.
    assert!(words.contains("small_writes in 2 runs, 1 of them high; most in logger"), "{told}");
    let statistics: serde_json::Value = serde_json::from_str(&dir.read("results/statistics.json")).unwrap();
    let counts = statistics["statistics"]["issues"].as_array().unwrap();
    let small = counts.iter().find(|count| count["id"] == "small_writes").unwrap();
    assert_eq!((&small["n_runs"], &small["example"]), (&2.into(), &"logs/small3000.csv".into()));
    assert!(small["core_hours"].as_f64().unwrap() > 0.0, "{small}");
    assert_eq!(small["applications"][0]["application"], "logger");
    for line in dir.read("results/runs.jsonl").lines() {
        let run: serde_json::Value = serde_json::from_str(line).unwrap();
        let rules: Vec<_> = run["issues"].as_array().unwrap().iter().map(|found| &found["id"]).collect();
        let is_small = run["source"]["path"].as_str().unwrap().contains("small");
        assert_eq!(rules.contains(&&"small_writes".into()), is_small, "{line}");
    }
    let page = dir.read("results/index.html");
    assert!(
        page.contains("<tr><td>small_writes</td><td>0.00625</td><td>2</td><td>1</td>"),
        "no row on the page"
    );

    // Gone on with they must stay comparable: all runs were asked, or none.
    dir.iotide(["categorize", "logs", "--out", "results"]).exits_with(2);
    dir.iotide(["categorize", "logs", "--out", "plain"]).exits_with(0);
    assert!(!dir.read("plain/statistics.json").contains("issues"));
}

#[test]
fn settings_are_printed_changed_and_checked() {
    let dir = Dir::new();
    dir.write("run.csv", checkpoints("app", 50_000_000));
    let printed = dir.iotide(["categorize", "--print-settings"]).exits_with(0).stdout;
    assert!(printed.contains("\n# Reads, or writes, of fewer bytes than this are insignificant.\ninsignificant_bytes = 100000000.0\n"));
    dir.write(
        "mine.toml",
        printed.replace("insignificant_bytes = 100000000.0", "insignificant_bytes = 1e15"),
    );
    let json = dir
        .iotide(["categorize", "run.csv", "--settings", "mine.toml", "--format", "json"])
        .exits_with(0)
        .json();
    assert!(json["runs"][0]["categories"].as_array().unwrap().contains(&"write_insignificant".into()));
    dir.write("wrong.toml", "[categories]\nspikes = 3\n");
    let outcome = dir.iotide(["categorize", "run.csv", "--settings", "wrong.toml"]).exits_with(2);
    insta::assert_snapshot!(outcome.complaint(), @r#"
    iotide: wrong.toml, line 2: there is no setting "spikes"
    hint: `iotide categorize --print-settings` prints every setting with its default
    "#);
}

#[test]
fn a_click_on_a_cell_lists_its_runs_and_nothing_is_fetched() {
    let dir = Dir::new();
    archive(&dir, 60);
    dir.write("logs/<b>odd<%>.csv", checkpoints("odd", 90_000_000));
    dir.iotide(["categorize", "logs", "--out", "results"]).exits_with(0);
    let notes = played_on(
        &dir,
        "results/index.html",
        r##"
        const section = document.getElementById("runs");
        const at = (selector) => document.querySelector(selector);
        const click = (link) => { link.click(); return section.querySelector("h3").textContent; };
        const rows = () => [...section.querySelectorAll("tbody tr")];
        const label = (name) => JSON.parse(at("#data").textContent).labels.indexOf(name);
        const of = (population, has) => at(`#jaccard a[data-of=${population}][data-has="${has}"]`);
        note(click(of("all", label("write_periodic"))));
        note(rows().length);
        note(rows()[0].cells[0].textContent);
        note(section.querySelectorAll("b").length + " tags");
        note(click(of("unique", `${label("write_insignificant")} ${label("read_insignificant")}`)));
        note(rows().every((row) => row.cells[9].textContent.includes("write_insignificant")) ? "all of them are" : "not all are");
        note(click(at("#shares a[data-of=unique][data-lacks]")));
        note(click(at("#metadata a[data-of=weighted]")).split(":")[0]);
        note(performance.getEntriesByType("resource").length + " requests");
        "##,
    );
    let Some(notes) = notes else { return };
    assert_eq!(
        notes,
        [
            "write_periodic: 43 runs",
            "25",
            "logs/<b>odd<%>.csv",
            "0 tags",
            "write_insignificant and read_insignificant: 7 applications",
            "all of them are",
            "none of write_periodic: 7 applications",
            "metadata_insignificant_load",
            "0 requests",
        ]
    );
}

#[test]
fn a_job_array_of_slurm_does_it_in_shards() {
    let Some(slurm) = Slurm::start(1, "") else { return };
    let dir = Dir::new();
    archive(&dir, 60);
    dir.iotide(["categorize", "logs", "--out", "whole"]).exits_with(0);
    let script = format!(
        "#!/bin/sh\ncd '{}' && exec '{}' categorize logs --out parts\n",
        dir.path().display(),
        env!("CARGO_BIN_EXE_iotide")
    );
    dir.write("job.sh", script);
    let log = dir.path().join("task-%a.log");
    slurm.sbatch(&dir, &["--wait", "--array=1-7:2", "-n", "1", "-o", &log.display().to_string(), "job.sh"]);
    let said = dir.read("task-3.log");
    assert!(said.contains("labelling shard 1/4, as Slurm numbers its tasks\n"), "{said}");
    dir.iotide(["categorize", "--merge", "parts", "--out", "merged"]).exits_with(0);
    same_results(&dir, "whole", "merged");
    // A step of two tasks.
    let script = format!(
        "#!/bin/sh\ncd '{}' && srun -n 2 --overlap '{}' categorize logs --out steps\n",
        dir.path().display(),
        env!("CARGO_BIN_EXE_iotide")
    );
    dir.write("step.sh", script);
    let log = dir.path().join("step.log");
    slurm.sbatch(&dir, &["--wait", "-n", "2", "-o", &log.display().to_string(), "step.sh"]);
    dir.iotide(["categorize", "--merge", "steps", "--out", "merged-steps"]).exits_with(0);
    same_results(&dir, "whole", "merged-steps");
}

fn lines_in(path: &Path) -> usize {
    // Other lines say which logs are being read.
    let text = std::fs::read(path).unwrap_or_default();
    let whole = text.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    whole.filter(|line| line.starts_with(b"{")).count()
}

#[test]
fn a_folder_without_logs_is_an_error_and_no_statistics() {
    let dir = Dir::new();
    std::fs::create_dir(dir.path().join("empty")).unwrap();
    let answer = dir.iotide(["categorize", "empty"]).exits_with(2);
    assert_eq!(answer.stdout, "");
    assert!(answer.stderr.contains("no logs found"), "{}", answer.stderr);
}

#[test]
fn detect_refuses_a_folder_of_unrelated_logs_and_points_to_categorize() {
    let dir = Dir::new();
    std::fs::create_dir(dir.path().join("logs")).unwrap();
    for job in ["4711", "4712"] {
        let table = format!("# jobid={job}\n{}", checkpoints("app", 50_000_000));
        dir.write(&format!("logs/{job}.csv"), table);
    }
    let answer = dir.iotide(["detect", "logs"]).exits_with(2);
    assert!(answer.stderr.contains("logs of several runs (jobs 4711, 4712)"), "{}", answer.stderr);
    assert!(answer.stderr.contains("iotide categorize"), "{}", answer.stderr);
}
