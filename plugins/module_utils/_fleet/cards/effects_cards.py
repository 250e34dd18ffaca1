# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Writing, handing over and removing cards in the folder of a pool; call with a limit, as the
mount may hang.

A card is there as a whole, or not, whenever a process or a machine dies: it is written beside its
name, 0600 from its first moment, flushed, renamed, and the folder flushed.

Handing a VM over is one rename, of which the storage has one winner. A link to the new name and
removing the old one would not do: with two takers both links are made, and a taker whose removal
is answered with ENOENT, as NFS also answers a request that it repeats, cannot tell whether it was
the one. What a rename would replace is looked for first: only processes of the hypervisor that
takes over make that name, and they hold its lock.
"""

from __future__ import annotations

import contextlib
import hashlib
import os

from ..._errors import PlanRefused
from ..base import effects_files as files
from ..base import effects_locks as locks
from ..base import read_caller as caller
from ..base import read_file_identity as file_identity
from ..base.names import CARD
from .card import Card, CardName, text_of

_LOCK_SECONDS = 30.0


def lock() -> contextlib.AbstractContextManager[int]:
    """Hold this hypervisor's lock on cards: from reading a VM until its card is written."""
    return locks.shared("cards", _LOCK_SECONDS, "been writing cards ({path})")


def write(folder: str, card: Card) -> None:
    """Write the card, in place of one of the same name."""
    content = text_of(card).encode()
    path = os.path.join(folder, card.at.file)
    files.write(path, content, locked=True, unfinished=_unfinished(card.at))


def _unfinished(at: CardName) -> str:
    """The name of a card while this hypervisor writes it. Several may write one at the same time,
    of a VM that moves or that a cell runs, and each has a lock of its own alone."""
    writer = f"{caller.host()}\0{os.uname().nodename}\0{at.file}"
    return f".{hashlib.sha256(writer.encode()).hexdigest()[:16]}{CARD}.new"


def take(folder: str, old: CardName, new: CardName, identity: str) -> None:
    """Rename the card ``old``, whose file was read and has that ``identity``, to ``new``.

    Of several that take it one succeeds. Raises PlanRefused for the others, if the file was
    replaced meanwhile, or if another card has the new name. Done again it does nothing.
    """
    before, after = os.path.join(folder, old.file), os.path.join(folder, new.file)
    if is_same(folder, new, identity) and not os.path.lexists(before):
        return  # a run that was killed, or NFS, has done it
    if os.path.lexists(after):
        raise PlanRefused(
            f"{after} exists, so {' and '.join(new.hosts) or 'a cell'} already has a VM"
            f" {new.name!r}; see which of the two is current before anything is started"
        )
    if os.path.lexists(before) and not is_same(folder, old, identity):
        raise PlanRefused(f"{before} was written by another run meanwhile; run this again")
    try:
        files.move(before, after)
    except FileNotFoundError:
        if not is_same(folder, new, identity):
            raise PlanRefused(
                f"{before} is gone: another run has taken or removed it; run this again"
            ) from None


def remove(folder: str, at: CardName) -> bool:
    """Remove the card of exactly that name; whether there was one."""
    path = os.path.join(folder, at.file)
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    files.flush(folder)
    return True


def is_same(folder: str, at: CardName, identity: str) -> bool:
    """Whether the card of that name is the file with this identity."""
    try:
        path = os.path.join(folder, at.file)
        return file_identity.is_same(identity, file_identity.of_file(path))
    except OSError:  # absent, or a link
        return False
