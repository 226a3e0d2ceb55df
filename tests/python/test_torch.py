# SPDX-License-Identifier: Apache-2.0
"""PyTorch checkpoints, as archives and as streams: what is in them comes out with the
same values, and what would do harm does nothing."""

import collections
import io
import json
import os
import struct
import zipfile

import hypothesis
import hypothesis.extra.numpy
import numpy as np
import pytest

import torch_file
from command import EXISTS, MEMORY, NOT_FOUND, UNSUPPORTED
from numpy_file import assert_same
from safetensors_file import pattern
from torch_file import BYTES, Called, Named, Storage, of, raw_tensor, view

WRITERS = torch_file.WRITERS.values()


def bytes_in(weig, path, name):
    return weig.ok("get", "--raw", path, name).out


# --- What is in them ------------------------------------------------------------------


@pytest.mark.parametrize("writer", WRITERS)
def test_empty_and_scalar_tensors(weig, converted, writer):
    """C01"""
    arrays = {
        "rows": np.zeros((0, 4), np.float32),
        "inside": np.zeros((2, 0, 3), np.float16),
        "scalar": np.array(1.5, np.float32),
        "count": np.array(-3, np.int64),
    }
    tensors, path, _ = converted(writer({n: of(a) for n, a in arrays.items()}))
    assert_same(weig, tensors, path, arrays)


@pytest.mark.parametrize("writer", WRITERS)
def test_no_tensors(converted, writer):
    """C02"""
    tensors, _, _ = converted(writer({}))
    assert tensors == {}


@pytest.mark.parametrize("writer", WRITERS)
def test_tied_weights_are_stored_once(weig, converted, writer):
    """C12"""
    array = np.arange(60, dtype=np.float32).reshape(6, 10)
    storage = torch_file.storage_of(array)
    views = {
        "embed.weight": array,
        "lm_head.weight": array,
        "half": array[:3],
        "transposed": array.T,
    }
    obj = {name: view(storage, a) for name, a in views.items()}
    tensors, path, _ = converted(writer(obj))
    assert_same(weig, tensors, path, views)
    aliases = {n: t["alias_of"] for n, t in tensors.items() if t["alias_of"]}
    assert aliases == {"lm_head.weight": "embed.weight"}


@pytest.mark.parametrize("writer", WRITERS)
def test_strides_and_offsets(weig, converted, writer):
    """C13, C14"""
    conv = np.arange(4 * 3 * 5 * 6, dtype=np.float32).reshape(4, 5, 6, 3)
    flat = np.arange(1000, dtype=np.int32)
    views = {
        "channels_last": (conv, conv.transpose(0, 3, 1, 2)),
        "every_second": (flat, flat[::2]),
        "permuted": (conv, conv[1:, 2:].transpose(3, 1, 0, 2)),
        "front": (flat, flat[0:10]),
        "middle": (flat, flat[10:40].reshape(5, 6)),
        "last": (flat, flat[999:]),
        "end": (flat, flat[1000:]),
    }
    storages = {id(b): torch_file.storage_of(b) for b in (conv, flat)}
    obj = {n: view(storages[id(base)], a) for n, (base, a) in views.items()}
    half = np.arange(12, dtype=np.uint16).reshape(3, 4)
    bf16 = Storage("bfloat16", half.tobytes())
    obj["bf16"] = torch_file.Tensor(bf16, (4, 3), (1, 4))
    obj["odd_stride_of_one"] = torch_file.Tensor(bf16, (1, 4), (99, 1))
    tensors, path, _ = converted(writer(obj))
    expected = {n: a for n, (_, a) in views.items()}
    expected |= {"bf16": half.T, "odd_stride_of_one": half[:1]}
    assert_same(weig, tensors, path, expected)


def test_small_view_of_a_large_storage(weig, converted):
    """C15"""
    large = np.arange(1 << 20, dtype=np.float32)
    obj = {"a": view(torch_file.storage_of(large), large[100:110])}
    tensors, path, run = converted(torch_file.archive(obj))
    assert_same(weig, tensors, path, {"a": large[100:110]})
    assert os.path.getsize(path) < 10_000
    assert "4194264 bytes of storages belong to no tensor" in run.err


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
@pytest.mark.parametrize("writer", WRITERS)
def test_dialects_of_pickle(weig, converted, writer, protocol):
    """C17"""
    arrays = {f"l.{i}.w": np.full((3, i + 1), i, np.float32) for i in range(300)}
    obj = collections.OrderedDict((n, of(a)) for n, a in arrays.items())
    obj["l.7.w"] = torch_file.parameter(obj["l.7.w"])
    rebuild = Named("torch._utils", "_rebuild_tensor")
    old = of(arrays["l.8.w"])
    obj["l.8.w"] = Called(rebuild, (old.storage, 0, old.shape, old.strides))
    obj["l.9.w"].more = ()
    obj._metadata = collections.OrderedDict([("", {"version": 1})])
    tensors, path, _ = converted(writer(obj, protocol))
    assert_same(weig, tensors, path, arrays)


@pytest.mark.parametrize("folder", ["archive", "model", "weights v2"])
def test_any_folder_name(weig, converted, folder):
    """C17"""
    array = np.arange(4, dtype=np.float32)
    tensors, path, _ = converted(torch_file.archive({"w": of(array)}, folder=folder))
    assert_same(weig, tensors, path, {"w": array})


@pytest.mark.parametrize("writer", WRITERS)
def test_every_type(weig, converted, writer):
    """C18"""
    names = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16"}
    names |= {f"{s}int{b}": f"{s or 'i'}{b}" for s in "u" for b in (8, 16, 32, 64)}
    names |= {f"int{b}": f"i{b}" for b in (8, 16, 32, 64)}
    obj = {t: raw_tensor(t, (2, 3), pattern(6 * w)) for t, w in BYTES.items()}
    tensors, path, _ = converted(writer(obj))
    assert sorted(tensors) == sorted(BYTES)
    for name, width in BYTES.items():
        expected = names.get(name, name.replace("float8", "f8"))
        assert tensors[name]["dtype"] == expected
        assert bytes_in(weig, path, name) == pattern(6 * width)


@pytest.mark.parametrize("writer", WRITERS)
def test_training_checkpoint(weig, converted, writer):
    """C19"""
    array = np.arange(4, dtype=np.float32)
    scalar = Named("numpy.core.multiarray", "scalar")
    obj = {
        "state_dict": {"layer.weight": of(array), "list": [of(array + 1), None]},
        "optimizer": {"state": {0: {"exp_avg": of(array + 2), "step": 7}}},
        "epoch": 3,
        "cfg": {"a": None},
        "qtype": "int8",
        "lr": Called(scalar, (Named("numpy", "dtype"), b"12345678")),
    }
    expected = {
        "state_dict.layer.weight": array,
        "state_dict.list.0": array + 1,
        "optimizer.state.0.exp_avg": array + 2,
    }
    tensors, path, _ = converted(writer(obj))
    assert_same(weig, tensors, path, expected)
    tensors, path, _ = converted(writer(obj), "--select", "state_dict")
    assert_same(weig, tensors, path, {"layer.weight": array, "list.0": array + 1})
    tensors, path, _ = converted(writer(obj), "--select", "optimizer.state")
    assert_same(weig, tensors, path, {"0.exp_avg": array + 2})


def test_part_that_is_not_there(refused_quickly):
    """C19"""
    raw = torch_file.archive({"state_dict": {"w": of(np.zeros(1))}, "epoch": 1})
    options = ["--select", "model"]
    refused_quickly(raw, NOT_FOUND, "'model'", "'state_dict'", options=options)


def test_big_endian_archive(weig, converted):
    """C21"""
    arrays = {
        f"{t}{n}": (np.arange(6) + 1).astype(t).reshape((6,) if n == 1 else (2, 3))
        for t in ("f2", "f4", "f8", "i2", "i8", "u1", "c8", "c16")
        for n in (1, 2)
    }
    obj = {}
    for name, array in arrays.items():
        obj[name] = of(array)
        obj[name].storage.data = array.astype(array.dtype.newbyteorder(">")).tobytes()
    square = np.arange(9, dtype=np.float32).reshape(3, 3)
    storage, base = torch_file.storage_of(square)
    storage.data = square.astype(">f4").tobytes()
    obj["t"] = view((storage, base), square.T)
    tensors, path, _ = converted(torch_file.archive(obj, byteorder="big"))
    assert_same(weig, tensors, path, arrays | {"t": square.T})


def test_deflated_archive(weig, converted):
    """Packed anew by somebody: the same tensors, also strided ones."""
    array = np.arange(3000, dtype=np.float32).reshape(30, 100)
    storage = torch_file.storage_of(array)
    obj = {"w": view(storage, array), "t": view(storage, array.T), "z": of(array * 0)}
    raw = torch_file.archive(obj, packing=zipfile.ZIP_DEFLATED)
    tensors, path, _ = converted(raw)
    assert_same(weig, tensors, path, {"w": array, "t": array.T, "z": array * 0})


def test_archive_without_checksums(weig, converted):
    """As PyTorch writes it with set_crc32_options(False)."""
    raw = bytearray(torch_file.archive({"w": of(np.arange(3, dtype=np.int16))}))
    with zipfile.ZipFile(io.BytesIO(raw)) as file:
        for info in file.infolist():
            struct.pack_into("<I", raw, info.header_offset + 14, 0)
    at = raw.find(b"PK\1\2")
    while at >= 0:
        struct.pack_into("<I", raw, at + 16, 0)
        at = raw.find(b"PK\1\2", at + 1)
    tensors, path, run = converted(bytes(raw))
    assert_same(weig, tensors, path, {"w": np.arange(3, dtype=np.int16)})
    assert "without checksums" in run.err


def test_damage_of_a_storage_is_noticed(weig, tmp_path):
    array = np.arange(1000, dtype=np.float32)
    raw = bytearray(torch_file.archive({"w": of(array)}))
    raw[raw.index(array.tobytes()) + 77] ^= 1
    (tmp_path / "a.pt").write_bytes(raw)
    run = weig("convert", tmp_path / "a.pt")
    assert run.status == 4 and "checksum" in run.err and "tensor 'w'" in run.err
    assert not (tmp_path / "a.weig").exists()


def test_tensors_of_torchscript(weig, converted):
    array = np.arange(4, dtype=np.float32)
    inner = Called(
        Named("__torch__.m", "Linear"), (), {"weight": of(array), "training": False}
    )
    inner.opcode = "NEWOBJ"
    outer = Called(Named("__torch__", "Net"), (), {"fc": inner}, "NEWOBJ")
    raw = torch_file.archive(
        outer, constants=(of(array + 1),), records={"code/__torch__.py": "class Net: ..."}
    )
    tensors, path, _ = converted(raw)
    assert_same(weig, tensors, path, {"fc.weight": array, "CONSTANTS.0": array + 1})


@pytest.mark.parametrize("writer", [torch_file.archive_of, torch_file.stream_of])
def test_time_is_linear_in_the_number_of_tensors(weig, tmp_path, writer):
    seconds = {}
    for count in (10_000, 100_000):
        source = tmp_path / f"{count}.pt"
        source.write_bytes(torch_file.many(count, writer))
        run = weig.measured("convert", source, "-o", tmp_path / f"{count}.weig")
        assert run.status == 0, run.err
        seconds[count] = run.cpu_seconds
    assert seconds[100_000] < 15 * max(seconds[10_000], 0.05)
    assert run.peak_bytes < MEMORY
    raw = bytes_in(weig, tmp_path / "100000.weig", "model.layers.77777.weight")
    assert raw == struct.pack("<f", 77777)


@pytest.mark.parametrize("writer", WRITERS)
def test_any_array_and_any_view(weig, converted, writer):
    types = hypothesis.strategies.sampled_from(sorted(torch_file.STORAGES)[1:])
    arrays = hypothesis.extra.numpy.arrays(
        types, hypothesis.extra.numpy.array_shapes(min_dims=0, max_dims=4, min_side=0)
    )

    @hypothesis.settings(max_examples=25)
    @hypothesis.given(arrays, hypothesis.strategies.data())
    def check(array, data):
        order = data.draw(hypothesis.strategies.permutations(range(array.ndim)))
        turned = array.transpose(order)
        for axis in range(turned.ndim):
            step = data.draw(hypothesis.strategies.integers(1, 2))
            turned = turned[(slice(None),) * axis + (slice(None, None, step),)]
        obj = {"w": view(torch_file.storage_of(array), turned)}
        tensors, path, _ = converted(writer(obj))
        assert_same(weig, tensors, path, {"w": turned})

    check()


# --- Out again ------------------------------------------------------------------------


def test_export_and_back(weig, converted, tmp_path):
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    storage = torch_file.storage_of(array)
    obj = {t: raw_tensor(t, (2, 3), pattern(6 * w)) for t, w in BYTES.items()}
    obj |= {"a": view(storage, array), "b": view(storage, array)}
    obj |= {"empty": of(np.zeros((0, 3))), "scalar": of(np.array(1.5))}
    tensors, path, _ = converted(torch_file.archive(obj))
    for name in ("out.pt", "out.pth"):
        weig.ok("export", path, tmp_path / name)
        with zipfile.ZipFile(tmp_path / name) as file:
            assert file.testzip() is None
            for info in file.infolist():
                header = (tmp_path / name).read_bytes()[info.header_offset :]
                name_bytes, extra_bytes = struct.unpack_from("<HH", header, 26)
                begin = info.header_offset + 30 + name_bytes + extra_bytes
                assert begin % 64 == 0
            stored = [n for n in file.namelist() if n.startswith("archive/data/")]
            assert len(stored) == len(tensors) - 1  # a and b have one
        weig.ok("convert", tmp_path / name, "-o", tmp_path / "back.weig", "--force")
        assert (tmp_path / "back.weig").read_bytes() == path.read_bytes()
    run = weig("export", path, tmp_path / "out.pt")
    assert run.status == EXISTS
    weig.ok("export", "--to", "torch", path, tmp_path / "any.name")
    assert (tmp_path / "any.name").read_bytes() == (tmp_path / "out.pt").read_bytes()


def test_export_of_what_pytorch_lacks(weig, refused, tmp_path):
    import safetensors_file

    raw = safetensors_file.by_hand({"w": ("F4", (2, 2), b"12")})
    (tmp_path / "a.safetensors").write_bytes(raw)
    weig.ok("convert", tmp_path / "a.safetensors")
    call = ["export", tmp_path / "a.weig", tmp_path / "out.pt"]
    refused(call, UNSUPPORTED, tmp_path / "a.weig", "f4_e2m1", tensor="w", kept=tmp_path)


def test_metadata_is_left_out_with_a_word(weig, tmp_path):
    import safetensors_file

    raw = safetensors_file.by_hand({"w": ("F32", (1,), b"1234")}, {"k": "v"})
    (tmp_path / "a.safetensors").write_bytes(raw)
    weig.ok("convert", tmp_path / "a.safetensors")
    run = weig.ok("export", tmp_path / "a.weig", tmp_path / "out.pt")
    assert "metadata of 1 key" in run.err
    run = weig.ok("export", tmp_path / "a.weig", tmp_path / "b.pt", "--json")
    assert json.loads(run.out)["tensors"] == 1
