# SPDX-License-Identifier: Apache-2.0
"""NumPy's files for tests, and what of them must come out again."""

import io
import zipfile

import numpy as np


def npy(array, **options):
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asanyarray(array), **options)
    return out.getvalue()


def npz(save=np.savez, **arrays):
    out = io.BytesIO()
    save(out, **arrays)
    return out.getvalue()


def archive(members, packing=zipfile.ZIP_STORED, zip64=False):
    """An archive of {name: bytes}, or of (name, bytes)."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", packing) as zipped:
        pairs = members.items() if isinstance(members, dict) else members
        for name, raw in pairs:
            info = zipfile.ZipInfo(name)
            info.compress_type = packing
            with zipped.open(info, "w", force_zip64=zip64) as member:
                member.write(raw)
    return out.getvalue()


class Stream(io.RawIOBase):
    """What can only be written to, in order: sizes then follow the members."""

    def __init__(self):
        self.raw = b""

    def writable(self):
        return True

    def write(self, raw):
        self.raw += bytes(raw)
        return len(raw)


def little(array):
    array = np.asarray(array)
    return array.astype(array.dtype.newbyteorder("<")).tobytes()  # in row-major order


def assert_same(weig, tensors, path, arrays):
    """All of {name: array}, and nothing else."""
    assert sorted(tensors) == sorted(arrays)
    for name, array in arrays.items():
        assert tensors[name]["shape"] == list(np.shape(array)), name
        assert weig.ok("get", "--raw", path, name).out == little(array), name
