// A model's reply as people see it: what it said and, folded, why.
import { attentionMap } from "./attention.js";
import { element, number, seconds } from "./dom.js";

const UNREADABLE = "I cannot read this: I know letters a to z, digits and . , ! ? only.";

/** The bubble with a reply. `label` says which model it is from, and how it was asked. */
export function replyMessage(answer, label) {
  const readable = answer.source_words.length > 0;
  const said = readable ? answer.reply : UNREADABLE;
  const text = element("p", { class: readable && said ? "said" : "said none", dir: "auto" }, said || "(It said nothing.)");
  return element("div", { class: "from-model" }, text, ...answer.warnings.map(warning), readable ? why(answer, label) : null);
}

/** What went wrong instead of a reply; `again`, where there is one, is called by a button. */
export function faultMessage(message, again = null) {
  const box = element("div", { class: "fault", role: "alert" }, element("p", {}, message));
  if (again) {
    const button = element("button", { type: "button", class: "btn btn-sm btn-soft" }, "Try again");
    button.addEventListener("click", again, { once: true });
    box.append(button);
  }
  return box;
}

/** Three dots. */
export function typing(name) {
  const dots = [1, 2, 3].map(() => element("span", { class: "dot", "aria-hidden": "true" }));
  return element("div", { class: "typing", role: "status" }, dots, element("span", { class: "visually-hidden" }, `${name} is typing`),
    element("span", { class: "typing-note" }));
}

function warning(text) {
  return element("p", { class: "warning" }, element("strong", {}, "Note: "), text);
}

function why(answer, label) {
  const parts = [hypotheses(answer), attention(answer), unknown(answer), facts(answer)];
  const [best] = answer.alternatives;
  const summary = element("summary", {}, element("span", { class: "why" }, "why"),
    element("span", { class: "meta" }, ` ${label} · ${seconds(answer.seconds)}`,
      answer.unknown_words.length ? element("span", { class: "tag" }, `${answer.unknown_words.length} unknown`) : null));
  const details = element("details", { class: "why-box" }, summary);
  details.addEventListener("toggle", () => { // made when it is looked at: a long conversation stays light
    if (details.open && details.children.length === 1) details.append(element("div", { class: "why-inner" }, parts.map((part) => part())));
  });
  details.dataset.score = best ? String(best.score) : "";
  return details;
}

function section(title, ...children) {
  return element("section", {}, element("h2", {}, title), children);
}

const hypotheses = (answer) => () => {
  if (answer.alternatives.length < 2) {
    return section("Other hypotheses", element("p", { class: "quiet" }, "Only one was kept, of log-probability ",
      answer.alternatives.length ? answer.alternatives[0].score.toFixed(2) : "–", ". A beam with more replies shows what else it might have said."));
  }
  const best = answer.alternatives[0].score;
  const rows = answer.alternatives.map(({ text, score }, place) => {
    const bar = element("span", { class: "bar-of", "aria-hidden": "true" });
    bar.style.setProperty("--share", `${(Math.min(1, Math.exp(score - best)) * 100).toFixed(1)}%`);
    return element("tr", { class: place === 0 ? "chosen" : null },
      element("td", { class: "num" }, score.toFixed(2)), element("td", { class: "share" }, bar),
      element("td", { dir: "auto" }, text || "(nothing)", place === 0 ? element("span", { class: "tag" }, "said") : null));
  });
  return section("Other hypotheses", element("table", { class: "hypotheses" },
    element("caption", {}, "Log-probability in nats; the bar is the probability compared with what was said."),
    element("thead", { class: "visually-hidden" }, element("tr", {}, element("th", { scope: "col" }, "Score"),
      element("th", { scope: "col" }, "Share"), element("th", { scope: "col" }, "Reply"))),
    element("tbody", {}, rows)));
};

const attention = (answer) => () => section("Where it looked",
  attentionMap(answer) ?? element("p", { class: "quiet" }, "This model has no attention."));

const unknown = (answer) => () => section("Words it does not know", answer.unknown_words.length
  ? element("p", { class: "words" }, answer.unknown_words.map((word) => element("span", { class: "word", dir: "auto" }, word)))
  : element("p", { class: "quiet" }, "None."));

const facts = (answer) => () => section("Facts", element("dl", { class: "facts-list" },
  element("dt", {}, "Time"), element("dd", {}, seconds(answer.seconds)),
  element("dt", {}, "Trained for"), element("dd", {}, answer.step === null ? "–" : `${number(answer.step)} steps`),
  element("dt", {}, "It read"), element("dd", { dir: "auto" }, answer.source_words.join(" "))));
