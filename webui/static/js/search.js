// The page on which a beam search is watched: settings, the tree as it grows, forced words, and the final ranking.
import { ApiError, fetchLines } from "./api.js";
import { byId, element, onEscape } from "./dom.js";
import { labelsOf } from "./labels.js";
import { errorMessage, warning } from "./messages.js";
import { RunPicker, trainingHint } from "./run_picker.js";
import { SourceTokens, alternatives, rankingTable } from "./search_details.js";
import { END, SearchModel, decimal, percent } from "./search_model.js";
import { requestOfUrl, searchPath } from "./search_request.js";
import { SearchTree } from "./search_tree.js";
import { tokenElement } from "./tokens.js";

const SETTINGS = ["beam_width", "length_penalty", "no_repeat_ngram_size", "min_length"]; // that have a control
const STARTERS = ["Hello!", "How are you?", "Tell me a joke."];
const STEP_TIME = 700; // milliseconds of a step in a replay
const HINT = "Point at a word, or move to it with the arrow keys, to see what became of it; click it for the alternatives.";
const note = byId("note");
const picker = new RunPicker(showRun, (error) => { note.textContent = error.message; });
const source = new SourceTokens(byId("source"));
const tree = new SearchTree(byId("tree"), { onPoint: point, onSelect: select });

let model = null; // the search that is shown
let request = requestOfUrl() ?? { text: "", history: [], prefix: [], decoding: {} };
let pending = null; // the AbortController of the search that runs
let previous = null; // the ranking before a setting was changed
let player = null; // the timer of the replay

function showRun(details) {
  note.textContent = "";
  if (details === null) {
    note.replaceChildren("No run to search with yet.", ...trainingHint());
    return;
  }
  if (!details.config) note.textContent = `This run cannot be loaded: ${details.reason}`;
  const settings = { ...details.decoding.defaults.beam, ...request.decoding };
  for (const name of SETTINGS) byId(name).value = settings[name] ?? byId(name).value;
  showWidth();
  drawStarters(details);
  if (request.text) {
    byId("text").value = request.text;
    search();
  }
}

/** Texts to try: sources of the run's samples, or greetings for a run without samples. */
function drawStarters({ samples }) {
  const texts = [...new Set(samples.map((sample) => sample.source))].filter((text) => !text.includes("<unknown>")).slice(0, 3);
  const start = (text) => {
    byId("text").value = text;
    byId("form").requestSubmit();
  };
  byId("starters").replaceChildren(...(texts.length ? texts : STARTERS).map((text) => element("button", { type: "button", class: "btn btn-soft", dir: "auto", click: () => start(text) }, text)));
}

function showWidth() {
  byId("beam_width_value").textContent = byId("beam_width").value;
}

/** The settings of the link, as far as they have no control, and the settings of the form. */
function decoding() {
  const values = Object.fromEntries(SETTINGS.map((name) => [name, Number(byId(name).value)]));
  const wanted = request.decoding.n_best ?? picker.details?.decoding.defaults.beam?.n_best ?? 1;
  return { ...request.decoding, ...values, n_best: Math.min(wanted, values.beam_width) };
}

/** Search with the settings of the form; the one that is running stops. */
async function search() {
  const { run, snapshot } = picker.selection;
  if (!run || !byId("form").reportValidity()) return;
  pending?.abort();
  const controller = pending = new AbortController();
  const body = { ...request, run, snapshot: snapshot === "latest" ? null : snapshot, decoding: decoding() };
  history.replaceState(null, "", searchPath({ ...request, run, snapshot, decoding: { ...body.decoding, n_best: request.decoding.n_best } }));
  byId("stop").hidden = false;
  pause();
  const next = new SearchModel();
  try {
    for await (const line of fetchLines("/api/search", body, controller.signal)) {
      if (pending !== controller) return; // another search has started
      if (line.error) throw new ApiError(line.error, 0);
      next.add(line);
      if (model !== next) begin(next);
      else show(model.steps);
      await new Promise(requestAnimationFrame); // so that the tree is seen to grow
    }
    if (pending === controller) finish();
  } catch (error) {
    if (pending !== controller) return;
    if (error.name === "AbortError") finish("Stopped.");
    else if (error instanceof ApiError) fail(error);
    else throw error;
  }
}

/** Show a new search in place of the old one. */
function begin(next) {
  model = next;
  tree.clear();
  tree.forced = request.prefix.length;
  source.show(model.start);
  byId("welcome").hidden = true;
  byId("view").hidden = false;
  byId("alternatives").replaceChildren(element("p", { class: "muted" }, "Click a word to see the ten most probable words in its place, and to force one."));
  note.replaceChildren(...model.start.warnings.map(warning));
  if (!model.start.source_words.length) note.textContent = "The model cannot read any of this text.";
  showForced();
  show(0);
}

function show(wanted) {
  const step = Math.min(wanted, model.steps); // none if the text cannot be read
  tree.draw(model, step);
  byId("step").max = String(Math.max(1, model.steps));
  byId("step").value = String(step);
  byId("step_value").textContent = `${step} of ${model.steps}`;
}

function finish(message = null) {
  pending = null;
  byId("stop").hidden = true;
  const ranking = byId("ranking");
  ranking.hidden = !model?.ranking?.length;
  if (!ranking.hidden) {
    ranking.replaceChildren(element("h2", {}, "Ranking"), rankingTable(model, previous, labelsOf(picker.task), pointIn(model)));
    previous = model.ranking;
  }
  byId("caption").textContent = message ?? HINT;
}

function fail(error) {
  finish();
  note.replaceChildren(errorMessage(error.message, search));
  if (error.status === 404) picker.refresh();
}

/** Show what became of a word, and the attention with which it was chosen; null: of the selected one, if any. */
function point(node) {
  const shown = node ?? tree.selected;
  tree.highlight(shown);
  source.setAttention(shown?.attention);
  byId("caption").textContent = shown?.parent ? describe(shown) : HINT;
}

/** The same for the words of a search; nothing once another one is shown. */
function pointIn(searched) {
  return (node) => { if (model === searched) point(node); };
}

function describe(node) {
  const word = node.word === END ? "The end" : `“${node.word}”`;
  const penalized = model.start.length_penalty ? `, rank ${decimal(node.rank)}` : "";
  return `${word}: ${percent(node.probability)}, score ${decimal(node.score)}${penalized}. ${model.fate(node, Number(byId("step").value))}.`;
}

function select(node) {
  tree.select(node);
  point(node);
  byId("alternatives").replaceChildren(...alternatives(model, node, force));
}

/** Search on from words that the reply shall start with. */
function force(prefix) {
  request = { ...request, prefix };
  previous = null; // all hypotheses are others
  history.pushState(null, "", location.href); // so that Back undoes it
  search();
  byId("text").focus({ preventScroll: true }); // the button is gone
  byId("view").scrollIntoView({ block: "start" }); // the tree alone would be below the source, which stays at the top
}

function showForced() {
  const { prefix } = request;
  byId("forced").hidden = !prefix.length;
  const clear = element("button", { type: "button", class: "btn btn-sm btn-soft" }, "Clear");
  clear.addEventListener("click", () => {
    force([]);
    byId("text").focus();
  });
  byId("forced").replaceChildren("The reply must start with ", ...prefix.flatMap((word) => [element("span", { class: "forced-word" }, word === END ? "end" : tokenElement(word)), " "]), clear);
}

function play() {
  if (player !== null) {
    pause();
    return;
  }
  byId("play").textContent = "Pause";
  show(1);
  player = setInterval(() => {
    const step = Number(byId("step").value);
    if (step < model.steps) show(step + 1);
    else pause();
  }, STEP_TIME);
}

function pause() {
  clearInterval(player);
  player = null;
  byId("play").textContent = "Replay";
}

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = byId("text").value.trim();
  if (text !== request.text) request = { text, history: [], prefix: [], decoding: request.decoding };
  previous = null;
  search();
});
for (const name of SETTINGS) {
  byId(name).addEventListener(name === "beam_width" ? "input" : "change", () => {
    showWidth();
    if (request.text) search();
  });
}
byId("snapshot").addEventListener("change", () => { if (request.text) search(); });
byId("stop").addEventListener("click", () => {
  pending?.abort();
  byId("send").focus();
});
byId("play").addEventListener("click", play);
byId("step").addEventListener("input", () => {
  pause();
  show(Number(byId("step").value));
});
byId("leaves").addEventListener("change", () => {
  tree.showsLeaves = byId("leaves").checked;
  show(Number(byId("step").value));
});
onEscape(() => pending?.abort());
addEventListener("popstate", () => { if (requestOfUrl()) location.reload(); }); // Back to other words, or a link was pasted
await picker.start();
