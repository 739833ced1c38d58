use serde_json::{Value, json};

use crate::compare::run;
use crate::util::Dir;

/// Two runs of which the second takes longer for its I/O.
fn dir() -> Dir {
    let dir = Dir::new();
    dir.write("a.csv", run(4, 12.7, 1.0, 1_000_000, "/scratch/1"));
    dir.write("b.csv", run(4, 25.4, 1.5, 1_000_000, "/scratch/2"));
    dir
}

#[test]
fn a_baseline_says_what_its_run_says() {
    let dir = dir();
    let outcome =
        dir.iotide(["compare", "a.csv", "--save-baseline", "base.json", "--label", "3f2a1c0"]).exits_with(0);
    assert_eq!(
        (outcome.stdout.as_str(), outcome.stderr.as_str()),
        ("", "figures of 1 run saved in base.json\n")
    );
    assert!(dir.read("base.json").len() < 4000, "{}", dir.read("base.json"));
    let runs = dir.iotide(["compare", "a.csv", "b.csv", "--format", "json"]).exits_with(0).json();
    let kept =
        dir.iotide(["compare", "--baseline", "base.json", "b.csv", "--format", "json"]).exits_with(0).json();
    for part in ["quantities", "issues", "labels", "request_sizes", "worse", "threshold"] {
        assert_eq!(runs[part], kept[part], "{part}");
    }
    assert!(kept["worse"].as_array().unwrap().len() >= 3, "{kept}");
    assert_eq!(kept["sides"][0]["baseline"], "3f2a1c0");
    assert_eq!(kept["sides"][0]["runs"], runs["sides"][0]["runs"]);
    assert_eq!((&kept["files"], &kept["sides"][1]["baseline"]), (&json!([]), &Value::Null));
    let text = dir.iotide(["compare", "--baseline", "base.json", "b.csv"]).exits_with(0).stdout;
    assert!(text.contains("A  baseline 3f2a1c0, a.csv (csv): period 12.7 s"), "{text}");
    assert!(text.contains("A baseline has no files: they are not compared."), "{text}");
    dir.iotide(["compare", "--baseline", "base.json", "b.csv", "-o", "page.html"]).exits_with(0);
    assert!(dir.read("page.html").contains("baseline 3f2a1c0"));
}

#[test]
fn the_status_tells_whether_it_got_worse_and_the_new_figures_are_kept() {
    let dir = dir();
    dir.iotide(["compare", "a.csv", "--save-baseline", "base.json"]).exits_with(0);
    dir.iotide(["compare", "--baseline", "base.json", "a.csv", "--worse-than", "0"]).exits_with(0);
    let gate =
        ["compare", "--baseline", "base.json", "b.csv", "--worse-than", "10", "--save-baseline", "new.json"];
    let outcome = dir.iotide(gate).exits_with(1);
    assert!(outcome.stderr.contains("worse: run time +100 % (242.3 s → 484.1 s)\n"), "{outcome:?}");
    dir.iotide(["compare", "--baseline", "new.json", "b.csv", "--worse-than", "0"]).exits_with(0);
    let watched =
        ["compare", "--baseline", "base.json", "b.csv", "--worse-than", "10", "--watch", "metadata_calls"];
    dir.iotide(watched).exits_with(0);
    let new: Value = serde_json::from_str(&dir.read("new.json")).unwrap();
    assert_eq!((&new["schema"], &new["label"]), (&json!("iotide-baseline/1"), &json!("new")));
}

#[test]
fn several_runs_of_a_baseline_are_noise_as_several_runs_are() {
    let dir = Dir::new();
    for (i, seconds) in [0.9, 1.0, 1.2, 0.95, 1.1, 1.25].into_iter().enumerate() {
        dir.write(&format!("{i}.csv"), run(4, 12.7, seconds, 1_000_000, "/scratch"));
    }
    let saved =
        dir.iotide(["compare", "0.csv", "1.csv", "2.csv", "--save-baseline", "base.json"]).exits_with(0);
    assert_eq!(saved.stderr, "figures of 3 runs saved in base.json\n");
    let new = ["compare", "--baseline", "base.json", "3.csv", "4.csv", "5.csv", "--worse-than", "5"];
    dir.iotide(new).exits_with(0);
    let runs =
        ["compare", "0.csv", "1.csv", "2.csv", "--with", "3.csv", "4.csv", "5.csv", "--format", "json"];
    let json = dir.iotide(runs).exits_with(0).json();
    let mut of_file = dir.command(["compare", "--baseline", "base.json", "3.csv", "4.csv", "5.csv"]);
    let of_file = crate::util::Outcome::of(of_file.args(["--format", "json"]).output().unwrap()).json();
    assert_eq!(json["quantities"], of_file["quantities"]);
    assert!(json["quantities"].to_string().contains("\"noise\""));
}

#[test]
fn markdown_has_the_verdict_first_and_no_name_acts_in_it() {
    let dir = dir();
    let name = "a|b`<img src=x>`[y](z) @root.csv";
    dir.write(name, run(4, 25.4, 1.5, 1_000_000, "/scratch/2").replace("/opt/lmp", "/opt/**`lmp`|"));
    dir.iotide(["compare", "a.csv", "--save-baseline", "base.json", "--label", "`]<b>#1"]).exits_with(0);
    let outcome = dir
        .iotide(["compare", "--baseline", "base.json", name, "--worse-than", "10", "--format", "markdown"])
        .exits_with(1);
    let markdown = &outcome.stdout;
    assert!(markdown.starts_with(
        "### I/O got worse by more than 10 %\n\n- **worse:** run time +100 % (242.3 s → 484.1 s)\n"
    ));
    assert!(markdown.contains("| run time | 242.3 s | 484.1 s | +100 % **worse** |\n"), "{markdown}");
    assert!(markdown.contains("**A** baseline `\\u{60}]<b>#1` `lmp`: `a.csv`"), "{markdown}");
    assert!(markdown.contains("`a|b\\u{60}<img src=x>\\u{60}[y](z) @root.csv`"), "{markdown}");
    // Outside of code spans, of which each line has both ends, nothing of a name is left.
    for line in markdown.lines() {
        assert_eq!(line.matches('`').count() % 2, 0, "{line}");
        let outside: String = line.split('`').step_by(2).collect();
        assert!(!["img", "<b>", "@root", "lmp"].iter().any(|piece| outside.contains(piece)), "{line}");
    }
    let columns: Vec<usize> =
        markdown.lines().filter(|line| line.starts_with('|')).map(|line| line.matches('|').count()).collect();
    assert!(columns.len() > 8 && columns.iter().all(|n| *n == 5), "{markdown}");
    let same = dir
        .iotide(["compare", "--baseline", "base.json", "a.csv", "--format", "markdown"])
        .exits_with(0)
        .stdout;
    assert!(
        same.starts_with("### I/O got no worse by more than 5 %\n\nB against A: no difference\n"),
        "{same}"
    );
    dir.iotide(["compare", "a.csv", name, "--format", "markdown", "-o", "io.md"]).exits_with(0);
    assert!(dir.read("io.md").contains("| run time |"));
}

/// Saves baselines of runs that take longer and longer in I/O from the third on.
fn saved(dir: &Dir) {
    std::fs::create_dir(dir.path().join("baselines")).unwrap();
    for (i, seconds) in [1.0, 1.0, 1.5, 1.5, 2.0].into_iter().enumerate() {
        dir.write("run.csv", run(4, 12.7, seconds, 1_000_000, "/scratch"));
        let (file, label) = (format!("baselines/{i}.json"), format!("c{i}<b>"));
        dir.iotide(["compare", "run.csv", "--save-baseline", &file, "--label", &label]).exits_with(0);
    }
}

#[test]
fn a_history_tells_where_it_got_worse() {
    let dir = Dir::new();
    saved(&dir);
    let outcome = dir.iotide(["compare", "--history", "baselines"]).exits_with(0);
    insta::assert_snapshot!(outcome.stdout, @"
    5 baselines, 2 worse than the one before; last against first: bandwidth −50 % (4.04 MB/s →
    2.02 MB/s), time in I/O per rank +100 % (40.1 s → 80.1 s), time in I/O of the slowest rank +99 %
    (40.5 s → 80.5 s), and 1 more

      baseline   runs   run time   time in I/O per rank   bandwidth   metadata calls
      c0<b>         1    242.3 s                 40.1 s   4.04 MB/s                1
      c1<b>         1    242.3 s                 40.1 s   4.04 MB/s                1
      c2<b>         1    242.8 s                 60.1 s   2.69 MB/s                1
      c3<b>         1    242.8 s                 60.1 s   2.69 MB/s                1
      c4<b>         1    243.3 s                 80.1 s   2.02 MB/s                1

      c2<b>  time in I/O per rank +50 % (40.1 s → 60.1 s); time in I/O of the slowest rank +49 % (40.5 s
             → 60.5 s); bandwidth −33 % (4.04 MB/s → 2.69 MB/s)
      c4<b>  time in I/O per rank +33 % (60.1 s → 80.1 s); time in I/O of the slowest rank +33 % (60.5 s
             → 80.5 s); bandwidth −25 % (2.69 MB/s → 2.02 MB/s)
    ");
    let json = dir.iotide(["compare", "--history", "baselines", "--format", "json"]).exits_with(0).json();
    let worse: Vec<bool> =
        json["history"].as_array().unwrap().iter().map(|point| point["worse"] != json!([])).collect();
    assert_eq!(worse, [false, false, true, false, true]);
    assert_eq!(json["history"][2]["label"], "c2<b>");
    dir.iotide(["compare", "--history", "baselines", "--worse-than", "10"]).exits_with(1);
    dir.iotide(["compare", "--history", "baselines/0.json", "baselines/1.json", "--worse-than", "10"])
        .exits_with(0);
    let turned = ["compare", "--history", "baselines/4.json", "baselines/0.json", "--worse-than", "10"];
    dir.iotide(turned).exits_with(0);
    dir.iotide(["compare", "--history", "baselines", "-o", "page.html", "--svg", "pictures"]).exits_with(0);
    let page = dir.read("page.html");
    assert!(page.contains("c2&lt;b&gt;") && !page.contains("c2<b>"));
    assert!(page.matches("<figure class=\"chart\"").count() >= 4, "a chart of each key figure");
    let picture = dir.read("pictures/io_time_per_rank_s.svg");
    let marked = |begin: &str, label: &str| {
        picture.lines().any(|line| line.starts_with(begin) && line.contains(&format!(">{label}&lt;b&gt;<")))
    };
    for (label, is_worse) in [("c0", false), ("c1", false), ("c2", true), ("c3", false), ("c4", true)] {
        assert_eq!(marked("<text class=\"mark\"", label), is_worse, "{label}: {picture}");
        assert_eq!(marked("<text class=\"mark weak\"", label), !is_worse, "{label}: {picture}");
    }
}

#[test]
fn what_is_no_baseline_is_named_with_its_fault() {
    let dir = dir();
    dir.iotide(["compare", "a.csv", "--save-baseline", "base.json"]).exits_with(0);
    let good = dir.read("base.json");
    let complaint = |text: &str| {
        dir.write("bad.json", text);
        dir.iotide(["compare", "--baseline", "bad.json", "a.csv"])
            .exits_with(2)
            .complaint()
            .lines()
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(
        complaint(&good.replace("iotide-baseline/1", "iotide-baseline/2\\u001b[2J")),
        "iotide: bad.json is not a baseline: its schema is \"iotide-baseline/2\\u{1b}[2J\", not \"iotide-baseline/1\""
    );
    assert!(complaint("").contains("EOF"));
    assert!(complaint("rank,op,start,end,bytes\n").contains("bad.json is not a baseline: expected"));
    assert!(complaint(&good[..good.len() / 2]).contains("bad.json is not a baseline: "));
    assert!(
        complaint("{\"schema\":\"iotide-baseline/1\",\"label\":\"x\",\"runs\":[]}")
            .ends_with("it has no run")
    );
    assert!(complaint(&"[".repeat(100_000)).contains("bad.json is not a baseline: "));
    assert!(complaint(&format!("{good}{}", " ".repeat(5 << 20))).ends_with("it has more than 4194304 bytes"));
    let missing = dir.iotide(["compare", "--baseline", "none.json", "a.csv"]).exits_with(2);
    assert!(missing.stderr.starts_with("iotide: cannot read the baseline none.json: "), "{missing:?}");
    insta::assert_snapshot!(dir.iotide(["compare", "--history", "base.json"]).exits_with(2).complaint(), @"
    iotide: a history needs two baselines or more, not 1
    hint: `iotide compare RUNS --save-baseline FILE` writes one
    ");
    // A later version may know more: what is not known is left out, and senseless numbers with it.
    let mut later: Value = serde_json::from_str(&good).unwrap();
    later["runs"][0]["quantities"]["joules"] = json!(5);
    later["runs"][0]["quantities"]["run_time_s"] = json!(-5);
    later["runs"][0]["issues"] = json!([{ "id": "no_such_issue", "severity": "high", "gain": 1 }]);
    later["runs"][0]["labels"] = json!(["<script>"]);
    dir.write("later.json", later.to_string());
    let json =
        dir.iotide(["compare", "--baseline", "later.json", "a.csv", "--format", "json"]).exits_with(0).json();
    assert_eq!(json["quantities"][0]["changes"][0]["verdict"], "unknown");
    assert!(!json.to_string().contains("no_such_issue") && !json.to_string().contains("script"));
}
