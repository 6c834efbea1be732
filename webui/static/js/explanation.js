// What explains an output: the other hypotheses, the attention, unknown tokens, and how long it took.
import { attentionMap } from "./attention.js";
import { AttentionLinks } from "./attention_links.js";
import { counted, element, formatNumber, formatSeconds } from "./dom.js";
import { capitalize } from "./labels.js";
import { tokenElement } from "./tokens.js";

const ENDS = { true: "the model", false: "the length limit" };

function section(title, ...children) {
  return element("section", {}, element("h2", {}, title), children);
}

/** All hypotheses with their scores; `labels` are the task's. */
export function hypotheses(answer, labels) {
  const [best] = answer.alternatives;
  if (answer.alternatives.length < 2) {
    return section("Hypotheses", element("p", { class: "muted" }, "Only one hypothesis, with log-probability ", best ? best.score.toFixed(2) : "–",
      `. Use beam search with several ${labels.outputs} to see alternatives.`));
  }
  const rows = answer.alternatives.map(({ text, score }, rank) => {
    const bar = element("span", { class: "share-bar", "aria-hidden": "true" });
    bar.style.setProperty("--share", `${(Math.min(1, Math.exp(score - best.score)) * 100).toFixed(1)}%`);
    return element("tr", { class: rank === 0 ? "chosen" : null },
      element("td", { class: "num" }, score.toFixed(2)), element("td", { class: "share" }, bar),
      element("td", {}, element("span", { class: "hypothesis", dir: "auto" }, text.trim() ? text : "(empty)"), rank === 0 ? element("span", { class: "tag" }, labels.output) : null));
  });
  return section("Hypotheses", element("table", { class: "hypotheses" },
    element("caption", {}, `Log-probability in nats; the bar is the probability relative to the ${labels.output}.`),
    element("thead", { class: "visually-hidden" }, element("tr", {}, element("th", { scope: "col" }, "Score"),
      element("th", { scope: "col" }, "Share"), element("th", { scope: "col" }, capitalize(labels.output)))),
    element("tbody", {}, rows)));
}

/** The attention as a picture and as a table, which is folded if `folded`. */
export function attention(answer, labels, folded = false) {
  const map = attentionMap(answer, labels);
  if (!map) return section("Attention", element("p", { class: "muted" }, "This model has no attention."));
  const table = folded ? element("details", { class: "more" }, element("summary", {}, "As a table"), map) : map;
  return section("Attention", new AttentionLinks(answer, labels).figure, table);
}

export function unknownWords(answer) {
  return section("Not in the vocabulary", answer.unknown_words.length
    ? element("p", { class: "words" }, answer.unknown_words.map((word) => element("span", { class: "word" }, tokenElement(word))))
    : element("p", { class: "muted" }, "None."));
}

/** How long it took, with which weights, and the tokens of both sides; `more` are pairs of a title and a text. */
export function facts(answer, labels, more = []) {
  return section("Details", element("dl", { class: "facts-list" },
    element("dt", {}, "Time"), element("dd", {}, `${formatSeconds(answer.seconds)}, ${formatNumber(answer.reply_words.length / Math.max(answer.seconds, 0.0001))} tokens per second`),
    ENDS[answer.ended] && [element("dt", {}, "Ended by"), element("dd", {}, ENDS[answer.ended])],
    element("dt", {}, "Training"), element("dd", {}, answer.step === null ? "–" : counted(answer.step, "step")),
    element("dt", {}, "Tokens read"), element("dd", { dir: "auto" }, tokens(answer.source_words)),
    element("dt", {}, `Tokens of the ${labels.output}`), element("dd", { dir: "auto" }, tokens(answer.reply_words)),
    more.map(([title, text]) => [element("dt", {}, title), element("dd", { dir: "auto" }, text)])));
}

function tokens(words) {
  return words.flatMap((word) => [tokenElement(word), " "]);
}
