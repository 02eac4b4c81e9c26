// A link that holds the source, the form and the settings: JSON, compressed with a checksum, in base64
// for URLs, after `#z=`. The fragment of an address is never sent to a server. Opening runs nothing.

const LONGEST = 32_000; // characters of a link; mail and chat cut longer ones
const MOST = 2 << 20; // characters of an unpacked link: a small one may unpack to gigabytes
const KINDS = ["cuda", "triton", "numba"];
const TEXTS = ["source", "reference", "origin", "title", "device"], LISTS = ["sizes", "arrays", "launches", "breakpoints", "gpus"];
const KEPT = [...TEXTS, ...LISTS, "kind", "chapter", "block"];
const DAMAGED = "This link is damaged: a part of it is missing or was changed. Copy it again, as a whole.";

/** The fragment of a job. Throws for one that is too long. */
export async function pack(job) {
  const kept = Object.fromEntries(KEPT.filter((key) => job[key] !== undefined).map((key) => [key, job[key]]));
  const stream = new Blob([JSON.stringify(kept)]).stream().pipeThrough(new CompressionStream("deflate"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  const link = `#z=${btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
  if (link.length > LONGEST) throw new Error(`The link would have ${link.length.toLocaleString("en")} characters; ${LONGEST.toLocaleString("en")} are allowed. Save the source, and share the file.`);
  return link;
}

/** The job of a fragment; null where there is none. Throws for one that is damaged or too long. */
export async function unpack(fragment) {
  if (!fragment.startsWith("#z=")) return null;
  if (fragment.length > LONGEST) throw new Error(`This link is too long: it has ${fragment.length.toLocaleString("en")} characters, ${LONGEST.toLocaleString("en")} are allowed.`);
  let text;
  try { text = await inflated(fragment.slice(3)); } catch { throw new Error(DAMAGED); }
  if (text === null) throw new Error(`This link is too long: it holds more than ${MOST.toLocaleString("en")} characters.`);
  let job;
  try { job = JSON.parse(text); } catch { throw new Error(DAMAGED); }
  if (!fits(job)) throw new Error("This link holds no state of the lab.");
  return job;
}

/** The text; null where it is longer than allowed. */
async function inflated(packed) {
  const bytes = Uint8Array.from(atob(packed.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate")).getReader();
  const parts = [];
  let size = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    size += part.value.length;
    if (size > MOST) { reader.cancel(); return null; }
    parts.push(part.value);
  }
  return new Blob(parts).text();
}

function fits(job) {
  if (typeof job !== "object" || job === null || typeof job.source !== "string" || !KINDS.includes(job.kind)) return false;
  const row = (one) => typeof one === "object" && one !== null;
  return TEXTS.every((key) => job[key] === undefined || typeof job[key] === "string") && LISTS.every((key) => job[key] === undefined || Array.isArray(job[key]))
    && ["sizes", "arrays", "breakpoints"].every((key) => (job[key] ?? []).every(row)) && ["launches", "gpus"].every((key) => (job[key] ?? []).every((one) => typeof one === "string"));
}
