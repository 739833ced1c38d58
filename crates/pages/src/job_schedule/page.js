"use strict";
// Schedules over time: who holds which nodes, busy nodes and waiting jobs. All panels show the same stretch of time and of nodes.
(() => {
  const box = document.getElementById("schedules"), named = (id) => document.getElementById(id);
  if (!box) return;
  const data = JSON.parse(named("schedules-data").textContent);
  const runs = data.runs.map((run) => ({ ...run, held: undelta(run.held) }));
  const panels = [];
  // What is shown: seconds, and shares of the nodes.
  let view = { from: 0, to: 1, low: 0, high: 1 };

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

  // Schedules that are not shown do not stretch those that are.
  const whole = () => Math.max(1, ...panels.map(({ run }) => run.end));
  const longest = () => panels.reduce((most, { run }) => run.load.reduce((most, value, i) => i % 3 === 2 ? Math.max(most, value) : most, most), 1);
  const isWhole = () => view.from <= 0 && view.to >= whole() && view.low <= 0 && view.high >= 1;

  const css = (name) => getComputedStyle(box).getPropertyValue(name).trim();
  const unitOf = (s) => s >= 172800 ? [86400, "d"] : s >= 7200 ? [3600, "h"] : s >= 120 ? [60, "min"] : [1, "s"];
  const span = (s, [unit, name] = unitOf(s)) => (s / unit).toFixed(unit === 1 ? 0 : 1) + " " + name;

  function ticks(from, to, room) {
    const [unit, name] = unitOf(to - from);
    const rough = (to - from) / unit / Math.max(2, room / 60), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((n) => n * power).find((n) => n >= rough) || rough;
    const found = [];
    for (let n = Math.ceil(from / unit / step); n * step <= to / unit; n++) found.push([n * step * unit, +(n * step).toPrecision(8) + " " + name]);
    return found;
  }

  const GANTT = 260, STRIP = 70, GAP = 20, LEFT = 44;

  function draw(panel) {
    const { canvas, run } = panel, width = canvas.clientWidth, height = GANTT + 2 * (STRIP + GAP) + 22;
    const ratio = devicePixelRatio || 1, queue = longest();
    canvas.width = width * ratio; canvas.height = height * ratio; canvas.style.height = height + "px";
    const ink = canvas.getContext("2d");
    ink.scale(ratio, ratio);
    const scale = (width - LEFT) / (view.to - view.from), x = (s) => LEFT + (s - view.from) * scale;
    const low = view.low * run.nodes, high = view.high * run.nodes, row = GANTT / (high - low), y = (node) => GANTT - (node - low) * row;
    const shades = Object.fromEntries(["m", "r"].map((kind) => [kind, [0, 1, 2, 3].map((i) => css("--" + kind + i))]));
    ink.font = "12px system-ui, sans-serif";
    ink.fillStyle = css("--field"); ink.fillRect(LEFT, 0, width - LEFT, GANTT);
    ink.save(); ink.beginPath(); ink.rect(LEFT, 0, width - LEFT, GANTT); ink.clip();
    for (const [job, from, to, first, end] of run.held) {
      if (to < view.from || from > view.to || end <= low || first >= high) continue;
      ink.fillStyle = shades[data.kinds[job]][job % 4];
      const wide = Math.max((to - from) * scale, 0.6), tall = (end - first) * row;
      ink.fillRect(x(from), y(end), Math.max(wide - (wide > 4 ? 0.6 : 0), 0.6), Math.max(tall - (tall > 3 ? 0.6 : 0), 0.5));
      // Wide enough for its name: few are, so this costs nothing before one has zoomed.
      const top = Math.max(y(end), 0), bottom = Math.min(y(first), GANTT);
      if (bottom - top > 13 && wide > 30) label(ink, String(data.ids[job]), css("--on-" + data.kinds[job]), Math.max(x(from), LEFT), Math.min(x(to), width), (top + bottom) / 2);
    }
    ink.restore();
    ink.save(); ink.beginPath(); ink.rect(LEFT, GANTT, width - LEFT, height); ink.clip();
    strip(ink, run, 1, run.nodes, GANTT + GAP, "--busy", x, width);
    strip(ink, run, 2, queue, GANTT + STRIP + 2 * GAP, "--queue", x, width);
    ink.restore();
    ink.fillStyle = css("--quiet"); ink.textAlign = "right";
    ink.fillText(Math.ceil(high), LEFT - 5, 10); ink.fillText(Math.floor(low), LEFT - 5, GANTT);
    ink.fillText(run.nodes, LEFT - 5, GANTT + GAP + 10); ink.fillText(queue, LEFT - 5, GANTT + STRIP + 2 * GAP + 10);
    ink.textAlign = "left";
    ink.fillText("busy nodes", LEFT, GANTT + GAP - 5); ink.fillText("jobs waiting", LEFT, GANTT + STRIP + 2 * GAP - 5);
    if (run.cut !== null && run.cut < view.to) ink.fillText("too many to draw from here on", Math.min(Math.max(LEFT, x(run.cut)) + 6, width - 175), GANTT / 2);
    ink.textAlign = "center";
    for (const [at, name] of ticks(view.from, view.to, width - LEFT)) if (x(at) > LEFT + 12 && x(at) < width - 22) ink.fillText(name, x(at), height - 6);
    if (panel.marked) {
      const [left, top, right, bottom] = panel.marked;
      ink.strokeStyle = css("--accent"); ink.lineWidth = 1.5; ink.strokeRect(left, top, right - left, bottom - top);
    }
  }

  function label(ink, text, colour, left, right, middle) {
    if (ink.measureText(text).width > right - left - 6) return;
    const fill = ink.fillStyle;
    ink.textBaseline = "middle"; ink.fillStyle = colour; ink.fillText(text, left + 4, middle);
    ink.textBaseline = "alphabetic"; ink.fillStyle = fill;
  }

  function strip(ink, run, which, most, top, colour, x, width) {
    ink.fillStyle = css("--field"); ink.fillRect(LEFT, top, width - LEFT, STRIP);
    ink.fillStyle = css(colour);
    const load = run.load;
    for (let i = 0; i < load.length; i += 3) {
      const from = load[i], to = i + 3 < load.length ? load[i + 3] : run.end;
      if (to < view.from || from > view.to) continue;
      const high = load[i + which] / most * STRIP;
      const left = Math.floor(x(from));
      ink.fillRect(left, top + STRIP - high, Math.max(Math.ceil(x(to)) - left, 1), high);
    }
  }

  function drawAll() {
    panels.forEach(draw);
    const nodes = panels[0].run.nodes, part = view.low > 0 || view.high < 1, unit = unitOf(view.to - view.from);
    named("shown").textContent = isWhole() ? "all is shown" : span(view.from, unit) + " to " + span(view.to, unit) + (part ? ", nodes " + Math.floor(view.low * nodes) + " to " + (Math.ceil(view.high * nodes) - 1) : "");
    named("zoom-all").disabled = isWhole();
  }

  // A stretch of at least `least`, moved rather than cut where it would leave 0 to `most`.
  function within(from, to, least, most) {
    if (to - from < least) [from, to] = [(from + to - least) / 2, (from + to + least) / 2];
    if (to - from >= most) return [0, most];
    if (from < 0) return [0, to - from];
    return to > most ? [most - (to - from), most] : [from, to];
  }

  function show(wanted) {
    const next = { ...view, ...wanted }, nodes = Math.max(...panels.map(({ run }) => run.nodes));
    [next.from, next.to] = within(next.from, next.to, Math.min(10, whole()), whole());
    [next.low, next.high] = within(next.low, next.high, Math.min(1, 2 / nodes), 1);
    view = next;
    drawAll();
  }
  const zoom = (factor, at = (view.from + view.to) / 2) => show({ from: at - (at - view.from) * factor, to: at + (view.to - at) * factor });
  const move = (share) => { const by = share * (view.to - view.from); show({ from: view.from + by, to: view.to + by }); };
  const lift = (share) => { const by = share * (view.high - view.low); show({ low: view.low + by, high: view.high + by }); };
  const spread = (factor) => { const at = (view.low + view.high) / 2, half = factor * (view.high - view.low) / 2; show({ low: at - half, high: at + half }); };
  const all = () => show({ from: 0, to: whole(), low: 0, high: 1 });

  function panel(run, i) {
    const figure = document.createElement("figure"), title = document.createElement("figcaption"), canvas = document.createElement("canvas");
    const select = document.createElement("select"), readout = document.createElement("p");
    runs.forEach((other, k) => select.add(new Option(other.policy, k, k === i, k === i)));
    select.setAttribute("aria-label", "policy");
    readout.className = "pointed";
    title.append(select); figure.append(title, canvas, readout); box.append(figure);
    canvas.setAttribute("role", "img"); canvas.tabIndex = 0;
    const it = { canvas, run, marked: null };
    const name = () => canvas.setAttribute("aria-label", "Gantt chart, busy nodes and queue under " + it.run.policy + "; plus, minus, arrows and 0 change what is shown");
    select.addEventListener("change", () => {
      const wasWhole = isWhole();
      it.run = runs[+select.value];
      name();
      if (wasWhole) all(); else show({});
    });
    name();
    const time = (x) => view.from + (x - LEFT) / (canvas.clientWidth - LEFT) * (view.to - view.from);
    const share = (y) => view.low + (GANTT - y) / GANTT * (view.high - view.low);
    canvas.addEventListener("wheel", (event) => {
      // The wheel alone scrolls the page.
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 240))), time(event.offsetX));
    }, { passive: false });
    let drag = null;
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || event.offsetX < LEFT) return;
      drag = { x: event.offsetX, y: event.offsetY, moves: event.shiftKey };
      try { canvas.setPointerCapture(event.pointerId); } catch { /* a pointer that is gone already */ }
    });
    // What a drag marks: a stretch of time, and of nodes if it goes up or down within the chart.
    const marked = (event) => {
      const wide = canvas.clientWidth, clamp = (value, least, most) => Math.max(least, Math.min(most, value));
      const x = clamp(event.offsetX, LEFT, wide), y = clamp(event.offsetY, 0, GANTT);
      const isTall = drag.y < GANTT && Math.abs(y - drag.y) > 12;
      const [top, bottom] = isTall ? [Math.min(y, drag.y), Math.max(y, drag.y)] : [0, GANTT];
      return { isWide: Math.abs(x - drag.x) > 4, isTall, box: [Math.min(x, drag.x), top, Math.max(x, drag.x), bottom] };
    };
    canvas.addEventListener("pointermove", (event) => {
      if (drag && drag.moves) {
        move((drag.x - event.offsetX) / (canvas.clientWidth - LEFT)); lift((event.offsetY - drag.y) / GANTT);
        [drag.x, drag.y] = [event.offsetX, event.offsetY];
      } else if (drag) { it.marked = marked(event).box; draw(it); }
      const at = time(event.offsetX), node = share(event.offsetY) * it.run.nodes;
      const found = event.offsetY < GANTT && event.offsetX >= LEFT && it.run.held.find((row) => row[1] <= at && at < row[2] && row[3] <= node && node < row[4]);
      readout.textContent = found ? "job " + data.ids[found[0]] + (data.kinds[found[0]] === "m" ? ", malleable" : "") + ", nodes " + found[3] + " to " + (found[4] - 1) + ", from " + span(found[1]) + " for " + span(found[2] - found[1]) : "";
    });
    const drop = (event) => {
      if (!drag) return;
      const { isWide, isTall, box: [left, top, right, bottom] } = marked(event), { moves } = drag;
      drag = it.marked = null;
      if (moves || event.type === "pointercancel" || !isWide) { draw(it); return; }
      show({ from: time(left), to: time(right), ...(isTall ? { low: share(bottom), high: share(top) } : {}) });
    };
    canvas.addEventListener("pointerup", drop);
    canvas.addEventListener("pointercancel", drop);
    canvas.addEventListener("pointerleave", () => { readout.textContent = ""; });
    canvas.addEventListener("dblclick", all);
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      // Up and down scroll the page unless there are nodes to move to.
      const part = view.low > 0 || view.high < 1;
      const keys = { ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: all, Escape: all,
        ...(part ? { ArrowUp: () => lift(0.2), ArrowDown: () => lift(-0.2) } : {}) };
      if (keys[event.key]) { event.preventDefault(); keys[event.key](); }
    });
    panels.push(it);
  }

  const acts = { "zoom-in": () => zoom(0.5), "zoom-out": () => zoom(2), earlier: () => move(-0.5), later: () => move(0.5), fewer: () => spread(0.5), more: () => spread(2), "zoom-all": all };
  for (const [id, act] of Object.entries(acts)) named(id).addEventListener("click", act);
  named("zooms").hidden = false;
  panel(runs[0], 0);
  if (runs.length > 1) panel(runs[runs.length - 1], runs.length - 1);
  all();
  addEventListener("resize", drawAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
})();
