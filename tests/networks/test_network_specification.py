"""Specifications of networks: options of the constructors, the same network in Python and YAML."""

import copy
import inspect

import pytest
import torch
import yaml
from pydantic import TypeAdapter
from torch import nn

import pdno
from pdno.interface.arguments import describe, rebuild
from pdno.networks.heads import TransportHead
from pdno.networks.pdno import SemigroupStep
from pdno.networks.specification import NETWORKS, AnyNetwork, record_class, specify
from pdno.spectral.grid import Grid

read = TypeAdapter(AnyNetwork).validate_python
SIZES = {"dim", "in_channels", "out_channels"}
TINY = {"width": 4, "modes": 3}
IN_2D = "pdno, learned velocity", "fno, velocity of a vorticity", "pdno, on points"
SAME = {
    "pdno": (pdno.PDNO, TINY),
    "pdno, defaults": (pdno.PDNO, {}),
    "pdno, classical": (pdno.PDNO, {**TINY, "symbol": "classical"}),
    "pdno, trunk with time": (pdno.PDNO, {**TINY, "symbol": "trunk", "takes_time": True}),
    "pdno, all modes": (pdno.PDNO, {"width": 4, "padding": 0.25, "feed_forward": 5}),
    "pdno, transport": (
        pdno.PDNO,
        {**TINY, "head": {"kind": "transport", "diffusion": True}},
    ),
    "pdno, velocity": (
        pdno.PDNO,
        {**TINY, "head": {"kind": "transport", "substeps": 2, "velocity": "field", "refine": 1}},
    ),
    "pdno, learned velocity": (
        pdno.PDNO,
        {
            **TINY,
            "head": {
                "kind": "transport",
                "substeps": 2,
                "velocity": "learned",
                "velocity_order": -0.5,
                "time_step": 0.5,
                "interpolation": "keys",
                "coarsen": 2,
            },
        },
    ),
    "fno, velocity of a vorticity": (
        pdno.FNO,
        {**TINY, "head": {"kind": "transport", "diffusion": True, "velocity": "biot-savart"}},
    ),
    "pdno, on points": (pdno.PDNO, {**TINY, "coordinates": "none"}),
    "pdio": (pdno.PDIO, {}),
    "pdio, classical": (pdno.PDIO, {"modes": 4, "symbol": "classical", "order": 1.0}),
    "fno": (pdno.FNO, {**TINY, "head": "transport"}),
    "fno, defaults": (pdno.FNO, {}),
    "fno, space-time": (pdno.FNO, {"width": 3, "modes": [3, 2], "space_time": True}),
    "mwt": (pdno.MWT, {}),
    "mwt, chebyshev": (pdno.MWT, {"width": 2, "wavelets": 2, "base": "chebyshev"}),
    "semigroup": (SemigroupStep, {}),
    "semigroup, self-adjoint": (SemigroupStep, {**TINY, "self_adjoint": True}),
}


@pytest.mark.parametrize("name", SAME)
def test_the_same_words_build_the_same_network_in_python_and_yaml(name):
    network, options = SAME[name]
    kind = name.split(",")[0]
    sizes = (2 if name in IN_2D else 1, 1, 1)
    written = yaml.safe_load(yaml.safe_dump({"kind": kind, **options}))
    specified = read(written).build(*sizes, seed=3)
    torch.manual_seed(3)
    made = network(*sizes, **options)
    assert type(made) is type(specified)
    own, other = made.state_dict(), specified.state_dict()
    assert own.keys() == other.keys() and len(own) > 0
    assert all(torch.equal(own[key], other[key]) for key in own)
    for attribute in ("coordinates", "padding", "extension", "modes", "takes_time"):
        assert getattr(made, attribute, None) == getattr(specified, attribute, None)
    again = rebuild(describe(made)).state_dict()
    assert {key: value.shape for key, value in again.items()} == {
        key: value.shape for key, value in own.items()
    }
    if isinstance(options.get("head"), dict) or "points" in name:
        f = torch.randn(2, 1, *[12] * sizes[0], generator=torch.Generator().manual_seed(0))
        grid = Grid(tuple(f.shape[2:]))
        if "points" in name:
            grid = pdno.Points(torch.rand(60, 2, generator=torch.Generator().manual_seed(1)))
            f = torch.randn(2, 1, 60)
        with torch.no_grad():
            outputs = [each.eval()(f, grid=grid) for each in (made, specified)]
        assert torch.equal(*outputs) and outputs[0].isfinite().all()


def test_the_options_of_heads_have_one_list():
    """The fields of a head are those of its record, its specification and its description."""
    head = TransportHead(substeps=3, velocity="learned", coarsen=2)
    specified = specify("pdno", head=head.model_dump())
    assert specified.head == head and set(head.model_dump()) == set(TransportHead.model_fields)
    made = pdno.PDNO(1, 1, 1, **TINY, head=head)
    assert describe(made)["arguments"]["head"] == head.model_dump()


@pytest.mark.parametrize("kind", NETWORKS)
def test_a_specification_has_the_options_of_its_network(kind):
    parameters = inspect.signature(NETWORKS[kind]).parameters
    fields = type(specify(kind)).model_fields
    assert set(fields) - {"kind"} == set(parameters) - SIZES
    for name in set(parameters) - SIZES:
        assert fields[name].default == parameters[name].default, name


def test_specifications_are_copied_and_written_as_they_are():
    network = specify("pdno", modes=[4, 5], head="transport", frequency_scale=[2.0, 3.0])
    assert network.head == TransportHead() and network.modes == (4, 5)
    assert TypeAdapter(AnyNetwork).validate_json(network.model_dump_json()) == network
    make, arguments = network.__reduce__()  # by which it goes to another process
    assert make(*arguments) == copy.deepcopy(network) == network
    assert network.with_changes(width=7) == specify(**{**dict(network), "width": 7})
    with pytest.raises(ValueError, match="did you mean 'modes'"):
        network.with_changes(n_modes=3)


def test_families_are_those_of_the_tables():
    families = {
        ("PDNO", "a(x,ξ)"): specify("pdno"),
        ("PDNO", "a(ξ,t,μ)"): specify(
            "pdno", depends_on_x=False, takes_time=True, pde_parameters=1
        ),
        ("PDNO", "a(x,ξ) relu"): specify("pdno", activation="relu"),
        ("PDNO", "trunk"): specify("pdno", symbol="trunk"),
        ("FNO", ""): specify("fno"),
        ("FNO-3D", ""): specify("fno", space_time=True),
        ("MWT", "Chb"): specify("mwt", base="chebyshev"),
        ("PDNO", "semigroup"): specify("semigroup"),
    }
    assert {family: network.family for family, network in families.items()} == {
        family: family for family in families
    }


def test_what_a_specification_refuses():
    with pytest.raises(ValueError, match="network kind 'unet'; .*expected one of pdno, fno"):
        specify("unet")
    with pytest.raises(ValueError, match="symbol 'tabel'; did you mean 'table'"):
        read({"kind": "pdno", "symbol": "tabel"})
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        specify("fno", width=0)
    with pytest.raises(ValueError, match="head kind 'residual'; .*transport"):
        specify("fno", head="residual")
    with pytest.raises(ValueError, match="a space-time network all"):
        specify("fno", head="transport", space_time=True).build(2, 1, 1)


def test_weights_are_those_of_the_seed_and_the_global_generator_is_left_alone():
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    first, again, other = (specify("pdio").build(1, 1, 1, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(torch.random.get_rng_state(), before)
    pairs = zip(first.parameters(), again.parameters(), other.parameters(), strict=True)
    assert all(torch.equal(a, b) and not torch.equal(a, c) for a, b, c in pairs)


def test_options_without_names_cannot_be_specified():
    class Loose(nn.Module):
        def __init__(self, dim, in_channels, out_channels, **options):
            super().__init__()

    with pytest.raises(ValueError, match=r"Loose takes options without names \(\*options\)"):
        record_class("loose", Loose)
