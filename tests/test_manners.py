"""What is said to common slips: the name that was meant, the cure, in one line."""

import numpy as np
import pytest
import torch

import pdno
from pdno.cli import main
from pdno.interface.errors import suggest
from pdno.paper.reproduce import study_of
from pdno.runs.run import load_run

GRID = pdno.Grid((16,))


@pytest.fixture
def data():
    f = torch.randn(4, 1, 16)
    return pdno.OperatorDataset.from_arrays(f, 2 * f, GRID)


@pytest.mark.parametrize(
    ("word", "meant"),
    [("lr", "learning_rate"), ("learning_rat", "learning_rate"), ("Epochs", "epochs"), ("x", "")],
)
def test_the_nearest_name_or_its_initials(word, meant):
    known = ["epochs", "learning_rate", "weight_decay"]
    assert suggest(word, known) == (f"did you mean {meant!r}? " if meant else "")


def test_unknown_keys_are_answered_with_the_key_that_was_meant(data):
    network = pdno.FNO(1, 1, 1, width=4, modes=4)
    for wrong, meant in {"lr": "learning_rate", "epoch": "epochs", "bs": "batch_size"}.items():
        with pytest.raises(ValueError, match=f"{wrong}: .*did you mean '{meant}'"):
            pdno.fit(network, data, **{wrong: 1})
    with pytest.raises(ValueError, match="did you mean 'steps'"):
        pdno.Rollout(step=3)
    with pytest.raises(ValueError, match="did you mean 'modes'"):
        pdno.PDIO(1, 1, 1, n_modes=4)
    with pytest.raises(ValueError, match="did you mean 'width'"):  # as neuraloperator calls it
        pdno.FNO(1, 1, 1, hidden_channels=4)
    values = {"name": "a", "model": "b", "train": 1, "test": 1, "resolution": 16}
    values |= {"problem": {"name": "heat"}, "network": {"kind": "fno", "widht": 3}}
    with pytest.raises(ValueError) as told:
        pdno.Experiment(**values, training={"lr": 1})
    message = str(told.value)
    assert "network: widht: unknown key; did you mean 'width'" in message
    assert "training: lr: unknown key; did you mean 'learning_rate'" in message


@pytest.mark.parametrize(
    "make",
    [
        lambda data: pdno.fit(pdno.FNO(1, 1, 1, width=4, modes=4), data, epochs=0),
        lambda data: pdno.TrainingSettings(epochs=0),
        lambda data: pdno.TrainingSettings.model_validate({"epochs": 0}),
        lambda data: pdno.TrainingSettings().with_changes(epochs=0),
        lambda data: pdno.Rollout(steps="many"),
        lambda data: pdno.specify("fno", width="wide"),
        lambda data: pdno.PDNO(1, 1, 1, n_modes=4),
        lambda data: pdno.Experiment(name="a", training={"epochs": 0}),
    ],
)
def test_wrong_values_are_one_line_without_the_tails_of_pydantic(data, make):
    with pytest.raises(ValueError, match=r".+: .+") as told:
        make(data)
    message = str(told.value)
    assert not any(tail in message for tail in ("\n", "[type=", "validation error", "https"))


def test_a_task_may_be_its_kind(data):
    network = pdno.FNO(1, 1, 1, width=4, modes=4)
    assert pdno.fit(network, data, task="static", epochs=1).task == pdno.StaticMap()
    with pytest.raises(ValueError, match="'rolout'; did you mean 'rollout'"):
        pdno.fit(network, data, task="rolout")
    with pytest.raises(ValueError, match=r"expected one of static, .*, or Rollout\(\)"):
        pdno.fit(network, data, task=pdno.Rollout)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_told(data, tmp_path):
    network = pdno.FNO(1, 1, 1, width=4, modes=4)
    with pytest.raises(ValueError, match="device 'cuda': .*take cpu, or see `pdno info`"):
        pdno.fit(network, data, device="cuda")
    with pytest.raises(ValueError, match="device 'gpu': .*; take cpu, or see"):
        pdno.fit(network, data, device="gpu")
    (tmp_path / "checksums.json").write_text("{}")
    with pytest.raises(ValueError, match="device 'cuda'"):
        load_run(tmp_path, "cuda")


def test_a_certificate_is_of_one_symbol():
    network = pdno.PDNO(1, 1, 1, width=2, layers=2, modes=4, symbol="classical")
    with pytest.raises(ValueError, match=r"are operators.0, operators.1; expected .* a layer"):
        pdno.certify(network)
    first = network.operators[0]  # new, and its modes say its scale
    told = str(pdno.certify(first, order=0))
    assert told == str(pdno.certify(first.symbol, order=0)) and (
        "proved" in told or "tested" in told
    )


@pytest.mark.parametrize("symbol", ["network", "trunk", "low-rank", "table", "classical"])
def test_a_single_layer_is_the_layer_of_a_network(symbol):
    torch.manual_seed(0)
    layer = pdno.PDIO(2, 3, 3, modes=4, symbol=symbol)
    made = pdno.networks.pdno.SymbolSpecification(symbol=symbol).make(2, 3, 3, (4, 4))
    same = pdno.PseudoDifferentialOperator(made, (4, 4))
    same.load_state_dict(layer.state_dict())
    f = torch.randn(2, 3, 16, 12)
    assert torch.equal(layer(f), same(f))
    assert pdno.PDIO(2, 3, 5, modes=4, symbol=symbol)(f).shape == (2, 5, 16, 12)
    assert layer(f.double()).dtype == torch.float64


@pytest.mark.parametrize(
    "network",
    [pdno.PDNO(1, 1, 1, width=2, modes=4), pdno.FNO(1, 1, 1, width=2, modes=4), pdno.MWT(1, 1)],
    ids=["PDNO", "FNO", "MWT"],
)
def test_every_network_says_what_numbers_it_takes(network):
    f = np.zeros((2, 1, 16))
    with pytest.raises(ValueError, match=r"type ndarray; expected a tensor: give torch.as_tensor"):
        network(f)
    with pytest.raises(ValueError, match=r"input is float64, the weights are float32: give f.to"):
        network(torch.from_numpy(f))


def test_what_is_no_network_no_symbol_and_no_folder_is_named(data, tmp_path):
    with pytest.raises(ValueError, match="the network is 'pdno'; expected a torch module"):
        pdno.fit("pdno", data)
    with pytest.raises(ValueError, match="did you mean 'classical'"):
        pdno.PDIO(1, 1, 1, symbol="clasical")
    with pytest.raises(ValueError, match=r"a dict is no symbol; .* operator.operators\[0\]"):
        pdno.certify({})
    with pytest.raises(ValueError, match="there is no folder .*absent"):
        pdno.load(tmp_path / "absent")
    for shape in (32, 32.0):
        with pytest.raises(ValueError, match=rf"Grid shape is {shape}; .* Grid\(\(32,\)\)"):
            pdno.Grid.cells(shape)


def test_what_predicts_says_in_a_line_what_it_is(data, tmp_path):
    trained = pdno.fit(
        pdno.FNO(1, 1, 1, width=4, modes=4), data, data, epochs=1, normalization="channel"
    )
    trained.save(tmp_path)
    operator, errors = pdno.load(tmp_path), pdno.evaluate(trained, data)
    inputs = data.batch()[0].numpy()
    assert np.array_equal(trained.predict(inputs), operator.predict(inputs))
    assert torch.equal(errors.values(), pdno.evaluate(trained, data).values())
    told = f"channels 1 -> 1, trained on 16 periodic, error of test 16 {errors.mean():.4g}"
    assert repr(operator).startswith("<TrainedOperator network FNO, parameters ") and told in repr(
        operator
    )
    assert "normalisers yes" in repr(trained) and "<td>static</td>" in operator._repr_html_()
    assert repr(errors) == f"<Evaluation samples 4, relative_l2 {errors.mean():.4g}>"
    assert f"<th>relative_h1</th><td>{errors.mean('relative_h1'):.4g}</td>" in errors._repr_html_()
    assert len(repr(pdno.load_run(tmp_path))) < 500


def test_models_may_be_typed_without_greek_or_capitals():
    wish = ["pdno a(x, xi)", "PDNO A(ξ)", "fno"]
    named = [one.model for one in study_of("darcy", "smoke", models=wish).experiments]
    assert named == ["PDNO a(x,ξ)", "PDNO a(ξ)", "FNO"]
    with pytest.raises(
        ValueError, match=r"no model 'PDNO a\(x,ix\)': did you mean 'PDNO a\(x,ξ\)'"
    ):
        study_of("darcy", "smoke", models=["PDNO a(x,ix)"])


def test_errors_of_each_channel_where_there_are_several():
    u = torch.randn(3, 2, 2, 16)
    v = u * torch.tensor([1.1, 1.3])[:, None]
    data = pdno.OperatorDataset.from_arrays(v[:, 0], u, GRID, times=[1.0, 2.0])

    class Known:
        def predict(self, inputs, *, grid, times):
            return v

    metrics = pdno.evaluate(Known(), data).metrics()
    assert metrics["relative_l2 channel=0"] == pytest.approx(0.1, rel=1e-5)
    assert metrics["relative_l2 channel=1"] == pytest.approx(0.3, rel=1e-5)
    single = pdno.OperatorDataset.from_arrays(u[:, 0, :1], u[:, 0, :1], GRID)
    assert not any("channel" in one for one in pdno.evaluate(torch.nn.Identity(), single).errors)


def test_the_command_says_its_version_and_helps_where_nothing_is_asked(capsys):
    assert main(["--version"]) == 0 and capsys.readouterr().out == f"pdno {pdno.__version__}\n"
    for words, wanted in (([], "--plugin MODULE"), (["train", "--help"], "teacher-forcing")):
        with pytest.raises(SystemExit) as ended:
            main(words)
        shown = capsys.readouterr().out
        assert ended.value.code == 0 and wanted in shown and "{None}" not in shown
