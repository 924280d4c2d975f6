"""Mesh files as datasets: what meshio (extra points) reads, VTK, Gmsh, XDMF and others.

A file is a sample: its vertices are the points, its triangles or tetrahedra give the quadrature
weights, and its point data are the fields.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pdno.data.dataset import OperatorDataset
from pdno.interface.errors import require
from pdno.spectral.points import Points, Transform

Array = np.ndarray
FLAT = 1e-9  # extent of an axis, as a share of the largest one, up to which a mesh is plane


def read_meshes(
    files: Sequence[Path | str],
    inputs: Sequence[str],
    outputs: Sequence[str],
    *,
    box: tuple[float, float] | None = None,
    transform: Transform = "sum",
) -> OperatorDataset:
    """A dataset of mesh files, one sample each, on the vertices that belong to cells.

    Arguments:
        inputs: Names of point data that become the channels of the inputs; vectors become several.
        outputs: Those of the outputs.
        box: Coordinates that become 0 and 1, the same for all axes and files; by default those
            that all meshes fit into.
    """
    if not files:
        raise ValueError("no mesh files; expected one for each sample")
    meshes = [_read(Path(file), [*inputs, *outputs]) for file in files]
    if len({x.shape[1] for x, _, _ in meshes}) > 1:
        raise ValueError("some of the meshes are plane and others are not; expected alike")
    if box is None:
        box = min(float(x.min()) for x, _, _ in meshes), max(float(x.max()) for x, _, _ in meshes)
    scaled = [(x - box[0]) / (box[1] - box[0]) for x, _, _ in meshes]
    sets = [Points.of_mesh(x, cells) for x, (_, cells, _) in zip(scaled, meshes, strict=True)]
    points = Points(scaled, [part.weights for part in sets], transform=transform)
    f, u = (
        [torch.from_numpy(np.concatenate([data[name] for name in names])) for _, _, data in meshes]
        for names in (inputs, outputs)
    )
    sizes = {name: len(values) for name, values in meshes[0][2].items()}
    channels = [
        [n if sizes[n] == 1 else f"{n}_{k}" for n in part for k in range(sizes[n])]
        for part in (inputs, outputs)
    ]
    return OperatorDataset.from_arrays(f, u, points, channels=(channels[0], channels[1]))


def _read(file: Path, names: Sequence[str]) -> tuple[Array, Array, dict[str, Array]]:
    """Vertices (P, d), cells (M, d + 1) and point data (C, P) of a file."""
    require("meshio", "points")
    import meshio

    try:
        mesh: Any = meshio.read(file)
    except (SystemExit, Exception) as problem:  # meshio ends the process where it cannot read
        raise ValueError(f"{file} is no mesh that meshio can read ({problem})") from problem
    x = np.asarray(mesh.points, dtype=float)
    extent = np.ptp(x, axis=0)
    x = x[:, extent > FLAT * extent.max()]
    kind = {1: "line", 2: "triangle", 3: "tetra"}[x.shape[1]]
    if kind not in mesh.cells_dict:
        existing = ", ".join(mesh.cells_dict) or "none"
        raise ValueError(f"{file} has cells of the types {existing}; expected {kind}")
    cells = np.asarray(mesh.cells_dict[kind])
    if missing := [name for name in names if name not in mesh.point_data]:
        existing = ", ".join(mesh.point_data) or "none"
        raise ValueError(f"{file} has no point data {missing[0]!r}; it has {existing}")
    used, numbers = np.unique(cells, return_inverse=True)
    data = {
        name: np.asarray(mesh.point_data[name], dtype=float).reshape(len(x), -1)[used].T
        for name in names
    }
    return x[used], numbers.reshape(cells.shape), data
