# SPDX-License-Identifier: Apache-2.0
"""What convert writes is, to the byte, what the format says that a writer writes."""

import itertools

import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

import weig_file
import weig_writer
from safetensors_file import DTYPES, by_hand, by_reference, byte_count, pattern

KIB, MIB = 1 << 10, 1 << 20


def zeros(size):
    return ("U8", (size,), bytes(size))


LAYOUTS = {
    "no_tensors": {},
    "one_scalar": {"a": ("F32", (), pattern(4))},
    "empty_tensors_between": {
        "a": zeros(0),
        "b": zeros(1),
        "c": zeros(0),
        "d": zeros(0),
        "e": zeros(65),
        "f": zeros(0),
    },
    "natural_order": {
        n: zeros(8)
        for n in (
            "x10",
            "x9",
            "x09",
            "x009",
            "x1",
            "x",
            "x1.5",
            "x1-5",
            "x1 5",
            "",
            "~",
            "X2",
            "x9a",
            "x09b",
            "x9.10.w",
            "x9.9.w",
            "0",
            "00",
            "1",
            "01.w",
            "1.w",
            "x18446744073709551616",
            "x18446744073709551617",
            "\u00e95",
            "\u00e910",
        )
    },
    "groups": {
        n: zeros(size)
        for n, size in (
            ("h.0.a", 100),
            ("h.0.b", 5000),
            ("h.0", 7),
            ("h.1.a", 200),
            ("h.1.", 3),
            ("h.1..c", 3),
            ("h.01.a", 9),
            ("h.2.3.w", 1),
            ("h.2.4.w", 1),
            ("1.w", 1),
            ("g.1a.w", 70),
            ("g.1", 80),
            ("g..1.w", 90),
            ("h.\u0661.w", 4),
            ("z", 3),
        )
    },
    "alignment_of_loose_tensors": {
        f"t{i}": zeros(size)
        for i, size in enumerate(
            (128 * KIB - 1, 1, 128 * KIB, 1, 2 * MIB - 1, 1, 2 * MIB, 1, 128 * KIB, 3)
        )
    },
    "alignment_of_groups": {
        f"h.{i}.{part}": zeros(size)
        for i, (a, b) in enumerate(
            (
                (1, 1),
                (100 * KIB, 60 * KIB),
                (128 * KIB, 1),
                (1 * MIB, 1 * MIB + 1),
                (3 * MIB, 130 * KIB),
                (64, 64),
            )
        )
        for part, size in (("a", a), ("b", b))
    }
    | {"loose": zeros(70)},
    "one_page_of_2_mib": {"a": zeros(1), "b": zeros(64 * MIB), "c": zeros(1)},
    "shapes_shared_and_not": {
        "a": zeros(6),
        "b": ("U8", (2, 3), bytes(6)),
        "c": ("U8", (3, 2), bytes(6)),
        "d": ("U8", (2, 3), bytes(6)),
        "e": ("U8", (6,), bytes(6)),
        "f": ("U8", (1, 2, 3), bytes(6)),
        "g": ("U8", (0, 2**56), b""),
        "h": ("U8", (), bytes(1)),
        "i": ("U8", (1,) * 64, bytes(1)),
    },
}


def convert(weig, tmp_path, raw):
    (tmp_path / "in.safetensors").write_bytes(raw)
    weig.ok(
        "convert", tmp_path / "in.safetensors", "-o", tmp_path / "a.weig", "--force"
    )
    return tmp_path / "a.weig"


def assert_golden(weig, tmp_path, raw):
    """The command's file, the independent writer's, and both read back."""
    written = convert(weig, tmp_path, raw)
    expected = weig_writer.from_safetensors(raw)
    if written.read_bytes() != expected:
        pytest.fail(first_difference(written.read_bytes(), expected))
    return weig_file.read(written)


def first_difference(found, expected):
    at = next(
        (i for i, (a, b) in enumerate(zip(found, expected)) if a != b),
        min(len(found), len(expected)),
    )
    return (
        f"byte {at}: found {found[at : at + 16].hex(' ')}, expected "
        f"{expected[at : at + 16].hex(' ')}; sizes {len(found)} and {len(expected)}"
    )


@pytest.mark.parametrize("layout", LAYOUTS)
def test_places_everything_where_the_format_says(weig, tmp_path, layout):
    assert_golden(weig, tmp_path, by_reference(LAYOUTS[layout]))


def test_writes_the_same_file_whatever_the_source_s_order(weig, tmp_path):
    tensors = LAYOUTS["groups"]
    one = convert(weig, tmp_path, by_hand(tensors)).read_bytes()
    other = convert(
        weig, tmp_path, by_hand(dict(reversed(tensors.items())))
    ).read_bytes()
    a, b = (weig_file._read(raw) for raw in (one, other))
    assert [t.name for t in a.tensors] == [t.name for t in b.tensors]
    assert [t.offset for t in a.tensors] == [t.offset for t in b.tensors]


def test_index_of_many_names_is_the_smallest_with_the_smallest_seed(weig, tmp_path):
    for count in (1, 2, 3, 4, 1023, 1024, 1025, 5000):
        tensors = {f"tensor.{i}": ("U8", (), bytes(1)) for i in range(count)}
        file = assert_golden(weig, tmp_path, by_hand(tensors))
        assert (
            int.from_bytes(file.sections[weig_file.INDEX][8:16], "little") >= 2 * count
        )


@pytest.mark.parametrize("count,seed", [(128, 0), (129, 1)])
def test_names_that_crowd_one_slot_get_another_seed(weig, tmp_path, count, seed):
    """128 names with one home need 128 slots; that is the most."""
    slots = 256 if count == 128 else 512
    names = (f"n{i}" for i in itertools.count())
    homes = ((n, xxhash.xxh3_64_intdigest(n.encode()) % slots) for n in names)
    crowd = itertools.islice((n for n, home in homes if home == 7), count)
    tensors = dict.fromkeys(crowd, ("U8", (), b"x"))
    file = assert_golden(weig, tmp_path, by_hand(tensors))
    assert weig_file.u64(file.sections[weig_file.INDEX], 0) == seed
    for name in list(tensors)[::40]:
        weig.ok("get", tmp_path / "a.weig", name)
    assert weig("get", tmp_path / "a.weig", "n").status == 6
    weig.ok("verify", tmp_path / "a.weig")


@pytest.mark.parametrize("dtype", DTYPES)
def test_carries_every_type_of_safetensors(weig, tmp_path, round_trip, dtype):
    """C10, C18"""
    shape = (2, 6, 256)
    data = bytes(i % 256 for i in range(byte_count(dtype, shape)))
    raw = by_hand({"t": (dtype, shape, data)})
    file = assert_golden(weig, tmp_path, raw)
    assert file["t"].shape == shape and file["t"].data == data
    round_trip(raw)


NAMES = st.one_of(
    st.text(
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=9
    ),
    st.from_regex(r"\A(h|layer|0|1)(\.([0-9]{1,2}|a|b)){0,3}\Z"),
).filter(lambda name: name != "__metadata__")
SHAPES = st.lists(st.integers(0, 4), max_size=4).map(tuple)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@st.composite
def tensor(draw):
    dtype = draw(st.sampled_from(sorted(DTYPES)))
    shape = draw(SHAPES)
    if DTYPES[dtype][1] < 8:  # must fill bytes
        shape = (*shape, 4)
    data = draw(st.binary(min_size=1, max_size=8))
    size = byte_count(dtype, shape)
    return dtype, shape, (data * (size // len(data) + 1))[:size]


@settings(max_examples=120)
@given(
    st.dictionaries(NAMES, tensor(), max_size=12),
    st.none() | st.dictionaries(TEXT, TEXT, max_size=4),
    st.sampled_from([1, 8, 64]),
)
def test_any_tensors_are_written_as_the_format_says(
    weig, tmp_path_factory, tensors, metadata, pad
):
    """Names, types, shapes, values and metadata of any kind: golden, equal to what went
    in, and given back byte for byte."""
    folder = tmp_path_factory.mktemp("any")
    raw = by_hand(tensors, metadata, pad)
    file = assert_golden(weig, folder, raw)
    assert {t.name.decode(): (t.shape, t.data) for t in file.tensors} == {
        name: (shape, data) for name, (_, shape, data) in tensors.items()
    }
    if metadata is None:
        assert weig_file.METADATA not in file.sections
    else:
        assert weig_file.read_metadata(file.sections[weig_file.METADATA]) == metadata
    weig.ok("verify", folder / "a.weig")
    weig.ok("export", folder / "a.weig", folder / "back.safetensors")
    assert (folder / "back.safetensors").read_bytes() == raw
