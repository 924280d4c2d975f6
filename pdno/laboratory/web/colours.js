// Colours of the report (pdno/report/style.py), safe for colour-blind readers.

export const LINES = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];

// viridis for fields of one sign
const SEQUENTIAL = [
  "#440154", "#470d60", "#48186a", "#482374", "#472d7b", "#453781", "#424086", "#3e4989",
  "#3b528b", "#375b8d", "#33638d", "#2f6b8e", "#2c728e", "#297a8e", "#26828e", "#23898e",
  "#21918c", "#1f988b", "#1fa088", "#22a785", "#28ae80", "#32b67a", "#3fbc73", "#4ec36b",
  "#5ec962", "#70cf57", "#84d44b", "#98d83e", "#addc30", "#c2df23", "#d8e219", "#ece51b",
  "#fde725",
];

// RdBu_r, white at zero, for fields of both signs
const DIVERGING = [
  "#053061", "#0e4179", "#175290", "#1f63a8", "#2a71b2", "#3480b9", "#3f8ec0", "#529dc8",
  "#6bacd1", "#84bcd9", "#9bc9e0", "#aed3e6", "#c2ddec", "#d4e6f1", "#e0ecf3", "#ecf2f5",
  "#f7f6f6", "#f9eee7", "#fbe5d8", "#fddcc9", "#fbccb4", "#f8bb9e", "#f5aa89", "#ee9677",
  "#e48066", "#db6b55", "#d05548", "#c53e3d", "#ba2832", "#ab162a", "#930e26", "#7c0722",
  "#67001f",
];

const parse = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const TABLES = { sequential: SEQUENTIAL.map(parse), diverging: DIVERGING.map(parse) };

// Which map suits some arrays together, and its range.
export function mapOf(...arrays) {
  let low = Infinity, high = -Infinity;
  for (const array of arrays) {
    for (const value of array) {
      if (value < low) low = value;
      if (value > high) high = value;
    }
  }
  if (!(low < Infinity)) [low, high] = [0, 1];
  if (low < 0 && high > 0) {
    const limit = Math.max(-low, high);
    return { kind: "diverging", low: -limit, high: limit };
  }
  return { kind: "sequential", low, high: high > low ? high : low + 1 };
}

// Red, green and blue of a value.
export function colour(map, value, out, at) {
  const table = TABLES[map.kind];
  const last = table.length - 1;
  const place = Math.min(Math.max(((value - map.low) / (map.high - map.low)) * last, 0), last) || 0;
  const first = Math.min(Math.floor(place), last - 1);
  for (let part = 0; part < 3; part++) {
    const from = table[first][part];
    out[at + part] = from + (place - first) * (table[first + 1][part] - from);
  }
  out[at + 3] = 255;
}
