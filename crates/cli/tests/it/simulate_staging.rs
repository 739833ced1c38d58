use crate::util::{Dir, Outcome};

/// Asks with the words of a line.
fn asked(dir: &Dir, line: &str) -> Outcome {
    let mut command = dir.command(["simulate", "staging"]);
    Outcome::of(command.args(line.split(' ')).output().unwrap())
}

#[test]
fn the_example_has_the_figures_that_one_can_check_by_hand() {
    insta::assert_snapshot!(asked(&Dir::new(), "example").exits_with(0).stdout, @r#"
    10 phases of 20 GB into a buffer without limit at 2 GB/s, from there to a file system at 500 MB/s;
    one run

      policy     run time     inflation  safe after end  peak     lost at crash  at worst  interference  stalled
      immediate  17 min 13 s  ×1.033     26.7 s          13.3 GB  2.52 GB        13.3 GB   133.3 s       0 s
      end        16 min 40 s  ×1.000     400 s           200 GB   93.6 GB        200 GB    0 s           0 s
      gap        16 min 40 s  ×1.000     40 s            20 GB    4.81 GB        20 GB     0 s           0 s
      deadline   16 min 40 s  ×1.000     40 s            20 GB    8.17 GB        20 GB     0 s           0 s

    buffer that never exceeds 85 % of itself
      policy     shared buffer  on each node  flushes  highest rate
      immediate  15.7 GB        15.7 GB       10       500 MB/s
      end        235 GB         235 GB        1        500 MB/s
      gap        23.5 GB        23.5 GB       10       500 MB/s
      deadline   23.5 GB        23.5 GB       10       500 MB/s

    gap costs the job no time and a crash 4.81 GB on average
    "#);
}

#[test]
fn scripts_get_every_figure_in_plain_units() {
    let told = asked(&Dir::new(), "example --policies immediate --format json").exits_with(0);
    insta::assert_snapshot!(told.stdout, @r#"
    {
      "schema": "iotide/1",
      "command": "simulate staging",
      "workload": {
        "source": "example",
        "phases": 10,
        "bytes": 200000000000.0,
        "buffer_bps": 2000000000.0,
        "pfs_bps": 500000000.0,
        "capacity_bytes": null,
        "high_water": 0.85,
        "purge": true,
        "nodes": 1,
        "jitter": 0.0
      },
      "seeds": 1,
      "seed": 0,
      "error": 0.0,
      "policies": [
        {
          "policy": "immediate",
          "run_time_s": 1033.3333333333335,
          "inflation": 1.0333333333333334,
          "safe_after_end_s": 26.666666666666742,
          "peak_buffer": 13333333333.333344,
          "interference_s": 133.33333333333331,
          "stalled_s": 0.0,
          "lost_at_crash": {
            "mean_bytes": 2515723270.4402514,
            "max_bytes": 13333333333.333344
          },
          "flushes": 10.0,
          "moving_s": 400.0,
          "peak_rate_bps": 500000000.0,
          "capacity_needed_bytes": 15686274509.803934,
          "capacity_needed_per_node_bytes": 15686274509.803934,
          "states_s": {
            "flush": 26.666666666666686,
            "idle": 660.0,
            "drain": 0.0,
            "hold": 0.0,
            "run": 373.3333333333333
          }
        }
      ]
    }
    "#);
}

#[test]
fn a_model_says_which_buffer_is_needed_at_another_scale() {
    let dir = Dir::new();
    let rows = [64u64, 128, 256, 512, 1024]
        .map(|p| format!("{{\"params\":{{\"p\":{p}}},\"metric\":\"Bytes\",\"value\":{}}}\n", 31_250_000 * p));
    dir.write("runs.jsonl", rows.concat());
    let says =
        |more: &str| asked(&dir, &format!("example --model runs.jsonl --nodes 128 --policies gap {more}"));
    insta::assert_snapshot!(says("--at p=2048").exits_with(0).stdout, @r#"
    10 phases of 64 GB into a buffer without limit at 2 GB/s, from there to a file system at 500 MB/s;
    one run
    at p=2048 by the models of runs.jsonl: phase_bytes 64 GB (64 GB to 64 GB)

      policy  run time     inflation  safe after end  peak    lost at crash  at worst  interference  stalled
      gap     20 min 20 s  ×1.000     470.3 s         235 GB  111 GB         235 GB    100 ms        0 s

    buffer that never exceeds 85 % of itself
      policy  shared buffer  on each node  flushes  highest rate
      gap     277 GB         2.16 GB       10       500 MB/s

    gap costs the job no time and a crash 111 GB on average
    "#);
    insta::assert_snapshot!(says("--at q=2048").exits_with(2).stderr, @r#"iotide: --at q=2048: there is no parameter "q", only p"#);
    insta::assert_snapshot!(says("--at p=2048 --metric phases=Steps").exits_with(2).stderr, @r#"iotide: --metric phases=Steps: there is no model of that"#);
}

#[test]
fn chances_have_intervals_and_depend_on_the_seed_alone() {
    let dir = Dir::new();
    let line = "example --policies gap,end --capacity 50G --error 0.3 --jitter 0.1 --seeds 4 --format json";
    let told = asked(&dir, line).exits_with(0);
    assert_eq!(told.stdout, asked(&dir, line).exits_with(0).stdout);
    let answer: serde_json::Value = serde_json::from_str(&told.stdout).unwrap();
    for policy in answer["policies"].as_array().unwrap() {
        let run_time = &policy["run_time_s"];
        let [low, high] = [0, 1].map(|i| run_time["interval"][i].as_f64().unwrap());
        let mean = run_time["mean"].as_f64().unwrap();
        assert!(low < mean && mean < high, "{run_time}");
        assert!(policy["peak_buffer"]["mean"].as_f64().unwrap() <= 50.0 * 1024f64.powi(3) + 1.0);
    }
}

#[test]
fn the_page_shows_the_buffer_and_what_is_done_under_each_policy() {
    let dir = Dir::new();
    asked(&dir, "example -o page.html").exits_with(0);
    let page = dir.read("page.html");
    for name in ["buffer", "immediate", "end", "gap", "deadline"] {
        assert!(page.contains(&format!("data-name=\"{name}\"")), "{name}");
    }
    assert!(page.contains("Gap costs the job no time and a crash 4.81\u{a0}GB on average"));
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let dir = Dir::new();
    dir.write(
        "job.json",
        r#"{"compute_s": 9, "phase_bytes": 1e9, "phases": 3, "buffer_bps": 1e9, "pfs_bps": 2e9}"#,
    );
    let says = |line: &str| asked(&dir, line).exits_with(2).stderr;
    insta::assert_snapshot!(says("job.json"), @r#"
    iotide: job.json: pfs_bps is 2000000000, but must be below buffer_bps (1000000000)
    hint: docs/staging-simulation.md says how a workload is written
    "#);
    insta::assert_snapshot!(says("none.json"), @r#"
    iotide: cannot read none.json: No such file or directory (os error 2)
    hint: a workload is a JSON file as docs/staging-simulation.md describes it, or `example`
    "#);
    insta::assert_snapshot!(says("example --policies gap,later"), @r#"iotide: --policies: "later" is not known; there are immediate, end, space, gap, deadline"#);
    insta::assert_snapshot!(says("example --error=-1"), @r#"iotide: --error -1 is not 0 or more"#);
    insta::assert_snapshot!(says("example --capacity 0"), @r#"
    iotide: invalid value '0' for '--capacity <SIZE>': a size is between 1 byte and 1e18 bytes

    For more information, try '--help'.
    "#);
}
