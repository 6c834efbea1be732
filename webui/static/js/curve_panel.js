// Learning curves of one or several runs with a choice of quantity, log axis, smoothing, clipping of spikes and zoom.
import { CurveChart } from "./curve_chart.js";
import { element, formatNumber, loadState, saveState } from "./dom.js";
import { QUANTITIES, rangeOf, rangeWithoutSpikes, smooth, valuesOf } from "./series.js";

const DEFAULTS = { quantity: "loss", log: false, smoothing: 0, clip: true };
let count = 0; // of panels, for ids

export class CurvePanel {
  constructor(parent) {
    this.id = `curves-${++count}`;
    this.options = { ...DEFAULTS, ...loadState("curve-options") };
    this.runs = []; // [{name, curves}]
    this.zoom = null; // [first step, last step]
    this.chart = new CurveChart((zoom) => this.setZoom(zoom));
    this.caption = element("p", { class: "muted curves-caption", role: "status" });
    parent.replaceChildren(this.controls(), this.chart.element, this.caption);
  }

  /** The colors of the runs by name. */
  get colors() {
    return new Map(this.runs.map(({ name }, index) => [name, this.chart.color(index)]));
  }

  show(runs) {
    this.runs = runs;
    this.draw();
  }

  controls() {
    const quantities = element("fieldset", { class: "quantities" }, element("legend", { class: "visually-hidden" }, "Quantity"), Object.entries(QUANTITIES).map(([name, { title }]) => {
      const input = element("input", { type: "radio", class: "btn-check", name: this.id, id: `${this.id}-${name}` });
      input.checked = name === this.options.quantity;
      input.addEventListener("change", () => this.set({ quantity: name }));
      return [input, element("label", { class: "btn btn-sm btn-soft", for: `${this.id}-${name}` }, title)];
    }));
    const checkbox = (option, label) => {
      const input = element("input", { type: "checkbox", class: "form-check-input", id: `${this.id}-${option}` });
      input.checked = this.options[option];
      input.addEventListener("change", () => this.set({ [option]: input.checked }));
      return element("div", { class: "form-check" }, input, element("label", { class: "form-check-label", for: input.id }, label));
    };
    const smoothing = element("input", { type: "range", min: 0, max: 0.98, step: 0.02, id: `${this.id}-smoothing` });
    smoothing.value = this.options.smoothing;
    smoothing.addEventListener("input", () => this.set({ smoothing: Number(smoothing.value) }));
    this.limits = ["first", "last"].map((end) => {
      const input = element("input", { type: "number", class: "form-control form-control-sm", min: 0, "aria-label": `${end} step shown` });
      input.addEventListener("change", () => this.readZoom());
      return input;
    });
    const reset = element("button", { type: "button", class: "btn btn-sm btn-soft", click: () => this.setZoom(null) }, "All steps");
    return element("div", { class: "curve-controls" }, quantities, checkbox("log", "Log axis"), checkbox("clip", "Clip spikes"),
      element("span", {}, element("label", { for: smoothing.id }, "Smoothing "), " ", smoothing), element("span", {}, "Steps ", this.limits[0], " to ", this.limits[1], " ", reset));
  }

  set(changes) {
    Object.assign(this.options, changes);
    saveState("curve-options", this.options);
    this.draw();
  }

  readZoom() {
    const [first, last] = this.limits.map((input) => (input.value === "" ? null : Number(input.value)));
    this.setZoom(first === null && last === null ? null : [first ?? 0, last ?? Infinity]);
  }

  setZoom(zoom) {
    this.zoom = zoom && zoom[0] < zoom[1] ? zoom : null;
    this.draw();
  }

  /** The lines of the chart: {name of the run, index of the run, isValidation, steps, drawn values}. */
  lines() {
    const { quantity, smoothing } = this.options;
    const { kinds } = QUANTITIES[quantity];
    return this.runs.flatMap(({ name, curves }, index) => kinds.map((kind) => {
      const values = valuesOf(curves[kind], quantity);
      const drawn = kind === "train" ? smooth(values, smoothing) : values;
      return { name, index, isValidation: kind === "validation", steps: curves[kind].step, drawn };
    })).filter(({ drawn }) => drawn.some((value) => value !== null));
  }

  draw() {
    const lines = this.lines();
    const { quantity, log, clip } = this.options;
    const { title, unit } = QUANTITIES[quantity];
    const name = quantity === "bleu" ? title : title.toLowerCase();
    const steps = lines.flatMap((line) => line.steps);
    const last = Math.max(1, ...steps);
    const zoom = this.zoom?.[0] < last ? [this.zoom[0], Math.min(this.zoom[1], last)] : [0, last];
    this.limits.forEach((input, end) => {
      const whole = [0, last][end];
      input.value = zoom[end] === whole ? "" : String(zoom[end]);
      input.placeholder = String(whole);
    });
    const shown = lines.map((line) => line.drawn.filter((value, index) => line.steps[index] >= zoom[0] && line.steps[index] <= zoom[1] && !(log && value <= 0)));
    const ranges = shown.filter((values) => values.some((value) => value !== null)).map((values) => (clip ? rangeWithoutSpikes(values) : rangeOf(values)));
    this.caption.textContent = ranges.length ? this.describe(lines, title, unit) : `No ${name} ${lines.length ? "can be shown here; choose all steps, without a log axis" : "has been recorded"}.`;
    const range = [Math.min(...ranges.map(([low]) => low)), Math.max(...ranges.map(([, high]) => high))];
    const label = ranges.length ? `${title} from ${range.map(formatNumber).join(" to ")}, steps ${zoom.map(formatNumber).join(" to ")}${log ? ", logarithmic" : ""}` : title;
    this.chart.draw(ranges.length ? lines : [], { label, log, zoom, range, single: this.runs.length === 1 });
  }

  describe(lines, title, unit) {
    const last = lines.map((line) => {
      const at = line.drawn.findLastIndex((value) => value !== null);
      return `${line.isValidation ? "validation" : "training"} ${formatNumber(line.drawn[at])} at step ${formatNumber(line.steps[at])}`;
    });
    const ends = this.runs.length > 1 ? "" : ` Last values: ${last.join(", ")}.`;
    return `${title}${unit ? `, ${unit}` : ""}.${ends} Drag over the chart to zoom.`;
  }
}
