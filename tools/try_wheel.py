"""Use an installed wheel as a stranger does: example, training, exports, laboratory.

Run it with the Python of an environment that has nothing but the wheel (and its extras export and
serve, for ONNX and the laboratory). There is no compiler on PATH and no home directory; on Linux
`unshare --net` takes the network away, too:

    .venv-wheel/bin/python tools/try_wheel.py
"""

import importlib.util
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

SPECIFICATION = """
problem: {name: heat, samples: 24, resolution: 32, frames: 4}
train: 16
test: 4
resolution: 32
network:
  {kind: pdio, symbol: classical, order: 2.0, depends_on_x: false, takes_time: true, modes: 8}
task: {kind: one-shot}
training: {epochs: 2}
"""
AFTERWARDS = """
operator = next(v for v in list(globals().values()) if isinstance(v, pdno.TrainedOperator))
operator.save("operator")
loaded = pdno.load("operator").network.state_dict()
assert all(torch.equal(w, loaded[name]) for name, w in operator.network.state_dict().items())
import matplotlib.pyplot, pdno.laboratory.page
from pdno.native.build import load_library, status
load_library()
print("pdno", pdno.__version__, "in", pdno.__file__)
print("compiled kernels:", status().reason if not status().available else status().compiler)
"""


def first_example() -> str:
    """The first Python block of the README in the wheel's metadata."""
    text = metadata.metadata("pdno").get_payload()
    found = re.search(r"^```python\n(.*?)^```", str(text), re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError("the description of the wheel has no Python block")
    return found[1]


def try_wheel(folder: Path) -> None:
    """Run the example and the command line.

    Arguments:
        folder: An empty folder to work in.
    """
    bare = {"PATH": str(folder / "nothing"), "HOME": str(folder / "nobody"), "MPLBACKEND": "agg"}
    kept = ("OMP_NUM_THREADS", "SYSTEMROOT", "TEMP")  # the last two are needed on Windows
    bare |= {key: os.environ[key] for key in kept if key in os.environ}
    (folder / "heat.yaml").write_text(SPECIFICATION, encoding="utf-8")
    commands = [["-c", first_example() + AFTERWARDS], ["-m", "pdno", "info"]]
    commands += [["-m", "pdno", "verify", "operator"]]
    commands += [["-m", "pdno", "train", "heat.yaml", "--out", "run"]]
    formats = ["safetensors", "torch-export"] + ["onnx"] * installed("onnxruntime")
    for form in formats:
        commands += [["-m", "pdno", "export", "operator", "--format", form]]
    for command in commands:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-P", *command], cwd=folder, env=bare, check=True)
        shown = command[0] if command[0] == "-c" else " ".join(command)
        print(f"ok: python {shown}, {time.perf_counter() - started:.1f} s", flush=True)
    if installed("uvicorn"):
        serve(folder, bare)


def installed(name: str) -> bool:
    """Whether a package of an extra is here."""
    return importlib.util.find_spec(name) is not None


def serve(folder: Path, environment: dict[str, str]) -> None:
    """Start the laboratory on the operator, and ask it for its page and for its operators."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-P", "-m", "pdno", "serve", "operator", "--port", str(port)]
    server = subprocess.Popen(command, cwd=folder, env=environment)
    try:
        for path in ("/", "/api/operators"):
            for _ in range(240):
                try:
                    with urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
                        print(f"ok: laboratory {path}, {len(answer.read()):,} bytes", flush=True)
                    break
                except URLError as problem:
                    if server.poll() is not None or isinstance(problem, HTTPError):
                        raise
                    time.sleep(0.5)
            else:
                raise SystemExit("the laboratory did not answer")
    finally:
        server.terminate()
        server.wait()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        try_wheel(Path(name))
