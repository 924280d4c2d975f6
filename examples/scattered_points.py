"""Scattered points: train on 1,000 points per sample, predict where nothing was measured.

    python examples/scattered_points.py [FOLDER]

Each sample has its own points. The file has their coordinates (samples, points, 2), f and u.
"""

import sys
from pathlib import Path

import numpy as np

import pdno


def main(folder: Path, epochs: int = 30) -> tuple[float, np.ndarray]:
    """Twelve lines: read, split, train, save, plot, load, predict at other points.

    Returns the error at the points of the test samples, and the prediction at the others.
    """
    data = pdno.read_own(folder / "own.npz", inputs="f", outputs="u", coordinates="x")
    train, test = data.split(test=20)
    model = pdno.PDNO(2, 1, 1, width=12, layers=2, modes=5, symbol="low-rank", padding=0.25)
    operator = pdno.fit(model, train, test, epochs=epochs, batch_size=10, learning_rate=4e-3)
    operator.save(folder / "operator")
    operator.plot(test, 0).savefig(folder / "scattered_points.png")
    others = pdno.Points(np.load(folder / "others.npy"))
    inputs = test.batch()[0].numpy()
    again = pdno.load(folder / "operator")
    return operator.history[-1].test, again.predict(inputs, grid=test.grid, output_grid=others)


def fields(x: np.ndarray, waves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """f = Σ_ξ a_ξ cos(2π ξ·x - φ_ξ) and u = (1 - Δ/4π²)⁻¹ f at points (..., P, 2)."""
    xi = np.array([(0.5, 0), (0, 0.5), (1, 0.5), (0.5, 1), (1, -1), (1.5, 0.5)])
    terms = np.cos(2 * np.pi * x @ xi.T - waves[:, None, 6:]) * waves[:, None, :6]
    return terms.sum(-1), (terms / (1 + np.square(xi).sum(-1))).sum(-1)


def write_arrays(folder: Path, samples: int = 120, points: int = 1000) -> np.ndarray:
    """Write own.npz, and others.npy with 4,000 points; the exact u of the test samples there."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    waves = random.random((samples, 12)) * np.array([1.0] * 6 + [6.28] * 6)
    x, others = random.random((samples, points, 2)), random.random((4000, 2))
    f, u = fields(x, waves)
    np.savez(folder / "own.npz", x=x, f=f, u=u)
    np.save(folder / "others.npy", others)
    return fields(others, waves[-20:])[1]


if __name__ == "__main__":
    where = Path(*sys.argv[1:])
    exact = write_arrays(where)
    measured, prediction = main(where)
    differences = np.linalg.norm(prediction[:, 0] - exact, axis=1)
    error = float((differences / np.linalg.norm(exact, axis=1)).mean())
    print(f"relative L2 error on test samples: {measured:.4f} at their 1,000 points, {error:.4f}")
    print(f"at 4,000 points where nothing was measured: {error / measured:.2f} times as large")
