// Where a reply looked: a table of its words by the words that were read, in colour and in numbers.
import { element } from "./dom.js";

/** `answer` is what POST /api/chat answers; null where the model has no attention. */
export function attentionMap(answer) {
  const { attention, source_words: source, reply_words: reply, unknown_words: unknown } = answer;
  if (!attention.length || !source.length) return null;
  const columns = source.map((word) => {
    const strange = unknown.includes(word);
    return element("th", { scope: "col", class: strange ? "strange" : null, title: strange ? "not in its vocabulary" : null },
      element("span", { dir: "auto" }, word));
  });
  const head = element("thead", {}, element("tr", {}, element("td", {}, element("span", { class: "corner", "aria-hidden": "true" }, "reply ↓ · you →")), columns));
  const rows = attention.map((weights, place) => {
    const most = Math.max(...weights);
    const cells = weights.map((weight, column) => {
      const percent = Math.round(weight * 100);
      const cell = element("td", {
        class: `heat${weight >= 0.495 ? " warm" : ""}${weight >= 0.79 ? " hot" : ""}${weight === most ? " most" : ""}`,
        title: `“${reply[place]}” looked at “${source[column]}” with ${(weight * 100).toFixed(1)} %`,
      }, String(percent));
      cell.style.setProperty("--weight", `${(weight * 100).toFixed(1)}%`);
      return cell;
    });
    return element("tr", {}, element("th", { scope: "row" }, element("span", { dir: "auto" }, reply[place])), cells);
  });
  const caption = element("caption", {}, "Each row is a word of the reply: how much it looked at each of your words, in percent.");
  return element("div", { class: "map", tabindex: "0", role: "region", "aria-label": "Attention map" },
    element("table", {}, caption, head, element("tbody", {}, rows)));
}
