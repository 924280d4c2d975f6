"""Each rule proves what it says, and a symbol that breaks one of its conditions is in no class."""

import math

import pytest
import torch

from pdno import certify
from pdno.symbols import (
    ClassicalSymbol,
    Derivative,
    DifferentialOperator,
    HeatSymbol,
    InputScale,
    LowRankSymbol,
    NetworkSymbol,
    Resolvent,
    Symbol,
    SymbolValues,
    TableSymbol,
    TrunkSymbol,
)
from pdno.theory.expression import Bracket, Coordinate, Frequency, Harmonic, apply, riesz
from pdno.theory.prover import NoProof, prove

XI, ETA, ONE = Frequency(0), Frequency(1), Bracket()
WAVE = Harmonic("cos", (1,))

SHARP = {
    "lemma 1, n = 1: x is not periodic": (Coordinate(0) * ONE, 1, 1.0),
    "lemma 3: a function of an unbounded part": (apply("sin", XI), 1, 0.0),
    "lemma 3: a part of order 1/2": (apply("sin", ONE**0.5), 1, 0.0),
    "lemma 4: not elliptic": (1 / (1 + XI**2), 2, -1.0),
    "lemma 5: two axes": (apply("tanh", XI + math.sqrt(2) * ETA), 2, 0.0),
    "lemma 6: no decay along an axis": (apply("exp", -(XI**2)), 2, 0.0),
    "lemma 6: imaginary": (apply("exp", 1j * ONE), 2, 0.0),
    "lemma 7: u vanishes along an axis": (apply("gelu", XI), 2, 1.0),
}
PROVED = {
    "lemma 2": (ONE * ONE**0.5 + XI, 1, 1.5),
    "lemma 3": (apply("tanh", 200 * XI / ONE), 3, 0.0),
    "lemma 3, complex": (apply("exp", 1j * XI / ONE), 2, 0.0),
    "lemma 3, x": (apply("gelu", WAVE * XI / ONE) * ONE, 1, 1.0),
    "lemma 3, F(0) = 0": (apply("sin", 1 / ONE), 2, -1.0),
    "lemma 4": ((1 + XI**2 + XI * ETA + ETA**2) ** -0.5, 2, -1.0),
    "lemma 4, complex": (1 / (1 + XI**2 + 1j * XI * ETA + ETA**2), 2, -2.0),
    "lemma 5": (apply("gelu", 3 - 2 * XI) * apply("tanh", XI), 1, 1.0),
    "lemma 6": (apply("exp", -(ONE**0.5) * (2 + WAVE)), 1, -math.inf),
    "lemma 7": (apply("softplus", ONE + 0.5 * XI), 2, 1.0),
    "lemma 8": (riesz(-0.5) * XI, 3, 0.5),
}


@pytest.mark.parametrize("rule", PROVED)
def test_rules_prove(rule):
    expression, dim, order = PROVED[rule]
    certificate = certify(expression, dim=dim)
    assert certificate.accepted and certificate.order == pytest.approx(order)
    assert certificate.proof and rule.split(",")[0] in " ".join(certificate.proof)
    if order > -math.inf:  # the order is the smallest
        below = certify(expression, order - 0.4, dim=dim)
        assert below.assessment == "counterexample" and below.check_witness().confirmed


@pytest.mark.parametrize("rule", SHARP)
def test_rules_are_sharp(rule):
    expression, dim, order = SHARP[rule]
    with pytest.raises(NoProof):
        prove(expression, dim)
    certificate = certify(expression, order, dim=dim)
    assert certificate.assessment == "counterexample" and not certificate.accepted
    assert certificate.gap.startswith("no proof: ")
    check = certificate.check_witness()
    assert check.confirmed and check.digits == 50


def test_a_network_of_one_frequency_that_depends_on_x_has_no_rule():
    """∂_x² gelu(ξ cos 2πx) is of the size of ξ² at x = 1/4, and the bound of S^1 is ξ."""
    symbol = apply("gelu", WAVE * XI)
    with pytest.raises(NoProof):
        prove(symbol, 1)
    sizes = []
    for xi in (1e2, 1e3):
        x = torch.tensor([[0.25]], dtype=torch.float64, requires_grad=True)
        values = symbol(x[:, None], torch.tensor([[[xi]]], dtype=torch.float64))
        (slope,) = torch.autograd.grad(values.sum(), x, create_graph=True)
        sizes.append(float(torch.autograd.grad(slope.sum(), x)[0]))
    assert sizes[1] == pytest.approx(100 * sizes[0], rel=1e-3)


def test_complex_arguments_have_no_rule_but_for_entire_functions():
    with pytest.raises(NoProof, match="may be complex"):
        prove(apply("tanh", 2j * XI / ONE), 1)  # it has poles
    with pytest.raises(NoProof, match="axis 2 of n = 1"):
        prove(ETA, 1)
    assert prove(Coordinate(0) * ONE, 1, box=True).order == 1.0


def test_lattice_proofs_do_not_answer_for_real_frequencies():
    assert certify(riesz(0.5), 0.5, dim=1).accepted
    assert not certify(riesz(0.5), 0.5, dim=1, frequencies="real").accepted


@pytest.mark.parametrize("dim", [1, 2])
def test_every_class_of_the_package_has_the_values_of_its_expression(dim):
    """`certify` refuses an expression with other values; here they are used."""
    torch.manual_seed(0)
    scale = InputScale(dim, 1.5, 4.0)
    for kind, options in [
        (NetworkSymbol, {}), (NetworkSymbol, {"takes_time": True}), (LowRankSymbol, {}),
        (LowRankSymbol, {"shared": True}), (TrunkSymbol, {}), (ClassicalSymbol, {"order": -1.5}),
        (ClassicalSymbol, {"elliptic": True}), (ClassicalSymbol, {"pde_parameters": 2}),
        (ClassicalSymbol, {"takes_time": True, "depends_on_x": False}),
        (ClassicalSymbol, {"hermitian": False}),
        (ClassicalSymbol, {"dissipative": True, "depends_on_x": False}),
    ]:  # fmt: skip
        symbol = kind(2, 2, scale=scale, hidden=6, **options)
        t = 0.3 if symbol.takes_time else None
        t = torch.tensor([[0.2, 0.7]]) if symbol.pde_parameters else t
        certificate = certify(symbol, 1.0, t=t, space="box")
        proved = dim == 1 or isinstance(symbol, (TrunkSymbol, ClassicalSymbol))
        assert certificate.accepted == proved, f"{kind.__name__} {options}: {certificate}"
    powers = DifferentialOperator([(2, 1)[:dim], (0, 1)[:dim]], [1.0, -2.0])
    for symbol, order in ((powers, 3.0 if dim == 2 else 2.0), (Resolvent(3.0), -2.0)):
        assert certify(symbol, dim=dim).order == order and certify(symbol, dim=dim).accepted
    assert certify(HeatSymbol(), dim=dim, t=0.1).order == -math.inf
    assert certify(TableSymbol(1, 2, modes=(3,) * dim)).accepted


class Own(Symbol):
    """⟨ξ⟩^-1, with its structure."""

    dim, factor = 1, 1.0

    def __init__(self):
        super().__init__(1, 1)

    def evaluate_at(self, x, xi, t=None):
        values = (1 + xi.square().sum(dim=-1)) ** -0.5
        return SymbolValues((self.factor * values).to(torch.complex128)[None, None, None])

    def structure(self, t=None):
        return Bracket() ** -1


def test_symbols_of_users_are_proved_by_their_structure():
    assert certify(Own(), -1.0).accepted
    wrong = Own()
    wrong.factor = 2.0
    with pytest.raises(ValueError, match=r"structure\(\) of Own has other values"):
        certify(wrong, -1.0)

    class Derived(Derivative):  # what it computes is not known
        def formula(self, xi, t):
            return torch.exp(xi[..., 0])

    certificate = certify(Derived((1,)), 1.0)
    assert certificate.gap == "no proof: the formula is not known"
    assert certificate.assessment == "counterexample"
