// Repetition in a conversation of models: replies that were given before, and loops.

/** The index of the first turn with the same text as this one; null if it is the first. */
export function repeatedTurn(texts, index) {
  const first = texts.indexOf(texts[index]);
  return first < index ? first : null;
}

/**
 * The loop in which a conversation ends: its shortest end that has just been said once before, as {start, length};
 * null if there is none. `start` is the first turn of the loop, which goes as far back as it has been going on.
 */
export function findLoop(texts) {
  for (let length = 1; 2 * length <= texts.length; length++) {
    let start = texts.length - length;
    while (start > 0 && texts[start - 1] === texts[start - 1 + length]) start--;
    if (texts.length - start >= 2 * length) return { start, length };
  }
  return null;
}
