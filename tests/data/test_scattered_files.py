"""Files with scattered points: arrays with coordinates, and meshes."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import pdno
from pdno.cli import main as command

SPECIFICATION = """
file: {path: own.npz, inputs: f, outputs: u, coordinates: x, box: [0, 2]}
train: 8
test: 4
resolution: 90
network: {kind: pdno, width: 4, layers: 1, modes: 3, symbol: low-rank, padding: 0.25}
training: {epochs: 2}
normalization: channel
"""


def write_arrays(folder, *, own_points):
    random = np.random.default_rng(0)
    x = 2 * random.random((12, 90, 2) if own_points else (90, 2))
    f = np.sin(random.random((12, 1)) * 3 + np.broadcast_to(x, (12, 90, 2)).sum(-1))
    np.savez(folder / "own.npz", f=f, u=f**2, x=x)
    np.savez(folder / "others.npz", x=2 * random.random((40, 2)))


@pytest.mark.parametrize("own_points", [True, False])
def test_coordinates_make_points_in_the_box(tmp_path, own_points):
    write_arrays(tmp_path, own_points=own_points)
    path = tmp_path / "own.npz"
    data = pdno.read_own(path, inputs="f", outputs="u", coordinates="x", box=(0, 2))
    stored = np.load(path)["x"] / 2
    assert np.allclose(data.grid.coordinates, stored)
    with pytest.raises(ValueError, match="expected \\[0, 1\\]: scale them"):
        pdno.read_own(path, inputs="f", outputs="u", coordinates="x")
    if not own_points:
        with pytest.raises(ValueError, match="coordinates='x' or --coordinates x"):
            pdno.read_own(path, inputs="f", outputs="u")


def test_three_commands(tmp_path, monkeypatch, capsys):
    write_arrays(tmp_path, own_points=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.yaml").write_text(SPECIFICATION)
    layout = ["--inputs", "f", "--outputs", "u", "--coordinates", "x", "--box", "0", "2"]
    assert command(["data", "info", "own.npz", *layout]) == 0
    assert "Points(90 points, dim=2, 12 sets" in capsys.readouterr().out
    assert command(["train", "own.yaml", "--out", "run"]) == 0
    assert command(["predict", "run", "own.npz", "--at", "others.npz"]) == 0
    prediction = np.load("prediction.npy")
    assert prediction.shape == (12, 1, 40) and np.isfinite(prediction).all()
    data = pdno.read_own("own.npz", inputs="f", outputs="u", coordinates="x", box=(0, 2))
    others = pdno.Points(np.load("others.npz")["x"] / 2)
    again = pdno.load("run").predict(data.batch()[0], grid=data.grid, output_grid=others)
    assert np.allclose(prediction, again, atol=1e-6)


def test_the_three_commands_of_the_manual(tmp_path, monkeypatch):
    page = (Path(__file__).parents[2] / "docs" / "scattered_points.md").read_text(encoding="utf-8")
    section = page.partition("## Your own data\n")[2].partition("\n## ")[0]
    (specification,) = re.findall(r"```yaml\n(.*?)```", section, re.DOTALL)
    (commands,) = re.findall(r"```bash\n(.*?)```", section, re.DOTALL)
    smaller = {"train: 100": "train: 8", "test: 20": "test: 4", "epochs: 30": "epochs: 2"}
    for old, new in {**smaller, "resolution: 1000": "resolution: 100"}.items():
        assert specification.count(old) == 1
        specification = specification.replace(old, new)
    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    x, f = random.random((12, 100, 2)), random.standard_normal((12, 100))
    np.savez("own.npz", x=x, f=f, u=f**2)
    np.save("others.npy", random.random((40, 2)))
    Path("own.yaml").write_text(specification)
    assert len(commands.splitlines()) == 3
    for line in commands.splitlines():
        assert command(line.split()[1:]) == 0
    assert np.load("prediction.npy").shape == (12, 1, 40)


def test_meshes_are_points_with_the_weights_of_their_cells(tmp_path):
    meshio, skfem = pytest.importorskip("meshio"), pytest.importorskip("skfem")
    files = []
    for number, mesh in enumerate([skfem.MeshTri().refined(2), skfem.MeshTri().refined(1)]):
        x, y = mesh.p
        plane = np.stack([3 * x, 3 * y, 0 * x], -1)
        data = {"f": x, "flow": np.stack([x, y], -1), "u": x * y}
        files.append(tmp_path / f"{number}.vtu")
        meshio.Mesh(plane, [("triangle", mesh.t.T)], point_data=data).write(files[-1])
    dataset = pdno.read_meshes(files, ["f", "flow"], ["u"])
    assert dataset.channels.inputs == ("f", "flow_0", "flow_1")
    assert dataset.grid.counts == [25, 9]
    torch.testing.assert_close(dataset.grid.weights.sum(1), torch.ones(2).double())
    f, u = dataset[1]
    torch.testing.assert_close(f[1] * f[2], u[0])
    named = pdno.read_meshes(files[0], "f", "u")
    assert len(named) == 1 and (named.channels.inputs, named.channels.outputs) == (("f",), ("u",))
    with pytest.raises(ValueError, match="point data of .* is 'p'; expected one of f, flow, u"):
        pdno.read_meshes(files, ["p"], ["u"])
    cells = tmp_path / "cells.vtu"
    meshio.Mesh(plane, [("triangle", mesh.t.T)], cell_data={"f": [mesh.t[0]]}).write(cells)
    with pytest.raises(ValueError, match="'f' of .*cells.vtu are cell data; expected point data"):
        pdno.read_meshes([cells], "f", "f")
    (tmp_path / "no.vtu").write_text("nothing")
    with pytest.raises(ValueError, match="is no mesh that meshio can read"):
        pdno.read_meshes([tmp_path / "no.vtu"], ["f"], ["u"])
