"""Theory: symbol classes (`certify`), norms and error bounds, and the calculus of symbols.

certificate asks prover for a proof from the expression of a symbol, else probe and witness for a
counterexample; enclosure has constants by interval; norms and lipschitz bound operators and
networks; extraction finds symbols, calculus combines them.
"""

from pdno.theory.certificate import Certificate as Certificate
from pdno.theory.certificate import certify as certify
from pdno.theory.probe import evaluate_at as evaluate_at
from pdno.theory.witness import Witness as Witness
