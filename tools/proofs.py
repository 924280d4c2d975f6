"""What is proved of every symbol class, for the manual, and proposition 1 of the paper.

python tools/proofs.py                # write the table of docs/theory_symbol_classes.md
python tools/proofs.py proposition    # print proposition 1: a proof for n = 1, else a witness
"""

import sys
from pathlib import Path

import torch

from pdno import certify
from pdno.symbols import (
    ClassicalSymbol,
    InputScale,
    LowRankSymbol,
    NetworkSymbol,
    TableSymbol,
    TrunkSymbol,
)
from pdno.theory import Certificate

MANUAL = Path(__file__).parent.parent / "docs" / "theory_symbol_classes.md"
BEGIN, END = "<!-- proofs: written by tools/proofs.py -->", "<!-- end of proofs -->"
CLASSES = {
    "`NetworkSymbol`, a2(ξ), GELU": (NetworkSymbol, {"depends_on_x": False}, 1.0),
    "`NetworkSymbol`, a2(ξ), tanh": (
        NetworkSymbol,
        {"depends_on_x": False, "activation": "tanh"},
        0.0,
    ),
    "`NetworkSymbol`, a2(ξ), ReLU": (
        NetworkSymbol,
        {"depends_on_x": False, "activation": "relu"},
        1.0,
    ),
    "`NetworkSymbol`, a1(x) a2(ξ)": (NetworkSymbol, {}, 1.0),
    "`LowRankSymbol`": (LowRankSymbol, {}, 1.0),
    "`TrunkSymbol`, a2(ξ)": (TrunkSymbol, {"depends_on_x": False}, 0.0),
    "`TrunkSymbol`, a1(x) a2(ξ)": (TrunkSymbol, {}, 0.0),
    "`ClassicalSymbol`, m = 1": (ClassicalSymbol, {"order": 1.0}, 1.0),
    "`ClassicalSymbol`, elliptic": (ClassicalSymbol, {"order": 1.0, "elliptic": True}, 1.0),
    "`ClassicalSymbol`, self-adjoint": (
        ClassicalSymbol,
        {"order": 1.0, "self_adjoint": True, "depends_on_x": False},
        1.0,
    ),
    "`ClassicalSymbol`, e^{tA}, m = 1": (
        ClassicalSymbol,
        {"order": 1.0, "takes_time": True, "depends_on_x": False},
        0.0,
    ),
    "`TableSymbol`, the symbol of FNO": (TableSymbol, {"modes": 4}, 0.0),
}


def certificate_of(name: str, dim: int) -> Certificate:
    """The certificate of a class with fixed random weights."""
    kind, options, order = CLASSES[name]
    torch.manual_seed(0)
    if kind is TableSymbol:
        return certify(TableSymbol(1, 1, modes=(4,) * dim), order)
    symbol = kind(1, 1, scale=InputScale(dim, 1.0, 4.0), hidden=8, layers=1, **options)
    return certify(symbol, order, t=0.5 if options.get("takes_time") else None)


def table() -> str:
    """One line per class: n = 1 and n >= 2."""
    lines = ["| symbol | n = 1 | n = 2 | n = 3 |", "|---|---|---|---|"]
    for name in CLASSES:
        cells = []
        for dim in (1, 2, 3):
            certificate = certificate_of(name, dim)
            order = f"S^{certificate.order:g}" if certificate.order > -9 else "every S^m"
            words = f"tested, {certificate.assessment}"
            if certificate.witness is not None:
                kind = certificate.witness.kind
                words = f"counterexample: {kind}"
            cells.append(f"proved: {order}" if certificate.accepted else words)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def proposition() -> None:
    """Proposition 1: networks of ξ with GELU are in S^1. True for n = 1, false for n >= 2."""
    for dim in (1, 2, 3):
        certificate = certificate_of("`NetworkSymbol`, a2(ξ), GELU", dim)
        print(f"n = {dim}: {certificate}")
        if certificate.accepted:
            print(*certificate.proof, sep="\n")
        else:
            again = certificate.check_witness()
            values = ", ".join(f"{value:.3g}" for value in again.values[-6:])
            print(f"recomputed with {again.digits} digits, confirmed {again.confirmed}: {values}")


def main() -> None:
    if sys.argv[1:] == ["proposition"]:
        proposition()
        return
    lines = table()
    head, rest = MANUAL.read_text(encoding="utf-8").split(BEGIN)
    MANUAL.write_text(f"{head}{BEGIN}\n\n{lines}\n\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
