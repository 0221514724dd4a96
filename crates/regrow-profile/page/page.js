"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const nodes = data.nodes;
  const size = nodes.parent.length;
  const at = (id) => document.getElementById(id);
  /** Rows of the table before it is asked for all. */
  const FIRST_ROWS = 300;
  /** Boxes that are narrower are not drawn. */
  const NARROWEST_PX = 1;
  const MOST_BOXES = 20000;
  const ROW_PX = 20;

  /** A name without what turns the direction of writing or is not seen. */
  const plain = (text) =>
    text.replace(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g, (each) => "\\u{" + each.codePointAt(0).toString(16) + "}");
  const element = (name, text, className) => {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = plain(String(text));
    if (className) made.className = className;
    return made;
  };
  const fileName = (path) => path.replace(/\/+$/, "").split("/").pop() || path;
  const time = (us) => {
    if (us === 0) return "0";
    if (us < 999.5) return us.toFixed(us < 9.95 ? 1 : 0) + " µs";
    const [value, unit] = us < 999500 ? [us / 1e3, " ms"] : [us / 1e6, " s"];
    return value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0) + unit;
  };
  const share = (part, whole) => (whole > 0 ? ((100 * part) / whole).toFixed(1) + " %" : "–");
  const sum = (of) => (of ? of.sum_us : 0);

  // The tree: what a node has, with all below it.
  const own = { count: nodes.count, cpu: nodes.cpu_us, life: nodes.life_us, saved: nodes.saved_us };
  const whole = {};
  const children = Array.from({ length: size + 1 }, () => []);
  for (let index = 0; index < size; index++) children[nodes.parent[index] < 0 ? size : nodes.parent[index]].push(index);
  for (const by in own) {
    const total = Float64Array.from(own[by].concat([0]));
    for (let index = size - 1; index >= 0; index--) total[nodes.parent[index] < 0 ? size : nodes.parent[index]] += total[index];
    whole[by] = total;
  }
  const nameOf = (node) => (node === size ? "all" : data.names[nodes.name[node]]);
  const siteOf = (node) => (node === size || nodes.site[node] < 0 ? null : data.sites[nodes.site[node]]);
  const parentOf = (node) => (nodes.parent[node] < 0 ? size : nodes.parent[node]);
  const placeOf = (site) => site.place || (site.parent ? fileName(site.parent) : "");

  // What is looked at; it stands in the address, so that a view can be handed on.
  const fromAddress = new URLSearchParams(location.hash.slice(1));
  const view = {
    by: own[fromAddress.get("by")] ? fromAddress.get("by") : whole.cpu[size] > 0 ? "cpu" : "count",
    zoom: size,
    search: fromAddress.get("search") || "",
    sort: fromAddress.get("sort") || "count",
    ascending: fromAddress.get("ascending") === "1",
    all: false,
    open: new Set(),
  };
  const zoomed = Number.parseInt(fromAddress.get("zoom") || "", 10);
  if (zoomed >= 0 && zoomed < size) view.zoom = zoomed;
  const keepInAddress = () => {
    const to = new URLSearchParams({ by: view.by, sort: view.sort });
    if (view.zoom !== size) to.set("zoom", view.zoom);
    if (view.search) to.set("search", view.search);
    if (view.ascending) to.set("ascending", "1");
    try {
      history.replaceState(null, "", "#" + to);
    } catch {
      // A viewer without a history.
    }
  };

  // Search: a site is found by anything that is written of it.
  const wordsOf = (site) =>
    [site.parent, site.place, site.function, site.through, site.script, site.child, site.saved.refused]
      .concat(site.programs, site.frames.flatMap((frame) => [frame.text, frame.module, frame.function, frame.file]))
      .filter(Boolean).join("\n").toLowerCase();
  const words = data.sites.map(wordsOf);
  const isFound = (site) => words[site].includes(view.search.toLowerCase());
  const isNodeFound = (node) => nodeNames(node) || (nodes.site[node] >= 0 && isFound(nodes.site[node]));
  const nodeNames = (node) => node < size && nameOf(node).toLowerCase().includes(view.search.toLowerCase());

  const hue = (name) => {
    let hash = 2166136261;
    for (const character of name) hash = Math.imul(hash ^ character.codePointAt(0), 16777619);
    return ((hash >>> 0) % 360).toString();
  };

  const flame = at("flame");
  const boxOf = (node, left, width, depth, isAbove) => {
    const box = element("div", nameOf(node), "box" + (isAbove ? " above" : ""));
    const site = siteOf(node);
    if (site) box.append(element("span", placeOf(site)));
    if (view.search) box.classList.add(node < size && isNodeFound(node) ? "found" : "faded");
    box.style.left = 100 * left + "%";
    box.style.width = 100 * width + "%";
    box.style.top = depth * ROW_PX + "px";
    if (node === size) box.classList.add("all");
    else box.style.setProperty("--hue", hue(nameOf(node)));
    box.dataset.node = node;
    box.tabIndex = 0;
    box.setAttribute("role", "treeitem");
    box.setAttribute("aria-level", depth + 1);
    box.setAttribute("aria-label", plain(`${nameOf(node)}${site ? ", created at " + placeOf(site) : ""}`));
    return box;
  };

  const drawFlame = () => {
    const total = whole[view.by];
    const narrowest = NARROWEST_PX / Math.max(flame.clientWidth, 300);
    const boxes = [];
    const above = [];
    for (let node = view.zoom; node !== size; ) above.unshift((node = parentOf(node)));
    above.forEach((node, depth) => boxes.push(boxOf(node, 0, 1, depth, true)));
    let deepest = above.length;
    let leftOut = 0;
    const work = total[view.zoom] > 0 ? [[view.zoom, 0, 1, above.length]] : [];
    while (work.length) {
      const [node, left, width, depth] = work.pop();
      if (boxes.length >= MOST_BOXES) {
        leftOut += 1;
        continue;
      }
      boxes.push(boxOf(node, left, width, depth, false));
      deepest = Math.max(deepest, depth);
      let start = left;
      const below = [];
      for (const child of children[node].slice().sort((a, b) => total[b] - total[a])) {
        const part = total[child] / total[view.zoom];
        if (part < narrowest) {
          leftOut += 1;
          continue;
        }
        below.push([child, start, part, depth + 1]);
        start += part;
      }
      // The leftmost comes next, so that the keyboard goes from left to right.
      work.push(...below.reverse());
    }
    flame.replaceChildren(...boxes);
    flame.style.height = Math.min((deepest + 1) * ROW_PX + 4, 512) + "px";
    at("out").hidden = view.zoom === size;
    const missing = leftOut ? ` Too small to draw, until you zoom in: ${leftOut}.` : "";
    at("flame-note").textContent =
      total[view.zoom] > 0 ? "A box is all processes created alike; those below it were created by them. Click a box to zoom in." + missing : "Nothing to draw by this measure.";
  };

  // Details beside the pointer.
  const tip = at("tip");
  const fact = (list, name, value) => list.append(element("dt", name), element("dd", value));
  const showTip = (node, x, y) => {
    const site = siteOf(node);
    tip.replaceChildren(element("b", nameOf(node)));
    if (site) {
      const where = [placeOf(site), site.function && `in ${site.function}`, site.through && `by ${site.through}`, site.parent && `of ${site.parent}`];
      tip.append(element("div", where.filter(Boolean).join(" "), "dim"));
    }
    const list = element("dl");
    const of = (by, tell) => `${tell(whole[by][node])}  (${share(whole[by][node], whole[by][size])})`;
    fact(list, "processes, with those below", of("count", String));
    fact(list, "processor time", of("cpu", time));
    fact(list, "Regrow would have saved, about", of("saved", time));
    if (node < size) {
      fact(list, "processes of its own", nodes.count[node]);
      fact(list, "their processor time", time(nodes.cpu_us[node]));
      fact(list, "their lives", time(nodes.life_us[node]));
    }
    tip.append(list);
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(4, Math.min(x + 14, innerWidth - box.width - 8)) + "px";
    tip.style.top = (y + 18 + box.height > innerHeight ? Math.max(4, y - box.height - 12) : y + 18) + "px";
  };
  const nodeAt = (event) => {
    const box = event.target.closest(".box");
    return box ? Number(box.dataset.node) : null;
  };
  flame.addEventListener("mousemove", (event) => {
    const node = nodeAt(event);
    if (node === null) tip.hidden = true;
    else showTip(node, event.clientX, event.clientY);
  });
  flame.addEventListener("mouseleave", () => (tip.hidden = true));
  flame.addEventListener("focusin", (event) => {
    const node = nodeAt(event);
    if (node !== null && event.target.matches(":focus-visible")) {
      const box = event.target.getBoundingClientRect();
      showTip(node, box.left, box.bottom - 10);
    }
  });
  flame.addEventListener("focusout", () => (tip.hidden = true));
  const zoomTo = (node) => {
    view.zoom = node;
    tip.hidden = true;
    drawFlame();
    keepInAddress();
  };
  flame.addEventListener("click", (event) => {
    const node = nodeAt(event);
    if (node !== null) zoomTo(node);
  });
  flame.addEventListener("keydown", (event) => {
    const node = nodeAt(event);
    if (node !== null && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      zoomTo(node);
    }
  });
  at("out").addEventListener("click", () => zoomTo(size));
  addEventListener("keydown", (event) => {
    if (event.key === "Escape") zoomTo(size);
  });

  // The table.
  const columns = [
    { key: "place", name: "created at", text: true, of: (site) => placeOf(site) },
    { key: "child", name: "child", text: true, of: (site) => site.child },
    { key: "count", name: "count", of: (site) => site.count, tell: String },
    { key: "cpu", name: "cpu, all", of: (site) => sum(site.cpu), tell: time },
    { key: "cpu_mean", name: "cpu, mean", of: (site) => site.cpu && site.cpu.mean_us, tell: time },
    { key: "cpu_p99", name: "cpu, p99", of: (site) => site.cpu && site.cpu.p99_us, tell: time },
    { key: "life_mean", name: "life, mean", of: (site) => site.life && site.life.mean_us, tell: time },
    { key: "life_p99", name: "life, p99", of: (site) => site.life && site.life.p99_us, tell: time },
    { key: "startup", name: "start-up", of: (site) => site.startup_share, tell: (part) => (100 * part).toFixed(0) + " %" },
    { key: "saved", name: "saved, about", of: (site) => (site.saved.from === "nothing" ? null : site.saved.total_us), tell: time },
  ];
  if (!columns.some((column) => column.key === view.sort)) view.sort = "count";

  const nameCell = (site) => {
    const cell = element("td", undefined, "name");
    cell.append(element("div", placeOf(site) || "–"));
    const isNamed = site.function && /:\d+/.test(site.place);
    const more = [isNamed && site.function, site.through && `by ${site.through}`, site.parent && fileName(site.parent)].filter(Boolean).join(" · ");
    if (more) cell.append(element("div", more, "dim"));
    return cell;
  };
  const childCell = (site) => {
    const cell = element("td", undefined, "name");
    cell.append(element("div", site.child));
    const why = site.saved.refused && (site.programs.length ? "not recycled: " : "") + site.saved.refused;
    if (why) cell.append(element("div", why, "refused"));
    return cell;
  };
  const details = (site) => {
    const list = element("ol", undefined, "frames");
    for (const frame of site.frames) {
      const where = frame.file ? `${frame.file}:${frame.line}` : `${frame.module || "?"}+0x${frame.offset.toString(16)}`;
      list.append(element("li", `${frame.function || "?"}  ${where}`));
    }
    if (site.parent) list.append(element("li", site.parent));
    for (const program of site.programs) list.append(element("li", "→ " + (program || "?")));
    list.append(element("li", `children: ${site.children}, alive: ${site.alive}, peak memory: ${site.peak_kib ? site.peak_kib + " KiB" : "not known"}`));
    return list;
  };
  const rowOf = (number) => {
    const site = data.sites[number];
    const row = element("tr");
    row.dataset.site = number;
    row.tabIndex = 0;
    row.append(nameCell(site), childCell(site));
    for (const column of columns.slice(2)) {
      const value = column.of(site);
      row.append(element("td", value === null || value === undefined ? "–" : column.tell(value)));
    }
    if (view.open.has(number)) row.firstChild.append(details(site));
    return row;
  };
  const drawTable = () => {
    const column = columns.find((each) => each.key === view.sort);
    const direction = (view.ascending ? 1 : -1) * (column.text ? -1 : 1);
    const order = (a, b) => {
      const [left, right] = [column.of(data.sites[a]), column.of(data.sites[b])];
      if (column.text) return direction * String(left).localeCompare(String(right)) || a - b;
      return direction * ((left ?? -1) - (right ?? -1)) || a - b;
    };
    const found = data.sites.map((_, number) => number).filter(isFound).sort(order);
    const shown = view.all ? found : found.slice(0, FIRST_ROWS);
    document.querySelector("#sites tbody").replaceChildren(...shown.map(rowOf));
    const heads = columns.map((each) => {
      const head = element("th", each.name, each.text ? "left" : "");
      head.scope = "col";
      head.tabIndex = 0;
      head.dataset.sort = each.key;
      if (each.key === view.sort) head.setAttribute("aria-sort", view.ascending === !each.text ? "ascending" : each.text && !view.ascending ? "ascending" : "descending");
      return head;
    });
    document.querySelector("#sites thead tr").replaceChildren(...heads);
    at("shown").textContent = `${found.length} of ${data.sites.length} sites`;
    at("all").hidden = shown.length === found.length;
    at("all").textContent = `show all ${found.length} sites`;
  };
  const sortBy = (key) => {
    view.ascending = view.sort === key ? !view.ascending : false;
    view.sort = key;
    drawTable();
    keepInAddress();
  };
  const onTable = (event) => {
    const head = event.target.closest("th");
    const row = event.target.closest("tbody tr");
    if (head) sortBy(head.dataset.sort);
    if (row) {
      const number = Number(row.dataset.site);
      if (!view.open.delete(number)) view.open.add(number);
      const fresh = rowOf(number);
      row.replaceWith(fresh);
      fresh.focus({ preventScroll: true });
    }
  };
  at("sites").addEventListener("click", (event) => {
    // Whoever selects text does not want a row to fold.
    if (String(getSelection()) === "") onTable(event);
  });
  at("sites").addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      onTable(event);
    }
  });
  at("all").addEventListener("click", () => {
    view.all = true;
    drawTable();
  });

  const drawFound = () => {
    const output = at("found");
    output.textContent = "";
    if (!view.search) return;
    let processes = 0;
    for (let node = 0; node < size; node++) if (isNodeFound(node)) processes += nodes.count[node];
    output.textContent = `found: ${processes} processes, ${share(processes, whole.count[size])}`;
  };
  at("search").value = view.search;
  at("search").addEventListener("input", (event) => {
    view.search = event.target.value;
    drawFlame();
    drawTable();
    drawFound();
    keepInAddress();
  });
  at("by").value = view.by;
  at("by").addEventListener("change", (event) => {
    view.by = event.target.value;
    drawFlame();
    keepInAddress();
  });
  at("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
  });
  let lastWidth = 0;
  addEventListener("resize", () => {
    if (flame.clientWidth !== lastWidth) drawFlame();
    lastWidth = flame.clientWidth;
  });

  // What stands above and below.
  at("title").textContent = plain(data.title);
  const cards = [
    [whole.count[size], "processes"],
    [data.sites.length, "creation sites"],
    [time(whole.cpu[size]), "processor time"],
    [time(data.span_us), "from first to last"],
    [time(data.saved_us), "Regrow would have saved, about", "saved"],
  ];
  for (const [value, name, className] of cards) {
    const card = element("li", undefined, className);
    card.append(element("b", value), element("span", name, "dim"));
    at("summary").append(card);
  }
  at("basis").textContent = plain(
    `Saved by Regrow is an estimate: a start that is recycled is quicker by ${time(data.basis.base_us)} (${data.basis.from}), and by as much as the program's own start-up is longer than that of the quickest program here.`);
  const { unknown_ends: unknown, lost_ends: lost, left_out: left } = data.counts;
  const told = [[unknown, "ends of processes that nothing was told of before"], [lost, "processes whose end was not told"], [left, "processes that were left out: too many lived at a time"]]
    .filter(([count]) => count > 0).map(([count, what]) => `${count} ${what}`);
  at("told").hidden = told.length === 0;
  at("told").textContent = "Not complete: " + told.join("; ") + ".";

  drawFlame();
  drawTable();
  drawFound();
})();
