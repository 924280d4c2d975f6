"""The Navier-Stokes equation of a plane incompressible flow, for its vorticity ω."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from pdno.equations.base import EvolutionEquation, FlowRates, Semilinear
from pdno.equations.symmetries import Symmetries, Symmetry, all_translations, box_symmetries
from pdno.interface.errors import check_at_least
from pdno.spectral.calculus import band_limits, band_mask, laplacian_symbol
from pdno.spectral.fourier import inverse, transform
from pdno.spectral.grid import Grid


@dataclass(frozen=True)
class NavierStokes(EvolutionEquation):
    """ω_t + v·∇ω = ν Δω + f on the unit torus (paper section 5.2), in two dimensions.

        v = (∂₂ψ, -∂₁ψ),    -Δψ = ω,    f = A (sin 2π(x₁ + x₂) + cos 2π(x₁ + x₂)),
        v·∇ω = (∂₁² - ∂₂²)(v₁v₂) + ∂₁∂₂(v₂² - v₁²), four transforms instead of five.

    `viscosity` is ν, `forcing` the amplitude A of f; 0 lets the flow decay.
    """

    viscosity: float = 1e-5
    forcing: float = 0.1
    dim = 2

    def __post_init__(self) -> None:
        check_at_least("viscosity", self.viscosity, 0)

    def discretise(self, grid: Grid, device: torch.device | None = None) -> Semilinear:
        """L(ξ) = -4π²|ξ|²ν and N(ω̂) = f̂ - F[v·∇ω], on the modes |ξ_j| < N_j/3."""
        modes = band_limits(grid)
        columns = slice(0, modes[-1])
        xi = grid.modes(device=device)[:, columns].to(torch.float64)
        band = band_mask(grid, device=device)[:, columns]
        laplacian = laplacian_symbol(grid, device)[:, columns]
        inverse_laplacian = band / torch.where(laplacian == 0, torch.inf, -laplacian)
        velocity = torch.stack([xi[..., 1], -xi[..., 0]]).mul(inverse_laplacian) * (2j * math.pi)
        stress = torch.stack([xi[..., 0] ** 2 - xi[..., 1] ** 2, xi[..., 0] * xi[..., 1]])
        # real tables as wide as the complex fields they multiply, so that the product is one pass
        stress = (4 * math.pi**2 * band * stress).unsqueeze(-1).expand(-1, -1, -1, 2).contiguous()
        shear, normal = stress
        force = torch.view_as_real(transform(self.force(grid, device), 2, modes))
        reach = 2 * math.pi * xi.abs().amax(dim=(0, 1))

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

        return Semilinear(laplacian * self.viscosity, modes, nonlinear, rates)

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
            turns = [
                replace(turn, sign=(-1) ** (sum(turn.flips) + (turn.axes == (1, 0))))
                for turn in box_symmetries(grid)
            ]
            return Symmetries(tuple(turns), all_translations(grid))
        n, columns = grid.shape
        turns = [Symmetry((0, 1), (False, False), (0.0, 0.0))]
        if n == columns and n % 4 == 0:
            turns += [
                Symmetry((1, 0), (False, False), (0.5, 0.0), -1),
                Symmetry((0, 1), (True, True), (0.25, 0.0)),
                Symmetry((1, 0), (True, True), (0.75, 0.0), -1),
            ]
        return Symmetries(tuple(turns), (((1, -1), n),) if n == columns else ())
