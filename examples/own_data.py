"""From your own arrays to a trained operator.

Usage: python examples/own_data.py

Here the arrays are made up: an operator that smooths its input. They may as well be those of your
.npz, .mat or HDF5 file; say which array is which and what its axes are (n samples, x space).
"""

import tempfile
from pathlib import Path

import numpy as np

import pdno


def main(folder: Path, epochs: int = 30) -> float:
    """Write example arrays, train on them and return the test error."""
    f = np.random.default_rng(0).standard_normal((220, 64)).cumsum(axis=1)
    f -= f.mean(axis=1, keepdims=True)
    xi = np.fft.rfftfreq(64, 1 / 64)
    u = np.fft.irfft(np.fft.rfft(f) / (1 + xi**2), 64)
    np.savez(folder / "smooth.npz", f=f, u=u)

    data = pdno.read_own(folder / "smooth.npz", inputs="f", outputs="u", input_axes="nx")
    train, test = data.split(test=20)
    model = pdno.PDNO(dim=1, in_channels=1, out_channels=1, width=12, modes=16)
    run = pdno.fit(
        model, train, test, epochs=epochs, schedule="one-cycle", normalization="channel"
    )
    return pdno.evaluate(run.model, test).mean("relative_l2")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        print(f"relative L2 error on 20 test samples: {main(Path(temporary)):.4f}")
