# SPDX-License-Identifier: Apache-2.0
"""NumPy's files that hold no tensors or break a rule are refused by name, and no pickle
is run."""

import os
import struct
import warnings
import zipfile

import numpy as np
import pytest

from command import CHECKSUM, CORRUPT, UNSUPPORTED
from numpy_file import archive, assert_same, npy, npz


BAD = {
    "objects": (np.array([1, "x"], object), "Python objects"),
    "text": (np.array(["abcde"]), "text"),
    "bytes": (np.array([b"abc"]), "byte strings"),
    "records": (np.zeros(3, [("x", "f4"), ("y", "i4")]), "records"),
    "dates": (np.array(["2020-01-01"], "M8[D]"), "dates"),
    "spans": (np.array([1], "m8[s]"), "time spans"),
    "raw": (np.zeros(3, "V2"), "raw bytes"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_is_no_tensor(weig, converted, refused_quickly, kind):
    """C29"""
    array, says = BAD[kind]
    good = np.ones((2, 3), "f4")
    raw = npz(good=good, bad=array)
    refused_quickly(raw, UNSUPPORTED, "tensor 'bad'", says)
    tensors, path, run = converted(raw, "--lenient")
    assert_same(weig, tensors, path, {"good": good})
    assert "'bad.npy'" in run.err and says in run.err
    refused_quickly(npy(array), UNSUPPORTED, says)
    refused_quickly(npy(array), UNSUPPORTED, says, options=["--lenient"])


def test_no_pickle_is_run(tmp_path, refused_quickly):
    """C46"""
    mark = tmp_path.parent / "MARK"

    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {mark}",)

    refused_quickly(npz(evil=np.array([Evil()], object)), UNSUPPORTED, "pickle")
    assert not mark.exists()


def test_members_that_are_no_arrays_are_told_of(weig, converted):
    members = {"a.npy": npy(np.ones(2)), "notes.txt": b"hello", "x/": b""}
    tensors, path, run = converted(archive(members))
    assert_same(weig, tensors, path, {"a": np.ones(2)})
    assert "'notes.txt'" in run.err and "'x/'" not in run.err


def test_names_that_are_there_twice(refused_quickly):
    """C55"""
    one = npy(np.ones(2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        twice = archive([("a.npy", one), ("a.npy", one)])
    refused_quickly(twice, CORRUPT, "same name", "a.npy")
    for order in (("a", "a.npy"), ("a.npy", "a")):
        refused_quickly(archive({n: one for n in order}), CORRUPT, "called the same", "a")


def test_bombs(weig, converted, refused_quickly):
    """C49"""
    header = npy(np.zeros(4, "u1"))[:-4]
    bomb = archive({"a.npy": header + bytes(100 << 20)}, zipfile.ZIP_DEFLATED)
    assert len(bomb) < 1 << 20
    for options in ((), ("--lenient",)):
        refused_quickly(bomb, CORRUPT, "longer than its array", options=options)
    # It says 132 bytes, here and in the directory, and unpacks to more.
    size, told = struct.pack("<I", 128 + (100 << 20)), struct.pack("<I", 132)
    assert bomb.count(size) == 2
    refused_quickly(bomb.replace(size, told), CORRUPT, "goes on after what it should hold")
    honest = {"a": np.zeros(65536, "u1")}
    tensors, path, _ = converted(npz(np.savez_compressed, **honest))
    assert_same(weig, tensors, path, honest)


def test_an_archive_in_an_archive(refused_quickly):
    """C49"""
    inner = npz(a=np.ones(3))
    refused_quickly(archive({"a.npz": inner}), CORRUPT, "zip archive of other things")


@pytest.mark.parametrize("order", "CF")
def test_damage(refused_quickly, order):
    """C56"""
    raw = bytearray(npz(a=np.ones((20, 50), order=order)))
    raw[4000] ^= 1
    refused_quickly(bytes(raw), CHECKSUM, "tensor 'a'", "checksum")


def test_more_than_one_array(weig, converted, refused_quickly):
    """C53, C90"""
    one = npy(np.arange(3, dtype="i2"))
    refused_quickly(one + one, CORRUPT, "after the array", "--lenient")
    tensors, path, run = converted(one + one, "--lenient")
    assert_same(weig, tensors, path, {"in": np.arange(3, dtype="i2")})
    assert "after the array" in run.err


def test_cut_anywhere(weig, tmp_path):
    """C36"""
    whole = npz(a=np.arange(4, dtype="f4"), b=np.arange(3))
    source = tmp_path / "cut.npz"
    for size in range(1, len(whole), 7):
        source.write_bytes(whole[:size])
        run = weig("convert", source, "-o", tmp_path / "out.weig")
        assert run.status == CORRUPT, (size, run.err)


@pytest.mark.parametrize("command", ["info", "ls", "verify"])
def test_other_commands_say_what_to_do(weig, tmp_path, command):
    np.savez(tmp_path / "a.npz", a=np.ones(3))
    np.save(tmp_path / "a.npy", np.ones(3))
    for name in ("a.npz", "a.npy"):
        run = weig(command, tmp_path / name)
        assert run.status == UNSUPPORTED
        assert f"weig convert {tmp_path / name}" in run.err
