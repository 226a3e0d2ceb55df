# SPDX-License-Identifier: Apache-2.0
"""convert --quantize and --cast: which tensors, which bytes, and what the file says."""

import math
import os
import struct

import numpy as np
import pytest

import weig_file
import weig_writer
from command import CHECKSUM, INVALID_ARGUMENT, UNSUPPORTED, USAGE
from quantization import TYPES, expected_cast, expected_quantization, unpack
from safetensors_file import assemble, by_hand, entry, f32

RNG = np.random.default_rng(5)


def normal(shape, dtype):
    return (RNG.normal(size=shape) * 0.02).astype(TYPES[dtype])


TENSORS = {
    "embed.weight": normal((50, 96), "bf16"),
    "layers.0.norm.weight": normal((96,), "f32"),
    "layers.0.mlp.weight": normal((33, 7, 5), "f32"),
    "layers.0.out.weight": normal((64, 100), "f16"),
    "layers.0.steps": np.arange(12, dtype=np.int64).reshape(3, 4),
    "layers.0.empty": np.zeros((0, 4), np.float32),
}
MATRICES = ("embed.weight", "layers.0.mlp.weight", "layers.0.out.weight")
NAMES = {"f32": "F32", "f16": "F16", "bf16": "BF16", "f8_e4m3fn": "F8_E4M3"}


def stored_name(dtype):
    for name, known in TYPES.items():
        if known == dtype:
            return NAMES[name]
    return {np.dtype(np.int64): "I64", np.dtype(np.int8): "I8"}[dtype]


@pytest.fixture
def source(tmp_path):
    return write(tmp_path / "model.safetensors", TENSORS)


def write(path, tensors):
    entries = {
        name: (stored_name(values.dtype), values.shape, values.tobytes())
        for name, values in tensors.items()
    }
    path.write_bytes(by_hand(entries, {"format": "pt"}))
    return path


def converted(weig, source, *options):
    target = source.with_name("out.weig")
    run = weig.ok("convert", source, "-o", target, "--force", "--json", *options)
    weig.ok("verify", target)
    return weig_file.read(target), run.json(), target


def entries(file):
    """The quantization section: {tensor's name: fields}."""
    section = file.sections.get(weig_file.QUANTIZATION)
    if section is None:
        return {}
    count = struct.unpack_from("<I", section, 0)[0]
    rows = [struct.unpack_from("<8I", section, 8 + 32 * i) for i in range(count)]
    return {file.tensors[row[0]].name.decode(): row for row in rows}


def assert_kept(file, name):
    assert file[name].data == TENSORS[name].tobytes()


def assert_quantized(file, name, values, to, scheme, axis, block):
    q, scale, zero, _ = expected_quantization(values, to, scheme, axis, block)
    codes = file[name]
    assert weig_file.DTYPES[codes.dtype][0] == to
    assert codes.shape == values.shape
    np.testing.assert_array_equal(unpack(codes.data, to, values.size), q.ravel())
    assert file[name + ".scale"].data == scale.tobytes()
    rows = entries(file)[name]
    ordinals = {t.name.decode(): i for i, t in enumerate(file.tensors)}
    none = weig_file.NONE
    zero_name = name + ".zero_point"
    assert rows[1:] == (1, none if axis is None else axis, block,
                        ordinals[name + ".scale"],
                        ordinals.get(zero_name, none), none, 0)  # fmt: skip
    if scheme == "asymmetric":
        np.testing.assert_array_equal(unpack(file[zero_name].data, to, zero.size), zero)
    else:
        assert zero_name not in ordinals


def test_matrices_are_quantized_by_row(weig, source):
    file, report, target = converted(weig, source, "--quantize", "int8")
    assert (report["quantized"], report["cast"]) == (3, 0)
    assert not report["exact_source"]
    for name in MATRICES:
        assert_quantized(file, name, TENSORS[name], "i8", "symmetric", 0, 0)
        assert file[name + ".scale"].shape == (TENSORS[name].shape[0],)
    for name in TENSORS.keys() - set(MATRICES):
        assert_kept(file, name)
    assert set(entries(file)) == set(MATRICES)
    assert weig.ok("info", target, "--json").json()["quantized_tensors"] == 3
    assert b'"format":"pt"' in file.sections[weig_file.METADATA]


@pytest.mark.parametrize(
    ("options", "to", "scheme", "block"),
    [(["int4"], "i4", "symmetric", 32),
     (["int4", "--block", "7"], "i4", "symmetric", 7),
     (["int8", "--block", "128"], "i8", "symmetric", 128),
     (["int8", "--asymmetric"], "u8", "asymmetric", 0),
     (["int4", "--asymmetric"], "u4", "asymmetric", 32)],
)  # fmt: skip
def test_kinds_of_quantization(weig, source, options, to, scheme, block):
    file, _, _ = converted(weig, source, "--quantize", *options)
    for name in MATRICES:
        values = TENSORS[name]
        axis = values.ndim - 1 if block else 0
        assert_quantized(file, name, values, to, scheme, axis, block)


def test_patterns_choose(weig, source):
    file, report, _ = converted(
        weig, source, "--quantize", "int8", "--include", "layers.*", "--include", "x",
        "--exclude", "*.out.*",
    )  # fmt: skip
    assert set(entries(file)) == {"layers.0.mlp.weight", "layers.0.norm.weight"}
    assert report["quantized"] == 2
    assert_kept(file, "embed.weight")
    assert_kept(file, "layers.0.out.weight")


def test_patterns_that_match_nothing_are_told(weig, source):
    _, report, _ = converted(weig, source, "--cast", "f16", "--include", "nothing")
    assert report["warnings"] == [
        "'nothing' matches no tensor that can be changed",
        "no tensor was changed",
    ]
    assert report["exact_source"]


def test_vectors_have_one_scale(weig, tmp_path):
    values = normal((300,), "f32")
    source = write(tmp_path / "model.safetensors", {"v": values})
    file, _, _ = converted(weig, source, "--quantize", "int8", "--include", "v")
    assert_quantized(file, "v", values, "i8", "symmetric", None, 0)
    file, _, _ = converted(weig, source, "--quantize", "int4", "--include", "v")
    assert_quantized(file, "v", values, "i4", "symmetric", 0, 32)


@pytest.mark.parametrize("to", TYPES)
def test_all_floating_tensors_are_cast(weig, source, to):
    file, report, _ = converted(weig, source, "--cast", to)
    changed = 0
    for name, values in TENSORS.items():
        if values.dtype == np.int64 or values.dtype == TYPES[to] or values.size == 0:
            assert_kept(file, name)
            continue
        changed += 1
        assert weig_file.DTYPES[file[name].dtype][0] == to
        assert file[name].data == expected_cast(values, to).tobytes()
    assert report["cast"] == changed


def test_pieces_of_a_tensor_with_long_rows(weig, tmp_path):
    # A scale for more elements than a piece has: two passes.
    values = normal((3, 1_300_001), "bf16")
    source = write(tmp_path / "model.safetensors", {"w": values})
    file, _, _ = converted(weig, source, "--quantize", "int8")
    assert_quantized(file, "w", values, "i8", "symmetric", 0, 0)


@pytest.mark.parametrize("options", [["--quantize", "int8"], ["--cast", "f8_e4m3fn"]])
def test_large_tensors_take_no_memory(weig, tmp_path, options):
    target = tmp_path / "out.weig"
    peaks = []
    for columns in (1_000, 24_000_000):
        shape = (3, columns)
        size = 6 * columns
        header = {"w": entry("BF16", shape, 0, size)}
        source = tmp_path / f"{columns}.safetensors"
        source.write_bytes(assemble(header))
        os.truncate(source, source.stat().st_size + size)
        run = weig.measured("convert", source, "--force", *options, "-o", target)
        assert run.status == 0, run.err
        peaks.append(run.peak_bytes)
    assert peaks[1] - peaks[0] < 48 << 20  # of 144 MB


def test_a_quantized_file_is_converted_again_as_it_is(weig, source, tmp_path):
    file, _, target = converted(weig, source, "--quantize", "int8")
    again = tmp_path / "again.weig"
    weig.ok("convert", target, "-o", again, "--cast", "bf16")
    other = weig_file.read(again)
    for name in MATRICES:
        assert other[name].data == file[name].data
        assert other[name + ".scale"].data == file[name + ".scale"].data
    assert entries(other) == entries(file)
    assert weig_file.DTYPES[other["layers.0.norm.weight"].dtype][0] == "bf16"


def restored(values, options, to):
    """What comes back of values that were quantized so."""
    scheme, block = ("asymmetric" if "--asymmetric" in options else "symmetric"), 0
    kind = {"int8": "8", "int4": "4"}[options[0]]
    if kind == "4":
        block = 32
    name = ("u" if scheme == "asymmetric" else "i") + kind
    axis = values.ndim - 1 if block else 0
    back = expected_quantization(values, name, scheme, axis, block)[3]
    return back.astype(np.float32) if to == "f32" else expected_cast(back, to)


@pytest.mark.parametrize("options", [["int8"], ["int4"], ["int8", "--asymmetric"],
                                     ["int4", "--asymmetric"]])  # fmt: skip
@pytest.mark.parametrize("to", ["f32", "bf16", "f16"])
def test_quantized_tensors_are_turned_back(weig, source, tmp_path, options, to):
    _, _, target = converted(weig, source, "--quantize", *options)
    back = tmp_path / "back.weig"
    report = weig.ok("convert", target, "-o", back, "--dequantize", to, "--json").json()
    assert report["dequantized"] == 3
    weig.ok("verify", back)
    file = weig_file.read(back)
    assert {t.name.decode() for t in file.tensors} == set(TENSORS)
    assert entries(file) == {}
    for name in MATRICES:
        assert weig_file.DTYPES[file[name].dtype][0] == to
        assert file[name].shape == TENSORS[name].shape
        expected = restored(TENSORS[name], options, to)
        assert file[name].data == expected.tobytes(), name
    for name in TENSORS.keys() - set(MATRICES):
        assert_kept(file, name)


def test_some_are_turned_back(weig, source, tmp_path):
    file, _, target = converted(weig, source, "--quantize", "int8")
    back = tmp_path / "back.weig"
    weig.ok("convert", target, "-o", back, "--dequantize", "f32", "--exclude", "embed*")
    other = weig_file.read(back)
    assert set(entries(other)) == {"embed.weight"}
    assert other["embed.weight"].data == file["embed.weight"].data
    assert other["embed.weight.scale"].data == file["embed.weight.scale"].data
    names = {t.name.decode() for t in other.tensors}
    assert names == set(TENSORS) | {"embed.weight.scale"}


def test_large_tensors_and_sets_are_turned_back(weig, tmp_path):
    values = {"a.0.w": normal((3, 1_300_001), "bf16"), "a.1.w": normal((700, 900), "f32")}
    source = write(tmp_path / "model.safetensors", values)
    for options in (["int4", "--block", "7"], ["int8"]):
        _, _, whole = converted(weig, source, "--quantize", *options)
        weig.ok("convert", whole, "-o", tmp_path / "set.weig", "--shard-size", "1MB",
                "--force")  # fmt: skip
        member = tmp_path / "set-00001-of-00002.weig"
        results = []
        for each in (whole, member):
            back = tmp_path / "back.weig"
            weig.ok("convert", each, "-o", back, "--dequantize", "f32", "--force")
            results.append(weig_file.read(back))
        for name, value in values.items():
            block = 7 if "7" in options else 0
            axis = 1 if block else 0
            kind = "i4" if block else "i8"
            expected = expected_quantization(value, kind, "symmetric", axis, block)[3]
            for result in results:
                assert result[name].data == expected.astype(np.float32).tobytes()


def test_a_model_that_is_not_quantized_stays_as_it_is(weig, source):
    _, report, _ = converted(weig, source, "--dequantize", "f32")
    assert report["warnings"] == ["no tensor was changed"]
    assert report["exact_source"]


NONE = weig_file.NONE
CODES = {"w": ("i8", (4, 6)), "w.scale": ("f32", (4,)), "w.zero_point": ("i8", (4,))}


def odd_file(path, shapes, *rows):
    """A sealed file of zeros with these tensors and quantization entries."""
    tensors = []
    for name, (dtype, shape) in shapes.items():
        code = weig_file.CODES[dtype]
        size = math.prod(shape) * weig_file.DTYPES[code][1] // 8
        tensors.append(weig_file.Tensor(name.encode(), code, shape, bytes(size)))
    section = struct.pack("<2I", len(rows), 0)
    section += b"".join(struct.pack("<8I", *row) for row in rows)
    more = {weig_file.QUANTIZATION: section}
    path.write_bytes(weig_writer.write(tensors, more=more))
    return path


# What is wrong with the tensors or the entry, and the words that say so.
ODD_QUANTIZATIONS = {
    "scale shape": ({"w.scale": ("f32", (3,))}, (0, 1, 0, 0, 1, 2, NONE, 0), "'w.scale'"),
    "scale 1x4": ({"w.scale": ("f32", (1, 4))}, (0, 1, 0, 0, 1, 2, NONE, 0), "'w.scale'"),
    "scale turned": (
        {"w.scale": ("f32", (2, 4))}, (0, 1, 1, 3, 1, NONE, NONE, 0), "expected [4, 2]"),
    "scale f16": ({"w.scale": ("f16", (4,))}, (0, 1, 0, 0, 1, 2, NONE, 0), "f16 in 'w.scale'"),
    "zero point type": (
        {"w.zero_point": ("u8", (4,))}, (0, 1, 0, 0, 1, 2, NONE, 0), "u8 in 'w.zero_point'"),
    "block elsewhere": ({"w.scale": ("f32", (2, 6))}, (0, 1, 0, 2, 1, NONE, NONE, 0), "blocks"),
    "scheme": ({}, (0, 7, 0, 0, 1, 2, NONE, 0), "scheme"),
    "scale2": ({}, (0, 1, 0, 0, 1, NONE, 2, 0), "scales of their own"),
    "its own scale": ({}, (0, 1, 0, 0, 0, NONE, NONE, 0), "i8 in 'w'"),
    "no integers": ({"w": ("f8_e4m3fn", (4, 6))}, (0, 1, 0, 0, 1, NONE, NONE, 0), "f8_e4m3fn"),
}  # fmt: skip


@pytest.mark.parametrize("kind", ODD_QUANTIZATIONS)
def test_odd_quantizations_are_not_turned_back(weig, tmp_path, kind):
    shapes, row, words = ODD_QUANTIZATIONS[kind]
    source = odd_file(tmp_path / "odd.weig", CODES | shapes, row)
    err = refuse(weig, source, UNSUPPORTED, "--dequantize", "f32")
    assert "tensor 'w'" in err and words in err


def test_tensors_that_are_scales_of_each_other_stay_refused(weig, tmp_path):
    shapes = {"a": ("i8", (4,)), "b": ("i8", (4,))}
    rows = (0, 1, 0, 0, 1, NONE, NONE, 0), (1, 1, 0, 0, 0, NONE, NONE, 0)
    source = odd_file(tmp_path / "odd.weig", shapes, *rows)
    refuse(weig, source, UNSUPPORTED, "--dequantize", "f32")


@pytest.mark.parametrize("what", ["embed.weight", "embed.weight.scale"])
def test_damage_of_what_is_turned_back_is_found(weig, source, tmp_path, what):
    file, _, target = converted(weig, source, "--quantize", "int8")
    at = target.read_bytes().index(file[what].data)
    with open(target, "r+b") as opened:
        opened.seek(at)
        byte = opened.read(1)
        opened.seek(at)
        opened.write(bytes([byte[0] ^ 1]))
    back = tmp_path / "back.weig"
    run = weig("convert", target, "-o", back, "--dequantize", "f32")
    assert run.status == CHECKSUM and repr(what) in run.err
    assert not back.exists()


def refuse(weig, source, status, *options):
    target = source.with_name("refused.weig")
    run = weig("convert", source, "-o", target, *options)
    assert run.status == status, run.err
    assert not target.exists()
    return run.err


def test_names_that_are_taken_are_refused(weig, tmp_path):
    tensors = {"w": normal((4, 4), "f32"), "w.scale": normal((4,), "f32")}
    source = write(tmp_path / "model.safetensors", tensors)
    err = refuse(weig, source, UNSUPPORTED, "--quantize", "int8")
    assert str(source) in err and "'w.scale'" in err and "--exclude" in err


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_refused_by_name_and_number(weig, tmp_path, value):
    values = normal((4, 8), "f16")
    values[2, 3] = value
    source = write(tmp_path / "model.safetensors", {"a": normal((4, 8), "f16"), "w": values})
    err = refuse(weig, source, INVALID_ARGUMENT, "--quantize", "int8")
    assert "'w'" in err and "element 19" in err


def test_damage_of_a_sealed_source_is_not_quantized(weig, source, tmp_path):
    plain = tmp_path / "plain.weig"
    weig.ok("convert", source, "-o", plain)
    tensor = weig_file.read(plain)["layers.0.out.weight"]
    data = bytearray(plain.read_bytes())
    data[tensor.offset + 5] ^= 1
    plain.write_bytes(data)
    err = refuse(weig, plain, 4, "--quantize", "int8")
    assert "'layers.0.out.weight'" in err


@pytest.mark.parametrize(
    "options",
    [["--quantize", "int3"], ["--cast", "i8"], ["--block", "32"], ["--asymmetric"],
     ["--cast", "f16", "--quantize", "int8"],
     ["--quantize", "int8", "--block", "0"]],
)  # fmt: skip
def test_calls_that_mean_nothing(weig, source, options):
    refuse(weig, source, USAGE, *options)


def test_tied_weights_stay_tied(weig, tmp_path):
    values = normal((8, 64), "f32")
    source = tmp_path / "tied.safetensors"
    tied(source, values)
    file, report, _ = converted(weig, source, "--lenient", "--quantize", "int8")
    for name in ("a", "b"):
        assert_quantized(file, name, values, "i8", "symmetric", 0, 0)
    assert report["aliases"] == 2
    assert file["b"].alias_of == b"a"
    assert file["b.scale"].alias_of == b"a.scale"
    refuse(weig, source, UNSUPPORTED, "--lenient", "--quantize", "int8", "--exclude", "b")


def test_shared_bytes_of_two_shapes_are_told_as_such(weig, tmp_path):
    source = tmp_path / "tied.safetensors"
    both = {"a": f32(8, 64), "b": f32(64, 8)}
    source.write_bytes(assemble(both, bytes(2048)))
    err = refuse(weig, source, UNSUPPORTED, "--lenient", "--cast", "f16")
    assert "differ in type or shape" in err and "change both" not in err


def tied(path, values):
    """Two names for the same bytes, as some writers have them."""
    both = {name: f32(*values.shape) for name in ("a", "b")}
    path.write_bytes(assemble(both, values.tobytes()))
