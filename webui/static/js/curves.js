// Learning curves: loss over steps, training as a thin line and validation with its dots.
import { drawing, element, number } from "./dom.js";

const HEIGHT = 300, LEFT = 44, RIGHT = 12, TOP = 12, BOTTOM = 40;

/** `curves` is {train: [[step, loss], …], validation: […]}; null where there is nothing to draw. */
export function curvesFigure(curves) {
  const WIDTH = matchMedia("(max-width: 40rem)").matches ? 380 : 860;
  const all = [...curves.train, ...curves.validation];
  if (!all.length) return null;
  const mostStep = Math.max(...all.map(([step]) => step), 1);
  const mostLoss = Math.max(...all.map(([, loss]) => loss), 0.1) * 1.05;
  const x = (step) => LEFT + (step / mostStep) * (WIDTH - LEFT - RIGHT);
  const y = (loss) => HEIGHT - BOTTOM - (loss / mostLoss) * (HEIGHT - TOP - BOTTOM);
  const line = (points) => points.map(([step, loss]) => `${x(step).toFixed(1)},${y(loss).toFixed(1)}`).join(" ");
  const best = curves.validation.reduce((one, other) => (one && one[1] <= other[1] ? one : other), null);
  const svg = drawing("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "curves", role: "img", "aria-label": describe(curves, best) });
  for (const loss of ticks(mostLoss)) {
    svg.append(drawing("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y(loss), y2: y(loss) }),
      drawing("text", { x: LEFT - 8, y: y(loss) + 4, "text-anchor": "end" }, number(loss)));
  }
  for (const step of ticks(mostStep)) {
    svg.append(drawing("line", { class: "tick", x1: x(step), x2: x(step), y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM + 5 }),
      drawing("text", { x: x(step), y: HEIGHT - BOTTOM + 19, "text-anchor": "middle" }, short(step)));
  }
  svg.append(drawing("text", { x: LEFT + (WIDTH - LEFT - RIGHT) / 2, y: HEIGHT - 4, "text-anchor": "middle", class: "axis" }, "step"));
  svg.append(drawing("polyline", { class: "train", points: line(curves.train) }));
  svg.append(drawing("polyline", { class: "validation", points: line(curves.validation) }));
  if (curves.validation.length <= 60) {
    for (const [step, loss] of curves.validation) svg.append(drawing("circle", { class: "validation-dot", cx: x(step), cy: y(loss), r: 3 }));
  }
  if (best) svg.append(drawing("circle", { class: "best", cx: x(best[0]), cy: y(best[1]), r: 6.5 }));
  const cursor = drawing("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, x1: -10, x2: -10 });
  svg.append(cursor);
  const told = element("p", { class: "quiet told" }, "Loss in nats per target token.", best ? ` The ring is the best validation: ${number(best[1])} (perplexity ${number(Math.exp(best[1]))}) at step ${number(best[0])}.` : "");
  const usual = [...told.childNodes];
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect();
    const step = ((((event.clientX - box.left) / box.width) * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT)) * mostStep;
    const near = (points) => points.reduce((one, other) => (one && Math.abs(one[0] - step) <= Math.abs(other[0] - step) ? one : other), null);
    const [train, validation] = [near(curves.train), near(curves.validation)];
    const at = (train ?? validation)[0];
    cursor.setAttribute("x1", x(at));
    cursor.setAttribute("x2", x(at));
    const parts = [];
    if (train) parts.push(`step ${number(train[0])}: training ${number(train[1])}`);
    if (validation) parts.push(`validation ${number(validation[1])} at step ${number(validation[0])}`);
    told.textContent = `${parts.join(", ")} (nats per target token)`;
  });
  svg.addEventListener("pointerleave", () => {
    cursor.setAttribute("x1", -10);
    cursor.setAttribute("x2", -10);
    told.replaceChildren(...usual);
  });
  const legend = element("p", { class: "legend" }, element("span", { class: "key train" }), "training",
    curves.validation.length ? [element("span", { class: "key validation" }), "validation"] : null);
  const rows = curves.validation.slice(-200).map(([step, loss]) => element("tr", {}, element("td", { class: "num" }, number(step)), element("td", { class: "num" }, loss.toFixed(3)), element("td", { class: "num" }, number(Math.exp(loss)))));
  const numbers = element("details", { class: "more" }, element("summary", {}, "Validations in numbers"),
    element("table", { class: "table table-sm numbers" }, element("thead", {}, element("tr", {}, ["Step", "Loss", "Perplexity"].map((name) => element("th", { scope: "col" }, name)))), element("tbody", {}, rows)));
  return element("figure", { class: "figure-curves" }, legend, svg, told, curves.validation.length ? numbers : null);
}

function describe(curves, best) {
  const end = curves.train.at(-1);
  const parts = ["Learning curves."];
  if (end) parts.push(`The training loss is ${number(end[1])} at step ${number(end[0])}.`);
  if (best) parts.push(`The lowest validation loss is ${number(best[1])} at step ${number(best[0])}.`);
  return parts.join(" ");
}

function ticks(most) {
  const rough = most / 5;
  const power = 10 ** Math.floor(Math.log10(rough));
  const size = [1, 2, 5, 10].find((factor) => factor * power >= rough) * power;
  const found = [];
  for (let value = 0; value <= most; value += size) found.push(Number(value.toPrecision(6)));
  return found;
}

const short = (step) => (step >= 1e6 ? `${number(step / 1e6)} M` : step >= 1e4 ? `${number(step / 1e3)} k` : number(step));
