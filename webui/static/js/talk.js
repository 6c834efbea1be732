// The page on which two models talk to each other, or one with itself.
import { ApiError, chat, fetchJson } from "./api.js";
import { DecodingForm } from "./decoding.js";
import { byId, copyToClipboard, counted, element } from "./dom.js";
import { errorMessage } from "./messages.js";
import { findLoop, repeatedTurn } from "./repetition.js";
import { RunPicker, shortName, snapshotLabel } from "./run_picker.js";

const ITSELF = ""; // the partner of a model that talks with itself
const note = byId("note");
const log = byId("log");
const partner = byId("partner");
const partnerSnapshot = byId("partner-snapshot");
const form = new DecodingForm();
const picker = new RunPicker(showRun, (error) => { note.textContent = error.message; }, "/");

/** The turns: {text, speaker, node}; that of the first message has no speaker. */
let turns = [];
let pending = null; // the AbortController of a conversation

async function showRun(details) {
  note.textContent = "";
  if (details === null) {
    note.textContent = "No run to talk with yet.";
    return;
  }
  form.setRun(details);
  if (!details.config) note.textContent = `This run cannot be loaded: ${details.reason}`;
  const names = [...picker.runs.values()].filter((run) => run.newest_step !== null && picker.accepts(run.task) && run.name !== details.name).map((run) => run.name);
  const selected = partner.value;
  partner.replaceChildren(new Option("itself", ITSELF), ...names.map((name) => new Option(name, name)));
  if (names.includes(selected)) partner.value = selected;
  await showPartner();
}

async function showPartner() {
  const selected = partnerSnapshot.value;
  try {
    const { snapshots } = partner.value === ITSELF ? picker.details : await fetchJson(`/api/runs/${encodeURIComponent(partner.value)}`);
    partnerSnapshot.replaceChildren(...snapshots.map((name) => new Option(snapshotLabel(name), name)));
    if (snapshots.includes(selected)) partnerSnapshot.value = selected;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    note.textContent = error.message;
  }
}

/** The two models: {run, snapshot}. */
function speakers() {
  const { run, snapshot } = picker.selection;
  return [{ run, snapshot }, { run: partner.value === ITSELF ? run : partner.value, snapshot: partnerSnapshot.value || "latest" }];
}

async function talk() {
  const models = speakers();
  if (!models[0].run) return;
  pending?.abort();
  const controller = pending = new AbortController();
  const count = Number(byId("turns").value);
  const seed = byId("seed").value === "" ? crypto.getRandomValues(new Uint32Array(1))[0] % 1_000_000_000 : Number(byId("seed").value);
  const decoding = form.value;
  turns = [];
  log.replaceChildren();
  for (const id of ["stop", "copy"]) byId(id).hidden = id === "copy";
  add(byId("text").value.trim(), null);
  try {
    for (let number = 0; number < count; number++) {
      byId("summary").textContent = `Turn ${number + 1} of ${count} …`;
      const speaker = models[number % 2];
      const answer = await chat(requestOf(speaker, decoding, seed + number), controller.signal);
      if (pending !== controller) return;
      add(answer.reply, speaker, number % 2);
      if (byId("ends").checked && findLoop(replies())) break;
    }
    finish(decoding, seed);
  } catch (error) {
    if (pending !== controller) return;
    finish(decoding, seed, error.name === "AbortError" ? "Stopped. " : "");
    if (error instanceof ApiError) log.append(element("li", {}, errorMessage(error.message, talk)));
    else if (error.name !== "AbortError") throw error;
  }
}

/** The request for the next turn; with sampling, each has its own seed. */
function requestOf({ run, snapshot }, decoding, seed) {
  const texts = turns.map((turn) => turn.text);
  const history = texts.slice(0, -1).slice(-Number(document.body.dataset.maxHistory));
  const settings = decoding.method === "sample" ? { ...decoding, seed } : decoding;
  return { run, snapshot: snapshot === "latest" ? null : snapshot, text: texts.at(-1), history, decoding: settings };
}

const replies = () => turns.slice(1).map((turn) => turn.text);

function add(text, speaker, side = 1) {
  const name = speaker ? `${shortName(speaker.run)} · ${snapshotLabel(speaker.snapshot)}` : "first message";
  const node = element("li", { class: `talk-turn ${side ? "second" : "first"}` },
    element("div", { class: "talk-head" }, element("span", { dir: "auto" }, name), element("span", {}, turns.length ? String(turns.length) : null)),
    element("p", { dir: "auto", class: text.trim() ? null : "placeholder-text" }, text.trim() ? text : "(empty reply)"));
  turns.push({ text, speaker, node });
  log.append(node);
  const texts = replies();
  const earlier = texts.length ? repeatedTurn(texts, texts.length - 1) : null;
  if (earlier !== null) node.append(element("span", { class: "tag" }, `as in turn ${earlier + 1}`));
  const loop = findLoop(texts);
  turns.forEach((turn, index) => turn.node.classList.toggle("in-loop", loop !== null && index > loop.start));
  node.scrollIntoView({ block: "nearest" });
}

function finish(decoding, seed, prefix = "") {
  pending = null;
  byId("stop").hidden = true;
  byId("copy").hidden = turns.length < 2;
  const texts = replies();
  const loop = findLoop(texts);
  const parts = [`${counted(texts.length, "reply", "replies")}, ${new Set(texts).size} of them distinct`];
  if (loop) parts.push(`a loop of ${counted(loop.length, "turn")} since turn ${loop.start + 1}`);
  if (decoding.method === "sample") parts.push(`seed ${seed}`);
  byId("summary").textContent = `${prefix}${parts.join("; ")}.`;
}

byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  talk();
});
byId("stop").addEventListener("click", () => {
  pending?.abort();
  byId("send").focus();
});
byId("copy").addEventListener("click", async () => {
  const lines = turns.map(({ text, speaker }) => `${speaker ? `${shortName(speaker.run)} (${snapshotLabel(speaker.snapshot)})` : "you"}: ${text}\n`);
  note.textContent = await copyToClipboard(lines.join(""), "conversation", "Select the conversation and copy it.");
});
partner.addEventListener("change", showPartner);
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !document.querySelector(".offcanvas.show")) pending?.abort();
});
await picker.start();
