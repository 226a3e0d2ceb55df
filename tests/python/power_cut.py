# SPDX-License-Identifier: Apache-2.0
"""A model of a file system that keeps no more than it must: after a power cut, what was
written since the last sync of a file may be there, all of it, none of it or any part;
names given since the last sync of their folder may be there or not, in their order.

It is fed with the log that tests/output_calls.h writes."""

import os
from dataclasses import dataclass


@dataclass
class Call:
    kind: str  # create, size, write, sync, rename, link, unlink
    file: str = ""  # an inode's number, for those of a file
    number: int = 0  # offset or size
    data: bytes = b""
    paths: tuple = ()

    @classmethod
    def of(cls, words):
        kind = words[0]
        if kind == "create":
            return cls(kind, file=words[1], paths=(words[2],))
        if kind == "size":
            return cls(kind, file=words[1], number=int(words[2]))
        if kind == "write":
            data = bytes.fromhex(words[3])
            return cls(kind, file=words[1], number=int(words[2]), data=data)
        if kind == "sync":
            return cls(kind, file=words[1])
        return cls(kind, paths=tuple(words[1:]))


def some_of(calls):
    """None, all, one, or all but one of them, in their order."""
    yield []
    yield calls
    for i in range(len(calls)):
        yield [calls[i]]
        yield calls[:i] + calls[i + 1 :]


def content(calls):
    """A file after some calls."""
    file = bytearray()
    for call in calls:
        end = call.number + len(call.data)
        file.extend(bytes(max(0, end - len(file))))
        file[call.number : end] = call.data
    return bytes(file)


class PowerCut:
    """The states that a folder may be in after a power cut."""

    def __init__(self, folder, before, words):
        """`before`: {path: bytes} that is on the disk; `words`: the log's lines."""
        self.folder = str(os.stat(folder).st_ino)
        self.before = before
        self.calls = [Call.of(line) for line in words if line[0] not in ("fchmod", "close")]

    def without(self, number):
        """The same where one call was not made."""
        other = PowerCut.__new__(PowerCut)
        other.folder, other.before = self.folder, self.before
        other.calls = self.calls[:number] + self.calls[number + 1 :]
        return other

    def states(self, end):
        """Every {path: bytes} that may be on the disk after a cut before call `end`."""
        names, synced_names, files = [], 0, {}
        for call in self.calls[:end]:
            if call.kind in ("create", "rename", "link", "unlink"):
                names.append(call)
            elif call.kind in ("size", "write"):
                files.setdefault(call.file, ([], []))[1].append(call)
            else:
                if call.file in (self.folder, "all"):
                    synced_names = len(names)
                for file, (kept, loose) in files.items():
                    if call.file in (file, "all"):
                        kept.extend(loose)
                        loose.clear()
        assert len(files) <= 1, "one output at a time"
        kept, loose = files.popitem()[1] if files else ([], [])
        for chosen in some_of(loose):
            file = content(kept + chosen)
            for count in range(synced_names, len(names) + 1):
                yield self._folder_of(names[:count], file)

    def _folder_of(self, names, file):
        paths = dict(self.before)
        for call in names:
            if call.kind == "create":
                paths[call.paths[0]] = file
            elif call.kind == "unlink":
                paths.pop(call.paths[0], None)
            else:
                paths[call.paths[1]] = paths[call.paths[0]]
                if call.kind == "rename":
                    del paths[call.paths[0]]
        return paths
