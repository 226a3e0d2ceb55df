# SPDX-License-Identifier: Apache-2.0
"""The corpus (tests/corpus) through the command, and through readers of others: what
must open has exactly these tensors, what must be refused is, in words."""

import hashlib
import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import weig_file
from command import CODE_NAMES, CORRUPT
from safetensors_file import read_by_reference

MAKE = Path(__file__).resolve().parent.parent / "corpus" / "make.py"
OPTIONS = {"unsealed": "--accept-unsealed", "unknown_dtypes": "--accept-unknown-dtypes"}
VERIFY_KNOWS = ("checksum", "unsupported")
STATUS = {name: status for status, name in CODE_NAMES.items()}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    subprocess.run([sys.executable, MAKE, folder], check=True, capture_output=True)
    files = json.loads((folder / "manifest.json").read_text())["files"]
    return folder, files


def chosen(corpus, expect):
    """Each in a folder of its own: what is wrong with a set, its members would tell."""
    folder, files = corpus
    found = []
    for file in files:
        if file["expect"] != expect:
            continue
        path = folder / (file["file"] + ".d") / Path(file["file"]).name
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            path.hardlink_to(folder / file["file"])
        found.append((path, file))
    return found


def each(check, files):
    """Calls check(path, told) for all and gathers what it says."""
    with ThreadPoolExecutor(2) as pool:
        said = pool.map(lambda file: check(*file), files)
        problems = [line for line in said if line]
    assert not problems, "\n".join(problems)


def test_is_the_same_in_every_run(corpus, tmp_path):
    folder, files = corpus
    subprocess.run([sys.executable, MAKE, tmp_path], check=True, capture_output=True)
    for file in [f["file"] for f in files] + ["manifest.json", "manifest.tsv"]:
        assert (tmp_path / file).read_bytes() == (folder / file).read_bytes(), file


def test_accepted_ones_list_their_tensors(weig, corpus):
    def check(path, told):
        if "convert" in told["options"]:
            source, path = path, path.with_suffix(".weig")
            run = weig("convert", source, "-o", path, "--force")
            if run.status != 0:
                return f"{source}: {run.err}"
        options = [OPTIONS[option] for option in told["options"] if option in OPTIONS]
        run = weig("ls", "--json", *options, path)
        if run.status != 0 or run.err.count("\n") > 1:
            return f"{path}: {run.err}"
        keys = ("name", "dtype", "shape", "bytes")
        expected = [tuple(map(str, (t[k] for k in keys))) for t in told["tensors"]]
        found = [tuple(map(str, (t[k] for k in keys))) for t in run.json()["tensors"]]
        if sorted(expected) != sorted(found):
            return f"{path}: {found}"
        return None

    each(check, chosen(corpus, "accepted"))


def test_refused_ones_say_why(weig, corpus):
    """C98: one line that names the file and the rule, and the status of its class."""

    def check(path, told):
        options = [OPTIONS[option] for option in told["options"] if option in OPTIONS]
        call = ["verify", *options, path]
        if "convert" in told["options"]:
            call = ["convert", path, "-o", path.with_suffix(".weig")]
        run = weig(*call)
        said, status = run.err, STATUS[told["code"]]
        if told["when"] == "verify":
            said = run.out.decode()
            status = status if told["code"] in VERIFY_KNOWS else CORRUPT
        lines = said.splitlines() or [""]
        first = lines[0]
        right = run.status == status and told["says"] in first
        right = right and str(path) in lines[-1]  # of verify's it is the verdict
        return None if right else f"{told}: status {run.status}, {first!r}"

    each(check, chosen(corpus, "refused"))


def test_readers_of_others_agree(corpus):
    """What opens: the reader made from the format's text, and the reference package."""
    compared = 0
    for path, told in chosen(corpus, "accepted"):
        expected = {
            t["name"]: (tuple(t["shape"]), t["sha256"]) for t in told["tensors"]
        }
        raw = path.read_bytes()
        if told["format"] == "safetensors":
            read = {n: (s, d) for n, (_, s, d) in read_by_reference(raw).items()}
        elif told["format"] == "weig" and written_by_us(told):
            tensors = weig_file.read(path).tensors
            read = {t.name.decode(): (t.shape, t.data) for t in tensors}
        else:
            continue
        found = {
            name: (tuple(shape), hashlib.sha256(data).hexdigest())
            for name, (shape, data) in read.items()
        }
        compared += 1
        assert found == expected, path
    assert compared > 40


def written_by_us(told):
    """That reader knows plain types, and what our own writer makes."""
    plain = {name for name, _ in weig_file.DTYPES.values()}
    if not {t["dtype"] for t in told["tensors"]} <= plain:
        return False
    return told["about"] not in OF_OTHER_WRITERS


OF_OTHER_WRITERS = {
    "flags to ignore",
    "a later revision of the writer",
    "a section that must be known",
    "ignored for rank 0",
    "digests are not required",
}
