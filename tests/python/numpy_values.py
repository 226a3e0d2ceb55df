# SPDX-License-Identifier: Apache-2.0
"""Every element type's values as NumPy and ml_dtypes have them."""

import math
import re

import ml_dtypes
import numpy as np

import weig_file

# What each type is to NumPy, and what --widen makes of it where NumPy lacks it.
NUMPY = {
    "f32": "f4",
    "f16": "f2",
    "f64": "f8",
    "i8": "i1",
    "u8": "u1",
    "i16": "i2",
    "u16": "u2",
    "i32": "i4",
    "u32": "u4",
    "i64": "i8",
    "u64": "u8",
    "bool": "?",
    "complex64": "c8",
    "complex128": "c16",
}
WIDENED = {
    "bf16": (ml_dtypes.bfloat16, "f4"),
    "f8_e4m3fn": (ml_dtypes.float8_e4m3fn, "f4"),
    "f8_e5m2": (ml_dtypes.float8_e5m2, "f4"),
    "f8_e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, "f4"),
    "f8_e5m2fnuz": (ml_dtypes.float8_e5m2fnuz, "f4"),
    "f8_e8m0": (ml_dtypes.float8_e8m0fnu, "f4"),
    "f8_e4m3": (ml_dtypes.float8_e4m3, "f4"),
    "f8_e3m4": (ml_dtypes.float8_e3m4, "f4"),
    "f8_e4m3b11fnuz": (ml_dtypes.float8_e4m3b11fnuz, "f4"),
    "f6_e2m3": (ml_dtypes.float6_e2m3fn, "f4"),
    "f6_e3m2": (ml_dtypes.float6_e3m2fn, "f4"),
    "f4_e2m1": (ml_dtypes.float4_e2m1fn, "f4"),
    "i4": (ml_dtypes.int4, "i1"),
    "u4": (ml_dtypes.uint4, "u1"),
    "i2": (ml_dtypes.int2, "i1"),
    "u2": (ml_dtypes.uint2, "u1"),
    "i1": (ml_dtypes.int1, "i1"),
    "u1": (ml_dtypes.uint1, "u1"),
    "complex32": (ml_dtypes.complex32, "c8"),
    "bcomplex32": (ml_dtypes.bcomplex32, "c8"),
}
# Their shortest text is shorter than that of the same float32.
SHORTER = {
    "bf16": ml_dtypes.bfloat16,
    "complex32": np.float16,
    "bcomplex32": ml_dtypes.bfloat16,
}
assert sorted([*NUMPY, *WIDENED]) == sorted(weig_file.CODES)


def bits_of(dtype):
    return weig_file.DTYPES[weig_file.CODES[dtype]][1]


def unpack(data, count, bits):
    """Elements below a byte, from the least significant bit up, as one byte each."""
    number = int.from_bytes(data, "little")
    mask = (1 << bits) - 1
    return np.array([number >> bits * i & mask for i in range(count)], np.uint8)


def pack(codes, bits):
    number = sum(int(code) << bits * i for i, code in enumerate(codes))
    return number.to_bytes(-(-len(codes) * bits // 8), "little")


def stored_array(dtype, shape, data):
    """The codes as NumPy holds them: one item an element, of the type's own width."""
    if bits_of(dtype) < 8:
        return unpack(data, math.prod(shape), bits_of(dtype)).reshape(shape)
    kind = NUMPY.get(dtype) or WIDENED[dtype][0]
    return np.frombuffer(data, np.dtype(f"V{np.dtype(kind).itemsize}")).reshape(shape)


def value_array(dtype, stored):
    """The values of such an array, in NumPy's own types."""
    stored = np.array(stored)  # contiguous
    if dtype == "bool":
        return stored.view("u1") != 0
    if dtype in NUMPY:
        return stored.view(NUMPY[dtype])
    with np.errstate(invalid="ignore"):
        return stored.view(WIDENED[dtype][0]).astype(WIDENED[dtype][1])


def raw_bytes(dtype, stored):
    if bits_of(dtype) < 8:
        return pack(stored.reshape(-1), bits_of(dtype))
    return stored.tobytes()


def same_bits(found, expected):
    """Equal in type, shape and value; NaN equals NaN, and -0 is not 0."""
    assert found.dtype == expected.dtype and found.shape == expected.shape
    if found.dtype.kind == "c":
        part = "f4" if found.dtype.itemsize == 8 else "f8"
        found, expected = (np.array(a)[..., None].view(part) for a in (found, expected))
    np.testing.assert_array_equal(found, expected)
    if found.dtype.kind == "f":
        numbers = ~np.isnan(found)
        assert np.array_equal(np.signbit(found)[numbers], np.signbit(expected)[numbers])


def parse(text, kind):
    """The array of NumPy type `kind` that a text says, exactly."""
    if "c" in kind.str:  # as Python would print it: an expression would lose -0
        text = re.sub(r"[^\[\], \n]+", lambda number: f'complex("{number[0]}")', text)
    names = {"nan": math.nan, "inf": math.inf, "complex": complex}
    values = eval(text, {"__builtins__": {}}, names)
    if kind.kind in "iub":
        return np.array(values, dtype=kind)
    return np.array(values).astype(kind)


def assert_text_means(dtype, text, stored):
    """Read back into the type, the text gives the codes that are stored."""
    expected = value_array(dtype, stored)
    if 0 in expected.shape:
        assert text.strip() == "[]"
    else:
        same_bits(parse(text, expected.dtype), expected)
