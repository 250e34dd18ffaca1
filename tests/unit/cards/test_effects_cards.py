# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cards in a folder: whole or absent after any kill, and handed over to one of those who want."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import typing as t
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    read_caller as caller,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.names import is_card_file
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards import (
    effects_cards,
    read_cards,
)
from ansible_collections.fleet.virt.tests.unit.cards.test_card import AT, CARD

TAKEN = AT.on("hv2")
_SYSTEM_CALLS = ("open", "fsync", "replace", "rename", "unlink", "fchmod")


class Killed(BaseException):
    """The process is gone: nothing of it runs any more."""


def kills(work: t.Callable[[], object]) -> Iterator[int]:
    """Do ``work`` again and again, killed before its first system call, its second, and so on, and
    at last not at all; yields after each."""
    for last in itertools.count():
        done = 0

        def counted(real: t.Callable[..., object]) -> t.Callable[..., object]:
            def call(*args: object, **options: object) -> object:
                nonlocal done
                if done == last:  # noqa: B023
                    raise Killed
                done += 1
                return real(*args, **options)

            return call

        with contextlib.ExitStack() as patches:
            for name in _SYSTEM_CALLS:
                patches.enter_context(mock.patch.object(os, name, counted(getattr(os, name))))
            try:
                work()
                killed = False
            except Killed:
                killed = True
        yield last
        if not killed:
            return


def _only(folder: Path) -> read_cards.CardFile:
    (at,) = read_cards.names(str(folder))
    return read_cards.load(str(folder), at)


def test_written_card_is_private_and_complete(tmp_path: Path) -> None:
    effects_cards.write(str(tmp_path), CARD)
    (file,) = tmp_path.iterdir()
    assert file.stat().st_mode & 0o777 == 0o600
    assert _only(tmp_path).card is not None


def test_killed_write_leaves_the_former_or_the_new_card(tmp_path: Path) -> None:
    folder = str(tmp_path)
    effects_cards.write(folder, CARD)
    later = dataclasses.replace(CARD, counter=5, running=False)
    seen = set()
    for count in kills(lambda: effects_cards.write(folder, later)):
        read = _only(tmp_path)
        assert read.card is not None, (count, read.problem)
        seen.add((read.card.counter, read.card.running))
        assert all(file.stat().st_mode & 0o777 == 0o600 for file in tmp_path.iterdir())
        effects_cards.write(folder, CARD)  # the next run
        assert [file.name for file in tmp_path.iterdir()] == [AT.file]
    assert seen == {(4, True), (5, False)}


def test_killed_handing_over_is_finished_by_the_next_run(tmp_path: Path) -> None:
    folder = str(tmp_path)

    def take() -> None:
        read = _only(tmp_path)
        effects_cards.take(folder, AT, TAKEN, read.identity)

    effects_cards.write(folder, CARD)
    for count in kills(take):
        assert _only(tmp_path).at in (AT, TAKEN), count
        take()
        assert _only(tmp_path).at == TAKEN
        effects_cards.remove(folder, TAKEN)
        effects_cards.write(folder, CARD)


def test_killed_removal_is_finished_by_the_next_run(tmp_path: Path) -> None:
    folder = str(tmp_path)

    def begin() -> None:
        effects_cards.write(folder, CARD)

    begin()
    for _count in kills(lambda: effects_cards.remove(folder, AT)):
        assert read_cards.names(folder) in ([AT], [])
        effects_cards.remove(folder, AT)
        assert not list(tmp_path.iterdir())
        begin()


def test_removal_takes_exactly_its_name(tmp_path: Path) -> None:
    folder = str(tmp_path)
    effects_cards.write(folder, CARD)
    effects_cards.write(folder, dataclasses.replace(CARD, at=TAKEN))
    assert effects_cards.remove(folder, AT)
    assert not effects_cards.remove(folder, AT)
    assert read_cards.names(folder) == [TAKEN]


def test_two_takers_of_a_card_have_a_single_winner(tmp_path: Path) -> None:
    """In every order of their steps: each reads, then takes."""
    folder = str(tmp_path)
    for order in set(itertools.permutations("aabb")):
        effects_cards.write(folder, CARD)
        read: dict[str, read_cards.CardFile] = {}
        won = []
        for who in order:
            if who not in read:
                found = [at for at in read_cards.names(folder) if at.hosts == ("hv1",)]
                if found:
                    read[who] = read_cards.load(folder, found[0])
                else:
                    read[who] = read_cards.CardFile(folder, AT)
                continue
            try:
                effects_cards.take(folder, AT, AT.on(f"hv-{who}"), read[who].identity)
                won.append(who)
            except PlanRefused:
                continue
        assert len(won) == 1, (order, won)
        assert read_cards.names(folder) == [AT.on(f"hv-{won[0]}")]
        effects_cards.remove(folder, AT.on(f"hv-{won[0]}"))


def test_repeated_request_of_nfs_is_recognised_by_the_file(tmp_path: Path) -> None:
    """The server has renamed, its answer was lost, and to the repeated request it says ENOENT."""
    folder = str(tmp_path)
    effects_cards.write(folder, CARD)
    identity = _only(tmp_path).identity
    real = os.rename

    def repeated(old: str, new: str) -> None:
        real(old, new)
        real(old, new)

    with mock.patch.object(os, "rename", repeated):
        effects_cards.take(folder, AT, TAKEN, identity)
    assert read_cards.names(folder) == [TAKEN]


def test_card_that_another_has_is_not_replaced(tmp_path: Path) -> None:
    folder = str(tmp_path)
    effects_cards.write(folder, CARD)
    identity = _only(tmp_path).identity
    effects_cards.write(folder, dataclasses.replace(CARD, at=TAKEN, counter=9))
    with pytest.raises(PlanRefused, match="exists, so hv2 already has a VM 'web1'"):
        effects_cards.take(folder, AT, TAKEN, identity)
    assert read_cards.names(folder) == [AT, TAKEN]


def test_card_that_was_written_since_it_was_read_is_not_taken(tmp_path: Path) -> None:
    folder = str(tmp_path)
    effects_cards.write(folder, CARD)
    identity = _only(tmp_path).identity
    kept = tmp_path / "kept"
    os.link(tmp_path / AT.file, kept)  # so that its inode is not used again
    effects_cards.write(folder, dataclasses.replace(CARD, counter=9))
    with pytest.raises(PlanRefused, match="was written by another run meanwhile"):
        effects_cards.take(folder, AT, TAKEN, identity)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder", "text", "large"])
def test_what_is_no_card_is_named_and_not_followed(tmp_path: Path, kind: str) -> None:
    path = tmp_path / AT.file
    if kind == "link":
        path.symlink_to("/etc/shadow")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_bytes(b"\xff" if kind == "text" else b" " * (9 * 1024 * 1024))
    read = _only(tmp_path)
    assert read.card is None
    assert AT.file in read.problem
    with pytest.raises(PlanRefused, match="no card that can be used"):
        read_cards.require(str(tmp_path), AT)


def test_card_is_written_by_two_hypervisors_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A VM on its way: each has the lock of its own machine alone."""
    both = dataclasses.replace(CARD, at=AT.on("hv1", "hv2"))
    move = os.replace

    def meanwhile(old: str, new: str) -> None:
        monkeypatch.setattr(os, "replace", move)
        monkeypatch.setattr(caller._state, "host", "hv2")
        assert is_card_file(os.path.basename(old)), "and nobody takes it for a disk"
        effects_cards.write(str(tmp_path), dataclasses.replace(both, counter=9))
        move(old, new)

    monkeypatch.setattr(os, "replace", meanwhile)
    monkeypatch.setattr(caller._state, "host", "hv1")
    effects_cards.write(str(tmp_path), both)
    assert [file.name for file in tmp_path.iterdir()] == [both.at.file]
    assert read_cards.require(str(tmp_path), both.at).counter == CARD.counter
