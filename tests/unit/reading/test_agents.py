# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Agents that never answer cost their time and a connection, and nothing of the others.

The connections are real ones of libvirt's test driver, which has no agents: what they say is here.
"""

from __future__ import annotations

import threading
import time
import typing as t

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_deadline as deadline,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.plugin_utils.reading import _agents

URI = "test:///default"
TOLD = _agents.GuestInfo({"52:54:00:00:00:01": ["192.0.2.1"]}, "web1")


class Agents:
    """What every agent does, and who was asked over which connection at the same time."""

    def __init__(self) -> None:
        self.busy: dict[int, str] = {}
        self.used: set[int] = set()

    def told(self, conn: t.Any, uuid: str) -> _agents.GuestInfo:
        key = id(conn)
        assert key not in self.busy, "two calls over one connection"
        self.busy[key] = uuid
        self.used.add(key)
        if uuid.startswith("dead"):
            threading.Event().wait()
        del self.busy[key]
        return TOLD


@pytest.fixture
def agents(monkeypatch: pytest.MonkeyPatch) -> Agents:
    made = Agents()
    monkeypatch.setattr(_agents, "_query", made.told)
    monkeypatch.setattr(_agents, "_SECONDS", 1.0)
    return made


def ask(connection: Connection, *uuids: str) -> list[bool]:
    outcomes = _agents.ask(connection, uuids)
    assert all(one.value == TOLD for one in outcomes if isinstance(one, deadline.Ok))
    return [isinstance(one, deadline.Ok) for one in outcomes]


def test_one_connection_is_enough_for_few(agents: Agents) -> None:
    with connect(URI, 5) as connection:
        assert ask(connection, *map(str, range(9))) == [True] * 9
        assert agents.used == {id(connection.conn)}
        assert connection.hanging == 0
        assert connection.conn.getHostname()


def test_more_share_more(agents: Agents) -> None:
    with connect(URI, 5) as connection:
        assert ask(connection, *map(str, range(40))) == [True] * 40
        assert 1 <= len(agents.used) <= 4
        assert connection.hanging == 0


def test_dead_ones(agents: Agents) -> None:
    """One after the other would be five seconds and more; nobody is asked over what is stuck."""
    with connect(URI, 5) as connection:
        started = time.monotonic()
        answered = ask(connection, "dead1", "a", "dead2", "dead3", "b", "dead4", "dead5", "c")
        assert time.monotonic() - started < 4.7
        assert answered == [False, True, False, False, True, False, False, True]
        assert connection.hanging == 1
        assert len(agents.busy) == 5


def test_too_many_dead_ones_are_given_up(agents: Agents) -> None:
    with connect(URI, 5) as connection:
        uuids = [f"dead{number}" for number in range(30)]
        outcomes = _agents.ask(connection, uuids)
        reasons = [str(one.error) for one in outcomes if isinstance(one, deadline.Failed)]
        assert len(reasons) == 30
        assert "no answer within 1 seconds" in reasons[0]
        assert "earlier calls are hanging" in reasons[-1]
        assert len(agents.busy) < 15
