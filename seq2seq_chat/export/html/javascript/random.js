// Random numbers in [0, 1), a function of a seed of 32 bits: SplitMix32.

export function randomNumbers(seed) {
  let state = seed;
  return () => {
    state = (state + 0x9e3779b9) | 0;
    let bits = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
    bits = Math.imul(bits ^ (bits >>> 15), 0x735a2d97);
    return ((bits ^ (bits >>> 15)) >>> 0) / 2 ** 32;
  };
}

/** The seed of the settings, or a new one. */
export const chooseSeed = (seed) => seed ?? crypto.getRandomValues(new Uint32Array(1))[0] >>> 1;
