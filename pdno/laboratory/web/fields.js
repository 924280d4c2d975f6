// Fields: drawn at random, read from files, compared, and sent as float32 in base64.

const REACH = 24; // largest mode of a random field

export function sizeOf(shape) {
  return shape.reduce((a, b) => a * b, 1);
}

// Normal numbers of a seed (mulberry32, Box and Muller).
function normals(seed) {
  let state = (seed * 2654435761 + 1) >>> 0;
  const uniform = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = state;
    t = Math.imul(t ^ (t >>> 15), t | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
  return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
}

// A sample of N(0, σ²(-Δ + τ²)^-α) on a grid of the unit box, the same function at every resolution:
// Σ_k z_k σ(μ_k + τ²)^{-α/2} e_k(x) with cosines (neumann), or cosines and sines (periodic).
// A smoothness other than 1 changes α and keeps the mean size.
export function randomField(distribution, shape, { seed, amplitude = 1, smoothness = 1 }) {
  const draw = normals(seed);
  const neumann = distribution.boundary === "neumann";
  const waves = neumann ? REACH : 2 * REACH + 1;
  const number = (k) => (neumann ? k : Math.ceil(k / 2)); // 0, 1, 1, 2, 2, ...
  const scale = neumann ? Math.PI ** 2 : 4 * Math.PI ** 2;
  const deviation = (mu, alpha) => (mu + distribution.tau ** 2) ** (-alpha / 2);
  const dim = shape.length;
  const coefficients = new Float64Array(waves ** dim);
  const order = [...coefficients.keys()].sort((a, b) => shell(a) - shell(b) || a - b);
  function parts(at) {
    return dim === 1 ? [at] : [Math.floor(at / waves), at % waves];
  }
  function shell(at) {
    return Math.max(...parts(at).map(number));
  }
  let usual = 0, now = 0;
  for (const at of order) {
    const z = draw(), numbers = parts(at).map(number);
    const mu = scale * numbers.reduce((sum, k) => sum + k * k, 0);
    if (mu === 0) continue;
    const weight = Math.sqrt(2) ** numbers.filter((k) => k > 0).length;
    usual += (weight * deviation(mu, distribution.alpha)) ** 2;
    now += (weight * deviation(mu, distribution.alpha * smoothness)) ** 2;
    coefficients[at] = weight * deviation(mu, distribution.alpha * smoothness) * z;
  }
  const size = amplitude * Math.sqrt((distribution.variance * usual) / now);
  const tables = shape.map((n) => table(n, waves, neumann, number));
  const field = synthesise(coefficients, tables, shape, waves);
  return field.map((value) => size * value);
}

function table(n, waves, neumann, number) {
  const values = new Float64Array(n * waves);
  for (let i = 0; i < n; i++) {
    for (let k = 0; k < waves; k++) {
      const x = neumann ? (Math.PI * number(k) * (i + 0.5)) / n : (2 * Math.PI * number(k) * i) / n;
      const held = number(k) < n / 2 || k === 0;
      values[i * waves + k] = !held ? 0 : neumann || k % 2 === 0 ? Math.cos(x) : Math.sin(x);
    }
  }
  return values;
}

function synthesise(coefficients, tables, shape, waves) {
  if (shape.length === 1) {
    return Float32Array.from({ length: shape[0] }, (_, i) => dot(tables[0], i * waves, coefficients, 0, waves));
  }
  const [rows, columns] = shape;
  const half = new Float64Array(columns * waves); // by column, then mode of the first axis
  for (let j = 0; j < columns; j++) {
    for (let k = 0; k < waves; k++) half[j * waves + k] = dot(tables[1], j * waves, coefficients, k * waves, waves);
  }
  const field = new Float32Array(rows * columns);
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) field[i * columns + j] = dot(tables[0], i * waves, half, j * waves, waves);
  }
  return field;
}

function dot(a, from, b, begin, count) {
  let sum = 0;
  for (let k = 0; k < count; k++) sum += a[from + k] * b[begin + k];
  return sum;
}

// Values on another grid: nearest points for jumps, else linear between points.
export function regrid(values, from, to, { periodic, jumps }) {
  if (from.every((n, axis) => n === to[axis])) return values;
  const out = new Float32Array(sizeOf(to));
  const place = (i, axis) => {
    const at = periodic ? (i * from[axis]) / to[axis] : ((i + 0.5) * from[axis]) / to[axis] - 0.5;
    const low = Math.floor(at), n = from[axis];
    const wrap = (k) => (periodic ? ((k % n) + n) % n : Math.min(Math.max(k, 0), n - 1));
    const near = Math.min(Math.floor((i * n) / to[axis]), n - 1);
    return jumps ? [near, near, 0] : [wrap(low), wrap(low + 1), at - low];
  };
  if (from.length === 1) {
    for (let i = 0; i < to[0]; i++) {
      const [a, b, s] = place(i, 0);
      out[i] = (1 - s) * values[a] + s * values[b];
    }
    return out;
  }
  const columns = Array.from({ length: to[1] }, (_, j) => place(j, 1));
  for (let i = 0; i < to[0]; i++) {
    const [a, b, s] = place(i, 0);
    for (let j = 0; j < to[1]; j++) {
      const [c, d, r] = columns[j];
      const upper = (1 - r) * values[a * from[1] + c] + r * values[a * from[1] + d];
      const lower = (1 - r) * values[b * from[1] + c] + r * values[b * from[1] + d];
      out[i * to[1] + j] = (1 - s) * upper + s * lower;
    }
  }
  return out;
}

export function relativeL2(prediction, expected) {
  let difference = 0, norm = 0;
  for (let k = 0; k < expected.length; k++) {
    difference += (prediction[k] - expected[k]) ** 2;
    norm += expected[k] ** 2;
  }
  return Math.sqrt(difference / norm);
}

export function encode(values) {
  const bytes = new Uint8Array(new Float32Array(values).buffer);
  let text = "";
  for (let at = 0; at < bytes.length; at += 32768) {
    text += String.fromCharCode(...bytes.subarray(at, at + 32768));
  }
  return btoa(text);
}

export function decode({ shape, data }) {
  const text = atob(data);
  const bytes = Uint8Array.from(text, (letter) => letter.charCodeAt(0));
  return { shape, values: new Float32Array(bytes.buffer) };
}

// A .npy file of float32 or float64 numbers, or numbers as text, row by row.
export async function readFile(file) {
  if (file.size > 8 * 2 ** 20) throw new Error(`${file.name} is larger than 8 MiB`);
  const bytes = new Uint8Array(await file.arrayBuffer());
  const array = bytes[0] === 0x93 ? readNpy(bytes, file.name) : readText(bytes, file.name);
  if (!array.values.every(Number.isFinite)) throw new Error(`${file.name} has values that are no numbers`);
  return array;
}

function readNpy(bytes, name) {
  const long = bytes[6] > 1;
  const view = new DataView(bytes.buffer);
  const begin = long ? 12 : 10;
  const size = long ? view.getUint32(8, true) : view.getUint16(8, true);
  const head = new TextDecoder().decode(bytes.subarray(begin, begin + size));
  const kind = /'descr': *'([^']*)'/.exec(head)?.[1];
  const Numbers = { "<f4": Float32Array, "<f8": Float64Array }[kind];
  if (!Numbers || /'fortran_order': *True/.test(head)) {
    throw new Error(`${name} holds ${kind ?? "no array"}; expected float32 or float64 in C order`);
  }
  const shape = /'shape': *\(([^)]*)\)/.exec(head)[1].split(",").filter((n) => n.trim()).map(Number);
  const values = new Float32Array(new Numbers(bytes.slice(begin + size).buffer));
  return { shape: shape.filter((n) => n > 1), values };
}

function readText(bytes, name) {
  const lines = new TextDecoder().decode(bytes).split("\n").filter((line) => line.trim());
  const rows = lines.map((line) => line.trim().split(/[\s,;]+/).map(Number));
  if (!rows.length || rows.some((row) => row.length !== rows[0].length)) {
    throw new Error(`${name} has rows of different lengths; expected a .npy file, or numbers row by row`);
  }
  const shape = [rows.length, rows[0].length].filter((n) => n > 1);
  return { shape, values: new Float32Array(rows.flat()) };
}
