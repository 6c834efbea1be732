// Repetition in a conversation of models: replies that were given before, and loops.

/** The index of the first turn with the same text as this one; null if it is the first. */
export function repeatedTurn(texts, index) {
  const first = texts.indexOf(texts[index]);
  return first < index ? first : null;
}

/**
 * The loop in which a conversation ends: its shortest end that has just been said before, as {start, length}; null if
 * there is none. `start` is the first turn of the loop, which goes as far back as it has been going on. Two different
 * models loop only after each has spoken, so `speakers` divides the length; with sampling, words that are said twice by
 * chance are no loop, so that they must be said `times`.
 */
export function findLoop(texts, speakers = 1, times = 2) {
  for (let length = speakers; times * length <= texts.length; length += speakers) {
    let start = texts.length - length;
    while (start > 0 && texts[start - 1] === texts[start - 1 + length]) start--;
    if (texts.length - start >= times * length) return { start, length };
  }
  return null;
}
