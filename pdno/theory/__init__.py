"""What can be said about operators and symbols: classes, norms, bounds, calculus."""

from pdno.theory.access import evaluate_at as evaluate_at
from pdno.theory.certificate import Certificate as Certificate
from pdno.theory.certificate import certify as certify
from pdno.theory.judgement import Witness as Witness
