//! Code of README and `docs` that begins with `iotide`: it is run as it stands, so that whoever copies it gets an answer.
//!
//! A block that cannot be run here is marked on the line before it: `<!-- not run: needs Slurm -->`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use crate::util::{Dir, bursts};

/// A block of code that stands in a page.
struct Block {
    page: String,
    line: usize,
    script: String,
    /// Reason why it is not run, if there is one.
    reason: Option<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The pages; `commands.md` is made of what `--help` prints.
fn pages() -> Vec<(String, String)> {
    let mut pages = vec![("README.md".to_owned(), fs::read_to_string(root().join("README.md")).unwrap())];
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name.ends_with(".md") && name != "commands.md" {
            pages.push((format!("docs/{name}"), fs::read_to_string(path).unwrap()));
        }
    }
    pages
}

/// The blocks of a page in which a line begins with `iotide`.
fn blocks(page: &str, text: &str) -> Vec<Block> {
    let lines: Vec<&str> = text.lines().collect();
    let mut blocks = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let Some(language) = lines[at].strip_prefix("```") else {
            at += 1;
            continue;
        };
        let n_lines = lines[at + 1..].iter().take_while(|line| !line.starts_with("```")).count();
        let code = &lines[at + 1..=at + n_lines];
        // Where some lines have a prompt, the others are what was printed.
        let has_prompt = code.iter().any(|line| line.starts_with("$ "));
        let commands: Vec<&str> = match has_prompt {
            true => code.iter().filter_map(|line| line.strip_prefix("$ ")).collect(),
            false => code.to_vec(),
        };
        if ["", "sh", "console"].contains(&language)
            && commands.iter().any(|line| line.starts_with("iotide "))
        {
            let above = at.checked_sub(1).map_or("", |above| lines[above]);
            let reason = above.strip_prefix("<!-- not run: ").and_then(|rest| rest.strip_suffix(" -->"));
            let script = commands.join("\n");
            blocks.push(Block {
                page: page.to_owned(),
                line: at + 1,
                script,
                reason: reason.map(str::to_owned),
            });
        }
        at += n_lines + 2;
    }
    blocks
}

/// Files that pages speak of.
fn samples(dir: &Dir) {
    crate::why::disturbed(dir);
    let text = |name: &str| dir.read(name);
    let (run, servers) = (text("run.csv"), text("servers.csv"));
    for folder in ["logs/2019", "base", "new", "runs"] {
        fs::create_dir_all(dir.path().join(folder)).unwrap();
    }
    // The format is found from the content, whatever the name.
    for name in [
        "job.darshan",
        "before.darshan",
        "after.darshan",
        "base/1.darshan",
        "base/2.darshan",
        "new/1.darshan",
        "new/2.darshan",
        "logs/job1.darshan",
        "logs/2019/job2.darshan",
        "logs/checkpoints.csv",
        "logs/turns.csv",
        "logs/copy",
        "a.csv",
        "b.darshan",
        "run1.csv",
        "run2.csv",
        "run3.csv",
        "before",
        "checkpoints.csv",
    ] {
        dir.write(name, bursts("write"));
    }
    for (name, program) in [("logs/job1.darshan", "solver"), ("logs/job3.darshan", "mesher")] {
        dir.write(name, format!("# exe=/opt/{program}\n{}", bursts("write")));
    }
    dir.write("run.csv", run);
    dir.write("servers.csv", servers);
    dir.write("jobs.txt", "user,name,nodes,start,end\nada,solver,2,1700000000,1700600000\n");
    let job = json!({ "name": "a", "count": 2, "compute_s": 9, "io_bytes": 100, "iterations": 5 });
    dir.write("jobs.json", json!({ "bandwidth_bps": 100, "jobs": [job] }).to_string());
    let points = |values: [u32; 5]| {
        values
            .map(|p| {
                json!({ "params": { "p": p }, "callpath": "write", "metric": "time", "value": 2 * p })
                    .to_string()
                    + "\n"
            })
            .concat()
    };
    dir.write("runs.jsonl", points([8, 16, 32, 64, 128]));
    dir.write("monday.jsonl", points([8, 16, 32, 64, 128]));
    dir.write("tuesday.jsonl", points([4, 12, 24, 48, 96]));
    dir.write("runs.csv", "p,time\n8,16\n16,32\n32,64\n64,128\n128,256\n");
    dir.iotide(["categorize", "earlier", "--out", "results"]).exits_with(0);
}

/// Runs the blocks of a page one after another, and returns what went wrong. Status 1 is an answer: nothing found.
fn faults(blocks: &[Block]) -> Vec<String> {
    let dir = Dir::new();
    samples(&dir);
    let bin = Path::new(env!("CARGO_BIN_EXE_iotide")).parent().unwrap().to_owned();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let mut faults = Vec::new();
    for block in blocks {
        // A folder of all logs, as pages name it, is one of the test.
        let script = block.script.replace(" /logs", " logs");
        let trap = "trap 's=$?; [ $s -le 1 ] || { echo \"status $s: $BASH_COMMAND\" >&2; exit $s; }' ERR\n";
        let output = Command::new("bash")
            .args(["-c", &format!("{trap}{script}")])
            .current_dir(dir.path())
            .env_clear()
            .env("PATH", &path)
            .env("HOME", dir.path())
            .env("IOTIDE_CONFIG", "")
            .env("IOTIDE_DAEMON", dir.path().join("no-daemon"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        if output.status.code().is_none_or(|status| status > 1) {
            let said = String::from_utf8_lossy(&output.stderr);
            faults.push(format!("{}, line {}:\n{script}\n{said}", block.page, block.line));
        }
    }
    faults
}

#[test]
fn what_pages_tell_to_type_can_be_typed() {
    if iotide_testkit::program("bash").is_none() {
        return;
    }
    let pages = pages();
    let mut n_run = 0;
    let mut all = Vec::new();
    std::thread::scope(|scope| {
        let mut workers = Vec::new();
        for (page, text) in &pages {
            let (marked, run): (Vec<Block>, Vec<Block>) =
                blocks(page, text).into_iter().partition(|block| block.reason.is_some());
            assert!(
                marked.iter().all(|block| block.reason.as_ref().is_some_and(|why| why.len() > 5)),
                "{page}"
            );
            n_run += run.len();
            if !run.is_empty() {
                workers.push(scope.spawn(move || faults(&run)));
            }
        }
        for worker in workers {
            all.extend(worker.join().unwrap());
        }
    });
    assert!(all.is_empty(), "{}\nmend it, or mark it: <!-- not run: the reason -->", all.join("\n"));
    assert!(n_run >= 10, "{n_run} blocks are run");
}
