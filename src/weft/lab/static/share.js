// A link that holds the source and the form: JSON, deflated, in base64 for URLs, after `#z=`.
// The fragment of an address is never sent to a server.

const LONGEST = 2 << 20; // characters of an unpacked link

export async function pack(job) {
  const stream = new Blob([JSON.stringify(job)]).stream().pipeThrough(new CompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return `#z=${btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "")}`;
}

/** The job of a fragment; null where there is none. Throws for one that cannot be read. */
export async function unpack(fragment) {
  const match = /^#z=([\w-]+)$/.exec(fragment);
  if (!match) return null;
  const bytes = Uint8Array.from(atob(match[1].replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")).getReader();
  const parts = [];
  let size = 0;
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    size += part.value.length;
    if (size > LONGEST) throw new Error("the link holds too much"); // a small link may unpack to gigabytes
    parts.push(part.value);
  }
  const job = JSON.parse(await new Blob(parts).text());
  if (typeof job !== "object" || typeof job.source !== "string") throw new Error("the link holds no source");
  return job;
}
