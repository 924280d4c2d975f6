"""Scattered points of the unit box, with quadrature weights.

A `Points` stands wherever a `Grid` does. Fields have one axis of space, (B, C, P). The box is the
torus of the Fourier transform unless the points are embedded in a larger one (the `padding` of a
network). Integrals over the domain are ∫_D f(x) dx ≈ Σ_p w_p f(x_p) with quadrature weights w.
"""

import itertools
import math
import zlib
from collections.abc import Sequence
from functools import cached_property, lru_cache
from types import EllipsisType
from typing import Any, Literal, NoReturn

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.spatial import ConvexHull, Voronoi, cKDTree
from torch import Tensor
from torch.nn import functional

from pdno.interface.errors import check_choice, check_shape
from pdno.spectral.grid import Device, Grid, Modes, kept_per_axis

Transform = Literal["sum", "least-squares"]
OPTIONS = ("periodic", "transform", "ridge")
INSIDE = 1e-9  # distance from the walls within which Voronoi cells are cut there


class Points(Grid):
    """Scattered points x_p of the unit box [0, 1]^d, one set for all samples or one for each.

    Shapes: fields (B, C, P); coordinates (P, d) or (B, P, d), or a list of (P_b, d), which may
    differ in size and are padded with weight zero (`pad` does the same to fields).

    Arguments:
        weights: Quadrature weights w_p > 0, of the shape of the coordinates without d; "voronoi",
            the default, has the volumes of the Voronoi cells of the box, "equal" 1/P.
        mask: Which points of padded coordinates (B, P, d) are there, (B, P).
        periodic: Whether the box is a torus.
        transform: How coefficients f̂(ξ) are computed: "sum", Σ_p w_p f(x_p) e^{-2πi ξ·x_p}, or
            "least-squares", the f̂ with the smallest Σ_p w_p |f - F⁻¹[f̂]|²(x_p) and a small ridge,
            exact for functions of the kept modes.
        ridge: Of least squares, as a share of the mean diagonal entry of the normal equations.

    Example:
        >>> points = Points([[0.1, 0.2], [0.7, 0.3], [0.5, 0.9]])
        >>> points.dim, points.shape, round(float(points.weights.sum()), 6)
        (2, (3,), 1.0)
    """

    coordinates: Tensor
    weights: Tensor
    transform: Transform
    ridge: float
    cache: dict[Any, Any]  # tables of waves and neighbours

    def __init__(
        self,
        coordinates: ArrayLike,
        weights: ArrayLike | None = None,
        *,
        mask: ArrayLike | None = None,
        periodic: bool = False,
        transform: Transform = "sum",
        ridge: float = 1e-6,
    ) -> None:
        check_choice("transform", transform, ("sum", "least-squares"))
        if not 0 < ridge < 1:
            raise ValueError(f"ridge is {ridge}; expected a small positive share, as 1e-6")
        x, valid = _as_sets(coordinates, mask)
        _check_coordinates(x, valid, periodic=periodic)
        w = _weights(x, valid, weights, periodic=periodic)
        self._set(x, w, {"periodic": periodic, "transform": transform, "ridge": ridge})

    def _set(self, x: Tensor, w: Tensor, options: dict[str, Any]) -> None:
        fields = {"coordinates": x, "weights": w, "shape": (x.shape[-2],), "offset": 0.0}
        self.__dict__.update(fields, cache={}, **options)  # a Grid is frozen

    def _like(self, x: Tensor, w: Tensor) -> "Points":
        new = object.__new__(Points)
        new._set(x, w, self.options)
        return new

    @classmethod
    def of(cls, grid: Grid, *, transform: Transform = "sum") -> "Points":
        """The points of a grid, each with the weight of its cell; points as they are."""
        return grid if isinstance(grid, Points) else _of_grid(grid, transform)

    @classmethod
    def of_mesh(
        cls, vertices: ArrayLike, cells: ArrayLike, *, transform: Transform = "sum"
    ) -> "Points":
        """The vertices (P, d) of a simplicial mesh with cells (M, d + 1).

        The volume of a cell is divided among its corners: weights add up to that of the domain.
        """
        x, c = _numbers("vertices", vertices), torch.as_tensor(cells).long()
        dim = x.shape[-1]
        check_shape("cells", c, "M", dim + 1, cure=f"corners of simplices in {dim} dimensions")
        edges = x[c[:, 1:]] - x[c[:, :1]]
        volumes = torch.linalg.det(edges).abs() / math.factorial(dim)
        shares = volumes[:, None].expand(-1, dim + 1).flatten() / (dim + 1)
        w = torch.zeros(len(x), dtype=torch.float64).index_add(0, c.flatten(), shares)
        if unused := int((w == 0).sum()):
            raise ValueError(f"{unused} vertices belong to no cell: leave them out")
        return cls(x, w, transform=transform)

    @property
    def options(self) -> dict[str, Any]:
        """The arguments beside the arrays."""
        return {name: getattr(self, name) for name in OPTIONS}

    @property
    def dim(self) -> int:
        """Dimension d of the space of the points."""
        return int(self.coordinates.shape[-1])

    @property
    def space_axes(self) -> int:
        """Number of space axes of a field, one for scattered points."""
        return 1

    @property
    def sets(self) -> int | None:
        return len(self.coordinates) if self.coordinates.dim() == 3 else None

    @cached_property
    def counts(self) -> list[int]:
        """How many points each set has, without the padding."""
        counts: list[int] = self.mask.sum(dim=-1).reshape(-1).tolist()
        return counts

    @property
    def mask(self) -> Tensor:
        """Which points are there and not padding, (P,) or (B, P)."""
        return self.weights > 0

    def points(self, *, device: Device = None) -> Tensor:
        return self.coordinates.to(device)

    def of_samples(self, indices: Sequence[int]) -> "Points":
        """The points of some samples."""
        if self.sets is None:
            return self
        rows = torch.as_tensor(list(indices), dtype=torch.long)
        return self._like(self.coordinates[rows], self.weights[rows])

    def embedded(self, margin: float) -> "Points":
        """The same points on a torus whose period is longer by a share `margin`, scaled to 1."""
        if not margin:
            return self
        cached: Points | None = self.cache.get(margin)
        if cached is None:
            scale = 1 + margin
            cached = self._like(self.coordinates / scale, self.weights / scale**self.dim)
            self.cache[margin] = cached
        return cached

    def inside(self, field: Tensor) -> Tensor | None:
        return None if self.sets is None else self.by_sample(self.mask, field)

    def weigh(self, field: Tensor) -> Tensor:
        return self.cover(field) * self.by_sample(self.weights.sqrt(), field).to(field.dtype)

    def pad(self, fields: Sequence[Tensor | np.ndarray]) -> Tensor:
        """Fields (C, P_b) or (T, C, P_b) of sets of different sizes as (B, ..., P), with zeros."""
        parts = [torch.as_tensor(f) for f in fields]
        sizes = self.counts * (len(parts) if self.sets is None else 1)
        if len(parts) != len(sizes):
            raise ValueError(f"fields of {len(parts)} samples on {len(sizes)} sets of points")
        for number, (part, count) in enumerate(zip(parts, sizes, strict=True)):
            if (values := part.shape[-1]) != count:
                raise ValueError(f"sample {number} has {values} values on {count} points")
        return torch.stack([functional.pad(p, (0, self.shape[0] - p.shape[-1])) for p in parts])

    def interpolate(self, v: Tensor, points: "Points") -> Tensor:
        """v at other points, from the nearest ones, (B, C, P) -> (B, C, Q).

        By moving least squares of degree one, exact for linear functions and at own points.
        """
        if points is self:
            return v
        key = "near", id(points)
        if key not in self.cache:
            sets = max(self.sets or 1, points.sets or 1)
            x, y = (part.coordinates.expand(sets, -1, -1) for part in (self, points))
            triples = zip(x, self.mask.expand(sets, -1), y, strict=True)
            period = 1.0 if self.periodic else None
            pairs = [_moving_least_squares(*triple, period) for triple in triples]
            least = min(index.shape[1] for index, _ in pairs)
            both = zip(*((index[:, :least], w[:, :least]) for index, w in pairs), strict=True)
            # with the points, which keep their id
            self.cache[key] = (points, *map(torch.stack, both))
        index, weights = (part.to(v.device) for part in self.cache[key][1:])
        flat = index.expand(len(v), -1, -1).flatten(1)[:, None].expand(-1, v.shape[1], -1)
        near = v.gather(2, flat).reshape(*v.shape[:2], *index.shape[1:])
        values: Tensor = (near * weights.to(v)[:, None]).sum(dim=-1)
        return values

    def axes(self, *, device: Device = None) -> NoReturn:
        cure = "take a pdno.Grid, or interpolate to one, as by scipy.interpolate.griddata"
        raise ValueError(f"scattered points have no axes, and this needs a grid: {cure}")

    def modes(self, kept: Modes = None, *, half: bool = True, device: Device = None) -> Tensor:
        return torus(self, kept).modes(kept, half=half, device=device)

    def coarsen(self, factor: int) -> "Points":
        """The same points for factor 1; others have no order in which to leave some out."""
        return self if factor == 1 else self.axes()

    def every(self, factor: int) -> tuple[EllipsisType | slice, ...]:
        return (...,) if factor == 1 else self.axes()

    def check(self, field: Tensor, name: str = "field") -> None:
        super().check(field, name)
        if self.sets is not None and len(field) not in (1, self.sets):
            sets = f"the points are {self.sets} sets, one for each sample"
            raise ValueError(f"{name} has {len(field)} samples; {sets}")

    def to_plain(self) -> dict[str, Any]:
        """The arguments that make these points again, as plain numbers."""
        arrays = {"coordinates": self.coordinates.tolist(), "weights": self.weights.tolist()}
        return {**arrays, **self.options}

    @classmethod
    def of_plain(cls, plain: dict[str, Any]) -> "Points":
        """The points of `to_plain`."""
        weights = _numbers("weights", plain["weights"])
        mask = weights > 0 if weights.dim() == 2 else None
        options = {name: plain[name] for name in OPTIONS}
        return cls(_numbers("coordinates", plain["coordinates"]), weights, mask=mask, **options)

    def __eq__(self, other: object) -> bool:
        if self is other or not isinstance(other, Points):
            return self is other
        alike = torch.equal(self.coordinates, other.coordinates) and self.options == other.options
        return alike and torch.equal(self.weights, other.weights)

    def __hash__(self) -> int:
        return hash((self.shape, self.periodic))

    def __repr__(self) -> str:
        counts, dim = self.counts, self.dim
        sizes = f"{counts[0]}" if len(set(counts)) == 1 else f"{min(counts)} to {max(counts)}"
        sets = "" if self.sets is None else f", {self.sets} sets"
        numbers = torch.cat([self.coordinates.flatten(), self.weights.flatten()]).detach()
        checksum = zlib.crc32(numbers.cpu().numpy().tobytes())
        return f"Points({sizes} points, dim={dim}{sets}, {self.transform}, {checksum:08x})"


@lru_cache(maxsize=16)
@torch.inference_mode(False)  # what is made during inference serves training too
def _of_grid(grid: Grid, transform: Transform) -> Points:
    x = grid.points().reshape(-1, grid.dim)
    return Points(x, "equal", periodic=grid.periodic, transform=transform)


def torus(points: Points, modes: Modes) -> Grid:
    """A grid that holds the kept modes of scattered points with room to spare."""
    return Grid(tuple(2 * k + 2 for k in kept_modes(points, modes)))


def kept_modes(points: Points, modes: Modes) -> tuple[int, ...]:
    """One k_max per axis; points have no largest one of their own."""
    kept = kept_per_axis((2**62,) * points.dim, modes)
    if None in kept:
        raise ValueError(f"modes={modes} on scattered points: say how many, for example modes=8")
    return tuple(k or 0 for k in kept)


def check_enough_points(points: Points, kept: Sequence[int]) -> None:
    """ValueError unless each set has at least as many points as the kept modes have numbers."""
    unknowns = math.prod(2 * k for k in kept[:-1]) * (2 * kept[-1] - 1)
    if (least := min(points.counts)) < unknowns:
        problem = f"{least} points are too few for modes={tuple(kept)}: {unknowns} numbers"
        raise ValueError(f"{problem}; keep fewer modes, or give more points")


def _numbers(name: str, values: object) -> Tensor:
    try:
        return torch.as_tensor(values, dtype=torch.float64)
    except (TypeError, ValueError) as problem:
        raise ValueError(f"{name} are no array of numbers ({problem})") from problem


def _as_sets(coordinates: ArrayLike, mask: ArrayLike | None) -> tuple[Tensor, Tensor]:
    """Coordinates (P, d) or (B, P, d), and which of them are there."""
    if isinstance(coordinates, np.ndarray) and coordinates.dtype == object:
        coordinates = list(coordinates)
    parts = list(coordinates) if isinstance(coordinates, Sequence) else []
    if parts and all(np.ndim(part) == 2 for part in parts):
        sets = [_numbers("coordinates", part) for part in parts]
        if mask is not None:
            raise ValueError("a list of sets of points has no mask: their sizes say it all")
        if len({part.shape[1] for part in sets}) > 1:
            raise ValueError("sets of points of different dimensions; expected (P, d) with one d")
        most = max(map(len, sets))
        valid = torch.stack([torch.arange(most) < len(part) for part in sets])
        # padding repeats the first point
        full = [torch.cat([part, part[:1].expand(most - len(part), -1)]) for part in sets]
        return torch.stack(full), valid
    x = _numbers("coordinates", coordinates)
    if x.dim() not in (2, 3) or not 1 <= x.shape[-1] <= 3 or not x.numel():
        expected = "expected (P, d), or (B, P, d) with a set for each sample, and d = 1, 2 or 3"
        raise ValueError(f"coordinates have shape {tuple(x.shape)}; {expected}")
    valid = torch.ones(x.shape[:-1], dtype=torch.bool)
    if mask is not None:
        valid = torch.as_tensor(mask).to(torch.bool)
        check_shape("mask", valid, *x.shape[:-1], cure="as the points")
        if not bool(valid.any(dim=-1).all()):
            raise ValueError("the mask leaves a set without points; expected at least one")
        first = valid.int().argmax(dim=-1)[..., None, None].expand(*x.shape[:-2], 1, x.shape[-1])
        x = torch.where(valid[..., None], x, x.gather(-2, first))
    return x, valid


def _check_coordinates(x: Tensor, valid: Tensor, *, periodic: bool) -> None:
    """Refuse NaN, points outside of the box, and duplicate points."""
    pads = "where they pad sets of different sizes, give mask="
    if not bool(x.isfinite().all()):
        raise ValueError(f"coordinates have NaN or infinity: leave these points out; {pads}")
    x = x.detach()
    low, high = float(x.min()), float(x.max())
    if low < 0 or high > 1:
        cure = "scale them, for example (x - x.min()) / (x.max() - x.min()), alike for all axes"
        raise ValueError(f"coordinates lie in [{low:g}, {high:g}]; expected [0, 1]: {cure}")
    sets = zip(x, valid, strict=True) if x.dim() == 3 else [(x, valid)]
    for number, (part, there) in enumerate(sets):
        distinct = part[there] % 1.0 if periodic else part[there]
        if twice := len(distinct) - len(torch.unique(distinct, dim=0)):
            where, cure = (f" of set {number}", f"; {pads}") if x.dim() == 3 else ("", "")
            torus = " (0 and 1 are one point of a torus)" if periodic else ""
            raise ValueError(f"{twice} points{where} are duplicates{torus}: leave them out{cure}")


def _weights(x: Tensor, valid: Tensor, weights: ArrayLike | None, *, periodic: bool) -> Tensor:
    """Quadrature weights of the points, zero at padding."""
    if weights is None or isinstance(weights, str):
        check_choice("weights", weights or "voronoi", ("voronoi", "equal"))
        if weights == "equal":
            return valid.double() / valid.sum(dim=-1, keepdim=True)
        w = torch.zeros(valid.shape, dtype=torch.float64)
        for row in np.ndindex(*valid.shape[:-1]):
            there = valid[row]
            volumes = cell_volumes(x.detach()[row][there].cpu().numpy(), periodic=periodic)
            w[row][there] = torch.from_numpy(volumes)
        return w
    if isinstance(weights, Sequence) and not isinstance(weights[0], (int, float)):
        parts = [_numbers("weights", part) for part in weights]
        sizes = [len(part) for part in parts]
        if sizes != valid.sum(dim=-1).reshape(-1).tolist():
            raise ValueError(f"weights of sets of {sizes[:5]} points; expected one per point")
        weights = torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)
    w = _numbers("weights", weights)
    check_shape("weights", w, *valid.shape, cure="one per point")
    if not bool((w.isfinite() & (w > 0))[valid].all()):
        raise ValueError("weights are not all positive and finite: leave such points out")
    return torch.where(valid, w, 0.0)


def cell_volumes(x: np.ndarray, *, periodic: bool) -> np.ndarray:
    """Volumes of the Voronoi cells of points (P, d) in the unit box, or on the torus; sum 1."""
    count, dim = x.shape
    x = x % 1 if periodic else x.clip(INSIDE, 1 - INSIDE)
    if count == 1:
        return np.ones(1)
    if dim == 1:
        line = np.sort(x[:, 0])
        ends = (line[-1] - 1, line[0] + 1) if periodic else (-line[0], 2 - line[-1])
        gaps = np.diff(np.concatenate([ends[:1], line, ends[1:]]))
        return ((gaps[1:] + gaps[:-1]) / 2)[np.argsort(np.argsort(x[:, 0]))]
    if periodic:
        images = [x + shift for shift in itertools.product((-1, 0, 1), repeat=dim) if any(shift)]
    else:  # reflections make the walls faces of cells
        signs = [np.where(np.arange(dim) == axis, -1, 1) for axis in range(dim)]
        images = [x * s + wall * (1 - s) for s in signs for wall in (0, 1)]
    around, band = np.concatenate(images), 6 * count ** (-1 / dim)
    while True:
        near = np.all((around >= -band) & (around <= 1 + band), axis=1)
        diagram = Voronoi(np.concatenate([x, around[near]]))
        regions = [diagram.regions[diagram.point_region[k]] for k in range(count)]
        sizes = np.array(list(map(len, regions)))
        corners = diagram.vertices[np.concatenate(regions)]
        radius = np.sqrt(np.square(corners - np.repeat(x, sizes, axis=0)).sum(1).max())
        # images farther away than two radii of a cell cut nothing off
        if band >= 1 or (2 * radius < band and all(-1 not in region for region in regions)):
            break
        band *= 4
    if dim == 3:
        return np.array([ConvexHull(diagram.vertices[region]).volume for region in regions])
    return _polygon_areas(corners, sizes)


def _polygon_areas(corners: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Areas of convex polygons, given by their corners, one polygon after another."""
    owner, first = np.repeat(np.arange(len(sizes)), sizes), np.cumsum(sizes) - sizes
    offset = corners - (np.add.reduceat(corners, first) / sizes[:, None])[owner]
    x, y = offset[np.lexsort((np.arctan2(offset[:, 1], offset[:, 0]), owner))].T
    following = np.arange(len(x)) + 1
    following[first + sizes - 1] = first
    return np.add.reduceat(x * y[following] - x[following] * y, first) / 2


def _moving_least_squares(
    x: Tensor, valid: Tensor, y: Tensor, period: float | None
) -> tuple[Tensor, Tensor]:
    """Neighbours of points y (Q, d) among points x (P, d), and weights that reproduce lines."""
    own = torch.nonzero(valid.cpu()).squeeze(-1)
    points, query = x.detach()[valid].cpu().numpy(), y.detach().cpu().numpy()
    count, dim = min(2 * (x.shape[-1] + 1), len(points)), x.shape[-1]
    if period is not None:
        points, query = points % period, query % period
    _, index = cKDTree(points, boxsize=period).query(query, k=list(range(1, count + 1)))
    offset = points[index] - query[:, None]
    if period is not None:
        offset -= period * np.round(offset / period)
    squares = np.square(offset).sum(-1)
    size = np.sqrt(squares.mean(-1))[:, None] + 1e-300
    omega = 1 / (squares / size**2 + 1e-12)
    basis = np.concatenate([np.ones((*index.shape, 1)), offset / size[..., None]], -1)
    weighted = basis * omega[..., None]
    gram = np.swapaxes(weighted, -1, -2) @ basis
    # neighbours on a line do not determine a plane: its slope across them is zero
    ridge = np.diag([0.0, *[1e-8] * dim]) * gram.trace(axis1=-2, axis2=-1)[:, None, None]
    unit = np.broadcast_to(np.eye(dim + 1)[:, :1], (len(gram), dim + 1, 1))
    weights = (weighted @ np.linalg.solve(gram + ridge, unit))[..., 0]
    return own[torch.from_numpy(index)], torch.from_numpy(weights)
