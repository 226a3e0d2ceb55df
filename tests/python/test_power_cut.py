# SPDX-License-Identifier: Apache-2.0
"""A power cut between any two calls of a command that writes: the old file or the
complete new one is left, and when the command says that it is done, the new one."""

import pytest

from output_calls import CALLS, OLD, Target, make_sources
from power_cut import PowerCut


@pytest.fixture(params=["old", "none"])
def cut(request, weig, tmp_path, command):
    """The calls of a command, and a function that counts bad states of the disk."""
    folder = tmp_path / "here"
    folder.mkdir()
    make_sources(weig, folder)
    target = Target(weig, folder, command, request.param == "old")
    path = str(target.path)
    before = {path: OLD} if target.old else {}
    sealed = target.new[-64:] if target.is_sealed else None

    def bad_states(power_cut):
        bad = 0
        for end in range(len(power_cut.calls) + 1):
            done = end == len(power_cut.calls)
            good = [target.new] if done else [target.new, before.get(path)]
            for state in power_cut.states(end):
                bad += state.pop(path, None) not in good
                # Nor is a part ever taken for a model, unless it is the whole.
                bad += sealed is not None and any(
                    part.endswith(sealed) and part != target.new
                    for part in state.values()
                )
        return bad

    return PowerCut(folder, before, target.logged_calls()), bad_states


@pytest.mark.parametrize("command", CALLS)
def test_a_power_cut_leaves_the_old_file_or_the_new(cut):
    power_cut, bad_states = cut
    assert bad_states(power_cut) == 0


@pytest.mark.parametrize("command", CALLS)
def test_every_sync_is_needed(cut, command):
    """So the test above can fail: it does, whichever sync is left out."""
    power_cut, bad_states = cut
    syncs = [i for i, call in enumerate(power_cut.calls) if call.kind == "sync"]
    assert len(syncs) == (3 if command == "convert" else 2)
    for number in syncs:
        assert bad_states(power_cut.without(number)) > 0
