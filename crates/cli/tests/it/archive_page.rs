use crate::page_script::played_on;
use crate::util::Dir;

/// Six runs of three applications and two users.
pub fn archive(dir: &Dir) {
    std::fs::create_dir(dir.path().join("logs")).unwrap();
    for (i, (user, program)) in
        [("ann", "lmp"), ("ann", "lmp"), ("ann", "wrf"), ("bob", "lmp"), ("bob", "lmp"), ("bob", "x'y")]
            .iter()
            .enumerate()
    {
        let head = format!(
            "# nprocs=4\n# user={user}\n# exe=/opt/{program}\n# start_time={}\n# runtime_s=400\nrank,op,start,end,bytes\n",
            1_700_000_000 + 86_400 * i
        );
        let mut table = head;
        for phase in 0..20 {
            table += &format!("0,write,{},{},{}\n", phase * 20, phase * 20 + 2, 100_000_000 * (i + 1));
        }
        dir.write(&format!("logs/run'{i}.csv"), table);
    }
}

#[test]
fn the_page_filters_its_runs_and_says_how_a_report_is_made() {
    let dir = Dir::new();
    archive(&dir);
    dir.iotide(["categorize", "logs", "--out", "results"]).exits_with(0);
    let page = dir.read("results/index.html");
    iotide_look::policy::assert_keeps_its_policy(&page);
    dir.write("page.html", page);
    let notes = played_on(
        &dir,
        "page.html",
        r##"
        const all = (what) => [...document.querySelectorAll(what)], $ = (what) => document.querySelector(what);
        note(`${all("#timeline .timeline").length} axes, ${all("#timeline .timeline")[0].querySelectorAll("rect").length} bars`);
        note(all("#users tbody tr").map((row) => row.cells[0].textContent).join(" "));
        all("#users thead button")[1].click();
        note(all("#users tbody tr").map((row) => `${row.cells[0].textContent} ${row.cells[1].textContent}`).join(" "));
        const set = (node, value) => { node.value = value; node.dispatchEvent(new Event("input")); };
        const [user, application, from, to] = all("#runs .filters input");
        const logs = () => all("#runs tbody tr:not(.how)").map((row) => row.cells[0].textContent.replace(/.*run'/, "")).join(" ");
        set(user, "ANN");
        note(logs());
        set(application, "wrf");
        note(logs());
        set(application, ""); set(user, ""); set(from, "2023-11-18");
        note(logs());
        $("#runs tbody button").click();
        note($("#runs tr.how code").textContent);
        note($("#runs tr.how a").getAttribute("href"));
        note($("#conditional td a").title);
        document.body.style.width = "360px";
        note(all("main, section, header").every((node) => node.getBoundingClientRect().right <= 361) ? "fits" : "does not fit");
        "##,
    );
    let Some(notes) = notes else { return };
    assert_eq!(notes[..2], ["3 axes, 6 bars", "bob ann"]);
    assert_eq!(notes[2], "bob 3 ann 3");
    assert_eq!(notes[3..6], ["2.csv 1.csv 0.csv", "2.csv", "5.csv 4.csv"]);
    assert!(notes[6].ends_with(r"run'\''5.csv' -o 'reports/run'\''5.csv.html'"), "{}", notes[6]);
    assert_eq!(notes[7], "reports/run'5.csv.html");
    assert!(notes[8].starts_with("100 % of the runs with "), "{}", notes[8]);
    assert_eq!(notes[9], "fits");
}

#[test]
fn a_person_reviews_a_sample_and_reads_the_accuracy() {
    let dir = Dir::new();
    archive(&dir);
    dir.iotide(["categorize", "logs", "--out", "results", "--sample", "5", "--seed", "7"]).exits_with(0);
    let page = dir.read("results/sample.html");
    dir.iotide(["categorize", "logs", "--out", "results", "--sample", "5", "--seed", "7"]).exits_with(0);
    assert_eq!(dir.read("results/sample.html"), page, "the same seed, the same runs");
    iotide_look::policy::assert_keeps_its_policy(&page);
    assert!(
        dir.iotide(["categorize", "logs", "--sample", "5"]).status == 2,
        "a sample is one of kept results"
    );
    dir.write("page.html", page);
    let notes = played_on(
        &dir,
        "page.html",
        r##"
        const all = (what) => [...document.querySelectorAll(what)], $ = (what) => document.querySelector(what);
        const press = (text) => all("#run button").find((button) => button.textContent === text).click();
        note($("#run h2").textContent);
        for (let i = 0; i < 4; i++) press("The labels are right");
        note($(".result").textContent);
        const box = all("#run .chips input").pop(), label = box.parentElement.textContent.trim();
        box.click();
        note($(".result").textContent);
        note($(".state").textContent);
        note($(".labels-reviewed tbody").textContent === `${label}510` ? "told by label" : $(".labels-reviewed tbody").textContent);
        "##,
    );
    let Some(notes) = notes else { return };
    let expected = [
        "Run 1 of 5",
        // (4 + z²/2) / (4 + z²) − z/(4 + z²) · √(z²/4) with z = 1.96
        "100.0 % of the runs have exactly the right labels: 4 of 4 reviewed (1 left). 95 % interval: 51.0 % to 100.0 % (Wilson).",
        "80.0 % of the runs have exactly the right labels: 4 of 5 reviewed (0 left). 95 % interval: 37.6 % to 96.4 % (Wilson).",
        " – corrected",
        "told by label",
    ];
    assert_eq!(notes, expected);
}
