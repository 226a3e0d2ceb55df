# SPDX-License-Identifier: Apache-2.0
"""ONNX models for tests, made by hand: a protobuf message is its fields, one after the
other."""

import struct

# Number of TensorProto.DataType -> bits an element, weig's name, and the field of its
# numbers with how one of them is written.
FLOATS, INTS, LONGS, DOUBLES, UNSIGNED = 4, 5, 7, 10, 11
TYPES = {
    1: (32, "f32", FLOATS),
    2: (8, "u8", INTS),
    3: (8, "i8", INTS),
    4: (16, "u16", INTS),
    5: (16, "i16", INTS),
    6: (32, "i32", INTS),
    7: (64, "i64", LONGS),
    9: (8, "bool", INTS),
    10: (16, "f16", INTS),
    11: (64, "f64", DOUBLES),
    12: (32, "u32", UNSIGNED),
    13: (64, "u64", UNSIGNED),
    14: (64, "complex64", FLOATS),
    15: (128, "complex128", DOUBLES),
    16: (16, "bf16", INTS),
    17: (8, "f8_e4m3fn", INTS),
    18: (8, "f8_e4m3fnuz", INTS),
    19: (8, "f8_e5m2", INTS),
    20: (8, "f8_e5m2fnuz", INTS),
    21: (4, "u4", INTS),
    22: (4, "i4", INTS),
    23: (4, "f4_e2m1", INTS),
    24: (8, "f8_e8m0", INTS),
    25: (2, "u2", INTS),
    26: (2, "i2", INTS),
    27: (6, "f6_e2m3", INTS),
    28: (6, "f6_e3m2", INTS),
}
FLOAT, UINT8, INT64, STRING = 1, 2, 7, 8


def varint(value):
    value &= 2**64 - 1
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def text(field, value):
    """A text, bytes or a message."""
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def pair(field, key, value):
    return text(field, text(1, key) + text(2, value))


def head(name, data_type, shape):
    """A TensorProto without data, its name last as writers have it."""
    dims = b"".join(number(1, size) for size in shape)
    return dims + number(2, data_type) + text(8, name)


def elements_in(shape):
    count = 1
    for size in shape:
        count *= size
    return count


def byte_count(data_type, shape):
    return (elements_in(shape) * TYPES[data_type][0] + 7) // 8


def raw(name, data_type, shape, data):
    return head(name, data_type, shape) + text(9, data)


def numbers_of(data_type, shape, data, signed=False):
    """The numbers whose field says the same as these bytes, each as it is written.
    `signed`: those that fit half as signed numbers, as some writers have them."""
    bits, _, field = TYPES[data_type]
    if field == FLOATS:
        return [data[at : at + 4] for at in range(0, len(data), 4)]
    if field == DOUBLES:
        return [data[at : at + 8] for at in range(0, len(data), 8)]
    if bits == 6:
        whole = int.from_bytes(data, "little")
        count = elements_in(shape)
        return [varint(whole >> (6 * i) & 0x3F) for i in range(count)]
    size = max(bits // 8, 1)
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    return [varint(int.from_bytes(part, "little", signed=signed)) for part in parts]


def packed(name, data_type, shape, data, signed=False):
    numbers = numbers_of(data_type, shape, data, signed)
    return head(name, data_type, shape) + text(TYPES[data_type][2], b"".join(numbers))


def one_by_one(name, data_type, shape, data, signed=False):
    field = TYPES[data_type][2]
    tag = varint(field << 3 | {FLOATS: 5, DOUBLES: 1}.get(field, 0))
    numbers = numbers_of(data_type, shape, data, signed)
    return head(name, data_type, shape) + b"".join(tag + one for one in numbers)


def external(name, data_type, shape, **place):
    """Data in another file; keys of `place` as they are written."""
    entries = b"".join(pair(13, key, str(value)) for key, value in place.items())
    return head(name, data_type, shape) + entries + number(14, 1)


def node(op_type, output, *attributes, domain=""):
    out = text(2, output) + text(3, output + "_node") + text(4, op_type)
    out += b"".join(text(5, attribute) for attribute in attributes)
    return out + (text(7, domain) if domain else b"")


def constant(output, tensor):
    return node("Constant", output, text(1, "value") + text(5, tensor) + number(20, 4))


def graph(initializers=(), nodes=()):
    out = b"".join(text(1, one) for one in nodes) + text(2, "graph")
    return out + b"".join(text(5, one) for one in initializers)


def model(graph_message, producer="test", more=b""):
    out = number(1, 8) + (text(2, producer) if producer else b"")
    return out + text(7, graph_message) + text(8, text(1, "") + number(2, 17)) + more


def of(*initializers):
    """A model of these tensors."""
    return model(graph(initializers))


def f32(*values):
    return struct.pack(f"<{len(values)}f", *values)
