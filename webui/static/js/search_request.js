// What a search is for, as the part of a URL after the #, so that a link opens it.
import { address, element } from "./dom.js";

const OTHER_METHODS = ["method", "temperature", "top_k", "top_p", "seed", "rerank", "rerank_weight", "rerank_prefix_length"];

/** The address of the page for a request: {run, snapshot, text, history, decoding, prefix}. */
export function searchPath({ run, snapshot, ...rest }) {
  return address(`/search?${new URLSearchParams({ run, snapshot })}#${new URLSearchParams({ search: JSON.stringify(rest) })}`);
}

/** The request of the URL, without the run; null if there is none. */
export function requestOfUrl() {
  try {
    const request = JSON.parse(new URLSearchParams(location.hash.slice(1)).get("search"));
    return typeof request?.text === "string" ? { history: [], prefix: [], decoding: {}, ...request } : null;
  } catch {
    return null;
  }
}

/** A link to the search for a reply, with a CSS class; greedy search is a beam of one. */
export function searchLink({ run, snapshot, text, history, decoding }, style = null) {
  if (document.body.dataset.owner !== undefined) return null; // an exported file has no such page
  const settings = Object.fromEntries(Object.entries(decoding).filter(([name]) => !OTHER_METHODS.includes(name)));
  if (decoding.method === "greedy") Object.assign(settings, { beam_width: 1, n_best: 1 });
  return element("a", { class: style, href: searchPath({ run, snapshot, text, history, prefix: [], decoding: settings }) }, "Watch the search");
}
