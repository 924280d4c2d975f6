"""`pdno export --format page`: an HTML file that runs operators in the browser.

It opens by a double click and requests nothing: scripts, ONNX Runtime Web and the operators are
inside, compressed. For each operator these are a description, a few samples with truth, a model
for each number of points, symbols of channel pairs, and certificates.
"""

import base64
import gzip
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from hashlib import sha256
from itertools import product
from pathlib import Path

import torch

from pdno.exports.export import export
from pdno.files.atomic import write_text
from pdno.laboratory.catalogue import ServedOperator, select_pair, to_json, view_symbol
from pdno.native.build import cache_path
from pdno.runs.run import load_run

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
RUNTIME = {  # of the version in web/package-lock.json, with their SHA-256
    "ort.wasm.bundle.min.mjs": "11e64bd8ffe11bd1a2a2f0d6275fdfbbba7262f0b76b99b53d228a8a22ef3d90",
    "ort-wasm-simd-threaded.wasm": (
        "3398c10d07d229bd91b364548e130e0e51a8e5704b88c7c083ebbeb78842dee2"
    ),
}
LARGEST = {1: 4096, 2: 128}  # points per axis of a model beyond the training, by dimension
PAIRS = 3
MOST_DOUBLED = 4 * 2**20  # bytes of a model on twice as many points
WEB = Path(__file__).parent / "web"
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'wasm-unsafe-eval' data: blob:; "
    "style-src 'unsafe-inline'; img-src data: blob:"
)


def write_page(
    runs: list[Path],
    out: Path,
    *,
    resolution: int | None = None,
    pde_parameters: Mapping[str, float] | None = None,
) -> str:
    """Write the page of some run folders; a sentence about it.

    Without a resolution there is a model of each operator on the points of the training, and one
    on twice as many, if it is not too large. Operators of a family are those of `pde_parameters`.
    """
    if out.suffix != ".html":
        raise ValueError(f"{out.name} is a page: expected a name that ends .html")
    runtime, operators, inside = runtime_files(), [], dict[str, bytes]()
    for number, run in enumerate(runs):
        served = ServedOperator(run.resolve().name, load_run(run), pde_parameters)
        files, description = _describe(served, f"operator-{number}", resolution)
        operators.append(description)
        inside |= files
    inside["operators.json"] = to_json(operators)
    inside |= {path.name: path.read_bytes() for path in runtime}
    out.parent.mkdir(parents=True, exist_ok=True)
    write_text(out, one_file(page_files(), inside))
    names = ", ".join(str(operator["title"]) for operator in operators)
    return f"{out}: {names}; {out.stat().st_size / 2**20:.1f} MiB. Open it in a browser"


def one_file(files: Mapping[str, bytes], inside: Mapping[str, bytes]) -> str:
    """The page with its style and scripts, and files inside that it reads by name."""
    texts, scripts = {name: text.decode() for name, text in files.items()}, dict[str, str]()
    for name in sorted(name for name in files if name.endswith(".js")):
        code = base64.b64encode(re.sub(r'from "\./', 'from "', texts[name]).encode())
        scripts[name] = f"data:text/javascript;base64,{code.decode()}"
    blocks = [f'<script type="importmap">{json.dumps({"imports": scripts})}</script>']
    for name, content in inside.items():
        packed = base64.b64encode(gzip.compress(content, mtime=0)).decode()
        blocks.append(f'<script type="application/gzip" id="{name}">{packed}</script>')
    head, script = '<link rel="stylesheet" href="style.css">', 'type="module" src="app.js">'
    policy = f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
    style = f"{policy}\n<style>{texts['style.css']}</style>\n" + "\n".join(blocks)
    page = texts["index.html"].replace(head, style)
    return page.replace(script, 'type="module">import "app.js"')


def try_pages(runs: dict[str, list[Path]], folder: Path) -> str:
    """Pages of some runs by name, or why there are none: a demo goes on without npm."""
    lines = []
    for name, folders in runs.items():
        try:
            lines.append(write_page(folders, folder / f"page-{name}.html"))
        except (ValueError, OSError) as error:
            lines.append(f"no page for {name}: {error}")
    return "\n".join(lines)


@torch.no_grad()
def _describe(
    served: ServedOperator, stem: str, resolution: int | None
) -> tuple[dict[str, bytes], dict[str, object]]:
    """The files of one operator, and its description with their names."""
    run, grid, layers = served.run, served.sampling.grid, list[object]()
    if not served.layers:
        raise ValueError(f"{run.folder} has no operator that runs in a browser")
    points, models, files = max(grid.shape), dict[int, str](), dict[str, bytes]()
    doubled = [n for n in served.resolutions if n == 2 * points and n <= LARGEST[grid.dim]]
    for n in [resolution] if resolution else [points, *doubled]:
        with tempfile.TemporaryDirectory() as folder:
            path, samples = Path(folder) / "it.onnx", run.sample_inputs()
            file = export(served.operator, path, resolution=n, samples=samples)
            if not models or path.stat().st_size <= MOST_DOUBLED:
                models[n] = f"{stem}-{n}.onnx"
                files[models[n]] = path.read_bytes()
    for number, layer in enumerate(served.layers):
        values = layer.values(grid, served.symbol_arguments())
        sizes = min(PAIRS, layer.symbol.out_channels), min(PAIRS, layer.symbol.in_channels)
        pairs = [
            {"output": j, "input": i, "view": view_symbol(*select_pair(values, j, i))}
            for j, i in product(*map(range, sizes))
        ]
        layers.append({"pairs": pairs, "certificate": served.certify(number)})
    files[f"{stem}-inside.json"] = to_json(layers)
    return files, {
        **served.description,
        "resolutions": list(models),
        "input_channels": file.inputs.shape[1],
        "models": models,
        "inside": f"{stem}-inside.json",
    }


def page_files() -> dict[str, bytes]:
    """The files of the page by name."""
    return {file.name: file.read_bytes() for file in WEB.iterdir() if file.suffix in TYPES}


def runtime_files() -> list[Path]:
    """ONNX Runtime Web as the lock file has it, from npm, kept in the cache folder, verified.

    PDNO_ONNXRUNTIME_WEB names a folder that has the files already.
    """
    existing = os.environ.get("PDNO_ONNXRUNTIME_WEB")
    lock = json.loads((WEB / "package-lock.json").read_bytes())
    version = lock["packages"]["node_modules/onnxruntime-web"]["version"]
    folder = Path(existing) if existing else cache_path() / f"onnxruntime-web-{version}"
    if not existing and not all((folder / name).is_file() for name in RUNTIME):
        _install(folder)
    for name, digest in RUNTIME.items():
        path = folder / name
        if not path.is_file() or sha256(path.read_bytes()).hexdigest() != digest:
            wrong = f"{path} is not the file of ONNX Runtime Web {version}"
            raise ValueError(f"{wrong}: {'name another folder' if existing else 'remove it'}")
    return [folder / name for name in RUNTIME]


def _install(target: Path) -> None:
    """npm ci in a temporary folder; the files of `RUNTIME` are kept."""
    npm = shutil.which("npm")
    if npm is None:
        cure = f"install Node.js, or set PDNO_ONNXRUNTIME_WEB to a folder with {list(RUNTIME)}"
        raise ValueError(f"a page needs ONNX Runtime Web from npm: {cure}")
    target.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(WEB / name, folder)
        command = [npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
            raise ValueError(f"npm could not fetch ONNX Runtime Web: {last[0]}; try again online")
        for name in RUNTIME:
            source = Path(folder) / "node_modules" / "onnxruntime-web" / "dist" / name
            os.replace(source, target / name)
