use std::process::Command;

use crate::util::Dir;

/// Makes the page of a run with four ranks, whose JSON form is in `report.json`.
fn page(dir: &Dir) {
    let mut events = String::from("rank,op,start,end,bytes,file\n");
    for (rank, step) in (0..4).flat_map(|rank| (0..20).map(move |step| (rank, step))) {
        let bytes = 1_000_000 * (rank + 1);
        events += &format!("{rank},write,{},{},{bytes},/scratch/out.{rank}\n", step * 5, step * 5 + 1);
    }
    dir.write("run.csv", events + "0,read,0,1,100,/scratch/<b>input</b>.nc\n");
    dir.iotide(["report", "run.csv", "-o", "page.html"]).exits_with(0);
    dir.iotide(["report", "run.csv", "--format", "json", "-o", "report.json"]).exits_with(0);
}

/// Opens the page of a run, lets `script` play a reader, and returns what it noted with `note(…)`, a line each.
///
/// `None`, said loudly, where there is no browser to open it with.
fn played(script: &str) -> Option<Vec<String>> {
    let dir = Dir::new();
    page(&dir);
    played_on(&dir, "page.html", script)
}

/// The same on a page that is there already.
pub fn played_on(dir: &Dir, page: &str, script: &str) -> Option<Vec<String>> {
    played_at(dir, page, 1200, script)
}

/// The same in a window that is so many pixels wide. What the page's policy forbids, and what it asks of the network, is noted too.
pub fn played_at(dir: &Dir, page: &str, width: u32, script: &str) -> Option<Vec<String>> {
    let browser = iotide_testkit::program("chromium")?;
    let player = format!(
        "<script nonce=\"player\">\nconst notes = [], note = (text) => notes.push(text);\n\
         addEventListener(\"error\", (event) => note(`error: ${{event.message}}`));\n\
         for (const name of [\"error\", \"warn\"]) console[name] = (text) => note(`console: ${{text}}`);\n\
         addEventListener(\"load\", () => {{\ntry {{\n{script}\n}} catch (error) {{ note(`error: ${{error}}`); }}\n\
         for (const {{ name }} of performance.getEntriesByType(\"resource\")) note(`network: ${{name}}`);\n\
         document.body.textContent = `[notes]${{notes.join(\"|\")}}[end]`;\n}});\n</script>\n</body>"
    );
    // The page runs its own script and no other, so the player is let in by name.
    let page = dir.read(page).replacen("; script-src ", "; script-src 'nonce-player' ", 1);
    let page = page.replace("</body>", &player);
    // No window is narrower than this, but a frame in it can be.
    const NARROWEST: u32 = 500;
    let page = if width >= NARROWEST {
        page
    } else {
        let page = page.replace('&', "&amp;").replace('"', "&quot;");
        format!(
            "<!DOCTYPE html><body><iframe style=\"width:{width}px;height:900px;border:0\" srcdoc=\"{page}\"></iframe>\n\
             <script>const frame = document.querySelector(\"iframe\");\n\
             frame.addEventListener(\"load\", () => {{ document.body.textContent = frame.contentDocument.body.textContent; }});</script></body>"
        )
    };
    dir.write("played.html", page);
    let output = Command::new("timeout")
        .arg("90")
        .arg(&browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", dir.path().join("profile").display()))
        .arg(format!("--window-size={width},900"))
        .arg("--dump-dom")
        .arg(format!("file://{}", dir.path().join("played.html").display()))
        .output()
        .expect("`timeout` of coreutils");
    let dom = String::from_utf8_lossy(&output.stdout);
    let notes = dom.split("[notes]").nth(1).and_then(|rest| rest.split("[end]").next());
    let notes = notes.unwrap_or_else(|| panic!("the browser came to no end: {output:?}"));
    Some(notes.split('|').map(|note| note.replace("&lt;", "<").replace("&gt;", ">")).collect())
}

/// Helpers of scripts that play with the first picture: `ticks` and `range` return the part that is shown.
const FIRST_PICTURE: &str = r#"
    const figure = document.querySelector("figure.chart"), svg = figure.querySelector("svg[role=img]");
    figure.dispatchEvent(new PointerEvent("pointerenter"));
    const box = svg.getBoundingClientRect();
    const at = (share) => ({ clientX: box.left + 56 + share * (box.width - 70), clientY: box.top + 100, bubbles: true, cancelable: true, button: 0, pointerId: 1 });
    const ticks = () => [...svg.querySelectorAll("g.axes text[text-anchor=middle]:not(.name)")].map((tick) => Number(tick.textContent));
    const range = () => Math.max(...ticks()) - Math.min(...ticks());
    const tools = () => [...figure.querySelectorAll(".tools button")];
    const shown = () => tools().find((button) => button.textContent === "show all").hidden ? "all is shown" : "a part is shown";
    const key = (key) => { const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }); svg.dispatchEvent(event); return event; };
    const before = range();
"#;

#[test]
fn the_wheel_zooms_with_ctrl_alone_and_a_double_click_shows_all_again() {
    let notes = played(&format!(
        "{FIRST_PICTURE}{}",
        r#"
        const wheel = (ctrlKey) => { const event = new WheelEvent("wheel", { ...at(0.5), ctrlKey, deltaY: -240 }); svg.dispatchEvent(event); return event; };
        note(wheel(false).defaultPrevented ? "the page does not scroll" : "the page scrolls");
        note(range() === before ? "as before" : "zoomed");
        for (let i = 0; i < 4; i++) wheel(true);
        note(range() < before / 8 ? "zoomed" : `from ${before} to ${range()}`);
        note(shown());
        svg.dispatchEvent(new PointerEvent("pointermove", at(0.5)));
        note(figure.querySelector(".readout").hidden ? "nothing told" : "told");
        svg.dispatchEvent(new MouseEvent("dblclick", at(0.5)));
        note(range() === before ? "as before" : `${before} became ${range()}`);
        note(shown());
        "#
    ));
    let Some(notes) = notes else { return };
    let expected =
        ["the page scrolls", "as before", "zoomed", "a part is shown", "told", "as before", "all is shown"];
    assert_eq!(notes, expected);
}

#[test]
fn a_drag_zooms_and_with_shift_it_moves() {
    let notes = played(&format!(
        "{FIRST_PICTURE}{}",
        r#"
        const drag = (from, to, shiftKey) => {
          svg.dispatchEvent(new PointerEvent("pointerdown", { ...at(from), shiftKey }));
          svg.dispatchEvent(new PointerEvent("pointermove", { ...at(to), shiftKey }));
          svg.dispatchEvent(new PointerEvent("pointerup", { ...at(to), shiftKey }));
        };
        drag(0.25, 0.5, false);
        note(range() < before / 2 ? "zoomed" : `from ${before} to ${range()}`);
        const least = Math.min(...ticks());
        drag(0.2, 0.9, true);
        note(Math.min(...ticks()) < least ? "moved" : "not moved");
        drag(0.5, 0.501, false);
        note(shown());
        tools().find((button) => button.textContent === "show all").click();
        note(shown());
        "#
    ));
    let Some(notes) = notes else { return };
    assert_eq!(notes, ["zoomed", "moved", "a part is shown", "all is shown"]);
}

#[test]
fn a_picture_is_used_by_keys() {
    let notes = played(&format!(
        "{FIRST_PICTURE}{}",
        r#"
        note(svg.getAttribute("tabindex") === "0" && svg.querySelector("title") ? "can be reached" : "cannot be reached");
        key("+"); key("+");
        note(range() < before / 2 ? "zoomed" : `from ${before} to ${range()}`);
        const middle = Math.min(...ticks());
        key("ArrowRight");
        note(Math.min(...ticks()) > middle ? "right" : "still");
        key("ArrowLeft"); key("ArrowLeft");
        note(Math.min(...ticks()) < middle ? "left" : "still");
        key("-");
        note(shown());
        key("Escape");
        note(shown());
        key("+"); key("0");
        note(shown());
        note(key("Tab").defaultPrevented ? "a trap" : "Tab goes on");
        const log = tools().find((button) => button.textContent === "log scale"), label = () => svg.querySelector("g.axes").textContent.includes("logarithmic");
        log.click();
        note(`${label()} ${log.getAttribute("aria-pressed")}`);
        log.click();
        note(`${label()} ${log.getAttribute("aria-pressed")}`);
        "#
    ));
    let Some(notes) = notes else { return };
    let expected = [
        "can be reached",
        "zoomed",
        "right",
        "left",
        "a part is shown",
        "all is shown",
        "all is shown",
        "Tab goes on",
        "true true",
        "false false",
    ];
    assert_eq!(notes, expected);
}

/// Script that wakes all pictures at once.
const WAKE_ALL: &str = r#"
    for (const details of document.querySelectorAll("details")) details.open = true;
    const figures = [...document.querySelectorAll("figure")];
    for (const figure of figures) figure.dispatchEvent(new PointerEvent("pointerenter"));
"#;

#[test]
fn the_numbers_behind_every_picture_are_those_of_the_json_form() {
    let dir = Dir::new();
    page(&dir);
    let script = format!(
        "const run = ({}).runs[0];\n{}",
        dir.read("report.json"),
        r#"
        const cells = (where) => [...document.querySelectorAll(`${where} tbody tr`)].map((row) => [...row.cells].map((cell) => Number(cell.dataset.v)));
        const same = (what, found, expected) => note(`${what}: ${JSON.stringify(found) === JSON.stringify(expected) ? `${expected.length} rows` : `${JSON.stringify(found)} not ${JSON.stringify(expected)}`}`);
        for (const [name, chart] of Object.entries(run.charts)) same(name, cells(`figure[data-name=${name}] .numbers`), chart.rows);
        const sums = (way) => [way.calls, way.bytes, way.busy_s];
        same("timeline", cells("figure.timeline .numbers").map((row) => row.slice(1)), run.timeline.rows.map((row) => [...sums(row.reads), ...sums(row.writes)]));
        const sum = (cells) => cells.reduce((sum, bytes) => sum + bytes, 0);
        same("ranks", cells("figure[data-name=ranks-written] .numbers").map((row) => row[1]), run.activity.heat_map.rows.map((row) => sum(row.bytes_written)));
        const used = run.patterns.request_sizes[0].ranges.filter((range) => range.reads + range.writes > 0);
        same("sizes", cells("section[id=run-0-sizes]").filter((row) => row[1] + row[2] > 0).map((row) => row.slice(1)), used.map((range) => [range.reads, range.writes]));
        same("mounts", cells("section[id=run-0-mounts]").map((row) => row.slice(1)), run.patterns.mounts.map((mount) => [mount.bytes_read, mount.bytes_written, mount.files, mount.files_read, mount.files_written]));
        same("files", cells("section[id=run-0-files]").map((row) => row.slice(1, 6)), run.activity.files.map((file) => [file.bytes_read, file.bytes_written, file.time_s, file.calls, file.opens]));
        note(document.querySelector("h1").textContent);
        "#
    );
    let Some(notes) = played_on(&dir, "page.html", &script) else { return };
    let told = notes.join("\n");
    insta::assert_snapshot!(told, @r"
    autocorrelation: 187 rows
    bandwidth: 196 rows
    beat: 19 rows
    period: 200 rows
    spectrum: 50 rows
    timeline: 4 rows
    ranks: 4 rows
    sizes: 3 rows
    mounts: 1 rows
    files: 5 rows
    run.csv
    ");
}

#[test]
fn all_pictures_are_on_paper() {
    let notes = played(
        r#"
        dispatchEvent(new Event("beforeprint"));
        const drawn = [...document.querySelectorAll("figure")].filter((figure) => figure.querySelectorAll("svg[role=img] path").length);
        note(drawn.length === document.querySelectorAll("figure").length ? "all are drawn" : `drawn: ${drawn.map((figure) => figure.dataset.name)}`);
        note(document.querySelectorAll("figure.timeline svg[role=img] path").length ? "and the timeline" : "no timeline");
        "#,
    );
    let Some(notes) = notes else { return };
    assert_eq!(notes, ["all are drawn", "and the timeline"]);
}

#[test]
fn a_page_fits_a_phone_and_a_wall() {
    let dir = Dir::new();
    page(&dir);
    for width in [360, 768, 2560] {
        let script = format!(
            "{WAKE_ALL}{}",
            r#"
            note(innerWidth);
            const root = document.documentElement;
            note(root.scrollWidth <= innerWidth ? "no sideways scroll" : `${root.scrollWidth} of ${innerWidth} pixels`);
            const heights = [...document.querySelectorAll("figure svg[role=img] text")].map((text) => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a);
            note(Math.min(...heights) >= 12 ? "text can be read" : `text of ${Math.min(...heights)} pixels`);
            const cut = figures.filter((figure) => [...figure.querySelectorAll("svg[role=img] text")].some((text) => {
              const box = text.getBoundingClientRect(), all = text.ownerSVGElement.getBoundingClientRect();
              return box.left < all.left - 1 || box.right > all.right + 1;
            }));
            note(cut.length ? `cut: ${cut.map((figure) => figure.dataset.name)}` : "nothing is cut");
            "#
        );
        let Some(notes) = played_at(&dir, "page.html", width, &script) else { return };
        assert_eq!(
            notes,
            [&width.to_string(), "no sideways scroll", "text can be read", "nothing is cut"],
            "{width} pixels"
        );
    }
}

#[test]
fn the_table_of_files_is_searched_and_sorted() {
    let notes = played(
        r#"
        const field = document.querySelector(".find input"), table = document.querySelector(".files table");
        const shown = () => [...table.tBodies[0].rows].filter((row) => !row.hidden).map((row) => row.cells[0].textContent).join(" ");
        const type = (text) => { field.value = text; field.dispatchEvent(new Event("input")); };
        const sort = (i) => table.tHead.rows[0].cells[i].querySelector("button").click();
        type("SCRATCH out.2");
        note(shown());
        note(document.querySelector(".find span").textContent);
        type("<b>");
        note(shown());
        type("");
        sort(0);
        note(shown());
        sort(2);
        note(shown());
        sort(2);
        note(shown());
        note(`${table.querySelectorAll("b").length} tags`);
        "#,
    );
    let Some(notes) = notes else { return };
    let expected = [
        "out.2",
        "1 of 5",
        "<b>input</b>.nc",
        "<b>input</b>.nc out.0 out.1 out.2 out.3",
        "out.3 out.2 out.1 out.0 <b>input</b>.nc",
        "<b>input</b>.nc out.0 out.1 out.2 out.3",
        "0 tags",
    ];
    assert_eq!(notes, expected);
}

#[test]
fn a_heat_map_tells_what_is_under_the_pointer() {
    let notes = played(
        r#"
        const figure = document.querySelector("figure.heat"), svg = figure.querySelector("svg[role=img]");
        figure.dispatchEvent(new PointerEvent("pointerenter"));
        const field = svg.querySelector("rect.field").getBoundingClientRect();
        const point = (x, y) => {
          svg.dispatchEvent(new PointerEvent("pointermove", { clientX: field.left + x * field.width, clientY: field.top + y * field.height }));
          return figure.querySelector(".readout");
        };
        note(point(0.001, 0.9).textContent.replace(/ at .*: .*\((.*)\)/, ": $1"));
        note(point(0.001, 0.1).textContent.replace(/ at .*: .*\((.*)\)/, ": $1"));
        note(point(0.03, 0.1).textContent.replace(/ at .*:/, ":"));
        note(point(1.5, 0.1).hidden ? "silent" : "told");
        "#,
    );
    let Some(notes) = notes else { return };
    assert_eq!(notes, ["rank 3: 4 MB/s", "rank 0: 1 MB/s", "rank 0: nothing", "silent"]);
}

#[test]
fn a_script_that_came_into_the_page_is_not_run() {
    let dir = Dir::new();
    dir.write("run.csv", crate::util::bursts("write"));
    dir.iotide(["report", "run.csv", "-o", "page.html"]).exits_with(0);
    // As if a name had not been escaped.
    let evil = "<script>window.owned = 1</script><img src=x onerror=\"window.owned = 2\">\
                <a id=evil href=\"javascript:window.owned = 3\">x</a><style>h1 { color: rgb(1, 2, 3) }</style><h1>";
    dir.write("page.html", dir.read("page.html").replacen("<h1>", evil, 1));
    let script = "document.querySelector('#evil').click(); note(`owned: ${window.owned}`);\
                  note(getComputedStyle(document.querySelector('h1')).color === 'rgb(1, 2, 3)' ? 'worn' : 'not worn');\
                  document.querySelector('figure').dispatchEvent(new PointerEvent('pointerenter'));\
                  note(document.querySelector('figure button') ? 'its own runs' : 'its own does not run');";
    let Some(notes) = played_on(&dir, "page.html", script) else { return };
    // The picture that was asked for is noted and not there.
    assert_eq!(notes[..3], ["owned: undefined", "not worn", "its own runs"]);
}

#[test]
fn times_since_1970_stay_apart_in_tables_and_pictures() {
    let dir = Dir::new();
    let mut events = String::from("rank,op,start,end,bytes\n");
    for step in 0..20 {
        let start = 1_744_611_915 + step * 5;
        events += &format!("0,write,{start},{},1000000\n", start + 1);
    }
    dir.write("run.csv", events);
    dir.iotide(["report", "run.csv", "-o", "page.html"]).exits_with(0);
    let answer = dir.iotide(["report", "run.csv", "--format", "json", "-o", "-"]).exits_with(0).json();
    for name in ["bandwidth", "beat"] {
        let rows = answer["runs"][0]["charts"][name]["rows"].as_array().unwrap();
        let times: Vec<f64> = rows.iter().map(|row| row[0].as_f64().unwrap()).collect();
        assert!(times.len() > 10 && times.is_sorted_by(|a, b| a < b), "{name}: {times:?}");
    }
    let script = r#"
        const figure = document.querySelector("figure[data-name=beat]");
        figure.dispatchEvent(new PointerEvent("pointerenter"));
        const places = [...figure.querySelector("path.points").getAttribute("d").matchAll(/M([0-9.]+) /g)].map((place) => place[1]);
        note(`${new Set(places).size} dots`);
    "#;
    let Some(notes) = played_on(&dir, "page.html", script) else { return };
    assert_eq!(notes, ["19 dots"]);
}
