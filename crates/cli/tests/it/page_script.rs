use std::process::Command;

use crate::util::Dir;

/// Opens the page of a run, lets `script` play a reader, and returns what it noted with `note(…)`, a line each.
///
/// `None`, said loudly, where there is no browser to open it with.
fn played(script: &str) -> Option<Vec<String>> {
    let dir = Dir::new();
    let mut events = String::from("rank,op,start,end,bytes,file\n");
    for (rank, step) in (0..4).flat_map(|rank| (0..20).map(move |step| (rank, step))) {
        let bytes = 1_000_000 * (rank + 1);
        events += &format!("{rank},write,{},{},{bytes},/scratch/out.{rank}\n", step * 5, step * 5 + 1);
    }
    dir.write("run.csv", events + "0,read,0,1,100,/scratch/<b>input</b>.nc\n");
    dir.iotide(["report", "run.csv", "-o", "page.html"]).exits_with(0);
    played_on(&dir, "page.html", script)
}

/// The same on a page that is there already.
pub fn played_on(dir: &Dir, page: &str, script: &str) -> Option<Vec<String>> {
    let browser = iotide_testkit::program("chromium")?;
    let player = format!(
        "<script nonce=\"player\">\nconst notes = [], note = (text) => notes.push(text);\n\
         addEventListener(\"error\", (event) => note(`error: ${{event.message}}`));\n\
         addEventListener(\"load\", () => {{\ntry {{\n{script}\n}} catch (error) {{ note(`error: ${{error}}`); }}\n\
         document.body.textContent = `[notes]${{notes.join(\"|\")}}[end]`;\n}});\n</script>\n</body>"
    );
    // The page runs its own script and no other, so the player is let in by name.
    let page = dir.read(page).replacen("; script-src ", "; script-src 'nonce-player' ", 1);
    dir.write("played.html", page.replace("</body>", &player));
    let output = Command::new("timeout")
        .arg("90")
        .arg(&browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", dir.path().join("profile").display()))
        .args(["--window-size=1200,900", "--dump-dom"])
        .arg(format!("file://{}", dir.path().join("played.html").display()))
        .output()
        .expect("`timeout` of coreutils");
    let dom = String::from_utf8_lossy(&output.stdout);
    let notes = dom.split("[notes]").nth(1).and_then(|rest| rest.split("[end]").next());
    let notes = notes.unwrap_or_else(|| panic!("the browser came to no end: {output:?}"));
    Some(notes.split('|').map(|note| note.replace("&lt;", "<").replace("&gt;", ">")).collect())
}

#[test]
fn a_wheel_zooms_into_a_picture_and_a_double_click_shows_all_again() {
    let notes = played(
        r#"
        const figure = document.querySelector("figure"), svg = figure.querySelector("svg");
        figure.dispatchEvent(new PointerEvent("pointerenter"));
        const box = svg.getBoundingClientRect();
        const where = { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2, bubbles: true, cancelable: true };
        const ticks = () => [...svg.querySelectorAll("g.axes text[text-anchor=middle]:not(.name)")].map((tick) => Number(tick.textContent));
        const range = () => Math.max(...ticks()) - Math.min(...ticks());
        const button = () => figure.querySelector("button").hidden ? "all is shown" : "a part is shown";
        const before = range();
        for (let i = 0; i < 4; i++) svg.dispatchEvent(new WheelEvent("wheel", { ...where, deltaY: -240 }));
        note(range() < before / 8 ? "zoomed" : `from ${before} to ${range()}`);
        note(button());
        svg.dispatchEvent(new PointerEvent("pointermove", where));
        note(figure.querySelector(".readout").hidden ? "nothing told" : "told");
        svg.dispatchEvent(new MouseEvent("dblclick", where));
        note(range() === before ? "as before" : `${before} became ${range()}`);
        note(button());
        "#,
    );
    let Some(notes) = notes else { return };
    assert_eq!(notes, ["zoomed", "a part is shown", "told", "as before", "all is shown"]);
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
        "/scratch/out.2",
        "1 of 5",
        "/scratch/<b>input</b>.nc",
        "/scratch/<b>input</b>.nc /scratch/out.0 /scratch/out.1 /scratch/out.2 /scratch/out.3",
        "/scratch/out.3 /scratch/out.2 /scratch/out.1 /scratch/out.0 /scratch/<b>input</b>.nc",
        "/scratch/<b>input</b>.nc /scratch/out.0 /scratch/out.1 /scratch/out.2 /scratch/out.3",
        "0 tags",
    ];
    assert_eq!(notes, expected);
}

#[test]
fn a_heat_map_tells_what_is_under_the_pointer() {
    let notes = played(
        r#"
        const figure = document.querySelector("figure.heat"), svg = figure.querySelector("svg");
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
    assert_eq!(notes, ["owned: undefined", "not worn", "its own runs"]);
}
