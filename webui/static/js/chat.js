// The page for chatting with one model at a time.
import { ApiError, chat } from "./api.js";
import { Composer } from "./composer.js";
import { DecodingForm } from "./decoding.js";
import { byId, copyToClipboard, download, element, loadState, saveState } from "./dom.js";
import { errorMessage, replyMessage, typingIndicator, userMessage } from "./messages.js";
import { labelsOf } from "./labels.js";
import { RunPicker, modelLabel } from "./run_picker.js";
import { searchLink } from "./search_request.js";

const MAX_SAVED = 200; // messages restored after a reload
const STARTERS = ["Hello!", "How are you?", "Who are you?", "Tell me a joke."];

/** The conversation: {who: "you", text, time} and {who: "model", run, snapshot, decoding, answer, time}. */
let messages = [];
let pending = null; // the AbortController of the current request
const form = new DecodingForm();
const picker = new RunPicker(showRun, showError, "/");
const composer = new Composer(send);
const log = byId("log");
const scroll = byId("scroll");
const note = byId("note");

function showRun(details) {
  note.textContent = "";
  if (details === null) {
    note.replaceChildren(picker.hasRuns ? "No run to chat with. Train one with " : "No runs yet. Train one with ", element("code", {}, "seq2seq-chat train configs/quickstart.json"), ".");
    return;
  }
  form.setRun(details);
  if (!details.config) note.textContent = `This run cannot be loaded: ${details.reason}`;
  else if (details.state === "training") note.textContent = "This run is still training; replies come from its newest checkpoint.";
  else if (details.state === "failed") note.textContent = `Training of this run failed${details.reason ? `: ${details.reason}` : "."}`;
}

function showError(error) {
  note.textContent = error.message;
}

function isScrolledToEnd() {
  return scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 120;
}

function scrollToEnd() {
  scroll.scrollTop = scroll.scrollHeight;
}

/** A link to the search for a reply, which follows the message that it answers. */
function linkToSearch(reply) {
  const index = messages.indexOf(reply);
  const text = messages[index - 1]?.text;
  return text === undefined ? null : searchLink({ ...reply, text, history: textsOf(messages.slice(0, index - 1)) });
}

function show(message) {
  byId("welcome").hidden = true;
  log.append(message.who === "you"
    ? userMessage(message.text)
    : element("div", { class: "message model" }, element("span", { class: "visually-hidden" }, "Model: "), replyMessage(message.answer, modelLabel(message), labelsOf("conversation"), linkToSearch(message))));
}

function add(message) {
  messages.push(message);
  saveState("conversation", messages.slice(-MAX_SAVED));
  show(message);
}

/** The turns of a conversation, as the API expects it: user and model in turns, within the server's limits. */
function textsOf(turns) {
  const maxHistory = Number(document.body.dataset.maxHistory);
  const texts = turns.map((message) => (message.who === "you" ? message.text : message.answer.reply));
  return texts.slice(-maxHistory).map((text) => text.slice(0, composer.maxLength));
}

function send(text) {
  if (pending) return false;
  if (!picker.selection.run) {
    note.textContent = "There is no run to chat with yet.";
    return false;
  }
  const previous = textsOf(messages);
  add({ who: "you", text, time: new Date().toISOString() });
  requestReply(text, previous);
  return true;
}

async function requestReply(text, previous) {
  const { run, snapshot } = picker.selection;
  const decoding = form.value;
  const indicator = typingIndicator("The model");
  log.append(indicator);
  scrollToEnd();
  pending = new AbortController();
  byId("stop").hidden = false;
  byId("send").hidden = true;
  const focused = document.activeElement;
  try {
    const answer = await chat({ run, snapshot: snapshot === "latest" ? null : snapshot, text, history: previous, decoding },
      pending.signal, (reason) => { indicator.querySelector(".typing-note").textContent = reason; });
    indicator.remove();
    const follow = isScrolledToEnd();
    add({ who: "model", run, snapshot, decoding, answer, time: new Date().toISOString() });
    if (follow) scrollToEnd();
  } catch (error) {
    indicator.remove();
    if (error.name === "AbortError") {
      log.append(element("p", { class: "stopped", role: "status" }, "Stopped."));
    } else if (error instanceof ApiError) {
      const box = errorMessage(error.message, () => {
        if (pending) return;
        box.remove();
        requestReply(text, previous);
      });
      log.append(box);
      if (error.status === 404) picker.refresh();
    } else throw error;
    scrollToEnd();
  } finally {
    pending = null;
    byId("stop").hidden = true;
    byId("send").hidden = false;
    if (focused === byId("stop") || document.activeElement === document.body) composer.text.focus();
  }
}

function stop() {
  pending?.abort();
}

function asText() {
  return messages.map((message) => (message.who === "you" ? `you: ${message.text}` : `bot: ${message.answer.reply}`)).join("\n") + "\n";
}

function fileName(extension) {
  return `conversation_${new Date().toISOString().slice(0, 19).replaceAll(":", "-").replace("T", "_")}.${extension}`;
}

function startConversation() {
  stop();
  messages = [];
  saveState("conversation", messages);
  log.replaceChildren();
  byId("welcome").hidden = false;
  composer.text.focus();
}

byId("stop").addEventListener("click", stop);
byId("new").addEventListener("click", startConversation);
byId("copy").addEventListener("click", async () => { note.textContent = await copyToClipboard(asText(), "conversation", "Download the conversation instead."); });
byId("download-text").addEventListener("click", () => download(fileName("txt"), "text/plain", asText()));
byId("download-json").addEventListener("click", () => download(fileName("json"), "application/json", JSON.stringify(messages, null, 2)));
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && pending && !document.querySelector(".offcanvas.show, .dropdown-menu.show")) stop();
});

for (const text of STARTERS) {
  const button = element("button", { type: "button", class: "btn btn-soft" }, text);
  button.addEventListener("click", () => send(text) && composer.text.focus());
  byId("starters").append(button);
}
const saved = loadState("conversation");
if (Array.isArray(saved)) {
  messages = saved;
  for (const message of messages) show(message);
  scrollToEnd();
}
composer.resize();
composer.text.focus({ preventScroll: true });
await picker.start();
