# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Waiting for other runs, and taking the lease of the dead, on libvirt's test driver."""

from __future__ import annotations

import calendar
import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_lookup as lookup
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.metadata import (
    NAMESPACE,
    Metadata,
    Owner,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import effects_lease as lease
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import (
    effects_lease_holder as owner,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import leases
from ansible_collections.fleet.virt.tests.unit._crash import living

_DOMAIN = """
<domain type='test'>
  <name>{name}</name><memory>131072</memory><os><type>hvm</type></os>
  <metadata><f:fleet xmlns:f='{namespace}'><f:phase>creating</f:phase>
  <f:owner boot_id='{o.boot_id}' pid='{o.pid}' start_time='{o.start_time}' run='{o.run}'/>
  </f:fleet></metadata>
</domain>
"""
_OWNERS = {
    "busy1": owner.myself("a"),
    "busy2": owner.myself("b"),
    "busy3": owner.myself("c"),
    "between1": owner.reserved("d"),
    "between2": owner.reserved("e"),
    "left": Owner(owner.boot_id(), 1, 1, "f"),
}


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    """A node of the test driver with VMs that are being made, and one whose run is dead."""
    texts = [_DOMAIN.format(name=name, namespace=NAMESPACE, o=one) for name, one in _OWNERS.items()]
    node = tmp_path / "node.xml"
    node.write_text(f"<node>{''.join(texts)}</node>")
    with connect(f"test://{node}", 10) as opened:
        yield opened


class Clock:
    """The time as leases see it: it passes while they sleep, however busy this machine is."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock that leases go by."""
    found = Clock()
    monkeypatch.setattr(lease, "time", found)
    return found


def _seconds(connection: Connection, clock: Clock, *names: str) -> float:
    began = clock.now
    lease.wait_for_others(connection, names)
    return clock.now - began


def test_all_that_are_busy_are_waited_for_together(connection: Connection, clock: Clock) -> None:
    waited = _seconds(connection, clock, "busy1", "busy2", "busy3", "left", "nobody")
    assert lease.PATIENCE <= waited < lease.PATIENCE + 1


def test_claims_between_two_steps_are_observed_together(
    connection: Connection, clock: Clock
) -> None:
    waited = _seconds(connection, clock, "between1", "between2")
    assert lease.OBSERVE <= waited < lease.OBSERVE + 1


def test_nobody_waits_for_the_dead(connection: Connection, clock: Clock) -> None:
    assert _seconds(connection, clock, "left", "nobody") == 0


def _take(connection: Connection, name: str, expected: Owner | None = None) -> str | None:
    """Who the owner was, if it could be taken over."""
    dom = connection.conn.lookupByName(name)
    was = lease.take_over(connection, dom, "creating", expected or _OWNERS[name], "mine")
    return was.owner.run if was and was.owner else None


def test_the_lease_of_the_living_is_never_taken(connection: Connection) -> None:
    assert _take(connection, "busy1") is None
    dom = connection.conn.lookupByName("busy1")
    stored = lookup.read_metadata(connection, dom)
    assert stored
    assert stored.owner == _OWNERS["busy1"]


def test_the_lease_of_the_dead_is_taken_once(connection: Connection) -> None:
    assert _take(connection, "left") == "f"
    dom = connection.conn.lookupByName("left")
    stored = lookup.read_metadata(connection, dom)
    assert stored
    assert stored.phase == "creating"
    assert stored.owner
    assert (stored.owner.run, owner.is_alive(stored.owner)) == ("mine", True)
    assert _take(connection, "left") is None, "somebody else was faster"


def test_a_lease_that_is_another_by_now_is_not_taken(connection: Connection) -> None:
    assert _take(connection, "left", owner.reserved("else")) is None
    dom = connection.conn.lookupByName("left")
    assert lease.take_over(connection, dom, "migrating", _OWNERS["left"], "mine") is None


def test_a_run_between_two_steps_is_dead_once_it_has_not_moved(clock: Clock) -> None:
    watch = lease.Watch(2)
    assert not watch.is_dead(owner.reserved("one"))
    clock.sleep(1)
    assert not watch.is_dead(owner.reserved("two")), "it moved"
    clock.sleep(1.5)
    assert not watch.is_dead(owner.reserved("two"))
    clock.sleep(1)
    assert watch.is_dead(owner.reserved("two"))
    assert lease.Watch().is_dead(Owner("another boot", 0, 0, "three"))
    assert not lease.Watch(0.0).is_dead(owner.myself("me"))


def _waited(connection: Connection, name: str, over: Iterator[bool]) -> lease.Waited:
    dom = connection.conn.lookupByName(name)

    def kept() -> Metadata:
        found = lookup.read_metadata(connection, dom)
        assert found
        return found

    return lease.take_over_when_dead(connection, dom, kept, "mine", lambda: next(over))


def test_one_lease_is_waited_for_until_its_owner_is_dead_or_done(
    connection: Connection, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _waited(connection, "busy1", iter([False, True])) is lease.Waited.OVER
    assert clock.now < 1
    assert _waited(connection, "busy1", itertools.repeat(False)) is lease.Waited.TOO_LONG
    assert lease.PATIENCE <= clock.now < lease.PATIENCE + 2
    alive = owner.is_alive

    def dies(who: Owner | None) -> bool:
        return next(dying, False) and alive(who)

    dying = iter([True, True])
    monkeypatch.setattr(owner, "is_alive", dies)
    assert _waited(connection, "busy1", itertools.repeat(False)) is lease.Waited.OWNED
    stored = lookup.read_metadata(connection, connection.conn.lookupByName("busy1"))
    assert stored
    assert stored.owner
    assert stored.owner.run == "mine"


def test_what_the_living_do_is_looked_at_until_they_are_done(clock: Clock) -> None:
    looks = iter([("half", owner.myself("a")), ("done", None), ("too late", None)])
    assert lease.wait_while_alive(lambda: next(looks)) == "done"
    assert lease.wait_while_alive(lambda: ("left", _OWNERS["left"])) == "left"
    began = clock.now
    assert lease.wait_while_alive(lambda: ("half", owner.myself("a"))) == "half"
    assert lease.PATIENCE <= clock.now - began < lease.PATIENCE + 1


def test_holder_of_a_lease_is_named_with_the_time_it_began() -> None:
    before = time.time()
    with living() as number:
        holder = owner.holder(owner.of(number))
        assert holder is not None
        since = calendar.timegm(time.strptime(holder.since, "%Y-%m-%d %H:%M:%S UTC"))
        assert holder.pid == number
        assert abs(since - before) < 10
        text = leases.held("web1", "changing", holder)
        assert f"is being changed by process {number} ({holder.name}, since {holder.since})" in text
        assert f"kill -9 {number}" in text
    assert owner.holder(owner.of(number)) is None
    assert owner.holder(_OWNERS["left"]) is None
    assert owner.holder(_OWNERS["between1"]) is None
