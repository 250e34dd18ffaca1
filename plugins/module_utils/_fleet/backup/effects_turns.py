# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Taking a turn at a place, which only one of several controllers does."""

from __future__ import annotations

import time
import typing as t
from datetime import datetime

from . import effects_borg, turns
from .turns import Turn

if t.TYPE_CHECKING:
    from .effects_borg import Access
    from .places import BackupPlace

_MAKING = 20.0  # seconds that borg may take to make a repository
_POLL = 0.5


def take(
    place: BackupPlace, access: Access, by: str, now: datetime, hours: float, *, check: bool
) -> tuple[bool, Turn]:
    """Take the next turn; whether that is ours, and whose it is. Raises FleetVirtError.

    In check mode, says what would be.
    """
    address = f"{place}/{turns.REPOSITORY}"
    there = _read(address, access, make=not check)
    taken = turns.holder(there, now, hours)
    if taken is not None:
        return False, taken
    turn = turns.following(there, by, now)
    if check:
        return True, turn
    comment = effects_borg.placeholders_escaped(turn.comment)
    try:
        words = ["create", "--comment", comment, f"{address}::{turn.archive}", "-"]
        effects_borg.run(access, words)
    except effects_borg.ArchiveExists:  # since it was read
        return False, next(
            each for each in _read(address, access, make=False) if each.number == turn.number
        )
    old = [each.archive for each in there[: -turns.KEPT]]
    if old:
        effects_borg.run(access, ["delete", address, *old])
        effects_borg.run(access, ["compact", address])
    return True, turn


def _read(address: str, access: Access, *, make: bool) -> list[Turn]:
    words = ["list", "--json", "--format", "{comment}", address]
    try:
        return turns.read(effects_borg.run(access, words).out)
    except effects_borg.NoRepository:
        if not make:
            return []
    except effects_borg.Damaged as error:  # as is what borg has made in part
        return _made_by_another(access, words, error)
    try:
        effects_borg.make(access, address)
    except effects_borg.BorgError as error:
        return _made_by_another(access, words, error)
    return turns.read(effects_borg.run(access, words).out)


def _made_by_another(
    access: Access, words: t.Sequence[str], error: effects_borg.BorgError
) -> list[Turn]:
    """The turns in a repository that could not be made, or read, since another controller makes it
    now.

    Raises ``error`` if it cannot be read soon: then it had another reason.
    """
    limit = time.monotonic() + _MAKING
    while True:
        try:
            return turns.read(effects_borg.run(access, words).out)
        except effects_borg.WrongPassphrase:
            raise
        except effects_borg.BorgError:
            if time.monotonic() > limit:
                raise error from None
        time.sleep(_POLL)
