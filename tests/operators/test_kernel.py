"""The fast kernel gives the numbers of the straight formula, forward and backward."""

import itertools
import threading

import pytest
import torch

from pdno import PDIO, PDNO, Grid, PseudoDifferentialOperator, rollout
from pdno.operators import reference
from pdno.operators.kernel import apply_values
from pdno.operators.pseudo_differential import Weights, lower_rank
from pdno.operators.reference import apply_straight
from pdno.spectral.fourier import choose_method, half_weights, inverse, transform
from pdno.symbols import InputScale, LowRankSymbol, NetworkSymbol, SymbolValues

CASES = [
    ((8,), (3,)),
    ((9,), None),
    ((8, 10), (3, 4)),
    ((8, 10), (4, 6)),
    ((7, 9), None),
    ((8, 8), None),
    ((9, 8), (4, 3)),
    ((8, 8), (None, 3)),
    ((6, 8, 10), (2, 3, 4)),
    ((7, 6, 5), None),
]
METHODS = ["fft", "matrix"]


def random_values(shape, modes, *, space, rank=1, outputs=3, inputs=2, dtype=torch.float64):
    kept = Grid(shape).modes(modes).shape[:-1]
    c = torch.randn(rank, outputs, inputs, *kept, dtype=dtype.to_complex(), requires_grad=True)
    if space is None:
        return SymbolValues(c)
    j, i = space
    b = torch.randn(rank, j, i, *shape, dtype=dtype, requires_grad=True)
    return SymbolValues(c, b)


@pytest.mark.parametrize(("shape", "modes"), CASES)
class TestTransforms:
    def coefficients(self, shape, modes):
        return torch.randn(2, *Grid(shape).modes(modes).shape[:-1], dtype=torch.complex128)

    def test_both_ways_agree(self, shape, modes):
        c = self.coefficients(shape, modes)
        f = torch.randn(2, *shape, dtype=torch.float64)
        fft, matrix = (inverse(c, shape, modes, method=method) for method in METHODS)
        assert torch.allclose(fft, matrix, atol=1e-12)
        fft, matrix = (transform(f, len(shape), modes, method=method) for method in METHODS)
        assert torch.allclose(fft, matrix, atol=1e-13)

    @pytest.mark.parametrize("method", METHODS)
    def test_the_transpose_is_the_adjoint(self, shape, modes, method):
        c = self.coefficients(shape, modes)
        q = torch.randn(2, *shape, dtype=torch.float64)
        left = (inverse(c, shape, modes, method=method) * q).sum()
        kept = modes[-1] if modes else None
        weights = half_weights(shape[-1], kept, torch.float64, q.device) * q[0].numel()
        transposed = transform(q, len(shape), modes, method=method) * weights
        assert torch.allclose(left, (c * transposed.conj()).real.sum(), atol=1e-11)


@pytest.mark.parametrize(("shape", "modes"), [case for case in CASES if len(case[0]) < 3])
@pytest.mark.parametrize("method", METHODS)
def test_gradients_of_gradients(shape, modes, method):
    f = torch.randn(*shape, dtype=torch.float64, requires_grad=True)

    def there_and_back(g):
        return inverse(transform(g, len(shape), modes, method=method), shape, modes, method=method)

    assert torch.autograd.gradcheck(there_and_back, f)
    assert torch.autograd.gradgradcheck(there_and_back, f)


@pytest.mark.parametrize(("shape", "modes"), CASES)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("budget", [1, 3 * 8 * 64, 2**22])
@pytest.mark.parametrize(
    ("space", "rank"), [(None, 1), ((3, 2), 1), ((1, 2), 1), ((3, 2), 2), ((3, 1), 2), ((1, 1), 3)]
)
def test_values_and_gradients_are_those_of_the_straight_formula(
    shape, modes, method, budget, space, rank, monkeypatch
):
    monkeypatch.setattr(reference, "BUDGET", budget)
    grid = Grid(shape)
    values = random_values(shape, modes, space=space, rank=rank)
    f = torch.randn(4, 2, *shape, dtype=torch.float64, requires_grad=True)
    weights = torch.randn(4, 3, *shape, dtype=torch.float64)
    leaves = [values.frequency, f] + ([] if values.space is None else [values.space])
    straight = apply_straight(values, f, grid, modes)
    fast = apply_values(values, f, grid, modes, method=method)
    assert torch.allclose(fast, straight, atol=1e-11)
    expected = torch.autograd.grad((straight * weights).sum(), leaves)
    given = torch.autograd.grad((fast * weights).sum(), leaves)
    for a, b in zip(given, expected, strict=True):
        assert torch.allclose(a, b, atol=1e-11)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("needed", list(itertools.product([True, False], repeat=3))[:-1])
def test_gradients_of_any_subset(method, needed):
    values = random_values((6, 5), (2, 2), space=(3, 2))
    f = torch.randn(2, 2, 6, 5, dtype=torch.float64, requires_grad=True)
    leaves = [values.frequency, values.space, f]
    for leaf, need in zip(leaves, needed, strict=True):
        leaf.requires_grad_(need)
    wanted = [leaf for leaf, need in zip(leaves, needed, strict=True) if need]
    grid = Grid((6, 5))
    fast, straight = (
        torch.autograd.grad(way(values, f, grid, (2, 2)).square().sum(), wanted)
        for way in (lambda *a: apply_values(*a, method=method), apply_straight)
    )
    for a, b in zip(fast, straight, strict=True):
        assert torch.allclose(a, b, atol=1e-11)


@pytest.mark.parametrize("modes", [12, None])
def test_float32_agrees_with_the_straight_formula(modes):
    grid = Grid((64, 64))
    values = random_values((64, 64), modes, space=(4, 5), outputs=4, inputs=5, dtype=torch.float32)
    f = torch.randn(3, 5, 64, 64, requires_grad=True)
    leaves = [values.frequency, values.space, f]
    results = {}
    for name, way in (("fast", apply_values), ("straight", apply_straight)):
        out = way(values, f, grid, modes)
        results[name] = out, torch.autograd.grad(out.square().mean(), leaves)
    (fast, fast_gradients), (straight, straight_gradients) = results.values()
    assert float(((fast - straight).norm() / straight.norm()).detach()) < 1e-5
    for a, b in zip(fast_gradients, straight_gradients, strict=True):
        assert float((a - b).norm() / b.norm()) < 1e-4


def test_few_modes_are_multiplied_and_many_are_transformed():
    assert choose_method((64, 64), 12) == "matrix"
    assert choose_method((64, 64), None) == "fft"
    assert choose_method((512, 512), 12) == "matrix"
    assert choose_method((64, 64), 12, "fft") == "fft"


def test_contraction_is_the_sum_over_inputs():
    c = torch.randn(4, 3, 5, 2, dtype=torch.complex128)
    f_hat = torch.randn(2, 3, 5, 2, dtype=torch.complex128)
    expected = torch.einsum("jikl,bikl->bjkl", c, f_hat)
    assert torch.allclose(reference.contract(c, f_hat), expected, atol=1e-13)


class TestLowRank:
    def test_a_large_rank_a_few_terms_at_a_time(self, monkeypatch):
        from pdno.operators import kernel

        monkeypatch.setattr(kernel, "LOW_RANK_BUDGET", 1)
        values = random_values((6, 8), (2, 3), space=(3, 1), rank=5)
        f = torch.randn(2, 2, 6, 8, dtype=torch.float64, requires_grad=True)
        leaves = [values.frequency, values.space, f]
        fast, straight = (
            way(values, f, Grid((6, 8)), (2, 3)) for way in (apply_values, apply_straight)
        )
        assert torch.allclose(fast, straight, atol=1e-12)
        for a, b in zip(
            torch.autograd.grad(fast.square().sum(), leaves),
            torch.autograd.grad(straight.square().sum(), leaves),
            strict=True,
        ):
            assert torch.allclose(a, b, atol=1e-10)


class TestFreezing:
    def network(self):
        torch.manual_seed(1)
        return PDNO(2, 3, 1, width=6, modes=4).double()

    def test_frozen_is_the_same_and_unfrozen_again(self):
        network, f = self.network(), torch.randn(2, 3, 16, 16, dtype=torch.float64)
        with torch.no_grad():
            expected = network(f)
            report = network.freeze(Grid((16, 16)))
            assert [layer.error for layer in report] == [0.0] * 4
            assert torch.equal(network(f), expected)
            network.unfreeze()
            assert torch.equal(network(f), expected)

    @pytest.mark.parametrize(
        "change",
        [
            lambda p: p.mul_(2),
            lambda p: p.data.mul_(2),
            lambda p: p.data.neg_(),
            lambda p: p.copy_(p.flip(0)),
        ],
    )
    def test_changed_weights_are_noticed_however_they_are_written(self, change):
        network, f = self.network(), torch.randn(1, 3, 16, 16, dtype=torch.float64)
        with torch.no_grad():
            network.freeze(Grid((16, 16)))
            before = network(f)
            change(network.operators[1].symbol.real.linear_out.weight)
            after = network(f)
            network.unfreeze()
            assert torch.equal(after, network(f))
            assert not torch.allclose(after, before)

    def test_other_grids_and_gradients_do_not_use_frozen_values(self):
        network = self.network()
        network.freeze(Grid((16, 16)))
        f = torch.randn(1, 3, 16, 16, dtype=torch.float64)
        network(f).sum().backward()
        assert network.operators[0].symbol.real.linear_in.weight.grad.abs().max() > 0
        with torch.no_grad():
            assert network(torch.randn(1, 3, 12, 12, dtype=torch.float64)).shape[-1] == 12

    def test_truncation_keeps_its_promise_and_reports_it(self):
        values = random_values((12, 12), (3, 3), space=(4, 6), outputs=4, inputs=6)
        x = Grid((12, 12)).points()
        smooth = torch.stack([torch.cos(k * x[..., 0] / 3 + k) for k in range(24)])
        values = SymbolValues(values.frequency.detach(), smooth.reshape(1, 4, 6, 12, 12))
        previous = 7
        for tolerance in (1e-8, 1e-4, 1e-1):
            lowered, report = lower_rank(values, tolerance)
            assert report.error <= tolerance
            assert report.rank <= previous
            previous = report.rank
            f = torch.randn(2, 6, 12, 12, dtype=torch.float64)
            exact = apply_straight(values, f, Grid((12, 12)), (3, 3))
            low = apply_values(lowered, f, Grid((12, 12)), (3, 3))
            assert float((low - exact).norm() / exact.norm()) < 20 * tolerance + 1e-12
        assert previous < 6

    def test_networks_with_time_are_not_frozen(self):
        with pytest.raises(ValueError, match="time"):
            PDNO(1, 1, 1, width=2, takes_time=True).freeze(Grid((8,)))


class TestRollout:
    def setup_method(self):
        torch.manual_seed(0)
        self.network = PDNO(2, 3, 1, width=4, modes=3).double()
        self.window = torch.randn(2, 3, 8, 8, dtype=torch.float64)

    def gradients(self, frames):
        self.network.zero_grad()
        frames.square().sum().backward()
        return [parameter.grad.clone() for parameter in self.network.parameters()]

    def by_hand(self):
        window, frames = self.window, []
        for _ in range(4):
            frames.append(self.network(window))
            window = torch.cat([window[:, 1:], frames[-1]], dim=1)
        return torch.stack(frames, dim=1)

    @pytest.mark.parametrize("recompute", [False, True])
    def test_shared_symbols_change_nothing(self, recompute):
        frames = rollout(self.network, self.window, 4, recompute=recompute)
        by_hand = self.by_hand()
        assert torch.allclose(frames, by_hand, atol=1e-12)
        for a, b in zip(self.gradients(frames), self.gradients(by_hand), strict=True):
            assert torch.allclose(a, b, atol=1e-10)

    def test_symbols_are_evaluated_once_per_rollout(self, monkeypatch):
        calls = []
        evaluate = NetworkSymbol.evaluate

        def counted(self, *arguments, **options):
            calls.append(self)
            return evaluate(self, *arguments, **options)

        monkeypatch.setattr(NetworkSymbol, "evaluate", counted)
        rollout(self.network, self.window, 5)
        assert len(calls) == 4

    def test_autocast(self):
        network = PDNO(1, 2, 1, width=2)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert torch.isfinite(rollout(network, torch.randn(1, 2, 8), 2)).all()


def test_low_rank_symbols_use_the_cheap_way(monkeypatch):
    symbol = LowRankSymbol(4, 4, scale=InputScale(1, 1.0, 2.0), rank=2)

    def refuse(*arguments):
        raise AssertionError("a low-rank symbol needs no pairs")

    monkeypatch.setattr("pdno.operators.kernel._sum_pairs", refuse)
    values = symbol.evaluate(Grid((16,)), 4)
    f = torch.randn(2, 4, 16)
    out = apply_values(values, f, Grid((16,)), 4)
    assert torch.allclose(out, apply_straight(values, f, Grid((16,)), 4), atol=1e-5)


class TestShapes:
    """Values that do not fit the fields are refused before anything compiled reads them."""

    def refuse(self, c, b, match, *, basis=None, dtype=torch.float32):
        values = SymbolValues(c.to(dtype.to_complex()), None if b is None else b.to(dtype), basis)
        with pytest.raises(ValueError, match=match):
            apply_values(values, torch.randn(2, 3, 32, 32, dtype=dtype), Grid((32, 32)), 4)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_of_wrong_sizes(self, dtype):
        c = torch.zeros(1, 2, 3, 8, 4)
        good = torch.zeros(1, 2, 3, 32, 32)
        space = r"space factor .* \(1, 2, 3, 8, 8\); expected \(1, 2, 3, 32, 32\)"
        self.refuse(c, torch.zeros(1, 2, 3, 8, 8), space, dtype=dtype)
        self.refuse(c, torch.zeros(1, 2, 2, 32, 32), "space factor", dtype=dtype)
        self.refuse(c, torch.zeros(2, 3, 32, 32), "space factor", dtype=dtype)
        self.refuse(torch.zeros(1, 2, 3, 8, 5), good, r"frequency factor .* 8, 5\)", dtype=dtype)
        self.refuse(
            torch.zeros(1, 2, 5, 8, 4),
            None,
            r"f has .*expected \(B, 5, 32, 32\): channels first",
            dtype=dtype,
        )
        self.refuse(torch.zeros(2, 3, 8, 4), good, "frequency factor", dtype=dtype)

    def test_of_nodes(self):
        c, basis = torch.zeros(1, 2, 3, 8, 4), torch.zeros(8, 32)
        self.refuse(c, torch.zeros(1, 2, 3, 32, 4), "space factor", basis=basis)

    def test_of_a_symbol_of_the_user(self):
        class Coarse(NetworkSymbol):
            def evaluate(self, grid, modes=None, t=None, **options):
                values = super().evaluate(grid, modes, t)
                return SymbolValues(values.frequency, values.space[..., ::4, ::4])

        operator = PseudoDifferentialOperator(Coarse(2, 2, scale=InputScale(2, 1.0, 2.0)), 4)
        with pytest.raises(ValueError, match=r"\(1, 2, 2, 8, 8\); expected \(1, 2, 2, 32, 32\)"):
            operator(torch.randn(1, 2, 32, 32))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "operator",
    [
        PDNO(1, 1, 1, width=4),
        PDIO(1, 1, 1),
        PseudoDifferentialOperator(NetworkSymbol(1, 1, scale=InputScale(1, 1.0, 2.0)), 2),
        PseudoDifferentialOperator(LowRankSymbol(1, 1, scale=InputScale(1, 1.0, 2.0)), 2),
    ],
    ids=["PDNO", "PDIO", "pairs", "low rank"],
)
def test_an_empty_batch_is_refused(operator, dtype):
    with pytest.raises(ValueError, match="the batch is empty: give at least one sample"):
        operator.to(dtype)(torch.empty(0, 1, 16, dtype=dtype))


def test_replaced_values_are_read_once(monkeypatch):
    """A cache that another thread fills for another grid does not change a prediction."""
    symbol = NetworkSymbol(1, 1, scale=InputScale(1, 1.0, 2.0))
    operator, grid = PseudoDifferentialOperator(symbol, 2), Grid((8,))
    with torch.no_grad():
        expected, unchanged = operator.values_at_nodes(grid), Weights.unchanged

        def replaced(weights):
            monkeypatch.undo()
            operator.cache_values(Grid((12,)))
            return unchanged(weights)

        monkeypatch.setattr(Weights, "unchanged", replaced)
        assert operator.values_at_nodes(grid) is expected


class TestWeightsThatChange:
    """Values that were evaluated while weights were written are not kept."""

    def setup_method(self):
        torch.manual_seed(0)
        self.network, other = (PDNO(1, 1, 1, width=3, modes=4) for _ in range(2))
        self.old = {name: value.clone() for name, value in self.network.state_dict().items()}
        self.new, self.f = other.state_dict(), torch.randn(2, 1, 16)
        with torch.no_grad():
            self.expected = self.network(self.f)

    @pytest.mark.parametrize("within", [True, False])
    def test_and_change_back(self, within, monkeypatch):
        evaluate = NetworkSymbol.evaluate

        def change(symbol, *arguments, **options):
            self.network.load_state_dict(self.new)
            values = evaluate(symbol, *arguments, **options)
            if within:
                self.network.load_state_dict(self.old)
            return values

        monkeypatch.setattr(NetworkSymbol, "evaluate", change)
        self.network.freeze(Grid((16,)))
        monkeypatch.setattr(NetworkSymbol, "evaluate", evaluate)
        self.network.load_state_dict(self.old)
        with torch.no_grad():
            assert torch.equal(self.network(self.f), self.expected)

    def test_in_several_threads(self):
        """Predictions are right while grids are frozen and weights are loaded, and after it."""
        grids = [Grid((16,)), Grid((24,)), Grid((16,))]
        fields = [torch.randn(2, 1, *grid.shape) for grid in grids]
        with torch.no_grad():
            expected = [self.network(f) for f in fields]
        done, wrong = threading.Event(), []

        @torch.no_grad()
        def predict(f, right):
            while not done.is_set():
                out = self.network(f)
                if out.shape != right.shape or not torch.allclose(out, right, atol=1e-5):
                    wrong.append(out)

        threads = [
            threading.Thread(target=predict, args=pair)
            for pair in zip(fields, expected, strict=True)
        ]
        for thread in threads:
            thread.start()
        for turn in range(150):
            self.network.freeze(grids[turn % 2])
            self.network.load_state_dict(self.old)
            if turn % 5 == 0:
                self.network.unfreeze()
        done.set()
        for thread in threads:
            thread.join()
        assert not wrong
        for turn in range(20):
            self.network.load_state_dict(self.new if turn % 2 else self.old)
        self.network.load_state_dict(self.old)
        with torch.no_grad():
            assert torch.allclose(self.network(fields[1]), expected[1], atol=1e-5)
