// Sorts tables by their heads and filters them by words. Nothing is fetched.
"use strict";
(() => {
  const button = (text) => { const node = document.createElement("button"); node.type = "button"; node.textContent = text; return node; };
  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0], rows = [...body.rows], heads = [...table.tHead.rows[0].cells];
    const key = (row, i) => {
      const cell = row.cells[i];
      return cell.dataset.v === undefined ? cell.textContent.toLowerCase() : Number(cell.dataset.v);
    };
    heads.forEach((head, i) => {
      if (head.dataset.still !== undefined) return;
      const press = button(head.textContent);
      head.replaceChildren(press);
      press.addEventListener("click", () => {
        // Numbers begin with the largest, names with A.
        const was = head.getAttribute("aria-sort"), up = was ? was === "descending" : typeof key(rows[0], i) === "string";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "ascending" : "descending");
        const sorted = rows.slice().sort((a, b) => {
          const one = key(a, i), two = key(b, i), order = one < two ? -1 : one > two ? 1 : 0;
          return up ? order : -order;
        });
        body.append(...sorted);
      });
    });
    if (table.dataset.filter === undefined || rows.length < 2) continue;
    const find = document.createElement("div"), field = document.createElement("input"), count = document.createElement("span");
    find.className = "find";
    field.type = "search";
    field.placeholder = "part of a name";
    field.setAttribute("aria-label", `search ${table.dataset.filter}`);
    count.setAttribute("aria-live", "polite");
    find.append(field, count);
    table.parentElement.before(find);
    const texts = rows.map((row) => row.cells[0].textContent.toLowerCase());
    field.addEventListener("input", () => {
      const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((row, i) => {
        row.hidden = !words.every((word) => texts[i].includes(word));
        shown += row.hidden ? 0 : 1;
      });
      count.textContent = words.length ? `${shown} of ${rows.length}` : "";
    });
  }
})();
