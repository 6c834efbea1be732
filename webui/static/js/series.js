// Numbers of learning curves: perplexity, smoothing, and a range without spikes.

/** The quantities of learning curves, each with the curves it is in. */
export const QUANTITIES = {
  loss: { title: "Loss", unit: "nats per target token", kinds: ["train", "validation"] },
  perplexity: { title: "Perplexity", unit: "e^loss", kinds: ["train", "validation"] },
  bleu: { title: "BLEU", unit: "of validations", kinds: ["validation"] },
  learning_rate: { title: "Learning rate", unit: "", kinds: ["train"] },
  gradient_norm: { title: "Gradient norm", unit: "before clipping", kinds: ["train"] },
};

/** The values of a quantity in a curve of the API. */
export function valuesOf(curve, quantity) {
  if (quantity !== "perplexity") return curve[quantity] ?? [];
  return curve.loss.map((loss) => (loss === null || loss > 700 ? null : Math.exp(loss)));
}

/** Exponential moving average without the bias of its start; `weight`, from 0 to below 1, is the weight of the past. */
export function smooth(values, weight) {
  let mean = 0;
  let mass = 0;
  return values.map((value) => {
    if (value === null) return null;
    mean = weight * mean + (1 - weight) * value;
    mass = weight * mass + (1 - weight);
    return mean / mass;
  });
}

/** The lowest and the highest value. */
export function rangeOf(values) {
  const numbers = values.filter((value) => value !== null);
  return [Math.min(...numbers), Math.max(...numbers)];
}

const MIN_CLIPPED = 20; // values; of fewer, none is a spike

/** The range of values, without spikes: those far above the running medians of five, but for the first and the last. */
export function rangeWithoutSpikes(values) {
  const numbers = values.filter((value) => value !== null);
  if (numbers.length <= MIN_CLIPPED) return rangeOf(numbers);
  const medians = numbers.map((_, index) => {
    const start = Math.max(0, Math.min(index - 2, numbers.length - 5));
    const window = numbers.slice(start, start + 5).sort((one, other) => one - other);
    return window[Math.floor(window.length / 2)];
  });
  const [low, high] = rangeOf(medians);
  const limit = high + (high - low) / 2;
  return rangeOf([numbers[0], numbers.at(-1), ...numbers.map((value) => Math.min(limit, value))]);
}
