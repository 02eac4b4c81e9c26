"use strict";
// A line of source and its PTX light up together; the picture shows what a warp touches there.
const SVG = "http://www.w3.org/2000/svg";
const shape = (name, attributes, text) => {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
};
const titled = (made, text) => (made.append(shape("title", {}, text)), made);
const laneColour = (lane) => `hsl(${(205 + lane * 10.5) % 360} 75% ${lane % 2 ? 68 : 76}%)`;
const some = (n, what) => `${n} ${what}${n === 1 ? "" : "s"}`;
const hex = (n) => "0x" + n.toString(16);

class View {
  constructor(root) {
    this.root = root;
    this.data = JSON.parse(root.querySelector(".data").textContent);
    this.rows = [...root.querySelectorAll("tr[data-place]")];
    this.heat(root.querySelector(".heat").value);
    root.querySelector(".heat").addEventListener("change", (e) => this.heat(e.target.value));
    for (const row of root.querySelectorAll("tr[data-place], li[data-place]")) {
      row.addEventListener("click", () => this.pick(row.dataset.place, row));
      row.addEventListener("keydown", (e) => { if (e.key === "Enter") this.pick(row.dataset.place, row); });
      row.addEventListener("mouseenter", () => this.near(row.dataset.place, true));
      row.addEventListener("mouseleave", () => this.near(row.dataset.place, false));
    }
    for (const bar of root.querySelectorAll(".life [data-line]"))
      bar.addEventListener("click", () => this.follow(bar.dataset.line));
    for (const name of ["access", "block", "warp"])
      root.querySelector("." + name).addEventListener("change", () => this.chosen(name));
    this.pick(this.data.lines, null);
  }
  heat(name) {
    for (const row of this.root.querySelectorAll("tr[data-heat]")) {
      const part = JSON.parse(row.dataset.heat)[name];
      row.querySelector("td.h i").style.width = part + "%";
      row.querySelector("td.h span").textContent = part >= 0.05 ? part.toFixed(part < 10 ? 1 : 0) + "%" : "";
    }
  }
  /** Selects the line of a stage's bar. */
  follow(line) {
    const row = this.rows.find((one) => one.matches(".hot") && one.dataset.place.endsWith(":" + line));
    if (row) this.pick(row.dataset.place, null);
    this.root.querySelector(".code").scrollIntoView({ block: "nearest" });
  }
  near(place, on) {
    for (const row of this.rows) if (row.dataset.place === place) row.classList.toggle("near", on);
  }
  pick(place, from) {
    for (const row of this.rows) row.classList.toggle("picked", row.dataset.place === place);
    for (const pane of this.root.querySelectorAll(".pane")) {
      if (from && pane.contains(from)) continue;
      const found = [...pane.querySelectorAll("tr.picked")];
      const first = found.sort((a, b) => (b.dataset.times || 0) - (a.dataset.times || 0))[0];
      if (first) pane.scrollTop = Math.max(0, first.offsetTop - pane.clientHeight / 3);
    }
    if (from && from.tagName === "LI") this.root.querySelector(".code").scrollIntoView({ block: "nearest" });
    this.mine = this.data.samples.filter((s) => s.place === place);
    if (from && from.dataset.ptx) {
      const exact = this.mine.find((s) => s.ptx === Number(from.dataset.ptx));
      if (exact) this.mine.sort((a, b) => (b.ptx === exact.ptx) - (a.ptx === exact.ptx));
    }
    this.fill("access", this.mine.map((s) => s.text));
    this.chosen("access");
  }
  fill(name, values) {
    const list = this.root.querySelector("." + name), before = list.value;
    const unique = [...new Set(values)];
    list.replaceChildren(...unique.map((v) => new Option(v, v)));
    list.disabled = unique.length === 0;
    if (unique.includes(before) && name !== "access") list.value = before;
  }
  value(name) { return this.root.querySelector("." + name).value; }
  chosen(name) {
    const access = this.mine.filter((s) => s.text === this.value("access"));
    if (name === "access") this.fill("block", access.map((s) => s.block));
    const block = access.filter((s) => s.block === this.value("block"));
    if (name !== "warp") this.fill("warp", block.map((s) => String(s.warp)));
    this.draw(block.find((s) => String(s.warp) === this.value("warp")));
  }
  draw(sample) {
    const says = this.root.querySelector(".says"), picture = this.root.querySelector(".picture");
    picture.replaceChildren();
    if (!sample) { says.textContent = "No addresses are kept of this line: it touches neither global nor shared memory, or only through fragments of wmma."; return; }
    const words = new Map();
    sample.offsets.forEach((at, lane) => {
      if (at === null) return;
      for (let byte = 0; byte < sample.nbytes; byte += 4) {
        const word = Math.floor((at + byte) / 4);
        if (!words.has(word)) words.set(word, []);
        words.get(word).push(lane);
      }
    });
    (sample.array === "shared" ? this.banks : this.sectors).call(this, sample, words, says, picture);
  }
  cells(svg, words, rows, x0, y0, width, height, name) {
    rows.forEach((row, i) => {
      for (let k = 0; k < 32; k++) {
        const lanes = words.get(row * 32 + k), x = x0 + k * width, y = y0 + i * height;
        const fill = lanes ? laneColour(lanes[0]) : "var(--cell)";
        const cell = shape("rect", { x: x + 0.5, y: y + 1, width: width - 1.5, height: height - 3, rx: 2, fill });
        if (lanes) {
          titled(cell, `${name} + ${hex((row * 32 + k) * 4)}, bank ${k}: lane${lanes.length > 1 ? "s" : ""} ${lanes.join(", ")}`);
          svg.append(cell, shape("text", { x: x + width / 2 - 0.5, y: y + height / 2 + 3, "text-anchor": "middle", style: "fill:#10131a;font-size:9px;pointer-events:none" },
            lanes.length > 1 ? `${lanes[0]}+` : lanes[0]));
        } else svg.append(cell);
      }
    });
  }
  rowsOf(words) { return [...new Set([...words.keys()].map((w) => Math.floor(w / 32)))].sort((a, b) => a - b); }
  sectors(sample, words, says, picture) {
    const rows = this.rowsOf(words), sectors = new Set([...words.keys()].map((w) => Math.floor(w / 8)));
    const lanes = sample.offsets.filter((x) => x !== null).length, asked = lanes * sample.nbytes;
    const part = Math.min(100, 100 * words.size * 4 / (sectors.size * 32));
    says.innerHTML = "";
    says.append(`${some(lanes, "lane")} ask for ${asked} bytes: ${some(sectors.size, "sector")} of 32 bytes in ${some(rows.length, "line")} of 128; `);
    const used = document.createElement(part < 80 ? "b" : "span");
    used.textContent = `${Number(part.toPrecision(3))} % of what is moved is used`;
    says.append(used, ".");
    const height = 19, svg = shape("svg", { viewBox: `0 0 940 ${rows.length * height + 24}`, role: "img", "aria-label": "Sectors that the warp touches" });
    for (let s = 0; s < 4; s++) svg.append(shape("text", { x: 150 + s * 196, y: 13, class: "tick" }, `sector ${s}`));
    rows.forEach((row, i) => {
      svg.append(shape("text", { x: 140, y: 24 + i * height + 13, "text-anchor": "end", class: "tick" }, `${/^\w{1,12}$/.test(sample.array) ? sample.array : "memory"} + ${hex(row * 128)}`));
      for (let s = 0; s < 4; s++) if (sectors.has(row * 4 + s))
        svg.append(shape("rect", { x: 149 + s * 196, y: 23.5 + i * height, width: 193, height: height - 1, rx: 4, fill: "none", stroke: "var(--accent)", class: "sector" }));
    });
    for (let s = 0; s < 4; s++) {
      const part = new Map([...words].filter(([w]) => Math.floor((w % 32) / 8) === s));
      rows.forEach((row, i) => {
        for (let k = 0; k < 8; k++) {
          const lanes = part.get(row * 32 + s * 8 + k), x = 151 + s * 196 + k * 23.75, y = 24 + i * height;
          const cell = shape("rect", { x, y: y + 1.5, width: 22.5, height: height - 4, rx: 2, class: lanes ? "word" : "none", fill: lanes ? laneColour(lanes[0]) : "var(--cell)" });
          if (lanes) titled(cell, `+ ${hex((row * 32 + s * 8 + k) * 4)}: lane${lanes.length > 1 ? "s" : ""} ${lanes.join(", ")}`);
          svg.append(cell);
          if (lanes) svg.append(shape("text", { x: x + 11, y: y + height / 2 + 3, "text-anchor": "middle", style: "fill:#10131a;font-size:9px;pointer-events:none" }, lanes.length > 1 ? `${lanes[0]}+` : lanes[0]));
        }
      });
    }
    picture.append(svg);
  }
  banks(sample, words, says, picture) {
    const rows = this.rowsOf(words), load = Array(32).fill(0);
    for (const word of words.keys()) load[((word % 32) + 32) % 32]++;
    const most = Math.max(...load), ideal = Math.ceil(words.size / 32);
    says.innerHTML = "";
    says.append(`${words.size} different words of 4 bytes; `);
    const worst = document.createElement(most > ideal ? "b" : "span");
    worst.textContent = most > ideal ? `bank ${load.indexOf(most)} has ${most} of them, so that they take ${most} steps and not ${ideal}` : "no bank has more than its share: no conflict";
    says.append(worst, ".");
    const height = 17, top = 50, svg = shape("svg", { viewBox: `0 0 940 ${rows.length * height + top}`, role: "img", "aria-label": "Banks that the warp touches" });
    load.forEach((n, k) => {
      const tall = most ? 22 * n / most : 0;
      svg.append(titled(shape("rect", { x: 152 + k * 24.4, y: 24 - tall, width: 20, height: tall, rx: 2, class: "bankload", fill: n > ideal ? "var(--hot)" : "var(--good)" }), `bank ${k}: ${n} words`));
      svg.append(shape("text", { x: 162 + k * 24.4, y: 38, "text-anchor": "middle", class: "tick" }, k));
    });
    svg.append(shape("text", { x: 140, y: 38, "text-anchor": "end", class: "tick" }, "bank"));
    rows.forEach((row, i) => svg.append(shape("text", { x: 140, y: top + i * height + 13, "text-anchor": "end", class: "tick" }, `shared + ${hex(row * 128)}`)));
    this.cells(svg, words, rows, 150, top, 24.4, height, "shared");
    picture.append(svg);
  }
}

const views = [...document.querySelectorAll(".profile")];
const choose = document.getElementById("choose");
if (choose) choose.addEventListener("change", () => views.forEach((v) => { v.hidden = v.dataset.number !== choose.value; }));
document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const now = root.dataset.theme || (dark ? "dark" : "light");
  root.dataset.theme = now === "dark" ? "light" : "dark";
});
window.weft = views.map((root) => new View(root));
document.documentElement.dataset.ready = "yes";
