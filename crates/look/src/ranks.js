// Heat maps and timelines of ranks, drawn by the parts that charts.js has.
(() => {
  const { kinds, zoomable, element, position, valueAt, sizeOf, fit, drawTimeTicks, seconds, bytes, TOP, BELOW } = charts;

  // A heat map of ranks over time: drawn at the width it has, and says what is under the pointer. Cells are coded as activity_chart.rs says.
  const heat = (figure) => {
    const svg = figure.querySelector("svg[role=img]"), map = JSON.parse(figure.querySelector("script").textContent);
    const CODES = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_";
    const cell = (row, column) => {
      const text = map.rows[row].slice(2 * column, 2 * column + 2);
      const code = text ? CODES.indexOf(text[0]) * 64 + CODES.indexOf(text[1]) : 0;
      return code ? map.hi * Math.exp(-(4095 - code) / map.per_e) : 0;
    };
    const size = sizeOf(figure), axes = svg.querySelector("g.axes"), cells = svg.querySelector("g.cells"), field = svg.querySelector("rect.field");
    const x = map.x, whole = { lo: x.lo, hi: x.hi };
    const labels = [...axes.querySelectorAll("text.row, line.row")], name = axes.querySelector("text.name.left");
    const draw = () => {
      size.height = map.top + map.height + BELOW;
      size.top = map.top;
      size.bottom = map.top + map.height;
      fit(svg, size);
      const width = size.right - size.left, zoom = (whole.hi - whole.lo) / (x.hi - x.lo);
      field.setAttribute("width", width);
      const from = (x.lo - whole.lo) / (whole.hi - whole.lo) * map.columns;
      cells.setAttribute("transform", `translate(${size.left} ${map.top}) scale(${width / map.columns * zoom} ${map.height / map.rows.length}) translate(${-from} .5)`);
      axes.replaceChildren(...labels, name);
      drawTimeTicks(axes, x, size);
      for (const node of svg.querySelectorAll("clipPath rect")) node.setAttribute("width", width);
    };
    const tell = (share, down) => {
      const column = Math.floor((valueAt(x, share) - map.start) / map.bin), row = Math.floor(down * map.rows.length);
      if (column < 0 || column >= map.columns || row < 0 || row >= map.rows.length) return null;
      const [first, last] = map.ranks[row], moved = cell(row, column), from = column * map.bin;
      const who = first < 0 ? "all ranks" : first === last ? `rank ${first}` : `ranks ${first} to ${last}`;
      const when = `${seconds(Math.abs(map.start) > 1e5 ? from : map.start + from)}`;
      return { text: `${who} at ${when}: ` + (moved ? `${bytes(moved)} (${bytes(moved / map.bin)}/s)` : "nothing"),
        x: position(x, map.start + (column + 0.5) * map.bin, size.left, size.right) };
    };
    zoomable(figure, svg, x, size, draw, tell, []);
  };

  // Calls of each rank over time: reads in the upper half of a row, writes in the lower. Stretches are gaps and lengths in base 36.
  const timeline = (figure) => {
    const svg = figure.querySelector("svg[role=img]"), data = JSON.parse(figure.querySelector("script").textContent);
    const x = data.x, size = sizeOf(figure), n = data.ranks.length;
    const decoded = (text) => {
      const numbers = text ? text.split(" ").map((number) => parseInt(number, 36)) : [], stretches = new Float64Array(numbers.length);
      let at = 0;
      for (let i = 0; i < numbers.length; i += 2) {
        stretches[i] = at + numbers[i];
        at = stretches[i + 1] = stretches[i] + numbers[i + 1];
      }
      return stretches;
    };
    const start = x.lo, ways = [["read", data.reads.map(decoded)], ["write", data.writes.map(decoded)]];
    const tall = Math.max(8, Math.min(22, Math.floor(260 / n))), height = tall * n;
    const field = element("rect", { class: "field" }), inside = element("g", {}), axes = element("g", { class: "axes" });
    svg.append(field, inside, axes);
    const draw = () => {
      size.top = TOP;
      size.bottom = TOP + height;
      size.height = size.bottom + BELOW;
      fit(svg, size);
      const width = size.right - size.left;
      for (const [name, value] of [["x", size.left], ["y", size.top], ["width", width], ["height", height]]) field.setAttribute(name, value);
      inside.replaceChildren();
      const scale = width / (x.hi - x.lo) * data.step_s, shift = (start - x.lo) * width / (x.hi - x.lo);
      for (const [half, [name, rows]] of ways.entries()) {
        let d = "";
        rows.forEach((stretches, row) => {
          const y = size.top + row * tall + half * tall / 2;
          let last = -Infinity;
          for (let i = 0; i < stretches.length; i += 2) {
            const from = Math.max(0, stretches[i] * scale + shift), to = Math.min(width, stretches[i + 1] * scale + shift);
            if (to < 0 || from > width || to <= last) continue;
            // No call is thinner than a pixel, and no pixel is drawn twice.
            const begin = Math.max(from, last), end = Math.min(width, Math.max(to, begin + 1));
            d += `M${(size.left + begin).toFixed(1)} ${y}h${(end - begin).toFixed(1)}v${tall / 2 - 1}h${(begin - end).toFixed(1)}z`;
            last = end;
          }
        });
        inside.append(element("path", { class: name, d }));
      }
      axes.replaceChildren();
      const step = Math.max(1, Math.ceil(14 / tall));
      data.ranks.forEach(([first], row) => {
        if (row % step) return;
        axes.append(element("text", { x: size.left - 8, y: size.top + (row + 0.5) * tall + 4, "text-anchor": "end" }, String(first)));
      });
      drawTimeTicks(axes, x, size);
      axes.append(element("text", { class: "name", x: 4, y: 15 }, data.ranks[0][0] === data.ranks[0][1] ? "rank" : "first rank of a row"));
    };
    const tell = (share, down) => {
      const row = Math.floor(down * n);
      if (row < 0 || row >= n) return null;
      const value = valueAt(x, share), at = (value - start) / data.step_s, slack = (x.hi - x.lo) / (size.right - size.left) / data.step_s;
      const [first, last] = data.ranks[row], who = first === last ? `rank ${first}` : `ranks ${first} to ${last}`;
      const doing = ways.filter(([, rows]) => {
        const stretches = rows[row];
        for (let i = 0; i < stretches.length; i += 2) if (stretches[i] - slack <= at && at <= stretches[i + 1] + slack) return true;
        return false;
      }).map(([name]) => name === "read" ? "reading" : "writing");
      return { text: `${who} at ${seconds(value - x.origin)}: ${doing.join(" and ") || "nothing"}`, x: position(x, value, size.left, size.right) };
    };
    zoomable(figure, svg, x, size, draw, tell, []);
  };

  kinds.heat = heat;
  kinds.timeline = timeline;
})();
