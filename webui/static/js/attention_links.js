// The attention as lines between the tokens of the source and of the output. Pointing at a token, or moving to it
// with the arrow keys, shows its weights; a click keeps them.
import { element, svgElement } from "./dom.js";
import { capitalize } from "./labels.js";
import { tokenElement } from "./tokens.js";

const MIN_WEIGHT = 0.04; // lines of less attention would only be clutter
const MAX_NAMED = 4; // tokens in the caption
const RIGHT_TO_LEFT = /^\P{L}*[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]/u; // the first letter is Hebrew, Arabic or the like
const SOURCE = 0, OUTPUT = 1; // the sides

export class AttentionLinks {
  /** `answer` is a response of POST /api/chat that has attention, `labels` are the task's. */
  constructor(answer, labels) {
    this.weights = answer.attention; // [output token][source token]
    this.labels = labels;
    this.words = [answer.source_words, answer.reply_words];
    this.unknown = new Set(answer.unknown_words);
    this.pinned = null; // [side, index] of the token that was clicked
    this.tokens = this.words.map((words, side) => words.map((word, index) => this.token(word, side, index)));
    this.rows = this.tokens.map((tokens, side) => this.row(tokens, side));
    this.lines = this.weights.flatMap((row, output) => this.linesOf(row, output));
    this.svg = svgElement("svg", { "aria-hidden": "true" }, this.lines.map(({ path }) => path));
    this.picture = element("div", { class: "attention-picture" }, this.svg, this.rows);
    this.caption = element("p", { class: "attention-caption", role: "status" });
    this.figure = element("figure", { class: "attention-links" }, this.picture, this.caption);
    this.listen();
    this.show(null);
    new ResizeObserver(() => this.layout()).observe(this.picture);
  }

  token(word, side, index) {
    const isUnknown = side === SOURCE && this.unknown.has(word);
    const token = element("button", { type: "button", class: `attention-token${isUnknown ? " unknown-word" : ""}`, tabindex: index ? -1 : 0,
      "aria-pressed": "false", title: isUnknown ? "not in the vocabulary" : null },
    tokenElement(word), element("span", { class: "percent", "aria-hidden": "true" }));
    const color = this.color(index);
    token.style.setProperty("--stripes", side === SOURCE ? `${color}, ${color}` : this.stripes(this.weights[index]));
    return token;
  }

  row(tokens, side) {
    const name = side === SOURCE ? this.labels.source : this.labels.output;
    const direction = RIGHT_TO_LEFT.test(this.words[side].join(" ")) ? "rtl" : "ltr";
    return element("div", { class: "attention-row", role: "group", dir: direction, "aria-label": `Tokens of the ${name}` }, tokens);
  }

  /** A color for each token of the source, around the color circle from blue-green to orange. */
  color(source) {
    const hue = 190 + (235 * source) / Math.max(1, this.words[SOURCE].length - 1);
    return `oklch(var(--attention-lightness) .115 ${(hue % 360).toFixed(0)})`;
  }

  /** The color stops of a bar whose parts are as long as the weights. */
  stripes(weights) {
    const total = weights.reduce((sum, weight) => sum + weight, 0) || 1;
    let end = 0;
    return weights.map((weight, source) => {
      const start = end;
      end += (weight / total) * 100;
      return `${this.color(source)} ${start.toFixed(1)}% ${end.toFixed(1)}%`;
    }).join(", ");
  }

  linesOf(row, output) {
    return row.flatMap((weight, source) => {
      if (weight < MIN_WEIGHT) return [];
      const path = svgElement("path", { "stroke-width": (1.2 + 6 * weight).toFixed(2), "stroke-opacity": (0.18 + 0.72 * weight).toFixed(2) });
      path.style.setProperty("--color", this.color(source));
      return [{ path, ends: [source, output] }];
    });
  }

  /** Two rows if both sides fit the width, otherwise two columns; then the lines between them. */
  layout() {
    if (!this.picture.clientWidth) return; // not visible
    this.picture.classList.add("horizontal");
    this.horizontal = this.rows.every((row) => row.scrollWidth <= row.clientWidth + 1);
    this.picture.classList.toggle("horizontal", this.horizontal);
    const origin = this.picture.getBoundingClientRect();
    const boxes = this.tokens.map((tokens) => tokens.map((token) => token.getBoundingClientRect()));
    this.svg.setAttribute("viewBox", `0 0 ${origin.width} ${origin.height}`);
    for (const { path, ends } of this.lines) {
      const [from, to] = ends.map((index, side) => this.anchor(boxes[side][index], side, origin));
      const [x, y] = [(from.x + to.x) / 2, (from.y + to.y) / 2];
      const bends = this.horizontal ? `${from.x} ${y} ${to.x} ${y}` : `${x} ${from.y} ${x} ${to.y}`;
      path.setAttribute("d", `M${from.x} ${from.y}C${bends} ${to.x} ${to.y}`);
    }
  }

  /** The middle of the edge of a token that faces the other side. */
  anchor(box, side, origin) {
    if (this.horizontal) return { x: box.left + box.width / 2 - origin.left, y: (side === SOURCE ? box.bottom : box.top) - origin.top };
    return { x: (side === SOURCE ? box.right : box.left) - origin.left, y: box.top + box.height / 2 - origin.top };
  }

  /** The weights between a token and each token of the other side. */
  weightsOf([side, index]) {
    return side === OUTPUT ? this.weights[index] : this.weights.map((row) => row[index]);
  }

  /** Highlight the lines of a token, [side, index], or none. */
  show(active) {
    const weights = active ? this.weightsOf(active) : [];
    this.picture.classList.toggle("active", active !== null);
    for (const { path, ends } of this.lines) path.classList.toggle("on", active !== null && ends[active[0]] === active[1]);
    this.tokens.forEach((tokens, side) => tokens.forEach((token, index) => {
      const weight = active && side !== active[0] ? weights[index] : 0;
      token.classList.toggle("on", active !== null && side === active[0] && index === active[1]);
      token.setAttribute("aria-pressed", String(isSame(this.pinned, [side, index])));
      token.style.setProperty("--weight", weight.toFixed(3));
      token.lastChild.textContent = weight >= 0.005 ? `${Math.round(weight * 100)}` : "";
    }));
    const text = active ? this.describe(active, weights) : "Point at a token, or move to it with the arrow keys, to see its attention in percent; click to keep it.";
    if (this.caption.textContent !== text) this.caption.textContent = text;
  }

  describe([side, index], weights) {
    const strongest = [...weights.keys()].sort((one, other) => weights[other] - weights[one])
      .filter((other, rank) => rank === 0 || (rank < MAX_NAMED && weights[other] >= MIN_WEIGHT));
    const named = strongest.map((other) => `${this.words[1 - side][other]} ${Math.round(weights[other] * 100)} %`).join(", ");
    const word = `“${this.words[side][index]}”`;
    return side === OUTPUT ? `${word} attends to: ${named}` : `${capitalize(this.labels.output)} tokens that attend to ${word}: ${named}`;
  }

  listen() {
    const find = (event) => this.position(event.target.closest?.(".attention-token"));
    const rest = () => this.show(this.position(this.picture.querySelector(":focus-visible")) ?? this.pinned);
    this.picture.addEventListener("pointerover", (event) => { if (event.pointerType !== "touch") this.show(find(event) ?? this.pinned); });
    this.picture.addEventListener("pointerleave", rest);
    this.picture.addEventListener("focusin", (event) => this.show(find(event)));
    this.picture.addEventListener("focusout", () => this.show(this.pinned));
    this.picture.addEventListener("click", (event) => {
      const clicked = find(event);
      this.pinned = isSame(clicked, this.pinned) ? null : clicked;
      this.show(clicked ? this.pinned ?? (event.pointerType === "touch" ? null : clicked) : null);
    });
    this.picture.addEventListener("keydown", (event) => this.move(event));
  }

  position(token) {
    for (const side of [SOURCE, OUTPUT]) {
      const index = this.tokens[side].indexOf(token);
      if (index >= 0) return [side, index];
    }
    return null;
  }

  /** Arrow keys along a side move by one token, those across to the token that is linked most; Escape unpins. */
  move(event) {
    const [side, index] = this.position(document.activeElement) ?? [];
    if (side === undefined) return;
    const last = this.tokens[side].length - 1;
    const isRightToLeft = this.rows[side].dir === "rtl";
    const [back, forward] = !this.horizontal ? ["ArrowUp", "ArrowDown"] : isRightToLeft ? ["ArrowRight", "ArrowLeft"] : ["ArrowLeft", "ArrowRight"];
    const across = this.horizontal ? ["ArrowDown", "ArrowUp"][side] : ["ArrowRight", "ArrowLeft"][side];
    const weights = this.weightsOf([side, index]);
    const target = { [back]: [side, Math.max(0, index - 1)], [forward]: [side, Math.min(last, index + 1)], Home: [side, 0], End: [side, last],
      [across]: [1 - side, weights.indexOf(Math.max(...weights))] }[event.key];
    if (target) this.focus(target);
    else if (event.key === "Escape" && this.pinned) {
      this.pinned = null;
      this.show([side, index]);
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  focus([side, index]) {
    for (const token of this.tokens[side]) token.tabIndex = -1;
    this.tokens[side][index].tabIndex = 0;
    this.tokens[side][index].focus();
  }
}

const isSame = (one, other) => one !== null && other !== null && one[0] === other[0] && one[1] === other[1];
