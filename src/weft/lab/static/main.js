// The page: holds the job, sends it to the server, and links source, PTX, SASS, facts and warps.

import { Debug } from "./debugger.js";
import { byId, h, settled, splitters, tabs } from "./dom.js";
import { createEditor } from "./editor.js";
import { Form } from "./form.js";
import { Languages } from "./languages.js";
import { forgetMenu, openMenu, showChapter } from "./menu.js";
import { Compare, Occupancy, showRoofline, showStages } from "./measures.js";
import { Facts, gutterFact, Listing, Output } from "./panes.js";
import { get, post } from "./server.js";
import { pack, unpack } from "./share.js";
import { Timeline } from "./timeline.js";
import { Times } from "./times.js";
import { Warp } from "./warp.js";

const KEPT = "weft-lab-job";
const state = { job: { kind: "cuda" }, run: null, launches: [], answer: {}, busy: false };

// ---- panes ---------------------------------------------------------------------------------------
const editor = createEditor(byId("editor"), {
  onChange: changed, onLine: select, onBreaks: () => { debug.breaksChanged(); keep(); }, value: (expression) => debug.value(expression),
});
const pick = (line) => editor.goTo(line, true);
const hover = (line) => editor.setLinked(line ? [line] : []);
const form = new Form(byId("form"), () => changed());
const ptx = new Listing(byId("pane-ptx"), pick, hover);
const sass = new Listing(byId("pane-sass"), pick, hover);
const facts = new Facts(byId("pane-facts"), pick, hover);
const output = new Output(byId("pane-output"), pick);
const warp = new Warp(byId("pane-warp"), () => act("profile"));
const showCode = tabs(byId("code"), () => select(editor.line));
const occupancy = new Occupancy(byId("pane-occupancy"), () => byId("model").value);
const times = new Times(byId("pane-time"), () => byId("model").value, pick, () => act("profile"));
const timeline = new Timeline(byId("pane-timeline"), () => act("timeline"));
const compare = new Compare(byId("pane-compare"), () => ({ job: job(), run: state.run }), (kept) => open(kept));
const languages = new Languages(byId("pane-languages"), {
  current: () => job(), onOpen: (other) => open(other),
  profile: async (one) => {
    working("profile");
    const answer = await asked("do/profile", () => one);
    working("");
    return answer;
  },
});
byId("pane-roofline").append(h("p", { class: "empty" }, "Profile draws the roofline of the launch."));
const showResult = tabs(byId("results"), (name) => {
  if (name === "occupancy") occupancy.ask();
  if (name === "compare") compare.show();
  if (name === "languages") languages.show();
});

const debug = new Debug(byId("pane-debug"), {
  editor,
  start: async (breakpoints) => {
    working("debug");
    editor.setMarks([]);
    const answer = await asked("debug/start", () => ({ job: job(), breakpoints }));
    working("");
    if (!answer) say("Programs were not allowed: nothing ran.");
    return answer;
  },
  onLine: (line) => { if (line) editor.goTo(line); say(line ? `debug: stopped at line ${line}` : "debug: stopped"); },
  onEnd: (answer) => {
    editor.setMarks(answer.error?.marks ?? []);
    if (answer.error) output.error(answer.error, answer.said); else output.arrays("the launches have ended", answer);
    showResult("output");
    say(answer.error ? `debug: ${answer.error.kind}` : "debug: ended");
  },
  say: (text) => say(text),
});

function select(line) {
  for (const pane of [ptx, sass, facts]) pane.select(line);
  warp.select(line);
}

// ---- the job -------------------------------------------------------------------------------------
function job() {
  return { ...state.job, ...form.job(), kind: byId("kind").value, device: `sim:${byId("model").value}`, block: Number(warp.block.value) || 0, source: editor.text, breakpoints: editor.breakpoints, gpus: times.chosen };
}

/** Shows a job in the editor and the form. */
function open(next) {
  if (debug.active) debug.end();
  state.edited = false;
  state.job = { origin: "", title: "", ...next };
  byId("kind").value = next.kind ?? "cuda";
  state.saved = next.version ? next.source : null;
  named();
  editor.setText(next.source ?? "", next.kind ?? "cuda");
  editor.breakpoints = next.breakpoints ?? [];
  if (next.gpus) times.chosen = next.gpus;
  const model = [...byId("model").options].find((one) => next.device === `sim:${one.value}`);
  if (model) byId("model").value = model.value;
  warp.block.value = Number.isInteger(next.block) ? next.block : 0;
  form.show(next);
  forget();
  const task = next.chapter || next.hints?.length;
  byId("results").querySelector("[data-tab=stages]").hidden = true;
  byId("results").querySelector("[data-tab=chapter]").hidden = !task;
  showCode("ptx");
  say("");
  output.clear(next.note ? next.note : "Run executes the launches once on the simulated GPU and shows the arrays.");
  keep();
  inspect();
  if (task) showChapter(byId("pane-chapter"), next, openOrigin).then(() => showResult("chapter"));
  else showResult("output");
}

async function openOrigin(origin) {
  const answer = await get("open", { origin });
  if (answer.error) return output.error(answer.error);
  open(answer.job);
}

/** The name of what is open, and whether its file holds the text of the editor. */
function named() {
  const { title, file, note } = state.job, edited = state.edited && editor.text !== state.saved;
  byId("title").textContent = title ? `${title}${edited ? ", edited" : ""}` : "";
  byId("title").title = [title, file, note].filter(Boolean).join("\n");
}

/** Writes the source to its file; a source without one becomes a download. */
async function save(force = false) {
  const { origin = "" } = state.job, sent = job();
  if (!/^(learn|puzzle|file):/.test(origin)) return download(sent);
  const answer = await post("save", { ...sent, version: state.job.version ?? "", force });
  if (answer.conflict) {
    if (confirm(`${answer.file} was changed outside of this page. Overwrite it?`)) return save(true);
    return say("not saved");
  }
  if (answer.error) { say("not saved"); showResult("output"); return output.error(answer.error); }
  Object.assign(state.job, { version: answer.version, file: answer.file });
  state.saved = sent.source;
  named();
  keep();
  forgetMenu(); // it counts what passes
  say(`saved ${answer.file}`);
}

function download({ source, kind }) {
  const link = h("a", { href: URL.createObjectURL(new Blob([source], { type: "text/plain" })), download: kind === "cuda" ? "kernel.cu" : "kernel.py" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  say(`downloaded ${link.download}: this source has no file of its own`);
}

/** An edit: what was measured belongs to the text before it. */
function changed() {
  if (debug.active) debug.end();
  forget();
  state.edited = true;
  named();
  byId("pane-output").classList.add("stale");
  keep();
  inspectSoon();
}

function forget() {
  state.run = state.marked = null;
  state.launches = [];
  byId("launches").hidden = true;
  facts.note();
  times.reset();
  timeline.reset();
  byId("pane-stages").classList.add("stale");
  warp.reset(null);
  warp.empty("Profile records the accesses of one block. Then select a line of the source.");
}

const keep = settled(400, () => { try { localStorage.setItem(KEPT, JSON.stringify(job())); } catch { /* private windows have no storage */ } });

// ---- actions -------------------------------------------------------------------------------------
const ask = (action) => asked(`do/${action}`, job, action === "inspect");

/** Posts a job; asks the user before Python runs, or gives null where that is `quiet` or not allowed. */
async function asked(path, body, quiet = false) {
  let answer = await post(path, body());
  if (answer.needs === "python") {
    if (quiet || !(await allowed())) return null;
    await post("allow-python");
    answer = await post(path, body());
  }
  return answer;
}

function allowed() {
  const dialog = byId("consent");
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true }));
}

const inspectSoon = settled(700, () => inspect());
async function inspect() {
  if (state.busy) return inspectSoon();
  if (byId("kind").value !== "cuda") {
    ptx.note("Profile shows the PTX of Triton and Numba kernels.");
    return sass.note("Machine code is shown for CUDA C++.");
  }
  if (!editor.text.trim()) { ptx.note("Write a kernel, or open one."); return sass.note("Write a kernel, or open one."); }
  const source = editor.text, answer = await ask("inspect");
  if (!answer || source !== editor.text || state.run) return; // edited or profiled meanwhile
  const fresh = state.marked !== source; // an action has not marked this text yet
  if (!answer.ok) {
    if (fresh) editor.setMarks(answer.error.marks);
    ptx.note(answer.error.text);
    return sass.note("The source does not compile.");
  }
  if (fresh) editor.setMarks(answer.marks);
  if (answer.ptx.length) ptx.show(answer.ptx); else ptx.note(answer.sass_note);
  if (answer.sass.length) sass.show(answer.sass); else sass.note(answer.sass_note);
  if (form.add(answer.suggest)) keep();
  select(editor.line);
}

const SHOW = {
  run: (answer) => output.ran(answer),
  check: (answer) => output.checked(answer),
  sanitize: (answer) => output.sanitized(answer),
  profile: profiled,
  timeline: (answer) => timeline.show(answer),
};

const BUTTONS = Object.keys(SHOW).filter((name) => byId(name)); // the pane Timeline has its own

async function act(action) {
  if (state.busy) return;
  working(action);
  editor.setMarks([]);
  const source = editor.text, answer = await ask(action);
  working("");
  if (!answer) return say("Programs were not allowed: nothing ran.");
  if (source !== editor.text) return say(`${action}: the source was edited meanwhile`); // its lines have moved
  state.marked = source;
  if (!answer.ok) {
    editor.setMarks(answer.error.marks);
    output.error(answer.error, answer.said);
    showResult("output");
    say(`${action}: ${answer.error.kind}`);
    if (answer.error.marks.length) editor.goTo(answer.error.marks[0].line);
    return;
  }
  const marks = answer.marks ?? [];
  editor.setMarks(marks);
  if (marks.length) editor.goTo(marks[0].line);
  SHOW[action](answer);
  if (action !== "profile") showResult(action === "timeline" ? "timeline" : "output");
  if (answer.graded) forgetMenu();
  say(answer.graded && answer.passed && source !== state.saved ? "check: passed; Save counts it in your folder" : `${action}: done`);
}

function profiled(answer) {
  Object.assign(state, { run: answer.run, launches: answer.launches, answer });
  byId("launches").hidden = answer.launches.length < 2;
  byId("launch").replaceChildren(...answer.launches.map((one, i) => h("option", { value: i }, `${i + 1}: ${one.kernel}`)));
  showLaunch(0);
  if (["compare", "debug", "warp", "stages", "time", "roofline", "occupancy"].every((name) => byId(`pane-${name}`).hidden)) showResult("output");
  compare.show();
}

function showLaunch(number) {
  const launch = state.launches[number];
  const hottest = launch.lines.reduce((a, b) => (weight(b) > weight(a) ? b : a), launch.lines[0]);
  editor.setFacts(new Map(launch.lines.map((f) => [f.line, gutterFact(f)])));
  ptx.show(launch.ptx);
  facts.show(launch.lines, editor.text, launch.columns);
  output.profiled(launch, state.answer);
  showStages(byId("pane-stages"), launch.stages, pick);
  byId("results").querySelector("[data-tab=stages]").hidden = !launch.stages;
  if (!launch.stages && !byId("pane-stages").hidden) showResult("output");
  showRoofline(byId("pane-roofline"), launch);
  occupancy.show(launch);
  times.show(state.run, number);
  warp.reset(state.run, number, launch.threads);
  warp.block.max = launch.blocks - 1;
  warp.block.value = launch.recorded;
  showCode("facts");
  // A line that the user has selected stays selected, if it has code.
  if (hottest && !launch.lines.some((f) => f.line === editor.line)) editor.goTo(hottest.line);
  select(editor.line);
}

const weight = (f) => f.heat["global sectors"] + f.heat["shared wavefronts"] + f.heat.instructions / 100;

function working(action) {
  state.busy = Boolean(action);
  for (const name of BUTTONS) byId(name).disabled = state.busy;
  byId("stop").hidden = !state.busy;
  document.body.classList.toggle("busy", state.busy);
  if (action) say(`${action}…`);
}

new MutationObserver(() => byId("pane-output").classList.remove("stale")).observe(byId("pane-output"), { childList: true });
const say = (text) => { byId("status").textContent = text; };

// ---- page ----------------------------------------------------------------------------------------
for (const name of BUTTONS) byId(name).addEventListener("click", () => act(name));
byId("stop").addEventListener("click", () => post("stop"));
byId("debug").addEventListener("click", () => { showResult("debug"); if (!debug.active) debug.begin(); });
byId("open").addEventListener("click", () => openMenu(openOrigin));
byId("save").addEventListener("click", () => save());
byId("kind").addEventListener("change", () => { editor.setLanguage(byId("kind").value); form.language(byId("kind").value); changed(); });
byId("model").addEventListener("change", changed);
byId("launch").addEventListener("change", () => showLaunch(Number(byId("launch").value)));
byId("share").addEventListener("click", async () => {
  let link = "";
  try { link = await pack(job()); } catch (error) { return refused(error); }
  history.replaceState(null, "", link);
  const copied = await navigator.clipboard?.writeText(location.href).then(() => true, () => false);
  say(copied ? "The link is copied. It holds the source, the form and the settings." : "The address of this page now holds the source, the form and the settings.");
});
byId("all").addEventListener("click", () => {
  const all = byId("code").classList.toggle("all");
  byId("all").setAttribute("aria-pressed", all);
  select(editor.line);
});
byId("theme").addEventListener("click", () => {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = (root.dataset.theme || (dark ? "dark" : "light")) === "dark" ? "light" : "dark";
  try { localStorage.setItem("weft-lab-theme", root.dataset.theme); } catch { /* as above */ }
});
addEventListener("keydown", (event) => {
  if (event.key.toLowerCase() === "s" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) {
    event.preventDefault(); // the browser would save the page
    return save();
  }
  if (!event.ctrlKey && !event.metaKey && debug.key(event)) {
    event.preventDefault();
    return showResult("debug");
  }
  const held = event.ctrlKey || event.metaKey ? ["run", "profile"] : event.altKey ? ["check", "sanitize"] : null;
  if (event.key !== "Enter" || !held) return;
  const action = held[Number(event.shiftKey)];
  event.preventDefault();
  event.stopPropagation();
  act(action);
}, true);
addEventListener("hashchange", openLink);
addEventListener("pagehide", () => debug.leave());
splitters();

/** Opens the job of the address; it runs nothing. */
async function openLink() {
  try {
    const linked = await unpack(location.hash);
    if (linked) open(linked);
    return Boolean(linked);
  } catch (error) {
    refused(error);
    return false;
  }
}

/** Says why a link is none. The page keeps what it shows. */
function refused(error) {
  output.error({ text: error.message, marks: [] });
  showResult("output");
  say("no link");
}

async function begin() {
  const start = await get("start");
  if (start.error) return output.error(start.error);
  byId("model").replaceChildren(...Object.entries(start.models).map(([key, name]) => h("option", { value: key, selected: key === start.model }, name)));
  times.offer(start.models);
  if (location.hash.startsWith("#z=") && await openLink()) return;
  if (start.job) open(start.job); else await openKept();
  if (location.hash.startsWith("#z=")) await openLink(); // says again what is wrong with it
}

async function openKept() {
  let kept = null;
  try { kept = JSON.parse(localStorage.getItem(KEPT)); } catch { /* nothing is kept */ }
  if (kept?.source) open(kept); else await openOrigin("example:transpose");
}

try { document.documentElement.dataset.theme = localStorage.getItem("weft-lab-theme") ?? ""; } catch { /* as above */ }
await begin();
document.documentElement.dataset.ready = "yes";
