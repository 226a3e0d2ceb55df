# SPDX-License-Identifier: Apache-2.0
"""weig diff: two models of any formats, side by side."""

import json
import os

import numpy as np
import pytest

from command import CANNOT_OPEN, CHECKSUM, CORRUPT, NOT_FOUND
from safetensors_file import by_hand

DIFFERENT = 1


def model(path, tensors, metadata=None):
    dtypes = {"f4": "F32", "f8": "F64", "f2": "F16", "i4": "I32", "u1": "U8"}
    path.write_bytes(
        by_hand(
            {n: (dtypes[a.dtype.str[1:]], a.shape, a.tobytes()) for n, a in tensors.items()},
            metadata,
        )
    )
    return path


TENSORS = {
    "w": np.arange(12, dtype="<f4").reshape(3, 4),
    "b": np.ones(5, "<f4"),
    "ids": np.arange(4, dtype="<i4"),
}


def compare(weig, a, b, *options):
    run = weig("diff", a, b, "--json", *options)
    assert run.status in (0, DIFFERENT), run.err
    found = run.json()
    assert found["same"] == (run.status == 0)
    return found


def names(found, what):
    return [tensor["name"] for tensor in found[what]]


def test_one_model_in_every_format(weig, tmp_path):
    """The files are different, the models are not."""
    source = model(tmp_path / "m.safetensors", TENSORS)
    weig.ok("convert", source)
    weig.ok("convert", source, "--shard-size", "200", "-o", tmp_path / "set.weig")
    ways = [source, tmp_path / "m.weig", next(tmp_path.glob("set-00001-of-*.weig"))]
    for ending in ("pt", "npz"):
        weig.ok("export", tmp_path / "m.weig", tmp_path / f"m.{ending}")
        ways.append(tmp_path / f"m.{ending}")
    (tmp_path / "hf").mkdir()
    weig.ok("export", tmp_path / "m.weig", tmp_path / "hf" / "m.safetensors",
            "--shard-size", "100")  # fmt: skip
    ways.append(tmp_path / "hf")
    for a in ways:
        for b in ways:
            found = compare(weig, a, b)
            assert found["same"] and found["equal"] == 3, (a, b)
            by_digest = ".weig" in str(a) and ".weig" in str(b)
            assert found["equal_by_digest"] == (3 if by_digest else 0)


def test_every_kind_of_difference(weig, tmp_path):
    a = model(tmp_path / "a.safetensors", TENSORS | {"old": np.zeros(2, "<f4")}, {"k": "1"})
    other = {
        "w": TENSORS["w"] + np.float32([[0, 0, 0, 0], [0, 0.5, 0, 0], [0, 0, 0, -2]]),
        "b": np.ones((5, 1), "<f4"),
        "ids": TENSORS["ids"][::-1].copy(),
        "new": np.zeros(3, "<f2"),
    }
    b = model(tmp_path / "b.safetensors", other, {"k": "2", "more": "x"})
    for path in (a, b):
        weig.ok("convert", path)
    for first, second in ((a, b), (tmp_path / "a.weig", tmp_path / "b.weig")):
        found = compare(weig, first, second)
        assert names(found, "removed") == ["old"] and names(found, "added") == ["new"]
        assert names(found, "changed") == ["b", "ids", "w"] and found["equal"] == 0
        b_, ids, w = found["changed"]
        assert b_["a"]["shape"] == [5] and b_["b"]["shape"] == [5, 1] and "max" not in b_
        assert "differing" not in ids
        assert (w["elements"], w["differing"], w["nan"]) == (12, 2, 0)
        assert (w["max"], w["mean"]) == (2, 2.5 / 12)
        assert found["metadata"] == [
            {"key": "k", "in_a": True, "in_b": True},
            {"key": "more", "in_a": False, "in_b": True},
        ]
    run = weig("diff", a, b)
    assert run.status == DIFFERENT and run.err == ""
    text = run.out.decode()
    assert "w    f32 [3,4]: 2 of 12 elements differ, by 2 at most" in text
    assert "f32 [5] became f32 [5,1]" in text and "i32 [4]: other bytes" in text
    assert "0 equal, 3 changed, 1 removed, 1 added, other metadata;" in text
    found = compare(weig, a, b, "--include", "*", "--exclude", "[wbion]*")
    assert found["a"]["tensors"] == found["b"]["tensors"] == 0


@pytest.mark.parametrize("types", ["<f4 <f4", "<f8 <f8", "<f2 <f2", "<f4 <f2", "<f8 <f4"])
def test_numbers_as_numpy_has_them(weig, tmp_path, types):
    rng = np.random.default_rng(7)
    one, two = types.split()
    a = rng.standard_normal(1_000_003).astype(one)
    b = a.astype(two)
    b[rng.integers(0, a.size, 1000)] += np.asarray(0.25, two)
    a[5] = b[6] = a[7] = b[7] = np.nan
    a[8], b[8] = np.inf, -np.inf
    a[9] = b[9] = np.inf
    found = compare(weig, model(tmp_path / "a.safetensors", {"x": a}),
                    model(tmp_path / "b.safetensors", {"x": b}))  # fmt: skip
    (x,) = found["changed"]
    wide, other = a.astype("f8"), b.astype("f8")
    differ = ~((wide == other) | (np.isnan(wide) & np.isnan(other)))
    assert x["differing"] == differ.sum() and x["nan"] == 2 and x["elements"] == a.size
    assert x["max"] == "inf" and x["mean"] == "inf"
    a[8] = b[8] = 0
    found = compare(weig, model(tmp_path / "a.safetensors", {"x": a}),
                    model(tmp_path / "b.safetensors", {"x": b}))  # fmt: skip
    (x,) = found["changed"]
    with np.errstate(invalid="ignore"):
        apart = np.nan_to_num(np.abs(a.astype("f8") - b.astype("f8")))
    assert x["max"] == apart.max() and x["mean"] == pytest.approx(apart.sum() / a.size, 1e-12)


def test_other_bits_of_nan_are_other_bytes(weig, tmp_path):
    a = np.full(3, np.nan, "<f4")
    b = (a.view("<u4") | 1).view("<f4")
    found = compare(weig, model(tmp_path / "a.safetensors", {"x": a}),
                    model(tmp_path / "b.safetensors", {"x": b}))  # fmt: skip
    assert names(found, "changed") == ["x"] and found["changed"][0]["differing"] == 0
    assert b"equal numbers" in weig("diff", tmp_path / "a.safetensors",
                                    tmp_path / "b.safetensors").out  # fmt: skip


def test_digests_spare_the_reading(weig, big_tmp):
    """Two models of 1 GiB, in milliseconds."""
    source = big_tmp / "m.safetensors"
    size = 1 << 30
    header = json.dumps({"x": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}})
    header = header.ljust(-(-len(header) // 8) * 8).encode()
    with source.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + size)
    weig.ok("convert", source, "-o", big_tmp / "a.weig")
    os.link(big_tmp / "a.weig", big_tmp / "b.weig")
    run = weig.measured("diff", big_tmp / "a.weig", big_tmp / "b.weig", "--json")
    assert run.status == 0 and run.cpu_seconds < 0.2 and run.peak_bytes < 64 << 20, run


def test_damage_is_no_difference(weig, tmp_path):
    source = model(tmp_path / "m.safetensors", TENSORS)
    weig.ok("convert", source)
    other = model(tmp_path / "o.safetensors", TENSORS | {"w": TENSORS["w"] + 1})
    weig.ok("convert", other)
    raw = bytearray((tmp_path / "m.weig").read_bytes())
    listed = weig.ok("ls", "--json", tmp_path / "m.weig").json()["tensors"]
    at = next(t["offset"] for t in listed if t["name"] == "w")
    raw[at] ^= 1
    (tmp_path / "m.weig").write_bytes(raw)
    for options in ([tmp_path / "o.weig"], [source], [tmp_path / "m.weig", "--bytes"]):
        run = weig("diff", tmp_path / "m.weig", *options)
        assert run.status == CHECKSUM and "'w'" in run.err and "m.weig" in run.err
    assert compare(weig, tmp_path / "m.weig", tmp_path / "m.weig")["equal_by_digest"] == 3


def test_what_cannot_be_read(weig, tmp_path):
    source = model(tmp_path / "m.safetensors", TENSORS)
    run = weig("diff", source, tmp_path / "none")
    assert run.status == CANNOT_OPEN and "none" in run.err
    (tmp_path / "bad.safetensors").write_bytes(source.read_bytes()[:-1])
    run = weig("diff", tmp_path / "bad.safetensors", source)
    assert run.status == CORRUPT and "bad.safetensors" in run.err


def test_a_pattern_that_matches_nothing_is_no_equality(weig, tmp_path):
    a = model(tmp_path / "a.safetensors", TENSORS)
    b = model(tmp_path / "b.safetensors", TENSORS | {"w": TENSORS["w"] + 1})
    run = weig("diff", a, b, "--include", "none*")
    assert run.status == NOT_FOUND and run.out == b"" and "--include" in run.err
    assert compare(weig, a, b, "--include", "none*", "--include", "b")["same"]


def test_many_tensors(weig, tmp_path):
    count = 100_000
    a = {f"t.{i}": np.full(1, i, "<i4") for i in range(count)}
    b = {f"t.{i}": np.full(1, i + 1, "<i4") for i in range(count)}
    one = model(tmp_path / "a.safetensors", a)
    two = model(tmp_path / "b.safetensors", b)
    run = weig.measured("diff", one, two)
    assert run.status == DIFFERENT and run.cpu_seconds < 5
    assert "and 99,980 more (--all lists them)" in run.out.decode()
    assert run.out.decode().index("t.2 ") < run.out.decode().index("t.10 ")
    assert weig("diff", one, two, "--all").out.count(b"\nchanged ") == count
