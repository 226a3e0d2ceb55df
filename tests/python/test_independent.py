# SPDX-License-Identifier: Apache-2.0
"""Programs of others: a reader of header and table alone reads our files, and the file
of a minimal writer, in either byte order, opens on request and can be sealed."""

import struct
import subprocess
from pathlib import Path

import pytest

import minimal_file
import weig_file
import weig_writer
from command import CORRUPT, UNSUPPORTED
from safetensors_file import DTYPES, pattern

SOURCES = Path(__file__).resolve().parent.parent / "independent"
ACCEPT = "--accept-unsealed"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Compiles a C program of tests/independent and returns its path."""
    folder = tmp_path_factory.mktemp("programs")

    def compile_c(name):
        if not (folder / name).exists():
            subprocess.run(
                [
                    "cc",
                    "-std=c11",
                    "-O1",
                    "-Wall",
                    "-Wextra",
                    "-Werror",
                    "-D_DEFAULT_SOURCE",
                    SOURCES / f"{name}.c",
                    "-o",
                    folder / name,
                ],
                check=True,
            )
        return folder / name

    return compile_c


@pytest.fixture(scope="module")
def minimal(program, tmp_path_factory):
    """Paths of the minimal writer's two files, by byte order."""
    folder = tmp_path_factory.mktemp("minimal")
    paths = {"little": folder / "little.weig", "big": folder / "big.weig"}
    subprocess.run([program("minimal_writer"), paths["little"]], check=True)
    subprocess.run(
        [program("minimal_writer"), "--big-endian", paths["big"]], check=True
    )
    return paths


def counted(code, *arguments):
    return struct.pack(f"<{len(arguments)}{code}", *arguments)


# What minimal_writer.c writes, in little-endian order.
MINIMAL = [
    (b"layer.0.weight", "f32", (2, 3), counted("f", 1, 2, 3, 4, 5, 6)),
    (b"layer.0.bias", "f16", (5,), counted("e", 1, 2, 3, 4, 5)),
    (b"head", "bf16", (2, 1, 2), counted("H", 0x3F80, 0x4000, 0x4040, 0x4080)),
    (b"i8", "i8", (7,), bytes(range(1, 8))),
    (b"u8", "u8", (3,), bytes(range(1, 4))),
    (b"i32", "i32", (3,), counted("i", 1, 2, 3)),
    (b"f64", "f64", (2,), counted("d", 1, 2)),
    (b"i64", "i64", (), counted("q", 1)),
    (b"u16", "u16", (6,), counted("H", 1, 2, 3, 4, 5, 6)),
    (b"complex64", "complex64", (2,), counted("f", 1, -1, 2, -2)),
    (b"empty", "f32", (0, 4), b""),
]


def assert_reader_agrees(weig, program, path):
    read = subprocess.run([program("reader"), path], check=True, capture_output=True)
    lines = [line.rsplit("\t", 4) for line in read.stdout.decode().splitlines()]
    listed = weig.ok("ls", "--json", path).json()["tensors"]
    assert lines == [
        [
            t["name"],
            str(weig_file.CODES[t["dtype"]]),
            "[" + ",".join(map(str, t["shape"])) + "]",
            str(t["offset"]),
            str(t["bytes"]),
        ]
        for t in listed
    ]
    assert lines


def test_reader_of_header_and_table_alone_agrees_with_ls(
    weig, program, sample_weig, tmp_path
):
    (tmp_path / "a.weig").write_bytes(sample_weig)
    assert_reader_agrees(weig, program, tmp_path / "a.weig")


@pytest.mark.parametrize("order", ["little", "big"])
def test_minimal_file_is_refused_in_words_that_say_so(refused, minimal, order):
    for command in ("info", "ls", "verify"):
        message = refused([command, minimal[order]], UNSUPPORTED, minimal[order])
        assert "not sealed" in message and "weig convert" in message
        refused.as_json([command, minimal[order]], UNSUPPORTED)
    refused(["get", minimal[order], "u8"], UNSUPPORTED, minimal[order], "not sealed")


@pytest.mark.parametrize("order", ["little", "big"])
def test_minimal_file_opens_on_request(weig, minimal, order):
    path = minimal[order]
    listed = weig.ok("ls", "--json", ACCEPT, path).json()["tensors"]
    assert [(t["name"].encode(), t["dtype"], tuple(t["shape"])) for t in listed] == [
        t[:3] for t in MINIMAL
    ]
    for name, *_, data in MINIMAL:
        assert weig.ok("get", "--raw", ACCEPT, path, name.decode()).out == data
    info = weig.ok("info", "--json", ACCEPT, path).json()
    kind = {"little": "weig_minimal", "big": "weig_big_endian"}[order]
    assert info["format"] == kind and info["sealed"] is False
    assert "no digests" in weig.ok("verify", ACCEPT, path).text


@pytest.mark.parametrize("order", ["little", "big"])
def test_convert_seals_a_minimal_file(weig, minimal, tmp_path, order):
    weig.ok("convert", minimal[order], "-o", tmp_path / "sealed.weig")
    expected = weig_writer.write(
        [
            weig_file.Tensor(name, weig_file.CODES[dtype], shape, data)
            for name, dtype, shape, data in MINIMAL
        ]
    )
    assert (tmp_path / "sealed.weig").read_bytes() == expected
    weig.ok("verify", tmp_path / "sealed.weig")


def seal(weig, tmp_path, raw):
    """The tensors of a minimal file once sealed, by name."""
    (tmp_path / "in.weig").write_bytes(raw)
    weig.ok("ls", ACCEPT, tmp_path / "in.weig")
    weig.ok("convert", tmp_path / "in.weig", "-o", tmp_path / "out.weig", "--force")
    return weig_file.read(tmp_path / "out.weig")


def test_minimal_file_may_order_and_align_as_it_likes(weig, tmp_path):
    tensors = [
        (b"z", 0, (3,), pattern(12, 1)),
        (b"a.10", 6, (), pattern(8, 2)),
        (b"a.9", 4, (5,), pattern(5, 3)),
        ("n\u00e4me\n".encode(), 1, (2, 2), pattern(8, 4)),
        (b"", 4, (1,), b"x"),
    ]
    for gap in (0, 1, 13):
        raw = minimal_file.build(tensors, gap=gap)
        file = seal(weig, tmp_path, raw)
        assert [t.name for t in file.tensors] == sorted(
            (t[0] for t in tensors), key=weig_writer.natural_key
        )
        for name, _, shape, data in tensors:
            assert (file[name].shape, file[name].data) == (shape, data)
        weig.ok("get", ACCEPT, tmp_path / "in.weig", "z", "--raw")


def test_minimal_file_may_store_bytes_once_for_two_names(weig, tmp_path):
    tensors = [
        (b"b", 4, (4,), b"1234"),
        (b"other", 4, (2,), b"xy"),
        (b"a", 3, (2, 2), b""),
    ]
    first = struct.unpack_from("<Q", minimal_file.build(tensors), 64 + 32)[0]
    raw = minimal_file.build(tensors, records={2: {"offset": first, "size": 4}})
    file = seal(weig, tmp_path, raw)
    assert [t.name for t in file.tensors] == [b"a", b"b", b"other"]
    assert file["b"].alias_of == b"a" and file["a"].data == file["b"].data == b"1234"
    assert file["a"].shape == (2, 2) and file["b"].shape == (4,)


def big_endian(width, data):
    return b"".join(data[i : i + width][::-1] for i in range(0, len(data), width))


# Bytes that are swapped as one number; of all other types there is nothing to swap.
SWAPPED = {
    "f64": 8,
    "i64": 8,
    "u64": 8,
    "complex128": 8,
    "complex64": 4,
    "f32": 4,
    "i32": 4,
    "u32": 4,
    "complex32": 2,
    "bcomplex32": 2,
    "f16": 2,
    "bf16": 2,
    "i16": 2,
    "u16": 2,
}


def every_type(order):
    """A tensor of each type, of 3 x 8 elements, for minimal_file.build."""
    tensors = []
    for i, (dtype, code) in enumerate(weig_file.CODES.items()):
        data = pattern(weig_file.byte_count(code, (3, 8)), i)
        if order == ">":
            data = big_endian(SWAPPED.get(dtype, 1), data)
        tensors.append((dtype.encode(), code, (3, 8), data))
    return tensors


def test_big_endian_elements_swap_by_their_width(weig, tmp_path):
    """C21: each width is swapped, complex numbers by component, bytes and below not."""
    expected = {name.decode(): data for name, *_, data in every_type("<")}
    for gap in (0, 3):
        raw = minimal_file.build(every_type(">"), ">", gap=gap)
        file = seal(weig, tmp_path, raw)
        assert {t.name.decode(): t.data for t in file.tensors} == expected
        for dtype, data in expected.items():
            got = weig.ok("get", "--raw", ACCEPT, tmp_path / "in.weig", dtype)
            assert got.out == data


def test_big_endian_file_is_like_its_little_endian_twin(weig, tmp_path):
    """Sealed and printed."""
    big, little = tmp_path / "big.weig", tmp_path / "little.weig"
    big.write_bytes(minimal_file.build(every_type(">"), ">"))
    little.write_bytes(minimal_file.build(every_type("<")))

    sealed = []
    for path in (big, little):
        target = path.with_suffix(".sealed.weig")
        weig.ok("convert", path, "-o", target)
        weig.ok("verify", target)
        sealed.append(target.read_bytes())
    assert sealed[0] == sealed[1]
    for check in ("--quick", "--json"):
        weig.ok("verify", check, ACCEPT, big)
    for command in ("info", "ls"):
        its_own = {"file": str(little)}
        if command == "info":
            its_own["format"] = "weig_minimal"
        told = weig.ok(command, "--json", ACCEPT, big).json() | its_own
        assert told == weig.ok(command, "--json", ACCEPT, little).json()
    for dtype in weig_file.CODES:
        for options in ([], ["--json", "--widen"], ["--slice", "1:, ::-2"]):
            call = ["get", ACCEPT, *options]
            assert weig.ok(*call, big, dtype).out == weig.ok(*call, little, dtype).out


def test_big_endian_file_is_exported_like_its_little_endian_twin(weig, tmp_path):
    lacking = {"complex128", "complex32", "bcomplex32", "f8_e4m3", "f8_e3m4"}
    lacking |= {"f8_e4m3b11fnuz", "i4", "u4", "i2", "u2", "i1", "u1"}  # in safetensors
    exported = []
    for order in "<>":
        held = [t for t in every_type(order) if t[0].decode() not in lacking]
        (tmp_path / "in.weig").write_bytes(minimal_file.build(held, order))
        target = tmp_path / f"{len(exported)}.safetensors"
        weig.ok("export", tmp_path / "in.weig", target)
        exported.append(target.read_bytes())
    assert len(held) == len(DTYPES) and exported[0] == exported[1]


@pytest.mark.parametrize("codes", [(0, 0), (0, 5), (0, 1), (6, 23), (4, 3)])
def test_big_endian_names_that_share_bytes(weig, refused, tmp_path, codes):
    """One way to swap is right for all of them, or the file is refused by all."""
    size = 16
    shapes = [(size * 8 // weig_file.DTYPES[code][1],) for code in codes]
    tensors = [
        (b"a", codes[0], shapes[0], pattern(size)),
        (b"b", codes[1], shapes[1], b""),
    ]
    first = struct.unpack_from(">Q", minimal_file.build(tensors, ">"), 64 + 32)[0]
    raw = minimal_file.build(tensors, ">", records={1: {"offset": first, "size": size}})
    swaps = [{0: 4, 1: 2, 5: 4, 6: 8, 23: 4, 4: 1, 3: 1}[code] for code in codes]
    if swaps[0] == swaps[1]:
        file = seal(weig, tmp_path, raw)
        assert file["a"].data == file["b"].data == big_endian(swaps[0], pattern(size))
        assert file["b"].alias_of == b"a"
        return
    path = tmp_path / "in.weig"
    path.write_bytes(raw)
    for command in ("info", "ls", "verify"):
        refused([command, ACCEPT, path], UNSUPPORTED, path, tensor="b")
    convert = ["convert", path, "-o", tmp_path / "out.weig"]
    refused(convert, UNSUPPORTED, path, tensor="b", kept=tmp_path)


TWO = [(b"a", 0, (2,), pattern(8)), (b"b", 4, (8,), pattern(8, 2))]
FIRST = struct.unpack_from("<Q", minimal_file.build(TWO), 64 + 32)[0]

BAD = {
    "partial_overlap": ({"records": {1: {"offset": FIRST + 4}}}, CORRUPT, "b"),
    "name_twice": ({"records": {1: {"name": 64 + 96}}}, CORRUPT, "a"),
    "unknown_dtype": ({"records": {1: {"dtype": 99}}}, UNSUPPORTED, "b"),
    "pad": ({"records": {1: {"pad": 1}}}, CORRUPT, "b"),
    "size_unlike_shape": ({"records": {0: {"size": 7}}}, CORRUPT, "a"),
    "data_before_data_offset": ({"records": {0: {"offset": FIRST - 1}}}, CORRUPT, "a"),
    "data_past_the_end": ({"records": {1: {"offset": FIRST + 9}}}, CORRUPT, "b"),
    "offset_wraps": ({"records": {1: {"offset": 2**64 - 4}}}, CORRUPT, "b"),
    "rank_65": ({"records": {0: {"rank": 65}}}, CORRUPT, "a"),
    "name_in_data": ({"records": {0: {"name": FIRST}}}, CORRUPT, None),
    "shape_in_table": ({"records": {0: {"shape": 64}}}, CORRUPT, "a"),
    # A big-endian file has no flags at all: whatever they say is unsupported.
    "flag_sealed_alone": ({"flags": 1}, CORRUPT, None),
    "flag_sections_alone": ({"flags": 2}, CORRUPT, None),
    "flag_packed": ({"flags": 4}, UNSUPPORTED, None),
    "flag_unknown": ({"flags": 1 << 31}, UNSUPPORTED, None),
    "flag_of_the_ignored_half": ({"flags": 1 << 32}, CORRUPT, None),
    "reserved": ({"reserved0": 8}, CORRUPT, None),
    "version": ({"version": 2}, UNSUPPORTED, None),
    "file_size": ({"file_size": 1000}, CORRUPT, None),
    "data_offset_past_the_end": ({"data_offset": 1000}, CORRUPT, None),
    "table_past_the_end": ({"table": 1 << 40}, CORRUPT, None),
    "count_wraps": ({"count": 2**60}, CORRUPT, None),
}


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("fault", BAD)
def test_faulty_minimal_file_is_refused(refused, tmp_path, fault, order):
    changes, status, tensor = BAD[fault]
    path = tmp_path / "bad.weig"
    path.write_bytes(minimal_file.build(TWO, order, **changes))
    if order == ">" and "flags" in changes:
        status = UNSUPPORTED
    for call in (["info"], ["ls"], ["verify"]):
        refused([*call, ACCEPT, path], status, path, tensor=tensor, kept=tmp_path)
    convert = ["convert", path, "-o", tmp_path / "out.weig"]
    refused(convert, status, path, tensor=tensor, kept=tmp_path)
    refused.as_json(convert, status)
