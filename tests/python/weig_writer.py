# SPDX-License-Identifier: Apache-2.0
"""A writer of WEIG files made from the format's text alone.

write() gives the whole file that a writer of revision 1 makes of some tensors, and
from_safetensors() the file that convert makes of a safetensors file, byte for byte.
Numbers of chapters are those of docs/format.md.
"""

import json
import re
import struct

import xxhash

from weig_file import (
    CODES,
    DIGESTS,
    GROUPS,
    INDEX,
    MAGIC,
    METADATA,
    SENTINEL,
    SOURCE,
    Tensor,
    align_up,
    digest,
    u64,
)


def natural_key(name):
    """Digits as numbers, equal numbers by fewer leading zeros, the rest by byte."""
    key = []
    for token in re.findall(rb"[0-9]+|[^0-9]", name, re.DOTALL):
        if token[:1].isdigit():
            number = token.lstrip(b"0")
            key.append((0x30, len(number), number, len(token)))
        else:
            key.append((token[0], 0, b"", 0))
    return key


def layout_alignment(size):
    """A(size)."""
    return max([a for a in (4 << 10, 64 << 10, 2 << 20) if a * 32 <= size], default=64)


def group_of(name):
    """Everything up to the first component of digits only with more after it."""
    parts = name.split(b".")
    for i, part in enumerate(parts[:-1]):
        if re.fullmatch(rb"[0-9]+", part):
            return b".".join(parts[: i + 1])
    return None


def table_order(tensors):
    """Owners in natural order, each with its aliases behind it."""
    ordered = sorted(tensors, key=lambda t: natural_key(t.name))
    sets = {}
    for tensor in ordered:
        if tensor.shares is not None:
            sets.setdefault(tensor.shares, []).append(tensor)
    out = []
    for tensor in ordered:
        if tensor.shares is None:
            out.append((tensor, False))
        elif sets[tensor.shares][0] is tensor:
            out += [(t, i > 0) for i, t in enumerate(sets[tensor.shares])]
    return out


def place(order):
    """Offsets from data_offset, the groups, and the end of the last tensor."""
    runs = []  # [group name or None, [(ordinal, size)] of owners, first, count]
    for ordinal, (tensor, alias) in enumerate(order):
        if alias:
            runs[-1][3] += 1
            continue
        group = group_of(tensor.name)
        if group is None or not runs or runs[-1][0] != group:
            runs.append([group, [], ordinal, 0])
        runs[-1][1].append((ordinal, len(tensor.data)))
        runs[-1][3] += 1
    offsets = [0] * len(order)
    position = end_of_last = 0
    for group, owners, _, _ in runs:
        end, inside = 0, []
        for ordinal, size in owners:
            inside.append((ordinal, align_up(end, layout_alignment(size))))
            end = inside[-1][1] + size
        start = align_up(position, layout_alignment(end))
        for ordinal, offset in inside:
            offsets[ordinal] = start + offset
        position = end_of_last = start + end
        if group is not None:
            position = align_up(position, layout_alignment(end))
    for ordinal, (_, alias) in enumerate(order):
        if alias:
            offsets[ordinal] = offsets[ordinal - 1]
    return offsets, [(g, f, c) for g, _, f, c in runs if g is not None], end_of_last


def build_index(names):
    slots = 1
    while slots < 2 * len(names):
        slots *= 2
    for seed in range(1000):
        table = [(0, 0)] * slots
        if all(_insert(table, name, i, seed) for i, name in enumerate(names)):
            entries = b"".join(struct.pack("<II", f, o) for f, o in table)
            return struct.pack("<QQ48x", seed, slots) + entries
    raise AssertionError("no seed keeps the names within 128 slots")


def _insert(table, name, ordinal, seed):
    h = xxhash.xxh3_64_intdigest(name, seed)
    for probe in range(128):
        slot = (h + probe) % len(table)
        if table[slot] == (0, 0):
            table[slot] = (h >> 32, ordinal + 1)
            return True
    return False


def groups_section(found):
    out, names = struct.pack("<II", len(found), 0), b""
    for name, first, count in found:
        out += struct.pack("<QII", 8 + 16 * len(found) + len(names), first, count)
        names += name + b"\0"
    return out + names


def write(tensors, metadata=None, source=None, more=None):
    """The file of these tensors, as bytes. `source`: what makes section 4 out of
    {name: ordinal}, or None. `more`: {kind: bytes} of other sections, or None for
    one to leave out."""
    order = table_order(tensors)
    offsets, found_groups, data_end = place(order)

    names = bytearray()
    name_at = []
    for tensor, _ in order:
        name_at.append(64 + 48 * len(order) + len(names))
        names += tensor.name + b"\0"
    strings = names + bytes(-(64 + 48 * len(order) + len(names)) % 8)
    shape_at = {(): 0}
    for tensor, _ in order:
        if tensor.shape not in shape_at:
            shape_at[tensor.shape] = 64 + 48 * len(order) + len(strings)
            strings += struct.pack(f"<{len(tensor.shape)}Q", *tensor.shape)

    sections = {}
    if order:
        sections[INDEX] = build_index([t.name for t, _ in order])
        sections[DIGESTS] = b"".join(digest(t.data) for t, _ in order)
    if metadata is not None:
        sections[METADATA] = metadata
    if source is not None:
        sections[SOURCE] = source({t.name: i for i, (t, _) in enumerate(order)})
    if found_groups:
        sections[GROUPS] = groups_section(found_groups)
    sections |= more or {}
    sections = {k: body for k, body in sections.items() if body is not None}

    sections_at = 64 + 48 * len(order) + len(strings)
    core_end = sections_at + 32 * len(sections)
    table, bodies = b"", bytearray()
    for kind, body in sorted(sections.items()):
        bodies += bytes(-(core_end + len(bodies)) % 64)
        table += struct.pack(
            "<IIQQQ",
            kind,
            0,
            core_end + len(bodies),
            len(body),
            xxhash.xxh3_64_intdigest(body),
        )
        bodies += body
    data_offset = align_up(
        core_end + len(bodies), max(4096, layout_alignment(data_end))
    )
    trailer_at = align_up(data_offset + data_end, 64)

    out = bytearray(trailer_at + 64)
    struct.pack_into(
        "<II7Q",
        out,
        0,
        MAGIC,
        1,
        len(order),
        64,
        data_offset,
        len(out),
        3,
        sections_at,
        len(sections),
    )
    for i, (tensor, _) in enumerate(order):
        struct.pack_into(
            "<QIIQQQQ",
            out,
            64 + 48 * i,
            name_at[i],
            tensor.dtype,
            0,
            shape_at[tensor.shape],
            len(tensor.shape),
            data_offset + offsets[i],
            len(tensor.data),
        )
        begin = data_offset + offsets[i]
        out[begin : begin + len(tensor.data)] = tensor.data
    front = 64 + 48 * len(order)
    for part in (strings, table, bodies):
        out[front : front + len(part)] = part
        front += len(part)
    trailer = struct.pack(
        "<8sQ16sIIQQ", SENTINEL, len(out), digest(out[:core_end]), 1, 1, 0, 0
    )
    check = xxhash.xxh3_64_intdigest(bytes(out[:64]) + trailer)
    out[trailer_at:] = trailer + struct.pack("<Q", check)
    return bytes(out)


# What convert makes of a safetensors file.

_RENAMED = {"F4": "f4_e2m1", "F8_E4M3": "f8_e4m3fn", "C64": "complex64"}
# Its types, and what they are here.
SAFETENSORS_TYPES = {
    name: _RENAMED.get(name, name.lower())
    for name in (
        "BOOL F4 F6_E2M3 F6_E3M2 U8 I8 F8_E5M2 F8_E4M3 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ "
        "I16 U16 F16 BF16 I32 U32 F32 C64 F64 I64 U64"
    ).split()
}
_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}


def json_string(text):
    """A JSON string with the escapes of kind 3 and no others."""
    out = [_ESCAPES.get(c) or (f"\\u{ord(c):04x}" if c < " " else c) for c in text]
    return '"' + "".join(out) + '"'


def safetensors_code(name):
    """The code of an element type that safetensors calls `name`."""
    return CODES[SAFETENSORS_TYPES[name]]


def numbers(values):
    return ",".join(map(str, values))


def metadata_section(pairs):
    """A safetensors file's metadata, all strings, as kind 3."""
    text = ",".join(f"{json_string(k)}:{json_string(v)}" for k, v in pairs.items())
    return ("{" + text + "}").encode()


def _plain_header(entries, metadata, size):
    """The header as encoding 1 has it: no spaces but those that fill it up."""
    parts = [] if metadata is None else ['"__metadata__":' + metadata.decode()]
    end = 0
    for name, dtype, shape, data in entries:
        begin, end = end, end + len(data)
        parts.append(
            f'{json_string(name)}:{{"dtype":"{dtype}","shape":[{numbers(shape)}],'
            f'"data_offsets":[{begin},{end}]}}'
        )
    text = "{" + ",".join(parts) + "}"
    return struct.pack("<Q", size - 8) + text.encode().ljust(size - 8)


def source_section(raw, entries, metadata):
    """A function from ordinals by name to kind 4 of the safetensors file `raw`."""
    size = 8 + u64(raw, 0)
    header = raw[:size]
    head = struct.pack("<QQ", len(raw), size) + digest(header)
    if _plain_header(entries, metadata, size) != header:
        return lambda _: struct.pack("<II", 1, 0) + head + header
    return lambda ordinals: (
        struct.pack("<II", 1, 1)
        + head
        + b"".join(struct.pack("<I", ordinals[e[0].encode()]) for e in entries)
    )


def from_safetensors(raw):
    """The WEIG file of a safetensors file that obeys all of its format's rules."""
    size = 8 + u64(raw, 0)
    header = json.loads(raw[8:size].decode("utf-8"))
    pairs = header.pop("__metadata__", None)
    entries = []
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        entries.append(
            (
                name,
                entry["dtype"],
                tuple(entry["shape"]),
                raw[size + begin : size + end],
            )
        )
    metadata = None if pairs is None else metadata_section(pairs)
    tensors = [
        Tensor(name.encode(), safetensors_code(dtype), shape, data)
        for name, dtype, shape, data in entries
    ]
    return write(tensors, metadata, source_section(raw, entries, metadata))
