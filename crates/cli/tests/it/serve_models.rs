use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use iotide_testkit::{FreshDir, program};
use serde_json::{Value, json};

use crate::serve::{Daemon, IOTIDE, ask, record, unix_get};

fn json_of(dir: &FreshDir, path: &str) -> Value {
    let (status, body) = unix_get(dir, path);
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
}

/// The models of an application, once they rest on so many runs.
fn models_of(dir: &FreshDir, app: &str, n_runs: u64) -> Value {
    loop {
        let (status, body) = unix_get(dir, &format!("/api/1/models?app={app}&at=size=64"));
        let models: Value = serde_json::from_str(&body).unwrap_or_default();
        if status == 200 && models["runs"].as_u64() == Some(n_runs) {
            return models;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn refusal(dir: &FreshDir, path: &str, status: u16) -> String {
    let (answered, body) = unix_get(dir, path);
    assert_eq!(answered, status, "{path}: {body}");
    serde_json::from_str::<Value>(&body).unwrap()["error"].as_str().unwrap().to_owned()
}

#[test]
fn models_of_runs_at_several_sizes_are_those_of_iotide_model_on_the_same_points() {
    let dir = FreshDir::new("serve-models");
    let daemon = Daemon::start(&dir);
    let sizes = ["1", "2", "3", "5", "8"];
    for n in sizes {
        let id = format!("skel-{n}");
        let mut command = record(&dir, &id);
        command.env("IOTIDE_APP", "skel").args([IOTIDE, "ioskel", "-p", "20ms", "-s", "200000", "-n", "3"]);
        command.args(["-j", n, "--transfer-size", "50k", "--log", "run.csv"]);
        // Where that is a file, what it says is written, too.
        assert!(command.stderr(Stdio::null()).status().unwrap().success());
        daemon.job(&id, "ended");
    }
    let of_daemon = models_of(&dir, "skel", sizes.len() as u64);
    let (_, points) = unix_get(&dir, "/api/1/points?job=skel-3");
    let file = dir.write("points.jsonl", &points);
    let model = |args: &[&str]| -> Value {
        let output = ask(&dir, &[&["model", "--at", "size=64", "--format", "json"], args].concat());
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let of_points = model(&[file.to_str().unwrap()]);
    assert!(of_points["models"].as_array().unwrap().len() > 10, "{of_points}");
    assert_eq!(of_daemon["models"], of_points["models"], "to the last digit");
    // By the command line, of a job and of the application.
    for args in [["--job", "skel-8"], ["--app", "skel"]] {
        assert_eq!(model(&args)["models"], of_points["models"]);
    }
    // Each by itself, in the form of the daemon and of the metric proxy.
    for entry in of_points["models"].as_array().unwrap() {
        let (callpath, metric) = (entry["callpath"].as_str().unwrap(), entry["metric"].as_str().unwrap());
        let callpath = callpath.replace('>', "%3E");
        let there = &entry["predictions"][0];
        let path = format!("/api/1/evaluate?job=skel-1&callpath={callpath}&metric={metric}&at=p=64");
        let evaluated = json_of(&dir, &path);
        assert_eq!((&evaluated["value"], &evaluated["interval"]), (&there["value"], &there["interval"]));
        let cautions = there.get("cautions").cloned().unwrap_or(json!([]));
        assert_eq!(evaluated["cautions"], cautions);
        let name = format!("{callpath}%20{metric}");
        assert_eq!(
            json_of(&dir, &format!("/model/evaluate?jobid=skel-2&metric={name}&size=64")),
            there["value"]
        );
        let plot = json_of(&dir, &format!("/model/plot?jobid=skel-2&metric={name}&start=32&end=64&step=16"));
        assert_eq!((plot.as_array().unwrap().len(), &plot[2]), (3, &json!([64.0, there["value"]])));
    }
    // What the skeleton wrote grows with its processes, one of which only starts the others.
    let written = json_of(&dir, "/model/evaluate?jobid=skel-2&metric=posix-%3Ewrite%20size&size=101");
    let expected = 100.0 * 3.0 * 200_000.0;
    assert!(
        (written.as_f64().unwrap() - expected).abs() < 0.02 * expected,
        "{written} instead of {expected}"
    );

    let get = json_of(&dir, "/model/get?jobid=skel-1");
    let of_name = |name: &str| get.as_array().unwrap().iter().find(|row| row[0] == name).cloned().unwrap();
    let row = of_name("posix->write size");
    assert!(row[1].as_str().unwrap().contains("size^(1)") && row[2].is_number(), "{row}");
    let proxy_points = json_of(&dir, "/profiles/points?jobid=skel-1");
    assert_eq!(proxy_points["posix->write size"].as_array().unwrap().len(), sizes.len());

    // Questions that make no sense are refused in words.
    let refused = |path: &str, status| refusal(&dir, path, status);
    assert!(
        refused("/model/plot?jobid=skel-1&metric=run%20time&start=0&end=1e9", 400).contains("10000 points")
    );
    assert!(
        refused("/model/plot?jobid=skel-1&metric=run%20time&start=0&end=9&step=0", 400).contains("'step'")
    );
    assert!(refused("/model/plot?jobid=skel-1&metric=run%20time&start=0&end=inf", 400).contains("'end'"));
    assert!(refused("/api/1/evaluate?job=skel-1&metric=time&at=p=4", 400).contains("'callpath' says which"));
    assert!(refused("/api/1/evaluate?job=skel-1&metric=run%20time&at=q=4", 400).contains("there are size"));
    assert!(refused("/api/1/evaluate?job=skel-1&metric=run%20time", 400).contains("'size' is missing"));
    assert!(
        refused("/api/1/evaluate?job=skel-1&metric=colour&at=p=4", 404).contains("no run has measured that")
    );
    assert!(refused("/api/1/models?app=skel&last=0", 400).contains("'last'"));
    assert!(refused("/api/1/models?app=skel&build=..%2F", 400).contains("hexadecimal digits"));
    assert!(refused("/api/1/models?app=other", 404).contains("no run of such an application"));
    assert!(refused("/api/1/models?job=..%2F..%2Fevil", 400).contains("a job id consists of"));
    assert!(refused("/api/1/models", 400).contains("'job' or 'app' is missing"));

    // They are found again after a restart, whatever happened to the daemon.
    daemon.kill();
    let _daemon = Daemon::start(&dir);
    assert_eq!(models_of(&dir, "skel", sizes.len() as u64), of_daemon);

    let text = String::from_utf8(ask(&dir, &["job", "skel-8"]).stdout).unwrap();
    assert!(text.contains("Earlier runs") && text.contains("Models of 5 runs"), "{text}");
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let written =
        text.lines().map(words).find(|words| words.starts_with(&["posix->write".into(), "size".into()]));
    assert_eq!(written.unwrap()[2..], ["5", "=", "600000", "*", "size^(1)"], "{text}");
}

#[test]
fn extra_p_reads_the_profiles_of_past_and_running_jobs() {
    let dir = FreshDir::new("serve-extrap");
    let daemon = Daemon::start(&dir);
    for n in ["1", "2", "4", "8", "16"] {
        let mut command = record(&dir, &format!("dd-{n}"));
        command.env("IOTIDE_APP", "copy").env("IOTIDE_PARAMS", format!("n={n}"));
        let count = format!("count={n}");
        command.args(["dd", "if=/dev/zero", "of=out", "bs=100000", &count, "status=none"]);
        assert!(command.status().unwrap().success());
        daemon.job(&format!("dd-{n}"), "ended");
    }
    models_of_parameter(&dir, "copy", 5);
    // One that runs and has ended nothing yet: measurements are those of earlier runs.
    let mut command = record(&dir, "dd-now");
    command.env("IOTIDE_APP", "copy").env("IOTIDE_PARAMS", "n=3").stdin(Stdio::piped());
    let mut running = command.args(["dd", "of=out", "bs=1000"]).spawn().unwrap();
    daemon.job("dd-now", "running");
    let (_, lines) = unix_get(&dir, "/profiles/extrap?jobid=dd-now");
    let file = dir.write("profiles.jsonl", &lines);
    assert_eq!(lines, unix_get(&dir, "/model/download?jobid=dd-2").1);
    let now = json_of(&dir, "/profiles/get?jobid=dd-now");
    assert_eq!((&now["desc"]["jobid"], &now["desc"]["end_time"]), (&json!("dd-now"), &json!(0)));
    let past = json_of(&dir, "/profiles/get?jobid=dd-16");
    assert_eq!(past["counters"]["posix->write size"], json!(1_600_000.0));
    let by_command = json_of(&dir, "/profiles/percmd");
    assert!(
        by_command.as_object().unwrap().keys().any(|command| command.contains("count=16")),
        "{by_command}"
    );
    assert_eq!(json_of(&dir, "/profiles").as_array().unwrap().len(), 5);
    assert_eq!(json_of(&dir, "/topo"), json!([]));
    drop(running.stdin.take());
    assert!(running.wait().unwrap().success());

    let script = "import sys
from extrap.fileio.file_reader.jsonlines_file_reader import read_jsonlines_file
from extrap.modelers.model_generator import ModelGenerator
experiment = read_jsonlines_file(sys.argv[1])
generator = ModelGenerator(experiment)
generator.model_all()
names = [parameter.name for parameter in experiment.parameters]
for (callpath, metric), model in generator.models.items():
    if callpath.name == 'posix->write' and metric.name == 'size':
        at = [32 if name == 'n' else 1 for name in names]
        print(len(experiment.coordinates), round(model.hypothesis.function.evaluate(at)))
";
    let Some(extrap) = program("extrap") else { return };
    let first = std::fs::read_to_string(extrap).unwrap();
    let python = first.lines().next().unwrap().strip_prefix("#!").unwrap().trim().to_owned();
    let answer = Command::new(python).args(["-c", script]).arg(&file).output().unwrap();
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stderr));
    let said = String::from_utf8(answer.stdout).unwrap();
    assert_eq!(said.trim(), "5 3200000", "{said}");
}

fn models_of_parameter(dir: &FreshDir, app: &str, n_runs: u64) {
    while json_of(dir, &format!("/api/1/models?app={app}"))["runs"].as_u64() != Some(n_runs) {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Writes so many bytes as often as its argument gives, then waits for a file if one is named.
const WRITER: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    static char buffer[BYTES];
    int fd = open("written", O_CREAT | O_TRUNC | O_WRONLY, 0600);
    for (int i = atoi(argv[1]); i > 0; i--)
        if (write(fd, buffer, BYTES) != BYTES)
            return 1;
    while (argc > 2 && access(argv[2], F_OK) != 0)
        usleep(1000);
    return close(fd);
}
"#;

fn compile(dir: &FreshDir, name: &str, options: &[&str]) -> Option<PathBuf> {
    let compiler = program("cc")?;
    let source = dir.write("writer.c", WRITER);
    let file = dir.join(name);
    let status = Command::new(compiler).args(options).arg("-o").arg(&file).arg(source).status().unwrap();
    assert!(status.success());
    Some(file)
}

#[test]
fn another_binary_is_another_program_and_runs_that_lack_something_are_left_out() {
    let dir = FreshDir::new("serve-builds");
    let Some(old) = compile(&dir, "old", &["-DBYTES=1000", "-Wl,--build-id"]) else { return };
    let Some(new) = compile(&dir, "new", &["-DBYTES=3000", "-Wl,--build-id"]) else { return };
    let daemon = Daemon::start(&dir);
    let run = |binary: &Path, id: &str, n: u32, parameters: &str| {
        let mut command = record(&dir, id);
        command.env("IOTIDE_APP", "writer").env("IOTIDE_PARAMS", parameters).arg(binary).arg(n.to_string());
        assert!(command.status().unwrap().success());
        daemon.job(id, "ended")
    };
    for n in [1, 2, 4, 8, 16] {
        run(&old, &format!("old-{n}"), n, &format!("n={n}"));
    }
    let mut jobs: Vec<Value> = Vec::new();
    for n in [1, 2, 4, 8, 16] {
        jobs.push(run(&new, &format!("new-{n}"), n, &format!("n={n}")));
    }
    let value = |more: &str| {
        let path = "/api/1/evaluate?app=writer&callpath=posix-%3Ewrite&metric=size&at=p=1,n=100";
        json_of(&dir, &format!("{path}{more}"))["value"].as_f64().unwrap().round()
    };
    models_of_parameter(&dir, "writer", 10);
    // Together they are neither.
    assert!((150_000.0..250_000.0).contains(&value("")), "{}", value(""));
    let models = json_of(&dir, "/api/1/models?app=writer&models=0");
    let builds = models["builds"].as_array().unwrap();
    assert_eq!((builds.len(), &builds[0]["build"], &builds[0]["runs"]), (2, &jobs[0]["build"], &json!(5)));
    let old_build = builds[1]["build"].as_str().unwrap();
    assert_eq!(value("&build=this"), 300_000.0);
    assert_eq!(value(&format!("&build={}", &old_build[..8])), 100_000.0);
    assert_eq!(value("&last=5"), 300_000.0);
    // The clock in a query has microseconds; the run began after it.
    let since = jobs[0]["start_unix_s"].as_f64().unwrap() - 0.0005;
    assert_eq!(value(&format!("&since={since:.6}")), 300_000.0);
    assert_eq!(json_of(&dir, "/api/1/models?app=writer&build=00000000")["runs"], json!(0));
    let command_line = ask(
        &dir,
        &["model", "--app", "writer", "--build", old_build, "--print", "{callpath} {metric} {model}"],
    );
    let printed = String::from_utf8(command_line.stdout).unwrap();
    assert!(printed.contains("posix->write size 1000"), "{printed}");
    // It is seen in the report of the first run with it.
    let text = String::from_utf8(ask(&dir, &["job", "new-1"]).stdout).unwrap();
    assert!(text.contains("another binary than the run before had"), "{text}");
    let text = String::from_utf8(ask(&dir, &["job", "new-2"]).stdout).unwrap();
    assert!(!text.contains("another binary"), "{text}");

    // A run with other parameters, and one whose page was removed, are no measurements of this.
    run(&new, "other", 1, "m=1");
    let mut cut = record(&dir, "cut");
    cut.env("IOTIDE_APP", "writer").env("IOTIDE_PARAMS", "n=1000").arg(&new).args(["1000", "go-on"]);
    let mut cut = cut.spawn().unwrap();
    while daemon.job("cut", "running")["io"]["calls_written"].as_u64() != Some(1000) {
        std::thread::sleep(Duration::from_millis(20));
    }
    for page in std::fs::read_dir(dir.join("pages")).unwrap() {
        std::fs::remove_file(page.unwrap().path()).unwrap();
    }
    std::thread::sleep(Duration::from_millis(300));
    dir.write("go-on", "");
    assert!(cut.wait().unwrap().success());
    daemon.job("cut", "partial");
    let mut killed = record(&dir, "killed");
    killed.env("IOTIDE_APP", "writer").env("IOTIDE_PARAMS", "n=1000").arg(&new).args(["7", "never"]);
    let mut killed = killed.spawn().unwrap();
    while daemon.job("killed", "running")["io"]["calls_written"].as_u64() != Some(7) {
        std::thread::sleep(Duration::from_millis(20));
    }
    crate::serve::kill_all(&mut killed);
    assert_eq!(daemon.job("killed", "ended")["n_killed"], 1);
    let notes = loop {
        let notes = json_of(&dir, "/api/1/models?app=writer")["notes"].clone();
        if notes.as_array().unwrap().len() == 3 {
            break notes;
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(
        notes,
        json!([
            "1 run is left out: not all of the counts are known",
            "1 run is left out: a process was killed or aborted",
            "1 run is left out: the parameters are not size, n"
        ])
    );
    assert_eq!(value("&last=5"), 300_000.0);
    let said = String::from_utf8(ask(&dir, &["model", "--app", "writer"]).stderr).unwrap();
    assert!(said.contains("1 run is left out: not all of the counts are known"), "{said}");
}

#[test]
fn a_binary_without_a_build_id_is_known_all_the_same() {
    let dir = FreshDir::new("serve-no-build-id");
    let daemon = Daemon::start(&dir);
    let mut builds = Vec::new();
    for (name, bytes) in [("a", "-DBYTES=1000"), ("a", "-DBYTES=1000"), ("b", "-DBYTES=200000")] {
        let binary = dir.join(name);
        if !binary.exists() && compile(&dir, name, &[bytes, "-Wl,--build-id=none"]).is_none() {
            return;
        }
        let id = format!("run-{}", builds.len());
        assert!(record(&dir, &id).arg(&binary).arg("3").status().unwrap().success());
        builds.push(daemon.job(&id, "ended")["build"].as_str().unwrap().to_owned());
    }
    assert!(!builds[0].is_empty() && builds[0] == builds[1] && builds[1] != builds[2], "{builds:?}");
}

#[test]
fn models_of_another_user_are_not_told() {
    let Some(setpriv) = program("setpriv") else { return };
    if !iotide_testkit::is_root() {
        return;
    }
    use std::os::unix::fs::PermissionsExt;
    let dir = FreshDir::new("serve-models-others");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let daemon = Daemon::start(&dir);
    let dd = ["dd", "if=/dev/zero", "of=out", "bs=1000", "count=3", "status=none"];
    assert!(record(&dir, "ours").env("IOTIDE_APP", "app").args(dd).status().unwrap().success());
    daemon.job("ours", "ended");
    models_of_parameter(&dir, "app", 1);
    let iotide = dir.join("iotide");
    std::fs::copy(IOTIDE, &iotide).unwrap();
    let other = |args: &[&str]| {
        let mut command = Command::new(&setpriv);
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&iotide).args(args);
        let output = command.env("IOTIDE_DAEMON", dir.join("socket")).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (status, said) = other(&["model", "--app", "app"]);
    assert!(status == Some(2) && said.contains("no run of such an application is known to you"), "{said}");
    let (status, said) = other(&["model", "--job", "ours"]);
    assert!(status == Some(2) && said.contains("no job ours is known to you"), "{said}");
}
