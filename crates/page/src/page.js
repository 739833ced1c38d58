// Makes the pictures of the page zoomable and the table of files searchable. Each figure carries its plot as JSON and, already drawn, as SVG; nothing here
// runs until a reader points at a picture, and without this script the page is complete.
// Sizes, classes and the rule "one column per pixel, lowest and highest kept" are those of chart.rs.
"use strict";
(() => {
  const LEFT = 56, RIGHT = 948, TOP = 28, BOTTOM = 250, WIDTH = 960, HEIGHT = 300, LANE = 10;
  const SVG = "http://www.w3.org/2000/svg";

  const element = (name, attributes, text) => {
    const node = document.createElementNS(SVG, name);
    for (const key in attributes) node.setAttribute(key, attributes[key]);
    if (text !== undefined) node.textContent = text;
    return node;
  };

  const position = (axis, value, from, to) => {
    const share = axis.log
      ? Math.log(Math.max(value, axis.lo * 0.5) / axis.lo) / Math.log(axis.hi / axis.lo)
      : (value - axis.lo) / (axis.hi - axis.lo);
    return from + share * (to - from);
  };

  const valueAt = (axis, share) =>
    axis.log ? axis.lo * Math.pow(axis.hi / axis.lo, share) : axis.lo + share * (axis.hi - axis.lo);

  const niceStep = (span, n) => {
    const rough = span / n, power = Math.pow(10, Math.floor(Math.log10(rough))), r = rough / power;
    return power * (r < 1.5 ? 1 : r < 3.5 ? 2 : r < 7.5 ? 5 : 10);
  };

  const digits = (value, n) =>
    value === 0 ? "0" : Number(value.toPrecision(n)).toLocaleString("en", { maximumSignificantDigits: n, useGrouping: false });

  const ticks = (axis, about) => {
    const lo = (axis.lo - axis.origin) / axis.factor, hi = (axis.hi - axis.origin) / axis.factor;
    const found = [];
    if (axis.log && hi / lo > 5) {
      const steps = hi / lo > 2e3 ? [1] : [1, 2, 5];
      for (let p = Math.floor(Math.log10(lo)); p <= Math.ceil(Math.log10(hi)); p++)
        for (const step of steps) {
          const value = step * Math.pow(10, p);
          if (value >= lo * (1 - 1e-9) && value <= hi * (1 + 1e-9)) found.push([value * axis.factor, digits(value, 3)]);
        }
      return found;
    }
    const step = niceStep(hi - lo, about), decimals = Math.min(12, Math.max(0, -Math.floor(Math.log10(step))));
    for (let i = Math.ceil(lo / step - 1e-9); i <= Math.floor(hi / step + 1e-9); i++)
      found.push([i * step * axis.factor + axis.origin, (i * step).toFixed(decimals).replace("-", "−")]);
    return found;
  };

  const xAt = (series, i) => {
    const even = series.x.even;
    return even ? even.start + i * even.step : series.x.at[Math.min(i, series.x.at.length - 1)];
  };

  // The first value at or after x.
  const indexOf = (series, x) => {
    const even = series.x.even;
    if (even) return Math.max(0, Math.min(series.mid.length, Math.ceil((x - even.start) / even.step)));
    let from = 0, to = series.mid.length;
    while (from < to) {
      const middle = (from + to) >> 1;
      if (series.x.at[middle] < x) from = middle + 1; else to = middle;
    }
    return from;
  };

  const columnsOf = (series, axis) => {
    const columns = [];
    const first = Math.max(0, indexOf(series, axis.lo) - 2);
    const last = Math.min(series.mid.length - 1, indexOf(series, axis.hi) + 1);
    for (let i = first; i <= last; i++) {
      const x = position(axis, xAt(series, i), LEFT, RIGHT), pixel = Math.floor(x);
      const mid = series.mid[i], lo = series.lo.length ? series.lo[i] : mid, hi = series.hi.length ? series.hi[i] : mid;
      const column = columns[columns.length - 1];
      if (column && column.pixel === pixel) {
        column.lo = Math.min(column.lo, lo);
        column.hi = Math.max(column.hi, hi);
        column.sum += mid;
        column.n += 1;
      } else columns.push({ x, pixel, lo, hi, sum: mid, n: 1 });
    }
    for (const column of columns) column.mid = column.sum / column.n;
    return { columns, end: series.step ? position(axis, xAt(series, last + 1), LEFT, RIGHT) : NaN };
  };

  const drawSeries = (group, series, x, y) => {
    const { columns, end } = columnsOf(series, x);
    if (!columns.length) return;
    const up = (value) => position(y, value, BOTTOM, TOP).toFixed(1);
    const stepped = series.step && columns.length < (RIGHT - LEFT) / 2;
    const stop = series.step ? end : columns[columns.length - 1].x;
    const path = (value) => {
      let d = "", last = null;
      for (const column of columns) {
        const at = column.x.toFixed(1), here = up(value(column));
        if (stepped && last !== null) d += `L${at} ${last}`;
        d += `${d ? "L" : "M"}${at} ${here}`;
        last = here;
      }
      return series.step ? `${d}L${stop.toFixed(1)} ${last}` : d;
    };
    const add = (name, d) => group.append(element("path", { class: name, d }));
    if (series.look === "area") {
      const ground = up(Math.max(0, y.lo)), close = `L${stop.toFixed(1)} ${ground}L${columns[0].x.toFixed(1)} ${ground}Z`;
      if (columns.some((column) => column.hi > column.mid)) add("faint", path((column) => column.hi) + close);
      const means = path((column) => column.mid);
      add("area", means + close);
      add("edge", means);
    } else if (series.look === "ribbon") {
      add("ribbon", path((column) => column.hi)
        + columns.slice().reverse().map((column) => `L${column.x.toFixed(1)} ${up(column.lo)}`).join("") + "Z");
    } else if (series.look === "points") {
      add(`points c${series.colour}`, columns.map(({ x: at, lo, hi }) => `M${at.toFixed(1)} ${up(lo)}h0`
        + (up(lo) - up(hi) >= 1 ? `M${at.toFixed(1)} ${up(hi)}h0` : "")).join(""));
    } else if (series.look === "beat") {
      add(`beat c${series.colour}`, path((column) => column.mid));
    } else {
      let d = "", last = NaN;
      for (const { x: at, lo, hi } of columns) {
        // The nearer end first, or a steep line would look like a saw.
        const [near, far] = Math.abs(last - hi) < Math.abs(last - lo) ? [hi, lo] : [lo, hi];
        d += `${d ? "L" : "M"}${at.toFixed(1)} ${up(near)}` + (near === far ? "" : `L${at.toFixed(1)} ${up(far)}`);
        last = far;
      }
      add("line", d);
    }
  };

  const seconds = (s) => {
    const size = Math.abs(s);
    if (size === 0) return "0 s";
    if (size < 1e-3) return `${digits(s * 1e6, 3)} µs`;
    if (size < 1) return `${digits(s * 1e3, 3)} ms`;
    return `${digits(s, size < 100 ? 4 : 6)} s`;
  };

  const live = (figure) => {
    const svg = figure.querySelector("svg"), plot = JSON.parse(figure.querySelector("script").textContent);
    const whole = { lo: plot.x.lo, hi: plot.x.hi }, x = plot.x, y = plot.y;
    const [marks, legend] = ["marks", "legend"].map((name) => svg.querySelector(`g.${name}`));
    const axes = svg.querySelector("g.axes"), inside = svg.querySelector("g[clip-path]");
    const hatch = svg.querySelector("pattern").id;
    const readout = document.createElement("div"), reset = document.createElement("button");
    readout.className = "readout";
    readout.hidden = true;
    reset.textContent = "show all";
    reset.hidden = true;
    figure.append(readout, reset);
    figure.classList.add("live");
    const hair = element("line", { class: "hair", y1: TOP, y2: BOTTOM, visibility: "hidden" });
    svg.append(hair);

    const draw = () => {
      const names = [...axes.querySelectorAll("text.name")];
      axes.replaceChildren();
      for (const [value, label] of ticks(y, 5)) {
        const at = position(y, value, BOTTOM, TOP);
        axes.append(element("line", { class: "grid", x1: LEFT, x2: RIGHT, y1: at, y2: at }),
          element("text", { x: LEFT - 8, y: at + 4, "text-anchor": "end" }, label));
      }
      for (const [value, label] of ticks(x, 8)) {
        const at = position(x, value, LEFT, RIGHT);
        axes.append(element("line", { class: "tick", x1: at, x2: at, y1: BOTTOM, y2: BOTTOM + 5 }),
          element("text", { x: at, y: BOTTOM + 18, "text-anchor": "middle" }, label));
      }
      axes.append(element("line", { class: "base", x1: LEFT, x2: RIGHT, y1: BOTTOM, y2: BOTTOM }), ...names);
      inside.replaceChildren();
      for (const band of plot.bands) {
        if (band.to < x.lo || band.from > x.hi) continue;
        const from = position(x, band.from, LEFT, RIGHT), to = position(x, band.to, LEFT, RIGHT);
        const name = band.kind === "phase" ? `phase p${band.colour}` : band.kind;
        const [top, height] = band.lane ? [TOP + (band.lane - 1) * LANE, LANE - 2] : [TOP, BOTTOM - TOP];
        const rect = element("rect", { class: name, x: from, y: top, width: Math.max(to - from, 0.7), height });
        if (band.kind === "expected") rect.setAttribute("fill", `url(#${hatch})`);
        inside.append(rect);
      }
      for (const series of plot.series) drawSeries(inside, series, x, y);
      for (const [at, value] of plot.dots)
        inside.append(element("circle", { class: "dot", r: 3, cx: position(x, at, LEFT, RIGHT), cy: position(y, value, BOTTOM, TOP) }));
      marks.replaceChildren();
      const seen = plot.marks.map((mark) => [position(x, mark.at, LEFT, RIGHT), mark.strong ? "mark" : "mark weak", mark.label])
        .filter(([at]) => at >= LEFT && at <= RIGHT);
      for (const [at, name] of seen) marks.append(element("line", { class: name, x1: at, x2: at, y1: TOP, y2: BOTTOM }));
      const rows = [-Infinity, -Infinity, -Infinity];
      for (const [at, name, label] of seen) {
        const width = label.length * 6.6 + 10, row = rows.findIndex((end) => end <= at), left = at + width > RIGHT;
        if (row < 0) continue;
        rows[row] = at + width;
        marks.append(element("text", { class: name, x: at + (left ? -5 : 5), y: TOP + 12 + row * 15,
          "text-anchor": left ? "end" : "start" }, label));
      }
      svg.append(marks, legend, hair);
      reset.hidden = x.lo === whole.lo && x.hi === whole.hi;
    };

    const shareOf = (event) => {
      const box = svg.getBoundingClientRect(), at = (event.clientX - box.left) / box.width * WIDTH;
      return (at - LEFT) / (RIGHT - LEFT);
    };

    // Shows the stretch between two shares of what is seen now, held to the whole and to a millionth of it.
    const show = (from, to) => {
      let lo = valueAt(x, from), hi = valueAt(x, to);
      const least = (whole.hi - whole.lo) * 1e-6;
      if (!(hi - lo > least)) return;
      if (lo < whole.lo) { if (!x.log) hi = Math.min(whole.hi, hi + whole.lo - lo); lo = whole.lo; }
      if (hi > whole.hi) { if (!x.log) lo = Math.max(whole.lo, lo + whole.hi - hi); hi = whole.hi; }
      x.lo = lo;
      x.hi = hi;
      draw();
    };

    const all = () => { x.lo = whole.lo; x.hi = whole.hi; draw(); };

    let drag = null;
    svg.addEventListener("wheel", (event) => {
      // Scrolling past a picture must stay possible: what cannot be zoomed out any further lets the page move.
      const at = shareOf(event);
      if (at < 0 || at > 1 || (event.deltaY > 0 && x.lo === whole.lo && x.hi === whole.hi)) return;
      event.preventDefault();
      const factor = Math.exp(Math.max(-1, Math.min(1, event.deltaY / 240)));
      show(at - at * factor, at + (1 - at) * factor);
    }, { passive: false });
    svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      drag = { at: shareOf(event), lo: x.lo, hi: x.hi };
      svg.setPointerCapture(event.pointerId);
      svg.classList.add("dragging");
    });
    svg.addEventListener("pointermove", (event) => {
      const at = shareOf(event);
      if (drag) {
        x.lo = drag.lo;
        x.hi = drag.hi;
        const shift = drag.at - at;
        const free = Math.max(x.log ? Math.log(whole.lo / x.lo) / Math.log(x.hi / x.lo) : (whole.lo - x.lo) / (x.hi - x.lo),
          Math.min(x.log ? Math.log(whole.hi / x.hi) / Math.log(x.hi / x.lo) : (whole.hi - x.hi) / (x.hi - x.lo), shift));
        if (free) show(free, 1 + free); else draw();
      }
      hover(at);
    });
    const drop = () => { drag = null; svg.classList.remove("dragging"); };
    svg.addEventListener("pointerup", drop);
    svg.addEventListener("pointercancel", drop);
    svg.addEventListener("pointerleave", () => { readout.hidden = true; hair.setAttribute("visibility", "hidden"); });
    svg.addEventListener("dblclick", all);
    reset.addEventListener("click", all);

    const hover = (share) => {
      const series = plot.series[plot.series.length - 1];
      if (share < 0 || share > 1 || !series.mid.length) { readout.hidden = true; return; }
      const value = valueAt(x, share);
      let i = indexOf(series, value);
      if (series.step) i = Math.max(0, xAt(series, i) > value ? i - 1 : i);
      else if (i > 0 && value - xAt(series, i - 1) < xAt(series, i) - value) i -= 1;
      if (i >= series.mid.length) { readout.hidden = true; hair.setAttribute("visibility", "hidden"); return; }
      const here = x.log ? xAt(series, i) : value, shown = (v) => `${digits(v / y.factor, 3)} ${y.unit}`.trim();
      const what = series.hi.length && series.hi[i] !== series.lo[i]
        ? `${shown(series.lo[i])} to ${shown(series.hi[i])}` : shown(series.mid[i]);
      const where = x.unit === "Hz" ? `${digits(here, 3)} Hz = every ${seconds(1 / here)}` : seconds(here - x.origin);
      readout.textContent = `${where}: ${what}`;
      readout.hidden = false;
      const box = svg.getBoundingClientRect(), at = position(x, here, LEFT, RIGHT);
      hair.setAttribute("x1", at);
      hair.setAttribute("x2", at);
      hair.setAttribute("visibility", "visible");
      const half = readout.offsetWidth / 2;
      readout.style.left = `${Math.max(half, Math.min(box.width - half, at / WIDTH * box.width))}px`;
      readout.style.top = `${TOP / HEIGHT * box.height - 4}px`;
    };
  };

  const scaled = (value, units) => {
    let unit = 0;
    while (value >= 999.5 && unit + 1 < units.length) { value /= 1000; unit += 1; }
    return `${unit ? digits(value, 3) : value.toFixed(0)} ${units[unit]}`;
  };
  const bytes = (n) => scaled(n, ["B", "kB", "MB", "GB", "TB", "PB", "EB"]);

  // Tells what is under the pointer in a heat map. Cells are coded as activity_chart.rs says.
  const heat = (figure) => {
    const svg = figure.querySelector("svg"), map = JSON.parse(figure.querySelector("script").textContent);
    const CODES = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
    const cell = (row, column) => {
      const text = map.rows[row].slice(2 * column, 2 * column + 2);
      const code = text ? CODES.indexOf(text[0]) * 64 + CODES.indexOf(text[1]) : 0;
      return code ? map.hi * Math.exp(-(4095 - code) / map.per_e) : 0;
    };
    const readout = document.createElement("div");
    readout.className = "readout";
    readout.hidden = true;
    figure.append(readout);
    figure.classList.add("live");
    const width = (RIGHT - LEFT) / map.columns, height = map.height / map.rows.length;
    const here = element("rect", { class: "here", width, height, visibility: "hidden" });
    svg.append(here);
    const leave = () => { readout.hidden = true; here.setAttribute("visibility", "hidden"); };
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect(), scale = WIDTH / box.width;
      const column = Math.floor(((event.clientX - box.left) * scale - LEFT) / width);
      const row = Math.floor(((event.clientY - box.top) * scale - map.top) / height);
      if (column < 0 || column >= map.columns || row < 0 || row >= map.rows.length) { leave(); return; }
      const [first, last] = map.ranks[row], moved = cell(row, column), from = column * map.bin;
      const who = first < 0 ? "all ranks" : first === last ? `rank ${first}` : `ranks ${first} to ${last}`;
      const when = `${seconds(Math.abs(map.start) > 1e5 ? from : map.start + from)}`;
      readout.textContent = `${who} at ${when}: ` + (moved ? `${bytes(moved)} (${bytes(moved / map.bin)}/s)` : "nothing");
      readout.hidden = false;
      here.setAttribute("x", LEFT + column * width);
      here.setAttribute("y", map.top + row * height);
      here.setAttribute("visibility", "visible");
      const half = readout.offsetWidth / 2, at = (LEFT + (column + 0.5) * width) / scale;
      readout.style.left = `${Math.max(half, Math.min(box.width - half, at))}px`;
      readout.style.top = `${(map.top + row * height) / scale - 4}px`;
    });
  };

  // A search field above a table of files, and heads that sort it.
  const searchable = (box) => {
    const table = box.querySelector("table"), body = table.tBodies[0], rows = [...body.rows];
    const find = document.createElement("div"), field = document.createElement("input"), count = document.createElement("span");
    find.className = "find";
    field.type = "search";
    field.placeholder = "part of a name";
    field.setAttribute("aria-label", "search files");
    find.append(field, count);
    box.before(find);
    const names = rows.map((row) => row.cells[0].textContent.toLowerCase());
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row, i) => {
        row.hidden = !words.every((word) => names[i].includes(word));
        shown += row.hidden ? 0 : 1;
      });
      count.textContent = words.length ? `${shown} of ${rows.length}` : "";
    });
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, i) => {
      const button = document.createElement("button");
      button.textContent = head.textContent;
      head.replaceChildren(button);
      const key = (row) => i ? Number(row.cells[i].dataset.v) : row.cells[0].textContent;
      button.addEventListener("click", () => {
        // Numbers begin with the largest, names with A.
        const was = head.getAttribute("aria-sort"), up = was ? was === "descending" : i === 0;
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const sorted = rows.slice().sort((a, b) => {
          const one = key(a), two = key(b), order = one < two ? -1 : one > two ? 1 : 0;
          return up ? order : -order;
        });
        body.append(...sorted);
      });
    });
  };
  for (const box of document.querySelectorAll("div.files")) searchable(box);

  // Reading the data of a picture waits until a reader points at it: the page is there at once, however many runs.
  for (const figure of document.querySelectorAll("figure:not(.still)")) {
    const wake = figure.classList.contains("heat") ? heat : live;
    figure.addEventListener("pointerenter", () => wake(figure), { once: true });
  }
})();
