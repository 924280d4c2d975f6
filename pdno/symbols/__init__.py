"""Symbols a(x, ξ): networks, tables, formulas, low rank, provable, and the direct sum."""

from pdno.symbols.activations import ACTIVATIONS as ACTIVATIONS
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
from pdno.symbols.full import FullSymbol as FullSymbol
from pdno.symbols.low_rank import LowRankSymbol as LowRankSymbol
from pdno.symbols.network import NetworkSymbol as NetworkSymbol
from pdno.symbols.scale import InputScale as InputScale
from pdno.symbols.table import TableSymbol as TableSymbol
