// Where a reader expects spaces between tokens of any language: seq2seq_chat/text/tokenizers/unicode.py.

// Quotation marks that may begin a quotation, and the marks that then end it.
const QUOTES = { '"': '"', "'": "'", "“": "”", "„": "“”", "”": "”", "«": "»", "»": "«»", "‹": "›", "›": "‹›", "‘": "’", "‚": "‘’" };
const WORDS = ["WORD", "NUMBER", "SPECIAL"];

/** `kindOf(token)` is what a token is to its neighbors; `encode` returns the tokens of a string without white space. */
export function joinTokens(tokens, kindOf, encode) {
  const kinds = kindsWithQuotes(tokens, kindOf);
  return tokens.map((token, index) => {
    if (index === 0) return token;
    const isSpecial = kinds[index - 1] === "SPECIAL" || kinds[index] === "SPECIAL";
    const attached = isAttached(index, tokens, kinds) && (isSpecial || isUnchanged(tokens[index - 1], token, encode));
    return attached ? token : ` ${token}`;
  }).join("");
}

/** Whether two tokens without a space between them are still these two tokens. */
function isUnchanged(left, right, encode) {
  const tokens = encode(left + right);
  return tokens.length === 2 && tokens[0] === left && tokens[1] === right;
}

/** Whether a reader expects no space before a token; `index` is at least 1. */
function isAttached(index, tokens, kinds) {
  const left = kinds[index - 1], right = kinds[index];
  const is = (kind) => left === kind || right === kind;
  if (right === "CLOSING" || left === "OPENING" || is("WIDE")) return true;
  if (is("IDEOGRAPH")) return !["WORD", "COMPLEX", "SYMBOL", "SPECIAL"].some(is);
  if (isBetween("HYPHEN", WORDS, index, kinds) || isBetween("RANGE", ["NUMBER"], index, kinds)) return true;
  if (tokens[index - 1] === "." && isAbbreviation(tokens.slice(Math.max(0, index - 2), index + 2))) return true;
  if ((left === "CURRENCY" && right === "NUMBER") || (left === "PREFIX" && WORDS.includes(right))) return true;
  return left === right && (left === "COMPLEX" || (!WORDS.includes(left) && tokens[index - 1] === tokens[index]));
}

/** Whether this or the previous token is a connector between two tokens of the given kinds. */
function isBetween(connector, neighbors, index, kinds) {
  const middle = kinds[index] === connector ? index : index - 1;
  return kinds[middle] === connector && neighbors.includes(kinds[middle - 1]) && neighbors.includes(kinds[middle + 1]);
}

/** Whether four tokens are like `a . m .`; the initials of a name, which are capitals, have spaces. */
function isAbbreviation([letter, dot, other, otherDot]) {
  return dot === "." && otherDot === "." && [letter, other].every((one) => /^\p{Ll}$/u.test(one));
}

/** The kind of each token. A quotation mark opens or closes a quotation; an apostrophe closes. */
function kindsWithQuotes(tokens, kindOf) {
  const kinds = tokens.map(kindOf);
  const expected = []; // what ends each of the quotations that have begun
  tokens.forEach((token, index) => {
    if (!(token in QUOTES)) return;
    const depth = expected.findLastIndex((closing) => closing.includes(token));
    if (depth >= 0) {
      expected.length = depth;
      kinds[index] = "CLOSING";
    } else if (tokens.slice(index + 1).some((later) => later in QUOTES && QUOTES[token].includes(later))) {
      expected.push(QUOTES[token]);
      kinds[index] = "OPENING";
    } else if (token === '"' || token === "'") { // one without a partner
      const isPossessive = token === "'" && index > 0 && tokens[index - 1].endsWith("s"); // dogs' tails
      kinds[index] = isPossessive || index === tokens.length - 1 ? "CLOSING" : "OPENING";
    }
  });
  return kinds;
}
