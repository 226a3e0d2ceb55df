#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares docs/ with what it speaks of: hex dumps with the golden files, tables of
rejections with the rows of the tests."""

import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent
problems = []


def check_dumps(page: pathlib.Path) -> int:
    text = page.read_text()
    lines = 0
    for name, body in re.findall(r"```hexdump (\S+)\n(.*?)```", text, re.S):
        golden = (root / "tests" / "golden" / name).read_bytes()
        for line in body.splitlines():
            if not line.strip():
                continue
            match = re.match(r"([0-9a-f]{8}): ((?:[0-9a-f]{2} ?){1,16})", line)
            if not match:
                problems.append(f"{page.name}: not a dump line: {line}")
                continue
            at = int(match[1], 16)
            shown = bytes.fromhex(match[2])
            lines += 1
            if golden[at : at + len(shown)] != shown:
                problems.append(f"{page.name}: {name} differs at {at:#x}: {line}")
    return lines


def check_rows(page: pathlib.Path, tests: list, also: str = "$^") -> int:
    source = "".join((root / "tests" / name).read_text() for name in tests)
    tested = set(re.findall(r'^ {6}\{"([a-z0-9_]+)",', source, re.M))
    tested |= set(re.findall(also, source))
    told = set(re.findall(r"^\|.*\| `([a-z0-9_]+)` \|$", page.read_text(), re.M))
    where = " and ".join(tests)
    for name in sorted(tested - told):
        problems.append(f"{page.name}: no row for the test row {name} of {where}")
    for name in sorted(told - tested):
        problems.append(f"{page.name}: no test row {name} in {where}")
    return len(told)


dumps = check_dumps(root / "docs" / "format.md")
rules = check_rows(
    root / "docs" / "format.md",
    ["corruption_test.cc", "late_corruption_test.cc", "big_endian_test.cc"],
    r"TEST\(\w+, ([a-z0-9_]+)\)",
)
headers = check_rows(root / "docs" / "safetensors.md", ["safetensors_test.cc"])
headers += check_rows(
    root / "docs" / "onnx.md",
    ["onnx_refusals_test.cc"],
    r"TEST\(OnnxRow, ([a-z0-9_]+)\)",
)
gguf = check_rows(
    root / "docs" / "gguf.md",
    ["gguf_test.cc"],
    r'(?:Refusal\{\s*"|TEST\(Gguf, (?=has_|cut_))(\w+)',
)
torch = check_rows(
    root / "docs" / "pytorch.md",
    ["pickle_test.cc", "torch_refusals_test.cc", "torch_stream_test.cc"],
)
zips = check_rows(
    root / "docs" / "zip.md",
    ["inflate_test.cc", "zip_test.cc"],
    r"(?:TEST\(Zip, |\{\")((?:member|packed)_[a-z_]+)[\"),]",
)
numpy = check_rows(
    root / "docs" / "numpy.md",
    ["npy_test.cc"],
    r'(?:corrupt|unsupported)\("([a-z0-9_]+)"',
)
if not (dumps and rules and headers and gguf and torch and zips and numpy):
    problems.append("nothing was compared")
for problem in problems:
    print(problem, file=sys.stderr)
print(f"docs: {dumps} dump lines, {rules} rules, {headers} header refusals, {gguf} of GGUF")
sys.exit(1 if problems else 0)
