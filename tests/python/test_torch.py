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
from command import CORRUPT, EXISTS, LIMIT, NOT_FOUND, UNSUPPORTED
from safetensors_file import pattern
from torch_file import BYTES, Called, Named, Persistent, Storage, of, raw_tensor, view

WRITERS = torch_file.WRITERS.values()
SECOND, MEMORY = 1.0, 256 << 20


@pytest.fixture
def converted(weig, tmp_path):
    """Converts what a file holds; gives {name: what ls says}, the path of the WEIG
    file and the run."""

    def run(raw, *options):
        source, target = tmp_path / "in.pt", tmp_path / "in.weig"
        source.write_bytes(raw)
        run = weig.ok("convert", source, "-o", target, "--force", *options)
        assert "sound" in weig.ok("verify", target).text
        tensors = weig.ok("ls", "--json", target).json()["tensors"]
        return {t["name"]: t for t in tensors}, target, run

    return run


@pytest.fixture
def refused_torch(weig, refused, tmp_path):
    """A checkpoint that is not converted: quickly, in little memory, and nothing is
    left behind."""

    def run(raw, status, *words, options=(), **more):
        source = tmp_path / "bad.pt"
        source.write_bytes(raw)
        call = ["convert", source, *options, "-o", tmp_path / "out.weig"]
        refused(call, status, source, *words, kept=tmp_path, **more)
        run = weig.measured(*call)
        assert run.status == status
        assert run.seconds < SECOND and run.peak_bytes < MEMORY
        return run.err

    return run


def bytes_in(weig, path, name):
    return weig.ok("get", "--raw", path, name).out


def assert_same(weig, tensors, path, arrays):
    """All of {name: array}, and nothing else."""
    assert sorted(tensors) == sorted(arrays)
    for name, array in arrays.items():
        assert tensors[name]["shape"] == list(array.shape), name
        assert bytes_in(weig, path, name) == array.tobytes(), name


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


def test_part_that_is_not_there(refused_torch):
    """C19"""
    raw = torch_file.archive({"state_dict": {"w": of(np.zeros(1))}, "epoch": 1})
    options = ["--select", "model"]
    refused_torch(raw, NOT_FOUND, "'model'", "'state_dict'", options=options)


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


# --- What is refused ------------------------------------------------------------------


def calls(marker):
    """Every way in which a pickle makes Python call something: what each would run, if
    anybody ran it, leaves a file behind."""
    command = f"touch {marker}"
    text = b"X" + struct.pack("<I", len(command)) + command.encode()
    short = b"\x8c" + bytes([len(command)]) + command.encode()
    system = b"cos\nsystem\n"
    posix = b"\x8c\5posix\x8c\6system\x93"
    evil = f"open({str(marker)!r}, 'w')"
    python = b"X" + struct.pack("<I", len(evil)) + evil.encode()
    return {
        "GLOBAL": b"\x80\2" + system + text + b"\x85R.",
        "STACK_GLOBAL": b"\x80\4" + posix + short + b"\x85R.",
        "INST": b"(" + text + b"ios\nsystem\n.",
        "OBJ": b"(" + system + text + b"o.",
        "NEWOBJ": b"\x80\2" + system + text + b"\x85\x81.",
        "NEWOBJ_EX": b"\x80\4" + posix + short + b"\x85}\x92.",
        "BUILD": b"\x80\2csubprocess\nPopen\n)\x81}X\1\0\0\0a" + text + b"sb.",
        "setstate": b"\x80\2cfunctools\npartial\n" + system + b"\x85R(" + system
        + text + b"\x85}NtbN\x85R.",
        "eval": b"\x80\2cbuiltins\neval\n" + python + b"\x85R.",
        "eval of Python 2": b"\x80\2c__builtin__\neval\n" + python + b"\x85R.",
        "exec": b"\x80\2cbuiltins\nexec\n" + python + b"\x85R.",
        "torch.load": b"\x80\2ctorch.serialization\nload\n" + text + b"\x85R.",
        "torch.hub.load": b"\x80\2ctorch.hub\nload\n" + text + b"\x85R.",
        "load_from_bytes": b"\x80\2ctorch.storage\n_load_from_bytes\n" + text
        + b"\x85R.",
        "nested pickle": b"\x80\2c_pickle\nloads\n" + text + b"\x85R.",
        "EXT1": b"\x80\2\x82\1" + text + b"\x85R.",
        "EXT2": b"\x80\2\x83\1\1" + text + b"\x85R.",
        "EXT4": b"\x80\2\x84\1\1\1\1" + text + b"\x85R.",
        "PERSID": b"P" + command.encode() + b"\n.",
        "BINPERSID of a call": b"\x80\2" + system + text + b"\x85RQ.",
        "dropped": b"\x80\2" + system + text + b"\x85R0}.",
        "below another name": b"\x80\4\x8c\x02os\x8c\x0bpath.system\x93" + short
        + b"\x85R.",
    }  # fmt: skip


@pytest.mark.parametrize("kind", calls("m"))
@pytest.mark.parametrize("writer", [torch_file.archive_of, torch_file.stream_of])
def test_nothing_is_ever_called(refused_torch, tmp_path, kind, writer):
    """C46"""
    marker = tmp_path / "MARK"
    raw = writer(calls(marker)[kind], [])
    refused_torch(raw, UNSUPPORTED)
    assert not marker.exists()


@pytest.mark.parametrize("kind", calls("m"))
def test_nothing_beside_tensors_is_ever_called(weig, tmp_path, kind):
    """C46: in a dict that holds a good tensor too. It is refused, or converted without
    what was called."""
    marker = tmp_path / "MARK"
    raw, storages = torch_file.pickled({"w": of(np.arange(2, dtype=np.float32))})
    payload = calls(marker)[kind].removeprefix(b"\x80\2").removeprefix(b"\x80\4")[:-1]
    both = raw[:-1] + b"X\1\0\0\0e" + payload + b"s."
    for name, writer in (("a", torch_file.archive_of), ("s", torch_file.stream_of)):
        storages[0].key = "0"
        source = tmp_path / f"{name}.pt"
        source.write_bytes(writer(both, storages))
        run = weig.measured("convert", source)
        assert run.status in (0, UNSUPPORTED), run.err
        assert run.seconds < SECOND and run.peak_bytes < MEMORY
        if run.status == 0:
            assert kind.startswith(("EXT", "PERSID"))
        else:
            assert "nothing was run" in run.err
        assert not marker.exists()


def test_second_pickle_is_not_looked_at(weig, converted, tmp_path):
    """C46"""
    marker = tmp_path / "MARK"
    array = np.arange(3, dtype=np.float32)
    raw, storages = torch_file.pickled({"w": of(array)})
    evil = calls(marker)["GLOBAL"]
    for pickle_bytes, records in ((raw, {"extra/evil.pkl": evil}), (raw + evil, {})):
        made = torch_file.archive_of(pickle_bytes, storages, records=records)
        tensors, path, _ = converted(made)
        assert_same(weig, tensors, path, {"w": array})
        assert not marker.exists()


BOMBS = {
    "doubled lists": b"\x80\2]" + b"q\1" + b"0](h\1h\1eq\1" * 60 + b".",
    "deep lists": b"\x80\2" + b"]" * 100_000 + b"N" + b"a" * 100_000 + b".",
    "deep tuples": b"\x80\2N" + b"\x85" * 100_000 + b".",
    "many marks": b"\x80\2" + b"(" * 30_000_000 + b"N.",
    "many lists": b"\x80\2" + b"]" * 30_000_000 + b".",
    "one far memo": b"\x80\2Nr\xff\xff\xff\xff.",
    "a long text": b"\x80\4\x8d" + struct.pack("<Q", 1 << 62) + b"x.",
    "a long number": b"\x80\2\x8b\xff\xff\xff\x7f.",
    "a long frame": b"\x80\4\x95" + struct.pack("<Q", (1 << 64) - 1) + b"N.",
    "itself": b"\x80\2]q\1h\1a.",
}


@pytest.mark.parametrize("kind", BOMBS)
@pytest.mark.parametrize("writer", [torch_file.archive_of, torch_file.stream_of])
def test_pickles_that_grow(weig, tmp_path, kind, writer):
    """C46: what is small stays small. A list in itself holds no tensors, which is no
    crime."""
    (tmp_path / "a.pt").write_bytes(writer(BOMBS[kind], []))
    run = weig.measured("convert", tmp_path / "a.pt")
    assert run.status in ((0,) if kind == "itself" else (CORRUPT, LIMIT)), run.err
    assert run.seconds < SECOND and run.peak_bytes < MEMORY


def test_expansion_has_a_limit(weig, converted, refused_torch):
    """C52"""
    three = np.arange(3, dtype=np.float32)
    storage = torch_file.storage_of(three)
    small = {"w": torch_file.Tensor(storage[0], (4, 3), (0, 1))}
    tensors, path, _ = converted(torch_file.archive(small))
    assert_same(weig, tensors, path, {"w": np.tile(three, (4, 1))})
    huge = torch_file.Tensor(storage[0], (1 << 20, 1 << 20), (0, 0))
    words = ("--max-expansion", "4398046511104 bytes")
    refused_torch(torch_file.archive({"w": huge}), LIMIT, *words, tensor="w")
    large = torch_file.archive({"w": torch_file.Tensor(storage[0], (1 << 18,), (0,))})
    refused_torch(large, LIMIT, "--max-expansion", tensor="w")
    tensors, path, _ = converted(large, "--max-expansion", "1000000")
    assert_same(weig, tensors, path, {"w": np.zeros(1 << 18, np.float32)})


def test_sizes_that_disagree(refused_torch):
    """C39"""
    array = np.arange(10, dtype=np.float32)
    raw, storages = torch_file.pickled({"w": of(array)})
    for data in (array.tobytes()[:-1], array.tobytes() + b"four", b""):
        storages[0].data = data
        refused_torch(torch_file.archive_of(raw, storages), CORRUPT, "another size")
    wide = torch_file.Tensor(Storage("float32", bytes(16)), (2, 2), (3, 1))
    for writer in WRITERS:
        refused_torch(writer({"w": wide}), CORRUPT, "beyond its storage", tensor="w")
        many = torch_file.Tensor(Storage("uint8", b"x"), (1,) * 65, (1,) * 65)
        refused_torch(writer({"w": many}), CORRUPT, "at most 64", tensor="w")


def test_other_kinds_of_tensors_are_named(refused_torch):
    quantized = Called(Named("torch._utils", "_rebuild_qtensor"), (1,))
    words = ("_rebuild_qtensor",)
    refused_torch(torch_file.archive({"a": quantized}), UNSUPPORTED, *words, tensor="a")
    odd = torch_file.Tensor(Persistent(7), (1,), (1,))
    odd.storage.untyped = False
    refused_torch(torch_file.archive({"a": odd}), CORRUPT, "no tuple", tensor="a")


def test_names_that_meet(refused_torch):
    """C55"""
    one = of(np.zeros(1))
    for writer in WRITERS:
        raw = writer({"a.b": one, "a": {"b": of(np.ones(1))}})
        refused_torch(raw, CORRUPT, "same name", tensor="a.b")


@pytest.mark.parametrize("writer", WRITERS)
def test_cut_file(weig, tmp_path, writer):
    """C36"""
    raw = writer({"w": of(np.arange(2000, dtype=np.float32))})
    source = tmp_path / "a.pt"
    sizes = {*range(1, 65), *range(64, len(raw) - 1, 97), len(raw) - 1, len(raw) - 4096}
    for size in sorted(sizes):
        source.write_bytes(raw[:size])
        run = weig("convert", source)
        assert run.status == CORRUPT, (size, run.err)
        assert not (tmp_path / "a.weig").exists()


def test_files_in_one(weig, refused_torch):
    """C90"""
    raw = torch_file.stream({"w": of(np.zeros(3))})
    refused_torch(raw + raw, CORRUPT, "after the last storage", "--lenient")
    raw = torch_file.archive({"w": of(np.zeros(3))})
    refused_torch(raw + raw, CORRUPT)
    refused_torch(b"x" * 10 + raw, CORRUPT)


def test_pickle_that_is_no_checkpoint(refused, tmp_path):
    import pickle

    path = tmp_path / "a.pkl"
    for protocol in (2, 3, 4, 5):
        path.write_bytes(pickle.dumps({"a": [1, 2.5, "x"] * 10}, protocol))
        refused.everywhere(path, CORRUPT, "a pickle of Python")


@pytest.mark.parametrize("writer", WRITERS)
def test_other_commands_say_to_convert_it_first(refused, tmp_path, writer):
    path = tmp_path / "a.pt"
    path.write_bytes(writer({"w": of(np.zeros(3))}))
    for command in ("info", "ls", "verify"):
        refused([command, path], UNSUPPORTED, path, f"weig convert {path}")


# --- The zip archive ------------------------------------------------------------------


def bombs():
    zeros = bytes(64 << 20)
    raw, storages = torch_file.pickled({"w": of(np.zeros(4, np.float32))})
    deflated = {"packing": zipfile.ZIP_DEFLATED}
    storages[0].data = zeros
    yield "more than the shape", torch_file.archive_of(raw, storages, **deflated), CORRUPT
    storages[0].data = bytes(16)
    large = torch_file.archive_of(zeros * 2, storages, **deflated)
    yield "a pickle of zeros", large, LIMIT
    lies = torch_file.archive_of(raw, storages, **deflated).replace(
        struct.pack("<I", 16), struct.pack("<I", 1 << 30)
    )
    yield "a size that lies", lies, CORRUPT
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        for i in range(200_000):
            file.writestr(f"a/{i}", b"")
    yield "200,000 members", out.getvalue(), CORRUPT


@pytest.mark.parametrize("kind", range(4))
def test_zip_bombs(refused_torch, kind):
    """C49"""
    _, raw, status = list(bombs())[kind]
    refused_torch(raw, status)


def test_honest_zeros_pass(weig, converted):
    """C49"""
    for size in (64 << 10, 8 << 20):
        raw = torch_file.archive(
            {"w": of(np.zeros(size, np.uint8))}, packing=zipfile.ZIP_DEFLATED
        )
        tensors, path, _ = converted(raw)
        assert_same(weig, tensors, path, {"w": np.zeros(size, np.uint8)})


def changed(raw, name, entry_offset=None, local_offset=None, value=b"\1"):
    """An archive with bytes of a member's two headers changed."""
    raw, name = bytearray(raw), f"archive/{name}"
    with zipfile.ZipFile(io.BytesIO(bytes(raw))) as file:
        local = file.getinfo(name).header_offset
    entry = raw.rindex(name.encode()) - 46
    if local_offset is not None:
        raw[local + local_offset : local + local_offset + len(value)] = value
    if entry_offset is not None:
        raw[entry + entry_offset : entry + entry_offset + len(value)] = value
    return bytes(raw)


BROKEN = {
    "encrypted": ({"entry_offset": 8, "local_offset": 6}, UNSUPPORTED, "encrypted"),
    "another method": ({"entry_offset": 10, "local_offset": 8, "value": b"\x0c"},
                       UNSUPPORTED, "not read: 12"),
    "local method": ({"local_offset": 8, "value": b"\x08"}, CORRUPT, "the method"),
    "local name": ({"local_offset": 30, "value": b"A"}, CORRUPT, "the name"),
    "local checksum": ({"local_offset": 14}, CORRUPT, "the checksum"),
    "local size": ({"local_offset": 22}, CORRUPT, "the size"),
    "local mark": ({"name": "data/0", "local_offset": 0}, CORRUPT, "the mark"),
    "two sizes": ({"entry_offset": 24}, CORRUPT, "two sizes"),
    "other disk": ({"entry_offset": 34}, UNSUPPORTED, "several parts"),
    "place": ({"name": "data/0", "entry_offset": 42, "value": bytes(4)}, CORRUPT,
              "overlap"),
    "place far behind": ({"name": "data/0", "entry_offset": 44}, CORRUPT, "no member"),
    "checksum": ({"entry_offset": 16, "local_offset": 14, "value": b"abcd"}, CORRUPT,
                 "another checksum"),
    "name with NUL": ({"entry_offset": 46, "local_offset": 30, "value": b"\0"}, CORRUPT,
                      "NUL"),
    "entry mark": ({"entry_offset": 0}, CORRUPT, "directory is damaged"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_archives(refused_torch, kind):
    """C49, C31"""
    where, status, words = BROKEN[kind]
    where = {"name": "data.pkl"} | where
    raw = torch_file.archive({"w": of(np.arange(4, dtype=np.float32))})
    refused_torch(changed(raw, **where), status, words)


def test_member_twice(refused_torch):
    """C55"""
    raw = torch_file.archive({"w": of(np.zeros(4))}, records={"data/x": b"12345678"})
    refused_torch(raw.replace(b"data/x", b"data/0"), CORRUPT, "same name")


def test_bytes_of_no_member(refused_torch):
    raw = torch_file.archive({"w": of(np.zeros(4))})
    at = raw.index(b"PK\1\2")
    end = bytearray(raw[-22:])
    struct.pack_into("<I", end, 16, at + 4)
    refused_torch(raw[:at] + b"four" + raw[at:-22] + end, CORRUPT, "no member")


def test_forced_zip64_and_streamed_members(weig, converted):
    """C31"""
    array = np.arange(100, dtype=np.float32)
    raw, storages = torch_file.pickled({"w": of(array)})

    class Unseekable(io.RawIOBase):
        def __init__(self):
            self.bytes = bytearray()

        def writable(self):
            return True

        def write(self, data):
            self.bytes += bytes(data)
            return len(data)

    for zip64 in (False, True):
        for sink in (io.BytesIO(), Unseekable()):
            with zipfile.ZipFile(sink, "w") as file:
                for name, data in (("data.pkl", raw), ("data/0", storages[0].data)):
                    info = zipfile.ZipInfo(f"archive/{name}")
                    with file.open(info, "w", force_zip64=zip64) as member:
                        member.write(data)
            made = sink.getvalue() if isinstance(sink, io.BytesIO) else bytes(sink.bytes)
            tensors, path, _ = converted(made)
            assert_same(weig, tensors, path, {"w": array})


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
