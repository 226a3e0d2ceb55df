# SPDX-License-Identifier: Apache-2.0
"""Minimal WEIG files (docs/format.md, "Minimal files"), with any field wrong."""

import struct


def build(tensors, order="<", gap=0, records=None, strings=b"", **header):
    """A minimal file of [(name, dtype code, shape, data)].

    `order`: "<" or ">", of integers; data go in as they are. `gap`: bytes between one
    tensor's data and the next, and before names. `records`: {ordinal: {field: value}}
    and `header` replace fields; `strings` follow names and shapes.
    """
    table_end = 64 + 48 * len(tensors)
    text = bytes(gap)
    fields = []
    for name, dtype, shape, _ in tensors:
        name_at = table_end + len(text)
        text += name + b"\0"
        shape_at = table_end + len(text)
        text += struct.pack(f"{order}{len(shape)}Q", *shape)
        fields.append(
            {
                "name": name_at,
                "dtype": dtype,
                "pad": 0,
                "shape": shape_at,
                "rank": len(shape),
            }
        )
    text += strings
    data_offset = table_end + len(text)
    data = b""
    for field, (*_, content) in zip(fields, tensors):
        field |= {"offset": data_offset + len(data), "size": len(content)}
        data += content + bytes(gap)
    for ordinal, replaced in (records or {}).items():
        fields[ordinal] |= replaced
    values = {
        "magic": 0x57454947,
        "version": 1,
        "count": len(tensors),
        "table": 64,
        "data_offset": data_offset,
        "file_size": data_offset + len(data),
        "flags": 0,
        "reserved0": 0,
        "reserved1": 0,
    } | header
    out = struct.pack(f"{order}II7Q", *values.values())
    for field in fields:
        out += struct.pack(f"{order}QIIQQQQ", *field.values())
    return out + text + data
