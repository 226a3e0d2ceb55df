# SPDX-License-Identifier: Apache-2.0
"""NumPy's files that must convert, and that must be refused."""

import io
import struct
import zipfile

from corpus import Accepted, Refused
from safetensors_file import pattern

CORRUPT, UNSUPPORTED = "corrupt", "unsupported"
OPTIONS = ("convert",)
A, B = pattern(24), pattern(5, 2)
F32, U8 = ("f32", (2, 3), A), ("u8", (5,), B)


def npy(descr, shape, data, order=False, version=1):
    """An array's file, spelled by hand."""
    text = f"{{'descr': {descr!r}, 'fortran_order': {order}, 'shape': {shape}, }}"
    front = 8 + (2 if version == 1 else 4)
    text += " " * (-(front + len(text) + 1) % 64) + "\n"
    length = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + length + text.encode() + data


def npz(members, packing=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", packing) as archive:
        for name, raw in members:
            info = zipfile.ZipInfo(name)
            info.compress_type = packing
            archive.writestr(info, raw)
    return out.getvalue()


def swapped(data, width):
    cut = (data[i : i + width] for i in range(0, len(data), width))
    return b"".join(part[::-1] for part in cut)


def columns(data):
    """2 x 3 elements of 4 bytes, in column-major order."""
    parts = [data[i : i + 4] for i in range(0, 24, 4)]
    return b"".join(parts[row * 3 + column] for column in range(3) for row in range(2))


ARRAY_A, ARRAY_B = npy("<f4", (2, 3), A), npy("|u1", (5,), B)
TWO = [("a.npy", ARRAY_A), ("b.npy", ARRAY_B)]


def accepted():
    def made(name, about, tensors, raw):
        expected = [(n.encode(), *t) for n, t in tensors.items()]
        return Accepted(f"numpy_{name}", raw, "numpy", about, expected, OPTIONS)

    for version in (1, 2, 3):
        raw = npy("<f4", (2, 3), A, version=version)
        name = f"version_{version}"
        yield made(f"{name}.npy", "", {f"numpy_{name}": F32}, raw)
    raw = npy("<f4", (2, 3), columns(A), order=True)
    yield made("columns.npy", "C27", {"numpy_columns": F32}, raw)
    raw = npy(">f4", (2, 3), swapped(A, 4))
    yield made("big_endian.npy", "C21", {"numpy_big_endian": F32}, raw)
    raw = npy("<f8", (), bytes(8))
    yield made("scalar.npy", "C27", {"numpy_scalar": ("f64", (), bytes(8))}, raw)
    yield made("empty.npz", "C02", {}, npz([]))
    two = {"a": F32, "b": U8}
    yield made("two.npz", "", two, npz(TWO))
    yield made("packed.npz", "C49", two, npz(TWO, zipfile.ZIP_DEFLATED))
    turned = npy(">f4", (2, 3), swapped(columns(A), 4), order=True)
    raw = npz([("a.npy", turned), ("b", ARRAY_B), ("c.txt", b"c")], zipfile.ZIP_DEFLATED)
    yield made("packed_columns.npz", "C21, C27", two, raw)


def rows():
    """(name, about, code, says, file)."""
    yield "objects.npy", "C29", UNSUPPORTED, "Python objects", npy("|O", (1,), b"\x80\4N.")
    yield "raw.npy", "C82", UNSUPPORTED, "raw bytes", npy("|V2", (1,), b"ab")
    yield "cut.npy", "C36", CORRUPT, "cut", ARRAY_A[:-1]
    yield "two.npy", "C90", CORRUPT, "after the array", ARRAY_A + ARRAY_B
    text = [("t.npy", npy("<U1", (1,), b"a\0\0\0"))]
    yield "text.npz", "C29", UNSUPPORTED, "tensor 't'", npz(TWO + text)
    yield "key_twice.npz", "C55", CORRUPT, "called the same", npz([*TWO, ("a", b"x")])
    yield "longer.npz", "C49", CORRUPT, "tensor 'a'", npz([("a.npy", ARRAY_A + b"x")])
    yield "cut.npz", "C36", CORRUPT, "cut", npz(TWO)[:-1]
    yield "others.npz", "C93", CORRUPT, "other things", npz([("a.txt", b"x")])


def refused():
    for name, about, code, says, raw in rows():
        lenient = name in ("two.npy", "text.npz")
        yield Refused(
            f"numpy_{name}", raw, "numpy", about, code, says, options=OPTIONS,
            lenient=lenient,
        )  # fmt: skip
