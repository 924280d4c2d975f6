"""Torch's operations with many digits: the exact numbers, and refusal where there are none."""

import math

import mpmath
import pytest
import torch
from mpmath import mp
from torch.nn import functional

from pdno import certify
from pdno.theory import certificate as certificates
from pdno.theory.digits import NoDigits, exact_digits

X = torch.tensor([0.3, -1.7, 2.5, 40.0], dtype=torch.float64)


def exact(function, *inputs, digits=40):
    with torch.no_grad(), exact_digits(digits) as mode:
        inputs = [value.clone() for value in inputs]
        mode.follow(*inputs)
        return mode.read(function(*inputs)).flatten()


def in_place(z):
    z = z.clone()
    z[1:] *= 3
    z[z > 5] = 7.0
    z[0] = z[2] + 1
    return z


CASES = {
    "arithmetic": (lambda z: (2 * z - z / 3 + 1) ** 3 - z % 2,
                   lambda z: (2 * z - z / 3 + 1) ** 3 - z % 2),
    "powers": (lambda z: (1 + z**2) ** -0.5 * z.abs().sqrt(),
               lambda z: (1 + z**2) ** mp.mpf(-0.5) * mp.sqrt(abs(z))),
    "waves": (lambda z: torch.sin(3 * torch.log(1 + z.square())),
              lambda z: mp.sin(3 * mp.log(1 + z * z))),
    "complex": (lambda z: (torch.exp(1j * z) / (2 + 1j * z)).conj().imag,
                lambda z: mp.im(mp.conj(mp.exp(1j * z) / (2 + 1j * z)))),
    "gelu": (functional.gelu, lambda z: z * mp.ncdf(z)),
    "tanh gelu": (lambda z: functional.gelu(z, approximate="tanh"), None),
    "softplus": (lambda z: functional.softplus(z, threshold=3.0), lambda z: mp.log(1 + mp.exp(z))),
    "clamp": (lambda z: z.clamp(-1, 2) + z.relu(), lambda z: min(max(z, -1), 2) + max(z, 0)),
    "where": (lambda z: torch.where(z > 0, z.floor(), 0.5 * z),
              lambda z: mp.floor(z) if z > 0 else z / 2),
    "reductions": (lambda z: torch.stack([z, z**2]).amax(0) + torch.stack([z, z]).mean(0),
                   lambda z: max(z, z * z) + z),
    "constants": (lambda z: z * (torch.ones_like(z) + z.new_full((), 2.0)), lambda z: 3 * z),
    "in place": (in_place, None),
    "integers": (lambda z: (z.long() % 3).double() + z.round(), None),
    "norms": (lambda z: torch.stack([z, 2 * z]).norm(dim=0), lambda z: abs(z) * mp.sqrt(5)),
    "matrices": (lambda z: torch.einsum("i,ij->j", z, torch.eye(4).double()), lambda z: z),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_operations_have_all_digits(name):
    function, formula = CASES[name]
    values = exact(function, X)
    for value, number in zip(values, function(X).tolist(), strict=True):
        assert float(value) == pytest.approx(number, rel=1e-12, abs=1e-12)
    if formula is not None:
        with mpmath.workdps(40):
            for value, z in zip(values, X.tolist(), strict=True):
                assert abs(value - formula(mp.mpf(z))) < mp.mpf(10) ** -36 * (1 + abs(value))


def test_multiples_of_pi_are_exact():
    at = torch.tensor([1e12 + 0.25], dtype=torch.float64)
    (wave,) = exact(lambda z: torch.cos(2 * math.pi * z), at)
    assert abs(wave) < 1e-25


def test_third_differences_far_out_are_those_of_the_function():
    """Of 1/⟨ξ⟩ at 10^12, where float64 has nothing but rounding."""
    at = 1e12 + torch.arange(4, dtype=torch.float64)
    differences = exact(lambda z: (1 / (1 + z**2).sqrt()).diff(n=3), at, digits=60)
    assert float(differences[0]) == pytest.approx(-6e-48, rel=1e-9)


@pytest.mark.parametrize(
    "function",
    [
        lambda z: torch.from_numpy(z.numpy()),
        lambda z: torch.full((4,), float(z[0])),
        lambda z: z.float().double(),
        torch.special.bessel_j0,
    ],
)
def test_what_is_known_in_float64_alone_is_refused(function):
    with pytest.raises(NoDigits):
        exact(function, X)


def cancelling(x, xi):
    """⟨ξ⟩^-2, to which float64 adds the rounding of 10^4."""
    log = torch.log(1 + xi[..., 0] ** 2)
    return 1e4 * (log.sin() ** 2 + log.cos() ** 2 - 1) + 1 / (1 + xi[..., 0] ** 2)


def test_rounding_is_no_counterexample(monkeypatch):
    assert certify(cancelling, -2.0, dim=1).assessment != "counterexample"
    monkeypatch.setattr(certificates, "confirmed", lambda witness, probe: witness)
    assert certify(cancelling, -2.0, dim=1).assessment == "counterexample"


def test_without_more_digits_a_test_stays_undecided():
    def outside(x, xi):
        return torch.from_numpy(xi.numpy()[..., 0] ** 2)

    certificate = certify(outside, 1.0, dim=1)
    assert certificate.assessment == "undecided" and not certificate.witnesses
    assert "cannot be confirmed (a function that leaves torch)" in str(certificate)
    assert certify(lambda x, xi: xi[..., 0] ** 2, 1.0, dim=1).assessment == "counterexample"
