"""`pdno discover`: arrays in, an equation and its numbers out."""

import json

import numpy as np
import pytest
import torch

import pdno
from pdno.cli import main

SMOOTH = pdno.GaussianField(variance=4e6, tau=7.0, alpha=4.0)


@pytest.fixture
def trajectories():
    """Trajectories of the heat equation with drift at the times 0, 1, 2, (B, T, N)."""
    u0 = SMOOTH.sample(pdno.Grid((32,)), seed=0, indices=range(3))
    return pdno.solve(pdno.Generator(["u_xx", "u_x"], [0.02, 0.5], period=2.0), u0, [0, 1, 2])[
        :, :, 0
    ]


TERMS = ["--terms", "u", "u_x", "u_xx", "u u_x", "--period", "2"]


def test_an_equation_is_found_in_a_file(trajectories, tmp_path, capsys):
    np.savez(tmp_path / "u.npz", u=trajectories.numpy())
    arrays = ["--outputs", "u", "--output-axes", "ntx"]
    words = ["discover", str(tmp_path / "u.npz"), "--out", str(tmp_path / "out"), *arrays, *TERMS]
    assert main(words) == 0
    printed = capsys.readouterr().out
    assert (
        "u_t = 0.5 u_x + 0.02 u_xx" in printed and "A(ξ) of u: S^2_{1,0}, n = 1: proved" in printed
    )
    assert (tmp_path / "out/equation.tex").read_text().startswith("u_t = ")
    assert (tmp_path / "out/symbol.svg").stat().st_size > 1000
    record = json.loads((tmp_path / "out/discovery.json").read_text())
    assert record["accepted"] and [t["term"] for t in record["terms"]] == ["u_x", "u_xx"]
    assert np.array(record["covariance"]).shape == (2, 2)


def test_inputs_are_the_frame_at_zero(trajectories, tmp_path, capsys):
    np.savez(tmp_path / "u.npz", a=trajectories[:, 0], u=trajectories[:, 1:])
    arrays = ["--inputs", "a", "--outputs", "u", "--output-axes", "ntx"]
    words = ["discover", str(tmp_path / "u.npz"), "--out", str(tmp_path / "out"), *arrays, *TERMS]
    assert main(words) == 0
    assert "u_t = 0.5 u_x + 0.02 u_xx" in capsys.readouterr().out


def test_times_may_be_an_array_of_the_file(trajectories, tmp_path, capsys):
    path, out = tmp_path / "u.npz", str(tmp_path / "out")
    times = 0.5 * np.arange(trajectories.shape[1])
    np.savez(path, u=trajectories, t=times[None], wrong=np.eye(2))
    words = ["discover", str(path), "--out", out, "--outputs", "u", "--output-axes", "ntx", *TERMS]
    assert main([*words, "--times", "t"]) == 0
    assert f"{len(times)} frames, t = 0 to {times[-1]:g}" in capsys.readouterr().out
    assert main([*words, "--times", "wrong"]) == 2
    assert "times 'wrong' have shape (2, 2); expected (frames,)" in capsys.readouterr().err


def test_data_without_time_or_in_a_box_are_refused(trajectories, tmp_path, capsys):
    np.savez(tmp_path / "u.npz", u=trajectories.numpy())
    words = ["discover", str(tmp_path / "u.npz"), "--out", str(tmp_path / "o"), "--outputs", "u"]
    assert main([*words, "--output-axes", "nxy"]) == 2
    assert "no frames in time; expected" in (problem := capsys.readouterr().err)
    assert "--output-axes ntx" in problem
    assert main([*words, "--output-axes", "ntx", "--no-periodic"]) == 2
    assert "points in a box" in capsys.readouterr().err


def test_bars_of_a_symbol_follow_from_the_covariance():
    covariance = torch.tensor([[4e-6, 1e-6], [1e-6, 1e-6]], dtype=torch.float64)
    generator = pdno.Generator(["u", "u_x"], [1.0, 2.0], covariance=covariance)
    values, bars = generator.symbol_with_bars(torch.tensor([[0], [3]]))
    k = 6 * np.pi
    assert torch.allclose(values, torch.tensor([1, 1 + 2j * k], dtype=torch.complex128))
    expected = 1.959964e-3 * torch.tensor([2, 2 + 1j * k], dtype=torch.complex128)
    assert torch.allclose(bars, expected)
