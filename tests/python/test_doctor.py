# SPDX-License-Identifier: Apache-2.0
"""weig doctor: each symptom that can be made here is made, named, mended by the very
command that is printed, and gone when looked at again. Changes settings of the whole
system for moments, and puts them back: runs alone, as root."""

import json
import os
import resource
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

import minimal_file
import page_cache
import safetensors_file
from command import CANNOT_OPEN
from conftest import PROGRAMS

MIB = 1 << 20
NOBODY = 65534
READ_AHEAD = "read-ahead"

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="changes system settings")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """On a disk, and open to all users."""
    folder = Path("/var/tmp") / f"weig-test-doctor-{os.getpid()}"
    folder.mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def model(weig, folder):
    """24 MB of weights as a WEIG file."""
    source = folder / "model.safetensors"
    layer = ("U8", (12 * MIB,), os.urandom(MIB) * 12)
    source.write_bytes(safetensors_file.by_reference({"a.0.w": layer, "a.1.w": layer}))
    weig.ok("convert", source)
    return folder / "model.weig"


@pytest.fixture
def small_folios(model, folder):
    """A copy of it, as cp leaves it in memory."""
    copy = folder / "copy.weig"
    page_cache.put_memory_together()
    page_cache.copy_in_small_folios(model, copy)
    yield copy
    copy.unlink()


@pytest.fixture
def doctor(weig_for_all):
    """Looks, and returns {check: finding}."""

    def look(*arguments, status=None, **options):
        run = weig_for_all("doctor", *arguments, "--json", **options)
        report = run.json()
        assert run.status == report["status"], run.err
        if status is not None:
            assert run.status == status, report
        return {each["check"]: each for each in report["checks"]}

    return look


def shell(weig, command, **options):
    """Runs a command as a user would who has weig in their path."""
    path = f"{os.path.dirname(weig.path)}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", command], check=True, capture_output=True, text=True,
        env=os.environ | {"PATH": path}, timeout=60, **options,
    ).stdout  # fmt: skip


def assert_mended(
    weig, doctor, check, file, *, looked_at=None, fine=("fine",), **words
):
    """Looks at `file`, runs what is printed for `check`, and looks again."""
    found = doctor(file)[check]
    assert found["verdict"] == words.get("verdict", "slows"), found
    for word in words.get("says", ()):
        assert word in found["says"], found
    shell(weig, found["command"])
    again = doctor(looked_at or file)[check]
    assert again["verdict"] in fine and again["command"] is None, again


def test_a_fine_file_on_a_fine_system(weig, doctor, model):
    page_cache.put_memory_together()
    weig.ok("warm", model, "--huge")
    checks = doctor(model, status=0)
    for check in ("contents", "alignment", "location", "page cache", "huge pages"):
        assert checks[check]["verdict"] == "fine", checks[check]
    text = weig.ok("doctor", model).text
    assert str(model) in text and "fine    contents" in text


def test_without_a_file_only_the_system_is_looked_at(doctor):
    checks = doctor(status=0)
    assert {"kernel", "huge pages", "memory"} <= set(checks)
    assert not {"contents", "alignment", "page cache"} & set(checks)


def test_text_and_json_say_the_same(weig, doctor, small_folios):
    finding = doctor(small_folios)["page cache"]
    text = weig.ok("doctor", small_folios).text
    assert finding["says"] in text and f"mend: {finding['command']}\n" in text


def test_small_folios_in_the_cache(weig, doctor, small_folios):
    assert_mended(weig, doctor, "page cache", small_folios, says=["in small folios"])
    assert page_cache.resident_share(small_folios) == 1


def test_a_short_read_ahead(weig, doctor, model):
    found = doctor(model)[READ_AHEAD]
    device = os.stat(model).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    places = [f"/sys/dev/block/{number}/queue", f"/sys/dev/block/{number}/../queue"]
    file = next(p for p in map(Path, places) if p.exists()) / "read_ahead_kb"
    for kib in (128, 2560):  # short, and no multiple of 2 MiB
        with page_cache.setting(file, kib):
            found = doctor(model)[READ_AHEAD]
            assert found["verdict"] in ("slows", "note")
            assert f"{kib:,} KiB" in found["says"]
            shell(weig, found["command"])
            found = doctor(model)[READ_AHEAD]
            assert found["verdict"] == "fine" and found["command"] is None
            assert int(file.read_text()) > kib


def test_transparent_huge_pages_never(weig, doctor, model):
    with page_cache.setting("/sys/kernel/mm/transparent_hugepage/enabled", "never"):
        assert_mended(weig, doctor, "huge pages", model, says=["never", "4 KiB"])


def test_few_mappings(weig, doctor, model):
    with page_cache.setting("/proc/sys/vm/max_map_count", 3000):
        run = weig("doctor", model)
        assert run.status == 1 and "breaks" in run.text
        assert_mended(weig, doctor, "mappings", model, verdict="breaks", says=["3,000"])


def test_no_overcommit(weig, doctor, folder):
    """A sparse file of more than the machine may promise."""
    huge = folder / "huge.safetensors"
    elements = 3 * os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4
    header = b'{"w":{"dtype":"F32","shape":[%d],"data_offsets":[0,%d]}}'
    header %= (elements, 4 * elements)
    with open(huge, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + 4 * elements)
    try:
        with (
            page_cache.setting("/proc/sys/vm/overcommit_ratio", 200),
            page_cache.setting("/proc/sys/vm/overcommit_memory", 2),
        ):
            assert_mended(
                weig, doctor, "overcommit", huge, verdict="breaks", says=["ENOMEM"]
            )
    finally:
        huge.unlink()


def limited(number, soft):
    def before():
        resource.setrlimit(number, (soft, resource.getrlimit(number)[1]))

    return before


def mended_in_one_shell(weig, check, file, **options):
    """Limits belong to a shell: looks, mends and looks again in the same one. Returns
    both findings."""
    script = (
        f"weig doctor --json {shlex.quote(str(file))}; echo; "
        'read -r command; eval "$command"; '
        f"weig doctor --json {shlex.quote(str(file))}"
    )
    path = f"{os.path.dirname(weig.path)}:{os.environ['PATH']}"
    process = subprocess.Popen(
        ["bash", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"PATH": path}, **options,
    )  # fmt: skip
    with process:
        first = ""
        while line := process.stdout.readline():
            if line == "\n":
                break
            first += line
        finding = {c["check"]: c for c in json.loads(first)["checks"]}[check]
        process.stdin.write(finding["command"] + "\n")
        process.stdin.close()
        second = json.loads(process.stdout.read())
    assert process.returncode == second["status"]
    return finding, {c["check"]: c for c in second["checks"]}[check]


def test_a_small_address_space(weig, doctor, model):
    first, second = mended_in_one_shell(
        weig, "address space", model, preexec_fn=limited(resource.RLIMIT_AS, 32 * MIB)
    )
    assert first["verdict"] == "breaks" and "ENOMEM" in first["says"]
    assert second["verdict"] == "fine"


def test_a_limit_that_root_may_not_raise(weig, model):
    """As in most containers."""
    keep = ["setpriv", "--bounding-set", "-sys_resource", weig.path, "doctor", model]

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (32 * MIB, 32 * MIB))

    run = subprocess.run([*keep, "--json"], preexec_fn=limit, stdout=subprocess.PIPE)
    found = {c["check"]: c for c in json.loads(run.stdout)["checks"]}["address space"]
    assert found["verdict"] == "breaks" and found["command"] is None
    assert "CAP_SYS_RESOURCE" in found["advice"]


def test_a_small_memlock_limit(weig_for_all, folder):
    """As a user: root may lock any amount."""
    source = folder / "lock.safetensors"
    weights = ("U8", (4 * MIB,), bytes(4 * MIB))  # of the usual 8 that may be locked
    source.write_bytes(safetensors_file.by_reference({"w": weights}))
    source.chmod(0o644)
    first, second = mended_in_one_shell(
        weig_for_all, "memory lock", source, user=NOBODY, group=NOBODY, extra_groups=[],
        preexec_fn=limited(resource.RLIMIT_MEMLOCK, 65536),
    )  # fmt: skip
    assert first["verdict"] == "note" and "65.5 kB" in first["says"]
    assert first["advice"].startswith("'ulimit -l unlimited' in a shell")
    assert second["verdict"] == "fine"


def test_root_may_lock_any_amount(doctor, model):
    finding = doctor(model, preexec_fn=limited(resource.RLIMIT_MEMLOCK, 65536))
    assert finding["memory lock"]["verdict"] == "fine"


def test_a_small_cgroup(weig, doctor, model):
    with page_cache.memory_cgroup(16 * MIB) as (group, limit):

        def look():
            return doctor(model, preexec_fn=lambda: page_cache.enter(group))["memory"]

        found = look()
        assert found["verdict"] == "slows" and str(group) in found["says"]
        shell(weig, found["command"])
        assert int(limit.read_text()) > os.path.getsize(model)
        assert look()["verdict"] == "fine"


def test_an_unsealed_file(weig, doctor, folder):
    file = folder / "it's minimal.weig"
    file.write_bytes(minimal_file.build([(b"w", 0, [2], bytes(8))]))
    sealed = folder / "it's minimal.sealed.weig"
    assert_mended(
        weig, doctor, "contents", file, looked_at=sealed, verdict="breaks",
        says=["not sealed"],
    )  # fmt: skip


def test_a_big_endian_file(weig, doctor, folder):
    file = folder / "big.weig"
    file.write_bytes(minimal_file.build([(b"w", 0, [2], bytes(8))], order=">"))
    assert_mended(
        weig, doctor, "contents", file, looked_at=folder / "big.sealed.weig",
        says=["big-endian"],
    )  # fmt: skip


def test_a_misaligned_safetensors_file(weig, doctor, folder):
    header = b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}} '
    assert (8 + len(header)) % 4 != 0
    file = folder / "odd.safetensors"
    file.write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    assert_mended(
        weig, doctor, "alignment", file, looked_at=folder / "odd.weig",
        verdict="breaks", says=["1 of 1 tensor"],
    )  # fmt: skip


def test_a_damaged_file(doctor, model, folder):
    file = folder / "cut.weig"
    file.write_bytes(model.read_bytes()[:-1])
    found = doctor(file, status=1)["contents"]
    assert found["verdict"] == "breaks" and "cannot be opened" in found["says"]


def test_a_file_of_others(weig, doctor, model):
    """As a user on root's file: unknown, not warm, and no reason to fail."""
    found = doctor(model, status=0, user=NOBODY, group=NOBODY, extra_groups=[])
    assert found["residency"]["verdict"] == "note"
    assert (
        "unknown" in found["residency"]["says"] and "root" in found["residency"]["says"]
    )
    assert "page cache" not in found
    # What only root can mend goes through sudo.
    with page_cache.setting("/sys/kernel/mm/transparent_hugepage/enabled", "never"):
        found = doctor(model, user=NOBODY, group=NOBODY, extra_groups=[])
    assert found["huge pages"]["command"].startswith("sudo sh -c 'echo madvise >")


def test_a_read_only_mount(weig, doctor, model, folder):
    mounted = folder / "mounted"
    mounted.mkdir()
    mount = ["unshare", "--mount", "bash", "-c"]
    script = (
        f"mount --bind {folder} {mounted} && mount -o remount,bind,ro {mounted} && "
        f"weig doctor {mounted}/model.weig && weig warm {mounted}/model.weig"
    )
    out = shell(weig, shlex.join([*mount, script]))
    assert "mounted read-only" in out and "in memory" in out


def test_a_tmpfs_of_small_pages(weig, doctor, model, folder):
    mounted = folder / "memory"
    mounted.mkdir()
    subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "huge=never", "none", mounted], check=True
    )
    try:
        file = Path(shutil.copy(model, mounted))
        assert_mended(
            weig, doctor, "large folios", file, says=["tmpfs", "small folios"]
        )
        assert file.read_bytes() == model.read_bytes()
        evicted = weig.ok("evict", file).text
        assert "tmpfs keeps files in memory" in evicted
    finally:
        subprocess.run(["umount", mounted], check=True)
        mounted.rmdir()


def test_a_remote_file_system(weig, doctor, model, big_tmp, slow_mount):
    point, _ = slow_mount
    name = f"weig-test-remote-{os.getpid()}.weig"
    shutil.copyfile(model, big_tmp / name)
    copy = Path("/var/tmp") / name
    try:
        assert_mended(
            weig,
            doctor,
            "location",
            point / name,
            looked_at=copy,
            says=["fuse", "remote"],
        )
    finally:
        copy.unlink(missing_ok=True)


def test_a_command_for_a_name_that_shells_would_read(weig, doctor, model, folder):
    """The file's name holds quotes, spaces and what would move a cursor."""
    file = folder / "a 'b' $(c)\x1b[2J.weig"
    page_cache.put_memory_together()
    page_cache.copy_in_small_folios(model, file)
    assert "\x1b" not in weig.ok("doctor", file).text
    assert_mended(weig, doctor, "page cache", file)
    file.unlink()


def test_no_such_file(refused, folder):
    refused(["doctor", folder / "none.weig"], CANNOT_OPEN, folder / "none.weig")


def test_a_kernel_that_lacks_calls(weig, doctor, model):
    """What no command mends is said in words."""
    environment = os.environ | {
        "LD_PRELOAD": str(PROGRAMS / "libweig_refuse_calls.so"),
        "WEIG_REFUSE": "madvise-22=22",  # MADV_POPULATE_READ: EINVAL
    }
    found = doctor(model, status=0, env=environment)["kernel"]
    assert found["verdict"] == "slows" and "MADV_POPULATE_READ" in found["says"]
    assert found["command"] is None and "newer kernel" in found["advice"]
    text = weig.ok("doctor", model, env=environment).text
    assert f"          try:  {found['advice']}\n" in text
