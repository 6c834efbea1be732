// The server's HTTP interface, as any program sees it.
import { byId } from "./dom.js";

/** What the server said was wrong, or that there is none; `status` 0 is a server that does not answer. */
export class Fault extends Error {
  constructor(message, status, retryAfter = null) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }
}

const UNREACHABLE = "The server does not answer. It may have been stopped; nothing you wrote is lost.";

let token = takeToken();

/** From the address (#token=…, which never leaves the browser), or from before in this tab. */
function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  try {
    if (given) sessionStorage.setItem("token", given);
    if (given) history.replaceState(null, "", location.pathname + location.search);
    return given ?? sessionStorage.getItem("token");
  } catch {
    return given;
  }
}

export const withToken = (path) => (token ? `${path}?${new URLSearchParams({ token })}` : path);

/** GET, or POST where there is a body; the answer's body. Throws Fault, or AbortError where `signal` says so. */
export async function ask(path, { body = null, signal = null } = {}) {
  const response = await request(path, { body, signal });
  return response.json();
}

/** A file, as an address that an image can show. */
export async function picture(path) {
  return URL.createObjectURL(await (await request(path)).blob());
}

async function request(path, { body = null, signal = null } = {}) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  if (body) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method: body ? "POST" : "GET", headers, signal, body: body && JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Fault(UNREACHABLE, 0);
  }
  if (response.ok) return response;
  if (response.status === 401 && document.body.dataset.needsToken === "yes") {
    await askForToken(token !== null);
    return request(path, { body, signal });
  }
  const told = await response.json().catch(() => ({}));
  const retryAfter = Number(response.headers.get("Retry-After")) || null;
  throw new Fault(told.error ?? `The server answered with status ${response.status}.`, response.status, retryAfter);
}

let asking = null; // one dialog, however many requests wait for it
function askForToken(wasWrong) {
  asking ??= new Promise((resolve) => {
    const dialog = byId("token-dialog");
    byId("token-fault").textContent = wasWrong ? "That was not it." : "";
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    dialog.addEventListener("close", () => {
      token = byId("token-field").value.trim();
      try {
        sessionStorage.setItem("token", token);
      } catch {
        // kept for this page only
      }
      asking = null;
      resolve();
    }, { once: true });
    dialog.showModal();
  });
  return asking;
}

/** Ask a model; where too many are waiting, wait as long as the server says and try again, three times. */
export async function chat(body, signal = null, onWait = () => {}) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await ask("/api/chat", { body, signal });
    } catch (error) {
      const busy = error instanceof Fault && error.status === 503 && error.retryAfter !== null && error.retryAfter < 5;
      if (!busy || attempt > 3) throw error;
      onWait(error.message);
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
