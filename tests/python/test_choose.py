# SPDX-License-Identifier: Apache-2.0
"""Which tensors come along, and by which names: --include, --exclude, --rename, --from."""

import numpy as np
import pytest

from command import CORRUPT, INVALID_ARGUMENT, NOT_FOUND, USAGE, assert_same_file
from safetensors_file import by_hand, pattern

NAMES = ("emb", "layer.0.a", "layer.0.b", "layer.1.a", "layer.10.a", "head")


def source(path, names=NAMES):
    path.write_bytes(by_hand({n: ("U8", (3,), pattern(3, i)) for i, n in enumerate(names)}))
    return path


@pytest.fixture
def model(tmp_path):
    return source(tmp_path / "m.safetensors")


def names_in(weig, path):
    return [t["name"] for t in weig.ok("ls", "--json", path).json()["tensors"]]


def bytes_of(weig, path, name, folder):
    weig.ok("get", path, name, "-o", folder / "one.npy", "--force")
    return np.load(folder / "one.npy").tobytes()


@pytest.mark.parametrize(
    "options, left",
    [
        (["--include", "layer.*"], NAMES[1:5]),
        (["--include", "layer.?.*"], NAMES[1:4]),
        (["--include", "emb", "--include", "head"], ("emb", "head")),
        (["--exclude", "layer.*"], ("emb", "head")),
        (["--include", "layer.*", "--exclude", "*.b"], ("layer.0.a", "layer.1.a", "layer.10.a")),
    ],
)
def test_choosing(weig, model, tmp_path, options, left):
    report = weig.ok("convert", model, "-o", tmp_path / "m.weig", "--json", *options).json()
    assert report["tensors"] == len(left)
    assert report["left_out"] == len(NAMES) - len(left) and report["renamed"] == 0
    assert not report["exact_source"]
    assert sorted(names_in(weig, tmp_path / "m.weig")) == sorted(left)
    for name in left:
        kept = bytes_of(weig, tmp_path / "m.weig", name, tmp_path)
        assert kept == pattern(3, NAMES.index(name))


def test_all_chosen_is_the_same_file(weig, model, tmp_path):
    weig.ok("convert", model, "-o", tmp_path / "a.weig")
    weig.ok("convert", model, "-o", tmp_path / "b.weig", "--include", "*", "--rename", "*=*")
    assert_same_file(tmp_path / "a.weig", tmp_path / "b.weig")


@pytest.mark.parametrize(
    "rules, old, new",
    [
        (["layer.*=*"], "layer.0.a", "0.a"),
        (["layer.*.*=blocks.*.w.*"], "layer.10.a", "blocks.10.w.a"),
        (["*=model.*"], "emb", "model.emb"),
        (["emb=a\\*b"], "emb", "a*b"),
        (["emb=a\\=b"], "emb", "a=b"),
        (["[e]m?=x"], "emb", "x"),
        (["layer.0.*=first.*", "layer.*=other.*"], "layer.1.a", "other.1.a"),
        (["emb=\u00e9"], "emb", "\u00e9"),
    ],
)
def test_renaming(weig, model, tmp_path, rules, old, new):
    options = [text for rule in rules for text in ("--rename", rule)]
    report = weig.ok("convert", model, "-o", tmp_path / "m.weig", "--json", *options).json()
    assert report["renamed"] > 0 and report["left_out"] == 0
    names = names_in(weig, tmp_path / "m.weig")
    assert new in names and old not in names and len(names) == len(NAMES)
    kept = bytes_of(weig, tmp_path / "m.weig", new, tmp_path)
    assert kept == pattern(3, NAMES.index(old))


def test_names_that_meet(weig, model, tmp_path):
    for rule in ("layer.*.a=x", "emb=head"):
        run = weig("convert", model, "-o", tmp_path / "m.weig", "--rename", rule)
        assert run.status == INVALID_ARGUMENT and "two tensors get one name" in run.err
        assert not (tmp_path / "m.weig").exists()
    assert "'emb'" in run.err and "'head'" in run.err
    # One that goes makes room.
    weig.ok("convert", model, "-o", tmp_path / "m.weig", "--rename", "emb=head", "--rename",
            "head=emb")  # fmt: skip
    assert bytes_of(weig, tmp_path / "m.weig", "head", tmp_path) == pattern(3, 0)


def test_rules_that_are_none(weig, model, tmp_path):
    for rule in ("emb", "=x", "emb=*", "*=**", "[*]=*"):
        run = weig("convert", model, "-o", tmp_path / "m.weig", "--rename", rule)
        assert run.status == USAGE and "is no rule" in run.err, rule


def test_nothing_left_or_matched(weig, model, tmp_path):
    run = weig("convert", model, "-o", tmp_path / "m.weig", "--include", "x*")
    assert run.status == NOT_FOUND and "no tensor of the sources is chosen" in run.err
    run = weig.ok("convert", model, "-o", tmp_path / "m.weig", "--exclude", "x*")
    assert "'x*' matches no tensor" in run.err
    run = weig.ok("convert", model, "-o", tmp_path / "n.weig", "--rename", "x*=y*")
    assert "'x*=y*' matches no tensor" in run.err


def test_two_files_with_one_name(weig, tmp_path):
    """What is left out is in nobody's way."""
    one = source(tmp_path / "1.safetensors", ("a", "same"))
    two = source(tmp_path / "2.safetensors", ("same", "b"))
    run = weig("merge", one, two, "-o", tmp_path / "m.weig")
    assert run.status == CORRUPT and "in two of the files" in run.err
    weig.ok("convert", one, two, "-o", tmp_path / "m.weig", "--exclude", "same")
    assert sorted(names_in(weig, tmp_path / "m.weig")) == ["a", "b"]


def test_what_quantized_tensors_need(weig, tmp_path):
    path = tmp_path / "m.safetensors"
    path.write_bytes(by_hand({"w": ("F32", (2, 4), np.arange(8, dtype="<f4").tobytes())}))
    weig.ok("convert", path, "-o", tmp_path / "q.weig", "--quantize", "int8")
    run = weig("convert", tmp_path / "q.weig", "-o", tmp_path / "m.weig", "--exclude", "*.scale")
    assert run.status != 0 and "w.scale" in run.err and "left out" in run.err
    weig.ok("convert", tmp_path / "q.weig", "-o", tmp_path / "m.weig", "--rename", "*=x.*")
    weig.ok("convert", tmp_path / "m.weig", "-o", tmp_path / "d.weig", "--dequantize", "f32")
    assert names_in(weig, tmp_path / "d.weig") == ["x.w"]


def test_merging_files(weig, tmp_path):
    one = source(tmp_path / "1.safetensors", ("a", "b"))
    np.save(tmp_path / "c.npy", np.arange(5))
    weig.ok("convert", source(tmp_path / "2.safetensors", ("d",)))
    weig.ok("merge", one, tmp_path / "c.npy", tmp_path / "2.weig", "-o", tmp_path / "m.weig")
    assert sorted(names_in(weig, tmp_path / "m.weig")) == ["a", "b", "c", "d"]
    run = weig("merge", one, "-o", tmp_path / "n.weig")
    assert run.status == INVALID_ARGUMENT and "no member of a set" in run.err


def test_what_the_source_is_said_to_be(weig, model, tmp_path):
    weig.ok("convert", model, "-o", tmp_path / "a.weig", "--from", "safetensors")
    weig.ok("convert", model, "-o", tmp_path / "b.weig")
    assert_same_file(tmp_path / "a.weig", tmp_path / "b.weig")
    for form in ("weig", "gguf", "torch", "npy", "npz", "onnx"):
        run = weig("convert", model, "-o", tmp_path / "c.weig", "--from", form)
        assert run.status != 0 and "m.safetensors" in run.err, form
        assert not (tmp_path / "c.weig").exists()
    run = weig("convert", model, "--from", "keras")
    assert run.status == USAGE and "safetensors, gguf" in run.err
    # An archive that could be either: a checkpoint's name among arrays.
    np.savez(tmp_path / "m.npz", **{"x/data.pkl": np.arange(3)})
    weig.ok("convert", tmp_path / "m.npz", "-o", tmp_path / "d.weig", "--from", "npz")
    assert names_in(weig, tmp_path / "d.weig") == ["x/data.pkl"]
