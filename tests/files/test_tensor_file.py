"""Tensor files: what torch.save writes comes back; nothing that is stored is ever run."""

import argparse
import contextlib
import os
import random
import struct
import zipfile
from collections import OrderedDict
from pathlib import Path

import pytest
import torch

from pdno.files.tensor_file import TensorFileError, read_tensor_file

PUBLISHED = Path(__file__).parents[3] / "shared/reference/pdno_ns_v1e-5_published.bin"
DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
    torch.complex64,
    torch.complex128,
]


def saved(path, value, **options):
    torch.save(value, path, **options)
    return read_tensor_file(path)


def archive(path, program, *, compression=zipfile.ZIP_STORED, **records):
    """A file as torch.save lays it out, around a description and records of our own."""
    with zipfile.ZipFile(path, "w", compression) as target:
        target.writestr("archive/data.pkl", program)
        for name, content in records.items():
            target.writestr(f"archive/{name.replace('_', '/')}", content)
    return path


def tensor_program(count, offset, size, stride, *, storage=b"FloatStorage"):
    """The description of one tensor over the storage `0`."""

    def integer(n):
        return b"\x8a\x09" + n.to_bytes(9, "little", signed=True)

    def integers(values):
        return b"(" + b"".join(integer(n) for n in values) + b"t"

    identity = b"(X\x07\0\0\0storagectorch\n" + storage + b"\nX\x01\0\0\x000X\x03\0\0\0cpu"
    return (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n("
        + (identity + integer(count) + b"tQ" + integer(offset))
        + (integers(size) + integers(stride) + b"\x89ccollections\nOrderedDict\n)RtR.")
    )


def assert_same(given, expected):
    if isinstance(expected, torch.Tensor):
        assert type(given) is torch.Tensor
        assert given.dtype == expected.dtype and given.shape == expected.shape
        assert torch.equal(given, expected)
    elif isinstance(expected, dict):
        assert type(given) is dict and list(given) == list(expected)
        for key, value in expected.items():
            assert_same(given[key], value)
    elif isinstance(expected, (list, tuple)):
        assert type(given) is type(expected) and len(given) == len(expected)
        for one, other in zip(given, expected, strict=True):
            assert_same(one, other)
    else:
        assert type(given) is type(expected) and given == expected


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_round_trips(tmp_path, dtype):
    value = torch.randn(3, 5, dtype=torch.complex128).mul(50)
    tensor = (value if dtype.is_complex else value.real).to(dtype)
    assert_same(saved(tmp_path / "one.pt", tensor), tensor)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_containers_round_trip(tmp_path, protocol):
    value = {
        "text": "ξ",
        "numbers": [1, -2, 300, 70000, 10**12, -(10**15), 0.5, True, False, None],
        "tuples": ((), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4), [], {}),
        3: OrderedDict(inner=torch.ones(2), empty=torch.zeros(2, 0), scalar=torch.tensor(3.0)),
        "nested": {"state": {0: {"step": torch.tensor(7)}}},
    }
    assert_same(saved(tmp_path / "plain.pt", value, pickle_protocol=protocol), value)


def test_a_state_dict_round_trips(tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    state = model.state_dict()
    assert_same(saved(tmp_path / "state.pt", state), state)


def test_parameters_come_back_as_tensors(tmp_path):
    parameter = torch.nn.Parameter(torch.randn(3))
    assert_same(saved(tmp_path / "p.pt", [parameter]), [parameter.detach()])


def test_views_come_back_as_views_of_one_storage(tmp_path):
    whole = torch.arange(24.0).reshape(4, 6)
    views = [whole, whole.T, whole[1:, ::2], whole[2], whole.diagonal()]
    given = saved(tmp_path / "views.pt", views)
    for one, other in zip(given, views, strict=True):
        assert torch.equal(one, other) and one.stride() == other.stride()
    given[0][2, 0] = -1.0
    assert given[1][0, 2] == given[2][1, 0] == given[3][0] == -1.0


def test_a_tensor_larger_than_one_chunk_round_trips(tmp_path):
    tensor = torch.arange(5 * 1024 * 1024, dtype=torch.int32)
    assert torch.equal(saved(tmp_path / "large.pt", tensor), tensor)


class Hostile:
    def __init__(self, marker):
        self.marker = marker

    def __reduce__(self):
        return (os.system, (f"touch {self.marker}",))


@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: {"w": torch.ones(2), "x": [v]}])
@pytest.mark.parametrize("protocol", [2, 4])
def test_code_is_refused_and_not_run(tmp_path, wrap, protocol):
    path = tmp_path / "hostile.pt"
    torch.save(wrap(Hostile(tmp_path / "marker")), path, pickle_protocol=protocol)
    with pytest.raises(TensorFileError, match=r"pickled 'posix.system'; refused because loading"):
        read_tensor_file(path)
    assert not (tmp_path / "marker").exists()


def test_an_argparse_namespace_is_refused(tmp_path):
    torch.save(argparse.Namespace(lr=0.1), tmp_path / "args.bin")
    with pytest.raises(ValueError, match=r"args.bin.*argparse.Namespace.*could run code.*save"):
        read_tensor_file(tmp_path / "args.bin")


@pytest.mark.parametrize("value", [torch.nn.Linear(2, 2), {1, 2}, b"bytes", torch.float32])
def test_other_objects_are_refused(tmp_path, value):
    torch.save(value, tmp_path / "object.pt")
    with pytest.raises(ValueError, match="refused because loading it could run code"):
        read_tensor_file(tmp_path / "object.pt")


@pytest.mark.parametrize(
    "program",
    [
        b"\x80\x02ccollections\nOrderedDict\n.",
        b"\x80\x02ctorch\nFloatStorage\n.",
        b"\x80\x02ctorch\nFloatStorage\n)R.",
        b"\x80\x02K\x01)R.",
        b"\x80\x02cos\nsystem\nX\x02\0\0\0ls\x85R.",
        b"\x80\x02cos\nsystem\n)\x81.",
        b"\x80\x02(X\x02\0\0\0lsios\nsystem\n.",
        b"\x80\x02}X\x01\0\0\0aK\x01s}b0.",
        b"\x80\x02K\x01}b.",
        b"\x80\x02}K\x01K\x02\x86K\x03s.",
        b"\x80\x02}(K\x01u.",
        b"\x80\x02Q.",
        b"\x80\x02K\x01Q.",
        b"\x80\x02h\x05.",
        b"\x80\x02t.",
        b"\x80\x02K\x01K\x02.",
        b"\x80\x02.",
        b"\x80\x02",
        b"",
        b"\x80\x02S'\\q'\n.",
        b"\x80\x02X\xff\xff\xff\x7fa.",
        b"I" + b"9" * 5000 + b"\n.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        b"\x80\x04K\x01K\x02\x93.",
        b"\x80\x02]q\0h\0a.",
        b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".",
        b"\x80\x02]" + b"q\x00]h\0ah\0a" * 40 + b".",
    ],
)
def test_hostile_and_malformed_descriptions_are_refused(tmp_path, program):
    with pytest.raises(TensorFileError, match=r"cannot read .*x\.pt"):
        read_tensor_file(archive(tmp_path / "x.pt", program))


def test_a_value_shared_without_end_is_refused(tmp_path):
    doubled = b"".join(
        b"]q" + bytes([k]) + 2 * (b"h" + bytes([k - 1]) + b"a") for k in range(1, 40)
    )
    program = b"\x80\x02]q\x00" + doubled + b"\x86" * 39 + b"."
    with pytest.raises(ValueError, match="too large"):
        read_tensor_file(archive(tmp_path / "x.pt", program))


@pytest.mark.parametrize(
    ("count", "offset", "size", "stride"),
    [
        (6, 0, (7,), (1,)),
        (6, 1, (6,), (1,)),
        (6, 0, (2, 3), (4, 1)),
        (6, -1, (2,), (1,)),
        (6, 0, (-2,), (1,)),
        (6, 5, (2,), (-1,)),
        (6, 0, (2,), (1, 1)),
        (6, 0, (10**9,), (0,)),
        (6, 0, (1 << 62, 4), (1, 1)),
        (6, 1 << 62, (1,), (1,)),
        (6, 0, (1,) * 100, (1,) * 100),
        (7, 0, (6,), (1,)),
        (-6, 0, (1,), (1,)),
        (1 << 60, 0, (1,), (1,)),
    ],
)
def test_a_tensor_must_lie_inside_its_storage(tmp_path, count, offset, size, stride):
    program = tensor_program(count, offset, size, stride)
    numbers = struct.pack("<6f", *range(6))
    with pytest.raises(TensorFileError):
        read_tensor_file(archive(tmp_path / "x.pt", program, data_0=numbers))


def test_a_hand_made_tensor_within_its_bounds_is_read(tmp_path):
    path = archive(
        tmp_path / "x.pt",
        tensor_program(6, 1, (2, 2), (3, 1)),
        data_0=struct.pack("<6f", *range(6)),
        byteorder=b"little",
    )
    assert read_tensor_file(path).tolist() == [[1.0, 2.0], [4.0, 5.0]]


def test_bools_are_zero_or_one(tmp_path):
    program = tensor_program(3, 0, (3,), (1,), storage=b"BoolStorage")
    given = read_tensor_file(archive(tmp_path / "x.pt", program, data_0=b"\0\2\xff"))
    assert given.view(torch.uint8).tolist() == [0, 1, 1]


def test_storages_must_be_present_plain_and_little_endian(tmp_path):
    program, numbers = tensor_program(6, 0, (6,), (1,)), bytes(24)
    with pytest.raises(ValueError, match="storage '0' .* is missing"):
        read_tensor_file(archive(tmp_path / "x.pt", program))
    with pytest.raises(ValueError, match="big-endian"):
        read_tensor_file(archive(tmp_path / "x.pt", program, data_0=numbers, byteorder=b"big"))
    with pytest.raises(ValueError, match="compressed"):
        deflated = zipfile.ZIP_DEFLATED
        read_tensor_file(archive(tmp_path / "x.pt", program, data_0=numbers, compression=deflated))


def test_lazy_conjugates_and_repeated_numbers_are_refused_with_the_cure(tmp_path):
    with pytest.raises(ValueError, match="resolve_conj"):
        saved(tmp_path / "c.pt", torch.randn(2, dtype=torch.complex64).conj())
    with pytest.raises(ValueError, match="contiguous"):
        saved(tmp_path / "e.pt", torch.ones(1).expand(5))


def test_other_formats_are_refused_with_the_cure(tmp_path):
    path = tmp_path / "x.pt"
    torch.save(torch.ones(2), path, _use_new_zipfile_serialization=False)
    with pytest.raises(ValueError, match=r"before torch 1\.6.*save it again"):
        read_tensor_file(path)
    path.write_bytes(b"<!DOCTYPE html>")
    with pytest.raises(ValueError, match="starts with .*download"):
        read_tensor_file(path)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="damaged or incomplete"):
        read_tensor_file(path)
    with zipfile.ZipFile(path, "w") as target:
        target.writestr("ns_V1e-3_N5000_T50.mat", b"MATLAB")
    with pytest.raises(ValueError, match="unpack it first"):
        read_tensor_file(path)
    with pytest.raises(FileNotFoundError):
        read_tensor_file(tmp_path / "absent.pt")


@pytest.fixture
def small(tmp_path):
    value = {"u": torch.arange(40.0), "a": torch.arange(6).reshape(2, 3), "n": [1, "x"]}
    torch.save(value, tmp_path / "small.pt")
    return value, (tmp_path / "small.pt").read_bytes(), tmp_path / "damaged.pt"


def test_every_truncation_is_found(small):
    _, whole, path = small
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(TensorFileError):
            read_tensor_file(path)


def test_a_flipped_bit_is_found_or_harmless(small):
    value, whole, path = small
    rng = random.Random(0)
    refused = 0
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:
            given = read_tensor_file(path)
        except TensorFileError:
            refused += 1
        else:
            # The padding between records and their dates carry nothing.
            assert_same(given, value)
    assert refused > 700


def test_a_flipped_bit_in_the_numbers_is_found(small):
    _, whole, path = small
    numbers = struct.pack("<40f", *range(40))
    start = whole.index(numbers)
    for position in range(start, start + len(numbers)):
        damaged = bytearray(whole)
        damaged[position] ^= 0x10
        path.write_bytes(damaged)
        with pytest.raises(TensorFileError, match="CRC"):
            read_tensor_file(path)


def test_a_rewritten_description_is_refused_or_plain(tmp_path):
    model = torch.nn.Linear(2, 3)
    torch.save(model.state_dict(), tmp_path / "state.pt")
    with zipfile.ZipFile(tmp_path / "state.pt") as source:
        program = source.read("state/data.pkl")
    rng = random.Random(0)
    for _ in range(2000):
        damaged = bytearray(program)
        for _ in range(rng.choice([1, 1, 2, 8])):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        path = archive(tmp_path / "x.pt", bytes(damaged), data_0=bytes(24), data_1=bytes(12))
        with contextlib.suppress(TensorFileError):
            assert isinstance(read_tensor_file(path), (dict, list, tuple, str, int, float))


def published_keys():
    """The keys of the published weights in file order, with their shapes."""
    keys = {"fc0.weight": (20, 12), "fc0.bias": (20,)}
    layers = {"linear_in": (32, 2), "hidden.0": (32, 32), "hidden.1": (32, 32)}
    for block in range(4):
        for net in ("net_real", "net_imag", "net_out"):
            for layer, shape in {**layers, "linear_out": (400, 32)}.items():
                keys[f"conv{block}.{net}.{layer}.weight"] = shape
                keys[f"conv{block}.{net}.{layer}.bias"] = shape[:1]
    for block in range(4):
        keys |= {f"w{block}.weight": (20, 20, 1, 1), f"w{block}.bias": (20,)}
    keys |= {"fc1.weight": (128, 20), "fc1.bias": (128,), "fc2.weight": (1, 128), "fc2.bias": (1,)}
    return keys


@pytest.mark.skipif(not PUBLISHED.exists(), reason="the published weights are not on this machine")
def test_the_published_weights_are_read():
    weights = read_tensor_file(PUBLISHED)
    assert {key: tuple(tensor.shape) for key, tensor in weights.items()} == published_keys()
    assert list(weights) == list(published_keys())
    assert len(weights) == 110
    assert {tensor.dtype for tensor in weights.values()} == {torch.float32}
    assert sum(tensor.numel() for tensor in weights.values()) == 189_653
    assert all(tensor.isfinite().all() for tensor in weights.values())
