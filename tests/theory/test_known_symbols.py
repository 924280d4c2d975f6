"""The certificate on symbols of known class: never wrong, seldom undecided."""

import pytest
import torch
from known_symbols import CATEGORIES

from pdno import certify

WRONG = {"in": "refused", "out": "accepted", "limit": None}
CASES = [
    pytest.param(category, case, id=f"{case.name}-{case.order}-{case.dim}")
    for category, symbols in CATEGORIES.items()
    for case in symbols()
]


def assess(category, case):
    """The assessment, checked."""
    certificate = certify(case.function, case.order, dim=case.dim)
    assert certificate.assessment != WRONG[case.truth], f"{case.name}: {certificate}"
    assert certificate.accepted == (certificate.assessment == "accepted")
    assert certificate.proof == "evidence" and "|ξ| = " in certificate.certainty
    assert bool(certificate.witnesses) == (certificate.assessment == "refused")
    if category == "not finite" and case.order != 4.0:
        assert certificate.witness.kind == "not finite" and "ξ = (" in certificate.reasons[0]
    return certificate.assessment


@pytest.mark.parametrize(
    ("category", "case"), [case for case in CASES if case.values[1].dim < 3][::5]
)
def test_assessments_are_right(category, case):
    assert assess(category, case) in ("accepted", "refused") or case.truth == "limit"


@pytest.mark.slow
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_no_assessment_is_wrong_and_few_are_undecided(dim):
    """All of them: 107 on the line, 135 in the plane and 82 in space."""
    cases = [case.values for case in CASES if case.values[1].dim == dim]
    assessments = [assess(*case) for case in cases]
    assert len(assessments) > 80 and assessments.count("undecided") < 0.1 * len(assessments)


@pytest.mark.parametrize("seed", range(4))
def test_assessments_do_not_hang_on_the_draw(seed):
    """Directions other than the diagonal, orders that few x show."""
    draw = torch.Generator().manual_seed(seed)
    for dim, name, order in ((1, "⟨ξ⟩^{sin 2πx}", 0.3), (1, "1 + peak(x)⟨ξ⟩, width 0.02", 0.0)):
        case = next(
            k for k in CATEGORIES["products"]() if (k.dim, k.name, k.order) == (dim, name, order)
        )
        assert certify(case.function, order, dim=dim, generator=draw).assessment == "refused"
    seam = certify(
        lambda x, xi: x[..., 0] * 1j * (xi[..., 0] - xi[..., 1]), 1.0, dim=2, generator=draw
    )
    assert seam.assessment == "refused" and seam.periodic is False
