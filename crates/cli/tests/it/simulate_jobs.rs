use crate::page_script::played_at;
use crate::util::{Dir, Outcome};

/// Four nodes: one job holds all of them, a malleable one and a small one wait.
const JOBS: &str = r#"{"nodes": 4, "jobs": [
    {"id": "a", "kind": "malleable", "submit_s": 0, "nodes": 2, "nodes_min": 1, "nodes_max": 4, "runtime_s": 100},
    {"id": "b", "submit_s": 10, "nodes": 3, "runtime_s": 50},
    {"id": "c", "submit_s": 20, "nodes": 1, "runtime_s": 30}]}"#;

fn json(outcome: &Outcome) -> serde_json::Value {
    serde_json::from_str(&outcome.stdout).unwrap()
}

#[test]
fn policies_stand_side_by_side() {
    let dir = Dir::new();
    dir.write("jobs.json", JOBS);
    let told = dir
        .iotide(["simulate", "jobs", "jobs.json", "--policies", "easy,mebf-aggressive,tide"])
        .exits_with(0);
    insta::assert_snapshot!(told.stdout, @r#"
    jobs.json: 3 jobs on 4 nodes, resizing is free; one run

      policy           mean wait  against  makespan  against  slowdown  utilisation  resizes
      easy             30 s       –        150 s     –        1.60      63 %         0
      mebf-aggressive  23.3 s     0.78     100 s     0.67     1.60      95 %         1
      tide             13.3 s     0.44     95 s      0.63     1.44      100 %        3

    better than easy in wait and makespan: mebf-aggressive (wait ×0.78, makespan ×0.67), tide (wait
    ×0.44, makespan ×0.63)
    "#);
}

#[test]
fn a_mix_has_jobs_for_policies_that_resize_them() {
    let dir = Dir::new();
    let shares = |args: &[&str]| -> Vec<serde_json::Value> {
        let mut command = dir.command(["simulate", "jobs", "mix", "--jobs", "20", "--format", "json"]);
        let told = Outcome::of(command.args(args).output().unwrap());
        let policies = json(&told.exits_with(0))["policies"].as_array().unwrap().clone();
        policies.into_iter().map(|policy| policy["malleable"].clone()).collect()
    };
    assert_eq!(shares(&["--policies", "easy,tide"]), [0.2, 0.2]);
    assert_eq!(shares(&["--policies", "easy,tide", "--malleable", "0"]), [0.0, 0.0]);
    assert!(shares(&["--policies", "easy,conservative"]).iter().all(serde_json::Value::is_null));
}

#[test]
fn scripts_get_every_start_end_and_resize() {
    let dir = Dir::new();
    dir.write("jobs.json", JOBS);
    let answer = json(
        &dir.iotide(["simulate", "jobs", "jobs.json", "--policies", "fcfs,tide", "--format", "json"])
            .exits_with(0),
    );
    let a = &answer["policies"][1]["jobs"][0];
    assert_eq!((&a["id"], &a["state"], &a["start_s"]), (&"a".into(), &"completed".into(), &0.0.into()));
    // It starts on all four nodes, and gives three of them to the next.
    assert_eq!(a["nodes"], 4);
    assert_eq!(a["resizes"][0], serde_json::json!({"at_s": 10.0, "from": 4, "to": 1}));
    assert_eq!(answer["policies"][1]["jobs"][1]["start_s"], 10.0);
    assert_eq!(answer["policies"][0]["ratio"], serde_json::Value::Null);
    assert!(answer["policies"][1]["ratio"]["mean_wait"].as_f64().unwrap() < 1.0);
}

#[test]
fn the_answer_does_not_depend_on_the_number_of_threads() {
    let dir = Dir::new();
    let run = |threads: &str| {
        dir.iotide([
            "simulate",
            "jobs",
            "mix",
            "--jobs",
            "60",
            "--malleable",
            "0,40",
            "--seeds",
            "6",
            "--window",
            "40",
            "--format",
            "json",
            "--threads",
            threads,
        ])
        .exits_with(0)
        .stdout
    };
    let one = run("1");
    assert_eq!(one, run("3"));
    let answer: serde_json::Value = serde_json::from_str(&one).unwrap();
    let interval = &answer["policies"][7]["ratio"]["mean_wait"]["interval"];
    assert!(interval[0].as_f64().unwrap() <= interval[1].as_f64().unwrap(), "{interval}");
}

#[test]
fn a_page_says_who_loses_and_asks_for_nothing() {
    let dir = Dir::new();
    dir.iotide(["simulate", "jobs", "mix", "--malleable", "20,80", "--seeds", "5", "-o", "page.html"])
        .exits_with(0);
    let html = dir.read("page.html");
    for part in [
        "Gain against the share of malleable jobs",
        "id=\"schedules-data\"",
        "class=\"worse\"",
        "mebf-aggressive",
    ] {
        assert!(html.contains(part), "{part}");
    }
    let others = html.replace("http://www.w3.org/2000/svg", "");
    for outside in ["http:", "https:", "src=", "@import", "href="] {
        assert!(!others.contains(outside), "{outside}");
    }
}

/// Plays on the page of a small log under EASY, which takes 150 s on four nodes; `shown` says what is to be seen.
fn played_on_schedules(width: u32, script: &str) -> Option<Vec<String>> {
    let dir = Dir::new();
    dir.write("jobs.json", JOBS);
    dir.iotide(["simulate", "jobs", "jobs.json", "--policies", "easy,tide", "-o", "page.html"]).exits_with(0);
    let tools = r#"
        const canvas = document.querySelector("[id=schedules] canvas"), box = canvas.getBoundingClientRect();
        const shown = () => document.getElementById("shown").textContent;
        const at = (x, y) => ({ clientX: box.left + 44 + x * (box.width - 44), clientY: box.top + y, bubbles: true, cancelable: true, button: 0, pointerId: 1 });
        const fire = (event) => { canvas.dispatchEvent(event); return event.defaultPrevented; };
        const drag = (from, to, shiftKey) => {
          fire(new PointerEvent("pointerdown", { ...at(...from), shiftKey }));
          for (const type of ["pointermove", "pointerup"]) fire(new PointerEvent(type, { ...at(...to), shiftKey }));
        };
        const key = (key) => fire(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
        const click = (id) => document.getElementById(id).click();
    "#;
    played_at(&dir, "page.html", width, &format!("{tools}{script}"))
}

#[test]
fn a_schedule_is_zoomed_with_the_mouse_and_shown_whole_again() {
    let notes = played_on_schedules(
        1200,
        r#"
        note(shown());
        const wheel = (ctrlKey) => fire(new WheelEvent("wheel", { ...at(0.5, 100), ctrlKey, deltaY: -240 }));
        note(`${wheel(false) ? "the page does not scroll" : "the page scrolls"}: ${shown()}`);
        wheel(true);
        note(shown());
        fire(new MouseEvent("dblclick", at(0.5, 100)));
        note(shown());
        drag([0.2, 100], [0.6, 100]);
        note(shown());
        drag([0.5, 100], [0.25, 100], true);
        note(shown());
        click("zoom-all");
        drag([0.2, 0], [0.6, 130]);
        note(shown());
        drag([0.5, 50], [0.501, 50]);
        note(shown());
        fire(new PointerEvent("pointermove", at(0.5, 200)));
        click("zoom-all");
        fire(new PointerEvent("pointermove", at(0.1, 200)));
        note(document.querySelector(".pointed").textContent);
        note(document.getElementById("zoom-all").disabled ? "nothing to show" : "more to show");
        "#,
    );
    let Some(notes) = notes else { return };
    insta::assert_snapshot!(notes.join("\n"), @r"
    all is shown
    the page scrolls: all is shown
    48 s to 103 s
    all is shown
    30 s to 91 s
    45 s to 106 s
    30 s to 91 s, nodes 2 to 3
    30 s to 91 s, nodes 2 to 3
    job a, malleable, nodes 0 to 1, from 0 s for 100 s
    nothing to show
    ");
}

#[test]
fn a_schedule_is_zoomed_with_keys_and_buttons() {
    let notes = played_on_schedules(
        1200,
        r#"
        note(canvas.tabIndex === 0 && canvas.getAttribute("aria-label").includes("easy") ? "can be reached" : "cannot be reached");
        note(key("ArrowUp") ? "a trap" : "the page scrolls");
        key("+");
        note(shown());
        key("ArrowLeft");
        note(shown());
        key("-");
        note(shown());
        key("+"); key("Escape");
        note(shown());
        note(key("Tab") ? "a trap" : "Tab goes on");
        click("zoom-in"); click("later");
        note(shown());
        key("0"); click("fewer");
        note(shown());
        key("+"); key("0");
        const select = document.querySelector("[id=schedules] select");
        select.value = "1"; select.dispatchEvent(new Event("change"));
        note(`${canvas.getAttribute("aria-label").includes("under tide")} ${shown()}`);
        "#,
    );
    let Some(notes) = notes else { return };
    insta::assert_snapshot!(notes.join("\n"), @r"
    can be reached
    the page scrolls
    38 s to 113 s
    23 s to 98 s
    all is shown
    all is shown
    Tab goes on
    76 s to 151 s
    0.0 min to 2.5 min, nodes 1 to 2
    true all is shown
    ");
}

#[test]
fn schedules_and_curves_fit_a_phone() {
    let dir = Dir::new();
    dir.iotide([
        "simulate",
        "jobs",
        "mix",
        "--jobs",
        "40",
        "--malleable",
        "20,80",
        "--seeds",
        "3",
        "--policies",
        "all",
        "-o",
        "page.html",
    ])
    .exits_with(0);
    for (width, is_slim) in [(390, true), (1400, false)] {
        let notes = played_at(
            &dir,
            "page.html",
            width,
            r#"
            const root = document.documentElement;
            note(root.scrollWidth <= innerWidth ? "no sideways scroll" : `${root.scrollWidth} of ${innerWidth} pixels`);
            const seen = [...document.querySelectorAll("svg.plot text, .keys li")].filter((text) => text.getBoundingClientRect().width > 0);
            const cut = seen.filter((text) => { const box = text.getBoundingClientRect(); return box.left < 0 || box.right > innerWidth; });
            note(seen.length && !cut.length ? "nothing is cut" : cut.map((text) => text.textContent).join(","));
            note(new Set([...document.querySelectorAll(".broad, .slim")].filter((part) => part.getBoundingClientRect().width > 0).map((part) => part.className)).size === 1 ? [...document.querySelectorAll(".broad, .slim")].find((part) => part.getBoundingClientRect().width > 0).className : "both");
            "#,
        );
        let Some(notes) = notes else { return };
        assert_eq!(
            notes,
            ["no sideways scroll", "nothing is cut", if is_slim { "slim" } else { "broad" }],
            "{width}"
        );
    }
}

#[test]
fn without_scripts_there_are_pictures_of_the_first_and_the_last_policy() {
    let dir = Dir::new();
    dir.write("jobs.json", JOBS);
    dir.iotide(["simulate", "jobs", "jobs.json", "--policies", "easy,average,tide", "-o", "page.html"])
        .exits_with(0);
    let html = dir.read("page.html");
    let stills = html.split("<noscript>").nth(1).unwrap().split("</noscript>").next().unwrap();
    let policies: Vec<&str> =
        stills.split("<h3>").skip(1).map(|part| part.split('<').next().unwrap()).collect();
    assert_eq!(policies, ["easy", "tide"]);
    // Job `a` holds the two lower of four rows for 100 of 150 s under EASY.
    assert!(
        stills.contains("<path class=\"malleable\" d=\"M0 3h720v1h-720zM0 2h720v1h-720z\"/>"),
        "{stills}"
    );
    assert!(stills.contains("jobs waiting, up to 1"), "{stills}");
}

#[test]
fn logs_of_other_programs_are_read() {
    let dir = Dir::new();
    dir.write(
        "log.swf",
        "; MaxNodes: 8\n1 0 -1 100 8 -1 -1 8 200 -1 1 -1 -1 -1 0 -1 -1 -1\n2 5 -1 -1 1 -1 -1 1 9 -1 1 -1 -1 -1 0 -1 -1 -1\n3 6 -1 10",
    );
    let told = dir.iotide(["simulate", "jobs", "log.swf", "--policies", "easy"]).exits_with(0);
    insta::assert_snapshot!(told.stdout, @r#"
    log.swf: 1 job on 8 nodes, resizing is free; one run

      policy  mean wait  against  makespan  against  slowdown  utilisation  resizes
      easy    0 s        –        100 s     –        1.00      100 %        0

    lost: line 3: job 2 has no run time
    lost: line 4: 4 fields where a job has 18
    "#);
    let sacct = "JobID|User|JobName|NNodes|Submit|Start|End|State|Timelimit|Priority\n\
                 7|a|x|2|1970-01-02T00:00:00|1970-01-02T00:01:00|1970-01-02T00:02:00|COMPLETED|00:05:00|3\n\
                 8|a|y|2|1970-01-02T00:00:10|1970-01-02T00:02:00|Unknown|RUNNING|00:05:00|3\n";
    let answer = json(
        &dir.iotide_reading(
            sacct,
            ["simulate", "jobs", "-", "--nodes", "4", "--policies", "easy", "--format", "json"],
        )
        .exits_with(0),
    );
    assert_eq!(
        (&answer["policies"][0]["makespan_s"], &answer["policies"][0]["mean_wait_s"]),
        (&60.0.into(), &0.0.into())
    );
    assert_eq!(answer["losses"][0]["records"], 1);
}

#[test]
fn what_cannot_be_is_said_with_its_place() {
    let dir = Dir::new();
    let says = |text: &str| {
        dir.write("jobs.json", text);
        dir.iotide(["simulate", "jobs", "jobs.json"]).exits_with(2).stderr.lines().next().unwrap().to_owned()
    };
    let job = |fields: &str| says(&format!(r#"{{"nodes": 4, "jobs": [{{{fields}}}]}}"#));
    let told = [
        says("{\"jobs\": ["),
        says("{\"jobs\": [], \"node\": 4}"),
        says("{\"nodes\": 1000000000, \"jobs\": []}"),
        says("{\"nodes\": 4, \"jobs\": []}"),
        says(r#"{"nodes": 4, "failures": [{"node": 4, "at_s": 0, "repair_s": 1}], "jobs": []}"#),
        job(r#""submit_s": 0, "nodes": 1"#),
        job(r#""submit_s": -1, "nodes": 1, "runtime_s": 1"#),
        job(r#""submit_s": 0, "nodes": 1, "runtime_s": 1, "nodes_mx": 3"#),
        job(r#""submit_s": 0, "nodes": 1000000000, "runtime_s": 1"#),
        job(r#""submit_s": 0, "nodes": 2, "runtime_s": 1, "kind": "malleable", "nodes_min": 3"#),
        job(r#""submit_s": 0, "nodes": 2, "runtime_s": 1, "serial_fraction": 0.1, "times_s": {"1": 2}"#),
        job(r#""id": 1, "submit_s": 0, "nodes": 2, "runtime_s": 1}, {"id": 1, "submit_s": 0, "nodes": 2, "runtime_s": 1"#),
        job(r#""id": 1, "submit_s": 0, "nodes": 2, "runtime_s": 1}, {"id": "1", "submit_s": 0, "nodes": 2, "runtime_s": 1"#),
        job(r#""submit_s": 0, "nodes": 2, "runtime_s": 1, "requests": [{"at": 0.5, "nodes": 3}]"#),
    ]
    .join("\n");
    insta::assert_snapshot!(told, @r#"
    iotide: jobs.json: is not JSON: EOF while parsing a list at line 1 column 10
    iotide: jobs.json: has an unknown field "node"; there are nodes, alpha_s, alpha_per_node_s, storage, failures, jobs
    iotide: jobs.json: nodes is 1000000000, but must be at most 16777216 nodes
    iotide: jobs.json: jobs is not a list of jobs
    iotide: jobs.json: failures[0].node is not a node: there are 0 to 3
    iotide: jobs.json: jobs[0].runtime_s is missing
    iotide: jobs.json: jobs[0].submit_s is -1, but must be 0 or more
    iotide: jobs.json: jobs[0] has an unknown field "nodes_mx"; there are id, name, kind, submit_s, nodes, nodes_min, nodes_max, runtime_s, walltime_s, recorded_s, priority, serial_fraction, times_s, model, cancel_s, io, requests
    iotide: jobs.json: jobs[0].nodes is 1000000000, but must be at most 16777216 nodes
    iotide: jobs.json: jobs[0] prefers 2 nodes, which is not in 3…2
    iotide: jobs.json: jobs[0] has both serial_fraction and times_s
    iotide: jobs.json: jobs[1].id 1 is the id of another job, too
    iotide: jobs.json: jobs[1].id 1 is the id of another job, too
    iotide: jobs.json: jobs[0] has requests, but is rigid, not evolving
    "#);
    let sacct = "JobID|User|JobName|NNodes|Start|End|State\n1|a|x|1|1|2|COMPLETED\n";
    let refused = dir.iotide_reading(sacct, ["simulate", "jobs", "-"]).exits_with(2);
    insta::assert_snapshot!(refused.stderr, @r#"
    iotide: stdin does not say how many nodes the machine has
    hint: say how many nodes it has with --nodes N
    "#);
    for (args, what) in [
        (["--malleable", "120"], "--malleable: 120"),
        (["--policies", "best"], "--policies: \"best\" is not known"),
        (["--seeds", "0"], "--seeds 0"),
        (["--gamma", "0.5"], "--gamma 0.5"),
        (["--alpha-per-node", "nan"], "--alpha-per-node NaN"),
        (["--recorded-error", "inf"], "--recorded-error inf"),
        (["--window", "301"], "--window 301 is more than the 300 jobs"),
        (["--first", "9"], "--first is about a log"),
        (["--models", "runs.csv"], "--io and --models are about jobs of a log"),
        (["--errors", "user=1,user=2"], "user is named twice"),
    ] {
        let refused = dir.iotide(["simulate", "jobs", "mix", args[0], args[1]]).exits_with(2);
        assert!(refused.stderr.contains(what), "{}", refused.stderr);
    }
}

#[test]
fn a_job_that_can_never_fit_is_rejected_and_the_others_run() {
    let dir = Dir::new();
    dir.write(
        "jobs.json",
        r#"{"nodes": 4, "jobs": [{"id": 1, "submit_s": 0, "nodes": 5, "runtime_s": 9}, {"id": 2, "submit_s": 1, "nodes": 4, "runtime_s": 9}]}"#,
    );
    let answer = json(
        &dir.iotide(["simulate", "jobs", "jobs.json", "--policies", "all", "--format", "json"]).exits_with(0),
    );
    let policies = answer["policies"].as_array().unwrap();
    assert_eq!(policies.len(), 16);
    for policy in policies {
        assert_eq!(
            (&policy["jobs"][0]["state"], &policy["jobs"][1]["state"]),
            (&"rejected".into(), &"completed".into())
        );
    }
}

#[test]
fn jobs_that_share_a_storage_slow_each_other_down() {
    let dir = Dir::new();
    let job = |id: u32| {
        format!(
            r#"{{"id": {id}, "submit_s": 0, "nodes": 1, "runtime_s": 100, "io": {{"bytes": 5e9, "phases": 1}}}}"#
        )
    };
    dir.write(
        "jobs.json",
        format!(
            r#"{{"nodes": 2, "storage": {{"bandwidth_bps": 1e8, "node_bps": 1e8}}, "jobs": [{}, {}]}}"#,
            job(1),
            job(2)
        ),
    );
    let answer = json(
        &dir.iotide(["simulate", "jobs", "jobs.json", "--policies", "easy", "--format", "json"])
            .exits_with(0),
    );
    // 50 s of computing, then 50 s of I/O alone, and twice that side by side.
    let easy = &answer["policies"][0];
    assert_eq!((&easy["makespan_s"], &easy["io_slowdown"]), (&150.0.into(), &2.0.into()));
}

#[test]
fn a_storage_of_nodes_grows_while_they_are_idle_and_gives_them_to_who_waits() {
    let dir = Dir::new();
    // Eight nodes, two of which serve the storage; 50 s of computing and 50 s of I/O at 2 nodes' bandwidth, side by side.
    let job = |id: u32, submit_s: u32, nodes: u32| {
        format!(
            r#"{{"id": {id}, "submit_s": {submit_s}, "nodes": {nodes}, "runtime_s": 100, "io": {{"bytes": 5e9, "phases": 1}}}}"#
        )
    };
    let rigid = r#"{"id": 3, "submit_s": 120, "nodes": 4, "runtime_s": 10}"#;
    dir.write(
        "jobs.json",
        format!(
            r#"{{"nodes": 8, "storage": {{"bandwidth_bps": {{"2": 1e8, "4": 2e8}}, "io_nodes": 2, "io_nodes_max": 4}}, "jobs": [{}, {}, {rigid}]}}"#,
            job(1, 0, 1),
            job(2, 0, 1)
        ),
    );
    let args = ["simulate", "jobs", "jobs.json", "--policies", "easy,io-balance", "--format", "json"];
    let answer = json(&dir.iotide(args).exits_with(0));
    let (easy, balanced) = (&answer["policies"][0], &answer["policies"][1]);
    // Twice as long side by side; with twice the bandwidth as long as alone.
    assert_eq!((&easy["makespan_s"], &easy["jobs"][0]["end_s"]), (&150.0.into(), &150.0.into()));
    assert_eq!(balanced["jobs"][0]["end_s"], 100.0, "{balanced}");
    assert_eq!(balanced["storage_resizes"][0]["to"], 4, "{balanced}");
    assert_eq!(easy.get("storage_resizes"), None, "others leave it as it is");
    assert_eq!(balanced["jobs"][2]["start_s"], 120.0);
    let says = |storage: &str| {
        dir.write("wrong.json", format!(r#"{{"nodes": 8, "storage": {storage}, "jobs": [{rigid}]}}"#));
        dir.iotide(["simulate", "jobs", "wrong.json"]).exits_with(2).stderr
    };
    assert!(says(r#"{"bandwidth_bps": 1, "io_nodes": 8}"#).contains("has 8 of 8…8 I/O nodes"));
    assert!(says(r#"{"bandwidth_bps": {"2": 1}}"#).contains("is a table, but there are no io_nodes"));
    assert!(says(r#"{"bandwidth_bps": {"2": 0}, "io_nodes": 2}"#).contains("storage.bandwidth_bps.2"));
    assert!(says(r#"{"model": "bandwidth", "io_nodes": 2}"#).contains("names the model bandwidth"));
}

#[test]
fn what_jobs_read_and_write_is_looked_up_and_may_be_wrong() {
    let dir = Dir::new();
    let jobs: Vec<String> = (0..12)
        .map(|i| {
            let name = ["climate", "solver", "unknown"][i % 3];
            format!(
                r#"{{"name": "{name}", "kind": "malleable", "submit_s": {}, "nodes": {}, "nodes_min": 1, "nodes_max": 16, "runtime_s": {}, "serial_fraction": 0.1}}"#,
                30 * i,
                2 + i % 5,
                200 + 40 * i
            )
        })
        .collect();
    dir.write("jobs.json", format!(r#"{{"nodes": 16, "jobs": [{}]}}"#, jobs.join(",")));
    let rows: String = (0..5).map(|i| format!("0,write,{},{},2e9\n", 20 * i, 20 * i + 2)).collect();
    dir.write("a.csv", format!("rank,op,start,end,bytes\n{rows}"));
    dir.write("io.json", r#"{"climate": "a.csv", "solver": {"bytes": 1e9, "phases": 4}}"#);
    let args = [
        "simulate",
        "jobs",
        "jobs.json",
        "--policies",
        "easy,io-balance",
        "--io",
        "io.json",
        "--format",
        "json",
    ];
    let answer = json(&dir.iotide(args).exits_with(0));
    let volumes: Vec<(&str, u64)> = (answer["figures"].as_array().unwrap().iter())
        .filter(|figure| figure["figure"] == "I/O volume")
        .map(|figure| (figure["source"].as_str().unwrap(), figure["jobs"].as_u64().unwrap()))
        .collect();
    assert_eq!(volumes, [("earlier runs", 4), ("user", 4)]);
    let wrong = [&args[..], &["--errors", "manager=0,runs=0.1,user=1.5", "--seeds", "4"]].concat();
    let wrong: [&str; 13] = wrong.try_into().unwrap();
    let off = json(&dir.iotide(wrong).exits_with(0));
    assert_ne!(off["policies"][1]["mean_wait_s"], answer["policies"][1]["mean_wait_s"]);
    let refused =
        |errors: &str| dir.iotide(["simulate", "jobs", "jobs.json", "--errors", errors]).exits_with(2).stderr;
    assert!(refused("manager=1").contains("is counted"), "{}", refused("manager=1"));
    assert!(refused("god=1").contains("classes are manager, runs and user"));
    dir.write("bad.json", r#"{"climate": {"byte": 1}}"#);
    let said = dir.iotide(["simulate", "jobs", "jobs.json", "--io", "bad.json"]).exits_with(2).stderr;
    assert!(said.contains("bad.json") && said.contains("climate has an unknown field"), "{said}");
}

#[test]
fn a_log_that_does_not_fit_its_machine_says_so() {
    let dir = Dir::new();
    let row = |id: u32, nodes: u32| format!("{id} 0 -1 10 {nodes} -1 -1 {nodes} -1 -1 1 1 1 1 1 -1 -1 -1\n");
    dir.write("none.swf", format!("; MaxNodes: 8\n{}", row(1, 9)));
    dir.write("some.swf", format!("; MaxNodes: 8\n{}{}{}", row(1, 9), row(2, 8), row(3, 20)));
    dir.write("huge.swf", format!("; MaxNodes: 1000000000\n{}", row(1, 9)));
    let refused = |args: [&str; 5]| dir.iotide(args).exits_with(2).stderr.lines().next().unwrap().to_owned();
    let says = |log| refused(["simulate", "jobs", log, "--policies", "easy"]);
    assert_eq!(says("none.swf"), "iotide: no job of none.swf fits 8 nodes");
    assert_eq!(says("huge.swf"), "iotide: huge.swf states 1000000000 nodes; there can be 1 to 16777216");
    let told = dir.iotide(["simulate", "jobs", "some.swf", "--policies", "easy"]).exits_with(0).stdout;
    let lost = "lost: 2 jobs of more nodes than there are for jobs: rejected, unless made malleable\n";
    assert!(told.ends_with(lost), "{told}");
    dir.write("jobs.json", JOBS);
    assert_eq!(
        refused(["simulate", "jobs", "jobs.json", "--nodes", "1000000000"]),
        "iotide: --nodes 1000000000 is not between 1 and 16777216"
    );
    let job = r#""submit_s": 10, "nodes": 1, "runtime_s": 5"#;
    dir.write("jobs.json", format!(r#"{{"nodes": 4, "jobs": [{{{job}, "cancel_s": 1}}]}}"#));
    assert_eq!(says("jobs.json"), "iotide: no job of jobs.json runs: all are cancelled before, or rejected");
    // A thousand seconds of I/O in a run of five.
    let storage = r#""storage": {"bandwidth_bps": 1e9}"#;
    dir.write(
        "jobs.json",
        format!(r#"{{"nodes": 4, {storage}, "jobs": [{{{job}, "io": {{"bytes": 1e12}}}}]}}"#),
    );
    let told =
        dir.iotide(["simulate", "jobs", "jobs.json", "--policies", "easy", "--format", "json"]).exits_with(0);
    let what =
        "1 job with more I/O than the storage can move in the time they are said to run: they run for longer";
    assert_eq!(json(&told)["losses"][0]["what"], what);
    dir.write("runs.csv", "p,time\n1,9\n2,5\n4,3\n8,2\n16,1.5\n");
    assert_eq!(
        refused(["simulate", "jobs", "some.swf", "--models", "runs.csv"]),
        "iotide: --models is of no use: neither a job of some.swf nor its storage names a model"
    );
    let told = dir
        .iotide(["resize", "advise", "runs.csv", "--log", "some.swf", "--sizes", "4,4"])
        .exits_with(0)
        .stdout;
    assert!(told.ends_with(lost), "{told}");
    assert_eq!(told.lines().filter(|line| line.starts_with("  4 ")).count(), 1, "{told}");
    // One probe has no interval, and neither has what is reckoned from it.
    let one = dir
        .iotide([
            "resize", "advise", "runs.csv", "--log", "some.swf", "--sizes", "4", "--probes", "1", "--format",
            "json",
        ])
        .exits_with(0);
    assert_eq!(json(&one)["sizes"][0]["turnaround_interval_s"], serde_json::Value::Null);
}

#[test]
fn a_run_that_is_listed_twice_is_run_once() {
    let dir = Dir::new();
    let run = |id: u32, start: u32| {
        format!(
            "{id}|a|x|2|1970-01-02T00:00:00|1970-01-02T00:0{start}:00|1970-01-02T00:09:00|COMPLETED|01:00:00|3\n"
        )
    };
    let sacct = format!(
        "JobID|User|JobName|NNodes|Submit|Start|End|State|Timelimit|Priority\n{}{}{}",
        run(7, 1),
        run(7, 1),
        // Requeued: another run of the same job.
        run(7, 5)
    );
    let args = ["simulate", "jobs", "-", "--nodes", "4", "--policies", "easy", "--format", "json"];
    let answer = json(&dir.iotide_reading(&sacct, args).exits_with(0));
    let ids: Vec<String> =
        answer["policies"][0]["jobs"].as_array().unwrap().iter().map(|job| job["id"].to_string()).collect();
    assert_eq!(ids, ["7", "\"7 (run 2)\""]);
    assert_eq!(answer["losses"][0]["what"], "1 job listed a second time with the same start: left out");
}
