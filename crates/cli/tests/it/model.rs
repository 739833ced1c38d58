use crate::util::Dir;

/// 4096 MiB written and 3584 MiB read by each process: 15 bursts of 512 MiB, every other one a read.
fn ioskel_profile() -> String {
    let sizes = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];
    let line = |size: f64, call: &str, bytes: f64| {
        format!(
            "{{\"params\":{{\"size\":{size}}},\"metric\":\"bytes\",\"callpath\":\"strace->{call}\",\"value\":{}}}\n",
            size * bytes
        )
    };
    sizes
        .iter()
        .map(|size| line(*size, "write", 4_294_967_296.0) + &line(*size, "read", 3_758_096_384.0))
        .collect()
}

#[test]
fn bytes_of_a_skeleton_grow_with_its_processes_by_what_each_moves() {
    let dir = Dir::new();
    dir.write("ioskel.jsonl", ioskel_profile());
    for method in ["auto", "extrap"] {
        let outcome = dir.iotide([
            "model",
            "ioskel.jsonl",
            "--method",
            method,
            "--at",
            "size=1024",
            "--format",
            "json",
        ]);
        assert_eq!(outcome.status, 0, "{}", outcome.stderr);
        let json: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
        for (model, bytes) in
            json["models"].as_array().unwrap().iter().zip([4_294_967_296.0, 3_758_096_384.0])
        {
            let term = &model["terms"][0];
            assert_eq!(
                (&term["factors"][0]["exponent"], &term["factors"][0]["log_exponent"]),
                (&"1".into(), &"0".into())
            );
            assert!((term["coefficient"].as_f64().unwrap() / bytes - 1.0).abs() < 1e-6, "{model}");
            let there = model["predictions"][0]["value"].as_f64().unwrap();
            assert!((there / (1024.0 * bytes) - 1.0).abs() < 1e-6);
        }
    }
}

#[test]
fn what_will_hurt_comes_first() {
    let dir = Dir::new();
    dir.write("m.csv", "p,flat,steep,gentle\n2,5,4,2\n4,5,16,4\n8,5,64,8\n16,5,256,16\n32,5,1024,32\n");
    let outcome = dir.iotide(["model", "m.csv", "--at", "p=1024", "--rank-by", "growth", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    let order: Vec<&str> =
        json["models"].as_array().unwrap().iter().map(|model| model["metric"].as_str().unwrap()).collect();
    assert_eq!(order, ["steep", "gentle", "flat"]);
    let only = dir.iotide(["model", "m.csv", "--metric", "flat"]);
    assert!(only.stdout.starts_with("<root> · flat\n  5.0\n"), "{}", only.stdout);
}

#[test]
fn one_bad_value_costs_one_value_and_says_so() {
    let dir = Dir::new();
    let line =
        |p: u32, value: &str| format!("{{\"params\":{{\"p\":{p}}},\"metric\":\"t\",\"value\":{value}}}\n");
    let lines: String = [
        line(2, "4"),
        line(4, "8"),
        line(8, "NaN"),
        line(16, "32"),
        line(32, "64"),
        line(64, "128"),
        "{broken\n".into(),
    ]
    .concat();
    let outcome = dir.iotide_reading(&lines, ["model", "-"]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    assert!(
        outcome.stdout.contains("p^(1)") && outcome.stdout.contains("1 values are not numbers"),
        "{}",
        outcome.stdout
    );
    assert!(outcome.stdout.contains("left out: line 7: "), "{}", outcome.stdout);
}

#[test]
fn a_page_and_pictures_stand_alone() {
    let dir = Dir::new();
    dir.write("m.csv", "p,t\n2,4\n4,8\n8,16\n16,32\n32,64\n");
    let outcome = dir.iotide(["model", "m.csv", "-o", "m.html", "--svg", "pictures", "--at", "p=64"]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    let page = dir.read("m.html");
    assert!(
        page.starts_with("<!DOCTYPE html>") && page.contains("<svg") && !page.contains("http://localhost")
    );
    assert!(dir.read("pictures/000-root-t.svg").starts_with("<svg"));
}

#[test]
fn a_question_that_makes_no_sense_is_refused_with_a_reason() {
    let dir = Dir::new();
    dir.write("m.csv", "p,t\n2,4\n4,8\n");
    let at = dir.iotide(["model", "m.csv", "--at", "q=64"]);
    assert_eq!(at.status, 2);
    assert!(at.stderr.contains("there is no parameter \"q\", only p"), "{}", at.stderr);
    dir.write("no.txt", "hello");
    let no = dir.iotide(["model", "no.txt"]);
    assert_eq!(no.status, 2);
    assert!(no.stderr.contains("cannot read no.txt: this is no known form of measurements"), "{}", no.stderr);
}
