# SPDX-License-Identifier: Apache-2.0
"""GGUF files, written by hand: every field in reach, so that one can be wrong alone."""

import struct

import numpy as np

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
_FORMATS = dict(
    zip((U8, I8, U16, I16, U32, I32, F32, BOOL, U64, I64, F64), "BbHhIif?QqD")
)
_FORMATS[F64] = "d"
PLAIN = {
    "float32": 0,
    "float16": 1,
    "int8": 24,
    "int16": 25,
    "int32": 26,
    "int64": 27,
    "float64": 28,
    "bfloat16": 30,
}


def text(value, order="<"):
    data = value.encode() if isinstance(value, str) else value
    return struct.pack(order + "Q", len(data)) + data


def value_bytes(kind, value, order="<"):
    if kind == STRING:
        return text(value, order)
    if kind == ARRAY:
        of, values = value
        head = struct.pack(order + "IQ", of, len(values))
        if of in _FORMATS and len(values) > 1000:
            kind = {"f": "f4", "d": "f8"}.get(_FORMATS[of])
            kind = kind or ("i" if _FORMATS[of].islower() else "u") + str(
                struct.calcsize(_FORMATS[of])
            )
            return head + np.array(values).astype(order + kind).tobytes()
        return head + b"".join(value_bytes(of, v, order) for v in values)
    return struct.pack(order + _FORMATS[kind], value)


def tensor(array, order="<"):
    """(dims, fastest first; type; bytes) of a NumPy array."""
    data = np.ascontiguousarray(array)
    if order == ">" and data.dtype.itemsize > 1:
        data = data.view(f"V{data.dtype.itemsize}").view(
            f"u{data.dtype.itemsize}"
        )
        data = data.byteswap()
    return list(array.shape[::-1]), PLAIN[array.dtype.name], data.tobytes()


def gguf(
    keys=(),
    tensors=(),
    *,
    version=3,
    order="<",
    alignment=None,
    mark=b"GGUF",
    offsets=None,
    key_count=None,
    tensor_count=None,
    padding=b"\0",
    end_padding=True,
    tail=b"",
):
    """keys: (name, kind, value); tensors: (name, dims, type, bytes)."""
    keys = list(keys)
    if alignment is not None:
        keys.append(("general.alignment", U32, alignment))
    step = alignment or 32
    out = bytearray(mark + struct.pack(order + "I", version))
    out += struct.pack(
        order + "QQ",
        len(tensors) if tensor_count is None else tensor_count,
        len(keys) if key_count is None else key_count,
    )
    for name, kind, value in keys:
        out += text(name, order) + struct.pack(order + "I", kind)
        out += value_bytes(kind, value, order)
    at, data = 0, bytearray()
    for i, (name, dims, kind, content) in enumerate(tensors):
        offset = len(data) if offsets is None else offsets[i]
        out += text(name, order) + struct.pack(order + "I", len(dims))
        out += struct.pack(f"{order}{len(dims)}Q", *dims)
        out += struct.pack(order + "IQ", kind, offset)
        data += content
        if i + 1 < len(tensors) or end_padding:
            data += padding * (-len(data) % step)
        at += 1
    if tensors:
        out += padding * (-len(out) % step)
    return bytes(out + data + tail)
