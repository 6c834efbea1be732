// The attention of a reply as a table of its tokens by source tokens, in color and in numbers.
import { element } from "./dom.js";
import { tokenElement } from "./tokens.js";

/** `answer` is a response of POST /api/chat, `labels` are the task's; null if the model has no attention. */
export function attentionMap(answer, labels) {
  const { attention, source_words: source, reply_words: reply, unknown_words: unknown } = answer;
  if (!attention.length || !source.length) return null;
  const columns = source.map((word) => {
    const isUnknown = unknown.includes(word);
    return element("th", { scope: "col", class: isUnknown ? "unknown-word" : null, title: isUnknown ? "not in the vocabulary" : null },
      tokenElement(word));
  });
  const head = element("thead", {}, element("tr", {}, element("td", {}, element("span", { class: "corner", "aria-hidden": "true" }, `${labels.output} ↓ · ${labels.you} →`)), columns));
  const rows = attention.map((weights, row) => {
    const max = Math.max(...weights);
    const cells = weights.map((weight, column) => {
      const percent = Math.round(weight * 100);
      const cell = element("td", {
        class: `heat${weight >= 0.495 ? " warm" : ""}${weight >= 0.79 ? " hot" : ""}${weight === max ? " max" : ""}`,
        title: `attention of “${reply[row]}” to “${source[column]}”: ${(weight * 100).toFixed(1)} %`,
      }, String(percent));
      cell.style.setProperty("--weight", `${(weight * 100).toFixed(1)}%`);
      return cell;
    });
    return element("tr", {}, element("th", { scope: "row" }, tokenElement(reply[row])), cells);
  });
  const caption = element("caption", {}, `The attention of each token of the ${labels.output} (row) to each token of the ${labels.source} (column), in percent.`);
  return element("div", { class: "map", tabindex: "0", role: "region", "aria-label": "Attention map" },
    element("table", {}, caption, head, element("tbody", {}, rows)));
}
