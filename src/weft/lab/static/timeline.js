// The pane Timeline: what a program asks of the GPU, in the page of `weft profile --trace --html`.

import { h } from "./dom.js";
import { report } from "./times.js";

export class Timeline {
  constructor(root, onRecord) {
    this.root = root;
    this.record = h("button", { onclick: onRecord }, "Record a timeline");
    this.reset();
  }
  reset() {
    this.root.replaceChildren(this.record, h("p", { class: "empty" }, "A timeline has the calls of the host, copies and kernels by stream, with what each waits for. A source with main is a whole program; of other sources, the launches are recorded. Times are modelled."));
  }
  /** The page has no origin of its own: its script reaches neither this page nor the server. */
  show({ run, says }) {
    const query = new URLSearchParams({ run });
    this.root.replaceChildren(
      h("div", { class: "bar" }, this.record, h("a", { href: `api/trace.json?${query}`, download: "trace.json" }, "Trace for Perfetto")),
      h("iframe", { class: "timeline", title: "Timeline", sandbox: "allow-scripts", src: `api/timeline?${query}` }),
      h("details", {}, h("summary", {}, "As text"), report(says.filter((b) => b.text !== ""))));
  }
}
