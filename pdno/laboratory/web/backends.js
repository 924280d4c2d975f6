// Who computes: the server on this machine, or ONNX Runtime in this tab. Both answer alike.

import { decode, encode } from "./fields.js";

async function json(response) {
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) {
    throw new Error(answer.detail ?? `the server answered ${response.status}`);
  }
  return answer;
}

class Server {
  name = "server";

  async operators() {
    return (await json(await fetch("api/operators"))).operators;
  }

  async #ask(path, operator, state, more, signal) {
    const body = { operator: operator.key, shape: state.shape, data: encode(state.values), ...more };
    const options = { method: "POST", headers: { "content-type": "application/json" }, signal };
    return json(await fetch(`api/${path}`, { ...options, body: JSON.stringify(body) }));
  }

  async predict(operator, state, options, signal) {
    const answer = await this.#ask("predict", operator, state, options, signal);
    return { ...decode(answer), seconds: answer.seconds };
  }

  async truth(operator, state, options, signal) {
    const answer = await this.#ask("truth", operator, state, options, signal);
    return { ...decode(answer), seconds: answer.seconds, points: answer.points };
  }

  async layer(operator, state, chosen, signal) {
    const answer = await this.#ask("layer", operator, state, chosen, signal);
    return Object.fromEntries(Object.entries(answer).map(([name, one]) => [name, one && decode(one)]));
  }

  async certificate(operator, layer) {
    return json(await fetch(`api/certificate?operator=${encodeURIComponent(operator.key)}&layer=${layer}`));
  }
}

// A file inside the page, which pdno/laboratory/page.py has put there, compressed.
function inside(name) {
  const bytes = Uint8Array.from(atob(document.getElementById(name).textContent), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
}

class Browser {
  name = "browser";
  #sessions = new Map();

  async operators() {
    const script = new Blob([await inside("ort.wasm.bundle.min.mjs").text()], { type: "text/javascript" });
    this.ort = await import(URL.createObjectURL(script));
    this.ort.env.wasm.numThreads = 1;
    this.ort.env.wasm.wasmBinary = await inside("ort-wasm-simd-threaded.wasm").arrayBuffer();
    return inside("operators.json").json();
  }

  async #session(file) {
    if (!this.#sessions.has(file)) {
      const model = inside(file).arrayBuffer();
      this.#sessions.set(file, model.then((bytes) => this.ort.InferenceSession.create(bytes, { executionProviders: ["wasm"] })));
    }
    return this.#sessions.get(file);
  }

  async predict(operator, state, options) {
    const file = operator.models[Math.max(...state.shape)];
    const session = await this.#session(file);
    const window = state.window ?? [state.values, ...(options.constants ?? []).map((c) => state.values.map(() => c))];
    const size = state.values.length;
    const begin = performance.now();
    let frames = [];
    let seen = window.slice(-operator.input_channels);
    const steps = operator.times && !operator.any_time ? options.frames : 1;
    for (let step = 0; step < steps; step++) {
      const input = new Float32Array(size * seen.length);
      seen.forEach((frame, k) => input.set(frame, k * size));
      const tensor = new this.ort.Tensor("float32", input, [1, seen.length, ...state.shape]);
      const { outputs } = await session.run({ inputs: tensor });
      const values = outputs.data;
      for (let at = 0; at < values.length; at += size) frames.push(values.slice(at, at + size));
      if (steps > 1) seen = [...seen.slice(1), frames.at(-1)];
    }
    const seconds = (performance.now() - begin) / 1000;
    const values = new Float32Array(size * frames.length);
    frames.forEach((frame, k) => values.set(frame, k * size));
    return { shape: [frames.length, ...state.shape], values, seconds };
  }

  async truth(operator, state) {
    if (!state.truth) throw new Error("this page has no solver: the truth is known for its samples only");
    return { ...state.truth, seconds: null, points: null };
  }

  #layers(operator) {
    return inside(operator.inside).json();
  }

  async layer(operator, state, { layer, output, input }) {
    const { pairs } = (await this.#layers(operator))[layer];
    const pair = pairs.find((one) => one.output === output && one.input === input);
    if (!pair) throw new Error("this pair of channels is not on the page: take smaller numbers");
    return Object.fromEntries(Object.entries(pair.view).map(([name, one]) => [name, one && decode(one)]));
  }

  async certificate(operator, layer) {
    return (await this.#layers(operator))[layer].certificate;
  }
}

export function chooseBackend() {
  return document.getElementById("operators.json") ? new Browser() : new Server();
}
