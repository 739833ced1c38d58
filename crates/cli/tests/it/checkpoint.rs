use crate::util::Dir;

/// Ten minutes of work, then 64 GB in about a minute; twelve times.
fn run() -> String {
    let mut table = String::from("rank,op,start,end,bytes\n");
    for phase in 0..12 {
        for i in 0..8 {
            let start_s = f64::from(phase) * 660.0 + 600.0 + f64::from(i) * 7.5;
            table += &format!("0,write,{start_s},{},8000000000\n", start_s + 7.5);
        }
    }
    table
}

#[test]
fn a_run_that_writes_too_often_or_too_seldom_is_told_how_often() {
    let dir = Dir::new();
    dir.write("run.csv", run());
    let advise = |mtbf: &str| {
        let args = ["checkpoint", "advise", "run.csv", "--mtbf", mtbf, "--format", "json"];
        dir.iotide(args).exits_with(0).json()["checkpoint"].clone()
    };
    let number = |value: &serde_json::Value| value.as_f64().unwrap();
    let rare = advise("30d");
    assert!((number(&rare["now"]["period_s"]) - 660.0).abs() < 2.0, "{rare:#}");
    assert!((number(&rare["cost_s"]) - 60.0).abs() < 1.0 && rare["now"]["n"] == 12, "{rare:#}");
    // √(2 · 60 s · 30 d) is nearly five hours.
    assert!((number(&rare["period_s"]) / 17_600.0 - 1.0).abs() < 0.03, "{rare:#}");
    assert!(number(&rare["now"]["waste"]) > 0.09 && number(&rare["waste"]) < 0.01, "{rare:#}");
    assert!(number(&rare["good_enough_s"][0]) > 660.0, "ten minutes are too often: {rare:#}");
    let often = advise("30min");
    assert!(number(&often["period_s"]) < 660.0, "{often:#}");
    for advice in [&rare, &often] {
        for way in [advice, &advice["now"]] {
            let (simulated, error) = (number(&way["simulated"]["waste"]), number(&way["simulated"]["error"]));
            assert!((simulated - number(&way["waste"])).abs() < 5.0 * error, "{advice:#}");
        }
    }
    let text = dir.iotide(["checkpoint", "advise", "run.csv", "--mtbf", "30d"]).exits_with(0).stdout;
    assert!(text.starts_with("Write fewer checkpoints: one every"), "{text}");
    let nodes =
        ["checkpoint", "advise", "run.csv", "--node-mtbf", "3000d", "--nodes", "100", "--format", "json"];
    assert_eq!(number(&dir.iotide(nodes).exits_with(0).json()["checkpoint"]["mtbf_s"]), 30.0 * 86_400.0);
}

#[test]
fn a_run_without_checkpoints_needs_their_cost() {
    let dir = Dir::new();
    dir.write("once.csv", "rank,op,start,end,bytes\n0,write,0,1,100000000\n");
    let refused = dir.iotide(["checkpoint", "advise", "once.csv", "--mtbf", "1d"]).exits_with(2).complaint();
    assert!(
        refused.contains("once.csv writes nothing at a period") && refused.contains("--cost"),
        "{refused}"
    );
    let stated = ["checkpoint", "advise", "--cost", "90s", "--mtbf", "1d", "--format", "json"];
    let stated = dir.iotide(stated).exits_with(0).json();
    assert!(stated["checkpoint"]["now"].is_null() && stated["checkpoint"]["restart_s"] == 90.0, "{stated:#}");
    assert!(dir.iotide(["checkpoint", "advise", "once.csv"]).exits_with(2).complaint().contains("--mtbf"));
}
