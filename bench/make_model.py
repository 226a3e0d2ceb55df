# SPDX-License-Identifier: Apache-2.0
# Makes safetensors files to measure with.
#   make_model.py transformer FILE   4.6 GB: ten layers of a 7-billion model, fp16
#   make_model.py small COUNT FILE   COUNT tensors of 64 bytes
import json
import math
import os
import random
import struct
import sys

HIDDEN, INNER, WORDS, LAYERS = 4096, 11008, 32000, 10
PIECE = 32 << 20


def transformer():
    yield "model.embed_tokens.weight", [WORDS, HIDDEN]
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", [HIDDEN]
        yield prefix + "mlp.down_proj.weight", [HIDDEN, INNER]
        yield prefix + "mlp.gate_proj.weight", [INNER, HIDDEN]
        yield prefix + "mlp.up_proj.weight", [INNER, HIDDEN]
        yield prefix + "post_attention_layernorm.weight", [HIDDEN]
        for name in "kqvo":
            yield prefix + f"self_attn.{name}_proj.weight", [HIDDEN, HIDDEN]
    yield "model.norm.weight", [HIDDEN]
    yield "lm_head.weight", [WORDS, HIDDEN]


def small(count):
    for i in range(count):
        yield f"model.layers.{i // 8}.mlp.w{i % 8}.weight", [16]


def write(path, dtype, width, tensors):
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in tensors:
        begin, end = end, end + width * math.prod(shape)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    noise = random.Random(1).randbytes(min(PIECE, end))
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for begin in range(0, end, PIECE):
            piece = struct.pack("<Q", begin) + noise[8:]  # no two pieces alike
            file.write(piece[: end - begin])
        file.flush()
        os.fsync(file.fileno())


if sys.argv[1] == "transformer":
    write(sys.argv[2], "F16", 2, transformer())
else:
    write(sys.argv[3], "F32", 4, small(int(sys.argv[2])))
