# SPDX-License-Identifier: Apache-2.0
"""WEIG files that must be refused: sections, minimal and big-endian files."""

import minimal_file
from bent import Bent
from corpus import Refused
from safetensors_file import pattern
from weig_bases import described, every_section, minimal
from weig_refused import (
    CORRUPT,
    DIGESTS,
    GROUPS,
    METADATA,
    QUANTIZATION,
    SHARD,
    SOURCE,
    TOP,
    UNSUPPORTED,
)


def section_rows():
    """(name, code, says, change): layouts, with right digests."""
    entry = 8  # of sections 5 and 6, behind their heads

    def put(kind, at, value, bits=32):
        return lambda f: f.put(f.section(kind)[0] + at, value, bits)

    def last(kind, value):
        return lambda f: f.put(sum(f.section(kind)) - 1, value, 8)

    def size(kind, value):
        return lambda f: f.put(f.entry(kind) + 16, value)

    def grow(kind, by):
        return lambda f: f.put(f.entry(kind) + 16, f.section(kind)[1] + by)

    def alone(change):  # without a shard, the source section has this file's tensors
        return lambda f: (change(f), f.put(f.entry(SHARD), 0x80000000, 32))

    def group_name(f):
        begin = f.section(GROUPS)[0]
        f.put(begin + f.get(begin + entry), 0xFF, 8)

    for by in (-80, -16, -1, 16):
        yield (
            f"digests_size_{by}",
            CORRUPT,
            "digests section: its size",
            grow(DIGESTS, by),
        )
    yield "metadata_list", CORRUPT, "not a JSON object", put(METADATA, 0, 0x5B, 8)
    yield "metadata_end", CORRUPT, "not a JSON object", last(METADATA, 0x5D)
    yield "metadata_none", CORRUPT, "not a JSON object", size(METADATA, 0)
    yield "metadata_utf8", CORRUPT, "not UTF-8", put(METADATA, 3, 0xC0, 8)
    for bytes_ in (0, 39):
        says = "source section: its size"
        yield f"source_of_{bytes_}", CORRUPT, says, size(SOURCE, bytes_)
    for source in (0, 3, 2**32 - 1):
        yield (
            f"source_format_{source}",
            UNSUPPORTED,
            "its format",
            put(SOURCE, 0, source),
        )
    yield "source_encoding_2", UNSUPPORTED, "its encoding", put(SOURCE, 4, 2)
    yield "source_gguf_ordinals", UNSUPPORTED, "its encoding", put(SOURCE, 0, 2)
    yield "source_header_size", CORRUPT, "the header it holds", put(SOURCE, 4, 0)
    says = "number of ordinals"
    for by in (-4, -2, 2):
        yield f"source_size_{by}", CORRUPT, says, alone(grow(SOURCE, by))
    for ordinal in (5, 2**32 - 1):
        change = alone(put(SOURCE, 40, ordinal))
        yield f"source_ordinal_{ordinal}", CORRUPT, "past the table", change
    for bytes_ in (0, 7):
        says = "groups section: its size"
        yield f"groups_of_{bytes_}", CORRUPT, says, size(GROUPS, bytes_)
    yield "groups_zero", CORRUPT, "after the count", put(GROUPS, 4, 1)
    for count in (100, 2**28, 2**32 - 1):
        yield f"groups_{count}", CORRUPT, "more entries", put(GROUPS, 0, count)
    for at in (0, 8, 2**32, TOP - 1):
        says = "name lies outside"
        yield f"group_name_at_{at}", CORRUPT, says, put(GROUPS, entry, at, 64)
    yield "group_name_end", CORRUPT, "name lies outside", last(GROUPS, 0x78)
    yield "group_name_utf8", CORRUPT, "not UTF-8", group_name

    def group_names(f):  # the first goes on to the end of the second
        begin = f.section(GROUPS)[0]
        f.put(f.raw.index(0, begin + f.get(begin + entry)), 0x78, 8)

    yield "group_name_within", CORRUPT, "within the one before", group_names
    yield "group_empty", CORRUPT, "is empty", put(GROUPS, entry + 12, 0)
    yield "groups_overlap", CORRUPT, "overlaps", put(GROUPS, entry + 24, 1)
    for count in (9, 2**32 - 1):
        says = "leaves the table"
        yield f"group_of_{count}", CORRUPT, says, put(GROUPS, entry + 28, count)
    for by in (-32, -4, 4):
        says = "more entries" if by < 0 else "quantization section: its size"
        yield f"quantization_size_{by}", CORRUPT, says, grow(QUANTIZATION, by)
    for bytes_ in (0, 7):
        says = "quantization section: its size"
        yield f"quantization_of_{bytes_}", CORRUPT, says, size(QUANTIZATION, bytes_)
    yield "quantization_zero", CORRUPT, "after the count", put(QUANTIZATION, 4, 1)
    for count in (3, 2**32 - 1):
        says = "more entries"
        yield f"quantization_{count}", CORRUPT, says, put(QUANTIZATION, 0, count)
    yield "quantization_twice", CORRUPT, "ascending", put(QUANTIZATION, 40, 0)
    yield "quantization_tensor", CORRUPT, "tensor's ordinal", put(QUANTIZATION, 40, 5)
    yield "quantization_last", CORRUPT, "last field", put(QUANTIZATION, 36, 1)
    yield "quantization_axis", CORRUPT, "axis", put(QUANTIZATION, 16, 2)
    yield "quantization_block", CORRUPT, "without an axis", put(QUANTIZATION, 52, 32)
    yield "quantization_scale", CORRUPT, "scale's ordinal", put(QUANTIZATION, 24, 5)
    for at, what in ((28, "zero_point"), (32, "scale2")):
        says = "parameter's ordinal"
        yield f"quantization_{what}", CORRUPT, says, put(QUANTIZATION, at, 5)
    for bytes_ in (0, 31, 33):
        says = "shard section: its size"
        yield f"shard_of_{bytes_}", CORRUPT, says, size(SHARD, bytes_)
    for index in (2, 2**32 - 1):
        yield f"shard_index_{index}", CORRUPT, "its index", put(SHARD, 16, index)
    for tensors in (0, 4):
        says = "tensors of the set"
        yield f"shard_tensors_{tensors}", CORRUPT, says, put(SHARD, 24, tensors, 64)


MINIMAL = [(b"a", 0, (5, 7), pattern(140)), (b"b", 4, (9,), pattern(9))]


def minimal_rows():
    """(name, code, says, how minimal_file.build() is called): section 9."""
    size = len(minimal_file.build(MINIMAL))
    rows = "records"
    yield "reserved", CORRUPT, "reserved", {"reserved0": 1}
    yield "reserved_2", CORRUPT, "reserved", {"reserved1": TOP - 1}
    for flags in (4, 8, 16, 1 << 31):
        yield f"flags_{flags}", UNSUPPORTED, "", {"flags": flags}
    for count in (3, 100):
        yield f"records_{count}", CORRUPT, "", {"count": count}
    for count in (2**40, TOP - 1):
        yield f"records_{count}", CORRUPT, "tensor_count", {"count": count}
    for at in (0, 63):
        yield f"table_at_{at}", CORRUPT, "overlaps the header", {"table": at}
    yield "data_past_the_end", CORRUPT, "data_offset lies", {"data_offset": size + 1}
    yield "data_before_table_end", CORRUPT, "does not fit", {"data_offset": 100}
    yield "pad", CORRUPT, "padding", {rows: {0: {"pad": 1}}}
    for rank in (65, TOP - 1):
        yield f"rank_{rank}", CORRUPT, "rank", {rows: {0: {"rank": rank}}}
    yield "name_in_data", CORRUPT, "outside the names", {rows: {0: {"name": size - 1}}}
    yield "shape_in_data", CORRUPT, "shape lies", {rows: {0: {"shape": size - 8}}}
    yield "data_in_header", CORRUPT, "outside the data", {rows: {1: {"offset": 0}}}
    yield "data_far", CORRUPT, "outside the data", {rows: {1: {"offset": TOP - 4}}}
    yield "longer_by_1", CORRUPT, "data_size differs", {rows: {1: {"size": 10}}}
    yield "overlap_by_2", CORRUPT, "overlaps", {rows: {1: {"offset": size - 11}}}
    yield "same_start", CORRUPT, "overlaps", {rows: {1: {"offset": size - 149}}}
    yield "equal_names", CORRUPT, "same name", {rows: {1: {"name": 160}}}


def big_endian_rows():
    """What cannot be swapped."""
    yield "flags", UNSUPPORTED, "with flags", MINIMAL, {"flags": 1 << 40}
    blocks = [(b"q", 0x1008, (32,), pattern(34))]
    yield "blocks", UNSUPPORTED, "byte order is not known", blocks, {}
    shared = [(b"a", 0, (2,), pattern(8)), (b"b", 8, (4,), pattern(8))]
    begin = len(minimal_file.build(shared)) - 16
    call = {"records": {1: {"offset": begin}}}
    yield "shared_widths", UNSUPPORTED, "different widths", shared, call


def files():
    for name, code, says, change in section_rows():
        file = Bent(every_section())
        change(file)
        raw = bytes(file.reseal().raw)
        yield Refused(f"{name}.weig", raw, "weig", "6", code, says, when="verify")
    for order, kind in (("<", "weig_minimal"), (">", "weig_big_endian")):
        for name, code, says, call in minimal_rows():
            if order == ">" and name.startswith("flags"):
                says = "with flags"
            raw = minimal_file.build(MINIMAL, order, **call)
            yield Refused(
                f"{kind}_{name}.weig", raw, kind, "9", code, says, options=("unsealed",)
            )
    raw = minimal_file.build(MINIMAL, flags=1 << 40)
    yield Refused(
        "weig_minimal_high_flags.weig",
        raw,
        "weig_minimal",
        "9",
        CORRUPT,
        "flags of a minimal file",
        options=("unsealed",),
    )
    for name, code, says, tensors, call in big_endian_rows():
        raw = minimal_file.build(tensors, ">", **call)
        yield Refused(
            f"weig_big_endian_{name}.weig",
            raw,
            "weig_big_endian",
            "9",
            code,
            says,
            options=("unsealed",),
        )
    tensors = described([("a", "f32", (2,))])
    for order, says in (("<", "not sealed"), (">", "")):
        raw = minimal(tensors, order)
        name = f"unasked_{'little' if order == '<' else 'big'}.weig"
        yield Refused(name, raw, "weig_minimal", "9: unasked", UNSUPPORTED, says)
