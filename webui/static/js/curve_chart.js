// A chart of lines over training steps, drawn by uPlot.
import { element, formatNumber } from "./dom.js";
import { shortName } from "./run_picker.js";

const { uPlot } = window; // vendor/uplot
const COLORS = 8; // --curve-1 … in runs.css
const HEIGHT = 320;

/** A positive number with one significant digit, as the ends of a logarithmic axis have. */
function roundTo(value, round) {
  const unit = 10 ** Math.floor(Math.log10(value) + 1e-9);
  return round(value / unit) * unit;
}

export class CurveChart {
  /** `onZoom([first step, last step])` is called when a range was selected, with null for all steps. */
  constructor(onZoom) {
    this.onZoom = onZoom;
    this.element = element("div", { class: "chart", role: "img", "aria-label": "Learning curves" });
    this.plot = null;
    this.shape = ""; // of the current plot: another one needs a new plot
    new ResizeObserver(() => this.plot?.setSize({ width: this.width, height: HEIGHT })).observe(this.element);
    new MutationObserver(() => this.redraw()).observe(document.documentElement, { attributeFilter: ["data-bs-theme"] });
  }

  get width() {
    return Math.max(240, this.element.clientWidth);
  }

  color(index) {
    if (index < COLORS) return this.style(`--curve-${index + 1}`);
    return `hsl(${(index * 137.5) % 360} 60% ${document.documentElement.dataset.bsTheme === "dark" ? 70 : 36}%)`;
  }

  style(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  redraw() {
    this.shape = "";
    if (this.last) this.draw(...this.last);
  }

  /** Draw lines as CurvePanel.lines returns them; `range` is the range of their values. */
  draw(lines, view) {
    this.last = [lines, view];
    const data = lines.length ? uPlot.join(lines.map((line) => [line.steps, line.drawn.map((value) => (view.log && value <= 0 ? null : value))])) : [[]];
    const shape = JSON.stringify([lines.map((line) => [line.name, line.index, line.isValidation, line.steps.length < 2]), view.log, view.single]);
    this.view = view;
    this.element.setAttribute("aria-label", view.label);
    if (shape !== this.shape) {
      this.plot?.destroy();
      this.plot = new uPlot(this.settings(lines, view), data, this.element);
      this.shape = shape;
    } else {
      this.plot.setData(data, true);
    }
  }

  settings(lines, { log, single }) {
    const axis = { stroke: () => this.style("--muted"), grid: { stroke: () => this.style("--line"), width: 1 }, ticks: { stroke: () => this.style("--line"), width: 1 } };
    const formatTicks = (_, ticks) => ticks.map((tick) => (tick === null ? "" : formatNumber(tick)));
    return {
      width: this.width,
      height: HEIGHT,
      cursor: { drag: { x: true, y: false, setScale: false }, focus: { prox: single ? -1 : 24 } }, // the nearest line stands out
      focus: { alpha: 0.35 },
      scales: {
        x: { time: false, range: () => this.view.zoom },
        y: { distr: log ? 3 : 1, log: 10, range: () => this.valueRange() },
      },
      axes: [{ ...axis, values: formatTicks }, { ...axis, values: formatTicks, size: 64 }],
      series: [{ label: "step", value: (_, step) => (step === null ? "–" : formatNumber(step)) }, ...lines.map((line) => this.series(line, single))],
      hooks: { setSelect: [(plot) => this.select(plot)] },
    };
  }

  series({ name, index, isValidation, steps }, single) {
    const kind = isValidation ? "validation" : "training";
    return {
      label: single ? kind : `${shortName(name)}, ${kind}`,
      stroke: () => (single && !isValidation ? this.style("--train") : single ? this.style("--validation") : this.color(index)),
      width: isValidation ? 2 : 1.3,
      dash: isValidation && !single ? [6, 4] : undefined,
      points: { show: steps.length < 2 || (isValidation && steps.length <= 60), size: 5 },
      spanGaps: true,
      value: (plot, value, _, index) => {
        if (value === null || value === undefined) return "–";
        return formatNumber(value) + (index === plot.cursor.idx ? "" : ` at ${formatNumber(plot.data[0][index])}`); // the nearest one
      },
    };
  }

  valueRange() {
    const { range: [low, high], log } = this.view;
    if (!Number.isFinite(low)) return log ? [1, 10] : [0, 1];
    if (log) return low === high ? [low / 2, low * 2] : [roundTo(low, Math.floor), roundTo(high, Math.ceil)];
    const margin = (high - low) * 0.05 || Math.abs(high) * 0.05 || 1;
    return [low - margin, high + margin];
  }

  select(plot) {
    if (plot.select.width < 4) return;
    const ends = [plot.select.left, plot.select.left + plot.select.width].map((left) => plot.posToVal(left, "x"));
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.onZoom(ends.map(Math.round));
  }
}
