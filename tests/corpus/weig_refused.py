# SPDX-License-Identifier: Apache-2.0
"""WEIG files that must be refused: each breaks one rule of docs/format.md, section 8,
with all digests right; or is cut, or damaged without repair."""

from bent import Bent
from corpus import Refused
from weig_bases import basic, described, minimal, sealed

CORRUPT, UNSUPPORTED = "corrupt", "unsupported"
TOP = 1 << 64
INDEX, DIGESTS, METADATA, SOURCE, GROUPS, QUANTIZATION, SHARD = range(1, 8)
# Fields of a record.
NAME, DTYPE, PAD, SHAPE, RANK, OFFSET, SIZE = 0, 8, 12, 16, 24, 32, 40


def header_rows():
    """(name, rule, code, says, change): O1 to O5."""

    def put(at, value, bits=64):
        return lambda f: f.put(at, value, bits)

    def end(at, value, bits=64):
        return lambda f: f.put(f.trailer + at, value, bits)

    yield "magic", "O2", CORRUPT, "", put(0, 0x48, 8)
    for version in (0, 2, 2**32 - 1):
        yield f"version_{version}", "O2", UNSUPPORTED, "version", put(4, version, 32)
    yield "packed", "O3", UNSUPPORTED, "packed", put(40, 7)
    yield "encrypted", "O3", UNSUPPORTED, "encrypted", put(40, 11)
    yield "data_elsewhere", "O3", UNSUPPORTED, "other files", put(40, 19)
    for bit in (5, 31):
        flags = put(40, 3 | 1 << bit)
        yield f"flag_{bit}", "O3", UNSUPPORTED, "does not know", flags
    yield "no_sections_flag", "O3", CORRUPT, "come together", put(40, 1)
    yield "no_sealed_flag", "O3", CORRUPT, "come together", put(40, 2)
    yield "no_flags", "O3", UNSUPPORTED, "not sealed", put(40, 0)
    for size in (0, 63, 4096, 2**32, 2**63 - 1, 2**63, TOP - 1):
        yield f"says_{size}_bytes", "O1", CORRUPT, str(size), put(32, size)
    yield "sentinel", "O4", CORRUPT, "no trailer", end(7, 0xFE, 8)
    yield "end_size", "O4", CORRUPT, "trailer's file_size", end(8, 4096)
    yield "end_version", "O4", CORRUPT, "trailer's version", end(32, 2, 32)
    yield "end_reserved", "O4", CORRUPT, "reserved", end(40, 1)
    yield "end_reserved_2", "O4", CORRUPT, "reserved", end(48, TOP - 1)
    for at, says in ((0, "overlaps the header"), (56, "overlaps the header")):
        yield f"table_at_{at}", "O5", CORRUPT, says, put(16, at)
    yield "table_at_68", "O5", CORRUPT, "not aligned", put(16, 68)
    for at in (2**40, 2**63, TOP - 8):
        yield f"table_at_{at}", "O5", CORRUPT, "does not fit", put(16, at)
    yield "records_1000", "C42", CORRUPT, "does not fit", put(8, 1000)
    for count in (2**32 - 1, 2**40, 2**60, 2**63, TOP - 1):
        yield f"records_{count}", "C42", CORRUPT, "tensor_count", put(8, count)
    for at in (2**40, 2**63, TOP - 4096):
        yield f"data_at_{at}", "O5", CORRUPT, "data_offset lies outside", put(24, at)
    yield "data_at_4160", "O5", CORRUPT, "not aligned", put(24, 4160)
    yield "data_at_0", "O5", CORRUPT, "runs into the data", put(24, 0)
    for count in (257, 2**32, 2**63, TOP - 1):
        yield f"sections_{count}", "O5", CORRUPT, "section_count", put(56, count)
    for at in (4096, 2**40, TOP - 8):
        yield f"sections_at_{at}", "O5", CORRUPT, "runs into the data", put(48, at)
    yield (
        "sections_off",
        "O5",
        CORRUPT,
        "not aligned",
        lambda f: f.put(48, f.get(48) + 4),
    )


def table_rows():
    """O6: the section table and the index's head."""

    def entry(kind, at, value, bits=64):
        return lambda f: f.put(f.entry(kind) + at, value, bits)

    def grow(kind, by):
        return lambda f: f.put(f.entry(kind) + 16, f.section(kind)[1] + by)

    def head(at, value, bits=64):
        return lambda f: f.put(f.section(INDEX)[0] + at, value, bits)

    def unknown(f):
        at = f.entry(GROUPS)
        f.put(at, 77, 32).put(at + 4, 1, 32)

    def few_slots(f):
        f.put(f.section(INDEX)[0] + 8, 16).put(f.entry(INDEX) + 16, 64 + 8 * 16)

    yield "kinds_twice", CORRUPT, "ascending order", entry(DIGESTS, 0, 1, 32)
    yield "kinds_descend", CORRUPT, "ascending order", entry(DIGESTS, 0, 9, 32)
    yield "section_flags", CORRUPT, "unknown flags", entry(DIGESTS, 4, 2, 32)
    yield (
        "section_all_flags",
        CORRUPT,
        "unknown flags",
        entry(DIGESTS, 4, 2**32 - 1, 32),
    )
    yield "critical_unknown", UNSUPPORTED, "must be understood", unknown
    yield (
        "section_off",
        CORRUPT,
        "is not aligned",
        lambda f: entry(GROUPS, 8, f.section(GROUPS)[0] + 8)(f),
    )
    yield (
        "sections_overlap",
        CORRUPT,
        "overlaps",
        lambda f: entry(GROUPS, 8, f.section(METADATA)[0])(f),
    )
    for at in (0, 64, 2**40, TOP - 64):
        yield f"section_at_{at}", CORRUPT, "overlaps", entry(GROUPS, 8, at)
    for size in (2**32, 2**63, TOP - 1, TOP - 1024):
        yield f"section_of_{size}", CORRUPT, "overlaps", entry(GROUPS, 16, size)
    yield "no_index", CORRUPT, "no name index", entry(INDEX, 0, 0, 32)
    for size in (0, 32, 63):
        yield (
            f"index_of_{size}",
            CORRUPT,
            "shorter than its head",
            entry(INDEX, 16, size),
        )
    for slots in (0, 31, 33, 2**40 + 1, TOP - 1):
        yield f"slots_{slots}", CORRUPT, "number of slots", head(8, slots)
    yield "slots_few", CORRUPT, "number of slots", few_slots
    for slots in (64, 2**40, 2**63):
        yield f"slots_{slots}", CORRUPT, "does not fit its slots", head(8, slots)
    for by in (-8, -4):
        yield f"index_size_{by}", CORRUPT, "does not fit its slots", grow(INDEX, by)
    for at in (16, 63):
        yield f"index_head_{at}", CORRUPT, "not 0", head(at, 1, 8)


def record_rows():
    """R1 to R10: (name, rule, code, says, change)."""

    def put(name, field, value, bits=64):
        return lambda f: f.put(f.record(name) + field, value, bits)

    def shift(name, field, by):
        return lambda f: f.put(
            f.record(name) + field, f.get(f.record(name) + field) + by
        )

    def shape(name, *sizes):
        def change(f):
            at = f.get(f.record(name) + SHAPE)
            for i, size in enumerate(sizes):
                f.put(at + 8 * i, size)

        return change

    for at in (8, 64, 2**32, 2**63, TOP - 1):
        yield (
            f"name_at_{at}",
            "R1",
            CORRUPT,
            "outside the names",
            put(b"scale", NAME, at),
        )

    def endless(f):
        f.put(f.get(48) - 1, 0x78, 8)
        f.put(f.record(b"scale"), f.get(48) - 1)

    yield "name_without_end", "R1", CORRUPT, "has no end", endless
    for what, bad in (
        ("byte", b"\xff"),
        ("overlong", b"\xc0\x80"),
        ("surrogate", b"\xed\xa0\x80"),
        ("cut", b"\xe5\xb1"),
        ("above", b"\xf4\x90\x80\x80"),
    ):
        for name in (b"scale", b"model.embed.weight"):

            def change(f, bad=bad, name=name):
                at = f.get(f.record(name))
                f.raw[at + len(name) - len(bad) : at + len(name)] = bad

            where = "short" if name == b"scale" else "long"
            yield f"name_utf8_{what}_{where}", "R1", CORRUPT, "not UTF-8", change
    for code in (34, 0xFFF, 0x1000, 0x1004, 0x1064, 0x2000, 0x80000000, 2**32 - 1):
        says = "element type"
        yield f"type_{code:x}", "R2", UNSUPPORTED, says, put(b"scale", DTYPE, code, 32)
    for pad in (1, 2**32 - 1):
        yield f"pad_{pad}", "R3", CORRUPT, "padding", put(b"scale", PAD, pad, 32)
    for rank in (65, 1000, 2**32, 2**61, TOP - 1):
        yield f"rank_{rank}", "C40", CORRUPT, "rank", put(b"mask", RANK, rank)
    yield (
        "rank_64_past_the_end",
        "R5",
        CORRUPT,
        "shape lies outside",
        put(b"mask", RANK, 64),
    )
    for at in (0, 64, 2**40, TOP - 8):
        says = "shape lies outside"
        yield f"shape_at_{at}", "R5", CORRUPT, says, put(b"mask", SHAPE, at)
    yield "shape_off", "R5", CORRUPT, "shape is not aligned", shift(b"mask", SHAPE, -4)
    above = "above 2^56"
    yield "product_of_zero", "C37", CORRUPT, above, shape(b"empty", 0, 2**57)
    for a, b in ((2**63, 2), (2**32, 2**32), (TOP - 1, 2), (2**42 + 1, 2**22)):
        yield f"product_{a}_{b}", "C37", CORRUPT, above, shape(b"empty", a, b)
    yield "dimension_2_64", "C37", CORRUPT, above, shape(b"mask", TOP - 1)
    yield "dimension_2_56_and_1", "C37", CORRUPT, above, shape(b"mask", 2**56 + 1)

    def scalar_block(f):
        f.put(f.record(b"scale") + DTYPE, 0x1008, 32).put(f.record(b"scale") + SIZE, 0)

    yield "block_scalar", "R7", CORRUPT, "needs a dimension", scalar_block
    for row in (31, 33, 63):
        says = "multiple of the block"
        yield f"block_row_{row}", "C24", CORRUPT, says, shape(b"blocks", 2, row)
    for size in (0, 2, 4, 64, 2**63, TOP - 1):
        says = "data_size differs"
        yield f"data_of_{size}", "C39", CORRUPT, says, put(b"mask", SIZE, size)
    for count in (2, 4, 1000000):
        says = "data_size differs"
        yield f"elements_{count}", "C39", CORRUPT, says, shape(b"mask", count)
    outside = "outside the data region"
    yield "data_in_header", "R9", CORRUPT, outside, put(b"empty", OFFSET, 0)
    yield (
        "data_before",
        "R9",
        CORRUPT,
        outside,
        lambda f: f.put(f.record(b"empty") + OFFSET, f.get(24) - 64),
    )
    yield (
        "data_in_trailer",
        "R9",
        CORRUPT,
        outside,
        lambda f: f.put(f.record(b"mask") + OFFSET, f.trailer),
    )
    for at in (2**40, 2**63, TOP - 64, TOP - 1):
        yield f"data_far_{at}", "R9", CORRUPT, outside, put(b"mask", OFFSET, at)
    for by in (1, 2, 32):
        says = "data is not aligned"
        yield f"data_off_{by}", "R10", CORRUPT, says, shift(b"mask", OFFSET, by)


def whole_file_rows():
    """F3 and F4."""

    def same_place(one, other):
        return lambda f: f.put(f.record(one) + OFFSET, f.get(f.record(other) + OFFSET))

    def swap(f):
        a, b = f.record(b"mask") + OFFSET, f.record(b"scale") + OFFSET
        at = f.get(a)
        f.put(a, f.get(b)).put(b, at)

    def same_name(f):
        f.put(f.record(b"scale") + NAME, f.get(f.record(b"packed") + NAME))

    def slot(at, value, bits):
        return lambda f: f.put(f.slot(b"scale") + at, value, bits)

    yield "overlap_by_an_empty_one", "F3", "overlaps", same_place(b"empty", b"blocks")
    yield (
        "alias_of_another_size",
        "C53",
        "overlaps",
        same_place(b"mask", b"lm_head.flat"),
    )
    yield "alias_not_behind", "F3", "overlaps", same_place(b"packed", b"lm_head.flat")
    yield "data_out_of_order", "F3", "overlaps", swap

    def half(f):
        at = f.record(b"lm_head.weight")
        f.put(at + DTYPE, 4, 32).put(at + SIZE, 32)

    yield "alias_of_half", "C53", "overlaps", half
    yield "equal_names", "C55", "same name", same_name
    yield "index_blank_slot", "F4", "does not lead", slot(0, 0, 64)
    yield "index_to_another", "F4", "does not lead", slot(4, 1, 32)
    yield "index_to_nowhere", "F4", "does not lead", slot(4, 5000, 32)
    yield "index_fingerprint", "F4", "does not lead", slot(0, 12345, 32)
    yield "index_seed", "F4", "does not lead", lambda f: f.put(f.section(INDEX)[0], 99)


def cuts():
    """C36: cut at every length to 64, and around every border."""
    raw = basic()
    file = Bent(raw)
    borders = [64, 112, file.get(48), file.core_end, file.get(24), file.trailer]
    borders += [file.section(kind)[0] for kind in (INDEX, DIGESTS, METADATA, GROUPS)]
    borders += [len(raw), len(raw) - 8]
    places = {0, 1, 3, 4, 7, 8, 9, 16, 24, 32, 40, 48, 56, 63, len(raw) - 4096}
    places |= {b + d for b in borders for d in (-1, 0, 1)}
    for place in sorted(p for p in places if 0 <= p < len(raw)):
        says = "empty" if place == 0 else str(place) if place >= 4 else ""
        if place >= 64:
            says = str(len(raw))
        yield Refused(
            f"cut_at_{place}.weig", raw[:place], "weig", "C36: cut", CORRUPT, says
        )
    tensors = described([("a", "f32", (5, 7)), ("b", "i16", (9,))])
    for order, kind in (("<", "weig_minimal"), (">", "weig_big_endian")):
        raw = minimal(tensors, order)
        for place in (3, 63, 64, 111, 160, len(raw) - 18, len(raw) - 1):
            yield Refused(
                f"{kind}_cut_at_{place}.weig",
                raw[:place],
                kind,
                "C36: cut",
                CORRUPT,
                str(len(raw)) if place >= 64 else "",
                options=("unsealed",),
            )


def more_behind():
    """C53, C65, C90."""
    raw = basic()
    rounded = raw + bytes(-len(raw) % (64 << 10))
    whats = {"a_byte": raw + b"x", "a_page": raw + bytes(4096), "itself": raw * 2}
    for what, content in (whats | {"zeros_to_a_border": rounded}).items():
        yield Refused(
            f"more_{what}.weig",
            content,
            "weig",
            "C53, C90: bytes behind the end",
            CORRUPT,
            str(len(content)),
        )
    half = raw[len(raw) // 2 :]
    yield Refused("second_half.weig", half, "weig", "C90: of a split file", CORRUPT, "")


def damage():
    """C56: damage that nobody repaired."""
    raw = basic()
    file = Bent(raw)

    def flipped(at, bit=0x10):
        out = bytearray(raw)
        out[at] ^= bit
        return bytes(out)

    core = {"names": file.get(file.record(b"scale")), "table": 64 + 48 * 3 + 40}
    core |= {"section_table": file.get(48) + 24, "shapes": file.get(48) - 6}
    for what, at in core.items():
        yield Refused(
            f"flip_in_{what}.weig", flipped(at), "weig", "C56: a bit", CORRUPT, ""
        )
    index = file.slot(b"scale")
    yield Refused(
        "flip_in_index.weig", flipped(index), "weig", "C56", CORRUPT, "section 1"
    )
    for at in (0, 5, 9, 17, 25, 33, 48, 56):
        code = UNSUPPORTED if at in (5,) else CORRUPT
        yield Refused(
            f"flip_at_{at}.weig", flipped(at), "weig", "C56: header", code, ""
        )
    for at in (0, 8, 16, 32, 36, 40, 56, 63):
        yield Refused(
            f"flip_at_end_{at}.weig",
            flipped(file.trailer + at),
            "weig",
            "C56: trailer",
            CORRUPT,
            "",
        )
    for kind, what in (
        (DIGESTS, "digests"),
        (METADATA, "metadata"),
        (GROUPS, "groups"),
    ):
        yield Refused(
            f"flip_in_{what}.weig",
            flipped(file.section(kind)[0] + 9),
            "weig",
            "C56: a section",
            CORRUPT,
            f"section {kind}",
            when="verify",
        )
    for name in (b"scale", b"mask", b"model.layers.2.mlp.weight", b"blocks"):
        begin = file.get(file.record(name) + OFFSET)
        size = file.get(file.record(name) + SIZE)
        for where, at in (("first", 0), ("middle", size // 2), ("last", size - 1)):
            yield Refused(
                f"flip_in_{name.decode()}_{where}.weig",
                flipped(begin + at),
                "weig",
                "C56: a tensor's byte",
                "checksum",
                f"tensor '{name.decode()}'",
                when="verify",
            )
    a = file.get(file.record(b"model.layers.2.mlp.weight") + OFFSET)
    b = file.get(file.record(b"model.layers.10.mlp.weight") + OFFSET)
    swapped = bytearray(raw)
    swapped[a : a + 64], swapped[b : b + 64] = raw[b : b + 64], raw[a : a + 64]
    yield Refused(
        "swapped_tensors.weig",
        bytes(swapped),
        "weig",
        "C56: two of a size swapped",
        "checksum",
        "tensor 'model.layers.2.mlp.weight'",
        when="verify",
    )
    zeroed = sealed(described([("w", "u8", (16384,))]))
    zeroed = zeroed[:8192] + bytes(4096) + zeroed[12288:]
    yield Refused(
        "zero_page.weig",
        zeroed,
        "weig",
        "C56: a page of zeros",
        "checksum",
        "tensor 'w'",
        when="verify",
    )
    padding = file.get(file.record(b"mask") + OFFSET) + 3
    yield Refused(
        "flip_in_padding.weig",
        flipped(padding),
        "weig",
        "C56: padding",
        CORRUPT,
        "padding",
        when="verify",
    )
    core_padding = file.get(24) - 1
    yield Refused(
        "flip_before_data.weig",
        flipped(core_padding),
        "weig",
        "C56: padding",
        CORRUPT,
        "padding",
        when="verify",
    )


def files():
    def made(name, about, code, says, change, base=basic):
        file = Bent(base())
        change(file)
        raw = bytes(file.reseal().raw)
        return Refused(f"{name}.weig", raw, "weig", about, code, says)

    for name, about, code, says, change in header_rows():
        yield made(name, about, code, says, change)
    for name, code, says, change in table_rows():
        yield made(name, "O6", code, says, change)
    for name, about, code, says, change in record_rows():
        yield made(name, about, code, says, change)
    for name, about, says, change in whole_file_rows():
        yield made(name, about, CORRUPT, says, change)

    file = Bent(basic()).put(len(basic()) - 8, 1)
    yield Refused("check.weig", bytes(file.raw), "weig", "O4", CORRUPT, "check")
    file = Bent(basic())
    file.put(file.trailer + 16, 12345).reseal_ends()
    yield Refused(
        "file_id.weig", bytes(file.raw), "weig", "F1", CORRUPT, "names are damaged"
    )
    file = Bent(basic())
    file.put(file.entry(INDEX) + 24, 12345).reseal_core().reseal_ends()
    yield Refused(
        "index_digest.weig", bytes(file.raw), "weig", "F2", CORRUPT, "section 1"
    )
    yield from cuts()
    yield from more_behind()
    yield from damage()
