"""Symbols that are in S^m_{1,0} whatever their weights are, in every dimension.

    a(x, ξ) = ⟨ξ⟩^m b(x, ω),    ω = (1, ξ)/⟨ξ⟩,    ⟨ξ⟩ = (1 + |ξ|²)^{1/2}

ω runs through the upper half of the unit sphere, a bounded set with the directions ξ/|ξ| of
infinity as its rim. Where b is smooth on that closed set and periodic in x, a is a symbol of order
m: docs/theory_symbol_classes.md has the proof. A network with a smooth activation is such a b; x
enters as cos 2πx and sin 2πx, ξ in units of the `frequency_scale`. An operator maps real functions
to real ones if a(x, -ξ) = conj a(x, ξ): Re a even, Im a odd (see `ParityMLP`).

Structure of the channel matrix A(ξ), with networks N and M, K = (N - N*)/2 and P = M M*:

    free                    A = ⟨ξ⟩^m N
    self-adjoint            A = ⟨ξ⟩^m (N + N*)/2                   the operator is self-adjoint
    elliptic                A = ⟨ξ⟩^m (c + P) e^K                  |A v| >= c ⟨ξ⟩^m |v|
    dissipative             A = ⟨ξ⟩^m (K - P)                      Re (A v, v) <= 0
    dissipative, elliptic   A = ⟨ξ⟩^m (K - P) - c |ξ|² ⟨ξ⟩^{m-2}   Re (A v, v) <= -c |ξ|² ⟨ξ⟩^{m-2}
    with time               e^{tA}, A dissipative                  a(s + t) = a(s) a(t)

Self-adjoint and one of the others leaves K out. c > 0 is learned. The operators inherit all this,
except that of the mode N/2 of an even grid only the real part acts.
"""

__all__ = ["ClassicalSymbol"]

import math
from functools import partial
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from pdno.symbols.mlp import ACTIVATIONS, MLPOptions, SymbolMLP, join_parts
from pdno.symbols.scale import InputScale
from pdno.symbols.separated import SeparatedSymbol

GAIN = 4.0  # inputs lie on the unit sphere, where torch's own start would be almost linear


class ClassicalSymbol(SeparatedSymbol):
    """a_ij(x, ξ) = a1_ij(x) ⟨ξ⟩^m a2_ij((1, ξ)/⟨ξ⟩), in S^m_{1,0} in every dimension.

    a1 starts near 1, so that the operator starts as an a(ξ); an elliptic symbol has one a1(x) > 0
    for all pairs. With time the symbol is e^{tA}: A of order m is dissipative, elliptic if m > 0.
    Self-adjoint or dissipative symbols have no x: with x the adjoint is not separated. If not
    `hermitian`, the operator on real fields has another symbol, one that jumps at ξ_d = 0.

    Example:
        >>> symbol = ClassicalSymbol(2, 2, scale=InputScale(2, 1.0, 4.0), order=-2.0)
        >>> values = symbol.evaluate_at(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]))
        >>> values.frequency.shape, values.space.shape
        (torch.Size([1, 2, 2, 1]), torch.Size([1, 2, 2, 1]))
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        scale: InputScale,
        order: float = 0.0,
        depends_on_x: bool = True,
        takes_time: bool = False,
        hermitian: bool = True,
        elliptic: bool = False,
        self_adjoint: bool = False,
        dissipative: bool = False,
        **network: Unpack[MLPOptions],
    ) -> None:
        parts: Any = {"scale": scale, "depends_on_x": depends_on_x, "takes_time": takes_time}
        super().__init__(in_channels, out_channels, **parts)
        self.periodic, self.order = True, float(order)
        self.self_adjoint, self.dissipative = self_adjoint, dissipative or takes_time
        self.elliptic = elliptic or (takes_time and order > 0)
        self.exact_structure = self.self_adjoint or self.elliptic or self.dissipative
        self._check(network)
        pairs = in_channels * out_channels
        even, odd = ("even", "odd") if hermitian else ("none", "none")
        make = partial(ParityMLP, scale.dim + 1, pairs, **network)
        self.real, self.imaginary = make(parity=even), make(parity=odd)
        if self.dissipative or self.elliptic:
            self.root_real, self.root_imaginary = make(parity=even), make(parity=odd)
        if self.elliptic:
            self.log_ellipticity = nn.Parameter(torch.tensor(math.log(0.1)))  # of c at the start
        self.space = None
        if depends_on_x:
            self.space = SymbolMLP(2 * scale.dim, 1 if self.elliptic else pairs, **network)
            with torch.no_grad():  # near 1 at the start; that of an elliptic symbol is e^a1
                self.space.linear_out.bias.add_(0.0 if self.elliptic else 1.0)

    def frequency_factor(self, xi: Tensor, t: Tensor | None) -> Tensor:
        """⟨ξ⟩^m a2(ω), or its exponential, at ξ."""
        bracket = (1.0 + xi.square().sum(dim=-1, keepdim=True)).sqrt()
        omega = torch.cat([torch.ones_like(bracket), xi], dim=-1) / bracket
        size = bracket.squeeze(-1) ** self.order
        if not self.exact_structure:
            return (self._pairs(self.real, self.imaginary, omega) * size).unsqueeze(0)
        a = self._structured(omega) * size[..., None, None]
        return (a if t is None else _exponential(a, t)).movedim((-2, -1), (0, 1)).unsqueeze(0)

    def space_factor(self, x: Tensor, t: Tensor | None) -> Tensor:
        """a1 at x, from features that make it periodic; it does not depend on time."""
        assert self.space is not None
        # the scale says what networks see of x; the torus has period 1 whatever it says
        angle = 2 * math.pi * x / self.scale.coordinate.to(x)
        features = torch.cat([torch.cos(angle), torch.sin(angle)], dim=-1)
        # all pairs of a point lie together in memory, as the operator reads them
        values: Tensor = self.space(features).movedim(-1, 0)
        sizes = (1, 1) if self.elliptic else (self.out_channels, self.in_channels)
        return (values.exp() if self.elliptic else values).reshape(1, *sizes, *values.shape[1:])

    def _structured(self, omega: Tensor) -> Tensor:
        """A ⟨ξ⟩^{-m} as matrices (*K, C, C)."""
        n = self._pairs(self.real, self.imaginary, omega).movedim((0, 1), (-2, -1))
        if not (self.elliptic or self.dissipative):
            return 0.5 * (n + n.mH)
        root = self._pairs(self.root_real, self.root_imaginary, omega).movedim((0, 1), (-2, -1))
        positive = root @ root.mH
        if self.elliptic:
            unit = torch.eye(self.in_channels, dtype=n.dtype, device=n.device)
            # |ξ|²/⟨ξ⟩², so that e^{tA} may keep the mean
            weight = omega[..., 1:].square().sum(dim=-1) if self.dissipative else 1.0
            positive = positive + (self.log_ellipticity.exp() * weight)[..., None, None] * unit
        skew = 0.5 * (n - n.mH)
        if self.dissipative:
            return -positive if self.self_adjoint else skew - positive
        return positive if self.self_adjoint else positive @ _exponential(skew)

    def _pairs(self, real: SymbolMLP, imaginary: SymbolMLP, omega: Tensor) -> Tensor:
        """A complex network of ω, (*K, d + 1) -> (O, I, *K)."""
        values = join_parts(real.fields(omega), imaginary.fields(omega))
        return values.reshape(self.out_channels, self.in_channels, *values.shape[1:])

    def _check(self, network: MLPOptions) -> None:
        for name in ("activation", "first_activation"):
            given = network.get(name)
            if given in ACTIVATIONS and ACTIVATIONS[given].order is None:
                problem = f"{name} {given!r} of a classical symbol: it is not smooth"
                raise ValueError(f"{problem}; take gelu, softplus, silu, tanh or sigmoid")
        names = ("takes_time", "self_adjoint", "dissipative", "elliptic")
        structure = [name for name in names if getattr(self, name)]
        if structure and self.in_channels != self.out_channels:
            channels = f"from {self.in_channels} to {self.out_channels} channels"
            raise ValueError(f"{structure[0]} {channels}: give as many outputs as inputs")
        if self.depends_on_x and structure and structure != ["elliptic"]:
            whose = "is a property of a(ξ) alone: give depends_on_x=False"
            raise ValueError(f"{structure[0]} {whose}")


class ParityMLP(SymbolMLP):
    """(N(ω) ± N(ω')) / 2 with ω' = (1, -ξ)/⟨ξ⟩, "even" or "odd" in ξ, or N(ω) itself, "none".

    The last map of N is linear: to symmetrise the last hidden layer is enough; an odd network has
    no bias there.
    """

    def __init__(
        self, in_features: int, out_features: int, *, parity: str, **network: Unpack[MLPOptions]
    ) -> None:
        super().__init__(in_features, out_features, **network)
        self.parity = parity
        with torch.no_grad():
            self.linear_in.weight.mul_(GAIN)
        if parity == "odd":
            del self.linear_out.bias
            self.linear_out.register_buffer("bias", torch.zeros(out_features), persistent=False)

    def features(self, points: Tensor) -> Tensor:
        """The last hidden layer with its parity, (..., d + 1) -> (..., hidden)."""
        z = super().features(points)
        if self.parity == "none":
            return z
        mirrored = super().features(torch.cat([points[..., :1], -points[..., 1:]], dim=-1))
        return 0.5 * (z + mirrored if self.parity == "even" else z - mirrored)


def _exponential(a: Tensor, t: Tensor | None = None) -> Tensor:
    """e^{tA} of matrices (*K, C, C), with a leading B for t of shape (B,)."""
    if t is not None:
        a = t.reshape(-1, *[1] * a.dim()) * a if t.dim() else t * a
    if a.shape[-1] == 1:
        return a.exp()
    # squaring loses a digit for every factor ten of |tA|: single precision has too few
    exponential: Tensor = torch.linalg.matrix_exp(a.to(torch.complex128).contiguous())
    return exponential.to(a.dtype)
