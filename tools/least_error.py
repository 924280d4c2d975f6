"""The least error that any prediction of Darcy's pressure from few points can have.

    python tools/least_error.py [--points 32] [--samples 100] [--sweeps 400]

Table 1 of the paper gives a network the permeability at every r-th point of a fine grid and asks
for the pressure there. The permeability between these points is not given. It is high or low by
the sign of a Gaussian field g, so what is given are the signs s of g at the points x_p, and no
prediction has a smaller mean square error than the mean of u over all fields with these signs,

    E |u - E[u | s]|²  =  E |u - u'|² / 2,      u, u' independent, distributed as u given s.

Fields with given signs are drawn in two steps: z = g(x_p) by Gibbs sampling of the truncated
normal distribution, then g on the fine grid by kriging,
g + C(·, x_p) C(x_p, x_p)^{-1} (z - g(x_p)).

That is a bound of the root mean square over samples. For the mean of |u - p|, which tables have,
E |u - u'| / √2 is one if u given s is Gaussian, and E |u - u'| / 2 always, by the triangle
inequality.

The Gibbs chains of a sample give two bounds, however slowly they forget where they began:

- below: begun at the true g, which is a draw given s. E |u - u'|² and E |u - u'| are at most what
  they are for independent draws, and grow with the number of sweeps.
- above: begun without knowing the true g. The mean of its u' is a prediction, so that its error is
  not below the least one.

Proof of the first, π being the distribution given s. Random-scan Gibbs sampling has a transition
operator P on L²(π) that is a mean of orthogonal projections (conditional expectations), so
0 <= P <= 1 and (f, Pⁿf) decreases in n to at least (E f)². For squares take f = u. For norms, with
w standard Gaussian and c = √(π/2),

    c |x - y| = ∫_0^∞ (1 - e^{-t² |x - y|² / 2}) dt / t²,
    e^{-t² |x - y|² / 2} = E_w [cos t(w, x) cos t(w, y) + sin t(w, x) sin t(w, y)],

and f = cos t(w, u), sin t(w, u) show that E |u - u'| is at most that of independent u, u', half of
which bounds every error from below. Dividing by |u|, which varies by about one per cent given the
signs, makes the bound uncertain by that share.

The samples are those of the recipe `darcy` from 1100 on, its test samples, on fewer cells.
"""

import argparse
import math

import numpy as np
import torch
from scipy.special import ndtr, ndtri

from pdno.equations.darcy import Darcy
from pdno.fields.distributions import darcy_permeability
from pdno.solvers.solve import solve
from pdno.spectral.grid import Grid

Array = np.ndarray
LAW = darcy_permeability()


class Fields:
    """The Gaussian field of the permeability on N x N cells, and at every r-th of them."""

    def __init__(self, cells: int, points: int) -> None:
        law, k = LAW.gaussian, np.arange(cells)
        cosines = np.cos(math.pi * np.outer((k + 0.5) / cells, k)) * np.sqrt(2.0 ** (k > 0))
        square = np.add.outer(k**2, k**2) * math.pi**2
        self.variance = law.variance * (square + law.tau**2) ** -law.alpha
        self.variance[0, 0] = law.mean_deviation**2
        self.cosines, self.few = cosines, cosines[:: cells // points]
        pairs = np.einsum("ik,mk->imk", self.few, self.few).reshape(points**2, cells)
        shape = (points, points, points, points)
        cov = (pairs @ self.variance @ pairs.T).reshape(shape).transpose(0, 2, 1, 3)
        self.precision = np.linalg.inv(cov.reshape(points**2, points**2))

    def draw(self, generator: np.random.Generator) -> Array:
        """g on the cells."""
        w = generator.standard_normal(self.variance.shape) * np.sqrt(self.variance)
        return self.cosines @ w @ self.cosines.T

    def at_points(self, g: Array) -> Array:
        """g at the points, as a vector."""
        every = len(self.cosines) // len(self.few)
        return g[::every, ::every].reshape(-1)

    def given(self, z: Array, generator: np.random.Generator) -> Array:
        """g on the cells with the values z at the points."""
        g = self.draw(generator)
        weights = (self.precision @ (z - self.at_points(g))).reshape(len(self.few), -1)
        smooth = self.variance * (self.few.T @ weights @ self.few)
        return g + self.cosines @ smooth @ self.cosines.T


def gibbs(
    precision: Array, signs: Array, z: Array, sweeps: int, generator: np.random.Generator
) -> Array:
    """Move z (P, chains) within N(0, precision^-1) truncated to the signs, site by random site."""
    z, deviation = z.copy(), 1 / np.sqrt(np.diag(precision))
    for site in generator.integers(len(z), size=sweeps * len(z)):
        s, d = signs[site], deviation[site]
        # z = s d y with y ~ N(mean, 1) and y > 0
        mean = s * (z[site] - d**2 * (precision[site] @ z)) / d
        below = ndtr(-mean)
        quantile = below + generator.random(z.shape[1]) * (1 - below)
        y = mean + ndtri(np.clip(quantile, 1e-300, 1 - 1e-16))
        z[site] = s * d * np.where(np.isfinite(y) & (y > 0), y, 1e-9)
    return z


def pressure(g: Array, every: int) -> Array:
    """u at the points."""
    k = torch.as_tensor(np.where(g >= 0, LAW.high, LAW.low))
    return solve(Darcy(), k[None, None])[0, 0, ::every, ::every].numpy()


def bounds(
    samples: range, *, cells: int, points: int, sweeps: int, chains: int, seed: int
) -> tuple[Array, Array]:
    """Relative L2: |u - u'| (samples, chains), and the error of a prediction (samples,)."""
    fields, generator = Fields(cells, points), np.random.default_rng(seed)
    grid = Grid.cells((cells, cells))
    truths = [LAW.gaussian.sample(grid, seed=0, indices=[i])[0, 0].numpy() for i in samples]
    known = np.stack([fields.at_points(g) for g in truths], axis=1).repeat(chains, axis=1)
    signs = np.sign(known)
    spread = np.abs(generator.standard_normal(known.shape))
    blind = signs * spread * known.std()
    starts = {"true": known, "blind": blind}
    ends = {n: gibbs(fields.precision, signs, z, sweeps, generator) for n, z in starts.items()}
    below, above = [], []
    for sample, g in enumerate(truths):
        u = pressure(g, cells // points)
        own = slice(sample * chains, (sample + 1) * chains)
        drawn = {
            name: [pressure(fields.given(c, generator), cells // points) for c in z[:, own].T]
            for name, z in ends.items()
        }
        size = np.linalg.norm(u)
        below.append([np.linalg.norm(other - u) / size for other in drawn["true"]])
        above.append(np.linalg.norm(np.mean(drawn["blind"], axis=0) - u) / size)
    return np.array(below), np.array(above)


def main() -> None:
    """Print both bounds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=32, help="per axis, what is given")
    parser.add_argument("--cells", type=int, default=256, help="per axis, of the solver")
    parser.add_argument("--samples", type=int, default=100)
    parser.add_argument("--first", type=int, default=1100, help="of the samples of the recipe")
    parser.add_argument("--chains", type=int, default=4, help="fields with the same signs")
    parser.add_argument("--sweeps", type=int, default=400, help="of every Gibbs chain")
    parser.add_argument("--seed", type=int, default=0)
    given = vars(parser.parse_args())
    first = given.pop("first")
    below, above = bounds(range(first, first + given.pop("samples")), **given)
    print(f"{given['points']} x {given['points']} points, {given['sweeps']} sweeps, relative L2")
    half = below / math.sqrt(2)
    for name, errors in {
        "root mean square, no prediction is below": (half**2).mean(axis=1),
        "root mean square of one prediction": above**2,
        "mean, if Gaussian none is below": half.mean(axis=1),
        "mean, none is below": half.mean(axis=1) / math.sqrt(2),
        "mean of one prediction": above,
    }.items():
        mean, error = errors.mean(), errors.std(ddof=1) / math.sqrt(len(errors))
        if name.startswith("root"):
            mean, error = math.sqrt(mean), error / 2 / math.sqrt(mean)
        print(f"{name:42}{mean:.4f} ± {error:.4f}")


if __name__ == "__main__":
    main()
