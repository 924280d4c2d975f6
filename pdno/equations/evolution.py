"""The evolution equations of the paper: heat, Burgers, and Navier-Stokes for the vorticity."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pdno.equations.base import ACCURATE, EvolutionEquation, FlowRates, Scheme, Semilinear
from pdno.equations.symmetries import Symmetries, Symmetry, all_translations, box_symmetries
from pdno.interface.errors import check_at_least
from pdno.spectral.calculus import band_limits, band_mask, laplacian_symbol
from pdno.spectral.fourier import inverse, transform
from pdno.spectral.grid import Grid


@dataclass(frozen=True)
class Heat(EvolutionEquation):
    """u_t = c Δu (paper section 5.1), c the diffusivity, in any dimension.

    Its solution operator has the symbol e^{-4π²|ξ|²ct}.
    """

    diffusivity: float = 0.05

    def __post_init__(self) -> None:
        check_at_least("diffusivity", self.diffusivity, 0)

    def discretise(self, grid: Grid, device: torch.device | None = None) -> Semilinear:
        """L(ξ) = -4π²|ξ|²c and no N."""
        linear = laplacian_symbol(grid, device).mul_(self.diffusivity)
        return Semilinear(linear, modes=(None,) * grid.dim)

    def symmetries(self, grid: Grid) -> Symmetries:
        """Every turn, reflection and translation, and u -> -u."""
        turns = box_symmetries(grid)
        negative = tuple(replace(turn, sign=-1) for turn in turns)
        return Symmetries(turns + negative, all_translations(grid))


@dataclass(frozen=True)
class Burgers(EvolutionEquation):
    """u_t + (u²/2)_x = ν u_xx, periodic on (0, L) (paper section 5.3), in one dimension.

    At small ν shocks of width ν/|u| form in finite time; at the paper's ν = 0.1 and L = 1 none
    does. The grid's x ∈ [0, 1) stands for the point L·x, L the period.
    """

    viscosity: float = 0.1
    period: float = 1.0
    dim = 1

    def __post_init__(self) -> None:
        if not min(self.viscosity, self.period) > 0:
            raise ValueError(f"{self}: expected a positive viscosity and period")

    def discretise(self, grid: Grid, device: torch.device | None = None) -> Semilinear:
        """L(ξ) = -ν(2πξ/L)² and N(û) = -πi ξ/L F[u²], on the modes |ξ| < N/3."""
        modes = band_limits(grid)
        linear = laplacian_symbol(grid, device)[: modes[-1]] * (self.viscosity / self.period**2)
        xi = torch.arange(len(linear), dtype=torch.float64, device=device)
        wave = 2 * math.pi / self.period * xi

        def nonlinear(u_hat: Tensor) -> Tensor:
            u = inverse(u_hat, grid.shape, modes)
            return transform(u.square(), 1, modes).mul_(-0.5j * wave)

        def rates(u_hat: Tensor) -> FlowRates:
            fields = inverse(torch.stack([u_hat, 1j * wave * u_hat]), grid.shape, modes)
            speed, slope = fields.abs().flatten(2).amax(dim=2)
            damped = speed.square() / self.viscosity
            return FlowRates(speed * wave[-1], damped, deform=slope - linear[1])

        return Semilinear(linear, modes, nonlinear, rates, deformation=0.02)

    def symmetries(self, grid: Grid) -> Symmetries:
        """Translations, and u(x) -> -u(-x)."""
        same, flipped = box_symmetries(grid)
        return Symmetries((same, replace(flipped, sign=-1)), all_translations(grid))


@dataclass(frozen=True)
class NavierStokes(EvolutionEquation):
    """ω_t + v·∇ω = ν Δω + f on the unit torus (paper section 5.2), in two dimensions.

        v = (∂₂ψ, -∂₁ψ),    -Δψ = ω,    f = A (sin 2π(x₁ + x₂) + cos 2π(x₁ + x₂)),
        v·∇ω = (∂₁² - ∂₂²)(v₁v₂) + ∂₁∂₂(v₂² - v₁²), four transforms instead of five.

    `viscosity` is ν, `forcing` the amplitude A of f; 0 lets the flow decay.
    """

    viscosity: float = 1e-5
    forcing: float = 0.1
    scheme: Scheme = ACCURATE
    dim = 2

    def __post_init__(self) -> None:
        check_at_least("viscosity", self.viscosity, 0)

    def discretise(self, grid: Grid, device: torch.device | None = None) -> Semilinear:
        """L(ξ) = -4π²|ξ|²ν and N(ω̂) = f̂ - F[v·∇ω], in the band of the scheme."""
        real, dealiasing = self.scheme.dtype, self.scheme.dealiasing
        modes = band_limits(grid, dealiasing)
        columns = slice(0, modes[-1])
        xi = grid.modes(device=device)[:, columns].to(torch.float64)
        band = band_mask(grid, device, dealiasing)[:, columns]
        laplacian = laplacian_symbol(grid, device)[:, columns]
        inverse_laplacian = band / torch.where(laplacian == 0, torch.inf, -laplacian)
        velocity = torch.stack([xi[..., 1], -xi[..., 0]]).mul(inverse_laplacian) * (2j * math.pi)
        velocity = velocity.to(real.to_complex())
        stress = torch.stack([xi[..., 0] ** 2 - xi[..., 1] ** 2, xi[..., 0] * xi[..., 1]])
        # real tables as wide as the complex fields they multiply, so that the product is one pass
        stress = (4 * math.pi**2 * stress).unsqueeze(-1).expand(-1, -1, -1, 2)
        shear, normal = stress.to(real).contiguous()
        force = torch.view_as_real(transform(self.force(grid, device).to(real), 2, modes))
        reach = 2 * math.pi * (xi.abs() * (band > 0.5)[..., None]).amax(dim=(0, 1)).to(real)

        def nonlinear(w_hat: Tensor) -> Tensor:
            v1, v2 = inverse(velocity * w_hat, grid.shape, modes).unbind(1)
            products = torch.stack([v1 * v2, (v2 - v1).mul_(v2 + v1)], dim=1)
            products_hat = torch.view_as_real(transform(products, 2, modes))
            first, second = products_hat[:, :1], products_hat[:, 1:]
            transport = torch.addcmul(force, first, shear).addcmul_(second, normal)
            return torch.view_as_complex(transport)

        def rates(w_hat: Tensor) -> FlowRates:
            v = inverse(velocity * w_hat, grid.shape, modes).abs().flatten(2)
            w = inverse(w_hat, grid.shape, modes).abs().flatten(1)
            squared = v.square().sum(dim=1).amax(dim=1)
            damped = squared / self.viscosity if self.viscosity else squared + torch.inf
            carry = (v * reach[:, None]).sum(dim=1).amax(dim=1)
            return FlowRates(carry, damped, deform=w.amax(dim=1))

        return Semilinear(laplacian * self.viscosity, modes, nonlinear, rates, band=band)

    def force(self, grid: Grid, device: torch.device | None = None) -> Tensor:
        """f at the points of a grid, shape (*N), float64."""
        phase = 2 * math.pi * grid.points(device=device).sum(dim=-1)
        return self.forcing * (torch.sin(phase) + torch.cos(phase))

    def symmetries(self, grid: Grid) -> Symmetries:
        """ω(x) -> det M ω(M x + b) where det M f(M x + b) = f(x).

        f = √2 A sin(2πp + π/4) with p = x₁ + x₂. So symmetries are translations along (1, -1); an
        exchange of axes with p -> p + 1/2, which changes the signs of f and ω; and a half turn
        with p -> 1/4 - p. Without f all turns and translations are.
        """
        if self.forcing == 0:  # the sign is det M
            turns = box_symmetries(grid)
            signs = [(-1) ** (sum(turn.flips) + (turn.axes == (1, 0))) for turn in turns]
            signed = [replace(turn, sign=sign) for turn, sign in zip(turns, signs, strict=True)]
            return Symmetries(tuple(signed), all_translations(grid))
        n, columns = grid.shape
        turns = (
            Symmetry((0, 1), (False, False), (0.0, 0.0)),
            Symmetry((1, 0), (False, False), (0.5, 0.0), -1),
            Symmetry((0, 1), (True, True), (0.25, 0.0)),
            Symmetry((1, 0), (True, True), (0.75, 0.0), -1),
        )
        square = n == columns
        mapped = turns if square and n % 4 == 0 else turns[:1]
        return Symmetries(mapped, (((1, -1), n),) if square else ())
