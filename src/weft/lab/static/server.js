// Talks to the lab's server. The cookie that the first request has set goes with every request.

async function answered(response) {
  if (response.headers.get("content-type")?.startsWith("application/json")) return response.json();
  return { ok: false, error: { kind: "Server", text: (await response.text()).slice(0, 2000), marks: [] } };
}

const lost = () => ({ ok: false, error: { kind: "Server", text: "the lab does not answer: has `weft lab` been ended? Start it again and open the address that it prints.", marks: [] } });

export const get = (path, query = {}) =>
  fetch(`api/${path}?${new URLSearchParams(query)}`).then(answered, lost);

export const post = (path, body = {}) =>
  fetch(`api/${path}`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) }).then(answered, lost);
