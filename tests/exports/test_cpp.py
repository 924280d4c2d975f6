"""The example in C++ loads an exported operator and gives the numbers of torch."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from small_operators import OPERATORS, fields

import pdno

SOURCE = Path(__file__).parents[2] / "examples" / "cpp"
TOOLS = [name for name in ("cmake", "g++", "make") if shutil.which(name) is None]


@pytest.mark.slow
@pytest.mark.skipif(bool(TOOLS), reason=f"not result: {', '.join(TOOLS)}")
def test_the_example_in_c_plus_plus_predicts(tmp_path):
    operator = OPERATORS["low rank"]()
    path = tmp_path / "operator.aoti.pt2"
    pdno.export(operator, path, format="aoti")
    build = tmp_path / "build"
    home = f"-DCMAKE_PREFIX_PATH={torch.utils.cmake_prefix_path}"
    run = {"check": True, "capture_output": True}
    subprocess.run(["cmake", "-S", str(SOURCE), "-B", str(build), home], **run)
    subprocess.run(["cmake", "--build", str(build)], **run)
    f = fields(operator.sampling.grid, 1)
    shape = [str(n) for n in f.shape]
    command = [str(build / "predict"), str(path), *shape]
    result = subprocess.run(command, input=f.numpy().tobytes(), **run)
    assert [int(n) for n in result.stderr.split()] == list(f.shape)
    values = torch.from_numpy(np.frombuffer(result.stdout, dtype=np.float32).copy()).reshape(
        f.shape
    )
    expected = operator.predict(f)
    assert float((values - expected).norm() / expected.norm()) < 1e-5
    refused = subprocess.run([*command[:-1], "0"], input=b"", capture_output=True)
    assert refused.returncode == 2 and b"positive" in refused.stderr
