"""Public files in every layout, made here with the names, shapes and types of real ones."""

import io

import h5py
import numpy as np
import pytest
import scipy.io
import torch

import pdno
from pdno.files.metric_table import read_metrics
from pdno.paper import public_benchmark
from pdno.paper.public_benchmark import networks_on, recognise, run_benchmark, verdict


def fields(*shape):
    """Smooth random numbers: tests tell samples, frames and points apart by them."""
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype("float32")


def tutorial(folder, name, part, x, y):
    torch.save({"x": torch.from_numpy(x), "y": torch.from_numpy(y)}, folder / f"{name}_{part}.pt")


def hdf5(path, **arrays):
    with h5py.File(path, "w") as file:
        for name, array in arrays.items():
            file[name.replace("__", "/")] = array


def one(folder):
    (data,) = recognise(folder)
    return data


def test_darcy_of_neuraloperator_has_the_finer_grid_where_it_refines_the_other(tmp_path):
    a, u = fields(20, 32, 32) > 0, fields(20, 32, 32)
    tutorial(tmp_path, "darcy", "train_16", a[:, ::2, ::2], u[:, ::2, ::2])
    tutorial(tmp_path, "darcy", "test_16", a[:5, ::2, ::2], u[:5, ::2, ::2])
    tutorial(tmp_path, "darcy", "test_32", a[:5], u[:5])
    data = one(tmp_path)
    assert (data.name, data.source, data.window) == ("darcy", "neuraloperator", None)
    assert (data.points, data.finer, len(data.train), len(data.test)) == (16, (32,), 20, 5)
    inputs, outputs = data.test.batch([3])
    assert np.array_equal(inputs[0, 0], a[3].astype("float32"))
    assert np.array_equal(outputs[0, 0], u[3])


def test_finer_test_samples_that_are_others_are_left_out(tmp_path):
    for part, n, s in (("train_16", 20, 16), ("test_16", 5, 16), ("test_32", 5, 32)):
        tutorial(tmp_path, "darcy", part, fields(n, s, s), fields(n, s, s))
    assert one(tmp_path).finer == ()


def test_burgers_of_neuraloperator_is_a_trajectory(tmp_path):
    u = fields(12, 17, 16).astype("float64")
    tutorial(tmp_path, "burgers", "train_16", u[:, 0], u)
    tutorial(tmp_path, "burgers", "test_16", u[:4, 0], u[:4])
    data = one(tmp_path)
    assert (data.window, data.points, len(data.train.times)) == (1, 16, 17)
    assert torch.allclose(data.train.trajectories([2])[:, 1:, 0], torch.from_numpy(u[[2]]).float())


@pytest.mark.parametrize("version", [5, 7.3])
def test_burgers_of_fno(tmp_path, version):
    arrays = {"a": fields(12, 4096), "u": fields(12, 4096) + 1}
    if version == 5:
        scipy.io.savemat(tmp_path / "burgers_data_R10.mat", arrays)
    else:
        content = io.BytesIO()
        with h5py.File(content, "w", userblock_size=512) as file:
            for name, array in arrays.items():
                file[name] = array.T
        head = b"MATLAB 7.3 MAT-file".ljust(512, b" ")
        (tmp_path / "burgers_data_R10.mat").write_bytes(head + content.getvalue()[512:])
    data = one(tmp_path)
    assert (data.source, data.window, data.points, data.finer) == ("FNO", None, 1024, (2048,))
    assert (len(data.train), len(data.test)) == (10, 2)
    assert np.array_equal(data.train.batch([0])[0][0, 0], arrays["a"][0, ::4])
    assert np.array_equal(data.test.batch([1])[1][0, 0], arrays["u"][11, ::2])


def test_darcy_of_fno_trains_on_one_file_and_is_tested_on_the_other(tmp_path):
    for k in (1, 2):
        arrays = {
            "coeff": fields(8, 121, 121) + k,
            "sol": fields(8, 121, 121) - k,
            "Kcoeff": fields(8, 121, 121),
        }
        scipy.io.savemat(tmp_path / f"piececonst_r121_N1024_smooth{k}.mat", arrays)
    data = one(tmp_path)
    assert (data.points, data.finer, len(data.train), len(data.test)) == (60, (120,), 8, 8)
    assert np.array_equal(data.train.batch([0])[0][0, 0], fields(8, 121, 121)[0, :-1:2, :-1:2] + 1)
    assert np.array_equal(data.test.batch([7])[1][0, 0], arrays["sol"][7, :-1, :-1])


def test_navier_stokes_of_fno_shows_ten_frames(tmp_path):
    u = fields(12, 16, 16, 30)
    scipy.io.savemat(
        tmp_path / "NavierStokes_V1e-5_N1200_T20.mat", {"u": u, "t": np.arange(1.0, 31.0)}
    )
    data = one(tmp_path)
    assert (data.window, data.points, data.train.times) == (
        10,
        16,
        tuple(map(float, range(1, 21))),
    )
    assert np.array_equal(data.train.window(10).batch([4])[1][0, 9, 0], u[4, ..., 19])


def test_files_of_pdebench(tmp_path):
    u, groups = fields(8, 41, 64), fields(8, 21, 32, 32, 2)
    hdf5(
        tmp_path / "1D_Burgers_Sols_Nu0.01.hdf5",
        tensor=u,
        **{"x-coordinate": np.arange(64.0), "t-coordinate": np.arange(42.0)},
    )
    nu, p = fields(8, 128, 128), fields(8, 1, 128, 128)
    hdf5(
        tmp_path / "2D_DarcyFlow_beta1.0_Train.hdf5",
        nu=nu,
        tensor=p,
        **{"x-coordinate": np.arange(128.0)},
    )
    hdf5(
        tmp_path / "2D_diff-react_NA_NA.h5",
        **{f"{k:04}__data": groups[k] for k in range(8)},
        **{f"{k:04}__grid__t": np.arange(21.0) for k in range(8)},
    )
    hdf5(
        tmp_path / "1D_CFD_Rand.hdf5",
        **{name: fields(8, 21, 64) for name in ("density", "pressure", "Vx")},
    )
    burgers, fluid, darcy, reaction = recognise(tmp_path)
    assert {data.source for data in (burgers, darcy, reaction, fluid)} == {"PDEBench"}
    assert (burgers.window, len(burgers.train.times), burgers.train.grid.periodic) == (1, 21, True)
    assert np.array_equal(burgers.test.trajectories([0])[0, 2:, 0], u[7, 2::2])
    assert (darcy.points, darcy.finer, darcy.train.grid.periodic) == (64, (128,), False)
    assert np.array_equal(darcy.test.batch([0])[1][0], p[7])
    assert darcy.test.subsample(2).grid == darcy.train.grid
    assert np.array_equal(reaction.train.batch([1])[1][0, 5], np.moveaxis(groups[1, 5], -1, 0))
    assert len(fluid.train.channels.outputs) == 3


def test_the_well_with_its_splits(tmp_path):
    frames = torch.randn(6, 5, 2, 16, 16)
    data = pdno.OperatorDataset.from_arrays(frames[:, 0], frames, pdno.Grid((16, 16)), range(5))
    pdno.save_well(tmp_path / "flow", train=data, test=data.subset(range(2)))
    for folder in (tmp_path, tmp_path / "flow"):
        public = one(folder)
        assert (public.name, public.source, public.window) == ("flow", "The Well", 1)
        assert (len(public.train), len(public.test)) == (6, 2)


def test_a_folder_without_public_data_is_refused(tmp_path):
    np.save(tmp_path / "own.npy", np.zeros(3))
    with pytest.raises(ValueError, match="own.npy; expected NAME_train_S.pt"):
        recognise(tmp_path)
    with pytest.raises(ValueError, match="there is no"):
        recognise(tmp_path / "missing")


def test_a_benchmark_writes_its_table_and_continues(tmp_path, monkeypatch):
    monkeypatch.setattr(public_benchmark, "CHOICES", {"narrow": 0.25})
    monkeypatch.setattr(public_benchmark, "networks_on", _two_networks)
    u = fields(12, 9, 16)
    tutorial(tmp_path, "burgers", "train_16", u[:, 0], u)
    tutorial(tmp_path, "burgers", "test_16", u[:4, 0], u[:4])
    text = run_benchmark(tmp_path, tmp_path / "out", seconds=0.01, seeds=2)
    assert "| PDNO classical |" in text and "rollouts, 1 frames known" in text
    metrics = read_metrics(tmp_path / "out/metrics.csv")
    assert {(m.model, m.seed) for m in metrics} == {
        (name, seed) for name in ("PDNO classical", "FNO") for seed in (0, 1)
    }
    for folder in (tmp_path / "out").glob("burgers-*"):
        assert not (folder / "checkpoints").exists()
    assert run_benchmark(tmp_path, tmp_path / "out", seconds=0.01, seeds=2) == text


def _two_networks(dim, points):
    networks = networks_on(dim, points)
    return {name: networks[name] for name in ("PDNO classical", "FNO")}


def test_wavelets_need_powers_of_two():
    assert "MWT" in networks_on(2, 64) and "MWT" not in networks_on(2, 70)


@pytest.mark.parametrize(
    ("ours", "theirs", "answer"),
    [
        ([0.1, 0.2], [0.3, 0.4], "PDNO classical is ahead of FNO"),
        ([0.3, 0.4], [0.1, 0.2], "FNO is ahead of PDNO classical"),
        ([0.1, 0.3], [0.2, 0.4], "a tie"),
    ],
)
def test_a_network_is_ahead_only_where_the_seeds_do_not_overlap(ours, theirs, answer):
    assert answer in verdict("test", ours, "FNO", theirs)
