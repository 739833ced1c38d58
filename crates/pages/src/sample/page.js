// Lets a person judge the labels of a sample, run by run, and tells how right they are. Nothing is sent anywhere.
"use strict";
(() => {
  const { seed, of, labels, runs } = JSON.parse(document.getElementById("data").textContent);
  const meaning = new Map(labels), card = document.querySelector("#run .card"), title = document.querySelector("#run h2");
  const KEY = `iotide-sample-${seed}-${of}-${runs.length}-${runs.length ? runs[0].path : ""}`;
  // Path → the labels that a person gave it.
  let reviewed = {}, at = 0;
  try { reviewed = JSON.parse(localStorage.getItem(KEY) || "{}"); } catch { reviewed = {}; }

  const make = (name, attributes = {}, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const press = (text, act, attributes = {}) => { const node = make("button", { type: "button", ...attributes }, text); node.addEventListener("click", act); return node; };
  const percent = (share) => `${(share * 100).toFixed(1)} %`;
  // The interval of Wilson (1927) at 95 %.
  const wilson = (right, n) => {
    const z = 1.959964, share = right / n, middle = (share + z * z / (2 * n)) / (1 + z * z / n);
    const half = z / (1 + z * z / n) * Math.sqrt(share * (1 - share) / n + z * z / (4 * n * n));
    return [Math.max(0, middle - half), Math.min(1, middle + half)];
  };
  const same = (a, b) => a.length === b.length && a.every((label) => b.includes(label));

  const tell = () => {
    const known = runs.filter((run) => Object.hasOwn(reviewed, run.path)), right = known.filter((run) => same(run.labels, reviewed[run.path])).length;
    const result = document.querySelector("#accuracy .result"), box = document.querySelector("#accuracy .labels-reviewed");
    box.replaceChildren();
    if (!known.length) { result.textContent = "Nothing was reviewed yet."; return; }
    const [low, high] = wilson(right, known.length);
    result.textContent = `${percent(right / known.length)} of the runs have exactly the right labels: ${right} of ${known.length} reviewed (${runs.length - known.length} left). `
      + `95 % interval: ${percent(low)} to ${percent(high)} (Wilson).`;
    const wrong = labels.map(([label]) => {
      const count = (test) => known.filter(test).length;
      return [label, count((run) => run.labels.includes(label)), count((run) => run.labels.includes(label) && !reviewed[run.path].includes(label)),
        count((run) => !run.labels.includes(label) && reviewed[run.path].includes(label))];
    }).filter(([, , extra, missing]) => extra + missing > 0);
    if (!wrong.length) return;
    const body = make("tbody");
    for (const row of wrong) body.append(make("tr", {}, ...row.map((cell) => make("td", {}, String(cell)))));
    const head = make("tr", {}, ...["label", "given", "of these wrong", "missing elsewhere"].map((text) => make("th", { scope: "col" }, text)));
    box.append(make("div", { class: "wide", tabindex: "0" }, make("table", {}, make("thead", {}, head), body)));
  };
  const keep = (labels) => {
    reviewed[runs[at].path] = labels;
    try { localStorage.setItem(KEY, JSON.stringify(reviewed)); } catch { /* a browser that keeps nothing: the file is left */ }
    tell();
  };

  // For a shell: a name with characters that steer it is not offered.
  const quoted = (path) => /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/.test(path) ? null : `'${path.replaceAll("'", "'\\''")}'`;
  const go = (to) => { at = Math.max(0, Math.min(runs.length - 1, to)); show(); };
  const show = () => {
    const run = runs[at], given = new Set(Object.hasOwn(reviewed, run.path) ? reviewed[run.path] : run.labels);
    title.textContent = `Run ${at + 1} of ${runs.length}`;
    const facts = make("dl", { class: "facts" });
    for (const [name, value] of run.facts) facts.append(make("dt", {}, name), make("dd", {}, value));
    const list = make("ul", { class: "chips" });
    for (const label of new Set([...run.labels, ...given])) {
      const box = make("input", { type: "checkbox" });
      box.checked = given.has(label);
      box.addEventListener("change", () => { if (box.checked) given.add(label); else given.delete(label); keep([...given]); show(); });
      const i = run.labels.indexOf(label);
      list.append(make("li", {}, make("label", {}, box, ` ${label}`), make("span", { class: "note" }, ` ${meaning.get(label) || ""}${i >= 0 && run.evidence[i] ? ` (${run.evidence[i]})` : ""}`)));
    }
    const add = make("select", { "aria-label": "add a label" }, make("option", { value: "" }, "add a label…"));
    for (const [label] of labels) if (!given.has(label)) add.append(make("option", { value: label }, label));
    add.addEventListener("change", () => { if (add.value) { given.add(add.value); keep([...given]); show(); } });
    const path = quoted(run.path), name = `${run.path.split("/").pop()}.html`;
    const how = make("p", { class: "note" });
    if (path) how.append("To see the run: ", make("code", {}, `mkdir -p reports && iotide report ${path} -o ${quoted(`reports/${name}`)}`), ", then ",
      make("a", { href: `reports/${encodeURIComponent(name)}`, target: "_blank", rel: "noopener" }, "open its report"), ".");
    const state = !Object.hasOwn(reviewed, run.path) ? "not reviewed yet" : same(run.labels, reviewed[run.path]) ? "confirmed" : "corrected";
    const bar = make("p", { class: "bar" },
      press("The labels are right", () => { keep(run.labels); go(at + 1); }, { class: "main", accesskey: "y" }),
      press("No label is right", () => { keep([]); show(); }),
      press("← before", () => go(at - 1)), press("next →", () => go(at + 1)),
      press("next not reviewed", () => { const next = runs.findIndex((run, i) => i > at && !Object.hasOwn(reviewed, run.path)); go(next < 0 ? runs.findIndex((run) => !Object.hasOwn(reviewed, run.path)) : next); }),
      press("save answers", () => {
        const answers = { schema: "iotide/1", seed, of, answers: runs.filter((run) => Object.hasOwn(reviewed, run.path)).map((run) => ({ path: run.path, labels: run.labels, right: reviewed[run.path] })) };
        const link = make("a", { download: `sample-${seed}.json`, href: URL.createObjectURL(new Blob([JSON.stringify(answers, null, 1)], { type: "application/json" })) });
        link.click();
        URL.revokeObjectURL(link.href);
      }));
    const load = make("input", { type: "file", accept: "application/json", "aria-label": "load answers" });
    load.addEventListener("change", async () => {
      const paths = new Set(runs.map((run) => run.path));
      try {
        for (const { path, right } of JSON.parse(await load.files[0].text()).answers) if (paths.has(path) && Array.isArray(right)) reviewed[path] = right.filter((label) => meaning.has(label));
        tell(); show();
      } catch { load.setCustomValidity("This is no file of answers."); load.reportValidity(); }
    });
    card.replaceChildren(make("p", { class: "log" }, run.path, make("span", { class: "state" }, ` – ${state}`)), facts, list, add, how, bar,
      make("p", { class: "note" }, make("label", {}, "Load saved answers: ", load)));
  };
  if (runs.length) { show(); tell(); } else card.append("There is no run in these results.");
})();
