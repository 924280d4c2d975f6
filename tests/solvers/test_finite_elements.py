"""Finite elements: orders on manufactured solutions, and the samples that they make."""

import numpy as np
import pytest

import pdno
from pdno.data.generate import collect
from pdno.data.problems import PROBLEMS
from pdno.data.shapes import outline, random_outline
from pdno.solvers.finite_elements import (
    POISSON,
    YOUNG,
    Mesh,
    disc_mesh,
    ring_mesh,
    solve_elasticity,
    solve_poisson,
)

skfem = pytest.importorskip("skfem")


def square(refinements):
    mesh = skfem.MeshTri().refined(refinements)
    return Mesh(mesh.p.T.copy(), mesh.t.T.copy())


def weights(mesh):
    return pdno.Points.of_mesh(*mesh).weights.numpy()


def norm(mesh, values):
    return float(np.sqrt((np.square(values) * weights(mesh)).sum()))


def order(errors):
    return float(np.mean(-np.diff(np.log2(errors))))


def test_poisson_has_the_order_of_quadratic_elements():
    errors = []
    for refinements in (2, 3, 4):
        mesh = square(refinements)
        exact = np.sin(np.pi * mesh.vertices[:, 0]) * np.sin(np.pi * mesh.vertices[:, 1])
        solved = solve_poisson(
            mesh, lambda x, y: 2 * np.pi**2 * np.sin(np.pi * x) * np.sin(np.pi * y)
        )
        assert solved.residual < 1e-12
        errors.append(norm(mesh, solved.values[0] - exact))
    assert order(errors) > 2.9  # at vertices it is nearly 4


def test_curved_boundaries_are_approximated_to_second_order():
    centre = np.array([0.5, 0.5])
    errors = []
    for refinements in (2, 3, 4):
        mesh = disc_mesh(outline(centre, 0.4), centre, refinements)
        exact = 0.16 - np.square(mesh.vertices - 0.5).sum(1)
        errors.append(norm(mesh, solve_poisson(mesh, lambda x, y: 4 + 0 * x).values[0] - exact))
    assert order(errors) == pytest.approx(2.0, abs=0.1)


def test_elasticity_has_the_orders_of_quadratic_elements():
    # u = (x²y, xy²) is zero at y = 0 and has the stress and the forces below
    factor, shear = YOUNG / (1 - POISSON**2), YOUNG / (2 * (1 + POISSON))

    def stress(x):
        return factor * (1 + POISSON) * 2 * x[0] * x[1], shear * (x[0] ** 2 + x[1] ** 2)

    def traction(x, n):
        along, across = stress(x)
        return np.stack([along * n[0] + across * n[1], across * n[0] + along * n[1]])

    def body(x):
        return -2 * (factor * (1 + POISSON) + shear) * np.stack([x[1], x[0]])

    displacements, stresses = [], []
    for refinements in (2, 3, 4):
        mesh = square(refinements)
        x, y = mesh.vertices.T
        u, v, xx, yy, xy, _ = solve_elasticity(mesh, lambda x: x[1] < 1e-9, traction, body).values
        along, across = stress(mesh.vertices.T)
        displacements.append(np.hypot(norm(mesh, u - x**2 * y), norm(mesh, v - x * y**2)))
        parts = [norm(mesh, part) for part in (xx - along, yy - along, xy - across)]
        stresses.append(np.linalg.norm(parts))
    assert order(displacements) > 2.9
    assert order(stresses) == pytest.approx(2.0, abs=0.15)


def test_outlines_stay_near_their_radius_and_rings_fill_what_is_between():
    generator = np.random.default_rng(0)
    angles = np.arange(64) * 2 * np.pi / 64
    outer = random_outline(generator, np.array([0.5, 0.5]), 0.35, 0.3)
    radii = np.linalg.norm(outer(angles) - 0.5, axis=1)
    assert radii.min() >= 0.7 * 0.35 and radii.max() <= 1.3 * 0.35
    circles = [outline(np.array([0.5, 0.5]), r) for r in (0.1, 0.4)]
    mesh = ring_mesh(*(circle(angles) for circle in circles), 8)
    polygon = np.pi * 0.15 * np.sinc(2 / 64)  # n/2 sin(2π/n) (R² - r²)
    assert weights(mesh).sum() == pytest.approx(polygon)


@pytest.mark.parametrize("name", ["poisson-shapes", "elasticity"])
def test_samples_of_shapes_are_values_at_the_points_of_their_domains(name):
    problem = PROBLEMS[name](samples=3, resolution=192)
    samples = [problem.sample(index) for index in range(3)]
    data = collect(samples, problem.grid(), None, problem.fields, problem.geometry)
    assert data.grid.sets == 3 and data.channels.inputs == problem.fields[0][3:]
    area = data.grid.weights.sum(dim=1)
    assert bool((area > 0.1).all()) and bool((area < 1).all())
    distance = data.batch([0])[0][0, -1]
    assert float(distance.min()) < 1e-3 and bool((distance >= 0).all())


def test_folders_of_shapes_hold_the_samples(tmp_path):
    problem = PROBLEMS["poisson-shapes"](samples=2, resolution=192)
    pdno.generate_dataset(problem, tmp_path / "data", workers=1)
    inputs, outputs = pdno.open_dataset(tmp_path / "data").batch([1])
    again = problem.sample(1)
    np.testing.assert_allclose(inputs[0], again.input[3:], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(outputs[0], again.output, rtol=1e-6, atol=1e-7)
