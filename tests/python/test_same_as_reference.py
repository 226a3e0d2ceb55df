# SPDX-License-Identifier: Apache-2.0
"""What strict reading accepts, the reference package accepts too, and reads the same;
what the reference refuses is refused. Where we refuse more, it is for a reason that is
written down."""

import struct

import safetensors
from hypothesis import given, settings
from hypothesis import strategies as st

import weig_file
import weig_writer
from command import CORRUPT, LIMIT, UNSUPPORTED
from safetensors_file import DTYPES, assemble, byte_count, pattern, read_by_reference

# The reference lets these pass; its format's text does not, or WEIG cannot hold them.
STRICTER = (
    "does not start with {",
    "is no object",  # "__metadata__": null
    "twice",
    "same name",
    "NUL",
    "above 2^56",
    "not a weights file",
    "no weights file",
    "passed over",
    "its shape has too many numbers",
)

PIECES = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"',
    "0",
    "1",
    "8",
    "-1",
    "1e0",
    "null",
    "true",
    " ",
    "\\",
    "\\u0000",
    "\\ud800",
    "\x7f",
    "\x01",
    '"F16"',
    '"U8"',
    '"dtype"',
    '"__metadata__":{"a":"b"},',
    '"extra":[{"x":1}],',
    "18446744073709551616",
]


@st.composite
def header_and_data(draw):
    """A sound header with a few edits, and data of about the right size."""
    parts, end = [], 0
    for i in range(draw(st.integers(0, 3))):
        dtype = draw(st.sampled_from(["U8", "F16", "F4", "C64"]))
        shape = [*draw(st.lists(st.integers(0, 3), max_size=2)), 2]
        begin = end + draw(st.sampled_from([0, 0, 0, 0, 1, -1]))
        end = begin + byte_count(dtype, shape)
        parts.append(
            f'"{"ab"[i % 2]}{i}":{{"dtype":"{dtype}","shape":{shape},'
            f'"data_offsets":[{begin},{end}]}}'
        )
    if draw(st.booleans()):
        parts.insert(draw(st.integers(0, len(parts))), '"__metadata__":{"k":"v"}')
    text = "{" + ",".join(parts) + "}"
    for _ in range(draw(st.integers(0, 2))):
        at = draw(st.integers(0, len(text)))
        cut = draw(st.sampled_from([0, 0, 1, 2]))
        text = text[:at] + draw(st.sampled_from(["", *PIECES])) + text[at + cut :]
    size = max(0, end + draw(st.sampled_from([0, 0, 0, 0, 0, 1, -1])))
    return text.encode(), pattern(size)


def reference(raw):
    try:
        return read_by_reference(raw)
    except (safetensors.SafetensorError, OverflowError):
        return None


@settings(max_examples=250)
@given(header_and_data())
def test_strict_reading_is_that_of_the_reference(weig, tmp_path_factory, made):
    folder = tmp_path_factory.mktemp("same")
    raw = assemble(*made)
    path = folder / "in.safetensors"
    path.write_bytes(raw)
    expected = reference(raw)
    run = weig("convert", path, "-o", folder / "out.weig")
    if run.status == 0:
        assert expected is not None, f"only we accept {raw!r}"
        file = weig_file.read(folder / "out.weig")
        found = {t.name.decode(): (t.dtype, t.shape, t.data) for t in file.tensors}
        assert found == {
            name: (weig_writer.safetensors_code(dtype), shape, data)
            for name, (dtype, shape, data) in expected.items()
        }
        weig.ok("export", folder / "out.weig", folder / "back")
        assert (folder / "back").read_bytes() == raw
        return
    assert run.status in (CORRUPT, UNSUPPORTED, LIMIT), run.err
    if expected is not None:
        assert any(reason in run.err for reason in STRICTER), (run.err, raw)
    for command in ("info", "ls", "verify"):
        again = weig(command, path)
        assert (again.status, again.err) == (run.status, run.err)


@settings(max_examples=150)
@given(st.data())
def test_damaged_sample_never_ends_by_a_signal(
    weig, sample, sample_weig, tmp_path_factory, data
):
    """C98: random damage to a file of either kind gives an error or the truth."""
    folder = tmp_path_factory.mktemp("damage")
    raw = bytearray(data.draw(st.sampled_from([sample.raw, sample_weig])))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(raw) - 8))
        value = data.draw(
            st.one_of(
                st.binary(min_size=1, max_size=8),
                st.sampled_from([0, 1, 7, 2**31, 2**32 - 1, 2**63, 2**64 - 1]).map(
                    lambda number: struct.pack("<Q", number)
                ),
            )
        )
        raw[at : at + len(value)] = value
    path = folder / "damaged"
    path.write_bytes(raw)
    for call in (["info"], ["ls", "--json"], ["verify"], ["get", "--raw"]):
        more = ["model.step"] if call[0] == "get" else []
        run = weig(*call, path, *more, timeout=20)
        assert run.status in (0, CORRUPT, 4, UNSUPPORTED, 6, LIMIT), run.err
    run = weig("convert", path, "-o", folder / "out.weig", timeout=20)
    assert run.status in (0, CORRUPT, 4, UNSUPPORTED, LIMIT), run.err
    if run.status == 0:
        weig_file.read(folder / "out.weig")


def test_types_are_those_of_the_reference():
    """The list that all tests go by is the reference's own."""
    for name, (_, bits) in DTYPES.items():
        raw = assemble(
            {"t": {"dtype": name, "shape": [8], "data_offsets": [0, bits]}}, bytes(bits)
        )
        assert read_by_reference(raw)["t"][0] == name
