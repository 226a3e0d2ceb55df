# SPDX-License-Identifier: Apache-2.0
"""What may be written over what, and what is left of a conversion that was stopped."""

import os
import resource
import shutil
import signal
import struct
import subprocess
import time
from pathlib import Path

import pytest

from command import (
    CANNOT_OPEN,
    CORRUPT,
    EXISTS,
    INVALID_ARGUMENT,
    IO,
    NOT_FOUND,
    USAGE,
    list_tree,
)
from output_calls import interfering
from safetensors_file import by_reference, pattern

CALLS = {
    "convert": lambda source, target: ["convert", source, "-o", target],
    "export": lambda source, target: ["export", source, target],
    "get": lambda source, target: ["get", source, "w", "-o", target],
}
SPELLINGS = {
    "the_same": lambda path: path,
    "with_dots": lambda path: f"{path.parent}/./../{path.parent.name}/./{path.name}",
    "a_link": lambda path: _link(path, os.symlink),
    "a_link_to_a_link": lambda path: _link(_link(path, os.symlink), os.symlink),
    "a_hard_link": lambda path: _link(path, os.link),
    "a_linked_folder": lambda path: _link(path.parent, os.symlink) / path.name,
    "more_slashes": lambda path: f"//{path.parent}///{path.name}",
    "relative": lambda path: os.path.relpath(path),
}


def _link(path, how):
    other = path.with_name("link-" + path.name)
    how(path, other)
    return other


@pytest.fixture
def files(weig, tmp_path):
    """A source of each kind in a folder of its own."""
    folder = tmp_path / "here"
    folder.mkdir()
    raw = by_reference({"w": ("F32", (8,), pattern(32))})
    (folder / "a.safetensors").write_bytes(raw)
    weig.ok("convert", folder / "a.safetensors")
    return folder


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("source", ["a.safetensors", "a.weig"])
@pytest.mark.parametrize("command", CALLS)
@pytest.mark.parametrize("force", [(), ("--force",)])
def test_an_input_is_never_written_over(
    refused, files, command, source, spelling, force
):
    """C97, C58"""
    path = files / source
    target = SPELLINGS[spelling](path)
    before = path.read_bytes()
    call = [*CALLS[command](path, target), *force]
    refused(call, EXISTS, target, kept=files)
    if command != "get":
        refused.as_json(call, EXISTS)
    assert path.read_bytes() == before


def test_no_source_of_several_is_written_over(refused, files):
    """C97"""
    other = files / "b.safetensors"
    other.write_bytes(by_reference({"v": ("F32", (8,), pattern(32))}))
    for target in ("a.safetensors", "b.safetensors"):
        call = ["convert", files / "a.safetensors", other, "-o", files / target, "-f"]
        refused(call, EXISTS, files / target, kept=files)


def _through_a_descriptor(weig, path, call):
    """The path becomes that of an open file; `call` gets it."""
    with open(path, "rb") as opened:
        number = opened.fileno()
        return weig(*call(f"/proc/self/fd/{number}"), "--force", pass_fds=[number])


@pytest.mark.parametrize("command", CALLS)
@pytest.mark.parametrize("side", ["output", "input"])
def test_an_input_by_its_descriptor_is_never_written_over(weig, files, command, side):
    """C97"""
    path = files / "a.weig"
    calls = {
        "output": lambda name: CALLS[command](path, name),
        "input": lambda name: CALLS[command](name, path),
    }
    before = list_tree(files), path.read_bytes()
    run = _through_a_descriptor(weig, path, calls[side])
    assert run.status == EXISTS and run.err.count("\n") == 1, run.err
    assert (list_tree(files), path.read_bytes()) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts")
@pytest.mark.parametrize("command", CALLS)
@pytest.mark.parametrize("what", ["folder", "file"])
def test_an_input_behind_a_bind_mount_is_never_written_over(
    weig, files, command, what
):
    """C97: neither name leads to the other, and both are one file."""
    path, other = files / "a.weig", files.parent / "other"
    if what == "folder":
        other.mkdir()
        mounted, target = files, other / path.name
    else:
        other.touch()
        mounted, target = path, other
    before = list_tree(files.parent), path.read_bytes()
    call = [weig.path, *CALLS[command](path, target), "--force"]
    script = 'mount --bind "$0" "$1" && shift && exec "$@"'
    run = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, mounted, other, *call],
        capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == EXISTS, run.stderr
    assert run.stderr.startswith(f"weig: {target}: ") and run.stderr.count("\n") == 1
    assert (list_tree(files.parent), path.read_bytes()) == before


def _folder_of_a_model(files):
    (files / "a.weig").unlink()
    (files / "config.json").write_text("{}")
    (files / "tokenizer.json").write_text("[]")
    there = files.parent / "there"
    there.mkdir()
    return there, ["convert", "--copy-others", files, "--force", "-o"]


@pytest.mark.parametrize("how", [os.symlink, os.link])
@pytest.mark.parametrize("source", ["a.safetensors", "tokenizer.json"])
def test_no_copy_is_written_over_an_input(refused, files, how, source):
    """C97: the other files of a folder are outputs too."""
    there, call = _folder_of_a_model(files)
    how(files / source, there / "config.json")
    before = (files / source).read_bytes()
    call = [*call, there / "m.weig"]
    refused(call, EXISTS, there / "config.json", kept=files.parent)
    assert (files / source).read_bytes() == before


@pytest.mark.parametrize("name", ["config.json", "./config.json", "link"])
def test_no_copy_is_written_over_the_output(refused, files, name):
    there, call = _folder_of_a_model(files)
    if name == "link":
        (there / "config.json").write_text("old")
        (there / "link").symlink_to("config.json")
    call = [*call, f"{there}/{name}"]
    refused(call, EXISTS, None, "config.json", "over the output", kept=files.parent)


def test_no_copy_follows_a_link_to_nothing(refused, files):
    """It might lead to the output, once that is there."""
    there, call = _folder_of_a_model(files)
    (there / "config.json").symlink_to("m.weig")
    call = [*call, there / "m.weig"]
    refused(call, EXISTS, there / "config.json", "link to nothing", kept=files.parent)


@pytest.mark.parametrize("command", CALLS)
def test_an_output_that_is_there_needs_force(weig, refused, files, command):
    """C97"""
    source, target = files / "a.weig", files / "out"
    target.write_bytes(b"precious")
    message = refused(CALLS[command](source, target), EXISTS, target, kept=files)
    assert target.read_bytes() == b"precious"
    assert "--force" in message
    weig.ok(*CALLS[command](source, target), "--force")
    assert target.read_bytes() != b"precious"


@pytest.mark.parametrize("command", CALLS)
def test_a_link_as_output_stays_a_link(weig, files, command):
    (files / "real").write_bytes(b"old")
    (files / "link").symlink_to("real")
    weig.ok(*CALLS[command](files / "a.weig", files / "link"), "--force")
    assert (files / "link").is_symlink()
    assert (files / "real").read_bytes() != b"old"
    assert not (files / "real").is_symlink()


@pytest.mark.parametrize("force", [(), ("--force",)])
@pytest.mark.parametrize("command", CALLS)
def test_what_is_no_file_is_not_replaced(weig, files, command, force):
    """Folders, pipes, devices and links to nothing."""
    os.mkfifo(files / "pipe")
    (files / "dangling").symlink_to("nowhere")
    (files / "folder").mkdir()
    targets = [files / "pipe", files / "dangling", "/dev/null"]
    if command != "convert":
        targets.append(files / "folder")  # convert writes into it
    for target in targets:
        before = list_tree(files)
        run = weig(*CALLS[command](files / "a.weig", target), *force, timeout=10)
        assert run.status in (EXISTS, CANNOT_OPEN), run.err
        assert run.err.startswith(f"weig: {target}: ") and run.err.count("\n") == 1
        assert list_tree(files) == before


@pytest.mark.parametrize("command", CALLS)
def test_a_folder_that_is_not_there_is_named(weig, files, command):
    before = list_tree(files)
    run = weig(*CALLS[command](files / "a.weig", files / "no" / "such" / "out"))
    assert run.status in (CANNOT_OPEN, IO) and str(files / "no" / "such") in run.err
    assert run.err.count("\n") == 1 and list_tree(files) == before


@pytest.mark.parametrize("command", CALLS)
def test_a_name_that_no_file_can_have(weig, files, command):
    """It is told before anything is written."""
    (files / "loop").symlink_to("loop")
    cases = {
        "x" * 256: "File name too long",
        "x/" * 2100 + "x": "File name too long",
        "loop": "symbolic links",
        "loop/out": "symbolic links",
        "a.weig/out": "Not a directory",
    }
    before = list_tree(files)
    for name, reason in cases.items():
        for force in ([], ["--force"]):
            run = weig(*CALLS[command](files / "a.weig", files / name), *force)
            assert run.status == CANNOT_OPEN and reason in run.err, (name, run.err)
            assert run.err.count("\n") == 1 and list_tree(files) == before


# --- Who may read it ------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o660, 0o444, 0o400, 0o4755])
@pytest.mark.parametrize("command", CALLS)
def test_what_others_may_not_read_stays_so(weig, files, command, mode):
    source, target = files / "a.weig", files / "out"
    source.chmod(mode)
    for umask in (0o022, 0o077, 0):
        call = CALLS[command](source, target)
        weig.ok(*call, preexec_fn=lambda mask=umask: os.umask(mask))
        expected = (0o600 | mode & 0o066) & ~umask
        assert target.stat().st_mode & 0o7777 == expected, oct(umask)
        target.unlink()


def test_the_most_private_of_several_sources_counts(weig, files):
    other = files / "b.safetensors"
    other.write_bytes(by_reference({"v": ("F32", (8,), pattern(32))}))
    other.chmod(0o640)
    (files / "a.safetensors").chmod(0o604)
    call = ["convert", files / "a.safetensors", other, "-o", files / "both.weig"]
    weig.ok(*call, preexec_fn=lambda: os.umask(0))
    assert (files / "both.weig").stat().st_mode & 0o777 == 0o600


def test_copies_of_other_files_stay_private(weig, files):
    there, call = _folder_of_a_model(files)
    (files / "config.json").chmod(0o600)
    weig.ok(*call, there / "m.weig")
    assert (there / "config.json").stat().st_mode & 0o777 == 0o600
    assert (there / "tokenizer.json").stat().st_mode & 0o044 == 0o044


@pytest.mark.parametrize("command", CALLS)
def test_nobody_may_look_while_a_private_file_is_replaced(weig, files, command):
    """The unfinished file, too, has the mode that it will keep."""
    target = files / "out"
    target.write_bytes(b"old")
    target.chmod(0o600)
    log = files.parent / "calls.log"
    log.touch()
    call = [*CALLS[command](files / "a.weig", target), "--force"]
    environment = interfering(at=3, then="kill")
    done = subprocess.run([weig.path, *map(os.fspath, call)], env=environment)
    assert done.returncode == -signal.SIGKILL
    (part,) = files.glob(".out.*.part")
    assert part.stat().st_mode & 0o077 == 0 or part.stat().st_size == 0
    weig.ok(*call)
    assert target.stat().st_mode & 0o777 == 0o600


# --- Several at once ------------------------------------------------------------------


@pytest.mark.parametrize("force", [(), ("--force",)])
@pytest.mark.parametrize("command", CALLS)
def test_several_at_once_onto_one_output(weig, files, command, force):
    """One wins, or each in turn; the file is whole, and nothing else is left."""
    before = set(os.listdir(files))
    target = files / "out"
    started = [
        weig.start(*CALLS[command](files / "a.weig", target), *force) for _ in range(8)
    ]
    ended = [(p.communicate(timeout=30)[1].decode(), p.returncode) for p in started]
    winners = [status for _, status in ended].count(0)
    assert winners == 8 if force else winners == 1, ended
    for err, status in ended:
        assert status in (0, EXISTS), err
        if status == EXISTS:
            assert err.startswith(f"weig: {target}: the output exists already"), err
    assert set(os.listdir(files)) == before | {"out"}
    if command == "convert":
        weig.ok("verify", target)


def test_a_weig_file_by_the_name_of_another_format_is_pointed_out(weig, files):
    run = weig.ok("convert", files / "a.safetensors", "-o", files / "b.safetensors")
    assert "b.safetensors is a WEIG file, whatever its name says" in run.err
    assert weig.ok("convert", files / "a.safetensors", "-o", files / "b.weig").err == ""


def test_sources_without_an_output_are_asked_for_one(weig, files):
    """C97: the message shows what it understood."""
    for i in (1, 2, 3):
        shutil.copy(files / "a.safetensors", files / f"part-{i}")
    before = list_tree(files)
    run = weig("convert", "part-1", "part-2", "part-3", "out.weig", cwd=files)
    assert run.status == USAGE and "'out.weig' looks like the output" in run.err
    run = weig("convert", "part-1", "part-2", "part-3", cwd=files)
    assert run.status == USAGE and "-o" in run.err
    run = weig("convert", "part-1", "part-2", "-o", cwd=files)
    assert run.status == USAGE
    assert list_tree(files) == before


@pytest.mark.parametrize(
    "call",
    [
        [],
        ["info"],
        ["convert"],
        ["export", "a.weig"],
        ["get", "a.weig"],
        ["frobnicate"],
        ["info", "a.weig", "b.weig"],
        ["info", "--no-such-option", "a.weig"],
        ["verify", "--threads", "x", "a.weig"],
        ["verify", "--threads", "-1", "a.weig"],
        ["convert", "a.safetensors", "--max-header-bytes", "1e9"],
    ],
)
def test_wrong_calls_end_with_status_64(weig, files, call):
    before = list_tree(files)
    run = weig(*call, cwd=files)
    assert run.status == USAGE and run.out == b"" and "--help" in run.err
    assert list_tree(files) == before
    as_json = weig(*call, "--json", cwd=files)
    assert as_json.status == USAGE
    error = as_json.json()["error"]
    assert (error["code"], error["status"]) == ("usage", USAGE)
    assert as_json.err.startswith(f"weig: {error['message']}\n")
    assert error["hint"] in as_json.err


def test_a_tensor_that_is_not_there(refused, files):
    message = refused(["get", files / "a.weig", "x"], NOT_FOUND, files / "a.weig")
    assert "'x'" in message
    refused(["get", files / "a.weig", "W"], NOT_FOUND, files / "a.weig", "'w'")
    call = ["get", files / "a.weig", "x", "-o", files / "x.npy"]
    refused(call, NOT_FOUND, files / "a.weig", kept=files)
    refused(["ls", files / "a.weig", "x*"], NOT_FOUND, files / "a.weig", "'x*'")


@pytest.mark.parametrize("letter", ["x", "\u00e9"])
def test_the_longest_name_is_possible(weig, files, letter):
    name = letter * (250 // len(letter.encode())) + ".weig"
    weig.ok("convert", files / "a.safetensors", "-o", files / name)
    weig.ok("info", files / name)


@pytest.mark.parametrize("command", CALLS)
def test_a_full_disk_leaves_nothing(weig, files, command):
    """C96: a limit on the size of files stands for the disk."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))

    before = list_tree(files)
    call = CALLS[command](files / "a.weig", files / "out.npy")
    run = weig(*call, preexec_fn=limit)
    assert run.status == IO, run.err
    assert str(files / "out.npy") in run.err and run.err.count("\n") == 1
    assert list_tree(files) == before


# --- Interrupted ----------------------------------------------------------------------

SIZE = 1 << 30


@pytest.fixture
def sparse(big_tmp):
    """A strict source of 1 GiB that takes no room."""
    header = b'{"w":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (SIZE, SIZE)
    with open(big_tmp / "in.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header)
        file.truncate(8 + len(header) + SIZE)
    return big_tmp / "in.safetensors"


def stop_while_writing(weig, sparse, number, fraction):
    """Starts a conversion and sends the signal once so much of the output is written.
    Returns the status, as subprocess has it, and what was said."""
    process = weig.start("convert", sparse, "-o", sparse.parent / "out.weig")
    while process.poll() is None and not (
        written_by(process.pid) >= fraction * SIZE
        and any(name.endswith(".part") for name in os.listdir(sparse.parent))
    ):
        time.sleep(0.0005)
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    return process.returncode, err.decode()


def written_by(pid):
    """Bytes that a process has given to write calls so far."""
    try:
        text = Path(f"/proc/{pid}/io").read_text()
    except OSError:  # it has just ended
        return SIZE
    return int(text.partition("wchar: ")[2].split()[0])


STOPS = [(signal.SIGINT, 0.5), (signal.SIGTERM, 0), (signal.SIGHUP, 0.7)]


@pytest.mark.parametrize("number,fraction", STOPS)
def test_a_stopped_conversion_leaves_nothing(weig, sparse, number, fraction):
    """C96"""
    status, err = stop_while_writing(weig, sparse, number, fraction)
    assert status == 128 + number
    assert err == "weig: interrupted\n"
    assert os.listdir(sparse.parent) == [sparse.name]


@pytest.mark.parametrize("fraction", [0, 0.5, 0.99])
def test_a_killed_conversion_leaves_no_target(weig, sparse, fraction):
    """C96: what is left is recognisable as a part, and never taken for a model."""
    status, _ = stop_while_writing(weig, sparse, signal.SIGKILL, fraction)
    if status == 0 and fraction > 0.9:  # it was faster than the signal
        weig.ok("verify", sparse.parent / "out.weig")
        return
    assert status == -signal.SIGKILL
    left = set(os.listdir(sparse.parent)) - {sparse.name}
    assert len(left) == 1
    name = left.pop()
    assert name.startswith(".out.weig.") and name.endswith(".part")
    assert weig("info", sparse.parent / name).status == CORRUPT
    if fraction < 0.5:
        # It does not stand in the way of the next try.
        run = weig("convert", sparse.parent, "-o", sparse.parent / "out.weig", "--json")
        assert run.status == 0 and run.json()["sources"] == [str(sparse)]


def test_a_stopped_export_leaves_nothing(weig, sparse):
    """C96"""
    folder = sparse.parent
    weig.ok("convert", sparse, "-o", folder / "a.weig")
    before = list_tree(folder)
    process = weig.start("export", folder / "a.weig", folder / "out.safetensors")
    while len(os.listdir(folder)) == len(before) and process.poll() is None:
        time.sleep(0.001)
    process.terminate()
    process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM
    assert list_tree(folder) == before


def test_a_reader_that_goes_away_ends_the_command_quietly(weig, files):
    with subprocess.Popen(
        [weig.path, "ls", files / "a.weig"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.close()
        err = process.stderr.read()
    assert process.returncode in (0, 141) and err == b""


def test_output_that_cannot_be_written_is_an_error(weig, files):
    with open("/dev/full", "w") as full:
        run = subprocess.run(
            [weig.path, "ls", files / "a.weig"], stdout=full, stderr=subprocess.PIPE
        )
    assert run.returncode == IO and b"standard output" in run.stderr


def test_folder_as_output_takes_one_source_only(refused, files):
    two = [files / "a.safetensors", files / "b.safetensors"]
    two[1].write_bytes(by_reference({"v": ("F32", (8,), pattern(32))}))
    refused(["convert", *two, "-o", files], INVALID_ARGUMENT, files, kept=files)


@pytest.mark.parametrize(
    "call",
    [
        ["doctor", ""],
        ["get", "a.weig", "w", "-o", ""],
        ["export", "a.weig", ""],
        ["convert", "a.safetensors", "-o", ""],
    ],
    ids=lambda call: call[0],
)
def test_an_empty_name_is_a_wrong_call(weig, files, call):
    before = list_tree(files)
    run = weig(*[files / word if word.startswith("a.") else word for word in call])
    assert run.status == 64 and run.out == b""
    assert "'' is not a file's name" in run.err
    assert list_tree(files) == before
