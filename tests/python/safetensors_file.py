# SPDX-License-Identifier: Apache-2.0
"""safetensors files for tests: made by the reference package, and made by hand.

A file of the reference obeys all rules. One made by hand breaks what it is told to.
"""

import ctypes
import json
import struct
from dataclasses import dataclass

import safetensors

# Name in a header -> what the reference calls it, or None where its Python face has no
# name for it; bits an element.
DTYPES = {
    "BOOL": ("bool", 8),
    "F4": ("float4_e2m1fn_x2", 4),
    "F6_E2M3": (None, 6),
    "F6_E3M2": (None, 6),
    "U8": ("uint8", 8),
    "I8": ("int8", 8),
    "F8_E5M2": ("float8_e5m2", 8),
    "F8_E4M3": ("float8_e4m3fn", 8),
    "F8_E8M0": ("float8_e8m0fnu", 8),
    "F8_E4M3FNUZ": ("float8_e4m3fnuz", 8),
    "F8_E5M2FNUZ": ("float8_e5m2fnuz", 8),
    "I16": ("int16", 16),
    "U16": ("uint16", 16),
    "F16": ("float16", 16),
    "BF16": ("bfloat16", 16),
    "I32": ("int32", 32),
    "U32": ("uint32", 32),
    "F32": ("float32", 32),
    "C64": ("complex64", 64),
    "F64": ("float64", 64),
    "I64": ("int64", 64),
    "U64": ("uint64", 64),
}


def byte_count(dtype, shape):
    bits = DTYPES[dtype][1]
    for size in shape:
        bits *= size
    assert bits % 8 == 0
    return bits // 8


def pattern(size, seed=1):
    """Bytes without period, so that a byte in the wrong place shows."""
    word = (seed * 2654435761 + 12345) & 0xFFFFFFFF
    out = bytearray(size)
    for i in range(size):
        word = (word * 1664525 + 1013904223) & 0xFFFFFFFF
        out[i] = word >> 24
    return bytes(out)


def by_reference(tensors, metadata=None):
    """The file that the reference package makes of {name: (dtype, shape, data)}."""
    specs, kept = {}, []
    for name, (dtype, shape, data) in tensors.items():
        buffer = ctypes.create_string_buffer(data, max(len(data), 1))
        kept.append(buffer)
        shape = list(shape)
        if dtype == "F4":  # it counts pairs
            shape[-1] //= 2
        specs[name] = safetensors.TensorSpec(
            dtype=DTYPES[dtype][0],
            shape=shape,
            data_ptr=ctypes.addressof(buffer),
            data_len=len(data),
        )
    return safetensors.serialize(specs, metadata)


def read_by_reference(raw):
    """{name: (dtype, shape, data)} as the reference package reads a file's bytes."""
    return {
        name: (t["dtype"], tuple(t["shape"]), bytes(t["data"]))
        for name, t in safetensors.deserialize(raw)
    }


def entry(dtype, shape, begin, end):
    """What a header says of one tensor."""
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def f32(*sizes, begin=0, end=None):
    """The same of F32, with the right end unless another is given."""
    count = 4
    for size in sizes:
        count *= size
    return entry("F32", sizes, begin, begin + count if end is None else end)


def assemble(header, data=b"", length=None, pad=0):
    """A file of a header (text, bytes, or what JSON can express) and its data. `pad`:
    fill the header up with spaces to a multiple of it. `length`: what to claim."""
    if not isinstance(header, (str, bytes)):
        header = json.dumps(header, ensure_ascii=False, separators=(",", ":"))
    if isinstance(header, str):
        header = header.encode()
    if pad:
        header += b" " * (-len(header) % pad)
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def by_hand(tensors, metadata=None, pad=8):
    """A strict file of {name: (dtype, shape, data)}, in the order given."""
    header, data = {}, b""
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, (dtype, shape, content) in tensors.items():
        header[name] = entry(dtype, shape, len(data), len(data) + len(content))
        data += content
    return assemble(header, data, pad=pad)


@dataclass
class Sample:
    """A small sound file and what is in it."""

    raw: bytes
    tensors: dict


def sample():
    """A few tensors of several types, with groups, a scalar and metadata."""
    tensors = {}
    for layer in (0, 1, 2, 10):
        for part, size in (("attn.weight", 96), ("mlp.weight", 40)):
            name = f"model.layers.{layer}.{part}"
            tensors[name] = ("F16", (size // 8, 4), pattern(size, layer * 2 + size))
    tensors["model.embed.weight"] = ("F32", (30, 8), pattern(960))
    tensors["model.norm.bias"] = ("BF16", (7,), pattern(14))
    tensors["model.step"] = ("I64", (), pattern(8))
    return Sample(by_reference(tensors, {"format": "pt"}), tensors)
