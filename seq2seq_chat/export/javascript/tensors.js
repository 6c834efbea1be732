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
    const outputs = vectors.map(() => new Float32Array(this.rows));
    let next = 0;
    for (; next + 4 <= vectors.length; next += 4) this.multiplyFour(vectors.slice(next, next + 4), outputs.slice(next, next + 4));
    for (; next < vectors.length; next++) this.multiply(vectors[next], outputs[next]);
    if (this.scales) {
      for (const output of outputs) for (let row = 0; row < this.rows; row++) output[row] *= this.scales[row];
    }
    return outputs;
  }

  /** Four rows at a time, so that each element of the vector is read once for all of them. */
  multiply(vector, output) {
    const { rows, columns, values } = this;
    let row = 0;
    for (; row + 4 <= rows; row += 4) {
      const first = row * columns, second = first + columns, third = second + columns, fourth = third + columns;
      let a = 0, b = 0, c = 0, d = 0;
      for (let column = 0; column < columns; column++) {
        const x = vector[column];
        a += values[first + column] * x;
        b += values[second + column] * x;
        c += values[third + column] * x;
        d += values[fourth + column] * x;
      }
      output[row] = a;
      output[row + 1] = b;
      output[row + 2] = c;
      output[row + 3] = d;
    }
    for (; row < rows; row++) output[row] = dot(values.subarray(row * columns, (row + 1) * columns), vector);
  }

  /** Four vectors at a time, so that each weight is read once for all of them. */
  multiplyFour([x, y, z, w], [a, b, c, d]) {
    const { rows, columns, values } = this;
    for (let row = 0; row < rows; row++) {
      const start = row * columns;
      let sumX = 0, sumY = 0, sumZ = 0, sumW = 0;
      for (let column = 0; column < columns; column++) {
        const weight = values[start + column];
        sumX += weight * x[column];
        sumY += weight * y[column];
        sumZ += weight * z[column];
        sumW += weight * w[column];
      }
      a[row] = sumX;
      b[row] = sumY;
      c[row] = sumZ;
      d[row] = sumW;
    }
  }
}

export function dot(x, y) {
  let sum = 0;
  for (let index = 0; index < x.length; index++) sum += x[index] * y[index];
  return sum;
}

export const add = (x, y) => x.map((value, index) => value + y[index]);

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
  for (const value of values) largest = Math.max(largest, value);
  for (const value of values) sum += Math.exp(value - largest);
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
