# SPDX-License-Identifier: Apache-2.0
"""What a command does that has no room for its output."""

from command import IO, list_tree
from output_calls import CALLS, interfering


def check_refusal(weig, call, folder, target, reason, **options):
    """It fails for that reason, in one line that names the target, and changes
    nothing."""
    before = list_tree(folder)
    old = target.read_bytes() if target.exists() else None
    run = weig(*call, **options)
    assert run.status == IO, run.err
    assert run.err.startswith(f"weig: {target}: ") and run.err.count("\n") == 1
    assert reason in run.err and run.out == b""
    assert list_tree(folder) == before
    assert old is None or target.read_bytes() == old


def fill(weig, sources, small_sources, disk, command, reserves, reason):
    """What does not fit is refused, over an old file too; what fits is written after."""
    options = {} if reserves else {"env": interfering(fallocate=95)}
    target = disk / "out"
    try:
        call = CALLS[command](sources, target)
        check_refusal(weig, call, disk, target, reason, **options)
        weig.ok(*CALLS[command](small_sources, target))
        check_refusal(weig, [*call, "--force"], disk, target, reason, **options)
        weig.ok(*CALLS[command](small_sources, target), "--force")
    finally:
        target.unlink(missing_ok=True)
