# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Reading domains of libvirt's test driver, also while others define and undefine them."""

from __future__ import annotations

import threading
import time
import typing as t
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils import _libvirt
from ansible_collections.fleet.virt.plugins.module_utils._errors import LibvirtFailure, SpecError
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.read_domains import (
    DomainQuery,
    read_domains,
    still_there,
)

# Numbers of virDomainState, which the test driver takes in its own namespace
STATES = {"running": 1, "paused": 3, "shutoff": 5, "crashed": 6}
DOMAIN = """
<domain type='test'>
  <name>{name}</name>{uuid}
  <memory unit='MiB'>512</memory><currentMemory unit='MiB'>256</currentMemory>
  <vcpu current='1'>4</vcpu><os><type>hvm</type></os>
  <devices>{devices}</devices>
  <test:runstate xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>{run}</test:runstate>
  {more}
</domain>
"""
POOL = """
<pool type='dir'><name>{name}</name><uuid>{uuid}</uuid>
  <target><path>/{name}</path></target>{volumes}
</pool>
"""
VOLUME = """
<volume type='file'><name>{name}</name><capacity unit='MiB'>{size}</capacity>
  <target><path>/{pool}/{name}</path></target>
</volume>
"""
UUID = "12345678-0000-4000-8000-00000000000"


def domain(name: str, run: int = 5, devices: str = "", more: str = "") -> str:
    return DOMAIN.format(name=name, run=run, devices=devices, more=more, uuid="")


def disk(kind: str, source: str, target: str = "vda") -> str:
    return (
        f"<disk type='{kind}' device='disk'><driver name='qemu' type='qcow2'/>"
        f"<source {source}/><target dev='{target}' bus='virtio'/></disk>"
    )


Opened = Callable[..., Connection]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Opened]:
    """A node of the test driver made of these elements, opened."""
    opened: list[t.Any] = []

    def make(*elements: str, timeout: float = 5) -> Connection:
        path = tmp_path / "node.xml"
        path.write_text(f"<node>{''.join(elements)}</node>")
        context = connect(f"test://{path}", timeout)
        opened.append(context)
        return context.__enter__()

    yield make
    for context in opened:
        context.__exit__(None, None, None)


def by_name(entries: list[dict[str, t.Any]]) -> dict[str, dict[str, t.Any]]:
    return {entry["name"]: entry for entry in entries}


def test_no_domain_at_all(node: Opened) -> None:
    assert read_domains(node(), DomainQuery()) == []


def test_states_sorted_by_name_and_of_one_shape(node: Opened) -> None:
    connection = node(*(domain(name, run) for name, run in STATES.items()))
    entries = read_domains(connection, DomainQuery(stats=True, addresses=True))
    assert [entry["name"] for entry in entries] == sorted(STATES)
    assert all(entry["state"] == entry["name"] for entry in entries)
    assert len({tuple(sorted(entry)) for entry in entries}) == 1
    assert [entry["error"] for entry in entries] == [None] * len(entries)
    assert {entry["persistent"] for entry in entries} == {True}


def test_memory_and_vcpus(node: Opened) -> None:
    (entry,) = read_domains(node(domain("one")), DomainQuery())
    assert (entry["memory_mib"], entry["memory_max_mib"]) == (256, 512)
    assert (entry["vcpus"], entry["vcpus_max"]) == (1, 4)


def test_snapshots_are_in_order(node: Opened) -> None:
    taken = "".join(
        "<test:domainsnapshot xmlns:test='http://libvirt.org/schemas/domain/test/1.0'>"
        f"<name>{name}</name><creationTime>{created}</creationTime><state>shutoff</state>"
        f"<active>{int(name == 'b')}</active></test:domainsnapshot>"
        for name, created in (("b", 200), ("a", 100))
    )
    (entry,) = read_domains(node(domain("one", more=taken)), DomainQuery())
    found = [(one["name"], one["created"], one["current"]) for one in entry["snapshots"]]
    assert found == [("a", 100, False), ("b", 200, True)]


@pytest.mark.parametrize(
    ("disk_xml", "expected", "error"),
    [
        (disk("file", "file='/images/x'"), ("images", "x", 64), None),
        (disk("volume", "pool='images' volume='x'"), ("images", "x", 64), None),
        (
            disk("volume", "pool='images' volume='y'"),
            ("images", "y", None),
            "disk vda: pool images lists no volume y",
        ),
        (
            disk("volume", "pool='none' volume='x'"),
            ("none", "x", None),
            "disk vda: pool none is not active",
        ),
        (disk("file", "file='/elsewhere/x'"), (None, None, None), None),
        (disk("network", "protocol='rbd' name='pool/x'"), (None, None, None), None),
    ],
)
def test_disks_and_their_volumes(
    node: Opened, disk_xml: str, expected: tuple[t.Any, ...], error: str | None
) -> None:
    pool = POOL.format(
        name="images", uuid=f"{UUID}1", volumes=VOLUME.format(name="x", size=64, pool="images")
    )
    (entry,) = read_domains(node(pool, domain("one", devices=disk_xml)), DomainQuery())
    (found,) = entry["disks"]
    assert (found["pool"], found["volume"], found["size_mib"]) == expected
    assert entry["error"] == error


def test_without_storage_no_disk_is_looked_at(node: Opened) -> None:
    broken = domain("one", devices=disk("volume", "pool='none' volume='x'"))
    (entry,) = read_domains(node(broken), DomainQuery(storage=False))
    assert entry["error"] is None
    assert entry["disks"][0]["size_mib"] is None


@pytest.mark.parametrize(
    ("names", "missing_is_fine", "expected"),
    [
        (("a",), False, ["a"]),
        (("c", "a"), False, ["a", "c"]),
        (("a", "a"), False, ["a"]),
        ((), False, []),
        (("a", "x"), True, ["a"]),
        (("x",), True, []),
    ],
)
def test_names(
    node: Opened, names: tuple[str, ...], missing_is_fine: bool, expected: list[str]
) -> None:
    connection = node(*(domain(name) for name in "abc"))
    wanted = DomainQuery(names=names, ignore_missing=missing_is_fine)
    assert [entry["name"] for entry in read_domains(connection, wanted)] == expected


def test_each_unknown_name_is_told_with_what_there_is(node: Opened) -> None:
    connection = node(*(domain(f"vm{number:02}") for number in range(25)))
    with pytest.raises(SpecError) as caught:
        read_domains(connection, DomainQuery(names=("x", "vm01", "y")))
    assert [problem.path for problem in caught.value.problems] == ["names", "names"]
    assert "no domain 'x' on this hypervisor; there are: vm00, vm01" in str(caught.value)
    assert "and 5 more" in str(caught.value)


def test_domains_that_vanish_meanwhile(node: Opened) -> None:
    """Somebody defines and undefines domains all the time; every answer is whole."""
    connection = node(domain("stays"))
    conn = connection.conn
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            made = [conn.defineXML(domain(f"churn{number}")) for number in range(20)]
            for one in made:
                one.undefine()

    worker = threading.Thread(target=churn)
    worker.start()
    vanished = 0
    try:
        end = time.monotonic() + 20
        while vanished < 3 and time.monotonic() < end:
            entries = read_domains(connection, DomainQuery(stats=True))
            assert by_name(entries)["stays"]["state"] == "shutoff"
            assert by_name(entries)["stays"]["error"] is None
            gone = [entry for entry in entries if entry["error"]]
            assert {entry["error"] for entry in gone} <= {"vanished while it was read"}
            assert all(tuple(entry) for entry in gone)
            left = [entry["name"] for entry in entries if entry not in gone]
            assert [entry["name"] for entry in still_there(entries)] == left
            assert len({tuple(sorted(entry)) for entry in entries}) == 1
            vanished += len(gone)
    finally:
        stop.set()
        worker.join()
    assert vanished, "no domain vanished while it was read: this test has shown nothing"


def test_a_connection_that_is_gone(node: Opened) -> None:
    connection = node(domain("one"))
    connection.conn.close()
    with pytest.raises(LibvirtFailure, match="list domains: "):
        read_domains(connection, DomainQuery())


def test_a_domain_that_hangs_is_an_entry(node: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """The binding's own method waits, as it does for a lock that a stuck thread holds."""
    connection = node(*(domain(name) for name in "abc"), timeout=0.3)
    describe = _libvirt.libvirt.virDomain.XMLDesc

    def slow(self: t.Any, flags: int = 0) -> str:
        if self.name() == "b":
            threading.Event().wait()
        return str(describe(self, flags))

    monkeypatch.setattr(_libvirt.libvirt.virDomain, "XMLDesc", slow)
    entries = by_name(read_domains(connection, DomainQuery(stats=True)))
    assert entries["b"]["error"] == "read domain b: no answer within 0.3 seconds"
    assert entries["b"]["state"] is None
    assert set(entries["b"]) == set(entries["a"])
    for name in "ac":
        assert (entries[name]["error"], entries[name]["state"]) == (None, "shutoff")
