// The results of an evaluation as tables: win rates, strengths, judges, preference for a side.
import { counted, element, formatNumber, labelCells } from "./dom.js";
import { shortName } from "./run_picker.js";

const percent = (share) => `${(100 * share).toFixed(1)} %`;
const number = (text, attributes = {}) => element("td", { class: "num", ...attributes }, text);

function systemName(system) {
  const step = system.step === null ? "" : ` · step ${formatNumber(system.step)}`;
  return [element("span", { title: system.run, dir: "auto" }, shortName(system.run) + step), element("span", { class: "muted" }, ` · ${system.decoding}`)];
}

/** A value within its interval; all are shares of the width. */
function intervalBar(low, value, high) {
  const bar = element("span", { class: "interval", "aria-hidden": "true" }, element("i"), element("b"));
  for (const [key, share] of Object.entries({ low, value, high })) bar.style.setProperty(`--${key}`, `${100 * Math.min(1, Math.max(0, share))}%`);
  return bar;
}

function table(label, caption, head, rows) {
  return element("div", { class: "table-wrap", tabindex: "0", role: "region", "aria-label": label },
    element("table", { class: "table results as-lists" }, element("caption", {}, caption),
      element("thead", {}, element("tr", {}, head.map((title, index) => element("th", { scope: "col", class: index ? "num" : null }, title)))),
      element("tbody", {}, labelCells(rows, head))));
}

function pairRow(pair) {
  const rate = pair.win_rate;
  const missing = pair.missing_votes === null ? "no difference so far" : pair.missing_votes ? `about ${formatNumber(pair.missing_votes)}` : "settled";
  return element("tr", {}, element("th", { scope: "row", class: "system" }, systemName(pair.first), element("br"), element("span", { class: "muted" }, "against "), systemName(pair.second)),
    [pair.wins, pair.losses, pair.both_good, pair.both_bad].map((count) => number(formatNumber(count))),
    number(rate ? percent(rate.share) : "–"),
    number(rate ? [`${percent(rate.interval[0])} – ${percent(rate.interval[1])}`, intervalBar(rate.interval[0], rate.share, rate.interval[1])] : "–"), number(missing));
}

function strengthRows(strengths) {
  const bound = Math.max(1, ...strengths.flatMap(({ interval }) => interval.map(Math.abs)));
  const place = (value) => 0.5 + value / (2 * bound);
  return strengths.map(({ system, value, interval: [low, high] }) => element("tr", {},
    element("th", { scope: "row", class: "system" }, systemName(system)), number(value.toFixed(2)), number([`${low.toFixed(2)} – ${high.toFixed(2)}`, intervalBar(place(low), place(value), place(high))])));
}

function remarks({ judges, agreement, left }) {
  const names = Object.entries(judges).map(([name, votes]) => `${name} (${formatNumber(votes)})`).join(", ");
  const agreed = agreement.alpha === null ? "" : `: Krippendorff's alpha ${agreement.alpha.toFixed(2)} (1: they always agree, 0: as by chance)`;
  const parts = [`Judges: ${names}.`, `Votes of several judges: ${counted(agreement.items, "pair")} of replies${agreed}.`];
  if (left) parts.push(`The left side won ${percent(left.share)} of the votes with a preference (p = ${left.p_value.toFixed(3)} if sides do not matter).`);
  return parts.map((part) => element("p", { class: "muted mb-1" }, part));
}

/** The elements that show the results of `GET /api/evaluations/NAME`. */
export function resultTables({ statistics }) {
  if (!statistics.votes) return [element("p", { class: "muted" }, "No votes yet.")];
  return [
    table("Win rates", "Win rates: wins among votes with a preference, with 95 % intervals.",
      ["System", "Wins", "Losses", "Both good", "Both bad", "Win rate", "95 % interval", "Votes missing"], statistics.pairs.map(pairRow)),
    table("Strengths", "Bradley–Terry strengths: log-odds of winning against the average of these systems, with 95 % intervals.",
      ["System", "Strength", "95 % interval"], strengthRows(statistics.strengths)),
    ...remarks(statistics),
  ];
}
