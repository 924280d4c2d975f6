"""`pdno export --format page`: a folder that runs operators in the reader's browser.

    index.html, *.js, style.css     our page, the same as that of the server
    ort.wasm.bundle.min.mjs, *.wasm ONNX Runtime Web, from npm as package-lock.json has it
    operators.json                  what the operators take and give, and a few samples with truth
    operator-K-N.onnx, *.md         operator K on N points, compared with torch, and its card
    inside-K.json                   symbols of the first channel pairs, and certificates

Any static host will do, and no network: the page asks for nothing outside its folder.
"""

__all__ = ["try_pages", "write_page"]

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pdno.exports.export import export
from pdno.files.run_folder import SAMPLES as SAMPLE_ARRAYS
from pdno.laboratory.catalogue import Entry
from pdno.laboratory.server import encode, page_files
from pdno.native.build import cache_path
from pdno.runs.run import Run, load_run
from pdno.training.checkpoint import read_tensors

OPERATORS = "operators.json"
RUNTIME = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")
LARGEST = {1: 4096, 2: 128}  # points per axis of a model beyond the training
SAMPLES = 3
PAIRS = 3


def write_page(
    runs: list[Path],
    out: Path,
    *,
    resolution: int | None = None,
    pde_parameters: Mapping[str, float] | None = None,
) -> str:
    """Write the page of some run folders; what it holds, in words.

    Without a resolution there are two models of each operator: on the points of the training, and
    on twice as many. Operators of a family are those of the `pde_parameters`.
    """
    if out.exists() and not (out / OPERATORS).is_file():
        raise ValueError(f"{out} exists and is no page of pdno: name another folder")
    runtime = runtime_files()
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as folder:
        made = Path(folder) / "page"
        made.mkdir()
        descriptions = []
        for number, run in enumerate(runs):
            entry = Entry(run.resolve().name, load_run(run))
            entry.fix(pde_parameters)
            descriptions.append(_write_operator(entry, run, made, number, resolution))
        for name, content in page_files().items():
            if name == "index.html":
                content = content.replace(b'data-backend="server"', b'data-backend="browser"')
            (made / name).write_bytes(content)
        for path in runtime:
            shutil.copy(path, made / path.name)
        size = sum(path.stat().st_size for path in made.iterdir()) / 2**20
        whole = {"size": f"The whole page is {size:.1f} MiB."}
        listed = {"backend": "browser", "operators": [one | whole for one in descriptions]}
        (made / OPERATORS).write_text(json.dumps(listed), encoding="utf-8")
        if out.exists():
            shutil.rmtree(out)
        made.rename(out)
    names = ", ".join(one["title"] for one in descriptions)
    return f"{out}: {names}; {size:.1f} MiB. Look at it: python -m http.server --directory {out}"


def try_pages(runs: dict[str, list[Path]], folder: Path) -> str:
    """Pages of some runs by name, or why there are none: a demo goes on without npm."""
    told = []
    for name, places in runs.items():
        try:
            told.append(write_page(places, folder / f"page-{name}"))
        except (ValueError, OSError) as problem:
            told.append(f"no page for {name}: {problem}")
    return "\n".join(told)


def _write_operator(
    entry: Entry, run: Path, made: Path, number: int, resolution: int | None
) -> dict[str, Any]:
    """The models and the inside of one operator; its description."""
    if not entry.operators:
        raise ValueError(f"{run} has no operator that runs in a browser")
    points, most = max(entry.grid.shape), LARGEST[entry.grid.dim]
    doubled = [n for n in entry.resolutions() if n == 2 * points and n <= most]
    sizes = [resolution] if resolution else [points, *doubled]
    models, samples = {}, Run.open(run).sample_inputs()
    sees = entry.sampling.input_channels
    for size in sizes:
        path = made / f"operator-{number}-{size}.onnx"
        found = export(entry.learner, path, resolution=size, samples=samples, card=run)
        models[size], sees = path.name, found.description["inputs"][1]
    inside = made / f"inside-{number}.json"
    inside.write_text(json.dumps(_inside(entry)), encoding="utf-8")
    told = entry.describe() | {"resolutions": sizes, "truth": False, "sees": sees}
    told |= {"models": models, "inside": inside.name, "samples": _samples(entry, run)}
    return told


def _samples(entry: Entry, run: Path) -> list[dict[str, Any]]:
    """A few test samples with the solver's truth, as they lie in the run folder."""
    kept = Run.open(run).sample_inputs()
    family = bool(entry.sampling.pde_parameters)  # whose samples are of other members
    if kept is None or kept[1] != entry.grid or entry.constants or family:
        return []
    tensors, _ = read_tensors(run / SAMPLE_ARRAYS, "cpu")
    inputs, targets = kept[0], tensors["target"]
    space = entry.grid.shape
    return [
        {"input": encode(inputs[k]), "target": encode(targets[k].reshape(-1, *space))}
        for k in range(min(SAMPLES, len(inputs)))
    ]


@torch.no_grad()
def _inside(entry: Entry) -> list[dict[str, Any]]:
    """a1(x) and a2(ξ) of the first channel pairs of each layer, and its certificate."""
    layers = []
    times = entry.sampling.times
    t = entry.seen(times[0] if times else None)
    for number, operator in enumerate(entry.operators):
        values = operator.values(entry.grid, t)
        c, b = values.frequency[0], None if values.space is None else values.space[0]
        pairs = []
        for j in range(min(PAIRS, c.shape[0])):
            for i in range(min(PAIRS, c.shape[1])):
                space = None if b is None else b[j % b.shape[0], i % b.shape[1]]
                parts: dict[str, Tensor] = {"real": c[j, i].real, "imaginary": c[j, i].imag}
                encoded: dict[str, Any] = {name: encode(part) for name, part in parts.items()}
                encoded["space"] = None if space is None else encode(space)
                pairs.append({"output": j, "input": i, **encoded})
        layers.append({"pairs": pairs, "certificate": entry.certificate(number)})
    return layers


def runtime_files() -> list[Path]:
    """ONNX Runtime Web as the lock file has it, from npm, kept in the cache folder.

    PDNO_ONNXRUNTIME_WEB names a folder that has the files already.
    """
    given = os.environ.get("PDNO_ONNXRUNTIME_WEB")
    home = Path(__file__).parent / "web"
    lock = (home / "package-lock.json").read_bytes()
    version = json.loads(lock)["packages"]["node_modules/onnxruntime-web"]["version"]
    place = Path(given) if given else cache_path() / f"onnxruntime-web-{version}"
    files = [place / name for name in RUNTIME]
    if not all(path.is_file() for path in files):
        if given:
            raise ValueError(f"PDNO_ONNXRUNTIME_WEB={given} has not {' and '.join(RUNTIME)}")
        _install(home, place)
    return files


def _install(home: Path, place: Path) -> None:
    """npm ci in a temporary folder; the files we need are kept."""
    npm = shutil.which("npm")
    if npm is None:
        raise ValueError(
            "a page needs ONNX Runtime Web, which comes from npm, and npm is not here: install "
            "Node.js, or set PDNO_ONNXRUNTIME_WEB to a folder with " + " and ".join(RUNTIME)
        )
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as folder:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(home / name, folder)
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
            raise ValueError(f"npm could not fetch ONNX Runtime Web: {last[0]}; try again online")
        dist = Path(folder) / "node_modules" / "onnxruntime-web" / "dist"
        ready = Path(folder) / "ready"
        ready.mkdir()
        for name in RUNTIME:
            shutil.copy(dist / name, ready / name)
        shutil.rmtree(place, ignore_errors=True)
        ready.rename(place)
