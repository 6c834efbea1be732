// A search as the server sends it, line by line: a tree of hypotheses, and what became of every word.
import { counted } from "./dom.js";

export const END = "<eos>";
const SETTINGS = {
  allow_unknown: "unknown words are not allowed (allow_unknown)",
  min_length: "the reply would be too short (min_length)",
  no_repeat_ngram_size: "it would repeat a sequence of tokens (no_repeat_ngram_size)",
};
const place = (rank, beam) => `${rank === 0 ? "best" : `number ${rank + 1}`} of ${counted(beam.length, "hypothesis", "hypotheses")}`;

export const decimal = (value) => value.toFixed(2).replace("-", "−");

/** "98 %", "2.1 %", "0.04 %" or "< 0.001 %". */
export function percent(probability) {
  const value = 100 * probability;
  if (value < 0.001) return "< 0.001 %";
  return `${value >= 9.95 ? value.toFixed(0) : value >= 0.95 ? value.toFixed(1) : Number(value.toPrecision(1))} %`;
}

/**
 * Nodes are {key, number, parent, depth, word, probability, score, rank, attention, children, leaves, candidates,
 * droppedAt}: hypotheses that were kept, by their number; the root has depth 0. `leaves` are the words after it that were
 * not kept, with `fate` and `setting` instead of a number.
 */
export class SearchModel {
  constructor() {
    this.start = null;
    this.root = { key: "0", number: 0, parent: null, depth: 0, word: "", probability: 1, score: 0, rank: 0, children: [], leaves: [], candidates: null };
    this.nodes = new Map([[0, this.root]]);
    this.beams = [[this.root]]; // by step, best first
    this.ranking = null; // of the hypotheses of the last beam, when the search has ended
  }

  get steps() {
    return this.beams.length - 1;
  }

  add(line) {
    if (line.source_words) this.start = line;
    else if (line.ranking) this.ranking = line.ranking.map((entry) => ({ ...entry, node: this.nodes.get(entry.node) }));
    else if (line.expansions) this.addStep(line);
  }

  addStep({ expansions, beam }) {
    const depth = this.beams.length;
    for (const { node, attention, candidates } of expansions) {
      const parent = this.nodes.get(node);
      parent.candidates = candidates;
      for (const candidate of candidates) {
        const kept = candidate.node !== null;
        const child = { ...candidate, number: candidate.node, key: kept ? String(candidate.node) : `${node} ${candidate.word}`, parent, depth, attention, children: [], leaves: [], candidates: null };
        (kept ? parent.children : parent.leaves).push(child);
        if (kept) this.nodes.set(child.number, child);
      }
    }
    const previous = this.beams.at(-1);
    const kept = beam.map((number) => this.nodes.get(number));
    this.beams.push(kept);
    for (const node of previous) if (!kept.includes(node) && !node.children.length) node.droppedAt = depth;
  }

  /** The words up to a node, without the root's. */
  path(node) {
    return node.parent ? [...this.path(node.parent), node] : [];
  }

  /** What became of a node or leaf by a step, in words. */
  fate(node, step = this.steps) {
    if (node.number === null) return this.leafFate(node);
    const beam = this.beams[step];
    const rank = beam.indexOf(node);
    const end = node.word === END ? "Finished" : null;
    if (node.droppedAt <= step) return `${end ? "Finished, but d" : "D"}ropped at step ${node.droppedAt}: ${end ? "others" : "the continuations of others"} rank better`;
    if (rank >= 0 && end) return `Finished: ${place(rank, beam)}`;
    if (rank >= 0 && this.ranking && step === this.steps) return `Unfinished when the search ended: ${place(rank, beam)}`;
    if (rank >= 0) return `Kept: ${place(rank, beam)}`;
    return `Kept at step ${node.depth}, and continued`;
  }

  leafFate({ fate, setting, rank, depth }) {
    if (fate === "forbidden") return `Forbidden at step ${depth}: ${SETTINGS[setting] ?? setting}`;
    if (fate === "not_forced") return `Not kept at step ${depth}: another word was forced`;
    const kept = this.beams[depth];
    return `Pruned at step ${depth}: its rank ${decimal(rank)} is below ${decimal(kept.at(-1).rank)}, the last of ${kept.length} that were kept`;
  }

  /** The keys of the nodes on the way to each hypothesis of a step's beam, with the place of the best of them. */
  places(step = this.steps) {
    const places = new Map();
    this.beams[step].forEach((hypothesis, rank) => {
      for (let node = hypothesis; node && !places.has(node.key); node = node.parent) places.set(node.key, rank);
    });
    return places;
  }
}
