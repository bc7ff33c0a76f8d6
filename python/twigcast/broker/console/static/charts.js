// Line charts of the last five minutes, in SVG.

const SVG = "http://www.w3.org/2000/svg";
const MARGIN = { left: 40, right: 6, top: 8, bottom: 20 };
const WINDOW = 300;

function element(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

// The least of 1, 2, 5, 10, ... that is not below a value.
function niceCeiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((factor) => factor * power >= value * 0.999) * power;
}

export function format(value, unit = "") {
  if (value === null || value === undefined) return "–";
  const digits = value >= 100 || Number.isInteger(value) ? 0 : value >= 10 ? 1 : 2;
  const text = value >= 10000 ? `${(value / 1000).toFixed(value >= 100000 ? 0 : 1)}k` : value.toFixed(digits);
  return unit ? `${text} ${unit}` : text;
}

export class Chart {
  constructor(figure) {
    this.plot = figure.querySelector(".plot");
    this.series = figure.dataset.series.split(" ");
    this.unit = figure.dataset.unit;
    this.title = figure.querySelector("b").textContent;
    this.outputs = this.series.map((name) => figure.querySelector(`[data-value="${name}"]`));
    this.samples = [];
    this.pointed = null;
    this.plot.addEventListener("pointermove", (event) => this.point(event));
    this.plot.addEventListener("pointerleave", () => { this.pointed = null; this.draw(); });
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  show(samples) {
    this.samples = samples;
    this.draw();
  }

  point(event) {
    const box = this.plot.getBoundingClientRect();
    const share = (event.clientX - box.left - MARGIN.left) / (box.width - MARGIN.left - MARGIN.right);
    this.pointed = this.now() - WINDOW * (1 - Math.min(Math.max(share, 0), 1));
    this.draw();
  }

  now() {
    return this.samples.length ? this.samples[this.samples.length - 1].at : Date.now() / 1000;
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.plot;
    if (!width) return;
    const now = this.now();
    const bottom = height - MARGIN.bottom;
    const highest = Math.max(0, ...this.samples.flatMap((sample) => this.series.map((name) => sample[name] ?? 0)));
    const top = niceCeiling(highest);
    const x = (at) => MARGIN.left + (width - MARGIN.left - MARGIN.right) * (1 - (now - at) / WINDOW);
    const y = (value) => bottom - (bottom - MARGIN.top) * (value / top);
    const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, "aria-hidden": "true" });
    for (const share of [0, 0.5, 1]) {
      const at = y(top * share);
      svg.append(element("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: at, y2: at }));
      svg.append(element("text", { x: MARGIN.left - 7, y: at + 4, "text-anchor": "end" }, format(top * share)));
    }
    for (const [seconds, text, anchor] of [[WINDOW, "5 min ago", "start"], [0, "now", "end"]]) {
      svg.append(element("text", { x: x(now - seconds), y: height - 4, "text-anchor": anchor }, text));
    }
    const visible = this.samples.filter((sample) => sample.at >= now - WINDOW);
    this.series.forEach((name, index) => this.drawSeries(svg, visible, name, index + 1, x, y, bottom));
    const shown = this.sampleShown(visible);
    if (this.pointed !== null && shown) {
      svg.append(element("line", { class: "cross", x1: x(shown.at), x2: x(shown.at), y1: MARGIN.top, y2: bottom }));
    }
    this.plot.replaceChildren(svg);
    this.showValues(shown);
  }

  drawSeries(svg, samples, name, number, x, y, bottom) {
    // A second without a value is a gap in the line.
    const pieces = [];
    let piece = [];
    for (const sample of samples) {
      const value = sample[name];
      if (value === null || value === undefined) {
        if (piece.length) pieces.push(piece);
        piece = [];
      } else {
        piece.push([x(sample.at).toFixed(1), y(value).toFixed(1)]);
      }
    }
    if (piece.length) pieces.push(piece);
    for (const points of pieces) {
      const line = points.map((point) => point.join(" ")).join("L");
      if (points.length === 1) {
        svg.append(element("path", { class: `line s${number}`, d: `M${line}h.1` }));
        continue;
      }
      const first = points[0][0];
      const last = points[points.length - 1][0];
      svg.append(element("path", { class: `area s${number}`, d: `M${first} ${bottom}L${line}L${last} ${bottom}Z` }));
      svg.append(element("path", { class: `line s${number}`, d: `M${line}` }));
    }
  }

  // The sample whose values are shown: the one pointed at, or the latest.
  sampleShown(samples) {
    if (this.pointed === null) return samples[samples.length - 1];
    const distance = (sample) => Math.abs(sample.at - this.pointed);
    return samples.reduce((best, sample) => (!best || distance(sample) < distance(best) ? sample : best), undefined);
  }

  showValues(sample) {
    this.series.forEach((name, index) => {
      this.outputs[index].textContent = format(sample?.[name], this.unit);
    });
    const values = this.series.map((name) => `${name.replaceAll("_", " ")} ${format(sample?.[name], this.unit)}`);
    this.plot.setAttribute("aria-label", `${this.title}: ${values.join(", ")}`);
  }
}
