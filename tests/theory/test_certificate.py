"""The certificate finds the true orders, and what a careful reader finds: rays, kinks, seams."""

import itertools
import math

import numpy as np
import pytest
import torch

from pdno import PDNO, Grid, apply_symbol, certify
from pdno.symbols import (
    ACTIVATIONS,
    Advection,
    ClassicalSymbol,
    Derivative,
    FractionalLaplacian,
    FullSymbol,
    HeatSymbol,
    InputScale,
    LowRankSymbol,
    Multiplication,
    NetworkSymbol,
    Resolvent,
    TableSymbol,
    Wave,
)
from pdno.theory import evaluate_at

PI = math.pi
SMOOTH = [name for name, entry in ACTIVATIONS.items() if entry.order is not None]


def network(dim, seed, *, kind=NetworkSymbol, scale=1.0, channels=2, **options):
    torch.manual_seed(seed)
    return kind(channels, channels, scale=InputScale(dim, 1.0, scale), **options)


def norm(xi):
    return xi.square().sum(dim=-1).sqrt()


def weighted_difference(symbol, xi, alpha, order, steps, **options):
    """max over pairs of |Δ_h^α a(ξ)| / h^|α| ⟨ξ⟩^{|α|-m}, written out by itself."""
    total, step = 0.0, torch.tensor(steps, dtype=torch.float64).expand(len(xi))
    for gamma in itertools.product(*(range(a + 1) for a in alpha)):
        sign = math.prod(
            (-1) ** (a - g) * math.comb(a, g) for a, g in zip(alpha, gamma, strict=True)
        )
        shifted = xi + step[:, None] * torch.tensor(gamma, dtype=torch.float64)
        nowhere = torch.full((1, xi.shape[-1]), 0.3, dtype=torch.float64)
        total = total + sign * evaluate_at(symbol, nowhere, shifted, **options)
    size = total.abs().amax(dim=(0, 1, 2)) / step ** sum(alpha)
    return size * (1 + norm(xi) ** 2) ** (0.5 * (sum(alpha) - order))


# Formulas


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize(
    ("symbol", "order"),
    [
        (Resolvent(2.0), -2.0),
        (FractionalLaplacian(0.3), 0.6),
        (FractionalLaplacian(1.0), 2.0),
        (FractionalLaplacian(-0.5), -1.0),
        (Multiplication(lambda x: torch.exp(torch.cos(2 * PI * x).sum(dim=-1))), 0.0),
    ],
    ids=str,
)
def test_formulas_have_their_orders(dim, symbol, order):
    certificate = certify(symbol, order, dim=dim)
    assert certificate.accepted and certificate.witness is None
    assert certificate.order == pytest.approx(order, abs=0.01)
    if dim == 1:
        assert certify(symbol, order + 1, dim=dim).accepted  # classes are nested
        below = certify(symbol, order - 0.5, dim=dim)
        assert not below.accepted and below.witness.kind == "growth"


@pytest.mark.parametrize("alpha", [(1,), (3,), (1, 0), (2, 1), (0, 1, 1)])
def test_derivatives_have_their_orders(alpha):
    certificate = certify(Derivative(alpha), sum(alpha))
    assert certificate.accepted and certificate.order == pytest.approx(sum(alpha), abs=0.01)
    assert certify(Derivative(alpha)).requested == pytest.approx(sum(alpha), abs=0.01)


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("order", [-30.0, 0.0, 2.0])
def test_heat_is_of_every_order(dim, order):
    certificate = certify(HeatSymbol(0.05), order, dim=dim, t=0.2)
    assert certificate.accepted and certificate.order == -math.inf
    assert "every order" in certificate.reasons[0]
    assert not certify(HeatSymbol(0.05), -1.0, dim=dim, t=0.0).accepted  # the identity


@pytest.mark.parametrize(("symbol", "dim"), [(Advection((0.7,)), 1), (Wave(), 1), (Wave(), 2)])
def test_waves_are_bounded_but_their_differences_do_not_decay(symbol, dim):
    certificate = certify(symbol, 0.0, dim=dim, t=0.3)
    assert not certificate.accepted and certificate.order == pytest.approx(0, abs=0.01)
    assert certificate.witness.kind == "differences" and sum(certificate.witness.alpha) == 1


def test_full_symbols_are_symbols():
    full = FullSymbol(lambda x, xi: (1 + norm(xi) ** 2)[None, None].expand(1, 1, len(x), -1))
    assert certify(full, 2.0, dim=1).accepted and not certify(full, 1.0, dim=1).accepted


def test_a_shift_by_a_whole_period_is_the_identity():
    """e^{-2πi v ξ t} = 1 on the lattice for integer vt, however it is rounded."""
    assert certify(Advection((1.0,)), 0.0, t=1.0).accepted


def test_seminorms_are_the_suprema():
    """⟨ξ⟩^-2 · 2πi ξ has |a| ⟨ξ⟩ <= 2π and |Δa| ⟨ξ⟩² of known size at the origin."""
    certificate = certify(lambda x, xi: 2j * PI * xi[..., 0] / (1 + norm(xi) ** 2), -1.0, dim=1)
    assert certificate.accepted
    assert certificate.seminorms[(0,), (0,)] == pytest.approx(2 * PI, rel=1e-6)
    xi = torch.arange(-300.0, 300.0, dtype=torch.float64)
    a = xi / (1 + xi**2)
    expected = (2 * PI * (a[1:] - a[:-1]).abs() * (1 + xi[:-1] ** 2)).max()
    assert certificate.seminorms[(1,), (0,)] == pytest.approx(expected.item(), rel=1e-6)
    assert certificate.seminorms[(2,), (1,)] < 1e-2  # no x


def test_seminorms_of_x_derivatives():
    def symbol(x, xi):
        return torch.sin(2 * PI * x[..., 0]) * (1 + norm(xi) ** 2).sqrt()

    certificate = certify(symbol, 1.0, dim=2)
    assert certificate.accepted and certificate.periodic and certificate.smooth
    # x is sampled at a few points only, the factor 2π between the derivatives is exact
    first, second = (certificate.seminorms[(0, 0), (beta, 0)] for beta in (0, 2))
    assert second / first == pytest.approx(4 * PI**2, rel=1e-3)
    assert certificate.seminorms[(0, 0), (0, 1)] < 1e-6


# What is no symbol


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_exponential_growth_is_refused(dim):
    certificate = certify(lambda x, xi: torch.exp(0.01 * norm(xi)), 5.0, dim=dim)
    assert not certificate.accepted and certificate.order == math.inf
    assert "faster than every power" in certificate.reasons[0]


@pytest.mark.parametrize(
    "normal", [(1.0, math.sqrt(2)), (1.0, 0.0), (1.0, math.sqrt(2), -PI)], ids=str
)
@pytest.mark.parametrize("offset", [0.0, 2.3, 40.0])
def test_a_jump_along_a_hyperplane_is_found_wherever_it_lies(normal, offset):
    w = torch.tensor(normal, dtype=torch.float64)

    def symbol(x, xi):
        return torch.sign(xi @ w - offset)

    certificate = certify(symbol, 0.0, dim=len(normal))
    witness = certificate.witness
    assert not certificate.accepted and sum(witness.alpha) == 1
    last = torch.tensor(witness.points[-1], dtype=torch.float64)
    assert (last @ w - offset).abs() < 2 * w.norm() and last.norm() > 1e5


def test_other_thin_sets_are_found():
    curve = certify(lambda x, xi: torch.tanh(xi[..., 0] - xi[..., 1].abs().sqrt()), 0.0, dim=2)
    assert not curve.accepted
    ray = certify(lambda x, xi: torch.exp(-((xi[..., 0] - 0.5 * xi[..., 1]) ** 2) / 4), 0.0, dim=2)
    assert not ray.accepted
    cone = certify(lambda x, xi: (xi.amin(dim=-1) > 0).double(), 0.0, dim=2)
    assert not cone.accepted


def test_rough_functions_are_refused():
    def rough(x, xi):
        return torch.frac(torch.sin(xi @ torch.tensor([12.9898, 78.233]).double()) * 43758.5453)

    certificate = certify(rough, 0.0, dim=2)
    assert not certificate.accepted and certificate.witness.kind == "differences"


def test_types_below_one_are_refused():
    """cos |ξ|^{1/2} is in S^0_{1/2,0} and not in S^0_{1,0}."""
    certificate = certify(lambda x, xi: torch.cos((1 + norm(xi) ** 2) ** 0.25), 0.0, dim=2)
    assert not certificate.accepted
    assert certificate.growth[(0, 1), (0, 0)] == pytest.approx(-0.5, abs=0.1)


def test_x_derivatives_that_grow_are_refused():
    def symbol(x, xi):
        return torch.cos(2 * PI * x[..., 0] * torch.floor((1 + norm(xi)) ** 0.25))

    certificate = certify(symbol, 0.0, dim=1)
    assert not certificate.accepted and sum(certificate.witness.beta) > 0


# Networks of ξ


@pytest.mark.parametrize("activation", SMOOTH)
@pytest.mark.parametrize("seed", range(4))
def test_networks_of_one_frequency_are_accepted(activation, seed):
    symbol = network(
        1, seed, scale=(1.0, 4.0, 16.0, 64.0)[seed], activation=activation, depends_on_x=False
    )
    order = ACTIVATIONS[activation].order
    certificate = certify(symbol, order)
    assert certificate.accepted, str(certificate)
    assert certificate.order == pytest.approx(order, abs=0.01) and certificate.periodic is None


@pytest.mark.parametrize(
    ("activation", "dim", "seed", "scale"),
    [(name, 2, seed, (1.0, 8.0)[seed % 2]) for seed, name in enumerate(SMOOTH)]
    + [("gelu", 2, 7, 8.0), ("gelu", 3, 2, 4.0), ("tanh", 3, 3, 1.0)],
)
def test_networks_of_several_frequencies_are_refused_with_a_real_witness(
    activation, dim, seed, scale
):
    """Along the witness the weighted difference grows, as computed by other means."""
    symbol = network(dim, seed, scale=scale, activation=activation, depends_on_x=False)
    order = ACTIVATIONS[activation].order
    certificate = certify(symbol, order)
    assert not certificate.accepted and certificate.order == pytest.approx(order, abs=0.02)
    witness = certificate.witness
    assert witness.kind == "differences" and sum(witness.alpha) == order + 1
    xi = torch.tensor(witness.points, dtype=torch.float64)
    assert torch.equal(xi, xi.round()) and norm(xi[-1:]).item() > 1e5
    sizes = weighted_difference(symbol, xi, witness.alpha, order, witness.steps)
    assert sizes.numpy() == pytest.approx(np.array(witness.values), rel=1e-3)
    assert sizes[-1] > 10 * sizes[-3] > 0
    # a generic ray shows nothing of it
    generic = (xi[-1].norm() * torch.nn.functional.normalize(torch.randn(8, dim), dim=1)).round()
    beside = weighted_difference(symbol, generic.double(), witness.alpha, order, witness.steps[-1])
    assert beside.median() < 1e-3 * sizes[-1]


def test_networks_with_time_are_judged_at_one_time():
    one, two = (network(dim, 0, depends_on_x=False, takes_time=True) for dim in (1, 2))
    assert certify(one, 1.0, t=0.7).accepted
    witness = certify(two, 1.0, t=0.7).witness
    xi = torch.tensor(witness.points, dtype=torch.float64)
    sizes = weighted_difference(two, xi, witness.alpha, 1.0, witness.steps, t=0.7)
    assert sizes.numpy() == pytest.approx(np.array(witness.values), rel=1e-3)
    assert sum(witness.alpha) == 2 and sizes[-1] > 10 * sizes[-3] > 0


@pytest.mark.parametrize("seed", range(3))
def test_the_rays_are_found_in_a_black_box_too(seed):
    symbol = network(2, seed, depends_on_x=False).double()

    def black_box(x, xi):
        values = symbol.evaluate_at(torch.zeros(1, 2), xi[0]).frequency[0]
        return values.unsqueeze(2).expand(-1, -1, len(x), -1).detach()

    certificate = certify(black_box, 1.0, dim=2)
    assert not certificate.accepted and sum(certificate.witness.alpha) == 2


def test_one_bad_pair_among_many_is_found():
    def symbol(x, xi):
        good = 1 / (1 + norm(xi) ** 2)
        bad = 1e-3 * torch.tanh(xi[..., 0] - 1.4 * xi[..., 1])
        pairs = [good.expand(len(x), -1)] * 15 + [bad.expand(len(x), -1)]
        return torch.stack(pairs).unflatten(0, (4, 4))

    assert not certify(symbol, 0.0, dim=2).accepted


def test_relu_fails_for_its_kinks():
    """On the lattice a ReLU network of one frequency passes, on R it does not."""
    symbol = network(1, 0, activation="relu", depends_on_x=False)
    certificate = certify(symbol, 1.0)
    witness = certificate.witness
    assert not certificate.accepted and witness.kind == "kink in ξ" and not certificate.smooth
    (kink,) = witness.points[0]
    layers = (symbol.real, symbol.imaginary)
    bends = torch.cat([-m.linear_in.bias / m.linear_in.weight[:, 0] for m in layers])
    second = evaluate_at(
        symbol, torch.zeros(1, 1), torch.tensor([[kink - 1e-4], [kink], [kink + 1e-4]])
    )
    quotient = (second[..., 2] - 2 * second[..., 1] + second[..., 0]).abs().max() / 1e-8
    assert quotient > 100 or (bends - kink).abs().min() < 1e-3
    assert certify(symbol, 1.0, frequencies="integer").accepted


# x


@pytest.mark.parametrize("kind", [NetworkSymbol, LowRankSymbol])
def test_networks_of_x_jump_at_the_seam(kind):
    symbol = network(1, 0, kind=kind)
    certificate = certify(symbol, 1.0)
    assert not certificate.accepted and certificate.periodic is False
    assert certificate.witness.kind == "seam" and "x_1 = 0 and 1" in certificate.reasons[0]
    ends = evaluate_at(symbol, torch.tensor([[0.0], [1.0]]), torch.tensor([[5.0]]))
    assert (ends[:, :, 0] - ends[:, :, 1]).abs().max() > 1e-3
    inside = certify(symbol, 1.0, space="box")
    assert inside.accepted and inside.periodic is False


@pytest.mark.parametrize(
    ("function", "kind"),
    [
        (lambda x: (x[..., 0] - 0.3).abs() * (1 - x[..., 0]) * x[..., 0], "kink in x"),
        (lambda x: (torch.sin(2 * PI * x[..., 0]) > 0.5).double(), "kink in x"),
        (lambda x: x[..., 0], "seam"),
        (lambda x: x[..., 0] * (1 - x[..., 0]), "seam"),
        (lambda x: (x[..., 0] * (1 - x[..., 0])) ** 2 * (x[..., 0] + 1), "seam"),
    ],
)
def test_functions_that_are_not_smooth_on_the_torus(function, kind):
    certificate = certify(Multiplication(function), 0.0, dim=1)
    assert not certificate.accepted and certificate.witness.kind == kind


# Tables


def test_tables_are_of_every_order_and_rough():
    torch.manual_seed(0)
    symbol = TableSymbol(2, 3, modes=(6, 5))
    certificate = certify(symbol, 0.0)
    assert certificate.accepted and certificate.order == -math.inf
    assert certify(symbol, -7.0).accepted
    assert "a table: zero where some |ξ_j| > 6" in certificate.reasons[0]
    smooth = TableSymbol(2, 3, modes=(6, 5))
    xi = Grid((16, 16)).modes((6, 5)).double() / 6
    with torch.no_grad():
        smooth.table.zero_()
        smooth.table[..., 0] = torch.exp(-4 * xi.square().sum(dim=-1))
    tame = certify(smooth, 0.0).seminorms
    for alpha in [(1, 0), (0, 2), (1, 2)]:
        rough = certificate.seminorms[alpha, (0, 0)] / certificate.seminorms[(0, 0), (0, 0)]
        assert rough > 2 * tame[alpha, (0, 0)] / tame[(0, 0), (0, 0)]
    with pytest.raises(ValueError, match="lives on the lattice: give frequencies='integer'"):
        certify(symbol, 0.0, frequencies="real")


def test_tables_are_known_by_what_acts():
    """Values on the whole lattice, from the half that is stored: the operator is the same."""
    symbol, grid = TableSymbol(1, 1, modes=(3, 3)), Grid((9, 9))
    xi = grid.modes(half=False).reshape(-1, 2).double()
    a = evaluate_at(symbol, torch.zeros(1, 2), xi)[0, 0, 0].reshape(9, 9)
    f = torch.randn(1, 1, 9, 9, dtype=torch.float64)
    waves = torch.exp(2j * PI * (grid.points().reshape(-1, 2) @ xi.T))
    f_hat = f.flatten().to(waves) @ waves.conj() / 81
    out = (waves * a.flatten()) @ f_hat
    expected = apply_symbol(symbol, f, grid, modes=(3, 3)).flatten()
    assert out.imag.abs().max() < 1e-14 and torch.allclose(out.real, expected, atol=1e-7)


# Provable symbols


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("order", [-2.0, 0.0, 1.0])
@pytest.mark.parametrize("seed", range(2))
def test_classical_symbols_are_accepted_whatever_their_weights(dim, order, seed):
    symbol = network(
        dim, seed, kind=ClassicalSymbol, scale=(1.0, 8.0)[seed], order=order,
        depends_on_x=seed == 0,
    )  # fmt: skip
    with torch.no_grad():
        for parameter in symbol.parameters():
            parameter.mul_(1.5)
    certificate = certify(symbol, order)
    assert certificate.accepted, str(certificate)
    assert certificate.order == pytest.approx(order, abs=0.1)
    if dim == 1:
        assert not certify(symbol, order - 0.5).accepted


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_classical_symbols_are_accepted_after_training(dim):
    torch.manual_seed(dim)
    shape = {1: (32,), 2: (12, 12), 3: (6, 6, 6)}[dim]
    model = PDNO(dim, 1, 1, width=4, layers=2, symbol="classical", order=1.0, symbol_hidden=16)
    inputs = torch.randn(8, 1, *shape)
    targets = apply_symbol(FractionalLaplacian(0.25), inputs)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(25):
        loss = (model(inputs) - targets).square().mean() / targets.square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]
    for operator in model.operators:
        certificate = certify(operator.symbol, 1.0)
        assert certificate.accepted, str(certificate)
        assert certificate.order == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(
    "structure",
    [
        {"elliptic": True},
        {"self_adjoint": True},
        {"dissipative": True},
        {"dissipative": True, "elliptic": True, "self_adjoint": True},
    ],
    ids=str,
)
def test_structured_classical_symbols_are_accepted(structure):
    symbol = network(
        2, 0, kind=ClassicalSymbol, scale=4.0, order=1.0, depends_on_x=False, **structure
    )
    certificate = certify(symbol, 1.0)
    assert certificate.accepted and certificate.order == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize(("generator", "order"), [(0.0, 0.0), (2.0, -math.inf)])
def test_exponentials_of_generators_are_accepted(generator, order):
    symbol = network(
        2, 0, kind=ClassicalSymbol, scale=4.0, order=generator, depends_on_x=False, takes_time=True
    )
    certificate = certify(symbol, 0.0, t=0.4)
    assert certificate.accepted and certificate.order == pytest.approx(order, abs=0.01)


@pytest.mark.parametrize("factor", [1.0, 30.0])
def test_a_theorem_does_not_depend_on_the_weights(factor):
    """Proven from the order on; what is asked beyond it is judged by numbers."""
    symbol = network(1, 0, kind=ClassicalSymbol, scale=4.0, order=1.0)
    with torch.no_grad():
        for parameter in symbol.parameters():
            parameter.mul_(factor)
    for order in (1.0, 2.0, None):
        certificate = certify(symbol, order)
        assert certificate.accepted and (certificate.proof == "theorem" or order is None)
        assert certificate.seminorms[(0,), (0,)] > 0
    below = certify(symbol, 0.5)
    assert below.assessment != "accepted" and below.proof == "evidence"
    with torch.no_grad():
        symbol.real.linear_out.bias[0] = math.nan
    broken = certify(symbol, 1.0)
    assert broken.assessment == "refused" and broken.witness.kind == "not finite"


def test_theorems_of_other_symbols():
    assert certify(Derivative((2,)), 2.0).proof == "theorem"
    assert (
        certify(Derivative((2,))).requested == 2.0 and certify(Derivative((2,))).proof == "theorem"
    )
    assert certify(HeatSymbol(0.05), -9.0, dim=1, t=0.1).proof == "theorem"
    assert certify(TableSymbol(1, 1, modes=(4,)), -3.0).proof == "theorem"
    skewed = network(2, 0, kind=ClassicalSymbol, scale=4.0, depends_on_x=False, hermitian=False)
    assert certify(skewed, 0.0).proof == "theorem"
    assert certify(skewed, 0.0, acting=True).assessment == "refused"


def test_only_hermitian_symbols_act_as_they_are_written():
    """The half spectrum cuts other symbols along ξ_n = 0, in more than one dimension."""
    options = {"kind": ClassicalSymbol, "scale": 4.0, "depends_on_x": False}
    for dim, hermitian in itertools.product((1, 2), (True, False)):
        symbol = network(dim, 0, hermitian=hermitian, **options)
        written, acting = certify(symbol, 0.0), certify(symbol, 0.0, acting=True)
        assert written.accepted and acting.accepted == (hermitian or dim == 1)
        assert any("acting=True" in reason for reason in written.reasons) != acting.accepted
    assert abs(acting.witness.points[-1][-1]) <= 3


# Access


def test_values_anywhere_are_those_on_a_grid():
    grid = Grid((5, 7))
    x, xi = grid.points().reshape(-1, 2), grid.modes().reshape(-1, 2)
    for kind in (NetworkSymbol, LowRankSymbol, ClassicalSymbol):
        symbol = network(2, 0, kind=kind, scale=3.0).double()
        values = symbol.evaluate(grid)
        expected = torch.einsum(
            "roip,roim->oipm", values.space.expand(-1, 2, 2, -1, -1).flatten(3).to(torch.cdouble),
            values.frequency.flatten(3),
        )  # fmt: skip
        assert torch.allclose(evaluate_at(symbol, x, xi), expected.detach(), atol=1e-12)
    for symbol, t in ((Resolvent(), None), (HeatSymbol(), 0.1), (Advection((0.3, 0.4)), 0.5)):
        values = symbol.evaluate(grid, t=t).frequency[0, 0, 0].flatten()
        anywhere = evaluate_at(symbol, x[:1], xi, t=t)[0, 0, 0]
        assert torch.allclose(anywhere, values, atol=1e-14)
    full = FullSymbol(lambda x, xi: (x * xi).sum(dim=-1)[None, None])
    assert torch.allclose(evaluate_at(full, x, xi)[0, 0].real, x @ xi.double().T)


def test_a_certificate_can_be_read_and_drawn():
    certificate = certify(network(2, 0, depends_on_x=False), 1.0)
    text = str(certificate)
    assert text.startswith("S^1_{1,0}, n = 2: refused; order 1.00\n- |Δ^")
    axes = certificate.plot().axes[0]
    assert [line.get_label() for line in axes.lines] == [
        "|α| = 0", "|α| = 1", "|α| = 2", "|α| = 3", "witness",
    ]  # fmt: skip
    assert len(certify(HeatSymbol(), 0.0, dim=1, t=1.0).plot().axes) == 1


def test_a_certificate_is_one_line_where_it_is_shown():
    certificate = certify(network(2, 0, depends_on_x=False), 1.0)
    assert repr(certificate) == "<Certificate S^1_{1,0}, n = 2: refused; order 1.00>"
    page = certificate._repr_html_()
    assert "refused; order 1.00" in page and page.count("<tr>") == len(certificate.reasons) + 1


@pytest.mark.parametrize("options", [{}, {"modes": 8}, {"symbol": "low-rank"}])
def test_a_new_network_is_judged_as_it_is_after_its_first_call(options):
    """The class does not depend on the unit of ξ, which the first grid may settle later."""
    model = PDNO(2, 1, 1, width=2, layers=1, symbol_hidden=8, **options)
    symbol = model.operators[0].symbol
    new = certify(symbol, 1.0, space="box")
    assert symbol.scale.chosen == ("modes" in options)
    model(torch.randn(1, 1, 32, 32))
    used = certify(symbol, 1.0, space="box")
    kinds = [[witness.kind for witness in each.witnesses] for each in (new, used)]
    assert kinds == [["differences"] * 2] * 2
    assert abs(new.order - used.order) < 0.1
    if "modes" in options:
        assert str(new) == str(used)


def test_the_same_question_has_the_same_answer():
    symbol = network(2, 5, depends_on_x=False)
    assert certify(symbol, 1.0).witness == certify(symbol, 1.0).witness


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="does not know its number of axes: give dim=1, 2 or 3"):
        certify(Resolvent(), -2.0)
    with pytest.raises(ValueError, match="dim is 1, but this symbol has 2 axes"):
        certify(Derivative((1, 0)), 1.0, dim=1)
    with pytest.raises(ValueError, match="depends on time: give t"):
        certify(HeatSymbol(), 0.0, dim=1)
    with pytest.raises(ValueError, match="shells is 2; expected at least 4"):
        certify(Resolvent(), 0.0, dim=1, shells=2)
    with pytest.raises(ValueError, match="has no time: leave t out, or bind it"):
        certify(lambda x, xi: norm(xi), 1.0, dim=1, t=0.1)
    with pytest.raises(ValueError, match=r"gave values of shape \(3, 1, 1\)"):
        certify(lambda x, xi: torch.zeros(3, 1, 1), 1.0, dim=1)
    with pytest.raises(ValueError, match="not chosen its frequency_scale"):
        evaluate_at(NetworkSymbol(1, 1, scale=InputScale(1)), torch.zeros(1, 1), torch.ones(1, 1))
