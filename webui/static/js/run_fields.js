// Shared by the table of runs and the page of a run.
import { address, element, formatNumber } from "./dom.js";
import { pathOf } from "./labels.js";

const VERBS = { "/": "Chat", "/translate": "Translate", "/write": "Write" };

export const isTraining = (run) => run.state === "training";

/** "language model"; empty if the configuration of a run is invalid. */
export const taskTitle = (task) => (task ?? "").replaceAll("_", " ");

export function stateBadge(state, text = state) {
  return element("span", { class: `state ${state}` }, text);
}

/** The address and the name of the page that uses a run. */
export function useOf(run) {
  const path = pathOf(run.task);
  return { href: address(`${path}?run=${encodeURIComponent(run.name)}`), verb: VERBS[path] };
}

/** "200 of 1,000" with a progress bar. */
export function stepProgress({ step, steps }) {
  if (!steps) return [formatNumber(step)];
  const share = Math.min(1, step / steps);
  return [formatNumber(step), element("span", { class: "muted" }, ` of ${formatNumber(steps)}`),
    element("progress", { max: "1", value: share.toFixed(4), "aria-label": `${Math.round(share * 100)} percent of the planned steps` })];
}

/** "12.3 at 500". */
export function bestPerplexity(run) {
  if (run.best_perplexity === null) return ["–"];
  return [formatNumber(run.best_perplexity), run.best_step === null ? null : element("span", { class: "muted" }, ` at ${formatNumber(run.best_step)}`)];
}
