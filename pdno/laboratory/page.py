"""`pdno export --format page`: a folder that runs operators in the reader's browser.

Any static host will do: the page requests nothing outside its folder, which has ONNX Runtime Web,
operators.json (descriptions, a few samples with truth), and for operator K on N points the model
operator-K-N.onnx, its card, and operator-K-inside.json (symbols of channel pairs, certificates).
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import partial
from itertools import product
from pathlib import Path

import torch
from pydantic import TypeAdapter

from pdno.exports.export import export
from pdno.laboratory.catalogue import Array, LayerView, ServedOperator
from pdno.native.build import cache_path
from pdno.runs.run import load_run

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
TYPES[".svg"] = "image/svg+xml"
OPERATORS, JSON = "operators.json", TypeAdapter(object)
RUNTIME = ("ort.wasm.bundle.min.mjs", "ort-wasm-simd-threaded.wasm")
LARGEST = {1: 4096, 2: 128}  # points per axis of a model beyond the training, by dimension
SAMPLES, PAIRS = 3, 3
WEB = Path(__file__).parent / "web"


def write_page(
    runs: list[Path],
    out: Path,
    *,
    resolution: int | None = None,
    pde_parameters: Mapping[str, float] | None = None,
) -> str:
    """Write the page of some run folders; a sentence about it.

    Without a resolution there are two models of each operator: on the points of the training, and
    on twice as many. Operators of a family are those of the `pde_parameters`.
    """
    if out.exists() and not (out / OPERATORS).is_file():
        raise ValueError(f"{out} exists and is no page of pdno: name another folder")
    runtime = runtime_files()
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as folder:
        page = Path(folder) / "page"
        page.mkdir()
        operators = []
        for number, run in enumerate(runs):
            served = ServedOperator.of(run.resolve().name, load_run(run), pde_parameters)
            stem = page / f"operator-{number}"
            operators.append(_write_operator(served, stem, resolution, pde_parameters))
        for name, content in page_files().items():
            content = content.replace(b'data-backend="server"', b'data-backend="browser"')
            (page / name).write_bytes(content)
        for path in runtime:
            shutil.copy(path, page / path.name)
        size = sum(path.stat().st_size for path in page.iterdir()) / 2**20
        text = f"The whole page is {size:.1f} MiB."
        listed = JSON.dump_json({"size": text, "operators": operators})
        (page / OPERATORS).write_bytes(listed)
        if out.exists():
            shutil.rmtree(out)
        page.rename(out)
    names = ", ".join(str(operator["title"]) for operator in operators)
    return f"{out}: {names}; {size:.1f} MiB. Look at it: python -m http.server --directory {out}"


def try_pages(runs: dict[str, list[Path]], folder: Path) -> str:
    """Pages of some runs by name, or why there are none: a demo goes on without npm."""
    lines = []
    for name, folders in runs.items():
        try:
            lines.append(write_page(folders, folder / f"page-{name}"))
        except (ValueError, OSError) as error:
            lines.append(f"no page for {name}: {error}")
    return "\n".join(lines)


def _write_operator(
    served: ServedOperator,
    stem: Path,
    resolution: int | None,
    pde_parameters: Mapping[str, float] | None,
) -> dict[str, object]:
    """The models and the inside of one operator; its description with these files."""
    run, grid = served.run, served.sampling.grid
    if not served.layers:
        raise ValueError(f"{run.folder} has no operator that runs in a browser")
    points, most = max(grid.shape), LARGEST[grid.dim]
    doubled = [n for n in served.resolutions if n == 2 * points and n <= most]
    write = partial(export, run.operator, pde_parameters=pde_parameters, card=run.folder)
    sizes, samples = [resolution] if resolution else [points, *doubled], run.sample_inputs()
    files = {
        n: write(stem.with_name(f"{stem.name}-{n}.onnx"), resolution=n, samples=samples)
        for n in sizes
    }
    inside = stem.with_name(f"{stem.name}-inside.json")
    inside.write_bytes(JSON.dump_json(_inside(served)))
    return served.model_dump() | {
        "resolutions": list(files),
        "input_channels": next(iter(files.values())).inputs.shape[1],
        "models": {n: file.path.name for n, file in files.items()},
        "inside": inside.name,
        "samples": _samples(served),
    }


def _samples(served: ServedOperator) -> list[dict[str, Array]]:
    """A few test samples with the solver's truth, as they lie in the run folder."""
    samples, grid = served.run.sample_inputs(SAMPLES), served.sampling.grid
    family = served.sampling.pde_parameters  # whose samples are of other members
    if samples is None or samples[1] != grid or served.channels or family:
        return []
    targets = torch.from_numpy(served.run.array("target"))
    return [
        {"input": Array.of(f), "target": Array.of(u.reshape(-1, *grid.shape))}
        for f, u in zip(samples[0], targets, strict=False)
    ]


@torch.no_grad()
def _inside(served: ServedOperator) -> list[dict[str, object]]:
    """a1(x) and a2(ξ) of the first channel pairs of each layer, and its certificate."""
    layers, t = list[dict[str, object]](), served.symbol_arguments()
    for number, layer in enumerate(served.operator.operators):
        values, symbol = layer.values(served.sampling.grid, t), layer.symbol
        sizes = min(PAIRS, symbol.out_channels), min(PAIRS, symbol.in_channels)
        pairs = [
            {"output": j, "input": i, "view": LayerView.of(values, (j, i))}
            for j, i in product(*map(range, sizes))
        ]
        layers.append({"pairs": pairs, "certificate": served.certify(number)})
    return layers


def page_files() -> dict[str, bytes]:
    """The files of the page by name."""
    return {file.name: file.read_bytes() for file in WEB.iterdir() if file.suffix in TYPES}


def runtime_files() -> list[Path]:
    """ONNX Runtime Web as the lock file has it, from npm, kept in the cache folder.

    PDNO_ONNXRUNTIME_WEB names a folder that has the files already.
    """
    existing = os.environ.get("PDNO_ONNXRUNTIME_WEB")
    lock = json.loads((WEB / "package-lock.json").read_bytes())
    version = lock["packages"]["node_modules/onnxruntime-web"]["version"]
    folder = Path(existing) if existing else cache_path() / f"onnxruntime-web-{version}"
    files = [folder / name for name in RUNTIME]
    if not all(path.is_file() for path in files):
        if existing:
            raise ValueError(f"PDNO_ONNXRUNTIME_WEB={existing} has not {' and '.join(RUNTIME)}")
        _install(folder)
    return files


def _install(target: Path) -> None:
    """npm ci in a temporary folder; the files of `RUNTIME` are kept."""
    npm = shutil.which("npm")
    if npm is None:
        cure = "install Node.js, or set PDNO_ONNXRUNTIME_WEB to a folder with"
        files = " and ".join(RUNTIME)
        raise ValueError(f"a page needs ONNX Runtime Web from npm, not here: {cure} {files}")
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(WEB / name, folder)
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
            raise ValueError(f"npm could not fetch ONNX Runtime Web: {last[0]}; try again online")
        ready = Path(folder) / "ready"
        ready.mkdir()
        for name in RUNTIME:
            shutil.copy(Path(folder) / "node_modules" / "onnxruntime-web" / "dist" / name, ready)
        shutil.rmtree(target, ignore_errors=True)
        ready.rename(target)
