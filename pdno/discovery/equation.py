"""Equations as text and LaTeX, with error bars, and with simple numbers where the bars allow."""

import math
import re
from dataclasses import dataclass, replace

NORMAL_95 = 1.959964  # standard errors of an interval that holds 95 % of a normal distribution
MOST_DIGITS = 3  # of a number that is simple
WIDEST = 0.25  # a bar in terms of the coefficient that simplifies nothing


@dataclass(frozen=True)
class Coefficient:
    """The coefficient of a term in the equation of a field, and its standard error if fitted."""

    term: str
    field: int
    value: float
    error: float | None = None
    identified: bool = True

    @property
    def bar(self) -> float:
        """Half of the width of the 95 % interval; 0 where the coefficient was not fitted."""
        return NORMAL_95 * self.error if self.error is not None else 0.0

    def number(self, plus_minus: str) -> str:
        """|c| and its bar, with digits as the bar allows."""
        size = abs(self.value)
        if not self.identified:
            return f"({size:.2g}, not identified)"
        if self.error is None or not self.bar > 0:
            return f"{size:.6g}"
        digits = max(0, 1 - math.floor(math.log10(self.bar)))
        if digits > 8 or size >= 1e5:
            return f"({size:.6g} {plus_minus} {self.bar:.1e})"
        return f"({size:.{digits}f} {plus_minus} {self.bar:.{digits}f})"

    def simple(self) -> float | None:
        """The number with the fewest digits, at most three, if the bar holds only one such."""
        if not 0 < self.bar < WIDEST * abs(self.value) or not self.identified:
            return None
        for digits in range(1, MOST_DIGITS + 1):
            unit = 10.0 ** (math.floor(math.log10(abs(self.value))) + 1 - digits)
            low = math.ceil((self.value - self.bar) / unit)
            high = math.floor((self.value + self.bar) / unit)
            if low == high:
                return float(f"{low * unit:.{MOST_DIGITS}g}")
            if low < high:
                return None
        return None


@dataclass(frozen=True)
class Equation:
    """u_t = Σ_k c_k T_k(u), an equation for each of the fields `names`; ± are 95 % intervals."""

    names: tuple[str, ...]
    coefficients: tuple[Coefficient, ...]

    @property
    def text(self) -> str:
        """One line for each field."""
        return "\n".join(f"{name}_t = {self._side(f)}" for f, name in enumerate(self.names))

    @property
    def latex(self) -> str:
        """The same as LaTeX, lines separated by a line break."""
        sides = [f"{name}_t = {self._side(f, latex=True)}" for f, name in enumerate(self.names)]
        return r" \\ ".join(sides)

    def __str__(self) -> str:
        return self.text

    def _repr_latex_(self) -> str:
        return f"${self.latex}$"

    def simplified(self) -> "Equation":
        """The same with simple numbers, without bars, where the bars hold only one."""
        simple = [(c, c.simple()) for c in self.coefficients]
        new = [c if s is None else replace(c, value=s, error=None) for c, s in simple]
        return replace(self, coefficients=tuple(new))

    def _side(self, field: int, *, latex: bool = False) -> str:
        side = ""
        for c in self.coefficients:
            if c.field == field:
                sign = "-" if c.value < 0 else "+" if side else ""
                term = "" if c.term == "1" else _spell(c.term, latex=latex)
                number = c.number(r"\pm" if latex else "±")
                number = "" if number == "1" and term else number
                words = " ".join(filter(None, (number, term)))
                side += f" {sign} {words}" if side else f"{sign}{words}"
        return side or "0"


def _phase(numbers: str) -> str:
    parts = ""
    for k, axis in zip(map(int, numbers.split(",")), "xyz", strict=False):
        sign = "-" if k < 0 else "+" if parts else ""
        parts += f"{sign}{abs(k) if abs(k) > 1 else ''}{axis}" if k else ""
    return parts


def _spell(term: str, *, latex: bool) -> str:
    """The text of a term, with the phase of a wave written out."""
    if wave := re.fullmatch(r"(cos|sin)\((.+)\)", term):
        phase = _phase(wave[2])
        return rf"\{wave[1]} 2\pi({phase})" if latex else f"{wave[1]} 2π({phase})"
    if not latex:
        return term
    words = [re.sub(r"_([xyz]+)", r"_{\1}", word) for word in term.split()]
    text = r" \, ".join(words).replace("Δ²", r"\Delta^2 ").replace("Δ", r"\Delta ")
    return text.replace("v·∇", r"v \cdot \nabla ")
