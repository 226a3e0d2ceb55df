# SPDX-License-Identifier: Apache-2.0
"""Processes that lack what one takes for granted: open standard streams, /proc and
/sys, memory, descriptors, threads, mappings. Commands work, or say what is missing."""

import itertools
import os
import resource
import subprocess

import pytest

from command import CANNOT_OPEN, IO
from conftest import PROGRAMS
from safetensors_file import by_hand, by_reference, pattern

NO_MEMORY = 11
NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts, changes users")

# Commands that leave a file at {out}, or none.
CALLS = {
    "info": ["info", "{weig}"],
    "ls": ["ls", "{safetensors}"],
    "verify": ["verify", "{weig}", "--threads", "4"],
    "verify_read": ["verify", "{weig}", "--load", "read"],
    "verify_auto": ["verify", "{safetensors}", "--load", "auto"],
    "get": ["get", "{weig}", "w"],
    "get_npy": ["get", "{weig}", "w", "-o", "{out}.npy"],
    "convert": ["convert", "{safetensors}", "-o", "{out}"],
    "convert_again": ["convert", "{weig}", "-o", "{out}"],
    "export": ["export", "{weig}", "{out}"],
    "residency": ["residency", "{weig}"],
    "warm": ["warm", "{weig}"],
    "evict": ["evict", "{weig}"],
    "doctor": ["doctor", "{weig}"],
}
MAPPING = ("warm",)  # what is of no use without


@pytest.fixture
def place(weig, tmp_path):
    """A folder with a model of each kind; gives a call's words."""
    tensors = {"w": ("F32", (40, 64), pattern(10240)), "b": ("U8", (5,), b"hello")}
    (tmp_path / "a.safetensors").write_bytes(by_reference(tensors))
    weig.ok("convert", tmp_path / "a.safetensors")

    def words(call, out="out"):
        names = {"weig": tmp_path / "a.weig", "safetensors": tmp_path / "a.safetensors"}
        return [word.format(out=tmp_path / out, **names) for word in CALLS[call]]

    words.folder = tmp_path
    return words


def check_outputs(weig, folder):
    """What was written is whole, and nothing else is there."""
    for path in folder.iterdir():
        if path.name == "out":
            weig.ok("verify", path)
        elif path.suffix == ".npy":
            assert path.read_bytes().endswith(pattern(10240))
        else:
            assert path.name in ("a.weig", "a.safetensors"), path


# --- Standard streams -----------------------------------------------------------------


@pytest.mark.parametrize("call", CALLS)
def test_closed_streams(weig, place, call):
    """None becomes the descriptor of a model: no message is written into one."""
    models = [place.folder / "a.weig", place.folder / "a.safetensors"]
    before = [path.read_bytes() for path in models]
    for closed in itertools.chain.from_iterable(
        itertools.combinations((0, 1, 2), n) for n in (1, 2, 3)
    ):
        redirect = " ".join(f"{number}>&-" for number in closed)
        out = "out" + "".join(map(str, closed))
        words = [weig.path, *place(call, out)]
        done = subprocess.run(
            ["bash", "-c", f'exec "$@" {redirect}', "bash", *words],
            stdin=subprocess.DEVNULL, capture_output=True,
        )  # fmt: skip
        prints = call != "get_npy"
        allowed = {IO} if 1 in closed and prints else {0}
        allowed |= {1} if call == "doctor" else set()
        assert done.returncode in allowed, (closed, done)
        for path in place.folder.glob("out*"):
            os.rename(path, place.folder / ("out" + path.suffix))
        check_outputs(weig, place.folder)
    assert [path.read_bytes() for path in models] == before


@pytest.mark.parametrize("call", CALLS)
def test_a_full_standard_output(weig, place, call):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [weig.path, *place(call)], stdout=full, stderr=subprocess.PIPE, text=True
        )
    if call == "get_npy":
        assert done.returncode == 0
    else:
        assert done.returncode == IO and "standard output" in done.stderr
    check_outputs(weig, place.folder)


# --- File systems of the kernel -------------------------------------------------------


@needs_root
@pytest.mark.parametrize("missing", ["/proc", "/sys", "/proc /sys"])
@pytest.mark.parametrize("call", CALLS)
def test_without_proc_and_sys(weig, place, call, missing):
    hide = "".join(f"mount -t tmpfs none {path} && " for path in missing.split())
    words = [weig.path, *place(call)]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", hide + 'exec "$@"', "sh", *words],
        capture_output=True, text=True,
    )  # fmt: skip
    allowed = {0, 1} if call == "doctor" else {0}
    assert done.returncode in allowed, done.stderr
    check_outputs(weig, place.folder)


# --- Limits ---------------------------------------------------------------------------


def limited(kind, *values):
    return {"preexec_fn": lambda: resource.setrlimit(kind, values)}


@pytest.fixture(scope="module")
def least_mib(weig):
    """Of address space, for the program and its libraries to start. With less, it is the
    system's loader that fails, in whatever way."""
    for mib in range(4, 64):
        limit = limited(resource.RLIMIT_AS, mib << 20, mib << 20)
        if subprocess.run([weig.path, "--version"], capture_output=True, **limit).returncode == 0:
            return mib
    raise AssertionError("it does not start")


@pytest.mark.parametrize("more", [2, 4, 8])
@pytest.mark.parametrize("call", CALLS)
def test_little_address_space(weig, place, call, least_mib, more):
    """Enough to start, not for buffers: one line, and nothing is left."""
    mib = least_mib + more
    limit = limited(resource.RLIMIT_AS, mib << 20, mib << 20)
    run = weig(*place(call), **limit)
    if run.status not in (0, 1):
        assert run.status == NO_MEMORY, run.err
        told = [line for line in run.err.splitlines() if "warning" not in line]
        assert len(told) == 1 and str(place.folder) in told[0], run.err
        assert set(os.listdir(place.folder)) == {"a.weig", "a.safetensors"}
    check_outputs(weig, place.folder)


@pytest.mark.parametrize("descriptors", [4, 5, 6])
@pytest.mark.parametrize("call", CALLS)
def test_few_descriptors(weig, place, call, descriptors):
    limit = limited(resource.RLIMIT_NOFILE, descriptors, descriptors)
    run = weig(*place(call), **limit)
    if run.status not in (0, 1):
        assert run.status in (CANNOT_OPEN, IO), run.err
        assert "Too many open files" in run.err and run.err.count("\n") == 1
        assert set(os.listdir(place.folder)) == {"a.weig", "a.safetensors"}
    check_outputs(weig, place.folder)


def test_more_shards_than_the_usual_limit_on_open_files(weig, tmp_path):
    """The limit that a process may raise is no obstacle."""
    weight_map = {}
    for i in range(60):
        name = f"m-{i + 1:05d}-of-00060.safetensors"
        (tmp_path / name).write_bytes(by_hand({f"t{i}": ("U8", (1,), b"x")}))
        weight_map[f"t{i}"] = name
    index = str({"weight_map": weight_map}).replace("'", '"')
    (tmp_path / "m.safetensors.index.json").write_text(index)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = limited(resource.RLIMIT_NOFILE, 40, most)
    call = ["convert", tmp_path, "-o", tmp_path / "m.weig"]
    assert weig(*call, **limit).status == 0
    hard = weig(*call, "--force", **limited(resource.RLIMIT_NOFILE, 40, 40))
    assert hard.status == CANNOT_OPEN and "Too many open files" in hard.err
    assert "ulimit -n" in hard.err


@needs_root
def test_no_threads(weig_for_all, folder):
    """What can be done by one thread is; what cannot says so."""
    place = folder / "threads"
    place.mkdir(mode=0o777)
    place.chmod(0o777)
    header = {"w": ("U8", (3 << 20,), bytes(3 << 20))}
    (place / "a.safetensors").write_bytes(by_hand(header))
    weig_for_all.ok("convert", place / "a.safetensors")

    def run(*words):
        command = ["prlimit", "--nproc=1:1", "setpriv", f"--reuid={NOBODY}"]
        command += [f"--regid={NOBODY}", "--clear-groups", weig_for_all.path, *words]
        return subprocess.run(command, capture_output=True, text=True)

    for way in ("map", "stream", "populate", "read"):
        done = run("verify", place / "a.weig", "--threads", "8", "--load", way)
        assert done.returncode == 0 and "sound" in done.stdout, done.stderr
    done = run("convert", place / "a.safetensors", "-o", place / "b.weig")
    assert done.returncode == NO_MEMORY and "cannot start a thread" in done.stderr
    assert done.stderr.startswith(f"weig: {place / 'b.weig'}: ")
    assert set(os.listdir(place)) == {"a.safetensors", "a.weig"}


# --- Memory ---------------------------------------------------------------------------


@pytest.mark.parametrize("reason", [1, 12, 13, 19])  # EPERM, ENOMEM, EACCES, ENODEV
@pytest.mark.parametrize("call", CALLS)
def test_every_command_reads_what_it_cannot_map(weig, place, call, reason):
    """C60"""
    environment = os.environ | {
        "LD_PRELOAD": str(PROGRAMS / "libweig_refuse_calls.so"),
        "WEIG_REFUSE": f"mmap-file={reason}",
    }
    run = weig(*place(call), env=environment)
    if call in MAPPING:
        assert run.status == IO and "cannot map the file" in run.err
    else:
        assert run.status == 0 or (call == "doctor" and run.status == 1), run.err
    assert run.err.count("warning") <= 1
    check_outputs(weig, place.folder)


@pytest.mark.parametrize("call", ["convert", "convert_again", "export", "get_npy"])
def test_nothing_of_the_heap_reaches_an_output(weig, place, call):
    """C39: outputs are the same whatever memory holds before it is written to."""
    found = set()
    for filling in ("0", "85", "170"):
        environment = os.environ | {"MALLOC_PERTURB_": filling}
        run = weig(*place(call, f"out{filling}"), env=environment)
        assert run.status == 0, run.err
        (path,) = place.folder.glob(f"out{filling}*")
        found.add(path.read_bytes())
    assert len(found) == 1
