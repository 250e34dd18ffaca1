# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All that is read from a hypervisor counts, whatever it is; nothing is read after its time.

The hypervisors are documents of libvirt's test driver.
"""

from __future__ import annotations

import contextlib
import threading
import typing as t
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    effects_deadline as deadline,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import read_budget as budget
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import read_fleet as fleet
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.read_domains import (
    DomainQuery,
    read_domains,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.read_host import read_host
from ansible_collections.fleet.virt.plugins.plugin_utils.reading import _reading
from ansible_collections.fleet.virt.plugins.plugin_utils.ssh import _ssh

_MUCH = 50_000  # characters of what is too large; all else together is less than half of that
_BIG = "x" * _MUCH
_MANY = range(_MUCH // 50)
_DOMAIN = """<domain type='test'><name>{name}</name>{more}<memory>1024</memory><vcpu>1</vcpu>
<os><type>hvm</type></os>
<devices><interface type='network'><source network='n'/></interface></devices></domain>"""
_POOL = "<pool type='dir'><name>p{0}</name><target><path>/{0}</path></target>{1}</pool>"
_VOLUME = "<volume type='file'><name>{}</name><capacity>1</capacity></volume>"
_NETWORK = "<network><name>n{}</name><ip address='192.0.2.1' netmask='255.255.255.0'/></network>"
_INTERFACE = "<interface type='ethernet' name='{}'><start mode='none'/></interface>"

Reader = t.Callable[[Connection], object]


def _everything(connection: Connection) -> object:
    wanted = DomainQuery(addresses=True, stats=True, storage=True)
    return read_domains(connection, wanted), read_host(connection, "base")


def _inventory(connection: Connection) -> object:
    settings = _reading.ReadingSettings(unmanaged=True, from_host=False)
    reached = _ssh.Reached(connection.uri, local=True)
    return _reading.read_from(connection, reached, settings)


def _domain(name: str = "vm", more: str = "") -> str:
    return _DOMAIN.format(name=name, more=more)


_SMALL = _domain() + _NETWORK.format("")
LARGE = {
    "domain": _domain("big", f"<description>{_BIG}</description>"),
    "domains": "".join(_domain(f"vm{number}") for number in _MANY),
    "domain name": _domain("vm" + _BIG),
    "networks": "".join(_NETWORK.format(number) for number in _MANY),
    "network name": _NETWORK.format(_BIG),
    "pool": _POOL.format(_BIG, ""),
    "pools": "".join(_POOL.format(number, "") for number in _MANY),
    "volumes": _POOL.format(1, "".join(map(_VOLUME.format, _MANY))),
    "volume name": _POOL.format(1, _VOLUME.format(_BIG)),
    "interfaces": "".join(_INTERFACE.format(f"eth{number}") for number in _MANY),
    "interface": _INTERFACE.format(_BIG),
}
# The inventory reads neither storage nor interfaces
OF_INVENTORY = ("domain", "domains", "domain name", "networks", "network name")


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[str], Connection]]:
    """Open a hypervisor with one small VM and what the given document adds."""
    with contextlib.ExitStack() as stack:

        def open_document(more: str = "") -> Connection:
            path = tmp_path / "node.xml"
            path.write_text(f"<node>{_SMALL}{more}</node>", encoding="utf-8")
            return stack.enter_context(connect(f"test://{path}", 30))

        yield open_document


def _read(connection: Connection, reader: Reader, most: int = _MUCH) -> None:
    limits = connection.limit(60, most)
    with contextlib.suppress(FleetVirtError):  # some of which become an entry's error
        reader(connection)
    limits.require()


@pytest.mark.parametrize(
    ("reader", "kind"),
    [(_everything, kind) for kind in LARGE] + [(_inventory, kind) for kind in OF_INVENTORY],
)
def test_whatever_is_too_large_exceeds_the_limit(
    opened: Callable[[str], Connection], reader: Reader, kind: str
) -> None:
    _read(opened(""), reader, _MUCH // 2)
    with pytest.raises(budget.ResponseTooLarge, match=f"responses exceed {_MUCH} characters"):
        _read(opened(LARGE[kind]), reader)


@pytest.mark.parametrize("texts", [[_BIG], [""] * len(_MANY)], ids=["one", "many"])
def test_snapshots_exceed_the_limit(opened: Callable[[str], Connection], texts: list[str]) -> None:
    connection = opened("")
    domain = connection.conn.lookupByName("vm")
    for number, text in enumerate(texts):
        xml = f"<domainsnapshot><name>{number}</name><description>{text}</description>"
        domain.snapshotCreateXML(f"{xml}</domainsnapshot>", 0)
    with pytest.raises(budget.ResponseTooLarge):
        _read(connection, _everything)


def test_capabilities_exceed_the_limit(opened: Callable[[str], Connection]) -> None:
    with pytest.raises(budget.ResponseTooLarge):
        _read(opened(""), lambda connection: connection.conn.getCapabilities(), 100)


@pytest.mark.parametrize(
    "answer",
    [
        _BIG,
        _BIG.encode(),
        {_BIG: 1},
        {"block.0.path": _BIG},
        [0] * _MUCH,
        [("vm", {f"block.{number}.path": "/" for number in _MANY})],
        {"vnet0": {"hwaddr": None, "addrs": [{"addr": "192.0.2.1"}] * len(_MANY)}},
    ],
)
def test_answer_counts_in_whatever_it_is(answer: object) -> None:
    with pytest.raises(budget.ResponseTooLarge):
        budget.Budget("test:///default", _MUCH - 1, 60).take(answer)


def test_every_object_is_metered_and_taken_back(opened: Callable[[str], Connection]) -> None:
    """Whatever libvirt returns is counted in turn, and is what libvirt takes as an argument."""
    connection = opened("")
    connection.limit(60)
    conn = connection.conn
    domains = conn.listAllDomains(0)
    ((domain, values),) = conn.domainListGetStats(domains, 1, 0)
    snapshot = domain.snapshotCreateXML("<domainsnapshot/>", 0)
    assert domain.revertToSnapshot(snapshot, 0) == 0
    assert values["state.state"] == 1
    objects = [conn, *domains, domain, snapshot, *domain.listAllSnapshots(0)]
    assert {type(one) for one in objects} == {budget._Metered}
    second = connection.open_again()
    assert type(second) is budget._Metered
    second.close()


@pytest.mark.parametrize(
    "step",
    [
        lambda connection: connection.call("read", connection.conn.getInfo),
        lambda connection: connection.conn.getInfo(),
        lambda connection: connection.each(
            lambda _number: connection.conn.getInfo(), range(1000), str
        ),
        _everything,
        _inventory,
    ],
    ids=["call", "within a call", "each", "everything", "inventory"],
)
def test_reading_that_is_no_longer_waited_for_ends(tmp_path: Path, step: Reader) -> None:
    """A hypervisor with ever more to say costs nothing after its time."""
    (tmp_path / "node.xml").write_text(f"<node>{_SMALL}</node>", encoding="utf-8")
    ended = threading.Event()
    running = []

    def read(connection: Connection) -> None:
        running.append(connection)
        try:
            while True:
                step(connection)
                connection.conn.getHostname()
        finally:
            ended.set()

    target = fleet.Target("hv1", f"test://{tmp_path}/node.xml")
    (outcome,) = fleet.read_each([target], read, call_timeout=10, host_timeout=0.5)
    assert isinstance(outcome, deadline.Failed)
    assert "read hv1: no answer within 0.5 seconds" in str(outcome.error)
    assert ended.wait(5)
    assert not running[0].hanging, "no call hung, so the connection can be closed"
