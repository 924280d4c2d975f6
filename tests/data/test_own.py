"""Own data by one record: the same arrays from every kind of file, saved and described."""

import json

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Subset, SubsetRandomSampler, TensorDataset

import pdno
from pdno.cli import main
from pdno.data.dataset import OperatorDataset
from pdno.data.problems import DataFile, Layout
from pdno.data.read import describe_data
from pdno.data.shards import MANIFEST
from pdno.runs.specification import Experiment
from pdno.spectral.grid import Grid

N, T, C, X, Y = 5, 3, 2, 4, 6


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def both(data, dtype=torch.float64):
    return data.to(dtype).batch()


def test_a_folder_of_npy_files_is_a_file_with_their_arrays(tmp_path):
    a, u = numbers(N, X, Y), numbers(N, X, Y, seed=1)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "u.npy", u)
    data = pdno.read_own(tmp_path, inputs="a", outputs="u")
    assert np.array_equal(both(data)[0][:, 0], a) and np.array_equal(both(data)[1][:, 0], u)
    with pytest.raises(ValueError, match="has no array 'v': it has a, u"):
        pdno.read_own(tmp_path, inputs="a", outputs="v")
    with pytest.raises(
        ValueError, match="has the arrays a, u, but not which are inputs: name its"
    ):
        pdno.read_own(tmp_path)
    assert "  a: " in describe_data(DataFile(path=tmp_path))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="has no .npy files"):
        pdno.read_own(tmp_path / "empty", inputs="a", outputs="u")


def test_several_arrays_and_channels_last(tmp_path):
    a, b, u = numbers(N, X, Y), numbers(N, X, Y, seed=1), numbers(N, X, Y, C, seed=2)
    np.savez(tmp_path / "own.npz", a=a, b=b, u=u)
    told = {"inputs": ["a", "b"], "outputs": "u", "output_axes": "nxyc"}
    data = pdno.read_own(tmp_path / "own.npz", **told, input_channels=["k", "f"])
    inputs, outputs = both(data)
    assert np.array_equal(inputs[:, 0], a) and np.array_equal(inputs[:, 1], b)
    assert np.array_equal(outputs.movedim(1, -1), u)
    assert data.channels == (("k", "f"), ("u_0", "u_1"))


def test_times_are_those_of_an_array(tmp_path):
    a, u = numbers(N, X), numbers(N, 3, X)
    np.savez(tmp_path / "own.npz", a=a, u=u, t=[0.5, 1.0, 2.5])
    options = {"inputs": "a", "outputs": "u", "output_axes": "ntx"}
    data = pdno.read_own(tmp_path / "own.npz", **options, times="t")
    assert data.times == (0.5, 1.0, 2.5)
    with pytest.raises(ValueError, match="own.npz has no array 'when'"):
        pdno.read_own(tmp_path / "own.npz", **options, times="when")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"outputs": "u"}, r"array 'u' has shape .* say what its axes are with output_axes, for"),
        (
            {"inputs": "c"},
            r"array 'c' has shape .* say what .* with input_axes, .* 'ncx'",
        ),
        ({"axes": "nxy"}, r"axes: unknown key; did you mean 'input_axes'\?"),
        ({"times": [1.0]}, "times are set, but axes 'nxy' of the outputs have no t"),
        ({"input_channels": ["p", "q"]}, "names p, q of 1 input channels: expected 1 different"),
        ({"inputs": ["a", "s"]}, "cannot be channels of one field"),
        ({"outputs": ()}, "has the arrays a, b, u, s, c, but not which are outputs"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, changes, message):
    arrays = {"a": numbers(N, X, Y), "b": numbers(N, X, Y), "u": numbers(N, X, Y, C)}
    arrays |= {"s": numbers(N, Y, X), "c": numbers(N, 1, X)}
    np.savez(tmp_path / "own.npz", **arrays)
    with pytest.raises(ValueError, match=message):
        pdno.read_own(tmp_path / "own.npz", **{"inputs": "a", "outputs": "b", **changes})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("grid", [Grid((X, Y)), Grid.cells((X, Y)), Grid((X, Y), periodic=False)])
@pytest.mark.parametrize("times", [None, (0.5, 1.0, 2.5)])
def test_a_saved_dataset_comes_back_to_the_bit(tmp_path, dtype, grid, times):
    frames = () if times is None else (T,)
    f, u = (torch.from_numpy(numbers(N, *part, C, X, Y)).to(dtype) for part in ((), frames))
    data = OperatorDataset.from_arrays(f, u, grid, times, channels=(["a", "t0/b"], ["a", "v"]))
    data.subset([4, 0, 1]).save(tmp_path / "new" / "saved")
    again = pdno.open_dataset(tmp_path / "new" / "saved")
    expected = f[[4, 0, 1]], u[[4, 0, 1]]
    assert all(map(torch.equal, both(again, dtype), expected)) and again.source.dtype == dtype
    assert again.grid == grid and again.times == times
    assert again.channels == (("input_a", "t0.b"), ("a", "v"))
    assert repr(again).startswith("<OperatorDataset samples 3, channels 2 -> 2, ")
    assert list((tmp_path / "new").iterdir()) == [tmp_path / "new" / "saved"]
    with pytest.raises(ValueError, match="already exists: choose a new or an empty folder"):
        data.save(tmp_path / "new" / "saved")
    with pytest.raises(ValueError, match="says itself what it holds: leave out inputs"):
        pdno.read_own(tmp_path / "new" / "saved", inputs="a")
    text = describe_data(DataFile(path=tmp_path / "new" / "saved"))
    low, high = u[[4, 0, 1]][..., 1, :, :].aminmax()
    assert f"{low.float():.4g} .. {high.float():.4g}" in text and "own data, complete" in text


def test_a_window_is_not_saved_and_nothing_is_left_of_a_failure(tmp_path, monkeypatch):
    u = torch.randn(N, T, 1, X)
    data = OperatorDataset.from_arrays(u[:, 0], u, Grid((X,)), range(T))
    with pytest.raises(ValueError, match="save the whole dataset, then take it"):
        data.window(inputs=1).save(tmp_path / "saved")
    monkeypatch.setattr("pdno.data.shards.write_manifest", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        data.save(tmp_path / "saved")
    assert list(tmp_path.iterdir()) == []


def test_one_channel_is_stored_under_one_name(tmp_path):
    f = torch.randn(N, 1, X)
    OperatorDataset.from_arrays(f, f, Grid((X,))).save(tmp_path / "saved")
    assert sorted(p.name for p in (tmp_path / "saved").iterdir()) == [MANIFEST, "shard-00000.h5"]


def test_numpy_arrays_are_tensors():
    f = numbers(N, 1, X).astype(">f8")[:, :, ::-1]
    f.flags.writeable = False
    data = OperatorDataset.from_arrays(f, f.astype("f4"), Grid((X,)))
    assert np.array_equal(both(data)[0], f) and data.batch()[0].dtype == torch.float32


PAIRS = torch.randn(N, 1, X), torch.randn(N, 2, X)
SOURCES = {
    "TensorDataset": lambda f, u: TensorDataset(f, u),
    "DataLoader": lambda f, u: DataLoader(TensorDataset(f, u), batch_size=2, shuffle=True),
    "list": lambda f, u: list(zip(f, u, strict=True)),
    "generator": lambda f, u: ((x.numpy(), y.numpy()) for x, y in zip(f, u, strict=True)),
    "dicts": lambda f, u: [{"x": x, "y": y} for x, y in zip(f, u, strict=True)],
    "Subset": lambda f, u: Subset(TensorDataset(f, u), range(N)),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_what_gives_pairs_is_a_dataset(kind):
    data = OperatorDataset.from_pairs(SOURCES[kind](*PAIRS))
    assert all(map(torch.equal, data.batch(), PAIRS)) and data.grid == Grid((X,))


def test_a_network_is_trained_and_evaluated_on_a_loader():
    f = torch.randn(4, 1, 8)
    loader = DataLoader(TensorDataset(f, 2 * f), batch_size=2)
    network = torch.nn.Conv1d(1, 1, 1)
    trained = pdno.fit(network, loader, loader, epochs=1, device="cpu")
    assert trained.history[0].test == pytest.approx(
        pdno.evaluate(trained, loader).mean(), rel=1e-5
    )


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            PAIRS[0],
            "a Tensor is no dataset: give pairs .*, or use OperatorDataset.from_arr",
        ),
        (7, "a int is no dataset"),
        ([], "the list has no samples"),
        (list(PAIRS), r"samples of the list are no pairs \(input, target\).*from_arrays"),
        ([{"a": 1, "b": 2}], "are no pairs .*, or dicts with x and y"),
        ([(PAIRS[0][0],) * 2, (PAIRS[0][0, :, :2],) * 2], "alike on one grid, .* equal size"),
        ([(torch.randn(1, X), torch.randn(T, 1, X))], r"which is \(T, C, \*N\): give the times"),
        (
            DataLoader(TensorDataset(*PAIRS), sampler=SubsetRandomSampler([0])),
            "the DataLoader has a SubsetRandomSampler: give a Subset of its dataset",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_what_gives_no_pairs_is_refused_with_the_cure(source, message):
    with pytest.raises(ValueError, match=message):
        OperatorDataset.from_pairs(source)


def test_a_fraction_is_no_number_of_samples():
    f = torch.randn(10, 1, X)
    data = OperatorDataset.from_arrays(f, f, Grid((X,)))
    with pytest.raises(ValueError, match=r"test=0.2 of 10 samples: .*; 0.2 of them are test=2"):
        data.split(test=0.2)
    with pytest.raises(ValueError, match="train={'x'} of 10 samples: expected how many"):
        data.split({"x"}, test=2)
    with pytest.raises(ValueError, match=r"Grid shape is 32; .* Grid\(\(32,\)\) has one axis"):
        Grid(32)


def experiment(file):
    return Experiment(
        name="own",
        model="FNO",
        file=file,
        train=6,
        test=2,
        resolution=8,
        network={"kind": "fno", "width": 4, "modes": 3},
        training={"epochs": 1, "batch_size": 2},
    )


def test_a_specification_says_how_a_file_is_read():
    told = {"path": "own.npz", "inputs": ["a"], "outputs": ["u"], "periodic": False}
    whole = experiment({**told, "inputs": "a", "outputs": "u"})
    assert whole.model_dump(mode="json")["file"] == told
    assert Experiment.model_validate_json(whole.model_dump_json()) == whole
    plain = experiment("some.mat")
    assert plain.file == DataFile(path="some.mat") and plain.metadata.dataset == "some.mat"
    assert plain.model_dump(mode="json")["file"] == "some.mat"
    with pytest.raises(ValueError, match=r"(?s)output: unknown key; did you mean 'outputs'\?"):
        experiment({**told, "output": "u"})
    assert Layout().keyword_arguments() == {}


def test_train_evaluate_and_predict_on_own_arrays(tmp_path, capsys):
    """Three commands from a file of two arrays; later ones read it as the first did."""
    f = numbers(8, 8, 1)
    np.savez(tmp_path / "own.npz", a=f, u=2 * f, other=numbers(3))
    specification = experiment({"path": str(tmp_path / "own.npz"), "inputs": "a", "outputs": "u"})
    told = specification.model_dump(mode="json")
    told["file"] |= {"input_axes": "nxc", "periodic": False, "offset": 0.5}
    (tmp_path / "own.json").write_text(json.dumps(told))
    run, own = str(tmp_path / "run"), str(tmp_path / "own.npz")
    assert main(["train", str(tmp_path / "own.json"), "--out", run, "--device", "cpu"]) == 0
    assert main(["evaluate", run, "--file", own]) == 0
    assert main(["evaluate", run, "--file", own, "--inputs", "a", "--outputs", "u"]) == 2
    assert main(["predict", run, own, "--out", str(tmp_path / "p.npy")]) == 0
    assert np.load(tmp_path / "p.npy").shape == (8, 1, 8)
    np.savez(tmp_path / "two.npz", v=f[..., 0], w=f[..., 0])
    capsys.readouterr()
    assert main(["predict", run, str(tmp_path / "two.npz")]) == 2
    assert "v, w: choose one by its name, for example --array v" in capsys.readouterr().err
    assert (
        main(["data", "info", own, "--inputs", "a", "--outputs", "u", "--input-axes", "nxc"]) == 0
    )
    told = capsys.readouterr().out
    assert (
        "<OperatorDataset samples 8, channels 1 -> 1, grid 8 periodic>" in told
        and "published" not in told
    )


def test_info_counts_what_is_no_number(tmp_path, capsys):
    f = numbers(4, 8)
    f[1, 2] = np.nan
    np.savez(tmp_path / "own.npz", f=f)
    assert main(["data", "info", str(tmp_path / "own.npz")]) == 0
    told = capsys.readouterr().out
    assert f"f: {np.nanmin(f):.4g} .. {np.nanmax(f):.4g}, 1 NaN or infinite" in told
    assert "if it is your own, name its arrays" in told
    with pytest.raises(ValueError, match=r"own.npz is your own, name its arrays.*\. As a pub"):
        pdno.read_own(tmp_path / "own.npz")
