// Text to word ids and back, for each side of a sample: a tokenizer and a vocabulary.
import { EOS, PAD, UNKNOWN } from "./logit_rules.js";
import { createTokenizer } from "./tokenizers.js";

export const SPECIAL_WORDS = 4; // <pad>, <go>, <eos>, <unknown>; where a text contains them, they are unknown words

export class TextCodec {
  constructor({ tokenizer, words }) {
    this.tokenizer = createTokenizer(tokenizer);
    this.vocabulary = words;
    this.index = new Map(words.map((word, index) => [word, index]).slice(SPECIAL_WORDS));
  }

  /** Whether a token of a text is known. */
  knows(token) {
    return this.index.has(token);
  }

  ids(tokens) {
    return tokens.map((token) => this.index.get(token) ?? UNKNOWN);
  }

  /** The tokens of ids, without the end marker and padding. */
  tokens(ids) {
    return ids.filter((id) => id !== PAD && id !== EOS).map((id) => this.vocabulary[id]);
  }
}
