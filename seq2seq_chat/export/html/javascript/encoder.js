// The encoder: reads the words of a source, in one direction or in both.
import { cellClass } from "./cells.js";
import { add, concat, tanh } from "./tensors.js";

export class Encoder {
  constructor(weights, config) {
    const Cell = cellClass(config);
    this.residual = config.residual;
    this.layers = Array.from({ length: config.layers }, (_, layer) => {
      const name = `encoder/layer${layer}`;
      if (!config.bidirectional) return { forward: new Cell(weights, name) };
      return {
        forward: new Cell(weights, name),
        backward: new Cell(weights, `${name}/backward`),
        bridge: new Bridge(weights, `${name}/bridge`, config),
      };
    });
  }

  /** Word vectors, [words][embedding] → the top layer's output for each word, and the final state of each layer. */
  read(vectors) {
    let outputs = vectors;
    const states = this.layers.map(({ forward, backward, bridge }, layer) => {
      const below = outputs;
      let { outputs: above, state } = run(forward, below);
      if (backward) {
        const back = run(backward, below.toReversed());
        const backOutputs = back.outputs.toReversed();
        above = above.map((output, index) => concat(output, backOutputs[index]));
        state = bridge.combine(state, back.state);
      }
      outputs = this.residual && layer ? above.map((output, index) => add(output, below[index])) : above;
      return state;
    });
    return { outputs, states };
  }
}

/** The final states of two directions as one: tanh(W_h [h→; h←] + b_h), and W_c [c→; c←] + b_c without tanh. */
class Bridge {
  constructor(weights, name, config) {
    const fields = config.cell === "lstm" ? ["output", "memory"] : ["output"];
    this.backwardOnly = config.bridge === "backward";
    this.parts = fields.map((field) => [weights.get(`${name}/${field}`), weights.get(`${name}/${field}/bias`)]);
  }

  combine(forward, backward) {
    return this.parts.map(([matrix, bias], part) => {
      const both = this.backwardOnly ? backward[part] : concat(forward[part], backward[part]);
      const combined = add(matrix.times([both])[0], bias);
      return part === 0 ? tanh(combined) : combined;
    });
  }
}

/** Run a cell over inputs, in their order: its output for each, and its final state. */
function run(cell, inputs) {
  let state = cell.zeroState();
  const outputs = cell.project(inputs).map((projected) => {
    [state] = cell.step([projected], null, [state]);
    return state[0];
  });
  return { outputs, state };
}
