# SPDX-License-Identifier: Apache-2.0
"""A WEIG file to be bent: any field replaced, and all digests made right again, so that
only the rule that the field breaks can refuse it."""

import struct

import xxhash

from weig_file import digest


class Bent:
    def __init__(self, raw):
        self.raw = bytearray(raw)

    def __len__(self):
        return len(self.raw)

    def get(self, at, bits=64):
        return int.from_bytes(self.raw[at : at + bits // 8], "little")

    def put(self, at, value, bits=64):
        self.raw[at : at + bits // 8] = value.to_bytes(bits // 8, "little")
        return self

    @property
    def count(self):
        return self.get(8)

    @property
    def trailer(self):
        return len(self.raw) - 64

    @property
    def core_end(self):
        return self.get(48) + 32 * self.get(56)

    def record(self, name):
        """Where the record of a tensor lies."""
        for at in range(self.get(16), self.get(16) + 48 * self.count, 48):
            begin = self.get(at)
            if self.raw[begin : begin + len(name) + 1] == name + b"\0":
                return at
        raise KeyError(name)

    def ordinal(self, name):
        return (self.record(name) - self.get(16)) // 48

    def entry(self, kind):
        """Where the entry of a section lies."""
        for at in range(self.get(48), self.core_end, 32):
            if self.get(at, 32) == kind:
                return at
        raise KeyError(kind)

    def section(self, kind):
        """(offset, size) of a section."""
        return self.get(self.entry(kind) + 8), self.get(self.entry(kind) + 16)

    def slot(self, name):
        """Where the slot of the name index lies that leads to a tensor."""
        wanted = self.ordinal(name) + 1
        at = self.section(1)[0] + 64
        while self.get(at + 4, 32) != wanted:
            at += 8
        return at

    def reseal(self):
        """Digests of sections that lie in the file, file_id and check."""
        if self.core_end <= len(self.raw):
            for at in range(self.get(48), self.core_end, 32):
                begin, size = self.get(at + 8), self.get(at + 16)
                if begin + size <= len(self.raw):
                    body = bytes(self.raw[begin : begin + size])
                    self.put(at + 24, xxhash.xxh3_64_intdigest(body))
            self.reseal_core()
        return self.reseal_ends()

    def reseal_core(self):
        core = bytes(self.raw[: self.core_end])
        self.raw[self.trailer + 16 : self.trailer + 32] = digest(core)
        return self

    def reseal_ends(self):
        trailer = self.trailer
        ends = bytes(self.raw[:64] + self.raw[trailer : trailer + 56])
        struct.pack_into("<Q", self.raw, trailer + 56, xxhash.xxh3_64_intdigest(ends))
        return self
