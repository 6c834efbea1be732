// The messages of a conversation: those of the user, replies with their explanation, and errors.
import { attentionMap } from "./attention.js";
import { element, formatNumber, formatSeconds } from "./dom.js";
import { tokenElement } from "./tokens.js";

const UNREADABLE = "I cannot read this.";

/** A message of the user. */
export function userMessage(text) {
  return element("div", { class: "message you" }, element("span", { class: "visually-hidden" }, "You: "), element("p", { class: "message-text", dir: "auto" }, text));
}

/** A reply; `label` names the model and the decoding method. */
export function replyMessage(answer, label) {
  const readable = answer.source_words.length > 0;
  const reply = readable ? answer.reply : UNREADABLE;
  const text = element("p", { class: readable && reply.trim() ? "message-text" : "message-text placeholder-text", dir: "auto" }, reply.trim() ? reply : "(empty reply)");
  return element("div", { class: "from-model" }, text, ...answer.warnings.map(warning), readable ? explanation(answer, label) : null);
}

/** An error in place of a reply; `retry`, if given, is called by a button. */
export function errorMessage(message, retry = null) {
  const box = element("div", { class: "error", role: "alert" }, element("p", {}, message));
  if (retry) {
    const button = element("button", { type: "button", class: "btn btn-sm btn-soft" }, "Try again");
    button.addEventListener("click", retry, { once: true });
    box.append(button);
  }
  return box;
}

export function typingIndicator(name) {
  const dots = [1, 2, 3].map(() => element("span", { class: "dot", "aria-hidden": "true" }));
  return element("div", { class: "typing", role: "status" }, dots, element("span", { class: "visually-hidden" }, `${name} is typing`),
    element("span", { class: "typing-note" }));
}

function warning(text) {
  return element("p", { class: "warning" }, element("strong", {}, "Note: "), text);
}

function explanation(answer, label) {
  const summary = element("summary", {}, element("span", { class: "why" }, "why"),
    element("span", { class: "meta" }, ` ${label} · ${formatSeconds(answer.seconds)}`,
      answer.unknown_words.length ? element("span", { class: "tag" }, `${answer.unknown_words.length} unknown`) : null));
  const details = element("details", { class: "why-box" }, summary);
  details.addEventListener("toggle", () => { // built when first opened, to keep long conversations light
    if (details.open && details.children.length === 1) {
      details.append(element("div", { class: "why-inner" }, hypotheses(answer), attention(answer), unknownWords(answer), facts(answer)));
    }
  });
  return details;
}

function section(title, ...children) {
  return element("section", {}, element("h2", {}, title), children);
}

function hypotheses(answer) {
  const [best] = answer.alternatives;
  if (answer.alternatives.length < 2) {
    return section("Hypotheses", element("p", { class: "muted" }, "Only one hypothesis, with log-probability ", best ? best.score.toFixed(2) : "–",
      ". Use beam search with several replies to see alternatives."));
  }
  const rows = answer.alternatives.map(({ text, score }, rank) => {
    const bar = element("span", { class: "share-bar", "aria-hidden": "true" });
    bar.style.setProperty("--share", `${(Math.min(1, Math.exp(score - best.score)) * 100).toFixed(1)}%`);
    return element("tr", { class: rank === 0 ? "chosen" : null },
      element("td", { class: "num" }, score.toFixed(2)), element("td", { class: "share" }, bar),
      element("td", {}, element("span", { class: "hypothesis", dir: "auto" }, text.trim() ? text : "(empty)"), rank === 0 ? element("span", { class: "tag" }, "reply") : null));
  });
  return section("Hypotheses", element("table", { class: "hypotheses" },
    element("caption", {}, "Log-probability in nats; the bar is the probability relative to the reply."),
    element("thead", { class: "visually-hidden" }, element("tr", {}, element("th", { scope: "col" }, "Score"),
      element("th", { scope: "col" }, "Share"), element("th", { scope: "col" }, "Reply"))),
    element("tbody", {}, rows)));
}

function attention(answer) {
  return section("Attention", attentionMap(answer) ?? element("p", { class: "muted" }, "This model has no attention."));
}

function unknownWords(answer) {
  return section("Not in the vocabulary", answer.unknown_words.length
    ? element("p", { class: "words" }, answer.unknown_words.map((word) => element("span", { class: "word" }, tokenElement(word))))
    : element("p", { class: "muted" }, "None."));
}

function facts(answer) {
  return section("Details", element("dl", { class: "facts-list" },
    element("dt", {}, "Time"), element("dd", {}, formatSeconds(answer.seconds)),
    element("dt", {}, "Training"), element("dd", {}, answer.step === null ? "–" : `${formatNumber(answer.step)} steps`),
    element("dt", {}, "Tokens read"), element("dd", { dir: "auto" }, tokens(answer.source_words)),
    element("dt", {}, "Tokens of the reply"), element("dd", { dir: "auto" }, tokens(answer.reply_words))));
}

function tokens(words) {
  return words.flatMap((word) => [tokenElement(word), " "]);
}
