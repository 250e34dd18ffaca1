# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Distribution of one image to several hypervisors of a play: each that has it serves others.

Ansible has a process for each hypervisor. They coordinate through a small file per run in the
user's cache folder, which a later run removes once its own run has ended.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import time
import typing as t
from pathlib import Path

from ansible_collections.fleet.virt.plugins.module_utils._errors import PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_locks as locks
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.json_values import (
    as_list,
    as_mapping,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import Owner
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import (
    effects_lease_holder as owner,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.base import _peers
from ansible_collections.fleet.virt.plugins.plugin_utils.base._plain import Values

CONTROLLER = ""
_SERVES = 2  # transfers per source at a time: more would slow each other down
_POLL = 0.2
_LOCK_SECONDS = 60.0  # it is held only briefly
_WAIT_SECONDS = 6 * 3600.0  # as long as one hypervisor may take to get it
_LARGEST = 16 << 20


class _State(t.TypedDict):
    """Addresses that have the image, and the source of each process that is fetching it."""

    sources: list[str]
    taking: dict[str, str]


def _read(stored: object) -> _State:
    state = as_mapping(stored)
    taking = as_mapping(state.get("taking"))
    return {
        "sources": [str(source) for source in as_list(state.get("sources"))],
        "taking": {str(who): str(what) for who, what in taking.items()},
    }


def several(task_vars: Values) -> bool:
    """Whether the play has hypervisors that could help each other."""
    return len(as_list(task_vars.get("ansible_play_hosts_all"))) > 1


class Spread:
    """One image's distribution in this run, for one hypervisor (``own``: its addresses)."""

    def __init__(self, folder: Path, digest: str, own: t.Sequence[str]) -> None:
        self._own = list(own)
        self._me = _text(owner.myself(""))
        run = owner.of(os.getppid())  # Ansible itself, the parent of all its workers
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = folder / f"{digest}.{_text(run)}"
        for path in folder.iterdir():
            if not _lives(path.name.partition(".")[2]):
                path.unlink(missing_ok=True)

    def have(self) -> None:
        """Record that this hypervisor has the image and can serve others."""
        with self._state() as state:
            self._leave(state)
            state["sources"] = [*state["sources"], self._own[0]]

    def give_up(self) -> None:
        """Record that this hypervisor no longer fetches the image."""
        with self._state() as state:
            self._leave(state)

    def next(self, known: t.Sequence[str], refused: t.Collection[str]) -> str:
        """The next source, as soon as one is free: an address, or CONTROLLER.

        ``known`` may have it besides those of the play, ``refused`` could not provide it. Raises
        PlanRefused if all other transfers have been running for hours.
        """
        limit = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < limit:
            with self._state() as state:
                self._leave(state)
                state["sources"] = [*state["sources"], *known]
                source = self._choose(state, refused)
                if source is not None:
                    state["taking"][self._me] = source
                    return source
            time.sleep(_POLL)
        raise PlanRefused(
            f"other hypervisors have been fetching this image for {_WAIT_SECONDS:g} seconds; find"
            " out what delays them, and run again"
        )

    def _choose(self, state: _State, refused: t.Collection[str]) -> str | None:
        load = collections.Counter(state["taking"].values())
        sources = [
            source
            for source in state["sources"]
            if source not in refused and source not in self._own
        ]
        if not sources:
            # the controller's link is slow: it sends once, unless no other source is left
            return CONTROLLER if refused or not load[CONTROLLER] else None
        best = min(sources, key=lambda source: load[source])
        return best if load[best] < _SERVES else None

    def _leave(self, state: _State) -> None:
        taking = state["taking"].items()
        state["taking"] = {who: what for who, what in taking if who != self._me and _lives(who)}

    @contextlib.contextmanager
    def _state(self) -> t.Iterator[_State]:
        refusal = (
            f"another process of this run has held {self._path} for {_LOCK_SECONDS:g} seconds;"
            f" find it with fuser {self._path}, and run again"
        )
        with locks.held(self._path, _LOCK_SECONDS, refusal) as descriptor:
            try:
                stored: object = json.loads(os.pread(descriptor, _LARGEST, 0))
            except ValueError:  # new, or its writer was killed: sources are determined again
                stored = None
            state = _read(stored)
            yield state
            state["sources"] = list(dict.fromkeys(state["sources"]))
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(state).encode("ascii"), 0)


def of_play(folder: Path, task_vars: Values, digest: str) -> Spread | None:
    """The distribution of the image in this run; None if there is only one hypervisor."""
    if not several(task_vars):
        return None
    host = str(task_vars["inventory_hostname"])
    own = [_peers.address(host, task_vars), *_peers.addresses(host, task_vars), host]
    return Spread(folder, digest, list(dict.fromkeys(own)))


def _text(process: Owner) -> str:
    return f"{process.boot_id}.{process.pid}.{process.start_time}"


def _lives(text: str) -> bool:
    boot, _dot, rest = text.partition(".")
    pid, _dot, start = rest.partition(".")
    return (
        pid.isdigit() and start.isdigit() and owner.is_alive(Owner(boot, int(pid), int(start), ""))
    )
