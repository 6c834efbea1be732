// The messages of a conversation: the user's, replies with their explanation, and errors.
import { element, formatSeconds } from "./dom.js";
import { attention, facts, hypotheses, unknownWords } from "./explanation.js";
import { labelsOf } from "./labels.js";

const WAITING = document.body.dataset.owner === undefined ? "Waiting for the model …" : ""; // an exported file has its own
const UNREADABLE = "I cannot read this.";

/** A message of the user. */
export function userMessage(text) {
  return element("div", { class: "message you" }, element("span", { class: "visually-hidden" }, "You: "), element("p", { class: "message-text", dir: "auto" }, text));
}

/** A reply; `label` names the model and the decoding method, `labels` are the task's, `link` leads to its search. */
export function replyMessage(answer, label, labels = labelsOf("conversation"), link = null) {
  const readable = answer.source_words.length > 0;
  const reply = readable ? answer.reply : UNREADABLE;
  const warnings = answer.warnings.filter((text) => !text.startsWith("history: ")); // the whole conversation is sent to every model
  const text = element("p", { class: readable && reply.trim() ? "message-text" : "message-text placeholder-text", dir: "auto" }, reply.trim() ? reply : `(empty ${labels.output})`);
  return element("div", { class: "from-model" }, text, ...warnings.map(warning), readable ? explanation(answer, label, labels, link) : null);
}

/** An error in place of a reply; `retry`, if given, is called by a button. */
export function errorMessage(message, retry = null) {
  return element("div", { class: "error", role: "alert" }, element("p", {}, message),
    retry && element("button", { type: "button", class: "btn btn-sm btn-soft", click: retry }, "Try again"));
}

/** What is shown while a model replies; with a note and the seconds as long as `isWaiting()`, from the second one on. */
export function typingIndicator(name, isWaiting = () => true) {
  const dots = [1, 2, 3].map(() => element("span", { class: "dot", "aria-hidden": "true" }));
  const note = element("span", { class: "typing-note" });
  const seconds = element("span", { class: "muted", "aria-hidden": "true" });
  const node = element("div", { class: "typing", role: "status" }, dots, element("span", { class: "visually-hidden" }, `${name} is typing`), note, seconds);
  const start = Date.now();
  const timer = setInterval(() => {
    if (!node.isConnected) clearInterval(timer);
    const waits = isWaiting();
    note.textContent = waits ? note.textContent || WAITING : "";
    seconds.textContent = waits ? `${Math.round((Date.now() - start) / 1000)} s` : "";
  }, 1000);
  return node;
}

/** A warning of the server about an answer. */
export function warning(text) {
  return element("p", { class: "warning" }, element("strong", {}, "Note: "), text);
}

function explanation(answer, label, labels, link) {
  const summary = element("summary", {}, element("span", { class: "why" }, "why"),
    element("span", { class: "meta" }, ` ${label} · ${formatSeconds(answer.seconds)}`,
      answer.unknown_words.length ? element("span", { class: "tag" }, `${answer.unknown_words.length} unknown`) : null));
  const details = element("details", { class: "why-box", "aria-live": "off" }, summary);
  details.addEventListener("toggle", () => { // built when first opened, to keep long conversations light
    if (details.open && details.children.length === 1) {
      details.append(element("div", { class: "why-inner" }, hypotheses(answer, labels), attention(answer, labels), unknownWords(answer), facts(answer, labels), link && element("p", { class: "mt-3" }, link)));
    }
  });
  return details;
}
