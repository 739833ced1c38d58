"use strict";
// Schedules over time: who holds which nodes, busy nodes and waiting jobs. All panels show the same stretch of time.
(() => {
  const box = document.getElementById("schedules");
  if (!box) return;
  const data = JSON.parse(document.getElementById("schedules-data").textContent);
  const runs = data.runs.map((run) => ({ ...run, held: undelta(run.held) }));
  const whole = [0, Math.max(1, ...runs.map((run) => run.end))];
  let view = [...whole];
  const panels = [];

  // Rows of job, start, length, first node, number of nodes; starts are written as differences.
  function undelta(flat) {
    const rows = [];
    let at = 0;
    for (let i = 0; i < flat.length; i += 5) {
      at += flat[i + 1];
      rows.push([flat[i], at, at + flat[i + 2], flat[i + 3], flat[i + 3] + flat[i + 4]]);
    }
    return rows;
  }

  const css = (name) => getComputedStyle(box).getPropertyValue(name).trim();
  const span = (s) => s >= 172800 ? (s / 86400).toFixed(1) + " d" : s >= 7200 ? (s / 3600).toFixed(1) + " h" : s >= 120 ? (s / 60).toFixed(1) + " min" : s.toFixed(0) + " s";

  function ticks(from, to) {
    const unit = to - from > 172800 ? [86400, "d"] : to - from > 7200 ? [3600, "h"] : [1, "s"];
    const rough = (to - from) / unit[0] / 8, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough) || rough;
    const found = [];
    for (let at = Math.ceil(from / unit[0] / step) * step; at <= to / unit[0]; at += step) found.push([at * unit[0], +at.toPrecision(6) + " " + unit[1]]);
    return found;
  }

  const GANTT = 260, STRIP = 70, GAP = 20, LEFT = 44;

  function draw(panel) {
    const { canvas, run } = panel, width = canvas.clientWidth, height = GANTT + 2 * (STRIP + GAP) + 22;
    const ratio = devicePixelRatio || 1;
    canvas.width = width * ratio; canvas.height = height * ratio; canvas.style.height = height + "px";
    const ink = canvas.getContext("2d");
    ink.scale(ratio, ratio);
    const scale = (width - LEFT) / (view[1] - view[0]), x = (s) => LEFT + (s - view[0]) * scale;
    ink.font = "11px system-ui, sans-serif";
    ink.fillStyle = css("--field"); ink.fillRect(LEFT, 0, width - LEFT, GANTT);
    ink.save(); ink.beginPath(); ink.rect(LEFT, 0, width - LEFT, height); ink.clip();
    const row = GANTT / run.nodes;
    for (const [job, from, to, low, high] of run.held) {
      if (to < view[0] || from > view[1]) continue;
      const kind = data.kinds[job];
      ink.fillStyle = css(kind === "m" ? "--m" + job % 4 : "--r" + job % 4);
      const left = x(from), wide = Math.max((to - from) * scale, 0.6);
      ink.fillRect(left, GANTT - high * row, Math.max(wide - (wide > 4 ? 0.6 : 0), 0.6), Math.max((high - low) * row - (row > 3 ? 0.6 : 0), 0.5));
    }
    strip(ink, run, 1, run.nodes, GANTT + GAP, "--busy", x, width);
    strip(ink, run, 2, Math.max(1, data.longest), GANTT + STRIP + 2 * GAP, "--queue", x, width);
    ink.restore();
    ink.fillStyle = css("--quiet"); ink.textAlign = "right";
    ink.fillText(run.nodes, LEFT - 5, 10); ink.fillText("0", LEFT - 5, GANTT);
    ink.fillText(run.nodes, LEFT - 5, GANTT + GAP + 10); ink.fillText(Math.max(1, data.longest), LEFT - 5, GANTT + STRIP + 2 * GAP + 10);
    ink.textAlign = "left";
    ink.fillText("busy nodes", LEFT, GANTT + GAP - 5); ink.fillText("jobs waiting", LEFT, GANTT + STRIP + 2 * GAP - 5);
    if (run.cut !== null && run.cut < view[1]) ink.fillText("not drawn from here on: too many stretches", Math.max(LEFT, x(run.cut)) + 6, GANTT / 2);
    ink.textAlign = "center";
    for (const [at, label] of ticks(...view)) if (x(at) > LEFT + 8 && x(at) < width - 14) ink.fillText(label, x(at), height - 6);
  }

  function strip(ink, run, which, most, top, colour, x, width) {
    ink.fillStyle = css("--field"); ink.fillRect(LEFT, top, width - LEFT, STRIP);
    ink.fillStyle = css(colour);
    const load = run.load;
    for (let i = 0; i < load.length; i += 3) {
      const from = load[i], to = i + 3 < load.length ? load[i + 3] : run.end;
      if (to < view[0] || from > view[1]) continue;
      const high = load[i + which] / most * STRIP;
      const left = Math.floor(x(from));
      ink.fillRect(left, top + STRIP - high, Math.max(Math.ceil(x(to)) - left, 1), high);
    }
  }

  const drawAll = () => panels.forEach(draw);
  function show(from, to) {
    const least = (whole[1] - whole[0]) / 1e5;
    if (to - from < least) to = from + least;
    if (to - from > whole[1] - whole[0]) [from, to] = whole;
    if (from < whole[0]) [from, to] = [whole[0], whole[0] + to - from];
    if (to > whole[1]) [from, to] = [whole[1] - (to - from), whole[1]];
    view = [from, to];
    drawAll();
  }
  const zoom = (factor, at = (view[0] + view[1]) / 2) => show(at - (at - view[0]) * factor, at + (view[1] - at) * factor);

  function panel(run, i) {
    const figure = document.createElement("figure"), title = document.createElement("figcaption"), canvas = document.createElement("canvas");
    const select = document.createElement("select");
    runs.forEach((other, k) => select.add(new Option(other.policy, k, k === i, k === i)));
    select.setAttribute("aria-label", "policy");
    title.append(select); figure.append(title, canvas); box.append(figure);
    canvas.setAttribute("role", "img"); canvas.tabIndex = 0;
    const it = { canvas, run };
    const name = () => {
      canvas.setAttribute("aria-label", "Gantt chart, busy nodes and queue under " + it.run.policy);
    };
    select.addEventListener("change", () => { it.run = runs[+select.value]; name(); draw(it); });
    name();
    const time = (event) => view[0] + (event.offsetX - LEFT) / (canvas.clientWidth - LEFT) * (view[1] - view[0]);
    canvas.addEventListener("wheel", (event) => { event.preventDefault(); zoom(event.deltaY > 0 ? 1.25 : 0.8, time(event)); }, { passive: false });
    let held = null;
    canvas.addEventListener("pointerdown", (event) => { held = [time(event), view[0], event.offsetX]; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointerup", () => { held = null; });
    canvas.addEventListener("pointermove", (event) => {
      if (held) { const by = (event.offsetX - held[2]) / (canvas.clientWidth - LEFT) * (view[1] - view[0]); show(held[1] - by, held[1] - by + view[1] - view[0]); return; }
      const at = time(event), node = (GANTT - event.offsetY) / GANTT * it.run.nodes;
      const found = it.run.held.find((row) => row[1] <= at && at < row[2] && row[3] <= node && node < row[4]);
      canvas.title = found ? "job " + data.ids[found[0]] + (data.kinds[found[0]] === "m" ? ", malleable" : "") + ": from " + span(found[1]) + " for " + span(found[2] - found[1]) : "";
    });
    canvas.addEventListener("keydown", (event) => {
      const by = (view[1] - view[0]) / 4, keys = { ArrowLeft: () => show(view[0] - by, view[1] - by), ArrowRight: () => show(view[0] + by, view[1] + by), "+": () => zoom(0.5), "-": () => zoom(2), 0: () => show(...whole) };
      if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
    });
    panels.push(it);
  }

  for (const [id, act] of [["zoom-in", () => zoom(0.5)], ["zoom-out", () => zoom(2)], ["zoom-all", () => show(...whole)]]) document.getElementById(id).addEventListener("click", act);
  panel(runs[0], 0);
  if (runs.length > 1) panel(runs[runs.length - 1], runs.length - 1);
  drawAll();
  addEventListener("resize", drawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
})();
