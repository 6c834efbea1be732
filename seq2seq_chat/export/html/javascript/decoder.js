// The decoder: one step for a number of hypotheses. Equations: seq2seq_chat/model/decoder.py.
import { ATTENTIONS, attend } from "./attention.js";
import { cellClass } from "./cells.js";
import { add, tanh } from "./tensors.js";

export class Decoder {
  constructor(weights, config) {
    const optional = (name) => (weights.has(name) ? weights.get(name) : null);
    const combined = config.output === "maxout" ? "decoder/maxout" : "decoder/combine";
    const Cell = cellClass(config);
    this.cells = Array.from({ length: config.layers }, (_, layer) => new Cell(weights, `decoder/layer${layer}`));
    this.attention = config.attention === "none" ? null : new ATTENTIONS[config.attention](weights);
    this.thought = optional("decoder/layer0/thought");
    this.combineContext = optional(`${combined}/context`);
    this.combineOutput = optional(`${combined}/output`);
    this.combineWords = optional(`${combined}/words`);
    this.queriesPrevious = this.attention !== null && config.attention_query === "previous";
    this.feedsOutput = this.attention !== null && config.input_feeding && !this.queriesPrevious;
    this.residual = config.residual;
    this.concatenates = config.output === "concatenated";
    const maxoutUnits = (this.combineWords?.rows ?? 0) / 2;
    const contextUnits = this.concatenates ? config.hidden_size * (config.bidirectional ? 2 : 1) : 0;
    this.outputSize = maxoutUnits || config.hidden_size + contextUnits;
  }

  /** The state before the first word, and what every step reads, given the encoder's outputs and final states. */
  start({ outputs, states }) {
    const memory = { keys: null, values: null, thought: null, thoughtToMaxout: null };
    if (this.attention) {
      memory.keys = this.attention.keys(outputs);
      // the context's part of the combination is applied to the values once, unless the cell needs the context itself
      memory.values = this.queriesPrevious || this.concatenates ? outputs : this.combineContext.times(outputs);
    }
    if (this.thought) {
      const vector = states.at(-1)[0];
      [memory.thought] = this.thought.times([vector]);
      if (this.combineWords && !this.attention) [memory.thoughtToMaxout] = this.combineContext.times([vector]);
    }
    return { state: { cells: states, fed: new Float32Array(this.outputSize) }, memory };
  }

  /**
   * Vectors of the previous words, [n][embedding], and n states → the n outputs h̃ and next states, and the attention
   * of each, [n][source words], or null.
   */
  step(vectors, states, memory) {
    let attended = this.queriesPrevious ? attend(this.attention, memory, states.map(({ cells }) => this.topOutput(cells))) : null;
    const stepInputs = attended?.contexts ?? (this.feedsOutput ? states.map(({ fed }) => fed) : null);
    const cells = this.stepCells(this.projectWords(vectors, memory), stepInputs, states);
    const outputs = cells.map((layers) => this.topOutput(layers));
    if (this.attention && !attended) attended = attend(this.attention, memory, outputs);
    const hidden = this.combine(outputs, attended?.contexts ?? null, vectors, memory);
    return {
      hidden,
      states: cells.map((layers, row) => ({ cells: layers, fed: hidden[row] })),
      attention: attended?.weights ?? null,
    };
  }

  projectWords(vectors, memory) {
    const projected = this.cells[0].project(vectors);
    return memory.thought ? projected.map((gates) => add(gates, memory.thought)) : projected;
  }

  /** The next states of all layers: [n][layer]. */
  stepCells(projected, stepInputs, states) {
    const layers = states.map(() => []);
    this.cells.forEach((cell, layer) => {
      const before = states.map((state) => state.cells[layer]);
      const inputs = layer ? before.map(() => cell.bias) : projected;
      const below = layer ? layers.map((states) => this.topOutput(states)) : stepInputs;
      cell.step(inputs, below, before).forEach((state, row) => layers[row].push(state));
    });
    return layers;
  }

  /** d: the output of the top one of some layers, given the states of all of them. */
  topOutput(states) {
    const outputs = states.map(([output]) => output);
    return this.residual ? outputs.reduce(add) : outputs.at(-1);
  }

  /** h̃: tanh(W_c [c; d]), a maxout layer of c, d and the word, [d; c], or d itself without attention. */
  combine(outputs, contexts, vectors, memory) {
    if (this.concatenates) return outputs.map((output, row) => Float32Array.of(...output, ...contexts[row]));
    if (!this.combineOutput) return outputs;
    let combined = this.combineOutput.times(outputs);
    if (contexts) {
      const fromContexts = this.queriesPrevious ? this.combineContext.times(contexts) : contexts;
      combined = combined.map((sum, row) => add(sum, fromContexts[row]));
    }
    if (!this.combineWords) return combined.map(tanh);
    const fromWords = this.combineWords.times(vectors);
    return combined.map((sum, row) => {
      let total = add(sum, fromWords[row]);
      if (memory.thoughtToMaxout) total = add(total, memory.thoughtToMaxout);
      return total.subarray(0, this.outputSize).map((value, unit) => Math.max(value, total[this.outputSize + unit]));
    });
  }
}
