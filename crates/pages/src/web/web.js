// Keeps a page of the daemon as new as the daemon: rates come as events, sections are asked for again and put in the place of those that have changed.
// Everything on the page is there without this script; it makes no markup of its own from text.
(() => {
  const signal = document.getElementById("signal");

  // Times in the reader's zone: those of today without the date.
  const zone = (root) => {
    const today = new Date().toDateString();
    for (const time of root.querySelectorAll("time[datetime]")) {
      const date = new Date(time.dateTime);
      if (Number.isNaN(date.getTime())) continue;
      time.title = time.textContent;
      const clock = { hour: "2-digit", minute: "2-digit", second: "2-digit" };
      time.textContent = date.toDateString() === today ? date.toLocaleTimeString([], clock)
        : date.toLocaleString([], { year: "numeric", month: "short", day: "numeric", hour: "2-digit", minute: "2-digit" });
    }
  };

  // What the daemon's clock says.
  let ahead = Number(document.body.dataset.now) * 1000 - Date.now();
  const now = () => (Date.now() + ahead) / 1000;
  const countDown = () => {
    for (const node of document.querySelectorAll("[data-until]")) {
      const left = Number(node.dataset.until) - now();
      node.textContent = left < 0.5 ? "now" : `in ${charts.seconds(Math.round(left))}`;
    }
  };

  // Sections as the daemon last said them.
  const said = firstSaid;
  const isBusy = (section) => {
    const held = document.activeElement;
    if (held && section.contains(held) && /^(INPUT|SELECT|TEXTAREA)$/.test(held.tagName)) return true;
    if (getSelection().toString() && section.contains(getSelection().anchorNode)) return true;
    return [...section.querySelectorAll("figure.live")].some((figure) => figure.matches(":hover") || figure.contains(held)
      || [...figure.querySelectorAll(".tools button")].some((button) => button.textContent === "show all" && !button.hidden));
  };
  const keep = (old, fresh) => {
    for (const box of fresh.querySelectorAll("div.files[data-what]")) {
      const before = [...old.querySelectorAll("div.files[data-what]")].find((other) => other.dataset.what === box.dataset.what);
      if (before) box.was = before.now;
    }
    const were = [...old.querySelectorAll("details")];
    [...fresh.querySelectorAll("details")].forEach((details, i) => { if (were[i]) details.open = were[i].open; });
    const scrolled = [...old.querySelectorAll("div.files")].map((box) => [box.scrollTop, box.scrollLeft]);
    return () => [...fresh.querySelectorAll("div.files")].forEach((box, i) => { if (scrolled[i]) [box.scrollTop, box.scrollLeft] = scrolled[i]; });
  };
  const swap = (text, isAsked) => {
    const fresh = new DOMParser().parseFromString(text, "text/html");
    ahead = Number(fresh.body.dataset.now) * 1000 - Date.now();
    let last = document.querySelector("main > header");
    for (const part of fresh.querySelectorAll("main > [id]")) {
      const old = document.getElementById(part.id), html = part.outerHTML;
      if (!old) {
        const node = document.importNode(part, true);
        last.after(node);
        zone(node);
        charts.watch(node);
        last = node;
      } else {
        last = old;
        if (!("live" in part.dataset) || said.get(part.id) === html || (!isAsked && isBusy(old))) continue;
        const node = document.importNode(part, true), again = keep(old, node);
        zone(node);
        old.replaceWith(node);
        charts.watch(node);
        again();
        last = node;
      }
      said.set(part.id, html);
    }
    countDown();
  };

  let asked = 0, isAsking = false;
  const refresh = async (isAsked) => {
    if (isAsking && !isAsked) return;
    const mine = ++asked;
    isAsking = true;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
      const text = await answer.text();
      if (mine === asked && answer.ok) swap(text, isAsked);
      if (answer.status === 401) tell("logged out", "off");
    } catch { /* the daemon is away; events say so */ }
    isAsking = false;
  };

  const tell = (text, state) => {
    if (!signal) return;
    signal.title = text;
    signal.setAttribute("aria-label", text);
    signal.dataset.state = state;
  };

  zone(document);
  setInterval(countDown, 1000);

  // A form that changes what is shown as its slider moves.
  for (const form of document.querySelectorAll("form[data-swap]")) {
    const output = form.querySelector("output");
    let waiting = 0;
    form.addEventListener("submit", (event) => { event.preventDefault(); refresh(true); });
    form.addEventListener("input", () => {
      const slider = form.querySelector("input[type=range]");
      if (output && slider) output.textContent = Math.round(2 ** (slider.value / Number(output.dataset.doubling))).toLocaleString("en").replaceAll(",", "\u202f");
      clearTimeout(waiting);
      waiting = setTimeout(() => {
        history.replaceState(null, "", `${form.getAttribute("action")}?${new URLSearchParams(new FormData(form))}`);
        refresh(true);
      }, 120);
    });
  }

  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    const field = document.querySelector("main input[type=search]");
    event.preventDefault();
    if (field) field.focus(); else location.assign("/search");
  });

  if (!signal || !document.querySelector("[data-live]")) return;
  const events = new EventSource("/api/1/events?rates=1");
  let soon = 0;
  const shortly = () => { if (!soon) soon = setTimeout(() => { soon = 0; refresh(false); }, 400); };
  tell("connecting", "wait");
  events.addEventListener("open", () => tell("live", "on"));
  events.addEventListener("error", () => tell(events.readyState === EventSource.CLOSED ? "no longer live" : "connecting again", "off"));
  events.addEventListener("rates", (event) => {
    const { jobs } = JSON.parse(event.data);
    for (const node of document.querySelectorAll("[data-rate]")) {
      const rates = jobs[node.dataset.job];
      if (!rates) continue;
      const bps = rates[node.dataset.rate === "read" ? 0 : 1];
      node.dataset.v = bps;
      node.textContent = `${charts.bytes(bps)}/s`;
    }
  });
  for (const kind of ["job", "prediction", "model", "alarm"]) events.addEventListener(kind, shortly);
  setInterval(() => { if (!document.hidden && events.readyState === EventSource.OPEN) refresh(false); }, 5000);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) shortly(); });
  addEventListener("pagehide", () => events.close());
  addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
})();
