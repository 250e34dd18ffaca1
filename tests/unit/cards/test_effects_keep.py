# Copyright (c) 2026 Fleet Virt contributors
# GNU General Public License v3.0+ (see COPYING or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cards are as libvirt's VMs are, whatever was there before; with libvirt's test driver."""

from __future__ import annotations

import ast
import dataclasses
import os
import types
import typing as t
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.fleet.virt.plugins.module_utils._errors import FleetVirtError, PlanRefused
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import effects_definitions
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    read_caller as caller,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base import (
    read_processes as processes,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.answers import VmIdentity
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_connection import (
    Connection,
    connect,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.effects_lookup import (
    find_domain,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.names import is_card_file
from ansible_collections.fleet.virt.plugins.module_utils._fleet.base.snapshot import DomainEntry
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards import (
    effects_cards,
    effects_keep,
    read_cards,
    read_leftovers,
    read_vms,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.cards.card import Card, CardName
from ansible_collections.fleet.virt.plugins.module_utils._fleet.engine import effects_verb as verb
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    read_cell,
    read_left,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts import (
    read_placement_facts as placement_facts,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.hosts.read_domains import (
    DomainQuery,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge import effects as purge
from ansible_collections.fleet.virt.plugins.module_utils._fleet.purge import plan as purge_plan
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage import (
    read_file_systems,
    read_shared_pools,
)
from ansible_collections.fleet.virt.plugins.module_utils._fleet.storage.read_pools import (
    list_handles,
)
from ansible_collections.fleet.virt.tests.unit.cards.test_effects_cards import kills

UUID = "6f0c8a52-2f60-4b1c-9d3e-0d9a6f3f7d10"
OTHER = "11111111-2f60-4b1c-9d3e-0d9a6f3f7d10"
_MARKS = '<fleet:phase>{}</fleet:phase><fleet:owner boot_id="b" pid="1" start_time="1" run="r"/>'
_MOVE = '<fleet:move source="hv1" destination="hv2" run="r" autostart="yes" state="{}"/>'


class Host:
    """A hypervisor of libvirt's test driver with a shared pool and a local one."""

    def __init__(self, connection: Connection, folder: Path) -> None:
        self.connection = connection
        self.shared, self.local = folder / "shared", folder / "local"
        for name, path in (("shared", self.shared), ("local", self.local)):
            path.mkdir()
            xml = f"<pool type='dir'><name>{name}</name><target><path>{path}</path></target></pool>"
            pool = connection.conn.storagePoolDefineXML(xml, 0)
            pool.create(0)

    def define(
        self, name: str, *disks: Path, uuid: str = UUID, metadata: str = "", touch: bool = True
    ) -> t.Any:
        for disk in disks if touch else ():
            disk.touch()
        devices = "".join(
            f"<disk type='file'><source file='{disk}'/><target dev='vd{'abc'[number]}'/></disk>"
            for number, disk in enumerate(disks)
        )
        ours = f"<fleet:fleet xmlns:fleet='urn:fleet.virt:1'>{metadata}</fleet:fleet>"
        return self.connection.conn.defineXMLFlags(
            f"<domain type='test'><name>{name}</name><uuid>{uuid}</uuid>"
            f"<metadata>{ours if metadata else ''}</metadata><memory>1024</memory>"
            f"<os><type>hvm</type></os><devices>{devices}</devices></domain>",
            0,
        )

    @property
    def disk(self) -> Path:
        return self.shared / "web1_system.qcow2"

    def keep(self, *names: str, uuid: str | None = None) -> None:
        effects_keep.keep_cards(self.connection, names or ["web1"], uuid)

    def cards(self) -> list[str]:
        return sorted(name for name in os.listdir(self.shared) if is_card_file(name))

    def card(self, hosts: str = "hv1", name: str = "web1") -> Card:
        return read_cards.require(str(self.shared), CardName(name, tuple(hosts.split("+"))))

    def write(self, hosts: str, **changes: t.Any) -> None:
        """A card that was there before."""
        made = dataclasses.replace(self.card(), at=CardName("web1", tuple(hosts.split("+"))))
        effects_cards.write(str(self.shared), dataclasses.replace(made, **changes))

    def of_cell(self, **flags: bool) -> Card:
        """The card of a VM that a cell runs, once it is kept."""
        effects_keep.keep_cards(self.connection, ["web1"], **flags)
        return read_cards.require(str(self.shared), CardName("web1", ()))

    def rename_card(self, hosts: str, others: str) -> None:
        names = (CardName("web1", tuple(ends.split("+"))) for ends in (hosts, others))
        before, after = (self.shared / name.file for name in names)
        before.rename(after)


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    monkeypatch.setattr(read_file_systems, "has_shared", lambda: True)
    monkeypatch.setattr(read_file_systems, "is_shared", lambda folder: "shared" in str(folder))
    monkeypatch.setattr(Connection, "local", True)
    monkeypatch.setattr(caller._state, "host", "hv1")
    with connect("test:///default", 10) as connection:
        host = Host(connection, tmp_path)
        yield host
        for dom in connection.conn.listAllDomains(0):
            if dom.name() != "test":
                if dom.isActive():
                    dom.destroy()
                dom.undefineFlags(2)
        for pool in connection.conn.listAllStoragePools(0):
            if pool.name() in ("shared", "local"):
                pool.destroy()
                pool.undefine()


def test_vm_on_shared_storage_gets_a_card_once(host: Host) -> None:
    dom = host.define("web1", host.disk)
    host.keep()
    card = host.card()
    assert (card.uuid, card.running, card.autostart, card.counter) == (UUID, False, False, 0)
    assert card.disks == (str(host.disk),)
    before = (host.shared / "web1@hv1.fleet.xml").stat()
    host.keep()
    assert (host.shared / "web1@hv1.fleet.xml").stat().st_ino == before.st_ino
    dom.create()
    dom.setAutostart(1)
    host.keep()
    assert (host.card().running, host.card().autostart) == (True, True)
    assert host.cards() == ["web1@hv1.fleet.xml"]


def test_vm_with_any_other_disk_has_no_card(host: Host) -> None:
    host.define("web1", host.disk, host.local / "data.qcow2")
    host.keep()
    assert host.cards() == []
    host.define("web1", host.disk)
    host.keep()
    assert host.cards() == ["web1@hv1.fleet.xml"]
    host.define("web1", host.disk, host.local / "data.qcow2")
    host.keep()
    assert host.cards() == []


def test_snapshots_are_in_the_card_parents_first(host: Host) -> None:
    dom = host.define("web1", host.disk)
    for name in ("z", "a"):
        dom.snapshotCreateXML(f"<domainsnapshot><name>{name}</name></domainsnapshot>", 0)
    host.keep()
    card = host.card()
    assert card.current == "a"
    assert ["<parent>" in text for text in card.snapshots] == [False, True]


def test_counter_survives_a_change(host: Host) -> None:
    host.define("web1", host.disk)
    host.keep()
    host.write("hv1", counter=7)
    host.connection.conn.lookupByName("web1").create()
    host.keep()
    assert (host.card().counter, host.card().running) == (7, True)


@pytest.mark.parametrize("phase", ["creating", "purging"])
def test_vm_that_is_being_made_or_removed_has_no_card(host: Host, phase: str) -> None:
    host.define("web1", host.disk)
    host.keep()
    host.define("web1", host.disk, metadata=_MARKS.format(phase))
    host.keep()
    assert host.cards() == []


def test_marks_of_a_run_are_not_in_the_card(host: Host) -> None:
    host.define("web1", host.disk, metadata=_MARKS.format("changing"))
    host.keep()
    stored = host.card().stored
    assert (stored.phase, stored.owner, stored.move) == (None, None, None)


def test_card_of_a_moving_vm_names_source_and_destination(host: Host) -> None:
    dom = host.define("web1", host.disk)
    dom.snapshotCreateXML("<domainsnapshot><name>a</name></domainsnapshot>", 0)
    host.keep()
    marks = _MARKS.format("migrating") + _MOVE.format("running")
    host.define("web1", host.disk, metadata=marks)
    for snapshot in dom.listAllSnapshots(0):
        snapshot.delete(0)
    host.keep()
    assert host.cards() == ["web1@hv1+hv2.fleet.xml"]
    card = host.card("hv1+hv2")
    assert (card.running, card.autostart, len(card.snapshots)) == (True, True, 1)
    host.define("web1", host.disk)  # the move was undone
    host.keep()
    assert host.cards() == ["web1@hv1.fleet.xml"]


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("phase", ["", _MARKS.format("purging")])
def test_card_of_a_vm_that_is_restarted_elsewhere_stays(
    host: Host, written: bool, phase: str
) -> None:
    """Its hypervisor is back, and a verb is at work on the leftover, before the new one is done:
    the disks have other names, and so may the card's."""
    host.define("web1", host.disk)
    host.keep()
    other = host.disk.with_name("web1_system.r1.qcow2")
    os.rename(host.disk, other)
    text = host.card().definition
    host.write("hv1+hv2", definition=text.replace(host.disk.name, other.name) if written else text)
    os.unlink(host.shared / "web1@hv1.fleet.xml")
    host.define("web1", host.disk, metadata=phase, touch=False)
    if phase:
        host.keep(uuid=UUID)
    else:
        with pytest.raises(PlanRefused, match="the VM is on hv2, so hv1 writes no card"):
            host.keep(uuid=UUID)
    assert [name for name in host.cards() if "@" in name] == ["web1@hv1+hv2.fleet.xml"]


def test_vm_that_left_takes_no_card_along(host: Host) -> None:
    """A verb that was at work on it while another run moved it away."""
    host.define("web1", host.disk)
    host.keep()
    for hosts in ("hv1+hv2", "hv2"):
        host.write(hosts)
    os.unlink(host.shared / "web1@hv1.fleet.xml")
    host.connection.conn.lookupByName("web1").undefineFlags(0)
    host.keep(uuid=UUID)
    assert host.cards() == ["web1@hv1+hv2.fleet.xml", "web1@hv2.fleet.xml"]


def test_purged_vm_has_its_own_card_removed_and_no_other(host: Host) -> None:
    host.define("web1", host.disk)
    host.keep()
    host.write("hv2", uuid=OTHER, definition=host.card().definition.replace(UUID, OTHER))
    host.connection.conn.lookupByName("web1").undefineFlags(0)
    host.keep(uuid=OTHER)
    assert "web1@hv1.fleet.xml" in host.cards(), "of another VM"
    host.keep()
    assert "web1@hv1.fleet.xml" in host.cards(), "it may be about to be started here"
    host.keep(uuid=UUID)
    assert host.cards() == ["web1@hv2.fleet.xml"]


def test_renamed_vm_has_a_single_card(host: Host) -> None:
    host.define("web1", host.disk)
    host.keep()
    host.connection.conn.lookupByName("web1").undefineFlags(0)
    host.define("web2", host.disk)
    host.keep("web2", "web1", uuid=UUID)
    assert host.cards() == ["web2@hv1.fleet.xml"]


def test_card_of_another_vm_is_not_replaced(host: Host) -> None:
    host.define("web1", host.disk)
    host.keep()
    definition = host.card().definition.replace(UUID, OTHER)
    host.write("hv1", uuid=OTHER, definition=definition)
    with pytest.raises(PlanRefused, match=f"is that of another VM, {OTHER}; remove it if"):
        host.keep()
    assert host.card().uuid == OTHER


def _leave(host: Host) -> Path:
    """A definition whose VM is on hv2 now, with its disk under another name."""
    host.define("web1", host.disk)
    host.keep()
    renamed = host.shared / "web1_system.r1.qcow2"
    renamed.write_bytes(b"a disk")
    host.disk.unlink(missing_ok=True)
    text = host.card().definition.replace("web1_system.qcow2", renamed.name)
    host.write("hv2", definition=text, counter=1)
    effects_cards.remove(str(host.shared), CardName("web1", ("hv1",)))
    return renamed


def test_leftover_definition_is_removed_and_disks_kept(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the test driver has neither NVRAM nor checkpoints
    monkeypatch.setattr(effects_definitions, "_UNDEFINE", 3)
    monkeypatch.setattr(effects_definitions._libvirt, "DOMAIN_UNDEFINE_KEEP_NVRAM", 0)
    renamed = _leave(host)
    entry = {"name": "web1", "problem": None, "leftover": [str(renamed)]}
    assert effects_keep.lacking(host.connection) == [entry]
    assert effects_keep.repair(host.connection, ["web1"], check=True) == [entry]
    assert find_domain(host.connection, "web1") is not None
    assert effects_keep.repair(host.connection, ["web1"], check=False) == [entry]
    assert find_domain(host.connection, "web1") is None
    assert host.cards() == ["web1@hv2.fleet.xml"]
    assert renamed.read_bytes() == b"a disk"
    assert effects_keep.lacking(host.connection) == []


def _marked(host: Host) -> tuple[str | None, list[str]]:
    """Which hypervisor has the VM, if what is here is a leftover, and what is said of it."""
    dom = host.connection.conn.lookupByName("web1")
    vm: VmIdentity = {"name": "web1", "uuid": dom.UUIDString(), "phase": None}
    warnings = read_leftovers.mark(host.connection, [vm])
    return vm.get("leftover"), warnings


def _owner(process: tuple[str, int, int]) -> str:
    boot, pid, started = process
    return f'<fleet:owner boot_id="{boot}" pid="{pid}" start_time="{started}" run="r"/>'


def _this_process() -> tuple[str, int, int]:
    return processes.boot_id(), os.getpid(), processes.start_time(os.getpid()) or 0


@pytest.mark.parametrize(
    "why",
    ["runs", "disk exists", "phase", "a move at work", "a move without restart", "card", "UUID"],
)
def test_definition_that_may_be_more_than_leftover_is_kept(host: Host, why: str) -> None:
    _leave(host)
    dom = host.connection.conn.lookupByName("web1")
    moving = "<fleet:phase>migrating</fleet:phase>" + _MOVE.format("running")
    if why == "runs":
        dom.create()
    elif why == "disk exists":
        host.disk.write_bytes(b"another disk")
    elif why == "phase":
        host.define("web1", host.disk, metadata=_MARKS.format("changing"), touch=False)
    elif why == "a move at work":
        owner = _owner(_this_process())
        host.define("web1", host.disk, metadata=moving + owner, touch=False)
    elif why == "a move without restart":
        host.define("web1", host.disk, metadata=moving, touch=False)
        card = host.card("hv2")
        effects_cards.write(str(host.shared), dataclasses.replace(card, counter=0))
    elif why == "card":
        host.rename_card("hv2", "hv2+hv1")
    else:
        dom.undefine()
        host.define("web1", host.disk, uuid=OTHER, touch=False)
    assert _marked(host) == (None, [])
    effects_keep.repair(host.connection, ["web1"], check=False)
    assert find_domain(host.connection, "web1") is not None


def _listed(host: Host) -> DomainEntry:
    """What ``list`` and ``query`` read of it."""
    (entry,) = read_cell.domains(host.connection, DomainQuery(names=("web1",)))["domains"]
    return entry


def test_leftover_is_listed_as_such_and_not_as_a_missing_disk(host: Host) -> None:
    _leave(host)
    entry = _listed(host)
    assert (entry["state"], entry["reason"]) == ("shutoff", "leftover, by its card on hv2")
    assert entry["error"] == (
        "what hv1 has of 'web1' is a leftover, since by its card the VM is on hv2;"
        " ansible-playbook fleet.virt.repair_vms -e vm_name=web1 clears it"
    )


def test_storage_that_hangs_is_not_searched_for_leftovers(host: Host) -> None:
    _leave(host)
    error = f"disk vda: {host.disk} does not answer"
    entry: DomainEntry = {**_listed(host), "error": error}
    read_left.name(host.connection, [entry])
    assert entry["error"] == error


@pytest.mark.parametrize("why", ["card of hv1", "no card", "card of another", "no storage"])
def test_missing_disk_of_what_is_no_leftover_is_listed(
    host: Host, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    _leave(host)
    (card,) = (host.shared / name for name in host.cards())
    if why == "card of hv1":
        card.rename(host.shared / "web1@hv1.fleet.xml")
    elif why == "no card":
        card.unlink()
    elif why == "card of another":
        card.write_text(card.read_text().replace(UUID, OTHER))
    else:

        def fail(*_args: object) -> None:
            raise FleetVirtError("the storage does not answer")

        monkeypatch.setattr(read_vms, "shared_folders", fail)
    entry = _listed(host)
    assert str(entry["error"]).endswith("web1_system.qcow2: No such file or directory")
    assert entry["reason"] != "leftover, by its card on hv2"


def test_leftover_is_marked_with_hypervisor_of_its_card(host: Host) -> None:
    _leave(host)
    left = "leftover on hv1: web1 (by its card on hv2); "
    told = f"{left}ansible-playbook fleet.virt.repair_vms clears it"
    assert _marked(host) == ("hv2", [told])
    (vm,) = (vm for vm in placement_facts.defined(host.connection) if vm["name"] == "web1")
    assert vm.get("leftover") == "hv2"


def test_leftover_of_a_move_that_died_is_removed(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The VM was restarted once both ends were proven off."""
    monkeypatch.setattr(effects_definitions, "_UNDEFINE", 3)
    monkeypatch.setattr(effects_definitions._libvirt, "DOMAIN_UNDEFINE_KEEP_NVRAM", 0)
    renamed = _leave(host)
    boot, pid, started = _this_process()
    moving = "<fleet:phase>migrating</fleet:phase>" + _MOVE.format("running")
    owner = _owner((boot, pid, started + 1))  # another process had that PID
    host.define("web1", host.disk, metadata=moving + owner, touch=False)
    assert _marked(host)[0] == "hv2"
    entry = {"name": "web1", "problem": None, "leftover": [str(renamed)]}
    assert effects_keep.repair(host.connection, ["web1"], check=False) == [entry]
    assert find_domain(host.connection, "web1") is None
    assert renamed.exists()


def test_leftover_of_a_move_that_died_is_removed_where_cell_has_restarted_the_vm(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name of its card has no hypervisor, and its disks have kept their names."""
    monkeypatch.setattr(effects_definitions, "_UNDEFINE", 3)
    monkeypatch.setattr(effects_definitions._libvirt, "DOMAIN_UNDEFINE_KEEP_NVRAM", 0)
    in_cell = "<fleet:ha>yes</fleet:ha>"
    dom = host.define("web1", host.disk, metadata=in_cell)
    dom.create()
    host.of_cell()
    ends = ("hv1", "hv2")
    card = read_leftovers.restarted(host.connection, "web1", ends)
    assert card is not None
    assert card.hosts == ()
    dom.destroy()
    boot, pid, started = _this_process()
    moving = in_cell + "<fleet:phase>migrating</fleet:phase>" + _MOVE.format("running")
    host.define("web1", host.disk, metadata=moving + _owner((boot, pid, started)))
    assert _marked(host)[0] is None, "its run is alive"
    host.define("web1", host.disk, metadata=moving + _owner((boot, pid, started + 1)))
    assert _marked(host)[0] == "another member of its cell"
    entry = {"name": "web1", "problem": None, "leftover": [str(host.disk)]}
    assert effects_keep.repair(host.connection, ["web1"], check=False) == [entry]
    assert find_domain(host.connection, "web1") is None
    assert host.cards() == ["web1@.fleet.xml"]


@pytest.mark.parametrize(
    ("phase", "run", "left"),
    [
        ("changing", "lives", False),
        ("changing", "ended", True),
        ("changing", "before the boot", True),
        ("changing", "unknown", False),
        ("purging", "ended", False),
        ("purging", "before the boot", True),
    ],
)
def test_definition_of_dead_run_is_leftover_where_cell_has_restarted_the_vm(
    host: Host, phase: str, run: str, left: bool
) -> None:
    """A purge that was killed on a hypervisor that goes on is finished by the next."""
    in_cell = "<fleet:ha>yes</fleet:ha>"
    dom = host.define("web1", host.disk, metadata=in_cell)
    dom.create()
    host.of_cell()
    dom.destroy()
    boot, pid, started = _this_process()
    owner = {
        "lives": _owner((boot, pid, started)),
        "ended": _owner((boot, pid, started + 1)),
        "before the boot": _owner(("another boot", pid, started)),
        "unknown": "",
    }[run]
    marks = f"<fleet:phase>{phase}</fleet:phase>"
    host.define("web1", host.disk, metadata=in_cell + marks + owner, touch=False)
    assert _marked(host)[0] == ("another member of its cell" if left else None)


def test_leftover_on_a_hypervisor_that_returned_gets_no_card(host: Host) -> None:
    host.define("web1", host.disk)
    host.keep()
    host.write("hv2")
    os.unlink(host.shared / "web1@hv1.fleet.xml")
    with pytest.raises(PlanRefused, match="the VM is on hv2, so hv1 writes no card"):
        host.keep()
    assert host.cards() == ["web1@hv2.fleet.xml"]


def test_unreadable_card_is_written_again(host: Host) -> None:
    host.define("web1", host.disk)
    (host.shared / "web1@hv1.fleet.xml").write_text("<card")
    host.keep()
    assert host.card().uuid == UUID


def test_full_storage_is_named_with_a_remedy(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.define("web1", host.disk)

    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(PlanRefused, match=r"card of 'web1' .*No space left.*repair_vms"):
        host.keep()


@pytest.mark.parametrize("marked", [False, True])
def test_killed_keeping_is_finished_by_the_next(host: Host, marked: bool) -> None:
    """At every moment there is a card of the VM, with the source in its name."""
    host.define("web1", host.disk)
    host.keep()
    marks = _MARKS.format("migrating") + _MOVE.format("running")
    plain = "<fleet:zone>a</fleet:zone>"
    for _count in kills(host.keep):
        found = [name for name in host.cards() if not name.startswith(".")]
        assert found in (["web1@hv1.fleet.xml"], ["web1@hv1+hv2.fleet.xml"])
        assert host.card(found[0][5:-10]).uuid == UUID
        host.keep()
        host.define("web1", host.disk)
        host.keep()
        assert host.cards() == ["web1@hv1.fleet.xml"]
        host.define("web1", host.disk, metadata=marks if marked else plain)


def test_killed_purge_leaves_no_card_without_a_vm(host: Host) -> None:
    """The order of a purge: mark, card, disks, definition, card again."""

    def purge() -> None:
        host.define("web1", host.disk, metadata=_MARKS.format("purging"))
        host.keep(uuid=UUID)
        _unlink(host.disk)
        host.connection.conn.lookupByName("web1").undefineFlags(0)
        host.keep(uuid=UUID)

    for _count in kills(purge):
        there = host.connection.conn.listAllDomains(0)
        if len(there) == 1:  # the driver's own
            assert host.cards() == []
        elif not host.disk.exists():
            assert "web1@hv1.fleet.xml" not in host.cards(), "of a VM without its disk"
        host.disk.touch()
        host.define("web1", host.disk)
        host.keep()
        assert "web1@hv1.fleet.xml" in host.cards()


def _unlink(path: Path) -> None:
    os.unlink(path)


def test_purge_keeps_the_card_before_anything_is_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As in the order above: in the step before the first that removes a disk."""
    removals, kept = purge_plan.Removals(), []
    monkeypatch.setattr(purge.ownership, "read", lambda _connection: None)
    monkeypatch.setattr(purge, "_look", lambda *_args: (None, removals))
    job: t.Any = types.SimpleNamespace(
        connection=None,
        me=None,
        name="web1",
        removals=removals,
        require_dom=lambda: None,
        settings=purge.PurgeSettings(purge_plan.PurgeOptions()),
        keep_cards=lambda: kept.append("web1"),
    )
    purge._look_again(job, purge_plan.LookAgain())
    assert kept == ["web1"]


class _Arrived:
    """The VM as the destination has it."""

    def __init__(self, dom: t.Any) -> None:
        self.name, self.UUIDString, self.XMLDesc = dom.name, dom.UUIDString, dom.XMLDesc


def test_arrived_vm_has_its_card_handed_over(host: Host) -> None:
    marks = _MARKS.format("migrating") + _MOVE.format("running")
    dom = host.define("web1", host.disk, metadata=marks)
    host.keep()
    stored = dataclasses.replace(host.card("hv1+hv2").stored, zone="there")

    def arrive(copied: bool = False) -> None:
        effects_keep.arrive(host.connection, host.connection, dom, stored, "hv2", copied=copied)

    for _count in kills(arrive):
        found = [name for name in host.cards() if not name.startswith(".")]
        assert found in (["web1@hv1+hv2.fleet.xml"], ["web1@hv2.fleet.xml"])
        arrive()
        assert host.cards() == ["web1@hv2.fleet.xml"]
        assert (host.card("hv2").running, host.card("hv2").stored.zone) == (True, "there")
        os.unlink(host.shared / "web1@hv2.fleet.xml")
        host.keep()
    arrive(copied=True)
    assert not [name for name in host.cards() if "+" in name]


def test_hypervisor_without_shared_storage_costs_no_call(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.define("web1", host.disk)

    def asked(*_args: object) -> None:
        raise AssertionError("libvirt was asked")

    with monkeypatch.context() as patched:
        patched.setattr(Connection, "call", asked)
        with pytest.raises(AssertionError):
            host.keep()
        patched.setattr(read_file_systems, "has_shared", lambda: False)
        host.keep()


def test_vm_with_local_disks_costs_reading_its_definition(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.define("web1", host.local / "web1_system.qcow2")
    calls: list[str] = []
    real = Connection.call

    def counted(self: Connection, action: str, *args: t.Any, **options: t.Any) -> t.Any:
        calls.append(action)
        return real(self, action, *args, **options)

    monkeypatch.setattr(Connection, "call", counted)
    host.keep()
    assert calls == ["find domain web1", "read domain web1", "look at the folders of web1"]


def test_name_of_a_card_is_taken_for_others(host: Host) -> None:
    host.define("web1", host.disk)
    host.keep()
    host.write("hv2+hv3")
    folders = [str(host.local), str(host.shared), None]
    own = read_vms.taken(host.connection, folders, "web1", UUID)
    assert not own
    problems = read_vms.taken(host.connection, folders, "web1")
    assert [problem.split(" with ")[0].split(": ")[1] for problem in problems] == [
        "hv1 has a VM 'web1'",
        "hv2 or hv3 has a VM 'web1'",
    ]
    assert not read_vms.taken(host.connection, folders, "web2")
    assert not read_vms.taken(host.connection, [str(host.local)], "web1")


def test_repair_says_and_writes_what_lacks(host: Host) -> None:
    host.define("web1", host.disk)
    host.define("web2", host.local / "disk", uuid=OTHER)
    assert effects_keep.lacking(host.connection) == [
        {"name": "web1", "problem": None, "leftover": None}
    ]
    assert not effects_keep.lacking(host.connection, ["web2"])
    assert effects_keep.repair(host.connection, ["web1"], check=True)
    assert host.cards() == []
    written = effects_keep.repair(host.connection, ["web1"], check=False)
    assert written == [{"name": "web1", "problem": None, "leftover": None}]
    assert host.cards() == ["web1@hv1.fleet.xml"]
    assert not effects_keep.lacking(host.connection)
    host.connection.conn.lookupByName("web1").setAutostart(1)
    assert effects_keep.lacking(host.connection) == [
        {"name": "web1", "problem": None, "leftover": None}
    ]


def test_pools_are_read_once_for_all_vms(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.define("web1", host.disk)
    host.define("web2", host.shared / "other", uuid=OTHER)
    read = read_vms.read_pools
    times: list[Connection] = []

    def counted(connection: Connection) -> t.Any:
        times.append(connection)
        return read(connection)

    monkeypatch.setattr(read_vms, "read_pools", counted)
    assert len(effects_keep.lacking(host.connection)) == 2
    assert len(times) == 1


def test_repair_finishes_what_a_killed_run_left(host: Host) -> None:
    host.define("web1", host.disk)
    host.keep()
    host.write("hv1+hv2")  # the move was undone
    os.unlink(host.shared / "web1@hv1.fleet.xml")
    assert effects_keep.lacking(host.connection) == [
        {"name": "web1", "problem": None, "leftover": None}
    ]
    effects_keep.repair(host.connection, ["web1"], check=False)
    assert host.cards() == ["web1@hv1.fleet.xml"]


def test_repair_names_a_card_without_a_vm_and_leaves_it(host: Host) -> None:
    host.define("web1", host.disk)
    host.keep()
    host.connection.conn.lookupByName("web1").undefineFlags(0)
    (entry,) = effects_keep.lacking(host.connection)
    assert "hv1 has the VM 'web1', which it has not" in str(entry["problem"])
    assert "if hv1 was reinstalled" in str(entry["problem"])
    assert host.cards() == ["web1@hv1.fleet.xml"]


def test_card_is_no_volume(host: Host) -> None:
    host.disk.touch()
    (host.shared / "web1@hv1.fleet.xml").touch()
    (host.shared / ".web1@hv1.fleet.xml.new").touch()
    pool = host.connection.conn.storagePoolLookupByName("shared")
    pool.createXML("<volume><name>web1@hv1.fleet.xml</name><capacity>1</capacity></volume>", 0)
    pool.createXML("<volume><name>web1.qcow2</name><capacity>1</capacity></volume>", 0)
    names = [volume.name for volume in list_handles(pool).values()]
    assert names == ["web1.qcow2"]


def test_pool_that_is_declared_shared_has_cards(
    host: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    monkeypatch.setattr(read_file_systems, "has_shared", lambda: False)
    monkeypatch.setattr(read_file_systems, "is_shared", lambda _folder: False)
    monkeypatch.setattr(read_shared_pools, "NOTES_PATH", str(notes))
    host.define("web1", host.disk)
    assert not read_vms.concerns(host.connection)
    host.keep()
    assert host.cards() == []
    record = read_shared_pools.record_name(str(host.shared), "abc")
    (notes / str(record)).touch()
    monkeypatch.setattr(
        read_shared_pools.SharedPools,
        "recorded",
        lambda _pools, folder: read_shared_pools.recorded_in([str(record)], folder),
    )
    host.keep()
    assert host.cards() == [], "it is not mounted: it has no file with its id"
    (host.shared / read_shared_pools.POOL_ID_FILE).write_text("abc")
    monkeypatch.setattr(Connection, "local", True)
    host.keep()
    assert "web1@hv1.fleet.xml" in host.cards()
    assert read_vms.taken(host.connection, [str(host.shared)], "web1")


# --- no verb can forget it ---

_FLEET = Path(verb.__file__).parents[1]


def test_card_of_cells_vm_names_no_hypervisor(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it is off the card says who has the definition; elsewhere such a one is a leftover,
    unless the run holds the VM."""
    host.define("web1", host.disk)
    host.keep()
    dom = host.define("web1", host.disk, metadata="<fleet:ha>yes</fleet:ha>")
    card = host.of_cell(sure=True)
    assert (card.running, card.kept_by) == (False, "hv1")
    assert host.cards() == ["web1@.fleet.xml"], "and no longer that of hv1"
    monkeypatch.setattr(caller._state, "host", "hv2")
    with pytest.raises(PlanRefused, match="what hv2 has is a leftover"):
        host.of_cell()
    monkeypatch.setattr(caller._state, "host", "hv1")
    assert host.of_cell().kept_by == "hv1"
    dom.create()
    card = host.of_cell()
    assert (card.running, card.kept_by) == (True, None)
    dom.destroy()
    with pytest.raises(PlanRefused, match="what hv1 has is a leftover"):
        host.of_cell()
    assert "leftover" not in str(_listed(host)), "its card is late, and its disk is there"
    host.define("web1", host.disk)
    effects_keep.keep_cards(host.connection, ["web1"], sure=True)
    assert host.cards() == ["web1@hv1.fleet.xml"]


def test_only_the_engine_carries_out_steps() -> None:
    """Its two ways to do so both keep cards, as ``test_effects_verb.py`` shows."""
    callers = {
        path.name
        for path in _FLEET.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom)
        and any(alias.name in ("effects_executor", "carry_out") for alias in node.names)
    }
    assert callers == {"effects_verb.py"}


def test_every_verb_keeps_cards() -> None:
    """Each verb's jobs are the engine's, whose cards are kept; the ends of moves do it themselves,
    as do the steps of a restart elsewhere and any other work, else the engine raises. A backup, its
    proof, an image and a disk restored beside the VM change nothing of it, and say so."""
    with pytest.raises(NotImplementedError):
        verb.Work().keep_cards()
    own = {
        path.parent.name: node.name
        for path in _FLEET.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name == "keep_cards"
        if path.parent.name not in ("cards", "engine")
    }
    assert own == dict.fromkeys(("migration", "restart"), "keep_cards")
    changing_nothing = {
        path.parent.name
        for path in _FLEET.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Assign) and ast.unparse(node) == "changes_vm = False"
    }
    assert changing_nothing == {"backup", "restore", "template", "verify"}


MACHINE = "22222222-2f60-4b1c-9d3e-0d9a6f3f7d10"


def _renamed(host: Host, monkeypatch: pytest.MonkeyPatch, **changes: t.Any) -> None:
    """A VM with a card, of a hypervisor that the inventory calls otherwise from now on."""
    # libvirt's test driver has no UUID
    monkeypatch.setattr(read_vms, "machine_uuid", lambda _connection: MACHINE)
    host.define("web1", host.disk)
    host.keep()
    if changes:
        host.write("hv1", **changes)
    monkeypatch.setattr(caller._state, "host", "hv1.example.org")


def _complete(host: Host) -> list[str]:
    return [name for name in host.cards() if not name.startswith(".")]


_NEW_NAME = "web1@hv1.example.org.fleet.xml"


def test_card_of_renamed_hypervisor_gets_its_name(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With whatever is done to the VM, or by repair; killed anywhere, it has one card."""
    _renamed(host, monkeypatch)
    entry = {"name": "web1", "problem": None, "leftover": None, "called": "hv1"}
    assert effects_keep.lacking(host.connection) == [entry]
    assert effects_keep.repair(host.connection, ["web1"], check=True)
    assert host.cards() == ["web1@hv1.fleet.xml"]
    for _count in kills(host.keep):
        assert _complete(host) in (["web1@hv1.fleet.xml"], [_NEW_NAME])
        host.keep()
        assert _complete(host) == [_NEW_NAME]
        os.rename(host.shared / _NEW_NAME, host.shared / "web1@hv1.fleet.xml")
    host.keep()
    assert host.cards() == [_NEW_NAME]
    assert effects_keep.lacking(host.connection) == []


def test_purge_on_renamed_hypervisor_removes_card(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    _renamed(host, monkeypatch)
    host.connection.conn.lookupByName("web1").undefineFlags(0)
    host.keep(uuid=UUID)
    assert host.cards() == []


def test_move_from_renamed_hypervisor_takes_card_along(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    _renamed(host, monkeypatch)
    move = _MOVE.format("running").replace('"hv1"', '"hv1.example.org"')
    host.define("web1", host.disk, metadata=_MARKS.format("migrating") + move)
    host.keep()
    assert host.cards() == ["web1@hv1.example.org+hv2.fleet.xml"]


@pytest.mark.parametrize("machine", [None, OTHER])
def test_card_of_other_host_or_earlier_version_stays(
    host: Host, monkeypatch: pytest.MonkeyPatch, machine: str | None
) -> None:
    _renamed(host, monkeypatch, machine=machine)
    with pytest.raises(PlanRefused, match=r"on hv1, so hv1\.example\.org writes no card"):
        host.keep()
    assert host.cards() == ["web1@hv1.fleet.xml"]


def test_leftover_takes_no_card_of_host_with_same_uuid(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Boards with a UUID that is not their own: the disks have other names, so the VM is there."""
    _renamed(host, monkeypatch)
    os.rename(host.disk, host.shared / "web1_system.r1.qcow2")
    text = host.card().definition.replace("web1_system.qcow2", "web1_system.r1.qcow2")
    host.write("hv1", definition=text, counter=1)
    with pytest.raises(PlanRefused, match="the VM is on hv1"):
        host.keep()
    assert host.cards() == ["web1@hv1.fleet.xml"]


def test_vm_of_cell_on_renamed_hypervisor_is_no_leftover(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_vms, "machine_uuid", lambda _connection: MACHINE)
    host.define("web1", host.disk, metadata="<fleet:ha>yes</fleet:ha>")
    assert host.of_cell(sure=True).kept_by == "hv1"
    monkeypatch.setattr(caller._state, "host", "hv1.example.org")
    assert effects_keep.clear_leftovers(host.connection, ["web1"], check=False) == []
    assert find_domain(host.connection, "web1") is not None
    assert host.of_cell().kept_by == "hv1.example.org"


def test_host_uuid_that_changed_writes_no_card(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_vms, "machine_uuid", lambda _connection: MACHINE)
    host.define("web1", host.disk)
    host.keep()
    host.write("hv1", machine=OTHER)
    assert effects_keep.lacking(host.connection) == []
    host.write("hv1", machine=None)  # by an earlier version
    assert len(effects_keep.lacking(host.connection)) == 1
