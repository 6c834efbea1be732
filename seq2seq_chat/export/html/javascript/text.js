// What tokenizers share.

/** Surrogates that are not part of a pair. */
export const SURROGATES = /\p{Cs}/gu;

const WHITE_SPACE = /[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/; // as Python's str.split

export const splitWords = (text) => text.split(WHITE_SPACE).filter(Boolean);

/** Tokens separated by spaces, with punctuation marks after the words. */
export const attachMarks = (tokens) => tokens.join(" ").replaceAll(/ (?=[.,!?](?: |$))/g, "");
