// Draws the chosen functions, sorts and filters the table, and shows call paths as a tree. Nothing is fetched.
"use strict";
(() => {
  const { parameters, models } = JSON.parse(document.getElementById("data").textContent);
  const section = document.getElementById("chart"), drawing = section.querySelector(".drawing");
  const table = document.querySelector("#models table"), body = table.tBodies[0], rows = [...body.rows];
  const COLOURS = 8, MOST_FORMULAS = 8;

  const make = (name, attributes = {}, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  };
  const draw = (name, attributes = {}, text) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    return node;
  };
  const digits = (value) => {
    if (value === 0 || !Number.isFinite(value)) return value === 0 ? "0" : "?";
    const size = Math.abs(value);
    if (size >= 1e6 || size < 1e-3) return value.toExponential(3).replace(/\.?0+e/, "e").replace("e+", "e");
    return String(Number(value.toPrecision(4)));
  };

  const valueAt = (model, point) => {
    if (!model.function) return NaN;
    const [constant, terms] = model.function;
    return terms.reduce((sum, [coefficient, factors]) => sum + factors.reduce((product, [parameter, power, log]) =>
      product * point[parameter] ** power * (log ? Math.log2(point[parameter]) ** log : 1), coefficient), constant);
  };
  // The values of a curve at one place, between its two neighbours.
  const onCurve = (curve, x) => {
    if (!curve.length || x < curve[0][0] || x > curve[curve.length - 1][0]) return null;
    let i = curve.findIndex((row) => row[0] >= x);
    if (i <= 0) return curve[0].slice(1);
    const [a, b] = [curve[i - 1], curve[i]], share = (x - a[0]) / (b[0] - a[0]);
    return [1, 2, 3].map((k) => a[k] + share * (b[k] - a[k]));
  };

  // Values that each parameter was measured at.
  const measured = parameters.map((_, i) => [...new Set(models.flatMap((model) => (model.points || []).map((point) => point[i])))].sort((a, b) => a - b));
  // The value of a parameter at which most points lie, of equals the largest: a cut there shows most of them.
  const commonest = (values, i) => {
    const counts = new Map(values.map((value) => [value, 0]));
    for (const model of models.slice(0, 50)) for (const point of model.points || []) counts.set(point[i], (counts.get(point[i]) || 0) + 1);
    return values.reduce((best, value) => best === undefined || counts.get(value) >= counts.get(best) ? value : best, undefined);
  };
  const state = { chosen: [], along: 0, down: 1, fixed: measured.map(commonest), logX: true, logY: false, limits: ["", "", "", ""] };
  if (measured.some((values) => values[0] <= 0)) state.logX = false;

  // A number line with round ticks.
  const scale = (low, high, from, to, log, values = []) => {
    if (!(high > low)) { const middle = Number.isFinite(low) ? low : 1; low = middle - Math.abs(middle || 1) / 2; high = middle + Math.abs(middle || 1) / 2; }
    const isLog = log && low > 0;
    const at = (value) => from + (isLog ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low)) * (to - from);
    const ofShare = (share) => isLog ? low * (high / low) ** share : low + share * (high - low);
    const most = Math.max(2, Math.floor(Math.abs(to - from) / (Math.abs(to - from) > 260 && from < to ? 70 : 40)));
    const ticks = [];
    if (isLog) {
      const twos = values.length && Math.log2(high / low) <= 14 && values.every((value) => value > 0 && Number.isInteger(Math.log2(value)));
      const steps = twos ? null : [[1, 2, 5], [1, 3], [1]];
      if (twos) for (let k = Math.ceil(Math.log2(low) - 1e-9); k <= Math.log2(high) + 1e-9; k++) ticks.push(2 ** k);
      else for (const multiples of steps) {
        ticks.length = 0;
        for (let k = Math.floor(Math.log10(low)); k <= Math.ceil(Math.log10(high)); k++)
          for (const multiple of multiples) { const tick = multiple * 10 ** k; if (tick >= low * (1 - 1e-9) && tick <= high * (1 + 1e-9)) ticks.push(tick); }
        if (ticks.length <= most) break;
      }
      if (ticks.length >= 2) { const every = Math.ceil(ticks.length / most); return { low, high, at, ofShare, isLog, ticks: ticks.filter((_, i) => i % every === 0) }; }
      ticks.length = 0;
    }
    const rough = (high - low) / most, unit = 10 ** Math.floor(Math.log10(rough)), step = unit * [1, 2, 5, 10].find((k) => k * unit >= rough * 0.999);
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++) ticks.push(Number((k * step).toPrecision(12)));
    return { low, high, at, ofShare, isLog, ticks };
  };

  const name = (model) => model.metric ? `${model.callpath} · ${model.metric}` : model.callpath;
  const pointOf = (x) => state.fixed.map((value, i) => i === state.along ? x : value);
  // Points of a model that lie on the line that is drawn: coordinate, mean, lowest, highest.
  const pointsOf = (model) => (model.points || []).filter((point) => parameters.every((_, i) => i === state.along || point[i] === state.fixed[i]))
    .map((point) => [point[state.along], ...point.slice(parameters.length)]);

  const axes = (svg, x, y, left, right, top, bottom, xName, yName) => {
    for (const tick of y.ticks) {
      svg.append(draw("line", { class: "grid", x1: left, x2: right, y1: y.at(tick), y2: y.at(tick) }));
      svg.append(draw("text", { x: left - 8, y: y.at(tick) + 4, "text-anchor": "end" }, digits(tick)));
    }
    for (const tick of x.ticks) {
      svg.append(draw("line", { class: "tick", x1: x.at(tick), x2: x.at(tick), y1: bottom, y2: bottom + 5 }));
      svg.append(draw("text", { x: x.at(tick), y: bottom + 18, "text-anchor": "middle" }, digits(tick)));
    }
    svg.append(draw("line", { class: "base", x1: left, x2: right, y1: bottom, y2: bottom }));
    svg.append(draw("text", { class: "name", x: (left + right) / 2, y: bottom + 36, "text-anchor": "middle" }, `${xName}${x.isLog ? " (logarithmic)" : ""}`));
    svg.append(draw("text", { class: "name", x: left, y: top - 8 }, `${yName}${y.isLog ? " (logarithmic)" : ""}`));
  };

  const figure = (label) => {
    const width = Math.max(300, Math.round(drawing.clientWidth || 900)), height = width < 600 ? 300 : 400;
    const node = make("figure", { class: "still" });
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, class: "plot", role: "img", tabindex: "0", "aria-label": label, "font-size": "12" });
    const readout = make("div", { class: "readout", role: "status" });
    readout.hidden = true;
    node.append(svg, readout);
    drawing.append(node);
    return { node, svg, readout, width, height, left: 70, right: width - 14, top: 28, bottom: height - 46 };
  };
  const tell = ({ readout, svg }, text, x, y) => {
    readout.textContent = text;
    readout.hidden = !text;
    const half = readout.offsetWidth / 2, box = svg.getBoundingClientRect();
    readout.style.left = `${Math.max(half, Math.min(box.width - half, x))}px`;
    readout.style.top = `${y}px`;
  };

  const lines = () => {
    const chosen = state.chosen.map((i) => models[i]);
    const at = figure(`Values of ${chosen.map(name).join(", ")}`), { svg, left, right, top, bottom } = at;
    const limit = (i) => state.limits[i] === "" ? NaN : Number(state.limits[i]);
    const xs = chosen.flatMap((model) => [...pointsOf(model).map((point) => point[0]), ...(model.curve || []).map((row) => row[0])]);
    if (parameters.length > 1 && measured[state.along].length) xs.push(measured[state.along][0], 2 * measured[state.along][measured[state.along].length - 1]);
    const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity), greatest = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);
    const lowX = Number.isFinite(limit(0)) ? limit(0) : least(xs), highX = Number.isFinite(limit(1)) ? limit(1) : greatest(xs);
    const x = scale(lowX, highX, left, right, state.logX, measured[state.along]);
    const series = chosen.map((model) => {
      const places = Array.from({ length: 97 }, (_, i) => x.ofShare(i / 96));
      const values = places.map((place) => {
        const known = (model.curve || []).length ? onCurve(model.curve, place) : null, value = model.function ? valueAt(model, pointOf(place)) : known && known[0];
        return value === null || !Number.isFinite(value) ? null : [place, value, known ? known[1] : value, known ? known[2] : value];
      });
      return { model, values: values.filter(Boolean), points: pointsOf(model).filter((point) => point[0] >= x.low && point[0] <= x.high) };
    });
    const ys = series.flatMap(({ values, points }) => [...values.map((row) => row[1]), ...points.flatMap((point) => [point[2], point[3]])]);
    const bands = series.flatMap(({ values }) => values.flatMap((row) => [row[2], row[3]]));
    let low = least(ys), high = greatest(ys);
    // The band may be endless far out: it gets no more than half of the height.
    high = Math.min(greatest([...bands, high]), high + (high - Math.min(low, 0)) || high);
    const positive = ys.filter((value) => value > 0);
    low = state.logY && positive.length ? Math.max(least([...bands.filter((value) => value > 0), ...positive]), least(positive) / 10) : Math.min(0, low);
    if (Number.isFinite(limit(2))) low = limit(2);
    if (Number.isFinite(limit(3))) high = limit(3);
    const y = scale(low, high, bottom, top, state.logY);
    const metrics = [...new Set(chosen.map((model) => model.metric))];
    axes(svg, x, y, left, right, top, bottom, parameters[state.along] || "", metrics.length === 1 && metrics[0] || "value");
    const clip = draw("clipPath", { id: "inside" });
    clip.append(draw("rect", { x: left - 6, y: top - 6, width: right - left + 12, height: bottom - top + 12 }));
    const inside = draw("g", { "clip-path": "url(#inside)" });
    svg.append(clip, inside);
    const place = ([px, py]) => `${x.at(px).toFixed(1)} ${(y.isLog && py <= 0 ? bottom + 50 : y.at(py)).toFixed(1)}`;
    series.forEach(({ values, points }, k) => {
      const colour = `m${k % COLOURS}`;
      if (values.some((row) => row[3] > row[2]))
        inside.append(draw("path", { class: `band ${colour}`, d: `M${[...values.map((row) => place([row[0], row[3]])), ...values.slice().reverse().map((row) => place([row[0], row[2]]))].join("L")}Z` }));
      if (values.length) inside.append(draw("path", { class: `curve ${colour}`, d: `M${values.map(place).join("L")}` }));
      for (const [px, mean, least, most] of points) {
        if (most > least) inside.append(draw("path", { class: `whisker ${colour}`, d: `M${place([px, least])}L${place([px, most])}` }));
        inside.append(draw("circle", { class: `point ${colour}`, cx: x.at(px), cy: y.isLog && mean <= 0 ? bottom + 50 : y.at(mean), r: 4 }));
      }
    });
    const hair = draw("line", { class: "hair", y1: top, y2: bottom, visibility: "hidden" });
    svg.append(hair);
    const show = (share) => {
      if (share < 0 || share > 1) { at.readout.hidden = true; hair.setAttribute("visibility", "hidden"); return; }
      const px = x.at(x.ofShare(share)), value = x.ofShare(share);
      const told = series.map(({ model, values }) => {
        const row = values.reduce((best, row) => !best || Math.abs(x.at(row[0]) - px) < Math.abs(x.at(best[0]) - px) ? row : best, null);
        return row && `${series.length > 1 ? `${model.callpath.split("->").pop()}: ` : ""}${digits(row[1])}${row[3] > row[2] ? ` (${digits(row[2])} to ${digits(row[3])})` : ""}`;
      }).filter(Boolean);
      hair.setAttribute("x1", px); hair.setAttribute("x2", px); hair.setAttribute("visibility", "visible");
      tell(at, `${parameters[state.along]} = ${digits(value)}: ${told.slice(0, 4).join("; ")}${told.length > 4 ? "; …" : ""}`, px, top);
    };
    let share = 0.5;
    svg.addEventListener("pointermove", (event) => { const box = svg.getBoundingClientRect(); show(share = ((event.clientX - box.left) / box.width * at.width - left) / (right - left)); });
    svg.addEventListener("pointerleave", () => show(-1));
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1 / 48, ArrowRight: 1 / 48 }[event.key];
      if (!step) return;
      event.preventDefault();
      show(share = Math.max(0, Math.min(1, share + step)));
    });
    const legend = make("ul", { class: "legend" });
    series.forEach(({ model }, k) => legend.append(make("li", { class: `m${k % COLOURS}` }, make("span", {}, name(model)))));
    at.node.append(legend, make("p", { class: "note" }, "Dots are means of what was measured, with whiskers from the lowest to the highest value; lines are the functions"
      + (parameters.length === 1 ? ", and bands hold the truth with the asked confidence. " : ". ") + "Point at the chart, or use the arrow keys, to read values."));
    const head = make("tr", {}, ...["metric", parameters[state.along] || "", "mean", "lowest", "highest", "function"].map((text) => make("th", { scope: "col" }, text)));
    const list = make("tbody");
    for (const { model, points } of series)
      for (const [px, mean, least, most] of points) {
        const value = model.function ? valueAt(model, pointOf(px)) : (onCurve(model.curve || [], px) || [NaN])[0];
        list.append(make("tr", {}, ...[name(model), ...[px, mean, least, most, value].map(digits)].map((text) => make("td", {}, text))));
      }
    at.node.append(make("details", {}, make("summary", {}, "The points as a table"), make("div", { class: "wide", tabindex: "0" }, make("table", { class: "points" }, make("thead", {}, head), list))));
  };

  const map = () => {
    const model = models[state.chosen[0]];
    if (!model.function || parameters.length < 2) return;
    const range = (i) => [measured[i][0], 2 * measured[i][measured[i].length - 1]];
    const corners = range(state.along).flatMap((x) => range(state.down).map((y) => valueAt(model, state.fixed.map((fixed, i) => i === state.along ? x : i === state.down ? y : fixed))));
    // What is the same everywhere is no map.
    if (!model.function[1].length || corners.every((value) => value === corners[0])) return;
    const at = figure(`Map of ${name(model)}`), { svg, left, right, top } = at, bottom = at.bottom - 44;
    const x = scale(...range(state.along), left, right, state.logX, measured[state.along]), y = scale(...range(state.down), bottom, top, state.logX, measured[state.down]);
    const COLUMNS = 40, ROWS = 26, LEVELS = 8, cells = [];
    const value = (column, row) => valueAt(model, state.fixed.map((fixed, i) =>
      i === state.along ? x.ofShare((column + 0.5) / COLUMNS) : i === state.down ? y.ofShare((row + 0.5) / ROWS) : fixed));
    for (let row = 0; row < ROWS; row++) for (let column = 0; column < COLUMNS; column++) cells.push(value(column, row));
    const known = cells.filter(Number.isFinite), low = Math.min(...known), high = Math.max(...known);
    const isLog = low > 0 && high / low > 20;
    const level = (v) => high > low ? Math.min(LEVELS - 1, Math.floor((isLog ? Math.log(v / low) / Math.log(high / low) : (v - low) / (high - low)) * LEVELS)) : 0;
    const w = (right - left) / COLUMNS, h = (bottom - top) / ROWS;
    cells.forEach((v, i) => {
      if (Number.isFinite(v)) svg.append(draw("rect", { class: `w${level(v)}`, x: (left + (i % COLUMNS) * w).toFixed(1), y: (bottom - (Math.floor(i / COLUMNS) + 1) * h).toFixed(1), width: (w + 0.4).toFixed(1), height: (h + 0.4).toFixed(1) }));
    });
    axes(svg, x, y, left, right, top, bottom, parameters[state.along], parameters[state.down]);
    for (const point of model.points || []) svg.append(draw("circle", { class: "point onmap", cx: x.at(point[state.along]), cy: y.at(point[state.down]), r: 3.5 }));
    const edge = (k) => isLog ? low * (high / low) ** (k / LEVELS) : low + (high - low) * k / LEVELS;
    const bar = (right - left) / LEVELS;
    for (let k = 0; k < LEVELS; k++) {
      svg.append(draw("rect", { class: `w${k}`, x: left + k * bar, y: at.height - 32, width: bar, height: 12 }));
      if (at.width > 600 || k % 4 === 0) svg.append(draw("text", { x: left + k * bar, y: at.height - 6, "text-anchor": "middle" }, digits(Number(edge(k).toPrecision(3)))));
    }
    svg.append(draw("text", { x: right, y: at.height - 6, "text-anchor": "end" }, digits(Number(high.toPrecision(3)))));
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect(), px = (event.clientX - box.left) / box.width * at.width, py = (event.clientY - box.top) / box.height * at.height;
      const column = Math.floor((px - left) / w), row = Math.floor((bottom - py) / h);
      if (column < 0 || row < 0 || column >= COLUMNS || row >= ROWS) { at.readout.hidden = true; return; }
      tell(at, `${parameters[state.along]} = ${digits(x.ofShare((column + 0.5) / COLUMNS))}, ${parameters[state.down]} = ${digits(y.ofShare((row + 0.5) / ROWS))}: ${digits(cells[row * COLUMNS + column])}`, px, py);
    });
    svg.addEventListener("pointerleave", () => { at.readout.hidden = true; });
    at.node.append(make("p", { class: "note" }, `${name(model)} as colour${isLog ? ", on a logarithmic scale" : ""}; dots are where it was measured. The chart above is a cut through this map.`));
  };

  const formulas = () => {
    const box = section.querySelector(".formulas");
    box.replaceChildren();
    for (const i of state.chosen.slice(0, MOST_FORMULAS)) {
      const model = models[i], list = make("dl", { class: "facts" });
      for (const [what, text] of [["text", model.readable], ["LaTeX", model.latex], ["Python", model.python]]) {
        const copy = make("button", { type: "button", "aria-label": `copy ${what} of ${name(model)}` }, "copy");
        copy.addEventListener("click", () => {
          const done = () => { copy.textContent = "copied"; };
          if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, () => {}); else { getSelection().selectAllChildren(copy.previousSibling); }
        });
        list.append(make("dt", {}, what), make("dd", {}, make("code", {}, text), " ", copy));
      }
      box.append(make("details", state.chosen.length === 1 ? { open: "" } : {}, make("summary", {}, `Formulas of ${name(model)}`), list));
    }
  };

  const render = () => {
    section.hidden = !state.chosen.length;
    drawing.replaceChildren();
    if (!state.chosen.length) return;
    lines();
    if (parameters.length > 1) map();
    formulas();
  };

  // Controls of the chart.
  const controls = section.querySelector(".controls");
  const check = (text, on, change) => {
    const box = make("input", { type: "checkbox" });
    box.checked = on;
    box.addEventListener("change", () => { change(box.checked); render(); });
    return make("label", {}, box, ` ${text}`);
  };
  const select = (text, options, chosen, change) => {
    const box = make("select");
    options.forEach(([value, shown]) => { const option = make("option", { value }, shown); option.selected = String(value) === String(chosen); box.append(option); });
    box.addEventListener("change", () => change(box.value));
    return make("label", {}, `${text} `, box);
  };
  const build = () => {
    controls.replaceChildren(check("logarithmic x", state.logX, (on) => { state.logX = on; }), check("logarithmic y", state.logY, (on) => { state.logY = on; }));
    if (parameters.length > 1) {
      controls.append(select("along", parameters.map((text, i) => [i, text]), state.along, (value) => {
        state.along = Number(value);
        if (state.down === state.along) state.down = parameters.findIndex((_, i) => i !== state.along);
        build(); render();
      }));
      parameters.forEach((text, i) => {
        if (i !== state.along) controls.append(select(`cut at ${text} =`, measured[i].map((value) => [value, digits(value)]), state.fixed[i], (value) => { state.fixed[i] = Number(value); render(); }));
      });
    }
    ["x from", "to", "y from", "to"].forEach((text, i) => {
      const field = make("input", { type: "number", step: "any", placeholder: "auto", "aria-label": ["least x", "greatest x", "least y", "greatest y"][i] });
      field.value = state.limits[i];
      field.addEventListener("change", () => { state.limits[i] = field.value; render(); });
      controls.append(make("label", {}, `${text} `, field));
    });
  };
  build();

  // Choosing rows.
  const boxes = rows.map((row) => row.querySelector("input"));
  const choose = () => { state.chosen = rows.map((_, i) => i).filter((i) => boxes[i].checked); render(); };
  boxes.forEach((box) => box.addEventListener("change", choose));
  body.addEventListener("click", (event) => {
    if (event.target.closest("input, a, button, code, abbr")) return;
    const row = event.target.closest("tr[data-i]");
    if (!row) return;
    boxes.forEach((box, i) => { box.checked = rows[i] === row; });
    choose();
  });

  // The table: sorted by a head, of one metric, with words in it, or as a tree of call paths.
  const paths = rows.map((row) => row.cells[1].textContent), metrics = rows.map((row) => row.cells[2].textContent);
  const heads = [...table.tHead.rows[0].cells], view = { metric: "", words: [], tree: false, closed: new Set() };
  const refresh = () => {
    for (const group of body.querySelectorAll("tr.group")) group.remove();
    const shown = rows.filter((_, i) => (!view.metric || metrics[i] === view.metric) && view.words.every((word) => paths[i].toLowerCase().includes(word)));
    rows.forEach((row) => { row.hidden = !shown.includes(row); });
    rows.forEach((row, i) => { row.cells[1].textContent = paths[i]; row.cells[1].style.paddingLeft = ""; row.cells[1].title = ""; });
    if (view.tree) {
      for (const head of heads) head.removeAttribute("aria-sort");
      const order = shown.map((row) => rows.indexOf(row)).sort((a, b) => paths[a] < paths[b] ? -1 : paths[a] > paths[b] ? 1 : a - b), seen = new Set();
      for (const i of order) {
        const parts = paths[i].split("->");
        for (let depth = 1; depth < parts.length; depth++) {
          const above = parts.slice(0, depth).join("->");
          if (seen.has(above)) continue;
          seen.add(above);
          const inner = [...parts.slice(0, depth - 1).keys()].some((k) => view.closed.has(parts.slice(0, k + 1).join("->")));
          const open = !view.closed.has(above), press = make("button", { type: "button", "aria-expanded": open }, `${open ? "▾" : "▸"} ${parts[depth - 1]}`);
          press.addEventListener("click", () => { if (open) view.closed.add(above); else view.closed.delete(above); refresh(); });
          const cell = make("td", { colspan: heads.length - 1 }, press);
          cell.style.paddingLeft = `${(depth - 1) * 18}px`;
          const group = make("tr", { class: "group" }, make("td"), cell);
          group.hidden = inner;
          body.append(group);
        }
        if (parts.slice(0, -1).some((_, k) => view.closed.has(parts.slice(0, k + 1).join("->")))) rows[i].hidden = true;
        rows[i].cells[1].textContent = parts[parts.length - 1];
        rows[i].cells[1].title = paths[i];
        rows[i].cells[1].style.paddingLeft = `${(parts.length - 1) * 18}px`;
        body.append(rows[i]);
      }
    }
    count.textContent = shown.length < rows.length ? `${shown.length} of ${rows.length}` : "";
  };
  heads.forEach((head, i) => {
    if (head.dataset.still !== undefined) return;
    const press = make("button", { type: "button" }, head.textContent);
    head.replaceChildren(press);
    const key = (row) => { const cell = row.cells[i]; return i === 1 ? paths[rows.indexOf(row)] : cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v); };
    press.addEventListener("click", () => {
      const was = head.getAttribute("aria-sort"), up = was ? was === "descending" : typeof key(rows[0]) === "string";
      for (const other of heads) other.removeAttribute("aria-sort");
      tree.checked = view.tree = false;
      refresh();
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const sorted = rows.slice().sort((a, b) => { const one = key(a), two = key(b), order = one < two ? -1 : one > two ? 1 : 0; return up ? order : -order; });
      body.append(...sorted);
    });
  });
  const top = document.querySelector("#models .controls"), count = make("span", { "aria-live": "polite" });
  const different = [...new Set(metrics)], field = make("input", { type: "search", placeholder: "part of a call path", "aria-label": "search call paths" });
  const tree = make("input", { type: "checkbox" });
  tree.addEventListener("change", () => { view.tree = tree.checked; refresh(); if (!tree.checked) body.append(...rows); });
  field.addEventListener("input", () => { view.words = field.value.toLowerCase().split(/\s+/).filter(Boolean); refresh(); });
  if (different.length > 1) top.append(select("metric", [["", "all"], ...different.map((text) => [text, text])], "", (value) => { view.metric = value; refresh(); }));
  if (rows.length > 3) top.append(field);
  if (paths.some((path) => path.includes("->"))) top.append(make("label", {}, tree, " as a tree"));
  if (rows.length > 1) {
    const all = make("button", { type: "button" }, "draw all shown"), none = make("button", { type: "button" }, "draw none");
    all.addEventListener("click", () => { boxes.forEach((box, i) => { box.checked = !rows[i].hidden; }); choose(); });
    none.addEventListener("click", () => { boxes.forEach((box) => { box.checked = false; }); choose(); });
    top.append(all, none);
  }
  top.append(count);

  if (boxes.length && models[0].points) { boxes[0].checked = true; choose(); }
  let width = drawing.clientWidth;
  addEventListener("resize", () => { if (drawing.clientWidth !== width) { width = drawing.clientWidth; render(); } });
})();
