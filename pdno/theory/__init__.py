"""What can be said about operators and symbols.

First symbol classes, judged by `certify`, then operators:

    certificate    is a symbol in S^m_{1,0}? the verdict, with witnesses
    measurement    the sizes of all Δ_ξ^α ∂_x^β a on the rays where they are worst
    search         these rays, and the points x
    smoothness     kinks and jumps in x and ξ
    probe          every kind of symbol and its differences at any points, in double precision
    stencil        differences and derivatives as sums over a few points
    sobolev        norms of operators between Sobolev spaces, from below
    norm_bound     the same from above, proven
    enclosure      proven constants of classical symbols, norms and errors in the continuum
    interval       balls and jets that contain exact numbers
    lipschitz      Lipschitz constants of a network, and its derivative at a state
    rollout_bound  how long a rollout is guaranteed
    extraction     the symbol of any operator
    recovery       physical constants from a learned symbol
    microlocal     principal symbols, characteristic sets, wave packets
    calculus       products, adjoints, inverses and commutators of symbols
"""

from pdno.theory.certificate import Certificate as Certificate
from pdno.theory.certificate import Witness as Witness
from pdno.theory.certificate import certify as certify
from pdno.theory.probe import evaluate_at as evaluate_at
