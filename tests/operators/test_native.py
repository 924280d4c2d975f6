"""The compiled kernels give the numbers of the reference: every dimension, size and batch."""

import pytest
import torch
import wrong_operands
import wrong_symbols
from torch.nn import functional

from pdno import PDIO, PDNO, Grid
from pdno.native.build import load_library
from pdno.operators import compiled, native
from pdno.operators.compiled import ALL
from pdno.operators.kernel import apply_projection, apply_values
from pdno.operators.native import Sizes, find_kernels, lane_suffixes, most_nodes
from pdno.operators.reference import apply_straight
from pdno.spectral.grid import kept_per_axis
from pdno.symbols import SymbolValues
from pdno.symbols.nodes import node_basis, node_points

pytestmark = pytest.mark.skipif(load_library() is None, reason="no compiled kernels here")

LINES = [((16,), None), ((64,), 8), ((30,), None), ((9,), 3), ((17,), None), ((210,), None)]
LINES += [((2,), None), ((512,), 200), ((241,), 12), ((1024,), 16)]
PLANES = [((16, 16), None), ((64, 64), 12), ((32, 48), None), ((85, 20), (12, 6)), ((9, 7), None)]
PLANES += [((15, 21), None), ((21, 30), (5, 7)), ((41, 16), 8), ((16, 41), 7), ((2, 2), None)]
PLANES += [((3, 2), None), ((128, 16), (12, None)), ((8, 10), (3, 4)), ((26, 22), None)]
SPACES = [((8, 8, 8), None), ((32, 16, 16), 8), ((6, 10, 7), (2, 3, 4)), ((5, 7, 9), None)]
SPACES += [((16, 12, 18), (3, None, 4)), ((2, 3, 5), None)]
SHAPES = [*LINES, *PLANES, *SPACES]
CHANNELS = [(1, 5, 3), (5, 9, 1)]
CHANNELS += [pytest.param(*sizes, marks=pytest.mark.slow) for sizes in ((2, 4, 2), (33, 3, 2))]
CHANNELS += [pytest.param(3, 20, 2, marks=pytest.mark.slow)]
TOLERANCE = 1e-6


def error(given, expected):
    return float((given.detach() - expected).norm() / expected.norm())


def operands(shape, modes, batch, inputs, outputs):
    kept = Grid(shape).modes(modes).shape[:-1]
    c = torch.randn(outputs, inputs, *kept, dtype=torch.complex64, requires_grad=True)
    f = torch.randn(batch, inputs, *shape, requires_grad=True)
    return c, f, torch.randn(batch, outputs, *shape)


def compare(values, f, weights, shape, modes, leaves):
    """Relative errors of the result and its gradients against the formula in float64."""
    out = apply_values(values, f, Grid(shape), modes)
    given = (out, *torch.autograd.grad((out * weights).sum(), leaves))
    double = {id(leaf): _double(leaf) for leaf in leaves}
    exact = SymbolValues(
        double[id(leaves[0])][None],
        double[id(leaves[1])][None] if len(leaves) == 3 else None,
        None if values.basis is None else values.basis.double(),
    )
    out = apply_straight(exact, double[id(f)], Grid(shape), modes)
    wanted = (out, *torch.autograd.grad((out * weights).sum(), double.values()))
    return [error(a, b.detach()) for a, b in zip(given, wanted, strict=True)]


def _double(leaf):
    dtype = torch.complex128 if leaf.is_complex() else torch.float64
    return leaf.detach().to(dtype).requires_grad_()


@pytest.mark.parametrize(("batch", "inputs", "outputs"), CHANNELS)
@pytest.mark.parametrize(("shape", "modes"), SHAPES)
class TestOperator:
    def test_pairs(self, shape, modes, batch, inputs, outputs):
        c, f, weights = operands(shape, modes, batch, inputs, outputs)
        b = torch.randn(outputs, inputs, *shape, requires_grad=True)
        values = SymbolValues(c[None], b[None])
        assert max(compare(values, f, weights, shape, modes, (c, b, f))) < TOLERANCE

    def test_nodes(self, shape, modes, batch, inputs, outputs):
        c, f, weights = operands(shape, modes, batch, inputs, outputs)
        nodes = 8 if batch == 1 else 4
        a = torch.randn(outputs, inputs, *shape[:-1], nodes, requires_grad=True)
        values = SymbolValues(c[None], a[None], torch.randn(nodes, shape[-1]))
        assert max(compare(values, f, weights, shape, modes, (c, a, f))) < TOLERANCE

    def test_modes(self, shape, modes, batch, inputs, outputs):
        c, f, weights = operands(shape, modes, batch, inputs, outputs)
        assert max(compare(SymbolValues(c[None]), f, weights, shape, modes, (c, f))) < TOLERANCE


@pytest.mark.parametrize("batch", range(1, 34))
def test_every_batch(batch):
    c, f, weights = operands((16, 12), (5, 4), batch, 6, 5)
    b = torch.randn(5, 6, 16, 12, requires_grad=True)
    values = SymbolValues(c[None], b[None])
    assert max(compare(values, f, weights, (16, 12), (5, 4), (c, b, f))) < TOLERANCE


@pytest.mark.parametrize("suffix", lane_suffixes() if load_library() else ())
@pytest.mark.parametrize(("batch", "inputs", "outputs"), [(1, 5, 20), (5, 3, 12)])
@pytest.mark.parametrize("shape", [(34,), (16, 12), (6, 8, 10)])
def test_every_number_of_lanes(shape, batch, inputs, outputs, suffix, monkeypatch):
    """Those that the plan would not take for these sizes, too."""
    monkeypatch.setattr(native, "lane_suffixes", lambda: (suffix,))
    find_kernels.cache_clear()
    try:
        c, f, weights = operands(shape, None, batch, inputs, outputs)
        b = torch.randn(outputs, inputs, *shape, requires_grad=True)
        pairs = SymbolValues(c[None], b[None])
        assert max(compare(pairs, f, weights, shape, None, (c, b, f))) < TOLERANCE
        a = torch.randn(outputs, inputs, *shape[:-1], 8, requires_grad=True)
        nodes = SymbolValues(c[None], a[None], torch.randn(8, shape[-1]))
        assert max(compare(nodes, f, weights, shape, None, (c, a, f))) < TOLERANCE
    finally:
        find_kernels.cache_clear()


@pytest.mark.parametrize(("shape", "modes"), SHAPES)
def test_the_transforms_are_adjoint_and_scaled_they_are_inverse(shape, modes):
    kept = tuple(ALL if k is None else k for k in kept_per_axis(shape, modes))
    f, f_hat = (
        torch.randn(2, 5, *shape),
        torch.randn(2, 5, *Grid(shape).modes(modes).shape[:-1], dtype=torch.complex64),
    )
    left = (compiled.synthesise(f_hat, shape, kept, False) * f).double().sum()
    right = (f_hat * compiled.analyse(f, shape, kept, False).conj()).real.double().sum()
    assert float((left - right).abs() / f.norm() / f_hat.norm()) < 1e-5
    if modes is None:
        there = compiled.analyse(f, shape, kept, True)
        assert error(compiled.synthesise(there, shape, kept, False), f) < TOLERANCE


@pytest.mark.parametrize(
    ("batch", "channels", "outputs", "points"), [(3, 20, 1, 77), (1, 5, 3, 64)]
)
def test_the_projection(batch, channels, outputs, points):
    v = 3 * torch.randn(batch, channels, points)
    weights = [torch.randn(16, channels), torch.randn(16), torch.randn(outputs, 16)]
    weights.append(torch.randn(outputs))
    grad = torch.randn(batch, outputs, points)
    results = []
    for dtype in (torch.float32, torch.float64):
        leaves = [tensor.to(dtype).requires_grad_() for tensor in (v, *weights)]
        x, w1, b1, w2, b2 = leaves
        if dtype == torch.float32:
            out = apply_projection(x, w1, b1, w2, b2)
        else:
            out = w2 @ functional.gelu(w1 @ x + b1[:, None]) + b2[:, None]
        results.append((out.detach(), *torch.autograd.grad((out * grad).sum(), leaves)))
    assert max(error(a, b) for a, b in zip(*results, strict=True)) < TOLERANCE


def test_gelu_is_accurate_in_both_tails():
    """Through a projection that is the identity around it."""
    z = torch.cat([torch.linspace(-12, 12, 4801), torch.tensor([0.0, 1e-30, -1e-30, 80.0, -80.0])])
    one, zero = torch.ones(1, 1), torch.zeros(1)
    given = apply_projection(z[None, None], one, zero, one, zero)[0, 0]
    expected = z.double() * 0.5 * torch.special.erfc(-z.double() / 2**0.5)
    assert float((given - expected).abs().max()) < 4e-7
    tail = (z < 0) & (z > -9)
    assert float((given / expected - 1)[tail].abs().max()) < 4e-6
    nothing = torch.full((1, 1, 3), torch.nan)
    assert torch.isnan(apply_projection(nothing, one, zero, one, zero)).all()


class TestNodes:
    """Interpolated x-factors are the network's own, and are left where they would not be."""

    def network(self, factor=1.0):
        network = PDNO(2, 1, 1, width=16, modes=6)
        with torch.no_grad():
            for operator in network.operators:
                operator.symbol.space.linear_in.weight.mul_(factor)
        return network

    def test_a_smooth_factor_is_taken_at_nodes_and_a_rough_one_is_not(self):
        grid = Grid((48, 64))
        smooth = self.network().operators[0].values_at_nodes(grid)
        assert smooth.basis is not None and len(smooth.basis) <= 12
        assert self.network(60.0).operators[0].values_at_nodes(grid).basis is None

    def test_who_looks_at_the_symbol_sees_all_points(self):
        network, grid = self.network(), Grid((48, 64))
        for operator in network.operators:
            seen, exact = operator.values(grid), operator.symbol.evaluate(grid, operator.modes)
            assert torch.equal(seen.space, exact.space)
        network.freeze(grid)
        frozen = network.operators[0].values(grid).space
        wanted = network.operators[0].symbol.evaluate(grid, 6).space
        assert error(frozen, wanted.detach()) < 1e-6

    @pytest.mark.parametrize("factor", [1.0, 2.0, 4.0, 60.0])
    def test_values_and_gradients_are_those_of_all_points(self, factor):
        network, f = self.network(factor), torch.randn(2, 1, 48, 64)
        exact = PDNO(2, 1, 1, width=16, modes=6).double()
        exact.load_state_dict(network.state_dict())
        results = []
        for one, field in ((network, f), (exact, f.double())):
            out = one(field)
            gradients = torch.autograd.grad(out.square().mean(), list(one.parameters()))
            results.append((out.detach(), torch.cat([g.flatten() for g in gradients])))
        (given, gradient), (wanted, wanted_gradient) = results
        assert error(given, wanted) < 1e-6
        assert error(gradient, wanted_gradient) < 1e-5

    @pytest.mark.parametrize("periodic", [False, True])
    def test_the_basis_interpolates(self, periodic):
        x = torch.linspace(0, 0.97, 50, dtype=torch.float64)
        basis = node_basis(tuple(x.tolist()), 12, periodic=periodic)
        y = node_points(12, periodic=periodic)
        for k in range(5):
            angle = 2 * torch.pi * k
            wave = torch.cos(angle * y) if periodic else y**k
            expected = torch.cos(angle * x) if periodic else x**k
            assert torch.allclose(wave @ basis, expected, atol=1e-12)

    def test_more_inputs_make_more_nodes_pay(self):
        few, many = (most_nodes((64, 64), (12, 12), inputs) for inputs in (8, 64))
        assert 0 <= few < many < 32


class TestManyModes:
    """On a line c is interpolated between the modes where it is smooth enough."""

    def network(self, rough=1.0):
        torch.manual_seed(0)
        network = PDNO(1, 1, 1, width=6, symbol_hidden=16, depends_on_x=False)
        network(torch.zeros(1, 1, 1024))  # settles the scale of ξ
        with torch.no_grad():
            for operator in network.operators:
                operator.symbol.real.linear_in.weight.mul_(rough)
        return network

    def test_it_is_asked_at_few_points(self, monkeypatch):
        symbol, asked = self.network().operators[0].symbol, []
        factor = symbol.frequency_factor
        monkeypatch.setattr(
            symbol, "frequency_factor", lambda xi, t: asked.append(len(xi)) or factor(xi, t)
        )
        smooth = symbol.evaluate(Grid((1024,)), smooth=True).frequency
        assert max(asked) <= 32 and len(asked) == 2
        assert error(smooth, symbol.evaluate(Grid((1024,))).frequency.detach()) < 4e-7

    def test_a_rough_one_is_asked_at_every_mode(self):
        symbol, asked = self.network(rough=100.0).operators[0].symbol, []
        factor = symbol.frequency_factor
        symbol.frequency_factor = lambda xi, t: asked.append(len(xi)) or factor(xi, t)
        symbol.evaluate(Grid((1024,)), smooth=True)
        assert asked[-1] == 513

    def test_factors_with_times_are_asked_at_few_points(self):
        torch.manual_seed(0)
        operator = PDIO(1, 1, 1, takes_time=True, frequency_scale=512.0)
        times, grid = torch.tensor([0.1, 0.9]), Grid((1024,))
        asked, whole = [], operator.symbol.space.forward
        operator.symbol.space.forward = lambda points: (
            asked.append(points.shape[-2]) or whole(points)
        )
        smooth = operator.symbol.evaluate(grid, t=times, smooth=True)
        assert max(asked) <= 32 and len(asked) == 2
        exact = operator.symbol.double().evaluate(grid, t=times)
        assert error(smooth.frequency, exact.frequency.detach()) < 1e-6
        assert error(smooth.space, exact.space.detach()) < 1e-6

    def test_gradients_are_those_of_all_modes(self):
        network, f = self.network(), torch.randn(3, 1, 1024)
        weights = torch.randn(3, 1, 1024)
        given = torch.autograd.grad((network(f) * weights).sum(), list(network.parameters()))
        double, exact = network.double(), f.double()
        wanted = torch.autograd.grad((double(exact) * weights).sum(), list(double.parameters()))
        for a, b in zip(given, wanted, strict=True):
            assert error(a, b) < 2e-5


def test_what_is_not_finite_stays_in_its_sample():
    c, f, _ = operands((16, 16), 3, 4, 4, 3)
    b = torch.randn(3, 4, 16, 16)
    with torch.no_grad():
        f[2, 0, 3, 3] = torch.nan
        out = apply_values(SymbolValues(c[None], b[None]), f, Grid((16, 16)), 3)
    assert torch.isnan(out[2]).all()
    assert torch.isfinite(out[[0, 1, 3]]).all()


def test_the_default_dtype_does_not_matter():
    c, f, _ = operands((16, 16), 3, 4, 4, 3)
    values = SymbolValues(c[None], torch.randn(1, 3, 4, 16, 16))
    torch.set_default_dtype(torch.float64)
    try:
        fast = apply_values(values, f, Grid((16, 16)), 3)
        fast.sum().backward()
    finally:
        torch.set_default_dtype(torch.float32)
    assert fast.dtype == f.grad.dtype == torch.float32
    assert error(fast, apply_straight(values, f, Grid((16, 16)), 3).detach()) < TOLERANCE


def test_a_plan_is_made_once():
    sizes = Sizes((16, 16), (None, None), 2, 1, 1)
    assert find_kernels(sizes) is find_kernels(Sizes((16, 16), (None, None), 2, 1, 1))


def test_nodes_stand_beside_axes_that_need_all_their_points():
    """A short axis keeps its points while the long one is interpolated."""
    torch.manual_seed(0)
    symbol = PDNO(2, 1, 1, width=4, modes=2).operators[0].symbol.double()
    few, full = (symbol.evaluate(Grid((4, 64)), 2, most_nodes=most) for most in (24, 0))
    assert few.basis is not None and [table.numel() for table in few.rows] == [0]
    torch.testing.assert_close(few.on_grid().space, full.space, rtol=1e-6, atol=1e-7)


class TestWrongOperands:
    """Compiled operators refuse operands of other shapes and precisions, by name."""

    c, b = torch.zeros(3, 2, 4, 3, dtype=torch.complex64), torch.zeros(3, 2, 8, 6)
    f_hat, grid = torch.zeros(2, 2, 4, 3, dtype=torch.complex64), ([8, 6], [2, 3])
    v, weights = torch.zeros(2, 3, 5), (torch.zeros(4, 3), torch.zeros(4), torch.zeros(1, 4))

    def refuse(self, name, operator, *arguments):
        with pytest.raises(ValueError, match=rf"^{name} is .*; the compiled operator needs"):
            operator(*arguments)

    def test_of_pairs_and_nodes(self):
        rest = ([], *self.grid)
        self.refuse("c", compiled.pairwise, self.c[:, :, 1:], self.b, self.f_hat, *rest)
        self.refuse("b", compiled.pairwise, self.c, self.b[..., 1:], self.f_hat, *rest)
        self.refuse("b", compiled.pairwise, self.c, self.b.double(), self.f_hat, *rest)
        self.refuse("f_hat", compiled.pairwise, self.c, self.b, self.f_hat[:, :1], *rest)
        table = torch.zeros(4, 5)
        self.refuse("basis", compiled.pairwise, self.c, self.b, self.f_hat, [table], *self.grid)
        with pytest.raises(ValueError, match="3 nodes; the compiled operator takes a multiple"):
            basis = torch.zeros(3, 6)
            compiled.pairwise(self.c, self.b[..., :3], self.f_hat, [basis], *self.grid)
        grad = torch.zeros(2, 3, 8, 5)
        operands = (self.c, self.b, self.f_hat, grad)
        self.refuse("grad", compiled.pairwise_backward, *operands, *rest)

    def test_of_sums_and_transforms(self):
        self.refuse("f_hat", compiled.contract, self.c, self.f_hat[..., 1:])
        self.refuse("c", compiled.contract, self.c.to(torch.complex128), self.f_hat)
        self.refuse("grad", compiled.contract_backward, self.c, self.f_hat, self.f_hat)
        self.refuse("f_hat", compiled.synthesise, self.f_hat[..., 1:], *self.grid, False)
        self.refuse("f", compiled.analyse, torch.zeros(2, 2, 8, 5), *self.grid, True)

    def test_of_the_projection(self):
        last = torch.zeros(1)
        self.refuse("w1", compiled.project, self.v[:, 1:], *self.weights, last)
        self.refuse("b2", compiled.project, self.v, *self.weights, torch.zeros(2))
        grad = torch.zeros(2, 2, 5)
        self.refuse("grad", compiled.project_backward, self.v, *self.weights, last, grad)

    def test_no_sample_is_no_wrong_operand(self):
        none = torch.zeros(0, 2, 4, 3, dtype=torch.complex64)
        assert compiled.pairwise(self.c, self.b, none, [], *self.grid).shape == (0, 3, 8, 6)
        gradients = compiled.pairwise_backward(
            self.c, self.b, none, torch.zeros(0, 3, 8, 6), [], *self.grid
        )
        assert not any(gradient.any() for gradient in gradients)
        assert compiled.contract(self.c, none).shape == (0, 3, 4, 3)
        assert not compiled.contract_backward(self.c, none, none.new_empty(0, 3, 4, 3))[0].any()
        assert compiled.synthesise(none, *self.grid, False).shape == (0, 2, 8, 6)
        assert compiled.project(self.v[:0], *self.weights, torch.zeros(1)).shape == (0, 1, 5)


def test_every_operator_refuses_what_does_not_fit_or_computes_it():
    """Each operand of each operator with other sizes, numbers and layouts."""
    assert wrong_operands.call_all() > 400


def test_symbols_of_users_are_refused_where_their_values_do_not_fit():
    """Values of wrong shapes, numbers and memory, on a grid, cached, and at scattered points."""
    assert wrong_symbols.call_all() > 450
