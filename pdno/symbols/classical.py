"""Symbols in S^m_{1,0} for all weights and in every dimension: docs/theory_symbol_classes.md."""

import math
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from pdno.spectral.fourier import Modes
from pdno.spectral.grid import Grid, kept_per_axis
from pdno.symbols.mlp import ACTIVATIONS, SymbolMLP
from pdno.symbols.network import NetworkOptions, SeparatedSymbol, append_parameters

Parity = Literal["even", "odd", "none"]
GAIN = 4.0  # inputs lie on the unit sphere, where torch's own start would be almost linear


class ClassicalSymbol(SeparatedSymbol, options=NetworkOptions):
    """a_ij(x, ξ) = a1_ij(x) ⟨ξ⟩^m a2_ij(ω) with ω = (1, ξ)/⟨ξ⟩, in S^m_{1,0}.

    ⟨ξ⟩ = (1 + |ξ|²)^{1/2}. ω lies on a half sphere, with the directions of infinity as its rim; x
    enters as cos 2πx and sin 2πx, ξ in units of the `frequency_scale`. a1 starts near 1, so that
    the operator starts as an a(ξ). The channel matrix A(ξ) may have a structure, by networks N and
    M of ω and the PDE parameters, with K = (N - N*)/2, P = M M* and a learned c > 0:

        free                    A = ⟨ξ⟩^m N
        self-adjoint            A = ⟨ξ⟩^m (N + N*)/2                  the operator is self-adjoint
        elliptic                A = ⟨ξ⟩^m (c + P) e^K                 |A v| >= c ⟨ξ⟩^m |v|
        dissipative             A = ⟨ξ⟩^m (K - P)                     Re (A v, v) <= 0
        dissipative, elliptic   A = ⟨ξ⟩^m (K - P) - c |ξ|² ⟨ξ⟩^{m-2}  Re (A v, v) <= -c |ξ|² ...
        takes_time              e^{tA}, A dissipative                 a(s + t) = a(s) a(t)

    Self-adjoint and one of the others leaves K out. With time, A is elliptic if m > 0. An elliptic
    symbol has one a1(x) > 0 for all pairs; the others have no x, as their adjoint with x is not
    separated. If `hermitian`, a(x, -ξ) = conj a(x, ξ) (see `ParityMLP`); otherwise the operator
    on real fields has another symbol, one that jumps at ξ_d = 0. The structure holds exactly on
    every grid (see `frequency_on`).

    Example:
        >>> from pdno.symbols import InputScale
        >>> symbol = ClassicalSymbol(2, 2, scale=InputScale(2, 1.0, 4.0), order=-2.0)
        >>> values = symbol.evaluate_at(torch.zeros(1, 2), torch.tensor([[3.0, 4.0]]))
        >>> values.frequency.shape, values.space.shape
        (torch.Size([1, 2, 2, 1]), torch.Size([1, 2, 2, 1]))
    """

    periodic = True
    real: "ParityMLP"
    imaginary: "ParityMLP"

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        *,
        order: float = 0.0,
        hermitian: bool = True,
        elliptic: bool = False,
        self_adjoint: bool = False,
        dissipative: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(in_channels, out_channels, **options)
        self.order, self.hermitian = float(order), hermitian
        self.class_order = self.order
        self.self_adjoint, self.dissipative = self_adjoint, dissipative or self.takes_time
        self.elliptic = elliptic or (self.takes_time and order > 0)
        self.exact_structure = self.self_adjoint or self.elliptic or self.dissipative
        self._check_structure()
        make = partial(ParityMLP, self.dim, self.pde_parameters, self.pairs, self.network)
        even: Parity = "even" if hermitian else "none"
        odd: Parity = "odd" if hermitian else "none"
        self.real, self.imaginary = make(even), make(odd)
        if self.dissipative or self.elliptic:
            self.root_real, self.root_imaginary = make(even), make(odd)
        if self.elliptic:
            self.log_ellipticity = nn.Parameter(torch.tensor(math.log(0.1)))  # of c at the start
        self.space = None
        if self.depends_on_x:
            outputs = 1 if self.elliptic else self.pairs
            self.space = SymbolMLP(2 * self.dim + self.pde_parameters, outputs, *self.network)
            with torch.no_grad():  # near 1 at the start; that of an elliptic symbol is e^a1
                self.space.linear_out.bias.add_(0.0 if self.elliptic else 1.0)

    def _check_structure(self) -> None:
        structures = ("takes_time", "self_adjoint", "dissipative", "elliptic")
        structure = [name for name in structures if getattr(self, name)]
        if structure and self.in_channels != self.out_channels:
            channels = f"from {self.in_channels} to {self.out_channels} channels"
            raise ValueError(f"{structure[0]} {channels}: give as many outputs as inputs")
        if self.depends_on_x and structure and structure != ["elliptic"]:
            hint = "is a property of a(ξ) alone: give depends_on_x=False"
            raise ValueError(f"{structure[0]} {hint}")
        for name in self.network[2:]:
            if name in ACTIVATIONS and ACTIVATIONS[name].order is None:
                cure = "it is not smooth; take gelu, softplus, silu, tanh or sigmoid"
                raise ValueError(f"activation {name!r} of a classical symbol: {cure}")

    def frequency_factor(self, xi: Tensor, t: Tensor | None) -> Tensor:
        """⟨ξ⟩^m a2(ω), or its exponential, at ξ."""
        if self.exact_structure:
            return self._assemble(self._parts(xi, t), xi, t)
        omega, size = _compactify(xi, self.order)
        points = append_parameters(omega, self._without_time(t))
        return self.complex_matrix(self.real, self.imaginary, points) * size

    def frequency_on(self, grid: Grid, modes: Modes, xi: Tensor, t: Tensor | None) -> Tensor:
        """The same on a grid, where structured symbols keep their structure.

        ξ_j = N_j/2 stands for both signs: P and K, or (N + N*)/2, are means there. With kept modes
        k < N_j/2 the mode ξ_j = -k has no partner: it is 0.
        """
        if not self.exact_structure:
            return self.frequency_factor(xi, t)
        integers, kept = grid.modes(modes, device=xi.device), kept_per_axis(grid.shape, modes)
        unpaired = torch.zeros(xi.shape[:-1], dtype=torch.bool, device=xi.device)
        points = [xi]
        for axis, (n, k) in enumerate(zip(grid.shape, kept, strict=True)):
            twofold = 2 * integers[..., axis].abs() == n
            if bool(twofold.any()):
                signs = torch.ones_like(xi)
                signs[..., axis] = torch.where(twofold, -1.0, 1.0).to(xi)
                points = [at for p in points for at in (p, p * signs)]
            if k is not None and axis + 1 < grid.dim and 2 * k < n:
                unpaired |= integers[..., axis] == -k
        means = torch.stack([self._parts(at, t) / len(points) for at in points]).sum(dim=0)
        return self._assemble(means, xi, t).masked_fill(unpaired, 0.0)

    def space_factor(self, x: Tensor, t: Tensor | None) -> Tensor:
        """a1 at x, from features that make it periodic, and at the PDE parameters."""
        assert self.space is not None
        # the torus has period 1 whatever the scale says
        angle = 2 * math.pi * x / self.scale.coordinate.to(x)
        features = torch.cat([torch.cos(angle), torch.sin(angle)], dim=-1)
        # all pairs of a point lie together in memory, as the operator reads them
        points = append_parameters(features, self._without_time(t))
        values: Tensor = self.space(points).movedim(-1, 0)
        return values.exp()[None, None] if self.elliptic else self._by_pairs(values)

    def _without_time(self, t: Tensor | None) -> Tensor | None:
        return None if t is None or not self.pde_parameters else t[..., -self.pde_parameters :]

    def _parts(self, xi: Tensor, t: Tensor | None) -> Tensor:
        """Parts of A ⟨ξ⟩^{-m}: (N + N*)/2, or P (+ c) and K, (1 or 2, [B,] *K, C, C)."""
        omega, _ = _compactify(xi, self.order)
        points = append_parameters(omega, self._without_time(t))
        n = self.complex_matrix(self.real, self.imaginary, points)[0].movedim((0, 1), (-2, -1))
        if not (self.elliptic or self.dissipative):
            return 0.5 * (n + n.mH)[None]
        root = self.complex_matrix(self.root_real, self.root_imaginary, points)[0]
        root = root.movedim((0, 1), (-2, -1))
        positive = root @ root.mH
        if self.elliptic:
            unit = torch.eye(self.in_channels, dtype=n.dtype, device=n.device)
            # |ξ|²/⟨ξ⟩², so that e^{tA} may keep the mean
            weight = omega[..., 1:].square().sum(dim=-1) if self.dissipative else 1.0
            positive = positive + (self.log_ellipticity.exp() * weight)[..., None, None] * unit
        return torch.stack([positive, 0.5 * (n - n.mH)])

    def _assemble(self, parts: Tensor, xi: Tensor, t: Tensor | None) -> Tensor:
        """A, or e^{tA}, from its parts, (1, O, I, *K), B after I if t is (B, P)."""
        time = t[..., 0] if t is not None and self.takes_time else None
        if time is not None and bool((time < 0).any()):
            why = "e^{tA} of a dissipative A grows without bound backwards"
            raise ValueError(f"t is {float(time.min()):g}; expected t >= 0: {why}")
        a, skew = parts[0], parts[-1]
        if self.dissipative:
            a = -a if self.self_adjoint else skew - a
        elif self.elliptic and not self.self_adjoint:
            a = a @ _exponential(skew)
        a = a * _compactify(xi, self.order)[1][..., None, None]
        if time is not None:
            a = _exponential(time.reshape(*time.shape, *[1] * (xi.dim() + 1)) * a)
        return a.movedim((-2, -1), (0, 1)).unsqueeze(0)


class ParityMLP(SymbolMLP):
    """(N(ω) ± N(ω')) / 2 with ω' = (1, -ξ)/⟨ξ⟩, "even" or "odd" in ξ, or N(ω) itself, "none".

    The last map of N is linear: to symmetrise the last hidden layer is enough; an odd network has
    no bias there. N may depend on PDE parameters, after ω.
    """

    def __init__(
        self,
        dim: int,
        pde_parameters: int,
        out_features: int,
        network: tuple[int, int, str, str | None],
        parity: Parity,
    ) -> None:
        super().__init__(dim + 1 + pde_parameters, out_features, *network)
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
