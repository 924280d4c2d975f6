"""Scattered points: on a grid they are the grid, elsewhere errors fall as theory says."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

import pdno
from pdno.spectral.fourier import inverse, transform
from pdno.spectral.nonuniform import inverse_points, transform_points
from pdno.spectral.points import Points

KINDS = ("network", "trunk", "low-rank", "table", "classical")


def band_limited(points: Points, modes: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """A real function of the modes |ξ_j| < k at the points, and its coefficients."""
    generator = torch.Generator().manual_seed(seed)
    shape = (4 * modes,) * points.dim
    f_hat = transform(
        torch.randn(1, 1, *shape, generator=generator, dtype=torch.float64), points.dim, modes
    )
    for axis in range(points.dim - 1):  # -k has no partner
        f_hat.select(axis - points.dim, modes).zero_()
    return inverse_points(f_hat, points, modes), f_hat


def scattered(count: int, dim: int = 2, seed: int = 0, **options: object) -> Points:
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(count, dim, generator=generator, dtype=torch.float64)
    return Points(x, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(("shape", "modes"), [((16,), 5), ((12, 16), 4), ((8, 8, 8), 3)])
def test_transforms_of_grid_points_are_those_of_the_grid(shape, modes):
    grid, points = pdno.Grid(shape), Points.of(pdno.Grid(shape))
    f = torch.randn(2, 3, *shape, dtype=torch.float64)
    f_hat = transform(f, grid.dim, modes)
    torch.testing.assert_close(transform_points(f.flatten(2), points, modes), f_hat)
    there = inverse_points(f_hat, points, modes).reshape(f.shape)
    torch.testing.assert_close(there, inverse(f_hat, shape, modes))


@pytest.mark.parametrize("kind", KINDS)
def test_layer_on_grid_points_is_the_layer_of_the_grid(kind):
    torch.manual_seed(0)
    layer = pdno.PDIO(2, 3, 4, modes=4, symbol=kind).double()
    f, grid = torch.randn(2, 3, 12, 12, dtype=torch.float64), pdno.Grid((12, 12))
    on_points = layer(f.flatten(2), Points.of(grid)).reshape(2, 4, 12, 12)
    torch.testing.assert_close(on_points, layer(f), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "options", [{}, {"padding": 0.25, "layers": 1}, {"feed_forward": 16, "symbol": "classical"}]
)
def test_network_on_grid_points_is_the_network_on_the_grid(options):
    torch.manual_seed(0)  # in the margin of a grid later blocks have values, of points none
    network = pdno.PDNO(2, 1, 2, **{"width": 6, "layers": 2, "modes": 4, **options}).double()
    f, grid = torch.randn(2, 1, 16, 16, dtype=torch.float64), pdno.Grid((16, 16))
    on_points = network(f.flatten(2), grid=Points.of(grid)).reshape(2, 2, 16, 16)
    torch.testing.assert_close(on_points, network(f), rtol=1e-6, atol=1e-6)


def test_output_on_a_part_of_the_grid_is_that_part():
    torch.manual_seed(0)
    network = pdno.PDNO(2, 1, 1, width=6, layers=2, modes=4).double()
    f, grid = torch.randn(2, 1, 16, 16, dtype=torch.float64), pdno.Grid((16, 16))
    part = network(f, grid=grid, output_grid=pdno.Grid((8, 8)))
    # the neighbours of a point of the grid are that point alone
    torch.testing.assert_close(part, network(f)[..., ::2, ::2], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_voronoi_cells_fill_the_box(dim):
    for periodic in (True, False):
        points = scattered(40, dim, periodic=periodic)
        assert float(points.weights.sum()) == pytest.approx(1.0, abs=1e-6)
    grid = pdno.Grid((5,) * dim, periodic=False, offset=0.5)
    cells = Points(grid.points().reshape(-1, dim))
    torch.testing.assert_close(cells.weights, torch.full((5**dim,), 5.0**-dim).double())


@pytest.mark.parametrize(
    ("dim", "weights", "order"), [(1, "voronoi", 2.5), (2, "voronoi", 1.0), (2, "equal", 0.5)]
)
def test_sums_converge_as_quadrature_theory_says(dim, weights, order):
    # P independent errors of mean zero, each w_p = 1/P times its size: 1 for equal weights, h for
    # cells, h² on a line (the trapezoidal rule), h = P^(-1/d), add up to P^(-1/2) times that size
    counts, errors = (100, 400, 1600), []
    for count in counts:
        squares = []
        for seed in range(4):
            points = scattered(count, dim, seed, weights=weights, periodic=True)
            f, exact = band_limited(points, 4)
            difference = transform_points(f, points, 4) - exact
            squares.append(float(difference.abs().square().sum() / exact.abs().square().sum()))
        errors.append(math.sqrt(sum(squares) / len(squares)))
    observed = math.log(errors[0] / errors[-1]) / math.log(counts[-1] / counts[0])
    assert observed == pytest.approx(order, abs=0.25)


def test_least_squares_is_exact_for_kept_modes():
    points = scattered(600, transform="least-squares", ridge=1e-9, weights="equal")
    f, exact = band_limited(points, 5)
    torch.testing.assert_close(transform_points(f, points, 5), exact, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("transform", ["sum", "least-squares"])
def test_gradients(transform):
    torch.manual_seed(0)
    layer = pdno.PDIO(2, 1, 2, modes=2, symbol_hidden=4, symbol_layers=1).double()
    x = torch.rand(2, 20, 2, dtype=torch.float64).requires_grad_()
    weights = torch.full((2, 20), 0.05, dtype=torch.float64)

    def apply(f: Tensor, x: Tensor) -> Tensor:
        return layer(f, Points(x, weights, transform=transform, ridge=1e-2))

    f = torch.randn(2, 1, 20, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(apply, (f, x))


def test_permuted_points_permute_the_output():
    torch.manual_seed(0)
    network = pdno.PDNO(2, 1, 1, width=6, layers=2, modes=4).double()
    points, f = scattered(150), torch.randn(2, 1, 150, dtype=torch.float64)
    order = torch.randperm(150)
    permuted = network(f[..., order], grid=Points(points.coordinates[order]))
    torch.testing.assert_close(permuted, network(f, grid=points)[..., order])


def test_padded_sets_are_as_sets_by_themselves():
    torch.manual_seed(0)
    network = pdno.PDNO(2, 1, 1, width=6, layers=2, modes=3).double()
    sets = [torch.rand(n, 2, dtype=torch.float64) for n in (50, 80)]
    fields = [torch.randn(1, len(x), dtype=torch.float64) for x in sets]
    points, queries = Points(sets), Points([x[:5] + 0.0 for x in sets])
    batch = network(points.pad(fields), grid=points)
    asked = network(points.pad(fields), grid=points, output_grid=queries)
    for k, (x, f) in enumerate(zip(sets, fields, strict=True)):
        alone = network(f[None], grid=Points(x))[0]
        torch.testing.assert_close(batch[k, :, : len(x)], alone)
        torch.testing.assert_close(asked[k], alone[:, :5], rtol=1e-6, atol=1e-6)
    again = Points.of_plain(points.to_plain())
    assert again == points and again.counts == [50, 80]


def test_parameters_of_each_sample_reach_its_points():
    torch.manual_seed(0)
    layer = pdno.PDIO(2, 1, 1, modes=3, pde_parameters=1).double()
    x, f = torch.rand(2, 60, 2, dtype=torch.float64), torch.randn(2, 1, 60, dtype=torch.float64)
    t = torch.tensor([[0.3], [0.9]], dtype=torch.float64)
    batch = layer(f, Points(x), t)
    for k in range(2):
        alone = layer(f[k : k + 1], Points(x[k]), t[k : k + 1])
        torch.testing.assert_close(batch[k : k + 1], alone)


def test_fast_transform_agrees_with_products():
    pytest.importorskip("finufft")
    sets = torch.rand(2, 300, 2, dtype=torch.float64)
    for points in (Points(sets), Points(sets[0])):
        f = torch.randn(2, 3, 300, dtype=torch.float64, requires_grad=True)
        direct, fast = (transform_points(f, points, 5, method=m) for m in ("direct", "nufft"))
        torch.testing.assert_close(fast, direct)
        back = [inverse_points(direct, points, 5, method=m) for m in ("direct", "nufft")]
        torch.testing.assert_close(*back)
        gradients = [torch.autograd.grad(u.square().sum(), f, retain_graph=True)[0] for u in back]
        torch.testing.assert_close(*gradients)


def test_mesh_weights_add_up_to_the_domain():
    vertices = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    points = Points.of_mesh(vertices, [[0, 1, 2], [1, 3, 2]])
    torch.testing.assert_close(points.weights, torch.tensor([1, 2, 2, 1]).double() / 6)


@pytest.mark.parametrize(
    ("coordinates", "options", "message"),
    [
        ([[0.5, 1.5]], {}, r"lie in \[0.5, 1.5\]; expected \[0, 1\]: scale them"),
        ([[0.5, 0.5], [0.5, 0.5]], {}, "1 points are duplicates"),
        ([[0.0], [1.0]], {"periodic": True}, "duplicates"),
        ([[[0.5], [0.5]]], {}, "1 points of set 0 are duplicates.*different sizes, give mask="),
        ([[0.1, 0.2], [0.3]], {}, "coordinates are no array of numbers"),
        ([[0.5, float("nan")]], {}, "coordinates have NaN or infinity: leave these points out"),
        ([[0.5, 0.5]], {"weights": [0.0]}, "not all positive"),
        ([[0.5, 0.5]], {"weights": [1.0, 2.0]}, "one per point"),
        ([0.5, 0.5], {}, r"coordinates have shape \(2,\)"),
    ],
)
def test_wrong_points_are_refused(coordinates, options, message):
    with pytest.raises(ValueError, match=message):
        Points(coordinates, **options)


def test_sets_of_different_sizes_need_a_mask():
    sets = torch.rand(2, 5, 2)
    sets[1, 4:] = torch.nan
    with pytest.raises(ValueError, match="where they pad sets of different sizes, give mask="):
        Points(sets)
    with_mask = Points(sets, mask=sets.isfinite().all(-1))
    ragged = np.empty(2, dtype=object)
    ragged[:] = [sets[0].numpy(), sets[1, :4].numpy()]
    assert with_mask.counts == Points(ragged).counts == [5, 4]
    fields = [np.ones((1, n)) for n in (5, 5)]
    with pytest.raises(ValueError, match="sample 1 has 5 values on 4 points"):
        pdno.OperatorDataset.from_arrays(fields, fields, with_mask)
    with pytest.raises(ValueError, match=r"sample 1 have NaN .*give Points\(..., mask=\)"):
        nan = torch.tensor([1.0, torch.nan]).expand(5, 2).T[:, None]
        pdno.OperatorDataset.from_arrays(nan, nan, Points(sets[0]))


def test_wrong_use_is_refused():
    layer, points = pdno.PDIO(2, 1, 1, modes=4), scattered(30)
    with pytest.raises(ValueError, match="30 points are too few for modes"):
        layer(torch.randn(1, 1, 30), points)
    with pytest.raises(ValueError, match="say how many, for example modes=8"):
        pdno.PDIO(2, 1, 1)(torch.randn(1, 1, 30), points)
    with pytest.raises(ValueError, match="have no axes, and this needs a grid"):
        points.coarsen(2)
    with pytest.raises(ValueError, match="sample 1 has 4 values on 5 points"):
        Points([torch.rand(4, 2), torch.rand(5, 2)]).pad([torch.ones(1, 4), torch.ones(1, 4)])
    with pytest.raises(ValueError, match="expected a fraction of the domain"):
        pdno.PDNO(2, 1, 1, modes=2, padding=3)(torch.randn(1, 1, 30), grid=points)
