// Which runs a table shows, and in which order.
import { taskTitle } from "./run_fields.js";
import { shortName } from "./run_picker.js";
import { matches } from "./select_search.js";

/** The orders of the table: a key for each run, null if it has none, and whether the highest comes first. */
export const ORDERS = {
  newest: { title: "Newest", key: (run) => (shortName(run.name) === run.name ? "" : run.name), highestFirst: true },
  name: { title: "Run", key: (run) => shortName(run.name).toLowerCase() },
  state: { title: "State", key: (run) => run.state },
  step: { title: "Step", key: (run) => run.step, highestFirst: true },
  perplexity: { title: "Perplexity", key: (run) => run.best_perplexity },
  bleu: { title: "BLEU", key: (run) => run.best_bleu, highestFirst: true },
  changed: { title: "Changed", key: (run) => run.changed, highestFirst: true },
};

/** What tells whether a search finds a text: all its words, or /a regular expression/; null while that is invalid. */
export function finder(search) {
  const [, pattern] = /^\/(.+)\/$/.exec(search) ?? [];
  if (!pattern) return (text) => matches(text, search);
  try {
    const expression = new RegExp(pattern, "iu");
    return (text) => expression.test(text);
  } catch {
    return null;
  }
}

/** Whether a run is shown; `filters` is {find, state, task, starred, hidden}. */
export function isShown(run, { find, state, task, starred, hidden }) {
  return find([run.name, run.notes.text, taskTitle(run.task)].filter(Boolean).join(" "))
    && (!state || run.state === state) && (!task || run.task === task) && (!starred || run.notes.star) && (hidden || !run.notes.hidden);
}

/** Runs in an order of ORDERS, or the opposite one; those without a key come last. */
export function sorted(runs, { by, isReversed }) {
  const { key, highestFirst = false } = ORDERS[by];
  const direction = highestFirst === isReversed ? 1 : -1;
  const keys = new Map(runs.map((run) => [run, key(run)]));
  const compare = (one, other) => (one === null || other === null ? (one === null) - (other === null) : direction * ((one > other) - (one < other)));
  return [...runs].sort((one, other) => compare(keys.get(one), keys.get(other)));
}
