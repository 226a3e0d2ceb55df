# SPDX-License-Identifier: Apache-2.0
"""A reader of WEIG files made from the format's text alone.

Shares nothing with the library, so that the two can disagree. read() proves all rules
of a sealed file, and that reserved bytes and padding are zero. Numbers of chapters are
those of docs/format.md.
"""

import functools
import json
import mmap
import struct
from dataclasses import dataclass, field

import xxhash

MAGIC = 0x57454947
SENTINEL = bytes.fromhex("FE 57 45 49 47 0D 0A FF")
NONE = 0xFFFFFFFF
INDEX, DIGESTS, METADATA, SOURCE, GROUPS, QUANTIZATION, SHARD = range(1, 8)

# Chapter 4: code -> name, bits an element.
DTYPES = {
    0: ("f32", 32),
    1: ("f16", 16),
    2: ("bf16", 16),
    3: ("i8", 8),
    4: ("u8", 8),
    5: ("i32", 32),
    6: ("f64", 64),
    7: ("i64", 64),
    8: ("i16", 16),
    9: ("u16", 16),
    10: ("u32", 32),
    11: ("u64", 64),
    12: ("bool", 8),
    13: ("f8_e4m3fn", 8),
    14: ("f8_e5m2", 8),
    15: ("f8_e4m3fnuz", 8),
    16: ("f8_e5m2fnuz", 8),
    17: ("f8_e8m0", 8),
    18: ("f6_e2m3", 6),
    19: ("f6_e3m2", 6),
    20: ("f4_e2m1", 4),
    21: ("i4", 4),
    22: ("u4", 4),
    23: ("complex64", 64),
    24: ("complex128", 128),
    25: ("complex32", 32),
    26: ("f8_e4m3", 8),
    27: ("f8_e3m4", 8),
    28: ("f8_e4m3b11fnuz", 8),
    29: ("i2", 2),
    30: ("u2", 2),
    31: ("i1", 1),
    32: ("u1", 1),
    33: ("bcomplex32", 32),
}
CODES = {name: code for code, (name, _) in DTYPES.items()}


class Broken(Exception):
    """A rule of the format that a file does not obey."""


@dataclass
class Tensor:
    name: bytes
    dtype: int
    shape: tuple
    data: bytes
    offset: int = 0
    shares: object = None  # tensors with the same value here share their bytes
    alias_of: bytes | None = None  # read() only


@dataclass
class File:
    tensors: list  # in table order
    sections: dict = field(default_factory=dict)  # kind -> bytes
    data_offset: int = 0
    file_size: int = 0
    file_id: str = ""

    def __getitem__(self, name):
        name = name.encode() if isinstance(name, str) else name
        return next(t for t in self.tensors if t.name == name)


def u32(data, at):
    return struct.unpack_from("<I", data, at)[0]


def u64(data, at):
    return struct.unpack_from("<Q", data, at)[0]


def align_up(offset, alignment):
    return -(-offset // alignment) * alignment


def digest(data):
    """XXH3-128 as its 16 bytes in the file: low half first."""
    return xxhash.xxh3_128_intdigest(data).to_bytes(16, "little")


def digest_hex(stored):
    """Those 16 bytes as the 128-bit number that other tools print."""
    return f"{int.from_bytes(stored, 'little'):032x}"


def element_count(shape):
    return functools.reduce(lambda a, b: a * b, shape, 1)


def byte_count(dtype, shape):
    return -(-element_count(shape) * DTYPES[dtype][1] // 8)


def read(path):
    """Proves all of a sealed file and returns it; without data above 256 MiB."""
    with open(path, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    with data:
        return _read(data)


def _require(truth, rule):
    if not truth:
        raise Broken(rule)


def _read(data):
    size = len(data)
    _require(size >= 64 + 64, "room for header and trailer")
    magic, version = struct.unpack_from("<II", data, 0)
    count, meta, data_offset, file_size, flags, sections_at, section_count = (
        struct.unpack_from("<7Q", data, 8)
    )
    _require(file_size == size, "file_size")
    _require(data[:4] == b"GIEW" and magic == MAGIC, "magic")
    _require(version == 1 and flags == 3, "version, flags")
    _require(meta == 64, "a writer puts the table at 64")
    table_end = 64 + 48 * count
    core_end = sections_at + 32 * section_count
    _require(sections_at % 8 == 0 and sections_at >= table_end, "section_offset")
    _require(core_end <= data_offset <= size - 64 and data_offset % 4096 == 0, "core")
    _require(section_count <= 256, "section_count")

    trailer = data[size - 64 :]
    _require(trailer[:8] == SENTINEL, "sentinel")
    _require(u64(trailer, 8) == size, "trailer file_size")
    _require(trailer[16:32] == digest(data[:core_end]), "file_id")
    _require(u32(trailer, 32) == 1 and u32(trailer, 36) == 1, "version, writer")
    _require(trailer[40:56] == bytes(16), "trailer reserved")
    _require(
        u64(trailer, 56) == xxhash.xxh3_64_intdigest(data[:64] + trailer[:56]), "check"
    )

    used = [(0, table_end), (sections_at, core_end), (size - 64, size)]
    tensors = _read_table(data, count, table_end, sections_at, data_offset, used)
    sections = _read_sections(
        data, sections_at, section_count, core_end, data_offset, used
    )
    result = File(tensors, sections, data_offset, size, digest_hex(trailer[16:32]))
    _check_sections(result)
    _check_gaps(data, used)
    return result


def _read_table(data, count, table_end, strings_end, data_offset, used):
    keep = len(data) <= 256 << 20
    tensors = []
    previous = (data_offset, 0)  # offset, size
    end = data_offset
    for i in range(count):
        name_at, dtype, pad, shape_at, rank, offset, size = struct.unpack_from(
            "<QIIQQQQ", data, 64 + 48 * i
        )
        _require(pad == 0, "pad")
        _require(table_end <= name_at < strings_end, "name_offset")
        name_end = data.find(b"\0", name_at, strings_end)
        _require(name_end >= 0 and name_end - name_at <= 65535, "name")
        name = data[name_at:name_end]
        name.decode("utf-8")  # strict
        _require(dtype in DTYPES, "dtype")
        _require(rank <= 64, "rank")
        _require(rank > 0 or shape_at == 0, "a scalar's shape_offset")
        shape = ()
        if rank:
            _require(shape_at % 8 == 0 and table_end <= shape_at, "shape_offset")
            _require(shape_at + 8 * rank <= strings_end, "shape")
            shape = struct.unpack_from(f"<{rank}Q", data, shape_at)
            used.append((shape_at, shape_at + 8 * rank))
        _require(element_count(d for d in shape if d) <= 1 << 56, "shape product")
        _require(size == byte_count(dtype, shape), "data_size")
        _require(offset % 64 == 0, "alignment")
        _require(data_offset <= offset <= offset + size <= len(data) - 64, "data range")
        alias = size > 0 and (offset, size) == previous
        _require(alias or offset >= end, "data order")
        tensor = Tensor(
            name, dtype, shape, data[offset : offset + size] if keep else b"", offset
        )
        if alias:
            owner = tensors[-1]
            tensor.alias_of = owner.alias_of or owner.name
            tensor.shares = owner.shares = tensor.alias_of
        tensors.append(tensor)
        used += [(name_at, name_end + 1), (offset, offset + size)]
        previous, end = (offset, size), max(end, offset + size)
    _require(len({t.name for t in tensors}) == count, "names are unique")
    return tensors


def _read_sections(data, table, count, core_end, data_offset, used):
    sections = {}
    last_kind, end = 0, core_end
    for i in range(count):
        kind, flags, offset, size, check = struct.unpack_from(
            "<IIQQQ", data, table + 32 * i
        )
        _require(kind > last_kind and flags == 0, "section kinds, flags")
        _require(offset % 64 == 0 and offset >= end, "section offset")
        _require(offset + size <= data_offset, "section size")
        sections[kind] = data[offset : offset + size]
        _require(check == xxhash.xxh3_64_intdigest(sections[kind]), "section digest")
        used.append((offset, offset + size))
        last_kind, end = kind, offset + size
    return sections


def _check_gaps(data, used):
    """What belongs to nothing is zero."""
    end = 0
    for begin, stop in sorted(used):
        if begin > end:
            gap = data[end:begin]
            _require(gap.count(0) == len(gap), f"zeros in [{end}, {begin})")
        end = max(end, stop)
    _require(end == len(data), "the end")


def _check_sections(file):
    count = len(file.tensors)
    if count == 0:
        _require(INDEX not in file.sections, "an index without tensors")
    else:
        for i, tensor in enumerate(file.tensors):
            _require(look_up(file.sections[INDEX], tensor.name) == i, "index")
        _require(
            look_up(file.sections[INDEX], b"no such name, by far") is None, "absent"
        )
        stored = file.sections[DIGESTS]
        _require(len(stored) == 16 * count, "digests' size")
        for i, tensor in enumerate(file.tensors):
            if len(tensor.data) == byte_count(tensor.dtype, tensor.shape):
                _require(stored[16 * i : 16 * i + 16] == digest(tensor.data), "digest")
    if METADATA in file.sections:
        read_metadata(file.sections[METADATA])
    if GROUPS in file.sections:
        _read_groups(file)


def look_up(section, name):
    """The ordinal that the name index gives, or None (chapter 6, kind 1)."""
    seed, slots = struct.unpack_from("<QQ", section, 0)
    _require(section[16:64] == bytes(48), "zeros in the index's head")
    _require(slots & (slots - 1) == 0 and len(section) == 64 + 8 * slots, "slots")
    h = xxhash.xxh3_64_intdigest(name, seed)
    for probe in range(128):
        fingerprint, entry = struct.unpack_from(
            "<II", section, 64 + 8 * ((h + probe) % slots)
        )
        if entry == 0:
            _require(fingerprint == 0, "an empty slot is all zero")
            return None
        if fingerprint == h >> 32:
            return entry - 1  # a false hit shows as a wrong ordinal in the caller
    return None


def read_metadata(section):
    """The metadata's pairs, in order."""

    def unique(pairs):
        _require(len(dict(pairs)) == len(pairs), "a metadata key twice")
        return dict(pairs)

    return json.loads(section.decode("utf-8"), object_pairs_hook=unique)


def _read_groups(file):
    section = file.sections[GROUPS]
    n, zero = struct.unpack_from("<II", section, 0)
    _require(n > 0 and zero == 0, "groups' head")
    groups, last = [], 0
    for i in range(n):
        name_at, first, count = struct.unpack_from("<QII", section, 8 + 16 * i)
        name = section[name_at : section.index(b"\0", name_at)]
        _require(count > 0 and first >= last, "groups ascend")
        _require(first + count <= len(file.tensors), "groups lie in the table")
        groups.append((name, first, count))
        last = first + count
    return groups


def groups(file):
    """(name, first ordinal, count) of each group."""
    return _read_groups(file) if GROUPS in file.sections else []
