# SPDX-License-Identifier: Apache-2.0
"""get: values as text, JSON, .npy and raw bytes, whole and sliced, as NumPy has them;
ml_dtypes is the reference for types that NumPy lacks."""

import json
import math
from decimal import Decimal
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weig_file
import weig_writer
from command import EXISTS, INVALID_ARGUMENT, NOT_FOUND, UNSUPPORTED, USAGE
from numpy_values import (
    NUMPY,
    SHORTER,
    WIDENED,
    assert_text_means,
    bits_of,
    pack,
    parse,
    raw_bytes,
    same_bits,
    stored_array,
    value_array,
)
from safetensors_file import by_hand, pattern


def make_file(path, tensors):
    """A WEIG file of {name: (dtype, shape, data)}."""
    path.write_bytes(
        weig_writer.write(
            [
                weig_file.Tensor(name.encode(), weig_file.CODES[dtype], shape, data)
                for name, (dtype, shape, data) in tensors.items()
            ]
        )
    )
    return path


SHAPE = (3, 5, 8)


def content(dtype, shape=SHAPE):
    size = weig_file.byte_count(weig_file.CODES[dtype], shape)
    data = bytearray(pattern(size, weig_file.CODES[dtype] + 1))
    if dtype == "bool":
        data = bytes(b % 3 for b in data)  # all that is not 0 is true
    return bytes(data)


@pytest.fixture(scope="module")
def all_types(tmp_path_factory):
    """A file with a tensor of each type, called as its type."""
    path = tmp_path_factory.mktemp("types") / "types.weig"
    return make_file(path, {d: (d, SHAPE, content(d)) for d in weig_file.CODES})


@pytest.mark.parametrize("dtype", weig_file.CODES)
def test_every_type_whole(weig, all_types, tmp_path, dtype):
    stored = stored_array(dtype, SHAPE, content(dtype))
    values = value_array(dtype, stored)
    run = weig.ok("get", all_types, dtype)
    assert run.err == f"{dtype}: {dtype} [3,5,8]\n"
    if dtype in SHORTER:
        text = parse(run.text, values.dtype)[..., None].view("f4")
        rounded = text.astype(SHORTER[dtype]).astype("f4")
        same_bits(rounded, values[..., None].view("f4"))
    else:
        assert_text_means(dtype, run.text, stored)
    assert weig.ok("get", "--raw", all_types, dtype).out == content(dtype)
    target = tmp_path / "out.npy"
    options = () if dtype in NUMPY else ("--widen",)
    weig.ok("get", all_types, dtype, "-o", target, *options)
    same_bits(np.load(target, allow_pickle=False), values)
    if dtype in NUMPY:  # --widen changes nothing
        weig.ok("get", all_types, dtype, "-o", tmp_path / "same.npy", "--widen")
        assert (tmp_path / "same.npy").read_bytes() == target.read_bytes()
    else:
        assert_text_means(
            dtype, weig.ok("get", "--widen", all_types, dtype).text, stored
        )


@pytest.mark.parametrize("dtype", WIDENED)
def test_npy_of_a_type_that_numpy_lacks_is_refused(refused, all_types, tmp_path, dtype):
    """C82"""
    call = ["get", all_types, dtype, "-o", tmp_path / "out.npy"]
    words = (dtype, "--widen", "--raw")
    refused(call, UNSUPPORTED, all_types, *words, tensor=dtype, kept=tmp_path)


SLICES = [
    "0",
    "-1",
    "2, 4, 7",
    "-3,-5,-8",
    ":",
    "1:",
    ":2",
    "::2",
    "::-1",
    "1:1",
    "5:2",
    "-2:-1",
    "...",
    "..., 0",
    "0, ...",
    "0, ..., 3",
    ":, 2",
    ":, :, ::3",
    "::-1, ::-1, ::-1",
    "0:2, 1:4, 2:7",
    "2, :, 1::2",
    "100:",
    ":100",
    "-100:100:50",
    "::1000",
    "::-1000",
    "[1, 2]",
    " 1 , 2 ",
    "1,",
    "+1, -2:",
    "::-2, 3, ::-3",
    "0:3:2, ..., 7:0:-3",
    "0, 0, 0, ...",
    ":, 1:1",
    "2:0:-1, :, 5:100",
]


def index_of(text):
    return eval(f"np.s_[{text.strip().strip('[]').strip()}]", {"np": np})


def assert_slice_agrees(weig, path, name, dtype, stored, text, folder):
    expected = stored[index_of(text)]
    shape = np.shape(expected)
    expected = np.asarray(expected).reshape(shape)
    raw = weig.ok("get", "--raw", path, name, f"--slice={text}")
    assert raw.out == raw_bytes(dtype, expected), text
    options = () if dtype in NUMPY else ("--widen",)
    target = folder / "out.npy"
    weig.ok("get", path, name, f"--slice={text}", "-o", target, "--force", *options)
    same_bits(
        np.load(target, allow_pickle=False), value_array(dtype, expected).reshape(shape)
    )
    shown = weig.ok("get", "--widen", path, name, f"--slice={text}")
    assert_text_means(dtype, shown.text.strip(), expected)
    assert json.dumps(list(shape)).replace(" ", "") in shown.err


@pytest.mark.parametrize("dtype", ["f32", "f6_e3m2", "complex64"])
@pytest.mark.parametrize("text", SLICES)
def test_slices(weig, all_types, tmp_path, dtype, text):
    stored = stored_array(dtype, SHAPE, content(dtype))
    assert_slice_agrees(weig, all_types, dtype, dtype, stored, text, tmp_path)


@pytest.mark.parametrize("dtype", weig_file.CODES)
def test_slices_of_every_type(weig, all_types, tmp_path, dtype):
    stored = stored_array(dtype, SHAPE, content(dtype))
    for text in ("::-2, 3, ::-3", "1:, 1:3, 1:6"):
        assert_slice_agrees(weig, all_types, dtype, dtype, stored, text, tmp_path)


BOUND = st.none() | st.integers(-9, 9)
PART = st.one_of(
    st.integers(-7, 7).map(str),
    st.just("..."),
    st.tuples(BOUND, BOUND, BOUND.filter(lambda step: step != 0)).map(
        lambda b: ":".join("" if x is None else str(x) for x in b)
    ),
)


@settings(max_examples=60)
@given(
    st.sampled_from(["u8", "f32", "i4", "f6_e2m3", "complex128", "u1"]),
    st.lists(st.integers(0, 6), max_size=4).map(tuple),
    st.lists(PART, min_size=1, max_size=4),
)
def test_any_slice(weig, tmp_path_factory, dtype, shape, parts):
    folder = tmp_path_factory.mktemp("slice")
    path = make_file(folder / "a.weig", {"t": (dtype, shape, content(dtype, shape))})
    stored = stored_array(dtype, shape, content(dtype, shape))
    text = ", ".join(parts)
    try:
        stored[index_of(text)]
    except IndexError:
        run = weig("get", "--raw", path, "t", f"--slice={text}")
        assert run.status == INVALID_ARGUMENT and run.out == b""
        assert run.err.count("\n") == 1
    else:
        assert_slice_agrees(weig, path, "t", dtype, stored, text, folder)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "x",
        "1:2:3:4",
        "1;2",
        "0x1",
        "1.5",
        "1e3",
        ",",
        "1,,2",
        "..",
        "1 2",
        "::0",
        "None",
        "9" * 30,
        "-" + "9" * 30,
        ":" + "9" * 30,
        "[1",
        "1]",
        "--1",
    ],
)
def test_slice_that_cannot_be_read(weig, all_types, text):
    run = weig("get", all_types, "f32", f"--slice={text}")
    assert run.status in (INVALID_ARGUMENT, USAGE), run.text
    assert run.out == b""


@pytest.mark.parametrize(
    "text", ["3", "-4", "0,5", "0,0,8", "0,0,0,0", "..., ...", ":,:,:,:"]
)
def test_slice_outside_the_tensor(refused, all_types, text):
    call = ["get", all_types, "f32", f"--slice={text}"]
    refused(call, INVALID_ARGUMENT, all_types, "[3,5,8]", tensor="f32")
    refused.as_json(call, INVALID_ARGUMENT)


@pytest.mark.parametrize("dtype", [d for d in weig_file.CODES if bits_of(d) <= 16])
def test_every_code_of_a_type(weig, tmp_path, dtype):
    """All values of all types of up to 16 bits: text, JSON, exact float32."""
    bits = bits_of(dtype)
    codes = np.arange(1 << bits, dtype=np.uint16)
    data = codes.astype("<u2").tobytes() if bits == 16 else pack(codes, bits)
    shape = (len(codes),)
    path = make_file(tmp_path / "codes.weig", {"t": (dtype, shape, data)})
    stored = stored_array(dtype, shape, data)
    values = value_array(dtype, stored)
    text = weig.ok("get", path, "t").text
    if dtype == "bf16":
        found = parse(text, np.dtype("f8")).astype(ml_dtypes.bfloat16).astype("f4")
        same_bits(found, values)
        shown = text.strip("[]\n").split(", ")
        digits = [d.normalize().as_tuple().digits for d in map(Decimal, shown)]
        assert max(map(len, digits)) <= 4  # enough for 8 bits, and no more
    else:
        assert_text_means(dtype, text, stored)
    widened = weig.ok("get", "--widen", path, "t").text
    assert_text_means(dtype, widened, stored)
    listed = weig.ok("get", "--json", path, "t").json()
    assert listed["name"] == "t" and listed["dtype"] == dtype
    assert listed["shape"] == [len(codes)]
    special = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
    numbers = [special[v] if isinstance(v, str) else v for v in listed["values"]]
    assert len(numbers) == len(codes)
    finite = np.array(numbers, dtype="f8")
    kind = ml_dtypes.bfloat16 if dtype == "bf16" else values.dtype
    same_bits(finite.astype(kind).astype(values.dtype), values)


def test_text_of_floats_reads_back_exactly(weig, tmp_path):
    rng = np.random.default_rng(7)
    for dtype, kind in (("f32", "u4"), ("f64", "u8")):
        codes = rng.integers(0, 2 ** (8 * int(kind[1])), 20_000, dtype=kind)
        data = codes.tobytes()
        path = make_file(tmp_path / "a.weig", {"t": (dtype, (20_000,), data)})
        stored = stored_array(dtype, (20_000,), data)
        assert_text_means(dtype, weig.ok("get", path, "t").text, stored)
        text = weig.ok("get", path, "t", "--slice", ":200").text
        shortest = [repr(float(str(v))) for v in value_array(dtype, stored)[:200]]
        assert text.strip("[]\n").split(", ") == shortest


def test_complex_numbers_as_json_are_pairs(weig, all_types):
    values = value_array(
        "complex64", stored_array("complex64", SHAPE, content("complex64"))
    )
    listed = weig.ok("get", "--json", all_types, "complex64", "--slice", "0, 0").json()
    found = [complex(float(a), float(b)) for a, b in listed["values"]]
    same_bits(np.array(found).astype("c8"), values[0, 0])


def test_output_goes_by_its_name(weig, all_types, tmp_path):
    text = weig.ok("get", all_types, "i8").text
    weig.ok("get", all_types, "i8", "-o", tmp_path / "a.txt")
    assert (tmp_path / "a.txt").read_text() == text
    weig.ok("get", all_types, "i8", "--raw", "-o", tmp_path / "a.bin")
    assert (tmp_path / "a.bin").read_bytes() == content("i8")
    weig.ok("get", all_types, "i8", "--json", "-o", tmp_path / "a.json")
    assert json.loads((tmp_path / "a.json").read_text())["dtype"] == "i8"
    assert weig("get", all_types, "i8", "-o", tmp_path / "a.txt").status == EXISTS
    assert sorted(p.name for p in Path(tmp_path).iterdir()) == [
        "a.bin",
        "a.json",
        "a.txt",
    ]


@pytest.mark.parametrize(
    "options",
    [
        ["--raw", "-o", "a.npy"],
        ["--all", "--raw"],
        ["--all", "-o", "a.npy"],
    ],
)
def test_options_that_contradict(weig, all_types, tmp_path, options):
    run = weig("get", all_types, "f32", *options, cwd=tmp_path)
    assert run.status == USAGE and run.out == b"" and not list(tmp_path.iterdir())


def test_npy_is_aligned_and_plain(weig, all_types, tmp_path):
    weig.ok("get", all_types, "f32", "-o", tmp_path / "a.npy")
    raw = (tmp_path / "a.npy").read_bytes()
    assert (len(raw) - len(content("f32"))) % 64 == 0
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    assert mapped.flags.c_contiguous and mapped.flags.aligned


Q4_0 = weig_file.Tensor(b"blocks", 0x1002, (2, 64), pattern(72))


def test_blocks_of_ggml_are_given_whole_and_raw(weig, refused, tmp_path):
    path = tmp_path / "a.weig"
    path.write_bytes(weig_writer.write([Q4_0]))
    assert weig.ok("get", "--raw", path, "blocks").out == Q4_0.data
    weig.ok("verify", path)
    for options in (
        [],
        ["--raw", "--slice", "0"],
        ["--widen"],
        ["-o", tmp_path / "a.npy"],
    ):
        call = ["get", path, "blocks", *options]
        refused(call, UNSUPPORTED, path, "--raw", tensor="blocks", kept=tmp_path)
    export = ["export", path, tmp_path / "out"]
    refused(export, UNSUPPORTED, path, tensor="blocks", kept=tmp_path)


def test_unknown_types_are_refused_or_listed_on_request(weig, refused, tmp_path):
    path = tmp_path / "a.weig"
    unknown = weig_file.Tensor(b"later", 99, (3,), b"12345")
    known = weig_file.Tensor(b"known", 4, (3,), b"abc")
    path.write_bytes(weig_writer.write([unknown, known]))
    for command in ("info", "ls", "verify"):
        refused([command, path], UNSUPPORTED, path, hex(99), tensor="later")
    accept = "--accept-unknown-dtypes"
    assert b"later" in weig.ok("ls", accept, path).out
    assert weig.ok("get", accept, "--raw", path, "later").out == b"12345"
    assert weig.ok("get", accept, path, "known").text == "[97, 98, 99]\n"
    refused(["get", accept, path, "later"], UNSUPPORTED, path, tensor="later")
    weig.ok("verify", accept, path)


@pytest.mark.parametrize(
    "name",
    [
        "a\nb",
        "\x1b[31m",
        "\u202ex",
        "\\n",
        "\\",
        "a\\x41",
        "\U000e0001\u200b",
        "'",
        "\x7f\t",
    ],
)
def test_a_name_can_be_given_as_it_is_shown(weig, tmp_path, name):
    """Characters that are unsafe on a terminal are shown escaped, backslashes too."""
    source = tmp_path / "m.safetensors"
    source.write_bytes(
        by_hand({name: ("U8", (1,), b"\7"), "other": ("U8", (1,), b"\1")})
    )
    shown = weig.ok("ls", source).text.splitlines()[0].split("  u8 ")[0].rstrip()
    assert weig.ok("get", source, shown).text == "[7]\n"
    assert weig.ok("get", source, name).text == "[7]\n"
    hint = weig("get", source, name + "?").err
    if "did you mean" in hint:
        quoted = hint.split("did you mean '")[1].split("'?)")[0]
        assert weig.ok("get", source, quoted).text == "[7]\n"


def test_an_escape_that_is_none_is_a_name(weig, tmp_path):
    source = tmp_path / "m.safetensors"
    names = ["\\q", "\\x1", "\\xff", "\\u{}", "\\u{110000}", "\\u{20", "a\\"]
    source.write_bytes(by_hand({n: ("U8", (1,), b"\7") for n in names}))
    for name in names:
        assert weig.ok("get", source, name).text == "[7]\n"
        assert weig("get", source, name + "0").status == NOT_FOUND


def test_types_that_safetensors_lacks_are_refused_by_export(weig, refused, tmp_path):
    for dtype in sorted(
        set(weig_file.CODES) - set(weig_writer.SAFETENSORS_TYPES.values())
    ):
        path = make_file(
            tmp_path / "a.weig", {"t": (dtype, (8,), content(dtype, (8,)))}
        )
        export = ["export", path, tmp_path / "out"]
        refused(export, UNSUPPORTED, path, dtype, tensor="t", kept=tmp_path)
    # Elements that do not fill whole bytes.
    path = make_file(tmp_path / "a.weig", {"t": ("f4_e2m1", (3,), b"\x21\x03")})
    refused(
        ["export", path, tmp_path / "out"], UNSUPPORTED, path, tensor="t", kept=tmp_path
    )
    # A name that has a meaning of its own there.
    path = make_file(tmp_path / "a.weig", {"__metadata__": ("u8", (1,), b"x")})
    refused(["export", path, tmp_path / "out"], UNSUPPORTED, path, kept=tmp_path)
