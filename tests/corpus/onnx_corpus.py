# SPDX-License-Identifier: Apache-2.0
"""ONNX models that must convert, and that must be refused. One file each: what lies in
other files is in tests/python/test_onnx.py."""

import onnx_file as onnx
from corpus import Accepted, Refused
from safetensors_file import pattern

CORRUPT, UNSUPPORTED, LIMIT = "corrupt", "unsupported", "limit"
U8 = onnx.UINT8
OPTIONS = ("convert",)


def tensor_of(name, data_type, shape):
    """(name, number of the type, shape, bytes whose spare bits are 0)."""
    data = bytearray(pattern(onnx.byte_count(data_type, shape), data_type + len(shape)))
    spare = 8 * len(data) - onnx.elements_in(shape) * onnx.TYPES[data_type][0]
    if spare:
        data[-1] &= 0xFF >> spare
    return name, data_type, shape, bytes(data)


def expected(*tensors):
    return [
        (n.encode(), onnx.TYPES[t][1], shape, data) for n, t, shape, data in tensors
    ]


TWO = [tensor_of("a", onnx.FLOAT, (2, 3)), tensor_of("b", U8, (5,))]


def accepted():
    def made(name, about, tensors, raw):
        file = f"onnx_{name}.onnx"
        return Accepted(file, raw, "onnx", about, expected(*tensors), OPTIONS)

    ways = {"raw": onnx.raw, "packed": onnx.packed, "one_by_one": onnx.one_by_one}
    for way, make in ways.items():
        tensors = [
            tensor_of(f"t{number}_{len(shape)}", number, shape)
            for number in onnx.TYPES
            for shape in ((3, 5), (2,), ())
        ]
        raw = onnx.of(*(make(*tensor) for tensor in tensors))
        yield made(f"types_{way}", "C34", tensors, raw)
    signed = [tensor_of(f"t{n}", n, (7,)) for n in (2, 3, 4, 9, 10, 16, 22)]
    raw = onnx.of(*(onnx.packed(*tensor, signed=True) for tensor in signed))
    yield made("signed", "C34: bits as negative numbers", signed, raw)
    empty = [tensor_of("a", onnx.FLOAT, (0,)), tensor_of("b", 7, (2, 0))]
    raw = onnx.of(*(onnx.head(*tensor[:3]) for tensor in empty))
    yield made("empty", "C34: no data field", empty, raw)
    raw = onnx.model(onnx.graph([], [onnx.constant(t[0], onnx.raw(*t)) for t in TWO]))
    yield made("constants", "C32", TWO, raw)
    inner = onnx.text(1, "body") + onnx.text(6, onnx.graph([onnx.raw(*TWO[0])]))
    raw = onnx.model(onnx.graph([onnx.raw(*TWO[1])], [onnx.node("Loop", "y", inner)]))
    nested = [("y/body/a", *TWO[0][1:]), TWO[1]]
    yield made("graph_in_a_graph", "C32", nested, raw)
    two = onnx.graph([onnx.raw(*t) for t in TWO])
    raw = onnx.number(1, 3) + onnx.text(7, two)
    yield made("says_nothing_of_itself", "the graph at once", TWO, raw)
    raw = onnx.model(two, more=onnx.text(99, "?") + onnx.number(1000, 5))
    yield made("unknown_fields", "what later versions may add", TWO, raw)
    raw = onnx.of(*(onnx.raw(*t) for t in TWO), onnx.head("s", onnx.STRING, (0,)))
    yield made("strings", "they are left behind", TWO, raw)
    yield made("no_tensors", "C32", [], onnx.of())


def rows():
    """(name, about, code, says, file)."""
    raw = onnx.raw(*TWO[0])
    for size in (10, 21, len(onnx.of(raw)) - 20):
        yield f"cut_at_{size}", "C36", CORRUPT, "ends behind", onnx.of(raw)[:size]
    for by in (-1, 1):
        data = bytes(24 + by)
        bad = onnx.raw("w", onnx.FLOAT, (2, 3), data)
        yield f"raw_of_{24 + by}", "C34", CORRUPT, "expected 24 bytes", onnx.of(bad)
        numbers = onnx.head("w", U8, (9,)) + onnx.text(5, bytes(9 + by))
        says = f"found {9 + by} numbers"
        yield f"numbers_{9 + by}", "C34", CORRUPT, says, onnx.of(numbers)
    for value in (256, -129, 2**40):
        bad = onnx.head("w", U8, (1,)) + onnx.number(5, value)
        yield f"u8_{value}", "C34", CORRUPT, "does not fit", onnx.of(bad)
    for shape in ((2**56 + 1,), (2**32, 2**32), (2**62, 8)):
        name = "_".join(map(str, shape))
        bad = onnx.raw("w", U8, shape, b"x")
        yield f"shape_{name}", "C37", CORRUPT, "2^56", onnx.of(bad)
    bad = onnx.raw("w", U8, (2**64 - 1,), b"x")
    yield "negative_dimension", "C37", CORRUPT, "negative", onnx.of(bad)
    bad = onnx.raw("w", U8, (1,) * 65, b"x")
    yield "rank_65", "C40", CORRUPT, "too many dimensions", onnx.of(bad)
    for number in (0, 29, 2**31):
        bad = onnx.head("w", number, (1,))
        code, says = (UNSUPPORTED, "not known") if number else (CORRUPT, "no data_type")
        yield f"type_{number}", "C10", code, says, onnx.of(bad)
    bad = onnx.head("w", U8, (1,))
    yield "no_data", "C34", CORRUPT, "no data", onnx.of(bad)
    same = onnx.raw("w", U8, (1,), b"x")
    yield "name_twice", "C55", CORRUPT, "same name", onnx.of(same, same)
    sparse = onnx.graph() + onnx.text(15, onnx.text(1, same))
    yield "sparse", "", UNSUPPORTED, "tensor 'w'", onnx.model(sparse)
    deep = onnx.graph([same])
    for _ in range(40):
        attribute = onnx.text(1, "a") + onnx.text(6, deep)
        deep = onnx.text(1, onnx.node("If", "o", attribute))
    yield "deep", "C45", LIMIT, "nested too deep", onnx.model(deep)
    for name, location in {
        "outside": "../w",
        "absolute": "/etc/passwd",
        "nul": "w\0",
        "in_memory": "*/_ORT_MEM_ADDR_/*",
    }.items():
        bad = onnx.of(onnx.external("w", U8, (1,), location=location))
        yield f"external_{name}", "C50", CORRUPT, "tensor 'w'", bad
    bad = onnx.of(onnx.external("w", U8, (1,), location="w", basepath="/"))
    yield "external_key", "C50", UNSUPPORTED, "'basepath'", bad
    yield "no_graph", "", CORRUPT, "no graph", onnx.number(1, 8) + onnx.text(2, "test")


def refused():
    for name, about, code, says, raw in rows():
        yield Refused(
            f"onnx_{name}.onnx", raw, "onnx", about, code, says, options=OPTIONS
        )
