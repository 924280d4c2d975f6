"""Symbols a(x, ξ), by families.

    base        Symbol and SymbolValues: what an operator asks of a symbol
    network     a1(x) a2(ξ), the paper's symbol; Σ_r b_r(x) c_r(ξ); R(ξ), the free table of FNO
    classical   ⟨ξ⟩^m b(x, ω), in S^m_{1,0} by construction
    trunk       a1(x) a2(ξ) with one trunk for a2, in S^0_{1,0}
    analytic    formulas: heat, derivatives, resolvent, ...
    direct      any a(x, ξ) and its double sum, for small grids

and what the families made of networks share: separated (on a grid or anywhere), mlp (the network
and its activations), scale (what it sees of x and ξ), nodes (smooth x-factors from few points).
"""

from pdno.symbols.analytic import Advection as Advection
from pdno.symbols.analytic import AnalyticSymbol as AnalyticSymbol
from pdno.symbols.analytic import Derivative as Derivative
from pdno.symbols.analytic import FractionalLaplacian as FractionalLaplacian
from pdno.symbols.analytic import Heat as Heat
from pdno.symbols.analytic import Multiplication as Multiplication
from pdno.symbols.analytic import Resolvent as Resolvent
from pdno.symbols.analytic import Wave as Wave
from pdno.symbols.base import Symbol as Symbol
from pdno.symbols.base import SymbolValues as SymbolValues
from pdno.symbols.classical import ClassicalSymbol as ClassicalSymbol
from pdno.symbols.direct import FullSymbol as FullSymbol
from pdno.symbols.mlp import ACTIVATIONS as ACTIVATIONS
from pdno.symbols.network import LowRankSymbol as LowRankSymbol
from pdno.symbols.network import NetworkSymbol as NetworkSymbol
from pdno.symbols.network import TableSymbol as TableSymbol
from pdno.symbols.scale import InputScale as InputScale
from pdno.symbols.trunk import TrunkSymbol as TrunkSymbol
