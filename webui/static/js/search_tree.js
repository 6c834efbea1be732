// The beam as a tree: words as buttons, a column for each step, and lines between them whose width is the probability.
import { element, svgElement } from "./dom.js";
import { END, percent } from "./search_model.js";
import { tokenElement } from "./tokens.js";

const ROW = 42, HEIGHT = 30, GAP = 40, LEFT = 8, TOP = 34, ROOT = 14, PADDING = 30, MAX_WORD = 150; // pixels
const MIN_LEAF = 0.02; // probability of the words that are shown although they were not kept
const MAX_LEAVES = 3; // of a hypothesis

export class SearchTree {
  /** `onPoint(node)` is called for the word under the cursor or with the focus, or null; `onSelect(node)` for a click. */
  constructor(region, { onPoint, onSelect }) {
    Object.assign(this, { region, onPoint, onSelect, selected: null, forced: 0, showsLeaves: true, highlighted: new Set() });
    this.svg = svgElement("svg", { "aria-hidden": "true" });
    this.words = element("div", { class: "tree-words" });
    this.canvas = element("div", { class: "tree-canvas" }, this.svg, this.words);
    region.replaceChildren(this.canvas);
    this.context = document.createElement("canvas").getContext("2d");
    this.listen();
    this.clear();
  }

  clear() {
    this.buttons = new Map(); // by key
    this.nodes = new Map(); // by button
    this.places = new Map();
    this.selected = null;
    this.svg.replaceChildren();
    this.words.replaceChildren();
  }

  /** Draw a search up to a step. */
  draw(model, step) {
    Object.assign(this, { model, step });
    this.places = model.places(step);
    const shown = new Set([model.root]);
    for (const node of model.nodes.values()) {
      if (node.depth <= step) shown.add(node);
      if (node.depth < step && this.showsLeaves) for (const leaf of this.notableLeaves(node)) shown.add(leaf);
    }
    const placeOf = (node) => this.places.get(node.key) ?? model.nodes.size; // those that were dropped come last
    const compare = (one, other) => placeOf(one) - placeOf(other) || other.rank - one.rank;
    this.rows = placeNodes(model.root, (node) => shown.has(node), (node) => this.places.has(node.key), compare);
    this.measure();
    this.drawWords();
    this.drawLines();
    this.focusable(this.nodes.has(document.activeElement) ? document.activeElement : this.buttons.get(this.selected?.key) ?? this.buttons.get(model.beams[step][0].key));
  }

  notableLeaves(node) {
    return node.leaves.filter((leaf) => leaf.probability >= MIN_LEAF && leaf.fate !== "not_forced").slice(0, MAX_LEAVES);
  }

  /** The width of each node and the left edge of each column. */
  measure() {
    const { fontFamily, fontSize } = getComputedStyle(this.words);
    const fonts = [`600 ${fontSize} ${fontFamily}`, `${0.78 * parseFloat(fontSize)}px ${fontFamily}`]; // of the word, of the percent
    const width = (text, font) => {
      this.context.font = font;
      return this.context.measureText(text).width;
    };
    this.widths = new Map();
    const columns = [];
    for (const node of this.rows.keys()) {
      const total = node.depth ? PADDING + Math.min(MAX_WORD, width(node.word === END ? "end" : node.word, fonts[0])) + width(percent(node.probability), fonts[1]) : ROOT;
      this.widths.set(node, Math.ceil(total));
      columns[node.depth] = Math.max(columns[node.depth] ?? 0, this.widths.get(node));
    }
    let left = LEFT;
    this.columns = columns.map((width) => {
      const column = { left, right: left + width };
      left += width + GAP;
      return column;
    });
    this.canvas.style.setProperty("width", `${left - GAP + 40}px`);
    this.canvas.style.setProperty("height", `${TOP + (Math.max(...this.rows.values()) + 1) * ROW}px`);
  }

  drawWords() {
    const old = new Set(this.buttons.keys());
    for (const [node, row] of this.rows) {
      old.delete(node.key);
      const button = this.buttons.get(node.key) ?? this.add(node);
      const rank = node.number === null || node.droppedAt <= this.step ? -1 : this.model.beams[this.step].indexOf(node);
      button.className = `tree-word ${this.classOf(node)}`;
      button.dataset.rank = rank < 0 ? "" : rank + 1;
      button.setAttribute("aria-pressed", String(node === this.selected));
      button.title = node.parent ? this.model.fate(node, this.step) : "";
      for (const [name, value] of [["left", this.columns[node.depth].left], ["top", TOP + row * ROW], ["width", this.widths.get(node)]]) button.style.setProperty(name, `${value}px`);
    }
    for (const key of old) {
      this.nodes.delete(this.buttons.get(key));
      this.buttons.get(key).remove();
      this.buttons.delete(key);
    }
  }

  add(node) {
    const text = !node.parent ? [element("span", { class: "visually-hidden" }, "Start")]
      : [node.word === END ? element("span", { class: "token special" }, "end") : tokenElement(node.word), element("span", { class: "tree-percent" }, percent(node.probability))];
    const button = element("button", { type: "button", tabindex: "-1" }, text);
    this.buttons.set(node.key, button);
    this.nodes.set(button, node);
    this.words.append(button);
    return button;
  }

  classOf(node) {
    const names = [];
    if (!node.parent) names.push("root");
    if (node.word === END && node.number !== null) names.push("end");
    if (node.number === null) names.push("leaf", node.fate);
    else if (!this.places.has(node.key)) names.push("dropped");
    if (node.number !== null && node.depth && node.depth <= this.forced) names.push("forced");
    if (this.places.get(node.key) === 0) names.push("best");
    if (this.highlighted.has(node)) names.push("on");
    if (node === this.selected) names.push("selected");
    return names.join(" ");
  }

  drawLines() {
    const middle = (node) => TOP + this.rows.get(node) * ROW + HEIGHT / 2;
    const prominence = (node) => (this.highlighted.has(node) ? 2 : this.places.has(node.key) ? 1 - this.places.get(node.key) / this.model.nodes.size : 0);
    const drawn = [...this.rows.keys()].filter((node) => node.parent).sort((one, other) => prominence(one) - prominence(other));
    const lines = drawn.map((node) => {
      const [from, to] = [this.columns[node.parent.depth], this.columns[node.depth]];
      const start = from.left + this.widths.get(node.parent);
      const [y, end] = [middle(node.parent), middle(node)];
      const bend = (from.right + to.left) / 2;
      return svgElement("path", { class: `tree-line ${this.classOf(node)}`, "stroke-width": (1 + 3 * node.probability).toFixed(2),
        d: `M${start} ${y}H${from.right}C${bend} ${y} ${bend} ${end} ${to.left} ${end}` });
    });
    const steps = this.columns.slice(1).map(({ left }, index) => svgElement("text", { x: left + 6, y: 16, class: "tree-step" }, `${index ? "" : "step "}${index + 1}`));
    this.svg.replaceChildren(...steps, ...lines);
  }

  /** Highlight the nodes of a hypothesis, from its first word to this one. */
  highlight(node) {
    this.highlighted = new Set(node ? this.model.path(node) : []);
    if (!this.model) return;
    for (const [button, one] of this.nodes) button.className = `tree-word ${this.classOf(one)}`;
    this.drawLines();
  }

  select(node) {
    this.selected = node;
    for (const [button, one] of this.nodes) button.setAttribute("aria-pressed", String(one === node));
    this.highlight(node);
  }

  /** One word can be reached with the tab key, the others with the arrow keys. */
  focusable(button) {
    for (const other of this.nodes.keys()) other.tabIndex = other === button ? 0 : -1;
  }

  listen() {
    const find = (event) => this.nodes.get(event.target.closest?.(".tree-word"));
    this.canvas.addEventListener("pointerover", (event) => { if (event.pointerType !== "touch") this.onPoint(find(event) ?? null); });
    this.canvas.addEventListener("pointerleave", () => this.onPoint(null));
    this.canvas.addEventListener("focusin", (event) => this.onPoint(find(event) ?? null));
    this.canvas.addEventListener("click", (event) => { if (find(event)?.parent) this.onSelect(find(event)); });
    this.canvas.addEventListener("keydown", (event) => this.move(event));
  }

  move(event) {
    const node = this.nodes.get(document.activeElement);
    if (!node) return;
    const inColumn = [...this.rows.keys()].filter((one) => one.depth === node.depth).sort((one, other) => this.rows.get(one) - this.rows.get(other));
    const next = [...this.rows.keys()].filter((one) => one.parent === node).sort((one, other) => this.rows.get(one) - this.rows.get(other));
    const best = this.model.path(this.model.beams[this.step][0]);
    const target = {
      ArrowRight: next[0], ArrowLeft: node.parent, ArrowUp: inColumn[inColumn.indexOf(node) - 1], ArrowDown: inColumn[inColumn.indexOf(node) + 1],
      Home: this.model.root, End: best.at(-1),
    }[event.key];
    if (!target) return;
    event.preventDefault();
    const button = this.buttons.get(target.key);
    this.focusable(button);
    button.focus();
  }
}

/**
 * Place nodes in rows: the best branch is straight, others lie below the node where they start, and branches share a row
 * if they do not overlap. Returns a map from nodes to rows. `visible(node)` tells which nodes to place, `alive(node)` which of them first, and
 * `compare` sorts siblings, best first. Leaves are placed last, all nearest to their parent.
 */
function placeNodes(root, visible, alive, compare) {
  const rows = new Map();
  const taken = []; // by row, the columns
  const place = (nodes, first) => {
    let row = first;
    while (nodes.some((node) => taken[row]?.has(node.depth))) row++;
    for (const node of nodes) {
      (taken[row] ??= new Set()).add(node.depth);
      rows.set(node, row);
    }
  };
  const branch = (head, first, accepts) => {
    const chain = [head];
    const others = new Map();
    for (let node = head; node;) {
      const [best, ...rest] = node.children.filter(accepts).sort(compare);
      others.set(node, rest);
      if (best) chain.push(best);
      node = best;
    }
    place(chain, first);
    for (const node of chain.toReversed()) for (const child of others.get(node)) branch(child, rows.get(node), accepts);
  };
  const fromTop = () => [...rows].sort((one, other) => one[1] - other[1]);
  branch(root, 0, (node) => visible(node) && alive(node));
  for (const [node, row] of fromTop()) {
    for (const child of node.children.filter((one) => visible(one) && !alive(one)).sort(compare)) branch(child, row, visible);
  }
  for (const [node, row] of fromTop()) for (const leaf of node.leaves.filter(visible)) place([leaf], row);
  return rows;
}
