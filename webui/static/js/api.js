// Client of the server's HTTP API.
import { byId } from "./dom.js";

/** An error message of the server; `status` is 0 if the server does not respond. */
export class ApiError extends Error {
  constructor(message, status, retryAfter = null) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

const UNREACHABLE = "The server does not respond. It may have been stopped; your conversation is kept.";

let token = readToken();

/** The token from the URL (#token=…, which never leaves the browser) or from this tab's storage. */
function readToken() {
  const fromUrl = new URLSearchParams(location.hash.slice(1)).get("token");
  try {
    if (fromUrl) sessionStorage.setItem("token", fromUrl);
    if (fromUrl) history.replaceState(null, "", location.pathname + location.search);
    return fromUrl ?? sessionStorage.getItem("token");
  } catch {
    return fromUrl;
  }
}

export const withToken = (path) => (token ? `${path}?${new URLSearchParams({ token })}` : path);

/** GET, or POST if there is a body; returns the JSON of the response. Throws ApiError, or AbortError through `signal`. */
export async function fetchJson(path, options = {}) {
  const response = await request(path, options);
  return response.json();
}

/** Fetch a file and return a URL for an <img>. */
export async function fetchImage(path) {
  return URL.createObjectURL(await (await request(path)).blob());
}

/** POST, and yield the objects of a response that has one JSON object a line, as they arrive. */
export async function* fetchLines(path, body, signal) {
  let rest = "";
  for await (const text of openStream(path, signal, body)) {
    const lines = (rest + text).split("\n");
    rest = lines.pop();
    for (const line of lines) yield JSON.parse(line);
  }
}

/** GET, or POST if there is a body, and yield the text of the response as it arrives. */
export async function* openStream(path, signal, body = null) {
  const response = await request(path, { body, signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read().catch((error) => {
      throw error.name === "AbortError" ? error : new ApiError(UNREACHABLE, 0);
    });
    if (done) return;
    yield value;
  }
}

async function request(path, { body = null, signal = null, method = body ? "POST" : "GET" } = {}) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  if (body) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method, headers, signal, body: body && JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(UNREACHABLE, 0);
  }
  if (response.ok) return response;
  if (response.status === 401 && document.body.dataset.needsToken === "yes") {
    await askForToken(token !== null);
    return request(path, { body, signal, method });
  }
  const { error } = await response.json().catch(() => ({}));
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
      try {
        sessionStorage.setItem("token", token);
      } catch {
        // not remembered after a reload
      }
      tokenDialog = null;
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return tokenDialog;
}

/** Request a reply; if the server is busy, retry up to three times, after the time it specifies. */
export async function chat(body, signal = null, onBusy = () => {}) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await fetchJson("/api/chat", { body, signal });
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
