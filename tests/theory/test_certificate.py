"""Certificates: proofs of the symbols of the package, and tests that find counterexamples."""

import itertools
import math
from dataclasses import replace

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


# Proofs


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize(
    ("symbol", "order"),
    [(Resolvent(2.0), -2.0), (FractionalLaplacian(0.3), 0.6), (FractionalLaplacian(-0.5), -1.0)],
    ids=str,
)
def test_formulas_have_their_orders(dim, symbol, order):
    certificate = certify(symbol, dim=dim)
    assert certificate.accepted and certificate.witness is None
    assert certificate.order == certificate.requested == pytest.approx(order)
    if dim == 1:
        assert certify(symbol, order + 1, dim=dim).accepted  # classes are nested
        below = certify(symbol, order - 0.5, dim=dim)
        assert below.assessment == "counterexample" and below.witness.kind == "growth"


@pytest.mark.parametrize("alpha", [(1,), (3,), (1, 0), (2, 1), (0, 1, 1)])
def test_derivatives_have_their_orders(alpha):
    certificate = certify(Derivative(alpha))
    assert certificate.accepted and certificate.requested == sum(alpha)


@pytest.mark.parametrize("dim", [1, 2])
def test_heat_is_of_every_order(dim):
    certificate = certify(HeatSymbol(0.05), -30.0, dim=dim, t=0.2)
    assert certificate.accepted and certificate.order == -math.inf
    assert "every S^m" in certificate.reasons[0]
    assert not certify(HeatSymbol(0.05), -1.0, dim=dim, t=0.0).accepted  # the identity


@pytest.mark.parametrize("activation", SMOOTH)
def test_proposition_1(activation):
    """Networks of one frequency are in S^1 or S^0; of two there is a witness."""
    order = ACTIVATIONS[activation].order
    one = certify(network(1, 0, scale=4.0, activation=activation, depends_on_x=False), order)
    assert one.accepted and "lemma 5" in one.proof[-2] + one.proof[4]
    symbol = network(2, 0, scale=4.0, activation=activation, depends_on_x=False, hidden=8)
    certificate = certify(symbol, order)
    witness = certificate.witness
    assert certificate.assessment == "counterexample" and witness.kind == "differences"
    assert sum(witness.alpha) == order + 1
    xi = torch.tensor(witness.points, dtype=torch.float64)
    assert torch.equal(xi, xi.round()) and norm(xi[-1:]).item() > 1e5
    sizes = weighted_difference(symbol, xi, witness.alpha, order, witness.steps)
    assert sizes[-1] >= 0.99 * witness.values[-1] > 10 * witness.values[-4]
    check = certificate.check_witness()
    assert check.confirmed and check.digits == 50


def test_relu_has_kinks_on_the_line_and_a_class_on_the_lattice():
    symbol = network(1, 0, activation="relu", depends_on_x=False)
    certificate = certify(symbol, 1.0)
    assert certificate.witness.kind == "kink in ξ" and certificate.check_witness().confirmed
    (kink,) = certificate.witness.points[-1]
    near = torch.tensor([[kink - 1e-4], [kink], [kink + 1e-4]], dtype=torch.float64)
    values = evaluate_at(symbol, torch.zeros(1, 1), near)
    assert (values[..., 2] - 2 * values[..., 1] + values[..., 0]).abs().max() > 1e-6
    assert certify(symbol, 1.0, frequencies="integer").accepted


@pytest.mark.parametrize("kind", [NetworkSymbol, LowRankSymbol])
def test_networks_of_x_jump_at_the_seam(kind):
    symbol = network(1, 0, kind=kind)
    certificate = certify(symbol, 1.0)
    assert certificate.assessment == "counterexample" and certificate.periodic is False
    assert "seam" in {witness.kind for witness in certificate.witnesses}
    assert certificate.check_witness().confirmed
    assert certify(symbol, 1.0, space="box").accepted


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("order", [-2.0, 1.0])
def test_classical_symbols_are_proved_whatever_their_weights(dim, order):
    symbol = network(dim, 0, kind=ClassicalSymbol, scale=8.0, order=order, hidden=8)
    with torch.no_grad():
        for parameter in symbol.parameters():
            parameter.mul_(30.0)
    certificate = certify(symbol, order)
    assert certificate.accepted and certificate.order == order
    assert certify(symbol, order + 1).accepted
    below = certify(symbol, order - 0.5)
    assert not below.accepted and below.gap == f"the rules give order {order:g}"
    with torch.no_grad():
        symbol.real.linear_out.bias[0] = math.nan
    broken = certify(symbol, order)
    assert broken.assessment == "counterexample" and broken.witness.kind == "not finite"
    assert broken.check_witness().confirmed


@pytest.mark.parametrize("structure", [{}, {"elliptic": True}, {"takes_time": True}], ids=str)
def test_an_order_that_is_too_small_has_a_witness(structure):
    symbol = network(
        1,
        0,
        kind=ClassicalSymbol,
        scale=8.0,
        hidden=8,
        channels=1,
        depends_on_x=False,
        **structure,
    )
    certificate = certify(symbol, -0.5, t=0.3 if symbol.takes_time else None)
    assert certificate.assessment == "counterexample" and certificate.check_witness().confirmed


def test_classical_symbols_are_proved_after_training():
    torch.manual_seed(0)
    model = PDNO(2, 1, 1, width=2, layers=2, symbol="classical", order=1.0, symbol_hidden=4)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    inputs = torch.randn(4, 1, 12, 12)
    for _ in range(3):
        loss = model(inputs).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    for operator in model.operators:
        assert certify(operator, 1.0).accepted


@pytest.mark.parametrize(
    "structure",
    [
        {"elliptic": True},
        {"self_adjoint": True},
        {"dissipative": True},
        {"dissipative": True, "elliptic": True, "self_adjoint": True},
        {"takes_time": True},
    ],
    ids=str,
)
def test_structured_classical_symbols_are_proved(structure):
    symbol = network(
        2, 0, kind=ClassicalSymbol, scale=4.0, order=1.0, depends_on_x=False, **structure
    )
    time = 0.4 if symbol.takes_time else None
    certificate = certify(symbol, 1.0, t=time)
    assert certificate.accepted and certificate.order == (-math.inf if time else 1.0)


def test_constants_of_proofs():
    symbol = network(1, 0, kind=ClassicalSymbol, scale=4.0, order=-1.0, hidden=4, channels=1)
    certificate = certify(symbol, -1.0)
    low, high = certificate.constants()[(1,), (0,)]
    assert 0 < low <= high <= 3 * low
    assert certificate.seminorms[(0,), (0,)] <= certificate.constants()[(0,), (0,)][1]
    with pytest.raises(ValueError, match="only proofs have constants"):
        certify(lambda x, xi: xi[..., 0], 1.0, dim=1).constants()
    assert certify(network(1, 0, depends_on_x=False), 1.0).constants() == {}


def test_tables_are_of_every_order_and_rough():
    torch.manual_seed(0)
    symbol = TableSymbol(2, 3, modes=(6, 5))
    certificate = certify(symbol, -7.0)
    assert certificate.accepted and certificate.order == -math.inf
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


def test_only_hermitian_symbols_act_as_they_are_written():
    """The half spectrum cuts other symbols along ξ_n = 0, in more than one dimension."""
    options = {"kind": ClassicalSymbol, "scale": 4.0, "depends_on_x": False, "hidden": 8}
    for dim, hermitian in itertools.product((1, 2), (True, False)):
        symbol = network(dim, 0, hermitian=hermitian, **options)
        written, acting = certify(symbol, 0.0), certify(symbol, 0.0, acting=True)
        assert written.accepted and acting.accepted == (hermitian or dim == 1)
        assert any("acting=True" in reason for reason in written.reasons) != acting.accepted
    assert acting.assessment == "counterexample" and abs(acting.witness.points[-1][-1]) <= 3


# Tests


def test_functions_are_tested_and_never_proved():
    def bessel(x, xi):
        return 1 / (1 + norm(xi) ** 2)

    certificate = certify(bessel, -2.0, dim=2)
    assert certificate.assessment == "consistent" and not certificate.accepted
    assert certificate.proof == () and certificate.gap == "no proof: the formula is not known"
    assert "tested for order -2 on |ξ| <= " in certificate.scope and "values" in certificate.scope
    with pytest.raises(ValueError, match="it has no witness to check"):
        certificate.check_witness()
    assert (
        certify(Multiplication(lambda x: torch.cos(2 * PI * x[..., 0])), 0.0, dim=1).assessment
        == "consistent"
    )
    full = FullSymbol(lambda x, xi: (1 + norm(xi) ** 2)[None, None].expand(1, 1, len(x), -1))
    assert certify(full, 2.0, dim=1).assessment == "consistent"
    assert certify(full, 1.0, dim=1).assessment == "counterexample"


@pytest.mark.parametrize(("symbol", "dim"), [(Advection((0.7,)), 1), (Wave(), 1), (Wave(), 2)])
def test_waves_are_bounded_but_their_differences_do_not_decay(symbol, dim):
    certificate = certify(symbol, 0.0, dim=dim, t=0.3)
    assert certificate.assessment == "counterexample"
    assert certificate.order == pytest.approx(0, abs=0.01)
    assert certificate.witness.kind == "differences" and certificate.check_witness().confirmed


def test_seminorms_are_the_suprema():
    """⟨ξ⟩^-2 · 2πi ξ has |a| ⟨ξ⟩ <= 2π and |Δa| ⟨ξ⟩² of known size at the origin."""
    certificate = certify(lambda x, xi: 2j * PI * xi[..., 0] / (1 + norm(xi) ** 2), -1.0, dim=1)
    assert certificate.seminorms[(0,), (0,)] == pytest.approx(2 * PI, rel=1e-6)
    xi = torch.arange(-60.0, 60.0, dtype=torch.float64)
    a = xi / (1 + xi**2)
    expected = (2 * PI * (a[1:] - a[:-1]).abs() * (1 + xi[:-1] ** 2)).max()
    assert certificate.seminorms[(1,), (0,)] >= expected.item() * (1 - 1e-9)


@pytest.mark.parametrize(
    "normal", [(1.0, math.sqrt(2)), (1.0, 0.0), (1.0, math.sqrt(2), -PI)], ids=str
)
@pytest.mark.parametrize("offset", [0.0, 40.0])
def test_a_jump_along_a_hyperplane_is_found_wherever_it_lies(normal, offset):
    w = torch.tensor(normal, dtype=torch.float64)

    def symbol(x, xi):
        return torch.sign(xi @ w - offset - 0.3)

    certificate = certify(symbol, 0.0, dim=len(normal))
    witness = certificate.witness
    assert certificate.assessment == "counterexample" and sum(witness.alpha) == 1
    assert certificate.check_witness().confirmed


def test_one_bad_pair_among_many_is_found():
    def symbol(x, xi):
        good = 1 / (1 + norm(xi) ** 2)
        bad = 1e-3 * torch.tanh(xi[..., 0] - 1.4 * xi[..., 1])
        pairs = [good.expand(len(x), -1)] * 15 + [bad.expand(len(x), -1)]
        return torch.stack(pairs).unflatten(0, (4, 4))

    certificate = certify(symbol, 0.0, dim=2)
    assert certificate.assessment == "counterexample" and certificate.witness.pair == 15


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x[..., 0] - 0.3).abs() * (1 - x[..., 0]) * x[..., 0],
        lambda x: (torch.sin(2 * PI * x[..., 0]) > 0.5).double(),
        lambda x: x[..., 0],
        lambda x: (x[..., 0] * (1 - x[..., 0])) ** 2,
    ],
)
def test_functions_that_are_not_smooth_on_the_torus(function):
    certificate = certify(Multiplication(function), 0.0, dim=1)
    assert certificate.assessment == "counterexample" and certificate.check_witness().confirmed
    assert certificate.witness.kind in ("kink in x", "seam") and sum(certificate.witness.beta) <= 4


def test_a_witness_that_is_not_so_is_not_confirmed():
    certificate = certify(lambda x, xi: torch.sign(xi[..., 0] - xi[..., 1]), 0.0, dim=2)
    witness = certificate.witness
    moved = tuple((a + 1000.0, b) for a, b in witness.points)  # beside the jump
    assert certificate.check_witness().confirmed
    wrong = replace(certificate, witnesses=(replace(witness, points=moved),))
    assert not wrong.check_witness().confirmed


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
    assert text.startswith("S^1_{1,0}, n = 2: tested, counterexample; order 1.00\n- no proof: ")
    axes = certificate.plot().axes[0]
    assert [line.get_label() for line in axes.lines] == [
        "|α| = 0", "|α| = 1", "|α| = 2", "|α| = 3", "witness",
    ]  # fmt: skip
    assert len(certify(HeatSymbol(), 0.0, dim=1, t=1.0).plot().axes) == 1


def test_a_certificate_is_one_line_where_it_is_shown():
    certificate = certify(network(2, 0, depends_on_x=False), 1.0)
    assert (
        repr(certificate) == "<Certificate S^1_{1,0}, n = 2: tested, counterexample; order 1.00>"
    )
    page = certificate._repr_html_()
    assert (
        "counterexample; order 1.00" in page and page.count("<tr>") == len(certificate.reasons) + 1
    )


def test_a_new_network_is_assessed_before_its_first_call():
    """The class does not depend on the unit of ξ, which the first grid may settle later."""
    model = PDNO(2, 1, 1, width=2, layers=1, symbol_hidden=8, symbol="classical", order=1.0)
    assert not model.operators[0].symbol.scale.chosen
    assert certify(model.operators[0], 1.0).accepted
    assert not model.operators[0].symbol.scale.chosen


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
    with pytest.raises(ValueError, match="has no time: leave t out, or bind it"):
        certify(lambda x, xi: norm(xi), 1.0, dim=1, t=0.1)
    with pytest.raises(ValueError, match=r"gave values of shape \(3, 1, 1\)"):
        certify(lambda x, xi: torch.zeros(3, 1, 1), 1.0, dim=1)
    with pytest.raises(ValueError, match="not chosen its frequency_scale"):
        evaluate_at(NetworkSymbol(1, 1, scale=InputScale(1)), torch.zeros(1, 1), torch.ones(1, 1))
