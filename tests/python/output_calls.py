# SPDX-License-Identifier: Apache-2.0
"""Commands that write, with something put before the system calls of their output."""

import os
import subprocess

from command import Run
from conftest import PROGRAMS
from safetensors_file import by_reference, pattern

# What writes, and to what kind of file.
CALLS = {
    "convert": lambda folder, target: ["convert", folder / "a.safetensors", "-o", target],
    "export": lambda folder, target: ["export", folder / "a.weig", target],
    "get": lambda folder, target: ["get", folder / "a.weig", "w", "--raw", "-o", target],
}
OLD = b"what was there before"


def make_sources(weig, folder):
    """A model of each kind in a folder."""
    tensors = {
        "b.0.w": ("F32", (30, 100), pattern(12000, 2)),
        "w": ("F32", (30, 100), pattern(12000, 1)),
    }
    (folder / "a.safetensors").write_bytes(by_reference(tensors))
    weig.ok("convert", folder / "a.safetensors")


def interfering(**what):
    """The environment of a command whose calls are interfered with; see the words in
    tests/output_calls.h. Underscores stand for hyphens."""
    words = (f"{name.replace('_', '-')}={value}" for name, value in what.items())
    return {
        **os.environ,
        "LD_PRELOAD": str(PROGRAMS / "libweig_output_calls.so"),
        "WEIG_OUTPUT_CALLS": " ".join(words),
    }


class Target:
    """What a command writes in a folder of sources, again and again: over an old file,
    or where there was none."""

    def __init__(self, weig, folder, command, old):
        self.weig, self.folder, self.old = weig, folder, old
        self.path = folder / "out"
        self.is_sealed = command == "convert"
        self.call = [*CALLS[command](folder, self.path), "--force"]
        if not old:
            self.call.pop()
        self.sources = set(os.listdir(folder)) - {"out"}
        self.log = folder.parent / "calls.log"
        assert self.run().status == 0
        self.new = self.path.read_bytes()

    def put_back(self):
        self.path.unlink(missing_ok=True)
        if self.old:
            self.path.write_bytes(OLD)

    def run(self, **what):
        """Runs from the old state on; a negative status is a signal's."""
        self.put_back()
        command = [self.weig.path, *map(os.fspath, self.call)]
        done = subprocess.run(
            command, env=interfering(**what), capture_output=True, timeout=60
        )
        return Run(done.returncode, done.stdout, done.stderr.decode(), 0)

    def logged_calls(self):
        """The calls of a run that goes well, as lists of words."""
        self.log.write_bytes(b"")
        assert self.run(log=self.log).status == 0
        lines = self.log.read_text().splitlines()
        return [line.split(" ") for line in lines]

    def names(self):
        """What is in the folder beside sources and target."""
        return set(os.listdir(self.folder)) - self.sources - {"out"}

    def is_old(self):
        return self.path.read_bytes() == OLD if self.old else not self.path.exists()

    def is_new(self):
        return self.path.exists() and self.path.read_bytes() == self.new
