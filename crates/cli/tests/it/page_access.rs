use crate::browser::{Axe, Browser};
use crate::util::Dir;
use crate::{archive_page, model_page, signature, simulate, system, why};

/// A run in which much can be found: four ranks, of which one does most, small writes and an input that is read.
fn run(header: &str) -> String {
    let mut events = format!("{header}rank,op,start,end,bytes,file\n");
    for (rank, step) in (0..4).flat_map(|rank| (0..12).map(move |step| (rank, step))) {
        let (start, bytes) = (step * 5, if rank == 0 { 1_000_000 } else { 2000 });
        events += &format!("{rank},write,{start},{},{bytes},/scratch/out.{rank}\n", start + 1);
    }
    events + "0,read,0,1,100,/scratch/input.nc\n"
}

/// Makes a page of each kind, and returns where they are.
fn pages(dir: &Dir) -> Vec<String> {
    dir.write("a.csv", run("# nprocs=4\n# user=ann\n# exe=/opt/lmp -in big.in\n# start_time=1700000000\n"));
    dir.write("b.csv", run("").replace(",2000,", ",3000000,"));
    for run in ["a", "b"] {
        let [trace, figures] = ["csv", "json"].map(|end| format!("{run}.{end}"));
        dir.iotide(["compare", &trace, "--save-baseline", &figures]).exits_with(0);
    }
    dir.write("tree.jsonl", model_page::tree());
    dir.write("grid.jsonl", model_page::grid());
    dir.write("jobs.json", simulate::JOBS);
    dir.write("system.json", system::SYSTEM);
    dir.write("log.csv", signature::log(&signature::log_values()));
    dir.write("jobs.txt", signature::sacct());
    signature::samples(dir);
    archive_page::archive(dir);
    why::disturbed(dir);
    let mut commands: Vec<(&str, Vec<&str>)> = vec![
        ("report", vec!["report", "a.csv"]),
        ("report-runs", vec!["report", "a.csv", "b.csv", "--method", "dft"]),
        ("compare", vec!["compare", "a.csv", "b.csv"]),
        ("compare-history", vec!["compare", "--history", "a.json", "b.json"]),
        ("why", vec!["why", "run.csv", "--history", "earlier", "--storage", "servers.csv"]),
        ("model", vec!["model", "tree.jsonl"]),
        ("model-map", vec!["model", "grid.jsonl"]),
        ("signature", vec!["signature", "s0.csv", "s1.csv", "s2.csv", "s3.csv", "s4.csv", "s5.csv"]),
        ("signature-log", vec!["signature", "log.csv", "--jobs", "jobs.txt"]),
        ("simulate-io", vec!["simulate", "io", "jobs.json", "--repetitions", "2"]),
        ("simulate-jobs", vec!["simulate", "jobs", "mix", "--malleable", "20", "--seeds", "2"]),
        ("simulate-staging", vec!["simulate", "staging", "example"]),
        (
            "simulate-system",
            vec!["simulate", "system", "system.json", "--repetitions", "5", "--add", "checkpoint=2@200"],
        ),
        ("simulate-system-carry", vec!["simulate", "system", "system.json", "--repetitions", "5", "--carry"]),
    ];
    let darshan = iotide_testkit::shared_data("traces/darshan/generated/ior-hdf5-3.5.0.darshan");
    let darshan = darshan.map(|path| path.display().to_string());
    if let Some(log) = &darshan {
        commands.push(("report-darshan", vec!["report", log]));
    }
    let mut pages = Vec::new();
    for (name, args) in &commands {
        let page = format!("{name}.html");
        let output = dir.command([]).args(args).args(["-o", &page]).output().unwrap();
        assert!(output.status.success(), "{name}: {output:?}");
        pages.push(page);
    }
    dir.iotide(["categorize", "logs", "--issues", "--out", "results", "--sample", "4"]).exits_with(0);
    pages.extend(["results/index.html", "results/sample.html"].map(str::to_owned));
    pages
}

#[test]
fn every_kind_of_page_is_for_everybody() {
    let Some(axe) = Axe::found() else { return };
    let dir = Dir::new();
    let Some(mut browser) = Browser::start(dir.path()) else { return };
    let mut faulty = Vec::new();
    for page in pages(&dir) {
        browser.go(&format!("file://{}", dir.path().join(&page).display()));
        let faults = axe.faults(&mut browser);
        if !faults.is_empty() {
            faulty.push((page, faults));
        }
    }
    assert!(faulty.is_empty(), "{faulty:#?}");
    assert!(browser.faults.is_empty(), "{:#?}", browser.faults);
}

/// Cells of an archive's table are as dark as their share is large, and each has a number in it.
#[test]
fn a_share_can_be_read_however_large_it_is() {
    let Some(axe) = Axe::found() else { return };
    let dir = Dir::new();
    let Some(mut browser) = Browser::start(dir.path()) else { return };
    archive_page::archive(&dir);
    dir.iotide(["categorize", "logs", "--out", "results"]).exits_with(0);
    let cells: String = (0..=50)
        .map(|half| 2 * half)
        .map(|share| {
            let class = if share > 50 { " class=\"deep\"" } else { "" };
            format!("<td style=\"--v:{share}%\"{class}><a href=\"#runs\">{share}</a></td>")
        })
        .collect();
    let page = dir.read("results/index.html");
    let table = "<table class=\"heat\">\n<tbody>\n";
    assert!(page.contains(table) && page.contains(" class=\"deep\"><a href=\"#runs\""), "{page}");
    dir.write("shares.html", page.replacen(table, &format!("{table}<tr>{cells}</tr>\n"), 1));
    browser.go(&format!("file://{}", dir.path().join("shares.html").display()));
    let faults = axe.faults(&mut browser);
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn what_keeps_people_out_is_found() {
    let Some(axe) = Axe::found() else { return };
    let dir = Dir::new();
    let Some(mut browser) = Browser::start(dir.path()) else { return };
    dir.iotide(["simulate", "staging", "example", "-o", "page.html"]).exits_with(0);
    // As if a field had lost its label, words their colour, and a part that is not shown at first its name.
    let (words, nameless) =
        ("<p style=\"color:#aaa;background:#bbb\">hardly seen</p>", "<input type=\"text\">");
    let folded = "<details><summary>more</summary><img src=\"data:,\"></details>";
    // The page's policy forbids such a style; a page without one has none to forbid it.
    let page = dir.read("page.html").replacen("http-equiv", "data-was", 1);
    dir.write("page.html", page.replacen("</header>", &format!("{words}{nameless}{folded}</header>"), 1));
    browser.go(&format!("file://{}", dir.path().join("page.html").display()));
    let found = axe.faults(&mut browser).join("\n");
    for rule in ["color-contrast", "\"label\"", "image-alt"] {
        assert!(found.contains(rule), "{rule}: {found}");
    }
}
