# SPDX-License-Identifier: Apache-2.0
"""safetensors files that break a rule are refused by every command, in the same words,
and leave nothing behind."""

import json
import struct

import pytest

from command import CORRUPT, LIMIT, UNSUPPORTED
from safetensors_broken import MISFITS, TEXTS, misfit
from safetensors_file import assemble, by_hand, entry, f32, pattern

SECOND = 1.0  # for a process that should need a tenth of it, on a busy machine
SMALL = 64 << 20  # bytes of memory


# --- Shapes and ranges ----------------------------------------------------------------


@pytest.mark.parametrize("kind", MISFITS)
def test_shape_and_range_that_disagree(refused, bad, kind):
    """C37, C39, C40: no byte outside the range reaches an output, for there is none."""
    what, size, words = MISFITS[kind]
    refused.everywhere(bad(misfit(what, bytes(size))), CORRUPT, *words, tensor="w")


@pytest.mark.parametrize("dtype", ["F7_X", "f32", "", "F32\n\x1b[31m"])
def test_type_that_does_not_exist_is_named(refused, bad, dtype):
    """C10"""
    shown = dtype.replace("\n", "\\n").replace("\x1b", "\\x1b")
    path = bad(assemble({"w": entry(dtype, [1], 0, 4)}, bytes(4)))
    refused.everywhere(path, UNSUPPORTED, f"'{shown}'", tensor="w")


# --- Names ----------------------------------------------------------------------------


def test_name_twice(refused, bad):
    """C55"""
    header = '{"w":%s,"v":%s,"w":%s}' % tuple(
        json.dumps(f32(1, begin=4 * i)) for i in range(3)
    )
    refused.everywhere(
        bad(assemble(header, bytes(12))), CORRUPT, "same name", tensor="w"
    )
    # The same name in another spelling.
    header = header.replace('"w"', '"\\u0077"', 1)
    refused.everywhere(
        bad(assemble(header, bytes(12))), CORRUPT, "same name", tensor="w"
    )


def test_key_twice(refused, bad):
    """C55"""
    w = json.dumps(f32(1))
    path = bad(
        assemble('{"__metadata__":{"k":"1","j":"2","k":"1"},"w":%s}' % w, bytes(4))
    )
    refused.everywhere(path, CORRUPT, "'k'")
    path = bad(assemble('{"__metadata__":{},"w":%s,"__metadata__":{}}' % w, bytes(4)))
    refused.everywhere(path, CORRUPT, "__metadata__")
    for field in ("dtype", "shape", "data_offsets"):
        value = json.dumps(f32(1)[field])
        path = bad(assemble('{"w":%s,"%s":%s}}' % (w[:-1], field, value), bytes(4)))
        refused.everywhere(path, CORRUPT, field, tensor="w")


def test_same_name_in_two_files(weig, refused, tmp_path):
    """C55"""
    one, two = tmp_path / "1.safetensors", tmp_path / "2.safetensors"
    one.write_bytes(
        by_hand({"a": ("F32", (2,), pattern(8)), "w": ("F32", (2,), pattern(8))})
    )
    two.write_bytes(
        by_hand({"b": ("F32", (2,), pattern(8)), "w": ("F32", (2,), pattern(8))})
    )
    call = ["convert", one, two, "-o", tmp_path / "out.weig"]
    refused(call, CORRUPT, two, one, tensor="w", kept=tmp_path)
    refused.as_json(call, CORRUPT)


def test_search_for_names_twice_is_not_quadratic(weig, refused, bad, tmp_path):
    """C55"""
    names = [f"model.layers.{i}.weight" for i in range(100_000)]
    tensors = dict.fromkeys(names, ("U8", (1,), b"x"))
    path = bad(by_hand(tensors))
    run = weig.measured("convert", path, "-o", tmp_path / "a.weig")
    assert run.status == 0 and run.seconds < 3 * SECOND
    raw = path.read_bytes().replace(
        b'"model.layers.99999.weight"', b'"model.layers.00000.weight"'
    )
    raw = raw.replace(b'"model.layers.00000.weight"', b'"model.layers.0.weight"    ')
    path = bad(raw)
    run = weig.measured("convert", path, "-o", tmp_path / "b.weig")
    assert run.status == CORRUPT and run.seconds < 3 * SECOND
    assert "tensor 'model.layers.0.weight'" in run.err


def test_name_that_the_format_cannot_hold(refused, bad):
    w = json.dumps(f32(1))
    path = bad(assemble('{"a\\u0000b":%s}' % w, bytes(4)))
    message = refused(["info", path], CORRUPT, path, "NUL")
    assert "\0" not in message
    refused.as_json(["convert", path, "-o", path.with_suffix(".weig")], CORRUPT)
    path = bad(assemble('{"%s":%s}' % ("x" * 65_536, w), bytes(4)))
    refused(["info", path], CORRUPT, path, "65536", "65535")
    refused(["convert", path], CORRUPT, path, "65536", "65535")


def test_longest_name_is_carried(round_trip):
    round_trip(by_hand({"x" * 65_535: ("U8", (1,), b"x")}))


def test_messages_are_one_line_whatever_the_name(refused, bad):
    name = "evil\n\x1b[2J\u202e'name"
    path = bad(assemble({name: f32(1000, end=4)}, bytes(4)))
    message = refused(["convert", path], CORRUPT, path)
    assert "\x1b" not in message
    error = refused.as_json(["info", path], CORRUPT)
    assert error["tensor"] == name


# --- Headers --------------------------------------------------------------------------


def test_header_length_that_lies(weig, refused, bad, tmp_path):
    """C45"""
    good = by_hand({"w": ("F32", (2,), pattern(8))}, pad=0)
    size = len(good)
    for length in (0, 1, 2, size - 9, size - 7, size, 2**31, 2**32, 2**63, 2**64 - 1):
        path = bad(struct.pack("<Q", length) + good[8:])
        words = (length, size - 8) if length > size - 8 else ()
        refused.everywhere(path, CORRUPT, *words)
        assert_cheap(weig, path, CORRUPT)
    # All of the file: then data are not JSON.
    refused.everywhere(bad(struct.pack("<Q", size - 8) + good[8:]), CORRUPT)


def assert_cheap(weig, path, *statuses, memory=SMALL):
    for call in (["info", path], ["convert", path, "-o", path.with_suffix(".weig")]):
        run = weig.measured(*call)
        assert run.status in statuses, run.err
        assert run.seconds < SECOND and run.peak_bytes < memory, (call, run)


@pytest.mark.parametrize("kind", TEXTS)
def test_header_that_is_no_json(refused, bad, kind):
    """C45"""
    refused.everywhere(bad(assemble(TEXTS[kind], bytes(4))), CORRUPT)


DEPTH = 100_000
DEEP = {
    "lists_as_a_tensor": b'{"w":' + b"[" * DEPTH + b"]" * DEPTH + b"}",
    "lists_unclosed": b'{"w":' + b"[" * DEPTH,
    "objects_as_a_tensor": b'{"w":' * DEPTH + b"1" + b"}" * DEPTH,
    "in_metadata": b'{"__metadata__":{"k":' + b"[" * DEPTH + b"]" * DEPTH + b"}}",
    "in_a_key_to_pass_over": b'{"w":{"x":' + b"[" * DEPTH + b"]" * DEPTH + b"}}",
    "in_a_shape": b'{"w":{"shape":' + b"[" * DEPTH + b"]" * DEPTH + b"}}",
}


@pytest.mark.parametrize("kind", DEEP)
def test_header_nested_a_hundred_thousand_deep(weig, bad, tmp_path, kind):
    """C45"""
    path = bad(assemble(DEEP[kind]))
    assert_cheap(weig, path, CORRUPT, LIMIT)
    lenient_call = ["convert", "--lenient", path, "-o", tmp_path / "a.weig"]
    run = weig.measured(*lenient_call)
    assert run.status in (CORRUPT, LIMIT), run.err
    assert run.seconds < SECOND and run.peak_bytes < SMALL


@pytest.mark.parametrize(
    "head,tail",
    [
        (b'{"w":{"dtype":"U8","shape":[', b'],"data_offsets":[0,1]}}'),
        (b'{"w":{"x":', b',"dtype":"U8","shape":[1],"data_offsets":[0,1]}}'),
        (b'{"__metadata__":{"k":', b"}}"),
    ],
    ids=["in_a_shape", "in_a_key_to_pass_over", "in_metadata"],
)
def test_number_of_50_megabytes(weig, bad, head, tail):
    """C45: cheap for what it is, a file of 50 MB."""
    path = bad(assemble(head + b"9" * 50_000_000 + tail, b"x"))
    for call in (["info", path], ["convert", path, "-o", path.with_suffix(".weig")]):
        run = weig.measured(*call)
        assert run.status == CORRUPT, run.err
        assert len(run.err) < 10_000
        assert run.seconds < 3 * SECOND and run.peak_bytes < 128 << 20
