// Draws the pictures of a page at the width they have, makes them zoomable, and tables of files searchable. Each figure carries its plot as JSON and,
// already drawn, as SVG: without this script the page is complete. A picture is drawn again when it comes near the window.
// Classes and the rule "one column per pixel, lowest and highest kept" are those of chart.rs.
"use strict";
const charts = (() => {
  const LANE = 10, TOP = 28, BELOW = 44;
  const SVG = "http://www.w3.org/2000/svg";

  // How large a picture is in the page: a unit is a pixel, so that text has the size it says.
  const sizeOf = (figure) => {
    const width = Math.max(260, Math.round(figure.getBoundingClientRect().width)), height = width < 560 ? 250 : 300;
    return { width, height, left: 56, right: width - 14, top: TOP, bottom: height - BELOW };
  };

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

  const columnsOf = (series, axis, size) => {
    const columns = [];
    const first = Math.max(0, indexOf(series, axis.lo) - 2);
    const last = Math.min(series.mid.length - 1, indexOf(series, axis.hi) + 1);
    for (let i = first; i <= last; i++) {
      const x = position(axis, xAt(series, i), size.left, size.right), pixel = Math.floor(x);
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
    return { columns, end: series.step ? position(axis, xAt(series, last + 1), size.left, size.right) : NaN };
  };

  // As `smear` in chart.rs: where bursts are less than three columns apart, whether one falls into a column is chance. Values that are wider
  // than columns are seen one by one.
  const smear = (columns) => {
    const peaks = columns.filter(({ hi }, i) => i && i + 1 < columns.length && hi > columns[i - 1].hi && hi >= columns[i + 1].hi).length;
    if (3 * peaks < columns.length || columns[columns.length - 1].x - columns[0].x >= 2 * columns.length) return;
    const before = columns.map(({ lo, hi }) => ({ lo, hi }));
    columns.forEach((column, i) => {
      for (const { lo, hi } of before.slice(Math.max(0, i - 1), i + 2)) {
        column.lo = Math.min(column.lo, lo);
        column.hi = Math.max(column.hi, hi);
      }
    });
  };

  const drawSeries = (group, series, x, y, size, base) => {
    const { columns, end } = columnsOf(series, x, size);
    if (!columns.length) return;
    const isArea = series.look === "area" || series.look === "below", edge = series.look === "below" ? size.bottom : size.top;
    if (isArea) smear(columns);
    const up = (value) => {
      const at = position(y, value, base, edge);
      // Below the least of a logarithmic scale there is the other half.
      return (base !== size.bottom && (at - base) * (edge - base) < 0 ? base : at).toFixed(1);
    };
    const stepped = series.step && columns.length < (size.right - size.left) / 2;
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
    if (isArea) {
      const ground = up(Math.max(0, y.lo)), close = `L${stop.toFixed(1)} ${ground}L${columns[0].x.toFixed(1)} ${ground}Z`;
      const lowest = path((column) => column.lo), highest = path((column) => column.hi);
      if (lowest !== highest) add(`faint f${series.colour}`, highest + close);
      add(`area a${series.colour}`, lowest + close);
      add(`edge e${series.colour}`, highest);
    } else if (series.look === "ribbon") {
      add("ribbon", path((column) => column.hi)
        + columns.slice().reverse().map((column) => `L${column.x.toFixed(1)} ${up(column.lo)}`).join("") + "Z");
    } else if (series.look === "stack") {
      add(`stack s${series.colour}`, path((column) => column.hi) + columns.map((column, i) => {
        const right = i + 1 < columns.length ? columns[i + 1].x : stop, lo = up(column.lo);
        return `${stepped ? `L${right.toFixed(1)} ${lo}` : ""}L${column.x.toFixed(1)} ${lo}`;
      }).reverse().join("") + "Z");
    } else if (series.look === "points") {
      add(`points c${series.colour}`, columns.map(({ x: at, lo, hi }) => `M${at.toFixed(1)} ${up(lo)}h0`
        + (up(lo) - up(hi) >= 1 ? `M${at.toFixed(1)} ${up(hi)}h0` : "")).join(""));
    } else if (series.look === "beat") {
      add(`beat c${series.colour}${series.mid.length > 2 ? " wave" : ""}`, path((column) => column.mid));
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

  const drawTimeTicks = (axes, x, size) => {
    for (const [value, label] of ticks(x, Math.max(2, Math.floor((size.right - size.left) / 90)))) {
      const at = position(x, value, size.left, size.right), half = 3.6 * label.length;
      axes.append(element("line", { class: "tick", x1: at, x2: at, y1: size.bottom, y2: size.bottom + 5 }),
        element("text", { x: Math.min(at, size.width - half), y: size.bottom + 18, "text-anchor": "middle" }, label));
    }
    axes.append(element("line", { class: "base", x1: size.left, x2: size.right, y1: size.bottom, y2: size.bottom }),
      element("text", { class: "name", x: (size.left + size.right) / 2, y: size.bottom + 37, "text-anchor": "middle" }, x.label));
  };

  const button = (text, label, act) => {
    const node = document.createElement("button");
    node.type = "button";
    node.textContent = text;
    node.setAttribute("aria-label", label);
    node.title = label;
    node.addEventListener("click", act);
    return node;
  };

  // What all pictures over time have: a stretch of x that Ctrl+wheel, a drag, keys and buttons change. `draw` draws it, `tell` says what is under
  // a share of its width (and of its height) or null.
  const zoomable = (figure, svg, x, size, draw, tell, more) => {
    const whole = { lo: x.lo, hi: x.hi };
    const readout = document.createElement("div"), tools = document.createElement("div");
    readout.className = "readout";
    readout.hidden = true;
    tools.className = "tools";
    const middle = (factor) => show(0.5 - factor / 2, 0.5 + factor / 2);
    const reset = button("show all", "show all", () => all());
    reset.hidden = true;
    tools.append(...more, button("−", "zoom out", () => middle(2)), button("+", "zoom in", () => middle(0.5)), reset);
    figure.querySelector(".bar").append(tools);
    figure.append(readout);
    figure.classList.add("live");
    svg.setAttribute("tabindex", "0");
    const hair = element("line", { class: "hair", visibility: "hidden" }), chosen = element("rect", { class: "chosen", visibility: "hidden" });

    const redraw = () => {
      draw();
      svg.append(chosen, hair);
      reset.hidden = x.lo === whole.lo && x.hi === whole.hi;
    };
    // Shows the stretch between two shares of what is seen now, held to the whole and to a millionth of it.
    const show = (from, to) => {
      let lo = valueAt(x, from), hi = valueAt(x, to);
      if (!(hi - lo > (whole.hi - whole.lo) * 1e-6)) return;
      if (lo < whole.lo) { if (!x.log) hi = Math.min(whole.hi, hi + whole.lo - lo); lo = whole.lo; }
      if (hi > whole.hi) { if (!x.log) lo = Math.max(whole.lo, lo + whole.hi - hi); hi = whole.hi; }
      x.lo = lo;
      x.hi = hi;
      redraw();
    };
    const all = () => { x.lo = whole.lo; x.hi = whole.hi; redraw(); };
    // Moves by a share of what is seen, as far as there is something.
    const move = (share) => {
      const room = (edge, here) => x.log ? Math.log(edge / here) / Math.log(x.hi / x.lo) : (edge - here) / (x.hi - x.lo);
      const free = Math.max(room(whole.lo, x.lo), Math.min(room(whole.hi, x.hi), share));
      if (Math.abs(free) > 1e-9) show(free, 1 + free);
    };

    const shares = (event) => {
      const box = svg.getBoundingClientRect();
      return [((event.clientX - box.left) - size.left) / (size.right - size.left), ((event.clientY - box.top) - size.top) / (size.bottom - size.top)];
    };
    let drag = null;
    svg.addEventListener("wheel", (event) => {
      // The wheel alone scrolls the page.
      const [at] = shares(event);
      if (!(event.ctrlKey || event.metaKey) || at < 0 || at > 1) return;
      event.preventDefault();
      const factor = Math.exp(Math.max(-1, Math.min(1, event.deltaY / 240)));
      show(at - at * factor, at + (1 - at) * factor);
    }, { passive: false });
    svg.addEventListener("pointerdown", (event) => {
      const [at] = shares(event);
      if (event.button !== 0 || at < 0 || at > 1) return;
      drag = { at, moves: event.shiftKey };
      try { svg.setPointerCapture(event.pointerId); } catch { /* a pointer that is gone already */ }
    });
    const mark = (from, to) => {
      const width = size.right - size.left;
      for (const [name, value] of [["x", size.left + from * width], ["width", (to - from) * width], ["y", size.top],
        ["height", size.bottom - size.top], ["visibility", "visible"]]) chosen.setAttribute(name, value);
    };
    svg.addEventListener("pointermove", (event) => {
      const [at, down] = shares(event), held = Math.max(0, Math.min(1, at));
      if (drag && drag.moves) { move(drag.at - at); drag.at = at; }
      else if (drag) mark(Math.min(drag.at, held), Math.max(drag.at, held));
      hover(at, down);
    });
    const drop = (event) => {
      if (drag && !drag.moves && event.type === "pointerup") {
        const [at] = shares(event), held = Math.max(0, Math.min(1, at)), from = Math.min(drag.at, held), to = Math.max(drag.at, held);
        if ((to - from) * (size.right - size.left) >= 6) show(from, to);
      }
      drag = null;
      chosen.setAttribute("visibility", "hidden");
    };
    svg.addEventListener("pointerup", drop);
    svg.addEventListener("pointercancel", drop);
    const leave = () => { readout.hidden = true; hair.setAttribute("visibility", "hidden"); };
    svg.addEventListener("pointerleave", leave);
    svg.addEventListener("dblclick", all);
    svg.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      const acts = { ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), "+": () => middle(0.5), "=": () => middle(0.5),
        "-": () => middle(2), "0": all, Escape: all };
      if (!acts[event.key]) return;
      event.preventDefault();
      acts[event.key]();
    });
    const hover = (share, down) => {
      const told = share < 0 || share > 1 ? null : tell(share, down);
      if (!told) { leave(); return; }
      readout.textContent = told.text;
      readout.hidden = false;
      for (const [name, value] of [["x1", told.x], ["x2", told.x], ["y1", size.top], ["y2", size.bottom], ["visibility", "visible"]])
        hair.setAttribute(name, value);
      const half = readout.offsetWidth / 2, top = svg.getBoundingClientRect().top - figure.getBoundingClientRect().top;
      readout.style.left = `${Math.max(half, Math.min(size.width - half, told.x))}px`;
      readout.style.top = `${top + size.top - 4}px`;
    };
    // The picture has the width of its figure, whatever the window does.
    new ResizeObserver(() => {
      const now = sizeOf(figure);
      if (now.width !== size.width) { Object.assign(size, now); redraw(); }
    }).observe(figure);
    redraw();
  };

  const fit = (svg, size) => {
    svg.setAttribute("viewBox", `0 0 ${size.width} ${size.height}`);
    svg.setAttribute("width", size.width);
    svg.setAttribute("height", size.height);
  };

  const live = (figure) => {
    const svg = figure.querySelector("svg[role=img]"), plot = JSON.parse(figure.querySelector("script").textContent);
    const x = plot.x, y = plot.y, hasScales = /B\/s$/.test(y.unit) && (y.log ? !x.log : y.lo === 0);
    // Zero lies in the middle if series hang below it.
    const isMirrored = plot.series.some((series) => series.look === "below");
    const baseOf = (size) => isMirrored ? (size.top + size.bottom) / 2 : size.bottom;
    const size = sizeOf(figure), marks = svg.querySelector("g.marks");
    const axes = svg.querySelector("g.axes"), inside = svg.querySelector("g[clip-path]"), clip = svg.querySelector("clipPath rect");
    const hatch = svg.querySelector("pattern").id;

    const draw = () => {
      fit(svg, size);
      for (const [name, value] of [["x", size.left], ["y", size.top], ["width", size.right - size.left], ["height", size.bottom - size.top]])
        clip.setAttribute(name, value);
      axes.replaceChildren();
      const base = baseOf(size), ends = isMirrored ? [size.top, size.bottom] : [size.top];
      for (const end of ends) for (const [value, label] of ticks(y, isMirrored ? 3 : 5)) {
        const at = position(y, value, base, end);
        if (at < size.top - 1 || at > size.bottom + 1 || (end === size.bottom && at <= base)) continue;
        axes.append(element("line", { class: "grid", x1: size.left, x2: size.right, y1: at, y2: at }),
          element("text", { x: size.left - 8, y: at + 4, "text-anchor": "end" }, label));
      }
      if (isMirrored) axes.append(element("line", { class: "base", x1: size.left, x2: size.right, y1: base, y2: base }));
      drawTimeTicks(axes, x, size);
      axes.append(element("text", { class: "name", x: 4, y: 15, "text-anchor": "start" }, y.label + (y.log && hasScales ? ", logarithmic" : "")));
      inside.replaceChildren();
      for (const band of plot.bands) {
        if (band.to < x.lo || band.from > x.hi) continue;
        const from = position(x, band.from, size.left, size.right), to = position(x, band.to, size.left, size.right);
        const name = band.kind === "phase" ? `phase p${band.colour}` : band.kind;
        const [top, height] = band.lane ? [size.top + (band.lane - 1) * LANE, LANE - 2] : [size.top, size.bottom - size.top];
        const rect = element("rect", { class: name, x: from, y: top, width: Math.max(to - from, 1), height });
        if (band.kind === "expected") rect.setAttribute("fill", `url(#${hatch})`);
        inside.append(rect);
      }
      for (const series of plot.series) drawSeries(inside, series, x, y, size, base);
      for (const [at, value] of plot.dots)
        inside.append(element("circle", { class: "dot", r: 3, cx: position(x, at, size.left, size.right), cy: position(y, value, base, size.top) }));
      marks.replaceChildren();
      const seen = plot.marks.map((mark) => [position(x, mark.at, size.left, size.right), mark.strong ? "mark" : "mark weak", mark.label])
        .filter(([at]) => at >= size.left && at <= size.right);
      for (const [at, name] of seen) marks.append(element("line", { class: name, x1: at, x2: at, y1: size.top, y2: size.bottom }));
      const rows = [-Infinity, -Infinity, -Infinity];
      for (const [at, name, label] of seen) {
        const width = label.length * 6.6 + 10, left = at + width > size.right;
        const row = rows.findIndex((end) => end <= (left ? at - width : at));
        if (row < 0) continue;
        rows[row] = left ? at : at + width;
        marks.append(element("text", { class: name, x: at + (left ? -5 : 5), y: size.top + 12 + row * 15,
          "text-anchor": left ? "end" : "start" }, label));
      }
      svg.append(marks);
    };

    // What a stretch of nothing has no place for: from the least value that is shown, or a millionth of the highest.
    const positives = () => plot.series.flatMap((series) => (series.lo.length ? series.lo.concat(series.mid) : series.mid)).filter((value) => value > 0);
    const more = [];
    if (hasScales) {
      const log = button("log scale", "log scale", () => {
        const on = !(log.getAttribute("aria-pressed") === "true");
        log.setAttribute("aria-pressed", String(on));
        y.log = on;
        y.lo = on ? Math.max(y.hi / 1e6, positives().reduce((least, value) => Math.min(least, value), y.hi / 10)) : 0;
        figure.dispatchEvent(new Event("redraw"));
      });
      log.setAttribute("aria-pressed", String(y.log));
      more.push(log);
    }

    const valueOf = (series, value) => {
      let i = indexOf(series, value);
      if (series.step) i = Math.max(0, xAt(series, i) > value ? i - 1 : i);
      else if (i > 0 && (i >= series.mid.length || value - xAt(series, i - 1) < xAt(series, i) - value)) i -= 1;
      return i < series.mid.length ? i : -1;
    };
    const tell = (share) => {
      const value = valueAt(x, share);
      const shown = (v) => /B\/s$/.test(y.unit) ? `${bytes(Math.max(0, v))}/s` : `${digits(v / y.factor, 3)} ${y.unit}`.trim();
      const told = [];
      let here = value;
      for (const series of plot.series.filter((series) => (series.look !== "beat" || series.mid.length > 2) && (series.label || series === plot.series[plot.series.length - 1]))) {
        const i = valueOf(series, value);
        if (i < 0) continue;
        if (x.log || series.look === "points") here = xAt(series, i);
        const range = series.look !== "stack" && series.hi.length && series.hi[i] !== series.lo[i] ? `${shown(series.lo[i])} to ${shown(series.hi[i])}` : shown(series.mid[i]);
        told.push(series.label ? `${series.label} ${range}` : range);
      }
      if (!told.length) return null;
      const isTime = ["µs", "ms", "s", "h", "d"].includes(x.unit);
      const where = !isTime && x.unit !== "Hz" ? `${x.label} ${digits(here, 4)}` : x.unit === "Hz" ? `${digits(here, 3)} Hz = every ${seconds(1 / here)}` : seconds(here - x.origin);
      return { text: `${where}: ${told.join(", ")}`, x: position(x, here, size.left, size.right) };
    };
    figure.addEventListener("redraw", () => { draw(); svg.append(...svg.querySelectorAll(".chosen, .hair")); });
    zoomable(figure, svg, x, size, draw, tell, more);
  };

  const seconds = (s) => {
    const size = Math.abs(s);
    if (size === 0) return "0 s";
    if (size < 1e-3) return `${digits(s * 1e6, 3)} µs`;
    if (size < 1) return `${digits(s * 1e3, 3)} ms`;
    return `${digits(s, size < 100 ? 4 : 6)} s`;
  };

  const scaled = (value, units, step) => {
    let unit = 0;
    while (value >= step - 0.5 && unit + 1 < units.length) { value /= step; unit += 1; }
    return `${unit ? digits(value, 3) : value.toFixed(0)} ${units[unit]}`;
  };
  const isBinary = document.documentElement.dataset.units === "iec";
  const bytes = (n) => isBinary ? scaled(n, ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"], 1024) : scaled(n, ["B", "kB", "MB", "GB", "TB", "PB", "EB"], 1000);

  // A search field above a table, and heads that sort it. What a reader has chosen is in `box.now`; a box that takes its place gets it as `box.was`.
  const searchable = (box) => {
    const table = box.querySelector("table"), body = table.tBodies[0], rows = [...body.rows], isList = box.classList.contains("list");
    const now = box.now = Object.assign({ text: "", column: -1, up: true }, box.was);
    const find = document.createElement("div"), field = document.createElement("input"), count = document.createElement("span");
    const names = rows.map((row) => (isList ? row.textContent : row.cells[0].title || row.cells[0].textContent).toLowerCase());
    const search = () => {
      now.text = field.value;
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row, i) => {
        row.hidden = !words.every((word) => names[i].includes(word));
        shown += row.hidden ? 0 : 1;
      });
      count.textContent = words.length ? `${shown} of ${rows.length}` : "";
    };
    if (!isList || rows.length > 8) {
      find.className = "find";
      field.type = "search";
      field.placeholder = isList ? "part of a row" : "part of a name";
      field.setAttribute("aria-label", `search ${box.dataset.what || "files"}`);
      find.append(field, count);
      box.before(find);
      field.addEventListener("input", search);
      if (now.text) { field.value = now.text; search(); }
    }
    const heads = [...table.tHead.rows[0].cells];
    const sort = (i) => {
      // What has no number is sorted by its words.
      const key = (row) => row.cells[i].dataset.v === undefined ? row.cells[i].textContent.toLowerCase() : Number(row.cells[i].dataset.v);
      for (const other of heads) other.removeAttribute("aria-sort");
      heads[i].setAttribute("aria-sort", now.up ? "ascending" : "descending");
      const sorted = rows.slice().sort((a, b) => {
        const one = key(a), two = key(b), order = one < two ? -1 : one > two ? 1 : 0;
        return now.up ? order : -order;
      });
      body.append(...sorted);
    };
    heads.forEach((head, i) => {
      const button = document.createElement("button");
      button.textContent = head.textContent;
      head.replaceChildren(button);
      button.addEventListener("click", () => {
        // Numbers begin with the largest, names with A.
        const was = head.getAttribute("aria-sort");
        now.up = was ? was === "descending" : !rows.length || rows[0].cells[i].dataset.v === undefined;
        now.column = i;
        sort(i);
      });
    });
    if (now.column >= 0) sort(now.column);
  };

  // What draws each kind of picture; others add theirs.
  const kinds = { chart: live };

  // Reading the data of a picture waits until it comes near the window: the page is there at once, however many runs.
  const wake = (figure) => {
    if (figure.dataset.awake) return;
    figure.dataset.awake = "1";
    const kind = Object.keys(kinds).find((name) => figure.classList.contains(name));
    kinds[kind](figure);
  };
  const near = new IntersectionObserver((seen) => {
    for (const { isIntersecting, target } of seen) if (isIntersecting) { near.unobserve(target); wake(target); }
  }, { rootMargin: "400px" });
  const watch = (root) => {
    for (const figure of root.querySelectorAll("figure.chart, figure.heat, figure.timeline")) {
      near.observe(figure);
      figure.addEventListener("pointerenter", () => wake(figure), { once: true });
      figure.addEventListener("focusin", () => wake(figure), { once: true });
    }
    for (const box of root.querySelectorAll("div.files")) searchable(box);
  };
  watch(document);
  // On paper there is no window to come near to.
  addEventListener("beforeprint", () => { for (const figure of document.querySelectorAll("figure.chart, figure.heat, figure.timeline")) wake(figure); });
  return { kinds, watch, wake, zoomable, element, position, valueAt, sizeOf, fit, drawTimeTicks, seconds, bytes, TOP, BELOW };
})();
