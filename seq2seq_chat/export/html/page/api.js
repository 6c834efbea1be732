// In place of the client of the server's HTTP API: the same functions, over a worker that holds the model.
import { byId, formatNumber } from "./dom.js";

/** An error message for the user, with the HTTP status that the server has for the same error. */
export class ApiError extends Error {
  constructor(message, status = 400) {
    super(message);
    this.status = status;
  }
}

const MISSING = "This browser is too old for this page. Use Chrome or Edge 112, Firefox 116, Safari 17, or a newer version.";
const DAMAGED = "This page is damaged. Copy the file again, or export the model again.";

const requests = new Map(); // id → {resolve, reject, onTokens}
const worker = new Worker(URL.createObjectURL(new Blob([`(${startWorker})()`], { type: "text/javascript" })));
const about = load(); // what the page shows of the model
about.catch(() => {}); // shown by load(), maybe before a request waits for it

worker.onerror = (event) => showStartup(`The model cannot be started: ${event.message ?? "the worker failed"}. Copy the file again, or use a current browser.`);
worker.onmessage = ({ data: { id, result, tokens, error, stopped } }) => {
  const request = requests.get(id);
  if (tokens) {
    request.onTokens(tokens);
    return;
  }
  requests.delete(id);
  if (error) request.reject(new ApiError(error, 503));
  else if (stopped) request.reject(new DOMException("stopped", "AbortError"));
  else request.resolve(result);
};

/** Send a request to the worker, which `signal` stops; `onTokens` is called with tokens of a text as they are written. */
function ask(request, signal = null, onTokens = null) {
  signal?.throwIfAborted(); // while the model was loaded
  const id = crypto.getRandomValues(new Uint32Array(1))[0] || 1;
  signal?.addEventListener("abort", () => worker.postMessage({ stop: id }), { once: true });
  return new Promise((resolve, reject) => {
    requests.set(id, { resolve, reject, onTokens });
    worker.postMessage({ id, ...request });
  });
}

/** Whether the policy of the page has accepted its styles and all other scripts, which it does only if they are unchanged. */
function isComplete() {
  return [document.styleSheets.length, globalThis.Popper, globalThis.bootstrap, document.documentElement.dataset.bsTheme].every(Boolean);
}

async function load() {
  try {
    if (!globalThis.DecompressionStream || !Array.prototype.toReversed) throw new ApiError(MISSING);
    const data = byId("model");
    if (!data || !isComplete()) throw new ApiError(DAMAGED);
    showStartup("Loading the model …");
    const result = await ask({ load: data.textContent });
    showStartup("");
    data.remove();
    return result;
  } catch (error) {
    showStartup(error.message);
    throw error;
  }
}

/** What the server answers to a GET for the runs, or for one of them. */
export async function fetchJson(path) {
  const { run } = await about;
  return path === "/api/runs" ? { runs: [run] } : run;
}

/** The run of this page. Throws an ApiError if a link asks for another step than that of its weights. */
async function runAt(step) {
  const { run } = await about;
  if ((step ?? run.step) === run.step) return run;
  throw new ApiError(`run ${run.name} has no weights of step ${formatNumber(step)} on this page; these are of step ${formatNumber(run.step)}`, 404);
}

/** Request a reply. */
export async function chat({ text, history, decoding, step }, signal = null) {
  const run = await runAt(step);
  const settings = { ...run.decoding.defaults[decoding.method], ...decoding };
  check(text, settings);
  return ask({ chat: { text, history, decoding: settings } }, signal);
}

/** The same for the page that shows replies as they grow; here they are complete at once. */
export async function streamChat({ run, decoding, ...body }, signal) {
  const seed = decoding.seed ?? crypto.getRandomValues(new Uint32Array(1))[0] >>> 1;
  const answer = await chat({ ...body, decoding: { ...decoding, seed } }, signal);
  return { ...answer, run, seed: decoding.method === "sample" ? seed : null };
}

/** Throw an ApiError if settings contradict each other or the text is too long. */
function check(text, { method, n_best: count, beam_width: width, beam_groups: groups }) {
  const maxLength = Number(document.body.dataset.maxTextLength);
  if ([...text].length > maxLength) throw new ApiError(`The text is too long: at most ${maxLength} characters can be read at a time.`, 413);
  if (method !== "beam") return;
  if (count > width) throw new ApiError(`A beam of ${width} has no ${count} hypotheses. Show fewer, or raise the beam width.`);
  if (width % groups) throw new ApiError(`A beam of ${width} does not divide evenly into ${groups} groups. Change one of them.`);
}

/** Request a text, and yield {tokens} as they are written, then {seed, step, seconds}. */
export async function* fetchLines(path, { prompt, length, seed, step, ...settings }, signal) {
  const run = await runAt(step);
  const lines = [];
  let wake = null;
  const add = (line) => {
    lines.push(line);
    wake?.();
  };
  const chosen = ["temperature", "top_k", "top_p"].filter((name) => (settings[name] ?? null) !== null);
  const decoding = { ...run.config.decoding, ...Object.fromEntries(chosen.map((name) => [name, settings[name]])) };
  ask({ write: { prompt, length, seed, decoding } }, signal, (tokens) => add({ tokens })).then((end) => add({ step: run.step, ...end }), (error) => add({ error }));
  for (;;) {
    while (!lines.length) await new Promise((resolve) => { wake = resolve; });
    const line = lines.shift();
    if (line.error) throw line.error;
    yield line;
    if (line.seconds !== undefined) return;
  }
}
