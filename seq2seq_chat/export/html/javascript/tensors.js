// Vectors and matrices. A vector is a Float32Array; products add up in double precision.

/** A matrix W, [rows, columns]: 32-bit floats, or 8-bit integers with a scale for each row. */
export class Matrix {
  constructor(rows, columns, values, scales = null) {
    Object.assign(this, { rows, columns, values, scales });
  }

  /** One row, of a table of vectors: [columns]. */
  row(index) {
    const start = index * this.columns;
    const scale = this.scales ? this.scales[index] : 1;
    return Float32Array.from(this.values.subarray(start, start + this.columns), (value) => value * scale);
  }

  /** W x for each of n vectors: [n][columns] → [n][rows]. */
  times(vectors) {
    const { rows, columns, values, scales } = this;
    const outputs = vectors.map(() => new Float32Array(rows));
    let next = 0;
    for (; next + 4 <= vectors.length; next += 4) {
      multiplyFour(values, rows, columns, vectors[next], vectors[next + 1], vectors[next + 2], vectors[next + 3],
        outputs[next], outputs[next + 1], outputs[next + 2], outputs[next + 3]);
    }
    for (; next < vectors.length; next++) multiply(values, rows, columns, vectors[next], outputs[next]);
    if (scales) for (const output of outputs) scale(output, scales);
    return outputs;
  }
}

/** y = W x, four rows at a time, so that each element of x is read once for all of them. */
function multiply(values, rows, columns, x, y) {
  let row = 0;
  for (; row + 4 <= rows; row += 4) {
    const first = row * columns, second = first + columns, third = second + columns, fourth = third + columns;
    let a = 0, b = 0, c = 0, d = 0;
    for (let column = 0; column < columns; column++) {
      const element = x[column];
      a += values[first + column] * element;
      b += values[second + column] * element;
      c += values[third + column] * element;
      d += values[fourth + column] * element;
    }
    y[row] = a;
    y[row + 1] = b;
    y[row + 2] = c;
    y[row + 3] = d;
  }
  for (; row < rows; row++) y[row] = dot(values.subarray(row * columns, (row + 1) * columns), x);
}

/** The same for four vectors, so that each weight is read once for all of them. */
function multiplyFour(values, rows, columns, x0, x1, x2, x3, y0, y1, y2, y3) {
  for (let row = 0; row < rows; row++) {
    const start = row * columns;
    let a = 0, b = 0, c = 0, d = 0;
    for (let column = 0; column < columns; column++) {
      const weight = values[start + column];
      a += weight * x0[column];
      b += weight * x1[column];
      c += weight * x2[column];
      d += weight * x3[column];
    }
    y0[row] = a;
    y1[row] = b;
    y2[row] = c;
    y3[row] = d;
  }
}

function scale(vector, factors) {
  for (let index = 0; index < vector.length; index++) vector[index] *= factors[index];
}

export function dot(x, y) {
  let sum = 0;
  for (let index = 0; index < x.length; index++) sum += x[index] * y[index];
  return sum;
}

export function add(x, y) {
  const sum = new Float32Array(x.length);
  for (let index = 0; index < sum.length; index++) sum[index] = x[index] + y[index];
  return sum;
}

export const tanh = (x) => x.map(Math.tanh);

export const sigmoid = (value) => 1 / (1 + Math.exp(-value));

export function concat(...vectors) {
  const result = new Float32Array(vectors.reduce((length, vector) => length + vector.length, 0));
  let start = 0;
  for (const vector of vectors) {
    result.set(vector, start);
    start += vector.length;
  }
  return result;
}

/** log Σ exp of all values. */
export function logSumExp(values) {
  let largest = -Infinity, sum = 0;
  for (let index = 0; index < values.length; index++) if (values[index] > largest) largest = values[index];
  for (let index = 0; index < values.length; index++) sum += Math.exp(values[index] - largest);
  return largest + Math.log(sum);
}

/** Probabilities proportional to exp of the values, at least one of which is finite. */
export function softmax(values) {
  const normalizer = logSumExp(values);
  return Float64Array.from(values, (value) => Math.exp(value - normalizer));
}

/** The indices of the `count` largest values that are not -Infinity, in descending order; equal ones by index. */
export function topK(values, count) {
  const indices = [];
  for (let index = 0; index < values.length; index++) {
    const value = values[index];
    if (value === -Infinity || (indices.length === count && value <= values[indices[count - 1]])) continue;
    let place = Math.min(indices.length, count - 1);
    for (; place > 0 && values[indices[place - 1]] < value; place--) indices[place] = indices[place - 1];
    indices[place] = index;
  }
  return indices;
}
