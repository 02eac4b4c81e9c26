// The menu of examples, ladders and chapters, and the text of a chapter.

import { byId, h } from "./dom.js";
import { get } from "./server.js";

let menu = null;

/** Asks for the menu again: what passes may have changed. */
export const forgetMenu = () => { menu = null; };

export async function openMenu(onOpen) {
  const dialog = byId("menu");
  dialog.showModal();
  dialog.onclick = (event) => { if (event.target === dialog) dialog.close(); };
  if (!menu) {
    byId("choices").replaceChildren(h("p", { class: "empty" }, "Loading…"));
    const answer = await get("menu");
    if (answer.error) return byId("choices").replaceChildren(h("p", { class: "empty" }, answer.error.text));
    menu = answer;
  }
  const choose = (origin) => { dialog.close(); onOpen(origin); };
  const passed = new Set(menu.progress.passed), { exercises, puzzles, folder } = menu.progress;
  const counted = ([done, all]) => h("small", { class: "soft" }, ` ${done} of ${all} pass in ${folder}`);
  const task = (item, title, hint) => { const one = chip(item, title, choose, hint); if (passed.has(item.origin)) { one.classList.add("passed"); one.append(" ✓"); } return one; };
  byId("choices").replaceChildren(
    group("Examples", [...menu.examples.map((e) => h("span", { class: "entry only" }, chip(e, e.title, choose)))]),
    group(["Course", counted(exercises)], menu.chapters.map((c) => h("div", { class: "entry" }, h("b", {}, `${String(c.number).padStart(2, "0")} ${c.title}`), h("div", { class: "chips" }, c.exercises.map((e) => task(e, e.title, e.goal)))))),
    group(["Puzzles", counted(puzzles)], menu.puzzles.map((p) => h("div", { class: "entry" }, h("b", {}, p.name), ` ${p.goal}`, h("div", { class: "chips" }, p.answers.map((a) => task(a, a.title, p.goal)))))),
    group("Ladders", menu.ladders.map((l) => h("div", { class: "entry" }, h("b", {}, l.name), h("div", { class: "chips" }, l.rungs.map((r) => chip(r, r.title, choose, r.language)))))));
  const none = h("p", { class: "empty", hidden: true }, "Nothing has this name.");
  byId("choices").append(none);
  const filter = byId("filter");
  filter.value = "";
  filter.oninput = () => {
    const words = filter.value.toLowerCase().split(/\s+/);
    for (const entry of byId("choices").querySelectorAll(".entry")) {
      const all = words.every((word) => entry.textContent.toLowerCase().includes(word));
      entry.hidden = !all;
    }
    for (const part of byId("choices").querySelectorAll("section")) part.hidden = !part.querySelector(".entry:not([hidden])");
    none.hidden = Boolean(byId("choices").querySelector(".entry:not([hidden])"));
  };
  filter.focus();
}

const group = (name, entries) => h("section", {}, h("h2", {}, name), entries);
const chip = (item, title, choose, hint = "") => h("button", { class: "chip", title: hint, onclick: () => choose(item.origin) }, title, item.language && item.language !== "CUDA C++" ? h("small", {}, ` ${item.language}`) : null);

/** The chapter of an exercise: its goal, hints one by one, and the text. */
export async function showChapter(root, job, onOpen) {
  // A puzzle belongs to no chapter.
  const chapter = job.chapter ? await get("chapter", { number: job.chapter }) : { html: "", exercises: [] };
  if (chapter.error) return root.replaceChildren(h("p", { class: "empty" }, chapter.error.text));
  let shown = 0;
  const hints = h("ol", { class: "hints" });
  const more = h("button", { onclick: () => {
    hints.append(h("li", {}, job.hints[shown++]));
    more.disabled = shown >= job.hints.length;
    more.textContent = more.disabled ? "No more hints" : `Hint ${shown + 1} of ${job.hints.length}`;
  } }, `Hint 1 of ${job.hints?.length ?? 0}`);
  more.disabled = !job.hints?.length;
  const text = h("article", { class: "chapter" });
  // The server renders the chapter with HTML escaped; only the course's own Markdown becomes markup.
  text.append(...new DOMParser().parseFromString(chapter.html, "text/html").body.childNodes);
  for (const link of text.querySelectorAll("a")) { link.target = "_blank"; link.rel = "noreferrer"; }
  for (const code of text.querySelectorAll("pre")) code.tabIndex = 0;
  for (const head of text.querySelectorAll("th")) if (!head.textContent.trim()) head.replaceWith(h("td"));
  root.replaceChildren(
    h("div", { class: "task" }, h("b", {}, job.title), h("p", {}, job.note), job.goal ? h("p", { class: "soft" }, `Check asks for: ${job.goal}`) : null, more, hints,
      chapter.exercises.length > 0 && h("p", { class: "chips" }, "Exercises: ", chapter.exercises.map((e) => chip(e, e.title, onOpen, e.goal)))), text);
}
