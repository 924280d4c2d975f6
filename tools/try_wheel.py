"""Use an installed wheel as a stranger does: the README's example, an operator's folder, commands.

Run it with the Python of an environment that has nothing but the wheel, in an empty folder. There
is no compiler on PATH and no home directory:

    .venv-wheel/bin/python tools/try_wheel.py
"""

import os
import re
import subprocess
import sys
import tempfile
import time
from importlib import metadata
from pathlib import Path

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
    commands = [["-c", first_example() + AFTERWARDS], ["-m", "pdno", "info"]]
    commands += [["-m", "pdno", "verify", "operator"]]
    for command in commands:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-P", *command], cwd=folder, env=bare, check=True)
        shown = command[0] if command[0] == "-c" else " ".join(command)
        print(f"ok: python {shown}, {time.perf_counter() - started:.1f} s", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        try_wheel(Path(name))
