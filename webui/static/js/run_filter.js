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

const OFF = [false, null, 0, "none"];

/** The settings of a run as lines of text, "model.hidden_size: 512"; without those that are off, unless values are searched for. */
function settingLines(settings, search) {
  const entries = Object.entries(settings).filter(([, value]) => search.includes(":") || !OFF.includes(value));
  return entries.map(([name, value]) => `${name}: ${typeof value === "object" ? JSON.stringify(value) : value}`).join("\n");
}

/** What tells whether a search finds a text: all its words, or /a regular expression/; null while that is invalid. */
export function finder(search) {
  const [, pattern] = /^\/(.+)\/$/.exec(search) ?? [];
  const joined = (text) => text.replace(/: +/g, ":"); // the name and the value of a setting are one word
  if (!pattern) return (text) => matches(joined(text), joined(search));
  try {
    const expression = new RegExp(pattern, "imu");
    return (text) => expression.test(text);
  } catch {
    return null;
  }
}

/** Whether a run with these settings is shown; `filters` is {search, find, state, task, starred, hidden}, `find` the finder of `search`. */
export function isShown(run, settings, { search, find, state, task, starred, hidden }) {
  return (!search || find([run.name, run.notes.text, taskTitle(run.task), settingLines(settings, search)].filter(Boolean).join("\n")))
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
