// Attention: scores of the source's words, their softmax, and the weighted sum. Equations: seq2seq_chat/model/attention.py.
import { dot, softmax } from "./tensors.js";

class AdditiveAttention {
  constructor(weights) {
    this.key = weights.get("decoder/attention/key");
    this.query = weights.get("decoder/attention/query");
    this.score = weights.get("decoder/attention/score");
  }

  keys(values) {
    return this.key.times(values);
  }

  scores(keys, queries) {
    return this.query.times(queries).map((query) => keys.map((key) => {
      let sum = 0;
      for (let unit = 0; unit < query.length; unit++) sum += this.score[unit] * Math.tanh(key[unit] + query[unit]);
      return sum;
    }));
  }
}

class DotAttention {
  keys(values) {
    return values;
  }

  scores(keys, queries) {
    return queries.map((query) => keys.map((key) => dot(key, query)));
  }
}

class GeneralAttention extends DotAttention {
  constructor(weights) {
    super();
    this.key = weights.get("decoder/attention/key");
  }

  keys(values) {
    return this.key.times(values);
  }
}

export const ATTENTIONS = { additive: AdditiveAttention, concat: AdditiveAttention, dot: DotAttention, general: GeneralAttention };

/** Queries [n][hidden] → the weight of each word, [n][source words], and contexts, [n][units of the values]. */
export function attend(attention, { keys, values }, queries) {
  const weights = attention.scores(keys, queries).map(softmax);
  return { weights, contexts: weights.map((row) => weightedSum(row, values)) };
}

function weightedSum(weights, vectors) {
  const sum = new Float32Array(vectors[0].length);
  vectors.forEach((vector, index) => {
    for (let unit = 0; unit < sum.length; unit++) sum[unit] += weights[index] * vector[unit];
  });
  return sum;
}
