// What stands beside the tree: the source with its attention, the most probable words at a position, and the final ranking.
import { element } from "./dom.js";
import { END, decimal, percent } from "./search_model.js";
import { tokenElement } from "./tokens.js";

const token = (word) => (word === END ? element("span", { class: "token special" }, "end") : tokenElement(word));
const words = (nodes) => nodes.flatMap((node) => [token(node.word), " "]);
const ALTERNATIVES = 10;

/** The tokens of the source; `setAttention` shades them by weights, or not if there are none. */
export class SourceTokens {
  constructor(box) {
    this.box = box;
  }

  show({ source_words: source, unknown_words: unknown }) {
    this.tokens = source.map((word) => {
      const isUnknown = unknown.includes(word);
      return element("span", { class: `source-token${isUnknown ? " unknown-word" : ""}`, title: isUnknown ? "not in the vocabulary" : null },
        tokenElement(word), element("span", { class: "source-percent", "aria-hidden": "true" }));
    });
    this.box.replaceChildren(...this.tokens);
  }

  setAttention(weights) {
    this.tokens?.forEach((node, index) => {
      const weight = weights?.[index] ?? 0;
      node.style.setProperty("--weight", weight.toFixed(3));
      node.lastChild.textContent = weight >= 0.005 ? String(Math.round(100 * weight)) : "";
    });
  }
}

/** The most probable words in the place of a node; `onForce(words)` is called with those that the reply shall start with. */
export function alternatives(model, node, onForce) {
  const before = model.path(node.parent);
  const candidates = node.parent.candidates.slice(0, ALTERNATIVES);
  if (!candidates.some((one) => one.word === node.word)) candidates.push(node);
  const rows = candidates.map((one) => {
    const bar = element("span", { class: "share-bar", "aria-hidden": "true" });
    bar.style.setProperty("--share", `${(100 * one.probability).toFixed(1)}%`);
    const button = element("button", { type: "button", class: "btn btn-sm btn-soft", "aria-label": `Force ${one.word === END ? "the end" : one.word}`,
      click: () => onForce([...before.map((earlier) => earlier.word), one.word]) }, "Force");
    return element("tr", { class: one.word === node.word ? "chosen" : null },
      element("th", { scope: "row" }, token(one.word)), element("td", { class: "num" }, percent(one.probability)), element("td", { class: "share" }, bar),
      element("td", { class: `fate ${one.fate}` }, FATES[one.fate]), element("td", {}, button));
  });
  const title = element("h2", { id: "alternatives-title" }, "Most probable at step ", String(node.depth));
  const after = element("p", { class: "muted", dir: "auto" }, before.length ? ["after ", words(before)] : "as the first word");
  const head = element("thead", { class: "visually-hidden" }, element("tr", {}, ["Word", "Probability", "Share", "What became of it", "Force it"].map((name) => element("th", { scope: "col" }, name))));
  return [title, after, element("table", { class: "alternatives", "aria-labelledby": "alternatives-title" }, head, element("tbody", {}, rows))];
}

const FATES = { kept: "kept", outranked: "pruned", forbidden: "forbidden", not_forced: "not forced" };

/** The hypotheses of the last beam; `previous` is the ranking before a setting was changed, or null. */
export function rankingTable(model, previous, labels, onPoint) {
  const { n_best: count, length_penalty: penalty } = model.start;
  const before = new Map((previous ?? []).map(({ text }, rank) => [text, rank]));
  const numbers = (one) => (penalty ? [decimal(one.score), one.divisor.toFixed(2), decimal(one.rank)] : [decimal(one.score)]);
  const rows = model.ranking.map((one, rank) => {
    const row = element("tr", { class: rank === 0 ? "chosen" : null },
      element("td", { class: "num" }, String(rank + 1)),
      element("td", {}, element("span", { class: "hypothesis", dir: "auto" }, one.text.trim() ? one.text : "(empty)"),
        rank === 0 ? element("span", { class: "tag" }, labels.output) : null, one.ended ? null : element("span", { class: "tag warn" }, "not finished"), change(one.text, rank, previous && before)),
      numbers(one).map((number) => element("td", { class: "num" }, number)));
    row.addEventListener("pointerenter", () => onPoint(one.node));
    row.addEventListener("pointerleave", () => onPoint(null));
    return row;
  });
  const columns = [["", "Place"], [labels.output], ["log p", "log-probability in nats"], ["÷", "divided by ((5 + tokens) / 6) to the power of the length penalty"], ["rank", "what hypotheses are sorted by"]].slice(0, penalty ? 5 : 3);
  const head = element("thead", {}, element("tr", {}, columns.map(([text, title]) => element("th", { scope: "col", class: text === labels.output ? null : "num" },
    title && text ? element("abbr", { title }, text) : text || element("span", { class: "visually-hidden" }, title)))));
  const caption = element("caption", {}, `Hypotheses of the last beam, by log-probability${penalty ? ` and length penalty ${penalty}` : ""}. A chat shows the first ${count === 1 ? "one" : count}.`);
  return element("table", { class: "ranking" }, caption, head, element("tbody", {}, rows));
}

/** How the place of a hypothesis has changed. */
function change(text, rank, before) {
  if (!before) return null;
  const old = before.get(text);
  if (old === rank) return null;
  return element("span", { class: "tag change" }, old === undefined ? "new" : `was ${old + 1}`);
}
