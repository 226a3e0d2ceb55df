# SPDX-License-Identifier: Apache-2.0
"""Casts and affine quantization in NumPy and ml_dtypes, by the rules of
docs/quantization.md: what the command and the library are compared with."""

import ml_dtypes
import numpy as np

TYPES = {
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
}
RANGES = {"i8": (-128, 127), "u8": (0, 255), "i4": (-8, 7), "u4": (0, 15)}


def words(values):
    return values.view({1: np.uint8, 2: np.uint16, 4: np.uint32}[values.itemsize])


def expected_cast(values, to):
    """The rules of docs/quantization.md on top of casts by NumPy and ml_dtypes."""
    wide = values.astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        if to == "f8_e4m3fn":
            out = np.clip(wide, np.float32(-448), np.float32(448)).astype(TYPES[to])
        else:
            out = wide.astype(TYPES[to])
    # NaN: its sign, quiet, and the leading bits of its payload.
    nan = np.isnan(wide)
    result = words(out).astype(np.uint64)
    if to == "f8_e4m3fn":
        code = np.full(wide.shape, 0x7F, np.uint64)
    else:
        code = nan_payload(values, to)
    sign = words(values).astype(np.uint64) >> np.uint64(8 * values.itemsize - 1)
    code |= sign << np.uint64(8 * out.itemsize - 1)
    return np.where(nan, code, result).astype(words(out).dtype)


FIELDS = {"f32": (8, 23), "f16": (5, 10), "bf16": (8, 7), "f8_e4m3fn": (4, 3)}


def nan_payload(values, to):
    """What NaN is in the type `to`, without its sign: quiet, and with the leading bits
    of the mantissa that it has in `values`."""
    source = next(name for name, dtype in TYPES.items() if dtype == values.dtype)
    bits_in, bits_out = FIELDS[source][1], FIELDS[to][1]
    mantissa = words(values).astype(np.uint64) & np.uint64((1 << bits_in) - 1)
    if source == "f8_e4m3fn":
        mantissa = np.zeros_like(mantissa)  # its one NaN has no payload
    if bits_in > bits_out:
        mantissa >>= np.uint64(bits_in - bits_out)
    else:
        mantissa <<= np.uint64(bits_out - bits_in)
    exponent = ((1 << FIELDS[to][0]) - 1) << bits_out
    return mantissa | np.uint64(exponent | 1 << (bits_out - 1))


def blocks(shape, axis, block):
    """For every element, the number of its scale; and the shape of the scales."""
    if axis is None and not block:
        return np.zeros(shape, np.int64), ()
    if not block:
        numbers = np.arange(shape[axis])
        broad = [shape[axis] if i == axis else 1 for i in range(len(shape))]
        return np.broadcast_to(numbers.reshape(broad), shape), (shape[axis],)
    a_row = -(-shape[-1] // block)
    rows = np.arange(np.prod(shape[:-1], dtype=np.int64))[:, None] * a_row
    numbers = rows + np.arange(shape[-1])[None, :] // block
    return numbers.reshape(shape), (*shape[:-1], a_row)


def expected_quantization(values, to, scheme, axis, block):
    """ONNX QuantizeLinear with the scales of docs/quantization.md, in f32 of NumPy."""
    low, high = RANGES[to]
    wide = values.astype(np.float32)
    numbers, _ = blocks(values.shape, axis, block)
    count = numbers.max() + 1
    largest, least = np.zeros(count, np.float32), np.zeros(count, np.float32)
    np.maximum.at(largest, numbers.ravel(), wide.ravel())
    np.minimum.at(least, numbers.ravel(), wide.ravel())
    if scheme == "symmetric":
        scale = np.maximum(largest, -least) / np.float32(high)
    else:
        span = largest.astype(np.float64) - least.astype(np.float64)
        scale = (span / (high - low)).astype(np.float32)
    scale = np.maximum(scale, np.float32(2.0**-126))
    scale[(largest == 0) & (least == 0)] = 1
    zero = np.zeros(count, np.float32)
    if scheme == "asymmetric":
        zero = np.clip(np.rint(np.float32(low) - least / scale), low, high)
    quotients = np.rint(wide / scale[numbers])
    q = np.clip(quotients + zero[numbers], low, high).astype(np.int32)
    back = (q - zero[numbers].astype(np.int32)).astype(np.float32) * scale[numbers]
    return q, scale, zero.astype(np.int32), back


def unpack(data, to, count):
    """The integers in bytes of codes."""
    data = np.frombuffer(data, np.uint8)
    if to in ("i8", "u8"):
        return data.view(np.int8 if to == "i8" else np.uint8).astype(np.int32)
    halves = np.stack([data & 15, data >> 4], axis=1).ravel().astype(np.int32)
    assert not halves[count:].any()  # the spare half
    halves = halves[:count]
    return np.where(halves > 7, halves - 16, halves) if to == "i4" else halves
