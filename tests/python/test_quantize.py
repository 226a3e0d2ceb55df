# SPDX-License-Identifier: Apache-2.0
"""Casts and quantization, bit for bit as NumPy and ml_dtypes have them, with every
instruction set that this machine has."""

import subprocess

import ml_dtypes
import numpy as np
import pytest

from conftest import PROGRAMS
from quantization import (
    RANGES,
    TYPES,
    expected_cast,
    expected_quantization,
    unpack,
    words,
)

PROGRAM = PROGRAMS / "weig_quantize_elements"
def run(*arguments):
    done = subprocess.run(
        [PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def targets():
    return run("targets").split() if PROGRAM.exists() else ["none"]


@pytest.fixture(params=range(len(targets())), ids=targets())
def skip(request):
    """How many of the best instruction sets a test does without."""
    return request.param


def samples():
    """Floats: all of 16 bits, and around all of them what rounds to them; all ties."""
    every = np.arange(1 << 16, dtype=np.uint32)
    sets = [np.arange(0, 1 << 32, 9973, dtype=np.uint64).astype(np.uint32)]
    for dtype in (np.float16, ml_dtypes.bfloat16):
        exact = words(every.astype(np.uint16).view(dtype).astype(np.float32))
        sets.append(exact)
    # Of bf16, ties and their neighbours differ in the low half alone.
    sets += [every << 16 | low for low in (1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]
    # Of f16 and f8, normal and subnormal: between each two neighbours.
    for dtype, bits in ((np.float16, np.uint16), (ml_dtypes.float8_e4m3fn, np.uint8)):
        codes = np.arange(np.iinfo(bits).max, dtype=np.int64).astype(bits)
        low = codes.view(dtype).astype(np.float64)
        high = (codes + bits(1)).view(dtype).astype(np.float64)
        with np.errstate(invalid="ignore"):
            ties = words(((low + high) / 2).astype(np.float32))
        sets += [ties, ties - np.uint32(1), ties + np.uint32(1)]
    # Where the largest numbers end: 448 of f8, 65504 of f16.
    edges = words(np.array([448, 464, 480, 65504, 65520, 65536], np.float32))
    sets.append(np.concatenate([edges + np.uint32(i) for i in (0, 1, 2**32 - 1)]))
    values = np.concatenate(sets)
    return np.concatenate([values, values ^ np.uint32(1 << 31)]).view(np.float32)


def cast(folder, skip, values, to):
    source = next(name for name, dtype in TYPES.items() if dtype == values.dtype)
    values.tofile(folder / "in")
    run(skip, "cast", source, to, folder / "in", folder / "out")
    return words(np.fromfile(folder / "out", TYPES[to]))


@pytest.mark.parametrize("source", ["f16", "bf16", "f8_e4m3fn"])
@pytest.mark.parametrize("to", TYPES)
def test_every_code_is_cast_as_numpy_does(tmp_path, skip, source, to):
    bits = np.uint16 if TYPES[source].itemsize == 2 else np.uint8
    values = np.arange(np.iinfo(bits).max + 1).astype(bits).view(TYPES[source])
    got = cast(tmp_path, skip, values, to)
    if to == source:
        np.testing.assert_array_equal(got, words(values))
    else:
        np.testing.assert_array_equal(got, expected_cast(values, to))


@pytest.mark.parametrize("to", ["f16", "bf16", "f8_e4m3fn"])
def test_floats_are_cast_as_numpy_does(tmp_path, skip, to):
    values = samples()
    got = cast(tmp_path, skip, values, to)
    np.testing.assert_array_equal(got, expected_cast(values, to))


@pytest.mark.parametrize("count", [0, 1, 3, 7, 8, 9, 31, 33, 2047, 2049, 300001])
def test_any_number_of_elements_is_cast(tmp_path, skip, count):
    values = np.random.default_rng(count).normal(size=count).astype(np.float32)
    got = cast(tmp_path, skip, values, "bf16")
    np.testing.assert_array_equal(got, words(values.astype(ml_dtypes.bfloat16)))


def check_quantization(folder, skip, values, to, scheme, axis, block, piece=0):
    source = next(name for name, dtype in TYPES.items() if dtype == values.dtype)
    values.tofile(folder / "in")
    run(skip, "quantize", source, to, scheme, "none" if axis is None else axis, block,
        piece, folder / "in", folder / "out", *values.shape)  # fmt: skip
    q, scale, zero, back = expected_quantization(values, to, scheme, axis, block)
    np.testing.assert_array_equal(
        np.fromfile(folder / "out.scale", np.uint32), scale.view(np.uint32)
    )
    got_zero = unpack((folder / "out.zero").read_bytes(), to, zero.size)
    if scheme == "asymmetric":
        np.testing.assert_array_equal(got_zero, zero)
    else:
        assert got_zero.size == 0
    got = unpack((folder / "out.q").read_bytes(), to, values.size)
    np.testing.assert_array_equal(got, q.ravel())
    np.testing.assert_array_equal(
        np.fromfile(folder / "out.back", np.float32), back.ravel()
    )


KINDS = [
    ("i8", "symmetric"),
    ("i4", "symmetric"),
    ("i8", "asymmetric"),
    ("u8", "asymmetric"),
    ("i4", "asymmetric"),
    ("u4", "asymmetric"),
]
GRIDS = [(None, 0), (0, 0), (1, 0), (2, 0), (2, 1), (2, 32), (2, 64), (None, 7)]


def normal(shape, dtype, seed=1):
    values = np.random.default_rng(seed).normal(size=shape) * 0.02
    return values.astype(TYPES[dtype])


@pytest.mark.parametrize(("to", "scheme"), KINDS)
@pytest.mark.parametrize("source", ["f32", "f16", "bf16"])
@pytest.mark.parametrize(("axis", "block"), GRIDS)
def test_quantized_as_onnx_has_it(tmp_path, skip, source, to, scheme, axis, block):
    values = normal((3, 5, 77), source)
    check_quantization(tmp_path, skip, values, to, scheme, axis, block)


@pytest.mark.parametrize(("to", "scheme"), KINDS)
@pytest.mark.parametrize(
    ("shape", "axis", "block"),
    [((700, 768), 0, 0), ((700, 768), 1, 0), ((700, 768), 1, 128), ((9, 65537), 1, 128),
     ((3, 1100003), 0, 0), ((1500, 1500), None, 0)],
)  # fmt: skip
def test_pieces_and_threads_change_nothing(tmp_path, to, scheme, shape, axis, block):
    values = normal(shape, "bf16")
    for piece in (0, 100_000):
        check_quantization(tmp_path, 0, values, to, scheme, axis, block, piece)


@pytest.mark.parametrize(("to", "scheme"), KINDS)
@pytest.mark.parametrize("source", ["f16", "bf16"])
def test_every_finite_number_of_16_bits(tmp_path, skip, source, to, scheme):
    every = np.arange(1 << 16).astype(np.uint16).view(TYPES[source])
    finite = every[np.isfinite(every.astype(np.float32))]
    check_quantization(tmp_path, skip, finite, to, scheme, None, 0)
    # Neighbours have about one size: numbers of all sizes have steps of their own.
    check_quantization(tmp_path, skip, finite, to, scheme, None, 128)


@pytest.mark.parametrize(("to", "scheme"), KINDS)
def test_ties_zeros_and_the_ends_of_the_numbers(tmp_path, skip, to, scheme):
    high = RANGES[to][1] if scheme == "symmetric" else sum(map(abs, RANGES[to]))
    ties = np.arange(high) + 0.5
    rows = [
        np.concatenate([ties, [high]]),  # the scale is 1
        np.zeros(high + 1),
        np.linspace(1, 2, high + 1),
        np.linspace(-2, -1, high + 1),
        np.full(high + 1, np.finfo(np.float32).max),
        np.linspace(-3.4e38, 3.4e38, high + 1),  # the span is no float
        np.linspace(-1e-40, 1e-40, high + 1),  # the scale would be subnormal
        np.full(high + 1, 1e-45),
        np.linspace(0, 2.0**-119, high + 1),
    ]
    values = np.array(rows).astype(np.float32)
    check_quantization(tmp_path, skip, values, to, scheme, 0, 0)
