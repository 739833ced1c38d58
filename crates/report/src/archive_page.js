// Lists the runs behind a number that was clicked. Nothing is fetched: what can be listed is in the page, heaviest first.
"use strict";
(() => {
  const MOST = 25; // as many as archive/statistics.rs keeps for each cell
  const { labels, runs } = JSON.parse(document.getElementById("data").textContent);
  const section = document.getElementById("runs");

  const digits = (value) => Number(value.toPrecision(3)).toLocaleString("en", { maximumSignificantDigits: 3, useGrouping: false });
  const bytes = (value) => {
    const units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let unit = 0;
    while (value >= 999.5 && unit + 1 < units.length) { value /= 1000; unit += 1; }
    return `${unit ? digits(value) : value.toFixed(0)} ${units[unit]}`;
  };
  const seconds = (s) => s < 600 ? `${digits(s)} s` : s < 36000 ? `${(s / 60).toFixed(0)} min` : `${digits(s / 3600)} h`;
  const date = (s) => s > 0 && s < 1e11 ? new Date(s * 1000).toISOString().slice(0, 10) : "–";

  const element = (name, text, className) => {
    const node = document.createElement(name);
    if (text !== undefined) node.textContent = text;
    if (className) node.className = className;
    return node;
  };
  const row = (cells, name) => {
    const tr = element("tr");
    for (const [text, className] of cells) tr.append(element(name, text, className));
    return tr;
  };

  const list = (link) => {
    const numbers = (text) => (text || "").split(" ").filter(Boolean).map(Number);
    const has = numbers(link.dataset.has), lacks = numbers(link.dataset.lacks), n = Number(link.dataset.n);
    const ofApplications = link.dataset.of !== "all";
    const found = runs.filter((run) => (!ofApplications || run[9] > 0)
      && has.every((label) => run[8].includes(label)) && !lacks.some((label) => run[8].includes(label))).slice(0, MOST);
    const names = (list) => list.map((label) => labels[label]);
    const what = [...names(has), ...(lacks.length ? [`none of ${names(lacks).join(", ")}`] : [])].join(" and ");
    const counted = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
    const title = element("h2", `${what}: ${counted(n, link.dataset.of === "unique" ? "application" : "run")}`);
    const shown = ofApplications ? `the heaviest run of ${counted(found.length, "application")}` : counted(found.length, "run");
    const note = element("p", `Listed: ${shown}, those that move most bytes first. `, "note");
    const condition = [...names(has).map((label) => `list_contains(categories, '${label}')`),
      ...names(lacks).map((label) => `NOT list_contains(categories, '${label}')`)].join(" AND ");
    note.append("All runs: ", element("code", `duckdb -c "SELECT path FROM 'runs.parquet' WHERE ${condition}"`));
    const table = element("table"), head = element("thead"), body = element("tbody");
    head.append(row([["log"], ["application"], ["user"], ["its runs"], ["read"], ["written"], ["time"], ["ranks"], ["began"], ["labels"]], "th"));
    for (const [path, user, application, read, written, time, ranks, start, bears, nRuns] of found)
      body.append(row([[path, "path"], [application || "–"], [user || "–"], [nRuns ? nRuns.toLocaleString("en") : "–"], [bytes(read)],
        [bytes(written)], [seconds(time)], [ranks === null ? "–" : ranks.toLocaleString("en")], [date(start)],
        [names(bears).join(", "), "labels"]], "td"));
    table.append(head, body);
    section.replaceChildren(title, note, table);
  };

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-of]");
    if (!link) return;
    event.preventDefault();
    list(link);
    section.scrollIntoView({ block: "start" });
  });
})();
