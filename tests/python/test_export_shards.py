# SPDX-License-Identifier: Apache-2.0
"""Safetensors in several files, written as Hugging Face's libraries read them."""

import json

import numpy as np
import pytest
from safetensors import safe_open

from command import EXISTS, INVALID_ARGUMENT, UNSUPPORTED, USAGE, assert_same_file
from safetensors_file import by_hand, pattern


@pytest.fixture
def model(weig, tmp_path):
    tensors = {f"layer.{i}.w": ("U8", (100,), pattern(100, i)) for i in range(12)}
    tensors["big"] = ("F32", (300,), pattern(1200, 99))
    (tmp_path / "m.safetensors").write_bytes(by_hand(tensors, {"format": "pt"}))
    weig.ok("convert", tmp_path / "m.safetensors")
    return tmp_path / "m.weig"


def export(weig, model, target, *options):
    return weig("export", model, target, *options)


def read_back(folder, stem="out"):
    """{name: bytes} as the index has it, and the files' sizes."""
    index = json.loads((folder / f"{stem}.safetensors.index.json").read_text())
    found = {}
    for name, file in index["weight_map"].items():
        with safe_open(folder / file, "np") as opened:
            found[name] = opened.get_tensor(name).tobytes()
            assert opened.metadata() == {"format": "pt"}
    assert index["metadata"]["total_size"] == sum(map(len, found.values()))
    return found, {f: (folder / f).stat().st_size for f in set(index["weight_map"].values())}


def test_files_and_index(weig, model, tmp_path):
    folder = tmp_path / "hf"
    folder.mkdir()
    report = weig.ok("export", model, folder / "out.safetensors", "--shard-size", "800",
                     "--json").json()  # fmt: skip
    found, sizes = read_back(folder)
    assert len(found) == 13 and found["layer.3.w"] == pattern(100, 3)
    # "big" is larger than any file may be, and alone.
    assert sorted(size > 800 for size in sizes.values()).count(True) == 1
    assert sorted(sizes) == [f"out-{i + 1:05}-of-{len(sizes):05}.safetensors"
                             for i in range(len(sizes))]  # fmt: skip
    assert [str(folder / name) for name in sorted(sizes)] == report["members"]
    assert report["output"].endswith("out.safetensors.index.json")
    on_disk = sum(p.stat().st_size for p in folder.iterdir())
    assert report["file_size"] == on_disk and len(list(folder.iterdir())) == len(sizes) + 1
    weig.ok("convert", folder, "-o", tmp_path / "back.weig")
    weig.ok("export", tmp_path / "back.weig", tmp_path / "back.safetensors")
    with safe_open(tmp_path / "back.safetensors", "np") as opened:
        for name, content in found.items():
            assert opened.get_tensor(name).tobytes() == content


def test_a_set_comes_out_the_same(weig, model, tmp_path):
    weig.ok("convert", tmp_path / "m.safetensors", "--shard-size", "1500", "-o",
            tmp_path / "set.weig")  # fmt: skip
    for number, source in enumerate((model, next(tmp_path.glob("set-00001-of-*.weig")))):
        (tmp_path / str(number)).mkdir()
        weig.ok("export", source, tmp_path / str(number) / "out.safetensors", "--shard-size", "2000")
    for path in (tmp_path / "0").iterdir():
        assert_same_file(path, tmp_path / "1" / path.name)


def test_what_fits_is_one_file(weig, model, tmp_path):
    weig.ok("export", model, tmp_path / "one.safetensors", "--shard-size", "1MB")
    assert_same_file(tmp_path / "one.safetensors", tmp_path / "m.safetensors")


def test_what_is_in_the_way(weig, model, tmp_path):
    """A model of that name, in one file or in several, is replaced as a whole or not at all."""
    target = tmp_path / "out.safetensors"
    weig.ok("export", model, target, "--shard-size", "800")
    many = sorted(p.name for p in tmp_path.glob("out*"))
    run = weig("export", model, target, "--shard-size", "2000")
    assert run.status == EXISTS and sorted(p.name for p in tmp_path.glob("out*")) == many
    weig.ok("export", model, target, "--shard-size", "2000", "--force")
    few = sorted(p.name for p in tmp_path.glob("out*"))
    assert len(few) < len(many) and not set(few) & set(many) - {"out.safetensors.index.json"}
    assert len(read_back(tmp_path)[0]) == 13
    weig.ok("export", model, target, "--shard-size", "1MB", "--force")
    assert [p.name for p in tmp_path.glob("out*")] == ["out.safetensors"]
    run = weig("export", model, target, "--shard-size", "2000")
    assert run.status == EXISTS and "out.safetensors" in run.err
    weig.ok("export", model, target, "--shard-size", "2000", "--force")
    assert not target.exists() and len(read_back(tmp_path)[0]) == 13
    # Its own source is never replaced.
    weig.ok("export", model, tmp_path / "s-00001-of-00002.safetensors")
    run = weig("export", tmp_path / "s-00001-of-00002.safetensors", tmp_path / "s.safetensors",
               "--shard-size", "800", "--force")  # fmt: skip
    assert run.status == EXISTS and "is the source" in run.err
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_refused_before_anything_is_written(weig, model, tmp_path):
    before = sorted(tmp_path.iterdir())
    run = weig("export", model, tmp_path / "out.npz", "--shard-size", "2000")
    assert run.status == INVALID_ARGUMENT and "only safetensors" in run.err
    run = weig("export", model, tmp_path / "out", "--shard-size", "2000", "--to", "safetensors")
    assert run.status == INVALID_ARGUMENT and ".safetensors" in run.err
    run = weig("export", model, tmp_path / "out.safetensors", "--shard-size", "0")
    assert run.status == USAGE
    np.savez(tmp_path / "c.npz", c=np.ones(3, complex))
    weig.ok("convert", tmp_path / "c.npz", "-o", tmp_path / "c.weig")
    before = sorted(tmp_path.iterdir())
    run = weig("export", tmp_path / "c.weig", tmp_path / "out.safetensors", "--shard-size", "2000")
    assert run.status == UNSUPPORTED and "'c'" in run.err
    assert sorted(tmp_path.iterdir()) == before
