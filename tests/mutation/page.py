# SPDX-License-Identifier: Apache-2.0
"""docs/guards.md: every guard and the test rows that notice when it is gone."""

import re

PAGE = "docs/guards.md"
HEAD = """# Every guard, and the test that notices when it is gone

`tests/mutation/run.py --write` made this page, and `scripts/mutation.sh` holds it
against the code: it takes each guard out in turn and runs the tests. A guard is one
condition that refuses (one operand of an `||` counts as one), in `src/core` and
`src/formats`. They are found by what they lead to, not by a list, and the search fails
where it cannot tell.

"""
# The documents whose tables name rows.
DOCUMENTS = ("format.md", "safetensors.md", "gguf.md", "onnx.md", "pytorch.md",
             "numpy.md", "zip.md")
KINDS = {
    "refusal": (
        "Rules of files",
        "Each has a row in the tables of "
        + ", ".join(f"[{name}]({name})" for name in DOCUMENTS)
        + ".",
    ),
    "other": (
        "What callers ask, what a writer is given, what is no weights file",
        "No rules of a file; tests of their own notice them.",
    ),
    "test": (
        "Parts of checks",
        "Functions that guards ask: one part taken to be true.",
    ),
    "pass": (
        "Ways up",
        "Where a check is called and its refusal handed on.",
    ),
}
SHOWN = 3


def document_rows(root):
    """The names of test rows in the documents' tables."""
    rows = set()
    for page in DOCUMENTS:
        text = (root / "docs" / page).read_text()
        rows |= set(re.findall(r"^\|.*\| `([a-z0-9_]+)` \|$", text, re.M))
    return rows


def _cell(text):
    return text.replace("|", "\\|")


def _noticed(names, rows):
    """What a line shows: rows of the documents first."""
    ordered = sorted(names, key=lambda name: (name not in rows, name))
    return ordered[:SHOWN], len(ordered) - SHOWN


def _line(guard, names, rows, explained):
    shown, more = _noticed(names, rows)
    noticed = ", ".join(f"`{name}`" for name in shown)
    noticed += f" and {more} more" if more > 0 else ""
    if guard.key in explained:
        noticed = explained[guard.key]
    place = f"{guard.path.removeprefix('src/')} {guard.function}"
    return f"| {place} | `{_cell(guard.condition)}` | {_cell(noticed)} |"


def _tables(found, red, rows, explained):
    out = []
    for kind, (title, words) in KINDS.items():
        chosen = [g for g in found if g.kind == kind]
        out += [f"## {title}", "", f"{len(chosen)} guards. {words}", ""]
        out += ["| where | guard | noticed by |", "|---|---|---|"]
        out += [_line(g, red.get(g.key, []), rows, explained) for g in chosen]
        out.append("")
    return "\n".join(out)


def write(root, found, red, rows, explained):
    (root / PAGE).write_text(HEAD + _tables(found, red, rows, explained))


def differences(root, found, known_tests, red=None, explained=None):
    """How the page differs: in its guards, in the tests that it names, and from what
    a run saw."""
    text = (root / PAGE).read_text()
    listed = re.findall(r"^\| (\S+) (\S+) \| `(.*?)` \| (.*) \|$", text, re.M)
    told = {
        f"src/{p}: {f}: {c.replace(chr(92) + '|', '|')}": n for p, f, c, n in listed
    }
    keys = {guard.key for guard in found}
    problems = [f"{PAGE}: no line for {key}" for key in sorted(keys - set(told))]
    problems += [
        f"{PAGE}: no guard any more: {key}" for key in sorted(set(told) - keys)
    ]
    if len(listed) != len(found):
        problems.append(f"{PAGE}: {len(listed)} lines for {len(found)} guards")
    named = set(
        re.findall(
            r"`([A-Za-z0-9_]+)`(?=,| and| \|)",
            "\n".join(n + " |" for n in told.values()),
        )
    )
    problems += [f"{PAGE}: no test row {name}" for name in sorted(named - known_tests)]
    if red is not None:
        rows = document_rows(root)
        for guard in found:
            line = _line(guard, red[guard.key], rows, explained)
            if guard.key in told and line not in text:
                problems.append(f"{PAGE}: a run says {line}")
    return problems


def report(found, red, rows, explained):
    """All that noticed, for reading."""
    lines = []
    for guard in found:
        names = sorted(red[guard.key], key=lambda n: (n not in rows, n))
        lines.append(f"{guard.path}:{guard.line} {guard.kind} {guard.function}")
        lines.append(f"    {guard.condition}")
        what = explained.get(guard.key) or "SURVIVES"
        lines.append(f"    {len(names)}: {' '.join(names[:12]) if names else what}")
    return "\n".join(lines) + "\n"
