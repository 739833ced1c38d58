// Lists the runs behind a number that was clicked. Nothing is fetched: what can be listed is in the page, heaviest first.
"use strict";
(() => {
  const MOST = 25; // as many as archive/statistics.rs keeps for each cell
  const { labels, runs } = JSON.parse(document.getElementById("data").textContent);
  const section = document.getElementById("runs");

  const digits = (value) => Number(value.toPrecision(3)).toLocaleString("en", { maximumSignificantDigits: 3, useGrouping: false });
  const bytes = (value) => {
    const isBinary = document.documentElement.dataset.units === "iec", step = isBinary ? 1024 : 1000;
    const units = isBinary ? ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"] : ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let unit = 0;
    while (value >= step - 0.5 && unit + 1 < units.length) { value /= step; unit += 1; }
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

  const box = section.querySelector(".list"), names = (list) => list.map((label) => labels[label]);
  const counted = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
  // For a shell: a name with characters that steer it is not offered.
  const quoted = (path) => /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/.test(path) ? null : `'${path.replaceAll("'", "'\\''")}'`;
  // A report is made by a command, and the link leads to where the command puts it.
  const report = (path) => {
    const cell = element("td"), shell = quoted(path), name = `${path.split("/").pop()}.html`;
    if (!shell) return cell;
    const button = element("button", "report");
    button.type = "button";
    button.addEventListener("click", () => {
      const link = element("a", "open it");
      link.href = `reports/${encodeURIComponent(name)}`;
      const words = element("p", "Made by this command, in the folder of this page: ", "note");
      words.append(element("code", `mkdir -p reports && iotide report ${shell} -o ${quoted(`reports/${name}`)}`), " – then ", link, ".");
      const wide = element("td");
      wide.colSpan = 11;
      wide.append(words);
      const below = element("tr", undefined, "how");
      below.append(wide);
      const next = cell.parentElement.nextSibling;
      if (next && next.className === "how") next.remove(); else cell.parentElement.after(below);
    });
    cell.append(button);
    return cell;
  };
  const put = (title, note, found) => {
    const table = element("table"), head = element("thead"), body = element("tbody"), wide = element("div", undefined, "wide");
    wide.tabIndex = 0;
    head.append(row([["log"], ["application"], ["user"], ["its runs"], ["read"], ["written"], ["time"], ["ranks"], ["began"], ["labels"], ["report"]], "th"));
    for (const [path, user, application, read, written, time, ranks, start, bears, nRuns] of found) {
      const tr = row([[path, "path"], [application || "–"], [user || "–"], [nRuns ? nRuns.toLocaleString("en") : "–"], [bytes(read)],
        [bytes(written)], [seconds(time)], [ranks === null ? "–" : ranks.toLocaleString("en")], [date(start)],
        [names(bears).join(", "), "labels"]], "td");
      tr.append(report(path));
      body.append(tr);
    }
    table.append(head, body);
    wide.append(table);
    box.replaceChildren(element("h3", title), note, wide);
  };

  const list = (link) => {
    const numbers = (text) => (text || "").split(" ").filter(Boolean).map(Number);
    const has = numbers(link.dataset.has), lacks = numbers(link.dataset.lacks), n = Number(link.dataset.n);
    const ofApplications = link.dataset.of !== "all";
    const found = runs.filter((run) => (!ofApplications || run[9] > 0)
      && has.every((label) => run[8].includes(label)) && !lacks.some((label) => run[8].includes(label))).slice(0, MOST);
    const what = [...names(has), ...(lacks.length ? [`none of ${names(lacks).join(", ")}`] : [])].join(" and ");
    const shown = ofApplications ? `the heaviest run of ${counted(found.length, "application")}` : counted(found.length, "run");
    const note = element("p", `Listed: ${shown}, those that move most bytes first. `, "note");
    const condition = [...names(has).map((label) => `list_contains(categories, '${label}')`),
      ...names(lacks).map((label) => `NOT list_contains(categories, '${label}')`)].join(" AND ");
    note.append("All runs: ", element("code", `duckdb -c "SELECT path FROM 'runs.parquet' WHERE ${condition}"`));
    put(`${what}: ${counted(n, link.dataset.of === "unique" ? "application" : "run")}`, note, found);
  };

  // Filters over what the page can list.
  const filters = section.querySelector(".filters");
  const field = (text, input) => { const label = element("label", `${text} `); label.append(input); filters.append(label); return input; };
  const input = (type, placeholder) => { const node = element("input"); node.type = type; node.placeholder = placeholder; return node; };
  const label = element("select");
  for (const name of ["any", ...labels.filter((_, i) => runs.some((run) => run[8].includes(i)))]) label.append(element("option", name));
  const [user, application, , from, to] = [field("user", input("search", "all or a part")), field("application", input("search", "all or a part")), field("label", label),
    field("from", input("date", "")), field("to", input("date", ""))];
  const filter = () => {
    const has = (text, part) => (text || "").toLowerCase().includes(part.value.toLowerCase()), wanted = labels.indexOf(label.value);
    const since = from.value ? Date.parse(from.value) / 1000 : -Infinity, until = to.value ? Date.parse(to.value) / 1000 + 86400 : Infinity;
    const isDated = from.value || to.value;
    const found = runs.filter((run) => has(run[1], user) && has(run[2], application) && (wanted < 0 || run[8].includes(wanted))
      && (!isDated || (run[7] !== null && run[7] >= since && run[7] < until)));
    const note = element("p", `This page knows the ${counted(runs.length, "heaviest run")} of its tables, and lists at most ${4 * MOST} of them. `, "note");
    const text = (value) => `'%${value.replaceAll("'", "''").replace(/[\u0000-\u001f"`$\\\u007f]/g, "_")}%'`;
    const conditions = [...(user.value ? [`user ILIKE ${text(user.value)}`] : []), ...(application.value ? [`application ILIKE ${text(application.value)}`] : []),
      ...(wanted >= 0 ? [`list_contains(categories, '${labels[wanted]}')`] : []), ...(from.value ? [`start_time >= ${since}`] : []), ...(to.value ? [`start_time < ${until}`] : [])];
    if (conditions.length) note.append("All runs: ", element("code", `duckdb -c "SELECT path FROM 'runs.parquet' WHERE ${conditions.join(" AND ")}"`));
    put(`${counted(found.length, "run")} as filtered`, note, found.slice(0, 4 * MOST));
  };
  for (const node of [user, application, label, from, to]) node.addEventListener("input", filter);

  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-of]");
    if (!link) return;
    event.preventDefault();
    list(link);
    section.scrollIntoView({ block: "start" });
  });
})();
