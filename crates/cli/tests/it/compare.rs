use crate::page_script::played_on;
use crate::util::Dir;

/// Bursts of 4 ranks every `period` seconds, each write lasting `seconds`.
pub fn run(n_ranks: usize, period: f64, seconds: f64, bytes: u64, folder: &str) -> String {
    let mut table = format!("# nprocs={n_ranks}\n# exe=/opt/lmp -in x\nrank,op,start,end,bytes,file\n");
    for (rank, step) in (0..n_ranks).flat_map(|rank| (0..20).map(move |step| (rank, step))) {
        let start = period * step as f64;
        table += &format!("{rank},write,{start},{},{bytes},{folder}/dump.lammpstrj\n", start + seconds);
        table += &format!("{rank},write,{start},{},{},{folder}/log.{rank}\n", start + seconds, bytes / 100);
    }
    table + &format!("0,open,0,0.001,0,{folder}/dump.lammpstrj\n0,read,0,0.5,5000,{folder}/in.melt\n")
}

#[test]
fn the_same_run_twice_differs_in_nothing() {
    let dir = Dir::new();
    dir.write("a.csv", run(4, 12.7, 1.0, 1_000_000, "/scratch"));
    let outcome =
        dir.iotide(["compare", "a.csv", "a.csv", "--worse-than", "0", "--format", "json"]).exits_with(0);
    let json = outcome.json();
    for row in json["quantities"].as_array().unwrap() {
        assert_eq!(row["changes"][0]["difference"], 0.0, "{row}");
        assert_eq!(row["changes"][0]["verdict"], "same", "{row}");
    }
    assert_eq!(json["worse"], serde_json::json!([]));
    for row in json["files"].as_array().unwrap() {
        assert_eq!(row["sides"][0], row["sides"][1]);
    }
    let text = dir.iotide(["compare", "a.csv", "a.csv"]).exits_with(0).stdout;
    assert!(text.starts_with("B against A: no difference\n"), "{text}");
}

#[test]
fn what_differs_is_told_with_its_numbers() {
    let dir = Dir::new();
    dir.write("a.csv", run(4, 12.7, 1.0, 1_000_000, "/scratch/1"));
    dir.write("b.csv", run(4, 25.4, 1.5, 1_000_000, "/scratch/2"));
    insta::assert_snapshot!(dir.iotide(["compare", "a.csv", "b.csv"]).exits_with(0).stdout, @r#"
    B against A: run time +100 % (242.3 s → 484.1 s), bandwidth −33 % (4.04 MB/s → 2.69 MB/s), time in
    I/O per rank +50 % (40.1 s → 60.1 s), and 3 more

      A  a.csv (csv): period 12.7 s, confidence > 99 %: 20 phases of about 4.04 MB written
      B  b.csv (csv): period 25.4 s, confidence > 99 %: 20 phases of about 4.04 MB written

                                                A           B    B against A
      run time                            242.3 s     484.1 s   +100 % worse
      time in I/O per rank                 40.1 s      60.1 s    +50 % worse
      time in I/O of the slowest rank      40.5 s      60.5 s    +49 % worse
      share of the run in I/O                17 %        12 %          −25 %
      bandwidth                         4.04 MB/s   2.69 MB/s    −33 % worse
      bytes read                             5 kB        5 kB              =
      bytes written                       80.8 MB     80.8 MB              =
      read calls                                1           1              =
      write calls                             160         160              =
      metadata calls                            1           1              =
      bytes per read call                    5 kB        5 kB              =
      bytes per write call                 505 kB      505 kB              =
      period of the I/O phases             12.7 s      25.4 s         +100 %
      I/O phases                               20          20              =
      bytes per phase                     4.04 MB     4.04 MB              =
      ranks                                     4           4              =
      files                                     6           6              =

      medium  small_writes: on all sides, gain 9 % → 6 % of the run; up to 9 % of the run: 160 writes of
              505 kB on average take the busiest rank 40 s
      low     blocking_io: on all sides, gain 2 % → 1 % of the run; up to 2 % of the run: 20 write
              phases block for 19.3 s; non-blocking I/O is not used

      file                                                   A                              B
      /scratch/1/dump.lammpstrj    80 MB written, every 12.7 s    80 MB written, every 25.4 s
      /scratch/1/log.0            200 kB written, every 12.7 s   200 kB written, every 25.4 s
      /scratch/1/log.1            200 kB written, every 12.7 s   200 kB written, every 25.4 s
      /scratch/1/log.2            200 kB written, every 12.7 s   200 kB written, every 25.4 s
      /scratch/1/log.3            200 kB written, every 12.7 s   200 kB written, every 25.4 s
      /scratch/1/in.melt                             5 kB read                      5 kB read

    A side with one run shows no noise: times differ from run to run, so that a small change of them may
    be chance.
    "#);
}

#[test]
fn the_order_of_rows_changes_nothing() {
    let dir = Dir::new();
    let table = run(4, 12.7, 1.0, 1_000_003, "/scratch");
    let mut rows: Vec<&str> = table.lines().skip(3).collect();
    rows.reverse();
    let head: Vec<&str> = table.lines().take(3).collect();
    dir.write("a.csv", &table);
    dir.write("b.csv", format!("{}\n{}\n", head.join("\n"), rows.join("\n")));
    let text = dir.iotide(["compare", "a.csv", "b.csv"]).exits_with(0).stdout;
    assert!(text.starts_with("B against A: no difference\n"), "{text}");
}

#[test]
fn the_order_of_the_runs_of_a_side_changes_nothing() {
    let dir = Dir::new();
    for (name, seconds) in [("a1", 1.0), ("a2", 1.02), ("a3", 0.98), ("b1", 1.3), ("b2", 1.33), ("b3", 1.27)]
    {
        dir.write(&format!("{name}.csv"), run(4, 12.7, seconds, 1_000_000, &format!("/scratch/{name}")));
    }
    let answer = |order: [&str; 6]| {
        let [a, b, c, d, e, f] = order;
        let outcome = dir.iotide(["compare", a, b, c, "--with", d, e, f, "--format", "json"]).exits_with(0);
        let mut json = outcome.json();
        json.as_object_mut().unwrap().remove("sides");
        json
    };
    let one = answer(["a1.csv", "a2.csv", "a3.csv", "b1.csv", "b2.csv", "b3.csv"]);
    assert_eq!(one, answer(["a3.csv", "a1.csv", "a2.csv", "b2.csv", "b3.csv", "b1.csv"]));
    // Each run has its files in a folder of its own: they are still the same files.
    assert_eq!(one["files"].as_array().unwrap().len(), 6);
}

#[test]
fn a_check_fails_if_something_got_worse_and_not_for_noise() {
    let dir = Dir::new();
    for (name, seconds) in
        [("a1", 1.0), ("a2", 1.3), ("a3", 0.9), ("b1", 1.2), ("b2", 1.0), ("b3", 1.4), ("c", 3.0)]
    {
        dir.write(&format!("{name}.csv"), run(4, 12.7, seconds, 1_000_000, "/scratch"));
    }
    let noisy = [
        "compare",
        "a1.csv",
        "a2.csv",
        "a3.csv",
        "--with",
        "b1.csv",
        "b2.csv",
        "b3.csv",
        "--worse-than",
        "10",
    ];
    dir.iotide(noisy).exits_with(0);
    let worse = dir.iotide(["compare", "a1.csv", "c.csv", "--worse-than", "10%"]).exits_with(1);
    assert!(
        worse.stderr.contains("worse: time in I/O per rank +199 % (40.1 s → 120.1 s)"),
        "{}",
        worse.stderr
    );
    // Without a limit it is an answer like any other.
    dir.iotide(["compare", "a1.csv", "c.csv"]).exits_with(0);
    dir.iotide(["compare", "c.csv", "a1.csv", "--worse-than", "10"]).exits_with(0);
    // What has no good direction counts if it is named.
    dir.iotide(["compare", "a1.csv", "c.csv", "--worse-than", "10", "--watch", "bytes_written"])
        .exits_with(0);
    dir.write("more.csv", run(4, 12.7, 1.0, 2_000_000, "/scratch"));
    dir.iotide(["compare", "a1.csv", "more.csv", "--worse-than", "10", "--watch", "bytes_written"])
        .exits_with(1);
    dir.iotide(["compare", "more.csv", "a1.csv", "--worse-than", "10", "--watch", "bytes_written"])
        .exits_with(1);
}

#[test]
fn a_run_that_cannot_be_read_is_named_and_nothing_is_compared() {
    let dir = Dir::new();
    dir.write("a.csv", run(1, 5.0, 1.0, 1000, "/s"));
    dir.write("broken.csv", "rank,op,start,end,bytes\n0,write,x,1,5\n0,write,0,1,5\n");
    dir.write("noise.bin", [1_u8, 2, 3, 4, 5, 6, 7, 8]);
    for bad in ["missing.csv", "noise.bin"] {
        let outcome = dir.iotide(["compare", "a.csv", bad]).exits_with(2);
        assert!(outcome.complaint().contains(bad), "{}", outcome.stderr);
    }
    // What is damaged but partly readable is compared, and said to be so.
    let text = dir.iotide(["compare", "a.csv", "broken.csv"]).exits_with(0).stdout;
    assert!(text.contains("B is not whole: 1 loss"), "{text}");
    let outcome = dir.iotide(["compare", "a.csv"]).exits_with(2);
    assert!(outcome.complaint().contains("two sides"), "{}", outcome.stderr);
}

#[test]
fn runs_of_different_formats_and_numbers_of_ranks_are_compared() {
    let dir = Dir::new();
    dir.write("a.csv", run(4, 12.7, 1.0, 1_000_000, "/scratch"));
    dir.write("b.csv", run(8, 12.7, 1.0, 500_000, "/scratch"));
    dir.iotide(["convert", "b.csv", "--to", "native", "-o", "b.iot"]).exits_with(0);
    let json = dir.iotide(["compare", "a.csv", "b.iot", "--format", "json"]).exits_with(0).json();
    let notes = json["notes"].to_string();
    assert!(
        notes.contains("A is csv, B is native") && notes.contains("different numbers of ranks"),
        "{notes}"
    );
    let row = |name: &str| {
        json["quantities"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["quantity"] == name)
            .unwrap_or_else(|| panic!("{name}"))
            .clone()
    };
    assert_eq!(row("ranks")["changes"][0]["ratio"], 2.0);
    assert_eq!(row("write_request_bytes")["changes"][0]["verdict"], "worse");
    let same = row("period_s")["changes"][0]["verdict"].clone();
    assert_eq!(same, "same");
}

#[test]
fn applications_stand_beside_each_other() {
    let dir = Dir::new();
    for (name, program) in [("a", "lmp"), ("b", "lmp"), ("c", "wrf")] {
        dir.write(
            &format!("{name}.csv"),
            run(2, 5.0, 1.0, 1000, "/s").replace("/opt/lmp", &format!("/opt/{program}")),
        );
    }
    let json = dir
        .iotide(["compare", "--by", "application", "a.csv", "b.csv", "c.csv", "--format", "json"])
        .exits_with(0)
        .json();
    let told: Vec<String> = json["sides"]
        .as_array()
        .unwrap()
        .iter()
        .map(|side| format!("{} {}", side["application"], side["runs"].as_array().unwrap().len()))
        .collect();
    assert_eq!(told, ["\"lmp\" 2", "\"wrf\" 1"]);
}

#[test]
fn hostile_names_are_names_in_every_form() {
    let dir = Dir::new();
    let evil = "/s/<script>alert(1)</script>\u{202e}\u{1b}[31m";
    let table =
        |n: u64| format!("rank,op,start,end,bytes,file\n0,write,0,1,{n},{evil}\n0,write,5,6,{n},{evil}\n");
    dir.write("a<b>.csv", table(5));
    dir.write("b.csv", table(7));
    dir.iotide(["compare", "a<b>.csv", "b.csv", "-o", "page.html"]).exits_with(0);
    let page = dir.read("page.html");
    iotide_look::policy::assert_keeps_its_policy(&page);
    assert!(!page.contains("<script>alert") && !page.contains("a<b>") && page.len() < 1_000_000);
    let text = dir.iotide(["compare", "a<b>.csv", "b.csv"]).exits_with(0).stdout;
    let json = dir.iotide(["compare", "a<b>.csv", "b.csv", "--format", "json"]).exits_with(0).stdout;
    for form in [&text, &json, &page] {
        assert!(!form.contains('\u{1b}') && !form.contains('\u{202e}'), "{form}");
    }
}

#[test]
fn the_page_sorts_and_filters_its_files_and_fits_a_phone() {
    let dir = Dir::new();
    dir.write("a.csv", run(4, 12.7, 1.0, 1_000_000, "/scratch/1"));
    dir.write("b.csv", run(4, 25.4, 1.5, 3_000_000, "/scratch/2"));
    dir.iotide(["compare", "a.csv", "b.csv", "-o", "page.html"]).exits_with(0);
    let notes = played_on(
        &dir,
        "page.html",
        r##"
        const table = document.querySelector("#files table"), field = document.querySelector("#files input");
        const shown = () => [...table.tBodies[0].rows].filter((row) => !row.hidden).map((row) => row.cells[0].textContent.replace(/.*\//, "")).join(" ");
        field.value = "LOG 2"; field.dispatchEvent(new Event("input"));
        note(shown());
        field.value = ""; field.dispatchEvent(new Event("input"));
        table.tHead.rows[0].cells[0].querySelector("button").click();
        note(shown());
        document.body.style.width = "360px";
        note([...document.querySelectorAll("main, section, header, .strips, .cards")].every((node) => node.getBoundingClientRect().right <= 361) ? "fits" : "does not fit");
        const data = JSON.parse(document.getElementById("data").textContent);
        const cells = [...document.querySelectorAll("table.quantities tbody tr")];
        note(data.quantities.length === cells.length ? "all quantities" : "some quantities");
        "##,
    );
    let Some(notes) = notes else { return };
    let expected = ["log.2", "dump.lammpstrj in.melt log.0 log.1 log.2 log.3", "fits", "all quantities"];
    assert_eq!(notes, expected);
}

#[test]
fn a_page_of_many_files_with_long_names_stays_below_a_megabyte() {
    let dir = Dir::new();
    let mut table = String::from("rank,op,start,end,bytes,file\n");
    for i in 0..400 {
        table += &format!("0,write,{i},{i}.5,1000,/s/{}/{i}\n", "long".repeat(800));
    }
    dir.write("a.csv", &table);
    dir.write("b.csv", &table);
    dir.iotide(["compare", "a.csv", "b.csv", "-o", "page.html"]).exits_with(0);
    assert!(dir.read("page.html").len() < 1_000_000, "{}", dir.read("page.html").len());
}
