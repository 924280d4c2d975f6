"""Files that run elsewhere give the numbers of torch, and a file that does not is not left."""

import importlib.util
import json
import shutil

import numpy as np
import pytest
import torch
from safetensors import safe_open
from small_operators import OPERATORS, fields

import pdno
from pdno.cli import main
from pdno.exports import export as exporting
from pdno.exports.frozen import Tables, freeze, freeze_head, shrink
from pdno.spectral.fourier import inverse, transform

onnx = pytest.mark.skipif(
    importlib.util.find_spec("onnxruntime") is None
    or importlib.util.find_spec("onnxscript") is None,
    reason="onnxruntime and onnxscript are not installed: pip install 'pdno[export]'",
)
compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="AOTInductor needs g++")
FAMILIES = list(OPERATORS)


def relative(result, expected):
    return float((result - expected).norm() / expected.norm())


def inputs_of(operator, grid):
    return fields(grid, operator.sampling.input_channels)


@pytest.mark.parametrize(
    ("shape", "kept"), [((9,), None), ((12,), 4), ((8, 6), (3, None)), ((6, 5, 8), 2)]
)
def test_transforms_are_those_of_the_package(shape, kept):
    kept = pdno.spectral.grid.kept_per_axis(shape, kept)
    tables = Tables(shape, kept)
    f = torch.randn(2, 3, *shape, dtype=torch.float64)
    spectrum = transform(f, len(shape), kept)
    result = torch.complex(*tables.analyse(f).unbind(-2))
    backwards = tuple(reversed(range(2, 2 + len(shape))))
    torch.testing.assert_close(result, spectrum.permute(0, 1, *backwards))
    any_numbers = torch.randn_like(spectrum)  # also such as no real function has
    moved = any_numbers.permute(0, 1, *backwards)
    there = torch.stack([moved.real, moved.imag], dim=-2)
    torch.testing.assert_close(tables.synthesise(there), inverse(any_numbers, shape, kept))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("points", [None, 24])
def test_frozen_operators_predict_as_they_did(family, points):
    operator = OPERATORS[family]()
    in_turn = operator.task.times_wanted == "in turn"
    frames = len(operator.sampling.times) if in_turn else None
    frozen = freeze(operator, points, frames)
    f = inputs_of(operator, frozen.grid)
    expected = operator.predict(f)
    with torch.no_grad():
        result = frozen(f[:, -frozen.input_channels :])
    assert result.shape == expected.shape and relative(result, expected) < 5e-6
    # a file of one step drops the scales between frames that only a finer state holds
    whole = getattr(operator.network, "coarsen", 1) == 1
    if in_turn and operator.task.kind != "space-time" and whole:
        with torch.no_grad():
            window, step = f[:, -frozen.input_channels :], freeze(operator, points)
            for frame in expected.unbind(1):
                window = torch.cat([window[:, 1:], step(window)], dim=1)
                assert relative(window[:, -1:], frame) < 5e-6


@pytest.mark.parametrize("network", ["symbols", "time", "channel"])
def test_a_member_of_a_family_is_fixed_in_the_file(network, tmp_path):
    """Symbols see the number, or see it beside the time, or it is a channel."""
    times = [0.1, 0.2] if network == "time" else [0.1]
    ranges = {"diffusivity": (0.01, 0.1)}
    data = pdno.generate(
        pdno.Heat(), pdno.Grid((32,)), samples=6, times=times, seed=0, vary=ranges
    )
    size = {"width": 4, "layers": 2, "modes": 6}
    torch.manual_seed(0)
    made = {
        "symbols": lambda: pdno.PDNO(1, 1, 1, pde_parameters=1, symbol_hidden=6, **size),
        "time": lambda: pdno.PDIO(
            1, 1, 1, modes=6, pde_parameters=1, takes_time=True, symbol_hidden=6
        ),
        "channel": lambda: pdno.FNO(1, 2, 1, **size),
    }[network]()
    task = "one-shot" if network == "time" else "static"
    operator = pdno.fit(made, data, task=task, epochs=1, normalization="channel")
    with pytest.raises(ValueError, match="one of a family"):
        pdno.export(operator, tmp_path / "a.safetensors", format="safetensors")
    for c in (0.02, 0.08):
        path = tmp_path / f"{c}.safetensors"
        file = pdno.export(operator, path, format="safetensors", pde_parameters={"diffusivity": c})
        f = data.batch()[0]
        options = {"grid": data.grid, "times": times, "pde_parameters": {"diffusivity": c}}
        expected = operator.predict(f, **options).reshape(file.run(f).shape)
        assert file.description["pde_parameters"] == {"diffusivity": c}
        assert relative(file.run(f), expected) < 5e-6


def test_x_factors_of_a_wide_layer_become_few_terms():
    operator = OPERATORS["network"]()
    torch.manual_seed(0)
    operator.network = pdno.PDNO(2, 1, 1, width=16, layers=1, modes=4)
    (layer,) = freeze(operator).networks[0].network.operators
    rank = layer.space.shape[1]
    assert rank < 16 and layer.lower.shape == (16, rank, 16)


@pytest.mark.parametrize("family", ["network", "low rank", "classical", "a(ξ)"])
def test_tables_as_products_of_smaller_ones_are_the_same(family):
    """What symbol networks give is smooth in x and in ξ."""
    frozen = freeze(OPERATORS[family](), 32)
    small = shrink(frozen)
    sizes = [sum(b.numel() for b in module.buffers()) for module in (small, frozen)]
    f = fields(frozen.grid, frozen.input_channels)
    with torch.no_grad():
        assert relative(small(f), frozen(f)) < 2e-6
    assert sizes[0] < (0.5 if family == "network" else 1.01) * sizes[1]


@pytest.mark.parametrize("family", ["network", "one axis, all modes", "rollout"])
def test_on_noise_a_frozen_operator_is_as_exact_as_torch(family):
    """Both differ from float64 by the rounding of float32, and so from each other."""
    operator = OPERATORS[family]()
    times = operator.sampling.times
    frozen = freeze(operator, frames=None if times is None else len(times))
    noise = torch.randn(4, operator.sampling.input_channels, *frozen.grid.shape)
    options = {"grid": frozen.grid, "times": times}
    single = operator.predict(noise, **options)
    exact = operator.double().predict(noise.double(), **options)
    with torch.no_grad():
        errors = [relative(u.double(), exact) for u in (frozen(noise), single)]
    assert errors[0] < 3 * errors[1] + 1e-7


def test_another_grid_is_refused():
    frozen = freeze(OPERATORS["network"]())
    with pytest.raises(ValueError, match=r"its last 2 axes must be \(16, 16\)"):
        frozen(torch.zeros(1, 1, 24, 24))


@onnx
@pytest.mark.parametrize("family", ["padded, feed-forward"])
def test_onnx_files_agree_with_torch(family, tmp_path):
    check_format(family, tmp_path, "onnx", frames=None)


@pytest.mark.slow
@onnx
@pytest.mark.parametrize("frames", [None, 3])
@pytest.mark.parametrize("family", FAMILIES)
def test_all_onnx_files_agree_with_torch(family, frames, tmp_path):
    if frames and OPERATORS[family]().task.times_wanted == "none":
        pytest.skip("one field has no frames")
    check_format(family, tmp_path, "onnx", frames=frames)


@pytest.mark.slow
@compiler
@pytest.mark.parametrize("family", FAMILIES)
def test_compiled_files_agree_with_torch(family, tmp_path):
    rolls_out = OPERATORS[family]().task.times_wanted == "in turn"
    check_format(family, tmp_path, "aoti", frames=2 if rolls_out else None)


@pytest.mark.parametrize("format", ["torch-export", "safetensors"])
def test_other_files_agree_with_torch(format, tmp_path):
    check_format("rollout", tmp_path, format, frames=2)


def check_format(family, folder, format, frames):
    operator = OPERATORS[family]()
    samples = inputs_of(operator, operator.sampling.grid), operator.sampling.grid
    path = folder / f"it{exporting.FORMATS[format]}"
    made = pdno.export(operator, path, format=format, frames=frames, samples=samples)
    assert path.is_file() and made.difference <= exporting.TOLERANCE
    card = (folder / f"{path.name}.md").read_text(encoding="utf-8")
    assert f"{made.difference:.1e}" in card and '"inputs"' in card
    names = [path.name, f"{path.name}.checksums.json", f"{path.name}.md"]
    assert sorted(result.name for result in folder.iterdir()) == names


@onnx
def test_an_onnx_file_has_real_arithmetic_and_any_batch(tmp_path):
    import onnx as onnx_files
    import onnxruntime

    operator = OPERATORS["low rank"]()
    path = tmp_path / "flow.onnx"
    pdno.export(operator, path)
    model = onnx_files.load(path)
    used = {node.op_type for node in model.graph.node}
    assert {"MatMul", "Mul", "Add"} <= used
    assert not used & {"DFT", "STFT", "Einsum", "Loop", "If", "Scan", "Conv"}
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        names = {size.dim_param for size in value.type.tensor_type.shape.dim}
        assert names <= {"", "batch"}, value.name
    session = onnxruntime.InferenceSession(path)
    f = inputs_of(operator, operator.sampling.grid)[[0, 1, 2, 0, 1]]
    (result,) = session.run(None, {"inputs": f.numpy()})
    assert relative(torch.from_numpy(result), operator.predict(f)) < 1e-6
    header = json.loads(session.get_modelmeta().custom_metadata_map["pdno"])
    assert header["inputs"] == ["batch", 1, 16, 16] and header["times"] is None


def test_a_file_that_differs_is_not_left(tmp_path, monkeypatch):
    monkeypatch.setattr(exporting, "TOLERANCE", 0.0)
    with pytest.raises(ValueError, match="differs from torch by .* was not kept"):
        pdno.export(OPERATORS["rollout"](), tmp_path / "it.safetensors", format="safetensors")
    assert not list(tmp_path.iterdir())


def test_tables_are_enough_to_predict_without_torch(tmp_path):
    """The layer of one operator of heat, by numpy alone: analyse, mix, synthesise, x-factor."""
    operator = OPERATORS["heat"]()
    pdno.export(operator, tmp_path / "heat.safetensors", format="safetensors", frames=1)
    with safe_open(tmp_path / "heat.safetensors", framework="np") as file:
        t = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    f = inputs_of(operator, operator.sampling.grid).numpy()
    there, back = (
        next(v for k, v in t.items() if k.endswith(part)) for part in ("there_0", "back_0")
    )
    space = t["networks.0.space"]
    encoded = (f - t["inputs.mean"]) / t["inputs.std"]
    spectrum = (encoded @ there).reshape(len(f), 2, -1)  # real and imaginary parts
    (a, b), (c, d) = np.moveaxis(spectrum, 1, 0), t["networks.0.mix"][:, 0].T
    mixed = np.concatenate([a * c - b * d, a * d + b * c], axis=1)[:, None]
    u = (mixed @ back) * space[0] * t["outputs.std"] + t["outputs.mean"]
    expected = operator.predict(f)[:, 0]
    assert np.abs(u - expected).max() < 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "tflite"}, "expected one of onnx, torch-export, aoti, safetensors"),
        ({"format": "onnx"}, "expected a name that ends .onnx"),
        ({"frames": 3}, "an operator that predicts frames"),
        ({"resolution": 2}, "expected at least 4"),
    ],
)
def test_what_cannot_be_exported_is_said(tmp_path, options, message):
    options = {"format": "safetensors"} | options
    with pytest.raises(ValueError, match=message):
        pdno.export(OPERATORS["network"](), tmp_path / "it.safetensors", **options)
    assert not list(tmp_path.iterdir())


def test_a_network_of_another_kind_is_refused(tmp_path):
    operator = OPERATORS["network"]()
    operator.network = pdno.MWT(2, 1, width=2, wavelets=2, modes=2, blocks=1)
    with pytest.raises(ValueError, match="a MWT cannot be frozen"):
        pdno.export(operator, tmp_path / "it.safetensors", format="safetensors")


def test_the_command_exports_a_run_and_its_card(tmp_path, capsys):
    data = pdno.generate(pdno.Heat(), pdno.Grid((32,)), samples=3, times=[0.1], seed=0)
    network = pdno.PDNO(1, 1, 1, width=4, layers=1, modes=4, takes_time=True)
    run = pdno.fit(network, data, task=pdno.OneShot(), epochs=1)
    run.save(tmp_path / "run")
    assert main(["export", str(tmp_path / "run"), "--format", "safetensors"]) == 0
    assert "relative difference from torch" in capsys.readouterr().out
    card = (tmp_path / "run" / "operator.safetensors.md").read_text(encoding="utf-8")
    assert "## The operator" in card and "PDNO, trained by pdno" in card


def test_a_head_that_cannot_be_exported_is_refused():
    """It is part of what the operator predicts, and must not be left out."""
    with pytest.raises(ValueError, match="an? Identity head cannot be exported"):
        freeze_head(torch.nn.Identity(), pdno.Grid((8, 8)), {})
