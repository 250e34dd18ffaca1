# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The lease on a domain: its owner, by its metadata.

An owner is a process of this host, or a run that is between two of its steps (its claim belongs to
no process then). The lease of a dead owner may be taken over. A run between two steps counts as
dead once its claim has not changed for a while, as seen from here; no clocks are compared.
"""

from __future__ import annotations

import dataclasses
import enum
import time
import typing as t

from ..base import effects_lookup as lookup
from ..base.effects_connection import Connection
from ..base.metadata import Metadata, Owner
from . import effects_lease_holder as owner

if t.TYPE_CHECKING:
    from ..._libvirt import VirDomain

OBSERVE = 10.0  # seconds in which a claim between two steps of its run must not change
PATIENCE = 120.0  # seconds that a live run on this host may take to finish
_POLL = 0.25
Seen = t.TypeVar("Seen")
_AT_WORK = ("creating", "starting", "purging", "seeding", "changing", "renaming")


class Watch:
    """Observes the owner of one domain repeatedly."""

    def __init__(self, observe: float | None = None) -> None:
        self.observe = OBSERVE if observe is None else observe
        self._seen: Owner | None = None
        self._since = 0.0

    def is_dead(self, who: Owner | None) -> bool:
        """Whether ``who`` has no process at work, and will have none."""
        if who is None:
            return True
        now = time.monotonic()
        if who != self._seen:
            self._seen, self._since = who, now
        if owner.is_alive(who):
            return False
        return not _is_between(who) or now - self._since >= self.observe


def _is_between(who: Owner) -> bool:
    return who.pid == 0 and who.boot_id == owner.boot_id()


def take_over(
    connection: Connection, dom: VirDomain, phase: str | None, expected: Owner | None, run: str
) -> Metadata | None:
    """Make this process, working for ``run``, the owner of the domain in ``phase``.

    Returns its previous metadata; None if it is in another phase by now, or its owner is no longer
    ``expected`` (who is dead).
    """
    with owner.host_lock():
        stored = lookup.read_metadata(connection, dom)
        if stored is None or stored.phase != phase or stored.owner != expected:
            return None
        if owner.is_alive(stored.owner):
            return None
        own = dataclasses.replace(stored, owner=owner.myself(run))
        lookup.write_metadata(connection, dom, own, lookup.AFFECT_CONFIG)
        return stored


class Waited(enum.Enum):
    """How a wait for the owner of a domain ended."""

    OWNED = "this process is the owner"
    OVER = "there is nothing left to own"
    TOO_LONG = "the owner is still at work"


def take_over_when_dead(
    connection: Connection,
    dom: VirDomain,
    stored: t.Callable[[], Metadata],
    run: str,
    is_over: t.Callable[[], bool],
) -> Waited:
    """Like :func:`take_over`, once the owner is dead, within :data:`PATIENCE`.

    ``stored`` reads the metadata again, and raises if there is nothing to take over; ``is_over``:
    whether the owner's work is done.
    """
    limit = time.monotonic() + PATIENCE
    while True:
        now = stored()
        if take_over(connection, dom, now.phase, now.owner, run) is not None:
            return Waited.OWNED
        if is_over():
            return Waited.OVER
        if time.monotonic() > limit:
            return Waited.TOO_LONG
        time.sleep(_POLL)


def wait_while_alive(look: t.Callable[[], tuple[Seen, Owner | None]], pause: float = _POLL) -> Seen:
    """What ``look`` returns with an owner, once that one is dead or None; the last result within
    :data:`PATIENCE`. ``pause`` is in seconds."""
    limit = time.monotonic() + PATIENCE
    while True:
        seen, who = look()
        if not owner.is_alive(who) or time.monotonic() > limit:
            return seen
        time.sleep(pause)


def wait_for_others(
    connection: Connection,
    names: t.Iterable[str],
    *,
    observe: float | None = None,
    patience: float | None = None,
) -> dict[str, Owner]:
    """Wait until runs that are at work on the domains, moves apart, end, or are known to be
    dead: all of them within one limit. The plan refuses domains that are still busy, by name.

    Returns the owners that are known to be dead, by domain.
    """
    limit = time.monotonic() + (PATIENCE if patience is None else patience)
    watches = {name: Watch(observe) for name in names}
    dead: dict[str, Owner] = {}
    while True:
        # free domains are not read again
        watches = {
            name: watch
            for name, watch in watches.items()
            if not _is_free(connection, name, watch, dead)
        }
        if not watches or time.monotonic() >= limit:
            return dead
        time.sleep(_POLL)


def may_be_at_work(who: Owner | None) -> bool:
    """Whether ``who`` is a live process, or a run that may be between two of its steps."""
    return who is not None and (owner.is_alive(who) or _is_between(who))


def _is_free(connection: Connection, name: str, watch: Watch, dead: dict[str, Owner]) -> bool:
    dom = lookup.find_domain(connection, name)
    stored = lookup.read_metadata(connection, dom) if dom is not None else None
    if stored is None or stored.phase not in _AT_WORK:
        return True
    if not watch.is_dead(stored.owner):
        return False
    if stored.owner is not None:
        dead[name] = stored.owner
    return True
