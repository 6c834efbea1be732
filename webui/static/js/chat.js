// The conversation with one model at a time.
import { chat, Fault } from "./api.js";
import { Chooser } from "./chooser.js";
import { Composer } from "./composer.js";
import { DecodingForm } from "./decoding.js";
import { byId, copy, download, element, keep, kept } from "./dom.js";
import { faultMessage, replyMessage, typing } from "./reply.js";

const MOST_KEPT = 200; // messages kept for a reload
const STARTERS = ["hello !", "how are you ?", "who are you ?", "tell me a joke ."];

/** What was said: {who: "you", text, time} and {who: "model", run, snapshot, decoding, answer, time}. */
let messages = [];
let running = null; // the question that is being answered: an AbortController
const form = new DecodingForm(() => {});
const chooser = new Chooser(showRun, showFault);
const composer = new Composer(say);
const log = byId("log");
const scroll = byId("scroll");
const note = byId("note");

function showRun(page) {
  note.textContent = "";
  if (page === null) {
    note.replaceChildren("There is no run yet. Train one with ", element("code", {}, "seq2seq-chat train configs/quickstart.json"), ".");
    return;
  }
  form.offer(page.decoding);
  if (!page.config) note.textContent = `This run cannot be used: ${page.reason}`;
  else if (page.state === "training") note.textContent = "This run is being trained; each reply is from its newest checkpoint.";
  else if (page.state === "failed") note.textContent = `The training of this run failed${page.reason ? `: ${page.reason}` : "."}`;
}

function showFault(error) {
  note.textContent = error.message;
}

function atEnd() {
  return scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 120;
}

function toEnd() {
  scroll.scrollTop = scroll.scrollHeight;
}

function modelLabel(message) {
  const name = message.run.replace(/^\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d_/, "");
  const method = message.decoding.method ?? "";
  const width = method === "beam" && message.decoding.beam_width ? ` ${message.decoding.beam_width}` : "";
  const snapshot = message.snapshot === "latest" || message.snapshot === "best" ? message.snapshot : `step ${message.snapshot}`;
  return [name, snapshot, method + width].filter(Boolean).join(" · ");
}

function show(message) {
  byId("welcome").hidden = true;
  const shown = message.who === "you"
    ? element("div", { class: "message you" }, element("span", { class: "visually-hidden" }, "You: "), element("p", { class: "said", dir: "auto" }, message.text))
    : element("div", { class: "message model" }, element("span", { class: "visually-hidden" }, "Model: "), replyMessage(message.answer, modelLabel(message)));
  log.append(shown);
  return shown;
}

function add(message) {
  messages.push(message);
  keep("conversation", messages.slice(-MOST_KEPT));
  return show(message);
}

/** What was said before, as the model may be told it: theirs and its in turns. */
function history() {
  const most = Number(document.body.dataset.mostHistory);
  const limit = composer.limit;
  const texts = messages.map((message) => (message.who === "you" ? message.text : message.answer.reply));
  return texts.slice(-most).map((text) => text.slice(0, limit));
}

function say(text) {
  if (running) return false;
  if (!chooser.chosen.run) {
    note.textContent = "There is no run to talk to yet.";
    return false;
  }
  const before = history();
  add({ who: "you", text, time: new Date().toISOString() });
  answer(text, before);
  return true;
}

async function answer(text, before) {
  const { run, snapshot } = chooser.chosen;
  const decoding = form.value;
  const dots = typing("The model");
  log.append(dots);
  toEnd();
  running = new AbortController();
  byId("stop").hidden = false;
  byId("send").hidden = true;
  const focused = document.activeElement;
  try {
    const told = await chat({ run, snapshot: snapshot === "latest" ? null : snapshot, text, history: before, decoding },
      running.signal, (why) => { dots.querySelector(".typing-note").textContent = why; });
    dots.remove();
    const follow = atEnd();
    add({ who: "model", run, snapshot, decoding, answer: told, time: new Date().toISOString() });
    if (follow) toEnd();
  } catch (error) {
    dots.remove();
    if (error.name === "AbortError") {
      log.append(element("p", { class: "stopped", role: "status" }, "Stopped."));
    } else if (error instanceof Fault) {
      const box = faultMessage(error.message, () => {
        if (running) return;
        box.remove();
        answer(text, before);
      });
      log.append(box);
      if (error.status === 404) chooser.refresh();
    } else throw error;
    toEnd();
  } finally {
    running = null;
    byId("stop").hidden = true;
    byId("send").hidden = false;
    if (focused === byId("stop") || document.activeElement === document.body) composer.text.focus();
  }
}

function stop() {
  running?.abort();
}

function asText() {
  return messages.map((message) => (message.who === "you" ? `you: ${message.text}` : `bot: ${message.answer.reply}`)).join("\n") + "\n";
}

function fileName(ending) {
  return `conversation_${new Date().toISOString().slice(0, 19).replaceAll(":", "-").replace("T", "_")}.${ending}`;
}

function begin() {
  stop();
  messages = [];
  keep("conversation", messages);
  log.replaceChildren();
  byId("welcome").hidden = false;
  composer.text.focus();
}

byId("stop").addEventListener("click", stop);
byId("new").addEventListener("click", begin);
byId("copy").addEventListener("click", async () => {
  note.textContent = (await copy(asText())) ? "The conversation is in the clipboard." : "The browser does not let this page copy; download it instead.";
});
byId("download-text").addEventListener("click", () => download(fileName("txt"), "text/plain", asText()));
byId("download-json").addEventListener("click", () => download(fileName("json"), "application/json", JSON.stringify(messages, null, 2)));
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && running && !document.querySelector(".offcanvas.show, .dropdown-menu.show")) stop();
});

for (const text of STARTERS) {
  const button = element("button", { type: "button", class: "btn btn-soft" }, text);
  button.addEventListener("click", () => say(text) && composer.text.focus());
  byId("starters").append(button);
}
const before = kept("conversation");
if (Array.isArray(before)) {
  messages = before;
  for (const message of messages) show(message);
  toEnd();
}
composer.fit();
composer.text.focus({ preventScroll: true });
try {
  await chooser.start();
} catch (error) {
  showFault(error);
}
