"""Published networks give their published outputs, however their weights arrive."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

import pdno
from pdno.files.tensor_file import TensorFileError, read_tensor_file

OWN_GOLDEN = Path(__file__).parents[1] / "golden"
sys.path.insert(0, str(OWN_GOLDEN))
from make import unpack  # noqa: E402  (the script beside the files)

NAMES = [
    "fno_darcy",
    "mwt1d_chebyshev",
    "mwt1d_legendre",
    "mwt2d_chebyshev",
    "mwt2d_legendre",
    "mwt_space_time",
    "pdno_burgers",
    "pdno_darcy_modes",
    "pdno_darcy_tanh",
    "pdno_navier_stokes",
    "pdno_navier_stokes_xi_only",
]
OWN = sorted(path.stem for path in OWN_GOLDEN.glob("*.npz"))
PDNOS = [name for name in NAMES if name.startswith("pdno")]


def read(folder, name):
    """Published state, keywords of `load_published`, input and output with channels first."""
    if not (folder / f"{name}.npz").is_file():
        pytest.skip(f"{name} is no network of the small set in {folder.name}")
    file = np.load(folder / f"{name}.npz")
    if "weights" in file:
        config, state = unpack(file)
    else:
        config = json.loads(str(file["config"]))
        state = {key[len("state/") :]: file[key] for key in file.files if key.startswith("state/")}
    names = ("activation", "first_activation", "modes", "padding", "base")
    options = {key: config[key] for key in names if key in config}
    if config["model"] == "fno":
        options.pop("modes")
    options["resolution"] = file["input"].shape[1 : 1 + config["dim"]]
    source, target = torch.from_numpy(file["input"]), torch.from_numpy(file["output"])
    has_channel = not config["model"].startswith("mwt")
    target = target.movedim(-1, 1) if has_channel else target.unsqueeze(1)
    return state, options, source.movedim(-1, 1), target


def distance(given, expected):
    return ((given - expected).norm() / expected.norm()).item()


def test_all_golden_vectors_are_there(golden):
    names = sorted(path.stem for path in golden.glob("*.npz"))
    assert names == (OWN if golden == OWN_GOLDEN else NAMES)


@pytest.mark.parametrize("name", OWN)
@torch.no_grad()
def test_outputs_of_our_own_set(name):
    state, options, source, target = read(OWN_GOLDEN, name)
    network = pdno.load_published(state, **options)
    assert distance(network(source), target) < 1e-6
    assert distance(network.double()(source.double()), target) < 1e-7


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_published_outputs(golden, name):
    state, options, source, target = read(golden, name)
    network = pdno.load_published(state, **options)
    assert not network.training
    # some outputs are nearly constant, so this is 5e-4 of their variation
    assert distance(network(source), target) < 1e-6
    assert distance(network.double()(source.double()), target) < 1e-6


@pytest.mark.parametrize("name", PDNOS)
@torch.no_grad()
def test_golden_vectors_see_the_scales_of_the_published_inputs(golden, name):
    """Another resolution is another x·s/(s-1) and ξ/s: the tolerance above would notice."""
    state, options, source, target = read(golden, name)
    options["resolution"] = tuple(2 * n for n in options["resolution"])
    assert distance(pdno.load_published(state, **options)(source), target) > 1e-5


@torch.no_grad()
def test_first_activation_of_the_published_2d_code(golden):
    state, options, source, target = read(golden, "pdno_darcy_tanh")
    del options["first_activation"]
    assert distance(pdno.load_published(state, **options)(source), target) > 1e-4


@pytest.mark.parametrize("name", NAMES)
@torch.no_grad()
def test_weights_may_be_arrays_tensors_prefixed_or_a_file(golden, name, tmp_path):
    state, options, source, _ = read(golden, name)
    expected = pdno.load_published(state, **options)(source)
    tensors = {key: torch.from_numpy(value) for key, value in state.items()}
    prefixed = {f"module.{key}": value for key, value in tensors.items()}
    torch.save(tensors, tmp_path / "weights.bin")
    torch.save(prefixed, tmp_path / "parallel.bin")
    given = [tensors, prefixed, tmp_path / "weights.bin", str(tmp_path / "parallel.bin")]
    for weights in given:
        assert torch.equal(pdno.load_published(weights, **options)(source), expected)


def test_loaded_weights_are_copies_and_read_only_arrays_do(golden):
    state, options, _, _ = read(golden, "pdno_burgers")
    for value in state.values():
        value.flags.writeable = False
    network = pdno.load_published(state, **options)
    before = state["fc0.bias"].copy()
    with torch.no_grad():
        network.lift.bias.add_(1.0)
    assert np.array_equal(state["fc0.bias"], before)


def waves(resolution):
    axis = torch.arange(resolution) / resolution
    angle = 2 * torch.pi * (axis[:, None] + axis)
    return torch.sin(angle) + torch.cos(angle)


@torch.no_grad()
def test_published_checkpoint(published_weights):
    """Values of the published network on three inputs, computed with the published code."""
    network = pdno.load_published(published_weights, resolution=64)
    assert pdno.count_parameters(network) == 189_653

    def close(value):
        return pytest.approx(value, abs=2e-5)

    out = network(torch.zeros(1, 10, 64, 64))[0, 0]
    assert [out.mean(), out.std(), out.min(), out.max()] == [
        close(value) for value in (0.02286, 0.08513, -0.09573, 0.15560)
    ]
    out = network(waves(64).expand(1, 10, 64, 64))[0, 0]
    assert [out.mean(), out.std(), out[0, 0], out[10, 20]] == [
        close(value) for value in (-0.03137, 1.26059, 1.20335, -1.11272)
    ]
    frames = 0.1 * torch.arange(1, 11.0)[:, None, None].expand(1, 10, 64, 64)
    out = network(frames)[0, 0]
    assert [out.mean(), out[0, 0], out[31, 5]] == [
        close(value) for value in (0.54558, 0.69550, 0.34565)
    ]


def test_published_checkpoint_arrives_number_by_number(published_weights):
    state = read_tensor_file(published_weights)
    network = pdno.load_published(published_weights, resolution=64)
    assert sum(value.numel() for value in state.values()) == pdno.count_parameters(network)
    assert torch.equal(network.lift.weight, state["fc0.weight"])
    assert torch.equal(network.locals[3].weight, state["w3.weight"].flatten(1))
    space = network.operators[2].symbol.space
    assert torch.equal(space.hidden[1].weight, state["conv2.net_out.hidden.1.weight"])


def published_fno(state, f):
    """The published FNO with its corner blocks written out, two blocks, channels first."""
    shape, axes = f.shape[2:], tuple(range(2, f.dim()))
    x = torch.meshgrid(*[torch.linspace(0, 1, n) for n in shape], indexing="ij")

    def pointwise(name, v):
        weight = state[f"{name}.weight"].flatten(1)
        return functional.linear(v.movedim(1, -1), weight, state[f"{name}.bias"]).movedim(-1, 1)

    def spectral(layer, v):
        v_hat = torch.fft.rfftn(v, dim=axes)
        out = torch.zeros_like(v_hat)
        for block in range(2 ** (len(shape) - 1)):
            weights = state[f"conv{layer}.weights{block + 1}"]
            # the first axis changes its sign first, the half axis never
            corner = [
                slice(-k, None) if block >> axis & 1 else slice(k)
                for axis, k in enumerate(weights.shape[2:])
            ]
            here = (slice(None), slice(None), *corner)
            out[here] = torch.einsum("bi...,io...->bo...", v_hat[here], weights)
        return torch.fft.irfftn(out, s=shape, dim=axes)

    v = pointwise("fc0", torch.cat([f, torch.stack(x).expand(len(f), -1, *shape)], dim=1))
    v = functional.gelu(spectral(0, v) + pointwise("w0", v))
    v = spectral(1, v) + pointwise("w1", v)
    return pointwise("fc2", functional.gelu(pointwise("fc1", v)))


def random_fno_state(dim, width=3, hidden=128):
    sizes = {"fc0": (width, 2 + dim), "fc1": (hidden, width), "fc2": (1, hidden)}
    sizes |= {f"w{layer}": (width, width, *[1] * dim) for layer in range(2)}
    state = {f"{name}.weight": torch.randn(size) / 4 for name, size in sizes.items()}
    state |= {f"{name}.bias": torch.randn(size[0]) / 4 for name, size in sizes.items()}
    for layer in range(2):
        for block in range(2 ** (dim - 1)):
            size = (width, width, *(2, 3, 4)[:dim])
            state[f"conv{layer}.weights{block + 1}"] = torch.randn(size, dtype=torch.complex64)
    return state


@pytest.mark.parametrize("shape", [(12,), (8, 9), (7, 8, 10)])
@torch.no_grad()
def test_corner_blocks_of_a_published_fno(shape):
    state = random_fno_state(len(shape))
    f = torch.randn(2, 2, *shape)
    expected = published_fno(state, f)
    # as real pairs, and with the flat local maps of the first version
    real = {k: torch.view_as_real(v) if v.is_complex() else v for k, v in state.items()}
    flat = {k: v.flatten(2) if k.startswith("w") and v.dim() > 2 else v for k, v in real.items()}
    for weights in (state, real, flat):
        network = pdno.load_published(weights, resolution=shape)
        assert distance(network(f), expected) < 1e-6


def without(state, name):
    return {key: value for key, value in state.items() if key != name}


@pytest.mark.parametrize("name", ["pdno_burgers", "pdno_navier_stokes_xi_only", "fno_darcy"])
def test_every_single_weight_is_needed(golden, name):
    state, options, _, _ = read(golden, name)
    for key in state:
        with pytest.raises(ValueError, match="no |missing|weights named|does not use"):
            pdno.load_published(without(state, key), **options)


@pytest.mark.parametrize(
    "extra",
    ["bn0.weight", "fc3.bias", "w9.scale", "conv0.weights5", "conv0.net_sum.bias", "lift.weight"]
    + ["coordinate_scale", "conv0", "w", "", "conv1.net_real.linear_in.weight.more"],
)
@pytest.mark.parametrize("name", ["pdno_burgers", "fno_darcy"])
def test_unknown_weights_are_named(golden, name, extra):
    state, options, _, _ = read(golden, name)
    with pytest.raises(ValueError, match=rf"does not use: \[.*'{extra}'"):
        pdno.load_published({**state, extra: torch.zeros(4)}, **options)


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("pdno_burgers", "conv1.net_imag.hidden.0.weight"),
        ("pdno_burgers", "w1.weight"),
        ("pdno_burgers", "fc1.bias"),
        ("fno_darcy", "conv1.weights2"),
        ("fno_darcy", "fc1.weight"),
    ],
)
def test_weights_of_another_shape_are_refused(golden, name, key):
    state, options, _, _ = read(golden, name)
    wrong = {**state, key: state[key][:-1]}
    with pytest.raises(ValueError, match="shape|missing|differ"):
        pdno.load_published(wrong, **options)


def test_foreign_weights_and_resolutions_are_refused(golden, tmp_path):
    with pytest.raises(ValueError, match=r"encoder.weight.*expected PDNO.*FNO.*MWT"):
        pdno.load_published({"encoder.weight": torch.zeros(2, 2)}, 16)
    with pytest.raises(ValueError, match="expected PDNO"):
        pdno.load_published({}, 16)
    with pytest.raises(ValueError, match="fc0.weight is a list; expected arrays"):
        pdno.load_published({"fc0.weight": [1.0]}, 16)
    torch.save(torch.zeros(3), tmp_path / "one.bin")
    with pytest.raises(ValueError, match="one tensor; expected weights by name"):
        pdno.load_published(tmp_path / "one.bin", 16)
    state, options, _, _ = read(golden, "fno_darcy")
    with pytest.raises(ValueError, match=r"real numbers .*expected complex"):
        pdno.load_published({**state, "conv0.weights1": torch.zeros(4, 4, 5, 5)}, **options)
    with pytest.raises(ValueError, match=r"fc0.weight has shape \(5,\); expected \(O, I\)"):
        pdno.load_published({**state, "fc0.weight": torch.zeros(5)}, **options)
    for resolution in ((16,), (16, 16, 16), 1):
        with pytest.raises(ValueError, match=r"resolution .* 2 axes: give one per axis"):
            pdno.load_published(state, resolution)


class Hostile:
    """Unpickling this would make a folder."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("zipped", [True, False])
def test_hostile_files_are_refused_and_not_run(golden, tmp_path, zipped):
    state, options, _, _ = read(golden, "pdno_burgers")
    file, trace = tmp_path / "weights.bin", tmp_path / "trace"
    torch.save(
        {**state, "fc0.bias": Hostile(str(trace))}, file, _use_new_zipfile_serialization=zipped
    )
    with pytest.raises(TensorFileError, match="refused because loading it could run code"):
        pdno.load_published(file, **options)
    assert not trace.exists()
