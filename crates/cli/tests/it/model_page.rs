use std::process::Command;

use crate::page_script::played_on;
use crate::util::Dir;

/// Three call paths of two metrics over one parameter.
pub fn tree() -> String {
    let mut lines = String::new();
    for p in [2.0_f64, 4.0, 8.0, 16.0, 32.0, 64.0] {
        let mut line = |callpath: &str, metric: &str, value: f64| {
            lines += &format!(
                "{{\"params\":{{\"p\":{p}}},\"metric\":\"{metric}\",\"callpath\":\"{callpath}\",\"value\":{value}}}\n"
            );
        };
        line("main", "time", 10.0 + 2.0 * p);
        // Measured with some noise.
        line("main->io", "time", (1.0 + 0.5 * p * p.log2()) * (1.0 + 0.03 * (7.0 * p).sin()));
        line("main->io->write", "time", 0.25 * p.sqrt() + 3.0);
        line("main->io->write", "bytes", 4096.0 * p);
    }
    lines
}

/// Two parameters, one of which has a name that is none to Python.
pub fn grid() -> String {
    let mut lines = String::new();
    for p in [2.0_f64, 4.0, 8.0, 16.0, 32.0] {
        for size in [1.0_f64, 10.0, 20.0, 50.0, 100.0] {
            let value = 5.0 + 0.3 * p.log2() * size + 0.01 * p;
            lines += &format!(
                "{{\"params\":{{\"p\":{p},\"size (MB)\":{size}}},\"metric\":\"time\",\"value\":{value}}}\n"
            );
        }
    }
    lines
}

#[test]
fn python_evaluates_the_formulas_to_what_is_predicted() {
    let Some(python) = iotide_testkit::program("python3") else { return };
    let dir = Dir::new();
    dir.write("tree.jsonl", tree());
    dir.write("grid.jsonl", grid());
    // Two regimes: a function in pieces.
    let pieces: String = (1..=12)
        .map(|p| {
            format!(
                "{{\"params\":{{\"p\":{p}}},\"metric\":\"t\",\"value\":{}}}\n",
                if p <= 6 { p * p } else { 100 + p }
            )
        })
        .collect();
    dir.write("pieces.jsonl", pieces);
    let mut n_evaluated = 0;
    for (input, at, more) in [
        ("tree.jsonl", "p=1024", vec![]),
        ("tree.jsonl", "p=1024", vec!["--method", "extrap"]),
        ("grid.jsonl", "p=512,size (MB)=300", vec![]),
        ("pieces.jsonl", "p=4", vec!["--method", "extrap", "--modeler", "segmented"]),
        ("pieces.jsonl", "p=20", vec!["--method", "extrap", "--modeler", "segmented"]),
    ] {
        let mut command = dir.command(["model", input, "--at", at, "--format", "json"]);
        let outcome = crate::util::Outcome::of(command.args(&more).output().unwrap()).exits_with(0);
        for model in outcome.json()["models"].as_array().unwrap() {
            let there = &model["predictions"][0];
            let Some(value) = there["value"].as_f64() else { continue };
            let mut program = String::from("from math import log2\n");
            for (name, x) in there["at"].as_object().unwrap() {
                program += &format!("{} = {x}\n", if name == "p" { "p" } else { "size_MB" });
            }
            program += &format!("print(repr(float({})))\n", model["python"].as_str().unwrap());
            let output = Command::new(&python).args(["-c", &program]).output().unwrap();
            let printed = String::from_utf8_lossy(&output.stdout);
            let evaluated: f64 = printed.trim().parse().unwrap_or_else(|_| panic!("{program}{output:?}"));
            assert!((evaluated - value).abs() <= 1e-9 * value.abs(), "{program}: {evaluated}, not {value}");
            n_evaluated += 1;
        }
    }
    assert!(n_evaluated >= 10, "{n_evaluated}");
}

#[test]
fn the_page_draws_chosen_rows_and_shows_a_tree() {
    let dir = Dir::new();
    dir.write("tree.jsonl", tree());
    dir.iotide(["model", "tree.jsonl", "--at", "p=1024", "-o", "page.html"]).exits_with(0);
    let page = dir.read("page.html");
    iotide_look::policy::assert_keeps_its_policy(&page);
    assert!(page.len() < 1_000_000);
    let notes = played_on(
        &dir,
        "page.html",
        r##"
        const $ = (what) => document.querySelector(what), all = (what) => [...document.querySelectorAll(what)];
        const shown = () => all("#models tbody tr").filter((row) => !row.hidden).map((row) => row.cells[1].textContent).join(", ");
        note(`${all("#chart .curve").length} curve, ${all("#chart .band").length} band, ${all("#chart .point").length} points`);
        note(all("#chart .plot text[text-anchor=middle]:not(.name)").map((tick) => tick.textContent).join(" "));
        all("#models tbody tr")[1].cells[2].click();
        note(`${all("#chart .curve").length} curve, ${all("#chart .band").length} band, ${all("#models input:checked").length} chosen`);
        all("#models button").find((press) => press.textContent === "draw all shown").click();
        note(`${all("#chart .curve").length} curves, ${all(".legend li").length} in the legend`);
        const [logX, logY] = all("#chart .controls input[type=checkbox]");
        logX.click();
        note(all("#chart .plot text[text-anchor=middle]:not(.name)").map((tick) => tick.textContent).join(" "));
        const field = $("#chart .controls input[type=number]"), fields = all("#chart .controls input[type=number]");
        fields[0].value = "0"; fields[0].dispatchEvent(new Event("change"));
        fields[1].value = "100"; fields[1].dispatchEvent(new Event("change"));
        note(all("#chart .plot text[text-anchor=middle]:not(.name)").map((tick) => tick.textContent).join(" "));
        const metric = $("#models select");
        metric.value = "bytes"; metric.dispatchEvent(new Event("change"));
        note(shown());
        metric.value = "time"; metric.dispatchEvent(new Event("change"));
        all("#models .controls input[type=checkbox]")[0].click();
        note(shown());
        all("#models tr.group button")[1].click();
        note(shown());
        const svg = $("#chart svg"), box = svg.getBoundingClientRect();
        svg.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
        note($("#chart .readout").hidden ? "nothing told" : "told");
        note(all(".formulas code").slice(0, 3).map((code) => code.textContent).join(" / "));
        document.body.style.width = "360px";
        note(all("main, section, header").every((node) => node.getBoundingClientRect().right <= 361) ? "fits" : "does not fit");
        "##,
    );
    let Some(notes) = notes else { return };
    let expected = [
        "1 curve, 0 band, 6 points",
        "2 4 8 16 32 64 128 256 512 1024",
        "1 curve, 1 band, 1 chosen",
        "4 curves, 4 in the legend",
        "100 200 300 400 500 600 700 800 900 1000",
        "0 10 20 30 40 50 60 70 80 90 100",
        "main->io->write",
        "main, ▾ main, io, ▾ io, write",
        "main, ▾ main, io, ▸ io",
        "told",
        "10 + 2 · p / 10 + 2 \\cdot p / 10.0 + 2.0 * p**(1)",
        "fits",
    ];
    assert_eq!(notes, expected);
}

#[test]
fn two_parameters_are_a_map_and_cuts_through_it() {
    let dir = Dir::new();
    dir.write("grid.jsonl", grid());
    dir.iotide(["model", "grid.jsonl", "-o", "page.html"]).exits_with(0);
    let notes = played_on(
        &dir,
        "page.html",
        r##"
        const all = (what) => [...document.querySelectorAll(what)];
        note(`${all("#chart figure").length} figures, ${all("#chart .onmap").length} points on the map, ${all("#chart .point:not(.onmap)").length} on the cut`);
        const selects = all("#chart .controls select");
        note(selects.map((select) => select.value).join(" "));
        const value = () => all("table.points tbody td:last-child").map((cell) => cell.textContent).join(" ");
        const before = value();
        selects[1].value = "10"; selects[1].dispatchEvent(new Event("change"));
        note(value() === before ? "the same cut" : "another cut");
        const svg = all("#chart svg")[1], box = svg.getBoundingClientRect();
        svg.dispatchEvent(new PointerEvent("pointermove", { clientX: box.left + box.width / 2, clientY: box.top + box.height / 3 }));
        note(all("#chart .readout")[1].textContent.replace(/[0-9.e]+/g, "#"));
        "##,
    );
    let Some(notes) = notes else { return };
    let expected =
        ["2 figures, 25 points on the map, 5 on the cut", "0 100", "another cut", "p = #, siz# (MB) = #: #"];
    assert_eq!(notes, expected);
}
