# SPDX-License-Identifier: Apache-2.0
"""GGUF files are read as they are, go in and come out again, byte for byte."""

import json
import shutil
import struct

import hypothesis.strategies as some
import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from command import CORRUPT, LIMIT, UNSUPPORTED, assert_same_file
from gguf_file import (
    ARRAY,
    BOOL,
    F32,
    F64,
    I32,
    I64,
    STRING,
    U8,
    U16,
    U32,
    U64,
    gguf,
    tensor,
)

NAME = ("general.architecture", STRING, "llama")
# GGML's number of a block type: elements and bytes of a block.
BLOCKS = {"q4_0": (2, 32, 18), "q8_0": (8, 32, 34), "q4_k": (12, 256, 144),
          "q6_k": (14, 256, 210), "iq1_m": (29, 256, 56), "mxfp4": (39, 32, 17)}  # fmt: skip


def numbers(shape, dtype):
    count = int(np.prod(shape))
    return (np.arange(count) % 100).astype(dtype).reshape(shape)


def there_and_back(weig, path, folder):
    """Converts and exports, and returns the WEIG file."""
    model, again = folder / "m.weig", folder / "again.gguf"
    weig.ok("convert", path, "-o", model, "--force")
    weig.ok("verify", model)
    report = weig.ok("export", model, again, "--force", "--json").json()
    assert report["exact"] is True
    assert_same_file(path, again)
    return model


def get(weig, path, name, folder):
    weig.ok("get", path, name, "-o", folder / "out.npy", "--force")
    return np.load(folder / "out.npy", allow_pickle=False)


def listed(weig, path):
    return {t["name"]: t for t in weig.ok("ls", "--json", path).json()["tensors"]}


@pytest.mark.parametrize("version", [2, 3])
def test_every_plain_type(weig, tmp_path, version):
    """C22"""
    arrays = {
        f"t.{dtype}": numbers((3, 5), dtype)
        for dtype in "float32 float16 float64 int8 int16 int32 int64".split()
    }
    arrays["t.bfloat16"] = numbers((3, 5), ml_dtypes.bfloat16)
    path = tmp_path / "m.gguf"
    path.write_bytes(
        gguf([NAME], [(n, *tensor(a)) for n, a in arrays.items()], version=version)
    )
    model = there_and_back(weig, path, tmp_path)
    for name, array in arrays.items():
        for file in (path, model):
            if array.dtype.name == "bfloat16":
                raw = weig.ok("get", "--raw", file, name).out
                assert raw == array.tobytes()
            else:
                got = get(weig, file, name, tmp_path)
                assert got.dtype == array.dtype and (got == array).all()


def test_dimensions_are_turned(weig, tmp_path):
    """C23: the fastest comes first there, and last here."""
    arrays = {
        "two": numbers((2, 3), "float16"),
        "square": numbers((4, 4), "float32"),
        "four": numbers((2, 3, 4, 5), "int32"),
    }
    tensors = [(n, *tensor(a)) for n, a in arrays.items()]
    assert tensors[0][1] == [3, 2] and tensors[2][1] == [5, 4, 3, 2]
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf([NAME], tensors))
    model = there_and_back(weig, path, tmp_path)
    for name, array in arrays.items():
        assert (get(weig, model, name, tmp_path) == array).all()


def test_few_things_and_none(weig, tmp_path):
    """C01, C02, C22"""
    tensors = [
        ("scalar", [], 0, struct.pack("<f", 1.5)),
        ("empty", [4, 0], 0, b""),
        ("marker", [0], 1, b""),
        ("four", [1, 2, 1, 2], 24, b"abcd"),
    ]
    for keys, some_tensors in (
        ([NAME], tensors), ([], tensors), ([NAME], []), ([], []), ([], tensors[1:2])
    ):  # fmt: skip
        path = tmp_path / "m.gguf"
        path.write_bytes(gguf(keys, some_tensors))
        model = there_and_back(weig, path, tmp_path)
        assert set(listed(weig, model)) == {t[0] for t in some_tensors}
    path.write_bytes(gguf([NAME], tensors, end_padding=False))
    there_and_back(weig, path, tmp_path)


def test_blocks_are_kept_as_they_are(weig, tmp_path):
    """C24"""
    rng = np.random.default_rng(1)
    tensors = [
        (name, [2 * elements, 3], number, rng.bytes(6 * size))
        for name, (number, elements, size) in BLOCKS.items()
    ]
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf([NAME], tensors))
    model = there_and_back(weig, path, tmp_path)
    for name, dims, _, content in tensors:
        assert weig.ok("get", "--raw", model, name).out == content
        info = listed(weig, model)[name]
        assert info["dtype"] == name and info["shape"] == dims[::-1]


@pytest.mark.parametrize("kind, dims", [(8, [33]), (12, [896]), (14, [255, 2])])
def test_rows_of_no_whole_blocks(refused, bad, kind, dims):
    """C24"""
    raw = gguf([NAME], [("w", dims, kind, bytes(4096))])
    refused.everywhere(bad(raw), CORRUPT, "multiple of the block", tensor="w")


@pytest.mark.parametrize("number, words", [(999, "does not know"), (4, "removed")])
def test_types_that_are_not_there(refused, bad, number, words):
    """C24"""
    raw = gguf([NAME], [("w", [32], number, bytes(4096))])
    refused.everywhere(bad(raw), UNSUPPORTED, words, f"type {number}", tensor="w")


@pytest.mark.parametrize("alignment", [1, 8, 64, 4096])
def test_any_alignment(weig, tmp_path, alignment):
    """C26"""
    arrays = {"a": numbers((3,), "int8"), "b": numbers((5,), "float64")}
    path = tmp_path / "m.gguf"
    tensors = [(n, *tensor(a)) for n, a in arrays.items()]
    path.write_bytes(gguf([NAME], tensors, alignment=alignment))
    model = there_and_back(weig, path, tmp_path)
    for file in (path, model):
        for name, array in arrays.items():
            assert (get(weig, file, name, tmp_path) == array).all()
    assert all(t["offset"] % 64 == 0 for t in listed(weig, model).values())


def test_big_endian(weig, tmp_path):
    """C21"""
    arrays = {
        f"t.{dtype}": numbers((3, 4), dtype)
        for dtype in "float16 float32 float64 int8 int16 int64".split()
    }
    arrays["t.bfloat16"] = numbers((7,), ml_dtypes.bfloat16)
    path, model = tmp_path / "m.gguf", tmp_path / "m.weig"
    tensors = [(n, *tensor(a, ">")) for n, a in arrays.items()]
    path.write_bytes(gguf([NAME, ("k", U32, 7)], tensors, order=">"))
    run = weig("info", path)
    assert run.status == UNSUPPORTED and "weig convert" in run.err
    weig.ok("convert", path, "-o", model)
    for name, array in arrays.items():
        assert weig.ok("get", "--raw", model, name).out == array.tobytes()
    keys = weig.ok("info", "--json", model).json()["metadata"]
    assert keys["k"] == {"type": "u32", "value": 7}
    # What it was cannot be given back; what it says can.
    again = tmp_path / "again.gguf"
    assert not weig.ok("export", model, again, "--json").json()["exact"]
    assert (get(weig, again, "t.float64", tmp_path) == arrays["t.float64"]).all()


def test_versions(refused, bad):
    """C22"""
    for version in (0, 1, 4):
        raw = gguf([NAME], [], version=version)
        refused.everywhere(bad(raw), UNSUPPORTED, f"version {version}")


def test_names_twice(refused, bad):
    """C55"""
    one = ("w", *tensor(numbers((3,), "float32")))
    refused.everywhere(bad(gguf([NAME], [one, one])), CORRUPT, "same name", tensor="w")
    refused.everywhere(bad(gguf([NAME, NAME], [])), CORRUPT, "twice")


def test_many_values(weig, tmp_path):
    """C78"""
    path = tmp_path / "m.gguf"
    words = [f"word {i} \u00e9" for i in range(262_144)]
    keys = [NAME, ("tokens", ARRAY, (STRING, words)),
            ("scores", ARRAY, (F32, [i / 2 for i in range(262_144)]))]  # fmt: skip
    tensors = [(f"t.{i}", *tensor(numbers((8, 8), "float32"))) for i in range(20)]
    path.write_bytes(gguf(keys, tensors))
    there_and_back(weig, path, tmp_path)
    for arguments in (["info"], ["info", "--json"]):
        run = weig.measured(*arguments, path)
        assert run.status == 0 and run.cpu_seconds < 1
        if "--json" in arguments:
            found = run.json()["metadata"]
            assert found["tokens"]["value"] == words
            assert found["scores"]["value"][-1] == 262_143 / 2
        else:
            assert len(run.text) < 10_000


def test_many_tensors_take_linear_time(weig, tmp_path):
    """C71"""
    data = tensor(numbers((4,), "float32"))
    seconds = []
    for count in (10_000, 100_000):
        path = tmp_path / "m.gguf"
        path.write_bytes(gguf([NAME], [(f"layer.{i}.w", *data) for i in range(count)]))
        run = weig.measured("convert", path, "-o", tmp_path / "m.weig", "--force")
        assert run.status == 0, run.err
        seconds.append(run.cpu_seconds)
    assert seconds[1] < 15 * seconds[0] + 0.2
    again = tmp_path / "again.gguf"
    weig.ok("export", tmp_path / "m.weig", again)
    assert_same_file(path, again)


def test_padding_that_is_not_zero(weig, tmp_path):
    """It cannot be given back, and all else can."""
    one = ("w", *tensor(numbers((3,), "float32")))
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf([NAME], [one, ("v", *one[1:])], padding=b"\7"))
    run = weig.ok("convert", path, "-o", tmp_path / "m.weig")
    assert "not zeros" in run.err
    assert not weig.ok("export", "--json", tmp_path / "m.weig", tmp_path / "a.gguf").json()["exact"]


def test_text_of_values_is_limited(weig, tmp_path):
    """What convert writes can be opened; what is longer takes little memory."""
    for length in (50 << 20, 100 << 20):
        path = tmp_path / "m.gguf"
        path.write_bytes(gguf([NAME, ("k", STRING, b"\1" * length)], []))
        run = weig("convert", path, "-o", tmp_path / "m.weig")
        assert run.status == LIMIT and "more text" in run.err
        assert not (tmp_path / "m.weig").exists()
    # Each value fits, all together do not.
    keys = [(f"k{i}", STRING, b"x" * (127 << 20)) for i in range(2)]
    path.write_bytes(gguf([NAME, *keys, ("z" * 60000, STRING, b"x" * (2 << 20))], []))
    run = weig("convert", path, "-o", tmp_path / "m.weig")
    assert run.status == LIMIT and "metadata" in run.err
    assert not (tmp_path / "m.weig").exists()


# --- In parts -------------------------------------------------------------------------


def split(folder, count, name="m", tensors=None):
    """A model of `count` parts; the tensors' arrays."""
    arrays = tensors or {f"layer.{i}.w": numbers((i + 1, 3), "float32") for i in range(7)}
    names = list(arrays)
    for part in range(count):
        keys = [("split.no", U16, part), ("split.count", U16, count),
                ("split.tensors.count", I32, len(arrays))]  # fmt: skip
        if part == 0:
            keys = [NAME, ("tokens", ARRAY, (STRING, ["a", "b"])), *keys]
        inside = [(n, *tensor(arrays[n])) for n in names[part::count]]
        path = folder / f"{name}-{part + 1:05}-of-{count:05}.gguf"
        path.write_bytes(gguf(keys, inside))
    return arrays


def test_any_part_stands_for_the_model(weig, tmp_path):
    """C91, also in a folder that is called like a part."""
    folder = tmp_path / "y-00001-of-00013"
    folder.mkdir()
    arrays = split(folder, 3)
    for given in (1, 2, 3):
        model = tmp_path / f"m{given}.weig"
        weig.ok("convert", folder / f"m-{given:05}-of-00003.gguf", "-o", model)
        assert set(listed(weig, model)) == set(arrays)
        for name, array in arrays.items():
            assert (get(weig, model, name, tmp_path) == array).all()
        keys = weig.ok("info", "--json", model).json()["metadata"]
        assert set(keys) == {"general.architecture", "tokens"}
    weig.ok("convert", folder / "m-00002-of-00003.gguf")
    assert_same_file(folder / "m.weig", tmp_path / "m1.weig")
    assert_same_file(tmp_path / "m1.weig", tmp_path / "m3.weig")
    every = sorted(folder.glob("*.gguf"))
    every[1] = folder / ".." / folder.name / every[1].name
    weig.ok("convert", *every, "-o", tmp_path / "all.weig")
    assert_same_file(tmp_path / "m1.weig", tmp_path / "all.weig")


def test_a_hundred_parts_of_one_tensor(weig, tmp_path):
    """C91"""
    arrays = {f"t.{i}": numbers((2,), "float32") for i in range(100)}
    split(tmp_path, 100, tensors=arrays)
    model = tmp_path / "m.weig"
    weig.ok("convert", tmp_path / "m-00057-of-00100.gguf", "-o", model)
    assert set(listed(weig, model)) == set(arrays)


def fails(weig, status, *arguments, says):
    run = weig(*arguments)
    assert run.status == status, run.err
    for words in says:
        assert words in run.err, run.err
    return run


def test_parts_that_are_missing_or_renamed(weig, tmp_path):
    """C86, C91"""
    split(tmp_path, 4)
    first, out = tmp_path / "m-00001-of-00004.gguf", tmp_path / "m.weig"
    second = tmp_path / "m-00002-of-00004.gguf"
    moved = tmp_path / "other.gguf"
    second.rename(moved)
    fails(weig, 2, "convert", first, "-o", out, says=["not there", second.name, "3 of 4"])
    fails(weig, CORRUPT, "convert", moved, "-o", out,
          says=["part 2 of 4", "-00002-of-00004.gguf"])  # fmt: skip
    shutil.copy(first, second)
    fails(weig, CORRUPT, "convert", first, "-o", out,
          says=[second.name, "part 1 of 4", "part 2 of 4"])  # fmt: skip
    second.write_bytes(gguf([NAME], []))
    fails(weig, CORRUPT, "convert", first, "-o", out, says=["no part of a model"])
    assert not out.exists()


def test_parts_that_do_not_hold_all(weig, tmp_path):
    split(tmp_path, 2)
    keys = [("split.no", U16, 1), ("split.count", U16, 2), ("split.tensors.count", I32, 7)]
    (tmp_path / "m-00002-of-00002.gguf").write_bytes(gguf(keys, []))
    fails(weig, CORRUPT, "convert", tmp_path / "m-00001-of-00002.gguf", "-o",
          tmp_path / "m.weig", says=["not as many tensors", "found 4", "expected 7"])  # fmt: skip


def test_parts_joined_by_cat(weig, tmp_path):
    """C90"""
    split(tmp_path, 2)
    parts = [p.read_bytes() for p in sorted(tmp_path.glob("m-*.gguf"))]
    joined, out = tmp_path / "joined.gguf", tmp_path / "m.weig"
    joined.write_bytes(b"".join(parts))
    for arguments in (["info"], ["verify"], ["convert", "-o", out]):
        fails(weig, CORRUPT, *arguments, joined, says=["keep them apart", "joined.gguf"])
    # What is behind is ignored where that is asked for, and still it is but one part.
    fails(weig, CORRUPT, "convert", "--lenient", joined, "-o", out, says=["part 1 of 2"])
    assert not out.exists()


# --- Out, from elsewhere --------------------------------------------------------------


def test_export_of_what_was_no_gguf(weig, tmp_path):
    from safetensors.numpy import save_file

    arrays = {"a": numbers((2, 3), "float32"), "b": numbers((5,), "float16"),
              "c": numbers((), "int64")}  # fmt: skip
    save_file(arrays, tmp_path / "m.safetensors", metadata={"k": "v"})
    weig.ok("convert", tmp_path / "m.safetensors", "-o", tmp_path / "m.weig")
    out = tmp_path / "m.gguf"
    run = weig("export", tmp_path / "m.weig", out)
    assert run.status == UNSUPPORTED
    assert "general.architecture" in run.err and "--architecture" in run.err
    weig.ok("export", tmp_path / "m.weig", out, "--architecture", "bert")
    keys = weig.ok("info", "--json", out).json()["metadata"]
    assert keys == {"general.architecture": "bert", "k": "v"}
    for name, array in arrays.items():
        assert (get(weig, out, name, tmp_path) == array).all()
    # And what was exported is given back as it is.
    there_and_back(weig, out, tmp_path)


def test_export_of_all_values_again(weig, tmp_path):
    """Not byte for byte, since a tensor is cast; but all keys are there."""
    keys = [
        NAME, ("u8", U8, 7), ("u64", U64, 2**64 - 1), ("i64", I64, -(2**63)),
        ("f32", F32, 0.1), ("f64", F64, 1e300), ("nan", F32, float("nan")),
        ("yes", BOOL, True), ("bytes", STRING, b"\xff\x00z"),
        ("words", ARRAY, (STRING, ["a", b"\xfe", "\u00e9\n\""])),
        ("floats", ARRAY, (F64, [0.1, float("inf"), -float("inf")])),
        ("bools", ARRAY, (BOOL, [True, False])), ("none", ARRAY, (U32, [])),
    ]  # fmt: skip
    path, model, again = (tmp_path / n for n in ("m.gguf", "m.weig", "again.gguf"))
    path.write_bytes(gguf(keys, [("w", *tensor(numbers((2, 3), "float32")))]))
    weig.ok("convert", path, "-o", model, "--cast", "f16")
    assert not weig.ok("export", model, again, "--json").json()["exact"]
    want = gguf(keys, [("w", *tensor(numbers((2, 3), "float16")))])
    assert again.read_bytes() == want


@pytest.mark.parametrize(
    "name, shape, dtype, words",
    [
        ("w", (1, 1, 1, 1, 2), "float32", "so many dimensions"),
        ("w", (2,), "uint8", "element type"),
        ("n" * 64, (2,), "float32", "so long"),
    ],
)
def test_what_gguf_cannot_hold(weig, tmp_path, name, shape, dtype, words):
    from safetensors.numpy import save_file

    save_file({name: numbers(shape, dtype)}, tmp_path / "m.safetensors")
    weig.ok("convert", tmp_path / "m.safetensors", "-o", tmp_path / "m.weig")
    run = weig("export", tmp_path / "m.weig", tmp_path / "m.gguf", "--architecture", "x")
    assert run.status == UNSUPPORTED and words in run.err and name in run.err
    assert not (tmp_path / "m.gguf").exists()


# --- Any of them ----------------------------------------------------------------------

KEYS = some.dictionaries(some.text(max_size=20), some.integers(0, 2**32 - 1), max_size=4)
SHAPES = some.lists(some.integers(0, 5), max_size=4)
TYPES = some.sampled_from("float32 float16 int8 int64 float64".split())
TENSORS = some.dictionaries(
    some.text(some.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30),
    some.tuples(SHAPES, TYPES),
    max_size=6,
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(keys=KEYS, tensors=TENSORS, power=some.integers(0, 12))
def test_there_and_back(weig, tmp_path, keys, tensors, power):
    keys.pop("general.alignment", None)
    path = tmp_path / "m.gguf"
    path.write_bytes(
        gguf(
            [(k, U32, v) for k, v in keys.items() if not k.startswith("split.")],
            [(n, *tensor(numbers(s, t))) for n, (s, t) in tensors.items()],
            alignment=1 << power,
        )
    )
    model = there_and_back(weig, path, tmp_path)
    found = listed(weig, model)
    assert {n: tuple(t["shape"]) for n, t in found.items()} == {
        n: tuple(s) for n, (s, _) in tensors.items()
    }
    assert json.dumps(sorted(found)) == json.dumps(sorted(listed(weig, path)))


# --- Small files that ask for much ----------------------------------------------------


def test_many_own_keys_take_linear_time(weig, tmp_path):
    """Keys that only weig may write are left out, a hundred thousand in a moment."""
    path = tmp_path / "m.gguf"
    path.write_bytes(gguf([NAME] + [(f"weig.source.{i}", U8, 1) for i in range(100_000)], []))
    run = weig.measured("convert", path, "-o", tmp_path / "m.weig")
    assert run.status == 0 and run.cpu_seconds < 2
    assert "and 99980 more" in run.err
    keys = weig.ok("info", "--json", tmp_path / "m.weig").json()["metadata"]
    assert set(keys) == {"general.architecture"}


def sparse(path, alignment, count):
    """Tensors of one number each on an alignment that leaves much between them."""
    numbers_of = [struct.pack("<f", i) for i in range(count)]
    head = gguf(
        [NAME, ("general.alignment", U32, alignment)],
        [(f"t.{i}", [1], 0, b"") for i in range(count)],
        offsets=[i * alignment for i in range(count)],
    )
    begin = -(-len(head) // alignment) * alignment
    with open(path, "wb") as file:
        file.write(head)
        for i, number in enumerate(numbers_of):
            file.seek(begin + i * alignment)
            file.write(number)


@pytest.mark.parametrize(
    "kind, value",
    [(U32, 0), (U32, 3), (U32, 24), (U32, 2**32 - 1), (I32, -32), (U64, 32), (STRING, b"32")],
)
def test_alignments_that_are_none(weig, tmp_path, kind, value):
    """C44: never replaced by another one."""
    path = tmp_path / "m.gguf"
    keys = [NAME, ("general.alignment", kind, value)]
    path.write_bytes(gguf(keys, [("w", [8], 0, bytes(32))]))
    for command in (["convert", path, "--lenient"], ["info", path]):
        run = weig(*command)
        assert run.status == CORRUPT and "no power of two" in run.err
    assert not (tmp_path / "m.weig").exists()


def test_large_alignments_take_no_memory(weig, tmp_path):
    """C22, C44: back byte for byte, without the padding ever being in memory."""
    path, model, again = (tmp_path / n for n in ("m.gguf", "m.weig", "again.gguf"))
    sparse(path, 1 << 20, 200)
    assert weig.ok("convert", "--json", path, "-o", model).json()["exact_source"]
    run = weig.measured("export", model, again)
    assert run.status == 0 and run.peak_bytes < 100 << 20
    assert_same_file(path, again)
    sparse(path, 1 << 31, 2)
    run = weig.measured("convert", path, "-o", model, "--force")
    assert run.status == 0 and run.peak_bytes < 100 << 20
    assert "another file" in run.err
    assert model.stat().st_size < 1 << 20


def test_shared_bytes_of_two_widths(weig, tmp_path):
    """C21: of two widths, big-endian bytes have no one right order."""
    data = tensor(numbers((4,), "float32"), ">")
    path = tmp_path / "m.gguf"
    tensors = [("a", *data), ("b", [8], 1, data[2])]
    path.write_bytes(gguf([NAME], tensors, order=">", offsets=[0, 0])[:-32])
    run = weig("convert", "--lenient", path, "-o", tmp_path / "m.weig")
    assert run.status == UNSUPPORTED and "different widths" in run.err
