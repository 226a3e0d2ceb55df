# SPDX-License-Identifier: Apache-2.0
"""Files that are large, or say so, and take next to no room on the disk."""

import os
import struct

import minimal_file
import weig_writer
from bent import Bent
from safetensors_file import assemble, entry
from weig_file import Tensor


def safetensors(path, size, cut=0):
    """One tensor "t" of so many zeros, and a file that ends so many bytes before it."""
    header = assemble({"t": entry("U8", [size], 0, size)}, pad=8)
    path.write_bytes(header)
    os.truncate(path, len(header) + size - cut)
    return path


def sealed(path, size, cut=0):
    """The same as a WEIG file, but for the digest of its data."""
    file = Bent(weig_writer.write([Tensor(b"t", 4, (1,), b"\0")]))
    at, begin = file.record(b"t"), file.get(24)
    trailer = begin + -(-size // 64) * 64
    file.put(file.get(at + 16), size).put(at + 40, size).put(32, trailer + 64)
    file.put(file.trailer + 8, trailer + 64)
    file.reseal()
    path.write_bytes(file.raw[:begin])
    with open(path, "r+b") as opened:
        opened.seek(trailer)
        opened.write(file.raw[-64:])
    os.truncate(path, trailer + 64 - cut)
    return path


def minimal(path, size, order="<", **header):
    """A minimal file of no tensors but what `header` says, and so many bytes."""
    path.write_bytes(minimal_file.build([], order, file_size=size, **header))
    os.truncate(path, size)
    return path


def names_that_overlap(count, order="<"):
    """A minimal file of empty tensors. Each name is the end of one that has 65,535
    bytes."""
    longest = b"x" * 65_535 + b"\0"
    table = 64 + 48 * count
    text = longest + struct.pack(f"{order}Q", 0)
    end = table + len(text)
    records = b"".join(
        struct.pack(
            f"{order}QIIQQQQ", table + i, 4, 0, table + len(longest), 1, end, 0
        )
        for i in range(count)
    )
    head = (0x57454947, 1, count, 64, end, end, 0, 0, 0)
    return struct.pack(f"{order}II7Q", *head) + records + text
