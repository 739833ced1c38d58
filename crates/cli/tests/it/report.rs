use crate::categorize::with_history;
use crate::util::{Dir, bursts, once};

#[test]
fn a_page_and_its_pictures_are_written() {
    let dir = Dir::new();
    dir.write("run.csv", bursts("write"));
    let outcome = dir.iotide(["report", "run.csv", "-o", "page.html", "--svg", "figures"]).exits_with(0);
    assert_eq!(outcome.stdout, "");
    assert!(outcome.stderr.starts_with("run.csv: period 5 s, confidence "), "{outcome:?}");
    assert!(outcome.stderr.ends_with("open page.html in a browser\n"), "{outcome:?}");
    let page = dir.read("page.html");
    assert!(page.starts_with("<!DOCTYPE html>") && page.contains("</span> Period 5 s, confidence "));
    for picture in ["bandwidth", "period", "spectrum", "autocorrelation"] {
        assert!(page.contains(&format!("id=\"run-0-{picture}\"")), "{picture}");
        assert!(dir.read(&format!("figures/{picture}.svg")).starts_with("<svg "), "{picture}");
    }
}

#[test]
fn a_page_of_several_runs_tells_their_pictures_apart() {
    let dir = Dir::new();
    dir.write("a.csv", bursts("write"));
    dir.write("b.csv", once());
    dir.iotide(["report", "a.csv", "b.csv", "-o", "page.html", "--svg", "figures"]).exits_with(0);
    assert!(dir.read("page.html").contains("id=\"run-1-bandwidth\""));
    assert!(dir.read("figures/1-bandwidth.svg") != dir.read("figures/2-bandwidth.svg"));
}

#[test]
fn a_page_can_go_to_stdout() {
    let dir = Dir::new();
    dir.write("run.csv", bursts("write"));
    assert!(dir.iotide(["report", "run.csv", "-o", "-"]).exits_with(0).stdout.ends_with("</html>\n"));
}

#[test]
fn a_file_name_cannot_write_into_the_page() {
    let dir = Dir::new();
    let name = "<img src=x onerror=alert(1)>&\"'.csv";
    dir.write(name, bursts("write"));
    dir.iotide(["report", name, "-o", "page.html"]).exits_with(0);
    let page = dir.read("page.html");
    assert!(!page.contains("<img"));
    assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;&amp;&quot;&#39;.csv"));
}

#[test]
fn without_a_trace_there_is_no_page() {
    let dir = Dir::new();
    let outcome = dir.iotide(["report", "missing.csv", "-o", "page.html"]).exits_with(2);
    assert!(outcome.stderr.starts_with("iotide: missing.csv: "), "{outcome:?}");
    assert!(!dir.path().join("page.html").exists());
}

#[test]
fn a_page_says_who_did_what_to_which_file() {
    let dir = Dir::new();
    let mut events = String::from("rank,op,start,end,bytes,file\n");
    for rank in 0..3 {
        for step in 0..8 {
            let (start, file) = (step * 5, format!("out.{rank}"));
            events += &format!(
                "{rank},open,{start},{start}.25,0,{file}\n{rank},write,{start}.5,{}.5,65536,{file}\n",
                start + 1
            );
        }
    }
    dir.write("run.csv", events + "0,read,0,1,100,<script>alert(1)</script>\n");
    dir.iotide(["report", "run.csv", "-o", "page.html", "--svg", "figures"]).exits_with(0);
    let page = dir.read("page.html");
    for section in ["ranks", "time", "operations", "sizes", "files"] {
        assert!(page.contains(&format!("id=\"run-0-{section}\"")), "{section}");
    }
    assert!(page.contains("<td>out.2</td>") && !page.contains("<script>alert"));
    assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    assert!(page.contains("<h2>Files (4)</h2>"));
    for picture in ["ranks-read", "ranks-write", "sizes"] {
        assert!(dir.read(&format!("figures/{picture}.svg")).starts_with("<svg "), "{picture}");
    }
}

#[test]
fn small_writes_are_an_issue_on_the_page_in_words_and_for_a_script() {
    let dir = Dir::new();
    let mut events = String::from("rank,op,start,end,bytes,file,layer\n");
    for i in 0..2000 {
        let start = f64::from(i) * 0.01;
        events.push_str(&format!("{},write,{start},{},512,/scratch/log,posix\n", i % 4, start + 0.005));
    }
    dir.write("run.csv", events);
    dir.iotide(["report", "run.csv", "-o", "page.html"]).exits_with(0);
    let page = dir.read("page.html");
    assert!(page.contains("id=\"run-0-issues\""), "no section");
    assert!(page.contains("<svg class=\"gain\""), "no bar of the gain");
    assert!(page.contains("of the run: 2000 writes of 512\u{a0}B on average"), "no issue first");
    assert!(page.contains("Offsets of calls are not in the source (random_writes, redundant_writes)"));
    let text = dir.iotide(["report", "--format", "text", "run.csv"]).exits_with(0).stdout;
    assert!(text.contains("up to 11 % of the run: 2000 writes"), "{text}");
    let json = dir.iotide(["report", "--format", "json", "run.csv"]).exits_with(0).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let run = &json["runs"][0];
    let issue = &run["issues"][0];
    // A rank writes 500 times for 5 ms each, in 20 s; a tenth of that stays.
    assert!((issue["gain"]["of_run"].as_f64().unwrap() - 0.9 * 2.5 / 20.0).abs() < 1e-3, "{issue}");
    assert_eq!((issue["id"].as_str(), issue["severity"].as_str()), (Some("small_writes"), Some("high")));
    assert_eq!(issue["evidence"][0], serde_json::json!({"name": "calls", "value": 2000.0}));
    assert_eq!(
        (&run["issues_verdict"], &issue["same_calls_as"]),
        (&"found".into(), &serde_json::Value::Null)
    );
    assert!(run["issues_not_judged"].as_array().unwrap().iter().any(|not| not["id"] == "random_writes"));
    // The old name lives for one release.
    assert_eq!((&run["insights"][0]["rule"], &run["insights"]), (&issue["id"], &run["issues"]));
}

#[test]
fn a_page_sets_a_run_beside_earlier_ones_of_its_application() {
    let dir = with_history();
    dir.iotide(["report", "new.csv", "--history", "results", "-o", "page.html"]).exits_with(0);
    let page = dir.read("page.html");
    assert!(page.contains("<section id=\"run-0-history\">"), "no section");
    assert!(page.contains("<p>Beside 8 earlier runs of app:</p>"));
    assert!(
        page.contains("<td>bytes written</td><td>3\u{a0}GB</td><td>1.01\u{a0}GB</td><td>3.0 (unusual)</td>")
    );
    let told =
        |form| dir.iotide(["report", "new.csv", "--history", "results", "--format", form]).exits_with(0);
    let text = told("text").stdout;
    assert!(text.contains("3.0 times the usual bytes written (3 GB, usually 1.01 GB)"), "{text}");
    let json = told("json").json();
    assert_eq!(json["runs"][0]["history"]["n_runs"], 8);
    let labels = json["runs"][0]["categories"].as_array().unwrap();
    assert!(labels.contains(&"write_periodic".into()), "{labels:?}");

    let plain = dir.iotide(["report", "new.csv", "--format", "json"]).exits_with(0).json();
    assert!(plain["runs"][0]["history"].is_null());
    let outcome = dir.iotide(["report", "new.csv", "--history", "nowhere"]).exits_with(2);
    insta::assert_snapshot!(
        outcome.complaint(),
        @"iotide: cannot read nowhere: No such file or directory (os error 2)"
    );
}

/// The figures are those of PyDarshan 3.5.0 (`agg_perf_by_slowest`, `total_bytes`) for the same logs.
#[test]
fn the_bandwidth_is_that_of_pydarshan() {
    // Log, layer, bytes per second, bytes.
    let expected = [
        ("e3sm_io_heatmap_only", "POSIX", 1.07357e9, 304688995264.0),
        ("e3sm_io_heatmap_only", "MPI-IO", 1.10828e8, 77469026552.0),
        ("e3sm_io_heatmap_only", "STDIO", 3.41715e6, 5936.0),
        ("sample-badost", "POSIX", 7.06178e8, 549755813888.0),
        ("sample-badost", "STDIO", 8.24971e6, 1656773.0),
        ("dxt", "POSIX", 3168.01, 35539507.0),
        ("dxt", "STDIO", 2.53007e7, 1876.0),
        ("skew-app", "POSIX", 1.65142e8, 43637372528.0),
        ("skew-app", "MPI-IO", 5.79072e7, 43637372528.0),
    ];
    for of_log in expected.chunk_by(|one, other| one.0 == other.0) {
        let log = of_log[0].0;
        let Some(path) = iotide_testkit::shared_data(&format!("traces/darshan/{log}.darshan")) else {
            continue;
        };
        let dir = Dir::new();
        let path = path.to_str().expect("a name");
        let answer = dir.iotide(["report", "--format", "json", path]).exits_with(0).stdout;
        let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
        let found = answer["runs"][0]["card"]["bandwidths"].as_array().expect("a list").clone();
        for (_, layer, bps, bytes) in of_log {
            let known = found
                .iter()
                .find(|known| known["layer"] == *layer)
                .unwrap_or_else(|| panic!("{log}: {layer}"));
            let near = known["bps"].as_f64().expect("a number") / bps;
            assert!((near - 1.0).abs() < 1e-5, "{log}, {layer}: {known}, not {bps}");
            assert_eq!(known["bytes"].as_f64(), Some(*bytes), "{log}, {layer}");
        }
    }
}

#[test]
fn each_module_of_a_darshan_log_is_told_as_pydarshan_tells_it() {
    let Some(log) = iotide_testkit::shared_data("traces/darshan/generated/ior-hdf5-3.5.0.darshan") else {
        return;
    };
    let dir = Dir::new();
    let log = log.display().to_string();
    let answer = dir.iotide(["report", &log, "--format", "json", "-o", "-"]).exits_with(0).json();
    let told = &answer["runs"][0]["modules"];
    assert_eq!((&told["version"], &told["library_version"]), (&"3.41".into(), &"3.5.0".into()));
    let module = |name: &str| {
        let all = told["modules"].as_array().unwrap();
        all.iter().find(|module| module["name"] == name).unwrap_or_else(|| panic!("{name}: {told:#}")).clone()
    };
    let posix = &module("POSIX")["counted"];
    // `python -m darshan summary` of PyDarshan 3.5.0: 19 files, 46.16 KiB read, 3.77 KiB written, 1.26 MiB on average, 24.00 MiB at most.
    let rounded = |value: &serde_json::Value, unit: f64| format!("{:.2}", value.as_f64().unwrap() / unit);
    assert_eq!(posix["files"], 19);
    assert_eq!(
        [&posix["bytes_read"], &posix["bytes_written"]].map(|bytes| rounded(bytes, 1024.0)),
        ["46.16", "3.77"]
    );
    assert_eq!(
        [&posix["mean_extent_bytes"], &posix["largest_extent_bytes"]].map(|size| rounded(size, 1048576.0)),
        ["1.26", "24.00"]
    );
    let sizes = |counted: &serde_json::Value| -> Vec<(u64, u64)> {
        let all = counted["common_sizes"].as_array().unwrap();
        all.iter().map(|size| (size["bytes"].as_u64().unwrap(), size["calls"].as_u64().unwrap())).collect()
    };
    assert_eq!(sizes(posix), [(512, 73), (352, 9), (544, 9), (40, 5)]);
    assert_eq!(sizes(&module("H5D")["counted"]), [(131_072, 1024)]);
    let calls = |counted: &serde_json::Value, kind: &str| {
        let all = counted["calls"].as_array().unwrap();
        all.iter().find(|calls| calls["kind"] == kind).map_or(0, |calls| calls["calls"].as_u64().unwrap())
    };
    let kinds = ["reads", "writes", "opens", "seeks"];
    assert_eq!(kinds.map(|kind| calls(posix, kind)), [100, 20, 78, 10]);
    assert_eq!(kinds.map(|kind| calls(&module("H5D")["counted"], kind)), [512, 512, 128, 0]);
    assert_eq!(rounded(&module("POSIX")["packed_bytes"], 1024.0), "1.26");
    // On the page they are a table.
    dir.iotide(["report", &log, "-o", "page.html"]).exits_with(0);
    let page = dir.read("page.html");
    let section = page.split("-modules\">").nth(2).unwrap().split("</section>").next().unwrap();
    for part in [
        "Written by Darshan 3.5.0",
        "<th scope=\"row\">H5D</th>",
        "100\u{a0}reads",
        "131\u{a0}072\u{a0}bytes (1024 calls)",
    ] {
        assert!(section.replace('\u{202f}', "\u{a0}").contains(part), "{part}: {section}");
    }
}

/// `log_file_count_summary_table` of PyDarshan 3.5.0: all, read-only, write-only and read/write files of a module, of each the
/// number, the mean of the highest offsets and the highest of them.
type FileCountsOfPyDarshan = (&'static str, &'static str, [(u64, f64, f64); 4]);

const FILE_COUNTS_OF_PYDARSHAN: [FileCountsOfPyDarshan; 6] = [
    (
        "dxt",
        "POSIX",
        [
            (214, 524_542.518_691_588_8, 65_842_315.0),
            (33, 2_826_928.848_484_848_6, 65_842_315.0),
            (70, 155_996.971_428_571_4, 10_913_267.0),
            (65, 123_747.892_307_692_31, 5_942_860.0),
        ],
    ),
    ("dxt", "STDIO", [(1, 1876.0, 1876.0), (1, 1876.0, 1876.0), (0, 0.0, 0.0), (0, 0.0, 0.0)]),
    (
        "imbalanced-io",
        "POSIX",
        [
            (1026, 77_554_335.634_502_92, 52_938_398_984.0),
            (12, 71_016_267.833_333_33, 576_000_000.0),
            (2, 12_890_076_576.0, 24_293_491_976.0),
            (1, 52_938_398_984.0, 52_938_398_984.0),
        ],
    ),
    // MPI-IO notes no offsets.
    ("imbalanced-io", "MPI-IO", [(3, 0.0, 0.0), (0, 0.0, 0.0), (2, 0.0, 0.0), (1, 0.0, 0.0)]),
    (
        "imbalanced-io",
        "STDIO",
        [
            (12, 95_356.083_333_333_33, 987_132.0),
            (1, 1858.0, 1858.0),
            (10, 114_241.4, 987_132.0),
            (0, 0.0, 0.0),
        ],
    ),
    // A byte in each file: the offset of the last is zero.
    (
        "runtime_and_dxt_heatmaps_diagonal_write_only",
        "POSIX",
        [(32, 1.0, 1.0), (0, 0.0, 0.0), (32, 1.0, 1.0), (0, 0.0, 0.0)],
    ),
];

#[test]
fn files_of_a_module_are_counted_by_use_as_pydarshan_counts_them() {
    let Some(logs) = iotide_testkit::shared_data("traces/darshan") else { return };
    let dir = Dir::new();
    for (log, module, expected) in FILE_COUNTS_OF_PYDARSHAN {
        let log = logs.join(format!("{log}.darshan")).display().to_string();
        let answer = dir.iotide(["report", &log, "--format", "json", "-o", "-"]).exits_with(0).json();
        let all = answer["runs"][0]["modules"]["modules"].as_array().expect("a list").clone();
        let counted = &all.iter().find(|one| one["name"] == module).expect("a module")["counted"];
        let by_use = &counted["files_by_use"];
        let found = [counted, &by_use["read_only"], &by_use["write_only"], &by_use["read_write"]];
        for (found, (files, mean, largest)) in found.into_iter().zip(expected) {
            assert_eq!(found["files"], files, "{log}, {module}: {counted:#}");
            for (size, expected) in [("mean_extent_bytes", mean), ("largest_extent_bytes", largest)] {
                let size = found[size].as_f64().unwrap_or(0.0);
                // PyDarshan counts a byte for a file that was only opened.
                let opened = by_use["untouched"]["files"].as_f64().expect("a number") / files.max(1) as f64;
                assert!((size - expected).abs() <= opened + 1e-9 * expected, "{log}, {module}: {counted:#}");
            }
        }
    }
    let log = logs.join("imbalanced-io.darshan").display().to_string();
    dir.iotide(["report", &log, "-o", "page.html"]).exits_with(0);
    let page = dir.read("page.html");
    let section = page.split("-modules\">").nth(2).unwrap().split("</section>").next().unwrap();
    for part in [
        "<tr><th scope=\"rowgroup\" rowspan=\"3\">MPI-IO</th><th scope=\"row\">all</th><td>3</td><td>–</td><td>–</td></tr>",
        "<tr><th scope=\"row\">read-only</th><td>12</td><td>71\u{a0}MB</td><td>576\u{a0}MB</td></tr>",
        "<tr><th scope=\"row\">no bytes moved</th><td>1011</td><td>0\u{a0}B</td><td>0\u{a0}B</td></tr>",
    ] {
        assert!(section.contains(part), "{part}: {section}");
    }
}

#[test]
fn a_run_has_one_bandwidth_whoever_is_asked() {
    let dir = Dir::new();
    // Two ranks write at the same time for one of three seconds; one reads for another second later.
    dir.write("run.csv", "rank,op,start,end,bytes\n0,write,0,2,100e6\n1,write,1,3,100e6\n0,read,5,6,100e6\n");
    let json = |args: &[&str]| -> serde_json::Value {
        let output = dir.command([]).args(args).args(["--format", "json"]).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let compared = json(&["compare", "run.csv", "run.csv"]);
    let quantities = compared["quantities"].as_array().unwrap();
    let quantity = quantities.iter().find(|it| it["quantity"] == "bandwidth_bps").unwrap();
    let report = json(&["report", "run.csv"]);
    let told = [
        &json(&["detect", "run.csv"])["runs"][0]["source"]["bandwidth_bps"],
        &report["runs"][0]["card"]["bandwidth_bps"],
        &report["runs"][0]["source"]["bandwidth_bps"],
        &quantity["sides"][0]["median"],
    ];
    assert!(told.iter().all(|bps| bps.as_f64() == Some(300e6 / 4.0)), "{told:?}");
}
