// Constraints on the next word, applied to logits before a search sees them: seq2seq_chat/decoding/logit_rules.py.
import { logSumExp } from "./tensors.js";

// ids of special words
export const PAD = 0;
export const GO = 1;
export const EOS = 2;
export const UNKNOWN = 3;

/** Change the logits of the next word after `words`, [vocabulary], in place; returns log Σ exp of all logits. */
export function applyRules(logits, words, settings) {
  const { repetition_penalty: penalty, no_repeat_ngram_size: n } = settings;
  if (penalty !== 1) {
    for (const word of new Set(words)) {
      if (word !== EOS && word !== PAD) logits[word] = logits[word] > 0 ? logits[word] / penalty : logits[word] * penalty;
    }
  }
  const normalizer = logSumExp(logits); // probabilities are not renormalized for forbidden words
  for (const word of forbiddenWords(settings)) logits[word] = -Infinity;
  if (words.length < settings.min_length) logits[EOS] = -Infinity;
  if (n > 0) for (const word of repeatingWords(words, n)) logits[word] = -Infinity;
  return normalizer;
}

/** Ids that never occur in a reply. */
export function forbiddenWords({ allow_unknown: allowUnknown }) {
  return allowUnknown ? [PAD, GO] : [PAD, GO, UNKNOWN];
}

/** The words that would repeat an n-gram. */
function repeatingWords(words, n) {
  const last = words.slice(words.length - n + 1);
  return words.filter((word, index) => index >= n - 1 && word !== EOS && last.every((other, back) => words[index - n + 1 + back] === other));
}
