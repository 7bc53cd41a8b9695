"use strict";
// The page's own behaviour: which lines belong together, which panels are open, and the drawings of layouts.  All that
// it shows of a kernel it sets as text, never as markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const said = document.getElementById("said");
  const kernels = [...document.querySelectorAll("main.kernel")];

  // ---- kernels and themes ----------------------------------------------------------------------------------------

  const chooser = document.getElementById("kernel");
  const show = id => kernels.forEach(each => { each.hidden = each.id !== id; });
  if (chooser) {
    show(chooser.value);
    chooser.addEventListener("change", () => show(chooser.value));
  }
  document.getElementById("theme").addEventListener("click", () => {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    kernels.forEach(each => each.dispatchEvent(new Event("theme")));
  });

  // ---- lines that belong together --------------------------------------------------------------------------------

  const numbers = element => (element.dataset.p || "").split(" ").filter(Boolean);

  // Where most of some lines are: the first of those that have the most others in the screen below them.
  function densest(lines) {
    const tops = lines.map(each => each.offsetTop);
    let best = 0, most = 0, end = 0;
    for (let n = 0; n < tops.length; n++) {
      while (end < tops.length && tops[end] - tops[n] < 400) end++;
      if (end - n > most) { most = end - n; best = n; }
    }
    return lines[best];
  }

  function align(kernel, known) {
    const byPlace = new Map();
    const byPtx = new Map();
    const ptxLines = kernel.querySelectorAll('.pane[data-level="ptx"] .l');
    for (const element of kernel.querySelectorAll("[data-p]")) {
      if (element.classList.contains("at")) continue;
      for (const place of numbers(element)) {
        if (!byPlace.has(place)) byPlace.set(place, []);
        byPlace.get(place).push(element);
      }
    }
    for (const element of kernel.querySelectorAll(".l[data-x]")) {
      const line = ptxLines[element.dataset.x - 1];
      if (!line) continue;
      byPtx.set(element, [line]);
      if (!byPtx.has(line)) byPtx.set(line, []);
      byPtx.get(line).push(element);
    }
    let lit = [];
    let kept = null;

    function clear() {
      for (const element of lit) element.classList.remove("lit", "kept", "exact");
      lit = [];
    }
    function light(source, kind) {
      clear();
      const found = new Set(source.classList.contains("l") ? [source] : []);
      // The innermost place is where the code is; the others are the calls that it was inlined by.
      for (const place of numbers(source).slice(0, 1)) for (const each of byPlace.get(place) || []) found.add(each);
      for (const element of found) { element.classList.add(kind); lit.push(element); }
      for (const element of byPtx.get(source) || []) { element.classList.add("exact", kind); lit.push(element); }
      return found;
    }
    function keep(source) {
      kept = source;
      const found = light(source, "kept");
      const counts = [];
      for (const pane of kernel.querySelectorAll(".pane")) {
        const lines = [...pane.querySelectorAll(".l.kept")];
        if (!lines.length) continue;
        counts.push(`${lines.length} of ${pane.dataset.level}`);
        if (pane.hidden || pane.contains(source)) continue;
        const box = pane.querySelector(".code");
        const first = pane.querySelector(".l.exact") || densest(lines);
        box.scrollTop = first.offsetTop - box.offsetTop - box.clientHeight / 3;
      }
      const place = numbers(source)[0];
      said.textContent = `${place === undefined ? "no line of the source" : known.places[place]}: ${counts.join(", ")}`;
      return found;
    }
    function release() { kept = null; clear(); said.textContent = ""; }

    const target = event => event.target.closest(".l, rect[data-p]");
    kernel.addEventListener("mouseover", event => {
      const source = target(event);
      if (!kept && source) light(source, "lit");
    });
    kernel.addEventListener("click", event => {
      const button = event.target.closest("button.at");
      const source = button ? (byPlace.get(numbers(button)[0]) || []).find(each => each.classList.contains("l")) : target(event);
      if (!source) return;
      if (source === kept) release(); else keep(source);
      if (button) source.closest("section").scrollIntoView({block: "start"});
    });
    for (const box of kernel.querySelectorAll(".code")) {
      const lines = [...box.querySelectorAll(".l")];
      let at = -1;
      box.addEventListener("keydown", event => {
        const step = {ArrowDown: 1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -lines.length, End: lines.length}[event.key];
        if (step !== undefined) {
          if (at >= 0) lines[at].classList.remove("at");
          at = Math.max(0, Math.min(lines.length - 1, at + step));
          const line = lines[at];
          line.classList.add("at");
          line.id = line.id || `${kernel.id}-${box.getAttribute("aria-label")}-${at + 1}`;
          box.setAttribute("aria-activedescendant", line.id);
          line.scrollIntoView({block: "nearest"});
          if (!kept) light(line, "lit");
        } else if (event.key === "Enter" && at >= 0) keep(lines[at]);
        else if (event.key === "Escape") release();
        else return;
        event.preventDefault();
      });
    }
    for (const box of kernel.querySelectorAll("input[data-level]")) {
      box.addEventListener("change", () => {
        kernel.querySelector(`.pane[data-level="${box.dataset.level}"]`).hidden = !box.checked;
      });
    }
  }

  // ---- layouts ---------------------------------------------------------------------------------------------------
  // A layout is a linear map over GF(2): the place of an element is the exclusive or of the bases of the index's bits.

  const MOST_HOLDERS = 1 << 18;

  function spread(layout) {
    const names = Object.keys(layout.bases);
    const bits = names.flatMap(name => layout.bases[name].map(vector => vector));
    const size = layout.shape.reduce((a, b) => a * b, 1);
    const flat = vector => vector.reduce((sum, each, axis) => sum * layout.shape[axis] + each, 0);
    const columns = bits.map(flat);
    const holders = new Array(size);
    const count = Math.min(MOST_HOLDERS, 2 ** columns.length);
    for (let index = 0; index < count; index++) {
      let place = 0;
      for (let bit = 0; bit < columns.length; bit++) if (index >> bit & 1) place ^= columns[bit];
      if (holders[place] === undefined) holders[place] = index;
    }
    return {names, size, holders, copies: 2 ** columns.length / size};
  }

  function parts(layout, names, index) {
    const found = {};
    for (const name of names) {
      const bits = layout.bases[name].length;
      found[name] = index & (1 << bits) - 1;
      index >>= bits;
    }
    if (found.offset !== undefined) {
      found.byte = found.offset * layout.bits / 8;
      found.bank = (found.byte >> 2) % 32;
      found.wavefront = found.byte >> 7;
    }
    return found;
  }

  function draw(kernel, known) {
    const choose = kernel.querySelector("select.layout");
    if (!choose) return;
    const colour = kernel.querySelector("select.colour");
    const canvas = kernel.querySelector("canvas.drawing");
    const about = kernel.querySelector(".layout-about");
    const element = kernel.querySelector(".element");
    const banks = kernel.querySelector(".banks");
    let state = null;

    function hue(value, of) { return `hsl(${Math.round(360 * value / Math.max(of, 1))} 62% ${matchesDark() ? 42 : 72}%)`; }
    function matchesDark() {
      const theme = document.documentElement.dataset.theme;
      return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    }
    function describe(place) {
      const {layout, names, holders} = state;
      const coordinates = [];
      let rest = place;
      for (let axis = layout.shape.length - 1; axis >= 0; axis--) {
        coordinates.unshift(rest % layout.shape[axis]);
        rest = Math.floor(rest / layout.shape[axis]);
      }
      const holder = holders[place];
      if (holder === undefined) return `[${coordinates.join(", ")}]: no thread`;
      const at = parts(layout, names, holder);
      return `[${coordinates.join(", ")}]: ` + Object.entries(at).map(([name, value]) => `${name} ${value}`).join(", ");
    }
    function paint() {
      const layout = known.layouts[choose.value];
      const {names, size, holders, copies} = spread(layout);
      const columns = layout.shape.length > 1 ? layout.shape[layout.shape.length - 1] : Math.min(size, 64);
      const rows = Math.ceil(size / columns);
      const cell = Math.max(4, Math.min(28, Math.floor(1100 / columns)));
      state = {layout, names, holders, columns, rows, cell, at: state && state.at < size ? state.at : 0};
      canvas.width = columns * cell;
      canvas.height = rows * cell;
      const context = canvas.getContext("2d");
      const shared = layout.kind !== "registers";
      const key = shared ? (colour.value === "bank" || colour.value === "warp" ? "bank" : "wavefront")
        : colour.value === "bank" ? "warp" : colour.value;
      const most = key === "bank" ? 32 : shared ? Math.max(1, size * layout.bits / 1024)
        : 2 ** (layout.bases[key] || []).length;
      for (let place = 0; place < size; place++) {
        const x = place % columns * cell, y = Math.floor(place / columns) * cell;
        const at = holders[place] === undefined ? {} : parts(layout, names, holders[place]);
        context.fillStyle = at[key] === undefined ? "#888" : hue(at[key], most);
        context.fillRect(x, y, cell - (cell > 8), cell - (cell > 8));
        if (cell >= 20) {
          context.fillStyle = matchesDark() ? "#fff" : "#000";
          context.font = "9px sans-serif";
          context.fillText(String(at[key === "register" ? "register" : shared ? key : "lane"] ?? ""), x + 2, y + cell - 6);
        }
      }
      const map = Object.entries(layout.bases).map(([name, vectors]) =>
        `${name}: ${vectors.map(each => `[${each.join(", ")}]`).join(" ") || "none"}`);
      about.textContent = `${layout.name}: ${layout.kind}, coloured by ${key}. Bits of ${map.join("; ")}.` +
        (copies > 1 ? ` Every element is held ${copies} times.` : "");
      canvas.setAttribute("aria-label", about.textContent);
      heat(layout, names, holders, columns, rows);
      tell(state.at);
    }
    // How many elements of a row, and of a column, each bank has: the cause of waits of threads that go along it.
    function heat(layout, names, holders, columns, rows) {
      banks.textContent = "";
      if (layout.kind === "registers") return;
      const worst = (count, place) => {
        const words = new Map();
        for (let n = 0; n < Math.min(count, 32); n++) {
          const at = parts(layout, names, holders[place(n)]);
          if (!words.has(at.bank)) words.set(at.bank, new Set());
          words.get(at.bank).add(at.byte >> 2);
        }
        return Math.max(...[...words.values()].map(each => each.size));
      };
      const along = worst(columns, n => n), down = worst(rows, n => n * columns);
      const line = document.createElement("p");
      line.textContent = `32 threads with an element each take ${along} wavefront${along > 1 ? "s" : ""} along the first row, ` +
        `${down} along the first column.`;
      banks.append(line);
    }
    function tell(place) { state.at = place; element.textContent = describe(place); }

    canvas.addEventListener("mousemove", event => {
      const box = canvas.getBoundingClientRect();
      const column = Math.floor((event.clientX - box.left) * canvas.width / box.width / state.cell);
      const row = Math.floor((event.clientY - box.top) * canvas.height / box.height / state.cell);
      const place = row * state.columns + column;
      if (column >= 0 && column < state.columns && place >= 0 && place < state.holders.length) tell(place);
    });
    canvas.addEventListener("keydown", event => {
      const step = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: state.columns, ArrowUp: -state.columns}[event.key];
      if (step === undefined) return;
      const place = state.at + step;
      if (place >= 0 && place < state.holders.length) tell(place);
      event.preventDefault();
    });
    choose.addEventListener("change", paint);
    colour.addEventListener("change", paint);
    kernel.addEventListener("theme", paint);
    paint();
  }

  kernels.forEach((kernel, number) => {
    align(kernel, data.kernels[number]);
    draw(kernel, data.kernels[number]);
  });
})();
