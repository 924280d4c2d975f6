"""What is proved of every network of the package, for the manual, and proposition 1 of the paper.

python tools/proofs.py                # write the table of docs/theory_symbol_classes.md
python tools/proofs.py proposition    # print proposition 1: a proof for n = 1, else a witness
"""

import sys
from pathlib import Path

from pdno import certify
from pdno.networks.specification import specify
from pdno.operators.pseudo_differential import PseudoDifferentialOperator
from pdno.symbols import Symbol
from pdno.theory import Certificate

MANUAL = Path(__file__).parent.parent / "docs" / "theory_symbol_classes.md"
BEGIN, END = "<!-- proofs: written by tools/proofs.py -->", "<!-- end of proofs -->"
PROPOSITION = '`PDNO(symbol="network")`, a2(ξ)'
SMALL = {"modes": 4, "symbol_hidden": 8, "symbol_layers": 1, "frequency_scale": 4.0}
ALONE = {"symbol": "classical", "order": 1.0, "depends_on_x": False}

NETWORKS: dict[str, tuple[str, dict[str, object], float]] = {
    PROPOSITION: ("pdno", {"depends_on_x": False}, 1.0),
    "the same with tanh": ("pdno", {"depends_on_x": False, "activation": "tanh"}, 0.0),
    "the same with ReLU": ("pdno", {"depends_on_x": False, "activation": "relu"}, 1.0),
    '`PDNO(symbol="network")`, a1(x) a2(ξ)': ("pdno", {}, 1.0),
    '`PDNO(symbol="low-rank")`': ("pdno", {"symbol": "low-rank"}, 1.0),
    '`PDNO(symbol="trunk")`, a2(ξ)': ("pdno", {"symbol": "trunk", "depends_on_x": False}, 0.0),
    '`PDNO(symbol="trunk")`, a1(x) a2(ξ)': ("pdno", {"symbol": "trunk"}, 0.0),
    '`PDNO(symbol="classical", order=1)`': ("pdno", {"symbol": "classical", "order": 1.0}, 1.0),
    "the same, `elliptic=True`": ("pdno", {**ALONE, "elliptic": True, "depends_on_x": True}, 1.0),
    "the same, `self_adjoint=True`": ("pdno", {**ALONE, "self_adjoint": True}, 1.0),
    "the same, `dissipative=True`": ("pdno", {**ALONE, "dissipative": True}, 1.0),
    "the same, `takes_time=True`, e^{tA}": ("pdno", {**ALONE, "takes_time": True}, 0.0),
    '`PDNO(symbol="table")`': ("pdno", {"symbol": "table"}, 0.0),
    '`PDIO(symbol="classical", order=-1)`': ("pdio", {"symbol": "classical", "order": -1.0}, -1.0),
    "`SemigroupStep`, e^{A}": ("semigroup", {}, 0.0),
    "`SemigroupStep`, B": ("semigroup", {"local_order": -1.0}, -1.0),
    "`FNO`": ("fno", {}, 0.0),
    "`MWT`": ("mwt", {}, 0.0),
}
"""Kind and options of a small network, and the order that is asked."""


def symbol_of(name: str, dim: int) -> Symbol | None:
    """The symbol of the first layer, of B the last one; None for networks without symbols."""
    kind, options, _ = NETWORKS[name]
    sizes = {"pdno": {"width": 1, "layers": 1, **SMALL}, "pdio": SMALL}
    sizes |= {"semigroup": {"modes": 4, "width": 2, "symbol_hidden": 8, "frequency_scale": 4.0}}
    small = sizes.get(kind, {"modes": 4, "width": 1, "layers": 1} if kind == "fno" else {})
    network = specify(kind, **{**small, **options}).build(dim, 1, 1)
    layers = [m for m in network.modules() if isinstance(m, PseudoDifferentialOperator)]
    return layers[-1 if "B" in name.split(", ") else 0].symbol if layers else None


def certificate_of(name: str, dim: int) -> Certificate | None:
    """The certificate of a network with random weights."""
    symbol = symbol_of(name, dim)
    if symbol is None:
        return None
    return certify(symbol, NETWORKS[name][2], t=0.5 if symbol.takes_time else None)


def row(name: str) -> str:
    """What is known for n = 1, 2 and 3, and whether constants are enclosed."""
    cells, constants = list[str](), "–"
    for dim in (1, 2, 3):
        certificate = certificate_of(name, dim) if (name, dim) != ("`MWT`", 3) else None
        if certificate is None:
            cells.append("no symbol")
            continue
        order = f"S^{certificate.order:g}" if certificate.order > -9 else "every S^m"
        words = f"tested, {certificate.assessment}"
        if certificate.witness is not None:
            words = f"counterexample: {certificate.witness.kind}"
        cells.append(f"proved: {order}" if certificate.accepted else words)
        if dim == 1 and certificate.accepted and certificate.constants(boxes=64):
            constants = "enclosed"
    return f"| {name} | " + " | ".join([*cells, constants]) + " |"


def proposition() -> None:
    """Proposition 1: networks of ξ with GELU are in S^1. True for n = 1, false for n >= 2."""
    for dim in (1, 2, 3):
        certificate = certificate_of(PROPOSITION, dim)
        assert certificate is not None
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
    head = "| network | n = 1 | n = 2 | n = 3 | constants, n = 1 |\n|---|---|---|---|---|"
    lines = "\n".join([head, *map(row, NETWORKS)])
    before, rest = MANUAL.read_text(encoding="utf-8").split(BEGIN)
    text = f"{before}{BEGIN}\n\n{lines}\n\n{END}{rest.split(END)[1]}"
    MANUAL.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
