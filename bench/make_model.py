# SPDX-License-Identifier: Apache-2.0
# Makes safetensors files to measure with.
#   make_model.py transformer LAYERS FILE   layers of a 7-billion model, fp16; 10 are
#                                           4.6 GB, all 32 of them 13.5 GB
#   make_model.py brain LAYERS FILE         the same, bf16
#   make_model.py narrow LAYERS FILE        layers of 159 MB, bf16; 27 are 4.6 GB
#   make_model.py small COUNT FILE          COUNT tensors of 64 bytes
#   make_model.py sparse BYTES FILE         one tensor of zeros that take no space
import json
import math
import os
import random
import struct
import sys

WIDE, NARROW = (4096, 11008), (2560, 6912)  # sizes of a layer: hidden, inner
WORDS = 32000
PIECE = 32 << 20


def transformer(layers, sizes):
    hidden, inner = sizes
    yield "model.embed_tokens.weight", [WORDS, hidden]
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", [hidden]
        yield prefix + "mlp.down_proj.weight", [hidden, inner]
        yield prefix + "mlp.gate_proj.weight", [inner, hidden]
        yield prefix + "mlp.up_proj.weight", [inner, hidden]
        yield prefix + "post_attention_layernorm.weight", [hidden]
        for name in "kqvo":
            yield prefix + f"self_attn.{name}_proj.weight", [hidden, hidden]
    yield "model.norm.weight", [hidden]
    yield "lm_head.weight", [WORDS, hidden]


def small(count):
    for i in range(count):
        yield f"model.layers.{i // 8}.mlp.w{i % 8}.weight", [16]


def header_of(dtype, width, tensors):
    """The front of a file with these tensors, and how many bytes of data follow it."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in tensors:
        begin, end = end, end + width * math.prod(shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text, end


# By type: what the upper byte of a number becomes, so that it is of the size of weights.
UPPER = {
    "F16": bytes(i & 0x80 | 0x20 | i & 0x0F for i in range(256)),
    "BF16": bytes(i & 0x80 | 0x3C for i in range(256)),
}


def write(path, dtype, width, tensors):
    front, end = header_of(dtype, width, tensors)
    noise = bytearray(random.Random(1).randbytes(min(PIECE, end)))
    if dtype in UPPER:
        noise[1::2] = noise[1::2].translate(UPPER[dtype])
    with open(path, "wb") as file:
        file.write(front)
        for begin in range(0, end, PIECE):
            piece = struct.pack("<Q", begin) + noise[8:]  # no two pieces alike
            file.write(piece[: end - begin])
        file.flush()
        os.fsync(file.fileno())


def write_sparse(path, size):
    front, end = header_of("U8", 1, [("zeros", [size])])
    with open(path, "wb") as file:
        file.write(front)
        file.truncate(len(front) + end)


kind, number, path = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if kind == "transformer":
    write(path, "F16", 2, transformer(number, WIDE))
elif kind in ("brain", "narrow"):
    write(path, "BF16", 2, transformer(number, WIDE if kind == "brain" else NARROW))
elif kind == "small":
    write(path, "F32", 4, small(number))
else:
    write_sparse(path, number)
