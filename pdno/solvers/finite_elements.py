"""Finite elements on triangles, by scikit-fem (extra points): domains of any shape.

    Poisson     -Δu = f in D, u = 0 on ∂D
    elasticity  -∇·σ = b in D, u = 0 on the clamped part, σ n = g on the rest of ∂D,
                σ = E/(1 - ν²) ((1 - ν) ε + ν tr(ε) I), plane stress, ε = (∇u + ∇uᵀ)/2

Elements are quadratic, of order 3 in u and 2 in σ, on straight triangles: curved boundaries are
approximated to second order. Values are returned at the vertices.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from pdno.interface.errors import require

Array = np.ndarray
Function = Callable[[Array, Array], Array]
YOUNG, POISSON = 1.0, 0.3


class Mesh(NamedTuple):
    """Vertices (P, 2), triangles (M, 3)."""

    vertices: Array
    triangles: Array


class Solution(NamedTuple):
    """Values at the vertices, (C, P), and the relative residual of the linear system."""

    values: Array
    residual: float


def ring_mesh(inner: Array, outer: Array, rings: int) -> Mesh:
    """Triangles between two closed curves of as many points (n, 2), in `rings` layers."""
    count, shares = len(inner), np.linspace(0, 1, rings + 1)[:, None, None]
    vertices = ((1 - shares) * inner + shares * outer).reshape(-1, 2)
    i, j = np.meshgrid(np.arange(rings), np.arange(count), indexing="ij")
    following = (j + 1) % count
    a, b, c, d = (r * count + k for r in (i, i + 1) for k in (j, following))
    pairs = np.stack([np.stack([a, b, c], -1), np.stack([b, d, c], -1)])
    return Mesh(vertices, pairs.reshape(-1, 3))


def disc_mesh(outline: Callable[[Array], Array], centre: Array, refinements: int) -> Mesh:
    """The unit disc of scikit-fem, stretched along rays to an outline of points at angles."""
    disc = require("skfem", "points").MeshTri.init_circle(refinements)
    x, y = disc.p
    vertices = centre + np.hypot(x, y)[:, None] * (outline(np.arctan2(y, x)) - centre)
    return Mesh(vertices, disc.t.T.copy())


def solve_poisson(mesh: Mesh, forcing: Function) -> Solution:
    """u at the vertices, (1, P)."""
    skfem = require("skfem", "points")
    from skfem.helpers import dot, grad

    basis = skfem.Basis(_mesh(mesh), skfem.ElementTriP2(), intorder=4)
    stiffness = skfem.BilinearForm(lambda u, v, w: dot(grad(u), grad(v))).assemble(basis)
    load = skfem.LinearForm(lambda v, w: forcing(w.x[0], w.x[1]) * v).assemble(basis)
    u, residual = _solve(stiffness, load, basis.get_dofs().flatten())
    return Solution(u[basis.nodal_dofs], residual)


def solve_elasticity(
    mesh: Mesh,
    clamped: Callable[[Array], Array],
    traction: Callable[[Array, Array], Array],
    body: Callable[[Array], Array] | None = None,
) -> Solution:
    """Displacements, σ_xx, σ_yy, σ_xy and von Mises' stress at the vertices, (6, P).

    Functions of points x (2, ...) and normals n (2, ...): whether the boundary is clamped there,
    the traction g(x, n) on the rest, and the force b(x).
    """
    skfem = require("skfem", "points")
    from skfem.helpers import ddot, dot, eye, sym_grad, trace

    element = skfem.ElementVector(skfem.ElementTriP2())
    basis = skfem.Basis(_mesh(mesh), element, intorder=4)

    def stress(u: Any) -> Any:
        strain = sym_grad(u)
        factor = YOUNG / (1 - POISSON**2)
        return factor * ((1 - POISSON) * strain + POISSON * eye(trace(strain), 2))

    stiffness = skfem.BilinearForm(lambda u, v, w: ddot(stress(u), sym_grad(v))).assemble(basis)
    held = basis.mesh.facets_satisfying(clamped, boundaries_only=True)
    free = np.setdiff1d(basis.mesh.boundary_facets(), held)
    edge = skfem.FacetBasis(basis.mesh, element, facets=free, intorder=4)
    load = skfem.LinearForm(lambda v, w: dot(traction(w.x, w.n), v)).assemble(edge)
    if body is not None:
        load += skfem.LinearForm(lambda v, w: dot(body(w.x), v)).assemble(basis)
    u, residual = _solve(stiffness, load, basis.get_dofs(held).flatten())
    linear = basis.with_element(skfem.ElementTriP1())
    field = stress(basis.interpolate(u))
    xx, yy, xy = (linear.project(field[k, m]) for k, m in ((0, 0), (1, 1), (0, 1)))
    von_mises = np.sqrt(np.maximum(xx**2 - xx * yy + yy**2 + 3 * xy**2, 0))
    return Solution(np.stack([*u[basis.nodal_dofs], xx, yy, xy, von_mises]), residual)


def _mesh(mesh: Mesh) -> Any:
    points = np.ascontiguousarray(mesh.vertices.T)
    return require("skfem", "points").MeshTri(points, mesh.triangles.T.copy())


def _solve(matrix: Any, load: Array, held: Array) -> tuple[Array, float]:
    """The solution that is zero at the held unknowns, and its relative residual."""
    skfem = require("skfem", "points")
    u: Array = skfem.solve(*skfem.condense(matrix, load, D=held))
    free = np.setdiff1d(np.arange(len(load)), held)
    rest = (matrix @ u - load)[free]
    size = float(np.linalg.norm(load[free]))
    return u, float(np.linalg.norm(rest)) / size if size else 0.0
