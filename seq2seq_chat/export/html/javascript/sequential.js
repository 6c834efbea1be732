// Greedy search and sampling: hypotheses that are extended word by word.
import { EOS, GO, applyRules } from "./logit_rules.js";
import { softmax, topK } from "./tensors.js";

export const greedySearch = (model, source, settings, limits) => extend(model, source, settings, limits, 1, (logits) => topK(logits, 1)[0]);

/** `uniform(row, t)` is a random number in [0, 1) for word t of a hypothesis. In the order in which they were sampled. */
export function samplingSearch(model, source, settings, limits, uniform) {
  const choose = (logits, row, t) => sampleWord(truncatedSoftmax(logits, settings), uniform(row, t));
  return extend(model, source, settings, limits, settings.n_best, choose);
}

/** `choose(logits, row, t)` returns the next word of a hypothesis, undefined if all are forbidden. */
async function extend(model, source, settings, { steps, pause }, count, choose) {
  const { state, memory } = model.start(source);
  const hypotheses = Array.from({ length: count }, () => ({ words: [], score: 0, ended: false, attention: [], state }));
  for (let t = 0; t < steps; t++) {
    const active = hypotheses.filter(({ ended }) => !ended);
    if (!active.length) break;
    await pause();
    const output = model.step(active.map(({ words }) => words.at(-1) ?? GO), active.map((hypothesis) => hypothesis.state), memory);
    active.forEach((hypothesis, index) => {
      const logits = output.logits[index];
      const normalizer = applyRules(logits, hypothesis.words, settings);
      const word = choose(logits, hypotheses.indexOf(hypothesis), t);
      hypothesis.score += (logits[word] ?? -Infinity) - normalizer;
      hypothesis.ended = word === EOS || word === undefined;
      hypothesis.state = output.states[index];
      if (word !== undefined) {
        hypothesis.words.push(word);
        hypothesis.attention.push(output.attention?.[index] ?? []);
      }
    });
  }
  return hypotheses;
}

/** The distribution to sample from: seq2seq_chat/decoding/methods.py. Logits [vocabulary] → probabilities. */
export function truncatedSoftmax(logits, { temperature, top_k: k, top_p: p }) {
  const scaled = logits.map((logit) => logit / temperature);
  if (k === null && p === null) return softmax(scaled);
  const candidates = [...scaled.keys()].filter((word) => scaled[word] > -Infinity);
  const largest = candidates.sort((one, other) => scaled[other] - scaled[one]).slice(0, k ?? candidates.length);
  const probabilities = softmax(largest.map((word) => scaled[word]));
  let before = 0, kept = 0;
  while (kept < largest.length && before < (p ?? Infinity)) before += probabilities[kept++];
  const result = new Float64Array(logits.length);
  for (let index = 0; index < kept; index++) result[largest[index]] = probabilities[index] / before;
  return result;
}

/** Invert the cumulative distribution at `uniform`, in [0, 1). */
export function sampleWord(probabilities, uniform) {
  const point = uniform * probabilities.reduce((sum, probability) => sum + probability, 0);
  let sum = 0, last;
  for (let word = 0; word < probabilities.length; word++) {
    if (probabilities[word] === 0) continue;
    last = word;
    sum += probabilities[word];
    if (sum > point) return word;
  }
  return last;
}
