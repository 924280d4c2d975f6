"""Symbols a(x, ξ) of pseudo-differential operators.

base has the interface and the direct double sum; analytic the formulas (heat, derivatives, ...);
network the paper's symbols made of networks and the table of FNO; classical ⟨ξ⟩^m b(x, ω).
"""

from pdno.symbols.analytic import Advection as Advection
from pdno.symbols.analytic import AnalyticSymbol as AnalyticSymbol
from pdno.symbols.analytic import BiotSavart as BiotSavart
from pdno.symbols.analytic import Derivative as Derivative
from pdno.symbols.analytic import DifferentialOperator as DifferentialOperator
from pdno.symbols.analytic import FractionalLaplacian as FractionalLaplacian
from pdno.symbols.analytic import Gradient as Gradient
from pdno.symbols.analytic import HeatSymbol as HeatSymbol
from pdno.symbols.analytic import Multiplication as Multiplication
from pdno.symbols.analytic import Resolvent as Resolvent
from pdno.symbols.analytic import Wave as Wave
from pdno.symbols.base import FullSymbol as FullSymbol
from pdno.symbols.base import Symbol as Symbol
from pdno.symbols.base import SymbolValues as SymbolValues
from pdno.symbols.classical import ClassicalSymbol as ClassicalSymbol
from pdno.symbols.mlp import ACTIVATIONS as ACTIVATIONS
from pdno.symbols.network import LowRankSymbol as LowRankSymbol
from pdno.symbols.network import NetworkSymbol as NetworkSymbol
from pdno.symbols.network import TableSymbol as TableSymbol
from pdno.symbols.network import TrunkSymbol as TrunkSymbol
from pdno.symbols.scale import InputScale as InputScale
