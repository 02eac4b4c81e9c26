// The editor of the lab: CodeMirror 6 with diagnostics, a gutter of measured facts per line, and a
// side-by-side view of two versions. `npm run build` bundles it; the page imports the bundle.

import { autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { cpp } from "@codemirror/lang-cpp";
import { python } from "@codemirror/lang-python";
import { bracketMatching, HighlightStyle, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, lintKeymap, setDiagnostics } from "@codemirror/lint";
import { MergeView } from "@codemirror/merge";
import { highlightSelectionMatches, searchKeymap } from "@codemirror/search";
import { Compartment, EditorState, RangeSetBuilder, StateEffect, StateField } from "@codemirror/state";
import { Decoration, drawSelection, EditorView, gutter, GutterMarker, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers } from "@codemirror/view";
import { tags } from "@lezer/highlight";

import { breakpointsOf, debugging, setBreakpoints, showCurrent, showProblems, toggle } from "./debug.js";

const LANGUAGES = { cuda: cpp, triton: python, numba: python };

// Colours are variables of the page's style sheet, so that light and dark need one theme only.
const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.modifier, tags.controlKeyword], color: "var(--kw)" },
  { tag: [tags.typeName, tags.standard(tags.name)], color: "var(--cuda)" },
  { tag: [tags.number, tags.bool], color: "var(--num)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--str)" },
  { tag: [tags.comment, tags.meta], color: "var(--com)" },
  { tag: tags.function(tags.definition(tags.variableName)), fontWeight: "600" },
]);

const look = EditorView.theme({
  "&": { height: "100%", fontSize: "13px", color: "var(--code)", backgroundColor: "var(--card)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--mono)", lineHeight: "1.55" },
  ".cm-content": { caretColor: "var(--ink)" },
  ".cm-cursor": { borderLeftColor: "var(--ink)" },
  ".cm-gutters": { backgroundColor: "var(--card)", color: "var(--soft)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "color-mix(in srgb, var(--accent) 9%, transparent)" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { background: "color-mix(in srgb, var(--accent) 26%, transparent) !important" },
  ".cm-selectionMatch": { backgroundColor: "color-mix(in srgb, var(--accent) 16%, transparent)" },
  ".cm-linked": { backgroundColor: "var(--pick)" },
  ".cm-tooltip, .cm-panels": { backgroundColor: "var(--card)", color: "var(--ink)", border: "1px solid var(--line)" },
  ".cm-diagnostic": { whiteSpace: "pre-wrap", fontSize: "12.5px", maxWidth: "68ch" },
  ".cm-changedLine": { backgroundColor: "color-mix(in srgb, var(--accent) 12%, transparent) !important" },
  ".cm-collapsedLines:before, .cm-collapsedLines:after": { content: '"…"' },
  ".cm-collapsedLines": { background: "var(--bg)", color: "var(--soft)" },
  ".cm-current": { backgroundColor: "color-mix(in srgb, var(--good) 14%, transparent) !important" },
  ".cm-breaks": { width: "16px", cursor: "pointer" },
  ".cm-breaks .break": { display: "block", width: "10px", height: "10px", margin: "5px 3px 0", borderRadius: "50%", background: "var(--bad)" },
  ".cm-breaks .conditional": { borderRadius: "2px" },
  ".cm-breaks .idle": { background: "none", boxShadow: "inset 0 0 0 2px var(--soft)" },
  ".cm-value": { fontFamily: "var(--mono)", fontSize: "12.5px", padding: "3px 8px", whiteSpace: "pre-wrap", maxWidth: "60ch" },
  ".cm-facts": { paddingRight: "6px", fontSize: "11px", minWidth: "0" },
  ".cm-facts .cm-gutterElement": { textAlign: "right", whiteSpace: "pre", lineHeight: "20.15px", cursor: "help" },
});

// ---- facts beside the line numbers ---------------------------------------------------------------
class Fact extends GutterMarker {
  constructor(fact) { super(); this.fact = fact; }
  eq(other) { return other.fact.text === this.fact.text && other.fact.title === this.fact.title; }
  toDOM() {
    const span = document.createElement("span");
    span.textContent = this.fact.text;
    span.title = this.fact.title;
    if (this.fact.bad) span.className = "bad";
    span.style.setProperty("--heat", this.fact.heat ?? 0);
    return span;
  }
}
const setFacts = StateEffect.define();
const facts = StateField.define({
  create: () => new Map(),
  update(value, tr) {
    for (const effect of tr.effects) if (effect.is(setFacts)) return effect.value;
    return tr.docChanged ? new Map() : value;   // facts of another text would be wrong
  },
});
const factGutter = gutter({
  class: "cm-facts",
  lineMarker(view, line) {
    const fact = view.state.field(facts).get(view.state.doc.lineAt(line.from).number);
    return fact ? new Fact(fact) : null;
  },
  lineMarkerChange: (update) => update.startState.field(facts) !== update.state.field(facts),
});

// ---- lines that another pane points at -----------------------------------------------------------
const setLinked = StateEffect.define();
const linked = StateField.define({
  create: () => Decoration.none,
  update(value, tr) {
    for (const effect of tr.effects) if (effect.is(setLinked)) {
      const build = new RangeSetBuilder();
      for (const number of [...effect.value].sort((a, b) => a - b)) {
        if (number < 1 || number > tr.state.doc.lines) continue;
        const from = tr.state.doc.line(number).from;
        build.add(from, from, Decoration.line({ class: "cm-linked" }));
      }
      return build.finish();
    }
    return value.map(tr.changes);
  },
  provide: (field) => EditorView.decorations.from(field),
});

function common(language) {
  return [
    lineNumbers(), drawSelection(), bracketMatching(), syntaxHighlighting(colours), look, indentUnit.of("    "),
    EditorState.tabSize.of(4), language,
  ];
}

/** The editor. `onChange(text)` follows edits of the user, `onLine(number)` the cursor, `onBreaks()` breakpoints;
 *  `value(expression)` gives what the debugger shows under the mouse. */
export function createEditor(parent, { onChange, onLine, onBreaks = () => {}, value = () => null }) {
  const language = new Compartment();
  let line = 1, quiet = false;
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: "",
      extensions: [
        debugging({ onBreaks, value }), facts, linked, factGutter, lintGutter(), common(language.of(cpp())), highlightActiveLine(), highlightActiveLineGutter(),
        history(), indentOnInput(), closeBrackets(), autocompletion(), highlightSelectionMatches(),
        keymap.of([...closeBracketsKeymap, ...defaultKeymap, ...searchKeymap, ...historyKeymap, ...completionKeymap, ...lintKeymap, indentWithTab]),
        EditorView.contentAttributes.of({ "aria-label": "Source of the kernel", tabindex: "0" }),
        EditorView.updateListener.of((update) => {
          if (update.docChanged && !quiet) onChange(update.state.doc.toString());
          const now = update.state.doc.lineAt(update.state.selection.main.head).number;
          if (now !== line || update.docChanged) { line = now; onLine(now); }
        }),
      ],
    }),
  });
  const clamp = (number) => Math.min(Math.max(1, number), view.state.doc.lines);
  return {
    view,
    get text() { return view.state.doc.toString(); },
    get line() { return line; },
    setText(text, kind) {
      quiet = true;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text }, effects: language.reconfigure(LANGUAGES[kind]()), selection: { anchor: 0 } });
      view.dispatch(setDiagnostics(view.state, []));
      quiet = false;
    },
    setLanguage(kind) { view.dispatch({ effects: language.reconfigure(LANGUAGES[kind]()) }); },
    get breakpoints() { return breakpointsOf(view); },
    set breakpoints(wanted) { setBreakpoints(view, wanted); },
    toggleBreakpoint(number = line) { toggle(view, clamp(number)); },
    showProblems(found) { showProblems(view, found); },
    setCurrent(number) { showCurrent(view, number); },
    setFacts(map) { view.dispatch({ effects: setFacts.of(map) }); },
    setLinked(lines) { view.dispatch({ effects: setLinked.of(lines) }); },
    setMarks(marks) {
      view.dispatch(setDiagnostics(view.state, marks.map((mark) => {
        const at = view.state.doc.line(clamp(mark.line));
        const indent = at.text.length - at.text.trimStart().length;
        return { from: at.from + indent, to: Math.max(at.to, at.from + indent), severity: mark.severity, message: mark.text };
      })));
    },
    goTo(number, focus = false) {
      const at = view.state.doc.line(clamp(number));
      view.dispatch({ selection: { anchor: at.from }, effects: EditorView.scrollIntoView(at.from, { y: "center" }) });
      if (focus) view.focus();
    },
  };
}

/** Two versions side by side, read only. */
export function createMerge(parent, kind, before, after) {
  const side = (doc, name) => ({ doc, extensions: [common(LANGUAGES[kind]()), EditorState.readOnly.of(true), EditorView.editable.of(false), EditorView.contentAttributes.of({ "aria-label": name, tabindex: "0" })] });
  return new MergeView({ parent, a: side(before, "Version A"), b: side(after, "This version"), collapseUnchanged: { margin: 3, minSize: 6 }, gutter: true });
}
