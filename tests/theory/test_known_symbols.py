"""The certificate on black boxes of known class: no answer is wrong, and most are right."""

import pytest
from known_symbols import CATEGORIES
from own_symbols import OWN, WRONG, main

from pdno import certify

CASES = [
    pytest.param(category, case, id=f"{category}-{case.name}-{case.order}-{case.dim}")
    for category, family in {**CATEGORIES, **OWN}.items()
    for case in family()
    if case.dim < 3
]


@pytest.mark.parametrize(("category", "case"), CASES[::17])
def test_answers_are_not_wrong(category, case):
    certificate = certify(case.function, case.order, dim=case.dim)
    assert (case.truth, certificate.assessment) not in WRONG, f"{case.name}: {certificate}"
    assert certificate.accepted == (category == "expressions")
    assert bool(certificate.witnesses) == (certificate.assessment == "counterexample")
    if certificate.witness is not None:
        assert certificate.check_witness().confirmed


@pytest.mark.slow
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_no_answer_is_wrong(dim):
    """All of them, several hundred."""
    table = main([dim])
    assert sum(table.values()) > 100
    assert not [key for key in table if key[1:] in WRONG]
    out = {key[2]: 0 for key in table}
    for (_, truth, answer), count in table.items():
        out[answer] += count if truth == "out" else 0
    assert out["counterexample"] > 0.8 * sum(out.values())
