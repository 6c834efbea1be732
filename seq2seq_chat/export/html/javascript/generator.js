// Text of a language model, in the form of the server's POST /api/generate.
import { SPECIAL_WORDS } from "./codec.js";
import { EOS, forbiddenWords } from "./logit_rules.js";
import { TokenText, encodeText } from "./running_text.js";
import { sampleWord, truncatedSoftmax } from "./sequential.js";
import { softmax, topK } from "./tensors.js";

const ALTERNATIVES = 5;
const MAX_PROMPT = 10_000; // tokens: the model hardly remembers what was before

export class Generator {
  constructor(model, codec) {
    Object.assign(this, { model, codec });
  }

  /** Yield the `length` tokens that continue a prompt; `next()` returns a random number in [0, 1) for each. */
  async* write(prompt, length, settings, next, pause) {
    const { tokenizer } = this.codec;
    const forbidden = [...forbiddenWords(settings), ...(tokenizer.keepsLineBreaks ? [EOS] : [])];
    const ids = encodeText(prompt, this.codec);
    const text = new TokenText(this.codec, ids);
    const read = ids.length ? ids.slice(-MAX_PROMPT) : [this.lineBreak];
    let { state, memory } = this.model.start();
    for (const id of read.slice(0, -1)) {
      await pause();
      [state] = this.model.advance([id], [state], memory).states;
    }
    let id = read.at(-1);
    for (let t = 0; t < length; t++) {
      await pause();
      const { logits: [logits], states } = this.model.step([id], [state], memory);
      for (const word of forbidden) logits[word] = -Infinity;
      id = sampleWord(truncatedSoftmax(logits, settings), next());
      [state] = states;
      yield { text: text.add(id), ...this.explain(id, logits) };
    }
  }

  /** The model's own probability of a token, and the most probable ones. */
  explain(id, logits) {
    const probabilities = softmax(logits);
    const alternatives = topK(logits, ALTERNATIVES).map((other) => ({ text: this.textOf(other), probability: probabilities[other] }));
    return { probability: probabilities[id], alternatives };
  }

  /** The text of a token that stands alone. */
  textOf(id) {
    return id === EOS ? "\n" : this.codec.tokenizer.decode(this.codec.tokens([id]));
  }

  /** The id that an empty prompt stands for: a line break, or the most frequent token if there is none. */
  get lineBreak() {
    if (!this.codec.tokenizer.keepsLineBreaks) return EOS;
    const [id] = this.codec.ids(this.codec.tokenizer.encode("\n"));
    return Math.max(id, SPECIAL_WORDS);
  }
}
