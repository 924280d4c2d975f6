"""Trained operators in folders: what is loaded predicts what was saved, to the bit."""

import copy
import json
import shutil

import numpy as np
import pytest
import torch
from torch import nn

import pdno
from pdno.data.dataset import OperatorDataset
from pdno.evaluation.evaluate import evaluate
from pdno.files.run_folder import WITH_CHECKSUMS, write_checksums
from pdno.interface.arguments import RecordsArguments, describe, rebuild
from pdno.networks.mwt import MWT
from pdno.networks.pdno import FNO, PDIO, PDNO
from pdno.runs.run import load, load_run
from pdno.spectral.grid import Grid
from pdno.training.fit import fit
from pdno.training.operator_record import Sampling
from pdno.training.task import Markov, OneShot, Rollout, SpaceTime, StaticMap, TeacherForcing

SMALL = {"width": 3, "modes": 3, "layers": 2, "symbol_hidden": 4, "symbol_layers": 1}
TIMES = (0.5, 1.0, 1.5, 2.0, 2.5)


def noise(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


LINE = Grid((16,))


def static(grid=LINE, samples=6):
    f = noise(samples, 1, *grid.shape)
    return OperatorDataset.from_arrays(3 * f + 1, f.cumsum(-1) - 2, grid)


def flow(inputs=2, shape=(16,)):
    frames = noise(5, 5, 1, *shape)
    data = OperatorDataset.from_arrays(frames[:, 0], 2 * frames + 1, Grid(shape), TIMES)
    return data if inputs is None else data.window(inputs)


def trained(network, data, **options):
    return fit(network, data, data, **{"epochs": 1, "batch_size": 3, **options})


CASES = {
    **{
        f"PDNO {symbol}": (lambda symbol=symbol: PDNO(1, 1, 1, symbol=symbol, **SMALL), static, {})
        for symbol in ("network", "trunk", "low-rank", "table", "classical")
    },
    "all modes": (lambda: PDNO(1, 1, 1, **{**SMALL, "modes": None}), static, {}),
    "padding": (lambda: PDNO(1, 1, 1, padding=(3,), first_activation="tanh", **SMALL), static, {}),
    "pointwise": (lambda: FNO(1, 1, 1, 3, 2, (3,)), static, {"normalization": "pointwise"}),
    "channel": (lambda: PDNO(1, 1, 1, **SMALL), static, {"normalization": "channel"}),
    "float64": (lambda: FNO(1, 1, 1, 3, 2, 3), static, {"precision": "float64"}),
    "box": (lambda: FNO(2, 1, 1, 3, 2, 3), lambda: static(Grid.cells((8, 12))), {}),
    "MWT": (lambda: MWT(1, 1, width=2, wavelets=2, modes=3, blocks=2), static, {}),
    "rollout": (lambda: FNO(1, 2, 1, 3, 2, 3), flow, {"task": Rollout(residual=True)}),
    "forced": (lambda: FNO(1, 2, 1, 3, 2, 3), flow, {"task": TeacherForcing()}),
    "Markov": (
        lambda: PDNO(1, 1, 1, **SMALL),
        flow,
        {"task": Markov(), "normalization": "channel"},
    ),
    "transport": (
        lambda: PDNO(1, 1, 1, **SMALL, head="transport"),
        flow,
        {"task": Markov(residual=False)},
    ),
    "one-shot": (
        lambda: PDIO(1, 1, 1, takes_time=True, frequency_scale=1.0, symbol_hidden=4),
        lambda: flow(None),
        {"task": OneShot(start=0.5, span=2.0), "normalization": "pointwise"},
    ),
    "space-time": (
        lambda: FNO(2, 2, 1, 3, 2, 2, padding=(0, 2)),
        flow,
        {"task": SpaceTime(), "normalization": "pointwise"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_loaded_predicts_what_was_saved_to_the_bit(tmp_path, case):
    make, data, options = CASES[case]
    fitted = trained(make(), data(), folder=tmp_path / "fitted", **options)
    fitted.save(tmp_path / "saved")
    inputs, _ = data().batch()
    more = inputs.repeat_interleave(2, dim=-1)  # twice the points
    for folder in ("fitted", "saved"):
        state, operator = torch.get_rng_state(), load(tmp_path / folder)
        assert torch.equal(torch.get_rng_state(), state) and not operator.training
        assert operator.task == fitted.task and operator.sampling == fitted.sampling
        for given in (inputs, more, inputs.double()):
            said, expected = operator.predict(given), fitted.predict(given)
            assert said.dtype == given.dtype and torch.equal(said, expected)
        assert torch.equal(
            operator.predict(inputs),
            fitted.predict(inputs, grid=data().grid, times=data().target_times)
            if fitted.task != StaticMap()
            else fitted.predict(inputs, grid=data().grid),
        )
        assert evaluate(operator, data()).metrics() == evaluate(fitted, data()).metrics()
        assert operator.history == fitted.history
        assert operator.training_record == fitted.training_record
        (test,) = (metric for metric in operator.metrics if metric.split == "test")
        assert (test.metric, test.value) == ("relative_l2", fitted.history[-1].test)
        assert (test.experiment, test.resolution) == (folder, max(data().grid.shape))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("operator") / "mine"
    torch.manual_seed(0)
    network = PDNO(2, 1, 1, **{**SMALL, "modes": 2})
    trained(network, static(Grid.cells((8, 8))), normalization="channel", folder=place)
    return place


@pytest.fixture
def own(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "mine")


def test_arrays_of_numpy_come_back_as_arrays_of_their_precision(folder):
    operator, f = load(folder), noise(3, 1, 8, 8)
    expected = operator.predict(f)
    for dtype in (np.float32, np.float64):
        u = operator.predict(f.numpy().astype(dtype))
        assert isinstance(u, np.ndarray) and u.dtype == dtype and (u == expected.numpy()).all()
    whole = operator.predict(np.ones((2, 1, 8, 8), dtype=int))
    assert whole.dtype == np.float32
    assert (whole == operator.predict(np.ones((2, 1, 8, 8), dtype=np.float32))).all()
    backwards = operator.predict(f.numpy()[:, :, ::-1])  # a view with negative strides
    assert (backwards == operator.predict(f.flip(2)).numpy()).all()
    with pytest.raises(ValueError, match="complex64; expected real numbers"):
        operator.predict(f + 0j)


def test_many_samples_are_predicted_in_parts(folder):
    operator, f = load(folder), noise(45, 1, 8, 8)
    alone = torch.cat([operator.predict(f[k : k + 20]) for k in (0, 20, 40)])
    assert torch.equal(operator.predict(f), alone)


def test_inputs_without_a_grid_lie_as_those_of_the_training_did(folder):
    operator = load(folder)
    for points, grid in (
        (8, Grid.cells((8, 8))),
        (128, Grid.cells((128, 128))),
        (4, Grid.cells((8, 8)).coarsen(2)),
    ):
        f = noise(1, 1, points, points)
        assert torch.equal(operator.predict(f), operator.predict(f, grid=grid))
    for shape in ((8, 8), (1, 8, 8), (2, 1, 8), (0, 1, 8, 8)):
        with pytest.raises(ValueError, match=r"expected \(B, C, \*N\) with 2 axes of space"):
            operator.predict(torch.zeros(shape))


def test_the_grid_of_an_input_follows_from_that_of_the_training():
    def grid(trained, *shape):
        return Sampling(trained, 1, 1).grid_of(torch.zeros(1, 1, *shape))

    assert grid(Grid((16,)), 24) == Grid((24,))
    assert grid(Grid((5, 5), periodic=False), 9, 9) == Grid((9, 9), periodic=False)
    third = Grid.cells((24,)).coarsen(3)  # offset 1/6 on 8 points
    assert grid(third, 24) == Grid.cells((24,)) and grid(third, 96) == Grid.cells((96,))
    assert grid(third, 8) == third and grid(third, 4).offset == pytest.approx(third.offset / 2)
    assert grid(Grid.cells((8, 8)), 32, 16) == Grid.cells((32, 16))
    with pytest.raises(ValueError, match=r"where they begin does not follow .* give a grid="):
        grid(Grid((8,), offset=0.3), 64)


def test_frames_come_at_the_times_of_the_training_and_in_turn(tmp_path):
    fitted = trained(FNO(1, 2, 1, 3, 2, 3), flow(), task=Rollout(), folder=tmp_path)
    operator, (inputs, targets) = load(tmp_path), flow().batch()
    usual = operator.predict(inputs)
    assert usual.shape == targets.shape and fitted.sampling.times == TIMES[2:]
    longer = operator.predict(inputs, times=[1.5, 2.0, 2.5, 3.0, 3.5])
    assert torch.equal(longer[:, :3], usual) and longer.shape[1] == 5
    for times in ([2.0], [1.5, 2.5], [1.5, 2.0, 2.5, 4.0]):
        with pytest.raises(ValueError, match=r"this run predicts t = 1.5, 2, \.\.\. in turn"):
            operator.predict(inputs, times=times)


def test_a_network_that_tells_nothing_is_loaded_into_one_that_is_given(tmp_path):
    fitted = trained(nn.Conv1d(1, 1, 3, padding=1), static(), folder=tmp_path)
    for make in (load, lambda folder: load_run(folder).operator):
        with pytest.raises(ValueError, match=r"weights of a Conv1d, .*network=Conv1d\(\.\.\.\)"):
            make(tmp_path)
    operator, (inputs, _) = load(tmp_path, nn.Conv1d(1, 1, 3, padding=1)), static().batch()
    assert torch.equal(operator.predict(inputs), fitted.predict(inputs))
    with pytest.raises(ValueError, match="of another Conv1d than this one: .*size mismatch"):
        load(tmp_path, nn.Conv1d(1, 1, 5, padding=2))
    card = (tmp_path / "model_card.md").read_text()
    assert "network=Conv1d(...)" in card


class Scaled(RecordsArguments, nn.Module):
    """A network of somebody else, that keeps its arguments."""

    def __init__(self, inner, factors=(1.0,), **more):
        super().__init__()
        self.inner, self.factor, self.more = inner, sum(factors), more

    def forward(self, f):
        return self.factor * self.inner(f)


def test_networks_of_others_may_keep_their_arguments(tmp_path):
    fitted = trained(Scaled(FNO(1, 1, 1, 3, 2, 3), factors=[1, 2.5], word="a"), static())
    fitted.save(tmp_path)
    operator, (inputs, _) = load(tmp_path), static().batch()
    assert operator.network.factor == 3.5 and operator.network.more == {"word": "a"}
    assert torch.equal(operator.predict(inputs), fitted.predict(inputs))
    path = tmp_path / "operator.json"
    path.write_text(path.read_text().replace("Scaled", "Absent"))
    write_checksums(tmp_path, WITH_CHECKSUMS)
    with pytest.raises(ValueError, match=r"no class .*Absent: import the module that defines it"):
        load(tmp_path)


def test_descriptions_tell_all_arguments_or_refuse():
    network = FNO(1, 1, 1, np.int64(3), modes=(4,))
    told = describe(network)
    assert told["class"] == "FNO" and told["arguments"]["padding"] == 0.0  # a default
    assert json.loads(json.dumps(told)) == told == describe(copy.deepcopy(network))
    assert describe(rebuild(told)) == told
    reason = r"inner of .*Scaled is a Conv1d, which a file cannot describe"
    with pytest.raises(ValueError, match=reason):
        describe(Scaled(nn.Conv1d(1, 1, 1)))
    with pytest.raises(ValueError, match="a Conv1d does not keep the arguments"):
        describe(nn.Conv1d(1, 1, 1))


def test_damage_is_one_clear_message(own):
    operator, weights = own / "operator.json", own / "weights.safetensors"
    text, tensors = operator.read_text(), weights.read_bytes()
    for broken, message in (
        (text[:-20], r"operator.json is not readable \(Invalid JSON"),
        (text.replace('"format": 1', '"format": 2'), r"\(format: .*or of a newer pdno"),
        (text.replace('"static"', '"dance"'), r"task kind 'dance'; expected one of static, "),
        (
            text.replace('"width": 3', '"size": 3'),
            r"(?s)cannot make the network .*size.*network=PDNO",
        ),
    ):
        operator.write_text(broken)
        write_checksums(own, WITH_CHECKSUMS)
        with pytest.raises(ValueError, match=message):
            load(own)
    operator.write_text(text)
    weights.write_bytes(tensors[:-4] + bytes(4))
    write_checksums(own, WITH_CHECKSUMS)
    with pytest.raises(ValueError, match=r"weights.safetensors, which is damaged, or of another"):
        load(own)
    weights.unlink()
    write_checksums(own, WITH_CHECKSUMS)
    with pytest.raises(ValueError, match=r"weights.safetensors, which is missing: copy the whole"):
        load(own)
    (own / "checksums.json").unlink()
    with pytest.raises(ValueError, match=r"no finished run \(checksums.json is missing\)"):
        load(own)


def test_a_folder_that_is_not_written_to_its_end_holds_no_operator(own, monkeypatch):
    fitted = trained(FNO(1, 1, 1, 3, 2, 3), static())

    def fail(*given):
        raise RuntimeError("power cut")

    monkeypatch.setattr("pdno.training.operator_record.model_card", fail)
    with pytest.raises(RuntimeError, match="power cut"):
        fitted.save(own)
    with pytest.raises(ValueError, match="holds no finished run"):
        load(own)


def test_the_card_says_data_errors_limits_and_versions(tmp_path):
    fitted = trained(FNO(1, 2, 1, 3, 2, 3), flow(), task=Rollout(), normalization="channel")
    fitted.save(tmp_path, inputs=["ω(t-1)", "ω(t)"], outputs=["ω"])
    card = (tmp_path / "model_card.md").read_text(encoding="utf-8")
    for words in (
        "# FNO, trained by pdno",
        "f (B, 2, N1), with channels ω(t-1), ω(t), as numpy",
        "u (B, T, 1, N1), with channels ω.",
        "- samples: 5",
        "- times of the targets: 1.5, 2, 2.5",
        "- normalisation: channel",
        f"| test 16 | relative_l2 | {fitted.history[-1].test:.4g} |",
        "Nothing is known of its error after t = 2.5",
        f"torch {torch.__version__}",
    ):
        assert words in card
    assert load(tmp_path).sampling.output_names == ("ω",)
    with pytest.raises(ValueError, match="one name for each of 2 input channels"):
        fitted.save(tmp_path, inputs=["ω"])


def test_the_folder_of_an_experiment_is_not_overwritten(tmp_path):
    fitted = trained(FNO(1, 1, 1, 3, 2, 3), static())
    (tmp_path / "specification.json").write_text("{}")
    with pytest.raises(ValueError, match="is the run folder of an experiment: take another one"):
        fitted.save(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["specification.json"]


def test_a_network_that_was_trained_inside_normalisers_is_not_evaluated_alone():
    network, data = FNO(1, 1, 1, 3, 2, 3), static()
    fitted = trained(network, data, normalization="channel")
    with pytest.raises(ValueError, match="FNO was trained inside normalisers .* give the trained"):
        pdno.evaluate(network, data)
    assert pdno.evaluate(fitted, data).mean() == pytest.approx(fitted.history[-1].test, rel=1e-5)
    plain = FNO(1, 1, 1, 3, 2, 3)
    fitted = trained(plain, data)
    assert pdno.evaluate(plain, data).metrics() == pdno.evaluate(fitted, data).metrics()


class Multiplier(nn.Module):
    """f̂ w with complex numbers w, as other packages keep them."""

    def __init__(self):
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(20, 20, dtype=torch.complex64))

    def forward(self, f):
        spectrum = torch.fft.rfft(f)
        product = spectrum[..., :20].to(self.matrix.dtype) @ self.matrix
        return torch.fft.irfft(torch.nn.functional.pad(product, (0, 1)), f.shape[-1])


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_complex_weights_of_other_packages_stay_complex(precision, tmp_path):
    """`module.to(float32)` would discard their imaginary parts."""
    network = Multiplier()
    before = network.matrix.detach().clone()
    f = torch.randn(6, 1, 40)
    fitted = fit(network, [(g, g.roll(3, dims=-1)) for g in f], epochs=1, precision=precision)
    assert network.matrix.dtype == getattr(torch, precision).to_complex()
    step = (network.matrix.detach() - before).abs().max()
    assert 0 < step < 0.1 and network.matrix.imag.abs().max() > 1
    if precision == "float64":  # safetensors has no complex numbers of this precision
        return
    fitted.save(tmp_path / "run")
    again = pdno.load(tmp_path / "run", network=Multiplier())
    assert torch.equal(again.network.matrix, network.matrix)
    assert torch.equal(again.predict(f), fitted.predict(f))


def test_a_loaded_operator_does_not_depend_on_its_files(own):
    """Nothing stays mapped: what happens to a file later changes no prediction."""
    operator, f = load(own), noise(2, 1, 8, 8)
    before = {name: value.clone() for name, value in operator.state_dict().items()}
    weights = own / "weights.safetensors"
    size = weights.stat().st_size
    with weights.open("r+b") as file:
        file.seek(size // 2)
        file.write(b"\xff" * (size - size // 2))
    after = operator.state_dict()
    assert all(torch.equal(value, before[name]) for name, value in after.items())
    with weights.open("r+b") as file:
        file.truncate(0)
    assert bool(operator.predict(f).isfinite().all())


@pytest.mark.parametrize(("name", "value"), [("layers", 10**6), ("width", 4096)])
def test_a_network_larger_than_its_weights_is_not_built(own, name, value):
    """Without checksums, or with new ones, the record may say anything."""
    path = own / "operator.json"
    record = json.loads(path.read_text())
    record["network"]["arguments"][name] = value
    path.write_text(json.dumps(record))
    write_checksums(own, WITH_CHECKSUMS)
    with pytest.raises(ValueError, match="more parameters than the .* of its weights"):
        load(own)
