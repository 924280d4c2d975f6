// Pictures: a field of two axes as a map with a colour bar, of one axis as curves; the input as a
// picture that can be painted on, by pointer or by keyboard.

import { LINES, colour, mapOf } from "./colours.js";

function style(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function fit(canvas, ratio) {
  const width = Math.max(canvas.clientWidth, 64), scale = Math.min(devicePixelRatio || 1, 2);
  canvas.style.aspectRatio = `${ratio}`;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round((width * scale) / ratio);
  return scale;
}

const short = (value) => (value === 0 ? "0" : Math.abs(value) >= 1e4 || Math.abs(value) < 1e-2 ? value.toExponential(1) : value.toPrecision(3));

// A field (N1, N2): x1 to the right and x2 upwards, as in the report.
export function drawMap(canvas, values, shape, map = mapOf(values)) {
  const [rows, columns] = shape;
  const image = new ImageData(rows, columns);
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) colour(map, values[i * columns + j], image.data, 4 * ((columns - 1 - j) * rows + i));
  }
  const bar = 0.24;
  const scale = fit(canvas, 1 + bar);
  const context = canvas.getContext("2d");
  const small = new OffscreenCanvas(rows, columns);
  small.getContext("2d").putImageData(image, 0, 0);
  context.imageSmoothingEnabled = false;
  const side = canvas.height;
  context.drawImage(small, 0, 0, side, side);
  drawBar(context, map, side, canvas.width, scale);
  describe(canvas, `from ${short(map.low)} to ${short(map.high)}`);
  return { side };
}

function drawBar(context, map, left, right, scale) {
  const height = context.canvas.height, width = 8 * scale, at = left + 5 * scale, part = new Uint8ClampedArray(4);
  for (let y = 0; y < height; y++) {
    colour(map, map.high - ((map.high - map.low) * y) / (height - 1), part, 0);
    context.fillStyle = `rgb(${part[0]},${part[1]},${part[2]})`;
    context.fillRect(at, y, width, 1);
  }
  context.fillStyle = style("--ink");
  context.font = `${9 * scale}px system-ui, sans-serif`;
  context.textBaseline = "top";
  const label = short(map.low) === short(map.high) ? (value) => value.toExponential(3) : short;
  context.fillText(label(map.high), at + width + 2 * scale, 0);
  context.textBaseline = "bottom";
  context.fillText(label(map.low), at + width + 2 * scale, height);
}

// Curves over x in [0, 1], or over modes; each is { values, label }.
export function drawCurves(canvas, curves, { low, high, logarithmic = false, xs = null } = {}) {
  const scale = fit(canvas, 1.9);
  const context = canvas.getContext("2d");
  const all = curves.flatMap((curve) => [...curve.values]).filter((v) => Number.isFinite(v) && (!logarithmic || v > 0));
  const place = logarithmic ? Math.log10 : (v) => v;
  const bottom = place(low ?? Math.min(...all, ...(logarithmic ? [] : [0]))), top = place(high ?? Math.max(...all)) || 1;
  const left = 54 * scale, under = 18 * scale, width = canvas.width - left - 8 * scale, height = canvas.height - under - 8 * scale;
  const step = Math.min(90 * scale, width / curves.length);
  const y = (v) => 8 * scale + height * (1 - (place(v) - bottom) / (top - bottom || 1));
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.strokeStyle = style("--line");
  context.strokeRect(left, 8 * scale, width, height);
  context.fillStyle = style("--ink");
  context.font = `${10 * scale}px system-ui, sans-serif`;
  context.textAlign = "right";
  const back = logarithmic ? (v) => 10 ** v : (v) => v;
  context.fillText(short(back(top)), left - 4 * scale, 16 * scale);
  context.fillText(short(back(bottom)), left - 4 * scale, 8 * scale + height);
  context.textAlign = "left";
  curves.forEach((curve, number) => {
    context.strokeStyle = curve.colour ?? LINES[number % LINES.length];
    context.lineWidth = 1.7 * scale;
    context.setLineDash(number % 2 ? [5 * scale, 3 * scale] : []);
    context.beginPath();
    const span = xs ? Math.log10(xs.at(-1) / xs[0]) || 1 : curve.values.length - 1 || 1;
    let begun = false;
    curve.values.forEach((value, k) => {
      if (!Number.isFinite(value) || (logarithmic && value <= 0)) return;
      const along = (curve.xs ?? xs) ? Math.log10((curve.xs ?? xs)[k] / xs[0]) : k;
      const x = left + (width * along) / span;
      if (begun) context.lineTo(x, y(value));
      else context.moveTo(x, y(value));
      begun = true;
    });
    context.stroke();
    context.setLineDash([]);
    context.fillStyle = curve.colour ?? LINES[number % LINES.length];
    if (curve.label) context.fillText(curve.label, left + 6 * scale + number * step, canvas.height - 4 * scale);
  });
  describe(canvas, `from ${short(back(bottom))} to ${short(back(top))}`);
  return { left, width, y0: 8 * scale, height, bottom, top };
}

function describe(canvas, range) {
  canvas.setAttribute("aria-label", `${canvas.dataset.title ?? "picture"}, ${range}`);
}

// The input: painted on with a brush; `begin` is called before a stroke, `change` with values and shape.
export class Painter {
  constructor(canvas, begin, change) {
    Object.assign(this, { canvas, begin, change, cursor: [0.5, 0.5], painting: false, locked: false });
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.painting = true;
      if (!this.locked) this.begin();
      this.#move(event);
    });
    canvas.addEventListener("pointermove", (event) => this.painting && this.#move(event));
    for (const name of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(name, () => (this.painting = false));
    }
    canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  show(values, shape, brush) {
    Object.assign(this, { values, shape, brush });
    this.draw();
  }

  draw() {
    if (this.shape.length === 1) {
      this.frame = drawCurves(this.canvas, [{ values: this.values }]);
    } else {
      this.frame = drawMap(this.canvas, this.values, this.shape);
    }
    if (document.activeElement === this.canvas) this.#ring();
  }

  #ring() {
    const context = this.canvas.getContext("2d");
    const { left = 0, width = this.frame.side, y0 = 0, height = this.frame.side } = this.frame;
    context.strokeStyle = style("--accent");
    context.lineWidth = 3;
    context.beginPath();
    context.arc(left + this.cursor[0] * width, y0 + (1 - this.cursor[1]) * height, 8, 0, 7);
    context.stroke();
  }

  #move(event) {
    const box = this.canvas.getBoundingClientRect(), scale = this.canvas.width / box.width;
    const { left = 0, width = this.frame.side, y0 = 0, height = this.frame.side } = this.frame;
    this.cursor = [((event.clientX - box.left) * scale - left) / width, 1 - ((event.clientY - box.top) * scale - y0) / height];
    this.#paint();
  }

  #key(event) {
    const step = event.shiftKey ? 0.1 : 0.02;
    const by = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] }[event.key];
    if (by) {
      this.cursor = this.cursor.map((at, axis) => Math.min(Math.max(at + by[axis], 0), 1));
      this.draw();
    } else if (event.key === " " || event.key === "Enter") {
      if (!this.locked) this.begin();
      this.#paint();
    } else {
      return;
    }
    event.preventDefault();
  }

  // The brush sets the value of a disc, or lifts a field smoothly; on a line it draws the curve.
  #paint() {
    if (this.locked) return;
    const { values, shape, brush } = this;
    const [x, y] = this.cursor;
    const radius = brush.size / 2;
    if (shape.length === 1) {
      const { bottom, top } = this.frame, wanted = bottom + y * (top - bottom);
      for (let i = 0; i < shape[0]; i++) {
        const weight = Math.exp(-(((i / shape[0] - x) / radius) ** 2) * 2);
        values[i] += (wanted - values[i]) * weight;
      }
    } else {
      for (let i = 0; i < shape[0]; i++) {
        for (let j = 0; j < shape[1]; j++) {
          const far = ((i + 0.5) / shape[0] - x) ** 2 + ((j + 0.5) / shape[1] - y) ** 2;
          const at = i * shape[1] + j;
          if (brush.sets !== null) {
            if (far < radius ** 2) values[at] = brush.sets;
          } else {
            values[at] += brush.lifts * Math.exp((-2 * far) / radius ** 2);
          }
        }
      }
    }
    this.draw();
    this.change(values, shape);
  }
}
