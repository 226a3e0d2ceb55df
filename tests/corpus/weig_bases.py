# SPDX-License-Identifier: Apache-2.0
"""The WEIG files that the corpus starts from, by the writer made from the format's text
alone."""

import struct

import minimal_file
import weig_writer
from safetensors_file import pattern
from weig_file import CODES, DTYPES, NONE, QUANTIZATION, SHARD, Tensor, digest

GGML = {"q4_0": (2, 32, 18), "q8_0": (8, 32, 34), "mxfp4": (39, 32, 17)}
GGML |= {"nvfp4": (40, 64, 36), "q4_k": (12, 256, 144), "q6_k": (14, 256, 210)}
METADATA_TEXT = (
    rb'{"format":"pt","note":"a \"quoted\" \\ line\nend",'
    rb'"steps":{"type":"u32","value":7}}'
)


def code_of(dtype):
    return 0x1000 + GGML[dtype][0] if dtype in GGML else CODES[dtype]


def size_of(dtype, shape):
    count = 1
    for size in shape:
        count *= size
    if dtype in GGML:
        _, elements, block = GGML[dtype]
        return count // elements * block
    return -(-count * DTYPES[CODES[dtype]][1] // 8)


def content(dtype, shape, seed=1):
    """Bytes of a tensor, the spare bits of the last one zero."""
    data = bytearray(pattern(size_of(dtype, shape), seed))
    bits = 0 if dtype in GGML else DTYPES[CODES[dtype]][1]
    count = 1
    for size in shape:
        count *= size
    if data and bits and bits * count % 8:
        data[-1] &= (1 << bits * count % 8) - 1
    return bytes(data)


def described(specs):
    """(name, dtype, shape, data) of [(name, dtype, shape)]."""
    return [
        (name.encode(), dtype, tuple(shape), content(dtype, shape, i + 1))
        for i, (name, dtype, shape) in enumerate(specs)
    ]


def sealed(tensors, shares=None, **options):
    """A sealed file of (name, dtype, shape, data). `shares`: {name: set} of names that
    share their bytes."""
    made = [
        Tensor(name, code_of(dtype), shape, data, shares=(shares or {}).get(name))
        for name, dtype, shape, data in tensors
    ]
    return weig_writer.write(made, **options)


def minimal(tensors, order="<", **options):
    """A minimal file of the same."""
    stored = [
        (name, code_of(dtype), shape, swapped(dtype, data) if order == ">" else data)
        for name, dtype, shape, data in tensors
    ]
    return minimal_file.build(stored, order, **options)


def swapped(dtype, data):
    """A tensor's bytes in the other byte order."""
    unit = {"complex64": 4, "complex128": 8, "complex32": 2, "bcomplex32": 2}.get(dtype)
    unit = unit or max(DTYPES[CODES[dtype]][1] // 8, 1)
    return b"".join(data[i : i + unit][::-1] for i in range(0, len(data), unit))


def basic_tensors():
    """Groups, tied weights, an empty one, a scalar, blocks, names in two scripts."""
    tensors = described(
        [
            ("model.layers.10.mlp.weight", "bf16", (4, 8)),
            ("model.layers.2.mlp.weight", "bf16", (4, 8)),
            ("model.layers.2.mlp.bias", "f32", (4,)),
            ("model.embed.weight", "f16", (8, 4)),
            ("empty", "f32", (0, 4)),
            ("scale", "f64", ()),
            ("mask", "bool", (3,)),
            ("packed", "f4_e2m1", (2, 6)),
            ("blocks", "q8_0", (2, 32)),
            ("层.0.β", "i64", (2,)),
        ]
    )
    tied = tensors[3][3]
    tensors.append((b"lm_head.weight", "f16", (8, 4), tied))
    tensors.append((b"lm_head.flat", "u16", (32,), tied))
    return tensors


TIED = {n: 0 for n in (b"model.embed.weight", b"lm_head.weight", b"lm_head.flat")}


def basic():
    return sealed(basic_tensors(), TIED, metadata=METADATA_TEXT)


def every_section_tensors():
    return described(
        [
            ("blk.0.q", "i8", (4, 8)),
            ("blk.0.q.scale", "f32", (4,)),
            ("blk.0.q.zero", "i8", (4,)),
            ("blk.1.q", "i8", (4, 8)),
            ("blk.1.q.scale", "f32", (1,)),
        ]
    )


def every_section(more=None):
    """All seven kinds. The source section holds its ordinals, encoding 1."""
    header = b"{}".ljust(56)

    def source(ordinals):
        head = struct.pack("<IIQQ", 1, 1, 1000, 64)
        head += digest(struct.pack("<Q", 56) + header)
        return head + struct.pack("<5I", *range(len(ordinals)))

    quantization = struct.pack("<II", 2, 0)
    quantization += struct.pack("<8I", 0, 1, 0, 0, 1, 2, NONE, 0)
    quantization += struct.pack("<8I", 3, 1, NONE, 0, 4, NONE, NONE, 0)
    shard = struct.pack("<QQIIQ", 0x1122334455667788, 0x99AABBCCDDEEFF00, 0, 2, 9)
    sections = {QUANTIZATION: quantization, SHARD: shard} | (more or {})
    return sealed(
        every_section_tensors(),
        metadata=b'{"format":"pt"}',
        source=source,
        more=sections,
    )
