# SPDX-License-Identifier: Apache-2.0
"""weig bench: figures that agree with each other and with what the kernel must have
done, states that are proven or said not to be, refusals, and a page that a browser shows.
"""

import functools
import html
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy
import pytest

import safetensors_file
from command import CORRUPT, EXISTS, INVALID_ARGUMENT, IO, USAGE, list_tree
from conftest import PROGRAMS

MIB = 1 << 20
PAGE = 4096
NOBODY = 65534
OURS = ["map", "stream", "populate", "read", "auto"]
CLASSICAL = ["copy", "buffer", "plain"]
PARTS = ["start", "open", "resident", "first_use"]


@pytest.fixture(scope="module")
def model(weig, folder):
    """40 MiB of weights as a WEIG file."""
    rows = numpy.arange(10 * MIB, dtype=numpy.float32).reshape(10, MIB)
    tensors = {f"a.{i}.w": rows[2 * i : 2 * i + 2] for i in range(5)}
    source = folder / "m.safetensors"
    source.write_bytes(safetensors_file.by_reference(
        {name: ("F32", part.shape, part.tobytes()) for name, part in tensors.items()}
    ))  # fmt: skip
    weig.ok("convert", source)
    return folder / "m.weig"


@pytest.fixture(scope="module")
def page(folder):
    return folder / "report.html"


@pytest.fixture(scope="module")
def report(weig, model, page):
    return weig.ok("bench", model, "--rounds=2", "--json", "--html", page).json()


def rows(report, state, *ways):
    found = {row["way"]: row for row in report["rows"] if row["for"] == state}
    return [found[way] for way in ways]


def samples(report, state, *ways):
    return [s for row in rows(report, state, *ways) for s in row["backed"]["samples"]]


def test_a_file_that_changes_ends_it(weig, model, tmp_path):
    """Rather than that it compares readings of two files."""
    file = Path(shutil.copy(model, tmp_path / "changing.weig"))
    process = weig.start("bench", file, "--rounds", "200", "--states", "warm")
    time.sleep(0.5)
    shutil.copy(model, tmp_path / "new.weig")
    os.rename(tmp_path / "new.weig", file)
    out, err = process.communicate(timeout=60)
    assert process.returncode == CORRUPT and b"was changed while it was measured" in err
    assert out == b""


def test_a_page_without_a_name_is_refused(weig, model):
    assert weig("bench", model, "--html", "").status == USAGE


def test_no_way_that_loads_is_a_failure(weig, model):
    """One is enough for success; the raw readings are no loading."""
    environment = {
        **os.environ,
        "LD_PRELOAD": str(PROGRAMS / "libweig_refuse_calls.so"),
        "WEIG_REFUSE": "mmap-file=19",
    }

    def bench(*options):
        command = [weig.path, "bench", model, "--rounds=1", "--states=cold", *options]
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    run = bench("--ways=plain")
    assert run.returncode == IO
    assert run.stderr == f"weig: {model}: no way could load the file\n"
    assert "failed: " in run.stdout and "raw-read" in run.stdout
    assert json.loads(bench("--ways=plain", "--json").stdout)["rows"]
    run = bench("--ways=plain,read")
    assert run.returncode == 0 and run.stderr == "" and "failed: " in run.stdout


# What is measured.


def test_every_way_is_measured_in_every_state(report):
    cold = [row["way"] for row in report["rows"] if row["for"] == "cold"]
    warm = [row["way"] for row in report["rows"] if row["for"] == "warm"]
    assert cold == ["raw-read", "raw-direct", *OURS, *CLASSICAL]
    assert warm == ["raw-read", *OURS, *CLASSICAL]
    for row in report["rows"]:
        assert row["refused"] is None
        assert [s["round"] for s in row["backed"]["samples"]] == [1, 2]
        assert "fresh" not in row


def test_rounds_are_interleaved_and_rotated(report):
    runs = sorted(
        (sample["order"], sample["round"], row["for"], row["way"])
        for row in report["rows"]
        for sample in row["backed"]["samples"]
    )
    assert [run[0] for run in runs] == list(range(1, len(runs) + 1))
    assert [run[1:3] for run in runs] == sorted(run[1:3] for run in runs)
    for state in ("cold", "warm"):
        first, second = ([r[3] for r in runs if r[1:3] == (i, state)] for i in (1, 2))
        assert second == first[1:] + first[:1]


def test_the_file_and_the_machine_are_named(report, model):
    assert report["file"] == str(model) and report["format"] == "weig"
    assert report["file_size"] == os.path.getsize(model)
    assert report["data_bytes"] == 40 * MIB and report["tensors"] == 5
    assert report["machine"]["cpus"] == report["threads"] >= 1
    assert report["machine"]["kernel"] == f"{os.uname().sysname} {os.uname().release}"
    assert report["memory"]["available"] <= report["memory"]["limit"]


def test_seconds_add_up(report):
    for row in report["rows"]:
        for sample in row["backed"]["samples"]:
            assert sample["failure"] is None
            parts = [sample[part] for part in PARTS]
            assert min(parts) >= 0
            assert sample["total"] == pytest.approx(sum(parts), abs=1e-6)
            assert 0 < sample["total"] < 30
        totals = [s["total"] for s in row["backed"]["samples"]]
        assert row["backed"]["total"] == pytest.approx(
            {"min": min(totals), "median": sum(totals) / 2, "max": max(totals)}
        )


def test_the_raw_limit_is_the_faster_raw_reading(report):
    for state, raw in (("cold", ["raw-read", "raw-direct"]), ("warm", ["raw-read"])):
        limit = min(r["backed"]["total"]["median"] for r in rows(report, state, *raw))
        for row in rows(report, state, *OURS, *CLASSICAL):
            median = row["backed"]["total"]["median"]
            assert row["of_raw"] == pytest.approx(median / limit)


@pytest.mark.parametrize("way", ["map", "populate", "plain"])
def test_time_counts_the_same_faults(weig, model, way):
    """GNU time before the very command that a row was measured with."""
    options = ["--ways", way, "--states", "warm", "--rounds", "2", "--json"]
    [row] = rows(weig.ok("bench", model, *options).json(), "warm", way)
    told = [sample["minor_faults"] for sample in row["backed"]["samples"]]
    command = ["/usr/bin/time", "-f", "%F %R", *row["command"]]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    major, minor = map(int, run.stderr.split())
    assert major == 0
    # Addresses are random, and with them what pages the loader's own tables share.
    assert min(told) - 32 <= minor <= max(told) + 32


# States, and what the kernel must have done.


def test_states_are_proven(report):
    for row in report["rows"]:
        assert row["state"] == row["for"]
        wanted = 0 if row["for"] == "cold" else report["file_size"]
        for sample in row["backed"]["samples"]:
            assert sample["cached_before"] == wanted
            assert sample["backed_bytes"] == report["file_size"] * 3 // 2
            assert (sample["huge_folios_before"] is not None) == (row["for"] == "warm")


def test_only_cold_runs_read_from_the_device(report):
    everything = ["raw-read", *OURS, *CLASSICAL]
    for sample in samples(report, "cold", "raw-direct", *everything):
        assert sample["device_bytes"] >= report["data_bytes"]
    for sample in samples(report, "warm", *everything):
        assert sample["device_bytes"] < MIB and sample["major_faults"] < 10


def test_faults_are_those_of_the_pages(report):
    pages = report["data_bytes"] // PAGE
    huge = Path("/sys/kernel/mm/transparent_hugepage/enabled").read_text()
    for sample in samples(report, "warm", "copy", "buffer"):
        if "[always]" not in huge:
            assert pages <= sample["minor_faults"] <= pages + 2048 + 1500  # a buffer
    for sample in samples(report, "warm", "plain"):
        faults = sample["minor_faults"] + sample["major_faults"]
        # One a huge page at best; at worst one for each 16 pages around a fault.
        assert pages / 512 <= faults <= pages / 16 + 2000
        small = pages - sample["huge_mapped"] / PAGE
        assert faults >= small / 16
    for sample in samples(report, "warm", "map", "populate"):
        assert sample["minor_faults"] < 2000


def test_what_is_mapped_needs_no_memory_of_its_own(report):
    for state in ("cold", "warm"):
        for sample in samples(report, state, "map", "stream", "populate", "plain"):
            assert sample["anonymous"] < 8 * MIB
            assert sample["file_backed"] >= report["data_bytes"]
        for sample in samples(report, state, "copy"):
            assert sample["anonymous"] >= report["data_bytes"]
        for sample in samples(report, state, "buffer"):
            assert sample["anonymous"] >= report["file_size"]
            assert sample["file_backed"] < 16 * MIB
        for sample in samples(report, state, "read"):
            assert sample["anonymous"] >= report["data_bytes"]
    for sample in samples(report, "cold", "raw-read"):
        assert 8 * MIB <= sample["anonymous"] < 16 * MIB


def test_auto_says_what_it_chose(report):
    for row in rows(report, "cold", "auto") + rows(report, "warm", "auto"):
        chosen = {sample["chosen"] for sample in row["backed"]["samples"]}
        assert chosen <= {"populate", "read"} and len(row["notes"]) >= 1
        for way in chosen:
            assert any(note.startswith(f"chose {way}: ") for note in row["notes"])


# The table, and the options.


def test_the_table_fits_and_is_in_order(weig, folder, model):
    source = model.with_suffix(".safetensors")
    run = weig.ok("bench", source, "--rounds=1", "--ways=plain,map,map", "--threads=1")
    assert run.err == ""
    lines = run.text.splitlines()
    assert lines[0] == str(source)
    assert max(len(line) for line in lines[2:-1] if ": " not in line) <= 100
    assert "5 tensors" in lines[1] and "1 thread touching" in lines[1]
    heads = [line.split()[0] for line in lines if re.match(r"  (cold|warm),? +", line)]
    assert heads == ["cold,", "cold", "warm,", "warm"]
    names = [line.split()[0] for line in lines if re.match(r"  [a-z-]+ .*\d", line)]
    cold = ["raw-read", "raw-direct", "map", "plain"]
    warm = ["raw-read", "map", "plain"]
    assert [n for n in names if n in cold] == 2 * cold + 2 * warm
    seconds = next(line for line in lines if line.startswith("  map ")).split()
    assert len(seconds) == 10 and all(re.fullmatch(r"[\d.-]+", s) for s in seconds[1:])


def test_only_what_is_asked_for(weig, model):
    asked = ("--ways", "auto", "--states", "warm", "--rounds=3", "--threads=2")
    report = weig.ok("bench", model, *asked, "--json").json()
    assert [(r["way"], r["for"]) for r in report["rows"]] == [
        ("raw-read", "warm"), ("auto", "warm"),
    ]  # fmt: skip
    assert report["threads"] == 2
    assert all(len(row["backed"]["samples"]) == 3 for row in report["rows"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--ways", "map,mmap"], ["'mmap'", "populate"]),
        (["--ways", "raw-read"], ["'raw-read'"]),
        (["--ways", ""], ["''"]),
        (["--states", "hot"], ["'hot'", "cold and warm"]),
        (["--rounds=0"], ["--rounds"]),
        (["--threads=65"], ["--threads"]),
    ],
)
def test_wrong_options_are_refused(weig, model, arguments, words):
    run = weig("bench", model, *arguments)
    assert run.status == USAGE and run.out == b""
    assert all(word in run.err.splitlines()[0] for word in words)


def test_what_cannot_be_opened_is_refused_as_everywhere(refused, tmp_path):
    bad = tmp_path / "bad.weig"
    bad.write_bytes(b"no weights" * 100)
    refused(["bench", bad], 3, bad)
    refused(["bench", tmp_path / "none"], 2, tmp_path / "none")


@pytest.fixture
def drop_caches(tmp_path):
    """A file in the place of the kernel's, for tests that must not disturb others: how
    to run the command so, and what it has written."""
    file = tmp_path / "drop_caches"
    file.touch()
    hide = f'mount --bind {file} /proc/sys/vm/drop_caches && exec "$@"'

    def run(*command):
        run = subprocess.run(
            ["unshare", "--mount", "sh", "-c", hide, "sh", *map(os.fspath, command)],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        return run.stdout

    run.written = file.read_text
    return run


def test_fresh_runs_have_figures_of_their_own(weig, model, drop_caches):
    start = time.monotonic()
    asked = ("--ways=map", "--states=warm", "--rounds=1", "--fresh", "--json")
    report = json.loads(drop_caches(weig.path, "bench", model, *asked))
    for row in report["rows"]:
        assert len(row["backed"]["samples"]) == len(row["fresh"]["samples"]) == 1
        assert row["fresh"]["samples"][0]["backed_bytes"] == 0
        assert row["fresh"]["samples"][0]["state"] == "warm"
    assert drop_caches.written() == "3"
    assert time.monotonic() - start > 5 * len(report["rows"]) == 10


# Files of others, limits, and what goes wrong.


def as_nobody(weig, folder, *arguments):
    """The command where a user without rights may start it."""
    program = folder / "weig"
    if not program.exists():
        shutil.copy(weig.path, program)
    return subprocess.run(
        [program, *map(os.fspath, arguments)], capture_output=True, text=True,
        user=NOBODY, group=NOBODY, extra_groups=[], timeout=60, check=False,
    )  # fmt: skip


def test_the_state_of_others_files_is_not_known(weig, folder, model):
    model.chmod(0o444)
    run = as_nobody(weig, folder, "bench", model, "--ways=map", "--rounds=1", "--json")
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout)
    for row in report["rows"]:
        assert row["state"] == "not known"
        for sample in row["backed"]["samples"]:
            assert sample["state"] == "not known" and sample["cached_before"] is None
    assert any("who own it" in note for note in report["notes"])
    run = as_nobody(weig, folder, "bench", model, "--ways", "map", "--rounds=1")
    assert run.stdout.count(" not known ") == 5


def test_fresh_needs_root(weig, folder, model):
    run = as_nobody(weig, folder, "bench", model, "--fresh")
    assert run.returncode == INVALID_ARGUMENT and run.stdout == ""
    assert "only root may" in run.stderr


def test_what_another_process_maps_is_not_cold(weig, model, drop_caches):
    hold = (
        "import mmap, sys; f = open(sys.argv[1], 'rb');"
        "m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ);"
        "sum(m[::4096]); print(flush=True); input()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", hold, model],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    holder.stdout.readline()
    asked = ("--ways", "map", "--states", "cold", "--rounds=1")
    report = json.loads(drop_caches(weig.path, "bench", model, *asked, "--json"))
    text = drop_caches(weig.path, "bench", model, *asked)
    holder.communicate(b"\n")
    for row in report["rows"]:
        assert row["state"] == "not cold"
        assert row["backed"]["samples"][0]["cached_before"] > 0
        assert any(note.startswith("not cold: ") for note in row["notes"])
    told = r"^  cold raw-read, raw-direct, map: not cold: [\d.]+ MB of 42.0 MB are in "
    assert re.search(told, text, re.MULTILINE)
    assert drop_caches.written() == "1"  # tried that too


def test_what_does_not_fit_is_refused_with_need_and_limit(weig, model, memory_cgroup):
    limit = 32 * MIB
    memory_cgroup(limit)
    enter = {"preexec_fn": memory_cgroup.enter}
    asked = ("bench", model, "--rounds=1", "--ways", "map,read,auto,copy,buffer")
    report = weig.ok(*asked, "--json", **enter).json()
    for row in rows(report, "cold", "raw-direct", "read", "copy", "buffer"):
        assert row["refused"]["need"] >= min(report["data_bytes"], 32 * MIB)
        assert row["refused"]["limit"] == limit
        assert "/weig-test-" in row["refused"]["source"]
        assert row["backed"]["samples"] == []
    for row in rows(report, "cold", "raw-read", "map", "auto"):
        assert row["refused"] is None
        assert row["backed"]["samples"][0]["failure"] is None
        assert any("could be backed" in note for note in row["notes"])
    for row in rows(report, "warm", "raw-read", "map"):
        assert "the page cache cannot hold the file" in row["refused"]["reason"]
        assert row["refused"]["need"] == report["file_size"]
    text = weig.ok(*asked, **enter).text
    told = r"^  copy +refused: needs 50\.3 MB of memory, [\d.]+ MB are available$"
    assert re.search(told, text, re.MULTILINE)
    words = " ".join(text.split())
    assert re.search(r"note: memory is limited to 33\.6 MB by /\S+/weig-test-", words)


def test_a_child_that_cannot_get_memory_is_a_row(weig, model):
    def little_memory():
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (30 * MIB, 30 * MIB))

    asked = ("bench", model, "--rounds=1", "--states=cold", "--ways=map,copy,buffer")
    report = weig.ok(*asked, "--json", preexec_fn=little_memory).json()
    for row in rows(report, "cold", "copy", "buffer"):
        assert row["backed"]["samples"][0]["failure"] == "out of memory"
        assert row["backed"]["total"] is None and row["of_raw"] is None
        assert any("out of memory" in note for note in row["notes"])
    assert rows(report, "cold", "map")[0]["backed"]["total"]["median"] > 0


def children_of(process):
    path = Path(f"/proc/{process}/task/{process}/children")
    return [int(child) for child in path.read_text().split()]


def test_a_child_that_is_killed_is_a_row(weig, model):
    bench = weig.start("bench", model, "--rounds=2", "--states", "cold", "--ways", "copy",
                       "--json")  # fmt: skip
    killed = []

    def kill_copies():
        while bench.poll() is None:
            try:
                for child in children_of(bench.pid):
                    words = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
                    # Before it has become the worker it has its parent's words.
                    if words[1:3] == [b"__bench_worker", b"copy"] and not killed:
                        os.kill(child, signal.SIGKILL)
                        killed.append(child)
            except OSError:
                pass  # it has ended meanwhile

    killer = threading.Thread(target=kill_copies)
    killer.start()
    out, err = bench.communicate(timeout=60)
    killer.join()
    assert bench.returncode == 0 and len(killed) == 1, err
    row = rows(json.loads(out), "cold", "copy")[0]
    failures = [sample["failure"] for sample in row["backed"]["samples"]]
    assert failures == ["ended by signal 9 (Killed): out of memory?", None]
    assert row["backed"]["total"]["median"] > 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_all_and_leaves_nothing(weig, model, folder, number):
    before = list_tree(folder)
    page = folder / "stopped.html"
    bench = weig.start("bench", model, "--rounds=50", "--html", page)
    deadline = time.monotonic() + 10
    while not (children := children_of(bench.pid)):
        assert time.monotonic() < deadline
    time.sleep(0.3)
    bench.send_signal(number)
    out, err = bench.communicate(timeout=5)
    assert bench.returncode == 128 + number
    assert out == b"" and err == b"weig: interrupted\n"
    assert not any(Path(f"/proc/{child}").exists() for child in children)
    assert list_tree(folder) == before


# The page.


def test_the_page_is_one_file(report, page):
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>") and text.rstrip().endswith("</html>")
    assert not re.search(r"https?:|//[a-z]|@import|url\(|<img|<iframe|src=", text)
    assert len(text) < 1 << 20


def test_a_page_is_replaced_only_if_told(weig, report, model, page):
    before = page.read_bytes()
    asked = ("bench", model, "--rounds=1", "--ways", "map", "--states", "warm")
    run = weig(*asked, "--html", page)
    assert run.status == EXISTS and "--force replaces it" in run.err
    assert run.out == b"" and page.read_bytes() == before
    run = weig(*asked, "--html", model, "--force")
    assert run.status == EXISTS and "is the input" in run.err
    other = page.with_name("other.html")
    other.write_text("old")
    weig.ok(*asked, "--html", other, "--force")
    assert "Time to load, warm" in other.read_text()


# Put at the end of the page, which lies in a frame as wide as a screen: browsers have no
# narrow windows.
PROBE = """<script>
addEventListener("load", () => {
  const all = (what) => [...document.querySelectorAll(what)];
  const width = document.documentElement.clientWidth;
  const box = (element) => element.getBoundingClientRect();
  const meet = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom - 2 &&
    b.top < a.bottom - 2;
  const texts = all("svg").map((svg) => [...svg.querySelectorAll(":scope > text")].map(box));
  const hit = all("[data-t]")[0];
  hit.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: 5, clientY: 5 }));
  const tip = document.getElementById("tip");
  parent.document.body.textContent = "FOUND" + JSON.stringify({
    width: innerWidth,
    scroll: document.documentElement.scrollWidth,
    svgs: all("svg[role=img]").map((svg) => [svg.getAttribute("aria-label"), box(svg).width]),
    bars: all(".bars rect").filter((bar) => box(bar).width > 0).length,
    outside: all("svg text, svg rect, li, h1, h2, p").filter(
      (part) => box(part).right > width + 1 || box(part).left < -1).length,
    overlaps: texts.reduce((sum, boxes) => sum + boxes.filter(
      (a, i) => boxes.some((b, j) => i < j && meet(a, b))).length, 0),
    tip: tip.hidden ? null : tip.textContent,
    rows: all("tbody tr").length,
    background: getComputedStyle(document.body).backgroundColor,
  }) + "END";
});
</script></body>"""


@pytest.fixture(scope="module")
def browse(report, page, folder):
    """Opens the page in a browser; gives what PROBE found, and the console's lines."""

    @functools.cache
    def run(width, scheme="light"):
        inner = html.escape(page.read_text().replace("</body>", PROBE))
        outer = folder / "outer.html"
        outer.write_text(
            f"<body style='margin:0'><iframe srcdoc=\"{inner}\" "
            f"style='border:0;width:{width}px;height:2000px'></iframe></body>"
        )
        run = subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
             "--enable-logging=stderr", f"--user-data-dir={folder}/browser",
             f"--blink-settings=preferredColorScheme={int(scheme == 'light')}",
             "--window-size=1300,2100", outer.as_uri()],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        console = [line for line in run.stderr.splitlines() if "CONSOLE" in line]
        found = re.search("FOUND(.*)END", run.stdout)
        assert found, run.stderr
        return json.loads(html.unescape(found[1])), console

    yield run
    shutil.rmtree(folder / "browser", ignore_errors=True)


@pytest.mark.parametrize("width", [375, 1200])
def test_a_browser_shows_the_page(report, browse, width):
    found, console = browse(width)
    assert console == []
    assert found["width"] == width and found["scroll"] <= width
    assert found["outside"] == 0 and found["overlaps"] == 0
    names = [name for name, _ in found["svgs"]]
    assert all(120 < svg_width <= width for _, svg_width in found["svgs"])
    assert sum(name.startswith("Time to load, ") for name in names) == 2
    for way in [*OURS, *CLASSICAL]:
        assert sum(name.startswith(f"{way}: loaded after ") for name in names) == 1
    assert found["bars"] > 2 * len(report["rows"])
    assert found["rows"] == 2 * len(report["rows"])
    assert found["tip"].startswith("cold raw-read\ntotal ")


def test_the_page_has_a_light_and_a_dark_form(browse):
    def brightness(scheme):
        color = browse(1200, scheme)[0]["background"]
        return sum(map(int, re.findall(r"\d+", color)))

    assert brightness("light") > 600
    assert brightness("dark") < 150


def test_a_name_in_the_page_is_text(weig, model, folder):
    name = folder / "<b>&amp;\"'.weig"
    os.link(model, name)
    page = folder / "named.html"
    weig.ok("bench", name, "--rounds=1", "--ways=map", "--states=warm", "--html", page)
    text = page.read_text()
    assert "<b>" not in text and "Loading &lt;b&gt;&amp;amp;&quot;&#39;.weig" in text
