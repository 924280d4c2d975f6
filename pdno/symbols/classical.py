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

With pde_parameters of the equation N, M and a1 see them, too: for every μ, A(ξ; μ) has this structure.

Self-adjoint and one of the others leaves K out. c > 0 is learned.

The operators inherit this on every grid. Where N_j is even, ξ_j = N_j/2 stands for both signs,
and a structured symbol has the means of its parts there, P and K or (N + N*)/2, before they are
put together: what is self-adjoint, positive or skew stays so, and e^{tA} is a semigroup. With kept
modes k < N_j/2 the mode ξ_j = -k is kept without its partner k and would act by half where
ξ_d = 0: it is left out. A symbol that is not structured has values as written, and at N/2 their
real part acts.
"""

__all__ = ["ClassicalSymbol"]

import math
from functools import partial
from typing import Any, Unpack

import torch
from torch import Tensor, nn

from pdno.spectral.fourier import Modes
from pdno.spectral.grid import Grid, kept_per_axis
from pdno.symbols.mlp import ACTIVATIONS, MLPOptions, SymbolMLP, join_parts
from pdno.symbols.scale import InputScale
from pdno.symbols.separated import SeparatedSymbol, with_numbers

GAIN = 4.0  # inputs lie on the unit sphere, where torch's own start would be almost linear


class ClassicalSymbol(SeparatedSymbol):
    """a_ij(x, ξ) = a1_ij(x) ⟨ξ⟩^m a2_ij((1, ξ)/⟨ξ⟩), in S^m_{1,0} in every dimension.

    a1 starts near 1, so that the operator starts as an a(ξ); an elliptic symbol has one a1(x) > 0
    for all pairs. With time the symbol is e^{tA}: A of order m is dissipative, elliptic if m > 0;
    with pde_parameters of the equation it is e^{tA(ξ; μ)}.
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
        pde_parameters: int = 0,
        hermitian: bool = True,
        elliptic: bool = False,
        self_adjoint: bool = False,
        dissipative: bool = False,
        **network: Unpack[MLPOptions],
    ) -> None:
        parts: Any = {"scale": scale, "depends_on_x": depends_on_x, "takes_time": takes_time}
        super().__init__(in_channels, out_channels, pde_parameters=pde_parameters, **parts)
        self.periodic, self.order, self.hermitian = True, float(order), hermitian
        self.self_adjoint, self.dissipative = self_adjoint, dissipative or takes_time
        self.elliptic = elliptic or (takes_time and order > 0)
        self.exact_structure = self.self_adjoint or self.elliptic or self.dissipative
        self._check(network)
        pairs = in_channels * out_channels
        even, odd = ("even", "odd") if hermitian else ("none", "none")
        make = partial(ParityMLP, scale.dim, pde_parameters, pairs, **network)
        self.real, self.imaginary = make(parity=even), make(parity=odd)
        if self.dissipative or self.elliptic:
            self.root_real, self.root_imaginary = make(parity=even), make(parity=odd)
        if self.elliptic:
            self.log_ellipticity = nn.Parameter(torch.tensor(math.log(0.1)))  # of c at the start
        self.space = None
        if depends_on_x:
            self.space = SymbolMLP(
                2 * scale.dim + pde_parameters, 1 if self.elliptic else pairs, **network
            )
            with torch.no_grad():  # near 1 at the start; that of an elliptic symbol is e^a1
                self.space.linear_out.bias.add_(0.0 if self.elliptic else 1.0)

    def proven_order(self, t: float | None = None) -> float:
        """m, or that of e^{tA}: 0, and -inf for t > 0 where A is elliptic of positive order."""
        if not self.takes_time:
            return self.order
        return -math.inf if self.order > 0 and t else 0.0

    def frequency_factor(self, xi: Tensor, t: Tensor | None) -> Tensor:
        """⟨ξ⟩^m a2(ω), or its exponential, at ξ."""
        if not self.exact_structure:
            omega, size = _compactify(xi, self.order)
            seen = with_numbers(omega, self._scalars(t))
            return (self._pairs(self.real, self.imaginary, seen) * size).unsqueeze(0)
        return self._assemble(self._parts(xi, t), xi, t)

    def frequency_on(self, grid: Grid, modes: Modes, xi: Tensor, t: Tensor | None) -> Tensor:
        """The same on a grid, structured symbols with the means of both signs at N/2."""
        if not self.exact_structure:
            return self.frequency_factor(xi, t)
        whole, kept = grid.modes(modes, device=xi.device), kept_per_axis(grid.shape, modes)
        lone = torch.zeros(xi.shape[:-1], dtype=torch.bool, device=xi.device)
        parts = [(1.0, xi)]
        for axis, (n, k) in enumerate(zip(grid.shape, kept, strict=True)):
            twofold = 2 * whole[..., axis].abs() == n
            if bool(twofold.any()):
                signs = torch.where(twofold, -1.0, 1.0).to(xi)
                turned = torch.ones_like(xi)
                turned[..., axis] = signs
                parts = [(w / 2, p) for w, at in parts for p in (at, at * turned)]
            if k is not None and axis + 1 < grid.dim and 2 * k < n:
                lone |= whole[..., axis] == -k
        means = [(weight, self._parts(at, t)) for weight, at in parts]
        names = means[0][1]
        joined = {name: torch.stack([w * p[name] for w, p in means]).sum(dim=0) for name in names}
        return self._assemble(joined, xi, t).masked_fill(lone, 0.0)

    def space_factor(self, x: Tensor, t: Tensor | None) -> Tensor:
        """a1 at x, from features that make it periodic, and at the pde_parameters; it has no time."""
        assert self.space is not None
        # the scale says what networks see of x; the torus has period 1 whatever it says
        angle = 2 * math.pi * x / self.scale.coordinate.to(x)
        features = torch.cat([torch.cos(angle), torch.sin(angle)], dim=-1)
        # all pairs of a point lie together in memory, as the operator reads them
        values: Tensor = self.space(with_numbers(features, self._scalars(t))).movedim(-1, 0)
        sizes = (1, 1) if self.elliptic else (self.out_channels, self.in_channels)
        return (values.exp() if self.elliptic else values).reshape(1, *sizes, *values.shape[1:])

    def _scalars(self, t: Tensor | None) -> Tensor | None:
        """The numbers that it sees without the time."""
        return None if t is None or not self.pde_parameters else t[..., -self.pde_parameters :]

    def _parts(self, xi: Tensor, t: Tensor | None) -> dict[str, Tensor]:
        """What A ⟨ξ⟩^{-m} is made of, matrices (*K, C, C): the self-adjoint, or P (+ c) and K.

        They come with a leading B where each sample has pde_parameters of its own.
        """
        omega, _ = _compactify(xi, self.order)
        seen = with_numbers(omega, self._scalars(t))
        n = self._pairs(self.real, self.imaginary, seen).movedim((0, 1), (-2, -1))
        if not (self.elliptic or self.dissipative):
            return {"symmetric": 0.5 * (n + n.mH)}
        root = self._pairs(self.root_real, self.root_imaginary, seen).movedim((0, 1), (-2, -1))
        positive = root @ root.mH
        if self.elliptic:
            unit = torch.eye(self.in_channels, dtype=n.dtype, device=n.device)
            # |ξ|²/⟨ξ⟩², so that e^{tA} may keep the mean
            weight = omega[..., 1:].square().sum(dim=-1) if self.dissipative else 1.0
            positive = positive + (self.log_ellipticity.exp() * weight)[..., None, None] * unit
        return {"positive": positive, "skew": 0.5 * (n - n.mH)}

    def _assemble(self, parts: dict[str, Tensor], xi: Tensor, t: Tensor | None) -> Tensor:
        """A, or e^{tA}, from its parts, (1, O, I, *K), B after I if t is (B, P)."""
        time = t[..., 0] if t is not None and self.takes_time else None
        if time is not None and bool((time < 0).any()):
            least = f"t is {float(time.min()):g}; expected t >= 0"
            raise ValueError(f"{least}: e^{{tA}} of a dissipative A grows without bound backwards")
        if "symmetric" in parts:
            a = parts["symmetric"]
        else:
            positive, skew = parts["positive"], parts["skew"]
            if self.dissipative:
                a = -positive if self.self_adjoint else skew - positive
            else:
                a = positive if self.self_adjoint else positive @ _exponential(skew)
        a = a * _compactify(xi, self.order)[1][..., None, None]
        if time is not None:
            a = _exponential(time.reshape(*time.shape, *[1] * (xi.dim() + 1)) * a)
        return a.movedim((-2, -1), (0, 1)).unsqueeze(0)

    def _pairs(self, real: SymbolMLP, imaginary: SymbolMLP, omega: Tensor) -> Tensor:
        """A complex network of ω and the pde_parameters, (..., d + 1 + P) -> (O, I, ...)."""
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

    N may see pde_parameters after ω. The last map of N is linear: to symmetrise the last hidden layer is
    enough; an odd network has no bias there.
    """

    def __init__(
        self,
        dim: int,
        pde_parameters: int,
        out_features: int,
        *,
        parity: str,
        **network: Unpack[MLPOptions],
    ) -> None:
        super().__init__(dim + 1 + pde_parameters, out_features, **network)
        self.dim, self.parity = dim, parity
        with torch.no_grad():
            self.linear_in.weight.mul_(GAIN)
        if parity == "odd":
            del self.linear_out.bias
            self.linear_out.register_buffer("bias", torch.zeros(out_features), persistent=False)

    def features(self, points: Tensor) -> Tensor:
        """The last hidden layer with its parity, (..., d + 1 + P) -> (..., hidden)."""
        z = super().features(points)
        if self.parity == "none":
            return z
        sign = torch.ones_like(points)
        sign[..., 1 : 1 + self.dim] = -1
        mirrored = super().features(sign * points)
        return 0.5 * (z + mirrored if self.parity == "even" else z - mirrored)


def _compactify(xi: Tensor, order: float) -> tuple[Tensor, Tensor]:
    """ω = (1, ξ)/⟨ξ⟩ and ⟨ξ⟩^m of ξ (*K, d)."""
    bracket = (1.0 + xi.square().sum(dim=-1, keepdim=True)).sqrt()
    omega = torch.cat([torch.ones_like(bracket), xi], dim=-1) / bracket
    return omega, bracket.squeeze(-1) ** order


def _exponential(a: Tensor) -> Tensor:
    """e^A of matrices (..., C, C)."""
    if a.shape[-1] == 1:
        return a.exp()
    # squaring loses a digit for every factor ten of |tA|: single precision has too few
    exponential: Tensor = torch.linalg.matrix_exp(a.to(torch.complex128).contiguous())
    return exponential.to(a.dtype)
