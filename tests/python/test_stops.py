# SPDX-License-Identifier: Apache-2.0
"""Someone says stop where there is no output yet, or none any more: the command ends at
once all the same, with its message and its status, and leaves nothing unfinished."""

import json
import os
import signal
import struct
import time

import pytest

from safetensors_file import by_hand, pattern

GIB = 1 << 30
NUMBERS = [signal.SIGINT, signal.SIGTERM]
# Seconds; to go on to the end takes several times as long.
AT_ONCE = 0.5


def with_header(file, header, size):
    with open(file, "wb") as out:
        out.write(struct.pack("<Q", len(header)) + header)
        out.truncate(8 + len(header) + size)
    return file


def many_tensors(file, shape, size):
    """A strict safetensors file with a header that takes seconds."""
    count = 800_000
    entries = (
        f'"layer.{i:07}":{{"dtype":"U8","shape":{shape},'
        f'"data_offsets":[{i * size},{(i + 1) * size}]}}'
        for i in range(count)
    )
    header = ("{" + ",".join(entries) + "}").encode()
    return with_header(file, header, count * size)


def stopped(weig, number, wait, *call):
    """Sends the signal after so long; returns how long the command went on, and what
    it said."""
    process = weig.start(*call)
    time.sleep(wait)
    assert process.poll() is None
    process.send_signal(number)
    start = time.monotonic()
    out, err = process.communicate(timeout=60)
    seconds = time.monotonic() - start
    assert process.returncode == 128 + number, err
    return seconds, out, err.decode()


@pytest.fixture
def long_header(big_tmp):
    return many_tensors(big_tmp / "many.safetensors", "[1]", 1)


@pytest.mark.parametrize(
    "call",
    [["info"], ["ls"], ["get", "-"], ["verify"], ["doctor"], ["residency"], ["convert"]],
    ids=lambda call: call[0],
)
def test_a_long_header_stops_at_once(weig, long_header, call):
    before = os.listdir(long_header.parent)
    call = [call[0], long_header, *call[1:]]
    seconds, _, err = stopped(weig, signal.SIGTERM, 0.15, *call)
    assert seconds < AT_ONCE and err == "weig: interrupted\n"
    assert os.listdir(long_header.parent) == before


def test_the_error_is_told_as_json(weig, long_header):
    _, out, _ = stopped(weig, signal.SIGTERM, 0.15, "info", long_header, "--json")
    error = json.loads(out)["error"]
    assert error["code"] == "cancelled" and error["status"] == 143
    assert error["message"] == "interrupted" and error["hint"] is None


@pytest.mark.parametrize("number", NUMBERS)
def test_tensors_without_elements_stop(weig, big_tmp, number):
    file = many_tensors(big_tmp / "empty.safetensors", "[0]", 0)
    stopped(weig, number, 0.15, "convert", file)
    assert os.listdir(big_tmp) == [file.name]


@pytest.mark.parametrize("command", ["residency", "doctor", "evict"])
def test_a_giant_file_stops_at_once(weig, big_tmp, command):
    size = 15 << 40  # ext4 has no larger ones
    header = b'{"w":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}' % (size, size)
    file = with_header(big_tmp / "giant.safetensors", header, size)
    process = weig.start(command, file)
    time.sleep(0.3)
    process.terminate()
    start = time.monotonic()
    process.communicate(timeout=60)
    assert time.monotonic() - start < AT_ONCE
    assert process.returncode in (0, 1, 128 + signal.SIGTERM)  # or it was faster


@pytest.mark.parametrize("number", NUMBERS)
def test_copying_other_files_stops(weig, big_tmp, number):
    """The model is complete by then."""
    source, out = big_tmp / "in", big_tmp / "out"
    source.mkdir()
    out.mkdir()
    (source / "model.safetensors").write_bytes(by_hand({"a": ("F32", (4, 2), pattern(32))}))
    with open(source / "tokenizer.json", "wb") as file:
        file.truncate(40 * GIB)
    target = out / "model.weig"
    call = ["convert", source, "-o", target, "--copy-others"]
    seconds, _, err = stopped(weig, number, 0.5, *call)
    assert seconds < AT_ONCE
    assert err.startswith(f"weig: interrupted (the model is complete: {target};")
    assert os.listdir(out) == ["model.weig"]
    weig.ok("verify", target)


def test_holes_of_other_files_stay_holes(weig, big_tmp):
    source, out = big_tmp / "in", big_tmp / "out"
    source.mkdir()
    out.mkdir()
    (source / "model.safetensors").write_bytes(by_hand({"a": ("F32", (4, 2), pattern(32))}))
    with open(source / "other.dat", "wb") as file:
        file.seek(64 << 20)
        file.write(b"x")
        file.truncate((128 << 20) + 5)
    weig.ok("convert", source, "-o", out / "model.weig", "--copy-others")
    copy = out / "other.dat"
    assert copy.read_bytes() == (source / "other.dat").read_bytes()
    assert copy.stat().st_blocks * 512 < 4 << 20
