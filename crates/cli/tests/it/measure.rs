use crate::util::Dir;

/// A job that computes for 8 s and then writes 1 GB, as long as `io_s` says, ten times.
fn job(io_s: impl Fn(u32) -> f64) -> String {
    let mut table = String::from("rank,op,start,end,bytes\n");
    let mut at_s = 0.0;
    for phase in 0..10 {
        let (begin_s, step_s) = (at_s + 8.0, io_s(phase) / 10.0);
        // Requests with short pauses between them: one phase.
        for i in 0..10 {
            let start_s = begin_s + f64::from(i) * step_s;
            table += &format!("0,write,{start_s:.4},{:.4},100000000\n", start_s + 0.999 * step_s);
        }
        at_s = begin_s + io_s(phase);
    }
    format!("# runtime_s={at_s}\n{table}")
}

#[test]
fn a_job_alone_is_not_stretched_and_two_that_share_are() {
    let dir = Dir::new();
    dir.write("alone.csv", job(|_| 2.0));
    let alone = dir.iotide(["measure", "alone.csv", "--format", "json"]).exits_with(0).json();
    let measure = &alone["measure"];
    for figure in ["max_stretch", "geomean_stretch", "io_slowdown"] {
        assert!((measure[figure].as_f64().unwrap() - 1.0).abs() < 1e-3, "{measure:#}");
    }
    assert_eq!(measure["jobs"][0]["n_phases"], 10);
    assert!((measure["bandwidth_bps"].as_f64().unwrap() / 5e8 - 1.0).abs() < 1e-3, "{measure:#}");

    // The second half of the phases is shared: each takes twice as long.
    for name in ["a.csv", "b.csv"] {
        dir.write(name, job(|phase| if phase < 5 { 2.0 } else { 4.0 }));
    }
    let given = ["measure", "a.csv", "b.csv", "--bandwidth", "5e8", "--frame", "0,110", "--format", "json"];
    let shared = dir.iotide(given).exits_with(0).json();
    let measure = &shared["measure"];
    assert_eq!(measure["frame_s"], serde_json::json!([0.0, 110.0]));
    assert!((measure["io_slowdown"].as_f64().unwrap() - 1.5).abs() < 1e-3, "{measure:#}");
    // Alone it would have computed for 80 s and written for 20 s.
    assert!((measure["max_stretch"].as_f64().unwrap() - 110.0 / 100.0).abs() < 1e-3, "{measure:#}");
    let jobs = measure["jobs"].as_array().unwrap();
    assert_eq!((jobs.len(), &jobs[1]["name"]), (2, &"b.csv".into()));

    // No phase is alone: the bandwidth is not known, and neither is what depends on it.
    let unknown = dir.iotide(["measure", "a.csv", "b.csv", "--format", "json"]).exits_with(1).json();
    assert!(unknown["measure"]["max_stretch"].is_null() && unknown["measure"]["bandwidth_bps"].is_null());
    assert!(unknown["losses"][0]["what"].as_str().unwrap().contains("bandwidth of a job alone"));

    let page = dir.iotide(["measure", "a.csv", "b.csv", "--bandwidth", "5e8", "-o", "fared.html"]);
    page.exits_with(0);
    let page = dir.read("fared.html");
    assert!(page.contains("I/O slowdown") && page.contains("data-name=\"together\""), "{page}");
}

#[test]
fn jobs_that_began_at_different_times_are_put_on_one_clock() {
    let dir = Dir::new();
    let at = |unix_s: f64| format!("# start_time={unix_s}\n{}", job(|_| 2.0));
    dir.write("early.csv", at(1.7e9));
    dir.write("late.csv", at(1.7e9 + 6.0));
    let both = dir.iotide(["measure", "early.csv", "late.csv", "--format", "json"]).exits_with(0).json();
    // Their phases are apart: each has the storage for itself.
    assert!((both["measure"]["io_slowdown"].as_f64().unwrap() - 1.0).abs() < 2e-3, "{both:#}");
    let frame = both["measure"]["frame_s"].as_array().unwrap();
    let ends: Vec<f64> = frame.iter().map(|at_s| at_s.as_f64().unwrap()).collect();
    assert!((ends[0] - 6.0).abs() < 1e-6 && (ends[1] - 100.0).abs() < 1e-6, "{ends:?}");
    // A trace without a time of its own cannot stand beside them.
    dir.write("some-time.csv", job(|_| 2.0));
    let refused = dir.iotide(["measure", "early.csv", "some-time.csv"]).exits_with(2).complaint();
    assert!(refused.contains("some-time.csv does not say when it began"), "{refused}");
    let empty = dir.iotide(["measure", "early.csv", "--frame", "30,20"]).exits_with(2).complaint();
    assert!(empty.contains("the earlier one first"), "{empty}");
}
