# SPDX-License-Identifier: Apache-2.0
"""NumPy's files, single arrays and archives: what NumPy writes comes out with the same
values, and what is written NumPy reads."""

import os
import struct
import warnings
import zipfile

import hypothesis
import hypothesis.extra.numpy
import numpy as np
import pytest

import safetensors_file
from command import CHECKSUM, EXISTS, INVALID_ARGUMENT, MEMORY, UNSUPPORTED
from numpy_file import Stream, archive, assert_same, little, npy, npz

NUMBERS = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"]
NUMBERS += ["c8", "c16"]


# --- What is in them ------------------------------------------------------------------


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("order", "<>")
def test_all_number_types(weig, converted, save, order):
    """C21"""
    arrays = {}
    for kind in NUMBERS:
        values = np.arange(-6, 6).astype(kind).astype(np.dtype(kind).newbyteorder(order))
        arrays[kind] = values.reshape(3, 4)
        arrays[kind + "_line"] = values
    tensors, path, _ = converted(npz(save, **arrays))
    assert_same(weig, tensors, path, arrays)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_orders_and_ranks(weig, converted, save):
    """C27, C01"""
    block = np.arange(2 * 3 * 4, dtype="f4").reshape(2, 3, 4)
    arrays = {
        "f2": np.asfortranarray(block[0]),
        "f3": np.asfortranarray(block),
        "f3_big": np.asfortranarray(block.astype(">f8")),
        "scalar": np.array(np.float16(1.5)),
        "one": np.zeros((1,), "i8"),
        "empty": np.zeros((0, 4), "f4"),
        "empty_inside": np.asfortranarray(np.zeros((2, 0, 3), ">f2")),
        "transposed": block.transpose(2, 0, 1),
        "rank_32": np.ones((1,) * 31 + (2,), "u1"),
    }
    tensors, path, _ = converted(npz(save, **arrays))
    assert_same(weig, tensors, path, arrays)


@pytest.mark.parametrize("order", ["True", "False"])
def test_one_dimension_has_either_order(weig, converted, order):
    """C27"""
    values = np.arange(5, dtype="<f4")
    flag, other = (f"'fortran_order': {o}".encode() for o in (order, "False"))
    # The header's padding makes up for the length.
    raw = npy(values).replace(other, flag)
    if len(flag) < len(other):
        raw = raw.replace(b" \n", b"  \n", 1)
    tensors, path, _ = converted(raw)
    assert_same(weig, tensors, path, {"in": values})


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_a_single_array_is_called_like_its_file(weig, converted, version):
    values = np.arange(12, dtype=">f8").reshape(3, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        raw = npy(values, version=version)
    tensors, path, _ = converted(raw, name="layer.0.weight")
    assert_same(weig, tensors, path, {"layer.0.weight": values})


def test_default_target(weig, tmp_path):
    np.save(tmp_path / "x.npy", np.ones(3))
    assert weig.ok("convert", tmp_path / "x.npy").text.startswith(str(tmp_path / "x.weig"))


def test_arrays_of_several_files(weig, tmp_path):
    arrays = {name: np.full(3, i, "f4") for i, name in enumerate("abc")}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    target = tmp_path / "all.weig"
    weig.ok("convert", *(tmp_path / f"{n}.npy" for n in arrays), "-o", target)
    tensors = weig.ok("ls", "--json", target).json()["tensors"]
    assert_same(weig, {t["name"]: t for t in tensors}, target, arrays)


def test_no_arrays(weig, converted, tmp_path):
    """C02"""
    tensors, path, _ = converted(npz())
    assert tensors == {}
    weig.ok("export", path, tmp_path / "back.npz")
    with np.load(tmp_path / "back.npz") as back:
        assert back.files == []


def test_names(weig, converted):
    arrays = {name: np.ones(2) for name in ("", "a/b", "é", "x.npy", "data.pkl")}
    members = {name + ".npy": npy(array) for name, array in arrays.items()}
    tensors, path, _ = converted(archive(members))
    assert_same(weig, tensors, path, arrays)


ARRAYS = hypothesis.strategies.dictionaries(
    hypothesis.strategies.text("abc/.é ", max_size=8),
    hypothesis.extra.numpy.arrays(
        hypothesis.strategies.sampled_from(
            [o + kind for o in "<>" for kind in NUMBERS]
        ),
        hypothesis.extra.numpy.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=5),
    ).flatmap(
        lambda a: hypothesis.strategies.sampled_from([a, np.asfortranarray(a), a.T])
    ),
    max_size=4,
)


@hypothesis.settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
@hypothesis.given(arrays=ARRAYS, packing=hypothesis.strategies.sampled_from([0, 8]))
def test_any_archive(weig, converted, arrays, packing):
    arrays = {n: a for n, a in arrays.items() if n + ".npy" not in arrays}
    members = {name + ".npy": npy(array) for name, array in arrays.items()}
    tensors, path, _ = converted(archive(members, packing))
    assert_same(weig, tensors, path, arrays)
    # And back, as NumPy reads it.
    back = path.with_suffix(".npz")
    weig.ok("export", path, back, "--force")
    with np.load(back, allow_pickle=False) as read:
        assert sorted(read.files) == sorted(arrays)
        for name, array in arrays.items():
            got = read[name]
            assert got.shape == array.shape and got.tobytes() == little(array)
            assert got.dtype == array.dtype.newbyteorder("<")


# --- Archives -------------------------------------------------------------------------


def test_small_archives_with_large_fields(weig, converted):
    """C31"""
    arrays = {"a": np.arange(5.0), "b": np.zeros((2, 2), "f4")}
    members = {n + ".npy": npy(a) for n, a in arrays.items()}
    tensors, path, _ = converted(archive(members, zip64=True))
    assert_same(weig, tensors, path, arrays)


@pytest.mark.parametrize("packing", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_archives_written_as_streams(weig, converted, packing):
    """C31"""
    arrays = {"a": np.arange(5.0), "b": np.zeros((2, 2), "f4")}
    out = Stream()
    with zipfile.ZipFile(out, "w", packing) as zipped:
        for name, array in arrays.items():
            zipped.writestr(name + ".npy", npy(array))
    assert b"PK\7\x08" in out.raw
    tensors, path, _ = converted(out.raw)
    assert_same(weig, tensors, path, arrays)


def test_a_member_above_4_gib(weig, tmp_path):
    """C31: sparse, so that it takes no space."""
    count = (4 << 30) + (100 << 20)
    header = npy(np.zeros(0, "u1")).replace(b"(0,)", f"({count},)".encode())
    header = header.replace(b" " * (len(header) - 128) + b"\n", b"\n", 1)
    assert len(header) == 128
    size = len(header) + count
    crc = _crc_of_zeros(zipfile.crc32(header), count)
    name = b"w.npy"
    large = struct.pack("<HHQQ", 1, 16, size, size)
    most = 0xFFFFFFFF
    local = b"PK\3\4" + struct.pack(
        "<HHHHHIIIHH", 45, 0, 0, 0, 33, crc, most, most, len(name), len(large)
    )
    local += name + large
    entry = b"PK\1\2" + struct.pack(
        "<HHHHHHIIIHHHHHII", 45, 45, 0, 0, 0, 33, crc, most, most, len(name), len(large),
        0, 0, 0, 0, 0,
    ) + name + large  # fmt: skip
    begin = len(local) + size
    end = b"PK\6\6" + struct.pack("<QHHIIQQQQ", 44, 45, 45, 0, 0, 1, 1, len(entry), begin)
    end += b"PK\6\7" + struct.pack("<IQI", 0, begin + len(entry), 1)
    end += b"PK\5\6" + struct.pack("<HHHHIIH", 0, 0, 1, 1, len(entry), most, 0)
    source, target = tmp_path / "large.npz", tmp_path / "large.weig"
    with source.open("wb") as file:
        file.write(local + header)
        file.seek(begin)
        file.write(entry + end)
    with zipfile.ZipFile(source) as zipped:  # it is what others take for an archive
        assert zipped.infolist()[0].file_size == size
    try:
        run = weig.measured("convert", source, "-o", target, timeout=600)
        assert run.status == 0, run.err
        assert run.peak_bytes < MEMORY
        assert weig.ok("ls", "--json", target).json()["tensors"][0]["shape"] == [count]
    finally:
        target.unlink(missing_ok=True)


def _crc_of_zeros(crc, count):
    """Of what has the checksum `crc`, and so many zeros behind it: multiplied in the
    field of CRC-32 by the power of x that shifts it so far."""

    def times(a, b):
        product = 0
        while a:
            if a & 0x80000000:
                product ^= b
            b = b >> 1 ^ (0xEDB88320 if b & 1 else 0)
            a = a << 1 & 0xFFFFFFFF
        return product

    power, shift, count = 0x80000000, 0x00800000, count  # x^0 and x^8
    while count:
        if count & 1:
            power = times(power, shift)
        shift = times(shift, shift)
        count >>= 1
    return times(power, crc ^ 0xFFFFFFFF) ^ 0xFFFFFFFF


@pytest.mark.parametrize("packing", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_many_members(weig, tmp_path, packing):
    """C71: as many again take as long again."""
    raw = npy(np.zeros(4, "f4"))
    seconds = []
    for count in (10_000, 100_000):
        source = tmp_path / f"{count}.npz"
        with zipfile.ZipFile(source, "w", packing) as zipped:
            for i in range(count):
                zipped.writestr(zipfile.ZipInfo(f"layer.{i}.weight.npy"), raw, packing)
        run = weig.measured("convert", source, "-o", tmp_path / f"{count}.weig")
        assert run.status == 0, run.err
        assert run.peak_bytes < MEMORY
        seconds.append(run.cpu_seconds)
    assert seconds[1] < 30 * max(seconds[0], 0.1)


# --- What is written ------------------------------------------------------------------


@pytest.fixture
def model(weig, tmp_path):
    """A WEIG file of {name: array}, NumPy's own types."""

    def make(arrays, *options):
        source, target = tmp_path / "model.npz", tmp_path / "model.weig"
        source.write_bytes(archive({n + ".npy": npy(a) for n, a in arrays.items()}))
        weig.ok("convert", source, "-o", target, "--force", *options)
        return target

    return make


def all_types():
    arrays = {k: np.arange(-6, 6).astype(k).reshape(3, 4) for k in NUMBERS}
    arrays |= {"scalar": np.array(1.5), "empty": np.zeros((0, 3), "f4")}
    arrays |= {"a/b": np.ones(3), "é": np.ones(2), "x" * 200: np.ones(1)}
    return arrays


def test_an_archive_is_what_numpy_reads(weig, model, tmp_path):
    arrays, target = all_types(), tmp_path / "out.npz"
    weig.ok("export", model(arrays), target)
    with zipfile.ZipFile(target) as zipped:
        assert zipped.testzip() is None  # checksums
        for info in zipped.infolist():
            assert info.compress_type == zipfile.ZIP_STORED
    with np.load(target, allow_pickle=False) as back:
        assert sorted(back.files) == sorted(arrays)
        for name, array in arrays.items():
            assert back[name].dtype == array.dtype and back[name].shape == array.shape
            assert back[name].tobytes() == array.tobytes()


def test_an_archive_comes_back_the_same(weig, model, tmp_path):
    """Bytes of the model, through an archive and back."""
    first, out, second = model(all_types()), tmp_path / "x", tmp_path / "again.weig"
    weig.ok("export", first, out, "--to", "npz")
    weig.ok("convert", out, "-o", second)
    assert first.read_bytes() == second.read_bytes()


def test_a_folder_of_arrays(weig, model, tmp_path):
    arrays, target = all_types(), tmp_path / "out"
    weig.ok("export", model(arrays), f"{target}/", "--to", "npy")
    names = {n: n + ".npy" for n in arrays}
    names |= {"a/b": "a%2Fb.npy", "é": "%C3%A9.npy"}
    assert sorted(os.listdir(target)) == sorted(names.values())
    for name, array in arrays.items():
        back = np.load(target / names[name], allow_pickle=False)
        assert back.dtype == array.dtype and back.shape == array.shape
        assert back.tobytes() == array.tobytes()


def test_names_of_files_stay_in_the_folder(weig, model, tmp_path):
    arrays = {n: np.ones(2) for n in ("..", "../up", "/root", ".hidden", "", "a%2Fb", "a:b")}
    target = tmp_path / "out"
    weig.ok("export", model(arrays), target, "--to", "npy")
    assert sorted(os.listdir(target)) == sorted(
        ["%2E..npy", "%2E.%2Fup.npy", "%2Froot.npy", "%2Ehidden.npy", ".npy"]
        + ["a%252Fb.npy", "a%3Ab.npy"]
    )


def test_one_tensor_is_one_file(weig, model, tmp_path):
    target, array = tmp_path / "w.npy", np.arange(6).reshape(2, 3)
    weig.ok("export", model({"w": array}), target)
    assert (np.load(target) == array).all()
    many = model({"a": array, "b": array})
    run = weig("export", many, tmp_path / "many.npy")
    assert run.status == INVALID_ARGUMENT and "holds one tensor" in run.err
    assert not (tmp_path / "many.npy").exists()


def test_a_folder_that_is_there(weig, model, tmp_path):
    source, target = model({"w": np.ones(3)}), tmp_path / "out"
    target.mkdir()
    weig.ok("export", source, target, "--to", "npy")  # an empty one is no harm
    before = (target / "w.npy").stat().st_mtime_ns
    for options in ((), ("--force",)):
        run = weig("export", source, target, "--to", "npy", *options)
        assert run.status == EXISTS and "no empty folder" in run.err
    file = tmp_path / "file"
    file.write_bytes(b"x")
    assert weig("export", source, file, "--to", "npy").status == EXISTS
    assert (target / "w.npy").stat().st_mtime_ns == before
    assert not [n for n in os.listdir(tmp_path) if n.endswith(".part")]


def test_damage_leaves_no_folder(weig, model, tmp_path):
    """C96"""
    source = model({"a": np.ones(3), "b": np.arange(3000.0)})
    raw = bytearray(source.read_bytes())
    raw[-4000] ^= 1  # in b, after a is written
    source.write_bytes(raw)
    for target in ("out", "out.npz"):
        run = weig("export", source, tmp_path / target, *TO.get(target, ()))
        assert run.status == CHECKSUM and "'b'" in run.err
    assert sorted(os.listdir(tmp_path)) == ["model.npz", "model.weig"]


TO = {"out": ("--to", "npy")}


@pytest.mark.parametrize("target", ["out.npz", "out"])
def test_types_that_numpy_lacks(weig, model, tmp_path, target):
    """C82"""
    options = TO.get(target, ())
    arrays = {"a": np.ones(4, "f4"), "w": np.ones((64, 64), "f4")}
    for change in (["--cast", "bf16"], ["--cast", "f8_e4m3fn"], ["--quantize", "int4"]):
        source = model(arrays, *change, "--include", "w")
        run = weig("export", source, tmp_path / target, *options)
        assert run.status == UNSUPPORTED
        assert "tensor 'w" in run.err and "--cast f32" in run.err
        assert sorted(os.listdir(tmp_path)) == ["model.npz", "model.weig"]


def test_names_that_cannot_be_written(weig, model, tmp_path):
    one = np.ones(2)
    run = weig("export", model({"w": one, "w.npy": one}), tmp_path / "out.npz")
    assert run.status == UNSUPPORTED and "tensor 'w'" in run.err
    for names in (("Wq", "wQ"), ("é" * 50,)):
        source = model({n: one for n in names})
        run = weig("export", source, tmp_path / "out", "--to", "npy")
        assert run.status == UNSUPPORTED and "tensor '" in run.err
        weig.ok("export", source, tmp_path / "out.npz", "--force")
    assert not (tmp_path / "out").exists()


def test_what_is_lost_is_said(weig, tmp_path):
    header = {"a": ("F32", (2,), bytes(8)), "b": ("F32", (2,), bytes(8))}
    raw = safetensors_file.by_hand(header, metadata={"format": "pt"})
    source, target = tmp_path / "a.safetensors", tmp_path / "a.npz"
    source.write_bytes(raw)
    run = weig.ok("export", source, target)
    assert "metadata of 1 key" in run.err
    with np.load(target) as back:
        assert back.files == ["a", "b"]


def test_an_archive_above_4_gib(weig, model, big_tmp):
    """C31: NumPy finds both tensors, one of which begins behind 4 GiB."""
    count = (4 << 30) + 1
    source, middle = big_tmp / "large.npy", big_tmp / "large.weig"
    header = npy(np.zeros(0, "u1")).replace(b"(0,)", f"({count},)".encode())
    source.write_bytes(header.replace(b" " * (len(header) - 128) + b"\n", b"\n", 1))
    os.truncate(source, 128 + count)
    np.save(big_tmp / "small.npy", np.arange(3))
    weig.ok("convert", source, big_tmp / "small.npy", "-o", middle, timeout=600)
    source.unlink()
    run = weig.measured("export", middle, big_tmp / "out.npz", timeout=600)
    assert run.status == 0 and run.peak_bytes < MEMORY
    middle.unlink()
    with zipfile.ZipFile(big_tmp / "out.npz") as zipped:
        sizes = {i.filename: i.file_size for i in zipped.infolist()}
        assert sizes["large.npy"] == 128 + count
        with zipped.open("large.npy") as member:
            assert np.lib.format.read_magic(member) == (1, 0)
            shape, order, dtype = np.lib.format.read_array_header_1_0(member)
            assert (shape, order, dtype) == ((count,), False, np.uint8)
    with np.load(big_tmp / "out.npz") as back:
        assert (back["small"] == np.arange(3)).all()
