// The models: embeddings, encoder, decoder and output, composed.
import { Decoder } from "./decoder.js";
import { Encoder } from "./encoder.js";
import { add } from "./tensors.js";

/** Logits of the next word from the decoder's outputs, [n][units] → [n][vocabulary]. */
class Output {
  constructor(weights, embedding, config) {
    this.projection = weights.has("output/projection") ? weights.get("output/projection") : null;
    this.words = config.tie_embeddings ? embedding : weights.get("output/words");
    this.bias = weights.get("output/bias");
  }

  logits(hidden) {
    const projected = this.projection ? this.projection.times(hidden) : hidden;
    return this.words.times(projected).map((logits) => add(logits, this.bias));
  }
}

/** A decoder's step over word ids; base of both kinds of models. */
class WordDecoder {
  constructor(weights, config, embedding) {
    this.embedding = embedding;
    this.decoder = new Decoder(weights, config);
    this.output = new Output(weights, embedding, config);
  }

  /** Ids of n previous words, n states → outputs h̃, next states, attention [n][source words] or null. */
  advance(words, states, memory) {
    return this.decoder.step(words.map((word) => this.embedding.row(word)), states, memory);
  }

  /** The same with logits of the next words, [n][vocabulary]. */
  step(words, states, memory) {
    const output = this.advance(words, states, memory);
    return { ...output, logits: this.output.logits(output.hidden) };
  }
}

export class Seq2Seq extends WordDecoder {
  constructor(weights, config) {
    super(weights, config, weights.get(config.shared_embeddings ? "embedding/shared" : "embedding/target"));
    this.sourceEmbedding = config.shared_embeddings ? this.embedding : weights.get("embedding/source");
    this.encoder = new Encoder(weights, config);
  }

  /** Ids of a source, in the order in which the encoder reads them → the decoder's first state, and its memory. */
  start(source) {
    return this.decoder.start(this.encoder.read(source.map((word) => this.sourceEmbedding.row(word))));
  }
}

export class LanguageModel extends WordDecoder {
  constructor(weights, config) {
    super(weights, config, weights.get("embedding/target"));
  }

  /** The state before the first token. */
  start() {
    return this.decoder.start({ outputs: [], states: this.decoder.cells.map((cell) => cell.zeroState()) });
  }
}
