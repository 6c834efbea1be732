// Client of the server's HTTP API.
import { address, byId, element, withStorage } from "./dom.js";

/** An error message of the server; `status` is 0 if the server does not respond. */
export class ApiError extends Error {
  constructor(message, status, retryAfter = null) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

/** Throw an error that says that the server does not respond, unless `signal` aborted the request. */
function fail(error) {
  throw error.name === "AbortError" ? error : new ApiError("The server does not respond. It may have been stopped.", 0);
}

const LOST = "The connection was lost before the answer was complete.";

const TOKEN = `token:${address("/")}`; // the storage is shared with other servers behind the same proxy
let token = tokenFromUrl() ?? storedToken();

/** The token of the URL (#token=…, which never leaves the browser), which is remembered for all tabs. */
function tokenFromUrl() {
  const fromUrl = new URLSearchParams(location.hash.slice(1)).get("token");
  if (fromUrl) {
    storeToken(fromUrl);
    history.replaceState(null, "", location.pathname + location.search);
  }
  return fromUrl;
}

function storedToken() {
  return withStorage(() => localStorage.getItem(TOKEN));
}

function storeToken(value) {
  withStorage(() => localStorage.setItem(TOKEN, value));
}

/** A form whose button opens a page of the server in a new tab, with the token in its body, so that no log or history has it. */
export function openingForm(path, title) {
  const field = element("input", { type: "hidden", name: "token" });
  const form = element("form", { method: "post", action: address(path), target: "_blank", rel: "noopener" }, field,
    element("button", { class: "btn btn-sm btn-soft" }, title));
  form.addEventListener("submit", () => { field.value = token ?? ""; });
  return form;
}

/** GET, or POST if there is a body; returns the JSON of the response. Throws ApiError, or AbortError through `signal`. */
export async function fetchJson(path, options = {}) {
  const response = await request(path, options);
  return response.json().catch(fail);
}

/** Fetch a file and return a URL for an <img>. */
export async function fetchImage(path) {
  return URL.createObjectURL(await (await request(path)).blob());
}

/** POST, and yield the objects of a response that has one JSON object a line, as they arrive; the last one has a name of its own. */
export async function* fetchLines(path, body, signal) {
  let line = {};
  for await (const part of fetchParts(path, signal, "\n", body)) yield (line = JSON.parse(part));
  if (!["seconds", "ranking", "error"].some((name) => name in line)) throw new ApiError(LOST, 0); // a proxy ends it without an error
}

/**
 * GET, or POST if there is a body, and yield server-sent events as {name, data}, as they arrive. An EventSource can send
 * neither a body nor the token.
 */
export async function* fetchEvents(path, signal, body = null) {
  for await (const event of fetchParts(path, signal, "\n\n", body)) {
    const [, name, data] = /^event: (\w+)\ndata: (.*)$/.exec(event) ?? []; // as in model_stream.py
    if (name) yield { name, data: JSON.parse(data) }; // else a comment
  }
}

/** The parts of a response that a separator ends. */
async function* fetchParts(path, signal, separator, body = null) {
  const response = await request(path, { body, signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read().catch(fail);
    if (done) return;
    const parts = (rest + value).split(separator);
    rest = parts.pop();
    yield* parts;
  }
}

async function request(path, { body = null, signal = null, method = body ? "POST" : "GET" } = {}) {
  const headers = token ? { Authorization: `Bearer ${token.replace(/[^!-~]/g, "")}` } : {}; // a header can have no others
  if (body) headers["Content-Type"] = "application/json";
  const response = await fetch(address(path), { method, headers, signal, body: body && JSON.stringify(body) }).catch(fail);
  if (response.ok) return response;
  if (response.status === 401 && document.body.dataset.needsToken === "yes") {
    const stored = storedToken(); // another tab may have a newer one, after the server has restarted
    if (stored !== null && stored !== token) token = stored;
    else await askForToken(token !== null);
    return request(path, { body, signal, method });
  }
  const { error } = await response.json().catch((failure) => {
    if (failure.name === "AbortError") throw failure;
    return {};
  });
  const retryAfter = Number(response.headers.get("Retry-After")) || null;
  throw new ApiError(error ?? `The server responded with status ${response.status}.`, response.status, retryAfter);
}

let tokenDialog = null; // one dialog for all requests that need the token
function askForToken(wasWrong) {
  tokenDialog ??= new Promise((resolve) => {
    const dialog = byId("token-dialog");
    byId("token-error").textContent = wasWrong ? "Wrong token." : "";
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.addEventListener("close", () => {
      token = byId("token-field").value.trim();
      storeToken(token);
      tokenDialog = null;
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return tokenDialog;
}

/** Request a reply. */
export function chat(body, signal = null, onBusy = () => {}) {
  return patiently(() => fetchJson("/api/chat", { body, signal }), signal, onBusy);
}

/** The same; `onText(text)` is called with the reply so far whenever it changes, `onWait(reason)` if it must wait. */
export function streamChat(body, signal, onText, onWait) {
  return patiently(() => readReply(body, signal, onText, onWait), signal, onWait);
}

async function readReply(body, signal, onText, onWait) {
  for await (const { name, data } of fetchEvents("/api/chat/stream", signal, body)) {
    if (name === "reply") return data;
    if (name === "error") throw new ApiError(data.error, 0);
    if (name === "loading") onWait("Loading the model …");
    else onText(data.text);
  }
  throw new ApiError(LOST, 0);
}

/** If the server is busy, retry up to three times, after the time it specifies. */
async function patiently(attemptRequest, signal, onBusy) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await attemptRequest();
    } catch (error) {
      const busy = error instanceof ApiError && error.status === 503 && error.retryAfter !== null && error.retryAfter < 5;
      if (!busy || attempt > 3) throw error;
      onBusy(error.message);
      await sleep(error.retryAfter * 1000 * attempt, signal);
    }
  }
}

function sleep(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => {
      clearTimeout(timer);
      reject(new DOMException("stopped", "AbortError"));
    }, { once: true });
  });
}
