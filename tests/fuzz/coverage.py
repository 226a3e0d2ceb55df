#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads the listing of `llvm-cov show`, and holds the table of reached lines and the list
of those that are not against docs/fuzzing.md (scripts/coverage.sh)."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "fuzzing.md"
BEGIN = "<!-- scripts/coverage.sh --write makes what follows -->\n"
END = "<!-- as far as here -->\n"
ENOUGH = 95.0


def read(listing: Path) -> dict[str, dict[int, tuple[bool, str]]]:
    """Of each file: line -> (reached, text), for lines that can be reached."""
    files: dict[str, dict[int, tuple[bool, str]]] = {}
    lines: dict[int, tuple[bool, str]] = {}
    for line in listing.read_text().splitlines():
        if match := re.fullmatch(r"(/\S+):", line):
            lines = files.setdefault(str(Path(match[1]).relative_to(ROOT)), {})
        elif match := re.match(r" +(\d+)\| *([0-9.]+[kMGTPE]?)\|(.*)", line):
            number, count, text = int(match[1]), match[2], match[3]
            # Of a template, each instance is listed once more.
            reached = count != "0" or lines.get(number, (False,))[0]
            lines[number] = (reached, text)
    return {name: lines for name, lines in sorted(files.items()) if lines}


def share(reached: int, lines: int) -> str:
    return f"{100 * reached / lines:.1f} %"


def page(files) -> tuple[str, float]:
    out = ["| file | lines | reached | |", "|---|---|---|---|"]
    all_lines = all_reached = 0
    for name, lines in files.items():
        reached = sum(hit for hit, _ in lines.values())
        all_lines += len(lines)
        all_reached += reached
        out.append(f"| {name} | {len(lines)} | {reached} | {share(reached, len(lines))} |")
    out.append(f"| all | {all_lines} | {all_reached} | {share(all_reached, all_lines)} |")
    out += ["", "Not reached:", "", "```"]
    for name, lines in files.items():
        missed = [text.rstrip() for hit, text in lines.values() if not hit]
        missed = [text for text in missed if text.strip() not in ("", "}")]
        if missed:
            out += [f"{name}:", *missed]
    return "\n".join([*out, "```", ""]), 100 * all_reached / all_lines


def main() -> int:
    listing, *options = sys.argv[1:]
    text, percent = page(read(Path(listing)))
    before, _, rest = PAGE.read_text().partition(BEGIN)
    old, _, after = rest.partition(END)
    print(f"coverage: the kept inputs reach {percent:.1f} % of the lines")
    if options == ["--write"]:
        PAGE.write_text(before + BEGIN + text + END + after)
    elif old != text:
        print(f"coverage: {PAGE.name} says otherwise; renew it with --write")
        return 1
    return 0 if percent >= ENOUGH else 1


if __name__ == "__main__":
    sys.exit(main())
