// Replies of a model of conversations or translations, in the form of the server's POST /api/chat.
import { beamSearch } from "./beam.js";
import { SPECIAL_WORDS } from "./codec.js";
import { chooseSeed, randomNumbers } from "./random.js";
import { greedySearch, samplingSearch } from "./sequential.js";

const TURN = "<turn>"; // separates the turns of a source
const MIN_WORDS = 3; // of an utterance, for the share of its words that are unknown
const OTHER_LANGUAGE = 0.8; // share of unknown words

export class Chatbot {
  /** `source` and `target` are codecs, `header` the header of the model file. */
  constructor(model, source, target, header) {
    Object.assign(this, { model, source, target, header, steps: header.model.encoder_steps });
    this.letters = new Set(source.vocabulary.slice(SPECIAL_WORDS).join(""));
  }

  /** `history` has the turns before the text, oldest first; `pause` is called before each step. */
  async reply(text, history, settings, pause) {
    const start = performance.now();
    const words = this.source.tokenizer.encode(text);
    const read = words.length ? [...this.context(history), ...words].slice(-this.steps) : [];
    const hypotheses = words.length ? await this.search(this.source.ids(read), settings, pause) : [];
    const [best] = hypotheses;
    return {
      reply: best?.text ?? "",
      alternatives: hypotheses.map(({ text: alternative, score }) => ({ text: alternative, score })),
      unknown_words: [...new Set(words.filter((word) => !this.source.knows(word)))],
      attention: best?.attention ?? [],
      source_words: read,
      reply_words: best?.tokens ?? [],
      ended: best?.ended ?? null,
      seconds: (performance.now() - start) / 1000,
      step: this.header.about.step,
      warnings: this.notes(words, read.length),
    };
  }

  /** The tokens of as many earlier turns as the model reads. */
  context(history) {
    const turns = history.map((turn) => this.source.tokenizer.encode(turn)).filter((turn) => turn.length);
    const before = this.header.context_turns - 1;
    return before ? turns.slice(-before).flatMap((turn) => [...turn, TURN]) : [];
  }

  /** The distinct hypotheses, best first, each with its score, tokens, text, and attention in the order of the text. */
  async search(ids, settings, pause) {
    const reversed = this.header.reverse_input;
    const found = await this.find(reversed ? ids.toReversed() : ids, settings, { steps: this.header.model.decoder_steps, pause });
    const distinct = new Map();
    for (const { words, score, attention, ended } of found) {
      const key = words.join(" ");
      if (score === -Infinity || distinct.has(key)) continue;
      const tokens = this.target.tokens(words);
      const rows = attention.slice(0, tokens.length).map((row) => (reversed ? [...row].reverse() : [...row]));
      distinct.set(key, { score, tokens, ended, text: this.target.tokenizer.decode(tokens), attention: this.model.decoder.attention ? rows : [] });
    }
    return [...distinct.values()];
  }

  find(source, settings, limits) {
    if (settings.method === "greedy") return greedySearch(this.model, source, settings, limits);
    if (settings.method === "beam") return beamSearch(this.model, source, settings, limits);
    const next = randomNumbers(chooseSeed(settings.seed));
    const uniform = Array.from({ length: settings.n_best }, () => Array.from({ length: limits.steps }, next));
    return samplingSearch(this.model, source, settings, limits, (row, t) => uniform[row][t]);
  }

  /** What a person should know about how the model reads an utterance. */
  notes(words, read) {
    const notes = words.length > this.steps ? [`the model reads only the last ${read} of ${words.length} tokens`] : [];
    const unknown = this.unknownShare(words);
    if (unknown < OTHER_LANGUAGE) return notes;
    const share = `${Math.round(100 * unknown)} %`;
    return [...notes, `the text has hardly any known words (${share} are not in the vocabulary); it may be in another language or script`];
  }

  /** Share of unknown tokens among those with letters; 0 for a name or two in letters that the vocabulary has. */
  unknownShare(tokens) {
    const words = tokens.filter((token) => /\p{L}/u.test(token));
    if (words.length >= MIN_WORDS) return words.filter((word) => !this.source.knows(word)).length / words.length;
    const letters = words.join("").match(/\p{L}/gu) ?? [];
    return letters.length && !letters.some((letter) => this.letters.has(letter)) ? 1 : 0;
  }
}
