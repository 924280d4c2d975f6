"""The table of the manual has every network of the package, and its rows are what is proved."""

import sys
from pathlib import Path

import pytest

from pdno.networks.pdno import SYMBOLS
from pdno.networks.specification import NETWORKS as KINDS

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import proofs  # noqa: E402


def test_the_table_has_every_network_and_every_symbol():
    words = {options.get("symbol", "network") for _, options, _ in proofs.NETWORKS.values()}
    text = proofs.MANUAL.read_text(encoding="utf-8")
    assert all(f"| {name} |" in text for name in proofs.NETWORKS)
    own = {name for name, make in SYMBOLS.items() if make.__module__.startswith("pdno.")}
    kinds = {name for name, make in KINDS.items() if make.__module__.startswith("pdno.")}
    assert own <= words and kinds <= {kind for kind, _, _ in proofs.NETWORKS.values()}


@pytest.mark.parametrize("name", ["`FNO`", "`MWT`", '`PDIO(symbol="classical", order=-1)`'])
def test_rows_of_the_manual_are_those_that_are_computed(name):
    assert proofs.row(name) in proofs.MANUAL.read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_table_of_the_manual_is_what_is_computed():
    text = proofs.MANUAL.read_text(encoding="utf-8")
    assert all(proofs.row(name) in text for name in proofs.NETWORKS)
