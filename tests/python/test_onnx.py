# SPDX-License-Identifier: Apache-2.0
"""ONNX models: every type in every field, data in other files, and what is refused."""

import hashlib
import os
import resource

import hypothesis
import hypothesis.strategies as st
import pytest

import onnx_file as onnx
from command import CANNOT_OPEN, CORRUPT, LIMIT, UNSUPPORTED, list_tree
from safetensors_file import pattern

U8 = onnx.UINT8


@pytest.fixture
def converted(weig, tmp_path):
    """Writes a model, converts it, and gives {name: (type, shape, bytes)}."""

    def run(raw, *options, name="model.onnx"):
        source, target = tmp_path / name, tmp_path / "out.weig"
        source.write_bytes(raw)
        weig.ok("convert", source, "-o", target, "--force", *options)
        assert "sound" in weig.ok("verify", target).text
        return tensors_of(weig, target)

    return run


def tensors_of(weig, path):
    return {
        t["name"]: (
            t["dtype"],
            tuple(t["shape"]),
            weig.ok("get", "--raw", path, t["name"]).out,
        )
        for t in weig.ok("ls", "--json", path).json()["tensors"]
    }


@pytest.fixture
def bad(tmp_path):
    def write(raw):
        path = tmp_path / "bad.onnx"
        path.write_bytes(raw)
        return path

    return write


# --- Types ----------------------------------------------------------------------------


@pytest.mark.parametrize("data_type", onnx.TYPES)
def test_every_type_raw_and_as_numbers(converted, data_type):
    """C34"""
    name = onnx.TYPES[data_type][1]
    tensors, expected = [], {}
    for shape in ((3, 4), (5,), (1,), (), (0, 3)):
        data = bytearray(pattern(onnx.byte_count(data_type, shape), data_type))
        spare = 8 * len(data) - onnx.elements_in(shape) * onnx.TYPES[data_type][0]
        if spare:
            data[-1] &= 0xFF >> spare
        ways = {
            "raw": onnx.raw,
            "packed": onnx.packed,
            "single": onnx.one_by_one,
            "signed": lambda *a: onnx.packed(*a, signed=True),
            "signed_single": lambda *a: onnx.one_by_one(*a, signed=True),
        }
        for way, make in ways.items():
            called = f"{way}_{len(shape)}_{len(data)}"
            tensors.append(make(called, data_type, shape, bytes(data)))
            expected[called] = (name, shape, bytes(data))
    tensors.append(onnx.head("nothing", data_type, (2, 0)))
    expected["nothing"] = (name, (2, 0), b"")
    assert converted(onnx.of(*tensors)) == expected


def test_bits_behind_the_last_element_are_cleared(converted, tmp_path):
    """C34: what writers leave there is no part of the tensor."""
    (tmp_path / "w.bin").write_bytes(b"\xff\xff")
    place = {"location": "w.bin", "length": 2}
    got = converted(
        onnx.of(
            onnx.raw("raw", 22, (3,), b"\xff\xff"),
            onnx.packed("packed", 22, (3,), b"\xff\xff", signed=True),
            onnx.raw("two", 26, (5,), b"\xff\xff"),
            onnx.raw("six", 27, (2,), b"\xff\xff"),
            onnx.raw("whole", 22, (4,), b"\xff\xff"),
            onnx.external("external", 21, (3,), **place),
        )
    )
    assert {name: data for name, (_, _, data) in got.items()} == {
        "raw": b"\xff\x0f",
        "packed": b"\xff\x0f",
        "two": b"\xff\x03",
        "six": b"\xff\x0f",
        "whole": b"\xff\xff",
        "external": b"\xff\x0f",
    }


@hypothesis.given(data=st.data())
@hypothesis.settings(max_examples=25)
def test_any_tensors(weig, tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("any")
    names = data.draw(
        st.lists(
            st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=20),
            unique=True,
            max_size=6,
        )
    )
    tensors, expected = [], {}
    for name in names:
        data_type = data.draw(st.sampled_from(list(onnx.TYPES)))
        shape = tuple(data.draw(st.lists(st.integers(0, 5), max_size=4)))
        size = onnx.byte_count(data_type, shape)
        content = bytearray(data.draw(st.binary(min_size=size, max_size=size)))
        spare = 8 * size - onnx.elements_in(shape) * onnx.TYPES[data_type][0]
        if spare:
            content[-1] &= 0xFF >> spare
        make = data.draw(st.sampled_from([onnx.raw, onnx.packed, onnx.one_by_one]))
        tensors.append(make(name, data_type, shape, bytes(content)))
        expected[name] = (onnx.TYPES[data_type][1], shape, bytes(content))
    (folder / "m.onnx").write_bytes(onnx.of(*tensors))
    weig.ok("convert", folder / "m.onnx", "-o", folder / "m.weig")
    assert tensors_of(weig, folder / "m.weig") == expected


# --- Where tensors are ----------------------------------------------------------------


def test_constants_and_graphs_in_graphs(weig, converted, tmp_path):
    """C32"""
    inner = onnx.graph([onnx.raw("w", U8, (2,), b"ab")])
    branch = onnx.node("If", "y", onnx.text(1, "then_branch") + onnx.text(6, inner))
    constant = onnx.constant("c", onnx.raw("", U8, (2,), b"cd"))
    function = onnx.text(1, "f") + onnx.text(7, constant) + onnx.text(10, "local")
    got = converted(
        onnx.model(onnx.graph([], [constant, branch]), more=onnx.text(25, function))
    )
    assert got == {
        "c": ("u8", (2,), b"cd"),
        "y/then_branch/w": ("u8", (2,), b"ab"),
        "local::f/c": ("u8", (2,), b"cd"),
    }


def test_model_without_tensors_is_said_to_be_one(weig, tmp_path):
    """C32"""
    path = tmp_path / "none.onnx"
    path.write_bytes(onnx.model(onnx.graph([], [onnx.node("Relu", "y")])))
    run = weig.ok("convert", path, "-o", tmp_path / "none.weig")
    assert "no tensors" in run.err
    assert weig.ok("ls", tmp_path / "none.weig").out == b""


def test_what_the_model_says_of_itself_is_kept(weig, converted, tmp_path):
    more = onnx.pair(14, "author", "me") + onnx.pair(14, "empty", "")
    more += onnx.text(4, "org.example") + onnx.number(5, 2**64 - 1)
    converted(onnx.model(onnx.graph(), more=more))
    assert weig.ok("info", "--json", tmp_path / "out.weig").json()["metadata"] == {
        "onnx.ir_version": "8",
        "onnx.producer_name": "test",
        "onnx.opset.ai.onnx": "17",
        "onnx.metadata.author": "me",
        "onnx.metadata.empty": "",
        "onnx.domain": "org.example",
        "onnx.model_version": "-1",
    }


def test_content_decides_not_the_name(converted):
    raw = onnx.of(onnx.raw("w", U8, (2,), b"ab"))
    assert converted(raw, name="model.bin") == {"w": ("u8", (2,), b"ab")}


def test_a_model_is_not_opened_as_it_is(refused, bad):
    path = bad(onnx.of(onnx.raw("w", U8, (2,), b"ab")))
    for call in (["info", path], ["ls", path], ["verify", path], ["get", path, "w"]):
        refused(call, UNSUPPORTED, path, "ONNX", f"weig convert {path}")


# --- Data in other files --------------------------------------------------------------


def test_data_in_other_files(weig, converted, tmp_path):
    """C35: with and without offset and length, unaligned, from any working folder."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(b"0123456789")
    (tmp_path / "one").write_bytes(b"abcd")
    raw = onnx.of(
        onnx.external("both", U8, (4,), location="sub/w.bin", offset=1, length=4),
        onnx.external("no_length", U8, (5,), location="sub/w.bin", offset=5),
        onnx.external("no_offset", U8, (1,), location="./sub//w.bin", length=1),
        onnx.external("neither", onnx.FLOAT, (1,), location="one"),
        onnx.external("tied", 5, (2,), location="sub/w.bin", offset=1, length=4),
        onnx.external("empty", U8, (0,), location="sub/w.bin", offset=10, length=0),
    )
    expected = {
        "both": ("u8", (4,), b"1234"),
        "no_length": ("u8", (5,), b"56789"),
        "no_offset": ("u8", (1,), b"0"),
        "neither": ("f32", (1,), b"abcd"),
        "tied": ("i16", (2,), b"1234"),
        "empty": ("u8", (0,), b""),
    }
    assert converted(raw) == expected
    report = weig.ok(
        "convert", "--json", "--force", "model.onnx", "-o", "out.weig", cwd=tmp_path
    ).json()
    assert tensors_of(weig, tmp_path / "out.weig") == expected
    assert report["aliases"] == 1
    read = [
        os.path.relpath(os.path.join(tmp_path, p), tmp_path) for p in report["sources"]
    ]
    assert read == ["model.onnx", "sub/w.bin", "one"]


def test_data_files_are_inputs(weig, refused, tmp_path):
    model, data = tmp_path / "m.onnx", tmp_path / "w.weig"
    data.write_bytes(b"abcd")
    data.chmod(0o600)
    model.write_bytes(onnx.of(onnx.external("w", U8, (4,), location="w.weig")))
    call = ["convert", "--force", model, "-o", data]
    refused(call, 7, data, "one of the sources", kept=tmp_path)
    weig.ok("convert", "--sha256", model, "-o", tmp_path / "out.weig")
    assert (tmp_path / "out.weig").stat().st_mode & 0o777 == 0o600
    metadata = weig.ok("info", "--json", tmp_path / "out.weig").json()["metadata"]
    assert metadata["weig.source.sha256.w.weig"] == hashlib.sha256(b"abcd").hexdigest()


def test_more_data_files_than_may_be_open(weig, tmp_path):
    """A file a tensor is how some writers save."""
    count = 300
    tensors = []
    for i in range(count):
        (tmp_path / f"t{i}").write_bytes(bytes([i % 256, i // 256]))
        tensors.append(onnx.external(f"t{i}", U8, (2,), location=f"t{i}"))
    (tmp_path / "m.onnx").write_bytes(onnx.of(*tensors))

    def few():
        resource.setrlimit(resource.RLIMIT_NOFILE, (50, 50))

    weig.ok("convert", tmp_path / "m.onnx", "-o", tmp_path / "m.weig", preexec_fn=few)
    for i in (0, 77, 299):
        data = weig.ok("get", "--raw", tmp_path / "m.weig", f"t{i}").out
        assert data == bytes([i % 256, i // 256])


def test_data_above_2_gib(weig, big_tmp):
    """C35, C73: a sparse file."""
    size = (2 << 30) + 100
    with open(big_tmp / "w.bin", "wb") as out:
        out.truncate(size + 8)
        out.seek(size)
        out.write(b"the end.")
    place = {"location": "w.bin", "offset": size, "length": 8}
    tensors = [onnx.external("end", U8, (8,), **place)]
    place = {"location": "w.bin", "offset": 0, "length": size}
    tensors.append(onnx.external("all", U8, (size,), **place))
    (big_tmp / "m.onnx").write_bytes(onnx.of(*tensors))
    run = weig.measured("convert", big_tmp / "m.onnx", "-o", big_tmp / "m.weig")
    assert run.status == 0, run.err
    assert run.peak_bytes < 128 << 20
    assert weig.ok("get", "--raw", big_tmp / "m.weig", "end").out == b"the end."


PLACES = {
    "parent": (
        {"location": "../outside/secret"},
        CORRUPT,
        "outside the model's folder",
    ),
    "out_and_back": ({"location": "x/../../m/w"}, CORRUPT, "outside"),
    "absolute": ({"location": "/etc/passwd"}, CORRUPT, "absolute"),
    "nul": ({"location": "w\0.bin"}, CORRUPT, "NUL"),
    "link_out": ({"location": "link_out"}, CORRUPT, "link to the outside"),
    "folder_link_out": (
        {"location": "folder_out/secret"},
        CORRUPT,
        "link to the outside",
    ),
    "link_to_a_device": ({"location": "zero"}, CORRUPT, "link to the outside"),
    "fifo": ({"location": "fifo"}, CANNOT_OPEN, "not a regular file"),
    "folder": ({"location": "sub"}, CANNOT_OPEN, "not a regular file"),
    "loop": ({"location": "loop"}, CANNOT_OPEN, ""),
    "dangling": ({"location": "dangling"}, CANNOT_OPEN, "No such file"),
    "missing": ({"location": "none"}, CANNOT_OPEN, "No such file"),
    "in_memory": (
        {"location": "*/_ORT_MEM_ADDR_/*", "offset": 94000},
        CORRUPT,
        "memory",
    ),
    "no_location": ({"offset": 0}, CORRUPT, "does not name"),
    "negative_offset": ({"location": "w", "offset": -4}, CORRUPT, "'-4'"),
    "huge_offset": (
        {"location": "w", "offset": 2**64 - 2},
        CORRUPT,
        "outside the file",
    ),
    "offset_above_64_bits": ({"location": "w", "offset": 2**64}, CORRUPT, "offset"),
    "past_the_end": ({"location": "w", "offset": 1, "length": 4}, CORRUPT, "outside"),
    "short_file": ({"location": "short"}, CORRUPT, "outside the file"),
    "long_file": ({"location": "long"}, CORRUPT, "and that is more"),
    "negative_length": ({"location": "w", "length": -1}, CORRUPT, "length"),
    "another_length": ({"location": "w", "length": 3}, CORRUPT, "expected 4"),
    "unknown_key": ({"location": "w", "basepath": "/etc"}, UNSUPPORTED, "'basepath'"),
    "key_of_an_attribute": (
        {"location": "w", "__class__": "x"},
        UNSUPPORTED,
        "__class__",
    ),
}


@pytest.fixture
def model_folder(tmp_path):
    """A folder of a model among things that it must not read."""
    folder, outside = tmp_path / "m", tmp_path / "outside"
    (folder / "sub").mkdir(parents=True)
    outside.mkdir()
    (outside / "secret").write_bytes(b"1234")
    for name, content in {"w": b"abcd", "short": b"abc", "long": b"abcde"}.items():
        (folder / name).write_bytes(content)
    (folder / "link_out").symlink_to("../outside/secret")
    (folder / "folder_out").symlink_to("../outside")
    (folder / "zero").symlink_to("/dev/zero")
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("nowhere")
    os.mkfifo(folder / "fifo")
    return folder


@pytest.mark.parametrize("kind", PLACES)
def test_data_that_leave_the_folder(weig, refused, model_folder, kind):
    """C50: refused, by name, at once, whatever the path leads to."""
    place, status, says = PLACES[kind]
    path = model_folder / "bad.onnx"
    path.write_bytes(onnx.of(onnx.external("w", U8, (4,), **place)))
    call = ["convert", path, "-o", model_folder / "out.weig"]
    message = refused(call, status, None, says, kept=model_folder.parent)
    assert "tensor 'w'" in message
    assert weig(*call).seconds < 1


def test_links_that_stay_inside(weig, model_folder):
    """C50: and hard links, which are files."""
    (model_folder / "inside").symlink_to("sub/real")
    (model_folder / "sub" / "real").write_bytes(b"real")
    os.link(model_folder / "w", model_folder / "hard")
    path = model_folder / "m.onnx"
    path.write_bytes(
        onnx.of(
            onnx.external("soft", U8, (4,), location="inside"),
            onnx.external("hard", U8, (4,), location="hard"),
        )
    )
    weig.ok("convert", path, "-o", model_folder / "m.weig")
    got = tensors_of(weig, model_folder / "m.weig")
    assert [got[name][2] for name in ("soft", "hard")] == [b"real", b"abcd"]


def test_a_file_of_many_names_is_one(weig, refused, model_folder):
    """C50: tensors that overlap in it are no more, whatever it is called."""
    os.link(model_folder / "long", model_folder / "hard")
    path, target = model_folder / "m.onnx", model_folder / "out.weig"
    for offset, words in ((1, None), (0, ("overlaps", "tensor 'a'"))):
        place = {"location": "hard", "offset": offset, "length": 4}
        path.write_bytes(
            onnx.of(
                onnx.external("a", U8, (4,), location="long", offset=1),
                onnx.external("b", U8, (4,), **place),
            )
        )
        if words:
            refused(["convert", "--force", path, "-o", target], CORRUPT, path, *words)
        else:
            run = weig.ok("convert", "--json", path, "-o", target)
            assert run.json()["aliases"] == 1


def test_links_of_a_hub_cache(weig, refused, tmp_path):
    """C50: caches keep all files in one folder and links to them in another."""
    blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshots" / "1"
    blobs.mkdir()
    snapshot.mkdir(parents=True)
    (blobs / "aa").write_bytes(onnx.of(onnx.external("w", U8, (4,), location="w.data")))
    (blobs / "bb").write_bytes(b"abcd")
    (snapshot / "model.onnx").symlink_to("../../blobs/aa")
    (snapshot / "w.data").symlink_to("../../blobs/bb")
    weig.ok("convert", snapshot / "model.onnx", "-o", tmp_path / "m.weig")
    assert tensors_of(weig, tmp_path / "m.weig")["w"][2] == b"abcd"
    (snapshot / "w.data").unlink()
    (snapshot / "w.data").symlink_to("../../other")
    (tmp_path / "other").write_bytes(b"abcd")
    call = ["convert", snapshot / "model.onnx", "-o", tmp_path / "n.weig"]
    refused(call, CORRUPT, None, "link to the outside", tensor="w")


# --- What is refused ------------------------------------------------------------------


def test_sparse_tensors_are_refused_by_name(refused, bad):
    sparse = onnx.text(1, onnx.raw("s", U8, (1,), b"a"))
    path = bad(onnx.model(onnx.graph() + onnx.text(15, sparse)))
    call = ["convert", path]
    refused(call, UNSUPPORTED, path, "sparse", tensor="s", kept=path.parent)


def test_a_file_that_was_cut(weig, refused, bad):
    """C36"""
    raw = onnx.of(onnx.raw("w", U8, (1000,), bytes(1000)))
    for size in (12, 20, 100, len(raw) // 2, len(raw) - 20):
        path = bad(raw[:size])
        refused(["convert", path], CORRUPT, path, "ends behind", kept=path.parent)


def test_deep_and_wide_models_are_cheap(weig, bad):
    """C45: thousands of graphs in each other, a hundred thousand beside each other."""
    deep = onnx.graph([onnx.raw("w", U8, (1,), b"x")])
    for _ in range(2000):
        deep = onnx.text(
            1, onnx.node("If", "o", onnx.text(1, "a") + onnx.text(6, deep))
        )
    run = weig.measured("convert", bad(onnx.model(deep)))
    assert run.status == LIMIT, run.err
    assert run.seconds < 1 and run.peak_bytes < 64 << 20
    empty = onnx.text(1, "a") + onnx.text(6, b"")
    wide = onnx.node("If", "o" * 60_000, *[empty] * 100_000)
    run = weig.measured("convert", bad(onnx.model(onnx.graph([], [wide]))))
    assert run.status == 0, run.err
    assert run.seconds < 3 and run.peak_bytes < 64 << 20


def many(count):
    tensors = (onnx.raw(f"layer.{i}.w", U8, (2,), b"ab") for i in range(count // 2))
    numbers = (
        onnx.packed(f"layer.{i}.b", 7, (1,), bytes(8)) for i in range(count // 2)
    )
    return onnx.of(*tensors, *numbers)


def test_a_hundred_thousand_initializers(weig, bad):
    times = []
    for count in (25_000, 100_000):
        path = bad(many(count))
        run = weig.measured("convert", "--force", path, "-o", path.parent / "m.weig")
        assert run.status == 0, run.err
        times.append(run.cpu_seconds)
        assert run.peak_bytes < (64 << 20) + 1000 * count
    assert times[1] < 8 * times[0] + 0.5
    listed = weig.ok("ls", "--json", path.parent / "m.weig").json()["tensors"]
    assert len(listed) == 100_000


def test_nothing_is_left_behind_when_data_change(weig, model_folder):
    path = model_folder / "m.onnx"
    path.write_bytes(onnx.of(onnx.external("w", U8, (5,), location="w")))
    before = list_tree(model_folder)
    assert weig("convert", path, "-o", model_folder / "out.weig").status == CORRUPT
    assert list_tree(model_folder) == before
