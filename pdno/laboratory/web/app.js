// The page: what is chosen, and what follows from it.

import { chooseBackend } from "./backends.js";
import { LINES, mapOf } from "./colours.js";
import { Painter, drawCurves, drawMap } from "./draw.js";
import { decode, randomField, readFile, regrid, relativeL2, sizeOf } from "./fields.js";

const $ = (id) => document.getElementById(id);
const backend = chooseBackend();
const page = { operators: [], predictions: [], truth: null, past: [], frame: 0, turn: 0, playing: null, solving: null };
globalThis.pdno = page; // for tests, and for the curious
const painter = new Painter($("input"), remember, (values, shape) => {
  page.state = { values, shape }; // a sample that is painted on is none any more, and has no truth
  predict();
});

function showStatus(text, problem = false) {
  $("status").textContent = text;
  $("status").classList.toggle("problem", problem);
}

async function attempt(work) {
  try {
    await work();
  } catch (problem) {
    if (problem.name !== "AbortError") showStatus(problem.message || String(problem), true);
  }
}

const operator = () => page.operators[$("operator").value];
const second = () => page.operators[$("second").value];
const phasesOf = ({ input }) => ("low" in input ? [input.low, input.high] : null); // of a two-phase medium
const chosen = () => [operator(), second()].filter(Boolean);
const milliseconds = (seconds) => (seconds == null ? "–" : seconds < 10 ? `${(1000 * seconds).toFixed(1)} ms` : `${seconds.toFixed(1)} s`);

function option(text, value) {
  const made = document.createElement("option");
  made.textContent = text;
  made.value = value;
  return made;
}

// Operators that take the same input as another one.
function alike(one, other) {
  const shape = (o) => JSON.stringify([o.equation, o.grid.shape.length, o.input, o.window, o.constants.length, o.any_time, o.times === null]);
  return one !== other && shape(one) === shape(other);
}

// How much there is to see: flows before fields before lines, and what needs no solver to begin.
function liveliness(one) {
  return 4 * one.grid.shape.length + 2 * (one.times !== null) + (one.window === 0);
}

function chooseOperator() {
  const one = operator();
  play(false);
  page.past = [];
  page.state = null;
  const others = page.operators.map((o, k) => [o, k]).filter(([o]) => alike(one, o));
  $("second").replaceChildren(option("none", ""), ...others.map(([o, k]) => option(o.title, k)));
  const known = one.resolutions.includes(Math.max(...one.grid.shape)) ? Math.max(...one.grid.shape) : one.resolutions[0];
  $("resolution").replaceChildren(...one.resolutions.map((n) => option(n, n)));
  $("resolution").value = known;
  const phases = phasesOf(one);
  const brushes = phases ? phases.map((v) => option(`permeability ${v}`, v)) : [option("raise", 1), option("lower", -1)];
  $("brush").replaceChildren(...brushes);
  $("brush").value = phases ? phases[1] : 1;
  $("amplitude").disabled = Boolean(phases);
  $("constants").replaceChildren(...one.constants.map(constantControl));
  // the server takes one state, and computes the frames of a window from it
  const samples = one.window && backend.name === "server" ? [] : one.samples;
  $("samples").replaceChildren(option("none", ""), ...samples.map((_, k) => option(k + 1, k)));
  $("samples-label").hidden = !samples.length;
  const only = Boolean(one.window) && backend.name === "browser";
  for (const id of ["drawing", "brush", "size", "file", "clear"]) $(id).disabled = only;
  painter.locked = only;
  $("player").hidden = one.times === null;
  $("frames").value = one.times?.length ?? 1;
  $("frames").disabled = one.any_time;
  $("moment-label").hidden = !(one.any_time && backend.name === "server");
  $("moment").value = "";
  $("layer").replaceChildren(...one.layers.map((_, k) => option(k + 1, k)));
  $("certificate").hidden = true;
  $("inside").replaceChildren();
  const error = one.error === null ? "" : `, test error ${one.error.toPrecision(2)}`;
  $("about").textContent = `${one.title}; ${one.equation ?? "your data"}; ${one.weights.toLocaleString("en")} parameters${error}`;
  $("input-name").textContent = phases ? "permeability k(x)" : one.window ? `state at t = 0; the operator sees the next ${one.window} frames` : "initial state";
  page.frame = 0;
  if (only && samples.length) {
    $("samples").value = 0;
    takeSample();
  } else drawAtRandom();
}

// A slider for a constant; over a decade or more it is logarithmic.
function constantControl([name, low, high], k) {
  const label = document.createElement("label"), input = document.createElement("input"), output = document.createElement("output");
  const number = () => constantOf(input.value / 1000, low, high);
  const show = () => (output.textContent = number().toPrecision(3));
  Object.assign(input, { type: "range", min: 0, max: 1000, step: 1, value: 500, id: `constant-${k}` });
  input.addEventListener("input", () => (show(), predict()));
  label.append(`${name} `, input, output);
  show();
  return label;
}

function constantOf(part, low, high) {
  return low > 0 && high >= 10 * low ? low * (high / low) ** part : low + part * (high - low);
}

function gridShape() {
  const { shape } = operator().grid, longest = Math.max(...shape);
  return shape.map((n) => (n * Number($("resolution").value)) / longest);
}

function drawAtRandom() {
  const { input } = operator(), phases = phasesOf(operator()), shape = gridShape();
  const settings = { seed: Number($("seed").value) || 0, amplitude: phases ? 1 : Number($("amplitude").value), smoothness: Number($("smoothness").value) };
  let values = randomField(input.gaussian ?? input, shape, settings);
  if (phases) values = values.map((v) => (v >= 0 ? phases[1] : phases[0]));
  setState({ values, shape });
  $("samples").value = "";
}

function takeSample() {
  const sample = operator().samples[$("samples").value];
  if (!sample) return;
  $("resolution").value = Math.max(...operator().grid.shape);
  const input = decode(sample.input), [frames, ...shape] = input.shape, size = sizeOf(shape);
  const window = Array.from({ length: frames }, (_, k) => input.values.slice(k * size, (k + 1) * size));
  setState({ values: window.at(-1).slice(), shape, window, truth: decode(sample.target) });
}

function setState(state) {
  remember();
  page.state = state;
  showInput();
  predict();
}

// States to come back to, the last ones.
function remember() {
  if (page.state) page.past = [...page.past, { ...page.state, values: page.state.values.slice() }].slice(-50);
  $("undo").disabled = page.past.length === 0;
}

function undo() {
  page.state = page.past.pop();
  $("undo").disabled = page.past.length === 0;
  $("resolution").value = Math.max(...page.state.shape);
  $("samples").value = "";
  showInput();
  predict();
}

function clear() {
  const shape = gridShape(), phases = phasesOf(operator());
  setState({ values: new Float32Array(sizeOf(shape)).fill(phases ? phases[0] : 0), shape });
  $("samples").value = "";
}

function showInput() {
  const { values, shape } = page.state, phases = phasesOf(operator());
  let limit = 0;
  for (const v of values) limit = Math.max(limit, Math.abs(v));
  const value = Number($("brush").value);
  const brush = { size: Number($("size").value), sets: phases ? value : null, lifts: 0.08 * value * (limit || 1) };
  painter.show(values, shape, brush);
}

function options(one) {
  const constants = one.constants.map(([, low, high], k) => constantOf($(`constant-${k}`).value / 1000, low, high));
  const moment = Number($("moment").value);
  const times = one.any_time && moment > 0 ? [moment] : [];
  const frames = Math.min(Math.max(Math.round(Number($("frames").value)) || 1, 1), 40);
  return { constants, frames: one.times === null ? 1 : frames, ...(backend.name === "server" ? { times } : {}) };
}

// Predict what is drawn now; while one prediction is on its way, only the latest of others waits.
async function predict() {
  page.turn += 1;
  page.truth = (Number($("moment").value) > 0 ? null : page.state.truth) ?? null; // samples have times of their own
  if (page.busy) return;
  page.busy = true;
  await attempt(async () => {
    let turn;
    do {
      turn = page.turn;
      const state = { ...page.state, values: page.state.values.slice() };
      const answers = await Promise.all(chosen().map((one) => backend.predict(one, state, options(one))));
      if (turn === page.turn) {
        page.predictions = answers;
        showStatus("");
        showResults();
      }
    } while (turn !== page.turn);
  });
  page.busy = false;
  document.body.dataset.predictions = Number(document.body.dataset.predictions ?? 0) + 1;
}

function frameOf({ values, shape }, k) {
  const size = sizeOf(shape.slice(1));
  const at = Math.min(k, shape[0] - 1);
  return values.subarray(at * size, (at + 1) * size);
}

function frameCount() {
  return page.predictions[0]?.shape[0] ?? 1;
}

function picture(title, key) {
  const existing = document.querySelector(`#${key.place} [data-key="${key.name}"]`);
  const figure = existing ?? document.createElement("figure");
  if (!existing) {
    figure.dataset.key = key.name;
    const canvas = document.createElement("canvas");
    canvas.setAttribute("role", "img");
    figure.append(canvas, document.createElement("figcaption"));
    $(key.place).append(figure);
  }
  const canvas = figure.querySelector("canvas");
  canvas.dataset.title = title;
  figure.querySelector("figcaption").textContent = title;
  return canvas;
}

function keepOnly(place, names) {
  for (const figure of [...$(place).children]) if (!names.includes(figure.dataset.key)) figure.remove();
}

function showResults() {
  const k = Math.min(page.frame, frameCount() - 1), names = [], shape = page.state.shape;
  const fields = page.predictions.map((prediction) => frameOf(prediction, k));
  const truth = page.truth && page.truth.values.length >= sizeOf(shape) * (k + 1) ? frameOf(page.truth, k) : null;
  const line = shape.length === 1;
  const shown = (name, title, values, map) => {
    names.push(name);
    drawMap(picture(title, { place: "pictures", name }), values, shape, map);
  };
  if (line) {
    names.push("curves");
    const curves = [{ values: page.state.values, label: "input", colour: "#7f7f7f" }, ...fields.map((values, n) => ({ values, label: page.predictions.length > 1 ? `operator ${n + 1}` : "prediction", colour: LINES[n] }))];
    if (truth) curves.push({ values: truth, label: "solver", colour: LINES[2] });
    drawCurves(picture(`input and prediction${titleOf(k)}`, { place: "pictures", name: "curves" }), curves);
    if (truth) {
      names.push("error");
      const errors = fields.map((values, n) => ({ values: values.map((v, i) => v - truth[i]), label: `error ${n + 1}`, colour: LINES[n] }));
      drawCurves(picture("prediction − solver", { place: "pictures", name: "error" }), errors);
    }
  } else {
    const map = mapOf(...(truth ? [truth] : fields));
    fields.forEach((values, n) => shown(`prediction-${n}`, `${chosen()[n].title}${titleOf(k)}`, values, map));
    if (truth) {
      shown("truth", `solver${titleOf(k)}`, truth, map);
      const errors = fields.map((values) => values.map((v, i) => v - truth[i]));
      const same = mapOf(...errors);
      errors.forEach((values, n) => shown(`error-${n}`, `error of ${chosen()[n].title}`, values, same));
    }
  }
  keepOnly("pictures", names);
  showNumbers(fields, truth);
  showPlayer(k);
}

function times() {
  const one = operator(), moment = Number($("moment").value);
  if (one.any_time) return moment > 0 && backend.name === "server" ? [moment] : one.times;
  return Array.from({ length: frameCount() }, (_, k) => (one.step ?? 1) * (one.window + k + 1));
}

function titleOf(k) {
  return operator().times === null ? "" : `, t = ${Number(times()[k]?.toPrecision(4))}`;
}

function showNumbers(fields, truth) {
  const rows = page.predictions.map((prediction, n) => {
    const row = document.createElement("tr");
    const error = truth ? relativeL2(fields[n], truth).toPrecision(3) : "–";
    const solver = page.truth?.seconds == null ? "–" : `${milliseconds(page.truth.seconds)} on ${page.truth.points.join(" × ")} points`;
    const cells = [chosen()[n].title, error, milliseconds(prediction.seconds), solver];
    row.append(...cells.map((text) => Object.assign(document.createElement("td"), { textContent: text })));
    return row;
  });
  $("numbers").replaceChildren(...rows);
}

function showPlayer(k) {
  $("frame").max = frameCount() - 1;
  $("frame").value = k;
  $("time").textContent = operator().times === null ? "" : `t = ${Number(times()[k]?.toPrecision(4))} (${k + 1} of ${frameCount()})`;
}

function go(k) {
  page.frame = ((k % frameCount()) + frameCount()) % frameCount();
  showResults();
}

function play(on) {
  clearInterval(page.playing);
  page.playing = on ? setInterval(() => go(page.frame + 1), 300) : null;
  $("play").textContent = on ? "Pause" : "Play";
}

async function solve() {
  const one = operator();
  page.solving = new AbortController();
  $("solve").disabled = true;
  $("cancel").hidden = false;
  showStatus("Solving …");
  const turn = page.turn;
  await attempt(async () => {
    const state = { ...page.state, values: page.state.values.slice() };
    const truth = await backend.truth(one, state, options(one), page.solving.signal);
    if (turn !== page.turn) throw new Error("the input has changed: solve again");
    page.truth = truth;
    showStatus("Solved.");
    showResults();
  });
  if (page.solving.signal.aborted) showStatus("Solving was stopped.");
  $("solve").disabled = false;
  $("cancel").hidden = true;
}

async function look() {
  const one = operator(), layer = Number($("layer").value), [outputs, inputs] = one.layers[layer];
  const pair = { output: Number($("output").value), input: Number($("channel").value) };
  for (const [name, most] of [["output", outputs], ["input", inputs]]) {
    if (!(pair[name] >= 0 && pair[name] < most)) throw new Error(`the ${name} channel is from 0 to ${most - 1} in this layer`);
  }
  const moment = one.any_time && backend.name === "server" ? { time: times()[Math.min(page.frame, times().length - 1)] } : {};
  const view = await backend.layer(one, page.state, { layer, ...pair, ...(backend.name === "server" ? { ...options(one), ...moment } : {}) });
  if (one !== operator() || layer !== Number($("layer").value)) return; // another one was chosen meanwhile
  const titles = { space: "a1(x)", real: "Re a2(ξ)", imaginary: "Im a2(ξ)", before: `channel ${pair.input} before the layer`, after: "what this pair makes of it" };
  const names = Object.keys(titles).filter((name) => view[name]);
  for (const name of names) {
    const canvas = picture(titles[name], { place: "inside", name });
    const { values, shape } = view[name];
    if (shape.length === 1) drawCurves(canvas, [{ values }]);
    else drawMap(canvas, ...(name === "real" || name === "imaginary" ? centred(values, shape) : [values, shape]));
  }
  keepOnly("inside", names);
  if (!view.space) showStatus("This symbol does not depend on x: it is a2(ξ) alone.");
  else showStatus("");
}

// Modes of the first axis in the order -k .. k-1 instead of that of the FFT.
function centred(values, [rows, columns]) {
  const out = new Float32Array(values.length), half = Math.floor(rows / 2);
  for (let i = 0; i < rows; i++) out.set(values.subarray(i * columns, (i + 1) * columns), ((i + half) % rows) * columns);
  return [out, [rows, columns]];
}

async function certify() {
  showStatus("Computing the certificate …");
  const one = operator(), layer = $("layer").value;
  const certificate = await backend.certificate(one, Number(layer));
  if (one !== operator() || layer !== $("layer").value) return; // another one was chosen meanwhile
  const { requested, dim, order, assessment, witnesses, radii } = certificate;
  $("certificate").hidden = false;
  $("assessment").textContent = `S^${requested}_{1,0}, n = ${dim}: ${assessment === "proved" ? "" : "tested, "}${assessment}; order ${order?.toFixed(2) ?? "-∞"}`;
  const reasons = [...certificate.reasons, certificate.scope];
  $("reasons").replaceChildren(...reasons.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
  const finite = (values) => values.map((v) => v ?? NaN);
  const curves = Object.entries(certificate.curves).map(([order, values], n) => ({ values: finite(values), label: `|α| = ${order}`, colour: LINES[n] }));
  const ray = witnesses.slice(0, 1).find(({ kind }) => kind === "growth" || kind === "differences");
  if (ray) curves.push({ values: finite(ray.values), xs: ray.points.map((xi) => Math.max(Math.hypot(...xi), radii[0])), label: "witness", colour: "#7f7f7f" });
  drawCurves($("curves"), curves, { logarithmic: true, xs: radii });
  showStatus("");
}

async function upload() {
  const file = $("file").files[0];
  if (!file) return;
  const { shape, values } = await readFile(file), one = operator(), wanted = gridShape();
  if (shape.length !== wanted.length) throw new Error(`${file.name} has ${shape.length} axes; this operator takes ${wanted.length}`);
  if (phasesOf(one) && !values.every((v) => v > 0)) throw new Error("a permeability has to be positive everywhere");
  setState({ values: regrid(values, shape, wanted, { periodic: one.grid.periodic, jumps: Boolean(phasesOf(one)) }), shape: wanted });
}

function changeResolution() {
  const one = operator(), { values, shape } = page.state, wanted = gridShape();
  if (page.state.window?.length > 1 && backend.name === "browser") throw new Error("a sample of several frames has its own points: it stays there");
  setState({ values: regrid(values, shape, wanted, { periodic: one.grid.periodic, jumps: Boolean(phasesOf(one)) }), shape: wanted });
}

// The button names the other theme.
function setTheme(name) {
  document.documentElement.dataset.theme = name;
  $("theme").textContent = name === "dark" ? "Light" : "Dark";
}

function listen() {
  const on = (id, name, work) => $(id).addEventListener(name, () => attempt(async () => work()));
  on("operator", "change", chooseOperator);
  on("second", "change", predict);
  on("resolution", "change", changeResolution);
  for (const id of ["seed", "amplitude", "smoothness"]) on(id, "input", drawAtRandom);
  on("next-seed", "click", () => ($("seed").value = Number($("seed").value) + 1, drawAtRandom()));
  for (const id of ["brush", "size"]) on(id, "change", showInput);
  on("samples", "change", takeSample);
  on("undo", "click", undo);
  on("clear", "click", clear);
  on("file", "change", upload);
  on("frames", "change", predict);
  on("moment", "change", predict);
  on("play", "click", () => play(page.playing === null));
  on("back", "click", () => (play(false), go(page.frame - 1)));
  on("forward", "click", () => (play(false), go(page.frame + 1)));
  on("frame", "input", () => (play(false), go(Number($("frame").value))));
  on("solve", "click", solve);
  on("cancel", "click", () => page.solving.abort());
  on("look", "click", look);
  on("certify", "click", certify);
  on("layer", "change", look);
  on("theme", "click", () => {
    setTheme($("theme").textContent.toLowerCase());
    painter.draw();
    showResults();
  });
  addEventListener("resize", () => page.state && (painter.draw(), showResults()));
}

await attempt(async () => {
  page.operators = await backend.operators();
  $("operator").replaceChildren(...page.operators.map((one, k) => option(one.title, k)));
  $("solve").hidden = backend.name === "browser";
  $("footer").textContent = backend.name === "browser" ? "This page predicts in your browser; nothing leaves it." : "Predicted and solved by pdno on this machine.";
  setTheme(matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  listen();
  const scores = page.operators.map(liveliness);
  $("operator").value = scores.indexOf(Math.max(...scores));
  chooseOperator();
  document.body.dataset.ready = "true";
  play(operator().times !== null && !matchMedia("(prefers-reduced-motion: reduce)").matches);
});
