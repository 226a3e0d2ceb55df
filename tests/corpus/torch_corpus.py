# SPDX-License-Identifier: Apache-2.0
"""PyTorch checkpoints that must convert, and that must be refused."""

import collections
import zipfile

import torch_file as torch
from corpus import Accepted, Refused
from safetensors_file import pattern

CORRUPT, UNSUPPORTED, LIMIT = "corrupt", "unsupported", "limit"
OPTIONS = ("convert",)
A = ("f32", (2, 3), pattern(24))
B = ("u8", (5,), pattern(5, 2))


def _two():
    a = torch.raw_tensor("float32", A[1], A[2])
    return {"a": a, "b": torch.raw_tensor("uint8", B[1], B[2])}


def accepted():
    def made(name, about, tensors, raw):
        expected = [(n.encode(), *t) for n, t in tensors.items()]
        return Accepted(f"torch_{name}.pt", raw, "pytorch", about, expected, OPTIONS)

    two = {"a": A, "b": B}
    for kind, writer in torch.WRITERS.items():
        for protocol in (2, 3, 4, 5):
            raw = writer(collections.OrderedDict(_two()), protocol)
            yield made(f"{kind}_{protocol}", "C17", two, raw)
        yield made(f"{kind}_empty", "C02", {}, writer({}))
        nested = {"model": _two(), "epoch": 3, "more": [None, _two()["b"]]}
        named = {"model.a": A, "model.b": B, "more.1": B}
        yield made(f"{kind}_nested", "C19", named, writer(nested))
        storage = torch.Storage("uint8", B[2])
        views = {"v": torch.Tensor(storage, (2,), (3,), 1)}
        view = {"v": ("u8", (2,), B[2][1::3])}
        yield made(f"{kind}_view", "C13, C15", view, writer(views))
    raw = torch.archive(_two(), folder="weights v2", byteorder=None)
    yield made("folder", "C17", two, raw)
    raw = torch.archive(_two(), packing=zipfile.ZIP_DEFLATED)
    yield made("deflated", "C49", two, raw)


def rows():
    """(name, about, code, says, file)."""
    system = torch.Called(torch.Named("os", "system"), ("true",))
    model = torch.Called(torch.Named("my.models", "Net"), ())
    quantized = torch.Called(torch.Named("torch._utils", "_rebuild_qtensor"), (1,))
    far = torch.Tensor(torch.Storage("uint8", b"12345678"), (3,), (4,))
    huge = torch.Tensor(torch.Storage("uint8", b"x"), (1 << 30, 1 << 20), (0, 0))
    for kind, writer in torch.WRITERS.items():
        raw = writer(_two() | {"evil": system})
        yield f"{kind}_harm", "C46", UNSUPPORTED, "nothing was run", raw
        raw = writer(model)
        yield f"{kind}_model", "C17", UNSUPPORTED, "state_dict", raw
        raw = writer({"q": quantized})
        yield f"{kind}_quantized", "", UNSUPPORTED, "tensor 'q'", raw
        raw = writer({"far": far})
        yield f"{kind}_far", "C39", CORRUPT, "beyond its storage", raw
        raw = writer({"huge": huge})
        yield f"{kind}_huge", "C52", LIMIT, "--max-expansion", raw
        raw = writer({"a.a": _two()["a"], "a": _two()})
        yield f"{kind}_name_twice", "C55", CORRUPT, "same name", raw
        raw = writer(_two())
        yield f"{kind}_cut", "C36", CORRUPT, "cut", raw[:-1]
    raw = torch.archive(_two(), byteorder="middle")
    yield "byte_order", "C21", CORRUPT, "neither little nor big", raw
    raw = torch.stream(_two())
    yield "two_streams", "C90", CORRUPT, "after the last storage", raw + raw


def refused():
    for name, about, code, says, raw in rows():
        file = f"torch_{name}.pt"
        yield Refused(file, raw, "pytorch", about, code, says, options=OPTIONS)
