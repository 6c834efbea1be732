// Beam search, in groups for diverse beam search: seq2seq_chat/decoding/methods.py.
import { EOS, GO, applyRules } from "./logit_rules.js";
import { topK } from "./tensors.js";

export async function beamSearch(model, source, settings, { steps, pause }) {
  const { beam_width: width, n_best: count, beam_groups: groups } = settings;
  const rank = (score, length) => score / ((5 + length) / 6) ** settings.length_penalty;
  const { state, memory } = model.start(source);
  const first = { words: [], score: 0, rank: 0, ended: false, attention: [], state };
  let beam = Array.from({ length: groups }, () => [first]); // the hypotheses of each group, best first
  for (let t = 0; t < steps && !isFinished(beam, settings, (score) => rank(score, steps)); t++) {
    await pause();
    const candidates = extend(model, memory, beam, settings, rank);
    beam = chooseByGroup(candidates, width / groups, settings.diversity_penalty);
  }
  return groups > 1 ? merge(beam).slice(0, count) : beam[0].slice(0, count);
}

/** Whether no hypothesis can overtake the first `count`, all of which have ended; with groups, whether all have.
    If `stop` is first_end, whether any has. */
function isFinished(beam, { n_best: count, stop }, bound) {
  const all = beam.flat();
  if (stop === "first_end") return all.some(({ ended }) => ended);
  const active = all.filter(({ ended }) => !ended);
  if (beam.length > 1 || !active.length) return !active.length;
  const best = all.slice(0, count);
  // scores only decrease and divisors only increase, so this is an upper bound of the final rank
  return best.every(({ ended }) => ended) && best.length === count && Math.max(...active.map(({ score }) => bound(score))) <= best.at(-1).rank;
}

/** The continuations of each group's hypotheses; one that has ended has itself, without a further word. */
function extend(model, memory, beam, settings, rank) {
  const active = beam.flat().filter(({ ended }) => !ended);
  const output = model.step(active.map(({ words }) => words.at(-1) ?? GO), active.map((hypothesis) => hypothesis.state), memory);
  let row = 0;
  return beam.map((group) => group.flatMap((parent) => {
    if (parent.ended) return [{ parent, word: null, score: parent.score, rank: parent.rank }];
    const [logits, state, attention] = [output.logits[row], output.states[row], output.attention?.[row] ?? []];
    row++;
    const normalizer = applyRules(logits, parent.words, settings);
    // one more than the beam has places for: with a length penalty, the end marker may rank lower than by its probability
    return topK(logits, settings.beam_width + 1).map((word) => {
      const score = parent.score + logits[word] - normalizer;
      return { parent, word, score, rank: rank(score, parent.words.length + (word !== EOS)), state, attention };
    });
  }));
}

/** The best candidates of each group; a word is penalized for each hypothesis of an earlier group that has chosen it. */
function chooseByGroup(candidates, size, diversity) {
  const chosenWords = [];
  return candidates.map((group) => {
    const penalty = (word) => (word === null ? 0 : diversity * chosenWords.filter((chosen) => chosen === word).length);
    const chosen = topK(group.map(({ rank, word }) => rank - penalty(word)), size).map((index) => group[index]);
    chosenWords.push(...chosen.map(({ word }) => word));
    return chosen.map(({ parent, word, attention, ...rest }) => (word === null ? parent
      : { ...rest, words: [...parent.words, word], attention: [...parent.attention, attention], ended: word === EOS }));
  });
}

/** The hypotheses of all groups, best first, without duplicates. */
function merge(beam) {
  const distinct = new Map();
  for (const hypothesis of beam.flat()) {
    const key = hypothesis.words.join(" ");
    if (!distinct.has(key)) distinct.set(key, hypothesis);
  }
  return [...distinct.values()].sort((one, other) => other.rank - one.rank);
}
