"""From a file with two arrays to a saved operator, a plot, and a prediction on a finer grid.

    python examples/own_data.py [FOLDER]

The arrays are synthetic: an operator that smooths its input. Yours may be in .npz, .mat or HDF5
files; name them and, unless they are (samples, x), their axes.
"""

import sys
from pathlib import Path

import numpy as np

import pdno


def main(folder: Path, epochs: int = 50) -> np.ndarray:
    """Twelve lines: read, split, train, save, plot, load, predict."""
    data = pdno.read_own(folder / "own.npz", inputs="f", outputs="u")
    train, test = data.split(test=20)
    model = pdno.PDNO(dim=1, in_channels=1, out_channels=1, width=8, layers=2, modes=16)
    operator = pdno.fit(model, train, test, epochs=epochs, normalization="channel")
    operator.save(folder / "operator")
    operator.plot(test, 0).savefig(folder / "own_data.png")

    operator = pdno.load(folder / "operator")
    finer = np.load(folder / "finer.npy")[:, None]  # (samples, channels, x)
    return operator.predict(finer)


def smooth(f: np.ndarray) -> np.ndarray:
    """(1 - Δ/4π²)⁻¹ f, (samples, x)."""
    xi = np.fft.rfftfreq(f.shape[-1], 1 / f.shape[-1])
    return np.fft.irfft(np.fft.rfft(f) / (1 + xi**2), f.shape[-1])


def write_arrays(folder: Path, samples: int = 120, points: int = 64) -> None:
    """Write own.npz with f and u, and finer.npy with 20 functions f on twice as many points."""
    folder.mkdir(parents=True, exist_ok=True)
    random, decay = np.random.default_rng(0), 1 / np.arange(1, 25)
    phases = np.exp(2j * np.pi * random.random((samples, 24))) * random.random((samples, 24))
    spectrum = np.pad(phases * decay, [(0, 0), (1, points - 24)])
    f = 2 * points * np.fft.irfft(spectrum, 2 * points)
    np.savez(folder / "own.npz", f=f[:, ::2], u=smooth(f)[:, ::2])
    np.save(folder / "finer.npy", f[-20:])


if __name__ == "__main__":
    where = Path(*sys.argv[1:])
    write_arrays(where)
    exact = smooth(np.load(where / "finer.npy"))
    error = np.linalg.norm(main(where)[:, 0] - exact) / np.linalg.norm(exact)
    print(f"relative L2 error of 20 test samples at twice the resolution: {error:.4f}")
