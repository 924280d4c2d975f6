"""Theory: symbol classes (`certify`), norms and error bounds, and the calculus of symbols.

certificate assesses by rules what measurement and search find with a probe of a
symbol; norms and lipschitz bound operators and networks; enclosure has proven
constants in the continuum, by interval; extraction finds symbols, calculus combines them.
"""

from pdno.theory.certificate import Certificate as Certificate
from pdno.theory.certificate import certify as certify
from pdno.theory.measurement import Witness as Witness
from pdno.theory.probe import evaluate_at as evaluate_at
