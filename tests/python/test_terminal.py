# SPDX-License-Identifier: Apache-2.0
"""What a terminal shows: sentences in its width, words and commands whole; and the same
lines, whole, in a pipe."""

import re

import pytest

import minimal_file
import safetensors_file
from command import CHECKSUM, CORRUPT, USAGE

WIDTHS = (60, 80, 120)
NAME = "model.layers.0.self_attention.query.weight"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("t")


@pytest.fixture(scope="module")
def model(weig, folder):
    source = folder / "m.safetensors"
    tensors = {NAME: ("U8", (4 << 20,), bytes(4 << 20)), "b": ("U8", (8,), bytes(8))}
    source.write_bytes(safetensors_file.by_reference(tensors))
    weig.ok("convert", source)
    return source.with_suffix(".weig")


@pytest.fixture(scope="module")
def damaged(weig, model, folder):
    """One byte of a tensor is another."""
    tensors = weig.ok("ls", model, "--json").json()["tensors"]
    raw = bytearray(model.read_bytes())
    raw[next(t["offset"] for t in tensors if t["name"] == NAME)] ^= 1
    path = folder / "d.weig"
    path.write_bytes(raw)
    return path


def assert_fits(text, columns):
    """Longer are only single words, and commands to be copied."""
    for line in text.splitlines():
        is_command = line.startswith("          mend: ")
        assert len(line) < columns or is_command or " " not in line.strip(), line


def unwrapped(text):
    return re.sub(r"\n {2,}", " ", text)


@pytest.mark.parametrize("columns", WIDTHS)
def test_findings_are_wrapped_and_in_a_pipe_whole(weig, model, columns):
    whole = weig("doctor", model).text
    text, _ = weig.on_terminal("doctor", model, columns=columns)
    assert_fits(text, columns)
    assert max(map(len, whole.splitlines())) > 60
    for line in whole.splitlines():
        if "memory lock" in line or "contents" in line:  # which no moment changes
            assert re.sub(" +", " ", line.strip()) in re.sub(r"\s+", " ", text)


@pytest.mark.parametrize("columns", WIDTHS)
@pytest.mark.parametrize("command", ["residency", "warm", "evict", "info", "verify"])
def test_lines_fit_the_terminal(weig, model, command, columns):
    text, status = weig.on_terminal(command, model, columns=columns)
    assert status == 0
    assert_fits(text, columns)


@pytest.mark.parametrize("columns", WIDTHS)
def test_damage_is_told_in_short_lines(weig, damaged, columns):
    whole = weig("verify", damaged)
    assert whole.status == CHECKSUM and whole.text.count("\n") == 2
    text, status = weig.on_terminal("verify", damaged, columns=columns)
    assert status == CHECKSUM
    assert_fits(text, columns)
    assert unwrapped(text).splitlines()[0] == whole.text.splitlines()[0]


def test_errors_are_wrapped_too(weig, folder):
    (folder / "zeros").write_bytes(bytes(1000))
    message = weig("info", folder / "zeros").err
    assert message.count("\n") == 1 and len(message) > 40
    text, status = weig.on_terminal("info", folder / "zeros", columns=40)
    assert status == CORRUPT
    assert_fits(text.split("\n", 1)[1], 40)  # the first has the path
    assert unwrapped(text) == message


def test_commands_in_quotes_stay_whole(weig, folder):
    path = folder / "minimal.weig"
    path.write_bytes(minimal_file.build([(b"w", 0, [2], bytes(8))]))
    for columns in range(40, 100):
        text, _ = weig.on_terminal("info", path, columns=columns)
        assert "'weig convert'" in text, text


@pytest.mark.parametrize("command", ["verify", "bench", "warm", "doctor", "residency"])
def test_help_fits_80_columns(weig, command):
    text = weig.ok(command, "--help").text
    assert max(map(len, text.splitlines())) < 80
    assert "Excludes" not in text


def test_a_table_fits_80_columns(weig, folder):
    """Where figures are as long as those of short runs: all but the first table."""
    call = ("bench", folder / "m.weig", "--rounds=1", "--ways=map", "--states=warm")
    text, status = weig.on_terminal(*call, columns=80)
    assert status == 0
    tables = re.split(r"\n\n", text.split("\r")[-1].removeprefix("\x1b[K"))
    assert_fits("\n".join([*tables[:1], *tables[2:]]), 80)


@pytest.mark.parametrize(
    "call,words",
    [
        (
            ["verify", "--tensors", "a", "--tensors", "b"],
            "--tensors is given more than once",
        ),
        (["verify", "--threads"], "--threads needs a value"),
        (["bench", "--rounds", "0"], "--rounds: must be a whole number from 1 to 1000"),
        (["bench", "--rounds", "x"], "--rounds: must be a whole number from 1 to 1000"),
    ],
)
def test_wrong_calls_are_told_in_plain_words(weig, model, call, words):
    run = weig(call[0], model, *call[1:])
    assert run.status == USAGE
    assert run.err.startswith(f"weig: {words}\n"), run.err


def test_files_without_digests_are_told_plainly(weig, model):
    text = weig.ok("verify", model.with_suffix(".safetensors")).text
    assert text == (
        f"{model.with_suffix('.safetensors')}: the structure is sound; there are no "
        "digests to check the weights by\n"
    )


def test_bench_names_the_option_for_minimal_files(weig, folder):
    path = folder / "small.weig"
    path.write_bytes(minimal_file.build([(b"w", 0, [2], bytes(8))]))
    assert "--accept-unsealed opens it all the same" in weig("bench", path).err
