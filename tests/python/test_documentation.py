# SPDX-License-Identifier: Apache-2.0
"""Every command and option that --help prints is in the manual page and in the
completions of all shells, and none is there that --help does not print."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = {
    name: ROOT / path
    for name, path in {
        "manual": "man/weig.1",
        "bash": "cli/completions/weig.bash",
        "zsh": "cli/completions/_weig",
        "fish": "cli/completions/weig.fish",
    }.items()
}
COMMANDS = (
    "convert", "info", "ls", "get", "verify", "export", "merge", "diff", "apply",
    "bench", "residency", "warm", "evict", "doctor",
)  # fmt: skip


def options_of(help_text):
    """Every -x and --xyz of the lists in a --help text."""
    found = set()
    for line in help_text.splitlines():
        if listed := re.match(r"  (-[-\w,]+)", line):
            found |= set(listed[1].split(","))
    return found


@pytest.fixture(scope="module")
def options(weig):
    """{command: its options}; the command itself is ""."""
    return {
        command: options_of(weig.ok(*command.split(), "--help").text)
        for command in ("", *COMMANDS)
    }


def read(page):
    """A page's text, with roff's dashes as they are typed and fish's options whole."""
    text = PAGES[page].read_text().replace("\\-", "-")
    text = re.sub(r"^set .*", "", text, flags=re.M)  # fish's variables
    text = re.sub(r"(?<=\s)-l ([\w-]+)", r"--\1", text)
    return re.sub(r"(?<=\s)-s (\w)\b", r"-\1", text)


def words_of(text):
    return set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", text))


def test_help_lists_the_commands(weig):
    text = weig.ok("--help").text
    assert tuple(re.findall(r"^  ([a-z]+)  +\S", text, re.M)) == COMMANDS
    assert options_of(text) == {"-h", "--help", "--version"}


@pytest.mark.parametrize("page", PAGES)
def test_every_option_is_told(options, page):
    words = words_of(read(page))
    for command, known in options.items():
        missing = known - words
        assert not missing, f"{page}: {command}: {missing}"


@pytest.mark.parametrize("page", PAGES)
def test_every_command_is_told(page):
    text = read(page)
    for command in COMMANDS:
        assert re.search(rf"(?<![\w-]){command}(?![\w-])", text), command


@pytest.mark.parametrize("page", PAGES)
def test_no_long_option_is_told_that_does_not_exist(options, page):
    known = set().union(*options.values())
    told = {word for word in words_of(read(page)) if word.startswith("--")}
    assert told <= known


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_bash_offers_the_options_of_each_command(options, command):
    words = ["weig", *command.split(), "-"]
    script = (
        f"source {shlex.quote(str(PAGES['bash']))}; COMP_WORDS=({shlex.join(words)}); "
        f"COMP_CWORD={len(words) - 1}; compopt() {{ :; }}; _weig; "
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    run = subprocess.run(
        ["bash", "-c", script], check=True, capture_output=True, text=True
    )
    assert set(run.stdout.split()) == options[command]


def test_every_status_is_in_the_manual(weig):
    text = weig.ok("--help").text.partition("Exit status:")[2]
    manual = read("manual")
    statuses = re.findall(r"(?:^|\s)(\d+)  ?[a-z]", text)
    assert {"0", "3", "64"} <= set(statuses)
    for status in statuses:
        assert re.search(rf"\b{status}\b", manual), status


def test_version_names_formats(weig):
    text = weig.ok("--version").text
    assert re.match(r"weig \d+\.\d+\.\d+", text)
    assert "format version 1" in text and "safetensors" in text
