#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes every guard of the reader out in turn and says which tests notice.

run.py             builds a scratch copy once, runs the rows for each guard, compares
                   what noticed with docs/guards.md; fails if a guard's removal is not
                   noticed, or a refusal's by no row of the documents
run.py --write     the same, and writes docs/guards.md anew
run.py --check     builds nothing: the guards in the source are those of docs/guards.md
run.py --only TEXT only guards whose place or condition holds TEXT
"""

import argparse
import concurrent.futures
import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import guards
import page
from explained import EXPLAINED

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
WORK = ROOT / "build" / "mutation"
# The rows' home, and the tests of what rows rely on.
TESTS = (
    "image.cc corruption_test.cc late_corruption_test.cc safetensors_test.cc "
    "sniff_test.cc metadata_test.cc layout_test.cc text_test.cc view_test.cc "
    "big_endian_test.cc manifest_test.cc inflate_test.cc gguf_test.cc onnx_test.cc "
    "onnx_refusals_test.cc "
    "npy_test.cc zip_test.cc pickle_test.cc torch_test.cc "
    "torch_refusals_test.cc torch_stream_test.cc"
).split()
# What they need besides.
ALSO = ("src/convert/source_section.cc", "src/store/metadata.cc")
COPIED = ("include", "src", "tests")
# Asked only where no other test notices.
SLOW = ("Safetensors.deep_json*", "View.is_proven_in_parts*", "View.const_use*")
SLOW += ("Manifest.names_that_overlap_do*",)
SECONDS = 20  # of a run that takes a fraction of one
MEMORY = 2 << 30
HUNG = -1000
CRASHES = 12  # more are not looked for


def make_copy(found):
    """The tree with every guard behind a number; unchanged files keep their times."""
    tree = WORK / "tree"
    edited = {}
    for number, guard in enumerate(found, 1):
        edited.setdefault(guard.path, []).append((number, guard))
    wanted = set()
    for name in COPIED:
        top = ROOT / name
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if not path.is_file() or "__pycache__" in path.parts:
                continue
            relative = str(path.relative_to(ROOT))
            content = path.read_bytes()
            if relative in edited:
                content = edit(content.decode(), edited[relative]).encode()
            target = tree / relative
            wanted.add(target)
            if not target.exists() or target.read_bytes() != content:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
    for path in tree.rglob("*"):
        if path.is_file() and path not in wanted:
            path.unlink()
    return tree


def edit(text, numbered):
    """A source's text with what its guards put around conditions."""
    inserted = []
    for number, guard in numbered:
        begin, end, prefix, suffix = guard.edit
        on = f"weig_mutation::kept({number})"
        # At one place: ends before beginnings, the inner end and the outer beginning
        # first.
        inserted.append((begin, 1, -end, prefix.format(n=number, on=on)))
        inserted.append((end, 0, -begin, suffix.format(n=number, on=on)))
    out, last = [], 0
    for at, _, _, what in sorted(inserted):
        out += [text[last:at], what]
        last = at
    return "".join(out) + text[last:]


def build(tree):
    out = WORK / "build"
    files = [f"tests/{name}" for name in TESTS] + list(ALSO)
    launcher = shutil.which("ccache")
    configure = ["cmake", "-S", HERE, "-B", out, "-G", "Ninja", f"-DTREE={tree}"]
    configure += ["-DCMAKE_BUILD_TYPE=Debug", f"-DTESTS={';'.join(files)}"]
    if launcher:
        configure.append(f"-DCMAKE_CXX_COMPILER_LAUNCHER={launcher}")
    for command in (configure, ["cmake", "--build", out, "--target", "weig_mutants"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"mutation: cannot build\n{done.stdout[-6000:]}{done.stderr}")
    return out / "weig_mutants"


def limit():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def red_tests(program, number):
    """The tests that fail, crash or hang without this guard, as row names."""
    return _red(program, number, "*", SLOW) or _red(program, number, ":".join(SLOW), ())


def _red(program, number, included, excluded):
    red, excluded = [], list(excluded)
    for _ in range(CRASHES + 1):
        command = [program, "--gtest_color=no"]
        command.append(f"--gtest_filter={included}-{':'.join(excluded)}")
        try:
            run = subprocess.run(
                command,
                env=os.environ | {"WEIG_MUTANT": str(number)},
                capture_output=True,
                timeout=SECONDS,
                check=False,
                preexec_fn=limit,
            )
            text, status = run.stdout, run.returncode
        except subprocess.TimeoutExpired as late:
            text, status = late.stdout or b"", HUNG
        text = text.decode(errors="replace")
        ended = re.findall(
            r"^\[ +(?:OK|FAILED) +\] (\S+?)(?:,.*)? \(\d+ ms\)$", text, re.M
        )
        red += re.findall(r"^\[  FAILED  \] (\S+?)(?:,.*)? \(\d+ ms\)$", text, re.M)
        if status in (0, 1) and re.search("^.=+. .* ran.", text, re.M):
            break
        started = re.findall(r"^\[ RUN      \] (\S+)$", text, re.M)
        fallen = [name for name in started if name not in ended]
        if not fallen:
            sys.exit(f"mutation: no test ran without guard {number}: {text[-500:]}")
        red += fallen
        if status == HUNG:  # once is enough to know
            break
        excluded += fallen
    return sorted({re.split(r"[./]", name)[-1] for name in red})


def judge(found, red, rows):
    """Problems, by guard and by row."""
    problems = []
    for guard in found:
        noticed = red[guard.key]
        reason = EXPLAINED.get(guard.key)
        where = f"{guard.path}:{guard.line}: {guard.condition}"
        if reason and noticed:
            problems.append(f"{where}: explained, yet {noticed[0]} notices")
        elif not reason and not noticed:
            problems.append(f"{where}: no test notices that it is gone")
        elif guard.kind == "refusal" and noticed and not rows & set(noticed):
            problems.append(f"{where}: {noticed[0]} notices, no row of the documents")
    caught = {row for g in found if g.kind != "pass" for row in red[g.key]}
    problems += [
        f"{row}: no guard's removal turns this row red" for row in sorted(rows - caught)
    ]
    return problems


def stale(found):
    keys = {guard.key for guard in found}
    return [f"{key}: explained, and not there" for key in EXPLAINED if key not in keys]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()

    found, problems = guards.find(ROOT)
    problems += stale(found)
    if options.check:
        problems += page.differences(ROOT, found, tests_named())
        finish(problems, f"{len(found)} guards, as docs/guards.md lists them")
    if problems:
        finish(problems, "")
    rows = page.document_rows(ROOT)
    program = build(make_copy(found))
    if before := red_tests(program, 0):
        finish([f"{name} fails with all guards there" for name in before], "")
    chosen = [
        (n, g) for n, g in enumerate(found, 1) if options.only in f"{g.key}:{g.line}"
    ]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = pool.map(lambda ng: red_tests(program, ng[0]), chosen)
        red = {guard.key: names for (_, guard), names in zip(chosen, results)}
    text = page.report([g for _, g in chosen], red, rows, EXPLAINED)
    (WORK / "report.txt").write_text(text)
    if options.only:
        print(text)
        return
    problems = judge(found, red, rows)
    if options.write:
        page.write(ROOT, found, red, rows, EXPLAINED)
    else:
        problems += page.differences(ROOT, found, tests_named(), red, EXPLAINED)
    finish(
        problems,
        f"each of {len(found)} guards is missed when it is gone, "
        f"{len(EXPLAINED)} of them by reasoning; all {len(rows)} rows have a guard",
    )


def tests_named():
    """Every name that a test or a row of a test has."""
    text = "".join((ROOT / "tests" / name).read_text() for name in TESTS)
    pattern = r'(?:\{|corrupt\(|unsupported\()"([a-z0-9_]+)",|TEST(?:_[FP])?\(\w+,\s*(\w+)\)'
    return {name for both in re.findall(pattern, text) for name in both if name}


def finish(problems, summary):
    for problem in problems:
        print(problem, file=sys.stderr)
    if not problems:
        print(f"mutation: {summary}")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
