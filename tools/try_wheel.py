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
operator.save("operator")
assert torch.equal(pdno.load("operator").predict(test.inputs), operator.predict(test.inputs))
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
    if os.name == "nt":
        bare |= {key: os.environ[key] for key in ("SYSTEMROOT", "TEMP") if key in os.environ}
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
