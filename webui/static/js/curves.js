// Learning curves: training loss as a thin line, validation loss with dots.
import { element, formatNumber, svgElement } from "./dom.js";

const HEIGHT = 300, LEFT = 44, RIGHT = 12, TOP = 12, BOTTOM = 40;

/** `curves` is {train: [[step, loss], …], validation: […]}; null if there are no points. */
export function curvesFigure(curves) {
  const WIDTH = matchMedia("(max-width: 40rem)").matches ? 380 : 860;
  const all = [...curves.train, ...curves.validation];
  if (!all.length) return null;
  const maxStep = Math.max(...all.map(([step]) => step), 1);
  const maxLoss = Math.max(...all.map(([, loss]) => loss), 0.1) * 1.05;
  const x = (step) => LEFT + (step / maxStep) * (WIDTH - LEFT - RIGHT);
  const y = (loss) => HEIGHT - BOTTOM - (loss / maxLoss) * (HEIGHT - TOP - BOTTOM);
  const line = (points) => points.map(([step, loss]) => `${x(step).toFixed(1)},${y(loss).toFixed(1)}`).join(" ");
  const best = curves.validation.reduce((one, other) => (one && one[1] <= other[1] ? one : other), null);
  const svg = svgElement("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "curves", role: "img", "aria-label": describe(curves, best) });
  for (const loss of ticks(maxLoss)) {
    svg.append(svgElement("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(loss), y2: y(loss) }),
      svgElement("text", { x: LEFT - 8, y: y(loss) + 4, "text-anchor": "end" }, formatNumber(loss)));
  }
  for (const step of ticks(maxStep)) {
    svg.append(svgElement("line", { class: "tick", x1: x(step), x2: x(step), y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM + 5 }),
      svgElement("text", { x: x(step), y: HEIGHT - BOTTOM + 19, "text-anchor": "middle" }, abbreviate(step)));
  }
  svg.append(svgElement("text", { x: LEFT + (WIDTH - LEFT - RIGHT) / 2, y: HEIGHT - 4, "text-anchor": "middle", class: "axis" }, "step"));
  svg.append(svgElement("polyline", { class: "train", points: line(curves.train) }));
  svg.append(svgElement("polyline", { class: "validation", points: line(curves.validation) }));
  if (curves.validation.length <= 60) {
    for (const [step, loss] of curves.validation) svg.append(svgElement("circle", { class: "validation-dot", cx: x(step), cy: y(loss), r: 3 }));
  }
  if (best) svg.append(svgElement("circle", { class: "best", cx: x(best[0]), cy: y(best[1]), r: 6.5 }));
  const cursor = svgElement("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, x1: -10, x2: -10 });
  svg.append(cursor);
  const caption = element("p", { class: "muted curves-caption" }, "Loss in nats per target token.", best ? ` The ring marks the best validation: ${formatNumber(best[1])} (perplexity ${formatNumber(Math.exp(best[1]))}) at step ${formatNumber(best[0])}.` : "");
  const defaultCaption = [...caption.childNodes];
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const step = ((((event.clientX - box.left) / box.width) * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT)) * maxStep;
    const nearest = (points) => points.reduce((one, other) => (one && Math.abs(one[0] - step) <= Math.abs(other[0] - step) ? one : other), null);
    const [train, validation] = [nearest(curves.train), nearest(curves.validation)];
    const at = (train ?? validation)[0];
    cursor.setAttribute("x1", x(at));
    cursor.setAttribute("x2", x(at));
    const parts = [];
    if (train) parts.push(`step ${formatNumber(train[0])}: training ${formatNumber(train[1])}`);
    if (validation) parts.push(`validation ${formatNumber(validation[1])} at step ${formatNumber(validation[0])}`);
    caption.textContent = `${parts.join(", ")} (nats per target token)`;
  });
  svg.addEventListener("pointerleave", () => {
    cursor.setAttribute("x1", -10);
    cursor.setAttribute("x2", -10);
    caption.replaceChildren(...defaultCaption);
  });
  const legend = element("p", { class: "legend" }, element("span", { class: "key train" }), "training",
    curves.validation.length ? [element("span", { class: "key validation" }), "validation"] : null);
  const rows = curves.validation.slice(-200).map(([step, loss]) => element("tr", {}, element("td", { class: "num" }, formatNumber(step)), element("td", { class: "num" }, loss.toFixed(3)), element("td", { class: "num" }, formatNumber(Math.exp(loss)))));
  const numbers = element("details", { class: "more" }, element("summary", {}, "Validations as a table"),
    element("table", { class: "table table-sm numbers" }, element("thead", {}, element("tr", {}, ["Step", "Loss", "Perplexity"].map((name) => element("th", { scope: "col" }, name)))), element("tbody", {}, rows)));
  return element("figure", { class: "figure-curves" }, legend, svg, caption, curves.validation.length ? numbers : null);
}

function describe(curves, best) {
  const last = curves.train.at(-1);
  const parts = ["Learning curves."];
  if (last) parts.push(`The training loss is ${formatNumber(last[1])} at step ${formatNumber(last[0])}.`);
  if (best) parts.push(`The lowest validation loss is ${formatNumber(best[1])} at step ${formatNumber(best[0])}.`);
  return parts.join(" ");
}

function ticks(max) {
  const rough = max / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const size = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
  const values = [];
  for (let value = 0; value <= max; value += size) values.push(Number(value.toPrecision(6)));
  return values;
}

const abbreviate = (step) => (step >= 1e6 ? `${formatNumber(step / 1e6)} M` : step >= 1e4 ? `${formatNumber(step / 1e3)} k` : formatNumber(step));
