// Makes elements: h("td", { class: "n" }, text). Text is always text, never markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (typeof value === "boolean") node[name] = value;
    else if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export const h = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes = {}, ...children) => fill(document.createElementNS(SVG, tag), attributes, children);
export const byId = (id) => document.getElementById(id);

/** An SVG that the server has drawn. It is parsed, so that nothing in it can run. */
export function picture(text) {
  const parsed = new DOMParser().parseFromString(text.replace("<svg", `<svg xmlns="${SVG}"`), "image/svg+xml");
  if (parsed.querySelector("parsererror")) return h("p", { class: "empty" }, "This picture cannot be drawn.");
  return document.importNode(parsed.documentElement, true);
}

/** 1234567 -> "1.23 M" */
export function amount(n) {
  if (n < 10000) return n.toLocaleString("en");
  for (const [size, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (n >= size) return `${Number((n / size).toPrecision(3))} ${letter}`;
}

export const some = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;

/** Calls a function once after calls have ceased for a while. */
export function settled(milliseconds, call) {
  let timer = 0;
  return (...values) => { clearTimeout(timer); timer = setTimeout(() => call(...values), milliseconds); };
}

/** Separators that drag, or move by arrow keys: the two neighbours share their room anew. */
export function splitters() {
  for (const bar of document.querySelectorAll(".split")) {
    const wide = bar.getAttribute("aria-orientation") === "vertical";
    const size = (node) => wide ? node.offsetWidth : node.offsetHeight;
    const move = (by) => {
      const [before, after] = [bar.previousElementSibling, bar.nextElementSibling], room = size(before) + size(after);
      const first = Math.min(Math.max(size(before) + by, room * 0.12), room * 0.88);
      before.style.flex = `${first / room} 1 0`;
      after.style.flex = `${1 - first / room} 1 0`;
      after.style.maxHeight = "none";
      bar.setAttribute("aria-valuenow", Math.round((100 * first) / room));
    };
    bar.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      bar.setPointerCapture(event.pointerId);
      bar.onpointermove = (at) => move(wide ? at.movementX : at.movementY);
      bar.onpointerup = () => { bar.onpointermove = null; };
    });
    const keys = wide ? { ArrowLeft: -24, ArrowRight: 24 } : { ArrowUp: -24, ArrowDown: 24 };
    bar.addEventListener("keydown", (event) => { if (keys[event.key]) { event.preventDefault(); move(keys[event.key]); } });
  }
}

/** Tabs of a pane: click, or arrow keys. Returns a function that shows a tab by name. */
export function tabs(pane, onShow = () => {}) {
  const all = [...pane.querySelectorAll("[role=tab]")];
  const show = (name) => {
    for (const tab of all) {
      const chosen = tab.dataset.tab === name;
      tab.setAttribute("aria-selected", chosen);
      tab.tabIndex = chosen ? 0 : -1;
      byId(`pane-${tab.dataset.tab}`).hidden = !chosen;
      tab.setAttribute("aria-controls", `pane-${tab.dataset.tab}`);
    }
    onShow(name);
  };
  for (const tab of all) tab.addEventListener("click", () => show(tab.dataset.tab));
  pane.querySelector("[role=tablist]").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: "first", End: "last" }[event.key];
    if (!step || event.target.role !== "tab") return;
    event.preventDefault();
    const seen = all.filter((tab) => !tab.hidden), at = seen.indexOf(event.target);
    const next = step === "first" ? seen[0] : step === "last" ? seen.at(-1) : seen[(at + step + seen.length) % seen.length];
    show(next.dataset.tab);
    next.focus();
  });
  show(all[0].dataset.tab);
  return show;
}

/** Items that lead to a source line: one stop of Tab, arrow keys move among them, Enter follows. */
export function roving(root, selector, onPick) {
  const items = [...root.querySelectorAll(selector)];
  items.forEach((item, i) => item.setAttribute("tabindex", i ? "-1" : "0"));
  root.onkeydown = (event) => {
    const at = items.indexOf(event.target.closest(selector)), step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
    if (at < 0) return;
    if (event.key === "Enter") onPick(Number(items[at].dataset.line));
    if (!step || !items[at + step]) return;
    event.preventDefault();
    items[at].setAttribute("tabindex", "-1");
    items[at + step].setAttribute("tabindex", "0");
    items[at + step].focus();
  };
}
