# SPDX-License-Identifier: Apache-2.0
"""Folders with a model: one file, or shards and the index that says what is where."""

import hashlib
import json
import os
import shutil

import numpy as np
import pytest

import gguf_file
import onnx_file
import torch_file
import weig_file
from command import CANNOT_OPEN, CORRUPT, INVALID_ARGUMENT, list_tree
from safetensors_file import by_hand, by_reference, pattern, read_by_reference

INDEX = "model.safetensors.index.json"


def shard_name(i, count=3):
    return f"model-{i + 1:05d}-of-{count:05d}.safetensors"


def tensor(seed):
    return ("F32", (4, 2), pattern(32, seed))


class Folder:
    """A folder of shards, to be spoiled."""

    def __init__(self, path):
        path.mkdir()
        self.path = path
        self.shards = [
            {f"h.{2 * i + j}.w": tensor(10 * i + j) for j in (0, 1)} for i in range(3)
        ]
        self.weight_map = {
            name: shard_name(i) for i, shard in enumerate(self.shards) for name in shard
        }
        self.target = path.parent / "out.weig"

    def write(self):
        for i, shard in enumerate(self.shards):
            raw = by_reference(shard, {"format": "pt"})
            (self.path / shard_name(i)).write_bytes(raw)
        self.write_index()
        return self

    def write_index(self, text=None):
        index = {"metadata": {"total_size": 192}, "weight_map": self.weight_map}
        (self.path / INDEX).write_text(json.dumps(index) if text is None else text)

    def convert(self, *options):
        return ["convert", self.path, "-o", self.target, *options]


@pytest.fixture
def folder(tmp_path):
    return Folder(tmp_path / "in").write()


def values(path):
    return {t.name.decode(): t.data for t in weig_file.read(path).tensors}


def test_shards_become_one_file(weig, folder, tmp_path):
    """C86, C88"""
    report = weig.ok(*folder.convert("--json")).json()
    assert report["sources"] == [str(folder.path / shard_name(i)) for i in range(3)]
    assert report["exact_source"] is False and report["warnings"] == []
    expected = {n: t[2] for shard in folder.shards for n, t in shard.items()}
    assert values(folder.target) == expected
    file = weig_file.read(folder.target)
    assert file.sections[weig_file.METADATA] == b'{"format":"pt"}'
    weig.ok("verify", folder.target)
    weig.ok("export", folder.target, tmp_path / "back.safetensors")
    merged = {n: t for shard in folder.shards for n, t in shard.items()}
    raw = (tmp_path / "back.safetensors").read_bytes()
    assert raw == by_reference(merged, {"format": "pt"})
    assert read_by_reference(raw) == merged


def test_a_shard_spelt_in_several_ways_is_read_once(weig, folder):
    weig.ok(*folder.convert())
    expected = folder.target.read_bytes()
    folder.weight_map["h.1.w"] = "./" + shard_name(0)
    folder.weight_map["h.3.w"] = ".//./" + shard_name(1)
    folder.write_index()
    report = weig.ok(*folder.convert("--force", "--json")).json()
    assert report["sources"] == [str(folder.path / shard_name(i)) for i in range(3)]
    assert report["warnings"] == []
    assert folder.target.read_bytes() == expected


def test_shards_given_one_by_one_make_the_same_file(weig, folder, tmp_path):
    weig.ok(*folder.convert())
    shards = [folder.path / shard_name(i) for i in (2, 0, 1)]
    weig.ok("convert", *shards, "-o", tmp_path / "other.weig")
    assert (tmp_path / "other.weig").read_bytes() == folder.target.read_bytes()


def test_default_output_of_a_folder_lies_in_it(weig, folder):
    weig.ok("convert", folder.path)
    assert len(values(folder.path / "model.weig")) == 6
    again = weig("convert", folder.path)
    assert again.status == 7


def test_folder_with_one_file_gives_it_back(weig, tmp_path, sample):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "anything.safetensors").write_bytes(sample.raw)
    (tmp_path / "in" / "config.json").write_text("{}")
    run = weig.ok("convert", tmp_path / "in", "-o", tmp_path / "out.weig")
    assert "config.json" in run.err and "--copy-others" in run.err
    weig.ok("export", tmp_path / "out.weig", tmp_path / "back.safetensors")
    assert (tmp_path / "back.safetensors").read_bytes() == sample.raw


# --- What the index says and what is there --------------------------------------------


def spoil_missing(folder):
    (folder.path / shard_name(1)).unlink()


def spoil_folder(folder):
    (folder.path / shard_name(1)).unlink()
    (folder.path / shard_name(1)).mkdir()


def spoil_dangling(folder):
    (folder.path / shard_name(1)).unlink()
    (folder.path / shard_name(1)).symlink_to("nowhere")


@pytest.mark.parametrize("spoil", [spoil_missing, spoil_folder, spoil_dangling])
def test_missing_shard_is_named_with_its_tensors(refused, folder, tmp_path, spoil):
    """C86"""
    spoil(folder)
    words = (shard_name(1), "'h.2.w'", "'h.3.w'", "2 of 3")
    call = folder.convert()
    refused(call, CANNOT_OPEN, folder.path / INDEX, *words, kept=tmp_path)
    refused.as_json(call, CANNOT_OPEN)
    refused(
        folder.convert("--lenient"), CANNOT_OPEN, folder.path / INDEX, kept=tmp_path
    )


def test_all_missing_shards_are_told_at_once(refused, folder, tmp_path):
    """C86"""
    (folder.path / shard_name(0)).unlink()
    (folder.path / shard_name(2)).unlink()
    words = (shard_name(0), shard_name(2), "1 of 3", "4 tensors")
    refused(folder.convert(), CANNOT_OPEN, folder.path / INDEX, *words, kept=tmp_path)


def test_empty_and_cut_shards_are_refused(refused, folder, tmp_path):
    """C86"""
    shard = folder.path / shard_name(1)
    raw = shard.read_bytes()
    for content, word in (
        (b"", "empty"),
        (raw[:-1], "outside the file"),
        (raw[:20], ""),
    ):
        shard.write_bytes(content)
        refused(folder.convert(), CORRUPT, shard, word, kept=tmp_path)


def test_index_overrides_what_a_shard_holds(weig, folder, tmp_path):
    """C88: the mapped copy counts; copies superseded and tensors unlisted are told."""
    folder.shards[0]["t"] = tensor(100)
    folder.shards[1]["t"] = tensor(101)
    folder.shards[2]["extra"] = tensor(102)
    folder.weight_map["t"] = shard_name(1)
    folder.write()
    report = weig.ok(*folder.convert("--json")).json()
    found = values(folder.target)
    assert found["t"] == tensor(101)[2]
    assert "extra" not in found and len(found) == 7
    warnings = " ".join(report["warnings"])
    assert "'t'" in warnings and "supersede" in warnings and "'extra'" in warnings
    assert "'t'" in weig.ok(*folder.convert("--force")).err


def test_index_that_maps_a_name_to_a_shard_without_it(refused, folder, tmp_path):
    """C88"""
    folder.weight_map["h.0.w"] = shard_name(2)
    folder.write_index()
    index = folder.path / INDEX
    words = (shard_name(2),)
    refused(folder.convert(), CORRUPT, index, *words, tensor="h.0.w", kept=tmp_path)
    folder.weight_map["h.0.w"] = shard_name(0)
    folder.weight_map["ghost"] = shard_name(0)
    folder.write_index()
    refused(folder.convert(), CORRUPT, index, tensor="ghost", kept=tmp_path)
    refused.as_json(folder.convert(), CORRUPT)


LEAVING = {
    "parent": "../x.safetensors",
    "parent_inside": "sub/../../x.safetensors",
    "absolute": "/etc/passwd",
    "parent_that_comes_back": "../in/model-00001-of-00003.safetensors",
    "nul": "model\0.safetensors",
    "no_name": "",
}


@pytest.mark.parametrize("kind", LEAVING)
def test_weight_map_cannot_leave_the_folder(refused, folder, tmp_path, kind):
    """C50"""
    (tmp_path / "x.safetensors").write_bytes(by_hand({"h.0.w": tensor(66)}))
    folder.weight_map["h.0.w"] = LEAVING[kind]
    folder.write_index()
    index = folder.path / INDEX
    message = refused(folder.convert(), CORRUPT, index, kept=tmp_path)
    assert "\0" not in message
    refused(folder.convert("--lenient"), CORRUPT, index, kept=tmp_path)


def test_weight_map_never_waits_for_a_pipe_or_reads_a_device(refused, folder, tmp_path):
    """C50"""
    os.mkfifo(folder.path / "pipe")
    (folder.path / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "zero"):
        folder.weight_map["h.0.w"] = name
        folder.write_index()
        refused(folder.convert(), CANNOT_OPEN, folder.path / INDEX, name, kept=tmp_path)


def test_shards_below_the_folder_and_through_links_are_read(weig, folder, tmp_path):
    """C50: links are followed, as caches of model hubs are made of them."""
    (folder.path / "sub").mkdir()
    os.rename(folder.path / shard_name(0), folder.path / "sub" / "s0")
    os.rename(folder.path / shard_name(1), tmp_path / "blob")
    (folder.path / shard_name(1)).symlink_to("../blob")
    for name in folder.shards[0]:
        folder.weight_map[name] = "sub/s0"
    folder.write_index()
    weig.ok(*folder.convert())
    assert len(values(folder.target)) == 6


BAD_INDEX = {
    "no_json": "{",
    "empty": "",
    "a_list": "[]",
    "no_weight_map": '{"metadata":{}}',
    "weight_map_is_a_list": '{"weight_map":[]}',
    "weight_map_holds_numbers": '{"weight_map":{"h.0.w":1}}',
    "weight_map_twice": '{"weight_map":{},"weight_map":{}}',
    "weight_map_is_empty": '{"weight_map":{}}',
    "tensor_twice": '{"weight_map":{"a":"x","a":"x"}}',
    "goes_on": json.dumps({"weight_map": {"h.0.w": shard_name(0)}}) + "{}",
    "lfs_pointer": "version https://git-lfs.github.com/spec/v1\noid sha256:00\n",
    "html": "<!DOCTYPE html>",
    "nested": '{"weight_map":' + "[" * 100_000,
    "nested_beside": '{"x":' + "[" * 100_000 + "]" * 100_000 + ',"weight_map":{}}',
}


@pytest.mark.parametrize("kind", BAD_INDEX)
def test_faulty_index_is_refused(weig, folder, tmp_path, kind):
    """C55, C93"""
    folder.write_index(BAD_INDEX[kind])
    before = list_tree(tmp_path)
    run = weig(*folder.convert())
    assert run.status in (CORRUPT, 10), run.err
    assert run.err.startswith(f"weig: {folder.path / INDEX}: ")
    assert run.err.count("\n") == 1 and list_tree(tmp_path) == before


# --- Folders that do not say what they are --------------------------------------------


def test_shards_without_an_index_are_refused(refused, folder, tmp_path):
    """C86"""
    (folder.path / INDEX).unlink()
    refused(folder.convert(), CORRUPT, folder.path, "index", kept=tmp_path)


def test_several_models_in_a_folder_are_asked_about(refused, folder, tmp_path):
    (folder.path / "other.safetensors.index.json").write_text("{}")
    refused(folder.convert(), INVALID_ARGUMENT, folder.path, "other", kept=tmp_path)
    for name in os.listdir(folder.path):
        os.unlink(folder.path / name)
    for name in ("a.safetensors", "b.safetensors"):
        (folder.path / name).write_bytes(by_hand({name: tensor(1)}))
    words = ("a.safetensors", "b.safetensors")
    refused(folder.convert(), INVALID_ARGUMENT, folder.path, *words, kept=tmp_path)


def test_folder_without_weights(refused, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "config.json").write_text("{}")
    call = ["convert", tmp_path / "in", "-o", tmp_path / "out.weig"]
    refused(call, CANNOT_OPEN, tmp_path / "in", ".safetensors", kept=tmp_path)


def test_metadata_of_shards_that_differs_is_told(weig, folder):
    for i in range(3):
        metadata = {"format": "pt", "shard": str(i), f"own{i}": "x"}
        raw = by_reference(folder.shards[i], metadata)
        (folder.path / shard_name(i)).write_bytes(raw)
    report = weig.ok(*folder.convert("--json")).json()
    assert len(report["warnings"]) == 2
    assert all("'shard'" in w for w in report["warnings"])
    metadata = weig.ok("info", "--json", folder.target).json()["metadata"]
    assert metadata == {
        "format": "pt",
        "shard": "0",
        "own0": "x",
        "own1": "x",
        "own2": "x",
    }


# --- A folder's other files -----------------------------------------------------------


@pytest.fixture
def with_others(folder):
    (folder.path / "config.json").write_text('{"a":1}')
    (folder.path / "tokenizer.model").write_bytes(pattern(5000))
    (folder.path / ".hidden").write_text("x")
    (folder.path / "pytorch_model.bin").write_text("weights of another format")
    (folder.path / "sub").mkdir()
    (folder.path / "sub" / "more.json").write_text("{}")
    return folder


OTHERS = ["config.json", "tokenizer.model"]


def test_other_files_are_told_and_left(weig, with_others):
    shutil.copy(with_others.path / shard_name(0), with_others.path / "extra.safetensors")
    (with_others.path / "old.gguf").write_text("weights of another format")
    left = [OTHERS[0], "extra.safetensors", "old.gguf", "pytorch_model.bin", "sub/"]
    left.append(OTHERS[1])
    run = weig.ok(*with_others.convert("--json"))
    report = run.json()
    assert report["other_files"] == OTHERS and report["left_behind"] == left
    assert f"weig: left behind: {', '.join(left)} (--copy-others copies" in run.err
    assert sorted(os.listdir(with_others.target.parent)) == ["in", "out.weig"]


def test_copy_others_copies_them(weig, with_others, tmp_path):
    (tmp_path / "out").mkdir()
    target = tmp_path / "out" / "model.weig"
    call = ["convert", with_others.path, "-o", target, "--copy-others"]
    report = weig.ok(*call, "--json").json()
    assert report["other_files"] == OTHERS
    assert report["left_behind"] == ["pytorch_model.bin", "sub/"]
    assert sorted(os.listdir(tmp_path / "out")) == sorted([*OTHERS, "model.weig"])
    for name in OTHERS:
        copy, original = tmp_path / "out" / name, with_others.path / name
        assert copy.read_bytes() == original.read_bytes()


def test_copy_others_replaces_nothing_without_force(
    weig, refused, with_others, tmp_path
):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "config.json").write_text("precious")
    target = tmp_path / "out" / "model.weig"
    call = ["convert", with_others.path, "-o", target, "--copy-others"]
    refused(call, 7, tmp_path / "out" / "config.json", kept=tmp_path)
    assert (tmp_path / "out" / "config.json").read_text() == "precious"
    weig.ok(*call, "--force")
    assert (tmp_path / "out" / "config.json").read_text() == '{"a":1}'


def test_copy_others_of_what_is_no_file_writes_nothing(
    weig, refused, with_others, tmp_path
):
    os.mkfifo(with_others.path / "pipe.txt")
    (tmp_path / "out").mkdir()
    target = tmp_path / "out" / "model.weig"
    call = ["convert", with_others.path, "-o", target, "--copy-others"]
    refused(call, CANNOT_OPEN, with_others.path / "pipe.txt")
    assert os.listdir(tmp_path / "out") == []


def test_copy_others_onto_themselves_changes_nothing(weig, with_others):
    before = list_tree(with_others.path)
    weig.ok("convert", with_others.path, "--copy-others")
    after = list_tree(with_others.path)
    assert set(after) - set(before) == {"model.weig"}
    assert all(after[name] == size for name, size in before.items() if size)


def test_output_may_be_no_file_of_the_folder(weig, refused, with_others):
    """C97"""
    for name in (INDEX, shard_name(0), "config.json"):
        target = with_others.path / name
        call = ["convert", with_others.path, "-o", target, "--force", "--copy-others"]
        refused(call, 7, target, kept=with_others.path)


def test_sha256_of_files_that_are_called_alike(weig, tmp_path):
    """None takes the place of another's."""
    hashes = set()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        raw = by_hand({name: tensor(ord(name))})
        (tmp_path / name / "model.safetensors").write_bytes(raw)
        hashes.add(hashlib.sha256(raw).hexdigest())
    sources = [tmp_path / n / "model.safetensors" for n in ("a", "b")]
    target = tmp_path / "out.weig"
    weig.ok("convert", *sources, "-o", target, "--sha256")
    metadata = weig.ok("info", "--json", target).json()["metadata"]
    assert set(metadata.values()) == hashes


def test_sha256_of_each_shard_is_shown(weig, folder):
    weig.ok(*folder.convert("--sha256"))
    metadata = weig.ok("info", "--json", folder.target).json()["metadata"]
    for i in range(3):
        raw = (folder.path / shard_name(i)).read_bytes()
        key = f"weig.source.sha256.{shard_name(i)}"
        assert metadata[key] == hashlib.sha256(raw).hexdigest()
        assert metadata[key] in weig.ok("info", folder.target).text


# --- Of other formats -----------------------------------------------------------------


def arrays_in(weig, path, folder):
    """{name: array} of a WEIG file of f32 tensors."""
    weig.ok("export", path, folder / "all.npz", "--force")
    with np.load(folder / "all.npz") as found:
        return {name: found[name] for name in found.files}


ARRAYS = {f"layer.{i}.w": np.arange(6, dtype="<f4").reshape(2, 3) + i for i in range(4)}


def write_gguf(folder):
    (folder / "m.gguf").write_bytes(
        gguf_file.gguf([ARCHITECTURE], [(n, *gguf_file.tensor(a)) for n, a in ARRAYS.items()])
    )


def write_gguf_parts(folder):
    for number in range(2):
        keys = [ARCHITECTURE, ("split.no", gguf_file.U16, number),
                ("split.count", gguf_file.U16, 2),
                ("split.tensors.count", gguf_file.I32, len(ARRAYS))]  # fmt: skip
        own = [(n, *gguf_file.tensor(ARRAYS[n])) for n in list(ARRAYS)[number::2]]
        (folder / f"m-0000{number + 1}-of-00002.gguf").write_bytes(gguf_file.gguf(keys, own))


def write_torch(folder, name="m.pt"):
    tensors = {n: torch_file.of(a) for n, a in ARRAYS.items()}
    (folder / name).write_bytes(torch_file.archive(tensors))


def write_torch_beside_others(folder):
    write_torch(folder, "pytorch_model.bin")
    (folder / "training_args.bin").write_bytes(b"\x80\2}.")


def write_torch_shards(folder):
    weight_map = {}
    for number in range(2):
        name = f"pytorch_model-0000{number + 1}-of-00002.bin"
        own = list(ARRAYS)[number::2]
        (folder / name).write_bytes(
            torch_file.archive({n: torch_file.of(ARRAYS[n]) for n in own})
        )
        weight_map |= dict.fromkeys(own, name)
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": weight_map}))


def write_onnx(folder):
    tensors = [onnx_file.raw(n, 1, a.shape, a.tobytes()) for n, a in ARRAYS.items()]
    (folder / "model.onnx").write_bytes(onnx_file.of(*tensors))


def write_npz(folder):
    np.savez(folder / "m.npz", **ARRAYS)


def write_npy(folder):
    for name, array in ARRAYS.items():
        np.save(folder / f"{name}.npy", array)


ARCHITECTURE = ("general.architecture", gguf_file.STRING, "llama")
WRITERS = [write_gguf, write_gguf_parts, write_torch, write_torch_beside_others,
           write_torch_shards, write_onnx, write_npz, write_npy]  # fmt: skip


@pytest.mark.parametrize("write", WRITERS)
def test_one_model_of_another_format(weig, tmp_path, write):
    folder = tmp_path / "in"
    folder.mkdir()
    write(folder)
    (folder / "config.json").write_text("{}")
    report = weig.ok("convert", folder, "-o", tmp_path / "m.weig", "--json").json()
    assert report["other_files"] == ["config.json"]
    found = arrays_in(weig, tmp_path / "m.weig", tmp_path)
    assert set(found) == set(ARRAYS)
    for name, array in ARRAYS.items():
        assert np.array_equal(found[name], array)


def test_a_folder_of_arrays_there_and_back(weig, tmp_path):
    (tmp_path / "m.safetensors").write_bytes(
        by_hand({n: ("F32", a.shape, a.tobytes()) for n, a in ARRAYS.items()})
    )
    weig.ok("convert", tmp_path / "m.safetensors")
    weig.ok("export", tmp_path / "m.weig", tmp_path / "arrays", "--to", "npy")
    weig.ok("convert", tmp_path / "arrays", "-o", tmp_path / "again.weig")
    assert weig.ok("diff", tmp_path / "m.weig", tmp_path / "again.weig").status == 0


def test_folders_with_two_formats(weig, tmp_path):
    """Safetensors first; of others none is preferred."""
    folder = tmp_path / "in"
    folder.mkdir()
    write_torch_shards(folder)
    (folder / "model.safetensors").write_bytes(by_hand({"s": tensor(1)}))
    report = weig.ok("convert", folder, "-o", tmp_path / "m.weig", "--json").json()
    assert report["sources"] == [str(folder / "model.safetensors")]
    assert "pytorch_model.bin.index.json" in report["left_behind"]
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin.index.json").unlink()
    run = weig("convert", folder, "-o", tmp_path / "n.weig")
    assert run.status == CORRUPT and ".bin.index.json" in run.err
    write_gguf(folder)
    run = weig("convert", folder, "-o", tmp_path / "n.weig")
    assert run.status == INVALID_ARGUMENT and "several weights files" in run.err

