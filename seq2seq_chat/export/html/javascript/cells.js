// Recurrent cells: one step for a number of hypotheses. A state is an array of vectors, of which the first is the output.
import { add, concat, sigmoid } from "./tensors.js";

/** Base class; `name` is the prefix of the cell's variables. Equations: seq2seq_chat/model/cells.py. */
class Cell {
  constructor(weights, name) {
    this.input = weights.has(`${name}/input`) ? weights.get(`${name}/input`) : null;
    this.bias = weights.get(`${name}/bias`);
    this.recurrent = weights.get(`${name}/recurrent`);
  }

  get hiddenSize() {
    return this.bias.length / this.constructor.GATES;
  }

  /** The state before the first step. */
  zeroState() {
    return Array.from({ length: this.constructor.STATES }, () => new Float32Array(this.hiddenSize));
  }

  /** The contribution of inputs, [n][input size], to all gates: [n][gates · hidden]. */
  project(inputs) {
    return this.input.times(inputs).map((gates) => add(gates, this.bias));
  }

  /** [n][gates · hidden], step inputs [n][…] or null, n states → the next n states. */
  step(projected, stepInputs, states) {
    const joined = states.map(([output], row) => (stepInputs ? concat(stepInputs[row], output) : output));
    const recurrent = this.recurrent.times(joined);
    return this.next(projected, recurrent, stepInputs, states);
  }
}

class LSTMCell extends Cell {
  static GATES = 4;
  static STATES = 2;

  next(projected, recurrent, stepInputs, states) {
    const size = this.hiddenSize;
    return states.map(([, memory], row) => {
      const gates = add(projected[row], recurrent[row]);
      const newMemory = memory.map((old, unit) => sigmoid(gates[size + unit]) * old + sigmoid(gates[unit]) * Math.tanh(gates[3 * size + unit]));
      return [newMemory.map((value, unit) => sigmoid(gates[2 * size + unit]) * Math.tanh(value)), newMemory];
    });
  }
}

class GRUCell extends Cell {
  static GATES = 3;
  static STATES = 1;

  constructor(weights, name) {
    super(weights, name);
    this.candidate = weights.get(`${name}/candidate`);
  }

  next(projected, recurrent, stepInputs, states) {
    const size = this.hiddenSize;
    const gates = recurrent.map((values, row) => values.map((value, unit) => sigmoid(projected[row][unit] + value)));
    const reset = states.map(([output], row) => {
      const kept = output.map((value, unit) => gates[row][size + unit] * value);
      return stepInputs ? concat(stepInputs[row], kept) : kept;
    });
    const candidates = this.candidate.times(reset);
    return states.map(([output], row) => [output.map((old, unit) => {
      const candidate = Math.tanh(projected[row][2 * size + unit] + candidates[row][unit]);
      return old + gates[row][unit] * (candidate - old);
    })]);
  }
}

class RNNCell extends Cell {
  static GATES = 1;
  static STATES = 1;

  next(projected, recurrent) {
    return recurrent.map((values, row) => [add(projected[row], values).map(this.activation)]);
  }

  activation(value) {
    return Math.tanh(value);
  }
}

class ReLUCell extends RNNCell {
  activation(value) {
    return Math.max(0, value);
  }
}

const CELLS = { lstm: LSTMCell, gru: GRUCell, rnn: RNNCell };

/** The class of the cells of a model. */
export const cellClass = (config) => (config.cell === "rnn" && config.activation === "relu" ? ReLUCell : CELLS[config.cell]);
